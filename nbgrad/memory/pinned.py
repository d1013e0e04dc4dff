"""Memory of the host that a GPU reads and writes by itself, kept as the device's is: to pin pages takes longer than to copy them.

Promises `empty(nbytes)`, an array of bytes whose memory goes back to the pool with the last that looks at it and when no copy is under
way, `is_pinned(array)`, and `cross`, the copies between devices: what is pinned is not waited for inside of `hurrying()`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from nbgrad.kernels.cuda.driver import Device
from nbgrad.kernels.cuda.launch import streams
from nbgrad.memory import gpu
from nbgrad.memory.device import device
from nbgrad.memory.pool import Pool

Array = np.ndarray[Any, np.dtype[Any]]


class _Host:
    """What a pool asks of a driver, for pinned memory."""

    @property
    def _driver(self) -> Device:
        return gpu.of(device("cuda", 0)).driver

    def __getattr__(self, verb: str) -> Any:
        """Marks in a device's streams."""
        return getattr(self._driver, verb)

    def allocate(self, nbytes: int, stream: int) -> int:
        return self._driver.pin(nbytes)

    def free(self, address: int, nbytes: int, stream: int) -> None:
        self._driver.unpin(address)

    def room(self) -> tuple[int, int]:
        """As if there were no end: the system says when there is."""
        return 1 << 62, 1 << 62

    def synchronize(self, stream: int | None) -> None:
        self._driver.synchronize(stream)

    def trim(self) -> None:
        """It goes straight back to the system."""


class _Memory:
    """A block as NumPy takes it."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.block = address, nbytes
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        pool.free(*self.block, 0)


class _Hurry(threading.local):
    """Whether a thread's copies between pinned memory and a device are not waited for."""

    on = False


_hurry: Final = _Hurry()


@contextmanager
def hurrying() -> Iterator[None]:
    before, _hurry.on = _hurry.on, True
    try:
        yield
    finally:
        _hurry.on = before


def cross(to: Any, buffer: Any, source: Any, values: Any, nbytes: int) -> None:
    """Copy the first bytes of what one backend has made to what another has."""
    if _hurry.on and isinstance(to, gpu.CUDA) and is_pinned(values):
        to.driver.send(buffer.address, values[:nbytes], streams.current)
        _used(values)
    elif _hurry.on and isinstance(source, gpu.CUDA) and is_pinned(buffer):
        source.driver.fetch(buffer[:nbytes], values.address, streams.current)
        _used(buffer)
    else:
        to.write(buffer, source.bytes_of(values, nbytes))


def _used(array: Any) -> None:
    """What lies there stays until the current stream has come by."""
    while not isinstance(array, _Memory):
        array = array.base
    pool.used_by(array.block[0], streams.current)


_host: Any = _Host()
pool: Final = Pool(_host)


def empty(nbytes: int) -> Array:
    """So many bytes."""
    return np.asarray(_Memory(pool.allocate(nbytes, 0), nbytes)) if nbytes else np.empty(0, np.uint8)


def is_pinned(array: Array) -> bool:
    """Whether it begins in such memory."""
    if not (gpu.started() and isinstance(array, np.ndarray)):
        return False
    return gpu.of(device("cuda", 0)).driver.pinned(int(array.__array_interface__["data"][0]))
