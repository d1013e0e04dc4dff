"""Memory that several processes see: files without a name, mapped, or files that are mapped for a user.

Promises `empty(nbytes)`, an array of bytes in such memory, by the current `strategy`: with "file_descriptor" nothing but the processes that
have it knows it, and the system takes it back with the last; with "file_system" it has a name, counts who has it, and whoever is last
takes the name away. `mapping_of(array)` tells what an array lies in, `opened(fd, nbytes)` and `named(name, nbytes)` map what another
process sent. No mapping is longer than what is there: to read beyond it would end the process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

current: Final = SimpleNamespace(strategy="file_descriptor")
_HEAD: Final = 64  # bytes before what is named, for its count
_libc: Final = ctypes.CDLL(None, use_errno=True)
# Python's own mmap would keep another descriptor open for each.
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Mapping:
    """A stretch of a file in memory, as NumPy takes it. `fd` is the file where it can be sent, `name` what it is called if it is."""

    name: str | None = None
    __slots__ = ("__array_interface__", "__weakref__", "_release", "fd", "filename", "mapped")

    def __init__(self, fd: int, nbytes: int, private: bool = False, head: int = 0) -> None:
        self.fd = -1
        self.mapped: tuple[int, int] | None = None
        self._release: Callable[[], None] | None = None
        length = max(head + nbytes, 1)
        flag = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
        there = os.fstat(fd).st_size
        if there < length:
            raise RuntimeError(f"shared memory of {there} bytes is too short for {nbytes}")
        address = _libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, flag, fd, 0)
        if address is None or address == ctypes.c_void_p(-1).value:
            code = ctypes.get_errno()
            raise RuntimeError(f"unable to mmap {nbytes} bytes from file: {os.strerror(code)} ({code})")
        self.mapped = address, length
        self.filename: str | None = None
        self.__array_interface__ = {
            "data": (address + head, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        if self.mapped is not None:
            _libc.munmap(*self.mapped)
        if self.fd >= 0:
            os.close(self.fd)


def mapping_of(array: Any) -> Mapping | None:
    """What the memory lies in, if it is mapped.

    >>> mapping_of(np.ones(3)) is None
    True
    """
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, Mapping) else None


def empty(nbytes: int) -> Array:
    """So many bytes, all 0.

    >>> mapping_of(empty(5)[1:]) is not None
    True
    """
    if current.strategy == "file_system":
        return _new_name(nbytes)
    fd = _anonymous()
    try:
        os.ftruncate(fd, max(nbytes, 1))
    except OSError:
        os.close(fd)
        raise
    return opened(fd, nbytes)


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("torch")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


# Memory by its file, so that what is sent twice, or comes back, is the same memory.
_known: Final[weakref.WeakValueDictionary[tuple[Any, int], Mapping]] = weakref.WeakValueDictionary()
_arrays: Final[weakref.WeakKeyDictionary[Mapping, Any]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)  # another thread of the parent may have had it


def opened(fd: int, nbytes: int) -> Array:
    """The memory of a file, which is closed with the last that looks at it."""
    stat = os.fstat(fd)
    key = (stat.st_dev, stat.st_ino)
    with _lock:
        found = _seen(_known.get(key), nbytes)
        if found is not None:
            os.close(fd)
            return found
        try:
            made = Mapping(fd, nbytes)
        except BaseException:
            os.close(fd)
            raise
        made.fd = fd
        return _remember(key, made)


def _remember(key: Any, made: Mapping) -> Array:
    array = np.asarray(made)
    if key is not None:
        _known[key] = made
    _arrays[made] = weakref.ref(array)
    return array


def _seen(made: Mapping | None, nbytes: int) -> Array | None:
    """The array over a mapping that is there already: who has the mapping has that, unless there are only parts of it."""
    if made is None or made.__array_interface__["shape"] != (nbytes,):
        return None
    found = _arrays[made]()
    if found is None:
        found = np.asarray(made)
        _arrays[made] = weakref.ref(found)
    return found


def of_file(path: str, nbytes: int, shared: bool) -> Array:
    """The bytes of a file, as they are when they are touched."""
    fd = os.open(path, os.O_RDWR if shared else os.O_RDONLY)
    try:
        made = Mapping(fd, nbytes, private=not shared)
    except BaseException:
        os.close(fd)
        raise
    made.filename = path if shared else None
    if shared:
        made.fd = fd
    else:
        os.close(fd)
    return _remember(None, made)


# ---------------------------------------------------------------- by name


class _Named(Mapping):
    """One that is found by a name. In its head it counts who has it, and who has been sent it."""

    __slots__ = ("name", "pid")

    def __init__(self, name: str, fd: int, nbytes: int) -> None:
        from multiprocessing.util import register_after_fork

        super().__init__(fd, nbytes, head=_HEAD)
        self.name, self.pid = name, os.getpid()
        self._drop_later()
        # A process of a fork server is given its arguments and then forgets its finalizers.
        register_after_fork(self, _Named._drop_later)

    def _drop_later(self) -> None:
        from multiprocessing.util import Finalize

        # Python's finalizer also runs when a process of multiprocessing ends, and never in a fork of the one that made it.
        if self.pid == os.getpid():
            self._release = Finalize(self, drop, (self.name,), exitpriority=0)


def _posix() -> Any:
    """What Python's `multiprocessing.shared_memory` opens its files by."""
    import _posixshmem  # type: ignore[import-not-found]

    return _posixshmem


@contextmanager
def _counting(name: str) -> Iterator[Any]:
    import fcntl

    fd = _posix().shm_open(name, os.O_RDWR, mode=0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        count = np.frombuffer(bytearray(os.pread(fd, 8, 0)), np.int64)
        yield count
        os.pwrite(fd, count.tobytes(), 0)
    finally:
        os.close(fd)


def _new_name(nbytes: int) -> Array:
    from multiprocessing import resource_tracker

    name = f"/torch_{os.getpid()}_{os.urandom(6).hex()}"
    fd = _posix().shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
    resource_tracker.register(name, "shared_memory")  # takes it away if the processes are killed
    try:
        os.ftruncate(fd, _HEAD + nbytes)
        made = _Named(name, fd, nbytes)
    finally:
        os.close(fd)
    add(name)
    return _remember((name, 0), made)


def add(name: str) -> None:
    """One more has it, or is on the way to have it."""
    with _counting(name) as count:
        count += 1


def drop(name: str) -> None:
    """One less; the last takes the name away."""
    from multiprocessing import resource_tracker

    try:
        with _counting(name) as count:
            count -= 1
            last = count[0] <= 0
            if last:
                _posix().shm_unlink(name)
    except FileNotFoundError:
        return
    if last:
        resource_tracker.unregister(name, "shared_memory")


def named(name: str, nbytes: int) -> Array:
    """The memory of a name that was sent, and counted then."""

    with _lock:
        found = _seen(_known.get((name, 0)), nbytes)
        if found is not None:
            drop(name)
            return found
        fd = _posix().shm_open(name, os.O_RDWR, mode=0o600)
        try:
            return _remember((name, 0), _Named(name, fd, nbytes))
        finally:
            os.close(fd)
