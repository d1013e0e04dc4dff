"""Tables of measurements: a row for each statement (and number of threads, and environment), a column for each description."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import ceil
from typing import Any

import numpy as np

from nbgrad.utils.benchmark.utils import common
from nbgrad.utils.benchmark.utils.common import Measurement, ordered_unique

_BOLD, _END = "\033[1m", "\033[0m"
_Cell = Measurement | None


class Colorize(Enum):
    """Among what the best is coloured."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _coloured(text: str, value: float, best: float) -> str:
    if value <= best * 1.01 or value <= best + 100e-9:
        return f"\033[92m{_BOLD}{text}{_END * 2}"
    if value <= best * 1.1:
        return f"\033[34m{_BOLD}{text}{_END * 2}"
    if value >= best * 5:
        return f"\033[31m{_BOLD}{text}{_END * 2}"
    if value >= best * 2:
        return f"\033[2m\033[91m{text}{_END * 2}"
    return text


class _Column:
    """How its figures are written: all with the digits that the widest and the least sure one need."""

    def __init__(self, cells: Sequence[_Cell], scale: float, trims: bool, warns: bool) -> None:
        there = [m for m in cells if m is not None]
        self.scale, self.trims = scale, trims
        self.warns = warns and any(m.has_warnings for m in there)
        before = [ceil(np.log10(np.float32(m.median / scale))) for m in there]
        after = (
            min(max(m.significant_figures - digits, 0) for digits, m in zip(before, there)) if trims else 1
        )
        width = max(before) + after + bool(after)
        self.form = f"{{:>{width}.{after}f}}{{:>{7 if self.warns else 0}}}"

    def text(self, m: _Cell) -> str:
        """The figure of a cell, or as much space."""
        if m is None:
            return " " * len(self.form.format(common.trim_sigfig(1, 1) if self.trims else 1, ""))
        value = m.median / self.scale
        if self.trims:
            value = common.trim_sigfig(value, m.significant_figures)
        spread = f" (! {m.iqr / m.median * 100:.0f}%)" if self.warns and m.has_warnings else ""
        return self.form.format(value, spread)


class Compare:
    """The table of measurements, those of a label in one.

    >>> from nbgrad.utils.benchmark import Compare, Measurement, TaskSpec
    >>> table = Compare([Measurement(1, [2e-6], TaskSpec("x + 1", "", label="sums", description="small"))])
    >>> str(table).splitlines()[0]
    '[------- sums ------]'
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim_significant_figures = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False
        self.extend_results(results)

    def extend_results(self, results: list[Measurement]) -> None:
        """Add more."""
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Tell only digits that are worth it."""
        self._trim_significant_figures = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour what is quick and slow of a column, or of a row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark what is spread widely."""
        self._highlight_warnings = True

    def print(self) -> None:
        """Print the table."""
        print(str(self))

    def __str__(self) -> str:
        labels: dict[Any, list[Measurement]] = {}
        for m in Measurement.merge(self._results):
            labels.setdefault(m.label, []).append(m)
        return "\n".join(self._table(label, group) for label, group in labels.items())

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit, scale = common.select_unit(min(m.median for m in results))
        keys = ordered_unique((m.num_threads, m.env, m.as_row_name) for m in results)
        keys.sort(key=lambda key: key[:2])
        columns = ordered_unique(m.description for m in results)
        rows: list[list[_Cell]] = [[None] * len(columns) for _ in keys]
        for m in results:
            row = keys.index((m.num_threads, m.env, m.as_row_name))
            rows[row][columns.index(m.description)] = m
        forms = [
            _Column(cells, scale, self._trim_significant_figures, self._highlight_warnings)
            for cells in zip(*rows)
        ]
        envs = {m.env for m in results}
        wide = max(len(env) for env in envs) if len(envs) > 1 else 0
        written: list[list[Any]] = [["", *columns]]
        before: tuple[Any, Any] = (None, None)
        for (threads, env, name), cells in zip(keys, rows):
            shown = f"({env})" if len(envs) > 1 and (threads, env) != before else ""
            before = (threads, env)
            written.append([f"  {shown.ljust(wide + 4)}{name}", *[f.text(m) for f, m in zip(forms, cells)]])
        widths = [max(len(text) for text in column) for column in zip(*written)]
        lines = ["  |  ".join(text.center(width) for text, width in zip(written[0], widths))]
        overall, told = len(lines[0]), None
        for (threads, _, _), cells, texts in zip(keys, rows, written[1:]):
            if threads != told:
                lines.append(f"{threads} threads: ".ljust(overall, "-"))
                told = threads
            group = [row for key, row in zip(keys, rows) if key[0] == threads]
            parts = [texts[0].ljust(widths[0])]
            for k, cell in enumerate(cells):
                text = texts[k + 1].center(widths[k + 1])
                if cell is not None and self._colorize is not Colorize.NONE:
                    among = cells if self._colorize is Colorize.ROWWISE else [row[k] for row in group]
                    text = _coloured(text, cell.median, min(x.median for x in among if x is not None))
                parts.append(text)
            lines.append("  |  ".join(parts))
        warned = self._highlight_warnings and any(m.has_warnings for m in results)
        note = (
            "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n" if warned else ""
        )
        head = f"[{f' {label or str()} '.center(overall - 2, '-')}]"
        return "\n".join([head, *lines, "", f"Times are in {common.unit_to_english(unit)}s ({unit}).", note])


__all__ = ["Colorize", "Compare"]
