"""Where kernels are kept, and why what is read there may be run.

Machine code from a file is as good as code that the file's writer runs in this process. So `Store.read` gives back only what a process of
this user has written by `Store.write`, under the same name, in this very directory, or nothing. It rests on this:

- A directory is used if it belongs to this user, nobody else may write to it, and it holds a `seal`: 32 random bytes that this user alone
  can read. A seal is only ever laid into a directory that nobody else may write to and that is empty, as after `mkdir`: what somebody had
  put there before would still be there, and he who had it open may write no more. So others have never written beside a seal.
- A file counts if it is an ordinary one, belongs to this user or root, nobody else may write to it, and it begins with a digest of the
  seal, its name and all that follows. Who cannot read the seal cannot make such a file, whatever becomes of the directory's
  mode later and whoever renames what; a file that was cut, emptied, changed, or put in another's place is not read either.
- The way to the directory is walked link by link: each directory on it belongs to this user or root and nobody else may write to it,
  unless it is one, like /tmp, in which others cannot rename what is ours; and no link of anybody else is followed. The
  directory found so is opened anew each time, and has to be the same one.

A directory that is not so is left as it is. In its place serves one of this user's own in it, if the way to that is safe; else one
beside temporary files; else a temporary one that lasts as long as the process. Lists of access rights beyond modes are not looked at.

Files are written beside their place and renamed, but not forced to disk, which takes longer than to load them: after a power cut a file may
be empty or cut, and its digest tells. A disk that is full, a directory that is gone or may not be written to: then files are not kept,
and nobody notices but by the time it takes.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from nbgrad.base.tables import cached

try:  # what `hashlib` has of it, which imports all of OpenSSL first
    from _blake2 import blake2b as blake2b
except ImportError:
    from hashlib import blake2b as blake2b

if TYPE_CHECKING:
    from pathlib import Path

_SEAL, _SEAL_SIZE = "seal", 32
_DIGEST_SIZE = 32
_UNFINISHED, _ABANDONED_AFTER = ".part", 24 * 3600.0
_LINKS = 40  # as many as Linux follows
_LOOSE = stat.S_IWGRP | stat.S_IWOTH
_FOR_US = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FOR_US
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FOR_US


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


_BEGAN_IN = _here()  # what a relative name means, wherever the program goes


class Store:
    """A directory that is ours alone, or it is refused; `seal` is what lies in it."""

    def __init__(self, path: str) -> None:
        with _opened(path) as directory:
            self._same = _identity(os.fstat(directory))
            self.seal = _sealed(directory)
        self.place, self._swept = path, False

    @property
    def path(self) -> Path:
        from pathlib import Path

        return Path(self.place)

    def read(self, name: str) -> bytes | None:
        """What was written under this name, if that is certain."""
        try:
            with self._entered() as directory:
                data = _contents(directory, name)
        except OSError:
            return None
        digest, body = data[:_DIGEST_SIZE], data[_DIGEST_SIZE:]
        return body if digest == self._digest(name, body) else None

    def write(self, name: str, body: bytes) -> None:
        """Keep this under the name, whole or not at all, if that can be."""
        self._put(name, self._digest(name, body) + body)

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """A block that one process at a time is in, by the name; who ends in it, or is killed, lets the next one in."""
        lock = None
        with suppress(OSError, ImportError):
            import fcntl

            with self._entered() as directory:
                lock = os.open(f"{name}.turn", os.O_RDWR | os.O_CREAT | _FOR_US, 0o600, dir_fd=directory)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if lock is not None:
                with suppress(OSError), self._entered() as directory:
                    os.unlink(f"{name}.turn", dir_fd=directory)
                os.close(lock)

    def show(self, name: str, text: str) -> None:
        """Let a text lie under the name, for people and tracebacks: it is never read back."""
        data = text.encode()
        with suppress(OSError), self._entered() as directory:
            if _contents(directory, name) == data:
                return
        self._put(name, data)

    def _digest(self, name: str, body: bytes) -> bytes:
        made = blake2b(name.encode() + b"\n", key=self.seal, digest_size=_DIGEST_SIZE)
        made.update(body)
        return made.digest()

    def _put(self, name: str, data: bytes) -> None:
        with suppress(OSError), self._entered() as directory:
            if not self._swept:
                self._swept = True
                _sweep(directory)
            part = f"{name}.{os.getpid()}.{os.urandom(4).hex()}{_UNFINISHED}"
            _create(directory, part, data)
            try:
                os.replace(part, name, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:  # a directory has its place
                os.unlink(part, dir_fd=directory)

    @contextmanager
    def _entered(self) -> Iterator[int]:
        with _opened(self.place) as directory:
            if _identity(os.fstat(directory)) != self._same:
                raise PermissionError(f"{self.place} is not what it was")
            yield directory


def _identity(found: os.stat_result) -> tuple[int, int]:
    """Of a directory that belongs to this user, and to which nobody else may write."""
    if found.st_uid != os.geteuid() or found.st_mode & _LOOSE:
        raise PermissionError("the directory is not ours alone")
    return found.st_dev, found.st_ino


@contextmanager
def _opened(path: str) -> Iterator[int]:
    directory = os.open(path, _READ | getattr(os, "O_DIRECTORY", 0))
    try:
        yield directory
    finally:
        os.close(directory)


def _contents(directory: int, name: str, loose: int = _LOOSE) -> bytes:
    """Of an ordinary file that belongs to this user or root, and with which nobody else may do what is `loose`."""
    with open(os.open(name, _READ, dir_fd=directory), "rb") as f:
        found = os.fstat(f.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (os.geteuid(), 0) or found.st_mode & loose:
            raise PermissionError(f"{name} is not ours")
        return f.read()


def _create(directory: int, name: str, data: bytes) -> None:
    """A new file; a full disk leaves none."""
    fd = os.open(name, _NEW, 0o600, dir_fd=directory)
    try:
        with open(fd, "wb") as f:
            f.write(data)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def _sweep(directory: int) -> None:
    """Remove what a process began to write and was killed."""
    before = time.time() - _ABANDONED_AFTER
    for name in os.listdir(directory):
        if name.endswith(_UNFINISHED) and os.stat(name, dir_fd=directory).st_mtime < before:
            os.unlink(name, dir_fd=directory)


def _sealed(directory: int) -> bytes:
    """The seal of a directory that is ours alone; one that is empty gets it now."""
    for _ in range(200):
        with suppress(FileNotFoundError):
            seal = _contents(directory, _SEAL, stat.S_IRWXG | stat.S_IRWXO)
            if len(seal) == _SEAL_SIZE:
                return seal
            if time.time() - os.stat(_SEAL, dir_fd=directory).st_mtime > 1:
                break
            time.sleep(0.002)  # another process is about to write it
            continue
        names = os.listdir(directory)
        if _SEAL in names:
            continue
        if any(not name.endswith(_UNFINISHED) for name in names):
            break
        with suppress(FileExistsError):
            _create(directory, _SEAL, os.urandom(_SEAL_SIZE))
    raise PermissionError("who has written to the directory before is not known")


def _walked(path: str) -> str:
    """An absolute path, without links. Nobody but this user and root decides where it leads, or it is refused. What is missing
    is made, for this user alone."""
    ahead = path.split(os.sep)[::-1]
    at, links = os.sep, 0
    roots = os.geteuid(), 0, os.lstat(at).st_uid  # in a namespace root may have another number
    while ahead:
        found = os.lstat(at)
        if found.st_uid not in roots or (found.st_mode & _LOOSE and not found.st_mode & stat.S_ISVTX):
            raise PermissionError(f"others may write to {at}")
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, part)
        if not os.path.lexists(here):
            with suppress(FileExistsError):
                os.mkdir(here, 0o700)
        found = os.lstat(here)
        if not stat.S_ISLNK(found.st_mode):
            at = here
            continue
        links += 1
        if links > _LINKS or found.st_uid not in roots:
            raise PermissionError(f"{here} is a link that is not followed")
        target = os.readlink(here)
        ahead += target.split(os.sep)[::-1]
        at = os.sep if target.startswith(os.sep) else at
    return at


def _at(path: str) -> Store:
    return Store(_walked(path))


def _wanted() -> str:
    """$NBGRAD_CACHE_DIR, else nbgrad under the user's cache directory; a home that is not there is not made."""
    wanted = os.environ.get("NBGRAD_CACHE_DIR")
    if wanted:
        wanted = os.path.join(_BEGAN_IN, wanted)
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # which its specification tells to pass over
            home = os.path.expanduser("~")
            base = os.path.join(home, ".cache") if os.path.isdir(home) else ""
        wanted = os.path.join(base, "nbgrad")
    if not os.path.isabs(wanted):
        raise FileNotFoundError("no directory for the kernels")
    return wanted


def _own(directory: str) -> str:
    """A name in a directory that may be others' as well."""
    return os.path.join(directory, f"nbgrad-{os.geteuid()}")


def _beside_temporary_files() -> str:
    import tempfile

    return _own(os.path.abspath(tempfile.gettempdir()))


@cached(1)
def store() -> Store | None:
    """Where this process keeps its kernels; None if nowhere."""
    if os.open not in os.supports_dir_fd or not hasattr(os, "geteuid"):
        return None
    places: list[Callable[[], str]] = [_wanted, lambda: _own(_wanted()), _beside_temporary_files]
    for place in places:
        with suppress(OSError):
            return _at(place())
    with suppress(OSError):
        return _temporary()
    return None


def _temporary() -> Store:
    import atexit
    import shutil
    import tempfile

    path = os.path.abspath(tempfile.mkdtemp(prefix="nbgrad-"))
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return Store(path)
