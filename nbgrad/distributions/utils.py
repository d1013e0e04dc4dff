"""What distributions share: parameters brought to one shape, chances and their logarithms, what is computed when it is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from nbgrad.autograd.grad_mode import enable_grad
from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import finfo, get_default_dtype
from nbgrad.nn import functional as F
from nbgrad.ops.arrange.parts import broadcast_tensors
from nbgrad.ops.make.counted import tril_indices
from nbgrad.ops.make.data import tensor
from nbgrad.ops.make.filled import empty

euler_constant = 0.57721566490153286060
Numeric = (bool, int, float)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor, or says by PyTorch's protocol that it stands for one."""
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def broadcast_all(*values: Any) -> Any:
    """The values as tensors of one shape; numbers among them take the dtype of the first tensor, or the default one.

    >>> torch.distributions.utils.broadcast_all(torch.zeros(2), 1)
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not all(is_tensor(v) or isinstance(v, Numeric) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    if not all(map(is_tensor, values)):
        first = next((v for v in values if isinstance(v, Tensor)), None)
        kind: dict[str, Any] = (
            {"dtype": get_default_dtype()}
            if first is None
            else {"dtype": first.dtype, "device": first.device}
        )
        values = tuple([v if is_tensor(v) else tensor(v, **kind) for v in values])
    return broadcast_tensors(*values)


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions together."""
    return value.reshape((*value.shape[:-dim], -1)).sum(-1) if dim else value


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Chances from their logarithms, which need not be normalised; from log-odds if `is_binary`.

    >>> torch.distributions.utils.logits_to_probs(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Chances that are neither 0 nor 1, by as little as the dtype can tell apart from 1.

    >>> torch.distributions.utils.clamp_probs(torch.tensor([0.0, 0.5]))
    tensor([1.1921e-07, 5.0000e-01])
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logarithms of chances, or their log-odds if `is_binary`; a chance of 0 or 1 is taken as one next to it.

    >>> torch.distributions.utils.probs_to_logits(torch.tensor([0.5, 0.25]), is_binary=True)
    tensor([ 0.0000, -1.0986])
    """
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property:
    """A property that is computed when it is first read, with gradients recorded, and stays as an attribute.

    >>> D = torch.distributions.utils
    >>> class Circle:
    ...     @D.lazy_property
    ...     def area(self): return 3.0
    >>> circle = Circle()
    >>> circle.area, circle.__dict__
    (3.0, {'area': 3.0})
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a class shows: a property, which documentation reads."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of the lower triangles of matrices, row by row; `diag` moves the triangle's edge to the right.

    >>> torch.distributions.utils.tril_matrix_to_vec(torch.tensor([[1, 0], [2, 3]]))
    tensor([1, 2, 3])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices whose lower triangles are filled with the vectors, row by row: `tril_matrix_to_vec` turned round.

    >>> torch.distributions.utils.vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    twice = 1 + 2 * diag
    root = math.sqrt(twice**2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1))
    n = (root - twice) / 2
    if round(n) - n > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square D x D "
            "matrix."
        )
    n = round(n)
    rows, columns = tril_indices(n, n, diag, device=vec.device)
    matrix = vec.new_zeros((*vec.shape[:-1], n, n))
    matrix[..., rows, columns] = vec
    return matrix


__all__ = [
    *("broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"),
    *("tril_matrix_to_vec", "vec_to_tril_matrix"),
]
