"""Tensors for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from warnings import warn

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.ops.make.drawn import randint
from nbgrad.ops.make.filled import empty


def make_tensor(
    *shape: Any,
    dtype: _dtype,
    device: Device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random numbers from `low` up to, not including, `high`: -9 and 9 unless given (whole numbers 10, booleans both).
    With `noncontiguous` they lie apart in memory, with `exclude_zero` none is 0.

    >>> t = torch.testing.make_tensor((2, 3), dtype=torch.float32, device="cpu", low=0, noncontiguous=True)
    >>> t.shape, t.is_contiguous(), bool((t >= 0).all())
    (torch.Size([2, 3]), False, True)
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous=} and {memory_format=}"
        )
    floats = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not floats:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}"
        )
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    if noncontiguous:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    if floats:
        info = dtypes.finfo(dtype)
        start, end = _range(dtype, low, high, info.min, info.max, -9, 9)
        result: Tensor = empty(sizes, device=device, dtype=dtype)
        if end - start >= info.max:  # more than `uniform_` takes
            result.uniform_(start / 2, end / 2).mul_(2)
        else:
            result.uniform_(start, end)
    else:
        least, most, usual = 0, 2, (0, 2)
        if dtype is not dtypes.bool_:
            of = dtypes.iinfo(dtype)
            least, most, usual = of.min, of.max + (dtype is not dtypes.int64), (-9, 10)
        start, end = _range(dtype, low, high, least, most, *usual)
        result = randint(math.ceil(start), math.ceil(end), sizes, device=device, dtype=dtype)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = dtypes.finfo(dtype).tiny if floats else 1
    if floats:
        result.requires_grad = requires_grad
    return result


def _range(
    d: _dtype, low: Any, high: Any, least: Any, most: Any, usual_low: Any, usual_high: Any
) -> tuple[Any, Any]:
    """What is drawn from: as it was asked for, as far as the dtype has it."""
    low = usual_low if low is None else low
    high = usual_high if high is None else high
    if any([isinstance(value, float) and math.isnan(value) for value in (low, high)]):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and d.is_floating_point:
        warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 and will be "
            "removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {d} only supports [{least}, {most})"
        )
    return min(max(low, least), most), min(max(high, least), most)
