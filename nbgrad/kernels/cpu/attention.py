"""Attention as source: blocks of queries against blocks of keys, of which only one block of scores is there at a time.

Promises the ops that nothing of the size of queries times keys is held. Scores stand turned, a row for each key, so that a vector's
lanes are queries: the maximum and the sum of a softmax are then vectors as well, keys and values are read where they lie, and only
queries (and the gradients that arrive) are copied, a block at a time. Forward, a block of queries goes past all keys; what it has
is multiplied by `exp(old - new)` where a maximum rises. What is kept is a log-sum for each query, of which backward makes the
softmax anew.

Forward an item is a block of queries of one head, backward a head of keys with all heads of queries that share it, which adds to the
gradients of keys and values in the order of the queries. So bits do not depend on who takes which items.

`meta` holds: blocks of queries, queries, keys, elements of a key and of a value, whether a query sees only keys up to its own place, heads
of queries for each of keys, dimensions of the batch; for each operand the step from row to row and from one of those heads to the
next; sizes of the batch's dimensions, the last one first; for each operand its steps along them. Steps count bytes, but for masks:
elements, and last stands the step from key to key.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.expr import emit
from nbgrad.expr import prims as p
from nbgrad.expr.node import var
from nbgrad.expr.special import exp_below
from nbgrad.kernels.cpu.products import rows_of
from nbgrad.kernels.templates import SCALARS, vmath_helpers
from nbgrad.kernels.tile import MORE, SHAPES

Code = tuple[str, tuple[str, ...]]
FORWARD = ("o", "q", "k", "v", "mask")
BACKWARD = ("o_q", "o_k", "o_v", "g", "q", "k", "v", "o", "mask")


QUERIES = 64  # of a block
# Bytes of a row of as many numbers as a block has keys, or of what is copied of a query at once: the rooms on the stack are of 32 KB then,
# and threads may have small stacks.
LINE = 512


_HEAD = '''"""Attention, {title}."""
from math import inf, nan
import math
import numpy as np
{preamble}from nbgrad.kernels.cpu.fold import larger
from nbgrad.kernels.cpu.memory import address_of, at_{code}
from nbgrad.kernels.cpu.stack import stack_{code}
from nbgrad.kernels.cpu.tile import {names}
from numba.extending import register_jitable
F = {scalar}


{rows_of}


@register_jitable(error_model="numpy")
def product(m, n, k, a, row, along, b, ldb, c, ldc, how):
    for j in range(0, n, {wide}):
        rows_of(k, a, row, along, b + j * {size}, ldb, c + j * {size}, ldc, m, n - j, how, 0, 0)


@register_jitable(error_model="numpy")
def turned(x, ldx, rows, columns, k, to):
    """Rows as columns; behind them the last again."""
    for e in range(0, columns, {lanes}):
        {turn}((x + e * ldx, ldx, rows - e, to + e * {size}, columns * {size}, k))


@register_jitable(error_model="numpy")
def scores(n, columns, k, x, ldx, rows, factor, y, ldy, panel, to, before):
    """Products of `n` rows of y with those of x, each a row of `to`; `panel` has the rows of x turned, and those `before` have found it."""
    step = columns * {size}
    for part in range(0, k, {depth}):
        length = min({depth}, k - part)
        if before == 0 or k > {depth}:
            turned(x + part * {size}, ldx, rows, columns, length, panel)
            if factor != F(1):
                copy = at_{code}(panel)
                for e in range(length * columns):
                    copy[e] *= factor
        how = {MORE} if part > 0 else 0
        product(n, columns, length, y + part * {size}, ldy, {size}, panel, step, to, step, how)

'''

_FORWARD = """
def @NAME@(start, stop, meta, o, log_sums, q, k, v, mask, scale):
    {opening}
    factor = F(scale)
    copied = stack_{code}({room})
    panel = address_of(copied)
    s = stack_{code}({room})
    top = stack_{code}({queries})
    total = stack_{code}({queries})
    new = stack_{code}({queries})
    base = stack_{code}({queries})
    kept = stack_{code}({queries})
    part = stack_{code}({queries})
    {masks}
    for item in range(start, stop):
        head = item // blocks
        first = item % blocks * {queries}
        rows = min({queries}, length - first)
        columns = (rows + {lanes} - 1) // {lanes} * {lanes}
        {places}
        o_at += first * o_row
        for c in range({queries}):
            top[c] = F(-inf)
            total[c] = F(0)
        end = keys
        if causal:
            end = min(keys, first + rows)
        for j in range(0, end, {keys}):
            n = min({keys}, end - j)
            {scores}
            for c in range(columns):
                new[c] = top[c]
            for x in range(n):
                for c in range(columns):
                    new[c] = larger(new[c], s[x * columns + c])
            moved = 0
            for c in range(columns):
                high = new[c] if new[c] > F(-inf) else F(0)
                gone = top[c] - high
                {exp_gone}
                base[c] = high
                kept[c] = {gone}
                moved += {gone} != F(1)
                top[c] = new[c]
                part[c] = F(0)
            for x in range(n):
                for c in range(columns):
                    s[x * columns + c] -= base[c]
            for c in range(n * columns):
                score = s[c]
                {exp_score}
                s[c] = {score}
            for x in range(n):
                for c in range(columns):
                    part[c] += s[x * columns + c]
            for c in range(columns):
                total[c] = total[c] * kept[c] + part[c]
            if j > 0 and moved > 0:
                for r in range(rows):
                    row = at_{code}(o_at + r * o_row)
                    factor_r = kept[r]
                    if factor_r != F(1):
                        for c in range(width):
                            row[c] *= factor_r
            how = {MORE} if j > 0 else 0
            product(rows, width, n, address_of(s), {size}, columns * {size}, v_at + j * v_row, v_row, o_at, o_row, how)
        for c in range(columns):
            sum = total[c]
            share = F(1) / sum
            {log}
            kept[c] = share if sum != F(0) else F(0)
            new[c] = top[c] + {log_sum} if sum != F(0) else F(inf)
        for r in range(rows):
            row = at_{code}(o_at + r * o_row)
            share = kept[r]
            for c in range(width):
                row[c] *= share
            log_sums[head * length + first + r] = new[r]
