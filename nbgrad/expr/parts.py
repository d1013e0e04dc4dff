"""Complex numbers as pairs of real ones: what a kernel computes of an expression whose variables are complex.

Promises the kernels that `pairs` gives two real expressions for one of complex variables, so that emission, vectorising texts and every
device know nothing of complex numbers; and the derivatives (`diff.py`) what the primitives that are not holomorphic pass on. The rest
of them pass on the conjugate of their partial, which makes of a gradient, as in PyTorch, dL/d(real part) + i dL/d(imaginary part).

What is real for sure, as an absolute value, has None for an imaginary part. A primitive that stands nowhere here has no complex form:
its op is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from . import prims as p
from .node import PRIMS, Const, Expr, Var, as_expr, const, postorder, var
from .special import hypot

Pair = tuple[Any, Any]  # of expressions; an imaginary part that is None is zero

_RULES: dict[str, Callable[..., Pair]] = {}


class NoComplexForm(Exception):
    """A primitive of which there is no complex form."""


def pairs(roots: Sequence[Expr], complex_vars: Collection[str]) -> list[Pair]:
    """The real and the imaginary part of each root, of the variables `<name>.re` and `<name>.im` in the place of those that are complex.

    >>> from nbgrad.expr import var
    >>> pairs([var("z") * var("x")], {"z"})
    [(sub(mul(z.re, x), mul(z.im, 0.0)), add(mul(z.re, 0.0), mul(z.im, x)))]
    """
    done: dict[Expr, Pair] = {}
    for node in postorder(roots):
        if node.prim is not None:
            args = [done[a] for a in node.args]
            name, real = node.prim.name, all([im is None for _, im in args])
            rule = _RULES.get(name)
            if rule is not None and (name in _OF_PARTS or not real):
                done[node] = rule(*args) if node.attr is None else rule(*args, node.attr)
            elif real:
                done[node] = node.prim.build([re for re, _ in args], node.attr), None
            else:
                raise NoComplexForm(name)
        elif isinstance(node, Var) and node.attr in complex_vars:
            done[node] = var(f"{node.attr}.re"), var(f"{node.attr}.im")
        else:  # a number among complex ones is one of them: the sign of a zero tells
            done[node] = node, None if node.is_bool else const(0.0)
    return [done[root] for root in roots]


def truth(pair: Pair) -> Expr:
    """Whether a number is not zero."""
    re, im = pair
    if re.is_bool:
        return as_expr(re)
    there = p.ne(re, 0)
    return as_expr(there if im is None else p.logical_or(there, p.ne(im, 0)))


def conjugate(e: Expr, but: str = "") -> Expr:
    """The conjugate of an expression, as one of the conjugates of its variables; the variable `but` stays as it is."""
    done: dict[Expr, Expr] = {}
    for node in postorder([e]):
        if isinstance(node, Const) or node.is_bool or (node.prim and node.prim.name in REAL_VALUED):
            done[node] = node
        elif node.prim is None:
            done[node] = node if node.attr == but else p.conj(node)
        elif node.prim is p.join:
            re, im = node.args
            done[node] = p.join(re, -im)
        elif node.prim is p.conj:
            done[node] = node.args[0]
        else:
            done[node] = node.prim.build([done[a] for a in node.args], node.attr)
    return done[e]


def _over_roots(z: Any, w: Any) -> Expr:
    return as_expr(p.reciprocal(p.sqrt(z) * p.sqrt(w)))


def _asin_slope(z: Expr) -> Expr:
    re, im = p.real(z), p.imag(z)
    return _over_roots(p.join(1.0 - re, -im), p.join(re + 1.0, im))


def _asinh_slope(z: Expr) -> Expr:
    re, im = p.real(z), p.imag(z)
    return _over_roots(p.join(1.0 - im, re), p.join(im + 1.0, -re))


def _acosh_slope(z: Expr) -> Expr:
    re, im = p.real(z), p.imag(z)
    return _over_roots(p.join(re + 1.0, im), p.join(re - 1.0, im))


# Partials that are other roots than those of real numbers on half of the plane or on a cut: of parts, as a number that is added takes
# the sign of a zero, which tells the side of the cut.
PARTIALS: dict[str, Callable[..., Expr]] = {
    "asin": _asin_slope,
    "acos": lambda z: -_asin_slope(z),
    "asinh": _asinh_slope,
    "acosh": _acosh_slope,
}

REAL_VALUED = {"abs", "real", "imag", "arg"}
BESIDE = {"conj", "sgn", "join", *REAL_VALUED}  # what is not holomorphic


def holomorphic(e: Expr) -> bool:
    """Whether every primitive in it is, and has the partials of real numbers, `sign` standing for what has another meaning here."""
    others = {"sign", *BESIDE, *PARTIALS}
    return not any(n.prim is not None and n.prim.name in others for n in postorder([e]))


def cotangents(node: Expr, g: Expr) -> list[Expr]:
    """What a primitive that is not holomorphic passes on to each argument of the gradient `g` that it got."""
    (name, z), real = (node.prim.name, node.args[0]), p.real(g)  # type: ignore[union-attr]
    if name == "conj":
        return [p.conj(g)]
    if name == "real":
        return [real]
    if name == "imag":
        return [p.join(0.0, real)]
    if name == "join":
        return [real, p.imag(g)]
    if name == "abs":
        return [real * p.sgn(z)]
    if name == "arg":  # of z / |z|^2, turned by a quarter
        size = p.abs(z)
        turned = p.join(-p.imag(z), p.real(z)) / (size * size)
        return [p.where(p.eq(z, 0), 0.0, real * turned)]
    size, s = p.abs(z), p.sgn(z)  # of sgn: what is across the radius, over its length
    along = p.real(p.conj(s) * g)
    return [p.where(p.eq(z, 0), 0.0, (g - along * s) / size)]


def tangents(node: Expr, moved: dict[int, Expr]) -> Expr:
    """The tangent of such a primitive, of those of its arguments."""
    name, z = node.prim.name, node.args[0]  # type: ignore[union-attr]
    if name == "join":
        return as_expr(p.join(moved.get(0, const(0.0)), moved.get(1, const(0.0))))
    t = moved[0]
    if name in ("conj", "real", "imag"):
        return as_expr(PRIMS[name](t))
    if name == "abs":
        return as_expr(p.real(p.conj(p.sgn(z)) * t))
    if name == "arg":
        return as_expr(p.imag(t / z))
    return cotangents(node, t)[0]  # across the radius both ways


# ---------------------------------------------------------------- one stanza each, easy ones first


def _pair(rule: Callable[..., Pair]) -> Callable[..., Pair]:
    _RULES[rule.__name__.strip("_")] = rule
    return rule


def _im(z: Pair) -> Any:
    return const(0.0) if z[1] is None else z[1]


@_pair
def _add(z: Pair, w: Pair) -> Pair:
    return z[0] + w[0], w[1] if z[1] is None else z[1] if w[1] is None else z[1] + w[1]


@_pair
def _sub(z: Pair, w: Pair) -> Pair:
    return z[0] - w[0], z[1] if w[1] is None else -w[1] if z[1] is None else z[1] - w[1]


@_pair
def _neg(z: Pair) -> Pair:
    return -z[0], -z[1]


@_pair
def _mul(z: Pair, w: Pair) -> Pair:
    (a, b), (c, d) = z, w
    if b is None or d is None:
        return a * c, (a * d if b is None else b * c) if b is not d else None
    return a * c - b * d, a * d + b * c


@_pair
def _mad(z: Pair, w: Pair, v: Pair) -> Pair:
    return _add(_mul(z, w), v)


@_pair
def _div(z: Pair, w: Pair) -> Pair:
    """As PyTorch's (Smith's): by the larger part of the divisor, which then cannot overflow; signs of zeros and infinities follow."""
    (a, b), (c, d) = z, w
    if d is None:
        return a / c, b / c
    b, size_c, size_d = _im(z), p.abs(c), p.abs(d)
    wide = p.ge(size_c, size_d)
    large, small = p.where(wide, c, d), p.where(wide, d, c)
    ratio = small / large
    scale = 1.0 / (p.where(wide, c, c * ratio) + p.where(wide, d * ratio, d))
    re = p.where(wide, a, a * ratio) + p.where(wide, b * ratio, b)
    im = p.where(wide, b, b * ratio) - p.where(wide, a * ratio, a)
    nothing = p.logical_and(p.eq(size_c, 0), p.eq(size_d, 0))
    return p.where(nothing, a / size_c, re * scale), p.where(nothing, b / size_d, im * scale)


@_pair
def _reciprocal(z: Pair) -> Pair:
    return _div((const(1.0), None), z)


@_pair
def _ipow(z: Pair, n: int) -> Pair:
    result: Pair = (const(1.0), None)
    base, left = z, abs(n)
    while left:
        if left & 1:
            result = _mul(result, base)
        left >>= 1
        if left:
            base = _mul(base, base)
    return _reciprocal(result) if n < 0 else result


@_pair
def _conj(z: Pair) -> Pair:
    return z[0], None if z[1] is None else -z[1]


@_pair
def _real(z: Pair) -> Pair:
    return z[0], None


@_pair
def _imag(z: Pair) -> Pair:
    return _im(z), None


@_pair
def _join(re: Pair, im: Pair) -> Pair:
    return re[0], im[0]


@_pair
def _abs(z: Pair) -> Pair:
    return hypot(z[0], z[1]), None


@_pair
def _arg(z: Pair) -> Pair:
    return p.atan2(z[1], z[0]), None


@_pair
def _sgn(z: Pair) -> Pair:
    size = hypot(z[0], z[1])
    nothing = p.eq(size, 0)
    over = p.where(nothing, 1.0, size)
    return p.where(nothing, 0.0, z[0] / over), p.where(nothing, 0.0, z[1] / over)


_OF_PARTS = {"real", "imag", "join", "conj"}  # which real numbers take as well


@_pair
def _where(c: Pair, z: Pair, w: Pair) -> Pair:
    choose = truth(c)
    im = None if z[1] is None and w[1] is None else p.where(choose, _im(z), _im(w))
    return p.where(choose, z[0], w[0]), im


@_pair
def _eq(z: Pair, w: Pair) -> Pair:
    return p.logical_and(p.eq(z[0], w[0]), p.eq(_im(z), _im(w))), None


@_pair
def _ne(z: Pair, w: Pair) -> Pair:
    return p.logical_or(p.ne(z[0], w[0]), p.ne(_im(z), _im(w))), None


@_pair
def _lt(z: Pair, w: Pair) -> Pair:
    """Of an absolute value and a constant."""
    if z[1] is not None or not (w[1] is None or isinstance(w[0], Const)):
        raise NoComplexForm("lt")
    return p.lt(z[0], w[0]), None


@_pair
def _ge(z: Pair, w: Pair) -> Pair:
    """As rules ask: of what has no imaginary part."""
    real = p.logical_and(p.eq(_im(z), 0), p.eq(_im(w), 0))
    return p.logical_and(real, p.ge(z[0], w[0])), None


def _of_truths(name: str) -> None:
    def rule(*args: Pair) -> Pair:
        return PRIMS[name](*[truth(z) for z in args]), None

    _RULES[name] = rule


for _name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
    _of_truths(_name)


@_pair
def _isnan(z: Pair) -> Pair:
    return p.logical_or(p.isnan(z[0]), p.isnan(z[1])), None


@_pair
def _isinf(z: Pair) -> Pair:
    return p.logical_or(p.isinf(z[0]), p.isinf(z[1])), None


@_pair
def _isfinite(z: Pair) -> Pair:
    return p.logical_and(p.isfinite(z[0]), p.isfinite(z[1])), None


def _root(z: Pair) -> Pair:
    """No difference of what is nearly equal: of the two roots of (|z| + a) / 2 and (|z| - a) / 2 one is found by the other."""
    a, b = z
    t = p.sqrt(p.abs(a) * 0.5 + hypot(a, b) * 0.5)
    half = p.where(p.eq(t, 0), 0.0, b / (t * 2.0))
    right = p.ge(a, 0)
    return p.where(right, t, p.abs(half)), p.where(right, p.where(p.eq(t, 0), b, half), p.copysign(t, b))


@_pair
def _sqrt(z: Pair) -> Pair:
    (re, im), far = _root(z), p.isinf(z[1])
    return p.where(far, math.inf, re), p.where(far, z[1], im)


@_pair
def _rsqrt(z: Pair) -> Pair:
    return _reciprocal(_sqrt(z))


@_pair
def _exp(z: Pair) -> Pair:
    """As C's: nothing turns what is 0, and what turns an infinity is not known. A part may be finite where the size is not."""
    a, b = z
    much, lost = p.gt(a, 80.0), p.logical_not(p.isfinite(b))
    e, more = p.exp(a - p.where(much, 32.0, 0.0)), p.where(much, math.exp(32.0), 1.0)
    b = p.where(p.logical_and(lost, p.eq(a, -math.inf)), p.copysign(0.0, b), b)
    re = p.where(p.logical_and(lost, p.eq(a, math.inf)), math.inf, e * p.cos(b) * more)
    return re, p.where(p.eq(b, 0), b, e * p.sin(b) * more)


