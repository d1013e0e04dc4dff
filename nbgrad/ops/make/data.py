"""Tensors from data: lists, numbers, arrays and memory of others."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nbgrad.base.tables import Table
from nbgrad.base.warn import warn, warn_once
from nbgrad.core import tensor as _core
from nbgrad.core.arguments import before_guard
from nbgrad.core.tensor import Tensor, storage_of, wrap
from nbgrad.core.tensor import empty as _empty
from nbgrad.kernels.cuda.launch import streams
from nbgrad.memory import backend, dtypes, gpu
from nbgrad.memory.device import cpu, elsewhere
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.dtypes import get_default_dtype
from nbgrad.memory.storage import Spec, Storage, spec
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.host.typed import TypedStorage
from nbgrad.ops.make.factories import _NO_GRAD_INTS, _finish, placed
from nbgrad.ops.make.filled import full
from nbgrad.ops.views.copy import clone_spec, copy_memory, moved


def lent(array: np.ndarray[Any, Any]) -> Tensor:
    """Share the memory of an array that is somebody else's."""
    sp, flags = _layout_of((array.dtype, array.shape, array.strides)), array.flags
    if sp is None or not sp.numel or not flags.c_contiguous or not flags.writeable:
        t = from_array(array)
        t._storage.lent = True  # type: ignore[union-attr]
        return t
    t = wrap(np.ndarray((sp.nbytes,), _bytes, array), sp)
    t._storage = record = t._storage or Storage(t._buf)
    record.lent = True
    return t


