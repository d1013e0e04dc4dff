"""Quantised tensors: few whole numbers that stand for real ones, `(number - zero_point) * scale`.

Promises that what a tensor holds are its whole numbers (`int_repr`), so that what moves elements moves these, and that it has no gradients,
as in PyTorch: training goes by `fake_quantize_per_tensor_affine` and its like. A scale and a zero point serve all elements (`Whole`), or
those at each place along a dimension (`Channels`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np

from nbgrad._holding import Forms, Holding, complete, held_in, history, naming
from nbgrad.core.tensor import Tensor
from nbgrad.exchange.files.tensors import WHOLE, rebuild_quantized
from nbgrad.exchange.schemes import per_channel_affine as per_channel_affine
from nbgrad.exchange.schemes import per_channel_affine_float_qparams as per_channel_affine_float_qparams
from nbgrad.exchange.schemes import per_channel_symmetric as per_channel_symmetric
from nbgrad.exchange.schemes import per_tensor_affine as per_tensor_affine
from nbgrad.exchange.schemes import per_tensor_symmetric as per_tensor_symmetric
from nbgrad.exchange.schemes import qscheme as qscheme
from nbgrad.memory import dtypes
from nbgrad.memory.layout import wrap_dim
from nbgrad.nn import functional as F
from nbgrad.ops.host import printing
from nbgrad.ops.host.typed import TypedStorage
from nbgrad.ops.make.data import tensor
from nbgrad.ops.views import join
from nbgrad.ops.views.copy import to_dtype

_KINDS = {kind.name: whole for kind, whole in WHOLE.items()}


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

    def told(self) -> Any:
        held, how = self._held, self._quantizer
        stored = TypedStorage._of(held.untyped_storage(), self._kind)
        lies = held.storage_offset(), tuple(held.shape), tuple(held.stride())
        return rebuild_quantized, (stored, *lies, (how.scheme, *how), False, OrderedDict())


def quantized(values: Tensor, kind: Any, quantizer: Any) -> QuantizedTensor:
    """Whole numbers as what they stand for."""
    made = held_in(QuantizedTensor, values, tuple(values.shape))
    made._kind, made._quantizer = kind, quantizer
    return made


def of_file(values: Tensor, kind: Any, scheme: qscheme, scale: Any, zero: Any, *axis: int) -> QuantizedTensor:
    """What a file tells of one."""
    if scheme is per_tensor_affine and not axis:
        return quantized(values, kind, Whole(float(scale), int(zero)))
    if scheme is not per_channel_affine or not axis or not 0 <= axis[0] < values.ndim:
        raise RuntimeError(f"a quantised tensor has the scheme {scheme!r}")
    if not len(scale) == len(zero) == values.shape[axis[0]]:
        raise RuntimeError("a quantised tensor has another number of scales than of channels")
    return quantized(values, kind, Channels(scale, zero, axis[0]))


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
    view reshape t transpose permute flatten squeeze unsqueeze expand __getitem__ select narrow chunk split unbind index_select repeat
    masked_select flip roll swapaxes swapdims movedim as_strided diagonal ravel tile unflatten unfold
"""
_TURNING = "squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_"
_STAYING = "clone detach contiguous cpu cuda pin_memory"


def _move(name: str, uniform: bool) -> None:
    move = getattr(Tensor, name)

    def function(self: Any, *args: Any, **named: Any) -> Any:
        if uniform and isinstance(self._quantizer, Channels):
            return _of_channel(self, name, *args, **named)
        found = move(self._held, *args, **named)
        if isinstance(found, tuple):
            return tuple([self.with_values(one) for one in found])
        return self.with_values(found)

    form(name)(function)


def _of_channel(self: Any, name: str, *args: Any, **named: Any) -> Any:
    """What a view makes of scales that stand along a dimension: those of the channels that it shows, or one, where it shows one."""
    view = _VIEWS.get(name)
    if view is None or (name == "__getitem__" and not _is_basic(args[0])):
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    return view(self, *args, **named)


def _is_basic(index: Any) -> bool:
    each = index if isinstance(index, tuple) else (index,)
    return all([i is None or i is Ellipsis or type(i) in (int, slice) for i in each])


def _select(self: Any, dim: int, index: int) -> Any:
    how, d = self._quantizer, wrap_dim(dim, self.ndim)
    values = self._held.select(d, index)
    if not isinstance(how, Channels):
        return self.with_values(values)
    if d == how.axis:
        return self.with_values(values, _one(how.scales[index], how.zeros[index]))
    return self.with_values(values, how._replace(axis=how.axis - (d < how.axis)))


def _one(scale: Tensor, zero: Tensor) -> Whole:
    return Whole(float(np.float32(scale.item())), int(zero.item()))


def _slice(self: Any, dim: int, part: slice) -> Any:
    how, d = self._quantizer, wrap_dim(dim, self.ndim)
    values = self._held[(*[slice(None)] * d, part)]
    if not isinstance(how, Channels) or d != how.axis:
        return self.with_values(values)
    scales, zeros = how.scales[part], how.zeros[part]
    return self.with_values(values, _one(scales, zeros) if len(scales) == 1 else Channels(scales, zeros, d))


def _unsqueeze(self: Any, dim: int) -> Any:
    how, d = self._quantizer, wrap_dim(dim, self.ndim + 1)
    values = self._held.unsqueeze(d)
    if not isinstance(how, Channels):
        return self.with_values(values)
    return self.with_values(values, how._replace(axis=how.axis + (d <= how.axis)))


