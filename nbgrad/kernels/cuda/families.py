"""The families that have CUDA kernels of their own, found by what the CPU's text was made from (`kernels/family.py`).

Promises the device one of its own, or None: then the CPU's text is spread over threads, which is right but slower.
"""

from __future__ import annotations

from collections.abc import Callable

from nbgrad.kernels.cuda import index, join, lines, pointwise, reduce, rows, scan, tiles, windows
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.cuda.spread import respelled
from nbgrad.kernels.family import Text

_FAMILIES: dict[str, Callable[..., Own | None]] = {
    "own": lambda made: made,
    "templates.elementwise": pointwise.elementwise,
    "cpu.reduce.reduction": reduce.reduction,
    "cuda.products.product": tiles.product,
    "cpu.reduce.inner": reduce.inner,
    "cpu.index.walk": index.walk,
    "cpu.index.grid": index.grid,
    "cpu.rows.add_rows": index.add_rows,
    "cpu.join.side_by_side": join.side_by_side,
    "cpu.scan.scan": scan.scan,
    "cpu.scan.extreme": scan.extreme,
    "cpu.scan.recurrence": scan.recurrence,
    "cpu.scan.along": scan.along,
    "cpu.lines.extreme": lines.extreme,
    "cpu.lines.moments": lines.moments,
    "cpu.lines.logsumexp": lines.logsumexp,
    "cpu.rows.runs": rows.runs,
    "cpu.rows.columns": rows.columns,
    "cpu.rows.short": rows.short,
    "cpu.pooling.alike": windows.alike,
    "cpu.pooling.unlike": windows.unlike,
    "cpu.pooling.move": windows.move,
    "cpu.resample.sums": windows.sums,
    "cpu.bags.bags": index.bags,
    "cpu.triangle.triangle": pointwise.triangle,
}


def own(name: str, source: str) -> Own | None:
    """What a device has of its own for a text.

    >>> from nbgrad.kernels.cuda.families import own
    >>> own("plain", "def @NAME@(start, stop): pass") is None
    True
    """
    make = _FAMILIES.get(source.family) if isinstance(source, Text) else None
    if make is None:
        return None
    assert isinstance(source, Text)
    args, named = source.given
    found = make(*args, **named)
    return found and found._replace(source=respelled(name, found.source))
