"""`python -m nbgrad launch --nproc N script.py`: the `mpiexec` that is there, with `python -m nbgrad run` in each of its processes.

Promises that MPI's launcher takes this process's place, so that signals and its exit status are those of the whole; and that each process
finds the numbers that PyTorch's launcher tells ($RANK, $LOCAL_RANK, $WORLD_SIZE, $LOCAL_WORLD_SIZE), and ends all if it ends badly.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence

_NONE = (
    "python -m nbgrad launch: there is no mpiexec, neither beside this Python nor on $PATH. `pip install nbgrad[mpi]` brings one (the "
    "package mpich); a cluster has its own, which `module load` may show."
)
_NUMBERS = {
    "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"),
    "LOCAL_RANK": ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}


def mpiexec() -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")


_OPEN_MPI = {  # of which there may be more processes than cores, as of MPICH's and PyTorch's launchers: version 5's, and those before
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def launch(processes: int, rest: Sequence[str]) -> None:
    """`rest` is what the launcher is told beside the number, and the script with its arguments. Where an option has a value of its own,
    `--` says where the script begins."""
    found = mpiexec()
    if found is None:
        print(_NONE, file=sys.stderr)
        raise SystemExit(2)
    options: list[str] = []
    words = list(rest)
    if words[0].startswith("-") and "--" in words:
        options, words = words[: words.index("--")], words[words.index("--") + 1 :]
    while words and words[0].startswith("-") and words[0] not in ("-m", "-"):
        options.append(words.pop(0))
    for name, value in _OPEN_MPI.items():
        os.environ.setdefault(name, value)
    for name in ("WORLD_SIZE", "RANK"):
        os.environ.pop(name, None)  # of whoever began this one
    program = [sys.executable, "-m", "nbgrad", "_one_of_many", *words]
    sys.stdout.flush()
    os.execv(found, [found, "-n", str(processes), *options, *program])


def one_of_many(run: Callable[[], None]) -> None:
    for name, theirs in _NUMBERS.items():
        told = next((os.environ[each] for each in theirs if each in os.environ), None)
        if told is not None:
            os.environ.setdefault(name, told)
    try:
        run()
    except SystemExit as end:
        if end.code not in (None, 0):
            _end_all(end.code)
        raise


def _end_all(code: int | str | None) -> None:
    """The others may wait for this one; it would wait for them, as MPI's end does."""
    MPI = getattr(sys.modules.get("mpi4py"), "MPI", None)
    if MPI is not None and MPI.Is_initialized() and not MPI.Is_finalized() and MPI.COMM_WORLD.Get_size() > 1:
        if not isinstance(code, int):
            print(code, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(code if isinstance(code, int) else 1)
