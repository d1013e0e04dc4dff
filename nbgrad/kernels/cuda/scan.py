"""Scans: a block goes along a line, 256 elements at a time, with what they have come to; of lines beside each other a thread has one.

Promises what the CPU's give (`kernels/cpu/scan.py`), in an order that depends on shapes alone. Of 256 elements each is joined to those
1, 2, 4, ... 128 places before it.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, text_of
from nbgrad.kernels.cpu.scan import combine
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS, halves, part, read, spots, write


class _Scan:
    """What is scanned, in which dtypes. A complex number has two of each name, that of its imaginary part ending in `i`."""

    def __init__(self, kind: str, code: str, accumulator: str, out: str) -> None:
        self.how = combine(kind, code, accumulator)
        self.code, self.accumulator, self.out = code, accumulator, out

    def parts(self, *lines: str) -> list[str]:
        """Each line as it is for each part, whose names have {i} behind them."""
        return [line.format(i=end) for line in lines for end in self.how.parts]

    def begun(self, name: str) -> Lines:
        """A name for what there is before the first."""
        return [f"{name}{end} = {value}" for end, value in zip(self.how.parts, self.how.identity)]

    def joined(self) -> Lines:
        """`v` becomes what `u` and `v` come to."""
        made = [f"j{end} = F({result})" for end, result in zip(self.how.parts, self.how.results)]
        return [*self.how.lines, *made, *self.parts("v{i} = j{i}")]

    def read(self, name: str, at: str, array: str = "x") -> Lines:
        places = spots(array, at, self.code)
        texts = [read(place, part(self.code), self.accumulator, False) for place in places]
        return [f"{name}{end} = F({text})" for end, text in zip(self.how.parts, texts)]

    def write(self, at: str) -> Lines:
        places = spots("o", at, self.out)
        texts = [write(f"v{end}", part(self.out), self.accumulator) for end in self.how.parts]
        return [f"{place} = {text}" for place, text in zip(places, texts)]

    def along(self) -> Lines:
        """A block's way along `n` elements from `x_at` and `o_at`, after what comes to `carry`."""
        return [
            "for first in range(0, n, 256):",
            [
                "k = first + thread",
                *self.begun("v"),
                "if k < n:",
                self.read("v", "x_at + k * x_step"),
                *self.parts("parts{i}[thread] = v{i}"),
                "cuda.syncthreads()",
                "for level in range(8):",
                [
                    "far = 1 << level",
                    *self.begun("u"),
                    "if thread >= far:",
                    self.parts("u{i} = parts{i}[thread - far]"),
                    "cuda.syncthreads()",
                    "if thread >= far:",
                    [
                        *self.parts("v{i} = parts{i}[thread]"),
                        *self.joined(),
                        *self.parts("parts{i}[thread] = v{i}"),
                    ],
                    "cuda.syncthreads()",
                ],
                *self.parts("u{i} = carry{i}", "v{i} = parts{i}[thread]"),
                *self.joined(),
                "if k < n:",
                self.write("o_at + k * o_step"),
                *self.parts("u{i} = carry{i}", "v{i} = parts{i}[255]"),
                *self.joined(),
                *self.parts("carry{i} = v{i}"),
                "cuda.syncthreads()",
            ],
        ]

    def made(self, body: Lines, more: str = "", shared: bool = True) -> Own:
        arrays = self.parts("parts{i} = cuda.shared.array(256, F)") if shared else []
        head = [
            "from math import inf, nan",
            "import math",
            "import numpy as np",
            *self.how.helpers.split("\n"),
        ]
        head += [*halves((self.code, self.out)).split("\n"), f"F = {SCALARS[self.accumulator]}"]
        text = [*head, "", f"def @NAME@(items, meta, o, x{more}):", [*arrays, *body]]
        codes = ("i8", "*i8", "*" + part(self.out), "*" + part(self.code))
        return Own(text_of(text), (*codes, *["*" + self.accumulator] * bool(more)), 0 if shared else 256)


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
        carried = [*s.begun("carry"), *s.along()]
        return s.made([*_GEOMETRY, _EACH_LINE, [*PLACES, *carried]])
    alone: Lines = [
        *s.begun("u"),
        "for k in range(n):",
        [
            *s.read("v", "x_at"),
            *s.joined(),
            *s.write("o_at"),
            *s.parts("u{i} = v{i}"),
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
            *s.begun("carry"),
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
    s = _Scan("recurrence", code, accumulator, code)
    factor = _Scan("cumprod", code, accumulator, code)
    places = _places(("o", "x", "a"))

    def in_order(begin: str, end: str) -> Lines:
        return [
            f"for k in range({begin}, {end}):",
            [
                *s.read("v", "x_at + k * x_step"),
                "if k > 0:",
                [*s.read("by", "a_at + k * a_step", "a"), *s.joined()],
                *s.write("o_at + k * o_step"),
                *s.parts("u{i} = v{i}"),
            ],
        ]

    head = ["import numpy as np", *halves((code,)).split("\n"), f"F = {SCALARS[accumulator]}", ""]
    head += ["def @NAME@(items, meta, o, x, a):"]
    codes = ("i8", "*i8", *["*" + part(code)] * 3)
    geometry = [*_GEOMETRY, "a_step = meta[11]"]
    if together:
        alone = _each_alone([*places, *s.begun("u"), *in_order("0", "n")])
        return Own(text_of([*head, [*geometry[1:], *alone]]), codes, 256)
    lost = " or ".join(s.parts("v{i} - v{i} != 0", "factors{i}[thread] - factors{i}[thread] != 0"))
    body: Lines = [
        *s.begun("carry"),
        "for first in range(0, n, 256):",
        [
            "k = first + thread",
            *s.parts("sums{i}[thread] = F(0)", "factors{i}[thread] = F(0)"),
            "if k < n:",
            [*s.read("v", "x_at + k * x_step"), *s.parts("sums{i}[thread] = v{i}")],
            "if k > 0 and k < n:",
            [*s.read("by", "a_at + k * a_step", "a"), *s.parts("factors{i}[thread] = by{i}")],
            "if thread == 0:",
            ["odd[0] = 0"],
            "cuda.syncthreads()",
            "for level in range(8):",
            [
                "far = 1 << level",
                *s.begun("u"),
                *factor.begun("f"),
                "if thread >= far:",
                s.parts("u{i} = sums{i}[thread - far]", "f{i} = factors{i}[thread - far]"),
                "cuda.syncthreads()",
                *s.parts("by{i} = factors{i}[thread]", "v{i} = sums{i}[thread]"),
                *s.joined(),
                *s.parts("sums{i}[thread] = v{i}", "u{i} = by{i}", "v{i} = f{i}"),
                *factor.joined(),
                *s.parts("factors{i}[thread] = v{i}"),
                "cuda.syncthreads()",
            ],
            *s.parts("u{i} = carry{i}", "by{i} = factors{i}[thread]", "v{i} = sums{i}[thread]"),
            *s.joined(),
            f"if {lost}:",
            ["odd[0] = 1"],
            "cuda.syncthreads()",
            "if odd[0] == 0 and k < n:",
            s.write("o_at + k * o_step"),
            "if odd[0] == 0 and thread == 255:",
            s.parts("end{i}[0] = v{i}"),
            "if odd[0] != 0 and thread == 0:",
            [
                *s.parts("u{i} = carry{i}"),
                *in_order("first", "min(first + 256, n)"),
                *s.parts("end{i}[0] = u{i}"),
            ],
            "cuda.syncthreads()",
            *s.parts("carry{i} = end{i}[0]"),
            "cuda.syncthreads()",
        ],
    ]
    arrays = s.parts("sums{i} = cuda.shared.array(256, F)", "factors{i} = cuda.shared.array(256, F)")
    arrays += ["odd = cuda.shared.array(1, np.int64)", *s.parts("end{i} = cuda.shared.array(1, F)")]
    return Own(text_of([*head, [*arrays, *geometry, _EACH_LINE, [*places, *body]]]), codes)
