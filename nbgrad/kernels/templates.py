"""Loops with a scalar hole, as source: elementwise over flat memory or over rows, and casts.

Promises the dispatcher: given what one element computes (an `Expr` per output), each operand's dtype and how it steps in the
innermost loop, the text of a kernel that a person can read, with the arguments `start, stop, [meta,] outputs..., inputs...,
numbers...`. The same text runs un-jitted on arrays, on the CPU, and compiles for CUDA.

Steps of the innermost loop, one letter per operand: `v` from element to element, `r` the same backwards, `b` as `v` in rows that may come
backwards, `s` the same element throughout, `g` a step given at run time, `n` a number passed by value, `=` the first output itself,
read before it is written: given as a second pointer to the same memory it would make LLVM's overlap check choose the scalar loop
(measured: add_ of 1M 305 us, so 150). That check LLVM makes once for all rows if it can, and takes it for failed where one operand's come
backwards: so it is not to know how far apart those are (`r`, `b`; a copy of 300 x 300 73 us, so 20). For results that lie together what is
read by steps given at run time is first laid side by side, STRETCH elements at a time, so that what computes with it is a loop of vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nbgrad.base.records import NamedTuple
from nbgrad.base.source import Lines, text_of
from nbgrad.base.tables import Table, cached
from nbgrad.expr import emit, loops, parts
from nbgrad.expr.making import LOCK, uninterrupted
from nbgrad.expr.node import PRIMS, Expr
from nbgrad.kernels.codes import FILES, MEMORY, NARROW
from nbgrad.kernels.family import family

_HEAD = '''"""{title}

One element: {text}
"""
from math import inf, nan
import math
import numpy as np
{preamble}
F = {scalar}
'''

STRETCH = 512  # elements of a row, in the nearest cache

_PLACES = "from nbgrad.kernels.cpu.places import places\n"

SCALARS = {
    "f4": "np.float32",
    "f8": "np.float64",
    "i8": "np.int64",
    "i4": "np.int32",
    "i2": "np.int16",
    "i1": "np.int8",
    "u1": "np.uint8",
    "u2": "np.uint16",
    "u4": "np.uint32",
    "u8": "np.uint64",
    "b1": "bool",
    "c8": "np.complex64",
    "c16": "np.complex128",
}


# LLVM leaves open what a float beyond a narrow integer becomes; PyTorch's compilers go through these.
_BY_WAY_OF = {"u1": "np.int64", "i1": "np.int32", "i2": "np.int32", "u2": "np.int32", "u4": "np.int64"}


class Operand(NamedTuple):
    """One input: the variable it stands for, how it is stored, how it steps; `logical` variables are read as truth values. A number
    has no code. What comes from another dtype is `rounded` to a narrow one first, if one is named."""

    name: str
    code: str
    step: str
    logical: bool = False
    rounded: str = ""


class Map(NamedTuple):
    """What a kernel does to each element: what its operands are, the dtypes of results, and whether its geometry says how it goes."""

    title: str
    exprs: tuple[Expr, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[str, ...]
    kind: str
    rows: bool = False


# By the address of the kernel, which lasts as long as the process: for who makes one of several.
maps: Table[int, Map] = Table("kernels.templates.maps", None)


@cached(1)
def vmath_helpers() -> str:
    """Makes the branch-free texts the CPU's spelling of their primitives, at the first kernel."""
    with uninterrupted(), LOCK:
        from nbgrad.kernels import texts, vmath

    for (kind, prim), text in texts.TEXT.items():
        if prim in PRIMS:  # some texts are parts of others
            emit.register_text("cpu", kind, prim, text)
    return vmath.PREAMBLE


# What precedes each function that a kernel calls: Numba compiles it with the kernel.
_CALLED = {
    "cpu": ("from numba.extending import register_jitable", '@register_jitable(error_model="numpy")'),
    "cuda": ("from numba import cuda", '@cuda.jit(device=True, inline="always")'),
    "python": ("from nbgrad.expr.loops import unraised", "@unraised"),
}


def called(helpers: Iterable[str], target: str) -> str:
    """The functions of `expr/loops.py` that the emitted lines call, written out, and an import of CUDA's library if they call that."""
    line, decorator = _CALLED[target]
    text = loops.text(frozenset(helpers), decorator)
    library = "from numba.cuda import libdevice\n" if "libdevice" in helpers else ""
    return library + (f"{line}\n\n{text}\n" if text else "")


