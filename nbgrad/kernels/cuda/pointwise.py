"""Formulas over strided memory: an element a thread, whose place is found from its number.

Promises what the CPU's kernel does to each element (`kernels/templates.py`); neighbouring threads have neighbouring elements of a row.
What is copied from where columns lie together to where rows do goes through tiles that a block shares, so that both are met in order.
Numbers of elements are divided as unsigned ones: of those the compiler divides 32 bits where these are enough.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.source import Lines, fill
from nbgrad.kernels import templates
from nbgrad.kernels.codes import MEMORY
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS

LANES = 4  # elements of a thread at a time
WORK = 256 * LANES  # elements of a block
_SHORT = 12  # lines of what memory is waited for longer than it takes to compute


def elementwise(
    title: str,
    exprs: Any,
    inputs: tuple[templates.Operand, ...],
    outputs: tuple[str, ...],
    kind: str,
    nd: bool,
    out_steps: str,
) -> Own:
    """Of a flat formula, or one over rows."""
    e = templates.element(title, exprs, inputs, outputs, kind, nd, out_steps)
    paired = "c" in [
        c[:1] for c in (*outputs, *(v.code for v in inputs))
    ]  # two numbers of memory each, no tile's element
    copies = nd and title == "copy" and "".join(e.steps) == "gg" and not paired
    loop = _rows(e, len(outputs) + len(inputs), copies) if nd else _flat(e, len(outputs))
    if copies:
        code = inputs[0].code
        loop = [f"shared = cuda.shared.array(1056, {SCALARS[MEMORY.get(code, code)]})", *loop, *_crossed(e)]
    text, codes = e.text(("items",), loop), ("i8", *e.codes)
    return Own(text, codes, WORK, alone=False) if nd else Own(text, codes, alone=False, items=WORK)


def _flat(e: templates.Element, outputs: int) -> Lines:
    loops = "\ndef " in e.head  # in a function of its own
    short = not loops and len(e.body) - e.loads - outputs <= _SHORT
    return [
        *e.once,
        *e.fixed,
        "i = cuda.grid(1)",
        "step = cuda.gridsize(1)",
        *(_several(e) if short else []),
        "while i < items:",
        [*e.body, "i += step"],
    ]


def _several(e: templates.Element) -> Lines:
    """Elements a grid apart, so that neighbouring threads have neighbours: all are asked for before the first is waited for, which the
    compiler may not do by itself, as a result might lie where an operand does."""
    reads: list[str] = []
    work: list[str] = []
    for lane in range(LANES):
        reads.append(f"i{lane} = i + {lane} * step")
        for k, line in enumerate(e.body):
            line = line.replace("[i]", f"[i{lane}]")
            if k < e.loads:
                name, value = line.split(" = ", 1)
                reads.append(f"lane{lane}{name} = {value}")
                work.append(f"{name} = lane{lane}{name}")
        work += [line.replace("[i]", f"[i{lane}]") for line in e.body[e.loads :]]
    return [f"while i + {LANES - 1} * step < items:", [*reads, *work, f"i += {LANES} * step"]]


def _rows(e: templates.Element, count: int, copies: bool) -> Lines:
    inner = [f"s{k} = meta[2 + d * {count + 1} + {k}]" for k in e.moving if e.steps[k] == "g"]
    places = [f"p{k} += at * meta[2 + d * {k + 1} + e]" for k in e.moving]
    return [
        *e.once,
        "d = meta[0]",
        "n = np.uint64(meta[1])",
        *inner,
        *["crossing = meta[4 + d * 3]"] * copies,
        f"total = {'np.uint64(0) if crossing else ' * copies}np.uint64(items) * n",
        "i = np.uint64(cuda.grid(1))",
        "while i < total:",
        [
            "rest = i // n",
            "j = np.int64(i - rest * n)",
            *(f"p{k} = np.int64(0)" for k in e.moving),
            "for e in range(d - 1):",
            [
                "size = np.uint64(meta[2 + e])",
                "left = rest // size",
                "at = np.int64(rest - left * size)",
                "rest = left",
                *places,
            ],
            "if d > 0:",  # of the last dimension what is left is the place
            ["e = d - 1", "at = np.int64(rest)", *places],
            *e.fixed,
            *e.body,
            "i += np.uint64(cuda.gridsize(1))",
        ],
    ]


def _crossed(e: templates.Element) -> Lines:
    """Tiles of 32 x 32 elements: of a row, and of the dimension that the geometry names, along which the other operand's lie together.
    Rows of a tile are 33 apart, so that threads meet different banks both ways."""
    place = "p0 += at * meta[2 + d + e]", "p1 += at * meta[2 + d * 2 + e]"
    read, write = e.body[0], e.body[1:]

    def turns(inner: str, lines: Lines) -> Lines:
        """Of a thread's four elements, `far` is counted along the row, `deep` along the other dimension, first by `inner` of them."""
        along = "(thread & 31)", "(thread >> 5) + 8 * turn"
        first, second = along if inner == "far" else along[::-1]
        return [
            "for turn in range(4):",
            [
                f"far = {first} if by_rows else {second}",
                f"deep = {second} if by_rows else {first}",
                "j = edge + far",
                "if j < np.int64(n) and top + deep < length:",
                lines,
            ],
        ]

    return [
        "thread = cuda.threadIdx.x",
        "by_rows = s1 == 1",
        "crossed = max(crossing - 1, 0)",
        "length = meta[2 + crossed]",
        "across = (meta[1] + 31) // 32",
        "tiles = across * ((length + 31) // 32)",
        "count = items // length * tiles if crossing else 0",
        "for tile in range(cuda.blockIdx.x, count, cuda.gridDim.x):",
        [
            "rest = np.uint64(tile // tiles)",
            "part = tile % tiles",
            "edge = part % across * 32",
            "top = part // across * 32",
            "p0 = np.int64(0)",
            "p1 = np.int64(0)",
            "for e in range(d):",
            [
                "many = np.uint64(1 if e == crossed else meta[2 + e])",
                "rows = rest // many",
                "at = np.int64(rest - rows * many)",
                "rest = rows",
                *place,
            ],
            "step0 = meta[2 + d + crossed]",
            "step1 = meta[2 + d * 2 + crossed]",
            *turns("far", ["shared[deep * 33 + far] = x0[p1 + (top + deep) * step1 + j * s1]"]),
            "cuda.syncthreads()",
            *turns(
                "deep",
                [
                    read.replace("x0[p1 + j * s1]", "shared[deep * 33 + far]"),
                    *(
                        line.replace("o0[p0 + j * s0]", "o0[p0 + (top + deep) * step0 + j * s0]")
                        for line in write
                    ),
                ],
            ),
            "cuda.syncthreads()",
        ],
    ]


_TRIANGLE = '''"""Copy what lies {where} a diagonal, and write 0 beside it: an element a thread."""
import numpy as np


def @NAME@(items, meta, o, x):
    d = meta[0]
    n = np.uint64(meta[1])
    step = meta[2 + d * 3]
    above = meta[3 + d * 3]
    total = np.uint64(items) * n
    i = np.uint64(cuda.grid(1))
    while i < total:
        rest = i // n
        j = np.int64(i - rest * n)
        line = np.int64(rest)
        q = j
        p = j * step
        for e in range(d):
            size = np.uint64(meta[2 + e])
            left = rest // size
            at = np.int64(rest - left * size)
            rest = left
            if e == 0:
                line = at
            q += at * meta[2 + d + e]
            p += at * meta[2 + d * 2 + e]
        o[q] = x[p] if j {kept} line + above else 0
        i += np.uint64(cuda.gridsize(1))
'''


def triangle(code: str, upper: bool) -> Own:
    """As the CPU's in `kernels/cpu/triangle.py`."""
    text = fill(_TRIANGLE, where="from" if upper else "up to", kept=">=" if upper else "<")
    return Own(text, ("i8", "*i8", f"*{code}", f"*{code}"), WORK)
