"""Writes to places that several items may name: each thread goes through all items, and does what falls to the places that it owns.

Promises what the CPU's one thread gives (`kernels/cpu/index.py`), to the bit: of plain writes to one place the last stays, and what adds up
does so in the order of the items. To look at an item costs a tenth of what it costs to wait for memory, and that is all a thread does
with those of others.
"""

from __future__ import annotations

from nbgrad.base.source import fill
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


_BAGS = '''"""The {mode} of the rows in each bag{weighted}: a thread has a column of a bag."""
import numpy as np
F = {scalar}


def @NAME@(items, meta, o, o_bag, o_size, o_top, w, at, first, scale):
    n = meta[0]
    padding = meta[1]
    columns = max(n, 1)
    whole = np.uint64(items * columns)
    i = np.uint64(cuda.grid(1))
    while i < whole:
        bag = np.int64(i // np.uint64(columns))
        j = np.int64(i) - bag * columns
        size = 0
        total = F(0)
        top = np.int64(0)
        for k in range(first[bag], first[bag + 1]):
            row = at[k]
            if row != padding:
                if n > 0:
                    v = w[row * n + j]
                    {each}
                size += 1
            if j == 0:
                o_bag[k] = bag
        {end}
        if j == 0:
            o_size[bag] = size
        if n > 0:
            {written}
        i += np.uint64(cuda.gridsize(1))
'''


def bags(code: str, mode: str, weighted: bool) -> Own:
    """As the CPU's in `kernels/cpu/bags.py`, in the order of the indices."""
    top = mode == "max"
    each = ["if size == 0 or v > total:", ["total = v", "top = row"]] if top else ["total += v"]
    text = fill(
        _BAGS,
        mode=mode,
        weighted=", each times a number" * weighted,
        scalar=SCALARS[code],
        each=["total += v * scale[k]"] if weighted and not top else each,
        end=["if size > 1:", ["total = total / F(size)"]] if mode == "mean" else [],
        written=["o[i] = total", *["o_top[i] = top"] * top],
    )
    pointer = "*" + code
    codes = "i8", "*i8", pointer, "*i8", "*i8", "*i8", pointer, "*i8", "*i8", pointer
    return Own(text, codes, 256)
