"""Every case of the table, compiled: bits, gradients, errors, counts of writes and the random stream are those of eager calls."""

from __future__ import annotations

import zlib

import pytest

from tests.cases import CASES
from tests.compiled.cases import CALLS, SAMPLES, difference, kind_of

FEW = [c for c in CASES.values() if zlib.crc32(c.name.encode()) % 16 == 3]
REST = [c for c in CASES.values() if c not in FEW]
FIRST = {"shapes": 1, "calls": CALLS}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [c.name for c in FEW])
def test_a_compiled_case(name: str) -> None:
    wrong, _ = difference(CASES[name], kind_of(CASES[name]), False, **FIRST)
    assert not wrong


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(16))
def test_compiled_cases(part: int, whole: bool) -> None:
    """Of the others every sixth in its first shape; with --whole all, in three."""
    cases = REST[part::16] if whole else REST[part::96]
    sizes = {"shapes": SAMPLES if whole else 1, "calls": CALLS}
    assert not [text for c in cases if (text := difference(c, kind_of(c), False, **sizes)[0])]


def test_cases_become_programs() -> None:
    """That they agree would say nothing of functions that were left to Python."""
    for name in ("exp", "add", "softmax", "sum", "matmul"):
        wrong, made = difference(CASES[name], "float32", False, **FIRST)
        assert not wrong and made == 2, name  # without a history and with one
