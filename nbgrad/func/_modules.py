"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbgrad.core.tensor import Tensor
from nbgrad.ops.views.join import stack

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]

if TYPE_CHECKING:
    from nbgrad.nn.modules.module import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with these tensors for its parameters and buffers, which themselves stay as they are. Tied parameters
    take one value; with `strict` all have to be given.

    >>> double = {"weight": torch.tensor([[2.0]])}
    >>> torch.func.functional_call(nn.Linear(1, 1, bias=False), double, torch.tensor([5.0]))
    tensor([10.])
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        values = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        for d in parameter_and_buffer_dicts:
            if not isinstance(d, dict):
                raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        keys = [k for d in parameter_and_buffer_dicts for k in d]
        repeated = [k for k in dict.fromkeys(keys) if keys.count(k) > 1]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        values = {k: v for d in parameter_and_buffer_dicts for k, v in d.items()}
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    from nbgrad.nn.utils.stateless import _functional_call  # here: `import nbgrad` loads no modules

    return _functional_call(module, values, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and buffers of models of one kind, those of one name stacked: what `vmap` over `functional_call` takes.

    >>> parameters, buffers = torch.func.stack_module_state([nn.Linear(2, 1), nn.Linear(2, 1)])
    >>> parameters["weight"].shape
    torch.Size([2, 1, 2])
    """
    if not len(models):
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return (
        _stacked([dict(m.named_parameters()) for m in models]),
        _stacked([dict(m.named_buffers()) for m in models]),
    )


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for name in states[0]:
        ones = [state[name] for state in states]
        if len({t.requires_grad for t in ones}) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        found[name] = stack(ones).detach().requires_grad_(ones[0].requires_grad)
    return found


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Every batch norm in `root` keeps no running statistics from now on: what a transform could not let it write to.

    >>> torch.func.replace_all_batch_norm_modules_(nn.BatchNorm1d(2)).running_mean is None
    True
    """
    from nbgrad.nn.modules.batchnorm import _BatchNorm  # here, as above

    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
