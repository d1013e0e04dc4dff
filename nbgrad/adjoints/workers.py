"""Threads that call compiled functions beside the caller. A forked child has its own."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from nbgrad.kernels.launch import get_num_threads

_pool: ThreadPoolExecutor | None = None


def pool() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(get_num_threads(), 2) - 1, "nbgrad")
    return _pool


def _forget() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
