"""Reductions, as source with holes: a prologue per element, how two partial results combine, a finish.

Promises the ops: sums of floats are accumulated in float64 over 64 lanes, and what leaves the lanes is added with compensation, so
they are at least as accurate as pairwise summation; the order of additions depends on shapes and strides alone, never on threads.
Two loops exist: `runs` (what is summed lies together, or one result at a time) and `columns` (results lie together, so
many are accumulated side by side).
"""

from __future__ import annotations

from functools import lru_cache

from nbgrad.expr import emit
from nbgrad.expr.node import Expr
from nbgrad.kernels.templates import SCALARS, halves, read, vmath_helpers, write

LANES = 64
BLOCK = 1024  # float64s after which the lanes are emptied with compensation, a multiple of LANES; of other dtypes eight times as many

COMBINE = {
    "sum": "{a} + {b}",
    "prod": "{a} * {b}",
    "amax": "{a} if ({a} > {b} or {a} != {a}) else {b}",
    "amin": "{a} if ({a} < {b} or {a} != {a}) else {b}",
    "any": "{a} | {b}",
    "all": "{a} & {b}",
}
_IDENTITY = {"sum": "0", "prod": "1", "any": "False", "all": "True"}

_HEAD = '''"""{title}: {combine} over {text}, then {finish}; lanes of {acc}."""
from math import inf, nan
import math
import numpy as np
{preamble}
F = {scalar}
A = {accumulator}

'''

_COMPENSATED = """
        # Neumaier's sum: what an addition loses is kept apart
        t = total + {part}
        lost += ((total - t) + {part}) if abs(total) >= abs({part}) else (({part} - t) + total)
        total = t
"""

_RUNS = """
def @NAME@(start, stop, meta, o, x{numbers}):
    {once}
    lane = {lanes}
    dk = meta[0]
    dr = meta[1]
    n = meta[2]
    step = meta[3]
    outer = meta[4]
    total_length = meta[5]
    for row in range(start, stop):
        rest = row
        begin = 0
        for e in range(dk):
            size = meta[6 + e]
            begin += (rest % size) * meta[6 + dk + e]
            rest //= size
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
            whole = length // {LANES} * {LANES}
            at = 0
            while at < whole:
                upto = {upto}
                for k in range({LANES}):
                    lane[k] = {identity}
                while at < upto:
                    for k in range({LANES}):
                        q = p + (at + k){times}
                        {load}
                        {prologue}
                        u = lane[k]
                        lane[k] = {combine_lane}
                    at += {LANES}
                half = {LANES} // 2
                while half > 0:
                    for k in range(half):
                        u = lane[k]
                        v = lane[k + half]
                        lane[k] = {combine_lanes}
                    half //= 2
                part = lane[0]
                {add_block}
            while at < length:
                q = p + at{times}
                {load}
                {prologue_tail}
                part = {value}
                {add_one}
                at += 1
        {finish}
"""

_COLUMNS = """
def @NAME@(start, stop, meta, o, x{numbers}):
    {once}
    acc = {accumulators}
    {sums}
    dk = meta[0]
    dr = meta[1]
    m = meta[2]
    blocks = meta[3]
    outer = meta[4]
    for item in range(start, stop):
        first = (item % blocks) * {WIDTH}
        row = item // blocks
        width = min({WIDTH}, m - first)
        rest = row
        begin = first
        for e in range(dk):
            size = meta[5 + e]
            begin += (rest % size) * meta[5 + dk + e]
            rest //= size
        for j in range(width):
            acc[j] = {identity}
        {clear}
        for r in range(outer):
            rest = r
            p = begin
            for e in range(dr):
                size = meta[5 + 2 * dk + e]
                p += (rest % size) * meta[5 + 2 * dk + dr + e]
                rest //= size
            for j in range(width):
                q = p + j
                {load}
                {prologue}
                u = acc[j]
                acc[j] = {combine_lane}
            {flush}
        for j in range(width):
            {take}
            {finish}
"""
WIDTH = 256

