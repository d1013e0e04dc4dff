"""Files of tensors: `save` and `load`.

Promises users one format, PyTorch's own: what either writes, the other reads (`torch.load(..., weights_only=True)`). A file is a
zip archive without compression that holds `data.pkl`, a pickle of the object in which a tensor is a record of (storage,
offset, size, stride), and per storage its memory in `data/0`, `data/1`, ...; tensors that share memory share it again when loaded.

Loading runs no code: the pickle is read by a machine that knows the opcodes of plain data and the few names in `_NAMES`, and
refuses every other by name. Saving writes beside the target and renames, so that a failed save leaves the file that was there.
"""

from __future__ import annotations

import codecs
import io
import os
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pickle import PicklingError, UnpicklingError
from types import FunctionType
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from nbgrad import _dtypes
from nbgrad._device import device
from nbgrad._dtypes import dtype
from nbgrad._layout import Size, contiguous_strides
from nbgrad._storage import Storage, spec
from nbgrad._tensor import Tensor, set_requires_grad, storage_of, wrap
from nbgrad.nn.parameter import Parameter

Path = str | os.PathLike[str]


class StorageKind(NamedTuple):
    """What PyTorch's files call `torch.FloatStorage` and its like."""

    dtype: dtype


class Stored(NamedTuple):
    """Memory in a file."""

    storage: Storage
    kind: StorageKind
    numel: int


def rebuild_tensor(
    stored: Stored,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    backward_hooks: object,
    metadata: object = None,
) -> Tensor:
    """A tensor over stored memory, all of which it must lie in."""
    shape, strides = tuple(size), tuple(stride)
    numbers = (offset, *shape, *strides)
    if type(stored) is not Stored or len(shape) != len(strides) or len(shape) > 64:
        raise UnpicklingError("a tensor has no storage, or sizes and strides that do not fit each other")
    if any(type(n) is not int or not 0 <= n < 2**62 for n in numbers):
        raise UnpicklingError(f"a tensor has the offset, size and stride {offset}, {shape}, {strides}")
    last = offset + sum(s * (n - 1) for n, s in zip(shape, strides))
    if 0 not in shape and last >= stored.numel:
        raise UnpicklingError(f"a tensor reaches element {last} of a storage of {stored.numel}")
    sp = spec(stored.kind.dtype, shape, strides if prod(shape) else contiguous_strides(shape))
    t = wrap(stored.storage.memory[offset * sp.itemsize :], sp)
    t._storage = stored.storage
    set_requires_grad(t, bool(requires_grad), "only Tensors of floating point dtype can require gradients")
    return t


def rebuild_parameter(data: object, requires_grad: bool, backward_hooks: object) -> Any:
    if not isinstance(data, Tensor):
        raise UnpicklingError("a parameter has no tensor")
    return Parameter(data, bool(requires_grad))


def encode(text: str, encoding: str) -> bytes:
    """How the protocol that PyTorch uses spells bytes."""
    if encoding != "latin1":
        raise UnpicklingError(f"bytes are encoded as {encoding!r}")
    return text.encode("latin1")


def _kinds() -> dict[tuple[str, str], Any]:
    dtypes = {("torch", d.name): d for d in _dtypes.all_dtypes}
    return dtypes | {("torch", f"{d.scalar_name}Storage"): StorageKind(d) for d in _dtypes.all_dtypes}


_NAMES: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("builtins", "set"): set,
    ("_codecs", "encode"): encode,
} | _kinds()
_SPELLED = {id(thing): name for name, thing in _NAMES.items()} | {id(codecs.encode): ("_codecs", "encode")}
_KINDS = {d: _NAMES["torch", f"{d.scalar_name}Storage"] for d in _dtypes.all_dtypes}
_PLAIN = {
    type(None),
    bool,
    int,
    float,
    str,
    bytes,
    tuple,
    list,
    dict,
    set,
    OrderedDict,
    Counter,
    Size,
    device,
}


# ---------------------------------------------------------------- writing


