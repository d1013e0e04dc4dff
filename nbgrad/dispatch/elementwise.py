"""The one point that every op passes: promote, decide the layout, launch, record.

Promises the ops: from a record (`ElementwiseOp`, `Op`) a function with PyTorch's calling form. What depends on operands only
through their specs is worked out once, as a `Plan`, and found again by one dictionary look-up, so a call costs a look-up, a
buffer, a launch and a tensor. A tensor that a transform looks after carries a spec of its own, which no plan knows, so that
transforms cost the short way nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter
from typing import Any

import numpy as np

from nbgrad.base import source
from nbgrad.base.source import Lines
from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.core.arguments import (
    anew,
    definition,
    guard,
    later,
    missing,
    named_operands,
    other_names,
    renamed,
    unset,
    unusual,
)
from nbgrad.core.op import ElementwiseOp, Op
from nbgrad.core.overrides import answered_elsewhere, elsewhere, overridden
from nbgrad.core.plan import (
    Plan,
    check_out_dtype,
    check_values,
    divides,
    dtypes_of,
    launch,
    number_type,
    plan_for,
)
from nbgrad.core.refusals import OVERLAP, PARTIAL
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor, as_inference, history, hooks, new, requires, storage_of, view_of, wrap
from nbgrad.core.writes import check_write, rebase, written
from nbgrad.dispatch import transforms
from nbgrad.expr.node import Expr, is_bool, substitute
from nbgrad.history.record import record, record_op, recorder, rule_of
from nbgrad.memory import backend, layout
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Spec, Storage
from nbgrad.tape.modes import shared, state

_bytes = np.dtype(np.uint8)

# ---------------------------------------------------------------- elementwise functions


def elementwise_function(op: ElementwiseOp, foreign: Any = None) -> Callable[..., Any]:
    """The op as a function of tensors and numbers. As an operator it gives `foreign` (NotImplemented) for an operand that is neither."""

    def known_as(path: str) -> Callable[..., Any]:
        made = _made(op, path, foreign)
        return renamed(made, function, path) if path else made

    op.function = function = known_as("")
    function.known_as = known_as  # type: ignore[attr-defined]
    return function


def reflected(op: ElementwiseOp) -> Callable[..., Any]:
    """An op of two operands as the operator of a tensor and what stands before it."""
    return _made(op, "", NotImplemented, at=1)


def usually(op: ElementwiseOp, **keyword: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function with a keyword beside its operands the op as long as the keyword has its usual value."""
    ((name, value),) = keyword.items()

    def make(otherwise: Callable[..., Any]) -> Callable[..., Any]:
        def known_as(path: str) -> Callable[..., Any]:
            judged = guard(path, otherwise) if path else otherwise
            return renamed(_made(op, path, None, name, value, judged), otherwise, path)

        function = known_as("")
        function.known_as = known_as  # type: ignore[attr-defined]
        return function

    return make


def _made(
    op: ElementwiseOp,
    path: str,
    foreign: Any,
    keyword: str = "",
    usual: Any = None,
    otherwise: Any = None,
    at: int = 0,
) -> Callable[..., Any]:
    """The short way of an op, for users (who know it under a path) with all names that PyTorch takes; the operand `at` is a tensor, and
    comes first."""
    scope = _SCOPE | dict(
        op=op, find=op.plans.get, foreign=foreign, usual=usual, otherwise=otherwise, path=path
    )
    write = partial(_written, op, path, foreign is not None, keyword, usual, scope, at)
    made: Callable[..., Any] = later(
        write, "function", scope, "short way of elementwise ops", "kinds of operands", shared=True
    )
    return made


def _written(
    op: ElementwiseOp,
    path: str,
    operator: bool,
    keyword: str,
    usual: Any,
    scope: dict[str, Any],
    at: int,
    made: Any,
) -> str:
    names, others = named_operands(
        path.removeprefix("Tensor."), len(op.params), (keyword, "out") if keyword else ("out",)
    )

    def again(given: dict[str, Any]) -> Any:
        more = [
            Parameter(n, Parameter.KEYWORD_ONLY, default=v) for n, v in ((keyword, usual), ("out", None)) if n
        ]
        every = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in names]
        return anew(path, [*every, *more], made, given)

    scope["anew"] = again
    return _short_way(
        tuple([p in op.settings or p in op.fits for p in op.params]),
        tuple([k == at or p in op.tensors for k, p in enumerate(op.params)]),
        tuple([p in op.fits for p in op.params]),
        op.promote not in ("compare", "bool"),
        operator,
        keyword,
        names,
        others,
        op.integers is not None,
        at,
    )


