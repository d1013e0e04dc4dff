"""The largest element of each window, and what goes to or comes from a place within a plane, as source.

Promises the ops: planes are contiguous and three-dimensional (missing dimensions are of size 1), an item is a row of results, or a plane
where elements are moved. Of equal elements the first counts, of NaNs the last. Where windows are alike, a row of the input is first
copied between margins that no element is below, so that all columns of a tap are taken side by side, without a condition.
"""

from __future__ import annotations

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import computed, halves, read, write

BLOCK = 256  # results side by side, a multiple of LANES
LANES = 16
ROOM = 2048  # elements of a row between its margins

_LOWEST = {"f4": "-inf", "f8": "-inf", "i8": "-9223372036854775808", "i4": "-2147483648"}
_LOWEST |= {"i2": "-32768", "i1": "-128", "u1": "0"}

_ALIKE = '''"""The largest element of each window, and its place in the plane; windows are {stride} columns apart."""
from math import inf
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}, stack_{place}


def @NAME@(start, stop, meta, o, where, x):
    room = stack_{kind}({ROOM})
    best = stack_{kind}({BLOCK})
    place = stack_{place}({BLOCK})
    d, h, w = meta[0], meta[1], meta[2]
    deep, high, wide = meta[3], meta[4], meta[5]
    taps = meta[8]
    d_step, h_step, w_step = meta[9], meta[10], meta[11]
    d_far, h_far, w_far = meta[15], meta[16], meta[17]
    block, together = meta[18], meta[19]
    for item in range(start, stop):
        plane = item // (deep * high) * d * h * w
        z_first = item // high % deep * d_step - meta[12]
        y_first = item % high * h_step - meta[13]
        z_last = min(z_first + (meta[6] - 1) * d_far + 1, d)
        y_last = min(y_first + (meta[7] - 1) * h_far + 1, h)
        while z_first < 0:
            z_first += d_far
        while y_first < 0:
            y_first += h_far
        done = 0
        while done < wide:
            n = min(block, wide - done)
            lanes = min((n + {last_lane}) // {LANES} * {LANES}, block)
            begin = done * {stride} - meta[14]
            origin = (z_first * h + y_first) * w
            for j in range(lanes):
                best[j] = {lowest}
                place[j] = origin
            j = 0
            while j < n and begin + j * {stride} < 0:
                place[j] = origin + (w_far - 1 - begin - j * {stride}) // w_far * w_far
                j += 1
            z = z_first
            while z < z_last:
                y = y_first
                while y < y_last:
                    row = (z * h + y) * w
                    tap = 0
                    while tap < taps:
                        some = min(together, taps - tap)
                        first = begin + tap * w_far
                        size = (lanes - 1) * {stride} + (some - 1) * w_far + 1
                        left = min(max(-first, 0), size)
                        right = max(min(w - first, size), left)
                        for j in range(left):
                            room[j] = {lowest}
                        for j in range(left, right):
                            room[j] = {read}
                        for j in range(right, size):
                            room[j] = {lowest}
                        for k in range(some):
                            far = k * w_far
                            at = row + tap * w_far + far
                            for j in range(lanes):
                                v = room[j * {stride} + far]
                                u = best[j]
                                take = {take}
                                best[j] = v if take else u
                                place[j] = at if take else place[j]
                        tap += some
                    y += h_far
                z += d_far
            for j in range(n):
                o[item * wide + done + j] = {write}
            for j in range(n):
                where[item * wide + done + j] = place[j] + begin + j * {stride}
            done += n
'''


