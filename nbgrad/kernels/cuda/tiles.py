"""Products of matrices by tiles, of which a block keeps some columns of x and as many rows of y in shared memory at a time.

Promises what `products.product` gives, of matrices that lie in any way: a tile is read along what is neighbouring. A thread has 4 x 4
elements of a tile of 64 x 64, or 8 x 8 of one of 128 x 128, each added up in its order.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS, computed, halves, read, write

_TILES = '''"""Products of matrices by tiles of {side} x {side}."""
{imports}
import numpy as np
A = {scalar}


def @NAME@(items, meta, o, x, y):
    left = cuda.shared.array({room}, A)
    right = cuda.shared.array({room}, A)
    sums = cuda.local.array({cells}, A)
    thread = cuda.threadIdx.x
    rows = meta[0]
    columns = meta[1]
    depth = meta[2]
    along = thread & 15
    down = thread >> 4
    across = (columns + {last}) // {side}
    tiles = (rows + {last}) // {side} * across
    for tile in range(cuda.blockIdx.x, items // (rows * columns) * tiles, cuda.gridDim.x):
        matrix = tile // tiles
        top = (tile - matrix * tiles) // across * {side}
        edge = (tile - matrix * tiles) % across * {side}
        {cleared}
        for first in range(0, depth, {deep}):
            for turn in range(4):
                e = thread + 256 * turn
                k = e & {last_deep} if meta[5] == 1 else e >> {side_bits}
                r = e >> {deep_bits} if meta[5] == 1 else e & {last}
                at = matrix * meta[3] + (top + r) * meta[4] + (first + k) * meta[5]
                v = A(0)
                if top + r < rows and first + k < depth:
                    v = A({x})
                left[k * {pitch} + r] = v
                k = e >> {side_bits} if meta[8] == 1 else e & {last_deep}
                r = e & {last} if meta[8] == 1 else e >> {deep_bits}
                at = matrix * meta[6] + (first + k) * meta[7] + (edge + r) * meta[8]
                v = A(0)
                if edge + r < columns and first + k < depth:
                    v = A({y})
                right[k * {pitch} + r] = v
            cuda.syncthreads()
            for k in range({deep}):
                {added}
            cuda.syncthreads()
        {written}
'''


def sizes(side: int) -> dict[str, int]:
    """Of what a block shares: so many elements a side, 1024 at a time, rows of them one further apart, so that banks differ."""
    bits = side.bit_length() - 1
    deep = 1024 // side
    made = {"side": side, "last": side - 1, "side_bits": bits, "pitch": side + 1}
    made |= {"deep": deep, "last_deep": deep - 1, "deep_bits": 10 - bits}
    return made | {"room": deep * (side + 1), "cells": (side // 16) ** 2}


def cleared(side: int) -> list[str]:
    return [f"sums[{k}] = A(0)" for k in range((side // 16) ** 2)]


def added(side: int) -> list[str]:
    """A thread's products of the `k`-th of what is shared."""
    each, pitch = range(side // 16), side + 1
    lines = [f"x{i} = left[k * {pitch} + down + {16 * i}]" for i in each]
    lines += [f"y{j} = right[k * {pitch} + along + {16 * j}]" for j in each]
    cells = [(i, j, i * len(each) + j) for i in each for j in each]
    return lines + [f"sums[{cell}] = A(sums[{cell}] + x{i} * y{j})" for i, j, cell in cells]


def product(code: str, side: int) -> Own:
    """Of a dtype, by tiles of so many elements a side; what is narrow is added up in float32."""
    kind = computed(code)
    each = range(side // 16)
    written: list[Lines | str] = []
    for i in each:
        written += [f"row = top + down + {16 * i}", "place = (matrix * rows + row) * columns + edge + along"]
        for j in each:
            result = write(f"sums[{len(each) * i + j}]", code, kind)
            written += [
                f"if row < rows and edge + along + {16 * j} < columns:",
                [f"o[place + {16 * j}] = {result}"],
            ]
    source = fill(
        _TILES,
        imports=halves((code,)),
        scalar=SCALARS[kind],
        x=read("x[at]", code, kind, False),
        y=read("y[at]", code, kind, False),
        cleared=cleared(side),
        added=added(side),
        written=written,
        **sizes(side),
    )
    return Own(source, ("i8", "*i8", "*" + code, "*" + code, "*" + code), side * side)
