"""What counts elements, or asks which are among others: no gradient passes here."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from nbgrad.base.tables import PLANS, cached
from nbgrad.core.plan import common_dtype, number_type
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.elementwise import into, undifferentiable
from nbgrad.dispatch.prepared import Run, prepared
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.dispatch.return_types import maker, named, results
from nbgrad.dispatch.stanza import method
from nbgrad.dispatch.transforms import moves
from nbgrad.kernels.cpu import distinct as _distinct
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes
from nbgrad.memory.layout import MAX_NUMEL
from nbgrad.memory.storage import Spec
from nbgrad.ops.host.values import of_array
from nbgrad.ops.order.sort import searchsorted, sort
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.pointwise.comparisons import eq, logical_and, logical_not
from nbgrad.ops.views.copy import clone, contiguous, full, moved, scalar, to_dtype
from nbgrad.ops.views.shape import reshape, unsqueeze
from nbgrad.ops.views.slices import narrow, unbind
from nbgrad.tape.modes import state

Array = np.ndarray[Any, Any]

# ---------------------------------------------------------------- membership


@undifferentiable()
def _among(elements: Tensor, test_elements: Tensor) -> Tensor:
    """Each element is looked up where it would stand among the sorted others. NaN, which none is, would mislead the search: it is looked
    over as infinity, behind which it stands anyway."""
    if elements.is_meta or not test_elements.numel():
        return full(elements._spec.dense().like(dtype=dtypes.bool_), 0)
    ordered = sort(reshape(test_elements, (-1,)))[0]
    searched = ordered
    if ordered.dtype.is_floating_point:
        searched = where(eq(ordered, ordered), ordered, float("inf"))
    values = contiguous(elements)
    place = searchsorted(searched, values).clamp(max=ordered.numel() - 1)
    return eq(ordered[place], values)


def _quick_isin(
    elements: Any, test_elements: Any, *, assume_unique: Any, invert: Any, out: Any
) -> Quick | None:
    """Of few, each is compared with each."""
    a, b = elements, test_elements
    if out is not None or type(a) is not Spec or type(b) is not Spec or a.dtype is not b.dtype:
        return None
    if not (a.contiguous and b.contiguous and 0 < a.numel * b.numel <= 4096):
        return None
    made = a.dense().like(dtype=dtypes.bool_)
    address = backend.cpu.kernel(f"among_{a.dtype.code}", *_distinct.among(a.dtype.code)).address
    launch, n, numbers = (
        backend.cpu.launch(3, "qq", 1, a.numel * b.numel < FEW),
        a.numel,
        (b.numel, bool(invert)),
    )

    def found(a: Tensor, b: Tensor) -> Tensor:
        found = empty(made)
        launch(address, n, a._buf, b._buf, found._buf, *numbers)
        return found

    return found


@quickly(_quick_isin, records=False)
@replayed
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
        if isinstance(t, Tensor) and t.is_complex():
            raise RuntimeError(f"Unsupported input type encountered for isin(): {t.dtype.scalar_name}")
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


@cached(PLANS)
def _counting(sp: Spec) -> Callable[[Any, int], Array | None]:
    """What counts the integers in memory that lies so: how often each stands, of so many at least; None if one is below 0."""
    code, n, kernel, told = sp.dtype.code, sp.numel, backend.cpu.kernel, backend.cpu.told
    looking = kernel(f"most_{code}", *_distinct.most(code)).address
    counting = kernel(f"counted_{code}", *_distinct.counted(code)).address
    look, count = backend.cpu.launch(2, "", 1, n < FEW), backend.cpu.launch(2, "q", 1, n < FEW)

    def counted(memory: Any, least: int) -> Array | None:
        number, seen = told.count
        look(looking, n, memory, number)
        most = seen[0]
        if not 0 <= most < MAX_NUMEL // 8:
            return None
        size = max(least, most + 1)
        counts = backend.cpu.zeros(8 * size)
        count(counting, n, memory, counts, size)
        return counts

    return counted


def _quick_count(input: Spec, weights: Any, minlength: Any) -> Quick | None:
    d, integers = input.dtype, input.like(dtype=dtypes.int64)
    if weights is not None or d.is_floating_point or d is dtypes.bool_ or type(minlength) is not int:
        return None
    if input.ndim != 1 or not input.numel or not input.contiguous or minlength < 0:
        return None
    counting = _counting(input)

    def found(t: Tensor) -> Tensor | None:
        counts = counting(t._buf, minlength)
        return None if counts is None else wrap(counts, integers.like((len(counts) // 8,)))

    return found


@undifferentiable()
def _bincount(input: Tensor, *weights: Tensor, minlength: int) -> Tensor:
    most = int(input.max()) if input.numel() else -1
    if most == MAX_NUMEL:  # of which NumPy writes beside its memory
        raise RuntimeError(f"maximum value of input overflowed, it should be < {MAX_NUMEL} but got {most}")
    n = max(minlength, most + 1)
    if not weights and type(input._spec) is Spec and input.is_cpu and input.numel():
        whole = contiguous(input)
        found = _counting(whole._spec)(whole._buf, minlength)
        if found is not None:
            return wrap(found, whole._spec.like((len(found) // 8,), dtype=dtypes.int64))
    if not weights:
        counts = full(input._spec.like((n,), dtype=dtypes.int64), 0)
        ones = full(input._spec.like(tuple(input.shape), dtype=dtypes.int64), 1)
        return counts.index_add_(0, input.long(), ones)
    (w,) = weights
    backend.same((input.device, w.device))
    w = w if w.dtype is dtypes.float32 else to_dtype(w, dtypes.float64)
    return full(w._spec.like((n,)), 0).index_add_(0, input.long(), w)


@method
@quickly(_quick_count)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2 ... stands in a line of integers; with `weights`, the sum of the weights where it stands. The result has
    `max(input) + 1` elements, and no fewer than `minlength`.

    >>> torch.bincount(torch.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    >>> torch.bincount(torch.tensor([0, 2, 2]), weights=torch.tensor([0.5, 1.0, 2.0]), minlength=5)
    tensor([0.5000, 0.0000, 3.0000, 0.0000, 0.0000])
    """
    if input.dtype.inexact or input.dtype is dtypes.bool_:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{input.dtype.scalar_name}'")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.ndim != 1 or (input.numel() and bool(input.min() < 0)):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return _bincount(input, minlength=minlength)
    if weights.ndim != 1 or weights.numel() != input.numel():
        raise RuntimeError("weights should be 1-d and have the same length as input")
    return _bincount(input, weights, minlength=minlength)


