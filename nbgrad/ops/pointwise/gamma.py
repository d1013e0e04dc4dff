"""The gamma function and its kin, zeta, and the Bessel functions that PyTorch has derivatives of: what they are, stands in `expr`."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.dispatch.quick import replayed
from nbgrad.dispatch.stanza import in_place_functions, method, no_tensor, refuse, stanza
from nbgrad.expr import loops as q
from nbgrad.expr import special as s
from nbgrad.memory import dtypes
from nbgrad.ops.pointwise.arithmetic import mul
from nbgrad.ops.pointwise.functions import _no_half
from nbgrad.ops.pointwise.operators import add
from nbgrad.ops.views.copy import in_place, to_dtype

# ---------------------------------------------------------------- the gamma function


@stanza(promote="float")
def lgamma(input):
    """The logarithm of |gamma|, for which `gamma(n) == (n - 1)!`. The gradient is `g * digamma(input)`.

    >>> torch.lgamma(torch.tensor([1.0, 0.5, 5.0])).exp()
    tensor([ 1.0000,  1.7725, 24.0000])
    """
    return s.lgamma(input)


@stanza(promote="float")
def digamma(input):
    """The derivative of `lgamma`; -inf at 0, NaN at negative whole numbers. The gradient is `g * polygamma(1, input)`.

    >>> torch.digamma(torch.tensor([1.0, 0.5, 0.0]))
    tensor([-0.5772, -1.9635,    -inf])
    """
    return s.digamma(input)


_WRITTEN_OUT = 64  # up to this order as a sum of so many terms and ten, which is compiled; PyTorch's own way is as good beyond


def _derivative_of_digamma(n: int, x: Any) -> Any:
    if n < _WRITTEN_OUT:
        return s.polygamma(x, n) if n else s.digamma(x)
    factorial = math.exp(math.lgamma(n + 1)) if n < 171 else math.inf  # float64 holds no more
    return (factorial if n % 2 else -factorial) * q.zeta(n + 1.0, x)


@cached(64)
def _polygamma(n: int) -> Any:
    """An op for each order: the order is part of the formula."""
    function = stanza(
        lambda input: _derivative_of_digamma(n, input),
        name="polygamma",
        promote="float",
        method=False,
        shared=False,
        vjp=lambda g, input: g * _derivative_of_digamma(n + 1, input),
    )
    function.op.shown = {"n": n}
    return function


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The `n`-th derivative of `digamma`; `n` is an int from 0 upwards. The gradient is `g * polygamma(n + 1, input)`.

    >>> torch.polygamma(1, torch.tensor([1.0, 0.5]))
    tensor([1.6449, 4.9348])
    """
    return _order(n, input)(input, out=out)


def _order(n: int, input: Tensor) -> Any:
    if type(n) is not int:
        raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    lacks_kernel(("digamma", "trigamma", "polygamma")[min(n, 2)], input.dtype)
    return _polygamma(n)


def _adding(name: str, term: Any) -> Any:
    """An op of one term more: all of p in one kernel would be compiled for seconds, and for minutes where there are many."""

    def body(total, input, shift):
        return total + term(input - shift)

    return stanza(body, name=name, method=False, shared=False, settings=("shift",))


_more, _more_slope = _adding("mvlgamma", s.lgamma), _adding("mvlgamma_backward", s.digamma)


def _summed_terms(first: Any, more: Any, input: Tensor, p: int) -> Tensor:
    total: Tensor = first(input)
    for k in range(1, p):
        total = more(total, input, 0.5 * k)
    return total


def _slope(g: Tensor, input: Tensor, p: int) -> Tensor:
    return mul(g, _summed_terms(digamma, _more_slope, input, p))


@differentiable(
    "Mvlgamma",
    tangent=lambda t, input, p: _slope(t, input, p),
    batch=lambda x, p: _mvlgamma(x, p=p),
    input=_slope,
)
def _mvlgamma(input: Tensor, *, p: int) -> Tensor:
    narrow = input.dtype.narrow  # which is rounded once
    total = _summed_terms(lgamma, _more, to_dtype(input, dtypes.float32) if narrow else input, p)
    total = add(total, math.log(math.pi) * p * (p - 1) / 4)
    return to_dtype(total, input.dtype) if narrow else total


def _check_dimensions(input: Tensor, p: int, out: Tensor | None) -> None:
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype is dtypes.bool_:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if p * input.itemsize >= 1 << 63:  # of which PyTorch makes a list first
        raise RuntimeError(f"Storage size calculation overflowed with sizes=[{p}]")
    if out is not None and not out.dtype.is_floating_point:
        result = input.dtype if input.dtype.is_floating_point else dtypes.get_default_dtype()
        words = f"{input.dtype.scalar_name} can't be cast to the desired output type {result.scalar_name}"
        raise RuntimeError(f"mvlgamma: result type {words}")


