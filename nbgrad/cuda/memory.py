"""PyTorch's `torch.cuda.memory`: what is known of a GPU's memory, where there is none."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from nbgrad.cuda._gpus import absent, deprecated, need


def memory_allocated(device: Any = None) -> int:
    """How many bytes tensors take now on a GPU: 0, where none is used.

    >>> torch.cuda.memory_allocated()
    0
    """
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: Any = None) -> int:
    """How many bytes tensors took at most on a GPU: 0, where none is used.

    >>> torch.cuda.max_memory_allocated()
    0
    """
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: Any = None) -> int:
    """How many bytes the allocator holds on a GPU: 0, where none is used.

    >>> torch.cuda.memory_reserved()
    0
    """
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: Any = None) -> int:
    """How many bytes the allocator held at most on a GPU: 0, where none is used.

    >>> torch.cuda.max_memory_reserved()
    0
    """
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


@deprecated("`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`")
def memory_cached(device: Any = None) -> int:
    """The former name of `memory_reserved`.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.cuda.memory_cached()
    0
    """
    return memory_reserved(device)


@deprecated("`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`")
def max_memory_cached(device: Any = None) -> int:
    """The former name of `max_memory_reserved`.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.cuda.max_memory_cached()
    0
    """
    return max_memory_reserved(device)


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """The allocator's figures by name: none, where no GPU is used.

    >>> len(torch.cuda.memory_stats())
    0
    """
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The allocator's figures by name, group in group.

    >>> torch.cuda.memory_stats_as_nested_dict()
    {}
    """
    return {}


def host_memory_stats() -> OrderedDict[str, Any]:
    """The figures of memory that is locked for copies to a GPU: none.

    >>> len(torch.cuda.host_memory_stats())
    0
    """
    return OrderedDict()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The figures of memory that is locked for copies to a GPU, group in group.

    >>> torch.cuda.host_memory_stats_as_nested_dict()
    {}
    """
    return {}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The allocator's figures as a table, which there must be some for.

    >>> torch.cuda.memory_summary() if torch.cuda.is_available() else "none"
    'none'
    """
    return str(memory_stats(device)["allocated_bytes.all.current"])


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> Any:
    """Every segment that the allocator holds.

    >>> torch.cuda.memory_snapshot() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_memorySnapshot")


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The bytes of a GPU's memory that are free, and all of them.

    >>> torch.cuda.mem_get_info() if torch.cuda.is_available() else "none"
    'none'
    """
    need()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin the figures of most anew.

    >>> torch.cuda.reset_peak_memory_stats() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_resetPeakMemoryStats")


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Begin the counts of what was allocated and freed anew.

    >>> torch.cuda.reset_accumulated_memory_stats() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_resetAccumulatedMemoryStats")


def reset_peak_host_memory_stats() -> None:
    """Begin the figures of most locked memory anew.

    >>> torch.cuda.reset_peak_host_memory_stats() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_resetPeakHostMemoryStats")


def reset_accumulated_host_memory_stats() -> None:
    """Begin the counts of locked memory anew.

    >>> torch.cuda.reset_accumulated_host_memory_stats() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_resetAccumulatedHostMemoryStats")


@deprecated(
    "torch.cuda.reset_max_memory_allocated now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak memory stats."
)
def reset_max_memory_allocated(device: Any = None) -> None:
    """A former name of `reset_peak_memory_stats`.

    >>> torch.cuda.reset_max_memory_allocated() if torch.cuda.is_available() else "none"
    'none'
    """
    reset_peak_memory_stats(device)


@deprecated(
    "torch.cuda.reset_max_memory_cached now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak memory stats."
)
def reset_max_memory_cached(device: Any = None) -> None:
    """A former name of `reset_peak_memory_stats`.

    >>> torch.cuda.reset_max_memory_cached() if torch.cuda.is_available() else "none"
    'none'
    """
    reset_peak_memory_stats(device)


def empty_cache() -> None:
    """Give the memory that is kept for the next tensors back: nothing, where none is.

    >>> torch.cuda.empty_cache()
    """


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let the process take no more than a part of a GPU's memory.

    >>> torch.cuda.set_per_process_memory_fraction(0.5) if torch.cuda.is_available() else "none"
    'none'
    """
    need()


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a GPU's memory that the process may take.

    >>> torch.cuda.get_per_process_memory_fraction() if torch.cuda.is_available() else "none"
    'none'
    """
    need()


def get_allocator_backend() -> str:
    """The name of the allocator.

    >>> torch.cuda.get_allocator_backend() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_getAllocatorBackend")


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Memory of a GPU, by its address.

    >>> torch.cuda.caching_allocator_alloc(512) if torch.cuda.is_available() else "none"
    'none'
    """
    need()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give memory of a GPU back.

    >>> torch.cuda.caching_allocator_delete(0) if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_cudaCachingAllocator_raw_delete")


def list_gpu_processes(device: Any = None) -> str:
    """Which processes use a GPU, in words.

    >>> torch.cuda.list_gpu_processes() if torch.cuda.is_available() else "none"
    'none'
    """
    return "pynvml module not found, please install nvidia-ml-py"
