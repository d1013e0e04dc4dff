"""Primitives that are made of primitives: special functions, each with its derivative and its definition, in the place of a text.

Promises the emitter that calling a definition on expressions writes the function in primitives that have texts, so that it is branch-free
(every case is computed, one chosen) and runs on every target; and the ops that the derivatives are in this table again, to any order,
and read the values that PyTorch saves. The coefficients were computed for this module in 40-digit arithmetic, to 2^-56.
"""

# Calling a primitive gives a number or an expression:
# mypy: disable-error-code="has-type, no-any-return"

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .prims import (
    abs,
    copysign,
    div,
    eq,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    ge,
    gt,
    inf,
    ipow,
    isinf,
    isnan,
    le,
    log,
    log1p,
    logical_and,
    logical_or,
    lt,
    mad,
    maximum,
    minimum,
    nan,
    primitive,
    round,
    sign,
    sin,
    sqrt,
    where,
)

_EPS = 2.0**-52
_SQRT_PI, _SQRT_2, _SQRT_2PI = math.sqrt(math.pi), math.sqrt(2.0), math.sqrt(2.0 * math.pi)

# fmt: off
# lgamma(2 + t) / t on |t| <= 1/2, in t
_LGAMMA = (0.42278433509846713, 0.32246703342411326, -0.06735230105319814, 0.020580808427780335,
    -0.007385551028668096, 0.002890510331036772, -0.0011927539120033873, 0.0005096695153484373,
    -0.00022315475069647703, 9.945767440096764e-05, -4.492635166770342e-05, 2.0505584372896933e-05,
    -9.438454884054723e-06, 4.3847319318293745e-06, -2.044935323180052e-06, 9.199898075671394e-07,
    -4.303234692956732e-07, 2.7880013392491846e-07, -1.341570273460026e-07)
# erfinv(x) / x for w = -log(1 - x^2): w in [0, 6.25], sqrt(w) in [2.5, 4], [4, 9], [9, 27.5], each mapped to [-1, 1]
_ERFINV_NEAR = (1.6536545626831027, 0.7504943200799635, -0.05892256710377839, -0.022604447453450232,
    0.017808361818321756, -0.004137314377403391, -0.001271692268923054, 0.001232485568550093,
    -0.00026439366376450275, -0.00011688883906368398, 9.336736525855553e-05, -1.5027713926607672e-05,
    -1.12572237422896e-05, 7.1300663740767115e-06, -6.839448584111029e-07, -1.0593369313279479e-06,
    5.397895417173958e-07, -1.0167881522843905e-08, -9.905042307855324e-08, 3.9142671001331085e-08,
    5.039596477958118e-09, -8.5579840744792e-09, 1.4461050507675818e-09, 7.680990475576519e-10,
    -2.5466157998892326e-10)
_ERFINV_MIDDLE = (3.0838856104922208, 0.753944225770624, 0.003021139436374801, -0.0015825410894071102,
    0.0007883078513035505, -0.00040063569835709886, 0.00016966502201594177, -4.739182728807125e-05,
    2.4058645410848233e-06, 5.12731666449741e-06, -2.664792853936729e-06, 5.264624728714587e-07,
    9.289112225619482e-08, -9.468994570246937e-08, 2.640222955342202e-08, -3.686244821266667e-10,
    -2.4632549100503392e-09, 9.889115389827975e-10, -1.16623938386261e-10, -6.466960514925268e-11,
    2.409770718342735e-11)
_ERFINV_FAR = (6.3645933264346715, 2.522773476000219, -0.0031915058161112726, -0.00016865432139256796,
    0.00045160402315669914, -0.0002849486727699848, 0.00014173299616534787, -6.35855768253964e-05,
    2.6877945347702436e-05, -1.0912195749168268e-05, 4.299037662509069e-06, -1.6552475551710726e-06,
    6.165011016058162e-07, -2.1452274656245783e-07, 1.0393785979492591e-07, -8.720436224923238e-08,
    -1.0754565018629138e-08, 8.009328314089592e-08, 7.120357718061689e-08, -1.7592319339401605e-07,
    -6.3581460734527525e-09, 1.1783626632064482e-07, 3.129649674122743e-08, -1.1010980787973056e-07,
    2.376964788662656e-08, 2.6211590369787028e-08, -1.0438354367789765e-08)
