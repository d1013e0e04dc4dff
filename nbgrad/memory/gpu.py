"""What a GPU does for a tensor: the verbs of `backend.py` over a driver's, real or emulated.

Promises that its memory is no array: a `Buffer` has an address and a length, and what is no kernel finds nothing in it to read. What is
made for it once, a kernel's code or the constants of a geometry, stays on the device with the plan.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import numpy as np

from nbgrad.base.switches import noting
from nbgrad.base.tables import Table
from nbgrad.kernels import faults
from nbgrad.kernels.cuda import probe
from nbgrad.kernels.cuda.blas import WORKSPACE, Gemm
from nbgrad.kernels.cuda.driver import AcceleratorError, Device
from nbgrad.kernels.cuda.launch import Kernel, Launch, Streams, launcher, streams
from nbgrad.memory import dtypes, philox
from nbgrad.memory.device import device, gpus
from nbgrad.memory.pool import Pool

if TYPE_CHECKING:
    from nbgrad.memory.storage import Spec


class Buffer:
    """So many bytes of a device, from an address on: part of `base`, unless that is None."""

    __slots__ = ("__weakref__", "address", "base", "nbytes", "serves")
    address: int
    base: Any
    nbytes: int
    serves: CUDA

    def __len__(self) -> int:
        return self.nbytes

    def __reduce__(self) -> Any:
        return _uploaded, (self.serves.device, self.serves.bytes_of(self, self.nbytes))

    def __getitem__(self, part: slice) -> Buffer:
        start, stop, _ = part.indices(self.nbytes)
        shown = Buffer()
        shown.serves, shown.address, shown.nbytes = self.serves, self.address + start, max(stop - start, 0)
        shown.base = self if self.base is None else self.base
        return shown

    def copy(self) -> Buffer:
        made = self.serves.empty(self.nbytes)
        self.serves.copy(made, self, self.nbytes)
        return made


class Block(Buffer):
    """A buffer whose memory goes back to where it came from with it, to be used again after what its stream was asked until then."""

    __slots__ = ("stream",)
    stream: int

    def __del__(self) -> None:
        if self.nbytes:
            self.serves.pool.free(self.address, self.nbytes, self.stream)


def _uploaded(where: device, data: np.ndarray[Any, Any]) -> Buffer:
    """What a pickle held."""
    return of(where).from_host(data)


_block: Callable[[type[Block]], Block] = object.__new__
_bytes = np.dtype(np.uint8)


def _nothing(*_: Any) -> None:
    """The launch over an empty range."""


class _Count:
    """A number that a kernel writes: to read it is to wait for it."""

    def __init__(self, serves: CUDA, buffer: Buffer) -> None:
        self.serves, self.buffer = serves, buffer

    def __getitem__(self, k: int) -> int:
        (number,) = self.serves.reader("i8")(self.buffer)
        return int(number)


_EARLIER: Final = (
    " (in an earlier call: errors of kernels on a device are raised by the next call that waits for it)"
)


class _Told:
    """What kernels tell the host. One flag is all of the device's: it lies in memory of the host that kernels write to, so that calls
    which have waited read it without another copy."""

    def __init__(self, serves: CUDA) -> None:
        self._serves = serves
        self._words: ctypes.Array[ctypes.c_int64] | None = None
        self._flag: Buffer

    @property
    def flag(self) -> tuple[Buffer, tuple[int]]:
        if self._words is None:
            address = self._serves.driver.pin(faults.BYTES)
            self._flag = self._serves.foreign(address, faults.BYTES, self)
            self._words = (ctypes.c_int64 * (faults.BYTES // 8)).from_address(address)
            self._words[0] = 0
        return self._flag, (0,)

    @property
    def count(self) -> tuple[Buffer, _Count]:
        buffer = self._serves.empty(8)
        return buffer, _Count(self._serves, buffer)

    def look(self, earlier: str = _EARLIER) -> None:
        """Raise what a kernel told that has run by now."""
        if self._words is not None and self._words[0]:
            error = faults.error(*self._words)
            self._words[0] = 0
            raise type(error)(f"{error}{earlier}")


class Recording:
    """Of a graph, how far each launch of it goes in random streams. Kernels read where those stand in memory of the device."""

    def __init__(self, serves: CUDA) -> None:
        self._serves = serves
        self._drawn: dict[philox.Philox, tuple[Buffer, int]] = {}

    def take(self, stream: philox.Philox, steps: int) -> tuple[Buffer, int]:
        """Where that is, and what a kernel's own steps begin with."""
        stood, so_far = self._drawn.get(stream) or (self._serves.beside(np.zeros(16, np.uint8)), 0)
        self._drawn[stream] = stood, so_far + steps
        return stood, so_far

    def go_on(self) -> None:
        """Before each launch."""
        for stream, (stood, steps) in self._drawn.items():
            words = np.array(stream.take(steps), np.uint64)
            self._serves.write(stood, words.view(np.uint8))


