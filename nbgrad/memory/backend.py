"""What a device must do for a tensor, as four verbs: empty, view, launch, to_host.

Promises the layers below that nothing else touches memory: `empty(nbytes)` makes a buffer, `view(buffer, offset)` is the
buffer from an offset in bytes, `launch(buffers, numbers, n)` is the callable that runs a kernel over them, `to_host(buffer, spec)`
the values as a NumPy array (on the CPU, the memory itself).
"""

from __future__ import annotations

import ctypes
import os
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nbgrad.kernels import launch as _launch
from nbgrad.memory.device import device

if TYPE_CHECKING:
    from nbgrad.memory.storage import Spec

_bytes = np.dtype(np.uint8)


def _keep_freed_memory() -> None:
    """Tells glibc to keep freed blocks of up to 32 MB for the next result, 256 MB in all, unless the user has told it something else.
    By itself it gives large ones back to the system, whose pages then return one fault at a time: `(a * b) * (a + b)` of a
    million float64 took 3.5 ms in place of 1.3."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None and not any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        for option, size in ((-1, 256 << 20), (-3, 32 << 20)):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            mallopt(option, size)


_keep_freed_memory()


def _no_room(nbytes: int) -> RuntimeError:
    return RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
        f"{nbytes} bytes. Error code 12 (Cannot allocate memory)"
    )


def check_size(nbytes: int) -> None:
    """Refuse what cannot be held before it is worked out bit by bit."""
    if nbytes >= 1 << 63:
        raise RuntimeError("numel: integer multiplication overflow")
    try:
        np.empty(nbytes, _bytes)
    except MemoryError:
        raise _no_room(nbytes) from None


def check_room(error: Exception) -> None:
    """Raise PyTorch's error in place of NumPy's on memory that there is not; any other is left to be raised again."""
    if isinstance(error, MemoryError) and hasattr(error, "shape") and hasattr(error, "dtype"):
        raise _no_room(prod(error.shape) * error.dtype.itemsize) from None
    if str(error).startswith(("array is too big;", "Maximum allowed dimension exceeded")):
        raise RuntimeError("Storage size calculation overflowed") from None


class CPU:
    name = "cpu"

    @staticmethod
    def empty(nbytes: int) -> Any:
        try:
            return np.empty(nbytes, _bytes)
        except MemoryError as error:
            check_room(error)
            raise

    @staticmethod
    def view(buffer: Any, offset: int) -> Any:
        if offset < len(buffer):
            return buffer[offset:]
        return np.ndarray(
            0, _bytes, buffer, len(buffer)
        )  # of none: a slice would begin where the buffer does

    @staticmethod
    def launch(buffers: int, numbers: str, n: int, quick: bool = False) -> _launch.Launch:
        """For a range of `n` steps of about an element each; of `quick` ones, no step takes much longer."""
        if n == 0:
            return _nothing
        return _launch.launcher(buffers, numbers, n >= _launch.PARALLEL_FROM, quick=quick)

    @staticmethod
    def to_host(buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        strides = tuple(s * spec.itemsize for s in spec.strides)
        try:
            if spec.numel == 0:  # NumPy wants room for the offset of even no element
                return np.empty(spec.shape, spec.dtype.np)
            return np.ndarray(spec.shape, spec.dtype.np, buffer, 0, strides)
        except ValueError as error:  # an expanded tensor may be larger than NumPy's arrays
            check_room(error)
            raise


def _nothing(*_: Any) -> None:
    """The launch over an empty range."""


cpu = CPU()


def of(where: device) -> CPU:
    if where.type != "cpu":
        raise RuntimeError(
            f"Found no backend for device '{where}': this release of nbgrad computes on the CPU only"
        )
    return cpu


def from_host(array: np.ndarray[Any, Any]) -> Any:
    """The memory of an array whose strides are not negative, from its first element on, as a buffer that shares it."""
    if array.size == 0:
        return np.empty(0, _bytes)
    extent = array.itemsize + sum(s * (n - 1) for s, n in zip(array.strides, array.shape))
    if array.flags.c_contiguous and array.flags.writeable:
        return array.reshape(-1).view(_bytes)
    return np.asarray(_Memory(array, extent))


class _Memory:
    """Strided or read-only memory offered to NumPy as plain bytes; PyTorch, too, writes to read-only arrays when told to."""

    def __init__(self, array: np.ndarray[Any, Any], nbytes: int) -> None:
        self._keep = array
        self.__array_interface__ = {
            "data": (array.__array_interface__["data"][0], False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }
