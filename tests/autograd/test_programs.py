"""Random programs of arithmetic, views and writes do in nbgrad what they do in torch, refusals and second order included."""

from types import ModuleType

import pytest

from tests.autograd.programs import agree, play
from tests.support import T


@pytest.mark.oracle
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("second", [False, True], ids=["first order", "second order"])
def test_programs_agree(torch: ModuleType, block: int, second: bool) -> None:
    for seed in range(30 * block, 30 * block + 30):
        got, want = play(T, seed, second), play(torch, seed, second)
        assert agree(got, want), (
            seed,
            [(g, w) for g, w in zip(got, want, strict=False) if not agree(g, w)][:1],
        )
