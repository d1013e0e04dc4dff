"""What counts elements, or asks which are among others: no gradient passes here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.core.plan import common_dtype, number_type
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import into, undifferentiable
from nbgrad.dispatch.return_types import results
from nbgrad.dispatch.stanza import method
from nbgrad.dispatch.transforms import moves
from nbgrad.kernels.launch import PARALLEL_FROM
from nbgrad.memory import backend, dtypes
from nbgrad.memory.storage import Spec
from nbgrad.ops.host.values import of_array
from nbgrad.ops.order.sort import searchsorted, sort
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.pointwise.comparisons import eq, logical_and, logical_not
from nbgrad.ops.views.copy import clone, contiguous, full, moved, scalar, to_dtype
from nbgrad.ops.views.shape import reshape, unsqueeze
from nbgrad.ops.views.slices import narrow, unbind
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- membership


@undifferentiable()
def _among(elements: Tensor, test_elements: Tensor) -> Tensor:
    """Each element is looked up where it would stand among the sorted others; NaN, which none is, would mislead the search."""
    if elements.is_meta:
        return full(elements._spec.dense().like(dtype=dtypes.bool_), 0)
    ordered = sort(reshape(test_elements, (-1,)))[0]
    if ordered.dtype.is_floating_point:
        ordered = ordered[eq(ordered, ordered)]
    if not ordered.numel():
        return full(elements._spec.dense().like(dtype=dtypes.bool_), 0)
    values = contiguous(elements)
    place = searchsorted(ordered, values).clamp(max=ordered.numel() - 1)
    return eq(ordered[place], values)


def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each of `elements` is among `test_elements`, either of which may be a number; `invert` asks whether it is not. NaN is among
    none.

    >>> torch.isin(torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 4]))
    tensor([[False,  True],
            [False,  True]])
    """
    given = (elements, test_elements)
    for t in given:
        if isinstance(t, bool) or (isinstance(t, Tensor) and t.dtype is dtypes.bool_):
            raise RuntimeError("Unsupported input type encountered for isin(): Bool")
    if not any(isinstance(t, Tensor) for t in given):
        kinds = ", ".join(type(t).__name__ for t in given)
        raise TypeError(f"isin() received an invalid combination of arguments - got ({kinds})")
    d = common_dtype([t._spec if isinstance(t, Tensor) else number_type(t) for t in given])
    where = next(t._spec.device for t in given if isinstance(t, Tensor))
    a, b = (to_dtype(t, d) if isinstance(t, Tensor) else moved(scalar(t, d), d, where) for t in given)
    found = _among(a, b)
    result = logical_not(found) if invert else found
    return result if out is None else into("isin", out, result, ())


# ---------------------------------------------------------------- counts


@undifferentiable()
def _bincount(input: Tensor, *weights: Tensor, minlength: int) -> Tensor:
    n = max(minlength, int(input.max()) + 1 if input.numel() else 0)
    if not weights:
        out = input._spec.like((n,), dtype=dtypes.int64)
        if type(input._spec) is Spec and input.is_cpu and input._spec.numel < PARALLEL_FROM:
            return of_array(np.bincount(input._host(), minlength=n))
        counts = full(out, 0)
        ones = full(input._spec.like(tuple(input.shape), dtype=dtypes.int64), 1)
        return counts.index_add_(0, input.long(), ones)
    (w,) = weights
    backend.same((input.device, w.device))
    w = w if w.dtype is dtypes.float32 else to_dtype(w, dtypes.float64)
    return full(w._spec.like((n,)), 0).index_add_(0, input.long(), w)


