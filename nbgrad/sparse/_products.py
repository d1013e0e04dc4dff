"""Products of a sparse matrix and a dense one, and of rows of two dense ones where a sparse matrix has entries.

Each is the gradient of the other, so gradients of every order come to these two. Rows of a product are sums over a bag of weighted
rows, which a kernel reads where they stand.
"""

from __future__ import annotations

from collections.abc import Callable

from nbgrad.base.tables import cached
from nbgrad.core.op import PRODUCT
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.kernels.cpu import bags as loops
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec
from nbgrad.ops.index.gather import index_add, index_select
from nbgrad.ops.reduce import sums
from nbgrad.ops.rows.bags import bag
from nbgrad.ops.views.copy import contiguous, to_dtype, zeros
from nbgrad.ops.views.shape import unsqueeze
from nbgrad.sparse._pattern import Pattern

_KERNELS = dtypes.float32, dtypes.float64  # the narrow ones compute in float32


def _wide(*given: Tensor) -> list[Tensor]:
    return [to_dtype(t, dtypes.float32) if t.dtype.narrow else t for t in given]


@differentiable(
    "SparseProduct",
    tangent=PRODUCT,
    values=lambda g, dense, pattern, d: dots(g, dense.conj(), pattern=pattern, d=d),
    dense=lambda g, values, pattern, d: product(values.conj(), g, pattern=pattern, d=1 - d),
)
def product(values: Tensor, dense: Tensor, *, pattern: Pattern, d: int) -> Tensor:
    """The matrix of these values times a dense one; with `d` 1 the transposed matrix."""
    wide, table = _wide(values, dense)
    way = pattern.way(d)
    if wide.dtype in _KERNELS:
        weights = wide if way.order is None else index_select(wide, 0, way.order)
        mode = {"mode": "sum", "padding": -1, "by_freq": False}
        made: Tensor = bag(table, way.other, way.first, weights, **mode)[0]
    else:
        each = unsqueeze(wide, 1) * index_select(table, 0, pattern.at[1 - d])
        nothing = zeros(table._spec.like((pattern.sizes[d], table.size(1)), None))
        made = index_add(nothing, 0, pattern.at[d], each)
    return to_dtype(made, values.dtype) if values.dtype.narrow else made


@differentiable(
    "SparseDots",
    tangent=PRODUCT,
    a=lambda g, b, pattern, d: product(g, b.conj(), pattern=pattern, d=d),
    b=lambda g, a, pattern, d: product(g, a.conj(), pattern=pattern, d=1 - d),
)
def dots(a: Tensor, b: Tensor, *, pattern: Pattern, d: int) -> Tensor:
    """For each entry the sum of products of the row of `a` that its index along `d` names, and the row of `b` of the other index."""
    one, two = _wide(a, b)
    left, right = pattern.at[d], pattern.at[1 - d]
    if one.dtype in _KERNELS:
        made = _runner(one._spec, pattern.count)(one, left, two, right)
    else:
        made = sums.sum(index_select(one, 0, left) * index_select(two, 0, right), 1)
    return to_dtype(made, a.dtype) if a.dtype.narrow else made


def merged(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, int]:
    """Of two lists of places where each is in the one that they come to, and how long that is."""
    source, codes = loops.merged()
    backend, like = a._spec.backend, a._spec
    address = backend.kernel("merged", source, codes).address
    n, m = a.size(0), b.size(0)
    there, here, count = (empty(like.like((k,), None)) for k in (n, m, 1))
    backend.launch(len(codes) - 2, "", 1)(
        address,
        1,
        backend.constants([n, m]),
        there._buf,
        here._buf,
        count._buf,
        contiguous(a)._buf,
        contiguous(b)._buf,
    )
    return there, here, int(count)


@cached(1024)
def _runner(table: Spec, count: int) -> Callable[..., Tensor]:
    code, backend, columns = table.dtype.code, table.backend, table.shape[1]
    source, codes = loops.dots(code)
    address = backend.kernel(f"dots_{code}", source, codes).address
    launch = backend.launch(len(codes) - 2, "", count * max(columns, 1))
    meta, out = backend.constants([columns]), table.like((count,), None)

    def run(*given: Tensor) -> Tensor:
        made = empty(out)
        read = [t if t._spec.contiguous else contiguous(t.detach()) for t in given]
        launch(address, count, meta, made._buf, *[t._buf for t in read])
        return made

    return run
