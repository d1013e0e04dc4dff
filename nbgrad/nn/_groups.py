"""Normalisation of parts of an example: groups of channels, or each channel alone."""

from __future__ import annotations

from math import prod

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.memory.storage import Spec
from nbgrad.nn._norms import by_channel, check_mixed
from nbgrad.ops.rows import normalise
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.shape import expand, reshape


def _planned(
    input: Spec, num_groups: int, weight: Spec | None = None, bias: Spec | None = None, eps: float = 1e-5
) -> Quick | None:
    return normalise.group_norm_of(input, weight, bias, num_groups, float(eps))


@quickly(_planned, devices=True)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 for each example and each group of channels (dimension 1), over all that the group holds; then `weight`
    and `bias`, one number per channel.

    >>> F.group_norm(torch.tensor([[1.0, 3.0, 10.0, 30.0]]), num_groups=2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if shape[0] * shape[1] // num_groups * prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(shape)}"
        )
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={num_groups}"
        )
    for word, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != (shape[1],):
            shown = (
                [0] if weight is None else list(weight.shape)
            )  # PyTorch's words on either are about the weight
            raise RuntimeError(
                f"Expected {word} to be a vector of size equal to the number of channels in input, but got {word} of shape "
                f"{shown} and input of shape {list(shape)}"
            )
    d = input.dtype
    if not d.is_floating_point:
        raise NotImplementedError(f"\"GroupNormKernelImpl\" not implemented for '{d.scalar_name}'")
    check_mixed(d, (weight, bias))
    got: Tensor = normalise.group_norm(input, weight, bias, groups=num_groups, eps=float(eps))
    return got


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
    """Mean 0 and variance 1 for each channel of each example, [batch, channels, ...]: a batch norm where each example is a batch.
    With `use_input_stats=False` the running statistics are used; else these, where given, follow the means over the batch by the
    share `momentum`.

    >>> F.instance_norm(torch.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
    shape = tuple(input.shape)
    if use_input_stats and prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    count, channels = shape[:2]
    kept = (running_mean, running_var)
    reference = (input if weight is None else weight).dtype
    if running_mean is not None and running_mean.dtype is not reference:
        if running_var is None:
            raise RuntimeError(
                "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #0 'self'"
            )
        running_mean, running_var = to_dtype(running_mean, reference), to_dtype(running_var, reference)

    def repeated(t: Tensor | None) -> Tensor | None:
        return None if t is None else reshape(expand(t, (count, *t.shape)), (-1,))

    mean, variance = repeated(running_mean), repeated(running_var)
    lined = reshape(input, (1, count * channels, *shape[2:]))
    got = by_channel(lined, mean, variance, repeated(weight), repeated(bias), use_input_stats, momentum, eps)
    for t, updated in zip(kept, (mean, variance)):
        if t is not None and updated is not None and use_input_stats:
            t.data.copy_(updated.data.reshape(count, -1).mean(0))
    return reshape(got, shape)


__all__ = ["group_norm", "instance_norm"]
