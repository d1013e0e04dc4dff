"""Products of matrices on a device: an element a thread, of matrices that lie in any way, so nothing is copied.

Promises the ops a text like the CPU's, over the elements of the result. What is narrow is added up in float32, as
PyTorch does, all else in its own dtype.
"""

from __future__ import annotations

from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS, computed, halves, read, write

_SMALL, _LARGE = 64, 128
_MANY = 128  # tiles, about as many as large devices have processors

_PRODUCT = '''"""Products of rows of x and columns of y, over the elements of the results, counted through all matrices of the batch."""
{imports}
A = {scalar}


def @NAME@(start, stop, meta, o, x, y):
    rows = meta[0]
    columns = meta[1]
    depth = meta[2]
    for item in range(start, stop):
        matrix = item // (rows * columns)
        rest = item - matrix * (rows * columns)
        row = rest // columns
        at_x = matrix * meta[3] + row * meta[4]
        at_y = matrix * meta[6] + (rest - row * columns) * meta[8]
        total = A(0)
        for k in range(depth):
            total = A(total + A({x}) * A({y}))
            at_x += meta[5]
            at_y += meta[7]
        o[item] = {result}
'''


def side(code: str, rows: int, columns: int, count: int) -> int:
    """Of the tiles for so many products: large ones, if registers have room for them and there are tiles enough for a device."""
    many = (rows // _LARGE) * (columns // _LARGE) * count
    return _LARGE if computed(code) == "f4" and many >= _MANY else _SMALL


@family
def product(code: str, side: int) -> tuple[str, tuple[str, ...]]:
    """`meta` holds rows, columns and depth, and of x and y the steps from matrix to matrix, row to row and column to column. A tile that
    a block has is of so many rows and columns."""
    kind = computed(code)
    source = _PRODUCT.format(
        imports=halves((code,)) or "import numpy as np\n",
        scalar=SCALARS[kind],
        x=read("x[at_x]", code, kind, False),
        y=read("y[at_y]", code, kind, False),
        result=write("total", code, kind),
    )
    return source, ("i8", "i8", "*i8", "*" + code, "*" + code, "*" + code)
