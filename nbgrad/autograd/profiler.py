"""`torch.autograd.profiler`: how long each op took, how much memory it made, and what it was part of.

    with torch.autograd.profiler.profile(profile_memory=True) as prof:
        with torch.autograd.profiler.record_function("step"):
            loss(x).backward()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json")        # for chrome://tracing or Perfetto

Promises rows under PyTorch's names (`aten::mul`, `MulBackward0`), and that it costs nothing while it is off: nothing in an op asks for it.
As in PyTorch it sees the thread that turned it on. While on, each call of an op costs some microseconds more; the time that is spent on
keeping the record is not counted as the op's.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Any

import numpy as np

from nbgrad.autograd._calls import Call, Watch, tensors_in
from nbgrad.core.tensor import Tensor

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]

_here = threading.local()  # `recorder`: that of the profile that is on


class FunctionEvent:
    """One call. Times are in microseconds from the profile's start, memory in bytes: made less freed.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(3).exp()
    >>> [event.name for event in prof.function_events if event.name == "aten::exp"]
    ['aten::exp']
    """

    count = 1
    is_async = False  # whether it goes on beside the calls, as a message does

    def __init__(self, id: int, call: Call, start: float) -> None:
        self.id, self.name = id, call.name
        self.key = "ProfilerStep*" if call.name.startswith("ProfilerStep#") else call.name
        self.is_user_annotation = call.frame is None
        self.scope = _USER if call.frame is None else _FUNCTION if call.node is None else _BACKWARD
        self.sequence_nr = -1 if call.node is None else call.node.seq
        self.thread = threading.get_native_id()
        self.time_range = Interval(start)
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.input_shapes: list[list[int]] = []
        self.stack: list[str] = []
        self.self_cpu_memory_usage = 0

    @property
    def cpu_time_total(self) -> float:
        """The time from the call's begin to its end."""
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """The time less that of the calls inside; of what goes on beside the calls 0."""
        return (
            0.0
            if self.is_async
            else self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)
        )

    @property
    def cpu_memory_usage(self) -> int:
        """The memory that the call and those inside made, less what they freed."""
        below = list(self.cpu_children)
        for child in below:
            below += child.cpu_children
        return self.self_cpu_memory_usage + sum(child.self_cpu_memory_usage for child in below)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={_time(self.cpu_time)} start_us={self.time_range.start:.3f} "
            f"end_us={self.time_range.end:.3f} cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} seq_nr={self.sequence_nr}>"
        )


_FUNCTION, _BACKWARD, _USER = 0, 1, 7  # PyTorch's scopes


class Interval:
    """A begin and an end in microseconds."""

    __slots__ = ("end", "start")

    def __init__(self, start: float) -> None:
        self.start = self.end = start

    def elapsed_us(self) -> float:
        """The microseconds between them."""
        return self.end - self.start


