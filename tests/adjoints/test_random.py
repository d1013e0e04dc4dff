"""Random programs: the adjoint against the tangent and both against differences."""

import signal
from collections import Counter

import pytest

from tests.adjoints.random_programs import Case, late

FEW = 40


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    found = Counter(
        Case(seed).check(second=seed % 20 == 0) for seed in range(part * FEW // 4, (part + 1) * FEW // 4)
    )
    assert found["ok"] >= FEW // 8


@pytest.mark.slow
def test_random_programs_compiled() -> None:
    assert {Case(seed).check(compiled=True, second=True) for seed in range(1000, 1006)} <= {
        "ok",
        "large",
        "kink",
    }


@pytest.mark.slow
def test_many_random_programs(whole: bool) -> None:
    """`--whole`: 2,000, every tenth to second order, every fortieth compiled."""
    before = signal.signal(signal.SIGALRM, late)
    found: Counter[str] = Counter()
    try:
        for seed in range(2000, 4000 if whole else 2040):
            signal.alarm(300)
            found[Case(seed).check(compiled=seed % 40 == 0, second=seed % 10 == 0)] += 1
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert found["ok"] > 0.9 * found.total(), found
