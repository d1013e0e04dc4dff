"""Convolution as source: images copied with their margins, weights in blocks, and the sums of products between them.

Promises the ops that no buffer of patches exists. An image is copied once, split by the stride into phases (every s-th row and column), so
that what a tap reads of all pixels lies in a row: it is the image from an offset on, and a table holds the offset of each tap of each
channel. So the pixels of a plane are one flat axis, along which LLVM has vectors; what it holds past the end of a row is dropped.

A sum has one order, whoever computes it: over channels and taps, fused, in each pixel; over pixels and images in each weight.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import computed, halves, narrowed, widened
from nbgrad.kernels.tile import MORE, SHAPES

STRIP = 1024  # elements of the sums that are worked on at once, which stay in the nearest cache
TILED_STRIP = 256  # pixels, at most, that the tile works on, all channels in turn
PIXELS = 2048  # that a gradient by weights multiplies before it adds them up
TILED_PIXELS = 512  # and by the tile, to which they are rows
LANES = 16  # a strip is worked on in vectors of so many
BEYOND = 32  # elements past an image that may be read, of a strip that is longer than what is left
PLACES = 18  # of `meta`, from which on the table stands

_MARGINS = '''"""Copy planes of images with zeros around them, each phase of the stride by itself."""
{halves}

def @NAME@(start, stop, meta, o, x, first):
    channels, plane = meta[0], meta[1]
    step_n, step_c, step_d, step_h, step_w = meta[2], meta[3], meta[4], meta[5], meta[6]
    size_d, size_h = meta[7], meta[8]
    by_d, by_h, by_w = meta[10], meta[11], meta[12]
    deep, high, wide = meta[13], meta[14], meta[15]
    many_d, many_h, many_w = meta[16], meta[17], meta[18]
    along = by_w * step_w
    rows = 19 + many_d + many_h
    for u in range(start, stop):
        source = (first + u // channels) * step_n + u % channels * step_c
        q = u * plane
        for phase in range(many_d * many_h * many_w):
            begin_d = meta[19 + phase // (many_h * many_w)]
            begin_h = meta[19 + many_d + phase // many_w % many_h]
            place = rows + phase % many_w
            begin, low, top = meta[place], meta[place + many_w], meta[place + 2 * many_w]
            for i in range(deep):
                d = i * by_d + begin_d
                for k in range(high):
                    h = k * by_h + begin_h
                    left, right = wide, wide
                    if d >= 0 and d < size_d and h >= 0 and h < size_h:
                        left, right = low, top
                    p = source + d * step_d + h * step_h + begin * step_w
                    for j in range(left):
                        o[q + j] = 0
                    if along == 1:
                        for j in range(left, right):
                            o[q + j] = {plain}
                    else:
                        for j in range(left, right):
                            o[q + j] = {apart}
                    for j in range(right, wide):
                        o[q + j] = 0
                    q += wide
        for j in range(q, (u + 1) * plane):
            o[j] = 0
'''

_BLOCKS = '''"""Lay weights out in blocks of {outs} channels that are computed together: their biases, then tap by tap."""
{halves}

def @NAME@(start, stop, meta, o, w, bias):
    blocks, count, channels = meta[0], meta[1], meta[2]
    by_group, by_channel, biased = meta[3], meta[4], meta[5]
    for u in range(start, stop):
        q = u * (count + 1) * {outs}
        for b in range({outs}):
            c = u % blocks * {outs} + b
            p = u // blocks * by_group + c * by_channel
            o[q + b] = 0
            if c < channels:
                if biased:
                    o[q + b] = {bias}
                for k in range(count):
                    o[q + (k + 1) * {outs} + b] = {weight}
            else:
                for k in range(count):
                    o[q + (k + 1) * {outs} + b] = 0
'''

_SUMS = '''"""Sums of weights times pixels over channels and taps, for {outs} channels of the result and {taps} taps at once."""
{halves}from nbgrad.kernels.cpu.stack import stack_{code}
from nbgrad.kernels.cpu.vmath import mad


def @NAME@(start, stop, meta, y, x, w, first):
    sums = stack_{code}({room})
    image, by_group, groups, blocks, count, channels = meta[0], meta[1], meta[2], meta[3], meta[4], meta[5]
    planes, strips, flat, wide, apart, columns = meta[6], meta[7], meta[8], meta[9], meta[10], meta[11]
    step_n, step_c, step_d, step_h, step_w, begin = meta[12], meta[13], meta[14], meta[15], meta[16], meta[17]
    whole = count // {taps} * {taps}
    for u in range(start, stop):
        p = u % strips * {strip}
        plane = u // strips % planes
        group = u // (strips * planes) % groups
        n = u // (strips * planes * groups)
        cut = min({strip}, flat - p)
        many = (cut + {lanes} - 1) // {lanes} * {lanes}
        source = n * image + group * by_group + plane * apart + p
        for block in range(blocks):
            q = (group * blocks + block) * (count + 1) * {outs}
            biases = q
            for j in range({outs} * {strip}):
                sums[j] = 0
            q += {outs}
            for k in range(0, whole, {taps}):
                {places}
                {weights}
                for j in range(many):
                    {pixels}
                    {add}
            for k in range(whole, count):
                p0 = source + meta[18 + k]
                {weight}
                for j in range(many):
                    x0 = x[p0 + j]
                    {add_one}
            for b in range(min({outs}, channels - block * {outs})):
                to = (first + n) * step_n + (group * channels + block * {outs} + b) * step_c + plane * step_d + begin
                bias = w[biases + b]
                at = b * {strip} - p
                {rows}
'''

_TILED = '''"""Sums of weights times pixels over channels and taps, by the register tile: {high} channels and {wide} pixels at once."""
{halves}from nbgrad.kernels.cpu.memory import address_of
from nbgrad.kernels.cpu.stack import stack_{code}
from nbgrad.kernels.cpu.tile import {whole}, {narrow}, {few}


def @NAME@(start, stop, meta, y, x, w, first):
    sums = stack_{code}({room})
    image, by_group, groups, blocks, count, channels = meta[0], meta[1], meta[2], meta[3], meta[4], meta[5]
    planes, strips, flat, wide, apart, columns = meta[6], meta[7], meta[8], meta[9], meta[10], meta[11]
    step_n, step_c, step_d, step_h, step_w, begin = meta[12], meta[13], meta[14], meta[15], meta[16], meta[17]
    table, weights, images, kept = address_of(meta) + {places} * 8, address_of(w), address_of(x), address_of(sums)
    for u in range(start, stop):
        p = u % strips * {strip}
        plane = u // strips % planes
        group = u // (strips * planes) % groups
        n = u // (strips * planes * groups)
        cut = min({strip}, flat - p)
        source = images + (n * image + group * by_group + plane * apart + p) * {size}
        for block in range(blocks):
            biases = (group * blocks + block) * (count + 1) * {high}
            a = weights + (biases + {high}) * {size}
            have = min({high}, channels - block * {high})
            for j in range(0, cut, {wide}):
                b = source + j * {size}
                c = kept + j * {size}
                if have <= {most_few}:
                    for r in range(0, have, {low}):
                        low = a + r * {size}
                        to = c + r * {strip} * {size}
                        {few}((count, low, {size}, {high} * {size}, b, table, to, {strip} * {size}, have - r, {wide}, 0, 0, 0))
                elif cut - j > {lanes}:
                    {whole}((count, a, {size}, {high} * {size}, b, table, c, {strip} * {size}, have, {wide}, 0, 0, 0))
                else:
                    {narrow}((count, a, {size}, {high} * {size}, b, table, c, {strip} * {size}, have, {lanes}, 0, 0, 0))
            for b in range(have):
                to = (first + n) * step_n + (group * channels + block * {high} + b) * step_c + plane * step_d + begin
                bias = w[biases + b]
                at = b * {strip} - p
                {rows}
'''

# What lies in rows of the plane is written to rows of the result.
_ROWS = [
    "for h in range(p // wide, (p + cut - 1) // wide + 1):",
    [
        "left, right = max(p, h * wide), min(p + cut, h * wide + columns)",
        "o = to + h * (step_h - wide * step_w)",
        "if step_w == 1:",
        ["for j in range(left, right):", ["y[o + j] = {value}"]],
        "else:",
        ["for j in range(left, right):", ["y[o + j * step_w] = {value}"]],
    ],
]

_WEIGHTS = '''"""Sums of gradients times pixels over all pixels and images, for {outs} channels and {taps} taps at once. A row's end is
followed by gradients of 0, so a sum that is not finite, as 0 times what lies there may not be, is worked out again without them."""
from nbgrad.kernels.cpu.fold import add_up
from nbgrad.kernels.cpu.stack import stack_{code}
from nbgrad.kernels.cpu.vmath import mad
import numpy as np
from numba.extending import register_jitable


@register_jitable(error_model="numpy")
def exact(g, x, a, b, begin, end, wide, columns):
    total = {zero}
    for h in range(begin // wide, (end - 1) // wide + 1):
        for j in range(max(begin, h * wide), min(end, h * wide + columns)):
            total = mad(g[a + j], x[b + j], total)
    return total


def @NAME@(start, stop, meta, o, g, x, images):
    sums = stack_{code}({cells})
    image, by_group, groups, count, channels = meta[0], meta[1], meta[2], meta[3], meta[4]
    planes, flat, wide, apart, columns = meta[5], meta[6], meta[7], meta[8], meta[9]
    gradient, area, sheet, parts, share = meta[10], meta[11], meta[12], meta[13], meta[14]
    for u in range(start, stop):
        group = u // parts
        first = u % parts * share
        last = min(first + share, channels)
        for n in range(images):
            for plane in range(planes):
                for begin in range(0, flat, {pixels}):
                    end = min(flat, begin + {pixels})
                    rows = n * gradient + group * channels * area + plane * sheet
                    source = n * image + group * by_group + plane * apart
                    for k in range(0, count, {taps}):
                        {places}
                        for c in range(first, last, {outs}):
                            {lines}
                            {zeros}
                            for j in range(begin, end):
                                {gradients}
                                {pixels_of}
                                {add}
                            {keep}
                            for b in range(min({outs}, last - c)):
                                for t in range(min({taps}, count - k)):
                                    total = sums[b * {taps} + t]
                                    if total - total != 0:
                                        total = exact(
                                            g, x, rows + (c + b) * area, source + meta[15 + k + t], begin, end, wide, columns
                                        )
                                    o[(group * channels + c + b) * count + k + t] += total
'''

_PANELS = '''"""Copy planes of gradients so that {wide} channels lie beside one another in each pixel, with zeros where a row has ended."""
{halves}from nbgrad.kernels.cpu.memory import address_of
from nbgrad.kernels.cpu.tile import {turn}


def @NAME@(start, stop, meta, o, g, first):
    panels, groups, channels, planes, rows, columns = meta[0], meta[1], meta[2], meta[3], meta[4], meta[5]
    step_n, step_c, step_d, step_h, step_w, pitch, sheet = meta[6], meta[7], meta[8], meta[9], meta[10], meta[11], meta[12]
    for u in range(start, stop):
        panel = u // planes % panels
        group = u // (planes * panels) % groups
        source = (first + u // (planes * panels * groups)) * step_n + u % planes * step_d
        source += (group * channels + panel * {wide}) * step_c
        have = min({wide}, channels - panel * {wide})
        for h in range(rows):
            p, q = source + h * step_h, u * sheet + h * pitch * {wide}
            {copy}
            for j in range(columns * {wide}, pitch * {wide}):
                o[q + j] = 0
'''
_TURN = [
    "for e in range(0, have, {lanes}):",
    [
        "at, to = address_of(g) + (p + e * step_c) * {size}, address_of(o) + (q + e) * {size}",
        "{turn}((at, step_c * {size}, have - e, to, {wide} * {size}, columns))",
    ],
]
_ONE_BY_ONE = [
    "for c in range(have):",
    ["for j in range(columns):", ["o[q + j * {wide} + c] = {value}"]],
]

_WEIGHTS_TILED = '''"""Sums of gradients times pixels over pixels and images, by a tile of {high} taps and {wide} channels."""
from nbgrad.kernels.cpu.memory import address_of
from nbgrad.kernels.cpu.tile import {tile}


def @NAME@(start, stop, meta, o, g, x, images):
    image, by_group, count, planes, flat, apart = meta[0], meta[1], meta[2], meta[3], meta[4], meta[5]
    gradient, sheet, panels, parts, share = meta[6], meta[7], meta[8], meta[9], meta[10]
    table, step = address_of(meta) + 11 * 8, panels * {wide} * {size}
    for u in range(start, stop):
        group = u // parts
        first = u % parts * share
        last = min(first + share, count)
        for n in range(images):
            for plane in range(planes):
                for begin in range(0, flat, {pixels}):
                    many = min({pixels}, flat - begin)
                    a = address_of(x) + (n * image + group * by_group + plane * apart + begin) * {size}
                    for panel in range(panels):
                        b = n * gradient + ((group * panels + panel) * planes + plane) * sheet + begin * {wide}
                        b = address_of(g) + b * {size}
                        for t in range(first, last, {high}):
                            c = address_of(o) + (group * count + t) * step + panel * {wide} * {size}
                            {tile}((many, a, table + 8 * t, {size}, b, {wide} * {size}, c, step, last - t, {wide}, {MORE}, 0, 0))
'''

_TURNED = '''"""Turn sums, which have their channels beside one another, into weights, and count those that are not finite."""
{halves}

def @NAME@(start, stop, meta, o, x, odd):
    channels, count, width = meta[0], meta[1], meta[2]
    found = 0
    for u in range(start, stop):
        group = u // meta[3]
        first = u % meta[3] * 16
        for begin in range(0, count, 16):
            for c in range(first, min(first + 16, channels)):
                for k in range(begin, min(begin + 16, count)):
                    value = x[(group * count + k) * width + c]
                    found += value - value != 0
                    o[(group * channels + c) * count + k] = {value}
    if found:
        odd[0] = 1
'''


@cached(16)
def margins(code: str) -> tuple[str, tuple[str, ...]]:
    """Of images into a room; `first` is the image that the room begins with. `meta` ends with where each phase begins in an image, in
    each dimension, and between which of its columns those of phases have elements of the image."""
    plain, apart = widened("x[p + j]", code), widened("x[p + j * along]", code)
    text = fill(_MARGINS, halves=halves((code,)), plain=plain, apart=apart)
    return text, ("i8", "i8", "*i8", f"*{computed(code)}", f"*{code}", "i8")


@cached(64)
def blocks(code: str, outs: int) -> tuple[str, tuple[str, ...]]:
    """Of weights into a room. `meta` ends with the place of each tap of each channel in the weights of a channel."""
    text = fill(
        _BLOCKS,
        halves=halves((code,)),
        outs=outs,
        weight=widened("w[p + meta[6 + k]]", code),
        bias=widened(f"bias[u // blocks * channels + u % blocks * {outs} + b]", code),
    )
    return text, ("i8", "i8", "*i8", f"*{computed(code)}", f"*{code}", f"*{code}")


@cached(256)
def sums(code: str, outs: int, taps: int) -> tuple[str, tuple[str, ...]]:
    """Of the rooms into a result. `meta` ends with where each tap of each channel lies in an image."""
    own, strip = computed(code), strip_of(outs)

    def added(b: int, count: int) -> str:
        total = f"sums[{b * strip} + j]"
        for t in range(count):
            total = f"mad(w{b}_{t}, x{t}, {total})" if own[0] == "f" else f"{total} + w{b}_{t} * x{t}"
        return f"sums[{b * strip} + j] = {total}"

    each, every = range(outs), range(taps)
    text = fill(
        _SUMS,
        halves=halves((code,)),
        code=own,
        outs=outs,
        taps=taps,
        strip=strip,
        room=outs * strip,
        lanes=LANES,
        places=[f"p{t} = source + meta[18 + k + {t}]" for t in every],
        weights=[f"w{b}_{t} = w[q + (k + {t}) * {outs} + {b}]" for t in every for b in each],
        pixels=[f"x{t} = x[p{t} + j]" for t in every],
        add=[added(b, taps) for b in each],
        weight=[f"w{b}_0 = w[q + k * {outs} + {b}]" for b in each],
        add_one=[added(b, 1) for b in each],
        rows=_rows(code),
    )
    return text, ("i8", "i8", "*i8", f"*{code}", f"*{own}", f"*{own}", "i8")


def _rows(code: str) -> Lines:
    return _formatted(_ROWS, {"value": narrowed("sums[at + j] + bias", code)})


def _formatted(lines: Lines, holes: dict[str, object]) -> Lines:
    return [line.format_map(holes) if isinstance(line, str) else _formatted(line, holes) for line in lines]


def tiled_strip(code: str, bits: int) -> int:
    """Whole tiles."""
    _, vectors, lanes = SHAPES[bits][code]
    return TILED_STRIP // (vectors * lanes) * vectors * lanes


@cached(16)
def tiled(code: str, bits: int) -> tuple[str, tuple[str, ...]]:
    """The same by tiles on vectors of so many bits; `meta` ends with places in bytes. A sum has the same bits."""
    own = computed(code)
    (high, low), vectors, lanes = SHAPES[bits][own]
    text = fill(
        _TILED,
        halves=halves((code,)),
        code=own,
        size=own[1],
        high=high,
        low=low,
        most_few=low * ((high - 1) // low),
        wide=vectors * lanes,
        lanes=lanes,
        strip=tiled_strip(own, bits),
        room=high * tiled_strip(own, bits),
        places=PLACES,
        whole=f"tabled_{own}_{high}x{vectors}x{lanes}",
        narrow=f"tabled_{own}_{high}x1x{lanes}",
        few=f"tabled_{own}_{low}x{vectors}x{lanes}",
        rows=_rows(code),
    )
    return text, ("i8", "i8", "*i8", f"*{code}", f"*{own}", f"*{own}", "i8")


def strip_of(outs: int) -> int:
    return STRIP // outs // LANES * LANES


@cached(256)
def weights(code: str, outs: int, taps: int) -> tuple[str, tuple[str, ...]]:
    """Of the rooms of gradients and images, added to what is there. `meta` ends with where each tap of each channel lies in an image."""
    each, every = range(outs), range(taps)
    text = fill(
        _WEIGHTS,
        code=code,
        outs=outs,
        taps=taps,
        cells=outs * taps,
        pixels=PIXELS,
        zero="np.float32(0)" if code == "f4" else "0.0",
        places=[f"p{t} = source + meta[15 + min(k + {t}, count - 1)]" for t in every],
        lines=[f"r{b} = rows + min(c + {b}, last - 1) * area" for b in each],
        zeros=[f"s{b}_{t} = {'np.float32(0)' if code == 'f4' else '0.0'}" for b in each for t in every],
        gradients=[f"g{b} = g[r{b} + j]" for b in each],
        pixels_of=[f"x{t} = x[p{t} + j]" for t in every],
        add=[f"s{b}_{t} = add_up(s{b}_{t}, g{b} * x{t})" for b in each for t in every],
        keep=[f"sums[{b * taps + t}] = s{b}_{t}" for b in each for t in every],
    )
    return text, ("i8", "i8", "*i8", f"*{code}", f"*{code}", f"*{code}", "i8")


@cached(16)
def panels(code: str, bits: int, vectors: int, lines: bool) -> tuple[str, tuple[str, ...]]:
    """Of gradients into a room, for tiles of so many vectors; of which rows are `lines` or not, so that vectors can turn them."""
    own = computed(code)
    lanes = SHAPES[bits][own].lanes
    holes = dict(wide=vectors * lanes, lanes=lanes, size=own[1], turn=f"turn_{own}_{lanes}")
    holes |= dict(halves=halves((code,)), value=widened("g[p + c * step_c + j * step_w]", code))
    copy = _formatted(_TURN if lines and code == own else _ONE_BY_ONE, holes)
    return fill(_PANELS, copy=copy, **holes), ("i8", "i8", "*i8", f"*{own}", f"*{code}", "i8")


@cached(16)
def weights_tiled(code: str, bits: int, vectors: int) -> tuple[str, tuple[str, ...]]:
    """Of the rooms of panels and images, added to sums that have their channels beside one another."""
    (high, _), _, lanes = SHAPES[bits][code]
    text = fill(
        _WEIGHTS_TILED,
        high=high,
        wide=vectors * lanes,
        size=code[1],
        pixels=TILED_PIXELS,
        tile=f"lined_{code}_{high}x{vectors}x{lanes}",
        MORE=MORE,
    )
    return text, ("i8", "i8", "*i8", f"*{code}", f"*{code}", f"*{code}", "i8")


@cached(16)
def turned(code: str) -> tuple[str, tuple[str, ...]]:
    own = computed(code)
    text = fill(_TURNED, halves=halves((code,)), value=narrowed("value", code))
    return text, ("i8", "i8", "*i8", f"*{code}", f"*{own}", "*i8")
