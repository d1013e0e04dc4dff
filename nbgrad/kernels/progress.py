"""What is said while kernels are compiled.

Promises who waits that a wait of more than two seconds is explained, on stderr, where somebody looks: in a terminal or a notebook. With
`NBGRAD_COMPILE_LOG=1` each kernel is named with the time that it took, wherever stderr goes.
"""

from __future__ import annotations

import os
import sys
import threading
import time

SILENT = 2.0  # seconds
_PAUSE = 0.5  # of no compiling, after which a wait counts anew


class _Wait:
    """Kernels compiled one after the other, for one call or a few: since when, how many there were, and when the last was done."""

    def __init__(self) -> None:
        self.since = self.ended = self.said = 0.0
        self.count = 0


_wait = _Wait()


class compiling:
    """A block in which what has this name is compiled, by one thread at a time (`expr/making.py`)."""

    __slots__ = ("name", "start", "timer")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.start = now = time.perf_counter()
        self.timer: threading.Timer | None = None
        if now - _wait.ended > _PAUSE:
            _wait.since, _wait.count, _wait.said = now, 0, now
        if _is_seen():
            self.timer = threading.Timer(max(_wait.said + SILENT - now, 0.0), _say, (self.name,))
            self.timer.daemon = True
            self.timer.start()

    def __exit__(self, *_: object) -> None:
        if self.timer is not None:
            self.timer.cancel()
        _wait.ended = time.perf_counter()
        _wait.count += 1
        if os.environ.get("NBGRAD_COMPILE_LOG", "0") not in ("", "0"):
            print(f"nbgrad: compiled {self.name} in {_wait.ended - self.start:.3f} s", file=sys.stderr)


def _is_seen() -> bool:
    stderr = sys.stderr
    return "ipykernel" in sys.modules or (stderr is not None and not stderr.closed and stderr.isatty())


def _say(name: str) -> None:
    _wait.said = now = time.perf_counter()
    print(
        f"nbgrad: compiling {name}, after {_wait.count} others in {now - _wait.since:.1f} s; they are kept for the next run",
        file=sys.stderr,
    )
