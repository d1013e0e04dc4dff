"""Products of matrices by tiles of 64 x 64, for which a block keeps 16 columns of x and 16 rows of y in shared memory at a time.

Promises what `products.product` gives, of matrices that lie in any way: a tile is read along what is neighbouring. A thread has 4 x 4
elements of the result, each added up in its order.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS, computed, halves, read, write

_TILES = '''"""Products of matrices by tiles of 64 x 64."""
{imports}
import numpy as np
A = {scalar}


def @NAME@(items, meta, o, x, y):
    left = cuda.shared.array(1040, A)
    right = cuda.shared.array(1040, A)
    sums = cuda.local.array(16, A)
    thread = cuda.threadIdx.x
    rows = meta[0]
    columns = meta[1]
    depth = meta[2]
    along = thread & 15
    down = thread >> 4
    across = (columns + 63) // 64
    tiles = (rows + 63) // 64 * across
    for tile in range(cuda.blockIdx.x, items // (rows * columns) * tiles, cuda.gridDim.x):
        matrix = tile // tiles
        top = (tile - matrix * tiles) // across * 64
        edge = (tile - matrix * tiles) % across * 64
        {cleared}
        for first in range(0, depth, 16):
            for turn in range(4):
                e = thread + 256 * turn
                k = e & 15 if meta[5] == 1 else e >> 6
                r = e >> 4 if meta[5] == 1 else e & 63
                at = matrix * meta[3] + (top + r) * meta[4] + (first + k) * meta[5]
                v = A(0)
                if top + r < rows and first + k < depth:
                    v = A({x})
                left[k * 65 + r] = v
                k = e >> 6 if meta[8] == 1 else e & 15
                r = e & 63 if meta[8] == 1 else e >> 4
                at = matrix * meta[6] + (first + k) * meta[7] + (edge + r) * meta[8]
                v = A(0)
                if edge + r < columns and first + k < depth:
                    v = A({y})
                right[k * 65 + r] = v
            cuda.syncthreads()
            for k in range(16):
                {added}
            cuda.syncthreads()
        {written}
'''


def product(code: str) -> Own:
    """Of a dtype; what is narrow is added up in float32."""
    kind = computed(code)
    four = range(4)
    added = [f"x{i} = left[k * 65 + down + {16 * i}]" for i in four]
    added += [f"y{j} = right[k * 65 + along + {16 * j}]" for j in four]
    added += [f"sums[{4 * i + j}] = A(sums[{4 * i + j}] + x{i} * y{j})" for i in four for j in four]
    written: list[Lines] = []
    for i in four:
        written += [f"row = top + down + {16 * i}", "place = (matrix * rows + row) * columns + edge + along"]
        for j in four:
            result = write(f"sums[{4 * i + j}]", code, kind)
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
        cleared=[f"sums[{k}] = A(0)" for k in range(16)],
        added=added,
        written=written,
    )
    return Own(source, ("i8", "*i8", "*" + code, "*" + code, "*" + code), 4096)