@cached(128)
def _short_way(
    numbers: tuple[bool, ...],
    tensors: tuple[bool, ...],
    fits: tuple[bool, ...],
    differentiable: bool,
    operator: bool,
    keyword: str,
    names: tuple[str, ...],
    others: tuple[str, ...],
    checked: bool,
    at: int,
) -> str:
    """Source of the short way for operands of these kinds, without a loop: one over three operands costs as much as the rest of the
    call. Of settings and of what has to fit it takes numbers only; all else is for `call` to judge, as is a number that does not fit.
    Where integers are `checked`, as divisors are, it takes those that are no multiple of any dtype's range, and tensors of which that is
    seen."""
    listed = ", ".join(names)
    keys, values = [], []
    lines: list[Any] = []
    asked = " + ".join([f"{4**k} * {v}._rg" if k else f"{v}._rg" for k, v in enumerate(names) if tensors[k]])
    if differentiable:
        lines.append(f"asked = {asked}")
    for k, v in enumerate(names):
        if tensors[k]:
            keys.append(f"{v}._spec")
            values.append(f"{v}._buf")
        elif numbers[k]:
            keys.append(f"k{k}")
            values.append(v)
            big = f"k{k} is int and not low <= {v} <= high"
            lines += [f"k{k} = type({v})", f"if k{k} is complex or ({big}):", [f"k{k} = None"]]
        else:
            keys.append(f"k{k}")
            values.append(f"b{k}")
            lines += [
                f"k{k} = type({v})",
                f"if k{k} is float:",
                [f"b{k} = {v}"],
                f"elif k{k} is int:",
                [f"b{k} = {v}", f"if not low <= {v} <= high:", [f"k{k} = None"]],
                f"elif k{k} is complex:",
                [f"b{k} = {v}"],
                "else:",
                [f"k{k}, b{k} = {v}._spec, {v}._buf", *[f"asked += {4**k} * {v}._rg"] * differentiable],
            ]
    named = [f"{keyword}=usual", "out=None"][not keyword :]
    # Each that is asked for is time of every call.
    only = [name for name in others if name not in other_names(names)]
    absent = [f"if {missing(names)}:", ["return anew(locals())"]]
    other = f'return otherwise({listed}, {keyword}={keyword}, **({{}} if out is None else {{"out": out}}))'
    return source.fill(
        _SHORT,
        signature=definition([f"{name}=_unset" for name in names[:: -1 if at else 1]], named, (), others),
        unusual=unusual((), only),
        keyword=[f"if {keyword} is not usual:", [*absent, other]] if keyword else [],
        absent=absent,
        names=listed,
        operands=lines,
        keys=", ".join(keys),
        checked=[
            "if plan is None:",
            [
                f"if 0 < {names[-1]} < 256 if {keys[-1]} is int else divides({keys[-1]}, {values[-1]}):",
                [f"plan = find((({', '.join(keys)},),))"],
            ],
        ]
        if checked
        else [],
        values=", ".join(values),
        fit="".join(
            [
                f" or not (plan.low <= {v} <= plan.high or {v} in plan.beyond)"
                for v, fit in zip(names, fits)
                if fit
            ]
        ),
        foreign=_FOREIGN[at] if operator else [],
        history=[
            "if asked and state.grad:",
            [f"(plan.recorders.get(asked) or recorder(plan, asked))(t, {listed})"],
            "else:",
            _NO_HISTORY,
        ]
        if differentiable
        else _NO_HISTORY,
    )


