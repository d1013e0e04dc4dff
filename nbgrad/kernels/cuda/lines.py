"""Kernels that look at each line as a whole: extremes with their place, moments, logsumexp.

Promises what the CPU's give (`kernels/cpu/lines.py`), in an order that depends on shapes alone: lanes of threads walk a line, and join what
they have found by a tree.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, text_of
from nbgrad.expr import emit
from nbgrad.expr import prims as p
from nbgrad.expr.node import var
from nbgrad.kernels.cpu.lines import FINISH
from nbgrad.kernels.cuda.lanes import opening, tree
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS, halves, read, vmath_helpers, write

_X = "x[x_at + k * x_step]"


def _text(head: list[str], params: str, shared: list[str], body: Lines) -> str:
    """A kernel of its lines; shared arrays stand first."""
    imports = ["import numpy as np", "import math", "from math import inf, nan"]
    return text_of([*imports, *head, "", f"def @NAME@(items, meta, {params}):", [*shared, *body]])


def _walked(lines: Lines) -> Lines:
    """A lane's elements, one after another."""
    return ["if line < count:", ["k = lane", "while k < n:", [*lines, "k += lanes"]]]


def extreme(word: str, code: str, kind: str, together: bool, unit: bool) -> Own:
    """`word` is "max" or "min"; the first place wins, and a NaN is the extreme."""
    sign = ">" if word == "max" else "<"
    before = f"v {sign} u or (v != v and u == u)"
    shared = "np.uint8" if kind == "b1" else SCALARS[kind]
    value = "values[{}] != 0" if kind == "b1" else "values[{}]"
    joined = [
        f"v = {value.format('other')}",
        f"u = {value.format('thread')}",
        "same = v == u or (v != v and u != u)",
        f"if {before} or (same and places[other] < places[thread]):",
        ["values[thread] = v", "places[thread] = places[other]"],
    ]
    body: Lines = [
        "values[thread] = 0",
        "places[thread] = n",
        "if line < count:",
        [
            f"top = {read('x[x_at]', code, kind, False)}",
            "place = n",
            "k = lane",
            "while k < n:",
            [
                f"v = {read(_X, code, kind, False)}",
                "u = top",
                f"if place == n or {before}:",
                ["top = v", "place = k"],
                "k += lanes",
            ],
            "values[thread] = top",
            "places[thread] = place",
        ],
        *tree(joined, together),
        "if lane == 0 and line < count:",
        [f"o[o_at] = {write(value.format('thread'), code, kind)}", "place_of[o_at] = places[thread]"],
        "cuda.syncthreads()",
    ]
    arrays = [f"values = cuda.shared.array(256, {shared})", "places = cuda.shared.array(256, np.int64)"]
    source = _text(halves((code,)).split("\n"), "o, place_of, x", arrays, opening(("o", "x"), together, body))
    return Own(source, ("i8", "*i8", "*" + code, "*i8", "*" + code))


def moments(what: str, code: str, out: str, together: bool, unit: bool) -> Own:
    """`what` is a key of FINISH: sums of what differs from a line's first element, and of the squares of that."""
    joined = [f"{name}[thread] = {name}[thread] + {name}[other]" for name in ("ones", "twos")]
    first = read("x[x_at]", code, "f8", False)
    body: Lines = [
        "begin = F(0)",
        "s = F(0)",
        "squares = F(0)",
        "if line < count and n > 0:",
        [f"begin = {first}"],
        *_walked([f"v = {read(_X, code, 'f8', False)} - begin", "s = s + v", "squares = squares + v * v"]),
        "ones[thread] = s",
        "twos[thread] = squares",
        *tree(joined, together),
        "if lane == 0 and line < count:",
        [
            "s = ones[thread]",
            "square = twos[thread] - s * s / n",
            f"mean[o_at] = {write('begin + s / n', out, 'f8')}",
            f"o[o_at] = {write(FINISH[what], out, 'f8')}",
        ],
        "cuda.syncthreads()",
    ]
    arrays = [f"{name} = cuda.shared.array(256, np.float64)" for name in ("ones", "twos")]
    head = [*halves((code, out)).split("\n"), "F = np.float64"]
    source = _text(head, "o, mean, x, free", arrays, opening(("o", "x"), together, body))
    return Own(source, ("i8", "*i8", "*" + out, "*" + out, "*" + code, "f8"))


def logsumexp(code: str, out: str, together: bool, unit: bool) -> Own:
    """Of what elements differ from the largest, unless that is infinite; 16 exponentials are added up in their own dtype."""
    helpers = vmath_helpers()
    power = emit.emit((p.exp(var("v") - var("top")),), "cpu", code, {"v": "v", "top": "top"})
    largest = ["v = tops[other]", "u = tops[thread]", "tops[thread] = v if v > u else u"]
    body: Lines = [
        "top = F(-inf)",
        *_walked([f"v = {_X}", "top = v if v > top else top"]),
        "tops[thread] = top",
        *tree(largest, together),
        "top = tops[leader]",
        "top = top if abs(top) != inf else F(0)",
        "total = np.float64(0)",
        "if line < count:",
        [
            "k = lane",
            "while k < n:",
            [
                "up = F(0)",
                "last = min(k + 16 * lanes, n)",
                "while k < last:",
                [f"v = {_X}", *power.lines, f"up = up + {power.results[0]}", "k += lanes"],
                "total = total + np.float64(up)",
            ],
        ],
        "sums[thread] = total",
        *tree(["sums[thread] = sums[thread] + sums[other]"], together),
        "if lane == 0 and line < count:",
        ["o[o_at] = R(math.log(sums[thread]) + top)"],
    ]
    arrays = ["tops = cuda.shared.array(256, F)", "sums = cuda.shared.array(256, np.float64)"]
    head = [*helpers.split("\n"), f"F = {SCALARS[code]}", f"R = {SCALARS[out]}"]
    source = _text(head, "o, x", arrays, opening(("o", "x"), together, body))
    return Own(source, ("i8", "*i8", "*" + out, "*" + code))
