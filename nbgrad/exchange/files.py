"""Files of tensors: `save` and `load`.

Promises users PyTorch's own formats: what either writes, the other reads (`torch.load(..., weights_only=True)`). A file is a
zip archive without compression that holds `data.pkl`, a pickle of the object in which a tensor is a record of (storage,
offset, size, stride), and per storage its memory in `data/0`, `data/1`, ...; tensors that share memory share it again when loaded.
Of the older form it is such a pickle with the memory behind it, and may begin anywhere in a file.

Loading runs no code, unless the user says `weights_only=False` or trusts a class: the pickle is read by a machine that knows
the opcodes of plain data and the few names in `_NAMES`, and refuses every other by name. Saving writes beside the target and
renames, so that a failed save leaves the file that was there.
"""

from __future__ import annotations

import codecs
import io
import os
import pickle
import sys
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import Enum
from importlib import import_module
from math import prod
from operator import attrgetter
from pickle import UnpicklingError
from types import FunctionType
from typing import Any, BinaryIO, ClassVar, NamedTuple, cast

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, empty, set_requires_grad, storage_of, wrap
from nbgrad.exchange import classes
from nbgrad.exchange.schemes import SCHEMES
from nbgrad.memory import backend
from nbgrad.memory import dtypes as _dtypes
from nbgrad.memory.device import device, gpus
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Size, contiguous_strides
from nbgrad.memory.storage import Nothing, Storage, spec
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.host.typed import TypedStorage

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
    stored: TypedStorage,
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
    if type(stored) is not TypedStorage or len(shape) != len(strides) or len(shape) > 64:
        raise UnpicklingError("a tensor has no storage, or sizes and strides that do not fit each other")
    if any(type(n) is not int or not 0 <= n < 2**62 for n in numbers):
        raise UnpicklingError(f"a tensor has the offset, size and stride {offset}, {shape}, {strides}")
    last = offset + sum(s * (n - 1) for n, s in zip(shape, strides))
    record, numel = stored._untyped_storage._record, stored._size()
    if 0 not in shape and last >= numel:
        raise UnpicklingError(f"a tensor reaches element {last} of a storage of {numel}")
    where = backend.of_memory(record.memory)
    sp = spec(stored.dtype, shape, strides if prod(shape) else contiguous_strides(shape), where.device)
    t = wrap(record.memory[offset * sp.itemsize :], sp)
    t._storage = record
    set_requires_grad(t, bool(requires_grad), "only Tensors of floating point dtype can require gradients")
    return t


def rebuild_tensor_of(
    stored: TypedStorage,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    backward_hooks: object,
    kind: object,
    metadata: object = None,
) -> Tensor:
    """The same of a dtype that no storage is called by."""
    if not isinstance(kind, dtype) or type(stored) is not TypedStorage:
        raise UnpicklingError("a tensor has no dtype or no storage")
    memory = TypedStorage._of(stored._untyped_storage, kind)
    return rebuild_tensor(memory, offset, size, stride, requires_grad, backward_hooks)


def rebuild_meta(kind: object, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool) -> Tensor:
    """A tensor that has no memory."""
    numbers = (*size, *stride)
    if not isinstance(kind, dtype) or len(size) != len(stride) or len(size) > 64:
        raise UnpicklingError(
            "a tensor without memory has no dtype, or sizes and strides that do not fit each other"
        )
    if any(type(n) is not int or not 0 <= n < 2**62 for n in numbers):
        raise UnpicklingError(f"a tensor without memory has the size and stride {size}, {stride}")
    t = empty(spec(kind, tuple(size), tuple(stride), backend.meta.device))
    set_requires_grad(t, bool(requires_grad), "only Tensors of floating point dtype can require gradients")
    return t


def rebuild_wrapper(
    cls: Any,
    kind: object,
    size: Any,
    stride: Any,
    offset: object,
    layout: object,
    where: Any,
    requires_grad: bool,
) -> Any:
    """A tensor for which its class answers."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor) and isinstance(kind, dtype)):
        raise UnpicklingError("a tensor without memory has no class, or no dtype")
    return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        cls, size, stride, dtype=kind, device=where, requires_grad=requires_grad
    )


def get_layout(name: str) -> str:
    """A layout as a file has it: by its name."""
    return name


class Layout:
    """What is written for one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return get_layout, (self.name,)


def rebuild_sparse(layout: object, data: tuple[Any, ...]) -> Any:
    """A sparse tensor of indices, values, sizes and whether these are in order, which older files do not say; or of where rows or columns
    begin, indices, values and sizes."""
    if layout in ("torch.sparse_csr", "torch.sparse_csc") and len(data) == 4:
        if not all([isinstance(t, Tensor) for t in data[:3]]):
            raise UnpicklingError(
                f"a sparse tensor of layout {layout} has no indices and values that serve here"
            )
        return classes.known["compressed"](layout, *data)
    at, values, size, *whole = data
    if layout != "torch.sparse_coo" or not (isinstance(at, Tensor) and isinstance(values, Tensor)):
        raise UnpicklingError(f"a sparse tensor of layout {layout} has no indices and values that serve here")
    return classes.known["sparse"](at, values, size, whole[0] if whole else None)


