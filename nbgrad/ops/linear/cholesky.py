"""Cholesky factors of batches of positive-definite matrices, and what is solved with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable, into, undifferentiable
from nbgrad.dispatch.quick import quickly
from nbgrad.dispatch.return_types import results
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.orders import tril
from nbgrad.ops.host.values import of_array
from nbgrad.ops.linear import lapack, small, solver
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.systems import (
    _NO_INVERSE,
    _broadcast,
    _refuse_failed,
    _refused,
    _solve_triangular,
    bare,
    by_columns,
    check_floats,
    check_square,
    identity,
    unread,
)
from nbgrad.ops.views.shape import expand

_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order "
    "{info} is not positive-definite)."
)


def _cholesky_back(g: Tensor, y: Tensor, upper: bool) -> Tensor:
    low, grad = (y.mH, g.mH) if upper else (y, g)
    product = matmul(low.mH, grad)
    half = e.mul(e.add(tril(product), tril(product, -1).mH), 0.5)
    lower: dict[str, Any] = {"unitriangular": False}
    left = _solve_triangular(low.mH, half, upper=True, left=True, **lower)
    return _solve_triangular(low, left, upper=False, left=False, **lower)


def _cholesky_op(node_name: str) -> Callable[..., Tensor]:
    @differentiable(
        node_name,
        holomorphic=False,
        batch=lambda x, upper, name: factor(x, upper=upper, name=name),
        A=_cholesky_back,
    )
    def factor(A: Tensor, *, upper: bool, name: str | None) -> Tensor:
        """What has no factor is refused in the words of the function of that `name`, if any."""
        if unread("linalg.cholesky", A, asks=True):
            return bare(A, A.shape, columns=True)
        if not A.is_cpu:
            made, at = solver.cholesky(A, upper)
            _refuse_failed(name, at, _NOT_POSITIVE)
            return made
        low, infos = lapack.cholesky(lapack.adjoint(A._host()) if upper else A._host())
        if name is not None and infos.any():
            raise _refused(name, infos, _NOT_POSITIVE)
        return by_columns(lapack.adjoint(low) if upper else low)

    return factor


_cholesky, _old_cholesky = _cholesky_op("LinalgCholeskyEx"), _cholesky_op("Cholesky")


def _checked_cholesky(A: Tensor, upper: bool, name: str | None) -> Tensor:
    check_square("linalg.cholesky", A)
    check_floats("linalg.cholesky", A, "cholesky_cpu")
    return _cholesky(A, upper=upper, name=name)


@quickly(small.cholesky)
def linalg_cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangle L of `A = L @ L.mH`, of symmetric (Hermitian) matrices whose eigenvalues are positive: others are refused. With
    `upper` it is `L.mH` instead. Only the lower triangle of A is read (or the upper); its gradient is symmetric.

    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    result = _checked_cholesky(A, upper, "linalg.cholesky")
    return result if out is None else into("linalg_cholesky", out, result, (A,))


@quickly(small.cholesky_ex)
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """`cholesky` that refuses nothing, and says in `info` what went wrong: the size of the first corner that is not positive, or 0. With
    `check_errors` it refuses that all the same.

    >>> torch.linalg.cholesky_ex(torch.tensor([[4.0, 0.0], [0.0, -1.0]])).info
    tensor(2, dtype=torch.int32)
    """
    found = _checked_cholesky(A, upper, "linalg.cholesky_ex" if check_errors else None)
    return results("linalg_cholesky_ex", (found, _unfactored(A, found.detach(), upper=upper)), out, (A,))


@undifferentiable(batch=lambda has, A, found, upper: _unfactored(A, found, upper=upper))
def _unfactored(A: Tensor, found: Tensor, *, upper: bool) -> Tensor:
    """For each matrix what LAPACK tells of it: the size of the first corner that is not positive, or 0."""
    if unread("linalg.cholesky", A, asks=True):
        return bare(A, tuple(A.shape)[:-2], dtype=dtypes.int32)
    if not A.is_cpu:
        return solver.cholesky(A.detach(), upper)[1]
    pivots = found._host().diagonal(0, -2, -1).real
    if (pivots > 0).all():
        return of_array(np.zeros(pivots.shape[:-1], np.int32))
    a = A.detach()._host()
    return of_array(lapack.cholesky(lapack.adjoint(a) if upper else a)[1])


@method
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The older form of `linalg.cholesky`; better written so:

    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    warn(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\n"
        "L = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\n"
        "U = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\n"
        "This transform will produce equivalent results for all valid (symmetric positive definite) inputs."
    )
    check_square("cholesky", input)
    check_floats("cholesky", input, "cholesky_cpu")
    result = _old_cholesky(input, upper=upper, name="cholesky")
    return result if out is None else into("cholesky", out, result, (input,))


def _solve_factored_back(g: Tensor, L: Tensor, y: Tensor, upper: bool, wanted: Any) -> list[Tensor | None]:
    back = _solve_factored(g, L, upper=upper)
    if not wanted[1]:
        return [back, None]
    product = matmul(back, y.mH)
    whole = e.neg(e.add(product, product.mH))
    return [back, matmul(L, whole) if upper else matmul(whole, L)]  # of the whole, as in PyTorch


@differentiable("CholeskySolve", holomorphic=False, all=_solve_factored_back)
def _solve_factored(B: Tensor, L: Tensor, *, upper: bool) -> Tensor:
    low = L.mH if upper else L
    half = _solve_triangular(low, B, upper=False, left=True, unitriangular=False)
    return _solve_triangular(low.mH, half, upper=True, left=True, unitriangular=False)


@method
@quickly(small.cholesky_solve)
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The X of `A @ X = B`, where `A = L @ L.mH` and L is given, or, with `upper`, `L.mH`.

    >>> L = torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> torch.cholesky_solve(torch.tensor([[8.0], [12.0]]), L)
    tensor([[1.],
            [2.]])
    """
    for word, t in (("b", B), ("u", L)):
        if t.ndim < 2:
            raise RuntimeError(
                f"{word} should have at least 2 dimensions, but has {t.ndim} dimensions instead"
            )
    if L.dtype is not B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {B.dtype.scalar_name} and A of type "
            f"{L.dtype.scalar_name} instead."
        )
    rows, columns = L.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"A must be batches of square matrices, but they are {rows} by {columns} matrices")
    if rows != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {rows} by {rows} but each b matrix "
            f"is {B.shape[-2]} by {B.shape[-1]}"
        )
    L, B = _broadcast(L, B, False)
    result = _solve_factored(B, L, upper=upper)
    return result if out is None else into("cholesky_solve", out, result, (B, L))


