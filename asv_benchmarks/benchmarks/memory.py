"""What the tape holds and gives back.

`track_` figures are counted by tracemalloc, to which NumPy reports its arrays: exact, but torch's memory is not seen there. `peakmem_`
figures are the most that the whole process held, libraries included, of nbgrad and torch alike.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

from .common import PerLibrary, library
from .training import STEPS

OPS: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,  # keeps nothing for backward
    "sin": lambda x: x.sin(),  # its input
    "tanh": lambda x: x.tanh(),  # its output
    "mul": lambda x: x * x,
    "number": lambda x: x * 1.5,
    "view": lambda x: x.view(2, 2).view(4),
}
MB = 1_000_000


def held(run: Callable[[], Any]) -> tuple[int, int, Any]:
    """Bytes that are held after `run`, and the most while it ran, both above what was held before; and what it returns."""
    gc.collect()
    tracemalloc.start()
    try:
        result = run()
        gc.collect()
        return (*tracemalloc.get_traced_memory(), result)
    finally:
        tracemalloc.stop()


class Tape:
    """Bytes for each op recorded on four numbers, its output among them; and what is left of them after backward."""

    params = (tuple(OPS),)
    param_names = ("op",)
    unit = "bytes"

    def setup(self, op: str) -> None:
        self.x = library("nbgrad").tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)
        self.op = OPS[op]
        self.chain(2).sum().backward()

    def chain(self, n: int) -> Any:
        y = self.x
        for _ in range(n):
            y = self.op(y)
        return y

    def track_recorded_op(self, op: str) -> float:
        return held(lambda: self.chain(1000))[0] / 1000

    def track_left_by_backward(self, op: str) -> float:
        return held(lambda: self.chain(1000).sum().backward())[0] / 1000


class Million:
    """A chain of 20 tanh of a million float32, which keeps 20 outputs of 4 MB: backward frees them as it goes."""

    unit = "MB"

    def setup(self) -> None:
        self.x = library("nbgrad").randn(MB).requires_grad_()
        self.ones = library("nbgrad").ones(MB)
        self.chain(2).backward(self.ones)
        self.x.grad = None

    def chain(self, n: int) -> Any:
        y = self.x
        for _ in range(n):
            y = y.tanh()
        return y

    def track_recorded(self) -> float:
        return held(lambda: self.chain(20))[0] / MB

    def track_peak_of_backward(self) -> float:
        return held(lambda: self.chain(20).backward(self.ones))[1] / MB

    def track_left_by_backward(self) -> float:
        """The gradient of x alone."""
        return held(lambda: self.chain(20).backward(self.ones))[0] / MB


class Step:
    """The most that a training step holds at once beside parameters and optimiser; mlp_large's outputs and gradients are 5 MB."""

    params = (("mlp_large", "physics_informed"),)
    param_names = ("program",)
    unit = "MB"

    def setup(self, program: str) -> None:
        self.step = STEPS[program](library("nbgrad"))
        self.step()
        self.step()

    def track_peak(self, program: str) -> float:
        return held(self.step)[1] / MB


class Process(PerLibrary):
    """HIPS/autograd's: 100 sums of 1000 x 1000, recorded and walked back; and training steps."""

    def prepare(self) -> None:
        self.x = self.T.ones(1000, 1000, requires_grad=True)
        self.step = STEPS["mlp_large"](self.T)

    def peakmem_graph_of_sums(self, lib: str) -> None:
        y = self.x
        for _ in range(100):
            y = y + self.x
        y.sum().backward()

    def peakmem_training(self, lib: str) -> None:
        for _ in range(10):
            self.step()
