"""Sums over windows, along three dimensions at once, as source: average pooling, resampling, and the gradients of both.

Promises the ops: planes are contiguous and three-dimensional (missing dimensions are of size 1), and an item is a row of results. What a
row of results reads is first summed over planes and rows, so that columns lie side by side, and then along itself. Tables say
for each dimension which elements a result reads; the table that is read the other way round makes the gradient.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS, halves, read, write

ROOM = 1024  # elements of a row that are summed side by side
FEW = 8  # elements that a result may read to be written out

_SUMS = '''"""{title}, in {kind}."""
import math
import numpy as np
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}
F = {scalar}


def @NAME@(start, stop, meta, o, x{more}):
    room = stack_{kind}({ROOM})
    d, h, w = meta[0], meta[1], meta[2]
    deep, high, wide = meta[3], meta[4], meta[5]
    z_table, y_table, x_table = meta[6], meta[7], meta[8]
    blocks, parts = meta[9], meta[10]
    {own}
    for item in range(start, stop):
        plane = item // (deep * high) * d
        i = z_table + item // high % deep * {entry}
        z_first, z_last = meta[i], meta[i + 1]
        k = y_table + item % high * {entry}
        y_first, y_last = meta[k], meta[k + 1]
        {row}
        {columns}
'''

_FILL = """for j in range(n):
    room[j] = {zero}
for z in range(z_first, z_last):
    for y in range(y_first, y_last):
        at = ((plane + z) * h + y) * w + begin
        {line}
        for j in range(n):
            room[j] += {term}"""

_IN_PARTS = """total = F({zero})
for part in range(blocks, blocks + parts * 4, 4):
    done, end, begin = meta[part], meta[part + 1], meta[part + 2]
    n = meta[part + 3] - begin
    {fill}
    for i in range(done, end):
        k = x_table + i * {entry}
        if meta[k] >= begin:
            total = F({zero})
        {column}
        for j in range(max(meta[k] - begin, 0), min(meta[k + 1] - begin, n)):
            total += {element}
        {finish}
        o[item * wide + i] = {write}"""

# Where no result reads more than a few elements: those, and in place of those that it lacks one that is 0.
_PICKED = """begin, n = 0, w
{fill}
room[n] = F(0)
for i in range(wide):
    k = x_table + i * {entry}
    total = {picked}
    {finish}
    o[item * wide + i] = {write}"""

# The same where the channels of a pixel lie together: an item is a row of pixels, and they are summed side by side.
_TOGETHER = '''"""{title}, of pixels whose channels lie together, in {kind}."""
import math
import numpy as np
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}
F = {scalar}


def @NAME@(start, stop, meta, o, x{more}):
    room = stack_{kind}({ROOM})
    d, h, w = meta[0], meta[1], meta[2]
    deep, high, wide = meta[3], meta[4], meta[5]
    z_table, y_table, x_table = meta[6], meta[7], meta[8]
    channels = meta[9]
    {own}
    for item in range(start, stop):
        plane = item // (deep * high) * d
        i = z_table + item // high % deep * {entry}
        z_first, z_last = meta[i], meta[i + 1]
        k = y_table + item % high * {entry}
        y_first, y_last = meta[k], meta[k + 1]
        {row}
        for c_first in range(0, channels, {ROOM}):
            n = min({ROOM}, channels - c_first)
            for pixel in range(wide):
                e = x_table + pixel * {entry}
                for j in range(n):
                    room[j] = {zero}
                for z in range(z_first, z_last):
                    for y in range(y_first, y_last):
                        {line}
                        for q in range(meta[e], meta[e + 1]):
                            at = (((plane + z) * h + y) * w + q) * channels + c_first
                            {tap}
                            for j in range(n):
                                room[j] += {term}
                to = (item * wide + pixel) * channels + c_first
                {divisor}
                for j in range(n):
                    total = room[j]
                    o[to + j] = {write}
'''

TITLES = {
    "plain": "Sums over windows",
    "mean": "Means of windows",
    "shared": "Sums over windows of elements, each divided by a number of its own",
    "weighted": "Weighted sums over windows",
}


# Of whole numbers.
TOWARDS_ZERO = ["by = share * meta[k + 2]", "q = abs(total) // abs(by)"]
QUOTIENT = "-q if (total < 0) != (by < 0) else q"
TO_THE_NEAREST = "min(max(math.floor(total + F(0.5)), 0), 255)"


@cached(128)
@family
def sums(how: str, code: str, kind: str, zero: str, width: int = 0) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. `how` is "plain"; "mean", where results are divided by numbers in the table; "shared", where
    elements are; "weighted", where a further operand holds what elements are multiplied by. `meta`: sizes of input and result; where the
    tables of the three dimensions begin, and that of parts of a row; how many parts. A table has for each result where its window
    begins and ends, and by what it is divided or where its weights begin; of parts, which results they are and what they
    read. `shared` has three tables more, of the elements' numbers, which stand after the number of parts. With a `width`, in place of
    the parts, for each result so many elements that it reads."""
    holes: dict[str, Any] = {name: [] for name in ("own", "row", "line", "column", "finish")}
    picks = [f"room[meta[blocks + i * {width} + {t}]]" for t in range(width)]
    holes |= {"more": "", "entry": 2}
    term, element = read("x[at + j]", code, kind, False), "room[j]"
    result = "total"
    if how == "mean":
        holes |= {"entry": 3, "row": ["share = meta[i + 2] * meta[k + 2]"]}
        if kind[0] == "f":
            result = "total / F(share * meta[k + 2])"
        else:
            holes["finish"], result = TOWARDS_ZERO, QUOTIENT
    elif how == "shared":
        holes |= {
            "own": ["z_own, y_own, x_own = meta[11], meta[12], meta[13]"],
            "line": ["share = meta[z_own + z] * meta[y_own + y]"],
        }
        term = f"{term} / F(share * meta[x_own + begin + j])"
    elif how == "weighted":
        holes |= {
            "more": ", weights",
            "entry": 3,
            "row": ["z_weights = meta[i + 2] - z_first", "y_weights = meta[k + 2] - y_first"],
            "line": ["weight = weights[z_weights + z] * weights[y_weights + y]"],
            "column": ["at = meta[k + 2] - meta[k] + begin"],
        }
        term, element = f"weight * {term}", "weights[at + j] * room[j]"
        picks = [f"weights[meta[k + 2] + {t}] * {pick}" for t, pick in enumerate(picks)]
        if code == "u1":
            result = TO_THE_NEAREST
    holes |= {"zero": zero, "term": term, "element": element, "picked": " + ".join(picks)}
    holes["write"] = write(result, code, kind)
    holes["fill"] = fill(_FILL, **holes).split("\n")
    source = fill(
        _SUMS,
        title=TITLES[how],
        halves=halves((code,)),
        kind=kind,
        scalar=SCALARS[kind],
        ROOM=ROOM,
        columns=fill(_PICKED if width else _IN_PARTS, **holes).split("\n"),
        **{name: holes[name] for name in ("more", "own", "entry", "row")},
    )
    pointer = f"*{code}"
    return source, ("i8", "i8", "*i8", pointer, pointer, *([f"*{kind}"] if how == "weighted" else []))


