"""What a thread has switched: grad mode, inference mode, and whether any transform is active.

Promises the dispatcher one thread-local object whose attributes are read on every recorded op, so they are plain; and one
object that all threads share, whose `rare` is false unless something unusual is on anywhere: one cheap look covers all of it.
"""

from __future__ import annotations

import threading
from typing import Any


class State(threading.local):
    grad = True  # results of ops are recorded
    inference = False  # results are inference tensors: neither recorded nor versioned
    grad_asked = False  # in inference mode, where nothing is recorded whatever is asked: the grad mode that was asked for
    active = 0  # how many transforms run on this thread; 0 keeps the ops on their short way
    levels: tuple[Any, ...] = ()  # of vmap, the outermost first
    duals: tuple[int, ...] = ()  # the levels of forward mode that are open
    moving = True  # where a level is open, ops compute tangents
    dual_level: Any = None  # the one of them that the user opened by hand
    saved_hooks: tuple[Any, ...] = ()  # stack of (pack, unpack) pairs
    saved_hooks_disabled: str | None = None  # the message that refuses them
    before_write: Any = None  # called with each tensor that is about to be written to
    multithreading = True
    node: Any = None  # the node whose backward runs on this thread
    task: Any = None  # the backward that runs on this thread


class Shared:
    """`rare` counts what is on: threads in inference mode, hooks on saved values or on writes, and anomaly mode, which is one
    switch for all threads."""

    __slots__ = ("_lock", "anomaly", "check_nan", "rare")

    def __init__(self) -> None:
        self.rare = 0
        self.anomaly = False
        self.check_nan = True
        self._lock = threading.Lock()

    def count(self, by: int) -> None:
        with self._lock:
            self.rare += by


state = State()
shared = Shared()


def set_anomaly(enabled: bool, check_nan: bool = True) -> None:
    shared.count(enabled - shared.anomaly)
    shared.anomaly, shared.check_nan = enabled, check_nan


def set_inference(enabled: bool) -> None:
    """Grad mode follows: nothing is recorded in inference mode, and leaving it by `inference_mode(False)` records again."""
    shared.count(enabled - state.inference)
    state.inference, state.grad, state.grad_asked = enabled, not enabled, False


def grad_mode() -> bool:
    """What a user sees; inside inference mode it can be on, and still nothing is recorded."""
    return state.grad_asked if state.inference else state.grad


def set_grad_mode(enabled: bool) -> None:
    if state.inference:
        state.grad_asked = enabled
    else:
        state.grad = enabled
