"""NumPy's LAPACK on batches of matrices, where each matrix stands for itself.

NumPy gives up a batch for one singular matrix, warns of what is not finite, and its LAPACK finds numbers where PyTorch's finds none, or
never ends. Here a matrix that fails leaves the others alone: what it has is what LAPACK would leave, and an `info` per matrix (0: none)
says where it failed. What holds infinities or NaN goes to no routine that iterates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import _umath_linalg as _lapack

Array = np.ndarray[Any, Any]

# `_lapack` is what NumPy's functions call, in float64, once they have looked at their arguments, which here are matrices of one dtype:
# that look takes longer than a small matrix does. Of one that fails it leaves NaN, and what is not finite goes the other way.


def quiet() -> np.errstate:
    """Without NumPy's warnings: for a block of lines, or a function."""
    return np.errstate(all="ignore")


def _any(wrong: Array) -> Array:
    """Of each matrix, whether an element is so."""
    return np.asarray(wrong.any((-2, -1)))


def _flat(a: Array) -> Array:
    return a.reshape(-1, *a.shape[-2:])


# ---------------------------------------------------------------- elimination


@quiet()
def eliminated(matrices: Array) -> tuple[Array, Array, Array]:
    """L below the diagonal and U from it on, in one; the row that each step exchanges with, from 1; the first pivot that is 0."""
    a = (
        _flat(matrices).copy()
        if matrices.size
        else np.zeros((int(np.prod(matrices.shape[:-2])), *matrices.shape[-2:]), matrices.dtype)
    )
    count, rows, columns = a.shape
    steps, every = min(rows, columns), np.arange(count)
    pivots = np.zeros((count, steps), np.int32)
    for k in range(steps):
        size = np.abs(a[:, k:, k])
        size[:, 1:][
            np.isnan(size[:, 1:])
        ] = -1  # no comparison finds a NaN, but the first is where the search begins
        size[np.isnan(size[:, 0]), 0] = np.inf
        best = k + size.argmax(1) if count else every
        pivots[:, k] = best + 1
        a[every, k], a[every, best] = a[every, best], a[every, k].copy()
        divisor = np.where(a[:, k, k] == 0, 1, a[:, k, k])
        a[:, k + 1 :, k] /= divisor[:, None]
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, None, k, k + 1 :]
    zero = a[:, range(steps), range(steps)] == 0
    infos = np.where(zero.any(1), zero.argmax(1) + 1, 0) if steps else np.zeros(count)
    batch = matrices.shape[:-2]
    return a.reshape(matrices.shape), pivots.reshape(*batch, steps), infos.astype(np.int32).reshape(batch)


@quiet()
def substituted(a: Array, b: Array, upper: bool) -> Array:
    """Row by row, with infinities where a pivot is 0, as LAPACK's triangular solver leaves them."""
    x = b.copy()
    n = a.shape[-1]
    for k in range(n)[:: -1 if upper else 1]:
        known = slice(k + 1, n) if upper else slice(0, k)
        x[..., k, :] -= (a[..., k, known, None] * x[..., known, :]).sum(-2)
        x[..., k, :] /= a[..., k, k, None]
    return x


def _solve_singular(a: Array, b: Array) -> tuple[Array, int]:
    lu, pivots, info = eliminated(a)
    x = b.copy()
    for k, other in enumerate(pivots - 1):
        x[[k, other]] = x[[other, k]]
    unit = np.tril(lu, -1) + np.eye(len(lu), dtype=lu.dtype)
    return substituted(lu, substituted(unit, x, False), True), int(info) or len(lu)


@quiet()
def solve(a: Array, b: Array) -> tuple[Array, Array]:
    """X of A X = B, whose batch dimensions are the same."""
    infos = np.zeros(a.shape[:-2], np.int32)
    x = _lapack.solve(a, b, signature="dd->d").astype(b.dtype, copy=False)
    if np.isfinite(x).all():
        return x, infos
    try:
        x = np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        x = np.empty_like(b)
        for k in np.ndindex(infos.shape):
            try:
                x[k] = np.linalg.solve(a[k], b[k])
            except np.linalg.LinAlgError:
                x[k], infos[k] = _solve_singular(a[k], b[k])
    if not np.isfinite(x).all():
        x[_any(np.isnan(a))] = np.nan
    return x, infos


