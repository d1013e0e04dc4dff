"""How samples become a batch: tensors are stacked, numbers become tensors, containers are opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.ops.make.data import as_tensor, tensor
from nbgrad.ops.views.join import stack

_REFUSAL = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _is_text(kind: np.dtype[Any]) -> bool:
    return kind.kind in "SUO"


def default_convert(data: Any) -> Any:
    """NumPy's arrays and numbers as tensors, inside of containers too; what has no such form stays.

    >>> import numpy as np
    >>> torch.utils.data.default_convert({"x": np.ones(2), "name": "a"})
    {'x': tensor([1., 1.], dtype=torch.float64), 'name': 'a'}
    """
    if isinstance(data, Tensor) or (isinstance(data, (np.ndarray, np.generic)) and _is_text(data.dtype)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt(data, {k: default_convert(v) for k, v in data.items()})
    if isinstance(data, tuple):
        converted = [default_convert(d) for d in data]
        return type(data)(*converted) if hasattr(data, "_fields") else converted
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(data, [default_convert(d) for d in data])
    return data


def default_collate(batch: Any) -> Any:
    """A batch of samples that are alike: tensors (and arrays) are stacked along a new first dimension, numbers become a tensor,
    containers are opened, texts stay a list.

    >>> torch.utils.data.default_collate([(torch.zeros(2), 3), (torch.ones(2), 4)])
    [tensor([[0., 0.],
            [1., 1.]]), tensor([3, 4])]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch, 0)
    if isinstance(first, np.ndarray):
        if _is_text(first.dtype):
            raise TypeError(_REFUSAL.format(first.dtype))
        return stack([as_tensor(b) for b in batch], 0)
    if isinstance(first, np.generic):
        return as_tensor(np.array(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=dtypes.float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _rebuilt(first, {k: default_collate([d[k] for d in batch]) for k in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(part) for part in zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch)]
        return parts if isinstance(first, tuple) else _rebuilt(first, parts)
    raise TypeError(_REFUSAL.format(type(first)))


def _rebuilt(like: Any, values: Any) -> Any:
    """`values` in a container of the class of `like`, where that class takes them; else as they are."""
    try:
        if isinstance(like, Mapping):
            made: Any = copy(like)
            made.update(values)
        else:
            made = copy(like)
            made[:] = values
        return made
    except (AttributeError, TypeError):
        return values


__all__ = ["default_collate", "default_convert"]
