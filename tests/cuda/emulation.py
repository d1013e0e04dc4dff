"""Launches of emulated kernels, in one order of threads after another."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nbgrad.kernels import build, calls
from nbgrad.kernels.cuda.emulate import Unemulable, emulated

ORDERS = [(1, 0), (255, 255), (77, 131)]  # as they are numbered, from the last one, and mixed


def kinds(params: Sequence[str]) -> str:
    """As `calls` names what is passed."""
    return "".join("b" if code[0] == "*" else "d" if code[0] == "f" else "q" for code in params)


def run(
    name: str, source: str, params: Sequence[str], blocks: int, args: Sequence[Any], order: tuple[int, int]
) -> None:
    """A grid of so many blocks; `args` are arrays, written to in their place, and numbers."""
    kernel = build.kernel(name, *emulated(name, source, params))
    calls.by_ctypes(f"{kinds(params)}qqq")(kernel.address, blocks, *args, blocks, *order)


def alike(
    name: str, source: str, params: Sequence[str], blocks: int, args: Sequence[Any]
) -> list[np.ndarray[Any, Any]]:
    """The arrays as a grid leaves them, which it does in every order."""
    left = []
    for order in ORDERS:
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        run(name, source, params, blocks, copies, order)
        left.append([a for a in copies if isinstance(a, np.ndarray)])
    first, *others = [[a.tobytes() for a in arrays] for arrays in left]
    assert all(other == first for other in others), f"{name}: its result depends on the order of threads"
    return left[0]


def without_barriers(source: str) -> Iterator[str]:
    """The text, each time without another of its barriers."""
    lines = source.split("\n")
    for k, line in enumerate(lines):
        if line.strip() == "cuda.syncthreads()":
            yield "\n".join([*lines[:k], *lines[k + 1 :]])


def seen(run: Callable[[], Any]) -> bool:
    """Whether what is wrong with a text is found: by a look at it, or by its results."""
    try:
        run()
    except (Unemulable, AssertionError):
        return True
    return False