@cached(64)
@family
def together(how: str, code: str, kind: str, zero: str) -> tuple[str, tuple[str, ...]]:
    """The same of floats, of pixels whose channels lie together; in the place of the parts `meta` says how many channels there are."""
    holes: dict[str, Any] = {name: [] for name in ("own", "row", "line", "tap", "divisor")}
    holes |= {"more": "", "entry": 2}
    term, result = read("x[at + j]", code, kind, False), "total"
    if how == "mean":
        holes |= {"entry": 3, "row": ["share = meta[i + 2] * meta[k + 2]"]}
        holes["divisor"], result = ["by = F(share * meta[e + 2])"], "total / by"
    elif how == "shared":
        holes |= {
            "own": ["z_own, y_own, x_own = meta[11], meta[12], meta[13]"],
            "line": ["share = meta[z_own + z] * meta[y_own + y]"],
            "tap": ["by = F(share * meta[x_own + q])"],
        }
        term = f"{term} / by"
    elif how == "weighted":
        holes |= {
            "more": ", weights",
            "entry": 3,
            "row": ["z_weights = meta[i + 2] - z_first", "y_weights = meta[k + 2] - y_first"],
            "line": ["weight = weights[z_weights + z] * weights[y_weights + y]"],
            "tap": ["by = weight * weights[meta[e + 2] + q - meta[e]]"],
        }
        term = f"by * {term}"
    holes |= {"zero": f"F({zero})", "term": term, "write": write(result, code, kind)}
    source = fill(
        _TOGETHER,
        title=TITLES[how],
        halves=halves((code,)),
        kind=kind,
        scalar=SCALARS[kind],
        ROOM=ROOM,
        **holes,
    )
    pointer = f"*{code}"
    return source, ("i8", "i8", "*i8", pointer, pointer, *([f"*{kind}"] if how == "weighted" else []))
