"""`torch.utils.data.distributed`: the part of a dataset that falls to one of several processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from nbgrad import distributed
from nbgrad.ops.make.drawn import randperm
from nbgrad.ops.make.generator import Generator
from nbgrad.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`th index from `rank` on, as many for each: some are repeated at the end, or with `drop_last` left out. All
    processes shuffle alike, by `seed` and the epoch that `set_epoch` tells. Which process
    this is, of how many, `torch.distributed` says where it is not given.

    >>> sampler = torch.utils.data.DistributedSampler(range(10), num_replicas=3, rank=1, shuffle=False)
    >>> list(sampler), len(sampler)
    ([1, 4, 7, 0], 4)
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if (num_replicas is None or rank is None) and not distributed.is_available():
            raise RuntimeError("Requires distributed package to be available")
        if num_replicas is None:
            num_replicas = distributed.get_world_size()
        if rank is None:
            rank = distributed.get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.drop_last, self.shuffle, self.seed = drop_last, shuffle, seed
        count = len(dataset)
        if drop_last and count % num_replicas != 0:
            count -= num_replicas  # rounded up, as many as all can have
        self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        indices = list(range(count))
        if self.shuffle:
            indices = randperm(count, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        if not self.drop_last:
            missing = self.total_size - count
            indices += (indices * math.ceil(missing / count))[:missing] if missing else []
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle otherwise from now on."""
        self.epoch = epoch
