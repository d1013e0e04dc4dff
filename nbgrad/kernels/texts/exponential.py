"""Exponentials and the sigmoid."""

from __future__ import annotations

from nbgrad.kernels.texts.text import SHARED, define

# e^c = 2^n * (1 + r * p), |r| <= ln2/2
EXP_CORE = """
t = mad(c, LOG2E, BIASED)
n = t - BIASED
r = mad(n, -LN2_LO, mad(n, -LN2_HI, c))
p = poly(r, EXP_POLY)
"""

# e^-a for a >= 0: 2^n times a large power, which is no denormal, and that taken away again, rounded once
EXP_DOWN = """
t = mad(a, -LOG2E, RAISED)
n = t - RAISED
r = mad(n, -LN2_LO, mad(n, -LN2_HI, -a))
y = mad(r, poly(r, EXP_POLY), 1.0) * i2f(f2i(t) << MBITS) * LOWER
"""
DOWN = {
    "RAISED": (1.5 * 2.0**23 + 127 + 64, 1.5 * 2.0**52 + 1023 + 512),
    "LOWER": (2.0**-64, 2.0**-512),
}

# Limits: beyond HI everything rounds to inf, below LO to 0, which is chosen, not computed: a product that underflows takes a hundred
# others' time (a softmax of a million numbers, half of them masked by -inf, 4.6 ms, so 0.5). 2^n is applied in two halves, so that
# overflow and gradual underflow are the last product's own, rounded once; h = n/2 rounded, through the same magic as n. (By a large or
# a small constant according to the sign of x it is two instructions less, and no quicker.)
define(
    "exp",
    "x",
    f"""
    low = x < LO
    c = select(x > HI, HI, x)  # a NaN passes both
    c = select(low, 0.0, c)
    {EXP_CORE}
    u = mad(n, 0.5, BIASED)
    v = n - (u - BIASED) + BIASED
    y = select(low, 0.0, mad(r, p, 1.0) * i2f(f2i(u) << MBITS) * i2f(f2i(v) << MBITS))
    """,
    HI=(89.0, 710.0),
    LO=(-104.0, -745.2),
)

# Down to a; what lies above 0 is left open.
define(
    "exp_below",
    "x",
    f"""
    low = x < LO
    a = select(low, 0.0, -x)
    {EXP_DOWN}
    y = select(low, 0.0, y)
    """,
    LO=(-104.0, -745.2),
    **DOWN,
)

# (2^r - 1) / r on |r| <= 1/2, Remez; degree 5: 2^-29, degree 10: 2^-58 of 2^r
EXP2_POLY = (
        (0.6931472, 0.2402265, 0.05550328, 0.009618004, 0.0013400296, 0.00015476329),
        (0.6931471805599453, 0.24022650695910133, 0.05550410866482174, 0.009618129107593276,
         0.0013333558146379036, 0.00015403530458156801, 1.5252733867545145e-05, 1.3215434775520963e-06,
         1.0178046458205174e-07, 7.073867731639563e-09, 4.457387891105178e-10),
)  # fmt: skip
define(
    "exp2",
    "x",
    """
    low = x < LO
    c = select(x > HI, HI, x)
    c = select(low, 0.0, c)
    t = c + BIASED
    n = t - BIASED
    r = c - n
    u = mad(n, 0.5, BIASED)
    v = n - (u - BIASED) + BIASED
    y = select(low, 0.0, mad(r, poly(r, EXP2_POLY), 1.0) * i2f(f2i(u) << MBITS) * i2f(f2i(v) << MBITS))
    """,
    HI=(129.0, 1025.0),
    LO=(-150.0, -1075.0),
    EXP2_POLY=EXP2_POLY,
)  # fmt: skip

# Below 0, what lies above being left open: (2^n - 1) + 2^n * (r + r^2 * p), with what the first sum lost.
define(
    "expm1_below",
    "x",
    """
    c = select(x < LO, LO, x)
    t = mad(c, LOG2E, BIASED)
    n = t - BIASED
    r = mad(n, -LN2_LO, mad(n, -LN2_HI, c))
    s = i2f(f2i(t) << MBITS)
    a = s - 1.0
    b = s * r
    h = a + b
    v = copysign(h + mad(b * r, poly(r, EXPM1_POLY), b - (h - a)), x)
    """,
    LO=(-20.0, -40.0),
    EXPM1_POLY=(SHARED["EXP_POLY"][0][1:], SHARED["EXP_POLY"][1][1:]),
)

# (2^n - 1) + 2^n * (r + o + r^2 * p), where o is what r lost, by halves, so that 2^n is finite: the two large parts are summed with
# what the sum lost (the first is the larger, or 0).
define(
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
    EXPM1_POLY=(SHARED["EXP_POLY"][0][1:], SHARED["EXP_POLY"][1][1:]),
)

# e^|x| = Y / w with w = 2^-n exact (even when denormal) and Y = e^r = 1 + r * p: the sigmoid of a negative x is
# w / (w + Y), of a positive one Y / (w + Y). Nothing overflows. What Y lost cancels in Y / (Y + w), and
# w / (1 + (r * p + w)) loses less than w / (w + Y). As PyTorch's 1 / (1 + e^-x) it is 0 where e^-x is inf:
# beyond HI, w is.
define(
    "sigmoid",
    "x",
    """
    a = fabs(x)
    low = a > HI
    c = select(low, 0.0, a)
    t = mad(c, -LOG2E, RAISED)
    n = t - RAISED
    r = mad(n, LN2_LO, mad(n, LN2_HI, c))
    p = poly(r, EXP_POLY)
    w = select(low, 0.0, i2f(f2i(t) << MBITS) * LOWER)
    b = x > 0.0
    m = select(b, 1.0, w)
    y = mad(r, p, m)
    v = select(b, y, w) / (y + select(b, w, 1.0))
    """,
    HI=(88.72283, 709.782712893384),
    **DOWN,
)
