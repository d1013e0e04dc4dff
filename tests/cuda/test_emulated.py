"""A device `cuda` that the CPU plays: the case table on it, and what programs see of it. In processes of their own."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.cases import CASES
from tests.cuda.on_device import listed

# One of each family.
FEW = [
    *("add", "exp", "where", "sum", "mean_dim", "std", "softmax", "layer_norm", "matmul", "linear_bias"),
    *("cumsum", "cat", "transpose", "as_strided_overlapping", "amax", "logsumexp", "sort", "to_int32"),
    *("getitem_ints", "scatter_reduce_sum", "masked_scatter", "quantile", "cdist_p_1", "unique"),
    *("conv2d", "max_pool2d", "grid_sample_bilinear", "gru"),
]


def run(*args: str, emulate: str = "1") -> str:
    env = {**os.environ, "NBGRAD_CUDA_EMULATE": emulate}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *args], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr}"
    assert not done.stderr, done.stderr
    return done.stdout


def outcomes(*args: str, emulate: str = "1") -> dict[str, str]:
    lines = run("-m", "tests.cuda.on_device", *args, emulate=emulate).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def test_programs() -> None:
    files = [
        f"tests/cuda/test_{name}.py" for name in ("programs", "long", "mixed", "windows", "blas", "replay")
    ]
    run("-m", "pytest", "-q", "-x", "-m", "emulated", "-p", "no:cacheprovider", *files)


@pytest.mark.slow
def test_factors_of_matrices() -> None:
    run("-m", "pytest", "-q", "-x", "-m", "emulated", "-p", "no:cacheprovider", "tests/cuda/test_solver.py")


def test_a_case_of_each_family() -> None:
    assert Counter(said.split()[0] for said in outcomes(*FEW).values()) == {"right": len(FEW)}


@pytest.mark.slow
@pytest.mark.parametrize("emulate", ["1", "deferred"])
def test_the_table(emulate: str) -> None:
    """In three orders of threads, and where nothing is done before somebody waits. What may go over is listed: uploads and downloads of a
    call that is not the first of its kind, then those of its backward."""
    found = outcomes(*["--order", "0"] * (emulate == "deferred"), emulate=emulate)
    assert found.keys() == CASES.keys()
    assert sorted(name for name, said in found.items() if said == "none") == listed("no_kernel.txt")
    may = {name: counts for name, *counts in map(str.split, listed("transfers.txt"))}
    for name, (said, *counts) in [(name, said.split()) for name, said in found.items()]:
        assert said in ("right", "none"), f"{name}: {found[name]}"
        allowed = may.get(name, "0000")
        assert all(int(n) <= int(most) for n, most in zip(counts, allowed)), (
            f"{name}: {counts}, not {allowed}"
        )
