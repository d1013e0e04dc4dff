"""Groups of processes: who is there, and which number each has.

Promises the collectives a `ProcessGroup` for whatever a caller names, or PyTorch's refusal. MPI says who belongs to the world; the
environment of a launcher is held against it, and where it numbers the processes otherwise, it is followed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any, TypeAlias

from nbgrad.base.warn import warn
from nbgrad.distributed import _faults, _matching
from nbgrad.distributed._mpi import MISSING, installed, mpi

_WAIT = timedelta(minutes=30)
_NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."
# The nearest launcher's first: within SLURM's step, whose tasks are then the machines, an mpiexec may have begun more.
_SIZES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


class Backend(str):
    """The name of what processes talk by. Here MPI serves all names.

    >>> torch.distributed.Backend("GLOO")
    'gloo'
    """

    __slots__ = ()

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list = (UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI)

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return name.lower()


class ProcessGroup:
    """Some of the processes, which number each other from 0 on. `new_group` makes one; that of all is there from the start.

    >>> if torch.distributed.is_initialized():
    ...     everybody = torch.distributed.group.WORLD
    ...     everybody.rank() < everybody.size()
    """

    def __init__(self, comm: Any, ranks: Sequence[int], name: str, backend: str, timeout: timedelta) -> None:
        self.comm, self.backend_name, self.timeout = comm, backend, timeout
        self.group_name, self.group_desc = name, "default_pg" if name == "0" else "undefined"
        self.ranks = {there: here for here, there in enumerate(ranks)}  # of the world, in it
        self._rank, self._size = comm.Get_rank(), comm.Get_size()
        self.count = 0  # of collectives, for who looks for what does not match
        self.ended = False
        self.checks = _matching.is_on()

    def rank(self) -> int:
        """The number of this process in it."""
        return self._rank

    def size(self) -> int:
        """How many processes it has."""
        return self._size

    def name(self) -> str:
        """What they talk by."""
        return self.backend_name


class _Members(type):
    world: ProcessGroup | None = None

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _Members.world

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:
        _Members.world = group


class group(metaclass=_Members):
    """`group.WORLD` is the group of all processes, None before there is one.

    >>> torch.distributed.group.WORLD is None or torch.distributed.is_initialized()
    True
    """


class GroupMember(metaclass=_Members):
    """As `group`; NON_GROUP_MEMBER is what `new_group` gives to processes that are not in it.

    >>> torch.distributed.GroupMember.NON_GROUP_MEMBER
    -100
    """

    NON_GROUP_MEMBER = -100


Group: TypeAlias = Any  # a ProcessGroup; None for that of all; NON_GROUP_MEMBER
_groups: list[ProcessGroup] = []
_names = itertools.count()

# ---------------------------------------------------------------- what there is


def is_available() -> bool:
    """Whether processes can work together: mpi4py is installed.

    >>> torch.distributed.is_available() in (True, False)
    True
    """
    return installed()


def is_initialized() -> bool:
    """Whether they have begun to, by `init_process_group`.

    >>> torch.distributed.is_initialized()
    False
    """
    return _Members.world is not None


def is_backend_available(backend: str) -> bool:
    """Whether MPI is there to serve under a name that PyTorch has for such a library.

    >>> torch.distributed.is_backend_available("pigeons")
    False
    """
    return installed() and backend.lower() in Backend.backend_list[1:]


def is_gloo_available() -> bool:
    """Whether there is Gloo: MPI serves in its place.

    >>> torch.distributed.is_gloo_available() in (True, False)
    True
    """
    return installed()


def is_mpi_available() -> bool:
    """Whether there is MPI.

    >>> torch.distributed.is_mpi_available() in (True, False)
    True
    """
    return installed()


def is_nccl_available() -> bool:
    """Whether there is NCCL: no. `init_process_group("nccl")` is served by MPI all the same.

    >>> torch.distributed.is_nccl_available()
    False
    """
    return False


def is_ucc_available() -> bool:
    """Whether there is UCC: no.

    >>> torch.distributed.is_ucc_available()
    False
    """
    return False


def is_xccl_available() -> bool:
    """Whether there is XCCL: no.

    >>> torch.distributed.is_xccl_available()
    False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher of PyTorch's began this process.

    >>> torch.distributed.is_torchelastic_launched()
    False
    """
    return os.getenv("TORCHELASTIC_RUN_ID") is not None


# ---------------------------------------------------------------- beginning and end


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Meet the other processes, which `mpiexec`, SLURM's `srun` or `python -m nbgrad launch` began together with this one. All of them
    call it before anything else of this module. MPI finds them, whatever `backend` and `init_method` say.

    An exception that ends one process ends all of them from now on, with its traceback. Each large op uses as many threads as the
    cores of the machine allow to each process on it, unless $OMP_NUM_THREADS or `set_num_threads` says otherwise.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.init_process_group("mpi")
    """
    if _Members.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None:
        if init_method is not None:
            raise AssertionError("Cannot specify both init_method and store.")
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    name = Backend("undefined" if backend is None else backend)
    _check_timeout(timeout)
    if not installed():
        raise RuntimeError(MISSING)
    if name == Backend.MPI and (world_size != -1 or rank != -1):
        warn(
            f"For MPI backend, world_size ({world_size}) and rank ({rank}) are ignored since they are assigned by the MPI "
            "runtime."
        )
        world_size = rank = -1
    comm = _everybody(world_size, rank)
    if name not in (Backend.MPI, Backend.UNDEFINED) and comm.Get_rank() == 0:
        warn(f"init_process_group(): MPI serves in place of {name!r}")
    _Members.world = ProcessGroup(comm, range(comm.Get_size()), str(next(_names)), name, timeout or _WAIT)
    _groups.append(_Members.world)
    _share_cores(comm)
    _faults.end_together(comm)


