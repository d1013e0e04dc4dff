"""What a thread has switched: grad mode, inference mode, and whether any transform is active.

Promises the dispatcher one thread-local object whose attributes are read on every recorded op, so they are plain.
"""

from __future__ import annotations

import threading
from typing import Any


class State(threading.local):
    grad = True  # results of ops are recorded
    inference = False  # results are inference tensors: neither recorded nor versioned
    active = 0  # how many transforms or captures are on this thread's stack; 0 keeps the ops on their short way
    saved_hooks: tuple[Any, ...] = ()  # stack of (pack, unpack) pairs
    saved_hooks_disabled: str | None = None  # the message that refuses them
    anomaly = False
    anomaly_nan = True
    node: Any = None  # the node whose backward runs on this thread


state = State()
