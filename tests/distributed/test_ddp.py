"""Training on several processes is training on one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.launching import NEEDED, ROOT, passes, run

pytestmark = NEEDED


@pytest.mark.parametrize("ranks", [2, 3])
def test_losses_are_those_of_one_process(ranks: int) -> None:
    parts = (
        ("losses", "large", "used_on_one_rank", "programs", "uneven", "overlap")
        if ranks == 2
        else ("large", "programs", "uneven")
    )
    assert passes(ranks, "on_ddp", *parts) == ""


SAID = """
RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.
RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.
ValueError: device_ids can only be None or contain a single element.
ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules or \
CPU modules, but got device_ids [0], output_device None, and module parameters {device(type='cpu')}.
RuntimeError: Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward pass to correctly \
initialize the modules
TypeError: Communication hook must be callable.
ValueError: Invalid process group specified
RuntimeError: DDP expects same settings across all ranks, but Rank 1 has bucket_cap_mb=2, while rank 0 has bucket_cap_mb=1.
RuntimeError: [1]: params[0] in this process with sizes [4, 2] appears not to match sizes of the same param in process 0. (weight: [3, 2]
RuntimeError: DDP expects same model across all ranks, but Rank 1 has 4 params, while rank 0 has inconsistent 2 params.
"""


def test_its_surface_and_refusals() -> None:
    told = passes(2, "on_ddp", "surface").splitlines()
    assert [t[: len(w)] for t, w in zip(told, SAID.split("\n")[1:])] == SAID.split("\n")[1:-1]


def test_the_example_prints_the_losses_of_one_process(tmp_path: Path) -> None:
    program = [
        str(ROOT / "examples" / "data_parallel.py"),
        "--short",
        "--ranks",
        "2",
        "--plot",
        str(tmp_path / "p.png"),
    ]
    done = run(1, *program, alone=True)
    one, two = (line for line in done.stdout.splitlines() if "losses" in line)
    assert one.split("losses")[1] == two.split("losses")[1] and two.startswith("2 processes"), done.stderr
