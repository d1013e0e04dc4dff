"""Reversed loops run upwards only where that is the same: programs are reversed as it is decided, and from their last turns on."""

import contextlib
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import prange

from asv_benchmarks.gradbench.loops import EVALS, small
from nbgrad import differentiable
from nbgrad.adjoints.analyse import POLICIES
from nbgrad.adjoints.api import Made
from tests.adjoints.random_order import check, downwards
from tests.adjoints.test_constructs import PROGRAMS, arguments, copied

ONCE = list({e.function.__name__: e for e in EVALS}.values())


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Made, "compiled", property(lambda made: made.plain))


def same_both_ways(f: Callable[..., Any], args: Any, policy: str = "auto", **wanted: Any) -> Any:
    """The gradient, which is that of loops reversed from the last turn on."""
    found = []
    for order in (contextlib.nullcontext(), downwards()):
        with order:
            found.append(differentiable(f, policy=policy).grad(*map(copied, args), **wanted))
    for up, down in zip(*found):
        for a, b in zip(up, down) if isinstance(up, tuple) else [(up, down)]:
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12 * (1 + np.max(np.abs(b), initial=0.0)))
    return found[0]


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    found = Counter(check(seed) for seed in range(part * 10, part * 10 + 10))
    assert found["upwards"] >= 3, found


@pytest.mark.slow
def test_many_random_programs(whole: bool) -> None:
    """`--whole`: 3,000."""
    found = Counter(check(seed, second=seed % 10 == 0) for seed in range(1000, 4000 if whole else 1100))
    assert found["upwards"] > 0.5 * found.total(), found


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_as_users_write_them(name: str, policy: str) -> None:
    same_both_ways(PROGRAMS[name], arguments(PROGRAMS[name]), policy)


@pytest.mark.parametrize("e", ONCE, ids=lambda e: e.function.__name__)
def test_gradbench(e: Any) -> None:
    same_both_ways(e.function, small(e), **({"wrt": e.wrt} if e.wrt else {}))


def a_sum_that_is_shown(x, n):
    """`shown` is what `s` has become when the inner loop is over."""
    s = t = 0.0
    for i in range(n):
        shown = 0.0
        for j in range(n):
            s += x[i] * x[j]
            shown = s
        t += shown * shown
    return s + t


def counted_from_both_ends(x, a, n):
    """Turns that are n apart meet."""
    y = x.copy()
    for i in range(-n, n):
        y[i] = y[i] * a + 1.0
    return np.sum(y * y)


def bound_as_it_was(x, a, n):
    """`a` is what it was when a turn is over."""
    s = 0.0
    for i in prange(n):
        before = a
        for j in range(n):
            a = a * x[i] + x[j]
            s += math.sin(a)
        a = before
    return s + a * a


def several_sums_of_one(x, a, n):
    """What nobody reads does no harm, and in a branch either is a sum."""
    s = a
    for i in range(n):
        beside = s + x[i]
        if x[i] > 0.4:
            s = x[i] * a + beside
        else:
            for j in range(i):
                beside = beside - x[j] * x[i]
            s = beside
    return s * s


def an_array_that_nobody_reads(x, n):
    """What it is made of is not there either when a turn is run again."""
    s = 0.0
    for i in prange(n):
        beside = x * x[i]  # noqa: F841
        s += x[i] * x[i]
    return s


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "f",
    [
        a_sum_that_is_shown,
        counted_from_both_ends,
        bound_as_it_was,
        several_sums_of_one,
        an_array_that_nobody_reads,
    ],
)
def test_turns(f: Callable[..., Any], policy: str) -> None:
    given = {"x": np.array([0.5, -0.3, 0.8, 0.2]), "a": 0.7, "n": 4}
    args = [given[n] for n in differentiable(f).names]
    gradient = same_both_ways(f, args, policy)
    along = [np.cos(a) if isinstance(a, float | np.ndarray) else None for a in args]
    _, moved = differentiable(f).jvp(args, along)
    assert sum(np.sum(g * d) for g, d in zip(gradient, along)) == pytest.approx(moved, rel=1e-11)


def test_sums_commute() -> None:
    text = differentiable(several_sums_of_one).adjoint_source(np.ones(4), 0.5, 4)
    assert text.count("for i in range(n_1):") == 2
