"""Convolutions by name: PyTorch's arguments and refusals in front of the one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.prepared import call_of, settled_by
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.padding import constant_pad_nd
from nbgrad.ops.views.copy import contiguous, zeros
from nbgrad.ops.views.order import permute
from nbgrad.ops.views.parts import imag, real
from nbgrad.ops.views.shape import squeeze, unsqueeze
from nbgrad.ops.windows import convolution as _op
from nbgrad.ops.windows.correlation import Geometry
from nbgrad.ops.windows.refusals import (
    Settings,
    check,
    check_bias_type,
    check_images,
    check_weight,
    spread,
)


def _plain(t: Tensor | None) -> Spec | None:
    return None if t is None else t._spec.plain


def _listed(given: Any, dims: int) -> Sequence[int]:
    """As the call has it: PyTorch makes one number that is given as such one for each dimension of the function."""
    return (given,) * dims if isinstance(given, int) else tuple(given)


def _convolved(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    check_weight(weight, groups)
    dims = weight.ndim - 2
    s = Settings(
        spread("stride", stride, dims),
        spread("padding", padding, dims),
        spread("dilation", dilation, dims),
        transposed,
        spread("output_padding", output_padding, dims),
        groups,
    )
    if input.dtype.is_complex and weight.dtype is input.dtype:
        more = (stride, padding, dilation, transposed, output_padding, groups)
        return _complex_convolved(input, weight, bias, more)
    check(input._spec.plain, weight._spec.plain, _plain(bias), s)
    return call_of(_op.convolution, input, weight, bias, **s._asdict())


def _complex_convolved(
    input: Tensor, weight: Tensor, bias: Tensor | None, settings: tuple[Any, ...]
) -> Tensor:
    """As PyTorch has it: three of real numbers, the last of which has both products across and those of the other two."""
    (x, ix), (w, iw) = [(real(t), imag(t)) for t in (input, weight)]
    b, ib = (None, None) if bias is None else (real(bias), imag(bias))
    first, second = convolution(x, w, b, *settings), convolution(ix, iw, None, *settings)
    both = None if b is None else e.add(b, ib)
    crossed = convolution(e.add(x, ix), e.add(w, iw), both, *settings)
    return e.add(e.sub(first, second), e.mul(e.sub(e.sub(crossed, first), second), 1j))


def _result(got: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Of what a settled function answers, run."""
    if isinstance(got, Tensor):
        return got
    ran: Tensor = _op.convolution(input, weight, bias, **got.static)[0]
    return ran


def gradient(
    of: str,
    input: Tensor | Sequence[int],
    weight: Tensor | Sequence[int],
    grad_output: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    dims: int,
) -> Tensor:
    """That of a convolution `of` its "input" or its "weight", of which only the shape is asked."""
    stride, padding, dilation = [_listed(given, dims) for given in (stride, padding, dilation)]
    like = grad_output._spec.plain
    x, w = [t._spec.plain if isinstance(t, Tensor) else like.like(tuple(t)) for t in (input, weight)]
    inner = w.ndim - 2
    s = Settings(
        spread("stride", stride, inner),
        spread("padding", padding, inner),
        spread("dilation", dilation, inner),
        False,
        (0,) * inner,
        groups,
    )
    if groups <= 0:
        raise RuntimeError(f"expected groups to be greater than 0, but got groups={groups}")
    check(x, w, None, s)
    geometry = Geometry(*s[:3], groups)
    expected = _op.result_shape(x, w, geometry, False, s.output_padding)
    if tuple(like.shape) != expected:
        raise RuntimeError(
            f"expected grad_output of shape {list(expected)}, as the convolution has it, but got {list(like.shape)}"
        )
    found: Tensor
    if of == "input":
        found = _op._wide(grad_output, weight, size=tuple(x.shape)[2:], geometry=geometry)
    else:
        found = _op._weights(grad_output, input, size=tuple(w.shape)[2:], geometry=geometry)
    return found


# ---------------------------------------------------------------- PyTorch's names


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """What all of `conv1d` to `conv_transpose3d` come to, with every setting: sequences of one number, or one for each dimension.

    >>> x, w = torch.arange(4.0).view(1, 1, 4), torch.ones(1, 1, 2)
    >>> torch.convolution(x, w, None, [2], [0], [1], False, [0], 1)
    tensor([[[1., 5.]]])
    """
    got = _convolved(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return _result(got, input, weight, bias)


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool = True,
) -> Tensor:
    """`convolution` with settings of a library that is not called here, and which change nothing.

    >>> x, w = torch.ones(1, 1, 3), torch.ones(1, 1, 2)
    >>> torch._convolution(x, w, None, [1], [0], [1], False, [0], 1, False, False, True, True)
    tensor([[[2., 2.]]])
    """
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _convolution_mode(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: str,
    dilation: Any,
    groups: int,
) -> Tensor:
    """`convolution` with its padding named: "valid" for none, "same" for as much as keeps the size.

    >>> torch._convolution_mode(torch.ones(1, 1, 3), torch.ones(1, 1, 3), None, [1], "same", [1], 1)
    tensor([[[2., 3., 2.]]])
    """
    return _result(_by_mode(input, weight, bias, stride, padding, dilation, groups), input, weight, bias)


def _by_mode(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: str,
    dilation: Sequence[int],
    groups: int,
) -> Any:
    if padding == "same":
        return _same(input, weight, bias, stride, dilation, groups)
    if padding == "valid":
        return _convolved(input, weight, bias, stride, (0,), dilation, False, (0,), groups)
    raise RuntimeError(f"Invalid padding string: '{padding}'")


