"""PyTorch's `torch.storage`: untyped and typed storages, and the class of each dtype, which makes typed ones."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nbgrad.exchange.files import load as _load
from nbgrad.memory import dtypes
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.ops.host.storage import UntypedStorage as UntypedStorage
from nbgrad.ops.host.typed import TypedStorage as TypedStorage
from nbgrad.ops.host.typed import warn as _warn_typed_storage_removal
from nbgrad.ops.host.typed import warned as _warned


def _reset_warn_typed_storage_removal() -> None:
    _warned.once = False


def _get_always_warn_typed_storage_removal() -> bool:
    found: bool = _warned.always
    return found


def _set_always_warn_typed_storage_removal(always_warn: bool) -> None:
    if not isinstance(always_warn, bool):
        raise AssertionError(f"always_warn must be bool, got {type(always_warn).__name__}")
    _warned.always = always_warn


def _load_from_bytes(b: bytes) -> Any:
    """What PyTorch's pickles call for the memory of a tensor; as all of a pickle, for what you trust alone."""
    return _load(io.BytesIO(b), weights_only=False)


class _LegacyStorageMeta(type):
    dtype: _dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        if type(instance) is not TypedStorage:
            return False
        return instance._untyped_storage.device.type == "cpu" and instance.dtype is cls.dtype


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """What makes a typed storage of its own dtype."""

    dtype: ClassVar[_dtype]  # type: ignore[misc]

    def __new__(  # type: ignore[misc]
        cls, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None
    ) -> TypedStorage:
        _warn_typed_storage_removal()
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        forms = (
            f"<class 'torch.{cls.__name__}'>.__new__ received an invalid combination of arguments. Expected one of:\n"
            " * no arguments\n * (int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)\n"
        )
        for name, given in {"device": device, "dtype": dtype}.items():
            if given is not None:
                raise RuntimeError(f"{forms}Keyword argument '{name}' cannot be specified")
        if wrap_storage is None:
            if len(args) > 1:
                raise RuntimeError(f"{forms}Too many positional arguments")
            if args and not isinstance(args[0], (int, np.integer, Sequence)):
                raise TypeError(f"{forms}Argument type not recognized: {type(args[0])}")
            return TypedStorage(*args, dtype=cls.dtype, device="cpu", _internal=True)
        if args:
            raise RuntimeError(f"{forms}No positional arguments should be given when using 'wrap_storage'")
        if not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(
                f"{forms}Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}"
            )
        if wrap_storage.device.type != "cpu":
            raise RuntimeError(
                f"{forms}Device of 'wrap_storage' must be cpu, but got {wrap_storage.device.type}"
            )
        return TypedStorage._of(wrap_storage, cls.dtype)

    @classmethod
    def from_buffer(cls, *args: Any, dtype: Any = None, device: Any = None, **named: Any) -> TypedStorage:
        """A copy of elements that lie in a buffer; see `UntypedStorage.from_buffer`."""
        _warn_typed_storage_removal()
        for name, given in {"dtype": dtype, "device": device}.items():
            if given is not None or (name == "dtype" and len(args) == 5):
                raise RuntimeError(
                    f"from_buffer: '{name}' can only be specified in UntypedStorage.from_buffer and TypedStorage.from_buffer"
                )
        named["dtype"] = cls.dtype
        made = UntypedStorage.from_buffer(*args, **named)
        return TypedStorage._of(made, cls.dtype)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The elements of a file; see `UntypedStorage.from_file`."""
        _warn_typed_storage_removal()
        made = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage._of(made, cls.dtype)


def _of(d: _dtype) -> type:
    name = f"{d.scalar_name}Storage"
    words = f"Makes typed storages of {d.name}: `torch.TypedStorage(..., dtype=torch.{d.name})`."
    members = {"dtype": d, "_dtype": d, "__doc__": words, "__module__": __name__}
    return _LegacyStorageMeta(name, (_LegacyStorage,), members)


BFloat16Storage = _of(dtypes.bfloat16)
BoolStorage = _of(dtypes.bool_)
ByteStorage = _of(dtypes.uint8)
CharStorage = _of(dtypes.int8)
ComplexDoubleStorage = _of(dtypes.complex128)
ComplexFloatStorage = _of(dtypes.complex64)
DoubleStorage = _of(dtypes.float64)
FloatStorage = Storage = _of(dtypes.float32)
HalfStorage = _of(dtypes.float16)
IntStorage = _of(dtypes.int32)
LongStorage = _of(dtypes.int64)
ShortStorage = _of(dtypes.int16)

__all__ = ["TypedStorage", "UntypedStorage"]
