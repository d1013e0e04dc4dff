"""PyTorch's `torch.cuda.nvtx`: names for stretches of a program in NVIDIA's profiler, which a build without CUDA has not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


def _missing(*_: Any) -> NoReturn:
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


def _unknown(name: str) -> NoReturn:
    raise AttributeError(f"'_NVTXStub' object has no attribute '{name}'")


def range_push(msg: str) -> int:
    """Begin a stretch inside of those that are open.

    >>> torch.cuda.nvtx.range_push('step') if torch.cuda.is_available() else "none"
    'none'
    """
    _missing(msg)


def range_pop() -> int:
    """End the stretch that was begun last.

    >>> torch.cuda.nvtx.range_pop() if torch.cuda.is_available() else "none"
    'none'
    """
    _missing()


def range_start(msg: str) -> int:
    """Begin a stretch that may end anywhere, and return its handle.

    >>> torch.cuda.nvtx.range_start('step') if torch.cuda.is_available() else "none"
    'none'
    """
    _unknown("rangeStartA")


def range_end(range_id: int) -> None:
    """End the stretch of a handle.

    >>> torch.cuda.nvtx.range_end(0) if torch.cuda.is_available() else "none"
    'none'
    """
    _unknown("rangeEnd")


def mark(msg: str) -> int:
    """Mark a moment.

    >>> torch.cuda.nvtx.mark('here') if torch.cuda.is_available() else "none"
    'none'
    """
    _missing(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """What a `with` holds is a stretch of this name.

    >>> step = torch.cuda.nvtx.range("step {}", 3)
    """
    range_push(msg.format(*args, **kwargs))
    yield
    range_pop()


__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]
