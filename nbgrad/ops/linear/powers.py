"""Whole powers of square matrices, and their exponential."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import check_out, differentiable, into
from nbgrad.dispatch.quick import replayed
from nbgrad.dispatch.return_types import EXPECTED
from nbgrad.dispatch.stanza import method
from nbgrad.memory.dtypes import complex128, float64
from nbgrad.ops import pointwise as e
from nbgrad.ops.host.values import of_array
from nbgrad.ops.index.gather import masked_fill
from nbgrad.ops.linear import lapack, solver
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.systems import check_floats, check_square, identity, inv, unread
from nbgrad.ops.pointwise.comparisons import isfinite
from nbgrad.ops.reduce.extremes import amax
from nbgrad.ops.reduce.sums import any as _any
from nbgrad.ops.reduce.sums import sum as _sum
from nbgrad.ops.views.copy import clone, contiguous, full, to_dtype
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.slices import narrow


def linalg_matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """The product of `n` times a square matrix, by squaring: the identity for 0, and that many times the inverse for a negative n.

    >>> torch.linalg.matrix_power(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    check_square("linalg.matrix_power", A)
    if type(n) is not int:
        raise TypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    exact = None if n in (0, 1) else EXPECTED
    if out is not None:
        check_out("linalg_matrix_power", out, A.dtype, (A,), exact)
    result = _power(inv(A) if n < 0 else A, abs(n))
    return result if out is None else into("linalg_matrix_power", out, result, (A,), exact)


def _power(A: Tensor, n: int) -> Tensor:
    """By squaring, and by PyTorch's order of the products."""
    if n == 0:
        eye = identity(A, A.shape[-1])
        return clone(A).copy_(eye)
    if n == 1:
        return clone(A)
    if n == 3:
        return matmul(matmul(A, A), A)
    square: Tensor | None = None
    result: Tensor | None = None
    while n:
        square = A if square is None else matmul(square, square)
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
    assert result is not None
    return result


@method
@replayed
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """The product of `n` times a square matrix, as `linalg.matrix_power`.

    >>> torch.matrix_power(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), -2)
    tensor([[ 1., -2.],
            [ 0.,  1.]])
    """
    return linalg_matrix_power(input, n, out=out)


def _exponential_moved(A: Tensor, t: Tensor) -> Tensor:
    """The exponential of [[A, t], [0, A]] has in its upper right block how that of A moves with t."""

    n = A.shape[-1]
    bottom = cat([full(A._spec.dense(), 0), A], -1)
    whole = _exponential(cat([cat([A, t], -1), bottom], -2))
    return narrow(narrow(whole, -2, 0, n), -1, n, n)


# Pade's approximation of this degree is exact to float64 for a norm of up to 5.4; the matrix is halved until it is there.
_PADE: tuple[float, ...] = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0),
    *(
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ),
)


def _halvings(norm: float) -> int:
    return max(0, int(np.ceil(np.log2(norm / 5.371920351148152)))) if norm else 0


def _approximation(a: Any, a2: Any, a4: Any, a6: Any, eye: Any, product: Any) -> tuple[Any, Any]:
    """The odd and the even part of numerator and denominator."""
    b = _PADE
    odd = product(
        a,
        product(a6, b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye,
    )
    even = product(a6, b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    return odd, even


def _exponential_there(A: Tensor) -> Tensor:
    """Of matrices on a device, whose norm is read once."""
    if not A.numel():
        return clone(A)
    a = to_dtype(A, float64)
    bad = _any(e.logical_not(isfinite(a)), (-2, -1), True)
    a = masked_fill(a, bad, 0)
    halvings = _halvings(amax(_sum(e.abs(a), -2)).item())
    a = e.mul(a, 2.0**-halvings)
    a2 = matmul(a, a)
    a4 = matmul(a2, a2)
    odd, even = _approximation(a, a2, a4, matmul(a4, a2), identity(a, a.shape[-1]), matmul)
    found, _ = solver.solution(even - odd, even + odd)
    for _ in range(halvings):
        found = matmul(found, found)
    return to_dtype(contiguous(masked_fill(found, bad, float("nan"))), A.dtype)


@lapack.threaded
def _exponential_of(a: Any) -> Any:
    a = a.copy()
    bad = ~np.isfinite(a).all((-2, -1))
    a[bad] = 0
    norm = np.abs(a).sum(-2).max()
    halvings = _halvings(norm)
    a = a / 2.0**halvings
    eye = np.eye(a.shape[-1])
    with lapack.quiet():
        a2 = a @ a
        a4 = a2 @ a2
        odd, even = _approximation(a, a2, a4, a4 @ a2, eye, np.matmul)
        found = np.linalg.solve(even - odd, even + odd)
        for _ in range(halvings):
            found = found @ found
        found[bad] = np.nan
    return found


@differentiable(
    "LinalgMatrixExp",
    tangent=lambda t, A: _exponential_moved(A, t),
    batch=lambda x: _exponential(x),
    A=lambda g, A: _exponential_moved(A.mT, g),
)
def _exponential(A: Tensor) -> Tensor:
    if unread("linalg.matrix_exp", A, asks=True):
        return empty(A._spec.dense())
    if not A.is_cpu:
        return _exponential_there(A)
    a = to_dtype(A, complex128 if A.dtype.is_complex else float64)._host()
    if not a.size:
        return clone(A)
    return to_dtype(of_array(_exponential_of(a)), A.dtype)


def linalg_matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices, the sum of `A^k / k!` over all k: not that of the elements. The gradient is read off the
    exponential of a matrix of twice the size.

    >>> torch.linalg.matrix_exp(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    check_square("linalg.matrix_exp", A)
    check_floats("linalg.matrix_exp", A, narrow=True)
    return _exponential(A)


@method
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of square matrices, as `linalg.matrix_exp`.

    >>> torch.matrix_exp(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return linalg_matrix_exp(input)


__all__ = ["matrix_exp", "matrix_power"]
