"""Moments, and sums that leave NaN out, and differences.

Variance and mean come of one pass over the elements; the gradient of either is written in ops, so that any order exists.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.refusals import lacks_complex, lacks_kernel
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.prepared import Run, call_of, filled, prepared, settled
from nbgrad.dispatch.quick import quickly, replayed
from nbgrad.dispatch.return_types import maker, results
from nbgrad.dispatch.stanza import method
from nbgrad.expr import prims as p
from nbgrad.expr.node import var as variable
from nbgrad.kernels.cpu import lines, rows
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.reduce.extremes import _amax, _shared, extreme
from nbgrad.ops.reduce.reduction import AMAX, AMIN, Reduction, _dims, _past, asked_dtype, reduction
from nbgrad.ops.reduce.sums import _count, _kept, _mean, _moved_by, _sum, sum
from nbgrad.ops.reduce.walk import as_lines, still, walk
from nbgrad.ops.views.copy import clone, copy_, full, to_dtype, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.parts import complex_spec, real, real_spec
from nbgrad.ops.views.shape import spread
from nbgrad.ops.views.slices import narrow
from nbgrad.tape.modes import state

_RUN = 1 << 15  # elements that a thread takes of one long line

# ---------------------------------------------------------------- moments


def _moments_along(what: str, sp: Spec, dim: int, correction: float, shape: Ints) -> Run:
    """What finds those of each line along `dim`; the results are shown in that shape."""
    n = tuple.__getitem__(sp.shape, dim) if sp.ndim else 1
    if sp.numel == n and n >= 2 * _RUN and (not sp.ndim or sp.strides[dim] == 1):
        return _moments_of_one(what, sp, n, correction, shape)
    d = dtypes.float64 if what == "squares" else sp.dtype
    kept = spec(d, layout.reduced_shape(tuple(sp.shape), (dim,) if sp.ndim else (), True), None, sp.device)
    how = walk(tuple(sp.shape), dim, (still(kept, dim), sp.strides), wide=lines.WIDE, few=1)
    unit = bool(sp.ndim) and sp.strides[dim] == 1
    source, signature = lines.moments(what, sp.dtype.code, d.code, how.together, unit)
    form = "lines" if how.together else "unit" if unit else "strided"
    address = sp.backend.kernel(f"{what}_{sp.dtype.code}_{form}", source, signature).address
    items = how.items if kept.numel else 0
    launch = sp.backend.launch(4, "d", max(sp.numel, 1) if items > 1 else items, sp.numel < FEW)
    out = kept.like(shape)
    return filled(launch, address, items, sp.backend.constants(how.meta), (out, out), (correction,))


def _moments_of_one(what: str, sp: Spec, n: int, correction: float, shape: Ints) -> Run:
    """One long line, in runs that threads share; the runs, and so the result, do not depend on how many threads there are."""
    whole, left = n // _RUN, n % _RUN
    runs = whole + (1 if left else 0)
    body = _moments_along("squares", spec(sp.dtype, (whole, _RUN), None, sp.device), 1, 0.0, (whole,))
    rest = None
    if left:
        rest = _moments_along("squares", spec(sp.dtype, (1, left), None, sp.device), 1, 0.0, (1,))
    offset = whole * _RUN * sp.itemsize
    out = spec(sp.dtype, shape, None, sp.device)
    source, signature = lines.join_moments(what, sp.dtype.code)
    address = sp.backend.kernel(f"join_{what}_{sp.dtype.code}", source, signature).address
    backend = sp.backend
    launch = backend.launch(4, "qqqd", 1)

    def moments(t: Tensor) -> tuple[Tensor, Tensor]:
        parts = [part._buf for part in body(t)]
        if rest is not None:
            last = rest(wrap(backend.view(t._buf, offset), t._spec))
            parts = [_joined(backend, a, b._buf) for a, b in zip(parts, last)]
        about, middle = empty(out), empty(out)
        launch(address, 1, about._buf, middle._buf, *parts, runs, _RUN, left or _RUN, correction)
        return about, middle

    return moments


def _joined(backend: Any, first: Any, last: Any) -> Any:
    """One buffer after the other."""
    made = backend.empty(len(first) + len(last))
    backend.copy(made, first, len(first))
    backend.copy(backend.view(made, len(first)), last, len(last))
    return made


def _moments(what: str, sp: Spec, dims: Ints, correction: float, keepdim: bool) -> Run:
    """Variance or deviation, and mean, over sorted dims."""
    shape = layout.reduced_shape(tuple(sp.shape), dims, keepdim)
    if sp.dtype.is_complex:
        return _complex_moments(what, sp, dims, correction, keepdim)
    if len(dims) <= 1:
        return _moments_along(what, sp, dims[0] if dims else 0, float(correction), shape)
    lie, lines_of = as_lines(sp, dims)
    run = _moments_along(what, lie, lie.ndim - 1, float(correction), shape)
    return lambda t: run(lines_of(t))


def _complex_moments(what: str, sp: Spec, dims: Ints, correction: float, keepdim: bool) -> Run:
    """The variance is that of the real parts and that of the imaginary ones together."""
    if not sp.ndim:
        sp, dims, keepdim = sp.like((1,)), (0,), False
    shown, _ = real_spec(sp)
    run = _moments("var", shown, dims, correction, keepdim)

    def moments(t: Tensor) -> tuple[Tensor, Tensor]:
        about, middle = run(wrap(t._buf, shown))
        about = _sum(about, dims=(about.ndim - 1,), keepdim=False)
        return e.sqrt(about) if what == "std" else about, wrap(middle._buf, complex_spec(middle._spec)[0])

    return moments


def _var_back(g: Tensor, input: Tensor, dims: Ints, correction: float) -> Tensor:
    """The gradient of a variance, whose dimensions are back."""
    away = e.sub(input, _mean(input, dims=dims, keepdim=True) if dims else input)
    free = _count(input._spec, dims) - correction
    if free > 0:
        return e.mul(e.mul(g, 2.0 / free), away)
    # PyTorch's: of no degree of freedom nothing is known where all is equal, and elsewhere all is infinite
    nothing, endless = (full(g._spec.plain.like(()), v) for v in (float("nan"), float("inf")))
    return e.mul(g, e.where(e.eq(away, 0), nothing, endless))


def _std_back(g: Tensor, y: Tensor, input: Tensor, dims: Ints, correction: float) -> Tensor:
    half = e.div(g, e.mul(y, 2))
    zero = full(g._spec.plain.like(()), 0)
    return _var_back(e.where(e.eq(y, 0), zero, half), input, dims, correction)


def _std_tangent(
    t: Tensor, y0: Tensor, input: Tensor, dims: Ints, correction: float, keepdim: bool
) -> Tensor:
    """What a deviation moves by: nothing where all is equal."""
    away = e.sub(input, _mean(input, dims=dims, keepdim=True) if dims else input)
    along = real(e.mul(t, away.conj())) if t._spec.dtype.is_complex else e.mul(t, away)
    moved = _sum(along, dims=dims, keepdim=keepdim) if dims else along
    free = _count(input._spec, dims) - correction
    return e.div(moved, e.where(e.eq(y0, 0), full(y0._spec.plain.like(()), float("inf")), e.mul(y0, free)))


def _mean_back(g: Tensor, input: Tensor, dims: Ints) -> Tensor:
    return spread(e.div(g, _count(input._spec, dims) or 1), input.shape)


# How far complex numbers are from their mean is real: none of these is holomorphic.
@prepared(
    "Var",
    holomorphic=False,
    input=lambda g, input, dims, correction, keepdim: _var_back(
        _kept(g, input.ndim, dims, keepdim), input, dims, correction
    ),
)
def _var(input: Spec, *, dims: Ints, correction: float, keepdim: bool) -> Run:
    moments = _moments("var", input, dims, correction, keepdim)
    return lambda t: moments(t)[0]


@prepared(
    "Std",
    holomorphic=False,
    tangent=_std_tangent,
    input=lambda g, y, input, dims, correction, keepdim: _std_back(
        _kept(g, input.ndim, dims, keepdim), _kept(y, input.ndim, dims, keepdim), input, dims, correction
    ),
)
def _std(input: Spec, *, dims: Ints, correction: float, keepdim: bool) -> Run:
    moments = _moments("std", input, dims, correction, keepdim)
    return lambda t: moments(t)[0]


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


@prepared("VarMean", holomorphic=False, input=_var_mean_rule)
def _var_mean(input: Spec, *, dims: Ints, correction: float, keepdim: bool) -> Run:
    return _moments("var", input, dims, correction, keepdim)


@prepared(
    "StdMean",
    holomorphic=False,
    tangent=lambda t, y0, input, dims, correction, keepdim: (
        _std_tangent(t, y0, input, dims, correction, keepdim),
        _mean(t, dims=dims, keepdim=keepdim) if dims else t,
    ),
    input=_std_mean_rule,
)
def _std_mean(input: Spec, *, dims: Ints, correction: float, keepdim: bool) -> Run:
    return _moments("std", input, dims, correction, keepdim)


def _spread_of(
    name: str, op: Any, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> Any:
    """`unbiased` is the older form of `correction`, and of one bool alone it is the one that is meant."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if not input._spec.dtype.inexact:
        raise RuntimeError(
            "std and var only support floating point and complex dtypes"
            if not name.endswith("_mean")
            else f"{name} only support floating point and complex dtypes"
        )
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    dims = _dims(dim, input.ndim)
    each = _count(input._spec, dims) if input.numel() else 0  # what PyTorch counts where there is no result
    if each > correction:
        return call_of(op, input, dims=dims, correction=correction, keepdim=keepdim)
    warn(
        f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input "
        "numel divided by output numel)."
    )
    return op(input, dims=dims, correction=correction, keepdim=keepdim)  # each such call warns


