"""Norms of matrices, some of which are made of singular values; what `norm` makes of its words; the condition of a matrix."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.core.plan import number_type
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.prepared import settled
from nbgrad.dispatch.quick import replayed
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes, layout
from nbgrad.ops import pointwise as e
from nbgrad.ops.linear.decompositions import svdvals
from nbgrad.ops.linear.norms import check_real_order, vector_norm, vector_norm_of
from nbgrad.ops.linear.systems import _inverse, check_floats, check_matrices, check_square
from nbgrad.ops.pointwise.numeric import nan_to_num
from nbgrad.ops.reduce.extremes import amax, amin
from nbgrad.ops.reduce.sums import any as _any
from nbgrad.ops.reduce.sums import sum as _sum
from nbgrad.ops.views.copy import full, to_dtype, zeros
from nbgrad.ops.views.order import movedim
from nbgrad.ops.views.shape import squeeze, unsqueeze
from nbgrad.ops.views.slices import narrow

_ORDERS = (1.0, -1.0, 2.0, -2.0, math.inf, -math.inf)


def _extreme(lengths: Tensor, dim: int, keepdim: bool, ord: float) -> Tensor:
    """The largest, of none 0; the smallest where the order is negative."""
    if ord > 0:
        return (amax if lengths.shape[dim] else _sum)(lengths, dim, keepdim)
    return amin(lengths, dim, keepdim)


@replayed
def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of matrices, which stand in the two dimensions `dim`: "fro" is the root of the sum of squares, "nuc" the sum of singular
    values; 2 and -2 are the largest and the smallest of them, 1 and -1 the largest and smallest sum of a column's sizes, `inf` and `-inf`
    of a row's.

    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
    tensor(5.)
    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]]), ord=1)
    tensor(4.)
    """
    check_matrices("linalg.matrix_norm", A)
    if not A.dtype.inexact:
        check_floats("linalg.matrix_norm", A)
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    rows, columns = (layout.wrap_dim(d, A.ndim) for d in dims)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})")
    check_real_order("linalg.matrix_norm", ord)
    if ord not in ("fro", "nuc") and (isinstance(ord, str) or abs(ord) not in _ORDERS):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if dtype is not None:
        A = to_dtype(A, dtypes.to_dtype(dtype))
    if ord == "fro":
        result = vector_norm(A, 2, (rows, columns), keepdim)
    elif ord == "nuc" or abs(ord) == 2:
        check_floats("linalg.matrix_norm", A)
        s = svdvals(movedim(A, (rows, columns), (-2, -1)))
        result = _sum(s, -1) if ord == "nuc" else _extreme(s, -1, False, ord)
        for d in sorted((rows, columns)) if keepdim else ():
            result = unsqueeze(result, d)
    else:
        over, along = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = vector_norm(A, 1, over, keepdim)
        along -= not keepdim and along > over
        result = _extreme(sums, along, keepdim, ord)
    return result if out is None else into("linalg_matrix_norm", out, result, (A,))


def linalg_norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    """A norm by its order: with one `dim` that of vectors (`vector_norm`), with two, or of a matrix and an `ord`, that of matrices
    (`matrix_norm`); without an `ord`, the root of the sum of all squares.

    >>> torch.linalg.norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
    tensor(5.)
    >>> torch.linalg.norm(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), dim=1)
    tensor([5., 2.])
    """
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if out is not None:
        return into("linalg_norm", out, linalg_norm(A, ord, dim, keepdim, dtype=dtype), (A,))
    more = {"keepdim": keepdim, "dtype": dtype}
    if ord is None:
        return vector_norm(A, 2, dims, **more)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if isinstance(ord, str):
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, **more)
    if dims is None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if len(dims) == 1 if dims is not None else A.ndim == 1:
        return vector_norm(A, ord, dims, **more)
    return matrix_norm(A, ord, (0, 1) if dims is None else dims, **more)


def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The condition of square matrices: `norm(A, p) * norm(inv(A), p)`, infinite of singular ones. Without `p`, as with 2, the largest
    singular value over the smallest, also where matrices are not square.

    >>> torch.linalg.cond(torch.tensor([[4.0, 0.0], [0.0, 0.5]]))
    tensor(8.)
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    known = p is None or p in ("fro", "nuc") or (number_type(p) is not None and abs(p) in _ORDERS)
    if not known:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if not A.numel():
        result = zeros(A._spec.dense().like(tuple(A.shape)[:-2], dtype=A.dtype.to_real()))
    elif p is None or p in (2, -2):
        s = svdvals(A)
        largest, smallest = narrow(s, -1, 0, 1), narrow(s, -1, s.shape[-1] - 1, 1)
        result = squeeze(e.div(smallest, largest) if p == -2 else e.div(largest, smallest), -1)
    else:
        check_square(f"linalg.cond(ord={p})", A)
        inverse = _inverse(A, None)
        size = _nuclear_norm_of(inverse) if p == "nuc" else matrix_norm(inverse, p)
        result = nan_to_num(e.mul(matrix_norm(A, p), size), math.inf, math.inf, -math.inf)
    return result if out is None else into("linalg_cond", out, result, (A,))


def _nuclear_norm_of(inverse: Tensor) -> Tensor:
    """Infinite where there is no inverse: of infinities nobody finds singular values."""
    none = _any(_any(e.isinf(inverse), -1), -1)
    zero = full(inverse._spec.plain.like(()), 0)
    found = matrix_norm(e.where(unsqueeze(unsqueeze(none, -1), -1), zero, inverse), "nuc")
    return e.where(none, full(found._spec.plain.like(()), math.inf), found)


def _norm(input: Tensor, p: Any, dim: Any, keepdim: bool, out: Tensor | None, dtype: Any) -> Any:
    if isinstance(p, str):
        if p not in ("fro", "nuc"):
            raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
        named = () if dim is None or isinstance(dim, int) else tuple(dim)
        if len(named) > 2 or (p == "nuc" and len(named) == 1):
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, named))}")
        if p == "nuc":
            return matrix_norm(input, "nuc", dim if named else (-2, -1), keepdim, dtype=dtype, out=out)
        p = 2
    if p is not None and number_type(p) is None:
        check("linalg.vector_norm", (input, p, dim, keepdim), {})
    return vector_norm_of(input, 2 if p is None else p, dim, keepdim, dtype, out)


@settled
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Any:
    """The older form of `linalg.norm`: the norm of order `p` of all elements or along `dim`, where "fro" is the root of the sum of squares
    and "nuc" the sum of a matrix's singular values.

    >>> torch.norm(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), dim=1)
    tensor([5., 2.])
    """
    return _norm(input, p, dim, keepdim, out, dtype)


def _norm_of(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return _norm(input, p, dim, keepdim, None, dtype)


_norm_of.__name__, _norm_of.__doc__ = "norm", norm.__doc__
method(settled(_norm_of))


__all__ = ["norm"]
