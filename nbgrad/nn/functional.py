"""Activations as functions, with PyTorch's names, defaults, warnings and refusals; what else networks call stands in the modules
that are imported here."""

from __future__ import annotations

import warnings
from typing import Any

from nbgrad import _creation, _dtypes
from nbgrad._dispatch import inplace
from nbgrad._tensor import Tensor
from nbgrad.nn._dropouts import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from nbgrad.nn._losses import *  # noqa: F403
from nbgrad.nn._losses import __all__ as _losses
from nbgrad.nn._maps import bilinear, embedding
from nbgrad.nn._norms import batch_norm, layer_norm, rms_norm
from nbgrad.ops import elementwise as e
from nbgrad.ops import rows
from nbgrad.ops.copy import to_dtype
from nbgrad.ops.elementwise import gelu, sigmoid, softplus, tanh
from nbgrad.ops.linalg import linear
from nbgrad.ops.movement import unsqueeze

# ---------------------------------------------------------------- activations


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return _activated(e.relu, input, inplace)


def relu_(input: Tensor) -> Tensor:
    return _activated(e.relu, input, True)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return _activated(e.silu, input, inplace)


def _activated(function: Any, input: Tensor, where_it_stands: bool) -> Tensor:
    return inplace(function.op, (input,)) if where_it_stands else function(input)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return rows.softmax(input, _softmax_dim("softmax", input, dim, _stacklevel), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return rows.log_softmax(input, _softmax_dim("log_softmax", input, dim, _stacklevel), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return rows.softmax(e.neg(input), _softmax_dim("softmin", input, dim, _stacklevel), dtype)


def _softmax_dim(name: str, input: Tensor, dim: int | None, stacklevel: int) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    if tensor.dtype is not _dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == 0 or (not tensor.numel() and num_classes < 0):
        raise RuntimeError(
            "Can not infer total number of classes from empty tensor."
            if num_classes < 0
            else "num_classes should be positive"
        )
    classes = tensor._host()
    if classes.size and classes.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes < 0:
        num_classes = int(classes.max()) + 1
    elif classes.size and classes.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return to_dtype(e.eq(unsqueeze(tensor, -1), _creation.arange(num_classes)), _dtypes.int64)


__all__ = [
    *_losses,
    "alpha_dropout",
    "batch_norm",
    "bilinear",
    "dropout",
    "embedding",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "one_hot",
    "relu",
    "relu_",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "tanh",
]
