"""Kernels that look at each line as a whole, as source: extremes with their place, moments, logsumexp.

Promises the ops: sums are taken in float64, and the order of additions depends on shapes and strides alone. Each kernel has two forms:
lines that lie side by side are followed together (`walk.opening`), any other line is walked alone, over lanes that are joined at its end.
"""

from __future__ import annotations

from math import inf

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.expr import emit
from nbgrad.expr import prims as p
from nbgrad.expr.node import var
from nbgrad.kernels.cpu.rows import Program, Step
from nbgrad.kernels.cpu.walk import opening
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS, halves, read, vmath_helpers, write

LANES = 32
ROWS = 64  # elements of each of the lines side by side, as many as stay in the nearest cache
BLOCK = 512  # elements that are added up in their own dtype, in any order
WIDE = 128  # lines side by side

Source = tuple[str, tuple[str, ...]]


# ---------------------------------------------------------------- extremes

_EXTREME = '''"""The first place of the {word}imum of each line, and its value; a NaN is the extreme, the first one wins."""
import numpy as np
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}, stack_i8


def @NAME@(start, stop, meta, o, place, x):
    best = stack_{kind}({lanes})
    last = stack_i8({lanes})
    {opening}
        {body}
'''

_EXTREME_TOGETHER = """
for j in range(width):
    best[j] = {line}
    last[j] = 0
for k in range(1, n):
    x_at += x_step
    for j in range(width):
        v = {line}
        u = best[j]
        take = v {sign} u or (v != v and u == u)
        best[j] = v if take else u
        last[j] = k if take else last[j]
for j in range(width):
    o[o_at + j] = {best}
    place[o_at + j] = last[j]
"""

_EXTREME_ALONE = """
whole = n // {lanes} * {lanes}
top = {begin}
if whole:
    for j in range({lanes}):
        best[j] = {lane}
    for k in range({lanes}, whole, {lanes}):
        for j in range({lanes}):
            v = {element}
            u = best[j]
            best[j] = u if (u {sign} v or u != u) else v
    top = best[0]
    for j in range(1, {lanes}):
        u = best[j]
        top = top if (top {sign} u or top != top) else u
for k in range(whole, n):
    v = {tail}
    top = top if (top {sign} v or top != top) else v
at = 0
v = {begin}
while v != top and v == v:
    at += 1
    v = {found}
o[o_at] = {value}
place[o_at] = at
"""


@cached(64)
@family
def extreme(word: str, code: str, kind: str, together: bool, unit: bool) -> Source:
    """`word` is "max" or "min"; `unit` says that a line's elements are neighbours."""
    body = _EXTREME_TOGETHER if together else _EXTREME_ALONE
    times = "" if unit else " * x_step"
    at = {
        "line": "j",
        "begin": "0",
        "lane": f"j{times}",
        "element": f"(k + j){times}",
        "tail": f"k{times}",
        "found": f"at{times}",
    }
    reads = {name: read(f"x[x_at + {where}]", code, kind, False) for name, where in at.items()}
    best, value = write("best[j]", code, kind), write("v", code, kind)
    body = body.format(sign=">" if word == "max" else "<", lanes=LANES, best=best, value=value, **reads)
    source = fill(
        _EXTREME,
        word=word,
        halves=halves((code,)),
        kind=kind,
        lanes=WIDE if together else LANES,
        opening=opening(("o", "x"), WIDE if together else 1),
        body=body.strip("\n").split("\n"),
    )
    return source, ("i8", "i8", "*i8", "*" + code, "*i8", "*" + code)


# ---------------------------------------------------------------- moments

_MOMENTS = '''"""{what} and mean of each line: sums of what differs from its first element, and of the squares of that.

The first element is among those whose spread is sought, so at worst (it alone is far from the rest) n roundings are lost.
"""
import math
import numpy as np
{halves}from nbgrad.kernels.cpu.stack import stack_f8
F = np.float64


def @NAME@(start, stop, meta, o, mean, x, free):
    one = stack_f8({lanes})
    two = stack_f8({lanes})
    {opening}
        {body}
'''

_MOMENTS_TOGETHER = """
for j in range(width):
    one[j] = 0.0
    two[j] = 0.0
p = x_at
for k in range(n):
    for j in range(width):
        v = {line} - {first}
        one[j] += v
        two[j] += v * v
    p += x_step
for j in range(width):
    begin = {first} if n else 0.0
    s = one[j]
    square = two[j] - s * s / n
    mean[o_at + j] = {mean}
    o[o_at + j] = {finish}
"""

_MOMENTS_ALONE = """
whole = n // {lanes} * {lanes}
begin = {first} if n else 0.0
for j in range({lanes}):
    one[j] = 0.0
    two[j] = 0.0
for k in range(0, whole, {lanes}):
    for j in range({lanes}):
        v = {element} - begin
        one[j] += v
        two[j] += v * v
s = 0.0
squares = 0.0
for j in range({lanes}):
    s += one[j]
    squares += two[j]
for k in range(whole, n):
    v = {tail} - begin
    s += v
    squares += v * v
square = squares - s * s / n
mean[o_at] = {mean}
o[o_at] = {finish}
"""

FINISH = {
    "squares": "square",
    "var": "max(square, 0.0) / max(n - free, 0.0) if square == square else square",
    "std": "math.sqrt(max(square, 0.0) / max(n - free, 0.0)) if square == square else square",
}


