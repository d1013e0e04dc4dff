"""Patches as columns, as modules."""

from __future__ import annotations

from collections.abc import Sequence

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional as F
from nbgrad.nn.modules.module import Module

Sizes = int | Sequence[int]


class Unfold(Module):
    """What a window shows at each of its places, as columns: [n, c, height, width] becomes [n, c * kh * kw, places].

    >>> nn.Unfold((2, 3))(torch.ones(1, 4, 5, 5)).shape
    torch.Size([1, 24, 12])
    """

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """The image of `output_size` to which columns add up, each where `Unfold` would have taken it.

    >>> nn.Fold((4, 5), (2, 2))(torch.ones(1, 12, 12)).shape
    torch.Size([1, 3, 4, 5])
    """

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


__all__ = ["Fold", "Unfold"]
