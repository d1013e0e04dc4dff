"""Gradients kept in bounds, in place."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.signatures import kind_name
from nbgrad.core.tensor import Tensor
from nbgrad.ops.linear.norms import vector_norm
from nbgrad.ops.make.data import tensor
from nbgrad.ops.views.join import stack

Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors, warned: bool = False) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        return [tensors]
    found = list(tensors)
    if warned and not found and isinstance(tensors, types.GeneratorType):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=4)
    return found


def _refuse_sparse(grads: list[Tensor], name: str) -> None:
    """PyTorch has neither a norm nor bounds for sparse gradients."""
    if any([type(g) is not Tensor and g.is_sparse for g in grads]):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend: it is for dense gradients only."
        )


def _get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all the tensors as one vector: a tensor without dimensions. With `error_if_nonfinite` one that is not finite is an
    error.

    >>> nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    listed = _listed(tensors)
    norm_type = float(norm_type)
    if not listed:
        return tensor(0.0)
    _ = listed[0].device  # which is what PyTorch misses first where something is no tensor
    if not all([isinstance(t, Tensor) for t in listed]):
        raise TypeError("_group_tensors_by_device_and_dtype(): incompatible function arguments.")
    _refuse_sparse(listed, "linalg_vector_norm")
    with no_grad():
        norms = [vector_norm(t, norm_type) for t in listed]
        total = vector_norm(stack(norms), norm_type)
    if error_if_nonfinite and not total.isfinite().item():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
            "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def _clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients down, in place, as `clip_grad_norm_` does, by a norm that is known already.

    >>> p = nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> nn.utils.clip_grads_with_norm_([p], max_norm=1.0, total_norm=torch.tensor(5.0))
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    with no_grad():
        grads = [p.grad for p in _listed(parameters) if p.grad is not None]
        max_norm = float(max_norm)
        if not grads:
            return
        ratio = max_norm / (total_norm + 1e-6)
        if not isinstance(ratio, Tensor):
            raise TypeError(f"clamp(): argument 'input' (position 1) must be Tensor, not {kind_name(ratio)}")
        factor = ratio.clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients down, in place, so that their norm, as one vector, is at most `max_norm`; give what it was. `norm_type`
    may be infinite.

    >>> p = nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> nn.utils.clip_grad_norm_([p], max_norm=1.0), p.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    params = _listed(parameters, warned=True)
    grads = [p.grad for p in params if p.grad is not None]
    total = _get_total_norm(grads, norm_type, error_if_nonfinite)
    _clip_grads_with_norm_(params, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """`clip_grad_norm_` under its old name, which warns.

    >>> import warnings
    >>> p = nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> with warnings.catch_warnings(action="ignore"):
    ...     nn.utils.clip_grad_norm([p], max_norm=1.0)
    tensor(5.)
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients, in place, between `-clip_value` and `clip_value`.

    >>> p = nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([-3.0, 0.5])
    >>> nn.utils.clip_grad_value_([p], 1.0)
    >>> p.grad
    tensor([-1.0000,  0.5000])
    """
    bound = float(clip_value)
    with no_grad():
        for param in _listed(parameters):
            if param.grad is not None:
                _refuse_sparse([param.grad], "clamp_min_")
                grad: Any = param.grad
                grad.clamp_(-bound, bound)


__all__ = [
    "_clip_grads_with_norm_",
    "_get_total_norm",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
]
