"""Functions of analysis, elementwise: exponentials and logarithms, trigonometry, the error, gamma and Bessel functions.

A derivative stands here only where PyTorch saves another value than the primitive's own reads; what a function is, stands in `expr`.
"""

from __future__ import annotations

import math
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.plan import number_type
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.dispatch.stanza import in_place_functions, method, no_tensor, refuse, stanza
from nbgrad.expr import loops as q
from nbgrad.expr import prims as p
from nbgrad.expr import special as s
from nbgrad.expr.prims import where as choose
from nbgrad.memory import dtypes
from nbgrad.ops.pointwise.arithmetic import power
from nbgrad.ops.views.copy import to_dtype

# ---------------------------------------------------------------- exponentials and logarithms


@stanza(promote="float", vjp=lambda g, y: g * (y + 1))
def expm1(input):
    return p.expm1(input)


@stanza(promote="float", vjp=lambda g, y: g * y * math.log(2))
def exp2(input):
    return p.exp2(input)


@stanza(node="Log1PBackward0", promote="float", vjp=lambda g, input: g / (input + 1))
def log1p(input):
    return p.log1p(input)


@stanza(promote="float", vjp=lambda g, input: g / (input * math.log(2)))
def log2(input):
    return p.log2(input)


@stanza(promote="float", vjp=lambda g, input: g / (input * math.log(10)))
def log10(input):
    return p.log10(input)


@stanza(inplace=False, tensors=("input", "other"), kernel=refuse("logaddexp_cpu", ints=True, bools=True))
def logaddexp(input, other):
    return s.logaddexp(input, other)


@stanza(inplace=False, tensors=("input", "other"), kernel=refuse("logaddexp2_cpu", ints=True, bools=True))
def logaddexp2(input, other):
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
    return (_xlog1py if isinstance(other, Tensor) else _xlog1py_number)(input, other, out=out)


@stanza(name="special_entr", node="SpecialEntrBackward0", promote="float", method=False)
def entr(input):
    return s.entr(input)


# ---------------------------------------------------------------- trigonometry


@stanza(promote="float", vjp=lambda g, input: g * p.cos(input))
def sin(input):
    return p.sin(input)


@stanza(promote="float", vjp=lambda g, input: g * -p.sin(input))
def cos(input):
    return p.cos(input)


@stanza(promote="float")
def tan(input):
    return p.tan(input)


@stanza(promote="float")
def asin(input):
    return p.asin(input)


@stanza(promote="float")
def acos(input):
    return p.acos(input)


@stanza(promote="float")
def atan(input):
    return p.atan(input)


def _atan2_rule(g: Any, input: Any, other: Any) -> Any:
    square = input * input + other * other
    at_zero = p.eq(square, 0)
    return choose(at_zero, 0.0, g * other / square), choose(at_zero, 0.0, g * -input / square)


@stanza(promote="float", tensors=("input", "other"), vjp=_atan2_rule)
def atan2(input, other):
    return p.atan2(input, other)


@stanza(tensors=("input", "other"), kernel=refuse("hypot_cpu", ints=True, bools=True))
def hypot(input, other):
    return s.hypot(input, other)


def _sinc_rule(g: Any, input: Any) -> Any:
    angle, square = math.pi * input, input * input * math.pi
    return choose(p.eq(square, 0), 0.0, g * ((angle * p.cos(angle) - p.sin(angle)) / square))


@stanza(promote="float", vjp=_sinc_rule)
def sinc(input):
    return choose(p.eq(input, 0), 1.0, p.sin(math.pi * input) / (math.pi * input))


@stanza(promote="float", node="Deg2RadBackward0")
def deg2rad(input):
    return input * (math.pi / 180)


@stanza(promote="float", node="Rad2DegBackward0")
def rad2deg(input):
    return input * (180 / math.pi)


# ---------------------------------------------------------------- hyperbolic functions


@stanza(promote="float")
def sinh(input):
    return p.sinh(input)


@stanza(promote="float")
def cosh(input):
    return p.cosh(input)


@stanza(promote="float", vjp=lambda g, y: g * (1 - y * y))
def tanh(input):
    return p.tanh(input)