class _Writer(pickle._Pickler):
    """Python's own pickler, for names of a library that need not be there."""

    write: Any
    memoize: Any

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, 2)
        self.storages: dict[int, tuple[str, Storage, dtype]] = {}

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if id(obj) in _SPELLED:
            return _SPELLED[id(obj)][1]
        if kind in _PLAIN:
            return NotImplemented
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(
            obj, OrderedDict
        ):  # a module's state_dict is of a class of its own, which no reader knows
            return OrderedDict, (), vars(obj) or None, None, iter(obj.items())
        name = f"{obj.__module__}.{obj.__qualname__}" if kind in (FunctionType, type) else kind.__qualname__
        raise PicklingError(
            f"save: cannot save {name!r}: only tensors, plain data and containers of both are"
        )

    def _tensor(self, t: Tensor) -> Any:
        if isinstance(t, Parameter):
            plain = t.detach()
            return rebuild_parameter, (plain, t.requires_grad, OrderedDict())
        stored = _Reference(storage_of(t), t.dtype)
        place = (stored, t.storage_offset(), tuple(t.shape), tuple(t.stride()))
        return rebuild_tensor, (*place, t.requires_grad, OrderedDict())

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not _Reference:
            return None
        memory = obj.storage.memory
        key, _, seen = self.storages.setdefault(id(memory), (str(len(self.storages)), obj.storage, obj.dtype))
        if seen is not obj.dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types"
            )
        return "storage", _KINDS[seen], key, "cpu", memory.nbytes // seen.itemsize

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module, attribute = _SPELLED[id(obj)]
        self.write(pickle.GLOBAL + f"{module}\n{attribute}\n".encode())
        self.memoize(obj)


class _Reference(NamedTuple):
    """Memory that goes into a file."""

    storage: Storage
    dtype: dtype


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once it is whole and on disk; if that fails, nothing has changed."""
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
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
    """Write tensors, plain data (numbers, text, bytes, None, dtypes, sizes, devices) and containers of both to a file.

    Of PyTorch's further arguments none changes what is written.
    """
    if isinstance(f, (str, os.PathLike)):
        with replacing(f) as file:
            _write(obj, file, os.path.splitext(os.path.basename(f))[0] or "archive")
    else:
        _write(obj, f, "archive")


def _write(obj: object, file: BinaryIO, root: str) -> None:
    pickled = io.BytesIO()
    writer = _Writer(pickled)
    writer.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:

        def put(name: str, data: Any) -> None:
            # A fixed date: the same object gives the same file.
            archive.writestr(zipfile.ZipInfo(f"{root}/{name}", (1980, 1, 1, 0, 0, 0)), data)

        put("data.pkl", pickled.getvalue())
        put("byteorder", sys.byteorder)
        for key, storage, _ in writer.storages.values():
            put(f"data/{key}", memoryview(storage.memory))
        put("version", "3\n")


# ---------------------------------------------------------------- reading

_OPCODES = (
    "PROTO STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_SET EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS ADDITEMS SETITEM SETITEMS "
    "BINGET LONG_BINGET BINPUT LONG_BINPUT MEMOIZE GLOBAL REDUCE NEWOBJ BUILD BINPERSID NONE NEWTRUE NEWFALSE BININT BININT1 "
    "BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES"
)


class _Reader(pickle._Unpickler):
    """Python's own unpickler, with the opcodes of plain data and the names that this module knows."""

    stack: list[Any]
    append: Any

    def __init__(self, data: bytes, archive: _Archive) -> None:
        super().__init__(io.BytesIO(data))
        self.archive = archive

    def find_class(self, module: str, name: str) -> Any:
        if module == "__builtin__":
            module = "builtins"
        found = _NAMES.get((module, name))
        if found is None:
            raise UnpicklingError(
                f"Weights only load failed. Unsupported global: GLOBAL {module}.{name} is not among the names that a "
                "file of tensors may hold; nothing of it has been run"
            )
        return found

    def persistent_load(self, pid: Any) -> Stored:
        match pid:
            case ("storage", StorageKind() as kind, str() as key, str(), int() as numel):
                return self.archive.storage(kind, key, numel)
        raise UnpicklingError(f"{pid!r} is no storage")

    def load_newobj(self) -> None:
        """`OrderedDict.__new__(OrderedDict)` and its like: of the plain containers only."""
        args = self.stack.pop()
        cls = self.stack.pop()
        if cls not in (OrderedDict, Counter, set) or args:
            raise UnpicklingError(f"a new object of {cls!r} is not allowed")
        self.append(cls())

    def load_reduce(self) -> None:
        args = self.stack.pop()
        function = self.stack[-1]
        if not callable(function) or id(function) not in _SPELLED:
            raise UnpicklingError(f"a call of {function!r} is not allowed")
        self.stack[-1] = function(*args)

    def load_build(self) -> None:
        """Attributes are for an OrderedDict alone: a module's state_dict has `_metadata`."""
        state = self.stack.pop()
        made = self.stack[-1]
        if type(made) is not OrderedDict or type(state) is not dict:
            raise UnpicklingError(f"attributes of a {type(made).__name__} are not allowed")
        made.__dict__.update(state)

    dispatch: ClassVar[dict[int, Any]] = {
        getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]]
        for name in _OPCODES.split()
    } | {pickle.NEWOBJ[0]: load_newobj, pickle.REDUCE[0]: load_reduce, pickle.BUILD[0]: load_build}


