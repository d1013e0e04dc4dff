"""Gradients of a table of rows which hold the rows alone that were named: what `sparse=True` asks of embeddings.

Promises that such a gradient costs what was named, however many rows there are.
"""

from __future__ import annotations

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec
from nbgrad.ops.make.counted import arange
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.join import stack
from nbgrad.ops.views.shape import reshape
from nbgrad.sparse._pattern import Pattern
from nbgrad.sparse._tensor import SparseTensor, made, put_in
from nbgrad.tape.modes import state


def of_rows(g: Tensor, index: Tensor, table: Spec, padding: int) -> SparseTensor:
    """The gradient of a table of which `index` has named rows; row `padding` has none."""
    rows, columns = table.shape
    if padding >= 0:
        kept = index != padding
        g, index = g[kept], index[kept]
    at = reshape(to_dtype(index, dtypes.int64), (1, -1)).clone()
    values = reshape(g, (at.size(1), columns))
    if state.grad:
        values = put_in(values)
    return made(Pattern(at, (rows,), at.size(1) < 2), values)


def of_places(g: Tensor, dim: int, index: Tensor, sizes: tuple[int, ...]) -> SparseTensor:
    """The gradient of a tensor of which `index` has named an element for each of `g`, along `dim`."""
    values = reshape(g, (-1,))
    if not index.ndim:  # one number names one element, or the only one
        pattern = Pattern(reshape(index, (1, 1))[: len(sizes)], sizes, True)
        return made(pattern, put_in(values) if state.grad else values)
    counts = [
        arange(n).reshape([-1 if d == e else 1 for e in range(index.ndim)]) for d, n in enumerate(index.shape)
    ]
    grids = [index if d == dim else t.expand(index.shape) for d, t in enumerate(counts)]
    return made(
        Pattern(stack([reshape(t, (-1,)) for t in grids]), sizes, len(values) < 2),
        put_in(values) if state.grad else values,
    )