def from_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Share the memory of an array that nobody else has."""
    key = array.dtype, array.shape, array.strides
    sp = _layout_of(key) or _layouts.keep(key, _lies(*key))
    t = wrap(backend.of_array(array), sp)
    storage_of(t)  # others may hold this memory
    return t


_bytes = np.dtype(np.uint8)
# Of arrays, how they lie as tensors.
_layouts: Table[Any, Spec] = Table("ops.make.data.layouts", 1024)
_layout_of = _layouts.get


def _lies(kind: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Spec:
    d = dtypes.from_numpy_dtype(kind)
    if any([s < 0 for s in strides]):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
            "(You can probably work around this by making a copy of your array  with array.copy().) "
        )
    if any([s % d.itemsize for s, n in zip(strides, shape) if n > 1]):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."
        )
    return spec(d, shape, tuple([s // d.itemsize for s in strides]), cpu)


_NOT_WRITABLE = (
    "The given {what} is not writable, and PyTorch does not support non-writable tensors. This means {writing}. "
    "You may want to copy the {thing} to protect its data or make it writable before converting it to a tensor. "
    "This type of warning will be suppressed for the rest of this program."
)


def _warn_if_read_only(array: np.ndarray[Any, Any]) -> None:
    if not array.flags.writeable:
        text = _NOT_WRITABLE.format(
            what="NumPy array",
            writing="writing to this tensor will result in undefined behavior",
            thing="array",
        )
        warn_once(text)


def from_numpy(array: Any, /) -> Tensor:
    """A tensor that shares the memory of a NumPy array: what is written to one is read from the other.

    >>> import numpy as np
    >>> a = np.zeros(2)
    >>> t = torch.from_numpy(a)
    >>> a[0] = 5
    >>> t
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(array, np.ndarray):
        kind = type(array)
        raise TypeError(
            f"expected np.ndarray (got {'numpy.' * isinstance(array, np.generic)}{kind.__name__})"
        )
    _warn_if_read_only(array)
    return _finish(lent(array), False)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A line of `dtype` that shares the memory of whatever has Python's buffer protocol: `count` elements (all, if negative) from byte
    `offset` on.

    >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)
    """
    d = dtypes.to_dtype(dtype, "frombuffer")
    if requires_grad and not d.inexact:
        raise RuntimeError(_NO_GRAD_INTS)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, size = view.nbytes, d.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    left = length - offset
    if count < 0 and left % size:
        raise ValueError(
            f"buffer length ({left} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
        )
    count = left // size if count < 0 else count
    if count * size > left:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than actual "
            f"buffer length ({length} bytes)"
        )
    if view.readonly:
        text = "you can write to the underlying (supposedly non-writable) buffer using the tensor"
        warn_once(_NOT_WRITABLE.format(what="buffer", writing=text, thing="buffer"))
    if d.bits is not None:
        array = np.frombuffer(buffer, d.bits, count, offset)
        return _finish(lent(array).view(d), requires_grad)
    array = np.frombuffer(buffer, d.np, count, offset)
    if d is dtypes.bool_ and view.readonly:  # any byte but 0 is True, and kernels count bytes
        array = array.view(np.uint8) != 0
    return _finish(lent(array), requires_grad)


def _is_sequence(x: Any) -> bool:
    """What Python's C interface takes for one: all that can be indexed but dicts. Tensors, and NumPy's scalars, are numbers."""
    if isinstance(x, (dict, Tensor, np.generic, np.ndarray)):
        return isinstance(x, np.ndarray) and x.ndim > 0
    return hasattr(type(x), "__getitem__")


_LISTS = (
    list,
    tuple,
    np.ndarray,
)  # which give the same by index and one after the other; a Series of pandas does not


def _elements(x: Any) -> list[Any]:
    try:
        row = list(x)
        if row and type(x) not in _LISTS:
            x[0]
        return row
    except Exception:
        raise ValueError(f"could not determine the shape of object type '{type(x).__name__}'") from None


def _infer(values: list[Any]) -> _dtype:
    """The dtype of numbers: that of the highest category."""
    best = -1
    found = get_default_dtype()
    for x in values:
        if isinstance(x, Tensor):
            d = x.dtype
        elif isinstance(x, (np.ndarray, np.generic)):
            d = dtypes.from_numpy_dtype(x.dtype)
        elif isinstance(x, (bool, int, float, complex)):
            d = dtypes.number_dtype(x)
        elif _is_sequence(x) and not isinstance(x, str):
            if any([y is x for y in x]):
                raise TypeError("new(): self-referential lists are incompatible")
            continue  # is refused where a number should stand
        else:
            raise _refused(x)
        if d.category > best:
            best, found = d.category, d
        elif d.category == best and d is not found:
            found = dtypes.promote_types(found, d)
    return found


def _refused(x: Any) -> Exception:
    if isinstance(x, (str, bytes)):
        return TypeError(f"new(): invalid data type '{type(x).__name__}'")
    return RuntimeError(f"Could not infer dtype of {type(x).__name__}")


def _flatten(data: Any) -> tuple[tuple[int, ...], list[Any], list[Any]]:
    """The shape that the first of each sequence tell, the numbers in it, and these as indexing gives them, by which PyTorch infers."""
    shape: list[int] = []
    level, inner = [data], data  # all that stands at one depth, and the first of it
    above: list[Any] = []  # what stands one depth less deep
    while _is_sequence(inner):
        if isinstance(inner, str) or len(shape) > 128:
            raise ValueError(f"too many dimensions '{type(inner).__name__}'")
        if not all(map(_is_sequence, level)):
            raise TypeError("not a sequence")
        rows = [_elements(x) for x in level]
        n, dim = len(rows[0]), len(shape)
        shape.append(n)
        if not n:
            return tuple(shape), [], []
        for row in rows:
            if len(row) != n:
                raise ValueError(f"expected sequence of length {n} at dim {dim} (got {len(row)})")
        above, level = level, [x for row in rows for x in row]
        inner = level[0]
    if all([type(x) in _LISTS for x in above]):
        return tuple(shape), level, level
    return tuple(shape), level, [x[k] for x in above for k in range(shape[-1])]


def _number(x: Any, d: _dtype) -> Any:
    """What stands where a number should, as Python's."""
    if isinstance(x, (bool, int, float)) or (isinstance(x, complex) and (d.is_complex or d is dtypes.bool_)):
        return x
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.size == 1):
        return x.item()
    if isinstance(x, Tensor):
        whole = x.dtype.category < dtypes.FLOAT
        if x.numel() == 1 and (whole or d.inexact):
            return x.item()
        if d.inexact:
            raise ValueError("only one element tensors can be converted to Python scalars")
        raise TypeError("only integer tensors of a single element can be converted to an index")
    if hasattr(x, "__index__"):
        return operator.index(x)
    if d.inexact and hasattr(x, "__float__"):
        return float(x)
    if d.is_complex and hasattr(x, "__complex__"):
        return complex(x)
    raise TypeError(
        f"must be real number, not {type(x).__name__}"
        if d.is_floating_point
        else f"'{type(x).__name__}' object cannot be interpreted as an integer"
    )


