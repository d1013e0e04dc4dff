"""The largest element of each window, and what goes to or comes from a place within a plane, as source.

Promises the ops: planes are contiguous and three-dimensional (missing dimensions are of size 1), an item is a row of results, or a plane
where elements are moved. Of equal elements the first counts, of NaNs the last. Where windows are alike, an item is several rows: those
of the input are first copied between margins that no element is below, so that a tap is one line of elements, without a condition.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS, computed, halves, read, write

BLOCK = 256  # results side by side, a multiple of LANES
LANES = 16
ROOM = 2048  # elements of rows between their margins

_LOWEST = {"f4": "-inf", "f8": "-inf", "i8": "-9223372036854775808", "i4": "-2147483648"}
_LOWEST |= {"i2": "-32768", "i1": "-128", "u1": "0"}

_ALIKE = '''"""The largest element of each window, and its place in the plane; windows are {stride} columns apart."""
from math import inf
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}, stack_{place}
import numpy as np


def @NAME@(start, stop, meta, o, where, x):
    room = stack_{kind}({ROOM})
    best = stack_{kind}({BLOCK})
    place = stack_{place}({BLOCK})
    home = stack_{place}({BLOCK})
    d, h, w = meta[0], meta[1], meta[2]
    deep, high, wide = meta[3], meta[4], meta[5]
    taps = meta[8]
    d_step, h_step, w_step = meta[9], meta[10], meta[11]
    d_far, h_far, w_far = meta[15], meta[16], meta[17]
    rows, block, copied, pitch = meta[18], meta[19], meta[20], meta[21]
    bands = (high + rows - 1) // rows
    for r in range(rows):
        for j in range(min(pitch, {BLOCK} - r * pitch)):
            home[r * pitch + j] = r * h_step * w + j * w_step
    for item in range(start, stop):
        plane = item // (bands * deep) * d * h * w
        above = item % bands * rows
        many = min(rows, high - above)
        z_first = item // bands % deep * d_step - meta[12]
        y_first = above * h_step - meta[13]
        for part in range((wide + block - 1) // block):
            done = part * block
            n = min(block, wide - done)
            x_first = done * w_step - meta[14]
            chunks = ((many - 1) * pitch + n + {last_lane}) // {LANES}
            skipped = max(d_far - 1 - z_first, 0) // d_far * d_far * h * w
            for j in range(chunks * {LANES}):
                best[j] = {lowest}
                place[j] = skipped
            r = 0
            while r < many and y_first + r * h_step < 0:
                for j in range(r * pitch, r * pitch + n):
                    place[j] += (h_far - 1 - y_first - r * h_step) // h_far * h_far * w
                r += 1
            j = 0
            while j < n and x_first + j * w_step < 0:
                for r in range(many):
                    place[r * pitch + j] += (w_far - 1 - x_first - j * w_step) // w_far * w_far
                j += 1
            for span in range(meta[6] * meta[7]):
                z, y = span // meta[7] * d_far, span % meta[7] * h_far
                tap = 0
                while tap < taps and 0 <= z_first + z < d:
                    some = min(copied, taps - tap)
                    left = x_first + tap * w_far
                    size = n + (some - 1) * w_far // w_step
                    for r in range(many):
                        line = y_first + y + r * h_step
                        row = plane + ((z_first + z) * h + line) * w + left
                        width = w if 0 <= line < h else 0
                        low = min(max({stride} - 1 - left, 0) // {stride}, size)
                        top = max(min((width - left) // {stride}, size), low)
                        q = r * pitch
                        for j in range(low):
                            {outer}
                        for j in range(low, top):
                            {inner}
                        for j in range(top, size):
                            {outer}
                    for first in range(0, some, {together}):
                        {taps}
                        for j in range(chunks * {LANES}):
                            u, at = best[j], place[j]
                            {largest}
                            best[j], place[j] = u, at
                    tap += some
            origin = (z_first * h + y_first) * w + x_first
            to = (item // bands * high + above) * wide + done
            if pitch == wide:
                n, many = n * many, 1
            for r in range(many):
                for j in range(n):
                    o[to + r * wide + j] = {write}
                for j in range(n):
                    where[to + r * wide + j] = origin + home[r * pitch + j] + place[r * pitch + j]
'''


@cached(128)
@family
def alike(code: str, kind: str, place: str, stride: int, together: int) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; `stride` 0 is one that `meta` tells. That holds sizes of the input, of the result, of a window, its
    steps, paddings and dilations (each of three dimensions), then what `blocks` says. `place` is the dtype in which places are counted.
    Where the stride is known a row lies in the room by columns modulo the stride, so that what a tap reads of all windows lies side
    by side. So many taps `together` are looked at while a result is at hand."""
    apart = ROOM // max(stride, 1) // LANES * LANES
    inner: list[str] = []
    outer: list[Lines | str] = []
    for k in range(max(stride, 1)):
        place_of, element = f"room[{k * apart} + q + j]", f"j * {stride or 'w_step'} + {k}"
        taken = f"{place_of} = {read(f'x[row + {element}]', code, kind, False)}"
        inner.append(taken)
        outer += [f"{place_of} = {_LOWEST[kind]}", f"if 0 <= left + {element} < width:", [taken]]
    taps, largest = [], []
    take = "(v > u) | (v != v)" if kind[0] == "f" else "v > u"
    for k in range(together):
        taps += [
            f"far = min(first + {k}, some - 1) * w_far",  # again the last
            f"at{k} = {SCALARS[place]}((z * h + y) * w + tap * w_far + far)",
            f"p{k} = far % {stride or 'w_step'} * {apart} + far // {stride or 'w_step'}",
        ]
        largest += [
            f"v = room[p{k} + j]",
            f"take = {take}",
            "u = v if take else u",
            f"at = at{k} if take else at",
        ]
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
        inner=inner,
        outer=outer,
        together=together,
        taps=taps,
        largest=largest,
        write=write("best[r * pitch + j]", code, kind),
    )
    return source, ("i8", "i8", "*i8", f"*{code}", "*i8", f"*{code}")


