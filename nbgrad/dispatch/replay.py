"""Calls of several launches on a device, done again launch by launch, without the ops between.

Promises what is computed by several ops that from the third call of a kind on the host does no more than give memory and launch. What it
did at the second is noted, twice over, and where both times are the same, but for where memory lies, it is written out. A device's values
are seen by nobody on the way, or else there is nothing to do again: so what comes to the same tensors and settings has no other way to
go. What draws random numbers, writes to what it is given or warns is not for here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from nbgrad.base import source
from nbgrad.base.records import NamedTuple
from nbgrad.base.switches import Unrepeatable, compiling, determinism, noting
from nbgrad.core.casting import casting
from nbgrad.core.overrides import armed
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.kernels.cuda import direct
from nbgrad.kernels.cuda.blas import WORKSPACE
from nbgrad.kernels.cuda.launch import streams
from nbgrad.memory import gpu
from nbgrad.memory.pool import size_of
from nbgrad.memory.storage import Spec
from nbgrad.tape.modes import state

# Bytes: a large call takes its time on the device, and is not done twice more to be noted.
MOST: Final = 4 << 20
STEPS: Final = 64
# When a call is to go its usual way: what is noted, too, is what such a text holds, not that it was called.
_UNUSUAL: Final = (
    "noting.steps is not None or determinism.level or casting.on or armed.below is not None "
    "or compiling.thread is not None"
)
_one_at_a_time: Final = threading.Lock()
_bytes = np.dtype(np.uint8)


class _Told(NamedTuple):
    """What a call gave, what it asked of the device, and the addresses that it was lent meanwhile, with their bytes."""

    result: Any
    steps: list[tuple[Any, ...]]
    lent: dict[int, int]


def _noted(serves: gpu.CUDA, call: Callable[[], Any]) -> _Told:
    pool, me = serves.pool, threading.get_ident()
    told = _Told(None, [], {})

    def allocate(nbytes: int, stream: int) -> int:
        address = type(pool).allocate(pool, nbytes, stream)
        if threading.get_ident() == me and nbytes != WORKSPACE:  # which a product takes anew
            told.lent[address] = nbytes
            if sum(told.lent.values()) > MOST:
                raise Unrepeatable
        return address

    pool.allocate = allocate  # type: ignore[method-assign]
    direct.forget()
    noting.steps, recorded, state.grad = told.steps, state.grad, False
    try:
        return told._replace(result=call())
    finally:
        noting.steps, state.grad = None, recorded
        del pool.allocate


class _At:
    """A place in memory, for who knows it of a buffer."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address


class _Memory:
    """What addresses are called in the text: memory that is given, that a result gets, that is lent for the call, and what is always the
    same, which is `kept`."""

    def __init__(self, tensors: Sequence[Tensor | None], told: _Told) -> None:
        results = told.result if isinstance(told.result, tuple) else (told.result,)
        self.kept: list[Any] = []
        self.results: list[tuple[int, Spec]] = []
        own: dict[int, int] = {}
        for k, t in enumerate(results):
            # A view, or what was written to, is more than its memory.
            if type(t) is not Tensor or t._view is not None or (t._storage and t._storage.version):
                raise Unrepeatable
            buf = t._buf
            if (
                not isinstance(buf, gpu.Buffer)
                or buf.base is not None
                or buf.address not in told.lent
                or buf.address in own
            ):
                raise Unrepeatable
            own[buf.address] = k
            self.results.append((buf.nbytes, t._spec))
        places = [(t._buf.address, t._spec.nbytes, f"t{k}") for k, t in enumerate(tensors) if t is not None]
        self.room = 0
        for address, nbytes in told.lent.items():
            if address in own:
                places.append((address, nbytes, f"r{own[address]}"))
            else:
                places.append((address, nbytes, f"room + {self.room}"))
                self.room += size_of(nbytes)
        places.sort()
        if any([a + n > b for (a, n, _), (b, _, _) in pairwise(places)]):
            raise Unrepeatable  # two are one, which with other tensors they need not be
        self._places = places

    def name(self, buffer: Any) -> str:
        address = buffer.address
        for begin, nbytes, name in self._places:
            if begin <= address < begin + nbytes:
                return f"{name} + {address - begin}" if address > begin else name
        self.kept.append(buffer)
        return str(address)


