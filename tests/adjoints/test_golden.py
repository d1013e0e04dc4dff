"""The generated text, and that it is right."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from nbgrad import differentiable
from tests.adjoints.golden import CASES, GOLDEN, bumps, texts


def test_texts() -> None:
    """`python -m tests.adjoints.golden` writes the file anew."""
    assert texts() == GOLDEN.read_text()


def copied(args: tuple[Any, ...]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


@pytest.mark.slow
@pytest.mark.parametrize("function, args", CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_against_differences(function: Any, args: tuple[Any, ...]) -> None:
    f = differentiable(function)
    draw = np.random.default_rng(0)
    moves = [draw.normal(size=np.shape(a)) if isinstance(a, float | np.ndarray) else None for a in args]

    def at(e: float) -> list[Any]:
        given = [a if d is None else a + e * d for a, d in zip(args, moves)]
        given = copied(tuple(given))
        found = function(*given)
        results = list(found) if isinstance(found, tuple) else [] if found is None else [found]
        return [*results, *(g for g in given if isinstance(g, np.ndarray))]

    e = 1e-6
    differences = [(np.asarray(p) - np.asarray(q)) / (2 * e) for p, q in zip(at(e), at(-e))]
    made = f._make("adjoint", f._kinds(args), None)
    n = len(made.program.results)
    seeds = [draw.normal(size=np.shape(d)) for d in differences[:n]]
    arrays = [name for name in made.program.params if name in made.program.arrays]
    outs = [name for name in made.written if name in made.bars]
    of_outs = {name: draw.normal(size=4) for name in outs}
    _, grads = f.vjp(*copied(args), seeds=[*map(_number, seeds), *of_outs.values()])
    product = sum(np.sum(g * d) for g, d in zip(grads, [d for d in moves if d is not None]))
    expected = sum(np.sum(s * d) for s, d in zip(seeds, differences))
    expected += sum(np.sum(of_outs[name] * d) for name, d in zip(arrays, differences[n:]) if name in outs)
    assert product == pytest.approx(expected, rel=1e-6, abs=1e-8)


def _number(x: Any) -> Any:
    return x if np.ndim(x) else float(x)


def test_the_page_shows_what_is_written() -> None:
    page = (GOLDEN.parent.parent.parent / "docs" / "differentiating.md").read_text()
    assert f"```python\n{differentiable(bumps).adjoint_source(*CASES[1][1]).strip()}\n```" in page


class Line(NamedTuple):
    slope: float
    weights: np.ndarray


def on_line(p, x):
    return p.slope * np.sum(p.weights * x)


def solved(m, b):
    x = np.linalg.solve(m, b)
    return np.sum(x * x) + np.linalg.det(m)


def gamma_and_error(a):
    return math.lgamma(a) * math.erf(a)


@pytest.mark.slow
def test_tuples_systems_and_special_functions() -> None:
    value, grads = differentiable(on_line).value_and_grad(Line(2.0, np.ones(3)), np.arange(3.0))
    assert value == 6 and grads[0] == 3
    assert [g.tolist() for g in grads[1:]] == [[0, 2, 4], [2, 2, 2]]
    m, b = np.eye(3) * 2 + 0.1, np.arange(3.0)
    x, inverse = np.linalg.solve(m, b), np.linalg.inv(m)
    by_m, by_b = differentiable(solved).grad(m, b)
    assert np.allclose(by_b, 2 * inverse.T @ x)
    assert np.allclose(by_m, -np.outer(2 * inverse.T @ x, x) + np.linalg.det(m) * inverse.T)
    assert differentiable(gamma_and_error).grad(1.7, wrt="a") == pytest.approx(0.19915920906792026, rel=1e-12)
