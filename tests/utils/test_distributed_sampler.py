"""`DistributedSampler` gives each process PyTorch's part of a dataset."""

from types import ModuleType

import pytest

import nbgrad
from nbgrad.utils.data import DistributedSampler


@pytest.mark.oracle
@pytest.mark.parametrize("count", [1, 2, 7, 12])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_gets_torchs_part(torch: ModuleType, count: int, drop_last: bool, shuffle: bool) -> None:
    for rank in range(5):
        found = []
        for of in (nbgrad, torch):
            kind = of.utils.data.distributed.DistributedSampler
            sampler = kind(range(count), 5, rank, shuffle=shuffle, seed=3, drop_last=drop_last)
            sampler.set_epoch(2)
            found.append((list(sampler), len(sampler)))
        assert found[0] == found[1]


def test_a_rank_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Invalid rank 3, rank should be in the interval \[0, 2\]"):
        DistributedSampler(range(4), 3, 3)
