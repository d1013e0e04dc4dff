"""Eigenvalues of any square matrices, by NumPy's LAPACK: complex numbers, as those of real matrices may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.quick import quickly
from nbgrad.dispatch.return_types import results
from nbgrad.memory import dtypes
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.diagonals import diag_embed
from nbgrad.ops.host.values import of_array
from nbgrad.ops.linear import lapack, small
from nbgrad.ops.linear.decompositions import (
    _EIGENVECTORS,
    _ILL_CONDITIONED,
    _check_phases,
    _inexact,
    _plus,
    _refuse_lost,
)
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.systems import _solve, bare, by_columns, check_square, identity, unread
from nbgrad.ops.views.parts import real
from nbgrad.ops.views.shape import unsqueeze
from nbgrad.ops.views.slices import diagonal
from nbgrad.tape.modes import state


def _eig_back(g: Any, A_spec: Any, y0: Tensor, y1: Tensor) -> Tensor:
    """V^-H (diag(gL) + (V^H gV - V^H V diag(re(V^H gV))) / E) V^H, where E holds the differences of the conjugate eigenvalues: vectors are
    of length 1, so what arrives along them does not count."""
    gl, gv = g
    turned = y1.mH
    inner = None if gl is None else diag_embed(gl)
    if gv is not None:
        along = matmul(turned, gv)
        _check_phases("linalg_eig_backward", _EIGENVECTORS, along)
        lengths = unsqueeze(real(diagonal(along, 0, -2, -1)), -2)
        values = y0.conj()
        gaps = e.sub(unsqueeze(values, -2), unsqueeze(values, -1))
        own = identity(lengths, y0.shape[-1])
        free = e.mul(e.sub(along, matmul(turned, e.mul(y1, lengths))), e.sub(1.0, own))
        inner = _plus(inner, e.div(free, e.add(gaps, own)))
    assert inner is not None
    found = _solve(turned, matmul(inner, turned), left=True, vector=False, name="linalg.eig")
    return found if A_spec.dtype.is_complex else real(found)


@differentiable("LinalgEig", holomorphic=False, batch=lambda x, strict: _eig(x, strict=strict), A=_eig_back)
def _eig(A: Tensor, *, strict: bool) -> tuple[Tensor, Tensor]:
    """Of what is not finite NaN, but where it is to be refused."""
    d = A.dtype.to_complex()
    if unread("linalg.eig", A):
        return bare(A, tuple(A.shape)[:-1], dtype=d), bare(A, A.shape, columns=True, dtype=d)
    values, vectors, bad = lapack.eig(A._host())
    if strict and bad.any():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    lost = np.isnan(values).any(-1) & ~bad
    _refuse_lost("linalg.eig", lost, f"{_ILL_CONDITIONED} (error code: {A.shape[-1]}).")
    return of_array(values), by_columns(vectors)


def _checked(A: Tensor, name: str, strict: bool) -> tuple[Tensor, Tensor]:
    check_square(name, A)
    if A.dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"Unknown Complex ScalarType for {A.dtype.scalar_name}")
    if not _inexact(A):
        raise NotImplementedError(f"\"linalg_eig_out_cpu\" not implemented for '{A.dtype.scalar_name}'")
    found: tuple[Tensor, Tensor] = _eig(A, strict=strict)
    return found


def linalg_eig(A: Tensor, *, out: Any = None) -> Any:
    """The eigenvalues of square matrices and their vectors, as columns of length 1: `A @ V = V @ diag(L)`, all complex numbers, in the
    order in which they are found. The gradient of the vectors is defined only where no two values are equal and what is made of them
    does not depend on their phases.

    >>> L, V = torch.linalg.eig(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
    >>> L
    tensor([0.+1.j, 0.-1.j])
    """
    return results("linalg_eig", _checked(A, "linalg.eig", True), out, (A,), exact=(None, None))


@quickly(small.eigvals)
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of square matrices, complex numbers in the order in which they are found. The gradient is `V^-H @ diag(g) @ V^H`, V
    being the eigenvectors; of real matrices its real part.

    >>> torch.linalg.eigvals(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """
    strict = state.grad and A.requires_grad  # then PyTorch's is that of `eig`
    result = _checked(A, "linalg.eig" if strict else "linalg.eigvals", strict)[0]
    return result if out is None else into("linalg_eigvals", out, result, (A,))
