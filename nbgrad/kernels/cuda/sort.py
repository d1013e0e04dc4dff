"""Ranks on a device: tiles of 1,024 elements sorted in shared memory, longer lines by merging tiles.

Promises what the CPU's kernel gives (`kernels/cpu/sort.py`), to the bit: elements are the same integers, below which (of 8 bytes: beside
which) stands their place, so no two are equal and the order is the only one. A tile holds as many lines as fit. Of two runs an element of
one finds by bisection how many of the other come before it, which is where it goes: a launch for each doubling of the runs.
"""

from __future__ import annotations

from nbgrad.base.source import Lines, text_of
from nbgrad.base.tables import cached
from nbgrad.kernels.cpu.keys import key, stored
from nbgrad.kernels.cpu.sort import FIRST
from nbgrad.kernels.cuda.own import Own, for_device
from nbgrad.kernels.cuda.scan import PLACES

TILE = 1024  # elements that a block sorts at a time
_LAST = (1 << 63) - 1
_GEOMETRY = [
    "d = meta[0]",
    "n = meta[1]",
    "lines = meta[2]",
    "o_step = meta[5]",
    "x_step = meta[8]",
]


def _wide(code: str) -> bool:
    return code[1] == "8"


def _before(wide: bool, u: str, v: str) -> str:
    """Whether u comes before v; of wide ones the places are called `u_place` and `v_place`."""
    return f"{u} < {v} or ({u} == {v} and {u}_place < {v}_place)" if wide else f"{u} < {v}"


def _first(code: str, which: str, entry: str) -> Lines:
    """`base` is the first rank asked for; NaNs stand last of a line in order, whose `middle`-th integer is `entry`."""
    if which == "given":
        return ["base = begin"]
    if code[0] != "f":
        return ["nans = 0", f"base = {FIRST[which]}"]
    ones = (1 << (8 * int(code[1]) - 1)) - 1
    return [
        "low = 0",
        "high = n",
        "while low < high:",
        [
            "middle = (low + high) // 2",
            f"if {entry} < {ones if _wide(code) else ones << 32}:",
            ["low = middle + 1"],
            "else:",
            ["high = middle"],
        ],
        "nans = n - low",
        f"base = {FIRST[which]}",
    ]


def _given(text: Lines, codes: tuple[str, ...], work: int = 0) -> tuple[str, tuple[str, ...]]:
    return for_device(Own(text_of(text), codes, work))


@cached(128)
def tiles(code: str, descending: bool, which: str, short: bool) -> tuple[str, tuple[str, ...]]:
    """Of `segments`, `per` of them a line, of 2 ** `levels` elements each; of `short` lines these are whole, and the ranks are written at
    once. `which` is a key of FIRST."""
    wide = _wide(code)
    segment = [f"segment = item * ({TILE} >> levels) + (q >> levels)", "line = segment // per"]
    load: Lines = [
        "for turn in range(4):",
        [
            "q = thread + 256 * turn",
            *segment,
            "k = ((segment - line * per) << levels) + (q & (length - 1))",
            f"v = np.int64({_LAST})",
            "if segment < segments and k < n:",
            [*PLACES, *key(code, descending), "v = key" if wide else "v = (key << 32) | k"],
            "keys[q] = v",
            *["places[q] = k"] * wide,
        ],
        "cuda.syncthreads()",
    ]
    return _given(
        [
            '"""Sorted tiles."""',
            "import numpy as np",
            "",
            f"def @NAME@(items, meta, {'o, place' if short else _scratch(wide, 'a')}, x, levels, segments, per, begin, count):",
            [
                f"keys = cuda.shared.array({TILE}, np.int64)",
                *[f"places = cuda.shared.array({TILE}, np.int64)"] * wide,
                "thread = cuda.threadIdx.x",
                *_GEOMETRY,
                "length = 1 << levels",
                "for item in range(cuda.blockIdx.x, items, cuda.gridDim.x):",
                [
                    *load,
                    *_network(wide),
                    "for turn in range(4):",
                    [
                        "q = thread + 256 * turn",
                        *segment,
                        "k = q & (length - 1)",
                        *(_ranked_here(code, which) if short else _kept(wide)),
                    ],
                    "cuda.syncthreads()",
                ],
            ],
        ],
        (
            *("i8", "*i8"),
            *(["*" + stored(code), "*i8"] if short else ["*i8"] * (1 + wide)),
            *("*" + stored(code), "i8", "i8", "i8", "i8", "i8"),
        ),
    )


