"""Indexing: basic indices are views, all others are reads and writes at places.

Promises users PyTorch's (NumPy's) meaning of every index, and that nothing is written before every index has
been checked. A `Place` says where in a shape elements lie; reading there and adding there are each other's
gradients, for indexing, gather, scatter, take alike.
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Sequence
from math import prod
from operator import index as _to_int
from typing import Any

import numpy as np

from nbgrad import _backend, _dtypes, _layout, _transforms
from nbgrad._dispatch import differentiable, inplace, into, make_view
from nbgrad._layout import Ints
from nbgrad._op import LINEAR
from nbgrad._plan import number_type
from nbgrad._record import record_op, written_by
from nbgrad._storage import Batched, Level, Marked, Spec, spec
from nbgrad._tape.modes import state
from nbgrad._tensor import OVERLAP, Tensor, check_write, empty, hooks, requires, storage_of, wrap
from nbgrad._transforms import innermost, level_of
from nbgrad.expr import prims as p
from nbgrad.kernels import build
from nbgrad.kernels.cpu import index as _kernels
from nbgrad.ops.copy import clone, copy_, copy_memory, fill_, full, scalar, to_dtype, zeros
from nbgrad.ops.elementwise import where as _where
from nbgrad.ops.movement import (
    _permute,
    _select,
    _select_geometry,
    _sizes,
    _slice,
    _slice_geometry,
    _unsqueeze,
    alias,
    broadcast_to,
    expand,
    movedim,
    narrow,
    reshape,
)
from nbgrad.ops.registry import method, stanza

_Array = np.ndarray[Any, Any]
_int64 = np.dtype(np.int64)
_no_offset = np.zeros(1, _int64).view(np.uint8)


# ---------------------------------------------------------------- places


class Geometry:
    """What of a place depends on shapes alone: the shape of what is read there, and how a kernel walks a
    tensor laid out as `sp`."""

    __slots__ = ("elements", "items", "meta", "out", "points")

    def __init__(self, sp: Spec, dims: Ints, block: Ints) -> None:
        neighbours = dims == tuple(builtins.range(dims[0], dims[0] + len(dims))) if dims else False
        lead = dims[0] if neighbours else 0
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
        self.meta = np.array(meta, _int64).view(np.uint8)


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


_geometries: dict[tuple[Spec, Ints, Ints], Geometry] = {}


class Place:
    """Where in a tensor elements lie: `indices` (non-negative, checked, broadcastable to `block`) along
    `dims`, everything along the other dimensions. As in NumPy, the block stands where the indexed
    dimensions stood if they are neighbours, else first.

    In a vmap each example may have its own places: then `by` is an index tensor that tells the examples apart, and `indices` have
    in front a dimension for each of the `levels`, the outermost vmap's first."""

    __slots__ = ("block", "by", "dims", "indices", "levels")

    def __init__(
        self,
        dims: Ints,
        indices: Sequence[_Array],
        block: Ints,
        levels: tuple[Level, ...] = (),
        by: Tensor | None = None,
    ) -> None:
        self.dims, self.indices, self.block, self.levels, self.by = dims, indices, block, levels, by

    @property
    def lead(self) -> int:
        """How many dimensions stand before the block."""
        first = self.dims[0] if self.dims else 0
        return first if self.dims == tuple(builtins.range(first, first + len(self.dims))) else 0

    @property
    def count_at(self) -> int:
        """Where, in what is read at the same places of all examples, their count stands: before the block or behind it."""
        one_run = self.dims and (self.lead == self.dims[0])
        return 0 if one_run else len(self.block)

    def of_each(self) -> Place:
        """The same place in every example, as a place in the tensor of all."""
        return Place(tuple([d + 1 for d in self.dims]), self.indices, self.block, self.levels, self.by)

    def of_own(self, size: int, inside: bool) -> Place:
        """Each example's own place: in the tensor of all, or all in the one (not `inside`) that they share."""
        dims, indices = self.dims, list(self.indices)
        if inside:
            dims = (0, *[d + 1 for d in dims])
            indices.insert(0, np.arange(size, dtype=_int64).reshape(size, *(1,) * len(self.block)))
        by = self.by._buf.inner if self.by is not None and len(self.levels) > 1 else None
        return Place(dims, indices, (size, *self.block), self.levels[:-1], by)

    def of(self, sp: Spec) -> Geometry:
        key = (sp, self.dims, self.block)
        found = _geometries.get(key)
        if found is None:
            if len(_geometries) > 4096:
                _geometries.clear()
            found = _geometries[key] = Geometry(*key)
        return found

    def offsets(self, sp: Spec) -> Any:
        total: Any = None
        for d, i in zip(self.dims, self.indices):
            part = i if sp.strides[d] == 1 else i * sp.strides[d]
            total = part if total is None else total + part
        if total is None:
            return _no_offset
        if total.shape != self.block:
            total = np.broadcast_to(total, self.block)
        return np.ascontiguousarray(total).reshape(-1).view(np.uint8)


_addresses: dict[tuple[str, str, bool], int] = {}
_by_size = {1: "u1", 2: "i2", 4: "i4", 8: "i8"}


def _run(move: str, memory: Tensor, other: Any, place: Place, how: Geometry) -> None:
    if not how.items:
        return
    sp = memory._spec
    if move == "add":
        code = sp.dtype.code
        if code == "b1":
            move, code = "or", "u1"
    else:
        code = _by_size[sp.itemsize]
    key = (move, code, how.points)
    address = _addresses.get(key)
    if address is None:
        source, params = _kernels.walk(*key)
        address = _addresses[key] = build.kernel(
            f"index_{move}_{code}{'' if how.points else '_rows'}", source, params
        ).address
    # Places may repeat, so only reads are cut over threads.
    launch = _backend.of(sp.device).launch(4, "", how.elements if move == "read" else 1)
    launch(address, how.items, how.meta, other, memory._buf, place.offsets(sp))


def _read(input: Tensor, place: Place) -> Tensor:
    how = place.of(input._spec)
    out = empty(how.out)
    _run("read", input, out._buf, place, how)
    return out


