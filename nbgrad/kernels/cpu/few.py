"""Products of complex matrices of few elements, as source: each by itself, in less time than a BLAS takes to begin.

Promises `ops/linear/blas.py`: operands that lie in any way, a result that lies in rows, sums in complex128.
"""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS

_PRODUCT = '''"""Each matrix of x, or its conjugate, times that of y."""
import numpy as np
S = {scalar}


def @NAME@(start, stop, meta, o, x, y):
    rows, columns, inner = meta[0], meta[1], meta[2]
    x_row, x_inner, y_inner, y_column = meta[4], meta[5], meta[7], meta[8]
    for item in range(start, stop):
        q = item * rows * columns
        for i in range(rows):
            line = item * meta[3] + i * x_row
            for j in range(columns):
                p, r = line, item * meta[6] + j * y_column
                total = 0j
                for k in range(inner):
                    total += {first} * y[r]
                    p += x_inner
                    r += y_inner
                o[q] = S(total)
                q += 1
'''


@cached(4)
def product(code: str, conjugated: bool) -> tuple[str, tuple[str, ...]]:
    """`meta` holds the rows and columns of a result and how many products are summed; then of x what lies between two matrices, two rows
    and two that are summed; of y what lies between two matrices, two that are summed, and two columns."""
    pointer = f"*{code}"
    first = "x[p].conjugate()" if conjugated else "x[p]"
    return _PRODUCT.format(scalar=SCALARS[code], first=first), ("i8", "i8", "*i8", pointer, pointer, pointer)
