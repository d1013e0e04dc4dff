"""Programs over rows, as source: what a row needs to know about all of itself before it can write its elements.

Promises the ops: a `Program` says once, in scalar expressions, what is folded over a row, which scalars follow, and what is written
to each element; three loops are made of it. In `runs` a row's elements lie together (in one run, or in several at a pitch); in `columns`
neighbouring rows lie side by side, and many are worked at a time; `short` rows have few elements, and are laid side by side first. A row
stays in the cache between its steps, so memory is read and written once. Sums are taken in the elements' dtype over `BLOCK` of them at
most, in any order, and of blocks in float64; scalars are computed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nbgrad.base.source import fill, text_of
from nbgrad.base.tables import Table
from nbgrad.expr import emit
from nbgrad.expr.node import Expr, free_vars
from nbgrad.kernels import faults
from nbgrad.kernels.family import family
from nbgrad.kernels.templates import SCALARS, vmath_helpers

BLOCK = 4096  # elements that are added up in their own dtype; in as many lanes as LLVM makes of it, 32 or so
WIDTH = 64  # rows that `columns` works side by side
FEW = 32  # elements of each of those that are added up in their own dtype
ABREAST = 32  # short rows that are laid side by side
SHORT = 26  # elements of such a row at most, one block: of 25 a cross entropy takes 72 us in place of 88, of 32 84 in place of 65
LINE = 16  # elements of a row that one thread adds to: a cache line of them

START = {"sum": "0.0", "max": "-inf"}
JOIN = {"sum": "{0} + {1}", "max": "{0} if {0} > {1} else {1}"}
_GATHER = {"sum": "add_up({0}, {1})", "max": "larger({0}, {1})"}


@dataclass(frozen=True)
class Step:
    """One walk over a row: `fold` names what is summed or maximised, `write` what is stored per element, `then` the scalars that follow."""

    fold: dict[str, tuple[str, Expr]] = field(default_factory=dict)
    write: dict[str, Expr] = field(default_factory=dict)
    then: dict[str, Expr] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)  # a key by identity: each is made once
class Program:
    """`elements` are inputs with an element per element, `lines` those that all rows share, `each` those with one per row, `numbers`
    come by value. `results` are scalars to keep, one per row. `columns` are sums over rows, made in the first step and left as one
    partial sum per chunk of rows. With `chosen` or `mark`, an integer per row, `at`, names one of its elements: `chosen` are results
    that read that element (0 where there is no such), `mark`, of scalars, is added to it in the output. `over` is an input whose
    memory the output takes."""

    name: str
    steps: tuple[Step, ...]
    elements: tuple[str, ...]
    lines: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    columns: dict[str, Expr] = field(default_factory=dict)
    chosen: dict[str, Expr] = field(default_factory=dict)
    mark: Expr | None = None
    over: str = ""

    @property
    def given(self) -> tuple[str, ...]:
        """The outputs and what else it leaves, in the order of its pointers."""
        own = () if self.over else self.outputs
        return (*own, *self.results, *self.columns, *self.chosen)

    @property
    def points(self) -> bool:
        return bool(self.chosen) or self.mark is not None

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for step in self.steps for name in step.write))


# The programs of kernels whose rows are runs, with the code of elements, by the kernel's address: for who does several by strips.
in_runs: Table[int, tuple[Program, str]] = Table("kernels.cpu.rows.in_runs", None)


_HEAD = '''"""{title}, {how}."""
from math import inf, nan
import math
import numpy as np
{preamble}from nbgrad.kernels.cpu.fold import add_up, larger
from nbgrad.kernels.cpu.stack import stack_f4, stack_f8, stack_i8
F = {scalar}
A = np.float64

'''

Lines = list[Any]  # as `text_of` takes them


class Writer:
    """What the two loops share: parameters, and expressions written out. `side` follows the name of what is kept for each of several
    rows side by side; of `laid` rows the elements stand in memory of the kernel's own."""

    def __init__(self, program: Program, code: str, side: str = "", laid: bool = False) -> None:
        self.program, self.code, self.side, self.laid = program, code, side, laid
        self.preamble = vmath_helpers()  # which also tells `emit` the vectorisable spellings
        self.known = {*program.each, *program.numbers}  # the scalars that a row has so far

    def scalar(self, name: str) -> str:
        return f"s_{name}" if name in self.program.numbers else f"s_{name}{self.side}"

    def stored(self, output: str) -> str:
        """Where an output goes: one name for one memory, so that LLVM sees that an element is read before it is written."""
        if self.program.over:
            return self.read(self.program.over)
        return f"h_{output}" if self.laid else f"o_{output}"

    def read(self, element: str) -> str:
        return f"h_{element}" if self.laid else f"x_{element}"

    def element(self, exprs: dict[str, Expr], place: str, line: str = "") -> tuple[Lines, dict[str, str]]:
        """Lines that compute expressions of the element at a place, and the names of their values."""
        p, used = self.program, free_vars(*exprs.values())
        read = {n: f"{self.read(n)}[{place}]" for n in p.elements} | {n: f"l_{n}[{line}]" for n in p.lines}
        read |= {n: f"{self.stored(n)}[{place}]" for n in p.outputs}
        lines = [f"v_{n} = {text}" for n, text in read.items() if n in used]
        names = {n: f"v_{n}" if n in read else self.scalar(n) for n in used}
        done = emit.emit(tuple(exprs.values()), "cpu", self.code, names)
        return lines + done.lines, dict(zip(exprs, done.results))

    def walked(self, step: Step) -> dict[str, Expr]:
        return {f: e for f, (_, e) in step.fold.items()} | step.write

    def after(self, step: Step) -> Lines:
        """The scalars that follow a step, in float64."""
        lines: Lines = []
        for name, expr in step.then.items():
            names = {n: f"a_{n}" for n in sorted(free_vars(expr))}
            for n, a in names.items():
                text = f"n_{n}" if n in self.program.numbers else f"A({self.scalar(n)})"
                lines.append(f"{a} = {text if n in self.known else f'total_{n}{self.side}'}")
            done = emit.emit((expr,), "cpu", "f8", names)
            lines += [*done.lines, f"{self.scalar(name)} = F({done.results[0]})"]
            self.known.add(name)
        return lines

    def at_chosen(self, place: str, row: str) -> Lines:
        """What is done with the one element of a row that an integer names."""
        p = self.program
        if not p.points:
            return []
        lines = [f"o_{c}[{row}] = F(0)" for c in p.chosen]
        marks = {} if p.mark is None else {"mark": p.mark}
        inside, found = self.element(p.chosen | marks, "place")
        inside += [f"o_{c}[{row}] = {found[c]}" for c in p.chosen]
        inside += [f"{self.stored(p.outputs[0])}[place] += {found[m]}" for m in marks]
        return [*lines, f"at = e_at[{row}]", "if 0 <= at < n:", [f"place = {place}", *inside]]

    def source(
        self, how: str, body: Lines, first: tuple[str, ...] = ("start", "stop")
    ) -> tuple[str, tuple[str, ...]]:
        p, pointer = self.program, "*" + self.code
        names = [*(f"o_{n}" for n in p.given), *(f"x_{n}" for n in p.elements)]
        names += [*(f"l_{n}" for n in p.lines), *(f"e_{n}" for n in p.each)]
        codes = [*["i8"] * len(first), "*i8", *[pointer] * len(names)]
        if p.points:
            names, codes = [*names, "e_at"], [*codes, "*i8"]
        names, codes = [*names, *(f"n_{n}" for n in p.numbers)], [*codes, *["f8"] * len(p.numbers)]
        numbers = [f"s_{n} = F(n_{n})" for n in p.numbers]
        head = _HEAD.format(title=p.name, how=how, preamble=self.preamble, scalar=SCALARS[self.code])
        definition = f"def @NAME@({', '.join([*first, 'meta', *names])}):"
        return text_of([head, definition, [*numbers, *body]]), tuple(codes)


