"""What processes of their own record of the case table, each a part of it: the workers of a session take parts in turn, and read all."""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

PARTS = 4
_LONGEST = 3600  # seconds that another worker may take


def folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """One for all workers of a session."""
    base = factory.getbasetemp()
    made = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    made.mkdir(exist_ok=True)
    return made


def parts(folder: Path, module: str, whole: bool, env: Mapping[str, str]) -> list[Any]:
    """What `python -m module FILE PART [--whole]` has written of each part."""
    files = [folder / f"{k}.pickle" for k in range(PARTS)]
    for k, file in enumerate(files):
        try:
            file.with_suffix(".taken").touch(exist_ok=False)
        except FileExistsError:
            continue
        made = file.with_suffix(".made")
        command = [sys.executable, "-m", module, str(made), str(k), *["--whole"] * whole]
        try:
            subprocess.run(command, check=True, env=dict(env))
        except BaseException:
            file.with_suffix(".failed").touch()
            raise
        made.rename(file)
    until = time.monotonic() + _LONGEST
    while not all(file.exists() for file in files):
        assert not list(folder.glob("*.failed")), "another worker could not record its part"
        assert time.monotonic() < until, "another worker records no end"
        time.sleep(0.1)
    return [pickle.loads(file.read_bytes()) for file in files]


def of_part(cases: Mapping[str, Any], part: int) -> list[Any]:
    return list(cases.values())[part::PARTS]
