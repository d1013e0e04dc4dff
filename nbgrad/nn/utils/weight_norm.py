"""The older form of `parametrizations.weight_norm`: lengths and directions are parameters of the module itself, and the weight is
computed from them before each call."""

from __future__ import annotations

import warnings
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter, UninitializedParameter
from nbgrad.nn.utils.parametrizations import _WeightNorm


class WeightNorm:
    """The hook that computes the weight."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self._norm = name, _WeightNorm(dim)
        self.dim = self._norm.dim

    def compute_weight(self, module: Module) -> Any:
        """Length times direction."""
        return self._norm(getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v"))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Give a module the parameters `name_g` and `name_v` in place of `name`."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight: Tensor = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward before "
                "applying weight normalization"
            )
        length, direction = hook._norm.right_inverse(weight)
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(length.data))
        module.register_parameter(f"{name}_v", Parameter(direction.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the lengths and the directions of the rows of a weight apart, as parameters `weight_g` and `weight_v`; better done so:

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> layer.weight.shape
    torch.Size([3, 2])
    """
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight one parameter again; of `parametrizations.weight_norm` that is done so:

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> list(nn.utils.parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")


__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]