_ERFINV_FARTHEST = (18.17365678529753, 9.27485842020074, -0.009104957024817539, 0.0034372626741975753,
    -0.0012955392536651562, 0.0004759314467155814, -0.00016508801951957482, 5.07063347746874e-05,
    -1.114504828247692e-05, -8.681174202922242e-07, 3.384711432247528e-06, -3.057945352804318e-06,
    2.1799544835312913e-06, -1.392104293765262e-06, 7.941920693205361e-07, -4.5393734485057286e-07,
    3.4160881506583335e-07, -1.9885851547209215e-07, -8.34228793936221e-09, 1.428819834502447e-08,
    1.0050853824920707e-07, -5.9540311950381627e-08, -3.3214901611519534e-08, 1.9679870469176294e-08,
    1.2204228405741839e-08, -6.693098810104466e-09)
# exp(-x) I0(x) sqrt(x) and exp(-x) I1(x) sqrt(x) for x >= 8: Chebyshev coefficients in 16/x - 1
_I0_LARGE = (0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18,
    -7.233180487874754e-18)
_I1_LARGE = (0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18)
# (1 + 2x) erfcx(x) for x >= 0: Chebyshev coefficients in (x - 3.75) / (x + 3.75)
_ERFCX = (1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189,
    -0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07,
    1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11,
    2.86879501093067e-11, 1.9455868545777347e-13, -9.65469674843344e-13, 3.25254814814874e-14,
    3.3478119482868056e-14, -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
    5.068148904796111e-17)
# fmt: on


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule, the constant one first."""
    total: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = mad(total, x, c)
    return total


def _chebyshev(t: Any, coefficients: Sequence[float]) -> Any:
    """Clenshaw's rule, T0's coefficient first."""
    twice, b, before = 2 * t, coefficients[-1], 0.0
    for c in coefficients[-2:0:-1]:
        b, before = mad(twice, b, c - before), b
    return mad(t, b, coefficients[0] - before)


# --- the error function's relatives -------------------------------------------------------------------------


@primitive(lambda x, y: 2 * x * y - 2 / _SQRT_PI, spell={})
def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x)"""
    a = abs(x)
    at = minimum(a, 1e30)
    tail = div(0.5 * _chebyshev(div(at - 3.75, at + 3.75), _ERFCX), 0.5 + a)  # 1 + 2 a would overflow
    return where(lt(x, 0), 2 * exp(x * x) - tail, tail)


def _over_x(w: Any, farthest: bool) -> Any:
    """erfinv(x) / x for w = -log(1 - x^2)."""
    s = sqrt(w)
    far = _polynomial((s - 6.5) * 0.4, _ERFINV_FAR)
    if farthest:
        far = where(lt(s, 9), far, _polynomial((s - 18.25) * (1 / 9.25), _ERFINV_FARTHEST))
    middle = where(lt(s, 4), _polynomial((s - 3.25) * (1 / 0.75), _ERFINV_MIDDLE), far)
    return where(lt(w, 6.25), _polynomial((w - 3.125) * 0.32, _ERFINV_NEAR), middle)


@primitive(lambda x, y: _SQRT_PI / 2 * exp(ipow(erfinv(x), 2)), spell={})
def erfinv(x: Any) -> Any:
    a = abs(x)
    return where(eq(a, 1), copysign(inf, x), x * _over_x(-log((1 - a) * (1 + a)), farthest=False))


