"""Dropout and its kin: each element, or each channel, of the noise is one trial, drawn as PyTorch draws it."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.stanza import words_in_place
from nbgrad.memory import dtypes
from nbgrad.ops import pointwise as e
from nbgrad.ops.make import devices, drawn, filled, sampling
from nbgrad.tape.modes import state

_SELU = 1.7580993408473766  # what SELU tends to, far below zero


def _checked(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        kind = RuntimeError if p != p else ValueError
        raise kind(f"dropout probability has to be between 0 and 1, but got {p}")


def _check_of_torch(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


def _applied(input: Tensor, p: float, training: bool, inplace: bool, channels: bool, alpha: bool) -> Tensor:
    """`channels`: one trial for all that stands at one place of the first two dimensions. `alpha`: what is dropped goes to where SELU
    tends, and mean and variance are kept."""
    if not training or p == 0 or not input.numel():
        return input
    if p == 1:
        return (
            input.mul_(0)
            if inplace
            else e.mul(input, filled.zeros((), dtype=input.dtype, device=input.device))
        )
    if channels and input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if channels or state.levels:
        shape: Any = (*tuple(input.shape)[:2], *(1,) * (input.ndim - 2)) if channels else input.shape
        room = drawn.per_example(
            lambda sizes: filled.empty(sizes, dtype=input.dtype, device=input.device), shape
        )
    else:
        room = filled.empty_like(input)  # in whose memory trials are drawn one after the other
    if (
        not (channels or inplace or alpha or room._spec.backend.prompt or state.levels)
        and room._spec.contiguous
        and input.dtype.is_floating_point
    ):
        return e.mul(input, devices.noise(room, None, 1 - p))
    noise = sampling.bernoulli_(room, 1 - p)
    if not input.dtype.is_floating_point:  # PyTorch finds out behind its draws
        whole = (noise.add(-1) if alpha else noise).dtype.scalar_name
        raise RuntimeError(f"result type Float can't be cast to the desired output type {whole}")
    if not alpha:
        noise.div_(1 - p)
        return input.mul_(noise) if inplace else e.mul(input, noise)
    a = 1 / math.sqrt((_SELU * _SELU * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(_SELU * a).add_(_SELU * a * p)
    noise.mul_(a)
    return input.mul_(noise).add_(shift) if inplace else e.add(e.mul(input, noise), shift)


def _of_torch(op: Any, channels: bool, alpha: bool, inplace: bool = False) -> Any:
    """`torch.dropout` and kin, of which all arguments must be given."""

    def function(input: Tensor, p: float, train: bool) -> Tensor:
        _check_of_torch(p)
        return _applied(input, p, train, inplace, channels, alpha)

    function.__name__ = function.__qualname__ = f"{op.__name__}{'_' * inplace}"
    function.__doc__ = words_in_place(op) if inplace else op.__doc__
    return function


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """What is left and scaled by `1 / (1 - p)`, and the mask of what was left. With `train=False` nothing is dropped.

    >>> torch.native_dropout(torch.ones(4), 0.5, True)
    (tensor([0., 0., 2., 0.]), tensor([False, False,  True, False]))
    """
    if not input.numel():
        return input, filled.empty_like(input)
    if train is not None and not train:
        return input.clone(), filled.ones_like(input, dtype=dtypes.bool_)
    mask = sampling.bernoulli_(filled.empty_like(input, dtype=dtypes.bool_), 1 - p)
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"result type Float can't be cast to the desired output type {input.dtype.scalar_name}"
        )
    return e.mul(e.mul(input, mask), 0.0 if p == 1 else 1 / (1 - p)), mask


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is 0 with probability `p`, and the others are divided by `1 - p`, so that the mean stays; else the
    input itself. The gradient passes through what was left, scaled alike.

    >>> F.dropout(torch.ones(6))
    tensor([0., 0., 2., 0., 0., 0.])
    """
    _checked(p)
    return _applied(input, p, training, inplace, False, False)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """In training each element goes with probability `p` to about -1.758, where `selu` tends for small numbers; all are then scaled
    and shifted so that mean 0 and variance 1 stay as they are.

    >>> F.alpha_dropout(torch.ones(4), training=True)
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """
    _checked(p)
    return _applied(input, p, training, inplace, False, True)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels: all that stands at one place of the first two dimensions goes together.

    >>> F.feature_alpha_dropout(torch.ones(1, 3, 2), training=True)
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656]]])
    """
    _checked(p)
    return _applied(input, p, training, inplace, True, True)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [batch, channels, length], or of [channels, length].

    >>> F.dropout1d(torch.ones(1, 3, 2))
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.]]])
    """
    _checked(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    return _batched(input, 3, p, training, inplace)


def _batched(input: Tensor, ndim: int, p: float, training: bool, inplace: bool) -> Tensor:
    """By channels; of an input without a batch, as of a batch of one."""
    if input.ndim == ndim:
        return _applied(input, p, training, inplace, True, False)
    if inplace:
        _applied(input.unsqueeze(0), p, training, True, True, False)
        return input
    return _applied(input.unsqueeze(0), p, training, False, True, False).squeeze(0)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [batch, channels, height, width]: all that stands at one place of the first two dimensions goes
    together.

    >>> F.dropout2d(torch.ones(1, 3, 1, 2)).squeeze()
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """
    _checked(p)
    if input.ndim not in (3, 4):
        warn(
            f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that dropout2d "
            "exists to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel dimension, and an optional "
            "batch dimension (i.e. 3D or 4D inputs)."
        )
    if input.ndim == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
            "input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future "
            "release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
            "channel-wise dropout behavior, please switch to using dropout1d instead."
        )
    return _applied(input, p, training, inplace, True, False)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of [batch, channels, depth, height, width], or without the batch.

    >>> F.dropout3d(torch.ones(1, 3, 1, 1, 2)).squeeze()
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """
    _checked(p)
    if input.ndim not in (4, 5):
        warn(
            f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that dropout3d "
            "exists to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel dimension, and an optional "
            "batch dimension (i.e. 4D or 5D inputs)."
        )
    return _batched(input, 5, p, training, inplace)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` of whole channels: all that stands at one place of the first two dimensions goes together.

    >>> torch.feature_dropout(torch.ones(1, 3, 2), 0.5, True)
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.]]])
    """
    _check_of_torch(p)
    return _applied(input, p, train, False, True, False)


torch_dropout = _of_torch(dropout, False, False)
torch_alpha_dropout = _of_torch(alpha_dropout, False, True)
torch_feature_alpha_dropout = _of_torch(feature_alpha_dropout, True, True)
dropout_ = _of_torch(dropout, False, False, True)
alpha_dropout_ = _of_torch(alpha_dropout, False, True, True)
feature_dropout_ = _of_torch(feature_dropout, True, False, True)
feature_alpha_dropout_ = _of_torch(feature_alpha_dropout, True, True, True)
