"""How many elements become few: what a reduction is, how it is cut into runs and lanes, which dimensions it takes."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.core.plan import EXPECTED
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.dispatch.prepared import Run, filled
from nbgrad.expr import prims as p
from nbgrad.expr.node import Expr, var
from nbgrad.kernels.cpu import reduce as templates
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes, layout
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.views.parts import by_parts
from nbgrad.tape.modes import state

_x, _r, _n = var("x"), var("r"), var("n")


class Reduction(NamedTuple):
    """What one reduction does to an element, between elements and at the end. `accumulate` names the dtype of the lanes where it
    is not the input's; numbers are called n, m."""

    name: str
    combine: str
    prologue: Expr = _x
    finish: Expr = _r
    numbers: tuple[str, ...] = ()
    identity: dict[str, str] | None = None


_INTS = [d for d in dtypes.all_dtypes if d.category == dtypes.INT]
_NEG = {"f4": "-inf", "f8": "-inf", "b1": "False"} | {d.code: str(np.iinfo(d.np).min) for d in _INTS}
_POS = {"f4": "inf", "f8": "inf", "b1": "True"} | {d.code: str(np.iinfo(d.np).max) for d in _INTS}
SUM = Reduction("sum", "sum")
MEAN = Reduction("mean", "sum", finish=_r / _n, numbers=("n",))
PROD = Reduction("prod", "prod")
AMAX = Reduction("amax", "amax", identity=_NEG)
AMIN = Reduction("amin", "amin", identity=_POS)
ANY = Reduction("any", "any", prologue=p.ne(_x, 0))
ALL = Reduction("all", "all", prologue=p.ne(_x, 0))
RUN = 1 << 15  # a reduction to few elements is cut into runs of this length, so that threads share it

_LIGHT = 4  # elements that are reduced in the time of one of a multiply: measured break-even of two threads near 65k

_NARROW = 32  # columns of a matrix, of which so few are quicker with others beside them
_FOLDED = 256  # columns that its rows are folded to
_FOLDED_FROM = 8192  # elements: for fewer, one kernel more takes longer


