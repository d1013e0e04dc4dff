"""What vmap and forward mode do to a call: each takes off what it has put round the operands, and puts it round the result again.

Promises the dispatcher that a call whose operands are marked comes out right, whatever it is: `elementwise` for the scalar functions,
`apply` for every other op, `view` for views, `assign` for writes. Promises users that nesting is safe: of several vmaps the innermost is
taken off first, a tangent belongs to one level, and the history that reverse mode keeps is of the tensors that the caller sees, so what
runs inside a transform can itself be differentiated.

At one depth of vmaps a tensor has a value, a history, and tangents by level. The value comes first: without history or tangents at this
depth, it is computed by the same op one vmap further out (or, outside of all, by its kernel). Then the call is recorded, then each
level's tangent is computed by ops on operands that have the tangents of earlier levels only, recorded like any others.
"""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nbgrad.base.tables import Table
from nbgrad.core.op import LINEAR, PRODUCT, ElementwiseOp, Op
from nbgrad.core.plan import Plan, dtypes_of, number_type, plan_for
from nbgrad.core.tensor import Tensor, accumulator, edge, hooks, new, requires, storage_of, view_of, wrap
from nbgrad.core.writes import check_write, rebase, written
from nbgrad.history.backward import run_backward
from nbgrad.history.record import record, record_op
from nbgrad.history.rules import OpRule, derived
from nbgrad.memory import layout as _layout
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Batched, Level, Marked, Spec
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- what is round a tensor


def wrapped(args: Sequence[Any]) -> bool:
    """Whether a transform looks after any of these."""
    return any([isinstance(a, Tensor) and type(a._spec) is Marked for a in args])


# What one example looks like; nobody puts tangents on these.
_marks: Table[tuple[Spec, bool], Marked] = Table("dispatch.transforms.marks", 4096)


def _mark(sp: Spec, has: bool) -> Marked:
    return _marks.keep((sp, has), Marked(sp.like(tuple(sp.shape)[1:], sp.strides[1:]) if has else sp))


def level_of(t: Tensor) -> Level | None:
    return t._buf.level if type(t._buf) is Batched else None


def batched(inner: Tensor, level: Level, has: bool = True) -> Tensor:
    """One example's view of `inner`, whose first dimension counts the examples; of all of it where it `has` none."""
    t: Tensor = new(Tensor)
    sp = inner._spec.plain
    t._buf, t._spec = Batched(inner, level, has), _marks.get((sp, has)) or _mark(sp, has)
    t._storage = t._view = t._ad = t._node = None
    t._rg = t._nr = 0
    return t


def lift(t: Any, level: Level | None) -> Any:
    """A tensor from outside of a vmap as those inside see it: the same for all examples, and a constant to their history."""
    return (
        t if not isinstance(t, Tensor) or level_of(t) is level or level is None else batched(t, level, False)
    )


def peel(t: Tensor, level: Level) -> tuple[Tensor, bool]:
    """The tensor round which `level` was put, and whether its first dimension counts the examples."""
    return (t._buf.inner, t._buf.has) if level_of(t) is level else (t, False)


def innermost(t: Tensor) -> Tensor:
    """What holds the values, of all examples of all vmaps."""
    while type(t._buf) is Batched:
        t = t._buf.inner
    return t


def tangent_of(t: Tensor, k: int) -> Tensor | None:
    """The tangent that `t` has at level `k` of forward mode."""
    return t._spec.tangents.get(k) if type(t._spec) is Marked else None


def moves(args: Sequence[Any]) -> bool:
    """Whether a call of these has a tangent."""
    return state.moving and any(
        [tangent_of(a, k) is not None for k in state.duals for a in args if isinstance(a, Tensor)]
    )


def primal(t: Tensor, k: int) -> Tensor:
    """The same tensor, history and all, without its tangents from level `k` on."""
    if type(t._spec) is not Marked or not t._spec.tangents:
        return t
    if t._rg == 1 and t._node is None:
        accumulator(t)  # a leaf's gradients arrive here, which the two share
    out: Tensor = new(Tensor)
    for slot in ("_buf", "_storage", "_view", "_ad", "_node", "_nr", "_rg"):
        setattr(out, slot, getattr(t, slot))
    kept = {i: x for i, x in t._spec.tangents.items() if i < k}
    out._spec = Marked(t._spec, kept) if kept or type(t._buf) is Batched else t._spec.plain
    return out