@method
@settled
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Any:
    """The variance: the squared distances from the mean, summed and divided by `n - correction`. `correction` is 1 unless given
    (`unbiased=False` is an older way to say 0). Of all elements, or along `dim`, which `keepdim` keeps with size 1. The gradient is
    `g * 2 * (input - mean) / (n - correction)`.

    >>> torch.var(torch.tensor([[1.0, 3.0], [2.0, 8.0]]), dim=1)
    tensor([ 2., 18.])
    >>> torch.var(torch.tensor([1.0, 3.0]), correction=0)
    tensor(1.)
    """
    if out is not None:
        return into("var", out, var(input, dim, unbiased, keepdim, correction=correction), (input,))
    return _spread_of("var", _var, input, dim, unbiased, keepdim, correction)


@method
@settled
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Any:
    """The standard deviation: the root of `var`, with the same arguments. The gradient is `g * (input - mean) / ((n - correction) * y)`, y
    being the result, and 0 where that is 0.

    >>> torch.std(torch.tensor([[1.0, 3.0], [2.0, 8.0]]), dim=1)
    tensor([1.4142, 4.2426])
    >>> torch.func.grad(torch.std)(torch.tensor([1.0, 3.0]))
    tensor([-0.7071,  0.7071])
    """
    if out is not None:
        return into("std", out, std(input, dim, unbiased, keepdim, correction=correction), (input,))
    return _spread_of("std", _std, input, dim, unbiased, keepdim, correction)


