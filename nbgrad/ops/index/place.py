"""Reading and writing at places of a tensor: what indexing, gather, scatter and take are made of.

Promises them that nothing is written before every index has been checked. A `Place` says where in a shape elements lie; reading there and
adding there are each other's gradients.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.base.switches import determinism
from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.base.warn import warn
from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor, empty, hooks, requires, wrap
from nbgrad.core.writes import check_write
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import differentiable, no_overlap
from nbgrad.dispatch.prepared import Prepared, Run
from nbgrad.dispatch.transforms import innermost, level_of
from nbgrad.history.record import recorder, written_by
from nbgrad.kernels import faults
from nbgrad.kernels.cpu import index as _kernels
from nbgrad.kernels.cuda import places as runs_of
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.device import cpu, device
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Batched, Level, Spec, spec
from nbgrad.ops.pointwise.arithmetic import _floor_divided, remainder
from nbgrad.ops.views.copy import (
    clone,
    contiguous,
    copy_memory,
    dense_copy,
    fill_memory,
    filling,
    in_format_of,
    moved,
    scalar,
    to_dtype,
    zeros,
)
from nbgrad.ops.views.order import _permute, movedim
from nbgrad.ops.views.parts import real
from nbgrad.ops.views.shape import expand, reshape
from nbgrad.tape.modes import state

_Array = np.ndarray[Any, Any]
_int64, _bytes = np.dtype(np.int64), np.dtype(np.uint8)

# ---------------------------------------------------------------- places


class Geometry:
    """What of a place depends on shapes alone: the shape of what is read there, and how a kernel walks a
    tensor laid out as `sp`."""

    __slots__ = ("elements", "items", "meta", "out", "points")

    def __init__(self, sp: Spec, dims: Ints, block: Ints) -> None:
        lead = _lead(dims)
        rest = [d for d in builtins.range(sp.ndim) if d not in dims]
        sizes = [tuple(sp.shape)[d] for d in rest]
        self.out = spec(sp.dtype, (*sizes[:lead], *block, *sizes[lead:]), None, sp.device)
        outer = [(tuple(sp.shape)[d], sp.strides[d]) for d in rest[:lead]][::-1]
        inner = [(tuple(sp.shape)[d], sp.strides[d]) for d in rest[lead:]]
        loops = _joined(inner)
        n, step = loops.pop() if loops else (1, 1)
        rows, places = prod(n for n, _ in loops), prod(block)
        self.elements = self.out.numel
        self.items = places * prod(n for n, _ in outer) if self.elements else 0
        self.points = rows * n == 1
        meta = [len(outer), places, len(loops), rows, n, step, *(n for n, _ in outer), *(s for _, s in outer)]
        meta += [*(n for n, _ in loops[::-1]), *(s for _, s in loops[::-1])]
        for d in dims:
            meta += [tuple(sp.shape)[d], sp.strides[d]]
        self.meta = sp.backend.constants(meta)


def _lead(dims: Ints) -> int:
    """How many dimensions stand before the block that is read along `dims`."""
    return dims[0] if dims and _in_one_run(dims) else 0


def _in_one_run(dims: Ints) -> bool:
    return dims == tuple(builtins.range(dims[0], dims[0] + len(dims)))


def _joined(loops: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join dimensions (size, stride) that continue each other, without changing their order."""
    out: list[tuple[int, int]] = []
    for n, s in loops:
        if n == 1:
            continue
        if out and out[-1][1] == s * n:
            out[-1] = (out[-1][0] * n, s)
        else:
            out.append((n, s))
    return out


_geometries: Table[tuple[Spec, Ints, Ints], Geometry] = Table("ops.index.place.geometries", 4096)


class Fault(NamedTuple):
    """What is told of an index out of bounds: which fault it is, whether negative ones count from the end, and the number of the first
    dimension that has an index."""

    number: int = 0
    negative: bool = True
    dim: int = 0

    def low(self, size: int) -> int:
        return -size if self.negative else 0


_NONE = Fault()  # of indices that are of our own making
OUTSIDE = Fault(faults.INDEX)  # PyTorch counts the dimensions that are indexed, not all
GRID, _NUMBERED = Fault(faults.ELEMENT, False), Fault(faults.NUMBER)


