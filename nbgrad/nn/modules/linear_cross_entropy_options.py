"""How many rows of a batch a linear map and its cross entropy take at a time."""

from __future__ import annotations

import dataclasses
from typing import Any

from nbgrad.memory import dtypes
from nbgrad.memory.dtypes import dtype

_POLICIES = ("auto", "accurate", "balanced", "compact")
_SUMMED_IN = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """With these, `F.linear_cross_entropy` never holds the scores of a whole batch: it takes `batch_chunk_size` rows at a time, or as many
    as `chunking_method` finds ("aspect_ratio": so that their scores take as much memory as the inputs; "aspect_ratio:2": half of that),
    and has the gradients ready when it returns. They serve one backward, or with `allow_retain_graph` any number. Sums of 16-bit floats
    are taken in `acc_dtype`, float32 unless given; all of PyTorch's `acc_policy` compute alike here, as "accurate" does.

    >>> x, w, target = torch.ones(6, 2), torch.ones(5, 2), torch.arange(6) % 5
    >>> F.linear_cross_entropy(x, w, target, options=nn.LinearCrossEntropyOptions(batch_chunk_size=4))
    tensor(1.6094)
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        method, size = self.chunking_method, self.batch_chunk_size
        if method is not None and method != "auto":
            name, colon, factor = method.partition(":")
            whole = factor.isdigit() and int(factor) > 0 if colon else True
            if name != "aspect_ratio" or not whole:
                raise ValueError(f"invalid chunking_method: {method!r}")
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        self._check_sums(self.acc_dtype)

    @staticmethod
    def _check_sums(d: Any) -> None:
        if d is not None and getattr(d, "name", "") not in _SUMMED_IN:
            raise ValueError(
                f"acc_dtype must be one of {{None, {', '.join([f'torch.{name}' for name in _SUMMED_IN])}}}, got {d!r}. Pass "
                "acc_dtype=None to let the op pick automatically."
            )

    def _rows(self, batch: int, features: int, classes: int, d: dtype) -> int:
        """How many are taken at a time."""
        method, size = self.chunking_method, self.batch_chunk_size
        if method == "auto":
            small = "aspect_ratio" if d.itemsize == 2 else "aspect_ratio:2"
            method = None if size is not None else small
        if method is None:
            return max(1, batch if size is None else min(size, batch))
        target = -(-batch // -(-classes // max(features, 1))) if classes else batch
        found = min((1 << max(target - 1, 0).bit_length()) // int(method.partition(":")[2] or 1), batch)
        if size is not None and min(size, batch) != found:
            raise ValueError(
                f"batch_chunk_size (={size}) and chunking_method ('{method}') give different chunk sizes ({size} vs {found}); pass "
                "only one."
            )
        return max(1, found)

    def _summed_in(self, d: dtype) -> dtype:
        """The dtype of sums of a `d`."""
        self._check_sums(d)
        halves = d.itemsize == 2
        chosen = self.acc_dtype or (dtypes.float32 if halves and self.acc_policy == "auto" else d)
        if chosen is not d and not (halves and chosen is dtypes.float32):
            raise RuntimeError(
                f"linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, but got {chosen} acc_dtype and {d} "
                "inputs."
            )
        return chosen


__all__ = ["LinearCrossEntropyOptions"]
