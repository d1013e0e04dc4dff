"""Calling kernels by address with the pointers of NumPy buffers.

Promises the dispatcher two callables per list of arguments, `launch(address, n, *buffers, *numbers)`: one runs the range
0..n on this thread, one shares it with the crew. Every buffer is a one-dimensional C-contiguous uint8 array (that is what a
tensor's memory is, so no other layout can arrive), which is why `calls.py` looks at nothing but where the memory lies.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import Table, cached
from nbgrad.expr.making import LOCK, uninterrupted
from nbgrad.kernels import calls, crew

Launch = Callable[..., None]

PARALLEL_FROM = 16384  # elements; measured break-even of two threads on a multiply
FEW = 256  # elements of which even a sort is `quick`
PIECES = 2  # of a range, per thread: who is kept from work by another process leaves more to the others
# The crew works for one launch at a time; one that comes meanwhile runs on its own thread.
_busy = threading.Lock()
_serial: Table[tuple[int, str, bool], Launch] = Table("kernels.launch.serial", None)
_parallel: Table[tuple[int, str, int], Launch] = Table("kernels.launch.parallel", None)
_threads = 0


def launcher(buffers: int, numbers: str, parallel: bool, pieces: int = PIECES, quick: bool = False) -> Launch:
    """`numbers` holds one letter per number after the buffers: d for float64, q for int64. What is `quick`, a matter of microseconds,
    keeps Python's lock: to give it away and take it back costs 0.03 us."""
    if not parallel:
        return _kept(_serial, (buffers, numbers, not quick), _alone)
    return _kept(_parallel, (buffers, numbers, pieces), _shared)


def _kept(table: Table[Any, Launch], key: Any, make: Callable[..., Launch]) -> Launch:
    found = table.get(key)
    if found is None:
        with uninterrupted(), LOCK:
            found = table.get(key) or table.setdefault(key, make(*key))
    return found


def _alone(buffers: int, numbers: str, nogil: bool) -> Launch:
    kinds = "b" * buffers + numbers
    return (
        calls.function("free" if nogil else "quick", kinds) if calls.fits(kinds) else calls.by_ctypes(kinds)
    )


def _shared(buffers: int, numbers: str, pieces: int) -> Launch:
    alone, kinds = launcher(buffers, numbers, False), "b" * buffers + numbers
    if not calls.fits(kinds):
        return alone
    return _with_crew(alone, calls.function("shared", kinds), pieces)


def _with_crew(alone: Launch, share: Launch, pieces: int) -> Launch:
    def launch(address: int, n: int, *args: Any) -> None:
        threads = get_num_threads()
        # Only `with` takes a lock and gives it back whatever interrupts; so one that was free when looked at may be waited for.
        if threads == 1 or _busy.locked():
            alone(address, n, *args)
            return
        with _busy:
            helpers = threads - 1
            share(address, n, crew.hire(helpers), helpers, pieces * threads, *args)

    return launch


@cached(1)
def untold() -> Launch | None:
    """Of two buffers and two numbers, each of the range a piece: of what is no kernel, so that nobody who records hears of it."""
    kinds = "bbqq"
    if not calls.fits(kinds):
        return None
    return _with_crew(calls.function("free", kinds, False), calls.function("shared", kinds, False), 1 << 10)


def get_num_threads() -> int:
    """How many threads a large op uses: as many as $OMP_NUM_THREADS says, else as there are cores that this process may use.

    >>> torch.get_num_threads() >= 1
    True
    """
    global _threads
    if not _threads:
        wanted = os.environ.get("OMP_NUM_THREADS", "")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        _threads = int(wanted) if wanted.isdecimal() and int(wanted) else cores
    return _threads


def set_num_threads(n: int) -> None:
    """Let large ops use `n` threads from now on.

    >>> before = torch.get_num_threads()
    >>> torch.set_num_threads(1)
    >>> torch.get_num_threads()
    1
    >>> torch.set_num_threads(before)
    """
    global _threads
    _threads = thread_count("set_num_threads", n)


def thread_count(name: str, n: Any) -> int:
    """What was given as a number of threads, if it is one."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(n).__name__}")
    if not -(2**31) <= n < 2**31:
        fits = -(2**63) <= n < 2**63
        raise ValueError(f"Overflow when unpacking long{'' if fits else ' long'}")
    if n <= 0:
        raise RuntimeError(f"{name} expects a positive integer")
    return n


def _in_child() -> None:
    global _busy
    _busy = threading.Lock()
    crew.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
