"""PyTorch's `torch.distributed.rpc` where there is one process: it says so to programs that ask, and refuses the rest by name."""

from __future__ import annotations


def is_available() -> bool:
    """Whether functions can be called in other processes: they cannot.

    >>> torch.distributed.rpc.is_available()
    False
    """
    return False