_FLUSH = """if r % 64 == 63 or r == outer - 1:
                for j in range(width):
                    part = acc[j]
                    was = sums[j]
                    t = was + part
                    lost_of[j] += ((was - t) + part) if abs(was) >= abs(part) else ((part - t) + was)
                    sums[j] = t
                    acc[j] = {identity}"""


@lru_cache(maxsize=1024)
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
) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. `prologue` is of `x` and numbers, computed in `kind`; `finish` of `r` (and numbers), in
    the accumulator's dtype."""
    imports = (
        vmath_helpers() + halves((code, out)) + f"from nbgrad.kernels.cpu.stack import stack_{accumulator}"
    )
    stack = f"stack_{accumulator}({{0}})"
    if target == "cuda":
        imports, stack = "from numba import cuda", f"cuda.local.array({{0}}, {SCALARS[accumulator]})"
    names = {"x": "a"} | {n: f"m{k}" for k, n in enumerate(numbers)}
    before = emit.emit((prologue,), target, kind, names)
    kept = accumulator if accumulator != "b1" else "b1"
    after = emit.emit((finish,), target, kept, {"r": "total"} | {n: f"w{k}" for k, n in enumerate(numbers)})
    value = before.results[0] if accumulator == kind else f"A({before.results[0]})"
    compensated = combine == "sum" and accumulator == "f8"
    identity = identity or _IDENTITY[combine]
    first = identity if accumulator == "b1" else f"A({identity})"
    pair = COMBINE[combine]
    join = lambda a, b: f"A({pair.format(a=a, b=b)})" if accumulator[0] in "iu" else pair.format(a=a, b=b)  # noqa: E731
    indent = lambda text, by: text.strip("\n").replace("\n        ", "\n" + " " * by).strip()  # noqa: E731
    once = [f"m{k} = F(n{k})" for k in range(len(numbers))] + [f"w{k} = A(n{k})" for k in range(len(numbers))]
    result = f"{write(after.results[0], out, accumulator)}"
    if out == "b1" and accumulator != "b1":
        result = f"{after.results[0]} != A(0)"

    def block(lines: list[str], by: int) -> str:
        return ("\n" + " " * by).join(lines) or "pass"

    tail = (["total = total + lost if lost == lost else total"] if compensated else []) + list(after.lines)
    common = dict(
        numbers="".join(f", n{k}" for k in range(len(numbers))),
        once=block(once, 4),
        lanes=stack.format(LANES),
        accumulators=stack.format(WIDTH),
        LANES=LANES,
        upto=f"min(at + {BLOCK if code == 'f8' else 8 * BLOCK}, whole)" if compensated else "whole",
        WIDTH=WIDTH,
        identity=first,
        value=value,
        load=f"a = {read('x[q]', code, kind, False)}",
        combine_lane=join("u", value),
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
    if columns:
        body = _COLUMNS.format(
            **common,
            prologue=block(list(before.lines), 16),
            sums=f"sums = {stack.format(WIDTH)}\n    lost_of = {stack.format(WIDTH)}"
            if compensated
            else "pass",
            clear="for j in range(width):\n            sums[j] = 0.0\n            lost_of[j] = 0.0"
            if compensated
            else "pass",
            flush=_FLUSH.format(identity=first) if compensated else "pass",
            take="total = sums[j]\n            lost = lost_of[j]" if compensated else "total = acc[j]",
            finish=block([*tail, f"o[row * m + first + j] = {result}"], 12),
        )
    else:
        add = _COMPENSATED.format(part="part") if compensated else f"total = {join('total', 'part')}"
        body = _RUNS.format(
            **common,
            prologue=block(list(before.lines), 24),
            prologue_tail=block(list(before.lines), 16),
            combine_lanes=join("u", "v"),
            times="" if contiguous else " * step",
            add_block=indent(add, 16),
            add_one=indent(add, 16),
            finish=block([*tail, f"o[row] = {result}"], 8),
        )
    number = "f8" if kind[0] == "f" else "i8"
    # A hole that nothing fills leaves no line.
    body = "\n".join(line for line in body.split("\n") if line.strip() != "pass")
    return head + body, ("i8", "i8", "*i8", "*" + out, "*" + code, *[number] * len(numbers))
