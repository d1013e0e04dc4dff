"""Tensors that are trained.

Promises modules that a `Parameter` can be told from any other tensor by its class, and that whatever is computed from
one is a plain Tensor.
"""

from __future__ import annotations

from typing import Any

from nbgrad import _printing
from nbgrad._creation import as_subclass, empty
from nbgrad._tensor import Tensor, set_requires_grad


class Parameter(Tensor):
    """A leaf that shares the memory of `data` and requires grad unless told otherwise."""

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        t: Any = as_subclass(empty(0) if data is None else data.detach(), cls)
        if requires_grad:
            set_requires_grad(
                t, True, "Only Tensors of floating point and complex dtype can require gradients"
            )
        return t

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + _printing.tensor_repr(self)

    __str__ = __repr__


__all__ = ["Parameter"]
