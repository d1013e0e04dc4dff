"""What was measured, and how it is told.

Promises that a `Measurement` says what PyTorch's says of the same times: its figures go through float32 where PyTorch's do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import ceil, floor
from textwrap import indent
from typing import Any

import numpy as np

from nbgrad.kernels.launch import get_num_threads, set_num_threads

_MOST_FIGURES = 4
_CLOCK = 25e-9  # what a clock is sure of, in seconds
_SPREAD, _WIDE_SPREAD = 0.1, 0.25  # of the middle half of all times, over their median


@dataclass(frozen=True, repr=False)
class TaskSpec:
    """What was measured: the statement, how it was prepared, and what users call it."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """What it is called, or the statement."""
        if self.label is None and "\n" in self.stmt:
            of = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{of}\n{indent(self.stmt, '  ')}"
        name = self.stmt if self.label is None else self.label
        return f"{name}: {self.sub_label}" if self.sub_label else name

    def setup_str(self) -> str:
        """How it was prepared."""
        if self.setup in ("pass", ""):
            return ""
        return f"setup:\n{indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """All that in lines."""
        parts = (self.title, self.description or "", self.setup_str())
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts if part)


_TOLD = tuple(field.name for field in fields(TaskSpec))


@dataclass(repr=False)
class Measurement:
    """The times of a task, in seconds, each of `number_per_run` runs. What the task is called is told here, too.

    >>> from nbgrad.utils.benchmark import Measurement, TaskSpec
    >>> m = Measurement(2, [2e-6, 4e-6, 6e-6], TaskSpec("x + 1", "pass"))
    >>> m.median, m.stmt
    (2e-06, 'x + 1')
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _TOLD:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """Of one run each."""
        return [t / self.number_per_run for t in self.raw_times]

    def _at(self, share: float) -> float:
        return float(np.quantile(self.times, share)) if self.raw_times else -1.0

    @property
    def median(self) -> float:
        """Of one run; -1 where nothing was measured."""
        return self._at(0.5)

    @property
    def mean(self) -> float:
        """Of one run; -1 where nothing was measured."""
        return float(np.mean(sorted(self.times))) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        """How far the middle half of the times is spread."""
        return self._at(0.75) - self._at(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median are worth telling, from the spread of the middle half."""
        times = sorted(self.times)
        n = len(times)
        middle = np.array(times[n // 4 : ceil(np.float32(3 * n / 4))], np.float32)
        sure = max(1.645 * float(middle.std()) / float(np.sqrt(np.float32(len(middle)))), _CLOCK)
        return min(max(floor(np.log10(np.float32(self.median / sure))), 1), _MOST_FIGURES)

    def meets_confidence(self, threshold: float = _SPREAD) -> bool:
        """Whether the spread is a smaller part of the median than that."""
        return self.iqr / self.median < threshold

    @property
    def _warning(self) -> str:
        if not self.raw_times or self.meets_confidence():
            return ""
        wide = not self.meets_confidence(_WIDE_SPREAD)
        says = "suggests significant environmental influence" if wide else "could indicate system fluctuation"
        share = self.iqr / self.median * 100
        return f"  WARNING: Interquartile range is {share:.1f}% of the median measurement.\n           This {says}."

    @property
    def has_warnings(self) -> bool:
        """Whether the times are spread widely."""
        return bool(self._warning)

    @property
    def title(self) -> str:
        """What the task is called."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What its row in a table is called."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n, median = len(self.raw_times), self.median
        unit, scale = select_unit(median)
        several = f"{n} measurement{'s' if n > 1 else ''}, {self.number_per_run} runs {'per measurement,' if n > 1 else ','}"
        lines = [
            object.__repr__(self),
            self.task_spec.summarize(),
            f"  {'Median: ' if n > 1 else ''}{median / scale:.2f} {unit}",
        ]
        if n >= 4:
            low, high = self._at(0.25) / scale, self._at(0.75) / scale
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        lines.append(f"  {several} {self.num_threads} thread{'s' if self.num_threads > 1 else ''}")
        return "\n".join([*lines, self._warning]).strip()

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One of all that measured the same task."""
        found: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            found.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, task) for task, times in found.items()]


def select_unit(t: float) -> tuple[str, float]:
    """In what a time is told, and how long that is.

    >>> torch.utils.benchmark.select_unit(2e-5)
    ('us', 1e-06)
    """
    with np.errstate(all="ignore"):
        power = float(np.log10(np.float32(t)) // 3)
    return {-3: ("ns", 1e-9), -2: ("us", 1e-6), -1: ("ms", 1e-3)}.get(power, ("s", 1))  # type: ignore[call-overload]


def unit_to_english(u: str) -> str:
    """The word for a unit.

    >>> torch.utils.benchmark.unit_to_english("us")
    'microsecond'
    """
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number without the digits after the first `n`.

    >>> torch.utils.benchmark.trim_sigfig(3.5, 1)
    4.0
    """
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    magnitude = ceil(np.log10(np.abs(np.float32(x))))
    scale = 10 ** (magnitude - n)
    return float(np.round(np.float32(x / scale)) * np.float32(scale))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each once, where it comes first.

    >>> torch.utils.benchmark.ordered_unique("abca")
    ['a', 'b', 'c']
    """
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """So many threads for the `with` block."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)


__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]
