"""Cases of the table, their kernels by our front and by Numba: the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nbgrad.kernels import processor
from tests.cases import CASES, DTYPES

PARTS = 12
SAMPLE = ("softmax", "sum")


def told(compiler: str, cache: Path, how: str, dtypes: str, names: list[str]) -> list[str]:
    command = [sys.executable, "-m", "tests.kernels.bits", how, dtypes, *names]
    env = os.environ | {"NBGRAD_COMPILER": compiler, "NBGRAD_CACHE_DIR": str(cache)}
    if processor.level():  # which Numba would pass by: the order of sums is as wide as vectors
        env |= {"NUMBA_CPU_NAME": processor.LEVEL, "NUMBA_CPU_FEATURES": ""}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.splitlines()


def assert_same(cache: Path, how: str, dtypes: str, names: list[str]) -> None:
    *quick, numba_helped = told("front", cache, how, dtypes, names)
    *reference, numba_did = told("numba", cache, how, dtypes, names)
    assert (numba_helped, numba_did) == ("False", "True")
    assert quick == reference and len(quick) >= len(names)


def test_a_sample_has_the_same_bits(tmp_path: Path) -> None:
    assert_same(tmp_path, "brief", "float32", list(SAMPLE))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_cases_have_the_same_bits(part: int, whole: bool, tmp_path: Path) -> None:
    """With `--whole`, for half an hour; else two cases of each part, in one dtype."""
    names = sorted(CASES)[part::PARTS]
    assert_same(tmp_path, "whole", *((",".join(DTYPES), names) if whole else ("float32", names[:2])))
