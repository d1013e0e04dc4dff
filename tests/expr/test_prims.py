"""Primitives on Python numbers: IEEE results as PyTorch gives them, and never an exception."""

import math

import pytest

from nbgrad.expr import prims as p
from nbgrad.expr.evaluate import evaluate
from nbgrad.expr.node import PRIMS, var

inf, nan = math.inf, math.nan


def same(a, b):
    """Equal as bits, every NaN being one NaN."""
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("exp", (1000.0,), inf),
        ("exp", (-inf,), 0.0),
        ("exp2", (2000.0,), inf),
        ("log", (0.0,), -inf),
        ("log", (-0.0,), -inf),
        ("log", (-1.0,), nan),
        ("log2", (8.0,), 3.0),
        ("log10", (0,), -inf),
        ("log1p", (-1.0,), -inf),
        ("log1p", (-2.0,), nan),
        ("expm1", (1e4,), inf),
        ("div", (1.0, -0.0), -inf),
        ("div", (0.0, 0.0), nan),
        ("div", (nan, 0.0), nan),
        ("sqrt", (-1.0,), nan),
        ("sqrt", (-0.0,), -0.0),
        ("rsqrt", (0.0,), inf),
        ("reciprocal", (-0.0,), -inf),
        ("sin", (inf,), nan),
        ("asin", (2.0,), nan),
        ("acosh", (0.5,), nan),
        ("atanh", (-1.0,), -inf),
        ("sinh", (-1e4,), -inf),
        ("cosh", (-1e4,), inf),
        ("sigmoid", (-1000.0,), 0.0),
        ("sigmoid", (inf,), 1.0),
        ("sign", (nan,), 0.0),
        ("sign", (-2.0,), -1.0),
        ("pow", (-8.0, 1 / 3), nan),
        ("pow", (-0.0, -3.0), -inf),
        ("pow", (-0.0, -2.0), inf),
        ("pow", (-10.0, 1001.0), -inf),
        ("pow", (nan, 0.0), 1.0),
        ("pow", (3, 4), 81),
        ("pow", (-1, -3), -1),
        ("pow", (2, -1), 0),
        ("pow", (2, 63), -(2**63)),
        ("ipow", (3.0, -2), 1 / 9),
        ("ipow", (0.0, -1), inf),
        ("floor", (-0.0,), -0.0),
        ("floor", (-0.5,), -1.0),
        ("ceil", (-0.5,), -0.0),
        ("trunc", (-1.5,), -1.0),
        ("round", (2.5,), 2.0),
        ("round", (-0.5,), -0.0),
        ("round", (inf,), inf),
        ("fmod", (-7.0, 3.0), -1.0),
        ("fmod", (inf, 3.0), nan),
        ("fmod", (-7, 3), -1),
        ("remainder", (-7.0, 3.0), 2.0),
        ("remainder", (-1.0, inf), inf),
        ("remainder", (5.0, 0.0), nan),
        ("remainder", (7, -2), -1),
        ("floor_divide", (-7.0, 2.0), -4.0),
        ("floor_divide", (1.0, 0.0), inf),
        ("floor_divide", (-0.5, inf), -1.0),
        ("floor_divide", (1.0, 0.1), 9.0),
        ("floor_divide", (-7, 2), -4),
        ("maximum", (nan, 1.0), nan),
        ("maximum", (1.0, nan), nan),
        ("minimum", (nan, 1.0), nan),
        ("minimum", (1.0, nan), nan),
        ("copysign", (2.0, -0.0), -2.0),
        ("signbit", (-0.0,), True),
        ("isnan", (nan,), True),
        ("isinf", (-inf,), True),
        ("isfinite", (nan,), False),
        ("where", (nan, 1.0, 2.0), 1.0),
        ("logical_xor", (2.0, 0.0), True),
        ("add", (True, True), True),
        ("mul", (True, False), False),
        ("lshift", (1, 64), 0),
        ("rshift", (-8, 70), -1),
        ("rshift", (-8, 1), -4),
        ("bitwise_not", (True,), False),
        ("bitwise_not", (5,), -6),
    ],
)
def test_values(name, args, expected):
    assert same(PRIMS[name](*args), expected)


@pytest.mark.parametrize("name", [n for n, prim in PRIMS.items() if "float" in prim.spell])
def test_no_float_raises(name):
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e300, -1e300, 5e-324, inf, -inf, nan]
    prim = PRIMS[name]
    arity = (
        3
        if name == "where"
        else 1
        if name == "ipow"
        else len(prim.python.__code__.co_varnames[: prim.python.__code__.co_argcount])
    )
    grid = [()]
    for _ in range(arity):
        grid = [(*row, v) for row in grid for v in special]
    for row in grid:
        operands = (*row, -3) if name == "ipow" else row
        e = prim(*map(var, "abc"[:arity]), *operands[arity:])
        value = evaluate(e, dict(zip("abc", row, strict=False)))
        assert isinstance(value, (bool, float)) and same(value, prim(*operands))


def test_composites():
    assert p.square(3.0) == 9.0
    assert p.softplus(1000.0) == 1000.0
    assert p.softplus(0.0, 2.0) == math.log(2) / 2
