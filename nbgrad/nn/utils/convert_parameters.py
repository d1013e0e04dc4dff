"""Parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

from nbgrad.core.tensor import Tensor
from nbgrad.ops.views.join import cat


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All of them flattened, one after another."""
    return cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let each parameter be its part of the vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    at = 0
    for param in parameters:
        n = param.numel()
        param.data = vec[at : at + n].view_as(param).data
        at += n


__all__ = ["parameters_to_vector", "vector_to_parameters"]
