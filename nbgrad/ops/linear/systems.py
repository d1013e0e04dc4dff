"""Systems of linear equations, inverses, determinants and Cholesky factors of batches of square matrices.

A singular matrix is refused in PyTorch's words, which name the batch element and the pivot, or told of by an `info` in the functions
that end in `_ex`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor, wrap
from nbgrad.dispatch.elementwise import check_out, differentiable, into
from nbgrad.dispatch.return_types import EXPECTED, results
from nbgrad.dispatch.stanza import method, method_alone
from nbgrad.memory import dtypes, layout
from nbgrad.memory.storage import spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.orders import tril, triu
from nbgrad.ops.host.values import of_array
from nbgrad.ops.linear import lapack
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.reduce.sums import sum as _sum
from nbgrad.ops.views.copy import clone, full
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.shape import expand, reshape, squeeze, unsqueeze
from nbgrad.ops.views.slices import narrow

_Array = np.ndarray[Any, Any]


class _LinAlgError(RuntimeError):
    """What linear algebra raises of a matrix that it can do nothing with, such as a singular one.

    >>> try: torch.linalg.inv(torch.zeros(2, 2))
    ... except torch.linalg.LinAlgError: print("singular")
    singular
    """


LinAlgError = _LinAlgError

# ---------------------------------------------------------------- what PyTorch refuses


def check_matrices(name: str, A: Tensor, word: str = "A") -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {word} must have at least 2 dimensions.")


def check_square(name: str, A: Tensor) -> None:
    check_matrices(name, A)
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )


def check_floats(name: str, A: Tensor, kernel: str = "") -> None:
    """Refuse ints, and halves: in the words of PyTorch's kernel of that name, or without one at once."""
    if not A.dtype.is_floating_point:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {A.dtype.scalar_name}"
        )
    if A.dtype is dtypes.float16:
        if kernel:
            raise NotImplementedError(f"\"{kernel}\" not implemented for 'Half'")
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got Half")


def _refused(name: str, infos: _Array, words: str) -> _LinAlgError:
    """The first that failed, by its place in the batch."""
    at = lapack.first(infos)
    where = f"(Batch element {at}): " if infos.ndim else ""
    return _LinAlgError(f"{name}: {where}{words.format(info=infos.reshape(-1)[at])}")


_NO_INVERSE = "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
_NO_SOLUTION = "The solver failed because the input matrix is singular."
_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order "
    "{info} is not positive-definite)."
)

# ---------------------------------------------------------------- inverse


def by_columns(array: _Array) -> Tensor:
    """A tensor of matrices that lie by columns, as LAPACK leaves them in PyTorch."""
    t = of_array(array.mT)
    *batch, down, along = t._spec.strides
    return wrap(t._buf, t._spec.like(array.shape, (*batch, along, down)))


@differentiable(
    "LinalgInvEx",
    tangent=lambda t, y: e.neg(matmul(matmul(y, t), y)),
    batch=lambda x, name: _inv(x, name=name),
    input=lambda g, y: e.neg(matmul(matmul(y.mT, g), y.mT)),
)
def _inv(input: Tensor, *, name: str | None) -> Tensor:
    """A singular matrix is refused in the words of the function of that `name`, if any."""
    found, infos = lapack.inverse(input._host())
    if name is not None and infos.any():
        raise _refused(name, infos, _NO_INVERSE)
    return by_columns(found)


def _inverse(A: Tensor, name: str | None) -> Tensor:
    check_square("linalg.inv", A)
    check_floats("linalg.inv", A)
    return _inv(A, name=name)


def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices; a singular one is refused. The gradient is `-(y.mT @ g @ y.mT)`, y being the inverse.

    >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    result = _inverse(A, "linalg.inv")
    return result if out is None else into("linalg_inv", out, result, (A,))


@method_alone
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices, as `linalg.inv`; a singular one is refused. The gradient is `-(y.mT @ g @ y.mT)`, y being the
    inverse.

    >>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inv(input, out=out)