@settled
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """`var` and `mean` with the same arguments, computed together.

    >>> torch.var_mean(torch.tensor([[1.0, 3.0], [2.0, 8.0]]), dim=1)
    (tensor([ 2., 18.]), tensor([2., 5.]))
    """
    return _spread_of("var_mean", _var_mean, input, dim, unbiased, keepdim, correction)


@settled
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """`std` and `mean` with the same arguments, computed together.

    >>> torch.std_mean(torch.tensor([[1.0, 3.0], [2.0, 8.0]]), dim=1)
    (tensor([1.4142, 4.2426]), tensor([2., 5.]))
    """
    return _spread_of("std_mean", _std_mean, input, dim, unbiased, keepdim, correction)


# ---------------------------------------------------------------- sums without NaN, and counts

_x = variable("x")
NANSUM = Reduction("nansum", "sum", prologue=p.where(p.ne(_x, _x), 0.0, _x))
COUNT = Reduction("count", "sum", prologue=p.where(p.ne(_x, 0), 1, 0))


@prepared(
    "Nansum",
    input=lambda g, input, dims, keepdim: e.mul(
        _kept(g, input.ndim, dims, keepdim), e.logical_not(e.isnan(input))
    ),
)
def _nansum(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return reduction(NANSUM, input, dims, keepdim, input.dtype, "f8")


@method
@settled
def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Any:
    """`sum` of the elements that are not NaN: a NaN counts as 0, and its gradient is 0.

    >>> torch.nansum(torch.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    >>> torch.func.grad(torch.nansum)(torch.tensor([1.0, float("nan"), 2.0]))
    tensor([1., 0., 1.])
    """
    own = input._spec.dtype
    if own.is_complex:
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if not own.is_floating_point:
        lacks_complex("nansum_cpu", own if dtype is None else dtypes.to_dtype(dtype))
        return sum(input, dim, keepdim, dtype=dtype, out=out)
    d = out._spec.dtype if out is not None else own if dtype is None else dtypes.to_dtype(dtype)
    if dtype is not None and (asked := dtypes.to_dtype(dtype)) is not d:
        raise RuntimeError(
            f"nansum: provided dtype must match dtype of result. Got {d.scalar_name} and {asked.scalar_name}."
        )
    lacks_complex("nansum_cpu", d)
    if not d.is_floating_point and out is not None:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{d.scalar_name}'")
    if not d.is_floating_point:
        return sum(to_dtype(input, asked_dtype(input, d, None)), dim, keepdim)
    if d is own and out is None:
        return call_of(_nansum, input, dims=_dims(dim, input.ndim), keepdim=keepdim)
    got: Tensor = _nansum(to_dtype(input, d), dims=_dims(dim, input.ndim), keepdim=keepdim)
    return got if out is None else into("nansum", out, got, (input,))


@method
@replayed
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """`mean` of the elements that are not NaN: their sum over their number. The gradient of a NaN is 0; of NaN alone the mean is NaN.

    >>> torch.nanmean(torch.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    d = input._spec.dtype
    if not d.inexact:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {d.scalar_name}"
        )
    if out is not None and not out._spec.dtype.is_floating_point:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{out._spec.dtype.scalar_name}'")
    count = sum(e.logical_not(e.isnan(input.detach())), dim, keepdim)
    got: Tensor = e.div(nansum(input, dim, keepdim, dtype=dtype), count)
    return got if out is None else into("nanmean", out, got, (input,))


@prepared(batch=lambda x, dims: _count_nonzero(x, dims=_past(dims)))
def _count_nonzero(input: Spec, *, dims: Ints) -> Run:
    laid = layout.kept_strides(input.shape, input.strides)
    counted = reduction(COUNT, input.like(strides=laid, dtype=dtypes.bool_), dims, False, dtypes.int64, "i8")
    return lambda t: counted(e.ne(t.detach(), 0))


@method
@settled
def count_nonzero(input: Tensor, dim: Any = None) -> Any:
    """How many elements are not 0: of all, or along `dim` (one or several). NaN is not 0. No gradient passes.

    >>> torch.count_nonzero(torch.tensor([[1, 0], [2, 3]]), dim=0)
    tensor([2, 1])
    """
    return call_of(_count_nonzero, input, dims=_dims(dim, input.ndim))


# ---------------------------------------------------------------- the logarithm of a sum of exponentials


def _logsumexp_along(sp: Spec, dim: int, shape: Ints, d: dtypes.dtype) -> Run:
    """Of each line along `dim`, in dtype `d`; the result is shown in that shape."""
    n = tuple.__getitem__(sp.shape, dim) if sp.ndim else 1
    if sp.numel == n and n >= 2 * _RUN and sp.strides[dim] == 1:
        return _logsumexp_of_one(sp, n, shape)
    kept = spec(d, layout.reduced_shape(tuple(sp.shape), (dim,) if sp.ndim else (), True), None, sp.device)
    if sp.contiguous and dim == sp.ndim - 1 and d is sp.dtype and rows.are_short(kept.numel, n):
        source, signature = rows.short(lines.LOGSUMEXP, d.code)
        address = sp.backend.kernel(f"logsumexp_{d.code}_short", source, signature, contract=True).address
        launch = sp.backend.launch(3, "", 4 * sp.numel, sp.numel < FEW)
        meta = sp.backend.constants([n, kept.numel])
        return filled(launch, address, -(-kept.numel // rows.ABREAST), meta, (kept.like(shape),))
    how = walk(tuple(sp.shape), dim, (still(kept, dim), sp.strides), wide=lines.WIDE, few=1)
    unit = bool(sp.ndim) and sp.strides[dim] == 1
    source, signature = lines.logsumexp(sp.dtype.code, d.code, how.together, unit)
    form = "lines" if how.together else "unit" if unit else "strided"
    address = sp.backend.kernel(f"logsumexp_{sp.dtype.code}_{form}", source, signature).address
    items = how.items if kept.numel else 0
    launch = sp.backend.launch(3, "", max(4 * sp.numel, 1) if items > 1 else items, sp.numel < FEW)
    return filled(launch, address, items, sp.backend.constants(how.meta), (kept.like(shape),))


def _logsumexp_of_one(sp: Spec, n: int, shape: Ints) -> Run:
    """One long line, as that of its runs, which threads share; the runs do not depend on how many threads there are."""
    whole, left = n // _RUN, n % _RUN
    real = dtypes.float64
    body = _logsumexp_along(sp.like((whole, _RUN)), 1, (whole,), real)
    rest = _logsumexp_along(sp.like((1, left)), 1, (1,), real) if left else None
    ending = _logsumexp_along(spec(real, (whole + (left > 0),), None, sp.device), 0, shape, sp.dtype)
    offset = whole * _RUN * sp.itemsize

    def run(t: Tensor) -> Any:
        parts = body(t)
        if rest is not None:
            last = rest(wrap(sp.backend.view(t._buf, offset), t._spec))
            parts = wrap(_joined(sp.backend, parts._buf, last._buf), parts._spec)
        return ending(parts)

    return run


def _complex_logsumexp(t: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    """The largest real part is taken off before, but an infinite one."""
    if not t.numel():
        return e.log(_sum(t, dims=dims, keepdim=keepdim))
    parts = clone(real(t))
    top = _amax(parts, dims=dims, keepdim=True) if dims else parts
    top = e.where(e.isinf(top), zeros(top._spec), top)
    total = e.exp(e.sub(t, top))
    total = _sum(total, dims=dims, keepdim=True) if dims else total
    found: Tensor = e.add(e.log(total), top)
    return wrap(found._buf, found._spec.like(layout.reduced_shape(tuple(t.shape), dims, keepdim)))


def _logsumexp_rule(g: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    weights = e.exp(e.sub(input, _kept(y, input.ndim, dims, keepdim)))
    return e.mul(_kept(g, input.ndim, dims, keepdim), weights)


@prepared(
    "Logsumexp",
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_logsumexp_rule)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _logsumexp(x, dims=_past(dims), keepdim=keepdim),
    input=_logsumexp_rule,
)
def _logsumexp(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    if input.dtype.narrow:  # computed in float32, and rounded once
        return lambda t: to_dtype(
            _logsumexp(to_dtype(t.detach(), dtypes.float32), dims=dims, keepdim=keepdim), input.dtype
        )
    if input.dtype.is_complex:
        return lambda t: _complex_logsumexp(wrap(t._buf, input), dims, keepdim)
    shape = layout.reduced_shape(tuple(input.shape), dims, keepdim)
    if not dims and input.ndim:  # of a vmap's examples without dimensions, each its own
        return lambda t: clone(wrap(t._buf, input))
    if len(dims) <= 1:
        return _logsumexp_along(input, dims[0] if dims else 0, shape, input.dtype)
    lie, lines_of = as_lines(input, dims)
    run = _logsumexp_along(lie, lie.ndim - 1, shape, input.dtype)
    return lambda t: run(lines_of(t))


@method
@settled
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    """`log(sum(exp(input)))` along `dim` (one or several), computed from `input - max(input)`, so that nothing overflows. `keepdim` keeps
    the dimensions with size 1. The gradient is `g * softmax(input)`.

    >>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), dim=0)
    tensor(1000.6932)
    >>> torch.func.grad(torch.logsumexp)(torch.tensor([0.0, 1.0]), 0)
    tensor([0.2689, 0.7311])
    """
    if not input._spec.dtype.inexact:
        return logsumexp(to_dtype(input, dtypes.get_default_dtype()), dim, keepdim, out=out)
    if out is None:
        return call_of(_logsumexp, input, dims=_dims(dim, input.ndim), keepdim=keepdim)
    if not out.dtype.inexact:
        raise RuntimeError(
            f"logsumexp(): Expected floating point type for result tensor, but got: {out.dtype.scalar_name}"
        )
    return into("logsumexp", out, logsumexp(input, dim, keepdim), (input,))


# ---------------------------------------------------------------- both extremes


def _aminmax_rule(g: Any, input: Tensor, y0: Tensor, y1: Tensor, dims: Ints, keepdim: bool) -> Tensor | None:
    parts = [None if t is None else _shared(t, input, y, dims, keepdim) for t, y in zip(g, (y0, y1))]
    return _both(*parts)


@prepared("Aminmax", result=maker("aminmax"), input=_aminmax_rule)
def _aminmax(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    low, high = extreme(AMIN, input, dims, keepdim), extreme(AMAX, input, dims, keepdim)
    return lambda t: (low(t), high(t))


@method
@settled
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Any:
    """The smallest and the largest element in one pass, as `min` and `max`: of all, or along one `dim`, which `keepdim` keeps with size 1.
    Elements that share an extreme share its gradient.

    >>> torch.aminmax(torch.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    torch.return_types.aminmax(
    min=tensor([1., 2.]),
    max=tensor([5., 3.]))
    """
    dims = _dims(dim, input.ndim)
    lacks_kernel("aminmax_cpu", input._spec.dtype)
    if not input.numel():
        if dim is None:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            )
        if tuple.__getitem__(input.shape, dims[0]) == 0:
            raise IndexError(f"aminmax: Expected reduction dim {dims[0]} to have non-zero size.")
    if out is None:
        return call_of(_aminmax, input, dims=dims, keepdim=keepdim)
    pair = _aminmax(input, dims=dims, keepdim=keepdim)
    return results("aminmax", pair, out, (input,), apart=True)


# ---------------------------------------------------------------- differences


@method
@quickly(devices=True)
@replayed
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Each element less the one before it along `dim`, `n` times over: a line of m becomes one of `m - n`. `prepend` and `append` are first
    joined to its ends. Of truth values it says whether neighbours differ.

    >>> torch.diff(torch.tensor([1, 4, 9, 16]))
    tensor([3, 5, 7])
    >>> torch.diff(torch.tensor([1, 4, 9, 16]), n=2, prepend=torch.tensor([0]))
    tensor([2, 2, 2])
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = layout.wrap_dim(dim, input.ndim)
    for end in (prepend, append):
        if end is not None:
            _check_end(input, end, d)
    t = input
    if prepend is not None or append is not None:
        t = cat([x for x in (prepend, t, append) if x is not None], d)
    if n == 0:
        t = clone(t) if state.levels else copy_(zeros(t._spec.dense()), t)
    minus = e.logical_xor if t._spec.dtype is dtypes.bool_ else e.sub
    ends: tuple[Tensor, ...] = ()
    for _ in range(min(n, tuple.__getitem__(t.shape, d))):
        length = tuple.__getitem__(t.shape, d) - 1
        ends = narrow(t, d, 1, length), narrow(t, d, 0, length)
        t = minus(*ends)
    return t if out is None else into("diff", out, t, (input,), apart=ends)


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