@primitive(lambda x, y: exp(-0.5 * (x * x)) / _SQRT_2PI, spell={})
def ndtr(x: Any) -> Any:
    """The normal distribution's function."""
    return 0.5 * (1 + erf(x * math.sqrt(0.5)))


@primitive(lambda x, y: (2 - x * x) * exp(-0.5 * (x * x)) / _SQRT_2PI, spell={})
def gelu_slope(x: Any) -> Any:
    """The derivative of x ndtr(x)."""
    return ndtr(x) + x * exp(-0.5 * (x * x)) / _SQRT_2PI


@primitive(lambda p, y: _SQRT_2PI * exp(0.5 * (y * y)), spell={})
def ndtri(p: Any) -> Any:
    """The p-quantile of the normal distribution."""
    inside = _SQRT_2 * (2 * (p - 0.5)) * _over_x(-log(4 * (p * (1 - p))), farthest=True)
    return where(eq(p, 0), -inf, where(eq(p, 1), inf, inside))


@primitive(lambda x, y: exp(-(y + 0.5 * (x * x))) / _SQRT_2PI, spell={})
def log_ndtr(x: Any) -> Any:
    """The logarithm of the normal distribution's function."""
    t = x * math.sqrt(0.5)
    return where(lt(x, -1), log(0.5 * erfcx(-t)) - t * t, log1p(-0.5 * erfc(t)))


# --- the gamma function's -----------------------------------------------------------------------------------

_STIRLING = tuple(
    b / (2 * k * (2 * k - 1))
    for k, b in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), 1)
)
_DIGAMMA = tuple(
    b / (2 * k) for k, b in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), 1)
)


@primitive(lambda x, y: digamma(x), spell={})
def lgamma(x: Any) -> Any:
    """log |gamma(x)|: from gamma's recurrence and a polynomial below 8, Stirling's series above, reflected below 0."""
    a = abs(x)
    # a is brought to u in [1.5, 2.5): |gamma(a)| is gamma(u) * falling, or gamma(u) / rising below 1.5, where u - 2 is exact
    u, falling = a, 1.0
    for _ in range(6):
        high = ge(u, 2.5)
        u = where(high, u - 1, u)
        falling = where(high, falling * u, falling)
    t = where(lt(a, 0.5), a, where(lt(a, 1.5), a - 1, u - 2))
    rising = where(lt(a, 0.5), a * (a + 1), a)
    up, small = lt(a, 1.5), lt(a, 8)
    logarithm = log(where(small, where(up, rising, falling), a))
    low = t * _polynomial(t, _LGAMMA) + where(up, -logarithm, logarithm)
    z = div(1, a)
    high = (a - 0.5) * (logarithm - 1) + (
        0.5 * math.log(2 * math.pi) - 0.5 + z * _polynomial(z * z, _STIRLING)
    )
    value = where(small, low, where(eq(a, inf), inf, high))
    rest = a - floor(a)
    s = sin(math.pi * minimum(rest, 1 - rest))
    reflected = log(div(math.pi, a * s)) - value
    pole = eq(rest, 0)  # of a whole number, as all large ones are, and of -inf
    return where(
        logical_and(lt(x, 0), gt(a, 1e-17)), where(logical_or(eq(a, inf), pole), inf, reflected), value
    )


def _cotangent(x: Any) -> Any:
    """That of pi * x."""
    rest = x - round(x)  # near 0 on either side of a whole number
    return div(sin(math.pi * (0.5 - abs(rest))), sin(math.pi * rest))


@primitive(lambda x, y: polygamma(x, 1), spell={})
def digamma(x: Any) -> Any:
    """gamma' / gamma: ten steps of its recurrence, then its asymptotic series; reflected below 0, where whole numbers give NaN."""
    low = lt(x, 0)
    a = where(low, 1 - x, x)
    steps: Any = 0.0
    for k in range(10):
        steps = steps + div(1, a + k if k else a)  # the sign of a zero decides
    near = lt(a, 10)
    w = where(near, a + 10, a)
    z = div(1, w)
    value = log(w) - 0.5 * z - z * z * _polynomial(z * z, _DIGAMMA) - where(near, steps, 0.0)
    reflected = where(eq(x, floor(x)), nan, value - math.pi * _cotangent(x))
    return where(low, reflected, value)