def _of_numbers(values: list[Any], d: _dtype) -> np.ndarray[Any, Any]:
    if d.is_floating_point:
        with np.errstate(over="ignore"):  # what is too large is inf
            wide = np.array(values, np.float64 if d is dtypes.float64 else np.float32)
        return dtypes.packed(dtypes.rounded(wide, d), d)
    if d.is_complex:
        with np.errstate(over="ignore"):
            return np.array(values, np.complex128).astype(d.np)
    if d is dtypes.bool_:
        return np.array([bool(v) for v in values], d.np)
    if not any(isinstance(v, float) for v in values):
        try:
            return np.array(values, d.np)
        except OverflowError:  # refused below, in PyTorch's words, but for what wraps in an unsigned integer
            pass
    if d is dtypes.uint64 and (beyond := [v for v in values if isinstance(v, int) and not 0 <= v < 2**64]):
        raise OverflowError(
            "int too big to convert" if beyond[0] > 0 else "can't convert negative int to unsigned"
        )
    if d is dtypes.uint64 and any(isinstance(v, float) for v in values):
        raise TypeError("an integer is required")
    if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
        raise ValueError("Overflow when unpacking long long")
    try:
        return np.array([dtypes.fitting(v, d) for v in values]).astype(d.np)
    except RuntimeError:
        raise RuntimeError(f"value cannot be converted to type {d.name} without overflow") from None


def _from_data(data: Any, dtype: Any) -> Tensor:
    if isinstance(data, Tensor):
        d = data.dtype if dtype is None else dtypes.to_dtype(dtype)
        out = _empty(clone_spec(data._spec.plain).like(dtype=d))
        copy_memory(out, data)
        return out
    if isinstance(data, (np.ndarray, np.generic)):
        if data.strides and min(data.strides) < 0:
            _lies(data.dtype, data.shape, data.strides)  # which refuses it
        array = np.array(data)  # a copy, in native order, of what may be a scalar
        if not array.dtype.isnative:
            dtypes.from_numpy_dtype(array.dtype)
        t = from_array(array)
        if dtype is not None and dtypes.to_dtype(dtype) is not t.dtype:
            return _from_data(t, dtype)
        return t
    if isinstance(data, (str, bytes)):
        raise _refused(data)
    if isinstance(data, (UntypedStorage, TypedStorage)):
        return _from_storage(data, dtype)
    if isinstance(data, list) and data and isinstance(data[0], np.ndarray):
        warn_once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a single "
            "numpy.ndarray with numpy.array() before converting to a tensor."
        )
    shape, values, items = _flatten(data)
    d = _infer(items) if dtype is None else dtypes.to_dtype(dtype, "tensor")
    memory = _of_numbers([_number(x, d) for x in values], d)
    return wrap(backend.of_array(memory), spec(d, shape, None, cpu))


def _from_storage(data: UntypedStorage | TypedStorage, dtype: Any) -> Tensor:
    default = get_default_dtype() if isinstance(data, TypedStorage) else dtypes.int64
    d = default if dtype is None else dtypes.to_dtype(dtype)
    if isinstance(data, TypedStorage) and data.dtype is not d:
        raise RuntimeError(
            f"Expected a Storage of type {d.scalar_name} or an UntypedStorage, but got {data.dtype.scalar_name}"
        )
    return _from_data(_empty(spec(d, (0,), None, cpu)).set_(data), None)


