"""Expressions: identity is equality, tracing is calling, and nothing recurses."""

import gc
import math
import threading

import pytest

from nbgrad.expr import (
    PRIMS,
    as_expr,
    const,
    free_vars,
    is_bool,
    ordered_vars,
    postorder,
    substitute,
    trace,
    trace_many,
    var,
)
from nbgrad.expr.evaluate import evaluate
from nbgrad.expr.node import Expr, sweep
from nbgrad.expr.prims import exp, maximum, where

x, w = var("x"), var("w")


def test_equal_expressions_are_the_same_object():
    assert x * w + 1 is x * w + 1
    assert x * w is not w * x
    assert exp(x) is exp(var("x"))
    assert var("x") is not var("x", bool=True)


def test_constants_that_compare_equal_are_distinct():
    values = [0.0, -0.0, 0, False, 1, 1.0, True]
    assert len({const(v) for v in values}) == len(values)
    assert const(math.nan) is const(-math.nan)
    with pytest.raises(TypeError, match="a constant is"):
        const("1")
    with pytest.raises(TypeError):
        x + "1"


def test_the_table_keeps_nothing_alive():
    gc.collect()
    sweep()
    before = len(Expr._table)
    e = exp(var("only here") * 3.25)
    assert len(Expr._table) == before + 4
    del e
    gc.collect()
    sweep()
    assert len(Expr._table) == before


def test_the_table_does_not_grow_with_what_is_gone():
    sweep()
    alive = len(Expr._table)  # of what other tests have built
    for k in range(20_000):
        var("some") * k
    assert len(Expr._table) <= 4096 + 3 * alive
    sweep()
    assert len(Expr._table) <= alive + 1


def test_threads_build_the_same_nodes():
    found = []
    barrier = threading.Barrier(4)

    def build():
        barrier.wait()
        e = x
        for i in range(300):
            e = e * w + i
        found.append(e)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_immutable_and_without_truth_value():
    with pytest.raises(AttributeError):
        x.attr = "z"
    with pytest.raises(TypeError, match="where"):
        if x > 0:
            pass
    with pytest.raises(TypeError, match="where"):
        max(x, 0)
    with pytest.raises(TypeError):
        Expr()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1 - x / 2", ["div", "sub"]),
        ("-abs(x) // w", ["abs", "neg", "floor_divide"]),
        ("7 % x", ["remainder"]),
        ("x**3 + x**2.0", ["ipow", "ipow", "add"]),
        ("x**0.5", ["pow"]),
        ("x**100", ["pow"]),
        ("2**x", ["pow"]),
        ("(x < w) & (x >= 0) | ~(x == w)", ["lt", "ge", "bitwise_and", "eq", "bitwise_not", "bitwise_or"]),
        ("1 << x >> w", ["lshift", "rshift"]),
        ("round(x) ^ w", ["round", "bitwise_xor"]),
    ],
)
def test_operators(text, names):
    _, e = trace(eval(f"lambda x, w: {text}"))
    assert [n.prim.name for n in postorder([e]) if n.prim] == names


def test_kinds():
    assert (
        is_bool(x > 0)
        and is_bool((x > 0) & (w > 0))
        and is_bool(var("m", bool=True))
        and is_bool(const(True))
    )
    assert not is_bool(where(x > 0, x, True)) and is_bool(where(x > 0, x > 1, False))
    assert not is_bool((x > 0) * w) and is_bool((x > 0) + (w > 0)) and not is_bool(-(x > 0))


def test_trace():
    assert trace(lambda a, b: a * b + 1)[0] == ["a", "b"]
    assert trace(lambda a: 3)[1] is const(3)
    assert trace(lambda m, a: where(m, a, 0), bools={"m"})[1].args[0] is var("m", bool=True)
    names, (first, second) = trace_many(lambda a, b: (a, a + b))
    assert names == ["a", "b"] and first is var("a") and second is var("a") + var("b")
    with pytest.raises(TypeError, match="returns 2 values"):
        trace(lambda a: (a, a))
    with pytest.raises(TypeError, match="positional"):
        trace(lambda *a: 1)


def test_a_traced_function_also_runs_on_numbers():
    def silu(x):
        return x / (1 + exp(-x))

    names, e = trace(silu)
    assert names == ["x"]
    for value in (-1000.0, -1.5, 0.0, 2.0):
        assert evaluate(e, {"x": value}) == silu(value)


def test_variables_and_substitution():
    e = w * exp(x) + maximum(x, 0)
    assert free_vars(e) == {"x", "w"} and ordered_vars(e, var("a")) == ["a", "w", "x"]
    assert substitute(e, {"x": w, "w": x}) is x * exp(w) + maximum(w, 0)
    assert substitute(e, {"unused": x}) is e
    assert substitute(e, {"x": 1.0}) is w * exp(1.0) + 1.0
    assert as_expr(e) is e


def test_deep_expressions_do_not_recurse():
    e = x
    for _ in range(5000):
        e = exp(e)
    assert len(postorder([e])) == 5001
    assert free_vars(substitute(e, {"x": w})) == {"w"}
    assert "..." in repr(e)


def test_prims_are_in_the_table_under_their_own_name():
    assert all(name == prim.name for name, prim in PRIMS.items())
    assert len(PRIMS) > 60
