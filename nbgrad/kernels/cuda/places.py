"""Where elements are not 0: how many each run of them has, how many there are before each run, and their indices from there on.

Promises the order of the elements, as the CPU's kernel goes through them (`kernels/cpu/index.py`). A block has a run, a thread 16
neighbours.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, text_of
from nbgrad.base.tables import cached
from nbgrad.kernels.cuda.own import Own, for_device
from nbgrad.kernels.templates import computed

RUN = 4096  # elements of a block
_EACH = 16  # of a thread


def _before(value: str) -> Lines:
    """`value` becomes what stands in `parts` up to each thread."""
    return [
        f"parts[thread] = {value}",
        "cuda.syncthreads()",
        "for level in range(8):",
        [
            "far = 1 << level",
            "more = np.int64(0)",
            "if thread >= far:",
            ["more = parts[thread - far]"],
            "cuda.syncthreads()",
            "parts[thread] = parts[thread] + more",
            "cuda.syncthreads()",
        ],
    ]


def _counted(code: str) -> Lines:
    """How many of a thread's elements count, from `first` to `last`."""
    return [
        f"first = run * {RUN} + thread * {_EACH}",
        f"last = min(first + {_EACH}, n)",
        "count = np.int64(0)",
        "for k in range(first, last):",
        [f"count += np.int64({_true(code)})"],
    ]


def _true(code: str) -> str:
    return "(x[k] & 32767) != 0" if computed(code) != code else "x[k] != 0"


def _made(title: str, head: str, body: Lines, codes: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    shared = "parts = cuda.shared.array(256, np.int64)"
    text = [f'"""{title}."""', "import numpy as np", "", f"def @NAME@(items, {head}):", [shared, *body]]
    return for_device(Own(text_of(text), ("i8", *codes)))


_RUNS = "for run in range(cuda.blockIdx.x, items, cuda.gridDim.x):"


@cached(16)
def counted(code: str) -> tuple[str, tuple[str, ...]]:
    """How many of the `n` elements each run has."""
    body: Lines = [
        "thread = cuda.threadIdx.x",
        _RUNS,
        [
            *_counted(code),
            "parts[thread] = count",
            "cuda.syncthreads()",
            "for level in range(8):",
            [
                "half = 128 >> level",
                "if thread < half:",
                ["parts[thread] = parts[thread] + parts[thread + half]"],
                "cuda.syncthreads()",
            ],
            "if thread == 0:",
            ["o[run] = parts[0]"],
            "cuda.syncthreads()",
        ],
    ]
    return _made("How many elements of each run are not 0", "o, x, n", body, ("*i8", f"*{code}", "i8"))


@cached(1)
def added() -> tuple[str, tuple[str, ...]]:
    """Counts of runs become what stands before each; `whole` is told all."""
    body: Lines = [
        "thread = cuda.threadIdx.x",
        "for block in range(cuda.blockIdx.x, 1, cuda.gridDim.x):",
        [
            "carry = np.int64(0)",
            "for first in range(0, items, 256):",
            [
                "k = first + thread",
                "count = np.int64(0)",
                "if k < items:",
                ["count = o[k]"],
                *_before("count"),
                "if k < items:",
                ["o[k] = carry + parts[thread] - count"],
                "carry = carry + parts[255]",
                "cuda.syncthreads()",
            ],
            "if thread == 0:",
            ["whole[0] = carry"],
        ],
    ]
    return _made("Running sums of what stands before", "o, whole", body, ("*i8", "*i8"))


@cached(16)
def written(code: str) -> tuple[str, tuple[str, ...]]:
    """The indices, with the geometry of the CPU's kernel; `before` is how many each run begins with."""
    body: Lines = [
        "thread = cuda.threadIdx.x",
        "d = meta[0]",
        _RUNS,
        [
            *_counted(code),
            *_before("count"),
            "place = (before[run] + parts[thread] - count) * along + d * apart",
            "for k in range(first, last):",
            [
                f"if {_true(code)}:",
                [
                    "rest = np.uint64(k)",
                    "q = place",
                    "for e in range(d):",
                    [
                        "size = np.uint64(meta[1 + e])",
                        "left = rest // size",
                        "q -= apart",
                        "found[q] = np.int64(rest - left * size)",
                        "rest = left",
                    ],
                    "place += along",
                ],
            ],
            "cuda.syncthreads()",
        ],
    ]
    head = "meta, x, before, found, n, apart, along"
    codes = ("*i8", f"*{code}", "*i8", "*i8", "i8", "i8", "i8")
    return _made("Where the elements are that are not 0", head, body, codes)
