"""The driver without a GPU of null_driver.c: built when it is first asked for, and found by processes that are started so."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

SOURCE = Path(__file__).with_name("null_driver.c")
# What a program of a test begins with: `null` counts what the driver was asked, by name.
BEGIN = """
import ctypes
import nbgrad as torch

class Null:
    names = "launches allocations frees bytes uploads downloads copies fills waits graphs pinned trims faults".split()

    def __init__(self):
        library = ctypes.CDLL("libcuda.so.1")
        self.counts = (ctypes.c_int64 * 16).in_dll(library, "null_counts")
        self.limit = ctypes.c_int64.in_dll(library, "null_limit")
        self.fault = ctypes.c_int64.in_dll(library, "null_fault")

    def __getattr__(self, name):
        return self.counts[self.names.index(name)]

    def asked(self, f):
        before = list(self.counts)
        f()
        return {n: b - a for n, a, b in zip(self.names, before, self.counts) if a != b}

null = Null()
"""

RAISES = """
def raises(kind, text, f, *args, **named):
    try:
        f(*args, **named)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
"""


@cache
def library() -> str:
    folder = mkdtemp(prefix="null-driver-")
    target = str(Path(folder) / "libcuda.so.1")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", target, str(SOURCE)], check=True)
    return folder


def play(program: str, begin: str = BEGIN, **environment: str) -> str:
    """What a program prints that finds this driver."""
    pytest.importorskip("cuda.core")
    env = {**os.environ, "LD_LIBRARY_PATH": library(), **environment}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", begin + program],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr}"
    return done.stdout
