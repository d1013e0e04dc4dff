"""Systems of equations by elimination, as source: each matrix of a batch by itself, row by row.

Promises `ops/linear/lapack.py`: an element is worked on in the same order whatever the batch and the threads. In `lu` of real
numbers products and sums are fused, as PyTorch's are: of a matrix less one of its eigenvalues, which inverse iteration and gradients
of eigenvectors solve with, every fourth pivot of 2 x 2 was 0 with two roundings, and none is with one. A column is multiplied by 1 / pivot,
unless it is the last of a square of four rows or less: so are the factors PyTorch's to the bit, of up to 16 rows.
"""

from __future__ import annotations

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels.templates import SCALARS

_LU = '''"""L below the diagonal and U from it on, the row that each step exchanges with, from 1, and the first pivot that is 0."""
import numpy as np
{imports}
F = {scalar}


def @NAME@(start, stop, meta, a, pivots, infos):
    rows = meta[0]
    columns = meta[1]
    steps = min(rows, columns)
    for item in range(start, stop):
        begin = item * rows * columns
        info = 0
        for k in range(steps):
            best = k
            v = a[begin + k * columns + k]
            top = {size}
            if top == top:  # no comparison finds a NaN, but the first is where the search begins
                for i in range(k + 1, rows):
                    v = a[begin + i * columns + k]
                    size = {size}
                    if size > top:
                        top = size
                        best = i
            pivots[item * steps + k] = best + 1
            here = begin + k * columns
            if best != k:
                there = begin + best * columns
                for j in range(columns):
                    v = a[here + j]
                    a[here + j] = a[there + j]
                    a[there + j] = v
            divisor = a[here + k]
            if divisor == 0:
                divisor = F(1)
                if info == 0:
                    info = k + 1
            {share}
            for i in range(k + 1, rows):
                q = begin + i * columns
                factor = {factor}
                a[q + k] = factor
                for j in range(k + 1, columns):
                    a[q + j] = {less}
        infos[item] = info
'''


@cached(4)
def lu(code: str) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; `meta` holds the rows and columns of a matrix. Of complex numbers LAPACK compares another size."""
    size, less, factor = "abs(v.real) + abs(v.imag)", "a[q + j] - factor * a[here + j]", "a[q + k] / divisor"
    imports, share = [], []
    if code[0] != "c":
        size, less = "abs(v)", "fma(-factor, a[here + j], a[q + j])"
        imports = ["from nbgrad.kernels.cpu.vmath import fma"]
        least = 1.2e-38 if code == "f4" else 2.3e-308  # a share of less may be infinite
        share = [
            "share = F(1) / divisor",
            f"whole = (abs(divisor) < {least}) | ((rows <= 4) & (rows == columns) & (k + 2 == rows))",
        ]
        factor = "a[q + k] / divisor if whole else a[q + k] * share"
    text = fill(_LU, scalar=SCALARS[code], size=size, less=less, imports=imports, share=share, factor=factor)
    return text, ("i8", "i8", "*i8", f"*{code}", "*i8", "*i8")


_TRIANGLE = '''"""The solutions x, which hold the right sides at first, of systems whose matrices are triangles."""


def @NAME@(start, stop, meta, x, a):
    n = meta[0]
    columns = meta[1]
    upper = meta[2]
    unit = meta[3]
    for item in range(start, stop):
        for step in range(n):
            k = n - 1 - step if upper else step
            first, last = (k + 1, n) if upper else (0, k)
            line = (item * n + k) * n
            q = (item * n + k) * columns
            for m in range(first, last):
                factor = a[line + m]
                p = (item * n + m) * columns
                for j in range(columns):
                    x[q + j] = x[q + j] - factor * x[p + j]
            if unit == 0:
                divisor = a[line + k]
                for j in range(columns):
                    x[q + j] = x[q + j] / divisor
'''


def triangle(code: str) -> tuple[str, tuple[str, ...]]:
    """Of the widest numbers ("f8", "c16"). `meta` holds the rows of a matrix, the columns of x, whether the upper triangle is read, and
    whether what stands on the diagonal is not, being 1. The other triangle is not read."""
    return _TRIANGLE, ("i8", "i8", "*i8", f"*{code}", f"*{code}")


_SUBSTITUTE = '''"""The solutions x by L and U, over the right sides, which lie by columns; or the inverses, over nothing."""
from nbgrad.kernels.cpu.vmath import fma


def @NAME@(start, stop, meta, a, pivots, x):
    n = meta[0]
    columns = meta[1]
    inverse = meta[2]
    divided = (n == 8) | (n == 1)  # as PyTorch's
    for item in range(start, stop):
        begin = item * n * n
        if not divided:
            for k in range(n):
                a[begin + k * n + k] = 1 / a[begin + k * n + k]
        for j in range(columns):
            q = (item * columns + j) * n
            if inverse:
                for k in range(n):
                    x[q + k] = j == k
            for k in range(n):
                other = pivots[item * n + k] - 1
                v = x[q + k]
                x[q + k] = x[q + other]
                x[q + other] = v
            for k in range(1, n):
                line = begin + k * n
                v = x[q + k]
                for i in range(k):
                    v = fma(-a[line + i], x[q + i], v)
                x[q + k] = v
            for k in range(n - 1, -1, -1):
                line = begin + k * n
                v = x[q + k]
                for i in range(n - 1, k, -1):
                    v = fma(-a[line + i], x[q + i], v)
                x[q + k] = v / a[line + k] if divided else v * a[line + k]
'''


def substitute() -> tuple[str, tuple[str, ...]]:
    """Of float64. `meta` holds the rows of a matrix, the columns of x, and whether they become the inverse. U's diagonal is overwritten."""
    return _SUBSTITUTE, ("i8", "i8", "*i8", "*f8", "*i8", "*f8")