def _some_bins(bins: int, dim: int = 0) -> None:
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}")


def _edges(input: Tensor, low: float, high: float) -> tuple[float, float]:
    if low == high and input.numel():
        input = input.detach()
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


def _quick_parts(input: Spec, bins: Any, min: Any, max: Any, *, out: Any) -> Quick | None:
    if out is not None or not {type(min), type(max)} <= {int, float} or type(bins) is not int:
        return None
    if input.dtype not in (dtypes.float32, dtypes.float64) or not input.contiguous or not input.numel:
        return None
    address = backend.cpu.kernel(
        f"histogram_{input.dtype.code}", *_distinct.histogram(input.dtype.code)
    ).address
    launch, n, told = backend.cpu.launch(3, "qqdd", 1, input.numel < FEW), input.numel, backend.cpu.told
    made, numbers = input.like((bins,)), (bins, min != max, float(min), float(max))

    def found(t: Tensor) -> Tensor | None:
        counts, (number, seen) = backend.cpu.zeros(made.nbytes), told.count
        launch(address, n, t._buf, counts, number, *numbers)
        return None if seen[0] else wrap(counts, made)

    return found


@method
@quickly(_quick_parts)
@replayed
def histc(
    input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None
) -> Tensor:
    """How many elements fall into each of `bins` equal parts of `min` to `max`, or, where these are equal, of the smallest to the largest
    element. What lies outside is not counted.

    >>> torch.histc(torch.tensor([0.0, 1.0, 1.0, 3.0]), bins=3)
    tensor([1., 2., 1.])
    """
    if min == max and input.numel():
        lacks_kernel("aminmax_cpu", input.dtype)
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


def _same_as_input(input: Tensor, weight: Tensor, points: tuple[int, ...]) -> None:
    """`points` is the input's shape with that of a point."""
    if tuple(weight.shape) != points[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost "
            f"dimension, but got input with shape {[*points]} and weight with shape {[*weight.shape]}"
        )
    if weight.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
            f"input({input.dtype.c_name}), and weight({weight.dtype.c_name})"
        )


def _range(values: Tensor, given: Any, dim: int, dims: int) -> tuple[float, float]:
    """From the least to the greatest edge; half a unit to each side of where they are one."""
    if given is None:
        low, high = (values.min().item(), values.max().item()) if values.numel() else (0.0, 1.0)
    elif len(given) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} elements, but got {len(given)}"
        )
    else:
        low, high = given[2 * dim], given[2 * dim + 1]
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension {dim}'s range [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {dim}"
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _given_edges(bins: Tensor, d: dtypes.dtype, dim: int) -> Tensor:
    if bins.ndim != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {bins.ndim} dimensions in the bins tensor for "
            f"dimension {dim}"
        )
    if bins.dtype is not d:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
            f"{d.c_name} and bins for dimension {dim} with dtype {bins.dtype.c_name}"
        )
    if not bins.numel():
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension {dim}"
        )
    return bins


