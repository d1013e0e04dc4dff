"""Reductions: fewer elements out than in. Each is a prologue, a combination and a finish for one template, and a rule.

The gradient of a sum is an expand, that of an expand a sum: the pair is closed. Extremes over all elements share their gradient among ties;
along a dimension the chosen index gets it.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from nbgrad import _backend, _dtypes, _layout, _transforms
from nbgrad._dispatch import check_out, differentiable, into, undifferentiable
from nbgrad._dtypes import dtype as _dtype
from nbgrad._layout import Ints
from nbgrad._op import LINEAR
from nbgrad._storage import Spec, spec
from nbgrad._tensor import Tensor, hooks, wrap
from nbgrad.expr import prims as p
from nbgrad.expr.node import Expr, var
from nbgrad.kernels import build
from nbgrad.kernels.cpu import lines
from nbgrad.kernels.cpu import reduce as templates
from nbgrad.ops import elementwise as e
from nbgrad.ops.copy import to_dtype, zeros
from nbgrad.ops.movement import reshape, spread, squeeze, unsqueeze
from nbgrad.ops.registry import method
from nbgrad.ops.return_types import named
from nbgrad.ops.walk import flat, still, walk, without

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


_INTS = [d for d in _dtypes.all_dtypes if d.category == _dtypes.INT]
_NEG = {"f4": "-inf", "f8": "-inf", "b1": "False"} | {d.code: str(np.iinfo(d.np).min) for d in _INTS}
_POS = {"f4": "inf", "f8": "inf", "b1": "True"} | {d.code: str(np.iinfo(d.np).max) for d in _INTS}
SUM = Reduction("sum", "sum")
MEAN = Reduction("mean", "sum", finish=_r / _n, numbers=("n",))
PROD = Reduction("prod", "prod")
AMAX = Reduction("amax", "amax", identity=_NEG)
AMIN = Reduction("amin", "amin", identity=_POS)
ANY = Reduction("any", "any", prologue=p.ne(_x, 0))
ALL = Reduction("all", "all", prologue=p.ne(_x, 0))

_plans: dict[Any, Any] = {}
_SPLIT = 1 << 15  # a reduction to few elements is cut into runs of this length, so that threads share it


def run(
    kind: Reduction, t: Tensor, dims: Ints, keepdim: bool, out_dtype: _dtype, accumulate: str, *numbers: float
) -> Tensor:
    """Reduce `t` over sorted dims; the result is contiguous. `accumulate` is the code of the lanes' dtype."""
    key = (kind.name, t._spec, dims, keepdim, out_dtype, accumulate)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) > 4096:
            _plans.clear()
        plan = _plans[key] = _make(kind, t._spec, dims, keepdim, out_dtype, accumulate)
    return plan(t, numbers)


def _make(kind: Reduction, sp: Spec, dims: Ints, keepdim: bool, out_dtype: _dtype, accumulate: str) -> Any:
    shape = _layout.reduced_shape(tuple(sp.shape), dims, keepdim)
    out = spec(out_dtype, shape, None, sp.device)
    kept = [(n, s) for d, (n, s) in enumerate(zip(sp.shape, sp.strides)) if d not in dims]
    gone = sorted(
        ((n, s) for d, (n, s) in enumerate(zip(sp.shape, sp.strides)) if d in dims), key=lambda d: -d[1]
    )
    kept, gone = _merge(kept), _merge(gone)
    total = math.prod(n for n, _ in gone)
    results = math.prod(n for n, _ in kept)
    if results and not kept and len(gone) == 1 and total >= 2 * _SPLIT:
        return _in_two_steps(kind, sp, gone[0], out, accumulate)
    columns = bool(kept) and kept[-1][1] == 1 and kept[-1][0] >= 8 and not (gone and gone[-1][1] == 1)
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
        head = [len(outer), len(inner), m, blocks, total]
        items = math.prod(n for n, _ in outer) * blocks
    else:
        n, step = gone[-1] if gone else (1, 1)
        outer, inner = kept, gone[:-1]
        head = [len(outer), len(inner), n, step, math.prod(k for k, _ in inner)]
        items = results
    meta = np.array([*head, *_reversed(outer), *_reversed(inner)], np.int64).view(np.uint8)
    letters = ("d" if compute[0] == "f" else "q") * len(kind.numbers)
    launch = _backend.of(sp.device).launch(
        3, letters, builtins.max(sp.numel, results) if items > 1 else items
    )
    nbytes, address, make_empty = out.extent * out.itemsize, made.address, _backend.of(sp.device).empty

    def reduce(t: Tensor, numbers: Sequence[float]) -> Tensor:
        buf = make_empty(nbytes)
        launch(address, items, meta, buf, t._buf, *numbers)
        return wrap(buf, out)

    return reduce


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


