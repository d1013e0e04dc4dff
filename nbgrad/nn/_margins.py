"""How far vectors lie apart, and losses that ask for a margin between what is right and what is not; names and refusals are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import PLANS, cached
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.history.record import check_untrained
from nbgrad.kernels.cpu import margins as _kernels
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes
from nbgrad.memory.storage import Spec
from nbgrad.nn._losses import _no_integers
from nbgrad.nn._reduction import check_reduction, reduced, reducing
from nbgrad.ops import pointwise as e
from nbgrad.ops.index import gather as at
from nbgrad.ops.linear.distances import cosine_similarity, normalize, pairwise_distance
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.filled import zeros
from nbgrad.ops.order.scan import cumprod
from nbgrad.ops.pointwise.activations import logsigmoid
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze

# ---------------------------------------------------------------- of pairs and triplets


@reducing()
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    reduction: str = "mean",
) -> Tensor:
    """1 less the cosine between two vectors where the target is 1, and `max(0, cosine - margin)` where that is -1. The inputs are
    [batch, features] with targets [batch], or single vectors with a single target.

    >>> a, b = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 1.0], [1.0, 1.0]])
    >>> F.cosine_embedding_loss(a, b, torch.tensor([1, -1]), reduction="none")
    tensor([0.2929, 0.7071])
    """
    check_reduction(reduction)
    ndim = target.ndim
    if ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.ndim != ndim + 1 or input2.ndim != ndim + 1:
        raise RuntimeError(
            f"{ndim}D target tensor expects {ndim + 1}D input tensors, but found inputs with sizes {list(input1.shape)} and "
            f"{list(input2.shape)}."
        )
    sizes = [e.add(r.sum(e.mul(x, x), ndim), 1e-12) for x in (input1, input2)]
    cosine = e.div(r.sum(e.mul(input1, input2), ndim), e.sqrt(e.mul(*sizes)))
    near = e.where(e.eq(target, 1), e.sub(1, cosine), 0.0)
    far = e.where(e.eq(target, -1), e.clamp_min(e.sub(cosine, float(margin)), 0), 0.0)
    return reduced(e.add(near, far), reduction)


@reducing()
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """How much is missing until `negative` lies farther from `anchor` than `positive` does, by `margin`: `max(0, |anchor - positive|
    - |anchor - negative| + margin)`, along the last dimension and by the norm `p`. With `swap` the smaller of the distances from
    `negative` to the other two counts.

    >>> a, b, c = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 5.5]])
    >>> F.triplet_margin_loss(a, b, c)
    tensor(0.5000)
    """
    check_reduction(reduction)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _of_triplets(anchor, positive, negative, distance, float(margin), swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` by any `distance_function(x, y)` of two tensors, without one by `pairwise_distance`.

    >>> a, b, c = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 4.5]])
    >>> F.triplet_margin_with_distance_loss(a, b, c, distance_function=lambda x, y: (x - y).abs().amax(-1))
    tensor(0.5000)
    """
    check_reduction(reduction)
    distance = distance_function or pairwise_distance
    return _of_triplets(anchor, positive, negative, distance, margin, swap, reduction)


def _of_triplets(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
            f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = e.minimum(far, distance(positive, negative))
    return reduced(e.clamp_min(e.sub(e.add(near, margin), far), 0), reduction)


# ---------------------------------------------------------------- of classes


def _rows(input: Tensor) -> Tensor:
    """A row for each example, of which a vector (or a number) is one."""
    if input.ndim > 2 or (input.numel() == 0 and not (input.ndim == 2 and input.shape[1])):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )
    return input if input.ndim == 2 else reshape(input, (1, -1))


def _wide_floats(input: Tensor, kernel: str) -> None:
    """PyTorch's kernels on the CPU know no floats of 16 bits here."""
    _no_integers(input, kernel)
    if input.dtype.narrow and input.is_cpu and input.numel():
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{input.dtype.scalar_name}'")


def _long_needed(target: Tensor) -> None:
    if target.dtype is not dtypes.int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.scalar_name}")


def _short(input: Tensor, index: Tensor, weight: Tensor | None, margin: float) -> tuple[Tensor, Any, Any]:
    """By how much each class comes too near to the right one (0 for that itself); which one that is; the weight of each row."""
    index = unsqueeze(index, 1)
    right = at.scatter(zeros(tuple(input.shape), dtype=dtypes.bool_), 1, index, True)
    short = e.clamp_min(e.add(e.sub(margin, at.gather(input, 1, index)), input), 0)
    weights = None if weight is None else unsqueeze(at.index_select(weight, 0, squeeze(index, 1)), 1)
    return e.where(right, 0.0, short), right, weights


