"""QR and its reflections, eigenvalues, singular values of batches of matrices, by NumPy's LAPACK; and what is made of them: the
pseudoinverse, least squares, rank.

Gradients are products of the factors, so those of every order exist; where factors are not unique (equal eigenvalues) they are not finite,
as in PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nbgrad.base.warn import warn_once
from nbgrad.core.refusals import no_complex_gradient
from nbgrad.core.tensor import Tensor, hooks, requires
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.quick import quickly, replayed
from nbgrad.dispatch.return_types import results
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Marked
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.diagonals import diag_embed
from nbgrad.ops.arrange.orders import tril, triu
from nbgrad.ops.host.values import of_array
from nbgrad.ops.index.gather import masked_fill
from nbgrad.ops.linear import lapack, small, solver
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.systems import (
    _LinAlgError,
    bare,
    by_columns,
    check_floats,
    check_matrices,
    check_square,
    identity,
    solve_triangular,
    unread,
)
from nbgrad.ops.reduce.extremes import amax
from nbgrad.ops.reduce.sums import sum as _sum
from nbgrad.ops.views.copy import full, to_dtype, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.parts import imag, real
from nbgrad.ops.views.shape import expand, squeeze, unsqueeze
from nbgrad.ops.views.slices import diagonal, narrow
from nbgrad.tape.modes import state

_ILL_CONDITIONED = "the input matrix is ill-conditioned or has too many repeated eigenvalues"


def _refuse_lost(name: str, lost: Any, why: str) -> None:
    """The first that was not found, by its place in the batch."""
    if lost.any():
        where = f"(Batch element {lapack.first(lost)}): " if lost.ndim else ""
        raise _LinAlgError(f"{name}: {where}The algorithm failed to converge because {why}")


def _skew(t: Tensor) -> Tensor:
    return e.sub(t, t.mH)


def _inexact(A: Tensor) -> bool:
    """Whether LAPACK has routines for it."""
    return A.dtype.inexact and not A.dtype.narrow


def _check_phases(name: str, vectors: str, *arriving: Tensor) -> None:
    """Refuse a gradient by a phase that complex vectors have by chance: that of each, or of each pair, whose second ones turn the other
    way. What arrives along it is the imaginary part on these diagonals."""
    if transforms.wrapped(arriving) or not arriving[0].is_cpu:
        return  # which shows nobody its values
    along = [imag(diagonal(t.detach(), 0, -2, -1))._host() for t in arriving]
    if not np.allclose(along[0], -along[-1] if len(along) > 1 else 0, 1e-2, 1e-2):
        raise RuntimeError(f"{name}: The {vectors}")


def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else e.add(a, b)


# ---------------------------------------------------------------- QR


def _tall_qr_back(gq: Tensor | None, gr: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    inner = _plus(
        None if gr is None else matmul(gr, r.mH),
        None if gq is None else e.neg(matmul(q.mH, gq)),
    )
    assert inner is not None
    upper = triu(inner)
    both = e.sub(e.add(upper, upper.mH), diag_embed(real(diagonal(upper, 0, -2, -1))))
    total = _plus(gq, matmul(q, both))
    assert total is not None
    return solve_triangular(r.mH, total, upper=False, left=False)


def _qr_back(g: Any, y0: Tensor, y1: Tensor, mode: str) -> Tensor:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') if you are going to differentiate through linalg.qr."
        )
    rows, columns = y0.shape[-2], y1.shape[-1]
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    gq, gr = g
    if rows >= columns:
        return _tall_qr_back(gq, gr, y0, y1)
    # The columns beyond the square are Q^H times those of the matrix: their gradient goes there, and through Q.
    square, rest = narrow(y1, -1, 0, rows), narrow(y1, -1, rows, columns - rows)
    if gr is None:
        first = _tall_qr_back(gq, None, y0, square)
        return cat([first, zeros(rest._spec.dense())], -1)
    g_rest = narrow(gr, -1, rows, columns - rows)
    through = _plus(gq, matmul(matmul(y0, rest), g_rest.mH))
    first = _tall_qr_back(through, narrow(gr, -1, 0, rows), y0, square)
    return cat([first, matmul(y0, g_rest)], -1)


@differentiable("LinalgQr", holomorphic=False, batch=lambda x, mode: _qr(x, mode=mode), A=_qr_back)
def _qr(A: Tensor, *, mode: str) -> tuple[Tensor, Tensor]:
    nothing = full(A._spec.dense().like((0,)), 0)
    if unread("linalg.qr", A, asks=True):
        *batch, rows, columns = tuple(A.shape)
        k = rows if mode == "complete" else min(rows, columns)
        return nothing if mode == "r" else bare(A, (*batch, rows, k), True), bare(
            A, (*batch, k, columns), True
        )
    if not A.is_cpu:
        Q, R = solver.qr(A, mode)
        return nothing if Q is None else Q, R
    a = A._host()
    if mode == "r":
        return nothing, by_columns(np.asarray(lapack.qr(a, "r")))
    q, r = lapack.qr(a, mode)
    return by_columns(q), by_columns(r)


@quickly(small.qr)
def linalg_qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> Any:
    """`A = Q @ R`: columns of length 1 at right angles, and an upper triangle. Of (m, n) the "reduced" `Q` has min(m, n) columns, the
    "complete" one m; with "r" only `R` is computed. There is a gradient, except of "r", and of "complete" where there are more rows than
    columns.

    >>> Q, R = torch.linalg.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> R.diagonal().abs(), torch.allclose(Q @ R, torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
    (tensor([5.0000, 0.4000]), True)
    """
    check_matrices("linalg.qr", A)
    check_floats("linalg.qr", A, "geqrf_cpu")
    if mode not in ("reduced", "r", "complete"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return results("linalg_qr", _qr(A, mode=mode), out, (A,))


@method
def qr(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """The older form of `linalg.qr`, which says "reduced" for `some=True` and "complete" for `some=False`; better written so:

    >>> Q, R = torch.linalg.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> R.diagonal().abs()
    tensor([5.0000, 0.4000])
    """
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\n"
        "The boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\n"
        "should be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return results("qr", linalg_qr(input, "reduced" if some else "complete"), out, (input,))


# ---------------------------------------------------------------- reflections


def _no_derivative(g: Any) -> None:
    raise NotImplementedError("the derivative for 'geqrf' is not implemented.")


@differentiable("GeqrfBackward0", input=_no_derivative)
def _geqrf(input: Tensor) -> tuple[Tensor, Tensor]:
    *batch, rows, columns = tuple(input.shape)
    if unread("geqrf", input, asks=True):
        return bare(input, input.shape, True), bare(input, (*batch, min(rows, columns)))
    if not input.is_cpu:
        return solver.reflections(input)
    turned, tau = lapack.qr(input._host(), "raw")
    return by_columns(turned.mT), of_array(tau)


@method
@quickly(small.geqrf)
def geqrf(input: Tensor, *, out: Any = None) -> Any:
    """A `qr` as LAPACK leaves it: `R` on and above the diagonal, below it the vectors of the reflections that
    `linalg.householder_product` makes `Q` of, and their factors. There is no gradient.

    >>> a, tau = torch.geqrf(torch.tensor([[3.0], [4.0]]))
    >>> torch.linalg.householder_product(a, tau) * a[0, 0]
    tensor([[3.],
            [4.]])
    """
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    if not _inexact(input):
        raise NotImplementedError(f"\"geqrf_cpu\" not implemented for '{input.dtype.scalar_name}'")
    no_complex_gradient("geqrf", input)
    return results("geqrf", _geqrf(input), out, (input,))


def _reflections(input: Tensor, tau: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """What is reflected, and each reflection's vector and factor."""
    unit = identity(input, input.shape[-2], input.shape[-1])
    below = e.add(tril(input, -1), unit)
    each = [
        (narrow(below, -1, j, 1), unsqueeze(narrow(tau, -1, j, 1), -1))
        for j in range(tuple.__getitem__(tau.shape, -1))
    ]
    return expand(unit, input.shape), each


def _along(v: Tensor, t: Tensor) -> Tensor:
    return matmul(v.mH, t)


def _reflect_back(g: Tensor, input: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    after, each = _reflections(input, tau)
    done = []
    for v, scale in reversed(each):  # what each of them reflected
        done.append(after)
        after = e.sub(after, e.mul(scale, matmul(v, _along(v, after))))
    vectors, factors = [], []
    for (v, scale), before in zip(each, reversed(done)):
        a, b = _along(v, g), _along(v, before)
        turned = hooks.conj(scale)
        factors.append(squeeze(e.neg(_sum(e.mul(a, hooks.conj(b)), -1, True)), -1))
        vectors.append(e.neg(e.add(e.mul(turned, matmul(g, b.mH)), e.mul(scale, matmul(before, a.mH)))))
        g = e.sub(g, e.mul(turned, matmul(v, a)))
    if not each:
        return full(input._spec.dense(), 0), full(tau._spec.dense(), 0)
    rest = input.shape[-1] - len(vectors)
    vectors += [full(vectors[0]._spec.dense(), 0)] * rest
    return tril(cat(vectors, -1), -1), cat(factors, -1)


@differentiable(
    "LinalgHouseholderProductBackward0",
    holomorphic=False,
    input=lambda g, input, tau: _reflect_back(g, input, tau)[0],
    tau=lambda g, input, tau: _reflect_back(g, input, tau)[1],
)
def _reflect(input: Tensor, tau: Tensor) -> Tensor:
    if small.is_small(input._spec) and input.is_cpu and tau.is_cpu:
        *batch, rows, columns = tuple(input.shape)
        begin = np.broadcast_to(np.eye(rows, columns, dtype=input.dtype.np), (*batch, rows, columns))
        return by_columns(lapack.reflected(begin, input._host(), tau._host(), False))
    result, each = _reflections(input, tau)
    for v, scale in reversed(each):
        result = e.sub(result, e.mul(scale, matmul(v, _along(v, result))))
    return solver.by_columns(result)


@quickly(small.householder_product)
@replayed
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of reflections `I - tau * outer(v, v.conj())`, whose vectors stand in the columns of `input`,
    below the diagonal: above it they are 0, on it 1. So LAPACK keeps the `Q` of a `qr`.

    >>> torch.linalg.householder_product(torch.tensor([[5.0], [1.0]]), torch.tensor([1.0]))
    tensor([[ 0.],
            [-1.]])
    """
    words = "torch.linalg.householder_product:"
    if input.ndim < 2:
        raise RuntimeError(f"{words} input must have at least 2 dimensions.")
    (m, n), k = tuple(input.shape)[-2:], tau.shape[-1] if tau.ndim else 0
    if m < n:
        raise RuntimeError(f"{words} input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < k:
        raise RuntimeError(f"{words} input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{words} Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and input.ndim is "
            f"equal to {input.ndim}"
        )
    if tuple(tau.shape[:-1]) != tuple(input.shape[:-2]):
        raise RuntimeError(
            f"{words} Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )
    if tau.dtype is not input.dtype:
        raise RuntimeError(
            f"{words} tau dtype {tau.dtype.scalar_name} does not match input dtype {input.dtype.scalar_name}"
        )
    if not _inexact(input):
        raise NotImplementedError(f"\"orgqr_cpu\" not implemented for '{input.dtype.scalar_name}'")
    result = _reflect(input, tau)
    return result if out is None else into("linalg_householder_product", out, result, (input, tau))


def _square(vectors: Tensor, columns: int) -> Tensor:
    """As many columns, of which those that are new are 0."""
    kept = narrow(vectors, -1, 0, min(columns, vectors.shape[-1]))
    more = full(kept._spec.dense().like((*tuple(kept.shape)[:-1], columns - kept.shape[-1])), 0)
    return cat([kept, more], -1)


def _turn_back(
    g: Tensor, input: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool
) -> tuple[Tensor, Tensor]:
    of_Q = matmul(g, other.mH) if left else matmul(other.mH, g)
    vectors, factors = _reflect_back(of_Q.mH if transpose else of_Q, _square(input, input.shape[-2]), tau)
    return _square(vectors, input.shape[-1]), factors


@differentiable(
    "Ormqr",
    holomorphic=False,
    input=lambda g, input, tau, other, left, transpose: _turn_back(g, input, tau, other, left, transpose)[0],
    tau=lambda g, input, tau, other, left, transpose: _turn_back(g, input, tau, other, left, transpose)[1],
    other=lambda g, input, tau, left, transpose: _turn(input, tau, g, left=left, transpose=not transpose),
)
def _turn(input: Tensor, tau: Tensor, other: Tensor, *, left: bool, transpose: bool) -> Tensor:
    if small.is_small(input._spec, other._spec) and input.is_cpu and tau.is_cpu and other.is_cpu:
        a, taus, b = input._host(), tau._host(), other._host()
        if left:
            return by_columns(lapack.reflected(b, a, taus, transpose))
        return by_columns(lapack.adjoint(lapack.reflected(lapack.adjoint(b), a, taus, not transpose)))
    Q = _reflect(_square(input, input.shape[-2]), tau)
    Q = Q.mH if transpose else Q
    turned: Tensor = matmul(other.mT, Q.mT) if left else matmul(Q.mT, other.mT)
    return turned.mT  # by columns, as LAPACK writes it


@method
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`linalg.householder_product`, by LAPACK's name.

    >>> torch.orgqr(torch.tensor([[5.0], [1.0]]), torch.tensor([1.0]))
    tensor([[ 0.],
            [-1.]])
    """
    return householder_product(input, input2, out=out)


@method
@quickly(small.ormqr)
@replayed
def ormqr(
    input: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The square `Q` of a `geqrf`, or its conjugate transpose, times `input3`; `input3` times that with `left=False`. `input2` are
    the factors that `geqrf` calls `tau`. `Q` is made on the way.

    >>> A = torch.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> torch.ormqr(*torch.geqrf(A), A, transpose=True)  # R
    tensor([[-5.0000, -2.2000],
            [ 0.0000,  0.4000]])
    """
    words, tau, other = "torch.ormqr:", input2, input3
    if input.ndim < 2 or other.ndim < 2:
        raise RuntimeError(
            f"{words} {'input' if input.ndim < 2 else 'other'} must have at least 2 dimensions."
        )
    side, m, k = (-2 if left else -1), input.shape[-2], tau.size(-1)
    if other.shape[side] != m:
        raise RuntimeError(f"{words} other.shape[{side}] must be equal to input.shape[-2]")
    if k != min(m, input.shape[-1]):
        raise RuntimeError(
            f"{words} tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    for name, t, ndim in (("tau", tau, tau.ndim + 1), ("other", other, other.ndim)):
        if ndim != input.ndim:
            kept = "one dimension less than" if name == "tau" else "the same number of dimensions as"
            raise RuntimeError(
                f"{words} Expected {name} to have {kept} input, but got {name}.ndim equal to {t.ndim} and input.ndim "
                f"is equal to {input.ndim}"
            )
        batch = list(t.shape[: input.ndim - 2])
        if batch != list(input.shape[:-2]):
            raise RuntimeError(
                f"{words} Expected batch dimensions of {name} to be equal to input.shape[:-2], but got {batch}"
            )
        if t.dtype is not input.dtype:
            raise RuntimeError(
                f"{words} Expected input and {name} to have the same dtype, but input has dtype{input.dtype.scalar_name} and {name} "
                f"has dtype {t.dtype.scalar_name}"
            )
    if not _inexact(input):
        raise NotImplementedError(f"\"ormqr_cpu\" not implemented for '{input.dtype.scalar_name}'")
    result: Tensor = _turn(input, tau, other, left=left, transpose=transpose)
    return result if out is None else into("ormqr", out, result, (input, tau, other))


# ---------------------------------------------------------------- eigenvalues of symmetric matrices

_BY_CHANCE = "in the complex case are specified up to multiplication by e^{i phi}. The specified loss function depends on this "
_EIGENVECTORS = f"eigenvectors {_BY_CHANCE}quantity, so it is ill-defined."
_SINGULAR_VECTORS = f"singular vectors {_BY_CHANCE}phase term, making it ill-defined."


def _eigh_back(g: Any, y0: Tensor, y1: Tensor) -> Tensor:
    gl, gv = g
    inner = None if gl is None else diag_embed(gl)
    if gv is not None:
        gaps = e.sub(unsqueeze(y0, -2), unsqueeze(y0, -1))
        gaps = masked_fill(gaps, identity(y0, y0.shape[-1], dtype=dtypes.bool_), math.inf)
        turned = matmul(y1.mH, gv)
        if turned._spec.dtype.is_complex:
            _check_phases("linalg_eigh_backward", _EIGENVECTORS, turned)
        turned = e.mul(turned, e.reciprocal(gaps))
        inner = _plus(inner, e.mul(e.add(turned, turned.mH), 0.5))
    assert inner is not None
    return matmul(matmul(y1, to_dtype(inner, y1.dtype)), y1.mH)


def _vectors_read(A: Tensor) -> bool:
    """Whether somebody may ask for a derivative of values, which is made of vectors: half of the time is theirs."""
    return bool(state.active) or (state.grad and requires(A))


@differentiable(
    "LinalgEigh",
    holomorphic=False,
    batch=lambda x, UPLO, vectors: _eigh(x, UPLO=UPLO, vectors=vectors),
    A=_eigh_back,
)
def _eigh(A: Tensor, *, UPLO: str, vectors: bool) -> tuple[Tensor, Tensor]:
    if unread("linalg.eigh", A, asks=True):
        return bare(A, tuple(A.shape)[:-1], dtype=A.dtype.to_real()), bare(A, A.shape, columns=True)
    why = f"{_ILL_CONDITIONED} (error code: {A.shape[-1] - 1})."
    if not A.is_cpu:
        *made, infos = solver.eigh(A, UPLO)
        _refuse_lost("linalg.eigh", infos._host(), why)
        return made[0], made[1]
    values, columns, lost = lapack.eigh(A._host(), UPLO, vectors)
    _refuse_lost("linalg.eigh", lost, why)
    return of_array(values), by_columns(columns) if vectors else of_array(columns)


def _of_symmetric(A: Tensor, UPLO: str, vectors: bool) -> tuple[Tensor, Tensor]:
    check_square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    if not _inexact(A):
        raise NotImplementedError(f"\"linalg_eigh_cpu\" not implemented for '{A.dtype.scalar_name}'")
    found: tuple[Tensor, Tensor] = _eigh(A, UPLO=UPLO.upper(), vectors=vectors)
    return found


@quickly(small.eigh)
def linalg_eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:
    """The eigenvalues of symmetric (Hermitian) matrices, in rising order, and their vectors as columns: `A = V @ diag(L) @ V.mH`. `UPLO`
    says which triangle is read, the lower ("L") or the upper ("U"). The gradient of the vectors is defined only where no two values are
    equal, and of complex ones where what is made of them does not depend on their phases.

    >>> L, V = torch.linalg.eigh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> L, V.abs()
    (tensor([1., 3.]), tensor([[0.7071, 0.7071],
            [0.7071, 0.7071]]))
    """
    return results("linalg_eigh", _of_symmetric(A, UPLO, True), out, (A,))


@quickly(small.eigvalsh)
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of symmetric (Hermitian) matrices, in rising order. `UPLO` says which triangle is read, the lower ("L") or the upper
    ("U"). The gradient is `V @ diag(g) @ V.mH`, V being the eigenvectors.

    >>> torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    result = _of_symmetric(A, UPLO, _vectors_read(A))[0]
    return result if out is None else into("linalg_eigvalsh", out, result, (A,))


# ---------------------------------------------------------------- singular values


def _svd_back(g: Any, y0: Tensor, y1: Tensor, y2: Tensor, full_matrices: bool) -> Tensor:
    k = y1.shape[-1]
    gu, gs, gvh = g
    u, s, vh = narrow(y0, -1, 0, k), y1, narrow(y2, -2, 0, k)
    row = unsqueeze(s, -2)
    if gu is None and gvh is None:
        return matmul(e.mul(u, e.mul(unsqueeze(gs, -2), 1)), vh)
    # The vectors beyond the singular values are not settled by the matrix; PyTorch passes over what arrives for them.
    gu = None if gu is None else narrow(gu, -1, 0, k)
    gvh = None if gvh is None else narrow(gvh, -2, 0, k)
    gaps = e.mul(e.sub(row, row.mT), e.add(row, row.mT))
    gaps = masked_fill(gaps, identity(row, k, dtype=dtypes.bool_), 1.0)
    inner = None if gs is None else diag_embed(gs)
    beside, skew = None, []
    if gu is not None:
        turned = matmul(u.mH, gu)
        skew.append(_skew(turned))
        inner = _plus(inner, e.mul(e.div(skew[0], gaps), row))
        if u.shape[-2] > k:
            beside = matmul(e.div(e.sub(gu, matmul(u, turned)), row), vh)
    if gvh is not None:
        turned = matmul(vh, gvh.mH)
        skew.append(_skew(turned))
        inner = _plus(inner, e.mul(row.mT, e.div(skew[-1], gaps)))
        if vh.shape[-1] > k:
            outside = e.sub(gvh, matmul(turned.mH, vh))
            beside = _plus(beside, matmul(e.div(u, row), outside))
    if y0._spec.dtype.is_complex:
        _check_phases("svd_backward", _SINGULAR_VECTORS, *skew)
        if len(skew) == 2:
            inner = _plus(inner, diag_embed(e.div(diagonal(skew[0], 0, -2, -1), e.mul(s, 2))))
    assert inner is not None
    total = _plus(matmul(matmul(u, inner), vh), beside)
    assert total is not None
    return total


@differentiable(
    "LinalgSvd",
    holomorphic=False,
    batch=lambda x, full_matrices, vectors: _svd(x, full_matrices=full_matrices, vectors=vectors),
    A=_svd_back,
)
def _svd(A: Tensor, *, full_matrices: bool, vectors: bool) -> tuple[Tensor, Tensor, Tensor]:
    if unread("linalg.svd", A, asks=True):
        *batch, rows, columns = tuple(A.shape)
        k = min(rows, columns)
        wide, down = (rows, columns) if full_matrices else (k, k)
        values = bare(A, (*batch, k), dtype=A.dtype.to_real())
        return bare(A, (*batch, rows, wide), True), values, bare(A, (*batch, down, columns), True)
    why = "the input matrix contained non-finite values."
    if not A.is_cpu:
        *made, infos = solver.svd(A, full_matrices)
        _refuse_lost("linalg.svd", infos._host(), why)
        return made[0], made[1], made[2]
    u, s, vh, lost = lapack.svd(A._host(), full_matrices, vectors)
    _refuse_lost("linalg.svd", lost, why)
    laid = by_columns if vectors else of_array
    return laid(u), of_array(s), laid(vh)


def _of_any(
    A: Tensor, full_matrices: bool, vectors: bool, driver: str | None
) -> tuple[Tensor, Tensor, Tensor]:
    check_matrices("linalg.svd", A)
    check_floats("linalg.svd", A, "linalg_svd_cpu")
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    found: tuple[Tensor, Tensor, Tensor] = _svd(A, full_matrices=full_matrices, vectors=vectors)
    return found


@quickly(small.svd)
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None) -> Any:
    """`A = U @ diag(S) @ Vh`: singular values in falling order between rows and columns of length 1 at right angles. Of (m, n), `U` is (m,
    m) and `Vh` (n, n), or, without `full_matrices`, (m, k) and (k, n) with k = min(m, n). The gradient of `U` and `Vh` is defined only
    where no two values are equal, and of complex ones where what is made of them does not depend on their phases.

    >>> U, S, Vh = torch.linalg.svd(torch.tensor([[0.0, 2.0], [-3.0, 0.0]]))
    >>> S, U.abs()
    (tensor([3., 2.]), tensor([[0., 1.],
            [1., 0.]]))
    """
    return results("linalg_svd", _of_any(A, full_matrices, True, driver), out, (A,))


@quickly(small.svdvals)
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values of matrices, in falling order. The gradient is `U @ diag(g) @ Vh`.

    >>> torch.linalg.svdvals(torch.tensor([[0.0, 2.0], [-3.0, 0.0]]))
    tensor([3., 2.])
    """
    result = _of_any(A, False, _vectors_read(A), driver)[1]
    return result if out is None else into("linalg_svdvals", out, result, (A,))


@method
def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """The older form of `linalg.svd`, which gives V itself: `A = U @ diag(S) @ V.mH`. `some=False` asks for the full matrices; without
    `compute_uv` U and V are zeros.

    >>> U, S, V = torch.svd(torch.tensor([[0.0, 2.0], [-3.0, 0.0]]))
    >>> S
    tensor([3., 2.])
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {input.ndim} dimensions instead"
        )
    u, s, vh = linalg_svd(input, full_matrices=not some)
    if not compute_uv:
        rows, columns = tuple(input.shape)[-2:]
        batch = tuple(input.shape)[:-2]
        u, vh = (full(input._spec.dense().like((*batch, n, n)), 0) for n in (rows, columns))
    return results("svd", (u, s, vh.mH), out, (input,))


# ---------------------------------------------------------------- rank, pseudoinverse, least squares


def _threshold(s: Tensor, A: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Below which a singular value counts as 0."""
    largest = amax(s, -1, True) if s.shape[-1] else full(s._spec.dense().like((*tuple(s.shape)[:-1], 1)), 0)
    if rtol is None:
        given = atol is not None and (isinstance(atol, Tensor) or atol > 0)
        rtol = 0.0 if given else dtypes.finfo(A.dtype).eps * max(tuple(A.shape)[-2:])
    wide = [unsqueeze(t, -1) if isinstance(t, Tensor) else t for t in (rtol, 0.0 if atol is None else atol)]
    relative = e.mul(largest, wide[0])
    absolute = wide[1] if isinstance(wide[1], Tensor) else full(s._spec.plain.like(()), wide[1])
    return e.maximum(relative, to_dtype(absolute, s.dtype))


_WIDE_ONLY = "This function doesn't handle types other than float and double"


def _check_tolerances(name: str, **given: Any) -> None:
    for key, value in given.items():
        if isinstance(value, Tensor) and value.dtype.is_complex:
            raise RuntimeError(
                f"{name}: {key} tensor of complex type is not supported. Got {value.dtype.scalar_name}"
            )


def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """How many singular values are above the tolerance, the greater one of `atol` and `rtol` times the largest value; if neither is given,
    `rtol` is the dtype's precision times the larger size. `hermitian` says that the matrices are symmetric. No gradient passes.

    >>> torch.linalg.matrix_rank(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    check_matrices("torch.linalg.matrix_rank", A, "input")
    if not _inexact(A):
        raise RuntimeError(_WIDE_ONLY)
    _check_tolerances("torch.linalg.matrix_rank", atol=atol if tol is None else tol, rtol=rtol)
    A = A.detach()
    s = e.abs(eigvalsh(A)) if hermitian else svdvals(A)
    result = _sum(
        e.gt(s, _threshold(s, A, tol if tol is not None else atol, 0.0 if tol is not None else rtol)), -1
    )
    return result if out is None else into("linalg_matrix_rank", out, result, (A,))


def _pinv_back(g: Tensor, A: Tensor, y: Tensor) -> Tensor:
    turned, other = g.mH, y.mH
    first = e.neg(matmul(matmul(other, g), other))
    left = matmul(turned, matmul(y, other))
    right = matmul(matmul(other, y), turned)
    more = e.add(e.sub(left, matmul(matmul(A, y), left)), e.sub(right, matmul(right, matmul(y, A))))
    return e.add(first, more)


@differentiable("LinalgPinv", holomorphic=False, A=_pinv_back)
def _pinv(A: Tensor, *, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    if not A.numel():
        return full(A._spec.plain.like((*tuple(A.shape)[:-2], A.shape[-1], A.shape[-2])), 0)
    if hermitian:
        s, v = _eigh(A, UPLO="L", vectors=True)
        u, vh, size = v, v.mH, e.abs(s)
    else:
        u, s, vh = _svd(A, full_matrices=False, vectors=True)
        size = s
    kept = e.gt(size, _threshold(size, A, atol, rtol))
    inverse = e.where(kept, e.reciprocal(s), full(s._spec.plain.like(()), 0))
    return matmul(e.mul(vh.mH, unsqueeze(inverse, -2)), u.mH)


@quickly(small.pinv)
def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudo-inverse: of (m, n), the (n, m) matrix whose product with B is the shortest X of those for which `A @ X` is nearest to B.
    Singular values not above the tolerance (`atol`, or `rtol` times the largest) count as 0; `hermitian` says that the matrices are
    symmetric.

    >>> torch.linalg.pinv(torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000, 0.0000],
            [0.0000, 0.0000, 0.2500]])
    """
    if A.ndim < 2 or not _inexact(A):
        raise RuntimeError(
            f"linalg.pinv({A.dtype.scalar_name}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of float, "
            "double, cfloat or cdouble types"
        )
    _check_tolerances("torch.linalg.pinv", rcond=rcond, atol=atol, rtol=rtol)
    result = _pinv(A, atol=atol, rtol=rcond if rtol is None else rtol, hermitian=hermitian)
    return result if out is None else into("linalg_pinv", out, result, (A,))


@method
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The older form of `linalg.pinv`; `rcond` is its `rtol`.

    >>> torch.pinverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return pinv(input, rcond)


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _lstsq_back(g: Any, A: Tensor, B: Tensor, y0: Tensor, y1: Tensor, rcond: Any) -> list[Tensor | None]:
    inverse = pinv(A, rcond)
    ga = gb = None
    if g[0] is not None:
        gb = matmul(inverse.mH, g[0])
        ga = _pinv_back(matmul(g[0], B.mH), A, inverse)
    if g[1] is not None and y1.numel():
        rest = e.mul(e.mul(e.sub(B, matmul(A, y0)), 2), unsqueeze(g[1], -2))
        gb, ga = _plus(gb, rest), _plus(ga, e.neg(matmul(rest, y0.mH)))
    return [ga, gb]


def _by_qr(A: Tensor, B: Tensor) -> Tensor | None:
    """The solutions with matrices all of which are certain to have full rank, by the factors of QR: a fifth of the time of singular
    values, which tell of others."""
    known = all([type(t._spec) is not Marked and t.device.type == "cpu" and t.numel() for t in (A, B)])
    if not known or not A._spec.backend.holds:
        return None
    found = lapack.least_squares(A.detach()._host(), B.detach()._host())
    return None if found is None else of_array(found)


@differentiable("LinalgLstsq", holomorphic=False, all=_lstsq_back)
def _lstsq(
    A: Tensor, B: Tensor, *, rcond: Any, rests: bool, whole: bool, found: Tensor | None
) -> tuple[Tensor, Tensor]:
    rows, columns = tuple(A.shape)[-2:]
    ranks = np.array(min(rows, columns)) if found is not None else matrix_rank(A, rtol=rcond)._host()
    if whole and (ranks < min(rows, columns)).any():
        raise _LinAlgError(
            "torch.linalg.lstsq: The least squares solution could not be computed because the input matrix does not have full "
            f"rank (error code: {ranks.min() + 1})."
        )
    if found is not None:
        x = found
    else:
        x = matmul(_pinv(A, atol=None, rtol=rcond, hermitian=False), B)
    if rests and rows > columns and (ranks == columns).all():
        rest = e.sub(B, matmul(A, x))
        return x, _sum(real(e.mul(rest, hooks.conj(rest))), -2)
    return x, full(A._spec.dense().like((0,), dtype=A.dtype.to_real()), 0)


@quickly(small.lstsq)
def lstsq(A: Tensor, B: Tensor, rcond: Any = None, *, driver: str | None = None, out: Any = None) -> Any:
    """The X for which the squares of `A @ X - B` have the smallest sum, with that sum for each column, the rank of A and its singular
    values, as `solution`, `residuals`, `rank` and `singular_values`; what the `driver` does not find is empty. Singular values not above
    `rcond` times the largest count as 0. The gradient is that of `pinv(A) @ B`.

    >>> A = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> torch.linalg.lstsq(A, torch.tensor([[1.0], [2.0], [3.0]]), driver="gels").solution.round(decimals=3)
    tensor([[1.],
            [1.]])
    """
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if not B.ndim:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    vector = B.ndim == A.ndim - 1 and (B.ndim == 1 or tuple(B.shape) == tuple(A.shape)[:-1])
    if vector and A.shape[-2] != B.shape[-1]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-1)")
    if not vector and A.shape[-2] != B.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    if A.dtype is not B.dtype:
        raise RuntimeError(
            "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype "
            f"{A.dtype.scalar_name} and other's dtype {B.dtype.scalar_name}"
        )
    if driver == "gels" or (driver == "gelsd" and rcond is not None and not 0 < rcond < 1):
        rcond = None  # LAPACK's looks at none, or takes its own
    if driver in (None, "gelsy") and rcond is not None and rcond >= 1 and A.dtype.inexact:
        rcond = (
            1 - dtypes.finfo(A.dtype).eps
        )  # which counts the largest of what is not all 0, whatever is asked
    right = unsqueeze(B, -1) if vector else B
    found = _by_qr(A, right) if rcond is None and _inexact(A) else None
    if found is None:
        rank = matrix_rank(A, rtol=rcond)
    else:
        *batch, rows, columns = tuple(A.shape)
        rank = full(A._spec.plain.like(tuple(batch), dtype=dtypes.int64), min(rows, columns))
    x, rest = _lstsq(
        A,
        right,
        rcond=rcond,
        rests=driver not in (None, "gelsy"),
        whole=driver == "gels",
        found=found,
    )
    nothing = full(A._spec.dense().like((0,), dtype=A.dtype.to_real()), 0)
    values = svdvals(A.detach()) if driver in ("gelsd", "gelss") else nothing
    ranks = full(A._spec.plain.like((0,), dtype=dtypes.int64), 0) if driver == "gels" else rank
    parts = squeeze(x, -1) if vector else x, rest if not vector else nothing, ranks, values
    return results("linalg_lstsq", parts, out, (A, B), exact=(None,) * 4)


__all__ = ["geqrf", "orgqr", "ormqr", "pinverse", "qr", "svd"]
