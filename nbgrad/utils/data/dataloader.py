"""Batches of a dataset, in an order that a sampler gives.

Promises users PyTorch's: batches, their order and what workers draw are those that PyTorch gives under the same seed.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from nbgrad.memory import gpu
from nbgrad.ops.make.generator import Generator
from nbgrad.utils.data._fetch import Fetcher, _DatasetKind
from nbgrad.utils.data.collate import default_collate, default_convert
from nbgrad.utils.data.dataset import Dataset, IterableDataset
from nbgrad.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed
from nbgrad.utils.data.worker import Workers, get_worker_info

T_co = TypeVar("T_co", covariant=True)

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _InfiniteConstantSampler:
    """The sampler of a stream, which has no indices."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a dataset: `batch_size` samples each, in order or (`shuffle`) in a new random order at each pass, or as a `sampler`
    or `batch_sampler` says, put together by `collate_fn`. `num_workers` processes load them ahead; `drop_last` leaves out a last
    batch that is not full. With `batch_size=None` samples come as they are.

    >>> for batch in torch.utils.data.DataLoader([1.0, 2.0, 3.0], batch_size=2):
    ...     print(batch)
    tensor([1., 2.], dtype=torch.float64)
    tensor([3.], dtype=torch.float64)
    """

    __initialized = False  # by this name, as classes that put in a sampler of their own say so for a moment

    def __init__(
        self,
        dataset: Dataset[T_co] | Sequence[T_co],
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
        self._dataset_kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
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
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None  # what a stream said its length was
        self._iterator: _BaseDataLoaderIter | None = None  # a pass whose workers stay
        self.__initialized = True
        _check_number(num_workers)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__initialized:
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
            if isinstance(value, str):
                if value not in methods:
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                        f"multiprocessing_context={value!r}"
                    )
                value = multiprocessing.get_context(value)
            if not isinstance(value, BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string specifying the start method, but "
                    f"got multiprocessing_context={value}"
                )
        self._context = value

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are asked for one by one and put together; loaders that ask for a batch at once say otherwise, as PyTorch
        lets them.
        """
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What says which samples come next."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> _BaseDataLoaderIter:
        return (_MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter)(self)

    def __iter__(self) -> Iterator[Any]:
        if not self.persistent_workers:
            return self._get_iterator()
        self._iterator = self._get_iterator() if self._iterator is None else self._iterator.again()
        return self._iterator

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        n = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class _BaseDataLoaderIter:
    """One pass over a loader, or, with workers that stay, one after the other. The loader may be another library's object: what
    is read of it has PyTorch's names."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.fetched, self.told = 0, loader._IterableDataset_len_called
        self.indices = self._indices()
        self.seed = draw_seed(
            loader.generator
        )  # for the workers; PyTorch draws it where there are none as well
        self.pins = loader.pin_memory and gpu.device_count() > 0
        if loader.pin_memory and not self.pins:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
                stacklevel=4,
            )
        how = loader._dataset_kind, loader._auto_collation, loader.collate_fn, loader.drop_last
        self.workers = Workers(loader, how, self.seed) if loader.num_workers else None
        if self.workers is None:
            self.fetcher = Fetcher(loader.dataset, *how)
        else:
            self.workers.begin(self.indices)

    def _indices(self) -> Iterator[Any]:
        return iter(self.loader._index_sampler)

    def again(self) -> _BaseDataLoaderIter:
        """The next pass, by the same workers."""
        assert self.workers is not None
        self.fetched, self.told = 0, self.loader._IterableDataset_len_called
        self.indices = self._indices()
        self.workers.begin(self.indices)
        return self

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.loader._index_sampler)

    def __next__(self) -> Any:
        if self.workers is None:
            batch = self.fetcher(next(self.indices))
        else:
            batch = self._of_workers(self.workers)
        self.fetched += 1
        batch = _pinned(batch) if self.pins else batch
        if (
            self.told is not None
            and self.fetched > self.told
            and self.loader._dataset_kind == _DatasetKind.Iterable
        ):
            warnings.warn(self._too_many(), stacklevel=2)
        return batch

    def _of_workers(self, workers: Workers) -> Any:
        try:
            return workers.next()
        except StopIteration:
            if not self.loader.persistent_workers:
                workers.stop()
            raise

    def _too_many(self) -> str:
        text = (
            f"Length of IterableDataset {self.loader.dataset} was reported to be {self.told}(when accessing len(dataloader)), "
            f"but {self.fetched} samples have been fetched. "
        )
        if self.workers is not None:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset replica "
                "at each worker. Please see https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples."
            )
        return text


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass in the process that asks."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass by workers."""

    @property
    def _workers(self) -> list[Any]:
        """The processes."""
        assert self.workers is not None
        return self.workers.processes


def _pinned(batch: Any) -> Any:
    """The same with its tensors in memory that is locked for copies to a GPU."""
    if hasattr(batch, "pin_memory"):  # a tensor, or what knows its own
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return {key: _pinned(part) for key, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_pinned, batch))
    if isinstance(batch, tuple | list):
        return type(batch)(map(_pinned, batch))
    return batch


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


def _check_number(workers: int) -> None:
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers > there:
        warnings.warn(
            f"This DataLoader will create {workers} worker processes in total. Our suggested max number of worker in current system "
            f"is {there}, which is smaller than what this DataLoader is going to create. Please be aware that excessive worker "
            "creation might get DataLoader running slow or even freeze, lower the worker number to avoid potential "
            "slowness/freeze if necessary.",
            stacklevel=3,
        )


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"sampler": sampler, "batch_sampler": batch_sampler}
    wrong = [(k, v) for k, v in [("shuffle", shuffle or None), *given.items()] if v is not None]
    if wrong:
        name, value = wrong[0]
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
        )


__all__ = ["DataLoader", "get_worker_info"]
