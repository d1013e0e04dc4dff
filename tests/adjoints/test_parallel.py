"""Loops over `prange`: the pieces give the whole's results, the same bits for any number of threads; turns that meet stay in order."""

import math
import re
from typing import Any

import numpy as np
import pytest
from numba import prange

import nbgrad
from nbgrad import differentiable
from nbgrad.adjoints import parallel
from nbgrad.adjoints.parallel import Split, Turns, cut
from nbgrad.kernels import functions


def layer(x, w, b):
    """Arrays of a turn's own, shared reads, sums in branches, and an array that each turn has an element of."""
    y = np.empty(x.shape[0])
    total, count = 0.0, 0
    for i in prange(x.shape[0]):
        z = np.empty(w.shape[1])
        for j in range(w.shape[1]):
            s = b[j]
            for k in range(x.shape[1]):
                s += x[i, k] * w[k, j]
            z[j] = math.tanh(s)
        m = np.sum(z * z) * b[0]
        y[i] = m
        if m > 1.0:
            total += m
            count += 1
    for i in range(x.shape[0]):
        total += y[i] * y[i]
    return total / (count + 1)


def paths(z, start, drift, width):
    """A loop that is left, in each turn."""
    total = 0.0
    for p in prange(z.shape[0]):
        s = start
        for t in range(z.shape[1]):
            s *= math.exp(drift + width * z[p, t])
            if s < 0.6 * start:
                break
        total += max(s - start, 0.0)
    return total / z.shape[0]


def smoothed(x, y):
    """An argument that is written."""
    for i in prange(1, len(x) - 1):
        y[i] = (x[i - 1] + x[i] * x[i] + x[i + 1]) * y[i]


def running(x, a):
    """No turns of their own at all, whatever is written."""
    y = np.zeros(len(x))
    for i in prange(1, len(x)):
        y[i] = y[i - 1] * a + x[i]
    return y[len(x) - 1]


def gathered(x, at):
    y = np.zeros(3)
    for i in prange(len(x)):
        y[at[i]] += x[i] * x[i]
    return y[0] * y[1] + y[2]


def spanned(x):
    """Extremes of what threads take parts of, without a derivative."""
    top, bottom = x[0], x[0]
    for i in range(1, len(x)):
        top = max(top, x[i])
        bottom = min(bottom, x[i])
    s = 0.0
    for i in prange(len(x)):
        s += math.exp(x[i] - np.floor(top))
    return s + np.ceil(bottom)


def scaled(x):
    """One with a derivative, which the turn has that it is from."""
    top = x[0]
    for i in range(1, len(x)):
        top = max(top, x[i])
    s = 0.0
    for i in prange(len(x)):
        s += math.exp(x[i] - top)
    return s


def others(x, a):
    """Of few numbers that no threads look at."""
    top = a[0]
    for i in range(1, len(a)):
        top = max(top, a[i])
    s = 0.0
    for i in prange(len(x)):
        s += math.exp(x[i] - np.floor(top))
    return s


def unlike_an_extreme(x):
    """Who is counted among them reads how far the loop is."""
    top, rises = x[0], 0
    for i in range(1, len(x)):
        rises += top < x[i]
        top = max(top, x[i])
    s = 0.0
    for i in prange(len(x)):
        s += math.exp(x[i] - np.floor(top))
    return s + rises


DRAW = np.random.default_rng(0)
CASES = {
    "layer": (layer, (DRAW.normal(size=(37, 3)), DRAW.normal(size=(3, 4)), DRAW.normal(size=4)), [1, 1, 2]),
    "paths": (paths, (DRAW.normal(size=(23, 5)), 1.0, 0.01, 0.3), [1, 1, 1]),
    "smoothed": (smoothed, (DRAW.normal(size=40), DRAW.normal(size=40)), [1, 1, 2]),
    "running": (running, (DRAW.normal(size=9), 0.7), [0, 0, 0]),
    "gathered": (gathered, (DRAW.normal(size=9), np.array([0, 1, 2] * 3)), [0, 0, 1]),
    "spanned": (spanned, (DRAW.normal(size=50),), [2, 1, 3]),
    "scaled": (scaled, (DRAW.normal(size=50),), [2, 1, 2]),
    "others": (others, (DRAW.normal(size=50), DRAW.normal(size=5)), [1, 1, 2]),
    "unlike_an_extreme": (unlike_an_extreme, (DRAW.normal(size=50),), [1, 1, 2]),
}


def turns(f: Any) -> int:
    return sum(isinstance(s, Turns) for s in f.steps) if isinstance(f, Split) else 0


