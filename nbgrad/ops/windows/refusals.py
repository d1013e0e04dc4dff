"""What PyTorch refuses of a convolution, in its words and in its order; nothing has been written by then."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from nbgrad.base.records import NamedTuple
from nbgrad.core.tensor import Tensor
from nbgrad.kernels.launch import get_num_threads
from nbgrad.memory import dtypes
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec

_MOST = 2**62 - 1


class Settings(NamedTuple):
    """How a convolution is to be made, as it was asked for."""

    stride: Ints
    padding: Ints
    dilation: Ints
    transposed: bool
    output_padding: Ints
    groups: int


def check_bias_type(input: Tensor, bias: Tensor | None) -> None:
    if bias is not None and bias.dtype is not input.dtype:
        raise RuntimeError(
            f"Input type ({input.dtype.c_name}) and bias type ({bias.dtype.c_name}) should be the same"
        )


def check_images(name: str, input: Tensor, dims: int) -> None:
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}"
        )


def check_weight(weight: Tensor, groups: int) -> None:
    if weight.ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if weight.ndim > 5:
        raise RuntimeError("unsupported ConvNd parameters")


def spread(name: str, given: Sequence[int], dims: int) -> Ints:
    """One number for each dimension."""
    if len(given) == 1:
        return tuple(given) * dims
    if len(given) != dims:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {dims} values to match the convolution dimensions, but "
            f"got {name}={list(given)}"
        )
    return tuple(given)


def check(input: Spec, weight: Spec, bias: Spec | None, s: Settings) -> None:
    """Whatever can be said of shapes and dtypes."""
    _check_settings(s)
    shape, taps = list(weight.shape), weight.shape[2:]
    if input.ndim != weight.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight {shape}, but got "
            f"{input.ndim}-dimensional input of size {list(input.shape)} instead"
        )
    if shape[0] < s.groups:
        raise RuntimeError(
            f"Given groups={s.groups}, expected weight to be at least {s.groups} at dimension 0, but got weight of size {shape} "
            "instead"
        )
    if shape[0] % s.groups:
        raise RuntimeError(
            f"Given groups={s.groups}, expected weight to be divisible by {s.groups} at dimension 0, but got weight of size "
            f"[{shape}] instead"
        )
    _check_channels(input, shape, bias, s)
    if not s.transposed:
        _check_fits(input, taps, s)
    if not input.numel:
        if 0 not in tuple(input.shape)[:2]:
            raise RuntimeError(
                f"Only zero batch or zero channel inputs are supported, but got input shape: {list(input.shape)}"
            )
        if s.transposed:
            _check_sizes(input, taps, s, 0)
        return
    if 0 in s.dilation:
        _refuse_dilation(input, weight, s)
    _check_types(input, weight, bias, s)
    if 0 in taps:
        raise RuntimeError(f"kernel size should be greater than zero, but got {_named('kernel', taps)}")
    if s.transposed:
        _check_transposed(input, taps, s)


def _refuse_dilation(input: Spec, weight: Spec, s: Settings) -> None:
    """Of 0, by which a batch of nothing may be dilated."""
    if s.transposed:
        shown = _named("dilation", s.dilation).replace(" dilation", ", dilation")
        raise RuntimeError(f"dilation should be greater than zero, but got {shown}")
    taps, dilation = ([*(1,) * (len(s.dilation) == 1), *v] for v in (tuple(weight.shape)[2:], s.dilation))
    if 0 in taps:
        raise RuntimeError(f"kernel size should be greater than zero, but got {taps}")
    taken = input.dtype in (dtypes.float32, dtypes.bfloat16) and weight.dtype is input.dtype
    if taken and by_library(input, weight, s):
        raise RuntimeError("non-positive dilation is not supported")
    raise RuntimeError(f"dilation should be greater than zero, but got {dilation}")


def _check_settings(s: Settings) -> None:
    if min(s.padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(s.output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(s.stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(s.dilation) < 0:
        raise RuntimeError("dilation should be greater than zero")


def _check_channels(input: Spec, shape: list[int], bias: Spec | None, s: Settings) -> None:
    kind = f"transposed={int(s.transposed)}" if s.transposed else f"groups={s.groups}"
    channels = shape[0] if s.transposed else shape[1] * s.groups
    if input.shape[1] != channels:
        raise RuntimeError(
            f"Given {kind}, weight of size {shape}, expected input{list(input.shape)} to have {channels} channels, but got "
            f"{input.shape[1]} channels instead"
        )
    made = shape[1] * s.groups if s.transposed else shape[0]
    if bias is not None and tuple(bias.shape) != (made,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if s.transposed else ''}weight of size {shape}, expected bias to be 1-dimensional with {made} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )


def _check_fits(input: Spec, taps: Sequence[int], s: Settings) -> None:
    for d, p in enumerate(s.padding):
        if p > _MOST:
            raise RuntimeError(f"Given padding={p} at dimension {d} , expected padding to be at most {_MOST}")
    padded = [n + 2 * p for n, p in zip(input.shape[2:], s.padding)]
    whole = [d * (k - 1) + 1 for k, d in zip(taps, s.dilation)]
    if any(a < b for a, b in zip(padded, whole)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({_by(padded)}). Kernel size: ({_by(whole)}). Kernel size can't be greater "
            "than actual input size"
        )


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _named(word: str, values: Sequence[int], fill: int = 1) -> str:
    """PyTorch computes in two dimensions what has one."""
    values = (fill, *values) if len(values) == 1 else values
    names = ("depth", "height", "width")[-len(values) :]
    return " ".join([f"{word}_{name}: {value}" for name, value in zip(names, values)])


def _check_types(input: Spec, weight: Spec, bias: Spec | None, s: Settings) -> None:
    d = input.dtype
    lacking = _lacking(d, tuple(weight.shape)[2:], s)
    if lacking:
        raise NotImplementedError(f"\"{lacking}\" not implemented for '{d.scalar_name}'")
    if weight.dtype is not d:
        if d is dtypes.float32 and by_library(input, weight, s):
            raise RuntimeError(_other_types(d, "weight", weight.dtype))
        raise RuntimeError(f"expected scalar type {d.scalar_name} but found {weight.dtype.scalar_name}")
    if bias is not None and bias.dtype is not d and d is dtypes.float32 and by_library(input, weight, s):
        raise RuntimeError(_other_types(d, "bias", bias.dtype))


def by_library(input: Spec, weight: Spec, s: Settings) -> bool:
    """Whether PyTorch leaves a convolution of float32 to a library, which has words of its own."""
    batch, (*_, high, wide) = input.shape[0], (1, *tuple(weight.shape)[2:])
    small = high == wide == 1 and batch < 16 and max(*s.stride, *s.dilation) == 1 and get_num_threads() == 1
    return not small and (
        s.groups > 1 or min(high, wide) > 3 or batch > 1 or prod(tuple(input.shape)[:4]) > 20480
    )


def _lacking(d: dtype, taps: Ints, s: Settings) -> str:
    """The kernel of PyTorch's that does not know this dtype."""
    volume = len(taps) == 3
    if d.is_floating_point or d is dtypes.int64:
        return ""
    if s.transposed:
        return f"slow_conv_transpose{3 if volume else 2}d_out_cpu"
    if max(s.dilation) > 1:
        return "slow_conv_dilated<>"
    if d is not dtypes.bool_:
        return ""
    return "compute_columns3d" if volume and max(taps) > 1 else f"slow_conv{3 if volume else 2}d_cpu"


