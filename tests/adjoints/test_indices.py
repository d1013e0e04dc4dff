"""What arrays of indices, masks and new axes take of an array, and writes to it, beside NumPy."""

import linecache
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.adjoints import Refused
from nbgrad.adjoints.api import Made

READS = """
t[r, c]; t[r, :, c]; t[:, r, c]; t[r, c, r]; t[0, :, r]; t[r, :, 0]; t[0, r]; t[r, 0]; t[-1, r]; t[..., r]; t[r, ...]; t[r, ..., c]
t[:, r, ..., c]; t[r, 1:3]; t[1:, r][:, 1]; t[::-1, r, c]; t.T[r, :, r]; t[1][::-1][r, c]; t[[0, 1]]; t[[0, 1], [1, 2]]; t[pair]
t[r[:, None], c[None, :]]; t[:, np.array([[0, 1], [1, 2]]), 1]; t[t > 0.3]; t[t[:, :, 0] > 0]; t[:, t[0] > 0]; t[t[:, :, 0] > 0, 1]
t[..., t[0, 0] > 0]; t[np.nonzero(t > 0.5)]; t[np.where(t[0] > 0.5)[0][:2]]; t[r + 1 - 1, None]; t[:, None, r]; t[None, 0, r]
t[0, None, r]; t[:, r, None, c]; t[0, 1, 2, None]; t[..., None, 0]
"""
WRITES = """
t[r, c] = 2.0 * t[c[0] - 1, r]; t[r, c] += t[r, c] * t[r, c]; t[twice, twice] = t[twice, twice] * 3 + np.arange(4.0)[:, None]
t[twice, twice] += t[0, 0, 1] * np.arange(4.0)[:, None]; t[0, :, r] = t[0, :, r] ** 2; t[:, twice, 0] -= x * t[0, 0, 0]
t[t > 0] = 0.0; t[t > 0] *= t[t > 0]; t[t[:, :, 0] > 0] = t[0, 0]; t[t[:, :, 0] > 0, 1] *= 2.0; t[1][r, c] = x[0]
t[1:][twice - twice, twice] = x[:, None] * t[2, 2]; t[r[:, None], c[None, :]] += t[0, 0, 0]; t[[0, 1], [1, 1]] = x[0] * x[1]
"""
R = np.random.default_rng(2)
T, X, ROWS, COLS = R.normal(size=(3, 4, 5)), R.normal(size=4), np.array([0, 2, 1]), np.array([1, 0, -1])


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """Compiled with `--whole`."""
    if not whole:
        monkeypatch.setattr(Made, "compiled", property(lambda made: made.plain))


def each(texts: str) -> list[str]:
    return [s.strip() for s in texts.replace("\n", ";").split(";") if s.strip()]


def function(*lines: str) -> Any:
    text = "\n    ".join(["def f(t, x, r, c):", "pair, twice = (1, r), np.array([0, 2, 2, -3])", *lines])
    file = f"<{lines[-2]}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, file, "exec"), scope)
    return scope["f"]


def agrees(f: Any) -> None:
    of, t = differentiable(f), T.copy()
    expected = f(T.copy(), X, ROWS, COLS)
    seed, along, by = R.normal(size=expected.shape), R.normal(size=T.shape), R.normal(size=X.shape)
    found, (of_t, of_x) = of.vjp(t, X, ROWS, COLS, seeds=seed)
    assert found.shape == expected.shape and np.array_equal(found, expected)
    moved = of.jvp((t, X, ROWS, COLS), (along, by, None, None))[1]
    ends = [f(T + e * along, X + e * by, ROWS, COLS) for e in (1e-6, -1e-6)]
    assert np.allclose(moved, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)
    assert np.sum(of_t * along) + np.sum(of_x * by) == pytest.approx(np.sum(seed * moved), rel=1e-10)


@pytest.mark.parametrize("text", each(READS))
def test_read(text: str) -> None:
    agrees(function(f"y = {text}", "return y * y"))


@pytest.mark.parametrize("text", each(WRITES))
def test_written(text: str) -> None:
    """Of equal places the last counts, in `+=` too."""
    agrees(function("t = t.copy()", text, "return t * t"))


def test_masks_are_as_long_as_their_axes() -> None:
    def last(t, k):
        return t[..., k]

    def first(t, k):
        return t[k]

    for f, mask in ((last, np.ones(6, bool)), (first, np.ones(4, bool)), (first, np.ones((3, 5), bool))):
        with pytest.raises(ValueError, match="operands of different lengths"):
            differentiable(f)(T, mask)
    with pytest.raises(Refused, match="4 indices of an array of 3 dimensions"):
        differentiable(first)(T, np.ones((3, 4, 5, 1), bool))
