"""Bags of rows, as source: sums, means and largest elements of those rows of a table that indices name; and products of rows of two.

Promises the ops that a row is read once, where it stands, and that a bag is worked in the order of its indices. Beside the result the
kernel writes to which bag each index belongs, how many rows a bag has without padding, and, of largest elements, whose they are.
"""

from __future__ import annotations

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS

_BAGS = '''"""The {mode} of the rows in each bag{weighted}."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, meta, o, o_bag, o_size, o_top, w, at, first, scale):
    n = meta[0]
    padding = meta[1]
    for bag in range(start, stop):
        to = bag * n
        size = 0
        for j in range(n):
            o[to + j] = F(0)
        {begin}
        for k in range(first[bag], first[bag + 1]):
            o_bag[k] = bag
            if at[k] != padding:
                row = at[k] * n
                {each}
                size += 1
        o_size[bag] = size
        {end}
'''
_TOPS = [
    "for j in range(n):",
    ["if size == 0 or w[row + j] > o[to + j]:", ["o[to + j] = w[row + j]", "o_top[to + j] = at[k]"]],
]
_SUMS = ["for j in range(n):", ["o[to + j] += w[row + j]"]]
_WEIGHTED = ["times = scale[k]", "for j in range(n):", ["o[to + j] += w[row + j] * times"]]
_SHARES = ["if size > 1:", ["for j in range(n):", ["o[to + j] = o[to + j] / F(size)"]]]


@cached(16)
@family
def bags(code: str, mode: str, weighted: bool) -> tuple[str, tuple[str, ...]]:
    """`meta` holds the length of a row, and the row that does not count (-1: none); `first`, where bags begin and the last one ends."""
    source = fill(
        _BAGS,
        mode=mode,
        weighted=", each times a number" * weighted,
        scalar=SCALARS[code],
        begin=["for j in range(n):", ["o_top[to + j] = 0"]] if mode == "max" else [],
        each=_TOPS if mode == "max" else _WEIGHTED if weighted else _SUMS,
        end=_SHARES if mode == "mean" else [],
    )
    pointer = "*" + code
    return source, ("i8", "i8", "*i8", pointer, "*i8", "*i8", "*i8", pointer, "*i8", "*i8", pointer)


_DOTS = '''"""For each pair of places the sum of products of a row of one table and a row of another."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, meta, o, a, left, b, right):
    n = meta[0]
    for k in range(start, stop):
        p = left[k] * n
        q = right[k] * n
        total = F(0)
        for j in range(n):
            total += a[p + j] * b[q + j]
        o[k] = total
'''


_MERGED = '''"""Two lists of places as one, in which what both have next stands once: where each of theirs is in it, and its length."""


def @NAME@(start, stop, meta, o_a, o_b, o_count, a, b):
    for _ in range(start, stop):
        i = 0
        k = 0
        to = 0
        while (i < meta[0]) | (k < meta[1]):
            ahead = 0
            if i == meta[0]:
                ahead = 1
            elif k < meta[1]:
                if a[i] < b[k]:
                    ahead = -1
                elif a[i] > b[k]:
                    ahead = 1
            else:
                ahead = -1
            if ahead <= 0:
                o_a[i] = to
                i += 1
            if ahead >= 0:
                o_b[k] = to
                k += 1
            to += 1
        o_count[0] = to
'''


@cached(1)
@family
def merged() -> tuple[str, tuple[str, ...]]:
    """`meta` holds the lengths of the two, of which one thread reads all."""
    return _MERGED, ("i8", "i8", "*i8", "*i8", "*i8", "*i8", "*i8", "*i8")


@cached(4)
@family
def dots(code: str) -> tuple[str, tuple[str, ...]]:
    """`meta` holds the length of a row; of pair k these are row `left[k]` of `a` and row `right[k]` of `b`."""
    pointer = "*" + code
    return fill(_DOTS, scalar=SCALARS[code]), ("i8", "i8", "*i8", pointer, pointer, "*i8", pointer, "*i8")
