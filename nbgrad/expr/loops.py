"""Special functions whose value takes a loop, or one of several methods: plain Python on floats, compiled as it stands.

Promises the emitter that a name in a primitive's text here is a function of this module, which `text` writes out, with all that it uses,
for a kernel's file; they compute in float64. Derivatives, where PyTorch has them, are expressions. The coefficients were computed for this
module in 45-digit arithmetic.
"""

# Calling a primitive gives a number or an expression:
# mypy: disable-error-code="has-type, no-any-return"

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from math import inf, nan
from typing import Any

from nbgrad.base.tables import cached

from .node import Prim
from .prims import exp, log, primitive, total
from .special import _LGAMMA, lgamma

# fmt: off
# 1 / (2k + 3)
_ODD = (0.3333333333333333, 0.2, 0.14285714285714285, 0.1111111111111111, 0.09090909090909091,
    0.07692307692307693, 0.06666666666666667, 0.058823529411764705, 0.05263157894736842, 0.047619047619047616, 0.043478260869565216,
    0.04, 0.037037037037037035, 0.034482758620689655, 0.03225806451612903)
# B(2k) / (2k)!, k = 1, 2 ...
_BERNOULLI = (0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07,
    2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.586062056277845e-15, -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19)
# Stirling's series of log(gamma(a) / (sqrt(2 pi / a) (a / e)^a)), in 1 / a^2 times 1 / a
_STIRLING = (0.08333333333333333, -0.002777777777777778, 0.0007936507936507937, -0.0005952380952380953,
    0.0008417508417508417, -0.0019175269175269176, 0.00641025641025641, -0.029550653594771242)
# Temme's expansion of the incomplete gamma functions: the coefficients of a^-k, in eta
_TEMME_0 = (-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
    0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
    -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
    1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11,
    -5.830772132550426e-11)
_TEMME_1 = (-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
    0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
    -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
    1.1951628599778148e-08, -1.7543241719747647e-11, -1.0091543710600413e-09, 4.162792991842583e-10)
_TEMME_2 = (0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
    -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08,
    1.3721957309062934e-06, -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10,
    -1.409252991086752e-08, 6.228974084922022e-09)
_TEMME_3 = (0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885,
    -7.561801671883977e-05, -2.396505113867297e-07, 1.1082654115347302e-05, -5.6749528269915965e-06,
    1.4230900732435883e-06, -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08)
_TEMME_4 = (-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902, -1.4638452578843418e-06,
    6.641498215465122e-05, -3.968365047179435e-05, 1.1375726970678419e-05, 2.507497226237533e-10,
    -1.6954149536558305e-06)
_TEMME_5 = (-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392, -0.00019932570516188847,
    6.797780477937208e-05, 1.419062920643967e-07, -1.3594048189768693e-05)
_TEMME_6 = (0.0005313079364639922, -0.0005921664373536939, 0.0002708782096718045)
# fmt: on


def unraised(fn: Callable[..., float]) -> Callable[..., float]:
    """Where nothing is compiled, the function answers beyond its domain as C's do."""

    @wraps(fn)
    def value(*args: Any) -> float:
        return total(fn, *args)

    return value


def looped(*partials: Callable[..., Any] | None) -> Callable[[Callable[..., float]], Prim]:
    """Enter a function of two or three numbers into the table of primitives: its text is a call of it in float64."""

    def enter(fn: Callable[..., float]) -> Prim:
        def of_two(a: float, b: float) -> float:
            return total(fn, float(a), float(b))

        def of_three(a: float, b: float, c: float) -> float:
            return total(fn, float(a), float(b), float(c))

        count = fn.__code__.co_argcount
        call = f"F({fn.__name__}({', '.join([f'np.float64({{{k}}})' for k in range(count)])}))"
        value = wraps(fn)(of_two if count == 2 else of_three)
        return primitive(*partials, spell={"float": call})(value)

    return enter


