"""Functions of analysis, elementwise: exponentials and logarithms, trigonometry, the logistic and the error function.

A derivative stands here only where PyTorch saves another value than the primitive's own reads; what a function is, stands in `expr`.
"""

from __future__ import annotations

import math
from typing import Any

from nbgrad.core.plan import number_type
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.dispatch.quick import replayed
from nbgrad.dispatch.stanza import in_place_functions, method, refuse, stanza
from nbgrad.expr import prims as p
from nbgrad.expr import special as s
from nbgrad.expr.prims import where as choose
from nbgrad.memory import dtypes
from nbgrad.ops.pointwise.arithmetic import power
from nbgrad.ops.views.copy import to_dtype

# ---------------------------------------------------------------- exponentials and logarithms


@stanza(promote="float", vjp=lambda g, y: g * (y + 1))
def expm1(input):
    """`exp(input) - 1`, exact also near 0. The gradient is `g * exp(input)`.

    >>> torch.expm1(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """
    return p.expm1(input)


@stanza(promote="float", vjp=lambda g, y: g * y * math.log(2))
def exp2(input):
    """2 to the power of each element. The gradient is `g * log(2) * 2**input`.

    >>> torch.exp2(torch.tensor([-1.0, 0.5, 3.0]))
    tensor([0.5000, 1.4142, 8.0000])
    """
    return p.exp2(input)


@stanza(node="Log1PBackward0", promote="float", vjp=lambda g, input: g / (input + 1))
def log1p(input):
    """`log(1 + input)`, exact also near 0. The gradient is `g / (input + 1)`.

    >>> torch.log1p(torch.tensor([0.0, 1.0, -1.0]))
    tensor([0.0000, 0.6931,   -inf])
    >>> torch.log1p(torch.tensor(1e-10)), torch.log(1 + torch.tensor(1e-10))
    (tensor(1.0000e-10), tensor(0.))
    """
    return p.log1p(input)


@stanza(promote="float", vjp=lambda g, input: g / (input * math.log(2)))
def log2(input):
    """The logarithm to base 2 of each element. The gradient is `g / (input * log(2))`.

    >>> torch.log2(torch.tensor([0.5, 8.0, 10.0]))
    tensor([-1.0000,  3.0000,  3.3219])
    """
    return p.log2(input)


@stanza(promote="float", vjp=lambda g, input: g / (input * math.log(10)))
def log10(input):
    """The logarithm to base 10 of each element. The gradient is `g / (input * log(10))`.

    >>> torch.log10(torch.tensor([0.01, 1.0, 50.0]))
    tensor([-2.0000,  0.0000,  1.6990])
    """
    return p.log10(input)


@stanza(inplace=False, tensors=("input", "other"), kernel=refuse("logaddexp_cpu", ints=True, bools=True))
def logaddexp(input, other):
    """`log(exp(input) + exp(other))`, which does not overflow. The gradients are `g * sigmoid(input - other)` and
    `g * sigmoid(other - input)`.

    >>> torch.logaddexp(torch.tensor([0.0, 1000.0]), torch.tensor([0.0, 1000.0]))
    tensor([6.9315e-01, 1.0007e+03])
    >>> torch.func.grad(torch.logaddexp)(torch.tensor(2.0), torch.tensor(0.0))
    tensor(0.8808)
    """
    return s.logaddexp(input, other)


@stanza(inplace=False, tensors=("input", "other"), kernel=refuse("logaddexp2_cpu", ints=True, bools=True))
def logaddexp2(input, other):
    """`log2(2**input + 2**other)`, which does not overflow. The gradients are the shares of the two in that sum, times `g`.

    >>> torch.logaddexp2(torch.tensor([0.0, 1000.0]), torch.tensor([0.0, 1000.0]))
    tensor([1.0000e+00, 1.0010e+03])
    """
    return s.logaddexp2(input, other)


@stanza(
    name="xlogy",
    promote="float",
    number_node="XlogyBackward1",
    vjp=lambda g, input, other: (
        choose(p.logical_and(p.eq(input, 0), p.le(other, 0)), 0.0, s.xlogy(g, other)),
        g * input / other,
    ),
)
def _xlogy(input, other):
    """`input * log(other)`, and 0 where `input` is 0 and `other` not NaN. One of the two may be a number. The gradients are
    `g * log(other)` (0 where `input` is 0 and `other` not positive) and `g * input / other`.

    >>> torch.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """
    return s.xlogy(input, other)


