"""The former place of `torch.func.functional_call`."""

from __future__ import annotations

import warnings
from typing import Any

from nbgrad import func
from nbgrad.nn.modules.module import Module


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """What `torch.func.functional_call` does, which is to be used.

    >>> torch.func.functional_call(nn.Linear(1, 1, bias=False), {"weight": torch.tensor([[2.0]])}, torch.ones(1))
    tensor([2.])
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version of "
        "PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


__all__ = ["functional_call"]