class Place:
    """Where in a tensor elements lie: `indices` (tensors of int64, checked, broadcastable to `block`, of which negative ones count from
    the end) along `dims`, everything along the other dimensions. As in NumPy, the block stands where the indexed
    dimensions stood if they are neighbours, else first.

    In a vmap each example may have its own places: then `by` is an index tensor that tells the examples apart, and `indices` have
    in front a dimension for each of the `levels`, the outermost vmap's first."""

    __slots__ = ("block", "by", "dims", "fault", "indices", "levels")

    def __init__(
        self,
        dims: Ints,
        indices: Sequence[Tensor],
        block: Ints,
        levels: tuple[Level, ...] = (),
        by: Tensor | None = None,
        fault: Fault = _NONE,
    ) -> None:
        while by is not None and type(by._buf) is Batched and not by._buf.has:  # a vmap further in shares it
            by = by._buf.inner
        self.dims, self.indices, self.block, self.levels, self.by = dims, indices, block, levels, by
        self.fault = fault

    @property
    def lead(self) -> int:
        return _lead(self.dims)

    @property
    def count_at(self) -> int:
        """Where, in what is read at the same places of all examples, their count stands: before the block or behind it."""
        return 0 if self.dims and _in_one_run(self.dims) else len(self.block)

    def of_each(self) -> Place:
        """The same place in every example, as a place in the tensor of all."""
        dims = tuple([d + 1 for d in self.dims])
        return Place(dims, self.indices, self.block, self.levels, self.by, self.fault)

    def of_own(self, size: int, inside: bool) -> Place:
        """Each example's own place: in the tensor of all, or all in the one (not `inside`) that they share."""
        dims, indices = self.dims, list(self.indices)
        if inside:
            dims = (0, *[d + 1 for d in dims])
            indices.insert(0, counting(size, len(self.block), self.by))
        by = self.by._buf.inner if self.by is not None and len(self.levels) > 1 else None
        return Place(dims, indices, (size, *self.block), self.levels[:-1], by, self.fault)

    def by_dim(self) -> tuple[Tensor | None, ...]:
        """The indices as tensors, one for each dimension up to the last that has one."""
        known = dict(zip(self.dims, self.indices))
        found = [known.get(d) for d in builtins.range(max(self.dims, default=-1) + 1)]
        return tuple([None if i is None else dense_copy(expand(i, self.block)) for i in found])

    def of(self, sp: Spec) -> Geometry:
        key = (sp, self.dims, self.block)
        found = _geometries.get(key)
        return _geometries.keep(key, Geometry(*key)) if found is None else found

    def offsets(self, sp: Spec) -> Any:
        specs = tuple([t._spec for t in self.indices])
        return _adding(sp, self.dims, self.block, specs, self.fault)([t._buf for t in self.indices])


@cached(PLANS)
def _adding(
    sp: Spec, dims: Ints, block: Ints, specs: tuple[Spec, ...], fault: Fault
) -> Callable[[Sequence[Any]], Any]:
    """What makes of indices that lie so along dimensions of a tensor the offset of each place."""
    backend, count = sp.backend, len(dims)
    nbytes = 8 * prod(block)
    if not count:  # of a tensor without dimensions there is one element, which every place is
        return lambda buffers: backend.zeros(nbytes)
    guarded = not backend.prompt
    strides = [layout.expand(at.shape, at.strides, block)[1] for at in specs]
    rows, meta = layout.by_rows(block, layout.contiguous_strides(block), *strides)
    items = rows if meta[0] else prod(block)
    for k, d in enumerate(dims):
        n = tuple.__getitem__(sp.shape, d)
        meta += [n, sp.strides[d]]
        if guarded:
            meta += [fault.low(n), fault.dim + k, fault.number]
    how, told = backend.constants(meta), backend.told
    source, params = _kernels.offsets(count, guarded)
    address = backend.kernel(f"offsets_{count}", source, params, unrolled=False).address
    launch = backend.launch(2 + guarded + count, "", prod(block))

    def run(buffers: Sequence[Any]) -> Any:
        made = backend.empty(nbytes)
        if guarded:
            launch(address, items, how, told.flag[0], made, *buffers)
        else:
            launch(address, items, how, made, *buffers)
        return made

    return run


def counting(n: int, behind: int, of: Any) -> Tensor:
    """The numbers 0 to `n - 1` with so many dimensions of size 1 behind them, where `of` lies."""
    return of_numbers(np.arange(n, dtype=_int64).reshape(n, *(1,) * behind), of._spec.device)


def of_numbers(array: _Array, where: device) -> Tensor:
    """Integers of our own making as a tensor."""
    array = np.ascontiguousarray(array, _int64)
    made = wrap(array.reshape(-1).view(_bytes), spec(dtypes.int64, array.shape, None, cpu))
    return made if where is cpu else moved(made, dtypes.int64, where)


class _Raw(Place):
    """A place that kernels find by indices as they lie in a tensor's memory, which have been checked. What else is asked of a place is
    worked out then."""

    __slots__ = ()
    levels = ()
    by = None


class Named(_Raw):
    """Where index tensors point, one for each of `dims`, of `sizes`, contiguous in `buffers`. Negative ones count from the end."""

    __slots__ = ("buffers", "sizes")

    def __init__(
        self, dims: Ints, sizes: Ints, buffers: Sequence[Any], block: Ints, fault: Fault = _NONE
    ) -> None:
        self.dims, self.sizes, self.buffers, self.block, self.fault = dims, sizes, buffers, block, fault

    @property
    def indices(self) -> Sequence[Tensor]:  # type: ignore[override]
        return [_indices_in(buf, self.block) for buf in self.buffers]