def dual(t: Tensor, tangents: dict[int, Tensor]) -> Tensor:
    """Put tangents on a tensor."""
    t._spec = Marked(t._spec, tangents)
    return t


def _laid_out(tangent: Tensor, t: Tensor) -> Tensor:
    """A tangent lies in memory as its tensor does, so that a view shows the same part of both."""
    shape, strides = t._spec.shape, t._spec.strides
    if tangent._spec.strides == strides or _layout.overlaps(shape, strides):
        return tangent
    return hooks.laid_out(tangent, strides)


def _beside(tangent: Tensor, t: Tensor) -> Tensor:
    """The same for a tensor that lies somewhere in its storage: the tangent's storage is of that size, and it lies at the same place."""
    if (
        type(t._buf) is Batched
        or type(tangent._buf) is Batched
        or _layout.overlaps(t._spec.shape, t._spec.strides)
    ):
        return _laid_out(tangent, t)
    room = _room(t)
    alike = all([n == 1 or a == b for n, a, b in zip(t._spec.shape, t._spec.strides, tangent._spec.strides)])
    if alike and room == _room(tangent) and t.storage_offset() == tangent.storage_offset():
        return tangent
    if room == t._spec.numel:
        return hooks.laid_out(tangent, t._spec.strides)
    whole = hooks.zeros(tangent._spec.plain.like((room,)))
    return hooks.copy_(_part(whole, t, t.storage_offset()), tangent)


def _room(t: Tensor) -> int:
    """How many elements its storage holds."""
    return storage_of(t).memory.nbytes // t._spec.itemsize


def _part(tangent: Tensor, t: Tensor, start: int) -> Tensor:
    """The view of a tangent that shows what `t` shows of its memory."""
    return hooks.as_strided(tangent, tuple(t._spec.shape), t._spec.strides, start)


def detached(t: Tensor) -> Tensor:
    """Without history and tangents, outside of every vmap too."""
    level = level_of(t)
    if level is not None:
        return batched(t._buf.inner.detach(), level, t._buf.has)
    out = wrap(t._buf, t._spec.plain)
    out._storage = storage_of(t)
    return out


hooks.detached = detached


def _bare(t: Any, level: Level | None) -> Any:
    """Neither history nor tangents at this depth."""
    if not isinstance(t, Tensor):
        return t
    if level is not None:
        return t
    bare = wrap(t._buf, t._spec.plain)
    bare._storage = t._storage  # a view may show what lies before it
    return bare


def survey(args: Sequence[Any], views: bool = False) -> tuple[Level | None, list[int]]:
    """The innermost vmap round any of these, and the levels of forward mode at which one of that depth has a tangent that counts:
    for `views` each does, also where ops are to compute none."""
    level: Level | None = None
    for t in args:
        if isinstance(t, Tensor) and type(t._buf) is Batched:
            own: Level = t._buf.level
            if own is not level and (level is None or own.index > level.index):
                level = own
    if level is not None and (level.index >= len(state.levels) or state.levels[level.index] is not level):
        raise RuntimeError(
            "vmap: a tensor of the mapped function is used after the vmap that it belongs to has ended; return it instead of "
            "keeping it elsewhere"
        )
    if not (state.duals and (state.moving or views)):
        return level, []
    marked: list[Any] = [
        t for t in args if isinstance(t, Tensor) and type(t._spec) is Marked and level_of(t) is level
    ]
    return level, sorted({k for t in marked for k in t._spec.tangents if k in state.duals})


# ---------------------------------------------------------------- elementwise ops


def elementwise(op: ElementwiseOp, args: Sequence[Any]) -> Tensor:
    level, ids = survey(args)
    out = _value(op, args, level)
    if not out._spec.dtype.inexact:
        ids = []
    if ids:
        op.check_tangent()
        dual(out, {})
    recorded = _recorded(args, level)
    if not (ids or recorded):
        return out
    args = [lift(a, level) for a in args]
    if recorded:
        record(_sketch(op, args), out, args)
    for k in ids:
        out._spec.tangents[k] = _laid_out(_tangent(op, k, args, out), out)  # type: ignore[attr-defined]
    return out


