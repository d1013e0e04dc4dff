"""Reductions, as source with holes: a prologue per element, how two partial results combine, a finish.

Promises the ops: of floats a block of elements is combined in the dtype they are computed in, in any order, and blocks in the
accumulator's: float64 for sums, those of float64 with compensation. So sums are at least as accurate as pairwise summation; the order
depends on shapes and strides alone, never on threads. Two loops exist: `runs` (what is reduced lies together, or one result at a
time) and `columns` (results lie together, so many are accumulated side by side).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.base.source import fill
from nbgrad.base.tables import Table, cached
from nbgrad.expr import emit
from nbgrad.expr.node import Expr
from nbgrad.kernels.codes import MEMORY
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS, halves, read, vmath_helpers, write

BLOCK = 512  # elements combined in any order: 16 of them in each of 32 lanes
LONG = 4096  # of what is not rounded, so that its lanes are seldom joined
ROWS = 16  # of columns, as elements in a lane
SHORT = 32  # elements of a row: so few are reduced in their order
WIDTH = 1024  # columns side by side: what is kept of them stays in the nearest cache

COMBINE = {
    "sum": "{a} + {b}",
    "prod": "{a} * {b}",
    "amax": "{a} if ({a} > {b} or {a} != {a}) else {b}",
    "amin": "{a} if ({a} < {b} or {a} != {a}) else {b}",
    "any": "{a} | {b}",
    "all": "{a} & {b}",
}
_IN_ANY_ORDER = {  # of floats; integers LLVM reorders by itself
    "sum": "add_up({a}, {b})",
    "prod": "multiply_up({a}, {b})",
    "amax": "highest({a}, {b})",
    "amin": "lowest({a}, {b})",
}
_IDENTITY = {"sum": "0", "prod": "1", "any": "False", "all": "True"}

# Codes of what kernels over runs reduce and of results, by the kernel's address: for who does several by strips.
in_runs: Table[int, tuple[str, str]] = Table("kernels.cpu.reduce.in_runs", None)

_HEAD = '''"""{title}: {combine} over {text}, then {finish}; in {acc}."""
from math import inf, nan
import math
import numpy as np
{preamble}
F = {scalar}
A = {accumulator}

'''

# Neumaier's sum: what an addition loses is kept apart
_COMPENSATED = [
    "t = total + part",
    "lost += ((total - t) + part) if abs(total) >= abs(part) else ((part - t) + total)",
    "total = t",
]

# Divisions find where a row begins, from there on it is a step to the next, until the nearest dimension ends.
_RUNS = """
def @NAME@(start, stop, meta, o, x{numbers}):
    {once}
    dk = meta[0]
    dr = meta[1]
    n = meta[2]
    step = meta[3]
    outer = meta[4]
    total_length = meta[5]
    nearest = meta[6]
    pitch = meta[6 + dk]
    row = start
    while row < stop:
        rest = row
        begin = 0
        for e in range(dk):
            size = meta[6 + e]
            begin += (rest % size) * meta[6 + dk + e]
            rest //= size
        last = min(stop, row - row % nearest + nearest)
        for row in range(row, last):
            {reduced}
            {finish}
            begin += pitch
        row = last
"""

_LONG_ROW = """
length = min(n, total_length - row * n)
total = {identity}
lost = A(0)
for r in range(outer):
    rest = r
    p = begin
    for e in range(dr):
        size = meta[6 + 2 * dk + e]
        p += (rest % size) * meta[6 + 2 * dk + dr + e]
        rest //= size
    for at in range(0, length, {block}):
        up = {first}
        end = min(at + {block}, length)
        {laid}
        for k in range(at, end):
            q = {place}
            {load}
            {prologue}
            up = {fold}
        part = {part}
        {add}
"""

# Its elements in their order: to set up vectors takes longer.
_SHORT_ROW = """
up = {first}
for k in range(n):
    q = begin + k{times}
    {load}
    {prologue}
    up = {fold}
