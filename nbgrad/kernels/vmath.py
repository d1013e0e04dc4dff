"""Elementary functions as branch-free source text, because PyPI's Numba has no SVML and `math.exp` in a loop is a call
per element that stops LLVM from vectorising.

Promises the emitter: `TEXT[kind, prim](argument names, fresh)` gives straight-line Python (assignments only) and the
name of its result, for kinds f4 and f8; the text needs PREAMBLE in the kernel's file, no fastmath flag, and Numba's
numpy error model. It says the same under plain Python as compiled (to the ulp; to the bit where the machine has fused
multiply-add). What is not in TEXT has no such text: float64 pow is left to `math`, fmod is the helper `quick_fmod`, which
branches, and the gamma, Bessel and normal functions are definitions in these primitives (`expr/special.py`).

Promises the user: the greatest error below, and every special value (zeros with their sign, infinities, NaN, denormals,
both thresholds of overflow and gradual underflow) as C has it. Measured (`python -m tests.kernels.vmath_table`): errors
over 2e6 and 5e5 points, random bit patterns and dense sweeps, against long double; times for 1e6 elements, one thread of
a busy AVX-512 machine (one with 256-bit vectors needs 1.3 to 1.7 times as long).

            float32           float64                         float32           float64
    exp     0.90 ulp  280 us  0.90 ulp   660 us     asin    0.60 ulp  450 us  0.61 ulp  1470 us
    log     0.84      370     0.81       910        acos    0.61      460     0.59      1580
    expm1   1.07      360     1.40      1110        atan    1.25      400     1.08      1360
    log1p   0.92      500     0.83      1070        atan2   0.54     1180     1.06      2090
    exp2    0.96      310     0.88       630        sinh    1.57      390     1.64      1020
    log2    1.05      390     1.02      1490        cosh    1.31      330     1.30       770
    log10   1.00      450     0.93       990        tanh    1.05      410     1.01       980
    sin     0.50      760     0.79      3800        asinh   0.78      840     0.67      2830
    cos     0.50      800     0.78      3600        acosh   2.00      740     1.99      1800
    tan     0.51     1000     2.13      4600        atanh   0.89      760     0.86      2160
    erf     1.22      440     1.00      1780        sigmoid 2.00      360     2.00       800
    erfc    2.30      730     2.35      2400        erfinv  2.65      920     (expr/special.py)
    pow     0.51     1660     (math.pow)            (NumPy: exp 390 and 690, sin 450 and 12000)

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
from functools import cache
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


def select_int(condition: Any, a: int, b: int) -> int:
    return a if condition else b


@cache
def _two_over_pi_table() -> tuple[float, ...]:
    """Four doubles for each 16 binades of float64, from 2^0 on, times 2^128 so that none is denormal."""
    digits = _pi_digits(1400)
    table: list[float] = []
    for tier in range(65):
        rest = Fraction(2**1401, digits) % Fraction(2) ** (54 - 16 * tier)
        rest *= 2**128
        for _ in range(4):
            table.append(float(rest))
            rest -= Fraction(table[-1])
    return tuple(table)


def _pi_digits(bits: int) -> int:
    """pi * 2^bits, by Machin's formula."""

    def inverse_tangent(n: int) -> int:
        term = total = (1 << bits + 16) // n
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total

    return 4 * (4 * inverse_tangent(5) - inverse_tangent(239)) >> 16


def two_over_pi(i: int) -> Any:
    """The i-th double of the table of 2/pi, four for each 16 binades of float64."""
    return np.float64(_two_over_pi_table()[i])


def nearest(x: Any) -> Any:
    """x rounded to a whole number, ties to even."""
    return np.rint(x)


def fabs(x: Any) -> Any:
    return np.abs(x)


def copysign(x: Any, sign: Any) -> Any:
    return np.copysign(x, sign)


def root(x: Any) -> Any:
    return np.sqrt(x)


def quick_fmod(x: Any, y: Any) -> Any:
    """fmod: from the quotient where that has no more digits than a float, else by a call. It branches, so that nothing vectorises."""
    return np.fmod(x, y)


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


