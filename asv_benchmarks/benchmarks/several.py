"""Two processes by MPI: all_reduce beside mpi4py's own on the same memory, and what a step under DistributedDataParallel takes over the
step and the all_reduce of its gradients.

Expected on a quiet machine of two cores: 1.0 to 1.1 at 4 MB, and less than 0.1.
"""

import functools
import importlib.util
from pathlib import Path
from runpy import run_path


@functools.cache
def found():
    scale = run_path(str(Path(__file__).parent.parent / "scale.py"))
    told = scale["on_two_processes"](fast=False)
    return told, dict(zip(scale["SIZES"], (a / b for a, b in zip(told["ours"], told["bare"]))))


class TwoProcesses:
    timeout = 120

    def setup(self):
        if importlib.util.find_spec("mpi4py") is None:
            raise NotImplementedError

    def track_all_reduce_beside_mpi4py(self):
        return found()[1][1 << 22]

    def track_step_over_its_parts(self):
        return found()[0]["over"]
