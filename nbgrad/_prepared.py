"""Ops of one tensor that are settled by how it lies: reductions, scans, sorts, softmax.

Promises them that whatever depends on a layout and on settings is worked out once. `prepared` makes an op of a function that, given a
Spec and settings, returns what computes the op on tensors that lie so. `settled` makes a user's function of one that looks at
its arguments and says which op they come to: that answer is kept too, so such a call costs one look-up, a launch and a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import signature
from typing import Any

import numpy as np

from nbgrad import _dtypes, _transforms
from nbgrad._op import Op
from nbgrad._plan import _PLANS
from nbgrad._record import record_op, save
from nbgrad._storage import Marked, Spec, Storage
from nbgrad._tape.modes import shared, state
from nbgrad._tape.node import Node, sequence
from nbgrad._tensor import Tensor, accumulator, empty, history, note_origin, wrap

Run = Callable[[Tensor], Any]
_empty = np.empty
_bytes = np.dtype(np.uint8)


class Prepared:
    """An op, with settings, on tensors of one Spec: `run` computes it. The rest is for the record: its rule once there was one, and
    what each node keeps beside tensors."""

    __slots__ = ("kept", "op", "outputs", "rule", "run", "spec", "static")

    def __init__(self, op: Op, sp: Spec, static: dict[str, Any], run: Run) -> None:
        self.op, self.spec, self.static, self.run = op, sp, static, run
        self.rule: Any = None
        self.kept: Any = None
        self.outputs = 1


def prepared(
    node_name: str = "",
    tangent: Callable[..., Any] | str | None = None,
    batch: Callable[..., Any] | None = None,
    result: Callable[[Any], Any] | None = None,
    **rules: Callable[..., Any],
) -> Callable[[Callable[..., Run]], Callable[..., Any]]:
    """Make `prepare(input, **static)` an op of one tensor, with rules as `differentiable` has them, none if it has no gradient; `input` is
    the tensor's Spec. `result` makes what users get of several results."""

    def make(prepare: Callable[..., Run]) -> Callable[..., Any]:
        op = Op(
            prepare, rules, node_name if node_name[-1:].isdigit() else node_name + "Backward0", tangent, batch
        )
        known: dict[Any, Prepared] = {}

        def at(sp: Spec, static: dict[str, Any]) -> Prepared:
            key = (sp, *static.items())
            found = known.get(key)
            if found is None:
                if len(known) >= _PLANS:
                    known.clear()
                run = prepare(sp, **static)
                found = known[key] = Prepared(op, sp, static, run if result is None else _then(run, result))
            return found

        def function(input: Tensor, **static: Any) -> Any:
            if state.active and _transforms.wrapped((input,)):
                got = _transforms.apply(op, function, (input,), static)
                return got if result is None else result(got)
            plan = at(input._spec, static)
            got = plan.run(input)
            if input._rg and state.grad:
                record_prepared(plan, got, input)
            return got

        function.at, function.op = at, op  # type: ignore[attr-defined]
        function.__name__, function.__doc__ = op.name, prepare.__doc__
        return function

    return make


def call_of(op: Any, input: Tensor, **static: Any) -> Any:
    """What a settled function answers: the op with these settings. Within a transform it is the result itself."""
    return op(input, **static) if type(input._spec) is Marked else op.at(input._spec, static)


def _then(run: Run, result: Callable[[Any], Any]) -> Run:
    return lambda t: result(run(t))


def record_prepared(plan: Prepared, result: Any, a: Tensor) -> None:
    """Give new results the history of the op: `record_op` for one input, with nothing looked up that the plan knows."""
    op = plan.op
    if not op.rules:
        return
    rule = plan.rule
    if rule is None or (a._rg == 2 and history(a) is None):
        record_op(op, result, (a,), plan.static)
        plan.rule = rule = op.by_mask.get(0b11)
        if rule is not None:
            outs = (result,) if rule.single else result
            plan.kept = (
                plan.static,
                (plan.spec,),
                result._spec if rule.single else tuple([o._spec for o in outs]),
            )
            plan.outputs = sum([o._spec.dtype.is_floating_point for o in outs])
        return
    node = Node()
    node.next = (a._node or accumulator(a),)
    if a._nr:
        node.numbers = (a._nr,)
    node.static = plan.kept
    if rule.saved_names:
        saved = [a] if rule.inputs else []
        for k in rule.outputs:
            o = result if rule.single else result[k]
            kept = wrap(o._buf, o._spec)
            kept._storage = o._storage = Storage(o._buf)
            saved.append(kept)
        if shared.rare or a._storage is not None:
            node.saved, node.versions = save(saved)
        else:
            node.saved = tuple(saved)
    node.rule = rule
    node.seq = next(sequence)
    if shared.rare:
        note_origin(node)
    if rule.single:
        result._node, result._rg = node, 1
        return
    node.outputs = plan.outputs
    for k in range(plan.outputs):  # integers come last, and get no gradient
        o = result[k]
        o._node, o._nr, o._rg = node, k, 1


