"""A module that several processes train together: they cannot here, and it says so as PyTorch does before they have met."""

from __future__ import annotations

from typing import Any

from nbgrad.nn.modules.module import Module


class DistributedDataParallel(Module):
    """Refused: there are no groups of processes.

    >>> nn.parallel.DistributedDataParallel(nn.Linear(2, 3))
    Traceback (most recent call last):
    ValueError: Default process group has not been initialized, please make sure to call init_process_group.
    """

    def __init__(self, module: Module, *settings: Any, **more: Any) -> None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )


__all__ = ["DistributedDataParallel"]
