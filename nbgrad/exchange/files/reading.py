"""`load`: the machine that reads a pickle, the two forms of files that hold one beside memory, and where memory goes.

The machine knows the opcodes of plain data and the names of `names.py`, and refuses every other by name, unless the user trusts the file.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from contextlib import nullcontext
from enum import Enum
from pickle import UnpicklingError
from typing import Any, BinaryIO, ClassVar, NamedTuple, cast

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.exchange.files.names import NAMES, SPELLED, StorageKind, trusted
from nbgrad.exchange.files.writing import MAGIC, OLDER, Path
from nbgrad.memory import backend
from nbgrad.memory import dtypes as _dtypes
from nbgrad.memory.device import device, gpus
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Storage
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.host.typed import TypedStorage


class Stored(NamedTuple):
    """Memory in a file."""

    storage: Storage
    kind: StorageKind
    numel: int


_OPCODES = (
    "PROTO STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_SET EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS ADDITEMS SETITEM SETITEMS "
    "BINGET LONG_BINGET BINPUT LONG_BINPUT MEMOIZE GLOBAL REDUCE NEWOBJ BUILD BINPERSID NONE NEWTRUE NEWFALSE BININT BININT1 "
    "BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES BINSTRING SHORT_BINSTRING"
)


class _Unpickler(pickle._Unpickler):
    """Python's own unpickler, which finds memory in the archive."""

    stack: list[Any]
    append: Any

    def __init__(self, data: bytes | BinaryIO, archive: _Archive | _Older, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(data) if isinstance(data, bytes) else data, encoding=encoding)
        self.archive = archive

    def persistent_load(self, pid: Any) -> TypedStorage:
        if type(pid) is tuple:  # in a file of Python 2, where text may be read as bytes
            pid = tuple([p.decode("ascii") if type(p) is bytes else p for p in pid])
        match pid:
            case ("module", kind, _, _):  # which a file of the older form tells the text of
                return cast(Any, kind)
            case ("storage", StorageKind() as kind, str() as key, str() as location, int() as numel, *view):
                found = self.archive.storage(kind, key, location, numel).storage
                match view:
                    case [(_, int() as start, int() as count)] if 0 <= start <= start + count <= numel:
                        size = kind.dtype.itemsize  # as PyTorch wrote before 0.4
                        found = Storage(found.memory[start * size : (start + count) * size])
                    case [] | [None]:
                        pass
                    case _:
                        raise UnpicklingError(f"{pid!r} is no storage")
                return TypedStorage._of(UntypedStorage._of(found), kind.dtype)
        raise UnpicklingError(f"{pid!r} is no storage")


class _TrustingReader(_Unpickler):
    """Reads whatever pickle can, running what the file says."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in NAMES:
            return NAMES[module, name]
        if module == "torch" or module.startswith("torch."):
            module = "nbgrad" + module.removeprefix("torch")
        return super().find_class(module, name)


class _Reader(_Unpickler):
    """Reads the opcodes of plain data, and the names that this module knows or the user trusts."""

    def find_class(self, module: str, name: str) -> Any:
        # Python 2's names, in which the protocol that PyTorch uses spells some of Python's own.
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        found = NAMES.get((module, name), trusted.get((module, name)))
        if found is None:
            raise UnpicklingError(_refusal(module, name))
        return found

    def load_newobj(self) -> None:
        """`OrderedDict.__new__(OrderedDict)` and its like: of the plain containers, and of classes that are trusted."""
        args = self.stack.pop()
        cls = self.stack.pop()
        if not (_is_safe(cls) or (cls in (OrderedDict, Counter, set) and not args)):
            raise UnpicklingError(f"a new object of {cls!r} is not allowed")
        self.append(cls.__new__(cls, *args))

    def load_reduce(self) -> None:
        args = self.stack.pop()
        function = self.stack[-1]
        if (
            function is Tensor
            or not callable(function)
            or not (id(function) in SPELLED or _is_safe(function))
        ):
            raise UnpicklingError(f"a call of {function!r} is not allowed")
        self.stack[-1] = function(*args)

    def load_build(self) -> None:
        """Attributes are for an OrderedDict alone (a module's state_dict has `_metadata`) and for what is trusted."""
        if _is_safe(type(self.stack[-2])):
            return super().load_build()  # type: ignore[misc]
        state = self.stack.pop()
        made = self.stack[-1]
        if type(made) is not OrderedDict or type(state) is not dict:
            raise UnpicklingError(f"attributes of a {type(made).__name__} are not allowed")
        made.__dict__.update(state)

    dispatch: ClassVar[dict[int, Any]] = {
        getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]]
        for name in _OPCODES.split()
    } | {pickle.NEWOBJ[0]: load_newobj, pickle.REDUCE[0]: load_reduce, pickle.BUILD[0]: load_build}