@_pair
def _exp2(z: Pair) -> Pair:
    return _exp(_mul(z, (const(p.LN2), None)))


@_pair
def _expm1(z: Pair) -> Pair:
    a, b = z
    half = p.sin(b * 0.5)
    return p.expm1(a) * p.cos(b) - half * half * 2.0, p.exp(a) * p.sin(b)


@_pair
def _log(z: Pair) -> Pair:
    a, b = z
    size, most, least = hypot(a, b), p.maximum(p.abs(a), p.abs(b)), p.minimum(p.abs(a), p.abs(b))
    near = p.logical_and(
        p.gt(size, 0.5), p.lt(size, 2.0)
    )  # where a logarithm of what was rounded keeps few digits
    beyond = p.where(near, (most - 1.0) * (most + 1.0) + least * least, 0.0)
    return p.where(near, p.log1p(beyond) * 0.5, p.log(size)), p.atan2(b, a)


@_pair
def _log2(z: Pair) -> Pair:
    return _div(_log(z), (const(p.LN2), None))


@_pair
def _log10(z: Pair) -> Pair:
    return _div(_log(z), (const(p.LN10), None))


@_pair
def _log1p(z: Pair) -> Pair:
    a, b = z
    near, turn = p.lt(hypot(a, b), 0.5), p.atan2(b, a + 1.0)
    more = (a + 2.0) * a
    more = p.where(near, p.where(p.eq(b, 0), more, more + b * b), 0.0)
    re = p.where(near, p.log1p(more) * 0.5, p.log(hypot(a + 1.0, b)))
    return p.where(p.isnan(turn), math.nan, re), turn


