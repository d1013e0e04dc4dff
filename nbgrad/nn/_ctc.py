"""The loss of sequences of labels whose steps are not known."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.memory import backend, dtypes
from nbgrad.nn._reduction import check_reduction
from nbgrad.ops import pointwise as e
from nbgrad.ops.host.values import of_array
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.sequence import ctc
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.shape import reshape, unsqueeze

_WHILE = "(while checking arguments for ctc_loss_allocate_outputs)"


def torch_ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """What `F.ctc_loss` computes; `reduction` is 0 for a loss per example, 1 for their mean, 2 for their sum.

    >>> log_probs = torch.zeros(2, 1, 2).log_softmax(2)
    >>> torch.ctc_loss(log_probs, torch.tensor([[1]]), (2,), (1,))
    tensor([0.2877])
    """
    alone = log_probs.ndim != 3
    batch = unsqueeze(log_probs, 1) if alone else log_probs
    losses, lengths = ctc_losses(batch, targets, input_lengths, target_lengths, blank, zero_infinity)
    losses = reshape(losses, ()) if alone else losses
    if reduction == 1:
        counted = to_dtype(e.clamp(reshape(lengths, losses.shape), 1), losses.dtype)
        return r.mean(e.div(losses, counted))
    return r.sum(losses) if reduction == 2 else losses


def ctc_losses(
    log_probs: Tensor, targets: Tensor, inputs: Any, lengths: Any, blank: int, zero_infinity: bool
) -> tuple[Tensor, Tensor]:
    """The loss of each example, and how many labels it has."""
    if not log_probs.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    for t in (log_probs, targets):
        if t.is_meta:
            raise backend.valueless("_ctc_loss.Tensor")
    for name, given in (("input_lengths", inputs), ("target_lengths", lengths)):
        if isinstance(given, Tensor) and given.dtype.is_floating_point:
            raise RuntimeError(f"{name} must be integral")
    if log_probs.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{log_probs.dtype.scalar_name}'")
    if log_probs.ndim != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.ndim}-dimensional tensor for argument #1 'log_probs' {_WHILE}"
        )
    if targets.ndim not in (1, 2):
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument #2 'targets' {_WHILE}"
        )
    steps, batch, classes = tuple(log_probs.shape)
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    counts = _listed(inputs, "input_lengths", batch)
    sizes = _listed(lengths, "target_lengths", batch)
    if max(counts) > steps:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {steps}, but got value {max(counts)} {_WHILE}"
        )
    first = _first(targets, sizes)
    targets = to_dtype(targets, dtypes.int64).to(log_probs.device)
    _check_labels(targets, first, sizes, classes)
    tensors = [of_array(np.array(n, np.int64)).to(log_probs.device) for n in (first, counts, sizes)]
    settings = {"blank": blank, "longest": max(sizes), "zero_infinity": bool(zero_infinity)}
    found: Tensor = ctc.ctc(log_probs, targets, *tensors, **settings)[0]
    return found, tensors[2]


def _listed(given: Any, name: str, batch: int) -> list[int]:
    values: list[int] = (
        reshape(given, (-1,)).tolist() if isinstance(given, Tensor) else [int(n) for n in given]
    )
    if len(values) != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    if min(values) < 0:
        low = next(n for n in values if n < 0)
        raise RuntimeError(f"Expected {name} to have value at least 0, but got value {low} {_WHILE}")
    return values


def _first(targets: Tensor, sizes: list[int]) -> list[int]:
    """Where the labels of each example begin."""
    if targets.ndim == 1:
        total = sum(sizes)
        if targets.shape[0] != total:
            raise RuntimeError(
                f"Expected tensor to have size {total} at dimension 0, but got size {targets.shape[0]} for argument #2 'targets' {_WHILE}"
            )
        first: list[int] = np.cumsum([0, *sizes[:-1]]).tolist()
        return first
    rows, width = tuple(targets.shape)
    if rows != len(sizes):
        raise RuntimeError(
            f"Expected tensor to have size {len(sizes)} at dimension 0, but got size {rows} for argument #2 'targets' {_WHILE}"
        )
    if width < max(sizes):
        raise RuntimeError(
            f"Expected tensor to have size at least {max(sizes)} at dimension 1, but got size {width} for argument #2 'targets' {_WHILE}"
        )
    return [k * width for k in range(rows)]


def _check_labels(targets: Tensor, first: list[int], sizes: list[int], classes: int) -> None:
    """PyTorch reads what is no class where it would lie."""
    values: list[int] = reshape(targets, (-1,)).tolist()
    for begin, size in zip(first, sizes):
        for label in values[begin : begin + size]:
            if not 0 <= label < classes:
                raise RuntimeError(f"ctc_loss: Expected labels of 0 to {classes - 1}, but got {label}")


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """How unlikely sequences of labels are where it is not known at which steps they stand: the negative logarithm of the sum over all
    ways of spreading them over `input_lengths` steps, with the class `blank` between. `log_probs` are [steps, batch, classes] or
    [steps, classes], `targets` [batch, longest], or one line of all labels, of which each example has `target_lengths`. The mean is of
    losses per label. The gradient takes `log_probs` for what `log_softmax` gives. `zero_infinity` makes losses 0 that nothing can lead to.

    >>> log_probs = torch.zeros(2, 1, 2).log_softmax(2)  # "1-", "-1" and "11" of four
    >>> F.ctc_loss(log_probs, torch.tensor([[1]]), (2,), (1,)).exp()
    tensor(1.3333)
    """
    how = ("none", "mean", "sum").index(check_reduction(reduction))
    return torch_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)


__all__ = ["ctc_loss"]
