"""What a CUDA kernel of our own is, in the place of one of the CPU's texts spread over threads.

Promises the device a text that takes what the CPU's does, the number of items in place of a range, and that gives the same: the
geometry that an op has worked out says where things lie, how they are shared among threads is the kernel's affair.
"""

from __future__ import annotations

from nbgrad.base.records import NamedTuple
from nbgrad.kernels.family import Text


class Own(NamedTuple):
    """`work` is how many elements a block takes, 0 if it takes so many `items`. It serves where the CPU has `many` threads, and where it
    has one `alone`: since there is one item, or since items write to the same memory. `most` bounds the blocks."""

    source: str
    params: tuple[str, ...]
    work: int = 0
    many: bool = True
    alone: bool = True
    most: int = 1 << 14
    items: int = 1


def for_device(made: Own) -> tuple[Text, tuple[str, ...]]:
    """One that stands for no text of the CPU's, as a backend takes it."""
    text = Text(made.source)
    text.family, text.given = "own", ((made,), {})
    return text, made.params
