"""Emitted source: executed as plain Python on NumPy scalars it gives what `evaluate` says."""

import itertools
import math

import numpy as np
import pytest

from nbgrad.expr import PRIMS, bessel, const, loops, special, trace, var, vjp
from nbgrad.expr import prims as p
from nbgrad.expr.emit import _TEXTS, KINDS, SPELLINGS, emit, register_text
from nbgrad.expr.evaluate import evaluate

DTYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64, "b1": np.bool_}
FLOATS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -3.5, 1e30, 5e-324, math.inf, -math.inf, math.nan]
INTS = [0, 1, -1, 2, -2, 7, -8, 63, 64, 2**31 - 1, -(2**31)]
x, w = var("x"), var("w")


def run(roots, kind, env, target="python"):
    """Execute what was emitted, on NumPy scalars of the dtype."""
    emitted = emit(roots, target, kind, {name: name for name in env})
    scope = {
        "F": DTYPES[kind],
        "np": np,
        "math": math,
        "inf": math.inf,
        "nan": math.nan,
        "unraised": loops.unraised,
    }
    exec(loops.text(frozenset(emitted.helpers), "@unraised"), scope)
    assert emitted.helpers <= set(scope)
    scope |= {n: v if isinstance(v, bool) else DTYPES[kind](v) for n, v in env.items()}
    with np.errstate(all="ignore"):
        exec("\n".join([*emitted.lines, f"results = [{', '.join(emitted.results)}]"]), scope)
    return scope["results"]


def arity(prim):
    return prim.python.__code__.co_argcount - prim.static


def applied(prim, n=3):
    names = "abc"[: arity(prim)]
    return names, prim(*map(var, names), *([n] if prim.static else []))


def close(found, expected, ulps):
    found, expected = float(found), float(expected)
    if found != found or expected != expected:
        return found != found and expected != expected
    return found == expected or abs(found - expected) <= ulps * 2.0**-52 * abs(expected)


@pytest.mark.parametrize("name", [n for n in PRIMS if n in SPELLINGS["python"]["float"]])
def test_floats(name):
    names, e = applied(PRIMS[name])
    for row in itertools.product(FLOATS, repeat=len(names)):
        env = dict(zip(names, row, strict=True))
        (found,), expected = run([e], "f8", env), evaluate(e, env)
        assert close(found, expected, ulps=4), env
        if expected == 0 and not e.is_bool:
            assert math.copysign(1, found) == math.copysign(1, expected), env


