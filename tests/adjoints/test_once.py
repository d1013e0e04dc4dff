"""A loop whose sums only results read: the reverse sweep adds them up, and the forward sweep leaves the loop out."""

import math
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable


def distances(x, m):
    """Sums of floats and of integers, and what is made of one."""
    total, count = 0.0, 0
    for i in range(len(m)):
        d = np.zeros(len(x))
        for j in range(len(x)):
            d[j] = math.exp(x[j] - m[i, j])
        s = np.sum(d * d)
        total += math.sqrt(s)
        count += len(x)
    return 2.0 * total + 1.0, count


def after_another(x, m):
    """A sum that goes on, beside a name to which the reverse sweep of another loop gives earlier values."""
    last = 1.0
    for j in range(len(x)):
        last = math.sin(last * x[j])
    total = last
    for i in range(len(m)):
        d = np.zeros(len(x))
        for j in range(len(x)):
            d[j] = math.exp(x[j] - m[i, j])
        total += math.sqrt(np.sum(d * d))
    return total - 3.0 * last


def bent(x, m):
    """What is made of the sum has a slope that reads it."""
    total = 0.0
    for i in range(len(m)):
        d = np.zeros(len(x))
        for j in range(len(x)):
            d[j] = math.exp(x[j] - m[i, j])
        total += math.sqrt(np.sum(d * d))
    return math.log(total)


def read_by_a_loop(x, m):
    total = 0.0
    for i in range(len(m)):
        d = np.zeros(len(x))
        for j in range(len(x)):
            d[j] = math.exp(x[j] - m[i, j])
        total += math.sqrt(np.sum(d * d))
    found = 0.0
    for j in range(len(x)):
        found += x[j] * x[j] + total
    return found


def that_raises(x, m):
    total = 0.0
    for i in range(len(m)):
        d = np.zeros(len(x))
        for j in range(len(x)):
            d[j] = math.exp(x[j] - m[i, j])
        s = np.sum(d * d)
        if s < 0.0:
            raise ValueError("less than nothing")
        total += math.sqrt(s)
    return total


def that_writes(x, m, out):
    total = 0.0
    for i in range(len(m)):
        d = np.zeros(len(x))
        for j in range(len(x)):
            d[j] = math.exp(x[j] - m[i, j])
        s = np.sum(d * d)
        out[i] = s
        total += math.sqrt(s)
    return total


DRAW = np.random.default_rng(0)
X, M = DRAW.normal(size=3), DRAW.normal(size=(4, 3))
CASES = {
    distances: ((X, M), 1),
    after_another: ((X, M), 1),
    bent: ((X, M), 2),
    read_by_a_loop: ((X, M), 2),
    that_raises: ((X, M), 2),
    that_writes: ((X, M, np.zeros(4)), 2),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_values_and_gradients(function: Any) -> None:
    args, expected = CASES[function]
    f = differentiable(function)
    made = f._make("adjoint", f._kinds(args), ("x", "m"))
    assert made.text.count("math.exp(") == expected

    def value(x: Any, m: Any) -> Any:
        return function(x, m, *(np.zeros_like(a) for a in args[2:]))

    x_bar, m_bar = np.zeros_like(X), np.zeros_like(M)
    extra = [np.zeros_like(a) for a in args[2:]]
    bars = [np.zeros_like(a) for n, a in zip(f.names, args) if n in made.bars[2:]]
    given = (*(a.copy() for a in args[:2]), *extra, x_bar, m_bar, *bars)
    seeds = [1.0] * len(made.program.results)
    found = made.plain(*given, *seeds)
    wanted = value(X, M)
    assert found == (pytest.approx(wanted, rel=1e-14) if not isinstance(wanted, tuple) else wanted)

    def first(x: Any) -> float:
        return float(np.ravel(value(x, M))[0])

    for k in range(len(X)):
        step = np.zeros(3)
        step[k] = 1e-6
        assert x_bar[k] == pytest.approx((first(X + step) - first(X - step)) / 2e-6, rel=1e-7)


def test_a_whole_top_has_no_slope() -> None:
    """What goes through `floor` alone is not reversed."""

    def log_sum_exp(x):
        top = x[0]
        for i in range(1, len(x)):
            top = max(top, x[i])
        top = np.floor(top)
        s = 0.0
        for i in range(len(x)):
            s += math.exp(x[i] - top)
        return math.log(s) + top

    f = differentiable(log_sum_exp)
    made = f._make("adjoint", f._kinds((X,)), None)
    assert made.text.count("max(t") == 1 and "saved_top" not in made.text
    bar = np.zeros(3)
    assert made.plain(X, bar, 1.0) == pytest.approx(np.log(np.sum(np.exp(X))), rel=1e-14)
    np.testing.assert_allclose(bar, np.exp(X) / np.sum(np.exp(X)), rtol=1e-14)