@stanza(promote="float")
def asinh(input):
    return p.asinh(input)


@stanza(promote="float")
def acosh(input):
    return p.acosh(input)


@stanza(promote="float")
def atanh(input):
    return p.atanh(input)


# ---------------------------------------------------------------- the logistic, the error function, the normal distribution


@stanza(promote="float", vjp=lambda g, y: g * ((1 - y) * y))
def sigmoid(input):
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
    op, args = _logit_of(input, eps)
    return op.function(*args, out=out)


@method
def logit_(input: Tensor, eps: float | None = None) -> Tensor:
    return write(*_logit_of(input, eps))


@stanza(promote="float")
def erf(input):
    return p.erf(input)


@stanza(promote="float")
def erfc(input):
    return p.erfc(input)


@stanza(promote="float")
def erfinv(input):
    return s.erfinv(input)


def _no_half(kernel: str) -> Any:
    def check(compute: Any, operands: Any) -> None:
        if compute is dtypes.float16:
            raise NotImplementedError(f"\"{kernel}\" not implemented for 'Half'")

    return check


@stanza(
    name="special_erfcx",
    node="SpecialErfcxBackward0",
    promote="float",
    method=False,
    kernel=_no_half("erfcx_cpu"),
)
def erfcx(input):
    return s.erfcx(input)


@stanza(name="special_ndtr", node="MulBackward1", promote="float", method=False)
def ndtr(input):
    return s.ndtr(input)


@stanza(
    name="special_ndtri",
    node="SpecialNdtriBackward0",
    promote="float",
    method=False,
    kernel=_no_half("ndtri_cpu"),
)
def ndtri(input):
    return s.ndtri(input)


@stanza(
    name="special_log_ndtr",
    node="SpecialLogNdtrBackward0",
    promote="float",
    method=False,
    kernel=_no_half("log_ndtr_cpu"),
)
def log_ndtr(input):
    return s.log_ndtr(input)


# ---------------------------------------------------------------- the gamma function


@stanza(promote="float")
def lgamma(input):
    return s.lgamma(input)


@stanza(promote="float")
def digamma(input):
    return s.digamma(input)


@cached(64)
def _polygamma(n: int) -> Any:
    """An op for each order: the order is part of the formula."""
    function = stanza(
        lambda input: s.polygamma(input, n) if n else s.digamma(input),
        name="polygamma",
        promote="float",
        method=False,
        shared=False,
        vjp=lambda g, input: g * s.polygamma(input, n + 1),
    )
    function.op.shown = {"n": n}
    return function


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _order(n)(input, out=out)


def _order(n: int) -> Any:
    if type(n) is not int:
        raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return _polygamma(n)


@cached(64)
def _mvlgamma(dimensions: int) -> Any:
    """An op for each number of dimensions, which is that of its terms."""
    constant = math.log(math.pi) * dimensions * (dimensions - 1) / 4

    def body(input):
        total = s.lgamma(input)
        for k in range(1, dimensions):
            total = total + s.lgamma(input - 0.5 * k)
        return total + constant

    function = stanza(body, name="mvlgamma", promote="float", method=False, shared=False)
    function.op.shown = {"p": dimensions}
    return function


def _mvlgamma_of(input: Tensor, p: int, into: Tensor | None) -> Any:
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype is dtypes.bool_:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if into is not None and not into.dtype.is_floating_point:
        result = input.dtype if input.dtype.is_floating_point else dtypes.get_default_dtype()
        words = f"{input.dtype.scalar_name} can't be cast to the desired output type {result.scalar_name}"
        raise RuntimeError(f"mvlgamma: result type {words}")
    return _mvlgamma(p)


@method
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    return _mvlgamma_of(input, p, out)(input, out=out)


@method
def mvlgamma_(input: Tensor, p: int) -> Tensor:
    return write(_mvlgamma_of(input, p, input).op, (input,))


Tensor.polygamma = lambda self, n: polygamma(n, self)  # type: ignore[arg-type, method-assign]
Tensor.polygamma_ = lambda self, n: write(_order(n).op, (self,))  # type: ignore[assignment, method-assign, return-value]

