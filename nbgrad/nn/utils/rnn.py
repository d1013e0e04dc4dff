"""Sequences of different lengths as one tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.memory import dtypes
from nbgrad.ops.host.values import of_array
from nbgrad.ops.index.gather import index_add, index_select, scatter
from nbgrad.ops.index.put import index_copy
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.data import tensor
from nbgrad.ops.make.filled import full
from nbgrad.ops.order.sort import sort
from nbgrad.ops.views.copy import zeros
from nbgrad.ops.views.join import cat, stack
from nbgrad.ops.views.order import transpose
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import narrow


class _Parts(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Parts):
    """Sequences of different lengths without padding: in `data` the first elements of all, then the second ones of those that have
    one, and so on; `batch_sizes` tells how many each step has. Where the sequences had to be sorted, longest first, `sorted_indices`
    and `unsorted_indices` lead there and back. `pack_padded_sequence` and `pack_sequence` make them.

    >>> nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])]).data
    tensor([1, 4, 2, 3])
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They should be "
                "instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with its data in another dtype or on another device; the sequence itself if they are already.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).to(torch.int64).data
        tensor([1, 1])
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if t is None else t.to(data.device) for t in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)

    def pin_memory(self) -> PackedSequence:
        """The same in memory that a GPU can read directly; without a GPU there is none.

        >>> packed = nn.utils.rnn.pack_sequence([torch.ones(2)])
        >>> packed.pin_memory() if torch.cuda.is_available() else packed.data
        tensor([1., 1.])
        """
        indices = [None if t is None else t.pin_memory() for t in self[2:]]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on a GPU.

        >>> packed = nn.utils.rnn.pack_sequence([torch.ones(2)])
        >>> packed.cuda().data.device if torch.cuda.is_available() else packed.data.device
        device(type='cpu')
        """
        return self.to(*args, **({"device": "cuda"} | kwargs))

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on the CPU.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).cpu().data
        tensor([1., 1.])
        """
        return self.to(*args, **({"device": "cpu"} | kwargs))

    def double(self) -> PackedSequence:
        """The same as float64.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).double().data.dtype
        torch.float64
        """
        return self.to(dtype=dtypes.float64)

    def float(self) -> PackedSequence:
        """The same as float32.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).float().data.dtype
        torch.float32
        """
        return self.to(dtype=dtypes.float32)

    def half(self) -> PackedSequence:
        """The same as float16.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).half().data.dtype
        torch.float16
        """
        return self.to(dtype=dtypes.float16)

    def long(self) -> PackedSequence:
        """The same as int64.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).long().data.dtype
        torch.int64
        """
        return self.to(dtype=dtypes.int64)

    def int(self) -> PackedSequence:
        """The same as int32.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).int().data.dtype
        torch.int32
        """
        return self.to(dtype=dtypes.int32)

    def short(self) -> PackedSequence:
        """The same as int16.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).short().data.dtype
        torch.int16
        """
        return self.to(dtype=dtypes.int16)

    def char(self) -> PackedSequence:
        """The same as int8.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).char().data.dtype
        torch.int8
        """
        return self.to(dtype=dtypes.int8)

    def byte(self) -> PackedSequence:
        """The same as uint8.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).byte().data.dtype
        torch.uint8
        """
        return self.to(dtype=dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).is_cuda
        False
        """
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether a GPU can read the data directly.

        >>> nn.utils.rnn.pack_sequence([torch.ones(2)]).is_pinned()
        False
        """
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one.

    >>> nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    places = arange(0, permutation.numel(), device=permutation.device)
    return scatter(zeros(permutation._spec.dense()), 0, permutation, places)


def _rows(sizes: Sequence[int], batch: int) -> np.ndarray[Any, Any]:
    """Where the elements of steps with so many sequences stand, of steps with a whole batch one below the other."""
    return np.concatenate([t * batch + np.arange(n) for t, n in enumerate(sizes)])