def _in_two_steps(kind: Reduction, sp: Spec, run_of: tuple[int, int], out: Spec, accumulate: str) -> Any:
    """Runs of a fixed length first, by as many threads as there are, then their results: the order of additions is the same for any
    number of threads."""
    n, step = run_of
    whole = n // _SPLIT
    middle = next(d for d in _dtypes.all_dtypes if d.code == accumulate)
    first = Reduction(f"{kind.name}_part", kind.combine, kind.prologue, _r, kind.numbers, kind.identity)
    last = Reduction(f"{kind.name}_parts", kind.combine, _x, kind.finish, kind.numbers, kind.identity)
    body = _make(
        first,
        spec(sp.dtype, (whole, _SPLIT), (step * _SPLIT, step), sp.device),
        (1,),
        False,
        middle,
        accumulate,
    )
    left = n - whole * _SPLIT
    tail = (
        _make(first, spec(sp.dtype, (1, left), (0, step), sp.device), (1,), False, middle, accumulate)
        if left
        else None
    )
    count = whole + (1 if left else 0)
    ending = _make(last, spec(middle, (count,), None, sp.device), (0,), False, out.dtype, accumulate)
    offset = whole * _SPLIT * step * sp.itemsize

    def reduce(t: Tensor, numbers: Sequence[float]) -> Tensor:
        parts = body(t, numbers)
        if tail is not None:
            rest = tail(wrap(t._buf[offset:], t._spec), numbers)
            parts = wrap(np.concatenate([parts._buf, rest._buf]), spec(middle, (count,), None, sp.device))
        result = ending(parts, numbers)
        return wrap(result._buf, out)

    return reduce


def _lanes(d: _dtype) -> str:
    """Sums of floats are taken in float64, of integers in int64."""
    return "f8" if d.is_floating_point else "i8"


def _dims(dim: Any, ndim: int) -> Ints:
    if type(dim) is int and 0 <= dim < ndim:
        return (dim,)  # the usual call
    return _layout.wrap_dims(tuple(dim) if isinstance(dim, list) else dim, ndim)


# PyTorch's words on an `out` of another dtype than the result, where none is cast.
_EXPECTED = "Expected out tensor to have dtype {c_want}, but got {c_got} instead"
_MATCH = "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for out's dtype."


def _sum_dtype(d: _dtype, asked: Any) -> _dtype:
    if asked is not None:
        return _dtypes.to_dtype(asked)
    return d if d.is_floating_point else _dtypes.int64


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


