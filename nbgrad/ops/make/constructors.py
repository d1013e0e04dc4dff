"""Tensors made by a tensor or by its class: `new_*`, the typed classes, subclasses."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np

from nbgrad.base.warn import warn
from nbgrad.core import tensor as _core
from nbgrad.core.arguments import before_guard
from nbgrad.core.overrides import NOBODY, dispatch_disabled, note_instance, plain_types, switched
from nbgrad.core.signatures import Signature, _none_fits, kind_name
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.memory import backend, dtypes, gpu
from nbgrad.memory import layout as _layout
from nbgrad.memory.device import cpu, elsewhere
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.dtypes import get_default_dtype
from nbgrad.memory.storage import Batched, Marked, Nothing, Spec, spec
from nbgrad.ops.host import printing
from nbgrad.ops.host.storage import UntypedStorage
from nbgrad.ops.host.typed import TypedStorage
from nbgrad.ops.make.data import COPY_OF_A_TENSOR, _from_data, _is_sequence, _of_plain
from nbgrad.ops.make.factories import Function, _copies, _finish, _Given
from nbgrad.ops.make.filled import _own, empty, empty_strided, full, ones, zeros
from nbgrad.tape.modes import state


def _beside(like: Tensor, device: Any) -> Any:
    """Where what `like` makes anew is to be, which is where it is; None stands for the CPU while no thread has another default."""
    if device is not None:
        return device
    return None if like._spec.device is cpu and not elsewhere.threads else like._spec.device


def _of_few(valued: bool) -> Callable[[Function], Function]:
    """What few elements are made of by sizes alone, and a number if they are `valued`, is found again by the dtype that they take over."""

    def before(slow: Function) -> Function:
        known = _Given(_copies)
        find = known.get

        def short(self: Tensor, *args: Any, **more: Any) -> Tensor:
            if more or len(args) <= valued or type(self) is not Tensor or state.levels:
                return slow(self, *args, **more)
            size: Any = args[0] if isinstance(args[0], tuple) else args
            kind = args[-1].__class__ if valued else None
            if len(args) > 1 + valued and size is not args:
                return slow(self, *args)
            # Zeros are left out: 0.0 is -0.0.
            if valued and (size is args or (kind is not float and kind is not int) or not args[1]):
                return slow(self, *args)
            for n in size:
                if n.__class__ is not int:
                    return slow(self, *args)
            sp = self._spec
            if sp.__class__ is not Spec or sp.backend is not backend.cpu:
                return slow(self, *args)
            key = (sp.dtype, kind, *args[1:], *size) if valued else (sp.dtype, *size)
            found = find(key)
            if found is None:
                return known.learn(key, slow(self, *args))
            return wrap(found[0](), found[1])

        return short

    return partial(before_guard, before)


def _new(name: str, function: Any) -> None:
    def new_one(
        self: Tensor,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        **rest: Any,
    ) -> Tensor:
        where = _beside(self, device)
        if where is not None:
            rest["device"] = where
        t = function(*args, dtype=self.dtype if dtype is None else dtype, **rest)
        t = _own(self, t)
        return _finish(_core.hooks.pinned(t) if pin_memory else t, requires_grad)

    new_one.__name__ = f"new_{name}"
    words = "in the dtype and on the device of this tensor, unless `dtype` or `device` says another."
    new_one.__doc__ = f"`{name}` {words}\n\n    {function.__doc__}"
    made: Any = new_one
    if name != "empty_strided":
        made = _of_few(name == "full")(new_one)
    setattr(Tensor, f"new_{name}", made)


for _name, _function in dict(
    zeros=zeros, ones=ones, empty=empty, full=full, empty_strided=empty_strided
).items():
    _new(_name, _function)


def _new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`, as `tensor` makes one, in the dtype and on the device of this one, unless `dtype` or `device`
    says another.

    >>> torch.ones(1, dtype=torch.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=torch.float64)
    """
    if isinstance(data, Tensor):
        warn(COPY_OF_A_TENSOR.format("tensor.new_tensor"))
    d = self._spec.dtype if dtype is None else dtype
    t = _of_plain(data, d)
    if t is None:
        t = _from_data(data, d)
    where = _beside(self, device)
    return _finish(t if where is None else t.to(where), requires_grad)


Tensor.new_tensor = _new_tensor  # type: ignore[assignment, method-assign]


_OLD_FORMS = (
    "*, device device=None",
    "Storage storage",
    "Tensor other",
    "ints size, *, device device=None",
    "object data, *, device device=None",
)