def _indices_in(buffer: Any, shape: Ints) -> Tensor:
    return wrap(buffer, spec(dtypes.int64, shape, None, backend.of_memory(buffer).device))


def along(dim: int, array: _Array, sp: Spec) -> Named:
    """Where integers of our own making point along a dimension of what lies as `sp`."""
    size = tuple.__getitem__(sp.shape, dim)
    return Named((dim,), (size,), [of_numbers(array, sp.device)._buf], array.shape)


class Numbered(Named):
    """The elements of a tensor of this `shape`, and so many, that have the numbers in a buffer, counted as if all lay in one row."""

    __slots__ = ("shape",)

    def __init__(
        self,
        dims: Ints,
        sizes: Ints,
        buffers: Sequence[Any],
        block: Ints,
        shape: Ints,
    ) -> None:
        super().__init__(dims, sizes, buffers, block, _NUMBERED)
        self.shape = shape

    @property
    def indices(self) -> Sequence[Tensor]:  # type: ignore[override]
        return by_number(_indices_in(self.buffers[0], self.block), self.shape)

    def of(self, sp: Spec) -> Geometry:
        return Place((0,), (), self.block).of(sp.like((sp.numel,))) if sp.contiguous else super().of(sp)

    def offsets(self, sp: Spec) -> Any:
        return _by_number(sp, prod(self.block))(self.buffers[0])


@cached(PLANS)
def _by_number(sp: Spec, count: int) -> Callable[[Any], Any]:
    """What makes of so many numbers of a tensor's elements their offsets."""
    served, nbytes = sp.backend, 8 * count
    sizes, strides = ((sp.numel,), (1,)) if sp.contiguous else (sp.shape, sp.strides)
    meta = served.constants([len(sizes), sp.numel, *sizes[::-1], *strides[::-1]])
    address = served.kernel("numbers", *_kernels.numbers()).address
    launch, told = served.launch(4, "", count), served.told

    def run(numbers: Any) -> Any:
        made = served.empty(nbytes)
        launch(address, count, meta, told.flag[0], made, numbers)
        return made

    return run


def by_number(numbers: Tensor, shape: Ints) -> list[Tensor]:
    """The indices by dimension of elements that have these numbers, counted as if all lay in one row."""
    steps = layout.contiguous_strides(shape)
    return [remainder(_floor_divided(numbers, max(step, 1)), max(n, 1)) for n, step in zip(shape, steps)]


class Grid(_Raw):
    """The places that have an index along `dim`, each its own, and stand along other dimensions where their index stands. `at` is how the
    indices lie in `buffer`."""

    __slots__ = ("at", "buffer", "dim")

    def __init__(self, dim: int, buffer: Any, at: Spec) -> None:
        self.dim, self.buffer, self.at, self.fault = dim, buffer, at, GRID

    @property
    def block(self) -> Ints:  # type: ignore[override]
        return self.at.shape

    @property
    def dims(self) -> Ints:  # type: ignore[override]
        return tuple(builtins.range(self.at.ndim))

    @property
    def indices(self) -> Sequence[Tensor]:  # type: ignore[override]
        own = wrap(self.buffer, self.at)
        return [
            own if d == self.dim else counting(n, self.at.ndim - d - 1, own)
            for d, n in enumerate(self.at.shape)
        ]


_addresses: Table[Any, int] = Table("ops.index.place.addresses", None)
SIZES = {1: "u1", 2: "i2", 4: "i4", 8: "i8", 16: "c16"}  # the codes by which plain moves know what they move


def _address(move: str, sp: Spec, points: bool, indices: int) -> int:
    """Of the kernel that makes this move where offsets say (of no `indices`), or so many indices, or (-1) one for each element."""
    if move in ("add", "mul", "max", "min"):
        code = sp.dtype.code
        if code == "b1":
            move, code = "or" if move == "add" else move, "u1"
    else:
        code = SIZES[sp.itemsize]
    key = (move, code, points, indices, sp.backend)
    address = _addresses.get(key)
    if address is None:
        guarded = not sp.backend.prompt
        source, params = (
            _kernels.grid(move, code, guarded)
            if indices < 0
            else _kernels.walk(move, code, points, indices, guarded)
        )
        form = "_grid" if indices < 0 else "" if points else "_rows"
        name = f"index_{move}_{code}{form}{indices if indices > 0 else ''}"
        address = _addresses[key] = sp.backend.kernel(name, source, params).address
    return address


def _run(move: str, memory: Tensor, other: Any, place: Place, how: Geometry) -> None:
    if not how.items:
        return
    sp = memory._spec
    if type(place) is Grid:
        moving(move, sp, place.dim, place.at, how.out)(other, memory._buf, place.buffer)
        return
    as_they_lie = type(place) is Named or (type(place) is Numbered and sp.contiguous)
    buffers = place.buffers if as_they_lie else (place.offsets(sp),)  # type: ignore[attr-defined]
    if sp.backend.prompt:
        address = _address(move, sp, how.points, len(buffers) if as_they_lie else 0)
        launch = sp.backend.launch(3 + len(buffers), "", how.elements if move == "read" else 1)
        launch(address, how.items, how.meta, other, memory._buf, *buffers)
    elif as_they_lie:
        walking(move, sp, how, len(buffers), False, place.fault)(other, memory._buf, *buffers)
    else:
        launch = _launching(move, sp, 4, "", how.elements)
        launch(_address(move, sp, True, 0), how.elements, how.meta, other, memory._buf, *buffers)


