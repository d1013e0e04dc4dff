"""Processes that work together: collectives, and what becomes of all when one fails."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.distributed.launching import NEEDED, mpiexec, passes, run

pytestmark = NEEDED


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_collective(ranks: int) -> None:
    told = passes(
        ranks, "on_ranks", "reductions", "moves", *(["messages", "left", "objects", "groups"] * (ranks > 1))
    )
    assert told == ""


# What gloo says of the same calls on 2 processes, by the words that name it.
REFUSALS = """
TypeError: Invalid function argument. Expected parameter `tensor` of type torch.Tensor|             but got <class 'list'> instead.
TypeError: (): incompatible function arguments. The following argument types are supported:|    1. (self: torch._C._distributed_c10d.\
AllreduceOptions, arg0: torch._C._distributed_c10d.ReduceOp) -> None||Invoked with: 'sum'
RuntimeError: Cannot use ReduceOp.BAND with non-integral dtype
RuntimeError: result type Float can't be cast to the desired output type Long
RuntimeError: unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() \
the tensor before performing the operation.
NotImplementedError: Cannot copy out of meta tensor; no data!
RuntimeError: ProcessGroupMPI::allgather: invalid output tensor list at index 0 (expected length 2, got 1)
TypeError: Invalid function argument. Expected parameter `tensor_list` of type List[torch.Tensor]|             but got <class \
'tuple'> instead.
RuntimeError: ProcessGroupMPI::allgather: invalid tensor size at index 1 (expected (2), got (3))
ValueError: Invalid usage of tensors with different dtypesFound torch.float32 and  torch.int32
ValueError: output tensor size must be equal to world_size times input tensor size
RuntimeError: invalid input tensor list size, must be world size
ValueError: input tensor must be the same size as output size times world size
RuntimeError: Number of tensor splits not equal to group size
RuntimeError: Split sizes doesn't match total dim 0 size
ValueError: Invalid usage of tensors with different dtypesFound torch.float32 and  torch.int32
RuntimeError: ProcessGroupMPI::alltoall: input tensor list size 1 does not match world size 2
ValueError: Argument ``gather_list`` must be specified on destination rank.
RuntimeError: ProcessGroupMPI::gather: Incorrect output list size 1. Output list size should be 2, same as size of the process group.
ValueError: Argument ``gather_list`` must NOT be specified on non-destination ranks.
ValueError: Argument ``scatter_list`` must be specified on source rank.
ValueError: Argument ``scatter_list`` must NOT be specified on non-source ranks.
RuntimeError: ProcessGroupMPI::broadcast: invalid root rank: 9
RuntimeError: ProcessGroupMPI::broadcast: invalid root rank: -1
ValueError: Must specify global_rank or group_rank
ValueError: Can't specify both group_rank and global_rank
ValueError: Invalid destination rank: destination rank should not be the same as the rank of the current process.
RuntimeError: ProcessGroupMPI::send: invalid destination rank: 9
ValueError: trying to initialize the default process group twice!
ValueError: Rank 9 is out of range. Valid ranks are 0 to 1 (world_size=2)
ValueError: ranks list must not contain duplicate entries, got [0, 0]
ValueError: the new group's world size should be less or equal to the world size set by init_process_group
ValueError: Invalid process group specified
RuntimeError: vmap: It looks like
ValueError: Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``.
ValueError: Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.
ValueError: Expected argument scatter_object_output_list to be a list of size at least 1.
ValueError: trying to initialize the default process group twice!
"""


def test_refusals() -> None:
    got = passes(2, "on_ranks", "refusals").splitlines()
    assert [g[: len(w)] for g, w in zip(got, REFUSALS.split("\n")[1:])] == REFUSALS.split("\n")[1:-1]


BEGIN = "import os, sys, time, nbgrad as T, nbgrad.distributed as dist; dist.init_process_group('mpi'); r = dist.get_rank()\n"
BEGUN = "sys.stdout.write(f'begun {time.time()}\\n'); sys.stdout.flush()\n"  # in one piece: the others write there, too


def ends(ranks: int, text: str, **settings: str) -> tuple[int, str]:
    """Exit status and what was written to stderr, within a minute of the last process's beginning, however long that took: a second or
    two, and none where a process hangs."""
    done = run(ranks, "-c", BEGIN + BEGUN + text, **settings)
    last = max(map(float, re.findall(r"begun (\S+)", done.stdout)))
    assert time.time() - last < 60
    return done.returncode, done.stderr


def test_an_exception_ends_all() -> None:
    status, told = ends(3, "if r == 1: raise ValueError('here')\ndist.barrier()")
    assert status and "[rank1]: ValueError: here" in told and "[rank0]: Traceback" not in told


def test_a_process_that_is_killed_ends_all() -> None:
    status, _ = ends(2, "if r == 1: os.kill(os.getpid(), 9)\ndist.barrier()")
    assert status


def _mismatch(text: str, **settings: str) -> list[tuple[int, list[str], str]]:
    """Who told, what both sides run, and what differs: both processes find it, and who is first may end the other before that has told."""
    told = ends(2, text, **settings)[1]
    pattern = (
        r"\[rank(\d)\]: RuntimeError: Detected mismatch between collectives on ranks\. Rank (\d) is running collective: (.*), but Rank "
        r"(\d) is running collective: (.*)\.Collectives differ in the following aspects: (.*)"
    )
    found = []
    for rank, here, mine, there, theirs, differs in re.findall(pattern, told):
        assert rank == here and {here, there} == {"0", "1"}, told
        found.append((int(rank), [mine, theirs], differs.strip()))
    assert found, told
    return found


def test_what_does_not_match_is_named() -> None:
    for rank, (mine, theirs), differs in _mismatch(
        "dist.all_reduce(T.ones(2 + r))", NBGRAD_DISTRIBUTED_DEBUG="1"
    ):
        for text, size in ((mine, 2 + rank), (theirs, 3 - rank)):
            assert text == (
                f"CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[{size}], TensorDtypes=Float, "
                "TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided (default), requires_grad=false "
                "(default), pinned_memory=false (default), memory_format=(nullopt)))"
            )
        assert differs == f"Tensor Tensor shapes: {2 + rank}vs {3 - rank}"
    for rank, _, differs in _mismatch(
        "dist.all_reduce(T.ones(2)) if r else dist.broadcast(T.ones(2), 0)", NBGRAD_DISTRIBUTED_DEBUG="1"
    ):
        assert differs == ("Op type: ALLREDUCEvs BROADCAST" if rank else "Op type: BROADCASTvs ALLREDUCE")
    for rank, _, differs in _mismatch(
        "dist.all_reduce(T.ones(2), dist.ReduceOp.MAX if r else dist.ReduceOp.SUM)",
        TORCH_DISTRIBUTED_DEBUG="DETAIL",
    ):
        one, other = ("MAX", "SUM") if rank else ("SUM", "MAX")
        assert differs == f"RedOpType.{one} async_op=False vs RedOpType.{other} async_op=False"


@pytest.mark.parametrize(("end", "status"), [("sys.exit(3)", 3), ("raise SystemExit('no')", 1)])
def test_an_exit_under_launch_ends_all(tmp_path: Path, end: str, status: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys, torch.distributed as dist\ndist.init_process_group()\nif dist.get_rank() == 1: {end}\ndist.barrier()\n"
    )
    done = run(2, str(script), launch=True)
    assert done.returncode == status, done.stderr


def test_launch_tells_what_pytorchs_launcher_tells(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "told = [os.environ[n] for n in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE')]\n"
        "sys.stdout.write(f'{str.join(chr(32), told)} {torch.get_num_threads()} {sys.argv[1:]}\\n')\n"  # in one piece
    )
    done = run(2, str(script), "a", "--b", launch=True, OMP_NUM_THREADS="")
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert sorted(done.stdout.splitlines()) == [f"{r} 2 {r} 2 {threads} ['a', '--b']" for r in range(2)]
    assert done.stderr.count("MPI serves in place of 'gloo'") == 1


def test_one_process_compiles_and_the_others_load(tmp_path: Path) -> None:
    text = (
        "import nbgrad.kernels.build as build\nmade = build._compiled\ncount = []\n"
        "build._compiled = lambda *a: (count.append(a[0]), made(*a))[1]\n"
        "f = T.elementwise(lambda x: x * 3 + x * x - 17)\nfor k in range(3): f(T.ones(3, dtype=(T.float32, T.float64, T.float16)[k]))\n"
        "found = [None] * 3\ndist.all_gather_object(found, count)\n"
        "names = sum(found, [])\nassert names and len(names) == len(set(names)), names"
    )
    done = run(3, "-c", BEGIN + text, NBGRAD_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("*.turn"))


def test_the_environment_is_held_against_mpi() -> None:
    done = run(2, "-c", BEGIN, WORLD_SIZE="4")
    assert done.returncode and "mpiexec -n 4" in done.stderr
    assert "MPI has begun 2 processes, but WORLD_SIZE says 4" in done.stderr
    swap = "import os; from mpi4py import MPI; os.environ['RANK'] = str(1 - MPI.COMM_WORLD.Get_rank())\n"
    done = run(2, "-c", swap + BEGIN + "assert r == 1 - MPI.COMM_WORLD.Get_rank()")
    assert done.returncode == 0, done.stderr


def test_a_program_alone_is_a_world_of_one() -> None:
    done = run(
        1,
        "-c",
        BEGIN
        + "x = T.ones(2); dist.all_reduce(x); assert x.tolist() == [1, 1] and dist.get_world_size() == 1",
    )
    assert done.returncode == 0, done.stderr
    assert os.access(mpiexec(), os.X_OK)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1"}, "SLURM_STEP_NUM_TASKS says 4: begin them with"),
        (
            {"PMI_SIZE": "4"},
            "PMI_SIZE says 4: the mpiexec that began this one belongs to another MPI than the library",
        ),
        ({"SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"}, ""),  # a batch script before any step
    ],
)
def test_what_slurm_and_other_launchers_tell(environment: dict[str, str], says: str) -> None:
    """Processes that MPI does not know of each other are no world."""
    done = run(1, "-c", BEGIN + "assert dist.get_world_size() == 1", alone=True, **environment)
    assert bool(done.returncode) == bool(says) and says in done.stderr, done.stderr


def test_an_mpiexec_within_a_step_of_slurms_counts() -> None:
    text = "import os; os.environ['SLURM_STEP_NUM_TASKS'] = '1'; os.environ['SLURM_PROCID'] = '0'\n"
    done = run(2, "-c", text + BEGIN + "assert dist.get_world_size() == 2")
    assert done.returncode == 0, done.stderr