def filled(
    launch: Any, address: int, n: int, meta: Any, outs: Sequence[Spec], numbers: tuple[float, ...] = ()
) -> Run:
    """What runs a kernel whose arguments are `meta`, the results, the tensor, and numbers. One result and two are written out: what a
    call on few elements costs are the interpreter's steps."""

    def several(t: Tensor) -> Any:
        made = [empty(sp) for sp in outs]
        launch(address, n, meta, *[o._buf for o in made], t._buf, *numbers)
        return made[0] if len(made) == 1 else tuple(made)

    if numbers or len(outs) > 2:
        return several
    out, size = outs[0], outs[0].nbytes

    def one(t: Tensor) -> Tensor:
        buf = _empty(size, _bytes)
        launch(address, n, meta, buf, t._buf)
        return wrap(buf, out)

    if len(outs) == 1:
        return one
    second, second_size = outs[1], outs[1].nbytes

    def two(t: Tensor) -> tuple[Tensor, Tensor]:
        buf, other = _empty(size, _bytes), _empty(second_size, _bytes)
        launch(address, n, meta, buf, other, t._buf)
        return wrap(buf, out), wrap(other, second)

    return two


# ---------------------------------------------------------------- users' functions

_SETTLED = """
def {name}({parameters}):
    try:
        plan = find(({key}))
    except (AttributeError, TypeError):
        plan = None
    if plan is None{given}:
        plan = function({call})
        if type(plan) is not Prepared:
            return plan
        keep(({key}), plan, {more})
    result = plan.run({first})
    if {first}._rg and state.grad:
        record_prepared(plan, result, {first})
    return result
"""
_PLAIN = {int, bool, float, str, type(None), type}
_kept: list[dict[Any, Prepared]] = []


def settled(function: Callable[..., Any]) -> Any:
    """`function(input, settings, *, more)` checks its arguments and returns `call_of(op, input, ...)`, the op that the call comes to; or,
    where it comes to more than one (`out=`, another dtype), the result. The answer may depend on the Spec of `input` and on the
    settings alone; for a call that names no `more` it is not asked for again."""
    plans: dict[Any, Prepared] = {}
    _kept.append(plans)

    def keep(key: tuple[Any, ...], plan: Prepared, more: bool) -> None:
        """Of what a tuple holds the types are not known, and 1 is neither True nor 1.0."""
        if not more and all([type(setting) in _PLAIN or setting == () for setting in key[1:]]):
            if len(plans) >= _PLANS:
                plans.clear()
            plans[key] = plan

    first, *rest = signature(function).parameters.values()
    settings = [p for p in rest if p.kind is not p.KEYWORD_ONLY]
    named = [p for p in rest if p.kind is p.KEYWORD_ONLY]
    listed = [p.name if p.default is p.empty else f"{p.name}=_{p.name}" for p in rest]
    key = [p.name for p in settings] + [
        f"type({p.name})" for p in settings if not isinstance(p.default, bool)
    ]
    more = [f"{p.name} is not _{p.name}" for p in named]
    text = _SETTLED.format(
        name=function.__name__,
        parameters=", ".join(
            [first.name, *listed[: len(settings)], *["*"] * bool(named), *listed[len(settings) :]]
        ),
        key=", ".join([f"{first.name}._spec", *key]) + ",",
        given="".join(f" or {text}" for text in more),
        more=" or ".join(more) or "False",
        call=", ".join([first.name, *(p.name for p in settings), *(f"{p.name}={p.name}" for p in named)]),
        first=first.name,
    )
    scope: dict[str, Any] = dict(find=plans.get, function=function, keep=keep, Prepared=Prepared, state=state)
    scope |= dict(record_prepared=record_prepared, __name__=function.__module__)
    exec(text, scope := scope | {f"_{p.name}": p.default for p in rest})
    return update_wrapper(scope[function.__name__], function)


def _forget() -> None:
    """The default dtype, on which answers may rest, was changed."""
    for plans in _kept:
        plans.clear()


_dtypes.on_new_default.append(_forget)
