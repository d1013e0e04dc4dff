"""Tensors that are trained.

Promises modules that a `Parameter` can be told from any other tensor by its class, and that whatever is computed from
one is a plain Tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Self

from nbgrad.core import overrides
from nbgrad.core.signatures import kind_name
from nbgrad.core.tensor import Tensor, set_requires_grad
from nbgrad.exchange import classes
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Spec
from nbgrad.ops.make.constructors import as_subclass
from nbgrad.ops.make.filled import empty


class _ParameterType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        """A parameter of a class that overrides functions stays of that class, with a mark, as in PyTorch."""
        if cls is Parameter and isinstance(instance, Tensor) and instance.__dict__.get("_is_param", False):
            return True
        return super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_ParameterType):
    """A leaf that shares the memory of `data` and requires grad unless told otherwise. Assigned to a module, it is one of its
    `parameters()`.

    >>> nn.Parameter(torch.tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = overrides.disabled
    _is_param = True  # as PyTorch marks those of other classes, by which they print

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        kind = type(data)
        of_its_own = (
            kind is not Tensor and data is not None and (overrides.overrides(kind) or overrides.takes(kind))
        )
        if of_its_own or hasattr(data, "_held"):
            return _marked(data, requires_grad)
        t: Any = as_subclass(empty(0) if data is None else data.detach(), cls)
        if not isinstance(requires_grad, bool):
            named = kind_name(requires_grad)  # type: ignore[unreachable]
            raise TypeError(
                f"_make_subclass(): argument 'require_grad' (position 3) must be bool, not {named}"
            )
        if requires_grad:
            set_requires_grad(
                t, True, "Only Tensors of floating point and complex dtype can require gradients"
            )
        return t

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Its values and whether it requires grad, as PyTorch copies; neither gradient nor attributes."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)


def _marked(data: Any, requires_grad: bool) -> Any:
    """A parameter of a class that overrides functions, or that holds its values as a sparse tensor does, stays of that class."""
    t = data.detach().requires_grad_(requires_grad)
    if type(t) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an instance "
            f"of the same type, but return type {type(t).__name__} was found instead. To use the type as a Parameter, please "
            "correct the detach() semantics defined by its __torch_dispatch__() implementation."
        )
    t._is_param = True
    return t


classes.known["parameter"] = Parameter
overrides.plain_types.add(Parameter)


class _BufferType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        """A buffer is a plain tensor with a mark, as in PyTorch."""
        return isinstance(instance, Tensor) and instance.__dict__.get("_is_buffer", False)


class Buffer(metaclass=_BufferType):
    """A tensor that a module is to keep without training it: assigned to one, it is registered, and with `persistent` (the default)
    state dicts hold it.

    >>> module = nn.Module()
    >>> module.mean = nn.Buffer(torch.zeros(2))
    >>> dict(module.named_buffers())
    {'mean': tensor([0., 0.])}
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        t: Any = empty(0) if data is None else data.detach().requires_grad_(data.requires_grad)
        t.persistent, t._is_buffer = persistent, True
        return t


class _Waiting(Spec):
    """What is known of a tensor that has no shape yet: who asks for it is told so, be it the first look of any function."""

    __slots__ = ()

    def __init__(self, like: Spec, kind: str) -> None:
        for slot in Spec.__slots__:
            vars(Spec)[slot].__set__(self, kind if slot == "read" else getattr(like, slot))


def _called() -> str:
    """The method of users' that is running, from within what it calls."""
    frame: Any = sys._getframe(2)
    name = "__get__"
    while frame is not None and frame.f_globals.get("__name__", "nbgrad.").startswith("nbgrad."):
        found = frame.f_code.co_name.removeprefix("_t_")
        name = found if hasattr(Tensor, found) and not found.startswith("_") else name
        frame = frame.f_back
    return name


def _refuse(self: _Waiting) -> Any:
    raise ValueError(
        f"Attempted to use an uninitialized parameter in <method '{_called()}' of 'torch._C.TensorBase' objects>. This error "
        "happens when you are using a `LazyModule` or explicitly manipulating `torch.nn.parameter."
        f"{_known('read', self)}` objects. When using LazyModules Call `forward` with a dummy batch to initialize the parameters "
        "before calling torch functions"
    )


def _known(slot: str, waiting: Spec) -> Any:
    return vars(Spec)[slot].__get__(waiting)


for _slot in (
    "canonical",
    "contiguous",
    "extent",
    "ndim",
    "numel",
    "plain",
    "read",
    "repeats",
    "shape",
    "strides",
):
    setattr(_Waiting, _slot, property(_refuse))


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet: until `materialize` tells it, of its properties only dtype and device are there."""

    cls_to_become: type
    __torch_function__ = overrides.disabled

    @property
    def data(self: Any) -> Tensor:
        return empty(0, dtype=self.dtype, device=self.device)

    @data.setter
    def data(self: Any, value: Tensor) -> None:
        self._spec = _known("plain", self._spec)
        Tensor.data.fset(self, value)  # type: ignore[attr-defined]
        self._wait()

    @property
    def ndim(self) -> int:
        return 1

    def _wait(self: Any) -> None:
        self._spec = _Waiting(self._spec, type(self).__name__)

    def materialize(
        self: Any, shape: int | Sequence[int], device: Device | None = None, dtype: dtype | None = None
    ) -> None:
        """Become a tensor of this shape, whose numbers nobody has set.

        >>> p = nn.parameter.UninitializedParameter()
        >>> p.materialize((2, 3))
        >>> type(p).__name__, p.shape
        ('Parameter', torch.Size([2, 3]))
        """
        own = self._spec = _known("plain", self._spec)
        self.__class__ = self.cls_to_become
        self.data = empty(shape, device=own.device if device is None else device, dtype=dtype or own.dtype)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` when "
            "trying to load an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before "
            "accessing their attributes."
        )

    def share_memory_(self) -> Any:
        """Refused: there is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters before calling "
            "`module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)


def _of_nothing(name: str) -> Any:
    """What PyTorch lets be asked of one, which is answered as of a tensor without elements."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        held = self.data
        made = getattr(held, name)(*args, **kwargs)
        return self if made is held else made

    method.__name__ = name
    return method


for _name in (
    *("bfloat16", "char", "cpu", "cuda", "double", "float", "get_device", "half", "int", "is_floating_point"),
    *("long", "short", "size", "to", "type"),
):
    setattr(UninitializedTensorMixin, _name, _of_nothing(_name))


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer waits for its shape.

    >>> nn.parameter.is_lazy(nn.LazyLinear(2).weight)
    True
    """
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]  # __repr__ is the mixin's
    """A parameter of a module that has not seen an input yet, by which its shape is decided.

    >>> nn.LazyLinear(2).weight
    <UninitializedParameter>
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Device | None = None, dtype: dtype | None = None
    ) -> Self:
        t: Any = super().__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)
        t._wait()
        return t

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self._spec.device, self._spec.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of such a module.

    >>> nn.LazyBatchNorm1d().running_mean
    <UninitializedBuffer>
    """

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Device | None = None,
        dtype: dtype | None = None,
        persistent: bool = True,
    ) -> Self:
        t: Any = as_subclass(empty(0, device=device, dtype=dtype), cls)
        t.persistent, t._is_buffer = persistent, True
        t._wait()
        return t

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(False, self._spec.device, self._spec.dtype)
        return memo[id(self)]


__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]