_SHORT = """
def function({signature}):
    if {unusual}:
        return anew(locals())
    {keyword}
    try:
        {operands}
        plan = find(({keys},))
        {checked}
    except AttributeError:
        plan = None
    if plan is None or out is not None{fit}:
        if not (plan is None{fit}) and over(plan, out, ({names},), {values}):
            return out
        {absent}
        {foreign}
        return call(op, ({names},), out, path)
    try:
        buf = plan.allocate(plan.nbytes, bytes_)
        plan.launch(plan.address, plan.n, buf, {values})
    except OverflowError:
        return call(op, ({names},))
    except MemoryError as error:
        check_room(error)
        raise
    t = new(Tensor)
    t._buf, t._spec = buf, plan.out
    t._storage = t._view = t._ad = None
    t._nr = 0
    {history}
    return t
"""
_FOREIGN: tuple[Lines, Lines] = (
    [
        "if not isinstance(other, Tensor) and number_type(other) is None:",
        ["again = overridden(path, (input, other), {})", "return foreign if again is None else again()"],
    ],
    ["if not isinstance(input, Tensor) and number_type(input) is None:", ["return foreign"]],
)
_NO_HISTORY = [
    "t._rg, t._node = 0, None",
    "if shared.rare and state.modes.inference:",
    ["as_inference(t)"],
]


def over(plan: Plan, out: Any, args: Sequence[Any], *values: Any) -> bool:
    """Run a plan into the memory of an `out=` that lies as the result does, where there is nothing to refuse; whether it was."""
    if out.__class__ is not Tensor or out._spec is not plan.out:
        return False
    if not quiet(out, *[a for a in args if isinstance(a, Tensor)]):
        return False
    try:
        plan.launch(plan.address, plan.n, out._buf, *values)
    except OverflowError:
        return False
    written(out)
    return True


