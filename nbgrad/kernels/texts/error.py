"""The error function and its kin."""

from __future__ import annotations

from nbgrad.kernels.texts.exponential import DOWN, EXP2_POLY, EXP_CORE, EXP_DOWN
from nbgrad.kernels.texts.logarithm import LOG_CONSTANTS, log_of
from nbgrad.kernels.texts.text import define

# x * P(w), w = -log(1 - x^2), one polynomial to 6.25 and one from there on. In float64 it is a definition in expr/special.py.
define(
    "erfinv",
    "x",
    f"""
    c = fabs(x)
    {log_of("(1.0 - c) * (1.0 + c)")[0]}
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
    **LOG_CONSTANTS,
)  # fmt: skip

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
define(
    "erf",
    "x",
    f"""
    a = fabs(x)
    a = select(a > CAP, CAP, a)
    c = -poly(a, ERFC_LOG)
    {EXP_CORE}
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
define(
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
    EXP2_POLY=EXP2_POLY,
)  # fmt: skip

# The derivative of x ndtr(x) below 0 is e^(-a^2/2) (R - a / sqrt(2 pi)), where R = e^(a^2/2) ndtr(-a) is a polynomial to CAP and hardly
# counts beyond; above 0 it is 1 minus that.
define(
    "gelu_slope",
    "x",
    f"""
    b = fabs(x)
    low = b > HI
    b = select(low, 0.0, b)
    a = 0.5 * b * b
    {EXP_DOWN}
    c = select(b > CAP, CAP, b)
    v = select(low, -0.0, y * mad(b, DENSITY, poly(mad(c, 0.4, -1.0), MILLS)))
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
    **DOWN,
)  # fmt: skip

# e^-a^2 * q * P(q), q = 1 / (a + SHIFT), with what a^2, q and in float32 P(q) lost; 2 minus that below 0. Of float64 1 - erf(x) below 1/2.
_ERFC_HEAD = """
b = fabs(x)
low = b > CAP
b = select(low, 0.0, b)
a = b * b
t = mad(a, -LOG2E, RAISED)
n = t - RAISED
r = mad(n, -LN2_LO, mad(n, -LN2_HI, -a)) - mad(b, b, -a)
d = b + 3.0
q = 1.0 / d
o = mad(-q, b - (d - 3.0), mad(-q, d, 1.0))
"""
_ERFC_TAIL = """
l = mad(w, o * mad(SLOPE, q, 1.0), l)
y = (w + mad(r * poly(r, EXP_POLY), w + l, l)) * i2f(f2i(t) << MBITS) * LOWER
v = select(x < 0.0, 2.0 - y, y)
"""
define(
    "erfc",
    "x",
    (
        f"""
        {_ERFC_HEAD}
        z = q - 0.1875
        u = z * poly(z, ERFC_POLY)
        g = MIDDLE + u
        w = q * g
        l = mad(q, MIDDLE - g + u, mad(q, g, -w))
        {_ERFC_TAIL}
        v = select(low, select(x < 0.0, 2.0, 0.0), v)
        """,
        f"""
        {_ERFC_HEAD}
        g = poly(q, ERFC_POLY)
        w = q * g
        l = mad(q, g, -w)
        {_ERFC_TAIL}
        v = select(b < 0.5, 1.0 - mad(x, poly(a, ERF_POLY), x), v)
        v = select(low, select(x < 0.0, 2.0, 0.0), v)
        """,
    ),
    CAP=(10.2, 27.5),
    SLOPE=(6.8, 6.9),  # q P(q) changes by so many times q more than q, in proportion
    MIDDLE=(1.1942899, None),
    # float32: (e^a^2 erfc(a) / q - MIDDLE) / z in z = q - 3/16, degree 8: 2^-28.8, then digits varied for the least error.
    # float64: e^a^2 erfc(a) / q in q on a in [1/2, CAP], degree 21: 2^-58
    ERFC_POLY=(
        (6.2788258, 25.861557, 80.85945, 175.99542, 193.36015, -190.34354, -946.3252, -196.81146, 3278.6133),
        (0.5641895835413796, 1.6925687521112474, 4.795611303613707, 12.694275918611178, 30.888911838220594,
         67.29527112043401, 124.21429437848165, 180.06217420109664, -49.17685237128616, 1219.6198913819185,
         -19223.467080738254, 147114.2665901706, -1045651.7073609864, 5943505.1938732, -26918240.94300446,
         97312715.87692714, -271891371.8254618, 565033805.7157208, -839484800.9508502, 842833318.2419939,
         -513546580.11648905, 143846737.89704967),
    ),
    **DOWN,
    **_ERF_POLY,
)  # fmt: skip
