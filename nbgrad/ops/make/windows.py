"""Windows of signals, as PyTorch computes them: periodic ones are the first numbers of a symmetric one that is longer by one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.factories import of_numbers
from nbgrad.ops.make.filled import empty, ones
from nbgrad.ops.pointwise.gamma import i0
from nbgrad.ops.views.join import cat


def _window(
    name: str, window_length: Any, periodic: bool, made: Callable[[Tensor, int], Tensor], **where: Any
) -> Tensor:
    """`made` of the places 0, 1 ... of a symmetric window and the last of them."""
    if type(window_length) is not int:
        raise TypeError(
            f"{name}(): argument 'window_length' (position 1) must be int, not {type(window_length).__name__}"
        )
    d = dtypes.get_default_dtype() if where.get("dtype") is None else where["dtype"]
    if not d.inexact:
        raise RuntimeError(
            f"{name} expects floating point dtypes, got: TensorOptions(dtype={_WORDS.get(d, d.c_name)}, device=cpu, "
            "layout=Strided (default), requires_grad=false (default), pinned_memory=false, memory_format=(nullopt))"
        )
    if window_length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
    grad = where.pop("requires_grad", False)
    if window_length == 0:
        return empty(0, requires_grad=grad, **where)
    if window_length == 1:
        return ones(1, requires_grad=grad, **where)
    count = window_length + bool(periodic)
    given = {name: value for name, value in where.items() if value is not None}
    found = made(arange(count, **{**given, "dtype": d}), count - 1)
    found = found[:window_length].clone() if periodic else found
    return found.requires_grad_() if grad else found


_WORDS = {dtypes.int64: "long int", dtypes.int32: "int", dtypes.bool_: "bool"}


@of_numbers
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: `1 - |2 * k / n - 1|` for k = 0, 1 ..., where n is `window_length`, or one less if it is not to be `periodic` but
    symmetric.

    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """

    def made(n: Tensor, last: int) -> Tensor:
        rise = n * (2 / last)
        half = (last >> 1) + 1
        return cat([rise[:half], rise[half:] * -1 + 2])

    where = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _window("bartlett_window", window_length, periodic, made, **where)


@of_numbers
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`0.42 - 0.5 * cos(2 * pi * k / n) + 0.08 * cos(4 * pi * k / n)` for k = 0, 1 ..., where n is `window_length`, or one less if it is
    not to be `periodic` but symmetric.

    >>> torch.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """

    def made(n: Tensor, last: int) -> Tensor:
        angle = n * (math.pi / last)
        return (angle * 4).cos() * 0.08 - (angle * 2).cos() * 0.5 + 0.42

    where = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _window("blackman_window", window_length, periodic, made, **where)


@of_numbers
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`alpha - beta * cos(2 * pi * k / n)` for k = 0, 1 ..., where n is `window_length`, or one less if it is not to be `periodic` but
    symmetric.

    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    where = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _window("hamming_window", window_length, periodic, _cosines(alpha, beta), **where)


@of_numbers
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`(1 - cos(2 * pi * k / n)) / 2` for k = 0, 1 ..., where n is `window_length`, or one less if it is not to be `periodic` but
    symmetric.

    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    where = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _window("hann_window", window_length, periodic, _cosines(0.5, 0.5), **where)


def _cosines(alpha: float, beta: float) -> Callable[[Tensor, int], Tensor]:
    return lambda n, last: (n * (math.pi * 2 / last)).cos() * -beta + alpha


@of_numbers
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`i0(beta * sqrt(1 - (2 * k / n - 1) ** 2)) / i0(beta)` for k = 0, 1 ..., where n is `window_length`, or one less if it is not to be
    `periodic` but symmetric. A larger `beta` makes it narrower.

    >>> torch.kaiser_window(4, True, 2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """

    def made(n: Tensor, last: int) -> Tensor:
        whole: Tensor = i0(arange(1, dtype=n.dtype) + beta)
        return i0(beta * (1 - ((n - last / 2) / (last / 2)) ** 2).clamp(min=0).sqrt()) / whole

    where = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    return _window("kaiser_window", window_length, periodic, made, **where)


__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]
