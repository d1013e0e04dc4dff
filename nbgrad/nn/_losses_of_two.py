"""Losses of two classes, or of a margin between two."""

from __future__ import annotations

from typing import Any

from nbgrad.base.switches import recorded
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.stanza import stanza
from nbgrad.dispatch.transforms import innermost
from nbgrad.expr import prims as p
from nbgrad.history.record import check_untrained
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.storage import Spec
from nbgrad.nn._losses import _no_integers, _pointwise
from nbgrad.nn._reduction import check_reduction, reduced, reducing
from nbgrad.ops import pointwise as e
from nbgrad.ops.pointwise.functions import log1p
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.views.copy import full, to_dtype
from nbgrad.ops.views.shape import broadcast_to

# ---------------------------------------------------------------- margins

_soft_margin = stanza(
    lambda input, target: p.log1p(p.exp(-target * input)),
    name="soft_margin_loss",
    method=False,
    shared=False,
)
_soft_margin_back = stanza(
    lambda grad, input, target, scale: -grad * scale * target / (1 + p.exp(target * input)),
    name="soft_margin_loss_backward",
    settings=("scale",),
    method=False,
    shared=False,
)
_soft_margin_of = _pointwise(
    "SoftMarginLoss",
    _soft_margin,
    lambda g, input, target, scale: _soft_margin_back(g, input, target, scale),
    lambda g, input, target, scale: _soft_margin_back(g, target, input, scale),
)


@reducing()
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
) -> Tensor:
    """`log(1 + exp(-target * input))` for targets of 1 and -1, its mean by default. The gradient is `-target / (1 + exp(target *
    input))`.

    >>> F.soft_margin_loss(torch.tensor([2.0, 2.0]), torch.tensor([1.0, -1.0]), reduction="none")
    tensor([0.1269, 2.1269])
    """
    check_reduction(reduction)
    check_untrained("soft_margin_loss", target=target)
    if input.dtype is dtypes.bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
            "`logical_not()` operator instead."
        )
    if not input.dtype.inexact:
        made = target.dtype.scalar_name if target.dtype.is_floating_point else "Float"
        raise RuntimeError(
            f"result type {made} can't be cast to the desired output type {input.dtype.scalar_name}"
        )
    shape = layout.broadcast_shapes(input.shape, target.shape)
    if shape != tuple(input.shape):
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(shape)}"
        )
    target = to_dtype(broadcast_to(target, shape), input.dtype)
    return _soft_margin_of(input, target, reduction)


