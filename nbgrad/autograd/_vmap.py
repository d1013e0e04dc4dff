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

from nbgrad.core.pytree import TreeSpec, broadcast_to_and_flatten, tree_flatten, tree_unflatten
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
        leaves, spec, dims, size = _examples(func, in_dims, args)

        def run(values: list[Any], count: int) -> tuple[list[Tensor], TreeSpec, list[int]]:
            with mapped(count, randomness) as level:
                inside = [v if d is None else put_in(v, d, level) for v, d in zip(values, dims)]
                return _results(func, func(*tree_unflatten(inside, spec), **kwargs), out_dims, level)

        if chunk_size is None or chunk_size >= size:
            outs, out_spec, _ = run(leaves, size)
            return tree_unflatten(outs, out_spec)
        kept = generator.default_generator.state() if randomness == "same" else None
        parts: list[list[Tensor]] = []
        for start in range(0, size, chunk_size):
            count = min(chunk_size, size - start)
            if kept is not None:
                generator.default_generator.restore(kept)
            cut = [v if d is None else v.narrow(d, start, count) for v, d in zip(leaves, dims)]
            outs, out_spec, places = run(cut, count)
            parts.append(outs)
        joined = [cat(column, d) for column, d in zip(zip(*parts), places)]
        return tree_unflatten(joined, out_spec)

    return mapped_over


def _name(func: Any) -> str:
    if isinstance(func, functools.partial):
        return f"functools.partial({_name(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


def _examples(
    func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...]
) -> tuple[list[Any], TreeSpec, list[Any], int]:
    """The inputs' leaves, their structure, where the examples of each lie, and how many there are."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple "
            f"matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = broadcast_to_and_flatten(in_dims, spec)
    where = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
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
    return leaves, spec, dims, _size(leaves, dims)


def _size(leaves: list[Any], dims: list[Any]) -> int:
    sizes = [x.shape[d] for x, d in zip(leaves, dims) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return int(sizes[0])


def _results(
    func: Callable[..., Any], result: Any, out_dims: Any, level: Level
) -> tuple[list[Tensor], TreeSpec, list[int]]:
    """What all examples give, with their count where `out_dims` wants it."""
    outs, spec = tree_flatten(result)
    dims = broadcast_to_and_flatten(out_dims, spec)
    if isinstance(result, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = [out_dims[0]]
    if dims is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    if any(not isinstance(d, int) and d is not None for d in dims):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    name = _name(func)
    taken = []
    for x, d in zip(outs, dims):
        if d is None:
            if isinstance(x, Tensor) and type(x._buf) is Batched and x._buf.level is level:
                if x._buf.has:
                    raise ValueError(
                        f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
                    )
                x = x._buf.inner
            taken.append(x)
        elif not isinstance(x, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set out_dims= to None for "
                "output?"
            )
        else:
            taken.append(take_out(x, wrap_dim(d, x.ndim + 1), level))
    return taken, spec, dims


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