def _other_types(d: dtype, word: str, other: dtype) -> str:
    names = [f"torch.{t.scalar_name}Tensor" for t in (d, other)]
    return (
        f"Input type ({names[0]}) and {word} type ({names[1]}) should be the same or input should be a MKLDNN tensor and {word} is "
        "a dense tensor"
    )


def _check_transposed(input: Spec, taps: Sequence[int], s: Settings) -> None:
    if any(more >= max(a, b) for more, a, b in zip(s.output_padding, s.stride, s.dilation)):
        words = [_named("output_padding", s.output_padding, 0), _named("stride", s.stride)]
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            f"{' '.join([*words, _named('dilation', s.dilation)])}"
        )
    _check_sizes(input, taps, s, 1)


def _check_sizes(input: Spec, taps: Sequence[int], s: Settings, least: int) -> None:
    sizes = [
        (n - 1) * step - 2 * p + d * (k - 1) + more + 1
        for n, k, step, p, d, more in zip(
            input.shape[2:], taps, s.stride, s.padding, s.dilation, s.output_padding
        )
    ]
    if min(sizes) < least:
        raise RuntimeError(
            f"Given input size per channel: ({_by(input.shape[2:])}). Calculated output size per channel: ({_by(sizes)}). Output "
            "size is too small"
        )
