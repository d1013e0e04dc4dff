"""Losses as functions, with PyTorch's names, defaults, warnings and refusals.

A loss that PyTorch records as one node is one node here: its value is an elementwise op and a reduction, or a program over rows,
and its rule is an op itself, so that every derivative exists.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.prepared import call_of, settled_by
from nbgrad.dispatch.stanza import stanza
from nbgrad.expr import prims as p
from nbgrad.history.record import check_untrained
from nbgrad.memory import dtypes, layout
from nbgrad.memory.storage import Spec
from nbgrad.ops.index import gather as at
from nbgrad.ops.make.creation import ones_like
from nbgrad.ops.pointwise import arithmetic as e
from nbgrad.ops.pointwise.functions import log1p
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.rows import classes as class_losses
from nbgrad.ops.rows import softmax
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.views import broadcast_to, reshape, unsqueeze

# ---------------------------------------------------------------- what losses share


def legacy_reduction(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    if size_average is not None or reduce is not None:
        average, each = (True if v is None else bool(v) for v in (size_average, reduce))
        found = ("mean" if average else "sum") if each else "none"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.",
            stacklevel=4,
        )
        return found
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _tensors(function: str, input: Any, target: Any) -> None:
    if isinstance(input, Tensor) and isinstance(target, Tensor):
        return
    name, position, t = ("target", 2, target) if isinstance(input, Tensor) else ("input", 1, input)
    raise TypeError(
        f"{function}(): argument '{name}' (position {position}) must be Tensor, not {type(t).__name__}"
    )


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    return r.mean(loss) if reduction == "mean" else r.sum(loss)


Rule = Callable[..., Tensor]


def _pointwise(node: str, each: Rule, by_input: Rule, by_target: Rule) -> Any:
    """The mean or sum of `each(input, target, numbers)` as one node; `by_*(g, input, target, scale, numbers)` are its gradients."""

    def batch(
        has: Any, input: Tensor, target: Tensor, *, scale: float, reduction: str, **numbers: float
    ) -> Tensor:
        loss = each(input, target, *numbers.values())
        dims = tuple(range(1, loss.ndim))
        if not dims:
            return loss
        found: Tensor = (r.mean if reduction == "mean" else r.sum)(loss, dims)
        return found

    @differentiable(node, batch=batch, input=by_input, target=by_target)
    def total(input: Tensor, target: Tensor, *, scale: float, reduction: str, **numbers: float) -> Tensor:
        return _reduced(each(input, target, *numbers.values()), reduction)

    def loss(input: Tensor, target: Tensor, reduction: str, **numbers: float) -> Tensor:
        if reduction == "none":
            return each(input, target, *numbers.values())
        n = input.numel()
        scale = 1 / n if reduction == "mean" and n else 1.0
        return total(input, target, scale=scale, reduction=reduction, **numbers)

    return loss


def _paired(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in their common shape and dtype."""
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
        shape = layout.broadcast_shapes(input.shape, target.shape)
        input, target = broadcast_to(input, shape), broadcast_to(target, shape)
    d = dtypes.promote_types(input.dtype, target.dtype)
    return to_dtype(input, d), to_dtype(target, d)


# ---------------------------------------------------------------- regression