def _write(memory: Tensor, value: Tensor, place: Place, accumulate: bool) -> None:
    """`value` is broadcast to what reading there would give."""
    how = place.of(memory._spec)
    shared = (
        value._storage is not None
        and memory._storage is not None
        and value._storage.memory is memory._storage.memory
    )
    if shared or value._buf is memory._buf or value._spec is not how.out:
        whole = empty(how.out)
        copy_memory(whole, value)
        value = whole
    _run("add" if accumulate else "write", memory, value._buf, place, how)


def _placed(op: Any, own: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The op, or, where a vmap's examples have each their own places, the one that knows so."""

    def function(*tensors: Tensor, place: Place, **static: Any) -> Tensor:
        if place.levels:
            depths = [level_of(t) for t in tensors]
            if all(d is None or d.index <= place.levels[-1].index for d in depths):
                return own(*tensors, place.by, place=place, **static)
        return op(*tensors, place=place, **static)

    function.op = op.op  # type: ignore[attr-defined]
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


def _picker(node_name: str) -> Callable[..., Tensor]:
    @differentiable(
        node_name,
        tangent=LINEAR,
        batch=_read_each,
        input=lambda g, input_spec, place: _spread(g, base=input_spec.dense(), place=place),
    )
    def pick(input: Tensor, *, place: Place) -> Tensor:
        return _read(input, place)

    return _placed(pick, _read_own)


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
    _write(out, input, place, True)
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
_masked_select, _flip, _roll = _picker("MaskedSelect"), _picker("Flip"), _picker("Roll")


def _putter(node_name: str, accumulate: bool) -> Callable[..., Tensor]:
    """An op that writes `value` at places of a copy of `input`. Its record also serves the op that writes
    in place."""

    def to_input(g: Tensor, place: Place) -> Tensor:
        return g if accumulate else _zeroed(g, place)

    def to_value(g: Tensor, value_spec: Spec, place: Place) -> Tensor:
        back: Tensor = _index(g, place=place)
        if back._spec.shape != value_spec.shape:
            back = hooks.sum_to(back, value_spec.shape)
        return to_dtype(back, value_spec.dtype)

    def each(has: Sequence[bool], input: Tensor, value: Tensor, place: Place) -> Tensor:
        n = tuple.__getitem__((input if has[0] else value).shape, 0)
        input = _for_all(input, has[0], n)
        read = place.of(spec(input.dtype, tuple(input.shape)[1:])).out.shape
        value = movedim(_for_all(value, has[1], n, read), 0, place.count_at)
        return put_at(input, value, place=place.of_each())

    def own_each(has: Sequence[bool], input: Tensor, value: Tensor, by: Tensor, place: Place) -> Tensor:
        n, k = tuple.__getitem__(by.shape, 0), len(place.block)
        input = _for_all(input, has[0], n)
        read = place.of(spec(input.dtype, tuple(input.shape)[1:])).out.shape
        value = _moved_block(_for_all(value, has[1], n, read), place.lead + 1, 1, k)
        return put_at(input, value, place=place.of_own(n, True))

    def moved(
        input: Tensor, value: Tensor, input_t: Tensor | None, value_t: Tensor | None, place: Place
    ) -> Tensor:
        a = zeros(input._spec.dense()) if input_t is None else input_t
        return put_at(a, zeros(value._spec.dense()) if value_t is None else value_t, place=place)

    @differentiable(node_name, tangent=moved, batch=each, input=to_input, value=to_value)
    def put(input: Tensor, value: Tensor, *, place: Place) -> Tensor:
        out: Tensor = clone(input)
        _write(out, value, place, accumulate)
        out._storage = None
        return out

    own = differentiable(node_name, tangent=moved, batch=own_each, input=to_input, value=to_value)(
        lambda input, value, by, *, place: _never()
    )
    put_at = _placed(put, own)
    return put_at


def _put_(op_function: Any, self: Tensor, value: Tensor, place: Place, accumulate: bool = False) -> Tensor:
    if state.active and (place.levels or _transforms.wrapped((self, value))):
        return _transforms.inplace(op_function, self, value, place=place)
    check_write(self, state.grad and (requires(self) or requires(value)))
    _write(self, value, place, accumulate)
    return written_by(self, op_function.op, (self, value), {"place": place})


_index_put, _index_put_add = _putter("IndexPut", False), _putter("IndexPut", True)
_scatter_src, _scatter_value = _putter("Scatter", False), _putter("ScatterBackward1", False)
_scatter_add, _index_add = _putter("ScatterAdd", True), _putter("IndexAdd", True)
_index_fill, _index_fill_tensor = _putter("IndexFill", False), _putter("IndexFillBackward1", False)


def _zeroed(g: Tensor, place: Place) -> Tensor:
    return _index_put(g, scalar(0, g._spec.dtype), place=place)


# ---------------------------------------------------------------- checking indices


def _checked(
    index: _Array, size: int, error: Callable[[int], Exception], wrap_negative: bool = True
) -> _Array:
    """The index, negative ones counted from the end; one pass where all is well and none is negative."""
    index = np.ascontiguousarray(index, _int64)
    if index.size and int(index.view(np.uint64).max()) >= size:
        low = -size if wrap_negative else 0
        bad = (index < low) | (index >= size)
        if bad.any():
            raise error(int(index[bad].reshape(-1)[0]))
        return np.where(index < 0, index + size, index)
    return index


def _bounds(kind: type[Exception], dim: int, size: int) -> Callable[[int], Exception]:
    return lambda i: kind(f"index {i} is out of bounds for dimension {dim} with size {size}")


def _host_index(t: Tensor, kept: bool) -> _Array:
    """The values of an index; a copy if a graph will keep it, as its owner may write to it. Those of all examples in a vmap."""
    array = innermost(t)._host()
    return np.array(array, _int64) if kept or array.dtype != _int64 else array


def _levels(t: Tensor) -> tuple[Level, ...]:
    """The vmaps whose examples have each their own values of an index, the outermost first."""
    found: tuple[Level, ...] = ()
    while type(t._buf) is Batched:
        found = (t._buf.level, *found) if t._buf.has else found
        t = t._buf.inner
    return found


def _kept(*tensors: Tensor) -> bool:
    return state.grad and any(t._rg for t in tensors)


# ---------------------------------------------------------------- what stands between the brackets

_ONLY = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})"
_NOT_INDEX = "tensors used as indices must be long, int, byte or bool tensors"


