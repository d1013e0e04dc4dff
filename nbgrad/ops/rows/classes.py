"""Losses over classes, and tables of rows that indices name: cross entropy, embeddings. Programs of rows, as softmax is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.prepared import prepared_several
from nbgrad.expr import prims as p
from nbgrad.expr.node import const, var
from nbgrad.expr.special import exp_below
from nbgrad.kernels.cpu import rows as loops
from nbgrad.kernels.cpu.rows import Program, Step
from nbgrad.memory import dtypes
from nbgrad.memory.backend import refused
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.host.values import of_array
from nbgrad.ops.index import gather as at
from nbgrad.ops.index.place import tied
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.rows.softmax import (
    _POWERS,
    _TOP,
    Runner,
    _all_have,
    _at_dim,
    _dense,
    _in_float32,
    _low,
    _merged,
    _softmax,
    _softmax_back,
    _top,
    _total,
    _x,
)
from nbgrad.ops.views.copy import contiguous, full, zeros
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze

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
    (Step(write={"o": var("c") * exp_below(_x - _top - _low)}),),
    ("x",),
    each=("c", "top", "low"),
    mark=-var("c"),
)
_HOW = {"none": 0, "sum": 1, "mean": 2}


@cached(4096)
def _class_losses(low: Spec, weighted: bool, classes: int, ignore: int, reduction: str) -> Runner:
    """What makes of each row's log-probability at its class, of the classes, and of weights, the loss, and what each row counts for."""
    if low.dtype.narrow:  # as in `_ready`
        return _in_float32(
            _class_losses(low.like(dtype=dtypes.float32), weighted, classes, ignore, reduction), low.dtype
        )
    code = low.dtype.code
    source, codes = loops.classes(code, weighted)
    backend = low.backend
    address = backend.kernel(f"classes_{code}", source, codes).address
    launch, make, told = backend.launch(6 + weighted, "", 1), backend.empty, backend.told
    meta = backend.constants([low.numel, classes, ignore, _HOW[reduction]])
    total = low if reduction == "none" else low.like(())
    size, sizes = total.numel * total.itemsize, low.numel * low.itemsize

    def run(low_: Tensor, index: Tensor, *weight: Tensor) -> tuple[Tensor, Tensor]:
        loss, share, (flag, seen) = make(size), make(sizes), told.flag
        launch(address, 1, meta, flag, loss, share, low_._buf, index._buf, *[w._buf for w in weight])
        if seen[0]:
            raise refused(seen)
        return wrap(loss, total), wrap(share, low)

    return run


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


def _nll_rule(g: Tensor, input: Tensor, index: Tensor, y1: Tensor) -> Tensor:
    return tied(_nll_back(e.mul(g, y1), index, like=input._spec.dense()), input)


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


_NLL = "nll_loss_forward", "weight"


@prepared_several(
    "NllLoss", batch=lambda *a, **s: _classes_batch(nll, *a, **s), untrained=_NLL, input=_nll_rule
)
def nll(input: Spec, index: Spec, weight: Spec | None, *, ignore: int, reduction: str) -> Runner:
    """Of log-probabilities along dimension 1 (of the only one, 0), operands having been checked."""
    return _by_class(_PICK, input, weight is not None, ignore, reduction)


@prepared_several(
    "NllLoss2D", batch=lambda *a, **s: _classes_batch(nll_2d, *a, **s), untrained=_NLL, input=_nll_rule
)
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
    untrained=_NLL,
    input=lambda g, input, index, y1, y2, y3: _low_back(e.mul(g, y1), input, index, y2, y3),
)
def cross_entropy(input: Spec, index: Spec, weight: Spec | None, *, ignore: int, reduction: str) -> Runner:
    """`nll` of `log_softmax` of at most two dimensions: log-probabilities are never written, the gradient is made from the input and two
    numbers per row."""
    return _by_class(_LOW, input, weight is not None, ignore, reduction)


# ---------------------------------------------------------------- tables of rows


def _counts(index: Tensor, rows: int) -> Tensor:
    """How often each row is named."""
    none = zeros(spec(dtypes.int64, (rows,), None, index._spec.device))
    counts: Tensor = at.index_add(none, 0, index, full(index._spec, 1))
    return counts


@cached(1024)
def _added_rows(like: Spec, index: Spec, padding: int, by_freq: bool) -> Runner:
    """What adds rows of a gradient to those rows of zeros that an index names."""
    if like.dtype.narrow:  # added up in float32
        return _in_float32(_added_rows(like.like(dtype=dtypes.float32), index, padding, by_freq), like.dtype)
    code = like.dtype.code
    rows, n = tuple(like.shape)
    source, codes = loops.add_rows(code)
    address = like.backend.kernel(f"add_rows_{code}", source, codes).address
    meta = like.backend.constants([index.numel, n, padding, by_freq, rows])
    items = -(-n // loops.LINE)
    work = index.numel * n
    launch = like.backend.launch(5, "", work if items > 1 else min(items, work))

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
    tangent=lambda weight_t, index: embedding(
        weight_t, index, padding=-1, by_freq=False
    ),  # as PyTorch's, of all rows
    batch=lambda has, weight, index, **s: NotImplemented if has[0] else embedding(weight, index, **s),
    weight=lambda g, weight_spec, index, padding, by_freq: _embedding_back(
        g, index, like=weight_spec.dense(), padding=padding, by_freq=by_freq
    ),
)
def embedding(weight: Spec, index: Spec, *, padding: int, by_freq: bool) -> Runner:
    """Rows of a matrix, operands having been checked; row `padding` (-1: none) gets no gradient, with `by_freq` each row's is divided
    by how often it was named."""
    rows, n = tuple(weight.shape)
    out = weight.like((*tuple(index.shape), n))
    take = (_rows_taken if weight.backend.prompt else _rows_named)(
        weight.backend, weight.dtype.code, rows, n, index.numel
    )
    size, make = out.extent * out.itemsize, weight.backend.empty

    def run(weight: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        if not (weight._spec.contiguous and index._spec.contiguous):
            weight, index = _dense(weight.detach()), _dense(index)
        buf = make(size)
        take(buf, weight._buf, index._buf)
        return (wrap(buf, out),)

    return run


def _rows_taken(backend: Any, code: str, rows: int, n: int, count: int) -> Callable[..., None]:
    """What reads rows once all indices are known to name one."""
    check, looks = backend.kernel("within", *loops.within()).address, backend.launch(2, "qq", 1)
    take = backend.kernel(f"take_rows_{code}", *loops.take_rows(code)).address
    launch, told = backend.launch(3, "q", count * n), backend.told

    def run(made: Any, table: Any, index: Any) -> None:
        flag, seen = told.flag
        looks(check, 1, flag, index, count, rows)
        if seen[0]:
            raise refused(seen)
        launch(take, count, made, table, index, n)

    return run


def _rows_named(backend: Any, code: str, rows: int, n: int, count: int) -> Callable[..., None]:
    """What reads rows, and tells of an index that names none."""
    take = backend.kernel(f"take_named_rows_{code}", *loops.take_named_rows(code)).address
    launch, told = backend.launch(4, "qq", count * n), backend.told

    def run(made: Any, table: Any, index: Any) -> None:
        launch(take, count * n, told.flag[0], made, table, index, n, rows)

    return run