@cached(64)
def text(names: frozenset[str], decorator: str) -> str:
    """The source of those of the names that are functions here, and of the functions and constants that they use."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        found = globals().get(name)
        fn = inspect.unwrap(found.python) if isinstance(found, Prim) else found
        if name in parts or (isinstance(found, Prim) and fn.__module__ != __name__):
            return
        if inspect.isfunction(fn):
            parts[name] = ""
            for used in fn.__code__.co_names:
                add(used)
            source = inspect.getsource(fn)
            parts[name] = parts.pop(name) + f"\n\n{decorator}\n{source[source.index('def ') :]}"
        elif isinstance(fn, (tuple, float)) and name not in ("inf", "nan"):
            parts[name] = f"{name} = {fn!r}\n"

    for name in sorted(names):
        add(name)
    return "".join(sorted(parts.values(), key=lambda p: p.startswith("\n")))


def _series(t: float, coefficients: tuple[float, ...]) -> float:
    value = 0.0
    for k in range(len(coefficients) - 1, -1, -1):
        value = value * t + coefficients[k]
    return value


# --- Hurwitz's zeta function --------------------------------------------------------------------------------


@looped(None, lambda x, q, y: -x * zeta(x + 1.0, q))
def zeta(x: float, q: float) -> float:
    """The sum of (q + k)^-x over k = 0, 1 ...: terms to beyond 9, then by Euler and Maclaurin."""
    if x == 1:
        return inf
    if x < 1:
        return nan
    if q <= 0:
        if q == math.floor(q):
            return inf
        if x != math.floor(x):
            return nan
    if x != x:
        return nan
    if not (x < inf and q < inf):
        return (1.0 if q == 1 else inf if q < 1 else nan) if x == inf and q < inf else nan
    value, w = math.pow(q, -x), q
    term, count = value, 0
    while count < 9 or w <= 9:
        count += 1
        w += 1
        term = math.pow(w, -x)
        value += term
        if abs(term) < 1e-17 * abs(value) and w > 1:
            return value
    value += term * w / (x - 1) - 0.5 * term
    rising, power = x, term / w
    for k in range(len(_BERNOULLI)):
        step = _BERNOULLI[k] * rising * power
        value += step
        if abs(step) < 1e-17 * abs(value):
            break
        rising *= (x + (2 * k + 1)) * (x + (2 * k + 2))
        power /= w * w
    return value


# --- the incomplete gamma functions -------------------------------------------------------------------------


def _excess(a: float, x: float) -> float:
    """m - log(1 + m) for 1 + m = x / a, also where both are nearly the same."""
    m = (x - a) / a
    if abs(m) > 0.5:
        return m - math.log(x / a)
    s = m / (2 + m)
    z = s * s
    return m * s - 2 * s * z * _series(z, _ODD)


def _gamma_weight(a: float, x: float) -> float:
    """x^a exp(-x) / gamma(1 + a)"""
    if a < 10:
        return math.pow(x, a) * math.exp(-x) / math.gamma(1 + a)
    z = 1 / a
    return math.sqrt(z / (2 * math.pi)) * math.exp(-a * _excess(a, x) - z * _series(z * z, _STIRLING))


def _lower_series(a: float, x: float) -> float:
    """P(a, x) where x is not much more than a."""
    weight = _gamma_weight(a, x)
    if weight == 0:
        return 0.0
    term = value = 1.0
    n = a
    for _ in range(2000):
        n += 1
        term *= x / n
        value += term
        if term < 1e-17 * value:
            break
    return weight * value


def _upper_series(a: float, x: float) -> float:
    """Q(a, x) for small x, where P is nearly 1."""
    term, value = 1.0, 0.0
    for k in range(1, 200):
        term *= -x / k
        step = term / (a + k)
        value += step
        if abs(step) < 1e-17 * abs(value):
            break
    log_gamma = a * _series(a, _LGAMMA) - math.log1p(a) if a < 0.5 else math.lgamma(1 + a)
    power = a * math.log(x) - log_gamma  # log(x^a / gamma(1 + a))
    return -math.expm1(power) - a * math.exp(power) * value


def _upper_fraction(a: float, x: float) -> float:
    """Q(a, x) where x is more than a: the continued fraction, by Lentz's steps."""
    weight = a * _gamma_weight(a, x)
    if weight == 0:
        return 0.0
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for k in range(1, 2000):
        n = -k * (k - a)
        b += 2
        d = 1 / (n * d + b)
        c = b + n / c
        value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return weight * value


