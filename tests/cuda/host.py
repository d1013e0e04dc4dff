"""What a call costs the host of a device: the case table over the null driver, which runs no kernel.

`python -m tests.cuda.host [--rounds N] [NAME ...]` prints the cases by microseconds of the thread, the costliest first, and beside them
what a call that is not the first of its kind asks of the driver (a case that makes its own index uploads it), then how many are above
5 us by how many launches they take. Every text is loaded as one and the same kernel, so that nothing is compiled; what a case reads from
the device is therefore anything, and a case that this ends is left out.

The table is gone through several times, and of a case the least counts. A loop of plain Python is timed before each case: how far that is
above its own least says how busy the machine was, and a case whose least was taken beside a slow loop is marked with `~`. In brackets
stands what it comes to if it was slowed down as much as the loop.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

from tests.cuda.null import BEGIN, play
from tests.cuda.on_device import DEVICE, there, usual

KERNEL = "from numba import cuda\ndef @NAME@(n, o):\n    o[cuda.grid(1)] = n\n"
BAR = 5.0  # microseconds
BUSY = 1.15  # times the loop's least
ASKED = ("launches", "allocations", "uploads", "downloads", "copies", "fills", "waits")


def took(f: Callable[[], Any], turns: int = 3, least: float = 2e-3) -> float:
    """Microseconds of the thread for a call, the least of several turns."""
    f()
    many, best = 8, float("inf")
    while turns:
        start = time.thread_time()
        for _ in range(many):
            f()
        passed = time.thread_time() - start
        best = min(best, passed / many * 1e6)
        if passed < least:
            many *= 2
        else:
            turns -= 1
    return best


def loop() -> float:
    """Microseconds of what is always the same."""
    start = time.thread_time()
    total = 0
    for k in range(10_000):
        total += k & 7
    return (time.thread_time() - start) * 1e6


def one_kernel() -> None:
    """Whatever a device loads is the same."""
    from nbgrad.kernels.cuda import real

    compiled = real.cubin("any", KERNEL, ("i8", "*i8"), (9, 0))
    real.cubin = lambda name, source, params, capability: compiled


class Timed:
    """A case, the least that a call took, and the loop beside it."""

    def __init__(self, name: str, call: Callable[[], Any], asked: dict[str, int]) -> None:
        self.name, self.call = name, call
        self.asked = {n: asked[n] for n in ASKED if n in asked}
        self.us = self.loop = float("inf")

    def again(self) -> float:
        """Once more; gives the loop beside it."""
        beside = min(loop(), loop())
        us = took(self.call)
        if us < self.us:
            self.us, self.loop = us, beside
        return beside


def found(null: Any, names: list[str]) -> tuple[list[Timed], list[str]]:
    from tests.cases import CASES, samples
    from tests.support import T

    timed, ended = [], []
    for name in names or CASES:
        case = CASES[name]
        try:
            with DEVICE:
                tensors = there(next(samples(case, usual(case)))).tensors(T)

                def call(fn: Any = case.fn, tensors: Any = tensors) -> Any:
                    return fn(T, *tensors)

                call()
                call()
                timed.append(Timed(name, call, null.asked(call)))
        except Exception as error:
            ended.append(f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    return timed, ended


def main(null: Any, names: list[str]) -> None:
    rounds = 3
    if names[:1] == ["--rounds"]:
        rounds, names = int(names[1]), names[2:]
    warnings.simplefilter("ignore")
    one_kernel()
    timed, ended = found(null, names)
    loops = []
    with DEVICE:
        for _ in range(rounds):
            for each in list(timed):
                try:
                    loops.append(each.again())
                except Exception as error:  # of what it read, which is anything
                    ended.append(f"{each.name}: {error}")
                    timed.remove(each)
    least = min(loops)
    for each in sorted(timed, key=lambda each: -each.us):
        busy = "~" if each.loop > BUSY * least else ""
        print(
            f"{each.us:8.2f}{busy} ({each.us * least / each.loop:.2f}) {each.name}",
            *[f"{n} {k}" for n, k in each.asked.items()],
        )
    print(f"loop of plain Python: least {least:.0f} us, median {median(loops):.0f}, most {max(loops):.0f}")
    for count in sorted({each.asked.get("launches", 0) for each in timed}):
        those = [each.us for each in timed if each.asked.get("launches", 0) == count]
        over = sum(us > BAR for us in those)
        print(f"launches {count}: {over} of {len(those)} above {BAR} us; median {median(those):.2f}")
    over, busy = sum(each.us > BAR for each in timed), sum(each.loop > BUSY * least for each in timed)
    scaled = sum(each.us * least / each.loop > BAR for each in timed)
    print(
        f"{over} of {len(timed)} above {BAR} us ({scaled} as if the loop were at its least), {busy} timed while busy;",
        "left out:",
        *[f"\n  {each}" for each in ended],
    )


if __name__ == "__main__":
    program = f"from tests.cuda import host\nhost.main(null, {sys.argv[1:]})"
    print(play(program, BEGIN), end="")
