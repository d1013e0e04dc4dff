"""PyTorch's `functorch`: older names of the transforms, and modules made functions by taking their parameters out.

This module is what `import functorch` gives a script that runs with nbgrad in PyTorch's place. Each name warns, as there, of what has
replaced it.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad import func
from nbgrad.core.tensor import Tensor
from nbgrad.func._modules import functional_call
from nbgrad.nn.modules.module import Module
from nbgrad.ops.views.join import stack

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]


def _deprecated(name: str, instead: str) -> Callable[[Callable[..., Any]], Any]:
    def make(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def old(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(
                f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is deprecated as of "
                f"PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use `{instead}` instead; see the PyTorch "
                "2.0 release notes and/or the `torch.func` migration guide for more details "
                "https://pytorch.org/docs/main/func.migrating.html",
                FutureWarning,
                stacklevel=2,
            )
            return function(*args, **kwargs)

        return old

    return make


vmap = _deprecated("vmap", "torch.vmap")(func.vmap)
grad, grad_and_value, vjp, jvp, jacrev, jacfwd, hessian = (
    _deprecated(f.__name__, f"torch.func.{f.__name__}")(f)
    for f in (func.grad, func.grad_and_value, func.vjp, func.jvp, func.jacrev, func.jacfwd, func.hessian)
)


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters and buffers."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.stateless_model = copy.deepcopy(model)
        self.param_names = tuple(k for k, _ in model.named_parameters())
        self.buffer_names = tuple(k for k, _ in model.named_buffers())
        for module in self.stateless_model.modules():  # what is left holds no values of its own
            tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for table in tables:
                for name, t in table.items():
                    if t is not None:
                        table[name] = t.detach()

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """What the module gives for `args` with these parameters and buffers."""
        values = dict(zip(self.param_names, params)) | dict(zip(self.buffer_names, buffers))
        return functional_call(self.stateless_model, values, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function of its parameters."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """What the module gives for `args` with these parameters."""
        return super().forward(params, (), *args, **kwargs)


def _parameters(model: Module, constant: bool) -> tuple[Tensor, ...]:
    return tuple([p.requires_grad_(False) if constant else p for p in copy.deepcopy(model).parameters()])


@_deprecated("make_functional", "torch.func.functional_call")
def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """The function of a module's parameters, and the parameters."""
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(model), _parameters(model, disable_autograd_tracking)


def _with_buffers(
    model: Module, constant: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    buffers = tuple(copy.deepcopy(model).buffers())
    return FunctionalModuleWithBuffers(model), _parameters(model, constant), buffers


@_deprecated("make_functional_with_buffers", "torch.func.functional_call")
def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The function of a module's parameters and buffers, and both."""
    return _with_buffers(model, disable_autograd_tracking)


@_deprecated("combine_state_for_ensemble", "torch.func.stack_module_state")
def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """For `vmap`: the function of one of the models, and the parameters and buffers of all, those of one name stacked."""
    words = "combine_state_for_ensemble: Expected "
    if not models:
        raise RuntimeError(f"{words}at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError(f"{words}all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError(f"{words}all models to be of the same class.")
    made = [_with_buffers(m) for m in models]
    params, buffers = (
        tuple([stack(column).detach() for column in zip(*[m[k] for m in made])]) for k in (1, 2)
    )
    return made[0][0], params, buffers
