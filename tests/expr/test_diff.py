"""Derivatives: against central differences, at kinks and special values, in both modes, in linear size."""

import math

import pytest

from nbgrad.expr import PRIMS, ZERO, Prim, Zero, free_vars, postorder, substitute, tangent, trace, var, vjp
from nbgrad.expr import prims as p
from nbgrad.expr.evaluate import evaluate

inf, nan = math.inf, math.nan
x, w, g, y = var("x"), var("w"), var("g"), var("y")

# Where to look: points inside the domain, away from kinks.
DOMAINS = {
    "log": (0.3, 1.0, 4.5),
    "log2": (0.3, 1.0, 4.5),
    "log10": (0.3, 1.0, 4.5),
    "sqrt": (0.3, 1.0, 4.5),
    "rsqrt": (0.3, 1.0, 4.5),
    "asin": (-0.7, 0.1, 0.6),
    "acos": (-0.7, 0.1, 0.6),
    "atanh": (-0.7, 0.1, 0.6),
    "acosh": (1.2, 3.0),
    "reciprocal": (-2.0, 0.4),
    "erfinv": (-0.7, 0.1, 0.6),
    "ndtri": (0.1, 0.4, 0.8),
    "entr": (0.3, 1.0, 4.5),
}
TRIGONOMETRIC = ["sin", "cos", "tan", "asin", "acos", "atan"]
HYPERBOLIC = ["sinh", "cosh", "tanh", "asinh", "acosh", "atanh"]
EXPONENTIAL = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "erf", "erfc"]
SPECIAL = [
    "erfcx",
    "erfinv",
    "ndtr",
    "exp_below",
    "expm1_below",
    "gelu_slope",
    "soft_corner",
    "ndtri",
    "log_ndtr",
    "lgamma",
    "digamma",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "entr",
]
STEPS = ["sign", "floor", "ceil", "trunc", "round"]
UNARY = [
    "neg",
    "abs",
    "sqrt",
    "rsqrt",
    "reciprocal",
    *EXPONENTIAL,
    *TRIGONOMETRIC,
    *HYPERBOLIC,
    *STEPS,
    *SPECIAL,
]
BINARY = ["add", "sub", "mul", "div", "pow", "atan2", "maximum", "minimum", "fmod", "remainder", "copysign"]
BINARY += ["logaddexp", "logaddexp2", "xlogy", "xlog1py", "hypot"]
SAVES_OUTPUT = ["exp", "exp2", "expm1", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "tan"]
SAVES_INPUT = ["log", "log2", "log1p", "sin", "cos", "asin", "atan", "sinh", "erf", "abs"]
COMPOSITE = {
    "silu": lambda x: x * p.sigmoid(x),
    "mish": lambda x: x * p.tanh(p.softplus(x)),
    "gelu": lambda x: 0.5 * x * (1 + p.erf(x * math.sqrt(0.5))),
    "softplus": lambda x: p.softplus(x, 2.0, 3.0),
    "cube": lambda x: x**3 + x**-2,
    "nested": lambda x: p.where(x > 0, p.where(x > 1, p.exp(x), x * x), p.where(x < -1, p.sin(x), x**3)) * x,
}


def slope(e, env, name):
    h = 1e-6
    up, down = (evaluate(e, {**env, name: env[name] + s}) for s in (h, -h))
    return (up - down) / (2 * h)


def value_of(gradient, env):
    return 0.0 if gradient is ZERO else evaluate(gradient, env)


def check(e, env, rule=None):
    names = sorted(free_vars(e))
    full = {**env, "g": 1.7, "y": evaluate(e, env)}
    found = vjp(e, names, rule=rule)
    for name in names:
        expected = 1.7 * slope(e, env, name)
        assert value_of(found[name], full) == pytest.approx(expected, rel=1e-6, abs=1e-7)
        t = tangent(e, [name], ["t"], rule=rule)
        assert value_of(t, {**env, "t": 1.7}) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for at in DOMAINS.get(name, [-0.8, 0.3, 1.9]):
        check(PRIMS[name](x), {"x": at})


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    for a, b in [(1.3, 0.7), (2.9, 1.1), (0.4, 2.2)]:
        check(PRIMS[name](x, w), {"x": a, "w": b})


@pytest.mark.parametrize("n", [1, 2, 3])
def test_polygamma(n):
    for at in (-0.7, 0.3, 2.4):
        check(PRIMS["polygamma"](x, n), {"x": at})