def _is_sequence(x: Any) -> bool:
    return isinstance(x, (list, tuple, str, builtins.range))


def _as_items(index: Any) -> tuple[Any, ...]:
    """One item per position. A list that itself holds sequences, slices, None or ... is taken for a
    tuple, as PyTorch still does."""
    if type(index) is tuple:
        return index
    if isinstance(index, tuple):
        return tuple(index)
    if isinstance(index, list) and len(index) < 32 and any(map(_makes_tuple, index)):
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch "
            "2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
            "x[torch.tensor(seq)], which will result either in an error or a different result",
            UserWarning,
            stacklevel=4,
        )
        return tuple(index)
    return (index,)


def _makes_tuple(x: Any) -> bool:
    return x is None or x is Ellipsis or isinstance(x, (Tensor, slice, np.ndarray)) or _is_sequence(x)


def _as_item(x: Any) -> Any:
    """An int, slice, None, Ellipsis or bool as it is; anything else as an array of integers or bools."""
    kind = type(x)
    if kind is int or kind is slice or x is None or x is Ellipsis or kind is bool:
        return x
    if isinstance(x, Tensor):
        return x
    if isinstance(x, np.ndarray):
        return _from_sequence(x)
    if _is_sequence(x):
        if _holds_text(x):
            raise TypeError("new(): invalid data type 'str'")
        values = [_unwrapped(v) for v in x]
        return _from_sequence(np.array(values, None if values else np.int64))
    if isinstance(x, np.integer) or (hasattr(x, "__index__") and not isinstance(x, np.bool_)):
        return _to_int(x)
    raise IndexError(_ONLY.format("numpy.bool" if isinstance(x, np.bool_) else kind.__name__))


def _holds_text(x: Any) -> bool:
    return isinstance(x, str) or (_is_sequence(x) and any(_holds_text(v) for v in x))


def _unwrapped(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x._host()
    return [_unwrapped(v) for v in x] if isinstance(x, (list, tuple)) else x


def _from_sequence(array: _Array) -> Tensor:
    """PyTorch makes an index of any numbers by truncating them."""
    if array.dtype.kind != "b":
        array = array.astype(np.int64)
    return _of_array(array)


def _of_array(array: _Array) -> Tensor:
    array = np.array(array, order="C")  # ours: an index must not change with the user's array
    return wrap(_backend.from_host(array), spec(_dtypes.from_numpy_dtype(array.dtype), array.shape))


def _dims_taken(x: Any) -> int:
    if x is None or x is Ellipsis or type(x) is bool:
        return 0
    return x.ndim if isinstance(x, Tensor) and x._spec.dtype is _dtypes.bool_ else 1


def _masked_bytes(x: Tensor) -> Tensor:
    """An index of uint8 is a mask, as all were before PyTorch had bool."""
    if x._spec.ndim:
        warnings.warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
            UserWarning,
            stacklevel=4,
        )
    return to_dtype(x, _dtypes.bool_)


def _basic(self: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
    """Apply what is a view, and leave the rest: per dimension of the view, an index tensor or None."""
    given = _as_items(index)
    items = [x if isinstance(x, (str, float)) else _as_item(x) for x in given]
    items = [
        _masked_bytes(x) if isinstance(x, Tensor) and x._spec.dtype is _dtypes.uint8 else x for x in items
    ]
    taken = sum(_dims_taken(x) for x in items)
    if taken > self._spec.ndim:
        if len(items) == 1 and type(items[0]) is int and index is not given:
            raise IndexError(_ZERO_DIM)
        if len(items) == 1 and type(items[0]) is slice and index is not given:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        if len(items) == 1 and isinstance(items[0], str):
            _as_item(items[0])
        raise IndexError(f"too many indices for tensor of dimension {self._spec.ndim}")
    out, dim = self, 0
    rest: dict[int, Tensor] = {}
    for position, x in enumerate(items):
        if x is None:
            out = _unsqueeze(out, dim=dim)
            dim += 1
        elif x is Ellipsis:
            dim += self._spec.ndim - taken
        elif type(x) is int:
            out = _select_at(out, dim, x, position)
        elif type(x) is slice:
            start, length, step = _slice_of(x, tuple.__getitem__(out._spec.shape, dim))
            if start or step != 1 or length != tuple.__getitem__(out._spec.shape, dim) or index is x:
                out = _slice(out, dim=dim, start=start, length=length, step=step)
            dim += 1
        elif type(x) is bool:
            out = _unsqueeze(out, dim=dim)
            rest[dim] = _of_array(np.zeros(1 if x else 0, np.int64))
            dim += 1
        elif isinstance(x, Tensor):
            if x._spec.dtype.is_floating_point:
                raise IndexError(_NOT_INDEX)
            if x._spec.ndim == 0 and type(x._buf) is not Batched:
                if x._spec.dtype is _dtypes.bool_:
                    out = _unsqueeze(out, dim=dim)
                    rest[dim] = _of_array(np.zeros(1 if x._host() else 0, np.int64))
                    dim += 1
                else:
                    out = _select_at(out, dim, int(x._host()), position)
                continue
            rest[dim] = x
            dim += x._spec.ndim if x._spec.dtype is _dtypes.bool_ else 1
        else:
            _as_item(x)  # raises
    return out, [rest.get(d) for d in builtins.range(max(rest) + 1)] if rest else []


_ZERO_DIM = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert "
    "a 0-dim tensor to a number"
)


def _select_at(t: Tensor, dim: int, i: int, position: int) -> Tensor:
    n = tuple.__getitem__(t._spec.shape, dim)
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for dimension {position} with size {n}")
    return _select(t, dim=dim, index=i + n if i < 0 else i)


