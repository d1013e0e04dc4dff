"""Activations as functions, with PyTorch's names, defaults, warnings and refusals; what else networks call stands in the modules
that are imported here."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.memory import dtypes
from nbgrad.nn._attention import multi_head_attention_forward, scaled_dot_product_attention
from nbgrad.nn._dropouts import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from nbgrad.nn._groups import group_norm, instance_norm
from nbgrad.nn._losses import *  # noqa: F403
from nbgrad.nn._losses import __all__ as _losses
from nbgrad.nn._losses_of_many import *  # noqa: F403
from nbgrad.nn._losses_of_many import __all__ as _losses_of_many
from nbgrad.nn._losses_of_two import *  # noqa: F403
from nbgrad.nn._losses_of_two import __all__ as _losses_of_two
from nbgrad.nn._maps import bilinear, embedding
from nbgrad.nn._margins import *  # noqa: F403
from nbgrad.nn._margins import __all__ as _margins
from nbgrad.nn._norms import batch_norm, layer_norm, rms_norm
from nbgrad.nn._shapes import channel_shuffle, pixel_shuffle, pixel_unshuffle
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.padding import pad
from nbgrad.ops.host.values import of_array
from nbgrad.ops.index.gather import scatter
from nbgrad.ops.linear.distances import pdist
from nbgrad.ops.linear.matmul import linear
from nbgrad.ops.make import counted, filled, generator
from nbgrad.ops.make.drawn import generator_of
from nbgrad.ops.pointwise import activations as a
from nbgrad.ops.pointwise.activations import (
    celu_,
    elu_,
    gelu,
    glu,
    hardshrink,
    hardtanh_,
    leaky_relu_,
    logsigmoid,
    prelu,
    relu_,
    selu_,
    softplus,
    softshrink,
    threshold_,
)
from nbgrad.ops.pointwise.functions import sigmoid, tanh
from nbgrad.ops.reduce.extremes import argmax
from nbgrad.ops.rows import softmax as rows
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.shape import unsqueeze

# ---------------------------------------------------------------- activations


def _activated(activation: tuple[Any, tuple[Any, ...]], inplace: bool) -> Tensor:
    op, args = activation
    return write(op, args) if inplace else op.function(*args)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return write(a.relu.op, (input,)) if inplace else a.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return _activated(a.hardtanh_call(input, 0.0, 6.0), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return _activated(a.leaky_relu_call(input, negative_slope, inplace), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return _activated(a.elu_call(input, alpha, inplace), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    return _activated(a.selu_call(input, inplace), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return _activated(a.celu_call(input, alpha, inplace), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return write(a.silu.op, (input,)) if inplace else a.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    return write(a.mish.op, (input,)) if inplace else a.mish(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    return _activated(a.hardtanh_call(input, min_val, max_val), inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return write(a.hardsigmoid.op, (input,)) if inplace else a.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return write(a.hardswish.op, (input,)) if inplace else a.hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return _activated(a.threshold_call(input, threshold, value), inplace)


def softsign(input: Tensor) -> Tensor:
    if input.dtype.is_floating_point:
        return a.softsign(input)
    return e.div(input, e.add(e.abs(input), 1))


def tanhshrink(input: Tensor) -> Tensor:
    return a.tanhshrink(input) if input.dtype.is_floating_point else e.sub(input, tanh(input))


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """In training each number at or below 0 draws its own slope, and the others draw nothing, as PyTorch's do."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return _activated((a._rrelu_steady.op, (input, (lower + upper) / 2)), inplace)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"rrelu_with_noise_out_cpu\" not implemented for '{input.dtype.scalar_name}'"
        )
    noise = np.ones(tuple(input.shape), input.dtype.np)
    low = input._host() <= 0
    gen = generator_of(None)
    noise[low] = generator.uniform(gen, int(low.sum()), dtypes.float64, lower, upper)
    return _activated((a._rrelu_noisy.op, (input, of_array(noise))), inplace)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    return rrelu(input, lower, upper, training, inplace=True)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return input.softmax(_softmax_dim("softmax", input, dim, _stacklevel), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return input.log_softmax(_softmax_dim("log_softmax", input, dim, _stacklevel), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    dim = _softmax_dim("softmin", input, dim, _stacklevel)
    return (-input).softmax(dim, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A draw from classes whose unnormalised log-probabilities are given, softened; `hard`, one-hot with the gradient of the soft one."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = e.neg(e.log(filled.empty_like(logits.detach().contiguous()).exponential_()))
    soft: Tensor = rows.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = scatter(filled.zeros_like(logits), dim, argmax(soft, dim, True), 1.0)
    return e.add(e.sub(chosen, soft.detach()), soft)


def _softmax_dim(name: str, input: Tensor, dim: int | None, stacklevel: int) -> int:
    if dim is not None:
        return dim
    ndim = input.dim()
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not tensor.numel() and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    classes = tensor._host()
    if classes.size and classes.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(classes.max()) + 1
    elif classes.size and classes.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return to_dtype(e.eq(unsqueeze(tensor, -1), counted.arange(num_classes)), dtypes.int64)


__all__ = [
    *_losses,
    *_losses_of_many,
    *_losses_of_two,
    *_margins,
    "alpha_dropout",
    "batch_norm",
    "bilinear",
    "celu",
    "channel_shuffle",
    "celu_",
    "dropout",
    "elu",
    "elu_",
    "embedding",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "gelu",
    "glu",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "multi_head_attention_forward",
    "one_hot",
    "pad",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]
