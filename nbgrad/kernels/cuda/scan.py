"""Scans: a block goes along a line, 256 elements at a time, with what they have come to; of lines beside each other a thread has one.

Promises what the CPU's give (`kernels/cpu/scan.py`), in an order that depends on shapes alone. Of 256 elements each is joined to those
1, 2, 4, ... 128 places before it.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, text_of
from nbgrad.expr import emit
from nbgrad.kernels.cpu.scan import COMBINE
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS, halves, read, vmath_helpers, write


class _Scan:
    """What is scanned, in which dtypes."""

    def __init__(self, kind: str, code: str, accumulator: str, out: str) -> None:
        combine, identity = COMBINE[kind]
        self.helpers = vmath_helpers()
        self.emitted = emit.emit((combine,), "cpu", accumulator, {"u": "u", "v": "v"})
        self.identity = f"F({identity})"
        self.code, self.accumulator, self.out = code, accumulator, out

    def joined(self) -> Lines:
        """`v` becomes what `u` and `v` come to."""
        return [*self.emitted.lines, f"v = F({self.emitted.results[0]})"]

    def along(self) -> Lines:
        """A block's way along `n` elements from `x_at` and `o_at`, after what comes to `carry`."""
        return [
            "for first in range(0, n, 256):",
            [
                "k = first + thread",
                f"v = {self.identity}",
                "if k < n:",
                [f"v = F({read('x[x_at + k * x_step]', self.code, self.accumulator, False)})"],
                "parts[thread] = v",
                "cuda.syncthreads()",
                "for level in range(8):",
                [
                    "far = 1 << level",
                    f"u = {self.identity}",
                    "if thread >= far:",
                    ["u = parts[thread - far]"],
                    "cuda.syncthreads()",
                    "if thread >= far:",
                    ["v = parts[thread]", *self.joined(), "parts[thread] = v"],
                    "cuda.syncthreads()",
                ],
                "u = carry",
                "v = parts[thread]",
                *self.joined(),
                "if k < n:",
                [f"o[o_at + k * o_step] = {write('v', self.out, self.accumulator)}"],
                "u = carry",
                "v = parts[255]",
                *self.joined(),
                "carry = v",
                "cuda.syncthreads()",
            ],
        ]

    def made(self, body: Lines, more: str = "", shared: bool = True) -> Own:
        array = ["parts = cuda.shared.array(256, F)"] if shared else []
        head = ["from math import inf, nan", "import math", "import numpy as np", *self.helpers.split("\n")]
        head += [*halves((self.code, self.out)).split("\n"), f"F = {SCALARS[self.accumulator]}"]
        text = [*head, "", f"def @NAME@(items, meta, o, x{more}):", [*array, *body]]
        codes = ("i8", "*i8", "*" + self.out, "*" + self.code, *["*" + self.accumulator] * bool(more))
        return Own(text_of(text), codes, 0 if shared else 256)


_GEOMETRY = [
    "thread = cuda.threadIdx.x",
    "d = meta[0]",
    "n = meta[1]",
    "lines = meta[2]",
    "count = items // meta[3] * lines",
    "o_step = meta[5]",
    "x_step = meta[8]",
]
_PLACES: Lines = [
    "rest = np.uint64(line) // np.uint64(lines)",
    "at = line - np.int64(rest) * lines",
    "o_at = meta[4] + at * meta[6]",
    "x_at = meta[7] + at * meta[9]",
    "for e in range(d):",
    [
        "size = np.uint64(meta[10 + e])",
        "left = rest // size",
        "at = np.int64(rest - left * size)",
        "rest = left",
        "o_at += at * meta[10 + d + e]",
        "x_at += at * meta[10 + 2 * d + e]",
    ],
]


def scan(kind: str, code: str, accumulator: str, out: str, width: int, together: bool) -> Own:
    """Along a dimension; whether lines lie `together` beside each other."""
    s = _Scan(kind, code, accumulator, out)
    if not together:
        carried = [f"carry = {s.identity}", *s.along()]
        over: Lines = ["for line in range(cuda.blockIdx.x, count, cuda.gridDim.x):", [*_PLACES, *carried]]
        return s.made([*_GEOMETRY, *over])
    alone: Lines = [
        f"u = {s.identity}",
        "for k in range(n):",
        [
            f"v = F({read('x[x_at]', code, accumulator, False)})",
            *s.joined(),
            f"o[o_at] = {write('v', out, accumulator)}",
            "u = v",
            "x_at += x_step",
            "o_at += o_step",
        ],
    ]
    over = ["line = cuda.grid(1)", "while line < count:", [*_PLACES, *alone, "line += cuda.gridsize(1)"]]
    return s.made([*_GEOMETRY[1:], *over], shared=False)


def along(kind: str, code: str, accumulator: str, out: str, reverse: bool, runs: bool = False) -> Own:
    """Of lines whose elements are neighbours; with `runs`, of one line's, after what stands in `before`."""
    s = _Scan(kind, code, accumulator, out)
    if not runs:
        return scan(kind, code, accumulator, out, 1, False)
    there = "whole - item * length > length" if reverse else "item > 0"
    body: Lines = [
        "thread = cuda.threadIdx.x",
        "length = meta[0]",
        "whole = meta[1]",
        f"x_step = {-1 if reverse else 1}",
        f"o_step = {-1 if reverse else 1}",
        "for item in range(cuda.blockIdx.x, items, cuda.gridDim.x):",
        [
            "n = min(length, whole - item * length)",
            f"x_at = item * length{' + n - 1' if reverse else ''}",
            "o_at = x_at",
            f"carry = {s.identity}",
            f"if {there}:",
            [f"carry = before[item {'+' if reverse else '-'} 1]"],
            *s.along(),
        ],
    ]
    return s.made(body, ", before")
