"""Integrals and derivatives of sampled functions, and how samples vary together: made of sums, differences and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.dispatch.stanza import method, stanza
from nbgrad.memory import dtypes, layout
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.linear.products import mm
from nbgrad.ops.order.scan import cumsum
from nbgrad.ops.pointwise.parts import complex as joined
from nbgrad.ops.pointwise.parts import conj
from nbgrad.ops.reduce.sums import sum as _sum
from nbgrad.ops.views.copy import full
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.order import t
from nbgrad.ops.views.parts import imag, real
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze
from nbgrad.ops.views.slices import diagonal, narrow, select

# A number that PyTorch hands on as a number shows as another node than one that is made a tensor.
_times = stanza(
    lambda input, other: input * other, name="mul", node="MulBackward1", method=False, shared=False
)
_over = stanza(
    lambda input, other: input / other,
    name="div",
    node="DivBackward1",
    promote="float",
    method=False,
    shared=False,
)

# ---------------------------------------------------------------- the trapezoidal rule


def _ends(y: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All but the last and all but the first."""
    n = max(y.shape[dim] - 1, 0)
    return narrow(y, dim, 0, n), narrow(y, dim, y.shape[dim] - n, n)


def _widths(name: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    if dtypes.bool_ in (x.dtype, y.dtype):
        raise RuntimeError(f"{name}: received a bool input for `x` or `y`, but bool is not supported")
    n = y.shape[dim]
    if not x.ndim:
        return full(x._spec.plain.like((0,)), 0)
    if x.ndim == 1:
        if x.numel() != n:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        along = [1] * y.ndim
        along[dim] = n
        x = reshape(x, along)
    elif x.ndim and x.shape[dim - y.ndim] != n:
        raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
    before, after = _ends(x, dim - y.ndim + x.ndim)
    return e.sub(after, before)


def _sampled(name: str, y: Tensor, dim: int) -> int:
    d = layout.own_dim(dim, y.ndim)
    if y.dtype is dtypes.bool_:
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    return d


@replayed
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The area under `y` along `dim` by the trapezoidal rule: the mean of two neighbours times the distance between them, summed. Points
    are `dx` apart, 1 unless given, or stand at `x`.

    >>> torch.trapezoid(torch.tensor([1.0, 3.0, 5.0]))
    tensor(6.)
    >>> torch.trapezoid(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0.0, 1.0, 4.0]))
    tensor(14.)
    """
    if x is not None and y.ndim and dtypes.bool_ not in (x.dtype, y.dtype) and y.shape[dim]:
        d = _sampled("trapezoid", y, dim)
        before, after = _ends(y, d)
        return _over(_sum(e.mul(e.add(before, after), _widths("trapezoid", y, x, d)), d), 2.0)
    if x is not None:
        _widths("trapezoid", y, x, layout.wrap_dim(dim, y.ndim))
    d = _sampled("trapezoid", y, dim)
    if not y.shape[d]:
        shape = tuple(n for k, n in enumerate(y.shape) if k != d)
        return full(y._spec.plain.like(shape), 0)
    ends = e.mul(e.add(select(y, d, 0), select(y, d, -1)), 0.5)
    return _times(e.sub(_sum(y, d), ends), 1.0 if dx is None else dx)


trapz = trapezoid


@replayed
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The running area under `y` along `dim`, as `trapezoid` computes it: n points make `n - 1` areas.

    >>> torch.cumulative_trapezoid(torch.tensor([1.0, 3.0, 5.0]))
    tensor([2., 6.])
    """
    name = "cumulative_trapezoid"
    d = _sampled(name, y, dim)
    before, after = _ends(y, d)
    if x is not None:
        return _over(cumsum(e.mul(e.add(before, after), _widths(name, y, x, d)), d), 2.0)
    return cumsum(e.mul(e.add(before, after), (1.0 if dx is None else dx) / 2.0), d)


# ---------------------------------------------------------------- derivatives by differences


