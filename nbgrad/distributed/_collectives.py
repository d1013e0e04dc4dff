"""What processes do with their tensors together.

Promises PyTorch's functions: each is one of MPI's, called on the tensors' own memory, at once or (`async_op=True`) begun and waited for
later. What is wrong is refused before anything is sent, in PyTorch's words; what only shows beside what others call, `_matching` finds.
To MPI what is begun and what is done at once are two things: who passes `async_op=True` to a collective passes it on every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.autograd.profiler import beside
from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor, hooks, storage_of
from nbgrad.core.writes import written
from nbgrad.distributed import _matching
from nbgrad.distributed._groups import Group, ProcessGroup, chosen, get_global_rank, left_out, number_in
from nbgrad.distributed._mpi import (
    RedOpType,
    ReduceOp,
    Work,
    mpi,
    reading,
    reduction,
    room,
    seen,
    unrecorded,
    within,
    writing,
)

# ---------------------------------------------------------------- arguments


def _check_tensor(t: Any, name: str) -> None:
    if not isinstance(t, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got {type(t)} instead."
        )


def _check_list(ts: Any, name: str) -> None:
    if not isinstance(ts, list):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(ts)} "
            "instead."
        )
    if not all(isinstance(t, Tensor) for t in ts):
        kinds = [type(t) for t in ts]
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(ts)} "
            f"with elements of type {kinds}."
        )


def _check_dtypes(tensors: Iterable[Tensor]) -> None:
    first, *others = tensors
    for t in others:
        if t.dtype is not first.dtype:
            raise ValueError(
                f"Invalid usage of tensors with different dtypesFound {first.dtype} and  {t.dtype}"
            )


def _size_of(t: Tensor) -> str:
    return f"({', '.join(map(str, t.shape))})"


def _check_alike(name: str, t: Tensor, others: Sequence[Tensor]) -> None:
    for k, other in enumerate(others):
        if other.shape != t.shape:
            raise RuntimeError(
                f"ProcessGroupMPI::{name}: invalid tensor size at index {k} (expected {_size_of(t)}, got {_size_of(other)})"
            )


def _check_root(name: str, group: ProcessGroup, root: int) -> None:
    if not 0 <= root < group.size():
        raise RuntimeError(f"ProcessGroupMPI::{name}: invalid root rank: {root}")


def _root_of_list(
    name: str, kind: str, group: ProcessGroup, parts: Any, there: int | None, inside: int | None
) -> tuple[int, bool]:
    """The process that the list is of (0 if nothing is said), and whether that is this one, which alone must name it."""
    root = number_in(group, 0 if there is None and inside is None else there, inside)
    here = root == group.rank()
    if here and not parts:
        raise ValueError(f"Argument ``{name}_list`` must be specified on {kind} rank.")
    if parts and not here:
        raise ValueError(f"Argument ``{name}_list`` must NOT be specified on non-{kind} ranks.")
    _check_root(name, group, root)
    return root, here


def _check_other(group: ProcessGroup, rank: int, kind: str) -> None:
    if group.rank() == rank:
        raise ValueError(
            f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process."
        )


# ---------------------------------------------------------------- calling MPI


def _run(
    group: ProcessGroup,
    kind: str,
    tensors: list[Tensor],
    call: str,
    args: Callable[[], tuple[Any, ...]],
    async_op: bool,
    finish: Callable[[], None],
    result: list[Tensor],
    alike: Any = "",
) -> Work | None:
    """`kind` and `tensors` are PyTorch's name of it and what has to be alike everywhere, `call` is MPI's."""
    if group.checks:
        _matching.check(group, kind, tensors, f"{alike} async_op={async_op}".lstrip())
    group.count += 1
    end = beside(_ROWS[call], tensors, not async_op)
    if async_op:
        return Work(getattr(group.comm, "I" + call.lower())(*args()), finish, result, end)
    getattr(group.comm, call)(*args())
    unrecorded(finish)
    if end is not None:
        end()
    return None


_ROWS = {  # of a profile
    "Allgather": "mpi:all_gather",
    "Allreduce": "mpi:all_reduce",
    "Alltoallv": "mpi:all_to_all",
    "Barrier": "mpi:barrier",
    "Bcast": "mpi:broadcast",
    "Gather": "mpi:gather",
    "Reduce": "mpi:reduce",
    "Reduce_scatter_block": "mpi:reduce_scatter",
    "Scatter": "mpi:scatter",
}


def _nothing() -> None:
    pass


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Give each process what the tensors of all come to: their sum, or what `op` says. It is written over `tensor`.

    >>> x = torch.ones(2)
    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.all_reduce(x)  # of 4 processes each has tensor([4., 4.])
    """
    _check_tensor(tensor, "tensor")
    if left_out(group, "all_reduce"):
        return None
    group = chosen(group)
    combine = reduction(op, tensor.dtype)
    place, bring = writing(tensor, whole=False)

    def finish() -> None:
        if op is RedOpType.AVG:
            place.detach().div_(group.size())
        bring()

    return _run(
        group,
        "ALLREDUCE",
        [tensor],
        "Allreduce",
        lambda: (mpi().IN_PLACE, seen(place), combine),
        async_op,
        finish,
        [tensor],
        op,
    )


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """As `all_reduce`, of which process `dst` alone gets the result.

    >>> x = torch.ones(2)
    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.reduce(x, dst=0)
    """
    if left_out(group, "reduce"):
        return None
    group = chosen(group)
    root = number_in(group, dst, group_dst)
    _check_tensor(tensor, "tensor")
    _check_root("reduce", group, root)
    combine = reduction(op, tensor.dtype)
    here = root == group.rank()
    place, bring = writing(tensor, whole=False) if here else (reading(tensor), _nothing)

    def finish() -> None:
        if here and op is RedOpType.AVG:
            place.detach().div_(group.size())
        bring()

    def args() -> tuple[Any, ...]:
        return (*((mpi().IN_PLACE, seen(place)) if here else (seen(place), None)), combine, root)

    return _run(group, "REDUCE", [tensor], "Reduce", args, async_op, finish, [tensor], (op, root))


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each process what `tensor` is on process `src`.

    >>> x = torch.rand(2)
    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.broadcast(x, src=0)  # now all have the numbers of process 0
    """
    if left_out(group, "broadcast"):
        return None
    group = chosen(group)
    root = number_in(group, src, group_src)
    _check_tensor(tensor, "tensor")
    _check_root("broadcast", group, root)
    here = root == group.rank()
    place, bring = (reading(tensor), _nothing) if here else writing(tensor)
    return _run(
        group,
        "BROADCAST",
        [tensor],
        "Bcast",
        lambda: (seen(place), root),
        async_op,
        bring,
        [tensor],
        root,
    )


def _are_parts(ts: Sequence[Tensor]) -> bool:
    """Whether tensors lie one after the other in one memory, as those that `chunk` gives do."""
    end = None
    for t in ts:
        sp = t._spec
        if not (sp.contiguous and t.is_cpu) or storage_of(t) is not storage_of(ts[0]):
            return False
        start = sp.backend.address(t._buf)
        if end is not None and start != end:
            return False
        end = start + sp.numel * sp.itemsize
    return True


def _writing_all(ts: Sequence[Tensor]) -> tuple[Tensor, Callable[[], None]]:
    """One memory for all of them, which are alike or not."""
    counts = [t.numel() for t in ts]
    if _are_parts(ts):
        return ts[0], lambda: written(ts[0])
    places = [writing(t) for t in ts]  # refuses what cannot be written to
    whole = room(sum(counts), ts[0].dtype)

    def bring() -> None:
        for (place, each), part in zip(places, whole.split(counts)):
            place.detach().copy_(part.view(place.shape))
            each()

    return whole, bring


def _reading_all(ts: Sequence[Tensor]) -> Tensor:
    if _are_parts(ts):
        return ts[0]
    with no_grad():
        return hooks.cat([reading(t).detach().reshape(-1) for t in ts])


def _gathered(
    group: ProcessGroup,
    kind: str,
    tensor: Tensor,
    place: tuple[Tensor, Callable[[], None]],
    async_op: bool,
    result: list[Tensor],
) -> Work | None:
    """The tensors of all processes, one after the other in the place."""
    source, (whole, bring) = reading(tensor), place
    count = tensor.numel()
    return _run(
        *(group, kind, [tensor], "Allgather"),
        lambda: (seen(source), seen(whole, 0, count)),
        async_op,
        bring,
        result,
    )


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """Give each process the tensors of all, in `tensor_list`, by the numbers of the processes.

    >>> if torch.distributed.is_initialized():
    ...     parts = [torch.empty(2) for _ in range(torch.distributed.get_world_size())]
    ...     torch.distributed.all_gather(parts, torch.ones(2))
    """
    _check_list(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    _check_dtypes([*tensor_list, tensor])
    if left_out(group, "all_gather"):
        return None
    group = chosen(group)
    if len(tensor_list) != group.size():
        raise RuntimeError(
            f"ProcessGroupMPI::allgather: invalid output tensor list at index 0 (expected length {group.size()}, got "
            f"{len(tensor_list)})"
        )
    _check_alike("allgather", tensor, tensor_list)
    return _gathered(group, "ALLGATHER", tensor, _writing_all(tensor_list), async_op, tensor_list)


def all_gather_single(
    output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """As `all_gather`, into one tensor: the others' one after the other along the first dimension, or in a new one.

    >>> if torch.distributed.is_initialized():
    ...     all_of_them = torch.empty(2 * torch.distributed.get_world_size())
    ...     torch.distributed.all_gather_single(all_of_them, torch.ones(2))
    """
    _check_tensor(input_tensor, "input_tensor")
    _check_tensor(output_tensor, "output_tensor")
    if left_out(group, "all_gather_single"):
        return None
    group = chosen(group)
    if output_tensor.dtype is not input_tensor.dtype:
        raise TypeError("output tensor must have the same type as input tensor")
    if output_tensor.numel() != input_tensor.numel() * group.size():
        raise ValueError("output tensor size must be equal to world_size times input tensor size")
    return _gathered(
        group, "_ALLGATHER_BASE", input_tensor, writing(output_tensor), async_op, [output_tensor]
    )


def _is_old(name: str, now: str) -> None:
    warn(
        f"`torch.distributed.{name}` is deprecated. Please use `torch.distributed.{now}` instead.",
        FutureWarning,
    )


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Group = None, async_op: bool = False
) -> Work | None:
    """The former name of `all_gather_single`.

    >>> if torch.distributed.is_initialized():
    ...     all_of_them = torch.empty(2 * torch.distributed.get_world_size())
    ...     torch.distributed.all_gather_into_tensor(all_of_them, torch.ones(2))
    """
    _is_old("all_gather_into_tensor", "all_gather_single")
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Give process `dst` (0 if nothing is said) the tensors of all, in its `gather_list`.

    >>> if torch.distributed.is_initialized():
    ...     first = torch.distributed.get_rank() == 0
    ...     parts = [torch.empty(2) for _ in range(torch.distributed.get_world_size())] if first else None
    ...     torch.distributed.gather(torch.ones(2), parts)
    """
    _check_tensor(tensor, "tensor")
    parts = gather_list or []
    if parts:
        _check_list(parts, "gather_list")
    _check_dtypes([tensor, *parts])
    if left_out(group, "gather"):
        return None
    group = chosen(group)
    root, here = _root_of_list("gather", "destination", group, parts, dst, group_dst)
    _check_count("gather", "output", parts, group, here)
    _check_alike("gather", tensor, parts)
    source = reading(tensor)
    whole, bring = _writing_all(parts) if here else (tensor, _nothing)
    count = tensor.numel()
    return _run(
        group,
        "GATHER",
        [tensor],
        "Gather",
        lambda: (seen(source), seen(whole, 0, count) if here else None, root),
        async_op,
        bring,
        parts,
        root,
    )


