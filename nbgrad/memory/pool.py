"""The memory of a device that was given back and waits for the next tensor, and the count of all of it.

Promises blocks in well under a microsecond: those of a stream are lent again to that stream alone, behind the work that still uses them,
so nothing is waited for. Blocks come from the driver in multiples of 512 bytes, from 1 MB on of 2 MB, and go back to it when lists
hold too much, when somebody asks, or when there is no room.

What was lent and given back is written down, and counted when somebody asks or a few thousand events stand there: at each call it took half
of its time. A tensor may die anywhere, in the collector's turn and on any thread, so `free` asks nothing of the driver and takes no lock.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.kernels.cuda.driver import Device, OutOfMemoryError

SMALL: Final = 1 << 20  # bytes up to which a block is small, as PyTorch's
UNIT: Final = 512
LARGE_UNIT: Final = 2 << 20
KEPT: Final = 8  # lists may hold one part in so many of the device
EVENTS: Final = 8192  # that are counted at once


class Lists(dict[int, list[int]]):
    """Addresses of free blocks by their size. Threads that ask for a new list at once get the same."""

    def __missing__(self, size: int) -> list[int]:
        return self.setdefault(size, [])


class _ByStream(dict[int, Lists]):
    def __missing__(self, stream: int) -> Lists:
        return self.setdefault(stream, Lists())


def size_of(nbytes: int) -> int:
    """Of the block that serves so many bytes."""
    unit = UNIT if nbytes <= SMALL else LARGE_UNIT
    return -(-nbytes // unit) * unit


class Counted:
    """What is told of blocks: how many are lent, and their bytes in whole units and as they were asked for, each with the most that it was
    and with how many ever were; the same of what the driver gave."""

    __slots__ = ("asked_peak", "bytes_peak", "count_peak", "reserved_peak", "segments_peak")
    asked_peak: int
    bytes_peak: int
    count_peak: int

    def peaked(self, most: dict[str, int]) -> None:
        for name, reached in most.items():
            setattr(self, f"{name}_peak", max(getattr(self, f"{name}_peak"), reached))

    def begin_peaks(self) -> None:
        for name in _COUNTED:
            setattr(self, f"{name}_peak", getattr(self, name))

    def grown(self) -> None:
        """The driver gave a block."""
        for name in ("segments", "reserved"):
            setattr(self, f"{name}_peak", max(getattr(self, name), getattr(self, f"{name}_peak")))

    def figures(self) -> Iterator[tuple[str, dict[str, int]]]:
        """By PyTorch's names."""
        for name, stated in _COUNTED.items():
            now, most, ever = (getattr(self, name + end) for end in ("", "_peak", "_ever"))
            for figure in stated:
                yield figure, {"current": now, "peak": most, "allocated": ever, "freed": ever - now}
        for figure in ("inactive_split", "inactive_split_bytes"):  # no block is ever split
            yield figure, dict.fromkeys(("current", "peak", "allocated", "freed"), 0)


class Kind(Counted):
    """The small blocks, or the large ones."""

    __slots__ = (
        *("asked", "asked_ever", "bytes", "bytes_ever", "count", "count_ever"),
        *("reserved", "reserved_ever", "segments", "segments_ever"),
    )
    asked: int
    asked_ever: int
    bytes: int
    bytes_ever: int
    count: int
    count_ever: int
    reserved: int
    segments: int

    def __init__(self) -> None:
        for name in (*Kind.__slots__, *Counted.__slots__):
            setattr(self, name, 0)

    def grow(self, size: int) -> None:
        for name, more in (("segments", 1), ("reserved", size)):
            setattr(self, name, getattr(self, name) + more)
            setattr(self, f"{name}_ever", getattr(self, f"{name}_ever") + more)
        self.grown()


class Both(Counted):
    """All blocks: the sums of what is counted by kind, and peaks of its own."""

    __slots__ = ("_kinds",)

    def __init__(self, *kinds: Kind) -> None:
        self._kinds = kinds
        self.begin_peaks()

    def __getattr__(self, name: str) -> int:
        return sum(getattr(kind, name) for kind in self._kinds)


