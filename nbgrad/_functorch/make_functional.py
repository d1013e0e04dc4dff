"""Modules made functions by taking their parameters out, as PyTorch had them before `torch.func`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.func import functional_call
from nbgrad.nn.modules.module import Module
from nbgrad.ops.views.join import stack


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters and buffers."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.stateless_model = copy.deepcopy(model)
        self.param_names = tuple(k for k, _ in model.named_parameters())
        self.buffer_names = tuple(k for k, _ in model.named_buffers())
        bare: dict[int, Tensor] = {}  # what several names share stays one
        for module in self.stateless_model.modules():  # what is left holds no values of its own
            tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for table in tables:
                for name, t in table.items():
                    if t is not None:
                        table[name] = bare.setdefault(id(t), t.detach())

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


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The function of a module's parameters and buffers, and both."""
    return _with_buffers(model, disable_autograd_tracking)


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
