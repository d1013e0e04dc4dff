"""Normalisation of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import functional as F
from nbgrad.nn import init
from nbgrad.nn._made import empty
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter
from nbgrad.ops.views.join import cat


def _shape(normalized_shape: Any) -> tuple[Any, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, (int, np.integer)) else tuple(normalized_shape)


class LayerNorm(Module):
    """`(x - mean) / sqrt(var + eps) * weight + bias`, mean and variance being over the last dimensions, of sizes `normalized_shape`,
    which weight and bias have too. The shape stays.

    >>> nn.LayerNorm(3)(torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 6.0]])).detach()
    tensor([[-1.2247,  0.0000,  1.2247],
            [-0.7071, -0.7071,  1.4142]])
    """

    weight: Parameter
    bias: Parameter

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = (
            _shape(normalized_shape),
            eps,
            elementwise_affine,
        )
        for name, there in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            made = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if there else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights of 1, biases of 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """`x / sqrt(mean(x**2) + eps) * weight`, the mean being over the last dimensions, of sizes `normalized_shape`, which the weight
    has too. The shape stays.

    >>> nn.RMSNorm(2)(torch.tensor([3.0, 4.0])).detach()
    tensor([0.8485, 1.1314])
    """

    weight: Parameter

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = (
            _shape(normalized_shape),
            eps,
            elementwise_affine,
        )
        made = (
            Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
            if elementwise_affine
            else None
        )
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights of 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Mean 0 and variance 1 for each example over each of `num_groups` groups of its channels (dimension 1) and all that they hold;
    then a weight and a bias per channel. The shape stays.

    >>> nn.GroupNorm(2, 4)(torch.tensor([[1.0, 3.0, 10.0, 30.0]])).detach()
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    weight: Parameter
    bias: Parameter

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, there in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(empty(num_channels, device=device, dtype=dtype)) if there else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights of 1, biases of 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divides each element by a power of the mean square of `size` channels around its own: `F.local_response_norm`.

    >>> nn.LocalResponseNorm(2, alpha=1.0)(torch.ones(1, 2, 1))
    tensor([[[0.7378],
             [0.5946]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Divides each element of images by a power of `k` and the mean square of `size` channels around its own, as Caffe's layer did. The
    mean is over `size` also at the edges, where there are fewer. The gradient is that of the result, which PyTorch's is not.

    >>> nn.CrossMapLRN2d(3, alpha=3.0)(torch.ones(1, 2, 1, 1)).flatten()
    tensor([0.4387, 0.4387])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        squares, around = input * input, (self.size - 1) // 2
        padded: Any = F.pad(squares, (0, 0, 0, 0, around, around))
        sums = padded.unfold(1, 2 * around + 1, 1).sum(-1)
        if (
            input.shape[1] > around + 1
        ):  # where the first channel leaves the window, PyTorch goes on counting it
            sums = cat([sums[:, : around + 1], sums[:, around + 1 :] + squares[:, :1]], 1)
        got: Tensor = input * (sums * (self.alpha / self.size) + self.k) ** -self.beta
        return got

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]
