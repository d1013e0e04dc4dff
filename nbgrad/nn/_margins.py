"""Distances, and the losses that want some of them smaller than others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad import _creation
from nbgrad._tensor import Tensor
from nbgrad.nn._losses import legacy_reduction
from nbgrad.ops import elementwise as e
from nbgrad.ops.activations import logsigmoid
from nbgrad.ops.elementwise import where
from nbgrad.ops.gather import gather
from nbgrad.ops.host import of_array
from nbgrad.ops.movement import unsqueeze
from nbgrad.ops.norm import vector_norm
from nbgrad.ops.rows import softmax


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


# ---------------------------------------------------------------- distances


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    common = x1.dtype if x1.dtype.is_floating_point else x2.dtype
    if not common.is_floating_point:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {common.scalar_name}"
        )
    first, second = (x / vector_norm(x, 2, dim, True).clamp_min(eps) for x in (x1, x2))
    found: Tensor = (first * second).sum(dim)
    return found


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


def normalize(
    input: Any, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Each vector along `dim`, over its norm."""
    below = vector_norm(input, p, dim, True).clamp_min(eps).expand_as(input)
    return e.div(input, below, out=out)


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A differentiable draw of one class per row; `hard` gives 0 and 1, with the soft draw's gradients."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    drawn: Any = _creation.empty_like(logits)
    soft: Any = softmax((logits - drawn.exponential_().log()) / tau, dim)
    if not hard:
        found: Tensor = soft
        return found
    zeros: Any = _creation.zeros_like(logits)
    chosen = zeros.scatter_(dim, soft.max(dim, keepdim=True)[1], 1.0)
    straight: Tensor = chosen - soft.detach() + soft
    return straight


# ---------------------------------------------------------------- losses


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Alike where the target is 1, less alike than `margin` where it is -1."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if (target.ndim == 1 and (input1.ndim, input2.ndim) != (2, 2)) or (
        target.ndim == 0 and (input1.ndim, input2.ndim) != (1, 1)
    ):
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    sizes = [(x * x).sum(target.ndim) + 1e-12 for x in (input1, input2)]
    cosine = (input1 * input2).sum(target.ndim) / (sizes[0] * sizes[1]).sqrt()
    alike = where(target == 1, 1 - cosine, 0.0)
    return _reduced(alike + where(target == -1, (cosine - margin).clamp_min(0), 0.0), reduction)


def _margin_loss(near: Any, far: Any, margin: float, reduction: str) -> Tensor:
    return _reduced((margin + near - far).clamp_min(0), reduction)


def _check_triplet(margin: float, anchor: Any, positive: Any, negative: Any) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
            f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    reduction = legacy_reduction(reduction, size_average, reduce)
    _check_triplet(margin, anchor, positive, negative)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = e.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _margin_loss(pairwise_distance(anchor, positive, p, eps), far, margin, reduction)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    reduction = legacy_reduction(reduction, None, None)
    _check_triplet(margin, anchor, positive, negative)
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = e.minimum(far, distance(positive, negative))
    return _margin_loss(near, far, margin, reduction)


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The score of an example's class is to be above each other's by `margin`."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    scores, classes = (input, target) if input.ndim > 1 else (unsqueeze(input, 0), target.reshape(1))
    if scores.ndim != 2 or classes.ndim != 1 or classes.shape[0] != scores.shape[0]:
        raise RuntimeError(
            f"inconsistent target size, expected {scores.shape[0]} but got {list(target.shape)}"
        )
    own = unsqueeze(classes, 1)
    over = (margin - gather(scores, 1, own) + scores).clamp_min(0)
    over = over if p == 1 else over * over
    over = over if weight is None else over * unsqueeze(weight[classes], 1)
    loss = over.scatter(1, own, 0.0).sum(1) / scores.shape[1]
    return _reduced(loss if input.ndim > 1 else loss[0], reduction)


def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The score of each of an example's classes, listed up to the first -1, is to be above each other's by 1."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    if tuple(target.shape) != tuple(input.shape):
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    scores, classes = (t if t.ndim > 1 else unsqueeze(t, 0) for t in (input, target))
    named = classes._host()
    listed = np.logical_and.accumulate(named >= 0, 1)
    others = np.ones(named.shape, bool)
    for row, chosen in enumerate(others):
        chosen[named[row][listed[row]]] = False
    pairs = of_array(listed[:, :, None] & others[:, None, :])
    own = gather(scores, 1, of_array(np.where(listed, named, 0)))
    over = (1 - unsqueeze(own, 2) + unsqueeze(scores, 1)).clamp_min(0)
    loss = where(pairs, over, 0.0).sum((1, 2)) / scores.shape[1]
    return _reduced(loss if input.ndim > 1 else loss[0], reduction)


def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    reduction = legacy_reduction(reduction, size_average, reduce)
    positive: Any = logsigmoid(input)
    negative: Any = logsigmoid(-input)
    loss = -(target * positive + (1 - target) * negative)
    loss = loss if weight is None else loss * weight
    return _reduced(loss.sum(input.dim() - 1) / input.shape[-1], reduction)


__all__ = [
    "cosine_embedding_loss",
    "cosine_similarity",
    "gumbel_softmax",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "normalize",
    "pairwise_distance",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]