"""

_BACKWARD = """
def @NAME@(start, stop, meta, o_q, o_k, o_v, g, q, k, v, o, log_sums, mask, scale):
    {opening}
    factor = F(scale)
    copied = stack_{code}({room})
    panel = address_of(copied)
    by = stack_{code}({room})
    s = stack_{code}({room})
    by_s = stack_{code}({room})
    base = stack_{code}({queries})
    dots = stack_{code}({queries})
    sums = stack_{code}({queries})
    {masks}
    for item in range(start, stop):
        for group in range(groups):
            head = item * groups + group
            {places}
            if causal and group == 0:
                for x in range(keys):
                    row = at_{code}(o_k_at + x * o_k_row)
                    for c in range(depth):
                        row[c] = F(0)
                    row = at_{code}(o_v_at + x * o_v_row)
                    for c in range(width):
                        row[c] = F(0)
            for first in range(0, length, {queries}):
                rows = min({queries}, length - first)
                columns = (rows + {lanes} - 1) // {lanes} * {lanes}
                step = columns * {size}
                g_from = g_at + first * g_row
                # Summed as the tile sums: of a query that sees one key both are the same, and its gradient 0.
                for part in range(0, width, {depth}):
                    n = min({depth}, width - part)
                    turned(g_from + part * {size}, g_row, rows, columns, n, address_of(by))
                    turned(o_at + first * o_row + part * {size}, o_row, rows, columns, n, address_of(s))
                    for c in range(columns):
                        sums[c] = F(0)
                    for x in range(n):
                        for c in range(columns):
                            sums[c] = mad(s[x * columns + c], by[x * columns + c], sums[c])
                    for c in range(columns):
                        dots[c] = sums[c] + dots[c] if part > 0 else sums[c]
                for c in range(rows):
                    base[c] = log_sums[head * length + first + c]
                for c in range(rows, columns):
                    base[c] = F(inf)
                end = keys
                if causal:
                    end = min(keys, first + rows)
                adds = {MORE} if causal + group + first > 0 else 0
                for j in range(0, end, {keys}):
                    n = min({keys}, end - j)
                    {scores}
                    scores(n, columns, width, g_from, g_row, rows, F(1), v_at + j * v_row, v_row, address_of(by), address_of(by_s), 1)
                    for x in range(n):
                        for c in range(columns):
                            s[x * columns + c] -= base[c]
                            by_s[x * columns + c] -= dots[c]
                    for c in range(n * columns):
                        score = s[c]
                        {exp_score}
                        s[c] = {score}
                        by_s[c] *= {score} * factor
                    how = {MORE} if j > 0 else 0
                    k_from, to = k_at + j * k_row, o_q_at + first * o_q_row
                    product(rows, depth, n, address_of(by_s), {size}, step, k_from, k_row, to, o_q_row, how)
                    q_from, to = q_at + first * q_row, o_k_at + j * o_k_row
                    product(n, depth, rows, address_of(by_s), step, {size}, q_from, q_row, to, o_k_row, adds)
                    product(n, width, rows, address_of(s), step, {size}, g_from, g_row, o_v_at + j * o_v_row, o_v_row, adds)
