"""Storages: the memory behind tensors as users see it, and a tensor that reads another memory.

Promises that of one memory there is one `UntypedStorage` for as long as somebody has it, that what it reads and writes lies inside of the
memory, and that no write of its counts as one to a tensor.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nbgrad.core.op import Op
from nbgrad.core.signatures import check, kind_name
from nbgrad.core.tensor import Tensor, empty, move, requires, storage_of, wrap
from nbgrad.core.writes import check_write
from nbgrad.dispatch.stanza import method
from nbgrad.history.record import written_by
from nbgrad.memory import backend, dtypes, gpu, pinned
from nbgrad.memory.device import cpu, device, settled
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.storage import Spec, Storage, spec
from nbgrad.ops.host import resizing
from nbgrad.ops.host.resizing import FIXED, check_sizes, is_mapped, lay
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- storages


class UntypedStorage:
    """The memory behind tensors, in bytes: so many new ones, or those of a sequence.

    >>> torch.UntypedStorage([1, 2, 3]).tolist()
    [1, 2, 3]
    """

    __module__ = "nbgrad.storage"  # where PyTorch shows it
    is_sparse = is_sparse_csr = is_hpu = False
    _record: Storage

    def __init__(self, *args: Any, **named: Any) -> None:
        check("inner.UntypedStorage", args, named)
        serves = backend.of(settled(_device(named.get("device") or "cpu")))
        first = args[0] if args else named.get("size", named.get("sequence", 0))
        size = _as_size(first)
        self._record = Storage(serves.from_host(_listed(first)) if size is None else serves.empty(size))
        resizing.shown[id(self._record.memory)] = self

    @classmethod
    def _of(cls, record: Storage) -> UntypedStorage:
        """What is seen of a record's memory."""
        memory = record.memory
        found: UntypedStorage | None = resizing.shown.get(id(memory))
        if found is None or found._record.memory is not memory:
            found = UntypedStorage.__new__(UntypedStorage)
            found._record = record
            resizing.shown[id(memory)] = found
        return found

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        dtype: Any = None,
    ) -> UntypedStorage:
        """A copy of `count` elements of a `dtype`, or of all, that lie in a buffer from a place on in "little", "big" or "native" order of
        bytes.

        >>> torch.UntypedStorage.from_buffer(b"\\1\\2\\3\\4", "big", dtype=torch.int16).tolist()
        [2, 1, 4, 3]
        """
        if dtype is None:
            raise RuntimeError("argument 'dtype' cannot be None")
        if not isinstance(dtype, _dtype):
            raise RuntimeError("argument 'dtype' must be of type torch.dtype")
        swaps = False
        if dtype not in (dtypes.uint8, dtypes.int8):
            if byte_order is None:
                raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
            if byte_order not in ("big", "little", "native"):
                raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
            swaps = byte_order not in (sys.byteorder, "native")
        try:
            memoryview(buffer)
        except TypeError:
            raise TypeError(f"a bytes-like object is required, not '{type(buffer).__name__}'") from None
        data = np.frombuffer(memoryview(buffer).cast("B"), np.uint8) if len(buffer) else np.empty(0, np.uint8)
        step = dtype.itemsize
        if not 0 <= offset <= len(data):
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({offset}) , but got {len(data)}"
            )
        if count < 0:
            if (len(data) - offset) % step:
                raise ValueError(f"buffer size ({len(data)}) must be a multiple of element size ({step})")
            count = (len(data) - offset) // step
        if offset + count * step > len(data):
            raise ValueError(
                f"buffer has only {len(data) - offset} elements after offset {offset}, but specified a size of {count}"
            )
        made = UntypedStorage._of(Storage(data[offset : offset + count * step].copy()))
        if dtype is dtypes.bool_:
            np.minimum(made._record.memory, 1, out=made._record.memory)
        if swaps:
            made.byteswap(dtype)
        return made

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file, read as they are touched: what is written goes to the file if `shared`, which is then made as long as
        `nbytes`, and to this process alone if not.

        >>> with open("bytes.bin", "wb") as file:
        ...     _ = file.write(bytes([1, 2, 3]))
        >>> torch.UntypedStorage.from_file("bytes.bin", nbytes=2).tolist()
        [1, 2]
        """
        from nbgrad.memory import shared as _shared

        name = os.fspath(filename)
        try:
            if shared:
                with open(name, "ab") as file:
                    if file.tell() < nbytes:
                        file.truncate(nbytes)
            there = os.stat(name).st_size
        except OSError as error:
            mode = "read-write" if shared else "read-only"
            raise RuntimeError(
                f"unable to open file <{name}> in {mode} mode: {error.strerror} ({error.errno})"
            ) from None
        if nbytes > there:
            raise RuntimeError(
                f"file <{name}> size <{there}> is smaller than the required mapping size <{nbytes}>"
            )
        if not nbytes:
            return cls(0)
        return UntypedStorage._of(Storage(_shared.of_file(name, nbytes, shared)))

    @property
    def filename(self) -> str | None:
        """The file that it writes to, if it is mapped and shared."""
        mapping = self._mapping()
        return None if mapping is None else mapping.filename

    def _mapping(self) -> Any:
        if not is_mapped(self._record.memory) and not isinstance(self._record.memory, np.ndarray):
            return None
        from nbgrad.memory import shared

        return shared.mapping_of(self._record.memory)

    @property
    def device(self) -> device:
        """Where the memory is."""
        return backend.of_memory(self._record.memory).device

    @property
    def is_cuda(self) -> bool:
        """Whether a GPU has it."""
        return self.device.type == "cuda"

    @property
    def _cdata(self) -> int:
        return id(self._record.memory)

    def get_device(self) -> int | None:
        """The number of the GPU that has it; None on the CPU."""
        return self.device.index

    def data_ptr(self) -> int:
        """The address of the memory; 0 where there is none."""
        memory = self._record.memory
        serves = backend.of_memory(memory)
        return serves.address(memory) if len(memory) and serves.holds else 0

    def nbytes(self) -> int:
        """How many bytes it has."""
        return len(self._record.memory)

    size = __len__ = nbytes

    def element_size(self) -> int:
        """How many bytes one of its elements takes: 1."""
        return 1

    # ------------------------------------------------ elements

    def _bytes(self) -> np.ndarray[Any, Any]:
        """The CPU's memory as it is, of another device's a copy."""
        memory = self._record.memory
        return backend.of_memory(memory).bytes_of(memory, len(memory))

    def _part(self, index: slice) -> tuple[int, int]:
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
        return start, max(start, stop)

    def __getitem__(self, index: Any) -> Any:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(index, slice):
            start, stop = self._part(index)
            record = Storage(self._record.memory[start:stop])
            record.lent = True  # the whole must stay where it is
            return UntypedStorage._of(record)
        if isinstance(index, builtins.bool) or not isinstance(index, (int, np.integer)):
            raise TypeError(f"can't index a torch.UntypedStorage with {kind_name(index)}")
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"index {place} out of range for storage of size {len(self)}")
        memory = self._record.memory
        return int(backend.of_memory(memory).bytes_of(memory[place : place + 1], 1)[0])

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, int):
            kind = type(value).__name__
            raise RuntimeError(f"can only set storage content with a int types, but got {kind} instead")
        if isinstance(index, slice):
            start, stop = self._part(index)
        elif isinstance(index, (int, np.integer)) and not isinstance(index, builtins.bool):
            if not 0 <= index < len(self):
                raise RuntimeError("out of bounds")
            start, stop = int(index), int(index) + 1
        else:
            raise RuntimeError(f"can't index a torch.UntypedStorage with {kind_name(index)}")
        self._write(start, np.full(stop - start, value & 255, np.uint8))

    def _write(self, start: int, data: np.ndarray[Any, Any]) -> None:
        memory = self._record.memory
        if len(data):
            backend.of_memory(memory).write(memory[start : start + len(data)], data)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """Its bytes as numbers."""
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        listed: list[int] = self._bytes().tolist()
        return listed

    def fill_(self, value: Any) -> UntypedStorage:
        """Set every byte to `value`; return the storage.

        >>> torch.UntypedStorage(2).fill_(7).tolist()
        [7, 7]
        """
        if not isinstance(value, int):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> UntypedStorage:
        """Take the bytes of another storage, which has as many.

        >>> torch.UntypedStorage(2).copy_(torch.UntypedStorage([3, 4])).tolist()
        [3, 4]
        """
        source = getattr(source, "_untyped_storage", source)
        if not isinstance(source, UntypedStorage):
            kind = type(source).__name__
            raise TypeError(f"copy_(): argument 'src' (position 1) must be torch.Storage, not {kind}")
        if len(self) != len(source):
            raise RuntimeError(
                f"size does not match, self was {len(self)} bytes but src was {len(source)} bytes"
            )
        to, memory = self._record.memory, source._record.memory
        ours, theirs = backend.of_memory(to), backend.of_memory(memory)
        if ours is theirs:
            ours.copy(to, memory, len(to))
        else:
            pinned.cross(ours, to, theirs, memory, len(to))
        return self

    def byteswap(self, dtype: Any) -> None:
        """Turn the bytes of each element of a `dtype` around; of a complex one, of each of its parts.

        >>> s = torch.UntypedStorage([1, 2, 3, 4])
        >>> s.byteswap(torch.int16)
        >>> s.tolist()
        [2, 1, 4, 3]
        """
        if not isinstance(dtype, _dtype):
            raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
        step = dtype.itemsize // (2 if dtype.is_complex else 1)
        if len(self) % step:
            raise RuntimeError(f"the length of data is not a multiple of {step}")
        self._write(0, self._bytes().reshape(-1, step)[:, ::-1].flatten())

    # ------------------------------------------------ copies

    def new(self) -> UntypedStorage:
        """An empty one."""
        return UntypedStorage(device=self.device)

    def clone(self) -> UntypedStorage:
        """A copy in memory of its own."""
        return UntypedStorage(len(self), device=self.device).copy_(self)

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        memory = self._record.memory
        copied = memo.get(id(memory))  # as tensors over it keep theirs
        if copied is None:
            copied = memo[id(memory)] = self.clone()._record.memory
            memo.setdefault(id(memo), []).append(memory)
        return UntypedStorage._of(Storage(copied))

    def __reduce__(self) -> Any:
        return _of_bytes, (self._bytes().tobytes(),)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + len(self)

    def cpu(self) -> UntypedStorage:
        """Its bytes in the CPU's memory; itself if they are there."""
        return self.to(device=cpu)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """Its bytes in the memory of a GPU; itself if they are there."""
        return self.to(device=_device("cuda", device) if device else _device("cuda"))

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """Its bytes on a device; itself if they are there."""
        where = settled(_device(device))
        return self if self.device is where else UntypedStorage(len(self), device=where).copy_(self)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of its class, or a copy of what another class of storages names so."""
        if dtype is None:
            return "torch.storage.UntypedStorage"
        made = getattr(sys.modules["nbgrad"], dtype.rpartition(".")[2]) if isinstance(dtype, str) else dtype
        return self if isinstance(self, made) else made(len(self)).copy_(self)

    def _seen_as(self, sp: Spec) -> Tensor:
        """Its memory as a tensor, whose writes count for no other."""
        return wrap(self._record.memory, sp)

    def _tensor(self) -> Tensor:
        """Its bytes as a tensor."""
        return self._seen_as(spec(dtypes.uint8, (len(self),), None, self.device))

    def mps(self) -> UntypedStorage:
        """Refused: there is no such device."""
        raise RuntimeError("torch.UntypedStorage(): Storage device not recognized: mps")

    def hpu(self, device: Any = None, non_blocking: builtins.bool = False) -> UntypedStorage:
        """Refused: there is no such device."""
        raise AssertionError("HPU device module is not loaded")

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    # ------------------------------------------------ where it lies

    def is_pinned(self, device: Any = None) -> builtins.bool:
        """Whether the memory is locked for copies to a GPU."""
        return pinned.is_pinned(self._record.memory)

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        """Its bytes in memory that is locked for copies to a GPU, which there must be; itself if they are there."""
        if self.device.type != "cpu":
            raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
        if not gpu.device_count():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return self if self.is_pinned() else self._tensor().pin_memory().untyped_storage()

    def resizable(self) -> builtins.bool:
        """Whether it may be made longer or shorter: not where it was lent by another library, or other processes see it."""
        return not getattr(self._record, "lent", False) and not is_mapped(self._record.memory)

    def resize_(self, size: Any) -> UntypedStorage:
        """Another size, in place of all tensors over it; none of them may read past the end of it."""
        if isinstance(size, builtins.bool) or not isinstance(size, (int, np.integer)):
            raise RuntimeError(f"resize_ expects an int, but got {type(size).__name__}")
        if not self.resizable():
            raise RuntimeError(FIXED)
        resizing.allot(self._record, _as_size(size) or 0)
        return self

    def is_shared(self) -> builtins.bool:
        """Whether other processes can have the memory: after `share_memory_`, of a file, and on a GPU."""
        return self.is_cuda or self._mapping() is not None

    def share_memory_(self) -> UntypedStorage:
        """Lay the memory where processes to which it is sent see it, too, with all tensors over it. It then keeps its size.

        >>> x = torch.zeros(2)
        >>> x.untyped_storage().share_memory_().is_shared(), x.is_shared()
        (True, True)
        """
        if self.device.type == "meta":
            raise RuntimeError("_share_fd_: only available on CPU")
        if self.device is cpu:
            resizing.share([self._record])
        return self

    @classmethod
    def _new_shared(cls, size: builtins.int, *, device: Any = "cpu") -> UntypedStorage:
        if _device(device) is not cpu:
            return UntypedStorage(size, device=device)
        from nbgrad.memory import shared

        return UntypedStorage._of(Storage(shared.empty(size)))

    def __repr__(self) -> str:
        at_all = self.device.type != "meta"
        listed = " " + "\n ".join(map(str, self.tolist())) if at_all else "..."
        return f"{listed}\n[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


def _of_bytes(data: bytes) -> UntypedStorage:
    return UntypedStorage._of(Storage(np.frombuffer(bytearray(data), np.uint8)))


def _as_size(value: Any) -> int | None:
    """None where it is no number."""
    integral = isinstance(value, Tensor) and not value.ndim and value.dtype.category == dtypes.INT
    if isinstance(value, bool) or not (integral or isinstance(value, (int, np.integer))):
        return None
    if not -(2**63) <= (size := int(value)) < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if size < 0:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:98] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been called with negative "
            f"number: {size + 2**64}"
        )
    return size


def _listed(values: Any) -> Any:
    """The bytes that a sequence lists."""
    kind = kind_name(values)
    if isinstance(values, (Tensor, dict)) or not hasattr(type(values), "__getitem__"):
        raise RuntimeError(f"torch.UntypedStorage(): Expected a sequence type, but got {kind}")
    try:
        items = [values[k] for k in range(len(values))]
    except TypeError:
        raise RuntimeError(
            f"torch.UntypedStorage(): Could not obtain the length of sequence of type {kind}"
        ) from None
    for item in items:
        if not isinstance(item, int):
            raise RuntimeError(
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({kind}), but one of the items was of type "
                f"{kind_name(item)} instead of int"
            )
    return np.array([item & 255 for item in items], np.uint8)


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor shows, whole and in bytes. Tensors that share memory have one storage.

    >>> x = torch.zeros(4)
    >>> x[1:].untyped_storage().nbytes(), x[1:].untyped_storage() is x.untyped_storage()
    (16, True)
    """
    return UntypedStorage._of(storage_of(self))


