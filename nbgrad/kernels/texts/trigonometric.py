"""Trigonometric functions and their inverses. The inverses' polynomials are Chebyshev expansions, cut at the stated error."""

from __future__ import annotations

from nbgrad.kernels.texts.text import define, define_wide

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
define(
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
define(
    "atan2", "y0 x0", ("v = y0", _ATAN2.replace("@LOST@", _QUOTIENT_LOST)), **_HALF_PI, **_ATAN_POLY, **_PI
)
define_wide(
    "atan2",
    "y1 x1",
    "y0 = widen(y1)\nx0 = widen(x1)" + _ATAN2.replace("@LOST@", "o = 0.0") + "u = narrow(v)",
    **{name: pair[1] for name, pair in (_HALF_PI | _PI).items()},
    ATAN_POLY=_ATAN_POLY["ATAN_POLY"][0],
)

# asin(a) for a <= 1/2 is s + p with s = a, above pi/2 - 2 (s + p) with s = sqrt((1 - a) / 2), of which o is what the root lost: a quotient
# by 2 t, for which 1 / (2 t) to a fifteenth will do, as its bits say it.
_ASIN_CORE = """
a = fabs(x)
b = a > 0.5
z = select(b, mad(-0.5, a, 0.5), a * a)
t = select(b, root(z), a)
o = select(b, mad(-t, t, z) * i2f(HALVES - f2i(t)), 0.0)
p = mad(t * z, poly(z, ASIN_POLY), o)
"""
_ASIN_POLY = {
    "HALVES": (0x7E6E8000, 0x7FCDD00000000000),
    # (asin(s) / s - 1) / s^2 in s^2 on [0, 1/4]: 2^-27, 2^-58
    "ASIN_POLY": (
        (0.166666663, 0.0750009876, 0.0445980322, 0.0311161564, 0.0170778594, 0.0338057483),
        (0.16666666666666666, 0.07500000000000125, 0.04464285714253574, 0.030381944476963723, 0.02237215737767329,
         0.01735281834070849, 0.013963748435199949, 0.011566830427132645, 0.009618864779963437,
         0.009335970060991405, 0.0029838811037374503, 0.01970071180526169, -0.01944563642504257,
         0.0297378456439969),
    ),
}  # fmt: skip
define(
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
define(
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
define(
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
define(
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
define(
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
