"""Whole training steps as `nbgrad.compile` does them, beside the same steps run as they are, and PyTorch's."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np

from .common import LIBS, library, some
from .steps import STEPS


class Compiled:
    params = (("compiled", *LIBS), some(STEPS))
    param_names = ("lib", "step")

    def setup(self, lib: str, step: str) -> None:
        T = library("nbgrad" if lib == "compiled" else lib)
        self.step = STEPS[step](T)
        if lib == "compiled":
            self.step = T.compile(self.step)
        for _ in range(6):
            self.step()

    def time_step(self, lib: str, step: str) -> None:
        self.step()

    def track_launches(self, lib: str, step: str) -> float:
        """How many kernels a step is."""
        graphs = self.step.explain().graphs if lib == "compiled" else ()  # type: ignore[attr-defined]
        return float(len(graphs[0].ops)) if graphs else float("nan")

    def track_memory(self, lib: str, step: str) -> float:
        """Bytes when a step is at its fullest, gradients of the step before among them, beside those of the step as it is."""
        if lib != "compiled" or not self.step._entries:  # type: ignore[attr-defined]
            return float("nan")
        plain = STEPS[step](library("nbgrad"))
        for _ in range(6):
            plain()
        kept = self.step._entries[0].ready.bytes  # type: ignore[attr-defined]
        return (fullest(self.step) + kept) / fullest(plain)


def fullest(step: Any) -> int:
    """Of what NumPy allocates, with what the step before has left."""
    tracemalloc.start()
    step()
    tracemalloc.reset_peak()
    step()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


class Cut:
    """A model in which values are read, so that it is cut into small parts, beside the same as it is."""

    params = ("compiled", *LIBS)
    param_names = ("lib",)

    def setup(self, lib: str) -> None:
        T = library("nbgrad" if lib == "compiled" else lib)
        nn = T.nn

        class Block(nn.Module):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(6, 6)

            def forward(self, x: Any) -> Any:
                h = self.linear(x)
                if h.abs().max() > 1.5:
                    h = h / h.abs().max()
                return x + h.relu()

        model = nn.Sequential(nn.Linear(6, 6), Block(), Block(), nn.Linear(6, 3))
        net = T.compile(model) if lib == "compiled" else model
        x = T.tensor(np.ones((8, 6), np.float32))

        def step() -> None:
            model.zero_grad()
            net(x).square().sum().backward()

        self.step = step
        for _ in range(30):
            step()

    def time_step(self, lib: str) -> None:
        self.step()
