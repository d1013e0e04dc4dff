"""Formulas over strided memory: an element a thread, whose place is found from its number.

Promises what the CPU's kernel does to each element (`kernels/templates.py`); neighbouring threads have neighbouring elements of a row.
Numbers of elements are divided as unsigned ones: of those the compiler divides 32 bits where these are enough.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.source import Lines
from nbgrad.kernels import templates
from nbgrad.kernels.cuda.own import Own

WORK = 1024  # elements of a block: four of each thread


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
    loop = _rows(e, len(outputs) + len(inputs)) if nd else _flat(e)
    return Own(e.text(("items",), loop), ("i8", *e.codes), WORK, alone=False)


def _flat(e: templates.Element) -> Lines:
    return [
        *e.once,
        *e.fixed,
        "i = cuda.grid(1)",
        "while i < items:",
        [*e.body, "i += cuda.gridsize(1)"],
    ]


def _rows(e: templates.Element, count: int) -> Lines:
    inner = [f"s{k} = meta[2 + d * {count + 1} + {k}]" for k in e.moving if e.steps[k] == "g"]
    places = [f"p{k} += at * meta[2 + d * {k + 1} + e]" for k in e.moving]
    return [
        *e.once,
        "d = meta[0]",
        "n = np.uint64(meta[1])",
        *inner,
        "total = np.uint64(items) * n",
        "i = np.uint64(cuda.grid(1))",
        "while i < total:",
        [
            "rest = i // n",
            "j = np.int64(i - rest * n)",
            *(f"p{k} = np.int64(0)" for k in e.moving),
            "for e in range(d):",
            [
                "size = np.uint64(meta[2 + e])",
                "left = rest // size",
                "at = np.int64(rest - left * size)",
                "rest = left",
                *places,
            ],
            *e.fixed,
            *e.body,
            "i += np.uint64(cuda.gridsize(1))",
        ],
    ]
