"""By how much right classes lead others by too little, as source: a number for each row, and whether a target is none of its classes."""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS

_ONE = '''"""The sum of what each other class lacks to the margin behind the right one, over the number of classes."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, x, target, weight, o, found, classes, square, weighted, margin):
    bad = 0
    for row in range(start, stop):
        right = target[row]
        if (right < 0) | (right >= classes):
            bad = 1
            continue
        line, total = row * classes, F(0)
        lead = F(margin) - x[line + right]
        scale = weight[right] if weighted else F(1)
        for j in range(classes):
            short = lead + x[line + j]
            if (j != right) & (not short <= 0):
                total += (short * short if square else short) * scale
        o[row] = total / F(classes)
    found[0] = bad
'''

_SEVERAL = '''"""The sum of what each class that is not listed lacks to 1 behind each that is, over the number of classes."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, x, target, named, o, found, classes):
    bad = 0
    for row in range(start, stop):
        line, total, count = row * classes, F(0), classes
        for j in range(classes):
            named[line + j] = 0
        for j in range(classes):
            right = target[line + j]
            if (right < -1) | (right >= classes):
                bad = 1
            elif (right < 0) & (count == classes):
                count = j
            elif (right >= 0) & (count == classes):
                named[line + right] = 1
        if bad:
            break
        for k in range(count):
            right = x[line + target[line + k]]
            for j in range(classes):
                if named[line + j] == 0:
                    short = F(1) - (right - x[line + j])
                    if not short <= 0:
                        total += short
        o[row] = total / F(classes)
    found[0] = bad
'''


@cached(4)
def one(code: str) -> tuple[str, tuple[str, ...]]:
    lines = f"*{code}", "*i8", f"*{code}", f"*{code}", "*i8"
    return _ONE.format(scalar=SCALARS[code]), ("i8", "i8", *lines, "i8", "i8", "i8", "f8")


@cached(4)
def several(code: str) -> tuple[str, tuple[str, ...]]:
    lines = f"*{code}", "*i8", "*u1", f"*{code}", "*i8"
    return _SEVERAL.format(scalar=SCALARS[code]), ("i8", "i8", *lines, "i8")