_COUNTED: Final = {
    "count": ("allocation", "active"),
    "bytes": ("allocated_bytes", "active_bytes"),
    "asked": ("requested_bytes",),
    "segments": ("segment",),
    "reserved": ("reserved_bytes",),
}


class Private:
    """The blocks of a graph, which its launches write to again and again: nobody else gets them while `graphs` have it."""

    def __init__(self) -> None:
        self.lists = Lists()
        self.graphs = 0


class Odd:
    """What is special about a block: whose it is, and which other streams use it."""

    __slots__ = ("private", "streams")

    def __init__(self) -> None:
        self.private: Private | None = None
        self.streams: set[int] = set()


class Waiting(NamedTuple):
    """A block that was given back while other streams may still use it."""

    address: int
    stream: int
    odd: Odd
    events: list[Any]


class Pool:
    """Over the driver of one device. One that does not keep blocks counts them all the same: who looks for errors on an emulated device
    wants to see each one end."""

    def __init__(self, driver: Device, index: int = 0, keeps: bool = True) -> None:
        self.driver, self.index, self.keeps = driver, index, keeps
        self._small, self._large = Kind(), Kind()
        self._all = Both(self._small, self._large)
        self._events: list[int] = []  # bytes that were lent, and less than 0 that were given back
        self._counting = False
        self.retries = self.refused = 0
        self.fraction = 1.0
        self._lists = _ByStream()
        self._odd: dict[int, Odd] = {}
        self._freed_odd: deque[tuple[int, int]] = deque()
        self._waiting: list[Waiting] = []
        self._segments: dict[int, tuple[int, int]] = {}  # size and stream, by address
        self._private: dict[int, Private] = {}  # of the streams that are captured
        self._general: dict[int, Lists] = {}  # what those had before
        self._total = 0
        self._since: dict[str, int] = {}
        self._slow = threading.RLock()

    def allocate(self, nbytes: int, stream: int) -> int:
        if nbytes <= SMALL:
            size = (nbytes + UNIT - 1) & -UNIT
        else:
            size = (nbytes + LARGE_UNIT - 1) & -LARGE_UNIT
        try:
            address = self._lists[stream][size].pop()
        except IndexError:
            address = self._fresh(size, nbytes, stream)
        events = self._events
        events.append(nbytes)
        if len(events) > EVENTS:
            self._count()
        return address

    def free(self, address: int, nbytes: int, stream: int) -> None:
        self._events.append(-nbytes)
        if nbytes <= SMALL:
            size = (nbytes + UNIT - 1) & -UNIT
        else:
            size = (nbytes + LARGE_UNIT - 1) & -LARGE_UNIT
        if self._odd and address in self._odd:
            self._freed_odd.append((address, stream))
        elif self.keeps:
            self._lists[stream][size].append(address)
        else:
            self._return(address, stream)

    # counts

    @property
    def small(self) -> Kind:
        self._count()
        return self._small

    @property
    def large(self) -> Kind:
        self._count()
        return self._large

    @property
    def all(self) -> Both:
        self._count()
        return self._all

    def _count(self) -> None:
        """All that is written down, in its order."""
        with self._slow:
            events = self._events
            if not events or self._counting:  # by this thread, which the collector has interrupted
                return
            self._counting = True
            try:
                part = np.array(events[: (n := len(events))], np.int64)
                del events[:n]
                sign, asked = np.sign(part), np.abs(part)
                whole, small = sign * ((asked + (UNIT - 1)) & -UNIT), asked <= SMALL
                changes = {"count": sign, "bytes": whole, "asked": part}
                both = dict.fromkeys(changes, np.zeros(n, np.int64))
                for kind, of in ((self._small, small), (self._large, ~small)):
                    most = {}
                    for name, change in changes.items():
                        change = np.where(of, change, 0)
                        now = getattr(kind, name) + np.cumsum(change)
                        most[name], both[name] = int(now.max()), both[name] + now
                        ever = getattr(kind, f"{name}_ever") + int(change[change > 0].sum())
                        setattr(kind, name, int(now[-1]))
                        setattr(kind, f"{name}_ever", ever)
                    kind.peaked(most)
                self._all.peaked({name: int(now.max()) for name, now in both.items()})
            finally:
                self._counting = False

    # what the driver is asked

    def _fresh(self, size: int, nbytes: int, stream: int) -> int:
        """A block from the driver, or one that has come back meanwhile."""
        with self._slow:
            self.look()
            waits = self._lists[stream][size]
            if waits:
                return waits.pop()
            if self.all.reserved - self.all.bytes > self.total() // KEPT:
                self.give_back()
            private = self._private.get(stream)
            asked = size if self.keeps or private is not None else nbytes
            try:
                address = self._asked(asked, stream)
            except MemoryError:
                address = self._once_more(asked, stream)
            (self.small if size <= SMALL else self.large).grow(size)
            self.all.grown()
            self._segments[address] = asked, stream
            if private is not None:
                self._odd.setdefault(address, Odd()).private = private
            return address

    def _asked(self, size: int, stream: int) -> int:
        if self.fraction < 1 and self.all.reserved + size > self.fraction * self.total():
            raise MemoryError
        return self.driver.allocate(size, stream)

    def _once_more(self, size: int, stream: int) -> int:
        """When all that nobody needs has gone back."""
        self.retries += 1
        gc.collect()
        if not self._private:  # else the device may not be waited for
            self.driver.synchronize(None)
        self.empty()
        try:
            return self._asked(size, stream)
        except MemoryError:
            self.refused += 1
            raise OutOfMemoryError(self._refusal(size)) from None

    def _refusal(self, size: int) -> str:
        free, total = self.driver.room()
        lent, reserved = self.all.bytes, self.all.reserved
        allowed = f" {_said(int(total * self.fraction))} allowed;" if self.fraction < 1 else ""
        return (
            f"CUDA out of memory. Tried to allocate {_said(size)}. GPU {self.index} has a total capacity of {_said(total)} "
            f"of which {_said(free)} is free.{allowed} Of the allocated memory {_said(lent)} is allocated by tensors, and "
            f"{_said(reserved - lent)} is reserved by nbgrad but unallocated."
        )

    def total(self) -> int:
        """Bytes of the device."""
        if not self._total:
            self._total = self.driver.room()[1]
        return self._total

    def look(self) -> None:
        """Take back what other streams have done with."""
        if not self._freed_odd and not self._waiting:
            return
        with self._slow:
            while self._freed_odd:
                address, stream = self._freed_odd.popleft()
                odd = self._odd[address]
                events = [self._marked(used) for used in odd.streams]
                self._waiting.append(Waiting(address, stream, odd, events))
            waiting, self._waiting = self._waiting, []
            for block in waiting:
                if all(map(self.driver.passed, block.events)):
                    self._end_odd(block)
                else:
                    self._waiting.append(block)

    def _marked(self, stream: int) -> Any:
        event = self.driver.event(False)
        self.driver.record(event, stream)
        return event

    def _end_odd(self, block: Waiting) -> None:
        private, size = block.odd.private, size_of(self._segments[block.address][0])
        block.odd.streams.clear()
        if private is not None and private.graphs:
            private.lists[size].append(block.address)
        else:
            del self._odd[block.address]
            if not self.keeps:
                self._return(block.address, block.stream)
                return
            self._general.get(block.stream, self._lists[block.stream])[size].append(block.address)

    def _return(self, address: int, stream: int) -> None:
        nbytes, _ = self._segments.pop(address)
        self.driver.free(address, nbytes, stream)
        size = size_of(nbytes)
        kind = self.small if size <= SMALL else self.large
        kind.segments -= 1
        kind.reserved -= size

    def give_back(self) -> None:
        """All that waits in lists, to the driver."""
        with self._slow:
            for stream, lists in list(self._lists.items()):
                if stream in self._private:
                    continue
                for waits in list(lists.values()):
                    while waits:
                        with suppress(IndexError):  # another thread has taken the last
                            self._return(waits.pop(), stream)

    def empty(self) -> None:
        """All that nobody needs, to the device."""
        self.look()
        self.give_back()
        if not self._private:
            self.driver.trim()

    # what is special

    def used_by(self, address: int, stream: int) -> None:
        """A block is not lent again before this stream, too, has done what it is asked until the block is given back."""
        with self._slow:
            self._odd.setdefault(address, Odd()).streams.add(stream)

    def begin(self, stream: int, private: Private) -> None:
        """Let what a stream allocates from now on belong to a graph; what it has lent until now does not."""
        with self._slow:
            for address, (_, of) in self._segments.items():
                if of == stream:
                    self._odd.setdefault(address, Odd())
            self._private[stream] = private
            self._general[stream], self._lists[stream] = self._lists[stream], private.lists
            private.graphs += 1

    def captures(self, stream: int) -> bool:
        """Whether what it allocates belongs to a graph."""
        return stream in self._private

    def end(self, stream: int) -> None:
        with self._slow:
            self.look()
            del self._private[stream]
            self._lists[stream] = self._general.pop(stream)

    def release(self, private: Private, stream: int) -> None:
        """A graph is gone: what only it had can be lent again."""
        private.graphs -= 1
        if private.graphs == 0:
            for size, waits in private.lists.items():
                for address in waits:
                    del self._odd[address]
                self._lists[stream][size] += waits
            private.lists.clear()
            if not self.keeps:
                self.give_back()

    # figures

    def figures(self) -> dict[str, Any]:
        """PyTorch's, group in group."""
        found: dict[str, Any] = {}
        for pool, kind in (("all", self.all), ("large_pool", self.large), ("small_pool", self.small)):
            for name, figure in kind.figures():
                found.setdefault(name, {})[pool] = self._less(f"{name}.{pool}", figure)
        nothing = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
        return {
            **found,
            **{"oversize_allocations": nothing, "oversize_segments": nothing},
            **{
                "num_alloc_retries": self.retries,
                "num_ooms": self.refused,
                "num_sync_all_streams": self.retries,
            },
            **{
                "num_device_alloc": self.all.segments_ever,
                "num_device_free": self.all.segments_ever - self.all.segments,
            },
            **{"max_split_size": -1},
        }

    def _less(self, name: str, figure: dict[str, int]) -> dict[str, int]:
        """Without what was before the totals were begun anew."""
        for total in ("allocated", "freed"):
            figure[total] -= self._since.get(f"{name}.{total}", 0)
        return figure

    def begin_peaks(self) -> None:
        for kind in (self.small, self.large, self.all):
            kind.begin_peaks()

    def begin_totals(self) -> None:
        self._since.clear()
        self.retries = self.refused = 0
        for name, pools in self.figures().items():
            if isinstance(pools, dict):
                for pool, figure in pools.items():
                    for total in ("allocated", "freed"):
                        self._since[f"{name}.{pool}.{total}"] = (
                            figure[total] if isinstance(figure, dict) else 0
                        )

    def segments(self) -> list[dict[str, Any]]:
        """What the driver gave, as PyTorch's snapshots list it: every block a segment of its own."""
        self.look()
        waits = {a for lists in self._lists.values() for blocks in lists.values() for a in blocks}
        return [
            self._segment(address, *at, address in waits) for address, at in sorted(self._segments.items())
        ]

    def _segment(self, address: int, size: int, stream: int, waits: bool) -> dict[str, Any]:
        lent = 0 if waits else size
        state = "inactive" if waits else "active_allocated"
        block = {"address": address, "size": size, "requested_size": lent, "state": state, "frames": []}
        return {
            **{"device": self.index, "address": address, "total_size": size, "allocated_size": lent},
            **{"active_size": lent, "requested_size": lent, "stream": stream, "is_expandable": False},
            **{
                "segment_type": "small" if size <= SMALL else "large",
                "segment_pool_id": (0, 0),
                "frames": [],
            },
            "blocks": [block],
        }


def _said(nbytes: int) -> str:
    """A size as PyTorch says it."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes > unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} bytes"