@cached(128)
def alike(code: str, kind: str, place: str, stride: int) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; `stride` 0 is one that `meta` tells. That holds sizes of the input, of the result, of a window, its
    steps, paddings and dilations (each of three dimensions), then how many results are taken side by side, and of how many columns of
    taps. `place` is the dtype in which places are counted."""
    source = fill(
        _ALIKE,
        halves=halves((code,)),
        kind=kind,
        place=place,
        stride=stride or "w_step",
        ROOM=ROOM,
        BLOCK=BLOCK,
        LANES=LANES,
        last_lane=LANES - 1,
        lowest=_LOWEST[kind],
        read=read("x[plane + row + first + j]", code, kind, False),
        take="(v > u) | (v != v)" if kind[0] == "f" else "v > u",
        write=write("best[j]", code, kind),
    )
    return source, ("i8", "i8", "*i8", f"*{code}", "*i8", f"*{code}")


_UNLIKE = '''"""The largest element of each window, and its place in the plane, where windows are of several sizes or lie irregularly."""
from math import inf
{halves}import numpy as np


def @NAME@(start, stop, meta, o, where, x{more}):
    d, h, w = meta[0], meta[1], meta[2]
    deep, high, wide = meta[3], meta[4], meta[5]
    for item in range(start, stop):
        plane = item // (deep * high)
        i = item // high % deep
        {z_range}
        i = item % high
        {y_range}
        for i in range(wide):
            {x_range}
            best = {best}
            place = (z_first * h + y_first) * w + x_first
            for z in range(z_first, z_last):
                for y in range(y_first, y_last):
                    row = (z * h + y) * w
                    for k in range(row + x_first, row + x_last):
                        v = {read}
                        if {take}:
                            best = v
                            place = k
            o[item * wide + i] = {write}
            where[item * wide + i] = place
'''

# From where to where a window reaches along a dimension of `size`, which has `outs` windows; this is the i-th.
_EVENLY = """{c}_first = i * {size} // {outs}
{c}_last = ((i + 1) * {size} + {outs} - 1) // {outs}"""
_BY_SAMPLE = """u = {sample}
{c}_first = {size} - meta[{span}]
if i < {outs} - 1:
    step = F({size} - meta[{span}]) / F({outs} - 1)
    {c}_first = int((F(i) + u) * step) - int(u * step)
{c}_last = {c}_first + meta[{span}]"""
_DIMENSIONS = (("z", "d", "deep"), ("y", "h", "high"), ("x", "w", "wide"))


@cached(64)
def unlike(code: str, kind: str, sampled: bool) -> tuple[str, tuple[str, ...]]:
    """Windows that share the input evenly; or, `sampled`, ones that lie where random numbers say: then `meta` has the sizes of a window
    as well, how many numbers a plane has, and which of them is for which dimension."""
    ranges = {}
    for k, (c, size, outs) in enumerate(_DIMENSIONS):
        sample = read(f"samples[plane * meta[9] + meta[{10 + k}]]", code, kind, False)
        text = _BY_SAMPLE if sampled else _EVENLY
        ranges[f"{c}_range"] = text.format(c=c, size=size, outs=outs, span=6 + k, sample=sample).split("\n")
    number = "np.float64" if kind == "f8" else "np.float32"
    source = fill(
        _UNLIKE.replace("\n\n\ndef", f"\nF = {number}\n\n\ndef", 1) if sampled else _UNLIKE,
        halves=halves((code,)),
        more=", samples" if sampled else "",
        best=f"{number}(-inf)",
        read=read("x[plane * d * h * w + k]", code, kind, False),
        take="v > best or v != v",
        write=write("best", code, kind),
        **ranges,
    )
    pointer = f"*{code}"
    return source, ("i8", "i8", "*i8", pointer, "*i8", pointer, *([pointer] if sampled else []))


_MOVE = '''"""{title}."""
{halves}

def @NAME@(start, stop, meta, o, x, where):
    there, own = meta[0], meta[1]
    for plane in range(start, stop):
{body}
'''

_PICK = """        for k in range(own):
            at = where[plane * own + k]
            o[plane * own + k] = x[plane * there + at] if 0 <= at < there else 0"""
_SPREAD = """        for k in range(there):
            o[plane * there + k] = 0
        for k in range(own):
            at = where[plane * own + k]
            if 0 <= at < there:
                at += plane * there
                o[at] = {value}"""


@cached(64)
def move(kind: str, code: str) -> tuple[str, tuple[str, ...]]:
    """Between planes of `there` elements and `own` places in each: "pick" reads, "put" writes and makes the others 0, "add" sums
    likewise. Dilated windows may lie between all elements of a plane: their place is none of it, and nothing is read or written there."""
    if kind == "pick":
        body, title = _PICK, "The elements of each plane that have these places"
    else:
        value = "x[plane * own + k]"
        if kind == "add":
            value = f"o[at] + {value}"
            if computed(code) != code:
                value = (
                    f"{read('o[at]', code, 'f4', False)} + {read('x[plane * own + k]', code, 'f4', False)}"
                )
                value = write(value, code, "f4")
        title = f"Planes of zeros, to which elements are {'added' if kind == 'add' else 'written'} at these places"
        body = _SPREAD.format(value=value)
    source = _MOVE.format(title=title, halves=halves((code,)), body=body)
    return source, ("i8", "i8", "*i8", f"*{code}", f"*{code}", "*i8")