def halves(codes: Sequence[str]) -> str:
    """What a kernel imports if its memory holds elements that are stored narrower than they are computed."""
    lines = [
        f"from nbgrad.kernels.cpu.{FILES[code]} import from_{name}, to_{name}\n"
        for code, name in NARROW.items()
        if code in codes
    ]
    return "".join(["import numpy as np\n", *lines]) if lines else ""


def computed(code: str) -> str:
    """The dtype in which elements that are stored so are computed."""
    return "f4" if code in NARROW else code


def part(code: str) -> str:
    """The dtype of the two parts of a complex number, side by side in memory; any other dtype is itself."""
    return f"f{int(code[1:]) // 2}" if code[:1] == "c" else code


def widened(text: str, code: str) -> str:
    """What memory holds, as the computing dtype."""
    return f"from_{NARROW[code]}({text})" if code in NARROW else text


def narrowed(text: str, code: str) -> str:
    """A number of the computing dtype, as memory holds it."""
    return f"to_{NARROW[code]}({text})" if code in NARROW else text


def rounded(text: str, code: str) -> str:
    """A number of the computing dtype, as it is once it was stored and read again."""
    return widened(narrowed(text, code), code)


class Element(NamedTuple):
    """What a loop over elements does: `once` before it, `fixed` where a row begins, `body` to each, the first `loads` lines of which read
    operands, and the last of which write the results. `moving` are the operands that have a place, `steps` those of all."""

    head: str
    params: list[str]
    codes: tuple[str, ...]
    once: list[str]
    fixed: list[str]
    body: list[str]
    moving: list[int]
    steps: list[str]
    loads: int
    laid: dict[
        int, tuple[str, str, int]
    ]  # what is laid side by side first: a pointer, memory on the stack, numbers of an element

    def text(self, params: Sequence[str], loop: Lines) -> str:
        return text_of([self.head, "", f"def @NAME@({', '.join([*params, *self.params])}):", loop])


@cached(4096)
@family
def elementwise(
    title: str,
    exprs: tuple[Expr, ...],
    inputs: tuple[Operand, ...],
    outputs: tuple[str, ...],
    kind: str,
    nd: bool,
    out_steps: str,
    target: str = "cpu",
) -> tuple[str, tuple[str, ...]]:
    """Source (its function is called @NAME@) and parameter codes. `kind` is the dtype in which one element is computed."""
    here = nd and target == "cpu"
    stretched = here and set(out_steps) == {"v"}
    e = element(title, exprs, inputs, outputs, kind, nd, out_steps, target, _PLACES * here, stretched)
    if nd:
        count = len(outputs) + len(inputs)
        loop: Lines = [*e.once, *_rows(e.moving, count, e.steps, target, e.fixed, e.body, e.laid)]
    else:
        loop = [*e.once, *e.fixed, "for i in range(start, stop):", e.body]
    return e.text(("start", "stop"), loop), ("i8", "i8", *e.codes)


