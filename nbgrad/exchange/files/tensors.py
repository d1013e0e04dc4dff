"""What stands for a tensor in a pickle, in PyTorch's words: how one is told, and the functions that make it again of what was told.

What a file says is not believed: sizes, strides and places are checked before memory is looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import prod
from pickle import UnpicklingError
from typing import Any

from nbgrad.core.tensor import Tensor, empty, set_requires_grad, storage_of, wrap
from nbgrad.exchange import classes
from nbgrad.memory import backend
from nbgrad.memory import dtypes as _dtypes
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import contiguous_strides
from nbgrad.memory.storage import Nothing, Storage, spec
from nbgrad.ops.host.typed import TypedStorage

# The dtypes of quantised tensors, each with that of its whole numbers.
WHOLE: dict[Any, dtype] = {
    _dtypes.quint8: _dtypes.uint8,
    _dtypes.qint8: _dtypes.int8,
    _dtypes.qint32: _dtypes.int32,
}


def told(t: Tensor, stored: Callable[[Storage, dtype, bool], Any]) -> tuple[Any, ...]:
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


def _state_of(t: Tensor) -> Any:
    """What a user has put on a tensor, as Python's own objects tell it."""
    if type(t).__getstate__ is not object.__getstate__:
        return t.__getstate__()
    slots = {name: getattr(t, name) for name in _own_slots(type(t)) if hasattr(t, name)}
    attributes = dict(t.__dict__)
    return (attributes, slots) if slots else attributes


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


_TENSORS = (rebuild_tensor, rebuild_tensor_of, rebuild_meta, rebuild_wrapper)
