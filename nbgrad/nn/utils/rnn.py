"""Sequences of different lengths as one tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.filled import full
from nbgrad.ops.views.join import cat, stack


def pad_sequence(
    sequences: Tensor | Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stacked, each filled up with `padding_value` to the longest one's length: [longest, batch, ...], with `batch_first` [batch,
    longest, ...]. `padding_side` says at which end.

    >>> nn.utils.rnn.pad_sequence([torch.ones(3), torch.ones(1)], batch_first=True)
    tensor([[1., 1., 1.],
            [1., 0., 0.]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    listed = list(sequences)
    check("nn.functional.pad_sequence", (listed, batch_first, padding_value, padding_side), {})
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not listed:
        raise RuntimeError("received an empty list of sequences")
    if not all([s.dim() for s in listed]):
        raise RuntimeError("ArrayRef: invalid slice, N = 1; size = 0")
    longest = max(s.shape[0] for s in listed)

    def filled(s: Any) -> Any:
        fill = full((longest - s.shape[0], *s.shape[1:]), float(padding_value), dtype=s.dtype)
        return cat([s, fill] if padding_side == "right" else [fill, s])

    return stack([filled(s) for s in listed], 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences that were padded, of these lengths, as a list.

    >>> padded = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    >>> nn.utils.rnn.unpad_sequence(padded, torch.tensor([3, 1]), batch_first=True)
    [tensor([1., 1., 1.]), tensor([1.])]
    """
    if not batch_first:
        padded_sequences.transpose_(0, 1)
    places = arange(padded_sequences.shape[1], device=lengths.device)
    return [row[places < n] for row, n in zip(padded_sequences, lengths, strict=True)]


__all__ = ["pad_sequence", "unpad_sequence"]