def _of_old(d: _dtype, args: Sequence[Any]) -> Tensor:
    """What PyTorch's old constructors make of sizes, of a tensor or storage, whose memory they share, or of data."""
    first = args[0] if len(args) == 1 else args
    sizes = not args or (
        hasattr(args[0], "__index__") and not isinstance(args[0], (builtins.bool, Tensor, np.ndarray))
    )
    if isinstance(first, _layout.Size):
        return empty(first, dtype=d)
    if sizes:
        for k, n in enumerate(args):
            if not hasattr(n, "__index__"):
                raise TypeError(
                    f"new(): argument 'size' failed to unpack the object at pos {k + 1} with error \"type must be tuple of ints,"
                    f'but got {kind_name(n)}"'
                )
        return empty(*[operator.index(n) for n in args or (0,)], dtype=d)
    if len(args) > 1:
        raise TypeError(_none_fits([Signature("new", form) for form in _OLD_FORMS], tuple(args), {}))
    if isinstance(first, Tensor):
        if first._spec.dtype is not d:
            raise _not_so(d, first.device.type, first)
        return _shared(first)
    if isinstance(first, (UntypedStorage, TypedStorage)):
        if isinstance(first, TypedStorage) and first.dtype is not d:
            raise RuntimeError(
                f"Expected a Storage of type {d.scalar_name} or an UntypedStorage, but got type {first.dtype.scalar_name} for argument 1 "
                "'storage'"
            )
        return empty(0, dtype=d).set_(first)
    if not _is_sequence(first) and not isinstance(first, (np.ndarray, np.generic)):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    plain = _of_plain(first, d)
    return _from_data(first, d) if plain is None else plain


def _shared(t: Tensor) -> Tensor:
    """The same memory and history as a plain tensor."""
    _need_memory(t)
    with switched(NOBODY):
        return _core.hooks.alias(t)


def _need_memory(t: Tensor) -> None:
    if hasattr(t, "_held"):  # a sparse tensor and its like
        raise NotImplementedError(f"Cannot access storage of {type(t).__name__}Impl")


def _not_so(d: _dtype, kind: str, given: Tensor) -> TypeError:
    """The refusal of a tensor of another dtype, or elsewhere."""
    rest = "layout=Strided, requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))"
    want, got = (
        f"TensorOptions(dtype={has.c_name}, device={place}, {rest}"
        for has, place in ((d, kind), (given.dtype, given.device.type))
    )
    return TypeError(f"expected {want} (got {got})")


def _check_place(expected: _device, device: Any) -> None:
    if device is not None and _device(device).type != expected.type:
        raise RuntimeError(
            f"legacy constructor expects device type: {expected.type} but device type: {_device(device).type} was passed"
        )


