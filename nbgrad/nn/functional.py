"""Activations as functions, with PyTorch's names, defaults, warnings and refusals; what else networks call stands in the modules
that are imported here."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbgrad.base.tables import Table
from nbgrad.base.warn import warn
from nbgrad.core.refusals import no_complex_gradient
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.core.writes import written
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.dispatch.transforms import innermost
from nbgrad.kernels.cpu import distinct as _distinct
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes
from nbgrad.memory.storage import Spec
from nbgrad.nn import _reduction as _Reduction  # noqa: F401
from nbgrad.nn import grad as grad
from nbgrad.nn._attention import (  # noqa: F401
    _canonical_mask,
    _in_projection,
    _in_projection_packed,
    _none_or_dtype,
    multi_head_attention_forward,
    scaled_dot_product_attention,
)
from nbgrad.nn._bags import embedding_bag
from nbgrad.nn._ctc import ctc_loss
from nbgrad.nn._dropouts import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from nbgrad.nn._grids import GRID_SAMPLE_INTERPOLATION_MODES as GRID_SAMPLE_INTERPOLATION_MODES
from nbgrad.nn._grids import GRID_SAMPLE_PADDING_MODES as GRID_SAMPLE_PADDING_MODES
from nbgrad.nn._grids import affine_grid, grid_sample
from nbgrad.nn._groups import group_norm, instance_norm
from nbgrad.nn._linear_cross_entropy import linear_cross_entropy
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
from nbgrad.nn._resampling import *  # noqa: F403
from nbgrad.nn._resampling import __all__ as _resampling
from nbgrad.nn._shapes import channel_shuffle, native_channel_shuffle, pixel_shuffle, pixel_unshuffle
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.padding import pad
from nbgrad.ops.host.values import of_array
from nbgrad.ops.index.gather import scatter
from nbgrad.ops.linear.distances import pdist
from nbgrad.ops.linear.grouped import grouped_mm
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
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.ops.views.shape import unsqueeze
from nbgrad.ops.windows.columns import fold, unfold
from nbgrad.ops.windows.convolutions import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from nbgrad.ops.windows.pooling import *  # noqa: F403
from nbgrad.ops.windows.pooling import __all__ as _pooling
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- activations


def _activated(activation: tuple[Any, tuple[Any, ...]], inplace: bool) -> Tensor:
    op, args = activation
    return write(op, args) if inplace else op.function(*args)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """`max(input, 0)`; with `inplace` written over the input. The gradient is `g` where the input is above 0, else 0.

    >>> x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> F.relu(x).sum().backward()
    >>> x.grad
    tensor([0., 0., 1.])
    """
    return write(a.relu.op, (input,)) if inplace else a.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """The input, kept between 0 and 6. The gradient is `g` strictly between them, else 0.

    >>> F.relu6(torch.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """
    return _activated(a.hardtanh_call(input, 0.0, 6.0), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """The input where it is above 0, else `negative_slope * input`. The gradient is `g` times 1 or `negative_slope`.

    >>> F.leaky_relu(torch.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5000,  2.0000])
    """
    return _activated(a.leaky_relu_call(input, negative_slope, inplace), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The input where it is above 0, else `alpha * (exp(input) - 1)`. There the gradient is `g * alpha * exp(input)`, else `g`.

    >>> F.elu(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _activated(a.elu_call(input, alpha, inplace), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`1.0507 * elu(input, 1.6733)`, with more digits: the numbers that let mean 0 and variance 1 pass from layer to layer.

    >>> F.selu(torch.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return _activated(a.selu_call(input, inplace), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`max(0, input) + min(0, alpha * (exp(input / alpha) - 1))`: an `elu` whose slope is 1 on both sides of 0, whatever `alpha`.

    >>> F.celu(torch.tensor([-1.0, 2.0]), alpha=0.5)
    tensor([-0.4323,  2.0000])
    """
    return _activated(a.celu_call(input, alpha, inplace), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """`input * sigmoid(input)`, also called swish. The gradient is `g * s * (1 + input * (1 - s))`, s being the sigmoid.

    >>> F.silu(torch.tensor([-1.0, 1.0]))
    tensor([-0.2689,  0.7311])
    """
    if inplace:
        return write(a.silu.op, (input,))
    no_complex_gradient("silu", input)
    return a.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """`input * tanh(softplus(input))`.

    >>> F.mish(torch.tensor([-1.0, 1.0]))
    tensor([-0.3034,  0.8651])
    """
    return write(a.mish.op, (input,)) if inplace else a.mish(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """The input, kept between `min_val` and `max_val`. The gradient is `g` strictly between them, else 0.

    >>> F.hardtanh(torch.tensor([-2.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    return _activated(a.hardtanh_call(input, min_val, max_val), inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """`input / 6 + 1/2`, kept between 0 and 1. The gradient is `g / 6` for inputs between -3 and 3, else 0.

    >>> F.hardsigmoid(torch.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return write(a.hardsigmoid.op, (input,)) if inplace else a.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """`input * hardsigmoid(input)`: 0 below -3, the input above 3.

    >>> F.hardswish(torch.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """
    return write(a.hardswish.op, (input,)) if inplace else a.hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """The input where it is above `threshold`, else `value`. The gradient is `g` above, else 0.

    >>> F.threshold(torch.tensor([0.5, 1.5]), 1.0, -7.0)
    tensor([-7.0000,  1.5000])
    """
    return _activated(a.threshold_call(input, threshold, value), inplace)


def softsign(input: Tensor) -> Tensor:
    """`input / (1 + |input|)`. The gradient is `g / (1 + |input|)**2`.

    >>> F.softsign(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    if input.dtype.is_floating_point:
        return a.softsign(input)
    return e.div(input, e.add(e.abs(input), 1))


def tanhshrink(input: Tensor) -> Tensor:
    """`input - tanh(input)`. The gradient is `g * tanh(input)**2`.

    >>> F.tanhshrink(torch.tensor([-1.0, 3.0]))
    tensor([-0.2384,  2.0049])
    """
    return a.tanhshrink(input) if input.dtype.is_floating_point else e.sub(input, tanh(input))


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """The input where it is above 0, else `slope * input`. In training each number at or below 0 draws its own slope, uniform
    between `lower` and `upper`, and the others draw nothing; else the slope is the middle of the two.

    >>> F.rrelu(torch.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5000,  2.0000])
    >>> F.rrelu(torch.tensor([-1.0, -1.0]), 0.25, 0.75, training=True)
    tensor([-0.7350, -0.6039])
    """
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if training and state.levels:
        raise RuntimeError("vmap: we do not yet support aten::rrelu. Please file an issue")
    if not training:
        return _activated((a._rrelu_steady.op, (input, (lower + upper) / 2)), inplace)
    if not input.dtype.is_floating_point or input.dtype is dtypes.float16:
        raise NotImplementedError(
            f"\"rrelu_with_noise_out_cpu\" not implemented for '{input.dtype.scalar_name}'"
        )
    if not input.is_cpu:
        drawn = filled.empty_like(input.detach()).uniform_(lower, upper)
        return _activated((a._rrelu_noisy.op, (input, e.where(e.le(input.detach(), 0), drawn, 1.0))), inplace)
    noise = np.ones(tuple(input.shape), input.dtype.host)
    low = input._host() <= 0
    gen = generator_of(None)
    noise[low] = generator.uniform(gen, int(low.sum()), dtypes.float64, lower, upper)
    return _activated((a._rrelu_noisy.op, (input, to_dtype(of_array(noise), input.dtype))), inplace)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """`rrelu` in place: the tensor itself becomes the result.

    >>> F.rrelu_(torch.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5000,  2.0000])
    """
    return rrelu(input, lower, upper, training, inplace=True)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`exp(input)`, divided by its sum along `dim`: numbers above 0 whose sum is 1. Computed from `input - max(input)`, so that
    nothing overflows. The gradient is `y * (g - sum(g * y))` along `dim`, y being the result. `dtype`, if given, is what the
    input is first cast to.

    >>> F.softmax(torch.tensor([[0.0, 0.0], [0.0, 1.0]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.2689, 0.7311]])
    """
    return input.softmax(_softmax_dim("softmax", input, dim, _stacklevel), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`input - log(sum(exp(input)))` along `dim`: the logarithm of `softmax`, exact also where that underflows. The gradient is `g -
    softmax(input) * sum(g)`.

    >>> F.log_softmax(torch.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    return input.log_softmax(_softmax_dim("log_softmax", input, dim, _stacklevel), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`softmax(-input)` along `dim`: the smallest gets the most.

    >>> F.softmin(torch.tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    dim = _softmax_dim("softmin", input, dim, _stacklevel)
    return (-input).softmax(dim, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A draw from classes whose unnormalised log-probabilities are `logits`, softened: `softmax((logits + noise) / tau)` along
    `dim`, the noise being Gumbel's. With `hard` the result is one-hot, and the gradient that of the soft one.

    >>> F.gumbel_softmax(torch.tensor([0.0, 0.0, 9.0]), hard=True)
    tensor([0., 0., 1.])
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
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
    warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


def _quick_one_hot(tensor: Spec, num_classes: Any) -> Quick | None:
    if num_classes == -1 and tensor.dtype is dtypes.int64 and tensor.contiguous and 0 < tensor.numel < FEW:
        return _as_many_as_there_are(tensor)
    if type(num_classes) is not int or num_classes < 1 or tensor.dtype is not dtypes.int64:
        return None
    if not tensor.contiguous or not tensor.numel:
        return None
    made, told, n = tensor.like((*tensor.shape, num_classes)), backend.cpu.told, tensor.numel
    address = backend.cpu.kernel("one_hot", *_distinct.one_hot()).address
    launch, cleared, nbytes = backend.cpu.launch(3, "q", 1, made.numel < FEW), backend.cpu.zeros, made.nbytes

    def found(t: Tensor) -> Tensor | None:
        rows, (number, seen) = cleared(nbytes), told.count
        launch(address, n, t._buf, rows, number, num_classes)
        if seen[0]:
            return None
        hot = wrap(rows, made)
        written(hot)  # zeros, as in PyTorch
        return hot

    return found


def _as_many_as_there_are(tensor: Spec) -> Quick:
    """Of classes that are counted at each call: what knows their number is kept for each."""
    of: Table[int, Quick] = Table("nn.functional.one_hot", 256)
    shape, array = (tensor.numel,), np.ndarray

    def counted(t: Tensor) -> Tensor | None:
        count: int = max(array(shape, np.int64, t._buf).tolist()) + 1
        run = of.get(count)
        if run is None:
            run = _quick_one_hot(tensor, count) if count > 0 else None
            if run is None:  # a class that is none is refused where all is
                return None
            of.keep(count, run)
        found: Tensor | None = run(t)
        return found

    return counted


@quickly(_quick_one_hot)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """For each integer c a vector with 1 at place c and 0 elsewhere: [...] becomes [..., num_classes], and int64. Without
    `num_classes` it is the greatest integer plus 1.

    >>> F.one_hot(torch.tensor([2, 0]))
    tensor([[0, 0, 1],
            [1, 0, 0]])
    """
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not tensor.numel() and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if not tensor.is_cpu:  # as in PyTorch a GPU is only waited for where the number of classes is not given
        if num_classes == -1 and (num_classes := int(tensor.max()) + 1) < 1:
            raise RuntimeError("Class values must be non-negative.")
    elif state.levels and num_classes <= 0:
        raise RuntimeError(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument."
        )
    else:
        classes = innermost(tensor)._host()
        if classes.size and classes.min() < 0:
            raise RuntimeError("Class values must be non-negative.")
        if num_classes == -1:
            num_classes = int(classes.max()) + 1
        elif classes.size and classes.max() >= num_classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    if tensor.is_cuda or not state.active:  # a GPU's writes tell of a class that is none
        none = zeros(tensor._spec.plain.like((*tensor.shape, num_classes)))
        return none.scatter_(-1, unsqueeze(tensor, -1), 1)
    places = counted.arange(num_classes, device=tensor.device)
    return to_dtype(e.eq(unsqueeze(tensor, -1), places), dtypes.int64)


__all__ = [
    *_losses,
    *_losses_of_many,
    *_losses_of_two,
    *_margins,
    *_pooling,
    *_resampling,
    "affine_grid",
    "alpha_dropout",
    "batch_norm",
    "bilinear",
    "celu",
    "channel_shuffle",
    "celu_",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "dropout",
    "elu",
    "elu_",
    "ctc_loss",
    "embedding",
    "embedding_bag",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "fold",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "grouped_mm",
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
    "linear_cross_entropy",
    "log_softmax",
    "logsigmoid",
    "mish",
    "multi_head_attention_forward",
    "native_channel_shuffle",
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
    "unfold",
]
