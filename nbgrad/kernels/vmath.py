"""Branch-free elementary functions as source text, for loops that LLVM must vectorise."""

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
from numba.core import cgutils, types
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


@type_callable(fabs)
def _(context: Any) -> Any:
    return lambda x: x if isinstance(x, types.Float) else None


@type_callable(copysign)
def _(context: Any) -> Any:
    return lambda x, sign: x if isinstance(x, types.Float) and x == sign else None


@type_callable(mad)
def _(context: Any) -> Any:
    return lambda a, b, c: a if isinstance(a, types.Float) and a == b == c else None


@type_callable(poly)
def _(context: Any) -> Any:
    return lambda x, c: x if isinstance(x, types.Float) else None


@type_callable(select)
def _(context: Any) -> Any:
    return lambda c, a, b: a if a == b and c == types.boolean else None


@type_callable(f2i)
def _(context: Any) -> Any:
    return lambda x: {types.float32: types.int32, types.float64: types.int64}.get(x)


for _f, _t in ((i2f4, types.float32), (i2f8, types.float64), (wrap4, types.int32), (wrap8, types.int64)):

    @type_callable(_f)
    def _(context: Any, to: Any = _t) -> Any:
        return lambda i: to if isinstance(i, types.Integer) else None


def _intrinsic(builder: Any, name: str, *args: Any) -> Any:
    """Calls an LLVM intrinsic on operands of one float type.

    Also asks for the machine's full vectors in the function that is being lowered: LLVM prefers 256 bits on AVX-512
    machines, and these loops compute, they do not wait for memory (measured: 1.3 to 1.7 times as fast with 512).
    llvmlite refuses attributes it does not know, hence the plain set.add. Elsewhere the attribute means nothing.
    """
    width = "f32" if isinstance(args[0].type, ir.FloatType) else "f64"
    signature = ir.FunctionType(args[0].type, [a.type for a in args])
    set.add(builder.function.attributes, '"prefer-vector-width"="512"')
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, f"{name}.{width}"), args)


@lower_builtin(mad, types.Float, types.Float, types.Float)
def _(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    # fmuladd, not fma: without the instruction it is a product and a sum, where fma would call libm per element.
    return _intrinsic(builder, "llvm.fmuladd", *args)


@lower_builtin(poly, types.Float, types.BaseTuple)
def _(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    x, packed = args
    values = cgutils.unpack_tuple(builder, packed)
    cast = [context.cast(builder, v, t, sig.args[0]) for v, t in zip(values, sig.args[1], strict=True)]
    total = cast[-1]
    for c in cast[-2::-1]:
        total = _intrinsic(builder, "llvm.fmuladd", total, x, c)
    return total


@lower_builtin(select, types.Boolean, types.Float, types.Float)
def _(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.select(*args)


@lower_builtin(fabs, types.Float)
def _(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _intrinsic(builder, "llvm.fabs", *args)


@lower_builtin(copysign, types.Float, types.Float)
def _(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return _intrinsic(builder, "llvm.copysign", *args)


@lower_builtin(f2i, types.Float)
def _(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(sig.return_type))


@lower_builtin(i2f4, types.Integer)
@lower_builtin(i2f8, types.Integer)
def _(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    to = types.int32 if sig.return_type == types.float32 else types.int64
    bits = context.cast(builder, args[0], sig.args[0], to)
    return builder.bitcast(bits, context.get_value_type(sig.return_type))


@lower_builtin(wrap4, types.Integer)
@lower_builtin(wrap8, types.Integer)
def _(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], sig.return_type)


HELPERS = ("F", "f2i", "i2f4", "i2f8", "wrap4", "wrap8", "mad", "poly", "select", "fabs", "copysign")
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


def _define(prim: str, params: str, source: str | tuple[str, str], **constants: tuple[Any, Any]) -> None:
    """Registers a primitive's text, whose last assignment is the result. Pairs are (float32's, float64's)."""
    for column, kind in enumerate(("f4", "f8")):
        text = source if isinstance(source, str) else source[column]
        table = {name: _literal(kind, pair[column]) for name, pair in (_SHARED | constants).items()}
        table |= {"i2f": "i2f4", "wrap": "wrap4"} if kind == "f4" else {"i2f": "i2f8", "wrap": "wrap8"}
        TEXT[kind, prim] = _instance(kind, params.split(), text, table)


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

_LOG_CONSTANTS: dict[str, tuple[Any, Any]] = {
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

# x = 2^e * (1 + f) with 1 + f in [2/3, 4/3); e * LN2_HI is exact and larger than f (or 0), so l is what h + f lost.
_LOG = """
d = x < TINY
y = select(d, x * LIFT, x)
k = wrap(f2i(y) - OFFSET) >> MBITS
f = i2f(f2i(y) - (k << MBITS)) - 1.0
e = i2f(k + MAGIC_BITS) - select(d, LIFTED, MAGIC)
{core}
h = e * LN2_HI
m = h + f
l = f - (m - h)
v = m + (l + mad(e, LN2_LO, w))
v = select(x < INF, v, x)  # inf and NaN
v = select(x < 0.0, NAN, v)
v = select(x == 0.0, -INF, v)
"""
_define(
    "log",
    "x",
    tuple(_LOG.format(core=core) for core in _LOG1P_CORE),
    TINY=(2.0**-126, 2.0**-1022),
    LIFT=(2.0**25, 2.0**54),
    LIFTED=(1.5 * 2.0**23 + 25, 1.5 * 2.0**52 + 54),
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
