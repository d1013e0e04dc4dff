"""PyTorch's package `functorch`, which `import functorch` gives a script run with nbgrad. This package only re-exports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbgrad._functorch.deprecated import combine_state_for_ensemble as combine_state_for_ensemble
from nbgrad._functorch.deprecated import functionalize as functionalize
from nbgrad._functorch.deprecated import grad as grad
from nbgrad._functorch.deprecated import grad_and_value as grad_and_value
from nbgrad._functorch.deprecated import hessian as hessian
from nbgrad._functorch.deprecated import jacfwd as jacfwd
from nbgrad._functorch.deprecated import jacrev as jacrev
from nbgrad._functorch.deprecated import jvp as jvp
from nbgrad._functorch.deprecated import make_functional as make_functional
from nbgrad._functorch.deprecated import make_functional_with_buffers as make_functional_with_buffers
from nbgrad._functorch.deprecated import vjp as vjp
from nbgrad._functorch.deprecated import vmap as vmap
from nbgrad._functorch.make_functional import FunctionalModule as FunctionalModule
from nbgrad._functorch.make_functional import FunctionalModuleWithBuffers as FunctionalModuleWithBuffers

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("nbgrad.torch_version").__version__
        if name == "make_fx":  # which brings graphs with it
            return import_module("nbgrad.fx.experimental.proxy_tensor").make_fx
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
