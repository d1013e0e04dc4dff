"""Ops that read a whole row before they write its elements: softmax, the losses over classes, normalisation.

Each forward and each first gradient is one program of `kernels/cpu/rows.py`: a row goes through memory once. A fused gradient is an op
itself, and its own rule is written in ops, so that every further derivative exists. What the statistics of a row would contribute
stands in these rules as functions of the input; nothing differentiates a saved statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from nbgrad import _backend, _dtypes, _layout
from nbgrad._dispatch import differentiable
from nbgrad._layout import Ints
from nbgrad._prepared import Run, call_of, prepared, prepared_several, settled
from nbgrad._storage import Spec, spec
from nbgrad._tensor import Tensor, empty, wrap
from nbgrad.expr import prims as p
from nbgrad.expr.node import Expr, const, var
from nbgrad.kernels import build
from nbgrad.kernels.cpu import rows as loops
from nbgrad.kernels.cpu.rows import Program, Step
from nbgrad.kernels.launch import PARALLEL_FROM
from nbgrad.ops import elementwise as e
from nbgrad.ops import gather as at
from nbgrad.ops import reduce as r
from nbgrad.ops.copy import contiguous, full, to_dtype, zeros
from nbgrad.ops.host import of_array
from nbgrad.ops.movement import expand, reshape, spread, squeeze, unsqueeze
from nbgrad.ops.registry import method

# ---------------------------------------------------------------- running a program


class Walk(NamedTuple):
    """How rows lie: which loop, how many items it has, its geometry; and how many rows there are, in how many chunks."""

    loop: str
    items: int
    meta: Ints
    rows: int
    chunks: int = 0
    length: int = 0


@lru_cache(maxsize=4096)
def _along(shape: Ints, dim: int) -> Walk:
    """Rows along one dimension of a contiguous tensor."""
    n, inner = (shape[dim], math.prod(shape[dim + 1 :])) if shape else (1, 1)
    outer = math.prod(shape[:dim])
    if inner == 1:
        return Walk("runs", outer, (n, 1, 0, n), outer)
    blocks = -(-inner // loops.WIDTH)
    return Walk("columns", outer * blocks, (n, inner, blocks), outer * inner)


@lru_cache(maxsize=4096)
def _trailing(shape: Ints, dims: int, chunked: bool = False) -> Walk:
    """Rows of all that the last `dims` dimensions hold; `chunked`, for a program with sums over rows."""
    rows, n = math.prod(shape[: len(shape) - dims]), math.prod(shape[len(shape) - dims :])
    if not chunked:
        return Walk("runs", rows, (n, 1, 0, n), rows)
    few = rows * n < PARALLEL_FROM and rows <= 256  # for one thread, in one chunk
    chunk = max(rows, 1) if few else min(256, max(8, -(-rows // 64)))
    items = -(-rows // chunk)
    return Walk("runs", items, (n, 1, 0, n, rows, chunk), rows, items, n)


@lru_cache(maxsize=4096)
def _channels(shape: Ints) -> Walk:
    """A row for each place along the second dimension."""
    n, channels, inner = shape[0], shape[1], math.prod(shape[2:])
    if inner == 1:
        return _along((n, channels), 0)
    return Walk("runs", channels, (inner, n, channels * inner, inner), channels)


Runner = Callable[..., Any]  # of tensors


@lru_cache(maxsize=4096)
def _ready(program: Program, walk: Walk, sp: Spec, *numbers: float) -> Runner:
    """What runs a program over tensors laid out like `sp`: it gives outputs like that, then one value per row of each result, then, of
    sums over rows, one line per chunk, then one value per row of each choice; a single tensor if that is all."""
    if sp.dtype is _dtypes.float16:  # computed in float32, and rounded once
        return _in_float32(_ready(program, walk, sp.like(dtype=_dtypes.float32), *numbers))
    code = sp.dtype.np.str[1:]
    source, codes = (loops.runs if walk.loop == "runs" else loops.columns)(program, code)
    kernel = build.kernel(f"{program.name}_{code}_{walk.loop}", source, codes, contract=True)
    lines = (walk.chunks, walk.length) if walk.chunks != 1 else (walk.length,)
    outs = [
        sp if n in program.outputs else sp.like(lines if n in program.columns else (walk.rows,))
        for n in program.given
    ]
    made, read = len(outs), sum(c[0] == "*" for c in codes) - 1 - len(outs)
    backend = _backend.of(sp.device)
    launch = backend.launch(1 + made + read, "d" * len(numbers), max(sp.numel, 1) if walk.items else 0)
    meta = np.array(walk.meta, np.int64).view(np.uint8)
    return _runner(made, read, bool(program.over))(
        backend.empty, launch, kernel.address, walk.items, meta, outs, *numbers
    )


@lru_cache(maxsize=256)
def _runner(made: int, read: int, over: bool) -> Callable[..., Runner]:
    """Source of the lines between a call and its kernel, without loops: half of what a small call costs is in such lines."""
    inputs = [f"x{k}" for k in range(read)]
    outs, buffers = [f"t{k}" for k in range(made)], [f"b{k}" for k in range(made)]
    text = ["def make(empty, launch, address, items, meta, outs, *numbers):"]
    text += [f"    s{k} = outs[{k}]; n{k} = s{k}.extent * s{k}.itemsize" for k in range(made)]
    text += [f"    def run({', '.join(inputs)}):"]
    text += [f"        if not {x}._spec.contiguous: {x} = contiguous({x}.detach())" for x in inputs]
    text += [f"        b{k} = empty(n{k})" for k in range(made)]
    text += [
        f"        launch(address, items, meta, {', '.join([*buffers, *(f'{x}._buf' for x in inputs)])}, *numbers)"
    ]
    text += [f"        t{k} = wrap(b{k}, s{k})" for k in range(made)]
    given = ["wrap(x0._buf, x0._spec)"] * over + outs
    text += [f"        return {', '.join(given)}", "    return run"]
    scope: dict[str, Any] = {"contiguous": contiguous, "wrap": wrap}
    exec("\n".join(text), scope)
    make: Callable[..., Runner] = scope["make"]
    return make


def _in_float32(run: Runner) -> Runner:
    def wide(*inputs: Tensor) -> Any:
        made = run(*[to_dtype(t, _dtypes.float32) if t.is_floating_point() else t for t in inputs])
        if isinstance(made, Tensor):
            return to_dtype(made, _dtypes.float16)
        return tuple([to_dtype(t, _dtypes.float16) for t in made])

    return wide


@lru_cache(maxsize=64)
def _over(program: Program, gradient: str = "g") -> Program:
    """The same, whose output takes the gradient's memory."""
    return replace(program, name=f"{program.name}_over", over=gradient)


