"""The older form of `parametrizations.spectral_norm`: the weight is divided by its largest singular value before each call, which a
step of power iteration follows while the module is trained."""

from __future__ import annotations

from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter, UninitializedParameter
from nbgrad.nn.utils.parametrizations import _as_matrix, _direction, _output_dim, _power_steps
from nbgrad.ops.linear.products import dot, mv


class SpectralNorm:
    """The hook that computes the weight.

    >>> layer = nn.utils.spectral_norm(nn.Linear(2, 3))
    >>> hook, = layer._forward_pre_hooks.values()
    >>> hook.compute_weight(layer, do_power_iteration=False).shape
    torch.Size([3, 2])
    """

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The original over its largest singular value, which `u` and `v` tell; steps of power iteration change these in place."""
        weight, u, v = [getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v")]
        matrix = _as_matrix(weight, self.dim)
        if do_power_iteration:
            _power_steps(matrix, u, v, self.n_power_iterations, self.eps, v_first=True)
            u, v = u.clone(), v.clone()  # the next step writes over what this one's gradient reads
        divided: Tensor = weight / dot(u, mv(matrix, v))
        return divided

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for part in ("u", "v", "orig"):
            delattr(module, f"{self.name}_{part}")
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Give a module the parameter `name_orig` and the buffers `name_u` and `name_v` in place of `name`."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy forward before "
                "applying spectral normalization"
            )
        with no_grad():
            rows, columns = _as_matrix(weight, dim).shape
            u, v = [_direction(weight, n, eps) for n in (rows, columns)]
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)  # what is no parameter, for who asks before the first call
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_Version(name))
        return hook


class _Version:
    """Notes in a state dict in which form the singular vectors are kept."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        noted = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.name}.version"
        if key in noted:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        noted[key] = SpectralNorm._version


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, as `parametrizations.spectral_norm`, which is to be used.

    >>> layer = nn.utils.spectral_norm(nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, _output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight, as it is now, a parameter again.

    >>> layer = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(2, 3)))
    >>> list(layer.state_dict())
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for key, noted in module._state_dict_hooks.items():
        if isinstance(noted, _Version) and noted.name == name:
            del module._state_dict_hooks[key]
            break
    return module


__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]
