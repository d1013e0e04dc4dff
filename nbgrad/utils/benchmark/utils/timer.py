"""What measures: `timeit` of Python's, which waits for devices, with warm-up and as many runs as a figure takes."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from textwrap import dedent
from typing import Any, NoReturn

import numpy as np

from nbgrad.memory.device import gpus
from nbgrad.names.absent import NotBuiltError
from nbgrad.utils.benchmark.utils.common import Measurement, TaskSpec, set_torch_threads

Callback = Callable[[int, float], Any]


def timer() -> float:
    """The time now, once all devices have done what they were asked."""
    if gpus.count():
        import_module("nbgrad.accelerator").synchronize()
    return timeit.default_timer()


class Language(Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


def _trimmed(text: str) -> str:
    return dedent(text).removeprefix("\n").rstrip()


class Timer:
    """Measures a statement, given as text, after `setup`, with `globals` and `torch` at hand, on `num_threads` threads. What else is said
    names it in tables.

    >>> from nbgrad.utils.benchmark import Timer
    >>> m = Timer("x.add(1)", setup="x = torch.ones(2)", label="add").timeit(10)
    >>> m.title, m.number_per_run, len(m.times)
    ('add', 10, 1)
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotBuiltError("nbgrad has no Timer for C++: nothing is compiled from it; time Python")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        names = {"torch": import_module("nbgrad"), **(globals or {})}
        stmt, setup = _trimmed(stmt), _trimmed(setup)
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One time of so many runs, after a hundredth as many to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measured(number, [self._timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refused, as PyTorch's is."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callback | None = None) -> NoReturn:
        """Refused, as PyTorch's is."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _runs(self, min_run_time: float) -> int:
        """How many at a time make what the clock takes negligible; this warms up, too."""
        overhead = float(np.median([self._timeit(0) for _ in range(5)]))
        number = 1
        while True:
            taken = self._timeit(number)
            enough = overhead / taken <= 1e-4 and taken >= min_run_time / 1000
            if enough or taken > min_run_time or number * 10 > 2**31 - 1:
                return number
            number *= 10

    def _until(
        self,
        enough: Callable[[Measurement], bool],
        at_least: float,
        number: int,
        at_most: float,
        callback: Callback | None,
    ) -> Measurement:
        found = self._measured(number, [])
        total, done = 0.0, False
        while total < at_least or not done:
            taken = self._timeit(number)
            found.raw_times.append(taken)
            total += taken
            if callback is not None:
                callback(number, taken)
            done = enough(found)
            if total > at_most:
                break
        return found

    def blocked_autorange(self, callback: Callback | None = None, min_run_time: float = 0.2) -> Measurement:
        """As many times as fit into `min_run_time`, each of so many runs that the clock does not matter."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._runs(min_run_time)
            return self._until(lambda found: True, min_run_time, number, float("inf"), callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callback | None = None,
    ) -> Measurement:
        """The same until the middle half of the times is spread by less than `threshold` of their median, or the time is up."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._runs(0.05)
            return self._until(
                lambda found: len(found.raw_times) > 3 and found.meets_confidence(threshold),
                min_run_time,
                number,
                max_run_time or float("inf"),
                callback,
            )

    def collect_callgrind(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: instructions of kernels that are compiled as a program runs are not counted here."""
        raise NotBuiltError(
            "nbgrad has no torch.utils.benchmark.Timer.collect_callgrind: Valgrind is not run; use blocked_autorange"
        )


__all__ = ["Language", "Timer", "timer"]
