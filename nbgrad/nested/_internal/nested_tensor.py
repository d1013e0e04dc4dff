"""The class of nested tensors of layout `torch.jagged`, and what makes one, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nested._tensor import Jagged as NestedTensor
from nbgrad.nested._tensor import jagged_of, jagged_of_parts


def nested_view_from_values_offsets(
    values: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Values that are cut where `offsets` say."""
    return jagged_of(values, offsets, None, ragged_idx)


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """The same with something between parts."""
    return jagged_of(values, offsets, lengths, ragged_idx)


def jagged_from_list(
    tensors: list[Tensor], offsets: Tensor | None, dtype: Any = None, device: Any = None
) -> tuple[Tensor, Tensor]:
    """Parts as one tensor, and its offsets, which may be given."""
    made = jagged_of_parts(tensors)
    if offsets is not None:
        made._offsets = offsets
    return made.to(device=device, dtype=dtype), made._offsets


__all__ = [
    "NestedTensor",
    "jagged_from_list",
    "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]
