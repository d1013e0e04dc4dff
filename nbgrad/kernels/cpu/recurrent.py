"""Recurrent layers as source: some rows of a batch taken through all steps by one piece of work.

Promises the ops that a layer is one launch forward and one backward, however many steps it has. A row of the batch needs nothing of
the others, so no threads meet at a step; what is a product over all steps is made outside, before and after. A step is a product of the
state with its weights, tile by tile (`kernels/tile.py`; a loop where vectors are not known), and a loop over hidden units whose
expressions a `Cell` gives. Sequences may end at different steps: `meta` says where the rows of each begin, the longest sequence being
the first row.

Weights are read in panels, as `packed` leaves them: of each `width` columns (of each gate) the rows one after the other, with zeros
where there are no more columns. Where those of the inputs stay near as well, an input stands before the state in each row, and one product
of both is all that a gate adds up. `meta` holds: steps, rows of the batch, hidden units, elements of the state, whether the last step is
the first, elements of an input that stands there, and for each step, and behind the last, at which row it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbgrad.base.source import text_of
from nbgrad.base.tables import cached
from nbgrad.expr import emit
from nbgrad.expr import prims as p
from nbgrad.expr.node import Expr, ordered_vars, var
from nbgrad.kernels.templates import SCALARS, vmath_helpers
from nbgrad.kernels.tile import MIDDLE, SHAPES

HEIGHT = 4  # rows that are summed at once, where tiles have no say
_CACHED = 1 << 18  # bytes of weights that stay near while eight rows take a step
NEAR = (
    1 << 19
)  # of those of states and inputs together, so that inputs are multiplied at each step and not all before


def width(code: str, bits: int) -> int:
    """Columns of a tile of so many bits; 0 where the machine's are not known."""
    _, vectors, lanes = SHAPES[bits or 256][code]
    return vectors * lanes


def filled(columns: int, code: str, bits: int) -> bool:
    """Whether panels of so many columns have few of zeros: a product over all steps has fewer, and an LSTM of 20 units with 100 inputs, of
    which two fifths are zeros, takes a tenth longer with both in one product; one of 64 with 64 a twentieth less."""
    whole = -(-columns // width(code, bits)) * width(code, bits)
    return 8 * (whole - columns) <= columns > 0


def rows_of(weights: int) -> int:
    """How many rows of the batch one piece of work takes through the steps, the weights having so many bytes. It is the same for any
    number of threads: more let fewer work, fewer read large weights too often."""
    return 8 if weights <= _CACHED else 16


_HEAD = '''"""{title}."""
from math import inf, nan
import math
import numpy as np
{preamble}from nbgrad.kernels.cpu.memory import address_of
from nbgrad.kernels.cpu.stack import stack_{code}
{tile}F = {scalar}

'''
Lines = list[Any]  # as `text_of` takes them
Code = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)  # a key by identity: each is made once
class Cell:
    """One step of one hidden unit. Of `x0`, `x1`, ... (from the input), `u0`, `u1`, ... (from the state's product), `c` (what is carried
    beside the state) and `h` (the state) follow `gates`, which take the place of the x, `more` that is kept, the new `c` and `h`.
    Backwards, of the gradients `g` of h and `d` of c, of gates `k0`, ..., of `m0`, ... and of h follow the gradients of the x; of the u,
    where those are others; the new d; and what reaches h beside the product. With `shifted` the product has a bias of its own."""

    name: str
    gates: tuple[Expr, ...]
    more: tuple[Expr, ...]
    hidden: Expr
    by_x: tuple[Expr, ...]
    by_u: tuple[Expr, ...] = ()
    carried: Expr | None = None
    by_carried: Expr | None = None
    by_state: Expr | None = None
    shifted: bool = False
    apart: tuple[int, ...] = ()  # gates whose x and u are not just added


def _variables(letter: str, count: int) -> list[Expr]:
    return [var(f"{letter}{k}") for k in range(count)]


