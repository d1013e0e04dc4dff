"""What optimisers written outside, after the pattern of PyTorch's own, take from `torch.optim.optimizer`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.autograd.grad_mode import set_grad_enabled
from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import dtype, float32, float64, get_default_dtype
from nbgrad.ops.views.parts import view_as_real

_FOREACH = ("cuda", "xpu", "mtia", "privateuseone")
FUSED = ("mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone")

# Ends of docstrings.
_params_doc = "params (iterable): parameters, pairs of a name and a parameter, or dicts of groups"
_foreach_doc = "foreach (bool, optional): by lists of tensors at once"
_fused_doc = "fused (bool, optional): in one kernel"
_capturable_doc = "capturable (bool, optional): whether a step can be recorded in a graph of CUDA's"
_differentiable_doc = "differentiable (bool, optional): whether a step can be differentiated"
_maximize_doc = "maximize (bool, optional): climb in place of descending"


def _default_to_fused_or_foreach(
    params: Sequence[Tensor | None], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether to step in one kernel, and whether by lists, where the user says nothing: on a CPU neither, as PyTorch."""
    if differentiable:
        return False, False
    there = [p for p in params if p is not None]
    fused = use_fused and all([p.device.type in FUSED and p.is_floating_point() for p in there])
    return fused, not fused and all([p.device.type in _FOREACH for p in there])


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """`step` with a graph if the optimiser's default `differentiable` says so, and without one if not."""

    @functools.wraps(step)
    def settled(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return settled


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _stack_if_compiling(x: Any) -> Any:
    """PyTorch stacks what it compiles; here one piece of code serves both."""
    return x


def _view_as_real(params: list[Tensor], *state: list[Tensor]) -> None:
    """Complex parameters as pairs of real ones, and their states with them, in the lists themselves."""
    for k, p in enumerate(params):
        if p.is_complex():
            params[k] = view_as_real(p)
            for s in state:
                s[k] = view_as_real(s[k])


def _get_scalar_dtype(is_fused: bool | None = None) -> dtype:
    return float64 if not is_fused and get_default_dtype() == float64 else float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _get_foreach_kernels_supported_devices() -> list[str]:
    return list(_FOREACH)


def _get_fused_kernels_supported_devices() -> list[str]:
    return list(FUSED)


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that changes nothing: all that such functions do can be compiled here."""
    return lambda function: function


__all__ = [
    *("_capturable_doc", "_default_to_fused_or_foreach", "_differentiable_doc", "_foreach_doc", "_fused_doc"),
    *("_disable_dynamo_if_unsupported", "_get_capturable_supported_devices", "_get_scalar_dtype"),
    *("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices", "_get_value"),
    *("_maximize_doc", "_params_doc", "_stack_if_compiling", "_to_scalar", "_use_grad_for_differentiable"),
    "_view_as_real",
]
