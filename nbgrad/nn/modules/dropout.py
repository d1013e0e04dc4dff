"""What is switched off at random while training."""

from __future__ import annotations

from nbgrad._tensor import Tensor
from nbgrad.nn import functional as F
from nbgrad.nn.modules.module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Each element is 0 with probability `p`, the others are scaled up, so that the mean stays."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


__all__ = ["Dropout"]
