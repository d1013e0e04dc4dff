"""How a tensor of a state dict becomes one of a module's."""

from __future__ import annotations

import warnings
from typing import Any

from nbgrad import __future__
from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.nn.parameter import Parameter, is_lazy
from nbgrad.ops.host.swap import swap_tensors


def _as_parameter(t: Tensor, requires_grad: bool) -> Parameter:
    if not isinstance(t, Parameter):
        return Parameter(t, requires_grad)
    t.requires_grad_(requires_grad)
    return t


def _swap_loaded(own: Tensor, loaded: Tensor, given: Tensor) -> None:
    if loaded is given or loaded is own:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in module_load"
        )
    swap_tensors(own, _as_parameter(loaded, own.requires_grad) if isinstance(own, Parameter) else loaded)


def load_one(
    module: Any, name: str, key: str, own: Tensor, given: Any, assign: bool, error_msgs: list[str]
) -> None:
    """Copy a tensor from a state dict into one of the module's own, or note why not."""
    if not (isinstance(given, Tensor) or hasattr(given, "__torch_function__")):
        error_msgs.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(given)}"
        )
        return
    if is_lazy(own):
        return
    if own.ndim == 0 and tuple(given.shape) == (1,):
        given = given[0]
    if given.shape != own.shape:
        error_msgs.append(
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in current "
            f"model is {own.shape}."
        )
        return
    swap = __future__.get_swap_module_params_on_conversion()
    if own.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
            "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
            "corresponding key in the module instead of copying them in place?)",
            UserWarning,
            stacklevel=4,
        )
    try:
        with no_grad():
            if swap:
                _swap_loaded(own, own.module_load(given, assign=assign), given)
                return
            if not assign:
                own.copy_(given)
                return
            if isinstance(own, Parameter):
                given = _as_parameter(given, own.requires_grad)
            setattr(module, name, given)
    except Exception as error:
        error_msgs.append(
            f'While {"swapping" if swap else "copying"} the parameter named "{key}", whose dimensions in the model are '
            f"{own.size()} and whose dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}."
        )
