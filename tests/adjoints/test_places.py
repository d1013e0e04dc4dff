"""What is not written over any more is read again, not saved; and never what is."""

from collections import Counter

import numpy as np
import pytest

from asv_benchmarks.gradbench.loops import det
from nbgrad import differentiable
from tests.adjoints.random_places import check, written_small


@pytest.mark.parametrize("part", range(4))
def test_random_programs_that_write_over_what_they_read(part: int) -> None:
    found = Counter(check(seed) for seed in range(part * 20, part * 20 + 20))
    assert found["ok"] >= 5


@pytest.mark.parametrize("part", range(4))
def test_random_programs_with_small_arrays(part: int) -> None:
    found = Counter(check(seed, written_small) for seed in range(part * 10, part * 10 + 10))
    assert found["ok"] >= 5


def test_a_load_before_a_loop_without_turns_has_no_gradient() -> None:
    assert check(2892) == "ok"  # x[i + 1], beyond the end where the loop inside has no turn, was added 0.0 to


@pytest.mark.slow
def test_many_random_programs_that_write_over_what_they_read(whole: bool) -> None:
    """`--whole`: 3,000."""
    found = Counter(check(seed) for seed in range(1000, 4000 if whole else 1100))
    assert found["ok"] > 0.4 * found.total(), found
    found = Counter(check(seed, written_small) for seed in range(1000, 3000 if whole else 1100))
    assert found["ok"] > 0.7 * found.total(), found


def table(a, b):
    """How costly it is to go from one to the other, cell by cell of a table."""
    n = len(a)
    cost = np.zeros((n, n))
    cost[0, 0] = a[0] * b[0]
    for i in range(1, n):
        for j in range(1, n):
            cost[i, j] = a[i] * cost[i - 1, j] + b[j] * cost[i, j - 1] + cost[i - 1, j - 1] * a[j]
    return cost[n - 1, n - 1]


def smoothed(a, turns):
    """Sums of neighbours, over and over: all of it is written again."""
    n = len(a)
    x = a.copy()
    for _ in range(turns):
        for i in range(1, n):
            x[i] = x[i] * x[i - 1]
    return x[n - 1]


def turned(x, p):
    """Cross products of a small vector with rows."""
    total = 0.0
    for i in range(len(p)):
        c = np.empty(3)
        for k in range(3):
            c[k] = x[k] * p[i, k]
        n = np.zeros(3)
        n[0] = c[1] * x[2] - c[2] * x[1]
        n[1] = c[2] * x[0] - c[0] * x[2]
        n[2] = c[0] * x[1] - c[1] * x[0]
        total += np.sum(n * n)
    return total


def test_small_arrays_are_numbers() -> None:
    text = differentiable(turned).adjoint_source(np.ones(3), np.ones((2, 3)))
    assert "np.empty(" not in text and "np.zeros(" not in text and "c_2" in text


def test_elimination_and_tables_save_no_element_of_theirs() -> None:
    text = differentiable(det).adjoint_source(np.eye(3))
    saved = {word.partition("[")[0] for word in text.split() if word.startswith("saved_")}
    assert saved == {"saved_pivot", "saved_product_2"}
    assert "saved_" not in differentiable(table).adjoint_source(np.ones(3), np.ones(3))
    assert "saved_t" in differentiable(smoothed).adjoint_source(np.ones(3), 2)
