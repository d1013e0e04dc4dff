"""What is compiled instead of the text that is read: arrays made once, sums in any order, the library's own functions of numbers."""

import math
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.adjoints import quick
from nbgrad.adjoints.quick import Names, quicker
from nbgrad.kernels import functions


def texts(function: Any, *args: Any) -> str:
    f = differentiable(function)
    made = f._make("adjoint", f._kinds(args), None)
    return quicker(made.text, made.text.known)


def distances(x, M):
    total = 0.0
    for i in range(len(M)):
        d = np.zeros(len(x))
        for j in range(len(x)):
            d[j] += math.exp(x[j] - M[i, j])
        total += math.sqrt(np.sum(d * d))
    return total


def test_arrays_are_made_before_the_loops_that_use_them() -> None:
    text = texts(distances, np.ones(3), np.ones((2, 3)))
    lines = text.splitlines()
    made = [line for line in lines if "np.empty(" in line or "np.zeros(" in line]
    assert all(line.startswith("    ") and not line.startswith("     ") for line in made), made
    assert sum("db = np.empty(" in line for line in made) == 1 and not any(
        "np.zeros" in line for line in made
    )
    assert {line.strip() for line in lines if "clear(" in line} == {"clear(d)", "clear(db)"}
    assert all(line.startswith("        ") for line in lines if "clear(" in line)
    assert "own_exp(float(" in text and "add_up(total_1, float(" in text


def test_what_another_turn_may_read_is_made_anew() -> None:
    text = "def f(x, n):\n    for i in range(n):\n        s = b[0]\n        b = np.empty(3)\n    return s\n"
    assert quicker(text, Names()) == text
    text = "def f(x, n, m):\n    for i in range(n):\n        b = np.empty(m)\n    return b\n"
    assert quicker(text, Names(natural=frozenset("m"))) == text  # which a function gives back
    text = "def f(x, n, m):\n    for i in range(n):\n        b = np.empty(m - 3)\n        b[0] = x[0]\n"
    assert quicker(text, Names(natural=frozenset("m"))) == text  # which may be refused, if there is a turn
    text = "def f(x, n):\n    for i in range(n):\n        b = np.empty(i)\n        b[0] = x[0]\n"
    assert quicker(text, Names(natural=frozenset("i"))) == text  # of another length in each turn


def compensated(x):
    """A sum whose order is the point."""
    total = 0.0
    lost = 0.0
    for i in range(len(x)):
        y = x[i] - lost
        t = total + y
        lost = (t - total) - y
        total = t
    return total


def test_a_sum_that_the_loop_reads_keeps_its_order() -> None:
    x = np.array([1.0, 1e-16] * 500)
    assert "add_up" not in texts(compensated, x).partition("totalb = seed")[0]
    assert differentiable(compensated)(x) == compensated(x)


@pytest.mark.slow
def test_results_are_those_of_the_text() -> None:
    draw = np.random.default_rng(0)
    x, m = draw.normal(size=37), draw.normal(size=(5, 37))
    f = differentiable(distances)
    made = f._make("adjoint", f._kinds((x, m)), None)
    found, wanted = [], []
    for call, results in ((made, found), (made.plain, wanted)):
        bars = np.zeros_like(x), np.zeros_like(m)
        results += [call(x, m, *bars, 1.0), *bars]
    for got, want in zip(found, wanted):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def substituted(x, lower):
    y = x.copy()
    at = 0
    for j in range(len(x)):
        top = y[j]
        for r in range(j + 1, len(x)):
            y[r] += lower[at + r - j - 1] * top
        at += len(x) - j - 1
    return np.sum(y * y)


def test_short_loops_of_triangles_are_apart() -> None:
    """Of fewer turns than vectors are worth, and as they were of more."""
    for n in (3, 16, 17, 18, 24):
        draw = np.random.default_rng(n)
        x, lower = draw.normal(size=n), draw.normal(size=n * (n - 1) // 2) * 0.2
        f = differentiable(substituted)
        made = f._make("adjoint", f._kinds((x, lower)), None)
        text = quicker(made.text, made.text.known)
        assert text.count("one_by_one()") == 2 == text.count(" < 16:")
        grads, bars = f.grad(x, lower), (np.zeros_like(x), np.zeros_like(lower))
        made.plain(x, lower, *bars, 1.0)
        for got, want in zip(grads, bars):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)
    assert "one_by_one" not in texts(distances, np.ones(3), np.ones((2, 3)))  # whose turns are always as many


