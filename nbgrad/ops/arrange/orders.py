"""The same elements turned, shifted, repeated, or cut to a triangle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nbgrad.core.arguments import before_guard, unset
from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor, empty, hooks
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.prepared import Run, call_of, filled, prepared, settled
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.kernels.cpu import triangle as _kernels
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.index.gather import index_select
from nbgrad.ops.index.place import SIZES, _index_select, _of_array, along
from nbgrad.ops.views.copy import clone_spec, copier, copying, dense_copy, in_place, zeros
from nbgrad.ops.views.shape import expand, reshape, unsqueeze
from nbgrad.ops.views.views import _sizes

# ---------------------------------------------------------------- the same elements turned, shifted, repeated


@prepared(
    "Flip",
    tangent=LINEAR,
    batch=lambda x, dims: _flip(x, dims=tuple([d + 1 for d in dims])),
    input=lambda g, dims: _flip(g, dims=dims),
)
def _flip(input: Spec, *, dims: Ints) -> Run:
    return _reversed(input, dims)


def _reversed(input: Spec, dims: Ints, shown: Spec | None = None) -> Run:
    """A copy that reads these dimensions from their ends."""
    strides = tuple([-s if d in dims else s for d, s in enumerate(input.strides)])
    last = sum([(input.shape[d] - 1) * input.strides[d] for d in dims])
    return copier(input.like(strides=strides), clone_spec(input), last, shown)


def _by_their_name(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`dims=` of ints, which come to the same by place."""

    def short(*args: Any, **more: Any) -> Tensor:
        if len(args) == 1 and [*more] == ["dims"]:
            dims = more["dims"]
            if (dims.__class__ is tuple or dims.__class__ is list) and {*map(type, dims)} == {int}:
                return slow(args[0], tuple(dims))
        return slow(*args, **more)

    return short


@partial(before_guard, _by_their_name)
@settled
def flip(input: Tensor, *order: Any, dims: Any = None) -> Any:
    """A copy with the order along each of `dims` reversed. The gradient is reversed likewise.

    >>> torch.arange(6).view(2, 3).flip(1)
    tensor([[2, 1, 0],
            [5, 4, 3]])
    """
    order = _sizes(order if dims is None else (dims,))
    wrapped = tuple([layout.wrap_dim(d, input.ndim) for d in order])
    for d in wrapped:
        if wrapped.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return call_of(_flip, input, dims=wrapped if input.ndim else ())


def fliplr(input: Tensor) -> Tensor:
    """A copy with the columns in reverse order, as `flip(1)`.

    >>> torch.arange(4).view(2, 2).fliplr()
    tensor([[1, 0],
            [3, 2]])
    """
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return _flip(input, dims=(1,))


def flipud(input: Tensor) -> Tensor:
    """A copy with the rows in reverse order, as `flip(0)`.

    >>> torch.arange(4).view(2, 2).flipud()
    tensor([[2, 3],
            [0, 1]])
    """
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return _flip(input, dims=(0,))


def _roll_each(x: Tensor, shifts: Ints, dims: Ints) -> Tensor:
    if dims:
        return rolled(x, shifts=shifts, dims=tuple(d + 1 for d in dims))
    lines = reshape(x, (tuple.__getitem__(x.shape, 0), -1))
    return reshape(rolled(lines, shifts=shifts, dims=(1,)), x.shape)


@prepared(
    "Roll",
    tangent=LINEAR,
    batch=_roll_each,
    input=lambda g, shifts, dims: rolled(g, shifts=tuple(-s for s in shifts), dims=dims),
)
def rolled(input: Spec, *, shifts: Ints, dims: Ints) -> Run:
    """Without dimensions, the elements as one line."""
    if not input.numel:
        return lambda t: empty(input.dense())
    if not (dims or input.contiguous):
        dense, rolled = copier(input, input.dense()), _rolled_parts(input.dense(), shifts, dims)
        return lambda t: rolled(dense(t))
    return _rolled_parts(input, shifts, dims)


def _rolled_parts(input: Spec, shifts: Ints, dims: Ints) -> Run:
    """Along each dimension two parts change places: a copy for each of the blocks that they cut."""
    shape = tuple(input.shape)
    made = input.like(strides=_rolled_strides(shape, input.strides, shifts, dims))
    line = (shape, input.strides, made.strides) if dims else ((input.numel,), (1,), (1,))
    blocks = [(line[0], 0, 0)]
    for d, n in enumerate(line[0]):
        by = sum([s for s, e in zip(shifts, dims or (0,)) if e == d]) % n
        parts = [(n - by, 0, by), (by, n - by, 0)]
        blocks = [
            ((*sizes[:d], size, *sizes[d + 1 :]), old + begin * line[1][d], new + end * line[2][d])
            for sizes, old, new in blocks
            for size, begin, end in parts
            if size
        ]
    copies = [
        (copying(made.like(sizes, line[2]), input.like(sizes, line[1])), old, new)
        for sizes, old, new in blocks
    ]
    look, size = made.backend.view, made.itemsize

    def run(t: Tensor) -> Tensor:
        out = empty(made)
        for k, old, new in copies:
            k.launch(k.address, k.n, look(out._buf, new * size), look(t._buf, old * size))
        return out

    return run


