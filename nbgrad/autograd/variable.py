"""PyTorch's old name of a tensor that has a gradient, and the handle on the engine that it carries."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from nbgrad.core.tensor import Tensor, set_requires_grad
from nbgrad.ops.make.filled import empty
from nbgrad.tape.modes import state

__all__ = ["Variable", "VariableMeta"]


class ImperativeEngine:
    """What may be asked of the backward that is running."""

    def queue_callback(self, callback: Callable[[], object]) -> None:
        """Call this when the backward from which it is asked has ended, after what was asked for before."""
        if state.task is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        state.task.call_at_end(callback)

    def is_checkpoint_valid(self) -> bool:
        """Whether this is a backward into all leaves, as a reentrant checkpoint needs it."""
        return state.task is None or not state.task.asked


class VariableMeta(type):
    """Lets every tensor be an instance of `Variable`."""

    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(tensor)` is a tensor over the same memory, without history; every tensor is an instance.

    >>> isinstance(torch.ones(2), torch.autograd.Variable)
    True
    """

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        if data is None:
            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        t = data.detach()
        refusal = "Only Tensors of floating point and complex dtype can require gradients"
        set_requires_grad(t, requires_grad, refusal)
        return t
