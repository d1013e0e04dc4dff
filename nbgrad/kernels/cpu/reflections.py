"""Products of reflections as LAPACK keeps them, with what stands to their right, and the factors of QR that they make, as source: each
matrix of a batch by itself."""

from __future__ import annotations

from nbgrad.base.tables import cached

_REFLECT = '''"""Reflect the columns of x by I - tau v v^H, one after another: the last first, or `forward` with the conjugates of tau."""


def @NAME@(start, stop, meta, x, a, taus, along):
    rows = meta[0]
    width = meta[1]
    count = meta[2]
    columns = meta[3]
    forward = meta[4]
    for item in range(start, stop):
        for step in range(count):
            k = step if forward else count - 1 - step
            v = taus[item * count + k]
            tau = {v} if forward else v
            here = (item * rows + k) * columns
            for j in range(columns):
                along[item * columns + j] = x[here + j]
            for i in range(k + 1, rows):
                v = a[(item * rows + i) * width + k]
                factor = {v}
                q = (item * rows + i) * columns
                for j in range(columns):
                    along[item * columns + j] = along[item * columns + j] + factor * x[q + j]
            for j in range(columns):
                along[item * columns + j] = tau * along[item * columns + j]
                x[here + j] = x[here + j] - along[item * columns + j]
            for i in range(k + 1, rows):
                factor = a[(item * rows + i) * width + k]
                q = (item * rows + i) * columns
                for j in range(columns):
                    x[q + j] = x[q + j] - factor * along[item * columns + j]
'''


@cached(4)
def reflect(code: str) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. `meta` holds the rows of x, the columns of what the vectors stand in, below its diagonal, how many there
    are, the columns of x, and whether they go `forward`; `along` has room for a row of each matrix of x."""
    text = _REFLECT.format(v="v.conjugate()" if code[0] == "c" else "v")
    return text, ("i8", "i8", "*i8", *[f"*{code}"] * 4)


_FACTORS = '''"""The factors q and r of matrices a; all lie by columns. And 1 of a matrix whose squares are beyond float64."""
import math


def @NAME@(start, stop, meta, a, taus, q, r, infos):
    rows = meta[0]
    columns = meta[1]
    width = meta[2]
    steps = min(rows, columns)
    for item in range(start, stop):
        begin = item * rows * columns
        info = 0
        for k in range(steps):
            here = begin + k * rows
            rest = 0.0
            for i in range(k + 1, rows):
                rest += a[here + i] * a[here + i]
            alpha = a[here + k]
            if not (rest + alpha * alpha < 1e300):
                info = 1
            tau = 0.0
            if rest > 1e-280:
                beta = -math.copysign(math.sqrt(alpha * alpha + rest), alpha)
                tau = (beta - alpha) / beta
                share = 1.0 / (alpha - beta)
                for i in range(k + 1, rows):
                    a[here + i] = a[here + i] * share
                for j in range(k + 1, columns):
                    there = begin + j * rows
                    v = a[there + k]
                    for i in range(k + 1, rows):
                        v += a[here + i] * a[there + i]
                    v = v * tau
                    a[there + k] = a[there + k] - v
                    for i in range(k + 1, rows):
                        a[there + i] = a[there + i] - v * a[here + i]
                a[here + k] = beta
            else:
                for i in range(k + 1, rows):
                    if a[here + i] != 0.0:
                        info = 1
            taus[item * steps + k] = tau
        infos[item] = info
        for j in range(columns):
            there = (item * columns + j) * width
            for i in range(width):
                r[there + i] = a[begin + j * rows + i] if i <= j else 0.0
        for j in range(width):
            there = (item * width + j) * rows
            for i in range(rows):
                q[there + i] = 1.0 if i == j else 0.0
        for step in range(steps):
            k = steps - 1 - step
            here = begin + k * rows
            tau = taus[item * steps + k]
            for j in range(k, width):
                there = (item * width + j) * rows
                v = q[there + k]
                for i in range(k + 1, rows):
                    v += a[here + i] * q[there + i]
                v = v * tau
                q[there + k] = q[there + k] - v
                for i in range(k + 1, rows):
                    q[there + i] = q[there + i] - v * a[here + i]
'''


def factors() -> tuple[str, tuple[str, ...]]:
    """Of float64. `meta` holds the rows and columns of a matrix, which is spoilt, and the columns of q; `taus` has room for a number for
    each reflection."""
    return _FACTORS, ("i8", "i8", "*i8", *["*f8"] * 4, "*i8")
