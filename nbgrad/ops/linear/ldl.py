"""Symmetric matrices, definite or not, as L D L^T with row exchanges, D having blocks of 1 or 2 rows (Bunch and Kaufman), and systems
solved with them; or Hermitian ones as L D L^H. PyTorch has no gradient of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.quick import quickly
from nbgrad.dispatch.return_types import results
from nbgrad.dispatch.transforms import innermost
from nbgrad.memory import dtypes
from nbgrad.ops.host.values import of_array
from nbgrad.ops.linear import lapack, small
from nbgrad.ops.linear.systems import bare, by_columns, check_floats, check_square, unread

_Array = np.ndarray[Any, Any]


def _no_derivative(name: str) -> Callable[..., Any]:
    def refuse(g: Any) -> None:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return refuse


@differentiable("LinalgLdlFactorEx", input=_no_derivative("linalg_ldl_factor_ex"))
def _factor(input: Tensor, *, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    batch, n = tuple(input.shape)[:-2], input.shape[-1]
    if unread("linalg.ldl_factor_ex", input):
        ints = [bare(input, shape, dtype=dtypes.int32) for shape in ((*batch, n), batch)]
        return bare(input, input.shape, columns=True), ints[0], ints[1]
    factors, pivots, infos = lapack.symmetric(input._host(), hermitian)
    return by_columns(factors), of_array(pivots), of_array(infos.astype(np.int32))


def _factored(name: str, A: Tensor, hermitian: bool, refuse: bool) -> tuple[Tensor, Tensor, Tensor]:
    check_square("torch.linalg.ldl_factor_ex", A)
    check_floats("torch.linalg.ldl_factor_ex", A, "ldl_factor_kernel_cpu")
    parts = _factor(A, hermitian=hermitian)
    if refuse and not A.is_meta and (infos := innermost(parts[2])._host()).any():
        where = f"(Batch element {lapack.first(infos)}): " if infos.ndim else ""
        raise RuntimeError(
            f"torch.linalg.{name}: {where}D[{infos.reshape(-1)[infos.any() and lapack.first(infos)] - 1}] is zero and using it on "
            "ldl_solve would result in a division by zero."
        )
    return parts


@quickly(small.ldl_factor_ex)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """`ldl_factor` that refuses nothing, and says in `info` which block of D, counted from 1, is 0, or 0 if none is.

    >>> torch.linalg.ldl_factor_ex(torch.zeros(1, 1)).info
    tensor(1, dtype=torch.int32)
    """
    return results("linalg_ldl_factor_ex", _factored("ldl_factor_ex", A, hermitian, check_errors), out, (A,))


@quickly(small.ldl_factor)
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


@differentiable("LinalgLdlSolve", LD=_no_derivative("linalg_ldl_solve"), B=_no_derivative("linalg_ldl_solve"))
def _solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool) -> Tensor:
    n = LD.shape[-1]
    batch = np.broadcast_shapes(tuple(LD.shape)[:-2], tuple(B.shape)[:-2])
    if unread("linalg.ldl_solve", LD, B):
        return bare(B, (*batch, n, B.shape[-1]), columns=True)
    if pivots.numel():
        _check_pivots(np.atleast_2d(pivots._host()), n)
    a, steps = np.broadcast_to(LD._host(), (*batch, n, n)), np.broadcast_to(pivots._host(), (*batch, n))
    x, _ = lapack.symmetric_solution(a, steps, np.broadcast_to(B._host(), (*batch, *B.shape[-2:])), hermitian)
    return by_columns(x)


@quickly(small.ldl_solve)
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