def _singular(A: Tensor, found: Tensor) -> Tensor:
    """Which matrices are, as LAPACK tells: where none is, what was `found` is finite."""
    a = A.detach()._host()
    none = bool(np.isfinite(found.detach()._host()).all())
    return of_array(np.zeros(a.shape[:-2], np.int32) if none else lapack.inverse(a)[1])


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """`inv` that refuses nothing, and says in `info` what went wrong: the place, counted from 1, of the first pivot that is 0, or 0. With
    `check_errors` it refuses that all the same.

    >>> torch.linalg.inv_ex(torch.tensor([[1.0, 1.0], [1.0, 1.0]])).info
    tensor(2, dtype=torch.int32)
    """
    found = _inverse(A, "linalg.inv_ex" if check_errors else None)
    return results("linalg_inv_ex", (found, _singular(A, found)), out, (A,))


# ---------------------------------------------------------------- solutions


def _by_vector(t: Tensor, vector: bool) -> Tensor:
    return unsqueeze(t, -1) if vector else t


def _solve_other(g: Tensor, A: Tensor, left: bool, vector: bool) -> Tensor:
    return _solve(A.mT, g, left=left, vector=vector, name=None)


def _solve_matrix(g: Tensor, A: Tensor, y: Tensor, left: bool, vector: bool) -> Tensor:
    back = _by_vector(_solve_other(g, A, left, vector), vector)
    x = _by_vector(y, vector)
    return e.neg(matmul(back, x.mT) if left else matmul(x.mT, back))


def _solve_tangent(
    A: Tensor, y: Tensor, A_t: Tensor | None, B_t: Tensor | None, left: bool, vector: bool
) -> Tensor:
    moved = None
    if A_t is not None:
        x = _by_vector(y, vector)
        moved = e.neg(matmul(A_t, x) if left else matmul(x, A_t))
        moved = squeeze(moved, -1) if vector else moved
    if B_t is not None:
        moved = B_t if moved is None else e.add(B_t, moved)
    assert moved is not None
    return _solve(A, moved, left=left, vector=vector, name=None)


@differentiable("LinalgSolveEx", tangent=_solve_tangent, A=_solve_matrix, B=_solve_other)
def _solve(A: Tensor, B: Tensor, *, left: bool, vector: bool, name: str | None) -> Tensor:
    a, b = A._host(), B._host()
    b = b[..., None] if vector else b
    x, infos = lapack.solve(a, b) if left else lapack.solve(a.mT, b.mT)
    if name is not None and infos.any():
        raise _refused(name, infos, _NO_SOLUTION)
    x = x if left else x.mT
    return of_array(x[..., 0]) if vector else by_columns(x) if left else of_array(x)


def _broadcast(A: Tensor, B: Tensor, vector: bool) -> tuple[Tensor, Tensor]:
    """Both with the batch dimensions of both."""
    columns = 1 if vector else 2
    batch = tuple(layout.broadcast_shapes(tuple(A.shape)[:-2], tuple(B.shape)[:-columns]))
    wide_a, wide_b = (*batch, *tuple(A.shape)[-2:]), (*batch, *tuple(B.shape)[-columns:])
    return (
        A if tuple(A.shape) == wide_a else expand(A, wide_a),
        B if tuple(B.shape) == wide_b else expand(B, wide_b),
    )


def _check_equation(name: str, A: Tensor, B: Tensor, left: bool, vector: bool) -> None:
    rows, columns = (B.shape[-1], 1) if vector else tuple(B.shape)[-2:]
    if A.shape[-1] != (rows if left else columns):
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {rows}x{columns})"
        )


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """The X of `A @ X = B`, or of `X @ A = B` where `left` is False; B is a matrix, a vector, or a batch of either. A singular A is
    refused. The gradient of B is `inv(A).mT @ g`, that of A minus this times `X.mT`.

    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([4.0, 5.0]))
    tensor([2., 3.])
    """
    result = _solution(A, B, left, "torch.linalg.solve")
    return result if out is None else into("linalg_solve", out, result, (A, B))


