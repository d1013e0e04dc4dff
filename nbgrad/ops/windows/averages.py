"""Averages of windows that are alike, and of windows that share the input evenly."""

from __future__ import annotations

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.ops.windows.sums import Taps, Windows, sums_of_saved

avg_pool = {k: sums_of_saved(f"AvgPool{k}D") for k in (2, 3)}
adaptive_avg_pool = {
    k: sums_of_saved(f"AdaptiveAvgPool{k}D", f"adaptive_avg_pool{k}d_backward") for k in (2, 3)
}


@cached(1024)
def alike(
    size: int, outs: int, kernel: int, stride: int, padding: int, include: bool, divisor: int | None
) -> Taps:
    """Windows of `kernel` elements, the first of which begins `padding` before the input. They are divided by `divisor` if there is one,
    else by how much they hold of the input, or, with `include`, of the input and its padding."""

    def windows() -> Windows:
        begin = np.arange(outs) * stride - padding
        end = np.minimum(begin + kernel, size + padding)
        first, last = np.maximum(begin, 0), np.minimum(end, size)
        numbers = np.full(outs, divisor) if divisor is not None else end - begin if include else last - first
        return first, last, np.where(last > first, numbers, 1)

    return Taps("mean", size, outs, windows)


@cached(1024)
def evenly(size: int, outs: int) -> Taps:
    """As many windows as `outs`, which overlap by less than an element where they must."""

    def windows() -> Windows:
        k = np.arange(outs)
        first, last = k * size // max(outs, 1), -((k + 1) * -size // max(outs, 1))
        return first, last, last - first

    return Taps("mean", size, outs, windows)
