"""What makes a program shorter without changing what it computes.

Promises `improve(graph)`: the passes in order. Each keeps every bit of what the program leaves behind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from nbgrad.compiled.graph import CONSTANT, FRESH, INSIDE, Graph, Memory, Op, Place, kernel_at

OWN = (INSIDE, FRESH)
LINE = 64  # bytes of which memory begins at a multiple
STRETCH = 32  # launches that are looked at together


def improve(graph: Graph) -> list[str]:
    """What was done, in words."""
    done = []
    for each in (_without_copies, _without_dead):
        told = each(graph)
        if told:
            done.append(told)
    return done


def _without_dead(graph: Graph) -> str:
    """Launches that write to nothing but memory of the program that nobody reads later."""
    wanted: set[int] = set()
    kept: list[Op] = []
    for op in reversed(graph.ops):
        written = op.written()
        if any(p.memory.kind != INSIDE or id(p.memory) in wanted for p in written) or op.segment:
            kept.append(op)
            wanted.update(id(p.memory) for p in op.places())
    lost = len(graph.ops) - len(kept)
    graph.ops = kept[::-1]
    return f"{lost} launches whose results nobody read left out" if lost else ""


def _without_copies(graph: Graph) -> str:
    """A copy of all that a memory of the program's holds, to another of its size: one memory serves, if neither is written to again. A
    constant is read where it is."""
    last: dict[int, int] = {}
    begins: dict[int, int] = {}
    for k, op in enumerate(graph.ops):
        for p in op.places():
            begins.setdefault(id(p.memory), k)
        for p in op.written():
            last[id(p.memory)] = k
    renamed: dict[int, Memory] = {}
    lost: set[int] = set()

    def now(m: Memory) -> Memory:
        while id(m) in renamed:
            m = renamed[id(m)]
        return m

    for k, op in enumerate(graph.ops):
        copied = _copied(op)
        if copied is None:
            continue
        to, source = (now(m) for m in copied)
        if source.kind == CONSTANT and to.kind == INSIDE and to.nbytes == source.nbytes:
            if begins[id(to)] == k == last[id(to)] and id(source) not in last:
                renamed[id(to)] = source
                lost.add(k)
            continue
        if to is source or source.kind != INSIDE or to.kind not in OWN or to.nbytes != source.nbytes:
            continue
        if begins[id(to)] != k or last[id(to)] != k or last[id(source)] >= k:
            continue
        renamed[id(source)] = to
        last[id(to)] = last[id(source)]
        begins[id(to)] = begins[id(source)]
        lost.add(k)
    if not lost:
        return ""

    def place(p: Place) -> Place:
        return Place(now(p.memory), p.offset)

    for op in graph.ops:
        op.rename(place)
    graph.ops = [op for k, op in enumerate(graph.ops) if k not in lost]
    return f"{len(lost)} copies left out"


def _copied(op: Op) -> tuple[Memory, Memory] | None:
    """Which memory is copied to which, if a launch copies all of it as it lies."""
    if op.title.startswith("bytes_copied"):
        size = 1
    elif re.fullmatch(r"copy_\w\d_v", op.title) and op.call.kinds == "bb":
        codes = kernel_at(op.call.address).params.split()[2:]
        if codes[0] != codes[1]:
            return None
        size = int(codes[0][2:])
    else:
        return None
    to, source = op.args
    if to.offset or source.offset or op.call.n * size != to.memory.nbytes:
        return None
    return to.memory, source.memory


def with_places(op: Op, instead: dict[int, Place]) -> Op:
    """The same launch, of other memories in place of some: that which begins where the place is."""
    if not any(id(p.memory) in instead for p in op.places()):
        return op

    def place(p: Place) -> Place:
        found = instead.get(id(p.memory))
        return p if found is None else Place(found.memory, found.offset + p.offset)

    made = copied(op)
    made.rename(place)
    return made


def copied(op: Op) -> Op:
    """One whose places can be changed alone."""
    only = None if op.only is None else (op.only[0], tuple([copied(one) for one in op.only[1]]))
    strips = (
        None if op.strips is None else op.strips._replace(ops=tuple([copied(one) for one in op.strips.ops]))
    )
    return replace(op, only=only, strips=strips)


def spread(graph: Graph) -> tuple[dict[int, Memory], dict[int, int], dict[int, int]]:
    """The memories that launches reach, and the first and the last launch that does so."""
    known: dict[int, Memory] = {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, op in enumerate(graph.ops):
        for p in op.places():
            known[id(p.memory)] = p.memory
            first.setdefault(id(p.memory), k)
            last[id(p.memory)] = k
    return known, first, last


def dependence(ops: Sequence[Op]) -> tuple[list[set[int]], list[int]]:
    """Which launches wait for each, and for how many each waits."""
    after: list[set[int]] = [set() for _ in ops]
    waits = [0] * len(ops)
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    barrier = -1
    for k, op in enumerate(ops):
        before: set[int] = set()
        if op.segment:
            before.update(range(k))
        if barrier >= 0:
            before.add(barrier)
        for p in [*op.places(), *op.behind]:
            if id(p.memory) in writer:
                before.add(writer[id(p.memory)])
        for p in op.written():
            before.update(readers.get(id(p.memory), ()))
        for p in op.places():
            readers.setdefault(id(p.memory), []).append(k)
        for p in op.written():
            writer[id(p.memory)], readers[id(p.memory)] = k, [k]
        if op.segment:
            barrier = k
        before.discard(k)
        waits[k] = len(before)
        for b in before:
            after[b].add(k)
    return after, waits


def roomy(graph: Graph) -> str:
    """In an order that needs less memory, if there is one: of launches that may be done that one each time that takes the least."""
    ops = graph.ops
    inner = [{id(p.memory): p.memory.nbytes for p in op.places() if p.memory.kind in OWN} for op in ops]
    users: dict[int, int] = {}
    for own in inner:
        for m in own:
            users[m] = users.get(m, 0) + 1
    lasting = {id(m) for m in graph.memories if m.kind == FRESH}
    after, waits = dependence(ops)
    ready = [k for k in range(len(ops)) if not waits[k]]
    begun: set[int] = set()
    made: list[Op] = []
    while ready:
        # What it takes, what it leaves, and as it was where that is the same.
        def price(k: int) -> tuple[int, int, int]:
            taken = sum(size for m, size in inner[k].items() if m not in begun)
            freed = sum(size for m, size in inner[k].items() if users[m] == 1 and m not in lasting)
            return max(taken - freed, 0), taken, k

        k = min(ready, key=price)
        ready.remove(k)
        made.append(ops[k])
        for m in inner[k]:
            begun.add(m)
            users[m] -= 1
        for other in after[k]:
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    before = needed(graph)
    graph.ops = made
    now = needed(graph)
    if now < before - before // 50:
        return f"in an order that needs {now} bytes in place of {before}"
    graph.ops = ops
    return ""


def needed(graph: Graph) -> int:
    """Bytes at its fullest, if all lies as well as it can."""
    known, first, last = spread(graph)
    own = [m for m in known.values() if m.kind in OWN]
    changes = [0] * (len(graph.ops) + 1)
    for m in own:
        changes[first[id(m)]] += m.nbytes
        if m.kind == INSIDE:
            changes[last[id(m)] + 1] -= m.nbytes
    return max(accumulate(changes), default=0)


class Room:
    """Bytes in which memories lie that are used for a while: each at the lowest place that is free as long as it is used."""

    def __init__(self) -> None:
        self.taken: dict[
            int, list[tuple[int, int, int, int]]
        ] = {}  # begin, end, first, last; by stretches of launches

    def place(self, nbytes: int, first: int, last: int, limit: float = math.inf) -> int | None:
        """Where it begins, if that is possible within a limit."""
        size = -(-nbytes // LINE) * LINE
        stretches = range(first // STRETCH, last // STRETCH + 1)
        beside = {t for k in stretches for t in self.taken.get(k, ())}
        at = 0
        for begin, end, begun, ended in sorted(beside):
            if begun > last or ended < first:
                continue
            if begin - at >= size:
                break
            at = max(at, end)
        if at + nbytes > limit:
            return None
        for k in stretches:
            self.taken.setdefault(k, []).append((at, at + size, first, last))
        return at


def judged(graph: Graph) -> int:
    """Which launch is the last that may refuse, -1 if there is none."""
    return max((k for k, op in enumerate(graph.ops) if op.segment), default=-1)


def lodge(graph: Graph) -> str:
    """What the program forgets before a result is begun lies where the result will."""
    known, first, last = spread(graph)
    flags = {id(op.only[0].memory) for op in graph.ops if op.only is not None}  # which Python looks at
    guests = sorted(
        (m for m in known.values() if m.kind == INSIDE and id(m) not in flags), key=lambda m: -m.nbytes
    )
    sure = judged(graph)
    hosts = [(m, Room()) for m in sorted(known.values(), key=lambda m: m.nbytes) if m.kind == FRESH]
    instead: dict[int, Place] = {}
    for m in guests:
        begin, end = first[id(m)], last[id(m)]
        for host, room in hosts:
            if m.nbytes > host.nbytes or end >= first[id(host)] or (host.late and begin <= sure):
                continue
            at = room.place(m.nbytes, begin, end, host.nbytes)
            if at is not None:
                instead[id(m)] = Place(host, at)
                break
    graph.ops = [with_places(op, instead) for op in graph.ops]
    return f"{sum(known[m].nbytes for m in instead)} bytes lie where results will" if instead else ""
