"""What a thread has switched: grad mode, the modes that few programs need, and whether any transform is active.

Promises the dispatcher one thread-local object whose attributes are read on every recorded op, so they are plain; and one
object that all threads share, whose `rare` is false unless something unusual is on anywhere: one cheap look covers all of it.
Promises the engine that all a user can switch on a thread is `grad` and `modes`, so that what was on can be put back in one step.
"""

from __future__ import annotations

import threading
from typing import Any

from nbgrad.base.records import NamedTuple


class Modes(NamedTuple):
    """What few programs switch: one value, which is replaced as a whole."""

    inference: bool = False  # results are inference tensors: neither recorded nor versioned
    grad_asked: bool = (
        False  # in inference mode, where nothing is recorded whatever is asked: what was asked for
    )
    saved_hooks: tuple[Any, ...] = ()  # stack of (pack, unpack) pairs
    saved_hooks_disabled: str | None = None  # the message that refuses them
    before_write: Any = None  # called with each tensor that is about to be written to
    multithreading: bool = True
    view_replay: bool = False  # a view whose base was written to is made again by its own op


PLAIN = Modes()
INFERENCE = Modes(inference=True)


class State(threading.local):
    grad = True  # results of ops are recorded
    modes = PLAIN
    active = 0  # how many transforms run on this thread; 0 keeps the ops on their short way
    levels: tuple[Any, ...] = ()  # of vmap, the outermost first
    transforms: tuple[Any, ...] = ()  # the functions that run to be differentiated, the outermost first
    duals: tuple[int, ...] = ()  # the levels of forward mode that are open
    moving = True  # where a level is open, ops compute tangents
    dual_level: Any = None  # the one of them that the user opened by hand
    node: Any = None  # the node whose backward runs on this thread
    task: Any = None  # the backward that runs on this thread
    asked = 2  # who may answer calls in the place of functions: classes and modes, modes, nobody (`core/overrides.py`)
    functions: tuple[Any, ...] = ()  # the modes that do, the outermost first
    below: tuple[
        Any, ...
    ] = ()  # the modes that take operators over, below functions (`_aten/calls.py`), the outermost first
    outside = 2  # `asked` of who called a backward: inside it, users' functions alone ask
    skip = False  # the next function does not ask


class Shared:
    """`rare` counts what is on: the threads whose modes are not plain, and anomaly mode, which is one switch for all threads."""

    __slots__ = ("_lock", "add", "anomaly", "check_nan", "hooked", "late", "numbered", "rare", "run_node")

    def __init__(self) -> None:
        self.rare = 0
        self.anomaly = False
        self.check_nan = True
        self.hooked = False  # a tensor has had a hook, which may write to its gradient
        self.late = False  # a sink with hooks has been in two graphs at a time
        self.numbered = False  # a user has set the number of a node
        self.run_node: Any = None  # what runs nodes and adds gradients while operators may be taken over
        self.add: Any = None
        self._lock = threading.Lock()

    def count(self, by: int) -> None:
        with self._lock:
            self.rare += by


state = State()
shared = Shared()


def set_modes(modes: Modes) -> None:
    rare = modes != PLAIN
    shared.count(rare - (state.modes != PLAIN))
    state.modes = modes if rare else PLAIN


def without_hooks(modes: Modes) -> Modes:
    """For a while that is too short to be counted: who has hooks is rare before and after."""
    return tuple.__new__(Modes, (*modes[:2], (), *modes[3:]))


def switch(**fields: Any) -> None:
    """Set these of this thread's modes."""
    set_modes(state.modes._replace(**fields))


def put_back(grad: bool, modes: Modes) -> None:
    """Undo what a user's function, called in a backward, has left switched: what comes after it runs as what came before."""
    state.grad = grad
    if state.modes != modes:
        set_modes(modes)


def set_anomaly(enabled: bool, check_nan: bool = True) -> None:
    shared.count(enabled - shared.anomaly)
    shared.anomaly, shared.check_nan = enabled, check_nan


def set_inference(enabled: bool) -> None:
    """Grad mode follows: nothing is recorded in inference mode, and leaving it by `inference_mode(False)` records again."""
    if state.modes is (PLAIN if enabled else INFERENCE):  # the usual ones: `_replace` takes a microsecond
        set_modes(INFERENCE if enabled else PLAIN)
    else:
        switch(inference=enabled, grad_asked=False)
    state.grad = not enabled


def grad_mode() -> bool:
    """What a user sees; inside inference mode it can be on, and still nothing is recorded."""
    if shared.rare and state.modes.inference:
        return state.modes.grad_asked
    return state.grad


def set_grad_mode(enabled: bool) -> None:
    if shared.rare and state.modes.inference:
        switch(grad_asked=enabled)
    else:
        state.grad = enabled