@family
def runs(program: Program, code: str) -> tuple[str, tuple[str, ...]]:
    """The loop over rows that are runs. `meta` holds: pitch of rows, runs of a row, their pitch, their length; with `columns` also
    the number of rows and how many make a chunk, which is then what one item is."""
    w = Writer(program, code)
    body = ["row_pitch = meta[0]", "runs = meta[1]", "run_pitch = meta[2]", "n = meta[3]"]
    row = ["begin = row * row_pitch", *(f"s_{n} = e_{n}[row]" for n in program.each)]
    for step in program.steps:
        row += _walking(w, step)
        row += w.after(step)
    row += [f"o_{n}[row] = s_{n}" for n in program.results]
    row += w.at_chosen("begin + at", "row")
    if not program.columns:
        return w.source("rows that are runs", [*body, "for row in range(start, stop):", row])
    body += ["rows = meta[4]", "chunk = meta[5]", "for item in range(start, stop):"]
    item = ["for k in range(n):", [f"o_{c}[item * n + k] = F(0)" for c in program.columns]]
    item += ["for row in range(item * chunk, min(item * chunk + chunk, rows)):", row]
    return w.source("chunks of rows that are runs", [*body, item])


def _walking(w: Writer, step: Step) -> Lines:
    """Blocks of a row, each gathered in any order and then added to the total. Sums over rows are made in the first step, where what
    they need is read anyway (measured for the gradient of a layer norm, 2048 rows of 512: 350 us; in a loop of their own 415; in the
    loop that writes the gradient, LLVM gives up on vectors)."""
    kinds = {f: kind for f, (kind, _) in step.fold.items()}
    across = w.program.columns if step is w.program.steps[0] else {}
    lines, found = w.element(w.walked(step) | across, "q", "k")
    for f, kind in kinds.items():
        lines += [f"u = {found[f]}", f"part_{f} = {_GATHER[kind].format(f'part_{f}', 'u')}"]
    lines += [f"{w.stored(o)}[q] = {found[o]}" for o in step.write]
    lines += [f"o_{c}[item * n + k] += {found[c]}" for c in across]
    block: Lines = [f"part_{f} = F({START[kind]})" for f, kind in kinds.items()]
    block += [f"for k in range(at, min(at + {BLOCK}, n)):", ["q = p + k", *lines]]
    for f, kind in kinds.items():
        block += [f"part = A(part_{f})", f"total_{f} = {JOIN[kind].format(f'total_{f}', 'part')}"]
    return [
        *(f"total_{f} = A({START[kind]})" for f, kind in kinds.items()),
        "for run in range(runs):",
        ["p = begin + run * run_pitch", f"for at in range(0, n, {BLOCK}):", block],
    ]


