"""The memory behind tensors: another size of it, another memory for a tensor, and the storages that users see.

Promises that all tensors of one memory go on sharing it whatever becomes of it: memory that grows is found by every one of them, or the
call is refused. Who shares memory is asked here, at a call that is rare, and not noted where a view is made, which has to be quick.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.core.op import Op
from nbgrad.core.signatures import check, kind_name
from nbgrad.core.tensor import Tensor, empty, hooks, move, requires, storage_of, wrap
from nbgrad.core.writes import check_write, written
from nbgrad.dispatch.stanza import method
from nbgrad.dispatch.transforms import moves
from nbgrad.history.record import written_by
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.device import cpu, device, settled
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.storage import Batched, Spec, Storage, spec
from nbgrad.ops.views.views import _sizes
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- memory that changes its size

_FIXED = "Trying to resize storage that is not resizable"
_one_at_a_time = threading.RLock()


def _allot(storage: Storage, nbytes: int, at_least: bool = False) -> None:
    """Give the memory of a storage another size, and the new memory to every tensor that has the old."""
    with _one_at_a_time:
        if at_least and nbytes <= len(storage.memory):
            return  # another thread was here
        tensors, records = _sharers(storage)
        serves = backend.of_memory(storage.memory)
        start, fresh = serves.address(storage.memory), serves.empty(nbytes)
        at = [serves.address(t._buf) - start for t in tensors]
        for t, offset in zip(tensors, at):
            if t._spec.numel and offset + t._spec.nbytes > nbytes:
                raise RuntimeError(
                    f"a tensor of shape {list(t.shape)} reads past the first {nbytes} bytes of its storage"
                )
        serves.copy(fresh, storage.memory, min(nbytes, len(storage.memory)))
        buffers = {offset: serves.view(fresh, offset) for offset in at}
        for record in records:
            record.memory = fresh
        for t, offset in zip(tensors, at):
            t._buf = buffers[offset]


def _sharers(storage: Storage) -> tuple[list[Tensor], list[Storage]]:
    """All tensors over a storage's memory and all records of it, if nothing else has it."""
    found = _search(storage)
    if found is None:
        gc.collect()  # a circle that nobody reaches has no share; threads that search at once leave some
        found = _search(storage)
    if found is None:
        raise RuntimeError(_FIXED)
    return found


def _search(storage: Storage) -> tuple[list[Tensor], list[Storage]] | None:
    """Python's collector knows which objects refer to which; an array of NumPy's, an exported buffer or a tensor that was not found shows
    in the number of references: then None."""
    near = gc.get_referrers(storage.memory)
    records = [r for r in near if issubclass(type(r), Storage)]
    if any(getattr(r, "lent", False) for r in records):
        raise RuntimeError(_FIXED)
    found = {id(x): x for x in (*near, *gc.get_referrers(*records)) if issubclass(type(x), Tensor)}
    del near
    tensors = [t for t in found.values() if isinstance(getattr(t, "_buf", None), backend.BUFFERS)]
    given = (storage.memory, storage.memory.base, *[t._buf for t in tensors])
    arrays = {id(b): b for b in given if isinstance(b, backend.BUFFERS)}
    del given
    known = Counter(
        [id(r.memory) for r in records]
        + [id(t._buf) for t in tensors]
        + [id(b.base) for b in arrays.values()]
    )
    if not _all_known(arrays, known):
        # An optimiser lists the buffers that it has seen, to know them again.
        lists = [x for x in gc.get_referrers(*arrays.values()) if type(x) is list]
        known.update([id(b) for x in lists for b in x])
        if not _all_known(arrays, known):
            return None
    return tensors, records


def _all_known(arrays: dict[int, Any], known: Counter[int]) -> bool:
    """Whether that many references to each array are all: but for those of `arrays` and of getrefcount's argument."""
    return all(sys.getrefcount(arrays[key]) == known[key] + 2 for key in arrays)


def _alone(t: Tensor, storage: Storage) -> bool:
    """Whether this tensor is all that has its memory, seen without a search. Counted are the buffer's places in the tensor and in its
    record, and the argument; of the array that it was made of, its own and the argument."""
    if t._buf is not storage.memory or sys.getrefcount(t._buf) != 3 or hasattr(storage, "lent"):
        return False
    return type(t._buf.base) is not np.ndarray or sys.getrefcount(t._buf.base) == 2


def _make_room(t: Tensor, nbytes: int) -> None:
    """See that the memory of `t` has so many bytes."""
    storage = storage_of(t)
    if nbytes <= len(storage.memory):
        return
    if _alone(t, storage):
        fresh = t._spec.backend.empty(nbytes)
        t._spec.backend.copy(fresh, t._buf, len(t._buf))
        t._buf = storage.memory = fresh
    else:
        _allot(storage, nbytes, at_least=True)


