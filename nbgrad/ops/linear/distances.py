"""Distances between vectors, one by one or all with all; what makes vectors of length 1, or no longer than a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.plan import common_dtype
from nbgrad.core.tensor import Tensor, empty, hooks, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.prepared import Run, prepared
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.dispatch.return_types import EXPECTED
from nbgrad.dispatch.stanza import method, stanza
from nbgrad.expr import prims
from nbgrad.kernels.cpu import pairs as _kernels
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.index.place import Place, _index_select, along
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.norms import _norm, _norm_rule, vector_norm
from nbgrad.ops.pointwise.parts import sgn
from nbgrad.ops.reduce.sums import sum as _sum
from nbgrad.ops.views.copy import contiguous, copier, full, in_place, to_dtype
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.parts import real
from nbgrad.ops.views.shape import broadcast_to, reshape, unsqueeze
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- of all elements, of rows


def _dist_back(g: Tensor, input: Tensor, other: Tensor, y: Tensor, p: float) -> Tensor:
    away = e.sub(input, other)
    back = _norm_rule(g, away, y, p, tuple(range(away.ndim)), False)
    return full(away._spec.dense(), 0) if back is None else back


def _dist_each(g: Tensor, input: Tensor, other: Tensor, y: Tensor, p: float) -> list[Tensor]:
    back = _dist_back(g, input, other, y, p)
    return [hooks.sum_to(back, input.shape), hooks.sum_to(e.neg(back), other.shape)]


@differentiable("Dist", holomorphic=False, all=_dist_each)
def _dist(input: Tensor, other: Tensor, *, p: float) -> Tensor:
    away = e.sub(input, other)
    return _norm(away, ord=p, dims=tuple(range(away.ndim)), keepdim=False)


@method
@replayed
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The norm of order `p` of all differences of two tensors that broadcast: one number.

    >>> torch.dist(torch.tensor([0.0, 3.0]), torch.tensor([4.0, 0.0]))
    tensor(5.)
    """
    if dtypes.bool_ in (input.dtype, other.dtype):
        return e.sub(input, other)  # which refuses
    d = common_dtype([input._spec.plain, other._spec.plain])
    if not d.inexact:
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {d.scalar_name} instead."
        )
    return _dist(to_dtype(input, d), to_dtype(other, d), p=float(p))


@differentiable("NormBackward1", holomorphic=False, input=_norm_rule)
def _length(input: Tensor, *, ord: float, dims: Ints, keepdim: bool) -> Tensor:
    return _norm(input, ord=ord, dims=dims, keepdim=keepdim)


@replayed
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The norm of order `p` of `x1 - x2 + eps` along the last dimension: the distance of each two vectors that stand in the same place.
    `eps` keeps the gradient finite where they are equal.

    >>> F.pairwise_distance(torch.tensor([[0.0, 3.0], [1.0, 1.0]]), torch.tensor([[4.0, 0.0], [1.0, 2.0]]))
    tensor([5.0000, 1.0000])
    """
    last = max(x1.ndim, x2.ndim) - 1
    return _length(e.add(e.sub(x1, x2), float(eps)), ord=float(p), dims=(last,), keepdim=keepdim)


def _at_least(x: Tensor, bound: float) -> Tensor:
    """Not below the bound; the gradient passes it: it is one of values, not of the graph."""
    values = x.detach()
    return e.add(x, e.sub(e.clamp_min(values, bound), values))


@replayed
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`: their product over both lengths, neither of which counts as less than `eps`. The
    tensors broadcast.

    >>> F.cosine_similarity(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    tensor([1.0000, 0.7071])
    """
    d = dtypes.promote_types(x1.dtype, x2.dtype)
    if not d.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {d.scalar_name}")
    shape = tuple(layout.broadcast_shapes(x1._spec.shape, x2._spec.shape))
    units = []
    for x in (x1, x2):
        x = to_dtype(x, d)
        x = x if tuple(x.shape) == shape else broadcast_to(x, shape)
        units.append(e.div(x, _at_least(vector_norm(x, 2, dim, True), eps)))
    return _sum(e.mul(*units), dim)


@replayed
@replayed
def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Vectors along `dim` made of length 1: `input / norm(input)`, the norm being of order `p` and never less than `eps`.

    >>> F.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    length = e.clamp_min(vector_norm(input, p, dim, True), eps)
    return e.div(input, broadcast_to(length, tuple(input.shape)), out=out)


# ---------------------------------------------------------------- all with all


def _apart(x1: Tensor, x2: Tensor) -> Tensor:
    return e.sub(unsqueeze(x1, -2), unsqueeze(x2, -3))


