"""Values that are quickly made again are not kept for those who read them much later, as the backward does.

Promises `again(graph)`: of what a launch over elements makes from operands that are there anyway, and that are smaller, a second launch
is put before the first that reads it behind others than such launches. Fused, neither keeps it: what was written to memory and read from
there is an operation or two on what is in the cache. Every bit is the same, as the same operations are done.
"""

from __future__ import annotations

from collections.abc import Sequence

from nbgrad.compiled.fuse import Walk, walk_of
from nbgrad.compiled.graph import CONSTANT, GIVEN, INCOMING, INSIDE, OUTSIDE, SAVED, Graph, Memory, Op, Place
from nbgrad.compiled.passes import dependence, with_places
from nbgrad.expr.node import postorder

LEAST = 128 << 10  # bytes that are worth it
_CHEAP = {
    "add",
    "sub",
    "mul",
    "neg",
    "abs",
    "maximum",
    "minimum",
    "where",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
}
_LASTING = (OUTSIDE, GIVEN, CONSTANT, SAVED, INCOMING)


class _Value:
    """What one launch makes, and who reads it."""

    def __init__(self, memory: Memory, at: int, walk: Walk) -> None:
        self.memory, self.at, self.walk = memory, at, walk

    @property
    def operands(self) -> list[Memory]:
        return [w.place.memory for w in self.walk.ins.values()]


class _Again:
    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.walks = [walk_of(op) for op in ops]
        self.after, _ = dependence(list(ops))
        self.writers: dict[int, list[int]] = {}
        self.readers: dict[int, list[int]] = {}
        for k, op in enumerate(ops):
            for p in op.written():
                self.writers.setdefault(id(p.memory), []).append(k)
            for p in op.read():
                self.readers.setdefault(id(p.memory), []).append(k)
        self.values: dict[int, _Value] = {}
        for k, walk in enumerate(self.walks):
            if walk is None or len(walk.outs) != 1:
                continue
            m = walk.outs[0].place.memory
            size = walk.n * int(walk.map.kind[1:])
            plain = all(
                node.prim is not None and node.prim.name in _CHEAP
                for node in postorder(walk.map.exprs)
                if node.args
            )
            if m.kind == INSIDE and m.nbytes == size and self.writers[id(m)] == [k] and plain:
                self.values[id(m)] = _Value(m, k, walk)

    def later(self, value: _Value) -> list[int]:
        """Launches that read it, but cannot be one with the launch that makes it: something else comes between."""
        group = value.walk.group
        found: set[int] = set()
        stack, seen = [(k, False) for k in self.after[value.at]], set()
        while stack:
            k, far = stack.pop()
            if (k, far) in seen:
                continue
            seen.add((k, far))
            if far:
                found.add(k)
            walk = self.walks[k]
            stack += [(j, far or walk is None or walk.group != group) for j in self.after[k]]
        return [k for k in self.readers.get(id(value.memory), ()) if k in found]

    def needs(self, value: _Value, at: int) -> list[_Value] | None:
        """The launches that make it there from what is there, in their order; None if that is not possible, or no gain."""
        made: dict[int, _Value] = {}
        bases: dict[int, int] = {}
        stack = [value]
        while stack:
            one = stack.pop()
            made[id(one.memory)] = one
            if len(made) > 4:
                return None
            for m in one.operands:
                if id(m) in made:
                    continue
                if any(one.at < k < at for k in self.writers.get(id(m), ())):
                    return None
                small = m.nbytes <= value.memory.nbytes // 8
                held = m.kind == INSIDE and (small or max(self.readers.get(id(m), [0])) >= at)
                inner = self.values.get(id(m))
                if m.kind in _LASTING or (held and (small or inner is None)):
                    bases[id(m)] = m.nbytes
                elif inner is not None:
                    stack.append(inner)
                else:
                    return None
        if sum(bases.values()) > value.memory.nbytes // 2:
            return None
        return sorted(made.values(), key=lambda one: one.at)


def again(graph: Graph) -> list[Memory]:
    """The memories that the second launches write to, of which fusing should leave none."""
    found = _Again(graph.ops)
    ahead: dict[int, list[Op]] = {}
    instead: dict[int, dict[int, Place]] = {}  # by launch
    new: list[Memory] = []
    for value in found.values.values():
        if value.memory.nbytes < LEAST:
            continue
        later = found.later(value)
        if not later or any((w := found.walks[k]) is None or w.n != value.walk.n for k in later):
            continue
        chain = found.needs(value, later[0])
        if chain is None:
            continue
        places: dict[int, Place] = {}
        own = {id(one.memory) for one in chain}
        others = tuple(
            [p for p in found.ops[later[0]].read() if p.memory.kind == INSIDE and id(p.memory) not in own]
        )
        for one in chain:
            to = Memory(f"i{len(graph.memories) + len(new)}", INSIDE, one.memory.nbytes, 0, None)
            new.append(to)
            places[id(one.memory)] = Place(to)
            made = with_places(found.ops[one.at], places)
            made.behind = others  # else it would be done when it can be, with the first
            ahead.setdefault(later[0], []).append(made)
        for k in later:
            instead.setdefault(k, {})[id(value.memory)] = places[id(value.memory)]
    if new:
        graph.memories += new
        graph.ops = [
            one
            for k, op in enumerate(found.ops)
            for one in [*ahead.get(k, ()), with_places(op, instead.get(k, {}))]
        ]
    return new


__all__ = ["again"]
