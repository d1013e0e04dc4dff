"""`vmap`: a function of one example as a function of many.

Promises that the function runs once, on tensors that look as one example's, and that it may itself be a transform or be transformed.
Ops have rules that compute all examples at once; the few that have none compute one after the other and stack the results, which costs
as many calls as there are examples. What needs the values on the host (`item`, a branch on a tensor, `nonzero`) is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from nbgrad.core.pytree import TreeSpec, tree_flatten, tree_unflatten
from nbgrad.core.pytree import broadcast_to_and_flatten as _broadcast_to_and_flatten
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.transforms import mapped, put_in, take_out
from nbgrad.memory.layout import wrap_dim
from nbgrad.memory.storage import Batched, Level
from nbgrad.ops.make import generator
from nbgrad.ops.make.data import from_array
from nbgrad.ops.views.copy import moved
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import split

__all__ = ["vmap"]

Result = TypeVar("Result")


def vmap(
    func: Callable[..., Result],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Result]:
    """`func` over examples that lie along `in_dims` of the inputs (None: the same for all) and come out along `out_dims`. Keyword
    arguments are the same for all.

    `randomness` says whether a random op is refused ("error"), the "same" for all examples, or "different". `chunk_size` is how many
    examples are computed at once.

    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.vmap(torch.dot, in_dims=(0, None))(rows, torch.ones(2))
    tensor([3., 7.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped_over(*args: Any, **kwargs: Any) -> Any:
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)

        def run(values: list[Any], count: int) -> Any:
            with mapped(count, randomness) as level:
                inside = _create_batched_inputs(dims, values, level, spec)
                return _unwrap_batched(func(*inside, **kwargs), out_dims, level, count, func)

        if chunk_size is None or chunk_size >= size:
            return run(leaves, size)
        kept = generator.default_generator.state() if randomness == "same" else None
        parts: list[list[Tensor]] = []
        for start in range(0, size, chunk_size):
            count = min(chunk_size, size - start)
            if kept is not None:
                generator.default_generator.restore(kept)
            outs, out_spec = tree_flatten(
                run([v if d is None else v.narrow(d, start, count) for v, d in zip(leaves, dims)], count)
            )
            parts.append(outs)
        places = _out_dims(func, out_dims, tree_unflatten(parts[0], out_spec), out_spec)
        return tree_unflatten([cat(column, d) for column, d in zip(zip(*parts), places)], out_spec)

    return mapped_over


# PyTorch's names: libraries put functions of their own in their place, which take the batches of their containers apart.
# The level is theirs to hand on.


def _get_name(func: Any) -> str:
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


def _process_batched_inputs(
    in_dims: Any, args: tuple[Any, ...], func: Callable[..., Any]
) -> tuple[int, list[Any], list[Any], TreeSpec]:
    """How many examples there are, where those of each leaf lie, the inputs' leaves and their structure."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple "
            f"matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_get_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    where = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    if dims is None:
        raise ValueError(
            f"{where}in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    for k, (x, d) in enumerate(zip(leaves, dims)):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(
                f"{where}Got in_dim={d} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{where}Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, "
                "please use None as the respective in_dim"
            )
        if not -x.ndim <= d < x.ndim:
            raise ValueError(
                f"{where}Got in_dim={d} for some input, but that input is a Tensor of dimensionality {x.ndim} so expected in_dim "
                f"to satisfy -{x.ndim} <= in_dim < {x.ndim}."
            )
        dims[k] = wrap_dim(d, x.ndim)
    return _validate_and_get_batch_size(dims, leaves), dims, leaves, spec


def _validate_and_get_batch_size(dims: list[Any], leaves: list[Any]) -> int:
    sizes = [x.shape[d] for x, d in zip(leaves, dims) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return int(sizes[0])


def _create_batched_inputs(dims: list[Any], leaves: list[Any], level: Level, spec: TreeSpec) -> Any:
    return tree_unflatten(
        [x if d is None else _add_batch_dim(x, d, level) for x, d in zip(leaves, dims)], spec
    )


def _unwrap_batched(result: Any, out_dims: Any, level: Level, size: int, func: Callable[..., Any]) -> Any:
    """What all examples give, with their count where `out_dims` wants it."""
    outs, spec = tree_flatten(result)
    dims = _out_dims(func, out_dims, result, spec)
    name = _get_name(func)
    return tree_unflatten(
        [_maybe_remove_batch_dim(name, x, level, size, d) for x, d in zip(outs, dims)], spec
    )


def _out_dims(func: Callable[..., Any], out_dims: Any, result: Any, spec: TreeSpec) -> list[Any]:
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if isinstance(result, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = [out_dims[0]]
    if dims is None:
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    if any(not isinstance(d, int) and d is not None for d in dims):
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    return dims


def _maybe_remove_batch_dim(name: str, x: Any, level: Level, size: int, dim: int | None) -> Any:
    if dim is None:
        if isinstance(x, Tensor) and type(x._buf) is Batched and x._buf.level is level:
            if x._buf.has:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
                )
            return x._buf.inner
        return x
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set out_dims= to None for "
            "output?"
        )
    return _remove_batch_dim(x, level, size, dim)


def _add_batch_dim(x: Tensor, dim: int, level: Level) -> Tensor:
    return put_in(x, dim, level)


def _remove_batch_dim(x: Tensor, level: Level, size: int, dim: int) -> Tensor:
    return take_out(x, wrap_dim(dim, x.ndim + 1), level)


def is_batchedtensor(x: Tensor) -> bool:
    return type(x._buf) is Batched


def get_unwrapped(x: Tensor) -> Tensor:
    return x._buf.inner if type(x._buf) is Batched else x


# ---------------------------------------------------------------- all directions at once


def basis(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """For each tensor the directions of all elements of all tensors, one after the other along a first dimension."""
    total = sum(t.numel() for t in tensors)
    found, start = [], 0
    for t in tensors:
        sp = t._spec
        made = from_array(np.eye(total, sp.numel, -start, sp.dtype.host).reshape(total, *sp.shape))
        found.append(moved(made, sp.dtype, sp.device))
        start += sp.numel
    return tuple(found)


def by_input(column: Tensor, shape: Sequence[int], inputs: Sequence[Tensor]) -> list[Tensor]:
    """What an output of this shape became in each of the `basis` of the inputs, as one Jacobian for each input."""
    parts = split(column, [x.numel() for x in inputs], 0)
    return [reshape(part.movedim(0, -1), (*shape, *x.shape)) for part, x in zip(parts, inputs)]