@quiet()
def inverse(a: Array) -> tuple[Array, Array]:
    x = _lapack.inv(a, signature="d->d").astype(a.dtype, copy=False)
    if np.isfinite(x).all():
        return x, np.zeros(a.shape[:-2], np.int32)
    return solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))


def det(a: Array) -> Array:
    with quiet():
        return np.asarray(np.linalg.det(a))


def slogdet(a: Array) -> tuple[Array, Array]:
    with quiet():
        sign, size = (np.asarray(part) for part in np.linalg.slogdet(a))
    return np.where(np.isnan(size), sign.dtype.type(0), sign), size


# ---------------------------------------------------------------- Cholesky factors


@quiet()
def _begun(a: Array) -> tuple[Array, int]:
    """The factor as far as it goes, column by column, and the column whose pivot is not positive; the rest is as it was."""
    low = np.tril(a)
    for k in range(len(low)):
        low[k, k] -= low[k, :k] @ low[k, :k]
        if not low[k, k] > 0:
            return low, k + 1
        low[k, k] = np.sqrt(low[k, k])
        low[k + 1 :, k] = (low[k + 1 :, k] - low[k + 1 :, :k] @ low[k, :k]) / low[k, k]
    return low, 0


@quiet()
def cholesky(a: Array) -> tuple[Array, Array]:
    """The lower factors."""
    infos = np.zeros(a.shape[:-2], np.int32)
    low = _lapack.cholesky_lo(a, signature="d->d").astype(a.dtype, copy=False)
    if np.isfinite(low).all():
        return low, infos
    try:
        low = np.linalg.cholesky(a)
        doubtful = ~np.isfinite(low.diagonal(0, -2, -1)).all(-1)
    except np.linalg.LinAlgError:
        low, doubtful = np.empty_like(a), np.ones(infos.shape, bool)
    for k in zip(*np.nonzero(np.atleast_1d(doubtful))) if infos.ndim else [()] * bool(doubtful):
        low[k], infos[k] = _begun(a[k])
    return low, infos


# ---------------------------------------------------------------- what iterates


def _finite_only(a: Array, bad: Array, routine: Callable[[Array], tuple[Array, ...]]) -> tuple[Array, ...]:
    """What the routine finds of the matrices that are not bad; the bad ones' results are those of zeros, to be written over."""
    with quiet():
        return routine(np.where(bad[..., None, None], a.dtype.type(0), a) if bad.any() else a)


def first(bad: Array) -> int:
    """The place in the batch of the first of those."""
    return int(np.flatnonzero(bad)[0])


def eigh(a: Array, uplo: str) -> tuple[Array, Array, Array]:
    """Eigenvalues, their vectors; and which matrices LAPACK would give up: of 3 rows or more, with NaN in the part that is read."""
    read = np.triu(a) if uplo == "U" else np.tril(a)
    bad = _any(~np.isfinite(read))
    values, vectors = _finite_only(a, bad, lambda a: np.linalg.eigh(a, "U" if uplo == "U" else "L"))
    if bad.any():
        values[bad], vectors[bad] = np.nan, np.eye(a.shape[-1])
    return values, vectors, _any(np.isnan(read)) if a.shape[-1] > 2 else np.zeros(bad.shape, bool)


def svd(a: Array, whole: bool) -> tuple[Array, Array, Array, Array]:
    """Singular vectors and values; and which matrices LAPACK would give up, those with NaN. Of infinities the values are NaN."""
    bad = _any(~np.isfinite(a))
    u, s, vh = _finite_only(a, bad, lambda a: np.linalg.svd(a, whole))
    if bad.any():
        s[bad] = np.nan
    return u, s, vh, _any(np.isnan(a))


def qr(a: Array, mode: str) -> Any:
    with quiet():
        return np.linalg.qr(a, mode=mode)  # type: ignore[call-overload]
