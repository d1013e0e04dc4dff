"""Poisson's, binomial and gamma's numbers on a device: an element a thread, which draws from uniform numbers of its own.

Promises `nbgrad.ops.make.devices` the CPU's ways to draw (`kernels/cpu/counts.py`), of other words than the CPU's. A thread ends in any
case: what no number is drawn for, since an operand is NaN or infinite, is NaN.
"""

from __future__ import annotations

import re

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.kernels import faults
from nbgrad.kernels.cpu import counts
from nbgrad.kernels.templates import SCALARS

_TEXT = '''"""{title}, an element a thread."""
import math
import numpy as np
from nbgrad.kernels.cpu.atomic import claimed
from nbgrad.kernels.cuda.words import unit
F = {scalar}
{table}


def @NAME@(start, stop, o, {operands}flag, seed, offset):
    have = 4096
    for i in range(start, stop):
        at = 0
        found = False
        k = F(0)
        {begin}
        {told}
{body}
        o[i] = k if found else F(np.nan)
'''
_UNIT = re.compile(r"units\[([^]]+)\]")


@cached(16)
def source(name: str, code: str, captured: bool = False) -> tuple[str, tuple[str, ...]]:
    """In a graph the kernel reads at each launch where the stream stands, as its last operand but the flag."""
    made = counts.count(name, code)
    seed, offset = ("stood[0]", "(offset + stood[1])") if captured else ("seed", "offset")
    memory = [*made.inputs, *["stood"] * captured]
    text = fill(
        _TEXT,
        title=made.title,
        scalar=SCALARS[code],
        table=made.table,
        operands="".join(f"{m}, " for m in memory),
        begin=["other = 0.0", "there = False"] * made.pairs,
        told=["if not rates[i] >= 0:", faults.tell(str(faults.RATE), "0", "0", "0", True)]
        if name == "poisson"
        else [],
        body=_UNIT.sub(rf"unit(\1, i, {seed}, {offset})", made.body),
    )
    pointer = "*" + code
    codes = pointer, *[pointer] * len(made.inputs), *["*i8"] * captured, "*i8", "i8", "i8"
    return text, ("i8", "i8", *codes)
