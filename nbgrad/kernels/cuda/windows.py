"""Windows of planes on a device: a thread has an element of the result, and walks its window.

Promises what the CPU's kernels give (`kernels/cpu/pooling.py`, `resample.py`), each window in their order. What is added at places of a
plane is added by the thread that owns the place, in the order in which they are named; or, where windows are alike, gathered by each
element from those windows that reach it.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.cpu import pooling, resample
from nbgrad.kernels.cuda.own import Own, for_device
from nbgrad.kernels.family import Text
from nbgrad.kernels.templates import SCALARS, computed, halves, read, write

WORK = 256  # elements of a block: one a thread

# Elements follow one another along `wide`, `high`, `deep` and the planes; the `i`-th is in this `column` and so on.
_EACH = '''"""{title}."""
import math
from math import inf
import numpy as np
{halves}F = {scalar}


def @NAME@(items, {params}):
    d = meta[0]
    h = meta[1]
    w = meta[2]
    deep = meta[3]
    high = meta[4]
    wide = meta[5]
    {once}
    whole = np.uint64({whole})
    i = np.uint64(cuda.grid(1))
    while i < whole:
        row = i // np.uint64({wide})
        column = np.int64(i - row * np.uint64({wide}))
        rest = row // np.uint64({high})
        line = np.int64(row - rest * np.uint64({high}))
        row = rest // np.uint64({deep})
        sheet = np.int64(rest - row * np.uint64({deep}))
        plane = np.int64(row)
        {body}
        i += np.uint64(cuda.gridsize(1))
'''
_RESULTS = {"whole": "items * wide", "wide": "wide", "high": "high", "deep": "deep"}
_INPUT = {"whole": "items", "wide": "w", "high": "h", "deep": "d"}


def _each(
    title: str, given: dict[str, str], code: str, kind: str, body: str, once: Lines = (), over: Any = None
) -> Own:
    """`given` are the pointers after `meta`."""
    text = fill(
        _EACH,
        title=title,
        params=", ".join(["meta", *given]),
        halves=halves((code,)),
        scalar=SCALARS[kind],
        once=once,
        body=body.split("\n"),
        **(over or _RESULTS),
    )
    return Own(text, ("i8", "*i8", *given.values()), WORK)


# ---------------------------------------------------------------- largest elements

_LOWEST = {"f4": "F(-inf)", "f8": "F(-inf)", "i8": "np.int64(-1) << np.int64(63)"}
_LOWEST |= {"i4": "F(-2147483648)", "i2": "F(-32768)", "i1": "F(-128)", "u1": "F(0)"}

_ALIKE = """z_first = sheet * meta[9] - meta[12]
y_first = line * meta[10] - meta[13]
x_first = column * meta[11] - meta[14]
z_last = min(z_first + (meta[6] - 1) * meta[15] + 1, d)
y_last = min(y_first + (meta[7] - 1) * meta[16] + 1, h)
x_last = min(x_first + (meta[8] - 1) * meta[17] + 1, w)
while z_first < 0:
    z_first += meta[15]
while y_first < 0:
    y_first += meta[16]
while x_first < 0:
    x_first += meta[17]
begin = plane * d * h * w
best = {lowest}
place = (z_first * h + y_first) * w + x_first
z = z_first
while z < z_last:
    y = y_first
    while y < y_last:
        k = x_first
        while k < x_last:
            at = (z * h + y) * w + k
            v = {read}
            if {take}:
                best = v
                place = at
            k += meta[17]
        y += meta[16]
    z += meta[15]
o[i] = {write}
where[i] = place"""


def alike(code: str, kind: str, place: str, stride: int, together: int) -> Own:
    """Of windows of one shape, a step apart; the CPU's items are several rows of results."""
    body = fill(
        _ALIKE,
        lowest=_LOWEST[kind],
        read=read("x[begin + at]", code, kind, False),
        take="v > best or v != v" if kind[0] == "f" else "v > best",
        write=write("best", code, kind),
    )
    given = {"o": f"*{code}", "where": "*i8", "x": f"*{code}"}
    whole = "items // ((high + meta[18] - 1) // meta[18]) * high * wide"
    over = {**_RESULTS, "whole": whole}
    title = "The largest element of each window, and its place in the plane"
    return _each(title, given, code, kind, body, over=over)


_UNLIKE = """nth = sheet
{z_range}
nth = line
{y_range}
nth = column
{x_range}
begin = plane * d * h * w
best = F(-inf)
place = (z_first * h + y_first) * w + x_first
for z in range(z_first, z_last):
    for y in range(y_first, y_last):
        for k in range((z * h + y) * w + x_first, (z * h + y) * w + x_last):
            v = {read}
            if v > best or v != v:
                best = v
                place = k
o[i] = {write}
where[i] = place"""


def unlike(code: str, kind: str, sampled: bool) -> Own:
    """Of windows of several sizes, or that lie where random numbers say."""
    body = fill(
        _UNLIKE,
        read=read("x[begin + k]", code, kind, False),
        write=write("best", code, kind),
        **pooling.ranges(code, kind, sampled),
    )
    given = {"o": f"*{code}", "where": "*i8", "x": f"*{code}", **({"samples": f"*{code}"} if sampled else {})}
    return _each("The largest element of each window, and its place in the plane", given, code, kind, body)


# ---------------------------------------------------------------- places of planes

