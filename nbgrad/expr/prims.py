"""The primitives: one stanza each, easy ones first. A stanza is the value on Python numbers, the partials and
the text.

A primitive is called on numbers (IEEE results as PyTorch's: never an exception, `log(0)` is -inf) or on
expressions, which builds one. A partial is called with (arguments..., y) where y is the primitive's own
output, is not multiplied by the incoming gradient, and is written in the value that PyTorch saves, because an
in-place write to a saved value is an error that users see. `None` as a partial says that the derivative is
zero everywhere.

Text: "float", "int" and "bool" name the kind of computation; "python:float" holds for one target only. `F` is
the constructor of the compute dtype. An integer result is wrapped in F, because Numba computes int32 as
int64, and so is a library call.
"""

# A partial names primitives further down, and calling a primitive gives a number or an expression:
# mypy: disable-error-code="has-type, no-any-return"

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping
from typing import Any

from .node import PRIMS, Number, Operand, Prim
from .simplify import rewrite

inf, nan = math.inf, math.nan
LN2, LN10 = math.log(2.0), math.log(10.0)

Fresh = Callable[[], str]
Lines = tuple[list[str], str]


def primitive(
    *partials: Callable[..., Any] | None,
    spell: Mapping[str, Any],
    result_bool: bool | None = False,
    static: bool = False,
) -> Callable[[Callable[..., Number]], Prim]:
    """Enter a function on Python numbers into the table; no partials at all means zero ones."""

    def enter(fn: Callable[..., Number]) -> Prim:
        prim = Prim(fn.__name__, fn, partials, spell, result_bool, static, rewrite)
        PRIMS[prim.name] = prim
        return prim

    return enter


def total(fn: Callable[..., float], *args: float, overflow: float = inf) -> float:
    """A function of `math` that answers outside its domain as C's does, instead of raising."""
    try:
        return fn(*args)
    except ValueError:
        return nan
    except OverflowError:
        return overflow


def library(name: str, numpy: str | None = None) -> dict[str, str]:
    """The text of a function that `math` and NumPy both have; un-jitted, NumPy's never raises."""
    return {"float": f"F(math.{name}({{0}}))", "python:float": f"F(np.{numpy or name}({{0}}))"}


# --- arithmetic ---------------------------------------------------------------------------------------------


@primitive(
    lambda a, b, y: 1,
    lambda a, b, y: 1,
    spell={"float": "{0} + {1}", "int": "F({0} + {1})", "bool": "{0} | {1}"},
    result_bool=None,
)
def add(a: Number, b: Number) -> Number:
    return (a or b) if isinstance(a, bool) and isinstance(b, bool) else a + b  # booleans add up as in PyTorch


@primitive(lambda a, b, y: 1, lambda a, b, y: -1, spell={"float": "{0} - {1}", "int": "F({0} - {1})"})
def sub(a: Number, b: Number) -> Number:
    return a - b


@primitive(
    lambda a, b, y: b,
    lambda a, b, y: a,
    spell={"float": "{0} * {1}", "int": "F({0} * {1})", "bool": "{0} & {1}"},
    result_bool=None,
)
def mul(a: Number, b: Number) -> Number:
    return (a and b) if isinstance(a, bool) and isinstance(b, bool) else a * b


@primitive(
    lambda a, b, y: 1 / b,
    lambda a, b, y: -((a / b) / b),
    spell={"float": "{0} / {1}", "python:float": "F(np.divide({0}, {1}))"},
)
def div(a: Number, b: Number) -> Number:
    if b != 0:
        return a / b
    return nan if a == 0 or a != a else math.copysign(inf, a) * math.copysign(1.0, b)


@primitive(
    lambda a, b, c, y: b,
    lambda a, b, c, y: a,
    lambda a, b, c, y: 1,
    spell={"float": "{0} * {1} + {2}", "cpu:float": "mad({0}, {1}, {2})"},
)
def mad(a: Number, b: Number, c: Number) -> Number:
    """a * b + c, in one rounding where the machine has the instruction: a step of the long polynomials in `special.py`."""
    return a * b + c


@primitive(lambda x, y: -1, spell={"float": "-{0}", "int": "F(-{0})"})
def neg(x: Number) -> Number:
    return -x