def test_mad():
    check(PRIMS["mad"](x, w, PRIMS["sin"](x)), {"x": 0.7, "w": -1.2})


@pytest.mark.parametrize("name", COMPOSITE)
def test_composite_first_and_second_order(name):
    e = trace(COMPOSITE[name])[1]
    first = vjp(e, ["x"])["x"]
    for at in [-2.1, -0.6, 0.3, 0.9, 2.3]:
        check(e, {"x": at})
        check(substitute(first, {"g": 1.0}), {"x": at})


@pytest.mark.parametrize("name", SAVES_OUTPUT)
def test_second_order_through_the_saved_output(name):
    # The rule's y is an input; its own gradient enters through the node that made it.
    first = vjp(PRIMS[name](x), ["x"])["x"]
    both = vjp(first, ["y"], g="gg", out="yy")["y"]
    for at in DOMAINS.get(name, [-0.8, 0.3, 1.9]):
        env = {"x": at, "y": PRIMS[name](at), "g": 1.3, "gg": 0.7}
        slope_of_slope = slope(substitute(first, {"y": PRIMS[name](x), "g": 1.3}), {"x": at}, "x")
        dydx = evaluate(substitute(first, {"g": 1.0}), env)
        assert evaluate(both, env) * dydx == pytest.approx(0.7 * slope_of_slope, rel=1e-5)


def test_every_smooth_primitive_is_covered():
    differentiable = {n for n, prim in PRIMS.items() if any(prim.partials)}
    of_the_second = {"zeta", "gammainc", "gammaincc"}  # the table of cases has them
    of_complex = {"conj", "real", "join"}  # which `test_parts` has
    assert differentiable <= {*UNARY, *BINARY, *of_the_second, *of_complex, "ipow", "mad", "polygamma"}


def reads(e, name="x"):
    return free_vars(vjp(e, [name])[name]) - {"g"}


def test_what_pytorch_saves_is_what_is_read():
    for name in ["exp", "exp2", "expm1", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "tan"]:
        assert reads(PRIMS[name](x)) == {"y"}
    for name in SAVES_INPUT:
        assert reads(PRIMS[name](x)) == {"x"}
    assert reads(x * w) == {"w"} and reads(x * w, "w") == {"x"} and reads(x + w) == set()
    assert reads(x / w) == {"w"} and reads(x / w, "w") == {"x", "w"}
    assert reads(p.pow(x, w), "w") == {"x", "w", "y"}
    assert reads(x * p.sigmoid(x)) == {"x"}  # inside a composite, y is its own subexpression


def test_exact_forms():
    assert vjp(x / w, ["x"])["x"] is g / w
    assert vjp(p.log(x), ["x"])["x"] is g / x
    assert vjp(x + w, ["x", "w"]) == {"x": g, "w": g}
    assert vjp(x - w, ["w"])["w"] is -g
    assert vjp(p.where(w > 0, x, 0), ["x"])["x"] is p.where(w > 0, g, 0)
    assert vjp(x, ["x"])["x"] is g


def grad_at(fn, *at):
    names, e = (["x", "w"], fn(x, w)) if isinstance(fn, Prim) else trace(fn)
    env = dict(zip(names, at, strict=True))
    found = vjp(e, names)
    return tuple(value_of(found[n], {**env, "g": 1.0, "y": evaluate(e, env)}) for n in names)


def test_kinks():
    assert grad_at(lambda x: abs(x), 0.0) == (0.0,)
    assert grad_at(lambda x: p.where(x <= 0, 0, x), 0.0) == (0.0,)
    for op in (p.maximum, p.minimum):
        assert grad_at(op, 2.0, 2.0) == (0.5, 0.5)
        assert grad_at(op, nan, 2.0) == (1.0, 1.0)
    assert grad_at(lambda a, b: p.maximum(a, b), 3.0, 2.0) == (1.0, 0.0)
    assert grad_at(lambda a, b: p.minimum(a, b), 3.0, 2.0) == (0.0, 1.0)
    assert grad_at(lambda a, b: p.pow(a, b), 0.0, 0.0) == (0.0, 0.0)
    assert grad_at(lambda a, b: p.pow(a, b), 0.0, 2.0) == (0.0, 0.0)
    assert grad_at(lambda a, b: p.copysign(a, b), 0.0, -1.0) == (0.0, 0.0)
    assert grad_at(lambda x: p.sqrt(x), 0.0) == (inf,)