def _slice_of(x: slice, size: int) -> tuple[int, int, int]:
    start, stop, step = x.indices(size)
    if step < 0:
        raise ValueError("step must be greater than zero")
    return start, max(0, (stop - start + step - 1) // step), step


def _check_mask(mask: Tensor, shape: Ints, dim: int) -> None:
    for j, n in enumerate(tuple(mask._spec.shape)):
        if dim + j >= len(shape) or shape[dim + j] != n:
            raise IndexError(
                f"The shape of the mask {list(mask._spec.shape)} at index {j} does not match the "
                "shape of the indexed tensor "
                f"{list(shape)} at index {dim + j}"
            )


def _place(t: Tensor, indices: Sequence[Tensor | None], kept: bool) -> Place:
    """Where index tensors and masks point, after they have been checked against `t`'s shape."""
    shape = tuple(t._spec.shape)
    dims: list[int] = []
    arrays: list[_Array] = []
    mapped = [x for x in indices if x is not None and type(x._buf) is Batched]
    if mapped:
        return _own_places(t, indices, mapped, kept)
    dim = 0
    for x in indices:
        if x is None:
            dim += 1
        elif x._spec.dtype is _dtypes.bool_:
            _check_mask(x, shape, dim)
            for found in x._host().nonzero():
                dims.append(dim)
                arrays.append(found)
                dim += 1
        elif x._spec.dtype not in (_dtypes.int64, _dtypes.int32):
            raise IndexError(_NOT_INDEX)
        else:
            if dim >= len(shape):
                raise IndexError(
                    f"too many indices for tensor of dimension {len(shape)} (got {len(indices)})"
                )
            n = shape[dim]
            arrays.append(_checked(_host_index(x, kept), n, _bounds(IndexError, dim, n)))
            dims.append(dim)
            dim += 1
    if len(arrays) == 1:
        return Place(tuple(dims), arrays, arrays[0].shape)
    try:
        block = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = ", ".join(str(list(a.shape)) for a in arrays)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    return Place(tuple(dims), arrays, block)


def _own_places(t: Tensor, indices: Sequence[Tensor | None], mapped: Sequence[Tensor], kept: bool) -> Place:
    """The same where a vmap's examples have indices of their own."""
    levels = tuple(sorted({v for x in mapped for v in _levels(x)}, key=lambda v: v.index))
    dims = tuple([d for d, x in enumerate(indices) if x is not None])
    if dims and dims[-1] >= t._spec.ndim:
        raise IndexError(f"too many indices for tensor of dimension {t._spec.ndim} (got {len(indices)})")
    given = [x for x in indices if x is not None]
    block = tuple(_layout.broadcast_shapes(*(x._spec.shape for x in given)))
    arrays = []
    for d, x in zip(dims, given):
        if x._spec.dtype is _dtypes.bool_:
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a "
                "boolean mask."
            )
        n, own = tuple.__getitem__(t._spec.shape, d), _levels(x)
        array = _checked(_host_index(x, kept), n, _bounds(IndexError, d, n))
        shape = tuple(x._spec.shape)
        lead = tuple([v.size if v in own else 1 for v in levels])
        arrays.append(array.reshape(*lead, *(1,) * (len(block) - len(shape)), *shape))
    return Place(dims, arrays, block, levels, max(mapped, key=lambda x: len(_levels(x))))


# ---------------------------------------------------------------- x[...]

_views: dict[
    tuple[Any, ...], tuple[Spec, int, Any]
] = {}  # what a basic index of a spec shows, from where, and the record's statics
_VIEWS = 8192  # x[i] in a loop over a long dimension makes many; the table is begun anew
_PLAIN = frozenset((int, type(None)))


def _getitem(self: Tensor, index: Any) -> Tensor:
    kind: Any = type(index)
    if type(self._spec) is Marked:
        kind = None  # what a transform looks after goes through the ops, one by one
    if kind is int:
        found = _views.get((self._spec, index)) or _picked(self._spec, index)
        out = make_view(self, found[0], found[1], "SelectBackward0")
        if self._rg and state.grad:
            record_op(_select.op, out, (self,), found[2])  # type: ignore[attr-defined]
        return out
    if kind is slice:
        if type(index.start) in _PLAIN and type(index.stop) in _PLAIN and type(index.step) in _PLAIN:
            found = _views.get((self._spec, index.start, index.stop, index.step)) or _sliced(
                self._spec, index
            )
            out = make_view(self, found[0], found[1], "SliceBackward0")
            if self._rg and state.grad:
                record_op(_slice.op, out, (self,), found[2])  # type: ignore[attr-defined]
            return out
    elif kind is tuple and not (self._rg and state.grad):
        key = _key(self._spec, index)
        if key is not None:
            return _unrecorded(self, key, index)
    elif kind is Tensor and index._spec.ndim and index._spec.dtype is _dtypes.int64 and self._spec.ndim:
        return _index(self, place=_place(self, (index,), _kept(self)))
    out, rest = _basic(self, index)
    if rest:
        return _index(out, place=_place(out, rest, _kept(out)))
    return alias(out) if out is self else out


def _unrecorded(self: Tensor, key: tuple[Any, ...], index: Any) -> Tensor:
    """A chain of views in one step, where there is no history to show the chain."""
    found = _views.get(key)
    if found is None:
        out, _ = _basic(self, index)
        found = _remember(key, out._spec, out.storage_offset() - self.storage_offset(), None)
    return make_view(self, found[0], found[1], "SliceBackward0")


