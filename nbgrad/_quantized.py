"""Quantised tensors: few whole numbers that stand for real ones, `(number - zero_point) * scale`.

Promises that what a tensor holds are its whole numbers (`int_repr`), so that what moves elements moves these, and that it has no gradients,
as in PyTorch: training goes by `fake_quantize_per_tensor_affine` and its like. A scale and a zero point serve all elements (`Whole`), or
those at each place along a dimension (`Channels`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from nbgrad._holding import Forms, Holding, complete, held_in, history, naming
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.layout import wrap_dim
from nbgrad.nn import functional as F
from nbgrad.ops.host import printing
from nbgrad.ops.make.data import tensor
from nbgrad.ops.views import join
from nbgrad.ops.views.copy import to_dtype


class qscheme:
    """How whole numbers stand for real ones, such as `torch.per_tensor_affine`."""

    __module__ = "nbgrad"

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


per_tensor_affine, per_tensor_symmetric = qscheme("per_tensor_affine"), qscheme("per_tensor_symmetric")
per_channel_affine, per_channel_symmetric = qscheme("per_channel_affine"), qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")

# Each with the dtype of its whole numbers.
_KINDS = {"quint8": dtypes.uint8, "qint8": dtypes.int8, "qint32": dtypes.int32}


class Whole(NamedTuple):
    """One scale and zero point for all elements."""

    scale: float
    zero: int

    @property
    def scheme(self) -> qscheme:
        return per_tensor_affine

    def told(self) -> list[str]:
        return [f"scale={self.scale}", f"zero_point={self.zero}"]

    def of(self, ndim: int) -> tuple[Any, Any]:
        return float(np.float32(self.scale)), self.zero


class Channels(NamedTuple):
    """One for each place along a dimension."""

    scales: Tensor
    zeros: Tensor
    axis: int

    @property
    def scheme(self) -> qscheme:
        return per_channel_affine

    def told(self) -> list[str]:
        return [f"scale={self.scales!r}", f"zero_point={self.zeros!r}", f"axis={self.axis}"]

    def of(self, ndim: int) -> tuple[Any, Any]:
        shape = [-1 if d == self.axis else 1 for d in range(ndim)]
        return self.scales.float().reshape(shape), self.zeros.reshape(shape)


class QuantizedTensor(Holding):
    """What `torch.quantize_per_tensor` makes. To programs it is a `torch.Tensor` of dtype `torch.quint8`, `torch.qint8` or
    `torch.qint32`.

    >>> q = torch.quantize_per_tensor(torch.tensor([0.0, 0.5, 1.3]), 0.5, 10, torch.quint8)
    >>> q.int_repr(), q.dequantize()
    (tensor([10, 11, 13], dtype=torch.uint8), tensor([0.0000, 0.5000, 1.5000]))
    """

    __slots__ = ("_kind", "_quantizer")
    _kind: Any
    _quantizer: Any
    dtype = property(lambda self: self._kind, doc="`torch.quint8`, `torch.qint8` or `torch.qint32`.")
    is_quantized = property(lambda self: True, doc="Whether the tensor is quantised: it is.")
    layout = property(lambda self: self._held.layout, doc="How elements are stored.")

    def with_values(self, values: Tensor, quantizer: Any = None) -> QuantizedTensor:
        """Other whole numbers that stand for real ones in the same way."""
        return quantized(values, self._kind, quantizer or self._quantizer)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        real = dequantize(self)
        shown = printing.contents(real, len("tensor(")) if real.numel() else "[]"
        told = [f"size={tuple(self.shape)}", f"dtype={self.dtype}"]
        told += [f"quantization_scheme={self._quantizer.scheme}", *self._quantizer.told()]
        return printing.add_suffixes(f"tensor({shown}", told, len("tensor("))

    __str__ = __repr__

    def __reduce_ex__(self, protocol: Any) -> Any:
        return quantized, (self._held, self._kind, self._quantizer)


def quantized(values: Tensor, kind: Any, quantizer: Any) -> QuantizedTensor:
    """Whole numbers as what they stand for."""
    made = held_in(QuantizedTensor, values, tuple(values.shape))
    made._kind, made._quantizer = kind, quantizer
    return made


def _whole_dtype(d: Any, name: str) -> Any:
    found = _KINDS.get(getattr(d, "name", ""))
    if found is None:
        raise RuntimeError(f"ScalarType {d.scalar_name} is not supported in {name}.")
    return found


def _bounds(d: Any) -> tuple[int, int]:
    info = dtypes.iinfo(_KINDS[d.name])
    return info.min, info.max


def _numbers(input: Tensor, kind: Any, quantizer: Any) -> Tensor:
    """The whole numbers nearest to real ones, halves to even ones. What is no number is the largest."""
    scale, zero = quantizer.of(input.ndim)
    low, high = _bounds(kind)
    inverse = 1 / scale if isinstance(scale, Tensor) else float(np.float32(1) / np.float32(scale or np.inf))
    near = (input.detach() * inverse + zero).round().double()
    return to_dtype(near.nan_to_num(nan=high, posinf=high, neginf=low).clamp(low, high), _KINDS[kind.name])


def _need_floats(input: Tensor) -> None:
    if input.dtype is not dtypes.float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {input.dtype.scalar_name}")


def _check_zero(zero: int, kind: Any, what: str) -> None:
    low, high = _bounds(kind)
    for beyond, side in ((zero > high, "above upper"), (zero < low, "below lower")):
        if beyond:
            raise RuntimeError(f"{what} zero_point {zero} is {side} bound.")


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """Real numbers as the nearest `(number - zero_point) * scale` of whole ones of `dtype`. Several tensors have each its own scale.

    >>> torch.quantize_per_tensor(torch.tensor([0.12, 0.26]), 0.1, 0, torch.qint8).dequantize()
    tensor([0.1000, 0.3000])
    """
    if isinstance(input, (list, tuple)):
        pairs = zip(input, scale.tolist(), zero_point.tolist())
        return tuple([quantize_per_tensor(t, s, z, dtype) for t, s, z in pairs])
    _whole_dtype(dtype, "new_qtensor")
    _need_floats(input)
    how = Whole(float(scale), int(zero_point))
    _check_zero(how.zero, dtype, "quantize_tensor_per_tensor_affine")
    return quantized(_numbers(input, dtype, how), dtype, how)


def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any) -> Tensor:
    """The same with a scale and a zero point for each place along `axis`.

    >>> x = torch.tensor([[0.12], [0.26]])
    >>> torch.quantize_per_channel(x, torch.tensor([0.1, 0.5]), torch.zeros(2).long(), 0, torch.qint8).dequantize()
    tensor([[0.1000],
            [0.5000]])
    """
    _whole_dtype(dtype, "new_qtensor")
    _need_floats(input)
    how = Channels(scales.detach().double(), zero_points.detach().long(), wrap_dim(axis, input.ndim))
    if scales.numel() != input.shape[how.axis]:
        raise RuntimeError(
            f"length of scales must equal to channel, expected {input.shape[how.axis]} got, {scales.numel()}"
        )
    if scales.numel() != zero_points.numel():
        raise RuntimeError("number of elements in scales and zero_points must match")
    return quantized(_numbers(input, dtype, how), dtype, how)


def _choose(low: float, high: float, least: int, most: int) -> tuple[float, int]:
    """A scale and a zero point by which whole numbers reach from `low` to `high`, and 0 exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / (most - least)
    if float(np.float32(scale)) == 0 or not np.isfinite(1 / np.float32(scale)):
        scale = 0.1
    by_low, by_high = [
        (abs(of) + abs(end / scale), of - end / scale) for of, end in ((least, low), (most, high))
    ]
    zero = by_low[1] if by_low[0] < by_high[0] else by_high[1]
    return scale, int(np.clip(np.rint(zero), least, most))


