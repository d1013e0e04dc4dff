"""Systems of linear equations and inverses, of batches of square matrices and of tensors as such.

A singular matrix is refused in PyTorch's words, which name the batch element and the pivot, or told of by an `info` in the functions
that end in `_ex`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.base.warn import warn_once
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.elementwise import differentiable, into, undifferentiable
from nbgrad.dispatch.quick import quickly
from nbgrad.dispatch.return_types import results
from nbgrad.dispatch.stanza import method, method_alone
from nbgrad.memory import dtypes, layout
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.orders import tril, triu
from nbgrad.ops.host.values import of_array
from nbgrad.ops.linear import lapack, small, solver
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.solver import by_columns_of
from nbgrad.ops.views.copy import fill_memory, zeros
from nbgrad.ops.views.shape import expand, reshape, squeeze, unsqueeze

_Array = np.ndarray[Any, Any]


class _LinAlgError(RuntimeError):
    """What linear algebra raises of a matrix that it can do nothing with, such as a singular one.

    >>> try: torch.linalg.inv(torch.zeros(2, 2))
    ... except torch.linalg.LinAlgError: print("singular")
    singular
    """

    __module__ = "nbgrad._C"  # where PyTorch shows it


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


def check_floats(name: str, A: Tensor, kernel: str = "", narrow: bool = False) -> None:
    """Refuse ints, and halves: in the words of PyTorch's kernel of that name, or without one at once; unless these are taken."""
    if not A.dtype.inexact:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {A.dtype.scalar_name}"
        )
    if A.dtype.narrow and not narrow:
        if kernel:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{A.dtype.scalar_name}'")
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {A.dtype.scalar_name}")


def _refused(name: str, infos: _Array, words: str) -> _LinAlgError:
    """The first that failed, by its place in the batch."""
    at = lapack.first(infos)
    where = f"(Batch element {at}): " if infos.ndim else ""
    return _LinAlgError(f"{name}: {where}{words.format(info=infos.reshape(-1)[at])}")


def _refuse_failed(name: str | None, infos: Tensor, words: str) -> None:
    """The same of a device's, which is waited for only where a function of that `name` refuses."""
    if name is not None:
        found = infos._host()
        if found.any():
            raise _refused(name, found, words)


_NO_INVERSE = "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is singular."
_NO_SOLUTION = "The solver failed because the input matrix is singular."

# ---------------------------------------------------------------- inverse


def identity(
    like: Tensor, rows: int, columns: int | None = None, dtype: dtypes.dtype | None = None
) -> Tensor:
    """Ones on the diagonal, where `like` is."""
    columns = rows if columns is None else columns
    t = zeros(like._spec.plain.like((rows, columns), dtype=dtype))
    fill_memory(wrap(t._buf, t._spec.like((min(rows, columns),), (columns + 1,))), 1)
    return t


def bare(
    like: Tensor, shape: Sequence[int], columns: bool = False, dtype: dtypes.dtype | None = None
) -> Tensor:
    """What a routine of the CPU's would give, where no memory is: a shape, and strides as `by_columns` leaves them or not."""
    sp = like._spec.plain
    if columns:
        return by_columns_of(empty(sp.like((*shape[:-2], *shape[:-3:-1]), dtype=dtype)))
    return empty(sp.like(tuple(shape), dtype=dtype))


def unread(name: str, *operands: Tensor, asks: bool = False) -> bool:
    """Whether tensors have no values that a routine of the CPU's could read: then its results have shapes alone. Values that are on a
    device without such a routine are refused: without any, or, if the caller `asks` the device's library, without that."""
    for t in operands:
        if not t.is_cpu and t._spec.backend.holds and not (asks and solver.has(t)):
            library = ", or pip install 'nbgrad[cusolver]'" * (asks and not t._spec.dtype.is_complex)
            raise NotImplementedError(
                f"{name}: no CUDA kernel in this release; move its operand with .cpu(){library}"
            )
    return not operands[0]._spec.backend.holds


def by_columns(array: _Array) -> Tensor:
    """A tensor of matrices that lie by columns, as LAPACK leaves them in PyTorch."""
    return by_columns_of(of_array(array.mT))


