"""Scans, as source with holes: running sums, products, extremes and the linear recurrence that their gradients are.

Promises the ops: floats are taken in float64 (PyTorch does the same), and the order of operations depends on shapes and strides alone.
Neighbouring lines are followed side by side, in bundles (`walk.opening`), each element after those before it. Running sums and products
of a line whose elements are neighbours are taken a few at a time (`prefix`); a long line of them also in runs, each
of which begins with what the sums of those before it come to.
"""

from __future__ import annotations

from nbgrad.base.source import fill
from nbgrad.base.tables import cached
from nbgrad.expr import emit
from nbgrad.expr import prims as p
from nbgrad.expr.node import Expr, var
from nbgrad.kernels.cpu.walk import opening
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS, halves, read, vmath_helpers, write

WIDTH = 8  # neighbours that `prefix.py`, which imports Numba, takes at a time
_u, _v = var("u"), var("v")
_top = p.where(p.gt(_u, _v), _u, _v)
_low = p.where(p.gt(_u, _v), _v, _u)
# Of equal infinities the difference is no number, and the sum of their exponentials is one of them.
_log_add = p.where(p.logical_and(p.eq(_u, _v), p.isinf(_u)), _u, _top + p.log1p(p.exp(_low - _top)))

COMBINE: dict[str, tuple[Expr, str]] = {
    "cumsum": (_u + _v, "0"),
    "cumprod": (_u * _v, "1"),
    "logcumsumexp": (_log_add, "-inf"),
}

_SCAN = '''"""{title} along a dimension, in {acc}."""
from math import inf, nan
import math
import numpy as np
{preamble}
from nbgrad.kernels.cpu.stack import stack_{acc}
F = {scalar}


def @NAME@(start, stop, meta, o, x{more}):
    acc = stack_{acc}({width})
    {opening}
        for j in range(width):
            acc[j] = {identity}
        for k in range(n):
            for j in range(width):
                v = {read}
                u = acc[j]
                {combine}
                acc[j] = {result}
                o[o_at + {o}] = {write}
            x_at += x_step
            o_at += o_step
            {step}
'''


