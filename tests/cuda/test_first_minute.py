"""The one command of a GPU's first minutes, over the driver that runs no kernel: parts that fail are said, and the others go on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda.null import library

pytestmark = pytest.mark.cuda


def test_what_fails_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("cuda.core")
    file = tmp_path / "out.json"
    parts = ("environment", "smoke", "host", "graphs")
    command = [sys.executable, "-m", "asv_benchmarks.gpu", "--small", "--json", str(file), "--only", *parts]
    env = {**os.environ, "LD_LIBRARY_PATH": library()}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(file.read_text())
    assert found["failed"] == ["smoke"]  # where no kernel runs nothing is right
    assert "off by" in found["smoke"]["failed"]
    assert "Null GPU" in found["environment"]["device"]
    assert found["host of nbgrad"]["product"] > 0 and found["graphs of nbgrad"]["graph"] > 0
    assert done.stdout.endswith("failed: smoke\n")


def test_no_time_is_no_end(tmp_path: Path) -> None:
    pytest.importorskip("cuda.core")
    file = tmp_path / "out.json"
    command = [sys.executable, "-m", "asv_benchmarks.gpu", "--json", str(file), "--seconds", "0.2", "--only"]
    env = {**os.environ, "LD_LIBRARY_PATH": library()}
    subprocess.run([*command, "host", "table"], env=env, capture_output=True, check=False)
    found = json.loads(file.read_text())
    failed = [
        part for part in found["failed"] if part != "host of torch"
    ]  # which is timed where it is installed
    assert failed == ["host of nbgrad", "table"]
    assert found["host of nbgrad"]["failed"].startswith("no end after 0 s")
    assert found["table"]["failed"] == "no time was left"
