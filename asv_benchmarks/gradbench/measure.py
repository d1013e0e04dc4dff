"""`python -m asv_benchmarks.gradbench.measure [names]` prints what value and gradient cost beside the value.

The value is the user's code under Numba's own `njit`; the two are run in turn on one thread, and the least time of each on its processor
counts.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nbgrad
from asv_benchmarks.gradbench.loops import EVALS
from nbgrad import differentiable


def least(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least time of each on its processor, in turn; what else the machine does is not counted."""
    found = [math.inf] * len(calls)
    repeats = []
    for call in calls:
        call()
        began = time.thread_time()
        call()
        repeats.append(max(1, int(1e-3 / max(time.thread_time() - began, 1e-7))))
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        for k, call in enumerate(calls):
            began = time.thread_time()
            for _ in range(repeats[k]):
                call()
            found[k] = min(found[k], (time.thread_time() - began) / repeats[k])
    return found


def main() -> None:
    picked = sys.argv[1].split(",") if len(sys.argv) > 1 else []
    nbgrad.set_num_threads(1)
    for e in EVALS:
        if picked and e.function.__name__ not in picked:
            continue
        args = e.args(np.random.default_rng(0), e.size)
        f = differentiable(e.function)
        began = time.perf_counter()
        made = f._make("adjoint", f._kinds(args), e.wrt)
        transform = time.perf_counter() - began
        bars = [np.zeros_like(a) for n, a in zip(f.names, args) if n in made.bars]
        began = time.perf_counter()
        made(*args, *bars, 1.0)
        compiling = time.perf_counter() - began
        value, gradient = least([lambda: e.function(*args), lambda: made(*args, *bars, 1.0)], 1.0)  # noqa: B023
        verdict = "" if gradient <= e.bar * value else f"  above {e.bar:g}"
        print(
            f"{e.function.__name__:9} {e.size!s:18} value {value * 1e3:9.4f} ms, with gradient {gradient * 1e3:9.4f} ms, "
            f"ratio {gradient / value:5.2f}; {len(made.text.splitlines())} lines, written in {transform * 1e3:.0f} ms, "
            f"compiled in {compiling:.1f} s{verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