@lru_cache(maxsize=4096)
def _at_dim(program: Program, sp: Spec, dim: int) -> Runner:
    """A program over rows along one dimension."""
    return _ready(program, _along(tuple(sp.shape), dim), sp.dense())


def _dense(t: Tensor) -> Tensor:
    return t if t._spec.contiguous else contiguous(t)


def _all_have(has: Sequence[bool], *tensors: Any) -> list[Any]:
    """For a batch rule: each tensor with a first dimension that counts the examples."""
    size = next(t.shape[0] for t, h in zip(tensors, has) if h)
    return [t if h or t is None else expand(t, (size, *t.shape)) for t, h in zip(tensors, has)]


def _merged(t: Tensor) -> Tensor:
    """The rows of all examples as those of one."""
    count, rows, *rest = tuple(t.shape)
    lined: Tensor = reshape(t, (count * rows, *rest))
    return lined


_x, _y, _g, _w, _b, _n = (var(name) for name in "xygwbn")
_top, _low, _scale = var("top"), var("low"), var("scale")

# ---------------------------------------------------------------- softmax

_TOP = Step({"m": ("max", _x)}, then={"top": var("m")})
_POWERS = {"s": ("sum", p.exp(_x - _top))}
_SOFTMAX = Program(
    "softmax",
    (
        _TOP,
        Step(_POWERS, {"y": p.exp(_x - _top)}, {"all": var("s")}),
        Step(write={"y": _y / var("all")}),
    ),
    ("x",),
)
_SOFTMAX_BACK = Program(
    "softmax_backward",
    (
        Step({"s": ("sum", _g * _y)}, then={"all": var("s")}),
        Step(write={"o": _y * (_g - var("all"))}),
    ),
    ("g", "y"),
)
_LOG_SOFTMAX = Program(
    "log_softmax",
    (_TOP, Step(_POWERS, then={"low": p.log(var("s"))}), Step(write={"y": _x - _top - _low})),
    ("x",),
)
_LOG_SOFTMAX_BACK = Program(
    "log_softmax_backward",
    (Step({"s": ("sum", _g)}, then={"all": var("s")}), Step(write={"o": _g - p.exp(_y) * var("all")})),
    ("g", "y"),
)


def _total(t: Tensor, dim: int) -> Tensor:
    return r.sum(t, dim, True)


@differentiable(
    "SoftmaxBackwardData",
    raw=True,
    grad=lambda g, out, dim: _softmax_back(g, out, dim=dim),
    out=lambda g, grad, out, dim: e.sub(
        e.mul(g, e.sub(grad, _total(e.mul(grad, out), dim))), e.mul(grad, _total(e.mul(g, out), dim))
    ),
)
def _softmax_back(grad: Tensor, out: Tensor, *, dim: int, own: bool = False) -> Tensor:
    return _at_dim(_over(_SOFTMAX_BACK) if own else _SOFTMAX_BACK, out._spec, dim)(grad, out)


@prepared(
    "Softmax",
    tangent=lambda t, y, dim: _softmax_back(t, y, dim=dim),  # its Jacobian is symmetric
    batch=lambda x, dim: _softmax(x, dim=dim + 1) if x.ndim > 1 else _softmax(x[:, None], dim=1)[:, 0],
    input=lambda g, y, dim, own: _softmax_back(g, y, dim=dim, own=own and g._spec is y._spec),
)
def _softmax(input: Spec, *, dim: int) -> Run:
    return _at_dim(_SOFTMAX, input, dim)


@differentiable(
    "LogSoftmaxBackwardData",
    raw=True,
    grad=lambda g, out, dim: e.sub(g, _total(e.mul(g, e.exp(out)), dim)),
    out=lambda g, grad, out, dim: e.neg(e.mul(e.mul(g, e.exp(out)), _total(grad, dim))),
)
def _log_softmax_back(grad: Tensor, out: Tensor, *, dim: int, own: bool = False) -> Tensor:
    return _at_dim(_over(_LOG_SOFTMAX_BACK) if own else _LOG_SOFTMAX_BACK, out._spec, dim)(grad, out)