@differentiable(
    "LinalgInvEx",
    tangent=lambda t, y: e.neg(matmul(matmul(y, t), y)),
    batch=lambda x, name: _inv(x, name=name),
    input=lambda g, y: e.neg(matmul(matmul(y.mT, g), y.mT)),
)
def _inv(input: Tensor, *, name: str | None) -> Tensor:
    """A singular matrix is refused in the words of the function of that `name`, if any."""
    if unread("linalg.inv", input, asks=True):
        return bare(input, input.shape, columns=True)
    if not input.is_cpu:
        made, at = solver.solution(input, expand(identity(input, input.shape[-1]), input.shape))
        _refuse_failed(name, at, _NO_INVERSE)
        return made
    found, infos = lapack.inverse(input._host())
    if name is not None and infos.any():
        raise _refused(name, infos, _NO_INVERSE)
    return by_columns(found)


def _inverse(A: Tensor, name: str | None) -> Tensor:
    check_square("linalg.inv", A)
    check_floats("linalg.inv", A)
    return _inv(A, name=name)


@quickly(small.inv)
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


def _singular_each(has: Sequence[bool], A: Tensor, found: Tensor) -> Tensor:
    infos: Tensor = _singular(A, found)
    return infos if has[0] else expand(infos, (tuple.__getitem__(found.shape, 0), *infos.shape))


@undifferentiable(batch=_singular_each)
def _singular(A: Tensor, found: Tensor) -> Tensor:
    """Which matrices are, as LAPACK tells: where none is, what was `found` is finite."""
    if unread("linalg.inv", A, asks=True):
        return bare(A, tuple(A.shape)[:-2], dtype=dtypes.int32)
    if not A.is_cpu:
        return solver.factored(A.detach())[2]
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
    if unread("linalg.solve", A, B, asks=True):
        return bare(B, tuple(B.shape), columns=left and not vector)
    if not A.is_cpu:
        found, at = solver.solution(A, _by_vector(B, vector), left)
        _refuse_failed(name, at, _NO_SOLUTION)
        return squeeze(found, -1) if vector else found
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


@quickly(small.solve)
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
    if not A.dtype.inexact:
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
    if unread("linalg.solve_triangular", A, B, asks=True):
        return bare(B, tuple(B.shape), columns=left)
    if not A.is_cpu:
        return solver.triangular(A, B, upper, left, unitriangular)
    a, b = A._host(), B._host()
    if left:
        return by_columns(lapack.triangular(a, b, upper, unitriangular))
    return of_array(lapack.triangular(a.mT, b.mT, not upper, unitriangular).mT)


@quickly(small.solve_triangular)
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
    if not A.dtype.inexact or A.dtype.narrow:
        raise NotImplementedError(f"\"triangular_solve_cpu\" not implemented for '{A.dtype.scalar_name}'")
    result = _solve_triangular(*_broadcast(A, B, False), upper=upper, left=left, unitriangular=unitriangular)
    return result if out is None else into("linalg_solve_triangular", out, result, (A, B))


@method
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> Any:
    """The older form of `linalg.solve_triangular`, which takes the right side first and gives a copy of A, too; better written so:

    >>> torch.linalg.solve_triangular(torch.tensor([[2.0, 1.0], [0.0, 4.0]]), torch.tensor([[4.0], [8.0]]), upper=True)
    tensor([[1.],
            [2.]])
    """
    for word, t in (("b", input), ("A", A)):
        if t.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {word} to have at least 2 dimensions, but it has {t.ndim} dimensions instead"
            )
    if input.dtype is not A.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {input.dtype.scalar_name} and A of type "
            f"{A.dtype.scalar_name} instead."
        )
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )
    if A.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for triangular_solve: each A matrix is {A.shape[-2]} by {A.shape[-1]} but each b matrix is "
            f"{input.shape[-2]} by {input.shape[-1]}"
        )
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future PyTorch "
        "release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one of the inputs.\n"
        "X = torch.triangular_solve(B, A).solution\nshould be replaced with\nX = torch.linalg.solve_triangular(A, B)."
    )
    batch = np.broadcast_shapes(tuple(A.shape)[:-2], tuple(input.shape)[:-2])
    copy = A.expand(*batch, *tuple(A.shape)[-2:]).clone()
    X = solve_triangular(
        copy.mT if transpose else copy, input, upper=upper is not transpose, unitriangular=unitriangular
    )
    return results("triangular_solve", (X, copy), out, (input, A))


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


__all__ = ["inverse", "triangular_solve"]
