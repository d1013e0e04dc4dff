"""Programs that a test runs on several processes by `mpiexec`: each has a time-out, and nothing of it is left running."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BOUND = 300.0  # seconds after which a program hangs, on a machine however busy; what is to be quick is measured by itself
ROOT = Path(__file__).parent.parent.parent
NEEDED = [
    pytest.mark.mpi,
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed"),
]
OPEN_MPI = {  # as MPICH does: in a container, with more processes than cores, which give way to each other
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def mpiexec() -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert found, "mpi4py is installed, and no mpiexec"
    return found


def run(
    ranks: int,
    *arguments: str,
    timeout: float = BOUND,
    launch: bool = False,
    alone: bool = False,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """What `python *arguments` does on so many processes, of a group that is killed when the time is over or the call returns."""
    how = (
        [sys.executable, "-m", "nbgrad", "launch", "--nproc", str(ranks)]
        if launch
        else [sys.executable]
        if alone
        else [mpiexec(), "-n", str(ranks), sys.executable]
    )
    began = {**os.environ, **OPEN_MPI, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment
    process = subprocess.Popen(
        [*how, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in began.items() if value},
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def passes(ranks: int, module: str, *arguments: str, timeout: float = BOUND, **environment: str) -> str:
    """What a module of tests prints, each process of which must come to its end."""
    done = run(ranks, "-m", f"tests.distributed.{module}", *arguments, timeout=timeout, **environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout
