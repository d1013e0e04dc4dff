"""Logarithms, and the one that rounds the corner of softplus."""

from __future__ import annotations

from typing import Any

from nbgrad.kernels.texts.exponential import DOWN, EXP_DOWN
from nbgrad.kernels.texts.text import SHARED, define

LOG_CONSTANTS: dict[str, tuple[Any, Any]] = {
    "E_HI": (SHARED["LN2_HI"][0] * 2.0**-23, SHARED["LN2_HI"][1]),
    "E_LO": (SHARED["LN2_LO"][0] * 2.0**-23, SHARED["LN2_LO"][1]),
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


def log_of(y: str, after: str = "", more: str = "") -> tuple[str, str]:
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
define(
    "log",
    "x",
    tuple(_NORMAL + text + _LOG_EDGES for text in log_of("y", _LIFTED)),
    **_LIFTS,
    **LOG_CONSTANTS,
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
    define(
        _prim,
        "x",
        tuple(
            _NORMAL + split + _LIFTED + total + _LOG_EDGES
            for split, total in zip(_SPLIT, (_total, _LOG_BASE), strict=True)
        ),
        **(_LIFTS | LOG_CONSTANTS | _scales),
    )

# log(1 + z) for z = e^-|x|: what rounds the corner of max(x, 0), softplus(x) = max(x, 0) + this.
define(
    "soft_corner",
    "x",
    f"""
    b = fabs(x)
    low = b > HI
    a = select(low, 0.0, b)
    {EXP_DOWN}
    z = select(b > FAR, 0.0, y)  # whose square is nothing beside it
    v = select(low, 0.0, mad(z * z, poly(z, LOG1P_POLY), y))
    """,
    HI=(104.0, 745.2),
    FAR=(40.0, 40.0),
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
    **DOWN,
)  # fmt: skip

# As log of u = 1 + x, but f = x * 2^-e + (2^-e - 1) is taken from x itself, with q what its rounding lost (q - f * q is
# its share of the logarithm); where x is large u's own f is as good.
# The sign is x's, zeros' too.
LOG1P = tuple(
    f"""
    u = 1.0 + x
    {text}
    v = select(x < INF, v, x)
    v = select(u < 0.0, NAN, v)
    v = select(u == 0.0, -INF, v)
    v = copysign(v, x)
    """
    for text in log_of(
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
define(
    "log1p",
    "x",
    LOG1P,
    LARGE=(2.0**60, 2.0**60),
    ONE_BITS=(0x3F800000, 0x3FF0000000000000),
    **LOG_CONSTANTS,
)
