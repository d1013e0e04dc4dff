"""Factors of small matrices by the shortest way: LAPACK as NumPy calls it, between memory that is read where it lies and results that lie
by columns.

Promises the functions of linear algebra what `quickly` asks of a plan: matrices of one layout, whose batch has few elements; and of larger
ones their values, without the vectors that a gradient would read. What is not
finite, or has no factor, is left to the long way, which tells one matrix from another and refuses in PyTorch's words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.linalg import _umath_linalg as _lapack

from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.quick import Quick
from nbgrad.dispatch.return_types import maker
from nbgrad.kernels.cpu import elimination, reflections
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes
from nbgrad.memory.backend import cpu
from nbgrad.memory.storage import Spec
from nbgrad.ops.linear.lapack import (
    LITTLE,
    adjoint,
    by_steps,
    eigenvalues,
    is_reflected,
    least_squares,
    left_to_one,
    quiet,
    reflected,
    signature_of,
    singular_values,
    symmetric,
    symmetric_eigenvalues,
    symmetric_solution,
    threaded,
    turned,
    widest,
)
from nbgrad.ops.linear.matmul import matmul

_Array = np.ndarray[Any, Any]
_Read = Callable[[Tensor], _Array]
_Make = Callable[[_Array], Tensor]
_bytes = np.dtype(np.uint8)
_MOST = 4096  # elements of a batch


def is_small(*specs: Spec | None) -> bool:
    """Whether these are matrices that one thread of LAPACK takes, of dtypes that it takes."""
    return all(
        [
            sp is not None
            and sp.dtype.inexact
            and not sp.dtype.narrow
            and sp.ndim >= 2
            and 0 < sp.numel <= _MOST
            and left_to_one(max(tuple(sp.shape)[-2:]), sp.dtype.is_complex)
            for sp in specs
        ]
    )


_LITTLE = 1 << 16  # elements, of which LAPACK's work does not hide what Python's takes


def _is_no_large(sp: Spec) -> bool:
    """Whether these are matrices of dtypes that LAPACK takes, and not many elements."""
    return sp.dtype.inexact and not sp.dtype.narrow and sp.ndim >= 2 and 0 < sp.numel <= _LITTLE


def _sizes(sp: Spec) -> tuple[int, int]:
    *_, rows, columns = tuple(sp.shape)
    return rows, columns


def _square(sp: Spec) -> bool:
    rows, columns = _sizes(sp)
    return rows == columns


def _reading(sp: Spec, turned: bool = False) -> _Read:
    """What shows the matrices in a tensor that lies so, or these `turned` (of complex numbers the conjugates), as an array."""
    shape, strides = tuple(sp.shape), tuple([s * sp.itemsize for s in sp.strides])
    if turned:
        shape, strides = ((*n[:-2], n[-1], n[-2]) for n in (shape, strides))
    kind, array = sp.dtype.np, np.ndarray
    if turned and sp.dtype.is_complex:
        return lambda t: array(shape, kind, t._buf, 0, strides).conj()
    return lambda t: array(shape, kind, t._buf, 0, strides)


def _laid(made: Spec) -> _Make:
    """What makes a tensor that lies so of an array of its shape."""
    allocate, size, kind, array = made.allocate, made.nbytes, made.dtype.np, np.ndarray
    shape, strides = tuple(made.shape), tuple([s * made.itemsize for s in made.strides])

    def lay(x: _Array) -> Tensor:
        buf = allocate(size, _bytes)
        array(shape, kind, buf, 0, strides)[...] = x
        return wrap(buf, made)

    return lay


def _lines(sp: Spec, shape: tuple[int, ...], dtype: dtypes.dtype | None = None) -> _Make:
    """What makes a tensor of an array of this shape."""
    return _laid(sp.like(shape, dtype=dtype))


def _columns(sp: Spec, rows: int, columns: int, turned: bool = False) -> _Make:
    """The same of matrices, which lie by columns; or of matrices that are `turned`, of complex numbers to their conjugates."""
    batch = tuple(sp.shape)[:-2]
    lying = sp.like((*batch, columns, rows)).strides
    made = sp.like((*batch, rows, columns), (*lying[:-2], lying[-1], lying[-2]))
    lay = _laid(made)
    if turned and sp.dtype.is_complex:
        return lambda x: lay(x.conj().swapaxes(-1, -2))
    return (lambda x: lay(x.swapaxes(-1, -2))) if turned else lay


def _finite(x: _Array) -> bool:
    """Whether all is, and not so large that it need be looked at in another way."""
    if x.size > _ALONE:
        return bool(np.isfinite(x).all())
    return isfinite(np.vdot(x, x).real)


_ALONE = 8192  # numbers of which OpenBLAS leaves a product to one thread: waiting for another took 1 ms on a busy machine


# ---------------------------------------------------------------- Cholesky's


def _factor(A: Spec, upper: Any) -> Quick | None:
    if not is_small(A) or not _square(A):
        return None
    read, make = _reading(A, upper), _columns(A, *_sizes(A), upper)
    if A.dtype.is_complex:
        return _factor_complex(A, read, make)
    address, meta = cpu.kernel("cholesky_f8", *elimination.cholesky()).address, cpu.constants([_sizes(A)[0]])
    count, launch, told = prod(tuple(A.shape)[:-2]), cpu.launch(3, "", 1, A.numel < FEW), cpu.told

    def factor(t: Tensor) -> Tensor | None:
        low = np.array(read(t), np.float64, order="C")
        number, seen = told.count if count == 1 else _words(count)
        launch(address, count, meta, low.reshape(-1).view(_bytes), number)
        return None if any(seen) else make(low)

    return factor


def _words(count: int) -> tuple[_Array, Any]:
    """So many for a kernel to write, and to read them."""
    words = np.empty(count, np.int64)
    return words.view(_bytes), words


def _factor_complex(A: Spec, read: _Read, make: _Make) -> Quick:
    kinds = signature_of(A.dtype.np, "d->d")

    def factor(t: Tensor) -> Tensor | None:
        with quiet():
            low = _lapack.cholesky_lo(read(t), signature=kinds)
        return make(low) if _finite(low) else None

    return factor


def cholesky(A: Spec, *, upper: Any, out: Any) -> Quick | None:
    return None if out is not None else _factor(A, upper)


def cholesky_ex(A: Spec, *, upper: Any, check_errors: Any, out: Any) -> Quick | None:
    factor = None if out is not None else _factor(A, upper)
    if factor is None:
        return None
    named, info = maker("linalg_cholesky_ex"), A.like(tuple(A.shape)[:-2], dtype=dtypes.int32)

    def found(t: Tensor) -> Any:
        low = factor(t)
        return None if low is None else named((low, wrap(cpu.zeros(info.nbytes), info)))

    return found


# ---------------------------------------------------------------- QR


def qr(A: Spec, mode: Any, *, out: Any) -> Quick | None:
    if out is not None or not _is_no_large(A) or mode not in ("reduced", "complete"):
        return None
    *_, m, n = tuple(A.shape)
    k = m if mode == "complete" else min(m, n)
    if is_reflected(max(m, n), A.dtype.np):
        return _reflecting(A, k)
    read, of_q, of_r = _reading(A), _columns(A, m, k), _columns(A, k, n)
    named, begun = maker("linalg_qr"), _lapack.qr_r_raw
    ended = _lapack.qr_complete if k > min(m, n) else _lapack.qr_reduced
    above, none, wide = np.tri(k, n, -1, dtype=bool), np.zeros(1), widest(A.dtype.np)

    def factors(a: _Array) -> _Array:
        q: _Array = ended(a, begun(a))
        return q

    factored = factors if is_small(A) else threaded(factors)

    def found(t: Tensor) -> Any:
        a = np.array(read(t), wide)
        q = factored(a)
        return named((of_q(q), of_r(np.where(above, none, a[..., :k, :])))) if _finite(a) else None

    return found


def _reflecting(A: Spec, k: int) -> Quick:
    """As `lapack.factored` does it."""
    *batch, m, n = tuple(A.shape)
    read, of_q, of_r = _reading(A, True), _columns(A, m, k, True), _columns(A, k, n, True)
    factor, named = _launching("qr_f8", reflections.factors(), 6, A, (m, n, k)), maker("linalg_qr")
    sizes = [(*batch, min(m, n)), (*batch, k, m), (*batch, n, k)]

    def found(t: Tensor) -> Any:
        taus, q, r = map(np.empty, sizes)
        infos = np.empty(batch, np.int64)
        factor(np.array(read(t), np.float64, order="C"), taus, q, r, infos)
        return None if np.count_nonzero(infos) else named((of_q(q), of_r(r)))

    return found


# ---------------------------------------------------------------- eigenvalues, singular values


def eigh(A: Spec, UPLO: Any, *, out: Any) -> Quick | None:
    if out is not None or not is_small(A) or not _square(A) or UPLO not in ("L", "U"):
        return None
    read, of_values = _reading(A), _lines(A, tuple(A.shape)[:-1], A.dtype.to_real())
    of_vectors, named = _columns(A, *_sizes(A)), maker("linalg_eigh")
    call = _lapack.eigh_up if UPLO == "U" else _lapack.eigh_lo
    kinds = "D->dD" if A.dtype.is_complex else "d->dd"

    def found(t: Tensor) -> Any:
        a = read(t)
        if not _finite(a):
            return None
        with quiet():
            values, vectors = call(a, signature=kinds)
        if not _finite(values):
            return None
        return named((of_values(values), of_vectors(turned(a, vectors, UPLO == "U"))))

    return found


def eigvalsh(A: Spec, UPLO: Any, *, out: Any) -> Quick | None:
    if not _has_values(A, out) or not _square(A) or UPLO not in ("L", "U"):
        return None
    return _values(A, _sizes(A)[0], lambda a: symmetric_eigenvalues(a, UPLO == "U"), A.dtype.to_real())


def svdvals(A: Spec, *, driver: Any, out: Any) -> Quick | None:
    if not _has_values(A, out) or driver is not None:
        return None
    return _values(A, min(_sizes(A)), singular_values, A.dtype.to_real())


def eigvals(A: Spec, *, out: Any) -> Quick | None:
    large = not left_to_one(min(_sizes(A)), A.dtype.is_complex) if A.ndim >= 2 else False
    if not large or not _has_values(A, out) or not _square(A):
        return None
    return _values(A, _sizes(A)[0], eigenvalues, A.dtype.to_complex())


def _has_values(A: Spec, out: Any) -> bool:
    """Whether LAPACK takes it; nobody reads vectors, which take half of the time."""
    return out is None and A.dtype.inexact and not A.dtype.narrow and A.ndim >= 2 and A.numel > 0


def _values(A: Spec, count: int, values: Callable[[_Array], _Array], dtype: dtypes.dtype) -> Quick:
    read, make = _reading(A), _lines(A, (*tuple(A.shape)[:-2], count), dtype)

    def found(t: Tensor) -> Tensor | None:
        a = read(t)
        found = values(a) if _finite(a) else None
        return make(found) if found is not None and _finite(found) else None

    return found


def svd(A: Spec, full_matrices: Any, *, driver: Any, out: Any) -> Quick | None:
    if out is not None or driver is not None or not is_small(A):
        return None
    *_, m, n = tuple(A.shape)
    k = min(m, n)
    read, named = _reading(A), maker("linalg_svd")
    of_s = _lines(A, (*tuple(A.shape)[:-2], k), A.dtype.to_real())
    of_u, of_v = _columns(A, m, m if full_matrices else k), _columns(A, n if full_matrices else k, n)

    def found(t: Tensor) -> Any:
        a = read(t)
        if not _finite(a):
            return None
        with quiet():
            u, s, v = by_steps(a, bool(full_matrices))
        return named((of_u(u), of_s(s), of_v(v))) if _finite(s) else None

    return found


# ---------------------------------------------------------------- solutions, inverses


def _is_little(A: Spec) -> bool:
    return not A.dtype.is_complex and tuple(A.shape)[-1] <= LITTLE


def _substituting(A: Spec, columns: int, read_b: _Read | None) -> Callable[[Tensor, Tensor], _Array | None]:
    """What solves systems of little matrices, or inverts them, as `lapack.solve_little` does; None where something is not finite."""
    run, shape = _eliminating(A, "f8"), (*tuple(A.shape)[:-2], columns, columns)
    sizes = (_sizes(A)[0], columns, read_b is None)
    substitute = _launching("substitute_f8", elimination.substitute(), 4, A, sizes)

    def solved(A: Tensor, B: Tensor) -> _Array | None:
        a, pivots, _ = run(A)
        x = np.empty(shape) if read_b is None else np.array(read_b(B).swapaxes(-1, -2), np.float64, order="C")
        substitute(a, pivots, x)
        return x.swapaxes(-1, -2) if _finite(x) else None

    return solved


def solve(A: Spec, B: Spec, *, left: Any, out: Any) -> Quick | None:
    if out is not None or left is not True or not is_small(A) or not _square(A) or A.dtype is not B.dtype:
        return None
    batch, shape = tuple(A.shape)[:-1], tuple(B.shape)
    vector = B.ndim == 1 or shape == batch
    if (shape if vector else shape[:-1]) != batch or not B.numel:
        return None
    column = B.like((*shape, 1), (*B.strides, 1)) if vector else B
    read, read_b = _reading(A), _reading(column)
    make = _lines(B, shape) if vector else _columns(B, *_sizes(B))
    if _is_little(A):
        solved = _substituting(A, _sizes(column)[1], read_b)
        return lambda A, B: None if (x := solved(A, B)) is None else make(x[..., 0] if vector else x)
    kinds = signature_of(A.dtype.np, "dd->d")

    def found(A: Tensor, B: Tensor) -> Tensor | None:
        with quiet():
            x = _lapack.solve(read(A), read_b(B), signature=kinds)
        return (make(x[..., 0]) if vector else make(x)) if _finite(x) else None

    return found


def inv(A: Spec, *, out: Any) -> Quick | None:
    if out is not None or not is_small(A) or not _square(A):
        return None
    if _is_little(A):
        inverted, laid = _substituting(A, _sizes(A)[0], None), _columns(A, *_sizes(A))
        return lambda t: None if (x := inverted(t, t)) is None else laid(x)
    read, make, kinds = _reading(A), _columns(A, *_sizes(A)), signature_of(A.dtype.np, "d->d")

    def found(t: Tensor) -> Tensor | None:
        with quiet():
            x = _lapack.inv(read(t), signature=kinds)
        return make(x) if _finite(x) else None

    return found


# ---------------------------------------------------------------- elimination


def _triangles(A: Spec, B: Spec, upper: bool, unit: bool) -> Callable[[_Array, _Array], None] | None:
    """What writes the solutions of triangular systems over right sides; both are of the widest numbers, and lie in order."""
    if not is_small(A, B) or not _square(A):
        return None
    if tuple(A.shape)[:-2] != tuple(B.shape)[:-2] or A.shape[-1] != B.shape[-2] or A.dtype is not B.dtype:
        return None
    code = widest(A.dtype.np)
    address = cpu.kernel(f"triangle_{code}", *elimination.triangle(code)).address
    count, launch = prod(tuple(A.shape)[:-2]), cpu.launch(3, "", 1, B.numel < FEW)
    meta = cpu.constants([*tuple(B.shape)[-2:], upper, unit])

    def solved(x: _Array, a: _Array) -> None:
        launch(address, count, meta, x.reshape(-1).view(_bytes), a.reshape(-1).view(_bytes))

    return solved


def solve_triangular(
    A: Spec, B: Spec, *, upper: Any, left: Any, unitriangular: Any, out: Any
) -> Quick | None:
    solved = None if out is not None or not left else _triangles(A, B, bool(upper), bool(unitriangular))
    if solved is None:
        return None
    of_a, of_b, make, wide = _reading(A), _reading(B), _columns(B, *_sizes(B)), widest(A.dtype.np)

    def found(A: Tensor, B: Tensor) -> Tensor:
        x = np.array(of_b(B), wide, order="C")
        solved(x, np.asarray(of_a(A), wide, order="C"))
        return make(x)

    return found


def cholesky_solve(B: Spec, L: Spec, upper: Any, *, out: Any) -> Quick | None:
    first = None if out is not None else _triangles(L, B, False, False)
    second = _triangles(L, B, True, False)
    if first is None or second is None:
        return None
    of_low, of_turned = _reading(L, bool(upper)), _reading(L, not upper)
    of_b, make, kind, wide = _reading(B), _columns(B, *_sizes(B)), B.dtype.np, widest(B.dtype.np)

    def found(B: Tensor, L: Tensor) -> Tensor:
        x = np.array(of_b(B), wide, order="C")
        first(x, np.asarray(of_low(L), wide, order="C"))
        x = np.asarray(x.astype(kind, copy=False), wide)  # as what stands between the two
        second(x, np.asarray(of_turned(L), wide, order="C"))
        return make(x)

    return found


def cholesky_inverse(L: Spec, upper: Any, *, out: Any) -> Quick | None:
    solve = None if out is not None or not is_small(L) else cholesky_solve(L.dense(), L, upper, out=None)
    if solve is None:
        return None
    *batch, n, _ = tuple(L.shape)
    eye = _lines(L, tuple(L.shape))(np.broadcast_to(np.eye(n), (*batch, n, n)))
    shown = _reading(_columns(L, n, n)(np.zeros(tuple(L.shape)))._spec)

    def found(L: Tensor) -> Tensor | None:
        x = solve(eye, L)
        return x if _finite(shown(x)) else None

    return found


def _eliminating(
    A: Spec, code: str | None = None, turned: bool = False
) -> Callable[[Tensor], tuple[_Array, _Array, _Array]]:
    """L and U in one, the rows that were exchanged, and the first pivot that is 0, of each matrix, or `turned`; in numbers of that `code`,
    if given."""
    *batch, m, n = tuple(A.shape)
    code = code or A.dtype.code
    address = cpu.kernel(f"lu_{code}", *elimination.lu(code)).address
    count, launch, meta = prod(batch), cpu.launch(4, "", 1, A.numel < FEW), cpu.constants([m, n])
    read, exchanged, batch_ = _reading(A, turned), (*batch, min(m, n)), tuple(batch)

    def eliminated(t: Tensor) -> tuple[_Array, _Array, _Array]:
        a, pivots, infos = (
            np.array(read(t), code, order="C"),
            np.empty(exchanged, np.int64),
            np.empty(batch_, np.int64),
        )
        launch(address, count, meta, a, pivots, infos)
        return a, pivots, infos

    return eliminated


def det(A: Spec, *, out: Any) -> Quick | None:
    if out is not None or not is_small(A) or not _square(A) or not _is_little(A):
        return None
    batch = tuple(A.shape)[:-2]
    run = _eliminating(A, "f8", A.contiguous)  # turned, as PyTorch's matrices, which lie by columns
    multiplied = _launching("determinant_f8", elimination.determinant(), 4, A, _sizes(A)[:1])
    make = _lines(A, batch)

    def found(t: Tensor) -> Tensor:
        a, pivots, _ = run(t)
        o = np.empty(batch)
        multiplied(a, pivots, o)
        with quiet():  # of what float32 has no room for
            return make(o)

    return found


def lu_factor_ex(A: Spec, *, pivot: Any, check_errors: Any, out: Any) -> Quick | None:
    return None if check_errors else lu_factor(A, pivot=pivot, out=out, refuses=False)


def lu_factor(A: Spec, *, pivot: Any, out: Any, refuses: bool = True) -> Quick | None:
    if out is not None or not pivot or not is_small(A):
        return None
    *batch, m, n = tuple(A.shape)
    run, make, named = _eliminating(A), _columns(A, m, n), maker(f"linalg_lu_factor{'_ex' * (not refuses)}")
    of_pivots, of_infos = (_lines(A, (*batch, *more), dtypes.int32) for more in ((min(m, n),), ()))

    def found(t: Tensor) -> Any:
        a, pivots, infos = run(t)
        if not refuses:
            return named((make(a), of_pivots(pivots), of_infos(infos)))
        return None if np.count_nonzero(infos) else named((make(a), of_pivots(pivots)))

    return found


def lu(A: Spec, *, pivot: Any, out: Any) -> Quick | None:
    if out is not None or not pivot or not is_small(A):
        return None
    *batch, m, n = tuple(A.shape)
    k, count, code = min(m, n), prod(batch), A.dtype.code
    run, named = _eliminating(A), maker("linalg_lu")
    parts = [A.like((*batch, *sizes)) for sizes in ((m, m), (m, k), (k, n))]
    address = cpu.kernel(f"lu_parts_{code}", *elimination.parts(code)).address
    launch, meta, room = cpu.launch(7, "", 1, A.numel < FEW), cpu.constants([m, n]), 8 * m

    def found(t: Tensor) -> Any:
        a, pivots, _ = run(t)
        p, low, up = wrap(cpu.zeros(parts[0].nbytes), parts[0]), empty(parts[1]), empty(parts[2])
        matrices, rows = (x.reshape(-1).view(_bytes) for x in (a, pivots))
        launch(address, count, meta, matrices, rows, np.empty(room, _bytes), p._buf, low._buf, up._buf)
        return named((p, low, up))

    return found


def lu_solve(LU: Spec, pivots: Spec, B: Spec, *, left: Any, adjoint: Any, out: Any) -> Quick | None:
    first = None if out is not None or not left or adjoint else _triangles(LU, B, False, True)
    second = _triangles(LU, B, True, False)
    if first is None or second is None or pivots.dtype is not dtypes.int32 or not pivots.contiguous:
        return None
    if tuple(pivots.shape) != tuple(LU.shape)[:-1]:
        return None
    of_lu, of_b, make, kind, wide = (
        _reading(LU),
        _reading(B),
        _columns(B, *_sizes(B)),
        B.dtype.np,
        widest(B.dtype.np),
    )
    exchange, count = (
        _launching(f"exchange_{wide}", elimination.exchange(wide), 4, LU, _sizes(B)),
        prod(tuple(LU.shape)[:-2]),
    )

    def found(LU: Tensor, pivots: Tensor, B: Tensor) -> Tensor | None:
        x, a = np.array(of_b(B), wide, order="C"), np.asarray(of_lu(LU), wide, order="C")
        number, seen = _words(count)
        exchange(x.reshape(-1).view(_bytes), pivots._buf, number)
        if any(seen):
            return None
        first(x, a)
        x = np.asarray(x.astype(kind, copy=False), wide)  # as what stands between the two
        second(x, a)
        return make(x)

    return found


def _launching(
    name: str, text: tuple[str, tuple[str, ...]], buffers: int, of: Spec, meta: Sequence[int]
) -> Callable[..., None]:
    """What runs a kernel on memories of each matrix."""
    address, launch = cpu.kernel(name, *text).address, cpu.launch(buffers, "", 1, of.numel < FEW)
    return partial(launch, address, prod(tuple(of.shape)[:-2]), cpu.constants([*meta]))


# ---------------------------------------------------------------- symmetric matrices


def _ldl(A: Spec, hermitian: Any, named: Any, refuses: bool) -> Quick | None:
    if not is_small(A) or not _square(A):
        return None
    *batch, n, _ = tuple(A.shape)
    run, read, made = partial(symmetric, hermitian=bool(hermitian)), _reading(A), _columns(A, n, n)
    of_pivots, of_infos = (_lines(A, (*batch, *more), dtypes.int32) for more in ((n,), ()))

    def found(t: Tensor) -> Any:
        a, pivots, infos = run(read(t))
        if refuses:
            return None if np.count_nonzero(infos) else named((made(a), of_pivots(pivots)))
        return named((made(a), of_pivots(pivots), of_infos(infos)))

    return found


def ldl_factor(A: Spec, *, hermitian: Any, out: Any) -> Quick | None:
    return None if out is not None else _ldl(A, hermitian, maker("linalg_ldl_factor"), True)


def ldl_factor_ex(A: Spec, *, hermitian: Any, check_errors: Any, out: Any) -> Quick | None:
    named = maker("linalg_ldl_factor_ex")
    return None if out is not None or check_errors else _ldl(A, hermitian, named, False)


def ldl_solve(LD: Spec, pivots: Spec, B: Spec, *, hermitian: Any, out: Any) -> Quick | None:
    if (
        out is not None
        or not is_small(LD, B)
        or not _square(LD)
        or LD.dtype is not B.dtype
        or B.ndim != LD.ndim
    ):
        return None
    if (
        tuple(B.shape)[:-1] != tuple(LD.shape)[:-1]
        or pivots.shape != LD.shape[:-1]
        or pivots.dtype is not dtypes.int32
    ):
        return None
    of_ld, of_pivots, of_b, make = _reading(LD), _reading(pivots), _reading(B), _columns(B, *_sizes(B))

    def found(LD: Tensor, pivots: Tensor, B: Tensor) -> Tensor | None:
        x, wrong = symmetric_solution(of_ld(LD), of_pivots(pivots), of_b(B), bool(hermitian))
        return None if wrong else make(x)

    return found


# ---------------------------------------------------------------- reflections


def geqrf(A: Spec, *, out: Any) -> Quick | None:
    if out is not None or not is_small(A):
        return None
    *batch, m, n = tuple(A.shape)
    read, made, of_tau = _reading(A), _columns(A, m, n), _lines(A, (*batch, min(m, n)))
    named, begun, wide = maker("geqrf"), _lapack.qr_r_raw, widest(A.dtype.np)

    def found(t: Tensor) -> Any:
        a = np.array(read(t), wide)
        tau = begun(a)
        return named((made(a), of_tau(tau))) if _finite(a) else None

    return found


def householder_product(A: Spec, tau: Spec, *, out: Any) -> Quick | None:
    if out is not None or not is_small(A) or tau.dtype is not A.dtype or not tau.numel:
        return None
    *batch, m, n = tuple(A.shape)
    if m < n or tuple(tau.shape)[:-1] != tuple(batch) or tuple.__getitem__(tau.shape, -1) > n:
        return None
    read, of_tau, make = _reading(A), _reading(tau), _columns(A, m, n)
    begin = np.broadcast_to(np.eye(m, n, dtype=A.dtype.np), (*batch, m, n))
    return lambda A, tau: make(reflected(begin, read(A), of_tau(tau), False))


def ormqr(A: Spec, tau: Spec, B: Spec, left: Any, transpose: Any, *, out: Any) -> Quick | None:
    if out is not None or not is_small(A, B) or not A.dtype is tau.dtype is B.dtype or not tau.numel:
        return None
    *batch, m, n = tuple(A.shape)
    if tuple(tau.shape) != (*batch, min(m, n)) or tuple(B.shape)[:-2] != tuple(batch):
        return None
    rows, columns = _sizes(B)
    if m != (rows if left else columns):
        return None
    # On the right stands Q, or its adjoint, of which the product is the adjoint of the other's with the adjoint matrix.
    read, of_tau, forward = _reading(A), _reading(tau), bool(transpose) == bool(left)
    of_b, make = _reading(B, not left), _columns(B, rows, columns, not left)
    return lambda A, tau, B: make(reflected(of_b(B), read(A), of_tau(tau), forward))


# ---------------------------------------------------------------- the pseudoinverse, least squares


def _inverting(A: Spec) -> Quick:
    """The pseudoinverses of matrices of full rank, by their singular values; None if one is of less. The product is that of the long way,
    to the last digit."""
    least, read = dtypes.finfo(A.dtype).eps * max(_sizes(A)), _reading(A)
    *batch, m, n = tuple(A.shape)
    k = min(m, n)
    first, second = _lines(A, (*batch, n, k)), _lines(A, (*batch, k, m))

    def inverse(t: Tensor) -> Tensor | None:
        a = read(t)
        if not _finite(a):
            return None
        with quiet():
            u, s, v = by_steps(a, False)
        if not _finite(s) or not (s[..., -1] > s[..., 0] * least).all():
            return None
        found: Tensor = matmul(first(adjoint(v) * (1 / s)[..., None, :]), second(adjoint(u)))
        return found

    return inverse


def pinv(A: Spec, rcond: Any, hermitian: Any, *, atol: Any, rtol: Any, out: Any) -> Quick | None:
    if not (out is rcond is atol is rtol is None) or hermitian or not is_small(A):
        return None
    return _inverting(A)


def lstsq(A: Spec, B: Spec, rcond: Any, *, driver: Any, out: Any) -> Quick | None:
    if not (out is rcond is driver is None) or not _is_no_large(A) or B.dtype is not A.dtype or not B.numel:
        return None
    *batch, m, n = tuple(A.shape)
    vector = B.ndim == A.ndim - 1
    if tuple(B.shape)[: len(batch) + 1] != (*batch, m) or B.ndim not in (A.ndim - 1, A.ndim):
        return None
    column = B.like((*B.shape, 1), (*B.strides, 1)) if vector else B
    read, read_b = _reading(A), _reading(column)
    make = _lines(B, (*batch, n, *tuple(B.shape)[len(batch) + 1 :]))
    rank, named = A.like(tuple(batch), dtype=dtypes.int64), maker("linalg_lstsq")
    nothing = A.like((0,), dtype=A.dtype.to_real())
    full = np.full(prod(batch), min(m, n)).view(_bytes)

    def found(A: Tensor, B: Tensor) -> Any:
        solved = least_squares(read(A), read_b(B))
        if solved is None:
            return None
        x = make(solved[..., 0] if vector else solved)
        return named((x, empty(nothing), wrap(full.copy(), rank), empty(nothing)))

    return found
