"""PyTorch's `torch.cpu`, so that programs which speak of a GPU's queues run on a CPU as well, where all is done when a call returns."""

from __future__ import annotations

from typing import Any


class Stream:
    """A queue of work, which is always empty.

    >>> torch.cpu.Stream().wait_stream(torch.cpu.current_stream())
    """

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Go on after what `stream` holds: at once."""

    def record_event(self) -> None:
        """Mark this place."""

    def wait_event(self, event: Any) -> None:
        """Go on after a mark: at once."""


class Event:
    """A mark in a queue, which is passed as soon as it is made.

    >>> torch.cpu.Event().query()
    True
    """

    def __init__(self, enable_timing: bool = False) -> None:
        pass

    def query(self) -> bool:
        """Whether it was passed."""
        return True

    def record(self, stream: Any = None) -> None:
        """Put it into a queue."""

    def synchronize(self) -> None:
        """Wait until it was passed: it was."""

    def wait(self, stream: Any = None) -> None:
        """Let a queue wait for it."""


class StreamContext:
    """In a `with`, work goes to `stream`, which is no other than without.

    >>> with torch.cpu.StreamContext(None):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


_current = Stream()


def is_available() -> bool:
    """Whether there is a CPU to compute on.

    >>> torch.cpu.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Whether it is in use.

    >>> torch.cpu.is_initialized()
    True
    """
    return True


def device_count() -> int:
    """How many there are: 1, however many cores it has.

    >>> torch.cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """Which one is used.

    >>> torch.cpu.current_device()
    'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """Use this one: the only one.

    >>> torch.cpu.set_device("cpu")
    """


def synchronize(device: Any = None) -> None:
    """Wait until all is done: it is, when a call returns.

    >>> torch.cpu.synchronize()
    """


def current_stream(device: Any = None) -> Stream:
    """The queue that work goes to, which is always empty.

    >>> torch.cpu.current_stream() is torch.cpu.current_stream()
    True
    """
    return _current


def stream(stream: Stream | None) -> StreamContext:
    """In a `with`, work goes to `stream`, which is no other than without.

    >>> with torch.cpu.stream(None):
    ...     torch.ones(1)
    tensor([1.])
    """
    return StreamContext(stream)


__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]