def element(
    title: str,
    exprs: tuple[Expr, ...],
    inputs: tuple[Operand, ...],
    outputs: tuple[str, ...],
    kind: str,
    nd: bool,
    out_steps: str,
    target: str = "cpu",
    imports: str = "",
    stretched: bool = False,
) -> Element:
    """The same but for the loop. Complex numbers are computed as pairs, the imaginary part of `a0` under the name `a0i`. If rows are
    `stretched`, what steps as given at run time is laid side by side first."""
    names = {v.name: f"a{k}" for k, v in enumerate(inputs)}
    helpers = vmath_helpers() if target == "cpu" else ""  # which also tells `emit` the vectorisable spellings
    paired = {k: v for k, v in enumerate(inputs) if v.code[:1] == "c" and kind[0] == "c"}
    roots: list[Expr] = list(exprs)
    kept = [[k] for k in range(len(roots))]  # by output, which roots it takes
    if kind[0] == "c":
        names |= {f"{v.name}.re": f"a{k}" for k, v in paired.items()}
        names |= {f"{v.name}.im": f"a{k}i" for k, v in paired.items()}
        roots, kept = _parts_of(exprs, [v.name for v in paired.values() if not v.logical], outputs)
        kind = part(kind)
    emitted = emit.emit(roots, target, kind, names)
    arrays = [(k, v) for k, v in enumerate(inputs) if v.step not in "n="]
    laid = {
        k + len(outputs): (f"x{k}", f"stack_{_memory(v.code)}", 1 + (v.code[:1] == "c"))
        for k, v in arrays
        if stretched and v.step == "g"
    }
    head = _HEAD.format(
        title=title,
        text="; ".join(str(e) for e in exprs),
        scalar=SCALARS[kind],
        preamble=helpers
        + halves([*outputs, *(code for v in inputs for code in (v.code, v.rounded))])
        + called(emitted.helpers, target)
        + "".join(
            [
                f"from nbgrad.kernels.cpu.stack import {name}\n"
                for name in sorted({s for _, s, _ in laid.values()})
            ]
        )
        + imports,
    )
    numbers = [(k, v) for k, v in enumerate(inputs) if v.step == "n"]
    params = [*(["meta"] if nd else []), *(f"o{k}" for k in range(len(outputs)))]
    params += [f"x{k}" for k, _ in arrays]
    by_value = {k: [f"n{k}", f"n{k}i"] if k in paired else [f"n{k}"] for k, _ in numbers}
    params += [name for names_of in by_value.values() for name in names_of]
    codes = [*(["*i8"] if nd else []), *("*" + part(c) for c in outputs)]
    codes += ["*" + part(v.code) for _, v in arrays]
    codes += [_number_code(kind) for names_of in by_value.values() for _ in names_of]

    def loads(k: int, v: Operand, texts: list[str]) -> list[str]:
        """Lines that read an operand; of a complex one a computation of real numbers takes the real part."""
        if v.logical and len(texts) == 2:
            return [f"a{k} = ({texts[0]} != 0) | ({texts[1]} != 0)"]
        v = v._replace(code=part(v.code))
        return [f"a{k} = {_value(texts[0], v, kind)}"] + [
            f"a{k}i = {_value(text, v, kind)}" for text in texts[1:] if k in paired
        ]

    once = [line for k, v in numbers for line in loads(k, v, by_value[k])]
    body: list[str] = []
    for k, v in enumerate(inputs):
        if v.step == "=":
            here = spots("o0", _at(0, out_steps[0], nd), v.code)
            if target == "cpu" and _chooses(exprs[0], v.name):
                here = [f"opaque({text})" for text in here]
            body += loads(k, v, here)
    for k, v in arrays:
        operand = k + len(outputs)
        if operand in laid:
            body += loads(k, v, spots(f"y{operand}", "j - at", v.code))
        elif v.step != "s":
            body += loads(k, v, spots(f"x{k}", _at(operand, v.step, nd), v.code))
    count = len(body)
    body += emitted.lines
    for k, c in enumerate(outputs):
        results = [*(emitted.results[r] for r in kept[k]), "F(0)"]
        places = spots(f"o{k}", _at(k, out_steps[k], nd), c)
        body += [f"{place} = {write(r, part(c), kind)}" for place, r in zip(places, results)]
    fixed = []
    for k, v in arrays:
        if v.step == "s":
            at = f"p{k + len(outputs)}" if nd else "0"
            fixed += loads(k, v, spots(f"x{k}", at, v.code))
    moving = list(range(len(outputs))) + [k + len(outputs) for k, _ in arrays]
    steps = [*out_steps, *(v.step for v in inputs)]
    return Element(head, params, tuple(codes), once, fixed, body, moving, steps, count, laid)


def spots(pointer: str, at: str, code: str) -> list[str]:
    """The texts of what stands at a place: of a complex number its two parts."""
    if code[:1] != "c":
        return [f"{pointer}[{at}]"]
    return [f"{pointer}[2 * ({at})]", f"{pointer}[2 * ({at}) + 1]"]


def _parts_of(
    exprs: Sequence[Expr], whole: Sequence[str], outputs: Sequence[str]
) -> tuple[list[Expr], list[list[int]]]:
    """The real expressions that results of complex numbers are, and which of them each output takes: a real one the first."""
    roots: list[Expr] = []
    kept = []
    for (re, im), code in zip(parts.pairs(exprs, whole), outputs):
        both = [re] if im is None or code[0] != "c" else [re, im]
        kept.append([len(roots) + k for k in range(len(both))])
        roots += both
    return roots, kept


def _chooses(e: Expr, name: str) -> bool:
    """Whether it is the variable as it is, or something else."""
    prim = e.prim
    return (
        prim is not None and prim.name in _CHOICES and any(a.prim is None and a.attr == name for a in e.args)
    )


