"""Elementary functions as branch-free source text, because PyPI's Numba has no SVML and `math.exp` in a loop is a call
per element that stops LLVM from vectorising.

Promises the emitter: `TEXT[kind, prim](argument names, fresh)` gives straight-line Python (assignments only) and the
name of its result, for kinds f4 and f8; the text needs PREAMBLE in the kernel's file, no fastmath flag, and Numba's
numpy error model. It says the same under plain Python as compiled (to the ulp; to the bit where the machine has fused
multiply-add). What is not in TEXT has no such text: float64 sin, cos and pow are left to `math`.

Promises the user: the greatest error below, and every special value (zeros with their sign, infinities, NaN, denormals,
both thresholds of overflow and gradual underflow) as C has it. Measured: errors of float32 over each 37th bit pattern
(erf, pow: 5e6 points), of float64 over 1e6 random patterns and dense sweeps, against long double (erf: 1e5 points,
mpmath); times for 1e6 elements, one thread, AVX-512 (a machine with 256-bit vectors needs 1.3 to 1.7 times as long).

            float32           float64                         float32           float64
    exp     0.90 ulp  280 us  0.90 ulp   620 us     log2      1.04 ulp  380 us  1.02 ulp   980 us
    log     0.84      350     0.81       870        log10     1.00      390     0.83       980
    tanh    1.05      340     1.01       960        erf       1.22      385     1.00      1840
    sigmoid 2.00      315     2.00       780        sin       0.51      835
    expm1   1.07      310     1.31       755        cos       0.51      860
    log1p   0.92      425     0.83      1050        pow       0.51     1690
    exp2    0.96      260     0.88       600        (NumPy: exp 390 and 690, sin 450 and 12000)

What exceeds one ulp does so for speed: the sigmoid that carries what its roundings lost was within 0.91 ulp, at 505 us.
Without fused multiply-add the errors grow by up to one ulp. Every polynomial was fitted for this module, by a Remez
exchange in 50-digit arithmetic unless it says otherwise; its comment has degree, interval and error before rounding.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

Text = tuple[list[str], str]
Fn = Callable[[list[str], Callable[[], str]], Text]

F = np.float32

# ----------------------------------------------------------------------------------------------------------------
# The helpers that the text calls. Each is a plain Python function (the twin, for kernels run without Numba) with a
# typing and a lowering of its own below: an LLVM instruction or two at the width of its operands, inlined.
# ----------------------------------------------------------------------------------------------------------------


def f2i(x: Any) -> int:
    """The bits of a float as a signed integer."""
    if isinstance(x, np.float32):
        return int(x.view(np.int32))
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def i2f4(i: int) -> Any:
    """The float32 whose bits are the low 32 bits of i."""
    return np.uint32(i & 0xFFFFFFFF).view(np.float32)


def i2f8(i: int) -> Any:
    """The float64 whose bits are the low 64 bits of i."""
    return np.uint64(i & 0xFFFFFFFFFFFFFFFF).view(np.float64)


def wrap4(i: int) -> int:
    """The low 32 bits of i, signed. Numba computes int32 + int32 in int64; LLVM narrows +, -, *, & and << again when
    only the low half is used, but not >> or a comparison: wrap what is shifted right or compared."""
    return (i + 0x80000000) % 0x100000000 - 0x80000000


def wrap8(i: int) -> int:
    return (i + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


def mad(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, in one rounding where the machine has the instruction."""
    if isinstance(a, np.float32):
        return F(np.float64(a) * np.float64(b) + np.float64(c))
    total = np.float64(a) * b + c
    if not np.isfinite(total):
        return total
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return np.float64(float(exact)) if exact else total


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c in one rounding on every machine: a slow call where it is no instruction."""
    return mad(a, b, c)


def poly(x: Any, coefficients: tuple[float, ...]) -> Any:
    """The polynomial with these coefficients, constant one first, by Horner's rule in mad."""
    kind = F if isinstance(x, np.float32) else np.float64
    total = kind(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = mad(total, x, kind(c))
    return total


def select(condition: Any, a: Any, b: Any) -> Any:
    """a if condition else b, as LLVM's select: both are computed, nothing branches."""
    return a if condition else b


def fabs(x: Any) -> Any:
    return np.abs(x)


def copysign(x: Any, sign: Any) -> Any:
    return np.copysign(x, sign)


def widen(x: Any) -> Any:
    return np.float64(x)


def narrow(x: Any) -> Any:
    return np.float32(x)


def _is_float(*args: Any) -> bool:
    return isinstance(args[0], types.Float) and all(a == args[0] for a in args)


def _lowered(
    helper: Callable[..., Any], typer: Callable[..., Any], types_: tuple[Any, ...], emit: Any
) -> None:
    """Tells Numba the type of a helper's result (None: not for these operands) and how it is made."""
    type_callable(helper)(lambda context: typer)
    lower_builtin(helper, *types_)(emit)


def _intrinsic(builder: Any, name: str, *args: Any) -> Any:
    """Calls an LLVM intrinsic on operands of one float type.

    Also asks for the machine's full vectors in the function that is being lowered: LLVM prefers 256 bits on AVX-512
    machines, and these loops compute, they do not wait for memory (measured: 1.3 to 1.7 times as fast with 512).
    llvmlite refuses attributes it does not know, hence the plain set.add. Elsewhere the attribute means nothing.
    """
    width = "f32" if isinstance(args[0].type, ir.FloatType) else "f64"
    signature = ir.FunctionType(args[0].type, [a.type for a in args])
    set.add(builder.function.attributes, '"prefer-vector-width"="512"')
    return builder.call(
        cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.{width}"), args
    )


def _emit_intrinsic(name: str) -> Callable[..., Any]:
    return lambda context, builder, sig, args: _intrinsic(builder, name, *args)


def _emit_poly(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    x, packed = args
    values = cgutils.unpack_tuple(builder, packed)
    cast = [context.cast(builder, v, t, sig.args[0]) for v, t in zip(values, sig.args[1], strict=True)]
    total = cast[-1]
    for c in cast[-2::-1]:
        total = _intrinsic(builder, "fmuladd", total, x, c)
    return total


def _emit_cast(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], sig.return_type)


def _emit_f2i(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(sig.return_type))


def _emit_i2f(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    to = types.int32 if sig.return_type == types.float32 else types.int64
    bits = context.cast(builder, args[0], sig.args[0], to)
    return builder.bitcast(bits, context.get_value_type(sig.return_type))


def _emit_select(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.select(*args)


def _integer_to(to: Any) -> Callable[..., Any]:
    return lambda i: to if isinstance(i, types.Integer) else None


# fmuladd is one rounding or two, whichever is quick; llvm.fma without the instruction calls libm for each element
_lowered(
    mad, lambda a, b, c: a if _is_float(a, b, c) else None, (types.Float,) * 3, _emit_intrinsic("fmuladd")
)
_lowered(fma, lambda a, b, c: a if _is_float(a, b, c) else None, (types.Float,) * 3, _emit_intrinsic("fma"))
_lowered(fabs, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("fabs"))
_lowered(
    copysign, lambda x, y: x if _is_float(x, y) else None, (types.Float,) * 2, _emit_intrinsic("copysign")
)
_lowered(poly, lambda x, c: x if _is_float(x) else None, (types.Float, types.BaseTuple), _emit_poly)
_lowered(
    select,
    lambda c, a, b: a if c == types.boolean and _is_float(a, b) else None,
    (types.Boolean, types.Float, types.Float),
    _emit_select,
)
_lowered(
    f2i, lambda x: {types.float32: types.int32, types.float64: types.int64}.get(x), (types.Float,), _emit_f2i
)
_lowered(i2f4, _integer_to(types.float32), (types.Integer,), _emit_i2f)
_lowered(i2f8, _integer_to(types.float64), (types.Integer,), _emit_i2f)
_lowered(wrap4, _integer_to(types.int32), (types.Integer,), _emit_cast)
_lowered(wrap8, _integer_to(types.int64), (types.Integer,), _emit_cast)
_lowered(widen, lambda x: types.float64 if x == types.float32 else None, (types.Float,), _emit_cast)
_lowered(narrow, lambda x: types.float32 if x == types.float64 else None, (types.Float,), _emit_cast)

HELPERS = (
    *("F", "f2i", "i2f4", "i2f8", "wrap4", "wrap8", "mad", "fma", "poly", "select", "fabs", "copysign"),
    *("widen", "narrow"),
)
# The digest changes a kernel's text, and so its place in the cache, whenever a helper's meaning may have changed.
_DIGEST = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
PREAMBLE = f"from nbgrad.kernels.vmath import {', '.join(HELPERS)}  # {_DIGEST}\n"

# ----------------------------------------------------------------------------------------------------------------
# Templates. One text serves both widths: a capital name is a constant looked up per kind, a number with a point is
# a float of the kind, f2i ... are spelled per kind, every other assigned name is made fresh.
# ----------------------------------------------------------------------------------------------------------------

TEXT: dict[tuple[str, str], Fn] = {}
_TOKEN = re.compile(r"(?P<number>\b\d+\.\d*(?:e[+-]?\d+)?)|(?P<name>\b[A-Za-z_]\w*)")


def _literal(kind: str, value: Any) -> str:
    """How a constant is spelled in the text of a kind."""
    if isinstance(value, tuple):
        return "(" + ", ".join(repr(float(v)) for v in value) + ",)"
    if isinstance(value, int):
        return repr(value)
    value = float(value)
    text = repr(value).replace("inf", "1e999").replace("nan", "1e999 - 1e999")
    return f"F({text})" if kind == "f4" else text


def _define(prim: str, params: str, source: str | tuple[str, ...], **constants: tuple[Any, Any]) -> None:
    """Registers a primitive's text, whose last assignment is the result. Pairs are (float32's, float64's)."""
    for column, kind in enumerate(("f4", "f8")):
        text = source if isinstance(source, str) else source[column]
        table = {name: _literal(kind, pair[column]) for name, pair in (_SHARED | constants).items()}
        table |= {"i2f": "i2f4", "wrap": "wrap4"} if kind == "f4" else {"i2f": "i2f8", "wrap": "wrap8"}
        TEXT[kind, prim] = _instance(kind, params.split(), text, table)


def _define_wide(prim: str, params: str, source: str, **constants: Any) -> None:
    """Registers a float32 primitive whose text widens its arguments, computes in float64 and narrows the result."""
    table = {"i2f": "i2f8", "wrap": "wrap8"}
    table |= {name: _literal("f8", pair[1]) for name, pair in _SHARED.items()}
    table |= {name: _literal("f8", value) for name, value in constants.items()}
    TEXT["f4", prim] = _instance("f8", params.split(), source, table)


def _instance(kind: str, params: list[str], source: str, table: dict[str, str]) -> Fn:
    lines = [line.split("#")[0].strip() for line in source.splitlines()]
    lines = [line for line in lines if line]
    targets = [line.split("=", 1)[0].strip() for line in lines]
    locals_, result = list(dict.fromkeys(targets)), targets[-1]

    def text(args: list[str], fresh: Callable[[], str]) -> Text:
        names = table | {name: fresh() for name in locals_} | dict(zip(params, args, strict=True))

        def spell(match: re.Match[str]) -> str:
            if match["number"]:
                return _literal(kind, float(match["number"]))
            return names.get(match["name"], match["name"])

        return [_TOKEN.sub(spell, line) for line in lines], names[result]

    return text


_INF = float("inf")
_SHARED: dict[str, tuple[Any, Any]] = {
    "INF": (_INF, _INF),
    "NAN": (float("nan"), float("nan")),
    "MBITS": (23, 52),  # bits of the mantissa
    # v + MAGIC rounds v to an integer and has it in its low bits; v + BIASED has it there with the exponent's bias
    "MAGIC": (1.5 * 2.0**23, 1.5 * 2.0**52),
    "BIASED": (1.5 * 2.0**23 + 127, 1.5 * 2.0**52 + 1023),
    "LOG2E": (1.4426950408889634, 1.4426950408889634),
    # ln 2 in two parts; the first has so many zeros at its end that its product with an exponent is exact
    "LN2_HI": (0.693145751953125, 0.6931471805598903),
    "LN2_LO": (1.4286068203094173e-06, 5.497923018708371e-14),
    # (e^r - 1) / r on |r| <= ln2/2: 1 + r * Remez; degree 5: 2^-28, degree 10: 2^-58 of e^r
    "EXP_POLY": (
        (1.0, 0.5, 0.16666518, 0.041666206, 0.008368889, 0.001395049),
        (1.0, 0.5000000000000012, 0.166666666666667, 0.041666666666515424, 0.008333333333307208, 0.0013888888947015095,
         0.00019841269917380018, 2.4801489942982518e-05, 2.7557216301730603e-06, 2.7631280083940315e-07,
         2.5117861363148666e-08),
    ),
}  # fmt: skip

# e^c = 2^n * (1 + r * p), |r| <= ln2/2
_EXP_CORE = """
t = mad(c, LOG2E, BIASED)
n = t - BIASED
r = mad(n, -LN2_LO, mad(n, -LN2_HI, c))
p = poly(r, EXP_POLY)
"""

# Limits: beyond HI everything rounds to inf, below LO to 0. 2^n is applied in two halves, so that overflow and gradual
# underflow are the last product's own, rounded once; h = n/2 rounded, through the same magic as n.
_define(
    "exp",
    "x",
    f"""
    c = select(x > HI, HI, x)  # a NaN passes both
    c = select(c < LO, LO, c)
    {_EXP_CORE}
    u = mad(n, 0.5, BIASED)
    v = n - (u - BIASED) + BIASED
    y = mad(r, p, 1.0) * i2f(f2i(u) << MBITS) * i2f(f2i(v) << MBITS)
    """,
    HI=(89.0, 710.0),
    LO=(-105.0, -746.0),
)

_define(
    "exp2",
    "x",
    """
    c = select(x > HI, HI, x)
    c = select(c < LO, LO, c)
    t = c + BIASED
    n = t - BIASED
    r = c - n
    u = mad(n, 0.5, BIASED)
    v = n - (u - BIASED) + BIASED
    y = mad(r, poly(r, EXP2_POLY), 1.0) * i2f(f2i(u) << MBITS) * i2f(f2i(v) << MBITS)
    """,
    HI=(129.0, 1025.0),
    LO=(-151.0, -1076.0),
    # (2^r - 1) / r on |r| <= 1/2, Remez; degree 5: 2^-29, degree 10: 2^-58 of 2^r
    EXP2_POLY=(
        (0.6931472, 0.2402265, 0.05550328, 0.009618004, 0.0013400296, 0.00015476329),
        (0.6931471805599453, 0.24022650695910133, 0.05550410866482174, 0.009618129107593276,
         0.0013333558146379036, 0.00015403530458156801, 1.5252733867545145e-05, 1.3215434775520963e-06,
         1.0178046458205174e-07, 7.073867731639563e-09, 4.457387891105178e-10),
    ),
)  # fmt: skip

# (2^n - 1) + 2^n * (r + o + r^2 * p), where o is what r lost: the two large parts are summed with what the sum lost
# (the first is the larger, or 0), at an exponent of at most TOP, so that 2^n is finite; z doubles what was over it.
_define(
    "expm1",
    "x",
    """
    c = select(x > HI, HI, x)
    c = select(c < LO, LO, c)
    t = mad(c, LOG2E, BIASED)
    n = t - BIASED
    g = mad(n, -LN2_HI, c)
    r = mad(n, -LN2_LO, g)
    o = mad(n, -LN2_LO, g - r)
    t = select(t > TOP, TOP, t)
    z = 1.0 + (n - (t - BIASED))
    s = i2f(f2i(t) << MBITS)
    a = s - 1.0
    b = s * r
    h = a + b
    l = b - (h - a)
    v = copysign((h + mad(s, mad(r * r, poly(r, EXPM1_POLY), o), l)) * z, x)
    """,
    HI=(89.0, 710.0),
    LO=(-20.0, -40.0),
    TOP=(1.5 * 2.0**23 + 254, 1.5 * 2.0**52 + 2046),
    EXPM1_POLY=(_SHARED["EXP_POLY"][0][1:], _SHARED["EXP_POLY"][1][1:]),
)

_LOG_CONSTANTS: dict[str, tuple[Any, Any]] = {
    "E_HI": _SHARED["LN2_HI"],
    "E_LO": _SHARED["LN2_LO"],
    "OFFSET": (0x3F2AAAAB, 0x3FE5555555555555),  # the bits of 2/3
    "MAGIC_BITS": (0x4B400000, 0x4338000000000000),
    # float32: (log(1+f) - f + f^2/2) / f^3 on |f| <= 1/3, Remez, degree 7, 2^-27.7 of log(1+f).
    # float64: (log((1+s)/(1-s)) / s - 2) / s^2 in s^2 on |s| <= 1/5, Remez, degree 7, 2^-61.
    "LOG_POLY": (
        (0.33333218, -0.24999799, 0.20010376, -0.1668047, 0.14006296, -0.12184531, 0.13982563, -0.12890568),
        (0.666666666666666, 0.40000000000054814, 0.28571428556160955, 0.2222222426705771, 0.18181667302697205,
         0.15391073251476456, 0.13174149397109788, 0.13839846604489786),
    ),
}  # fmt: skip

# log(1 + f) = f + w, |f| <= 1/3, |w| small: a polynomial, or in float64 fdlibm's form with s = f / (2 + f)
_LOG1P_CORE = (
    """
    g = f * f
    w = g * mad(f, poly(f, LOG_POLY), -0.5)
    """,
    """
    s = f / (2.0 + f)
    z = s * s
    g = 0.5 * f * f
    w = mad(s, mad(z, poly(z, LOG_POLY), g), -g)
    """,
)

# x = 2^e * (1 + f) with 1 + f in [2/3, 4/3). The logarithm to a base is (e * ln 2 + f + w) / ln(base): SCALE is
# 1 / ln(base), E_HI + E_LO that times ln 2, and o completes a = f * SCALE by what the product lost. e * E_HI is exact
# and larger than a (or 0), so l is what the sum m lost.
_LOG_E = """
a = f
o = w
"""
_LOG_BASE = """
a = f * SCALE
o = mad(f, SCALE_LO, mad(w, SCALE, mad(f, SCALE, -a)))
"""
_LOG_SUM = """
h = e * E_HI
m = h + a
l = a - (m - h)
v = m + (l + mad(e, E_LO, o))
"""
_LOG = """
d = x < TINY
y = select(d, x * LIFT, x)
k = wrap(f2i(y) - OFFSET) >> MBITS
f = i2f(f2i(y) - (k << MBITS)) - 1.0
e = i2f(k + MAGIC_BITS) - select(d, LIFTED, MAGIC)
{core}
v = select(x < INF, v, x)  # inf and NaN
v = select(x < 0.0, NAN, v)
v = select(x == 0.0, -INF, v)
"""
for _prim, _scaled, _scales in (
    ("log", _LOG_E, {}),
    ("log2", _LOG_BASE, {
        "E_HI": (1.0, 1.0),
        "E_LO": (0.0, 0.0),
        "SCALE": (1.4426950216293335, 1.4426950408889634),
        "SCALE_LO": (1.925963033500011e-08, 2.0355273740931033e-17),
    }),
    ("log10", _LOG_BASE, {
        "E_HI": (0.301025390625, 0.30102999566395283),
        "E_LO": (4.605038981195214e-06, 2.8363394551044964e-14),
        "SCALE": (0.4342944920063019, 0.4342944819032518),
        "SCALE_LO": (-1.0103050052231683e-08, 1.098319650216765e-17),
    }),
):  # fmt: skip
    _define(
        _prim,
        "x",
        tuple(_LOG.format(core=core + _scaled + _LOG_SUM) for core in _LOG1P_CORE),
        TINY=(2.0**-126, 2.0**-1022),
        LIFT=(2.0**25, 2.0**54),
        LIFTED=(1.5 * 2.0**23 + 25, 1.5 * 2.0**52 + 54),
        **(_LOG_CONSTANTS | _scales),
    )

# As log of u = 1 + x, but f = x * 2^-e + (2^-e - 1) is taken from x itself, with q what its rounding lost (q - f * q is
# its share of the logarithm); where x is large u's own f is as good.
# The sign is x's, zeros' too.
_LOG1P = """
u = 1.0 + x
k = wrap(f2i(u) - OFFSET) >> MBITS
s = i2f(ONE_BITS - (k << MBITS))
c = x < LARGE
f = select(c, mad(x, s, s - 1.0), i2f(f2i(u) - (k << MBITS)) - 1.0)
q = select(c, mad(x, s, s - 1.0 - f), 0.0)
e = i2f(k + MAGIC_BITS) - MAGIC
{core}
w = w + mad(-f, q, q)
{total}
v = select(x < INF, v, x)
v = select(u < 0.0, NAN, v)
v = select(u == 0.0, -INF, v)
v = copysign(v, x)
"""
_define(
    "log1p",
    "x",
    tuple(_LOG1P.format(core=core, total=_LOG_E + _LOG_SUM) for core in _LOG1P_CORE),
    LARGE=(2.0**60, 2.0**60),
    ONE_BITS=(0x3F800000, 0x3FF0000000000000),
    **_LOG_CONSTANTS,
)

# Below 1: x + x^3 P(x^2)/Q(x^2); above: 1 - 2/(e^2x + 1), where what the quotient loses hardly shows. One division.
_define(
    "tanh",
    "x",
    f"""
    a = fabs(x)
    c = select(a > CAP, CAP, a)
    c = c + c
    {_EXP_CORE}
    y = mad(r, p, 1.0) * i2f(f2i(t) << MBITS)
    z = a * a
    b = a < 0.875
    s = select(b, a, 1.0)
    num = select(b, z * poly(z, TANH_P), -2.0)
    den = select(b, poly(z, TANH_Q), y + 1.0)
    v = copysign(mad(s, num / den, s), x)
    """,
    CAP=(10.0, 20.0),
    # (tanh(x)/x - 1) / x^2 in x^2 on [0, 1]: weighted least squares, Lawson's iteration; 2^-32, 2^-60 of tanh(x)
    TANH_P=(
        (-0.3333333, -0.014688445),
        (-0.3333333333333333, -0.021406169795171164, -0.0002431159747219885, -1.719668642740955e-08),
    ),
    TANH_Q=(
        (1.0, 0.44406515, 0.015721932),
        (1.0, 0.4642185093855099, 0.024511989773642457, 0.0002541258739801125),
    ),
)  # fmt: skip

# e^|x| = Y / w with w = 2^-n exact (even when denormal) and Y = e^r = 1 + r * p: the sigmoid of a negative x is
# w / (w + Y), of a positive one Y / (w + Y). Nothing overflows. What Y lost cancels in Y / (Y + w), and
# w / (1 + (r * p + w)) loses less than w / (w + Y).
_define(
    "sigmoid",
    "x",
    """
    c = fabs(x)
    c = select(c > HI, HI, c)
    t = mad(c, -LOG2E, BIASED)
    n = t - BIASED
    r = mad(n, LN2_LO, mad(n, LN2_HI, c))
    p = poly(r, EXP_POLY)
    u = mad(n, 0.5, BIASED)
    w = i2f(f2i(u) << MBITS) * i2f(f2i(n - (u - BIASED) + BIASED) << MBITS)
    b = x > 0.0
    m = select(b, 1.0, w)
    y = mad(r, p, m)
    v = select(b, y, w) / (y + select(b, w, 1.0))
    """,
    HI=(105.0, 746.0),
)

# Below EDGE: x + x * P(x^2); above: 1 - e^-g with g = -log(erfc(x)) a polynomial.
_define(
    "erf",
    "x",
    f"""
    a = fabs(x)
    a = select(a > CAP, CAP, a)
    c = -poly(a, ERFC_LOG)
    {_EXP_CORE}
    y = 1.0 - mad(r, p, 1.0) * i2f(f2i(t) << MBITS)
    v = copysign(select(a < EDGE, mad(a, poly(a * a, ERF_POLY), a), y), x)
    """,
    CAP=(3.95, 5.95),
    EDGE=(0.84, 1.0),
    # erf(a)/a - 1 in a^2, Remez; degree 6 on [0, 0.85]: 2^-31, degree 12 on [0, 1]: 2^-62 of erf(a)
    ERF_POLY=(
        (0.12837917, -0.37612635, 0.11283696, -0.026859393, 0.0052010217, -0.0008142582, 8.3695806e-05),
        (0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072896, 0.005223977624780864,
         -0.0008548326978742073, 0.00012055331036895284, -1.492559350679061e-05, 1.646097281545626e-06,
         -1.6350025206215847e-07, 1.4657879733255431e-08, -1.1365665549352247e-09, 5.945261070420991e-11),
    ),
    # -log(erfc(a)), Remez weighted by erfc(a); degree 6 on [0.84, 3.95]: 2^-28.9, degree 18 on [0.99, 5.95]: 2^-59 of 1
    ERFC_LOG=(
        (1.0390356e-04, 1.1280621e+00, 6.365196e-01, 1.04522906e-01, -2.2516405e-02, 3.1168892e-03, -2.0354819e-04),
        (1.6918968606124468e-07, 1.128377430405787, 0.6366280317382379, 0.10274853187862598, -0.019080640527444282,
         -0.00027693343053328663, 0.001765117578919387, -0.0006378626122364023, 4.259027748297836e-05,
         7.15662423407182e-05, -4.5552327776130463e-05, 1.6690085567069236e-05, -4.374699635343056e-06,
         8.606346399155792e-07, -1.2732551358339632e-07, 1.3818911913959316e-08, -1.0415075982663063e-09,
         4.8764709523649297e-11, -1.0686820829229738e-12),
    ),
)  # fmt: skip

# float32 sine and cosine, in float64: x * 2/pi = n + f, |f| <= 5/8. Of 2/pi, the leading bits that would only add
# multiples of 4 to n are cut, differently for each 24 binades of |x|, so that h is small enough for n to be exact;
# l is what the product h lost. The parity of n says which of the two polynomials it is, its next bit the sign.
_TWO_OVER_PI = Fraction(0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561, 2**256)


def _two_over_pi_from(binade: int) -> tuple[float, float]:
    """2/pi without what is a multiple of 4 when multiplied by any float32 from 2^binade on, in two parts."""
    cut = Fraction(1, 2 ** max(binade - 25, 0))
    rest = _TWO_OVER_PI % cut
    high = float(rest)
    return high, float(rest - Fraction(high))


_TIERS = {b: _two_over_pi_from(b) for b in (0, 24, 48, 72, 96, 120)}
_TRIGONOMETRIC = (
    """
z = widen(x)
a = fabs(z)
g = HI0
q = LO0
"""
    + "".join(
        f"""
c = a < EDGE{b}
g = select(c, g, HI{b})
q = select(c, q, LO{b})
"""
        for b in list(_TIERS)[1:]
    )
    + """
h = z * g
l = fma(z, g, -h)
t = h + MAGIC
f = h - (t - MAGIC) + mad(z, q, l)
u = f * f
s = f * poly(u, SIN_POLY)
c = poly(u, COS_POLY)
i = {quadrant}
v = select(i & 1 == 0, s, c)
v = i2f(f2i(v) ^ ((i & 2) << 62))
"""
)
for _prim, _quadrant, _end in (
    ("sin", "f2i(t)", "r = select(widen(x) == 0.0, x, narrow(v))  # the sign of a zero"),
    ("cos", "f2i(t) + 1", "r = narrow(v)"),
):
    _define_wide(
        _prim,
        "x",
        _TRIGONOMETRIC.format(quadrant=_quadrant) + _end,
        **{f"HI{b}": high for b, (high, _) in _TIERS.items()},
        **{f"LO{b}": low for b, (_, low) in _TIERS.items()},
        **{f"EDGE{b}": 2.0**b for b in _TIERS},
        # sin(pi/2 f) / f and cos(pi/2 f) in f^2 on |f| <= 5/8, Remez, degree 4: 2^-34 and 2^-31
        SIN_POLY=(1.5707963267266987, -0.6459640890226751, 0.07969245569167115, -0.004680546584065879,
                  0.00015693350177612819),
        COS_POLY=(0.9999999994211615, -1.2337004828919995, 0.2536682173512809, -0.020854646024555477,
                  0.0008942383986673761),
    )  # fmt: skip

# float32 x ** y, in float64: 2^(y * log2 |x|), then C's rules for signs and special values.
_define_wide(
    "pow",
    "x y",
    """
    b = widen(x)
    y0 = widen(y)
    a = fabs(b)
    k = (f2i(a) - OFFSET) >> MBITS
    f = i2f(f2i(a) - (k << MBITS)) - 1.0
    s = f / (2.0 + f)
    l = i2f(k + MAGIC_BITS) - MAGIC + s * poly(s * s, LOG2_POLY)
    l = select(a == INF, INF, l)
    l = select(a == 0.0, -INF, l)
    e = select(l == 0.0, 0.0, y0 * l)  # 1 to any power, -1 to an infinite one
    e = select(e > 200.0, 200.0, e)
    e = select(e < -200.0, -200.0, e)
    t = e + BIASED
    r = e - (t - BIASED)
    v = mad(r, poly(r, EXP2_POLY), 1.0) * i2f(f2i(t) << MBITS)
    c = select(y0 > BIG, BIG, y0)  # an even number, as every float32 from 2^25 on
    c = select(c < -BIG, -BIG, c)
    h = 0.5 * c
    d = select(h + MAGIC - MAGIC == h, 1.0, copysign(1.0, b))  # the sign, if y is an integer
    i = c + MAGIC - MAGIC == c
    w = select(b == -INF, v, select(b < 0.0, NAN, v))
    v = select(i, v * d, w)
    v = select(b == b, v, b)
    r0 = narrow(select(y0 == 0.0, 1.0, v))
    """,
    OFFSET=_LOG_CONSTANTS["OFFSET"][1],
    MAGIC_BITS=_LOG_CONSTANTS["MAGIC_BITS"][1],
    BIG=2.0**40,
    # log2((1+s)/(1-s)) / s in s^2 on |s| <= 1/5, Remez, degree 5: 2^-42; (2^r - 1) / r on |r| <= 1/2, degree 6: 2^-34
    LOG2_POLY=(2.8853900817774205, 0.961796694831778, 0.5770777541033781, 0.4122262931615685, 0.3192811775075733,
               0.29087425508957987),
    EXP2_POLY=(0.6931471805416257, 0.24022651076303012, 0.05550410962687649, 0.00961803683780431,
               0.0013333430683889354, 0.00015467135602297135, 1.5314972130879518e-05),
)  # fmt: skip
