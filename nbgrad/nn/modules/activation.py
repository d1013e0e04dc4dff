"""Activations as modules: the functions of `nn.functional`, with what else they are given kept."""

from __future__ import annotations

from typing import Any

from nbgrad._tensor import Tensor
from nbgrad.nn import functional
from nbgrad.nn.modules.module import Module

F: Any = functional


class _Activation(Module):
    """`shown` are the settings that `repr` names; `inplace` is named where it is set."""

    shown: tuple[str, ...] = ()
    inplace = False

    def extra_repr(self) -> str:
        said = [f"{name}={getattr(self, name)!r}" for name in self.shown]
        return ", ".join([*said, *(["inplace=True"] if self.inplace else [])])


class Tanh(_Activation):
    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Sigmoid(_Activation):
    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class ReLU(_Activation):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SiLU(_Activation):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Softplus(_Activation):
    shown = (
        "beta",
        "threshold",
    )

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class GELU(_Activation):
    shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class _AlongDim(_Activation):
    shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_AlongDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(_Activation):
    """Over the channels of [batch, channels, height, width], or without a batch."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


__all__ = [
    "GELU",
    "LogSoftmax",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Tanh",
]