_PICK = '''"""The elements of each plane that have these places."""
import numpy as np


def @NAME@(items, meta, o, x, where):
    there = meta[0]
    own = meta[1]
    whole = np.uint64(items * own)
    i = np.uint64(cuda.grid(1))
    while i < whole:
        at = where[i]
        begin = np.int64(i // np.uint64(own)) * there
        o[i] = x[begin + at] if 0 <= at and at < there else 0
        i += np.uint64(cuda.gridsize(1))
'''
_MOVE = '''"""Planes of zeros, to which elements are {done} at these places. A block has a plane, and a thread every 256th place."""
{halves}import numpy as np


def @NAME@(items, meta, o, x, where):
    there = meta[0]
    own = meta[1]
    thread = cuda.threadIdx.x
    for plane in range(cuda.blockIdx.x, items, cuda.gridDim.x):
        k = thread
        while k < there:
            o[plane * there + k] = 0
            k += 256
        for k in range(own):
            at = where[plane * own + k]
            if (at & 255) == thread and 0 <= at and at < there:
                at += plane * there
                o[at] = {value}
'''


def move(kind: str, code: str) -> Own:
    pointer = f"*{code}"
    codes = "i8", "*i8", pointer, pointer, "*i8"
    if kind == "pick":
        return Own(_PICK, codes, WORK)
    done = "added" if kind == "add" else "written"
    return Own(fill(_MOVE, done=done, halves=halves((code,)), value=pooling.moved(kind, code)), codes)


_GATHERED = """z_first = max((sheet + meta[12] - (meta[6] - 1) * meta[15] + meta[9] - 1) // meta[9], 0)
y_first = max((line + meta[13] - (meta[7] - 1) * meta[16] + meta[10] - 1) // meta[10], 0)
x_first = max((column + meta[14] - (meta[8] - 1) * meta[17] + meta[11] - 1) // meta[11], 0)
z_last = min((sheet + meta[12]) // meta[9] + 1, deep)
y_last = min((line + meta[13]) // meta[10] + 1, high)
x_last = min((column + meta[14]) // meta[11] + 1, wide)
at = (sheet * h + line) * w + column
total = F(0)
for z in range(z_first, z_last):
    for y in range(y_first, y_last):
        begin = ((plane * deep + z) * high + y) * wide
        for k in range(begin + x_first, begin + x_last):
            if where[k] == at:
                total = total + {read}
o[i] = {write}"""


@cached(16)
def gathered(code: str) -> tuple[Text, tuple[str, ...]]:
    """What `move("add", code)` writes for places that windows of one shape have found: items are the elements of the planes, `meta` is that
    of `alike`."""
    kind = computed(code)
    body = fill(_GATHERED, read=read("x[k]", code, kind, False), write=write("total", code, kind))
    given = {"o": f"*{code}", "x": f"*{code}", "where": "*i8"}
    title = "What each element is given by the windows of which it is the largest"
    return for_device(_each(title, given, code, kind, body, over=_INPUT))


# ---------------------------------------------------------------- sums

_SUMS = """nth = z_table + sheet * {entry}
z_first = meta[nth]
z_last = meta[nth + 1]
k = y_table + line * {entry}
y_first = meta[k]
y_last = meta[k + 1]
{row}
k = x_table + column * {entry}
total = F({zero})
for at_x in range(meta[k], meta[k + 1]):
    up = F({zero})
    for z in range(z_first, z_last):
        for y in range(y_first, y_last):
            at = ((plane * d + z) * h + y) * w + at_x
            {term}
    total += {element}
{finish}
o[i] = {write}"""


def sums(how: str, code: str, kind: str, zero: str, width: int = 0) -> Own:
    """A column of a window is added up first, as on the CPU, whose list of what few elements a result reads is not needed."""
    holes: dict[str, Any] = {"entry": 3 if how in ("mean", "weighted") else 2, "zero": zero}
    holes |= {"row": [], "finish": [], "element": "up"}
    value, result = read("x[at]", code, kind, False), "total"
    term = [f"up += {value}"]
    once = ["z_table = meta[6]", "y_table = meta[7]", "x_table = meta[8]"]
    if how == "mean":
        holes["row"] = ["share = meta[nth + 2] * meta[k + 2]"]
        if kind[0] == "f":
            result = "total / F(share * meta[k + 2])"
        else:
            holes["finish"] = resample.TOWARDS_ZERO
            result = resample.QUOTIENT
    elif how == "shared":
        once += ["z_own = meta[11]", "y_own = meta[12]", "x_own = meta[13]"]
        term = ["share = meta[z_own + z] * meta[y_own + y]", f"up += {value} / F(share * meta[x_own + at_x])"]
    elif how == "weighted":
        holes["row"] = ["z_weights = meta[nth + 2] - z_first", "y_weights = meta[k + 2] - y_first"]
        term = [f"up += weights[z_weights + z] * weights[y_weights + y] * {value}"]
        holes["element"] = "weights[meta[k + 2] + at_x - meta[k]] * up"
        if code == "u1":
            result = resample.TO_THE_NEAREST
    body = fill(_SUMS, term=term, write=write(result, code, kind), **holes)
    given = {"o": f"*{code}", "x": f"*{code}"} | ({"weights": f"*{kind}"} if how == "weighted" else {})
    return _each(resample.TITLES[how], given, code, kind, body, once)
