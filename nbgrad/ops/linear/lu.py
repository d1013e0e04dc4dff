"""The factors of matrices by Gauss's elimination with row exchanges, A = P L U, and systems solved with them.

NumPy has no such routine of LAPACK's: the elimination is a loop over columns, of all matrices of a batch at once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor, hooks
from nbgrad.dispatch.elementwise import differentiable, into, undifferentiable
from nbgrad.dispatch.quick import quickly
from nbgrad.dispatch.return_types import named, results
from nbgrad.dispatch.stanza import method
from nbgrad.dispatch.transforms import innermost
from nbgrad.memory import dtypes
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.orders import tril, triu
from nbgrad.ops.host.values import of_array
from nbgrad.ops.linear import lapack, small, solver
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.systems import _solve_triangular, bare, by_columns, identity, solve_triangular, unread
from nbgrad.ops.reduce.extremes import amax, amin
from nbgrad.ops.views.copy import contiguous, dense_copy, to_dtype, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.shape import expand
from nbgrad.ops.views.slices import narrow

_Array = np.ndarray[Any, Any]


def _check_pivots(least: Any, most: Any, rows: int) -> None:
    if not 1 <= least <= most <= rows:
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
            "Did you properly pass the result of lu_factor?"
        )


def _permutation_there(pivots: Tensor, rows: int, d: Any) -> Tensor:
    """Of those on a device, which are read once: its library would follow them anywhere."""
    if pivots.numel():
        _check_pivots(amin(pivots).item(), amax(pivots).item(), rows)
    batch = tuple(pivots.shape)[:-1]
    eye = identity(pivots, rows, dtype=d if d in (dtypes.float32, dtypes.float64) else dtypes.float32)
    made = dense_copy(expand(eye, (*batch, rows, rows)))
    return to_dtype(solver.exchanged(contiguous(pivots), made), d)


@undifferentiable(batch=lambda x, rows, d: _permutation(x, rows=rows, d=d))
def _permutation(pivots: Tensor, *, rows: int, d: Any) -> Tensor:
    """P of A = P L U."""
    if unread("linalg.lu", pivots, asks=True):
        return bare(pivots, (*tuple(pivots.shape)[:-1], rows, rows), dtype=d)
    if not pivots.is_cpu:
        return _permutation_there(pivots, rows, d)
    steps = pivots._host().reshape(prod(tuple(pivots.shape)[:-1]), tuple.__getitem__(pivots.shape, -1))
    if steps.size:
        _check_pivots(steps.min(), steps.max(), rows)
    order = np.tile(np.arange(rows), (len(steps), 1))
    every = np.arange(len(steps))
    for k in range(steps.shape[1]):
        other = steps[:, k] - 1
        order[every, k], order[every, other] = order[every, other], order[every, k].copy()
    p = np.zeros((len(steps), rows, rows), d.host)
    p[every[:, None], order, np.arange(rows)] = 1
    return to_dtype(of_array(p.reshape(*tuple(pivots.shape)[:-1], rows, rows)), d)


# ---------------------------------------------------------------- the factors


def _lower(LU: Tensor) -> Tensor:
    rows, columns = tuple(LU.shape)[-2:]
    k = min(rows, columns)
    return e.add(tril(narrow(LU, -1, 0, k), -1), identity(LU, rows, k))


def _upper(LU: Tensor) -> Tensor:
    return triu(narrow(LU, -2, 0, min(tuple(LU.shape)[-2:])))


def _factor_back(g: Any, y0: Tensor, y1: Tensor) -> Tensor:
    """Of the square part, L^-T [tril(L^T gL, -1) + triu(gU U^T)] U^-T; of rows or columns beyond it, that they follow."""
    rows, columns = tuple(y0.shape)[-2:]
    k, g = min(rows, columns), g[0]
    L, U, P = _lower(y0), _upper(y0), _permutation(y1, rows=rows, d=y0.dtype)
    gL, gU = tril(narrow(g, -1, 0, k), -1), triu(narrow(g, -2, 0, k))
    L1, U1 = narrow(L, -2, 0, k), narrow(U, -1, 0, k)
    gL1, gU1 = narrow(gL, -2, 0, k), narrow(gU, -1, 0, k)
    below, above = matmul(L1.mT, gL1), matmul(gU1, U1.mT)
    rest = None
    if columns > k:
        rest = narrow(gU, -1, k, columns - k)
        below = e.sub(below, matmul(rest, narrow(U, -1, k, columns - k).mT))
    elif rows > k:
        rest = narrow(gL, -2, k, rows - k)
        above = e.sub(above, matmul(narrow(L, -2, k, rows - k).mT, rest))
    upper = {"upper": True, "unitriangular": True}
    inner = _solve_triangular(L1.mT, e.add(tril(below, -1), triu(above)), left=True, **upper)
    square = _solve_triangular(U1.mT, inner, upper=False, left=False, unitriangular=False)
    if columns > k:
        square = cat([square, _solve_triangular(L1.mT, rest, left=True, **upper)], -1)
    elif rows > k:
        square = cat(
            [square, _solve_triangular(U1.mT, rest, upper=False, left=False, unitriangular=False)], -2
        )
    return matmul(P, square)


@differentiable("LinalgLuFactorEx", batch=lambda x, name: _factor(x, name=name), input=_factor_back)
def _factor(input: Tensor, *, name: str | None) -> tuple[Tensor, Tensor, Tensor]:
    """A zero pivot is refused in the words of the function of that `name`, if any."""
    if unread("linalg.lu_factor", input, asks=True):
        *batch, rows, columns = tuple(input.shape)
        ints = [bare(input, n, dtype=dtypes.int32) for n in ((*batch, min(rows, columns)), batch)]
        return bare(input, input.shape, columns=True), ints[0], ints[1]
    if not input.is_cpu:
        found = solver.factored(input)
        if name is not None and (failed := found[2]._host()).any():
            raise _singular(name, failed)
        return found
    LU, pivots, infos = lapack.eliminated(input._host())
    if name is not None and infos.any():
        raise _singular(name, infos)
    return by_columns(LU), of_array(pivots), of_array(infos)


def _checked(A: Tensor, pivot: bool, name: str = "torch.lu_factor") -> None:
    if A.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
        )
    if not A.dtype.inexact or A.dtype.narrow:
        raise NotImplementedError(f"\"lu_cpu\" not implemented for '{A.dtype.scalar_name}'")
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def _singular(name: str, infos: _Array) -> RuntimeError:
    at = lapack.first(infos)
    where, k = f"(Batch element {at}): " if infos.ndim else "", infos.reshape(-1)[at]
    return RuntimeError(
        f"torch.linalg.{name}: {where}U[{k},{k}] is zero and using it on lu_solve would result in a division by zero. If you "
        "still want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


@quickly(small.lu_factor_ex)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """`lu_factor` that refuses nothing, and says in `info` what went wrong: the place, counted from 1, of the first pivot that is 0, or 0
    if there is none. With `check_errors` it refuses that all the same.

    >>> torch.linalg.lu_factor_ex(torch.zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    _checked(A, pivot)
    parts = _factor(A, name="lu_factor_ex" if check_errors else None)
    return results("linalg_lu_factor_ex", parts, out, (A,))


@quickly(small.lu_factor)
def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """The factors of matrices by elimination, in one: L below the diagonal (on which it is 1), U from the diagonal on; and `pivots`, the
    row, counted from 1, that each row was exchanged with. A matrix whose pivot is 0 is refused.

    >>> torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    torch.return_types.linalg_lu_factor(
    LU=tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]]),
    pivots=tensor([2, 2], dtype=torch.int32))
    """
    _checked(A, pivot)
    LU, pivots, _ = _factor(A, name="lu_factor")
    return results("linalg_lu_factor", (LU, pivots), out, (A,))


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """The older form of `linalg.lu_factor`, and with `get_infos` of `lu_factor_ex`; better written so:

    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> pivots
    tensor([2, 2], dtype=torch.int32)
    """
    warn(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a future PyTorch "
        "release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\nLU, pivots = torch.linalg.lu_factor(A, "
        "compute_pivots)\nand\nLU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
        "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )
    _checked(A, pivot)
    made = _factor(A, name=None)
    parts = named("_lu_with_info", made) if get_infos else (made[0], made[1])
    if out is None:
        return parts
    if isinstance(out, Tensor):
        raise TypeError("argument 'out' must be tuple of Tensors, not Tensor")
    if len(out) != len(parts):
        raise TypeError(f"expected tuple of {len(parts)} elements but got {len(out)}")
    for t, part in zip(out, parts):
        t.resize_as_(part).copy_(part)
    return out


def _t_lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    return lu(self, pivot, get_infos)


_t_lu.__doc__ = lu.__doc__
method(_t_lu)

# ---------------------------------------------------------------- L and U apart


def _filled(t: Tensor, rows: int, columns: int) -> Tensor:
    """With zeros to that size."""
    for dim, size in ((-2, rows), (-1, columns)):
        n = tuple.__getitem__(t.shape, dim)
        if n < size:
            missing = [size - n if k == t.ndim + dim else m for k, m in enumerate(tuple(t.shape))]
            t = cat([t, zeros(t._spec.plain.like(tuple(missing)))], dim)
    return t


def _strictly(t: Tensor) -> Tensor:
    return tril(t, -1)


def _unpacked(node_name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def back(g: Any, LU_spec: Any) -> Tensor:
        size = tuple(LU_spec.shape)[-2:]
        parts = [_filled(part(t), *size) for part, t in zip((_strictly, triu), g) if t is not None]
        return parts[0] if len(parts) == 1 else e.add(*parts)

    @differentiable(node_name, LU=back)
    def unpack(LU: Tensor) -> tuple[Tensor, Tensor]:
        return _lower(LU), _upper(LU)

    return unpack


_lu_unpack, _linalg_lu = _unpacked("LuUnpack"), _unpacked("LinalgLu")


def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: Any = None,
) -> Any:
    """What `linalg.lu_factor` has in one, apart: a permutation `P`, `L` with ones on its diagonal, and `U`, so that `A = P @ L @ U`. What
    is not asked for is empty.

    >>> P, L, U = torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]])))
    >>> P @ L @ U
    tensor([[1., 2.],
            [2., 2.]])
    """
    if unpack_pivots and LU_pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is intended to "
            "be used with the output produced by torch.linalg.lu_factor"
        )
    if LU_data.ndim < 2:
        raise RuntimeError(
            f"torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {list(LU_data.shape)} instead"
        )
    none = zeros(LU_data._spec.plain.like((0,)))
    P = (
        _permutation(LU_pivots, rows=tuple.__getitem__(LU_data.shape, -2), d=LU_data.dtype)
        if unpack_pivots
        else none
    )
    found = (P, *(_lu_unpack(LU_data) if unpack_data else (none, none)))
    return results("lu_unpack", found, out, (LU_data,))


@quickly(small.lu)
def linalg_lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """`A = P @ L @ U`: a permutation, a lower triangle with ones on its diagonal, and an upper one, found by elimination.

    >>> torch.linalg.lu(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    torch.return_types.linalg_lu(
    P=tensor([[0., 1.],
            [1., 0.]]),
    L=tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]]),
    U=tensor([[2., 2.],
            [0., 1.]]))
    """
    _checked(A, pivot, "linalg.lu")
    LU, pivots, _ = _factor(A, name=None)
    P = _permutation(pivots, rows=tuple.__getitem__(LU.shape, -2), d=LU.dtype)
    return results("linalg_lu", (P, *_linalg_lu(LU)), out, (A,))


# ---------------------------------------------------------------- systems


@quickly(small.lu_solve)
def linalg_lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The X of `A @ X = B`, of which `lu_factor` found `LU` and `pivots`; of `A.mH @ X = B` with `adjoint`, and with A on the right of X
    where `left` is False.

    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[3.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    if LU.dtype is not B.dtype:
        raise RuntimeError(
            "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type "
            f"{LU.dtype.scalar_name} and B of type {B.dtype.scalar_name} instead"
        )
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    if min(LU.ndim, B.ndim) < 2:
        raise RuntimeError("torch.linalg.lu_solve: The input tensor A must have at least 2 dimensions.")
    if tuple(LU.shape)[-2:] != (tuple(LU.shape)[-1],) * 2:
        raise RuntimeError(
            f"torch.linalg.lu_solve: A must be batches of square matrices, but they are {LU.shape[-2]} by {LU.shape[-1]} matrices"
        )
    if pivots.numel() and not pivots.is_meta:
        for wrong, bound in (
            (innermost(pivots)._host().min() < 1, "greater or equal to 1"),
            (
                innermost(pivots)._host().max() > tuple.__getitem__(LU.shape, -1),
                "smaller or equal to LU.size(-2)",
            ),
        ):
            if wrong:
                raise RuntimeError(
                    f"Pivots given to lu_solve must all be {bound}. Did you properly pass the result of lu_factor?"
                )
    P, transposed = _permutation(pivots, rows=tuple.__getitem__(LU.shape, -1), d=LU.dtype), adjoint == left
    X = B if left else B.mT
    LU = hooks.conj(LU) if adjoint else LU
    if not transposed:
        X = solve_triangular(LU, matmul(P.mT, X), upper=False, unitriangular=True)
        X = solve_triangular(LU, X, upper=True)
    else:
        X = solve_triangular(LU.mT, X, upper=False)
        X = matmul(P, solve_triangular(LU.mT, X, upper=True, unitriangular=True))
    X = X if left else X.mT
    return X if out is None else into("linalg_lu_solve", out, X, (LU, B))


@method
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The older form of `linalg.lu_solve`, which takes the right side first; better written so:

    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[3.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    warn(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch release.\n"
        "Note that torch.linalg.lu_solve has its arguments reversed.\nX = torch.lu_solve(B, LU, pivots)\nshould be replaced with\n"
        "X = torch.linalg.lu_solve(LU, pivots, B)"
    )
    return linalg_lu_solve(LU_data, LU_pivots, b, out=out)


__all__ = ["lu", "lu_solve", "lu_unpack"]