def _is_safe(thing: Any) -> bool:
    return any(thing is trusted for trusted in trusted.values())


_BLOCKED = {"sys", "os", "posix", "nt"}  # of which a file asks for nothing good
_ANYWAY = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`. Re-running "
    "`torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it only if "
    "you got the file from a trusted source."
)
_MORE = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
    "https://pytorch.org/docs/stable/generated/torch.load.html."
)


def _refusal(module: str, name: str) -> str:
    if module in _BLOCKED:
        return (
            f"Weights only load failed. {_ANYWAY}\n\n\nTrying to load unsupported GLOBAL {module}.{name} whose module {module} is "
            f"blocked.{_MORE}"
        )
    path = name if module == "builtins" else f"{module}.{name}"
    return (
        "Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those steps only if you "
        f"trust the source of the checkpoint\033[0m. \n\t(1) {_ANYWAY}\n\t(2) "
        "Alternatively, to load with `weights_only=True` please check the recommended steps in the following error message.\n\t"
        f"WeightsUnpickler error: Unsupported global: GLOBAL {path} was not an allowed global by default. Please use "
        f"`torch.serialization.add_safe_globals([{path}])` or the `torch.serialization.safe_globals([{path}])` context manager to "
        f"allowlist this global if you trust this class/function.{_MORE}"
    )


class _Inert:
    """What a name of a file stands for where only its memory is looked for: nothing is called or made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __new__(cls, *args: Any, **kwargs: Any) -> _Inert:
        return object.__new__(cls)

    def __call__(self, *args: Any) -> _Inert:
        return self

    __setstate__ = append = extend = add = __setitem__ = __call__


class _Survey(_Unpickler):
    """Reads what memory a file tells of, and which names it asks for."""

    def __init__(self, data: bytes | BinaryIO) -> None:
        super().__init__(data, cast(Any, None), "latin1")
        self.kinds: dict[str, tuple[dtype, int]] = {}
        self.names: list[tuple[str, str]] = []

    def find_class(self, module: str, name: str) -> Any:
        if isinstance(found := NAMES.get((module, name)), StorageKind):
            return found
        self.names.append((module, name))
        return _Inert

    def persistent_load(self, pid: Any) -> Any:
        match pid:
            case ("storage", StorageKind() as kind, str() as key, str(), int() as numel, *_) if numel >= 0:
                if self.kinds.setdefault(key, (kind.dtype, numel)) != (kind.dtype, numel):
                    raise UnpicklingError(f"storage {key!r} is described in two ways")
        return _Inert()


class _Older:
    """A file of the older form, from where it stands in its stream to its end: what it holds, and the memory behind that."""

    def __init__(self, file: BinaryIO, name: str, map_location: Any, encoding: str) -> None:
        self.map_location, self.encoding = map_location, encoding
        try:
            told = [_Survey(file).load()]
        except Exception as error:  # whatever the machine stumbles over
            raise UnpicklingError(
                f"load: {name} is no whole zip archive, as torch.save writes it, and nothing of the older form: {error!r}"
            ) from error
        if told[0] != MAGIC:
            raise RuntimeError("Invalid magic number; corrupt file?")
        told += [_Survey(file).load(), _Survey(file).load()]
        if told[1] != OLDER:
            raise RuntimeError(f"Invalid protocol version: {told[1]}")
        swapped = isinstance(told[2], dict) and told[2].get("little_endian") is not (
            sys.byteorder == "little"
        )
        start = file.tell()
        survey = _Survey(file)
        survey.load()
        size = file.tell() - start
        file.seek(start)
        self.pickled = file.read(size)
        keys = _Survey(file).load()
        if not isinstance(keys, list) or any(key not in survey.kinds for key in keys):
            raise UnpicklingError("the keys of the memory are none of those that are told of")
        self._storages = {key: self._memory(file, *survey.kinds[key], swapped) for key in keys}
        self._placed: dict[str, Stored] = {}

    @staticmethod
    def _memory(file: BinaryIO, d: dtype, numel: int, swapped: bool) -> np.ndarray[Any, Any]:
        if int.from_bytes(file.read(8), "little") != numel:
            raise UnpicklingError(f"a storage of {numel} elements has another number of them")
        data = bytearray()
        while len(data) < numel * d.itemsize:  # not all at once: a file may lie about its size
            part = file.read(min(numel * d.itemsize - len(data), 1 << 24))
            if not part:
                raise UnpicklingError("the file ends within the memory of a storage")
            data += part
        return _memory_of(data, d, swapped)

    def object(self, reader: type[_Unpickler]) -> Any:
        return reader(self.pickled, self, self.encoding).load()

    def storage(self, kind: StorageKind, key: str, location: str, numel: int) -> Stored:
        if key not in self._placed:
            if key not in self._storages:
                raise UnpicklingError(f"the file has no storage {key!r}")
            held = Storage(self._storages[key])
            self._placed[key] = Stored(_placed(held, location, self.map_location), kind, numel)
        return self._placed[key]


def _memory_of(data: Any, d: dtype, swapped: bool) -> np.ndarray[Any, Any]:
    memory = np.frombuffer(data, np.uint8)
    if swapped and d.itemsize > 1:
        memory = memory.view(f"u{d.itemsize}").byteswap().view(np.uint8)
    if d is _dtypes.bool_:  # of which sums expect 0 and 1
        np.minimum(memory, 1, out=memory)
    return memory


class LoadEndianness(Enum):
    """The order of bytes in files that do not tell theirs.

    >>> torch.serialization.LoadEndianness.LITTLE
    <LoadEndianness.LITTLE: 2>
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: list[LoadEndianness | None] = [None]


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes in files that do not tell theirs, as `set_default_load_endianness` has set it.

    >>> torch.serialization.get_default_load_endianness()
    """
    return _endianness[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Let `load` take files that do not tell their order of bytes for such of this one (None: of little ends).

    >>> torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.BIG)
    >>> torch.serialization.get_default_load_endianness()
    <LoadEndianness.BIG: 3>
    >>> torch.serialization.set_default_load_endianness(None)
    """
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness[0] = endianness


