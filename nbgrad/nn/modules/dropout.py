"""What is switched off at random while training."""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional
from nbgrad.nn.modules.module import Module

F: Any = functional


class _DropoutNd(Module):
    """`function` is its name in `nn.functional`."""

    function: str

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.function)(input, self.p, self.training, self.inplace)


class Dropout(_DropoutNd):
    """Each element is 0 with probability `p`, the others are scaled up, so that the mean stays."""

    function = "dropout"


class Dropout1d(_DropoutNd):
    """The same of whole channels of [batch, channels, length]."""

    function = "dropout1d"


class Dropout2d(_DropoutNd):
    function = "dropout2d"


class Dropout3d(_DropoutNd):
    function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """What is dropped goes to where SELU tends; mean and variance stay."""

    function = "alpha_dropout"

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    function = "feature_alpha_dropout"

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)


__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]