def _squeeze(self: Any, dim: Any = None) -> Any:
    how = self._quantizer
    asked = range(self.ndim) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    gone = [d for d in {wrap_dim(d, self.ndim) for d in asked} if self.shape[d] == 1]
    if how.axis in gone:
        raise RuntimeError(
            "Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors."
        )
    return self.with_values(
        self._held.squeeze(tuple(gone)), how._replace(axis=how.axis - sum([d < how.axis for d in gone]))
    )


def _index(self: Any, index: Any) -> Any:
    each = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in each:
        k = each.index(Ellipsis)
        each[k : k + 1] = [slice(None)] * (self.ndim - sum([i is not None for i in each]) + 1)
    found, d = self, 0
    for i in each:
        if isinstance(i, int):
            found = _select(found, d, i)
            continue
        found = _unsqueeze(found, d) if i is None else _slice(found, d, i)
        d += 1
    return found


def _narrow(self: Any, dim: int, start: int, length: int) -> Any:
    self._held.narrow(dim, start, length)  # which judges them
    return _slice(self, dim, slice(start, start + length))


def _cut(name: str) -> Callable[..., Any]:
    def pieces(self: Any, size: Any, dim: int = 0) -> Any:
        lengths = [part.shape[dim] for part in getattr(self._held, name)(size, dim)]
        ends = np.cumsum([0, *lengths]).tolist()
        return tuple([_slice(self, dim, slice(*pair)) for pair in pairwise(ends)])

    return pieces


_VIEWS: dict[str, Callable[..., Any]] = {
    "__getitem__": _index,
    "select": _select,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "narrow": _narrow,
    "chunk": _cut("chunk"),
    "split": _cut("split"),
    "unbind": lambda self, dim=0: tuple([_select(self, dim, k) for k in range(self.shape[dim])]),
}


for _name in _MOVING.split():
    _move(_name, True)
form("view_as")(lambda self, other: forms["view"](self, tuple(other.shape)))
form("expand_as")(lambda self, other: forms["expand"](self, tuple(other.shape)))


def _turn(name: str) -> None:
    """A view in place: what is held becomes it."""
    turned = forms[name[:-1]]

    def function(self: Any, *args: Any, **named: Any) -> Any:
        found = turned(self, *args, **named)
        self._held, self._quantizer = found._held, found._quantizer
        self._spec = found._spec
        return self

    form(name)(function)


for _name in _TURNING.split():
    _turn(_name)
form("detach_")(lambda self: self)
for _name in _STAYING.split():
    _move(_name, False)
form("__iter__")(lambda self: iter([forms["__getitem__"](self, k) for k in range(len(self._held))]))
form("__len__")(lambda self: len(self._held))
for _name in ("stride", "storage_offset", "is_contiguous", "data_ptr", "is_pinned", "is_shared"):
    form(_name)(lambda self, *args, name=_name, **named: getattr(self._held, name)(*args, **named))
form("element_size")(lambda self: self._held.element_size())
QuantizedTensor.nbytes = property(lambda self: self._held.nbytes, doc="How many bytes its elements have.")  # type: ignore[assignment]


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
    relu relu6 hardtanh leaky_relu elu celu hardswish clamp interpolate upsample avg_pool2d avg_pool3d
    adaptive_avg_pool2d
"""
for _name in _ROUNDED.split():
    _again(_name, getattr(F, _name, None) or getattr(Tensor, _name))


def _settled(name: str, whole: float, zeros: dict[str, int]) -> None:
    """What lies between known bounds has a scale of its own, of which as many steps as the kind has numbers make `whole`."""

    @form(name)
    def done(input: Any) -> Any:
        kind = input.dtype
        how = Whole(whole / (2**32 if "32" in str(kind) else 2**8), zeros.get(str(kind), 0))
        return quantized(_numbers(getattr(dequantize(input), name)(), kind, how), kind, how)


_settled("sigmoid", 1.0, {"torch.qint8": -128})
_settled("tanh", 2.0, {"torch.quint8": 128})
_again("mean", Tensor.mean)
_again("std", Tensor.std)
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
        if src.dtype is not self.dtype:
            raise RuntimeError(
                "Expected self.scalar_type() == src.scalar_type() to be true, but got false.  "
                "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
            )
        self._held.copy_(src._held)
        self._quantizer = src._quantizer
    else:
        self._held.copy_(_numbers(src.expand(self.shape).float(), self.dtype, self._quantizer))
    return self


@form("__setitem__")
def setitem(self: Any, index: Any, value: Any) -> None:
    """Elements are written as `copy_` writes them, by the scale of what is written to."""
    if not isinstance(self, QuantizedTensor) or (
        isinstance(value, QuantizedTensor) and value.dtype is not self.dtype
    ):
        copy_(self, value)
    if not _is_basic(index):
        if isinstance(self._quantizer, Channels):
            raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
        real = value if isinstance(value, Tensor) else tensor(float(value))
        self._held[index] = _numbers(dequantize(real), self.dtype, self._quantizer)
        return
    part = forms["__getitem__"](self, index)
    if isinstance(value, QuantizedTensor):
        value = dequantize(value)
    copy_(part, value if isinstance(value, Tensor) else tensor(float(value)))


def _written(name: str) -> None:
    dense = forms[name[:-1]]
    form(name)(lambda self, *args, **named: copy_(self, dense(self, *args, **named)))


for _name in ("relu_", "hardtanh_", "masked_fill_"):
    _written(_name)


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
form("argsort")(lambda input, *args, **named: input._held.argsort(*args, **named))
form("msort")(lambda input: forms["sort"](input, 0)[0])


@form("__bool__")
def truth(self: Any) -> bool:
    if self.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(item(self))


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
