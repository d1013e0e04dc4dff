"""Singular values and principal components of matrices of low rank, found from products with random matrices (Halko, Martinsson and
Tropp, 2009): PyTorch's `torch.svd_lowrank` and `torch.pca_lowrank`."""

from __future__ import annotations

from nbgrad.core.tensor import Tensor
from nbgrad.linalg import qr, svd
from nbgrad.memory.dtypes import float32
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.make.drawn import randn
from nbgrad.ops.make.filled import ones

__all__ = ["pca_lowrank", "svd_lowrank"]


def get_approximate_basis(A: Tensor, q: int, niter: int | None = 2, M: Tensor | None = None) -> Tensor:
    """`q` columns at right angles that span nearly what the columns of `A - M` span: what these make of random numbers, brought closer
    `niter` times by going there and back."""

    def times(A: Tensor, M: Tensor | None, X: Tensor) -> Tensor:
        found: Tensor = A @ X  # which a sparse one knows, too
        return found if M is None else found - matmul(M, X)

    dtype = A.dtype if A.dtype.inexact else float32
    random = randn(A.shape[-1], q, dtype=dtype, device=A.device)
    Q: Tensor = qr(times(A, M, random)).Q
    for _ in range(2 if niter is None else niter):
        Q = qr(times(A.mH, None if M is None else M.mH, Q)).Q
        Q = qr(times(A, M, Q)).Q
    return Q


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The largest `q` singular values of `A` (or of `A - M`), nearly, with their vectors: `A` is about `U @ diag(S) @ V.mH`. More
    iterations (`niter`) find them better. It draws random numbers; the gradient is that of what it does.

    >>> A = torch.outer(torch.tensor([3.0, 4.0, 0.0]), torch.tensor([0.0, 1.0]))
    >>> U, S, V = torch.svd_lowrank(A, q=1)
    >>> S
    tensor([5.])
    """
    q = 6 if q is None else q
    M = None if M is None else M.broadcast_to(A.shape)
    m, n = A.shape[-2:]
    if m < n:
        A, M = A.mH, None if M is None else M.mH
    Q = get_approximate_basis(A, q, niter, M)
    B = (A.mH @ Q).mH if A.is_sparse else matmul(Q.mH, A)
    U, S, Vh = svd(B if M is None else B - matmul(Q.mH, M), full_matrices=False)
    U, V = matmul(Q, U), Vh.mH
    return (V, S, U) if m < n else (U, S, V)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` principal components of the rows of `A` (6 at most, if `q` is None), nearly: the columns of the third matrix, whose
    variances are `S**2 / (m - 1)` for m rows. With `center` the mean of each column is taken off first.

    >>> U, S, V = torch.pca_lowrank(torch.tensor([[3.0, 1.0], [-3.0, 1.0]]), q=1)
    >>> S, V.abs()
    (tensor([4.2426]), tensor([[1.],
            [0.]]))
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center and A.is_sparse:
        if A.ndim != 2:
            raise ValueError("pca_lowrank input is expected to be 2-dimensional tensor")
        return svd_lowrank(A, q, niter, (A.mH @ ones((m, 1), dtype=A.dtype, device=A.device)).mH / m)
    return svd_lowrank(A - A.mean(dim=(-2,), keepdim=True) if center else A, q, niter)