def _key(sp: Spec, index: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What a tuple of plain integers, slices, None and ... is known by."""
    key: list[Any] = [sp, None, None]  # longer than the keys of single indices
    for x in index:
        kind = type(x)
        if kind is int or x is None or x is Ellipsis:
            key.append(x)
        elif kind is slice and type(x.start) in _PLAIN and type(x.stop) in _PLAIN and type(x.step) in _PLAIN:
            key.append((x.start, x.stop, x.step))
        else:
            return None
    key.append(...)
    return tuple(key)


def _picked(sp: Spec, index: int) -> tuple[Spec, int, Any]:
    if not sp.ndim:
        raise IndexError(_ZERO_DIM)
    n = tuple.__getitem__(sp.shape, 0)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {n}")
    static = {"dim": 0, "index": index % n}
    return _remember((sp, index), *_select_geometry(sp, **static), static)


def _sliced(sp: Spec, index: slice) -> tuple[Spec, int, Any]:
    if not sp.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    start, length, step = _slice_of(index, tuple.__getitem__(sp.shape, 0))
    static = {"dim": 0, "start": start, "length": length, "step": step}
    return _remember((sp, index.start, index.stop, index.step), *_slice_geometry(sp, **static), static)


def _remember(key: tuple[Any, ...], sp: Spec, offset: int, static: Any) -> tuple[Spec, int, Any]:
    if len(_views) >= _VIEWS:
        _views.clear()
    _views[key] = found = (sp, offset, static)
    return found


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    if not isinstance(value, Tensor) and number_type(value) is None:
        if isinstance(value, complex):
            raise RuntimeError(f"value cannot be converted to type {self.dtype.c_name} without overflow")
        name = "numpy.ndarray" if isinstance(value, np.ndarray) else type(value).__name__
        raise TypeError(f"can't assign a {name} to a {self._spec.dtype.type_name}")
    rest: list[Tensor | None] = []
    kind = type(index)
    key = None
    if type(self._spec) is Marked:
        out, rest = _basic(self, index)
    elif kind is tuple and not (self._rg or (isinstance(value, Tensor) and value._rg)):
        key = _key(self._spec, index)
    if type(self._spec) is Marked:
        pass
    elif key is not None:
        out = _unrecorded(self, key, index)
    elif kind is int or (kind is slice and not (index.start is None and index.stop is None)):
        out = _getitem(self, index)
    elif kind is bool:
        if not index:
            return
        out = _unsqueeze(self, dim=0)
    elif kind is Tensor and index._spec.ndim and index._spec.dtype is _dtypes.int64 and self._spec.ndim:
        out, rest = self, [index]
    else:
        out, rest = _basic(self, (index,) if kind is slice else index)
    if not rest:
        if not isinstance(value, Tensor) or value._spec.ndim == 0:
            if _layout.overlaps(out._spec.shape, out._spec.strides):
                raise RuntimeError(OVERLAP)  # `fill_` would allow it
            fill_(
                out,
                value
                if isinstance(value, Tensor) or not (out._rg and state.grad)
                else scalar(value, out._spec.dtype),
            )
        else:
            copy_(out, _fitted(value, out._spec.shape))
        return
    if not isinstance(value, Tensor):
        value = scalar(_as_kind(value, out), out._spec.dtype)
    mask = rest[-1]
    if (
        mask is not None
        and mask._spec.dtype is _dtypes.bool_
        and value._spec.numel == 1
        and rest.count(None) == len(rest) - 1
    ):
        _check_mask(mask, tuple(out._spec.shape), len(rest) - 1)
        behind = out._spec.ndim - mask._spec.ndim - len(rest) + 1
        mask = reshape(mask, (*mask._spec.shape, *(1,) * behind)) if behind else mask
        inplace(
            _masked_put.op,
            (out, mask, to_dtype(reshape(value, ()) if value._spec.ndim else value, out._spec.dtype)),
        )
        return
    place = _place(out, rest, _kept(out, value))
    _check_put(out, value, place)
    _put_(_index_put, out, _without_ones(value, place.of(out._spec).out.ndim), place)


def _as_kind(value: Any, t: Tensor) -> Any:
    """A number as what the tensor holds: integers cut it off."""
    return value if t._spec.dtype.is_floating_point else _dtypes.fitting(value, t._spec.dtype)


def _without_ones(value: Tensor, ndim: int) -> Tensor:
    """The value without leading dimensions of size 1 that what it is written to does not have."""
    extra = value._spec.ndim - ndim
    return reshape(value, tuple(value._spec.shape)[extra:]) if extra > 0 else value


def _fitted(value: Tensor, to: Ints) -> Tensor:
    shape = tuple(value._spec.shape)
    while len(shape) > len(to) and shape[0] == 1:
        shape = shape[1:]
    if shape != tuple(value._spec.shape):
        value = reshape(value, shape)
    return value if shape == tuple(to) else expand(value, tuple(to))


def _check_put(t: Tensor, value: Tensor, place: Place) -> None:
    if value._spec.dtype is not t._spec.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{t._spec.dtype.scalar_name} for the destination and "
            f"{value._spec.dtype.scalar_name} for the source."
        )
    have, want = tuple(value._spec.shape), tuple(place.of(t._spec).out.shape)
    while len(have) > len(want) and have[0] == 1:
        have = have[1:]
    if len(have) > len(want) or any(a not in (1, b) for a, b in zip(have[::-1], want[::-1])):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value._spec.shape)} cannot be broadcast "
            f"to indexing result of shape {list(want)}"
        )


def _delitem(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


for _name, _method in {"__getitem__": _getitem, "__setitem__": _setitem, "__delitem__": _delitem}.items():
    setattr(Tensor, _name, _method)


# ---------------------------------------------------------------- index_put


def _indices(name: str, self: Tensor, indices: Any, values: Any, accumulate: bool) -> tuple[Tensor, Place]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'indices' (position 1) must be tuple of Tensors, not "
            f"{type(indices).__name__}"
        )
    for k, x in enumerate(indices):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(x).__name__}")
    if not isinstance(values, Tensor):
        raise TypeError(
            f"{name}(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}"
        )
    taken = sum(x.ndim if x.dtype is _dtypes.bool_ else 1 for x in indices)
    if taken > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim} (got {taken})")
    place = _place(self, indices, _kept(self, values))
    _check_put(self, values, place)
    return _without_ones(values, place.of(self._spec).out.ndim), place


@method
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    values, place = _indices("index_put", input, indices, values, accumulate)
    return (_index_put_add if accumulate else _index_put)(input, values, place=place)


@method
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    values, place = _indices("index_put_", input, indices, values, accumulate)
    return _put_(_index_put_add if accumulate else _index_put, input, values, place, accumulate)


# ---------------------------------------------------------------- an index per element: gather, scatter


def _need_tensor(name: str, argument: str, position: int, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(x).__name__}"
        )


def _grid(name: str, input: Tensor, dim: int, index: Tensor, word: str, kept: bool) -> Place:
    """The places that have `index` along `dim` and stand, along other dimensions, where their index stands."""
    _need_tensor(name, "index", 2, index)
    d = _layout.wrap_dim(dim, input.ndim)
    if index.dtype not in (_dtypes.int64, _dtypes.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    shape, at = tuple(input.shape), tuple(index.shape)
    if 0 not in at and max(len(at), 1) != max(len(shape), 1):
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {word} tensor")
    if not shape or not at or len(at) != len(shape):
        n = shape[d] if shape else 1
        array = _checked(_host_index(index, kept), n, _bounds(RuntimeError, d, n), False)
        levels = _levels(index)
        lead = tuple([v.size for v in levels])
        return Place((0,) if shape else (), [array.reshape(*lead, *at)], at, levels, index)
    array = _checked(_host_index(index, kept), shape[d], _bounds(RuntimeError, d, shape[d]), False)
    indices = [
        array if e == d else np.arange(n, dtype=_int64).reshape((n,) + (1,) * (len(at) - e - 1))
        for e, n in enumerate(at)
    ]
    return Place(tuple(builtins.range(len(shape))), indices, at, _levels(index), index)


def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Tensor:
    d = _layout.wrap_dim(dim, input.ndim)
    if isinstance(index, Tensor) and len(index.shape) == len(input.shape):
        for e, (a, b) in enumerate(zip(tuple(index.shape), tuple(input.shape))):
            if e != d and a > b:
                raise RuntimeError(
                    f"Size does not match at dimension {e} expected index {list(index.shape)} to "
                    "be no larger than self "
                    f"{list(input.shape)} apart from dimension {d}"
                )
    result = _gather(input, place=_grid("gather", input, dim, index, "input", _kept(input)))
    return result if out is None else into("gather", out, result, (input,))


def _scattered(name: str, input: Tensor, dim: int, index: Tensor, src: Any) -> tuple[Tensor, Place]:
    kept = _kept(input) or (isinstance(src, Tensor) and _kept(src))
    d = _layout.wrap_dim(dim, input.ndim)
    _need_tensor(name, "index", 2, index)
    if index.dtype in (_dtypes.int64, _dtypes.int32) and len(index.shape) == len(input.shape):
        at, shape = tuple(index.shape), tuple(input.shape)
        wide = any(a > b for e, (a, b) in enumerate(zip(at, shape)) if e != d)
        if isinstance(src, Tensor):
            if index.numel() and (
                wide or len(src.shape) != len(at) or any(a > b for a, b in zip(at, tuple(src.shape)))
            ):
                raise RuntimeError(
                    f"Expected index {list(at)} to be no larger than self {list(shape)} apart "
                    f"from dimension {d} and to be no larger "
                    f"size than src {list(src.shape)}"
                )
        elif wide:
            raise RuntimeError(
                f"Expected index {list(at)} to be no larger than self {list(shape)} apart from dimension {d}"
            )
    if isinstance(src, Tensor):
        if src.dtype is not input.dtype:
            raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
        place = _grid("scatter", input, dim, index, "self", kept)
        for e, n in enumerate(tuple(index.shape)):
            if n != tuple(src.shape)[e]:
                src = narrow(src, e, 0, n)
        return src, place
    if number_type(src) is None:
        raise TypeError(f"{name}(): argument 'src' (position 3) must be Tensor, not {type(src).__name__}")
    return scalar(_as_kind(src, input), input.dtype), _grid("scatter", input, dim, index, "self", kept)


_missing: Any = object()


def _source(name: str, src: Any, value: Any) -> Any:
    if src is _missing and value is _missing:
        raise TypeError(f'{name}() missing 1 required positional arguments: "src"')
    return value if src is _missing else src


def _reduced(reduce: str | None, src: Any) -> Any:
    if reduce in (None, "add"):
        return _scatter_value if not isinstance(src, Tensor) else _scatter_src
    raise RuntimeError(
        "reduce argument must be either add or multiply."
        if reduce != "multiply"
        else "scatter: reduce='multiply' is not implemented"
    )


def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = _missing,
    *,
    value: Any = _missing,
    reduce: str | None = None,
) -> Tensor:
    src = _source("scatter", src, value)
    op = _scatter_add if reduce == "add" else _reduced(reduce, src)
    src, place = _scattered("scatter", input, dim, index, src)
    return op(input, src, place=place)


def scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Any = _missing,
    *,
    value: Any = _missing,
    reduce: str | None = None,
) -> Tensor:
    src = _source("scatter_", src, value)
    op = _scatter_add if reduce == "add" else _reduced(reduce, src)
    src, place = _scattered("scatter_", self, dim, index, src)
    return _put_(op, self, src, place, reduce == "add")


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    _need_tensor("scatter_add", "src", 3, src)
    src, place = _scattered("scatter_add", input, dim, index, src)
    return _scatter_add(input, src, place=place)


def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    _need_tensor("scatter_add_", "src", 3, src)
    src, place = _scattered("scatter_add_", self, dim, index, src)
    return _put_(_scatter_add, self, src, place, True)


def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    if dim is None:
        return gather(reshape(input, (-1,)), 0, _wrapped(reshape(indices, (-1,)), input.numel()), out=out)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of "
            f"dimensions, but got {input.ndim} dimensions for "
            f"input, and {indices.ndim} dimensions for indices"
        )
    d = _layout.wrap_dim(dim, input.ndim)
    a, b = list(input.shape), list(indices.shape)
    a[d] = b[d] = 1
    common = list(_layout.broadcast_shapes(tuple(a), tuple(b)))
    n, m = tuple(input.shape)[d], tuple(indices.shape)[d]
    return gather(
        expand(input, (*common[:d], n, *common[d + 1 :])),
        d,
        _wrapped(expand(indices, (*common[:d], m, *common[d + 1 :])), n),
        out=out,
    )


def _wrapped(index: Tensor, n: int) -> Tensor:
    return _where(index < 0, index + n, index)


# ---------------------------------------------------------------- an index per slice: index_select and its kin


def _vector(
    name: str,
    input: Tensor,
    dim: int,
    index: Any,
    error: Callable[[int, int], Callable[[int], Exception]],
    kept: bool,
    negative: bool = False,
) -> Place:
    _need_tensor(name, "index", 2, index)
    d = _layout.wrap_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    if index.dtype not in (_dtypes.int64, _dtypes.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index")
    shape = tuple(input.shape) or (1,)
    levels = _levels(index)
    array = _checked(_host_index(index, kept), shape[d], error(d, shape[d]), negative)
    array = array.reshape(*[v.size for v in levels], -1)
    return Place((d,), [array], array.shape[len(levels) :], levels, index)


def _as_vector(t: Tensor) -> Tensor:
    return t if t.ndim else reshape(t, (1,))


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    place = _vector(
        "index_select",
        input,
        dim,
        index,
        lambda d, n: lambda i: IndexError("index out of range in self"),
        _kept(input),
    )
    result = _index_select(_as_vector(input), place=place)
    if not input.ndim:
        result = reshape(result, ())
    return result if out is None else into("index_select", out, result, (input,))


def _added(input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> tuple[Tensor, Place]:
    _need_tensor("index_add", "source", 3, source)
    place = _vector(
        "index_add_", input, dim, index, lambda d, n: _bounds(RuntimeError, d, n), _kept(input, source)
    )
    d = place.dims[0]
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"index_add_(): self ({input.dtype.scalar_name}) and source "
            f"({source.dtype.scalar_name}) must have the same scalar type"
        )
    n = tuple(source.shape)[d] if source.ndim > d else 1
    if place.block != (n,):
        raise RuntimeError(
            f"index_add_(): Number of indices ({place.block[0]}) should be equal to "
            f"source.size(dim): ({n}), for dim: {d}"
        )
    if place.of(_as_vector(input)._spec).out.shape != _as_vector(source).shape:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified "
            f"dimension. Got self.shape = {list(input.shape)} "
            f"source.shape = {list(source.shape)}"
        )
    source = _as_vector(source)
    return (source if type(alpha) is int and alpha == 1 else source * alpha), place


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    source, place = _added(input, dim, index, source, alpha)
    return _index_add(input, source, place=place)


def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    source, place = _added(self, dim, index, source, alpha)
    return _put_(_index_add, self, source, place, True)


def _filling(input: Tensor, dim: int, index: Tensor, value: Any) -> tuple[Tensor, Place]:
    value = _fill_value("index_fill_", input, value)
    place = _vector(
        "index_fill_", input, dim, index, lambda d, n: _bounds(IndexError, d, n), _kept(input, value), True
    )
    return value, place


def _fill_value(name: str, input: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"{name} only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        return to_dtype(value, input.dtype)
    if number_type(value) is None:
        raise TypeError(f"{name}(): argument 'value' (position 2) must be Number, not {type(value).__name__}")
    return scalar(_as_kind(value, input), input.dtype)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    filled, place = _filling(input, dim, index, value)
    return (_index_fill_tensor if isinstance(value, Tensor) else _index_fill)(input, filled, place=place)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    filled, place = _filling(self, dim, index, value)
    return _put_(_index_fill_tensor if isinstance(value, Tensor) else _index_fill, self, filled, place)


def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements by their number in the flattened input."""
    _need_tensor("take", "index", 2, index)
    if index.dtype is not _dtypes.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    n, shape = input.numel(), tuple(input.shape)
    array = _checked(
        _host_index(index, _kept(input)),
        n,
        lambda i: IndexError(f"out of range: tried to access index {i} on a tensor of {n} elements."),
    )
    indices = np.unravel_index(array, shape) if shape and n else ()
    how = (tuple(index.shape), _levels(index), index)
    place = Place(tuple(builtins.range(len(indices))), indices, *how) if n else Place((0,), [array], *how)
    result = _take(input if n else reshape(input, (0,)), place=place)
    return result if out is None else into("take", out, result, (input,))


# ---------------------------------------------------------------- masks


_masked = stanza(
    name="masked_fill",
    node="MaskedFillBackward0",
    method=False,
    logical=("mask",),
    fits=("value",),
    vjp=lambda g, mask: (p.where(mask, 0.0, g), p.where(mask, g, 0.0)),
)(lambda input, mask, value: p.where(mask, value, input))

# Writing one value where a mask says: what a mask between brackets does, under the name that PyTorch gives that.
_masked_put = stanza(
    name="masked_fill",
    node="IndexPutBackward0",
    method=False,
    logical=("mask",),
    vjp=_masked.op.rule,
    shared=False,
)(lambda input, mask, value: p.where(mask, value, input))


def _masking(input: Tensor, mask: Any, value: Any) -> tuple[Any, Any]:
    _need_tensor("masked_fill", "mask", 1, mask)
    if mask.dtype is not _dtypes.bool_:
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.c_name}"
        )
    _layout.broadcast_shapes(tuple(mask.shape), tuple(input.shape))
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        return mask, to_dtype(value, input.dtype)
    if number_type(value) is None:
        raise TypeError(
            f"masked_fill(): argument 'value' (position 2) must be Number, not {type(value).__name__}"
        )
    return mask, _as_kind(value, input)


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    return _masked(input, *_masking(input, mask, value))