def _uniform(a: float, x: float, upper: bool) -> float:
    """Q(a, x), or P, where a is large and x near it."""
    half = _excess(a, x)
    eta = math.copysign(math.sqrt(2 * half), x - a)
    z = 1 / a
    rest = 0.0
    rest = rest * z + _series(eta, _TEMME_6)
    rest = rest * z + _series(eta, _TEMME_5)
    rest = rest * z + _series(eta, _TEMME_4)
    rest = rest * z + _series(eta, _TEMME_3)
    rest = rest * z + _series(eta, _TEMME_2)
    rest = rest * z + _series(eta, _TEMME_1)
    rest = rest * z + _series(eta, _TEMME_0)
    rest *= math.exp(-a * half) / math.sqrt(2 * math.pi * a)
    if upper:
        return 0.5 * math.erfc(eta * math.sqrt(0.5 * a)) + rest
    return 0.5 * math.erfc(-eta * math.sqrt(0.5 * a)) - rest


def _gamma_part(a: float, x: float, upper: bool) -> float:
    """Q(a, x), or P: whichever is computed without cancellation, or 1 less the other."""
    if a > 100 and abs(x - a) < 0.4 * a:
        return _uniform(a, x, upper)
    if x <= 1.1:
        whole = -0.4 / math.log(x) < a if x <= 0.5 else 1.1 * x < a
        if whole or not upper:
            value, is_upper = _lower_series(a, x), False
        else:
            value, is_upper = _upper_series(a, x), True
    elif x < a + 1:
        value, is_upper = _lower_series(a, x), False
    else:
        value, is_upper = _upper_fraction(a, x), True
    return value if is_upper == upper else 1 - value


def _gamma_density(a: Any, x: Any) -> Any:
    return exp((a - 1) * log(x) - x - lgamma(a))


@looped(None, lambda a, x, y: _gamma_density(a, x))
def gammainc(a: float, x: float) -> float:
    """P(a, x): the part of gamma(a)'s integral that lies below x."""
    if x < 0 or a < 0:
        return nan
    if a == 0:
        return 1.0 if x > 0 else nan
    if x == 0:
        return 0.0
    if a == inf:
        return 0.0 if x != inf else nan
    if x == inf:
        return 1.0
    if a != a or x != x:
        return nan
    return _gamma_part(a, x, False)


@looped(None, lambda a, x, y: -_gamma_density(a, x))
def gammaincc(a: float, x: float) -> float:
    """Q(a, x) = 1 - P(a, x)"""
    if x < 0 or a < 0:
        return nan
    if a == 0:
        return 0.0 if x > 0 else nan
    if x == 0:
        return 1.0
    if a == inf:
        return 1.0 if x != inf else nan
    if x == inf:
        return 0.0
    if a != a or x != x:
        return nan
    return _gamma_part(a, x, True)


# --- orthogonal polynomials ---------------------------------------------------------------------------------

# Of a degree that is truncated; a negative one gives 0. Chebyshev's four differ in the second of them and in the angle: within
# [-1, 1] large degrees are sines and cosines.


def _degree(n: float) -> int:
    return int(n) if abs(n) < 9e18 else -1


def _recurrence(x: float, n: int, second: float) -> float:
    before, value = 1.0, second
    for _ in range(1, n):
        before, value = value, (x + x) * value - before
        if value != value:
            break
    return value if n else 1.0


