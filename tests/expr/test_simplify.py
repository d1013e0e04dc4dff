"""The simplifier may not change one bit of any value."""

import itertools
import math

import pytest

from nbgrad.expr import PRIMS, const, var
from nbgrad.expr.evaluate import evaluate
from nbgrad.expr.node import intern
from nbgrad.expr.prims import exp, ipow, logical_not, neg, where
from nbgrad.expr.simplify import simplify

x, w, c = var("x"), var("w"), var("c", bool=True)
SPECIAL = [0.0, -0.0, 1.0, -1.5, 5e-324, 1e308, math.inf, -math.inf, math.nan]


def raw(name, *args, attr=None):
    return intern(PRIMS[name], tuple(a if hasattr(a, "prim") else const(a) for a in args), attr)


def same(a, b):
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def test_what_is_rewritten():
    assert x * 1 is x and 1.0 * x is x and x / 1 is x and x - 0 is x and x - 0.0 is x
    assert -neg(x) is x and x + (-w) is x - w and x - (-w) is x + w and (-x) + w is w - x
    assert (-x) * w is -(x * w) and x * (-w) is -(x * w) and (-x) * (-w) is x * w
    assert where(True, x, w) is x and where(False, x, w) is w and where(c, x, x) is x
    assert ipow(x, 1) is x and ipow(x, 0) is const(1) and logical_not(logical_not(c)) is c and ~~c is c
    assert const(2) * 3 is const(6) and exp(const(0.0)) is const(1.0) and (const(1) < 2) is const(True)


def test_what_is_not():
    for e in (0 * x, x * 0.0, x + 0, x + 0.0, x - (-0.0), x - x, x / x, x * -1):
        assert e.prim is not None and e is not x
    assert (c * 1).prim.name == "mul" and not (c * 1).is_bool  # the number 1, not the truth value
    assert logical_not(logical_not(x)).is_bool
    assert not where(True, c, x).is_bool
    assert (-const(0)).prim.name == "neg"  # -0.0 where it is computed as a float
    assert const(2**60) * const(2**60) is not const(2**120)
    assert PRIMS["pow"](const(2), -1).prim.name == "pow"  # 0 for integers, 0.5 for floats


@pytest.mark.parametrize(
    "e",
    [
        raw("mul", x, 1),
        raw("mul", 1.0, x),
        raw("div", x, 1),
        raw("sub", x, 0),
        raw("sub", x, 0.0),
        raw("sub", x, -0.0),
        raw("add", x, 0.0),
        raw("add", x, -0.0),
        raw("mul", x, 0.0),
        raw("sub", x, x),
        raw("neg", raw("neg", x)),
        raw("add", x, raw("neg", w)),
        raw("add", raw("neg", x), w),
        raw("sub", x, raw("neg", w)),
        raw("mul", raw("neg", x), w),
        raw("mul", x, raw("neg", w)),
        raw("mul", raw("neg", x), raw("neg", w)),
        raw("ipow", x, attr=1),
        raw("ipow", x, attr=0),
        raw("where", True, x, w),
        raw("where", raw("lt", x, w), x, x),
        raw("where", raw("logical_not", raw("logical_not", raw("lt", x, w))), x, w),
        raw("add", raw("mul", raw("neg", x), raw("sub", w, 0)), raw("neg", raw("div", x, 1))),
    ],
    ids=str,
)
def test_exact_on_special_values(e):
    for a, b in itertools.product(SPECIAL, SPECIAL):
        assert same(evaluate(e, {"x": a, "w": b}), evaluate(simplify(e), {"x": a, "w": b}))
