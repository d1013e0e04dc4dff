"""Images of another size, as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional as F
from nbgrad.nn.modules.module import Module

Size = int | Sequence[int]
Factor = float | tuple[float, ...]


class Upsample(Module):
    """Its input in the size `size`, or `scale_factor` times as large: `F.interpolate`, whose other settings it takes.

    >>> nn.Upsample(scale_factor=2)(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[1., 1., 3., 3.]]])
    """

    def __init__(
        self,
        size: Size | None = None,
        scale_factor: Factor | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: Any
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple([float(factor) for factor in scale_factor])
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)
        return F.interpolate(input, *settings)

    def extra_repr(self) -> str:
        given = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{given}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Planes in another size, of the elements that lie nearest.

    >>> nn.UpsamplingNearest2d((1, 4))(torch.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[1., 1., 3., 3.]]]])
    """

    def __init__(self, size: Size | None = None, scale_factor: Factor | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Planes in another size, linear between their elements, of which the corners stay where they are.

    >>> nn.UpsamplingBilinear2d((1, 4))(torch.tensor([[[[1.0, 4.0]]]]))
    tensor([[[[1., 2., 3., 4.]]]])
    """

    def __init__(self, size: Size | None = None, scale_factor: Factor | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]
