"""Channels in another order, as a module."""

from __future__ import annotations

from nbgrad.core.tensor import Tensor
from nbgrad.nn import functional as F
from nbgrad.nn.modules.module import Module


class ChannelShuffle(Module):
    """The channels (dimension 1) of each of `groups` groups, taken in turn. The shape stays.

    >>> nn.ChannelShuffle(2)(torch.arange(6.0).reshape(1, 6, 1)).flatten()
    tensor([0., 3., 1., 4., 2., 5.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


__all__ = ["ChannelShuffle"]