_NUMBERS = (int, float, bool)


def of_examples(op: ElementwiseOp, args: Sequence[Any]) -> Tensor | None:
    """The usual call within a vmap: of examples alone, each of as many dimensions, and of numbers, where nothing else is to be seen to."""
    if state.duals:
        return None
    level = state.levels[-1]
    inners: list[Any] = []
    dims = -1
    for a in args:
        if isinstance(a, Tensor):
            buf, sp = a._buf, a._spec
            if type(buf) is not Batched or buf.level is not level or not buf.has or a._rg:
                return None
            if dims >= 0 and sp.ndim != dims:
                return None
            dims = sp.ndim
            inners.append(buf.inner)
        elif type(a) in _NUMBERS:
            inners.append(a)
        else:
            return None
    return None if dims < 0 else batched(op.function(*inners), level)


def _recorded(args: Sequence[Any], level: Level | None) -> bool:
    """Whether any of these has a history at the depth of the call."""
    return state.grad and any(
        [isinstance(a, Tensor) and a._rg != 0 and level_of(a) is level and requires(a) for a in args]
    )


def _value(op: ElementwiseOp, args: Sequence[Any], level: Level | None) -> Tensor:
    if level is None:
        return op.function(*[_bare(a, None) for a in args])
    ndim = max(a._spec.ndim for a in args if isinstance(a, Tensor))
    compute: dtype | None = None
    inners: list[Any] = []
    any_has = False
    for p, a in zip(op.params, args):
        if not isinstance(a, Tensor):
            inners.append(a)
            continue
        inner, has = peel(a, level)
        if has:
            any_has = True
            if not a._spec.ndim and ndim and p not in op.logical and p not in op.settings:
                # A number per example promotes as the 0-dim tensor that it is to the caller.
                compute = compute or _taken(dtypes_of(op, _operands(args))[0], args)
                inner = hooks.to_dtype(inner, compute)
            if a._spec.ndim < ndim:
                size, *rest = inner._spec.shape
                inner = hooks.reshape(inner, (size, *(1,) * (ndim - a._spec.ndim), *rest))
        inners.append(inner)
    return batched(op.function(*inners), level, any_has)


def _taken(compute: dtype, args: Sequence[Any]) -> dtype:
    """In which operands are taken: those of `complex` and `polar` are real."""
    real = not any([isinstance(a, Tensor) and a._spec.dtype.is_complex for a in args])
    return compute.to_real() if real and compute.is_complex else compute


