"""Symmetric matrices, definite or not, as L D L^T with row exchanges, D having blocks of 1 or 2 rows (Bunch and Kaufman), and systems
solved with them; or Hermitian ones as L D L^H. PyTorch has no gradient of these."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.return_types import results
from nbgrad.memory import dtypes
from nbgrad.ops.host.values import of_array
from nbgrad.ops.linear import lapack
from nbgrad.ops.linear.systems import bare, by_columns, check_floats, check_square, unread

_Array = np.ndarray[Any, Any]
_SHARE = (1 + sqrt(17)) / 8  # of a column's largest number, from which on the diagonal's is good enough


def _no_derivative(name: str) -> Callable[..., Any]:
    def refuse(g: Any) -> None:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return refuse


def _as_it_is(x: Any) -> Any:
    return x


_Mirror = Callable[[Any], Any]  # what stands on the other side of the diagonal


def _mirror(hermitian: bool) -> _Mirror:
    return np.conj if hermitian else _as_it_is


def _size(x: Any) -> Any:
    """By which LAPACK compares numbers."""
    return np.abs(x.real) + np.abs(x.imag)


def _block(a: _Array, k: int, mirror: _Mirror) -> _Array:
    return np.array([[a[k, k], mirror(a[k + 1, k])], [a[k + 1, k], a[k + 1, k + 1]]])


def _exchange(a: _Array, k: int, other: int, two: bool, mirror: _Mirror) -> None:
    """Rows and columns k and a later one, of the lower triangle of what is left; of a block of two also what stands before k."""
    a[other + 1 :, [k, other]] = a[other + 1 :, [other, k]]
    between = slice(k + 1, other)
    a[between, k], a[other, between] = mirror(a[other, between].copy()), mirror(a[between, k].copy())
    if other > k:
        a[other, k] = mirror(a[other, k])
    a[k, k], a[other, other] = a[other, other], a[k, k]
    if two:
        a[k, k - 1], a[other, k - 1] = a[other, k - 1], a[k, k - 1]


def _pivot(a: _Array, k: int) -> tuple[int, int]:
    """Which row comes to the place of the block's last one, and how many rows the block has; 0 if all is 0 below."""
    here, column = _size(a[k, k]), _size(a[k + 1 :, k])
    best = k + 1 + int(column.argmax()) if len(column) else k
    largest = column.max(initial=0)
    if np.isnan(here) or max(here, largest) == 0:
        return k, 0
    if here >= _SHARE * largest:
        return k, 1
    row = max(_size(a[best, k:best]).max(initial=0), _size(a[best + 1 :, best]).max(initial=0))
    if here >= _SHARE * largest * (largest / row):
        return k, 1
    return best, 1 if _size(a[best, best]) >= _SHARE * row else 2


def _one(a: _Array, hermitian: bool) -> tuple[_Array, int]:
    """The factors of a matrix in the place of its lower triangle; the exchanges, as LAPACK notes them; the first block that is 0."""
    n, k, info = len(a), 0, 0
    pivots, mirror = np.zeros(n, np.int32), _mirror(hermitian)
    while k < n:
        if hermitian:
            a.flat[k * (n + 1) :: n + 1] = a.diagonal()[k:].real
        other, size = _pivot(a, k)
        info = info or (0 if size else k + 1)
        last = k + max(size, 1)
        if other != last - 1:
            _exchange(a, last - 1, other, size == 2, mirror)
        if size == 1 and last < n:
            x = a[last:, k].copy()
            a[last:, k] = x / a[k, k]
            a[last:, last:] -= np.tril(np.outer(a[last:, k], mirror(x)))
        elif size == 2 and last < n:
            x = a[last:, k:last].copy()
            a[last:, k:last] = x @ np.linalg.inv(_block(a, k, mirror))
            a[last:, last:] -= np.tril(a[last:, k:last] @ mirror(x).T)
        pivots[k:last] = -(other + 1) if size == 2 else other + 1
        k = last
    return pivots, info


