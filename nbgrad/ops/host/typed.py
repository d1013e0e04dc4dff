"""Storages that know the dtype of what lies in them, which PyTorch is about to give up.

Promises that every use of one warns in PyTorch's words, once in a process. Their elements are read and written as tensors' are.
"""

from __future__ import annotations

import builtins
import copy
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from nbgrad.core.tensor import Tensor, hooks, storage_of
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes
from nbgrad.memory.device import device
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.storage import spec
from nbgrad.ops.host.storage import UntypedStorage

warned = SimpleNamespace(always=False, once=False)


def warn(stacklevel: int = 2) -> None:
    """Say that typed storages will go, unless that was said."""
    if warned.always or not warned.once:
        warnings.warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. This should "
            "only matter to you if you are using storages directly.  To access UntypedStorage directly, use tensor.untyped_storage() "
            "instead of tensor.storage()",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
        warned.once = True


_FORMS = """TypedStorage.__init__ received an invalid combination of arguments. Expected one of:
 * (*, torch.device device, torch.dtype dtype)
 * (int size, *, torch.device device, torch.dtype dtype)
 * (Sequence data, *, torch.device device, torch.dtype dtype)
 * (*, UntypedStorage wrap_storage, torch.dtype dtype)
"""
_SELF = "<class 'torch.storage.TypedStorage'>"