def _choose_qparams_per_tensor(input: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """The scale and the zero point by which `torch.quint8` reaches all of a tensor."""
    return _choose(float(input.min()), float(input.max()), 0, 127 if reduce_range else 255)


def quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> Tensor:
    """`quantize_per_tensor` with a scale and a zero point that reach all of the tensor; `reduce_range` leaves out a bit.

    >>> torch.quantize_per_tensor_dynamic(torch.tensor([-1.0, 0.0, 2.0]), torch.quint8, False).int_repr()
    tensor([  0,  85, 255], dtype=torch.uint8)
    """
    low, high = _bounds(dtype)
    if reduce_range:
        low, high = int(low / 2), high // 2
    scale, zero = _choose(float(input.min()), float(input.max()), low, high)
    found: Tensor = quantize_per_tensor(input, scale, zero, dtype)
    return found


def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """Whole numbers as those of a quantised tensor."""
    return quantized(input.clone(), _kind_of(input.dtype), Whole(float(scale), int(zero_point)))


def _make_per_channel_quantized_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> Tensor:
    """The same with a scale and a zero point for each place along `axis`."""
    return quantized(input.clone(), _kind_of(input.dtype), Channels(scale.double(), zero_point.long(), axis))


def _kind_of(d: Any) -> Any:
    return getattr(dtypes, next(name for name, whole in _KINDS.items() if whole is d))


def _empty_affine_quantized(
    size: Any, *, scale: float = 1.0, zero_point: int = 0, dtype: Any = None, **named: Any
) -> Tensor:
    """A quantised tensor of these sizes, with any numbers."""
    made = tensor(0, dtype=_whole_dtype(dtype, "empty_affine_quantized")).expand([*size]).clone()
    return quantized(made, dtype, Whole(float(scale), int(zero_point)))


# ---------------------------------------------------------------- what it is asked for

forms: Forms = dict(history)
form = naming(forms)


form("int_repr")(lambda input: input._held.clone())
form("qscheme")(lambda self: self._quantizer.scheme)


@form("dequantize")
def dequantize(tensor: Any) -> Tensor:
    """The real numbers that a quantised tensor stands for; of another one, itself.

    >>> torch.dequantize(torch.quantize_per_tensor(torch.tensor([0.26]), 0.1, 0, torch.qint8))
    tensor([0.3000])
    """
    if isinstance(tensor, (list, tuple)):
        return tuple([dequantize(t) for t in tensor])  # type: ignore[return-value]
    if not isinstance(tensor, QuantizedTensor):
        found: Tensor = tensor.float()
        return found
    scale, zero = tensor._quantizer.of(tensor.ndim)
    found = (tensor._held.long() - zero).float() * scale
    return found


def _of(kind: Any, name: str) -> Callable[[Any], Any]:
    def asked(input: Any) -> Any:
        if not isinstance(input._quantizer, kind):
            by = "quantizer->qscheme() == kPer"
            wanted = (
                f"{by}ChannelAffine || {by}ChannelAffineFloatQParams"
                if kind is Channels
                else f"{by}TensorAffine"
            )
            raise RuntimeError(
                f"Expected {wanted} to be true, but got false.  "
                "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
            )
        return getattr(input._quantizer, name)

    return asked


form("q_scale")(_of(Whole, "scale"))
form("q_zero_point")(_of(Whole, "zero"))
form("q_per_channel_scales")(_of(Channels, "scales"))
form("q_per_channel_zero_points")(_of(Channels, "zeros"))
form("q_per_channel_axis")(_of(Channels, "axis"))


def int_repr(input: Any) -> Tensor:
    """The whole numbers of a quantised tensor.

    >>> torch.int_repr(torch.quantize_per_tensor(torch.tensor([0.26]), 0.1, 0, torch.qint8))
    tensor([3], dtype=torch.int8)
    """
    found: Tensor = input.int_repr()
    return found


def q_scale(input: Any) -> float:
    """The scale of a quantised tensor that has one for all elements.

    >>> torch.q_scale(torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8))
    0.5
    """
    found: float = input.q_scale()
    return found


def q_zero_point(input: Any) -> int:
    """The zero point of a quantised tensor that has one for all elements.

    >>> torch.q_zero_point(torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8))
    1
    """
    found: int = input.q_zero_point()
    return found


def q_per_channel_scales(input: Any) -> Tensor:
    """The scales of a quantised tensor that has one for each channel.

    >>> q = torch.quantize_per_channel(torch.ones(2, 1), torch.tensor([0.5, 1.0]), torch.zeros(2).long(), 0, torch.qint8)
    >>> torch.q_per_channel_scales(q), torch.q_per_channel_axis(q)
    (tensor([0.5000, 1.0000], dtype=torch.float64), 0)
    """
    found: Tensor = input.q_per_channel_scales()
    return found


def q_per_channel_zero_points(input: Any) -> Tensor:
    """The zero points of a quantised tensor that has one for each channel.

    >>> q = torch.quantize_per_channel(torch.ones(2, 1), torch.tensor([0.5, 1.0]), torch.zeros(2).long(), 0, torch.qint8)
    >>> torch.q_per_channel_zero_points(q)
    tensor([0, 0])
    """
    found: Tensor = input.q_per_channel_zero_points()
    return found


def q_per_channel_axis(input: Any) -> int:
    """The dimension along which a quantised tensor has a scale for each place.

    >>> q = torch.quantize_per_channel(torch.ones(1, 2), torch.tensor([0.5, 1.0]), torch.zeros(2).long(), 1, torch.qint8)
    >>> torch.q_per_channel_axis(q)
    1
    """
    found: int = input.q_per_channel_axis()
    return found


_MOVING = """
    view reshape t transpose permute flatten ravel squeeze unsqueeze expand __getitem__ select narrow chunk split unbind index_select repeat
    masked_select flip roll swapaxes swapdims movedim
"""
_STAYING = "clone detach contiguous cpu cuda pin_memory"


def _move(name: str, uniform: bool) -> None:
    move = getattr(Tensor, name)

    def function(self: Any, *args: Any, **named: Any) -> Any:
        if uniform and isinstance(self._quantizer, Channels):
            return _of_channel(self, name, args)
        found = move(self._held, *args, **named)
        if isinstance(found, tuple):
            return tuple([self.with_values(one) for one in found])
        return self.with_values(found)

    form(name)(function)


def _of_channel(self: Any, name: str, args: Any) -> Any:
    """One channel by itself has one scale."""
    how = self._quantizer
    index = (
        args[0] if name == "__getitem__" else args[1] if name == "select" and args[0] == how.axis else None
    )
    if isinstance(index, int) and (name == "select" or how.axis == 0):
        own = Whole(float(np.float32(how.scales[index].item())), int(how.zeros[index].item()))
        return self.with_values(self._held.select(how.axis, index), own)
    raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")


for _name in _MOVING.split():
    _move(_name, True)
for _name in _STAYING.split():
    _move(_name, False)
form("__iter__")(lambda self: iter([forms["__getitem__"](self, k) for k in range(len(self._held))]))
form("__len__")(lambda self: len(self._held))
for _name in ("stride", "storage_offset", "is_contiguous", "data_ptr", "is_pinned", "is_shared"):
    form(_name)(lambda self, *args, name=_name, **named: getattr(self._held, name)(*args, **named))
form("element_size")(lambda self: self._held.element_size())


def _turned(name: str) -> property:
    return property(lambda self: self.with_values(getattr(self._held, name)), doc="With dimensions swapped.")


for _name in ("T", "mT"):
    setattr(QuantizedTensor, _name, _turned(_name))


def _joined(name: str) -> None:
    def function(tensors: Sequence[Any], dim: int = 0) -> Any:
        first = tensors[0]
        held = [
            t._held
            if t._quantizer == first._quantizer
            else _numbers(dequantize(t), first.dtype, first._quantizer)
            for t in tensors
        ]
        return first.with_values(getattr(join, name)(held, dim))

    form(name)(function)


_joined("cat")
_joined("stack")


def _of_numbers(name: str, *others: str, function: Callable[..., Any] | None = None) -> None:
    """What keeps the order of numbers is done to the whole ones."""
    dense = function or getattr(Tensor, name)

    def done(input: Any, *args: Any, **named: Any) -> Any:
        found = dense(input._held, *args, **named)
        if isinstance(found, tuple):
            return type(found)([input.with_values(found[0]), *found[1:]])
        return input.with_values(found)

    form(name, *others)(done)


for _name in ("max", "min", "sort", "topk"):
    _of_numbers(_name)


def _pooled(name: str) -> None:
    dense = getattr(F, name)

    def function(input: Any, *args: Any, **named: Any) -> Any:
        return input.with_values(to_dtype(dense(input._held.double(), *args, **named), input._held.dtype))

    form(name)(function)


for _name in ("max_pool1d", "max_pool2d", "max_pool3d"):
    _pooled(_name)


def _again(name: str, function: Callable[..., Any]) -> None:
    """What is computed with real numbers and rounded again."""

    def done(input: Any, *args: Any, **named: Any) -> Any:
        found = function(dequantize(input), *args, **named)
        return input.with_values(_numbers(found, input.dtype, input._quantizer))

    form(name)(done)


_ROUNDED = """
    relu relu6 hardtanh leaky_relu elu celu hardswish sigmoid tanh clamp interpolate upsample avg_pool2d avg_pool3d
    adaptive_avg_pool2d
"""
for _name in _ROUNDED.split():
    _again(_name, getattr(F, _name, None) or getattr(Tensor, _name))
_again("mean", Tensor.mean)
_again("masked_fill", Tensor.masked_fill)


def _real(t: Any) -> Any:
    return dequantize(t) if isinstance(t, QuantizedTensor) else t


def _compared(name: str) -> None:
    dense = getattr(Tensor, name)
    form(name)(lambda input, other: dense(_real(input), _real(other)))


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    _compared(_name)


@form("equal")
def equal(input: Any, other: Any) -> bool:
    same = isinstance(other, QuantizedTensor) and input.dtype is other.dtype
    if not same or type(input._quantizer) is not type(other._quantizer) or input.shape != other.shape:
        return False
    parts = zip(input._quantizer, other._quantizer)
    alike = all([bool((a == b).all()) if isinstance(a, Tensor) else a == b for a, b in parts])
    return alike and bool((input._held == other._held).all())


@form("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(self, QuantizedTensor):
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float Tensor from a "
            "quantized Tensor"
        )
    if isinstance(src, QuantizedTensor):
        self._held.copy_(src._held)
        self._quantizer = src._quantizer
    else:
        self._held.copy_(_numbers(src.expand(self.shape).float(), self.dtype, self._quantizer))
    return self


@form("fill_")
def fill_(self: Any, value: Any) -> Any:
    return copy_(self, tensor(float(value)))


@form("item")
def item(self: Any) -> float:
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    found: float = dequantize(self).item()
    return found


form("__float__")(item)
form("empty_like")(lambda input, **named: input.with_values(input._held.clone()))


@form("to", "float", "double", "half", "int", "long")
def to(self: Any, *args: Any, **named: Any) -> Any:
    kinds = [a for a in (*args, *named.values()) if isinstance(a, dtypes.dtype) and a is not self.dtype]
    if kinds or not (args or named):
        raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
    return self.with_values(self._held.to(*[a for a in args if a is not self.dtype]))


@form("type")
def type_(self: Any, dtype: Any = None, *args: Any) -> Any:
    if dtype is not None:
        return to(self, dtype)
    word = {"quint8": "QUInt8", "qint8": "QInt8", "qint32": "QInt32"}[self.dtype.name]
    return f"torch.quantized.{word}Tensor"


@form("requires_grad_")
def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    if requires_grad:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    return self


@form("numpy", "__array__")
def numpy(self: Any, *args: Any, **named: Any) -> NoReturn:
    word = type_(self).rpartition(".")[2].removesuffix("Tensor")
    raise TypeError(f"Got unsupported ScalarType {word}")


@form("tolist")
def tolist(self: Any) -> NoReturn:
    raise RuntimeError("load_scalar: invalid type")


complete(QuantizedTensor, forms, "QuantizedCPU")
