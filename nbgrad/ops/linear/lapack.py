"""NumPy's LAPACK on batches of matrices, where each matrix stands for itself.

NumPy gives up a batch for one singular matrix, warns of what is not finite, and its LAPACK finds numbers where PyTorch's finds none, or
never ends. Here a matrix that fails leaves the others alone: what it has is what LAPACK would leave, and an `info` per matrix (0: none)
says where it failed. What holds infinities or NaN goes to no routine that iterates.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_double, c_float, c_int64
from functools import partial, wraps
from math import prod
from typing import Any

import numpy as np
from numpy.linalg import _umath_linalg as _lapack

from nbgrad.base.tables import PLANS, cached
from nbgrad.kernels.cpu import elimination as _kernels
from nbgrad.kernels.cpu import reflections as _reflections
from nbgrad.kernels.cpu import symmetric as _symmetric
from nbgrad.kernels.cpu import turns
from nbgrad.kernels.launch import FEW, get_num_threads
from nbgrad.kernels.products import alone, function
from nbgrad.memory.backend import cpu

Array = np.ndarray[Any, Any]

# `_lapack` is what NumPy's functions call, in float64 or complex128, once they have looked at their arguments, which here are matrices of
# one dtype: that look takes longer than a small matrix does. Of one that fails it leaves NaN, and what is not finite goes the other way.


def signature_of(kind: np.dtype[Any], kinds: str) -> str:
    """The routine's kinds for matrices of that one, given those for real ones."""
    return kinds.replace("d", "D") if kind.kind == "c" else kinds


_DOUBLE = 64  # rows and columns up to which matrices of single precision are computed in double, which takes as long


def kinds_of(a: Array, kinds: str) -> str:
    """The routine's kinds for these matrices: M theirs, R the real one and C the complex one of their precision. NumPy has no eigenvalues
    of complex64."""
    single = a.dtype.char in ("f" if "C" in kinds else "fF") and max(a.shape[-2:]) > _DOUBLE
    real, both = ("f", "F") if single else ("d", "D")
    return kinds.replace("M", both if a.dtype.kind == "c" else real).replace("R", real).replace("C", both)


def widest(kind: np.dtype[Any]) -> str:
    """The code of the numbers in which numbers of that dtype are computed."""
    return "c16" if kind.kind == "c" else "f8"


def adjoint(a: Array) -> Array:
    """The transposed matrices, of complex numbers their conjugates."""
    return a.mT.conj() if a.dtype.kind == "c" else a.mT


def quiet() -> np.errstate:
    """Without NumPy's warnings: for a block of lines, or a function."""
    return np.errstate(all="ignore")


_LARGE = 256  # rows and columns from which on several threads are worth waiting for


def left_to_one(size: int, complexes: bool) -> bool:
    """Whether OpenBLAS leaves so many rows or columns to one thread."""
    return size < (17 if complexes else 33)


