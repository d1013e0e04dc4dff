"""One step of an optimiser over any number of parameters, as source.

Promises the optimisers: a table has one row of integers per parameter, its length and the addresses of what is read and written;
`begin` runs once per row, counts the step and works out in float64 the numbers that do not depend on elements; `update` runs over
all elements of all rows as one range, which a launcher may cut anywhere. Learning rates and their like are memory that
the kernels read, so a schedule compiles nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.expr import emit
from nbgrad.expr.node import Expr
from nbgrad.kernels.templates import SCALARS, vmath_helpers

_BEGIN = '''"""{title}, per parameter: counts the step, and works out {names}."""
from math import inf, nan
import math
import numpy as np
from nbgrad.kernels.cpu.memory import at_{step}
{preamble}
F = np.float64


def @NAME@(start, stop, table, numbers, out):
    {read}
    for row in range(start, stop):
        {count}
        {lines}
        {store}
'''

_UPDATE = '''"""{title}, per element: {text}"""
from math import inf, nan
import math
import numpy as np
from nbgrad.kernels.cpu.memory import at_{code}
{preamble}
F = {scalar}


def @NAME@(start, stop, table, numbers):
    row = 0
    first = 0  # where the row begins in the range of all rows
    while start >= first + table[row * {width}]:
        first += table[row * {width}]
        row += 1
    at = start
    while at < stop:
        length = table[row * {width}]
        {read}
        {pointers}
        for i in range(at - first, min(stop - first, length)):
            {load}
            {lines}
            {store}
        first += length
        at = first
        row += 1
'''

# An element an item, whose row is found by where rows begin, and numbers as they are given to the launch where all rows share them.
_UPDATE_ALONE = '''"""{title}, an element a thread: {text}"""
from math import inf, nan
import math
import numpy as np
from nbgrad.kernels.cpu.memory import at_{code}
{preamble}
F = {scalar}


def @NAME@(start, stop, table, {numbers}):
    for item in range(start, stop):
        row = 0
        beyond = table[0]
        while beyond - row > 1:
            middle = (row + beyond) // 2
            if table[1 + middle * {width}] <= item:
                row = middle
            else:
                beyond = middle
        place = 1 + row * {width}
        i = item - table[place]
        {read}
        {pointers}
        {load}
        {lines}
        {store}
'''

Code = tuple[str, tuple[str, ...]]


@cached(256)
def begin(title: str, given: tuple[str, ...], derived: tuple[tuple[str, Expr], ...], step: str) -> Code:
    """Source and parameter codes of the kernel per row. `given` are the names of the numbers in their order, "step" that of
    the count, which has the dtype `step` and lies at the address in the row's second place ("": there is none)."""
    names = {name: f"n{k}" for k, name in enumerate(given)} | {"step": "step"}
    emitted = emit.emit([e for _, e in derived], "scalar", "f8", names)
    count = [f"counter = at_{step}(table[row * 2 + 1])", "counter[0] += 1", "step = F(counter[0])"]
    source = fill(
        _BEGIN,
        title=title,
        names=", ".join(name for name, _ in derived),
        step=step or "f8",
        preamble=vmath_helpers(),
        read=[f"n{k} = numbers[{k}]" for k in range(len(given))],
        count=count if step else [],
        lines=emitted.lines,
        store=[f"out[row * {len(derived)} + {k}] = {r}" for k, r in enumerate(emitted.results)],
    )
    return source, ("i8", "i8", "*i8", "*f8", "*f8")


@cached(256)
def update(
    title: str,
    derived: tuple[str, ...],
    inputs: tuple[str, ...],
    results: tuple[tuple[str, Expr], ...],
    code: str,
    alone: bool = False,
    shared: bool = False,
) -> Code:
    """Source and parameter codes of the kernel over elements: `inputs` names the buffers in the order of a row's addresses,
    `results` those that are written. `alone` is for a GPU's threads: its table begins with how many rows there are, and a row with where
    it begins; with `shared` the numbers of all rows follow one by one."""
    at = {name: f"x{k}" for k, name in enumerate(inputs)}
    names = {name: f"a{k}" for k, name in enumerate(inputs)}
    names |= {name: f"n{k}" for k, name in enumerate(derived)}
    emitted = emit.emit([e for _, e in results], "cpu", code, names)
    width = len(inputs) + 1
    place, numbers = "place" if alone else f"row * {width}", [f"d{k}" for k in range(len(derived))]
    source = fill(
        _UPDATE_ALONE if alone else _UPDATE,
        numbers=", ".join(numbers) if shared else "numbers",
        title=title,
        text="; ".join(f"{name} = {e}" for name, e in results),
        code=code,
        preamble=vmath_helpers(),
        scalar=SCALARS[code],
        width=width,
        read=[
            f"n{k} = F({number if shared else f'numbers[row * {len(derived)} + {k}]'})"
            for k, number in enumerate(numbers)
        ],
        pointers=[f"{x} = at_{code}(table[{place} + {k + 1}])" for k, x in enumerate(at.values())],
        load=[f"{names[name]} = {x}[i]" for name, x in at.items()],
        lines=emitted.lines,
        store=[f"{at[name]}[i] = {r}" for (name, _), r in zip(results, emitted.results)],
    )
    return source, ("i8", "i8", "*i8", *(["f8"] * len(derived) if shared else ["*f8"]))


_first_byte, _address = ctypes.c_char.from_buffer, ctypes.addressof


def addresses(buffers: Sequence[Any]) -> list[int]:
    """Where buffers, none of them empty, lie; a quarter of the time of `array.ctypes.data`."""
    return [_address(_first_byte(b)) for b in buffers]


def overlap(starts: Any, lengths: Any) -> bool:
    """Whether any two of these stretches of memory share a byte."""
    order = np.argsort(starts)
    ends = np.maximum.accumulate((np.asarray(starts) + np.asarray(lengths))[order])
    return bool((np.asarray(starts)[order][1:] < ends[:-1]).any())