def in_blocks(x, size):
    s = 0.0
    for b in range((len(x) + size - 1) // size):
        low = b * size
        many = min(size, len(x) - low)
        for i in range(many):
            s += x[low + i] * x[low + i]
    return s


def test_blocks_are_no_triangles() -> None:
    text = texts(in_blocks, np.ones(5), 2)
    assert "one_by_one" not in text and "add_up" in text


def test_names_that_mean_something_here() -> None:
    def summed(x):
        add_up = 0.0
        own_exp = 1.0
        one_by_one = 2.0
        for i in range(len(x)):
            add_up += math.exp(x[i]) * own_exp
        return add_up * one_by_one

    assert differentiable(summed).grad(np.zeros(3), wrt="x").tolist() == [2.0, 2.0, 2.0]


def extremes(x):
    top = x[0]
    bottom = x[0]
    for i in range(1, len(x)):
        top = max(top, x[i])
        bottom = min(bottom, x[i])
    return top, bottom


def test_extremes_in_any_order_are_pythons() -> None:
    """NaNs are passed over, and one that stands first stays."""
    f = differentiable(extremes)
    made = f._make("primal", f._kinds((np.ones(3),)), None)
    text = quicker(made.text, made.text.known)
    assert "rise(top" in text and "fall(bottom" in text
    draw = np.random.default_rng(0).normal(size=70)
    for places in ((), (3,), (0,), range(1, 70), range(70)):
        x = draw.copy()
        x[list(places)] = math.nan
        np.testing.assert_array_equal(made(x), extremes(x))
    x = np.full(70, -math.inf)
    assert made(x) == (-math.inf, -math.inf)
    assert made(-x) == (math.inf, math.inf)


@pytest.mark.slow
def test_products_without_a_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's are SciPy's: where that is not installed they are loops of ours, of all ranks, dtypes and layouts."""

    def products(A, B, v):
        C = A @ B
        w = np.dot(C.T, v)
        return (w @ B) @ v + np.dot(v, A @ v) * np.sum(np.dot(B[::2], A))

    monkeypatch.setattr(functions, "has_blas", lambda: False)
    draw = np.random.default_rng(4)
    for dtype, near in ((np.float64, 1e-12), (np.float32, 1e-4)):
        A, B, v = (
            draw.normal(size=(3, 3)).astype(dtype),
            draw.normal(size=(3, 6)).astype(dtype)[:, ::2],
            draw.normal(size=3).astype(dtype),
        )
        f = differentiable(products)
        made = f._make("adjoint", f._kinds((A, B, v)), None)
        bars = [np.zeros_like(a) for a in (A, B, v)]
        value = made.plain(A, B, v, *bars, 1.0)
        found, grads = f.value_and_grad(A, B, v)
        assert "np.dot(" in made.text and "own_dot(" in made.fresh[0].compiled.text
        np.testing.assert_allclose(found, value, rtol=near)
        for a, b in zip(grads, bars):
            np.testing.assert_allclose(a, b, rtol=near, atol=near)


def test_a_product_of_what_does_not_fit() -> None:
    for a, b in (((2, 3), (2, 3)), ((2, 3), (2,)), ((3,), (2, 3)), ((3,), (2,))):
        with pytest.raises(ValueError, match="incompatible array sizes"):
            functions.own_dot(np.ones(a), np.ones(b))


@pytest.mark.slow
def test_products_of_any_size_and_layout() -> None:
    """With a BLAS and without: added to what is there, across the edges of blocks and of what is small."""
    from numba import njit

    ways = [functions.own_add_dot, *([functions.add_dot] if functions.has_blas() else [])]
    calls = [njit(lambda a, b, o, f=f: f(a, b, o)) for f in map(functions._as_seen, ways)]
    draw = np.random.default_rng(1)
    for m, k, n in (
        (1, 1, 1),
        (3, 0, 4),
        (0, 3, 4),
        (8, 8, 8),
        (9, 8, 9),
        (65, 64, 129),
        (67, 131, 257),
        (2, 200, 1),
    ):
        a, b, v = draw.normal(size=(m, k)), draw.normal(size=(k, n)), draw.normal(size=k)
        for x, y in ((a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b)), (a, v), (v, b)):
            start = draw.normal(size=np.shape(x @ y))
            for call in calls:
                out = start.copy()
                call(x, y, out)
                np.testing.assert_allclose(out, start + x @ y, rtol=1e-12, atol=1e-12)


def test_no_whole_arrays_are_added() -> None:
    """For which Numba takes seconds."""

    def products(A, B, v):
        return np.sum(A @ (B[:2] @ v) + A @ B[:2, 0])

    args = np.ones((2, 2)), np.ones((3, 4)), np.ones(4)
    made = differentiable(products)._make("adjoint", differentiable(products)._kinds(args), None)
    assert "] += np." in made.text
    seen = quick.compiled(made.name, made.text, made.text.known, made.helpers, "products").text
    assert "] += np." not in seen and "add_dot(" in seen and "add_outer(" in seen


def of_three_ranks(x, m, c):
    return x * x, (m * m).T, c * c, m[1:] * x[0]


@pytest.mark.slow
def test_seeds_are_added_by_loops_where_numba_compiles_its_complaint() -> None:
    """An array is as long as its result, also where compiled code calls; a number goes to each element."""
    f, draw = differentiable(of_three_ranks), np.random.default_rng(0)
    args = [draw.normal(size=n) for n in (3, (2, 3), (2, 2, 3))]
    seeds = [draw.normal(size=np.shape(r)) for r in f.function(*args)]
    made = f._make("adjoint", f._kinds(args), None)
    compiled = made.compiled
    assert compiled.text.count("add_whole(") == 4 and "] += seed" not in compiled.text
    for given in (seeds, [0.5, 0.0, 2.0, np.asfortranarray(seeds[3])]):
        _, grads = f.vjp(*args, seeds=given)
        bars = [np.zeros_like(a) for a in args]
        made.plain(*args, *bars, *given)
        for g, h in zip(grads, bars):
            np.testing.assert_allclose(g, h, rtol=1e-14)
    for k in range(4):
        wrong = [*seeds[:k], np.ones(np.array(seeds[k].shape) + 1), *seeds[k + 1 :]]
        with pytest.raises(ValueError, match="a seed of another shape than its result"):
            compiled(*args, *[np.zeros_like(a) for a in args], *wrong)


def rows_times(xs, W, b):
    s = 0.0
    for t in range(len(xs)):
        h = np.tanh(xs[t] @ W + b)
        s += h @ h
    return s


@pytest.mark.slow
def test_a_row_is_set_to_a_product_by_loops() -> None:
    """As a whole array is; a row's assignment brings Numba's complaint as well."""
    f, draw = differentiable(rows_times), np.random.default_rng(0)
    args = [draw.normal(size=n) for n in ((4, 3), (3, 5), 5)]
    made = f._make("adjoint", f._kinds(args), None)
    whole = f._swept(made, args, [1.0])[1]
    bars = [np.zeros_like(a) for a in args]
    made.plain(*args, *bars, 1.0)
    for g, h in zip(whole, bars):
        np.testing.assert_allclose(g, h, rtol=1e-13)


def test_what_a_row_is_set_to() -> None:
    text = "def f(W, x, y, t):\n    y[t] = np.dot(W, x) + np.dot(x, W)\n    z = np.dot(W, x)\n    return z\n"
    made = quick.compiled("f", text, None, {}, "a test").text
    # Where Numba finds no BLAS products are our own.
    lines = made.replace("own_add_dot(", "add_dot(").replace("own_dot(", "np.dot(").splitlines()
    assert [line.strip() for line in lines[1:4]] == [
        "y[t] = 0.0",
        "add_dot(W, x, y[t])",
        "add_dot(x, W, y[t])",
    ]
    assert lines[4] == "    z = np.dot(W, x)"