@looped()
def chebyshev_polynomial_t(x: float, n: float) -> float:
    k = _degree(n)
    if k < 0:
        return 0.0
    if abs(x) == 1:
        return 1.0 if x > 0 or k % 2 == 0 else -1.0
    if k > 6 and abs(x) < 1:
        return math.cos(k * math.acos(x))
    return _recurrence(x, k, x)


@looped()
def chebyshev_polynomial_u(x: float, n: float) -> float:
    k = _degree(n)
    if k < 0:
        return 0.0
    if abs(x) == 1:
        return k + 1.0 if x > 0 or k % 2 == 0 else -(k + 1.0)
    if k > 8 and abs(x) < 1:
        angle = math.acos(x)
        return math.sin((k + 1) * angle) / math.sin(angle)
    return _recurrence(x, k, x + x)


@looped()
def chebyshev_polynomial_v(x: float, n: float) -> float:
    k = _degree(n)
    if k < 0:
        return 0.0
    if abs(x) == 1:
        return 1.0 if x > 0 else 2 * k + 1.0 if k % 2 == 0 else -(2 * k + 1.0)
    if k > 8 and abs(x) < 1:
        angle = math.acos(x)
        return math.cos((k + 0.5) * angle) / math.cos(0.5 * angle)
    return _recurrence(x, k, x + x - 1)


@looped()
def chebyshev_polynomial_w(x: float, n: float) -> float:
    k = _degree(n)
    if k < 0:
        return 0.0
    if abs(x) == 1:
        return 2 * k + 1.0 if x > 0 else 1.0 if k % 2 == 0 else -1.0
    if k > 8 and abs(x) < 1:
        angle = math.acos(x)
        return math.sin((k + 0.5) * angle) / math.sin(0.5 * angle)
    return _recurrence(x, k, x + x + 1)


@looped()
def hermite_polynomial_h(x: float, n: float) -> float:
    k = _degree(n)
    if k < 0:
        return 0.0
    before, value = 1.0, x + x
    for j in range(1, k):
        before, value = value, 2 * (x * value - j * before)
    return value if k else 1.0


@looped()
def hermite_polynomial_he(x: float, n: float) -> float:
    k = _degree(n)
    if k < 0:
        return 0.0
    before, value = 1.0, x
    for j in range(1, k):
        before, value = value, x * value - j * before
    return value if k else 1.0


@looped()
def laguerre_polynomial_l(x: float, n: float) -> float:
    k = _degree(n)
    if k < 0:
        return 0.0
    before, value = 1.0, 1 - x
    for j in range(1, k):
        before, value = value, ((2 * j + 1 - x) * value - j * before) / (j + 1)
    return value if k else 1.0


@looped()
def legendre_polynomial_p(x: float, n: float) -> float:
    k = _degree(n)
    if k < 0:
        return 0.0
    before, value = 1.0, x
    for j in range(1, k):
        before, value = value, ((2 * j + 1) * x * value - j * before) / (j + 1)
    return value if k else 1.0


# --- gradients of samples -----------------------------------------------------------------------------------

# How a sample moves with a parameter while its place in the distribution stays: less the parameter's derivative of the distribution
# function, over the density. Which approximation serves where, and its coefficients, are PyTorch's, so that trained parameters are the
# same as there; each is good to three digits or more.
# fmt: off
_DIGAMMA_SERIES = (0.08333333333333333, -0.008333333333333333, 0.003968253968253968, -0.004166666666666667,
    0.007575757575757576, -0.021092796092796094, 0.08333333333333333)
# of log(x / a) and log(a), power by power of the first: a numerator and a denominator
_GAMMA_SLOPE = (0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1.0, 0.32668115, 0.10406089, 0.0014179084,
    0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623,
    0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, 0.00085092367,
    -1.5247877e-07)