def _of_plain(data: Any, dtype: Any) -> Tensor | None:
    """One of Python's numbers, a list or tuple of such, or of such of one length, a range: most of what users write out. None for all
    else."""
    if type(data) is range:
        data = list(data)
    flat: Any
    if type(data) is not list and type(data) is not tuple:
        flat, shape = [data], _NO_DIMS
    else:
        flat, shape = data, (len(data),)
    kinds = {*map(type, flat)}
    if kinds == {list} or kinds == {tuple}:
        lengths = {*map(len, flat)}
        flat = [x for row in flat for x in row] if len(lengths) == 1 else []
        shape, kinds = (len(data), *lengths), {*map(type, flat)}
    if kinds == {Tensor}:  # of numbers that lie alike
        sp = flat[0]._spec
        if sp.ndim or sp.read is None or any([t._spec is not sp for t in flat]):
            return None
        flat, d = [t.item() for t in flat], sp.dtype
    elif kinds == {int}:
        d = dtypes.int64
    elif float in kinds and kinds <= {int, float}:
        d = get_default_dtype()
    elif kinds == {bool}:
        d = dtypes.bool_
    else:
        return None
    if dtype is not None:
        if type(dtype) is not _dtype or not (
            dtype.category == d.category or (dtype.is_floating_point and d is dtypes.int64)
        ):
            return None
        d = dtype
    if d is dtypes.bool_:
        return wrap(np.frombuffer(bytearray(flat), np.uint8), spec(d, shape, None, cpu))
    if d not in _C_ARRAYS:
        return None
    try:
        memory = array(_C_ARRAYS[d], flat)
    except OverflowError:
        return None
    return wrap(np.frombuffer(memory, np.uint8), spec(d, shape, None, cpu))


_NO_DIMS: tuple[int, ...] = ()
_C_ARRAYS = {dtypes.float32: "f", dtypes.float64: "d", dtypes.int64: "q"}


def _of_an_array(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The short way of an array, of which the guard would ask what it holds."""

    def short(*args: Any, **more: Any) -> Tensor:
        if len(args) == 1 and not more and args[0].__class__ is np.ndarray:
            return made(args[0])
        return slow(*args, **more)

    made = getattr(slow, "__wrapped__", slow)
    return short


def _of_a_tensor(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same where a tensor is returned as it is."""
    further = _of_an_array(slow)

    def short(*args: Any, **more: Any) -> Tensor:
        if len(args) == 1 and not more and args[0].__class__ is Tensor and not elsewhere.threads:
            found: Tensor = args[0]
            return found
        return further(*args, **more)

    return short


COPY_OF_A_TENSOR = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}(sourceTensor)."
)