class FunctionEventAvg:
    """Calls of one name together: their `count`, the sums of their times and memory.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(3).exp().exp()
    >>> [row.count for row in prof.key_averages() if row.key == "aten::exp"]
    [2]
    """

    def __init__(self, key: str, input_shapes: Any = "", stack: Iterable[str] = ()) -> None:
        self.key, self.input_shapes, self.stack = key, input_shapes, list(stack)
        self.count, self.cpu_time_total, self.self_cpu_time_total = 0, 0.0, 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.cpu_parent: FunctionEvent | None = None

    def add(self, event: FunctionEvent) -> None:
        """Count one more call."""
        if not self.count:
            self.cpu_parent = event.cpu_parent
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_memory_usage += event.self_cpu_memory_usage

    @property
    def cpu_time(self) -> float:
        """The mean time of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={_time(self.self_cpu_time_total)} cpu_time={_time(self.cpu_time)} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list[Any]):
    """Events in the order of their beginnings, or averages of them.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(3).exp()
    >>> type(prof.function_events).__name__, len(prof.key_averages()) > 0
    ('EventList', True)
    """

    def __init__(self, events: Iterable[Any] = (), profile_memory: bool = False) -> None:
        super().__init__(events)
        self._profile_memory = profile_memory

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all calls, each counted once."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """One average for each name; for each name and shapes of inputs; for each name and innermost lines of the caller."""
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else ""
            stack = event.stack[:group_by_stack_n]
            key = (event.key, str(shapes), *stack)
            groups.setdefault(key, FunctionEventAvg(event.key, shapes, stack)).add(event)
        return EventList(groups.values(), self._profile_memory)

    def total_average(self) -> FunctionEventAvg:
        """One average of all."""
        total = FunctionEventAvg("Total", [])
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """PyTorch's table. `sort_by` is an attribute of the events, the largest of which comes first."""
        if not self:
            return ""
        total = self.self_cpu_time_total
        events = sorted(self, key=lambda e: getattr(e, sort_by), reverse=True) if sort_by else list(self)
        shown = [e for e in events if not (top_level_events_only and e.cpu_parent is not None)][:row_limit]
        columns: list[tuple[str, int, list[str]]] = []

        def column(title: str, texts: list[str], width: int = 12) -> None:
            columns.append((title, width, texts))

        def widest(texts: list[str], limit: int) -> int:
            return min(max(map(len, texts)) + 4, limit)

        def percent(times: list[float]) -> list[str]:
            return ["NaN" if total == 0 else f"{t * 100.0 / total:.2f}%" for t in times]

        limit = max_name_column_width
        names = [e.key if len(e.key) < limit - 3 else e.key[: limit - 3] + "..." for e in shown]
        column("Name", names, widest([e.key for e in events], limit))
        column("Self CPU %", percent([e.self_cpu_time_total for e in shown]))
        column("Self CPU", [_time(e.self_cpu_time_total) for e in shown])
        column("CPU total %", percent([e.cpu_time_total for e in shown]))
        column("CPU total", [_time(e.cpu_time_total) for e in shown])
        column("CPU time avg", [_time(e.cpu_time) for e in shown])
        if self._profile_memory:
            column("CPU Mem", [_memory(e.cpu_memory_usage) for e in shown])
            column("Self CPU Mem", [_memory(e.self_cpu_memory_usage) for e in shown])
        column("# of Calls", [str(e.count) for e in shown])
        if any(e.input_shapes for e in events):
            width = widest([str(e.input_shapes) for e in events], max_shapes_column_width)
            column("Input Shapes", [str(e.input_shapes)[:width] for e in shown], width)
        extra = 0
        if any(e.stack for e in events):
            lines = [line for e in events for line in e.stack]
            width = widest(lines, max_src_column_width)
            column("Source Location", [e.stack[0][-width:] if e.stack else "" for e in shown], width)
            extra = max(len(e.stack) for e in shown)

        def line(texts: Iterable[str]) -> str:
            return "".join(f"{text: >{width}}  " for text, (_, width, _) in zip(texts, columns)) + "\n"

        rule = line("-" * width for _, width, _ in columns)
        rows = []
        for k, event in enumerate(shown):
            rows.append(line(texts[k] for _, _, texts in columns))
            for deeper in event.stack[1:extra]:
                rows.append(line([""] * (len(columns) - 1) + [deeper[-columns[-1][1] :]]))
        heads = [header] if header is not None else []
        if top_level_events_only:
            heads.append("This report only display top-level ops statistics")
        above = "".join(f"{'=' * (len(rule) - 3)}\n{head}\n" for head in heads)
        titles = line(title for title, _, _ in columns)
        return f"{above}{rule}{titles}{rule}{''.join(rows)}{rule}Self CPU time total: {_time(total)}\n"

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for chrome://tracing; arrows lead from a call to the run of the node that it recorded."""
        pid = os.getpid()
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": "python"}}
        ]
        begun: dict[int, FunctionEvent] = {}
        for e in self:
            place = {"pid": pid, "tid": e.thread, "ts": e.time_range.start}
            about: dict[str, Any] = {"External id": e.id}
            if e.sequence_nr >= 0:
                about["Sequence number"] = e.sequence_nr
            if e.input_shapes:
                about["Input Dims"] = e.input_shapes
            if e.is_async:
                track = {"cat": "communication", "name": e.name, "id": e.id, "pid": pid, "tid": e.thread}
                events.append({"ph": "b", "ts": e.time_range.start, "args": about, **track})
                events.append({"ph": "e", "ts": e.time_range.end, **track})
                continue
            category = "user_annotation" if e.is_user_annotation else "cpu_op"
            events.append(
                {"ph": "X", "cat": category, "name": e.name, **place, "dur": e.cpu_time, "args": about}
            )
            if e.scope == _FUNCTION:
                begun[e.sequence_nr] = e
            elif e.scope == _BACKWARD and e.sequence_nr in begun:
                start = {"pid": pid, "tid": e.thread, "ts": begun[e.sequence_nr].time_range.start}
                arrow = {"id": e.id, "cat": "fwdbwd", "name": "fwdbwd"}
                events += [{"ph": "s", **arrow, **start}, {"ph": "f", "bp": "e", **arrow, **place}]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events}, file)


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _memory(nbytes: int) -> str:
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**power:
            return f"{nbytes / 1024**power:.2f} {unit}"
    return f"{nbytes} B"


