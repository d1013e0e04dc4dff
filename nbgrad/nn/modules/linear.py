"""Affine maps."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import functional as F
from nbgrad.nn import init
from nbgrad.nn._made import empty
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter


class Identity(Module):
    """Gives what it is given; takes any arguments, so that it can stand in for any module.

    >>> nn.Identity(7, bias=False)(torch.tensor([1.0]))
    tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """`x @ weight.T + bias`: [..., in_features] becomes [..., out_features]. Both begin uniform between -1/sqrt(in_features) and
    1/sqrt(in_features).

    >>> layer = nn.Linear(3, 2)
    >>> layer(torch.ones(4, 3)).shape, layer.weight.shape
    (torch.Size([4, 2]), torch.Size([2, 3]))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, as at the beginning."""
        # With this `a`, uniform between -1/sqrt(in_features) and 1/sqrt(in_features).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A linear map, under the name that PyTorch prints for the last one of attention."""


class Bilinear(Module):
    """`x1 @ weight[k] @ x2 + bias[k]` for each output feature k: [..., in1_features] and [..., in2_features] give [...,
    out_features].

    >>> nn.Bilinear(2, 3, 5)(torch.ones(4, 2), torch.ones(4, 3)).shape
    torch.Size([4, 5])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, as at the beginning."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


__all__ = ["Bilinear", "Identity", "Linear"]