def _lstm() -> Cell:
    x, u, c = _variables("x", 4), _variables("u", 4), var("c")
    i, f, s, o = (a(x[k] + u[k]) for k, a in enumerate((p.sigmoid, p.sigmoid, p.tanh, p.sigmoid)))
    carried = f * c + i * s
    top = p.tanh(carried)
    g, (ki, kf, ks, ko), (before, after) = var("g"), _variables("k", 4), _variables("m", 2)
    d = var("d") + g * ko * (1 - after * after)
    by_x = (
        d * ks * ki * (1 - ki),
        d * before * kf * (1 - kf),
        d * ki * (1 - ks * ks),
        g * after * ko * (1 - ko),
    )
    return Cell("lstm", (i, f, s, o), (c, top), o * top, by_x, carried=carried, by_carried=d * kf)


def _gru() -> Cell:
    x, u, h = _variables("x", 3), _variables("u", 3), var("h")
    reset, update = p.sigmoid(x[0] + u[0]), p.sigmoid(x[1] + u[1])
    new = p.tanh(x[2] + reset * u[2])
    g, (kr, kz, kn), inner = var("g"), _variables("k", 3), var("m0")
    by_new = g * (1 - kz) * (1 - kn * kn)
    by_gates = by_new * inner * kr * (1 - kr), g * (h - kn) * kz * (1 - kz)
    return Cell(
        "gru",
        (reset, update, new),
        (u[2],),
        (h - new) * update + new,
        (*by_gates, by_new),
        (*by_gates, by_new * kr),
        by_state=g * kz,
        shifted=True,
        apart=(2,),
    )


def _rnn(name: str, activation: Any, slope: Any) -> Cell:
    made = activation(var("x0") + var("u0"))
    return Cell(name, (made,), (), made, (slope(var("g"), var("k0")),))


@cached(1)
def cells() -> dict[str, Cell]:
    """By the names of PyTorch's functions."""
    made = (
        _lstm(),
        _gru(),
        _rnn("rnn_tanh", p.tanh, lambda g, y: g * (1 - y * y)),
        _rnn("rnn_relu", lambda x: p.where(x <= 0, 0.0, x), lambda g, y: p.where(y <= 0, 0.0, g)),
    )
    return {cell.name: cell for cell in made}


# ---------------------------------------------------------------- weights


_PACK = '''"""Panels of {width} columns of groups of columns of two matrices: in each all rows of the one, the other, or both."""


def @NAME@(start, stop, meta, o, w, v):
    columns, parts, rows, more = meta[0], meta[1], meta[2], meta[3]
    w_down, w_along, v_down, v_along = meta[4], meta[5], meta[6], meta[7]
    total = meta[8]
    for block in range(start, stop):
        first = block * {width}
        width = min({width}, columns - first)
        p = block * total * {width}
        for part in range(parts):
            group = meta[9 + 3 * part] * columns + first
            for k in range(rows * meta[10 + 3 * part]):
                for j in range(width):
                    o[p + j] = w[k * w_down + (group + j) * w_along]
                for j in range(width, {width}):
                    o[p + j] = 0
                p += {width}
            for k in range(more * meta[11 + 3 * part]):
                for j in range(width):
                    o[p + j] = v[k * v_down + (group + j) * v_along]
                for j in range(width, {width}):
                    o[p + j] = 0
                p += {width}
'''


def packed(code: str, bits: int) -> Code:
    """`meta` holds: columns of a group, how many panels there are of them, rows of both matrices, the steps from row to row and from column
    to column of both, rows of all these panels; then of each panel its group, and whether it has rows of the one and of the other."""
    return _PACK.format(width=width(code, bits)), ("i8", "i8", "*i8", *[f"*{code}"] * 3)


# ---------------------------------------------------------------- steps


