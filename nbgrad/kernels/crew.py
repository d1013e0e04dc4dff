"""The threads that help with large launches.

Promises the launchers `hire(count)`: the address of a block through which `count` helpers can be given pieces (`kernels/cpu/crew.py`
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
from nbgrad.kernels import build

_SOURCE = '''"""{title}"""
from nbgrad.kernels.cpu.crew import {function}


def @NAME@({names}):
    {function}({passed})
'''

_block: Any = None
_address = 0
_hired = 0


def _kernel(title: str, function: str, names: str, passed: str) -> int:
    source = _SOURCE.format(title=title, function=function, names=names, passed=passed)
    return build.kernel(function, source, ["i8"] * len(names.split())).address


def share() -> int:
    """The address of what runs a range in pieces; as a kernel's, its arguments begin with start and stop."""
    names = "n, crew, helpers, pieces, function, args"
    return _kernel("A range in pieces, shared with helpers.", "share", f"start, {names}", names)


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
        address = _kernel("The life of a helper.", "help_always", "crew, helper", "crew, helper")
        live = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)  # without the GIL
        while _hired < count:
            _thread.start_new_thread(live, (_address, _hired))
            _hired += 1


def _new_block() -> Any:
    from nbgrad.kernels.cpu import crew as places

    room = np.zeros(places.SIZE + 8, np.int64)
    block = room[-room.ctypes.data % 64 // 8 :][: places.SIZE]
    library = ctypes.CDLL(None)
    functions = {
        places.LOCK: library.pthread_mutex_lock,
        places.UNLOCK: library.pthread_mutex_unlock,
        places.WAIT: library.pthread_cond_wait,
        places.WAKE: library.pthread_cond_broadcast,
        places.YIELD: library.sched_yield,
    }
    for place, function in functions.items():
        block[place] = ctypes.cast(function, ctypes.c_void_p).value or 0
    for begin, place in (
        (library.pthread_mutex_init, places.MUTEX),
        (library.pthread_cond_init, places.CONDITION),
    ):
        begin(ctypes.c_void_p(block[place:].ctypes.data), None)
    return block


def forget() -> None:
    """In a forked child, where the parent's helpers do not live."""
    global _block, _hired
    _block, _hired = None, 0
