"""Calls of one op between views, read off the nodes that such a call leaves.

Promises `quick.py` what runs a call whose long way comes to views of its tensors, one op of those, and views of that op's results: they are
found by a call on leaves that lie as the tensors do, so nothing is written twice. What is more than that, or cannot be read off, is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nbgrad.core.op import Op
from nbgrad.core.plan import Plan
from nbgrad.core.tensor import Tensor, edge, hooks, requires, wrap
from nbgrad.dispatch import look
from nbgrad.dispatch.prepared import Prepared
from nbgrad.history.rules import ElementwiseRule, OpRule
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Spec
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import NUMBERS, Node

Run = Callable[..., Any]
_bytes = np.dtype(np.uint8)


class _Unknown(Exception):
    """It is more than can be read off."""


def read_off(call: Callable[..., Any], tensors: Sequence[Tensor]) -> Run | None:
    """What runs `call`, a function of such tensors, where none of them is recorded."""
    if shared.rare or not tensors or not all([t._spec.dtype.is_floating_point for t in tensors]):
        return None
    leaves = [wrap(t._buf, t._spec) for t in tensors]
    for leaf in leaves:
        leaf._rg = 1
    before, state.grad = state.grad, True
    try:
        found = call(*leaves)
        state.grad = False
        run = _Reader(leaves).read(found)
        return run if _as_found(run(*leaves), found, leaves) else None
    except _Unknown:
        return None
    finally:
        state.grad = before


class _Turned:
    """What records calls whose op takes their tensors in another order."""

    __slots__ = ("noted", "order")

    def __init__(self, noted: Prepared, order: list[int]) -> None:
        self.noted, self.order = noted, order

    def record(self, result: Any, tensors: Sequence[Tensor]) -> None:
        self.noted.record(result, tuple([tensors[k] for k in self.order]))


class _First:
    """What records calls of which the first result alone is the op's."""

    __slots__ = ("noted",)

    def __init__(self, noted: Prepared | _Turned) -> None:
        self.noted = noted

    def record(self, result: Any, tensors: Sequence[Tensor]) -> None:
        self.noted.record(result[0], tuple(tensors))


def noted_as(found: Any, tensors: Sequence[Tensor], run: Run) -> Prepared | _Turned | _First | None:
    """What gives the results of `run`, of such tensors, the record that these results of a call have: one node, of an op of these tensors,
    whose settings are no values of theirs."""
    outs = found if isinstance(found, tuple) else (found,)
    node: Any = outs[0]._node if isinstance(outs[0], Tensor) else None
    if shared.rare or not isinstance(node, Node) or type(node.rule) is not OpRule or node.static is None:
        return None
    (static, specs, made), op = node.static, node.rule.op
    first = type(made) is not tuple and len(outs) > 1
    if first:  # the others tell how it went
        if not all([isinstance(t, Tensor) and not t._rg for t in outs[1:]]):
            return None
        outs = outs[:1]
    if op.variadic or op.views or op.shapes or not all([_settles(v) for v in static.values()]):
        return None
    # In another order only where each can be told from the others by how it lies.
    own = [t._spec for t in tensors]
    turned = specs != tuple(own)
    if turned:
        if len({*own}) < len(own) or {*specs} != {*own} or len(specs) != len(own):
            return None
        order = [own.index(sp) for sp in specs]
        tensors = [tensors[k] for k in order]
    if not all([isinstance(t, Tensor) for t in outs]):
        return None
    if (made if type(made) is tuple else (made,)) != tuple([t._spec for t in outs]):
        return None
    alone = [
        t._view is None and (t._node is None or (t._node is node and t._nr == k)) for k, t in enumerate(outs)
    ]
    asked = [edge(t) if requires(t) else (None, 0) for t in tensors]
    if (
        not all(alone)
        or node.edges()[: len(node.next)] != asked[: len(node.next)]
        or any([at for at, _ in asked[len(node.next) :]])
    ):
        return None
    plain = Prepared(op, specs, static, run)
    noted = _Turned(plain, order) if turned else plain
    return _First(noted) if first else noted


def _settles(x: Any) -> bool:
    """Whether a setting is one, and no value that was read."""
    if type(x) is tuple:
        return all([_settles(v) for v in x])
    return x is None or type(x) in (bool, int, float, str, dtype)


