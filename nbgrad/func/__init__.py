"""PyTorch's `torch.func`: transforms of functions.

This module only re-exports: what a name is stands in the module that it comes from.
"""

from typing import Any

from nbgrad.autograd._vmap import vmap
from nbgrad.func._derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from nbgrad.func._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state


def functionalize(func: object, *, remove: str = "mutations") -> Any:
    """PyTorch's `func` without writes in place: refused, as there is no graph here that would have to be free of them.

    >>> import nbgrad
    >>> nbgrad.func.functionalize(nbgrad.sin)
    Traceback (most recent call last):
        ...
    NotImplementedError: torch.func.functionalize is not supported: it rewrites ...
    """
    raise NotImplementedError(
        "torch.func.functionalize is not supported: it rewrites the writes of a function for compilers of PyTorch's graphs"
    )


__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
