"""What type checkers are told: stubs are fresh, typical uses pass, mistakes are found."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import stubs

TYPING = Path(__file__).parent / "typing"


def errors(path: Path, *options: str) -> list[int]:
    """The lines of a file where mypy finds something."""
    command = [sys.executable, "-m", "mypy", *options, str(path)]
    done = subprocess.run(command, cwd=TYPING.parent.parent, capture_output=True, text=True)
    found = [line.split(":") for line in done.stdout.splitlines() if ": error: " in line]
    assert {Path(name).name for name, *_ in found} <= {path.name}, done.stdout
    return [int(line) for _, line, *_ in found]


def test_stubs_are_fresh() -> None:
    assert not list(stubs.stale()), "run python -m tests.stubs"


def test_uses_run(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.typing import uses

    for use in uses.USES:
        use()


def test_uses_are_two_hundred() -> None:
    tree = ast.parse((TYPING / "uses.py").read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert (
        sum(isinstance(s, (ast.Assign, ast.AugAssign, ast.Expr)) for f in functions for s in ast.walk(f))
        > 200
    )


@pytest.mark.slow
def test_uses_pass() -> None:
    assert not errors(TYPING / "uses.py", "--strict")


@pytest.mark.slow
def test_mistakes_are_found() -> None:
    path = TYPING / "mistakes.py"
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    assert sorted(set(errors(path, "--strict"))) == [k for k, line in lines if "# mistake: " in line]


@pytest.mark.slow
@pytest.mark.parametrize("name", stubs.STUBS)
def test_code_beside_a_stub_is_typed(name: str) -> None:
    """mypy reads the stub alone unless it is asked for the file."""
    path = (stubs.ROOT / name).with_suffix(".py")
    assert not path.exists() or not errors(path)
