"""What a device is given to load by the case table: each CUDA text, and how it was launched.

`python -m tests.cuda.loaded FILE [--whole]` writes them, in a process of its own that plays a device, forward and backward: a device
asks for other texts than the CPU. `--whole`, by hand, takes every case in every dtype, shape and layout. `NBGRAD_CUDA_EMULATE=1 python
-m tests.cuda.loaded --alone` prints which kernels one thread has run for how many elements, most first.
"""

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from nbgrad.kernels.cuda.emulated import Emulated
from nbgrad.kernels.cuda.launch import Kernel
from nbgrad.memory import backend
from tests.cases import CASES
from tests.cuda import on_device


class Loaded(NamedTuple):
    """`params` are the codes of what it takes."""

    name: str
    source: str
    params: tuple[str, ...]


def asked(folder: Path, whole: bool) -> list[Loaded]:
    """In a process of its own, as a device there either is or is not."""
    file = folder / "loaded.pickle"
    options = ["--whole"] * whole
    env = {**os.environ, "NBGRAD_CUDA_EMULATE": "1"}
    subprocess.run([sys.executable, "-m", __spec__.name, file, *options], check=True, env=env)
    found: list[Loaded] = pickle.loads(file.read_bytes())
    return found


def _run(whole: bool) -> None:
    for case in CASES.values():
        usual = on_device.usual(case)
        others = [d for d in case.dtypes if d != usual]
        for dtype in (usual, *(others if whole else one_in_turn(case.name, others))):
            with suppress(RuntimeError, TypeError, NotImplementedError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what PyTorch refuses of a dtype asks for nothing
                _case(case, dtype, whole)


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


def record(whole: bool) -> list[Loaded]:
    found: dict[Loaded, None] = {}
    load = Emulated.load

    def loaded(self: Emulated, name: str, source: str, params: Sequence[str]) -> Any:
        found[Loaded(name, source, tuple(params))] = None
        return load(self, name, source, params)

    Emulated.load = loaded  # type: ignore[method-assign]
    _run(whole)
    return sorted(found)


def alone() -> dict[str, int]:
    """The most elements of an operand of what one thread has done, by the kernel's name."""
    found: dict[str, int] = {}
    device: Any = backend.of(on_device.DEVICE)
    make = device.launch

    def launch(buffers: int, numbers: str, n: int, quick: bool = False) -> Any:
        run = make(buffers, numbers, n, quick)

        def watched(kernel: Kernel, items: int, *args: Any) -> None:
            run(kernel, items, *args)
            entry = kernel.alone if n <= 1 else kernel.many
            if entry.items > 1 << 60 and items:
                codes = kernel.params[2:]
                sizes = [b.nbytes // int(c[-1]) for c, b in zip(codes, args) if c[0] == "*" and c != "*i8"]
                sizes += [items]
                found[kernel.name] = max(found.get(kernel.name, 0), *sizes)

        return watched

    device.launch = launch
    _run(False)
    return found


def main(*given: str) -> None:
    if given == ("--alone",):
        for name, most in sorted(alone().items(), key=lambda pair: -pair[1]):
            print(f"{most:6} {name}")
    else:
        Path(given[0]).write_bytes(pickle.dumps(record("--whole" in given)))


if __name__ == "__main__":
    from tests.cuda import loaded  # whose classes the readers know, as they do not those of this module

    loaded.main(*sys.argv[1:])
