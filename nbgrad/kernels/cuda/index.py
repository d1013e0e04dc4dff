"""Writes to places that several items may name: each thread goes through all items, and does what falls to the places that it owns.

Promises what the CPU's one thread gives (`kernels/cpu/index.py`), to the bit: of plain writes to one place the last stays, and what adds up
does so in the order of the items. To look at an item costs a tenth of what it costs to wait for memory, and that is all a thread does
with those of others.
"""

from __future__ import annotations

from nbgrad.kernels.cpu import index
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS

OWNERS = 4  # blocks of them
SHARDS = 64  # of the rows of a table

_MINE = """):
    start = 0
    stop = items
    mine = cuda.grid(1)
    many = cuda.gridsize(1)
"""


def walk(move: str, code: str, points: bool, indices: int = 0, guarded: bool = False) -> Own | None:
    """By offsets, or by indices."""
    return _owned(move, *index.walk(move, code, points, indices, guarded, True))


def grid(move: str, code: str, guarded: bool = False) -> Own | None:
    """By an index for each element."""
    return _owned(move, *index.grid(move, code, guarded, True))


def _owned(move: str, source: str, params: tuple[str, ...]) -> Own | None:
    if move == "read":
        return None
    head, rest = source.split("def @NAME@(start, stop, ")
    text = f"{head}import numpy as np\n\n\ndef @NAME@(items, " + rest.replace("):\n", _MINE, 1)
    return Own(text, params[1:], many=False, most=OWNERS)


_ADD_ROWS = '''"""Adds each row of g to the row of o that an index names, in their order; a thread has a column of every {shards}th row."""
import numpy as np
F = {scalar}


def @NAME@(items, meta, o, g, at, share):
    count = meta[0]
    n = meta[1]
    skipped = meta[2]
    shared = meta[3]
    rows = meta[4]
    tiles = (n + 255) // 256
    for tile in range(cuda.blockIdx.x, tiles * {shards}, cuda.gridDim.x):
        shard = tile // tiles
        j = (tile - shard * tiles) * 256 + cuda.threadIdx.x
        if j < n:
            for k in range(count):
                row = at[k]
                if (row & {last}) == shard and row != skipped and row >= 0 and row < rows:
                    v = g[k * n + j]
                    if shared != 0:
                        v = v / F(share[row])
                    o[row * n + j] += v
'''


def add_rows(code: str) -> Own:
    """The gradient of an embedding's table."""
    text = _ADD_ROWS.format(scalar=SCALARS[code], shards=SHARDS, last=SHARDS - 1)
    pointer = "*" + code
    return Own(text, ("i8", "*i8", pointer, pointer, "*i8", "*i8"), 4096)
