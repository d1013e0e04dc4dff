"""Parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import typename
from nbgrad.ops.views.join import cat


def _placed(param: Tensor) -> Tensor:
    """Asked for its device first, as PyTorch does, which names that where something is no tensor."""
    _ = param.device
    return param


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All of them flattened, one after another: a tensor with one dimension.

    >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
    torch.Size([9])
    """
    return cat([_placed(p).view(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let each parameter be its part of the vector, whose memory it then shares.

    >>> net = nn.Linear(2, 1)
    >>> nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), net.parameters())
    >>> net.bias
    Parameter containing:
    tensor([3.], requires_grad=True)
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    at = 0
    for param in parameters:
        n = _placed(param).numel()
        param.data = vec[at : at + n].view_as(param).data
        at += n


__all__ = ["parameters_to_vector", "vector_to_parameters"]
