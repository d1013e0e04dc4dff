"""An optimiser's state in parts, and checkpoints that other numbers of processes go on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.launching import NEEDED, passes, run

pytestmark = NEEDED


@pytest.mark.parametrize("ranks", [2, 3])
def test_an_optimiser_in_parts_is_the_whole_one(ranks: int) -> None:
    assert passes(ranks, "on_state", "shared_out") == passes(ranks, "on_state", "uneven") == ""


def test_other_numbers_of_processes_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    assert passes(2, "on_state", "begin", str(tmp_path)) == ""
    files = sorted(p.name for p in (tmp_path / "True").iterdir())
    assert len(files) == 3 and files[0] == ".metadata", files
    killed = run(2, "-m", "tests.distributed.on_state", "killed", str(tmp_path))
    assert killed.returncode != 0
    for ranks in (2, 1, 3):
        assert passes(ranks, "on_state", "go_on", str(tmp_path)) == ""