def _ipow_text(args: list[str], fresh: Fresh) -> Lines:
    """Square and multiply, as the value below."""
    base, n = args[0], int(args[1])
    lines: list[str] = []
    result = ""

    def product(a: str, b: str) -> str:
        lines.append(f"{(name := fresh())} = F({a} * {b})")
        return name

    left = builtins.abs(n)
    while left:
        if left & 1:
            result = product(result, base) if result else base
        left >>= 1
        if left:
            base = product(base, base)
    if n < 0:
        lines.append(f"{(inverse := fresh())} = F(F(1) / {result})")
        result = inverse
    return lines, result or "F(1)"


def _ipow_int(args: list[str], fresh: Fresh) -> Lines:
    if int(args[1]) < 0:
        raise NotImplementedError("no spelling of 'ipow' with a negative exponent for integers")
    return _ipow_text(args, fresh)


@primitive(lambda x, n, y: n * ipow(x, n - 1), spell={"float": _ipow_text, "int": _ipow_int}, static=True)
def ipow(x: Number, n: int) -> Number:
    """x to a small integer exponent that is part of the expression, by multiplication."""
    result: Number = 1
    base, left = x, builtins.abs(n)
    while left:
        if left & 1:
            result = result * base
        base, left = base * base, left >> 1
    return result if n >= 0 else div(1, result)


@primitive(
    lambda x, y: sign(x),
    spell={"float": "F(abs({0}))", "int": "F(abs({0}))", "bool": "{0}"},
    result_bool=None,
)
def abs(x: Number) -> Number:
    return x if isinstance(x, bool) else builtins.abs(x)  # sign(0) = 0 makes the derivative at the kink 0


@primitive(
    spell={
        "float": "(F(math.copysign(F(1), {0})) if abs({0}) > F(0) else F(0))",  # one comparison, not two
        "int": "(F(1) if {0} > F(0) else (F(-1) if {0} < F(0) else F(0)))",
        "bool": "{0}",
    },
    result_bool=None,
)
def sign(x: Number) -> Number:
    return x if isinstance(x, bool) else type(x)(x > 0) - type(x)(x < 0)  # 0 for NaN, as PyTorch's


# --- roots, exponentials, logarithms ------------------------------------------------------------------------


@primitive(lambda x, y: 1 / (2 * y), spell=library("sqrt"))
def sqrt(x: float) -> float:
    return total(math.sqrt, x)


@primitive(
    lambda x, y: -0.5 * ipow(y, 3),
    spell={"float": "F(1) / F(math.sqrt({0}))", "python:float": "F(np.divide(F(1), np.sqrt({0})))"},
)
def rsqrt(x: float) -> Number:
    return div(1.0, sqrt(x))


@primitive(lambda x, y: -(y * y), spell={"float": "F(1) / {0}", "python:float": "F(np.divide(F(1), {0}))"})
def reciprocal(x: float) -> Number:
    return div(1.0, x)


@primitive(lambda x, y: y, spell=library("exp"))
def exp(x: float) -> float:
    return total(math.exp, x)


@primitive(
    lambda x, y: y * LN2,
    spell={"float": "F(math.pow(F(2), {0}))", "python:float": "F(np.exp2({0}))"},  # Numba lacks math.exp2
)
def exp2(x: float) -> float:
    return total(math.pow, 2.0, x)


@primitive(lambda x, y: y + 1, spell=library("expm1"))
def expm1(x: float) -> float:
    return total(math.expm1, x)


@primitive(lambda x, y: 1 / x, spell=library("log"))
def log(x: float) -> float:
    return -inf if x == 0 else total(math.log, x)


@primitive(lambda x, y: 1 / (x * LN2), spell=library("log2"))
def log2(x: float) -> float:
    return -inf if x == 0 else total(math.log2, x)


@primitive(lambda x, y: 1 / (x * LN10), spell=library("log10"))
def log10(x: float) -> float:
    return -inf if x == 0 else total(math.log10, x)


@primitive(lambda x, y: 1 / (x + 1), spell=library("log1p"))
def log1p(x: float) -> float:
    return -inf if x == -1 else total(math.log1p, x)