class _Writer:
    """Text for one dtype. Elements go through memory of the kernel's own: so LLVM sees that what is written is nothing that is read."""

    def __init__(self, cell: Cell, code: str, bits: int, piece: int) -> None:
        self.cell, self.code, self.bits, self.width, self.piece = cell, code, bits, width(code, bits), piece
        self.size = int(code[1])
        self.preamble = vmath_helpers()  # which also tells `emit` the vectorisable spellings
        self.stacks = {} if bits else {f"a{i}": self.width for i in range(HEIGHT)}
        self.named: Lines = []  # addresses

    def product(
        self, rows: str, weights: str, first: str, step: str, parts: Sequence[tuple[int, str, str]]
    ) -> Lines:
        """`u` becomes the products of `count` rows, the first of which begins at `first`, with the next panels of weights: so many of each
        of the `parts`, which multiply from which element of a row on, and how many."""
        total = sum([count for count, *_ in parts])
        self.stacks["u"] = max(self.stacks.get("u", 0), total * self.piece * self.width)
        made, found, slot = self._by_tile if self.bits else self._by_loops, [], 0
        for count, offset, length in parts:
            lines = [
                *made(rows, weights, f"{first} + {offset}", step, length),
                f"panel += {length} * {self.width}",
            ]
            found += [f"for group in range({slot}, {slot + count}):", lines]
            slot += count
        return found

    @property
    def tiles(self) -> dict[int, str]:
        """By their heights, the highest first."""
        (high, low), vectors, lanes = SHAPES[self.bits][self.code]
        heights = [high, *[MIDDLE] * (high > MIDDLE), low]
        return {height: f"edge_{self.code}_{height}x{vectors}x{lanes}" for height in heights}

    def _by_tile(self, rows: str, weights: str, first: str, step: str, length: str) -> Lines:
        names = [(f"at_{n}", f"address_of({n})") for n in (rows, weights, "u")]
        self.named += [f"{name} = {text}" for name, text in names]
        size, line = self.size, self.width * self.size
        given = [
            length,
            f"at_{rows} + ({first} + top * {step}) * {size}",
            f"{step} * {size}",
            f"{size}",
            f"at_{weights} + panel * {size}",
            f"{line}",
            f"at_u + (group * {self.piece} + top) * {line}",
            f"{line}",
            "count - top",
            f"{self.width}, 0, 0, 0",
        ]
        *higher, low = self.tiles
        chosen: Lines = []
        for height in higher:
            # Rows beyond the last cost as much as others: the next lower tile takes what it covers in two rounds.
            below = low * ((height - 1) // low)
            word = "elif" if chosen else "if"
            chosen += [
                f"{word} count - top > {below}:",
                [f"{self.tiles[height]}(({', '.join(given)}))", f"top += {height}"],
            ]
        few = [f"{self.tiles[low]}(({', '.join(given)}))", f"top += {low}"]
        return ["top = 0", "while top < count:", [*chosen, "else:", few]]

    def _by_loops(self, rows: str, weights: str, first: str, step: str, length: str) -> Lines:
        several, one = (self._tile(rows, weights, length, height) for height in (HEIGHT, 1))
        starts = [f"q{i} = {first} + min(top + {i}, count - 1) * {step}" for i in range(HEIGHT)]
        return [
            f"for top in range(0, count, {HEIGHT}):",
            [*starts, "if count - top > 1:", several, "else:", one],
        ]

    def _tile(self, rows: str, weights: str, length: str, height: int) -> Lines:
        """Of the rows those beyond the last are that again."""
        columns, every = f"for j in range({self.width}):", range(height)
        sums = [f"v = {weights}[at_w + j]", *(f"a{i}[j] += f{i} * v" for i in every)]
        place = f"u[(group * {self.piece} + top + {{i}}) * {self.width} + j] = a{{i}}[j]"
        return [
            *(line for i in every for line in (columns, [f"a{i}[j] = F(0)"])),
            "at_w = panel",
            f"for k in range({length}):",
            [*(f"f{i} = {rows}[q{i} + k]" for i in every), columns, sums, f"at_w += {self.width}"],
            *(line for i in every for line in (columns, [place.format(i=i)])),
        ]

    def moved(self, pairs: list[tuple[str, str]]) -> Lines:
        """Columns of one place to another: all at once where there are `width`."""
        each = lambda count: [  # noqa: E731
            line for to, source in pairs for line in (f"for j in range({count}):", [f"{to} = {source}"])
        ]
        return [f"if width == {self.width}:", each(self.width), "else:", each("width")] if pairs else []

    def slot(self, k: int) -> str:
        """What `product` made for the k-th panel."""
        return f"u[({k} * {self.piece} + i) * {self.width} + j]"

    def units(
        self,
        exprs: dict[str, Expr],
        places: dict[str, str],
        stored: dict[str, str],
        at_hand: dict[str, str] | None = None,
    ) -> Lines:
        """Expressions of the hidden units of one row from `at` on, of what lies at `places` or is at hand, stored where it says."""
        used = ordered_vars(*exprs.values())
        at_hand = {n: text for n, text in (at_hand or {}).items() if n in used}
        read = {n: place for n, place in places.items() if n in used and n not in at_hand}
        for name in (*(f"i_{n}" for n in read), *(f"made_{n}" for n in exprs)):
            self.stacks[name] = self.width
        names = {n: f"v_{n}" for n in used}
        done = emit.emit(tuple(exprs.values()), "cpu", self.code, names)
        values = [f"v_{n} = i_{n}[j]" for n in read] + [f"v_{n} = {text}" for n, text in at_hand.items()]
        results = [f"made_{n}[j] = {text}" for n, text in zip(exprs, done.results)]
        return [
            *self.moved([(f"i_{n}[j]", place) for n, place in read.items()]),
            *(f"for j in range({self.width}):", [*values, *done.lines, *results]),
            *self.moved([(stored[n], f"made_{n}[j]") for n in exprs]),
        ]

    def source(self, title: str, pointers: list[str], body: Lines) -> Code:
        head = _HEAD.format(
            title=f"{self.cell.name}, {title}",
            preamble=self.preamble,
            code=self.code,
            scalar=SCALARS[self.code],
            tile=f"from nbgrad.kernels.cpu.tile import {', '.join(self.tiles.values())}, full_width\n"
            if self.bits
            else "",
        )
        stacks = [f"{name} = stack_{self.code}({size})" for name, size in self.stacks.items()]
        whole = [
            f"def @NAME@(start, stop, meta, {', '.join(pointers)}):",
            [*_BEGIN, *["full_width()"] * (self.bits == 512), *stacks, *dict.fromkeys(self.named), *body],
        ]
        return text_of([head, *whole]), ("i8", "i8", "*i8", *[f"*{self.code}"] * len(pointers))


_BEGIN = [
    "steps = meta[0]",
    "batch = meta[1]",
    "n = meta[2]",
    "m = meta[3]",
    "reverse = meta[4]",
    "f = meta[5]",
]


def _rows(to: str, source: str, length: str, count: str = "rows") -> Lines:
    """Rows from one place to another."""
    return [f"for i in range({count}):", [f"for k in range({length}):", [f"{to} = {source}"]]]


def _stepping(turned: bool, piece: int, start: Lines, step: Lines, end: Sequence[Any] = ()) -> Lines:
    """The loops over pieces of work and steps, from the last on where that is `turned`."""
    last, first = "steps - 1 - step", "step"
    return [
        "for piece in range(start, stop):",
        [
            f"begin = piece * {piece}",
            f"rows = min({piece}, batch - begin)",
            *start,
            "for step in range(steps):",
            [
                f"t = ({last} if reverse else {first})"
                if not turned
                else f"t = ({first} if reverse else {last})",
                "row = meta[6 + t] + begin",
                "count = min(rows, meta[7 + t] - row)",
                "if count > 0:",
                step,
            ],
            *end,
        ],
    ]


def _blocks(length: str, width: int, lines: Lines) -> Lines:
    return [f"for at in range(0, {length}, {width}):", [f"width = min({width}, {length} - at)", *lines]]


_STATE = "o_z[(begin + i) * (f + m) + f + {}]"  # behind the input of a row


def _sums(w: _Writer, inside: bool) -> tuple[list[tuple[int, str, str]], dict[str, str], Lines]:
    """What `product` makes of rows for the gates, where the x and u are that are at hand then, and what has to be read before."""
    gates, apart = len(w.cell.gates), w.cell.apart if inside else ()
    parts, at_hand, begin = [(gates - len(apart), "0", "(f + m)")], {}, []
    biases = {"x": "b_x", "u": "b"}
    for slot, k in enumerate([k for k in range(gates) if k not in apart]):
        at_hand[f"u{k}"] = w.slot(slot)
        if inside:
            at_hand[f"x{k}"] = f"s{k}[j]"
            begin += [(f"s{k}[j]", " + ".join(f"{b}[{k} * n + at + j]" for b in biases.values()))]
        elif w.cell.shifted:
            at_hand[f"u{k}"] += f" + s{k}[j]"
            begin += [(f"s{k}[j]", f"b[{k} * n + at + j]")]
    for e, k in enumerate(apart):
        parts += [(1, "0", "f"), (1, "f", "m")]
        for d, (letter, bias) in enumerate(biases.items()):
            at_hand[f"{letter}{k}"] = f"{w.slot(gates - len(apart) + 2 * e + d)} + s{letter}{k}[j]"
            begin += [(f"s{letter}{k}[j]", f"{bias}[{k} * n + at + j]")]
    w.stacks |= {name.split("[")[0]: w.width for name, _ in begin}
    return parts, at_hand, w.moved(begin)


@cached(64)
def forward(
    name: str, code: str, bits: int, piece: int, projected: bool, inside: bool, kept: bool = True
) -> Code:
    """Writes the outputs of all steps, the last states, and, if that is `kept`, what `backward` reads: the x become the gates, and beside
    each output stands the state before it. Where it is `projected`, the state is another product, `r`, of what the cell gives. The x are
    made `inside` or stand where the gates will."""
    cell = cells()[name]
    w, gates, more = _Writer(cell, code, bits, piece), len(cell.gates), len(cell.more)
    hidden = "o_m[(row + i) * n + at + j]" if projected else "o_y[(row + i) * m + at + j]"
    exprs = {f"g{k}": e for k, e in enumerate(cell.gates)} | {f"e{k}": e for k, e in enumerate(cell.more)}
    exprs = exprs if kept else {}
    stored = {f"g{k}": f"o_gates[((row + i) * {gates} + {k}) * n + at + j]" for k in range(gates)}
    places = {f"x{k}": stored[f"g{k}"] for k in range(gates)}
    places |= {"h": _STATE.format("at + j"), "c": "o_c[(begin + i) * n + at + j]"}
    stored |= {f"e{k}": f"o_more[((row + i) * {more} + {k}) * n + at + j]" for k in range(more)}
    stored |= {"h": hidden, "c": places["c"]}
    exprs |= {"h": cell.hidden} | ({} if cell.carried is None else {"c": cell.carried})
    parts, at_hand, before = _sums(w, inside)
    block = w.product("o_z", "w", "begin * (f + m)", "(f + m)", parts) + before
    block += ["for i in range(count):", w.units(exprs, places, stored, at_hand)]
    state = _STATE.format("k")
    step = [
        *_rows("o_z[(begin + i) * (f + m) + k]", "x[(row + i) * f + k]", "f", "count"),
        *(_rows("o_prev[(row + i) * m + k]", state, "m", "count") if kept else []),
        "panel = 0",
        *_blocks("n", w.width, block),
    ]
    if projected:
        taken = w.moved([("o_y[(row + i) * m + at + j]", f"u[i * {w.width} + j]")])
        made = w.product("o_m", "r", "row * n", "n", [(1, "0", "n")])
        step += ["panel = 0", *_blocks("m", w.width, [*made, "for i in range(count):", taken])]
    step += _rows(state, "o_y[(row + i) * m + k]", "m", "count")
    start = _rows(state, "h[(begin + i) * m + k]", "m")
    cells_rows = "o_c[(begin + i) * n + k]", "c[(begin + i) * n + k]"
    start += _rows(*cells_rows, "n") if cell.carried is not None else []
    pointers = [
        "o_y",
        "o_h",
        "o_c",
        "o_gates",
        "o_more",
        "o_prev",
        "o_m",
        "o_z",
        "x",
        "h",
        "c",
        "w",
        "b_x",
        "b",
        "r",
    ]
    return w.source(
        "all steps" + ", of which nothing is kept" * (not kept),
        pointers,
        _stepping(False, piece, start, step, _rows("o_h[(begin + i) * m + k]", state, "m")),
    )


@cached(64)
def backward(name: str, code: str, bits: int, piece: int, projected: bool, inside: bool = False) -> Code:
    """Writes the gradients of what was summed for the gates (of both parts, where they differ), of the first states, and, where outputs are
    `projected`, all that arrives at each output; of the inputs too, if their part is `inside`."""
    cell = cells()[name]
    w, gates, more = _Writer(cell, code, bits, piece), len(cell.gates), len(cell.more)
    places = {f"k{k}": f"gates[((row + i) * {gates} + {k}) * n + at + j]" for k in range(gates)}
    places |= {f"m{k}": f"more[((row + i) * {more} + {k}) * n + at + j]" for k in range(more)}
    places |= {"d": "o_c[(begin + i) * n + at + j]", "h": "prev[(row + i) * m + at + j]"}
    state = "o_h[(begin + i) * m + at + j]"
    exprs = {f"x{k}": e for k, e in enumerate(cell.by_x)} | {f"y{k}": e for k, e in enumerate(cell.by_u)}
    stored = {f"x{k}": f"o_x[((row + i) * {gates} + {k}) * n + at + j]" for k in range(gates)}
    stored |= {f"y{k}": f"o_u[((row + i) * {gates} + {k}) * n + at + j]" for k in range(gates)}
    stored |= {"d": places["d"], "h": state}
    exprs |= {} if cell.by_carried is None else {"d": cell.by_carried}
    exprs |= {} if cell.by_state is None else {"h": cell.by_state}
    step: Lines
    if projected:
        step = ["for k in range(count * m):", ["o_t[row * m + k] = g_y[row * m + k] + o_h[begin * m + k]"]]
        made = w.product("o_t", "r", "row * m", "m", [(1, "0", "m")])
        places["g"] = f"u[i * {w.width} + j]"
    else:
        step = ["for k in range(count * m):", ["o_h[begin * m + k] += g_y[row * m + k]"]]
        made = []
        places["g"] = state
    by_u, length = "o_u" if cell.by_u else "o_x", f"{gates} * n"
    whole = "row * length", "length", [(1, "0", "length")]
    add = f" + {state}" if cell.by_state is not None else ""
    taken = w.moved([(state, f"u[i * {w.width} + j]{add}")])
    step += [
        "panel = 0",
        *_blocks("n", w.width, [*made, "for i in range(count):", w.units(exprs, places, stored)]),
        f"length = {length}",
        "panel = 0",
        *_blocks("m", w.width, [*w.product(by_u, "w", *whole), "for i in range(count):", taken]),
    ]
    if inside:
        taken = w.moved([("o_g[(row + i) * f + at + j]", f"u[i * {w.width} + j]")])
        product = w.product("o_x", "w_x", *whole)
        step += ["panel = 0", *_blocks("f", w.width, [*product, "for i in range(count):", taken])]
    start = _rows("o_h[(begin + i) * m + k]", "g_h[(begin + i) * m + k]", "m")
    cells_rows = "o_c[(begin + i) * n + k]", "g_c[(begin + i) * n + k]"
    start += _rows(*cells_rows, "n") if cell.carried is not None else []
    pointers = [
        "o_x",
        "o_u",
        "o_h",
        "o_c",
        "o_t",
        "o_g",
        "g_y",
        "g_h",
        "g_c",
        "gates",
        "more",
        "prev",
        "w",
        "w_x",
        "r",
    ]
    return w.source("all steps backwards", pointers, _stepping(True, piece, start, step))