def get_unsafe_globals_in_checkpoint(f: Path | BinaryIO) -> list[str]:
    """The names in a file that `load` would refuse with `weights_only=True`; nothing of the file is run.

    >>> import io
    >>> from fractions import Fraction
    >>> file = io.BytesIO()
    >>> torch.save([torch.ones(1), Fraction(1, 2)], file)
    >>> _ = file.seek(0)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
    ['fractions.Fraction']
    """
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else nullcontext(f) as file:
        if file.read(4) != b"PK\x03\x04":
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        with zipfile.ZipFile(file) as archive:
            held = _Archive(archive, file.seek(0, os.SEEK_END), None)
            survey = _Survey(io.BytesIO(archive.read(f"{held.root}data.pkl")))
            survey.load()
    asked = [(NAME_MAPPING.get(n) or (IMPORT_MAPPING.get(n[0], n[0]), n[1])) for n in survey.names]
    return list(dict.fromkeys(f"{m}.{n}" for m, n in asked if (m, n) not in NAMES and (m, n) not in trusted))


class _Archive:
    """The entries of a zip archive: stored, not compressed, and together no larger than the file."""

    def __init__(self, file: zipfile.ZipFile, size: int, map_location: Any, mapped: Any = None) -> None:
        self.file, self.map_location, self.mapped = file, map_location, mapped
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
        told = file.read(order).decode().strip() if order in self.names else None
        if told not in (None, "little", "big"):
            raise ValueError("Unknown endianness type: " + str(told))
        default = {LoadEndianness.BIG: "big", LoadEndianness.NATIVE: sys.byteorder}
        self.swapped = (told or default.get(cast(Any, _endianness[0]), "little")) != sys.byteorder

    def object(self, reader: type[_Unpickler]) -> Any:
        return reader(self.file.read(f"{self.root}data.pkl"), self).load()

    def storage(self, kind: StorageKind, key: str, location: str, numel: int) -> Stored:
        found = self._storages.get(key)
        if found is None:
            name = f"{self.root}data/{key}"
            if name not in self.names:
                raise UnpicklingError(f"the archive has no storage {key!r}")
            data = self._mapped(name)
            if data is None:
                data = bytearray(self.file.read(name))
            if len(data) != numel * kind.dtype.itemsize:
                raise UnpicklingError(f"storage {key!r} has {len(data)} bytes, and not {numel} elements")
            memory = _memory_of(data, kind.dtype, self.swapped)
            placed = _placed(Storage(memory), location, self.map_location)
            found = self._storages[key] = Stored(placed, kind, numel)
        if found.kind is not kind or found.numel != numel:
            raise UnpicklingError(f"storage {key!r} is described in two ways")
        return found

    def _mapped(self, name: str) -> Any:
        """The memory of an entry where the file is mapped, if it begins where elements can."""
        if self.mapped is None:
            return None
        entry = self.file.getinfo(name)
        head = self.mapped[entry.header_offset : entry.header_offset + 30].tobytes()
        start = entry.header_offset + 30 + sum(int.from_bytes(head[k : k + 2], "little") for k in (26, 28))
        if start % 16 or start + entry.file_size > len(self.mapped):
            return None
        return self.mapped[start : start + entry.file_size]