def _same(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    check_weight(weight, groups)
    dims = weight.ndim - 2
    if input.ndim != weight.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight{list(weight.shape)}, but got "
            f"{input.ndim}-dimensional input of size {list(input.shape)} instead"
        )
    for name, given in (("stride", stride), ("dilation", dilation)):
        if len(given) not in (1, dims):
            raise RuntimeError(f"{name} cannot broadcast to {dims} dimensions")
    if any(n != 1 for n in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    # What is odd goes to the end.
    whole = [d * (k - 1) for k, d in zip(weight.shape[2:], spread("dilation", dilation, dims))]
    if any(n % 2 for n in whole):
        warn(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be created"
        )
        more = [n for each in reversed(whole) for n in (0, each % 2)]
        padded = constant_pad_nd(input, more)
        got = _convolved(padded, weight, bias, stride, [n // 2 for n in whole], dilation, False, (0,), groups)
        return _result(got, padded, weight, bias)
    return _convolved(input, weight, bias, stride, [n // 2 for n in whole], dilation, False, (0,), groups)


def _of_images(
    dims: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    check_bias_type(input, bias)
    check_images(f"conv{dims}d", input, dims)
    images = input if input.ndim == dims + 2 else unsqueeze(input, 0)
    stride, dilation = _listed(stride, dims), _listed(dilation, dims)
    if isinstance(padding, str):
        got = _by_mode(images, weight, bias, stride, padding, dilation, groups)
    else:
        got = _convolved(
            images, weight, bias, stride, _listed(padding, dims), dilation, False, (0,) * dims, groups
        )
    return got if images is input else squeeze(_result(got, images, weight, bias), 0)


def _transposed(
    dims: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    check_images(f"conv_transpose{dims}d", input, dims)
    images = input if input.ndim == dims + 2 else unsqueeze(input, 0)
    stride, padding, dilation, more = [
        _listed(given, dims) for given in (stride, padding, dilation, output_padding)
    ]
    got = _convolved(images, weight, bias, stride, padding, dilation, True, more, groups)
    return got if images is input else squeeze(_result(got, images, weight, bias), 0)


@settled_by("weight", "bias")
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """A window that moves over lines: (n, c, length) and weights (o, c / groups, k) make (n, o, places), where a place has, for each o,
    the sum of weights times what the window shows, plus `bias[o]`. It moves by `stride`, over lines with `padding` zeros at both ends
    (or "same", "valid"), and shows every `dilation`-th element. With `groups` channels meet only those of their group. Without n it
    is one line. The gradients are such sums as well.

    >>> F.conv1d(torch.tensor([[[1.0, 2.0, 4.0, 8.0]]]), torch.tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2., 4.]]])
    """
    return _of_images(1, input, weight, bias, stride, padding, dilation, groups)


@settled_by("weight", "bias")
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """`conv1d` of images: (n, c, height, width) and weights (o, c / groups, kh, kw). A setting is one number, or one for each dimension.

    >>> F.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), padding=1)
    tensor([[[[4., 6., 4.],
              [6., 9., 6.],
              [4., 6., 4.]]]])
    """
    return _of_images(2, input, weight, bias, stride, padding, dilation, groups)


@settled_by("weight", "bias")
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """`conv1d` of volumes: (n, c, depth, height, width) and weights (o, c / groups, kd, kh, kw).

    >>> F.conv3d(torch.ones(1, 2, 3, 3, 3), torch.ones(4, 2, 2, 2, 2)).shape
    torch.Size([1, 4, 2, 2, 2])
    """
    return _of_images(3, input, weight, bias, stride, padding, dilation, groups)


@settled_by("weight", "bias")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The gradient of `conv1d` by its input, as an op: each element of (n, c, length) adds its weights (c, o / groups, k) to the result
    where a window of a convolution would have shown it. `padding` takes off at both ends what that one adds, `output_padding` adds at
    the end, for of lengths that a stride makes the same only one is meant.

    >>> F.conv_transpose1d(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 10.0]]]), stride=2)
    tensor([[[ 1., 10.,  2., 20.]]])
    """
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@settled_by("weight", "bias")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """`conv_transpose1d` of images: (n, c, height, width) and weights (c, o / groups, kh, kw).

    >>> F.conv_transpose2d(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@settled_by("weight", "bias")
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """`conv_transpose1d` of volumes: (n, c, depth, height, width) and weights (c, o / groups, kd, kh, kw).

    >>> F.conv_transpose3d(torch.ones(1, 2, 2, 2, 2), torch.ones(2, 3, 2, 2, 2), stride=2).shape
    torch.Size([1, 3, 4, 4, 4])
    """
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` of (time, batch, channels) and weights (k, channels, o), with `pad` zeros at both ends.

    >>> torch.conv_tbc(torch.ones(3, 1, 2), torch.ones(2, 2, 1), torch.zeros(1)).flatten()
    tensor([4., 4.])
    """
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    padded = constant_pad_nd(input, (0, 0, 0, 0, pad, pad))
    if padded.shape[0] + 1 == weight.shape[0]:  # no place, which only this function grants
        return zeros(input._spec.like((0, input.shape[1], weight.shape[2])))
    got: Tensor = conv1d(permute(padded, (1, 2, 0)), permute(weight, (2, 1, 0)), bias)
    return contiguous(permute(got, (2, 0, 1)))


__all__ = [
    "_convolution",
    "_convolution_mode",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
]
