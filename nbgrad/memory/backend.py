"""What a device must do for a tensor: `CPU`, and `Meta`, which has no memory, so that of a call only its shape is found.

Promises the layers below that nothing else touches memory. `empty(nbytes)` makes a buffer, as `allocate(nbytes, bytes_)` does for the hot
path, `zeros(nbytes)` a cleared one; `view(buffer, offset)` is the buffer from an offset in bytes, `address(buffer)` where that is;
`kernel(name, source, params)` compiles, `constants(ints)` is what a kernel reads of a geometry, `launch(buffers, numbers, n)` the callable
that runs a kernel over buffers; `to_host(buffer, spec)` gives the values as a NumPy array (on the CPU, the memory itself),
`from_host(buffer)` what has the bytes of one of the CPU's (there, it itself). Only where one `holds` values can they be read;
`reader(code)` reads a single one. What one that is `prompt` launches is done when the call returns; elsewhere kernels look themselves
whether an index leads anywhere. What kernels tell the host goes by way of `told`: its `flag` (`kernels/faults.py`) and its `count`, a
number, each a pair of the buffer that a kernel is given and of what reads it as integers. A flag that is not 0 is `refused`; one of a
backend that is not `prompt` reads 0 there, and is looked at by the calls that wait.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from struct import Struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from nbgrad.kernels import build, faults, processor
from nbgrad.kernels import launch as _launch
from nbgrad.kernels.codes import FLOAT8
from nbgrad.kernels.cuda.driver import AcceleratorError as AcceleratorError
from nbgrad.kernels.cuda.driver import OutOfMemoryError as OutOfMemoryError
from nbgrad.memory import dtypes, gpu
from nbgrad.memory.device import device

if TYPE_CHECKING:
    from nbgrad.memory.storage import Spec

_bytes = np.dtype(np.uint8)
# What reads the elements of a dtype, by its code: eight times as quick as to make an array of one.
FORMATS: Final = {
    "f8": "d",
    "f4": "f",
    "f2": "e",
    "i8": "q",
    "i4": "i",
    "i2": "h",
    "i1": "b",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "b1": "?",
}
_float32 = Struct("<f").unpack
_parts = {"c8": Struct("=ff").unpack_from, "c16": Struct("=dd").unpack_from}


def _of_byte(d: dtypes.dtype, buffer: Any) -> tuple[float]:
    return (float(dtypes.unpacked(buffer[:1], d)[0]),)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    **{code: Struct(f"={form}").unpack_from for code, form in FORMATS.items()},
    "g2": lambda buffer: _float32(b"\0\0" + buffer[:2].tobytes()),
    "c8": lambda buffer: (complex(*_parts["c8"](buffer)),),
    "c16": lambda buffer: (complex(*_parts["c16"](buffer)),),
    **{code: partial(_of_byte, dtypes.of_code(code)) for code in FLOAT8},
}
Allocate: TypeAlias = Callable[[int, Any], Any]


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


class _Told(threading.local):
    """Of this thread."""

    def __init__(self) -> None:
        self.flag = self._words(4)
        self.count = self._words(1)

    @staticmethod
    def _words(n: int) -> tuple[Any, Any]:
        words = np.zeros(n, np.int64)
        return words.view(_bytes), words.data


def refused(flag: Any) -> Exception:
    """The error that a flag stands for, which from now on tells nothing."""
    error = faults.error(*flag)
    flag[0] = 0
    return error


_first, _addressof = ctypes.c_char.from_buffer, ctypes.addressof


class CPU:
    device, holds, prompt = device("cpu"), True, True
    told = _Told()
    allocate: Allocate = staticmethod(np.empty)  # whose MemoryError is for `check_room`
    kernel = staticmethod(build.kernel)

    @staticmethod
    def reader(code: str) -> Any:
        return _READERS[code]

    @staticmethod
    def from_host(buffer: Any) -> Any:
        return buffer

    @staticmethod
    def zeros(nbytes: int) -> Any:
        return np.zeros(nbytes, _bytes)

    @staticmethod
    def address(buffer: Any) -> int:
        try:
            return _addressof(_first(buffer))  # a seventh of the time that the array's own word takes
        except (TypeError, ValueError):  # of an array that is read-only or empty, or none of NumPy's
            return int(buffer.__array_interface__["data"][0])

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
    def constants(numbers: Sequence[int]) -> Any:
        return np.array(numbers, np.int64).view(_bytes)

    @staticmethod
    def copy(to: Any, source: Any, nbytes: int) -> None:
        to[:nbytes] = source[:nbytes]

    @staticmethod
    def write(buffer: Any, array: np.ndarray[Any, Any]) -> None:
        buffer[: len(array)] = array

    @staticmethod
    def bytes_of(buffer: Any, nbytes: int) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = buffer[:nbytes]
        return found

    @staticmethod
    def clear(buffer: Any, nbytes: int) -> None:
        (buffer if len(buffer) == nbytes else buffer[:nbytes]).fill(0)

    @staticmethod
    def launch(buffers: int, numbers: str, n: int, quick: bool = False) -> _launch.Launch:
        """For a range of `n` steps of about an element each; of `quick` ones, no step takes much longer."""
        if n == 0:
            return _nothing
        return _launch.launcher(buffers, numbers, n >= _launch.PARALLEL_FROM, quick=quick)

    @staticmethod
    def to_host(buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        try:
            return dtypes.values(buffer, spec.dtype, spec.shape, spec.strides)
        except ValueError as error:  # an expanded tensor may be larger than NumPy's arrays
            check_room(error)
            raise


def _nothing(*_: Any) -> None:
    """The launch over an empty range."""


class Nowhere:
    """Memory that there is not: so many bytes, from a place on in another, if in one. What wants to read it finds no array."""

    __slots__ = ("base", "nbytes", "start")

    def __init__(self, nbytes: int, base: Nowhere | None = None, start: int = 0) -> None:
        self.nbytes, self.base, self.start = nbytes, base, start

    def __len__(self) -> int:
        return self.nbytes

    def __getitem__(self, part: slice) -> Nowhere:
        start, stop, _ = part.indices(self.nbytes)
        return Nowhere(stop - start, self.base or self, self.start + start)

    def copy(self) -> Nowhere:
        return Nowhere(self.nbytes)


def _no_element(_: Any) -> Any:
    raise RuntimeError("Tensor.item() cannot be called on meta tensors")


class Meta:
    """Tensors of a shape, a dtype and strides, and nothing else."""

    device, holds, prompt = device("meta"), False, False
    told = SimpleNamespace(flag=(Nowhere(faults.BYTES), (0,)), count=(Nowhere(8), (0,)))

    @staticmethod
    def allocate(nbytes: int, _: Any) -> Any:
        return Nowhere(nbytes)

    empty = zeros = staticmethod(Nowhere)

    @staticmethod
    def reader(code: str) -> Any:
        return _no_element

    @staticmethod
    def from_host(buffer: Any) -> Any:
        return Nowhere(len(buffer))

    @staticmethod
    def address(buffer: Any) -> int:
        return int(buffer.start)

    @staticmethod
    def view(buffer: Any, offset: int) -> Any:
        return buffer[offset:]

    @staticmethod
    def constants(numbers: Sequence[int]) -> Any:
        return Nowhere(8 * len(numbers))

    @staticmethod
    def copy(to: Any, source: Any, nbytes: int) -> None:
        """There is nothing to copy."""

    @staticmethod
    def write(buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """There is nowhere to write to."""

    @staticmethod
    def bytes_of(buffer: Any, nbytes: int) -> np.ndarray[Any, Any]:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    @staticmethod
    def clear(buffer: Any, nbytes: int) -> None:
        """There is nothing to clear."""

    @staticmethod
    def kernel(
        name: str, source: str, params: Sequence[str], contract: bool = False, unrolled: bool = True
    ) -> build.Kernel:
        return build.Kernel(name, source, " ".join(params), "", contract, 0)

    @staticmethod
    def launch(buffers: int, numbers: str, n: int, quick: bool = False) -> _launch.Launch:
        return _nothing

    @staticmethod
    def to_host(buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")


Backend: TypeAlias = CPU | Meta | gpu.CUDA
BUFFERS: Final = np.ndarray, Nowhere, gpu.Buffer
cpu: Final = CPU()
meta: Final = Meta()
_SERVED: Final[dict[str, Backend]] = {"cpu": cpu, "meta": meta}


def of(where: device) -> Backend:
    """Who serves a device.

    >>> of(device("meta")).holds
    False
    """
    found = _SERVED.get(where.type)
    if found is None:
        if where.type == "cuda":
            return gpu.of(where)
        raise RuntimeError(
            f"Found no backend for device '{where}': this release of nbgrad computes on the CPU only"
        )
    return found


def of_memory(buffer: Any) -> Backend:
    """Who made it."""
    if isinstance(buffer, gpu.Buffer):
        return buffer.serves
    return meta if type(buffer) is Nowhere else cpu


def valueless(name: str) -> NotImplementedError:
    """The refusal of an op whose result's shape is for values to say, where there are none."""
    return NotImplementedError(
        f"aten::{name}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel registered."
    )


def vector_bits(serves: Backend) -> int | None:
    """Of the tiles of products, which only the CPU has, and where its vectors are known."""
    return processor.vector_bits() if serves is cpu else None


def same(devices: Iterable[device]) -> None:
    """Refuse operands that are not all on one device."""
    given = [*devices]
    meta = next((d for d in given if d is not given[0] and "meta" in (d.type, given[0].type)), None)
    if meta is not None:
        raise RuntimeError(f"Tensor on device {meta} is not on the expected device {given[0]}!")
    first, *others = sorted(given, key=lambda d: d is cpu.device)  # PyTorch names the CPU last
    for other in others:
        if other is not first:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {first} and {other}!"
            )


def of_array(array: np.ndarray[Any, Any]) -> Any:
    """The memory of an array whose strides are not negative, from its first element on, as a buffer that shares it."""
    if array.size == 0:
        return np.empty(0, _bytes)
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)  # what a subclass shows is its own affair
    flags = array.flags
    if flags.c_contiguous and flags.writeable:
        return array.reshape(-1).view(_bytes)
    extent = array.itemsize + sum(s * (n - 1) for s, n in zip(array.strides, array.shape))
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
