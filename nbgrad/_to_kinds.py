"""What dense tensors answer to what is asked of nested and quantised ones, whose modules are loaded when one is made."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from nbgrad._holding import refuse
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.stanza import method
from nbgrad.exchange import classes
from nbgrad.memory.dtypes import float32
from nbgrad.ops.views.copy import to_dtype


def _of_file(module: str) -> Callable[..., Any]:
    def made(*told: Any) -> Any:
        return import_module(f"{__name__.partition('.')[0]}.{module}").of_file(*told)

    return made


classes.known |= {"quantized": _of_file("_quantized"), "nested": _of_file("nested._tensor")}


@method
def to_padded_tensor(self: Tensor, padding: float, output_size: Any = None) -> NoReturn:
    """Of nested tensors: all parts in one dense tensor.

    >>> torch.nested.nested_tensor([[1.0, 2.0], [3.0]]).to_padded_tensor(0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    refuse("to_padded_tensor", "CPU")


@method
def int_repr(self: Tensor) -> NoReturn:
    """Of quantised tensors: the whole numbers.

    >>> torch.quantize_per_tensor(torch.tensor([0.26]), 0.1, 0, torch.qint8).int_repr()
    tensor([3], dtype=torch.int8)
    """
    refuse("int_repr", "CPU")


@method
def q_scale(self: Tensor) -> NoReturn:
    """Of quantised tensors: the scale of all elements.

    >>> torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8).q_scale()
    0.5
    """
    refuse("q_scale", "CPU")


@method
def q_zero_point(self: Tensor) -> NoReturn:
    """Of quantised tensors: the zero point of all elements.

    >>> torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8).q_zero_point()
    1
    """
    refuse("q_zero_point", "CPU")


@method
def qscheme(self: Tensor) -> NoReturn:
    """Of quantised tensors: how whole numbers stand for real ones.

    >>> torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.qint8).qscheme()
    torch.per_tensor_affine
    """
    refuse("qscheme", "CPU")


@method
def q_per_channel_scales(self: Tensor) -> NoReturn:
    """Of quantised tensors: the scale of each channel.

    >>> q = torch.quantize_per_channel(torch.ones(1, 1), torch.ones(1), torch.zeros(1).long(), 0, torch.qint8)
    >>> q.q_per_channel_scales()
    tensor([1.], dtype=torch.float64)
    """
    refuse("q_per_channel_scales", "CPU")


@method
def q_per_channel_zero_points(self: Tensor) -> NoReturn:
    """Of quantised tensors: the zero point of each channel.

    >>> q = torch.quantize_per_channel(torch.ones(1, 1), torch.ones(1), torch.zeros(1).long(), 0, torch.qint8)
    >>> q.q_per_channel_zero_points()
    tensor([0])
    """
    refuse("q_per_channel_zero_points", "CPU")


@method
def q_per_channel_axis(self: Tensor) -> NoReturn:
    """Of quantised tensors: the dimension that has a scale for each place.

    >>> q = torch.quantize_per_channel(torch.ones(1, 1), torch.ones(1), torch.zeros(1).long(), 0, torch.qint8)
    >>> q.q_per_channel_axis()
    0
    """
    refuse("q_per_channel_axis", "CPU")


@method
def dequantize(self: Tensor) -> Tensor:
    """The real numbers that a quantised tensor stands for; of another one, the same in float32.

    >>> torch.quantize_per_tensor(torch.tensor([0.26]), 0.1, 0, torch.qint8).dequantize()
    tensor([0.3000])
    """
    return to_dtype(self, float32)


def _rare() -> Any:
    return import_module(f"{__name__.partition('.')[0]}._rare")


@method
def hash_tensor(self: Tensor, dim: Any = None, *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or of all elements' bits, as int64 or float64: `torch.hash_tensor`.

    >>> torch.tensor([1, 2, 7]).hash_tensor()
    tensor(4, dtype=torch.uint64)
    """
    found: Tensor = _rare().hash_tensor(self, dim, keepdim=keepdim, mode=mode)
    return found


@method
def slice_inverse(
    self: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A view with the sizes and strides of `src`, of which the tensor was a slice: `torch.slice_inverse`.

    >>> torch.arange(4.0).slice_inverse(torch.arange(4.0)[:2])
    tensor([0., 1.])
    """
    found: Tensor = _rare().slice_inverse(self, src)
    return found
