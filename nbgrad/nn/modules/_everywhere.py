"""Hooks of all modules, whatever their class.

Promises `Module` the tables of them; a call without hooks asks only whether these are empty.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from nbgrad.nn.modules._hooks import Hook
from nbgrad.tape.node import HookTable, RemovableHandle, register

_global_forward_pre_hooks: HookTable = OrderedDict()
_global_forward_hooks: HookTable = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: HookTable = OrderedDict()
_global_backward_hooks: HookTable = OrderedDict()
_global_is_full_backward_hook: bool | None = None  # of which kind those are, once there was one
_global_module_registration_hooks: HookTable = OrderedDict()
_global_parameter_registration_hooks: HookTable = OrderedDict()
_global_buffer_registration_hooks: HookTable = OrderedDict()
_registration = {
    "module": _global_module_registration_hooks,
    "parameter": _global_parameter_registration_hooks,
    "buffer": _global_buffer_registration_hooks,
}


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, args)` before the forward of every module; what it returns, if not None, are the arguments. The handle that this
    gives takes the hook off again by `remove()`.

    >>> handle = nn.modules.module.register_module_forward_pre_hook(lambda module, args: print(type(module).__name__))
    >>> y = nn.ReLU()(torch.ones(1))
    ReLU
    >>> handle.remove()
    """
    return register(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, result)` after the forward of every module; what it returns, if not None, is the result. With
    `with_kwargs` it is `hook(module, args, kwargs, result)`, with `always_call` it runs even if the forward raised.

    >>> handle = nn.modules.module.register_module_forward_hook(lambda module, args, result: result + 1)
    >>> nn.ReLU()(torch.ones(1))
    tensor([2.])
    >>> handle.remove()
    """
    marks = [
        (_global_forward_hooks_with_kwargs, with_kwargs),
        (_global_forward_hooks_always_called, always_call),
    ]
    return register(_global_forward_hooks, hook, marks=marks)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, grad_output)` of every module, when the gradients of its outputs are known: see
    `Module.register_full_backward_pre_hook`.
    """
    return register(_global_backward_pre_hooks, hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` at the last node of every module's forward: see `Module.register_backward_hook`."""
    return _register_global_backward_hook(hook, False)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` of every module, when the gradients of its inputs are known: see
    `Module.register_full_backward_hook`.
    """
    return _register_global_backward_hook(hook, True)


def _register_global_backward_hook(hook: Hook, full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one of them."
        )
    _global_is_full_backward_hook = full
    return register(_global_backward_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, name, submodule)` whenever a module is registered; what it returns takes its place."""
    return register(_registration["module"], hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, name, parameter)` whenever a parameter is registered; what it returns takes its place."""
    return register(_registration["parameter"], hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """`hook(module, name, tensor)` whenever a buffer is registered; what it returns takes its place."""
    return register(_registration["buffer"], hook)


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What is kept of a value that a module is given under a name."""
    for hook in _registration[kind].values():
        got = hook(module, name, value)
        value = value if got is None else got
    return value
