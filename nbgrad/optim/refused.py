"""Optimisers of PyTorch's that need what is not here, refused by name when they are made."""

from __future__ import annotations

from typing import Any

from nbgrad.optim.optimizer import Optimizer


class Muon(Optimizer):
    """Not in this release: its steps turn matrices by products in bfloat16.

    >>> torch.optim.Muon([nn.Parameter(torch.ones(2, 2))])
    Traceback (most recent call last):
    NotImplementedError: nbgrad has no torch.optim.Muon: it is not built yet; use AdamW or Adafactor
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "nbgrad has no torch.optim.Muon: it is not built yet; use AdamW or Adafactor"
        )


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


__all__ = ["Muon", "SparseAdam"]
