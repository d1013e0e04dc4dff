"""Norms of vectors, of every order, along any dimensions."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.core.tensor import Tensor, wrap
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.prepared import Run, call_of, prepared, settled
from nbgrad.dispatch.return_types import EXPECTED
from nbgrad.expr import prims as p
from nbgrad.expr.node import var
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.pointwise.parts import sgn
from nbgrad.ops.reduce.extremes import extreme
from nbgrad.ops.reduce.reduction import _NEG, _POS, Reduction, _dims, _past, reduction
from nbgrad.ops.reduce.sums import _kept, _moved_by, _sum
from nbgrad.ops.views.copy import full, to_dtype, zeros

_x, _r, _n = var("x"), var("r"), var("n")
NORM2 = Reduction("norm2", "sum", prologue=_x * _x, finish=p.sqrt(_r))
NORM1 = Reduction("norm1", "sum", prologue=p.abs(_x))
NORM0 = Reduction("norm0", "sum", prologue=p.where(p.ne(_x, 0), 1.0, 0.0))
NORM_MAX = Reduction("norm_max", "amax", prologue=p.abs(_x), identity=_NEG)
NORM_MIN = Reduction("norm_min", "amin", prologue=p.abs(_x), identity=_POS)
NORM_P = Reduction("norm_p", "sum", prologue=p.pow(p.abs(_x), _n), finish=p.pow(_r, 1 / _n), numbers=("n",))


def _norm_rule(g: Tensor, input: Tensor, y: Tensor, ord: float, dims: Ints, keepdim: bool) -> Tensor | None:
    """PyTorch's: the derivative at zero is zero, whatever the order."""
    g, y = _kept(g, input.ndim, dims, keepdim), _kept(y, input.ndim, dims, keepdim)
    zero = full(g._spec.plain.like(()), 0)
    if ord == 0:
        return None
    if ord == 1:
        return e.mul(sgn(input), g)
    if ord == 2:
        return e.mul(g, e.where(e.eq(y, 0), zero, e.div(input, y)))
    if math.isinf(ord):
        at = to_dtype(e.alike(e.abs(input), y), g._spec.dtype)
        count = _sum(at, dims=dims, keepdim=True) if dims else at
        return e.mul(e.mul(sgn(input), at), e.div(g, count))
    size = e.abs(input)
    if ord < 1:
        scaled = e.mul(sgn(input), e.pow(size, ord - 1))
        scaled = e.where(e.eq(input, 0), zero, scaled)
        return e.mul(scaled, e.mul(g, e.pow(y, 1 - ord)))
    if ord < 2:
        scaled = e.mul(sgn(input), e.pow(size, ord - 1))
        scale = e.div(g, e.pow(y, ord - 1))
    else:
        scaled = e.mul(input, e.pow(size, ord - 2))
        scale = e.div(g, e.pow(y, ord - 1))
    return e.mul(scaled, e.where(e.eq(y, 0), zero, scale))


def _norm_tangent(t: Tensor, input: Tensor, y: Tensor, ord: float, dims: Ints, keepdim: bool) -> Tensor:
    if ord == 0:
        return zeros(y._spec.plain.dense())
    moved: Tensor = _moved_by(_norm_rule)(t, input, y, dims, keepdim, ord=ord)
    return moved


@prepared(
    "LinalgVectorNorm",
    holomorphic=False,
    tangent=_norm_tangent,
    batch=lambda x, ord, dims, keepdim: _norm(x, ord=ord, dims=_past(dims), keepdim=keepdim),
    input=_norm_rule,
)
def _norm(input: Spec, *, ord: float, dims: Ints, keepdim: bool) -> Run:
    if input.dtype.is_complex:  # that of their sizes
        how: dict[str, Any] = {"ord": ord, "dims": dims, "keepdim": keepdim}
        return lambda t: _norm(e.abs(wrap(t._buf, input)), **how)
    if math.isinf(ord):
        return extreme(NORM_MAX if ord > 0 else NORM_MIN, input, dims, keepdim)
    kind = {0.0: NORM0, 1.0: NORM1, 2.0: NORM2}.get(ord, NORM_P)
    return reduction(kind, input, dims, keepdim, input.dtype, "f8", *([ord] if kind is NORM_P else []))


def check_real_order(name: str, ord: Any) -> None:
    if isinstance(ord, complex):
        raise RuntimeError(f"{name}: Expected a non-complex scalar as the order of norm.")


def vector_norm_of(x: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: Any, out: Tensor | None) -> Any:
    if isinstance(ord, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    own = x._spec.dtype
    if not own.inexact:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {own.scalar_name}"
        )
    d = own if dtype is None else dtypes.to_dtype(dtype)
    if not d.inexact:
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be floating point or complex, but got {d.scalar_name}"
        )
    if d.is_complex is not own.is_complex:
        kind = "complex" if own.is_complex else "real"
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {d.scalar_name}"
        )
    if dtypes.promote_types(own, d) is not d:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({own.scalar_name}) should be convertible without narrowing to "
            f"the specified dtype ({d.scalar_name})"
        )
    check_real_order("linalg.vector_norm", ord)
    dims = _dims(dim, x.ndim)
    if x.numel() == 0 and (ord < 0 or math.isinf(ord)):
        words = f"linalg.vector_norm cannot compute the {ord:g} norm on "
        if len(dims) == x.ndim:
            raise RuntimeError(f"{words}an empty tensor because the operation does not have an identity")
        for k in (dim,) if isinstance(dim, int) else dim:
            if tuple.__getitem__(x.shape, k) == 0:
                raise RuntimeError(
                    f"{words}the dimension {k}because this dimension is empty and the operation does not have an identity"
                )
    if d is own and out is None:
        return call_of(_norm, x, ord=float(ord), dims=dims, keepdim=keepdim)
    got = _norm(to_dtype(x, d), ord=float(ord), dims=dims, keepdim=keepdim)
    return got if out is None else into("linalg_vector_norm", out, got, (x,), EXPECTED)


@settled
def vector_norm(
    x: Tensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Any:
    """`sum(|x| ** ord) ** (1 / ord)` of all elements, or along `dim` (one or several): 2 is the length, 1 the sum of sizes, `inf` the
    greatest, `-inf` the least, 0 how many are not 0. The gradient of the length is `g * x / y`, and 0 where the length is 0.

    >>> torch.linalg.vector_norm(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), dim=1)
    tensor([5., 2.])
    >>> torch.func.grad(torch.linalg.vector_norm)(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    """
    return vector_norm_of(x, ord, dim, keepdim, dtype, out)
