"""Cases of what is computed element by element, and of Python's operators."""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any

import numpy as np

from tests.cases.making import (
    BINARY,
    DTYPES,
    FLOATS,
    INTS,
    NARROW,
    NO_GRAD,
    POSITIVE,
    TERNARY,
    UNARY,
    F,
    binary,
    case,
    op,
    unary,
)

# ---- elementwise, one operand
unary("neg", ref=np.negative)
unary("abs", kinks=(0,), ref=np.abs)
unary("sign", kinks=(0,), ref=np.sign)
unary("sqrt", domain=POSITIVE, ref=np.sqrt)
unary("rsqrt", domain=POSITIVE, ref=lambda x: 1 / np.sqrt(x))
unary("reciprocal", domain=POSITIVE, ref=np.reciprocal)
unary("exp", ref=np.exp)
unary("log", domain=POSITIVE, ref=np.log)
unary("expm1", ref=np.expm1)
unary("log1p", domain=(-0.5, 3.0), ref=np.log1p)
unary("sin", ref=np.sin)
unary("cos", ref=np.cos)
unary("tanh", ref=np.tanh)
unary("sigmoid", ref=lambda x: 1 / (1 + np.exp(-x)))
unary("relu", kinks=(0,), forms="mi", ref=lambda x: np.maximum(x, 0))
unary("silu", where=F, forms="", ref=lambda x: x / (1 + np.exp(-x)))
unary("gelu", where=F, forms="", finite=True)
unary("gelu/tanh", where=F, forms="", kwargs=(("approximate", "tanh"),))
unary("softplus", where=F, forms="", ref=lambda x: np.log1p(np.exp(x)))
unary("softplus/beta", where=F, forms="", kwargs=(("beta", 2.0), ("threshold", 3.0)), kinks=(1.5,))
unary("relu/functional", where=F, forms="", kinks=(0,))
unary("isnan", forms="m", ref=np.isnan, **NO_GRAD)
unary("isinf", forms="m", ref=np.isinf, **NO_GRAD)
unary("isfinite", forms="m", ref=np.isfinite, **NO_GRAD)
unary("logical_not", ref=np.logical_not, **NO_GRAD)
unary("bitwise_not", **NO_GRAD)
unary("clamp", args=(-0.5, 1.0), kinks=(-0.5, 1.0), ref=lambda x: np.clip(x, -0.5, 1.0))
unary("clamp/min_only", kwargs=(("min", 0),), kinks=(0,))
unary("clamp/max_only", kwargs=(("max", 1),), kinks=(1,))
unary("clamp_min", args=(0.5,), kinks=(0.5,))
unary("clamp_max", args=(0.5,), kinks=(0.5,))

for name in ("exp2", "tan", "sinh", "cosh", "atan", "erf", "erfc"):
    unary(name, domain=(-1.4, 1.4), ref=getattr(np, name, None))
for name in ("asin", "acos", "erfinv"):
    unary(name, domain=(-0.9, 0.9), ref=getattr(np, name, None))
# PyTorch has no gradient of these in place.
for name in ("asinh", "arcsinh", "atanh", "arctanh"):
    unary(
        name,
        forms="mo",
        domain=(-0.9, 0.9),
        ref=getattr(np, "arc" + name.removeprefix("arc").removeprefix("a")),
    )
for name in ("log2", "log10"):
    unary(name, domain=POSITIVE, ref=getattr(np, name))
for name in ("arcsin", "arccos", "arctan"):
    unary(name, domain=(-0.9, 0.9), ref=getattr(np, name))
for name in ("acosh", "arccosh"):
    unary(name, forms="mo", domain=(1.2, 4.0), ref=np.arccosh)
for name in ("deg2rad", "rad2deg"):
    unary(name, ref=getattr(np, name), strides=False)
unary("sinc", domain=(0.2, 2.0), ref=np.sinc, steps=True)
unary("lgamma", domain=(0.3, 12.0), finite=True)
unary("lgamma/negative", domain=(-2.9, -2.1), dtypes=FLOATS)
unary("digamma", domain=(0.3, 12.0), tol=100)  # PyTorch's trigamma is good to 5e-10
unary("digamma/negative", domain=(-2.9, -2.1), dtypes=FLOATS, tol=100)
for n in (0, 1, 2, 3):
    case(f"polygamma_{n}", lambda T, x, n=n: T.polygamma(n, x), *UNARY, domain=POSITIVE, tol=100)
    case(f"polygamma_{n}_method", lambda T, x, n=n: x.polygamma(n), *UNARY, domain=(-0.8, -0.2), tol=100)
