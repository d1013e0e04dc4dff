"""One side of a diagonal, as source: matrices copied with zeros on the other side.

Promises the ops that a row is read only as far as it is kept. `meta` is that of a rows kernel (`places.py`) whose rows are those of the
matrices, the last dimension of all innermost; then the step along a row, and which diagonal it is, counted above the main one.
"""

from __future__ import annotations

from nbgrad.base.tables import cached
from nbgrad.kernels.family import family

_TRIANGLE = '''"""Copy what lies {where} a diagonal, and write 0 beside it."""
from nbgrad.kernels.cpu.places import places


def @NAME@(start, stop, meta, o, x):
    n = meta[1]
    step = meta[2 + meta[0] * 3]
    above = meta[3 + meta[0] * 3]
    for row in range(start, stop):
        q, p = places(meta, row, (0, 1))
        cut = min(max(row % meta[2] + above, 0), n)
        for k in range({zeros}):
            o[q + k] = 0
        for k in range({kept}):
            o[q + k] = x[p + k * step]
'''


@cached(16)
@family
def triangle(code: str, upper: bool) -> tuple[str, tuple[str, ...]]:
    """Of an element only the size counts. `above` says how many of the first row's elements lie left of the cut."""
    below, beyond = "0, cut", "cut, n"
    where, zeros, kept = ("from", below, beyond) if upper else ("up to", beyond, below)
    return _TRIANGLE.format(where=where, zeros=zeros, kept=kept), ("i8", "i8", "*i8", f"*{code}", f"*{code}")