def _known(that: Any) -> None:
    if not that:
        raise _Unknown


def _as_found(found: Any, want: Any, leaves: Sequence[Tensor]) -> bool:
    """Whether results are of the same types and lie the same way, and are nobody else's."""
    if type(found) is not type(want):
        return False
    pairs = list(zip(found, want)) if isinstance(found, tuple) else [(found, want)]
    storages = [t._storage for t in leaves if t._storage is not None]
    return all([x._spec is y._spec and x._storage not in storages for x, y in pairs])


class _Reader:
    def __init__(self, leaves: Sequence[Tensor]) -> None:
        self.leaves, self.sinks = leaves, [None if t._ad is None else t._ad.sink for t in leaves]

    def read(self, found: Any) -> Run:
        outs = found if isinstance(found, tuple) else (found,)
        node: Any = outs[0]._node if isinstance(outs[0], Tensor) else None
        while _is_view(node):
            node = node.next[0]
        _known(node is not None)
        if node in self.sinks:
            return self.copied(found)
        made, several = _made(node)
        core = self.computed(node)
        ends = [_end(t, sp) for t, sp in zip(outs, made)]
        if outs is found:
            _known(several and len(made) == len(outs))
            return _all_shown(core, ends) if any(ends) else core
        return _one_shown(core, ends[0], several)

    def copied(self, out: Any) -> Run:
        """Its node is a view's, but it has memory of its own."""
        _known(isinstance(out, Tensor) and out._view is None)
        _, sp, byte = self.operand(out._node)
        _known(len(self.leaves) == 1)  # and that is read
        run: Run = hooks.copier(sp or self.leaves[0]._spec, out._spec, byte // out.itemsize)
        return run

    def operand(self, node: Any, number: int = 0) -> tuple[int, Spec | None, int]:
        """Which of the tensors it is, as what it is read if not as it is, and from which byte on."""
        k, t = self.seen(node, number)
        sp = t._spec
        byte = (t.storage_offset() - self.leaves[k].storage_offset()) * sp.itemsize
        _known(byte >= 0 and (sp.numel or not byte))
        return k, None if sp is self.leaves[k]._spec and not byte else sp, byte

    def seen(self, node: Any, number: int = 0) -> tuple[int, Tensor]:
        if node in self.sinks:
            k = self.sinks.index(node)
            return k, wrap(self.leaves[k]._buf, self.leaves[k]._spec)
        _known(_is_view(node) and not number and node.numbers is NUMBERS)
        k, base = self.seen(node.next[0])
        op, (static, _, out) = node.rule.op, node.static
        if op.shapes:
            _known(base._view is None)
            return k, wrap(base._buf, out)
        return k, op.function(base, **static)

    def at(self, node: Any, k: int) -> tuple[int, Spec | None, int]:
        _known(k < len(node.next) and node.next[k] is not None)
        return self.operand(node.next[k], 0 if node.numbers is NUMBERS else node.numbers[k])

    def reads(self, node: Any, operands: Sequence[Any], others: dict[int, Any]) -> list[Any]:
        """What the op is given: all tensors of the call, as one that it does not read may be a number's dress, and what is no tensor."""
        given = [others[k] if k in others else self.at(node, k) for k in range(len(operands))]
        _known({g[0] for k, g in enumerate(given) if k not in others} == {*range(len(self.leaves))})
        return given

    def computed(self, node: Any) -> Run:
        """The op, of the call's tensors."""
        rule: Any = node.rule
        if isinstance(rule, ElementwiseRule):
            plan = rule.plan
            numbers = dict(zip(rule.number_positions, node.static or ()))
            _known(all([isinstance(sp, Spec) or k in numbers for k, sp in enumerate(plan.operands)]))
            return _pointwise(plan, self.reads(node, plan.operands, numbers))
        op, (static, specs, _) = rule.op, node.static
        _known(op.function is not None and not op.variadic)
        given = self.reads(node, specs, {k: None for k, sp in enumerate(specs) if sp is None})
        return _reading(_run_of(op, specs, static), given, len(self.leaves))


def _made(node: Any) -> tuple[tuple[Spec, ...], bool]:
    """How the results of its op lie, and whether those are several."""
    rule = node.rule
    if isinstance(rule, ElementwiseRule):
        return (rule.plan.out,), False
    _known(isinstance(rule, OpRule) and node.static is not None)
    out = node.static[2]
    return (out, True) if type(out) is tuple else ((out,), False)


def _run_of(op: Op, specs: Sequence[Spec | None], static: dict[str, Any]) -> Run:
    """What computes it of tensors that lie so."""
    made: Any = op.function
    if hasattr(made, "at"):
        if op.statistics:
            return made.at(*[None if sp is None else wrap(None, sp) for sp in specs], **static).run
        return made.at(specs[0], static).run
    return partial(made, **static) if static else made


def _is_view(node: Any) -> bool:
    return (
        isinstance(node, Node)
        and isinstance(node.rule, OpRule)
        and (node.rule.op.views or node.rule.op.shapes)
    )


def _end(t: Tensor, made: Spec) -> Any:
    """What users get of a result: None as it is, a Spec in another shape, or a view of that."""
    if t._view is None:
        _known(t._spec.numel == made.numel)
        return None if t._spec is made else t._spec
    base = t._view.base
    _known(base._spec.numel == made.numel and t._spec.numel)
    return base._spec, (t._spec, t.storage_offset() * t.itemsize, None, None, ())


def _as(t: Tensor, end: Any) -> Any:
    if end is None:
        return t
    if type(end) is Spec:
        return _shaped(t, end)
    t._spec, plan = end
    return look.one(t, plan)


def _shaped(t: Tensor, sp: Spec) -> Tensor:
    t._spec = sp
    return t


def _one_shown(core: Run, end: Any, several: bool) -> Run:
    if several:
        return lambda *tensors: _as(core(*tensors)[0], end)
    if type(end) is Spec:
        return lambda *tensors: _shaped(core(*tensors), end)
    return core if end is None else lambda *tensors: _as(core(*tensors), end)


def _all_shown(core: Run, ends: Sequence[Any]) -> Run:
    def shown(*tensors: Tensor) -> Any:
        found = tuple(map(_as, core(*tensors), ends))
        return None if any([t is None for t in found]) else found  # no view may be had: the long way

    return shown


def _reading(run: Run, given: Sequence[Any], count: int) -> Run:
    """An op of tensors that are read as other ones; those that are read as they are go to it as they are."""
    if list(given) == [(k, None, 0) for k in range(count)]:
        return run
    if len(given) == 1:
        ((_, sp, byte),) = given
        return lambda t: run(wrap(t._buf[byte:] if byte else t._buf, sp))

    if len(given) == 2 and None not in given:
        (k, one, start), (j, other, skip) = given

        def two(*tensors: Tensor) -> Any:
            x, y = tensors[k], tensors[j]
            if one is not None:
                x = wrap(x._buf[start:] if start else x._buf, one)
            if other is not None:
                y = wrap(y._buf[skip:] if skip else y._buf, other)
            return run(x, y)

        return two

    def several(*tensors: Tensor) -> Any:
        return run(*[g if g is None else _read(tensors, *g) for g in given])

    return several


def _read(tensors: Sequence[Tensor], k: int, sp: Spec | None, byte: int) -> Tensor:
    t = tensors[k]
    return t if sp is None else wrap(t._buf[byte:] if byte else t._buf, sp)


def _pointwise(plan: Plan, given: Sequence[Any]) -> Run:
    """A scalar function's op: its kernel wants but buffers, and numbers as they are."""
    launch, address, n, nbytes, allocate, out = (
        plan.launch, plan.address, plan.n, plan.nbytes, plan.allocate, plan.out
    )  # fmt: skip
    if len(given) == 2 and [type(g) for g in given] == [tuple, tuple]:
        (k, _, skip), (j, _, start) = given

        def two(*tensors: Tensor) -> Tensor:
            x, y = tensors[k]._buf, tensors[j]._buf
            buf = allocate(nbytes, _bytes)
            launch(address, n, buf, x[skip:] if skip else x, y[start:] if start else y)
            return wrap(buf, out)

        return two

    def several(*tensors: Tensor) -> Tensor:
        values = [_read(tensors, *g)._buf if type(g) is tuple else g for g in given]
        buf = allocate(nbytes, _bytes)
        launch(address, n, buf, *values)
        return wrap(buf, out)

    return several
