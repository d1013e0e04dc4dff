"""Convolutions on a device: the sums of `ops/windows/patches.py` by tiles of products, as of matrices one of which is patches of images.

Promises that no patch is copied: a table says of each channel and tap where it lies, and in which line of the image, and what lies in none
is 0. Where a tile would be mostly empty, as with a channel by itself, a thread has an element of the result, or a block an element of the
weights. A sum has one order, by the shapes alone.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.cuda import tiles
from nbgrad.kernels.cuda.own import Own, for_device
from nbgrad.kernels.family import Text
from nbgrad.kernels.templates import SCALARS, computed, halves, read, write

# Numbers of the table for a channel and tap: where it lies from the window's first element, its place by three lines, its weight.
ENTRY = 5
SIDE = 64
TILE = SIDE**2  # elements of one
HEAD = 32  # of `meta`, before the table
Code = tuple[Text, tuple[str, ...]]

# `count` channels and taps; `rows` channels of the result in each of `groups`; pixels of one result, then of what is read and how far apart
# windows are there; steps of images, groups, and the three lines there, in the weights of groups and channels, and in the result.
_META = """rows = meta[0]
groups = meta[1]
count = meta[2]
images = meta[3]
deep = meta[4]
high = meta[5]
wide = meta[6]"""
_PIXEL = """rest = np.uint64({pixel})
left_ = rest // np.uint64(wide)
{x} = np.int64(rest - left_ * np.uint64(wide))
rest = left_ // np.uint64(high)
{y} = np.int64(left_ - rest * np.uint64(high))
left_ = rest // np.uint64(deep)
{z} = np.int64(rest - left_ * np.uint64(deep))
{image} = np.int64(left_)"""
_WINDOW = """z = z * meta[10]
y = y * meta[11]
x_at = x_at * meta[12]
base = image * meta[13] + group * meta[14] + z * meta[15] + y * meta[16] + x_at * meta[17]"""
# The element that the table's entry `at` names, from `base` on.
_TAKEN = """d = z + meta[at + 1]
h = y + meta[at + 2]
w_at = x_at + meta[at + 3]
if d >= 0 and d < meta[7] and h >= 0 and h < meta[8] and w_at >= 0 and w_at < meta[9]:
    v = A({value})"""

_SUMS = '''"""Sums of weights times pixels over channels and taps, by tiles of {side} channels and {side} pixels."""
{halves}import numpy as np
A = {scalar}


def @NAME@(items, meta, o, x, w, bias):
    left = cuda.shared.array({room}, A)
    right = cuda.shared.array({room}, A)
    sums = cuda.local.array({cells}, A)
    thread = cuda.threadIdx.x
    {meta}
    columns = images * deep * high * wide
    along = thread & 15
    down = thread >> 4
    across = (columns + {last}) // {side}
    tiles = (rows + {last}) // {side} * across
    for tile in range(cuda.blockIdx.x, groups * tiles, cuda.gridDim.x):
        group = tile // tiles
        top = (tile - group * tiles) // across * {side}
        edge = (tile - group * tiles) % across * {side}
        r = thread & {last}
        {pixel}
        {window}
        {cleared}
        for first in range(0, count, {deep}):
            for turn in range(4):
                e = thread + 256 * turn
                k = e & {last_deep}
                c = e >> {deep_bits}
                v = A(0)
                if top + c < rows and first + k < count:
                    v = A({weight})
                left[k * {pitch} + c] = v
                k = e >> {side_bits}
                v = A(0)
                if edge + r < columns and first + k < count:
                    at = {HEAD} + (first + k) * {ENTRY}
                    {taken}
                right[k * {pitch} + r] = v
            cuda.syncthreads()
            for k in range({deep}):
                {added}
            cuda.syncthreads()
        {written}
'''

_EACH = '''"""Sums of weights times pixels over channels and taps, an element of the result a thread."""
{halves}import numpy as np
A = {scalar}


def @NAME@(items, meta, o, x, w, bias):
    {meta}
    for i in range(cuda.grid(1), items, cuda.gridsize(1)):
        {pixel}
        channel = image % (groups * rows)
        image = image // (groups * rows)
        group = channel // rows
        row = channel - group * rows
        place = meta[25] + image * meta[20] + channel * meta[21] + z * meta[22] + y * meta[23] + x_at * meta[24]
        {window}
        total = A(0)
        for k in range(count):
            at = {HEAD} + k * {ENTRY}
            v = A(0)
            {taken}
            total = total + A({weight}) * v
        if meta[26] != 0:
            total = total + A({bias})
        o[place] = {result}
'''


def _common(code: str) -> dict[str, object]:
    kind = computed(code)
    return {
        "halves": halves((code,)),
        "scalar": SCALARS[kind],
        "meta": _META.split("\n"),
        "window": _WINDOW.split("\n"),
        "taken": fill(_TAKEN, value=read("x[base + meta[at]]", code, kind, False)).split("\n"),
        "HEAD": HEAD,
        "ENTRY": ENTRY,
    }


def _pixel(pixel: str, x: str = "x_at", y: str = "y", z: str = "z", image: str = "image") -> list[str]:
    return fill(_PIXEL, pixel=pixel, x=x, y=y, z=z, image=image).replace("left_", "over").split("\n")


@cached(32)
def sums(code: str, tiled: bool) -> Code:
    """Of what narrow dtypes hold in float32. The bias is added last."""
    kind, pointer = computed(code), "*" + code
    codes = "i8", "*i8", pointer, pointer, pointer, pointer
    bias = read("bias[channel * meta[27]]", code, kind, False)
    if not tiled:
        place = "group * meta[18] + row * meta[19] + meta[at + 4]"
        text = fill(
            _EACH,
            **_common(code),
            pixel=_pixel("i"),
            weight=read(f"w[{place}]", code, kind, False),
            bias=bias,
            result=write("total", code, kind),
        )
        return for_device(Own(text, codes, items=256))
    side = SIDE
    place = f"group * meta[18] + (top + c) * meta[19] + meta[{HEAD} + (first + k) * {ENTRY} + 4]"
    text = fill(
        _SUMS,
        **_common(code),
        **tiles.sizes(side),
        pixel=_pixel("edge + r"),
        weight=read(f"w[{place}]", code, kind, False),
        cleared=tiles.cleared(side),
        added=tiles.added(side),
        written=_written(code, kind, side, bias),
    )
    return for_device(Own(text, codes, side * side))


def _written(code: str, kind: str, side: int, bias: str) -> list[Lines | str]:
    each = range(side // 16)
    lines: list[Lines | str] = []
    for j in each:
        stores: list[Lines | str] = [
            *_pixel(f"edge + along + {16 * j}"),
            "place = meta[25] + image * meta[20] + z * meta[22] + y * meta[23] + x_at * meta[24]",
        ]
        for i in each:
            stores += [
                f"row = top + down + {16 * i}",
                "if row < rows:",
                [
                    "channel = group * rows + row",
                    f"total = sums[{len(each) * i + j}]",
                    "if meta[26] != 0:",
                    [f"total = total + A({bias})"],
                    f"o[place + channel * meta[21]] = {write('total', code, kind)}",
                ],
            ]
        lines += [f"if edge + along + {16 * j} < columns:", stores]
    return lines


# ---------------------------------------------------------------- gradients by weights

# A part has `share` of the pixels of all images, and sums of its own.
_WEIGHTS = '''"""Sums of gradients times pixels over pixels and images, by tiles of {side} channels and {side} taps."""
{halves}import numpy as np
A = {scalar}


def @NAME@(items, meta, o, g, x):
    left = cuda.shared.array({room}, A)
    right = cuda.shared.array({room}, A)
    sums = cuda.local.array({cells}, A)
    thread = cuda.threadIdx.x
    {meta}
    pixels = images * deep * high * wide
    along = thread & 15
    down = thread >> 4
    across = (count + {last}) // {side}
    tiles = (rows + {last}) // {side} * across
    parts = meta[28]
    share = meta[29]
    for tile in range(cuda.blockIdx.x, parts * groups * tiles, cuda.gridDim.x):
        part = tile // (groups * tiles)
        group = tile // tiles % groups
        top = tile % tiles // across * {side}
        edge = tile % tiles % across * {side}
        {cleared}
        for begin in range(0, share, {deep}):
            k = thread & {last_deep}
            pixel = part * share + begin + k
            inside = begin + k < share and pixel < pixels
            {pixel}
            from_g = image * meta[20] + group * rows * meta[21] + z * meta[22] + y * meta[23] + x_at * meta[24]
            {window}
            for turn in range(4):
                r = (thread + 256 * turn) >> {deep_bits}
                v = A(0)
                if inside and top + r < rows:
                    v = A({gradient})
                left[k * {pitch} + r] = v
                v = A(0)
                if inside and edge + r < count:
                    at = {HEAD} + (edge + r) * {ENTRY}
                    {taken}
                right[k * {pitch} + r] = v
            cuda.syncthreads()
            for k in range({deep}):
                {added}
            cuda.syncthreads()
        {written}
'''

_EACH_WEIGHT = '''"""Sums of gradients times pixels over pixels and images, an element of the weights a block."""
{halves}import numpy as np
A = {scalar}


def @NAME@(items, meta, o, g, x):
    shared = cuda.shared.array(256, A)
    thread = cuda.threadIdx.x
    {meta}
    pixels = images * deep * high * wide
    share = meta[29]
    for item in range(cuda.blockIdx.x, items, cuda.gridDim.x):
        part = item // (groups * rows * count)
        channel = item // count % (groups * rows)
        group = channel // rows
        at = {HEAD} + item % count * {ENTRY}
        last = min(part * share + share, pixels)
        total = A(0)
        pixel = part * share + thread
        while pixel < last:
            {pixel}
            from_g = image * meta[20] + channel * meta[21] + z * meta[22] + y * meta[23] + x_at * meta[24]
            {window}
            v = A(0)
            {taken}
            total = total + A({gradient}) * v
            pixel += 256
        shared[thread] = total
        cuda.syncthreads()
        for level in range(8):
            half = 128 >> level
            if thread < half:
                shared[thread] = shared[thread] + shared[thread + half]
            cuda.syncthreads()
        if thread == 0:
            o[item] = shared[0]
        cuda.syncthreads()
'''


@cached(32)
def weights(code: str, tiled: bool) -> Code:
    """The sums of each part, in the dtype in which elements are computed."""
    kind, pointer = computed(code), "*" + code
    codes = "i8", "*i8", "*" + kind, pointer, pointer
    if not tiled:
        gradient = read("g[from_g]", code, kind, False)
        text = fill(_EACH_WEIGHT, **_common(code), pixel=_pixel("pixel"), gradient=gradient)
        return for_device(Own(text, codes))
    side = SIDE
    each = range(side // 16)
    written: list[Lines | str] = []
    for i in each:
        written += [
            f"row = top + down + {16 * i}",
            "place = ((part * groups + group) * rows + row) * count + edge + along",
        ]
        for j in each:
            written += [
                f"if row < rows and edge + along + {16 * j} < count:",
                [f"o[place + {16 * j}] = sums[{len(each) * i + j}]"],
            ]
    text = fill(
        _WEIGHTS,
        **_common(code),
        **tiles.sizes(side),
        pixel=_pixel("pixel"),
        gradient=read("g[from_g + (top + r) * meta[21]]", code, kind, False),
        cleared=tiles.cleared(side),
        added=tiles.added(side),
        written=written,
    )
    return for_device(Own(text, codes, side * side))