def _construct(cls: type, *args: Any, device: Any = None, dtype: Any = None) -> Any:
    """`torch.Tensor(sizes...)`, `torch.Tensor(data)`: the old constructor, of the default dtype."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        if device is not None:
            raise RuntimeError(
                "Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not supported.  Use torch.tensor(...) or "
                "torch.as_tensor(...) instead."
            )
        return as_subclass(_shared(args[0]), cls)
    _check_place(cpu, device)
    return as_subclass(_of_old(get_default_dtype(), args), cls)


def _new_of_old(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """The old form of the `new_*` methods: `new(sizes...)` is without values, `new(data)` a copy of sequences, in the dtype of this tensor.

    >>> torch.ones(1, dtype=torch.int32).new([1, 2])
    tensor([1, 2], dtype=torch.int32)
    """
    if device is not None and len(args) == 1 and isinstance(args[0], Tensor):
        raise RuntimeError(
            "Legacy tensor new of the form tensor.new(tensor, device=device) is not supported.  Use torch.as_tensor(...) instead."
        )
    _check_place(self._spec.device, device)
    t = _of_old(self.dtype, args if size is None else (_layout.Size(size),))
    return t if t._spec.device is self._spec.device else t.to(self._spec.device)


Tensor.new = _new_of_old  # type: ignore[assignment, method-assign]


def as_subclass(t: Tensor, cls: type) -> Any:
    """The same memory and history as an instance of a subclass."""
    if cls is Tensor:
        return t
    out: Any = _core.new(cls)
    out._buf, out._spec, out._storage, out._view = t._buf, t._spec, t._storage, t._view
    out._ad, out._nr, out._rg, out._node = t._ad, t._nr, t._rg, t._node
    note_instance(out)
    return out


def _as_subclass(self: Tensor, cls: type) -> Any:
    """The same memory and history as an instance of `cls`, a subclass of Tensor.

    >>> class Mine(torch.Tensor): pass
    >>> type(torch.ones(2).as_subclass(Mine)).__name__
    'Mine'
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class inherits "
            "from Tensor."
        )
    _need_memory(self)
    return as_subclass(_core.hooks.alias(self), cls)


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """The memory of `data` as a new leaf of a subclass.

    >>> class Mine(torch.Tensor): pass
    >>> torch.Tensor._make_subclass(Mine, torch.ones(2), True)
    Mine([1., 1.], requires_grad=True)
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not isinstance(data, Tensor):
        raise TypeError(
            f"_make_subclass(): argument 'data' (position 2) must be Tensor, not {type(data).__name__}"
        )
    if not isinstance(require_grad, builtins.bool):
        raise TypeError(
            f"_make_subclass(): argument 'require_grad' (position 3) must be bool, not {type(require_grad).__name__}"
        )
    _need_memory(data)
    out = as_subclass(_core.wrap(data._buf, data._spec.plain), cls)
    out._storage = _core.storage_of(data)
    if require_grad:
        words = "Only Tensors of floating point and complex dtype can require gradients"
        _core.set_requires_grad(out, True, words)
    return out


def _make_wrapper_subclass(
    cls: type,
    size: Any,
    strides: Any = None,
    storage_offset: Any = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: Any = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: Any = None,
) -> Any:
    """A tensor of a class with `__torch_dispatch__`, with a shape, a dtype and a device and without memory: the class answers for
    whatever is done with it, mostly by means of tensors that it holds as attributes.

    >>> class Wrapper(torch.Tensor):
    ...     @staticmethod
    ...     def __new__(cls, inner): return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
    ...     def __init__(self, inner): self.inner = inner
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    ...         return func(*[a.inner if isinstance(a, cls) else a for a in args], **(kwargs or {}))
    >>> Wrapper(torch.ones(2)) + 1
    tensor([2., 2.])
    """
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if getattr(cls, "__torch_dispatch__", dispatch_disabled) is dispatch_disabled:
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    sizes = tuple([int(n) for n in size])
    lies = None if strides is None else tuple([int(n) for n in strides])
    if lies is None and memory_format is not None and memory_format is not _layout.contiguous_format:
        lies = _layout.format_strides(sizes, memory_format)
    where = spec(dtype or get_default_dtype(), sizes, lies, cpu if device is None else _device(device))
    out = as_subclass(_core.wrap(Nothing(), Marked(where)), cls)
    if requires_grad:
        _core.set_requires_grad(
            out, True, "Only Tensors of floating point and complex dtype can require gradients"
        )
    return out


Tensor.as_subclass = _as_subclass  # type: ignore[assignment, method-assign]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)  # type: ignore[attr-defined]
_core.construct = _construct


class _Typed(type):
    """`torch.ByteTensor` and its like: they make tensors of one dtype on one kind of device, and say of a tensor whether it is one."""

    dtype: _dtype
    place: _device

    @property
    def is_cuda(cls) -> builtins.bool:
        return cls.place.type == "cuda"

    @property
    def type_name(cls) -> str:
        """What `Tensor.type()` says of one."""
        return f"torch.{'cuda.' * cls.is_cuda}{cls.__name__}"

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        need_place(cls)
        _check_place(cls.place, device)
        if not cls.is_cuda:
            return _of_old(cls.dtype, args)
        if len(args) == 1 and isinstance(args[0], Tensor) and not args[0].is_cuda:
            raise _not_so(cls.dtype, "cuda", args[0])
        where = cls.place if device is None else _device(device)
        with where:
            made = _of_old(cls.dtype, args)
        return made if made.is_cuda else made.to(where)  # what was data

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.type() == cls.type_name

    def __repr__(cls) -> str:
        return f"<class '{cls.type_name}'>"


def need_place(kind: _Typed) -> None:
    """Refuse the type of a device that is not there."""
    if kind.is_cuda and not gpu.device_count():
        raise TypeError(f"type {kind.type_name} not available. Torch not compiled with CUDA enabled.")


_OLD_TYPE = """The old constructor of one dtype: of sizes it makes a tensor without values, of sequences a copy, of a tensor one that shares
    its memory. `isinstance` asks whether a tensor has that dtype, and is where the type says.

    >>> torch.LongTensor([1, 2]), isinstance(torch.tensor([1, 2]), torch.LongTensor)
    (tensor([1, 2]), True)
    """
_OLD = (
    *(dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.bool_),
    *(dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64),
)


def _typed(d: _dtype, place: _device) -> _Typed:
    where = "nbgrad" if place is cpu else f"nbgrad.{place.type}"
    return _Typed(
        f"{d.scalar_name}Tensor", (), {"dtype": d, "place": place, "__module__": where, "__doc__": _OLD_TYPE}
    )


(
    ByteTensor,
    CharTensor,
    ShortTensor,
    IntTensor,
    LongTensor,
    BoolTensor,
    HalfTensor,
    BFloat16Tensor,
    FloatTensor,
    DoubleTensor,
) = (_typed(d, cpu) for d in _OLD)
of_cuda = tuple([_typed(d, _device("cuda")) for d in _OLD])
every: dict[str, _Typed] = {
    made.type_name: made for made in (*globals().copy().values(), *of_cuda) if isinstance(made, _Typed)
}


def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    if type(self._buf) is Batched:
        inner, place = self._buf.inner, self._buf.level.index + 1
        kind = (
            f"BatchedTensor(lvl={place}, bdim=0" if self._buf.has else f"BatchedTensor(lvl={place}, bdim=None"
        )
        return f"{kind}, value=\n{indent(repr(inner), '    ')}\n)"
    if type(self) in plain_types:
        return printing.tensor_repr(self, given=tensor_contents)
    text = printing.tensor_repr(self, type(self).__name__, tensor_contents)
    return f"Parameter({text})" if getattr(self, "_is_param", False) else text


Tensor.__repr__ = _repr  # type: ignore[method-assign, assignment]


__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]