class TypedStorage:
    """The memory behind tensors, in elements: so many new ones, those of a sequence, or those of an untyped storage.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.TypedStorage([1, 2]).tolist()
    [1.0, 2.0]
    """

    __module__ = "nbgrad.storage"
    is_sparse = False
    dtype: _dtype
    _untyped_storage: UntypedStorage

    def __init__(
        self,
        *args: Any,
        device: Any = None,
        dtype: Any = None,
        wrap_storage: Any = None,
        _internal: builtins.bool = False,
    ) -> None:
        if not _internal:
            warn()
        if wrap_storage is not None:
            self._wrap(args, device, dtype, wrap_storage)
            return
        where = _device("cpu" if device is None else device)
        self.dtype = dtypes.get_default_dtype() if dtype is None else dtype
        if len(args) > 1:
            raise RuntimeError(f"{_FORMS}Too many positional arguments")
        data = args[0] if args else None
        if not args or isinstance(data, (int, np.integer)):
            sizes = [int(n) * self._element_size() for n in args]
            self._untyped_storage = UntypedStorage(*sizes, device=where)
        elif isinstance(data, Sequence):
            self._untyped_storage = hooks.tensor(data, dtype=self.dtype, device=where).untyped_storage()
        else:
            raise TypeError(f"{_FORMS}Argument type not recognized: {type(data)}")

    def _wrap(self, args: Any, device: Any, dtype: Any, storage: Any) -> None:
        if args:
            raise RuntimeError(f"{_FORMS}No positional arguments should be given when using 'wrap_storage'")
        if dtype is None:
            raise RuntimeError(f"{_FORMS}Argument 'dtype' must be specified")
        if not isinstance(dtype, _dtype):
            raise TypeError(f"{_FORMS}Argument 'dtype' must be torch.dtype, not {type(dtype)}")
        if device is not None:
            raise RuntimeError(
                f"{_FORMS}Argument 'device' should not be specified when 'wrap_storage' is given"
            )
        if not isinstance(storage, UntypedStorage):
            raise TypeError(
                f"{_FORMS}Argument 'wrap_storage' must be UntypedStorage, but got {type(storage)}"
            )
        self.dtype, self._untyped_storage = dtype, storage

    @classmethod
    def _of(cls, storage: UntypedStorage, dtype: _dtype) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)

    def _like(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage._of(storage, self.dtype)

    @property
    def _dtype(self) -> _dtype:
        return self.dtype

    @classmethod
    def from_buffer(cls, *args: Any, dtype: Any = None, device: Any = None, **named: Any) -> TypedStorage:
        """A copy of elements that lie in a buffer; see `UntypedStorage.from_buffer`."""
        warn()
        dtype = dtypes.get_default_dtype() if dtype is None else dtype
        where = _device("cpu" if device is None else device)
        if where.type != "cpu":
            raise RuntimeError(f"TypedStorage.from_buffer: Not available for device {where.type}")
        named["dtype"] = dtype
        return cls._of(UntypedStorage.from_buffer(*args, **named), dtype)

    @classmethod
    def from_file(cls, filename: Any, shared: Any = False, size: Any = 0) -> Any:
        """The elements of a file, of which the classes of one dtype know where they end."""
        warn()
        raise RuntimeError("from_file can only be called on derived classes")

    # ------------------------------------------------ elements

    def _element_size(self) -> builtins.int:
        if not isinstance(self.dtype, _dtype):
            raise RuntimeError(f"expected torch.dtype, but got {type(self.dtype)}")
        return self.dtype.itemsize

    def _size(self) -> builtins.int:
        return self._untyped_storage.nbytes() // self._element_size()

    def _tensor(self) -> Tensor:
        """Its elements as a tensor, whose writes count for no other."""
        return self._untyped_storage._seen_as(spec(self.dtype, (self._size(),), None, self.device))

    def __getitem__(self, index: Any) -> Any:
        warn()
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {_SELF} with {type(index)}")
        if type(index) is not int:
            raise TypeError(f"can't index a {_SELF} with {type(index)}")
        size = self._size()
        if not -size <= index < size:
            raise IndexError(f"index {index} out of range for storage of size {size}")
        return self._tensor()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        warn()
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {_SELF} with {type(index)}")
        if isinstance(value, (UntypedStorage, TypedStorage)):
            raise RuntimeError(
                f"cannot set item with value type <class 'torch.storage.{type(value).__name__}'>"
            )
        self._tensor()[index] = value

    def __iter__(self) -> Iterator[Any]:
        warn()
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Its elements as numbers."""
        warn()
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        listed: list[Any] = self._tensor().tolist()
        return listed

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element to `value`; return the storage."""
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: Any = None) -> TypedStorage:
        """Take the bytes of another storage, which has as many."""
        warn()
        self._untyped_storage.copy_(source, non_blocking)
        return self

    # ------------------------------------------------ what is asked of it

    def __len__(self) -> builtins.int:
        warn()
        return self._size()

    def size(self) -> builtins.int:
        """How many elements it has."""
        warn()
        return self._size()

    def element_size(self) -> builtins.int:
        """How many bytes one element takes."""
        warn()
        return self._element_size()

    def pickle_storage_type(self) -> str:
        """What files call its class."""
        warn()
        if self.dtype not in _PLAIN:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return f"{self.dtype.scalar_name}Storage"

    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:
        """The name of the class of its dtype, or a copy of what another class names so."""
        warn()
        if dtype is not None:
            return self._untyped_storage.type(dtype, non_blocking)
        if self.dtype not in _PLAIN or self.device.type == "meta":
            return "torch.storage.TypedStorage"
        where = "" if self.device.type == "cpu" else f"{self.device.type}."
        return f"torch.{where}{self.dtype.scalar_name}Storage"

    @property
    def device(self) -> device:
        """Where the memory is."""
        warn()
        return self._untyped_storage.device

    @property
    def filename(self) -> str | None:
        """The file that it writes to, if it is mapped and shared."""
        return self._untyped_storage.filename

    @property
    def _cdata(self) -> builtins.int:
        return self._untyped_storage._cdata

    @property
    def is_cuda(self) -> builtins.bool:
        """Whether a GPU has it."""
        warn()
        return self._untyped_storage.is_cuda

    is_hpu = False

    def untyped(self) -> UntypedStorage:
        """The same memory in bytes."""
        warn()
        return self._untyped_storage

    def resize_(self, size: builtins.int) -> None:
        """Another number of elements, in place of all tensors over the memory."""
        warn()
        self._untyped_storage.resize_(size * self._element_size())

    def share_memory_(self) -> TypedStorage:
        """Lay the memory where processes to which it is sent see it, too."""
        warn()
        self._untyped_storage.share_memory_()
        return self

    def _new_shared(self, size: builtins.int, *, device: Any = None) -> TypedStorage:
        where = "cpu" if device is None else device
        return self._like(UntypedStorage._new_shared(size * self._element_size(), device=where))

    # ------------------------------------------------ copies

    def clone(self) -> TypedStorage:
        """A copy in memory of its own."""
        warn()
        return self._like(self._untyped_storage.clone())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> TypedStorage:
        warn()
        return self._like(copy.deepcopy(self._untyped_storage, memo))

    def __reduce__(self) -> Any:
        return TypedStorage._of, (self._untyped_storage, self.dtype)

    def __sizeof__(self) -> builtins.int:
        warn()
        return object.__sizeof__(self) + self._untyped_storage.nbytes()

    def __repr__(self) -> str:
        warn()
        at_all = self.device.type != "meta"
        listed = " " + "\n ".join(map(str, self.tolist())) if at_all else "..."
        return f"{listed}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self._size()}]"

    # What it has as its untyped one has it, or in its dtype.
    bfloat16: ClassVar[Any]
    bool: ClassVar[Any]
    byte: ClassVar[Any]
    char: ClassVar[Any]
    cpu: ClassVar[Any]
    cuda: ClassVar[Any]
    data_ptr: ClassVar[Any]
    double: ClassVar[Any]
    float: ClassVar[Any]
    get_device: ClassVar[Any]
    half: ClassVar[Any]
    int: ClassVar[Any]
    is_pinned: ClassVar[Any]
    is_shared: ClassVar[Any]
    long: ClassVar[Any]
    nbytes: ClassVar[Any]
    pin_memory: ClassVar[Any]
    resizable: ClassVar[Any]
    short: ClassVar[Any]
    to: ClassVar[Any]


