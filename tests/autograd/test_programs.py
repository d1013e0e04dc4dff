"""Random programs of arithmetic, views and writes do in nbgrad what they do in torch, refusals and second order included."""

from types import ModuleType

import pytest

from tests.autograd.programs import differing
from tests.support import T


@pytest.mark.oracle
@pytest.mark.parametrize("block", range(10))
def test_programs_agree(torch: ModuleType, block: int) -> None:
    """`python -m tests.autograd.programs --seeds 10000` runs more of them: twenty thousand in a minute."""
    assert not differing(30 * block, 30 * block + 30, T, torch)
