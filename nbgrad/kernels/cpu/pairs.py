"""The distances between each two of n rows, and their gradient, as source: an item is a row, with those behind it, or with all others."""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS

# Coordinate by coordinate, each of which `turned` has side by side: then neighbours in the line of pairs are neighbours in memory.
_APART = '''"""The lengths of the differences between a row and those behind it."""
import math


def @NAME@(start, stop, x, turned, o, n, width):
    for i in range(start, stop):
        at = i * (2 * n - i - 1) // 2
        behind = n - 1 - i
        for j in range(behind):
            o[at + j] = 0
        for k in range(width):
            own = x[i * width + k]
            first = k * n + i + 1
            for j in range(behind):
                away = own - turned[first + j]
                o[at + j] += away * away
        for j in range(behind):
            o[at + j] = math.sqrt(o[at + j])
'''

_BACK = '''"""What the lengths of a row's differences from all others, `y`, say of the row; of rows that are equal nothing."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, x, g, y, o, n, width):
    for i in range(start, stop):
        own = i * width
        for k in range(width):
            o[own + k] = 0
        for j in range(n):
            if j != i:
                low, high = min(i, j), max(i, j)
                at = low * (2 * n - low - 1) // 2 + high - low - 1
                ratio = F(0) if y[at] == 0 else g[at] / y[at]
                other = j * width
                for k in range(width):
                    o[own + k] += ratio * (x[own + k] - x[other + k])
'''


@cached(2)
def apart(code: str) -> tuple[str, tuple[str, ...]]:
    return _APART, ("i8", "i8", *[f"*{code}"] * 3, "i8", "i8")


@cached(2)
def apart_back(code: str) -> tuple[str, tuple[str, ...]]:
    return _BACK.format(scalar=SCALARS[code]), ("i8", "i8", *[f"*{code}"] * 4, "i8", "i8")
