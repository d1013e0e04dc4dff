"""What processes do together with objects that pickle can carry. Only for those that trust each other: who unpickles runs what he got."""

from __future__ import annotations

from typing import Any

from nbgrad.distributed._collectives import _check_other, _check_root, _root_of_list
from nbgrad.distributed._groups import Group, chosen, get_global_rank, left_out, number_in


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Give each process the objects of all, in `object_list`, by the numbers of the processes.

    >>> if torch.distributed.is_initialized():
    ...     found = [None] * torch.distributed.get_world_size()
    ...     torch.distributed.all_gather_object(found, {"any": "object"})
    """
    if not left_out(group, "all_gather_object"):
        for k, found in enumerate(chosen(group).comm.allgather(obj)):
            object_list[k] = found


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Give process `dst` (0 if nothing is said) the objects of all, in its `object_gather_list`.

    >>> if torch.distributed.is_initialized():
    ...     found = [None] * torch.distributed.get_world_size() if torch.distributed.get_rank() == 0 else None
    ...     torch.distributed.gather_object("any object", found)
    """
    if left_out(group, "gather_object"):
        return
    group = chosen(group)
    root, _ = _root_of_list("gather", "destination", group, object_gather_list, dst, group_dst)
    got = group.comm.gather(obj, root)
    for k, found in enumerate(got or ()):
        object_gather_list[k] = found  # type: ignore[index]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give each process the objects that are in the list of process `src` (0 if nothing is said).

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.broadcast_object_list(["any object", 2], src=0)
    """
    if left_out(group, "broadcast_object_list"):
        return
    group = chosen(group)
    root = number_in(group, 0 if src is None and group_src is None else src, group_src)
    _check_root("broadcast", group, root)
    got = group.comm.bcast(object_list, root)
    if root != group.rank():
        object_list[:] = got[: len(object_list)]


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Give each process, as the first of its output list, the object for it in the input list of process `src`.

    >>> if torch.distributed.is_initialized():
    ...     torch.distributed.scatter_object_list([None], list(range(torch.distributed.get_world_size())))
    """
    if left_out(group, "scatter_object_list"):
        return
    group = chosen(group)
    root = number_in(group, 0 if src is None and group_src is None else src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    here = root == group.rank()
    if here and scatter_object_input_list is None:
        raise ValueError("source rank must provide non-None scatter_object_input_list")
    _check_root("scatter", group, root)
    if here and len(scatter_object_input_list or ()) != group.size():
        raise RuntimeError(
            f"ProcessGroupMPI::scatter: Incorrect input list size {len(scatter_object_input_list or ())}. Input list size should be "
            f"{group.size()}, same as size of the process group."
        )
    scatter_object_output_list[0] = group.comm.scatter(scatter_object_input_list if here else None, root)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Group = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to process `dst`, which receives them as `recv_object_list`.

    >>> if torch.distributed.is_initialized() and torch.distributed.get_rank() == 0:
    ...     torch.distributed.send_object_list(["any object"], dst=1)
    """
    if left_out(group, "send_object_list"):
        return
    group = chosen(group)
    to = number_in(group, dst, group_dst)
    _check_other(group, to, "destination")
    group.comm.send(object_list, to)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects from process `src`, who is given back.

    >>> if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
    ...     torch.distributed.recv_object_list([None], src=0)
    """
    if left_out(group, "recv_object_list"):
        return -1
    group = chosen(group)
    whence = number_in(group, src, group_src)
    _check_other(group, whence, "source")
    got = group.comm.recv(source=whence)
    object_list[:] = got[: len(object_list)]
    return get_global_rank(group, whence)