@_pair
def _pow(z: Pair, w: Pair) -> Pair:
    return _exp(_mul(w, _log((z[0], _im(z)))))


@_pair
def _logaddexp(z: Pair, w: Pair) -> Pair:
    more = p.ge(z[0], w[0])
    high = p.where(more, z[0], w[0]), p.where(more, _im(z), _im(w))
    low = p.where(more, w[0], z[0]), p.where(more, _im(w), _im(z))
    re, im = _add(high, _log1p(_exp(_sub(low, high))))
    same = p.logical_and(
        p.isinf(z[0]), p.eq(z[0], w[0])
    )  # of two nothings the second, of two infinities the size
    turned = p.where(
        p.logical_or(p.lt(w[0], 0), p.logical_and(p.eq(_im(z), 0), p.eq(_im(w), 0))), low[1], math.nan
    )
    lost = p.logical_or(p.isnan(re), p.logical_or(p.isnan(_im(z)), p.isnan(_im(w))))
    return p.where(same, z[0], p.where(lost, math.nan, re)), p.where(
        same, turned, p.where(lost, math.nan, im)
    )


@_pair
def _sigmoid(z: Pair) -> Pair:
    return _reciprocal(_add((const(1.0), None), _exp(_neg(z))))


def _odd(x: Any, turn: Any) -> tuple[Any, Any]:
    """sinh x cos t and cosh x sin t, as C's: nothing stays nothing, however it is turned, and of an infinity its size."""
    lost = p.logical_not(p.isfinite(turn))
    left = p.where(p.eq(x, 0), x, p.where(p.isinf(x), math.inf, math.nan))
    return p.where(lost, left, p.sinh(x) * p.cos(turn)), p.where(p.eq(turn, 0), turn, p.cosh(x) * p.sin(turn))


