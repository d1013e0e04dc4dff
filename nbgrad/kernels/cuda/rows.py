"""Programs over rows: so many threads to a row, which join what each has folded by a tree in shared memory.

Promises what the CPU's loops give of the same program (`kernels/cpu/rows.py`), in an order that depends on shapes alone: 4, 32 or 256
neighbouring lanes walk a row that lies together; of rows that lie beside each other 32 are walked by 8 lanes each. Every lane knows what
follows from the folds. Of sums over rows a block has a chunk of rows, and a thread always the same columns. What several steps read of a
row stays in shared memory, as far as it has room: a lane reads again what it has put there itself.
"""

from __future__ import annotations

from nbgrad.base.records import NamedTuple
from nbgrad.expr.node import Expr, free_vars
from nbgrad.kernels.cpu.rows import JOIN, START, Lines, Program, Step, Writer
from nbgrad.kernels.cuda.lanes import BESIDE, TOGETHER, tree
from nbgrad.kernels.cuda.own import Own
from nbgrad.kernels.templates import SCALARS

_FIRST = ("items",)
_AHEAD = 8
_ROOM = (
    1 << 15
)  # bytes of a block's rows: of 48 kB that a text may ask for, and six such blocks fit on a processor


class _Keeping(Writer):
    """What a later step reads, the lane that has it keeps: `spot` is where, `room` how many there are in a block. What a later step writes
    anew goes to memory only for want of room."""

    def __init__(self, program: Program, code: str) -> None:
        super().__init__(program, code)
        read = [free_vars(*self.walked(step).values()) for step in program.steps]
        if program.steps:
            read[0] |= free_vars(*program.columns.values())
        first = {o: k for k, step in reversed([*enumerate(program.steps)]) for o in step.write}
        self.last = {o: k for k, step in enumerate(program.steps) for o in step.write}
        kept = [n for n in program.elements if sum(n in names for names in read) > 1]
        kept += [o for o in program.outputs if any(o in names for names in read[first[o] + 1 :])]
        # a row that is written over what is read of it may be kept only if that is done last
        self.kept = [] if program.over and any(step.write for step in program.steps[:-1]) else kept
        self.room = _ROOM // (max(len(self.kept), 1) * 256 * int(code[1])) * 256
        self.there: set[str] = set()
        self.touched: list[set[str]] = []  # by each step so far

    def shared(self) -> list[str]:
        """What the rows are kept in, and what is joined of them."""
        most = max([len(step.fold) for step in self.program.steps], default=0)
        parts = [f"parts_{k} = cuda.shared.array(256, np.float64)" for k in range(most)]
        return parts + [f"k_{n} = cuda.shared.array({self.room}, {SCALARS[self.code]})" for n in self.kept]

    def read_by_lane(self, exprs: dict[str, Expr]) -> tuple[Lines, dict[str, str]]:
        """As `element`, of the one that a lane has come to."""
        lines, found = self.element(exprs, "q", "k")
        used = [n for n in self.kept if n in free_vars(*exprs.values())]
        for name in used:
            source = self.read(name) if name in self.program.elements else self.stored(name)
            line, kept = f"v_{name} = {source}[q]", f"k_{name}[spot]"
            at = lines.index(line)
            if name in self.there:
                lines[at : at + 1] = [f"if spot < {self.room}:", [f"v_{name} = {kept}"], "else:", [line]]
            else:
                lines[at + 1 : at + 1] = [f"if spot < {self.room}:", [f"{kept} = v_{name}"]]
        self.there.update(used)
        self.touched.append({*used})
        return ["spot = (far >> levels) * 256 + thread"] * bool(self.kept) + lines, found

    def written(self, step: Step, found: dict[str, str]) -> Lines:
        lines: Lines = []
        for o in step.write:
            final = self.program.steps[self.last[o]] is step
            line = f"{self.stored(o)}[q] = {found[o]}"
            if o in self.kept and not (final and o in self.there):
                self.there.add(o)
                self.touched[-1].add(o)
                lines += [f"if spot < {self.room}:", [f"k_{o}[spot] = {found[o]}"]]
                lines += [line] if final else ["else:", [line]]
            else:
                lines += [line]
        return lines


_WHOLE = ["whole = runs * n", *TOGETHER]


def runs(program: Program, code: str) -> Own:
    """Rows that are runs, in chunks if there are sums over them."""
    w = _Keeping(program, code)
    body = [*w.shared(), "row_pitch = meta[0]", "runs = meta[1]", "run_pitch = meta[2]", "n = meta[3]"]
    if not program.columns:
        return _made(w, [*body, "rows = items", *_WHOLE, *_over(_row(w, _along(), "begin + at"))])
    sums = [f"o_{c}[item * n + far] = F(0)" for c in program.columns]
    chunks: Lines = [
        "for item in range(cuda.blockIdx.x, items, cuda.gridDim.x):",
        [
            *_each_far("n", "256", sums),
            "cuda.syncthreads()",
            "for row in range(item * chunk, min(item * chunk + chunk, rows)):",
            _row(w, _along(), "begin + at"),
        ],
    ]
    lanes = ["whole = runs * n", "levels = 8", "lanes = 256", "lane = thread", "leader = 0"]
    return _made(w, [*body, "rows = meta[4]", "chunk = meta[5]", *lanes, *chunks])


def short(program: Program, code: str, beside: bool = False) -> Own:
    """Rows of few elements, some beside each other."""
    if beside:
        return _side_by_side(program, code, ["n = meta[0]", "rows = meta[1]", "inner = meta[2]"])
    w = _Keeping(program, code)
    body = [*w.shared(), "n = meta[0]", "rows = meta[1]", "row_pitch = n", "runs = 1", "run_pitch = 0"]
    return _made(w, [*body, *_WHOLE, *_over(_row(w, _along(), "begin + at"))])


def columns(program: Program, code: str) -> Own:
    """Rows that lie side by side."""
    return _side_by_side(program, code, ["n = meta[0]", "inner = meta[1]", "rows = items // meta[2] * inner"])


def _side_by_side(program: Program, code: str, geometry: list[str]) -> Own:
    w = _Keeping(program, code)
    begin: Lines = ["begin = row // inner * inner * n + row % inner"]
    places = Places(begin, ["k = far", "q = begin + far * inner"], " * inner", "")
    return _made(
        w,
        [
            *w.shared(),
            *geometry,
            "whole = n",
            *BESIDE,
            *_over(_row(w, places, "begin + at * inner", True)),
        ],
    )


def _made(w: _Keeping, body: Lines) -> Own:
    source, codes = w.source("lanes of threads to a row", ["thread = cuda.threadIdx.x", *body], _FIRST)
    return Own(source, codes)


class Places(NamedTuple):
    """Where a row begins, and where an element of it is; of a row in which elements lie evenly, `near` says that it is one, and `apart`
    how far its elements are from each other."""

    begin: Lines
    place: Lines
    apart: str
    near: str


def _along() -> Places:
    split: Lines = [
        "run = np.int64(np.uint64(far) // np.uint64(n))",
        "k = far - run * n",
        "q = begin + run * run_pitch + k",
    ]
    place: Lines = ["k = far", "q = begin + far", "if runs > 1:", split]
    return Places(["begin = row * row_pitch"], place, "", "runs == 1 and ")


def _over(row: Lines) -> Lines:
    """The rows of a block."""
    return [
        "for base in range(cuda.blockIdx.x * abreast, rows, cuda.gridDim.x * abreast):",
        ["row = base + beside", *row],
    ]


def _row(w: _Keeping, places: Places, chosen: str, beside: bool = False) -> Lines:
    """What the threads of a row do; `chosen` is where an element named by an integer is, whether rows lie `beside` each other."""
    p = w.program
    lines = [*places.begin, *(f"s_{n} = e_{n}[min(row, rows - 1)]" for n in p.each)]
    parts: list[Lines] = [[]]
    for step in p.steps:
        parts += [_walked(w, step, places), _joined(step, beside), w.after(step)]
    meets = bool(w.touched and w.touched[0] & w.touched[-1])  # of the next row with this one
    if meets and not p.points:
        next(part for part in reversed(parts) if part and part[-1] == "cuda.syncthreads()").pop()
    lines += [line for part in parts for line in part]
    ends = [f"o_{n}[row] = s_{n}" for n in p.results]
    if ends:
        lines += ["if lane == 0 and row < rows:", ends]
    if p.points:
        lines += ["cuda.syncthreads()", "if lane == 0 and row < rows:", w.at_chosen(chosen, "row")]
    return [*lines, "cuda.syncthreads()"] if p.points or meets else lines


