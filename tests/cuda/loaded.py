"""What a device is given to load by the case table: each CUDA text, and how it was launched.

`python -m tests.cuda.loaded FILE PART [--whole]` writes those of a part of the table, in a process of its own that plays a device,
forward and backward: a device asks for other texts than the CPU. Kernels wait in a deferred device's queues, and one is compiled only if a
case reads what follows from it. `--whole`, by hand, takes every case in every dtype, shape and layout. `NBGRAD_CUDA_EMULATE=deferred
python -m tests.cuda.loaded --spread` prints what runs as the CPU's text: by one thread (a loop) or an item a thread, and how many elements
an item has at most.
"""

import os
import pickle
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from nbgrad.kernels.cuda import emulated
from nbgrad.kernels.cuda.emulated import Deferred, Emulated
from nbgrad.kernels.cuda.families import own
from nbgrad.kernels.cuda.launch import Kernel
from nbgrad.memory import backend
from tests.cases import CASES
from tests.cuda import on_device, recorded


class Loaded(NamedTuple):
    """`params` are the codes of what it takes."""

    name: str
    source: str
    params: tuple[str, ...]


def asked(folder: Path, whole: bool) -> list[Loaded]:
    """In processes of their own, as a device there either is or is not."""
    env = {**os.environ, "NBGRAD_CUDA_EMULATE": "deferred"}
    return sorted(set().union(*recorded.parts(folder, __spec__.name, whole, env)))


def _run(cases: Iterable[Any], whole: bool) -> None:
    recording: Any = backend.of(on_device.DEVICE).driver
    for case in cases:
        usual = on_device.usual(case)
        others = [d for d in case.dtypes if d != usual]
        for dtype in (usual, *(others if whole else one_in_turn(case.name, others))):
            with suppress(RuntimeError, TypeError, NotImplementedError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what PyTorch refuses of a dtype asks for nothing
                _case(case, dtype, whole)
            recording.forget()


def one_in_turn(name: str, dtypes: Sequence[str]) -> list[str]:
    """One of them, by the name."""
    return [dtypes[sum(name.encode()) % len(dtypes)]] if dtypes else []


def _case(case: Any, dtype: str, whole: bool) -> None:
    backward = case.differentiable and "float" in dtype
    for sample in on_device.samples(case, dtype):
        with on_device.DEVICE:
            on_device.computed(case, on_device.there(sample), backward)
        if not whole:
            return


class _Launch(NamedTuple):
    """A launch that waits in a queue, and its kernel, which is compiled when somebody waits."""

    driver: Deferred
    kernel: Loaded
    blocks: int
    args: tuple[int | float, ...]

    def __call__(self) -> None:
        address, run, _ = _compiled(self.driver, self.kernel)
        run(address, self.blocks, *self.args, self.blocks, *self.driver.order)


@cache
def _compiled(driver: Deferred, kernel: Loaded) -> Any:
    return driver._codes[Emulated.load(driver, *kernel) - 1]


class _Recording(Deferred):
    def __init__(self) -> None:
        super().__init__()
        self.function = 0  # `launch` is asked itself
        self.found: dict[Loaded, None] = {}

    def load(self, name: str, source: str, params: Sequence[str]) -> Any:
        kernel = Loaded(name, source, tuple(params))
        self.found[kernel] = None
        return kernel

    def launch(self, code: Any, blocks: int, args: Sequence[int | float], stream: int) -> None:
        self.asked(stream, _Launch(self, code, blocks, tuple(args)))

    def forget(self) -> None:
        """Do what waits, but for launches: nobody reads what they would write."""
        for queue in self._queues.values():
            for work in queue:
                if not isinstance(work, _Launch):
                    work()
            queue.clear()


def record(part: int, whole: bool) -> set[Loaded]:
    _run(recorded.of_part(CASES, part), whole)
    recording: Any = backend.of(on_device.DEVICE).driver
    return set(recording.found)


@cache
def _has_own(kernel: Kernel) -> bool:
    return own(kernel.name, kernel.source) is not None


def spread() -> dict[str, tuple[bool, float]]:
    """Of what has no kernel of a device's own, by its name: whether one thread has run it, and the most elements of an operand for one of
    its items."""
    found: dict[str, tuple[bool, float]] = {}
    device: Any = backend.of(on_device.DEVICE)
    make = device.launch

    def launch(buffers: int, numbers: str, n: int, quick: bool = False) -> Any:
        run = make(buffers, numbers, n, quick)

        def watched(kernel: Kernel, items: int, *args: Any) -> None:
            run(kernel, items, *args)
            if items and not _has_own(kernel):
                codes = kernel.params[2:]
                sizes = [b.nbytes // int(c[-1]) for c, b in zip(codes, args) if c[0] == "*" and c != "*i8"]
                entry = kernel.alone if n <= 1 else kernel.many
                before = found.get(kernel.name, (False, 0))
                found[kernel.name] = max(before, (entry.items > 1 << 60, max(sizes, default=1) / items))

        return watched

    device.launch = launch
    _run(CASES.values(), False)
    return found


def main(*given: str) -> None:
    emulated.Deferred = _Recording  # type: ignore[misc]
    if given == ("--spread",):
        for name, (alone, most) in sorted(spread().items(), key=lambda pair: pair[1][::-1]):
            print(f"{most:8.1f} {'loop  ' if alone else 'spread'} {name}")
    else:
        Path(given[0]).write_bytes(pickle.dumps(record(int(given[1]), "--whole" in given)))


if __name__ == "__main__":
    from tests.cuda import loaded  # whose classes the readers know, as they do not those of this module

    loaded.main(*sys.argv[1:])
