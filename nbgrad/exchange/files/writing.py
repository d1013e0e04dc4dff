"""`save`, and the pickler that it writes with. Beside the target and renamed, so that a failed save leaves the file that was there."""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from operator import attrgetter
from types import FunctionType
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.exchange.files.names import KINDS, SPELLED, UNTYPED, spelled
from nbgrad.exchange.files.tensors import told
from nbgrad.memory import backend
from nbgrad.memory import dtypes as _dtypes
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Storage
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.host.typed import TypedStorage

Path = str | os.PathLike[str]
MAGIC, OLDER = 0x1950A86A20F9469CFC6C, 1001  # how a file of the older form begins


class _Writer(pickle._Pickler):
    """Python's own pickler, for names of a library that need not be there."""

    write: Any
    memoize: Any

    def __init__(self, file: BinaryIO, older: bool = False) -> None:
        super().__init__(file, 2)
        self.older = older
        self.storages: dict[tuple[int, dtype | None], tuple[str, Storage, dtype]] = {}

    def reducer_override(self, obj: Any) -> Any:
        if id(obj) in SPELLED:
            return SPELLED[id(obj)][1]
        if not isinstance(obj, Tensor) or type(obj).__reduce_ex__ is not Tensor.__reduce_ex__:
            return NotImplemented
        return told(obj, _Reference)

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, TypedStorage):
            obj = _Reference(obj._untyped_storage._record, obj.dtype)
        elif isinstance(obj, UntypedStorage):
            obj = _Reference(obj._record, _dtypes.uint8)
        if type(obj) is not _Reference:
            return None
        memory = obj.storage.memory
        place = (id(memory), None if memory.nbytes else obj.dtype)  # where nothing is, nothing is shared
        key, _, seen = self.storages.setdefault(place, (str(len(self.storages)), obj.storage, obj.dtype))
        if seen is not obj.dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types"
            )
        where = str(backend.of_memory(memory).device)
        record = (
            "storage",
            UNTYPED if obj.untyped else KINDS[seen],
            key,
            where,
            memory.nbytes // seen.itemsize,
        )
        return (*record, None) if self.older else record

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if id(obj) in SPELLED:
            module, attribute = SPELLED[id(obj)]
        elif isinstance(obj, dtype):  # without kernels
            module, attribute = "torch", obj.name
        else:
            module, attribute = spelled(obj) if isinstance(obj, (type, FunctionType)) else ("", "")
        if not module.startswith(("torch", "_codecs")):
            super().save_global(obj, name)  # type: ignore[misc]
            return
        if "." in attribute:  # files are of a protocol that names only what stands in a module
            where, _, last = attribute.rpartition(".")
            owner = attrgetter(where)(import_module("nbgrad" + module.removeprefix("torch")))
            self.save_reduce(getattr, (owner, last), obj=obj)  # type: ignore[attr-defined]
            return
        self.write(pickle.GLOBAL + f"{module}\n{attribute}\n".encode())
        self.memoize(obj)

    dispatch: ClassVar[dict[type, Any]] = pickle._Pickler.dispatch | {FunctionType: save_global}


class _Reference(NamedTuple):
    """Memory that goes into a file."""

    storage: Storage
    dtype: dtype
    untyped: bool = False


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once it is whole and on disk; if that fails, nothing has changed.

    A device or a pipe (`/dev/null`) is written to: nothing can take its place.
    """
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
    if os.path.exists(target) and not (os.path.isfile(target) or os.path.isdir(target)):
        with open(target, "wb") as f:
            yield f
        return
    part = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        with open(part, "xb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, target)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def save(
    obj: object,
    f: Path | BinaryIO,
    pickle_module: object = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object and all that it holds to a file. What is made of tensors, plain data (numbers, text, bytes, None, dtypes,
    sizes, devices) and containers of both can be loaded without running code.

    `_use_new_zipfile_serialization=False` writes PyTorch's older form, several of which may stand in one file, one after the other.
    `pickle_module` and `pickle_protocol` change nothing.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2)}, file)
    >>> start = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.])}
    """
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    if not _use_new_zipfile_serialization:
        with replacing(f) if isinstance(f, (str, os.PathLike)) else nullcontext(f) as file:
            write_older(obj, file)
    elif isinstance(f, (str, os.PathLike)):
        with replacing(f) as file:
            _write(obj, file, os.path.splitext(os.path.basename(f))[0] or "archive")
    elif _seeks(f):
        _write(obj, f, "archive")
    else:  # a pipe, or what sends bytes on when it is flushed
        whole = io.BytesIO()
        _write(obj, whole, "archive")
        f.write(whole.getvalue())
        if hasattr(f, "flush"):
            f.flush()


def _seeks(file: BinaryIO) -> bool:
    try:
        file.seek(file.tell())
    except (AttributeError, OSError, NotImplementedError):
        return False
    return True


def _write(obj: object, file: BinaryIO, root: str) -> None:
    pickled = io.BytesIO()
    writer = _Writer(pickled)
    writer.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:

        def put(name: str, data: Any) -> None:
            # A fixed date: the same object gives the same file. It begins where memory can be mapped, as PyTorch's do.
            entry = zipfile.ZipInfo(f"{root}/{name}", (1980, 1, 1, 0, 0, 0))
            begins = (archive.fp.tell() if archive.fp else 0) + 30 + len(entry.filename.encode()) + 4
            room = -begins % _ALIGNED
            entry.extra = b"FB" + room.to_bytes(2, "little") + b"Z" * room
            archive.writestr(entry, data)

        put("data.pkl", pickled.getvalue())
        put("byteorder", sys.byteorder)
        for key, storage, d in writer.storages.values():
            put(f"data/{key}", _bytes_of(storage, d).data)
        put("version", "3\n")


def _bytes_of(storage: Storage, d: dtype) -> np.ndarray[Any, Any]:
    """Whole elements: bytes beyond the last are nobody's."""
    whole = storage.memory.nbytes // d.itemsize * d.itemsize
    return backend.of_memory(storage.memory).bytes_of(storage.memory, whole)


_ALIGNED = 64


def write_older(obj: object, file: BinaryIO) -> None:
    system = {
        "protocol_version": OLDER,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    pickled = io.BytesIO()
    writer = _Writer(pickled, older=True)
    writer.dump(obj)
    keys = sorted(key for key, _, _ in writer.storages.values())
    file.write(b"".join(pickle.dumps(part, 2) for part in (MAGIC, OLDER, system)))
    file.write(pickled.getvalue() + pickle.dumps(keys, 2))
    held = {key: (storage, d) for key, storage, d in writer.storages.values()}
    for key in keys:
        data = _bytes_of(*held[key])
        file.write((data.nbytes // held[key][1].itemsize).to_bytes(8, "little"))
        file.write(data.data)
    if hasattr(file, "flush"):
        file.flush()
