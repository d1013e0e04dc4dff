"""PyTorch's `torch.autograd`: gradients, modes, custom functions, checks, and the graph itself.

This module only re-exports: what a name is stands in the module that it comes from.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nbgrad.autograd import anomaly_mode as anomaly_mode
from nbgrad.autograd import forward_ad as forward_ad
from nbgrad.autograd import functional as functional
from nbgrad.autograd import grad_mode as grad_mode
from nbgrad.autograd import graph as graph
from nbgrad.autograd._run import backward, grad
from nbgrad.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from nbgrad.autograd.function import Function, NestedIOFunction
from nbgrad.autograd.grad_mode import _force_original_view_tracking as _force_original_view_tracking
from nbgrad.autograd.grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_multithreading_enabled,
    is_view_replay_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from nbgrad.autograd.gradcheck import gradcheck, gradgradcheck
from nbgrad.autograd.variable import Variable
from nbgrad.history.saved import SavedTensor
from nbgrad.tape.modes import state

if TYPE_CHECKING:
    from nbgrad.autograd import function as function
    from nbgrad.autograd import profiler as profiler


def variable(*args: Any, **kwargs: Any) -> Any:
    """PyTorch has this in the place of the module, which is found by `import`."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


def _is_checkpoint_valid() -> bool:
    """Whether a part may run its own backward now: not inside of one that was asked for some gradients only."""
    return state.task is None or not state.task.asked


if not TYPE_CHECKING:  # for which all names are there

    def __getattr__(name: str) -> Any:
        if name == "profiler":  # few programs need it
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Function",
    "NestedIOFunction",
    "SavedTensor",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_multithreading_enabled",
    "is_view_replay_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
