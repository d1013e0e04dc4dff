"""A device of NVIDIA's: the verbs of `driver.py` through cuda.core and cuda.bindings, imported when the first device is used.

Promises that a thread need not know of contexts, which CUDA keeps by thread, that streams and addresses are plain integers, and that
what went wrong is said in PyTorch's words, with what to do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any, Final

import numpy as np

from nbgrad.base.tables import Table
from nbgrad.kernels.cuda import direct, probe, solver
from nbgrad.kernels.cuda.blas import Gemm, Library, library
from nbgrad.kernels.cuda.cubins import cubin
from nbgrad.kernels.cuda.driver import CAPTURES, THREADS, AcceleratorError, Properties

_NO_ROOM: Final = 2  # CUDA's numbers of errors
_NOT_READY: Final = 600
_RELAXED: Final = CAPTURES.index("relaxed")
_NONBLOCKING: Final = 1
_LEGACY: Final = 1  # the default stream that all threads have in common, by a name that says so
_SINCE: Final = 12000  # the release of CUDA whose form of a function is asked for
_NO_TIMES: Final = 2
_PORTABLE: Final = 1  # memory of the host that is pinned for all devices
_HINT: Final = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."
    "\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)


class _Here(threading.local):
    device: Any = None  # whose context the thread is in


_here = _Here()


_watched: Final[set[int]] = set()  # streams whose capture forbids others what might disturb it


def _in_child() -> None:
    _here.device = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class _Made(dict[int, Any]):
    """What is made of a number at its first use."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __missing__(self, number: int) -> Any:
        if len(self) >= 4096:
            self.clear()
        made = self[number] = self.make(number)
        return made