def _check_count(name: str, kind: str, ts: Sequence[Tensor], group: ProcessGroup, here: bool) -> None:
    if here and len(ts) != group.size():
        raise RuntimeError(
            f"ProcessGroupMPI::{name}: Incorrect {kind} list size {len(ts)}. {kind.capitalize()} list size should be "
            f"{group.size()}, same as size of the process group."
        )


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each process the tensor for it in the `scatter_list` of process `src` (0 if nothing is said).

    >>> x = torch.empty(2)
    >>> if torch.distributed.is_initialized():
    ...     first = torch.distributed.get_rank() == 0
    ...     torch.distributed.scatter(x, list(torch.rand(torch.distributed.get_world_size(), 2)) if first else None)
    """
    _check_tensor(tensor, "tensor")
    parts = scatter_list or []
    if parts:
        _check_list(parts, "scatter_list")
    _check_dtypes([tensor, *parts])
    if left_out(group, "scatter"):
        return None
    group = chosen(group)
    root, here = _root_of_list("scatter", "source", group, parts, src, group_src)
    _check_count("scatter", "input", parts, group, here)
    _check_alike("scatter", tensor, parts)
    whole = _reading_all(parts) if here else tensor
    place, bring = writing(tensor)
    count = tensor.numel()
    return _run(
        group,
        "SCATTER",
        [tensor],
        "Scatter",
        lambda: (seen(whole, 0, count) if here else None, seen(place), root),
        async_op,
        bring,
        [tensor],
        root,
    )


def _reduce_scatter(
    group: ProcessGroup,
    kind: str,
    output: Tensor,
    inputs: list[Tensor],
    whole: Tensor,
    op: Any,
    async_op: bool,
) -> Work | None:
    combine = reduction(op, output.dtype)
    place, bring = writing(output)
    count = output.numel()

    def finish() -> None:
        if op is RedOpType.AVG:
            place.detach().div_(group.size())
        bring()

    return _run(
        group,
        kind,
        inputs,
        "Reduce_scatter_block",
        lambda: (seen(whole, 0, count), seen(place), combine),
        async_op,
        finish,
        [output],
        op,
    )


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Give process k what the k-th tensors of all lists come to.

    >>> if torch.distributed.is_initialized():
    ...     parts = [torch.ones(2) for _ in range(torch.distributed.get_world_size())]
    ...     torch.distributed.reduce_scatter(torch.empty(2), parts)
    """
    _check_tensor(output, "output")
    _check_list(input_list, "input_list")
    _check_dtypes([output, *input_list])
    if left_out(group, "reduce_scatter"):
        return None
    group = chosen(group)
    if len(input_list) != group.size():
        raise RuntimeError("invalid input tensor list size, must be world size")
    _check_alike("reduce_scatter", output, input_list)
    return _reduce_scatter(
        group, "REDUCE_SCATTER", output, input_list, _reading_all(input_list), op, async_op
    )


def reduce_scatter_single(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """As `reduce_scatter` of one tensor, whose k-th part along the first dimension is for process k.

    >>> if torch.distributed.is_initialized():
    ...     everything = torch.ones(2 * torch.distributed.get_world_size())
    ...     torch.distributed.reduce_scatter_single(torch.empty(2), everything)
    """
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    if left_out(group, "reduce_scatter_single"):
        return None
    group = chosen(group)
    if input.dtype is not output.dtype:
        raise TypeError("input tensor must be the same type as the output tensor.")
    if input.numel() != output.numel() * group.size():
        raise ValueError("input tensor must be the same size as output size times world size")
    return _reduce_scatter(group, "_REDUCE_SCATTER_BASE", output, [input], reading(input), op, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """The former name of `reduce_scatter_single`.

    >>> if torch.distributed.is_initialized():
    ...     everything = torch.ones(2 * torch.distributed.get_world_size())
    ...     torch.distributed.reduce_scatter_tensor(torch.empty(2), everything)
    """
    _is_old("reduce_scatter_tensor", "reduce_scatter_single")
    return reduce_scatter_single(output, input, op, group, async_op)


def _shares(t: Tensor, sizes: Sequence[int] | None, group: ProcessGroup) -> list[int]:
    """How many elements of `t` are whose."""
    n = group.size()
    if not sizes:
        if t.ndim == 0 or t.shape[0] % n:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        return [t.numel() // n] * n
    if len(sizes) != n:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if t.ndim == 0 or sum(sizes) != t.shape[0] or min(sizes) < 0:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    row = t.numel() // t.shape[0] if t.shape[0] else 0
    return [size * row for size in sizes]


def _starts(counts: Sequence[int]) -> list[int]:
    return [sum(counts[:k]) for k in range(len(counts))]


def _exchange(
    group: ProcessGroup,
    kind: str,
    alike: list[Tensor],
    whole: Tensor,
    bring: Callable[[], None],
    got: list[int],
    source: Tensor,
    sent: list[int],
    async_op: bool,
    result: list[Tensor],
) -> Work | None:
    def args() -> tuple[Any, ...]:
        out, into = seen(source), seen(whole)
        return [out[0], sent, _starts(sent), out[2]], [into[0], got, _starts(got), into[2]]

    return _run(group, kind, alike, "Alltoallv", args, async_op, bring, result)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Give each process its part of everybody's `input`: the first dimension is cut into as many parts as there are processes, of the
    same length or of those that the sizes say.

    >>> if torch.distributed.is_initialized():
    ...     n = torch.distributed.get_world_size()
    ...     torch.distributed.all_to_all_single(torch.empty(n), torch.arange(float(n)))
    """
    if left_out(group, "all_to_all_single"):
        return None
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    _check_dtypes([output, input])
    group = chosen(group)
    got, sent = _shares(output, output_split_sizes, group), _shares(input, input_split_sizes, group)
    even = not output_split_sizes and not input_split_sizes
    source, (whole, bring) = reading(input), writing(output)
    return _exchange(
        group,
        "ALLTOALL_BASE",
        [input] if even else [],
        whole,
        bring,
        got,
        source,
        sent,
        async_op,
        [output],
    )


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Give each process its tensor of everybody's list.

    >>> if torch.distributed.is_initialized():
    ...     mine = [torch.ones(2) for _ in range(torch.distributed.get_world_size())]
    ...     torch.distributed.all_to_all([torch.empty(2) for _ in mine], mine)
    """
    if left_out(group, "all_to_all"):
        return None
    _check_list(output_tensor_list, "output_tensor_list")
    _check_list(input_tensor_list, "input_tensor_list")
    _check_dtypes([*output_tensor_list, *input_tensor_list])
    group = chosen(group)
    for kind, ts in (("input", input_tensor_list), ("output", output_tensor_list)):
        if len(ts) != group.size():
            raise RuntimeError(
                f"ProcessGroupMPI::alltoall: {kind} tensor list size {len(ts)} does not match world size {group.size()}"
            )
    whole, bring = _writing_all(output_tensor_list)
    source = _reading_all(input_tensor_list)
    got, sent = ([t.numel() for t in ts] for ts in (output_tensor_list, input_tensor_list))
    return _exchange(group, "ALLTOALL", [], whole, bring, got, source, sent, async_op, output_tensor_list)


def barrier(
    group: Group = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Wait here until all processes have come here.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.barrier()
    """
    if left_out(group, "barrier"):
        return None
    return _run(chosen(group), "BARRIER", [], "Barrier", tuple, async_op, _nothing, [])


def monitored_barrier(
    group: Group = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """As `barrier`, for as long as `timeout` says: then it is an error that not all have come.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.monitored_barrier()
    """
    if left_out(group, "monitored_barrier"):
        return
    group = chosen(group)
    seconds = (group.timeout if timeout is None else timeout).total_seconds()
    if not within(group.comm.Ibarrier(), seconds):
        raise RuntimeError(
            f"Rank {group.rank()}: monitoredBarrier did not see all ranks within {int(seconds * 1000)} ms"
        )


# ---------------------------------------------------------------- from one to another


def _check_peer(name: str, kind: str, group: ProcessGroup, rank: int) -> None:
    if not 0 <= rank < group.size():
        raise RuntimeError(f"ProcessGroupMPI::{name}: invalid {kind} rank: {rank}")


def isend(
    tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send a tensor to process `dst`, which receives it as `recv` with the same `tag`.

    >>> if torch.distributed.is_initialized() and torch.distributed.get_rank() == 0:
    ...     torch.distributed.isend(torch.ones(2), dst=1).wait()
    """
    if left_out(group, "isend"):
        return None
    group = chosen(group)
    to = number_in(group, dst, group_dst)
    _check_tensor(tensor, "tensor")
    _check_peer("send", "destination", group, to)
    source = reading(tensor)
    end = beside("mpi:send", [tensor])
    return Work(group.comm.Isend(seen(source), to, tag), _nothing, [tensor], end)


def irecv(
    tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begin to receive a tensor from process `src`, or from whoever sends first.

    >>> if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
    ...     torch.distributed.irecv(torch.empty(2), src=0).wait()
    """
    _check_tensor(tensor, "tensor")
    if left_out(group, "irecv"):
        return None
    group = chosen(group)
    anyone = src is None and group_src is None
    whence = mpi().ANY_SOURCE if anyone else number_in(group, src, group_src)
    if not anyone:
        _check_peer("recv", "source", group, whence)
    place, bring = writing(tensor)
    end = beside("mpi:recv", [tensor])
    return Work(group.comm.Irecv(seen(place), whence, tag), bring, [tensor], end)


def send(
    tensor: Tensor, dst: int | None = None, group: Group = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to process `dst`, which receives it as `recv` with the same `tag`.

    >>> if torch.distributed.is_initialized() and torch.distributed.get_rank() == 0:
    ...     torch.distributed.send(torch.ones(2), dst=1)
    """
    if left_out(group, "send"):
        return
    _check_other(chosen(group), number_in(chosen(group), dst, group_dst), "destination")
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from process `src`, or from whoever sends first; who that was is given back.

    >>> if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
    ...     torch.distributed.recv(torch.empty(2), src=0)
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    if src is not None:
        return src
    group = chosen(group)
    here = work.source_rank() if group_src is None else group_src
    return get_global_rank(group, here)


class P2POp:
    """A sending or receiving that `batch_isend_irecv` is to begin.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.P2POp(torch.distributed.isend, torch.ones(2), peer=1)
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Group = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        _check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, chosen(group), tag
        self.group_peer = number_in(self.group, peer, group_peer)
        self.peer = get_global_rank(self.group, self.group_peer)


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin all of these sendings and receivings.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.batch_isend_irecv([torch.distributed.P2POp(torch.distributed.isend, torch.ones(2), 1)])
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``."
        )
    if not all(each.group is p2p_op_list[0].group for each in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    key = {isend: "group_dst", irecv: "group_src"}
    begun = [
        each.op(each.tensor, group=each.group, tag=each.tag, **{key[each.op]: each.group_peer})
        for each in p2p_op_list
    ]
    return [work for work in begun if work is not None]
