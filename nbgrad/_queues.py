"""PyTorch's `torch.Stream` and `torch.Event`: queues of work and marks in them, of whichever device is named; the accelerator's where none
is, or else the CPU's, where all is done when a call returns."""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from nbgrad.memory import gpu
from nbgrad.memory.device import device as _device

_NUMBERS = ("cpu", "cuda", "meta")  # of kinds of devices; that of "meta" no program is told


def _place(kind: str, device: Any) -> _device:
    """The device that is meant, which must be there."""
    if device is None:
        return _device("cuda" if gpu.device_count() else "cpu")
    if not isinstance(device, (str, int, _device)) or isinstance(device, bool):
        name = type(device).__name__
        raise TypeError(f"{kind}(): argument 'device' (position 1) must be torch.device, not {name}")
    if isinstance(device, int) and not gpu.device_count():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    where = _device(device)
    if where.type not in _NUMBERS or (where.type == "cuda" and not gpu.device_count()):
        raise RuntimeError(f"PyTorch is not linked with support for {where.type} devices")
    return where


def _no_events(where: _device) -> NoReturn:
    raise RuntimeError(f"{where.type} backend doesn't support events.")


class Stream:
    """A queue of work for a device; in a `with`, work goes to it. One for a GPU is a `torch.cuda.Stream`.

    >>> torch.Stream("cpu").query(), isinstance(torch.Stream(), torch.Stream)
    (True, True)
    """

    device: _device

    def __new__(cls, device: Any = None, *, priority: int = 0, **numbers: int) -> Any:
        kind = numbers.pop("device_type", None)
        if kind is not None:
            device = _device(_NUMBERS[kind], max(numbers.get("device_index", 0), 0))
        where = _place("Stream", device)
        if where.type == "cuda":
            return importlib.import_module("nbgrad.cuda").Stream(where, priority, **numbers)
        made = object.__new__(cls)
        made.device = where
        return made

    @property
    def stream_id(self) -> int:
        """What tells it from others of its device."""
        return 0

    @property
    def device_index(self) -> int:
        """The number of its device; -1 where there is but one."""
        return -1

    @property
    def device_type(self) -> int:
        """The number of its kind of device."""
        return _NUMBERS.index(self.device.type)

    @property
    def native_handle(self) -> int:
        """Its address, for other libraries."""
        raise RuntimeError("Backend doesn't support getting stream native handle.")

    def is_capturing(self) -> bool:
        """Whether what it is asked is written down, and not done."""
        return False

    def query(self) -> bool:
        """Whether all that was asked is done."""
        return True

    def synchronize(self) -> None:
        """Wait until all that was asked is done."""

    def record_event(self, event: Any = None) -> Any:
        """Mark what was asked until now."""
        _no_events(self.device)

    def wait_event(self, event: Any) -> None:
        """Let what is asked from now on wait for a mark."""

    def wait_stream(self, stream: Any) -> None:
        """Let what is asked from now on wait for what another was asked until now."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and hash(self) == hash(other)

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device))

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event:
    """A mark in a queue of a device, to wait for or to take times between. One of a GPU is a `torch.cuda.Event`.

    >>> torch.Event("cpu").query()
    True
    """

    _timing: bool
    _where: _device

    def __new__(
        cls,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> Any:
        where = _place("Event", device)
        if where.type == "cuda":
            return importlib.import_module("nbgrad.cuda").Event(enable_timing, blocking, interprocess)
        made = object.__new__(cls)
        made._where, made._timing = where, enable_timing
        return made

    @property
    def device(self) -> _device | None:
        """Of the queue that it is put into."""
        return self._where

    @property
    def event_id(self) -> int:
        """What tells it from others; 0 until it is put into a queue."""
        return 0

    def record(self, stream: Any = None) -> None:
        """Put it into a queue, the current one unless it is named."""
        _no_events(self._where)

    def wait(self, stream: Any = None) -> None:
        """Let what a queue is asked from now on wait for it."""

    def query(self) -> bool:
        """Whether it was passed."""
        return True

    def synchronize(self) -> None:
        """Wait until it was passed."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from here to another mark."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise ValueError("Both events must be recorded before calculating elapsed time.")

    def ipc_handle(self) -> bytes:
        """What another process would know it by."""
        raise NotImplementedError(
            "torch.Event ipc is not supported yet, please open an issue if you need this!"
        )

    def __repr__(self) -> str:
        kind, flag = self._where.type, int(self._timing)
        return f"torch.Event device_type={kind}, device_index=-1, event_flag={flag}, event_id={self.event_id}"


__all__ = ["Event", "Stream"]