def _rolled_strides(shape: Ints, strides: Ints, shifts: Ints, dims: Ints) -> Ints:
    """PyTorch joins the two parts that change places, for one dimension after the other."""
    for shift, d in zip(shifts, dims):
        lengths = -shift % shape[d], shape[d] - -shift % shape[d]
        parts = [((*shape[:d], n, *shape[d + 1 :]), strides) for n in lengths]
        strides = layout.joined_strides(shape, parts)
    return strides if dims else layout.contiguous_strides(shape)


@settled
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Any:
    """A copy shifted by `shifts` along `dims`; what leaves at the end comes in at the start. Without `dims` the elements are shifted
    as if in one row. The gradient is shifted back.

    >>> torch.arange(4).roll(1)
    tensor([3, 0, 1, 2])
    """
    by = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    along = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not by:
        raise RuntimeError("`shifts` required")
    if (along or len(by) != 1) and len(by) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}")
    return call_of(rolled, input, shifts=by, dims=tuple([layout.own_dim(d, input.ndim) for d in along]))


def _triangle(name: str, node_name: str, upper: bool, words: str) -> Callable[..., Any]:
    @prepared(
        node_name,
        tangent=LINEAR,
        batch=lambda x, diagonal: part(x, diagonal=diagonal),
        input=lambda g, diagonal: part(g, diagonal=diagonal),
    )
    def part(input: Spec, *, diagonal: int) -> Run:
        out, (*_, rows, columns) = input.dense(), tuple(input.shape)
        above = min(max(diagonal + (not upper), -rows), columns)
        outer = tuple(input.shape)[:-1]
        meta = [len(outer), columns, *outer[::-1]]
        for strides in (out.strides, input.strides):
            meta += strides[-2::-1]
        source, signature = _kernels.triangle(SIZES[input.itemsize], upper)
        address = out.backend.kernel(
            f"{name}_{SIZES[input.itemsize]}", source, signature, unrolled=False
        ).address
        items = prod(outer) if columns else 0
        launch = out.backend.launch(3, "", out.numel if items > 1 else items, out.numel < FEW)
        how = input.backend.constants([*meta, input.strides[-1], above])
        return filled(launch, address, items, how, (out,))

    def triangle(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Any:
        if input.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        if out is not None:
            return into(name, out, part(input, diagonal=diagonal), (input,))
        return call_of(part, input, diagonal=diagonal)

    triangle.__name__ = name
    triangle.__doc__ = words
    return settled(triangle)


tril = _triangle(
    "tril",
    "Tril",
    False,
    """Copies of the matrices in the last two dimensions with 0 above a diagonal, `diagonal` above the main one. So is the gradient.

    >>> torch.ones(2, 3).tril()
    tensor([[1., 0., 0.],
            [1., 1., 0.]])
    """,
)
triu = _triangle(
    "triu",
    "Triu",
    True,
    """Copies of the matrices in the last two dimensions with 0 below a diagonal, `diagonal` above the main one. So is the gradient.

    >>> torch.ones(2, 3).triu(1)
    tensor([[0., 1., 1.],
            [0., 0., 1.]])
    """,
)


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


@prepared("Repeat", tangent=LINEAR, batch=_repeat_each, input=_repeat_back)
def _repeat(input: Spec, *, times: Ints) -> Run:
    ones, wide, shape = _alternating(tuple(input.shape), times)
    more = (0,) * (len(times) - input.ndim)
    strides = tuple([step for s in (*more, *input.strides) for step in (0, s)])
    return copier(
        input.like(ones, strides), input.like(wide), shown=spec(input.dtype, shape, None, input.device)
    )


@settled
def repeat(self: Tensor, *repeats: Any) -> Any:
    """Copies of the tensor side by side, as often along each dimension as `repeats` says; more numbers than dimensions make new ones
    in front. The gradient is the sum over the copies.

    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    times = _sizes(repeats)
    if len(times) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(n < 0 for n in times):
        shape = list(_alternating(tuple(self.shape), times)[2])
        first = next(n for n in shape if n < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {first}: {shape}")
    return call_of(_repeat, self, times=times)


def tile(input: Tensor, *dims: Any) -> Tensor:
    """As `repeat`, but fewer numbers than dimensions leave the first ones as they are.

    >>> torch.tensor([[1, 2], [3, 4]]).tile(2)
    tensor([[1, 2, 1, 2],
            [3, 4, 3, 4]])
    """
    times = _sizes(dims)
    repeated: Tensor = repeat(input, (1,) * (input.ndim - len(times)) + times)
    return repeated


def _check_count(count: int, told: int | None) -> None:
    """Refuse an `output_size` that is not how many there are."""
    if told is not None and told < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {told}: [{told}]")
    if told is not None and told != count:
        raise RuntimeError("allocated size does not match required size")


def _times(repeats: Tensor) -> Any:
    if repeats.dtype not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(
            f"\"repeat_interleave_cpu\" not implemented for '{repeats.dtype.scalar_name}'"
        )
    times = repeats._host()
    if times.min(initial=0) < 0:
        raise RuntimeError("repeats can not be negative")
    return times


def _repeated_places(repeats: Tensor, size: int | None) -> Tensor:
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    times = _times(repeats)
    _check_count(int(times.sum()), size)
    return _of_array(np.arange(times.size, dtype=times.dtype).repeat(times))


def _quick_repeats(input: Any, repeats: Any, dim: Any, *, output_size: Any) -> Quick | None:
    if type(input) is not Spec or type(repeats) is not int or output_size is not None or not input.ndim:
        return None
    if dim is None:
        if not input.contiguous:
            return None
        input, dim = input.like((input.numel,)), 0
    d, shape, strides = layout.wrap_dim(dim, input.ndim), tuple(input.shape), input.strides
    spread = input.like(
        (*shape[: d + 1], repeats, *shape[d + 1 :]), (*strides[: d + 1], 0, *strides[d + 1 :])
    )
    made = input.like((*shape[:d], shape[d] * repeats, *shape[d + 1 :]))
    return copier(spread, spread.dense(), shown=made)


@quickly(_quick_repeats, devices=True)
def repeat_interleave(
    input: Any = unset, repeats: Any = unset, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each slice along `dim` `repeats` times in a row, a number for all or a tensor with one for each; without `dim` the elements. A
    tensor of repeats alone gives the indices. The gradient is the sum over the repetitions.

    >>> torch.repeat_interleave(torch.tensor([1, 2]), torch.tensor([1, 3]))
    tensor([1, 2, 2, 2])
    """
    if input is unset or repeats is unset:
        return _repeated_places(input if repeats is unset else repeats, output_size)
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    sp: Spec = input._spec
    shape = tuple(sp.shape)
    d = (layout.own_dim if isinstance(repeats, Tensor) else layout.wrap_dim)(dim, sp.ndim)
    n = shape[d] if shape else 1
    if not isinstance(repeats, Tensor):
        if np.array([repeats]).dtype.kind != "i" if repeats.__class__ is not int else repeats >= 1 << 63:
            raise RuntimeError("repeats has to be Long or Int tensor")
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        if output_size not in (None, n * repeats):
            raise RuntimeError(
                f"repeat_interleave: Invalid output_size, expected {n * repeats} but got {output_size}"
            )
        spread = expand(unsqueeze(input, d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
        copies = dense_copy(spread)  # never what was given, and so no view of it
        return reshape(copies, (*shape[:d], n * repeats, *shape[d + 1 :]))
    where = repeats._spec.device
    if where is not sp.device and not (where.type == "meta" and output_size is None):
        backend.same((sp.device, where))
    if where.type == "meta":
        if output_size is None:
            raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
        return empty(sp.like((*shape[:d], output_size, *shape[d + 1 :])))
    if repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats.numel() not in (1, n):
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats.numel()} and input.size({dim}) = {n}"
        )
    times = _times(repeats).reshape(-1)
    counts = times.tolist()
    count = sum(counts) * (1 if len(counts) == n else n)
    _check_count(count, output_size)
    sp.like((*shape[:d], count, *shape[d + 1 :]))  # is refused where it cannot be
    index = np.arange(n).repeat(times if len(counts) == n else counts[0])
    if type(sp) is Spec and sp.ndim and sp.backend is backend.cpu:
        return index_select(input, d, _of_array(index))
    return _index_select(input, place=along(d, index, sp))


@prepared(
    "Rot90Backward0",
    tangent=LINEAR,
    batch=lambda x, k, dims: _rot90(x, k=k, dims=tuple([d + 1 for d in dims])),
    input=lambda g, k, dims: _rot90(g, k=-k % 4, dims=dims),
)
def _rot90(input: Spec, *, k: int, dims: Ints) -> Run:
    if k % 2 == 0:
        return _reversed(input, dims if k else ())
    made, order = clone_spec(input), [*range(input.ndim)]
    order[dims[0]], order[dims[1]] = dims[1], dims[0]
    shape, strides = ([of[d] for d in order] for of in (tuple(input.shape), made.strides))
    return _reversed(input, dims[1:] if k == 1 else dims[:1], made.like(tuple(shape), tuple(strides)))


@settled
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Any:
    """A copy turned by `k` quarters in the plane of `dims`, from the first towards the second. The gradient is turned back.

    >>> torch.arange(4).view(2, 2).rot90()
    tensor([[1, 3],
            [0, 2]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (layout.wrap_dim(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return call_of(_rot90, input, k=k % 4, dims=(a, b))


__all__ = [
    "flip",
    "fliplr",
    "flipud",
    "repeat_interleave",
    "roll",
    "rot90",
    "tile",
    "tril",
    "triu",
]

in_place(tril)
in_place(triu)
for _function in (flip, fliplr, flipud, repeat, repeat_interleave, roll, rot90, tile, tril, triu):
    setattr(Tensor, _function.__name__, _function)
