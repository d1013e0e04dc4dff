"""Elements that are compared with each other: whether those of two tensors are the same, which of a line are distinct, how often each
integer stands. As source; all lie without gaps, and what is found of all of them is told in `found`."""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS, halves, widened

_SAME = '''"""Whether two lines hold the same, block by block."""
{imports}

def @NAME@(start, stop, x, y, found):
    differs = 0
    for begin in range(start, stop, 4096):
        for k in range(begin, min(begin + 4096, stop)):
            differs |= {differs}
        if differs:
            break
    found[0] = differs == 0
'''

_DISTINCT = '''"""The first of equal neighbours, which of them each element is, and how many of each there are."""
{imports}

def @NAME@(start, stop, x, order, o, group, counts, found, placed, grouped, counted):
    n, begin = 0, start
    for k in range(start, stop):
        if (k == start) | ({differs}):
            if counted & (n > 0):
                counts[n - 1] = k - begin
            o[n] = x[k]
            n += 1
            begin = k
        if grouped:
            group[order[k] if placed else k] = n - 1
    if counted:
        counts[n - 1] = stop - begin
    found[0] = n
'''

_MOST = '''"""The greatest integer, which is below 0 if any is."""
import numpy as np


def @NAME@(start, stop, x, found):
    most = np.uint64(0)
    for k in range(start, stop):
        most = max(most, np.uint64(np.int64(x[k])))
    found[0] = np.int64(most)
'''

_COUNTED = '''"""How often each integer stands; those that are no place are left out, as another thread may write meanwhile."""
import numpy as np


def @NAME@(start, stop, x, o, size):
    for k in range(start, stop):
        at = np.int64(x[k])
        if (at >= 0) & (at < size):
            o[at] += 1
'''


@cached(16)
def same(code: str) -> tuple[str, tuple[str, ...]]:
    differs = f"({widened('x[k]', code)} != {widened('y[k]', code)})"
    source = _SAME.format(imports=halves((code,)), differs=differs)
    return source, ("i8", "i8", f"*{code}", f"*{code}", "*i8")


@cached(16)
def distinct(code: str) -> tuple[str, tuple[str, ...]]:
    differs = f"{widened('x[k]', code)} != {widened('x[k - 1]', code)}"
    source = _DISTINCT.format(imports=halves((code,)), differs=differs)
    lines = f"*{code}", "*i8", f"*{code}", "*i8", "*i8", "*i8"
    return source, ("i8", "i8", *lines, "i8", "i8", "i8")


def most(code: str) -> tuple[str, tuple[str, ...]]:
    return _MOST, ("i8", "i8", f"*{code}", "*i8")


def counted(code: str) -> tuple[str, tuple[str, ...]]:
    return _COUNTED, ("i8", "i8", f"*{code}", "*i8", "i8")


_AMONG = '''"""Whether each element equals one of those of a line of `size`, or (invert) none."""
{imports}

def @NAME@(start, stop, x, among, o, size, invert):
    for k in range(start, stop):
        found = invert
        for j in range(size):
            if {equal}:
                found = 1 - invert
                break
        o[k] = found
'''


@cached(16)
def among(code: str) -> tuple[str, tuple[str, ...]]:
    equal = f"{widened('x[k]', code)} == {widened('among[j]', code)}"
    return _AMONG.format(imports=halves((code,)), equal=equal), (
        "i8",
        "i8",
        f"*{code}",
        f"*{code}",
        "*u1",
        "i8",
        "i8",
    )


_ONE_HOT = '''"""1 at the place of each class in rows that are 0 at first; and whether any is none."""


def @NAME@(start, stop, x, o, found, classes):
    bad = 0
    for k in range(start, stop):
        at = x[k]
        if (at >= 0) & (at < classes):
            o[k * classes + at] = 1
        else:
            bad = 1
    found[0] = bad
'''


def one_hot() -> tuple[str, tuple[str, ...]]:
    return _ONE_HOT, ("i8", "i8", "*i8", "*i8", "*i8", "i8")


# The least and the largest element, unless the range is given.
_ENDS = """\
    if not given:
        low = high = np.float64(x[start])
        for k in range(start, stop):
            v = np.float64(x[k])
            if (v < low) | (v != v):
                low = v
            if (v > high) | (v != v):
                high = v
"""

