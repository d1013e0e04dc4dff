"""Devices as PyTorch names them: `device('cpu')`, `device('cuda:1')`, `device('cuda', 1)`.

A value, not a handle: making one touches no hardware, and whether a backend serves it is asked when memory is
made there. Promises the layers below that equal devices are one object: `t.device is cpu` is the common test.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from nbgrad.base.tables import Table

_TYPES: Final = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, "
    "hpu, mtia, privateuseone"
)
_KNOWN: Final = frozenset(_TYPES.split(", "))
_FORM: Final = re.compile(r"([a-zA-Z_]+)(?::(0|[1-9][0-9]*))?")
_MAX_INDEX: Final = 127  # PyTorch keeps the index in an int8

_SIGNATURES: Final = "\n * (torch.device device)\n * (str type, int index = -1)\n"


class device:
    """A place for tensors, named as "cpu" or by type and `index` (None where none was named). It never changes and can be a key.

    >>> torch.device("cpu"), torch.device("cpu", 0)
    (device(type='cpu'), device(type='cpu', index=0))
    """

    __module__ = "nbgrad"  # where users find it

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __new__(
        cls,
        type: str | int | device | None = None,
        index: int | None = None,
        *,
        device: str | int | device | None = None,
    ) -> device:
        named = type if device is None else device
        if isinstance(named, _Device):
            if index is not None:
                raise TypeError("device(): argument 'type' (position 1) must be str, not torch.device")
            return named
        if isinstance(named, str):
            if index is not None and (isinstance(index, bool) or not isinstance(index, int)):
                got = index.__class__.__name__
                raise TypeError(f"device(): argument 'index' (position 2) must be int, not {got}")
            kind, position = _parse(named, index)
            return _cached(kind, position)
        if isinstance(named, int) and not isinstance(named, bool):
            if named < 0:
                raise RuntimeError("Device index must not be negative")
            if not gpus.count():
                raise RuntimeError("Cannot access accelerator device when none is available.")
            return _cached(*_parse("cuda", named))
        got = "" if type is None and device is None else named.__class__.__name__
        raise TypeError(
            f"device() received an invalid combination of arguments - got ({got}), "
            f"but expected one of:{_SIGNATURES}"
        )

    def __init_subclass__(cls, **kwargs: object) -> None:
        raise TypeError("type 'torch.device' is not an acceptable base type")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')"
            if self.index is None
            else f"device(type='{self.type}', index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[object, ...]:
        return (device, (self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> device:
        """In a `with`, new tensors are made here where nothing else is said."""
        default.before += (default.device,)
        _place(self)
        return self

    def __exit__(self, *_: object) -> None:
        *before, last = default.before
        default.before = tuple(before)
        _place(last)

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: object) -> device:
        return self


class _Gpus:
    """How many there are, for which a bare number stands, and which one a name without a number means: who knows their drivers says how
    to ask."""

    __slots__ = ("count", "named")
    count: Callable[[], int]
    named: Callable[[_Device], _Device]


gpus: Final = _Gpus()
_Device = device  # `__new__` has an argument called device


def _parse(text: str, index: int | None) -> tuple[str, int | None]:
    """Type and index of a device string; `index`, where given, stands for the part after the colon."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    if index is not None and ":" in text:
        raise RuntimeError(
            f"type (string) must not include an index because index was passed explicitly: {text}"
        )
    match = _FORM.fullmatch(text)
    if match is None:
        raise RuntimeError(f"Invalid device string: '{text}'")
    kind, digits = match.groups()
    if kind not in _KNOWN:
        raise RuntimeError(f"Expected one of {_TYPES} device type at start of device string: {kind}")
    if digits is not None:
        index = int(digits)
    if index is not None:
        if not -(2**63) <= index < 2**63:
            raise ValueError("Overflow when unpacking long long")
        if index < 0:
            raise RuntimeError("Device index must not be negative")
        if index > _MAX_INDEX:  # PyTorch wraps 128 around to -128; an error is kinder
            raise RuntimeError(f"Could not parse device index '{index}' in device string '{kind}:{index}'")
    return kind, index


_MADE: Table[tuple[str, int | None], device] = Table("memory.device.made", None)


def _cached(kind: str, index: int | None) -> device:
    made = _MADE.get((kind, index))
    if made is None:
        made = object.__new__(device)
        object.__setattr__(made, "type", kind)
        object.__setattr__(made, "index", index)
        made = _MADE.setdefault((kind, index), made)
    return made


cpu: Final = device("cpu")


class _Default(threading.local):
    device: Any = None  # where new tensors of this thread are made, if it was said
    before: tuple[Any, ...] = ()  # what it was before each `with` that is open


class _Elsewhere:
    """How many threads have said where: none, mostly, and then a factory's short way need not ask its own. One that ended so counts on."""

    __slots__ = ("threads",)
    threads: int


default: Final = _Default()
elsewhere: Final = _Elsewhere()
elsewhere.threads = 0
_counting: Final = threading.Lock()


def _place(where: device | None) -> None:
    with _counting:
        elsewhere.threads += (where is not None) - (default.device is not None)
    default.device = where


def set_default_device(device: str | _Device | None) -> None:
    """Where this thread's new tensors are made from now on, unless they are told a device; None is the CPU.

    >>> torch.set_default_device("meta")
    >>> torch.ones(2, 3)
    tensor(..., device='meta', size=(2, 3))
    >>> torch.set_default_device(None)
    """
    _place(None if device is None else _Device(device))


def get_default_device() -> device:
    """Where new tensors are made that are told no device.

    >>> with torch.device("meta"):
    ...     torch.get_default_device()
    device(type='meta')
    """
    said = default.device
    return cpu if said is None else settled(said) if said.index is None else said


def settled(where: _Device) -> _Device:
    """A device as tensors have it: of a GPU that is named by its type alone, the current one; others have no number.

    >>> settled(device("meta"))
    device(type='meta')
    """
    if where.type == "cuda":
        return gpus.named(where)
    return where if where.index is None else _cached(where.type, None)


Device: TypeAlias = device | str | int  # what stands for one
