"""The optimiser of PyTorch's that needs what is not here, refused by name when it is made."""

from __future__ import annotations

from typing import Any

from nbgrad.optim.optimizer import Optimizer


class SparseAdam(Optimizer):
    """Not in this release: it is for sparse gradients, which are not here.

    >>> torch.optim.SparseAdam([nn.Parameter(torch.ones(2, 2))])
    Traceback (most recent call last):
    NotImplementedError: nbgrad has no torch.optim.SparseAdam: no gradient is sparse here; use Adam
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "nbgrad has no torch.optim.SparseAdam: no gradient is sparse here; use Adam"
        )


__all__ = ["SparseAdam"]