def _invert_factored_back(g: Tensor, L: Tensor, y: Tensor, upper: bool) -> Tensor:
    whole = e.neg(matmul(matmul(y, e.add(g, g.mH)), y))
    return matmul(L, whole) if upper else matmul(whole, L)  # of the whole, as in PyTorch


@differentiable(
    "CholeskyInverse",
    holomorphic=False,
    batch=lambda x, upper: _invert_factored(x, upper=upper),
    L=_invert_factored_back,
)
def _invert_factored(L: Tensor, *, upper: bool) -> Tensor:
    if L.is_cpu and L.ndim >= 2:
        zero = np.diagonal(L._host(), axis1=-2, axis2=-1) == 0
        if zero.any():
            raise _refused("cholesky_inverse", (zero.argmax(-1) + 1) * zero.any(-1), _NO_INVERSE)
    eye = identity(L, L.shape[-1])
    return _solve_factored(expand(eye, L.shape), L, upper=upper)


@method
@quickly(small.cholesky_inverse)
def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `A = L @ L.mH`, of which L is given, or, with `upper`, `L.mH`.

    >>> torch.cholesky_inverse(torch.tensor([[2.0, 0.0], [1.0, 2.0]]))
    tensor([[ 0.3125, -0.1250],
            [-0.1250,  0.2500]])
    """
    check_square("cholesky_inverse", L)
    result = _invert_factored(L, upper=upper)
    return result if out is None else into("cholesky_inverse", out, result, (L,))


__all__ = ["cholesky", "cholesky_inverse", "cholesky_solve"]
