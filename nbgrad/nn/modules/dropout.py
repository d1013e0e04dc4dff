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
    """In training each element is 0 with probability `p`, and the others are divided by `1 - p`, so that the mean stays; in
    evaluation the input itself.

    >>> nn.Dropout()(torch.ones(6))
    tensor([0., 0., 2., 0., 0., 0.])
    """

    function = "dropout"


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels of [batch, channels, length], or of [channels, length].

    >>> nn.Dropout1d()(torch.ones(1, 3, 2))
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.]]])
    """

    function = "dropout1d"


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels of [batch, channels, height, width].

    >>> nn.Dropout2d()(torch.ones(1, 3, 1, 2)).squeeze()
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """

    function = "dropout2d"


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels of [batch, channels, depth, height, width], or without the batch.

    >>> nn.Dropout3d()(torch.ones(1, 3, 1, 1, 2)).squeeze()
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """

    function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """In training each element goes with probability `p` to where `SELU` tends for small numbers; all are then scaled and shifted so
    that mean 0 and variance 1 stay.

    >>> nn.AlphaDropout()(torch.ones(4))
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """

    function = "alpha_dropout"

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels: all that stands at one place of the first two dimensions goes together.

    >>> nn.FeatureAlphaDropout()(torch.ones(1, 3, 2))
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656]]])
    """

    function = "feature_alpha_dropout"

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)


__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]