def _solution(A: Tensor, B: Tensor, left: bool, refuse: str | None) -> Tensor:
    """A singular matrix is refused in the words of the function of that name, if any."""
    name = "linalg.solve"
    check_matrices(name, A)
    if not A.dtype.is_floating_point:
        check_floats(name, A)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {A.dtype.scalar_name} and B of type "
            f"{B.dtype.scalar_name} instead"
        )
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape)[:-1])
    if not vector:
        check_matrices(name, B, "B")
    check_square(name, A)
    _check_equation(name, A, B, left, vector)
    if vector and not left:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation XA = B ({A.shape[-2]}x{A.shape[-1]} and {B.shape[-1]}x1)"
        )
    check_floats(name, A, "lu_cpu")
    return _solve(*_broadcast(A, B, vector), left=left, vector=vector, name=refuse)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """`solve` that refuses nothing, and says in `info` what went wrong: the place, counted from 1, of the first pivot that is 0, or 0. With
    `check_errors` it refuses that all the same.

    >>> torch.linalg.solve_ex(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([4.0, 5.0]))
    torch.return_types.linalg_solve_ex(
    result=tensor([2., 3.]),
    info=tensor(0, dtype=torch.int32))
    """
    found = _solution(A, B, left, "torch.linalg.solve_ex" if check_errors else None)
    return results("linalg_solve_ex", (found, _singular(A, found)), out, (A, B))


# ---------------------------------------------------------------- triangular systems