@family
def columns(program: Program, code: str) -> tuple[str, tuple[str, ...]]:
    """The loop over rows that lie side by side. `meta` holds: length of a row, rows side by side, blocks that these are cut into."""
    w = Writer(program, code, "[j]")
    item = [
        f"first = item % blocks * {WIDTH}",
        f"width = min({WIDTH}, inner - first)",
        "row = item // blocks * inner + first",
        "begin = item // blocks * n * inner + first",
        *_steps(w, "begin + r * inner"),
        *_side_by_side(w.at_chosen("begin + at * inner + j", "row + j")),
    ]
    body = ["n = meta[0]", "inner = meta[1]", "blocks = meta[2]", *_kept(w, WIDTH)]
    return w.source("rows that lie side by side", [*body, "for item in range(start, stop):", item])


def are_short(rows: int, n: int, inner: int = 1) -> bool:
    """Whether rows are `short` ones: of so few elements, and enough rows to lay side by side, if these do not lie so already."""
    return 0 < n <= SHORT and rows >= ABREAST // 2 and inner < ABREAST // 2


@family
def short(program: Program, code: str, beside: bool = False) -> tuple[str, tuple[str, ...]]:
    """The loop over rows of at most `SHORT` elements, which are copied to lie side by side and what is written of them back: a loop along
    such a row would end before vectors are set up. They are runs, or a few of them lie `beside` each other already. `meta` holds: length
    of a row, number of rows, and how many lie beside each other."""
    w = Writer(program, code, "[j]", laid=True)
    given = [(w.read(n), f"x_{n}") for n in program.elements]
    made = [(w.stored(n), f"x_{program.over}" if program.over else f"o_{n}") for n in program.outputs]
    held = dict.fromkeys(h for h, _ in [*given, *made])
    here, there = f"[k * {ABREAST} + j]", "[begin + k * inner]" if beside else "[first + j * n + k]"
    begin = ["begin = begins[j]"] if beside else []
    each = lambda lines: _side_by_side([*begin, "for k in range(n):", lines] if lines else [])  # noqa: E731
    found: Lines = [
        "lane = row % inner",
        "begin = row // inner * inner * n + lane",
        "for j in range(width):",
        [
            "begins[j] = begin",
            "begin += 1",
            "lane += 1",
            "if lane == inner:",
            ["lane = 0", "begin += (n - 1) * inner"],
        ],
    ]
    item = [
        f"row = item * {ABREAST}",
        f"width = min({ABREAST}, rows - row)",
        *(found if beside else ["first = row * n"]),
        *each([f"{h}{here} = {x}{there}" for h, x in given]),
        *_steps(w, f"r * {ABREAST}"),
        *_side_by_side(w.at_chosen(f"at * {ABREAST} + j", "row + j")),
        *each([f"{o}{there} = {h}{here}" for h, o in made]),
    ]
    body = ["n = meta[0]", "rows = meta[1]", *_kept(w, ABREAST)]
    body += [f"{h} = stack_{code}({ABREAST * SHORT})" for h in held]
    body += ["inner = meta[2]", f"begins = stack_i8({ABREAST})"] if beside else []
    how = "short rows, some beside each other" if beside else "short rows that are runs"
    return w.source(how, [*body, "for item in range(start, stop):", item])


