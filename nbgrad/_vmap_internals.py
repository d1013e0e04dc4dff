"""Where PyTorch had `vmap` first, and where libraries still look for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nbgrad.func import vmap

in_dims_t = int | tuple[Any, ...]
out_dims_t = int | tuple[int, ...]


def _vmap(
    func: Callable[..., Any],
    in_dims: in_dims_t = 0,
    out_dims: out_dims_t = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """`vmap`; with `allow_none_pass_through` a result that is None stays None.

    >>> torch._vmap_internals._vmap(lambda v: (v.sum(), None), allow_none_pass_through=True)(torch.ones(2, 3))
    (tensor([3., 3.]), None)
    """
    if not allow_none_pass_through:
        return vmap(func, in_dims, out_dims)

    @functools.wraps(func)
    def mapped(*args: Any) -> Any:
        made: list[Any] = []

        def tensors(*example: Any) -> Any:
            made[:] = [func(*example)]
            results = made[0] if isinstance(made[0], tuple) else made
            return tuple([x for x in results if x is not None])

        found = iter(vmap(tensors, in_dims)(*args))
        several = isinstance(made[0], tuple)
        results = made[0] if several else made
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(results)
        done = tuple([None if x is None else next(found).movedim(0, dim) for x, dim in zip(results, dims)])
        return done if several else done[0]

    return mapped


__all__ = ["in_dims_t", "out_dims_t", "vmap"]