@method
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2 ... stands in a line of integers; with `weights`, the sum of the weights where it stands. The result has
    `max(input) + 1` elements, and no fewer than `minlength`.

    >>> torch.bincount(torch.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    >>> torch.bincount(torch.tensor([0, 2, 2]), weights=torch.tensor([0.5, 1.0, 2.0]), minlength=5)
    tensor([0.5000, 0.0000, 3.0000, 0.0000, 0.0000])
    """
    if input.dtype.is_floating_point or input.dtype is dtypes.bool_:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{input.dtype.scalar_name}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.ndim != 1 or (input.numel() and bool((input < 0).any())):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return _bincount(input, minlength=minlength)
    if weights.ndim != 1 or weights.numel() != input.numel():
        raise RuntimeError("weights should be 1-d and have the same length as input")
    return _bincount(input, weights, minlength=minlength)


def _some_bins(bins: int) -> None:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")


def _edges(input: Tensor, low: float, high: float) -> tuple[float, float]:
    if low == high and input.numel():
        low, high = float(input.min()), float(input.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    return low, high


_SAME_DTYPES = "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {c_want} and hist {c_got}"


@undifferentiable()
def _histc(input: Tensor, *, bins: int, low: float, high: float) -> Tensor:
    values = reshape(input, (-1,))
    inside = logical_and(values >= low, values <= high)
    low, high = dtypes.rounded(np.array([low, high]), input._spec.dtype).tolist()
    place = ((values - low) * bins / (high - low)).long().clamp(max=bins - 1)
    return _added_up(input._spec.dtype, inside, place, bins, to_dtype(inside, input.dtype))


def _added_up(d: dtypes.dtype, inside: Tensor, place: Tensor, bins: int, weights: Tensor) -> Tensor:
    """The sum of the weights in each bin; what is not inside of any is added up in one more, so that nobody need know how much that is."""
    counts = full(weights._spec.like((bins + 1,), dtype=d), 0)
    counts.index_add_(0, where(inside, place, bins), weights)
    return clone(narrow(counts, 0, 0, bins))


@method
def histc(
    input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None
) -> Tensor:
    """How many elements fall into each of `bins` equal parts of `min` to `max`, or, where these are equal, of the smallest to the largest
    element. What lies outside is not counted.

    >>> torch.histc(torch.tensor([0.0, 1.0, 1.0, 3.0]), bins=3)
    tensor([1., 2., 1.])
    """
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{input.dtype.scalar_name}'")
    _some_bins(bins)
    low, high = _edges(input, min, max)
    result = _histc(input, bins=bins, low=low, high=high)
    return result if out is None else into("histc", out, result, (), _SAME_DTYPES)


_HISTOGRAM_OUT = (
    _SAME_DTYPES,
    _SAME_DTYPES.replace("hist tensor", "bin_edges tensor").replace(
        "hist {c_got}", "bin_edges {c_got} for dimension 0"
    ),
)


def _same_as_input(input: Tensor, weight: Tensor) -> None:
    if weight.shape != input.shape:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost "
            f"dimension, but got input with shape {[*input.shape, 1]} and weight with shape {[*weight.shape]}"
        )
    if weight.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
            f"input({input.dtype.c_name}), and weight({weight.dtype.c_name})"
        )


def _range(values: Tensor, given: Any) -> tuple[float, float]:
    """From the least to the greatest edge; half a unit to each side of where they are one."""
    if given is None:
        low, high = (values.min().item(), values.max().item()) if values.numel() else (0.0, 1.0)
    elif len(given) != 2:
        raise RuntimeError(
            f"torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got {len(given)}"
        )
    else:
        low, high = given
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension 0's range [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension 0"
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)


@method
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """How many elements fall into each bin, and the edges of the bins, as `hist` and `bin_edges`. `bins` is a number of equal parts of
    `range` (of all values if none is given), or the edges themselves. A `weight` counts for its element instead of 1; `density` divides by
    the sum and by the widths, so that the area is 1.

    >>> torch.histogram(torch.tensor([0.0, 1.0, 1.0, 4.0]), bins=2)
    torch.return_types.histogram(
    hist=tensor([3., 1.]),
    bin_edges=tensor([0., 2., 4.]))
    """
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{input.dtype.scalar_name}'")
    if state.duals and moves((input,)):
        raise NotImplementedError("Trying to use forward AD with aten::histogram that does not support it.")
    values = contiguous(reshape(input.detach(), (-1,)))
    d = input.dtype
    if isinstance(bins, Tensor):
        if bins.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {bins.ndim} dimensions in the bins tensor for "
                "dimension 0"
            )
        if bins.dtype is not d:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{d.c_name} and bins for dimension 0 with dtype {bins.dtype.c_name}"
            )
        if not bins.numel():
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension 0"
            )
    if weight is not None:
        _same_as_input(input, weight)
    weights = full(values._spec.dense(), 1) if weight is None else reshape(weight.detach(), (-1,))
    if isinstance(bins, Tensor):
        edges = clone(contiguous(bins.detach()))
        if edges.numel() == 1:
            raise RuntimeError("torch.histogram(): bins must be > 0, but got 0 for dimension 0")
    else:
        _some_bins(bins)
        low, high = _range(values, range)
        edges = moved(of_array(np.linspace(low, high, bins + 1).astype(d.np)), d, input._spec.device)
    last = edges.numel() - 1
    inside = logical_and(values >= edges[0], values <= edges[last])
    place = (searchsorted(edges, values, right=True) - 1).clamp(max=last - 1)
    counts = _added_up(d, inside, place, last, weights)
    if density:
        counts = counts / counts.sum() / edges.diff()
    return results("histogram", (counts, edges), out, (input,), exact=_HISTOGRAM_OUT)


# ---------------------------------------------------------------- flat indices


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The places by dimension, a tensor for each, that flat `indices` have in a tensor of this `shape`.

    >>> torch.unravel_index(torch.tensor([0, 4, 5]), (2, 3))
    (tensor([0, 1, 1]), tensor([0, 1, 2]))
    """
    if not isinstance(indices, Tensor):
        raise AttributeError(f"'{type(indices).__name__}' object has no attribute 'is_complex'")
    if indices.dtype.is_floating_point or indices.dtype is dtypes.bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        kind = str(type(shape)).replace("nbgrad.core.tensor", "torch")
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {kind}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in sizes:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps = np.cumprod([1, *sizes[:0:-1]], dtype=np.int64)[::-1].copy()
    by, within = (
        moved(of_array(n), dtypes.int64, indices.device) for n in (steps, np.array(sizes, np.int64))
    )
    places = unsqueeze(indices, -1) // by % within
    return unbind(places, -1)


__all__ = ["bincount", "histc", "histogram", "isin", "unravel_index"]