_HISTOGRAM = '''"""How many elements lie in each of equal parts of a range, or of all of them; and whether that is none."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, x, o, found, bins, given, low, high):
{ends}    if low == high:
        low, high = low - 1, high + 1
    fine = (low > -np.inf) & (high < np.inf)
    if fine:
        first, last = F(low), F(high)
        span, parts = F(np.float64(last) - np.float64(first)), F(bins)
        for k in range(start, stop):
            if (x[k] >= first) & (x[k] <= last):
                at = np.int64((x[k] - first) * parts / span)
                o[min(max(at, 0), bins - 1)] += 1
    found[0] = not fine
'''


@cached(2)
def histogram(code: str) -> tuple[str, tuple[str, ...]]:
    source = _HISTOGRAM.format(scalar=SCALARS[code], ends=_ENDS)
    return source, ("i8", "i8", f"*{code}", f"*{code}", "*i8", "i8", "i8", "f8", "f8")


_BINNED = '''"""The edges of equal parts of a range, or of all elements, how many of those lie in each; and whether that is none."""
import numpy as np
from nbgrad.kernels.cpu.vmath import fma
F = {scalar}


def @NAME@(start, stop, x, edges, o, found, bins, given, low, high):
{ends}    if low == high:
        low, high = low - 0.5, high + 0.5
    fine = (low > -np.inf) & (high < np.inf)
    if fine:
        first, last = F(low), F(high)
        step = F(last - first) / F(bins)
        for i in range(bins + 1):  # symmetric about the middle
            edges[i] = fma(step, F(i), first) if i < (bins + 1) // 2 else fma(-step, F(bins - i), last)
        for k in range(start, stop):
            v = x[k]
            if (v >= edges[0]) & (v <= edges[bins]):
                least, most = 0, bins
                while least < most:
                    middle = (least + most) // 2
                    if edges[middle] <= v:
                        least = middle + 1
                    else:
                        most = middle
                o[max(least - 1, 0)] += 1
    found[0] = not fine
'''


@cached(2)
def binned(code: str) -> tuple[str, tuple[str, ...]]:
    source = _BINNED.format(scalar=SCALARS[code], ends=_ENDS)
    return source, ("i8", "i8", f"*{code}", f"*{code}", f"*{code}", "*i8", "i8", "i8", "f8", "f8")


_SEGMENTS = '''"""Of stretches of rows, {which}, what they come to; and whether {wrong}."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, x, ends, o, found, count, rows, inner, least, first):
    bad = 0
    for item in range(start, stop):
        begin = 0
        for k in range(count):
{stretch}
            if {beyond}:
                bad = 1
                break
            for j in range(inner):
                a = F(first)
                for i in range(begin, begin + length):
                    v = x[(item * rows + i) * inner + j]
                    a = {combined}
                o[(item * count + k) * inner + j] = {made}
{after}
    found[0] = bad
'''
_BY_LENGTHS = {
    "which": "one after the other",
    "wrong": "they are not all there is",
    "stretch": "            length = np.int64(ends[item * count + k])",
    "beyond": "(length < 0) | (begin + length > rows)",
    "after": "            begin += length\n        if begin != rows:\n            bad = 1",
}
_BY_OFFSETS = {
    "which": "from one of the ends to the next",
    "wrong": "one reaches past what there is",
    "stretch": """\
            begin = np.int64(ends[item * (count + 1) + k])
            length = np.int64(ends[item * (count + 1) + k + 1]) - begin""",
    "beyond": "(length < 0) | (length > 0) & ((begin < 0) | (begin + length > rows))",
    "after": "",
}
_COMBINED = {
    "sum": "a + v",
    "mean": "a + v",
    "prod": "a * v",
    "amax": "v if (v > a) | (v != v) else a",
    "amin": "v if (v < a) | (v != v) else a",
}


@cached(16)
def segments(code: str, ends: str, reduce: str, offsets: bool) -> tuple[str, tuple[str, ...]]:
    """`ends` is the dtype of the lengths, or of the `offsets`; a mean is of `least` so many rows, and `first` is what all begin with."""
    made = "a / F(max(length, least))" if reduce == "mean" else "a"
    how = _BY_OFFSETS if offsets else _BY_LENGTHS
    source = _SEGMENTS.format(scalar=SCALARS[code], combined=_COMBINED[reduce], made=made, **how)
    return source, ("i8", "i8", f"*{code}", f"*{ends}", f"*{code}", "*i8", "i8", "i8", "i8", "i8", "f8")