def _kept(w: Writer, width: int) -> list[str]:
    """What is kept of each row of those side by side."""
    folds = [f for step in w.program.steps for f in step.fold]
    kept = [f"{k}_{f} = stack_{c}({width})" for f in folds for k, c in (("total", "f8"), ("part", w.code))]
    scalars = [*w.program.each, *(s for step in w.program.steps for s in step.then)]
    return [*kept, *(f"s_{s} = stack_{w.code}({width})" for s in scalars)]


def _steps(w: Writer, place: str) -> Lines:
    """The steps of rows side by side; `place` is where the elements `r` of them begin."""
    lines = _side_by_side([f"s_{n}[j] = e_{n}[row + j]" for n in w.program.each])
    for step in w.program.steps:
        lines += _walking_columns(w, step, place)
        lines += _side_by_side(w.after(step))
    return [*lines, *_side_by_side([f"o_{n}[row + j] = s_{n}[j]" for n in w.program.results])]


def _walking_columns(w: Writer, step: Step, place: str) -> Lines:
    """Blocks of rows that lie side by side, each gathered in the elements' dtype and then added to the totals."""
    kinds = {f: kind for f, (kind, _) in step.fold.items()}
    lines, found = w.element(w.walked(step), "p + j", "r")
    for f, kind in kinds.items():
        lines += [f"u = part_{f}[j]", f"w = {found[f]}", f"part_{f}[j] = {JOIN[kind].format('u', 'w')}"]
    lines += [f"{w.stored(o)}[p + j] = {found[o]}" for o in step.write]
    if not kinds:
        return ["for r in range(n):", [f"p = {place}", *_side_by_side(lines)]]
    begin = _side_by_side([f"part_{f}[j] = F({START[kind]})" for f, kind in kinds.items()])
    if w.laid:  # of one block
        end = _side_by_side([f"total_{f}[j] = A(part_{f}[j])" for f in kinds])
        return [*begin, "for r in range(n):", [f"p = {place}", *_side_by_side(lines)], *end]
    join = []
    for f, kind in kinds.items():
        join += [f"u = total_{f}[j]", f"w = A(part_{f}[j])", f"total_{f}[j] = {JOIN[kind].format('u', 'w')}"]
    return [
        *_side_by_side([f"total_{f}[j] = A({START[kind]})" for f, kind in kinds.items()]),
        f"for at in range(0, n, {FEW}):",
        [
            *begin,
            f"for r in range(at, min(at + {FEW}, n)):",
            [f"p = {place}", *_side_by_side(lines)],
            *_side_by_side(join),
        ],
    ]


def _side_by_side(lines: Lines) -> Lines:
    return ["for j in range(width):", lines] if lines else []


