"""The older names `torch.cuda.amp` and `torch.cpu.amp`, for one kind of device each, which warn."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from nbgrad.amp import autocast_mode, grad_scaler
from nbgrad.core.casting import DEFAULTS
from nbgrad.memory.dtypes import dtype as _dtype


def _warn(kind: str, name: str) -> None:
    warnings.warn(
        f"`torch.{kind}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{kind}', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


def autocast_of(kind: str) -> type[autocast_mode.autocast]:
    """`autocast` of that kind of device."""

    class autocast(autocast_mode.autocast):
        __doc__ = f"`torch.amp.autocast('{kind}')`, which is the name to use."

        def __init__(
            self, enabled: bool = True, dtype: _dtype = DEFAULTS[kind], cache_enabled: bool = True
        ) -> None:
            _warn(kind, "autocast")
            super().__init__(kind, dtype, enabled, cache_enabled)

    autocast.__module__, autocast.__qualname__ = f"torch.{kind}.amp.autocast_mode", "autocast"
    return autocast


def scaler_of(kind: str) -> type[grad_scaler.GradScaler]:
    """`GradScaler` of that kind of device."""

    class GradScaler(grad_scaler.GradScaler):
        __doc__ = f"`torch.amp.GradScaler('{kind}')`, which is the name to use."

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            _warn(kind, "GradScaler")
            super().__init__(kind, *args, **kwargs)

    GradScaler.__module__, GradScaler.__qualname__ = f"torch.{kind}.amp.grad_scaler", "GradScaler"
    return GradScaler


def custom_fwd(fwd: Any = None, *, cast_inputs: _dtype | None = None) -> Any:
    """`torch.amp.custom_fwd` of a GPU, which is the name to use."""
    _warn("cuda", "custom_fwd")
    return functools.partial(autocast_mode.custom_fwd, device_type="cuda")(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`torch.amp.custom_bwd` of a GPU, which is the name to use."""
    _warn("cuda", "custom_bwd")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
