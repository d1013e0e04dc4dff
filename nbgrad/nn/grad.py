"""Gradients of convolutions as functions of their own."""

from __future__ import annotations

from collections.abc import Sequence

from nbgrad.core.tensor import Tensor
from nbgrad.ops.windows.convolutions import gradient


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `F.conv1d` by its input of lines, whose shape is `input_size`, where that of the result is `grad_output`.

    >>> nn.grad.conv1d_input((1, 1, 4), torch.ones(1, 1, 2), torch.ones(1, 1, 3)).flatten()
    tensor([1., 2., 2., 1.])
    """
    return gradient("input", input_size, weight, grad_output, stride, padding, dilation, groups, 1)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `F.conv1d` by its weights, whose shape is `weight_size`, where that of the result is `grad_output`.

    >>> nn.grad.conv1d_weight(torch.ones(1, 1, 4), (1, 1, 2), torch.ones(1, 1, 3)).flatten()
    tensor([3., 3.])
    """
    return gradient("weight", input, weight_size, grad_output, stride, padding, dilation, groups, 1)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `F.conv2d` by its input of images, whose shape is `input_size`, where that of the result is `grad_output`.

    >>> nn.grad.conv2d_input((1, 1, 3, 3), torch.ones(1, 1, 1, 2), torch.ones(1, 1, 3, 2)).shape
    torch.Size([1, 1, 3, 3])
    """
    return gradient("input", input_size, weight, grad_output, stride, padding, dilation, groups, 2)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `F.conv2d` by its weights, whose shape is `weight_size`, where that of the result is `grad_output`.

    >>> nn.grad.conv2d_weight(torch.ones(1, 1, 3, 3), (1, 1, 1, 2), torch.ones(1, 1, 3, 2)).flatten()
    tensor([6., 6.])
    """
    return gradient("weight", input, weight_size, grad_output, stride, padding, dilation, groups, 2)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `F.conv3d` by its input of volumes, whose shape is `input_size`, where that of the result is `grad_output`.

    >>> nn.grad.conv3d_input((1, 1, 3, 3, 3), torch.ones(1, 1, 1, 1, 2), torch.ones(1, 1, 3, 3, 2)).shape
    torch.Size([1, 1, 3, 3, 3])
    """
    return gradient("input", input_size, weight, grad_output, stride, padding, dilation, groups, 3)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `F.conv3d` by its weights, whose shape is `weight_size`, where that of the result is `grad_output`.

    >>> nn.grad.conv3d_weight(torch.ones(1, 1, 3, 3, 3), (1, 1, 1, 1, 2), torch.ones(1, 1, 3, 3, 2)).flatten()
    tensor([18., 18.])
    """
    return gradient("weight", input, weight_size, grad_output, stride, padding, dilation, groups, 3)


__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]