_CLASSES = '''"""The loss of rows whose log-probability at their class is known{title}."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, meta, flag, o_loss, o_share, e_low, e_at{parameter}):
    rows = meta[0]
    classes = meta[1]
    ignored = meta[2]
    how = meta[3]  # 0: a loss per row, 1: their sum, 2: their mean
    total = 0.0
    weights = 0.0
    for row in range(rows):
        at = e_at[row]
        loss = F(0)
        share = F(0)
        if at != ignored:
            if at < 0 or at >= classes:
                {told}
            else:
                share = {weight}
                loss = -share * e_low[row]
        o_share[row] = share
        total += loss
        weights += share
        if how == 0:
            o_loss[row] = loss
    if how == 1:
        o_loss[0] = F(total)
    if how == 2:
        o_loss[0] = F(np.float64(total) / np.float64(weights))
        for row in range(rows):
            if o_share[row] != 0:
                o_share[row] = F(o_share[row] / weights)
'''


def classes(code: str, weighted: bool) -> tuple[str, tuple[str, ...]]:
    """Losses, and what each row counts for (0: ignored); a row that names a class which is none is told. On one thread."""
    text = fill(
        _CLASSES,
        title=", with a weight per class" if weighted else "",
        told=faults.tell(faults.TARGET, "at", "classes", "0"),
        scalar=SCALARS[code],
        parameter=", l_weight" if weighted else "",
        weight="l_weight[at]" if weighted else "F(1)",
    )
    pointer = "*" + code
    codes = ("i8", "i8", "*i8", "*i8", pointer, pointer, pointer, "*i8", *[pointer] * weighted)
    return text, codes


_WITHIN = '''"""Whether each of `count` indices names one of `rows`: if not, it is told. On one thread."""


def @NAME@(start, stop, flag, at, count, rows):
    outside = 0
    for k in range(count):
        outside |= (at[k] < 0) | (at[k] >= rows)
    if outside:
        for k in range(count):
            if (at[k] < 0) | (at[k] >= rows):
                {told}
'''

_TAKE_ROWS = '''"""The rows of x that indices name, one after the other."""


def @NAME@(start, stop, o, x, at, n):
    for k in range(start, stop):
        to = k * n
        source = at[k] * n
        for j in range(n):
            o[to + j] = x[source + j]
'''

_TAKE_NAMED_ROWS = '''"""The rows of x that indices name, one after the other; an element an item; who names none is told."""
from nbgrad.kernels.cpu.atomic import claimed


def @NAME@(start, stop, flag, o, x, at, n, rows):
    for k in range(start, stop):
        row = at[k // n]
        if (row >= 0) & (row < rows):
            o[k] = x[row * n + k % n]
        else:
            {told}
'''


def within() -> tuple[str, tuple[str, ...]]:
    text = fill(_WITHIN, told=faults.tell(faults.ROW, "at[k]", "rows", "0"))
    return text, ("i8", "i8", "*i8", "*i8", "i8", "i8")


def take_named_rows(code: str) -> tuple[str, tuple[str, ...]]:
    """Where nobody waits for a check."""
    text = fill(_TAKE_NAMED_ROWS, told=faults.tell(faults.ROW, "row", "rows", "0", True))
    return text, ("i8", "i8", "*i8", "*" + code, "*" + code, "*i8", "i8", "i8")


def take_rows(code: str) -> tuple[str, tuple[str, ...]]:
    return _TAKE_ROWS, ("i8", "i8", "*" + code, "*" + code, "*i8", "i8")


_ADD_ROWS = '''"""Adds each row of g to the row of o that an index names, in the order of the indices; a thread has some of the columns."""
import numpy as np
F = {scalar}


def @NAME@(start, stop, meta, o, g, at, share):
    count = meta[0]
    n = meta[1]
    skipped = meta[2]
    shared = meta[3]
    rows = meta[4]
    first = start * {LINE}
    last = min(stop * {LINE}, n)
    for k in range(count):
        row = at[k]
        if (row == skipped) | (row < 0) | (row >= rows):  # what is none was told by who read it
            continue
        to = row * n
        source = k * n
        if shared == 0:
            for j in range(first, last):
                o[to + j] += g[source + j]
        else:
            times = F(share[row])
            for j in range(first, last):
                o[to + j] += g[source + j] / times
'''


@family
def add_rows(code: str) -> tuple[str, tuple[str, ...]]:
    """`meta` holds: indices, length of a row, the row that gets nothing (-1: none), whether what arrives is divided by `share`, and
    how many rows there are."""
    pointer = "*" + code
    text = _ADD_ROWS.format(scalar=SCALARS[code], LINE=LINE)
    return text, ("i8", "i8", "*i8", pointer, pointer, "*i8", "*i8")
