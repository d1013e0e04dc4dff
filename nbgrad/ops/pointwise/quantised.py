"""Numbers as they were if they had been kept as few whole ones: `(round(x / scale) + zero_point)` between two bounds, and back. The
gradient passes where no bound was met."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.quick import replayed
from nbgrad.memory import dtypes, layout


def _there_and_back(
    x: Tensor, scale: Any, zero: Any, least: int, most: int, single: bool = True
) -> tuple[Tensor, Tensor]:
    """Multiplied back in float32, as PyTorch does but by channels, and whether it was within the bounds. What is no number is the least."""
    wide = x.float() if x.dtype.narrow else x
    whole = (wide * (1 / scale if isinstance(scale, Tensor) else float(1 / np.float32(scale)))).round() + zero
    within = (whole >= least).logical_and(whole <= most)
    kept = whole.nan_to_num(nan=least).clamp(least, most)
    steps = kept - zero
    return ((steps.float() if single else steps) * scale).to(x.dtype), within


def _passed(g: Any, y1: Tensor) -> Tensor:
    return g[0] * y1


@differentiable("FakeQuantizePerTensorAffineCachemask", input=_passed)
def _by_number(input: Tensor, *, scale: float, zero: int, least: int, most: int) -> tuple[Tensor, Tensor]:
    return _there_and_back(input, scale, zero, least, most)


@differentiable("FakeQuantizePerTensorAffineCachemaskTensorQparams", input=_passed)
def _by_tensor(input: Tensor, scale: Tensor, zero: Tensor, *, least: int, most: int) -> tuple[Tensor, Tensor]:
    return _there_and_back(input, scale, zero, least, most)


@differentiable("FakeQuantizePerChannelAffineCachemask", input=_passed)
def _by_channel(
    input: Tensor, scale: Tensor, zero: Tensor, *, axis: int, least: int, most: int
) -> tuple[Tensor, Tensor]:
    shape = [-1 if k == axis else 1 for k in range(input.ndim)]
    return _there_and_back(
        input, scale.float().reshape(shape), zero.float().reshape(shape), least, most, False
    )


def _check_bounds(least: int, most: int) -> None:
    if least > most:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")


def _check_floats(input: Tensor, name: str) -> None:
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype.scalar_name}'")


@replayed
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Each number as the nearest multiple of `scale` that a whole number from `quant_min` to `quant_max` stands for, `zero_point` being
    that of 0. The gradient is 1 for what these reach, and 0 beyond.

    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.44, 1.26, 9.0]), 0.5, 0, 0, 4)
    tensor([0.5000, 1.5000, 2.0000])
    """
    _check_bounds(quant_min, quant_max)
    if isinstance(scale, Tensor):
        _check_floats(input, "fake_quantize_tensor_cachemask_kernel_type_handling")
        return _by_tensor(input, scale, zero_point, least=quant_min, most=quant_max)[0]
    if not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    _check_floats(input, "fake_quantize_tensor_cachemask_kernel_type_handling")
    return _by_number(
        input, scale=float(np.float32(scale)), zero=zero_point, least=quant_min, most=quant_max
    )[0]


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each place along `axis`.

    >>> x = torch.tensor([[0.44, 1.26], [0.44, 1.26]])
    >>> torch.fake_quantize_per_channel_affine(x, torch.tensor([0.5, 1.0]), torch.zeros(2), 0, 0, 4)
    tensor([[0.5000, 1.5000],
            [0.0000, 1.0000]])
    """
    if scale.dtype not in (dtypes.float32, dtypes.bfloat16):
        raise RuntimeError(f"Scale must be Float or BFloat16, found {scale.dtype.scalar_name}")
    if zero_point.dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {zero_point.dtype.scalar_name}")
    if scale.ndim != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.ndim != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    axis = layout.wrap_dim(axis, input.ndim)
    if scale.numel() != input.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    _check_bounds(quant_min, quant_max)
    known = zero_point.numel() and not zero_point.is_meta
    if known and not quant_min <= zero_point.min().item() <= zero_point.max().item() <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    _check_floats(input, "fake_quantize_channel_cachemask_cpu_type_handling")
    return _by_channel(input, scale, zero_point, axis=axis, least=quant_min, most=quant_max)[0]


__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]
