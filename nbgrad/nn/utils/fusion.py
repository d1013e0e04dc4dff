"""A normalisation over batches, in evaluation, folded into the layer before it: one layer that computes both."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter
from nbgrad.ops.make.filled import ones_like, zeros_like


def _fused(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Any,
    shift: Any,
    dim: int,
) -> tuple[Parameter, Parameter]:
    """Both parameters in the dtype of the layer's."""
    bias = zeros_like(mean) if bias is None else bias
    factor = (ones_like(mean) if scale is None else scale) * (var + eps).rsqrt()
    along = [-1 if d == dim else 1 for d in range(weight.ndim)]
    shifted = (bias - mean) * factor + (zeros_like(mean) if shift is None else shift)
    made = (weight * factor.reshape(along)).to(weight.dtype), shifted.to(bias.dtype)
    return Parameter(made[0], weight.requires_grad), Parameter(made[1], bias.requires_grad)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution, a transposed one if `transpose`, that computes the normalisation with it.

    >>> one = torch.ones(2)
    >>> w, b = nn.utils.fuse_conv_bn_weights(torch.ones(2, 1, 1), None, one, one, 0.0, one, one)
    >>> w.shape, b.tolist()
    (torch.Size([2, 1, 1]), [0.0, 0.0])
    """
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer that computes the normalisation with it.

    >>> one = torch.ones(2)
    >>> w, b = nn.utils.fuse_linear_bn_weights(torch.ones(2, 3), None, one, one, 0.0, one, one)
    >>> w.shape, b.tolist()
    (torch.Size([2, 3]), [0.0, 0.0])
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _copy_of(layer: Any, bn: Any) -> Any:
    assert not (layer.training or bn.training), "Fusion only for eval!"
    return deepcopy(layer)


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Any:
    """A convolution that computes itself and the normalisation after it, both in evaluation.

    >>> nn.utils.fuse_conv_bn_eval(nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval())
    Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))
    """
    fused, of = _copy_of(conv, bn), bn
    assert of.running_mean is not None and of.running_var is not None
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, of.running_mean, of.running_var, of.eps, of.weight, of.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Any:
    """A linear layer that computes itself and the normalisation after it, both in evaluation.

    >>> nn.utils.fuse_linear_bn_eval(nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval())
    Linear(in_features=3, out_features=4, bias=True)
    """
    fused, of = _copy_of(linear, bn), bn
    assert of.num_features in (fused.out_features, 1), (
        "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features="
        f"{fused.out_features} and bn.num_features={of.num_features}"
    )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, of.running_mean, of.running_var, of.eps, of.weight, of.bias
    )
    return fused


__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