def threaded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of matrices: with OpenBLAS's threads where they pay and `set_num_threads` allows them. On a busy machine they wait for each other by
    the time slice: a system of 100 equations took 50 ms in place of 0.2."""

    @wraps(function)
    def call(a: Array, *more: Any) -> Any:
        size = max(a.shape[-2:])
        if left_to_one(size, a.dtype.kind == "c") or (size >= _LARGE and get_num_threads() > 1):
            return function(a, *more)
        return alone(partial(function, a, *more))()

    return call


def _any(wrong: Array) -> Array:
    """Of each matrix, whether an element is so."""
    return np.asarray(wrong.any((-2, -1)))


# ---------------------------------------------------------------- elimination


@cached(PLANS)
def _runner(
    name: str, text: tuple[str, tuple[str, ...]], count: int, meta: tuple[int, ...], buffers: int, size: int
) -> Callable[..., None]:
    launch = cpu.launch(1 + buffers, "", size if count > 1 else 1, size < FEW)
    return partial(launch, cpu.kernel(name, *text).address, count, cpu.constants(meta))


def each(
    name: str, text: tuple[str, tuple[str, ...]], count: int, meta: tuple[int, ...], *arrays: Array
) -> None:
    """Run a kernel on each matrix of a batch; of few elements, while others wait."""
    run = _runner(name, text, count, meta, len(arrays), arrays[0].size)
    run(*[a if a.flags.c_contiguous else a.reshape(-1) for a in arrays])


def _eliminated(matrices: Array, kind: Any) -> tuple[Array, Array, Array]:
    *batch, rows, columns = matrices.shape
    count, steps = prod(batch), min(rows, columns)
    a = np.array(matrices, kind, order="C")
    pivots, infos = np.zeros((*batch, steps), np.int64), np.zeros(batch, np.int64)
    if count and steps:
        code = f"{a.dtype.kind}{a.itemsize}"
        each(f"lu_{code}", _kernels.lu(code), count, (rows, columns), a, pivots, infos)
    return a, pivots, infos


def eliminated(matrices: Array) -> tuple[Array, Array, Array]:
    """L below the diagonal and U from it on, in one; the row that each step exchanges with, from 1; the first pivot that is 0."""
    a, pivots, infos = _eliminated(matrices, matrices.dtype)
    return a, pivots.astype(np.int32), infos.astype(np.int32)


LITTLE = 8  # rows up to which a kernel is done with real matrices before LAPACK has begun with them


def _is_little(a: Array) -> bool:
    return a.dtype.kind == "f" and a.shape[-1] <= LITTLE and a.size > 0


def solve_little(a: Array, b: Array | None) -> tuple[Array, Array]:
    """X of A X = B for little matrices, or their inverses, lying by columns, and the first pivots that are 0; in double precision."""
    left, pivots, infos = _eliminated(a, np.float64)
    *batch, n, _ = a.shape
    x = np.empty((*batch, n, n)) if b is None else np.array(b.mT, np.float64, order="C")
    sizes = (n, x.shape[-2], b is None)
    each("substitute_f8", _kernels.substitute(), infos.size, sizes, left, pivots, x)
    return x.astype(a.dtype, copy=False).mT, infos


def reflected(x: Array, a: Array, taus: Array, forward: bool) -> Array:
    """The product of the reflections whose vectors stand below the diagonals of `a` and `x`, or `forward` its adjoint and that."""
    x, a, taus = np.array(x, order="C"), np.ascontiguousarray(a), np.ascontiguousarray(taus)
    if x.size and taus.size:
        *batch, rows, columns = x.shape
        code, sizes = f"{x.dtype.kind}{x.itemsize}", (rows, a.shape[-1], taus.shape[-1], columns, forward)
        along = np.empty((*batch, columns), x.dtype)
        each(f"reflect_{code}", _reflections.reflect(code), prod(batch), sizes, x, a, taus, along)
    return x


def symmetric(matrices: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """L and the blocks of D in one, the rows that were exchanged, and the first block that is 0."""
    *batch, n, _ = matrices.shape
    count, a = prod(batch), np.array(matrices, order="C")
    pivots, infos = np.zeros((*batch, n), np.int32), np.zeros(batch, np.int64)
    if a.size:
        code = f"{a.dtype.kind}{a.itemsize}"
        text = _symmetric.factor(code, hermitian)
        each(f"ldl_{code}{'_h' * hermitian}", text, count, (n,), a, pivots, infos)
    return a, pivots, infos


def symmetric_solution(a: Array, pivots: Array, b: Array, hermitian: bool) -> tuple[Array, bool]:
    """The solutions by what `symmetric` leaves, and whether these pivots were none of that."""
    x, a, steps = np.array(b, order="C"), np.ascontiguousarray(a), np.ascontiguousarray(pivots, np.int32)
    wrong = np.zeros(b.shape[:-2], np.int64)
    if x.size:
        code = f"{x.dtype.kind}{x.itemsize}"
        text = _symmetric.solve(code, hermitian)
        each(f"ldl_solve_{code}{'_h' * hermitian}", text, wrong.size, x.shape[-2:], x, a, steps, wrong)
    return x, int(np.count_nonzero(wrong)) > 0


@quiet()
def triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """X of A X = B, of triangles, with ones on the diagonal if they are `unit`; small ones in the widest numbers, as what `solve` gives.
    Where a pivot is 0 there are infinities, as LAPACK's triangular solver leaves them."""
    batch = a.shape[:-2]
    if batch != b.shape[:-2]:
        batch = np.broadcast_shapes(batch, b.shape[:-2])
        a, b = (np.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (a, b))
    found = _by_blas(a, b, upper, unit) if a.shape[-1] > _DOUBLE and b.size else None
    if found is not None:
        return found
    code = widest(b.dtype)
    x, a = np.array(b, code, order="C"), np.asarray(a, code, order="C")
    if x.size:
        text, sizes = _kernels.triangle(code), (*x.shape[-2:], upper, unit)
        each(f"triangle_{code}", text, prod(batch), sizes, x, a)
    return x.astype(b.dtype, copy=False)