def _differences(f: Tensor, d: int, spacing: Any, order: int) -> Tensor:
    n = f.shape[d]

    def at(k: int, length: int = 1) -> Tensor:
        return narrow(f, d, k % n, length)

    inner = e.sub(at(2, n - 2), at(0, n - 2))
    if isinstance(spacing, Tensor):
        return _uneven(f, d, spacing, order)
    if order == 1:
        first, last = e.sub(at(1), at(0)), e.sub(at(-1), at(-2))
        return cat([e.div(first, spacing), e.div(e.div(inner, 2.0), spacing), e.div(last, spacing)], d)
    first = e.sub(e.sub(e.mul(at(1), 2.0), e.mul(at(0), 1.5)), e.mul(at(2), 0.5))
    last = e.add(e.sub(e.mul(at(-1), 1.5), e.mul(at(-2), 2.0)), e.mul(at(-3), 0.5))
    return cat([e.div(first, spacing), e.div(e.div(inner, 2.0), spacing), e.div(last, spacing)], d)


def _uneven(f: Tensor, d: int, places: Tensor, order: int) -> Tensor:
    n = f.shape[d]
    along = [1] * f.ndim
    along[d] = n - 1
    before, after = _ends(places, 0)
    steps = reshape(e.sub(after, before), along)

    def at(t: Tensor, k: int, length: int = 1) -> Tensor:
        return narrow(t, d, k % t.shape[d], length)

    left, right = at(steps, 0, n - 2), at(steps, 1, n - 2)
    both = e.add(left, right)
    a = e.div(e.neg(right), e.mul(left, both))
    b = e.div(e.sub(right, left), e.mul(left, right))
    c = e.div(left, e.mul(right, both))
    inner = e.add(e.add(e.mul(a, at(f, 0, n - 2)), e.mul(b, at(f, 1, n - 2))), e.mul(c, at(f, 2, n - 2)))
    if order == 1:
        first = e.div(e.sub(at(f, 1), at(f, 0)), at(steps, 0))
        last = e.div(e.sub(at(f, -1), at(f, -2)), at(steps, -1))
        return cat([first, inner, last], d)

    def end(near: int, middle: int, far: int, one: Tensor, two: Tensor, sign: float) -> Tensor:
        whole = e.add(one, two)
        a = e.div(e.neg(e.add(e.mul(one, 2.0), two)), e.mul(one, whole))
        b = e.div(whole, e.mul(one, two))
        c = e.div(e.neg(one), e.mul(two, whole))
        total = e.add(e.add(e.mul(a, at(f, near)), e.mul(b, at(f, middle))), e.mul(c, at(f, far)))
        return e.mul(total, sign)

    first = end(0, 1, 2, at(steps, 0), at(steps, 1), 1.0)
    last = end(-1, -2, -3, at(steps, -1), at(steps, -2), -1.0)
    return cat([first, inner, last], d)


_slope = stanza(
    lambda after, before, step: (after - before) / step, name="gradient_end", method=False, shared=False
)
_slope_of_two = stanza(
    lambda after, before, step: (after - before) / 2.0 / step,
    name="gradient_inner",
    method=False,
    shared=False,
)


def _quick_gradient(input: Spec, *, spacing: Any, dim: Any, edge_order: Any) -> Quick | None:
    """By equal steps, and at the ends by neighbours alone."""
    if type(spacing) not in (int, float) or edge_order != 1 or not input.dtype.is_floating_point:
        return None
    if input.dtype.narrow or not (dim is None or type(dim) is int):
        return None
    dims = range(input.ndim) if dim is None else [layout.wrap_dim(dim, input.ndim)]
    step = float(spacing)

    def along(f: Tensor, d: int) -> Tensor:
        n = f.shape[d]
        at = [narrow(f, d, k, 1) for k in (0, 1, n - 2, n - 1)]
        inner = _slope_of_two(narrow(f, d, 2, n - 2), narrow(f, d, 0, n - 2), step)
        return cat([_slope(at[1], at[0], step), inner, _slope(at[3], at[2], step)], d)

    return lambda f: tuple([along(f, d) for d in dims])


