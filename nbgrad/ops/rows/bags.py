"""Bags of a table's rows: what `EmbeddingBag` computes, rows being read where they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.kernels.cpu import bags as loops
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.index import gather as at
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.rows import classes
from nbgrad.ops.views.copy import contiguous, zeros
from nbgrad.ops.views.shape import unsqueeze


@cached(4096)
def _runner(
    weight: Spec, count: int, bags: int, mode: str, weighted: bool, padding: int
) -> Callable[..., tuple[Tensor, ...]]:
    code, backend, columns = weight.dtype.code, weight.backend, weight.shape[1]
    source, codes = loops.bags(code, mode, weighted)
    address = backend.kernel(f"bags_{mode}_{code}", source, codes).address
    launch = backend.launch(len(codes) - 2, "", max(count * columns, 1) if bags else 0)
    meta = backend.constants([columns, padding])
    out, integers = weight.like((bags, columns), None), weight.like((count,), None, dtype=dtypes.int64)
    size, top = integers.like((bags,), None), integers.like((bags, columns), None)

    def run(weight: Tensor, index: Tensor, starts: Tensor, scale: Tensor | None) -> tuple[Tensor, ...]:
        made = empty(out), empty(integers), empty(size), empty(top if mode == "max" else size)
        read = weight, index, starts, weight if scale is None else scale
        launch(
            address,
            bags,
            meta,
            *[t._buf for t in made],
            *[(t if t._spec.contiguous else contiguous(t.detach()))._buf for t in read],
        )
        return made

    return run


def _by_weight(
    g: list[Any],
    weight_spec: Spec,
    index: Tensor,
    scale: Tensor | None,
    y1: Tensor,
    y2: Tensor,
    y3: Tensor,
    mode: str,
    padding: int,
    by_freq: bool,
) -> Tensor:
    by, like = g[0], weight_spec.dense()
    if mode == "max":
        found: Tensor = at.scatter_add(zeros(like), 0, y3, e.where(unsqueeze(e.eq(y2, 0), 1), 0.0, by))
        return found
    rows = rows_of(by, scale, y1, y2, mode)
    back: Tensor = classes._embedding_back(rows, index, like=like, padding=padding, by_freq=by_freq)
    return back


def rows_of(by: Tensor, scale: Tensor | None, y1: Tensor, y2: Tensor, mode: str) -> Tensor:
    """Of gradients of bags those of the rows in them, of sums and means."""
    if mode == "mean":
        by = e.div(by, unsqueeze(e.clamp(y2, 1), 1))
    rows: Tensor = at.index_select(by, 0, y1)
    return rows if scale is None else e.mul(rows, unsqueeze(scale, 1))


def _by_scale(g: list[Any], weight: Tensor, index: Tensor, y1: Tensor, padding: int) -> Tensor:
    named = classes.embedding(weight, index, padding=padding, by_freq=False)[0]
    each = r.sum(e.mul(at.index_select(g[0], 0, y1), named), 1)
    return each if padding < 0 else e.where(e.eq(index, padding), 0.0, each)


@differentiable("EmbeddingBag", raw=True, unmoved="_embedding_bag", weight=_by_weight, scale=_by_scale)
def bag(
    weight: Tensor,
    index: Tensor,
    starts: Tensor,
    scale: Tensor | None,
    *,
    mode: str,
    padding: int,
    by_freq: bool,
) -> tuple[Tensor, ...]:
    """The sum, mean or largest elements of each bag, operands having been checked; then the bag of each index, the number of rows in
    each bag and, of "max", the row of each element."""
    count, bags = index.shape[0], starts.shape[0] - 1
    return _runner(weight._spec, count, bags, mode, scale is not None, padding)(weight, index, starts, scale)
