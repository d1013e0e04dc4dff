"""What a call costs the host of a device: the case table over the null driver, which runs no kernel.

`python -m tests.cuda.host [NAME ...]` prints the cases by microseconds of the thread, the costliest first, and beside them uploads,
downloads and waits of a call that is not the first of its kind (a case that makes its own index uploads it). Every text is loaded as one
and the same kernel, so that nothing is compiled; what a case reads from the device is therefore anything, and a case that this ends is
left out.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from tests.cuda.null import BEGIN, play
from tests.cuda.on_device import DEVICE, there, usual

KERNEL = "from numba import cuda\ndef @NAME@(n, o):\n    o[cuda.grid(1)] = n\n"


def took(f: Callable[[], Any], turns: int = 5, least: float = 4e-3) -> float:
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


def one_kernel() -> None:
    """Whatever a device loads is the same."""
    from nbgrad.kernels.cuda import real

    compiled = real.cubin("any", KERNEL, ("i8", "*i8"), (9, 0))
    real.cubin = lambda name, source, params, capability: compiled


def main(null: Any, names: list[str]) -> None:
    from tests.cases import CASES, samples
    from tests.support import T

    warnings.simplefilter("ignore")
    one_kernel()
    found, ended = {}, []
    for name in names or CASES:
        case = CASES[name]
        try:
            with DEVICE:
                tensors = there(next(samples(case, usual(case)))).tensors(T)

                def call(fn: Any = case.fn, tensors: Any = tensors) -> Any:
                    return fn(T, *tensors)

                call()
                call()
                asked = null.asked(call)
                found[name] = (
                    took(call),
                    {n: asked[n] for n in ("uploads", "downloads", "waits") if n in asked},
                )
        except Exception as error:
            ended.append(f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    for name, (us, asked) in sorted(found.items(), key=lambda pair: -pair[1][0]):
        print(f"{us:8.2f} {name} {' '.join(f'{n} {k}' for n, k in asked.items())}".rstrip())
    print(
        f"{sum(us > 5 for us, _ in found.values())} of {len(found)} above 5 us; left out:", *ended, sep="\n  "
    )


if __name__ == "__main__":
    program = f"from tests.cuda import host\nhost.main(null, {sys.argv[1:]})"
    print(play(program, BEGIN), end="")