def _launching(
    move: str, sp: Spec, buffers: int, numbers: str, n: int, quick: bool = False
) -> Callable[..., None]:
    """The launcher of a move of `n` elements. Places may repeat, so writes are not cut over threads, but on a device what is added in one
    go, and what is written over, of which any may stay, unless results are to be the same each time."""
    launch = sp.backend.launch
    if move == "read":
        return launch(buffers, numbers, n, quick)
    alone = launch(buffers, numbers, 1, quick)
    if sp.backend.prompt or not (
        move in ("write", "fill") or (move == "add" and sp.dtype.code in _kernels.AT_ONCE)
    ):
        return alone
    many = launch(buffers, numbers, n, quick)

    def either(*args: Any) -> None:
        (alone if determinism.level else many)(*args)

    return either


def walking(
    move: str, sp: Spec, how: Geometry, indices: int, quick: bool, fault: Fault
) -> Callable[..., None]:
    """What makes a move between some memory and a tensor that lies as `sp`, where so many indices say: a function of these."""
    address = _address(move, sp, how.points, indices)
    if sp.backend.prompt:
        launch = _launching(move, sp, 3 + indices, "", how.elements, quick)
        return partial(launch, address, how.items, how.meta)
    launch, told = _launching(move, sp, 4 + indices, "qqq", how.elements), sp.backend.told
    items, meta = how.elements, how.meta

    def run(*memories: Any) -> None:
        launch(address, items, meta, told.flag[0], *memories, *fault)

    return run


_grids: Table[Any, Callable[..., None]] = Table("ops.index.place.grids", 4096)


def moving(move: str, sp: Spec, dim: int, at: Spec, other: Spec) -> Callable[..., None]:
    """What makes a move between `other` and a tensor laid out as `sp`, where indices that lie as `at` say along `dim`: a function of the
    memory of the three."""
    key = (move, sp, dim, at, other)
    found = _grids.get(key)
    if found is not None:
        return found
    shape = tuple(at.shape)
    still = tuple([0 if d == dim else s for d, s in enumerate(sp.strides)])
    order = layout.contiguous_strides(shape)  # in which elements are written
    rows, meta = layout.by_rows(shape, order, other.strides, still, at.strides)
    d = meta[0]
    del meta[2 + d : 2 + 2 * d], meta[-4]
    told = [] if sp.backend.prompt else [tuple.__getitem__(sp.shape, dim), dim, GRID.number]
    how = sp.backend.constants([*meta, sp.strides[dim], *told])
    address = _address(move, sp, True, -1)
    launch = _launching(move, sp, 4 + bool(told), "", at.numel)
    items, flag = rows if d else at.numel, sp.backend.told

    def run(other: Any, memory: Any, indices: Any) -> None:
        launch(address, items, how, other, memory, indices)

    def telling(other: Any, memory: Any, indices: Any) -> None:
        launch(address, items, how, flag.flag[0], other, memory, indices)

    return _grids.keep(key, telling if told else run)


def _read(input: Tensor, place: Place) -> Tensor:
    how = place.of(input._spec)
    out = empty(how.out)
    _run("read", input, out._buf, place, how)
    return out


def held_copy(buffer: Any, nbytes: int) -> Any:
    """A copy for a graph to keep, as the owner of an index may write to it."""
    return buffer.copy() if len(buffer) == nbytes else buffer[:nbytes].copy()


def own_copy(index: Tensor, kept: bool) -> Any:
    """The memory of an index for a place to hold: a write to what shares it must not change where it goes."""
    buf = index._buf
    return held_copy(buf, index._spec.nbytes) if kept or index._storage is not None else buf


def record_at(op_function: Any, result: Tensor, input: Tensor, place: Place) -> None:
    """Give what was read at a place its history."""
    op, asked = op_function.op, input._rg
    (op.recorders.get(asked) or recorder(op, asked))(result, {"place": place}, input)


def _write(memory: Tensor, value: Tensor, place: Place, move: str) -> None:
    """`value` is broadcast to what reading there would give; `move` is "write", or says how it joins what is there."""
    how = place.of(memory._spec)
    shared = (
        value._storage is not None
        and memory._storage is not None
        and value._storage.memory is memory._storage.memory
    )
    if shared or value._buf is memory._buf or value._spec is not how.out:
        whole, there = empty(how.out), how.out.device
        if value._spec.device is not there and value._spec.ndim == 0:  # a number, which goes with the launch
            fill_memory(whole, value.item())
        else:
            if value._spec.device is not there and how.out.backend.holds:
                backend.same((there, value._spec.device))
            copy_memory(whole, value)
        value = whole
    _run(move, memory, value._buf, place, how)