# Of these dtypes PyTorch has a class of storages.
_PLAIN = frozenset(dtypes.all_dtypes)


def _as_untyped(name: str) -> None:
    asked = getattr(UntypedStorage, name)

    def told(self: TypedStorage, *args: Any, **named: Any) -> Any:
        warn()
        found = asked(self._untyped_storage, *args, **named)
        return self._like(found) if isinstance(found, UntypedStorage) else found

    told.__name__, told.__qualname__, told.__doc__ = name, f"TypedStorage.{name}", asked.__doc__
    setattr(TypedStorage, name, told)


for _name in [
    "cpu",
    "cuda",
    "data_ptr",
    "get_device",
    "is_pinned",
    "is_shared",
    "nbytes",
    "pin_memory",
    "resizable",
    "to",
]:
    _as_untyped(_name)


_REFUSED = "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"  # as dtypes


def _cast(cls: type, name: str, to: _dtype) -> None:
    def cast(self: Any) -> TypedStorage:
        if cls is TypedStorage:
            warn()
        before = self._tensor()
        made = hooks.to_dtype(before, to)
        return TypedStorage._of((made.clone() if made is before else made).untyped_storage(), to)

    cast.__name__, cast.__qualname__ = name, f"{cls.__name__}.{name}"
    cast.__doc__ = f"Its elements as {to.name}, in another storage."
    setattr(cls, name, cast)


for _name, _to in {
    "bfloat16": dtypes.bfloat16,
    "bool": dtypes.bool_,
    "byte": dtypes.uint8,
    "char": dtypes.int8,
    "double": dtypes.float64,
    "float": dtypes.float32,
    "half": dtypes.float16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
    "complex_double": dtypes.complex128,
    "complex_float": dtypes.complex64,
    **{name: getattr(dtypes, name) for name in _REFUSED},
}.items():
    _cast(UntypedStorage, _name, _to)
    _cast(TypedStorage, _name, _to)


@method
def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor shows, whole and in elements of its dtype. PyTorch warns that this will go.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.arange(4)[2:].storage().size()
    4
    """
    warn()
    return TypedStorage._of(UntypedStorage._of(storage_of(self)), self.dtype)


def _typed_storage(self: Tensor) -> TypedStorage:
    return TypedStorage._of(UntypedStorage._of(storage_of(self)), self.dtype)


@method
def storage_type(self: Tensor) -> Any:
    """The class of storages of the tensor's dtype.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.ones(1).storage_type() is torch.FloatStorage
    True
    """
    warn()
    return getattr(sys.modules["nbgrad"], f"{self.dtype.scalar_name}Storage")


Tensor._typed_storage = _typed_storage  # type: ignore[attr-defined]

__all__ = ["TypedStorage"]
