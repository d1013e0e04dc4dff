"""Gradients of plain functions (`differentiable`): GradBench's programs beside their value, and what writing and compiling them takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from .common import LIBS, library

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

NAMES = ["gmm", "ba", "lstm", "kmeans", "det", "minors", "llsq", "lse", "ode", "ht_cost", "charged"]
SIZES = ["small", "middle"]


class Loops:
    """`value` is the user's function under Numba, `gradient` value and gradient."""

    params = (NAMES, SIZES, ["value", "gradient"])
    param_names = ("program", "size", "what")

    def setup(self, name: str, size: str, what: str) -> None:
        from asv_benchmarks.gradbench.loops import EVALS, small
        from nbgrad import differentiable

        e = next(e for e in EVALS if e.function.__name__ == name)
        args = small(e) if size == "small" else e.args(np.random.default_rng(0), e.size)
        f = differentiable(e.function)
        made = f._make("adjoint", f._kinds(args), e.wrt)
        bars = [np.zeros_like(a) for n, a in zip(f.names, args) if n in made.bars]
        self.call: Any = (lambda: e.function(*args)) if what == "value" else (lambda: made(*args, *bars, 1.0))
        self.call()

    def time_call(self, name: str, size: str, what: str) -> None:
        self.call()


class Nested:
    """Descents on what has derivatives inside."""

    params = (["particle", "saddle", "hello"], ["ff", "fr", "rf", "rr"])
    param_names = ("program", "mode")

    def setup(self, name: str, mode: str) -> None:
        from asv_benchmarks.gradbench.programs import LOOPS

        given: Any = {"particle": {"w": 0.0}, "saddle": {"start": [8.0, 5.0]}, "hello": 3.0}[name]
        if name == "hello" and mode != "rr":
            raise NotImplementedError("hello has one gradient")
        asked = LOOPS[name]["double" if name == "hello" else mode]
        args = asked.prepare(given)
        self.call: Any = lambda: asked.run(*args)
        self.call()

    def time_call(self, name: str, mode: str) -> None:
        self.call()


class Tensors:
    """The gradient of the same programs on a tape, and of PyTorch's where it is installed."""

    params = (["gmm", "ba", "lstm", "kmeans", "det", "llsq", "lse", "ode"], SIZES, LIBS)
    param_names = ("program", "size", "lib")
    timeout = 120

    def setup(self, name: str, size: str, lib: str) -> None:
        from asv_benchmarks.gradbench.compare import on_a_tape

        self.call: Any = on_a_tape(library(lib), name, size)
        self.call()

    def time_gradient(self, name: str, size: str, lib: str) -> None:
        self.call()


class Writing:
    """The text of an adjoint, without compiling it."""

    params = NAMES
    param_names = ("program",)

    def setup(self, name: str) -> None:
        from asv_benchmarks.gradbench.loops import EVALS, small

        self.eval = next(e for e in EVALS if e.function.__name__ == name)
        self.args = small(self.eval)

    def time_source(self, name: str) -> None:
        from nbgrad import differentiable

        differentiable(self.eval.function).adjoint_source(*self.args, wrt=self.eval.wrt)