_ROWS, _LEFT, _AS_IT_LIES, _TURNED, _UPPER, _LOWER, _GIVEN, _ONES = 101, 141, 111, 112, 121, 122, 131, 132


@threaded
def _by_blas(a: Array, b: Array, upper: bool, unit: bool) -> Array | None:
    """The same in the numbers' own dtype; None where BLAS would divide by 0, or is not found."""
    solve, size = function(f"cblas_{b.dtype.char.translate(_LETTERS)}trsm"), a.shape[-1]
    if solve is None or not (unit or np.diagonal(a, axis1=-2, axis2=-1).all()):
        return None
    x, one = np.array(b, order="C"), np.ones(1, b.dtype)
    given = one.ctypes if b.dtype.kind == "c" else (c_float if b.dtype.char == "f" else c_double)(1)
    for k in np.ndindex(a.shape[:-2]):
        turned = a[k].flags.f_contiguous
        read = a[k].T if turned else np.ascontiguousarray(a[k])
        how = (
            _UPPER if upper is not turned else _LOWER,
            _TURNED if turned else _AS_IT_LIES,
            _ONES if unit else _GIVEN,
        )
        places = (read.ctypes, c_int64(size), x[k].ctypes, c_int64(x.shape[-1]))
        solve(_ROWS, _LEFT, *how, c_int64(size), c_int64(x.shape[-1]), given, *places)
    return x


_LETTERS = str.maketrans("fdFD", "sdcz")


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
    """Of what LAPACK calls singular: its products may round to an exact 0 where fused ones, ours and those of PyTorch's, leave a little.
    Gradients of eigenvectors by hand, and inverse iteration, solve such systems."""
    lu, pivots, info = eliminated(a)
    x = b.copy()
    for k, other in enumerate(pivots - 1):
        x[[k, other]] = x[[other, k]]
    unit = np.tril(lu, -1) + np.eye(len(lu), dtype=lu.dtype)
    return substituted(lu, substituted(unit, x, False), True), int(info)


@threaded
@quiet()
def solve(a: Array, b: Array) -> tuple[Array, Array]:
    """X of A X = B, whose batch dimensions are the same."""
    infos = np.zeros(a.shape[:-2], np.int32)
    if _is_little(a) and b.size:
        x, singular = solve_little(a, b)
        for at in map(tuple, np.argwhere(singular)):
            x[at], infos[at] = _solve_singular(a[at], b[at])
        return _unknown(a, x), infos
    x = _lapack.solve(a, b, signature=kinds_of(a, "MM->M")).astype(b.dtype, copy=False)
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
    return _unknown(a, x), infos


def _unknown(a: Array, x: Array) -> Array:
    """These solutions, without those of matrices that hold NaN."""
    if not np.isfinite(x).all():
        x[_any(np.isnan(a))] = np.nan
    return x


