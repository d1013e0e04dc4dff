"""Pieces copied side by side: an element a thread, whichever piece it is from."""

from __future__ import annotations

from nbgrad.base.source import Lines, text_of
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.cuda.pointwise import WORK


def side_by_side(count: int, code: str) -> Own:
    """The CPU's in `kernels/cpu/join.py`, by elements of the result."""
    names = [f"x{k}" for k in range(count)]
    pieces: list[Lines | str] = []
    for k, name in enumerate(names):
        pieces += [
            f"if j >= 0 and j < meta[{2 * k + 1}]:",
            [f"o[i] = {name}[row * meta[{2 * k + 2}] + j]"],
            f"j -= meta[{2 * k + 1}]",
        ]
    body: Lines = [
        "whole = np.uint64(meta[0])",
        "total = np.uint64(items) * whole",
        "i = np.uint64(cuda.grid(1))",
        "while i < total:",
        [
            "row = np.int64(i // whole)",
            "j = np.int64(i) - row * meta[0]",
            *pieces,
            "i += np.uint64(cuda.gridsize(1))",
        ],
    ]
    text = [
        '"""Pieces side by side."""',
        "import numpy as np",
        "",
        f"def @NAME@(items, meta, o, {', '.join(names)}):",
        body,
    ]
    return Own(text_of(text), ("i8", "*i8", *[f"*{code}"] * (count + 1)), WORK)