def _histogram(
    name: str,
    input: Tensor,
    points: tuple[int, ...],
    bins: Sequence[Any],
    span: Any,
    weight: Any,
    density: bool,
) -> tuple[Tensor, list[Tensor]]:
    """The counts of points, whose numbers are the last of `points`, and the edges in each dimension."""
    d, dims = input.dtype, points[-1]
    if d not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{d.scalar_name}'")
    if state.duals and moves((input,)):
        raise NotImplementedError(f"Trying to use forward AD with aten::{name} that does not support it.")
    bins = [_given_edges(b, d, k) if isinstance(b, Tensor) else b for k, b in enumerate(bins)]
    if weight is not None:
        _same_as_input(input, weight, points)
    values = contiguous(reshape(input.detach(), (-1, dims)))
    weights = full(values._spec.dense().like((values.shape[0],)), 1)
    weights = weights if weight is None else reshape(weight.detach(), (-1,))
    edges: list[Tensor] = []
    inside, place = full(weights._spec.dense().like(weights.shape, dtype=dtypes.bool_), True), None
    for k, b in enumerate(bins):
        along = contiguous(values[:, k])
        if isinstance(b, Tensor):
            edges.append(clone(contiguous(b.detach())))
        else:
            _some_bins(b, k)
            low, high = _range(along, span, k, dims)
            edges.append(moved(of_array(dtypes.evenly(low, high, b + 1, d)), d, input._spec.device))
        last = edges[k].numel() - 1
        _some_bins(last, k)
        inside = logical_and(inside, logical_and(along >= edges[k][0], along <= edges[k][last]))
        at = (searchsorted(edges[k], along, right=True) - 1).clamp(max=last - 1)
        place = at if place is None else place * last + at
    assert place is not None
    sizes = [e.numel() - 1 for e in edges]
    counts = reshape(_added_up(d, inside, place, prod(sizes), weights), sizes)
    if density:
        counts = counts / counts.sum()
        for k, e in enumerate(edges):
            counts = counts / reshape(e.diff(), [-1 if j == k else 1 for j in builtins.range(dims)])
    return counts, edges


def _quick_histogram(
    input: Spec, bins: Any, *, range: Any, weight: Any, density: Any, out: Any
) -> Quick | None:
    if weight is not None or density or out is not None or type(bins) is not int:
        return None
    if input.dtype not in (dtypes.float32, dtypes.float64) or not input.contiguous or not input.numel:
        return None
    address = backend.cpu.kernel(f"binned_{input.dtype.code}", *_distinct.binned(input.dtype.code)).address
    launch, n, told = backend.cpu.launch(4, "qqdd", 1, input.numel < FEW), input.numel, backend.cpu.told
    low, high = (0.0, 0.0) if range is None else range
    counts, edges = input.like((bins,)), input.like((bins + 1,))
    numbers, named = (bins, range is not None, float(low), float(high)), maker("histogram")

    def found(t: Tensor) -> Any:
        memory, (number, seen) = backend.cpu.zeros(counts.nbytes), told.count
        ends = empty(edges)
        launch(address, n, t._buf, ends._buf, memory, number, *numbers)
        return None if seen[0] else named((wrap(memory, counts), ends))

    return found


@method
@quickly(_quick_histogram, records=False)
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
    counts, edges = _histogram("histogram", input, (*input.shape, 1), (bins,), range, weight, density)
    return results("histogram", (counts, edges[0]), out, (input,), exact=_HISTOGRAM_OUT)


def histogramdd(
    input: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """How many points fall into each box, and the edges of the boxes in each dimension, as `hist` and `bin_edges`. A point is what the
    last dimension holds; `bins` is a number of equal parts, one for each dimension, or the edges; `range` holds the least and the greatest
    of each. A `weight` counts for its point instead of 1; `density` makes the volume 1.

    >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), [2, 2])
    torch.return_types.histogramdd(
    hist=tensor([[0., 1.],
            [1., 1.]]),
    bin_edges=(tensor([0., 1., 2.]), tensor([0., 1., 2.])))
    """
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    dims = input.shape[-1]
    if isinstance(bins, int):
        bins = [bins] * dims
    if len(bins) != dims:
        if bins and isinstance(bins[0], Tensor):
            raise RuntimeError(
                f"torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-dimensional histogram but got {len(bins)}"
            )
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    counts, edges = _histogram("histogramdd", input, tuple(input.shape), bins, range, weight, density)
    return named("histogramdd", (counts, tuple(edges)))


# ---------------------------------------------------------------- flat indices


@prepared()
def _unravelled(indices: Spec, *, sizes: tuple[int, ...]) -> Run:
    steps = np.cumprod([1, *sizes[:0:-1]], dtype=np.int64)[::-1].copy()
    by, within = (
        moved(of_array(n), dtypes.int64, indices.device) for n in (steps, np.array(sizes, np.int64))
    )
    return lambda t: unsqueeze(t, -1) // by % within


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The places by dimension, a tensor for each, that flat `indices` have in a tensor of this `shape`.

    >>> torch.unravel_index(torch.tensor([0, 4, 5]), (2, 3))
    (tensor([0, 1, 1]), tensor([0, 1, 2]))
    """
    if not isinstance(indices, Tensor):
        raise AttributeError(f"'{type(indices).__name__}' object has no attribute 'is_complex'")
    if indices.dtype.inexact or indices.dtype is dtypes.bool_:
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
    return unbind(_unravelled(indices, sizes=sizes), -1)


__all__ = ["bincount", "histc", "histogram", "histogramdd", "isin", "unravel_index"]
