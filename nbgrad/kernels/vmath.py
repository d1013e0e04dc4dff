"""Elementary functions as branch-free source text, because PyPI's Numba has no SVML and `math.exp` in a loop is a call
per element that stops LLVM from vectorising.

Promises the emitter: `TEXT[kind, prim](argument names, fresh)` gives straight-line Python (assignments only) and the
name of its result, for kinds f4 and f8; the text needs PREAMBLE in the kernel's file, no fastmath flag, and Numba's
numpy error model. It says the same under plain Python as compiled (to the ulp; to the bit where the machine has fused
multiply-add). What is not in TEXT has no such text: the gamma and Bessel functions, and in float64 erfinv and ndtr, are definitions
in these primitives (`expr/special.py`).

Promises the user: the greatest error below, and every special value (zeros with their sign, infinities, NaN, denormals,
both thresholds of overflow and gradual underflow) as C has it. Measured (`python -m tests.kernels.vmath_table`): errors
over 2e6 and 5e5 points, random bit patterns and dense sweeps, against long double; times for 1e6 elements, one thread of
a busy AVX-512 machine (one with 256-bit vectors needs 1.3 to 1.7 times as long); the times of sin, cos, tan, tanh, erfinv,
ndtr and float64 pow are estimates from whole ops.

            float32           float64                         float32           float64
    exp     0.90 ulp  280 us  0.90 ulp   660 us     asin    0.60 ulp  450 us  0.61 ulp  1470 us
    log     0.84      370     0.81       910        acos    0.61      460     0.59      1580
    expm1   1.07      360     1.40      1110        atan    1.25      400     1.08      1360
    log1p   0.92      500     0.83      1070        atan2   0.54     1180     1.06      2090
    exp2    0.96      310     0.88       630        sinh    1.57      390     1.64      1020
    log2    1.05      390     1.02      1490        cosh    1.31      330     1.30       770
    log10   1.00      450     0.93       990        tanh    1.07      350     1.02       900
    sin     1.07      400     1.13      1100        asinh   0.78      840     0.67      2830
    cos     1.06      440     1.07      1150        acosh   2.00      740     1.99      1800
    tan     1.18      530     2.13      1600        atanh   0.89      760     0.86      2160
    erf     1.22      440     1.00      1780        sigmoid 2.00      360     2.00       800
    erfc    2.30      730     2.35      2400        erfinv  2.65      800     (expr/special.py)
    pow     0.51     1660     0.93      3100        ndtr    1.24      320     (expr/special.py)
                                                    (NumPy: exp 390 and 690, sin 450 and 12000)

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

from nbgrad.expr import prims

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


def number4(i: int) -> Any:
    """The low 32 bits of i, signed, as a float32."""
    return F(wrap4(i))


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


def truncated(x: Any) -> Any:
    return np.trunc(x)


def down(x: Any) -> Any:
    """x rounded to a whole number, towards minus infinity."""
    return np.floor(x)


def fabs(x: Any) -> Any:
    return np.abs(x)


def copysign(x: Any, sign: Any) -> Any:
    return np.copysign(x, sign)


def root(x: Any) -> Any:
    return np.sqrt(x)


def or_sin(v: Any, x: Any) -> Any:
    """v, or where v is NaN what the C library says of x: see `_emit_or`."""
    return v if v == v else np.sin(x)


def or_cos(v: Any, x: Any) -> Any:
    return v if v == v else np.cos(x)


def or_tan(v: Any, x: Any) -> Any:
    return v if v == v else np.tan(x)


def or_fmod(v: Any, x: Any, y: Any) -> Any:
    return v if v == v else np.fmod(x, y)


def or_pow(v: Any, x: Any, y: Any) -> Any:
    return v if v == v else np.float64(prims.pow.python(float(x), float(y)))


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


def _emit_number(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(
        builder, context.cast(builder, args[0], sig.args[0], types.int32), types.int32, types.float32
    )


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


def _emit_or(c_name: str) -> Callable[..., Any]:
    """v, or where v is NaN what the C library says: how a text leaves to a call the few numbers that are not worth a lane of vectors.

    A branch in the loop would keep LLVM from vectorising it. This is a call of a function that is not inlined but has variants for
    vectors, named in the call's attribute: each looks once whether any of its lanes is NaN (measured: 80 us for 1e6 float32).
    """

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        width = "f" if sig.return_type == types.float32 else ""
        name = f"nbgrad_or_{c_name}{width}"
        scalar = builder.module.globals.get(name) or _define_or(builder.module, name, c_name + width, args)
        call = builder.call(scalar, args)
        variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * len(args)}_{name}({name}_{n})" for n in _LANES)
        set.add(call.attributes, f'"vector-function-abi-variant"="{variants}"')
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        set.add(builder.function.attributes, "alignstack(64)")
        return call

    return emit


_LANES = (2, 4, 8, 16)


def _define_or(module: Any, name: str, libm: str, args: Any) -> Any:
    def function(name: str, kind: Any) -> Any:
        made = ir.Function(module, ir.FunctionType(kind, [kind] * len(args)), name)
        made.linkage = "weak_odr"  # kept, though nothing calls it until loops are vectors
        for attribute in ("noinline", "nounwind", "willreturn", "memory(none)"):
            set.add(made.attributes, attribute)
        return made, ir.IRBuilder(made.append_basic_block())

    kind = args[0].type
    called = cgutils.get_or_insert_function(module, ir.FunctionType(kind, [kind] * (len(args) - 1)), libm)
    scalar, builder = function(name, kind)
    v = scalar.args[0]
    with builder.if_then(builder.fcmp_unordered("uno", v, v), likely=False):
        builder.ret(builder.call(called, scalar.args[1:]))
    builder.ret(v)
    for n in _LANES:
        vector, builder = function(f"{name}_{n}", ir.VectorType(kind, n))
        v = vector.args[0]
        undecided = builder.bitcast(builder.fcmp_unordered("uno", v, v), ir.IntType(n))
        with builder.if_then(builder.icmp_unsigned("!=", undecided, undecided.type(0)), likely=False):
            for k in map(ir.IntType(32), range(n)):
                lane = builder.call(scalar, [builder.extract_element(a, k) for a in vector.args])
                v = builder.insert_element(v, lane, k)
            builder.ret(v)
        builder.ret(vector.args[0])
    return scalar


def _integer_to(to: Any) -> Callable[..., Any]:
    return lambda i: to if isinstance(i, types.Integer) else None


# fmuladd is one rounding or two, whichever is quick; llvm.fma without the instruction calls libm for each element
_lowered(
    mad, lambda a, b, c: a if _is_float(a, b, c) else None, (types.Float,) * 3, _emit_intrinsic("fmuladd")
)
_lowered(fma, lambda a, b, c: a if _is_float(a, b, c) else None, (types.Float,) * 3, _emit_intrinsic("fma"))
_lowered(
    select_int,
    lambda c, a, b: types.int64 if c == types.boolean else None,
    (types.Boolean, types.Integer, types.Integer),
    _emit_select_int,
)
for _or in (or_sin, or_cos, or_tan):
    _lowered(_or, lambda v, x: v if _is_float(v, x) else None, (types.Float,) * 2, _emit_or(_or.__name__[3:]))
for _or_2 in (or_fmod, or_pow):
    _lowered(
        _or_2,
        lambda v, x, y: v if _is_float(v, x, y) else None,
        (types.Float,) * 3,
        _emit_or(_or_2.__name__[3:]),
    )
_lowered(truncated, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("trunc"))
_lowered(down, lambda x: x if _is_float(x) else None, (types.Float,), _emit_intrinsic("floor"))
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
_lowered(number4, _integer_to(types.float32), (types.Integer,), _emit_number)
_lowered(wrap4, _integer_to(types.int32), (types.Integer,), _emit_cast)
_lowered(wrap8, _integer_to(types.int64), (types.Integer,), _emit_cast)
_lowered(widen, lambda x: types.float64 if x == types.float32 else None, (types.Float,), _emit_cast)
_lowered(narrow, lambda x: types.float32 if x == types.float64 else None, (types.Float,), _emit_cast)

HELPERS = (
    *("F", "f2i", "i2f4", "i2f8", "number4", "wrap4", "wrap8", "mad", "fma", "poly", "select", "select_int"),
    *("truncated", "down", "fabs", "copysign", "root", "widen", "narrow"),
    *("or_sin", "or_cos", "or_tan", "or_fmod", "or_pow"),
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
    if value is None:  # of a text that is another kind's
        return ""
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

# e^-a for 0 <= a < HALF: 2^n times a large power, which is no denormal, and that taken away again, rounded once
_EXP_DOWN = """
t = mad(a, -LOG2E, RAISED)
n = t - RAISED
r = mad(n, -LN2_LO, mad(n, -LN2_HI, -a))
y = mad(r, poly(r, EXP_POLY), 1.0) * i2f(f2i(t) << MBITS) * LOWER
"""
_DOWN = {
    "RAISED": (1.5 * 2.0**23 + 127 + 64, 1.5 * 2.0**52 + 1023 + 512),
    "LOWER": (2.0**-64, 2.0**-512),
}

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

# (2^r - 1) / r on |r| <= 1/2, Remez; degree 5: 2^-29, degree 10: 2^-58 of 2^r
_EXP2_POLY = (
        (0.6931472, 0.2402265, 0.05550328, 0.009618004, 0.0013400296, 0.00015476329),
        (0.6931471805599453, 0.24022650695910133, 0.05550410866482174, 0.009618129107593276,
         0.0013333558146379036, 0.00015403530458156801, 1.5252733867545145e-05, 1.3215434775520963e-06,
         1.0178046458205174e-07, 7.073867731639563e-09, 4.457387891105178e-10),
)  # fmt: skip
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
    EXP2_POLY=_EXP2_POLY,
)  # fmt: skip

# (2^n - 1) + 2^n * (r + o + r^2 * p), where o is what r lost, by halves, so that 2^n is finite: the two large parts are summed with
# what the sum lost (the first is the larger, or 0).
_define(
    "expm1",
    "x",
    """
    c = select(x > HI, HI, x)
    c = select(c < LO, LO, c)
    t = mad(c, LOG2E, BIASED - 1.0)
    n = t - (BIASED - 1.0)
    g = mad(n, -LN2_HI, c)
    r = mad(n, -LN2_LO, g)
    o = mad(n, -LN2_LO, g - r)
    s = i2f(f2i(t) << MBITS)
    a = s - 0.5
    b = s * r
    h = a + b
    l = b - (h - a)
    v = copysign(2.0 * (h + mad(s, mad(r * r, poly(r, EXPM1_POLY), o), l)), x)
    """,
    HI=(89.0, 710.0),
    LO=(-20.0, -40.0),
    EXPM1_POLY=(_SHARED["EXP_POLY"][0][1:], _SHARED["EXP_POLY"][1][1:]),
)

_LOG_CONSTANTS: dict[str, tuple[Any, Any]] = {
    "E_HI": (_SHARED["LN2_HI"][0] * 2.0**-23, _SHARED["LN2_HI"][1]),
    "E_LO": (_SHARED["LN2_LO"][0] * 2.0**-23, _SHARED["LN2_LO"][1]),
    "OFFSET": (0x3F2AAAAB, 0x3FE5555555555555),  # the bits of 2/3
    "EXPONENT": (-(1 << 23), -(1 << 52)),  # all bits but the mantissa's
    "MAGIC_BITS": (None, 0x4338000000000000),
    # float32: (log(1+f) - f + f^2/2) / f^3 on |f| <= 1/3, Remez, degree 7, 2^-27.7 of log(1+f).
    # float64: (log((1+s)/(1-s)) / s - 2) / s^2 in s^2 on |s| <= 1/5, Remez, degree 7, 2^-61.
    "LOG_POLY": (
        (-0.5, 0.33333218, -0.24999799, 0.20010376, -0.1668047, 0.14006296, -0.12184531, 0.13982563, -0.12890568),
        (0.666666666666666, 0.40000000000054814, 0.28571428556160955, 0.2222222426705771, 0.18181667302697205,
         0.15391073251476456, 0.13174149397109788, 0.13839846604489786),
    ),
}  # fmt: skip

# y = 2^e * (1 + f) with 1 + f in [2/3, 4/3). A float32's e is 2^23 times as large, as its bits are; a float64's would be a
# conversion that not every machine has for vectors.
_SPLIT = (
    """
    k = f2i(y) - OFFSET & EXPONENT
    f = i2f(f2i(y) - k) - 1.0
    e = number4(k)
    """,
    """
    k = f2i(y) - OFFSET & EXPONENT
    f = i2f(f2i(y) - k) - 1.0
    e = i2f((k >> MBITS) + MAGIC_BITS) - MAGIC
    """,
)

# log(1 + f) + e * ln 2, |f| <= 1/3: m is f + e * E_HI, whose second part is exact and larger than f (or 0), so that b is what that sum
# lost; the rest of the logarithm is a polynomial, or in float64 fdlibm's form with s = f / (2 + f).
_LOG_SUM = (
    """
    m = mad(e, E_HI, f)
    b = mad(e, E_HI, -m) + f @MORE@
    v = m + mad(e, E_LO, mad(f * f, poly(f, LOG_POLY), b))
    """,
    """
    m = mad(e, E_HI, f)
    b = mad(e, E_HI, -m) + f @MORE@
    s = f / (2.0 + f)
    z = s * s
    g = 0.5 * f * f
    v = m + mad(s, mad(z, poly(z, LOG_POLY), g), mad(e, E_LO, b) - g)
    """,
)


def _log_of(y: str, after: str = "", more: str = "") -> tuple[str, str]:
    """v = log(y), y positive, finite and no denormal. Lines `after` the split may change f and e; `more` is added to f."""
    float32, float64 = (
        f"y = {y}\n{split}\n{after}\n{total.replace('@MORE@', more)}"
        for split, total in zip(_SPLIT, _LOG_SUM, strict=True)
    )
    return float32, float64


_NORMAL = """
d = x < TINY
y = select(d, x * LIFT, x)
"""
_LIFTED = "e = select(d, e - LIFTED, e)"
_LOG_EDGES = """
v = select(x < INF, v, x)  # inf and NaN
v = select(x < 0.0, NAN, v)
v = select(x == 0.0, -INF, v)
"""
_LIFTS = {
    "TINY": (2.0**-126, 2.0**-1022),
    "LIFT": (2.0**25, 2.0**54),
    "LIFTED": (25 * 2.0**23, 54.0),
}
_define(
    "log",
    "x",
    tuple(_NORMAL + text + _LOG_EDGES for text in _log_of("y", _LIFTED)),
    **_LIFTS,
    **_LOG_CONSTANTS,
)

# To a base the factor 1 / ln(base) has two parts, and o completes a = f * SCALE by what the product lost. In float32 the polynomial has
# the factor in it; log2, whose SCALE is nearly 1.5, has f itself before it.
_LOG_BASE = """
s = f / (2.0 + f)
z = s * s
g = 0.5 * f * f
w = mad(s, mad(z, poly(z, LOG_POLY), g), -g)
a = f * SCALE
o = mad(f, SCALE_LO, mad(w, SCALE, mad(f, SCALE, -a)))
m = mad(e, E_HI, a)
b = mad(e, E_HI, -m) + a
v = m + (b + mad(e, E_LO, o))
"""
for _prim, _total, _scales in (
    ("log2", """
        m = mad(e, E_HI, f)
        b = mad(f, SLOPE_LO, mad(e, E_HI, -m) + f)
        v = m + mad(f, SLOPE, mad(f * f, poly(f, LOG2_POLY), b))
        """, {
        "E_HI": (2.0**-23, 1.0),
        "E_LO": (None, 0.0),
        "SCALE": (None, 1.4426950408889634),
        "SCALE_LO": (None, 2.0355273740931033e-17),
        # (log2(1+f) - f) / f on |f| <= 1/3, Remez, degree 9, 2^-27.9 of log2(1+f); then digits varied for the least error
        "SLOPE": (0.4426950514316559, None),
        "SLOPE_LO": (-6.432e-09, None),
        "LOG2_POLY": ((-0.7213476, 0.4808959, -0.3606689, 0.28871226, -0.24069336, 0.20177415, -0.17533197, 0.20293568,
                       -0.18757449), None),
    }),
    ("log10", """
        a = f * SCALE
        m = mad(e, E_HI, a)
        b = mad(f, SCALE_LO, mad(f, SCALE, -a)) + (mad(e, E_HI, -m) + a)
        v = m + mad(e, E_LO, mad(f * f, poly(f, LOG10_POLY), b))
        """, {
        "E_HI": (0.301025390625 * 2.0**-23, 0.30102999566395283),
        "E_LO": (4.605038981195214e-06 * 2.0**-23, 2.8363394551044964e-14),
        "SCALE": (0.4342944920063019, 0.4342944819032518),
        "SCALE_LO": (-8.4063e-09, 1.098319650216765e-17),
        # (log10(1+f) / f - SCALE) / f on |f| <= 1/3, Remez, degree 8: 2^-27.9 of log10(1+f)
        "LOG10_POLY": ((-0.217147249, 0.144764066, -0.108572123, 0.0869128723, -0.0724578643,
                        0.0607173511, -0.0527592275, 0.061180938, -0.0565434038), None),
    }),
):  # fmt: skip
    _define(
        _prim,
        "x",
        tuple(
            _NORMAL + split + _LIFTED + total + _LOG_EDGES
            for split, total in zip(_SPLIT, (_total, _LOG_BASE), strict=True)
        ),
        **(_LIFTS | _LOG_CONSTANTS | _scales),
    )

# log(1 + z) for z = e^-|x|: what rounds the corner of max(x, 0), softplus(x) = max(x, 0) + this.
_define(
    "soft_corner",
    "x",
    f"""
    a = fabs(x)
    a = select(a > HI, HI, a)
    {_EXP_DOWN}
    v = mad(y * y, poly(y, LOG1P_POLY), y)
    """,
    HI=(105.0, 746.0),
    # (log(1 + z) / z - 1) / z on [0, 1], Remez; degree 9: 2^-27.7, degree 20: 2^-56.6
    LOG1P_POLY=(
        (-0.4999990243, 0.3332996244, -0.2495413372, 0.1967593958, -0.1530559441, 0.1060365992, -0.05695960264,
         0.01985150788, -0.003244037064),
        (-0.499999999999991842, 0.333333333332112577, -0.249999999927223278, 0.199999997694620678, -0.166666621782619988,
         0.142856556786889768, -0.124994563535360012, 0.111073811426616253, -0.0998050565884060481, 0.0901155047156576274,
         -0.0807727782022373587, 0.0702798236060657653, -0.0573882154151342603, 0.0421666197868830828, -0.0266233268295037473,
         0.013756301307580748, -0.00550215642444949044, 0.00158171679792878564, -0.000288807940513667138,
         0.0000250417510297321828),
    ),
    **_DOWN,
)  # fmt: skip

# x * P(w), w = -log(1 - x^2), one polynomial to 6.25 and one from there on. In float64 it is a definition in expr/special.py.
_define(
    "erfinv",
    "x",
    f"""
    c = fabs(x)
    {_log_of("(1.0 - c) * (1.0 + c)")[0]}
    w = -v
    b = w < 6.25
    v = x * select(b, poly(mad(w, 0.32, -1.0), NEAR), poly(mad(w, FAR_SCALE, FAR_SHIFT), FAR))
    v = select(c < 1.0, v, select(c == 1.0, copysign(INF, x), NAN))
    """,
    ("f4",),
    FAR_SCALE=(1 / 5.25, None),
    FAR_SHIFT=(-11.5 / 5.25, None),
    # erfinv(x) / x on w in [0, 6.25] and in [6.25, 16.75], both mapped to [-1, 1]; degrees 11 and 10: 2^-27
    NEAR=(
        (1.6536546, 0.7504943, -0.058922954, -0.022604302, 0.017812906, -0.0041390457, -0.0012911827, 0.0012401178,
         -0.00022648746, -0.00013252553, 5.9301685e-05, 6.5434557e-07),
        None,
    ),
    FAR=(
        (3.22589036, 0.779160535, -0.0865063249, 0.0185267125, -0.00466044052, 0.00111073969, -0.000162768623, -3.37026964e-5,
         6.21079328e-5, -6.18925359e-5, 2.48170028e-5),
        None,
    ),
    **_LOG_CONSTANTS,
)  # fmt: skip

# As log of u = 1 + x, but f = x * 2^-e + (2^-e - 1) is taken from x itself, with q what its rounding lost (q - f * q is
# its share of the logarithm); where x is large u's own f is as good.
# The sign is x's, zeros' too.
_LOG1P = tuple(
    f"""
    u = 1.0 + x
    {text}
    v = select(x < INF, v, x)
    v = select(u < 0.0, NAN, v)
    v = select(u == 0.0, -INF, v)
    v = copysign(v, x)
    """
    for text in _log_of(
        "u",
        after="""
        s = i2f(ONE_BITS - k)
        c = x < LARGE
        q = mad(x, s, s - 1.0)
        o = select(c, mad(x, s, s - 1.0 - q), 0.0)
        f = select(c, q, f)
        """,
        more="+ mad(-f, o, o)",
    )
)
_define(
    "log1p",
    "x",
    _LOG1P,
    LARGE=(2.0**60, 2.0**60),
    ONE_BITS=(0x3F800000, 0x3FF0000000000000),
    **_LOG_CONSTANTS,
)

# Below 1: x + x^3 P(x^2)/Q(x^2); above: 1 - 2/(e^2x + 1), where what the quotient loses hardly shows, nor what the exponential does
# (so that it is 2^(x * TWICE), reduced in one step). One division.
_define(
    "tanh",
    "x",
    """
    a = fabs(x)
    c = select(a > CAP, CAP, a)
    t = mad(c, TWICE, BIASED)
    n = t - BIASED
    r = mad(c, TWICE, -n)
    y = mad(r, poly(r, EXP2_POLY), 1.0) * i2f(f2i(t) << MBITS)
    z = a * a
    b = a < 0.875
    s = select(b, a, 1.0)
    num = select(b, z * poly(z, TANH_P), -2.0)
    den = select(b, poly(z, TANH_Q), y + 1.0)
    v = copysign(mad(s, num / den, s), x)
    """,
    CAP=(10.0, 20.0),
    TWICE=(2.8853900817779268, 2.8853900817779268),
    EXP2_POLY=_EXP2_POLY,
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

# The normal distribution's function below 0 is 2^-g, g a polynomial; from -CAP down it is 0, and above 0 it is 1 minus that. In float64
# it is a definition in expr/special.py.
_define(
    "ndtr",
    "x",
    """
    a = fabs(x)
    g = poly(select(a > CAP, CAP, a), NDTR_LOG)
    t = BIASED - g
    r = BIASED - t - g
    h = mad(r, poly(r, EXP2_POLY), 1.0) * i2f(f2i(t) << MBITS)
    h = select(a > CAP, 0.0, h)
    v = select(x > 0.0, 1.0 - h, h)
    """,
    ("f4",),
    CAP=(5.6, None),
    # -log2 of it on [0, 5.6], Lawson's iteration weighted by its power 3/4: 2^-27.7 of 1, to 3 below 0 4e-7 of it
    NDTR_LOG=(
        (1.0, 1.15110504, 0.459213426, 0.0524660485, -0.00699042745, 4.62233479e-05, 0.000248358446, -6.30024549e-05,
         7.47285881e-06, -3.65257579e-07),
        None,
    ),
    EXP2_POLY=_EXP2_POLY,
)  # fmt: skip

# The derivative of x ndtr(x) below 0 is e^(-a^2/2) (R - a / sqrt(2 pi)), where R = e^(a^2/2) ndtr(-a) is a polynomial to CAP and hardly
# counts beyond; above 0 it is 1 minus that.
_define(
    "gelu_slope",
    "x",
    f"""
    b = fabs(x)
    b = select(b > HI, HI, b)
    a = 0.5 * b * b
    {_EXP_DOWN}
    c = select(b > CAP, CAP, b)
    v = y * mad(b, DENSITY, poly(mad(c, 0.4, -1.0), MILLS))
    v = select(x > 0.0, 1.0 - v, v)
    """,
    ("f4",),
    HI=(14.6, None),
    CAP=(5.0, None),
    DENSITY=(-0.3989422804014327, None),
    # R on a in [0, 5], mapped to [-1, 1]; degree 12, weighted by e^(-0.35 a^2): 2^-26.5
    MILLS=(
        (0.141331237, -0.114035114, 0.0853118547, -0.0598246323, 0.0396327107, -0.0256737016, 0.0153474421, -0.00660387078,
         0.00625938654, -0.00604676859, -0.0018181773, 0.000677589509, 0.00242903777),
        None,
    ),
    **_DOWN,
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
n = b + d
l = d - (n - b) + u
{log}
v = select(z0 < 0.25, s0, v)
v = copysign(select(y0 < INF, v, y0), x)
"""
_define(
    "asinh",
    "x",
    tuple(_ASINH.format(log=text) for text in _log_of("n", after="e = select(c, e + UNIT, e)", more="+ l / n")),
    UNIT=(2.0**23, 1.0),
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
        + log1p
        + """
        v = select(x0 > BIG, v + LN2, v)
        v = select(x0 < 1.0, NAN, v)
        """
        for log1p in _LOG1P
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
        + log1p
        + """
        v = copysign(select(a0 < 0.5, s0, 0.5 * v), x0)
        v = select(a0 > 1.0, NAN, v)
        """
        for log1p in _LOG1P
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

# |x| = n pi/2 + h + l for the tangent, n pi + h + l for the sine, (n + 1/2) pi + h + l for the cosine, in three steps by the parts of
# pi: the first is exact, l is what the second one loses, and the third. From FAR on, where the parts would not do, the C library.
_REDUCED = """
r = fma(n, -PI_1, a)
m = n * PI_2
h = r - m
l = r - h - m - fma(n, PI_3, fma(n, PI_2, -m))
"""
_FAR = {"FAR": (2.0**18, 2.0**32)}
_TURNS = _FAR | {
    "INV_PI": (0.3183098861837907, 0.3183098861837907),
    "PI_1": (3.1415927410125732, 3.141592653589793),
    "PI_2": (-8.742277657347586e-08, 1.2246467991473532e-16),
    "PI_3": (-3.4302490200117637e-15, -2.994769809718363e-33),
    "SIGN": (31, 63),
    # sin(r) / r - SLOPE in r^2 - MIDDLE on |r| <= pi/2: Lawson's iteration, degree 4, of some hundred pairs of SLOPE and MIDDLE that
    # which has the least error after rounding, 2^-27; Remez, degree 8, 2^-62 of sin(r)
    "SLOPE": (0.7704914808273315, 0.7704914808273315),
    "MIDDLE": (1.6118464469909668, 1.6118464469909668),
    "SIN_POLY": (
        (-0.018294695764780045, -0.14130368828773499, 0.007415786851197481, -0.0001812998962122947, 2.602111180749489e-06),
        (-0.018294700345578015, -0.1413036918080775, 0.007415825073258931, -0.00018128302663363688,
        2.5599787245735632e-06, -2.3540095455487916e-08, 1.521638201127198e-10, -7.29211983150197e-13, 2.7204336595774783e-15),
    ),
}  # fmt: skip
# sin(h + l), with a parabola for the cosine by which l is multiplied
_SINE = """
z = mad(h, h, -MIDDLE)
v = mad(h, SLOPE, mad(h, poly(z, SIN_POLY), l * mad(z, -0.405, 0.35)))
"""
_define(
    "sin",
    "x",
    f"""
    a = fabs(x)
    t = mad(a, INV_PI, MAGIC)
    n = t - MAGIC
    {_REDUCED}
    {_SINE}
    v = i2f(f2i(v) ^ (f2i(t) << SIGN) ^ f2i(x) ^ f2i(a))  # the signs of n and of x
    v = or_sin(select(a < FAR, v, NAN), x)
    """,
    **_TURNS,
)
_define(
    "cos",
    "x",
    f"""
    a = fabs(x)
    t = mad(a, INV_PI, -0.5) + MAGIC
    n = t - MAGIC + 0.5
    {_REDUCED}
    l = l + (a - fma(n, PI_1, r))  # what the first step loses where it makes more of a, from pi/2
    {_SINE}
    v = i2f(f2i(-v) ^ (f2i(t) << SIGN))
    v = or_cos(select(a < FAR, v, NAN), x)
    """,
    **_TURNS,
)
_define(
    "tan",
    "x",
    tuple(
        f"""
        a = fabs(x)
        t = mad(a, TWO_OVER_PI, MAGIC)
        n = t - MAGIC
        {_REDUCED}
        z = h * h
        i = f2i(t) & 1 == 0
        {quotient}
        v = i2f(f2i(v) ^ f2i(x) ^ f2i(a))
        v = or_tan(select(a < FAR, v, NAN), x)
        """
        for quotient in (
            """
            c = mad(h * z, poly(z, TAN_POLY), mad(z, l, l))
            v = h + c
            w = -1.0 / v
            w = mad(w, mad(w, c - (v - h), mad(w, v, 1.0)), w)  # completed by what v and the quotient lost
            v = select(i, v, w)
            """,
            """
            s = h + mad(h * z, poly(z, SIN_POLY), mad(-0.5 * z, l, l))
            w = 0.5 * z
            d = 1.0 - w
            c = d + (1.0 - d - w + mad(z * z, poly(z, COS_POLY), -h * l))
            v = select(i, s, -c) / select(i, c, s)
            """,
        )
    ),
    TWO_OVER_PI=(0.6366197723675814, 0.6366197723675814),
    PI_1=(1.5707963705062866, 1.5707963267948966),
    PI_2=(-4.371138828673793e-08, 6.123233995736766e-17),
    PI_3=(-1.7151245100058819e-15, -1.4973849048591815e-33),
    # (tan(r) / r - 1) / r^2 in r^2 on |r| <= pi/4, Remez, degree 6: 2^-29
    TAN_POLY=(
        (0.333333498, 0.133326609, 0.0540602066, 0.0212806432, 0.0108399308, 8.41750135e-5, 0.00437898685),
        None,
    ),
    # (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2 on [0, 0.62]: 2^-62
    SIN_POLY=(
        None,
        (-0.16666666666666666, 0.008333333333333331, -0.00019841269841264943, 2.7557319219244494e-06,
         -2.5052106199616366e-08, 1.6058526424635128e-10, -7.586391516635473e-13),
    ),
    COS_POLY=(
        None,
        (0.041666666666666664, -0.0013888888888888887, 2.4801587301584578e-05, -2.7557319221350144e-07,
         2.0876755772812825e-09, -1.1470457997619506e-11, 4.74570188382758e-14),
    ),
    **_FAR,
)  # fmt: skip

# fmod from the quotient, where that has no more digits than a float: rounded, it is the whole quotient or, where it was rounded up to
# a whole number, one more; the rest, exact in one rounding, then has the other sign.
_FMOD = """
a = fabs(x)
b = fabs(y)
q = truncated(a / b)
r = fma(-q, b, a)
r = select(r < 0.0, r + b, r)
r = select(a < b, a, r)
r = or_fmod(select(q < DIGITS, copysign(r, x), NAN), x, y)
"""
_DIGITS = {"DIGITS": (2.0**24, 2.0**53)}
# the rest has the divisor's sign, or the quotient rounds down: where the rest of fmod has the other sign
_OTHER_SIGN = "select(r == 0.0, 0.0, r) * copysign(1.0, y) < 0.0"
_define("fmod", "x y", _FMOD, **_DIGITS)
_define("remainder", "x y", f"{_FMOD}r = select({_OTHER_SIGN}, r + y, r)", **_DIGITS)
_define(
    "floor_divide",
    "x y",
    f"""
    {_FMOD}
    g = x / y
    w = (x - r) / y
    w = select({_OTHER_SIGN}, w - 1.0, w)
    l = down(w)
    l = select(w - l > 0.5, l + 1.0, l)
    l = select(w == 0.0, g * 0.0, l)
    l = select(y == 0.0, g, l)
    """,
    **_DIGITS,
)

# The next bits up or down; from zero the least float of y's sign.
_define(
    "nextafter",
    "x y",
    """
    i = select_int((x < y) == (x > 0.0), 1, -1)
    v = i2f(f2i(x) + i)
    v = select(x == 0.0, copysign(LEAST, y), v)
    v = select(x == y, y, v)
    v = select(x == x, select(y == y, v, y), x)
    """,
    LEAST=(2.0**-149, 2.0**-1074),
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

# float64 x ** y: log2 |x| with what it lost, of 1 + f = (1 + s) / (1 - s) by the series of s, whose first two terms are carried in two
# parts each. What is not a normal number to a power that gives one is left to C, and so is a negative one to no small integer.
_define_double(
    "pow",
    "x y",
    """
    b = fabs(x)
    k = (f2i(b) - OFFSET) >> MBITS
    f = i2f(f2i(b) - (k << MBITS)) - 1.0
    d = 2.0 + f
    q = 1.0 / d
    s = f * q
    o = q * (mad(-s, d, f) - s * (f - (d - 2.0)))
    z = s * s
    w = mad(s, s, -z) + 2.0 * s * o
    u = z * poly(z, LOG_SERIES)
    p = THIRD + u
    c = THIRD - p + u + THIRD_LO
    a = s * z  # s^3 and its rest
    e = mad(s, z, -a) + mad(s, w, o * z)
    h = a * p  # times the series
    l = mad(a, p, -h) + mad(a, c, e * p)
    a = s + h
    e = s - a + h + (o + l)
    h = a * SCALE  # in binary, and the exponent
    l = mad(a, SCALE, -h) + mad(a, SCALE_LO, e * SCALE)
    g = i2f(k + MAGIC_BITS) - MAGIC
    a = g + h
    e = g - a + h + l
    h = y * a  # times y
    l = mad(y, a, -h) + y * e
    t = h + BIASED
    r = h - (t - BIASED) + l
    v = mad(r, poly(r, EXP2_POLY), 1.0) * i2f(f2i(t) << MBITS)
    n = y + MAGIC
    v = i2f(f2i(v) ^ ((f2i(n) << 63) & f2i(x)))
    g = select((x > 0.0) | (n - MAGIC == y), fabs(h), INF)
    g = select((b > TINY) & (b < INF) & (fabs(y) < BIG), g, INF)
    v = or_pow(select(g < 1020.0, v, NAN), x, y)
    """,
    OFFSET=_LOG_CONSTANTS["OFFSET"][1],
    MAGIC_BITS=_LOG_CONSTANTS["MAGIC_BITS"][1],
    TINY=2.0**-1022,
    BIG=2.0**51,
    SCALE=2.8853900817779268,
    SCALE_LO=4.0710547481862066e-17,
    THIRD=0.3333333333333333,
    THIRD_LO=1.850371707708594e-17,
    # ((atanh(s) / s - 1) / s^2 - 1/3) / s^2 in s^2 on |s| <= 1/5, Remez, degree 7: 2^-67 of atanh(s)
    LOG_SERIES=(0.1999999999999986, 0.14285714285789938, 0.1111111109539602, 0.09090910783559658, 0.0769220229235197,
        0.06670601556817435, 0.057957395565441876, 0.06288421667520268),
    EXP2_POLY=_EXP2_POLY[1],
)  # fmt: skip
