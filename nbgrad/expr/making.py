"""One thread at a time makes code, and Ctrl-C waits until it is made.

Promises whoever compiles, loads or derives `with uninterrupted(), LOCK:`. Numba, LLVM and the import of either are entered by one
thread at a time. A process is not forked in the middle of it, so that a child finds no lock held and nothing half made. And
KeyboardInterrupt is raised at the end and not inside, where one that meets a callback from C (LLVM's, or a weak reference's)
would be printed and lost, and any other would leave half of something in a table. Blocks may stand in blocks.

The lock is taken last: no other lock of this package is taken inside.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from types import FrameType
from typing import Any

LOCK = threading.RLock()


class uninterrupted:
    """A block in which Python's handler of Ctrl-C is not called while `LOCK` is held, but once at the end. Cycles of objects, of which
    compiling leaves thousands, are collected there too, as weak references to them call back."""

    __slots__ = ("_collects", "_note")

    def __enter__(self) -> None:
        self._note: _Note | None = None
        self._collects = gc.isenabled()
        self._hold_back()
        if self._collects:
            gc.disable()

    def _hold_back(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # handlers run in the main thread alone
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and not isinstance(handler, _Note):
            self._note = _Note(handler)
            signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if self._collects:
            with LOCK:  # so that an interrupt is held back
                gc.collect(0)
            gc.enable()
        if self._note is not None and self._note.over():
            signal.raise_signal(signal.SIGINT)


class _Note:
    """Stands in for a handler of Ctrl-C while code is made, and remembers that it was called."""

    def __init__(self, handler: Any) -> None:
        self.handler, self.called = handler, False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if LOCK._is_owned():  # type: ignore[attr-defined]
            self.called = True
        else:  # before the block, while another thread makes code, or after it
            self.over()
            self.handler(signum, frame)

    def over(self) -> bool:
        """Give the place back; whether there was a call that is still to be passed on."""
        there: Any = signal.getsignal(signal.SIGINT)
        if there is self:
            signal.signal(signal.SIGINT, self.handler)
        called, self.called = self.called, False
        return called


# The thread that forks holds the lock, so no other is inside.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
