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


def _places(names: tuple[str, ...]) -> Lines:
    """Where a line's operands begin."""
    head = 4 + 3 * len(names)
    return [
        "rest = np.uint64(line) // np.uint64(lines)",
        "at = line - np.int64(rest) * lines",
        *(f"{name}_at = meta[{4 + 3 * k}] + at * meta[{6 + 3 * k}]" for k, name in enumerate(names)),
        "for e in range(d):",
        [
            f"size = np.uint64(meta[{head} + e])",
            "left = rest // size",
            "at = np.int64(rest - left * size)",
            "rest = left",
            *(f"{name}_at += at * meta[{head} + {k + 1} * d + e]" for k, name in enumerate(names)),
        ],
    ]


PLACES = _places(("o", "x"))
_EACH_LINE = "for line in range(cuda.blockIdx.x, count, cuda.gridDim.x):"


def _each_alone(body: Lines) -> Lines:
    """A thread a line."""
    return ["line = cuda.grid(1)", "while line < count:", [*body, "line += cuda.gridsize(1)"]]


def scan(kind: str, code: str, accumulator: str, out: str, width: int, together: bool) -> Own:
    """Along a dimension; whether lines lie `together` beside each other."""
    s = _Scan(kind, code, accumulator, out)
    if not together:
        carried = [f"carry = {s.identity}", *s.along()]
        return s.made([*_GEOMETRY, _EACH_LINE, [*PLACES, *carried]])
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
    return s.made([*_GEOMETRY[1:], *_each_alone([*PLACES, *alone])], shared=False)


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


def extreme(word: str, code: str, kind: str, width: int, together: bool) -> Own:
    """The running one, and the last place of it, which is -1 of no element."""
    sign = ">" if word == "max" else "<"
    scalar = "np.uint8" if kind == "b1" else SCALARS[kind]

    def older(u: str, v: str) -> str:
        return f"not ({v} != {v} or ({u} == {u} and {v} {sign}= {u}))"

    def put(k: str, value: str, at: str) -> Lines:
        result = write(f"{value} != 0" if kind == "b1" else value, code, kind)
        return [f"o[o_at + {k} * o_step] = {result}", f"place[o_at + {k} * o_step] = {at}"]

    head = ["import numpy as np", *halves((code,)).split("\n"), f"F = {scalar}", ""]
    head += ["def @NAME@(items, meta, o, place, x):"]
    codes = ("i8", "*i8", "*" + code, "*i8", "*" + code)
    if together:
        alone: Lines = [
            "u = F(0)",
            "p = np.int64(-1)",
            "for k in range(n):",
            [
                f"v = F({read('x[x_at + k * x_step]', code, kind, False)})",
                f"if p < 0 or not ({older('u', 'v')}):",
                ["u = v", "p = np.int64(k)"],
                *put("k", "u", "p"),
            ],
        ]
        return Own(text_of([*head, [*_GEOMETRY[1:], *_each_alone([*PLACES, *alone])]]), codes, 256)
    joined: Lines = [
        "v = values[thread]",
        f"if p >= 0 and (places[thread] < 0 or {older('u', 'v')}):",
        ["values[thread] = u", "places[thread] = p"],
    ]
    body: Lines = [
        "carry = F(0)",
        "came = np.int64(-1)",
        "for first in range(0, n, 256):",
        [
            "k = first + thread",
            "values[thread] = F(0)",
            "places[thread] = -1",
            "if k < n:",
            [
                f"values[thread] = F({read('x[x_at + k * x_step]', code, kind, False)})",
                "places[thread] = k",
            ],
            "cuda.syncthreads()",
            "for level in range(8):",
            [
                "far = 1 << level",
                "u = F(0)",
                "p = np.int64(-1)",
                "if thread >= far:",
                ["u = values[thread - far]", "p = places[thread - far]"],
                "cuda.syncthreads()",
                *joined,
                "cuda.syncthreads()",
            ],
            "v = values[thread]",
            "p = places[thread]",
            f"if came >= 0 and {older('carry', 'v')}:",
            ["v = carry", "p = came"],
            "if k < n:",
            put("k", "v", "p"),
            "v = values[255]",
            "p = places[255]",
            f"if p >= 0 and (came < 0 or not ({older('carry', 'v')})):",
            ["carry = v", "came = p"],
            "cuda.syncthreads()",
        ],
    ]
    arrays = ["values = cuda.shared.array(256, F)", "places = cuda.shared.array(256, np.int64)"]
    return Own(text_of([*head, [*arrays, *_GEOMETRY, _EACH_LINE, [*PLACES, *body]]]), codes)


