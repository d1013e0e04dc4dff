"""Powers and the reciprocal root."""

from __future__ import annotations

from nbgrad.kernels.texts.exponential import EXP2_POLY
from nbgrad.kernels.texts.logarithm import LOG_CONSTANTS
from nbgrad.kernels.texts.text import define, define_double, define_wide

# Two steps of third order from what half the bits say. In float64 the root and a division are as quick.
define(
    "rsqrt",
    "x",
    """
    d = x < TINY
    a = select(d, x * LIFT, x)
    s = i2f(0x5F3759DF - (f2i(a) >> 1))
    h = a * s
    e = mad(-h, s, 1.0)
    r = mad(s * e, mad(e, 0.375, 0.5), s)
    u = a * r
    o = mad(-u, r, 1.0)
    v = mad(r * o, mad(o, 0.375, 0.5), r)
    v = select(d, v * LIFTED, v)
    v = select(x < 0.0, NAN, v)
    v = select(x == 0.0, copysign(INF, x), v)
    v = select(x == INF, 0.0, v)
    """,
    ("f4",),
    TINY=(2.0**-126, None),
    LIFT=(2.0**24, None),
    LIFTED=(2.0**12, None),
)

# float32 x ** y, in float64: 2^(y * log2 |x|), then C's rules for signs and special values.
define_wide(
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
    OFFSET=LOG_CONSTANTS["OFFSET"][1],
    MAGIC_BITS=LOG_CONSTANTS["MAGIC_BITS"][1],
    BIG=2.0**40,
    # log2((1+s)/(1-s)) / s in s^2 on |s| <= 1/5, Remez, degree 5: 2^-42; (2^r - 1) / r on |r| <= 1/2, degree 6: 2^-34
    LOG2_POLY=(2.8853900817774205, 0.961796694831778, 0.5770777541033781, 0.4122262931615685, 0.3192811775075733,
               0.29087425508957987),
    EXP2_POLY=(0.6931471805416257, 0.24022651076303012, 0.05550410962687649, 0.00961803683780431,
               0.0013333430683889354, 0.00015467135602297135, 1.5314972130879518e-05),
)  # fmt: skip

# float64 x ** y: log2 |x| with what it lost, of 1 + f = (1 + s) / (1 - s) by the series of s, whose first two terms are carried in two
# parts each. What is not a normal number to a power that gives one is left to C, and so is a negative one to no small integer.
define_double(
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
    OFFSET=LOG_CONSTANTS["OFFSET"][1],
    MAGIC_BITS=LOG_CONSTANTS["MAGIC_BITS"][1],
    TINY=2.0**-1022,
    BIG=2.0**51,
    SCALE=2.8853900817779268,
    SCALE_LO=4.0710547481862066e-17,
    THIRD=0.3333333333333333,
    THIRD_LO=1.850371707708594e-17,
    # ((atanh(s) / s - 1) / s^2 - 1/3) / s^2 in s^2 on |s| <= 1/5, Remez, degree 7: 2^-67 of atanh(s)
    LOG_SERIES=(0.1999999999999986, 0.14285714285789938, 0.1111111109539602, 0.09090910783559658, 0.0769220229235197,
        0.06670601556817435, 0.057957395565441876, 0.06288421667520268),
    EXP2_POLY=EXP2_POLY[1],
)  # fmt: skip
