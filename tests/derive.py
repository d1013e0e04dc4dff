"""Gradients of a case to second order, by the same steps in any torch-like module."""

import zlib
from types import ModuleType
from typing import Any

import numpy as np

from tests.cases import OpCase, Sample
from tests.compare import leaves


def cotangent(T: ModuleType, like: Any, seed: int) -> Any:
    """Fixed random numbers, themselves differentiable, so that every gradient depends on something."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 1.5, tuple(like.shape))
    if like.dtype.is_complex:
        values = values + 1j * rng.uniform(0.5, 1.5, tuple(like.shape))
    return T.tensor(values).to(like.dtype).detach().requires_grad_()


def gradients(
    T: ModuleType, case: OpCase, sample: Sample, create_graph: bool
) -> tuple[list[Any], list[Any], list[Any]]:
    """(gradients of the operands, the operands, the cotangents)"""
    tensors = sample.tensors(T, requires_grad=True)
    inputs = [t for t in tensors if t.requires_grad]
    outputs = [t for t in leaves(case.fn(T, *tensors)) if hasattr(t, "dtype") and t.requires_grad]
    seeds = [cotangent(T, t, zlib.crc32(case.name.encode()) + i) for i, t in enumerate(outputs)]
    if not create_graph:
        seeds = [t.detach() for t in seeds]
    grads = T.autograd.grad(outputs, inputs, seeds, create_graph=create_graph, allow_unused=True)
    return list(grads), inputs, seeds


def second_order(T: ModuleType, case: OpCase, sample: Sample) -> tuple[list[Any], list[Any]]:
    """(gradients, gradients of a random combination of them with respect to operands and cotangents)"""
    grads, inputs, seeds = gradients(T, case, sample, create_graph=True)
    roots = [g for g in grads if g is not None and g.requires_grad]
    if not roots:
        return grads, []
    weights = [cotangent(T, g, i).detach() for i, g in enumerate(roots)]
    return grads, list(T.autograd.grad(roots, [*inputs, *seeds], weights, allow_unused=True))
