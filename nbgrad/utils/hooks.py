"""`torch.utils.hooks`: what registering a hook returns, and what modules hang theirs on."""

import warnings
from collections.abc import Callable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules._hooks import BackwardHook
from nbgrad.tape.node import RemovableHandle

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a hook whose loss, when its tensor is saved, needs no warning.

    >>> from nbgrad.utils.hooks import unserializable_hook
    >>> @unserializable_hook
    ... def hook(grad):
    ...     return 2 * grad
    >>> hook(1.0)
    2.0
    """
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook on the tensor that is not marked by `unserializable_hook`.

    >>> from nbgrad.utils.hooks import warn_if_has_hooks
    >>> warn_if_has_hooks(torch.zeros(1))
    """
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the function with "
                "@torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )
