"""Libraries written for PyTorch run on nbgrad and print what they print on PyTorch: `expected/` was printed by `programs/` with torch 2.13
and the versions in requirements.txt, which `pip install --no-deps -r tests/libraries/requirements.txt` installs without torch. Then
`pytest -m libraries`; a library that is missing there is a failure. Two bring tests of their own in their wheels, which pass here as there;
`own.py` runs those of others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?|-?\d+")
PROGRAMS = {p.stem.removeprefix("use_"): p for p in sorted((HERE / "programs").glob("use_*.py"))}


@pytest.mark.libraries
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_prints_what_it_prints_on_torch(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "nbgrad", "run", str(PROGRAMS[name])]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = (HERE / "expected" / f"use_{name}.txt").read_text(encoding="utf-8")
    assert _words(done.stdout) == _words(expected)
    # The last digit is left to the order in which sums are taken.
    assert [float(n) for n in NUMBER.findall(done.stdout)] == pytest.approx(
        [float(n) for n in NUMBER.findall(expected)], rel=2e-4, abs=2e-4
    )


# The tests, and how many of them pass: on PyTorch as many. The one left out starts the `python` of the path, which has no PyTorch.
OWN = {
    "einops": (["einops.tests", "--deselect=test_other.py::test_einops_threading"], 61),
    "skorch": (["skorch.tests.test_toy", "skorch.tests.test_scoring", "skorch.tests.test_setter"], 35),
}


@pytest.mark.libraries
@pytest.mark.parametrize("name", OWN)
def test_its_own_tests_pass(name: str, tmp_path: Path) -> None:
    tests, count = OWN[name]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"),
            *("-p", "nbgrad.as_torch", "--pyargs", *tests),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(HERE.parents[1]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "EINOPS_TEST_BACKENDS": "numpy,torch",
        },
        check=False,
    )
    found = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and found and int(found[1]) == count, done.stdout + done.stderr


def _words(text: str) -> list[str]:
    return NUMBER.sub("#", text).split()
