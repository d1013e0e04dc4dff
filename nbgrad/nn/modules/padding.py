"""Padding as modules: by the kind of padding, and by how many dimensions are padded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional as F
from nbgrad.nn.modules.module import Module, with_own_init


class _Pad(Module):
    """`padding` is one length for all sides, or two per dimension, the last dimension first."""

    dims = 1
    mode = "constant"
    value: float | None

    def __init_subclass__(cls) -> None:
        with_own_init(cls)

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, Iterable) else (padding,) * (2 * self.dims)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, self.mode, self.value)

    def _check_input_dim(self, input: Tensor) -> None:
        if self.mode == "circular" and input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(
                f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.dim()}D input)"
            )

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _Constant(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _Zero(_Pad):
    value = 0.0


class _Reflection(_Pad):
    value = None
    mode = "reflect"


class _Replication(_Pad):
    value = None
    mode = "replicate"


class _Circular(_Pad):
    value = None
    mode = "circular"


class ConstantPad1d(_Constant): ...


class ConstantPad2d(_Constant):
    dims = 2


class ConstantPad3d(_Constant):
    dims = 3


class ZeroPad1d(_Zero): ...


class ZeroPad2d(_Zero):
    dims = 2


class ZeroPad3d(_Zero):
    dims = 3


class ReflectionPad1d(_Reflection): ...


class ReflectionPad2d(_Reflection):
    dims = 2


class ReflectionPad3d(_Reflection):
    dims = 3


class ReplicationPad1d(_Replication): ...


class ReplicationPad2d(_Replication):
    dims = 2


class ReplicationPad3d(_Replication):
    dims = 3


class CircularPad1d(_Circular): ...


class CircularPad2d(_Circular):
    dims = 2


class CircularPad3d(_Circular):
    dims = 3


__all__ = [
    f"{kind}Pad{k}d"
    for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")
    for k in (1, 2, 3)
]