def _lay(t: Tensor, sp: Spec, start: int) -> None:
    """Let `t` read its storage as `sp`, from an element on."""
    offset = start * sp.itemsize
    _make_room(t, offset + sp.nbytes if sp.numel else 0)
    t._buf = sp.backend.view(storage_of(t).memory, offset)
    t._spec = sp


def _check_sizes(shape: Sequence[int], itemsize: int) -> None:
    numel = 1
    for n in shape:
        numel *= n
        if n < 0 or numel > layout.MAX_NUMEL:
            raise RuntimeError("numel: integer multiplication overflow")
    if numel * itemsize > layout.MAX_NUMEL:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")


def _resize(t: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> None:
    """Another shape over the same memory, which grows if it must; what is new in it is not set. No count."""
    _check_sizes(shape, t._spec.itemsize)
    if tuple(t._spec.shape) != shape or strides is not None:
        _lay(t, t._spec.like(shape, strides), t.storage_offset())


def resize(out: Tensor, shape: Any, strides: tuple[int, ...] | None = None) -> None:
    """Give `out=` the shape (and strides) of the result; PyTorch warns unless it was empty."""
    if out._spec.numel:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(out._spec.shape)}, which does not match the "
            f"required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch release outputs will not be "
            "resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
            "elements with t.resize_(0).",
            UserWarning,
            stacklevel=4,
        )
    _resize(out, tuple(shape), strides)


hooks.resize = resize


@method
def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Give the tensor the shape `sizes` (and the `memory_format`), its memory growing if it must: elements keep their places in memory,
    new ones have no set value. Refused where the tensor requires grad.

    >>> torch.arange(4).resize_(3)
    tensor([0, 1, 2])
    """
    shape = _sizes(sizes if size is None else (size,), "resize_")
    if requires(self) and not state.modes.inference:
        raise RuntimeError("cannot resize variables that require grad")
    if state.duals and moves((self,)):
        raise RuntimeError("cannot resize variables that has a forward grad")
    if memory_format is layout.preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    strides = None if memory_format is None else layout.format_strides(shape, memory_format)
    if tuple(self._spec.shape) == shape and (strides is None or self._spec.strides == strides):
        return self
    if type(self._buf) is Batched:
        raise RuntimeError("vmap: resize_ of a tensor that is mapped over is not supported")
    check_write(self, False, filled=True)
    _resize(self, shape, strides)
    written(self)
    return self


@method
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of `the_template`, and with `memory_format=torch.preserve_format` to its format.

    >>> torch.arange(4).resize_as_(torch.ones(3))
    tensor([0, 1, 2])
    """
    like = the_template._spec
    shape = tuple(like.shape)
    if memory_format is layout.preserve_format:
        memory_format = layout.suggested_format(shape, like.strides)
    return resize_(self, shape, memory_format=memory_format)


# ---------------------------------------------------------------- storages


