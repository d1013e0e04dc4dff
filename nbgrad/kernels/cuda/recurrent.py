"""A step of a recurrent layer on a device, after its product: a hidden unit of a row of the batch a thread.

Promises what the CPU's kernels compute of a `Cell` (`kernels/cpu/recurrent.py`), in memory that lies as theirs. `row` is at which row the
step begins, `meta` holds the hidden units and the elements of the state.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.expr import emit
from nbgrad.expr.node import Expr, ordered_vars
from nbgrad.kernels.cpu.recurrent import Cell, cells
from nbgrad.kernels.cuda.own import Own, for_device
from nbgrad.kernels.family import Text
from nbgrad.kernels.templates import SCALARS, vmath_helpers

Code = tuple[Text, tuple[str, ...]]

_UNITS = '''"""{title}."""
from math import inf, nan
import math
import numpy as np
{preamble}F = {scalar}


def @NAME@(items, meta, {pointers}, row):
    n = np.uint64(meta[0])
    m = meta[1]
    units = np.uint64(items)
    e = np.uint64(cuda.grid(1))
    while e < units:
        i = np.int64(e // n)
        j = np.int64(e) - i * meta[0]
        {body}
        e += np.uint64(cuda.gridsize(1))
'''


def _units(title: str, code: str, pointers: list[str], body: Lines) -> Code:
    text = fill(
        _UNITS,
        title=title,
        preamble=vmath_helpers(),
        scalar=SCALARS[code],
        pointers=", ".join(pointers),
        body=body,
    )
    return for_device(Own(text, ("i8", "*i8", *[f"*{code}"] * len(pointers), "i8"), items=256))


def _computed(exprs: dict[str, Expr], places: dict[str, str], stored: dict[str, str], code: str) -> Lines:
    """What is written to `stored`, of what lies at `places`: all is read first."""
    used = ordered_vars(*exprs.values())
    done = emit.emit(tuple(exprs.values()), "cpu", code, {n: f"v_{n}" for n in used})
    results = zip(exprs, done.results)
    return [*(f"v_{n} = {places[n]}" for n in used), *done.lines, *(f"{stored[n]} = {r}" for n, r in results)]


def _gates(cell: Cell, letter: str, memory: str, count: int) -> dict[str, str]:
    return {f"{letter}{k}": f"{memory}[((row + i) * {count} + {k}) * meta[0] + j]" for k in range(count)}


@cached(64)
def forward(name: str, code: str, projected: bool, kept: bool) -> Code:
    """From the x, the product of the state, and what is carried; the x become the gates if that is `kept`. The new state is written, too,
    unless it is `projected` first."""
    cell = cells()[name]
    gates, more = len(cell.gates), len(cell.more)
    exprs = {f"g{k}": e for k, e in enumerate(cell.gates)} | {f"e{k}": e for k, e in enumerate(cell.more)}
    exprs = exprs if kept else {}
    exprs |= {"y": cell.hidden} | ({} if cell.carried is None else {"c": cell.carried})
    places = _gates(cell, "x", "o_gates", gates) | {"h": "o_h[i * m + j]", "c": "o_c[i * meta[0] + j]"}
    shift = "{} + b[{} * meta[0] + j]" if cell.shifted else "{}"
    for k in range(gates):
        places[f"u{k}"] = shift.format(f"u[(i * {gates} + {k}) * meta[0] + j]", k)
    stored = _gates(cell, "g", "o_gates", gates) | _gates(cell, "e", "o_more", more)
    stored |= {"y": "o_m[(row + i) * meta[0] + j]" if projected else "o_y[(row + i) * m + j]"}
    stored |= {"c": places["c"]}
    before = ["o_prev[(row + i) * m + j] = o_h[i * m + j]"] if kept and not projected else []
    after = [] if projected else ["o_h[i * m + j] = o_y[(row + i) * m + j]"]
    pointers = ["o_y", "o_h", "o_c", "o_gates", "o_more", "o_prev", "o_m", "u", "b"]
    title = f"{name}, a step" + ", of which nothing is kept" * (not kept)
    return _units(title, code, pointers, [*before, *_computed(exprs, places, stored, code), *after])


@cached(64)
def backward(name: str, code: str, projected: bool) -> Code:
    """From what arrives at the outputs (at what the cell gives, where that is `projected`: `t`), at the state and at what is carried. What
    reaches the state beside the product takes its place."""
    cell = cells()[name]
    gates, more = len(cell.gates), len(cell.more)
    state = "o_h[i * m + j]"
    places = _gates(cell, "k", "gates", gates) | _gates(cell, "m", "more", more)
    places |= {"d": "o_c[i * meta[0] + j]", "h": "prev[(row + i) * m + j]"}
    places["g"] = "t[i * meta[0] + j]" if projected else f"g_y[(row + i) * m + j] + {state}"
    exprs = {f"x{k}": e for k, e in enumerate(cell.by_x)} | {f"y{k}": e for k, e in enumerate(cell.by_u)}
    exprs |= {} if cell.by_carried is None else {"d": cell.by_carried}
    exprs |= {} if cell.by_state is None else {"h": cell.by_state}
    stored = _gates(cell, "x", "o_x", gates) | _gates(cell, "y", "o_u", gates)
    stored |= {"d": places["d"], "h": state}
    rest = [] if projected or cell.by_state is not None else [f"{state} = F(0)"]
    pointers = ["o_x", "o_u", "o_h", "o_c", "g_y", "gates", "more", "prev", "t"]
    body = [*_computed(exprs, places, stored, code), *rest]
    return _units(f"{name}, a step backwards", code, pointers, body)


_ADDED = '''"""Adds what lies from `row` on to each state."""


def @NAME@(items, meta, o_h, t, row):
    for i in range(cuda.grid(1), items, cuda.gridsize(1)):
        o_h[i] = o_h[i] + t[row * meta[1] + i]
'''
_ARRIVED = '''"""What arrives at each output, from outside and by its state, of which then nothing is left."""


def @NAME@(items, meta, o_t, o_h, g_y, row):
    for i in range(cuda.grid(1), items, cuda.gridsize(1)):
        o_t[row * meta[1] + i] = g_y[row * meta[1] + i] + o_h[i]
        o_h[i] = 0
'''


@cached(8)
def moved(code: str, arrived: bool) -> Code:
    """What is done to elements of the state between the products."""
    codes = ("i8", "*i8", *[f"*{code}"] * (3 if arrived else 2), "i8")
    return for_device(Own(_ARRIVED if arrived else _ADDED, codes, items=256))