"""


def _opening(names: tuple[str, ...]) -> list[str]:
    plain = ("blocks", "length", "keys", "depth", "width", "causal", "groups", "d")
    lines = [f"{name} = meta[{k}]" for k, name in enumerate(plain)]
    for k, name in enumerate(names):
        lines += [f"{name}_row = meta[{8 + 2 * k}]", f"{name}_group = meta[{9 + 2 * k}]"]
    return [*lines, f"mask_along = meta[{8 + 2 * len(names)} + d * {1 + len(names)}]"]


def _places(names: tuple[str, ...], head: str, group: str) -> Lines:
    """Where the operands of a head begin."""
    sizes = 8 + 2 * len(names)
    start = {name: f"address_of({name}) + " for name in names} | {"mask": ""}
    return [
        f"rest = {head}",
        *(f"{name}_at = {start[name]}{group} * {name}_group" for name in names),
        "for e in range(d):",
        [
            f"size = meta[{sizes} + e]",
            "at = rest % size",
            "rest //= size",
            *(f"{name}_at += at * meta[{sizes} + d * {k + 1} + e]" for k, name in enumerate(names)),
        ],
    ]


def _masked(code: str, kind: str, lanes: int) -> Lines:
    """Adds to scores what a mask says: True is nothing, False `-inf`. Rows of the mask are turned, so that its keys are rows."""
    size = int(code[1])
    turn = f"turn_{code}_{lanes}"
    value = "F(0) if mask[{0}] else F(-inf)" if kind == "b1" else "mask[{0}]"

    def drawn(step: str) -> Lines:
        place = value.format(f"m_from + c * mask_row + x{step}")
        return ["for x in range(n):", [f"drawn[c * {LINE // size} + x] = {place}"]]

    copy: Lines = [
        f"for c in range(min({lanes}, rows - e)):",
        ["if mask_along == 1:", drawn(""), "else:", drawn(" * mask_along")],
        f"{turn}((address_of(drawn), {LINE}, rows - e, address_of(laid) + e * {size}, columns * {size}, n))",
    ]
    as_it_lies = (
        f"{turn}((address_of(mask) + m_from * {size}, mask_row * {size}, rows - e, address_of(laid) + e * {size}, "
        f"columns * {size}, n))"
    )
    whole = copy if kind == "b1" else ["if mask_along == 1:", [as_it_lies], "else:", copy]
    return [
        f"for e in range(0, columns, {lanes}):",
        ["m_from = mask_at + (first + e) * mask_row + j * mask_along", *whole],
        "for c in range(n * columns):",
        ["s[c] += laid[c]"],
    ]


def _scores(code: str, kind: str, lanes: int) -> Lines:
    """Those of a block, as they go into the softmax."""
    at = "q_at + first * q_row, q_row, rows, factor, k_at + j * k_row, k_row, panel, address_of(s), j"
    return [
        f"scores(n, columns, depth, {at})",
        *(_masked(code, kind, lanes) if kind else []),
        "if causal:",
        [
            "for x in range(max(0, first - j + 1), n):",
            ["for c in range(min(columns, x + j - first)):", ["s[x * columns + c] = F(-inf)"]],
        ],
    ]


def _source(code: str, bits: int, kind: str, forward: bool) -> Code:
    _, vectors, lanes = SHAPES[bits][code]
    size, turn = int(code[1]), f"turn_{code}_{lanes}"
    keys = LINE // size
    strip, tiles = rows_of(code, bits)
    names = FORWARD if forward else BACKWARD
    preamble = vmath_helpers()
    holes: dict[str, object] = {
        **{"code": code, "size": size, "lanes": lanes, "wide": vectors * lanes, "MORE": MORE},
        **{"queries": QUERIES, "keys": keys, "depth": keys, "turn": turn, "scalar": SCALARS[code]},
        **{"room": QUERIES * keys},
        "names": ", ".join(sorted({*tiles, turn}) + ["full_width"] * (bits == 512)),
        "opening": [*["full_width()"] * (bits == 512), *_opening(names)],
        "places": _places(names, *(("head // groups", "head % groups") if forward else ("item", "group"))),
        "masks": [
            f"drawn = stack_{code}({lanes * keys})",
            f"laid = stack_{code}({QUERIES * keys})" if forward else "laid = by_s",
        ]
        if kind
        else [],
        "scores": _scores(code, kind, lanes),
    }
    for name, x in (("gone", "gone"), ("score", "score")):
        done = emit.emit((exp_below(var("x")),), "cpu", code, {"x": x})
        holes |= {f"exp_{name}": done.lines, name: done.results[0]}
    done = emit.emit((p.log(var("x")),), "cpu", code, {"x": "sum"})
    holes |= {"log": done.lines, "log_sum": done.results[0]}
    title = "forward" if forward else "backward"
    text = fill(_HEAD, title=title, preamble=preamble, rows_of=strip, **holes)
    text += fill(_FORWARD if forward else _BACKWARD, **holes)
    real = f"*{code}"
    made = [real] * (2 if forward else 9)
    reads = [real] * 3 if forward else []
    return text, ("i8", "i8", "*i8", *made, *reads, f"*{kind or code}", "f8")


@cached(16)
def forward(code: str, bits: int, kind: str) -> Code:
    """Writes the result and the log-sums; `kind` is the mask's dtype, or nothing."""
    return _source(code, bits, kind, True)


@cached(16)
def backward(code: str, bits: int, kind: str) -> Code:
    """Writes the gradients of queries, keys and values."""
    return _source(code, bits, kind, False)
