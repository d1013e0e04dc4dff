"""DLPack's capsules of memory on a GPU made and read here, and those of what NumPy has no dtype for read: NumPy does so for the rest.

Promises `made(...)`, a capsule that keeps its owner until whoever takes it is done, `say(capsule, code)`, which lets NumPy's say what
NumPy does not have, and `taken(capsule)`, what another library's says.
The structs are those of DLPack 1.0, and of the unversioned form before it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from nbgrad.base.tables import Table

CPU: Final = 1
CUDA: Final = 2
_NAMES: Final = b"dltensor", b"dltensor_versioned"
_USED: Final = b"used_dltensor", b"used_dltensor_versioned"
# DLPack's codes of kinds: integers with and without sign, floats, bfloat16, truth, floats of 8 bits.
_KINDS: Final = {0: "i", 1: "u", 2: "f", 4: "g", 6: "b", 10: "p", 11: "r", 12: "q", 13: "s", 14: "t"}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_python = ctypes.pythonapi
_new = _python.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_named = _python.PyCapsule_IsValid
_named.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer = _python.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_rename = _python.PyCapsule_SetName
_rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
# A capsule's destructor is given the capsule when nobody holds it any more: by its address, or it would be held again.
_dying_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)
_dying_named = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _python)
)
# What a capsule holds, by its address: the struct, its extents, the owner of the memory.
_held: Table[int, tuple[Any, ...]] = Table("exchange.capsules.held", None)


def _forget(address: int) -> None:
    _held.pop(address, None)


def _end(capsule: int) -> None:
    """Nobody has taken it."""
    for name in _NAMES:
        if _dying_named(capsule, name):
            _forget(_dying_pointer(capsule, name))


_let_go = _Deleter(_forget)
_ended = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_end)


class Shown(NamedTuple):
    """Memory as a capsule says it: strides in elements, `code` a dtype's."""

    device: tuple[int, int]
    address: int
    code: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    owner: Any


def made(
    owner: Any,
    address: int,
    where: tuple[int, int],
    code: str,
    shape: Sequence[int],
    strides: Sequence[int],
    new: bool,
) -> Any:
    """A capsule over the memory of a device, given by its kind and number; `new` in DLPack's versioned form."""
    many = len(shape)
    extents = (ctypes.c_int64 * (2 * many or 1))(*shape, *strides)
    begin = ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64))
    steps = ctypes.cast(ctypes.addressof(extents) + 8 * many, ctypes.POINTER(ctypes.c_int64))
    kind = next(number for number, letter in _KINDS.items() if letter == code[0])
    tensor = _Tensor(address, *where, many, kind, 8 * int(code[1:]), 1, begin, steps, 0)
    end = ctypes.cast(_let_go, ctypes.c_void_p)
    managed: Any = _Versioned(1, 0, None, end, 0, tensor) if new else _Managed(tensor, None, end)
    place = ctypes.addressof(managed)
    _held[place] = managed, extents, owner
    return _new(place, _NAMES[new], ctypes.cast(_ended, ctypes.c_void_p))


class _Owner:
    """Another library's memory, given back with the last that looks at it."""

    def __init__(self, place: int, deleter: int | None) -> None:
        self._place, self._deleter = place, deleter

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._place)


def _opened(capsule: Any) -> tuple[bool, int, Any]:
    """Whether it is of the versioned form, and the struct in it with its place."""
    new = bool(_named(capsule, _NAMES[1]))
    if not new and not _named(capsule, _NAMES[0]):
        raise RuntimeError("not a DLPack capsule that can be taken")
    place = _pointer(capsule, _NAMES[new])
    return new, place, (_Versioned if new else _Managed).from_address(place)


def _code(tensor: Any) -> str:
    return f"{_KINDS.get(tensor.code, '?')}{tensor.bits // 8}"


def seen(capsule: Any) -> tuple[str, int]:
    """The code of a capsule's dtype, and on what kind of device its memory is; others can still take it."""
    _, _, managed = _opened(capsule)
    return _code(managed.tensor), managed.tensor.device_type


def say(capsule: Any, code: str) -> None:
    """Let a capsule say another dtype of the same width."""
    _, _, managed = _opened(capsule)
    managed.tensor.code = next(number for number, letter in _KINDS.items() if letter == code[0])


def taken(capsule: Any) -> Shown:
    """What a capsule holds, which from now on nobody else can take."""
    new, place, managed = _opened(capsule)
    _rename(capsule, _USED[new])
    owner, tensor = _Owner(place, managed.deleter), managed.tensor
    code = _code(tensor)
    if tensor.lanes != 1:
        raise RuntimeError("Lanes must be 1")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    return Shown((tensor.device_type, tensor.device_id), address, code, shape, strides, owner)