def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    mask, value = _masking(self, mask, value)
    if isinstance(value, Tensor) and storage_of(value).memory is storage_of(self).memory:
        value = clone(value)  # PyTorch reads the number before it writes
    return inplace(_masked.op, (self, mask, value))


def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    _need_tensor("masked_select", "mask", 1, mask)
    if mask.dtype is not _dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = _layout.broadcast_shapes(tuple(mask.shape), tuple(input.shape))
    read = input if tuple(input.shape) == shape else expand(input, shape)
    if type(mask._buf) is Batched:
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch this "
            "would return a differently shaped Tensor. Please file an issue at https://github.com/pytorch/pytorch/issues if you need "
            "this feature."
        )
    at = mask._host() if tuple(mask.shape) == shape else np.broadcast_to(mask._host(), shape)
    if not shape:
        read, shape, at = reshape(read, (1,)), (1,), at.reshape(1)
    found = at.nonzero()
    result = _masked_select(read, place=Place(tuple(builtins.range(len(shape))), found, found[0].shape))
    return result if out is None else into("masked_select", out, result, (input,))


# ---------------------------------------------------------------- the same elements turned, shifted, repeated


def flip(input: Tensor, *dims: Any) -> Tensor:
    order = _sizes(dims)
    wrapped = [_layout.wrap_dim(d, input.ndim) for d in order]
    for d in wrapped:
        if wrapped.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    out = input
    for d in wrapped if input.ndim else ():
        n = tuple(out.shape)[d]
        out = _flip(out, place=Place((d,), [np.arange(n - 1, -1, -1)], (n,)))
    return clone(out) if out is input else out


