"""PyTorch's `torch.multiprocessing._atfork`."""

import os
from collections.abc import Callable


def register_after_fork(func: Callable[[], object]) -> None:
    """Let a function of no arguments run in every child that is forked from now on."""
    os.register_at_fork(after_in_child=func)


__all__ = ["register_after_fork"]
