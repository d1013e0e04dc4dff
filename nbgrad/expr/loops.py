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
    """Enter a function of two numbers into the table of primitives: its text is a call of it in float64."""

    def enter(fn: Callable[..., float]) -> Prim:
        @wraps(fn)
        def value(a: float, b: float) -> float:
            return total(fn, float(a), float(b))

        call = f"F({fn.__name__}(np.float64({{0}}), np.float64({{1}})))"
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