_CHOICES = ("where", "maximum", "minimum")


def _number_code(kind: str) -> str:
    return "f8" if kind[0] == "f" else "i8"


def _value(text: str, operand: Operand, kind: str) -> str:
    """An element, or a number given by value, as the computing dtype."""
    code = _number_code(kind) if operand.step == "n" else operand.code
    value = read(text, code, kind, operand.logical)
    lasts = operand.logical or code in (operand.rounded, "b1", "u1", "i1")  # 8 bits are in all
    return value if lasts else rounded(value, operand.rounded)


def _at(operand: int, step: str, nd: bool) -> str:
    if not nd:
        return "i"
    return f"p{operand} {'-' if step == 'r' else '+'} j{f' * s{operand}' if step == 'g' else ''}"


def read(text: str, code: str, kind: str, logical: bool) -> str:
    """Load one element as the computing dtype (or as a truth value)."""
    if logical or kind == "b1":
        return f"{text} != 0"
    text, code = widened(text, code), computed(code)
    return text if code == kind else f"F({text})"


def write(result: str, code: str, kind: str) -> str:
    if code in ("b1", kind):
        return result
    if code in NARROW:
        return narrowed(f"np.float32({result})", code)
    if kind[0] == "f" and code in _BY_WAY_OF:
        return f"{SCALARS[code]}({_BY_WAY_OF[code]}({result}))"
    return f"{SCALARS[code]}({result})"


def _side_by_side(k: int, x: str, parts: int) -> Lines:
    """Lines that lay a stretch of an operand, whose elements are of so many numbers, in memory of our own."""
    there = f"(p{k} + (at + j) * s{k})"
    if parts == 1:
        return ["for j in range(end - at):", [f"y{k}[j] = {x}[{there[1:-1]}]"]]
    return [
        "for j in range(end - at):",
        [f"y{k}[2 * j + {c}] = {x}[2 * {there} + {c}]" for c in range(parts)],
    ]


def _memory(code: str) -> str:
    return MEMORY.get(code, part(code))


def _rows(
    moving: Sequence[int],
    count: int,
    steps: Sequence[str],
    target: str,
    once: Lines,
    element: Lines,
    laid: Mapping[int, tuple[str, str, int]],
) -> Lines:
    """The loops over rows and their elements. `meta` holds: number of outer dimensions, length of a row, their sizes (the nearest
    first), then per operand its outer steps, then the inner steps of all operands. `once` is what a row needs before its elements."""
    inner = [f"s{k} = meta[2 + d * {count + 1} + {k}]" for k in moving if steps[k] == "g"]
    apart = {k: f"meta[2 + d * {k + 1}]" for k in moving}
    before = ["d = meta[0]", "n = meta[1]", *inner]
    row = [*once, "for j in range(n):", element]
    if laid:
        before += [f"y{k} = {stack}({STRETCH * parts})" for k, (_, stack, parts) in laid.items()]
        row = [
            *once,
            f"for at in range(0, n, {STRETCH}):",
            [
                f"end = min(at + {STRETCH}, n)",
                *(line for k, (x, _, parts) in laid.items() for line in _side_by_side(k, x, parts)),
                "for j in range(at, end):",
                element,
            ],
        ]
    if target == "cpu":
        # Divisions find where a row begins; from there on it is a step to the next, until the nearest dimension ends.
        starts = ", ".join(f"p{k}" for k in moving) + ("," if len(moving) == 1 else "")
        return [
            *before,
            "size = meta[2] if d > 0 else 1",
            *(f"r{k} = {apart[k]}" for k in moving if steps[k] not in "rb"),
            "row = start",
            "while row < stop:",
            [
                f"{starts} = places(meta, row, {tuple(moving)})",
                "last = min(stop, row - row % size + size)",
                "for row in range(row, last):",
                [*row, *(f"p{k} += {apart[k] if steps[k] in 'rb' else f'r{k}'}" for k in moving)],
                "row = last",
            ],
        ]
    return [
        *before,
        "for row in range(start, stop):",
        [
            "rest = row",
            *(f"p{k} = 0" for k in moving),
            "for e in range(d):",
            [
                "size = meta[2 + e]",
                "at = rest % size",
                "rest //= size",
                *(f"p{k} += at * meta[2 + d * {k + 1} + e]" for k in moving),
            ],
            *row,
        ],
    ]