@threaded
@quiet()
def inverse(a: Array) -> tuple[Array, Array]:
    if _is_little(a):
        x, infos = solve_little(a, None)
        if np.isfinite(x).all() and not infos.any():
            return x, infos.astype(np.int32)
        return solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))
    x = _lapack.inv(a, signature=kinds_of(a, "M->M")).astype(a.dtype, copy=False)
    if np.isfinite(x).all():
        return x, np.zeros(a.shape[:-2], np.int32)
    return solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))


@threaded
def det(a: Array) -> Array:
    with quiet():
        if not _is_little(a):
            return np.asarray(np.linalg.det(a))
        left, pivots, infos = _eliminated(a.mT if a.flags.c_contiguous else a, np.float64)  # as PyTorch's
        found = np.empty(infos.shape)
        each("determinant_f8", _kernels.determinant(), infos.size, a.shape[-1:], left, pivots, found)
        return found.astype(a.dtype, copy=False)


@threaded
def slogdet(a: Array) -> tuple[Array, Array]:
    with quiet():
        parts = _lapack.slogdet(a, signature=kinds_of(a, "M->MR"))
        real = a.real.dtype
        sign, size = (np.asarray(x).astype(kind, copy=False) for x, kind in zip(parts, (a.dtype, real)))
    return np.where(np.isnan(size), sign.dtype.type(0), sign), size


# ---------------------------------------------------------------- Cholesky factors


@quiet()
def _begun(a: Array) -> tuple[Array, int]:
    """The factor as far as it goes, column by column, and the column whose pivot is not positive; the rest is as it was."""
    low = np.tril(a)
    for k in range(len(low)):
        line = low[k, :k].conj()
        low[k, k] = pivot = (low[k, k] - low[k, :k] @ line).real
        if not pivot > 0:
            return low, k + 1
        low[k, k] = np.sqrt(pivot)
        low[k + 1 :, k] = (low[k + 1 :, k] - low[k + 1 :, :k] @ line) / low[k, k]
    return low, 0


@threaded
@quiet()
def cholesky(a: Array) -> tuple[Array, Array]:
    """The lower factors."""
    if a.dtype.kind == "f" and a.size and left_to_one(a.shape[-1], False):
        low, infos = np.array(a, np.float64, order="C"), np.zeros(a.shape[:-2], np.int64)
        each("cholesky_f8", _kernels.cholesky(), infos.size, (a.shape[-1],), low, infos)
        return low.astype(a.dtype, copy=False), infos.astype(np.int32)
    infos = np.zeros(a.shape[:-2], np.int32)
    low = _lapack.cholesky_lo(a, signature=kinds_of(a, "M->M")).astype(a.dtype, copy=False)
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


@cached(PLANS)
def _turning(code: str, count: int, n: int, upper: bool, single: bool) -> Callable[..., None]:
    address, size = (
        cpu.kernel(f"turned_eigenvectors_{code}", *turns.eigenvectors(code)).address,
        count * n * n,
    )
    launch = cpu.launch(3, "", size if count > 1 else 1, size < FEW)
    return partial(launch, address, count, cpu.constants([n, upper, single]))


