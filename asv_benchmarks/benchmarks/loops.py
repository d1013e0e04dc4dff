"""Gradients of plain functions (`differentiable`): GradBench's programs beside their value, and what writing and compiling them takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

NAMES = ["gmm", "ba", "lstm", "kmeans", "det", "llsq", "lse", "ode", "particle"]


class Loops:
    """`value` is the user's function under Numba, `gradient` value and gradient."""

    params = (NAMES, ["value", "gradient"])
    param_names = ("program", "what")

    def setup(self, name: str, what: str) -> None:
        from nbgrad import differentiable
        from tests.adjoints.evals import EVALS

        e = next(e for e in EVALS if e.function.__name__ == name)
        args = e.args(np.random.default_rng(0), e.size)
        f = differentiable(e.function)
        made = f._make("adjoint", f._kinds(args), e.wrt)
        bars = [np.zeros_like(a) for n, a in zip(f.names, args) if n in made.bars]
        self.call: Any = (lambda: e.function(*args)) if what == "value" else (lambda: made(*args, *bars, 1.0))
        self.call()

    def time_call(self, name: str, what: str) -> None:
        self.call()


class Writing:
    """The text of an adjoint, without compiling it."""

    params = NAMES
    param_names = ("program",)

    def setup(self, name: str) -> None:
        from tests.adjoints.evals import EVALS, small

        self.eval = next(e for e in EVALS if e.function.__name__ == name)
        self.args = small(self.eval)

    def time_source(self, name: str) -> None:
        from nbgrad import differentiable

        differentiable(self.eval.function).adjoint_source(*self.args, wrt=self.eval.wrt)
