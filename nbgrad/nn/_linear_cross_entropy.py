"""The cross entropy of a linear map, some rows of the batch at a time: the scores of all are never there at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nbgrad.autograd._run import grad
from nbgrad.autograd.function import Function, once_differentiable
from nbgrad.autograd.grad_mode import enable_grad
from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import dtype, int64
from nbgrad.nn._losses_of_many import cross_entropy
from nbgrad.ops.linear.matmul import linear
from nbgrad.ops.make.filled import zeros_like
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze


class Rows:
    """What a loss is made of, and how many rows are taken at a time."""

    def __init__(
        self, target: Tensor, weight: Tensor | None, ignored: int, reduction: str, size: int, d: dtype
    ) -> None:
        self.target, self.weight, self.ignored, self.reduction = target, weight, ignored, reduction
        self.size, self.dtype = size, d

    def losses(self, input: Tensor, maps: Sequence[Tensor]) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Of each part its place, its inputs, and its losses, summed unless each is asked for."""
        each = "none" if self.reduction == "none" else "sum"
        weight = None if self.weight is None else self.weight.to(self.dtype)
        for start in range(0, input.shape[0], self.size):
            at = slice(start, start + self.size)
            x = input[at].detach().to(self.dtype).requires_grad_()
            scores = linear(x, *maps)
            yield (
                at,
                x,
                cross_entropy(scores, self.target[at], weight, ignore_index=self.ignored, reduction=each),
            )

    def share(self) -> Any:
        """By what a sum of losses is divided."""
        if self.reduction != "mean":
            return 1.0
        counted = self.target != self.ignored
        if self.weight is None:
            return counted.sum()
        return self.weight.to(self.dtype)[self.target[counted]].sum()


def _gradients(input: Tensor, maps: Sequence[Tensor], rows: Rows, by: Tensor | None) -> Any:
    """The losses, and the gradients of the input and of the linear map where the losses get `by` (None: one for all)."""
    found = zeros_like(input)
    own = [m.detach().to(rows.dtype).requires_grad_() for m in maps]
    sums = [zeros_like(m) for m in own]
    share: Any = rows.share()
    total: Any = 0.0
    with enable_grad():
        for at, x, loss in rows.losses(input, own):
            by_x, *by_maps = grad(loss, [x, *own], None if by is None else by[at].to(rows.dtype))
            found[at] = by_x / share
            for s, g in zip(sums, by_maps):
                s.add_(g)
            total = total + loss.detach().sum()
    return total / share, found, [(s / share).to(m.dtype) for s, m in zip(sums, maps)]


class LinearCrossEntropyBatchChunked(Function):
    """Of one loss: gradients are found on the way, so that scores need not be found twice."""

    @staticmethod
    def forward(ctx: Any, rows: Rows, retain: bool, input: Tensor, *maps: Tensor) -> Tensor:
        total, *ctx.found = _gradients(input, maps, rows, None)
        ctx.retain = retain
        return total.to(input.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        if ctx.found is None:
            raise RuntimeError(
                "linear_cross_entropy chunked backward called twice; retain_graph=True / double backward are not supported."
            )
        by_input, by_maps = ctx.found
        ctx.found = ctx.found if ctx.retain else None
        return None, None, by_input * g, *[m * g for m in by_maps]


class LinearCrossEntropyBatchChunkedNoReduction(Function):
    """Of a loss for each row: what they get is known in backward only."""

    @staticmethod
    def forward(ctx: Any, rows: Rows, input: Tensor, *maps: Tensor) -> Tensor:
        ctx.rows = rows
        ctx.save_for_backward(input, *maps)
        found = zeros_like(input[:, 0])
        for at, _, loss in rows.losses(input, [m.to(rows.dtype) for m in maps]):
            found[at] = loss
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        input, *maps = ctx.saved_tensors
        _, by_input, by_maps = _gradients(input, maps, ctx.rows, g)
        return None, by_input, *by_maps


def _by_parts(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignored: int,
    options: Any,
) -> Tensor:
    alone = input.dim() == 1
    if alone:
        input, target = unsqueeze(input, 0), unsqueeze(target, 0)
    maps = [linear_weight] if linear_bias is None else [linear_weight, linear_bias]
    for m in maps:
        if m.dtype is not input.dtype:
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {input.dtype.c_name} != {m.dtype.c_name}"
            )
    if tuple(target.shape) != tuple(input.shape[:1]):
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
        )
    d = options._summed_in(input.dtype)
    size = options._rows(*tuple(input.shape), linear_weight.shape[0], input.dtype)
    rows = Rows(target, weight, ignored, reduction, size, d)
    found: Tensor
    if reduction == "none":
        found = LinearCrossEntropyBatchChunkedNoReduction.apply(rows, input, *maps)
    else:
        found = LinearCrossEntropyBatchChunked.apply(rows, options.allow_retain_graph, input, *maps)
    return squeeze(found, 0) if alone else found


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """The `cross_entropy` of `linear(input, linear_weight, linear_bias)`: inputs are [batch, in_features] or [in_features], weights
    [classes, ..., in_features]. What stands between the two makes dimensions of their own of the scores, behind the classes. With
    `options`, an `nn.LinearCrossEntropyOptions`, scores are there for some rows at a time.

    >>> F.linear_cross_entropy(torch.tensor([[1.0, 0.0]]), torch.eye(2), torch.tensor([0]))
    tensor(0.3133)
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    features, (*scores, own) = input.shape[-1], tuple(linear_weight.shape)
    if features != own:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {own}, respectively"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != tuple(scores):
        raise RuntimeError(f"expected linear_bias shape {tuple(scores)}, got {tuple(linear_bias.shape)}")
    if len(scores) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, (N, {features}), "
            f"got unbatched input with shape {tuple(input.shape)}"
        )
    shape = (*tuple(input.shape)[:-1], *scores)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        usual = reduction in ("mean", "sum", "none") and label_smoothing == 0.0 and target.dtype is int64
        if usual and len(scores) == 1:
            return _by_parts(input, linear_weight, target, linear_bias, weight, reduction, ignored, options)
        warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {'mean','sum','none'}, label_smoothing == 0, "
            f"target.dtype == int64, out_features == (). Got reduction={reduction!r}, label_smoothing={label_smoothing}, "
            f"target.dtype={target.dtype}, out_features={tuple(scores[1:])}, tracing=False, linear_bias.shape="
            f"{None if linear_bias is None else tuple(linear_bias.shape)}."
        )
    rows = reshape(linear_weight, (-1, features))
    made = linear(input, rows, None if linear_bias is None else reshape(linear_bias, (-1,)))
    return cross_entropy(
        reshape(made, shape),
        target,
        weight,
        ignore_index=ignored,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


__all__ = ["linear_cross_entropy"]
