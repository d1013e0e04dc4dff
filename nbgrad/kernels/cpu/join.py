"""A few pieces copied side by side into each row of one result, as source: one launch where each piece had its own.

Promises joins: piece `k` has the same length in every row, and its rows begin a constant step apart; a row of the result is the
pieces' one after the other. `meta` holds the length of a row of the result, then each piece's length and step, in elements.
"""

from __future__ import annotations

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels.family import family

_JOIN = '''"""Copy {count} pieces side by side."""


def @NAME@(start, stop, meta, o, {names}):
    {lengths}
    for row in range(start, stop):
        p = row * meta[0]
        {copies}
'''


@cached(64)
@family
def side_by_side(count: int, code: str) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; of the elements, `code` needs to say only the size."""
    pieces = range(count)
    copies = [
        line
        for k in pieces
        for line in (
            f"q = row * s{k}",
            f"for j in range(n{k}):",
            [f"o[p + j] = x{k}[q + j]"],
            f"p += n{k}",
        )
    ]
    text = fill(
        _JOIN,
        count=count,
        names=", ".join([f"x{k}" for k in pieces]),
        lengths=[f"n{k}, s{k} = meta[{2 * k + 1}], meta[{2 * k + 2}]" for k in pieces],
        copies=copies,
    )
    return text, ("i8", "i8", "*i8", *[f"*{code}"] * (count + 1))
