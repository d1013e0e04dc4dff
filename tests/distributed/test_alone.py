"""What is said where there is no group of processes, or no MPI."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.support import T

CALLS: list[Callable[[Any], Any]] = [
    lambda t: t.distributed.get_rank(),
    lambda t: t.distributed.get_world_size(),
    lambda t: t.distributed.get_backend(),
    lambda t: t.distributed.all_reduce(t.ones(2)),
    lambda t: t.distributed.all_reduce([1]),
    lambda t: t.distributed.broadcast(t.ones(2), 0),
    lambda t: t.distributed.all_gather((t.ones(2),), t.ones(2)),
    lambda t: t.distributed.all_gather([1], t.ones(2)),
    lambda t: t.distributed.all_gather([t.ones(2), t.ones(2).int()], t.ones(2)),
    lambda t: t.distributed.barrier(),
    lambda t: t.distributed.new_group([0]),
    lambda t: t.distributed.destroy_process_group(),
    lambda t: t.distributed.destroy_process_group(3),
    lambda t: t.distributed.init_process_group(timeout=3),
    lambda t: t.distributed.init_process_group(3),
    lambda t: t.distributed.init_process_group(store=1, init_method="env://"),
    lambda t: t.distributed.init_process_group(store=1),
    lambda t: t.distributed.init_process_group(store=1, world_size=2),
    lambda t: t.distributed.batch_isend_irecv([1]),
    lambda t: t.distributed.P2POp(1, t.ones(2), 0),
    lambda t: t.distributed.get_node_local_rank(),
    lambda t: t.distributed.Backend(3),
    lambda t: t.distributed.all_to_all([1], [1]),
    lambda t: t.distributed.send(t.ones(2), 0),
    lambda t: t.distributed.all_gather_object([None], 1),
]


def said(module: Any, call: Callable[[Any], Any]) -> str:
    try:
        call(module)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@pytest.mark.oracle
def test_it_is_refused_as_pytorch_does(torch: ModuleType) -> None:
    for k, call in enumerate(CALLS):
        assert said(T, call) == said(torch, call).replace("torch.Tensor'>", "nbgrad.Tensor'>"), k


def test_cores_are_shared_by_who_has_them() -> None:
    from nbgrad.distributed._groups import _share

    assert _share({0, 1}, [{0, 1}, {0, 1}]) == 1
    assert _share({0, 1}, [{0, 1}, {2, 3}]) == 2  # bound by the launcher
    assert _share({0}, [{0}, {1}]) == 1
    assert _share(set(range(12)), [set(range(12))] * 3 + [set(range(12, 24))]) == 4


def test_without_mpi_it_is_said_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['mpi4py'] = None; import importlib.util as u; u.find_spec = lambda *a: None\n"
        "import nbgrad as T\nassert not T.distributed.is_available() and not T.distributed.is_mpi_available()\n"
        "try: T.distributed.init_process_group('mpi')\nexcept RuntimeError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Distributed package doesn't have MPI built in.")
    assert "pip install nbgrad[mpi]" in done.stdout


def test_nothing_of_mpi_is_imported_before() -> None:
    code = "import sys, nbgrad as T; T.distributed.is_initialized(); sys.exit('mpi4py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
