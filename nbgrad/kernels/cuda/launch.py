"""Kernels of a device, loaded when they are first launched, and what launches them over buffers.

Promises the backend the two callables of the CPU's launchers, `launch(kernel, n, *buffers, *numbers)`: one has the range 0..n cut over
the threads of a grid, one leaves it to a single thread, as the CPU does with what is written in order. A buffer is anything with an
`address`; a host's array has none, and is refused by that. What is written here in Python is the way of what is not plain, as each
kernel's first launch; the others' is in `direct.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.base.source import fill, function
from nbgrad.base.switches import noting
from nbgrad.kernels.cuda import direct
from nbgrad.kernels.cuda.driver import THREADS, Driver, Entry

Launch = Callable[..., None]
MOST = 1 << 14  # blocks of a grid: by then every processor of any device has work for many turns


class Kernel:
    """One of the CPU's texts on a device. `many` and `alone` are its code for a grid and for one thread, made when one is asked for."""

    __slots__ = (
        "address",
        "alone",
        "alone_packed",
        "driver",
        "many",
        "many_packed",
        "name",
        "params",
        "source",
    )
    address: Any  # what a plan keeps of a kernel: itself
    many: Entry
    alone: Entry
    many_packed: bytes  # the same for machine code
    alone_packed: bytes

    def __init__(self, driver: Driver, name: str, source: str, params: Sequence[str]) -> None:
        self.driver, self.name, self.source, self.params = driver, name, source, tuple(params)
        self.address = self

    def __getattr__(self, way: str) -> Entry:
        if way not in ("many", "alone"):
            raise AttributeError(way)
        with _loading:
            made = self._loaded(way == "alone")
        setattr(self, way, made)
        if self.driver.function:
            setattr(self, f"{way}_packed", direct.packed(*made))
        return made

    def _loaded(self, alone: bool) -> Entry:
        from nbgrad.kernels.cuda.families import own
        from nbgrad.kernels.cuda.spread import Unspreadable, spread  # which takes Python's parser along

        made = own(self.name, self.source)
        if made is not None and (made.alone if alone else made.many):
            code = self.driver.load(self.name, made.source, made.params)
            return Entry(code, made.items, made.most, made.work)
        try:
            text, params = spread(self.name, self.source, self.params, alone)
        except Unspreadable:
            if alone:
                raise NotImplementedError(f"{self.name}: no CUDA kernel in this release") from None
            return self.alone  # what counts along is work for one thread
        code = self.driver.load(self.name, text, params)
        return Entry(code, 1 << 62, 1) if alone else Entry(code, THREADS, MOST)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({' '.join(self.params)}) for CUDA>"


_loading = threading.RLock()


class Streams(threading.local):
    """The stream that a thread's work goes to; `others` are those of the devices that it does not use now."""

    current = 0
    others: dict[int, int]
    several = False  # whether there is one but the default one

    def __init__(self) -> None:
        self.others = {}

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        direct.forget()


streams = Streams()


_LAUNCH = """
def launch({parameters}):
    if n:
        entry = kernel.{way}
        try:
            given = ({arguments},)
        except AttributeError:
            raise stranger(({buffers})) from None
        run(kernel, entry, n, given, ({buffers}))
"""


def _stranger(buffers: Sequence[Any]) -> RuntimeError:
    """What is no memory of a device has no address."""
    (index,) = {b.serves.device.index for b in buffers if hasattr(b, "serves")} or {0}
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, cuda:{index} and cpu!"
    )


def _whole(n: int) -> int:
    """Refused at the call, as by the CPU's launchers, if it is none of 64 bits."""
    if not -(2**63) <= n < 2**63:
        raise OverflowError("int too big to convert")
    return int(n)


def launcher(
    driver: Driver, memory: tuple[type, type], buffers: int, numbers: str, alone: bool, elements: int
) -> Launch:
    """For about so many elements. `numbers` holds one letter per number after the buffers: d for float64, q for int64. No driver is
    given a bool, which is one byte. Buffers are mostly of the types of `memory`."""
    way = "alone" if alone else "many"
    taken = [f"b{k}" for k in range(buffers)]
    given = {f"n{k}": "float" if kind == "d" else "whole" for k, kind in enumerate(numbers)}
    addresses = [f"{b}.address" for b in taken]
    text = fill(
        _LAUNCH,
        parameters=", ".join(["kernel", "n", *taken, *given]),
        way=way,
        buffers="".join([f"{b}, " for b in taken]),
        arguments=", ".join([*addresses, *[f"{kind}({n})" for n, kind in given.items()]]),
    )

    def run(kernel: Kernel, entry: Entry, n: int, given: tuple[int | float, ...], _: Any = ()) -> None:
        driver.launch(entry.code, entry.grid(n, elements), (n, *given), streams.current)

    def ready(
        kernel: Kernel, entry: Entry, n: int, given: tuple[int | float, ...], memory: tuple[Any, ...]
    ) -> None:
        if noting.steps is None:
            again(kernel, n, *given)
        else:
            noting.steps.append((by_addresses(), kernel, n, memory, given[buffers:]))
            run(kernel, entry, n, given)

    def again(kernel: Kernel, n: int, *given: int | float) -> None:
        direct.enter(driver, driver.enter(streams.current))
        plain(kernel, n, *given)

    def unready(kernel: Kernel, n: int, *given: int | float) -> None:
        run(kernel, getattr(kernel, way), n, given)  # another thread has come between

    def by_addresses() -> Launch:
        if not noted:
            noted.append(direct.launcher(to, "q" * buffers + numbers, elements, again))
        return noted[0]

    noted: list[Launch] = []

    quick = driver.function != 0 and direct.works()
    scope = dict(run=ready if quick else run, whole=_whole, stranger=_stranger)
    made: Launch = function("launch", text, scope, "launcher of CUDA's kernels", f"{buffers} {numbers}", True)
    if not quick:
        return made
    to = direct.Target(driver.function, driver, driver.refuse, (Kernel, f"{way}_packed"), memory, THREADS)
    plain = direct.launcher(to, "q" * buffers + numbers, elements, unready)
    return direct.launcher(to, "b" * buffers + numbers, elements, made)
