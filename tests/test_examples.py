"""Every example prints what its docstring says, and PyTorch prints it too.

A docstring ends in commands, each with lines that it prints: text to the letter, numbers to 2 % (BLAS and topics of Python differ
from machine to machine; what differs by less than 0.002 counts as equal).
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Command(NamedTuple):
    """A command of a docstring: its file, its arguments, a package that it needs, the lines that it prints."""

    file: Path
    arguments: tuple[str, ...]
    needs: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join([self.file.stem, *self.arguments, self.needs]).strip()


def commands(file: Path) -> list[Command]:
    text = ast.get_docstring(ast.parse(file.read_text()))
    assert text is not None
    found = []
    for block in text.split("\n$ ")[1:]:
        command, *lines = block.splitlines()
        command, _, needs = command.partition("  # needs ")
        python, path, *arguments = command.split()
        assert (python, path) == ("python", f"examples/{file.name}")
        found.append(Command(file, tuple(arguments), needs, tuple(lines)))
    return found


COMMANDS = [c for file in FILES for c in commands(file)]


def printed(directory: Path, program: Path, *arguments: str, warned: str = "error") -> list[str]:
    """The lines that a program prints. One thread: the machine may be busy."""
    threads = dict.fromkeys(["NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"], "1")
    path = os.pathsep.join([str(EXAMPLES.parent), str(EXAMPLES)])
    done = subprocess.run(
        [sys.executable, "-W", warned, str(program), *arguments],
        cwd=directory,
        env={**os.environ, **threads, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\r" not in done.stdout, "a line is written over, and this is no terminal"
    return done.stdout.split("\n")


def same(got: str, want: str) -> bool:
    if [t.split() for t in NUMBER.split(got)] != [t.split() for t in NUMBER.split(want)]:
        return False
    numbers = zip(map(float, NUMBER.findall(got)), map(float, NUMBER.findall(want)))
    return all(abs(g - w) <= max(0.002, 0.02 * abs(w)) for g, w in numbers)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_form(file: Path) -> None:
    """Each is short, has a short form, and says what both forms print."""
    assert len(file.read_text().splitlines()) <= 120
    assert {"--short" in c.arguments for c in commands(file)} == {True, False}
    assert all(c.lines for c in commands(file))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_prints_what_it_says(command: Command, tmp_path: Path) -> None:
    if command.needs:
        pytest.importorskip(command.needs)
    lines = printed(tmp_path, command.file, *command.arguments)
    for want in command.lines:
        assert any(same(line, want) for line in lines), (want, lines)


@pytest.mark.slow
def test_a_device_prints_what_the_cpu_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRAD_CUDA_EMULATE", "deferred")
    lines = printed(tmp_path, EXAMPLES / "either_device.py", "--device", "cuda", "--short")
    _, short = commands(EXAMPLES / "either_device.py")
    assert lines[0].startswith("step   25/100 on cuda")
    assert any(same(line, short.lines[0]) for line in lines), lines


OWN = (
    "aiming",
    "bouncing_ball",
    "compiled_step",
    "data_parallel",
    "new_elementwise_op",
    "ray_marcher",
    "read_the_kernel",
)  # nbgrad's own: PyTorch has no such functions


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if "--short" in c.arguments and c.file.stem not in OWN], ids=str
)
def test_pytorch_prints_it(torch: ModuleType, command: Command, tmp_path: Path) -> None:
    """The same program with its imports changed, and those of examples that it takes from."""
    for file in FILES:
        text = file.read_text().replace("import nbgrad as torch", "import torch")
        (tmp_path / file.name).write_text(re.sub(r"^from nbgrad", "from torch", text, flags=re.MULTILINE))
    lines = printed(tmp_path, tmp_path / command.file.name, *command.arguments, warned="ignore")
    for want in command.lines:
        assert any(same(line, want) for line in lines), (want, lines)
