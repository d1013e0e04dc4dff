"""What has one right answer: remainders, quotients rounded down, neighbours."""

from __future__ import annotations

from nbgrad.kernels.texts.text import define

# fmod from the quotient, where that has no more digits than a float: rounded, it is the whole quotient or, where it was rounded up to
# a whole number, one more; the rest, exact in one rounding, then has the other sign.
_FMOD = """
a = fabs(x)
b = fabs(y)
q = truncated(a / b)
r = fma(-q, b, a)
r = select(r < 0.0, r + b, r)
r = select(a < b, a, r)
r = or_fmod(select(q < DIGITS, copysign(r, x), NAN), x, y)
"""
_DIGITS = {"DIGITS": (2.0**24, 2.0**53)}
# the rest has the divisor's sign, or the quotient rounds down: where the rest of fmod has the other sign
_OTHER_SIGN = "select(r == 0.0, 0.0, r) * copysign(1.0, y) < 0.0"
define("fmod", "x y", _FMOD, **_DIGITS)
define("remainder", "x y", f"{_FMOD}r = select({_OTHER_SIGN}, r + y, r)", **_DIGITS)
define(
    "floor_divide",
    "x y",
    f"""
    {_FMOD}
    g = x / y
    w = (x - r) / y
    w = select({_OTHER_SIGN}, w - 1.0, w)
    l = down(w)
    l = select(w - l > 0.5, l + 1.0, l)
    l = select(w == 0.0, g * 0.0, l)
    l = select(y == 0.0, g, l)
    """,
    **_DIGITS,
)

# The next bits up or down; from zero the least float of y's sign.
define(
    "nextafter",
    "x y",
    """
    i = select_int((x < y) == (x > 0.0), 1, -1)
    v = i2f(f2i(x) + i)
    v = select(x == 0.0, copysign(LEAST, y), v)
    v = select(x == y, y, v)
    v = select(x == x, select(y == y, v, y), x)
    """,
    LEAST=(2.0**-149, 2.0**-1074),
)
