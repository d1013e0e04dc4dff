"""Determinants of batches of square matrices, and their logarithms."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.quick import quickly
from nbgrad.dispatch.return_types import EXPECTED, results
from nbgrad.dispatch.stanza import method, method_alone
from nbgrad.memory import dtypes
from nbgrad.memory.layout import broadcast_shapes
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.host.values import of_array
from nbgrad.ops.index.gather import masked_fill
from nbgrad.ops.linear import lapack, small, solver
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.systems import _inv, bare, check_floats, check_square, identity, unread
from nbgrad.ops.pointwise.arithmetic import remainder
from nbgrad.ops.reduce.sums import prod
from nbgrad.ops.reduce.sums import sum as _sum
from nbgrad.ops.views.copy import full, to_dtype
from nbgrad.ops.views.parts import imag
from nbgrad.ops.views.shape import expand, unsqueeze
from nbgrad.ops.views.slices import diagonal


def _second_by_inverse(g: Tensor, A: Tensor) -> Tensor:
    turned = _inv(A, name="linalg.inv").mT
    total = _sum(e.mul(g, turned), (-2, -1), True)
    along = e.sub(e.mul(turned, total), matmul(matmul(turned, g.mT), turned))
    return e.mul(along, _det(A)[..., None, None])


def _third(h: Tensor, g: Tensor, A: Tensor) -> Tensor:
    """The third derivative along `g` and `h`, of matrices that have an inverse."""
    turned = _inv(A, name="linalg.inv").mT
    by_g, by_h = matmul(g.mT, turned), matmul(h.mT, turned)
    t_g, t_h = (_sum(e.mul(one, turned), (-2, -1), True) for one in (g, h))
    both = _sum(e.mul(by_g.mT, by_h), (-2, -1), True)
    pairs = e.add(matmul(by_g, by_h), matmul(by_h, by_g))
    singles = e.add(e.mul(by_h, t_g), e.mul(by_g, t_h))
    along = matmul(turned, e.sub(pairs, singles))
    return e.mul(e.add(e.mul(turned, e.sub(e.mul(t_g, t_h), both)), along), _det(A)[..., None, None])


def _second_of_examples(has: Any, g: Tensor, A: Tensor) -> Tensor:
    shape = broadcast_shapes(tuple(g.shape), tuple(A.shape))
    return cast(Tensor, _second(expand(g, shape), expand(A, shape)))


@differentiable(
    "LinalgDetBackward1",
    batch=_second_of_examples,
    along=lambda g, A: _second(g, A),
    A=lambda g, along, A: _third(g, along, A),
)
def _second(along: Tensor, A: Tensor) -> Tensor:
    """The second derivative along a matrix: by the inverse, whose terms cancel where it is large, and else by singular values."""
    if unread("linalg.det", A, asks=True):
        return empty(A._spec.dense())
    if not A.is_cpu:
        return _second_by_inverse(along, A)
    wide = np.complex128 if A.dtype.is_complex else np.float64
    a, x = A._host(), along._host().astype(wide)
    once = a[tuple([slice(0, None if step else 1) for step in a.strides[:-2]])]  # of what repeats
    return of_array(_second_by_values(x, once.astype(wide)).astype(A.dtype.np))


def _second_by_values(along: Any, a: Any) -> Any:
    n = a.shape[-1]
    with lapack.quiet():
        turned = lapack.inverse(a)[0].mT
        far = np.linalg.norm(a, axis=(-2, -1)) * np.linalg.norm(turned, axis=(-2, -1)) if n else np.ones(())
    if (far < 1e4).all():
        total = (along * turned).sum((-2, -1), keepdims=True)
        return (turned * total - turned @ along.mT @ turned) * lapack.det(a)[..., None, None]
    finite = np.isfinite(a).all((-2, -1), keepdims=True)
    one = np.eye(n, dtype=bool)
    u, s, vh = np.linalg.svd(np.where(finite, a, one))
    large = np.where(np.arange(n) < n - 2, s, 1)
    share = np.where(large == 0, 1, large)[..., None]
    kept = large.prod(-1)[..., None, None] * ~one / share / share.mT
    for k in range(max(n - 2, 0), n):  # which may be zero
        kept *= np.where(one[k] | one[k][:, None], 1, s[..., k, None, None])
    inside = u.conj().mT @ along @ vh.conj().mT
    turned = kept @ np.diagonal(inside, 0, -2, -1)[..., None] * one - (kept * inside).mT
    size = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    return np.where(finite, size * (u.conj() @ turned @ vh.conj()), np.nan)


def _cofactors_there(A: Tensor) -> Tensor:
    u, s, vh, _ = solver.svd(A, True)
    one = identity(s, s.shape[-1], dtype=dtypes.bool_)
    others = prod(masked_fill(expand(unsqueeze(s, -2), A.shape), one, 1.0), -1)
    return e.mul(matmul(e.mul(u, unsqueeze(others, -2)), vh), _det(matmul(u, vh))[..., None, None])


@differentiable("LinalgDetBackward0", batch=lambda x: _cofactors(x), A=lambda g, A: _second(g, A))
def _cofactors(A: Tensor) -> Tensor:
    """The derivative of the determinant of any matrix, singular ones included: those by their singular values."""
    if unread("linalg.det", A, asks=True):
        return empty(A._spec.dense())
    if not A.is_cpu:
        return _cofactors_there(A)
    a = A._host().astype(np.complex128 if A.dtype.is_complex else np.float64)
    size = lapack.det(a)
    singular = size == 0
    safe = np.where(singular[..., None, None], np.eye(a.shape[-1]), a)
    with lapack.quiet():
        found = lapack.inverse(safe)[0].mT * size[..., None, None]
    if singular.any():
        u, s, vh = np.linalg.svd(a[singular])
        others = np.where(np.eye(s.shape[-1], dtype=bool), 1.0, s[..., None, :]).prod(-1)
        found[singular] = (
            (u * others[..., None, :]).conj() @ vh.conj() * np.linalg.det(u @ vh)[..., None, None]
        )
    return of_array(found.astype(A.dtype.np))


@cached(64)
def _counted(sp: Spec) -> Tensor:
    """From 1 on, on a device."""
    return wrap(sp.backend.constants(range(1, sp.numel + 1)), sp)


def _eliminated(A: Tensor) -> tuple[Tensor, Tensor]:
    """Of matrices on a device the pivots, and the sign of the rows' exchanges."""
    LU, pivots, _ = solver.factored(A)
    own = _counted(A._spec.plain.like((A.shape[-1],), dtype=dtypes.int64))
    odd = remainder(_sum(e.ne(pivots, own), -1), 2)
    return diagonal(LU, 0, -2, -1), to_dtype(e.sub(1, e.mul(odd, 2)), A.dtype)


