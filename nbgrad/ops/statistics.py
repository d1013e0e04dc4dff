"""Moments, and sums that leave NaN out, and differences.

Variance and mean come of one pass over the elements; the gradient of either is written in ops, so that any order exists.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

from nbgrad import _backend, _dtypes, _layout
from nbgrad._dispatch import differentiable, into, undifferentiable
from nbgrad._layout import Ints
from nbgrad._storage import Spec, spec
from nbgrad._tensor import Tensor, empty, wrap
from nbgrad.expr import prims as p
from nbgrad.expr.node import var as variable
from nbgrad.kernels import build
from nbgrad.kernels.cpu import lines
from nbgrad.ops import elementwise as e
from nbgrad.ops.copy import full, to_dtype
from nbgrad.ops.join import cat
from nbgrad.ops.movement import narrow, spread
from nbgrad.ops.reduce import (
    AMAX,
    AMIN,
    Reduction,
    _count,
    _dims,
    _kept,
    _mean,
    _moved_by,
    _past,
    _shared,
    run,
    sum,
)
from nbgrad.ops.registry import method
from nbgrad.ops.return_types import named
from nbgrad.ops.walk import as_lines, still, walk

_EXPECTED = "Expected out tensor to have dtype {c_want}, but got {c_got} instead"
_RUN = 1 << 15  # elements that a thread takes of one long line

# ---------------------------------------------------------------- moments


@lru_cache(maxsize=4096)
def _moments_along(what: str, sp: Spec, dim: int) -> Any:
    """Of each line along `dim`; the kernel is made for the lines' layout."""
    n = tuple.__getitem__(sp.shape, dim) if sp.ndim else 1
    if sp.numel == n and n >= 2 * _RUN and (not sp.ndim or sp.strides[dim] == 1):
        return _moments_of_one(what, sp, n)
    shape = _layout.reduced_shape(tuple(sp.shape), (dim,) if sp.ndim else (), True)
    d = _dtypes.float64 if what == "squares" else sp.dtype
    out = spec(d, shape, None, sp.device)
    how = walk(tuple(sp.shape), dim, (still(out, dim), sp.strides), wide=lines.WIDE, few=1)
    unit = bool(sp.ndim) and sp.strides[dim] == 1
    source, signature = lines.moments(what, sp.dtype.code, out.dtype.code, how.together, unit)
    form = "lines" if how.together else "unit" if unit else "strided"
    address = build.kernel(f"{what}_{sp.dtype.code}_{form}", source, signature).address
    items = how.items if out.numel else 0
    launch = _backend.of(sp.device).launch(4, "d", max(sp.numel, 1) if items > 1 else items)

    def moments(t: Tensor, correction: float) -> tuple[Tensor, Tensor]:
        about, middle = empty(out), empty(out)
        launch(address, items, how.meta, about._buf, middle._buf, t._buf, correction)
        return about, middle

    return moments


def _moments_of_one(what: str, sp: Spec, n: int) -> Any:
    """One long line, in runs that threads share; the runs, and so the result, do not depend on how many threads there are."""
    whole, left = n // _RUN, n % _RUN
    runs = whole + (1 if left else 0)
    body = _moments_along("squares", spec(sp.dtype, (whole, _RUN), None, sp.device), 1)
    rest = _moments_along("squares", spec(sp.dtype, (1, left), None, sp.device), 1) if left else None
    offset = whole * _RUN * sp.itemsize
    out = spec(sp.dtype, (1,) * sp.ndim, None, sp.device)
    source, signature = lines.join_moments(what, sp.dtype.code)
    address = build.kernel(f"join_{what}_{sp.dtype.code}", source, signature).address
    backend = _backend.of(sp.device)
    launch = backend.launch(4, "qqqd", 1)
    parts = spec(_dtypes.float64, (runs,), None, sp.device)

    def moments(t: Tensor, correction: float) -> tuple[Tensor, Tensor]:
        found = body(t, 0.0)
        if rest is not None:
            last = rest(wrap(backend.view(t._buf, offset), t._spec), 0.0)
            found = tuple(wrap(_joined(a._buf, b._buf), parts) for a, b in zip(found, last))
        about, middle = empty(out), empty(out)
        launch(
            address,
            1,
            about._buf,
            middle._buf,
            found[0]._buf,
            found[1]._buf,
            runs,
            _RUN,
            left or _RUN,
            correction,
        )
        return about, middle

    def _joined(a: Any, b: Any) -> Any:
        both = backend.empty(len(a) + len(b))
        both[: len(a)], both[len(a) :] = a, b
        return both

    return moments