@method
def share_memory_(self: Tensor) -> Tensor:
    """Lay the memory where processes to which the tensor is sent see it, too; what one of them writes, all read. Of a GPU it stays.

    >>> torch.zeros(2).share_memory_().is_shared()
    True
    """
    self.untyped_storage().share_memory_()
    return self


def share_all(tensors: Iterable[Tensor]) -> None:
    """`share_memory_` of those on the CPU, at the price of one."""
    resizing.share([storage_of(t) for t in tensors if t._spec.device is cpu])


@method
def is_shared(self: Tensor) -> builtins.bool:
    """Whether other processes can have the memory: after `share_memory_`, of a mapped file, and on a GPU.

    >>> torch.ones(2).is_shared()
    False
    """
    return not self.is_meta and self.untyped_storage().is_shared()


# ---------------------------------------------------------------- a tensor that moves


def _unknown(g: Tensor) -> Tensor:
    raise RuntimeError("derivative for aten::set_ is not implemented")


def _never(input: Tensor, source: Tensor) -> Tensor:
    raise AssertionError("a write is recorded, not called")


_set_op = Op(_never, {"input": _unknown, "source": _unknown}, "NotImplemented")
_NOTHING: Any = object()


@method
def set_(
    self: Tensor,
    source: Any = _NOTHING,
    storage_offset: int | None = None,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Read another memory from now on: that of a tensor as it lies, that of a tensor or a storage from an offset, or none. The
    version counter stays the tensor's own.

    >>> torch.ones(2).set_(torch.zeros(3))
    tensor([0., 0., 0.])
    """
    if source is _NOTHING:
        source = empty(self._spec.plain.like((0,)))
    typed = getattr(source, "_untyped_storage", None)
    if not isinstance(source, Tensor) and typed is not None:
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {self.dtype.c_name} or an UntypedStorage, but got type {source.dtype.scalar_name} for "
                "argument 1 'storage'"
            )
        source = typed
    if isinstance(source, Tensor):
        if size is not None and not source.is_contiguous():
            raise RuntimeError("passed in tensor to be used as storage must be contiguous")
        if size is None and source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype.c_name} to a tensor of type {self.dtype.c_name}"
            )
        record = storage_of(source)
    else:
        record = source._record
    if backend.of_memory(record.memory).device.type != self.device.type:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on different device '
            f'"{backend.of_memory(record.memory).device}".  This is no longer allowed; the devices must match.'
        )
    tensors = (self, source if isinstance(source, Tensor) and size is None else None)
    check_write(self, state.grad and any(t is not None and requires(t) for t in tensors), filled=True)
    start = source.storage_offset() if isinstance(source, Tensor) else 0
    if size is not None and storage_offset is not None:
        start += storage_offset
        same = not stride and tuple(size) == tuple(self._spec.shape)  # PyTorch leaves these strides
        at = _placed(self.dtype, self.device, size, self._spec.strides if same else stride or (), start)
        if same and (start + at.extent) * at.itemsize > len(record.memory):
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides [], storage offset {start}, and itemsize {at.itemsize} requiring a storage "
                f"size of {(start + at.extent) * at.itemsize} are out of bounds for storage of size {len(record.memory)}"
            )
    elif isinstance(source, Tensor):
        at = source._spec.plain
    else:
        at = self._spec.plain.like((len(record.memory) // self.element_size(),))
    seen = wrap(record.memory, self._spec.plain.like((0,)))
    seen._storage = record
    lay(seen, at, start)
    move(self, seen)
    return written_by(self, _set_op, tensors, {})


def _placed(d: _dtype, where: device, size: Sequence[int], stride: Sequence[int], start: int) -> Spec:
    shape, strides = tuple(size), tuple(stride) or None
    if strides is not None and len(strides) != len(shape):
        raise RuntimeError(f"unequal size length ({len(shape)}) and stride length ({len(strides)})")
    if start < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {start}")
    check_sizes(shape, d.itemsize)
    if strides is not None and min(strides, default=0) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}"
        )
    return spec(d, shape, strides, where)


__all__ = ["UntypedStorage"]