def operands_of(op: ElementwiseOp, args: Sequence[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for k, a in enumerate(args):
        if isinstance(a, Tensor):
            found.append(a._spec.plain)
            continue
        kind = number_type(a)
        if kind is None or op.params[k] in op.tensors:
            raise TypeError(
                f"{op.name}(): argument '{op.params[k]}' (position {k + 1}) must be Tensor, not {type(a).__name__}"
            )
        if kind is int and not -(2**63) <= a < 2**64:
            raise OverflowError(
                "int too big to convert" if a > 0 else "can't convert negative int to unsigned"
            )
        found.append(kind)
    return tuple(found)


def call(op: ElementwiseOp, args: Sequence[Any], out: Tensor | None = None, path: str = "") -> Tensor:
    """The long way: any arity, numbers anywhere, `out`. It also makes the plan that the short way finds next time. `path` is the
    name under which a user called the op."""
    if len(args) != len(op.params):
        raise TypeError(f"{op.name}() takes {len(op.params)} arguments but {len(args)} were given")
    if state.levels and out is None:
        found = transforms.of_examples(op, args)
        if found is not None:
            return found
    if any(isinstance(a, Expr) for a in args):  # in the body of another op, which is being traced
        return substitute(op.body, dict(zip(op.params, args)))  # type: ignore[return-value]
    if path:
        named = {} if out is None else {"out": out}
        try:
            check(path, tuple(args[path.startswith("Tensor.") :]), named)
        except TypeError:
            again = overridden(path, tuple(args), named)
            if again is None:
                raise
            return again()
    if elsewhere:
        again = answered_elsewhere(path or op.name, tuple(args), {} if out is None else {"out": out})
        if again is not None:
            return again()
    operands = operands_of(op, args)
    if not any(isinstance(o, Spec) for o in operands):
        args = (hooks.scalar(args[0]), *args[1:])
        operands = operands_of(op, args)
    if out is not None:
        derived = op.promote not in ("compare", "bool") and len(op.flat) < len(op.params)
        compute, made = dtypes_of(op, operands)
        exact = None if compute.is_complex and op.real_valued else op.exact  # sizes go into complex numbers
        check_out(op.name, out, made, args, exact, derived)
        check_apart(out, args)
        result = call(op, args)
        if any(a is out for a in args):  # what is read as well is not resized
            layout.check_target(out._spec.shape, result._spec.shape)
        return into(op.name, out, result, args, exact, derived=derived)
    if state.active and transforms.wrapped(args):
        return transforms.elementwise(op, args)
    plan, buf = launched(op, args)
    t = wrap(buf, plan.out)
    if state.grad and any(isinstance(a, Tensor) and a._rg for a in args):
        record(plan, t, args)
    return t


def launched(op: ElementwiseOp, args: Sequence[Any], over: Tensor | None = None) -> tuple[Plan, Any]:
    """Run the op on these operands, into new memory or `over` the first. The plan is looked up here, by the operands that the
    launch is given: a plan of any others, which lie otherwise in memory, would read beyond them."""
    plan = plan_for(op, operands_of(op, args), None if over is None else over._spec)
    check_values(plan, args)
    if over is not None:
        launch(plan, over._buf, args[1:])
        return plan, over._buf
    buf = plan.out.backend.empty(plan.nbytes)
    launch(plan, buf, args)
    return plan, buf


def check_out(
    name: str,
    out: Tensor,
    result: dtype,
    inputs: Sequence[Any],
    exact: str | None = None,
    derived: bool = True,
) -> None:
    """Refuse an `out=` that cannot take the result. `exact` holds the words of an op that casts nothing; one that is not `derived` has
    no gradient that would be lost."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    given = (out, *inputs)
    if derived and state.grad and any(isinstance(a, Tensor) and requires(a) for a in given):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if state.duals and transforms.moves(given):
        raise NotImplementedError(
            f"Trying to use forward AD with {name}_out that does not support it because it is an out= function"
        )
    check_out_dtype(name, result, out._spec.dtype, exact)


def check_apart(out: Tensor, tensors: Sequence[Any]) -> None:
    """Refuse an `out=` that overlaps one of these in part."""
    if any(isinstance(t, Tensor) and overlap(out, t) == "part" for t in tensors):
        raise RuntimeError(PARTIAL)


def into(
    name: str,
    out: Tensor,
    result: Tensor,
    inputs: Sequence[Any],
    exact: str | None = None,
    apart: Sequence[Tensor] = (),
    derived: bool = True,
) -> Tensor:
    """Write a result where `out=` says, resizing an empty `out`; PyTorch records nothing here and refuses what would need it.
    `apart` are the tensors of which PyTorch refuses that `out` overlaps them in part."""
    read = [t for t in (*inputs, *apart) if isinstance(t, Tensor)]
    lies_so = out.__class__ is Tensor and out._spec is result._spec and not out._spec.repeats
    if lies_so and quiet(out, result, *read):
        hooks.copy_memory(out, result)
        written(out)
        return out
    check_out(name, out, result._spec.dtype, inputs, exact, derived)
    if out._spec.device is not result._spec.device:
        raise RuntimeError(
            f"Attempting to copy from device {result.device} to device {out.device}, but cross-device copies are not allowed!"
        )
    check_apart(out, apart)
    if out._spec.repeats:
        raise RuntimeError(OVERLAP)
    if out._spec.shape != result._spec.shape:
        dense = layout.is_dense(result._spec.shape, result._spec.strides)  # it lies as the result does
        hooks.resize(out, result._spec.shape, result._spec.strides if dense else None)
    recorded, state.grad = state.grad, state.grad and derived
    try:
        hooks.copy_(out, result)
    finally:
        state.grad = recorded
    return out


# ---------------------------------------------------------------- in place


def inplace(op: ElementwiseOp, args: Sequence[Any]) -> Tensor:
    """`args[0]` becomes the result. Nothing is changed before everything has been checked."""
    t = args[0]
    if usual_write(op, t, args):
        return t
    if elsewhere:
        again = answered_elsewhere(f"{op.name}_", tuple(args), {})
        if again is not None:
            return again()
    operands = operands_of(op, args)
    if state.active and transforms.wrapped(args):
        if is_bool(op.body) and not op.flat:
            return hooks.copy_(t, op.function(*args))  # with what a copy makes of the history and the tangent
        return transforms.inplace(op.function, *args)
    recorded = state.grad and any(
        isinstance(a, Tensor) and requires(a) for p, a in zip(op.params, args) if p not in op.flat
    )
    check_write(t, recorded)
    read = [t, *(apart(t, a) for a in args[1:])]
    node = None
    if recorded:
        mask = tuple(isinstance(a, Tensor) and requires(a) for a in args)
        conjugated = dtypes_of(op, operands)[0].is_complex
        names = op.reads(tuple(p for p, m in zip(op.params, mask) if m), conjugated)
        before = list(
            args
        )  # as they were given: what is saved of an operand in the same memory has been written to
        if op.params[0] in names:
            kept = hooks.clone(t.detach())  # the rule reads what is about to be overwritten
            kept._node, kept._nr, kept._rg = t._node, t._nr, 1 if t._node is not None else 0
            before[0] = kept
        plan = plan_for(op, operands, t._spec)
        if before[0]._spec is not t._spec:
            plan = plan_for(op, operands_of(op, before), t._spec, runs=False)
        shadow = wrap(t._buf, t._spec)
        shadow._storage = storage_of(t)
        record(plan, shadow, before)
        node = shadow._node
    launched(op, read, t)
    if node is None:
        written(t)
        return t
    _rewritten(t, node)
    return t


def _rewritten(t: Tensor, node: Any) -> None:
    if node.rule.saves_output:  # saved as of after the write, unlike what the op read
        *saved, last = node.versions[: len(node.rule.saved_names)]
        node.versions = (*saved, last + 1)
    rebase(t, node)


def usual_write(op: ElementwiseOp, t: Tensor, args: Sequence[Any]) -> bool:
    """Run a write that was planned before and is usual: no mode that looks at it, no operand in the same memory, and no history but
    that of a tensor that was computed, of which the rule reads nothing that is about to be overwritten."""
    storage = t._storage
    if state.active or shared.rare or (storage is not None and storage.inference):
        return False
    kinds: list[Any] = []
    values: list[Any] = []
    recorded, grad = False, state.grad
    for a in args:
        if isinstance(a, Tensor):
            if a._rg and grad and (a._rg == 1 or requires(a)):
                recorded = True
            other = a._storage
            in_step = a._buf is t._buf and a._spec is t._spec
            if not in_step and other is not None and storage is not None and may_meet(storage, other):
                return False
            kinds.append(a._spec)
            values.append(a._buf)
        else:
            kinds.append(type(a))
            values.append(a)
    plan = op.plans.get((tuple(kinds), t._spec, True))
    if plan is None:
        return False
    for p in op.fits:
        a = args[op.params.index(p)]
        if not isinstance(a, Tensor) and (
            type(a) is complex or (not plan.low <= a <= plan.high and a not in plan.beyond)
        ):
            return False
    if recorded:
        return _recorded_write(op, plan, t, args)
    try:
        plan.launch(plan.address, plan.n, *values)
    except OverflowError:
        launch(plan, t._buf, args[1:])
    if storage is None:
        written(t)
    else:
        storage.version += 1
    return True


def _recorded_write(op: ElementwiseOp, plan: Plan, t: Tensor, args: Sequence[Any]) -> bool:
    """The same with history, where there is nothing to refuse."""
    view = t._view
    if view is None:
        if t._node is None and t._rg:
            return False
    elif view.leaf or view.created != "default" or t._rg != 2 or (view.base._node is None and requires(t)):
        return False
    asked = shift = 0
    for a in args:
        if isinstance(a, Tensor):
            asked |= a._rg << shift
        shift += 2
    record = plan.rewriters.get(asked)
    if record is None:
        record = plan.rewriters[asked] = _rewriter(op, plan, t._spec, asked)
    if record is False:
        return False
    shadow: Any = new(Tensor)  # `wrap`, in line
    shadow._buf, shadow._spec, shadow._storage = t._buf, t._spec, t._storage or storage_of(t)
    shadow._rg = shadow._nr = 0
    shadow._node = shadow._view = shadow._ad = None
    record(shadow, *args)
    node = shadow._node
    if node is None:
        return False
    launch(plan, t._buf, args[1:])
    _rewritten(t, node)
    return True


def _rewriter(op: ElementwiseOp, plan: Plan, sp: Spec, asked: int) -> Any:
    """What records such a write, before it happens. A rule that reads what is overwritten is given a copy."""
    if op.flat or sp.repeats:
        return False
    rule = rule_of(plan, tuple([asked >> 2 * k & 3 != 0 for k in range(len(op.params))]))
    if 0 not in rule.tensor_positions:
        return recorder(plan, asked)
    if sp.strides != layout.kept_strides(sp.shape, sp.strides):
        return False  # a copy lies otherwise
    copy, find = hooks.copier(sp, sp), plan.recorders.get

    def record(shadow: Tensor, t: Tensor, *others: Any) -> None:
        kept = copy(t)
        kept._node, kept._nr = history(t), t._nr
        kept._rg = 1 if kept._node is not None else 0
        now = asked & ~3 | kept._rg
        (find(now) or recorder(plan, now))(shadow, kept, *others)

    return record


def add_into(op: ElementwiseOp, total: Tensor, grad: Tensor) -> Tensor:
    """`total += grad` for gradients: no history, no overlap, one dtype; a counted write. What is sparse may come to another tensor."""
    if total._spec.repeats:  # a user's
        raise RuntimeError(OVERLAP)
    key = total._spec, grad._spec
    plan = _sums.get(key)
    if plan is None:
        again = answered_elsewhere("add_grads", (total, grad), {}) if elsewhere else None
        if again is not None:
            return again()
        plan = _sums.keep(key, plan_for(op, key, total._spec))
    plan.launch(plan.address, plan.n, total._buf, grad._buf)
    written(total)
    return total


_sums: Table[tuple[Spec, Spec], Plan] = Table("dispatch.elementwise.sums", PLANS)


def may_meet(storage: Storage, other: Storage) -> bool:
    """Whether two storages may hold the same memory. What was not made here may be there under several names."""
    a, b = storage.memory, other.memory
    if a is b or (a.base is None and b.base is None):
        return a is b
    a, b = _owner(a), _owner(b)
    return a is b or a is None or b is None


def _owner(memory: Any) -> Any:
    """What has a buffer's memory all for itself, as arrays of NumPy's and of Python's do; None where that is not known."""
    base = memory if memory.base is None else memory.base
    if type(base) is memoryview:  # as of `tensor([1.0, 2.0])`
        return base.obj if type(base.obj) in (array, bytearray) else None
    return base if isinstance(base, np.ndarray) and base.base is None else None


def usually_writes(
    op: ElementwiseOp | None, scaled: ElementwiseOp | None = None, **keyword: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A form in place with a short way in front, one look-up and a launch where the write is usual (`usual_write` says which). With a
    keyword that has not the value said here, `scaled` is the op, and takes it behind the others; always if there is no other op."""
    ((name, usual),) = keyword.items() or (("", None),)

    def make(otherwise: Callable[..., Any]) -> Callable[..., Any]:
        def known_as(path: str) -> Callable[..., Any]:
            scope = _WRITING | dict(otherwise=guard(path, otherwise) if path else otherwise, usual=usual)
            scope |= dict(op=op, scaled=scaled)
            kinds = [None if o is None else _settings_of(o) for o in (op, scaled)]
            write = lambda _: _written_in_place(kinds[0], kinds[1], name)  # noqa: E731
            made = later(write, "function", scope, "short way of writes", "kinds of operands", True, path)
            made = renamed(made, otherwise, path)
            if path:
                made.__doc__ = function.__doc__  # which it was given
            return made

        function: Any = known_as("")
        function.known_as = known_as
        return function

    return make


# Of each operand, whether it is a number and whether that has to fit; and whether divisors are looked at.
_Settings = tuple[tuple[tuple[bool, bool], ...], bool]


def _settings_of(op: ElementwiseOp) -> _Settings:
    operands = [(p in op.settings or p in op.fits, p in op.fits) for p in op.params]
    return tuple(operands), op.integers is not None


@cached(128)
def _written_in_place(op: _Settings | None, scaled: _Settings | None, keyword: str) -> str:
    """Source of it: names of parameters are for the long way, as is whatever else is not usual."""
    count = len(op[0]) if op is not None else len(scaled[0]) - 1 if scaled is not None else 0
    names = [f"a{k}" for k in range(count)]
    given = ", ".join(names)
    named = [f"{keyword}=usual"] * bool(keyword)
    hand_on = [f"{keyword}={keyword}"] * bool(keyword)
    long = ", ".join(["*[a for a in (" + given + ",) if a is not _unset]", "*further", *hand_on, "**more"])
    lines: list[Any] = [] if op is None else _writes(op, names, "op", long)
    if op is not None and keyword:
        lines = [f"if {keyword} is usual:", lines]
    if scaled is not None:
        rest = _writes(scaled, [*names, keyword], "scaled", long)
        lines += ["else:", rest] if lines else rest
    parameters = [*[f"{n}=_unset" for n in names], "/", "*further", *named, "**more"]
    return source.fill(_WRITE, signature=", ".join(parameters), lines=lines, long=long)


def _writes(settings: _Settings, names: Sequence[str], op: str, long: str) -> list[Any]:
    """Lines that look the plan of an op up and run it, or go on where the long way is due."""
    operands, checked = settings
    lines: list[Any] = []
    keys, values = ["spec"], ["a0._buf"]
    fit = ""
    for k, (v, (number, fits)) in enumerate(zip(names, operands)):
        if not k:
            continue
        keys.append(f"k{k}")
        lines.append(f"k{k} = type({v})")
        if number:
            values.append(v)
            if fits:
                fit += f" and k{k} is not complex and (plan.low <= {v} <= plan.high or {v} in plan.beyond)"
            continue
        values.append(f"b{k}")
        lines += [
            f"if k{k} is float or k{k} is int:",
            [f"b{k} = {v}"],
            "else:",
            [
                f"k{k}, b{k}, other = {v}._spec, {v}._buf, {v}._storage",
                f"if other is not None and storage is not None and (b{k} is not a0._buf or k{k} is not spec) and may_meet(storage, other):",
                [f"k{k} = None"],
                f"if {v}._rg and state.grad and ({v}._rg == 1 or requires({v})):",
                ["recorded = True"],
            ],
        ]
    key = f"(({', '.join(keys)},), spec, True)"
    lines.append(f"plan = {op}.plans.get({key})")
    if checked:
        lines += [
            "if plan is None:",
            [
                f"if 0 < {names[-1]} < 256 if {keys[-1]} is int else divides({keys[-1]}, {values[-1]}):",
                [f"plan = {op}.plans.get(({key},))"],
            ],
        ]
    return [
        "try:",
        lines,
        "except AttributeError:",
        ["plan = None"],
        f"if plan is not None{fit}:",
        [
            "if recorded:",
            [f"if _recorded_write({op}, plan, a0, ({', '.join(names)},)):", ["return a0"]],
            "else:",
            [
                "try:",
                [f"plan.launch(plan.address, plan.n, {', '.join(values)})"],
                "except OverflowError:",
                [f"return otherwise({long})"],
                "if storage is None:",
                ["written(a0)"],
                "else:",
                ["storage.version += 1"],
                "return a0",
            ],
        ],
    ]


_WRITE = """
def function({signature}):
    try:
        storage, spec = a0._storage, a0._spec
    except AttributeError:
        return otherwise({long})
    if not (further or more or state.active or shared.rare or storage is not None and storage.inference):
        recorded = a0._rg and state.grad and (a0._rg == 1 or requires(a0))
        {lines}
    return otherwise({long})
"""
_WRITING: dict[str, Any] = dict(
    _recorded_write=_recorded_write,
    __name__=__name__,
    _unset=unset,
    divides=divides,
    may_meet=may_meet,
    requires=requires,
    shared=shared,
    state=state,
    written=written,
)


def meets(t: Tensor, other: Tensor) -> bool:
    """Whether a write to one may change the other."""
    a, b = t._storage, other._storage
    return other is t or (a is not None and b is not None and may_meet(a, b))


def quiet(t: Tensor, *read: Tensor) -> bool:
    """Of a write to `t`: no history, no mode that looks at writes, and nothing that is read in the memory that is written."""
    storage = t._storage
    if state.active or shared.rare or (storage is not None and storage.inference):
        return False
    grad = state.grad
    if grad and t._rg and (t._rg == 1 or requires(t)):
        return False
    for x in read:
        if (
            x is t
            or (grad and x._rg and (x._rg == 1 or requires(x)))
            or (storage is not None and x._storage is not None and may_meet(storage, x._storage))
        ):
            return False
    return True


def overlap(t: Tensor, other: Tensor) -> str:
    """How the memory of two tensors meets, as far as PyTorch looks: "none", "all" (they are the same), "part"; or "unknown", where it
    does not look because one has gaps, or does not see it because they have two storages over one array of NumPy's."""
    if other is t:
        return "all"
    a, b, sp, other_sp = t._storage, other._storage, t._spec, other._spec
    if a is None or b is None or not may_meet(a, b) or not sp.numel or not other_sp.numel:
        return "none"
    start, other_start = t.data_ptr(), other.data_ptr()
    if start + sp.nbytes <= other_start or other_start + other_sp.nbytes <= start:
        return "none"
    dense = all(layout.is_dense(s.shape, s.strides) for s in (sp, other_sp))
    if not dense or a.memory is not b.memory:
        return "unknown"
    same = start == other_start and sp.nbytes == other_sp.nbytes and sp.strides == other_sp.strides
    return "all" if same else "part"


def apart(t: Tensor, other: Any) -> Any:
    """Refuse an operand that overlaps what is written in part, as PyTorch does where it can tell; where it cannot, read a copy."""
    if not isinstance(other, Tensor):
        return other
    how = overlap(t, other)
    if how == "part":
        raise RuntimeError(PARTIAL)
    in_step = other._spec is t._spec and other.data_ptr() == t.data_ptr()
    return hooks.clone(other.detach()) if how == "unknown" and not in_step else other


def no_overlap(t: Tensor, *others: Any) -> None:
    """Refuse operands that share any memory with what is written out of order."""
    for other in others:
        if isinstance(other, Tensor) and overlap(t, other) in ("all", "part"):
            raise RuntimeError(PARTIAL)


# ---------------------------------------------------------------- all other ops


def differentiable(
    node_name: str,
    raw: bool = False,
    tangent: Callable[..., Any] | str | None = None,
    batch: Callable[..., Any] | None = None,
    unmoved: str | None = None,
    holomorphic: bool = True,
    **rules: Callable[..., Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make `forward(*tensors, **static)` an op with these rules (`Op` says which there are); it runs on the inputs with recording
    off. `raw` says that it calls kernels only, nothing that would record."""

    def make(forward: Callable[..., Any]) -> Callable[..., Any]:
        name = node_name + "Backward0" if not node_name[-1].isdigit() else node_name
        op = Op(forward, rules, name, tangent, batch, unmoved=unmoved, holomorphic=holomorphic)

        def function(*tensors: Any, **static: Any) -> Any:
            if state.active and transforms.wrapped(tensors):
                return transforms.apply(op, function, tensors, static)
            for t in tensors:
                if t is not None and t._rg and state.grad:
                    break
            else:
                return forward(*tensors, **static)
            state.grad = False
            try:
                result = forward(*tensors, **static)
            finally:
                state.grad = True
            return record_op(op, result, tensors, static)

        def raw_function(*tensors: Any, **static: Any) -> Any:
            if state.active and transforms.wrapped(tensors):
                return transforms.apply(op, raw_function, tensors, static)
            result = forward(*tensors, **static)
            for t in tensors:
                if t is not None and t._rg and state.grad:
                    return record_op(op, result, tensors, static)
            return result

        if raw:
            function = raw_function
        function.op, op.function = op, function  # type: ignore[attr-defined]
        function.__name__ = op.name
        function.__doc__ = forward.__doc__
        return function

    return make


def undifferentiable(
    batch: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make `forward(*tensors, **static)` an op whose results have no gradient: to transforms, only a batch rule."""

    def make(forward: Callable[..., Any]) -> Callable[..., Any]:
        op = Op(forward, {}, "", batch=batch)

        def function(*tensors: Any, **static: Any) -> Any:
            if state.active and transforms.wrapped(tensors):
                return transforms.apply(op, function, tensors, static)
            return forward(*tensors, **static)

        return function

    return make


def make_view(base: Tensor, sp: Spec, offset: int, multi: bool = False) -> Tensor:
    """A view of `base` as `sp`, from `offset` elements on; without history."""
    buf = base._buf
    if offset:
        buf = sp.backend.view(buf, offset * sp.itemsize)
    return view_of(base, buf, sp, created(multi))


def created(multi: bool = False) -> str:
    """How a view that is made now comes to be, which decides if it may be written to later."""
    if state.grad:
        return "multi" if multi else "default"
    return "inference" if state.modes.inference else "no_grad"


# What the short ways read, each beside what is its op's own.
_SCOPE: dict[str, Any] = dict(__name__=__name__, Tensor=Tensor, call=call, bytes_=_bytes, new=new)
_SCOPE |= dict(
    over=over,
    overridden=overridden,
    shared=shared,
    state=state,
    as_inference=as_inference,
    recorder=recorder,
    _unset=unset,
)
_SCOPE |= dict(
    divides=divides, number_type=number_type, check_room=backend.check_room, low=-(2**63), high=2**64 - 1
)
hooks.elementwise_function = elementwise_function