def _sum_forward(input: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    d = input._spec.dtype
    return run(SUM, input, dims, keepdim, _sum_dtype(d, None), _lanes(d))


@differentiable(
    "SumBackward0",
    raw=True,
    tangent=LINEAR,
    batch=lambda x: _sum(x, dims=_inner(x), keepdim=False),
    input=lambda g, input_spec: spread(g, input_spec.shape),
)
def _sum_all(input: Tensor) -> Tensor:
    plan = _total_plans.get(input._spec)
    if plan is None:
        if len(_total_plans) > 4096:
            _total_plans.clear()
        d = input._spec.dtype
        plan = _make(SUM, input._spec, tuple(range(input.ndim)), False, _sum_dtype(d, None), _lanes(d))
        _total_plans[input._spec] = plan
    return plan(input, ())


_total_plans: dict[Spec, Any] = {}  # of sums over everything, by the shorter key: losses end in one


@differentiable(
    "SumBackward1",
    raw=True,
    tangent=LINEAR,
    batch=lambda x, dims, keepdim: _sum(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input_spec, dims, keepdim: _spread(g, input_spec, dims, keepdim),
)
def _sum(input: Tensor, *, dims: Ints, keepdim: bool) -> Tensor:
    return _sum_forward(input, dims, keepdim)


@method
def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    if out is not None and dtype is None:
        dtype = out.dtype  # it decides in what the sum is taken
    if dtype is not None:
        input = to_dtype(input, _dtypes.to_dtype(dtype))
    if dim is None and not keepdim:
        got = _sum_all(input)
    else:
        got = _sum(input, dims=_dims(dim, input.ndim), keepdim=keepdim)
    if dtype is not None:
        got = to_dtype(got, _dtypes.to_dtype(dtype))
    return got if out is None else into("sum", out, got, (input,))


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
    got = d if asked is None else _dtypes.to_dtype(asked)
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


def _mean_forward(input: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    return run(MEAN, input, dims, keepdim, input._spec.dtype, "f8", float(_count(input._spec, dims)))


@differentiable(
    "MeanBackward0",
    raw=True,
    tangent=LINEAR,
    batch=lambda x: _mean(x, dims=_inner(x), keepdim=False),
    input=lambda g, input_spec: spread(e.div(g, input_spec.numel or 1), input_spec.shape),
)
def _mean_all(input: Tensor) -> Tensor:
    return _mean_forward(input, tuple(range(input.ndim)), False)


@differentiable(
    "MeanBackward1",
    raw=True,
    tangent=LINEAR,
    batch=lambda x, dims, keepdim: _mean(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input_spec, dims, keepdim: _spread(
        e.div(g, _count(input_spec, dims) or 1), input_spec, dims, keepdim
    ),
)  # of nothing, any number: no element gets it
def _mean(input: Tensor, *, dims: Ints, keepdim: bool) -> Tensor:
    return _mean_forward(input, dims, keepdim)


@method
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    input = to_dtype(input, _no_int_mean(input._spec.dtype, dtype))
    if out is not None:
        # PyTorch takes the sum in the dtype of `out`, and then divides by a number.
        d = out.dtype if out.dtype.is_floating_point else _dtypes.get_default_dtype()
        check_out("mean", out, d, (input,))
        input = to_dtype(input, d)
    if dim is None and not keepdim:
        got = _mean_all(input)
    else:
        got = _mean(input, dims=_dims(dim, input.ndim), keepdim=keepdim)
    return got if out is None else into("mean", out, got, (input,))


# ---------------------------------------------------------------- products


def _prod_rule(g: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    """y / x where no factor is zero; else the product of the others, from both sides, so that any order of derivative holds."""
    if not input.ndim:
        return g
    if _no_zero(input):
        return e.mul(_kept(g, input.ndim, dims, keepdim), e.div(_kept(y, input.ndim, dims, keepdim), input))
    from nbgrad.ops.join import cat  # a sibling that stands on this family's neighbours

    if len(dims) != 1:
        order = [d for d in range(input.ndim) if d not in dims] + list(dims)
        rest = [tuple.__getitem__(input.shape, d) for d in order[: input.ndim - len(dims)]]
        flat = reshape(input.permute(*order), (*rest, -1))
        got = _others(flat, len(rest), cat) * unsqueeze(squeeze(g, dims) if keepdim else g, -1)
        back = reshape(got, [tuple.__getitem__(input.shape, d) for d in order])
        return back.permute(*[order.index(d) for d in range(input.ndim)])
    return e.mul(_kept(g, input.ndim, dims, keepdim), _others(input, dims[0], cat))


def _no_zero(x: Tensor) -> bool:
    x = _transforms.innermost(x)
    return bool(x._host().all())


def _others(x: Tensor, dim: int, cat: Any) -> Tensor:
    """Along `dim`, the product of all elements but one."""
    n = tuple.__getitem__(x.shape, dim)
    parts = []
    for k in range(n):
        parts.append(prod(cat([x.narrow(dim, 0, k), x.narrow(dim, k + 1, n - k - 1)], dim), dim, True))
    return cat(parts, dim)


def _prod_forward(input: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    d = input._spec.dtype
    return run(PROD, input, dims, keepdim, _sum_dtype(d, None), d.kind if d.is_floating_point else "i8")


@differentiable(
    "ProdBackward0",
    raw=True,
    tangent=lambda t, input, y: _moved_by(_prod_rule)(t, input, y, tuple(range(input.ndim)), False),
    batch=lambda x: _prod(x, dims=_inner(x), keepdim=False),
    input=lambda g, input, y: _prod_rule(g, input, y, tuple(range(input.ndim)), False),
)
def _prod_all(input: Tensor) -> Tensor:
    return _prod_forward(input, tuple(range(input.ndim)), False)


@differentiable(
    "ProdBackward1",
    raw=True,
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_prod_rule)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _prod(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _prod_rule(g, input, y, dims, keepdim),
)
def _prod(input: Tensor, *, dims: Ints, keepdim: bool) -> Tensor:
    return _prod_forward(input, dims, keepdim)


@method
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    if out is not None and dtype is None:
        dtype = out.dtype
    if dtype is not None:
        input = to_dtype(input, _dtypes.to_dtype(dtype))
    if dim is None:
        got = _prod_all(input)
    else:
        got = _prod(input, dims=_dims(_layout.wrap_dim(dim, input.ndim), input.ndim), keepdim=keepdim)
    if dtype is not None:
        got = to_dtype(got, _dtypes.to_dtype(dtype))
    return got if out is None else into("prod", out, got, (input,))


# ---------------------------------------------------------------- extremes


def _shared(g: Tensor, input: Tensor, y: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    """Among ties the gradient is shared equally."""
    at = to_dtype(e.eq(input, _kept(y, input.ndim, dims, keepdim)), g._spec.dtype)
    share = e.div(_kept(g, input.ndim, dims, keepdim), _sum(at, dims=dims, keepdim=True) if dims else at)
    return e.mul(at, share)


def _extreme_forward(kind: Reduction, input: Tensor, dims: Ints, keepdim: bool) -> Tensor:
    d = input._spec.dtype
    return run(kind, input, dims, keepdim, d, d.kind)


@differentiable(
    "Amax",
    raw=True,
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_shared)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _amax(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _shared(g, input, y, dims, keepdim),
)
def _amax(input: Tensor, *, dims: Ints, keepdim: bool) -> Tensor:
    return _extreme_forward(AMAX, input, dims, keepdim)


@differentiable(
    "Amin",
    raw=True,
    tangent=lambda t, input, y, dims, keepdim: _moved_by(_shared)(t, input, y, dims, keepdim),
    batch=lambda x, dims, keepdim: _amin(x, dims=_past(dims), keepdim=keepdim),
    input=lambda g, input, y, dims, keepdim: _shared(g, input, y, dims, keepdim),
)
def _amin(input: Tensor, *, dims: Ints, keepdim: bool) -> Tensor:
    return _extreme_forward(AMIN, input, dims, keepdim)


@differentiable(
    "MaxBackward1",
    raw=True,
    tangent=lambda t, input, y: _moved_by(_shared)(t, input, y, tuple(range(input.ndim)), False),
    batch=lambda x: _amax(x, dims=_inner(x), keepdim=False),
    input=lambda g, input, y: _shared(g, input, y, tuple(range(input.ndim)), False),
)
def _max_all(input: Tensor) -> Tensor:
    return _extreme_forward(AMAX, input, tuple(range(input.ndim)), False)


@differentiable(
    "MinBackward1",
    raw=True,
    tangent=lambda t, input, y: _moved_by(_shared)(t, input, y, tuple(range(input.ndim)), False),
    batch=lambda x: _amin(x, dims=_inner(x), keepdim=False),
    input=lambda g, input, y: _shared(g, input, y, tuple(range(input.ndim)), False),
)
def _min_all(input: Tensor) -> Tensor:
    return _extreme_forward(AMIN, input, tuple(range(input.ndim)), False)


def _refuse_empty_dims(name: str, input: Tensor, dims: Ints, everything: bool) -> None:
    if not input._spec.numel:
        bad = [d for d in dims if tuple.__getitem__(input.shape, d) == 0]
        if bad and everything:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        if bad:
            raise IndexError(f"{name}(): Expected reduction dim {bad[0]} to have non-zero size.")


@method
def amax(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    dims = _dims(dim, input.ndim)
    _refuse_empty_dims("amax", input, dims, dim in ((), []))
    got = _amax(input, dims=dims, keepdim=keepdim)
    return got if out is None else into("amax", out, got, (input,), _MATCH)


@method
def amin(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    dims = _dims(dim, input.ndim)
    _refuse_empty_dims("amin", input, dims, dim in ((), []))
    got = _amin(input, dims=dims, keepdim=keepdim)
    return got if out is None else into("amin", out, got, (input,), _MATCH)


def share_among(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    """The gradient of one value of all elements: theirs that equal it (a NaN equals a NaN), in equal shares."""
    at = e.logical_or(e.eq(input, y), e.logical_and(e.isnan(input), e.isnan(y)))
    at = to_dtype(at, g._spec.dtype)
    return e.mul(at, e.div(g, _sum_all(at)))


@lru_cache(maxsize=4096)
def _arg_make(word: str, sp: Spec, dim: int, keepdim: bool) -> Any:
    """Of each line along `dim` the extreme value and its first place."""
    shape = _layout.reduced_shape(tuple(sp.shape), (dim,) if sp.ndim else (), True)
    values, places = spec(sp.dtype, shape, None, sp.device), spec(_dtypes.int64, shape, None, sp.device)
    how = walk(tuple(sp.shape), dim, (still(values, dim), sp.strides), wide=lines.WIDE, few=1)
    unit = bool(sp.ndim) and sp.strides[dim] == 1
    source, signature = lines.extreme(word, sp.dtype.code, sp.dtype.kind, how.together, unit)
    form = "lines" if how.together else "unit" if unit else "strided"
    address = build.kernel(f"arg{word}_{sp.dtype.code}_{form}", source, signature).address
    items = how.items if sp.numel else 0
    backend = _backend.of(sp.device)
    launch, make_empty, meta = (
        backend.launch(4, "", sp.numel if items > 1 else items),
        backend.empty,
        how.meta,
    )
    if not keepdim and sp.ndim:
        values, places = without(values, dim), without(places, dim)
    nbytes, bytes_of_places = values.extent * values.itemsize, 8 * places.extent

    def reduce(t: Tensor) -> tuple[Tensor, Tensor]:
        value, place = make_empty(nbytes), make_empty(bytes_of_places)
        launch(address, items, meta, value, place, t._buf)
        return wrap(value, values), wrap(place, places)

    return reduce


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
    return zeros(x._spec.plain.dense().like(dtype=_dtypes.int64))


@differentiable(
    "MaxBackward0",
    raw=True,
    tangent=_from_chosen,
    batch=lambda x, dim, keepdim: _max_dim(x, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else (x, _first(x)),
    input=_to_chosen,
)
def _max_dim(input: Tensor, *, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return _arg_make("max", input._spec, dim, keepdim)(input)


@differentiable(
    "MinBackward0",
    raw=True,
    tangent=_from_chosen,
    batch=lambda x, dim, keepdim: _min_dim(x, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else (x, _first(x)),
    input=_to_chosen,
)
def _min_dim(input: Tensor, *, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return _arg_make("min", input._spec, dim, keepdim)(input)


def _extreme(word: str, input: Tensor, dim: Any, keepdim: bool, out: Any) -> Any:
    if dim is None:
        if input.numel() == 0:
            raise RuntimeError(
                f"{word}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        got = (_max_all if word == "max" else _min_all)(input)
        return got if out is None else into(word, out, got, (input,))
    if isinstance(dim, Tensor):
        return (e.maximum if word == "max" else e.minimum)(input, dim, out=out)
    d = _layout.wrap_dim(dim, input.ndim)
    if not input._spec.numel and input.ndim and tuple.__getitem__(input.shape, d) == 0:
        raise IndexError(f"{word}(): Expected reduction dim {d} to have non-zero size.")
    pair = (_max_dim if word == "max" else _min_dim)(input, dim=d, keepdim=keepdim)
    if out is not None:
        pair = tuple(into(word, o, x, (input,), _EXPECTED) for o, x in zip(out, pair))
    return named(word, pair, out is not None)


@method
def max(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None
) -> Any:
    return _extreme("max", input, dim if other is None else other, keepdim, out)


@method
def min(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None
) -> Any:
    return _extreme("min", input, dim if other is None else other, keepdim, out)


@undifferentiable(
    lambda x, word, dim, keepdim: (
        _place(x, word=word, dim=dim + 1, keepdim=keepdim) if x.ndim > 1 else _first(x)
    )
)
def _place(input: Tensor, *, word: str, dim: int, keepdim: bool) -> Tensor:
    return _arg_make(word, input._spec, dim, keepdim)(input)[1]


@undifferentiable(lambda x, word: _place(reshape(x, (x.shape[0], -1)), word=word, dim=1, keepdim=False))
def _place_of_all(input: Tensor, *, word: str) -> Tensor:
    input = flat(input)
    return _arg_make(word, input._spec, 0, False)(input)[1]


def _arg(word: str, input: Tensor, dim: int | None, keepdim: bool, out: Tensor | None) -> Tensor:
    if input._spec.dtype is _dtypes.bool_:
        raise RuntimeError(f"arg{word}(): does not support bool input")
    if out is not None:
        check_out(f"arg{word}", out, _dtypes.int64, (), _EXPECTED)
        return into(f"arg{word}", out, _arg(word, input, dim, keepdim, None), ())
    if dim is None:
        if input.numel() == 0:
            raise IndexError(f"arg{word}(): Expected reduction dim to be specified for input.numel() == 0.")
        place = _place_of_all(input, word=word)
        return reshape(place, (1,) * input.ndim) if keepdim else place
    d = _layout.wrap_dim(dim, input.ndim)
    if not input._spec.numel and input.ndim and tuple.__getitem__(input.shape, d) == 0:
        raise IndexError(f"arg{word}(): Expected reduction dim {d} to have non-zero size.")
    return _place(input, word=word, dim=d, keepdim=keepdim)


@method
def argmax(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    return _arg("max", input, dim, keepdim, out)


@method
def argmin(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    return _arg("min", input, dim, keepdim, out)


# ---------------------------------------------------------------- truth


@undifferentiable(lambda x, dims, **static: _true(x, dims=_past(dims), **static))
def _true(input: Tensor, *, kind: Reduction, dims: Ints, keepdim: bool, byte: bool) -> Tensor:
    return run(kind, input, dims, keepdim, _dtypes.uint8 if byte else _dtypes.bool_, "b1")


def _truth(kind: Reduction, input: Tensor, dim: Any, keepdim: bool, out: Tensor | None) -> Tensor:
    # PyTorch's first truth values were uint8, and of those its result still is.
    byte = (input if out is None else out)._spec.dtype is _dtypes.uint8
    got = _true(input, kind=kind, dims=_dims(dim, input.ndim), keepdim=keepdim, byte=byte)
    return (
        got
        if out is None
        else into(kind.name, out, got, (), f"{kind.name} only supports bool tensor for result, got: {{got}}")
    )


@method
def any(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    return _truth(ANY, input, dim, keepdim, out)


@method
def all(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
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