@differentiable("LinalgLdlFactorEx", input=_no_derivative("linalg_ldl_factor_ex"))
def _factor(input: Tensor, *, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    batch, n = tuple(input.shape)[:-2], input.shape[-1]
    if unread("linalg.ldl_factor_ex", input):
        ints = [bare(input, shape, dtype=dtypes.int32) for shape in ((*batch, n), batch)]
        return bare(input, input.shape, columns=True), ints[0], ints[1]
    factors = np.tril(input._host())
    pivots, infos = np.zeros((*batch, n), np.int32), np.zeros(batch, np.int32)
    with lapack.quiet():
        for at in np.ndindex(batch):
            pivots[at], infos[at] = _one(factors[at], hermitian)
    return by_columns(factors), of_array(pivots), of_array(infos)


def _factored(name: str, A: Tensor, hermitian: bool, refuse: bool) -> tuple[Tensor, Tensor, Tensor]:
    check_square("torch.linalg.ldl_factor_ex", A)
    check_floats("torch.linalg.ldl_factor_ex", A, "ldl_factor_kernel_cpu")
    parts = _factor(A, hermitian=hermitian)
    if refuse and not A.is_meta and parts[2]._host().any():
        infos = parts[2]._host()
        where = f"(Batch element {lapack.first(infos)}): " if infos.ndim else ""
        raise RuntimeError(
            f"torch.linalg.{name}: {where}D[{infos.reshape(-1)[infos.any() and lapack.first(infos)] - 1}] is zero and using it on "
            "ldl_solve would result in a division by zero."
        )
    return parts


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """`ldl_factor` that refuses nothing, and says in `info` which block of D, counted from 1, is 0, or 0 if none is.

    >>> torch.linalg.ldl_factor_ex(torch.zeros(1, 1)).info
    tensor(1, dtype=torch.int32)
    """
    return results("linalg_ldl_factor_ex", _factored("ldl_factor_ex", A, hermitian, check_errors), out, (A,))


def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """The factors of symmetric matrices, of which the lower triangle is read: L below the blocks of D, on whose diagonal it is 1; and
    `pivots`, the row, counted from 1, that each was exchanged with, negative in a block of two. `hermitian` says that they are
    Hermitian, which of real numbers is the same.

    >>> torch.linalg.ldl_factor(torch.tensor([[2.0, 1.0], [1.0, 3.0]]))
    torch.return_types.linalg_ldl_factor(
    LD=tensor([[2.0000, 0.0000],
            [0.5000, 2.5000]]),
    pivots=tensor([1, 2], dtype=torch.int32))
    """
    return results("linalg_ldl_factor", _factored("ldl_factor", A, hermitian, True)[:2], out, (A,))


def _solve_one(a: _Array, pivots: _Array, x: _Array, mirror: _Mirror) -> None:
    n, k = len(a), 0
    steps = []
    while k < n:
        size = 2 if pivots[k] < 0 else 1
        last, other = k + size, abs(int(pivots[k])) - 1
        x[[last - 1, other]] = x[[other, last - 1]]
        x[last:] -= a[last:, k:last] @ x[k:last]
        steps.append((k, last, other))
        k = last
    for k, last, _ in reversed(steps):
        if last - k == 2:
            x[k:last] = np.linalg.inv(_block(a, k, mirror)) @ x[k:last]
        else:
            x[k] /= a[k, k]
    for k, last, other in reversed(steps):
        x[k:last] -= mirror(a[last:, k:last]).T @ x[last:]
        x[[last - 1, other]] = x[[other, last - 1]]


@differentiable("LinalgLdlSolve", LD=_no_derivative("linalg_ldl_solve"), B=_no_derivative("linalg_ldl_solve"))
def _solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool) -> Tensor:
    n = LD.shape[-1]
    batch = np.broadcast_shapes(tuple(LD.shape)[:-2], tuple(B.shape)[:-2])
    if unread("linalg.ldl_solve", LD, B):
        return bare(B, (*batch, n, B.shape[-1]), columns=True)
    if pivots.numel():
        _check_pivots(np.atleast_2d(pivots._host()), n)
    a = np.broadcast_to(LD._host(), (*batch, n, n))
    steps = np.broadcast_to(pivots._host(), (*batch, n))
    x = np.broadcast_to(B._host(), (*batch, n, B.shape[-1])).copy()
    with lapack.quiet():
        for at in np.ndindex(batch):
            _solve_one(a[at], steps[at], x[at], _mirror(hermitian))
    return by_columns(x)


def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """The X of `A @ X = B`, of which `ldl_factor` found `LD` and `pivots`, with the same `hermitian`.

    >>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[2.0, 1.0], [1.0, 3.0]]))
    >>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[3.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    check_square("torch.linalg.ldl_solve", LD)
    if B.ndim < 2:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead"
        )
    if tuple(pivots.shape) != tuple(LD.shape)[:-1]:
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.dtype.is_floating_point or pivots.dtype is dtypes.bool_:
        raise RuntimeError(
            f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {pivots.dtype.scalar_name}"
        )
    if LD.dtype is not B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {B.dtype.scalar_name} and A of type "
            f"{LD.dtype.scalar_name} instead."
        )
    check_floats("torch.linalg.ldl_solve", LD, "ldl_solve_kernel_cpu")
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {LD.shape[-2]} by {LD.shape[-1]} but each b matrix "
            f"is {B.shape[-2]} by {B.shape[-1]}"
        )
    result = _solve(LD, pivots, B, hermitian=hermitian)
    return result if out is None else into("linalg_ldl_solve", out, result, (LD, B))


def _check_pivots(pivots: _Array, n: int) -> None:
    if np.abs(pivots).max() > n:
        raise RuntimeError(
            "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2). Did you properly pass the result of ldl_factor?"
        )
    for row in pivots.reshape(-1, n).tolist():  # each comes by itself or, negative, in twos
        k = 0
        while k < n:
            k += 2 if row[k] < 0 else 1
        if k > n or 0 in row:
            raise RuntimeError(
                "Pivots given to ldl_solve must not be 0 and be negative in twos. Did you properly pass the result of ldl_factor?"
            )


__all__: list[str] = []
