"""A device `cuda` that the CPU plays: the case table on it, and what Python programs see of it. In processes of their own."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.cases import CASES

# One of each family.
FEW = [
    *("add", "exp", "where", "sum", "mean_dim", "std", "softmax", "layer_norm", "matmul", "linear_bias"),
    *("cumsum", "cat", "transpose", "as_strided_overlapping", "amax", "logsumexp", "diagonal", "to_int32"),
]


def run(*args: str, emulate: str = "1") -> str:
    env = {**os.environ, "NBGRAD_CUDA_EMULATE": emulate}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *args], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-500:]}\n{done.stderr}"
    assert not done.stderr, done.stderr
    return done.stdout


def outcomes(*args: str, emulate: str = "1") -> dict[str, str]:
    may = {name: list(map(int, counts)) for name, *counts in map(str.split, listed("transfers.txt"))}
    lines = run("-m", "tests.cuda.on_device", "--transfers").splitlines()
    assert len(lines) > 600
    for name, *counts in map(str.split, lines):
        allowed = may.get(name, [0, 0, 0, 0])
        assert all(int(n) <= most for n, most in zip(counts, allowed)), f"{name}: {counts}, not {allowed}"
