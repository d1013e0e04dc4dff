"""Joining tensors: each is copied to its part of one new block; the gradient of a part is the part of the
gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from nbgrad.base.source import fill, function, tuple_of
from nbgrad.base.tables import Table, cached
from nbgrad.core.arguments import before_guard, unset
from nbgrad.core.op import LINEAR, Op
from nbgrad.core.tensor import Tensor, as_inference, empty, hooks, new, wrap
from nbgrad.dispatch.elementwise import check_out, differentiable, into, no_overlap
from nbgrad.dispatch.prepared import Prepared
from nbgrad.kernels.cpu.join import side_by_side
from nbgrad.kernels.launch import PARALLEL_FROM
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.storage import Marked, Spec, spec
from nbgrad.ops.views.copy import copying, part_in, zeros
from nbgrad.ops.views.shape import reshape, unsqueeze
from nbgrad.ops.views.slices import _select, _select_geometry, _slice, _slice_geometry
from nbgrad.tape.modes import shared, state

_bytes = np.dtype(np.uint8)


class Parts:
    """Where each of the tensors to be joined goes: what the result looks like, and per tensor the bytes
    from its start and what copies there; None for one that PyTorch lets pass in any company, 1-D without
    elements. `back` says where in a gradient each tensor's lies."""

    __slots__ = ("back", "dim", "out", "places")

    def __init__(
        self, dim: int, out: Spec, specs: Sequence[Spec], places: list[tuple[int, Spec] | None]
    ) -> None:
        backend.same([sp.device for sp in specs])
        self.dim, self.out = dim, out
        self.back: Table[Spec, list[tuple[Spec, int]]] = Table("ops.views.join.back", 64)
        self.places = [
            None if place is None else (place[0], copying(place[1], sp)) for place, sp in zip(places, specs)
        ]


_plans: Table[tuple[Any, ...], Parts] = Table("ops.views.join.plans", 4096)
_plan_of = _plans.get


def _joined(tensors: Sequence[Tensor], parts: Parts) -> Tensor:
    out = empty(parts.out)
    buf, view = out._buf, parts.out.backend.view
    for t, place in zip(tensors, parts.places):
        if place is not None:
            start, k = place
            k.launch(k.address, k.n, view(buf, start) if start else buf, t._buf)
    return out


def _skipped(sp: Spec) -> bool:
    return sp.shape == (0,)


def _cat_back(g: Tensor, specs: Sequence[Spec], wanted: Sequence[bool], parts: Parts) -> list[Tensor | None]:
    dim = parts.dim
    out: list[Tensor | None] = []
    start = 0
    if not (state.grad or state.active):
        return _looked_at(g, specs, wanted, parts, _cat_places)
    for sp, w in zip(specs, wanted):
        length = 0 if _skipped(sp) else tuple(sp.shape)[dim]
        if not w:
            out.append(None)
        elif _skipped(sp):
            out.append(zeros(sp.dense()))
        else:
            out.append(part_in(_slice(g, dim=dim, start=start, length=length, step=1), sp.dtype))
        start += length
    return out


def _cat_places(g: Spec, specs: Sequence[Spec], dim: int) -> list[tuple[Spec, int]]:
    found, start = [], 0
    for sp in specs:
        skipped = _skipped(sp)
        length = 0 if skipped else tuple(sp.shape)[dim]
        at, offset = _slice_geometry(g, dim=dim, start=start, length=length, step=1)
        found.append((sp.dense() if skipped else at, offset * g.itemsize if at.numel else 0))
        start += length
    return found


def _stack_places(g: Spec, specs: Sequence[Spec], dim: int) -> list[tuple[Spec, int]]:
    found = [_select_geometry(g, dim=dim, index=k) for k in range(len(specs))]
    return [(at, offset * g.itemsize if at.numel else 0) for at, offset in found]


def _looked_at(
    g: Tensor,
    specs: Sequence[Spec],
    wanted: Sequence[bool],
    parts: Parts,
    places: Callable[[Spec, Sequence[Spec], int], list[tuple[Spec, int]]],
) -> list[Tensor | None]:
    """Parts of a gradient where nothing is recorded, without the bookkeeping that a user's view needs."""
    known = parts.back.get(g._spec) or parts.back.keep(g._spec, places(g._spec, specs, parts.dim))
    buf, same = g._buf, g._spec.dtype
    return [
        None
        if not w
        else wrap(buf[byte:] if byte else buf, at)
        if sp.dtype is same
        else part_in(wrap(buf[byte:] if byte else buf, at), sp.dtype)
        for sp, w, (at, byte) in zip(specs, wanted, known)
    ]


