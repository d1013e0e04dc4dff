"""Copies with elements taken from another tensor: at indices along a dimension, where a mask is true, or by their number."""

from __future__ import annotations

from functools import partial
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.core.writes import written
from nbgrad.dispatch.elementwise import into, no_overlap, quiet
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.dispatch.stanza import method
from nbgrad.kernels import faults
from nbgrad.kernels.cpu.index import pour
from nbgrad.kernels.launch import FEW, PARALLEL_FROM
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.storage import Spec
from nbgrad.ops.index.gather import (
    _as_vector,
    _marked,
    _need_tensor,
    _numbered,
    _vector,
    check_one_device,
)
from nbgrad.ops.index.place import SIZES, Place, _kept, _put_, _putter
from nbgrad.ops.index.planned import puts, puts_at, vector
from nbgrad.ops.views.copy import copier, in_place
from nbgrad.ops.views.shape import expand, reshape
from nbgrad.ops.views.slices import narrow

_index_copy = _putter("IndexCopy", False, True)
_masked_scatter = _putter("MaskedScatter", False, True)
_put, _put_add = _putter("Put", False), _putter("Put", True)

# ---------------------------------------------------------------- at indices along a dimension

_copied_at = partial(vector, told=lambda sp, d: faults.COPIED)


def _copied(input: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[Tensor, Place]:
    name = "index_copy_()"
    _need_tensor("index_copy_", "source", 3, source)
    d = layout.wrap_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"{name}: Index should have dimension 1 or 0 (got {index.ndim})")
    if not source.ndim and index.numel() != 1:
        raise IndexError(
            f"{name}: When source is scalar, index should have one element (got {index.numel()})"
        )
    if source.ndim and input.ndim and source.ndim != input.ndim:
        raise IndexError(
            f"{name}: When source and destination are not scalars, their dimensionality must match. Source dimensionality "
            f"({source.ndim}), destination dimensionality ({input.ndim})"
        )
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"{name}: Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if input.dtype is not source.dtype:
        raise RuntimeError(
            f"{name}: self and source expected to have the same dtype, but got (self) {input.dtype.scalar_name} and (source) "
            f"{source.dtype.scalar_name}"
        )
    rest, given = ([n for k, n in enumerate(t.shape) if k != d] for t in (input, source))
    if rest != given:
        raise RuntimeError(
            f"{name}: Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, rest))} at dimension {d} and source slice shape: {' '.join(map(str, given))} at dimension 0."
        )
    if source.ndim and index.numel() != source.shape[d]:
        raise IndexError(
            f"{name}: Number of indices ({index.numel()}) should be equal to source.size(dim) ({source.shape[d]})"
        )
    check_one_device("index_copy()", input, index, source)
    place = _vector(
        input,
        dim,
        index,
        faults.COPIED,
        _kept(input, source),
    )
    return _as_vector(source), place


@method
@puts(_copied_at, "write", False, _index_copy)
def index_copy(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """A copy of `input` with each slice of `source` written over the slice along `dim` that `index` names. `source` gets the gradient
    of those slices, `input` of the others.

    >>> torch.zeros(3).index_copy(0, torch.tensor([2, 0]), torch.tensor([5.0, 6.0]))
    tensor([6., 0., 5.])
    """
    source, place = _copied(input, dim, index, source)
    result: Tensor = _index_copy(input, source, place=place)
    return result if out is None else into("index_copy", out, result, (input, source))


@method
@puts(_copied_at, "write", True, _index_copy)
def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    source, place = _copied(self, dim, index, source)
    return _put_(_index_copy, self, source, place, by=index)


# ---------------------------------------------------------------- where a mask is true


def _quick_by_mask(input: Spec, mask: Any, source: Any, over: bool = False) -> Quick | None:
    """Of a copy, or of the tensor itself, which lies without gaps as what it takes does."""
    if type(mask) is not Spec or type(source) is not Spec or input.dtype is not source.dtype:
        return None
    fits = mask.dtype is dtypes.bool_ and mask.shape == input.shape and mask.contiguous and source.contiguous
    if not fits or not 0 < input.numel < PARALLEL_FROM or (over and not input.contiguous):
        return None
    most, n, copy, told = source.numel, input.numel, copier(input, input.dense()), backend.cpu.told
    address = backend.cpu.kernel(f"pour_{SIZES[input.itemsize]}", *pour(SIZES[input.itemsize])).address
    launch = backend.cpu.launch(4, "q", 1, n < FEW)

    def found(t: Tensor, by: Tensor, values: Tensor) -> Tensor | None:
        made: Tensor = t if over else copy(t)
        if over and not quiet(t, by, values):
            return None
        number, seen = told.count
        launch(address, n, made._buf, by._buf, values._buf, number, most)
        if seen[0] > most:
            return None
        if over:
            written(t)
        return made

    return found


@method
@quickly(_quick_by_mask)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of `input` in which the places where `mask` is true take the elements of `source` in order. `source` gets the gradient
    of what it gave, `input` that of the rest.

    >>> mask = torch.tensor([True, False, True])
    >>> torch.zeros(3).masked_scatter(mask, torch.tensor([5.0, 6.0]))
    tensor([5., 0., 6.])
    """
    if input.dtype is not source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got{input.dtype.scalar_name} and "
            f"{source.dtype.scalar_name}"
        )
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.scalar_name}"
        )
    shape = tuple(layout.broadcast_shapes(mask._spec.shape, input._spec.shape))
    input = input if tuple(input.shape) == shape else expand(input, shape)
    place = _marked(input, mask, shape or (1,))
    (count,) = place.block
    if count > source.numel():
        raise RuntimeError("Number of elements of source < number of ones in mask")
    values = narrow(reshape(source, (-1,)), 0, 0, count)
    if shape:
        return _masked_scatter(input, values, place=place)
    return reshape(_masked_scatter(reshape(input, (1,)), values, place=place), ())


in_place(masked_scatter, short=quickly(partial(_quick_by_mask, over=True), False))

# ---------------------------------------------------------------- by their number


def _numbering(input: Tensor, index: Tensor, source: Tensor) -> tuple[Tensor, Place]:
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if input.dtype is not source.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{input.dtype.scalar_name} and source.dtype = {source.dtype.scalar_name}"
        )
    if index.numel() != source.numel():
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    if not input.numel() and index.numel():
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    source = source if source.shape == index.shape else reshape(source, tuple(index.shape))
    return source, _numbered(input, index, _kept(input, source))


@method
@puts_at(False, _put, _put_add, by_number=True)
@replayed
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with the elements of `source` written at `index`, counted as if `input` lay in one row; with `accumulate`
    added.

    >>> torch.zeros(2, 2).put(torch.tensor([3, 0]), torch.tensor([5.0, 6.0]))
    tensor([[6., 0.],
            [0., 5.]])
    """
    source, place = _numbering(input, index, source)
    return (_put_add if accumulate else _put)(input, source, place=place)


@method
@puts_at(True, _put, _put_add, by_number=True)
def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    no_overlap(self, source, index)
    source, place = _numbering(self, index, source)
    return _put_(
        _put_add if accumulate else _put, self, source, place, "add" if accumulate else "write", index
    )


__all__ = ["index_copy", "masked_scatter", "put"]
