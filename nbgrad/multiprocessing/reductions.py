"""How tensors and storages go from process to process: as handles of shared memory, which `multiprocessing` pickles by what is registered
here.

Promises that what is received lies inside of the memory that was sent, however the handle was made, and that the same memory received twice
is one memory.
"""

from __future__ import annotations

import warnings
import weakref
from multiprocessing import reduction, resource_sharer  # noqa: F401  before a fork: a child must not begin in the middle of an import
from typing import Any

from nbgrad.core.tensor import Tensor, requires
from nbgrad.exchange.files.tensors import rebuild_meta
from nbgrad.exchange.files.tensors import rebuild_tensor as rebuild_stored
from nbgrad.memory import backend, shared
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Storage
from nbgrad.nn.parameter import Parameter
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.host.typed import TypedStorage


class StorageWeakRef:
    """Tells whether a storage's memory is still there; equal for storages of one memory."""

    __slots__ = ("_memory", "cdata")

    def __init__(self, storage: Any) -> None:
        self._memory = weakref.ref(getattr(storage, "_untyped_storage", storage)._record.memory)
        self.cdata: int = storage._cdata

    def expired(self) -> bool:
        """Whether nobody has the memory any more."""
        return self._memory() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


# ---------------------------------------------------------------- storages


def reduce_storage(storage: UntypedStorage) -> Any:
    """A handle of a storage, whose memory is shared by it."""
    if storage.is_cuda:
        raise RuntimeError("Cannot pickle CUDA storage; try pickling a CUDA tensor instead")
    if storage.device.type == "meta":
        raise RuntimeError("Cannot pickle meta storage; try pickling a meta tensor instead")
    if not len(storage):
        return rebuild_storage_empty, (UntypedStorage,)
    storage.share_memory_()
    mapping: Any = shared.mapping_of(storage._record.memory)
    start = storage.data_ptr() - mapping.__array_interface__["data"][0]
    (whole,) = mapping.__array_interface__["shape"]
    if mapping.name is not None:
        shared.add(mapping.name)
        return rebuild_storage_filename, (UntypedStorage, mapping.name, whole, start, len(storage))
    if mapping.fd < 0:  # a file of which this process has its own pages
        copy = UntypedStorage._new_shared(len(storage)).copy_(storage)
        return reduce_storage(copy)
    return rebuild_storage_fd, (UntypedStorage, reduction.DupFd(mapping.fd), whole, start, len(storage))


def rebuild_storage_empty(cls: type) -> UntypedStorage:
    """One of no bytes."""
    return UntypedStorage()


def rebuild_storage_fd(cls: type, df: Any, whole: int, start: int, size: int) -> UntypedStorage:
    """The storage of a file that was sent."""
    return _part(shared.opened(df.detach(), whole), start, size)


def rebuild_storage_filename(cls: type, name: str, whole: int, start: int, size: int) -> UntypedStorage:
    """The storage of a name that was sent."""
    return _part(shared.named(name, whole), start, size)


def _part(memory: Any, start: int, size: int) -> UntypedStorage:
    if not 0 <= start <= start + size <= len(memory):
        raise RuntimeError(f"bytes {start} to {start + size} of a storage of {len(memory)}")
    return UntypedStorage._of(Storage(memory if size == len(memory) else memory[start : start + size]))


def reduce_typed_storage(storage: TypedStorage) -> Any:
    """Its bytes and its dtype."""
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def rebuild_typed_storage(storage: UntypedStorage, dtype: dtype) -> TypedStorage:
    """The one of these."""
    return TypedStorage._of(storage, dtype)


# ---------------------------------------------------------------- tensors


def reduce_tensor(tensor: Tensor) -> Any:
    """A handle of a tensor, whose memory is shared by it; on a GPU, its numbers."""
    if requires(tensor) and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing process "
            "boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing (e.g., putting it on the "
            "queue)."
        )
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the function with "
                "@torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )
    if tensor.is_meta:
        size = tuple(tensor.shape), tuple(tensor.stride())
        return rebuild_meta_tensor, (type(tensor), *size, tensor.dtype, requires(tensor))
    if backend.of_memory(tensor._buf) is not backend.cpu:
        return tensor.__reduce_ex__(2)
    place = (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), requires(tensor))
    return rebuild_tensor, (type(tensor), tensor.untyped_storage(), tensor.dtype, place)


def rebuild_tensor(cls: type, storage: UntypedStorage, dtype: dtype, place: Any) -> Tensor:
    """The tensor over a storage that was sent, all of which it must lie in."""
    offset, size, stride, requires_grad = place
    t = rebuild_stored(rebuild_typed_storage(storage, dtype), offset, size, stride, False, None)
    t._storage = Storage(storage._record.memory)  # each counts its own writes
    return _of_class(cls, t, requires_grad)


def rebuild_meta_tensor(cls: type, size: Any, stride: Any, dtype: dtype, requires_grad: bool) -> Tensor:
    """A tensor that has no memory."""
    return _of_class(cls, rebuild_meta(dtype, size, stride, False), requires_grad)


def _of_class(cls: type, t: Tensor, requires_grad: bool) -> Tensor:
    if issubclass(cls, Parameter):
        return Parameter(t, requires_grad)
    return t.requires_grad_(requires_grad)


def init_reductions() -> None:
    """Let `multiprocessing` send tensors so."""
    reduction.register(UntypedStorage, reduce_storage)
    reduction.register(TypedStorage, reduce_typed_storage)
    reduction.register(Tensor, reduce_tensor)
    reduction.register(Parameter, reduce_tensor)
