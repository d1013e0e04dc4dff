"""Distinct values: of elements, or of the slices along a dimension; in order, or as they follow each other.

All are one thing: rows, in the order in which to go through them, and where a row differs from the one before. No gradient, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.base.switches import compiling
from nbgrad.base.tables import PLANS, cached
from nbgrad.core.overrides import armed
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.dispatch.stanza import method
from nbgrad.kernels.cpu import distinct as _kernels
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.storage import Batched, Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.host.values import DYNAMIC, of_array
from nbgrad.ops.index.gather import index_select
from nbgrad.ops.order.scan import cumsum
from nbgrad.ops.order.sort import argsort, ranks
from nbgrad.ops.reduce.sums import any as any_of
from nbgrad.ops.views.copy import full, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.order import movedim
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import narrow

Distinct = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
_bytes = np.dtype(np.uint8)


@cached(PLANS)
def _of_line(sp: Spec, in_order: bool, inverse: bool, counted: bool) -> Distinct | None:
    """What finds the distinct elements of a line without gaps, in one pass once it is in order."""
    n, code, size = sp.numel, sp.dtype.code, sp.itemsize
    if sp.dtype.is_complex or sp.ndim != 1 or not n or not sp.contiguous or sp.backend is not backend.cpu:
        return None
    ordered = ranks(sp, 0) if in_order else None
    address = backend.cpu.kernel(f"distinct_{code}", *_kernels.distinct(code)).address
    launch, told = backend.cpu.launch(6, "qqq", 1, n < FEW), backend.cpu.told
    allocate, ints, asked = sp.allocate, sp.like(dtype=dtypes.int64), (in_order, inverse, counted)
    none = ints.like((0,))

    def distinct(line: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values, order = (line, line) if ordered is None else ordered(line)
        made, number, seen = allocate(n * size, _bytes), *told.count
        group = allocate(8 * n if inverse else 0, _bytes)
        counts = allocate(8 * n if counted else 0, _bytes)
        launch(address, n, values._buf, order._buf, made, group, counts, number, *asked)
        count = seen[0]
        if count < n:  # no more memory than there are
            made, counts = made[: count * size].copy(), counts[: 8 * count * counted].copy()
        many = wrap(counts, ints.like((count,)) if counted else none)
        return wrap(made, sp.like((count,))), wrap(group, ints if inverse else none), many

    return distinct


def _in_order(rows: Tensor) -> Tensor:
    """The order of rows by their elements. Sorting by the last column first leaves, as the sort is stable, what earlier
    columns decide."""
    n, columns = rows.shape
    if columns == 1:
        return argsort(reshape(rows, (-1,)), 0, stable=True)
    order = e.sub(cumsum(full(rows._spec.plain.like((n,), dtype=dtypes.int64), 1), 0), 1)
    for column in range(columns - 1, -1, -1):
        order = order[argsort(rows[order, column], 0, stable=True)]
    return order


_FEW_ROWS = 1024  # elements that Python compares sooner than kernels are launched for each column


def _few(rows: Tensor, in_order: bool, inverse: bool, counted: bool) -> tuple[Tensor, Tensor, Tensor] | None:
    """Of few rows, which of them begin a group, to which group each belongs, and how many are in each. NaN, which is in no order, is
    left to the sort, and so is what a program is made of, or a mode sees the operators of."""
    sp = rows._spec
    near = type(sp) is Spec and sp.backend is backend.cpu and not sp.dtype.narrow
    if not near or not 0 < sp.numel <= _FEW_ROWS or compiling.thread is not None or armed.below is not None:
        return None
    lines = rows._host().tolist()
    if sp.dtype.is_floating_point and any([x != x for line in lines for x in line]):
        return None
    order = range(len(lines))
    firsts, starts, group, last = [], [], [0] * len(lines), None
    for at, k in enumerate(sorted(order, key=lines.__getitem__) if in_order else order):
        if lines[k] != last:
            firsts.append(at)
            starts.append(k)
            last = lines[k]
        group[k] = len(starts) - 1
    many = [end - first for first, end in zip(firsts, [*firsts[1:], len(lines)])]
    found = starts, group if inverse else [], many if counted else []
    a, b, c = [of_array(np.array(x, np.int64)) for x in found]
    return a, b, c


def _distinct(
    input: Tensor, dim: int | None, in_order: bool, inverse: bool, counted: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct elements or slices, which of them each is, how many of each there are; in place of what is not wanted, nothing."""
    if dim is None:
        lines, dim = reshape(input, (-1,)), 0
    else:
        lines = input
    quick = _of_line(lines._spec, in_order, inverse, counted) if type(lines._spec) is Spec else None
    if quick is not None:
        return quick(lines)
    n = tuple.__getitem__(lines.shape, dim)
    rows = reshape(movedim(lines, dim, 0), (n, lines.numel() // max(n, 1)))
    group = counts = zeros(rows._spec.plain.like((0,), dtype=dtypes.int64))
    if not n:
        return lines, group, counts
    few = _few(rows, in_order, inverse, counted)
    if few is not None:
        starts, group, counts = few
        return _slices(lines, dim, starts), group, counts
    order = _in_order(rows) if in_order else None
    if order is not None:
        rows = rows[order]
    differs = e.ne(narrow(rows, 0, 1, n - 1), narrow(rows, 0, 0, n - 1))
    differs = reshape(differs, (-1,)) if rows.shape[1] == 1 else any_of(differs, 1)
    first = cat([full(differs._spec.plain.like((1,)), True), differs])
    starts = reshape(first.nonzero(), (-1,))
    if counted:
        ends = narrow(starts, 0, 1, starts.numel() - 1), full(starts._spec.plain.like((1,)), n)
        counts = e.sub(cat(ends), starts)
    if inverse:
        group = e.sub(cumsum(first, 0), 1)
    if order is not None:
        starts = order[starts]
        group = zeros(group._spec).scatter(0, order, group) if inverse else group
    return _slices(lines, dim, starts), group, counts


def _slices(lines: Tensor, dim: int, starts: Tensor) -> Tensor:
    found = movedim(index_select(movedim(lines, dim, 0), 0, starts), 0, dim)  # lies as PyTorch's does
    return wrap(found._buf, found._spec)


def _refuse(g: Any, name: str) -> None:
    raise NotImplementedError(f"the derivative for '{name}' is not implemented.")


def _op(node_name: str, unmoved: str) -> Any:
    @differentiable(node_name, unmoved=unmoved, input=_refuse)
    def distinct(
        input: Tensor, *, dim: int | None, in_order: bool, name: str, inverse: bool, counted: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        return _distinct(input, dim, in_order, inverse, counted)

    return distinct


_unique_op, _unique_dim = _op("Unique2Backward0", "_unique2"), _op("UniqueDimBackward0", "unique_dim")
_consecutive = _op("UniqueConsecutiveBackward0", "unique_consecutive")


def _outputs(
    function: Any, input: Tensor, dim: Any, in_order: bool, name: str, inverse: bool, counts: bool
) -> Any:
    if input._spec.dtype.inexact:
        lacks_kernel("unique" if dim is None else "unique_dim", input._spec.dtype)
    d = dim
    if type(input._buf) is Batched:
        raise RuntimeError(DYNAMIC.format(name))
    if dim is not None:
        d = layout.own_dim(dim, input.ndim)
        if 0 in input.shape[:d] + input.shape[d + 1 :]:
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
            )
    values, group, many = function(
        input, dim=d, in_order=in_order, name=name, inverse=inverse, counted=counts
    )
    if d is None and inverse:
        group = reshape(group, input.shape)
    found = [values, *([group] if inverse else []), *([many] if counts else [])]
    return found[0] if len(found) == 1 else tuple(found)


def _planned(input: Spec, in_order: bool, inverse: bool, counted: bool, dim: int | None) -> Quick | None:
    """Of all elements, in their order in memory."""
    if dim is not None or not input.contiguous:
        return None
    find = _of_line(input.like((input.numel,)), in_order, inverse, counted)
    if find is None:
        return None
    if not inverse and not counted:
        return lambda t: find(t)[0]

    def found(t: Tensor) -> tuple[Tensor, ...]:
        values, group, many = find(t)
        if inverse and input.ndim != 1:
            group = reshape(group, input.shape)
        return (values, *([group] if inverse else []), *([many] if counted else []))

    return found


def _planned_in_order(
    input: Spec,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Quick | None:
    return _planned(input, True, return_inverse, return_counts, dim)


def _planned_as_they_stand(
    input: Spec, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Quick | None:
    return _planned(input, False, return_inverse, return_counts, dim)


@method
@quickly(_planned_in_order)
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
@quickly(_planned_as_they_stand)
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
