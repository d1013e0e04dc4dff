"""A program is believed when it has done again, from the same values and with its own memory spoiled, what the function did.

Promises `Snapshot`, which holds values and puts them back, `prove(...)`, and a look at all tensors that live.
"""

from __future__ import annotations

import gc
import sys
import time
from functools import partial
from types import CellType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbgrad.base.collector import alive
from nbgrad.base.ours import is_ours
from nbgrad.compiled import capture
from nbgrad.compiled.graph import DRAWN, GIVEN, GRAD, SAVED, Memory, Strange, Unknown
from nbgrad.compiled.replay import Ready
from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from nbgrad.compiled.lower import Run, Step

_bytes = np.dtype(np.uint8)
_LONG = 1.0  # seconds after which another thread asks for its turn, and after which who learns gets back Python that one took
_PAUSE = 1e-3  # seconds that a call is late which finds another thread learning


def tensors_alive() -> list[Tensor]:
    return alive(Tensor)


def memory_of(tensors: Any) -> set[int]:
    return {
        capture.address(capture.root(t._buf))
        for t in tensors
        if isinstance(getattr(t, "_buf", None), np.ndarray)
    }


def only_ours(at: int) -> bool:
    """Whether the tensors whose memory is there belong to plans and tables of nbgrad's own."""
    holders: list[Any] = [t for t in tensors_alive() if memory_of([t]) == {at}]
    seen = {id(holders)}
    for _ in range(8):
        seen.update(map(id, holders))
        more = []
        for one in [one for h in holders for one in gc.get_referrers(h)]:
            name = getattr(one, "__module__", None) or ""
            if id(one) in seen or isinstance(one, FrameType):
                continue
            if isinstance(one, FunctionType):
                if not (is_ours(name) or one.__code__.co_filename.startswith("<nbgrad")):
                    return False
            elif isinstance(one, (list, tuple, CellType, partial)) or type(one) is dict:
                if isinstance(one, dict) and "__name__" in one:
                    return False
                more.append(one)
            elif type(one).__module__ == "functools" and is_ours(name):
                continue  # what a function of ours remembers
            elif not is_ours(type(one).__module__) or isinstance(one, (Tensor, Module)):
                return False
        seen.add(id(more))
        holders = more
        if not holders:
            return True
    return False


class Snapshot:
    """Values of tensors, their counts of writes and their gradients."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        self.values: dict[int, tuple[Any, Any]] = {}
        self.versions = [version(t) for t in tensors]
        self.nodes = [(t._node, t._rg) for t in tensors]
        self.grads = [t._ad.grad if t._ad is not None else None for t in tensors]
        for t in [*tensors, *[g for g in self.grads if g is not None]]:
            base = capture.root(t._buf)
            self.values.setdefault(capture.address(base), (base, base.copy()))
        self.counts = {id(g): version(g) for g in self.grads if g is not None}

    def now(self) -> list[tuple[Any, Any]]:
        return [(base, base.copy()) for base, _ in self.values.values()]

    def rewind(self) -> None:
        """As all of it was: values, counts of writes, gradients and histories."""
        self.put_back()
        for t, count, grad, (node, rg) in zip(self.tensors, self.versions, self.grads, self.nodes):
            if t._storage is not None:
                t._storage.version = count
            if t._ad is not None:
                t._ad.grad = grad
            if grad is not None and grad._storage is not None:
                grad._storage.version = self.counts[id(grad)]
            t._node, t._rg = node, rg

    def put_back(self) -> None:
        for base, values in self.values.values():
            put(base, values)


def put(base: Any, values: Any) -> None:
    if base.nbytes:
        base.reshape(-1).view(_bytes)[:] = values.reshape(-1).view(_bytes)


def version(t: Tensor) -> int:
    return t._storage.version if t._storage is not None else 0


class Threads:
    """Other threads, kept from Python while somebody learns, but where that waits: a tensor that they made would look like one that the
    call has made and somebody keeps."""

    def __init__(self) -> None:
        self._learners: set[int] = set()
        self._interval = 0.005

    def halt(self, learner: object) -> None:
        if sys.getswitchinterval() < _LONG:
            self._interval = sys.getswitchinterval()
        self._learners.add(id(learner))
        sys.setswitchinterval(_LONG)

    def let_learn(self) -> None:
        """Leave Python to who learns, whom this thread would keep from it for as long as nothing makes it wait."""
        if self._learners:
            time.sleep(_PAUSE)

    def go_on(self, learner: object) -> None:
        """Of several who learn the last one gives Python back."""
        self._learners.discard(id(learner))
        if not self._learners and sys.getswitchinterval() >= _LONG:
            sys.setswitchinterval(self._interval)


threads = Threads()


def nothing_else_lives(alive: dict[int, Any], known: set[int]) -> None:
    """But for what was `alive` before the call, and the tensors that are `known`."""

    def strange() -> bool:
        return any(
            id(t) not in known and (alive.get(id(t)) is None or alive[id(t)]() is not t)
            for t in tensors_alive()
        )

    if strange():
        gc.collect()
        if strange():
            raise Strange("a tensor that the call made is kept by something else than its result")


def prove(ready: Ready, snapshot: Snapshot, run: Run, steps: list[Step], back: bool = False) -> None:
    """Do the program on what the recorded call was given, with spoiled memory, and compare all it leaves to the last bit."""
    expected = snapshot.now()
    arrays = [np.full(m.nbytes, 0xA5, _bytes) for m in ready.fresh] + [_slot(m, run) for m in ready.slots]
    wanted = [m.array.reshape(-1).view(_bytes).copy() for m in ready.fresh]
    if back:  # which may be done again
        wanted += [a.copy() for a in arrays[len(wanted) :]]
    if not back:  # what goes back through a call begins where that has ended
        snapshot.put_back()
    ready.block[:] = 0xA5
    try:
        for step in steps:
            step.ask()
        ready.run(arrays)
        same = all(np.array_equal(a, b) for a, b in zip(arrays, wanted)) and all(
            np.array_equal(base.reshape(-1).view(_bytes), values.reshape(-1).view(_bytes))
            for base, values in expected
        )
    except BaseException:
        same = False
        raise
    finally:
        for base, values in expected:
            put(base, values)
    if not same:
        raise Unknown(
            "the program did not give what the function gave: something was done beside its launches"
        )


def _slot(m: Memory, run: Run) -> Any:
    """What the recorded call had there."""
    if m.kind == GIVEN:
        return run.given[int(m.about)]._buf
    if m.kind == GRAD:
        return next(g._buf for g in run.grads.values() if capture.root(g._buf) is m.array)
    if m.kind == DRAWN:
        return run.record.draws[int(m.about)].values.copy()
    return m.array if m.kind == SAVED else run.record.behind.incoming[int(m.about)]._buf
