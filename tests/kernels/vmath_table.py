"""Prints the table in the docstring of nbgrad.kernels.texts: the greatest error found and the time for 1e6 elements, by width.

python -m tests.kernels.vmath_table
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nbgrad.kernels.texts import TEXT
from tests.kernels.test_vmath import LONG, REFERENCE, arity, compiled, errors, inputs_of, run


def worst(kind: str, prim: str) -> float:
    """In ulps, over random bits and dense sweeps."""
    inputs = inputs_of(kind, prim, 2_000_000 if kind == "f4" else 500_000)
    with np.errstate(all="ignore"):
        want = REFERENCE[prim](*(x.astype(np.float64 if kind == "f4" else LONG) for x in inputs))
        return float(errors(run(kind, prim, *inputs), want, kind).max())


def microseconds(kind: str, prim: str) -> float:
    """The quickest of some runs on numbers where nothing is special."""
    x = np.random.default_rng(0).uniform(1.1 if prim == "acosh" else 0.1, 0.9 + (prim == "acosh"), 1_000_000)
    inputs: list[Any] = [x.astype(kind)] * arity(prim)
    kernel = compiled(kind, prim).ctypes
    pointers = [a.ctypes.data_as(kernel.argtypes[2]) for a in (np.empty_like(inputs[0]), *inputs)]
    times = []
    for _ in range(40):
        start = time.perf_counter()
        kernel(0, x.size, *pointers)
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


if __name__ == "__main__":
    for prim in REFERENCE:
        row = [
            f"{worst(kind, prim):5.2f} ulp {microseconds(kind, prim):6.0f} us"
            if (kind, prim) in TEXT
            else " " * 20
            for kind in ("f4", "f8")
        ]
        print(f"    {prim:8}{row[0]}   {row[1]}")
