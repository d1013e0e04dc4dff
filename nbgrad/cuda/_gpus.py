"""Which GPU a call is for, and the refusals of all calls that need one where there is none.

There, what PyTorch's build without CUDA answers is answered, to the type and the text of the exception.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from nbgrad.memory import gpu
from nbgrad.memory.device import device as _device

P = ParamSpec("P")
R = TypeVar("R")


def need() -> None:
    """Start CUDA, as every call does that needs a GPU."""
    gpu.check()


def absent(name: str) -> None:
    """Refuse what a build without CUDA has not at all."""
    if not gpu.device_count():
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'")


def placeholder(name: str) -> None:
    """Refuse a class that is there only for its name."""
    if not gpu.device_count():
        raise RuntimeError(f"Tried to instantiate dummy base class {name}")


def served(device: Any = None) -> gpu.CUDA:
    """What serves a GPU, the current one unless it is named."""
    need()
    index = index_of(device, optional=True)
    if not 0 <= index < gpu.device_count():
        raise AssertionError("Invalid device id")
    return gpu.of(_device("cuda", index))


def index_of(device: Any, optional: bool = False) -> Any:
    """The index that stands for a GPU, or is said in its name; where `optional`, None is the current one, if there is one."""
    if isinstance(device, str):
        device = _device(device)
    if isinstance(device, _device):
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        found: Any = device.index
    else:
        found = getattr(device, "idx", device)  # of a `torch.cuda.device`
    if found is None and optional and gpu.device_count():
        return gpu.current.index
    if found is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return found


def exchange(index: Any) -> int:
    """Make a GPU the current one, and say which was; nothing for a negative index."""
    if index < 0:
        return -1
    if not gpu.device_count():
        raise RuntimeError("PyTorch was compiled without CUDA support")
    return gpu.choose(index)


def deprecated(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Of a former name: a call warns first."""

    def around(f: Callable[P, R]) -> Callable[P, R]:
        @wraps(f)
        def warning(*args: P.args, **named: P.kwargs) -> R:
            warnings.warn(text, FutureWarning, stacklevel=2)
            return f(*args, **named)

        return warning

    return around
