"""The threads that help with large launches.

Promises the launchers `hire(count)`: the address of a block through which `count` helpers can be given pieces (`calls.py`
has what they do with it). The caller takes pieces as well, and never waits for a helper that has not begun. That is why this is no
OpenMP: at its barrier a launch waits until every thread has come, which takes a slice of the scheduler (4 to 15 ms) where another
process has the second core. A helper that finds nothing to do for 0.2 ms goes to sleep. A forked child hires its own.
"""

from __future__ import annotations

import _thread
import ctypes
from typing import Any

import numpy as np

from nbgrad.expr.making import LOCK, uninterrupted
from nbgrad.kernels import calls

_block: Any = None
_address = 0
_hired = 0


def hire(count: int) -> int:
    if _hired < count:
        with uninterrupted(), LOCK:
            _hire(count)
    return _address


def _hire(count: int) -> None:
    global _block, _address, _hired
    if _block is None:
        _block = _new_block()
        _address = int(_block.ctypes.data)
    if _hired < count:
        live = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(calls.helper())  # without the GIL
        while _hired < count:
            _thread.start_new_thread(live, (_address, _hired))
            _hired += 1


def _new_block() -> Any:
    room = np.zeros(calls.SIZE + 8, np.int64)
    block = room[-room.ctypes.data % 64 // 8 :][: calls.SIZE]
    library = ctypes.CDLL(None)
    for begin, place in (
        (library.pthread_mutex_init, calls.MUTEX),
        (library.pthread_cond_init, calls.CONDITION),
    ):
        begin(ctypes.c_void_p(block[place:].ctypes.data), None)
    return block


def forget() -> None:
    """In a forked child, where the parent's helpers do not live."""
    global _block, _hired
    _block, _hired = None, 0