def rebuild_quantized(
    stored: Any,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    told: object,
    requires_grad: object,
    backward_hooks: object,
) -> Any:
    """A quantised tensor: its whole numbers in memory, and the scheme by which they stand for real ones with what that needs."""
    kind = stored.dtype if type(stored) is TypedStorage else None
    if kind not in WHOLE or not isinstance(told, tuple):
        raise UnpicklingError("a quantised tensor has no whole numbers, or no scheme")
    memory = TypedStorage._of(stored._untyped_storage, WHOLE[kind])
    values = rebuild_tensor(memory, offset, size, stride, False, backward_hooks)
    return classes.known["quantized"](values, kind, *told)


def rebuild_nested(buffer: object, sizes: object, strides: object, offsets: object) -> Any:
    """A nested tensor: its parts in one buffer, and of each the sizes and strides, and where it begins."""
    if not all([isinstance(t, Tensor) for t in (buffer, sizes, strides, offsets)]):
        raise UnpicklingError("a nested tensor has no buffer, or no sizes that serve here")
    return classes.known["nested"](buffer, sizes, strides, offsets)


def rebuild_parameter(data: object, requires_grad: bool, backward_hooks: object) -> Any:
    if not isinstance(data, Tensor):
        raise UnpicklingError("a parameter has no tensor")
    return classes.known["parameter"](data, bool(requires_grad))


def rebuild_parameter_with_state(
    data: object, requires_grad: bool, backward_hooks: object, state: object
) -> Any:
    made = rebuild_parameter(data, requires_grad, backward_hooks)
    _set_state(made, state)
    return made


def rebuild_from_type(rebuild: Any, kind: Any, args: tuple[Any, ...], state: object) -> Any:
    """A tensor of a class of the user's, or one that has attributes."""
    if rebuild not in _TENSORS or not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise UnpicklingError(f"{rebuild!r} makes no tensor of {kind!r}")
    made = rebuild(*args)
    if type(made) is not kind:
        made = made.as_subclass(kind)
    if hasattr(kind, "__setstate__"):
        made.__setstate__(state)
    else:
        _set_state(made, state)
    return made


def _state_of(t: Tensor) -> Any:
    """What a user has put on a tensor, as Python's own objects tell it."""
    if type(t).__getstate__ is not object.__getstate__:
        return t.__getstate__()
    slots = {name: getattr(t, name) for name in _own_slots(type(t)) if hasattr(t, name)}
    attributes = dict(t.__dict__)
    return (attributes, slots) if slots else attributes


def _own_slots(kind: type) -> list[str]:
    """Names of the user's own: what a file says must not reach those of a tensor itself."""
    own = kind.__mro__[: kind.__mro__.index(Tensor)]
    given = [vars(c).get("__slots__", ()) for c in own]
    found = [name for names in given for name in ((names,) if isinstance(names, str) else names)]
    return [name for name in found if not name.startswith("__")]


