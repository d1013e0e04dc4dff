"""Scans, as source with holes: running sums, products, extremes and the linear recurrence that their gradients are.

Promises the ops: floats are taken in float64 (PyTorch does the same), and the order of operations depends on shapes and strides alone.
Neighbouring lines are followed side by side, in bundles (`walk.opening`), each element after those before it. Running sums and products
of a line whose elements are neighbours are taken a few at a time (`prefix`); a long line of them also in runs, each
of which begins with what the sums of those before it come to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.base.source import Lines, fill
from nbgrad.base.tables import cached
from nbgrad.expr import emit, parts
from nbgrad.expr import prims as p
from nbgrad.expr.node import Expr, as_expr, const, var
from nbgrad.kernels.cpu.walk import opening
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS, called, halves, part, read, spots, vmath_helpers, write

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
    "recurrence": (_v + var("a") * _u, "0"),
}


# Of complex numbers, as PyTorch: infinities are added as they are, no angle is left of what is nothing.
_re_u, _re_v = p.real(_u), p.real(_v)
_less = p.lt(_re_v, _re_u)
_fore, _back = p.where(_less, _u, _v), p.where(_less, _v, _u)
_known = p.logical_not(p.logical_or(p.isnan(_u), p.isnan(_v)))
_infinite = p.logical_and(p.logical_and(p.eq(_re_u, _re_v), p.isinf(_re_u)), _known)
_of_infinite = p.where(p.lt(_re_u, 0), _u, p.log(p.exp(_u) + p.exp(_v)))
_nan = p.join(const(math.nan), const(math.nan))
_of_others = p.where(_known, _fore + p.log1p(p.exp(_back - _fore)), _nan)


class Combine(NamedTuple):
    """What a scan does at an element: lines that make of `u`, what has come, and `v` the results, and what there is before the first. A
    complex number has two `parts`: names that end so."""

    lines: Lines
    results: Sequence[str]
    identity: Sequence[str]
    parts: Sequence[str]
    helpers: str


def combine(kind: str, code: str, accumulator: str) -> Combine:
    """`kind` is a key of COMBINE."""
    joined, identity = COMBINE[kind]
    names = {"u": "u", "v": "v", "a": "by"}
    ends = ("", "i") if code[0] == "c" else ("",)
    before = (f"F({identity})", "F(0)")[: len(ends)]
    if code[0] == "c":
        names = {
            v + part: name + end for v, name in names.items() for part, end in ((".re", ""), (".im", "i"))
        }

    def emitted(wanted: list[Any]) -> emit.Emitted:
        if code[0] == "c":
            wanted = [as_expr(e) for pair in parts.pairs(wanted, "uva") for e in pair if e is not None]
        return emit.emit(wanted, "cpu", accumulator, names)

    if code[0] != "c" or kind != "logcumsumexp":
        made = emitted([joined])
        return Combine(made.lines, made.results, before, ends, vmath_helpers() + called(made.helpers, "cpu"))
    rare, first, second = emitted([_infinite]), emitted([_of_infinite]), emitted([_of_others])
    # A branch, as most of it is for what hardly ever comes: in vectors it is a choice all the same.
    lines: list[Any] = [*rare.lines, f"if {rare.results[0]}:"]
    for made, more in ((first, ["else:"]), (second, [])):
        lines += [[*made.lines, *(f"w{end} = {r}" for end, r in zip(ends, made.results))], *more]
    helpers = vmath_helpers() + called(first.helpers | second.helpers, "cpu")
    return Combine(lines, ("w", "wi"), before, ends, helpers)


_SCAN = '''"""{title} along a dimension, in {acc}."""
from math import inf, nan
import math
import numpy as np
{preamble}
from nbgrad.kernels.cpu.stack import stack_{acc}
F = {scalar}


def @NAME@(start, stop, meta, o, x{more}):
    {stacks}
    {opening}
        for j in range(width):
            {begin}
        for k in range(n):
            for j in range(width):
                {element}
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
    return _fill(f"{kind} along a dimension", kind, code, accumulator, out, width, together)


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
    return _fill("o[k] = x[k] + a[k] * o[k - 1]", "recurrence", code, accumulator, code, width, together)


def _fill(
    title: str, kind: str, code: str, accumulator: str, out: str, width: int, together: bool
) -> tuple[str, tuple[str, ...]]:
    how = combine(kind, code, accumulator)
    names: tuple[str, ...] = ("o", "x")
    results = how.results
    if kind == "recurrence":
        names, results = ("o", "x", "a"), [f"{r} if k else v{c}" for r, c in zip(results, how.parts)]

    def at(name: str, kept: str) -> list[str]:
        return spots(name, f"{name}_at + j" if together else f"{name}_at + j * {name}_lane", kept)

    def taken(name: str, into: str) -> list[str]:
        read_from = [read(place, part(code), accumulator, False) for place in at(name, code)]
        return [f"{into}{c} = {text}" for c, text in zip(how.parts, read_from)]

    source = fill(
        _SCAN,
        title=title,
        preamble=how.helpers + halves((code, out)),
        acc=accumulator,
        scalar=SCALARS[accumulator],
        more=", a" * (len(names) > 2),
        stacks=[f"acc{c} = stack_{accumulator}({width})" for c in how.parts],
        opening=opening(names, width),
        begin=[f"acc{c}[j] = {value}" for c, value in zip(how.parts, how.identity)],
        element=[
            *taken("x", "v"),
            *(taken("a", "by") if names[2:] else []),
            *(f"u{c} = acc{c}[j]" for c in how.parts),
            *how.lines,
            *(f"acc{c}[j] = {result}" for c, result in zip(how.parts, results)),
            *(
                f"{place} = {write(f'acc{c}[j]', part(out), accumulator)}"
                for c, place in zip(how.parts, at("o", out))
            ),
        ],
        step=["a_at += a_step"] * (len(names) > 2),
    )
    codes = ("*" + part(out), *["*" + part(code)] * (len(names) - 1))
    return source, ("i8", "i8", "*i8", *codes)


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
