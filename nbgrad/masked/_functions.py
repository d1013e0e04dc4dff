"""Reductions and normalisations of the elements that a mask lets through; the others count as what changes nothing.

A mask has the input's shape or one that broadcasts to it. Of a `MaskedTensor` what its own mask hides is hidden, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias, TypeVar, cast

from nbgrad.core.tensor import Tensor
from nbgrad.masked._tensor import MaskedTensor
from nbgrad.memory import dtypes, layout
from nbgrad.nn import functional as F
from nbgrad.ops import pointwise as e
from nbgrad.ops.linear.norms import vector_norm
from nbgrad.ops.make.filled import ones_like
from nbgrad.ops.order.scan import cumprod as _cumprod
from nbgrad.ops.order.scan import cumsum as _cumsum
from nbgrad.ops.pointwise.functions import logaddexp as _logaddexp

_Dims: TypeAlias = "int | Sequence[int] | None"


F_ = TypeVar("F_", bound=Callable[..., Any])


def _of_masked(function: F_) -> F_:
    """Let a function take a masked tensor."""

    @wraps(function)
    def taken(input: Any, *args: Any, mask: Tensor | None = None, **named: Any) -> Any:
        if isinstance(input, MaskedTensor):
            own = input.get_mask()
            input, mask = input.get_data(), own if mask is None else mask.logical_and(own)
        return function(input, *args, mask=mask, **named)

    return cast(F_, taken)


def _seen(input: Tensor, mask: Tensor | None) -> Tensor:
    """The mask in the input's shape."""
    if mask is None:
        return ones_like(input, dtype=dtypes.bool_)
    if mask.dim() > input.dim():
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
        )
    if mask.shape != input.shape:
        mask = mask.broadcast_to(tuple(input.shape))
    return mask.to(dtypes.bool_)


def _filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    return input if mask is None else e.where(_seen(input, mask), input, input.new_full((), value))


def _dims(dim: _Dims, ndim: int) -> tuple[int, ...]:
    if dim is None or dim == ():
        return tuple(range(ndim))
    found: list[int] = []
    for d in (dim,) if isinstance(dim, int) else dim:
        at = layout.wrap_dim(d, ndim)
        if at in found:
            raise RuntimeError(f"dim={at} appears multiple times in the list of dims")
        found.append(at)
    return tuple(found)


def _added_in(input: Tensor, dtype: Any) -> Any:
    small = input.dtype.category <= dtypes.INT
    return (dtypes.int64 if small else input.dtype) if dtype is None else dtype


