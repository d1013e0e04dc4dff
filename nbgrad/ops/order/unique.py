"""Distinct values: of elements, or of the slices along a dimension; in order, or as they follow each other.

All are one thing: rows, in the order in which to go through them, and where a row differs from the one before. No gradient, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes, layout
from nbgrad.memory.storage import Batched
from nbgrad.ops import pointwise as e
from nbgrad.ops.host.values import DYNAMIC
from nbgrad.ops.index.gather import index_select
from nbgrad.ops.order.scan import cumsum
from nbgrad.ops.order.sort import argsort
from nbgrad.ops.reduce.sums import any as any_of
from nbgrad.ops.views.copy import full, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.order import movedim
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import narrow


def _in_order(rows: Tensor) -> Tensor:
    """The order of rows by their elements. Sorting by the last column first leaves, as the sort is stable, what earlier
    columns decide."""
    n, columns = rows.shape
    if columns == 1:
        return argsort(reshape(rows, (-1,)), 0)
    order = e.sub(cumsum(full(rows._spec.plain.like((n,), dtype=dtypes.int64), 1), 0), 1)
    for column in range(columns - 1, -1, -1):
        order = order[argsort(rows[order, column], 0)]
    return order


def _distinct(input: Tensor, dim: int | None, in_order: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct elements or slices, which of them each is, how many of each there are."""
    if dim is None:
        lines, dim = reshape(input, (-1,)), 0
    else:
        lines = input
    n = tuple.__getitem__(lines.shape, dim)
    rows = reshape(movedim(lines, dim, 0), (n, lines.numel() // max(n, 1)))
    if not n:
        none = zeros(rows._spec.plain.like((0,), dtype=dtypes.int64))
        return lines, none, none
    order = _in_order(rows) if in_order else None
    if order is not None:
        rows = rows[order]
    differs = any_of(e.ne(narrow(rows, 0, 1, n - 1), narrow(rows, 0, 0, n - 1)), 1)
    first = cat([full(differs._spec.plain.like((1,)), True), differs])
    starts = reshape(first.nonzero(), (-1,))
    counts = e.sub(
        cat([narrow(starts, 0, 1, starts.numel() - 1), full(starts._spec.plain.like((1,)), n)]), starts
    )
    group = e.sub(cumsum(first, 0), 1)
    if order is not None:
        starts, group = order[starts], zeros(group._spec).scatter(0, order, group)
    return index_select(lines, dim, starts), group, counts


def _refuse(g: Any, name: str) -> None:
    raise NotImplementedError(f"the derivative for '{name}' is not implemented.")


def _op(node_name: str, unmoved: str) -> Any:
    @differentiable(node_name, unmoved=unmoved, input=_refuse)
    def distinct(
        input: Tensor, *, dim: int | None, in_order: bool, name: str
    ) -> tuple[Tensor, Tensor, Tensor]:
        return _distinct(input, dim, in_order)

    return distinct


_unique_op, _unique_dim = _op("Unique2Backward0", "_unique2"), _op("UniqueDimBackward0", "unique_dim")
_consecutive = _op("UniqueConsecutiveBackward0", "unique_consecutive")


def _outputs(
    function: Any, input: Tensor, dim: Any, in_order: bool, name: str, inverse: bool, counts: bool
) -> Any:
    d = dim
    if type(input._buf) is Batched:
        raise RuntimeError(DYNAMIC.format(name))
    if dim is not None:
        if not input.ndim:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        d = layout.wrap_dim(dim, input.ndim)
        if 0 in input.shape[:d] + input.shape[d + 1 :]:
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
            )
    values, group, many = function(input, dim=d, in_order=in_order, name=name)
    if d is None:
        group = reshape(group, input.shape)
    found = [values, *([group] if inverse else []), *([many] if counts else [])]
    return found[0] if len(found) == 1 else tuple(found)


@method
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct values in order; along a `dim`, its distinct slices. With `return_inverse` also where in the result each element is
    found, with `return_counts` also how often each value stands.

    >>> torch.unique(torch.tensor([3, 1, 3, 2]), return_counts=True)
    (tensor([1, 2, 3]), tensor([1, 1, 2]))
    """
    if dim is not None:
        check("inner.unique_dim", (input, dim, sorted, return_inverse, return_counts), {})
    function, name = (_unique_op, "_unique2") if dim is None else (_unique_dim, "unique_dim")
    return _outputs(function, input, dim, True, name, return_inverse, return_counts)


@method
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements without those that equal the one before; along a `dim`, its slices. With `return_inverse` also where in the result each
    element is found, with `return_counts` also how many equals stood in a row.

    >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]), return_counts=True)
    (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    name = "unique_consecutive"
    return _outputs(_consecutive, input, dim, False, name, return_inverse, return_counts)


def _with_empty(found: tuple[Tensor, ...], *wanted: bool) -> tuple[Tensor, ...]:
    """What was not asked for is there, and empty."""
    values, *more = found
    return values, *[
        t if asked else zeros(values._spec.plain.like((0,), dtype=dtypes.int64))
        for t, asked in zip(more, wanted)
    ]


def _unique2(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, ...]:
    """`unique` as PyTorch's own code calls it."""
    found = _outputs(_unique_op, input, None, True, "_unique2", True, True)
    return _with_empty(found, return_inverse, return_counts)


def _unique(input: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, ...]:
    return _unique2(input, sorted, return_inverse)[:2]


__all__ = ["_unique", "_unique2", "unique", "unique_consecutive"]
