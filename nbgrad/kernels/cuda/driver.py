"""What a GPU does for memory and kernels, as its driver is asked for it.

Promises the backend above one set of verbs, whoever answers: a real device, or one that is emulated on the CPU. An address is an
integer that the host must not follow. A stream is one, too, 0 the default: what is asked of a stream happens in the order it was
asked, after the call has returned; only `download`, `synchronize` and `wait_for` wait. What there is no room for is a MemoryError,
any other failure an `AcceleratorError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from nbgrad.base.records import NamedTuple

THREADS = 256  # of every block
CAPTURES = (
    "global",
    "thread_local",
    "relaxed",
)  # whose calls may not disturb one: all threads', its own, nobody's


class OutOfMemoryError(RuntimeError):
    """What a GPU raises that has no room for a tensor, so that programs can catch it: the CPU says so by a RuntimeError.

    >>> issubclass(torch.OutOfMemoryError, RuntimeError)
    True
    """


class AcceleratorError(RuntimeError):
    """What a GPU raises for a call that failed.

    >>> issubclass(torch.AcceleratorError, RuntimeError)
    True
    """


class Properties(NamedTuple):
    """What a device has, by PyTorch's names; sizes are in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    warp_size: int
    max_threads_per_block: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: bool
    is_multi_gpu_board: bool
    uuid: str
    pci_domain_id: int
    pci_bus_id: int
    pci_device_id: int

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, pci_domain_id={self.pci_domain_id}, "
            f"L2_cache_size={self.L2_cache_size >> 20}MB)"
        )


class Entry(NamedTuple):
    """A kernel that a driver has loaded, how many items a block takes, and the most blocks of a grid: more items come round again. With
    `work` it is so many elements that a block takes, whatever the items are."""

    code: Any
    items: int
    most: int
    work: int = 0

    def grid(self, n: int, elements: int) -> int:
        """Blocks for so many items, of so many elements in all."""
        blocks = -(-elements // self.work) if self.work else -(-n // self.items)
        return min(blocks, self.most)


class Driver(Protocol):
    def allocate(self, nbytes: int, stream: int) -> int: ...

    def free(self, address: int, nbytes: int, stream: int) -> None: ...

    def load(self, name: str, source: str, params: Sequence[str]) -> Any:
        """The code of a CUDA text, to be launched; `params` are the codes of what it takes, the number of items first."""

    def launch(self, code: Any, blocks: int, args: Sequence[int | float], stream: int) -> None: ...

    # the same in machine code (`direct.py`), where there is a function of C's for it

    @property
    def function(self) -> int:
        """The address of one that takes what CUDA's `cuLaunchKernel` takes, or 0; codes are integers then."""

    def enter(self, stream: int) -> int:
        """Let this thread call it, and say what it knows the stream by."""

    def refuse(self, status: int) -> None:
        """Raise what it stands for that such a function has returned."""

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None: ...

    def fill(self, to: int, byte: int, nbytes: int, stream: int) -> None: ...

    def upload(self, to: int, array: Any, stream: int) -> None:
        """From the host's memory, which may be changed once this has returned."""

    def download(self, array: Any, source: int, stream: int) -> None:
        """Into the host's memory, when all that the stream was asked before is done."""

    def synchronize(self, stream: int | None) -> None:
        """Wait for a stream, or for all."""


class Device(Driver, Protocol):
    """What else users ask of a device."""

    # products of matrices, by a library: `blas` is None where it has none

    @property
    def blas(self) -> Any: ...

    def multiply(self, g: Any, x: int, y: int, o: int, room: int, stream: int) -> None: ...

    # factors of matrices, by a library: `solver` is None where it has none

    @property
    def solver(self) -> Any: ...

    def room_for(self, routine: str, code: str, values: Mapping[str, int]) -> int:
        """Elements of its own memory that a routine wants."""

    def factor(self, routine: str, code: str, values: Mapping[str, int], stream: int) -> None: ...

    # streams, and marks in them

    def stream(self, priority: int) -> int:
        """A queue of its own; the lower the priority, the more urgent."""

    def close(self, stream: int) -> None: ...

    def idle(self, stream: int) -> bool:
        """Whether it has done all that it was asked."""

    def event(self, timing: bool) -> Any: ...

    def record(self, event: Any, stream: int) -> None:
        """Mark what a stream was asked until now."""

    def hold(self, stream: int, event: Any) -> None:
        """Let what a stream is asked from now on wait for what was marked."""

    def passed(self, event: Any) -> bool: ...

    def wait_for(self, event: Any) -> None: ...

    def elapsed(self, first: Any, last: Any) -> float:
        """Milliseconds between two marks."""

    # work that is written down, to be done again and again

    def begin(self, stream: int, mode: int) -> None:
        """Write down what a stream is asked from now on, and do none of it; `mode` is one of CAPTURES, by its place."""

    def end(self, stream: int) -> Any: ...

    def replay(self, graph: Any, stream: int) -> None: ...

    def capturing(self, stream: int) -> bool: ...

    # the device

    def properties(self) -> Properties: ...

    def room(self) -> tuple[int, int]:
        """Bytes that are free, and all there are."""

    def trim(self) -> None:
        """Give memory that was freed back to the device."""

    def pin(self, nbytes: int) -> int:
        """Memory of the host that the device reads and writes by itself."""

    def unpin(self, address: int) -> None: ...

    def pinned(self, address: int) -> bool: ...

    def send(self, to: int, array: Any, stream: int) -> None:
        """As `upload`, of memory that is pinned, which must not be changed before the stream comes to it."""

    def fetch(self, array: Any, source: int, stream: int) -> None:
        """As `download`, into memory that is pinned, without waiting."""