# --- trigonometric and hyperbolic ---------------------------------------------------------------------------


@primitive(lambda x, y: cos(x), spell=library("sin"))
def sin(x: float) -> float:
    return total(math.sin, x)


@primitive(lambda x, y: -sin(x), spell=library("cos"))
def cos(x: float) -> float:
    return total(math.cos, x)


@primitive(lambda x, y: 1 + y * y, spell=library("tan"))
def tan(x: float) -> float:
    return total(math.tan, x)


@primitive(lambda x, y: rsqrt(1 - x * x), spell=library("asin", "arcsin"))
def asin(x: float) -> float:
    return total(math.asin, x)


@primitive(lambda x, y: -rsqrt(1 - x * x), spell=library("acos", "arccos"))
def acos(x: float) -> float:
    return total(math.acos, x)


@primitive(lambda x, y: 1 / (x * x + 1), spell=library("atan", "arctan"))
def atan(x: float) -> float:
    return math.atan(x)


@primitive(lambda x, y: cosh(x), spell=library("sinh"))
def sinh(x: float) -> float:
    return total(math.sinh, x, overflow=math.copysign(inf, x))


@primitive(lambda x, y: sinh(x), spell=library("cosh"))
def cosh(x: float) -> float:
    return total(math.cosh, x)


@primitive(lambda x, y: 1 - y * y, spell=library("tanh"))
def tanh(x: float) -> float:
    return math.tanh(x)


@primitive(lambda x, y: rsqrt(x * x + 1), spell=library("asinh", "arcsinh"))
def asinh(x: float) -> float:
    return math.asinh(x)


@primitive(lambda x, y: rsqrt(x * x - 1), spell=library("acosh", "arccosh"))
def acosh(x: float) -> float:
    return total(math.acosh, x)


@primitive(lambda x, y: 1 / (1 - x * x), spell=library("atanh", "arctanh"))
def atanh(x: float) -> float:
    return math.copysign(inf, x) if builtins.abs(x) == 1 else total(math.atanh, x)


@primitive(
    lambda x, y: (1 - y) * y,
    spell={
        "float": "F(1) / (F(1) + F(math.exp(-{0})))",
        "python:float": "F(np.divide(F(1), F(1) + F(np.exp(-{0}))))",
    },
)
def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp.python(-x))  # exp overflows to inf, and 1 / inf is the right limit


_ERF = 2.0 / math.sqrt(math.pi)


@primitive(lambda x, y: _ERF * exp(-(x * x)), spell={"float": "F(math.erf({0}))"})
def erf(x: float) -> float:
    return math.erf(x)


@primitive(lambda x, y: -_ERF * exp(-(x * x)), spell={"float": "F(math.erfc({0}))"})
def erfc(x: float) -> float:
    return math.erfc(x)


@primitive(
    lambda a, b, y: b / (a * a + b * b),
    lambda a, b, y: -a / (a * a + b * b),
    spell={"float": "F(math.atan2({0}, {1}))", "python:float": "F(np.arctan2({0}, {1}))"},
)
def atan2(a: float, b: float) -> float:
    return math.atan2(a, b)


# --- comparison and logic -----------------------------------------------------------------------------------


def _everywhere(text: str) -> dict[str, str]:
    return {"float": text, "int": text, "bool": text}


@primitive(spell=_everywhere("{0} < {1}"), result_bool=True)
def lt(a: Number, b: Number) -> bool:
    return a < b


@primitive(spell=_everywhere("{0} <= {1}"), result_bool=True)
def le(a: Number, b: Number) -> bool:
    return a <= b


@primitive(spell=_everywhere("{0} > {1}"), result_bool=True)
def gt(a: Number, b: Number) -> bool:
    return a > b


@primitive(spell=_everywhere("{0} >= {1}"), result_bool=True)
def ge(a: Number, b: Number) -> bool:
    return a >= b


@primitive(spell=_everywhere("{0} == {1}"), result_bool=True)
def eq(a: Number, b: Number) -> bool:
    return a == b


@primitive(spell=_everywhere("{0} != {1}"), result_bool=True)
def ne(a: Number, b: Number) -> bool:
    return a != b


# The logical ones read a number as `x != 0`; the emitter converts, so their text sees booleans only.