def reduction(
    kind: Reduction,
    sp: Spec,
    dims: Ints,
    keepdim: bool,
    out_dtype: _dtype,
    accumulate: str,
    *numbers: float,
    length: int = 0,
) -> Run:
    """What reduces tensors of a Spec over sorted dims; the result is contiguous. `accumulate` is the code of the lanes' dtype. Of rows
    that lie in one run (and of columns), `length` is that of all of them, where the last one is shorter. Sums of complex numbers are those
    of their parts."""
    if sp.dtype.is_complex:
        if kind not in (SUM, MEAN):
            raise NotImplementedError(f"\"{kind.name}_cpu\" not implemented for '{sp.dtype.scalar_name}'")
        parts = out_dtype.to_real()
        return by_parts(
            lambda real: reduction(kind, real, dims, keepdim, parts, accumulate, *numbers, length=length), sp
        )
    shape = layout.reduced_shape(tuple(sp.shape), dims, keepdim)
    out = spec(out_dtype, shape, None, sp.device)
    kept = [(n, s) for d, (n, s) in enumerate(zip(sp.shape, sp.strides)) if d not in dims]
    gone = sorted(
        ((n, s) for d, (n, s) in enumerate(zip(sp.shape, sp.strides)) if d in dims), key=lambda d: -d[1]
    )
    kept, gone = _merge(kept), _merge(gone)
    total = math.prod(n for n, _ in gone)
    results = math.prod(n for n, _ in kept)
    beside = 1 if length else _rows_to_fold(kept, gone)
    if beside > 1:
        return _folded(kind, sp, kept[0][0], beside, out, accumulate, numbers)
    columns = bool(kept) and kept[-1][1] == 1 and kept[-1][0] >= 8 and not (gone and gone[-1][1] == 1)
    split = _split(kept, columns, gone[0][1]) if results and len(gone) == 1 else 0
    if split and total >= 2 * split:
        return _in_two_steps(kind, sp, gone[0], kept, split, out, accumulate, numbers)
    code = sp.dtype.code
    compute = sp.dtype.kind if kind.combine not in ("sum", "prod") or sp.dtype.is_floating_point else "i8"
    identity = (kind.identity or {}).get(accumulate, "")
    finish = kind.finish
    run_step = gone[-1][1] if gone else 1
    short = not columns and results > 1 and len(gone) < 2 and total <= templates.SHORT and not length
    source, signature = templates.reduction(
        kind.name,
        kind.prologue,
        kind.combine,
        finish,
        code,
        compute,
        accumulate,
        out_dtype.code,
        run_step == 1,
        columns,
        kind.numbers,
        identity,
        short=short,
    )
    form = "columns" if columns else "runs" if run_step == 1 else "strided"
    made = sp.backend.kernel(
        f"{kind.name}_{code}_{'short_' * short}{form}",
        source,
        signature,
    )
    if form == "runs":
        templates.in_runs[made.address] = code, out_dtype.code
    if columns:
        m = kept[-1][0]
        blocks = -(-m // templates.WIDTH)
        outer, inner = kept[:-1], gone or [(1, 0)]
        head = [len(outer), len(inner), m, blocks, total, length or total * results]
        items = math.prod(n for n, _ in outer) * blocks
    else:
        n, step = gone[-1] if gone else (1, 1)
        outer, inner = kept or [(1, 0)], gone[:-1]
        head = [len(outer), len(inner), n, step, math.prod(k for k, _ in inner), length or n * results]
        items = results
    meta = sp.backend.constants([*head, *_reversed(outer), *_reversed(inner)])
    letters = ("d" if compute[0] == "f" else "q") * len(kind.numbers)
    work = builtins.max(sp.numel // _LIGHT, results)
    launch = sp.backend.launch(3, letters, work if items > 1 else items, sp.numel < FEW)
    return filled(launch, made.address, items, meta, (out,), numbers)


def _merge(dims: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join neighbouring dimensions that are one run; of no dimension, or one of length 1, nothing is left."""
    out: list[tuple[int, int]] = []
    for n, s in dims:
        if n == 1:
            continue
        if out and out[-1][1] == n * s:
            out[-1] = (out[-1][0] * n, s)
        else:
            out.append((n, s))
    return out


def _reversed(dims: list[tuple[int, int]]) -> list[int]:
    return [n for n, _ in reversed(dims)] + [s for _, s in reversed(dims)]


def _split(kept: list[tuple[int, int]], columns: bool, step: int) -> int:
    """How much of what is reduced one thread takes where results alone are too few to share; 0 where they are not (or rows overlap)."""
    if not kept:
        return RUN
    few = columns and len(kept) == 1 and kept[0][0] <= builtins.min(step, 16 * templates.WIDTH)
    return builtins.max(64, 2 * RUN // kept[0][0]) if few else 0


def _rows_to_fold(kept: list[tuple[int, int]], gone: list[tuple[int, int]]) -> int:
    """How many rows of a matrix that lie together are one row of more columns: what narrow columns cost is that there is little beside
    each other. The most that divide it; 1 where it is wide or small anyway."""
    if (
        len(kept) != 1
        or len(gone) != 1
        or kept[0][1] != 1
        or kept[0][0] > _NARROW
        or gone[0][1] != kept[0][0]
    ):
        return 1
    rows, columns = gone[0][0], kept[0][0]
    if rows * columns < _FOLDED_FROM:
        return 1
    return builtins.max(k for k in range(1, _FOLDED // columns + 1) if rows % k == 0)


def _folded(
    kind: Reduction,
    sp: Spec,
    columns: int,
    beside: int,
    out: Spec,
    accumulate: str,
    numbers: tuple[float, ...],
) -> Run:
    """What reduces so many rows beside each other, and then these."""
    sheet = sp.like((sp.numel // (beside * columns), beside * columns))
    parts = reduction(_part(kind), sheet, (0,), False, _held(accumulate), accumulate, *numbers)
    return _joined(kind, parts, (beside, columns), out, accumulate, numbers)


def _part(kind: Reduction) -> Reduction:
    """The same to what lanes hold, unfinished."""
    if kind.name.endswith("_part"):
        return kind
    return Reduction(f"{kind.name}_part", kind.combine, kind.prologue, _r, kind.numbers, kind.identity)


def _joined(
    kind: Reduction, parts: Run, shape: Ints, out: Spec, accumulate: str, numbers: tuple[float, ...]
) -> Run:
    """What reduces such parts, of that shape, along their first dimension."""
    joined = Reduction(f"{kind.name}_parts", kind.combine, _x, kind.finish, kind.numbers, kind.identity)
    made = spec(_held(accumulate), shape, None, out.device)
    ending = reduction(joined, made, (0,), False, out.dtype, accumulate, *numbers)
    return lambda t: wrap(ending(parts(t))._buf, out)


def in_runs(
    kind: Reduction,
    sp: Spec,
    run_of: tuple[int, int],
    beside: list[tuple[int, int]],
    split: int,
    accumulate: str,
    *numbers: float,
) -> Run:
    """What reduces a line, or each of the columns `beside`, in runs of a length, to what the lanes hold. Threads share the runs, which do
    not depend on how many there are: neither does the result."""
    n, step = run_of
    sizes, steps = [k for k, _ in beside], [k for _, k in beside]
    runs = spec(sp.dtype, (-(-n // split), split, *sizes), (step * split, step, *steps), sp.device)
    return reduction(_part(kind), runs, (1,), False, _held(accumulate), accumulate, *numbers, length=n)


def _held(accumulate: str) -> _dtype:
    return next(d for d in dtypes.all_dtypes if d.code == accumulate)


def _in_two_steps(
    kind: Reduction,
    sp: Spec,
    run_of: tuple[int, int],
    beside: list[tuple[int, int]],
    split: int,
    out: Spec,
    accumulate: str,
    numbers: tuple[float, ...],
) -> Run:
    parts = in_runs(kind, sp, run_of, beside, split, accumulate, *numbers)
    shape = (-(-run_of[0] // split), *(k for k, _ in beside))
    return _joined(kind, parts, shape, out, accumulate, numbers)


def _lanes(d: _dtype) -> str:
    """Sums and products of floats are taken in float64, of integers in int64."""
    return "f8" if d.inexact else "i8"


def _dims(dim: Any, ndim: int) -> Ints:
    if type(dim) is int and 0 <= dim < ndim <= 64:
        return (dim,)  # the usual call
    return layout.wrap_dims(tuple(dim) if isinstance(dim, list) else dim, ndim)


# PyTorch's words on an `out` of another dtype than the result, where none is cast.
_MATCH = "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for out's dtype."


def total_dtype(d: _dtype) -> _dtype:
    """In what a sum or a product of a dtype is taken, when nothing else is asked for."""
    return d if d.inexact else dtypes.int64


def asked_dtype(input: Tensor, dtype: Any, out: Tensor | None) -> _dtype:
    """In what it is taken: as asked for, or told by `out`. Integers carry no gradient, so are refused where one is wanted."""
    if dtype is None:
        return total_dtype(input._spec.dtype) if out is None else out._spec.dtype
    d = dtypes.to_dtype(dtype)
    if not d.inexact and input.requires_grad and state.grad:
        raise RuntimeError(f"Autograd not support dtype: {d.scalar_name}")
    return d


def check_asked(dtype: Any, out: Tensor | None) -> None:
    """Who says in what it is taken, and where it goes, says the same."""
    if dtype is not None and out is not None and (d := dtypes.to_dtype(dtype)) is not out._spec.dtype:
        raise RuntimeError(EXPECTED.format(c_want=d.c_name, c_got=out._spec.dtype.c_name))


def _past(dims: Ints) -> Ints:
    """The dimensions of one example, counted past the one that counts examples."""
    return tuple([d + 1 for d in dims])


def _inner(x: Tensor) -> Ints:
    """All dimensions of one example."""
    return tuple(range(1, x.ndim))
