"""`autocast`, and what asks and tells its switches."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from nbgrad.core import casting as _casting
from nbgrad.core.casting import DEFAULTS, casting
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import device, gpus
from nbgrad.memory.dtypes import bfloat16, dtype, float16, float64
from nbgrad.ops.linear import products as _products


def _known(device_type: Any) -> str:
    """A kind of device that can cast, or PyTorch's refusal."""
    kind: str = device(device_type).type
    if kind not in DEFAULTS:
        raise RuntimeError("unknown device type for autocast in get_autocast_dispatch_key_from_device_type")
    return kind


def is_autocast_available(device_type: str) -> bool:
    """Whether calls on such a device can be cast.

    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    return device(device_type).type in DEFAULTS


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether calls on such a device are cast now; without a name, on a GPU.

    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled()
    (True, False)
    """
    return ("cuda" if device_type is None else _known(device_type)) in casting.on


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch casting on or off: `set_autocast_enabled("cpu", True)`, or, of a GPU, `set_autocast_enabled(True)`.

    >>> torch.set_autocast_enabled("cpu", False)
    """
    kind, on = ("cuda", device_type) if enabled is None else (_known(device_type), enabled)
    if on:
        _casting.begin(vars(_products))
    casting.on = (*[other for other in casting.on if other != kind], *([kind] if on else []))


def get_autocast_dtype(device_type: str) -> dtype:
    """What operands are cast to there.

    >>> torch.get_autocast_dtype("cpu")
    torch.bfloat16
    """
    return casting.dtypes[_known(device_type)]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Choose what operands are cast to there.

    >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    """
    casting.dtypes = {**casting.dtypes, _known(device_type): dtype}


def is_autocast_cache_enabled() -> bool:
    """Whether a parameter is cast once, and not at each use.

    >>> torch.is_autocast_cache_enabled()
    True
    """
    return casting.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Choose whether a parameter is cast once.

    >>> torch.set_autocast_cache_enabled(True)
    """
    casting.caching = bool(enabled)


def autocast_increment_nesting() -> int:
    """Count that a region was entered.

    >>> torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
    (1, 0)
    """
    casting.nesting += 1
    return casting.nesting


def autocast_decrement_nesting() -> int:
    """Count that a region was left.

    >>> torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
    (1, 0)
    """
    casting.nesting -= 1
    return casting.nesting


def clear_autocast_cache() -> None:
    """Forget what parameters were cast to.

    >>> torch.clear_autocast_cache()
    """
    casting.cache.clear()


def _older(call: str, now: str, function: Callable[..., Any], *given: Any) -> Callable[..., Any]:
    """A function by an older name, which warns of it: what one called, and what to call."""

    def older(*args: Any) -> Any:
        text = f"torch.{call} is deprecated. Please use torch.{now} instead."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return function(*given, *args)

    older.__name__ = older.__qualname__ = call.partition("(")[0]
    older.__doc__ = f"The older name of `torch.{now}`."
    return older


is_autocast_cpu_enabled = _older(
    "is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')", is_autocast_enabled, "cpu"
)
set_autocast_cpu_enabled = _older(
    "set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)", set_autocast_enabled, "cpu"
)
get_autocast_cpu_dtype = _older(
    "get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')", get_autocast_dtype, "cpu"
)
set_autocast_cpu_dtype = _older(
    "set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)", set_autocast_dtype, "cpu"
)
get_autocast_gpu_dtype = _older(
    "get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')", get_autocast_dtype, "cuda"
)
set_autocast_gpu_dtype = _older(
    "set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)", set_autocast_dtype, "cuda"
)


def autocast_decorator(autocast_instance: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs within an `autocast`.

    >>> product = torch.amp.autocast_mode.autocast_decorator(torch.autocast("cpu"), torch.mm)
    >>> product(torch.ones(1, 1), torch.ones(1, 1)).dtype
    torch.bfloat16
    """

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    decorated.__script_unsupported = "@autocast() decorator is not supported in script mode"  # type: ignore[attr-defined]
    return decorated


class autocast:
    """Within it, and within functions that it decorates, operands are cast as PyTorch's lists say: products and convolutions compute in
    `dtype` (bfloat16 on a CPU, float16 on a GPU), some other functions in float32, the rest in what they are given. A backward is
    called outside.

    >>> weight = torch.ones(2, 3, requires_grad=True)
    >>> with torch.autocast("cpu"):
    ...     y = F.linear(torch.ones(1, 3), weight)
    >>> y.dtype, torch.autograd.grad(y.sum(), weight)[0].dtype
    (torch.bfloat16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        kind = device(device_type).type
        if kind not in DEFAULTS:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = kind
        self.custom_backend_name = "privateuseone"
        self.fast_dtype = casting.dtypes[kind] if dtype is None else dtype
        self._cache_enabled = casting.caching if cache_enabled is None else cache_enabled
        if kind == "cuda" and enabled and not gpus.count():
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        if kind == "cpu" and enabled and self.fast_dtype not in (bfloat16, float16):
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled

    def __enter__(self) -> autocast:
        self._before = (casting.on, casting.dtypes, casting.caching)
        set_autocast_dtype(self.device, self.fast_dtype)
        set_autocast_enabled(self.device, self._enabled)
        autocast_increment_nesting()
        casting.caching = self._cache_enabled
        return self

    def __exit__(self, *_: object) -> None:
        if not autocast_decrement_nesting():
            clear_autocast_cache()
        casting.on, casting.dtypes, casting.caching = self._before

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return autocast_decorator(self, func)


def _enter_autocast(*vals: Any) -> autocast:
    return autocast(*vals).__enter__()


def _exit_autocast(mode: autocast) -> None:
    mode.__exit__(None, None, None)


def _cast(value: Any, device_type: str, dtype: dtype) -> Any:
    """Of what a forward is given, tensors of that device in another floating dtype."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type
        return value.to(dtype) if eligible and value.dtype is not float64 else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(one, device_type, dtype) for one in value])
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: dtype | None = None) -> Any:
    """For the `forward` of an autograd function: its backward, under `custom_bwd`, casts as it did; with `cast_inputs` it gets its operands
    in that dtype and casts nothing itself.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    >>> Double.apply(torch.ones(1))
    tensor([2.])
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        on = is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """For the `backward` of an autograd function: it casts as its forward did.

    >>> torch.amp.custom_bwd(lambda ctx, grad: grad, device_type="cpu").__name__
    '<lambda>'
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type=device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated


__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]
