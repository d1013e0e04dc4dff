"""PyTorch's `torch.cuda.streams`: queues of work for a GPU. None can be made without one; None as a stream stands for no change."""

from __future__ import annotations

from typing import Any

from nbgrad.cuda._gpus import exchange, index_of, need, placeholder


class Stream:
    """A queue of work for a GPU.

    >>> torch.cuda.Stream() if torch.cuda.is_available() else "none"
    'none'
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
        raise RuntimeError("torch.cuda.Stream requires CUDA support")


class ExternalStream(Stream):
    """A queue that another library made.

    >>> torch.cuda.ExternalStream(0) if torch.cuda.is_available() else "none"
    'none'
    """

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> Any:
        exchange(index_of(device, optional=True))
        return super().__new__(cls, device)


class Event:
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

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""


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


def current_stream(device: Any = None) -> Stream:
    """The queue that work goes to now.

    >>> torch.cuda.current_stream() if torch.cuda.is_available() else "none"
    'none'
    """
    need()


def default_stream(device: Any = None) -> Stream:
    """The queue that work goes to unless another is chosen.

    >>> torch.cuda.default_stream() if torch.cuda.is_available() else "none"
    'none'
    """
    need()


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A queue that another library made, by its address.

    >>> torch.cuda.get_stream_from_external(0) if torch.cuda.is_available() else "none"
    'none'
    """
    need()