def _cotangent_derivative(n: int) -> list[float]:
    """The polynomial in cot(x) that is the n-th derivative of cot(x)."""
    c = [0.0, 1.0]
    for _ in range(n):
        slope = [k * v for k, v in enumerate(c)][1:]
        c = [-(a + b) for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return c


@primitive(lambda x, n, y: polygamma(x, n + 1), spell={}, static=True)
def polygamma(x: Any, n: int) -> Any:
    """The n-th derivative of digamma, n >= 1: (-1)^(n+1) n! times the sum of (x + k)^-(n+1), by Euler and Maclaurin after some terms."""
    low, s = lt(x, 0), n + 1
    a = where(low, 1 - x, x)
    terms = 10 + n
    total: Any = 0.0
    for k in range(terms):
        total = total + ipow(div(1, a + k), s)
    z = div(1, a + terms)
    factor, series = float(s), []
    for k, b in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6), 1):
        series.append(b / math.factorial(2 * k) * factor)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    total = total + ipow(z, n) * (1 / n + z * (0.5 + z * _polynomial(z * z, series)))
    value = (-1) ** (n + 1) * math.factorial(n) * total
    if (
        n == 1
    ):  # PyTorch's takes the sine of pi * x as that is rounded, so that it is large but finite at -1, -2 ...
        reflected = ipow(div(math.pi, sin(math.pi * x)), 2) - value
    else:
        slope = math.pi**s * _polynomial(_cotangent(x), _cotangent_derivative(n))
        pole = inf if n % 2 else -inf
        reflected = where(eq(x, floor(x)), pole, (-1) ** n * value - slope)
        value = where(eq(x, 0), pole, value)
    return where(low, reflected, value)


# --- Bessel functions ---------------------------------------------------------------------------------------

# I0 and I1 / (x/2) are these power series in (x/8)^2, to x = 8; in (x/2)^2 some would be denormal float32, which are slow
_I0_SMALL = tuple(16**k / math.factorial(k) ** 2 for k in range(26))
_I1_SMALL = tuple(16**k / (math.factorial(k) * math.factorial(k + 1)) for k in range(26))


def _bessel(x: Any, small: Sequence[float], large: Sequence[float], scaled: bool) -> Any:
    """I0, or for x >= 0 I1 over x/2 below 8 and itself above; times exp(-|x|) if scaled."""
    a = abs(x)
    near = _polynomial(a * a * (1 / 64), small)
    far = div(_chebyshev(div(16, maximum(a, 8)) - 1, large), sqrt(a))
    near = near * (0.5 * a) if large is _I1_LARGE else near
    return where(le(a, 8), near * exp(-a) if scaled else near, far if scaled else exp(a) * far)


@primitive(lambda x, y: i1(x), spell={})
def i0(x: Any) -> Any:
    return _bessel(x, _I0_SMALL, _I0_LARGE, scaled=False)


@primitive(lambda x, y: i1e(x) - sign(x) * y, spell={})
def i0e(x: Any) -> Any:
    return _bessel(x, _I0_SMALL, _I0_LARGE, scaled=True)


# Near 0 the derivative of I1 is its limit, as PyTorch's, which takes NaN for small, too.


@primitive(lambda x, y: where(gt(abs(x), _EPS), i0(_off_zero(x)) - y / _off_zero(x), 0.5), spell={})
def i1(x: Any) -> Any:
    value = _bessel(x, _I1_SMALL, _I1_LARGE, scaled=False)
    return where(lt(x, 0), -value, value)