@cached(256)
@family
def scan(
    kind: str, code: str, accumulator: str, out: str, width: int, together: bool
) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes. `kind` is a key of COMBINE."""
    helpers = vmath_helpers()
    combine, identity = COMBINE[kind]
    emitted = emit.emit((combine,), "cpu", accumulator, {"u": "u", "v": "v"})
    return _fill(
        kind,
        helpers,
        code,
        accumulator,
        out,
        width,
        together,
        list(emitted.lines),
        emitted.results[0],
        identity,
    )


_ALONG = '''"""{title} along lines whose elements are neighbours, in {acc}."""
import numpy as np
from nbgrad.kernels.cpu.prefix import {running}
F = {scalar}


def @NAME@(start, stop, meta, o, x{more}):
    {opening}
        u = F({identity})
        {begin}
        for k in range(0, n - {last}, {WIDTH}):
            u = {running}(o, o_at {sign} k, x, x_at {sign} k, u)
        for k in range(n // {WIDTH} * {WIDTH}, n):
            v = {read}
            u = {result}
            o[o_at {sign} k] = {write}
'''

_RUNS = """length = meta[0]
    whole = meta[1]
    for item in range(start, stop):
        n = min(length, whole - item * length)
        o_at = x_at = item * length{end}"""


_NEIGHBOURS = {"cumsum": ("running_sums", "u + v"), "cumprod": ("running_products", "u * v")}


@cached(64)
@family
def along(
    kind: str, code: str, accumulator: str, out: str, reverse: bool, runs: bool = False
) -> tuple[str, tuple[str, ...]]:
    """The same for "cumsum" or "cumprod" of lines whose elements are neighbours, walked from their ends if `reverse`. Of `runs` of one
    line, `before` holds what each comes to with those before it; `meta` says how long a run is, and the line."""
    function, result = _NEIGHBOURS[kind]
    there = "whole - item * length > length" if reverse else "item"
    source = fill(
        _ALONG,
        title=kind,
        acc=accumulator,
        scalar=SCALARS[accumulator],
        running=function + "_back" * reverse,
        more=", before" if runs else "",
        opening=_RUNS.format(end=" + n - 1" if reverse else "") if runs else opening(("o", "x"), 1),
        identity=COMBINE[kind][1],
        begin=[f"if {there}:", [f"u = before[item {'+' if reverse else '-'} 1]"]] if runs else [],
        last=WIDTH - 1,
        WIDTH=WIDTH,
        sign="-" if reverse else "+",
        read=read(f"x[x_at {'-' if reverse else '+'} k]", code, accumulator, False),
        result=result,
        write=write("u", out, accumulator),
    )
    return source, ("i8", "i8", "*i8", "*" + out, "*" + code, *(["*" + accumulator] if runs else []))


@cached(64)
@family
def recurrence(code: str, accumulator: str, width: int, together: bool) -> tuple[str, tuple[str, ...]]:
    """o[k] = x[k] + a[k] * o[k - 1]."""
    a = read("a[a_at + j]" if together else "a[a_at + j * a_lane]", code, accumulator, False)
    return _fill(
        "o[k] = x[k] + a[k] * o[k - 1]",
        "",
        code,
        accumulator,
        code,
        width,
        together,
        [],
        f"v + {a} * u if k else v",
        "0",
        second=True,
    )


def _fill(
    title: str,
    preamble: str,
    code: str,
    accumulator: str,
    out: str,
    width: int,
    together: bool,
    lines: list[str],
    result: str,
    identity: str,
    second: bool = False,
) -> tuple[str, tuple[str, ...]]:
    names = ("o", "x", "a") if second else ("o", "x")
    source = fill(
        _SCAN,
        title=title,
        preamble=preamble + halves((code, out)),
        acc=accumulator,
        scalar=SCALARS[accumulator],
        more=", a" if second else "",
        width=width,
        opening=opening(names, width),
        identity=f"F({identity})",
        read=read("x[x_at + j]" if together else "x[x_at + j * x_lane]", code, accumulator, False),
        o="j" if together else "j * o_lane",
        combine=lines,
        result=result,
        write=write("acc[j]", out, accumulator),
        step=["a_at += a_step"] * second,
    )
    return source, ("i8", "i8", "*i8", "*" + out, "*" + code, *(["*" + code] if second else []))


_EXTREME = '''"""The running {word}imum along a dimension, and the last place of it; a NaN is the extreme."""
{halves}from nbgrad.kernels.cpu.stack import stack_{kind}, stack_i8


def @NAME@(start, stop, meta, o, place, x):
    best = stack_{kind}({width})
    last = stack_i8({width})
    {opening}
        for k in range(n):
            for j in range(width):
                v = {read}
                u = best[j]
                take = k == 0 or v != v or (u == u and v {sign}= u)
                best[j] = v if take else u
                last[j] = k if take else last[j]
                o[o_at + {o}] = {write}
                place[o_at + {o}] = last[j]
            x_at += x_step
            o_at += o_step
'''


@cached(64)
@family
def extreme(word: str, code: str, kind: str, width: int, together: bool) -> tuple[str, tuple[str, ...]]:
    """`word` is "max" or "min"; values and places are laid out alike."""
    source = _EXTREME.format(
        word=word,
        halves=halves((code,)),
        kind=kind,
        width=width,
        opening=opening(("o", "x"), width),
        sign=">" if word == "max" else "<",
        read=read("x[x_at + j]" if together else "x[x_at + j * x_lane]", code, kind, False),
        write=write("best[j]", code, kind),
        o="j" if together else "j * o_lane",
    )
    return source, ("i8", "i8", "*i8", "*" + code, "*i8", "*" + code)
