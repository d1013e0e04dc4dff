"""What users ask of a device beyond memory and launches, of a driver that has done each thing when the call returns.

Promises `driver.py`'s `Device` to a driver whose work passes through `asked`: streams are numbers, marks are times, and a graph is the list
of what a stream was asked while it was captured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import numpy as np

from nbgrad.kernels.cuda.driver import AcceleratorError, Properties

_TOTAL = 16 << 30  # bytes that it says it has
_HAS = Properties(
    name="Emulated GPU",
    major=9,
    minor=0,
    total_memory=_TOTAL,
    multi_processor_count=132,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 << 20,
    warp_size=32,
    max_threads_per_block=1024,
    clock_rate=1980000,
    memory_clock_rate=2619000,
    memory_bus_width=5120,
    is_integrated=False,
    is_multi_gpu_board=False,
    uuid="00000000-0000-0000-0000-000000000000",
    pci_domain_id=0,
    pci_bus_id=0,
    pci_device_id=0,
)
Work = Callable[[], Any]


class Mark:
    """A place in a stream, by the time when it was come to."""

    at = 0.0


class Prompt:
    """`blas` is what plays a library of products, `solver` one of factors, if anything does."""

    blas: Any = None
    solver: Any = None

    def __init__(self) -> None:
        self._streams = count(1)
        self._captured: dict[int, list[Work]] = {}
        self._pinned: dict[int, np.ndarray[Any, Any]] = {}

    def synchronize(self, stream: int | None) -> None:
        raise NotImplementedError

    def asked(self, stream: int, work: Work) -> None:
        """Do it, or while the stream is captured write it down."""
        captured = self._captured.get(stream) if self._captured else None
        if captured is None:
            self.do(work, stream)
        else:
            captured.append(work)

    def multiply(self, g: Any, x: int, y: int, o: int, room: int, stream: int) -> None:
        self.asked(stream, lambda: self.blas.gemm(g, x, y, o, room, stream))

    def room_for(self, routine: str, code: str, values: Mapping[str, int]) -> int:
        return int(self.solver.size(routine, code, values))

    def factor(self, routine: str, code: str, values: Mapping[str, int], stream: int) -> None:
        self.asked(stream, lambda: self.solver.run(routine, code, values, stream))

    def do(self, work: Work, stream: int) -> None:
        work()

    def stream(self, priority: int) -> int:
        return next(self._streams)

    def close(self, stream: int) -> None:
        self.synchronize(stream)

    def idle(self, stream: int) -> bool:
        self.synchronize(stream)
        return True

    def event(self, timing: bool) -> Mark:
        return Mark()

    def record(self, event: Mark, stream: int) -> None:
        self.synchronize(stream)
        event.at = time.perf_counter()

    def hold(self, stream: int, event: Mark) -> None:
        """What was marked is done."""

    def passed(self, event: Mark) -> bool:
        return True

    def wait_for(self, event: Mark) -> None:
        """It has been come to."""

    def elapsed(self, first: Mark, last: Mark) -> float:
        return (last.at - first.at) * 1e3

    def begin(self, stream: int, mode: int) -> None:
        self._captured[stream] = []

    def end(self, stream: int) -> list[Work]:
        return self._captured.pop(stream)

    def replay(self, graph: list[Work], stream: int) -> None:
        for work in graph:
            self.asked(stream, work)

    def refuse_captured(self, stream: int) -> None:
        """Of what a graph cannot hold."""
        if stream in self._captured:
            raise AcceleratorError("CUDA error: operation not permitted when stream is capturing")

    def capturing(self, stream: int) -> bool:
        return stream in self._captured

    def properties(self) -> Properties:
        return _HAS

    def room(self) -> tuple[int, int]:
        return _TOTAL, _TOTAL

    def trim(self) -> None:
        """Nothing is kept."""

    def pin(self, nbytes: int) -> int:
        block = np.empty(nbytes, np.uint8)
        address = int(block.__array_interface__["data"][0])
        self._pinned[address] = block
        return address

    def unpin(self, address: int) -> None:
        del self._pinned[address]

    def pinned(self, address: int) -> bool:
        return any(start <= address < start + len(block) for start, block in list(self._pinned.items()))