@quickly(_quick_gradient, devices=True)
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The slopes of a sampled function along each dimension, or those of `dim`, a tensor for each: inside from both neighbours, at the ends
    from one side, by `edge_order` differences. `spacing` is the distance of points, one or one for each dimension, or lists of the places
    where they stand.

    >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0]), spacing=0.5, edge_order=2)
    (tensor([ 4.,  8., 12.]),)
    """
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [layout.wrap_dim(d, input.ndim) for d in dims]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    several = isinstance(spacing, (list, tuple))
    if isinstance(spacing, Tensor) and not spacing.ndim:
        spacing = spacing.item()
    for one in spacing if several else ():
        if isinstance(one, Tensor) and one.ndim != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an element with "
                f"{one.ndim} dimensions!"
            )
    if several and len(spacing) != len(dims):
        given = (
            f"'self.dim() = {input.ndim}', since dim argument was not given"
            if dim is None
            else f"dim argument ({len(dims)})"
        )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
            f"{given}, but got a list of length {len(spacing)}"
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if input.dtype is dtypes.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    for d in dims:
        if input.shape[layout.own_dim(d, input.ndim)] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    steps: Sequence[Any] = spacing if several else [spacing] * len(dims)
    return tuple(_differences(input, d, step, edge_order) for d, step in zip(dims, steps))


# ---------------------------------------------------------------- covariance


def _check_weights(name: str, w: Tensor, n: int) -> None:
    if w.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.ndim} dimensions"
        )
    whole = not w.dtype.is_floating_point
    if whole is not (name == "fweights"):
        kind = "integral" if name == "fweights" else "floating point"
        raise RuntimeError(
            f"cov(): expected {name} to have {kind} dtype but got {name} with {w.dtype.scalar_name} dtype"
        )
    if w.numel() != n:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got {w.numel()} != {n}"
        )
    if n and bool((w.detach() < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@method
@replayed
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of the rows, whose columns are observations: `sum((x - mean) * (y - mean)) / (n - correction)` for each two rows.
    `fweights` (whole numbers) say how often an observation counts, `aweights` how much.

    >>> torch.cov(torch.tensor([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]))
    tensor([[ 1., -2.],
            [-2.,  4.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input.ndim == 2 else reshape(input, (1, -1))
    n = x.shape[1]
    weights: Tensor | None = None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is not None:
            _check_weights(name, w, n)
            weights = w if weights is None else e.mul(weights, w)
    total: Any = n if weights is None else _sum(weights)
    mean = e.div(_sum(x if weights is None else e.mul(x, weights), 1), total)
    if aweights is None or correction == 0 or weights is None:
        free = e.sub(total, correction) if isinstance(total, Tensor) else n - correction
    else:
        free = e.sub(total, e.div(e.mul(_sum(e.mul(weights, aweights)), correction), total))
    if (float(free.detach()) if isinstance(free, Tensor) else free) <= 0:
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."
        )
        free = 0
    away = e.sub(x, unsqueeze(mean, 1))
    product = mm(away, conj(t(away if weights is None else e.mul(away, weights))))
    return squeeze(e.div(product, free))


@method
@replayed
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows, whose columns are observations: covariances over both standard deviations, from -1 to 1.

    >>> torch.corrcoef(torch.tensor([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    c = cov(input)
    if not c.ndim:
        return e.div(c, c)
    spread = e.sqrt(diagonal(c))
    if c.is_complex():
        spread = real(spread)
    found = e.div(e.div(c, reshape(spread, (-1, 1))), reshape(spread, (1, -1)))
    if not c.is_complex():
        return e.clamp(found, -1, 1)
    return joined(e.clamp(real(found), -1, 1), e.clamp(imag(found), -1, 1))


__all__ = ["corrcoef", "cov", "cumulative_trapezoid", "gradient", "trapezoid", "trapz"]