@stanza(
    name="xlog1py",
    node="SpecialXlog1PyBackward0",
    promote="float",
    number_node="SpecialXlog1PyBackward1",
    method=False,
    vjp=lambda g, input, other: (
        choose(p.logical_and(p.eq(input, 0), p.le(other, -1)), 0.0, s.xlog1py(g, other)),
        g * input / (other + 1),
    ),
)
def _xlog1py(input, other):
    return s.xlog1py(input, other)


# With a number for the second operand PyTorch's graph shows a third name.
_xlogy_number = stanza(
    lambda input, other: s.xlogy(input, other),
    name="xlogy",
    node="XlogyBackward2",
    promote="float",
    method=False,
    vjp=lambda g, input, other: (_xlogy.op.rule(g, input, other)[0], None),
)
_xlog1py_number = stanza(
    lambda input, other: s.xlog1py(input, other),
    name="xlog1py",
    node="SpecialXlog1PyBackward2",
    promote="float",
    method=False,
    vjp=lambda g, input, other: (_xlog1py.op.rule(g, input, other)[0], None),
)


@method
def xlogy(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    return (_xlogy if isinstance(other, Tensor) else _xlogy_number)(input, other, out=out)


def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """`input * log1p(other)`, and 0 where `input` is 0 and `other` not NaN. One of the two may be a number. The gradients are
    `g * log1p(other)` (0 where `input` is 0 and `other` at most -1) and `g * input / (other + 1)`.

    >>> torch.special.xlog1py(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """
    return (_xlog1py if isinstance(other, Tensor) else _xlog1py_number)(input, other, out=out)


@stanza(name="special_entr", node="SpecialEntrBackward0", promote="float", method=False)
def entr(input):
    """The term of an entropy: `-input * log(input)`, 0 at 0 and -inf of negative elements. The gradient is `-g * (log(input) + 1)`.

    >>> torch.special.entr(torch.tensor([-1.0, 0.0, 0.5, 2.0]))
    tensor([   -inf,  0.0000,  0.3466, -1.3863])
    """
    return s.entr(input)


# ---------------------------------------------------------------- trigonometry


@stanza(promote="float", vjp=lambda g, input: g * p.cos(input))
def sin(input):
    """The sine of each element, in radians. The gradient is `g * cos(input)`.

    >>> torch.sin(torch.tensor([0.0, torch.pi / 2]))
    tensor([0., 1.])
    >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    """
    return p.sin(input)


@stanza(promote="float", vjp=lambda g, input: g * -p.sin(input))
def cos(input):
    """The cosine of each element, in radians. The gradient is `-g * sin(input)`.

    >>> torch.cos(torch.tensor([0.0, torch.pi / 3, torch.pi]))
    tensor([ 1.0000,  0.5000, -1.0000])
    """
    return p.cos(input)


@stanza(promote="float")
def tan(input):
    """The tangent of each element, in radians. The gradient is `g * (1 + tan(input)**2)`.

    >>> torch.tan(torch.tensor([0.0, torch.pi / 4]))
    tensor([0., 1.])
    """
    return p.tan(input)


@stanza(promote="float")
def asin(input):
    """The angle from -pi/2 to pi/2 whose sine each element is; NaN outside -1 to 1. The gradient is `g / sqrt(1 - input**2)`.

    >>> torch.asin(torch.tensor([0.5, 1.0, 2.0]))
    tensor([0.5236, 1.5708,    nan])
    """
    return p.asin(input)


@stanza(promote="float")
def acos(input):
    """The angle from 0 to pi whose cosine each element is; NaN outside -1 to 1. The gradient is `-g / sqrt(1 - input**2)`.

    >>> torch.acos(torch.tensor([1.0, 0.0, -1.0]))
    tensor([0.0000, 1.5708, 3.1416])
    """
    return p.acos(input)


@stanza(promote="float")
def atan(input):
    """The angle between -pi/2 and pi/2 whose tangent each element is. The gradient is `g / (1 + input**2)`.

    >>> torch.atan(torch.tensor([0.0, 1.0, float("inf")]))
    tensor([0.0000, 0.7854, 1.5708])
    """
    return p.atan(input)


def _atan2_rule(g: Any, input: Any, other: Any) -> Any:
    square = input * input + other * other
    at_zero = p.eq(square, 0)
    return choose(at_zero, 0.0, g * other / square), choose(at_zero, 0.0, g * -input / square)


@stanza(promote="float", tensors=("input", "other"), vjp=_atan2_rule)
def atan2(input, other):
    """The angle, from -pi to pi, of the point at height `input` and `other` to the right. The gradients are `g * other / r**2` and
    `-g * input / r**2`, where `r` is the distance from the origin; 0 at the origin.

    >>> torch.atan2(torch.tensor([0.0, 1.0, 0.0]), torch.tensor([1.0, 1.0, -1.0]))
    tensor([0.0000, 0.7854, 3.1416])
    """
    return p.atan2(input, other)


@stanza(tensors=("input", "other"), kernel=refuse("hypot_cpu", ints=True, bools=True))
def hypot(input, other):
    """`sqrt(input**2 + other**2)`: the hypotenuse of a right triangle with these legs. The gradients are `g * input / y` and
    `g * other / y` with the result `y`.

    >>> torch.hypot(torch.tensor([3.0, 5.0]), torch.tensor([4.0, 12.0]))
    tensor([ 5., 13.])
    """
    return s.hypot(input, other)


def _sinc_rule(g: Any, input: Any) -> Any:
    angle, square = math.pi * input, input * input * math.pi
    beside = 0.0 - g * input * (math.pi**2 / 3)  # what it begins as, of which the next derivatives are made
    return choose(p.eq(square, 0), beside, g * ((angle * p.cos(angle) - p.sin(angle)) / square))


@stanza(promote="float", vjp=_sinc_rule)
def sinc(input):
    """`sin(pi * input) / (pi * input)`, and 1 at 0. Its gradient is `g * (cos(pi * input) - sinc(input)) / input`, 0 at 0.

    >>> torch.sinc(torch.tensor([0.0, 0.5, 1.5]))
    tensor([ 1.0000,  0.6366, -0.2122])
    """
    return choose(p.eq(input, 0), 1.0, p.sin(math.pi * input) / (math.pi * input))


@stanza(promote="float", node="Deg2RadBackward0")
def deg2rad(input):
    """Degrees as radians: `input * pi / 180`. The gradient is `g * pi / 180`.

    >>> torch.deg2rad(torch.tensor([90.0, -180.0]))
    tensor([ 1.5708, -3.1416])
    """
    return input * (math.pi / 180)


@stanza(promote="float", node="Rad2DegBackward0")
def rad2deg(input):
    """Radians as degrees: `input * 180 / pi`. The gradient is `g * 180 / pi`.

    >>> torch.rad2deg(torch.tensor([1.0, torch.pi]))
    tensor([ 57.2958, 180.0000])
    """
    return input * (180 / math.pi)


# ---------------------------------------------------------------- hyperbolic functions


@stanza(promote="float")
def sinh(input):
    """The hyperbolic sine, `(exp(input) - exp(-input)) / 2`. The gradient is `g * cosh(input)`.

    >>> torch.sinh(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1752,  0.0000,  1.1752])
    """
    return p.sinh(input)


@stanza(promote="float")
def cosh(input):
    """The hyperbolic cosine, `(exp(input) + exp(-input)) / 2`. The gradient is `g * sinh(input)`.

    >>> torch.cosh(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([1.5431, 1.0000, 1.5431])
    """
    return p.cosh(input)


@stanza(promote="float", vjp=lambda g, y: g * (1 - y * y))
def tanh(input):
    """The hyperbolic tangent, `sinh(input) / cosh(input)`, between -1 and 1. The gradient is `g * (1 - tanh(input)**2)`.

    >>> torch.tanh(torch.tensor([-1.0, 0.0, 20.0]))
    tensor([-0.7616,  0.0000,  1.0000])
    >>> torch.func.grad(torch.tanh)(torch.tensor(0.0))
    tensor(1.)
    """
    return p.tanh(input)


@stanza(promote="float")
def asinh(input):
    """What each element is the hyperbolic sine of. The gradient is `g / sqrt(input**2 + 1)`.

    >>> torch.asinh(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.8814,  0.0000,  0.8814])
    """
    return p.asinh(input)


@stanza(promote="float")
def acosh(input):
    """The number from 0 upwards whose hyperbolic cosine each element is; NaN below 1. The gradient is `g / sqrt(input**2 - 1)`.

    >>> torch.acosh(torch.tensor([1.0, 2.0, 0.0]))
    tensor([0.0000, 1.3170,    nan])
    """
    return p.acosh(input)


@stanza(promote="float")
def atanh(input):
    """What each element is the hyperbolic tangent of: infinite at -1 and 1, NaN beyond. The gradient is `g / (1 - input**2)`.

    >>> torch.atanh(torch.tensor([0.5, 1.0, 2.0]))
    tensor([0.5493,    inf,    nan])
    """
    return p.atanh(input)


# ---------------------------------------------------------------- the logistic, the error function, the normal distribution


@stanza(promote="float", vjp=lambda g, y: g * ((1 - y) * y))
def sigmoid(input):
    """The logistic function `1 / (1 + exp(-input))`, between 0 and 1. The gradient is `g * y * (1 - y)` with the result `y`.

    >>> torch.sigmoid(torch.tensor([-2.0, 0.0, 2.0]))
    tensor([0.1192, 0.5000, 0.8808])
    >>> torch.func.grad(torch.sigmoid)(torch.tensor(0.0))
    tensor(0.2500)
    """
    return p.sigmoid(input)


def _logit_rule(g: Any, input: Any) -> Any:
    outside = p.logical_or(p.lt(input, 0), p.gt(input, 1))
    return choose(outside, math.nan, g / (input * (1 - input)))  # the sign of a zero decides


@stanza(name="logit", node="LogitBackward0", promote="float", method=False, vjp=_logit_rule)
def _logit(input):
    return p.log(input / (1 - input))


@stanza(
    name="logit",
    node="LogitBackward0",
    promote="float",
    settings=("low", "high"),
    method=False,
    vjp=lambda g, input, low, high: (
        choose(p.logical_and(p.ge(input, low), p.le(input, high)), g / (input * (1 - input)), 0.0),
        None,
        None,
    ),
)
def _logit_within(input, low, high):
    inside = choose(p.lt(input, low), low, choose(p.gt(input, high), high, input))
    return p.log(inside / (1 - inside))


def _logit_of(input: Tensor, eps: float | None) -> tuple[Any, tuple[Any, ...]]:
    if eps is not None and number_type(eps) is None:
        raise TypeError(f"logit(): argument 'eps' (position 2) must be float, not {type(eps).__name__}")
    if eps is None or eps < 0:
        return _logit.op, (input,)
    return _logit_within.op, (input, float(eps), 1.0 - eps)


@method
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """`log(input / (1 - input))`, the inverse of `sigmoid`; NaN outside 0 to 1. With `eps` the elements are first clamped to `eps` and
    `1 - eps`. The gradient is `g / (input * (1 - input))`, 0 of what was clamped.

    >>> torch.logit(torch.tensor([0.0, 0.5, 0.9]))
    tensor([  -inf, 0.0000, 2.1972])
    >>> torch.logit(torch.tensor([0.0, 0.5, 0.9]), eps=0.1)
    tensor([-2.1972,  0.0000,  2.1972])
    """
    op, args = _logit_of(input, eps)
    return op.function(*args, out=out)


@method
def logit_(input: Tensor, eps: float | None = None) -> Tensor:
    return write(*_logit_of(input, eps))


@stanza(promote="float")
def erf(input):
    """The error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to each element. The gradient is
    `g * 2 / sqrt(pi) * exp(-input**2)`.

    >>> torch.erf(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.8427,  0.0000,  0.8427])
    >>> torch.func.grad(torch.erf)(torch.tensor(0.0))
    tensor(1.1284)
    """
    return p.erf(input)


@stanza(promote="float")
def erfc(input):
    """`1 - erf(input)`, exact also where that is tiny. The gradient is `-g * 2 / sqrt(pi) * exp(-input**2)`.

    >>> torch.erfc(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([1.8427, 1.0000, 0.1573])
    """
    return p.erfc(input)


@stanza(promote="float")
def erfinv(input):
    """What each element is `erf` of: infinite at -1 and 1, NaN beyond. The gradient is `g * sqrt(pi) / 2 * exp(y**2)` with the result `y`.

    >>> torch.erfinv(torch.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.4769,    inf])
    """
    return s.erfinv(input)


def _no_half(kernel: str) -> Any:
    def check(compute: Any, operands: Any) -> None:
        if compute.narrow:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{compute.scalar_name}'")

    return check


@stanza(
    name="special_erfcx",
    node="SpecialErfcxBackward0",
    promote="float",
    method=False,
    kernel=_no_half("erfcx_cpu"),
)
def erfcx(input):
    """`exp(input**2) * erfc(input)`, which stays exact where `erfc` is too small to be held. The gradient is
    `g * (2 * input * y - 2 / sqrt(pi))` with the result `y`.

    >>> torch.special.erfcx(torch.tensor([-1.0, 0.0, 100.0]))
    tensor([5.0090, 1.0000, 0.0056])
    """
    return s.erfcx(input)


@stanza(name="special_ndtr", node="MulBackward1", promote="float", method=False)
def ndtr(input):
    """The probability that a draw from the standard normal distribution is below each element: `(1 + erf(input / sqrt(2))) / 2`. The
    gradient is `g * exp(-input**2 / 2) / sqrt(2 * pi)`.

    >>> torch.special.ndtr(torch.tensor([-1.96, 0.0, 1.96]))
    tensor([0.0250, 0.5000, 0.9750])
    """
    return s.ndtr(input)


@stanza(
    name="special_ndtri",
    node="SpecialNdtriBackward0",
    promote="float",
    method=False,
    kernel=_no_half("ndtri_cpu"),
)
def ndtri(input):
    """The number that a standard normal draw is below with the probability that each element is: the inverse of `ndtr`. The gradient is
    `g * sqrt(2 * pi) * exp(y**2 / 2)` with the result `y`.

    >>> torch.special.ndtri(torch.tensor([0.0, 0.5, 0.975]))
    tensor([  -inf, 0.0000, 1.9600])
    """
    return s.ndtri(input)


@stanza(
    name="special_log_ndtr",
    node="SpecialLogNdtrBackward0",
    promote="float",
    method=False,
    kernel=_no_half("log_ndtr_cpu"),
)
def log_ndtr(input):
    """`log(ndtr(input))`, exact also where `ndtr` itself would be 0. The gradient is `g` times the normal density over `ndtr(input)`.

    >>> torch.special.log_ndtr(torch.tensor([-100.0, 0.0, 3.0]))
    tensor([-5.0055e+03, -6.9315e-01, -1.3508e-03])
    """
    return s.log_ndtr(input)


# ---------------------------------------------------------------- powers in float64


def _double(value: Any) -> Any:
    if isinstance(value, Tensor):
        return to_dtype(value, dtypes.complex128 if value.dtype.is_complex else dtypes.float64)
    return value if isinstance(value, complex) else float(value)


def _takes_power(what: str, into: Tensor, *operands: Any) -> None:
    """Refuse to write a power to another dtype than its own."""
    kinds = [x.is_complex() if isinstance(x, Tensor) else isinstance(x, complex) for x in operands]
    wanted = dtypes.complex128 if any(kinds) else dtypes.float64
    if into.dtype is not wanted:
        raise RuntimeError(
            f"{what} has dtype {into.dtype.scalar_name} but the operation's result requires dtype {wanted.scalar_name}"
        )


@method
@replayed
def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """`input` to the power of `exponent`, both taken to float64 first, which the result is. One of the two may be a number. The gradients
    are those of `pow`.

    >>> torch.float_power(torch.tensor([1, 2, 3]), -1)
    tensor([1.0000, 0.5000, 0.3333], dtype=torch.float64)
    """
    if out is not None:
        _takes_power("the output given to float_power", out, input, exponent)
    op, args = power(_double(input), _double(exponent))
    return op.function(*args, out=out)


@method
def float_power_(input: Tensor, exponent: Any) -> Tensor:
    _takes_power("the base given to float_power_", input, input, exponent)
    return write(*power(input, _double(exponent)))


# ---------------------------------------------------------------- PyTorch's other names

arcsin, arccos, arctan, arctan2, arcsinh, arccosh, arctanh = asin, acos, atan, atan2, asinh, acosh, atanh
expit = sigmoid

for _name in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh"):
    for _suffix in ("", "_"):
        if hasattr(Tensor, f"a{_name}{_suffix}"):
            setattr(Tensor, f"arc{_name}{_suffix}", getattr(Tensor, f"a{_name}{_suffix}"))

_IN_PLACE = (
    *("acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh"),
    *("atan", "atanh", "cos", "cosh", "deg2rad", "erf", "erfc", "exp2", "expm1", "log10", "log1p"),
    *("log2", "rad2deg", "sigmoid", "sin", "sinc", "sinh", "tan", "tanh", "xlogy"),
)
globals().update(in_place_functions(_IN_PLACE))
__all__ = [
    *("acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin"),
    *("asinh", "atan", "atan2", "atanh", "cos", "cosh", "deg2rad", "erf", "erfc", "erfinv", "exp2"),
    *("expm1", "float_power", "hypot", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logit"),
    *("logit_", "rad2deg", "sigmoid", "sin", "sinc", "sinh", "tan", "tanh", "xlogy"),
    *(f"{_name}_" for _name in _IN_PLACE),
]
