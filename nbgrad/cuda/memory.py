"""PyTorch's `torch.cuda.memory`: what is known of a GPU's memory, and of the lists of blocks that wait for the next tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import Table
from nbgrad.cuda._gpus import absent, deprecated, index_of, need, served
from nbgrad.kernels.cuda.launch import streams
from nbgrad.memory import gpu, pinned


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

    >>> len(torch.cuda.memory_stats()) if torch.cuda.is_available() else 0
    0
    """
    return _flat(memory_stats_as_nested_dict(device))


def _flat(nested: dict[str, Any]) -> OrderedDict[str, Any]:
    """Names joined by points."""
    found: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": v for inner, v in _flat(value).items()}
        else:
            found[name] = value
    return OrderedDict(sorted(found.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The allocator's figures by name, group in group.

    >>> torch.cuda.memory_stats_as_nested_dict() if torch.cuda.is_available() else {}
    {}
    """
    return served(device).pool.figures() if gpu.started() else {}


def host_memory_stats() -> OrderedDict[str, Any]:
    """The figures of memory that is locked for copies to a GPU.

    >>> len(torch.cuda.host_memory_stats()) if torch.cuda.is_available() else 0
    0
    """
    return _flat(host_memory_stats_as_nested_dict())


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The figures of memory that is locked for copies to a GPU, group in group.

    >>> torch.cuda.host_memory_stats_as_nested_dict() if torch.cuda.is_available() else {}
    {}
    """
    return pinned.pool.figures() if gpu.started() else {}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The allocator's figures as a table, which there must be some for.

    >>> torch.cuda.memory_summary() if torch.cuda.is_available() else "none"
    'none'
    """
    stats, index = memory_stats(device), index_of(device, optional=True)
    lines = []
    for name, title, said in _SHOWN:
        lines.append("-" * 75)
        of_all = [stats[f"{name}.all.{column}"] for column in _COLUMNS]
        for pool, title_of_pool in _POOLS.items():
            row = [stats[f"{name}.{pool}.{column}"] for column in _COLUMNS]
            if not (abbreviated and title_of_pool):
                lines.append(_row(title_of_pool or title, said, row, of_all))
    for name, title in _OVERSIZE.items():
        row = [stats[f"{name}.{column}"] for column in _COLUMNS]
        lines += ["-" * 75, _row(title, _said_count, row, row)]
    head = [
        *("=" * 75, f" {'':16} PyTorch CUDA memory summary, device ID {index:<17d} ", "-" * 75),
        *(_counts(stats), "=" * 75),
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    return "|" + "|\n|".join([*head, *lines, "=" * 75]) + "|\n"


def _counts(stats: dict[str, int]) -> str:
    refused, again = stats["num_ooms"], stats["num_alloc_retries"]
    return f"  {'':9} CUDA OOMs: {refused:<12d} | {'':6} cudaMalloc retries: {again:<8d}  "


def _row(title: str, said: Callable[[int, int], str], row: list[int], sized: list[int]) -> str:
    return f" {title:<21} | " + " | ".join(map(said, row, sized)) + " "


def _said_size(size: int, like: int) -> str:
    """In the unit that suits another."""
    unit = 0
    while unit < 5 and like >= 768 * 1024:
        unit, size, like = unit + 1, size // 1024, like // 1024
    return f"{size:6d} {('B  ', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[unit]}"


def _said_count(count: int, like: int) -> str:
    unit = 0
    while unit < 2 and like >= 750 * 1000:
        unit, count, like = unit + 1, count // 1000, like // 1000
    return f"{count:7d} {' KM'[unit]} "


_COLUMNS = ("current", "peak", "allocated", "freed")
_POOLS = {"all": "", "large_pool": "      from large pool", "small_pool": "      from small pool"}
_SHOWN = (
    ("allocated_bytes", "Allocated memory", _said_size),
    ("active_bytes", "Active memory", _said_size),
    ("requested_bytes", "Requested memory", _said_size),
    ("reserved_bytes", "GPU reserved memory", _said_size),
    ("inactive_split_bytes", "Non-releasable memory", _said_size),
    ("allocation", "Allocations", _said_count),
    ("active", "Active allocs", _said_count),
    ("segment", "GPU reserved segments", _said_count),
    ("inactive_split", "Non-releasable allocs", _said_count),
)
_OVERSIZE = {"oversize_allocations": "Oversize allocations", "oversize_segments": "Oversize GPU segments"}


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> Any:
    """Every segment that the allocator holds.

    >>> torch.cuda.memory_snapshot() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_memorySnapshot")
    return [segment for index in range(gpu.device_count()) for segment in served(index).pool.segments()]


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The bytes of a GPU's memory that are free, and all of them.

    >>> torch.cuda.mem_get_info() if torch.cuda.is_available() else "none"
    'none'
    """
    return served(device).driver.room()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin the figures of most anew.

    >>> torch.cuda.reset_peak_memory_stats() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_resetPeakMemoryStats")
    served(device).pool.begin_peaks()


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Begin the counts of what was allocated and freed anew.

    >>> torch.cuda.reset_accumulated_memory_stats() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_resetAccumulatedMemoryStats")
    served(device).pool.begin_totals()


def reset_peak_host_memory_stats() -> None:
    """Begin the figures of most locked memory anew.

    >>> torch.cuda.reset_peak_host_memory_stats() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_resetPeakHostMemoryStats")
    pinned.pool.begin_peaks()


def reset_accumulated_host_memory_stats() -> None:
    """Begin the counts of locked memory anew.

    >>> torch.cuda.reset_accumulated_host_memory_stats() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_resetAccumulatedHostMemoryStats")
    pinned.pool.begin_totals()


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
    if gpu.started():
        for index in range(gpu.device_count()):
            served(index).pool.empty()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let the process take no more than a part of a GPU's memory.

    >>> torch.cuda.set_per_process_memory_fraction(0.5) if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    served(device).pool.fraction = fraction


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a GPU's memory that the process may take.

    >>> torch.cuda.get_per_process_memory_fraction() if torch.cuda.is_available() else "none"
    'none'
    """
    return served(device).pool.fraction


def get_allocator_backend() -> str:
    """The name of the allocator.

    >>> torch.cuda.get_allocator_backend() if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_getAllocatorBackend")
    return "native"


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Memory of a GPU, by its address.

    >>> torch.cuda.caching_allocator_alloc(512) if torch.cuda.is_available() else "none"
    'none'
    """
    serves = served(device)
    queue = streams.current if stream is None else getattr(stream, "cuda_stream", stream)
    address = serves.pool.allocate(size, queue)
    _lent[address] = serves, size, queue
    return address


_lent: Table[int, tuple[gpu.CUDA, int, int]] = Table("cuda.memory.lent", None)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give memory of a GPU back.

    >>> torch.cuda.caching_allocator_delete(0) if torch.cuda.is_available() else "none"
    'none'
    """
    absent("_cuda_cudaCachingAllocator_raw_delete")
    serves, size, queue = _lent.pop(mem_ptr)
    serves.pool.free(mem_ptr, size, queue)


def list_gpu_processes(device: Any = None) -> str:
    """Which processes use a GPU, in words.

    >>> torch.cuda.list_gpu_processes() if torch.cuda.is_available() else "none"
    'none'
    """
    return "pynvml module not found, please install nvidia-ml-py"