class Real:
    """`uploads` and `downloads` count what went over."""

    def __init__(self, index: int) -> None:
        probe.check()
        if index >= probe.devices():
            raise AcceleratorError("CUDA error: invalid device ordinal")
        from cuda import core
        from cuda.bindings import driver

        self._cuda, self._core, self._process = driver, core, os.getpid()
        self._kernels: Table[int, tuple[str, Any]] = Table("kernels.cuda.real.kernels", None)
        self._told = False
        self.uploads = self.downloads = 0
        self._pinned: dict[int, int] = {}
        self._modes = [driver.CUstreamCaptureMode(mode) for mode in range(len(CAPTURES))]
        self._device = core.Device(index)
        self._enter()
        self._run = core.launch
        self._grids = _Made(lambda blocks: core.LaunchConfig(grid=blocks, block=THREADS))
        self._streams = _Made(lambda s: core.Stream.from_handle(s) if s else core.LEGACY_DEFAULT_STREAM)
        self._pool = self._ask(driver.cuDeviceGetDefaultMemPool(index))
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._ask(driver.cuMemPoolSetAttribute(self._pool, threshold, driver.cuuint64_t(2**64 - 1)))
        self.index, self.capability = index, tuple(self._device.compute_capability)
        # A stream that is captured may not be asked for memory: this one is.
        self._aside = self.stream(0)
        self.function: int = self._ask(driver.cuGetProcAddress(b"cuLaunchKernel", _SINCE, 0))[0]
        if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
            self.function = 0
            self.launch = self._launch_and_wait  # type: ignore[method-assign]

    def _enter(self) -> None:
        """Put the thread into the device's context."""
        if os.getpid() != self._process:
            probe.check()
        direct.forget()
        self._device.set_current()
        _here.device = self

    def _ask(self, answer: Any) -> Any:
        """The value of what CUDA answers, or its error."""
        error, *values = answer
        if error:
            raise self._failure(int(error))
        return values[0] if len(values) == 1 else values or None

    def _call(self, name: str, *args: Any) -> Any:
        if _here.device is not self:
            self._enter()
        if not _watched:
            return self._ask(getattr(self._cuda, name)(*args))
        with self._unwatched():
            return self._ask(getattr(self._cuda, name)(*args))

    @contextmanager
    def _unwatched(self) -> Iterator[None]:
        """Calls of ours, which disturb no capture, while one watches over those of a thread or of all."""
        before = self._ask(self._cuda.cuThreadExchangeStreamCaptureMode(self._modes[_RELAXED]))
        try:
            yield
        finally:
            self._cuda.cuThreadExchangeStreamCaptureMode(before)

    def _failure(self, error: int) -> Exception:
        text = self._text(error)
        if error == _NO_ROOM:
            return MemoryError(text)
        last, self._told = None if self._told else self._kernels.get(direct.last()), True
        hint = "" if last is None else f"\nThe kernel that was launched last is `{last[0]}`."
        return AcceleratorError(f"CUDA error: {text}{_HINT}{hint}")

    def _text(self, error: int) -> str:
        code, text = self._cuda.cuGetErrorString(self._cuda.CUresult(error))
        return "unknown error" if code else text.decode()

    # memory

    def allocate(self, nbytes: int, stream: int) -> int:
        if stream and self.capturing(stream):
            made = self._call("cuMemAllocFromPoolAsync", nbytes, self._pool, self._aside)
            self.synchronize(self._aside)
        else:
            made = self._call("cuMemAllocFromPoolAsync", nbytes, self._pool, stream)
        return int(made)

    def free(self, address: int, nbytes: int, stream: int) -> None:
        if stream and self.capturing(stream):
            stream = self._aside
        self._call("cuMemFreeAsync", address, stream)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyAsync", to, source, nbytes, stream)

    def fill(self, to: int, byte: int, nbytes: int, stream: int) -> None:
        self._call("cuMemsetD8Async", to, byte, nbytes, stream)

    def upload(self, to: int, array: Any, stream: int) -> None:
        self.send(to, array, stream)
        if self.pinned(_address(array)):  # any other memory CUDA has copied by now
            self.synchronize(stream)

    def send(self, to: int, array: Any, stream: int) -> None:
        self.uploads += 1
        self._call("cuMemcpyHtoDAsync", to, _address(array), array.nbytes, stream)

    def download(self, array: Any, source: int, stream: int) -> None:
        self.fetch(array, source, stream)
        self.synchronize(stream)

    def fetch(self, array: Any, source: int, stream: int) -> None:
        self.downloads += 1
        self._call("cuMemcpyDtoHAsync", _address(array), source, array.nbytes, stream)

    def pin(self, nbytes: int) -> int:
        address = int(self._call("cuMemHostAlloc", nbytes, _PORTABLE))
        self._pinned[address] = address + nbytes
        return address

    def unpin(self, address: int) -> None:
        del self._pinned[address]
        self._call("cuMemFreeHost", address)

    def pinned(self, address: int) -> bool:
        return any(start <= address < stop for start, stop in list(self._pinned.items()))

    def room(self) -> tuple[int, int]:
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def trim(self) -> None:
        self.synchronize(None)
        self._call("cuMemPoolTrimTo", self._pool, 0)

    # kernels

    def load(self, name: str, source: str, params: Sequence[str]) -> int:
        entry, code = cubin(name, source, params, self.capability)
        if _here.device is not self:
            self._enter()
        with self._unwatched() if _watched else nullcontext():
            kernel = self._core.ObjectCode.from_cubin(code, name=name).get_kernel(entry)
            made = int(
                self._ask(self._cuda.cuKernelGetFunction(kernel.handle))
            )  # now: no capture may wait for it
        self._kernels[made] = name, kernel
        return made

    def enter(self, stream: int) -> int:
        if _here.device is not self:
            self._enter()
        return stream or _LEGACY

    def refuse(self, status: int) -> None:
        raise self._failure(status)

    def launch(self, code: int, blocks: int, args: Sequence[int | float], stream: int) -> None:
        if _here.device is not self:
            self._enter()
        direct.note(code)
        try:
            self._run(self._streams[stream], self._grids[blocks], self._kernels[code][1], *args)
        except Exception as error:  # cuda.core's, which names CUDA's
            raise self._of_core(error) from None

    def _launch_and_wait(self, code: int, blocks: int, args: Sequence[int | float], stream: int) -> None:
        Real.launch(self, code, blocks, args, stream)
        if not self.capturing(stream):
            self.synchronize(stream)

    @cached_property
    def blas(self) -> Library | None:
        if _here.device is not self:
            self._enter()
        with self._unwatched() if _watched else nullcontext():
            return library()

    def multiply(self, g: Gemm, x: int, y: int, o: int, room: int, stream: int) -> None:
        if _here.device is not self:
            self._enter()
        assert self.blas is not None
        self.blas.gemm(g, x, y, o, room, stream)

    @cached_property
    def solver(self) -> solver.Library | None:
        if _here.device is not self:
            self._enter()
        with self._unwatched() if _watched else nullcontext():
            return solver.library()

    def room_for(self, routine: str, code: str, values: Mapping[str, int]) -> int:
        if _here.device is not self:
            self._enter()
        assert self.solver is not None
        return self.solver.size(routine, code, values)

    def factor(self, routine: str, code: str, values: Mapping[str, int], stream: int) -> None:
        if _here.device is not self:
            self._enter()
        assert self.solver is not None
        self.solver.run(routine, code, values, stream)

    def _of_core(self, error: Exception) -> Exception:
        name = str(error).partition(":")[0]
        known = self._cuda.CUresult.__members__.get(name)
        return error if known is None else self._failure(int(known))

    # streams, and marks in them

    def synchronize(self, stream: int | None) -> None:
        if stream is None:
            self._call("cuCtxSynchronize")
        else:
            self._call("cuStreamSynchronize", stream)

    def stream(self, priority: int) -> int:
        return int(self._call("cuStreamCreateWithPriority", _NONBLOCKING, priority))

    def close(self, stream: int) -> None:
        self._streams.pop(stream, None)
        self._call("cuStreamDestroy", stream)

    def idle(self, stream: int) -> bool:
        return self._ready("cuStreamQuery", stream)

    def _ready(self, name: str, *args: Any) -> bool:
        if _here.device is not self:
            self._enter()
        with self._unwatched() if _watched else nullcontext():
            answer = getattr(self._cuda, name)(*args)
        return int(answer[0]) != _NOT_READY and self._ask(answer) is None

    def event(self, timing: bool) -> Any:
        return _Owned(self._cuda.cuEventDestroy, self._call("cuEventCreate", 0 if timing else _NO_TIMES))

    def record(self, event: Any, stream: int) -> None:
        self._call("cuEventRecord", event.handle, stream)

    def hold(self, stream: int, event: Any) -> None:
        self._call("cuStreamWaitEvent", stream, event.handle, 0)

    def passed(self, event: Any) -> bool:
        return self._ready("cuEventQuery", event.handle)

    def wait_for(self, event: Any) -> None:
        self._call("cuEventSynchronize", event.handle)

    def elapsed(self, first: Any, last: Any) -> float:
        return float(self._call("cuEventElapsedTime", first.handle, last.handle))

    # work that is written down

    def begin(self, stream: int, mode: int) -> None:
        self._call("cuStreamBeginCapture", stream, self._modes[mode])
        if mode != _RELAXED:
            _watched.add(stream)

    def end(self, stream: int) -> Any:
        _watched.discard(stream)
        graph = self._call("cuStreamEndCapture", stream)
        made = _Owned(self._cuda.cuGraphExecDestroy, self._call("cuGraphInstantiate", graph, 0))
        self._call("cuGraphDestroy", graph)
        return made

    def replay(self, graph: Any, stream: int) -> None:
        self._call("cuGraphLaunch", graph.handle, stream)

    def capturing(self, stream: int) -> bool:
        return bool(stream) and int(self._call("cuStreamIsCapturing", stream)) != 0

    def properties(self) -> Properties:
        has, device = self._device.properties, self._device
        return Properties(
            name=device.name,
            major=self.capability[0],
            minor=self.capability[1],
            total_memory=int(self._call("cuDeviceTotalMem", self.index)),
            multi_processor_count=has.multiprocessor_count,
            max_threads_per_multi_processor=has.max_threads_per_multiprocessor,
            regs_per_multiprocessor=has.max_registers_per_multiprocessor,
            shared_memory_per_block=has.max_shared_memory_per_block,
            shared_memory_per_block_optin=has.max_shared_memory_per_block_optin,
            shared_memory_per_multiprocessor=has.max_shared_memory_per_multiprocessor,
            L2_cache_size=has.l2_cache_size,
            warp_size=has.warp_size,
            max_threads_per_block=has.max_threads_per_block,
            clock_rate=has.clock_rate,
            memory_clock_rate=has.memory_clock_rate,
            memory_bus_width=has.global_memory_bus_width,
            is_integrated=has.integrated,
            is_multi_gpu_board=has.multi_gpu_board,
            uuid=device.uuid,
            pci_domain_id=has.pci_domain_id,
            pci_bus_id=has.pci_bus_id,
            pci_device_id=has.pci_device_id,
        )


class _Owned:
    """What CUDA made, and takes back with its last user."""

    __slots__ = ("_end", "handle")

    def __init__(self, end: Callable[[Any], Any], handle: Any) -> None:
        self._end, self.handle = end, handle

    def __del__(self) -> None:
        self._end(self.handle)


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
