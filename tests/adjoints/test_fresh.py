"""What an adjoint writes first: its gradient is that of the one that adds, whatever the arrays held; and where it may not, it does not."""

from __future__ import annotations

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
import math
import random
import re
from typing import Any

import numpy as np
import pytest
from numba import prange

from nbgrad import differentiable
from nbgrad.base import source


def weighted(x, w):
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i]) * w[i]
    return s


def named_length(x):
    n = len(x)
    s = 0.0
    for i in range(n):
        s += x[i] * x[i]
    return s


def threads(x, w):
    s = 0.0
    for i in prange(len(x)):
        s += math.sin(x[i]) * w[i]
    return s


def by_rows(x):
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            s += x[i, j] ** 3
    return s


def whole(x):
    return (np.sin(x) ** 2).sum()


def in_turn(x):
    s = 1.0
    for i in range(len(x)):
        s = s * x[i] + math.cos(s)
    return s


def twice(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * x[i]
    for i in range(len(x)):
        s += math.sin(x[i])
    return s


def neighbours(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * x[i - 1]
    return s


def some(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            s += x[i] * x[i]
    return s


def first_half(x):
    s = 0.0
    for i in range(len(x) // 2):
        s += x[i] * x[i]
    return s


def another_length(x, w):
    s = 0.0
    for i in range(len(w)):
        s += x[i] * w[i]
    return s


def transposed(x):
    s = 0.0
    for i in range(x.shape[1]):
        for j in range(x.shape[0]):
            s += x[j, i] ** 2
    return s


def written_over(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] ** 2
        x[i] = 3.0 * s
    return s


def leaves(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] ** 2
        if s > 1.0:
            break
    return s


def length_bound_anew(x):
    n = len(x)
    s = 0.0
    for k in range(2):
        n = n - k
        for i in range(n):
            s += x[i] ** 2
    return s


DRAW = np.random.default_rng(3)
V, W, M = DRAW.normal(size=6), DRAW.normal(size=6), DRAW.normal(size=(4, 3))


@pytest.mark.parametrize(
    "function, args, first",
    [
        (weighted, (V, W), "x"),
        (named_length, (V,), "x"),
        (threads, (V, W), "x"),
        (by_rows, (M,), "x"),
        (whole, (M,), "x"),
        (in_turn, (V,), "x"),
        (twice, (V,), "x"),
        (neighbours, (V,), ""),
        (some, (V,), ""),
        (first_half, (V,), ""),
        (another_length, (V, W[:4]), "w"),
        (transposed, (M,), ""),
        (written_over, (V,), ""),
        (leaves, (V,), ""),
        (length_bound_anew, (V,), ""),
    ],
)
def test_arrays_that_hold_anything(function: Any, args: Any, first: str) -> None:
    assert agreed(function, args) == set(first)


def agreed(function: Any, args: Any) -> frozenset[str]:
    """Which are written first, whose gradients agree."""
    f = differentiable(function)
    made = f._make("adjoint", f._kinds(args), None)
    fresh, written = made.fresh
    zeros = [np.zeros_like(a) for a in args]
    others = [np.full_like(a, np.nan if n in written else 0.0) for n, a in zip(f.names, args)]
    own, again = ([np.copy(a) for a in args] for _ in range(2))
    assert made.plain(*own, *zeros, 1.0) == fresh.plain(*again, *others, 1.0)
    for a, b in zip(zeros, others):
        assert np.array_equal(a, b)
    return written


def powers(x, w):
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i]) * w[i]
    return s


def powers_by_rows(x):
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            s += math.exp(x[i, j])
    return s


def called_twice(x):
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i]) * math.tan(x[i])
    return s


def some_of_it(x):
    s = 0.0
    for i in range(len(x) // 2):
        s += math.exp(x[i])
    return s


@pytest.mark.parametrize(
    "function, args, saved",
    [
        (powers, (V, W), 0),
        (powers_by_rows, (M,), 1),  # a row at a time
        (powers, (V.astype(np.float32), W), 1),
        (called_twice, (V,), 1),  # of two
        (some_of_it, (V,), 1),
    ],
)
def test_what_is_saved_stands_in_the_gradient(function: Any, args: Any, saved: int) -> None:
    """Where that is written right after it is read, in an array of the same kind."""
    f = differentiable(function)
    made = f._make("adjoint", f._kinds(args), None)
    agreed(function, args)
    assert len(set(re.findall(r"saved\w*", made.fresh[0].text))) == saved, made.fresh[0].text


HEADS = {
    1: (
        "for i in range(len(x)):",
        "for i in range(n):",
        "for i in range(1, len(x)):",
        "for i in range(len(x) - 1, -1, -1):",
    ),
    2: (
        "for i in range(m.shape[0]):\n  for j in range(m.shape[1]):",
        "for j in range(m.shape[1]):\n  for i in range(m.shape[0]):",
    ),
}
READS = {
    1: ("x[i]",) * 6 + ("x[i - 1]", "x[0]", "s"),
    2: ("m[i, j]",) * 6 + ("m[i, 0]", "x[i]", "m[0, j]", "s"),
}


def program(seed: int) -> Any:
    """Loops over whole arrays, that read where they are and now and then elsewhere."""
    draw = random.Random(seed)
    lines = ["def program(x, m):", " n = len(x)", " s = 0.3", " t = 0.0"]
    for _ in range(draw.randint(1, 3)):
        rank = draw.randint(1, 2)
        lines += [" " + line for line in draw.choice(HEADS[rank]).split("\n")]
        for _ in range(draw.randint(1, 3)):
            a, b = draw.choice(READS[rank]), draw.choice(READS[rank])
            said = draw.choice(
                (
                    f"s += 0.1 * math.tanh({a} * {b})",
                    f"s = 0.5 * s + math.sin({a})",
                    f"t = math.sin({a}) * {b}; s += math.cos(t)",
                    f"s += 0.1 * {a}",
                )
            )
            if draw.random() < 0.1:
                said = f"if {b} > 0.0: s += math.sin({a})"
            lines.append(" " * (2 * rank + 1) + said)
    lines.append(" return s")
    scope: dict[str, Any] = {"math": math}
    return source.function("program", "\n".join(lines) + "\n", scope, "programs of tests", str(seed))


@pytest.mark.slow
def test_random_loops_over_whole_arrays() -> None:
    found = [agreed(program(seed), (DRAW.normal(size=4), DRAW.normal(size=(4, 3)))) for seed in range(150)]
    assert 40 < sum(bool(first) for first in found) < 140


@pytest.mark.slow
def test_as_it_is_compiled() -> None:
    for function, args in ((weighted, (V, W)), (threads, (np.tile(V, 20000), np.tile(W, 20000)))):
        f = differentiable(function)
        for _ in range(3):
            by_x, by_w = f.grad(*args)
            cos = np.cos if function is threads else np.exp
            np.testing.assert_allclose(by_x, cos(args[0]) * args[1], rtol=1e-12)
            np.testing.assert_allclose(by_w, (np.sin if function is threads else np.exp)(args[0]), rtol=1e-12)
