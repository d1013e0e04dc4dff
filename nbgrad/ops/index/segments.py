"""Reductions of stretches that lie one after the other: segment_reduce."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nbgrad.base.records import NamedTuple
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.kernels.cpu import distinct as _distinct
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes, layout
from nbgrad.memory.backend import cpu
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.index.gather import index_add, index_select, masked_fill
from nbgrad.ops.index.place import _write, along, of_numbers
from nbgrad.ops.index.reduce_at import _MOVES, _identity, _no_second
from nbgrad.ops.views.copy import full, to_dtype, zeros
from nbgrad.ops.views.shape import reshape

_UNTOLD: Final = (
    "Expected {} to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to "
    "PyTorch.)"
)
_refuse_second = _no_second("derivative for aten::_segment_reduce_backward is not implemented")


class _Segments(NamedTuple):
    """Data that lies as `flat` rows, of which those numbered go into segments: `rows` (None if all, in order), for each its segment, and of
    each segment how many rows it has. What is `made` gets the `shape`."""

    rows: npt.NDArray[np.int64] | None
    slots: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    flat: Ints
    made: Ints
    shape: Ints


def _segments(data: Tensor, ends: Tensor, given: npt.NDArray[Any], offsets: bool) -> _Segments:
    """Where the segments lie, of which none may reach past what there is."""
    axis = ends.ndim - 1
    shape = tuple(data.shape)
    n, rest = shape[axis], shape[axis + 1 :]
    given = given.astype(np.int64).reshape(-1, tuple.__getitem__(ends.shape, -1))
    made = (given.size - offsets * len(given), *rest)
    each = (*shape[:axis], given.shape[1] - offsets, *rest)
    flat = (len(given) * n, *rest)
    if not offsets and given.min(initial=0) >= 0 and (given.sum(1) == n).all():  # all there is, in order
        lengths = given.reshape(-1)
        return _Segments(None, np.repeat(np.arange(len(lengths)), lengths), lengths, flat, made, each)
    if offsets:
        starts, counts = given[:, :-1], np.diff(given)
    else:
        starts, counts = np.cumsum(given, 1) - given, given
    if (counts < 0).any():
        raise RuntimeError(_UNTOLD.format("segment_length >= 0"))
    if (starts[counts > 0] < 0).any() or ((starts + counts)[counts > 0] > n).any():
        raise RuntimeError(
            f"segment_reduce(): Expected segments to lie in dimension {axis} of size {n}, but some reach past it"
        )
    starts = starts + n * np.arange(len(given))[:, None]
    starts, counts = starts.reshape(-1), counts.reshape(-1)
    slots = np.repeat(np.arange(len(counts)), counts)
    rows = np.arange(len(slots)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    whole = len(rows) == n * len(given) and bool((rows == np.arange(len(rows))).all())
    return _Segments(None if whole else rows, slots, counts, flat, made, each)


def _told(data: Tensor, ends: Tensor, offsets: bool) -> _Segments:
    """What is known of segments where no memory is: their number, and that rows go into them."""
    axis = ends.ndim - 1
    shape = tuple(data.shape)
    each = (*shape[:axis], tuple.__getitem__(ends.shape, -1) - offsets, *shape[axis + 1 :])
    count, n = int(np.prod(each[: axis + 1])), int(np.prod(shape[: axis + 1]))
    rest = shape[axis + 1 :]
    slots, counts = np.zeros(n, np.int64), np.zeros(count, np.int64)
    return _Segments(None, slots, counts, (n, *rest), (count, *rest), each)


def _column(numbers: npt.NDArray[np.int64], like: Tensor) -> Tensor:
    """A number for each row."""
    made = to_dtype(of_numbers(numbers, like.device), like.dtype)
    return reshape(made, (-1, *(1,) * (like.ndim - 1)))


def _rule(
    g: Tensor,
    data: Tensor,
    ends: Tensor,
    y: Tensor,
    axis: int,
    offsets: bool,
    unsafe: bool,
    reduce: str,
    initial: float | None,
) -> Tensor:
    known = data._spec.backend.holds and ends._spec.backend.holds
    at = _segments(data, ends, ends._host(), offsets) if known else _told(data, ends, offsets)
    slots = of_numbers(at.slots, data.device)

    def rows(t: Tensor) -> Tensor:
        flat = reshape(t, at.flat)
        return flat if at.rows is None else index_select(flat, 0, of_numbers(at.rows, data.device))

    def of_slots(t: Tensor) -> Tensor:
        return index_select(reshape(t, at.made), 0, slots)

    def sums(t: Tensor) -> Tensor:
        """Of each segment, at each of its rows."""
        counted = to_dtype(t, dtypes.float32)
        total = zeros(spec(dtypes.float32, at.made, None, data.device))
        return index_select(index_add(total, 0, slots, counted), 0, slots)

    def others(of: Tensor) -> Tensor:
        """Whether another one in the segment is so, too."""
        return e.gt(sums(of), to_dtype(of, dtypes.float32))

    def product() -> Tensor:
        """The product of the others is y / x; where that says nothing it is what is left without it. No derivative is read off that."""
        x = rows(data)
        zero, unknown = e.eq(x, 0), e.isnan(x)
        bad = e.logical_or(zero, unknown)
        usual = e.div(of_slots(e.mul(g, y)), masked_fill(x, bad, 1))
        if not bool(transforms.innermost(bad).any()):
            return usual
        whole = masked_fill(data.detach(), e.logical_or(e.eq(data, 0), e.isnan(data)), 1)
        left = _segment_reduce_op(
            whole, ends, axis=axis, offsets=offsets, unsafe=unsafe, reduce=reduce, initial=initial
        )
        left = masked_fill(of_slots(left), others(zero), 0)
        left = masked_fill(left, others(unknown), float("nan"))
        return _refuse_second(e.where(bad, e.mul(of_slots(g), left), usual))

    if reduce == "prod":
        got = product()
    elif reduce in ("amax", "amin"):  # equal extremes share it, and NaN are extremes
        x = rows(data.detach())
        found = e.logical_or(e.eq(x, of_slots(y.detach())), e.isnan(x))
        shared = e.div(of_slots(g), to_dtype(sums(found).clamp(min=1), g.dtype))
        got = masked_fill(shared, e.logical_not(found), 0)
    else:
        got = of_slots(g)
        if reduce == "mean":
            got = e.div(got, _column(at.counts[at.slots], got))
    if at.rows is not None:
        nothing = zeros(spec(got.dtype, at.flat, None, data.device))
        got = index_add(nothing, 0, of_numbers(at.rows, data.device), got)
    return reshape(got, data.shape)


@differentiable("SegmentReduce", unmoved="segment_reduce", data=_rule)
def _segment_reduce_op(
    data: Tensor, ends: Tensor, *, axis: int, offsets: bool, unsafe: bool, reduce: str, initial: float | None
) -> Tensor:
    if data._spec.backend.holds and ends._spec.backend.holds:
        given = ends._host()  # once, as a device has to be waited for
        _judged(data, ends, given, axis, offsets, unsafe)
        at = _segments(data, ends, given, offsets)
    else:
        at = _told(data, ends, offsets)
    first = _identity(reduce, data.dtype) if initial is None else initial
    out = full(spec(data.dtype, at.made, None, data.device), first)
    if out.numel() and len(at.slots):
        flat = reshape(data, at.flat)
        if at.rows is not None:
            flat = index_select(flat, 0, of_numbers(at.rows, data.device))
        _write(out, flat, along(0, at.slots, out._spec), _MOVES[reduce])
    if reduce == "mean":
        counts = (
            at.counts if initial is None else np.maximum(at.counts, 1)
        )  # of nothing NaN, or what was given
        out = e.div(out, _column(counts, out))
    return wrap(out._buf, out._spec.like(at.shape))


def _judged(
    data: Tensor, ends: Tensor, given: npt.NDArray[Any], axis: int, offsets: bool, unsafe: bool
) -> None:
    name = "offsets" if offsets else "lengths"
    if data.ndim < ends.ndim:
        raise RuntimeError(_UNTOLD.format(f"data.dim() >= {name}_value.dim()"))
    if axis != ends.ndim - 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
        )
    n = tuple.__getitem__(data.shape, axis)
    if offsets and not tuple.__getitem__(ends.shape, -1):
        raise RuntimeError("Trying to create tensor with negative dimension -1: [-1]")
    if not offsets and not unsafe:
        if not ends.numel():
            raise RuntimeError(
                "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
                "argument."
            )
        if given.min() < 0:
            raise RuntimeError("lengths contains negative value!")
        if (given.sum(-1) != n).any():
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
            )
    if ends.dtype not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(
            f"\"_segment_reduce_{name}_cpu_kernel1\" not implemented for '{ends.dtype.scalar_name}'"
        )
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{data.dtype.scalar_name}'")
    before = tuple(data.shape)[:axis]
    if tuple(ends.shape)[:-1] != before:  # of which PyTorch reads what lies beside
        raise RuntimeError(
            f"segment_reduce(): Expected {name} to have the sizes {list(before)} of data before the axis, but got "
            f"{list(ends.shape)[:-1]}"
        )


def _planned(
    data: Spec, reduce: Any, *, lengths: Any, indices: Any, offsets: Any, axis: Any, unsafe: Any, initial: Any
) -> Quick | None:
    """Of lengths that make up all there is, or of offsets that lie in it."""
    ends = lengths if offsets is None else offsets
    if indices is not None or unsafe or type(ends) is not Spec or not data.contiguous:
        return None
    if data.dtype not in (dtypes.float32, dtypes.float64) or not ends.contiguous or not data.numel:
        return None
    if offsets is not None and lengths is not None:
        return None
    way, code, d = {"max": "amax", "min": "amin"}.get(reduce, reduce), data.dtype.code, ends.ndim - 1
    source = _distinct.segments(code, ends.dtype.code, way, offsets is not None)
    kind = "offsets" if ends is offsets else "segments"
    address = cpu.kernel(f"{kind}_{way}_{code}_{ends.dtype.code}", *source).address
    launch, told = cpu.launch(4, "qqqqd", 1, data.numel < FEW), cpu.told
    shape, count = tuple(data.shape), tuple.__getitem__(ends.shape, d) - (ends is offsets)
    items, rows, inner = prod(shape[:d]), shape[d], prod(shape[d + 1 :])
    first = float(_identity(way, data.dtype) if initial is None else initial)
    made, numbers = (
        data.like((*shape[:d], count, *shape[d + 1 :])),
        (count, rows, inner, initial is not None, first),
    )

    def found(data: Tensor, ends: Tensor) -> Tensor | None:
        out, (number, seen) = empty(made), told.count
        launch(address, items, data._buf, ends._buf, out._buf, number, *numbers)
        return None if seen[0] else out

    return found


@quickly(_planned)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Each of the stretches that lie one after the other along `axis`, as long as `lengths` says or from one of `offsets` to the next,
    combined by `reduce`: "sum", "mean", "max", "min" or "prod", with `initial` where that is given. Lengths are to make up all there is,
    unless `unsafe`.

    >>> torch.segment_reduce(torch.tensor([1.0, 2.0, 5.0]), "max", lengths=torch.tensor([2, 0, 1]))
    tensor([2., -inf, 5.])
    """
    d = layout.wrap_dim(axis, data.ndim)
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    ends = lengths if offsets is None else offsets
    if ends is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    way = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if way not in _MOVES:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    first = None if initial is None else float(initial)
    found: Tensor = _segment_reduce_op(
        data, ends, axis=d, offsets=offsets is not None, unsafe=bool(unsafe), reduce=way, initial=first
    )
    return found


__all__ = ["segment_reduce"]