def _strips(x1: Tensor, x2: Tensor) -> list[tuple[Any, ...]]:
    """Rows of the first, as many as have differences that stay in a core's cache: all of them would take up memory."""
    n, width = x1.shape[-2:]
    batch = layout.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    each = max(_TOGETHER // max(math.prod([*batch, x2.shape[-2], width]), 1), 1)
    return [(..., slice(k, k + each), slice(None)) for k in range(0, max(n, 1), each)]


_TOGETHER = 1 << 16


def _lengths_back(g: Tensor, away: Tensor, y: Tensor, p: float) -> Tensor:
    """Of the norms along the last dimension. All elements that are greatest get the whole, as in PyTorch, where `norm` shares it out."""
    if math.isinf(p):
        far = to_dtype(e.alike(e.abs(away), unsqueeze(y, -1)), g._spec.dtype)
        return e.mul(e.mul(sgn(away), far), unsqueeze(g, -1))
    back = _norm_rule(g, away, y, p, (away.ndim - 1,), False)
    assert back is not None  # which only the order 0 has
    return back


def _cdist_back(g: Tensor, x1: Tensor, x2: Tensor, y: Tensor, p: float) -> list[Tensor]:
    if p == 0:
        return [full(x._spec.dense(), 0) for x in (x1, x2)]
    firsts, second = list[Tensor](), None
    for s in _strips(x1, x2):
        back = _lengths_back(g[s], _apart(x1[s], x2), y[s], p)
        firsts.append(_sum(back, -2))
        of_rows = _sum(back, -3)
        second = of_rows if second is None else e.add(second, of_rows)
    zero = full(g._spec.plain.like(()), 0)  # less which nothing is -0.0
    return [hooks.sum_to(cat(firsts, -2), x1.shape), hooks.sum_to(e.sub(zero, second), x2.shape)]


@differentiable("Cdist", unmoved="_cdist_forward", all=_cdist_back)
def _cdist(x1: Tensor, x2: Tensor, *, p: float) -> Tensor:
    last = (max(x1.ndim, x2.ndim),)
    found = [_norm(_apart(x1[s], x2), ord=p, dims=last, keepdim=False) for s in _strips(x1, x2)]
    return found[0] if len(found) == 1 else cat(found, -2)


def _euclidean_back(g: Tensor, x1: Tensor, x2: Tensor, y: Tensor) -> list[Tensor]:
    ratio = e.where(e.eq(y, 0), full(g._spec.plain.like(()), 0), e.div(g, y))
    turned = ratio.mT
    return [
        e.sub(e.mul(x1, _sum(ratio, -1, True)), matmul(ratio, x2)),
        e.sub(e.mul(x2, _sum(turned, -1, True)), matmul(turned, x1)),
    ]


@differentiable("EuclideanDist", unmoved="_euclidean_dist", all=_euclidean_back)
def _euclidean(x1: Tensor, x2: Tensor) -> Tensor:
    """By one product of matrices: as in PyTorch quick, and less exact where rows are nearly the same."""
    squares = e.add(_sum(e.mul(x1, x1), -1, True), _sum(e.mul(x2, x2), -1, True).mT)
    return e.sqrt(e.clamp_min(e.sub(squares, e.mul(matmul(x1, x2.mT), 2)), 0))


_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


def _no_half(kernel: str, x: Tensor) -> None:
    if x.dtype.narrow:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{x.dtype.scalar_name}'")


def _quick_distances(x1: Spec, x2: Spec, p: Any, compute_mode: Any) -> Quick | None:
    """Of few rows, whose differences are there at once."""
    *batch, rows, n = tuple(x1.shape)
    *others, columns, _ = tuple(x2.shape)
    many = max(rows, columns) > _FEW_ROWS_APART and compute_mode == _MODES[0]
    if batch != others or not (x1.numel and x2.numel) or (p == 2 and (many or compute_mode == _MODES[1])):
        return None
    first = x1.like((*batch, rows, 1, n), (*x1.strides[:-1], 0, x1.strides[-1]))
    second = x2.like((*batch, 1, columns, n), (*x2.strides[:-2], 0, *x2.strides[-2:]))
    how: dict[str, Any] = {"ord": float(p), "dims": (len(batch) + 2,), "keepdim": False}
    return lambda x1, x2: _norm(e.sub(wrap(x1._buf, first), wrap(x2._buf, second)), **how)


_FEW_ROWS_APART = 25  # more than that are taken from a product


@quickly(_quick_distances, devices=True)
@replayed
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = _MODES[0]) -> Tensor:
    """The distances of order `p` between each row of `x1` and each of `x2`: (..., n, m) and (..., k, m) make (..., n, k). Where
    `compute_mode` allows it, those of many rows for `p=2` are taken from a matrix product. The gradient of a distance 0 is 0.

    >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for word, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {word} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    for word, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {word} got: {x.dtype.scalar_name}"
            )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    batch = tuple(layout.broadcast_shapes(tuple(x1.shape)[:-2], tuple(x2.shape)[:-2]))
    x1, x2 = (
        broadcast_to(x, (*batch, *tuple(x.shape)[-2:])) if tuple(x.shape)[:-2] != batch else x
        for x in (x1, x2)
    )
    large = max(x1.shape[-2], x2.shape[-2]) > _FEW_ROWS_APART
    if p == 2 and (compute_mode == _MODES[1] or (compute_mode == _MODES[0] and large)):
        return reshape(_euclidean(x1, x2), (*batch, x1.shape[-2], x2.shape[-2]))
    _no_half("cdist", x1)
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"expected scalar type {x1.dtype.scalar_name} but found {x2.dtype.scalar_name}")
    return _cdist(x1, x2, p=float(p))


_WIDEST = 512  # of rows whose squares are added up in their own dtype, as everywhere


def _by_kernel(input: Spec, p: float) -> bool:
    return (
        p == 2
        and input.backend is backend.cpu
        and input.dtype in (dtypes.float32, dtypes.float64)
        and input.numel > 0
        and tuple.__getitem__(input.shape, 1) <= _WIDEST
    )


@prepared()
def _each_apart(input: Spec) -> Run:
    """Euclidean distances between each two rows."""
    n, width = tuple(input.shape)
    whole, turn = (
        input.dense(),
        copier(input.like((width, n), input.strides[::-1]), input.plain.like((width, n))),
    )
    out = input.plain.like((n * (n - 1) // 2,))
    address = backend.cpu.kernel(f"apart_{input.dtype.code}", *_kernels.apart(input.dtype.code)).address
    launch = backend.cpu.launch(3, "qq", n * n * width, n * n * width < FEW)
    return lambda t: _launched(launch, address, n, (_laid(t, whole), turn(t)), out, n, width)


def _laid(t: Tensor, sp: Spec) -> Tensor:
    return t if t._spec is sp else contiguous(t)


def _launched(
    launch: Any, address: int, items: int, tensors: Sequence[Tensor], out: Spec, *sizes: int
) -> Tensor:
    made = empty(out)
    launch(address, items, *[t._buf for t in tensors], made._buf, *sizes)
    return made


def _each_apart_back(g: Tensor, input: Tensor, y: Tensor) -> Tensor:
    sp = input._spec.dense()
    n, width = tuple(sp.shape)
    address = backend.cpu.kernel(f"apart_back_{sp.dtype.code}", *_kernels.apart_back(sp.dtype.code)).address
    launch = backend.cpu.launch(4, "qq", n * n * width, n * n * width < FEW)
    return _launched(launch, address, n, [contiguous(t) for t in (input, g, y)], sp, n, width)


def _pdist_back(g: Tensor, input: Tensor, y: Tensor, p: float) -> Tensor:
    if p == 0:
        return full(input._spec.dense(), 0)
    if not state.grad and not transforms.wrapped((g, input, y)) and _by_kernel(input._spec, p):
        return _each_apart_back(g, input, y)
    first, second = _pairs(input)
    from nbgrad.ops.index.place import _spread

    if _is_large(input):
        n, places = input.shape[0], _in_square(input)
        square = input._spec.dense().like((n * n,))
        both = []
        for line in (g, y):
            half = reshape(_spread(line, base=square, place=places), (n, n))
            both.append(e.add(half, half.mT))
        strips = _strips(input, input)
        backs = [_lengths_back(both[0][s], _apart(input[s], input), both[1][s], p) for s in strips]
        return cat([_sum(back, -2) for back in backs], -2)
    away = e.sub(_index_select(input, place=first), _index_select(input, place=second))
    back = _lengths_back(g, away, y, p)
    base = input._spec.dense()
    return e.sub(_spread(back, base=base, place=first), _spread(back, base=base, place=second))


def _pairs(input: Tensor) -> tuple[Place, Place]:
    sp = input._spec
    return _few_pairs(sp) if tuple.__getitem__(sp.shape, 0) <= _FEW_ROWS else _all_pairs(sp)


def _all_pairs(sp: Spec) -> tuple[Place, Place]:
    first, second = np.triu_indices(tuple.__getitem__(sp.shape, 0), 1)
    return along(0, first, sp), along(0, second, sp)


def _is_large(input: Tensor) -> bool:
    """Whether differences of all pairs at once would take up more memory than the nearest caches have; those of all with all, a few rows
    at a time, are quicker then, though each pair is there twice."""
    n, width = tuple(input.shape)
    return n * n * width > 16 * _TOGETHER


def _in_square(input: Tensor) -> Place:
    """Where pairs are in the distances of all with all."""
    n = tuple.__getitem__(input.shape, 0)
    first, second = np.triu_indices(n, 1)
    return along(0, first * n + second, input._spec.like((n * n,)))


_FEW_ROWS = 128  # whose pairs take 130 KB
_few_pairs = cached(64)(_all_pairs)


@differentiable("Pdist", unmoved="_pdist_forward", input=_pdist_back)
def _pdist(input: Tensor, *, p: float) -> Tensor:
    if _by_kernel(input._spec, p):
        return _each_apart(input)
    if _is_large(input):
        parts = [
            _norm(_apart(input[s], input), ord=p, dims=(2,), keepdim=False) for s in _strips(input, input)
        ]
        return _index_select(reshape(cat(parts, -2), (-1,)), place=_in_square(input))
    first, second = _pairs(input)
    away = e.sub(_index_select(input, place=first), _index_select(input, place=second))
    return _norm(away, ord=p, dims=(1,), keepdim=False)


def _quick_pairs(input: Spec, p: Any) -> Quick | None:
    if input.ndim == 2 and _by_kernel(input, p):
        return _each_apart.at(input, {}).run  # type: ignore[attr-defined]
    if input.ndim != 2 or not 1 < tuple.__getitem__(input.shape, 0) <= _FEW_ROWS or not input.numel:
        return None
    if tuple.__getitem__(input.shape, 0) * input.numel > 16 * _TOGETHER:
        return None
    places = _few_pairs(input)
    first, second = [_index_select.at(input, {"place": at}).run for at in places]  # type: ignore[attr-defined]
    settings = {"ord": float(p), "dims": (1,), "keepdim": False}
    norm = _norm.at(places[0].of(input).out, settings).run  # type: ignore[attr-defined]
    return lambda t: norm(e.sub(first(t), second(t)))


@quickly(_quick_pairs, devices=True)
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The distances of order `p` between each two of n rows, as one line of `n * (n - 1) / 2`: the first row to the others, then the second
    to those behind it, and so on.

    >>> F.pdist(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    if input.shape[0] > 1 and input.shape[1]:  # else PyTorch runs no kernel
        _no_half("pdist", input)
    return _pdist(input, p=float(p))


# ---------------------------------------------------------------- no longer than a bound


def _renorm_back(g: Tensor, input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    others = tuple(d for d in range(input.ndim) if d != dim)
    length = vector_norm(input, p, others, True)
    products = e.mul(g, hooks.conj(input))
    total = _sum(real(products), others, True)
    back = _norm_rule(total, input, length, p, others, True)
    assert back is not None
    inverse = e.reciprocal(e.add(length, 1e-7))
    along = e.mul(e.sub(g, e.mul(inverse, back)), e.mul(inverse, maxnorm))
    return e.where(e.gt(length, maxnorm), along, g)


@differentiable("Renorm", holomorphic=False, input=_renorm_back)
def _renorm(input: Tensor, *, p: float, dim: int, maxnorm: float) -> Tensor:
    others = tuple(d for d in range(input.ndim) if d != dim)
    length = vector_norm(input, p, others, True)
    if input._spec.dtype.is_complex:  # which have no order
        return contiguous(e.mul(input, _shortened(hooks.ones_like(length), length, maxnorm)))
    return contiguous(_shortened(input, length, maxnorm))


_shortened = stanza(
    lambda row, length, most: row * prims.where(length > most, most / (length + 1e-7), 1),
    name="renorm_shortened",
    method=False,
    shared=False,
)


def _quick_renorm(input: Spec, p: Any, dim: Any, maxnorm: Any, *, out: Any) -> Quick | None:
    if out is not None or not input.contiguous or input.dtype.is_complex:
        return None
    d, most = layout.wrap_dim(dim, input.ndim), float(maxnorm)
    others = tuple([k for k in range(input.ndim) if k != d])
    norm = _norm.at(input, {"ord": float(p), "dims": others, "keepdim": True}).run  # type: ignore[attr-defined]
    return lambda t: _shortened(t, norm(t), most)


@method
@quickly(_quick_renorm)
@replayed
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Tensor:
    """Each slice along `dim` whose norm of order `p` is above `maxnorm`, shortened to it; the others as they are.

    >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if not input.dtype.inexact:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input.dtype.scalar_name}"
        )
    result = _renorm(input, p=float(p), dim=layout.wrap_dim(dim, input.ndim), maxnorm=float(maxnorm))
    return result if out is None else into("renorm", out, result, (input,), EXPECTED, apart=(input,))


in_place(renorm)
__all__ = ["cdist", "cosine_similarity", "dist", "pairwise_distance", "pdist", "renorm"]