def _part(t: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    return triu(t, int(unitriangular)) if upper else tril(t, -int(unitriangular))


def _triangular_back(
    g: Tensor, A: Tensor, y: Tensor, upper: bool, left: bool, unitriangular: bool, wanted: Any
) -> list[Tensor | None]:
    how = {"upper": not upper, "left": left, "unitriangular": unitriangular}
    back = _solve_triangular(A.mT, g, **how)
    whole = e.neg(matmul(back, y.mT) if left else matmul(y.mT, back)) if wanted[0] else None
    return [None if whole is None else _part(whole, upper, unitriangular), back]


@differentiable("LinalgSolveTriangular", all=_triangular_back)
def _solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    a, b = A._host(), B._host()
    a = np.triu(a) if upper else np.tril(a)
    n = a.shape[-1]
    if unitriangular:
        a[..., range(n), range(n)] = 1
    solve = np.linalg.solve
    if not np.isfinite(a).all() or (a[..., range(n), range(n)] == 0).any():
        solve = partial(lapack.substituted, upper=upper == left)
    with lapack.quiet():
        return by_columns(solve(a, b)) if left else of_array(solve(a.mT, b.mT).mT)


def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The X of `A @ X = B`, or of `X @ A = B` where `left` is False, A being an `upper` or a lower triangle: the other half is not read,
    and with `unitriangular` nor is the diagonal, which counts as ones. A pivot 0 makes infinities.

    >>> torch.linalg.solve_triangular(torch.tensor([[2.0, 1.0], [0.0, 4.0]]), torch.tensor([[4.0], [8.0]]), upper=True)
    tensor([[1.],
            [2.]])
    """
    name = "linalg.solve_triangular"
    check_matrices(name, A)
    check_matrices(name, B, "B")
    check_square(name, A)
    _check_equation(name, A, B, left, False)
    if A.dtype is not B.dtype:
        A, B = (t.to(dtypes.promote_types(A.dtype, B.dtype)) for t in (A, B))
    if A.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"triangular_solve_cpu\" not implemented for '{A.dtype.scalar_name}'")
    result = _solve_triangular(*_broadcast(A, B, False), upper=upper, left=left, unitriangular=unitriangular)
    return result if out is None else into("linalg_solve_triangular", out, result, (A, B))


# ---------------------------------------------------------------- determinants


def _cofactors_back(g: Tensor, A: Tensor) -> Tensor:
    turned = _inv(A, name="linalg.inv").mT
    total = _sum(e.mul(g, turned), (-2, -1), True)
    along = e.sub(e.mul(turned, total), matmul(matmul(turned, g.mT), turned))
    return e.mul(along, _det(A)[..., None, None])


@differentiable("LinalgDetBackward0", batch=lambda x: _cofactors(x), A=_cofactors_back)
def _cofactors(A: Tensor) -> Tensor:
    """The derivative of the determinant of any matrix, singular ones included: those by their singular values."""
    a = A._host().astype(np.float64)
    size = lapack.det(a)
    singular = size == 0
    safe = np.where(singular[..., None, None], np.eye(a.shape[-1]), a)
    with lapack.quiet():
        found = lapack.inverse(safe)[0].mT * size[..., None, None]
    if singular.any():
        u, s, vh = np.linalg.svd(a[singular])
        others = np.where(np.eye(s.shape[-1], dtype=bool), 1.0, s[..., None, :]).prod(-1)
        found[singular] = (u * others[..., None, :]) @ vh * np.linalg.det(u @ vh)[..., None, None]
    return of_array(found.astype(A.dtype.np))


@differentiable("LinalgDet", batch=lambda x: _det(x), A=lambda g, A: e.mul(g[..., None, None], _cofactors(A)))
def _det(A: Tensor) -> Tensor:
    return of_array(lapack.det(A._host()))


@method_alone
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinant of square matrices, by elimination. The gradient is `g * y * inv(A).mT`, y being the determinant; it exists of
    singular matrices too.

    >>> torch.det(torch.tensor([[2.0, 1.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_square("linalg.det", A)
    check_floats("linalg.det", A, "lu_cpu")
    result = _det(A)
    return result if out is None else into("linalg_det", out, result, (A,), EXPECTED)


def _slogdet_back(g: Any, A: Tensor) -> Tensor:
    if g[1] is None:
        return full(A._spec.dense(), 0)
    return e.mul(g[1][..., None, None], _inv(A, name="linalg.inv").mT)


@differentiable("LinalgSlogdet", batch=lambda x: _slogdet(x), A=_slogdet_back)
def _slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    sign, size = lapack.slogdet(A._host())
    return of_array(sign), of_array(size)


def linalg_slogdet(A: Tensor, *, out: Any = None) -> Any:
    """The sign of the determinant and the logarithm of its size, as `sign` and `logabsdet`, neither of which overflows; of singular
    matrices 0 and `-inf`. The gradient of the logarithm is `g * inv(A).mT`, the sign has none.

    >>> torch.linalg.slogdet(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    torch.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    check_square("linalg.slogdet", A)
    check_floats("linalg.slogdet", A)
    return results("linalg_slogdet", _slogdet(A), out, (A,))


@method_alone
def slogdet(input: Tensor, *, out: Any = None) -> Any:
    """The sign of the determinant and the logarithm of its size, as `linalg.slogdet`. The gradient of the logarithm is `g * inv(input).mT`,
    the sign has none.

    >>> torch.slogdet(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    torch.return_types.slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    return results("slogdet", linalg_slogdet(input), out, (input,))


@method
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: NaN where that is negative, `-inf` where it is 0. The gradient is `g * inv(input).mT`.

    >>> torch.logdet(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.0794)
    >>> torch.func.grad(torch.logdet)(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("logdet", input)
    check_floats("logdet", input)
    sign, size = _slogdet(input)
    return e.where(e.eq(sign, -1), full(spec(input.dtype, ()), float("nan")), size)


# ---------------------------------------------------------------- Cholesky factors


def _cholesky_back(g: Tensor, y: Tensor, upper: bool) -> Tensor:
    low, grad = (y.mT, g.mT) if upper else (y, g)
    product = matmul(low.mT, grad)
    half = e.mul(e.add(tril(product), tril(product, -1).mT), 0.5)
    lower: dict[str, Any] = {"unitriangular": False}
    left = _solve_triangular(low.mT, half, upper=True, left=True, **lower)
    return _solve_triangular(low, left, upper=False, left=False, **lower)


def _cholesky_op(node_name: str) -> Callable[..., Tensor]:
    @differentiable(
        node_name, batch=lambda x, upper, name: factor(x, upper=upper, name=name), A=_cholesky_back
    )
    def factor(A: Tensor, *, upper: bool, name: str | None) -> Tensor:
        """What has no factor is refused in the words of the function of that `name`, if any."""
        low, infos = lapack.cholesky(A._host().mT if upper else A._host())
        if name is not None and infos.any():
            raise _refused(name, infos, _NOT_POSITIVE)
        return by_columns(low.mT if upper else low)

    return factor


_cholesky, _old_cholesky = _cholesky_op("LinalgCholeskyEx"), _cholesky_op("Cholesky")


def _checked_cholesky(A: Tensor, upper: bool, name: str | None) -> Tensor:
    check_square("linalg.cholesky", A)
    check_floats("linalg.cholesky", A, "cholesky_cpu")
    return _cholesky(A, upper=upper, name=name)


def linalg_cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The lower triangle L of `A = L @ L.mT`, of symmetric matrices whose eigenvalues are positive: others are refused. With `upper` it is
    `L.mT` instead. Only the lower triangle of A is read (or the upper); its gradient is symmetric.

    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    result = _checked_cholesky(A, upper, "linalg.cholesky")
    return result if out is None else into("linalg_cholesky", out, result, (A,))


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """`cholesky` that refuses nothing, and says in `info` what went wrong: the size of the first corner that is not positive, or 0. With
    `check_errors` it refuses that all the same.

    >>> torch.linalg.cholesky_ex(torch.tensor([[4.0, 0.0], [0.0, -1.0]])).info
    tensor(2, dtype=torch.int32)
    """
    found = _checked_cholesky(A, upper, "linalg.cholesky_ex" if check_errors else None)
    pivots = found.detach()._host().diagonal(0, -2, -1)
    infos = np.zeros(pivots.shape[:-1], np.int32)
    if not (pivots > 0).all():
        a = A.detach()._host()
        infos = lapack.cholesky(a.mT if upper else a)[1]
    return results("linalg_cholesky_ex", (found, of_array(infos)), out, (A,))


@method
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The older form of `linalg.cholesky`; better written so:

    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    warnings.warn(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\n"
        "L = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\n"
        "U = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\n"
        "This transform will produce equivalent results for all valid (symmetric positive definite) inputs.",
        UserWarning,
        stacklevel=2,
    )
    check_square("cholesky", input)
    check_floats("cholesky", input, "cholesky_cpu")
    result = _old_cholesky(input, upper=upper, name="cholesky")
    return result if out is None else into("cholesky", out, result, (input,))


def _solve_factored_back(g: Tensor, L: Tensor, y: Tensor, upper: bool, wanted: Any) -> list[Tensor | None]:
    back = _solve_factored(g, L, upper=upper)
    if not wanted[1]:
        return [back, None]
    product = matmul(back, y.mT)
    whole = e.neg(e.add(product, product.mT))
    return [back, matmul(L, whole) if upper else matmul(whole, L)]  # of the whole, as in PyTorch


@differentiable("CholeskySolve", all=_solve_factored_back)
def _solve_factored(B: Tensor, L: Tensor, *, upper: bool) -> Tensor:
    low = L.mT if upper else L
    half = _solve_triangular(low, B, upper=False, left=True, unitriangular=False)
    return _solve_triangular(low.mT, half, upper=True, left=True, unitriangular=False)


@method
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The X of `A @ X = B`, where `A = L @ L.mT` and L is given, or, with `upper`, `L.mT`.

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
    if L.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {L.shape[-1]} by {L.shape[-1]} but each b matrix "
            f"is {B.shape[-2]} by {B.shape[-1]}"
        )
    if L.dtype is not B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {B.dtype.scalar_name} and A of type "
            f"{L.dtype.scalar_name} instead."
        )
    L, B = _broadcast(L, B, False)
    result = _solve_factored(B, L, upper=upper)
    return result if out is None else into("cholesky_solve", out, result, (B, L))


def _invert_factored_back(g: Tensor, L: Tensor, y: Tensor, upper: bool) -> Tensor:
    whole = e.neg(matmul(matmul(y, e.add(g, g.mT)), y))
    return matmul(L, whole) if upper else matmul(whole, L)  # of the whole, as in PyTorch


@differentiable(
    "CholeskyInverse", batch=lambda x, upper: _invert_factored(x, upper=upper), L=_invert_factored_back
)
def _invert_factored(L: Tensor, *, upper: bool) -> Tensor:
    eye = of_array(np.eye(L.shape[-1], dtype=L.dtype.np))
    return _solve_factored(expand(eye, L.shape), L, upper=upper)


@method
def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `A = L @ L.mT`, of which L is given, or, with `upper`, `L.mT`.

    >>> torch.cholesky_inverse(torch.tensor([[2.0, 0.0], [1.0, 2.0]]))
    tensor([[ 0.3125, -0.1250],
            [-0.1250,  0.2500]])
    """
    check_square("cholesky_inverse", L)
    result = _invert_factored(L, upper=upper)
    return result if out is None else into("cholesky_inverse", out, result, (L,))


# ---------------------------------------------------------------- reflections


def _reflections(input: Tensor, tau: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """What is reflected, and each reflection's vector and factor."""
    unit = of_array(np.eye(*input.shape[-2:], dtype=input.dtype.np))
    below = e.add(tril(input, -1), unit)
    each = [
        (narrow(below, -1, j, 1), unsqueeze(narrow(tau, -1, j, 1), -1))
        for j in range(tuple.__getitem__(tau.shape, -1))
    ]
    return expand(unit, input.shape), each


def _along(v: Tensor, t: Tensor) -> Tensor:
    return matmul(v.transpose(-2, -1), t)


def _reflect_back(g: Tensor, input: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    after, each = _reflections(input, tau)
    done = []
    for v, scale in reversed(each):  # what each of them reflected
        done.append(after)
        after = e.sub(after, e.mul(scale, matmul(v, _along(v, after))))
    vectors, factors = [], []
    for (v, scale), before in zip(each, reversed(done)):
        a, b = _along(v, g), _along(v, before)
        factors.append(squeeze(e.neg(_sum(e.mul(a, b), -1, True)), -1))
        both = e.add(matmul(g, b.transpose(-2, -1)), matmul(before, a.transpose(-2, -1)))
        vectors.append(e.neg(e.mul(scale, both)))
        g = e.sub(g, e.mul(scale, matmul(v, a)))
    if not each:
        return full(input._spec.dense(), 0), full(tau._spec.dense(), 0)
    rest = input.shape[-1] - len(vectors)
    vectors += [full(vectors[0]._spec.dense(), 0)] * rest
    return tril(cat(vectors, -1), -1), cat(factors, -1)


@differentiable(
    "LinalgHouseholderProductBackward0",
    input=lambda g, input, tau: _reflect_back(g, input, tau)[0],
    tau=lambda g, input, tau: _reflect_back(g, input, tau)[1],
)
def _reflect(input: Tensor, tau: Tensor) -> Tensor:
    result, each = _reflections(input, tau)
    for v, scale in reversed(each):
        result = e.sub(result, e.mul(scale, matmul(v, _along(v, result))))
    return result if each else clone(result)


def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of reflections `I - tau * outer(v, v)`, whose vectors stand in the columns of `input`, below the
    diagonal: above it they are 0, on it 1. So LAPACK keeps the `Q` of a `qr`.

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
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"orgqr_cpu\" not implemented for '{input.dtype.scalar_name}'")
    result = _reflect(input, tau)
    return result if out is None else into("linalg_householder_product", out, result, (input, tau))


# ---------------------------------------------------------------- powers and the exponential


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
        eye = of_array(np.eye(A.shape[-1], dtype=A.dtype.np))
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


@differentiable(
    "LinalgMatrixExp",
    tangent=lambda t, A: _exponential_moved(A, t),
    batch=lambda x: _exponential(x),
    A=lambda g, A: _exponential_moved(A.mT, g),
)
def _exponential(A: Tensor) -> Tensor:
    a = A._host().astype(np.float64)
    if not a.size:
        return clone(A)
    bad = ~np.isfinite(a).all((-2, -1))
    a[bad] = 0
    norm = np.abs(a).sum(-2).max()
    halvings = max(0, int(np.ceil(np.log2(norm / 5.371920351148152)))) if norm else 0
    a = a / 2.0**halvings
    eye = np.eye(a.shape[-1])
    with lapack.quiet():
        a2 = a @ a
        a4, b = a2 @ a2, _PADE
        a6 = a4 @ a2
        odd = a @ (
            a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye
        )
        even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
        found = np.linalg.solve(even - odd, even + odd)
        for _ in range(halvings):
            found = found @ found
        found[bad] = np.nan
        return of_array(found.astype(A.dtype.np))


def linalg_matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices, the sum of `A^k / k!` over all k: not that of the elements. The gradient is read off the
    exponential of a matrix of twice the size.

    >>> torch.linalg.matrix_exp(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    check_square("linalg.matrix_exp", A)
    check_floats("linalg.matrix_exp", A)
    return _exponential(A)


@method
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of square matrices, as `linalg.matrix_exp`.

    >>> torch.matrix_exp(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return linalg_matrix_exp(input)


# ---------------------------------------------------------------- systems of tensors


def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of a tensor as a matrix whose rows are its first `ind` dimensions, whose columns are the others; the result has these
    first. Its `tensordot` with B over `ind` dimensions is `tensorsolve(A, B)`.

    >>> torch.linalg.tensorinv(torch.eye(6).reshape(6, 2, 3), ind=1).shape
    torch.Size([2, 3, 6])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, second = tuple(A.shape)[:ind], tuple(A.shape)[ind:]
    n, m = int(np.prod(first)), int(np.prod(second))
    if n != m:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {m} != {n}"
        )
    if out is not None and out.dtype.category < A.dtype.category:
        raise RuntimeError(
            f"tensorinv: Expected result to be safely castable from {A.dtype.scalar_name} dtype, but got result with dtype "
            f"{out.dtype.scalar_name}"
        )
    result = reshape(_inverse(reshape(A, (n, m)), "inv"), (*second, *first))
    return result if out is None else into("linalg_tensorinv", out, result, (A,))


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The X for which `tensordot(A, X, dims=X.ndim)` is B: A has B's dimensions first, then X's. Those in `dims` are first moved to the
    end.

    >>> torch.linalg.tensorsolve(2 * torch.eye(6).reshape(2, 3, 6), torch.ones(2, 3))
    tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000])
    """
    if dims is not None:
        moved = [layout.wrap_dim(d, A.ndim) for d in dims]
        A = A.movedim(moved, list(range(A.ndim - len(moved), A.ndim)))
    shape = tuple(A.shape)[B.ndim :]
    n, m = int(np.prod(shape)), B.numel()
    rows = int(np.prod(tuple(A.shape)[: B.ndim]))
    if n != rows or n != m:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {n} != {m}"
        )
    result = reshape(solve(reshape(A, (n, n)), reshape(B, (-1,))), shape)
    return result if out is None else into("linalg_tensorsolve", out, result, (A, B))


__all__ = [
    *(
        "cholesky",
        "cholesky_inverse",
        "cholesky_solve",
        "det",
        "inverse",
        "logdet",
        "matrix_exp",
        "matrix_power",
    ),
    "slogdet",
]