def _scratch(wide: bool, *names: str) -> str:
    return ", ".join([f"{n}, {n}_place" if wide else n for n in names])


def _network(wide: bool) -> Lines:
    """Batcher's, each stage of which begins with what lies opposite, so that all goes upwards: two pairs a thread at each step."""
    pairs: list[Lines | str] = []
    for pair in ("thread", "thread + 256"):
        pairs += [
            f"at = ((({pair}) >> far) << (far + 1)) | (({pair}) & ((1 << far) - 1))",
            "other = at ^ ((2 << far) - 1 if step == 0 else 1 << far)",
            "u = keys[at]",
            "v = keys[other]",
            *["u_place = places[at]", "v_place = places[other]"] * wide,
            f"if {_before(wide, 'v', 'u')}:",
            [
                *("keys[at] = v", "keys[other] = u"),
                *["places[at] = v_place", "places[other] = u_place"] * wide,
            ],
        ]
    return [
        "for stage in range(levels):",
        ["for step in range(stage + 1):", ["far = stage - step", *pairs, "cuda.syncthreads()"]],
    ]


def _ranked_here(code: str, which: str) -> Lines:
    return [
        "if segment < segments and k < n:",
        [
            *_first(code, which, "keys[q - k + middle]"),
            "r = k - base",
            "if r >= 0 and r < count:",
            [
                "came = places[q]" if _wide(code) else "came = keys[q] & 4294967295",
                *PLACES,
                *_written("came", "r"),
            ],
        ],
    ]


def _written(at: str, rank: str) -> Lines:
    return [f"o[o_at + {rank} * o_step] = x[x_at + {at} * x_step]", f"place[o_at + {rank} * o_step] = {at}"]


def _kept(wide: bool) -> Lines:
    return [
        "k += (segment - line * per) << levels",
        "if segment < segments and k < n:",
        ["a[line * n + k] = keys[q]", *["a_place[line * n + k] = places[q]"] * wide],
    ]


@cached(2)
def merged(wide: bool) -> tuple[str, tuple[str, ...]]:
    """Runs of `run` elements of each line, two at a time, from a to b."""
    theirs = ["v = a[line * n + middle]", *["v_place = a_place[line * n + middle]"] * wide]
    return _given(
        [
            '"""Runs of a line merged, two at a time."""',
            "",
            f"def @NAME@(items, {_scratch(wide, 'b', 'a')}, n, run):",
            [
                "for item in range(cuda.grid(1), items, cuda.gridsize(1)):",
                [
                    "line = item // n",
                    "k = item - line * n",
                    "begin = k // (2 * run) * (2 * run)",
                    "half = min(begin + run, n)",
                    "first = k < half",
                    "low = half if first else begin",
                    "high = min(half + run, n) if first else half",
                    "end = low",
                    "u = a[item]",
                    *["u_place = a_place[item]"] * wide,
                    "while low < high:",
                    [
                        "middle = (low + high) // 2",
                        *theirs,
                        f"if {_before(wide, 'v', 'u')}:",
                        ["low = middle + 1"],
                        "else:",
                        ["high = middle"],
                    ],
                    "to = line * n + begin + (k - begin if first else k - half) + low - end",
                    "b[to] = u",
                    *["b_place[to] = u_place"] * wide,
                ],
            ],
        ],
        ("i8", *["*i8"] * (4 if wide else 2), "i8", "i8"),
        256,
    )


@cached(64)
def ranked(code: str, which: str) -> tuple[str, tuple[str, ...]]:
    """What stands at `count` ranks of each line that is in order."""
    wide = _wide(code)
    return _given(
        [
            '"""The elements of some ranks of lines in order."""',
            "import numpy as np",
            "",
            f"def @NAME@(items, meta, o, place, {_scratch(wide, 'a')}, x, begin, count):",
            [
                *_GEOMETRY,
                "for item in range(cuda.grid(1), items, cuda.gridsize(1)):",
                [
                    "line = item // count",
                    "r = item - line * count",
                    *PLACES,
                    *_first(code, which, "a[line * n + middle]"),
                    "at = line * n + base + r",
                    "came = a_place[at]" if wide else "came = a[at] & 4294967295",
                    *_written("came", "r"),
                ],
            ],
        ],
        ("i8", "*i8", "*" + stored(code), "*i8", *["*i8"] * (1 + wide), "*" + stored(code), "i8", "i8"),
        256,
    )