@cached(PLANS)
def _of_rows(
    input: Spec, target: Spec, weight: Spec | None, square: bool, margin: float
) -> Callable[..., Tensor | None] | None:
    """What gives the loss of each row of matrices on the CPU that lie in order; None if a target is no class."""
    given = [input, target, *([] if weight is None else [weight])]
    if not all([type(sp) is Spec and sp.backend is backend.cpu and sp.contiguous for sp in given]):
        return None
    if input.dtype not in (dtypes.float32, dtypes.float64) or not input.numel:
        return None
    (rows, classes), code, told = tuple(input.shape), input.dtype.code, backend.cpu.told
    address = backend.cpu.kernel(f"multi_margin_{code}", *_kernels.one(code)).address
    launch = backend.cpu.launch(5, "qqqd", 1, input.numel < FEW)
    made, numbers = input.like((rows,)), (classes, square, weight is not None, margin)

    def found(t: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor | None:
        losses, (number, seen) = empty(made), told.count
        scale = t if weight is None else weight
        launch(address, rows, t._buf, target._buf, scale._buf, losses._buf, number, *numbers)
        return None if seen[0] else losses

    return found


@cached(PLANS)
def _of_lists(input: Spec, target: Spec) -> Callable[..., Tensor | None] | None:
    """The same of rows that list their right classes up to the first -1."""
    if not all([type(sp) is Spec and sp.backend is backend.cpu and sp.contiguous for sp in (input, target)]):
        return None
    if input.dtype not in (dtypes.float32, dtypes.float64) or not input.numel:
        return None
    (rows, classes), code, told = tuple(input.shape), input.dtype.code, backend.cpu.told
    address = backend.cpu.kernel(f"multilabel_margin_{code}", *_kernels.several(code)).address
    launch, made = backend.cpu.launch(5, "q", 1, input.numel < FEW), input.like((rows,))
    room, allocate = input.numel, backend.cpu.empty

    def found(t: Tensor, target: Tensor) -> Tensor | None:
        losses, (number, seen) = empty(made), told.count
        launch(address, rows, t._buf, target._buf, allocate(room), losses._buf, number, classes)
        return None if seen[0] else losses

    return found


def _multi_margin_rule(
    g: Tensor, input: Tensor, index: Tensor, weight: Tensor | None, p: int, margin: float, reduction: str
) -> Tensor:
    short, right, weights = _short(input, index, weight, margin)
    each = to_dtype(e.gt(short, 0), input.dtype) if p == 1 else e.mul(short, 2)
    if weights is not None:
        each = e.mul(each, weights)
    each = e.mul(each, unsqueeze(g, 1) if reduction == "none" else g)
    each = e.div(each, input.shape[1] * (input.shape[0] if reduction == "mean" else 1))
    return e.sub(each, e.where(right, r.sum(each, 1, True), 0.0))


@differentiable("MultiMarginLoss", unmoved="multi_margin_loss", input=_multi_margin_rule)
def _multi_margin(
    input: Tensor, index: Tensor, weight: Tensor | None, *, p: int, margin: float, reduction: str
) -> Tensor:
    run = _of_rows(input._spec, index._spec, None if weight is None else weight._spec, p == 2, margin)
    losses = None if run is None else run(input, index, weight)
    if losses is not None:
        return reduced(losses, reduction)
    short, _, weights = _short(input, index, weight, margin)
    each = short if p == 1 else e.mul(short, short)
    if weights is not None:
        each = e.mul(each, weights)
    return reduced(e.div(r.sum(each, 1), input.shape[1]), reduction)


def _quick_margin(
    input: Spec, target: Spec, p: Any, margin: Any, weight: Spec | None, reduction: str
) -> Quick | None:
    if input.ndim != 2 or target.ndim != 1 or type(p) is not int or type(margin) not in (int, float):
        return None
    return _then_reduced(_of_rows(input, target, weight, p == 2, float(margin)), reduction)


def _then_reduced(run: Callable[..., Tensor | None] | None, reduction: str) -> Quick | None:
    if run is None or reduction == "none":
        return run

    def found(*tensors: Tensor) -> Tensor | None:
        losses = run(*tensors)
        return None if losses is None else reduced(losses, reduction)

    return found


@reducing()
@quickly(_quick_margin)
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """By how much each other class comes nearer to the right one than the margin: of a row of [batch, classes], the sum over the
    other classes j of `max(0, margin - input[c] + input[j])**p`, over the number of classes, where c is the target and `p` is 1
    or 2. `weight[c]` multiplies it.

    >>> F.multi_margin_loss(torch.tensor([[0.1, 0.2, 0.4]]), torch.tensor([2]))
    tensor(0.5000)
    """
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    rows = _rows(input)
    count, classes = tuple(rows.shape)
    if target.ndim > 1 or target.numel() != count:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). "
            f"Expected target size [{count}], but got {list(target.shape)}. Input has shape {list(input.shape)}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    _wide_floats(input, "multi_margin_loss_cpu_kernel")
    _long_needed(target)
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )
    check_untrained("multi_margin_loss", weight=weight)
    if not r.everywhere(e.logical_and(e.ge(target, 0), e.lt(target, classes))):
        raise RuntimeError("target out of range")
    index = reshape(target, (-1,))
    got: Tensor = _multi_margin(rows, index, weight, p=int(p), margin=float(margin), reduction=reduction)
    return reshape(got, ()) if reduction == "none" and not target.ndim else got


