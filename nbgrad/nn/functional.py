"""Activations and losses as functions, with PyTorch's names, defaults, warnings and refusals.

A loss that PyTorch records as one node is one node here: its value is an elementwise op and a reduction, and its rule
is an op itself, so that every derivative exists.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from nbgrad import _creation, _dtypes, _layout, _random
from nbgrad._dispatch import differentiable, inplace
from nbgrad._storage import Spec
from nbgrad._tensor import Tensor
from nbgrad.expr import prims as p
from nbgrad.ops import elementwise as e
from nbgrad.ops import index as at
from nbgrad.ops import reduce as r
from nbgrad.ops.copy import to_dtype, zeros
from nbgrad.ops.elementwise import gelu, sigmoid, softplus, tanh
from nbgrad.ops.host import of_array
from nbgrad.ops.linalg import linear
from nbgrad.ops.movement import broadcast_to, reshape, squeeze, unsqueeze
from nbgrad.ops.registry import stanza

# ---------------------------------------------------------------- activations


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return _activated(e.relu, input, inplace)


def relu_(input: Tensor) -> Tensor:
    return _activated(e.relu, input, True)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return _activated(e.silu, input, inplace)


def _activated(function: Any, input: Tensor, where_it_stands: bool) -> Tensor:
    return inplace(function.op, (input,)) if where_it_stands else function(input)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return r.softmax(input, _softmax_dim("softmax", input, dim, _stacklevel), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return r.log_softmax(input, _softmax_dim("log_softmax", input, dim, _stacklevel), dtype)


def _softmax_dim(name: str, input: Tensor, dim: int | None, stacklevel: int) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or not input.numel():
        return input
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {input.dtype.scalar_name}"
        )
    if p == 1:
        noise = _creation.zeros_like(input)
    else:
        kept = of_array(_random.bernoulli(_random.default_generator, 1 - p, input.numel()))
        noise = to_dtype(reshape(kept, input.shape), input.dtype).div_(1 - p)
    return input.mul_(noise) if inplace else e.mul(input, noise)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    if tensor.dtype is not _dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == 0 or (not tensor.numel() and num_classes < 0):
        raise RuntimeError(
            "Can not infer total number of classes from empty tensor."
            if num_classes < 0
            else "num_classes should be positive"
        )
    classes = tensor._host()
    if classes.size and classes.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes < 0:
        num_classes = int(classes.max()) + 1
    elif classes.size and classes.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return to_dtype(e.eq(unsqueeze(tensor, -1), _creation.arange(num_classes)), _dtypes.int64)


# ---------------------------------------------------------------- what losses share


def _reduction(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    if size_average is not None or reduce is not None:
        if reduce is False:
            found = "none"
        else:
            found = "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.",
            stacklevel=4,
        )
        return found
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    return r.mean(loss) if reduction == "mean" else r.sum(loss)


Rule = Callable[..., Tensor]


def _pointwise(node: str, each: Rule, by_input: Rule, by_target: Rule) -> Any:
    """The mean or sum of `each(input, target)` as one node; `by_*(g, input, target, scale)` are its gradients."""

    @differentiable(node, input=by_input, target=by_target)
    def total(input: Tensor, target: Tensor, *, scale: float, reduction: str) -> Tensor:
        return _reduced(each(input, target), reduction)

    def loss(input: Tensor, target: Tensor, reduction: str) -> Tensor:
        if reduction == "none":
            return each(input, target)
        n = input.numel()
        scale = 1 / n if reduction == "mean" and n else 1.0
        return total(input, target, scale=scale, reduction=reduction)

    return loss


def _paired(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in their common shape and dtype."""
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
        shape = _layout.broadcast_shapes(input.shape, target.shape)
        input, target = broadcast_to(input, shape), broadcast_to(target, shape)
    d = _dtypes.promote_types(input.dtype, target.dtype)
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
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _paired(input, target)
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
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _paired(input, target)
    loss = e.abs(e.sub(input, target))
    return _reduced(loss, reduction) if weight is None else _weighted(loss, weight, reduction)


def _weighted(loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = e.mul(loss, weight)
    return e.div(r.sum(loss), r.sum(weight)) if reduction == "mean" else _reduced(loss, reduction)


# ---------------------------------------------------------------- two classes


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
    reduction = _reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"log_sigmoid_cpu\" not implemented for '{input.dtype.scalar_name}'")
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {input.dtype.scalar_name} can't be cast to the desired output type {target.dtype.scalar_name}"
        )
    d = _dtypes.promote_types(input.dtype, target.dtype)
    input, target = to_dtype(input, d), to_dtype(target, d)
    if weight is None and pos_weight is None:
        return _bce(input, target, reduction)
    loss = _logits(input, target) if pos_weight is None else _logits_pos(input, target, pos_weight)
    return _reduced(loss if weight is None else e.mul(loss, weight), reduction)


# ---------------------------------------------------------------- many classes


