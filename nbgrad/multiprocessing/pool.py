"""PyTorch's `torch.multiprocessing.pool`: Python's pools, whose queues share tensors as all of `multiprocessing` does here."""

from __future__ import annotations

import gc
import multiprocessing.pool
from typing import Any

from nbgrad.multiprocessing.queue import SimpleQueue as SimpleQueue

Pool = multiprocessing.pool.Pool


def clean_worker(*args: Any, **kwargs: Any) -> None:
    """A worker of a pool that collects what is left at its end."""
    multiprocessing.pool.worker(*args, **kwargs)  # type: ignore[attr-defined]
    gc.collect()
