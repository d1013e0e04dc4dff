"""GradBench's programs: the adjoint against the tangent and differences, under each policy; `asv_benchmarks/gradbench/` measures them."""

import math
import re
from typing import Any

import numpy as np
import pytest

from asv_benchmarks.gradbench.loops import EVALS, Eval, small
from nbgrad import differentiable
from nbgrad.adjoints.analyse import POLICIES

ONCE = list({e.function.__name__: e for e in EVALS}.values())


def copied(args: Any) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("e", ONCE, ids=lambda e: e.function.__name__)
def test_gradient(e: Eval, policy: str) -> None:
    """As plain Python, so that nothing is compiled."""
    args = small(e)
    f = differentiable(e.function, policy=policy)
    wrt = e.wrt or tuple(n for n, a in zip(f.names, args) if isinstance(a, float | np.ndarray))
    value, tangent, adjoint = (
        f._make(what, f._kinds(args), wrt) for what in ("primal", "tangent", "adjoint")
    )
    draw = np.random.default_rng(1)
    moves = {n: draw.normal(size=np.shape(a)) for n, a in zip(f.names, args) if n in wrt}

    def at(step: float) -> Any:
        return value.plain(*[a + step * moves[n] if n in moves else a for n, a in zip(f.names, copied(args))])

    of_tangent, moved = tangent.plain(*copied(args), *moves.values())
    bars = {n: np.zeros_like(a) for n, a in zip(f.names, args) if n in adjoint.bars}
    found = adjoint.plain(*copied(args), *bars.values(), 1.0)
    found = found if isinstance(found, tuple) else (found,)
    scalars = iter(found[1:])
    product = sum(np.sum((bars[n] if n in bars else next(scalars)) * moves[n]) for n in wrt)
    assert found[0] == pytest.approx(of_tangent, rel=1e-12) == pytest.approx(at(0.0), rel=1e-12)
    assert product == pytest.approx(moved, rel=1e-10)
    assert moved == pytest.approx((at(1e-6) - at(-1e-6)) / 2e-6, rel=1e-5)


def halves(x, steps, parts):
    s = 0.0
    for _ in range(steps):
        for i in range(len(x) // 2):
            t = math.exp(x[i] * s)
            s += t * x[i + 1]
        for i in range(len(x) // parts):
            s += math.sin(s * x[i])
    return s


def test_room_for_all_turns_is_made_before_them() -> None:
    """Half as many as an array has are known before; divided by what may be zero, where they are counted."""
    x = np.array([0.3, -0.2, 0.5, 0.1])
    f = differentiable(halves, policy="store")
    made = f._make("adjoint", f._kinds((x, 2, 2)), ("x",))
    grown = {line.split()[0] for line in made.text.splitlines() if "= reserve(" in line}
    saved = {line.split()[0] for line in made.text.splitlines() if line.startswith("    saved_")}
    assert (len(saved - grown), len(grown)) == (2, 1)
    for given in ((x, 2, 2), (x, 0, 0)):
        bar = np.zeros(4)
        value, moved = f.jvp(given, (np.ones(4), None, None))
        assert made.plain(*given, bar, 1.0) == pytest.approx(value, rel=1e-14)
        assert bar.sum() == pytest.approx(moved, rel=1e-12)


def powers(x, size):
    """Blocks, whose length a turn knows."""
    s = 0.0
    for b in range((len(x) + size - 1) // size):
        low = b * size
        many = min(size, len(x) - low)
        y = np.empty((3, many))
        for k in range(3):
            for i in range(many):
                y[k, i] = math.exp(x[low + i] * (k + 1))
        for k in range(3):
            for i in range(many):
                s += math.sin(y[k, i] * y[0, i])
    return s


def test_room_is_made_before_the_first_of_the_loops_that_save() -> None:
    x = np.linspace(-0.5, 0.5, 7)
    f = differentiable(powers)
    text = f.adjoint_source(x, 3)
    assert "reserve" not in text and re.search(r"\n {8}saved_\w+ = np.empty\(\(3, max\(many, 0\)\)\)", text)
    assert f.memory(x, 3).saved == 8 * 3 * 3
    (grad,), moves = f.grad(x, 3), [f.jvp((x, 3), (e, None))[1] for e in np.eye(7)]
    np.testing.assert_allclose(grad, moves, rtol=1e-11)