total = {part}
"""

_COLUMNS = """
def @NAME@(start, stop, meta, o, x{numbers}):
    {once}
    up = {parts}
    totals = {accumulators}
    {kept_apart}
    dk = meta[0]
    dr = meta[1]
    m = meta[2]
    blocks = meta[3]
    outer = meta[4]
    total_length = meta[5]
    nearest = meta[6 + 2 * dk]
    pitch = meta[6 + 2 * dk + dr]
    for item in range(start, stop):
        first = (item % blocks) * {WIDTH}
        row = item // blocks
        width = min({WIDTH}, m - first)
        rest = row
        begin = first
        for e in range(dk):
            size = meta[6 + e]
            begin += (rest % size) * meta[6 + dk + e]
            rest //= size
        length = min(outer, total_length - row * outer)
        for j in range(width):
            totals[j] = {identity}
            {clear}
        for at in range(0, length, {ROWS}):
            for j in range(width):
                up[j] = {first}
            r = at
            end = min(at + {ROWS}, length)
            while r < end:
                rest = r
                p = begin
                for e in range(dr):
                    size = meta[6 + 2 * dk + e]
                    p += (rest % size) * meta[6 + 2 * dk + dr + e]
                    rest //= size
                last = min(end, r - r % nearest + nearest)
                for r in range(r, last):
                    for j in range(width):
                        q = p + j
                        {load}
                        {prologue}
                        u = up[j]
                        up[j] = {side_by_side}
                    p += pitch
                r = last
            for j in range(width):
                part = {part_of_column}
                total = totals[j]
                {lost}
                {add}
                totals[j] = total
                {keep_lost}
        for j in range(width):
            total = totals[j]
            {lost_of_all}
            {finish}
"""


class Pieces(NamedTuple):
    """What a loop does to an element (`prologue`, whose result is `value`), to what it has `held` of some elements, and at the end."""

    head: str
    holes: dict[str, Any]
    prologue: list[str]
    value: str
    held: str
    scalar: str
    same: bool  # whether it is held as the accumulator is
    compensated: bool
    join: Callable[[str, str, str, str], str]  # of two names and a code and its type
    tail: list[str]
    result: str
    codes: tuple[str, ...]


@cached(1024)
@family
def reduction(
    title: str,
    prologue: Expr,
    combine: str,
    finish: Expr,
    code: str,
    kind: str,
    accumulator: str,
    out: str,
    contiguous: bool,
    columns: bool,
    numbers: tuple[str, ...] = (),
    identity: str = "",
    target: str = "cpu",
    short: bool = False,
) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. `prologue` is of `x` and numbers, computed in `kind`; `finish` of `r` (and numbers), in
    the accumulator's dtype. A `short` row is one run of at most SHORT elements. `meta` has one dimension at least of those that rows
    begin in (of columns, those that are walked), if only of size 1."""
    any_order = combine in _IN_ANY_ORDER and kind[0] == "f" and target == "cpu" and not short
    p = pieces(title, prologue, combine, finish, code, kind, accumulator, out, numbers, identity, target)
    stack = "cuda.local.array({1}, {2})" if target == "cuda" else "stack_{0}({1})"
    tail = p.tail[p.compensated :] if short else p.tail
    if columns:
        kept = stack.format(accumulator, WIDTH, SCALARS[accumulator])
        body = fill(
            _COLUMNS,
            **p.holes,
            ROWS=ROWS,
            WIDTH=WIDTH,
            parts=stack.format(p.held, WIDTH, SCALARS[p.held]),
            accumulators=kept,
            kept_apart=[f"losses = {kept}"] * p.compensated,
            clear=["losses[j] = 0.0"] * p.compensated,
            lost=["lost = losses[j]"] * p.compensated,
            keep_lost=["losses[j] = lost"] * p.compensated,
            lost_of_all=["lost = losses[j]"] * p.compensated,
            prologue=p.prologue,
            # Of `u` first LLVM makes stores under a mask, which leave NaN as it is and take six times as long on a Zen 3.
            side_by_side=_IN_ANY_ORDER[combine].format(a=p.value, b="u")
            if any_order and combine in ("amax", "amin")
            else p.join("u", p.value, p.held, p.scalar),
            part_of_column="up[j]" if p.same else "A(up[j])",
            finish=[*tail, f"o[row * m + first + j] = {p.result}"],
        )
    else:
        # Elements that are apart are laid side by side first, so that what adds them up is a loop of vectors.
        laid = not (contiguous or short or target != "cpu")
        holes = p.holes
        if laid:
            holes = holes | {"load": f"a = {read('beside[q]', code, kind, False)}"}
            holes["once"] = [*holes["once"], f"beside = stack_{MEMORY.get(code, code)}({BLOCK})"]
        row = fill(
            _SHORT_ROW if short else _LONG_ROW,
            **holes,
            block=BLOCK if combine in ("sum", "prod") or laid else LONG,
            laid=["for j in range(end - at):", ["beside[j] = x[p + (at + j) * step]"]] if laid else [],
            place="k - at" if laid else "p + k" if contiguous else "p + k * step",
            prologue=p.prologue,
            fold=_IN_ANY_ORDER[combine].format(a="up", b=p.value)
            if any_order
            else p.join("up", p.value, p.held, p.scalar),
            part="up" if p.same else "A(up)",
            times="" if contiguous else " * step",
        )
        body = fill(
            _RUNS,
            numbers=p.holes["numbers"],
            once=holes["once"],
            reduced=row.strip("\n").split("\n"),
            finish=[*tail, f"o[row] = {p.result}"],
        )
    return p.head + body, ("i8", "i8", *p.codes)


