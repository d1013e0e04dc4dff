"""PyTorch's `torch.cuda.streams`: queues of work for a GPU, and marks in them. None can be made without one; None as a stream stands for
no change.

A queue is never given up, as memory that was used in it is kept for it: 32 of each priority are dealt out in turn, as PyTorch does.
"""

from __future__ import annotations

import ctypes
from itertools import count
from typing import Any, Final

from nbgrad import _queues
from nbgrad.base.tables import Table
from nbgrad.cuda._gpus import exchange, index_of, need, placeholder, served
from nbgrad.kernels.cuda.launch import streams
from nbgrad.memory import gpu
from nbgrad.memory.device import device as _device

_MANY: Final = 32
_MOST_URGENT: Final = -5
_handles: Table[tuple[int, int, int], int] = Table("cuda.streams.handles", None)
_turns = count()


class Stream(_queues.Stream):
    """A queue of work for a GPU; in a `with`, work goes to it.

    >>> torch.cuda.Stream() if torch.cuda.is_available() else "none"
    'none'
    """

    cuda_stream: int
    device: _device
    priority: int

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
        if not gpu.device_count():
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        index = kwargs.get("device_index", index_of(device, optional=True))
        handle = kwargs.get("stream_ptr", kwargs.get("stream_id"))
        return _stream(cls, index, _dealt(index, priority) if handle is None else handle, priority)

    @property
    def stream_id(self) -> int:
        """What tells it from others of its device."""
        return self.cuda_stream

    @property
    def device_index(self) -> int:
        """The number of its device."""
        return int(self.device.index or 0)

    @property
    def native_handle(self) -> int:
        """Its address, for other libraries."""
        return self.cuda_stream

    def is_capturing(self) -> bool:
        """Whether what it is asked is written down, and not done."""
        return served(self.device).driver.capturing(self.cuda_stream)

    @classmethod
    def priority_range(cls) -> tuple[int, int]:
        """The least and the most urgent."""
        return 0, _MOST_URGENT

    def wait_event(self, event: Event) -> None:
        """Let what is asked from now on wait for a mark."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """Mark what was asked until now."""
        made: Event = Event() if event is None else event
        made.record(self)
        return made

    def query(self) -> bool:
        """Whether all that was asked is done."""
        return served(self.device).driver.idle(self.cuda_stream)

    def synchronize(self) -> None:
        """Wait until all that was asked is done."""
        served(self.device).synchronize(self.cuda_stream)

    def __enter__(self) -> Stream:
        self._inside = StreamContext(self)
        self._inside.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.__exit__()

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol's version, and the queue's address, for other libraries."""
        return 0, self.cuda_stream

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def _stream(kind: type[Stream], index: int, handle: int, priority: int = 0) -> Stream:
    if handle:
        gpu.part()
    made = object.__new__(kind)
    made.device, made.cuda_stream, made.priority = _device("cuda", index), handle, priority
    return made


def _dealt(index: int, priority: int) -> int:
    level = max(_MOST_URGENT, min(priority, 0))
    key = index, level, next(_turns) % _MANY
    found = _handles.get(key)
    if found is None:
        found = _handles.setdefault(key, served(index).driver.stream(level))
    return found


class ExternalStream(Stream):
    """A queue that another library made.

    >>> torch.cuda.ExternalStream(0) if torch.cuda.is_available() else "none"
    'none'
    """

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> Any:
        index = index_of(device, optional=True)
        exchange(exchange(index))  # which refuses what is no device
        return super().__new__(cls, index, stream_ptr=stream_ptr)


class Event(_queues.Event):
    """A mark in a queue, to wait for or to take times between.

    >>> torch.cuda.Event(enable_timing=True) if torch.cuda.is_available() else "none"
    'none'
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Any:
        placeholder("Event")
        made = object.__new__(cls)
        made._timing, made._mark = enable_timing, None
        return made

    _mark: Any
    _serves: gpu.CUDA

    @property
    def device(self) -> _device | None:
        """Of the queue that it was put into."""
        return None if self._mark is None else self._serves.device

    @property
    def event_id(self) -> int:
        """What tells it from others; 0 until it is put into a queue."""
        return 0 if self._mark is None else id(self._mark)

    def record(self, stream: Stream | None = None) -> None:
        """Put it into a queue, the current one unless it is named."""
        stream = current_stream() if stream is None else stream
        serves = served(stream.device)
        if self._mark is None:
            self._serves, self._mark = serves, serves.driver.event(self._timing)
        elif self._serves is not serves:
            raise RuntimeError(
                f"Event device {self._serves.device.index} does not match recording stream's device {serves.device.index}."
            )
        serves.driver.record(self._mark, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let what a queue is asked from now on wait for it."""
        if self._mark is not None:
            stream = current_stream() if stream is None else stream
            served(stream.device).driver.hold(stream.cuda_stream, self._mark)

    def query(self) -> bool:
        """Whether it was passed."""
        return self._mark is None or self._serves.driver.passed(self._mark)

    def synchronize(self) -> None:
        """Wait until it was passed."""
        if self._mark is not None:
            self._serves.driver.wait_for(self._mark)
            self._serves.told.look()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from here to another mark."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._mark is None or end_event._mark is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return self._serves.driver.elapsed(self._mark, end_event._mark)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {'uninitialized' if self._mark is None else hex(id(self._mark))}>"


class StreamContext:
    """In a `with`, work goes to `stream`; None changes nothing.

    >>> with torch.cuda.StreamContext(None):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            need()
            self._before = current_stream()
            self._there = current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            set_stream(self._there)
            set_stream(self._before)


def stream(stream: Any) -> StreamContext:
    """In a `with`, work goes to `stream`; None changes nothing.

    >>> with torch.cuda.stream(None):
    ...     torch.ones(1)
    tensor([1.])
    """
    return StreamContext(stream)


def set_stream(stream: Any) -> None:
    """Send work to `stream` from now on; None changes nothing.

    >>> torch.cuda.set_stream(None)
    """
    if stream is not None:
        need()
        exchange(stream.device_index)
        streams.current = stream.cuda_stream


def current_stream(device: Any = None) -> Stream:
    """The queue that work goes to now.

    >>> torch.cuda.current_stream() if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    index = index_of(device, optional=True)
    here = index == gpu.current.index
    return _stream(Stream, index, streams.current if here else streams.others.get(index, 0))


def default_stream(device: Any = None) -> Stream:
    """The queue that work goes to unless another is chosen.

    >>> torch.cuda.default_stream() if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    return _stream(Stream, index_of(device, optional=True), 0)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A queue that another library made, by its address.

    >>> torch.cuda.get_stream_from_external(0) if torch.cuda.is_available() else "none"
    'none'
    """
    need()
    return _stream(Stream, index_of(device, optional=True), data_ptr)