def blocks(high: int, wide: int, taps: int, stride: int, far: int) -> tuple[int, int, int, int]:
    """How many rows of results and how many of a row are taken at once, how many columns of taps, which are `far` apart, are copied for
    them at a time, and how far rows are apart in the room."""
    block = min(max(wide, 1), BLOCK)
    copied = min(taps, (ROOM // stride // LANES * LANES - LANES - block) * stride // far + 1) if stride else 1
    pitch = block + ((copied - 1) * far // stride if stride else 0)
    return max(min(high, (BLOCK - block) // pitch + 1), 1), block, copied, pitch


_TOGETHER = '''"""The largest element of each window, and its place in the plane, of pixels whose channels lie together."""
from math import inf
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}, stack_{place}
import numpy as np


def @NAME@(start, stop, meta, o, where, x):
    best = stack_{kind}({BLOCK})
    place = stack_{place}({BLOCK})
    d, h, w = meta[0], meta[1], meta[2]
    deep, high, wide = meta[3], meta[4], meta[5]
    d_far, h_far, w_far = meta[15], meta[16], meta[17]
    channels = meta[18]
    for item in range(start, stop):
        image = item // (deep * high) * d * h * w
        z_first = item // high % deep * meta[9] - meta[12]
        y_first = item % high * meta[10] - meta[13]
        z_last, y_last = min(d, z_first + meta[6] * d_far), min(h, y_first + meta[7] * h_far)
        z_begin = z_first + max(d_far - 1 - z_first, 0) // d_far * d_far
        y_begin = y_first + max(h_far - 1 - y_first, 0) // h_far * h_far
        for pixel in range(wide):
            x_first = pixel * meta[11] - meta[14]
            x_last = min(w, x_first + meta[8] * w_far)
            x_begin = x_first + max(w_far - 1 - x_first, 0) // w_far * w_far
            for c_first in range(0, channels, {BLOCK}):
                n = min({BLOCK}, channels - c_first)
                for j in range(n):
                    best[j] = {lowest}
                    place[j] = (z_begin * h + y_begin) * w + x_begin
                for z in range((z_last - z_begin + d_far - 1) // d_far):
                    for y in range((y_last - y_begin + h_far - 1) // h_far):
                        for q in range((x_last - x_begin + w_far - 1) // w_far):
                            spot = ((z_begin + z * d_far) * h + y_begin + y * h_far) * w + x_begin + q * w_far
                            here = {scalar}(spot)
                            at = (image + spot) * channels + c_first
                            for j in range(n):
                                v = {read}
                                u = best[j]
                                take = {take}
                                best[j] = v if take else u
                                place[j] = here if take else place[j]
                to = (item * wide + pixel) * channels + c_first
                for j in range(n):
                    o[to + j] = {write}
                for j in range(n):
                    where[to + j] = place[j]
'''


@cached(64)
@family
def together(code: str, kind: str, place: str) -> tuple[str, tuple[str, ...]]:
    """The same of pixels whose channels lie together, an item being a row of them; behind the geometry `meta` says how many channels there
    are."""
    source = fill(
        _TOGETHER,
        halves=halves((code,)),
        kind=kind,
        place=place,
        scalar=SCALARS[place],
        BLOCK=BLOCK,
        lowest=_LOWEST[kind],
        read=read("x[at + j]", code, kind, False),
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
        nth = item // high % deep
        {z_range}
        nth = item % high
        {y_range}
        for nth in range(wide):
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
            o[item * wide + nth] = {write}
            where[item * wide + nth] = place
'''

# From where to where a window reaches along a dimension of `size`, which has `outs` windows; this is the `nth`.
_EVENLY = """{c}_first = nth * {size} // {outs}
{c}_last = ((nth + 1) * {size} + {outs} - 1) // {outs}"""
_BY_SAMPLE = """u = {sample}
{c}_first = {size} - meta[{span}]
if nth < {outs} - 1:
    step = F({size} - meta[{span}]) / F({outs} - 1)
    {c}_first = int((F(nth) + u) * step) - int(u * step)
{c}_last = {c}_first + meta[{span}]"""
_DIMENSIONS = (("z", "d", "deep"), ("y", "h", "high"), ("x", "w", "wide"))


def ranges(code: str, kind: str, sampled: bool) -> dict[str, list[str]]:
    """For each dimension, by its letter, what sets `first` and `last` of the `nth` window of a `plane`."""
    found = {}
    for k, (c, size, outs) in enumerate(_DIMENSIONS):
        sample = read(f"samples[plane * meta[9] + meta[{10 + k}]]", code, kind, False)
        text = _BY_SAMPLE if sampled else _EVENLY
        found[f"{c}_range"] = text.format(c=c, size=size, outs=outs, span=6 + k, sample=sample).split("\n")
    return found


@cached(64)
@family
def unlike(code: str, kind: str, sampled: bool) -> tuple[str, tuple[str, ...]]:
    """Windows that share the input evenly; or, `sampled`, ones that lie where random numbers say: then `meta` has the sizes of a window
    as well, how many numbers a plane has, and which of them is for which dimension."""
    number = "np.float64" if kind == "f8" else "np.float32"
    source = fill(
        _UNLIKE.replace("\n\n\ndef", f"\nF = {number}\n\n\ndef", 1) if sampled else _UNLIKE,
        halves=halves((code,)),
        more=", samples" if sampled else "",
        best=f"{number}(-inf)",
        read=read("x[plane * d * h * w + k]", code, kind, False),
        take="v > best or v != v",
        write=write("best", code, kind),
        **ranges(code, kind, sampled),
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


def moved(kind: str, code: str) -> str:
    """What is put to `o[at]`, or added to it."""
    value = "x[plane * own + k]"
    if kind == "put":
        return value
    if computed(code) == code:
        return f"o[at] + {value}"
    value = f"{read('o[at]', code, 'f4', False)} + {read(value, code, 'f4', False)}"
    return write(value, code, "f4")


@cached(64)
@family
def move(kind: str, code: str) -> tuple[str, tuple[str, ...]]:
    """Between planes of `there` elements and `own` places in each: "pick" reads, "put" writes and makes the others 0, "add" sums
    likewise. Dilated windows may lie between all elements of a plane: their place is none of it, and nothing is read or written there."""
    if kind == "pick":
        body, title = _PICK, "The elements of each plane that have these places"
    else:
        title = f"Planes of zeros, to which elements are {'added' if kind == 'add' else 'written'} at these places"
        body = _SPREAD.format(value=moved(kind, code))
    source = _MOVE.format(title=title, halves=halves((code,)), body=body)
    return source, ("i8", "i8", "*i8", f"*{code}", f"*{code}", "*i8")


_SPREAD_TOGETHER = '''"""Images of zeros, to which elements are added at these places in their planes, channels lying together."""
{halves}

def @NAME@(start, stop, meta, o, x, where):
    there, own, channels, blocks = meta[0], meta[1], meta[2], meta[3]
    for item in range(start, stop):
        image = item // blocks
        first = item % blocks * {LANES}
        n = min({LANES}, channels - first)
        for k in range(there):
            p = (image * there + k) * channels + first
            for j in range(n):
                o[p + j] = 0
        for k in range(own):
            q = (image * own + k) * channels + first
            for j in range(n):
                to = where[q + j]
                if 0 <= to < there:
                    at = (image * there + to) * channels + first + j
                    o[at] = {value}
'''


@cached(64)
@family
def added_together(code: str) -> tuple[str, tuple[str, ...]]:
    """The sums of `move` of pixels whose channels lie together, an item being some channels of an image."""
    source = _SPREAD_TOGETHER.format(
        halves=halves((code,)),
        LANES=LANES,
        value=moved("add", code).replace("x[plane * own + k]", "x[q + j]"),
    )
    return source, ("i8", "i8", "*i8", f"*{code}", f"*{code}", "*i8")