# of log(x), log(a / x) and log(total * x / a), by powers of the first, of the second, of the third
_BETA_ABOVE = (1.003668233, -0.01061107488, -0.0657888334, 0.01201642863, 0.6336835991, -0.3557432599, 0.05486251648,
    -0.001465281033, -0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013, 0.221950385, -0.3187676331,
    0.01799915743, 0.01074823814, -0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057, 0.02155310298,
    0.004170831599, 0.001292462449, 6.976601077e-05, -0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565,
    0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181, 0.005900514878, -0.001936558688, -9.495446725e-06,
    5.385558597e-05)
_BETA_BELOW = (1.0, -0.02924021934, -0.04438342661, 0.007285809825, 0.6357567472, -0.3473456711, 0.05454656494,
    -0.002407477521, -0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149, 0.5925320577, -0.1757678135,
    0.01505928619, 0.000564515273, 0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956, -0.007258481865,
    0.001096195486, 0.0003934994223, -4.12701925e-05, 0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05,
    0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05, -0.0003477407336, 6.959756487e-05,
    1.097287507e-05, -1.650964693e-06)
# fmt: on


def _digamma(x: float) -> float:
    """gamma' / gamma of a positive number."""
    if x == 0:
        return -inf
    steps = 0.0
    while x < 10:
        steps += 1 / x
        x += 1
    square = 1 / (x * x)
    return math.log(x) - 0.5 / x - square * _series(square, _DIGAMMA_SERIES) - steps


def _four(coefficients: tuple[float, ...], first: int, t: float) -> float:
    """The polynomial of degree 3 whose coefficients begin there."""
    c = coefficients
    return c[first] + t * (c[first + 1] + t * (c[first + 2] + t * c[first + 3]))


def _gamma_slope_below(a: float, x: float) -> float:
    """Of a small x: the derivative of the power series of the distribution function."""
    term, n = 1.0, a
    plain, twice = 1 / a, 1 / (a * a)
    for k in range(1, 6):
        term *= -x / k
        n += 1
        plain += term / n
        twice += term / (n * n)
    power = math.pow(x, a)
    moved = (math.log(x) - _digamma(a)) * power * plain - power * twice
    density = math.pow(x, a - 1) * math.exp(-x)
    return -moved / density if density > 0 else nan


def _gamma_slope_of_many(a: float, x: float) -> float:
    """Of a large a: Rice's expansion about the saddle point, and where x is near a its limit."""
    if 0.9 * a <= x <= 1.1 * a:
        first = 1 + 24 * a * (1 + 12 * a)
        second = 1440 * a * a + 6 * x * (53 - 120 * x) - 65 * x * x / a + a * (107 + 3600 * x)
        return first * second / (1244160 * a * a * a * a)
    size, ratio = math.sqrt(8 * a), math.log(x / a)
    bend = math.pow(x - a - a * ratio, -1.5)
    inner = size / (a - x) + (-bend if x < a else bend)
    slope = ratio * inner - math.sqrt(2 / a) * (a + x) / ((a - x) * (a - x))
    return -(1 + (1 + 1 / (24 * a)) / (12 * a)) * x * slope / size


@looped()
def gamma_slope(a: float, x: float) -> float:
    """The derivative by `a` of a sample x of the standard gamma distribution."""
    if not (x < inf and a < inf):
        return nan
    if x < 0.8:
        below = _gamma_slope_below(a, x) if x > 0 and a > 1e-150 else nan
        return 0.0 if below != below else below
    if a > 8:
        return _gamma_slope_of_many(a, x)
    if a <= 0:
        return nan
    u, v = math.log(x / a), math.log(a)
    above = _four(_GAMMA_SLOPE, 0, v) + u * (_four(_GAMMA_SLOPE, 8, v) + u * _four(_GAMMA_SLOPE, 16, v))
    below = _four(_GAMMA_SLOPE, 4, v) + u * (_four(_GAMMA_SLOPE, 12, v) + u * _four(_GAMMA_SLOPE, 20, v))
    return math.exp(above / below)


