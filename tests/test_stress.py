"""A few of the random combinations; `python -m tests.stress` runs as many as are wanted."""

from types import ModuleType

import pytest

from tests import stress

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("first", range(0, 300, 60))
def test_combinations(torch: ModuleType, first: int) -> None:
    counts, differences = stress.run(torch, 0, first, 60)
    assert not differences, "\n\n".join(differences)
    assert counts["gradient"] >= 10 and counts["value"] >= 20, counts  # and are not refusals only


def test_a_combination_comes_from_its_number() -> None:
    one, same, other = stress.draw(3, 17), stress.draw(3, 17), stress.draw(3, 18)
    assert one.label == same.label != other.label
    assert all((a == b).all() for a, b in zip(one.arrays, same.arrays, strict=True))


def test_an_altered_result_is_seen(torch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that finds nothing would pass everything."""
    number = next(
        n for n in range(20000) if stress.draw(0, n).case.name == "exp" and stress.draw(0, n).arrays[0].size
    )
    combination = stress.draw(0, number)
    right = combination.run
    monkeypatch.setattr(
        stress.Combination,
        "run",
        lambda self, T, exact=False: right(T, exact) + (1e-3 if T is stress.T else 0),
    )
    assert stress.run(torch, 0, number, 1)[1]