@pytest.mark.parametrize("name", CASES)
def test_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As plain Python, against the whole text."""
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)
    function, args, expected = CASES[name]
    f = differentiable(function)
    found = []
    for what in ("primal", "tangent", "adjoint"):
        made = f._make(what, f._kinds(args), None)
        pieces = cut(made.name, made.text, made.helpers)
        found.append(turns(pieces))
        if pieces is None:
            continue
        bars = [
            np.full(np.shape(a), 0.3) if np.ndim(a) else 0.3 for n, a in zip(f.names, args) if n in made.bars
        ]
        seeds = [1.0] * len(made.program.results) if what == "adjoint" else []
        given, again = ([np.copy(a) if np.ndim(a) else a for a in (*args, *bars)] for _ in range(2))
        for a, b in zip(_listed(made.plain(*given, *seeds)), _listed(pieces(*again, *seeds))):
            assert a == pytest.approx(b, rel=1e-12)
        for a, b in zip(given, again):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert found == expected


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [] if x is None else [x]


@pytest.mark.slow
def test_the_same_bits_for_any_number_of_threads() -> None:
    function, _, _ = CASES["layer"]
    args = DRAW.normal(size=(4000, 8)), DRAW.normal(size=(8, 16)), DRAW.normal(size=16)
    f = differentiable(function)
    assert "for i in prange(" in f.adjoint_source(*args)
    before = nbgrad.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            nbgrad.set_num_threads(threads)
            value, grads = f.value_and_grad(*args)
            found.append([np.float64(value).tobytes(), *(g.tobytes() for g in grads)])
    finally:
        nbgrad.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    _, moved = f.jvp(args, [np.ones_like(a) for a in args])
    assert moved == pytest.approx(sum(np.sum(g) for g in grads), rel=1e-9)


@pytest.mark.parametrize("at", [(), (0,), (3,), (17, 18, 49)])
def test_extremes_pass_over_nans(at: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python's do, but for one that comes first."""
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)
    x = DRAW.normal(size=50)
    x[[*at]] = np.nan
    f = differentiable(both_ends)
    made = f._make("primal", f._kinds((x,)), None)
    pieces = cut(made.name, made.text, made.helpers)
    assert turns(pieces) == 2
    assert pieces is not None
    np.testing.assert_array_equal(pieces(x), both_ends(x))


def both_ends(x):
    top, bottom = x[0], x[0]
    for i in range(1, len(x)):
        top = max(top, x[i])
        bottom = min(bottom, x[i])
    s = 0
    for i in prange(len(x)):
        s += 1 if x[i] > 0.0 else 0
    return top, bottom, s


def waves(x):
    s = 0.0
    for i in prange(len(x)):
        s += math.exp(x[i])
    return s


def test_parts_read_without_a_look_at_the_sign() -> None:
    """A part begins in the middle, so that Numba does not see that the counter is no index from an array's end."""
    f = differentiable(waves)
    text = f.adjoint_source(np.ones(3))
    assert "prange" in text and {"x[u(i)]", "xb[u(i)]", "saved_t[u(i)]"} <= set(
        re.findall(r"\w+\[.*?\]", text)
    )


def checked(x):
    s = 0.0
    for i in prange(len(x)):
        if x[i] < 0.0:
            raise ValueError("below zero")
        s += math.sqrt(x[i])
    return s


@pytest.mark.slow
def test_what_a_part_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The crew's threads too: it is raised where the call was made, and the next call is right."""
    monkeypatch.setattr(parallel, "_SHORT", 0.0)
    f = differentiable(checked)
    x = np.linspace(1.0, 2.0, 400)
    before = nbgrad.get_num_threads()
    try:
        nbgrad.set_num_threads(3)
        for place in (0, 150, 399):
            wrong = x.copy()
            wrong[place] = -1.0
            for _ in range(20):
                with pytest.raises(ValueError, match="below zero"):
                    f.grad(wrong)
                assert f.grad(x)[0] == pytest.approx(0.5 / np.sqrt(x))
    finally:
        nbgrad.set_num_threads(before)


def flagged(x, flag):
    s = 0.0
    for i in prange(len(x)):
        if flag:
            s += math.exp(x[i])
        else:
            s += x[i]
    return s


@pytest.mark.slow
@pytest.mark.parametrize("flag", [True, np.bool_(True), np.int64(1)], ids=lambda f: type(f).__name__)
def test_numbers_of_all_kinds_reach_the_parts(flag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_SHORT", 0.0)
    monkeypatch.setattr(parallel, "get_num_threads", lambda: 2)
    x = np.linspace(0.0, 1.0, 50)
    assert differentiable(flagged).grad(x, flag)[0] == pytest.approx(np.exp(x))
