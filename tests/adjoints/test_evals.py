"""GradBench's programs: the adjoint against the tangent and differences, under each policy; `asv_benchmarks/gradbench/` measures them."""

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
