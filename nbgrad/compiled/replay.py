"""A program made ready to be done again: where its memory lies, the words of its calls, and what a call leaves behind.

Promises `Ready(graph, ...)`: `run(given, grads)` does it, `fresh` being new memory of what is returned. Memory that the program makes and
forgets lies in one block, in which parts are used again as soon as nothing reads what they hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from nbgrad.compiled.graph import CONSTANT, FLAG, FRESH, INSIDE, SLOTS, Graph, Memory, Op, Place, Table
from nbgrad.compiled.numbers import Asked
from nbgrad.compiled.passes import LINE, Room, spread
from nbgrad.kernels import calls, crew, launch, products, strips
from nbgrad.memory import backend, dtypes
from nbgrad.memory.storage import Spec

_bytes = np.dtype(np.uint8)
_TRIES, _FEW = 200, 32  # other orders of so many memories
_QUICK = 1 << 15  # steps of all launches together, up to which Python's lock is kept


def arena(graph: Graph) -> tuple[int, dict[int, int]]:
    """How many bytes the program's own memory takes, and where each begins: one after the other at the lowest place that is free as long as
    it is used. First the largest, whose order is changed by chance as long as that needs less (measured on a network of convolutions:
    just what is held at once, with the largest first 4 to 8 % more)."""
    known, first, last = spread(graph)
    own = sorted((m for m in known.values() if m.kind == INSIDE), key=lambda m: -m.nbytes)
    held = [0] * (len(graph.ops) + 1)
    for m in own:
        held[first[id(m)]] += m.nbytes
        held[last[id(m)] + 1] -= m.nbytes
    least = max(accumulate(held), default=0)

    def laid(order: Sequence[Memory]) -> tuple[int, dict[int, int]]:
        room, where, total = Room(), {}, 0
        for m in order:
            where[id(m)] = at = room.place(m.nbytes, first[id(m)], last[id(m)]) or 0
            total = max(total, -(-(at + m.nbytes) // LINE) * LINE)
        return total, where

    large = [m for m in own if m.nbytes > least // 100]
    best, chance = laid(large)[0], random.Random(0)
    for _ in range(_TRIES * (1 < len(large) <= _FEW)):
        if best <= least + least // 200:
            break
        order = list(large)
        order.insert(chance.randrange(len(order)), order.pop(chance.randrange(len(order))))
        total = laid(order)[0]
        if total <= best:
            best, large = total, order
    return laid([*large, *[m for m in own if m.nbytes <= least // 100]])


class Unsaid(IndexError):
    """An index leads nowhere, of which a kernel tells no more: in which words it is told the function knows, which can be run where all
    is as it was, which is `clean`."""

    def __init__(self, clean: bool) -> None:
        super().__init__("an index is out of bounds")
        self.clean = clean


class Ready:
    """`run` takes the arrays that differ from call to call: fresh ones, then those of arguments and gradients."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.bytes, where = arena(graph)
        room = np.empty(self.bytes + LINE, _bytes)
        start = -room.ctypes.data % LINE
        self.block = room[start : start + self.bytes]
        base = int(self.block.ctypes.data) if self.bytes else 0
        used = {id(p.memory): p.memory for op in graph.ops for p in op.places()}
        self.fresh = [m for m in graph.memories if m.kind == FRESH]
        self.slots = [m for m in graph.memories if m.kind in SLOTS and id(m) in used]
        self.held = [m.array for m in used.values() if m.kind not in (INSIDE, FRESH, *SLOTS)]
        number = {id(m): k for k, m in enumerate([*self.fresh, *self.slots])}
        flag = np.zeros(4, np.int64)  # its own: another thread looks at that of the one that recorded
        at_flag, self.flag = int(flag.ctypes.data), flag.data
        self.held.append(flag)

        def word(a: Any) -> Any:
            if isinstance(a, Table):
                return [word(w) for w in a.words]
            if not isinstance(a, Place):
                return a
            m = a.memory
            if id(m) in number:
                return (number[id(m)], a.offset)
            if m.kind == FLAG:
                return at_flag + a.offset
            return (base + where[id(m)] if m.kind == INSIDE else m.address) + a.offset

        def values(p: Place, sp: Spec) -> _Values:
            m = p.memory
            if id(m) in number:
                return _Values(number[id(m)], None, p.offset, sp)
            if m.kind == INSIDE:
                return _Values(None, self.block, where[id(m)] + p.offset, sp)
            return _Values(None, m.array, p.offset + m.address - int(m.array.ctypes.data), sp)

        # Each up to a launch that may refuse, and whether it does; the flag by which it is done, if it is not always.
        self.programs: list[tuple[Any, bool, Any]] = []
        self.asked: list[tuple[Any, int, int]] = []  # words of programs that are numbers of the call
        self.clean: dict[
            int, bool
        ] = {}  # whether up to a part that may refuse nothing was written that lasts
        part: list[Op] = []
        clean = True
        for op in graph.ops:
            clean &= all(p.memory.kind in (INSIDE, FRESH, FLAG, CONSTANT) for p in op.written())
            if op.sure is not None:
                if part:
                    self._add(part, word, False)
                part, (place, (sp, test, refusal)) = [], op.sure
                self.programs.append((None, False, _Sure(values(place, sp), test, refusal)))
                continue
            if op.work is not None:
                if part:
                    self._add(part, word, False)
                part, (what, given, specs) = [], op.work
                work = _Work(what, list(given), [values(p, sp) for (p, _), sp in zip(op.beside, specs)])
                self.asked += [(work.numbers, k, n.index) for k, n in enumerate(given) if type(n) is Asked]
                self.programs.append((None, False, work))
                continue
            if op.only is not None:
                if part:
                    self._add(part, word, False)
                part, (flag_of, ops) = [], op.only
                at = where[id(flag_of.memory)] + flag_of.offset
                self._add(ops, word, False, self.block[at : at + 8].view(np.int64))
                continue
            part.append(op)
            if op.segment:
                self.clean[len(self.programs)] = clean
                self._add(part, word, True)
                part = []
        if part:
            self._add(part, word, False)
        self.shared = any(op.call.pieces for op in graph.ops)
        self.play = calls.player()
        if any(op.title.startswith("product_") for op in graph.ops):  # by BLAS, which has threads of its own
            self.run = products.alone(self.run)  # type: ignore[method-assign]

    @staticmethod
    def _strips(op: Op, word: Any) -> tuple[calls.Call, list[Any]]:
        """The call of what is done by strips."""
        assert op.strips is not None
        own = op.strips.own

        def argument(a: Any) -> Any:
            return (
                strips.Strip(*own[id(a.memory)]) if isinstance(a, Place) and id(a.memory) in own else word(a)
            )

        parts = [
            strips.Part(one.call, [argument(a) for a in one.args], items)
            for one, items in zip(op.strips.ops, op.strips.items)
        ]
        table = strips.table(parts, op.strips.room)
        return op.call._replace(kinds="b", address=strips.blocks()), [table]

    def _add(self, part: Sequence[Op], word: Any, refuses: bool, only: Any = None) -> None:
        frees = sum(op.call.n for op in part) > _QUICK or any(op.call.pieces for op in part)
        frees |= any(op.strips is not None for op in part)
        made = [self._strips(op, word) if op.strips else (op.call, [word(a) for a in op.args]) for op in part]
        asked: list[tuple[int, int]] = []
        program = calls.program(made, frees, asked)
        self.programs.append((program, refuses, only))
        self.asked += [(program.view(np.float64), at, index) for at, index in asked]

    def ask(self, numbers: Sequence[float]) -> None:
        """Put the call's numbers where they are read."""
        for words, at, index in self.asked:
            words[at] = numbers[index]

    @property
    def judged(self) -> int:
        """How many of its parts there are up to the last that may refuse."""
        return max(
            (
                k + 1
                for k, (_, refuses, only) in enumerate(self.programs)
                if refuses or isinstance(only, _Sure | _Work)
            ),
            default=0,
        )

    def run(self, arrays: Sequence[Any], begin: int = 0, end: int | None = None) -> None:
        """All of it, or some of its parts."""
        if self.shared and (threads := launch.get_num_threads()) > 1 and not launch._busy.locked():
            with launch._busy:
                self._run(crew.hire(threads - 1), threads - 1, arrays, begin, end)
        else:
            self._run(0, 0, arrays, begin, end)

    def alone(self) -> Any:
        """The one program that it is, where `play` with no helpers is all that `run` would do."""
        several = len(self.programs) != 1 or self.shared or "run" in self.__dict__
        (program, refuses, only), *_ = self.programs or [(None, True, None)]
        return None if several or refuses or only is not None else program

    def kept_by_lock(self) -> bool:
        """Whether Python's lock is held from where its memory is taken to where it is left: then two calls never meet in it."""
        program = self.alone()
        return program is not None and not program[calls.FREES] and not self.asked and calls.locked()

    def _run(self, hired: int, helpers: int, arrays: Sequence[Any], begin: int, end: int | None) -> None:
        for k, (program, refuses, only) in enumerate(self.programs[begin:end], begin):
            if isinstance(only, _Sure | _Work):
                only.look(arrays)
                continue
            if only is not None and not only[0]:
                continue
            self.play(program, hired, helpers, *arrays)
            if refuses and self.flag[0]:
                error = backend.refused(self.flag) if any(self.flag[1:]) else Unsaid(self.clean[k])
                for word in range(len(self.flag)):
                    self.flag[word] = 0
                raise error


class _Values:
    """What some memory holds, as an array: of this number among those of a call, or the same at each call."""

    def __init__(self, which: int | None, held: Any, at: int, sp: Spec) -> None:
        self.which, self.at, self.spec = which, at, sp
        self.held: Any = None if which is not None else held.reshape(-1).view(_bytes)

    def of(self, arrays: Sequence[Any]) -> Any:
        memory = self.held if self.which is None else arrays[self.which].reshape(-1).view(_bytes)
        return dtypes.values(memory[self.at :], self.spec.dtype, self.spec.shape, self.spec.strides)


class _Sure(NamedTuple):
    """Looks at values on the way."""

    values: _Values
    test: Callable[[Any], bool]
    refusal: str

    def look(self, arrays: Sequence[Any]) -> None:
        if not self.test(self.values.of(arrays)):
            raise RuntimeError(self.refusal)


class _Work(NamedTuple):
    """Done on the way, by Python, which calls machine code of its own."""

    what: Any
    numbers: list[Any]
    values: list[_Values]

    def look(self, arrays: Sequence[Any]) -> None:
        self.what.done([v.of(arrays) for v in self.values], self.numbers)