def recurrence(code: str, accumulator: str, width: int, together: bool) -> Own:
    """o[k] = x[k] + a[k] * o[k - 1], of which steps are joined as pairs. Where a factor of several leaves the range of floats a thread goes
    through the 256 elements in order, as the CPU does."""
    places = _places(("o", "x", "a"))
    value, factor = (
        f"F({read(f'{name}[{name}_at + {{k}} * {name}_step]', code, accumulator, False)})" for name in "xa"
    )
    result = write("v", code, accumulator)

    def in_order(begin: str, end: str) -> Lines:
        return [
            f"for k in range({begin}, {end}):",
            [
                f"v = {value.format(k='k')}",
                "if k > 0:",
                [f"v = F(v + {factor.format(k='k')} * u)"],
                f"o[o_at + k * o_step] = {result}",
                "u = v",
            ],
        ]

    head = ["import numpy as np", *halves((code,)).split("\n"), f"F = {SCALARS[accumulator]}", ""]
    head += ["def @NAME@(items, meta, o, x, a):"]
    codes = ("i8", "*i8", "*" + code, "*" + code, "*" + code)
    geometry = [*_GEOMETRY, "a_step = meta[11]"]
    if together:
        alone = _each_alone([*places, "u = F(0)", *in_order("0", "n")])
        return Own(text_of([*head, [*geometry[1:], *alone]]), codes, 256)
    body: Lines = [
        "carry = F(0)",
        "for first in range(0, n, 256):",
        [
            "k = first + thread",
            "sums[thread] = F(0)",
            "factors[thread] = F(0)",
            "if k < n:",
            [f"sums[thread] = {value.format(k='k')}"],
            "if k > 0 and k < n:",
            [f"factors[thread] = {factor.format(k='k')}"],
            "if thread == 0:",
            ["odd[0] = 0"],
            "cuda.syncthreads()",
            "for level in range(8):",
            [
                "far = 1 << level",
                "s = F(0)",
                "f = F(1)",
                "if thread >= far:",
                ["s = sums[thread - far]", "f = factors[thread - far]"],
                "cuda.syncthreads()",
                "sums[thread] = F(sums[thread] + factors[thread] * s)",
                "factors[thread] = F(factors[thread] * f)",
                "cuda.syncthreads()",
            ],
            "v = F(sums[thread] + factors[thread] * carry)",
            "if v - v != 0 or factors[thread] - factors[thread] != 0:",
            ["odd[0] = 1"],
            "cuda.syncthreads()",
            "if odd[0] == 0 and k < n:",
            [f"o[o_at + k * o_step] = {result}"],
            "if odd[0] == 0 and thread == 255:",
            ["end[0] = v"],
            "if odd[0] != 0 and thread == 0:",
            ["u = carry", *in_order("first", "min(first + 256, n)"), "end[0] = u"],
            "cuda.syncthreads()",
            "carry = end[0]",
            "cuda.syncthreads()",
        ],
    ]
    arrays = ["sums = cuda.shared.array(256, F)", "factors = cuda.shared.array(256, F)"]
    arrays += ["odd = cuda.shared.array(1, np.int64)", "end = cuda.shared.array(1, F)"]
    return Own(text_of([*head, [*arrays, *geometry, _EACH_LINE, [*places, *body]]]), codes)