@partial(before_guard, _of_an_array)
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: a number, nested sequences of numbers, or an array. `dtype` is int64, bool or the default dtype,
    as the numbers are, unless given; an array's is kept. With `requires_grad` it is a leaf for which a gradient is found.

    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> torch.tensor([1, 2.5], requires_grad=True)
    tensor([1.0000, 2.5000], requires_grad=True)
    """
    if isinstance(data, Tensor):
        warn(COPY_OF_A_TENSOR.format("torch.tensor"))
    t = _of_plain(data, dtype)
    if t is None:
        t = _from_data(data, dtype)
    if device is not None or elsewhere.threads or t._spec.device is not cpu:
        like_data = isinstance(data, Tensor) and device is None
        t = moved(t, t._spec.dtype, t._spec.device if like_data else placed(device))
    return _finish(t, requires_grad)


_core.hooks.tensor = tensor


@partial(before_guard, _of_a_tensor)
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor: a tensor is returned as it is, an array's memory is shared; all else, and what has another `dtype` than the one
    asked for, is copied.

    >>> t = torch.tensor([1.0])
    >>> torch.as_tensor(t) is t
    True
    >>> torch.as_tensor([1, 2])
    tensor([1, 2])
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray):
        _warn_if_read_only(data)
        t = lent(data)
        where = placed(device)
        return t if dtype is None and where is cpu else t.to(dtype=dtype, device=where)
    if hasattr(type(data), "__cuda_array_interface__"):
        return _of_interface(data).to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


def _of_interface(data: Any) -> Tensor:
    """A tensor over the memory on a GPU that another library's array shows."""
    has, serves = data.__cuda_array_interface__, gpu.of(_device("cuda"))
    d = dtypes.from_numpy_dtype(np.dtype(has["typestr"]))
    strides = has.get("strides")
    elements = None if strides is None else tuple([s // d.itemsize for s in strides])
    sp = spec(d, tuple(has["shape"]), elements, serves.device)
    if has.get("stream") not in (None, 1, streams.current or 1):
        serves.driver.synchronize(has["stream"])
    t = wrap(serves.foreign(has["data"][0], sp.nbytes, data), sp)
    storage_of(t).lent = True
    return t


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor, whose memory is shared where that can be, or copied, as `copy` says: None is either, False refuses what would be a
    copy. It takes tensors, arrays, buffers, capsules of DLPack and nested sequences. Unless `requires_grad`, the result has no history.

    >>> t = torch.tensor([1.0])
    >>> torch.asarray(t).data_ptr() == t.data_ptr(), torch.asarray(t, copy=True).data_ptr() == t.data_ptr()
    (True, False)
    """
    if isinstance(obj, (bytes, bytearray, memoryview, array)):
        obj = frombuffer(obj, dtype=get_default_dtype() if dtype is None else dtype)
    elif type(obj).__name__ == "PyCapsule":  # of which only DLPack's are taken
        obj = _core.hooks.from_dlpack(obj)
    shared = isinstance(obj, (Tensor, np.ndarray))
    if copy is False and isinstance(obj, np.generic):
        raise RuntimeError(
            "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
        )
    if copy is False and not shared:
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    t = (
        tensor(obj, dtype=dtype, device=device)
        if copy and not shared
        else as_tensor(obj, None if shared else dtype, device)
    )
    if shared and dtype is not None and dtypes.to_dtype(dtype) is not t.dtype:
        if copy is False:
            want = dtypes.to_dtype(dtype).scalar_name
            raise ValueError(f"can't alias tensor with dtype '{t.dtype.scalar_name}' into dtype '{want}'.")
        t = t.to(dtype)
    elif copy and shared:
        t = t.clone()
    return _finish(t.detach() if t.requires_grad and not requires_grad else t, requires_grad)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor without dimensions that holds the number `s`, in the default dtype unless `dtype` is given.

    >>> torch.scalar_tensor(3)
    tensor(3.)
    """
    return full(
        (),
        s,
        dtype=get_default_dtype() if dtype is None else dtype,
        device=device,
        requires_grad=requires_grad,
    )


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A line of `size` elements that lie in a file, which what is written goes to if `shared`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "numbers")
    >>> path.write_bytes(bytes([1, 0, 2, 0]))
    4
    >>> torch.from_file(str(path), size=2, dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)
    """
    if device is not None and _device(device) is not cpu:
        raise backend.valueless("from_file")
    if pin_memory:
        raise RuntimeError("tensors constructed from a file cannot be pinned")
    d = get_default_dtype() if dtype is None else dtypes.to_dtype(dtype, "from_file")
    if requires_grad and not d.inexact:
        raise RuntimeError(_NO_GRAD_INTS)
    if size < 0:
        raise RuntimeError(
            f"unable to mmap {size * d.itemsize} bytes from file <{filename}>: Cannot allocate memory (12)"
        )
    stored = UntypedStorage.from_file(filename, bool(shared), size * d.itemsize)
    t = wrap(stored._record.memory, spec(d, (size,), None, cpu))
    t._storage = stored._record
    return _finish(t, requires_grad)


__all__ = ["as_tensor", "asarray", "from_file", "from_numpy", "frombuffer", "scalar_tensor", "tensor"]
