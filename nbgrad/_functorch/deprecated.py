"""The transforms by their older names: each warns, as in PyTorch, of what has replaced it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from nbgrad import func
from nbgrad._functorch import make_functional as modules


def _deprecated(name: str, function: Callable[..., Any], instead: str) -> Any:
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


vmap = _deprecated("vmap", func.vmap, "torch.vmap")
grad, grad_and_value, vjp, jvp, jacrev, jacfwd, hessian, functionalize = (
    _deprecated(f.__name__, f, f"torch.func.{f.__name__}")
    for f in (
        *(func.grad, func.grad_and_value, func.vjp, func.jvp, func.jacrev, func.jacfwd, func.hessian),
        func.functionalize,
    )
)
make_functional, make_functional_with_buffers = (
    _deprecated(f.__name__, f, "torch.func.functional_call")
    for f in (modules.make_functional, modules.make_functional_with_buffers)
)
combine_state_for_ensemble = _deprecated(
    "combine_state_for_ensemble", modules.combine_state_for_ensemble, "torch.func.stack_module_state"
)
