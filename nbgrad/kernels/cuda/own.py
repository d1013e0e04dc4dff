"""What a CUDA kernel of our own is, in the place of one of the CPU's texts spread over threads.

Promises the device a text that takes what the CPU's does, the number of items in place of a range, and that gives the same: the
geometry that an op has worked out says where things lie, how they are shared among threads is the kernel's affair.
"""

from __future__ import annotations

from typing import NamedTuple


class Own(NamedTuple):
    """`work` is how many elements a block takes, 0 if it takes an item. `alone` says that it also serves where the CPU has one thread,
    which may be since there is one item, or since items write to the same memory."""

    source: str
    params: tuple[str, ...]
    work: int = 0
    alone: bool = True