def _missing(input: Tensor, index: Tensor, valid: Tensor, other: Tensor) -> Tensor:
    """For each right class of a row, and each one that is not: by how much less than 1 the first one leads."""
    lead = e.sub(unsqueeze(at.gather(input, 1, index), 2), unsqueeze(input, 1))
    return e.where(
        e.logical_and(unsqueeze(valid, 2), unsqueeze(other, 1)), e.clamp_min(e.sub(1, lead), 0), 0.0
    )


def _multilabel_rule(
    g: Tensor, input: Tensor, index: Tensor, valid: Tensor, other: Tensor, reduction: str
) -> Tensor:
    each = to_dtype(e.gt(_missing(input, index, valid, other), 0), input.dtype)
    each = e.mul(each, reshape(g, (-1, 1, 1)) if reduction == "none" else g)
    each = e.div(each, input.shape[1] * (input.shape[0] if reduction == "mean" else 1))
    return at.scatter_add(r.sum(each, 1), 1, index, e.neg(r.sum(each, 2)))


@differentiable("MultilabelMarginLoss", unmoved="multilabel_margin_loss_forward", input=_multilabel_rule)
def _multilabel_margin(
    input: Tensor, index: Tensor, valid: Tensor, other: Tensor, *, reduction: str
) -> Tensor:
    listed = e.where(valid, index, -1)
    run = _of_lists(input._spec, listed._spec)
    losses = None if run is None else run(input, listed)
    if losses is None:
        losses = e.div(r.sum(_missing(input, index, valid, other), (1, 2)), input.shape[1])
    return reduced(losses, reduction)


def _quick_lists(input: Spec, target: Spec, reduction: str) -> Quick | None:
    return _then_reduced(_of_lists(input, target), reduction) if input.ndim == 2 else None


@reducing()
@quickly(_quick_lists)
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
) -> Tensor:
    """By how much the right classes, which a row of `target` lists up to the first -1, lead the others by less than 1: the sum over
    right classes c and others j of `max(0, 1 - input[c] + input[j])`, over the number of classes. Both tensors are [batch,
    classes] or [classes].

    >>> F.multilabel_margin_loss(torch.tensor([2.0, 0.5, 1.5]), torch.tensor([0, -1, -1]))
    tensor(0.1667)
    """
    check_reduction(reduction)
    rows = _rows(input)
    if target.numel() != input.numel() or target.ndim != input.ndim or target.shape != input.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    _wide_floats(input, "multilabel_margin_loss_forward_out_frame")
    _long_needed(target)
    count, classes = tuple(rows.shape)
    listed = reshape(target, (count, classes))
    if not r.everywhere(e.logical_and(e.ge(listed, -1), e.lt(listed, classes))):
        raise RuntimeError("argument #2 'target' is out of range")
    valid = to_dtype(cumprod(e.ge(listed, 0), 1), dtypes.bool_)
    index = e.where(valid, listed, 0)
    named = e.logical_and(
        unsqueeze(valid, 2), e.eq(unsqueeze(index, 2), arange(classes, device=input.device))
    )
    other = e.logical_not(r.any(named, 1))
    got: Tensor = _multilabel_margin(rows, index, valid, other, reduction=reduction)
    return reshape(got, ()) if reduction == "none" and input.ndim < 2 else got


@reducing()
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The `binary_cross_entropy_with_logits` of each class, as a mean over classes (the last dimension), then over what is left by
    `reduction`. `weight` multiplies the classes.

    >>> F.multilabel_soft_margin_loss(torch.tensor([[2.0, -1.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.2201)
    """
    loss: Any = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    dim = input.ndim - 1
    loss = loss.sum(dim=dim) / input.size(dim)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    return reduced(loss, reduction)


__all__ = [
    "cosine_embedding_loss",
    "cosine_similarity",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "normalize",
    "pairwise_distance",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]