# ---------------------------------------------------------------- recording


class _Recorder(Watch):
    """Turns calls into events. Its clock stands still while it writes."""

    def __init__(self, shapes: bool, memory: bool, stack: bool) -> None:
        super().__init__()
        self.shapes, self.memory, self.lines = shapes, memory, stack
        self.events: list[FunctionEvent] = []
        self.open: dict[int, FunctionEvent] = {}  # beside the calls, and not at their end
        self.counted: dict[int, Any] = {}  # weak references to memory that was made, by identity
        self.start = perf_counter_ns()

    def _now(self) -> float:
        return (perf_counter_ns() - self.start) / 1e3

    def entered(self, call: Call) -> None:
        now = self._now()
        event = call.data = FunctionEvent(len(self.events) + 1, call, now)
        if len(self.stack) > 1:
            event.cpu_parent = self.stack[-2].data
            self.stack[-2].data.cpu_children.append(event)
        if self.shapes:
            event.input_shapes = [_shape(a) for a in call.args]
        if self.lines:
            event.stack = _lines(sys._getframe(2))
        if not self.memory:
            call.args = ()  # what is not needed is not kept alive
        self.events.append(event)
        self.start += int((self._now() - now) * 1e3)

    def beside(self, name: str, shapes: list[Any], waits: bool) -> Callable[[], None]:
        event = FunctionEvent(len(self.events) + 1, Call(name), self._now())
        event.is_async, event.is_user_annotation = not waits, False
        if waits and self.stack:
            event.cpu_parent = self.stack[-1].data
            self.stack[-1].data.cpu_children.append(event)
        if self.shapes:
            event.input_shapes = shapes
        self.events.append(event)
        self.open[event.id] = event

        def end() -> None:
            if self.open.pop(event.id, None) is not None:
                event.time_range.end = self._now()

        return end

    def close(self) -> None:
        """What is still under way has been so until now."""
        for event in self.open.values():
            event.time_range.end = self._now()
        self.open.clear()

    def left(self, call: Call, result: Any) -> None:
        now = self._now()
        event = call.data
        event.time_range.end = now
        results = tensors_in(result)
        if call.node is None and results and results[0]._node is not None:
            event.sequence_nr = results[0]._node.seq
        if self.memory:
            known = [_owner(t) for t in tensors_in(call.args)]
            for t in results:
                owner = _owner(t)
                if id(owner) not in self.counted and not any(owner is k for k in known):
                    self._count(event, owner)
        self.start += int((self._now() - now) * 1e3)

    def _count(self, event: FunctionEvent, owner: Any) -> None:
        """Memory that a call has made, and who is running when it goes."""
        event.self_cpu_memory_usage += owner.nbytes
        key, nbytes = id(owner), owner.nbytes

        def gone(_: Any) -> None:
            self.counted.pop(key, None)
            if self.stack:
                self.stack[-1].data.self_cpu_memory_usage -= nbytes

        self.counted[key] = weakref.ref(owner, gone)