@prepared(
    "LogSoftmax",
    tangent=lambda t, y, dim: e.sub(t, _total(e.mul(e.exp(y), t), dim)),
    batch=lambda x, dim: (
        _log_softmax(x, dim=dim + 1) if x.ndim > 1 else _log_softmax(x[:, None], dim=1)[:, 0]
    ),
    input=lambda g, y, dim, own: _log_softmax_back(g, y, dim=dim, own=own and g._spec is y._spec),
)
def _log_softmax(input: Spec, *, dim: int) -> Run:
    return _at_dim(_LOG_SOFTMAX, input, dim)


def _normalised(op: Any, input: Tensor, dim: int, dtype: Any, name: str) -> Any:
    d = input._spec.dtype if dtype is None else _dtypes.to_dtype(dtype)
    at = _layout.wrap_dim(dim, input.ndim)
    if not d.is_floating_point:
        if not input._spec.numel:
            return empty(input._spec.dense().like(dtype=d))
        kernel = f"{name}_lastdim_kernel_impl" if at == max(input.ndim - 1, 0) else f"{name}_kernel_impl"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")
    return call_of(op, input, dim=at) if d is input._spec.dtype else op(to_dtype(input, d), dim=at)


@method
@settled
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Any:
    return _normalised(_softmax, input, dim, dtype, "softmax")


@method
@settled
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Any:
    return _normalised(_log_softmax, input, dim, dtype, "log_softmax")


# ---------------------------------------------------------------- losses over classes

_PICK = Program("pick", (), ("x",), chosen={"low": _x})
_PLACE = Program("place", (Step(write={"o": const(0.0)}),), (), each=("c",), mark=-var("c"))
_LOW = Program(
    "class_low",
    (_TOP, Step(_POWERS, then={"low": p.log(var("s"))})),
    ("x",),
    results=("top", "low"),
    chosen={"picked": _x - _top - _low},
)
_LOW_BACK = Program(
    "class_low_backward",
    (Step(write={"o": var("c") * p.exp(_x - _top - _low)}),),
    ("x",),
    each=("c", "top", "low"),
    mark=-var("c"),
)
_HOW = {"none": 0, "sum": 1, "mean": 2}


@lru_cache(maxsize=4096)
def _class_losses(low: Spec, weighted: bool, classes: int, ignore: int, reduction: str) -> Runner:
    """What makes of each row's log-probability at its class, of the classes, and of weights, the loss, and what each row counts for."""
    if low.dtype is _dtypes.float16:  # as in `_ready`
        return _in_float32(
            _class_losses(low.like(dtype=_dtypes.float32), weighted, classes, ignore, reduction)
        )
    code = low.dtype.np.str[1:]
    source, codes = loops.classes(code, weighted)
    address, backend = build.kernel(f"classes_{code}", source, codes).address, _backend.of(low.device)
    launch, make = backend.launch(6 + weighted, "", 1), backend.empty
    meta = np.array([low.numel, classes, ignore, _HOW[reduction]], np.int64).view(np.uint8)
    total = low if reduction == "none" else low.like(())
    size, sizes = total.numel * total.itemsize, low.numel * low.itemsize

    def run(low_: Tensor, index: Tensor, *weight: Tensor) -> tuple[Tensor, Tensor]:
        loss, share, bad = make(size), make(sizes), make(8)
        launch(address, 1, meta, loss, share, bad, low_._buf, index._buf, *[w._buf for w in weight])
        if backend.to_host(bad, _FLAG)[0]:
            values = index._host()
            outside = ((values < 0) | (values >= classes)) & (values != ignore)
            raise IndexError(f"Target {values[outside].flat[0]} is out of bounds.")
        return wrap(loss, total), wrap(share, low)

    return run


_FLAG = spec(_dtypes.int64, (1,))


def _class_dim(sp: Spec) -> int:
    return 0 if sp.ndim == 1 else 1


def _by_class(
    program: Program, input: Spec, weighted: bool, ignore: int, reduction: str
) -> Callable[..., tuple[Tensor, ...]]:
    """The loss of rows, what each counts for in it, and what else the program gives beside the value at each row's class."""
    shape, dim = tuple(input.shape), _class_dim(input)
    read = _at_dim(program, input, dim)
    each = input.like(shape[:dim] + shape[dim + 1 :])
    losses = _class_losses(each, weighted, shape[dim], ignore, reduction)
    alone = len(program.given) == 1

    def run(input: Tensor, index: Tensor, weight: Tensor | None) -> tuple[Tensor, ...]:
        if not index._spec.contiguous:
            index = contiguous(index)
        got = read(input, index)
        low, stats = (got, ()) if alone else (got[-1], got[:-1])
        if weight is None:
            return *losses(low, index), *stats
        return *losses(low, index, _dense(weight)), *stats

    return run


def _at_class(t: Tensor, index: Tensor) -> Tensor:
    """What stands at each row's class; anything where that is ignored."""
    dim = _class_dim(t._spec)
    index = e.clamp(index, 0, tuple.__getitem__(t.shape, dim) - 1)
    return squeeze(at.gather(t, dim, unsqueeze(index, dim)), dim)


def _nll_rule(g: Tensor, input_spec: Spec, index: Tensor, y1: Tensor) -> Tensor:
    return _nll_back(e.mul(g, y1), index, like=input_spec.dense())


