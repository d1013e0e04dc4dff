"""Random programs do in nbgrad what they do in torch, refusals, layouts and histories included."""

from types import ModuleType

import pytest

from tests.programs import cut, differing
from tests.support import T


@pytest.mark.oracle
@pytest.mark.parametrize("block", range(10))
def test_programs_agree(torch: ModuleType, block: int) -> None:
    """`python -m tests.programs --programs 10000` runs more of them."""
    found = differing(30 * block, 30 * block + 30, T, torch)
    assert not found, "\n".join(found)


@pytest.mark.oracle
def test_an_altered_function_is_seen(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that finds nothing would pass everything."""
    right = T.Tensor.contiguous
    monkeypatch.setattr(T.Tensor, "contiguous", lambda self: right(self) * 1)
    found = differing(0, 60, T, torch)
    assert found and all(".contiguous()" in text for text in found)


def test_a_program_is_cut_to_what_it_takes() -> None:
    statements = list("abcdefg")
    assert cut(statements, lambda less: {"b", "f"} <= set(less)) == ["b", "f"]