def _even(x: Any, turn: Any) -> tuple[Any, Any]:
    """cosh x cos t and sinh x sin t."""
    lost, s = p.logical_not(p.isfinite(turn)), p.sinh(x)
    re = p.where(p.logical_and(lost, p.isinf(x)), math.inf, p.cosh(x) * p.cos(turn))
    im = p.where(p.logical_and(lost, p.eq(x, 0)), 0.0, s * p.sin(turn))
    still = p.logical_and(p.eq(turn, 0), p.logical_not(p.isfinite(s)))
    return re, p.where(still, p.where(p.lt(x, 0), -turn, turn), im)


@_pair
def _sin(z: Pair) -> Pair:
    im, re = _odd(z[1], z[0])
    return re, im


@_pair
def _cos(z: Pair) -> Pair:
    return _even(-z[1], z[0])


@_pair
def _sinh(z: Pair) -> Pair:
    return _odd(z[0], z[1])


@_pair
def _cosh(z: Pair) -> Pair:
    return _even(z[0], z[1])


@_pair
def _tanh(z: Pair) -> Pair:
    """sinh(2a) and sin(2b) over cosh(2a) + cos(2b), which far out is 1 and what is left of the other."""
    a, b = z
    far, lost = p.gt(p.abs(a), 15.0), p.logical_not(p.isfinite(b))
    x = p.where(far, 0.0, a)
    t, s = p.tan(b), p.sinh(x)
    beta = t * t + 1.0
    size = beta * s * s + 1.0
    left = p.exp(p.abs(a) * -2.0) * p.sin(b) * p.cos(b) * 4.0
    left = p.where(p.logical_and(lost, p.isinf(a)), p.copysign(0.0, b), left)
    re = p.where(p.eq(a, 0), a, beta * p.cosh(x) * s / size)
    one = p.where(p.isnan(left), math.nan, p.copysign(1.0, a))
    return p.where(far, one, re), p.where(far, left, p.where(p.eq(b, 0), b, t / size))


