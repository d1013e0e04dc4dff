"""The cache of kernels: whatever lies there, the user gets the right result and no error."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from nbgrad.kernels import build

PROGRAM = """
import nbgrad as torch
x = torch.arange(5.0, requires_grad=True)
y = (torch.sigmoid(x) * x).sum()
y.backward()
print(round(float(x.grad.sum()), 4))
"""


def run(cache: Path, program: str = PROGRAM, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "NBGRAD_CACHE_DIR": str(cache), **env},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    cache = tmp_path_factory.mktemp("warm") / "kernels"
    return cache, run(cache)


def test_files_are_readable_and_private(warm: tuple[Path, str]) -> None:
    cache, _ = warm
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    sources = list(cache.glob("*.py"))
    assert any(p.name.startswith("sigmoid_f4_v") for p in sources)
    for p in sources:
        compile(p.read_text(), p.name, "exec")


@pytest.mark.slow
def test_broken_files_are_made_again(warm: tuple[Path, str]) -> None:
    cache, answer = warm
    for k, p in enumerate(sorted(cache.rglob("*"))):
        if p.suffix in (".bin", ".nbi", ".nbc"):
            data = p.read_bytes()
            # cut short, empty, somebody else's, one bit wrong: in turn
            flipped = data[:-1] + bytes([data[-1] ^ 1])
            p.write_bytes([data[: len(data) // 2], b"", b"not a kernel" * 50, flipped][k % 4])
    assert run(cache) == answer
    assert run(cache) == answer


@pytest.mark.slow
def test_unusable_directory_is_replaced(tmp_path: Path, warm: tuple[Path, str]) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file where the cache should be")
    assert run(in_the_way) == warm[1]
    assert in_the_way.read_text() == "a file where the cache should be"


@pytest.mark.slow
def test_processes_that_start_cold_together(tmp_path: Path, warm: tuple[Path, str]) -> None:
    env = {**os.environ, "NBGRAD_CACHE_DIR": str(tmp_path / "shared")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        for _ in range(8)
    ]
    for p in started:
        out, err = p.communicate(timeout=300)
        assert (p.returncode, err, out.strip()) == (0, "", warm[1])


def test_truncated_kernel_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "cache_dir", lambda: tmp_path)
    source = "def @NAME@(start, stop, o):\n    for i in range(start, stop):\n        o[i] = i\n"
    first = build._make("counting", source, "i8 i8 *f8", False)
    code = first.path.with_suffix(".bin")
    code.write_bytes(code.read_bytes()[:-40])
    assert build._load(code, first.name) is None
    assert not code.exists()


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