def _moments(what: str, input: Tensor, dims: Ints, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    if len(dims) > 1:
        flat = as_lines(input.detach(), dims)
        pair = _moments_along(what, flat._spec, flat.ndim - 1)(flat, float(correction))
    else:
        pair = _moments_along(what, input._spec, dims[0] if dims else 0)(input, float(correction))
    shape = _layout.reduced_shape(tuple(input.shape), dims, keepdim)
    for t in pair:
        t._spec = t._spec.like(shape)
    return pair


def _var_back(g: Tensor, input: Tensor, dims: Ints, correction: float) -> Tensor:
    """The gradient of a variance, whose dimensions are back."""
    away = e.sub(input, _mean(input, dims=dims, keepdim=True) if dims else input)
    free = _count(input._spec, dims) - correction
    if free > 0:
        return e.mul(e.mul(g, 2.0 / free), away)
    # PyTorch's: of no degree of freedom nothing is known where all is equal, and elsewhere all is infinite
    nothing, endless = (full(spec(g._spec.dtype, ()), v) for v in (float("nan"), float("inf")))
    return e.mul(g, e.where(e.eq(away, 0), nothing, endless))


def _std_back(g: Tensor, y: Tensor, input: Tensor, dims: Ints, correction: float) -> Tensor:
    half = e.div(g, e.mul(y, 2))
    zero = full(spec(g._spec.dtype, ()), 0)
    return _var_back(e.where(e.eq(y, 0), zero, half), input, dims, correction)


def _mean_back(g: Tensor, input: Tensor, dims: Ints) -> Tensor:
    return spread(e.div(g, _count(input._spec, dims) or 1), input.shape)


@differentiable(
    "Var",
    input=lambda g, input, dims, correction, keepdim: _var_back(
        _kept(g, input.ndim, dims, keepdim), input, dims, correction
    ),
)
def _var(input: Tensor, *, dims: Ints, correction: float, keepdim: bool) -> Tensor:
    return _moments("var", input, dims, correction, keepdim)[0]


@differentiable(
    "Std",
    input=lambda g, y, input, dims, correction, keepdim: _std_back(
        _kept(g, input.ndim, dims, keepdim), _kept(y, input.ndim, dims, keepdim), input, dims, correction
    ),
)
def _std(input: Tensor, *, dims: Ints, correction: float, keepdim: bool) -> Tensor:
    return _moments("std", input, dims, correction, keepdim)[0]


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return second if first is None else first if second is None else e.add(first, second)


def _var_mean_rule(g: Any, input: Tensor, dims: Ints, correction: float, keepdim: bool) -> Tensor | None:
    by_var, by_mean = (None if t is None else _kept(t, input.ndim, dims, keepdim) for t in g)
    return _both(
        None if by_var is None else _var_back(by_var, input, dims, correction),
        None if by_mean is None else _mean_back(by_mean, input, dims),
    )


def _std_mean_rule(
    g: Any, y0: Tensor, input: Tensor, dims: Ints, correction: float, keepdim: bool
) -> Tensor | None:
    by_std, by_mean = (None if t is None else _kept(t, input.ndim, dims, keepdim) for t in g)
    y = _kept(y0, input.ndim, dims, keepdim)
    return _both(
        None if by_std is None else _std_back(by_std, y, input, dims, correction),
        None if by_mean is None else _mean_back(by_mean, input, dims),
    )


@differentiable("VarMean", input=_var_mean_rule)
def _var_mean(input: Tensor, *, dims: Ints, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    return _moments("var", input, dims, correction, keepdim)


@differentiable("StdMean", input=_std_mean_rule)
def _std_mean(input: Tensor, *, dims: Ints, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    return _moments("std", input, dims, correction, keepdim)


def _spread_of(
    name: str, function: Any, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> Any:
    """`unbiased` is the older form of `correction`, and of one bool alone it is the one that is meant."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if not input._spec.dtype.is_floating_point:
        raise RuntimeError(
            "std and var only support floating point and complex dtypes"
            if not name.endswith("_mean")
            else f"{name} only support floating point and complex dtypes"
        )
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    dims = _dims(dim, input.ndim)
    each = _count(input._spec, dims) if input.numel() else 0  # what PyTorch counts where there is no result
    if each <= correction:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input "
            "numel divided by output numel).",
            UserWarning,
            stacklevel=3,
        )
    return function(input, dims=dims, correction=correction, keepdim=keepdim)


@method
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    got: Tensor = _spread_of("var", _var, input, dim, unbiased, keepdim, correction)
    return got if out is None else into("var", out, got, (input,))


@method
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    got: Tensor = _spread_of("std", _std, input, dim, unbiased, keepdim, correction)
    return got if out is None else into("std", out, got, (input,))


def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    pair: tuple[Tensor, Tensor] = _spread_of("var_mean", _var_mean, input, dim, unbiased, keepdim, correction)
    return pair


def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    pair: tuple[Tensor, Tensor] = _spread_of("std_mean", _std_mean, input, dim, unbiased, keepdim, correction)
    return pair


# ---------------------------------------------------------------- sums without NaN, and counts

_x = variable("x")
NANSUM = Reduction("nansum", "sum", prologue=p.where(p.ne(_x, _x), 0.0, _x))
COUNT = Reduction("count", "sum", prologue=p.where(p.ne(_x, 0), 1, 0))


@differentiable(
    "Nansum",
    input=lambda g, input, dims, keepdim: e.mul(
        _kept(g, input.ndim, dims, keepdim), e.logical_not(e.isnan(input))
    ),
)
def _nansum(input: Tensor, *, dims: Ints, keepdim: bool) -> Tensor:
    return run(NANSUM, input, dims, keepdim, input._spec.dtype, "f8")


@method
def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    own = input._spec.dtype
    if not own.is_floating_point:
        return sum(input, dim, keepdim, dtype=dtype, out=out)
    d = out._spec.dtype if out is not None else own if dtype is None else _dtypes.to_dtype(dtype)
    if not d.is_floating_point and out is not None:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{d.scalar_name}'")
    if not d.is_floating_point:
        return sum(to_dtype(input, d), dim, keepdim)
    got: Tensor = _nansum(to_dtype(input, d), dims=_dims(dim, input.ndim), keepdim=keepdim)
    return got if out is None else into("nansum", out, got, (input,))


@method
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    d = input._spec.dtype
    if not d.is_floating_point:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {d.scalar_name}"
        )
    if out is not None and not out._spec.dtype.is_floating_point:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{out._spec.dtype.scalar_name}'")
    count = sum(e.logical_not(e.isnan(input.detach())), dim, keepdim)
    got: Tensor = e.div(nansum(input, dim, keepdim, dtype=dtype), count)
    return got if out is None else into("nanmean", out, got, (input,))


@undifferentiable(lambda x, dims: _count_nonzero(x, dims=_past(dims)))
def _count_nonzero(input: Tensor, *, dims: Ints) -> Tensor:
    return run(COUNT, e.ne(input.detach(), 0), dims, False, _dtypes.int64, "i8")


@method
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    got: Tensor = _count_nonzero(input, dims=_dims(dim, input.ndim))
    return got


# ---------------------------------------------------------------- the logarithm of a sum of exponentials


@lru_cache(maxsize=4096)
def _logsumexp_along(sp: Spec, dim: int) -> Any:
    """The dimension stays with size one."""
    out = sp.like(_layout.reduced_shape(tuple(sp.shape), (dim,) if sp.ndim else (), True))
    how = walk(tuple(sp.shape), dim, (still(out, dim), sp.strides), wide=lines.WIDE, few=1)
    unit = bool(sp.ndim) and sp.strides[dim] == 1
    code = sp.dtype.code
    form = "lines" if how.together else "unit" if unit else "strided"
    address = build.kernel(f"logsumexp_{code}_{form}", *lines.logsumexp(code, how.together, unit)).address
    items = how.items if out.numel else 0
    launch = _backend.of(sp.device).launch(3, "", max(4 * sp.numel, 1) if items > 1 else items)

    def run(t: Tensor) -> Tensor:
        got = empty(out)
        launch(address, items, how.meta, got._buf, t._buf)
        return got

    return run


def _logsumexp_rule(g: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    weights = e.exp(e.sub(input, _kept(y, input.ndim, dims, keepdim)))
    return e.mul(_kept(g, input.ndim, dims, keepdim), weights)


@differentiable(
    "Logsumexp",
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_logsumexp_rule)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _logsumexp(x, dims=_past(dims), keepdim=keepdim),
    input=_logsumexp_rule,
)
def _logsumexp(input: Tensor, *, dims: Ints, keepdim: bool) -> Tensor:
    if input._spec.dtype is _dtypes.float16:  # computed in float32, and rounded once
        return to_dtype(
            _logsumexp(to_dtype(input, _dtypes.float32), dims=dims, keepdim=keepdim), _dtypes.float16
        )
    if len(dims) > 1:
        flat = as_lines(input, dims)
        got = _logsumexp_along(flat._spec, flat.ndim - 1)(flat)
    else:
        got = _logsumexp_along(input._spec, dims[0] if dims else 0)(input)
    return wrap(got._buf, got._spec.like(_layout.reduced_shape(tuple(input.shape), dims, keepdim)))


@method
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    if not input._spec.dtype.is_floating_point:
        input = to_dtype(input, _dtypes.get_default_dtype())
    if out is not None and not out.dtype.is_floating_point:
        raise RuntimeError(
            f"logsumexp(): Expected floating point type for result tensor, but got: {out.dtype.scalar_name}"
        )
    got = _logsumexp(input, dims=_dims(dim, input.ndim), keepdim=keepdim)
    return got if out is None else into("logsumexp", out, got, (input,))


# ---------------------------------------------------------------- both extremes


def _aminmax_rule(g: Any, input: Tensor, y0: Tensor, y1: Tensor, dims: Ints, keepdim: bool) -> Tensor | None:
    parts = [None if t is None else _shared(t, input, y, dims, keepdim) for t, y in zip(g, (y0, y1))]
    return _both(*parts)


@differentiable("Aminmax", input=_aminmax_rule)
def _aminmax(input: Tensor, *, dims: Ints, keepdim: bool) -> tuple[Tensor, Tensor]:
    d = input._spec.dtype
    return (
        run(AMIN, input, dims, keepdim, d, d.kind),
        run(AMAX, input, dims, keepdim, d, d.kind),
    )


@method
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Any:
    dims = _dims(dim, input.ndim)
    if not input.numel():
        if dim is None:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
        if tuple.__getitem__(input.shape, dims[0]) == 0:
            raise IndexError(f"aminmax: Expected reduction dim {dims[0]} to have non-zero size.")
    pair = _aminmax(input, dims=dims, keepdim=keepdim)
    if out is None:
        return named("aminmax", pair)
    return named("aminmax", [into("aminmax", o, x, (input,), _EXPECTED) for o, x in zip(out, pair)], True)


# ---------------------------------------------------------------- differences


@method
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Each element less the one before, n times; of truth values, whether they differ."""
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = _layout.wrap_dim(dim, input.ndim)
    for end in (prepend, append):
        if end is not None:
            _check_end(input, end, d)
    t = input
    if prepend is not None or append is not None:
        t = cat([x for x in (prepend, t, append) if x is not None], d)
    elif n == 0:
        t = narrow(t, d, 0, tuple.__getitem__(t.shape, d))
    minus = e.logical_xor if t._spec.dtype is _dtypes.bool_ else e.sub
    for _ in range(min(n, tuple.__getitem__(t.shape, d))):
        length = tuple.__getitem__(t.shape, d) - 1
        t = minus(narrow(t, d, 1, length), narrow(t, d, 0, length))
    return t if out is None else into("diff", out, t, (input,))


def _check_end(input: Tensor, end: Tensor, dim: int) -> None:
    if end.ndim != input.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for k, (have, other) in enumerate(zip(tuple(input.shape), tuple(end.shape))):
        if k != dim and have != other:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({k}) = {have}, but got tensor.size({k}) = {other}"
            )


__all__ = [
    "aminmax",
    "count_nonzero",
    "diff",
    "logsumexp",
    "nanmean",
    "nansum",
    "std",
    "std_mean",
    "var",
    "var_mean",
]
