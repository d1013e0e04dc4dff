"""What type checkers are told: stubs are fresh, typical uses pass, mistakes are found."""

import ast
import fcntl
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbgrad.names.table import of_tensor
from tests import stubs
from tests.cases import CASES, OpCase, method, samples
from tests.support import T

TYPING = Path(__file__).parent / "typing"


def errors(path: Path, *options: str, alone: bool = True) -> list[int]:
    """The lines of a file where mypy finds something, which, `alone`, it finds nowhere else. One at a time: all have one cache, a database
    that is locked while it is written."""
    root = TYPING.parent.parent
    command = [sys.executable, "-m", "mypy", *options, str(path)]
    with open(root / "pyproject.toml") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [line.split(":") for line in done.stdout.splitlines() if ": error: " in line]
    own = [line for name, line, *_ in found if (root / name).samefile(path)]
    assert not alone or len(own) == len(found), done.stdout
    return [*map(int, own)]


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
    """mypy reads the stub alone unless it is asked for the file; then others miss the names that only the stub has."""
    path = (stubs.ROOT / name).with_suffix(".py")
    assert not path.exists() or not errors(path, alone=False)


def declared() -> dict[str, set[str]]:
    """Results by the path of the function, as the stubs have them."""
    found: dict[str, set[str]] = defaultdict(set)
    places = {
        "__init__.pyi": "",
        "core/methods.pyi": "Tensor.",
        "linalg.pyi": "linalg.",
        "fft.pyi": "fft.",
        "special.pyi": "special.",
    }
    for name, where in (places | {"nn/functional.pyi": "nn.functional."}).items():
        for node in ast.walk(ast.parse((stubs.ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.returns:
                found[where + node.name].add(ast.unparse(node.returns))
    return found


def is_a(value: Any, text: str) -> bool:
    if text in ("Tensor", "Self"):
        return isinstance(value, T.Tensor)
    if text[:12] == "return_types":
        return type(value).__name__ in (text[13:], f"{text[13:]}_out")
    if text[:5] == "tuple":
        return type(value) is tuple and (text[-4:-1] == "..." or len(value) == text.count("Tensor"))
    kinds = {
        "_bool": bool,
        "_int": int,
        "Number": (int, float),
        "_dtype": T.dtype,
        "str": str,
        "None": type(None),
    }
    return text == "Any" or isinstance(value, kinds.get(text, np.ndarray))


def runs(case: OpCase) -> bool:
    """In the first of these dtypes that it takes, as function and method."""
    for dtype in ("float64", "int64", case.dtypes[0]):
        with suppress(NotImplementedError, TypeError):
            sample = next(samples(case, dtype, layouts=False))
            case.fn(T, *sample.tensors(T))
            if "m" in case.forms:
                method(case, sample.tensors(T))
            return True
    return False


@pytest.mark.slow
def test_results_are_what_a_run_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the functions and methods that the cases call."""
    met, wrong = set(), set()

    def watched(path: str, function: Any, results: set[str]) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            met.add(path)
            if not any(is_a(result, text) for text in results):
                wrong.add(f"{path} gives {type(result).__name__}, and {results} are declared")
            return result

        return call

    for path, results in declared().items():
        *outer, name = path.split(".")
        place = reduce(getattr, outer, T)
        if name[:2] != "__" and callable(getattr(place, name)):
            monkeypatch.setattr(place, name, watched(path, getattr(place, name), results))
    assert all(map(runs, CASES.values()))
    assert not wrong, "\n".join(sorted(wrong))
    assert len(met) > 500


# Where stubtest is not asked: inner modules, which have no stubs, and what is there for type checkers alone.
INNER = (
    r"nbgrad\.(adjoints|base|core\.(methods|tensor\.construct|tensor\.Tensor\.(div_|__r?i?div__))|expr|kernels|memory|ops|tape)|\S*\._[^_]|\S*@|"
    r"\S* names exported from the stub|nbgrad\.nn\.(modules\.)?__all__|nbgrad\.__dir__ |"  # lists that are put together
    r"nbgrad\.distributions\.\S* is not a function|"  # properties of a kind of their own
    r"nbgrad\.(core\.tensor\.Tensor\.__torch_|(fx\.proxy\.Proxy|compiled\.numbers\.Number)\.__)|"  # what is put there by loops
    r"nbgrad\.nn\.(parameter\.UninitializedTensorMixin\.|\S*\.__constants__ )|"  # likewise
    r"nbgrad\.utils\.tensorboard(\.writer|\.summary)? failed to import"  # without the package it writes with
)


@pytest.mark.slow
def test_stubtest_misses_no_name() -> None:
    """Signatures apart: functions have one for each way of calling them, which the guard before them does not show."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy.stubtest",
            "nbgrad",
            "--concise",
            "--mypy-config-file",
            "pyproject.toml",
        ],
        cwd=TYPING.parent.parent,
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) > 1000, done.stdout + done.stderr
    # What tensors have in PyTorch and not here raises when it is used: type checkers shall not know of it.
    unbuilt = {f"nbgrad.core.tensor.Tensor.{name} is not present in stub" for name, _ in of_tensor()}
    told = [line for line in lines if " is inconsistent, " not in line and not re.match(INNER, line)]
    told = [line for line in told if line not in unbuilt]
    assert not told, "\n".join(told)