def _emit_select_int(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    a, b = (context.cast(builder, v, t, types.int64) for v, t in zip(args[1:], sig.args[1:], strict=True))
    return builder.select(args[0], a, b)


def _emit_two_over_pi(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The table is a constant of the module, from which LLVM can gather."""
    values = _two_over_pi_table()
    kind = ir.ArrayType(ir.DoubleType(), len(values))
    held = cgutils.global_constant(builder, "two_over_pi", ir.Constant(kind, values))
    at = context.cast(builder, args[0], sig.args[0], types.int64)
    return builder.load(builder.gep(held, [ir.Constant(ir.IntType(64), 0), at], inbounds=True))


def _emit_quick_fmod(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The quotient rounded is the whole quotient or, where it was rounded up to a whole number, one more: the rest, exact in one
    rounding, then has the other sign."""
    x, y = args
    digits = 2.0**24 if sig.return_type == types.float32 else 2.0**53
    a, b = (_intrinsic(builder, "fabs", v) for v in args)
    q = _intrinsic(builder, "trunc", builder.fdiv(a, b))
    few = builder.fcmp_ordered("<", q, ir.Constant(q.type, digits))
    with builder.if_else(few, likely=True) as (quick, slow):
        with quick:
            rest = _intrinsic(builder, "fma", builder.fneg(q), b, a)
            negative = builder.fcmp_ordered("<", rest, ir.Constant(q.type, 0.0))
            rest = builder.select(negative, builder.fadd(rest, b), rest)
            rest = builder.select(builder.fcmp_ordered("<", a, b), a, rest)
            found = _intrinsic(builder, "copysign", rest, x)
            quick_block = builder.block
        with slow:
            # not frem, which LLVM takes for cheap and computes for all
            c_name = "fmodf" if sig.return_type == types.float32 else "fmod"
            libm = ir.FunctionType(q.type, [q.type, q.type])
            called = builder.call(cgutils.get_or_insert_function(builder.module, libm, c_name), [x, y])
            slow_block = builder.block
    result = builder.phi(q.type)
    result.add_incoming(found, quick_block)
    result.add_incoming(called, slow_block)
    return result


def _integer_to(to: Any) -> Callable[..., Any]:
    return lambda i: to if isinstance(i, types.Integer) else None


# fmuladd is one rounding or two, whichever is quick; llvm.fma without the instruction calls libm for each element
_lowered(
    mad, lambda a, b, c: a if _is_float(a, b, c) else None, (types.Float,) * 3, _emit_intrinsic("fmuladd")
)
_lowered(fma, lambda a, b, c: a if _is_float(a, b, c) else None, (types.Float,) * 3, _emit_intrinsic("fma"))
_lowered(nearest, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("nearbyint"))
_lowered(
    select_int,
    lambda c, a, b: types.int64 if c == types.boolean else None,
    (types.Boolean, types.Integer, types.Integer),
    _emit_select_int,
)
_lowered(two_over_pi, _integer_to(types.float64), (types.Integer,), _emit_two_over_pi)
_lowered(quick_fmod, lambda x, y: x if _is_float(x, y) else None, (types.Float,) * 2, _emit_quick_fmod)
_lowered(root, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("sqrt"))
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
    *(
        "F",
        "f2i",
        "i2f4",
        "i2f8",
        "wrap4",
        "wrap8",
        "mad",
        "fma",
        "poly",
        "select",
        "select_int",
        "two_over_pi",
        "nearest",
        "fabs",
        "copysign",
    ),
    *("root", "quick_fmod", "widen", "narrow"),
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


def _define(
    prim: str,
    params: str,
    source: str | tuple[str, ...],
    kinds: tuple[str, ...] = ("f4", "f8"),
    /,
    **constants: tuple[Any, Any],
) -> None:
    """Registers a primitive's text, whose last assignment is the result. Pairs are (float32's, float64's)."""
    for column, kind in enumerate(kinds):
        text = source if isinstance(source, str) else source[column]
        table = {name: _literal(kind, pair[column]) for name, pair in (_SHARED | constants).items()}
        table |= {"i2f": "i2f4", "wrap": "wrap4"} if kind == "f4" else {"i2f": "i2f8", "wrap": "wrap8"}
        TEXT[kind, prim] = _instance(kind, params.split(), text, table)


def _define_double(prim: str, params: str, source: str, **constants: Any) -> None:
    """Registers a float64 primitive's text."""
    table = {"i2f": "i2f8", "wrap": "wrap8"}
    table |= {name: _literal("f8", pair[1]) for name, pair in _SHARED.items()}
    table |= {name: _literal("f8", value) for name, value in constants.items()}
    TEXT["f8", prim] = _instance("f8", params.split(), source, table)


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
        (1.0, 0.5000000000000012, 0.166666666666667, 0.041666666666515424, 0.008333333333307208,
         0.0013888888947015095,
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

# x * P(w), w = -log(1 - x^2), below w = EDGE; above a polynomial in the root of w. In float64 it is a definition in expr/special.py.
_define(
    "erfinv",
    "x",
    f"""
    c = fabs(x)
    y = (1.0 - c) * (1.0 + c)
    k = wrap(f2i(y) - OFFSET) >> MBITS
    f = i2f(f2i(y) - (k << MBITS)) - 1.0
    e = i2f(k + MAGIC_BITS) - MAGIC
    {_LOG1P_CORE[0]}
    {_LOG_E + _LOG_SUM}
    w = -v
    b = w < 6.25
    s = root(select(b, 6.25, w))
    v = x * select(b, poly(mad(w, 0.32, -1.0), NEAR), poly(mad(s, FAR_SCALE, FAR_SHIFT), FAR))
    v = select(c < 1.0, v, select(c == 1.0, copysign(INF, x), NAN))
    """,
    ("f4",),
    FAR_SCALE=(1 / 0.75, None),
    FAR_SHIFT=(-3.25 / 0.75, None),
    # erfinv(x) / x on w in [0, 6.25] and on sqrt(w) in [2.5, 4], both mapped to [-1, 1]; degrees 11 and 9: 2^-27
    NEAR=(
        (1.6536546, 0.7504943, -0.058922954, -0.022604302, 0.017812906, -0.0041390457, -0.0012911827, 0.0012401178,
         -0.00022648746, -0.00013252553, 5.9301685e-05, 6.5434557e-07),
        None,
    ),
    FAR=(
        (3.0838857, 0.7539442, 0.0030213683, -0.0015825699, 0.00078646577, -0.00040039764, 0.00017489638,
         -4.8105256e-05, -3.7514012e-06, 6.0628563e-06),
        None,
    ),
    **_LOG_CONSTANTS,
)  # fmt: skip

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

_ERF_POLY = {
    # erf(a)/a - 1 in a^2, Remez; degree 6 on [0, 0.85]: 2^-31, degree 12 on [0, 1]: 2^-62 of erf(a)
    "ERF_POLY": (
        (0.12837917, -0.37612635, 0.11283696, -0.026859393, 0.0052010217, -0.0008142582, 8.3695806e-05),
        (0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072896, 0.005223977624780864,
         -0.0008548326978742073, 0.00012055331036895284, -1.492559350679061e-05, 1.646097281545626e-06,
         -1.6350025206215847e-07, 1.4657879733255431e-08, -1.1365665549352247e-09, 5.945261070420991e-11),
    ),
}  # fmt: skip
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
    **_ERF_POLY,
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

# Below 1/2: 1 - erf(x); above: e^-a^2 * q * P(q), q = 1 / (a + SHIFT), with what a^2 and q lost.
_define(
    "erfc",
    "x",
    """
    a = fabs(x)
    a = select(a > CAP, CAP, a)
    h = a * a
    t = mad(-h, LOG2E, BIASED)
    n = t - BIASED
    r = mad(n, -LN2_LO, mad(n, -LN2_HI, -h)) - mad(a, a, -h)
    u = mad(n, 0.5, BIASED)
    v = n - (u - BIASED) + BIASED
    d = a + SHIFT
    q = 1.0 / d
    o = mad(-q, d, 1.0) - q * select(a < SHIFT, a - (d - SHIFT), SHIFT - (d - a))
    g = poly(q, ERFC_POLY)
    w = q * g
    l = mad(w, o * mad(SLOPE, q, 1.0), mad(q, g, -w))
    y = (w + mad(r * poly(r, EXP_POLY), w + l, l)) * i2f(f2i(u) << MBITS) * i2f(f2i(v) << MBITS)
    y = select(x < 0.0, 2.0 - y, y)
    v = select(a < 0.5, 1.0 - mad(x, poly(h, ERF_POLY), x), y)
    """,
    CAP=(10.2, 27.5),
    SHIFT=(2.0, 3.0),
    SLOPE=(2.7, 6.9),  # q P(q) changes by so many times q more than q, in proportion
    # e^a^2 erfc(a) / q in q on a in [1/2, CAP]; degree 9: 2^-28.4, degree 21: 2^-58
    ERFC_POLY=(
        (0.56416994, 1.1294283, 1.9507307, 3.1258109, 0.31201315, 11.092096, -38.985306, 24.171091, 25.485178,
         -26.988525),
        (0.5641895835413796, 1.6925687521112474, 4.795611303613707, 12.694275918611178, 30.888911838220594,
         67.29527112043401, 124.21429437848165, 180.06217420109664, -49.17685237128616, 1219.6198913819185,
         -19223.467080738254, 147114.2665901706, -1045651.7073609864, 5943505.1938732, -26918240.94300446,
         97312715.87692714, -271891371.8254618, 565033805.7157208, -839484800.9508502, 842833318.2419939,
         -513546580.11648905, 143846737.89704967),
    ),
    **_ERF_POLY,
)  # fmt: skip

# ----------------------------------------------------------------------------------------------------------------
# Inverse and hyperbolic functions. Polynomials from here on are Chebyshev expansions, cut at the stated error.
# ----------------------------------------------------------------------------------------------------------------

_HALF_PI = {
    "PIO2": (1.5707963705062866, 1.5707963267948966),
    "PIO2_LO": (-4.371138828673793e-08, 6.123233995736766e-17),
}
_ATAN_POLY = {
    # (atan(t) / t - 1) / t^2 in t^2 on [0, 1]: 2^-28, 2^-59
    "ATAN_POLY": (
        (-0.333333331, 0.199999547, -0.142841429, 0.110896555, -0.0893885729, 0.0705189947, -0.049295071,
         0.0266320502, -0.00931730643, 0.00152672783),
        (-0.3333333333333333, 0.1999999999999993, -0.14285714285702705, 0.11111111110352798, -0.09090909064508393,
         0.0769230712684966, -0.0666665853335446, 0.058822696933998185, -0.05262526386695121, 0.04758246991364233,
         -0.04331281380068527, 0.03940526793346739, -0.035313691628739464, 0.030407652109228737,
         -0.024301409497971608, 0.017307274423020397, -0.010518978143921512, 0.005211022500441266,
         -0.0019949297771264386, 0.0005488438197461805, -9.599161795800566e-05, 7.983894222371875e-06),
    ),
}  # fmt: skip
# atan of num / den, num <= den, in t + p, where o is what the quotient t lost
_ATAN_CORE = """
z = t * t
p = mad(t * z, poly(z, ATAN_POLY), o * mad(-0.5, z, 1.0))
"""
# pi/2 - (t + p), to the last digit
_FROM_HALF_PI = """
d = PIO2 - t
r = d + (PIO2 - d - t - (p - PIO2_LO))
"""
_define(
    "atan",
    "x",
    f"""
    a = fabs(x)
    a = select(a > CAP, CAP, a)
    b = a > 1.0
    q = 1.0 / select(b, a, 1.0)
    t = select(b, q, a)
    o = select(b, q * mad(-q, a, 1.0), 0.0)
    {_ATAN_CORE}
    {_FROM_HALF_PI}
    v = copysign(select(b, r, t + p), x)
    """,
    CAP=(1e30, 1e300),
    **_HALF_PI,
    **_ATAN_POLY,
)

# In float32 by way of float64, where nothing is lost.
_ATAN2 = f"""
    a = fabs(y0)
    b = fabs(x0)
    w = a > b
    n = select(w, b, a)
    d = select(w, a, b)
    t = select(n == d, select(d == 0.0, 0.0, 1.0), n / d)
    @LOST@
    {_ATAN_CORE}
    {_FROM_HALF_PI}
    t = select(w, r, t + p)
    p = 0.0
    d = PI - t
    r = d + (PI - d - t + PI_LO)
    v = copysign(select(copysign(1.0, x0) < 0.0, r, t), y0)
    v = select(x0 == x0, v, x0)
    v = select(y0 == y0, v, y0)
"""
_PI = {"PI": (0.0, 3.141592653589793), "PI_LO": (0.0, 1.2246467991473532e-16), "TINY": (0.0, 2.0**-1021)}
_QUOTIENT_LOST = """
m = select(d < TINY, 1.0, d)
o = select(n < d, mad(-t, select(d < INF, m, 0.0), select(d < INF, n, 0.0)) / m, 0.0)
o = select(d < TINY, 0.0, o)
"""
_define(
    "atan2", "y0 x0", ("v = y0", _ATAN2.replace("@LOST@", _QUOTIENT_LOST)), **_HALF_PI, **_ATAN_POLY, **_PI
)
_define_wide(
    "atan2",
    "y1 x1",
    "y0 = widen(y1)\nx0 = widen(x1)" + _ATAN2.replace("@LOST@", "o = 0.0") + "u = narrow(v)",
    **{name: pair[1] for name, pair in (_HALF_PI | _PI).items()},
    ATAN_POLY=_ATAN_POLY["ATAN_POLY"][0],
)

# asin(a) for a <= 1/2 is s + p with s = a, above pi/2 - 2 (s + p) with s = sqrt((1 - a) / 2), of which o is what the root lost.
_ASIN_CORE = """
a = fabs(x)
b = a > 0.5
z = select(b, mad(-0.5, a, 0.5), a * a)
t = select(b, root(z), a)
o = select(b, mad(-t, t, z) / select(t > 0.0, t + t, 1.0), 0.0)
p = mad(t * z, poly(z, ASIN_POLY), o)
"""
_ASIN_POLY = {
    # (asin(s) / s - 1) / s^2 in s^2 on [0, 1/4]: 2^-27, 2^-58
    "ASIN_POLY": (
        (0.166666663, 0.0750009876, 0.0445980322, 0.0311161564, 0.0170778594, 0.0338057483),
        (0.16666666666666666, 0.07500000000000125, 0.04464285714253574, 0.030381944476963723, 0.02237215737767329,
         0.01735281834070849, 0.013963748435199949, 0.011566830427132645, 0.009618864779963437,
         0.009335970060991405, 0.0029838811037374503, 0.01970071180526169, -0.01944563642504257,
         0.0297378456439969),
    ),
}  # fmt: skip
_define(
    "asin",
    "x",
    f"""
    {_ASIN_CORE}
    h = PIO2 - (t + t)
    l = PIO2 - h - (t + t)
    v = copysign(select(b, h + (l - (p + p - PIO2_LO)), t + p), x)
    """,
    **_HALF_PI,
    **_ASIN_POLY,
)
_define(
    "acos",
    "x",
    f"""
    {_ASIN_CORE}
    g = t + p
    c = x > 0.0
    k = select(b, 1.0, select(c, 1.0, -1.0))
    t = t * k
    p = p * k
    {_FROM_HALF_PI}
    v = select(b, 2.0 * select(c, g, r), r)
    """,
    **_HALF_PI,
    **_ASIN_POLY,
)

# e^a / 2 and its inverse; sinh below 1 is a polynomial
_EXP_HALF = f"""
a = fabs(x)
c = select(a > HI, HI, a)
{_EXP_CORE}
u = mad(n - 1.0, 0.5, BIASED)
v = n - 1.0 - (u - BIASED) + BIASED
y = mad(r, p, 1.0) * i2f(f2i(u) << MBITS) * i2f(f2i(v) << MBITS)
w = 0.25 / y
"""
_HYPERBOLIC_HI = {"HI": (90.0, 711.0)}
_define(
    "sinh",
    "x",
    f"""
    {_EXP_HALF}
    z = a * a
    v = copysign(select(a < 1.0, mad(a * z, poly(z, SINH_POLY), a), y - w), x)
    """,
    # (sinh(x) / x - 1) / x^2 in x^2 on [0, 1]: 2^-29, 2^-60
    SINH_POLY=(
        (0.166666666, 0.00833333968, 0.000198381004, 2.80629044e-06),
        (0.16666666666666666, 0.008333333333333299, 0.0001984126984132422, 2.755731919137273e-06,
         2.5052117697660347e-08, 1.605767946801234e-10, 7.746183786252816e-13),
    ),
    **_HYPERBOLIC_HI,
)  # fmt: skip
_define("cosh", "x", _EXP_HALF + "v = select(a < INF, y + w, a)", **_HYPERBOLIC_HI)

# log(m + l), m of which is larger: as the logarithm of m, completed by l / m. Not for infinities.
_LOG_OF_SUM = """
k = wrap(f2i(m) - OFFSET) >> MBITS
f = i2f(f2i(m) - (k << MBITS)) - 1.0
e = i2f(k + MAGIC_BITS) - MAGIC + more
{core}
w = w + l / m
a = f
o = w
h = e * E_HI
g = h + a
l = a - (g - h)
v = g + (l + mad(e, E_LO, o))
"""
# asinh: from 1/2 on log(a + sqrt(a^2 + 1)), the sum with what it lost; beyond BIG log(2 a)
_ASINH = """
y0 = fabs(x)
z0 = y0 * y0
s0 = mad(y0 * z0, poly(z0, ASINH_POLY), y0)
c = y0 > BIG
y = select(y0 < CAP, y0, CAP)
q = select(c, 0.0, y)
n = mad(q, q, 1.0)
r = root(n)
u = select(c, 0.0, (mad(q, q, 1.0 - n) + mad(-r, r, n)) / (r + r))
r = select(c, 0.0, r)
b = select(y > r, y, r)
d = select(y > r, r, y)
m = b + d
l = d - (m - b) + u
more = select(c, 1.0, 0.0)
{log}
v = select(z0 < 0.25, s0, v)
v = copysign(select(y0 < INF, v, y0), x)
"""
_define(
    "asinh",
    "x",
    tuple(_ASINH.format(log=_LOG_OF_SUM.format(core=core)) for core in _LOG1P_CORE),
    BIG=(2.0**14, 2.0**30),
    CAP=(3.4028234663852886e38, 1.7976931348623157e308),
    # (asinh(x) / x - 1) / x^2 in x^2 on [0, 1/4]: 2^-27, 2^-58
    ASINH_POLY=(
        (-0.166666666, 0.0749997371, -0.0446302801, 0.0301590459, -0.0205398214, 0.00995725099),
        (-0.16666666666666666, 0.07499999999999923, -0.04464285714268337, 0.030381944428969857,
         -0.022372158373239637, 0.01735274455217794, -0.013964489019535602, 0.011547529817394642,
         -0.009726056378038469, 0.008183786818441605, -0.006478355771548059, 0.004144066666459071,
         -0.0015026335072523796),
    ),
    **_LOG_CONSTANTS,
)  # fmt: skip

# acosh(x) = log1p(t + sqrt(2 t + t^2)), t = x - 1
_define(
    "acosh",
    "x0",
    tuple(
        """
        y0 = select(x0 > BIG, BIG, x0)
        t0 = y0 - 1.0
        x = t0 + root(mad(t0, t0, t0 + t0))
        x = select(x0 > BIG, x0 - 1.0, x)
        """
        + _LOG1P.format(core=core, total=_LOG_E + _LOG_SUM)
        + """
        v = select(x0 > BIG, v + LN2, v)
        v = select(x0 < 1.0, NAN, v)
        """
        for core in _LOG1P_CORE
    ),
    LN2=(0.6931471805599453, 0.6931471805599453),
    BIG=(2.0**14, 2.0**30),
    LARGE=(2.0**60, 2.0**60),
    ONE_BITS=(0x3F800000, 0x3FF0000000000000),
    **_LOG_CONSTANTS,
)

# atanh: from 1/2 on log1p(2 a / (1 - a)) / 2
_define(
    "atanh",
    "x0",
    tuple(
        """
        a0 = fabs(x0)
        z0 = a0 * a0
        s0 = mad(a0 * z0, poly(z0, ATANH_POLY), a0)
        x = (a0 + a0) / (1.0 - a0)
        """
        + _LOG1P.format(core=core, total=_LOG_E + _LOG_SUM)
        + """
        v = copysign(select(a0 < 0.5, s0, 0.5 * v), x0)
        v = select(a0 > 1.0, NAN, v)
        """
        for core in _LOG1P_CORE
    ),
    LARGE=(2.0**60, 2.0**60),
    ONE_BITS=(0x3F800000, 0x3FF0000000000000),
    # (atanh(x) / x - 1) / x^2 in x^2 on [0, 1/4]: 2^-27, 2^-58
    ATANH_POLY=(
        (0.333333334, 0.199999572, 0.142883848, 0.110491269, 0.0976518964, 0.0404420518, 0.156927328),
        (0.3333333333333333, 0.1999999999999993, 0.14285714285735326, 0.11111111108659015, 0.09090909240270216,
         0.07692302227029223, 0.06666796774604508, 0.05880237959268297, 0.05287313906357011, 0.045653577659348854,
         0.05487680296205642, -0.00643111212853582, 0.16507992920258135, -0.18631774954673389, 0.2275756332112101),
    ),
    **_LOG_CONSTANTS,
)  # fmt: skip

# float32 sine and cosine, in float64: x * 2/pi = n + f, |f| <= 5/8. Of 2/pi, the leading bits that would only add
# multiples of 4 to n are cut, differently for each 24 binades of |x|, so that h is small enough for n to be exact;
# l is what the product h lost. The tangent takes one of two polynomials by the parity of n.
_TWO_OVER_PI = Fraction(0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561, 2**256)


def _two_over_pi_from(binade: int) -> tuple[float, float]:
    """2/pi without what is a multiple of 4 when multiplied by any float32 from 2^binade on, in two parts."""
    cut = Fraction(1, 2 ** max(binade - 25, 0))
    rest = _TWO_OVER_PI % cut
    high = float(rest)
    return high, float(rest - Fraction(high))


_TIERS = {b: _two_over_pi_from(b) for b in (0, 24, 48, 72, 96, 120)}
_REDUCED = (
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
"""
)


def _tiers(unit: float) -> dict[str, float]:
    """The constants of `_REDUCED`, which gives x * 2/pi * unit as h + l + z * q."""
    found = {f"EDGE{b}": 2.0**b for b in _TIERS}
    for b, (high, low) in _TIERS.items():
        found |= {f"HI{b}": high * unit, f"LO{b}": low * unit}
    return found


# Sine and cosine in half turns, of which one polynomial is enough: x / pi = n + f, for the cosine n + 1/2 + f, |f| <= 1/2.
_HALF_TURNS = {
    # sin(pi f) / f in f^2, degree 5: 2^-34
    "SIN_POLY": (3.1415926535354886, -5.167712764438908, 2.550163312195442, -0.599252113133637, 0.08204997325836928, -0.007027634623425433),
}  # fmt: skip
_define_wide(
    "sin",
    "x",
    _REDUCED
    + """
    t = h + MAGIC
    f = h - (t - MAGIC) + mad(z, q, l)
    v = f * poly(f * f, SIN_POLY)
    v = i2f(f2i(v) ^ (f2i(t) << 63))
    r = select(z == 0.0, x, narrow(v))  # the sign of a zero
    """,
    **_HALF_TURNS,
    **_tiers(0.5),
)
_define_wide(
    "cos",
    "x",
    _REDUCED
    + """
    t = h - 0.5 + MAGIC
    f = h - (t - MAGIC + 0.5) + mad(z, q, l)
    v = f * poly(f * f, SIN_POLY)
    v = i2f(f2i(v) ^ (f2i(t) + 1 << 63))
    r = narrow(v)
    """,
    **_HALF_TURNS,
    **_tiers(0.5),
)
_define_wide(
    "tan",
    "x",
    _REDUCED
    + """
    t = h + MAGIC
    f = h - (t - MAGIC) + mad(z, q, l)
    u = f * f
    s = f * poly(u, SIN_POLY)
    c = poly(u, COS_POLY)
    i = f2i(t)
    v = select(i & 1 == 0, s, -c) / select(i & 1 == 0, c, s)
    r = select(z == 0.0, x, narrow(v))
    """,
    # sin(pi/2 f) / f and cos(pi/2 f) in f^2 on |f| <= 5/8, Remez, degree 4: 2^-34 and 2^-31
    SIN_POLY=(1.5707963267266987, -0.6459640890226751, 0.07969245569167115, -0.004680546584065879,
              0.00015693350177612819),
    COS_POLY=(0.9999999994211615, -1.2337004828919995, 0.2536682173512809, -0.020854646024555477,
              0.0008942383986673761),
    **_tiers(1.0),
)  # fmt: skip

# float64 sine, cosine and tangent: x * 2/pi modulo 4, from the four doubles of 2/pi that matter at x's binade. For each 16 binades
# `two_over_pi` has 2/pi without what would only add multiples of 4. Each product is exact in two
# parts, and brought below 4 before the parts are summed.
_TRIGONOMETRIC_8 = """
a = fabs(x)
i = ((f2i(a) >> MBITS) - 1023) >> 4
i = 4 * select_int(i > 0, i, 0)
y = x * SCALE
g = two_over_pi(i)
h = y * g
l = fma(y, g, -h)
h = h - 4.0 * nearest(0.25 * h)
l = l - 4.0 * nearest(0.25 * l)
g = two_over_pi(i + 1)
c = y * g
m = fma(y, g, -c)
c = c - 4.0 * nearest(0.25 * c)
g = two_over_pi(i + 2)
e = y * g
o = mad(y, two_over_pi(i + 3), fma(y, g, -e))
# sums, each with what it lost: of the large parts, then of the small ones
u = h + l
d = u - h
k = (h - (u - d)) + (l - d)
h = u + c
d = h - u
n = (u - (h - d)) + (c - d)
t = h + MAGIC
u = h - (t - MAGIC)
c = k + n
d = c - k
l = (k - (c - d)) + (n - d)
k = c + m
d = k - c
n = (c - (k - d)) + (m - d)
o = o + l + n
c = k + e
d = c - k
l = (k - (c - d)) + (e - d)
o = o + l
f = u + c
d = f - u
q = (u - (f - d)) + (c - d)
q = q + o
c = f + q
q = f - c + q
f = c
r = f * PIO2  # the angle, and what its parts lack
q = mad(f, PIO2_LO, mad(q, PIO2, mad(f, PIO2, -r)))
z = r * r
s = r + mad(r * z, poly(z, SIN_POLY_8), mad(-0.5 * z, q, q))
w = 0.5 * z
d = 1.0 - w
c = d + (1.0 - d - w + mad(z * z, poly(z, COS_POLY_8), -r * q))
i = {quadrant}
"""
_SIN_END = """
v = select(i & 1 == 0, s, c)
v = select(i & 2 == 0, v, -v)
v = select(a < INF, v, NAN)
"""
_TRIGONOMETRIC_8_CONSTANTS: dict[str, Any] = {
    "SCALE": 2.0**-128,
    "PIO2": _HALF_PI["PIO2"][1],
    "PIO2_LO": _HALF_PI["PIO2_LO"][1],
    # (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2 on [0, 0.62]: 2^-62
    "SIN_POLY_8": (-0.16666666666666666, 0.008333333333333331, -0.00019841269841264943, 2.7557319219244494e-06,
        -2.5052106199616366e-08, 1.6058526424635128e-10, -7.586391516635473e-13),
    "COS_POLY_8": (0.041666666666666664, -0.0013888888888888887, 2.4801587301584578e-05, -2.7557319221350144e-07,
        2.0876755772812825e-09, -1.1470457997619506e-11, 4.74570188382758e-14),
}  # fmt: skip
for _prim, _quadrant, _end in (
    ("sin", "f2i(t)", _SIN_END + "v = select(a < 1e-9, x, v)"),
    ("cos", "f2i(t) + 1", _SIN_END),
    (
        "tan",
        "f2i(t)",
        "v = select(i & 1 == 0, s, -c) / select(i & 1 == 0, c, s)\n"
        "v = select(a < INF, v, NAN)\nv = select(a < 1e-9, x, v)",
    ),
):
    _define_double(
        _prim, "x", _TRIGONOMETRIC_8.format(quadrant=_quadrant) + _end, **_TRIGONOMETRIC_8_CONSTANTS
    )

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
