"""PyTorch's path to small helpers that libraries read, and to the functions that its pickles name: what `pickle.dumps` of a torch
tensor wrote is read where nbgrad answers to `torch`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.exchange.files import tensors
from nbgrad.memory import gpu
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.ops.views.join import cat

_rebuild_tensor_v2 = tensors.rebuild_tensor
_rebuild_tensor_v3 = tensors.rebuild_tensor_of
_rebuild_sparse_tensor = tensors.rebuild_sparse
_rebuild_wrapper_subclass = tensors.rebuild_wrapper
_rebuild_meta_tensor_no_storage = tensors.rebuild_meta
_rebuild_parameter = tensors.rebuild_parameter
_rebuild_parameter_with_state = tensors.rebuild_parameter_with_state


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors in one row, which `_unflatten_dense_tensors` takes apart.

    >>> torch._utils._flatten_dense_tensors([torch.ones(2, 1), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    rows = [t.reshape(-1) for t in tensors]
    return rows[0] if len(rows) == 1 else cat(rows)


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a row, shaped as `tensors` are.

    >>> torch._utils._unflatten_dense_tensors(torch.arange(3), [torch.ones(2, 1), torch.zeros(1)])
    (tensor([[0],
            [1]]), tensor([2]))
    """
    found, start = [], 0
    for t in tensors:
        n = t.numel()
        found.append(flat.narrow(0, start, n).view(t.shape) if n else flat.new_empty(0))
        start += n
    return tuple(found)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Tensors of one type at a time, in groups of at most `size_limit` bytes unless one alone has more.

    >>> [len(group) for group in torch._utils._take_tensors([torch.ones(4)] * 3, 32)]
    [2, 1]
    """
    groups: dict[str, list[Tensor]] = defaultdict(list)
    for t in tensors:
        group = groups[t.type()]
        if group and sum(g.nbytes for g in group) + t.nbytes > size_limit:
            yield group
            group = groups[t.type()] = []
        group.append(t)
    yield from filter(None, groups.values())


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """`tensors`, which come type by type, as their types come in `ordered_tensors`.

    >>> torch._utils._reorder_tensors_as([torch.ones(1), torch.tensor(2)], [torch.tensor(0), torch.ones(1)])
    (tensor(2), tensor([1.]))
    """
    groups: dict[str, list[Tensor]] = defaultdict(list)
    for t in tensors:
        groups[t.type()].append(t)
    each = {kind: iter(group) for kind, group in groups.items()}
    return tuple(next(each[t.type()]) for t in ordered_tensors)


def _element_size(dtype: _dtype) -> int:
    """Bytes of an element.

    >>> torch._utils._element_size(torch.float64)
    8
    """
    if not isinstance(dtype, _dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_available_device_type() -> str | None:
    """The kind of accelerator that can be used, or None."""
    return "cuda" if gpu.device_count() else None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device that is named with it; of the CPU -1 where that is allowed, of others None where it may be missing.

    >>> torch._utils._get_device_index("cuda:1")
    1
    """
    if isinstance(device, int):
        return device
    where = _device(device) if isinstance(device, str) else device
    if isinstance(where, _device):
        if where.type == "cpu":
            if not allow_cpu:
                raise ValueError(f"Expected a non cpu device, but got: {device}")
            return -1
        if where.index is not None:
            return where.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return None


def _import_dotted_name(name: str) -> Any:
    """What a name with dots stands for.

    >>> torch._utils._import_dotted_name("math.pi")
    3.141592653589793
    """
    first, *rest = name.split(".")
    found: Any = import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


class classproperty:
    """A property of a class, read without an instance."""

    def __init__(self, func: Any) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)


__all__ = ["classproperty"]
