"""In which order samples are loaded. The same seed gives PyTorch's order.

Where PyTorch draws from streams that are not documented (`WeightedRandomSampler` without replacement) the distribution is
the same and the order is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.ops.make import generator as _random
from nbgrad.ops.make.generator import Generator

T_co = TypeVar("T_co", covariant=True)


def draw_seed(generator: Generator | None) -> int:
    """What `torch.empty((), dtype=torch.int64).random_()` draws."""
    return int(_random.random(generator or _random.default_generator, 1, dtypes.int64)[0])


def _is_count(n: object) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n > 0


class Sampler(Generic[T_co]):
    """The base of samplers: a subclass has `__iter__`, which gives the indices of one pass over a dataset.

    >>> class Backwards(torch.utils.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> list(torch.utils.data.DataLoader(["a", "b", "c"], sampler=Backwards()))
    [['c'], ['b'], ['a']]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """All indices in their order.

    >>> list(torch.utils.data.SequentialSampler(["a", "b", "c"]))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order: each once before any comes again, or with `replacement`; `num_samples` of them.

    >>> list(torch.utils.data.RandomSampler(["a", "b", "c", "d"]))
    [2, 3, 0, 1]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices a pass gives: as many as there are samples, unless told otherwise.

        >>> torch.utils.data.RandomSampler(["a", "b", "c"]).num_samples
        3
        """
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        gen = self.generator or Generator().manual_seed(draw_seed(None))
        left = self.num_samples
        while left > 0:
            if self.replacement:  # PyTorch draws 32 at a time
                drawn = _random.randint(gen, 0, n, min(32, left)).tolist()
            else:
                drawn = _random.randperm(gen, n).tolist()[:left]
            yield from drawn
            left -= len(drawn)
        if not self.replacement and self.num_samples % n == 0:
            _random.randperm(gen, n)  # PyTorch draws the remainder even where it is none

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some indices in random order.

    >>> list(torch.utils.data.SubsetRandomSampler([3, 5, 7]))
    [7, 3, 5]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        gen = self.generator or _random.default_generator
        return (self.indices[i] for i in _random.randperm(gen, len(self.indices)).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices drawn in proportion to `weights`, with replacement or without.

    >>> list(torch.utils.data.WeightedRandomSampler([0.9, 0.0, 0.1], 6))
    [2, 0, 0, 2, 0, 0]
    """

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not _is_count(num_samples):
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        given = weights.tolist() if isinstance(weights, Tensor) else weights
        self.weights = np.array(given, np.float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        w, n = self.weights, self.num_samples
        _check_weights(w, self.replacement)
        gen = self.generator or _random.default_generator
        if self.replacement:
            cumulative = np.cumsum(w)
            cumulative /= cumulative[-1]
            cumulative[-1] = 1.0
            return iter(np.searchsorted(cumulative, _random.uniform(gen, n, dtypes.float64)).tolist())
        if n > len(w):
            raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        # The n earliest of clocks that run at the rates of the weights.
        with np.errstate(divide="ignore"):
            times = -np.log1p(-_random.uniform(gen, len(w), dtypes.float64)) / w
        return iter(np.argsort(times, kind="stable")[:n].tolist())

    def __len__(self) -> int:
        return self.num_samples


def _check_weights(w: np.ndarray[Any, Any], replacement: bool) -> None:
    finite, positive = bool(np.isfinite(w).all()), bool((w >= 0).all())
    if not replacement and not (finite and positive):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not finite:
        raise RuntimeError(
            "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
        )
    if not positive:
        raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
    if w.sum() <= 0:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices that another sampler gives.

    >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not _is_count(batch_size):
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]
