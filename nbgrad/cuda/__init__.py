"""PyTorch's `torch.cuda`: which GPU is used, what it is, and how programs wait for it.

Where there is none, questions are answered, wishes for all GPUs there are do nothing, and what needs one is refused, as by PyTorch's build
without CUDA. `NBGRAD_CUDA_EMULATE=1` lets the CPU play one.
"""

from __future__ import annotations

from typing import Any, NoReturn

from nbgrad.core.tensor import Tensor
from nbgrad.cuda import graphs as graphs
from nbgrad.cuda import memory as memory
from nbgrad.cuda import nvtx as nvtx
from nbgrad.cuda import random as random
from nbgrad.cuda import streams as streams
from nbgrad.cuda._gpus import absent, exchange, index_of, need, served
from nbgrad.cuda.graphs import CUDAGraph as CUDAGraph
from nbgrad.cuda.graphs import graph as graph
from nbgrad.cuda.graphs import graph_pool_handle as graph_pool_handle
from nbgrad.cuda.graphs import is_current_stream_capturing as is_current_stream_capturing
from nbgrad.cuda.graphs import make_graphed_callables as make_graphed_callables
from nbgrad.cuda.memory import caching_allocator_alloc as caching_allocator_alloc
from nbgrad.cuda.memory import caching_allocator_delete as caching_allocator_delete
from nbgrad.cuda.memory import empty_cache as empty_cache
from nbgrad.cuda.memory import get_allocator_backend as get_allocator_backend
from nbgrad.cuda.memory import get_per_process_memory_fraction as get_per_process_memory_fraction
from nbgrad.cuda.memory import host_memory_stats as host_memory_stats
from nbgrad.cuda.memory import host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict
from nbgrad.cuda.memory import list_gpu_processes as list_gpu_processes
from nbgrad.cuda.memory import max_memory_allocated as max_memory_allocated
from nbgrad.cuda.memory import max_memory_cached as max_memory_cached
from nbgrad.cuda.memory import max_memory_reserved as max_memory_reserved
from nbgrad.cuda.memory import mem_get_info as mem_get_info
from nbgrad.cuda.memory import memory_allocated as memory_allocated
from nbgrad.cuda.memory import memory_cached as memory_cached
from nbgrad.cuda.memory import memory_reserved as memory_reserved
from nbgrad.cuda.memory import memory_snapshot as memory_snapshot
from nbgrad.cuda.memory import memory_stats as memory_stats
from nbgrad.cuda.memory import memory_stats_as_nested_dict as memory_stats_as_nested_dict
from nbgrad.cuda.memory import memory_summary as memory_summary
from nbgrad.cuda.memory import reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats
from nbgrad.cuda.memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from nbgrad.cuda.memory import reset_max_memory_allocated as reset_max_memory_allocated
from nbgrad.cuda.memory import reset_max_memory_cached as reset_max_memory_cached
from nbgrad.cuda.memory import reset_peak_host_memory_stats as reset_peak_host_memory_stats
from nbgrad.cuda.memory import reset_peak_memory_stats as reset_peak_memory_stats
from nbgrad.cuda.memory import set_per_process_memory_fraction as set_per_process_memory_fraction
from nbgrad.cuda.random import get_rng_state as get_rng_state
from nbgrad.cuda.random import get_rng_state_all as get_rng_state_all
from nbgrad.cuda.random import initial_seed as initial_seed
from nbgrad.cuda.random import manual_seed as manual_seed
from nbgrad.cuda.random import manual_seed_all as manual_seed_all
from nbgrad.cuda.random import seed as seed
from nbgrad.cuda.random import seed_all as seed_all
from nbgrad.cuda.random import set_rng_state as set_rng_state
from nbgrad.cuda.random import set_rng_state_all as set_rng_state_all
from nbgrad.cuda.streams import Event as Event
from nbgrad.cuda.streams import ExternalStream as ExternalStream
from nbgrad.cuda.streams import Stream as Stream
from nbgrad.cuda.streams import StreamContext as StreamContext
from nbgrad.cuda.streams import current_stream as current_stream
from nbgrad.cuda.streams import default_stream as default_stream
from nbgrad.cuda.streams import get_stream_from_external as get_stream_from_external
from nbgrad.cuda.streams import set_stream as set_stream
from nbgrad.cuda.streams import stream as stream
from nbgrad.kernels.cuda.driver import AcceleratorError as AcceleratorError
from nbgrad.kernels.cuda.driver import OutOfMemoryError as OutOfMemoryError
from nbgrad.kernels.cuda.probe import forked
from nbgrad.memory import gpu, philox
from nbgrad.ops.make import constructors
from nbgrad.ops.make.generator import OnDevice