def _lines(memory: _Memory, steps: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What is to be done, of what, and what it is given as it is written: equal for calls that ask the same."""
    lines: list[tuple[Any, ...]] = []
    for what, *given in steps:
        if what == "fill":
            lines.append((what, (), (memory.name(given[0]), 0, given[1])))
        elif what == "copy":
            lines.append((what, (), (*map(memory.name, given[:2]), given[2])))
        elif what == "multiply":
            lines.append((what, (given[0],), tuple(map(memory.name, given[1:]))))
        elif what == "upload":
            lines.append((what, (given[1],), (memory.name(given[0]),)))
        else:
            kernel, n, buffers, numbers = given
            written = [repr(float(x)) if isinstance(x, float) else str(int(x)) for x in numbers]
            lines.append(("launch", (what, kernel), (n, *map(memory.name, buffers), *written)))
    return lines


def _apart(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The same where each lies in memory of its own: what is given twice now need not be so again."""
    found: list[Tensor | None] = []
    taken: list[tuple[int, int]] = []
    for t in tensors:
        if t is not None:
            begin, end = t._buf.address, t._buf.address + t._spec.nbytes
            if any([begin < b and a < end for a, b in taken]):
                t = wrap(t._buf.copy(), t._spec)
            taken.append((begin, end))
        found.append(t)
    return found


def learn(
    call: Callable[..., Any], tensors: Sequence[Tensor | None], least: int, again: bool
) -> Callable[..., Any] | None:
    """What does the call of these tensors again, if anything can and it takes at `least` so many steps; in unusual times it makes the call
    `again`, or gives None."""
    there = [t for t in tensors if t is not None]
    serves: Any = there[0]._spec.backend if there else None
    if not isinstance(serves, gpu.CUDA) or not (serves.driver.function and direct.works()):
        return None
    if any([t._spec.backend is not serves or t._spec.nbytes > MOST for t in there]):
        return None
    if gpu.capturing() or determinism.level or not _one_at_a_time.acquire(blocking=False):
        return None
    try:
        tensors = _apart(tensors)
        before: list[tuple[Any, ...]] = []
        for _ in range(3):  # the first may make what is kept
            told = _noted(serves, partial(call, *tensors))
            memory = _Memory(tensors, told)
            lines = _lines(memory, told.steps)
            if lines == before:
                few = least <= len(lines) <= STEPS
                usual = call if again else None
                return _written(serves, memory, lines, told.result, usual, len(tensors)) if few else None
            before = lines
        return None
    except Unrepeatable:
        return None
    finally:
        _one_at_a_time.release()


def _written(
    serves: gpu.CUDA,
    memory: _Memory,
    lines: Sequence[tuple[Any, ...]],
    result: Any,
    usual: Callable[..., Any] | None,
    count: int,
) -> Callable[..., Any]:
    scope: dict[str, Any] = dict(allocate=serves.allocate, bytes_=_bytes, driver=serves.driver, wrap=wrap)
    scope |= dict(armed=armed, casting=casting, compiling=compiling, determinism=determinism, noting=noting)
    scope |= dict(streams=streams, kept=memory.kept, multiply=serves.multiply, At=_At, usual=usual)
    scope |= dict(nan=float("nan"), inf=float("inf"))
    done: list[Any] = []

    def add(call: str, *args: Any) -> None:
        done.append(f"{call}({', '.join(map(str, args))})")

    def constant(name: str, value: Any) -> str:
        key = f"{name}{len(scope)}"
        scope[key] = value
        return key

    for what, of, args in lines:
        if what == "launch":
            add(constant("launch", of[0]), constant("kernel", of[1]), *args)
        elif what == "multiply":
            add("multiply", constant("g", of[0]), *[f"At({name})" for name in args])
        elif what == "upload":
            data = serves.beside(np.frombuffer(of[0], np.uint8))
            memory.kept.append(data)
            add("driver.copy", args[0], data.address, data.nbytes, "streams.current")
        else:
            add(f"driver.{what}", *args, "streams.current")
    used = " ".join(done)
    begin = [f"t{k} = x{k}._buf.address" for k in range(count) if f"t{k}" in used]
    if memory.room:
        begin += [f"block = allocate({memory.room}, bytes_)", "room = block.address"]
    for k, (nbytes, _) in enumerate(memory.results):
        begin += [f"b{k} = allocate({nbytes}, bytes_)", f"r{k} = b{k}.address"]
    made = [f"wrap(b{k}, {constant('spec', sp)})" for k, (_, sp) in enumerate(memory.results)]
    together = source.tuple_of(made) if isinstance(result, tuple) else made[0]
    if isinstance(result, tuple) and type(result) is not tuple:
        together = f"{constant('kind', type(result))}({together})"
    taken = ", ".join([f"x{k}" for k in range(count)])
    text = source.text_of(
        [
            f"def replay({taken}):",
            [
                f"if {_UNUSUAL}:",
                [f"return usual({taken})" if usual else "return None"],
                *begin,
                *done,
                f"return {together}",
            ],
        ]
    )
    run: Callable[..., Any] = source.function("replay", text, scope, "replay", "a call of several launches")
    return run
