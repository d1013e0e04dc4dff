"""Products of matrices by the register tile (`kernels/tile.py`), as a kernel over tiles of rows; of rows with one vector; and of
many matrices of a few numbers, written out.

An item is one tile's height of rows of one matrix of the batch, in one of the groups of columns that a matrix is cut into. Items
that follow one another share what is copied: `k` is taken in parts; of each part `x` is copied first, if at all, to the items' place in
`room`; then each strip of `y` of the tile's width, if at all, to the stack, in lines that lie behind one another. A part is a chain of
fused multiplications and additions from 0, k ascending, and is added to those before. So the bits of an element depend on its row,
its column and the length of a part, and on nothing else: not on who took which items, on what was copied, or on the tile.

Of a small result with a long `k` an item is only one part of it, which is kept apart; parts are then added up in their order, so that
the bits are the same again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as product_of

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS
from nbgrad.kernels.tile import HALF, LINE, MORE, QUARTER, SHAPES

# How an operand is read: where it lies; copied along the rows of what is written; turned, or by columns.
AS_IT_LIES, COPIED, TURNED = 0, 1, 2
PART = 384  # of k, at most
BLOCK = (
    192 * PART
)  # numbers of x, 0.3 MB, for whose rows one strip of y, of up to 51 KB, is copied at a time, and they too
PAD = 16  # elements behind a row that is copied, so that rows do not lie in the same lines of a cache

_ROWS_OF = '''@register_jitable(error_model="numpy")
def rows_of(k, a, row, along, b, ldb, c, ldc, have, columns, how, d, ldd):
    """The rows `have` of a strip of columns."""
    while have > 0:
        if have > {few}:
            if columns >= {wide}:
                {outer}((k, a, row, along, b, ldb, c, ldc, have, columns, how, d, ldd))
            elif columns > {lanes}:
                {edge}((k, a, row, along, b, ldb, c, ldc, have, columns, how, d, ldd))
            else:
                {narrow}((k, a, row, along, b, ldb, c, ldc, have, columns, how, d, ldd))
            done = {high}
        else:
            {low_edge}((k, a, row, along, b, ldb, c, ldc, have, columns, how, d, ldd))
            done = {low}
        have -= done
        a += done * row
        c += done * ldc
        d += done * ldd'''

_SOURCE = '''"""Products of a batch by tiles of {high} rows: items start..stop, counted through the rows, groups of columns and matrices."""
from nbgrad.kernels.cpu.memory import address_of
from nbgrad.kernels.cpu.stack import stack_{code}
from nbgrad.kernels.cpu.tile import {names}
from numba.extending import register_jitable


{rows_of}


@register_jitable(error_model="numpy")
def keep(x, row, along, m, k, copied, room, step):
    """Rows of x in `room`, a tile's height `step` bytes from the next."""
    for i in range(0, m, {high}):
        a = x + i * row
        have = min({high}, m - i)
        if copied == {COPIED}:
            for p in range(0, k, {wide}):
                {move}((a + p * {size}, row, room + p * {size}, step // {high}, have, k - p))
        else:
            {keep_columns}((a, along, room, {high} * {size}, k, have))
        room += step


@register_jitable(error_model="numpy")
def strips(x, row, along, copied, room, step, y, down, across, turned, panel, c, ldc, m, n, k, how, d, ldd):
    """Rows and columns of one matrix, for one part of k."""
    j = 0
    if m == 1 and turned == {AS_IT_LIES}:
        while n - j >= {long}:
            {line}((k, x, row, along, y + j * across, down, c + j * {size}, ldc, 1, {long}, how, d + j * {size}, ldd))
            j += {long}
        if n - j >= {long} // 2:
            {half}((k, x, row, along, y + j * across, down, c + j * {size}, ldc, 1, {long} // 2, how, d + j * {size}, ldd))
            j += {long} // 2
        if n - j >= {long} // 4:
            {quarter}((k, x, row, along, y + j * across, down, c + j * {size}, ldc, 1, {long} // 4, how, d + j * {size}, ldd))
            j += {long} // 4
    while j < n:
        columns = n - j
        b = y + j * across
        ldb = down
        if turned == {COPIED}:
            {move}((b, down, panel, {wide} * {size}, k, columns))
        elif turned == {TURNED}:
            for e in range(0, min({wide}, columns), {lanes}):
                {turn}((b + e * across, across, columns - e, panel + e * {size}, {wide} * {size}, k))
        if turned != {AS_IT_LIES}:
            b = panel
            ldb = {wide} * {size}
        if copied == {AS_IT_LIES}:
            rows_of(k, x, row, along, b, ldb, c + j * {size}, ldc, m, columns, how, d + j * {size}, ldd)
        else:
            for t in range(0, m, {high}):
                a = room + t // {high} * step
                have = min({high}, m - t)
                at = c + j * {size} + t * ldc
                dt = d + j * {size} + t * ldd
                if copied == {COPIED}:
                    rows_of(k, a, step // {high}, {size}, b, ldb, at, ldc, have, columns, how, dt, ldd)
                else:
                    rows_of(k, a, {size}, {high} * {size}, b, ldb, at, ldc, have, columns, how, dt, ldd)
        j += {wide}


def @NAME@(start, stop, x, y, o, room, d, numbers):
    tiles, groups, m, n, k, part, width, then, cuts = {first}
    x_matrix, row, along, copied, step, y_matrix, down, across, turned, d_matrix, ldd = {second}
    strip = stack_{code}({panel})
    panel = address_of(strip)
    ldc = n * {size}
    at = start
    while at < stop:
        first = at % tiles
        group = at // tiles
        piece = group // groups
        matrix, begin, end = piece, 0, k
        if cuts > 1:
            matrix = piece // cuts
            begin = (piece - matrix * cuts) * part
            end = min(begin + part, k)
        count = min(tiles - first, stop - at, {block} // part)
        i = first * {high}
        j = group % groups * width
        rows = min(count * {high}, m - i)
        c = o + piece * m * ldc + i * ldc + j * {size}
        add = d + matrix * d_matrix + i * ldd + j * {size}
        xi = x + matrix * x_matrix + i * row
        yj = y + matrix * y_matrix + j * across
        kept = room + at * step
        p = begin
        while p < end:
            length = min(part, end - p)
            how = {MORE} if p > begin else 0
            if p + length == k:
                how += then
            if copied != {AS_IT_LIES}:
                keep(xi + p * along, row, along, rows, length, copied, kept, step)
            a = xi + p * along
            b = yj + p * down
            columns = min(width, n - j)
            strips(a, row, along, copied, kept, step, b, down, across, turned, panel, c, ldc, rows, columns, length, how, add, ldd)
            p += length
        at += count
'''


def rows_of(code: str, bits: int) -> tuple[str, set[str]]:
    """A kernel's function that multiplies rows by a strip of at most a tile's columns, and the tiles that it calls."""
    (high, low), most, lanes = SHAPES[bits][code]
    of = f"{most}x{lanes}"
    tiles = {
        "outer": f"outer_{code}_{high}x{of}",
        "edge": f"edge_{code}_{high}x{of}",
        "narrow": f"edge_{code}_{high}x1x{lanes}",
        "low_edge": f"edge_{code}_{low}x{of}",
    }
    sizes = {"high": high, "low": low, "few": low * ((high - 1) // low), "wide": most * lanes, "lanes": lanes}
    return _ROWS_OF.format(**tiles, **sizes), {*tiles.values()}


def product(code: str, bits: int) -> tuple[str, Sequence[str]]:
    """The kernel on vectors of so many bits, and its parameters."""
    (high, _), most, lanes = SHAPES[bits][code]
    size, wide = int(code[1]), most * lanes
    of = f"{most}x{lanes}"
    strip, tiles = rows_of(code, bits)
    functions = {
        "line": f"outer_{code}_1x{LINE}x{lanes}",
        "half": f"outer_{code}_1x{HALF}x{lanes}",
        "quarter": f"outer_{code}_1x{QUARTER}x{lanes}",
        "move": f"move_{code}_{of}",
        "keep_columns": f"move_{code}_{-(-high // lanes)}x{lanes}",
        "turn": f"turn_{code}_{lanes}",
    }
    numbers = [f"numbers[{k}]" for k in range(20)]
    source = _SOURCE.format(
        **functions,
        **{"names": ", ".join(sorted({*functions.values(), *tiles})), "code": code, "size": size},
        **{"rows_of": strip, "high": high, "wide": wide, "lanes": lanes},
        **{"long": LINE * lanes, "panel": (PART + lanes) * wide, "block": BLOCK // high},
        **{"first": ", ".join(numbers[:9]), "second": ", ".join(numbers[9:])},
        **{"MORE": MORE, "COPIED": COPIED, "TURNED": TURNED, "AS_IT_LIES": AS_IT_LIES},
    )
    return source, ["i8"] * 7 + ["*i8"]


RUN = 4096  # products that are added up before they are added to others
SUMS = 1024  # numbers of a result that stay in the nearest cache while parts are added to them

_DOTS = '''"""Rows of x with one vector y: rows start..stop, counted through all runs of all matrices of a batch, four at a time."""
from nbgrad.kernels.cpu.memory import address_of, at_{code}
from nbgrad.kernels.cpu.stack import stack_{code}
from nbgrad.kernels.cpu.tile import {dots}


def @NAME@(start, stop, x, y, o, numbers):
    rows, k, x_matrix, row, y_matrix, cuts = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
    out = at_{code}(o)
    more = stack_{code}(4)
    item = start
    while item < stop:
        piece = item // rows
        matrix = piece // cuts
        first = item - piece * rows
        have = min(4, rows - first, stop - item)
        a = x + matrix * x_matrix + first * row
        b = y + matrix * y_matrix
        begin = (piece - matrix * cuts) * {RUN}
        {dots}((min({RUN}, k - begin), a + begin * {size}, row, b + begin * {size}, have, o + item * {size}))
        for p in range({RUN}, k if cuts == 1 else 0, {RUN}):
            {dots}((min({RUN}, k - p), a + p * {size}, row, b + p * {size}, have, address_of(more)))
            for e in range(have):
                out[item + e] += more[e]
        item += have
'''
_INTEGER_DOTS = '''"""Rows of x with one vector y: rows start..stop, counted through all matrices of a batch."""


def @NAME@(start, stop, x, y, o, numbers):
    rows, k, x_matrix, row, y_matrix = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    for item in range(start, stop):
        matrix = item // rows
        a = (matrix * x_matrix + (item - matrix * rows) * row) // {size}
        b = matrix * y_matrix // {size}
        total = 0
        for p in range(k):
            total += x[a + p] * y[b + p]
        o[item] = total
'''


def dots(code: str) -> tuple[str, Sequence[str]]:
    """`numbers` are how many rows a matrix has, their length, and in bytes how far matrices and rows of x are apart, and vectors y; and of
    floats how many runs of a row are kept apart, or 1. A row's bits depend on its numbers alone."""
    size = int(code[1])
    if code[0] == "i":
        return _INTEGER_DOTS.format(size=size), ["i8", "i8", *["*" + code] * 3, "*i8"]
    name = f"dots_{code}_4x2x{32 // size}"
    return _DOTS.format(code=code, dots=name, RUN=RUN, size=size), ["i8"] * 5 + ["*i8"]


_ADDED_UP = '''"""Parts of products, added in their order: numbers start..stop of the results, counted through all matrices of a batch."""


def @NAME@(start, stop, parts, o, numbers):
    count, size = numbers[0], numbers[1]
    at = start
    while at < stop:
        matrix = at // size
        have = min((matrix + 1) * size - at, stop - at, {block})
        p = at + matrix * (count - 1) * size
        for e in range(have):
            o[at + e] = parts[p + e]
        for part in range(1, count):
            q = p + part * size
            for e in range(have):
                o[at + e] += parts[q + e]
        at += have
'''


def added_up(code: str) -> tuple[str, Sequence[str]]:
    """`numbers` are how many parts a result has, and how many numbers."""
    return _ADDED_UP.format(block=SUMS), ["i8", "i8", "*" + code, "*" + code, "*i8"]


_WRITTEN_OUT = '''"""Products of a batch, each of {m} x {k} numbers with {k} x {n}."""
import numpy as np
from nbgrad.kernels.cpu.vmath import mad
F = {scalar}


def @NAME@(start, stop, x, y, o, numbers):
    x_matrix, x_down, x_along = numbers[0], numbers[1], numbers[2]
    y_matrix, y_down, y_along = numbers[3], numbers[4], numbers[5]
    for item in range(start, stop):
        p, q = item * x_matrix, item * y_matrix
        {read}
        {summed}
        {written}
'''


@cached(256)
def written_out(code: str, m: int, k: int, n: int) -> tuple[str, Sequence[str]]:
    """`numbers` are how far matrices, rows and columns of x are apart, then those of y. An element's bits are those of the tile."""

    def total(i: int, j: int) -> str:
        text = "F(0)"
        for e in range(k):
            pair = f"x{i}{e}", f"y{e}{j}"
            text = (
                f"mad({pair[0]}, {pair[1]}, {text})" if code[0] == "f" else f"{text} + {pair[0]} * {pair[1]}"
            )
        return text

    cells = list(product_of(range(m), range(n)))
    read = [f"x{i}{j} = x[p + {i} * x_down + {j} * x_along]" for i, j in product_of(range(m), range(k))]
    read += [f"y{i}{j} = y[q + {i} * y_down + {j} * y_along]" for i, j in product_of(range(k), range(n))]
    source = fill(
        _WRITTEN_OUT,
        **dict(m=m, k=k, n=n, scalar=SCALARS[code], read=read),
        summed=[f"o{i}{j} = {total(i, j)}" for i, j in cells],
        written=[f"o[item * {m * n} + {i * n + j}] = o{i}{j}" for i, j in cells],
    )
    return source, ["i8", "i8", *["*" + code] * 3, "*i8"]
