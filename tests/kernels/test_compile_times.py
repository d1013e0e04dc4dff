"""No kernel of the cases keeps who waits for it a second."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import CASES, DTYPES

LONGEST = 1.0  # seconds of the processor; most take 0.03
PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_kernel_is_soon_there(part: int, whole: bool, tmp_path: Path) -> None:
    """With an empty cache; and by our own front, all of them. Every second case in one dtype, with `--whole` each in all."""
    names = sorted(CASES)[:: 1 if whole else 2][part::PARTS]
    command = [sys.executable, "-m", "tests.kernels.compile_times", ",".join(DTYPES) if whole else "float32"]
    env = os.environ | {"NBGRAD_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([*command, *names], env=env, check=True, capture_output=True, text=True)
    *told, numba_helped = done.stdout.splitlines()
    assert len(told) > 100
    assert [line for line in told if float(line.split()[0]) > LONGEST] == []
    assert numba_helped == "False"