def pieces(
    title: str,
    prologue: Expr,
    combine: str,
    finish: Expr,
    code: str,
    kind: str,
    accumulator: str,
    out: str,
    numbers: tuple[str, ...],
    identity: str,
    target: str = "cpu",
) -> Pieces:
    """What all loops share."""
    stacks = ", ".join(sorted({f"stack_{c}" for c in (kind, accumulator, MEMORY.get(code, code))}))
    helpers = halves((code, out)) + f"from nbgrad.kernels.cpu.stack import {stacks}\n"
    imports = (
        vmath_helpers() + helpers + "from nbgrad.kernels.cpu.fold import add_up, highest, lowest, multiply_up"
    )
    if target == "cuda":
        imports = "from numba import cuda"
    names = {"x": "a"} | {n: f"m{k}" for k, n in enumerate(numbers)}
    before = emit.emit((prologue,), target, kind, names)
    after = emit.emit(
        (finish,), target, accumulator, {"r": "total"} | {n: f"w{k}" for k, n in enumerate(numbers)}
    )
    compensated = combine == "sum" and kind == accumulator == "f8"
    identity = identity or _IDENTITY[combine]
    typed = lambda text, c, scalar: f"{scalar}({text})" if c[0] in "fiu" else text  # noqa: E731

    def join(a: str, b: str, c: str, scalar: str) -> str:
        text = COMBINE[combine].format(a=a, b=b)
        return f"{scalar}({text})" if c[0] in "iu" else text

    once = [f"m{k} = F(n{k})" for k in range(len(numbers))] + [f"w{k} = A(n{k})" for k in range(len(numbers))]
    result = f"{write(after.results[0], out, accumulator)}"
    if out == "b1" and accumulator != "b1":
        result = f"{after.results[0]} != A(0)"

    # A block is held in the dtype of its elements, but for truth values, and for products: of 512 float32 these are often
    # denormal, and each multiplication of a denormal costs a hundred others.
    same = combine in ("prod", "any", "all") or kind == accumulator
    held, scalar = (accumulator, "A") if same else (kind, "F")
    holes = dict(
        numbers="".join(f", n{k}" for k in range(len(numbers))),
        once=once,
        identity=typed(identity, accumulator, "A"),
        first=typed(identity, held, scalar),
        load=f"a = {read('x[q]', code, kind, False)}",
        add=_COMPENSATED if compensated else [f"total = {join('total', 'part', accumulator, 'A')}"],
    )
    head = _HEAD.format(
        title=title,
        combine=combine,
        text=prologue,
        finish=finish,
        acc=accumulator,
        preamble=imports,
        scalar=SCALARS[kind],
        accumulator=SCALARS[accumulator],
    )
    number = "f8" if kind[0] == "f" else "i8"
    return Pieces(
        head,
        holes,
        before.lines,
        f"A({before.results[0]})" if combine == "prod" and kind != accumulator else before.results[0],
        held,
        scalar,
        same,
        compensated,
        join,
        ["total = total + lost if lost == lost else total"] * compensated + after.lines,
        result,
        ("*i8", "*" + out, "*" + code, *[number] * len(numbers)),
    )


_INNER = '''"""Sums of the products of two lines' elements, one for each run of `length`."""
import numpy as np
{preamble}from nbgrad.kernels.cpu.fold import add_up
F = {scalar}


def @NAME@(start, stop, meta, o, x, y):
    n = meta[0]
    length = meta[1]
    x_step = meta[2]
    y_step = meta[3]
    for run in range(start, stop):
        last = min(run * length + length, n)
        total = 0.0
        for at in range(run * length, last, {BLOCK}):
            up = F(0)
            for k in range(at, min(at + {BLOCK}, last)):
                up = add_up(up, {x} * {y})
            total += np.float64(up)
        o[run] = {result}
'''


@family
def inner(code: str, kind: str, out: str, contiguous: bool) -> tuple[str, tuple[str, ...]]:
    """Of floats; blocks are taken in `kind`, runs in float64."""
    x, y = ("x[k]", "y[k]") if contiguous else ("x[k * x_step]", "y[k * y_step]")
    source = _INNER.format(
        preamble=halves((code, out)),
        scalar=SCALARS[kind],
        BLOCK=BLOCK,
        x=read(x, code, kind, False),
        y=read(y, code, kind, False),
        result=write("total", out, "f8"),
    )
    return source, ("i8", "i8", "*i8", "*" + out, "*" + code, "*" + code)
