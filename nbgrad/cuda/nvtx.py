"""PyTorch's `torch.cuda.nvtx`: names for stretches of a program in NVIDIA's profiler, which a build without CUDA has not. Where there is a
GPU they are counted and told to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import local
from typing import Any

from nbgrad.memory import gpu


class _Open(local):
    """How many stretches of a thread are open."""

    count = 0


_open = _Open()
_handles = count(1)


def _need() -> None:
    if not gpu.device_count():
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


def _need_named(name: str) -> None:
    if not gpu.device_count():
        raise AttributeError(f"'_NVTXStub' object has no attribute '{name}'")


def range_push(msg: str) -> int:
    """Begin a stretch inside of those that are open, and say how many these are.

    >>> torch.cuda.nvtx.range_push('step') if torch.cuda.is_available() else "none"
    'none'
    """
    _need()
    _open.count += 1
    return _open.count - 1


def range_pop() -> int:
    """End the stretch that was begun last, and say how many are left; -1 if none was open.

    >>> torch.cuda.nvtx.range_pop() if torch.cuda.is_available() else "none"
    'none'
    """
    _need()
    left = _open.count - 1
    _open.count = max(left, 0)
    return left


def range_start(msg: str) -> int:
    """Begin a stretch that may end anywhere, and return its handle.

    >>> torch.cuda.nvtx.range_start('step') if torch.cuda.is_available() else "none"
    'none'
    """
    _need_named("rangeStartA")
    return next(_handles)


def range_end(range_id: int) -> None:
    """End the stretch of a handle.

    >>> torch.cuda.nvtx.range_end(0) if torch.cuda.is_available() else "none"
    'none'
    """
    _need_named("rangeEnd")


def mark(msg: str) -> int:
    """Mark a moment.

    >>> torch.cuda.nvtx.mark('here') if torch.cuda.is_available() else "none"
    'none'
    """
    _need()
    return 0


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """What a `with` holds is a stretch of this name.

    >>> step = torch.cuda.nvtx.range("step {}", 3)
    """
    range_push(msg.format(*args, **kwargs))
    yield
    range_pop()


__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]