def test_a_branch_not_taken_cannot_spoil_the_gradient():
    # exp overflows beyond the threshold: 0 * inf, were the choice a product.
    assert grad_at(lambda x: p.softplus(x), 1e5) == (1.0,)
    assert grad_at(lambda x: p.where(x > 0, p.log(x), 0), 0.0) == (0.0,)
    assert grad_at(lambda x: p.where(x > 0, p.where(x > 1, p.sqrt(x - 1), p.log(x)), 2 * x), 0.0) == (2.0,)
    assert grad_at(lambda x: p.where(x > 0, p.where(x < 1, 3 * x, p.sqrt(x)), p.log(-x)), 0.5) == (3.0,)
    assert grad_at(lambda x: p.where(x > 0, p.log(x), 0) + p.where(x > 0, 2 * x, x), 0.0) == (1.0,)
    assert grad_at(lambda a, b: p.where(a > 0, p.log(a) + b, b * a), -2.0, 3.0) == (3.0, -2.0)
    # A masked gradient is left out even when it is infinite, and not multiplied by 0.
    e = vjp(p.maximum(x, w), ["x"])["x"]
    assert evaluate(e, {"x": 0.0, "w": 1.0, "g": inf}) == 0.0


def test_symbolic_zero():
    assert Zero() is ZERO and repr(ZERO) == "ZERO"
    zero = [
        p.floor(x),
        p.sign(x),
        x > w,
        p.where(x > 0, 1, 2),
        p.exp(w),
        p.round(x) * w,
        x**0,
        p.floor_divide(x, w),
    ]
    for e in zero:
        assert vjp(e, ["x"])["x"] is ZERO and tangent(e, ["x"], ["t"]) is ZERO
    assert vjp(p.where(x > 0, w, x), ["x", "z"])["z"] is ZERO
    assert vjp(p.where(var("m", bool=True), x, w), ["m"])["m"] is ZERO
    assert vjp(x * 0, ["x"])["x"] is g * 0  # not a zero: 0 * inf


def test_declared_rule_wins():
    relu = p.where(x <= 0, 0, x)
    assert vjp(relu, ["x"], rule=lambda g, y: p.where(y <= 0, 0, g))["x"] is p.where(y <= 0, 0, g)
    check(1 / (1 + p.exp(-x)), {"x": 0.4}, rule=lambda g, x, y: g * y * (1 - y))
    assert vjp(x * w, ["w"], rule=lambda g, x, w: (None, g * x), inputs=["x", "w"]) == {"w": g * x}
    assert vjp(x * w, ["x"], rule=lambda g, x: (None, g * x), inputs=["x", "w"])["x"] is ZERO
    assert vjp(x, ["x"], rule=lambda g: ZERO)["x"] is ZERO
    # An input called y keeps its name; the output then has the one that the caller gives it.
    assert vjp(x * y, ["x", "y"], out="r", rule=lambda g, x, y, r: (g * y, g * r))["y"] is g * var("r")
    assert (
        tangent(x * y, ["y"], ["t"], rule=lambda g, x, y: (g * y, g * x), inputs=["x", "y"]) is var("t") * x
    )
    t = tangent(p.exp(x), ["x"], ["t"], rule=lambda g, y: g * y)
    assert t is var("t") * p.exp(x)


def test_a_wrong_rule_is_seen_by_the_check():
    with pytest.raises(AssertionError):
        check(p.exp(x), {"x": 0.4}, rule=lambda g, y: g * y * 1.001)


def test_errors():
    with pytest.raises(ValueError, match="must not be called"):
        vjp(x * g, ["x"])
    with pytest.raises(ValueError, match="must not be called"):
        vjp(x * y, ["x"])
    with pytest.raises(TypeError, match="parameters"):
        vjp(x, ["x"], rule=lambda grad: grad)
    with pytest.raises(TypeError, match="one gradient"):
        vjp(x * w, ["x", "w"], rule=lambda g: g)


def test_deep_and_shared_expressions_stay_linear():
    chain, shared, chosen = x, x, x
    for i in range(2000):
        chain = p.exp(p.sin(chain))
        shared = shared * shared
        chosen = p.where(chosen > i, chosen * w, x)
    for e in (chain, shared):
        assert len(postorder([vjp(e, ["x"])["x"]])) < 10 * len(postorder([e]))
        assert len(postorder([tangent(e, ["x"], ["t"])])) < 10 * len(postorder([e]))
    assert len(postorder([vjp(chosen, ["x"])["x"]])) < 10 * len(postorder([chosen]))