@cached(64)
@family
def moments(what: str, code: str, out: str, together: bool, unit: bool) -> Source:
    """`what` is a key of FINISH; `free` is what is taken from n in the divisor."""
    body = _MOMENTS_TOGETHER if together else _MOMENTS_ALONE
    times = "" if unit else " * x_step"
    at = {"line": "p + j", "element": f"x_at + (k + j){times}", "tail": f"x_at + k{times}"}
    at["first"] = "x_at + j" if together else "x_at"
    body = body.format(
        finish=write(FINISH[what], out, "f8"),
        mean=write("begin + s / n", out, "f8"),
        lanes=LANES,
        **{name: read(f"x[{where}]", code, "f8", False) for name, where in at.items()},
    )
    source = fill(
        _MOMENTS,
        what=what.capitalize(),
        halves=halves((code, out)),
        lanes=WIDE if together else LANES,
        opening=opening(("o", "x"), WIDE if together else 1),
        body=body.strip("\n").split("\n"),
    )
    return source, ("i8", "i8", "*i8", "*" + out, "*" + out, "*" + code, "f8")


_JOIN = '''"""{what} and mean of runs of `length` elements (the last one of `left`) joined to those of all."""
import math
import numpy as np
{halves}

def @NAME@(start, stop, o, mean, squares, means, runs, length, left, free):
    n = (runs - 1) * length + left
    s = 0.0
    for k in range(runs):
        s += (means[k] - means[0]) * (left if k == runs - 1 else length)
    middle = means[0] + s / n
    square = 0.0
    for k in range(runs):
        v = means[k] - middle
        square += squares[k] + v * v * (left if k == runs - 1 else length)
    mean[0] = {mean}
    o[0] = {finish}
'''


@cached(8)
def join_moments(what: str, out: str) -> Source:
    source = _JOIN.format(
        what=what.capitalize(),
        halves=halves((out,)),
        mean=write("middle", out, "f8"),
        finish=write(FINISH[what], out, "f8"),
    )
    return source, ("i8", "i8", "*" + out, "*" + out, "*f8", "*f8", "i8", "i8", "i8", "f8")


# ---------------------------------------------------------------- the logarithm of a sum of exponentials

_LOGSUMEXP = '''"""Of each line the logarithm of the sum of exponentials, of what its elements differ from the largest."""
from math import inf, nan
import math
import numpy as np
{helpers}
from nbgrad.kernels.cpu.fold import add_up, larger
from nbgrad.kernels.cpu.stack import stack_{code}, stack_f8
F = {scalar}
R = {result}
LOWEST = F({lowest})


def @NAME@(start, stop, meta, o, x):
    {stacks}
    {opening}
        {body}
'''

# What the exponentials are taken relative to is never infinite: a difference of infinities is no number. Lines side by side are
# gone through in blocks that stay in the nearest cache; a block with a larger element makes what was summed before it smaller.
_LOGSUMEXP_TOGETHER = """
for j in range(width):
    best[j] = F(-inf)
    shift[j] = F(-inf)
    sums[j] = 0.0
for at in range(0, n, {rows}):
    p = x_at
    for k in range(at, min(at + {rows}, n)):
        for j in range(width):
            best[j] = x[p + j] if x[p + j] > best[j] else best[j]
        p += x_step
    for j in range(width):
        v = shift[j]
        top = best[j] if best[j] > LOWEST else LOWEST
        top = top if top != inf else F(0)
        {power}
        sums[j] *= np.float64({result})
        shift[j] = top
        up[j] = F(0)
    p = x_at
    for k in range(at, min(at + {rows}, n)):
        for j in range(width):
            v = x[p + j]
            top = shift[j]
            {power_of_lane}
            up[j] += {result}
        p += x_step
    x_at = p
    for j in range(width):
        sums[j] += np.float64(up[j])
for j in range(width):
    o[o_at + j] = R(math.log(sums[j]) + shift[j])
"""

_LOGSUMEXP_ALONE = """
top = F(-inf)
for k in range(n):
    top = larger(top, x[x_at + k{times}])
top = top if abs(top) != inf else F(0)
total = 0.0
for at in range(0, n, {block}):
    up = F(0)
    for k in range(at, min(at + {block}, n)):
        v = x[x_at + k{times}]
        {power}
        up = add_up(up, {result})
    total += np.float64(up)
o[o_at] = R(math.log(total) + top)
"""


@cached(16)
@family
def logsumexp(code: str, out: str, together: bool, unit: bool) -> Source:
    """Codes are float32's or float64's."""
    helpers = vmath_helpers()
    power = emit.emit((p.exp(var("v") - var("top")),), "cpu", code, {"v": "v", "top": "top"})
    body = fill(
        _LOGSUMEXP_TOGETHER if together else _LOGSUMEXP_ALONE,
        block=BLOCK,
        times="" if unit else " * x_step",
        rows=ROWS,
        power=power.lines,
        power_of_lane=power.lines,
        result=power.results[0],
    )
    stacks = [
        f"sums = stack_f8({WIDE})",
        *(f"{name} = stack_{code}({WIDE})" for name in ("best", "shift", "up")),
    ]
    source = fill(
        _LOGSUMEXP,
        helpers=helpers,
        code=code,
        scalar=SCALARS[code],
        result=SCALARS[out],
        lowest="-3.4028234663852886e38" if code == "f4" else "-1.7976931348623157e308",
        stacks=stacks if together else [],
        opening=opening(("o", "x"), WIDE if together else 1),
        body=body.strip("\n").split("\n"),
    )
    return source, ("i8", "i8", "*i8", "*" + out, "*" + code)


_M, _S, _TOP = var("m"), var("s"), var("top")
# The same of short rows.
LOGSUMEXP = Program(
    "logsumexp",
    (
        Step({"m": ("max", var("x"))}, then={"top": p.where(p.eq(p.abs(_M), inf), 0, _M)}),
        Step({"s": ("sum", p.exp(var("x") - _TOP))}, then={"y": p.log(_S) + _TOP}),
    ),
    ("x",),
    results=("y",),
)