def _beta_slope_low(x: float, a: float, b: float) -> float:
    """By `a`, of an x near 0: the derivative of the power series."""
    shift = _digamma(a) - _digamma(a + b) - math.log(x)
    term, n = 1.0, a
    value = (shift + 1 / a) / a
    for k in range(1, 11):
        term *= (k - b) * x / k
        n += 1
        value += term / n * (shift + 1 / n)
    value *= x * math.pow(1 - x, -b)
    return 0.0 if value != value else value


def _beta_slope_high(x: float, a: float, b: float) -> float:
    """By `b`, of an x near 0."""
    shift = _digamma(a + b) - _digamma(b)
    term, rising, moved = 1.0, 1.0, 0.0
    value = shift / a
    for k in range(1, 9):
        term *= -x / k
        moved = moved * (b - k) + rising
        rising *= b - k
        value += term / (a + k) * (moved + shift * rising)
    value *= -math.pow(1 - x, 1 - b)
    return 0.0 if value != value else value


def _beta_slope_of_many(x: float, a: float, b: float) -> float:
    """Where both parameters are large: Rice's expansion about the saddle point, and near the mean its limit."""
    total = a + b
    mean, spread = a / total, math.sqrt(a * b / (total + 1)) / total
    if abs(x - mean) <= 0.1 * spread:
        inner = 8 * (1 - x) * (135 * b - 11) * a + (453 + 1620 * b * (1 - x) - 455 * x) * b
        inner = inner * a + 3 * (59 + 180 * b - 90 * x) * b * b
        inner = inner * a + (43 + 20 * (16 + 27 * b) * x) * b * b * b
        inner = inner * a + 47 * x * b * b * b * b
        above = (1 + 12 * a) * (1 + 12 * b) / (total * total)
        return above / (1 - x) * inner / (12960 * a * a * a * b * b * (1 + 12 * total))
    stirling = (1 + 1 / (12 * a) + 1 / (288 * a * a)) * (1 + 1 / (12 * b) + 1 / (288 * b * b))
    stirling /= 1 + 1 / (12 * total) + 1 / (288 * total * total)
    off = a * (x - 1) + b * x
    ahead = (2 * a * a + a * b) * (x - 1) - x * b * b
    ahead /= math.sqrt(2 * a / b) * math.pow(total, 1.5) * off * off
    bend = math.pow(b * math.log(b / (total * (1 - x))) + a * math.log(a / (total * x)), -1.5)
    inner = math.sqrt(8 * a * b / total) / off + (bend if x < mean else -bend)
    slope = ahead + 0.5 * math.log(a / (total * x)) * inner
    return -stirling * x / math.sqrt(2 * a * b / total) * slope


@looped()
def beta_slope(x: float, a: float, total: float) -> float:
    """The derivative by `a` of a sample x of the beta distribution of `a` and `total - a`, over 1 - x: what a sample of Dirichlet's
    distribution moves by is a sum of such."""
    b = total - a
    if not (0 <= x <= 1 and 0 < a <= total and total < inf):
        return nan
    width = total * x * (1 - x)
    if x <= 0.5 and width < 2.5:
        return _beta_slope_low(x, a, b) if x > 0 else 0.0
    if x >= 0.5 and width < 0.75:
        return -_beta_slope_high(1 - x, b, a) if b > 0 else 0.0
    if a > 6 and b > 6:
        return _beta_slope_of_many(x, a, b)
    if b == 0:
        return nan
    u = math.log(x)
    v = math.log(a) - u
    w = math.log(total) - v
    above = below = 0.0
    for i in range(2, -1, -1):
        p = q = 0.0
        for j in range(2, -1, -1):
            p = p * v + _four(_BETA_ABOVE, 12 * i + 4 * j, w)
            q = q * v + _four(_BETA_BELOW, 12 * i + 4 * j, w)
        above = above * u + p
        below = below * u + q
    return above / below * x * (_digamma(total) - _digamma(a)) / b
