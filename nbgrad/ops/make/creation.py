"""What makes tensors: from Python data, from NumPy arrays, filled, counted and random."""

from __future__ import annotations

import builtins
import operator
import warnings
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nbgrad.core import arguments
from nbgrad.core import tensor as _core
from nbgrad.core.tensor import Tensor, as_inference, new, set_requires_grad, storage_of, wrap
from nbgrad.core.tensor import empty as _empty
from nbgrad.dispatch.transforms import batched
from nbgrad.memory import backend, dtypes
from nbgrad.memory import layout as _layout
from nbgrad.memory.device import cpu
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.dtypes import get_default_dtype
from nbgrad.memory.storage import Batched, Spec, spec
from nbgrad.ops.host import printing
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.make import generator as _random
from nbgrad.ops.views.copy import _to_be_dense, clone_spec, copy_memory, to_dtype
from nbgrad.ops.views.copy import full as _full
from nbgrad.ops.views.copy import zeros as _zeros
from nbgrad.ops.views.views import _sizes
from nbgrad.tape.modes import shared, state

_NO_GRAD_INTS = "Only Tensors of floating point and complex dtype can require gradients"


def _of_out(name: str, out: Tensor, dtype: Any) -> _dtype:
    """The dtype of `out=`, which what is counted or drawn is made in; another must not be asked for."""
    if state.grad and out.requires_grad:
        if name in ("empty", "randn"):
            raise RuntimeError("cannot resize variables that require grad")
        raise RuntimeError(
            f"aten::{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    d = out._spec.dtype
    if dtype is not None and (asked := dtypes.to_dtype(dtype)) is not d:
        raise RuntimeError(
            f"dtype {asked.scalar_name} does not match dtype of out parameter ({d.scalar_name})"
        )
    return d


def _sized(out: Tensor, shape: Sequence[int]) -> Tensor:
    """A factory's `out`, which takes its size without a warning."""
    return out if out.shape == shape else out.resize_(shape)


def _finish(t: Tensor, requires_grad: bool, out: Tensor | None = None) -> Tensor:
    if out is not None:
        t = _sized(out, t.shape).copy_(t)
    if requires_grad:
        set_requires_grad(t, True, _NO_GRAD_INTS)
    return t


def _counted(t: Tensor, requires_grad: bool, out: Tensor | None) -> Tensor:
    """The same for what has no shape of its own: an `out` of as many elements keeps its own."""
    if out is not None and out.numel() == t.numel():
        t = t.view(out.shape)
    return _finish(t, requires_grad, out)


_LARGE = 2**30
_known: dict[tuple[Any, Any], Spec] = {}  # of what was asked for, by sizes and dtype (None: the default one)
dtypes.on_new_default.append(_known.clear)


def _spec(name: str, size: Sequence[Any], dtype: Any, device: Any, requires_grad: bool = False) -> Spec:
    """How a new tensor is to lie; arguments are checked if they are not what they were before."""
    if len(size) == 1 and type(size[0]) is not int and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    key = None
    if device is None and (dtype is None or type(dtype) is _dtype) and not requires_grad:
        for n in size:
            if type(n) is not int:
                break
        else:
            key = size, dtype
            found = _known.get(key)
            if found is not None:
                return found
    shape = _sizes(size, name)
    d = get_default_dtype() if dtype is None else dtypes.to_dtype(dtype, name)
    where = cpu if device is None else _device(device)
    backend.of(where)
    if requires_grad and not d.is_floating_point:
        raise RuntimeError(_NO_GRAD_INTS)
    for n in shape:
        if n < 0:
            if name == "zeros":
                raise RuntimeError("zeros: Dimension size must be non-negative.")
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    if 0 in shape and prod([n or 1 for n in shape[1:]]) > _layout.MAX_NUMEL:
        raise RuntimeError("Stride calculation overflowed")
    sp = spec(d, tuple(shape), None, cpu)
    if sp.nbytes > _LARGE:
        _empty(sp)  # is refused as PyTorch would, before NumPy is asked for what comes between
    elif key is not None:
        if len(_known) >= 4096:
            _known.clear()
        _known[key] = sp
    return sp


# ---------------------------------------------------------------- the short way

# What few elements cost are the interpreter's steps, so a call that names nothing but sizes (or a tensor to be like) is looked at
# once: what gives such memory is kept, and how it lies.
Memory = Callable[[], Any]
Function = Callable[..., Tensor]
_FEW_BYTES = 512


def _copies(t: Tensor) -> Memory:
    memory = t._buf.copy()
    give: Memory = memory.copy
    return give


class _Known(dict[Any, tuple[Memory, Spec]]):
    def __init__(self, memory_of: Callable[[Tensor], Memory | None]) -> None:
        self.memory_of = memory_of
        dtypes.on_new_default.append(self.clear)

    def keep(self, key: Any, t: Tensor) -> Tensor:
        if type(t._spec) is Spec and t._spec.nbytes <= _FEW_BYTES and type(t) is Tensor:
            memory = self.memory_of(t)
            if memory is not None:
                if len(self) >= 4096:
                    self.clear()
                self[key] = memory, t._spec
        return t


def _of_sizes(memory_of: Callable[[Tensor], Memory | None]) -> Callable[[Function], Function]:
    def before(slow: Function) -> Function:
        known = _Known(memory_of)
        made = getattr(slow, "__wrapped__", slow)  # past the guard: ints are what it would let pass

        def short(*sizes: Any, **more: Any) -> Tensor:
            if more or not sizes or state.levels:
                return slow(*sizes, **more)
            key = sizes[0] if len(sizes) == 1 and type(sizes[0]) is tuple else sizes
            for n in key:
                if type(n) is not int:
                    return slow(*sizes)
            found = known.get(key)
            if found is None:
                return known.keep(key, made(*sizes))
            t: Tensor = new(Tensor)  # `wrap`, in line
            t._buf, t._spec = found[0](), found[1]
            t._rg = t._nr = 0
            t._storage = t._node = t._view = t._ad = None
            if shared.rare and state.modes.inference:
                as_inference(t)
            return t

        return short

    return partial(arguments.before_guard, before)


def _of_size_and_value(slow: Function) -> Function:
    known = _Known(_copies)

    def short(size: Any = arguments.unset, fill_value: Any = arguments.unset, **more: Any) -> Tensor:
        # Zeros are left out: 0.0 is -0.0.
        if more or type(size) is not tuple or type(fill_value) is not float or not fill_value:
            return slow(size, fill_value, **more)
        for n in size:
            if type(n) is not int:
                return slow(size, fill_value)
        found = known.get((size, fill_value))
        if found is None:
            return known.keep((size, fill_value), slow(size, fill_value))
        return wrap(found[0](), found[1])

    return short


def _of_a_like(memory_of: Callable[[Tensor], Memory | None]) -> Callable[[Function], Function]:
    def before(slow: Function) -> Function:
        known = _Known(memory_of)

        def short(input: Tensor = arguments.unset, **more: Any) -> Tensor:
            if more or type(input) is not Tensor or state.levels:
                return slow(input, **more)
            found = known.get(input._spec)
            if found is not None:
                return wrap(found[0](), found[1])
            t = slow(input)
            return known.keep(input._spec, t) if type(input._spec) is Spec else t

        return short

    return partial(arguments.before_guard, before)


# ---------------------------------------------------------------- from data


def lent(array: np.ndarray[Any, Any]) -> Tensor:
    """Share the memory of an array that is somebody else's."""
    t = from_array(array)
    storage_of(t).lent = True
    return t


def from_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Share the memory of an array that nobody else has."""
    d = dtypes.from_numpy_dtype(array.dtype)
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
            "(You can probably work around this by making a copy of your array  with array.copy().) "
        )
    if any(s % d.itemsize for s, n in zip(array.strides, array.shape) if n > 1):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."
        )
    strides = tuple(s // d.itemsize for s in array.strides)
    t = wrap(backend.from_host(array), spec(d, array.shape, strides, cpu))
    storage_of(t)  # others may hold this memory
    return t


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
        warnings.warn(text, UserWarning, stacklevel=3)


def from_numpy(array: Any, /) -> Tensor:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    _warn_if_read_only(array)
    return _finish(lent(array), False)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A tensor over the memory of whatever has Python's buffer protocol."""
    d = dtypes.to_dtype(dtype, "frombuffer")
    if requires_grad and not d.is_floating_point:
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
        warnings.warn(
            _NOT_WRITABLE.format(what="buffer", writing=text, thing="buffer"), UserWarning, stacklevel=2
        )
    return _finish(lent(np.frombuffer(buffer, d.np, count, offset)), requires_grad)


def _is_sequence(x: Any) -> bool:
    """What Python's C interface takes for one: all that can be indexed but dicts. Tensors, and NumPy's scalars, are numbers."""
    if isinstance(x, (dict, Tensor, np.generic, np.ndarray)):
        return isinstance(x, np.ndarray) and x.ndim > 0
    return hasattr(type(x), "__getitem__")


def _elements(x: Any) -> list[Any]:
    try:
        return list(x)
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
        elif isinstance(x, (bool, int, float)):
            d = dtypes.number_dtype(x)
        elif _is_sequence(x) and not isinstance(x, str):
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
    if isinstance(x, complex):
        return TypeError("nbgrad has no complex dtypes yet: got a Python complex number")
    return RuntimeError(f"Could not infer dtype of {type(x).__name__}")


def _flatten(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The shape that the first of each sequence tell, and the numbers in it."""
    shape: list[int] = []
    level, inner = [data], data  # all that stands at one depth, and the first of it
    while _is_sequence(inner):
        if isinstance(inner, str) or len(shape) > 128:
            raise ValueError(f"too many dimensions '{type(inner).__name__}'")
        if not all(map(_is_sequence, level)):
            raise TypeError("not a sequence")
        rows = [_elements(x) for x in level]
        n, dim = len(rows[0]), len(shape)
        shape.append(n)
        if not n:
            return tuple(shape), []
        for row in rows:
            if len(row) != n:
                raise ValueError(f"expected sequence of length {n} at dim {dim} (got {len(row)})")
        level = [x for row in rows for x in row]
        inner = level[0]
    return tuple(shape), level


def _number(x: Any, d: _dtype) -> Any:
    """What stands where a number should, as Python's."""
    if isinstance(x, (bool, int, float)):
        return x
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.size == 1):
        return x.item()
    if isinstance(x, Tensor):
        whole = x.dtype.category < dtypes.FLOAT
        if x.numel() == 1 and (whole or d.is_floating_point):
            return x.item()
        if d.is_floating_point:
            raise ValueError("only one element tensors can be converted to Python scalars")
        raise TypeError("only integer tensors of a single element can be converted to an index")
    if hasattr(x, "__index__"):
        return operator.index(x)
    if d.is_floating_point and hasattr(x, "__float__"):
        return float(x)
    raise TypeError(
        f"must be real number, not {type(x).__name__}"
        if d.is_floating_point
        else f"'{type(x).__name__}' object cannot be interpreted as an integer"
    )


def _of_numbers(values: list[Any], d: _dtype) -> np.ndarray[Any, Any]:
    if d.is_floating_point:
        with np.errstate(
            over="ignore"
        ):  # what is too large is inf; doubles come to float16 by way of float32
            wide = np.array(values, np.float64 if d is dtypes.float64 else np.float32)
            return wide.astype(d.np, copy=False)
    if d is dtypes.bool_:
        return np.array([bool(v) for v in values], d.np)
    if not any(isinstance(v, float) for v in values):
        try:
            return np.array(values, d.np)
        except OverflowError:  # refused below, in PyTorch's words, but for what wraps in an unsigned integer
            pass
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
        array = np.array(data)  # a copy, in native order, of what may be a scalar
        if not array.dtype.isnative:
            dtypes.from_numpy_dtype(array.dtype)
        t = from_array(array)
        if dtype is not None and dtypes.to_dtype(dtype) is not t.dtype:
            return _from_data(t, dtype)
        return t
    if isinstance(data, (str, bytes)):
        raise _refused(data)
    shape, values = _flatten(data)
    d = _infer(values) if dtype is None else dtypes.to_dtype(dtype, "tensor")
    memory = _of_numbers([_number(x, d) for x in values], d)
    return wrap(backend.from_host(memory), spec(d, shape, None, cpu))


def _of_plain(data: Any, dtype: Any) -> Tensor | None:
    """One of Python's floats or ints, a list of such, or of such lists of one length: most of what users write out. None for all else."""
    if type(data) is not list:
        flat, shape = [data], _NO_DIMS
    else:
        flat, shape = data, (len(data),)
    kinds = {*map(type, flat)}
    if kinds == {list}:
        lengths = {*map(len, flat)}
        flat = [x for row in flat for x in row] if len(lengths) == 1 else []
        shape, kinds = (len(data), *lengths), {*map(type, flat)}
    d = get_default_dtype() if kinds == {float} else dtypes.int64
    if dtype is not None:
        if type(dtype) is not _dtype or dtype.category != d.category:
            return None
        d = dtype
    if not (kinds == {float} or kinds == {int}) or d not in _C_ARRAYS:
        return None
    try:
        memory = array(_C_ARRAYS[d], flat)
    except OverflowError:
        return None
    return wrap(np.frombuffer(memory, np.uint8), spec(d, shape, None, cpu))


_NO_DIMS: tuple[int, ...] = ()
_C_ARRAYS = {dtypes.float32: "f", dtypes.float64: "d", dtypes.int64: "q"}


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
    if device is not None:
        backend.of(_device(device))
    t = _of_plain(data, dtype)
    return _finish(_from_data(data, dtype) if t is None else t, requires_grad)


_core.hooks.tensor = tensor


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Share memory where that can be."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if isinstance(data, np.ndarray):
        _warn_if_read_only(data)
        t = lent(data)
        return t.to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """Share memory where that can be, or copy, as `copy` says; the result is a leaf unless it requires grad already."""
    if isinstance(obj, (bytes, bytearray, memoryview, array)):
        obj = frombuffer(obj, dtype=get_default_dtype() if dtype is None else dtype)
    shared = isinstance(obj, (Tensor, np.ndarray))
    if copy is False and not shared:
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    t = tensor(obj, dtype=dtype) if copy and not shared else as_tensor(obj, None if shared else dtype, device)
    if shared and dtype is not None and dtypes.to_dtype(dtype) is not t.dtype:
        if copy is False:
            want = dtypes.to_dtype(dtype).scalar_name
            raise ValueError(f"can't alias tensor with dtype '{t.dtype.scalar_name}' into dtype '{want}'.")
        t = t.to(dtype)
    elif copy and shared:
        t = t.clone()
    return _finish(t.detach() if t.requires_grad and not requires_grad else t, requires_grad)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return full(
        (),
        s,
        dtype=get_default_dtype() if dtype is None else dtype,
        device=device,
        requires_grad=requires_grad,
    )


# ---------------------------------------------------------------- filled


@_of_sizes(_copies)
def empty(
    *sizes: Any,
    size: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    if out is not None:
        dtype = _of_out("empty", out, dtype)
    t = _empty(_spec("empty", sizes if size is None else (size,), dtype, device, requires_grad))
    return t if out is None and not requires_grad else _finish(t, requires_grad, out)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    sizes, strides = list(size), list(stride)
    if len(sizes) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides ({len(strides)})"
        )
    if any(s < 0 for s in strides):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={sizes} and strides={strides}")
    sp = _spec("empty_strided", tuple(sizes), dtype, device, requires_grad)
    return _finish(_empty(sp.like(sp.shape, tuple(strides))), requires_grad)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Its dimensions lie in memory in the order of `physical_layout`, the one with the largest steps first."""
    order = list(physical_layout)
    if len(order) != len(size):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    for k, d in enumerate(order):
        if not 0 <= d < len(order):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(order) - 1}, but got {d} at index {k}).  NB: negative dims "
                "not currently supported; file an issue if you want it."
            )
        if order.index(d) != k:
            raise RuntimeError("Duplicate dim not allowed")
    strides, step = [0] * len(order), 1
    for d in reversed(order):
        strides[d], step = step, step * size[d]
    return empty_strided(size, strides, dtype=dtype, device=device, requires_grad=requires_grad)


@_of_sizes(_copies)
def zeros(
    *sizes: Any,
    size: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    if out is not None:
        dtype = _of_out("zeros", out, dtype)
    t = _zeros(_spec("zeros", sizes if size is None else (size,), dtype, device, requires_grad))
    return t if out is None and not requires_grad else _finish(t, requires_grad, out)


@_of_sizes(_copies)
def ones(
    *sizes: Any,
    size: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    if out is not None:
        dtype = _of_out("ones", out, dtype)
    t = _full(_spec("ones", sizes if size is None else (size,), dtype, device, requires_grad), 1.0)
    return t if out is None and not requires_grad else _finish(t, requires_grad, out)


@partial(arguments.before_guard, _of_size_and_value)
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    if out is not None:
        dtype = _of_out("full", out, dtype)
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if dtype is None:
        dtype = dtypes.number_dtype(fill_value)
    t = _full(_spec("full", (size,), dtype, device, requires_grad), fill_value)
    return t if out is None and not requires_grad else _finish(t, requires_grad, out)


def _own(like: Tensor, t: Tensor) -> Tensor:
    """`t`; made in a vmap like a tensor that each example has its own of, once for each, as each may write to it."""
    levels: list[Any] = []
    while type(like._buf) is Batched:
        if like._buf.has:
            levels.insert(0, like._buf.level)
        like = like._buf.inner
    if levels:
        t = _core.hooks.clone(_core.hooks.expand(t, (*[level.size for level in levels], *t.shape)))
    for level in levels:
        t = batched(t, level)
    return t


def _like(input: Tensor, dtype: Any, memory_format: Any = None) -> Spec:
    sp = input._spec
    strides = None if _to_be_dense(memory_format) else _layout.kept_strides(sp.shape, sp.strides)
    return spec(sp.dtype if dtype is None else dtypes.to_dtype(dtype), sp.shape, strides, sp.device)


@_of_a_like(_copies)
def empty_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    return _finish(_own(input, _empty(_like(input, dtype, memory_format))), requires_grad)


@_of_a_like(_copies)
def zeros_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    return _finish(_own(input, _zeros(_like(input, dtype, memory_format))), requires_grad)


@_of_a_like(_copies)
def ones_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    return _finish(_own(input, _full(_like(input, dtype, memory_format), 1)), requires_grad)


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    return _finish(_own(input, _full(_like(input, dtype, memory_format), fill_value)), requires_grad)


# ---------------------------------------------------------------- counted


def _counting(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The short way of a call with one int, or two that count upwards."""

    def shortened(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def short(*args: Any, **more: Any) -> Tensor:
            if not more and not state.levels and 0 < len(args) < 3 and {*map(type, args)} == {int}:
                start, end = args if len(args) == 2 else (0, args[0])
                if -(2**62) < start <= end < 2**62 and end - start < _LARGE // 8:
                    counted = np.arange(start, end, dtype=np.int64)
                    return wrap(counted.view(np.uint8), spec(dtypes.int64, counted.shape, None, cpu))
            return function(*args, **more)

        return short

    return arguments.before_guard(shortened, function)


def _whole(*values: Any) -> None:
    if any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")


def _size(count: float) -> int:
    """How many numbers there are."""
    if not -(2.0**63) <= count < 2.0**63:
        raise RuntimeError("invalid size, possible overflow?")
    return int(count)


@_counting
def arange(
    *args: Any,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    layout: Any = None,
) -> Tensor:
    if out is not None:
        dtype = _of_out("arange", out, dtype)
    given = list(args)
    if end is not None:
        given = [start if start is not None else (given.pop(0) if given else 0), end]
    if step is not None:
        given = [*([0] if len(given) == 1 else []), *given, step]
    if len(given) == 1:
        given = [0, *given]
    start, end, step = given if len(given) == 3 else (*given, 1)
    values = [v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end, step)]
    start, end, step = values
    if dtype is None:
        dtype = get_default_dtype() if any(isinstance(v, float) for v in values) else dtypes.int64
    d = dtypes.to_dtype(dtype)
    if d is dtypes.bool_:
        raise NotImplementedError("\"arange_cpu\" not implemented for 'Bool'")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    _whole(*values)
    if not all(np.isfinite(float(v)) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if d is dtypes.int64:  # which PyTorch counts in whole steps, from whole to whole
        start, end, step = map(int, (start, end, step))
        if not step:
            raise ValueError("step must be nonzero")
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        n = _size(-(-(end - start) // step))
    else:
        n = _size(float(np.ceil((float(end) - float(start)) / float(step))))
    sp = _spec("arange", (n,), d, device, requires_grad)
    # PyTorch accumulates in double for floats: start + step * i, rounded once.
    if d.is_floating_point:
        with np.errstate(over="ignore"):
            array = (start + step * np.arange(n, dtype=np.float64)).astype(d.np)
    else:
        array = (int(start) + int(step) * np.arange(n, dtype=np.int64)).astype(d.np)
    t = from_array(array)
    t._spec = sp
    if out is not None and out.numel() and out.numel() != n:
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not match the computed "
            f"number of elements {n}. Note that this may occur as a result of rounding error. The out tensor will be resized to a "
            f"tensor of shape ({n},).",
            UserWarning,
            stacklevel=2,
        )
    return _counted(t, requires_grad, out)


def range(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """From `start` to `end`, which belongs to it, as `arange` will have it."""
    if out is not None:
        dtype = _of_out("range", out, dtype)
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
        "builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    d = get_default_dtype() if dtype is None else dtypes.to_dtype(dtype)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    _whole(start, end, step)
    sp = _spec("range", (_size((float(end) - float(start)) / float(step) + 1),), d, device, requires_grad)
    t = from_array((start + step * np.arange(sp.numel)).astype(d.np))
    t._spec = sp
    return _counted(t, requires_grad, out)


def _ends(name: str, *ends: Any) -> list[Any]:
    dims = [v.ndim if isinstance(v, Tensor) else 0 for v in ends]
    if any(dims):
        if all(isinstance(v, Tensor) for v in ends):
            got = f"start with {dims[0]} dimension(s) and end with {dims[1]} dimension(s)."
        else:
            which, n = ("start", dims[0]) if dims[0] else ("end", dims[1])
            got = f"{which} with {n} dimension(s)."
        raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {got}")
    return [v.item() if isinstance(v, Tensor) else v for v in ends]


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    if out is not None:
        dtype = _of_out("linspace", out, dtype)
    if not isinstance(steps, int):
        raise TypeError(f"linspace(): argument 'steps' (position 3) must be int, not {type(steps).__name__}")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = _ends("linspace", start, end)
    sp = _spec("linspace", (steps,), dtype, device, requires_grad)
    if sp.dtype is dtypes.bool_:
        raise NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")
    d = sp.dtype.np
    a, b = np.array([dtypes.fitting(v, sp.dtype) for v in (start, end)]).astype(d)
    if steps == 1:
        array = np.array([a], d)
    else:
        # Symmetric about the middle, in the dtype itself (integers in double), as PyTorch computes it.
        real = d.type if d.kind == "f" else np.float64
        step = real(real(b) - real(a)) / real(max(steps - 1, 1))
        i = np.arange(steps)
        low = real(a) + step * i.astype(real)
        high = real(b) - step * (steps - 1 - i).astype(real)
        array = np.where(i < steps // 2, low, high).astype(d)
    return _counted(from_array(array), requires_grad, out)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    if out is not None:
        dtype = _of_out("logspace", out, dtype)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = _ends("logspace", start, end)
    sp = _spec("logspace", (steps,), dtype, device, requires_grad)
    # Symmetric about the middle as linspace is; integers truncated at the end.
    real = sp.dtype.np.type if sp.dtype.is_floating_point else np.float64
    if steps != 1:  # of one step PyTorch does not round the exponent
        start, end = np.array([dtypes.fitting(v, sp.dtype) for v in (start, end)]).astype(sp.dtype.np)
    a, b = real(start), real(end)
    step = real((b - a) / real(max(steps - 1, 1)))
    i = np.arange(steps)
    exponents = np.where(
        i < max(steps // 2, 1), a + step * i.astype(real), b - step * (steps - 1 - i).astype(real)
    )
    array = np.power(real(base), exponents.astype(real)).astype(sp.dtype.np)
    return _counted(from_array(array), requires_grad, out)


def _below(row: int, col: int, offset: int) -> int:
    """How many elements a lower triangle has."""
    empty = min(max(-offset, 0), row)  # rows, and those before the first that is full
    partly = min(max(col - offset - 1, empty), row)
    return (partly - empty) * (2 * offset + 1 + empty + partly) // 2 + (row - partly) * col


def _triangle_indices(
    name: str, row: int, col: int, dtype: Any, device: Any, count: int, keep: Callable[[], tuple[Any, Any]]
) -> Tensor:
    for word, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{word} must be non-negative, got{n}")
    sp = _spec(name, (2, 0), dtypes.int64 if dtype is None else dtype, device, False)
    if sp.dtype not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(f"\"{name}\" not implemented for '{sp.dtype.scalar_name}'")
    _spec(name, (2, count), sp.dtype, device)
    return from_array(np.stack(keep()).astype(sp.dtype.np))


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    return _triangle_indices(
        "tril_indices",
        row,
        col,
        dtype,
        device,
        _below(row, col, offset),
        lambda: np.tril_indices(row, offset, col),
    )


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    return _triangle_indices(
        "triu_indices",
        row,
        col,
        dtype,
        device,
        row * col - _below(row, col, offset - 1),
        lambda: np.triu_indices(row, offset, col),
    )


def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    if out is not None:
        dtype = _of_out("eye", out, dtype)
    m = n if m is None else m
    if n < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {n}")
    if m < 0:
        raise RuntimeError(f"m must be greater or equal to 0, got {m}")
    t = _zeros(_spec("eye", (n, m), dtype, device, requires_grad))
    if n and m:
        t._host()[builtins.range(min(n, m)), builtins.range(min(n, m))] = 1
    return _finish(t, requires_grad, out)


# ---------------------------------------------------------------- random


def generator_of(generator: Any) -> _random.Generator:
    """The generator to draw from, if a vmap that is running allows to."""
    for level in state.levels:
        if level.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
                "flags on vmap or perform the randomness operation out of vmap"
            )
    return _random.default_generator if generator is None else generator


def per_example(make: Callable[[tuple[int, ...]], Tensor], shape: Sequence[int]) -> Tensor:
    """What `make` gives of a shape; in a vmap whose examples are to have different random numbers, one for each example."""
    levels = [level for level in state.levels if level.randomness == "different"]
    t = make((*[level.size for level in levels], *shape))
    for level in levels:
        t = batched(t, level)
    return t


def _drawn(sp: Spec, generator: Any, draw: Callable[[Any, int, _dtype], Any]) -> Tensor:
    """A tensor of what `draw(generator, n, dtype)` gives, as bytes."""
    if not state.levels:
        gen = _random.default_generator if generator is None else generator
        return wrap(draw(gen, sp.numel, sp.dtype), sp)
    gen = generator_of(generator)
    return per_example(lambda shape: wrap(draw(gen, prod(shape), sp.dtype), sp.like(shape)), tuple(sp.shape))


@_of_sizes(lambda t: _random.few_units(t._spec))
def rand(
    *sizes: Any,
    size: Any = None,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    if out is not None:
        sp = _spec("rand", sizes if size is None else (size,), _of_out("rand", out, dtype), device)
        return _finish(_sized(out, sp.shape).uniform_(generator=generator), requires_grad)
    t = _drawn(
        _spec("rand", sizes if size is None else (size,), dtype, device, requires_grad),
        generator,
        _random.units,
    )
    return _finish(t, requires_grad) if requires_grad else t


@_of_sizes(lambda t: _random.few_normals(t._spec))
def randn(
    *sizes: Any,
    size: Any = None,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    if out is not None:
        sp = _spec("randn", sizes if size is None else (size,), _of_out("randn", out, dtype), device)
        return _finish(_sized(out, sp.shape).normal_(generator=generator), requires_grad)
    t = _drawn(
        _spec("randn", sizes if size is None else (size,), dtype, device, requires_grad),
        generator,
        _random.normals,
    )
    return _finish(t, requires_grad) if requires_grad else t


def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    if out is not None:
        dtype = _of_out("randint", out, dtype)
    if size is None:
        low, high, size = 0, low, high
    elif low is None:
        low = 0
    elif high is None:
        low, high = 0, low
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    sp = _spec("randint", (size,), dtypes.int64 if dtype is None else dtype, device, requires_grad)

    def draw(gen: Any, n: int, d: _dtype) -> Any:
        return _random.randint(gen, low, high, n, d).view(np.uint8)

    if out is not None:
        return _finish(_sized(out, sp.shape).random_(low, high, generator=generator), requires_grad)
    return _finish(_drawn(sp, generator, draw), requires_grad)


def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    if out is not None:
        dtype = _of_out("randperm", out, dtype)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    gen = generator_of(generator)

    def orders(shape: tuple[int, ...]) -> Tensor:
        return from_array(
            np.stack([_random.randperm(gen, n) for _ in builtins.range(prod(shape[:-1]))]).reshape(shape)
        )

    t = per_example(orders, (n,))
    d = dtypes.int64 if dtype is None else dtypes.to_dtype(dtype)
    return _finish(t if d is t.dtype else to_dtype(t, d), requires_grad, out)


def _draws_where_they_lie(input: Tensor, memory_format: Any) -> bool:
    """Whether a tensor like this one is filled in the order of its memory, which is not that of its elements."""
    if input._spec.contiguous or state.levels:
        return False
    return not _like(input, None, memory_format).contiguous


@_of_a_like(lambda t: _random.few_units(t._spec))
def rand_like(
    input: Tensor,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    if _draws_where_they_lie(input, memory_format):
        return _finish(empty_like(input, dtype=dtype).uniform_(generator=generator), requires_grad)
    return rand(input.shape, generator=generator, dtype=dtype or input.dtype, requires_grad=requires_grad)


@_of_a_like(lambda t: _random.few_normals(t._spec))
def randn_like(
    input: Tensor,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    if _draws_where_they_lie(input, memory_format):
        return _finish(empty_like(input, dtype=dtype).normal_(generator=generator), requires_grad)
    return randn(input.shape, generator=generator, dtype=dtype or input.dtype, requires_grad=requires_grad)


def randint_like(
    input: Tensor,
    low: Any = None,
    high: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    low, high = (0, low if high is None else high) if low is None or high is None else (low, high)
    low, high = int(low), int(high)
    if _draws_where_they_lie(input, memory_format) and low < high:
        return _finish(empty_like(input, dtype=dtype).random_(low, high, generator=generator), requires_grad)
    dtype = dtype or input.dtype
    return randint(low, high, input.shape, generator=generator, dtype=dtype, requires_grad=requires_grad)


# ---------------------------------------------------------------- methods


def _new(name: str, function: Any) -> None:
    def new_one(
        self: Tensor,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **rest: Any,
    ) -> Tensor:
        t = function(*args, dtype=self.dtype if dtype is None else dtype, **rest)
        return _finish(_own(self, t), requires_grad)

    new_one.__name__ = f"new_{name}"
    setattr(Tensor, f"new_{name}", new_one)


for _name, _function in dict(
    zeros=zeros, ones=ones, empty=empty, full=full, empty_strided=empty_strided
).items():
    _new(_name, _function)


def _new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    return _finish(_from_data(data, self.dtype if dtype is None else dtype), requires_grad)


Tensor.new_tensor = _new_tensor  # type: ignore[attr-defined]


def _of_old(d: _dtype, args: Sequence[Any]) -> Tensor:
    """What PyTorch's old constructors make of sizes, of a tensor or storage, whose memory they share, or of data."""
    first = args[0] if len(args) == 1 else args
    sizes = not args or (
        hasattr(args[0], "__index__") and not isinstance(args[0], (builtins.bool, Tensor, np.ndarray))
    )
    if sizes or isinstance(first, _layout.Size):
        return empty(*[operator.index(n) if hasattr(n, "__index__") else n for n in args or (0,)], dtype=d)
    if isinstance(first, Tensor):
        if first.dtype is not d:
            options = (
                ", device=cpu, layout=Strided, requires_grad=false (default), pinned_memory=false (default), "
            )
            options += "memory_format=(nullopt))"
            raise TypeError(
                f"expected TensorOptions(dtype={d.c_name}{options} (got TensorOptions(dtype={first.dtype.c_name}{options})"
            )
        return first.detach()
    if isinstance(first, UntypedStorage):
        return empty(0, dtype=d).set_(first)
    if not _is_sequence(first) and not isinstance(first, (np.ndarray, np.generic)):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    return _from_data(first, d)


def _construct(cls: type, *args: Any, device: Any = None, dtype: Any = None) -> Any:
    """`torch.Tensor(sizes...)`, `torch.Tensor(data)`: the old constructor, of the default dtype."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return as_subclass(args[0].detach(), cls)
    return as_subclass(_of_old(get_default_dtype(), args), cls)


def _new_of_old(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """`x.new(sizes...)`, `x.new(data)`: the same, of the tensor's dtype."""
    return _of_old(self.dtype, args if size is None else (_layout.Size(size),))


Tensor.new = _new_of_old  # type: ignore[attr-defined]


def as_subclass(t: Tensor, cls: type) -> Any:
    """The same memory and history as an instance of a subclass."""
    if cls is Tensor:
        return t
    out = _core.new(cls)
    for slot in ("_buf", "_spec", "_storage", "_view", "_ad", "_nr", "_rg", "_node"):
        setattr(out, slot, getattr(t, slot))
    return out


def _as_subclass(self: Tensor, cls: type) -> Any:
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class inherits "
            "from Tensor."
        )
    return as_subclass(_core.hooks.alias(self), cls)


Tensor.as_subclass = _as_subclass  # type: ignore[attr-defined]
_core.construct = _construct


class _Typed(type):
    """`torch.ByteTensor` and its like: they make tensors of one dtype, and say of a tensor whether it is one."""

    dtype: _dtype

    def __call__(cls, *args: Any) -> Tensor:
        return _of_old(cls.dtype, args)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{cls.dtype.type_name}'>"


(
    ByteTensor,
    CharTensor,
    ShortTensor,
    IntTensor,
    LongTensor,
    BoolTensor,
    HalfTensor,
    FloatTensor,
    DoubleTensor,
) = (
    _Typed(f"{d.scalar_name}Tensor", (), {"dtype": d})
    for d in (
        *(dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.bool_),
        *(dtypes.float16, dtypes.float32, dtypes.float64),
    )
)


def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    if type(self._buf) is Batched:
        inner, place = self._buf.inner, self._buf.level.index + 1
        kind = (
            f"BatchedTensor(lvl={place}, bdim=0" if self._buf.has else f"BatchedTensor(lvl={place}, bdim=None"
        )
        return f"{kind}, value=\n    " + repr(inner).replace("\n", "\n    ") + "\n)"
    return printing.tensor_repr(self)


Tensor.__repr__ = Tensor.__str__ = _repr  # type: ignore[method-assign, assignment]

__all__ = [
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "range",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]