@differentiable("LinalgDet", batch=lambda x: _det(x), A=lambda g, A: e.mul(g[..., None, None], _cofactors(A)))
def _det(A: Tensor) -> Tensor:
    if unread("linalg.det", A, asks=True):
        return bare(A, tuple(A.shape)[:-2])
    if not A.is_cpu:
        diagonal_of_u, sign = _eliminated(A)
        return e.mul(prod(diagonal_of_u, -1), sign)
    return of_array(lapack.det(A._host()))


@method_alone
@quickly(small.det)
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


def _slogdet_back(g: Any, A: Tensor, y0: Tensor) -> Tensor:
    along = g[1]
    if (
        A._spec.dtype.is_complex and g[0] is not None
    ):  # the sign turns, and turning it by an angle is a gradient beside the size's
        turned = e.mul(imag(e.mul(g[0], y0.conj())), 1j)
        along = turned if along is None else e.add(along, turned)
    if along is None:
        return full(A._spec.dense(), 0)
    return e.mul(along[..., None, None], _inv(A, name="linalg.inv").mH)


@differentiable("LinalgSlogdet", holomorphic=False, batch=lambda x: _slogdet(x), A=_slogdet_back)
def _slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    if unread("linalg.slogdet", A, asks=True):
        return bare(A, tuple(A.shape)[:-2]), bare(A, tuple(A.shape)[:-2], dtype=A.dtype.to_real())
    if not A.is_cpu:
        pivots, turns = _eliminated(A)
        return e.mul(prod(e.sign(pivots), -1), turns), _sum(e.log(e.abs(pivots)), -1)
    sign, size = lapack.slogdet(A._host())
    return of_array(sign), of_array(size)


def linalg_slogdet(A: Tensor, *, out: Any = None) -> Any:
    """The sign of the determinant (of complex numbers its direction) and the logarithm of its size, as `sign` and `logabsdet`, neither of
    which overflows; of singular matrices 0 and `-inf`. The gradient of the logarithm is `g * inv(A).mH`, a real sign has none.

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
    """The logarithm of the determinant: of real numbers NaN where that is negative, `-inf` where it is 0. The gradient is
    `g * inv(input).mH`.

    >>> torch.logdet(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.0794)
    >>> torch.func.grad(torch.logdet)(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("logdet", input)
    check_floats("logdet", input)
    sign, size = _slogdet(input)
    if input._spec.dtype.is_complex:
        found: Tensor = e.add(e.log(sign), size)
        return found
    return e.where(e.eq(sign, -1), full(input._spec.plain.like(()), float("nan")), size)


__all__ = ["det", "logdet", "slogdet"]
