"""Hyperbolic functions and their inverses. Polynomials other than tanh's are Chebyshev expansions, cut at the stated error."""

from __future__ import annotations

from nbgrad.kernels.texts.exponential import EXP2_POLY, EXP_CORE
from nbgrad.kernels.texts.logarithm import LOG1P, LOG_CONSTANTS, log_of
from nbgrad.kernels.texts.text import define

# Below 1: x + x^3 P(x^2)/Q(x^2); above: 1 - 2/(e^2x + 1), where what the quotient loses hardly shows, nor what the exponential does
# (so that it is 2^(x * TWICE), reduced in one step). One division.
define(
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
    EXP2_POLY=EXP2_POLY,
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

# e^a / 2 and its inverse; sinh below 1 is a polynomial
_EXP_HALF = f"""
a = fabs(x)
c = select(a > HI, HI, a)
{EXP_CORE}
u = mad(n - 1.0, 0.5, BIASED)
v = n - 1.0 - (u - BIASED) + BIASED
y = mad(r, p, 1.0) * i2f(f2i(u) << MBITS) * i2f(f2i(v) << MBITS)
w = 0.25 / y
"""
_HYPERBOLIC_HI = {"HI": (90.0, 711.0)}
define(
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
define("cosh", "x", _EXP_HALF + "v = select(a < INF, y + w, a)", **_HYPERBOLIC_HI)

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
define(
    "asinh",
    "x",
    tuple(_ASINH.format(log=text) for text in log_of("n", after="e = select(c, e + UNIT, e)", more="+ l / n")),
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
    **LOG_CONSTANTS,
)  # fmt: skip

# acosh(x) = log1p(t + sqrt(2 t + t^2)), t = x - 1
define(
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
        for log1p in LOG1P
    ),
    LN2=(0.6931471805599453, 0.6931471805599453),
    BIG=(2.0**14, 2.0**30),
    LARGE=(2.0**60, 2.0**60),
    ONE_BITS=(0x3F800000, 0x3FF0000000000000),
    **LOG_CONSTANTS,
)

# atanh: from 1/2 on log1p(2 a / (1 - a)) / 2
define(
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
        for log1p in LOG1P
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
    **LOG_CONSTANTS,
)  # fmt: skip
