"""Reductions: fewer elements out than in. Each is a prologue, a combination and a finish for one template, and a rule.

The gradient of a sum is an expand, that of an expand a sum: the pair is closed. Extremes over all elements share their gradient among ties;
along a dimension the chosen index gets it.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor, hooks, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import check_out, into
from nbgrad.dispatch.prepared import Run, call_of, filled, prepared, settled
from nbgrad.dispatch.return_types import EXPECTED, maker, results
from nbgrad.dispatch.stanza import method
from nbgrad.expr import prims as p
from nbgrad.expr.node import Expr, var
from nbgrad.kernels import build
from nbgrad.kernels.cpu import lines
from nbgrad.kernels.cpu import reduce as templates
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.pointwise import arithmetic as e
from nbgrad.ops.reduce.walk import as_lines, still, walk, without
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.views import reshape, spread, squeeze, unsqueeze

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
    that lie in one run (and of columns), `length` is that of all of them, where the last one is shorter."""
    shape = layout.reduced_shape(tuple(sp.shape), dims, keepdim)
    out = spec(out_dtype, shape, None, sp.device)
    kept = [(n, s) for d, (n, s) in enumerate(zip(sp.shape, sp.strides)) if d not in dims]
    gone = sorted(
        ((n, s) for d, (n, s) in enumerate(zip(sp.shape, sp.strides)) if d in dims), key=lambda d: -d[1]
    )
    kept, gone = _merge(kept), _merge(gone)
    total = math.prod(n for n, _ in gone)
    results = math.prod(n for n, _ in kept)
    columns = bool(kept) and kept[-1][1] == 1 and kept[-1][0] >= 8 and not (gone and gone[-1][1] == 1)
    split = _split(kept, columns, gone[0][1]) if results and len(gone) == 1 else 0
    if split and total >= 2 * split:
        return _in_two_steps(kind, sp, gone[0], kept, split, out, accumulate, numbers)
    code = sp.dtype.code
    compute = sp.dtype.kind if kind.combine not in ("sum", "prod") or code[0] == "f" else "i8"
    identity = (kind.identity or {}).get(accumulate, "")
    finish = kind.finish
    run_step = gone[-1][1] if gone else 1
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
    )
    made = build.kernel(
        f"{kind.name}_{code}_{'columns' if columns else 'runs' if run_step == 1 else 'strided'}",
        source,
        signature,
    )
    if columns:
        m = kept[-1][0]
        blocks = -(-m // templates.WIDTH)
        outer, inner = kept[:-1], gone
        head = [len(outer), len(inner), m, blocks, total, length or total * results]
        items = math.prod(n for n, _ in outer) * blocks
    else:
        n, step = gone[-1] if gone else (1, 1)
        outer, inner = kept, gone[:-1]
        head = [len(outer), len(inner), n, step, math.prod(k for k, _ in inner), length or n * results]
        items = results
    meta = np.array([*head, *_reversed(outer), *_reversed(inner)], np.int64).view(np.uint8)
    letters = ("d" if compute[0] == "f" else "q") * len(kind.numbers)
    work = builtins.max(sp.numel // _LIGHT, results)
    launch = backend.of(sp.device).launch(3, letters, work if items > 1 else items, sp.numel < FEW)
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
    part = Reduction(f"{kind.name}_part", kind.combine, kind.prologue, _r, kind.numbers, kind.identity)
    runs = spec(sp.dtype, (-(-n // split), split, *sizes), (step * split, step, *steps), sp.device)
    return reduction(part, runs, (1,), False, _held(accumulate), accumulate, *numbers, length=n)


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
    joined = Reduction(f"{kind.name}_parts", kind.combine, _x, kind.finish, kind.numbers, kind.identity)
    made = spec(_held(accumulate), (-(-run_of[0] // split), *(k for k, _ in beside)), None, sp.device)
    ending = reduction(joined, made, (0,), False, out.dtype, accumulate, *numbers)
    return lambda t: wrap(ending(parts(t))._buf, out)


def _lanes(d: _dtype) -> str:
    """Sums and products of floats are taken in float64, of integers in int64."""
    return "f8" if d.is_floating_point else "i8"


def _dims(dim: Any, ndim: int) -> Ints:
    if type(dim) is int and 0 <= dim < ndim <= 64:
        return (dim,)  # the usual call
    return layout.wrap_dims(tuple(dim) if isinstance(dim, list) else dim, ndim)


# PyTorch's words on an `out` of another dtype than the result, where none is cast.
_MATCH = "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for out's dtype."


def _sum_dtype(d: _dtype, asked: Any) -> _dtype:
    if asked is not None:
        return dtypes.to_dtype(asked)
    return d if d.is_floating_point else dtypes.int64


def _past(dims: Ints) -> Ints:
    """The dimensions of one example, counted past the one that counts examples."""
    return tuple([d + 1 for d in dims])


def _inner(x: Tensor) -> Ints:
    """All dimensions of one example."""
    return tuple(range(1, x.ndim))


def _moved_by(rule: Any) -> Any:
    """The tangent of a reduction from its gradient: no element goes into two results, so what one passes on is its gradient times its
    tangent."""

    def tangent(t: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool, **static: Any) -> Tensor:
        parts = e.mul(rule(hooks.ones_like(y), input=input, y=y, dims=dims, keepdim=keepdim, **static), t)
        return _sum(parts, dims=dims, keepdim=keepdim) if dims else parts

    return tangent


# ---------------------------------------------------------------- sums


def _spread(g: Tensor, sp: Spec, dims: Ints, keepdim: bool) -> Tensor:
    """The gradient of a sum: the same for every element that went into it."""
    return spread(_kept(g, sp.ndim, dims, keepdim), sp.shape)


def _kept(g: Tensor, ndim: int, dims: Ints, keepdim: bool) -> Tensor:
    """With the reduced dimensions back, of size one."""
    if not keepdim:
        for d in dims:
            g = unsqueeze(g, d)
    return g


def _sum_of(input: Spec, dims: Ints, keepdim: bool) -> Run:
    d = input.dtype
    return reduction(SUM, input, dims, keepdim, _sum_dtype(d, None), _lanes(d))


@prepared(
    "SumBackward0",
    tangent=LINEAR,
    batch=lambda x: _sum(x, dims=_inner(x), keepdim=False),
    input=lambda g, input_spec: spread(g, input_spec.shape),
)
def _sum_all(input: Spec) -> Run:
    return _sum_of(input, tuple(range(input.ndim)), False)


@prepared(
    "SumBackward1",
    tangent=LINEAR,
    batch=lambda x, dims, keepdim: _sum(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input_spec, dims, keepdim: _spread(g, input_spec, dims, keepdim),
)
def _sum(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return _sum_of(input, dims, keepdim)


@method
@settled
def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Any:
    if dtype is not None or out is not None:
        d = (
            out.dtype if dtype is None and out is not None else dtypes.to_dtype(dtype)
        )  # it decides in what the sum is taken
        got = to_dtype(sum(to_dtype(input, d), dim, keepdim), d)
        return got if out is None else into("sum", out, got, (input,))
    if dim is None and not keepdim:
        return call_of(_sum_all, input)
    return call_of(_sum, input, dims=_dims(dim, input.ndim), keepdim=keepdim)


def sum_to(g: Tensor, shape: Any) -> Tensor:
    """Undo a broadcast: sum over the dimensions that it added or stretched."""
    lead = g.ndim - len(shape)
    dims = tuple(range(lead)) + tuple(
        lead + d for d, n in enumerate(shape) if n == 1 and tuple.__getitem__(g._spec.shape, lead + d) != 1
    )
    if len(dims) == lead:
        return _sum(g, dims=dims, keepdim=False) if lead else g
    g = _sum(g, dims=dims, keepdim=True)
    return reshape(g, shape) if lead else g


hooks.sum_to = sum_to


def _no_int_mean(d: _dtype, asked: Any) -> _dtype:
    got = d if asked is None else dtypes.to_dtype(asked)
    if not got.is_floating_point:
        if asked is not None:
            raise RuntimeError(
                "mean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. "
                f"Got: {got.scalar_name}"
            )
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {got.scalar_name}"
        )
    return got


def _count(sp: Spec, dims: Ints) -> int:
    return math.prod(tuple.__getitem__(sp.shape, d) for d in dims)


def _mean_of(input: Spec, dims: Ints, keepdim: bool) -> Run:
    return reduction(MEAN, input, dims, keepdim, input.dtype, "f8", float(_count(input, dims)))


@prepared(
    "MeanBackward0",
    tangent=LINEAR,
    batch=lambda x: _mean(x, dims=_inner(x), keepdim=False),
    input=lambda g, input_spec: spread(e.div(g, input_spec.numel or 1), input_spec.shape),
)
def _mean_all(input: Spec) -> Run:
    return _mean_of(input, tuple(range(input.ndim)), False)


@prepared(
    "MeanBackward1",
    tangent=LINEAR,
    batch=lambda x, dims, keepdim: _mean(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input_spec, dims, keepdim: _spread(
        e.div(g, _count(input_spec, dims) or 1), input_spec, dims, keepdim
    ),
)  # of nothing, any number: no element gets it
def _mean(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return _mean_of(input, dims, keepdim)


@method
@settled
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Any:
    own = input._spec.dtype
    d = _no_int_mean(own, dtype)
    if out is not None:
        # PyTorch takes the sum in the dtype of `out`, and then divides by a number.
        d = out.dtype if out.dtype.is_floating_point else dtypes.get_default_dtype()
        check_out("mean", out, d, (input,))
        return into("mean", out, mean(to_dtype(input, d), dim, keepdim), (input,))
    if d is not own:
        return mean(to_dtype(input, d), dim, keepdim)
    if dim is None and not keepdim:
        return call_of(_mean_all, input)
    return call_of(_mean, input, dims=_dims(dim, input.ndim), keepdim=keepdim)


# ---------------------------------------------------------------- products


def _prod_rule(g: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    """y / x where no factor is zero; else the product of the others, from both sides, so that any order of derivative holds."""
    if not input.ndim:
        return g
    if _no_zero(input):
        return e.mul(_kept(g, input.ndim, dims, keepdim), e.div(_kept(y, input.ndim, dims, keepdim), input))
    if len(dims) != 1:
        order = [d for d in range(input.ndim) if d not in dims] + list(dims)
        rest = [tuple.__getitem__(input.shape, d) for d in order[: input.ndim - len(dims)]]
        flat = reshape(input.permute(*order), (*rest, -1))
        got = _others(flat, len(rest)) * unsqueeze(squeeze(g, dims) if keepdim else g, -1)
        back = reshape(got, [tuple.__getitem__(input.shape, d) for d in order])
        return back.permute(*[order.index(d) for d in range(input.ndim)])
    return e.mul(_kept(g, input.ndim, dims, keepdim), _others(input, dims[0]))


def _no_zero(x: Tensor) -> bool:
    x = transforms.innermost(x)
    return bool(x._host().all())


def _others(x: Tensor, dim: int) -> Tensor:
    """Along `dim`, the product of all elements but one."""
    n = tuple.__getitem__(x.shape, dim)
    parts = []
    for k in range(n):
        parts.append(prod(cat([x.narrow(dim, 0, k), x.narrow(dim, k + 1, n - k - 1)], dim), dim, True))
    return cat(parts, dim)


def _prod_of(input: Spec, dims: Ints, keepdim: bool) -> Run:
    d = input.dtype
    return reduction(PROD, input, dims, keepdim, _sum_dtype(d, None), _lanes(d))


@prepared(
    "ProdBackward0",
    tangent=lambda t, input, y: _moved_by(_prod_rule)(t, input, y, tuple(range(input.ndim)), False),
    batch=lambda x: _prod(x, dims=_inner(x), keepdim=False),
    input=lambda g, input, y: _prod_rule(g, input, y, tuple(range(input.ndim)), False),
)
def _prod_all(input: Spec) -> Run:
    return _prod_of(input, tuple(range(input.ndim)), False)


@prepared(
    "ProdBackward1",
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_prod_rule)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _prod(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _prod_rule(g, input, y, dims, keepdim),
)
def _prod(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return _prod_of(input, dims, keepdim)


@method
@settled
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Any:
    if dtype is not None or out is not None:
        d = out.dtype if dtype is None and out is not None else dtypes.to_dtype(dtype)
        got = to_dtype(prod(to_dtype(input, d), dim, keepdim), d)
        return got if out is None else into("prod", out, got, (input,))
    if dim is None:
        return call_of(_prod_all, input)
    return call_of(_prod, input, dims=_dims(layout.wrap_dim(dim, input.ndim), input.ndim), keepdim=keepdim)


# ---------------------------------------------------------------- extremes


def _shared(
    g: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool, same: Callable[..., Tensor] = e.eq
) -> Tensor:
    """Among ties the gradient is shared equally."""
    at = to_dtype(same(input, _kept(y, input.ndim, dims, keepdim)), g._spec.dtype)
    share = e.div(_kept(g, input.ndim, dims, keepdim), _sum(at, dims=dims, keepdim=True) if dims else at)
    return e.mul(at, share)


def _shared_by_all(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    """The same of all elements, where NaN ties with NaN."""
    return _shared(g, input, y, tuple(range(input.ndim)), False, e.alike)


def extreme(kind: Reduction, input: Spec, dims: Ints, keepdim: bool) -> Run:
    return reduction(kind, input, dims, keepdim, input.dtype, input.dtype.kind)


@prepared(
    "Amax",
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_shared)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _amax(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _shared(g, input, y, dims, keepdim),
)
def _amax(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return extreme(AMAX, input, dims, keepdim)


@prepared(
    "Amin",
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_shared)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _amin(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _shared(g, input, y, dims, keepdim),
)
def _amin(input: Spec, *, dims: Ints, keepdim: bool) -> Run:
    return extreme(AMIN, input, dims, keepdim)


@prepared(
    "MaxBackward1",
    tangent=lambda t, input, y: _moved_by(_shared)(
        t, input, y, tuple(range(input.ndim)), False, same=e.alike
    ),
    batch=lambda x: _amax(x, dims=_inner(x), keepdim=False),
    input=_shared_by_all,
)
def _max_all(input: Spec) -> Run:
    return extreme(AMAX, input, tuple(range(input.ndim)), False)


@prepared(
    "MinBackward1",
    tangent=lambda t, input, y: _moved_by(_shared)(
        t, input, y, tuple(range(input.ndim)), False, same=e.alike
    ),
    batch=lambda x: _amin(x, dims=_inner(x), keepdim=False),
    input=_shared_by_all,
)
def _min_all(input: Spec) -> Run:
    return extreme(AMIN, input, tuple(range(input.ndim)), False)


def _nonempty_dims(name: str, input: Tensor, dim: Any) -> Ints:
    """The dimensions of an extreme, which none has over no element; PyTorch looks at that before it looks for one named twice."""
    if not input._spec.numel:
        if dim in ((), []):
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        for d in [layout.wrap_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, int) else dim)]:
            if tuple.__getitem__(input.shape, d) == 0:
                raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")
    return _dims(dim, input.ndim)


@method
@settled
def amax(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    if out is not None:
        return into("amax", out, amax(input, dim, keepdim), (input,), _MATCH)
    return call_of(_amax, input, dims=_nonempty_dims("amax", input, dim), keepdim=keepdim)


@method
@settled
def amin(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    if out is not None:
        return into("amin", out, amin(input, dim, keepdim), (input,), _MATCH)
    return call_of(_amin, input, dims=_nonempty_dims("amin", input, dim), keepdim=keepdim)


def share_among(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    """The gradient of one value of all elements: theirs that equal it (a NaN equals a NaN), in equal shares."""
    at = e.logical_or(e.eq(input, y), e.logical_and(e.isnan(input), e.isnan(y)))
    at = to_dtype(at, g._spec.dtype)
    return e.mul(at, e.div(g, _sum_all(at)))


def _chosen(word: str, sp: Spec, dim: int, keepdim: bool) -> Run:
    """What finds of each line along `dim` the extreme value and its first place."""
    shape = layout.reduced_shape(tuple(sp.shape), (dim,) if sp.ndim else (), True)
    values, places = spec(sp.dtype, shape, None, sp.device), spec(dtypes.int64, shape, None, sp.device)
    how = walk(tuple(sp.shape), dim, (still(values, dim), sp.strides), wide=lines.WIDE, few=1)
    unit = bool(sp.ndim) and sp.strides[dim] == 1
    source, signature = lines.extreme(word, sp.dtype.code, sp.dtype.kind, how.together, unit)
    form = "lines" if how.together else "unit" if unit else "strided"
    address = build.kernel(f"arg{word}_{sp.dtype.code}_{form}", source, signature).address
    items = how.items if sp.numel else 0
    launch = backend.of(sp.device).launch(4, "", sp.numel if items > 1 else items, sp.numel < FEW)
    if not keepdim and sp.ndim:
        values, places = without(values, dim), without(places, dim)
    return filled(launch, address, items, how.meta, (values, places))


def _to_chosen(g: Any, y1: Tensor, input_spec: Spec, dim: int, keepdim: bool) -> Tensor:
    """Along a dimension the gradient goes where the value came from."""
    grad = g[0]
    if not input_spec.ndim:
        return grad
    if not keepdim:
        grad, y1 = unsqueeze(grad, dim), unsqueeze(y1, dim)
    return zeros(input_spec.dense()).scatter(dim, y1, grad)


def _from_chosen(t: Tensor, y1: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, None]:
    if not t.ndim:
        return t, None
    got = t.gather(dim, y1 if keepdim else unsqueeze(y1, dim))
    return got if keepdim else squeeze(got, dim), None


def _first(x: Tensor) -> Tensor:
    """The place of every element of what has one."""
    return zeros(x._spec.plain.dense().like(dtype=dtypes.int64))


@prepared(
    "MaxBackward0",
    tangent=_from_chosen,
    batch=lambda x, dim, keepdim: _max_dim(x, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else (x, _first(x)),
    result=maker("max"),
    input=_to_chosen,
)
def _max_dim(input: Spec, *, dim: int, keepdim: bool) -> Run:
    return _chosen("max", input, dim, keepdim)


@prepared(
    "MinBackward0",
    tangent=_from_chosen,
    batch=lambda x, dim, keepdim: _min_dim(x, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else (x, _first(x)),
    result=maker("min"),
    input=_to_chosen,
)
def _min_dim(input: Spec, *, dim: int, keepdim: bool) -> Run:
    return _chosen("min", input, dim, keepdim)


def _extreme(word: str, input: Tensor, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        if input.numel() == 0:
            raise RuntimeError(
                f"{word}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        return call_of(_max_all if word == "max" else _min_all, input)
    d = layout.wrap_dim(dim, input.ndim)
    if not input._spec.numel and input.ndim and tuple.__getitem__(input.shape, d) == 0:
        raise IndexError(f"{word}(): Expected reduction dim {d} to have non-zero size.")
    return call_of(_max_dim if word == "max" else _min_dim, input, dim=d, keepdim=keepdim)


def _extreme_into(word: str, input: Tensor, got: Any, out: Any) -> Any:
    if isinstance(got, Tensor):
        return into(word, out, got, (input,))
    return results(word, got, out, (input,), apart=True)


@method
@settled
def max(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None
) -> Any:
    dim = dim if other is None else other
    if isinstance(dim, Tensor):
        return e.maximum(input, dim, out=out)
    return (
        _extreme("max", input, dim, keepdim)
        if out is None
        else _extreme_into("max", input, max(input, dim, keepdim), out)
    )


@method
@settled
def min(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None
) -> Any:
    dim = dim if other is None else other
    if isinstance(dim, Tensor):
        return e.minimum(input, dim, out=out)
    return (
        _extreme("min", input, dim, keepdim)
        if out is None
        else _extreme_into("min", input, min(input, dim, keepdim), out)
    )


def _place_of(word: str, sp: Spec, dim: int, keepdim: bool) -> Run:
    chosen = _chosen(word, sp, dim, keepdim)
    return lambda t: chosen(t)[1]


@prepared(
    batch=lambda x, word, dim, keepdim: (
        _place(x, word=word, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else _first(x)
    )
)
def _place(input: Spec, *, word: str, dim: int, keepdim: bool) -> Run:
    return _place_of(word, input, dim, keepdim)


@prepared(batch=lambda x, word: _place(reshape(x, (x.shape[0], -1)), word=word, dim=1, keepdim=False))
def _place_of_all(input: Spec, *, word: str) -> Run:
    line, line_of = as_lines(input, tuple(range(input.ndim)))
    found = _place_of(word, line, 0, False)
    return found if line is input else lambda t: found(line_of(t))


def _arg(word: str, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    if input._spec.dtype is dtypes.bool_:
        raise RuntimeError(f"arg{word}(): does not support bool input")
    if dim is None:
        if input.numel() == 0:
            raise IndexError(f"arg{word}(): Expected reduction dim to be specified for input.numel() == 0.")
        if keepdim:
            return reshape(_place_of_all(input, word=word), (1,) * input.ndim)
        return call_of(_place_of_all, input, word=word)
    d = layout.wrap_dim(dim, input.ndim)
    if not input._spec.numel and input.ndim and tuple.__getitem__(input.shape, d) == 0:
        raise IndexError(f"arg{word}(): Expected reduction dim {d} to have non-zero size.")
    return call_of(_place, input, word=word, dim=d, keepdim=keepdim)


def _arg_into(word: str, function: Any, input: Tensor, dim: int | None, keepdim: bool, out: Tensor) -> Tensor:
    if input._spec.dtype is dtypes.bool_:
        raise RuntimeError(f"arg{word}(): does not support bool input")
    check_out(f"arg{word}", out, dtypes.int64, (), EXPECTED)
    return into(f"arg{word}", out, function(input, dim, keepdim), ())


@method
@settled
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    return (
        _arg("max", input, dim, keepdim)
        if out is None
        else _arg_into("max", argmax, input, dim, keepdim, out)
    )


@method
@settled
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    return (
        _arg("min", input, dim, keepdim)
        if out is None
        else _arg_into("min", argmin, input, dim, keepdim, out)
    )


# ---------------------------------------------------------------- truth


@prepared(batch=lambda x, dims, **static: _true(x, dims=_past(dims), **static))
def _true(input: Spec, *, kind: Reduction, dims: Ints, keepdim: bool, byte: bool) -> Run:
    return reduction(kind, input, dims, keepdim, dtypes.uint8 if byte else dtypes.bool_, "b1")


def _truth(kind: Reduction, input: Tensor, dim: Any, keepdim: bool, out: Tensor | None) -> Any:
    # PyTorch's first truth values were uint8, and of those its result still is.
    byte = (input if out is None else out)._spec.dtype is dtypes.uint8
    static = dict(kind=kind, dims=_dims(dim, input.ndim), keepdim=keepdim, byte=byte)
    if out is None:
        return call_of(_true, input, **static)
    words = f"{kind.name} only supports bool tensor for result, got: {{got}}"
    return into(kind.name, out, _true(input, **static), (), words)


@method
@settled
def any(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    return _truth(ANY, input, dim, keepdim, out)


@method
@settled
def all(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Any:
    return _truth(ALL, input, dim, keepdim, out)


__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "max",
    "mean",
    "min",
    "prod",
    "sum",
]