class CUDA:
    """Tensors of one device."""

    holds: Final = True
    prompt: Final = False

    def __init__(self, index: int, driver: Device, keeps: bool = True) -> None:
        self.device, self.driver = device("cuda", index), driver
        self.pool, self.told = Pool(driver, index, keeps), _Told(self)
        self.recordings: dict[int, Recording] = {}  # by the stream that is captured
        self._constants: WeakValueDictionary[tuple[int, ...], Buffer] = WeakValueDictionary()
        self._kernels: Table[tuple[str, str, tuple[str, ...]], Kernel] = Table("memory.gpu.kernels", None)
        self._launchers: Table[tuple[int, str, bool, int], Launch] = Table("memory.gpu.launchers", None)
        self._readers: dict[str, Callable[[Buffer], tuple[Any]]] = {}

    def allocate(self, nbytes: int, _: Any) -> Buffer:
        stream = streams.current
        address = self.pool.allocate(nbytes, stream) if nbytes else 0
        made = _block(Block)
        made.serves, made.address, made.nbytes, made.base, made.stream = self, address, nbytes, None, stream
        return made

    def empty(self, nbytes: int) -> Buffer:
        return self.allocate(nbytes, _bytes)

    def zeros(self, nbytes: int) -> Buffer:
        made = self.empty(nbytes)
        self.clear(made, nbytes)
        return made

    def clear(self, buffer: Any, nbytes: int) -> None:
        if nbytes:
            if noting.steps is not None:
                noting.steps.append(("fill", buffer, nbytes))
            self.driver.fill(buffer.address, 0, nbytes, streams.current)

    def foreign(self, address: int, nbytes: int, owner: Any) -> Buffer:
        """Memory of another library, which `owner` keeps."""
        shown = Buffer()
        shown.serves, shown.address, shown.nbytes, shown.base = self, address, nbytes, owner
        return shown

    def view(self, buffer: Any, offset: int) -> Buffer:
        shown: Buffer = buffer[offset:]
        return shown

    def address(self, buffer: Any) -> int:
        return int(buffer.address)

    def constants(self, numbers: Sequence[int]) -> Buffer:
        """Uploaded once, as long as somebody has them; where there are several streams, for all of them."""
        key = tuple(numbers)
        found = self._constants.get(key)
        if found is None:
            make = self.beside if streams.several else self.from_host
            found = self._constants[key] = make(np.array(key, np.int64).view(_bytes))
        return found

    def beside(self, array: Any) -> Buffer:
        """On the default stream, done when this returns: for other streams, and a graph, which begins with what was there before."""
        captured, streams.current = streams.current, 0
        try:
            made = self.from_host(array)
            self.driver.synchronize(0)
        finally:
            streams.current = captured
        return made

    def recording(self) -> Recording | None:
        """The graph that this thread's work is written down for."""
        return self.recordings.get(streams.current) if self.recordings else None

    def held(self) -> list[Buffer]:
        """All constants that somebody has now."""
        return list(self._constants.values())

    def kernel(
        self, name: str, source: str, params: Sequence[str], contract: bool = False, unrolled: bool = True
    ) -> Kernel:
        key = name, source, tuple(params)
        return self._kernels.get(key) or self._kernels.setdefault(key, Kernel(self.driver, *key))

    def launch(self, buffers: int, numbers: str, n: int, quick: bool = False) -> Launch:
        """For a range of `n` steps; of one step, or of what is to be written in order, on one thread."""
        if n == 0:
            return _nothing
        key = buffers, numbers, n <= 1, 1 << (n - 1).bit_length()
        return self._launchers.get(key) or self._launchers.setdefault(key, self._launcher(*key))

    def _launcher(self, *key: Any) -> Launch:
        made = launcher(self.driver, (Buffer, Block), *key)
        if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") in ("", "0"):
            return made

        def waiting(*args: Any) -> None:
            made(*args)
            self.driver.synchronize(None)
            self.told.look("")

        return waiting

    def multiply(self, g: Gemm, x: Any, y: Any, o: Any) -> None:
        """By the driver's library, which has memory of the stream's to work in."""
        if noting.steps is not None:
            noting.steps.append(("multiply", g, x, y, o))
        room = self.empty(WORKSPACE)
        self.driver.multiply(g, x.address, y.address, o.address, room.address, streams.current)

    def factor(
        self, routine: str, code: str, numbers: Mapping[str, int], places: Sequence[Mapping[str, int]]
    ) -> None:
        """By the driver's library, of one matrix after another, with the same memory to work in."""
        noting.refuse()
        size = self.driver.room_for(routine, code, {**numbers, **places[0]})
        room = self.empty(size * int(code[1]))
        for place in places:
            given = {**numbers, **place, "work": room.address, "size": size}
            self.driver.factor(routine, code, given, streams.current)

    def copy(self, to: Any, source: Any, nbytes: int) -> None:
        if nbytes:
            if noting.steps is not None:
                noting.steps.append(("copy", to, source, nbytes))
            self.driver.copy(to.address, source.address, nbytes, streams.current)

    def from_host(self, array: Any) -> Buffer:
        made = self.empty(len(array))
        self.write(made, array)
        return made

    def write(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """The host's bytes to the begin of a buffer."""
        if array.nbytes:
            if noting.steps is not None:
                noting.steps.append(("upload", buffer, array.tobytes()))
            self.driver.upload(buffer.address, array, streams.current)

    def bytes_of(self, buffer: Any, nbytes: int) -> np.ndarray[Any, Any]:
        """The first bytes of a buffer, copied to the host."""
        noting.refuse()
        found = np.empty(nbytes, _bytes)
        if waits.mode:
            waits.tell()
        if nbytes:
            self.driver.download(found, buffer.address, streams.current)
        self.told.look()
        return found

    def to_host(self, buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        """A copy, which is not to be written to: nobody would see it."""
        found = dtypes.values(self.bytes_of(buffer, spec.nbytes), spec.dtype, spec.shape, spec.strides)
        found.flags.writeable = False
        return found

    def reader(self, code: str) -> Callable[[Buffer], tuple[Any]]:
        found = self._readers.get(code)
        if found is None:
            d = dtypes.of_code(code)
            found = self._readers[code] = lambda buffer: (
                dtypes.values(self.bytes_of(buffer, d.itemsize), d, (1,), (1,))[0].item(),
            )
        return found

    def synchronize(self, stream: int | None = None) -> None:
        self.driver.synchronize(stream)
        self.told.look()


class _Waits:
    """What is said where the CPU waits for a device: 0 nothing, 1 a warning, 2 an error."""

    mode = 0

    def tell(self) -> None:
        text = "called a synchronizing CUDA operation"
        if self.mode == 2:
            raise RuntimeError(text)
        warnings.warn(text, UserWarning, stacklevel=2)


waits: Final = _Waits()


def emulated() -> str:
    """How a device is played, if one is: "deferred" or at once."""
    return os.environ.get("NBGRAD_CUDA_EMULATE", "")


def device_count() -> int:
    """How many devices there are."""
    return 1 if emulated() else probe.devices()


def check() -> None:
    """Refuse where there is no device, in words of what to do."""
    if not emulated():
        probe.check()


def _started(index: int) -> CUDA:
    how = emulated()
    if not how:
        from nbgrad.kernels.cuda.real import Real

        return CUDA(index, Real(index))
    if index:
        raise AcceleratorError("CUDA error: invalid device ordinal")
    from nbgrad.kernels.cuda.emulated import Deferred, Emulated

    made = CUDA(0, Deferred() if how == "deferred" else Emulated(), keeps=False)
    atexit.register(setattr, made.pool, "keeps", True)  # the driver may be gone before the last tensor
    return made


gpus.count = device_count


class _Current(threading.local):
    """Which device a thread uses where none is named."""

    index = 0


current: Final = _Current()
_served: Table[int, CUDA] = Table("memory.gpu.served", None)
_starting: Final = threading.Lock()


def started() -> bool:
    """Whether a device is in use."""
    return bool(_served)


def part() -> None:
    """There is another stream than the default one: what was made for all on that is done."""
    if not streams.several:
        for serves in list(_served.values()):
            serves.driver.synchronize(0)
        Streams.several = True


def capturing() -> bool:
    """Whether this thread's work is written down, and not done."""
    return bool(streams.current) and of(device("cuda")).pool.captures(streams.current)


def choose(index: int) -> int:
    """Let this thread use a device where none is named, and say which it was."""
    if index >= device_count():
        raise AcceleratorError("CUDA error: invalid device ordinal")
    before = current.index
    if index != before:
        streams.others[before] = streams.current
        current.index, streams.current = index, streams.others.get(index, 0)
    return before


def of(where: device) -> CUDA:
    """Who serves a device of this type."""
    index = current.index if where.index is None else where.index
    found = _served.get(index)
    if found is None:
        with _starting:
            found = _served.get(index) or _served.setdefault(index, _started(index))
    return found


gpus.named = lambda where: of(where).device