def _walked(w: _Keeping, step: Step, places: Places) -> Lines:
    """A lane's elements, 16 of which it folds in their own dtype."""
    kinds = {f: kind for f, (kind, _) in step.fold.items()}
    across = w.program.columns if step is w.program.steps[0] else {}
    lines, found = w.read_by_lane(w.walked(step) | across)
    for f, kind in kinds.items():
        lines += [f"u = {found[f]}", f"part_{f} = {JOIN[kind].format(f'part_{f}', 'u')}"]
    lines += w.written(step, found)
    lines += [f"o_{c}[item * n + k] += {found[c]}" for c in across]
    begin = [f"total_{f} = A({START[kind]})" for f, kind in kinds.items()]
    if not kinds:
        far: Lines = _each_far("whole", "lanes", [*places.place, *lines])
        return ["if row < rows:", [far[0], *_ahead(places, "whole", lines), *far[1:]]]
    joined: Lines = []
    for f, kind in kinds.items():
        joined += [f"part = A(part_{f})", f"total_{f} = {JOIN[kind].format(f'total_{f}', 'part')}"]
    return [
        *begin,
        "if row < rows:",
        [
            "far = lane",
            "while far < whole:",
            [
                *(f"part_{f} = F({START[kind]})" for f, kind in kinds.items()),
                "last = min(far + 16 * lanes, whole)",
                *_ahead(places, "last", lines),
                "while far < last:",
                [*places.place, *lines, "far += lanes"],
                *joined,
            ],
        ],
    ]


def _ahead(places: Places, end: str, lines: Lines) -> Lines:
    """Elements of a row, eight at a time: all are asked for before the first is waited for, which the compiler may not do by itself, as
    what is written might lie where they do."""
    reads = [line for line in lines if isinstance(line, str) and line.endswith("[q]")]
    if not reads:
        return []
    first: Lines = [f"q = begin + far{places.apart}"]
    rest: Lines = []
    for k in range(_AHEAD):
        early = {line: line.replace("v_", f"ahead{k}_", 1) for line in reads}
        first = [
            *first,
            *(line.replace("[q]", f"[q + {k} * lanes{places.apart}]") for line in early.values()),
        ]
        late = {line: f"{line.split(' = ')[0]} = {other.split(' = ')[0]}" for line, other in early.items()}
        work = [late.get(line, line) if isinstance(line, str) else line for line in lines]
        rest = [*rest, *places.place, *work, "far += lanes"]
    return [f"while {places.near}far + {_AHEAD - 1} * lanes < {end}:", [*first, *rest]]


def _each_far(end: str, step: str, lines: Lines) -> Lines:
    lane = "lane" if step == "lanes" else "thread"
    return [f"far = {lane}", f"while far < {end}:", [*lines, f"far += {step}"]]


def _joined(step: Step, beside: bool) -> Lines:
    """The totals of all lanes of a row, in each of them."""
    if not step.fold:
        return []
    folds = [(k, f, kind) for k, (f, (kind, _)) in enumerate(step.fold.items())]
    joins: Lines = []
    for k, _, kind in folds:
        joins += [f"part = parts_{k}[thread]", f"u = parts_{k}[other]"]
        joins += [f"parts_{k}[thread] = {JOIN[kind].format('part', 'u')}"]
    return [
        *(f"parts_{k}[thread] = total_{f}" for k, f, _ in folds),
        *tree(joins, beside),
        *(f"total_{f} = parts_{k}[leader]" for k, f, _ in folds),
        "cuda.syncthreads()",
    ]