_squared = stanza(
    lambda input, target: (input - target) * (input - target), name="mse_loss", method=False, shared=False
)
_squared_back = stanza(
    lambda grad, input, target, scale: grad * (2 * scale * (input - target)),
    name="mse_loss_backward",
    method=False,
    shared=False,
)
_mse = _pointwise(
    "MseLoss",
    _squared,
    lambda g, input, target, scale: _squared_back(g, input, target, scale),
    lambda g, input, target, scale: _squared_back(g, target, input, scale),
)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    input, target = _paired(input, target)
    reduction = legacy_reduction(reduction, size_average, reduce)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"mse_cpu\" not implemented for '{input.dtype.scalar_name}'")
    if weight is not None:
        return _weighted(_squared(input, target), weight, reduction)
    return _mse(input, target, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    input, target = _paired(input, target)
    reduction = legacy_reduction(reduction, size_average, reduce)
    loss = e.abs(e.sub(input, target))
    return _reduced(loss, reduction) if weight is None else _weighted(loss, weight, reduction)


_smooth = stanza(
    lambda input, target, beta: p.where(
        p.abs(input - target) < beta,
        0.5 * (input - target) * (input - target) / beta,
        p.abs(input - target) - 0.5 * beta,
    ),
    name="smooth_l1_loss",
    vjp=lambda g, input, target, beta: (
        g * _bounded((input - target) / beta, 1),
        -g * _bounded((input - target) / beta, 1),
        None,
    ),
    settings=("beta",),
    method=False,
    shared=False,
)
_smooth_back = stanza(
    lambda grad, input, target, scale, beta: grad * scale * _bounded((input - target) / beta, 1),
    name="smooth_l1_loss_backward",
    settings=("scale", "beta"),
    method=False,
    shared=False,
)
_huber = stanza(
    lambda input, target, delta: p.where(
        p.abs(input - target) < delta,
        0.5 * (input - target) * (input - target),
        delta * (p.abs(input - target) - 0.5 * delta),
    ),
    name="huber_loss",
    vjp=lambda g, input, target, delta: (
        g * _bounded(input - target, delta),
        -g * _bounded(input - target, delta),
        None,
    ),
    settings=("delta",),
    method=False,
    shared=False,
)
_huber_back = stanza(
    lambda grad, input, target, scale, delta: grad * scale * _bounded(input - target, delta),
    name="huber_loss_backward",
    settings=("scale", "delta"),
    method=False,
    shared=False,
)


def _bounded(x: Any, by: Any) -> Any:
    return p.where(x <= -by, -by, p.where(x >= by, by, x))


_smooth_l1 = _pointwise(
    "SmoothL1Loss",
    _smooth,
    lambda g, input, target, scale, beta: _smooth_back(g, input, target, scale, beta),
    lambda g, input, target, scale, beta: _smooth_back(g, target, input, scale, beta),
)
_huber_of = _pointwise(
    "HuberLoss",
    _huber,
    lambda g, input, target, scale, delta: _huber_back(g, input, target, scale, delta),
    lambda g, input, target, scale, delta: _huber_back(g, target, input, scale, delta),
)


def _no_integers(input: Tensor, kernel: str) -> None:
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{input.dtype.scalar_name}'")


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Half the square of a small difference, the size of a large one."""
    input, target = _paired(input, target)
    reduction = legacy_reduction(reduction, size_average, reduce)
    if beta == 0.0:
        return l1_loss(input, target, reduction=reduction)
    _no_integers(input, "smooth_l1_cpu")
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _smooth_l1(input, target, reduction, beta=float(beta))


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """`smooth_l1_loss` times `delta`."""
    d = input.dtype
    input, target = _paired(input, target)
    if input.dtype is not d and not d.is_floating_point:
        raise RuntimeError(
            f"result type {input.dtype.scalar_name} can't be cast to the desired output type {d.scalar_name}"
        )
    if weight is None:
        legacy_reduction(reduction, None, None)
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _no_integers(input, "huber_cpu")
    if weight is not None:
        if weight.size() != input.size():
            raise ValueError("Weights and input must have the same size.")
        return _reduced(e.mul(_huber(input, target, float(delta)), weight), reduction)
    return to_dtype(_huber_of(input, target, legacy_reduction(reduction, None, None), delta=float(delta)), d)


def _weighted(loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = e.mul(loss, weight)
    return e.div(r.sum(loss), r.sum(weight)) if reduction == "mean" else _reduced(loss, reduction)


# ---------------------------------------------------------------- distributions

_self_information = stanza(
    lambda x: p.where(p.eq(x, 0), 0, x * p.log(x)),
    name="xlogy",
    vjp=lambda g, x: g * (p.log(x) + 1),
    method=False,
    shared=False,
)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """How far the distribution `target` is from the one of which `input` is the logarithm."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(reduction, size_average, reduce)
    elif reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    if not (input.dtype.is_floating_point and target.dtype.is_floating_point):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        loss = e.mul(e.exp(target), e.sub(target, input))
    else:
        loss = e.sub(_self_information(target), e.mul(target, input))
    if reduction == "batchmean":
        return e.div(r.sum(loss), input.shape[0]) if input.ndim else r.sum(loss)
    return _reduced(loss, legacy_reduction(reduction, None, None))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: Any = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Of targets drawn from normal distributions with mean `input` and variance `var`."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = e.mul(ones_like(input), var)
    elif (var._host() < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = unsqueeze(var, -1)  # one variance for all of a sample
        elif not (input.ndim == var.ndim and sum([b for a, b in zip(input.shape, var.shape) if a != b]) == 1):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    # The gradient passes the bound: it is one of values, not of the graph.
    var = e.add(
        var, e.sub(e.clamp(var.detach(), min=eps.detach() if isinstance(eps, Tensor) else eps), var.detach())
    )
    off = e.sub(input, target)
    loss = e.mul(e.add(e.log(var), e.div(e.mul(off, off), var)), 0.5)
    if full:
        loss = e.add(loss, 0.5 * math.log(2 * math.pi))
    return _reduced(loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Of counts drawn from Poisson distributions whose rate (or its logarithm) is `input`."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    if log_input:
        loss = e.sub(e.exp(input), e.mul(target, input))
    else:
        loss = e.sub(input, e.mul(target, e.log(e.add(input, eps))))
    if full:  # Stirling's approximation of log(target!)
        half_log = e.mul(e.log(e.mul(target, 2 * math.pi)), 0.5)
        factorial = e.add(e.sub(e.mul(target, e.log(target)), target), half_log)
        loss = e.add(loss, e.where(e.gt(target, 1), factorial, 0.0))
    return _reduced(loss, reduction)


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


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_untrained("soft_margin_loss", target=target)
    if input.dtype is dtypes.bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
            "`logical_not()` operator instead."
        )
    if not input.dtype.is_floating_point:
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


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, how much it falls short of the margin where that is -1."""
    reduction = legacy_reduction(reduction, size_average, reduce)
    # As in PyTorch, which writes it into a tensor like the input.
    margin = float(margin) if input.dtype.is_floating_point else int(margin)
    short = e.where(e.ne(target, 1), e.clamp_min(e.sub(margin, input), 0), 0)
    return _reduced(e.add(short, e.where(e.ne(target, -1), input, 0)), reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    reduction = legacy_reduction(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    lead = e.mul(e.neg(target), e.sub(input1, input2))
    return _reduced(e.clamp_min(e.add(lead, float(margin)), 0), reduction)


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
    return _reduced(e.mul(_binary(input, target), weight), reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    reduction = legacy_reduction(reduction, size_average, reduce)
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
        values = t._host()
        if not ((values >= 0) & (values <= 1)).all():
            raise RuntimeError(f"all elements of {word} should be between 0 and 1")
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
_logits_pos = stanza(
    lambda input, target, pos: (1 - target) * input - (1 + (pos - 1) * target) * _log_sigmoid(input),
    name="binary_cross_entropy_with_pos_weight",
    node="BinaryCrossEntropyWithLogitsBackward0",
    vjp=lambda g, input, target, pos: (
        g * ((pos * target + 1 - target) * p.sigmoid(input) - pos * target),
        g * ((1 - pos) * _log_sigmoid(input) - input),
        -g * target * _log_sigmoid(input),
    ),
    method=False,
    shared=False,
)
_bce = _pointwise(
    "BinaryCrossEntropyWithLogits",
    _logits,
    lambda g, input, target, scale: _logits_back(g, input, target, scale),
    lambda g, input, scale: e.mul(e.mul(g, -scale), input),
)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    reduction = legacy_reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"log_sigmoid_cpu\" not implemented for '{input.dtype.scalar_name}'")
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {input.dtype.scalar_name} can't be cast to the desired output type {target.dtype.scalar_name}"
        )
    d = dtypes.promote_types(input.dtype, target.dtype)
    input, target = to_dtype(input, d), to_dtype(target, d)
    if weight is None and pos_weight is None:
        return _bce(input, target, reduction)
    check_untrained("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    loss = _logits(input, target) if pos_weight is None else _logits_pos(input, target, pos_weight)
    if weight is not None and layout.broadcast_shapes(loss.shape, weight.shape) != tuple(loss.shape):
        raise RuntimeError(
            f"output with shape {list(loss.shape)} doesn't match the broadcast shape "
            f"{list(layout.broadcast_shapes(loss.shape, weight.shape))}"
        )
    return _reduced(loss if weight is None else e.mul(loss, weight), reduction)


# ---------------------------------------------------------------- many classes


def _class_dim(input: Spec) -> int:
    return 0 if input.ndim == 1 else 1


@settled_by("target", "weight")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    told = size_average is not None or reduce is not None
    reduction = legacy_reduction(reduction, size_average, reduce)
    _tensors("nll_loss_nd", input, target)
    _check_classes(input._spec.plain, target._spec.plain, None if weight is None else weight._spec.plain)
    return _of_classes(
        class_losses.nll if input.ndim <= 2 else class_losses.nll_2d,
        input,
        target,
        weight,
        ignore_index,
        reduction,
        told,
    )


def _of_classes(
    op: Any,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore: int,
    reduction: str,
    at_once: bool = True,
) -> Any:
    """The op for a settled function; its result where that comes to more than one op, or has warned."""
    if input._spec.ndim == 1 and target._spec.ndim:
        target, at_once = reshape(target, ()), True
    if not at_once:
        return call_of(op, input, target, weight, ignore=ignore, reduction=reduction)
    return op(input, target, weight, ignore=ignore, reduction=reduction)[0]


@lru_cache(maxsize=4096)
def _check_classes(input: Spec, target: Spec, weight: Spec | None) -> None:
    """Refuse what does not fit; what does is looked at once."""
    shape, classes = tuple(input.shape), input.shape[_class_dim(input)] if input.ndim else 0
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if len(shape) == 1:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.ndim == 1 and target.shape[0] != 1:
            raise ValueError(
                f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}"
            )
    elif len(shape) == 2:
        if not target.ndim or target.shape[0] != shape[0]:
            have = target.shape[0] if target.ndim else 0
            raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({have}).")
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    elif not target.ndim or target.shape[0] != shape[0]:
        have = target.shape[0] if target.ndim else 0
        raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({have}).")
    elif len(shape) == 4 and target.ndim != 3:
        raise RuntimeError(
            f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}"
        )
    elif len(shape) == 4 and (target.shape[0], *target.shape[1:]) != (shape[0], *shape[2:]):
        raise RuntimeError(f"size mismatch (got input: {list(shape)} , target: {list(target.shape)}")
    elif tuple(target.shape) != (shape[0], *shape[2:]):
        raise RuntimeError(f"Expected target size {[shape[0], *shape[2:]]}, got {list(target.shape)}")
    if len(shape) not in (1, 2, 4) and not input.numel and target.numel:
        folded = [shape[0], 1, target.numel // shape[0]]  # PyTorch makes pixels of any number of dimensions
        raise RuntimeError(f"size mismatch (got input: {[*shape[:2], 0, 0]} , target: {folded}")
    if target.dtype is not dtypes.int64:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}")
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.shape)}"
        )
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{input.dtype.scalar_name}'")
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )


@settled_by("target", "weight")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    told = size_average is not None or reduce is not None
    reduction = legacy_reduction(reduction, size_average, reduce)
    _tensors("cross_entropy_loss", input, target)
    if label_smoothing > 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if input._spec.shape == target._spec.shape:
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    plain = not label_smoothing > 0 and input.dtype.is_floating_point
    if plain:
        _check_classes(input._spec.plain, target._spec.plain, None if weight is None else weight._spec.plain)
    if plain and input.ndim <= 2:
        return _of_classes(class_losses.cross_entropy, input, target, weight, ignore_index, reduction, told)
    dim = _class_dim(input._spec)
    low = softmax.log_softmax(input, dim)
    loss = nll_loss(low, target, weight, ignore_index=ignore_index, reduction=reduction)
    if plain:
        return loss
    classes = input.shape[dim]
    if input.ndim == 1:
        target = reshape(target, ())
    scaled = low if weight is None else e.mul(low, _along(weight, dim, input.ndim))
    counts = e.ne(target, ignore_index)
    smooth = e.where(counts, e.neg(r.sum(scaled, dim)), 0.0)
    if reduction == "mean":
        # What each counts for; weights are not trained, so this is outside the graph.
        each = to_dtype(counts, input.dtype)
        if weight is not None:
            index = reshape(e.where(counts, target, 0), (-1,))
            each = e.mul(each, reshape(at.index_select(weight.detach(), 0, index), target.shape))
        smooth = e.div(r.sum(smooth), r.sum(each))
    else:
        smooth = _reduced(smooth, reduction)
    return e.add(e.mul(loss, 1 - label_smoothing), e.mul(smooth, label_smoothing / classes))


def _along(weight: Tensor, dim: int, ndim: int) -> Tensor:
    return reshape(weight, tuple(-1 if d == dim else 1 for d in range(ndim)))


def _of_probabilities(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {target.dtype.scalar_name}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    dim = _class_dim(input._spec)
    classes = input.shape[dim]
    if label_smoothing > 0:
        target = e.add(e.mul(target, 1 - label_smoothing), label_smoothing / classes)
    product = e.mul(softmax.log_softmax(input, dim), target)
    if weight is not None:
        product = e.mul(product, _along(weight, dim, input.ndim))
    if reduction == "none":
        return e.neg(r.sum(product, dim))
    total = e.neg(r.sum(product))
    return total if reduction == "sum" else e.div(total, input.numel() / classes)


__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
]