@primitive(
    lambda x, y: where(
        gt(abs(x), _EPS), i0e(_off_zero(x)) - y * (sign(_off_zero(x)) + 1 / _off_zero(x)), 0.5
    ),
    spell={},
)
def i1e(x: Any) -> Any:
    value = _bessel(x, _I1_SMALL, _I1_LARGE, scaled=True)
    return where(lt(x, 0), -value, value)


def _off_zero(x: Any) -> Any:
    return where(gt(abs(x), _EPS), x, _EPS)


# --- exponentials and logarithms in one -----------------------------------------------------------------------


@primitive(lambda x, y: -sign(x) * exp(-abs(x)) / (1 + exp(-abs(x))), spell={})
def soft_corner(x: Any) -> Any:
    """log(1 + exp(-|x|)), what rounds the corner of max(x, 0)"""
    return log1p(exp(-abs(x)))


@primitive(lambda x, y: y, spell={})
def exp_below(x: Any) -> Any:
    """exp(x) for x <= 0; above, any number"""
    return exp(x)


@primitive(lambda x, y: exp(x), spell={})
def expm1_below(x: Any) -> Any:
    """exp(x) - 1 for x <= 0; above, any number"""
    return expm1(x)


# --- sums and products of logarithms ------------------------------------------------------------------------


@primitive(
    lambda x, w, y: where(logical_and(eq(x, 0), le(w, 0)), 0, log(w)),
    lambda x, w, y: x / w,
    spell={},
)
def xlogy(x: Any, w: Any) -> Any:
    """x log(w), and 0 for x = 0"""
    return where(isnan(w), nan, where(eq(x, 0), 0.0, x * log(w)))


@primitive(
    lambda x, w, y: where(logical_and(eq(x, 0), le(w, -1)), 0, log1p(w)),
    lambda x, w, y: x / (w + 1),
    spell={},
)
def xlog1py(x: Any, w: Any) -> Any:
    return where(isnan(w), nan, where(eq(x, 0), 0.0, x * log1p(w)))


def _equal_infinities(a: Any, b: Any) -> Any:
    return logical_and(eq(a, b), isinf(a))


@primitive(lambda a, b, y: 1 / (1 + exp(b - a)), lambda a, b, y: 1 / (1 + exp(a - b)), spell={})
def logaddexp(a: Any, b: Any) -> Any:
    return where(_equal_infinities(a, b), a, maximum(a, b) + soft_corner(a - b))


@primitive(lambda a, b, y: 1 / (1 + exp2(b - a)), lambda a, b, y: 1 / (1 + exp2(a - b)), spell={})
def logaddexp2(a: Any, b: Any) -> Any:
    sum_ = soft_corner((a - b) * math.log(2.0)) * (1 / math.log(2.0))
    return where(_equal_infinities(a, b), a, maximum(a, b) + sum_)


@primitive(lambda x, y: -(1 + log(x)), spell={})
def entr(x: Any) -> Any:
    """-x log(x), 0 at 0 and -inf below"""
    return where(isnan(x), x, where(gt(x, 0), -x * log(x), where(eq(x, 0), 0.0, -inf)))


@primitive(lambda a, b, y: a / y, lambda a, b, y: b / y, spell={})
def hypot(a: Any, b: Any) -> Any:
    """sqrt(a^2 + b^2) without overflow on the way"""
    large, small = maximum(abs(a), abs(b)), minimum(abs(a), abs(b))
    ratio = where(eq(large, 0), 0.0, div(small, large))
    return where(logical_or(isinf(a), isinf(b)), inf, large * sqrt(1 + ratio * ratio))


__all__ = [
    "digamma",
    "entr",
    "erfcx",
    "erfinv",
    "exp_below",
    "expm1_below",
    "gelu_slope",
    "hypot",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "lgamma",
    "log_ndtr",
    "logaddexp",
    "logaddexp2",
    "ndtr",
    "ndtri",
    "polygamma",
    "soft_corner",
    "xlog1py",
    "xlogy",
]
