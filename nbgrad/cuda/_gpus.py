"""Which GPU a call is for, and the refusals of all calls that need one: there is none in this release, which computes on the CPU.

What PyTorch's build without CUDA answers is answered, to the type and the text of the exception.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

from nbgrad.memory.device import device as _device

P = ParamSpec("P")
R = TypeVar("R")


def need() -> NoReturn:
    """Start CUDA, as every call does that needs a GPU."""
    raise AssertionError("Torch not compiled with CUDA enabled")


def absent(name: str) -> NoReturn:
    """What such a build has not at all."""
    raise AttributeError(f"module 'torch._C' has no attribute '{name}'")


def placeholder(name: str) -> NoReturn:
    """A class that is there only for its name."""
    raise RuntimeError(f"Tried to instantiate dummy base class {name}")


def index_of(device: Any, optional: bool = False) -> Any:
    """The index that stands for a GPU, or is said in its name; where `optional`, None is the current one, which none is."""
    if isinstance(device, str):
        device = _device(device)
    if isinstance(device, _device):
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        found: Any = device.index
    else:
        found = device
    if found is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return found


def exchange(index: Any) -> int:
    """Make a GPU the current one, and say which was; nothing for a negative index."""
    if index < 0:
        return -1
    raise RuntimeError("PyTorch was compiled without CUDA support")


def deprecated(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Of a former name: a call warns first."""

    def around(f: Callable[P, R]) -> Callable[P, R]:
        @wraps(f)
        def warning(*args: P.args, **named: P.kwargs) -> R:
            warnings.warn(text, FutureWarning, stacklevel=2)
            return f(*args, **named)

        return warning

    return around