def _check_timeout(timeout: Any) -> None:
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


def _told(names: Sequence[str]) -> tuple[str, int] | None:
    for name in names:
        if os.environ.get(name, "").isdecimal():
            return name, int(os.environ[name])
    return None


def _everybody(size: int, rank: int) -> Any:
    """MPI's world, held against what caller and environment say of it, and numbered as they do."""
    world = mpi().COMM_WORLD
    told = ("world_size", size) if size != -1 else _told(_SIZES)
    found = world.Get_size()
    if told is not None and told[1] != found:
        says = f"MPI has begun {found} process{'es' * (found > 1)}, but {told[0]} says {told[1]}: "
        if told[0] in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"):
            library = mpi().Get_library_version().splitlines()[0]
            raise RuntimeError(
                f"{says}the mpiexec that began this one belongs to another MPI than the library that mpi4py has loaded ({library})"
            )
        raise RuntimeError(
            f"{says}begin them with `mpiexec -n {told[1]} python ...`, `python -m nbgrad launch --nproc {told[1]} ...`, or `srun "
            "--mpi=pmi2 python ...`"
        )
    wanted = ("rank", rank) if rank != -1 else _told(("RANK",))
    comm = world.Split(0, world.Get_rank() if wanted is None else wanted[1])
    if wanted is not None and comm.Get_rank() != wanted[1]:
        raise RuntimeError(
            f"{wanted[0]} says {wanted[1]}, which is not the number of one process of {found} alone"
        )
    return comm


def _share_cores(comm: Any) -> None:
    """Among the processes of a machine, but where a user has said how many threads there are to be."""
    from nbgrad.kernels import launch, products

    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    beside = comm.Split_type(mpi().COMM_TYPE_SHARED)
    every = beside.allgather(mine)
    beside.Free()
    if "OMP_NUM_THREADS" in os.environ or len(every) == 1 or launch.get_num_threads() != len(mine):
        return
    threads = _share(mine, every)
    launch.set_num_threads(threads)
    blas = products.found()
    if blas is not None:
        blas.set_threads(threads)


def _share(mine: set[int], every: Sequence[set[int]]) -> int:
    """How many of this process's cores it has for itself, if each is shared by those that have it: a launcher may have bound them."""
    return max(1, int(sum(Fraction(1, sum(core in theirs for theirs in every)) for core in mine)))


