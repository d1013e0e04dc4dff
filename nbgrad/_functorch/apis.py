"""PyTorch's path to `vmap` and `grad`, and the older `vmap` by a number of parts."""

from collections.abc import Callable
from typing import Any

from nbgrad.autograd._vmap import _process_batched_inputs
from nbgrad.func import grad as grad
from nbgrad.func import grad_and_value as grad_and_value
from nbgrad.func import vmap as vmap


def chunk_vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable[..., Any]:
    """`torch.vmap` in so many parts, one after the other; `chunk_size=` of `vmap` says how large they are.

    >>> torch._functorch.apis.chunk_vmap(torch.sum, chunks=2)(torch.ones(4, 3))
    tensor([3., 3., 3., 3.])
    """
    whole = vmap(func, in_dims, out_dims, randomness)  # which judges what it is given, and is named as it

    def in_parts(*args: Any, **kwargs: Any) -> Any:
        size = _process_batched_inputs(in_dims, args, func)[0]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(-(-size // chunks), 1))(
            *args, **kwargs
        )

    in_parts.__dict__.update(vars(whole))
    return whole if chunks == 1 else in_parts
