"""Losses over many classes."""

from __future__ import annotations

from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.prepared import call_of, settled_by
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec
from nbgrad.nn._reduction import check_reduction, reduced, told
from nbgrad.ops import pointwise as e
from nbgrad.ops.index import gather as at
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.rows import classes as class_losses
from nbgrad.ops.rows import softmax
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.shape import reshape


def _tensors(function: str, input: Any, target: Any) -> None:
    if isinstance(input, Tensor) and isinstance(target, Tensor):
        return
    name, position, t = ("target", 2, target) if isinstance(input, Tensor) else ("input", 1, input)
    raise TypeError(
        f"{function}(): argument '{name}' (position {position}) must be Tensor, not {type(t).__name__}"
    )


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
    """Minus the log-probability of the right class: `-weight[c] * input[n, c]`, where `c = target[n]`. Classes lie along dimension 1
    of `input` (along the only one, if it has one), and `target` has the other dimensions. Rows whose target is `ignore_index`
    count nothing; the mean is over the weights of the others. The gradient is `-weight[c]` at the right class, 0 elsewhere.

    >>> logp = torch.tensor([[0.2, 0.8], [0.5, 0.5]]).log()
    >>> F.nll_loss(logp, torch.tensor([1, 0]), reduction="none")
    tensor([0.2231, 0.6931])
    """
    older = size_average is not None or reduce is not None
    reduction = told(size_average, reduce) if older else check_reduction(reduction)
    _tensors("nll_loss_nd", input, target)
    _check_classes(input._spec.plain, target._spec.plain, None if weight is None else weight._spec.plain)
    return _of_classes(
        class_losses.nll if input.ndim <= 2 else class_losses.nll_2d,
        input,
        target,
        weight,
        ignore_index,
        reduction,
        older,
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
    if target._spec.dtype is not dtypes.int64:
        target, at_once = to_dtype(target, dtypes.int64), True
    if input._spec.ndim == 1 and target._spec.ndim:
        target, at_once = reshape(target, ()), True
    if not at_once:
        return call_of(op, input, target, weight, ignore=ignore, reduction=reduction)
    return op(input, target, weight, ignore=ignore, reduction=reduction)[0]


@cached(4096)
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
    if target.dtype is dtypes.uint8 and len(shape) > 2:
        raise RuntimeError("expected scalar type Long but found Byte")
    if target.dtype not in (dtypes.int64, dtypes.uint8):
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
    """`nll_loss` of the `log_softmax` of `input`, whose classes lie along dimension 1: for each row the logarithm of the sum of
    `exp(input)` less the input at the right class. A `target` of the input's shape holds the probabilities of the classes instead
    of their numbers. `label_smoothing` gives that share of the target to all classes alike. The gradient is `softmax(input) -
    onehot(target)`, over the number of rows for the mean.

    >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0]], requires_grad=True)
    >>> F.cross_entropy(x, torch.tensor([1, 0]), reduction="sum").backward()
    >>> x.grad
    tensor([[ 0.5000, -0.5000],
            [-0.1192,  0.1192]])
    """
    older = size_average is not None or reduce is not None
    reduction = told(size_average, reduce) if older else check_reduction(reduction)
    _tensors("cross_entropy_loss", input, target)
    if label_smoothing > 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if input._spec.shape == target._spec.shape:
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    plain = not label_smoothing > 0 and input.dtype.is_floating_point
    if plain:
        _check_classes(input._spec.plain, target._spec.plain, None if weight is None else weight._spec.plain)
    if plain and input.ndim <= 2:
        return _of_classes(class_losses.cross_entropy, input, target, weight, ignore_index, reduction, older)
    dim = _class_dim(input._spec)
    low = softmax.log_softmax(input, dim)
    loss = nll_loss(low, target, weight, ignore_index=ignore_index, reduction=reduction)
    if plain:
        return loss
    classes = input.shape[dim]
    target = to_dtype(target, dtypes.int64)
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
        smooth = reduced(smooth, reduction)
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
        target = e.add(e.mul(target, 1 - label_smoothing), label_smoothing / max(classes, 1))
    product = e.mul(softmax.log_softmax(input, dim), target)
    if weight is not None:
        product = e.mul(product, _along(weight, dim, input.ndim))
    if reduction == "none":
        return e.neg(r.sum(product, dim))
    total = e.neg(r.sum(product))
    return total if reduction == "sum" else e.div(total, input.numel() / classes if classes else 0.0)


__all__ = ["cross_entropy", "nll_loss"]
