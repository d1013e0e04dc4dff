"""What is loaded: things with `__getitem__` and `__len__`, or things that are iterated over."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, Generic, TypeVar

from nbgrad.core.arguments import guard
from nbgrad.core.tensor import Tensor
from nbgrad.ops.make import drawn
from nbgrad.ops.make import generator as _random

randperm: Any = guard("randperm", drawn.randperm)
T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """The base of datasets that give the sample of an index: a subclass has `__getitem__`, and `__len__`. `+` puts two one after the
    other.

    >>> class Squares(torch.utils.data.Dataset):
    ...     def __getitem__(self, index):
    ...         return index**2
    ...     def __len__(self):
    ...         return 4
    >>> list(torch.utils.data.DataLoader(Squares(), batch_size=4))
    [tensor([0, 1, 4, 9])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """The base of datasets that are streams: a subclass has `__iter__`.

    >>> class Countdown(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> list(torch.utils.data.DataLoader(Countdown(), batch_size=2))
    [tensor([3, 2]), tensor([1])]
    """

    def __add__(self, other: Dataset[Any]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples along the first dimension of tensors, which all have as many: a tuple of one part of each.

    >>> torch.utils.data.TensorDataset(torch.tensor([1.0, 2.0]), torch.tensor([3, 4]))[1]
    (tensor(2.), tensor(4))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """The samples of several datasets at an index, as a tuple or (of named datasets) as a dict.

    >>> torch.utils.data.StackDataset(x=[1, 2], y=[3, 4])[1]
    {'x': 2, 'y': 4}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = kwargs or args
        parts = list(kwargs.values() or args)
        self._length = len(parts[0])
        if any(len(d) != self._length for d in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """The samples at all of these, each dataset being asked once where it has such a method itself."""
        if isinstance(self.datasets, dict):
            columns = [_samples(d, indices) for d in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*[_samples(d, indices) for d in self.datasets]))

    def __len__(self) -> int:
        return self._length


def _samples(dataset: Any, indices: list[Any]) -> Any:
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[i] for i in indices]
    found = dataset.__getitems__(indices)
    if len(found) != len(indices):
        raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(found)}")
    return found


class ConcatDataset(Dataset[Any]):
    """Several datasets, one after the other.

    >>> torch.utils.data.ConcatDataset([[1, 2], [3, 4]])[2]
    3
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """Several streams, one after the other.

    >>> class Twice(torch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1, 1])
    >>> list(torch.utils.data.ChainDataset([Twice(), Twice()]))
    [1, 1, 1, 1]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets: Any = datasets

    def _checked(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield d

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._checked())

    def __len__(self) -> int:
        return sum(len(d) for d in self._checked())


class Subset(Dataset[T_co]):
    """The samples of a dataset at some indices.

    >>> list(torch.utils.data.Subset([10, 11, 12], [2, 0]))
    [12, 10]
    """

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: Any) -> Any:
        return self.dataset[[self.indices[i] for i in idx] if isinstance(idx, list) else self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        at = [self.indices[i] for i in indices]
        whole = getattr(self.dataset, "__getitems__", None)
        return list(whole(at)) if whole is not None else [self.dataset[i] for i in at]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[Any],
    lengths: Sequence[int | float],
    generator: _random.Generator | None = _random.default_generator,
) -> list[Subset[Any]]:
    """Subsets of these lengths, or of these shares, drawn without replacement.

    >>> one, other = torch.utils.data.random_split(range(10), [0.8, 0.2])
    >>> len(one), list(other)
    (8, [6, 2])
    """
    parts: Any = lengths
    if math.isclose(sum(parts), 1) and sum(parts) <= 1:
        for i, share in enumerate(parts):
            if share < 0 or share > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        total = len(dataset)  # type: ignore[arg-type]
        parts = [math.floor(total * share) for share in parts]
        for i in range(total - sum(parts)):  # what rounding left over, one each from the first on
            parts[i % len(parts)] += 1
        for i, n in enumerate(parts):
            if n == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    if sum(parts) != len(dataset):  # type: ignore[arg-type]
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(sum(parts), generator=generator).tolist()
    ends = list(accumulate(parts))
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, parts, strict=True)]


__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]
