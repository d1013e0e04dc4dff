"""Switches of a library that is not there: they can be set, and change nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nbgrad.backends._switches import guard
from nbgrad.core.tensor import Tensor

enabled = True
benchmark = False
benchmark_limit = None
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether the library is there: never.

    >>> import nbgrad
    >>> nbgrad.backends.cudnn.is_available()
    False
    """
    return False


def version() -> None:
    """Its version: None, as it is not there.

    >>> import nbgrad
    >>> print(nbgrad.backends.cudnn.version())
    None
    """
    return None


def is_acceptable(tensor: Tensor) -> bool:
    """Whether the library could take a tensor: none.

    >>> torch.backends.cudnn.is_acceptable(torch.ones(2))
    False
    """
    return False


@contextmanager
def flags(
    enabled: bool | None = False,
    benchmark: bool | None = False,
    benchmark_limit: int = 10,
    deterministic: bool | None = False,
    allow_tf32: bool | None = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> Iterator[None]:
    """In a `with`, the switches are set so.

    >>> with torch.backends.cudnn.flags(enabled=False):
    ...     torch.backends.cudnn.enabled
    False
    """
    module = sys.modules[__name__]
    new = {
        "enabled": enabled,
        "benchmark": benchmark,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
    }
    new = {name: value for name, value in new.items() if value is not None}  # None leaves a switch as it is
    before = {name: getattr(module, name) for name in new}
    for name, value in new.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


guard(
    __name__,
    {
        "enabled": "set_enabled_cudnn",
        "benchmark": "set_benchmark_cudnn",
        "deterministic": "set_deterministic_cudnn",
        "allow_tf32": "set_allow_tf32_cublas",
    },
)
__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "version",
]
