"""A device that the CPU plays, so that all above a driver runs, and is tested, where there is no GPU.

Promises the verbs of `driver.py`, and no kindness: memory is poisoned when it is given and when it is given back, both with guards
around it that are looked at, and the threads of a block run in any of three orders. A number that was never written is a NaN, or an index
that leads nowhere. `Emulated` does at once what it is asked; `Deferred` does nothing before somebody waits, as a device may, so that who
reads too early, or frees too early, finds the poison. Kernels are CUDA's texts, rewritten for the CPU.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.kernels import build, launch
from nbgrad.kernels.cuda.driver import THREADS
from nbgrad.kernels.cuda.emulate import emulated
from nbgrad.kernels.cuda.prompt import Mark, Prompt, Work

GUARD: Final = 64  # bytes before a block and behind it
POISON: Final = 0xFF  # of floats a NaN, of integers -1
ORDERS: Final = (
    (1, 0),
    (255, 255),
    (77, 131),
)  # thread `(k * odd + shift) & 255` is the k-th: forward, backward, mixed
_LAUNCH: Final = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int64,
    *[ctypes.c_uint] * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
KEPT: Final = 256  # blocks that were given back and are looked at once more before their memory is


class Code(NamedTuple):
    """A kernel's machine code, what runs it, and what it takes."""

    address: int
    run: launch.Launch
    params: tuple[str, ...]


class Emulated(Prompt):
    """`order` is that of the threads, `uploads` and `downloads` count what went over."""

    def __init__(self) -> None:
        super().__init__()
        self.order = ORDERS[0]
        self.uploads = self.downloads = 0
        self._blocks: dict[int, np.ndarray[Any, Any]] = {}
        self._freed: deque[np.ndarray[Any, Any]] = deque()
        self._fault = ""
        self._codes: list[Code] = []
        self._raised: BaseException | None = None
        self._called = _LAUNCH(self._by_places)
        self.function: int = ctypes.cast(self._called, ctypes.c_void_p).value or 0

    def allocate(self, nbytes: int, stream: int) -> int:
        block = np.full(nbytes + 2 * GUARD, POISON, np.uint8)
        address = int(block.__array_interface__["data"][0]) + GUARD
        self._blocks[address] = block
        return address

    def free(self, address: int, nbytes: int, stream: int) -> None:
        block = self._blocks.pop(address)
        if (block[:GUARD] != POISON).any() or (block[GUARD + nbytes :] != POISON).any():
            self._fault = f"a kernel wrote beside a block of {nbytes} bytes"
        block[:] = POISON
        self._freed.append(block)
        if len(self._freed) > KEPT and (self._freed.popleft() != POISON).any():
            self._fault = "a kernel wrote to memory that was given back"

    def load(self, name: str, source: str, params: Sequence[str]) -> int:
        text, codes = emulated(name, source, params)
        letters = "".join(["d" if code in ("f4", "f8") else "q" for code in codes[2:]])
        made = Code(
            build.kernel(name, text, codes).address, launch.launcher(0, letters, False), tuple(params)
        )
        self._codes.append(made)
        return len(self._codes)

    def launch(self, code: int, blocks: int, args: Sequence[int | float], stream: int) -> None:
        address, run, _ = self._codes[code - 1]
        self.asked(stream, lambda: run(address, blocks, *args, blocks, *self.order))

    def _by_places(self, code: int, *given: Any) -> int:
        """What `cuLaunchKernel` does: it reads as many arguments as the kernel takes."""
        blocks, *shape, stream, places, _ = given
        try:
            params = self._codes[code - 1].params
            assert shape == [1, 1, THREADS, 1, 1, 0] and places[len(params)] is None, (shape, params)
            args: list[int | float] = [
                (ctypes.c_double if p == "f8" else ctypes.c_int64).from_address(at or 0).value
                for p, at in zip(params, places)
            ]
            self.launch(code, blocks, args, stream or 0)
        except BaseException as error:
            self._raised = error
            return 1
        return 0

    def enter(self, stream: int) -> int:
        return stream

    def refuse(self, status: int) -> None:
        error, self._raised = self._raised, None
        assert error is not None, status
        raise error

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self.asked(stream, lambda: ctypes.memmove(to, source, nbytes))

    def fill(self, to: int, byte: int, nbytes: int, stream: int) -> None:
        self.asked(stream, lambda: ctypes.memset(to, byte, nbytes))

    def upload(self, to: int, array: Any, stream: int) -> None:
        self.refuse_captured(stream)
        self.uploads += 1
        kept = array.copy()
        self.do(lambda: ctypes.memmove(to, _address(kept), kept.nbytes), stream)

    def send(self, to: int, array: Any, stream: int) -> None:
        self.uploads += 1
        self.asked(stream, lambda: ctypes.memmove(to, _address(array), array.nbytes))

    def download(self, array: Any, source: int, stream: int) -> None:
        self.refuse_captured(stream)
        self.downloads += 1
        self.synchronize(stream)
        ctypes.memmove(_address(array), source, array.nbytes)

    def fetch(self, array: Any, source: int, stream: int) -> None:
        self.downloads += 1
        self.asked(stream, lambda: ctypes.memmove(_address(array), source, array.nbytes))

    def synchronize(self, stream: int | None) -> None:
        if self._fault:
            fault, self._fault = self._fault, ""
            raise RuntimeError(f"emulated CUDA: {fault}")


class _Turn:
    """A place in a stream's queue, and whether it was come to."""

    def __init__(self, stream: int) -> None:
        self.stream, self.done = stream, False

    def come(self, mark: Mark) -> None:
        mark.at, self.done = time.perf_counter(), True


class Deferred(Emulated):
    """What is asked of it waits in a queue for each stream, and nothing of another's is done but what it holds for."""

    def __init__(self) -> None:
        super().__init__()
        self._queues: dict[int, deque[Work]] = {}
        self._turns: WeakKeyDictionary[Mark, _Turn] = WeakKeyDictionary()
        self._working = threading.RLock()

    def free(self, address: int, nbytes: int, stream: int) -> None:
        self.do(lambda: Emulated.free(self, address, nbytes, stream), stream)

    def do(self, work: Work, stream: int) -> None:
        self._queues.setdefault(stream, deque()).append(work)

    def record(self, event: Mark, stream: int) -> None:
        turn = self._turns[event] = _Turn(stream)
        self.do(lambda: turn.come(event), stream)

    def hold(self, stream: int, event: Mark) -> None:
        if (turn := self._turns.get(event)) is not None:
            self.do(lambda: self._come_to(turn), stream)

    def passed(self, event: Mark) -> bool:
        self.wait_for(event)
        return True

    def wait_for(self, event: Mark) -> None:
        if (turn := self._turns.get(event)) is not None:
            self._come_to(turn)

    def elapsed(self, first: Mark, last: Mark) -> float:
        self.wait_for(last)
        return super().elapsed(first, last)

    def _come_to(self, turn: _Turn) -> None:
        with self._working:
            queue = self._queues.get(turn.stream, deque())
            while queue and not turn.done:
                queue.popleft()()

    def synchronize(self, stream: int | None) -> None:
        with self._working:
            for each in list(self._queues) if stream is None else [stream]:
                self._come_to(_Turn(each))
        super().synchronize(stream)


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
