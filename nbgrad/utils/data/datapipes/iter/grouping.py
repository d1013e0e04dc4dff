"""Pipes that put several of what comes into one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from nbgrad.utils.data._pipes import DataChunk, IterDataPipe, functional_datapipe


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """`batch_size` of what comes at a time; what is left at the end comes, too, unless `drop_last`.

    >>> class Count(torch.utils.data.IterDataPipe):
    ...     def __iter__(self):
    ...         return iter(range(5))
    >>> list(torch.utils.data.datapipes.iter.Batcher(Count(), 2))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, datapipe: IterDataPipe, batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        stream = iter(self.datapipe)
        while batch := list(islice(stream, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self) -> int:
        n = len(self.datapipe)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
