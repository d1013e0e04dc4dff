"""PyTorch's `torch.accelerator`: whichever kind of GPU there is. There is none in this release, which computes on the CPU."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NoReturn

from nbgrad.memory.device import device as _device


def _none() -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")


class device_index:
    """In a `with`, the one of this index is used where none is named; None changes nothing.

    >>> with torch.accelerator.device_index(None):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _none()

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""


def is_available() -> bool:
    """Whether there is an accelerator to compute on: not in this release.

    >>> torch.accelerator.is_available()
    False
    """
    return False


def device_count() -> int:
    """How many of its kind there are: 0.

    >>> torch.accelerator.device_count()
    0
    """
    return 0


def current_accelerator(check_available: bool = False) -> _device | None:
    """Which kind it is, as a device without an index: None.

    >>> print(torch.accelerator.current_accelerator())
    None
    """
    return None


def synchronize(device: Any = None) -> None:
    """Wait until it has done what it was given.

    >>> torch.accelerator.synchronize() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def current_device_index() -> int:
    """The index of the one that is used where none is named.

    >>> torch.accelerator.current_device_index() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def set_device_index(device: Any, /) -> None:
    """Use this one where none is named.

    >>> torch.accelerator.set_device_index(0) if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def current_stream(device: Any = None) -> Any:
    """The queue that work goes to now.

    >>> torch.accelerator.current_stream() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def set_stream(stream: Any) -> None:
    """Send work to this queue from now on.

    >>> torch.accelerator.set_stream(None) if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def empty_cache() -> None:
    """Give the memory that is kept for the next tensors back.

    >>> torch.accelerator.empty_cache() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def empty_host_cache() -> None:
    """Give the locked memory of the CPU back that is kept for the next copies.

    >>> torch.accelerator.empty_host_cache() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def memory_allocated(device_index: Any = None) -> int:
    """How many bytes tensors take now.

    >>> torch.accelerator.memory_allocated() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def max_memory_allocated(device_index: Any = None) -> int:
    """How many bytes tensors took at most.

    >>> torch.accelerator.max_memory_allocated() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def memory_reserved(device_index: Any = None) -> int:
    """How many bytes the allocator holds.

    >>> torch.accelerator.memory_reserved() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def max_memory_reserved(device_index: Any = None) -> int:
    """How many bytes the allocator held at most.

    >>> torch.accelerator.max_memory_reserved() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def memory_stats(device_index: Any = None) -> dict[str, Any]:
    """The allocator's figures by name.

    >>> torch.accelerator.memory_stats() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def reset_peak_memory_stats(device_index: Any = None) -> None:
    """Begin the figures of most anew.

    >>> torch.accelerator.reset_peak_memory_stats() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def reset_accumulated_memory_stats(device_index: Any = None) -> None:
    """Begin the counts of what was allocated and freed anew.

    >>> torch.accelerator.reset_accumulated_memory_stats() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def get_memory_info(device_index: Any = None) -> tuple[int, int]:
    """The bytes of its memory that are free, and all of them.

    >>> torch.accelerator.get_memory_info() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """What it can compute, by name.

    >>> torch.accelerator.get_device_capability() if torch.accelerator.is_available() else "none"
    'none'
    """
    _none()


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a kind of device, for programs that serve several; of the accelerator without one, or else of the CPU.

    >>> torch.get_device_module().synchronize()
    """
    if device is not None and not isinstance(device, (str, _device)):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = "cpu" if device is None else _device(device).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        )
    return importlib.import_module(f"nbgrad.{kind}")


__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_index",
    "set_stream",
    "synchronize",
]