def fliplr(input: Tensor) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    by = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not by:
        raise RuntimeError("`shifts` required")
    if not along and len(by) == 1:
        return reshape(roll(reshape(input, (-1,)), by, 0), input.shape)
    if len(by) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}")
    out = input
    for shift, dim in zip(by, along):
        d = _layout.wrap_dim(dim, input.ndim)
        n = tuple(input.shape)[d]
        if n:
            out = _roll(out, place=Place((d,), [(np.arange(n) - shift) % n], (n,)))
    return clone(out) if out is input else out


def _triangle(name: str, node_name: str, keep: Callable[[int, int, int], _Array]) -> Callable[..., Tensor]:
    @differentiable(
        node_name,
        tangent=LINEAR,
        batch=lambda x, diagonal: part(x, diagonal=diagonal),
        input=lambda g, diagonal: part(g, diagonal=diagonal),
    )
    def part(input: Tensor, *, diagonal: int) -> Tensor:
        rows, columns = tuple(input.shape)[-2:]
        return _where(_of_array(keep(rows, columns, diagonal)), input, full(input._spec.like(()), 0))

    def triangle(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
        if input.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        result: Tensor = part(input, diagonal=diagonal)
        return result if out is None else into(name, out, result, (input,))

    triangle.__name__ = name
    return triangle


tril = _triangle("tril", "Tril", lambda n, m, k: np.tri(n, m, k, bool))
triu = _triangle("triu", "Triu", lambda n, m, k: ~np.tri(n, m, k - 1, bool))


def _alternating(shape: Ints, times: Ints) -> tuple[Ints, Ints, Ints]:
    """A repetition as an expansion: sizes with a 1, then the times, before each size; and what they make
    together."""
    shape = (1,) * (len(times) - len(shape)) + tuple(shape)
    ones = tuple(n for size in shape for n in (1, size))
    wide = tuple(n for t, size in zip(times, shape) for n in (t, size))
    return ones, wide, tuple(t * n for t, n in zip(times, shape))


def _repeat_back(g: Tensor, input_spec: Spec, times: Ints) -> Tensor:
    ones, wide, _ = _alternating(tuple(input_spec.shape), times)
    if 0 in times:
        return zeros(input_spec.dense())
    return reshape(hooks.sum_to(reshape(g, wide), ones), input_spec.shape)


def _repeat_each(x: Tensor, times: Ints) -> Tensor:
    n, *shape = x.shape
    return _repeat(reshape(x, (n, *(1,) * (len(times) - len(shape)), *shape)), times=(1, *times))


@differentiable("Repeat", tangent=LINEAR, batch=_repeat_each, input=_repeat_back)
def _repeat(input: Tensor, *, times: Ints) -> Tensor:
    ones, wide, shape = _alternating(tuple(input.shape), times)
    out = clone(broadcast_to(reshape(input, ones), wide).contiguous())
    return wrap(out._buf, spec(input.dtype, shape, None, input.device))


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    times = _sizes(repeats)
    if len(times) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(n < 0 for n in times):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(times)}: "
            f"{list(_alternating(tuple(self.shape), times)[2])}"
        )
    return _repeat(self, times=times)


