"""Products of reflections as LAPACK keeps them, with what stands to their right, as source: each matrix of a batch by itself."""

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