def turned(matrices: Array, vectors: Array, upper: bool) -> Array:
    """The eigenvectors of these matrices, each pointing the way that PyTorch's LAPACK has it point. They lie row by row, and are written
    over."""
    n = matrices.shape[-1]
    if not 2 < n <= turns.MOST or not matrices.size:
        return vectors
    code, single = widest(matrices.dtype), matrices.dtype.char in "fF"
    a = np.array(matrices[..., ::-1, ::-1] if upper else matrices, code, order="C")
    turned = np.ascontiguousarray(vectors, code)
    turn = _turning(code, a.size // (n * n), n, upper, single)
    turn(*[x.reshape(-1).view(np.uint8) for x in (a, turned)])
    return turned.astype(vectors.dtype, copy=False)


def _factored_first(a: Array) -> bool:
    """Whether PyTorch's LAPACK takes singular values of the triangle of a QR factorization where NumPy's takes them of the matrix itself,
    as of taller ones both do: the signs of vectors depend on it. Of complex numbers both do the same."""
    rows, columns = a.shape[-2:]
    return a.dtype.kind != "c" and 3 * columns // 2 <= rows < 11 * columns // 6


_SVDS = {"f": "f->fff", "d": "d->ddd", "F": "F->FfF", "D": "D->DdD"}


def by_steps(a: Array, whole: bool) -> tuple[Array, Array, Array]:
    """Singular vectors and values of finite matrices: in their own dtype, as the signs depend on how many steps are taken."""
    columns = a.shape[-1]
    call, kind = _lapack.svd_f if whole else _lapack.svd_s, _SVDS[a.dtype.char]
    if not _factored_first(a):
        return tuple(call(a, signature=kind))
    q, r = np.linalg.qr(a, "complete" if whole else "reduced")
    u, s, vh = _lapack.svd_f(r[..., :columns, :], signature=kind)
    q[..., :columns] = q[..., :columns] @ u
    return q, s, vh


@threaded
def eigh(a: Array, uplo: str, whole: bool = True) -> tuple[Array, Array, Array]:
    """Eigenvalues, their vectors (none but for the `whole`); and which matrices LAPACK would give up: of 3 rows or more, with NaN in the
    part that is read."""
    read = np.triu(a) if uplo == "U" else np.tril(a)
    bad = _any(~np.isfinite(read))

    def found(a: Array) -> tuple[Array, ...]:
        if not whole:
            values = symmetric_eigenvalues(a, uplo == "U")
            if not np.isfinite(values).all():
                values = np.linalg.eigvalsh(a, "U" if uplo == "U" else "L")
            return values.astype(a.real.dtype, copy=False), np.empty(0, a.dtype)
        call = _lapack.eigh_up if uplo == "U" else _lapack.eigh_lo
        parts = call(a, signature=kinds_of(a, "M->RM"))
        if not np.isfinite(parts[0]).all():
            parts = np.linalg.eigh(a, "U" if uplo == "U" else "L")
        values, vectors = (x.astype(kind, copy=False) for x, kind in zip(parts, (a.real.dtype, a.dtype)))
        return values, turned(a, vectors, uplo == "U")

    values, vectors = _finite_only(a, bad, found)
    if bad.any():
        # LAPACK turns none by an infinity on the diagonal, and none that is diagonal; one number is its own eigenvalue.
        beside = np.tril(read, -1) + np.triu(read, 1)
        iterated = _any(~np.isfinite(beside)) | (_any(np.isnan(read)) & _any(beside != 0))
        values[bad] = np.nan if a.shape[-1] > 1 else a[bad][..., 0].real
        if whole:
            vectors[bad] = np.eye(a.shape[-1])
            vectors[iterated] = np.nan
    return values, vectors, _any(np.isnan(read)) if a.shape[-1] > 2 else np.zeros(bad.shape, bool)


def _without_vectors(a: Array) -> tuple[Array, Array, Array]:
    none = np.empty(0, a.dtype)
    return none, singular_values(a).astype(a.real.dtype, copy=False), none


@threaded
def svd(a: Array, whole: bool, vectors: bool = True) -> tuple[Array, Array, Array, Array]:
    """Singular vectors, if asked for, and values; and which matrices LAPACK would give up, those with NaN. Of infinities the values are
    NaN."""
    bad = _any(~np.isfinite(a))
    u, s, vh = _finite_only(a, bad, partial(by_steps, whole=whole) if vectors else _without_vectors)
    if bad.any():
        s[bad] = np.nan
    return u, s, vh, _any(np.isnan(a))


def is_reflected(size: int, kind: np.dtype[Any]) -> bool:
    """Whether a kernel finds the factors of QR of matrices of so many rows or columns: of 8 x 8 in a third of the time that LAPACK takes,
    of 32 x 32 in three quarters."""
    return kind.kind == "f" and left_to_one(size, False)


def factored(a: Array, width: int) -> tuple[Array, Array] | None:
    """Q of so many columns, and R, in float64; None where squares are beyond that."""
    *batch, rows, columns = a.shape
    left, taus = np.array(a.mT, np.float64, order="C"), np.empty((*batch, min(rows, columns)))
    q, r, infos = (
        np.empty((*batch, width, rows)),
        np.empty((*batch, columns, width)),
        np.empty(batch, np.int64),
    )
    each("qr_f8", _reflections.factors(), infos.size, (rows, columns, width), left, taus, q, r, infos)
    return None if np.count_nonzero(infos) else (q.mT, r.mT)


@threaded
def qr(a: Array, mode: str) -> Any:
    if mode != "raw" and a.size and is_reflected(max(a.shape[-2:]), a.dtype):
        found = factored(a, a.shape[-2] if mode == "complete" else min(a.shape[-2:]))
        if found is not None:
            q, r = (x.astype(a.dtype, copy=False) for x in found)
            return r if mode == "r" else (q, r)
    with quiet():
        return np.linalg.qr(a, mode=mode)  # type: ignore[call-overload]


_MARGIN = 64  # of a bound on the condition, so that no rounding takes a matrix for what it is not


@threaded
@quiet()
def least_squares(a: Array, b: Array) -> Array | None:
    """X of the least squares of A X - B, for matrices all of which are certain to have full rank. Of tall ones with few right
    sides Q is not needed: R of both side by side has Q^H B in its last columns."""
    if a.shape[:-2] != b.shape[:-2]:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (np.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (a, b))
    *batch, rows, columns = a.shape
    n, wide = min(rows, columns), widest(a.dtype)
    more = b.shape[-1] if rows >= columns >= b.shape[-1] else 0
    left = np.empty((*batch, n + more, max(rows, columns)), wide).mT  # by columns, as LAPACK takes them
    right = np.empty((*batch, n, n + more), wide)
    left[..., :n] = a if rows >= columns else adjoint(a)
    right[..., :n] = np.eye(n)
    if more:
        left[..., n:] = b
    taus = _lapack.qr_r_raw(left)
    r = left[..., :n, :n]
    right[..., n:] = left[..., :n, n:]
    back = triangular(r, right, True, False)
    back, x = back[..., :n], back[..., n:]
    if not more:
        q = _lapack.qr_reduced(left, taus)
        x = q @ (adjoint(back) @ b) if rows < columns else back @ (adjoint(q) @ b)
    # NaN of one that is singular, or not finite.
    condition = np.sqrt(_squares(np.triu(r))) * np.sqrt(_squares(back))
    if not np.all(condition * (_MARGIN * max(rows, columns) * np.finfo(a.dtype).eps) < 1):
        return None
    return np.asarray(x.astype(a.dtype, copy=False))


def _squares(x: Array) -> Any:
    """Of each matrix, the sum of its elements' squares."""
    return np.vdot(x, x).real if x.ndim == 2 else (x.real**2 + x.imag**2).sum((-2, -1))


@threaded
def eig(a: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and their vectors, which are complex; and which matrices are not finite, of which they are NaN."""
    bad = _any(~np.isfinite(a))
    found = _finite_only(a, bad, lambda a: _lapack.eig(a, signature=kinds_of(a, "M->CC")))
    kind = f"c{a.itemsize if a.dtype.kind == 'c' else 2 * a.itemsize}"
    values, vectors = (x.astype(kind, copy=False) for x in found)
    if bad.any():
        values[bad] = vectors[bad] = np.nan
    return values, vectors, bad


# ---------------------------------------------------------------- values alone


@threaded
@quiet()
def eigenvalues(a: Array) -> Array:
    """In the order in which they are found, complex."""
    return np.asarray(_lapack.eigvals(a, signature=kinds_of(a, "M->C")))


@threaded
@quiet()
def symmetric_eigenvalues(a: Array, upper: bool) -> Array:
    return np.asarray(
        (_lapack.eigvalsh_up if upper else _lapack.eigvalsh_lo)(a, signature=kinds_of(a, "M->R"))
    )


@threaded
@quiet()
def singular_values(a: Array) -> Array:
    return np.asarray(_lapack.svd(a, signature=kinds_of(a, "M->R")))