# ---------------------------------------------------------------- incomplete gamma functions, Hurwitz's zeta function


def _part(name: str, body: Any) -> Any:
    """A regularised incomplete gamma function, in its second argument; PyTorch has no gradient of the first."""
    return stanza(
        lambda input, other: body(input, other),
        name=name,
        tensors=("input", "other"),
        kernel=refuse(f"{name}_cpu", ints=True, bools=True),
        lacks={"input": f"{name}: input"},
        unmoved=name,
    )


igamma, igammac = _part("igamma", q.gammainc), _part("igammac", q.gammaincc)


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
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        raise no_tensor("special_zeta", input, other, ("input", "other"))
    return (_zeta if isinstance(other, Tensor) else _zeta_number)(input, other, out=out)


# ---------------------------------------------------------------- Bessel functions


@stanza(promote="float")
def i0(input):
    return s.i0(input)


@stanza(name="special_i0e", node="SpecialI0EBackward0", promote="float", method=False)
def i0e(input):
    return s.i0e(input)


@stanza(name="special_i1", node="SpecialI1Backward0", promote="float", method=False)
def i1(input):
    return s.i1(input)


@stanza(name="special_i1e", node="SpecialI1EBackward0", promote="float", method=False)
def i1e(input):
    return s.i1e(input)


# ---------------------------------------------------------------- powers in float64


def _double(value: Any) -> Any:
    return to_dtype(value, dtypes.float64) if isinstance(value, Tensor) else float(value)


@method
def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    if out is not None and out.dtype is not dtypes.float64:
        raise RuntimeError(
            f"the output given to float_power has dtype {out.dtype.scalar_name} but the operation's result requires dtype Double"
        )
    op, args = power(_double(input), _double(exponent))
    return op.function(*args, out=out)


@method
def float_power_(input: Tensor, exponent: Any) -> Tensor:
    if input.dtype is not dtypes.float64:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input.dtype.scalar_name} but the operation's result requires dtype Double"
        )
    return write(*power(input, _double(exponent)))


# ---------------------------------------------------------------- PyTorch's other names

arcsin, arccos, arctan, arctan2, arcsinh, arccosh, arctanh = asin, acos, atan, atan2, asinh, acosh, atanh
expit, gammaln, psi, multigammaln = sigmoid, lgamma, digamma, mvlgamma
gammainc, gammaincc = igamma, igammac

for _name in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh"):
    for _suffix in ("", "_"):
        if hasattr(Tensor, f"a{_name}{_suffix}"):
            setattr(Tensor, f"arc{_name}{_suffix}", getattr(Tensor, f"a{_name}{_suffix}"))

_IN_PLACE = (
    *(
        "acos",
        "acosh",
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctanh",
        "asin",
        "asinh",
        "atan",
    ),
    *(
        "atanh",
        "cos",
        "cosh",
        "deg2rad",
        "erf",
        "erfc",
        "exp2",
        "expm1",
        "i0",
        "log10",
        "log1p",
        "log2",
        "rad2deg",
    ),
    *("sigmoid", "sin", "sinc", "sinh", "tan", "tanh", "xlogy"),
)
globals().update(in_place_functions(_IN_PLACE))
__all__ = [
    *(
        "acos",
        "acosh",
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctan2",
        "arctanh",
        "asin",
        "asinh",
    ),
    *(
        "atan",
        "atan2",
        "atanh",
        "cos",
        "cosh",
        "deg2rad",
        "digamma",
        "erf",
        "erfc",
        "erfinv",
        "exp2",
        "expm1",
    ),
    *(
        "float_power",
        "hypot",
        "i0",
        "igamma",
        "igammac",
        "lgamma",
        "log10",
        "log1p",
        "log2",
        "logaddexp",
        "logaddexp2",
        "logit",
        "logit_",
    ),
    *("mvlgamma", "polygamma", "rad2deg", "sigmoid", "sin", "sinc", "sinh", "tan", "tanh", "xlogy"),
    *(f"{_name}_" for _name in _IN_PLACE),
]
