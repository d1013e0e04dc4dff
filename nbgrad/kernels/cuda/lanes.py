"""How a block's threads are shared among lines, which rows, scans and reductions along a dimension have in common.

Promises that it depends on a line's length alone: 4, 32 or 256 neighbouring lanes walk one that lies together; of lines that lie beside
each other 32 are walked by 8 lanes each. After `TOGETHER` or `BESIDE` there stand `lane` of `lanes`; `leader`, the line's first lane;
`beside`, the line's number in the block; and `abreast`, how many a block has.
"""

from __future__ import annotations

from nbgrad.base.source import Lines

TOGETHER = [
    "levels = 8 if whole > 1024 else 5 if whole > 32 else 2",
    "lanes = 1 << levels",
    "lane = thread & (lanes - 1)",
    "leader = thread - lane",
    "beside = thread >> levels",
    "abreast = 256 >> levels",
]
BESIDE = [
    "levels = 3",
    "lanes = 8",
    "lane = thread >> 5",
    "leader = thread & 31",
    "beside = thread & 31",
    "abreast = 32",
]


def tree(join: Lines, beside: bool) -> Lines:
    """What lanes have written to shared memory, joined in the leader's place: `join` is of `thread` and `other`."""
    apart = "32 * half" if beside else "half"
    return [
        "cuda.syncthreads()",
        "for level in range(levels):",
        ["half = lanes >> (level + 1)", "if lane < half:", [f"other = thread + {apart}", *join]],
        ["cuda.syncthreads()"],
    ]


def opening(names: tuple[str, ...], beside: bool, body: Lines) -> Lines:
    """The lines of a walk (`kernels/cpu/walk.py`), those of a block side by side; `body` has where operand `x` begins as `x_at`, and how it
    steps as `x_step`, for a `line` that is one of `count`."""
    head = 4 + 3 * len(names)
    geometry = [
        "d = meta[0]",
        "n = meta[1]",
        "lines = meta[2]",
        "count = items // meta[3] * lines",
        "whole = n",
    ]
    geometry += [f"{name}_step = meta[{5 + 3 * k}]" for k, name in enumerate(names)]
    steps = [f"{name}_at += at * meta[{head} + d * {k + 1} + e]" for k, name in enumerate(names)]
    return [
        "thread = cuda.threadIdx.x",
        *geometry,
        *(BESIDE if beside else TOGETHER),
        "for base in range(cuda.blockIdx.x * abreast, count, cuda.gridDim.x * abreast):",
        [
            "line = base + beside",
            "rest = np.uint64(line) // np.uint64(lines)",
            "at = line - np.int64(rest) * lines",
            *(f"{name}_at = meta[{4 + 3 * k}] + at * meta[{6 + 3 * k}]" for k, name in enumerate(names)),
            "for e in range(d):",
            [
                f"size = np.uint64(meta[{head} + e])",
                "left = rest // size",
                "at = np.int64(rest - left * size)",
                "rest = left",
                *steps,
            ],
            *body,
        ],
    ]
