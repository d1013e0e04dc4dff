"""Parametrisations that are in common use."""

from __future__ import annotations

from typing import Any

from nbgrad.nn.modules.module import Module
from nbgrad.nn.utils.parametrize import register_parametrization
from nbgrad.ops.linear.norms import vector_norm


class _WeightNorm(Module):
    """A weight as its length times its direction, for each index of `dim` apart."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def _length(self, weight: Any) -> Any:
        others = None if self.dim == -1 else tuple(d for d in range(weight.ndim) if d != self.dim)
        return vector_norm(weight, 2, others, self.dim != -1)

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_v * (weight_g / self._length(weight_v))

    def right_inverse(self, weight: Any) -> Any:
        return self._length(weight), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the lengths and the directions of the rows of a weight apart: `weight = g * v / |v|`, with one length g for each index
    of `dim`, or with None one for all.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([3, 1])
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


__all__ = ["weight_norm"]