def _classes_batch(
    op: Any,
    has: Sequence[bool],
    input: Tensor,
    index: Tensor,
    weight: Tensor | None,
    ignore: int,
    reduction: str,
) -> Any:
    """All rows of all examples, which are then reduced by example."""
    if has[2]:
        return NotImplemented
    input, index = _all_have(has[:2], input, index)
    lined = (input, index) if input.ndim == 2 else (_merged(input), _merged(index))
    got = op(*lined, weight, ignore=ignore, reduction="none")
    loss, share, *stats = [reshape(t, index.shape) for t in got]
    dims = tuple(range(1, index.ndim))
    if reduction != "none" and dims:
        loss = r.sum(loss, dims)
    if reduction == "mean":
        total = r.sum(share, dims, True) if dims else share
        loss = e.div(loss, reshape(total, loss.shape))
        share = e.where(e.eq(share, 0), 0.0, e.div(share, total))
    return loss, share, *stats


def _nll_back_batch(has: Sequence[bool], grad: Tensor, index: Tensor, like: Spec) -> Tensor:
    grad, index = _all_have(has, grad, index)
    shape = (index.shape[0], *tuple(like.shape))
    if like.ndim > 1:
        shape, grad, index = (shape[0] * shape[1], *shape[2:]), _merged(grad), _merged(index)
    got = _nll_back(grad, index, like=like.like(shape))
    return reshape(got, (-1, *tuple(like.shape))) if like.ndim > 1 else got


@differentiable(
    "NllLossBackward", raw=True, batch=_nll_back_batch, grad=lambda g, index: e.neg(_at_class(g, index))
)
def _nll_back(grad: Tensor, index: Tensor, *, like: Spec) -> Tensor:
    return _at_dim(_PLACE, like, _class_dim(like))(grad, index)


@prepared_several("NllLoss", batch=lambda *a, **s: _classes_batch(nll, *a, **s), input=_nll_rule)
def nll(input: Spec, index: Spec, weight: Spec | None, *, ignore: int, reduction: str) -> Runner:
    """Of log-probabilities along dimension 1 (of the only one, 0), operands having been checked."""
    return _by_class(_PICK, input, weight is not None, ignore, reduction)


@prepared_several("NllLoss2D", batch=lambda *a, **s: _classes_batch(nll_2d, *a, **s), input=_nll_rule)
def nll_2d(input: Spec, index: Spec, weight: Spec | None, *, ignore: int, reduction: str) -> Runner:
    """The same under the name that PyTorch shows where there are more than two dimensions."""
    return _by_class(_PICK, input, weight is not None, ignore, reduction)


def _low_back_batch(has: Sequence[bool], *tensors: Tensor) -> Tensor:
    parts = _all_have(has, *tensors)
    input = parts[1]
    return (
        _low_back(*parts)
        if input.ndim == 2
        else reshape(_low_back(*[_merged(t) for t in parts]), input.shape)
    )


@differentiable(
    "LogSoftmaxBackwardData",
    raw=True,
    batch=_low_back_batch,
    # Of c (p - 1 at the class), p being the softmax: the sum along the row, and its derivative by what p is made of.
    grad=lambda g, input, index: e.sub(
        squeeze(_total(e.mul(g, _softmax(input, dim=input.ndim - 1)), -1), -1), _at_class(g, index)
    ),
    input=lambda g, grad, input: _softmax_back(
        e.mul(g, unsqueeze(grad, -1)), _softmax(input, dim=input.ndim - 1), dim=input.ndim - 1
    ),
)
def _low_back(grad: Tensor, input: Tensor, index: Tensor, top: Tensor, low: Tensor) -> Tensor:
    return _at_dim(_LOW_BACK, input._spec, _class_dim(input._spec))(input, grad, top, low, index)


@prepared_several(
    "NllLoss",
    batch=lambda *a, **s: _classes_batch(cross_entropy, *a, **s),
    input=lambda g, input, index, y1, y2, y3: _low_back(e.mul(g, y1), input, index, y2, y3),
)
def cross_entropy(input: Spec, index: Spec, weight: Spec | None, *, ignore: int, reduction: str) -> Runner:
    """`nll` of `log_softmax` of at most two dimensions: log-probabilities are never written, the gradient is made from the input and two
    numbers per row."""
    return _by_class(_LOW, input, weight is not None, ignore, reduction)


# ---------------------------------------------------------------- tables of rows


def _counts(index: Tensor, rows: int) -> Tensor:
    """How often each row is named."""
    none = zeros(spec(_dtypes.int64, (rows,), None, index._spec.device))
    counts: Tensor = at.index_add(none, 0, index, full(index._spec, 1))
    return counts


