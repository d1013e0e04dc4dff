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


def told(cache: Path, how: str, dtypes: str, names: list[str], **settings: str) -> list[str]:
    command = [sys.executable, "-m", "tests.kernels.bits", how, dtypes, *names]
    env = os.environ | settings | {"NBGRAD_CACHE_DIR": str(cache)}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.splitlines()


def assert_same(cache: Path, how: str, dtypes: str, names: list[str]) -> None:
    *quick, numba_helped = told(cache, how, dtypes, names, NBGRAD_COMPILER="front")
    *reference, numba_did = told(cache, how, dtypes, names, NBGRAD_COMPILER="numba")
    assert (numba_helped, numba_did) == ("False", "True")
    assert quick == reference and len(quick) >= len(names)


def test_a_sample_has_the_same_bits(tmp_path: Path) -> None:
    assert_same(tmp_path, "brief", "float32", list(SAMPLE))


WIDER = ("gelu", "softmax")  # the one computed, so with the machine's vectors, the other gathered too
wider = pytest.mark.skipif(not processor.beyond(), reason="no vectors beyond the level's")


@wider
def test_wider_vectors_have_the_same_bits(tmp_path: Path) -> None:
    assert_as_wide(tmp_path, "float32", list(WIDER))


def assert_as_wide(cache: Path, dtypes: str, names: list[str]) -> None:
    narrow = told(cache, "whole", dtypes, names, NBGRAD_CPU=processor.LEVEL)
    assert narrow == told(cache, "whole", dtypes, names, NBGRAD_CPU="") and len(narrow) > len(names)


@wider
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_cases_have_the_same_bits_on_wider_vectors(part: int, whole: bool, tmp_path: Path) -> None:
    names = sorted(CASES)[part::PARTS]
    assert_as_wide(tmp_path, "float32,float64", names if whole else names[:1])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_cases_have_the_same_bits(part: int, whole: bool, tmp_path: Path) -> None:
    """With `--whole`, for half an hour; else a case of each part, in one dtype."""
    names = sorted(CASES)[part::PARTS]
    assert_same(tmp_path, "whole", *((",".join(DTYPES), names) if whole else ("float32", names[:1])))