(
    ByteTensor,
    CharTensor,
    ShortTensor,
    IntTensor,
    LongTensor,
    BoolTensor,
    HalfTensor,
    BFloat16Tensor,
    FloatTensor,
    DoubleTensor,
) = constructors.of_cuda
has_half = True
has_magma = False
default_generators: tuple[OnDevice, ...]


def __getattr__(name: str) -> Any:
    """The generators: how many there are is asked when they are."""
    if name != "default_generators":
        raise AttributeError(f"module 'nbgrad.cuda' has no attribute '{name}'")
    return tuple([OnDevice(f"cuda:{index}", philox.of(index)) for index in range(gpu.device_count())])


_WAITING = ["default", "warn", "error"]


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA to start, and failed then.

    >>> issubclass(torch.cuda.DeferredCudaCallError, RuntimeError)
    False
    """


def _unused(what: str) -> NoReturn:
    need()
    raise NotImplementedError(f"nbgrad does not use CUDA's {what}")


def _management() -> NoReturn:
    raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.")


class device:
    """In a `with`, this GPU is used where none is named; a negative index changes nothing.

    >>> with torch.cuda.device(-1):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, device: Any) -> None:
        self.idx = index_of(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = exchange(self.idx)

    def __exit__(self, *_: object) -> None:
        exchange(self.prev_idx)


class device_of(device):
    """In a `with`, the GPU that holds `obj` is used where none is named; nothing changes where that is on the CPU.

    >>> with torch.cuda.device_of(torch.ones(1)):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def is_available() -> bool:
    """Whether there is a GPU to compute on: one with a driver, and with what the extra `cuda` installs.

    >>> torch.cuda.is_available() == (torch.cuda.device_count() > 0)
    True
    """
    return gpu.device_count() > 0


def is_initialized() -> bool:
    """Whether a GPU is in use.

    >>> torch.cuda.is_initialized() and not torch.cuda.is_available()
    False
    """
    return gpu.started()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that uses a GPU, and cannot: libraries ask before they seed one."""
    return forked()


def device_count() -> int:
    """How many GPUs there are.

    >>> torch.cuda.device_count() >= 0
    True
    """
    return gpu.device_count()


def init() -> None:
    """Start CUDA now, and not at the first use of a GPU.

    >>> torch.cuda.init() if torch.cuda.is_available() else "none"
    'none'
    """
    served()


def current_device() -> int:
    """The index of the GPU that is used where none is named.

    >>> torch.cuda.current_device() if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    return gpu.current.index


def set_device(device: Any) -> None:
    """Use this GPU where none is named; a negative index changes nothing.

    >>> torch.cuda.set_device(-1)
    """
    index = index_of(device)
    if index >= 0:
        absent("_cuda_setDevice")
        exchange(index)


def get_device_name(device: Any = None) -> str:
    """What a GPU is called.

    >>> torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    'none'
    """
    return str(get_device_properties(device).name)


def get_device_properties(device: Any = None) -> Any:
    """What a GPU has: its name, memory, processors, capability.

    >>> torch.cuda.get_device_properties() if torch.cuda.is_available() else "none"
    'none'
    """
    return served(device).driver.properties()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The major and minor number of what a GPU's processors can do.

    >>> torch.cuda.get_device_capability() if torch.cuda.is_available() else "none"
    'none'
    """
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """The kinds of GPU that kernels are made for: those that are there.

    >>> torch.cuda.get_arch_list() if torch.cuda.is_available() else []
    []
    """
    kinds = {get_device_capability(index) for index in range(gpu.device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(kinds)]


def get_gencode_flags() -> str:
    """What NVIDIA's compiler is told to make kernels for these kinds of GPU.

    >>> torch.cuda.get_gencode_flags() if torch.cuda.is_available() else ""
    ''
    """
    kinds = [name.removeprefix("sm_") for name in get_arch_list()]
    return " ".join([f"-gencode compute=compute_{kind},code=sm_{kind}" for kind in kinds])


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done what it was given.

    >>> torch.cuda.synchronize() if torch.cuda.is_available() else "none"
    'none'
    """
    served(device).synchronize()


def ipc_collect() -> None:
    """Give memory back that other processes no longer use.

    >>> torch.cuda.ipc_collect() if torch.cuda.is_available() else "none"
    'none'
    """
    need()


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a GPU can read another's memory: here tensors go from one to another by way of the CPU.

    >>> torch.cuda.can_device_access_peer(0, 1) if torch.cuda.is_available() else "none"
    'none'
    """
    served(device)
    if not 0 <= index_of(peer_device) < gpu.device_count():
        raise AssertionError("Invalid peer device id")
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a GPU: bfloat16 is stored in 16 bits, and computed in float32, on any.

    >>> torch.cuda.is_bf16_supported()
    False
    """
    return is_available()


def is_tf32_supported() -> bool:
    """Whether the GPU multiplies in TF32.

    >>> torch.cuda.is_tf32_supported() if torch.cuda.is_available() else False
    False
    """
    return gpu.device_count() > 0 and get_device_capability()[0] >= 8


def get_sync_debug_mode() -> int:
    """What happens where the CPU waits for the GPU: 0 nothing, 1 a warning, 2 an error.

    >>> torch.cuda.get_sync_debug_mode() if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    return gpu.waits.mode


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What happens where the CPU waits for the GPU: nothing, a warning or an error.

    >>> torch.cuda.set_sync_debug_mode('warn') if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    if isinstance(debug_mode, str):
        if debug_mode not in _WAITING:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _WAITING.index(debug_mode)
    gpu.waits.mode = debug_mode


def cudart() -> Any:
    """CUDA's runtime library.

    >>> torch.cuda.cudart() if torch.cuda.is_available() else "none"
    'none'
    """
    _unused("runtime library")


def current_blas_handle() -> int:
    """The address of the state of CUDA's BLAS.

    >>> torch.cuda.current_blas_handle() if torch.cuda.is_available() else "none"
    'none'
    """
    _unused("BLAS")


def utilization(device: Any = None) -> int:
    """How much of the time a GPU computed, as NVIDIA's library of management says.

    >>> torch.cuda.utilization() if torch.cuda.is_available() else "none"
    'none'
    """
    _management()


def memory_usage(device: Any = None) -> int:
    """How much of the time a GPU's memory was read or written, as NVIDIA's library of management says.

    >>> torch.cuda.memory_usage() if torch.cuda.is_available() else "none"
    'none'
    """
    _management()


def temperature(device: Any = None) -> int:
    """How warm a GPU is, as NVIDIA's library of management says.

    >>> torch.cuda.temperature() if torch.cuda.is_available() else "none"
    'none'
    """
    _management()


def power_draw(device: Any = None) -> int:
    """How much power a GPU takes, as NVIDIA's library of management says.

    >>> torch.cuda.power_draw() if torch.cuda.is_available() else "none"
    'none'
    """
    _management()


def clock_rate(device: Any = None) -> int:
    """How fast a GPU's clock is, as NVIDIA's library of management says.

    >>> torch.cuda.clock_rate() if torch.cuda.is_available() else "none"
    'none'
    """
    _management()


def device_memory_used(device: Any = None) -> int:
    """How much of a GPU's memory is in use, as NVIDIA's library of management says.

    >>> torch.cuda.device_memory_used() if torch.cuda.is_available() else "none"
    'none'
    """
    _management()


__all__ = [
    "AcceleratorError",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CUDAGraph",
    "CharTensor",
    "DeferredCudaCallError",
    "DoubleTensor",
    "Event",
    "ExternalStream",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "clock_rate",
    "cudart",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "nvtx",
    "power_draw",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "utilization",
]