unary("mvlgamma", domain=(1.2, 5.0), args=(3,), strides=False)
unary("i0", domain=(-3.0, 12.0))
unary("i0e", domain=(-3.0, 12.0), where="special", forms="", kinks=(0,), steps=True)
# Refused in float16 (the forward test compares the words), or not differentiated there.
NO_HALF = {"dtypes": tuple(d for d in DTYPES if d not in NARROW)}
for name in ("i1", "i1e", "erfcx", "log_ndtr"):
    unary(name, domain=(-3.0, 12.0), where="special", forms="", kinks=(0,), steps=True, **NO_HALF)
for name in ("expit", "ndtr", "entr"):
    unary(name, domain=POSITIVE, where="special", forms="")
unary("ndtri", domain=(0.05, 0.95), where="special", forms="", **NO_HALF)
unary("logit", domain=(0.1, 0.9), ref=lambda x: np.log(x / (1 - x)), steps=True)
unary("logit/eps", domain=(0.05, 0.95), args=(0.2,), kinks=(0.2, 0.8), steps=True)
# Each kernel of these is long, so they meet few dtypes and layouts; more values: tests/expr/test_loops.py. PyTorch's Bessel functions
# are good to 1e-9, Airy's to 1e-6.
TAKEN: dict[str, Any] = {
    "where": "special",
    "forms": "",
    "layouts": False,
    "dtypes": (*FLOATS, *NARROW, "int64"),
}
for name in ("igamma", "igammac"):
    op(name, ((3, 4), (3, 4)), forms="mio", domain=(POSITIVE, (0.3, 9.0)), layouts=False, **NO_GRAD)

    def part(T: ModuleType, x: Any, name: str = name) -> Any:
        return getattr(T, name)(T.tensor([0.4, 1.0, 2.5, 30.0], dtype=x.dtype), x)

    case(f"{name}_other", part, ((3, 4),), domain=POSITIVE, dtypes=("float64",), layouts=False, tol=10)
op(
    "_standard_gamma_grad",
    ((3, 4), (3, 4)),
    forms="",
    domain=((0.1, 20.0), (0.1, 20.0)),
    dtypes=FLOATS,
    **NO_GRAD,
)
op(
    "_dirichlet_grad",
    ((3, 4), (3, 4), (3, 4)),
    forms="",
    domain=((0.05, 0.95), (0.1, 12.0), (13.0, 30.0)),
    dtypes=FLOATS,
    tol=100,  # PyTorch's series in float32 are computed in float32
    **NO_GRAD,
)
op("zeta", ((3, 4), (3, 4)), domain=((1.2, 5.0), POSITIVE), **TAKEN, **NO_GRAD)
case(
    "zeta_other",
    lambda T, q: T.special.zeta(2.5, q),
    ((3, 4),),
    domain=POSITIVE,
    dtypes=("float64",),
    layouts=False,
    tol=10,
)
BESSEL = ("j0", "j1", "y0", "y1", "modified_i0", "modified_i1", "modified_k0", "modified_k1", "spherical_j0")
for name in (*BESSEL, "scaled_modified_k0", "scaled_modified_k1", "airy_ai"):
    name = name if name == "airy_ai" else f"{name[:-2]}bessel_{name[-2:]}"
    op(name, ((3, 4),), domain=POSITIVE, tol=1e5 if name == "airy_ai" else 100, **TAKEN, **NO_GRAD)