def _placed(op: Any, own: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The op, or, where a vmap's examples have each their own places, the one that knows so."""

    def function(*tensors: Tensor, place: Place, **static: Any) -> Tensor:
        if place.levels:
            depths = [level_of(t) for t in tensors]
            if all(d is None or d.index <= place.levels[-1].index for d in depths):
                return own(*tensors, place.by, place=place, **static)
        return op(*tensors, place=place, **static)

    function.op = op.op  # type: ignore[attr-defined]
    op.op.again = function
    return function


def _moved_block(t: Tensor, start: int, to: int, ndim: int) -> Tensor:
    """The dimensions of a block, `ndim` from `start` on, taken to `to`."""
    order = list(builtins.range(t.ndim))
    block = order[start : start + ndim]
    del order[start : start + ndim]
    order[to:to] = block
    return t if start == to else _permute(t, dims=tuple(order))


def _for_all(t: Tensor, has: bool, size: int, shape: Sequence[int] | None = None) -> Tensor:
    """One `t` for each example, and each broadcast to `shape`."""
    own = tuple(t.shape)[1:] if has else tuple(t.shape)
    shape = own if shape is None else tuple(shape)
    if has and len(own) < len(shape):
        t = reshape(t, (size, *(1,) * (len(shape) - len(own)), *own))
    return t if has and own == shape else expand(t, (size, *shape))


def _never(*tensors: Tensor, **static: Any) -> Tensor:
    raise AssertionError("inside of a vmap only")


def _read_each(x: Tensor, place: Place) -> Tensor:
    return movedim(_index(x, place=place.of_each()), place.count_at, 0)


def _read_own_each(has: Sequence[bool], x: Tensor, by: Tensor, place: Place) -> Tensor:
    n, k = tuple.__getitem__(by.shape, 0), len(place.block)
    out = _index(x, place=place.of_own(n, has[0]))
    return _moved_block(out, 1, place.lead + 1, k) if has[0] else movedim(out, place.lead, 0)


def _tied_each(has: Sequence[bool], gradient: Tensor, input: Tensor) -> Tensor:
    if has[0]:
        return gradient
    n = tuple.__getitem__(input.shape, 0)
    return expand(gradient, (n, *gradient.shape))


@differentiable(
    "MulBackward",
    raw=True,
    batch=_tied_each,
    gradient=lambda g: g,
    input=lambda g, input_spec: zeros(input_spec.dense()),
)
def tied(gradient: Tensor, input: Tensor) -> Tensor:
    """A gradient that does not depend on the input, but that, as PyTorch has it, is of the input's graph: its derivative there is 0."""
    return wrap(gradient._buf, gradient._spec)


def _picker(node_name: str, held: bool = True, ties: bool = False) -> Callable[..., Tensor]:
    """An op that reads at places, which are `held` if PyTorch saves tensors that say where; its gradient `ties` to the input if
    PyTorch saves that."""
    if ties:

        def rule(g: Tensor, input: Tensor, place: Place) -> Tensor:
            return in_format_of(input, tied(_spread(g, base=input._spec.dense(), place=place), input))

    else:

        def rule(g: Tensor, input_spec: Spec, place: Place) -> Tensor:  # type: ignore[misc]
            return _spread(g, base=input_spec.dense(), place=place)

    @differentiable(node_name, tangent=LINEAR, batch=_read_each, input=rule)
    def pick(input: Tensor, *, place: Place) -> Tensor:
        return in_format_of(input, _read(input, place)) if ties else _read(input, place)

    pick.op.held = ("place",) if held else ()  # type: ignore[attr-defined]

    def at(sp: Spec, static: dict[str, Any]) -> Prepared:
        """For a place that is the same at each call: what is read lies where it is."""
        run = _reading(sp, static["place"])
        if ties and layout.suggested_format(tuple(sp.shape), sp.strides) is not layout.contiguous_format:
            return Prepared(pick.op, (sp,), static, lambda t: in_format_of(t, run(t)))  # type: ignore[attr-defined]
        return Prepared(pick.op, (sp,), static, run)  # type: ignore[attr-defined]

    function = _placed(pick, _read_own)
    function.at = at  # type: ignore[attr-defined]
    return function


_KEPT_OFFSETS = 4096  # 32 KB


def _reading(sp: Spec, place: Place) -> Run:
    """What reads at a place in tensors that lie so; of few elements, whose offsets it keeps, at less cost."""
    how = place.of(sp)
    if not how.items or not sp.backend.prompt or prod(place.block) > _KEPT_OFFSETS:
        return lambda t: _read(t, place)
    offsets, out, items, meta = place.offsets(sp), how.out, how.items, how.meta
    address = _address("read", sp, how.points, 0)
    launch = sp.backend.launch(4, "", how.elements, how.elements < FEW)

    def run(t: Tensor) -> Tensor:
        made = empty(out)
        launch(address, items, meta, made._buf, t._buf, offsets)
        return made

    return run


_read_own = differentiable(
    "Index",
    tangent=lambda input_t, place: _index(input_t, place=place),
    batch=_read_own_each,
    input=lambda g, input_spec, place: _spread(g, base=input_spec.dense(), place=place),
)(lambda input, by, *, place: _never())


def _spread_each(x: Tensor, base: Spec, place: Place) -> Tensor:
    n = tuple.__getitem__(x.shape, 0)
    return _spread(movedim(x, 0, place.count_at), base=base.like((n, *base.shape)), place=place.of_each())


def _spread_own_each(has: Sequence[bool], x: Tensor, by: Tensor, base: Spec, place: Place) -> Tensor:
    n, k = tuple.__getitem__(by.shape, 0), len(place.block)
    x = _moved_block(_for_all(x, has[0], n), place.lead + 1, 1, k)
    return _spread(x, base=base.like((n, *base.shape)), place=place.of_own(n, True))


@differentiable("IndexPut", tangent=LINEAR, batch=_spread_each, input=lambda g, place: _index(g, place=place))
def _spread_same(input: Tensor, *, base: Spec, place: Place) -> Tensor:
    """Zeros, to which the input is added at the places: the inverse of reading there."""
    out = zeros(base)
    _write(out, input, place, "add")
    return out


_spread: Callable[..., Tensor] = _placed(
    _spread_same,
    differentiable(
        "IndexPut",
        tangent=lambda input_t, base, place: _spread(input_t, base=base, place=place),
        batch=_spread_own_each,
        input=lambda g, place: _index(g, place=place),
    )(lambda input, by, *, base, place: _never()),
)


_index: Callable[..., Tensor] = _picker("Index")
_gather, _index_select, _take = _picker("Gather"), _picker("IndexSelect"), _picker("Take")
_index.op.places["indices"] = lambda place: place.by_dim()  # type: ignore[attr-defined]
_index_select.op.places["index"] = lambda place: place.by_dim()[-1]  # type: ignore[attr-defined]
_masked_select = _picker("MaskedSelect")


def _putter(node_name: str, accumulate: bool, dense: bool = False) -> Callable[..., Tensor]:
    """An op that writes `value` at places of a copy of `input`, a `dense` one if PyTorch's is. Its record also serves the op that
    writes in place."""

    def overwritten(g: Tensor, place: Place) -> Tensor:
        return g if accumulate else _zeroed(g, place)

    def added_to(g: Tensor) -> Tensor:
        return g

    # PyTorch's index_put and put keep the indices for any gradient, the other ops that add only for the value's.
    to_input = added_to if accumulate and node_name not in ("IndexPut", "Put") else overwritten

    def to_value(g: Tensor, value_spec: Spec, place: Place) -> Tensor:
        back: Tensor = _index(g, place=place)
        if back._spec.shape != value_spec.shape:
            back = hooks.sum_to(back, value_spec.shape)
        return to_dtype(back, value_spec.dtype)

    def each(has: Sequence[bool], input: Tensor, value: Tensor, place: Place) -> Tensor:
        n = tuple.__getitem__((input if has[0] else value).shape, 0)
        input = _for_all(input, has[0], n)
        read = place.of(input._spec.plain.like(tuple(input.shape)[1:])).out.shape
        value = movedim(_for_all(value, has[1], n, read), 0, place.count_at)
        return put_at(input, value, place=place.of_each())

    def own_each(has: Sequence[bool], input: Tensor, value: Tensor, by: Tensor, place: Place) -> Tensor:
        n, k = tuple.__getitem__(by.shape, 0), len(place.block)
        input = _for_all(input, has[0], n)
        read = place.of(input._spec.plain.like(tuple(input.shape)[1:])).out.shape
        value = _moved_block(_for_all(value, has[1], n, read), place.lead + 1, 1, k)
        return put_at(input, value, place=place.of_own(n, True))

    def moved(
        input: Tensor, value: Tensor, input_t: Tensor | None, value_t: Tensor | None, place: Place
    ) -> Tensor:
        a = zeros(input._spec.dense()) if input_t is None else input_t
        return put_at(a, zeros(value._spec.dense()) if value_t is None else value_t, place=place)

    @differentiable(node_name, tangent=moved, batch=each, input=to_input, value=to_value)
    def put(input: Tensor, value: Tensor, *, place: Place) -> Tensor:
        out: Tensor = dense_copy(input) if dense else clone(input)
        _write(out, value, place, "add" if accumulate else "write")
        out._storage = None
        return out

    put.op.held = ("place",)  # type: ignore[attr-defined]
    own = differentiable(node_name, tangent=moved, batch=own_each, input=to_input, value=to_value)(
        lambda input, value, by, *, place: _never()
    )
    put_at = _placed(put, own)
    return put_at


_ON_EXPANDED = {
    "IndexPutBackward0": ("index_put_", "tensor[indices] = tensor"),
    "IndexFillBackward0": ("index_fill_", "tensor[mask] = scalar"),
    "IndexFillBackward1": ("index_fill_", "tensor[mask] = scalar"),
}


def warn_expanded(name: str, example: str) -> None:

    warn(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This "
        f"also applies to advanced indexing e.g. {example}"
    )


def _put_(
    op_function: Any,
    self: Tensor,
    value: Tensor,
    place: Place,
    move: str = "write",
    by: Tensor | None = None,
) -> Tensor:
    """`by` is the tensor that says where, if PyTorch looks whether it shares memory with `self`."""
    if state.active and (place.levels or transforms.wrapped((self, value))):
        return transforms.inplace(op_function, self, value, place=place)
    expanded = op_function.op.node_name in _ON_EXPANDED and 0 in self._spec.strides
    check_write(self, state.grad and (requires(self) or requires(value)), filled=expanded)
    no_overlap(self, value, by)
    if expanded and layout.overlaps(self._spec.shape, self._spec.strides):
        warn_expanded(*_ON_EXPANDED[op_function.op.node_name])
    _write(self, value, place, move)
    return written_by(self, op_function.op, (self, value), {"place": place})


_index_put, _index_put_add = _putter("IndexPut", False), _putter("IndexPut", True)
_scatter_src, _scatter_value = _putter("Scatter", False, True), _putter("ScatterBackward1", False, True)
_scatter_add, _index_add = _putter("ScatterAdd", True, True), _putter("IndexAdd", True, True)
_index_fill, _index_fill_tensor = _putter("IndexFill", False), _putter("IndexFillBackward1", False)


def _unknown(move: str, suffix: str) -> Callable[..., Tensor]:
    """A scatter that joins what is there, which PyTorch does not differentiate."""

    def refuse(g: Tensor) -> Tensor:
        raise RuntimeError(f"derivative for aten::scatter{suffix} is not implemented")

    @differentiable("NotImplemented", input=refuse, value=refuse)
    def put(input: Tensor, value: Tensor, *, place: Place) -> Tensor:
        out: Tensor = dense_copy(input)
        _write(out, value, place, move)
        out._storage = None
        return out

    put.op.node_name = "NotImplemented"  # type: ignore[attr-defined]
    return put


# PyTorch's `reduce` of scatter, and of scatter_
_SCATTERED = {
    suffix: {"add": _unknown("add", suffix), "multiply": _unknown("mul", suffix)} for suffix in ("", "_")
}


def _zeroed(g: Tensor, place: Place) -> Tensor:
    return _index_put(g, scalar(0, g._spec.dtype), place=place)


# ---------------------------------------------------------------- checking indices


@cached(PLANS)
def checking(served: Any, count: int, low: int, high: int) -> Callable[[Any], bool]:
    """What says whether so many indices in a buffer are all within bounds, where that is known before the kernels that read them run;
    which one is not, `checked` finds."""
    if not served.prompt:
        return lambda indices: True
    address = served.kernel("bounds", *_kernels.bounds()).address
    launch, told = served.launch(2, "qq", count, count < FEW), served.told

    def fine(indices: Any) -> bool:
        flag, seen = told.flag
        launch(address, count, indices, flag, low, high)
        if seen[0]:
            seen[0] = 0
            return False
        return True

    return fine


@cached(PLANS)
def true_places(sp: Spec, by_dim: bool) -> Callable[[Any], tuple[int, Any]]:
    """What finds in memory that lies as `sp`, contiguous, how many elements are not 0, and where: the indices of one after another's, or
    those of all `by_dim`."""
    if not sp.backend.holds:
        raise backend.valueless("nonzero")
    if sp.device.type == "cuda":
        return _true_on_device(sp, by_dim)
    code, d, n = sp.dtype.code, sp.ndim, sp.numel
    launch, kernel = sp.backend.launch, sp.backend.kernel
    counting = kernel(f"count_{code}", *_kernels.true(code, True)).address
    finding = kernel(f"nonzero_{code}", *_kernels.true(code, False)).address
    count_all, find_all = launch(2, "", 1, n < FEW), launch(3, "qqq", 1, n < FEW)
    meta, told, allocate = sp.backend.constants([d, *sp.shape[::-1]]), sp.backend.told, sp.allocate

    def found(buffer: Any) -> tuple[int, Any]:
        number, seen = told.count
        count_all(counting, n, buffer, number)
        count = seen[0]
        places = allocate(count * d * 8, _bytes)
        if count and d:
            find_all(finding, n, meta, buffer, places, *((count, 1) if by_dim else (1, d)), count)
        return count, places

    return found


def _true_on_device(sp: Spec, by_dim: bool) -> Callable[[Any], tuple[int, Any]]:
    """In runs, each of which must know how many there are before it."""
    code, d, n, serves = sp.dtype.code, sp.ndim, sp.numel, sp.backend
    runs = -(-n // runs_of.RUN)
    counting = serves.kernel(f"counted_{code}", *runs_of.counted(code)).address
    adding = serves.kernel("added_counts", *runs_of.added()).address
    finding = serves.kernel(f"written_{code}", *runs_of.written(code)).address
    count_runs, add_counts = serves.launch(2, "q", n), serves.launch(2, "", 2)
    find_all = serves.launch(4, "qqq", n)
    meta, told, allocate = serves.constants([d, *sp.shape[::-1]]), serves.told, sp.allocate

    def found(buffer: Any) -> tuple[int, Any]:
        number, seen = told.count
        before = allocate(8 * runs, _bytes)
        count_runs(counting, runs, before, buffer, n)
        add_counts(adding, runs, before, number)
        count = seen[0]
        places = allocate(count * d * 8, _bytes)
        if count:
            find_all(finding, runs, meta, buffer, before, places, n, *((count, 1) if by_dim else (1, d)))
        return count, places

    return found


def where_true(mask: Tensor, dim: int = 0) -> Named:
    """The places in a tensor's dimensions from one on where a mask that lies contiguous is true."""
    sp = mask._spec
    count, places = true_places(sp, True)(mask._buf)
    step, view = 8 * count, sp.backend.view
    buffers = [places] if sp.ndim == 1 else [view(places, step * d) for d in builtins.range(sp.ndim)]
    return Named(tuple(builtins.range(dim, dim + sp.ndim)), sp.shape, buffers, (count,))


def checked(index: Tensor, size: int, fault: Fault, number: int = 0) -> Tensor:
    """An index that lies contiguous, if it is within bounds so far as is known; the `number`-th of several."""
    sp, low = index._spec, fault.low(size)
    if not sp.numel or not sp.backend.holds:
        return index
    if not size or not checking(sp.backend, sp.numel, low, size)(index._buf):
        values = sp.backend.to_host(index._buf, sp)
        outside = values[(values < low) | (values >= size)]
        raise faults.error(fault.number, int(outside[0]), size, fault.dim + number)
    return index


def _own_index(t: Tensor, of: Tensor, kept: bool, anywhere: bool = False) -> Tensor:
    """An index of `of` as kernels take it there; a copy if a graph will keep it, as its owner may write to it. Those of all examples in a
    vmap. With `anywhere` the CPU's are brought there."""
    t, where = innermost(t), of._spec.device
    at = t._spec.device
    if at is not where and at.type != "cpu":
        if anywhere and at.type == "cuda":
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({where})"
            )
        backend.same((where, at))
    elif at is not where and not anywhere and where.type == "cuda":
        backend.same((where, at))
    made = contiguous(moved(t, dtypes.int64, where))
    buf = held_copy(made._buf, made._spec.nbytes) if kept and made._buf is t._buf else made._buf
    return wrap(buf, made._spec.plain)


def _levels(t: Tensor) -> tuple[Level, ...]:
    """The vmaps whose examples have each their own values of an index, the outermost first."""
    found: tuple[Level, ...] = ()
    while type(t._buf) is Batched:
        found = (t._buf.level, *found) if t._buf.has else found
        t = t._buf.inner
    return found


def _kept(*tensors: Tensor) -> bool:
    return state.grad and any(t._rg for t in tensors)


def distinct(named: Named) -> Named:
    """The same places along one dimension, each once, in order."""
    (size,) = named.sizes
    there = zeros(spec(dtypes.bool_, (size,), None, backend.of_memory(named.buffers[0]).device))
    line = Named((0,), named.sizes, named.buffers, named.block, named.fault)
    _write(there, scalar(True, dtypes.bool_), line, "write")
    found = where_true(there)
    return Named(named.dims, named.sizes, found.buffers, found.block)


def _of_array(array: _Array) -> Tensor:
    array = np.array(array, order="C")  # ours: an index must not change with the user's array
    return wrap(backend.of_array(array), spec(dtypes.from_numpy_dtype(array.dtype), array.shape, None, cpu))


def number_for(sp: Spec) -> Callable[[Any], Tensor]:
    """What makes of a number, cut off for integers, a tensor of the same dtype, for kernels to read beside one that lies so."""
    one = spec(sp.dtype, (), None, sp.device)
    filling(one)  # by which zeros are written, too

    def there(value: Any) -> Tensor:
        made = empty(one)
        fill_memory(made, value)
        return made

    return there


def one_for(value: Tensor, t: Tensor) -> Tensor:
    """A tensor of one number as what another one holds: a complex one must be real to be a real number."""
    d = t._spec.dtype
    if (
        value._spec.dtype.is_complex
        and not d.is_complex
        and d is not dtypes.bool_
        and value._spec.backend.holds
    ):
        dtypes.fitting(value.item(), d)
        value = real(value)
    return to_dtype(value, d)


def _as_kind(value: Any, t: Tensor) -> Any:
    """A number as what the tensor holds: integers cut it off."""
    return (
        value
        if t._spec.dtype.is_floating_point and not isinstance(value, complex)
        else dtypes.fitting(value, t._spec.dtype)
    )
