"""Batches of a dataset, in an order that a sampler gives.

Samples are read in this process, whatever `num_workers` says: it is accepted, checked and otherwise unused, and so are
the options that go with it (`worker_init_fn` is not called, as there is no worker). Batches and their order are those that
PyTorch gives under the same seed. Tensors that are collated in the default way are read by one gather per batch.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any

import numpy as np

from nbgrad._creation import from_numpy
from nbgrad._random import Generator
from nbgrad._tape.modes import state as modes
from nbgrad.utils.data.collate import default_collate, default_convert
from nbgrad.utils.data.dataset import IterableDataset, Subset, TensorDataset
from nbgrad.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Endless:
    """The sampler of a stream, which has no indices."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader:
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset, self.num_workers = dataset, num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.in_order = worker_init_fn, in_order
        self.multiprocessing_context = multiprocessing_context
        stream = isinstance(dataset, IterableDataset)
        if stream:
            _check_stream(shuffle, sampler, batch_sampler)
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        if sampler is None:
            if stream:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._length_told: int | None = None  # what a stream said its length was
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "_made" in self.__dict__:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: Any) -> None:
        if value is not None:
            if self.num_workers <= 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}"
                )
            methods = multiprocessing.get_all_start_methods()
            if isinstance(value, str) and value not in methods:
                raise ValueError(
                    f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                    f"multiprocessing_context={value!r}"
                )
        self._context = value

    def __iter__(self) -> Iterator[Any]:
        return _Batches(self)

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        n = self._length_told = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class _Batches:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self.batched = loader.batch_sampler is not None
        self.indices = iter(loader.batch_sampler if self.batched else loader.sampler)
        self.stream = iter(loader.dataset) if isinstance(loader.dataset, IterableDataset) else None
        self.gather = _gather(loader) if self.batched else None
        self.fetched, self.told = 0, loader._length_told
        draw_seed(loader.generator)  # for the workers; PyTorch draws it where there are none as well
        if loader.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
                stacklevel=3,
            )

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        loader = self.loader
        return len(loader.batch_sampler if self.batched else loader.sampler)

    def __next__(self) -> Any:
        loader, index = self.loader, next(self.indices)
        if self.gather is not None:
            batch = self.gather(index)
            if batch is not None:
                return batch
        if self.stream is not None:
            batch = self._next_of_stream(None if index is None else len(index))
        elif not self.batched:
            batch = loader.dataset[index]
        elif getattr(loader.dataset, "__getitems__", None):
            batch = loader.dataset.__getitems__(index)
        else:
            batch = [loader.dataset[i] for i in index]
        return loader.collate_fn(batch)

    def _next_of_stream(self, size: int | None) -> Any:
        assert self.stream is not None
        loader = self.loader
        if size is None:
            batch = next(self.stream)
        else:
            batch = list(islice(self.stream, size))
            if not batch or (loader.drop_last and len(batch) < size):
                raise StopIteration
        self.fetched += 1
        if self.told is not None and self.fetched > self.told:
            warnings.warn(
                f"Length of IterableDataset {loader.dataset} was reported to be {self.told}(when accessing "
                f"len(dataloader)), but {self.fetched} samples have been fetched. ",
                stacklevel=3,
            )
        return batch


def _gather(loader: DataLoader) -> Callable[[list[int]], list[Any] | None] | None:
    """How whole batches are read, where they are tensors collated in the default way: what stacking samples would give."""
    dataset: Any = loader.dataset
    at = None
    if type(dataset) is Subset:
        dataset, at = dataset.dataset, dataset.indices
    if type(dataset) is not TensorDataset or loader.collate_fn is not default_collate:
        return None
    tensors = dataset.tensors

    def gather(index: list[int]) -> list[Any] | None:
        index = index if at is None else [at[i] for i in index]
        if any(type(i) is not int for i in index) or (modes.grad and any(t.requires_grad for t in tensors)):
            return None
        places = from_numpy(np.array(index, np.int64))
        return [t[places] for t in tensors]

    return gather


def _check_workers(workers: int, timeout: float, prefetch: int | None, persistent: bool) -> None:
    if workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if workers == 0 and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"sampler": sampler, "batch_sampler": batch_sampler}
    wrong = [(k, v) for k, v in [("shuffle", shuffle or None), *given.items()] if v is not None]
    if wrong:
        name, value = wrong[0]
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
        )


def get_worker_info() -> None:
    """Nothing: samples are read in the process that asks for them."""


__all__ = ["DataLoader", "get_worker_info"]