@primitive(spell=_everywhere("{0} & {1}"), result_bool=True)
def logical_and(a: Number, b: Number) -> bool:
    return bool(a) and bool(b)


@primitive(spell=_everywhere("{0} | {1}"), result_bool=True)
def logical_or(a: Number, b: Number) -> bool:
    return bool(a) or bool(b)


@primitive(spell=_everywhere("{0} ^ {1}"), result_bool=True)
def logical_xor(a: Number, b: Number) -> bool:
    return bool(a) != bool(b)


@primitive(spell=_everywhere("not {0}"), result_bool=True)
def logical_not(x: Number) -> bool:
    return not x


@primitive(spell={"float": "{0} != {0}", "int": "False", "bool": "False"}, result_bool=True)
def isnan(x: Number) -> bool:
    return x != x


@primitive(spell={"float": "abs({0}) == F(inf)", "int": "False", "bool": "False"}, result_bool=True)
def isinf(x: Number) -> bool:
    return math.isinf(x)


@primitive(spell={"float": "abs({0}) < F(inf)", "int": "True", "bool": "True"}, result_bool=True)
def isfinite(x: Number) -> bool:
    return math.isfinite(x)


@primitive(
    spell={
        "float": "math.copysign(F(1), {0}) < F(0)",
        "python:float": "np.copysign(F(1), {0}) < F(0)",
        "int": "{0} < F(0)",
        "bool": "False",
    },
    result_bool=True,
)
def signbit(x: Number) -> bool:
    return (math.copysign(1.0, x) < 0) if isinstance(x, float) else x < 0


# The reverse sweep and the tangent know `where` themselves: its derivative is a choice too, not a product
# with 0 or 1, so that an infinite derivative in the branch that was not taken cannot turn 0 * inf into NaN.
@primitive(spell=_everywhere("({1} if {0} else {2})"), result_bool=None)
def where(c: Number, a: Number, b: Number) -> Number:
    """a where c holds, else b: both are computed, one is chosen."""
    return a if c else b


# --- extremes, rounding: kinks and steps --------------------------------------------------------------------

# A tie gives one half to each, and NaN the whole to both: PyTorch's where(a == b, g / 2, g).masked_fill(a <
# b, 0).


@primitive(
    lambda a, b, y: where(eq(a, b), 0.5, where(lt(a, b), 0, 1)),
    lambda a, b, y: where(eq(a, b), 0.5, where(gt(a, b), 0, 1)),
    spell={
        "float": "({0} if ({0} > {1}) | ({0} != {0}) else {1})",
        "int": "({0} if {0} > {1} else {1})",
        "bool": "{0} | {1}",
    },
    result_bool=None,
)
def maximum(a: Number, b: Number) -> Number:
    return a if a > b or a != a else b


@primitive(
    lambda a, b, y: where(eq(a, b), 0.5, where(gt(a, b), 0, 1)),
    lambda a, b, y: where(eq(a, b), 0.5, where(lt(a, b), 0, 1)),
    spell={
        "float": "({0} if ({0} < {1}) | ({0} != {0}) else {1})",
        "int": "({0} if {0} < {1} else {1})",
        "bool": "{0} & {1}",
    },
    result_bool=None,
)
def minimum(a: Number, b: Number) -> Number:
    return a if a < b or a != a else b


def _whole(fn: Callable[[float], int], x: Number) -> Number:
    if isinstance(x, int) or not math.isfinite(x):
        return x
    return math.copysign(fn(x), x)  # no rounding changes the sign, and -0.5 goes up to -0.0


def _rounding(numpy: str, cuda: str | Callable[[list[str], Fresh], Lines]) -> dict[str, Any]:
    # On floats, Numba's math.floor and its like give an int64; NumPy's stay floats but are not there on CUDA.
    return {"float": f"F(np.{numpy}({{0}}))", "cuda:float": cuda, "int": "{0}"}


@primitive(spell=_rounding("floor", "F(math.floor({0}))"))
def floor(x: Number) -> Number:
    return _whole(math.floor, x)


@primitive(spell=_rounding("ceil", "F(math.ceil({0}))"))
def ceil(x: Number) -> Number:
    return _whole(math.ceil, x)


