"""How samples become a batch: tensors are stacked, numbers become tensors, containers are opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.ops.make.data import as_tensor, tensor
from nbgrad.ops.views.join import stack

Functions = dict[Any, Callable[..., Any]]

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


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


def collate(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    """A batch by the function that `collate_fn_map` has for its samples' class, or the first of its classes that they are of; containers
    without one are opened.

    >>> from torch.utils.data._utils.collate import collate, collate_int_fn
    >>> collate([{"x": 1}, {"x": 2}], collate_fn_map={int: collate_int_fn})
    {'x': tensor([1, 2])}
    """
    first = batch[0]
    if collate_fn_map is not None:
        kind: Any = type(first)
        if kind not in collate_fn_map:
            kind = next((k for k in collate_fn_map if isinstance(first, k)), None)
        if kind is not None:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return _rebuilt(
            first, {k: collate([d[k] for d in batch], collate_fn_map=collate_fn_map) for k in first}
        )
    if isinstance(first, Sequence):
        named = isinstance(first, tuple) and hasattr(first, "_fields")
        if not named and any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch)]
        if named:
            return type(first)(*parts)
        return parts if isinstance(first, tuple) else _rebuilt(first, parts)
    raise TypeError(default_collate_err_msg_format.format(type(first)))


def collate_tensor_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    return stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    if _is_text(batch[0].dtype):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    return as_tensor(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    return tensor(batch, dtype=dtypes.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Functions | None = None) -> Any:
    return batch


# PyTorch's, which libraries add classes of their own to: in this order, so a NumPy float is none of Python's.
default_collate_fn_map: Functions = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """A batch of samples that are alike: tensors (and arrays) are stacked along a new first dimension, numbers become a tensor,
    containers are opened, texts stay a list.

    >>> torch.utils.data.default_collate([(torch.zeros(2), 3), (torch.ones(2), 4)])
    [tensor([[0., 0.],
            [1., 1.]]), tensor([3, 4])]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def _rebuilt(like: Any, values: Any) -> Any:
    """`values` in a container of the class of `like`, which may hold more than them; as they are where that class does not take them."""
    try:
        if not isinstance(like, (MutableMapping, MutableSequence)):
            return type(like)(values)
        made = copy(like)
        if isinstance(made, MutableMapping):
            made.update(values)
        else:
            for i, value in enumerate(values):
                made[i] = value
        return made
    except TypeError:
        return values


__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_err_msg_format",
    "default_collate_fn_map",
    "default_convert",
]