for name in ("chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "hermite_h", "hermite_he"):
    family, _, kind = name.partition("_")
    op(
        f"{family}_polynomial_{kind}",
        ((3, 4), (3, 4)),
        domain=((-1.2, 1.2), (-2.0, 11.0)),
        **TAKEN,
        **NO_GRAD,
    )
for name in (
    *(f"shifted_chebyshev_polynomial_{k}" for k in "tuvw"),
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
):
    op(name, ((3, 4), (3, 4)), domain=((-0.2, 1.1), (-2.0, 11.0)), tol=10, **TAKEN, **NO_GRAD)
for name in ("floor", "ceil", "trunc", "fix"):
    unary(name, ref=getattr(np, name))
unary("round", ref=np.round)
unary("round/decimals", kwargs=(("decimals", 1),), domain=(-20.0, 20.0))
unary("round/tens", kwargs=(("decimals", -1),), domain=(-99.0, 99.0))
unary("frac", kinks=(-1, 0, 1), ref=lambda x: x - np.trunc(x))
unary("sgn", kinks=(0,), ref=np.sign)
unary("square", ref=np.square)
unary("absolute", kinks=(0,), ref=np.abs)
unary("negative", ref=np.negative)
unary("positive", forms="m", strides=False)
unary("signbit", forms="mo", ref=np.signbit, **NO_GRAD)
unary("isposinf", forms="mo", ref=np.isposinf, **NO_GRAD)
unary("isneginf", forms="mo", ref=np.isneginf, **NO_GRAD)
unary("isreal", forms="m", ref=np.isreal, strides=False, **NO_GRAD)
unary("nan_to_num", ref=np.nan_to_num, strides=False)
unary("nan_to_num/numbers", args=(0.5, 1.0, -1.0), dtypes=FLOATS, strides=False)
unary("frexp", forms="m", strides=False)
unary("threshold", args=(0.5, 2), forms="", kinks=(0.5,))
unary("hardshrink", args=(0.5,), forms="m", kinks=(-0.5, 0.5))
COMPOSED = ("relu6", "hardtanh", "rrelu", "logsigmoid", "softsign", "tanhshrink")
for name, kinks in {
    **dict(relu6=(0, 6), leaky_relu=(0,), elu=(0,), selu=(0,), celu=(0,), mish=(), softsign=(0,)),
    **dict(logsigmoid=(0,), hardtanh=(-1, 1), hardsigmoid=(-3, 3), hardswish=(-3, 3), softshrink=(-0.5, 0.5)),
    **dict(tanhshrink=(), rrelu=(0,)),
}.items():
    # hardsigmoid_backward has no derivative in PyTorch; the vector code of softshrink gives -0, its scalar code 0
    differentiable = name != "hardsigmoid"
    op(
        name,
        *UNARY,
        elementwise=name != "softshrink",
        strides=name not in COMPOSED,
        where=F,
        forms="",
        kinks=kinks,
        domain=(-4.0, 7.0),
        differentiable=differentiable,
    )
for name, args in dict(
    leaky_relu=(0.3,), elu=(0.7,), celu=(0.5,), hardtanh=(0, 2), softshrink=(1.0,)
).items():
    op(f"{name}/setting", *UNARY, where=F, forms="", args=args, kinks=(0, 2, 1, -1))
for name in ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardswish"):
    case(
        f"{name}_inplace",
        lambda T, x, n=name: getattr(T.nn.functional, n)(x * 1, inplace=True),
        *UNARY,
        kinks=(-1, 0, 1),
    )
for name in ("relu_", "celu_", "elu_", "selu_", "leaky_relu_", "hardtanh_"):
    case(
        f"functional_{name}",
        lambda T, x, n=name: getattr(T.nn.functional, n)(x * 1),
        *UNARY,
        kinks=(-1, 0, 1),
    )
# In place PyTorch's nodes of these are called otherwise (ThresholdBackward1).
case("functional_rrelu_", lambda T, x: T.nn.functional.rrelu_(x * 1), *UNARY, **NO_GRAD)
case("functional_threshold_", lambda T, x: T.nn.functional.threshold_(x * 1, 0.5, 2), *UNARY, **NO_GRAD)
op(
    "prelu",
    ((2, 3), (3,)),
    ((2, 3, 2), (1,)),
    ((4,), (1,)),
    ((), (1,)),
    ((0, 3), (3,)),
    forms="",
    where=F,
    kinks=(0,),
)
op("glu", ((2, 4),), ((3, 2, 2),), forms="", where=F)
op("glu/dim", ((2, 4),), ((4, 0),), forms="", where=F, args=(0,))

# ---- elementwise, two operands
NONZERO = ((-2.0, 2.0), POSITIVE)
binary("add", ref=np.add)
binary("add/alpha", kwargs=(("alpha", 3),), ref=lambda x, y: x + 3 * y)
binary("sub", ref=np.subtract)
binary("sub/alpha", kwargs=(("alpha", 2),))
binary("mul", ref=np.multiply)
binary("div", domain=NONZERO, ref=np.divide)
binary("div/floor", domain=NONZERO, kwargs=(("rounding_mode", "floor"),), ref=np.floor_divide)
binary("div/trunc", domain=NONZERO, kwargs=(("rounding_mode", "trunc"),))
binary("floor_divide", domain=NONZERO, ref=np.floor_divide, differentiable=False)
binary("pow", domain=(POSITIVE, (-2.0, 2.0)), ref=np.power)
binary("maximum", forms="mo", kinks=(9,), ref=np.maximum)
binary("minimum", forms="mo", kinks=(9,), ref=np.minimum)
binary("fmax", forms="mo", kinks=(9,), ref=np.fmax)
binary("fmin", forms="mo", kinks=(9,), ref=np.fmin)
binary("atan2", domain=NONZERO, ref=np.arctan2)
binary("arctan2", domain=NONZERO, ref=np.arctan2)
binary("hypot", domain=NONZERO, ref=np.hypot)
binary("logaddexp", forms="mo", ref=np.logaddexp)
binary("logaddexp2", forms="mo", ref=np.logaddexp2)
binary("xlogy", domain=NONZERO, ref=lambda x, y: x * np.log(y))
binary("xlog1py", domain=NONZERO, where="special", forms="", ref=lambda x, y: x * np.log1p(y))
binary("copysign", domain=((-2.0, -0.2), POSITIVE), ref=np.copysign)
binary("nextafter", ref=np.nextafter, differentiable=False)
binary("heaviside", ref=np.heaviside, differentiable=False)
binary("ldexp", dtypes=("float64", "float32", "int64"), ref=lambda x, y: x * 2.0**y)
binary("float_power", domain=(POSITIVE, (-2.0, 2.0)), ref=np.float_power)
binary("remainder", domain=((2.1, 2.9), (0.4, 0.6)), ref=np.remainder)
binary("fmod", domain=((2.1, 2.9), (0.4, 0.6)), ref=np.fmod)
binary("gcd", domain=(-20, 20), dtypes=("int64", "int32"), **NO_GRAD)
# Beyond int8 PyTorch takes the absolute value before the product wraps.
binary("lcm", domain=(-20, 20), dtypes=("int64", "int32"), unlike=("int8",), **NO_GRAD)
binary("rsub", forms="", strides=False, ref=lambda x, y: y - x)
binary("rsub/alpha", forms="", strides=False, kwargs=(("alpha", 2),), ref=lambda x, y: y - 2 * x)
for name in ("multiply", "subtract", "divide", "true_divide"):
    binary(name, domain=NONZERO, ref=getattr(np, name))
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    binary(name, ref=getattr(operator, name), **NO_GRAD)
for name in ("greater", "greater_equal", "less", "less_equal", "not_equal"):
    binary(name, ref=getattr(np, name), **NO_GRAD)
for name in ("and", "or", "xor"):
    binary(f"logical_{name}", ref=getattr(np, f"logical_{name}"), **NO_GRAD)
    binary(f"bitwise_{name}", ref=None, **NO_GRAD)
binary("bitwise_left_shift", domain=((0, 5), (0, 5)), dtypes=INTS, **NO_GRAD)
binary("bitwise_right_shift", domain=((-9, 9), (0, 5)), dtypes=INTS, **NO_GRAD)
binary("isclose", forms="m", **NO_GRAD)

# ---- elementwise, three operands
op("where", *TERNARY, forms="o", kinds=("bool",), elementwise=True, ref=np.where)
op("lerp", *TERNARY, elementwise=True, ref=lambda x, y, w: x + w * (y - x))
op("addcmul", *TERNARY, elementwise=True, ref=lambda x, y, z: x + y * z)
op("addcmul/value", *TERNARY, kwargs=(("value", 2),), ref=lambda x, y, z: x + 2 * y * z)
op("addcdiv", *TERNARY, elementwise=True, domain=((-2.0, 2.0), *NONZERO), ref=lambda x, y, z: x + y / z)
op("addcdiv/value", *TERNARY, kwargs=(("value", 0.5),), domain=((-2.0, 2.0), *NONZERO))
# PyTorch cannot differentiate clamp twice where its first operand is broadcast.
WHOLE_FIRST = (((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), ()), ((), (), ()), ((0, 3), (3,), (1,)))
op(
    "clamp/tensors",
    *WHOLE_FIRST,
    domain=((-2.0, 2.0), (-1.0, -0.2), (0.2, 1.0)),
    kinks=(9,),
    elementwise=True,
)

# ---- Python numbers and operators; x ** 2 and 2 ** x are kernels of their own
case("pos", lambda T, x: +x, *UNARY)
case("neg_operator", lambda T, x: -x, *UNARY)
case("abs_builtin", lambda T, x: abs(x), *UNARY, kinks=(0,))
case("invert_operator", lambda T, x: ~x, *UNARY, **NO_GRAD)
for symbol in ("add", "sub", "mul", "truediv", "floordiv", "pow"):
    f = getattr(operator, symbol)
    smooth = symbol != "floordiv"
    domain = POSITIVE if symbol in ("truediv", "floordiv", "pow") else (-2.0, 2.0)
    more = {"domain": domain, "differentiable": smooth}
    case(f"{symbol}_operator", lambda T, x, y, f=f: f(x, y), *BINARY, **more)
    case(f"{symbol}_int", lambda T, x, f=f: f(x, 2), *UNARY, **more)
    case(f"{symbol}_float", lambda T, x, f=f: f(x, 2.5), *UNARY, **more)
    case(f"r{symbol}_int", lambda T, x, f=f: f(2, x), *UNARY, strides=symbol != "pow", **more)
    case(f"r{symbol}_float", lambda T, x, f=f: f(2.5, x), *UNARY, strides=symbol != "pow", **more)
for symbol in ("and_", "or_", "xor"):
    f = getattr(operator, symbol)
    case(f"{symbol.strip('_')}_operator", lambda T, x, y, f=f: f(x, y), *BINARY, **NO_GRAD)
    case(f"{symbol.strip('_')}_int", lambda T, x, f=f: f(x, 3), *UNARY, **NO_GRAD)
for symbol in ("lshift", "rshift"):
    f = getattr(operator, symbol)
    more = {"domain": (0, 5), "dtypes": INTS, "differentiable": False}
    case(f"{symbol}_operator", lambda T, x, y, f=f: f(x, y), *BINARY, **more)
for symbol in ("eq", "ne", "lt", "le", "gt", "ge"):
    f = getattr(operator, symbol)
    case(f"{symbol}_operator", lambda T, x, f=f: f(x, 1), *UNARY, **NO_GRAD)
for exponent in (0, 1, 2, 3, -1, 0.5, -0.5, 2.5):
    case(f"pow_{exponent}", lambda T, x, e=exponent: x**e, *UNARY, domain=POSITIVE, elementwise=True)
for name in ("xlogy", "special.xlog1py", "float_power"):
    f = operator.attrgetter(name)
    short = name.removeprefix("special.")
    case(f"{short}_number", lambda T, x, f=f: f(T)(x, 2.5), *UNARY, domain=POSITIVE, elementwise=True)
    case(
        f"{short}_number_first",
        lambda T, x, f=f: f(T)(2.5, x),
        *UNARY,
        domain=POSITIVE,
        elementwise=True,
        strides=short != "float_power",
    )
case("copysign_number", lambda T, x: T.copysign(x, -2), *UNARY, kinks=(0,), elementwise=True)
case("rsub_number", lambda T, x: T.rsub(x, 2.5, alpha=3), *UNARY, elementwise=True, steps=True)
for symbol in ("mod", "lshift", "rshift"):
    f = getattr(operator, symbol)
    smooth = symbol == "mod"
    more = {"domain": (1.1, 1.9), "elementwise": smooth, "differentiable": smooth}
    more["dtypes"] = DTYPES if smooth else ("int64", "int32")
    case(f"{symbol}_number", lambda T, x, f=f: f(x, 2), *UNARY, **more)
case("lerp_scalar", lambda T, x, y: T.lerp(x, y, 0.3), *BINARY)
case("where_scalars", lambda T, c, x: T.where(c, x, 1.5), *BINARY, kinds=("bool",))
case("where_scalar_first", lambda T, c, x: T.where(c, 2, x), *BINARY, kinds=("bool",))
