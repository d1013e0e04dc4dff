"""CUDA kernels of our own, in the place of the CPU's texts spread over threads.

Promises the device a text that takes what the CPU's does, the number of items in place of a range, and that gives the same: the
geometry that an op has worked out says where things lie, how they are shared among threads is the kernel's affair. A family is found by
what a text was made from (`kernels/family.py`); of what has none here the spread text stays.
"""

from __future__ import annotations

from typing import NamedTuple

from nbgrad.kernels.family import Text


class Own(NamedTuple):
    """`work` is how many elements a block takes, 0 if it takes an item. `alone` says that it also serves where the CPU has one thread,
    which may be since there is one item, or since items write to the same memory."""

    source: str
    params: tuple[str, ...]
    work: int = 0
    alone: bool = True


def own(name: str, source: str) -> Own | None:
    """What a device has of its own for a text.

    >>> from nbgrad.kernels.cpu import reduce
    >>> from nbgrad.kernels.cuda.own import own
    >>> own("plain", "def @NAME@(start, stop): pass") is None
    True
    """
    if not isinstance(source, Text):
        return None
    from nbgrad.kernels.cuda import pointwise
    from nbgrad.kernels.cuda.spread import respelled

    families = {"templates.elementwise": pointwise.elementwise}
    make = families.get(source.family)
    if make is None:
        return None
    args, named = source.given
    found = make(*args, **named)
    return found._replace(source=respelled(name, found.source))