@reducing()
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, and where that is -1 how much the input falls short of the margin: `max(0, margin - input)`.
    The input is a distance between two things that are alike (1) or not (-1).

    >>> F.hinge_embedding_loss(torch.tensor([0.25, 0.25]), torch.tensor([1.0, -1.0]), reduction="none")
    tensor([0.2500, 0.7500])
    """
    check_reduction(reduction)
    # As in PyTorch, which writes it into a tensor like the input.
    margin = float(margin) if input.dtype.is_floating_point else int(margin)
    short = e.where(e.ne(target, 1), e.clamp_min(e.sub(margin, input), 0), 0)
    return reduced(e.add(short, e.where(e.ne(target, -1), input, 0)), reduction)


@reducing()
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    reduction: str = "mean",
) -> Tensor:
    """How much is missing until the one that should be higher is so by `margin`: `max(0, -target * (input1 - input2) + margin)`,
    where a target of 1 says the first and -1 the second.

    >>> F.margin_ranking_loss(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]), reduction="none")
    tensor([0., 1.])
    """
    check_reduction(reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    lead = e.mul(e.neg(target), e.sub(input1, input2))
    return reduced(e.clamp_min(e.add(lead, float(margin)), 0), reduction)


# ---------------------------------------------------------------- two classes


def _clamped_log(x: Any) -> Any:
    """Not below -100, so that a loss stays finite."""
    return p.where(p.log(x) < -100, -100, p.log(x))


def _clamped_log1m(x: Any) -> Any:
    return p.where(p.log1p(-x) < -100, -100, p.log1p(-x))


def _odds(x: Any) -> Any:
    return p.where((1 - x) * x < 1e-12, 1e-12, (1 - x) * x)


_binary = stanza(
    lambda input, target: (target - 1) * _clamped_log1m(input) - target * _clamped_log(input),
    name="binary_cross_entropy",
    vjp=lambda g, input, target: (
        g * (input - target) / _odds(input),
        g * (p.log1p(-input) - p.log(input)),
    ),
    method=False,
    shared=False,
)
_binary_back = stanza(
    lambda grad, input, target, scale: grad * scale * (input - target) / _odds(input),
    name="binary_cross_entropy_backward",
    settings=("scale",),
    method=False,
    shared=False,
)
_binary_of = _pointwise(
    "BinaryCrossEntropy",
    _binary,
    lambda g, input, target, scale: _binary_back(g, input, target, scale),
    lambda g, input, scale: e.mul(e.mul(g, scale), e.sub(log1p(e.neg(input)), e.log(input))),
)


@differentiable(
    "BinaryCrossEntropy",
    input=lambda g, input, target, weight, scale: _binary_back(e.mul(g, weight), input, target, scale),
    target=lambda g, input, weight, scale: e.mul(
        e.mul(e.mul(g, weight), scale), e.sub(log1p(e.neg(input)), e.log(input))
    ),
)
def _binary_weighted(
    input: Tensor, target: Tensor, weight: Tensor, *, scale: float, reduction: str
) -> Tensor:
    return reduced(e.mul(_binary(input, target), weight), reduction)


def _shares(values: Any) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())


_FEW = 64


def _between_0_and_1(t: Tensor, refusal: str) -> bool:
    t = innermost(t)
    sp = t._spec
    if (
        type(sp) is Spec
        and sp.backend is backend.cpu
        and sp.contiguous
        and sp.numel <= _FEW
        and recorded.sure is None
    ):
        form: Any = backend.FORMATS.get(sp.dtype.code)
        if form == "f" or form == "d":  # a view of memory makes numbers of few sooner than an array is asked
            return all([0 <= v <= 1 for v in memoryview(t._buf)[: sp.nbytes].cast(form)])
    if t.is_cpu:
        return (recorded.sure is not None and recorded.sure(t, _shares, refusal)) or _shares(t._host())
    return r.everywhere(e.logical_and(e.ge(t, 0), e.le(t, 1)))


@reducing()
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`-(target * log(input) + (1 - target) * log(1 - input))` for probabilities between 0 and 1, each logarithm counting as at
    least -100, so that the loss stays finite. The gradient is `(input - target) / (input * (1 - input))`. `weight` multiplies the
    elements. Behind a sigmoid, `binary_cross_entropy_with_logits` is more exact.

    >>> F.binary_cross_entropy(torch.tensor([0.9, 0.9]), torch.tensor([1.0, 0.0]), reduction="none")
    tensor([0.1054, 2.3026])
    """
    check_reduction(reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated. "
            "Please ensure they have the same size."
        )
    _no_integers(input, "binary_cross_entropy")
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {target.dtype.scalar_name} but expected {input.dtype.scalar_name}")
    check_untrained("binary_cross_entropy", weight=weight)
    for word, t in (("input", input), ("target", target)):
        refusal = f"all elements of {word} should be between 0 and 1"
        if not _between_0_and_1(t, refusal):
            raise RuntimeError(refusal)
    if weight is None:
        return _binary_of(input, target, reduction)
    n = input.numel()
    scale = 1 / n if reduction == "mean" and n else 1.0
    return _binary_weighted(
        input, target, broadcast_to(weight, input.shape), scale=scale, reduction=reduction
    )


def _log_sigmoid(x: Any) -> Any:
    return p.minimum(x, 0) - p.log1p(p.exp(-p.abs(x)))


