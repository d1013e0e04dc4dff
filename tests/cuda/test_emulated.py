"""A device `cuda` that the CPU plays: the case table on it, and what Python programs see of it. In processes of their own."""

import os
import subprocess
import sys
from collections import Counter

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
    lines = run("-m", "tests.cuda.on_device", *args, emulate=emulate).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def test_programs() -> None:
    run("-m", "pytest", "-q", "-x", "-m", "emulated", "-p", "no:cacheprovider", "tests/cuda/test_programs.py")


def test_a_case_of_each_family() -> None:
    assert Counter(outcomes(*FEW).values()) == {"right": len(FEW)}
