"""Programs over rows: so many threads to a row, which join what each has folded by a tree in shared memory.

Promises what the CPU's loops give of the same program (`kernels/cpu/rows.py`), in an order that depends on shapes alone: 4, 32 or 256
neighbouring lanes walk a row that lies together; of rows that lie beside each other 32 are walked by 8 lanes each. Every lane knows what
follows from the folds. Of sums over rows a block has a chunk of rows, and a thread always the same columns.
"""

from __future__ import annotations

from nbgrad.kernels.cpu.rows import JOIN, START, Lines, Program, Step, Writer
from nbgrad.kernels.cuda.lanes import BESIDE, TOGETHER, tree
from nbgrad.kernels.cuda.own import Own

_FIRST = ("items",)
_WHOLE = ["whole = runs * n", *TOGETHER]


def runs(program: Program, code: str) -> Own:
    """Rows that are runs, in chunks if there are sums over them."""
    w = Writer(program, code)
    body = [*_shared(program), "row_pitch = meta[0]", "runs = meta[1]", "run_pitch = meta[2]", "n = meta[3]"]
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
    w = Writer(program, code)
    body = [*_shared(program), "n = meta[0]", "rows = meta[1]", "row_pitch = n", "runs = 1", "run_pitch = 0"]
    return _made(w, [*body, *_WHOLE, *_over(_row(w, _along(), "begin + at"))])


def columns(program: Program, code: str) -> Own:
    """Rows that lie side by side."""
    return _side_by_side(program, code, ["n = meta[0]", "inner = meta[1]", "rows = items // meta[2] * inner"])


def _side_by_side(program: Program, code: str, geometry: list[str]) -> Own:
    w = Writer(program, code)
    places = ["begin = row // inner * inner * n + row % inner"], ["k = far", "q = begin + far * inner"]
    return _made(
        w,
        [
            *_shared(program),
            *geometry,
            "whole = n",
            *BESIDE,
            *_over(_row(w, places, "begin + at * inner", True)),
        ],
    )


def _made(w: Writer, body: Lines) -> Own:
    source, codes = w.source("lanes of threads to a row", ["thread = cuda.threadIdx.x", *body], _FIRST)
    return Own(source, codes)


def _shared(program: Program) -> list[str]:
    most = max([len(step.fold) for step in program.steps], default=0)
    return [f"parts_{k} = cuda.shared.array(256, np.float64)" for k in range(most)]


def _along() -> tuple[Lines, Lines]:
    """Where a row begins, and where an element of it is."""
    split: Lines = [
        "run = np.int64(np.uint64(far) // np.uint64(n))",
        "k = far - run * n",
        "q = begin + run * run_pitch + k",
    ]
    return ["begin = row * row_pitch"], ["k = far", "q = begin + far", "if runs > 1:", split]


def _over(row: Lines) -> Lines:
    """The rows of a block."""
    return [
        "for base in range(cuda.blockIdx.x * abreast, rows, cuda.gridDim.x * abreast):",
        ["row = base + beside", *row],
    ]


def _row(w: Writer, places: tuple[Lines, Lines], chosen: str, beside: bool = False) -> Lines:
    """What the threads of a row do; `chosen` is where an element named by an integer is, whether rows lie `beside` each other."""
    p = w.program
    begin, place = places
    lines = [*begin, *(f"s_{n} = e_{n}[min(row, rows - 1)]" for n in p.each)]
    for step in p.steps:
        lines += _walked(w, step, place)
        lines += _joined(step, beside)
        lines += w.after(step)
    ends = [f"o_{n}[row] = s_{n}" for n in p.results]
    if ends:
        lines += ["if lane == 0 and row < rows:", ends]
    if p.points:
        lines += ["cuda.syncthreads()", "if lane == 0 and row < rows:", w.at_chosen(chosen, "row")]
    return [*lines, "cuda.syncthreads()"] if p.points else lines


def _walked(w: Writer, step: Step, place: Lines) -> Lines:
    """A lane's elements, 16 of which it folds in their own dtype."""
    kinds = {f: kind for f, (kind, _) in step.fold.items()}
    across = w.program.columns if step is w.program.steps[0] else {}
    lines, found = w.element(w.walked(step) | across, "q", "k")
    for f, kind in kinds.items():
        lines += [f"u = {found[f]}", f"part_{f} = {JOIN[kind].format(f'part_{f}', 'u')}"]
    lines += [f"{w.stored(o)}[q] = {found[o]}" for o in step.write]
    lines += [f"o_{c}[item * n + k] += {found[c]}" for c in across]
    begin = [f"total_{f} = A({START[kind]})" for f, kind in kinds.items()]
    if not kinds:
        return ["if row < rows:", _each_far("whole", "lanes", [*place, *lines])]
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
                "while far < last:",
                [*place, *lines, "far += lanes"],
                *joined,
            ],
        ],
    ]


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
