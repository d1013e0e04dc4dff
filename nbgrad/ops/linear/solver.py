"""LAPACK's part of linear algebra for matrices on a device, asked of its library where it has one.

Promises what `lapack.py` does of the host's, on tensors: matrices in any layout, which are left alone, and results that lie by columns, as
PyTorch's do. Nothing waits: where a matrix failed stands in its `info`, on the device.
"""

from __future__ import annotations

from math import prod
from typing import Any

from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.kernels.cuda.solver import AS_IT_IS, LOWER, TURNED, UPPER
from nbgrad.memory import dtypes
from nbgrad.ops.arrange.orders import tril, triu
from nbgrad.ops.views.copy import contiguous, copy_memory, dense_copy, zeros
from nbgrad.ops.views.slices import narrow


def has(t: Tensor) -> bool:
    """Whether a tensor is on a device that has such a library, whose routines of complex matrices nothing here asks."""
    served: Any = t._spec.backend
    return not (t.is_cpu or t._spec.dtype.is_complex) and served.holds and served.driver.solver is not None


def by_columns_of(t: Tensor) -> Tensor:
    """The transposed matrices, as if they lay so from the start."""
    *batch, down, along = t._spec.strides
    *sizes, rows, columns = tuple(t.shape)
    return wrap(t._buf, t._spec.like((*sizes, columns, rows), (*batch, along, down)))


def _columns(like: Tensor, rows: int, columns: int) -> Tensor:
    return by_columns_of(_like(like, columns, rows))


def _like(like: Tensor, *sizes: int, dtype: dtypes.dtype | None = None) -> Tensor:
    """Memory for so much of each matrix."""
    return empty(like._spec.plain.like((*tuple(like.shape)[:-2], *sizes), dtype=dtype))


def by_columns(t: Tensor) -> Tensor:
    """A copy that lies by columns."""
    made = _columns(t, *tuple(t.shape)[-2:])
    copy_memory(made, t)
    return made


def _ask(routine: str, numbers: dict[str, int], **tensors: Tensor) -> Tensor:
    """Of each matrix of a batch, of which every tensor has a share; and what is said of them."""
    first = next(iter(tensors.values()))
    count = prod(tuple(first.shape)[:-2])
    infos = zeros(first._spec.plain.like(tuple(first.shape)[:-2], dtype=dtypes.int32))
    if first.numel():
        served: Any = first._spec.backend
        shares = {name: t.numel() // count * t.dtype.itemsize for name, t in tensors.items()}
        shares["info"] = infos.dtype.itemsize
        begin = {name: t._buf.address for name, t in {**tensors, "info": infos}.items()}
        places = [{name: begin[name] + k * share for name, share in shares.items()} for k in range(count)]
        served.factor(routine, first.dtype.code, numbers, places)
    return infos


def factored(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """L and U in one, the row that each step exchanges with, and the first pivot that is 0."""
    rows, columns = tuple(A.shape)[-2:]
    LU, pivots = by_columns(A), _like(A, min(rows, columns), dtype=dtypes.int32)
    infos = _ask("getrf", {"rows": rows, "columns": columns, "ld": rows}, A=LU, pivots=pivots)
    return LU, pivots, infos


def solution(A: Tensor, B: Tensor, left: bool = True) -> tuple[Tensor, Tensor]:
    """X of A X = B, or of X A = B, whose batch dimensions are the same."""
    LU, pivots, infos = factored(A)
    X = by_columns(B if left else by_columns_of(B))
    rows, columns = tuple(X.shape)[-2:]
    if columns:
        numbers = {"rows": rows, "columns": columns, "ld": rows, "ldB": rows}
        _ask("getrs", {"turned": AS_IT_IS if left else TURNED, **numbers}, A=LU, pivots=pivots, B=X)
    return X if left else by_columns_of(X), infos


def triangular(A: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    """X of A X = B, or of X A = B. The library reads what lies by rows as the transposed matrix."""
    X = by_columns(B) if left else dense_copy(B)
    n, columns = tuple(A.shape)[-1], X.shape[-1 if left else -2]
    if columns:
        numbers = {"part": LOWER if upper else UPPER, "turned": TURNED if left else AS_IT_IS}
        sizes = {"rows": n, "columns": columns, "ld": n, "ldB": n}
        _ask("trsm", {**numbers, **sizes, "unit": int(unitriangular)}, A=contiguous(A), B=X)
    return X


def cholesky(A: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """The factors, and the size of the first corner that is not positive."""
    made, n = by_columns(triu(A) if upper else tril(A)), A.shape[-1]
    infos = _ask("potrf", {"part": UPPER if upper else LOWER, "rows": n, "ld": n}, A=made)
    return made, infos


def reflections(A: Tensor) -> tuple[Tensor, Tensor]:
    """R, below it the vectors of reflections, and their factors."""
    rows, columns = tuple(A.shape)[-2:]
    made, tau = by_columns(A), _like(A, min(rows, columns))
    _ask("geqrf", {"rows": rows, "columns": columns, "ld": rows}, A=made, tau=tau)
    return made, tau


def qr(A: Tensor, mode: str) -> tuple[Tensor | None, Tensor]:
    made, tau = reflections(A)
    rows, columns = tuple(A.shape)[-2:]
    depth = min(rows, columns)
    wide = rows if mode == "complete" else depth
    R = by_columns(triu(narrow(made, -2, 0, wide)))
    if mode == "r":
        return None, R
    Q = by_columns_of(zeros(A._spec.plain.like((*tuple(A.shape)[:-2], wide, rows))))
    copy_memory(narrow(Q, -1, 0, depth), narrow(made, -1, 0, depth))
    _ask("orgqr", {"rows": rows, "columns": wide, "depth": depth, "ld": rows}, A=Q, tau=tau)
    return Q, R


def eigh(A: Tensor, uplo: str) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues, their vectors, and which were not found."""
    vectors, n = by_columns(A), A.shape[-1]
    values = _like(A, n)
    numbers = {"vectors": 1, "part": UPPER if uplo == "U" else LOWER, "rows": n, "ld": n}
    infos = _ask("syevd", numbers, A=vectors, values=values)
    return values, vectors, infos


def svd(A: Tensor, whole: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Singular vectors and values, and which were not found. The library takes no matrix that is wider than high."""
    rows, columns = tuple(A.shape)[-2:]
    if rows < columns:
        U, values, Vh, infos = svd(by_columns_of(A), whole)
        return by_columns(by_columns_of(Vh)), values, by_columns(by_columns_of(U)), infos
    wide, how = (rows, ord("A")) if whole else (columns, ord("S"))
    U, values, Vh = _columns(A, rows, wide), _like(A, columns), _columns(A, columns, columns)
    numbers = {"left": how, "right": how, "rows": rows, "columns": columns, "rest": 0}
    lines = {"ld": rows, "ldU": rows, "ldV": max(columns, 1)}
    infos = _ask("gesvd", numbers | lines, A=by_columns(A), values=values, U=U, V=Vh)
    return U, values, Vh, infos


def exchanged(pivots: Tensor, eye: Tensor) -> Tensor:
    """P of A = P L U, of a batch of ones that is written over. By columns it is the transposed one whose rows are exchanged."""
    rows, steps = eye.shape[-1], pivots.shape[-1]
    if steps:
        numbers = {"columns": rows, "ld": rows, "first": 1, "last": steps, "step": 1}
        _ask("laswp", numbers, A=eye, pivots=pivots)
    return eye