@lru_cache(maxsize=1024)
def _added_rows(like: Spec, index: Spec, padding: int, by_freq: bool) -> Runner:
    """What adds rows of a gradient to those rows of zeros that an index names."""
    if like.dtype is _dtypes.float16:  # added up in float32
        return _in_float32(_added_rows(like.like(dtype=_dtypes.float32), index, padding, by_freq))
    code = like.dtype.np.str[1:]
    rows, n = tuple(like.shape)
    source, codes = loops.add_rows(code)
    address = build.kernel(f"add_rows_{code}", source, codes).address
    meta = np.array([index.numel, n, padding, by_freq], np.int64).view(np.uint8)
    items = -(-n // loops.LINE)
    work = index.numel * n
    launch = _backend.of(like.device).launch(5, "", work if items > 1 else min(items, work))

    def run(grad: Tensor, index: Tensor) -> Tensor:
        if not (grad._spec.contiguous and index._spec.contiguous):
            grad, index = _dense(grad.detach()), _dense(index)
        out = zeros(like)
        counts = _counts(reshape(index, (-1,)), rows) if by_freq else index
        launch(address, items, meta, out._buf, grad._buf, index._buf, counts._buf)
        return out

    return run


def _looked_up(g: Tensor, index: Tensor, like: Spec, padding: int, by_freq: bool) -> Tensor:
    flat = reshape(index, (-1,))
    got = at.index_select(g, 0, flat)
    if padding >= 0:
        got = e.where(unsqueeze(e.eq(flat, padding), -1), 0.0, got)
    if by_freq:
        counts = _counts(flat, like.shape[0])
        got = e.div(got, unsqueeze(at.index_select(counts, 0, flat), -1))
    return reshape(got, (*tuple(index.shape), tuple(like.shape)[1]))


def _embedding_back_batch(
    has: Sequence[bool], grad: Tensor, index: Tensor, like: Spec, padding: int, by_freq: bool
) -> Any:
    """All examples' rows one below the other."""
    if padding >= 0 or by_freq:
        return NotImplemented
    grad, index = _all_have(has, grad, index)
    (rows, n), count = tuple(like.shape), index.shape[0]
    below = of_array(np.arange(count).reshape(count, *(1,) * (index.ndim - 1)) * rows)
    got = _embedding_back(
        grad, e.add(index, below), like=like.like((count * rows, n)), padding=-1, by_freq=False
    )
    return reshape(got, (count, rows, n))


@differentiable(
    "EmbeddingDenseBackward",
    raw=True,
    batch=_embedding_back_batch,
    grad=lambda g, index, like, padding, by_freq: _looked_up(g, index, like, padding, by_freq),
)
def _embedding_back(grad: Tensor, index: Tensor, *, like: Spec, padding: int, by_freq: bool) -> Tensor:
    got: Tensor = _added_rows(like, index._spec, padding, by_freq)(grad, index)
    return got


@prepared_several(
    "Embedding",
    batch=lambda has, weight, index, **s: NotImplemented if has[0] else embedding(weight, index, **s),
    weight=lambda g, weight_spec, index, padding, by_freq: _embedding_back(
        g, index, like=weight_spec.dense(), padding=padding, by_freq=by_freq
    ),
)
def embedding(weight: Spec, index: Spec, *, padding: int, by_freq: bool) -> Runner:
    """Rows of a matrix, operands having been checked; row `padding` (-1: none) gets no gradient, with `by_freq` each row's is divided
    by how often it was named."""
    code, backend = weight.dtype.code, _backend.of(weight.device)
    rows, n = tuple(weight.shape)
    source, codes = loops.within()
    check, looks = build.kernel("within", source, codes).address, backend.launch(2, "qq", 1)
    source, codes = loops.take_rows(code)
    take = build.kernel(f"take_rows_{code}", source, codes).address
    launch, count = backend.launch(3, "q", index.numel * n), index.numel
    out = weight.like((*tuple(index.shape), n))
    size, make = out.extent * out.itemsize, backend.empty

    def run(weight: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        if not (weight._spec.contiguous and index._spec.contiguous):
            weight, index = _dense(weight.detach()), _dense(index)
        bad, buf = make(8), make(size)
        looks(check, 1, bad, index._buf, count, rows)
        if backend.to_host(bad, _FLAG)[0]:
            raise IndexError("index out of range in self")
        launch(take, count, buf, weight._buf, index._buf, n)
        return (wrap(buf, out),)

    return run


# ---------------------------------------------------------------- normalisation

# x and what follows from the statistics of its row; g times the weight, whose place differs, is what a gradient starts from.
_mean, _rstd = var("mean"), var("rstd")
_unit, _plain_unit = (_x - _mean) * _rstd, _x * _rstd
_MEAN = Step({"s": ("sum", _x)}, then={"mean": var("s") / _n})
_INVERSE = 1 / p.sqrt(var("v") / _n + var("eps"))


def _affine(unit: Expr, weight: bool, bias: bool) -> Expr:
    scaled = unit * _w if weight else unit
    return scaled + _b if bias else scaled


@lru_cache(maxsize=16)
def _layer_norm_program(centred: bool, weight: bool, bias: bool) -> Program:
    x, unit = (_x - _mean, _unit) if centred else (_x, _plain_unit)
    spread = Step({"v": ("sum", x * x)}, then={"rstd": _INVERSE})
    steps = (*([_MEAN] if centred else []), spread, Step(write={"o": _affine(unit, weight, bias)}))
    return Program(
        f"{'layer' if centred else 'rms'}_norm{'_w' * weight}{'_b' * bias}",
        steps,
        ("x",),
        lines=(*(["w"] if weight else []), *(["b"] if bias else [])),
        numbers=("n", "eps"),
        results=("mean", "rstd") if centred else ("rstd",),
    )


@lru_cache(maxsize=16)
def _layer_norm_back_program(centred: bool, weight: bool, trained: bool) -> Program:
    unit = _unit if centred else _plain_unit
    g = _g * _w if weight else _g
    folds = {"c": ("sum", g * unit)} | ({"a": ("sum", g)} if centred else {})
    then = {"along": var("c") / _n} | ({"level": var("a") / _n} if centred else {})
    inner = g - unit * var("along")
    return Program(
        f"{'layer' if centred else 'rms'}_norm_backward{'_w' * weight}{'_trained' * trained}",
        (
            Step(folds, then=then),
            Step(write={"o": _rstd * (inner - var("level") if centred else inner)}),
        ),
        ("g", "x"),
        lines=("w",) if weight else (),
        each=("mean", "rstd") if centred else ("rstd",),
        numbers=("n",),
        columns=({"dw": _g * unit} | ({"db": _g} if centred else {})) if trained else {},
    )


def _mean_of(t: Tensor, dims: Ints) -> Tensor:
    return r.mean(t, dims, True)


def _second(
    u: Tensor | None,
    v: Tensor | None,
    z: Tensor | None,
    g: Tensor,
    x: Tensor,
    w: Tensor | None,
    dims: Ints,
    eps: float,
    centred: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of a normalisation's gradient (dx, dw, db) by g, x and w, when those get u, v and z. w, v and z are shaped to
    broadcast. All in ops on x itself, so that further orders exist.

    With h = (x - mean) / std, dx = P(g w) where P(t) = (t - M(t) - h M(t h)) / std is symmetric, dw = sum(g h), db = sum(g)."""
    d = e.sub(x, _mean_of(x, dims)) if centred else x
    rstd = e.rsqrt(e.add(_mean_of(e.mul(d, d), dims), eps))
    h = e.mul(d, rstd)

    def project(t: Tensor) -> Tensor:
        inner = e.sub(t, e.mul(h, _mean_of(e.mul(t, h), dims)))
        return e.mul(rstd, e.sub(inner, _mean_of(t, dims)) if centred else inner)

    gw = g if w is None else e.mul(g, w)
    by_h = None if v is None else e.mul(g, v)
    by_g = None if v is None else e.mul(h, v)
    by_x = by_w = None
    if z is not None:
        by_g = z if by_g is None else e.add(by_g, z)
    if u is not None:
        a, b = _mean_of(e.mul(gw, h), dims), _mean_of(e.mul(u, h), dims)
        through = e.mul(e.neg(rstd), e.add(e.mul(gw, b), e.mul(u, a)))
        by_h = through if by_h is None else e.add(by_h, through)
        s = e.sub(_mean_of(e.mul(u, gw), dims), e.mul(a, b))
        if centred:
            s = e.sub(s, e.mul(_mean_of(u, dims), _mean_of(gw, dims)))
        by_x = e.mul(e.neg(e.mul(e.mul(rstd, rstd), h)), s)
        q = project(u)
        by_w = None if w is None else e.mul(q, g)
        q = q if w is None else e.mul(q, w)
        by_g = q if by_g is None else e.add(by_g, q)
    if by_h is not None:
        p_of = project(by_h)
        by_x = p_of if by_x is None else e.add(by_x, p_of)
    if by_g is not None and by_g._spec.shape != g._spec.shape:
        by_g = spread(by_g, g._spec.shape)
    return by_g, by_x, by_w


def _trailing_dims(t: Tensor, dims: int) -> Ints:
    return tuple(range(t.ndim - dims, t.ndim))


@lru_cache(maxsize=4096)
def _norm(centred: bool, sp: Spec, weight: bool, bias: bool, dims: int, eps: float) -> Runner:
    shape = tuple(sp.shape)
    n = math.prod(shape[len(shape) - dims :])
    program = _layer_norm_program(centred, weight, bias)
    return _ready(program, _trailing(shape, dims), sp.dense(), float(n), eps)


@lru_cache(maxsize=4096)
def _norm_back(centred: bool, sp: Spec, weight: bool, dims: int, trained: bool, own: bool) -> Runner:
    shape = tuple(sp.shape)
    n = math.prod(shape[len(shape) - dims :])
    program = _layer_norm_back_program(centred, weight, trained)
    walk = _trailing(shape, dims, trained)
    return _ready(_over(program) if own else program, walk, sp.dense(), float(n))


def _norm_backward(
    centred: bool,
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    stats: tuple[Tensor, ...],
    dims: int,
    trained: bool,
    own: bool,
) -> Any:
    sp = input._spec
    run = _norm_back(centred, sp, weight is not None, dims, trained, own)
    got = run(grad, input, *stats) if weight is None else run(grad, input, weight, *stats)
    return (got[0], *[_joined(c, sp, dims) for c in got[1:]]) if trained else got


def _joined(parts: Tensor, sp: Spec, dims: int) -> Tensor:
    """The sum over all rows, from one partial sum per chunk."""
    if parts.ndim == 2:
        parts = r.sum(parts, 0)
    return parts if dims == 1 else wrap(parts._buf, sp.like(tuple(sp.shape)[sp.ndim - dims :]))


def _norm_second_rule(centred: bool) -> Any:
    def rule(
        g: Any, grad: Tensor, input: Tensor, weight: Tensor | None, dims: int, eps: float, trained: bool
    ) -> Any:
        u, v, z = (*g, None)[:3] if trained else (g, None, None)
        by_g, by_x, by_w = _second(u, v, z, grad, input, weight, _trailing_dims(input, dims), eps, centred)
        if by_w is not None and weight is not None:
            by_w = r.sum_to(by_w, weight.shape)
        return (by_g, by_x, by_w, None, None) if centred else (by_g, by_x, by_w, None)

    return rule


def _norm_batch(
    op: Any, has: Sequence[bool], input: Tensor, *affine: Tensor | None, dims: int, eps: float
) -> Any:
    """All rows of all examples; by what an example has of its own, they are scaled and shifted afterwards."""
    input, *_ = _all_have(has, input, *affine)
    count, own = input.shape[0], any(has[1:])
    got, *stats = op(input, *([None] * len(affine) if own else affine), dims=dims, eps=eps)
    for change, t, h in zip((e.mul, e.add), affine if own else (), has[1:]):
        if t is not None:
            got = change(got, _over_rows(t, input.ndim) if h else t)
    return got, *[reshape(s, (count, s.numel() // max(count, 1))) for s in stats]


def _over_rows(t: Tensor, ndim: int) -> Tensor:
    """What each example has of its own, shaped to broadcast over its rows."""
    count, *own = tuple(t.shape)
    shaped: Tensor = reshape(t, (count, *(1,) * (ndim - len(own) - 1), *own))
    return shaped


def _norm_back_batch(
    op: Any,
    has: Sequence[bool],
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    *stats: Tensor,
    dims: int,
    eps: float,
    trained: bool,
    own: bool,
) -> Any:
    """Likewise; sums over rows are by example."""
    grad, input, _, *stats_ = _all_have(has, grad, input, weight, *stats)
    ndim, scaled, kept = input.ndim, grad, weight
    if weight is not None and has[2]:
        scaled, kept = e.mul(grad, _over_rows(weight, ndim)), None
    lines = [reshape(s, (-1,)) for s in stats_]
    got = op(scaled, input, kept, *lines, dims=dims, eps=eps, trained=False, own=False)
    if not trained:
        return got
    between = tuple(range(1, ndim - dims))
    shape = (*tuple(input.shape)[: ndim - dims], *(1,) * dims)
    *mean, rstd = [reshape(s, shape) for s in stats_]
    each = e.mul(grad, e.mul(e.sub(input, mean[0]) if mean else input, rstd))
    sums = [each, grad][: 1 + len(mean)]
    return got, *[r.sum(s, between) if between else s for s in sums]


@differentiable(
    "NativeLayerNormBackward",
    raw=True,
    batch=lambda *a, **s: _norm_back_batch(_layer_norm_back, *a, **s),
    all=_norm_second_rule(True),
)
def _layer_norm_back(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    *,
    dims: int,
    eps: float,
    trained: bool,
    own: bool,
) -> Any:
    return _norm_backward(True, grad, input, weight, (mean, rstd), dims, trained, own)


def _layer_norm_rule(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    y1: Tensor,
    y2: Tensor,
    dims: int,
    eps: float,
    wanted: Any,
    own: bool,
) -> Any:
    trained, own = wanted[1] or wanted[2], own and g._spec is input._spec
    got = _layer_norm_back(g, input, weight, y1, y2, dims=dims, eps=eps, trained=trained, own=own)
    return got if trained else (got, None, None)


@prepared_several(
    "NativeLayerNorm", batch=lambda *a, **s: _norm_batch(layer_norm, *a, **s), all=_layer_norm_rule
)
def layer_norm(input: Spec, weight: Spec | None, bias: Spec | None, *, dims: int, eps: float) -> Runner:
    """Over the last `dims` dimensions, operands having been checked; its statistics are mean and 1/std of each row."""
    return _given(_norm(True, input, weight is not None, bias is not None, dims, eps), weight, bias)


def _given(run: Runner, *optional: Spec | None) -> Runner:
    """What runs with a place for each optional tensor: `run` takes those that there are."""
    if None not in optional:
        return run
    if not any(optional):
        return lambda input, *_: run(input)
    return lambda input, *others: run(input, *[t for t in others if t is not None])


@differentiable(
    "MulBackward",
    raw=True,
    batch=lambda *a, **s: _norm_back_batch(_rms_norm_back, *a, **s),
    all=_norm_second_rule(False),
)
def _rms_norm_back(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    rstd: Tensor,
    *,
    dims: int,
    eps: float,
    trained: bool,
    own: bool,
) -> Any:
    return _norm_backward(False, grad, input, weight, (rstd,), dims, trained, own)


def _rms_norm_rule(
    g: Tensor, input: Tensor, weight: Tensor | None, y1: Tensor, dims: int, eps: float, wanted: Any, own: bool
) -> Any:
    own = own and g._spec is input._spec
    got = _rms_norm_back(g, input, weight, y1, dims=dims, eps=eps, trained=wanted[1], own=own)
    return got if wanted[1] else (got, None)


@prepared_several("Mul", batch=lambda *a, **s: _norm_batch(rms_norm, *a, **s), all=_rms_norm_rule)
def rms_norm(input: Spec, weight: Spec | None, *, dims: int, eps: float) -> Runner:
    """The same without a mean and without a bias."""
    return _given(_norm(False, input, weight is not None, False, dims, eps), weight)


# ---------------------------------------------------------------- normalisation of channels

_SPREAD = Step({"v": ("sum", (_x - _mean) * (_x - _mean))}, then={"rstd": _INVERSE, "var": var("v") / _n})


@lru_cache(maxsize=16)
def _batch_norm_program(weight: bool, bias: bool) -> Program:
    return Program(
        f"batch_norm{'_w' * weight}{'_b' * bias}",
        (_MEAN, _SPREAD, Step(write={"o": _affine(_unit, weight, bias)})),
        ("x",),
        each=(*(["w"] if weight else []), *(["b"] if bias else [])),
        numbers=("n", "eps"),
        results=("mean", "rstd", "var"),
    )


@lru_cache(maxsize=16)
def _batch_norm_back_program(weight: bool) -> Program:
    then = {"dw": var("c"), "db": var("a"), "along": var("c") / _n, "level": var("a") / _n}
    inner = _rstd * (_g - var("level") - _unit * var("along"))
    return Program(
        f"batch_norm_backward{'_w' * weight}",
        (
            Step({"c": ("sum", _g * _unit), "a": ("sum", _g)}, then=then),
            Step(write={"o": inner * _w if weight else inner}),
        ),
        ("g", "x"),
        each=(*(["w"] if weight else []), "mean", "rstd"),
        numbers=("n",),
        results=("dw", "db"),
    )


def _all_but_channels(t: Tensor) -> Ints:
    return (0, *range(2, t.ndim))


def _per_channel(t: Tensor | None, ndim: int) -> Tensor | None:
    """Shaped to broadcast against a tensor with channels."""
    return t if t is None else reshape(t, (-1, *(1,) * (ndim - 2)))


def _batch_norm_second(g: Any, grad: Tensor, input: Tensor, weight: Tensor | None, eps: float) -> Any:
    u, v, z = g[0], _per_channel(g[1], input.ndim), _per_channel(g[2], input.ndim)
    dims = _all_but_channels(input)
    by_g, by_x, by_w = _second(u, v, z, grad, input, _per_channel(weight, input.ndim), dims, eps, True)
    if by_w is not None:
        by_w = r.sum(by_w, dims)
    return by_g, by_x, by_w, None, None


@lru_cache(maxsize=4096)
def _by_channel(program: Program, sp: Spec, *numbers: float) -> Runner:
    """A program over the channels of tensors laid out like `sp`; the first number is how many elements a channel has."""
    n = float(sp.numel // (tuple(sp.shape)[1] or 1))
    return _ready(program, _channels(tuple(sp.shape)), sp.dense(), n, *numbers)


@differentiable("NativeBatchNormBackward", raw=True, all=_batch_norm_second)
def _batch_norm_back(
    grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, *, eps: float, own: bool
) -> tuple[Tensor, ...]:
    program = _batch_norm_back_program(weight is not None)
    each = (mean, rstd) if weight is None else (weight, mean, rstd)
    return _by_channel(_over(program) if own else program, input._spec)(grad, input, *each)


@prepared_several(
    "NativeBatchNorm",
    all=lambda g, input, weight, y1, y2, eps, own: _batch_norm_back(
        g, input, weight, y1, y2, eps=eps, own=own and g._spec is input._spec
    ),
)
def batch_norm(input: Spec, weight: Spec | None, bias: Spec | None, *, eps: float) -> Runner:
    """By the statistics of this batch, operands having been checked; those are mean, 1/std and variance of each channel."""
    program = _batch_norm_program(weight is not None, bias is not None)
    return _given(_by_channel(program, input, eps), weight, bias)


def _fixed_rule(
    g: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, variance: Tensor, eps: float, wanted: Any
) -> Any:
    dims, rstd = _all_but_channels(input), e.rsqrt(e.add(variance, eps))
    scale = rstd if weight is None else e.mul(rstd, weight)
    unit = e.mul(e.sub(input, _per_channel(mean, input.ndim)), _per_channel(rstd, input.ndim))
    by_w = r.sum(e.mul(g, unit), dims) if wanted[1] else None
    by_b = r.sum(g, dims) if wanted[2] else None
    return e.mul(g, _per_channel(scale, input.ndim)), by_w, by_b, None, None


@differentiable("NativeBatchNorm", all=_fixed_rule)
def batch_norm_fixed(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, *, eps: float
) -> Tensor:
    """By statistics that are given."""
    scale = e.rsqrt(e.add(variance, eps))
    if weight is not None:
        scale = e.mul(scale, weight)
    shift = e.neg(e.mul(mean, scale)) if bias is None else e.sub(bias, e.mul(mean, scale))
    return e.add(e.mul(_dense(input), _per_channel(scale, input.ndim)), _per_channel(shift, input.ndim))


# ---------------------------------------------------------------- normalisation of groups of channels


def _groups_as_rows(input: Tensor, groups: int) -> Tensor:
    count, channels, *inner = tuple(input.shape)
    rows: Tensor = reshape(input, (count * groups, channels // groups * math.prod(inner)))
    return rows


def _by_group(input: Tensor, groups: int, eps: float) -> Tensor:
    normed = layer_norm(_groups_as_rows(input, groups), None, None, dims=1, eps=eps)[0]
    return reshape(normed, input.shape)


def _group_norm_rule(
    g: Tensor, input: Tensor, weight: Tensor | None, groups: int, eps: float, wanted: Any
) -> Any:
    dims, rows = _all_but_channels(input), _groups_as_rows(input, groups)
    scaled = g if weight is None else e.mul(g, _per_channel(weight, input.ndim))
    _, mean, rstd = layer_norm(rows, None, None, dims=1, eps=eps)
    by_x = _layer_norm_back(
        reshape(scaled, rows.shape), rows, None, mean, rstd, dims=1, eps=eps, trained=False, own=False
    )
    by_w = r.sum(e.mul(g, _by_group(input, groups, eps)), dims) if wanted[1] else None
    by_b = r.sum(g, dims) if wanted[2] else None
    return reshape(by_x, input.shape), by_w, by_b


@differentiable("NativeGroupNorm", all=_group_norm_rule)
def group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *, groups: int, eps: float
) -> Tensor:
    """Over all that a group of channels holds, operands having been checked."""
    got, weight, bias = _by_group(input, groups, eps), *(_per_channel(t, input.ndim) for t in (weight, bias))
    got = got if weight is None else e.mul(got, weight)
    return got if bias is None else e.add(got, bias)


__all__ = ["log_softmax", "softmax"]
