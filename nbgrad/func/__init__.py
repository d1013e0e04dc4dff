"""PyTorch's `torch.func`: transforms of functions.

This module only re-exports: what a name is stands in the module that it comes from.
"""

from nbgrad.autograd._vmap import vmap
from nbgrad.func._derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from nbgrad.func._modules import functional_call, replace_all_batch_norm_modules_, stack_module_state

__all__ = [
    "functional_call",
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
