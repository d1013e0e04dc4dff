"""What a GPU does for memory and kernels, as its driver is asked for it.

Promises the backend above one set of verbs, whoever answers: a real device, or one that is emulated on the CPU. An address is an
integer that the host must not follow. A stream is one, too, 0 the default: what is asked of a stream happens in the order it was
asked, after the call has returned; only `download` and `synchronize` wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

THREADS = 256  # of every block


class Entry(NamedTuple):
    """A kernel that a driver has loaded, how many items a block takes, and the most blocks of a grid: more items come round again."""

    code: Any
    items: int
    most: int

    def grid(self, n: int) -> int:
        """Blocks for so many items."""
        return min(-(-n // self.items), self.most)


class Driver(Protocol):
    def allocate(self, nbytes: int, stream: int) -> int: ...

    def free(self, address: int, nbytes: int, stream: int) -> None: ...

    def load(self, name: str, source: str, params: Sequence[str]) -> Any:
        """The code of a CUDA text, to be launched; `params` are the codes of what it takes, the number of items first."""

    def launch(self, code: Any, blocks: int, args: Sequence[int | float], stream: int) -> None: ...

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None: ...

    def fill(self, to: int, byte: int, nbytes: int, stream: int) -> None: ...

    def upload(self, to: int, array: Any, stream: int) -> None:
        """From the host's memory, which may be changed once this has returned."""

    def download(self, array: Any, source: int, stream: int) -> None:
        """Into the host's memory, when all that the stream was asked before is done."""

    def synchronize(self, stream: int | None) -> None:
        """Wait for a stream, or for all."""