def _turned(rule: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """f(iz) / i, as circular functions are of hyperbolic ones."""

    def turn(z: Pair) -> Pair:
        re, im = rule((-z[1], z[0]))
        return im, -re

    return turn


def _below_and_above(z: Pair) -> tuple[Pair, Pair]:
    """The roots of 1 - z and 1 + z, of which Kahan makes the inverse functions on the right side of each cut."""
    return _root((1.0 - z[0], -z[1])), _root((z[0] + 1.0, z[1]))


def _infinite(z: Pair) -> tuple[Any, Any, Any]:
    """Whether a part is infinite, and in which direction the number lies then."""
    a, b = z
    x, y = (p.where(p.isinf(v), p.copysign(1.0, v), v * 0.0) for v in z)
    return p.logical_or(p.isinf(a), p.isinf(b)), x, y


_QUARTER = math.pi / 2


@_pair
def _asin(z: Pair) -> Pair:
    (a, b), (c, d) = _below_and_above(z)
    far, x, y = _infinite(z)
    re = p.atan2(p.where(far, x, z[0]), p.where(far, p.abs(y), a * c - b * d))
    im = p.where(far, p.copysign(math.inf, z[1]), p.asinh(a * d - b * c))
    return p.where(p.eq(z[0], 0), z[0], re), im


@_pair
def _acos(z: Pair) -> Pair:
    (a, b), (c, d) = _below_and_above(z)
    far, x, y = _infinite(z)
    re = p.atan2(p.where(far, p.abs(y), a), p.where(far, x, c)) * p.where(far, 1.0, 2.0)
    im = p.where(far, p.copysign(math.inf, -z[1]), p.asinh(c * b - d * a))
    return p.where(p.eq(z[0], 0), _QUARTER, re), im


@_pair
def _acosh(z: Pair) -> Pair:
    (a, b), (c, d) = _root((z[0] - 1.0, z[1])), _root((z[0] + 1.0, z[1]))
    far, x, y = _infinite(z)
    im = p.atan2(p.where(far, y, b), p.where(far, x, c)) * p.where(far, 1.0, 2.0)
    re = p.where(far, math.inf, p.asinh(a * c + b * d))
    return re, p.where(p.eq(z[0], 0), p.copysign(_QUARTER, z[1]), im)


@_pair
def _atanh(z: Pair) -> Pair:
    a, b = z
    size = p.abs(a)  # of what lies on the left the logarithm would be that of a difference
    scale = 1.0 / p.maximum(p.maximum(size, p.abs(b)), 1.0)
    x, y, left = size * scale, b * scale, (1.0 - size) * scale
    far = p.logical_or(p.isinf(a), p.isinf(b))
    re = p.copysign(p.where(far, 0.0, p.log1p(x * 4.0 / (left * left + y * y) * scale) * 0.25), a)
    im = p.atan2(y * 2.0 * scale, left * ((size + 1.0) * scale) - y * y) * 0.5
    lost = p.logical_and(p.isnan(b), p.isinf(a))
    im = p.where(far, p.where(lost, math.nan, p.copysign(_QUARTER, b)), im)
    return p.where(p.eq(a, 0), a, re), im


_RULES |= {"tan": _turned(_tanh), "asinh": _turned(_asin), "atan": _turned(_atanh)}
