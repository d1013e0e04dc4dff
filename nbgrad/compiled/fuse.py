"""Launches that do something to each element, one after the other, become one that keeps what is between them in registers.

Promises `fuse(graph)`: the same bits, as an element is computed by the same operations in the same order and rounded where it was stored.
What is written there is text like that of any kernel (`source()` shows it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nbgrad.compiled.graph import CONSTANT, INSIDE, Graph, Memory, Op, Place
from nbgrad.compiled.nest import Steps, Way, apart, joined, nest
from nbgrad.compiled.passes import dependence, with_places
from nbgrad.expr.node import Expr, postorder, substitute, var
from nbgrad.kernels import templates
from nbgrad.kernels.calls import Call

MOST_POINTERS = 14  # of one kernel: LLVM asks of each pair whether they overlap
# Launches by which one over elements may wait for others like it: what it reads is kept meanwhile (measured: at 64 and more, steps of a
# loop written out keep four times the memory that they need, and find it cold).
AHEAD = 8
SMALL = 64  # bytes that a launch writes, which is then done as soon as it can be
LARGE = 64 << 10  # bytes of a launch's result, which then lies where an operand was
MOST_NODES = 600  # of its expressions


class _Group(NamedTuple):
    n: int
    kind: str


class Walk(NamedTuple):
    """What a launch does to each element, if that is all it does, and in one dtype of floats; how many there are, and where each operand
    goes: outputs, then inputs that are memory."""

    map: templates.Map
    n: int
    outs: tuple[Way, ...]
    ins: dict[str, Way]
    values: dict[str, Any]  # inputs that are numbers

    @property
    def group(self) -> _Group:
        return _Group(self.n, self.map.kind)


def walk_of(op: Op) -> Walk | None:
    found = templates.maps.get(op.call.address)
    if found is None or op.beside or op.segment or found.kind not in ("f4", "f8"):
        return None
    plain = all(not v.logical and not v.rounded and v.code in ("", found.kind) for v in found.inputs)
    if not plain or any(code != found.kind for code in found.outputs):
        return None
    args, count = list(op.args), len(found.outputs)
    meta = args.pop(0) if found.rows else None
    arrays = [v for v in found.inputs if v.step not in "n="]
    numbers = [v for v in found.inputs if v.step == "n"]
    places = dict(zip([v.name for v in arrays], args[count:]))
    values = dict(zip([v.name for v in numbers], args[count + len(arrays) :]))
    if meta is None:
        steps: list[Steps] = [((op.call.n, 1),)] * count
        steps += [((op.call.n, 0 if v.step == "s" and op.call.n > 1 else 1),) for v in found.inputs]
        n = op.call.n
    else:
        if meta.memory.kind != CONSTANT or any(v.step in "grb" for v in found.inputs):
            return None
        n, steps = _geometry(meta.memory.array, count + len(found.inputs))
    outs = tuple([Way(p, s) for p, s in zip(args[:count], steps)])
    ins = {
        v.name: outs[0] if v.step == "=" else Way(places[v.name], steps[count + k])
        for k, v in enumerate(found.inputs)
        if v.step != "n"
    }
    return Walk(found, n, outs, ins, values)


def _geometry(array: Any, operands: int) -> tuple[int, list[Steps]]:
    """How many elements there are, and the ways of operands, of what a kernel by rows reads."""
    meta = array.view(np.int64).tolist()
    d, inner = meta[:2]
    sizes = [*meta[2 : 2 + d][::-1], inner]
    begin = 2 + d * (operands + 1)
    made = []
    for k in range(operands):
        strides = [*meta[2 + d * (k + 1) : 2 + d * (k + 2)][::-1], meta[begin + k]]
        made.append(joined(zip(sizes, strides)))
    return math.prod(sizes), made


def fuse(graph: Graph) -> str:
    """Bring launches over as many elements together, and make one of each row of them."""
    made, fused = _in_rows(_together(graph.ops))
    if not fused:
        graph.ops, _ = _in_rows(graph.ops)
        over = sum(len(op.was) == 1 for op in graph.ops)
        return f"{over} results lie where operands were" if over else ""
    rows = fused - (len(graph.ops) - len(made))
    graph.ops = made
    return f"{fused} launches over elements fused into {rows}"


def _in_rows(ops: Sequence[Op]) -> tuple[list[Op], int]:
    """Of launches in this order those that are made of others, and how many became part of another."""
    ordered = list(ops)
    last = {id(p.memory): k for k, op in enumerate(ordered) for p in op.places()}
    reached: dict[int, list[int]] = {}
    for at, op in enumerate(ordered):
        for key in {id(p.memory) for p in op.places()}:
            reached.setdefault(key, []).append(at)
    made: list[Op] = []
    fused = 0
    k = 0
    while k < len(ordered):
        row = _Row(ordered[k], last)
        end = k
        while end < len(ordered) and row.takes(ordered[end], end):
            end += 1
        if end - k > 1 or row.alone_over(end):
            op, moved = row.written(end)
            made.append(op)
            if moved is not None:
                gone, here = moved
                for at in reached.pop(id(gone)):
                    if at >= end:
                        ordered[at] = with_places(ordered[at], {id(gone): Place(here)})
                    reached[id(here)].append(at)
                last[id(here)] = last[id(gone)]
            fused += (end - k) * (end - k > 1)
            k = end
        else:
            made.append(ordered[k])
            k += 1
    return made, fused


def _together(ops: list[Op]) -> list[Op]:
    """In an order that keeps what depends on what, with launches over as many elements behind one another: all else first, then all
    that the ones before allow."""
    after, waits = dependence(ops)
    groups = [None if (w := walk_of(op)) is None else w.group for op in ops]
    ready = [k for k in range(len(ops)) if not waits[k]]
    made: list[Op] = []
    current: _Group | None = None
    while ready:
        same = [k for k in ready if groups[k] == current and current is not None]
        maps = [k for k in ready if groups[k] is not None]
        other = [k for k in ready if groups[k] is None]
        small = [k for k in ready if sum(p.memory.nbytes for p in ops[k].written()) <= SMALL]
        if same:
            k = min(same)
        elif small:
            k = min(small, key=lambda j: (groups[j] is not None, j))
        elif maps and (not other or min(other) > min(maps) + AHEAD):
            k = min(maps) if other else min(maps, key=lambda j: (ops[j].call.n, j))
        else:
            k = min(other)
        current = groups[k]
        ready.remove(k)
        made.append(ops[k])
        for next_one in after[k]:
            waits[next_one] -= 1
            if not waits[next_one]:
                ready.append(next_one)
    return made


class _Row:
    """Launches that are to become one."""

    def __init__(self, op: Op, last: dict[int, int]) -> None:
        """`last` says of each memory which launch is the last that reaches it."""
        self.last = last
        found = walk_of(op)
        self.group = None if found is None else found.group
        self.values: dict[tuple[int, int], Expr] = {}  # what stands at a place by now
        self.inputs: dict[Any, tuple[str, Way]] = {}
        self.outputs: dict[tuple[int, int], Way] = {}
        self.numbers: list[tuple[str, Any]] = []
        self.ways: dict[int, set[tuple[int, Steps]]] = {}  # how each memory is reached
        self.stored: set[int] = set()
        self.was: list[str] = []
        self.pieces = 0

    def takes(self, op: Op, at: int) -> bool:
        found = walk_of(op)
        if found is None or found.group != self.group:
            return False
        stored = self.stored | {id(w.place.memory) for w in found.outs}
        ways = {key: set(known) for key, known in self.ways.items()}
        for w in [*found.outs, *found.ins.values()]:
            ways.setdefault(id(w.place.memory), set()).add((w.place.offset, w.steps))
        if any(
            key in stored and (len(how) > 1 or not apart(next(iter(how))[1])) for key, how in ways.items()
        ):
            return False  # elements would meet others'
        places = {w.key[:2] for w in [*found.outs, *found.ins.values()]} | {k[:2] for k in self.inputs}
        kept = [
            w.key[:2]
            for w in [*self.outputs.values(), *found.outs]
            if _lasts(w.place.memory) or self.last[id(w.place.memory)] > at
        ]
        if len({k for k in places if k not in self.values} | {*kept}) > MOST_POINTERS:
            return False
        exchange: dict[str, Expr] = {}
        inputs, numbers = dict(self.inputs), list(self.numbers)
        for name, value in found.values.items():
            same = next((n for n, x in numbers if type(x) is type(value) and repr(x) == repr(value)), None)
            if same is None:
                same = f"w{len(numbers)}"
                numbers.append((same, value))
            exchange[name] = var(same)
        for name, way in found.ins.items():
            here = self.values.get(way.key[:2])
            if here is None:
                if way.key not in inputs:
                    inputs[way.key] = f"u{len(inputs)}", way
                here = var(inputs[way.key][0])
            exchange[name] = here
        results = [substitute(e, exchange) for e in found.map.exprs]
        if sum(1 for _ in postorder([*self.values.values(), *results])) > MOST_NODES:
            return False
        if nest([*[w.steps for w in self.outputs.values()], *[w.steps for w in found.outs]],
                [w.steps for _, w in inputs.values()]) is None:  # fmt: skip
            return False
        for w, e in zip(found.outs, results):
            self.values[w.key[:2]] = e
            self.outputs[w.key[:2]] = w
        self.inputs, self.numbers, self.ways, self.stored = inputs, numbers, ways, stored
        self.was.append(found.map.title)
        self.pieces = max(self.pieces, op.call.pieces)
        return True

    def alone_over(self, end: int) -> bool:
        """Whether one launch alone gains by being written anew: its large result takes the place of what it read for the last time."""
        if len(self.was) != 1 or sum(w.place.memory.nbytes for w in self.outputs.values()) < LARGE:
            return False
        ins = [w for _, w in self.inputs.values()]
        reached = [w.place.memory for w in [*self.outputs.values(), *ins]]
        read = {id(m) for m in reached if self.last[id(m)] >= end}
        return _over([*self.outputs.values()], ins, read) is not None

    def written(self, end: int) -> tuple[Op, tuple[Memory, Memory] | None]:
        """The launch, of all before `end`; and which memory's results it leaves in another's place, that nobody reads any more."""
        assert self.group is not None
        reached = [w.place.memory for w in [*self.outputs.values(), *[w for _, w in self.inputs.values()]]]
        read = {id(m) for m in reached if self.last[id(m)] >= end}
        outs = [w for w in self.outputs.values() if _lasts(w.place.memory) or id(w.place.memory) in read] or [
            *self.outputs.values()
        ][-1:]
        ins = list(self.inputs.values())
        made = nest([w.steps for w in outs], [w.steps for _, w in ins])
        assert made is not None  # as of more outputs
        over = _over(outs, [w for _, w in ins], read) if made.flat else None
        if over is not None:
            to, taken = over
            outs.sort(key=lambda w: w is not to)  # what takes memory is the first
        exprs = tuple([self.values[w.key[:2]] for w in outs])
        names = [n for n, _ in ins]
        taken_at = -1 if over is None else next(k for k, (_, w) in enumerate(ins) if w is taken)
        kernel = made.kernel(exprs, names, [n for n, _ in self.numbers], self.group.kind, taken_at)
        given = [w for k, (_, w) in enumerate(ins) if k != taken_at]
        places = [w.place for w in outs]
        if over is not None:
            places[0] = taken.place
        args = (*places, *[w.place for w in given], *[x for _, x in self.numbers])
        writes = (True,) * len(outs) + (False,) * (len(given) + len(self.numbers))
        kinds = "b" * (len(outs) + len(given)) + "d" * len(self.numbers)
        call = Call(kinds, kernel.address, made.items, self.pieces if made.items > 1 else 0, ())
        title = f"fused_{self.group.kind}{'' if made.flat else '_rows'}"
        size = int(self.group.kind[1:])
        reached_by: list[int | None]
        if made.flat:
            reached_by = [size if w.steps[0][1] else 0 for w in [*outs, *given]]
        else:
            reached_by = [made.reach(steps, size) for steps in [*made.outs, *made.ins]]
        spans = (*reached_by, *[0] * len(self.numbers))
        op = Op(call, args, writes, title, was=tuple(self.was), spans=spans)
        return op, None if over is None else (to.place.memory, taken.place.memory)


def _over(outs: list[Way], ins: list[Way], read: set[int]) -> tuple[Way, Way] | None:
    """A result that may take the place of what is read for the last time, element by element."""
    reached = [id(w.place.memory) for w in [*outs, *ins]]

    def whole(w: Way) -> bool:
        m, n = w.place.memory, w.steps[0][0]
        sizes = {4 * n, 8 * n}
        return m.kind == INSIDE and w.steps == ((n, 1),) and m.nbytes in sizes and reached.count(id(m)) == 1

    for taken in ins:
        if whole(taken) and id(taken.place.memory) not in read:
            for to in outs:
                if whole(to) and to.place.memory.nbytes == taken.place.memory.nbytes:
                    return to, taken
    return None


def _lasts(m: Memory) -> bool:
    return m.kind != INSIDE
