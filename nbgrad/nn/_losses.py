"""Losses as functions, with PyTorch's names, defaults, warnings and refusals.

A loss that PyTorch records as one node is one node here: its value is an elementwise op and a reduction, or a program over rows,
and its rule is an op itself, so that every derivative exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.refusals import SIZES_DIFFER
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.stanza import stanza
from nbgrad.expr import prims as p
from nbgrad.memory import dtypes, layout
from nbgrad.nn._reduction import check_reduction, reduced, reducing, told
from nbgrad.ops import pointwise as e
from nbgrad.ops.make.filled import ones_like
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.shape import broadcast_to, unsqueeze

# ---------------------------------------------------------------- what losses share

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
        return reduced(each(input, target, *numbers.values()), reduction)

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
        # Where that fails the judge of calls warns.
        shape = layout.broadcast_shapes(input.shape, target.shape)
        warn(SIZES_DIFFER.format(target.size(), input.size()))
        input, target = broadcast_to(input, shape), broadcast_to(target, shape)
    d = dtypes.promote_types(input.dtype, target.dtype)
    return to_dtype(input, d), to_dtype(target, d)


def _no_integers(input: Tensor, kernel: str) -> None:
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{input.dtype.scalar_name}'")


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


@reducing()
def mse_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squares of `input - target`, their mean by default; `reduction="sum"` adds them, `"none"` keeps them. The gradient is `2 *
    (input - target)`, over the number of elements for the mean. With `weight`, of the input's size, the mean is a weighted one.

    >>> x = torch.tensor([1.0, 4.0], requires_grad=True)
    >>> F.mse_loss(x, torch.tensor([0.0, 1.0])).backward()
    >>> x.grad
    tensor([1., 3.])
    """
    input, target = _paired(input, target)
    check_reduction(reduction)
    _no_integers(input, "mse_cpu")
    if weight is not None:
        return _weighted(_squared(input, target), weight, reduction)
    return _mse(input, target, reduction)


@reducing()
def l1_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute values of `input - target`, their mean by default (`reduction`: "mean", "sum" or "none"). The gradient is the
    sign of the difference, 0 where there is none, over the number of elements for the mean. With `weight`, of the input's size,
    the mean is a weighted one.

    >>> F.l1_loss(torch.tensor([1.0, 4.0]), torch.tensor([0.0, 1.0]))
    tensor(2.)
    >>> F.l1_loss(torch.tensor([1.0, 4.0]), torch.tensor([0.0, 1.0]), reduction="none")
    tensor([1., 3.])
    """
    input, target = _paired(input, target)
    check_reduction(reduction)
    loss = e.abs(e.sub(input, target))
    return reduced(loss, reduction) if weight is None else _weighted(loss, weight, reduction)


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


@reducing()
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Half the square of a small difference, the size of a large one: with `d = input - target`, `d**2 / (2 * beta)` where `|d| <
    beta`, else `|d| - beta / 2`. The gradient is `d / beta`, kept between -1 and 1. With `beta=0` it is `l1_loss`.

    >>> F.smooth_l1_loss(torch.tensor([0.5, 4.0]), torch.zeros(2), reduction="none")
    tensor([0.1250, 3.5000])
    """
    input, target = _paired(input, target)
    check_reduction(reduction)
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
    """`smooth_l1_loss` times `delta`: with `d = input - target`, `d**2 / 2` where `|d| < delta`, else `delta * (|d| - delta / 2)`.
    The gradient is `d`, kept between `-delta` and `delta`.

    >>> x = torch.tensor([0.5, 4.0], requires_grad=True)
    >>> F.huber_loss(x, torch.zeros(2), reduction="sum", delta=2.0).backward()
    >>> x.grad
    tensor([0.5000, 2.0000])
    """
    d = input.dtype
    input, target = _paired(input, target)
    if weight is None:
        check_reduction(reduction)
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if input.dtype is not d and not d.is_floating_point:
        raise RuntimeError(
            f"result type {input.dtype.scalar_name} can't be cast to the desired output type {d.scalar_name}"
        )
    _no_integers(input, "huber_cpu")
    if weight is not None:
        if weight.size() != input.size():
            raise ValueError("Weights and input must have the same size.")
        return reduced(e.mul(_huber(input, target, float(delta)), weight), reduction)
    return to_dtype(_huber_of(input, target, reduction, delta=float(delta)), d)


def _weighted(loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = e.mul(loss, weight)
    return e.div(r.sum(loss), r.sum(weight)) if reduction == "mean" else reduced(loss, reduction)


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
    """How far the distribution `target` is from the one of which `input` is the logarithm: `target * (log(target) - input)`, 0 where
    the target is 0. With `log_target` the target is a logarithm too. `reduction="batchmean"`, the sum over the length of the
    first dimension, is what the definition asks for; "mean" (the default) is over all elements.

    >>> guess, truth = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.25, 0.75]])
    >>> F.kl_div(guess.log(), truth, reduction="batchmean")
    tensor(0.1308)
    """
    if size_average is not None or reduce is not None:
        reduction = told(size_average, reduce)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release."
        )
    if input.is_complex() or target.is_complex():
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if not (input.dtype.is_floating_point and target.dtype.is_floating_point):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        loss = e.mul(e.exp(target), e.sub(target, input))
    else:
        loss = e.sub(_self_information(target), e.mul(target, input))
    if reduction == "batchmean":
        return e.div(r.sum(loss), input.shape[0]) if input.ndim else r.sum(loss)
    return reduced(loss, check_reduction(reduction))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: Any = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of targets drawn from normal distributions with mean `input` and variance `var`: `(log(var) +
    (input - target)**2 / var) / 2`, with `full` also the constant `log(2 * pi) / 2`. `var` has the input's shape, or one value
    for each of its rows, or is a number; it counts as at least `eps`.

    >>> F.gaussian_nll_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]), torch.tensor([1.0, 2.0]), reduction="none")
    tensor([0.0000, 1.3466])
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = e.mul(ones_like(input), var)
    elif not r.everywhere(e.logical_not(e.lt(var, 0))):
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
    return reduced(loss, reduction)


@reducing("eps")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of counts drawn from Poisson distributions: `exp(input) - target * input` where `input` is the
    logarithm of the rate, with `log_input=False` `input - target * log(input + eps)`. `full` adds an approximation of
    `log(target!)` where the target is above 1.

    >>> F.poisson_nll_loss(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]), reduction="none")
    tensor([ 1.0000, -0.2817])
    """
    check_reduction(reduction)
    if log_input:
        loss = e.sub(e.exp(input), e.mul(target, input))
    else:
        loss = e.sub(input, e.mul(target, e.log(e.add(input, eps))))
    if full:  # Stirling's approximation of log(target!)
        half_log = e.mul(e.log(e.mul(target, 2 * math.pi)), 0.5)
        factorial = e.add(e.sub(e.mul(target, e.log(target)), target), half_log)
        loss = e.add(loss, e.where(e.gt(target, 1), factorial, 0.0))
    return reduced(loss, reduction)


__all__ = [
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]