def destroy_process_group(group: Group = None) -> None:
    """Leave a group, or with none given all of them. Every process of it is to come here.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.destroy_process_group()
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    leaving = _Members.world if group is None else group
    if leaving is None:
        raise AssertionError("Process group cannot be None")
    if leaving not in _groups:
        raise ValueError("Invalid process group specified")
    if leaving is not _Members.world:
        _groups.remove(leaving)
        _end(leaving)
        return
    for each in reversed(_groups):
        _end(each)
    _groups.clear()
    _Members.world = None
    _faults.end_alone()
    global _names
    _names = itertools.count()


def _end(group: ProcessGroup) -> None:
    group.ended = True
    group.comm.Free()


# ---------------------------------------------------------------- who is who


def world() -> ProcessGroup:
    found = _Members.world
    if found is None:
        raise ValueError(_NO_GROUP)
    return found


def chosen(group: Group) -> ProcessGroup:
    """The group that a caller means, who is in it."""
    found = world() if group is None else group
    if not isinstance(found, ProcessGroup) or found.ended:
        raise ValueError("Invalid process group specified")
    return found


def is_outside(group: Group) -> bool:
    return isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER


def left_out(group: Group, name: str) -> bool:
    """Whether this process is not in it, which is told."""
    if not is_outside(group):
        return False
    here = -1 if _Members.world is None else _Members.world.rank()
    warn(f"Running {name} on global rank {here} which does not belong to the given group.")
    return True


def number_in(group: Group, there: int | None, here: int | None) -> int:
    """The number in a group of the process that a caller names by its number in the world or in the group."""
    if here is not None:
        if there is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return here
    if there is None:
        raise ValueError("Must specify global_rank or group_rank")
    return get_group_rank(group, there)


def get_rank(group: Group = None) -> int:
    """The number of this process in a group, or in that of all; -1 where it is not in it.

    >>> if torch.distributed.is_initialized():
    ...     print(f"I am process {torch.distributed.get_rank()} of {torch.distributed.get_world_size()}")
    """
    return -1 if is_outside(group) else chosen(group).rank()


def get_world_size(group: Group = None) -> int:
    """How many processes a group has, or that of all; -1 where this one is not in it.

    >>> if torch.distributed.is_initialized():
    ...     print(f"I am process {torch.distributed.get_rank()} of {torch.distributed.get_world_size()}")
    """
    return -1 if is_outside(group) else chosen(group).size()


def get_backend(group: Group = None) -> str:
    """The name by which a group was asked for.

    >>> if torch.distributed.is_initialized():
    ...     print(torch.distributed.get_backend())
    """
    return chosen(group).name()


def get_group_rank(group: Group, global_rank: int) -> int:
    """The number in a group of the process that has `global_rank` in the world.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.get_group_rank(torch.distributed.group.WORLD, 0)
    """
    if group is _Members.world:
        return global_rank
    if group not in _groups:
        raise ValueError(
            f"Group {group} is not registered, please create group with torch.distributed.new_group API"
        )
    if global_rank not in group.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    found: int = group.ranks[global_rank]
    return found


def get_global_rank(group: Group, group_rank: int) -> int:
    """The number in the world of the process that has `group_rank` in a group.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.get_global_rank(torch.distributed.group.WORLD, 0)
    """
    if group is _Members.world:
        return group_rank
    if group not in _groups:
        raise ValueError(
            f"Group {group} is not registered, please create group with torch.distributed.new_group API"
        )
    for there, here in group.ranks.items():
        if here == group_rank:
            return int(there)
    raise ValueError(f"Group rank {group_rank} is not part of group {group}")


def get_process_group_ranks(group: Group) -> list[int]:
    """The numbers in the world of the processes of a group, in its order.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.get_process_group_ranks(None)
    """
    return list(chosen(group).ranks)


def get_pg_count() -> int:
    """How many groups there are.

    >>> torch.distributed.get_pg_count()
    0
    """
    return len(_groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those on its machine, as the launcher told it in $LOCAL_RANK.

    >>> torch.distributed.get_node_local_rank(fallback_rank=0)
    0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, assuming "
        "you are not running in a multi-device context and want the code to run locally instead."
    )


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Group:
    """A group of the processes with these numbers. All processes call it, those too that are not in it, who get
    `GroupMember.NON_GROUP_MEMBER`.

    >>> if torch.distributed.is_initialized():
    ...     first_two = torch.distributed.new_group([0, 1])
    """
    every = world()
    _check_timeout(timeout)
    if use_local_synchronization:
        raise ValueError("MPI backend doesn't support use_local_synchronization=True")
    if ranks is None:
        ranks = range(every.size())
    else:
        ranks = sorted(ranks) if sort_ranks else list(ranks)
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
        if len(ranks) > every.size():
            raise ValueError(
                "the new group's world size should be less or equal to the world size set by init_process_group"
            )
        for each in ranks:
            if not 0 <= each < every.size():
                raise ValueError(
                    f"Rank {each} is out of range. Valid ranks are 0 to {every.size() - 1} (world_size={every.size()})"
                )
    name, inside = str(next(_names)), every.rank() in ranks
    comm = every.comm.Split(*((0, ranks.index(every.rank())) if inside else (mpi().UNDEFINED, 0)))
    if not inside:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(
        comm, ranks, name, every.name() if backend is None else Backend(backend), timeout or every.timeout
    )
    if group_desc is not None:
        made.group_desc = group_desc
    _groups.append(made)
    return made