def _spread_out(has: Sequence[bool], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Each example's own copy of what all share."""
    size = next(tuple.__getitem__(t.shape, 0) for t, h in zip(tensors, has) if h)
    return [t if h else hooks.expand(t, (size, *t.shape)) for t, h in zip(tensors, has)]


def _cat_each(has: Sequence[bool], *tensors: Tensor, parts: Parts) -> Tensor:
    each = _spread_out(has, tensors)
    return cat([t for t, place in zip(each, parts.places) if place is not None], parts.dim + 1)


@differentiable("Cat", raw=True, tangent=LINEAR, batch=_cat_each, all=_cat_back)
def _cat(*tensors: Tensor, parts: Parts) -> Tensor:
    return _joined(tensors, parts)


def _common(specs: Sequence[Spec]) -> dtypes.dtype:
    return reduce(dtypes.promote_types, [sp.dtype for sp in specs])


def _stack_back(
    g: Tensor, specs: Sequence[Spec], wanted: Sequence[bool], parts: Parts
) -> list[Tensor | None]:
    if not (state.grad or state.active):
        return _looked_at(g, specs, wanted, parts, _stack_places)
    return [
        part_in(_select(g, dim=parts.dim, index=k), sp.dtype) if w else None
        for k, (sp, w) in enumerate(zip(specs, wanted))
    ]


def _stack_each(has: Sequence[bool], *tensors: Tensor, parts: Parts) -> Tensor:
    return stack(_spread_out(has, tensors), parts.dim + 1)


@differentiable("Stack", raw=True, tangent=LINEAR, batch=_stack_each, all=_stack_back)
def _stack(*tensors: Tensor, parts: Parts) -> Tensor:
    return _joined(tensors, parts)


# ---------------------------------------------------------------- the short way

_FEW = 8  # tensors that one kernel joins
_MANY = 128  # of which a call is found again
_SIZES = {1: "u1", 2: "i2", 4: "i4", 8: "i8", 16: "c16"}
_SHORT = """
def make(find, learn, slow):
    def short(tensors=unset, dim=unset, *rest, **more):
        usual = not (more or rest) and tensors.__class__ in sequences and (dim is unset or dim.__class__ is int)
        if usual:
            count = len(tensors)
            try:
                {counts}
            except AttributeError:
                pass
        given = [x for x in (tensors, dim, *rest) if x is not unset]
        if tensors is unset and dim is not unset:
            return slow(dim=dim, **more)
        result = slow(*given, **more)
        if usual and 1 < count <= {many}:
            learn(tensors, dim)
        return result
    return short
"""


def _few(count: int) -> list[Any]:
    names = [f"t{k}" for k in range(count)]
    asked = " | ".join([f"{t}._rg << {2 * k}" for k, t in enumerate(names)])
    found = _found(
        tuple_of(["dim", *[f"{t}._spec" for t in names]]),
        ", ".join([f"{t}._buf" for t in names]),
        f"({' or '.join([f'{t}._rg' for t in names])}) and state.grad",
        f"{asked} | {1 << 2 * count}",
        ", ".join(names),
    )
    return [f"{tuple_of(names)} = tensors", *found]


def _many() -> list[Any]:
    return _found(
        "(dim, *[t._spec for t in tensors])",
        "*[t._buf for t in tensors]",
        "state.grad and any([t._rg for t in tensors])",
        "sum([t._rg << 2 * k for k, t in enumerate(tensors)]) | 1 << 2 * count",
        "*tensors",
    )


def _found(key: str, buffers: str, wanted: str, asked: str, every: str) -> list[Any]:
    return [
        f"found = find({key})",
        "if found:",
        [
            "size, shown, launch, address, n, meta, plan = found",
            "buf = shown.allocate(size, bytes_)",
            f"launch(address, n, meta, buf, {buffers})",
            "made = new(Tensor)",  # `wrap`, in line
            "made._buf, made._spec = buf, shown",
            "made._rg = made._nr = 0",
            "made._storage = made._node = made._view = made._ad = None",
            "if shared.rare and state.modes.inference:",
            ["as_inference(made)"],
            f"if {wanted}:",
            [
                f"asked = {asked}",
                f"(plan.recorders.get(asked) or plan.recorder(asked, made))(made, {every})",
            ],
            "return made",
        ],
    ]


def _of_few(
    op: Op,
    parts_of: Callable[[Sequence[Spec], int], Parts],
    seen: Callable[[Tensor], Tensor] | None = None,
) -> Callable[[Any], Any]:
    """The short way of a call with a few tensors, or with the views of them that are joined."""

    def shortened(slow: Callable[..., Any]) -> Callable[..., Any]:
        known: Table[Any, tuple[Any, ...]] = Table("ops.views.join.few", 4096)

        def learn(tensors: Sequence[Tensor], dim: Any) -> None:
            if not all([isinstance(t, Tensor) for t in tensors]):
                return  # what else there was has answered itself
            specs = tuple([t._spec for t in tensors])
            if len(specs) > _FEW and known.get((dim, *specs)) is None:
                known.keep((dim, *specs), ())  # what comes once, as lists that grow do, is not worth it
            elif not known.get((dim, *specs)) and not any([type(sp) is Marked for sp in specs]):
                shown = specs if seen is None else tuple([seen(wrap(t._buf, t._spec))._spec for t in tensors])
                parts = parts_of(shown, 0 if dim is unset else dim)
                *found, plan = _one_launch(op, parts, shown) or _launch_each(op, parts, shown)
                known.keep((dim, *specs), (*found, plan if shown == specs else _viewed(plan, seen)))

        return _maker()(known.get, learn, slow)

    return partial(before_guard, shortened)


@cached(1)
def _maker() -> Any:
    """What makes the short ways: one text for all, as it takes 3 ms to compile."""
    counts: list[Any] = []
    for n in range(2, _FEW + 1):
        counts += [f"{'el' * (n > 2)}if count == {n}:", _few(n)]
    counts += [f"elif {_FEW} < count <= {_MANY}:", _many()]
    scope = dict(unset=unset, sequences=(tuple, list), bytes_=_bytes, new=new, Tensor=Tensor, state=state)
    scope |= dict(shared=shared, as_inference=as_inference, __name__=__name__)
    return function("make", fill(_SHORT, counts=counts, many=_MANY), scope, "short way of cat and stack", "")


def _viewed(plan: Prepared, seen: Any) -> Any:
    """What records a join of views, which are not there yet."""

    def record(made: Tensor, *tensors: Tensor) -> None:
        views = [seen(t) for t in tensors]
        asked = sum([t._rg << 2 * k for k, t in enumerate(views)]) | 1 << 2 * len(views)
        (plan.recorders.get(asked) or plan.recorder(asked, made))(made, *views)

    return SimpleNamespace(recorders=SimpleNamespace(get=lambda asked: record))


def _one_launch(op: Op, parts: Parts, specs: tuple[Spec, ...]) -> tuple[Any, ...] | None:
    """The one launch that copies all pieces, or one for each few of many, and what records it: of pieces of one dtype, each in rows a
    constant step apart."""
    out, count = parts.out, len(specs)
    here = out.backend is backend.cpu
    if (
        (here and out.numel >= PARALLEL_FROM)
        or not out.contiguous
        or not all([sp.numel and sp.dtype is out.dtype for sp in specs])
    ):
        return None
    pieces: list[tuple[int, int]] = []
    rows = prod(tuple(out.shape)[: parts.dim])
    for sp in specs:
        outer, inner = tuple(sp.shape)[: parts.dim], tuple(sp.shape)[parts.dim :]
        # In the order of the result's rows: those of a transposed piece can be a constant step apart in another.
        sizes, (_, steps) = layout.collapse(outer, layout.contiguous_strides(outer), sp.strides[: parts.dim])
        if len(sizes) > 1 or not layout.is_contiguous(inner, sp.strides[parts.dim :]):
            return None
        pieces.append((prod(inner), steps[0] if sizes else 0))
    code, plan = _SIZES[out.itemsize], Prepared(op, specs, {"parts": parts}, _joined)
    groups, start = [], 0
    for begin in range(0, count, _FEW):
        some = pieces[begin : begin + _FEW]
        source = side_by_side(len(some), code)
        address = out.backend.kernel(f"join_{len(some)}_{code}", *source, unrolled=False).address
        launch = out.backend.launch(len(some) + 2, "", 1 if here else out.numel, quick=True)
        meta = out.backend.constants([out.numel // rows, *[n for piece in some for n in piece]])
        groups.append((launch, address, meta, start * out.itemsize, begin, begin + len(some)))
        start += sum([length for length, _ in some])
    if count <= _FEW:
        return out.nbytes, out, launch, address, rows, meta, plan
    view = out.backend.view

    def launch_groups(_: int, n: int, none: None, buf: Any, *given: Any) -> None:
        for launch, address, meta, byte, begin, end in groups:
            launch(address, n, meta, view(buf, byte) if byte else buf, *given[begin:end])

    return out.nbytes, out, launch_groups, 0, rows, None, plan


def _launch_each(op: Op, parts: Parts, specs: tuple[Spec, ...]) -> tuple[Any, ...]:
    """The same of any pieces, by one launch after the other."""
    out, view = parts.out, parts.out.backend.view
    copies = [(k, *place) for k, place in enumerate(parts.places) if place is not None]

    def launch(address: int, n: int, meta: None, buf: Any, *pieces: Any) -> None:
        for k, start, copy in copies:
            copy.launch(copy.address, copy.n, view(buf, start) if start else buf, pieces[k])

    return out.nbytes, out, launch, 0, 0, None, Prepared(op, specs, {"parts": parts}, _joined)


def _checked(name: str, tensors: Any) -> Sequence[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    for k, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(t).__name__}")
    return tensors


def _cat_parts(specs: Sequence[Spec], dim: int) -> Parts:
    if not specs:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for k, sp in enumerate(specs):
        if not sp.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    first = next((sp for sp in specs if not _skipped(sp)), specs[0])
    d = 0 if _skipped(first) else layout.wrap_dim(dim, first.ndim)  # of nothing PyTorch asks no dimension
    total, skip = 0, not _skipped(first)
    starts: list[int | None] = []
    for k, sp in enumerate(specs):
        if skip and _skipped(sp):
            starts.append(None)
            continue
        if sp.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {sp.ndim}")
        for e, (a, b) in enumerate(zip(tuple(first.shape), tuple(sp.shape))):
            if a != b and e != d:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {d}. Expected size {a} but "
                    f"got size {b} for tensor number {k} in the list."
                )
        starts.append(total)
        total += tuple(sp.shape)[d]
    shape = (*tuple(first.shape)[:d], total, *tuple(first.shape)[d + 1 :])
    strides = layout.joined_strides(shape, [(tuple(sp.shape), sp.strides) for sp in specs])
    out = spec(_common(specs), shape, strides, first.device)
    places: list[tuple[int, Spec] | None] = []
    for sp, at in zip(specs, starts):
        there = out.like(tuple(sp.shape), out.strides) if at is not None else None
        places.append(None if at is None or there is None else (at * out.strides[d] * out.itemsize, there))
    return Parts(d, out, specs, places)


@_of_few(_cat.op, _cat_parts)  # type: ignore[attr-defined]
def cat(tensors: Any, dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """Join tensors along a dimension that exists: their shapes agree in all others. Empty tensors of one dimension are passed over.
    Each tensor's gradient is its part of the whole.

    >>> torch.cat([torch.zeros(1, 2), torch.ones(2, 2)])
    tensor([[0., 0.],
            [1., 1.],
            [1., 1.]])
    """
    tensors = _checked("cat", tensors)
    key = ("cat", dim if axis is None else axis, *[t._spec for t in tensors])
    result: Tensor = _cat(*tensors, parts=_plan_of(key) or _plans.keep(key, _cat_parts(key[2:], key[1])))
    if out is None:
        return result
    return _joined_into("cat", out, result, tensors)


def _joined_into(name: str, out: Tensor, result: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    check_out(name, out, out._spec.dtype, tensors)  # of the graph, which PyTorch asks about before dtypes
    if not dtypes.can_cast(result._spec.dtype, out._spec.dtype):
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {out._spec.dtype.scalar_name}"
        )
    no_overlap(out, *tensors)
    return into(name, out, result, tensors)


concat = concatenate = cat


def _stack_parts(specs: Sequence[Spec], dim: int) -> Parts:
    if not specs:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tuple(specs[0].shape)
    d = layout.wrap_dim(dim, len(first) + 1)
    for k, sp in enumerate(specs):
        if sp.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 "
                f"and {list(sp.shape)} at entry {k}"
            )
    # PyTorch joins along the dimension and divides it then.
    lines, count = (*first, 1)[d], len(specs)
    end = (1,) if d == len(first) else ()
    whole = (*first[:d], count * lines, *first[d + 1 :])
    strides = layout.joined_strides(whole, [((*first, *end), (*sp.strides, *end)) for sp in specs])
    strides = (*strides[:d], lines * strides[d], *strides[d:]) if d < len(first) else strides
    out = spec(_common(specs), (*first[:d], count, *first[d:]), strides, specs[0].device)
    part = out.like(first, out.strides[:d] + out.strides[d + 1 :])
    places = [(k * out.strides[d] * out.itemsize, part) for k in range(len(specs))]
    return Parts(d, out, specs, list(places))


@_of_few(_stack.op, _stack_parts)  # type: ignore[attr-defined]
def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors of one shape along a new dimension `dim`. Each tensor's gradient is its slice of the whole.

    >>> torch.stack([torch.zeros(2), torch.ones(2)], dim=1)
    tensor([[0., 1.],
            [0., 1.]])
    """
    tensors = _checked("stack", tensors)
    key = ("stack", dim, *[t._spec for t in tensors])
    result: Tensor = _stack(*tensors, parts=_plan_of(key) or _plans.keep(key, _stack_parts(key[2:], dim)))
    return result if out is None else _joined_into("stack", out, result, tensors)


hooks.stack, hooks.cat = stack, cat


def _several(one: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    nested = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
    for k, t in enumerate(tensors[0] if nested else tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(t).__name__}")
    if len(tensors) == 1:
        if isinstance(tensors[0], (list, tuple)):
            return tuple(one(t) for t in tensors[0])
        return one(tensors[0])
    return tuple(one(t) for t in tensors)


def _at_least_1(t: Tensor) -> Tensor:
    return reshape(t, (1,)) if t.ndim == 0 else t


def _at_least_2(t: Tensor) -> Tensor:
    return reshape(t, (1, 1)) if t.ndim == 0 else unsqueeze(t, 0) if t.ndim == 1 else t


def _at_least_3(t: Tensor) -> Tensor:
    if t.ndim == 0:
        return reshape(t, (1, 1, 1))
    if t.ndim == 1:
        return unsqueeze(unsqueeze(t, 0), 2)
    return unsqueeze(t, 2) if t.ndim == 2 else t


def atleast_1d(*tensors: Any) -> Any:
    """Give a tensor without dimensions one of size 1; others come back as they are. Several tensors, or a sequence, give a tuple.

    >>> torch.atleast_1d(torch.tensor(3.0))
    tensor([3.])
    """
    return _several(_at_least_1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Give tensors of fewer than two dimensions new ones of size 1 in front. Several tensors, or a sequence, give a tuple.

    >>> torch.atleast_2d(torch.ones(3))
    tensor([[1., 1., 1.]])
    """
    return _several(_at_least_2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Give tensors of fewer than three dimensions new ones of size 1: (n,) becomes (1, n, 1), (n, m) becomes (n, m, 1).

    >>> torch.atleast_3d(torch.ones(2, 4)).shape
    torch.Size([2, 4, 1])
    """
    return _several(_at_least_3, tensors)


def _some(name: str, tensors: Any) -> Sequence[Tensor]:
    tensors = _checked(name, tensors)
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


def _side_by_side(specs: Sequence[Spec], dim: int) -> Parts:
    return _cat_parts(specs, 0 if specs[0].ndim == 1 else 1)


@_of_few(_cat.op, _side_by_side, _at_least_1)  # type: ignore[attr-defined]
def hstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Join tensors side by side: along the first dimension if they have one, else along the second.

    >>> torch.hstack([torch.zeros(2, 1), torch.ones(2, 2)])
    tensor([[0., 1., 1.],
            [0., 1., 1.]])
    """
    parts = [_at_least_1(t) for t in _some("hstack", tensors)]
    dim = 0 if parts[0].ndim == 1 else 1
    return cat(parts, dim) if out is None else cat(parts, dim, out=out)


@_of_few(_cat.op, _cat_parts, _at_least_2)  # type: ignore[attr-defined]
def vstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Join tensors one below the other, along the first dimension; a tensor of one dimension is a row.

    >>> torch.vstack([torch.zeros(2), torch.ones(1, 2)])
    tensor([[0., 0.],
            [1., 1.]])
    """
    parts = [_at_least_2(t) for t in _some("vstack", tensors)]
    return cat(parts, 0) if out is None else cat(parts, 0, out=out)


row_stack = vstack


@_of_few(_cat.op, lambda specs, dim: _cat_parts(specs, 2), _at_least_3)  # type: ignore[attr-defined]
def dstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Join tensors in depth, along the third dimension, which those of fewer get first as in `atleast_3d`.

    >>> torch.dstack([torch.zeros(2), torch.ones(2)])
    tensor([[[0., 1.],
             [0., 1.]]])
    """
    return cat([_at_least_3(t) for t in _some("dstack", tensors)], 2, out=out)


def _as_column(t: Tensor) -> Tensor:
    return reshape(t, (t.numel(), 1)) if t.ndim <= 1 else t


@_of_few(_cat.op, _side_by_side, _as_column)  # type: ignore[attr-defined]
def column_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Join tensors side by side as columns; a tensor of fewer than two dimensions is one column.

    >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return hstack([_as_column(t) for t in _some("column_stack", tensors)], out=out)


__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "cat",
    "column_stack",
    "concat",
    "concatenate",
    "dstack",
    "hstack",
    "row_stack",
    "stack",
    "vstack",
]
