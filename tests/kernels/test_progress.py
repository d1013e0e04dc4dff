"""What is said while kernels are compiled."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nbgrad.kernels import progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENT", 0.05)
    monkeypatch.setattr(progress, "_PAUSE", 10.0)  # however long a busy machine takes between two
    monkeypatch.setattr(progress, "_wait", progress._Wait())
    monkeypatch.delenv("NBGRAD_COMPILE_LOG", raising=False)


def test_who_waits_at_a_terminal_is_told(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    seen: Any = _Terminal()
    monkeypatch.setattr(sys, "stderr", seen)
    with monkeypatch.context() as patch:
        patch.setattr(progress, "SILENT", 100.0)
        with progress.compiling("first"):
            pass
    assert not seen.getvalue()
    with progress.compiling("second"):
        for _ in range(1000):  # till it is told, by a thread that may have to wait
            time.sleep(0.1)
            if seen.getvalue().endswith("\n"):
                break
    assert re.match(r"nbgrad: compiling second, after 1 others in \d+\.\d s", seen.getvalue())
    assert seen.getvalue().count("\n") == 1


def test_nobody_else_is(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    seen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", seen)
    with progress.compiling("long"):
        time.sleep(0.3)
    assert not seen.getvalue()


def _stderr(cache: Path, log: str) -> str:
    told = {**os.environ, "NBGRAD_CACHE_DIR": str(cache), "NBGRAD_COMPILE_LOG": log}
    code = [sys.executable, "-c", "import nbgrad as T; T.ones(3).atanh()"]
    return subprocess.run(code, env=told, capture_output=True, text=True, check=True).stderr


def test_a_log_of_all(tmp_path: Path) -> None:
    assert not _stderr(tmp_path / "silent", "0")
    assert "nbgrad: compiled atanh_f4" in _stderr(tmp_path / "told", "1")
    assert not _stderr(tmp_path / "told", "1")  # it is loaded
