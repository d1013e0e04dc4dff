"""Tensors that are trained.

Promises modules that a `Parameter` can be told from any other tensor by its class, and that whatever is computed from
one is a plain Tensor.
"""

from __future__ import annotations

from typing import Any, Self

from nbgrad.core.signatures import kind_name
from nbgrad.core.tensor import Tensor, set_requires_grad
from nbgrad.exchange import classes
from nbgrad.ops.host import printing
from nbgrad.ops.make.constructors import as_subclass
from nbgrad.ops.make.filled import empty


class Parameter(Tensor):
    """A leaf that shares the memory of `data` and requires grad unless told otherwise. Assigned to a module, it is one of its
    `parameters()`.

    >>> nn.Parameter(torch.tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        t: Any = as_subclass(empty(0) if data is None else data.detach(), cls)
        if not isinstance(requires_grad, bool):
            kind = kind_name(requires_grad)  # type: ignore[unreachable]
            raise TypeError(
                f"_make_subclass(): argument 'require_grad' (position 3) must be bool, not {kind}"
            )
        if requires_grad:
            set_requires_grad(
                t, True, "Only Tensors of floating point and complex dtype can require gradients"
            )
        return t

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Its values and whether it requires grad, as PyTorch copies; neither gradient nor attributes."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + printing.tensor_repr(self)

    __str__ = __repr__


classes.known["parameter"] = Parameter


class _BufferType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        """A buffer is a plain tensor with a mark, as in PyTorch."""
        return isinstance(instance, Tensor) and instance.__dict__.get("_is_buffer", False)


class Buffer(metaclass=_BufferType):
    """A tensor that a module is to keep without training it: assigned to one, it is registered, and with `persistent` (the default)
    state dicts hold it.

    >>> module = nn.Module()
    >>> module.mean = nn.Buffer(torch.zeros(2))
    >>> dict(module.named_buffers())
    {'mean': tensor([0., 0.])}
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        t: Any = empty(0) if data is None else data.detach().requires_grad_(data.requires_grad)
        t.persistent, t._is_buffer = persistent, True
        return t


__all__ = ["Buffer", "Parameter"]
