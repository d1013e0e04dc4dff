"""One op on 4 elements: what a call costs beside its arithmetic, alone and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .common import LIBS, library, skip

OPS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "unary": lambda T, x, y, column: T.exp(x),
    "binary": lambda T, x, y, column: x * y,
    "number": lambda T, x, y, column: x * 2.5,
    "broadcast": lambda T, x, y, column: x + column,
    "in_place": lambda T, x, y, column: y.add_(y),
    "view": lambda T, x, y, column: x[1:3],
    "reshape": lambda T, x, y, column: x.reshape(2, 2),
    "sum": lambda T, x, y, column: x.sum(),
    "mm": lambda T, x, y, column: column @ x.reshape(1, 4),
}


class Overridden:
    """The same of plain tensors while there is an instance of a class that overrides functions, and of the instance."""

    params = (LIBS, ("binary", "sum", "reshape"), ("plain", "instance"))
    param_names = ("lib", "op", "of")

    def setup(self, lib: str, op: str, of: str) -> None:
        self.T = T = library(lib)
        self.x = T.tensor([0.1, 0.2, 0.3, 0.4])
        self.instance = self.x.as_subclass(type("Mine", (T.Tensor,), {}))
        if of == "instance":
            self.x = self.instance
        self.run = OPS[op]
        self.run(self.T, self.x, self.x, self.x)

    def time_op(self, lib: str, op: str, of: str) -> None:
        self.run(self.T, self.x, self.x, self.x)


class Dispatch:
    params = (LIBS, tuple(OPS), ("alone", "recorded"))
    param_names = ("lib", "op", "mode")

    def setup(self, lib: str, op: str, mode: str) -> None:
        if op == "in_place" and mode == "recorded":
            skip("a write to itself would grow a graph without end")
        self.T = T = library(lib)
        recorded = mode == "recorded"
        self.x = T.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=recorded)
        self.y = T.tensor([0.0, 0.0, 0.0, 0.0], requires_grad=recorded)
        self.column = T.tensor([[1.0], [2.0]], requires_grad=recorded)
        self.run = OPS[op]
        self.run(self.T, self.x, self.y, self.column)

    def time_op(self, lib: str, op: str, mode: str) -> None:
        self.run(self.T, self.x, self.y, self.column)