def _class_dim(input: Tensor) -> int:
    return 0 if input.ndim == 1 else 1


def _nll_back(
    g: Tensor, input_spec: Spec, index: Tensor, weight: Tensor | None, dim: int, reduction: str
) -> Tensor:
    g = e.neg(g)
    if reduction == "mean":
        g = e.div(g, index.numel()) if weight is None else e.div(g, r.sum(weight))
    # What is ignored gets 0, not 0 times the 1/0 of a mean over nothing.
    g = broadcast_to(g, index.shape) if weight is None else e.where(e.ne(weight, 0), e.mul(g, weight), 0.0)
    return at.scatter(zeros(input_spec.dense()), dim, unsqueeze(index, dim), unsqueeze(g, dim))


def _nll_forward(input: Tensor, index: Tensor, weight: Tensor | None, dim: int, reduction: str) -> Tensor:
    loss = e.neg(squeeze(at.gather(input, dim, unsqueeze(index, dim)), dim))
    if weight is None:
        return _reduced(loss, reduction)
    loss = e.mul(loss, weight)
    return e.div(r.sum(loss), r.sum(weight)) if reduction == "mean" else _reduced(loss, reduction)


@differentiable("NllLoss", input=_nll_back)
def _nll(input: Tensor, index: Tensor, weight: Tensor | None, *, dim: int, reduction: str) -> Tensor:
    return _nll_forward(input, index, weight, dim, reduction)


@differentiable("NllLoss2D", input=_nll_back)
def _nll_2d(input: Tensor, index: Tensor, weight: Tensor | None, *, dim: int, reduction: str) -> Tensor:
    return _nll_forward(input, index, weight, dim, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    reduction = _reduction(reduction, size_average, reduce)
    for position, (name, t) in enumerate((("input", input), ("target", target))):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"nll_loss_nd(): argument '{name}' (position {position + 1}) must be Tensor, not {type(t).__name__}"
            )
    target = _check_classes(input, target, weight)
    index, of_each = _places(input.shape[_class_dim(input)], target, weight, ignore_index, input.dtype)
    function = _nll if input.ndim <= 2 else _nll_2d
    return function(input, index, of_each, dim=_class_dim(input), reduction=reduction)


def _check_classes(input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
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
        target = reshape(target, ())
    elif len(shape) == 2:
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if not target.ndim or target.shape[0] != shape[0]:
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
    if target.dtype is not _dtypes.int64:
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
    return target


def _places(
    classes: int, target: Tensor, weight: Tensor | None, ignore_index: int, dtype: _dtypes.dtype
) -> tuple[Tensor, Tensor | None]:
    """Where each sample's class lies, and with which weight it counts; None if all count once."""
    values = target._host()
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    ignored = low <= ignore_index <= high
    if low < 0 or high >= classes:
        outside = ((values < 0) | (values >= classes)) & (values != ignore_index)
        if outside.any():
            raise IndexError(f"Target {values[outside].flat[0]} is out of bounds.")
    if not ignored and weight is None:
        return target, None
    counts = e.ne(target, ignore_index)
    index = e.where(counts, target, 0)
    each = to_dtype(counts, dtype)
    if weight is not None:
        each = e.mul(each, reshape(at.index_select(weight.detach(), 0, reshape(index, (-1,))), index.shape))
    return index, each


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    reduction = _reduction(reduction, size_average, reduce)
    for position, (name, t) in enumerate((("input", input), ("target", target))):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"cross_entropy_loss(): argument '{name}' (position {position + 1}) must be Tensor, not "
                f"{type(t).__name__}"
            )
    if input.size() == target.size():
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    low = r.log_softmax(input, _class_dim(input))
    loss = nll_loss(low, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return loss
    target = _check_classes(input, target, weight)
    dim, classes = _class_dim(input), input.shape[_class_dim(input)]
    _, each = _places(classes, target, weight, ignore_index, input.dtype)
    scaled = low if weight is None else e.mul(low, _along(weight, dim, input.ndim))
    smooth = e.neg(r.sum(scaled, dim))
    counts = e.ne(target, ignore_index)
    smooth = e.where(counts, smooth, 0.0)
    if reduction == "mean":
        smooth = r.mean(smooth) if each is None else e.div(r.sum(smooth), r.sum(each))
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
    dim = _class_dim(input)
    classes = input.shape[dim]
    if label_smoothing > 0:
        target = e.add(e.mul(target, 1 - label_smoothing), label_smoothing / classes)
    product = e.mul(r.log_softmax(input, dim), target)
    if weight is not None:
        product = e.mul(product, _along(weight, dim, input.ndim))
    if reduction == "none":
        return e.neg(r.sum(product, dim))
    total = e.neg(r.sum(product))
    return total if reduction == "sum" else e.div(total, input.numel() / classes)


__all__ = [
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dropout",
    "gelu",
    "l1_loss",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "relu",
    "relu_",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]
