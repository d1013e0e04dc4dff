"""Convolution as source: images copied with their margins, weights in blocks, and the sums of products between them.

Promises the ops that no buffer of patches exists. An image is copied once, split by the stride into phases (every s-th row and column), so
that what a tap reads of all pixels lies in a row: it is the image from an offset on, and a table holds the offset of each tap of each
channel. So the pixels of a plane are one flat axis, along which LLVM has vectors; what it holds past the end of a row is dropped.

What a group of few channels reads, and of tensors of float32 and float64, a kernel copies itself, band of rows by band, and all is made of
that in one launch: 32 images of 128 planes of 28 x 28 wait for memory else. There each row is by itself, and no more is computed.

A sum has one order, whoever computes it: over channels and taps, fused, in each pixel; over pixels and images in each weight.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import computed, halves, narrowed, widened
from nbgrad.kernels.tile import MORE, SHAPES, WINDOW

STRIP = 1024  # elements of the sums that are worked on at once, which stay in the nearest cache
TILED_STRIP = 256  # pixels, at most, that the tile works on, all channels in turn
PIXELS = 2048  # that a gradient by weights multiplies before it adds them up
TILED_PIXELS = 512  # and by the tile, to which they are rows
LANES = 16  # a strip is worked on in vectors of so many
BEYOND = 32  # elements past an image that may be read, of a strip that is longer than what is left
PLACES = 18  # of `meta`, from which on the table stands
NEAR = 6144  # elements of what a group of few channels reads, which fit in the nearest cache, in a room of the kernel's own
MOST = 288  # weights of a channel that are so computed, and of neighbouring groups for a gradient
NEAR_HEAD, NEAR_PART = 9, 10  # numbers of `meta` before parts of a result, and of a part before its places

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

# A band of rows of one plane, laid out as `_MARGINS` does. What is left and right of an image stays zero from the beginning.
_NEAR = """@register_jitable(error_model="numpy")
def near(lies, o, q, x, source, first):
    step_d, step_h, step_w = lies[4], lies[5], lies[6]
    size_d, size_h = lies[7], lies[8]
    by_d, by_h, by_w = lies[10], lies[11], lies[12]
    deep, high, wide = lies[13], lies[14], lies[15]
    many_d, many_h, many_w = lies[16], lies[17], lies[18]
    along = by_w * step_w
    rows = 19 + many_d + many_h
    for phase in range(many_d * many_h * many_w):
        begin_d = lies[19 + phase // (many_h * many_w)]
        begin_h = lies[19 + many_d + phase // many_w % many_h] + first * by_h
        place = rows + phase % many_w
        begin, low, top = lies[place], lies[place + many_w], lies[place + 2 * many_w]
        above = min(high, max(0, (by_h - 1 - begin_h) // by_h))
        below = max(above, min(high, (size_h - 1 - begin_h) // by_h + 1))
        for i in range(deep):
            d = i * by_d + begin_d
            start, end = above, below
            if d < 0 or d >= size_d:
                start, end = high, high
            p = source + d * step_d + begin_h * step_h + begin * step_w
            for k in range(start):
                for j in range(low, top):
                    o[q + k * wide + j] = 0
            if along == 1:
                a = address_of(x) + (p + start * by_h * step_h) * {size}
                b = address_of(o) + (q + start * wide) * {size}
                for j in range((top - low - 1) // {step} * {step} + low, low - 1, -{step}):
                    {move}((a + j * {size}, by_h * step_h * {size}, b + j * {size}, wide * {size}, end - start, top - j))
            else:
                for k in range(start, end):
                    for j in range(low, top):
                        o[q + k * wide + j] = x[p + k * by_h * step_h + j * along]
            for k in range(end, high):
                for j in range(low, top):
                    o[q + k * wide + j] = 0
            q += high * wide"""
_ALONE = '''"""Sums of weights times pixels for groups of few channels: what a band of rows reads is copied near, and all is made of it."""
from nbgrad.kernels.cpu.memory import address_of
from nbgrad.kernels.cpu.stack import stack_{code}
from nbgrad.kernels.cpu.tile import {move}, {taps}
from numba.extending import register_jitable


{near}


def @NAME@(start, stop, meta, lies, y, x, w, bias):
    room = stack_{code}({room})
    held = stack_{code}({most})
    made = stack_{code}({low} * {wide})
    added = stack_{code}(1)
    for j in range({room}):
        room[j] = 0
    groups, reduced, outs, bands, high, parts = meta[0], meta[1], meta[2], meta[3], meta[4], meta[5]
    by_group, by_out, biased = meta[6], meta[7], meta[8]
    plane, pitch, sheet = lies[1], lies[15], lies[14] * lies[15]
    for u in range(start, stop):
        first = u % bands * high
        group = u // bands % groups
        n = u // (bands * groups)
        for c in range(reduced):
            near(lies, room, c * plane, x, n * lies[2] + (group * reduced + c) * lies[3], first)
        m = {head}
        for part in range(parts):
            count, planes, rows, columns = meta[m], meta[m + 1], min(high, meta[m + 2] - first), meta[m + 3]
            step_n, step_c, step_d, step_h, step_w = meta[m + 4], meta[m + 5], meta[m + 6], meta[m + 7], meta[m + 8]
            begin = meta[m + 9] + first * step_h
            m += {part_head}
            table = address_of(meta) + m * 8
            for out in range(outs):
                for k in range(count):
                    held[k] = w[group * by_group + out * by_out + meta[m + count + k]]
                added[0] = 0
                if biased:
                    added[0] = bias[group * outs + out]
                for sheets in range(planes):
                    to = n * step_n + (group * outs + out) * step_c + sheets * step_d + begin
                    for r in range(0, rows, {low}):
                        for j in range(0, columns, {wide}):
                            b = address_of(room) + (sheets * sheet + r * pitch + j) * {size}
                            c = address_of(y) + (to + r * step_h + j) * {size}
                            ldc = step_h * {size}
                            if step_w != 1:
                                c, ldc = address_of(made), {wide} * {size}
                            {taps}((count, address_of(held), b, table, pitch * {size}, c, ldc, rows - r, columns - j, address_of(added)))
                            if step_w != 1:
                                for i in range(min({low}, rows - r)):
                                    for e in range(min({wide}, columns - j)):
                                        y[to + (r + i) * step_h + (j + e) * step_w] = made[i * {wide} + e]
            m += 2 * count
'''

_WEIGHTS_ALONE = '''"""Sums of gradients times pixels for groups of few channels, of which each band of each image is copied near once."""
from nbgrad.kernels.cpu.memory import address_of
from nbgrad.kernels.cpu.stack import stack_{code}
from nbgrad.kernels.cpu.tile import {move}, {shifts}
from numba.extending import register_jitable


{near}


def @NAME@(start, stop, meta, lies, o, g, x):
    room = stack_{code}({room})
    sums = stack_{code}({most} * {lanes})
    for j in range({room}):
        room[j] = 0
    images, groups, share, reduced, outs, bands, high, count = {first}
    planes, height, columns = meta[8], meta[9], meta[10]
    step_n, step_c, step_d, step_h = meta[11], meta[12], meta[13], meta[14]
    table, blocks = address_of(meta) + 15 * 8, (count + {places} - 1) // {places}
    plane, pitch, sheet = lies[1], lies[15], lies[14] * lies[15]
    vectors = blocks * {places}
    for u in range(start, stop):
        begin, end = u * share, min(groups, (u + 1) * share)
        for j in range((end - begin) * outs * vectors * {lanes}):
            sums[j] = 0
        for piece in range(images * bands):
            n, first = piece // bands, piece % bands * high
            rows = min(high, height - first)
            for group in range(begin, end):
                for c in range(reduced):
                    near(lies, room, c * plane, x, n * lies[2] + (group * reduced + c) * lies[3], first)
                for out in range(outs):
                    to = address_of(sums) + ((group - begin) * outs + out) * vectors * {lanes} * {size}
                    for sheets in range(planes):
                        p = n * step_n + (group * outs + out) * step_c + sheets * step_d + first * step_h
                        for t in range(0, vectors, {places}):
                            for j in range(0, columns, {lanes}):
                                a = address_of(g) + (p + j) * {size}
                                b = address_of(room) + (sheets * sheet + j) * {size}
                                kept = to + t * {lanes} * {size}
                                {shifts}((rows, a, step_h * {size}, b, pitch * {size}, table + t * 8, count - t, columns - j, kept))
        for c in range((end - begin) * outs):
            for k in range(count):
                q = (c * vectors + k) * {lanes}
                half = {lanes} // 2
                while half > 0:
                    for e in range(half):
                        sums[q + e] += sums[q + half + e]
                    half //= 2
                o[(begin * outs + c) * count + k] = sums[q]
'''

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


def _near(code: str, bits: int) -> dict[str, object]:
    """The text of `near` and what it needs, for templates."""
    (_, low), vectors, lanes = SHAPES[bits][code]
    holes = {"size": code[1], "step": vectors * lanes, "move": f"move_{code}_{vectors}x{lanes}"}
    near = fill(_NEAR, **holes)
    return dict(
        code=code,
        near=near,
        room=NEAR + BEYOND,
        low=low,
        wide=vectors * lanes,
        lanes=lanes,
        most=MOST,
        **holes,
    )


@cached(16)
def alone(code: str, bits: int) -> tuple[str, tuple[str, ...]]:
    """Of a tensor and weights where they lie into a result. `meta` holds, behind its head, of each part of the result where its taps lie
    in what was copied, in bytes, and where in the weights of a channel; `lies` is as for `margins`."""
    _, vectors, lanes = SHAPES[bits][code]
    near = _near(code, bits)
    taps = f"taps_{code}_{near['low']}x{vectors}x{lanes}"
    text = fill(_ALONE, taps=taps, head=NEAR_HEAD, part_head=NEAR_PART, **near)
    return text, ("i8", "i8", "*i8", "*i8", *[f"*{code}"] * 4)


@cached(16)
def weights_alone(code: str, bits: int) -> tuple[str, tuple[str, ...]]:
    """Of tensors where they lie into weights. `meta` ends with where taps lie in what was copied, in bytes."""
    near = _near(code, bits)
    first = ", ".join([f"meta[{k}]" for k in range(8)])
    shifts = f"shifts_{code}_{WINDOW}x{near['lanes']}"
    text = fill(_WEIGHTS_ALONE, first=first, shifts=shifts, places=WINDOW, **near)
    return text, ("i8", "i8", "*i8", "*i8", *[f"*{code}"] * 3)


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
