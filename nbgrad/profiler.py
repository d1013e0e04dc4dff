"""`torch.profiler`: `torch.autograd.profiler` by steps of a training loop, under the names of PyTorch's newer interface.

    with torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=3),
                                on_trace_ready=torch.profiler.tensorboard_trace_handler("log")) as prof:
        for batch in batches:
            train(batch)
            prof.step()

Promises the schedule's cycles as PyTorch has them. There is one activity, the CPU.
"""

from __future__ import annotations

import enum
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from nbgrad.autograd import profiler as _calls
from nbgrad.autograd.profiler import EventList, record_function

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What can be recorded: calls on the CPU, or kernels on a GPU.

    >>> torch.profiler.ProfilerActivity.CPU.name
    'CPU'
    """

    CPU = 0
    CUDA = 3


class ProfilerAction(enum.Enum):
    """What to do in a step: nothing, warm up, record, or record and hand out what there is.

    >>> torch.profiler.ProfilerAction.RECORD.value
    2
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded on this machine.

    >>> torch.profiler.ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether `torch.profiler.profile` can be used: always.

    >>> torch.profiler.kineto_available()
    True
    """
    return True


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """What to do in each step: after `skip_first` steps, cycles of `wait` steps that are not looked at, `warmup` steps, and `active` ones
    that are recorded; so many cycles, or without end if `repeat` is 0. `skip_first_wait` leaves out the first cycle's wait.

    >>> plan = torch.profiler.schedule(wait=1, warmup=1, active=2)
    >>> [plan(step).name for step in range(4)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), active={active} (need > "
            f"0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, length)
        if place < wait or (repeat and cycle >= repeat):
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None
) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes each trace into the directory, under a name of its own.

    >>> torch.profiler.profile(on_trace_ready=torch.profiler.tensorboard_trace_handler("traces")).step_num
    0
    """

    def write(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return write


class profile:
    """Records in the steps that `schedule` says, all without one; `on_trace_ready` is called with the profile after each stretch.
    Modules are known for scripts alone, of which there are none, so that `with_modules` adds nothing, as in PyTorch.

    >>> with torch.profiler.profile() as seen:
    ...     total = torch.ones(2).sum()
    >>> "aten::sum" in [row.key for row in seen.key_averages()]
    True
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
    ) -> None:
        if with_flops:
            warnings.warn("with_flops is ignored: no operations are counted here", stacklevel=2)
        asked = set(supported_activities() if activities is None else activities)
        if not asked & supported_activities():
            raise AssertionError("No valid profiler activities found")
        if ProfilerActivity.CUDA in asked:
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self.schedule, self.on_trace_ready, self.step_num = schedule, on_trace_ready, 0
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.profiler: _calls.profile | None = None
        self._step: record_function | None = None
        self.current_action = self._action()

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD_AND_SAVE if self.schedule is None else self.schedule(self.step_num)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._begin()

    def stop(self) -> None:
        if self.current_action in _RECORDING:
            self._end()

    def step(self) -> None:
        """The next step begins."""
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        if self.schedule is None:
            return
        if before in _RECORDING and (
            before is ProfilerAction.RECORD_AND_SAVE or self.current_action not in _RECORDING
        ):
            self._end()
            before = ProfilerAction.NONE
        self._begin(before)

    def _begin(self, before: ProfilerAction = ProfilerAction.NONE) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None
        if self.current_action in _RECORDING:
            if before not in _RECORDING:
                self.profiler = _calls.profile(
                    record_shapes=self.record_shapes,
                    profile_memory=self.profile_memory,
                    with_stack=self.with_stack,
                )
                self.profiler.__enter__()
            if self.schedule is not None:
                self._step = record_function(f"ProfilerStep#{self.step_num}")
                self._step.__enter__()

    def _end(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None
        self._known("stopping trace").__exit__()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _known(self, doing: str) -> _calls.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {doing}")
        return self.profiler

    def events(self) -> EventList:
        return self._known("accessing events").function_events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        return self._known("getting key averages").key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        self._known("exporting chrome trace").export_chrome_trace(path)