def _shape(value: Any) -> list[Any]:
    """Of a tensor, or of each tensor of a list; [] for all else."""
    if isinstance(value, Tensor):
        return list(value.shape)
    return [_shape(v) for v in tensors_in(value)]


def _owner(t: Tensor) -> Any:
    memory = t._buf
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    return memory


def _lines(frame: Any) -> list[str]:
    """Who called, the innermost first, without what lies in this library."""
    found = []
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("nbgrad."):
            code = frame.f_code
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


class profile:
    """A context that records every op of this thread. Afterwards `function_events` holds each call, `key_averages()` sums up,
    `table()` shows.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(3).exp()
    >>> [row.count for row in prof.key_averages() if row.key == "aten::exp"]
    [1]
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
    ) -> None:
        self.enabled, self.entered = enabled, False
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self._events = EventList((), profile_memory)
        self._finished = False

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._outside = getattr(_here, "recorder", None)
        recorder = _Recorder(self.record_shapes, self.profile_memory, self.with_stack)
        recorder.__enter__()
        self.entered, self._recorder, _here.recorder = True, recorder, recorder
        return self

    def __exit__(self, *_: object) -> None:
        if not self.enabled:
            return
        self._recorder.__exit__()
        self._recorder.close()
        _here.recorder = self._outside
        self._events = EventList(self._recorder.events, self.profile_memory)
        self._finished = True
        del self._recorder, self._outside

    @property
    def function_events(self) -> EventList:
        """Every call, in the order of their beginnings."""
        return self._events

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all calls, in microseconds, each counted once."""
        return self._events.self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """One average for each name of an op; see `EventList.key_averages`."""
        return self._events.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """One average of all calls."""
        return self._events.total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **settings: Any) -> str:
        """Every call in a row; see `EventList.table`."""
        return self._events.table(sort_by, row_limit, **settings)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the calls to a file for chrome://tracing."""
        self._events.export_chrome_trace(path)

    def __str__(self) -> str:
        return self.table() if self._finished else "<unfinished torch.autograd.profile>"

    __repr__ = __str__


def beside(name: str, tensors: Iterable[Any], waits: bool = False) -> Callable[[], None] | None:
    """A row for a message, in the profile that is on: what comes back ends it. One for which its call `waits` is part of that.

    >>> torch.autograd.profiler.beside("mpi:send", []) is None
    True
    """
    recorder: _Recorder | None = getattr(_here, "recorder", None)
    if recorder is None:
        return None
    return recorder.beside(name, [_shape(t) for t in tensors], waits)


class record_function(contextlib.ContextDecorator):
    """A name for what runs inside, as a row of its own; a context or a decorator. Does nothing while no profile is on.

    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("mine"):
    ...         y = torch.ones(2) + 1
    >>> "mine" in [row.key for row in prof.key_averages()]
    True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        recorder: _Recorder | None = getattr(_here, "recorder", None)
        self._recorder = recorder
        if recorder is not None:
            self._call = Call(self.name)
            recorder.stack.append(self._call)
            recorder.entered(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        if self._recorder is not None and self._call in self._recorder.stack:
            while (call := self._recorder.stack.pop()) is not self._call:
                self._recorder.left(call, None)
            self._recorder.left(self._call, None)