_DETERMINANT = '''"""The determinants, by U and how often rows were exchanged."""


def @NAME@(start, stop, meta, a, pivots, o):
    n = meta[0]
    for item in range(start, stop):
        v = 1.0
        for k in range(n):
            v = v * a[(item * n + k) * n + k]
        for k in range(n):
            if pivots[item * n + k] != k + 1:
                v = -v
        o[item] = v
'''


def determinant() -> tuple[str, tuple[str, ...]]:
    """Of float64; `meta` holds the rows of a matrix."""
    return _DETERMINANT, ("i8", "i8", "*i8", "*f8", "*i8", "*f8")


_PARTS = '''"""The permutation p, which is 0 at first, the lower triangle l and the upper one u, of what elimination leaves in one."""


def @NAME@(start, stop, meta, a, pivots, order, p, l, u):
    rows = meta[0]
    columns = meta[1]
    k = min(rows, columns)
    for item in range(start, stop):
        for i in range(rows):
            order[i] = i
        for i in range(k):
            other = min(max(pivots[item * k + i] - 1, 0), rows - 1)
            v = order[i]
            order[i] = order[other]
            order[other] = v
        for i in range(rows):
            p[(item * rows + order[i]) * rows + i] = 1
            line = (item * rows + i) * columns
            for j in range(k):
                l[(item * rows + i) * k + j] = a[line + j] if j < i else 1 if j == i else 0
            if i < k:
                for j in range(columns):
                    u[(item * k + i) * columns + j] = a[line + j] if j >= i else 0
'''


def parts(code: str) -> tuple[str, tuple[str, ...]]:
    """`meta` holds the rows and columns of a matrix; `order` has room for its rows."""
    return _PARTS, ("i8", "i8", "*i8", f"*{code}", "*i8", "*i8", f"*{code}", f"*{code}", f"*{code}")


_CHOLESKY = '''"""The lower factors, over what is factored, 0 above, and the column, from 1, where one ends: its pivot is not positive."""
import math


def @NAME@(start, stop, meta, a, infos):
    n = meta[0]
    for item in range(start, stop):
        begin = item * n * n
        info = 0
        for i in range(n):
            for j in range(i + 1, n):
                a[begin + i * n + j] = 0
        for j in range(n):
            here = begin + j * n
            v = a[here + j]
            for k in range(j):
                v = v - a[here + k] * a[here + k]
            a[here + j] = v
            if not (v > 0):
                info = j + 1
                break
            v = math.sqrt(v)
            a[here + j] = v
            for i in range(j + 1, n):
                there = begin + i * n
                w = a[there + j]
                for k in range(j):
                    w = w - a[there + k] * a[here + k]
                a[there + j] = w / v
        infos[item] = info
'''


def cholesky() -> tuple[str, tuple[str, ...]]:
    """Of float64; `meta` holds the rows of a matrix, of which the upper triangle is not read."""
    return _CHOLESKY, ("i8", "i8", "*i8", "*f8", "*i8")


_EXCHANGE = '''"""The rows of x exchanged as elimination did, and 1 where the pivots are none of its."""


def @NAME@(start, stop, meta, x, pivots, wrong):
    n = meta[0]
    columns = meta[1]
    for item in range(start, stop):
        bad = 0
        for k in range(n):
            other = pivots[item * n + k] - 1
            if (other < 0) | (other >= n):
                bad = 1
            elif other != k:
                p = (item * n + k) * columns
                q = (item * n + other) * columns
                for j in range(columns):
                    v = x[p + j]
                    x[p + j] = x[q + j]
                    x[q + j] = v
        wrong[item] = bad
'''


def exchange(code: str) -> tuple[str, tuple[str, ...]]:
    """`meta` holds the rows and columns of x."""
    return _EXCHANGE, ("i8", "i8", "*i8", f"*{code}", "*i4", "*i8")
