"""Kernels are made once, kept, and loaded; by one thread at a time, and whatever interrupts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nbgrad.kernels import build, store

PROGRAM = """
import nbgrad as torch
x = torch.arange(5.0, requires_grad=True)
y = (torch.sigmoid(x) * x).sum()
y.backward()
print(round(float(x.grad.sum()), 4))
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.Store:
    made = store._at(str(tmp_path / "kernels"))
    monkeypatch.setattr(build, "store", lambda: made)
    return made


COUNTING = "def @NAME@(start, stop, o):\n    for i in range(start, stop):\n        o[i] = i\n"


def test_a_kernel_that_is_not_whole_is_made_again(kept: store.Store) -> None:
    first = build._make("counting", COUNTING, "i8 i8 *f8", False)
    code = first.path.with_suffix(".bin")
    whole = code.read_bytes()
    assert build._load(first.name, [first.name]) is not None
    code.write_bytes(whole[:-40])
    assert build._load(first.name, [first.name]) is None
    again = build._make("counting", COUNTING, "i8 i8 *f8", False)
    assert again.name == first.name
    assert len(code.read_bytes()) == len(whole)
    assert build._load(first.name, [first.name]) is not None


def test_the_text_shown_is_the_one_compiled(kept: store.Store) -> None:
    first = build._make("counting", COUNTING, "i8 i8 *f8", False)
    first.path.write_text("raise SystemExit('a stranger was here')")
    again = build._make("counting", COUNTING, "i8 i8 *f8", False)
    assert again.path.read_text() == first.source == again.source


def test_a_helpers_hash_tells_of_the_helpers_that_it_calls() -> None:
    of_lowering, of_helpers = build._text("cpu.vmath"), build._text("vmath")
    build._text.cache_clear()
    read = build._read

    def changed(path: str) -> str:
        return read(path) + ("# changed" if path.endswith(os.path.join("kernels", "vmath.py")) else "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_read", changed)
        assert build._text("cpu.vmath") != of_lowering
        assert build._text("vmath") != of_helpers
    build._text.cache_clear()


def test_a_kernel_that_names_numbas_runtime_is_loaded_before_anything_is_compiled() -> None:
    """As those do that call a function which is not inlined; in a process that compiles nothing, nobody else makes it known."""
    code = (
        "from nbgrad.kernels import build, templates\n"
        "from nbgrad.expr import loops, node\n"
        "names, e = node.trace(lambda x, q: loops.zeta(x, q))\n"
        "inputs = tuple(templates.Operand(n, 'f4', 'v') for n in names)\n"
        "source, codes = templates.elementwise('zeta', (e,), inputs, ('f4',), 'f4', False, 'v')\n"
        "assert build.kernel('zeta_runtime', source, codes).address\n"
    )
    for _ in range(2):  # compiled, then loaded
        subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_there_is_not_compiled(tmp_path: Path) -> None:
    env = {**os.environ, "NBGRAD_CACHE_DIR": str(tmp_path / "kernels")}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=env, stdout=subprocess.DEVNULL)
    refuses = "from nbgrad.kernels import build\nbuild.load_source = None\n" + PROGRAM
    subprocess.run([sys.executable, "-c", refuses], check=True, env=env, stdout=subprocess.DEVNULL)
