"""PyTorch's `torch.accelerator`: whichever kind of GPU there is, which is CUDA's or none."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from nbgrad.memory import dtypes, gpu, pinned
from nbgrad.memory.device import device as _device


def _cuda() -> Any:
    """PyTorch's face of the accelerator, which there must be."""
    if not gpu.device_count():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return importlib.import_module("nbgrad.cuda")


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
            _cuda()
            self._before = gpu.choose(self.idx)

    def __exit__(self, *_: object) -> None:
        if self.idx is not None:
            gpu.choose(self._before)


def is_available() -> bool:
    """Whether there is an accelerator to compute on.

    >>> torch.accelerator.is_available() == (torch.accelerator.device_count() > 0)
    True
    """
    return gpu.device_count() > 0


def device_count() -> int:
    """How many of its kind there are.

    >>> torch.accelerator.device_count() >= 0
    True
    """
    return gpu.device_count()


def current_accelerator(check_available: bool = False) -> _device | None:
    """Which kind it is, as a device without an index: None where there is none.

    >>> torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "none"
    'none'
    """
    return _device("cuda") if gpu.device_count() else None


def synchronize(device: Any = None) -> None:
    """Wait until it has done what it was given.

    >>> torch.accelerator.synchronize() if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda().synchronize(device)


def current_device_index() -> int:
    """The index of the one that is used where none is named.

    >>> torch.accelerator.current_device_index() if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda()
    return gpu.current.index


def set_device_index(device: Any, /) -> None:
    """Use this one where none is named.

    >>> torch.accelerator.set_device_index(0) if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda().set_device(device)


def current_stream(device: Any = None) -> Any:
    """The queue that work goes to now.

    >>> torch.accelerator.current_stream() if torch.accelerator.is_available() else "none"
    'none'
    """
    return _cuda().current_stream(device)


def set_stream(stream: Any) -> None:
    """Send work to this queue from now on.

    >>> torch.accelerator.set_stream(None) if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda().set_stream(stream)


def empty_cache() -> None:
    """Give the memory that is kept for the next tensors back.

    >>> torch.accelerator.empty_cache() if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda().empty_cache()


def empty_host_cache() -> None:
    """Give the locked memory of the CPU back that is kept for the next copies.

    >>> torch.accelerator.empty_host_cache() if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda()
    pinned.pool.empty()


def memory_allocated(device_index: Any = None) -> int:
    """How many bytes tensors take now.

    >>> torch.accelerator.memory_allocated() if torch.accelerator.is_available() else "none"
    'none'
    """
    return int(_cuda().memory_allocated(device_index))


def max_memory_allocated(device_index: Any = None) -> int:
    """How many bytes tensors took at most.

    >>> torch.accelerator.max_memory_allocated() if torch.accelerator.is_available() else "none"
    'none'
    """
    return int(_cuda().max_memory_allocated(device_index))


def memory_reserved(device_index: Any = None) -> int:
    """How many bytes the allocator holds.

    >>> torch.accelerator.memory_reserved() if torch.accelerator.is_available() else "none"
    'none'
    """
    return int(_cuda().memory_reserved(device_index))


def max_memory_reserved(device_index: Any = None) -> int:
    """How many bytes the allocator held at most.

    >>> torch.accelerator.max_memory_reserved() if torch.accelerator.is_available() else "none"
    'none'
    """
    return int(_cuda().max_memory_reserved(device_index))


def memory_stats(device_index: Any = None) -> dict[str, Any]:
    """The allocator's figures by name.

    >>> torch.accelerator.memory_stats() if torch.accelerator.is_available() else "none"
    'none'
    """
    return dict(_cuda().memory_stats(device_index))


def reset_peak_memory_stats(device_index: Any = None) -> None:
    """Begin the figures of most anew.

    >>> torch.accelerator.reset_peak_memory_stats() if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda().reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: Any = None) -> None:
    """Begin the counts of what was allocated and freed anew.

    >>> torch.accelerator.reset_accumulated_memory_stats() if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda().reset_accumulated_memory_stats(device_index)


def get_memory_info(device_index: Any = None) -> tuple[int, int]:
    """The bytes of its memory that are free, and all of them.

    >>> torch.accelerator.get_memory_info() if torch.accelerator.is_available() else "none"
    'none'
    """
    free, total = _cuda().mem_get_info(device_index)
    return free, total


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """What it can compute, by name.

    >>> torch.accelerator.get_device_capability() if torch.accelerator.is_available() else "none"
    'none'
    """
    _cuda()
    return {"supported_dtypes": {d for d in vars(dtypes).values() if isinstance(d, dtypes.dtype)}}


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