def _set_state(made: Tensor, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if not all([part is None or type(part) in (dict, OrderedDict) for part in (attributes, slots)]):
        raise RuntimeError(f"Invalid serialized state: {state}")
    made.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        if name not in _own_slots(type(made)):
            raise UnpicklingError(f"a {type(made).__name__} has no slot {name!r}")
        setattr(made, name, value)


def encode(text: str, encoding: str) -> bytes:
    """How the protocol that PyTorch uses spells bytes."""
    if encoding != "latin1":
        raise UnpicklingError(f"bytes are encoded as {encoding!r}")
    return text.encode("latin1")


_UNTYPED = StorageKind(_dtypes.uint8)
# The dtypes of quantised tensors, each with that of its whole numbers.
WHOLE: dict[Any, dtype] = {
    _dtypes.quint8: _dtypes.uint8,
    _dtypes.qint8: _dtypes.int8,
    _dtypes.qint32: _dtypes.int32,
}


def _kinds() -> dict[tuple[str, str], Any]:
    dtypes = {("torch", d.name): d for d in (*_dtypes.all_dtypes, *_dtypes.kept_dtypes)}
    return dtypes | {
        ("torch", f"{d.scalar_name}Storage"): StorageKind(d) for d in (*_dtypes.all_dtypes, *WHOLE)
    }


_NAMES: dict[tuple[str, str], Any] = (
    {
        ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
        ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor_of,
        ("torch.storage", "UntypedStorage"): _UNTYPED,
        ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
        ("torch._utils", "_rebuild_meta_tensor_no_storage"): rebuild_meta,
        ("torch._utils", "_rebuild_sparse_tensor"): rebuild_sparse,
        ("torch._utils", "_rebuild_wrapper_subclass"): rebuild_wrapper,
        ("torch._utils", "_rebuild_qtensor"): rebuild_quantized,
        ("torch._utils", "_rebuild_nested_tensor"): rebuild_nested,
        ("torch.serialization", "_get_layout"): get_layout,
        ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter_with_state,
        ("torch._tensor", "_rebuild_from_type_v2"): rebuild_from_type,
        ("torch", "Tensor"): Tensor,
        ("torch", "Size"): Size,
        ("torch", "device"): device,
        ("collections", "OrderedDict"): OrderedDict,
        ("collections", "Counter"): Counter,
        ("builtins", "set"): set,
        ("builtins", "complex"): complex,
        ("_codecs", "encode"): encode,
    }
    | _kinds()
    | {("torch", name): scheme for name, scheme in SCHEMES.items()}
)
_TENSORS = (rebuild_tensor, rebuild_tensor_of, rebuild_meta, rebuild_wrapper)
_SPELLED = {id(thing): name for name, thing in _NAMES.items()} | {id(codecs.encode): ("_codecs", "encode")}
_KINDS = {d: _NAMES["torch", f"{d.scalar_name}Storage"] for d in (*_dtypes.all_dtypes, *WHOLE)}
_safe: dict[tuple[str, str], Any] = {}  # what the user trusts


def _spelled(thing: Any) -> tuple[str, str]:
    """The name by which a file knows a class or function: nbgrad's own have PyTorch's."""
    module, name = str(thing.__module__), thing.__qualname__
    if module.partition(".")[0] != "nbgrad":
        return module, name
    if getattr(sys.modules["nbgrad"], name, None) is thing:  # wherever it was made
        module = "nbgrad"
    return "torch" + module.removeprefix("nbgrad"), name


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load` make and call these classes and functions, each given as it is or with its full name in files.

    >>> from fractions import Fraction
    >>> torch.serialization.add_safe_globals([Fraction])
    >>> Fraction in torch.serialization.get_safe_globals()
    True
    >>> torch.serialization.clear_safe_globals()
    """
    for thing in safe_globals:
        if isinstance(thing, tuple):
            found, name = thing
            module, _, attribute = name.rpartition(".")
            _safe[module, attribute] = found
        else:
            _safe[_spelled(thing)] = thing


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has added.

    >>> torch.serialization.get_safe_globals()
    []
    """
    return list(_safe.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has added.

    >>> torch.serialization.clear_safe_globals()
    >>> torch.serialization.get_safe_globals()
    []
    """
    _safe.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """`add_safe_globals` for the `with` block.

    >>> from fractions import Fraction
    >>> with torch.serialization.safe_globals([Fraction]):
    ...     torch.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    """
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)


# ---------------------------------------------------------------- writing


class _Writer(pickle._Pickler):
    """Python's own pickler, for names of a library that need not be there."""

    write: Any
    memoize: Any

    def __init__(self, file: BinaryIO, older: bool = False) -> None:
        super().__init__(file, 2)
        self.older = older
        self.storages: dict[tuple[int, dtype | None], tuple[str, Storage, dtype]] = {}

    def reducer_override(self, obj: Any) -> Any:
        if id(obj) in _SPELLED:
            return _SPELLED[id(obj)][1]
        if not isinstance(obj, Tensor) or type(obj).__reduce_ex__ is not Tensor.__reduce_ex__:
            return NotImplemented
        return _told(obj, _Reference)

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
        told = (
            "storage",
            _UNTYPED if obj.untyped else _KINDS[seen],
            key,
            where,
            memory.nbytes // seen.itemsize,
        )
        return (*told, None) if self.older else told

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if id(obj) in _SPELLED:
            module, attribute = _SPELLED[id(obj)]
        elif isinstance(obj, dtype):  # without kernels
            module, attribute = "torch", obj.name
        else:
            module, attribute = _spelled(obj) if isinstance(obj, (type, FunctionType)) else ("", "")
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


def _told(t: Tensor, stored: Callable[[Storage, dtype, bool], Any]) -> tuple[Any, ...]:
    """What makes a tensor again, in PyTorch's words; `stored` says what stands for its memory."""
    state = _state_of(t)
    if classes.known["parameter"] in type(t).__mro__:  # one of another class, which is marked, keeps it
        held: tuple[Any, ...] = t.detach().as_subclass(Tensor), t.requires_grad, OrderedDict()
        return (rebuild_parameter_with_state, (*held, state)) if state else (rebuild_parameter, held)
    made, args = _told_of_memory(t, stored)
    if type(t) is Tensor and not state:
        return made, args
    return rebuild_from_type, (made, type(t), args, state)


def _told_of_memory(t: Tensor, stored: Callable[[Storage, dtype, bool], Any]) -> tuple[Any, ...]:
    if type(t._buf) is Nothing:
        lies = tuple(t.shape), tuple(t.stride()), t.storage_offset()
        return rebuild_wrapper, (
            type(t),
            t.dtype,
            *lies,
            Layout(str(t.layout)),
            t.device,
            t.requires_grad,
        )
    if t.is_meta:
        return rebuild_meta, (t.dtype, tuple(t.shape), tuple(t.stride()), t.requires_grad)
    kept = t.dtype.kept
    memory = stored(storage_of(t), _dtypes.uint8 if kept else t.dtype, kept)
    place = (memory, t.storage_offset(), tuple(t.shape), tuple(t.stride()))
    held: tuple[Any, ...] = (*place, t.requires_grad, OrderedDict())
    return (rebuild_tensor_of, (*held, t.dtype)) if kept else (rebuild_tensor, held)


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
            _write_older(obj, file)
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
_MAGIC, _OLDER = 0x1950A86A20F9469CFC6C, 1001  # how a file of the older form begins


def _write_older(obj: object, file: BinaryIO) -> None:
    system = {
        "protocol_version": _OLDER,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    pickled = io.BytesIO()
    writer = _Writer(pickled, older=True)
    writer.dump(obj)
    keys = sorted(key for key, _, _ in writer.storages.values())
    file.write(b"".join(pickle.dumps(told, 2) for told in (_MAGIC, _OLDER, system)))
    file.write(pickled.getvalue() + pickle.dumps(keys, 2))
    held = {key: (storage, d) for key, storage, d in writer.storages.values()}
    for key in keys:
        data = _bytes_of(*held[key])
        file.write((data.nbytes // held[key][1].itemsize).to_bytes(8, "little"))
        file.write(data.data)
    if hasattr(file, "flush"):
        file.flush()


# ---------------------------------------------------------------- pickles of others


def _as_storage(storage: Storage, d: dtype, untyped: bool) -> TypedStorage | UntypedStorage:
    bare = UntypedStorage._of(storage)
    return bare if untyped else TypedStorage._of(bare, d)


@cached(None)
def _load_homes() -> None:
    """Of the functions that pickles name: some libraries ask whether these are loaded, and copy their code if not."""
    for module in ("_tensor", "_utils", "serialization", "storage"):
        import_module(f"nbgrad.{module}")


def _reduce_tensor(self: Tensor, protocol: object) -> tuple[Any, ...]:
    _load_homes()
    return _told(self, _as_storage)


def _reduce_storage(self: TypedStorage | UntypedStorage) -> tuple[Any, ...]:
    file = io.BytesIO()
    _write_older(self, file)
    return import_module("nbgrad.storage")._load_from_bytes, (file.getvalue(),)


def pickle_as_torch() -> None:
    """From here on Python's own `pickle` writes tensors as PyTorch does, which reads it."""
    for (module, name), thing in _NAMES.items():
        if type(thing) is FunctionType and module.startswith("torch"):
            thing.__module__, thing.__name__, thing.__qualname__ = module, name, name
    Tensor.__reduce_ex__ = _reduce_tensor  # type: ignore[assignment]
    for kind in (TypedStorage, UntypedStorage):
        kind.__reduce__ = _reduce_storage  # type: ignore[method-assign]


# ---------------------------------------------------------------- reading

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
        if (module, name) in _NAMES:
            return _NAMES[module, name]
        if module == "torch" or module.startswith("torch."):
            module = "nbgrad" + module.removeprefix("torch")
        return super().find_class(module, name)


class _Reader(_Unpickler):
    """Reads the opcodes of plain data, and the names that this module knows or the user trusts."""

    def find_class(self, module: str, name: str) -> Any:
        # Python 2's names, in which the protocol that PyTorch uses spells some of Python's own.
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        found = _NAMES.get((module, name), _safe.get((module, name)))
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
            or not (id(function) in _SPELLED or _is_safe(function))
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
    return any(thing is trusted for trusted in _safe.values())


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
        if isinstance(found := _NAMES.get((module, name)), StorageKind):
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
        if told[0] != _MAGIC:
            raise RuntimeError("Invalid magic number; corrupt file?")
        told += [_Survey(file).load(), _Survey(file).load()]
        if told[1] != _OLDER:
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
    return list(dict.fromkeys(f"{m}.{n}" for m, n in asked if (m, n) not in _NAMES and (m, n) not in _safe))


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


__all__ = [
    *("LoadEndianness", "get_default_load_endianness", "set_default_load_endianness"),
    *("add_safe_globals", "clear_safe_globals", "get_safe_globals", "get_unsafe_globals_in_checkpoint"),
    *("load", "safe_globals", "save"),
]