@_of_masked
def sum(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of what the mask lets through.

    >>> torch.masked.sum(torch.tensor([1.0, 2.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    found: Tensor = _filled(input, mask, 0).sum(
        _dims(dim, input.ndim), keepdim=keepdim, dtype=_added_in(input, dtype)
    )
    return found


@_of_masked
def prod(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The product of what the mask lets through.

    >>> torch.masked.prod(torch.tensor([3.0, 2.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor(12.)
    """
    found = _filled(input, mask, 1).to(_added_in(input, dtype))
    for d in sorted(_dims(dim, input.ndim), reverse=True):
        found = found.prod(d, keepdim=keepdim)
    return found


@_of_masked
def mean(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of what the mask lets through, NaN of nothing.

    >>> torch.masked.mean(torch.tensor([1.0, 2.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor(2.5000)
    """
    d = input.dtype if dtype is None else dtypes.to_dtype(dtype)
    if not d.inexact:
        kind = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {kind} dtype must be either a floating point or complex dtype. Got: {d!r}"
        )
    count = sum(_seen(input, mask), dim, keepdim=keepdim)
    return sum(input, dim, keepdim=keepdim, dtype=d, mask=mask) / count


def _limit(name: str, d: dtypes.dtype, low: bool) -> Any:
    if d is dtypes.bool_ or (d.is_complex and name != "logsumexp"):
        raise NotImplementedError(f"identity of {name} on {d!r} input")
    if d.inexact:
        return -math.inf if low else math.inf
    return dtypes.iinfo(d).min if low else dtypes.iinfo(d).max


@_of_masked
def amax(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The largest of what the mask lets through.

    >>> torch.masked.amax(torch.tensor([1.0, 9.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor(4.)
    """
    return _extreme("amax", input, dim, keepdim, dtype, mask)


@_of_masked
def amin(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The least of what the mask lets through.

    >>> torch.masked.amin(torch.tensor([3.0, 0.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor(3.)
    """
    return _extreme("amin", input, dim, keepdim, dtype, mask)


def _extreme(name: str, input: Tensor, dim: _Dims, keepdim: bool, dtype: Any, mask: Tensor | None) -> Tensor:
    wanted = input.dtype if dtype is None else dtype
    filled = _filled(input, mask, _limit(name, input.dtype, name == "amax"))
    found: Tensor = getattr(filled, name)(_dims(dim, input.ndim), keepdim=keepdim)
    return found.to(wanted)


@_of_masked
def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest stands of what the mask lets through, in the input's dtype as PyTorch has it.

    >>> torch.masked.argmax(torch.tensor([1, 9, 4]), 0, mask=torch.tensor([True, False, True]))
    tensor(2)
    """
    return _place("argmax", input, dim, keepdim, dtype, mask)


@_of_masked
def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the least stands of what the mask lets through, in the input's dtype as PyTorch has it.

    >>> torch.masked.argmin(torch.tensor([3, 0, 4]), 0, mask=torch.tensor([True, False, True]))
    tensor(0)
    """
    return _place("argmin", input, dim, keepdim, dtype, mask)


def _place(
    name: str, input: Tensor, dim: int | None, keepdim: bool, dtype: Any, mask: Tensor | None
) -> Tensor:
    filled = _filled(input, mask, _limit(name, input.dtype, name == "argmax"))
    found: Tensor = getattr(filled, name)(dim, keepdim=bool(keepdim))
    return found.to(input.dtype if dtype is None else dtype)


@_of_masked
def var(
    input: Tensor,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of what the mask lets through.

    >>> torch.masked.var(torch.tensor([1.0, 9.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor(4.5000)
    """
    if unbiased is not None and correction is not None:
        raise RuntimeError("Only one of unbiased and correction may be given")
    less = (1.0 if unbiased in (None, True) else 0.0) if correction is None else correction
    d = input.dtype if dtype is None else dtypes.to_dtype(dtype)
    if not d.inexact:
        d = dtypes.float32
    if not input.dtype.inexact:
        input = input.to(d)
    seen = _seen(input, mask)
    count = sum(seen, dim, keepdim=True)
    middle = sum(input, dim, keepdim=True, dtype=d, mask=mask) / count
    far = input - middle
    total = sum((far * far.conj()).real if d.is_complex else far * far, dim, keepdim=keepdim, mask=mask)
    count = count if keepdim else sum(seen, dim)
    return (total / e.clamp(count - less, 0)).to(d)


@_of_masked
def std(
    input: Tensor,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of what the mask lets through.

    >>> torch.masked.std(torch.tensor([1.0, 9.0, 3.0]), 0, False, mask=torch.tensor([True, False, True]))
    tensor(1.)
    """
    found: Tensor = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    ).sqrt()
    return found


@_of_masked
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The norm of what the mask lets through.

    >>> torch.masked.norm(torch.tensor([3.0, 9.0, 4.0]), 2, 0, mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    order = 2.0 if ord is None else ord
    filled = _filled(input, mask, math.inf if order < 0 else 0)
    found: Tensor = vector_norm(filled, order, _dims(dim, input.ndim), keepdim, dtype=dtype)
    return found


@_of_masked
def logsumexp(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of the exponentials of what the mask lets through.

    >>> torch.masked.logsumexp(torch.tensor([0.0, 9.0, 0.0]), 0, mask=torch.tensor([True, False, True]))
    tensor(0.6931)
    """
    filled = _filled(input, mask, _limit("logsumexp", input.dtype, True))
    if dtype is not None:
        filled = filled.to(dtype)
    found: Tensor = filled.logsumexp(_dims(dim, input.ndim), keepdim=keepdim)
    return found.to(input.dtype if dtype is None else dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of two exponentials; what a mask keeps back is no summand.

    >>> torch.masked.logaddexp(torch.zeros(2), torch.zeros(2), other_mask=torch.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    d = input.dtype if dtype is None else dtype
    found: Tensor = _logaddexp(
        _filled(input, input_mask, -math.inf).to(d), _filled(other, other_mask, -math.inf).to(d)
    )
    return found


@_of_masked
def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The median of what the mask lets through, NaN of nothing.

    >>> torch.masked.median(torch.tensor([1.0, 9.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor(1.)
    """
    d = input.dtype if dtype is None else dtypes.to_dtype(dtype)
    filled = _filled(input.to(d if d.is_floating_point else dtypes.float32), mask, math.nan)
    found: Tensor = filled.nanmedian(dim, keepdim)[0]
    if not d.is_floating_point and bool(found.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return found.to(d)


@_of_masked
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running sums of what the mask lets through.

    >>> torch.masked.cumsum(torch.tensor([1.0, 9.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([1., 1., 5.])
    """
    found: Tensor = _cumsum(_filled(input, mask, 0), dim, dtype=dtype)
    return found


@_of_masked
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running products of what the mask lets through.

    >>> torch.masked.cumprod(torch.tensor([2.0, 9.0, 4.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([2., 2., 8.])
    """
    found: Tensor = _cumprod(_filled(input, mask, 1), dim, dtype=dtype)
    return found


@_of_masked
def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax among what the mask lets through.

    >>> torch.masked.softmax(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return F.softmax(_filled(input, mask, _limit("softmax", input.dtype, True)), dim, dtype=dtype)


@_of_masked
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of softmax among what the mask lets through.

    >>> torch.masked.log_softmax(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return F.log_softmax(_filled(input, mask, _limit("log_softmax", input.dtype, True)), dim, dtype=dtype)


@_of_masked
def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negatives, among what the mask lets through.

    >>> torch.masked.softmin(torch.tensor([1.0, 0.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return F.softmin(_filled(input, mask, _limit("softmin", input.dtype, False)), dim, dtype=dtype)


@_of_masked
def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """What the mask lets through divided by its norm.

    >>> torch.masked.normalize(torch.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=torch.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    found: Tensor = _filled(input, mask, 0) / e.clamp(size, eps)
    return found
