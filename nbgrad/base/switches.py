"""What users switch for the whole process, where stories far apart must know it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet


class _Determinism:
    """Whether results must not depend on which thread comes first: 1 to warn, 2 to refuse what cannot do so; and whether memory that
    nothing was put into is filled meanwhile."""

    __slots__ = ("fills", "level")
    fills: bool
    level: int


determinism: Final = _Determinism()
determinism.level = 0
determinism.fills = True


class _Recorded:
    """While launches are recorded, `otherwise(result, flag, other)` takes both ways where the flag, a tensor, says that `other()` is the
    result, and `sure(tensor, test, error)` notes that its values pass a test, or the error is raised. Both give False to who is not
    recorded, and has to look himself. `work(what, takes, gives)` notes that `what.done` made of some tensors' values those of others,
    all of them of the CPU. Records hold memory: who has to have it alone calls `forget(why)` of all of `records`."""

    __slots__ = ("otherwise", "records", "sure", "work")
    records: WeakSet[Any]
    otherwise: Callable[[Any, Any, Callable[[], Any]], bool] | None
    sure: Callable[[Any, Callable[[Any], bool], str], bool] | None
    work: Callable[[Any, Any, Any], bool] | None


recorded: Final = _Recorded()
recorded.otherwise = recorded.sure = recorded.work = None
recorded.records = WeakSet()


class _Compiling:
    """Which thread runs a function to make a program of it, or None; the stance of `torch.compiler.set_stance`; and every function that
    is compiled, which follows the stance by `stand()` and forgets its programs by `forget()`."""

    __slots__ = ("every", "stance", "thread")
    every: WeakSet[Any]
    stance: str
    thread: int | None


compiling: Final = _Compiling()
compiling.every = WeakSet()
compiling.stance = "default"
compiling.thread = None


class _Attention:
    """Whether a transformer's encoder that infers leaves out what padding hides."""

    __slots__ = ("fast",)
    fast: bool


attention: Final = _Attention()
attention.fast = True


class Unrepeatable(Exception):
    """What is noted is more than what was asked of a device: it looked at values, drew random numbers or warned."""


class _Noting(threading.local):
    """What this thread asks of a device, while that is noted to be done again: of a launch what does it with addresses in the place of
    buffers, its kernel and range, the buffers and the numbers; of a copy, a fill or an upload its name and what it was given."""

    steps: list[tuple[Any, ...]] | None = None

    def refuse(self) -> None:
        if self.steps is not None:
            raise Unrepeatable


noting: Final = _Noting()