def tile(input: Tensor, *dims: Any) -> Tensor:
    times = _sizes(dims)
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


def repeat_interleave(
    input: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    d = _layout.wrap_dim(dim, input.ndim)
    n = tuple(input.shape)[d]
    times = repeats._host().reshape(-1) if isinstance(repeats, Tensor) else np.array([repeats])
    if times.dtype.kind not in "i":
        raise RuntimeError("repeats has to be Long or Int tensor")
    if (times < 0).any():
        raise RuntimeError("repeats can not be negative")
    if times.size not in (1, n):
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{times.size} and input.size({d}) = {n}"
        )
    index = np.repeat(np.arange(n), times if times.size == n else times[0])
    return _index_select(input, place=Place((d,), [index], index.shape))


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (_layout.wrap_dim(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    order = list(builtins.range(input.ndim))
    order[a], order[b] = b, a
    k %= 4
    if k == 0:
        return clone(input)
    if k == 2:
        return flip(input, a, b)
    return (
        _permute(flip(input, b), dims=tuple(order)) if k == 1 else flip(_permute(input, dims=tuple(order)), b)
    )


__all__ = [
    "flip",
    "fliplr",
    "flipud",
    "gather",
    "index_add",
    "index_fill",
    "index_put",
    "index_put_",
    "index_select",
    "masked_fill",
    "masked_select",
    "repeat_interleave",
    "roll",
    "rot90",
    "scatter",
    "scatter_add",
    "take",
    "take_along_dim",
    "tile",
    "tril",
    "triu",
]

for _function in (
    flip,
    fliplr,
    flipud,
    gather,
    index_add,
    index_add_,
    index_fill,
    index_fill_,
    index_select,
    masked_fill,
    masked_fill_,
    masked_select,
    repeat,
    repeat_interleave,
    roll,
    rot90,
    scatter,
    scatter_,
    scatter_add,
    scatter_add_,
    take,
    take_along_dim,
    tile,
    tril,
    triu,
):
    setattr(Tensor, _function.__name__, _function)
