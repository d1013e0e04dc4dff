"""How batches are read from a dataset, wherever that happens: in the process that asks for them, or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.ops.make.data import from_numpy
from nbgrad.tape.modes import state as modes
from nbgrad.utils.data.collate import collate_tensor_fn, default_collate, default_collate_fn_map
from nbgrad.utils.data.dataset import Subset, TensorDataset


class _DatasetKind:
    """How a loader's dataset is read: by index, or as a stream."""

    Map = 0
    Iterable = 1


class Fetcher:
    """One pass over a dataset. Called with what a sampler gives, it gives the batch, or raises StopIteration where a stream is at
    its end. Tensors that are collated in the default way are read by one gather per batch."""

    def __init__(
        self, dataset: Any, kind: int, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset, self.batched, self.collate_fn, self.drop_last = dataset, batched, collate_fn, drop_last
        self.stream = iter(dataset) if kind == _DatasetKind.Iterable else None
        self.ended = False
        self.gather = _gather(dataset, collate_fn) if batched else None

    def __call__(self, index: Any) -> Any:
        if self.gather is not None:
            batch = self.gather(index)
            if batch is not None:
                return batch
        if self.stream is not None:
            batch = self._next(len(index) if self.batched else None)
        elif not self.batched:
            batch = self.dataset[index]
        elif getattr(self.dataset, "__getitems__", None):
            batch = self.dataset.__getitems__(index)
        else:
            batch = [self.dataset[i] for i in index]
        return self.collate_fn(batch)

    def _next(self, size: int | None) -> Any:
        assert self.stream is not None
        if self.ended:
            raise StopIteration
        if size is None:
            return next(self.stream)
        batch = list(islice(self.stream, size))
        self.ended = len(batch) < size
        if not batch or (self.drop_last and self.ended):
            raise StopIteration
        return batch


def _gather(dataset: Any, collate_fn: Any) -> Callable[[list[int]], list[Any] | None] | None:
    """How whole batches are read, where they are tensors collated in the default way: what stacking samples would give."""
    at = None
    if type(dataset) is Subset:
        dataset, at = dataset.dataset, dataset.indices
    if type(dataset) is not TensorDataset or collate_fn is not default_collate:
        return None
    if default_collate_fn_map.get(Tensor) is not collate_tensor_fn or any(
        type(t) is not Tensor for t in dataset.tensors
    ):
        return None
    tensors = dataset.tensors

    def gather(index: list[int]) -> list[Any] | None:
        index = index if at is None else [at[i] for i in index]
        if any(type(i) is not int for i in index) or (modes.grad and any(t.requires_grad for t in tensors)):
            return None
        places = from_numpy(np.array(index, np.int64))
        return [t[places] for t in tensors]

    return gather


__all__ = ["Fetcher"]