def _check_lengths(lengths: Tensor, batch: int) -> list[int]:
    if lengths.ndim != 1 or lengths.dtype is not dtypes.int64:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D {lengths.device.type} "
            f"{lengths.dtype.scalar_name} tensor"
        )
    counts: list[int] = lengths.tolist()
    if len(counts) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={batch})"
        )
    if min(counts) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in pairwise(counts)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to "
            "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability."
        )
    return counts


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """A padded batch, [longest, batch, ...] or with `batch_first` [batch, longest, ...], without its padding. Sequences have these
    `lengths`, which are to decrease unless `enforce_sorted=False` lets them be sorted. The gradient of padding is 0.

    >>> x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]])
    >>> nn.utils.rnn.pack_padded_sequence(x, [3, 1], batch_first=True).data
    tensor([1., 4., 2., 3.])
    """
    counted = (
        lengths.to(dtype=dtypes.int64) if isinstance(lengths, Tensor) else tensor(lengths, dtype=dtypes.int64)
    )
    order = None
    if not enforce_sorted:
        counted, order = sort(counted, 0, True)
        order = order.to(input.device)
        input = index_select(input, 0 if batch_first else 1, order)
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    input = transpose(input, 0, 1) if batch_first or input.ndim < 2 else input  # which refuses a line
    steps, batch, *rest = tuple(input.shape)
    lasting = np.array(_check_lengths(counted, batch))
    sizes = (lasting > np.arange(lasting[0])[:, None]).sum(1).tolist()
    flat = reshape(input, (steps * batch, *rest))
    data = _packed(flat, of_array(_rows(sizes[:steps], batch)).to(input.device))
    return PackedSequence(data, of_array(np.array(sizes)), order, None)


@differentiable(
    "PackPaddedSequence",
    input=lambda g, input_spec, index: index_add(zeros(input_spec.dense()), 0, index, g),
)
def _packed(input: Tensor, index: Tensor) -> Tensor:
    return index_select(input, 0, index)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequences as a padded batch in their first order, filled up with `padding_value` to the longest one's length, or to
    `total_length`; and their lengths.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    data, batch_sizes = sequence.data, sequence.batch_sizes
    steps = batch_sizes.size(0)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    if batch_sizes.ndim != 1 or batch_sizes.dtype is not dtypes.int64:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {batch_sizes.ndim}D {batch_sizes.device.type} "
            f"{batch_sizes.dtype.scalar_name} tensor"
        )
    sizes: list[int] = batch_sizes.tolist()
    batch, rest = sizes[0], tuple(data.shape)[1:]
    for end, n in zip(accumulate(sizes), sizes):
        if end > data.shape[0] or n > batch:
            left = (min(n, data.shape[0] - end + n)) * data[0].numel()
            raise RuntimeError(f"shape '{[1, n, *rest]}' is invalid for input of size {left}")
    made = full((steps * batch, *rest), padding_value, dtype=dtypes.float64, device=data.device).to(
        data.dtype
    )
    padded = index_copy(
        made, 0, of_array(_rows(sizes, batch)).to(data.device), narrow(data, 0, 0, sum(sizes))
    )
    padded = reshape(padded, (steps, batch, *rest))
    lengths = of_array((np.array(sizes)[:, None] > np.arange(batch)).sum(0))
    if batch_first:
        padded = transpose(padded, 0, 1)
    if sequence.unsorted_indices is None:
        return padded, lengths
    back = sequence.unsorted_indices
    return index_select(padded, 0 if batch_first else 1, back), index_select(lengths, 0, back.cpu())


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of different lengths, packed; their lengths are to decrease unless `enforce_sorted=False` lets them be sorted.

    >>> nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).batch_sizes
    tensor([2, 1])
    """
    lengths = [s.size(0) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, as a list.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])])
    >>> nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


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
    longest = max(len(s) for s in listed)

    def filled(s: Any) -> Any:
        if len(s) == longest:
            return s
        length, *rest = s.shape
        fill = full((longest - length, *rest), float(padding_value), dtype=s.dtype)
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


__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]