def _operands(args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([a._spec.plain if isinstance(a, Tensor) else number_type(a) for a in args])


def _sketch(op: ElementwiseOp, args: Sequence[Any]) -> Plan:
    """The plan of a call whose kernel is run elsewhere: which dtype and shape, and so which rule."""
    return plan_for(op, _operands(args), runs=False)


def _tangent(op: ElementwiseOp, k: int, args: Sequence[Any], out: Tensor) -> Tensor:
    moving = {p: tangent_of(a, k) for p, a in zip(op.params, args) if isinstance(a, Tensor)}
    given = {p: m for p, m in moving.items() if m is not None}
    key = tuple(given)
    conjugated = out._spec.dtype.is_complex or any(
        [isinstance(a, Tensor) and a._spec.dtype.is_complex for a in args]
    )
    found = op._derived.get((key, conjugated))
    if found is None:
        tangent = op.tangent(key, conjugated)
        found = derived(op, tangent, f"{op.name}_tangent", "TangentBackward0")
        op._derived[key, conjugated] = found
    function, names = found
    if not names:
        return hooks.zeros(out._spec.dense())
    values: dict[str, Any] = {f"t_{p}": m for p, m in given.items()}
    values |= {p: primal(a, k) if isinstance(a, Tensor) else a for p, a in zip(op.params, args)}
    t: Tensor = function(*[values[n] for n in names]) if function else hooks.clone(values[names[0]])
    if t._spec.shape != out._spec.shape:
        t = hooks.clone(hooks.expand(t, out._spec.shape))
    return t if t._spec.dtype is out._spec.dtype else hooks.to_dtype(t, out._spec.dtype)


# ---------------------------------------------------------------- all other ops


def apply(op: Op, function: Callable[..., Any], tensors: Sequence[Any], static: dict[str, Any]) -> Any:
    """`function(*tensors, **static)`, which is what `op` records."""
    level, ids = survey(tensors)
    result = _result(op, function, tensors, static, level)
    return _finish(op, function, tensors, static, result, level, ids) if op.rules else result


def view(op: Op, function: Callable[..., Any], input: Tensor, static: dict[str, Any], created: str) -> Any:
    """The same for views: the results are views of `input`, at every depth."""
    level, ids = survey((input,), views=True)
    result = _result(op, function, (input,), static, level)
    if isinstance(result, Tensor):
        result = view_of(input, result._buf, result._spec, created)
    else:
        result = tuple([view_of(input, r._buf, r._spec, created) for r in result])
    return _finish(op, function, (input,), static, result, level, ids)


def _finish(
    op: Op,
    function: Callable[..., Any],
    tensors: Sequence[Any],
    static: dict[str, Any],
    result: Any,
    level: Level | None,
    ids: Sequence[int],
) -> Any:
    outs = (result,) if isinstance(result, Tensor) else result
    if ids:
        op.check_tangent()
        for o in outs:
            dual(o, {})
    recorded = _recorded(tensors, level)
    if not (ids or recorded):
        return result
    tensors = [lift(t, level) for t in tensors]
    if recorded:
        record_op(op, result, tensors, static)
        node = next((o._node for o in outs if o._node is not None), None)
        if node is not None:  # what it says of its inputs' layout, it says to who makes memory
            _, layout, *rest = node.static
            node.static = (static, tuple([None if sp is None else sp.plain for sp in layout]), *rest)
    for k in ids:
        moved = _moved(op, function, tensors, static, result, k)
        for o, t in zip(outs, (moved,) if isinstance(moved, Tensor) else moved):
            if o._spec.dtype.inexact:
                o._spec.tangents[k] = _laid_out(hooks.zeros(o._spec.dense()) if t is None else t, o)
    return result


def _result(
    op: Op, function: Callable[..., Any], tensors: Sequence[Any], static: dict[str, Any], level: Level | None
) -> Any:
    if level is None:
        return function(*[_bare(t, None) for t in tensors], **static)
    peeled = [(None, False) if t is None else peel(t, level) for t in tensors]
    inners, has = [i for i, _ in peeled], tuple([h for _, h in peeled])
    made: Any = NotImplemented
    if True not in has:
        made = (op.again or function)(*inners, **static)
    elif op.batch is not None:
        single = len(inners) == 1 and not op.variadic
        made = op.batch(*inners, **static) if single else op.batch(has, *inners, **static)
    if made is NotImplemented:
        made = _one_by_one(function, inners, has, static, level)
    found = True in has
    return (
        batched(made, level, found)
        if isinstance(made, Tensor)
        else tuple([batched(m, level, found) for m in made])
    )


def _one_by_one(
    function: Callable[..., Any],
    inners: Sequence[Any],
    has: Sequence[bool],
    static: dict[str, Any],
    level: Level,
) -> Any:
    """The way of ops without a rule of their own: each example by itself, and the results stacked."""
    if not level.size:
        raise RuntimeError(
            "The fallback path does not support vmap over dims of size 0. Please file a bug report."
        )
    rows = [
        function(*[hooks.select(t, 0, k) if h else t for t, h in zip(inners, has)], **static)
        for k in range(level.size)
    ]
    if isinstance(rows[0], Tensor):
        return hooks.stack(rows)
    return tuple([hooks.stack(column) for column in zip(*rows)])


def _moved(
    op: Op, function: Callable[..., Any], tensors: Sequence[Any], static: dict[str, Any], result: Any, k: int
) -> Any:
    """The tangent, or tangents, of the results at level `k`."""
    tangents = [None if t is None else tangent_of(t, k) for t in tensors]
    primals = [None if t is None else primal(t, k) for t in tensors]
    if op.tangent == LINEAR:
        moving = [
            hooks.zeros(p._spec.dense()) if t is None and p is not None else t
            for t, p in zip(tangents, primals)
        ]
        return function(*moving, **static)
    if op.tangent == PRODUCT:
        total: Tensor | None = None
        for n, t in enumerate(tangents):
            if t is not None:
                part = function(*primals[:n], t, *primals[n + 1 :], **static)
                total = part if total is None else hooks.add(total, part)
        return total
    if op.tangent is None:
        return _transposed(op, primals, tangents, static, result, k)
    values: dict[str, Any] = dict(static)
    outs = (result,) if isinstance(result, Tensor) else result
    values["y"] = primal(outs[0], k)
    values |= {f"y{n}": primal(o, k) for n, o in enumerate(outs)}
    values |= dict(zip(op.inputs, primals))
    values |= {f"{n}_t": t for n, t in zip(op.inputs, tangents)}
    values["t"] = tangents[0]
    rule: Any = op.tangent
    return rule(*[values[n] for n in op.tangent_reads])


def _transposed(
    op: Op,
    primals: Sequence[Any],
    tangents: Sequence[Tensor | None],
    static: dict[str, Any],
    result: Any,
    k: int,
) -> Any:
    """The tangents of an op that has no rule for them, at twice the cost of one: its gradient is linear in the cotangents, and the
    transpose of that is the derivative. Of complex numbers backward gives the conjugate of a transpose."""
    several = not isinstance(result, Tensor)
    single = not several or op.statistics
    outs = [primal(o, k) for o in (result if several else (result,))]
    mask = tuple([t is not None for t in tangents])
    rule = OpRule(op, mask, tuple([p is not None for p in primals]), several)
    cotangents: list[Tensor | None] = [
        _variable(o) if o._spec.dtype.inexact else None for o in (outs[:1] if single else outs)
    ]
    saved = (*[primals[n] for n in rule.inputs], *[outs[n] for n in rule.outputs])
    layout = tuple([None if p is None else p._spec.plain for p in primals])
    recorded, state.grad = state.grad, True
    try:
        grads = rule.run(cotangents[0] if single else cotangents, saved, static, layout, mask)
    finally:
        state.grad = recorded
    turned: Any = hooks.conj if op.holomorphic else lambda t: t
    roots = [
        (*edge(g), turned(t))
        for g, t in zip(grads, tangents)
        if g is not None and t is not None and requires(g)
    ]
    found: dict[int, Tensor] = {}
    wanted = {
        accumulator(u): {0: functools.partial(found.__setitem__, n)}
        for n, u in enumerate(cotangents)
        if u is not None
    }
    graph = recorded and any([t is not None and requires(t) for t in (*primals, *tangents)])  # not by `u`
    run_backward(roots, graph, graph, wanted)  # type: ignore[arg-type]
    moved = tuple([turned(found[n]) if n in found else None for n in range(len(outs))])
    return (moved[0] if moved[0] is not None else hooks.zeros(outs[0]._spec.dense())) if single else moved


def _variable(o: Tensor) -> Tensor:
    """Zeros like a result, at its depth, by which is differentiated."""
    u: Tensor = lift(hooks.zeros(o._spec.dense()), level_of(o))
    u._rg = 1
    return u


# ---------------------------------------------------------------- writes


def inplace(function: Callable[..., Tensor], t: Tensor, *args: Any, **static: Any) -> Tensor:
    """What writes to memory, as a call of `function` on what was there, whose result then takes its place."""
    check_write(t, state.grad and any(isinstance(a, Tensor) and requires(a) for a in (t, *args)), filled=True)
    own = _owned(t)
    if any(level not in own for a in args if isinstance(a, Tensor) for level in _owned(a)):
        raise RuntimeError(
            "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
            "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
            "over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic. If said operator is being "
            "called inside the PyTorch framework, please file a bug report instead."
        )
    return assign(t, function(hooks.clone(t), *args, **static))


def assign(t: Tensor, value: Tensor) -> Tensor:
    """`t` becomes `value`, whose history begins with what `t` was: memory, history and tangents."""
    level, values = level_of(t), value
    while values._buf.__class__ is Batched and values._buf.level is not level and not values._buf.has:
        values = values._buf.inner  # which all examples of a vmap further in share
    if level is None:
        hooks.copy_memory(_bare(t, None), _bare(values, None))
    else:
        inner, has = peel(values, level)
        hooks.copy_(t._buf.inner, inner if has or not t._buf.has else hooks.expand(inner, t._buf.inner.shape))
    if value._node is not None:
        rebase(t, value._node, value._nr)
    else:
        written(t)
    if type(value._spec) is Marked:
        for k, moved in value._spec.tangents.items():
            _put_tangent(t, k, moved)
    return t


def _put_tangent(t: Tensor, k: int, moved: Tensor) -> None:
    """Into the tangent that is there, so that those of a base and its views stay one. Where there is none, or one that all examples of
    a vmap share although each has its own to write, it is made for the base and all its views."""
    base = t if t._view is None else t._view.base
    have, whole = tangent_of(t, k), tangent_of(base, k)
    lacking = [level for level in _owned(moved) if have is None or level not in _owned(have)]
    if have is None or lacking:
        zero = hooks.zeros(base._spec.dense().like(dtype=moved._spec.dtype))
        for level in reversed(lacking):
            zero = hooks.expand(zero, (level.size, *zero.shape))
        zero = hooks.clone(zero)
        for level in lacking:
            zero = batched(zero, level)
        made = _beside(zero if whole is None else hooks.add(whole, zero), base)
        start = made.storage_offset() - base.storage_offset()
        _add_tangent(base, k, made)
        for view in _views(base):
            part, before = _part(made, view, start + view.storage_offset()), tangent_of(view, k)
            if whole is None and before is not None:  # as that of a dual tensor is, which is a view itself
                hooks.copy_(part, before)
            _add_tangent(view, k, part)
        have = tangent_of(t, k)
        assert have is not None
    hooks.copy_(have, moved)


def _owned(t: Tensor) -> list[Level]:
    """The vmaps of which each example has its own `t`, the outermost first."""
    found: list[Level] = []
    while type(t._buf) is Batched:
        if t._buf.has:
            found.insert(0, t._buf.level)
        t = t._buf.inner
    return found


def _add_tangent(t: Tensor, k: int, tangent: Tensor) -> None:
    t._spec = Marked(t._spec, {**getattr(t._spec, "tangents", {}), k: tangent})


def _views(base: Tensor) -> list[Tensor]:
    """The views of a tensor. Nothing keeps a list of them, as nearly nobody asks."""
    storage = base._storage
    if storage is None:
        return []
    found = [t for t in gc.get_referrers(storage) if isinstance(t, Tensor)]
    return [
        t for t in found if t._view is not None and t._view.base is base and t._spec.dtype is base._spec.dtype
    ]


# ---------------------------------------------------------------- entering and leaving


@contextmanager
def mapped(size: int, randomness: str) -> Iterator[Level]:
    """A vmap over `size` examples runs inside."""
    before = state.levels
    level = Level(len(before), size, randomness)
    state.levels = (*before, level)
    state.active += 1
    try:
        yield level
    finally:
        state.levels = before
        state.active -= 1


def put_in(t: Tensor, dim: int, level: Level) -> Tensor:
    """One example of `t`, whose dimension `dim` counts the examples."""
    return batched(t if dim == 0 else hooks.movedim(t, dim, 0), level)


def take_out(t: Tensor, dim: int, level: Level) -> Tensor:
    """All examples of what was computed for one, their count at `dim`."""
    inner, has = peel(t, level)
    if not has:
        inner = hooks.expand(inner, (level.size, *inner.shape))
    return hooks.movedim(inner, 0, dim) if dim else inner


_next_dual = itertools.count()


@contextmanager
def moving() -> Iterator[int]:
    """A level of forward mode is open inside."""
    before, k = state.duals, next(_next_dual)
    state.duals = (*before, k)
    state.active += 1
    try:
        yield k
    finally:
        state.duals = before
        state.active -= 1


def with_tangent(t: Tensor, tangent: Tensor, k: int) -> Tensor:
    """A view of `t` that has a tangent at level `k`."""
    out = t.view_as(t)
    kept = t._spec.tangents if type(t._spec) is Marked else {}
    return dual(out, {**kept, k: _beside(tangent, t)})