@method
@replayed
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the gamma function of `p` dimensions: `log(pi) * p * (p - 1) / 4` plus the sum of `lgamma(input - k / 2)` over `k`
    from 0 to `p - 1`. The gradient is `g` times the sum of `digamma(input - k / 2)`.

    >>> torch.mvlgamma(torch.tensor([2.0, 3.5]), p=2)
    tensor([0.4516, 2.4665])
    """
    _check_dimensions(input, p, out)
    lacks_kernel("arange_cpu", input.dtype)
    result = _mvlgamma(input, p=p)
    return result if out is None else into("mvlgamma", out, result, (input,))


in_place(mvlgamma)
_written = Tensor.mvlgamma_


@method
def mvlgamma_(self: Tensor, p: int) -> Tensor:
    _check_dimensions(self, p, self)
    return _written(self, p)


@method
def _t_polygamma(self: Tensor, n: int) -> Tensor:
    """`torch.polygamma(n, self)`: the `n`-th derivative of `digamma`.

    >>> torch.tensor([1.0, 0.5]).polygamma(1)
    tensor([1.6449, 4.9348])
    """
    return polygamma(n, self)


@method
def _t_polygamma_(self: Tensor, n: int) -> Tensor:
    return write(_order(n, self).op, (self,))


# ---------------------------------------------------------------- incomplete gamma functions, Hurwitz's zeta function


def _part(name: str, body: Any, words: str) -> Any:
    """A regularised incomplete gamma function, in its second argument; PyTorch has no gradient of the first."""

    def part(input, other):
        return body(input, other)

    part.__doc__ = words
    return stanza(
        part,
        name=name,
        tensors=("input", "other"),
        kernel=refuse(f"{name}_cpu", ints=True, bools=True),
        lacks={"input": f"{name}: input"},
        unmoved=name,
    )


igamma = _part(
    "igamma",
    q.gammainc,
    """The part of the integral of `t ** (input - 1) * exp(-t)` from 0 upwards that lies below `other`: from 0 to 1. The gradient in
    `other` is `g * other ** (input - 1) * exp(-other) / gamma(input)`; one in `input` is refused.

    >>> torch.igamma(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 3.0]))
    tensor([0.6321, 0.3528])
    """,
)
igammac = _part(
    "igammac",
    q.gammaincc,
    """`1 - igamma(input, other)`, exact also where that is tiny: the part of the integral that lies above `other`. Its gradients are
    those of `igamma` with the sign turned.

    >>> torch.igammac(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 3.0]))
    tensor([0.3679, 0.6472])
    """,
)


_ZETA: dict[str, Any] = {
    "name": "special_zeta",
    "promote": "float",
    "method": False,
    "lacks": {"input": "zeta"},
    "unmoved": "special_zeta",
    "kernel": _no_half("zeta_cpu"),
}
_zeta = stanza(
    lambda input, other: q.zeta(input, other),
    node="SpecialZetaBackward0",
    number_node="SpecialZetaBackward1",
    **_ZETA,
)
_zeta_number = stanza(lambda input, other: q.zeta(input, other), node="SpecialZetaBackward2", **_ZETA)


def zeta(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz's zeta function: the sum of `(k + other) ** -input` over `k` from 0 upwards. One of the two may be a number. The gradient in
    `other` is `-g * input * zeta(input + 1, other)`; one in `input` is refused.

    >>> torch.special.zeta(torch.tensor([2.0, 4.0]), 1.0)
    tensor([1.6449, 1.0823])
    """
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        raise no_tensor("special_zeta", input, other, ("input", "other"))
    return (_zeta if isinstance(other, Tensor) else _zeta_number)(input, other, out=out)


# ---------------------------------------------------------------- Bessel functions


@stanza(promote="float")
def i0(input):
    """The modified Bessel function of the first kind, of order 0. The gradient is `g * i1(input)`.

    >>> torch.i0(torch.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """
    return s.i0(input)


@stanza(name="special_i0e", node="SpecialI0EBackward0", promote="float", method=False)
def i0e(input):
    """`exp(-abs(input)) * i0(input)`, which does not overflow. The gradient is `g * (i1e(input) - sign(input) * y)` with the result `y`.

    >>> torch.special.i0e(torch.tensor([0.0, 1.0, 500.0]))
    tensor([1.0000, 0.4658, 0.0178])
    """
    return s.i0e(input)


@stanza(name="special_i1", node="SpecialI1Backward0", promote="float", method=False)
def i1(input):
    """The modified Bessel function of the first kind, of order 1. The gradient is `g * (i0(input) - y / input)` with the result `y`.

    >>> torch.special.i1(torch.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """
    return s.i1(input)


@stanza(name="special_i1e", node="SpecialI1EBackward0", promote="float", method=False)
def i1e(input):
    """`exp(-abs(input)) * i1(input)`, which does not overflow. The gradient is `g * (i0e(input) - y * (sign(input) + 1 / input))` with the
    result `y`.

    >>> torch.special.i1e(torch.tensor([0.0, 1.0, 500.0]))
    tensor([0.0000, 0.2079, 0.0178])
    """
    return s.i1e(input)


# ---------------------------------------------------------------- PyTorch's other names

gammaln, psi, multigammaln = lgamma, digamma, mvlgamma
gammainc, gammaincc = igamma, igammac

_IN_PLACE = ("i0",)
globals().update(in_place_functions(_IN_PLACE))
__all__ = [
    *("digamma", "i0", "igamma", "igammac", "lgamma", "mvlgamma", "polygamma"),
    *(f"{_name}_" for _name in _IN_PLACE),
]