_logits = stanza(
    lambda input, target: (1 - target) * input - _log_sigmoid(input),
    name="binary_cross_entropy_with_logits",
    vjp=lambda g, input, target: (g * (p.sigmoid(input) - target), -g * input),
    method=False,
    shared=False,
)
_logits_back = stanza(
    lambda grad, input, target, scale: grad * (scale * (p.sigmoid(input) - target)),
    name="binary_cross_entropy_with_logits_backward",
    method=False,
    shared=False,
)
_logits_weighed = stanza(
    lambda input, target, pos, weight: (
        ((1 - target) * input - (1 + (pos - 1) * target) * _log_sigmoid(input)) * weight
    ),
    name="binary_cross_entropy_with_weights",
    method=False,
    shared=False,
)
_logits_weighed_back = stanza(
    lambda grad, input, target, pos, weight, scale: (
        grad * (scale * weight) * ((pos * target + 1 - target) * p.sigmoid(input) - pos * target)
    ),
    name="binary_cross_entropy_with_weights_backward",
    settings=("scale",),
    method=False,
    shared=False,
)
_logits_weighed_target = stanza(
    lambda grad, input, pos, weight, scale: (
        grad * (scale * weight) * ((1 - pos) * _log_sigmoid(input) - input)
    ),
    name="binary_cross_entropy_with_weights_target_backward",
    settings=("scale",),
    method=False,
    shared=False,
)


@differentiable(
    "BinaryCrossEntropyWithLogits",
    input=lambda g, input, target, pos, weight, scale: _logits_weighed_back(
        g, input, target, pos, weight, scale
    ),
    target=lambda g, input, pos, weight, scale: _logits_weighed_target(g, input, pos, weight, scale),
)
def _bce_weighted(
    input: Tensor, target: Tensor, pos: Tensor, weight: Tensor, *, scale: float, reduction: str
) -> Tensor:
    return reduced(_logits_weighed(input, target, pos, weight), reduction)


_bce = _pointwise(
    "BinaryCrossEntropyWithLogits",
    _logits,
    lambda g, input, target, scale: _logits_back(g, input, target, scale),
    lambda g, input, scale: e.mul(e.mul(g, -scale), input),
)


@reducing()
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of `sigmoid(input)`, computed so that neither large nor small inputs overflow: `(1 - target) * input +
    log(1 + exp(-input))`. `pos_weight` multiplies what targets of 1 contribute, `weight` all of it. Without them the gradient is
    `sigmoid(input) - target`.

    >>> x = torch.tensor([0.0, 100.0], requires_grad=True)
    >>> F.binary_cross_entropy_with_logits(x, torch.tensor([1.0, 0.0]), reduction="sum").backward()
    >>> x.grad
    tensor([-0.5000,  1.0000])
    """
    check_reduction(reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    _no_integers(input, "log_sigmoid_cpu")
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {input.dtype.scalar_name} can't be cast to the desired output type {target.dtype.scalar_name}"
        )
    d, kept = (
        dtypes.promote_types(input.dtype, target.dtype),
        target.dtype,
    )  # PyTorch's writes over `1 - target`
    input, target = to_dtype(input, d), to_dtype(target, d)
    if weight is None and pos_weight is None:
        return (
            _bce(input, target, reduction)
            if d is kept
            else reduced(to_dtype(_bce(input, target, "none"), kept), reduction)
        )
    check_untrained("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    alike = full(input._spec.like(()), 1.0) if weight is None or pos_weight is None else None
    of_ones = alike if pos_weight is None else pos_weight
    for given in (pos_weight, weight):
        if given is not None and (wide := layout.broadcast_shapes(input.shape, given.shape)) != input.shape:
            raise RuntimeError(
                f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(wide)}"
            )
    n = input.numel()
    scale = 1 / n if reduction == "mean" and n else 1.0
    loss = _bce_weighted(
        input, target, of_ones, alike if weight is None else weight, scale=scale, reduction=reduction
    )
    return to_dtype(loss, kept)


__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "soft_margin_loss",
]
