"""Channels traded for places, as modules."""

from __future__ import annotations

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional as F
from nbgrad.nn.modules.module import Module


class PixelShuffle(Module):
    """[..., c * r^2, h, w] as [..., c, h * r, w * r], r being `upscale_factor`.

    >>> nn.PixelShuffle(2)(torch.arange(4.0).reshape(4, 1, 1))
    tensor([[[0., 1.],
             [2., 3.]]])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """[..., c, h * r, w * r] as [..., c * r^2, h, w], r being `downscale_factor`.

    >>> nn.PixelUnshuffle(2)(torch.ones(1, 2, 6)).shape
    torch.Size([4, 1, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


__all__ = ["PixelShuffle", "PixelUnshuffle"]