@pytest.mark.parametrize("kind", ["i4", "i8"])
@pytest.mark.parametrize("name", [n for n in PRIMS if n in SPELLINGS["python"]["int"]])
def test_integers_wrap(name, kind):
    bits = 8 * DTYPES[kind]().itemsize
    names, e = applied(PRIMS[name])
    values = [v for v in INTS if name not in ("lshift", "rshift") or abs(v) < 32 or abs(v) == 64]
    for row in itertools.product(values, repeat=len(names)):
        env = dict(zip(names, row, strict=True))
        (found,) = run([e], kind, env)
        expected = evaluate(e, env)
        if not e.is_bool:
            assert found.dtype == DTYPES[kind]
            expected = (int(expected) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
        assert int(found) == expected, env


def test_the_smallest_integer_over_minus_one():
    low = -(2**63)
    for e, expected in [(x // w, low), (x % w, 0), (p.fmod(x, w), 0)]:
        assert run([e], "i8", {"x": low, "w": -1}) == [expected]


@pytest.mark.parametrize("name", [n for n in PRIMS if n in SPELLINGS["python"]["bool"]])
def test_booleans(name):
    names, e = applied(PRIMS[name])
    for row in itertools.product([False, True], repeat=len(names)):
        env = dict(zip(names, row, strict=True))
        (found,) = run([e], "b1", env)
        assert isinstance(found, (bool, np.bool_)) and found == evaluate(e, env)


def test_float32_stays_float32():
    for name in SPELLINGS["python"]["float"]:
        names, e = applied(PRIMS[name])
        (found,) = run([e], "f4", dict.fromkeys(names, 0.75))
        assert e.is_bool or found.dtype == np.float32, name
    (found,) = run([1 / (1 + p.exp(-x)) * 0.1], "f4", {"x": 1.0})
    assert found.dtype == np.float32


def test_lines():
    # For CUDA: kernels built for the CPU earlier in the process register texts of their own.
    emitted = emit([p.tan(x) * p.tan(x), p.tan(x)], "cuda", "f4", {"x": "x0"})
    assert emitted.lines == ["t1 = F(math.tan(x0))", "t2 = t1 * t1"]
    assert emitted.results == ["t2", "t1"] and emitted.helpers == {"math"}
    assert emit([x, const(2)], "cpu", "f8", {"x": "t1"}).results == ["t1", "F(2.0)"]
    assert emit([x + 1], "cpu", "i8", {"x": "t1"}).lines == ["t2 = F(t1 + F(1))"]  # t1 is taken
    assert emit([p.where(x > 0, x, -math.inf)], "cuda", "f4", {"x": "x"}).lines == [
        "t1 = x > F(0.0)",
        "t2 = (x if t1 else F(-inf))",
    ]
    assert emit([x**3], "cpu", "f4", {"x": "x"}).lines == ["t1 = F(x * x)", "t2 = F(x * t1)"]


def test_truth_values_and_numbers_mix():
    m = var("m", bool=True)
    e = p.where(p.logical_and(x, m), (x > 0) * w, m)
    for a, b, c in itertools.product([0.0, -2.0, 3.0], [1.5, -1.0], [False, True]):
        env = {"x": a, "w": b, "m": c}
        assert run([e], "f4", env) == [evaluate(e, env)]
    assert run([x + True], "i4", {"x": 3}) == [4]


def test_a_composite_and_its_gradient():
    e = trace(lambda x, w: p.softplus(x * w) * p.tanh(w))[1]
    found = vjp(e, ["x", "w"])
    env = {"x": 0.7, "w": -1.3, "g": 2.0}
    for got, root in zip(run([e, *found.values()], "f8", env), [e, *found.values()], strict=True):
        assert got == pytest.approx(evaluate(root, env), rel=1e-14)


def test_a_deep_expression():
    e = x
    for i in range(5000):
        e = p.sin(e) + i % 3
    assert run([e], "f8", {"x": 0.3}) == [pytest.approx(evaluate(e, {"x": 0.3}))]


def test_missing_spelling():
    with pytest.raises(NotImplementedError, match="no spelling of 'erf' for target 'cuda', dtype 'int64'"):
        emit([p.erf(x)], "cuda", "i8", {"x": "x"})
    with pytest.raises(NotImplementedError, match="negative exponent"):
        emit([x**-2], "cpu", "i4", {"x": "x"})
    with pytest.raises(KeyError, match="variable 'w'"):
        emit([x + w], "cpu", "f4", {"x": "x"})


def test_constants_without_a_place_in_integers():
    with pytest.raises(TypeError, match="no place"):
        emit([x + 0.5], "cpu", "i8", {"x": "x"})
    with pytest.raises(OverflowError):
        emit([x + 2**31], "cpu", "i4", {"x": "x"})
    assert emit([x + 2.0], "cpu", "i4", {"x": "x"}).lines == ["t1 = F(x + F(2))"]


def test_registered_text_wins_where_it_was_registered():
    def text(args, fresh):
        name = fresh()
        return [f"{name} = fast_exp({args[0]})"], name

    register_text("python", "f4", "exp", text)
    try:
        emitted = emit([p.exp(x)], "python", "f4", {"x": "x"})
        assert emitted.lines == ["t1 = fast_exp(x)"] and emitted.helpers == {"fast_exp"}
        assert "fast_exp" not in emit([p.exp(x)], "python", "f8", {"x": "x"}).lines[0]
    finally:
        del _TEXTS["python", "f4", "exp"]
    with pytest.raises(KeyError):
        register_text("tpu", "f4", "exp", text)


def test_every_target_spells_the_same_primitives():
    for kind in set(KINDS.values()):
        assert (
            SPELLINGS["cpu"][kind].keys()
            == SPELLINGS["cuda"][kind].keys()
            == SPELLINGS["python"][kind].keys()
        )
    spelled = {n for n, prim in PRIMS.items() if prim.spell}
    assert spelled == set().union(*SPELLINGS["cpu"].values())
    assert set(PRIMS) - spelled == {*special.__all__, *bessel.__all__, "join"}


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", [n for n in special.__all__ if n not in ("polygamma", "hypot")])
def test_definitions_are_written_in_what_has_a_text(name, kind):
    arity = len(PRIMS[name].partials)
    e = PRIMS[name](*map(var, "ab"[:arity]))
    for target in ("cpu", "cuda", "python"):
        text = "\n".join(emit([e], target, kind, {"a": "a", "b": "b"}).lines)
        assert name not in text.replace("np.", "").split("(")


def test_every_kind_has_its_booleans():
    assert {n for n, prim in PRIMS.items() if prim.result_bool is None} <= SPELLINGS["cpu"]["bool"].keys()