def load(
    f: Path | BinaryIO,
    map_location: Any = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
    **pickle_load_args: object,
) -> Any:
    """Read what `save` or `torch.save` wrote. By default that is tensors, plain data and containers of both, and no code is run; with
    `weights_only=False` the file may name any class or function, which is then called: only for files that you trust.

    Tensors come to the CPU from wherever they were, unless `map_location` says another device: its name, a dict from the names in
    the file, or a function of the storage on the CPU and that name, whose result is the storage to use, or None. With `mmap=True` the
    memory of tensors on the CPU is read from the file when it is first looked at; what is written to it stays here. `encoding` is what
    text that Python 2 wrote is read as.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save([torch.arange(3), "text"], file)
    >>> start = file.seek(0)
    >>> torch.load(file)
    [tensor([0, 1, 2]), 'text']
    """
    if isinstance(map_location, (str, device)):
        _check_location(str(map_location))
    elif map_location is not None and not isinstance(map_location, dict) and not callable(map_location):
        raise TypeError(f"'{type(map_location).__name__}' object is not callable")
    reader = _TrustingReader if _is_trusted(weights_only) else _Reader
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _read(file, str(f), reader, map_location, encoding, bool(mmap))
    if not hasattr(f, "seek"):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'seek'. You can only torch.load from a file that is seekable. Please "
            "pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    return _read(f, "the file", reader, map_location, encoding)


def _is_trusted(weights_only: bool | None) -> bool:
    """Whether a file may name what is called then; the environment may decide for all."""
    always, never = (
        os.environ.get(f"TORCH_FORCE_{which}WEIGHTS_ONLY_LOAD", "0") in ("1", "y", "yes", "true")
        for which in ("NO_", "")
    )
    if always and never:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both were set."
        )
    return not never and (weights_only is False or (weights_only is None and always))


def _check_location(location: str) -> None:
    kind, _, index = location.partition(":")
    there = gpus.count()
    if kind == "cuda" and 0 < there <= int(index or 0):
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is {there}. Please use torch.load "
            "with map_location to map your storages to an existing device."
        )
    if kind == "cuda" and not there:
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a CPU-only "
            "machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
        )
    if kind not in ("cpu", "meta", "cuda"):
        raise RuntimeError(
            f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
        )


def _placed(storage: Storage, location: str, map_location: Any) -> Storage:
    """Memory of a file where `map_location` wants it."""
    if callable(map_location):
        wanted = map_location(UntypedStorage._of(storage), location)
        if wanted is None:
            return storage
        if not isinstance(wanted, UntypedStorage):
            raise TypeError(f"map_location gave a {type(wanted).__name__}, and not a storage")
        if len(wanted._record.memory) < len(storage.memory):
            raise RuntimeError("map_location gave a storage that is shorter than what the file holds")
        return wanted._record
    if map_location is None or (isinstance(map_location, dict) and location not in map_location):
        if not location.startswith("cuda") or not gpus.count():
            return storage  # where there is no GPU, on the CPU
        wanted = location
    else:
        wanted = map_location[location] if isinstance(map_location, dict) else map_location
    where = device(wanted)
    _check_location(str(where))
    return storage if where.type == "cpu" else Storage(backend.of(where).from_host(storage.memory))


def _read(
    file: BinaryIO,
    name: str,
    reader: type[_Unpickler],
    map_location: Any,
    encoding: str,
    mapped: bool = False,
) -> Any:
    try:
        start = file.tell()
        head = file.read(2)
        file.seek(start)
        if head not in (b"PK", b""):
            if mapped:
                raise RuntimeError(
                    "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), please "
                    "torch.save your checkpoint with this option in order to use mmap."
                )
            return _Older(file, name, map_location, encoding).object(reader)
        if not hasattr(file, "seekable"):
            file = io.BytesIO(file.read())
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            memory = np.memmap(name, np.uint8, "c") if mapped else None
            return _Archive(archive, size, map_location, memory).object(reader)
    except (UnpicklingError, MemoryError, OSError):
        raise
    except RuntimeError as error:
        raise RuntimeError(f"load: {name} cannot be read: {error}") from error
    except zipfile.BadZipFile as error:
        file.seek(0)
        kind = RuntimeError if file.read(2) else EOFError
        raise kind(f"load: {name} is no whole zip archive, as torch.save writes it: {error}") from error
    except Exception as error:  # what a class says, or a broken pickle makes the machine stumble over
        if reader is _TrustingReader:
            raise
        raise UnpicklingError(f"load: {name} holds a broken pickle: {error!r}") from error