@primitive(spell=_rounding("trunc", "F(math.copysign(F(math.floor(abs({0}))), {0}))"))
def trunc(x: Number) -> Number:
    return _whole(math.trunc, x)


# 2**23 (2**52 in float64) added and taken away leaves the nearest whole number, ties to even; beyond, all are
# whole.
_ROUND = "(F(math.copysign((abs({0}) + F({whole})) - F({whole}), {0})) if abs({0}) < F({whole}) else {0})"


@primitive(spell=_rounding("rint", _ROUND))
def round(x: Number) -> Number:
    """The nearest whole number, ties to even."""
    return _whole(builtins.round, x)


# --- powers, remainders: several cases each -----------------------------------------------------------------


def _pow_int(a: list[str], fresh: Fresh) -> Lines:
    """Square and multiply, wrapping. PyTorch: a negative exponent leaves 0 but for the bases 1 and -1."""
    base, left, result = fresh(), fresh(), fresh()
    return [
        f"{base} = {a[0]}",
        f"{left} = ({a[1]} if {a[1]} > F(0) else F(0))",
        f"{result} = F(1)",
        f"while {left} > F(0):",
        f"    {result} = F({result} * {base}) if {left} & F(1) else {result}",
        f"    {base} = F({base} * {base})",
        f"    {left} = F({left} >> F(1))",
        f"if {a[1]} < F(0):",
        f"    {result} = F(1) if {a[0]} == F(1) else F(0)",
        f"    if {a[0]} == -1:",
        f"        {result} = F(-1) if {a[1]} & F(1) else F(1)",
    ], result


def _wrapped(x: int) -> int:
    """As int64 keeps it."""
    return (x + 2**63) % 2**64 - 2**63


# NumPy takes the exponent 0.5 for a square root, which differs from C's pow at -0.0 and at -inf.
_EDGE = "({1} == F(0.5)) & (({0} == F(0)) | ({0} == F(-inf)))"
_POW_PYTHON = f"F(np.power(abs({{0}}) if {_EDGE} else {{0}}, {{1}}))"


