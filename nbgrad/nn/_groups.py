"""Normalisation of parts of an example: groups of channels, or each channel alone."""

from __future__ import annotations

from typing import Any

from nbgrad._tensor import Tensor
from nbgrad.nn._norms import batch_norm
from nbgrad.ops import elementwise as e
from nbgrad.ops import rows
from nbgrad.ops.movement import reshape


def _several(shown: object, per: str, n: int) -> None:
    if n == 1:
        raise ValueError(f"Expected more than 1 {per} when training, got input size {shown}")


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over each group of channels of each example."""
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    batch, channels = shape[:2]
    size = batch * channels // num_groups if num_groups else 0
    for n in shape[2:]:
        size *= n
    _several(list(shape), "value per channel", size)
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={num_groups}"
        )
    for word, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != (channels,):
            raise RuntimeError(
                f"Expected {word} to be a vector of size equal to the number of channels in input, but got {word} of shape "
                f"{list(t.shape)} and input of shape {list(shape)}"
            )
    d = input.dtype
    if not d.is_floating_point:
        raise NotImplementedError(f"\"GroupNormKernelImpl\" not implemented for '{d.scalar_name}'")
    if any(t is not None and t.dtype is not d for t in (weight, bias)):
        raise RuntimeError(f"mixed dtype (CPU): expect parameter to have scalar type of {d.scalar_name}")
    rowed = reshape(input, (batch, num_groups, -1)) if input.numel() else input
    got = reshape(rows.layer_norm(rowed, 1, None, None, float(eps))[0], shape)
    column = (channels, *(1,) * (len(shape) - 2))
    got = got if weight is None else e.mul(got, reshape(weight, column))
    return got if bias is None else e.add(got, reshape(bias, column))


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over each channel of each example: to batch normalisation, each is a channel of one example."""
    shape = tuple(input.shape)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    size = 1
    for n in shape[2:]:
        size *= n
    _several(input.shape, "spatial element", size)
    batch, channels = shape[:2]

    def each(t: Any) -> Any:
        return None if t is None else t.repeat(batch)

    mean, var = each(running_mean), each(running_var)
    flat = reshape(input, (1, batch * channels, *shape[2:]))
    got = batch_norm(flat, mean, var, each(weight), each(bias), True, momentum, eps)
    for running, now in ((running_mean, mean), (running_var, var)):
        if running is not None:
            running.data.copy_(now.view(batch, channels).mean(0))
    return reshape(got, shape)


__all__ = ["group_norm", "instance_norm"]