class UntypedStorage:
    """The memory behind tensors, in bytes: so many new ones, or those of a sequence.

    >>> torch.UntypedStorage([1, 2, 3]).tolist()
    [1, 2, 3]
    """

    dtype: _dtype = dtypes.uint8

    def __init__(self, *args: Any, **named: Any) -> None:
        check("inner.UntypedStorage", args, named)
        serves = backend.of(_device(named.get("device") or "cpu"))
        first = args[0] if args else named.get("size", named.get("sequence", 0))
        size = _as_size(first)
        self._record = Storage(serves.from_host(_listed(first)) if size is None else serves.empty(size))

    @classmethod
    def _of(cls, record: Storage, dtype: _dtype) -> Any:
        made = cls.__new__(cls)
        made._record = record
        return made

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        """The bytes of a file, read as they are touched: what is written goes to the file if `shared`, which is then made as long as
        `nbytes`, and to this process alone if not.

        >>> with open("bytes.bin", "wb") as file:
        ...     _ = file.write(bytes([1, 2, 3]))
        >>> torch.UntypedStorage.from_file("bytes.bin", nbytes=2).tolist()
        [1, 2]
        """
        name = os.fspath(filename)
        if shared:
            with open(name, "ab") as file:
                if file.tell() < nbytes:
                    file.truncate(nbytes)
        elif not os.path.exists(name):
            raise RuntimeError(
                f"unable to open file <{name}> in read-only mode: No such file or directory (2)"
            )
        there = os.path.getsize(name)
        if nbytes > there:
            raise RuntimeError(
                f"file <{name}> size <{there}> is smaller than the required mapping size <{nbytes}>"
            )
        if not nbytes:
            return cls(0)
        mapped = np.memmap(name, np.uint8, "r+" if shared else "c", 0, (nbytes,)).view(np.ndarray)
        made = cls._of(Storage(mapped), dtypes.uint8)
        made._record.lent = True
        made.filename = name if shared else None
        return made

    filename: str | None = None  # of what is mapped and shared

    @property
    def device(self) -> device:
        """Where the memory is."""
        return backend.of_memory(self._record.memory).device

    def data_ptr(self) -> int:
        """The address of the memory; 0 where there is none."""
        memory = self._record.memory
        serves = backend.of_memory(memory)
        return serves.address(memory) if len(memory) and serves.holds else 0

    def nbytes(self) -> int:
        """How many bytes it has."""
        return len(self._record.memory)

    def element_size(self) -> int:
        """How many bytes one of its elements takes: 1 for an untyped one."""
        return self.dtype.itemsize

    def size(self) -> int:
        """How many elements it has."""
        return self.nbytes() // self.element_size()

    def __len__(self) -> int:
        return self.size()

    def _elements(self) -> Any:
        """Of the CPU's memory as they are, of another device's, and where NumPy has no such dtype, a copy."""
        memory = self._record.memory
        data = backend.of_memory(memory).bytes_of(memory, self.size() * self.element_size())
        return dtypes.values(data, self.dtype, (self.size(),), (1,))

    def __getitem__(self, index: Any) -> Any:
        found = self._elements()[index]
        return found if isinstance(index, slice) else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, int):
            kind = type(value).__name__
            raise RuntimeError(f"can only set storage content with a int types, but got {kind} instead")
        elements, memory = self._elements(), self._record.memory
        elements[index] = value & 255
        backend.of_memory(memory).write(memory, dtypes.packed(elements, self.dtype).view(np.uint8))

    def tolist(self) -> list[Any]:
        """Its elements as numbers."""
        listed: list[Any] = self._elements().tolist()
        return listed

    def fill_(self, value: Any) -> Any:
        """Set every element to `value`; return the storage."""
        self[:] = value
        return self

    def cpu(self) -> Any:
        """Its bytes in the CPU's memory; itself if they are there."""
        return self._on(cpu)

    def cuda(self, device: Any = None) -> Any:
        """Its bytes in the memory of a GPU; itself if they are there."""
        return self._on(settled(_device("cuda" if device is None else device)))

    def _on(self, where: _device) -> Any:
        if self.device is where:
            return self
        data = backend.of_memory(self._record.memory).bytes_of(self._record.memory, self.nbytes())
        return type(self)._of(Storage(backend.of(where).from_host(data)), self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._record.memory is self._record.memory

    def __hash__(self) -> int:
        return id(self._record.memory)

    def untyped(self) -> UntypedStorage:
        """The same memory in bytes."""
        return UntypedStorage._of(self._record, self.dtype)

    def resizable(self) -> bool:
        """Whether it may be made longer or shorter: not where it was lent by another library."""
        return not getattr(self._record, "lent", False)

    def is_shared(self) -> bool:
        """Whether it is shared with other processes: never here."""
        return False

    def resize_(self, size: int) -> Any:
        """Another size, in place of all tensors over it; none of them may read past the end of it."""
        if not self.resizable():
            raise RuntimeError(_FIXED)
        _allot(self._record, size * self.element_size())
        return self

    def __repr__(self) -> str:
        listed = " " + "\n ".join(map(str, self.tolist())) if self.device is cpu else "..."
        return f"{listed}\n[torch.storage.UntypedStorage(device={self.device}) of size {self.size()}]"


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


_TYPED = """TypedStorage.__init__ received an invalid combination of arguments. Expected one of:
 * (*, torch.device device, torch.dtype dtype)
 * (int size, *, torch.device device, torch.dtype dtype)
 * (Sequence data, *, torch.device device, torch.dtype dtype)
 * (*, UntypedStorage wrap_storage, torch.dtype dtype)
"""


class TypedStorage(UntypedStorage):
    """The memory behind tensors, in elements: so many new ones, those of a sequence, or those of an untyped storage.

    >>> import nbgrad
    >>> nbgrad.arange(4)[2:].storage().tolist()
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        *args: Any,
        device: Any = None,
        dtype: Any = None,
        wrap_storage: Any = None,
        _internal: bool = False,
    ) -> None:
        if wrap_storage is not None:
            self._wrap(args, device, dtype, wrap_storage)
            return
        if len(args) > 1:
            raise RuntimeError(f"{_TYPED}Too many positional arguments")
        where = settled(_device("cpu" if device is None else device))
        backend.of(where)
        self.dtype = dtypes.get_default_dtype() if dtype is None else dtype
        data = args[0] if args else None
        if not args or isinstance(data, (int, np.integer)):
            super().__init__(*[int(n) * self.element_size() for n in args], device=where)
        elif isinstance(data, Sequence):
            self._record = storage_of(hooks.tensor(data, dtype=self.dtype, device=where))
        else:
            raise TypeError(f"{_TYPED}Argument type not recognized: {type(data)}")

    def _wrap(self, args: Any, device: Any, dtype: Any, storage: Any) -> None:
        if args:
            raise RuntimeError(f"{_TYPED}No positional arguments should be given when using 'wrap_storage'")
        if dtype is None:
            raise RuntimeError(f"{_TYPED}Argument 'dtype' must be specified")
        if not isinstance(dtype, _dtype):
            raise TypeError(f"{_TYPED}Argument 'dtype' must be torch.dtype, not {type(dtype)}")
        if device is not None:
            raise RuntimeError(
                f"{_TYPED}Argument 'device' should not be specified when 'wrap_storage' is given"
            )
        if not isinstance(storage, UntypedStorage):
            raise TypeError(
                f"{_TYPED}Argument 'wrap_storage' must be UntypedStorage, but got {type(storage)}"
            )
        self.dtype, self._record = dtype, storage._record

    @classmethod
    def _of(cls, record: Storage, dtype: _dtype) -> Any:
        made = super()._of(record, dtype)
        made.dtype = dtype
        return made

    def element_size(self) -> int:
        """How many bytes one element takes."""
        if not isinstance(self.dtype, _dtype):
            raise RuntimeError(f"expected torch.dtype, but got {type(self.dtype)}")
        assert self.dtype.code  # refused where there are no kernels
        return super().element_size()

    def resize_(self, size: int) -> None:
        """Another number of elements, in place of all tensors over the memory."""
        super().resize_(size)

    def __repr__(self) -> str:
        listed = " " + "\n ".join(map(str, self.tolist())) + "\n"
        return f"{listed}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor shows, whole and in bytes. Tensors that share memory have equal storages.

    >>> x = torch.zeros(4)
    >>> x[1:].untyped_storage().nbytes(), x[1:].untyped_storage() == x.untyped_storage()
    (16, True)
    """
    return UntypedStorage._of(storage_of(self), self.dtype)


@method
def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor shows, whole and in elements of its dtype. PyTorch warns that this will go.

    >>> import nbgrad
    >>> nbgrad.arange(4)[2:].storage().size()
    4
    """
    return TypedStorage._of(storage_of(self), self.dtype)


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
    stride: Sequence[int] = (),
) -> Tensor:
    """Read another memory from now on: that of a tensor as it lies, that of a tensor or a storage from an offset, or none. The
    version counter stays the tensor's own.

    >>> torch.ones(2).set_(torch.zeros(3))
    tensor([0., 0., 0.])
    """
    if source is _NOTHING:
        source = empty(self._spec.plain.like((0,)))
    if not isinstance(source, (Tensor, UntypedStorage)) or (storage_offset is None) is not (size is None):
        given = [type(a).__name__ for a in (source, storage_offset, size) if a is not None or a is source]
        raise TypeError(f"set_() received an invalid combination of arguments - got ({', '.join(given)})")
    if isinstance(source, Tensor):
        if size is not None and not source.is_contiguous():
            raise RuntimeError("passed in tensor to be used as storage must be contiguous")
        if size is None and source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype.c_name} to a tensor of type {self.dtype.c_name}"
            )
        record = storage_of(source)
    else:
        if type(source) is TypedStorage and source.dtype is not self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {self.dtype.c_name} or an UntypedStorage, but got type {source.dtype.scalar_name} for "
                "argument 1 'storage'"
            )
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
        at = _placed(self.dtype, self.device, size, self._spec.strides if same else stride, start)
    elif isinstance(source, Tensor):
        at = source._spec.plain
    else:
        at = self._spec.plain.like((len(record.memory) // self.element_size(),))
    seen = wrap(record.memory, self._spec.plain.like((0,)))
    seen._storage = record
    _lay(seen, at, start)
    move(self, seen)
    return written_by(self, _set_op, tensors, {})


def _placed(d: _dtype, where: device, size: Sequence[int], stride: Sequence[int], start: int) -> Spec:
    shape, strides = tuple(size), tuple(stride) or None
    if strides is not None and len(strides) != len(shape):
        raise RuntimeError(f"unequal size length ({len(shape)}) and stride length ({len(strides)})")
    if start < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {start}")
    _check_sizes(shape, d.itemsize)
    if strides is not None and min(strides, default=0) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}"
        )
    return spec(d, shape, strides, where)


__all__ = ["TypedStorage", "UntypedStorage", "resize_as_"]