# PyTorch: the exponent 0 has derivative 0 even at x = NaN, and 0 ** y has none in y from y = 0 on, where
# log(0) is -inf.
@primitive(
    lambda a, b, y: where(eq(b, 0), 0, b * pow(a, b - 1)),
    lambda a, b, y: where(logical_and(eq(a, 0), ge(b, 0)), 0, y * log(a)),
    spell={"float": "F(math.pow({0}, {1}))", "python:float": _POW_PYTHON, "int": _pow_int},
)
def pow(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        if b >= 0:
            return _wrapped(builtins.pow(int(a), b, 2**64))
        return (1 if b % 2 == 0 else a) if a in (1, -1) else 0
    odd = builtins.abs(b) < 2.0**53 and b % 2 == 1
    if a == 0 and b < 0:
        return math.copysign(inf, a) if odd else inf
    return total(math.pow, a, b, overflow=-inf if a < 0 and odd else inf)


# Integers: x86 traps on a division by zero and on the smallest integer over -1, so both divide by 1 instead.
# For -1, which no unsigned integer is, that is the same remainder; what a division by zero gives does not matter, as the caller raises.
_SAFE = "(F(1) if ({1} == F(0)) | ({1} == -1) else {1})"


def _divide_by_zero(fn: Callable[[int, int], int], a: Number, b: Number) -> int:
    return fn(int(a), int(b) or 1)


def _remainder_float(a: list[str], fresh: Fresh, fmod: str = "np.fmod") -> Lines:
    rest = fresh()
    return [
        f"{rest} = F({fmod}({a[0]}, {a[1]}))",
        f"{rest} = ({rest} + {a[1]} if ({rest} != F(0)) & (({a[1]} < F(0)) != ({rest} < F(0))) else {rest})",
    ], rest


def _remainder_cuda(a: list[str], fresh: Fresh) -> Lines:
    return _remainder_float(a, fresh, "math.fmod")


def _fmod_int(a: list[str], fresh: Fresh) -> Lines:
    by, rest = fresh(), fresh()
    return [
        f"{by} = {_SAFE.format(*a)}",
        f"{rest} = F({a[0]} % {by})",
        f"{rest} = (F({rest} - {by}) if ({rest} != F(0)) & (({a[0]} < F(0)) != ({rest} < F(0))) else {rest})",
    ], rest


@primitive(
    lambda a, b, y: 1,
    lambda a, b, y: -trunc(a / b),
    spell={
        "float": "F(np.fmod({0}, {1}))",
        "cuda:float": "F(math.fmod({0}, {1}))",
        "int": _fmod_int,
    },
)
def fmod(a: Number, b: Number) -> Number:
    """The rest of the division that rounds towards zero: it has the sign of a."""
    if isinstance(a, int) and isinstance(b, int):
        return _divide_by_zero(lambda n, d: builtins.abs(n) % builtins.abs(d) * (1 if n >= 0 else -1), a, b)
    return total(math.fmod, a, b)


@primitive(
    lambda a, b, y: 1,
    lambda a, b, y: -floor_divide(a, b),
    spell={
        "float": _remainder_float,
        "cuda:float": _remainder_cuda,
        "int": f"F({{0}} % {_SAFE})",
    },
)
def remainder(a: Number, b: Number) -> Number:
    """The rest of the division that rounds down: it has the sign of b."""
    if isinstance(a, int) and isinstance(b, int):
        return _divide_by_zero(lambda n, d: n % d, a, b)
    rest = fmod(float(a), b)
    return rest + b if rest != 0 and (b < 0) != (rest < 0) else rest


def _floor_divide_float(
    a: list[str], fresh: Fresh, divide: str = "{0} / {1}", floor: str = "np.floor", fmod: str = "np.fmod"
) -> Lines:
    ratio, rest, whole, low = fresh(), fresh(), fresh(), fresh()
    return [
        f"{ratio} = {divide.format(*a)}",
        f"{rest} = F({fmod}({a[0]}, {a[1]}))",
        f"{whole} = {divide.format(f'({a[0]} - {rest})', a[1])}",
        f"{whole} = ({whole} - F(1) if ({rest} != F(0)) & (({a[1]} < F(0)) != ({rest} < F(0))) else {whole})",
        f"{low} = F({floor}({whole}))",
        f"{low} = ({low} + F(1) if {whole} - {low} > F(0.5) else {low})",
        f"{low} = ({low} if {whole} != F(0) else {ratio} * F(0))",
        f"{low} = ({ratio} if {a[1]} == F(0) else {low})",
    ], low


def _floor_divide_python(a: list[str], fresh: Fresh) -> Lines:
    return _floor_divide_float(a, fresh, "F(np.divide({0}, {1}))")


def _floor_divide_cuda(a: list[str], fresh: Fresh) -> Lines:
    return _floor_divide_float(a, fresh, floor="math.floor", fmod="math.fmod")


@primitive(
    spell={
        "float": _floor_divide_float,
        "python:float": _floor_divide_python,
        "cuda:float": _floor_divide_cuda,
        "int": f"(F(-{{0}}) if {{1}} == -1 else F({{0}} // {_SAFE}))",
    }
)
def floor_divide(a: Number, b: Number) -> Number:
    """The quotient rounded down, from the exact remainder: a / b may round up to the next whole number."""
    if isinstance(a, int) and isinstance(b, int):
        return _divide_by_zero(lambda n, d: n // d, a, b)
    ratio = div(a, b)
    if b == 0:
        return ratio
    rest = fmod(float(a), b)
    whole = (a - rest) / b
    if rest != 0 and (b < 0) != (rest < 0):
        whole -= 1
    if whole == 0:
        return math.copysign(0.0, ratio)
    low = floor(whole)
    return low + 1 if whole - low > 0.5 else low


@primitive(
    lambda a, b, y: where(eq(a, 0), 0, y / a),
    None,
    spell={"float": "F(math.copysign({0}, {1}))", "python:float": "F(np.copysign({0}, {1}))"},
)
def copysign(a: Number, b: Number) -> float:
    return math.copysign(a, b)


# --- the parts of a float, common divisors ------------------------------------------------------------------


@primitive(spell={"float": "F(np.nextafter({0}, {1}))", "cuda:float": "F(libdevice.nextafter{f}({0}, {1}))"})
def nextafter(a: float, b: float) -> float:
    return math.nextafter(a, b)


@primitive(spell={"float": "F(math.frexp({0})[0])"})
def mantissa(x: float) -> float:
    return math.frexp(x)[0]


# C leaves the exponent of an infinity and of NaN open; where PyTorch runs it is 0.
@primitive(spell={"float": "(F(math.frexp({0})[1]) if abs({0}) < F(inf) else F(0))"})
def exponent(x: float) -> float:
    return float(math.frexp(x)[1]) if math.isfinite(x) else 0.0


def _gcd_int(a: list[str], fresh: Fresh) -> Lines:
    """Euclid's, wrapping where the smallest integer has no absolute value."""
    big, small, rest = fresh(), fresh(), fresh()
    return [
        f"{big} = F(abs({a[0]}))",
        f"{small} = F(abs({a[1]}))",
        f"while {small} != F(0):",
        f"    {rest} = F({big} % {small})",
        f"    {big} = {small}",
        f"    {small} = {rest}",
        f"{big} = F(abs({big}))",
    ], big


@primitive(spell={"int": _gcd_int})
def gcd(a: int, b: int) -> int:
    return _wrapped(math.gcd(a, b))


# --- bits ---------------------------------------------------------------------------------------------------


def _bits(symbol: str) -> dict[str, str]:
    return {"int": f"F({{0}} {symbol} {{1}})", "bool": f"{{0}} {symbol} {{1}}"}


@primitive(spell=_bits("&"), result_bool=None)
def bitwise_and(a: int, b: int) -> int:
    return a & b


@primitive(spell=_bits("|"), result_bool=None)
def bitwise_or(a: int, b: int) -> int:
    return a | b


@primitive(spell=_bits("^"), result_bool=None)
def bitwise_xor(a: int, b: int) -> int:
    return a ^ b


@primitive(spell={"int": "F(~{0})", "bool": "not {0}"}, result_bool=None)
def bitwise_not(x: int) -> int:
    return (not x) if isinstance(x, bool) else ~x


# A shift by a negative count or by the width or more leaves 0, or the sign. On Python's integers the width is
# int64's.


@primitive(spell={"int": "(F({0} << {1}) if ({1} >= F(0)) & ({1} < F({bits})) else F(0))"})
def lshift(a: int, b: int) -> int:
    return _wrapped(a << b) if 0 <= b < 64 else 0


@primitive(spell={"int": "F({0} >> ({1} if ({1} >= F(0)) & ({1} < F({bits})) else F({out})))"})
def rshift(a: int, b: int) -> int:
    return a >> (b if 0 <= b < 64 else 63)


# --- parts of complex numbers: the real ones here are their own (`parts.py` has what they are of pairs) ----------


@primitive(lambda x, y: 1, spell=_everywhere("{0}"))
def conj(x: Number) -> Number:
    return x


@primitive(lambda x, y: 1, spell=_everywhere("{0}"))
def real(x: Number) -> Number:
    return x


@primitive(spell={"float": "F(0)", "int": "F(0)", "bool": "False"})
def imag(x: Number) -> Number:
    return type(x)(0)


@primitive(spell={"float": "({0} if {0} != {0} else (F(math.pi) if {0} < F(0) else F(0)))"})
def arg(x: float) -> float:
    """The angle in the complex plane."""
    return x if x != x else math.pi if x < 0 else 0.0


@primitive(spell=sign.spell, result_bool=None)
def sgn(x: Number) -> Number:
    """`sign`, which of a complex number is the one of its direction."""
    return sign.python(x)


@primitive(lambda re, im, y: 1, spell={})
def join(re: float, im: float) -> float:
    """The complex number of two parts."""
    raise TypeError("a complex number outside of a complex computation")


# --- composites: plain functions of the above, differentiated like a user's ---------------------------------


def square(x: Operand) -> Any:
    return ipow(x, 2)


def softplus(x: Operand, beta: Operand = 1, threshold: Operand = 20) -> Any:
    """log(1 + exp(beta x)) / beta, and x itself beyond the threshold."""
    scaled = mul(x, beta)
    return where(gt(scaled, threshold), x, div(log1p(exp(scaled)), beta))