class _Archive:
    """The entries of a zip archive: stored, not compressed, and together no larger than the file."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self.file = file
        self._storages: dict[str, Stored] = {}
        entries = file.infolist()
        if any(e.compress_type != zipfile.ZIP_STORED for e in entries):
            raise RuntimeError("an entry of the archive is compressed")
        if sum(e.file_size for e in entries) > size:
            raise RuntimeError("the entries of the archive are larger than the archive")
        pickles = [e.filename for e in entries if e.filename.endswith("/data.pkl")]
        if not pickles:
            raise RuntimeError("the archive has no data.pkl")
        self.root = pickles[0].removesuffix("data.pkl")
        self.names = set(file.namelist())
        order = f"{self.root}byteorder"
        if order in self.names and file.read(order).decode().strip() != sys.byteorder:
            raise RuntimeError("the archive was written on a machine of another byte order")

    def object(self) -> Any:
        return _Reader(self.file.read(f"{self.root}data.pkl"), self).load()

    def storage(self, kind: StorageKind, key: str, numel: int) -> Stored:
        found = self._storages.get(key)
        if found is None:
            name = f"{self.root}data/{key}"
            if name not in self.names:
                raise UnpicklingError(f"the archive has no storage {key!r}")
            data = self.file.read(name)
            if len(data) != numel * kind.dtype.itemsize:
                raise UnpicklingError(f"storage {key!r} has {len(data)} bytes, and not {numel} elements")
            memory = np.frombuffer(bytearray(data), np.uint8)
            found = self._storages[key] = Stored(Storage(memory), kind, numel)
        if found.kind is not kind or found.numel != numel:
            raise UnpicklingError(f"storage {key!r} is described in two ways")
        return found


def load(
    f: Path | BinaryIO,
    map_location: Any = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: object,
) -> Any:
    """Read what `save` or `torch.save` wrote: tensors, plain data and containers of both.

    No code is run, whatever `weights_only` says. Tensors come to the CPU from wherever they were; `map_location` may say so.
    """
    if map_location is not None and device(map_location).type != "cpu":
        raise RuntimeError(f"load: map_location is {map_location}, and this release has the CPU only")
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _read(file, str(f))
    return _read(f, "the file")


def _read(file: BinaryIO, name: str) -> Any:
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            return _Archive(archive, size).object()
    except (UnpicklingError, MemoryError, OSError):
        raise
    except RuntimeError as error:
        raise RuntimeError(f"load: {name} cannot be read: {error}") from error
    except zipfile.BadZipFile as error:
        raise RuntimeError(
            f"load: {name} is no whole zip archive, as torch.save writes it: {error}"
        ) from error
    except Exception as error:  # whatever a broken pickle makes the machine stumble over
        raise UnpicklingError(f"load: {name} holds a broken pickle: {error!r}") from error


__all__ = ["load", "save"]
