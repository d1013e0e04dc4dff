"""Launches that walk one after the other over the same rows are done by strips of them: what they leave to one another stays in the cache,
and takes no more memory than a strip.

Promises `strips(graph)`. The kernels are those that there were, each on a part of its range at a time, so every bit is the same. It is
known of them which bytes of an operand an item reaches (`spans`): memory that one of them writes and another reads has to be reached so
by both that the items of a strip reach just the bytes of a strip.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nbgrad.compiled.graph import CONSTANT, FRESH, INSIDE, Graph, Memory, Op, Place, Spans, Strips
from nbgrad.compiled.numbers import Asked
from nbgrad.compiled.passes import LINE
from nbgrad.kernels import templates
from nbgrad.kernels.calls import Call
from nbgrad.kernels.cpu import reduce, rows

# Bytes of what is left to others, from which on strips are made (what is smaller stays in the cache anyway), and those of a strip, which
# lie on the stack.
LEAST, MOST, GOOD = 128 << 10, 384 << 10, 256 << 10
AHEAD = 12  # launches that may wait until a strip's are done


def spans(op: Op) -> Spans | None:
    """None if it is not known of any."""
    if op.spans is not None:
        return op.spans
    address = op.call.address
    if (map_of := templates.maps.get(address)) is not None:
        if map_of.rows:
            return None
        codes = [*map_of.outputs, *[v.code for v in map_of.inputs if v.step not in "n="]]
        steps = ["v"] * len(map_of.outputs) + [v.step for v in map_of.inputs if v.step not in "n="]
        known = [int(c[1:]) if s == "v" else 0 if s == "s" else None for c, s in zip(codes, steps)]
        return (*known, *[0] * (len(op.args) - len(known)))
    if op.title.startswith("take_rows_"):  # what is made, the table, which rows, numbers of a row
        return int(op.title.rpartition("_")[2][1:]) * op.args[3], 0, 8, 0
    if (row := rows.in_runs.get(address)) is not None:
        return _of_rows(op, *row)
    if (code := reduce.in_runs.get(address)) is not None:
        return _of_reduction(op, *code)
    return None


def _meta(op: Op) -> list[int]:
    place = op.args[0]
    if not isinstance(place, Place) or place.memory.kind != CONSTANT or place.offset:
        return []
    found: list[int] = place.memory.array.reshape(-1).view("i8").tolist()
    return found


def _of_rows(op: Op, program: rows.Program, code: str) -> Spans | None:
    """The operands are `meta`, what is made, elements, lines, one per row, the named element's place, numbers."""
    meta, size = _meta(op), int(code[1:])
    if not meta:
        return None
    pitch, runs, _, n = meta[:4]
    each = 1  # rows of an item
    if program.columns:
        count, each = meta[4:6]
        if count % each:
            return None
    whole = each * n * size if runs == 1 and pitch == n else None
    own = () if program.over else program.outputs
    made = [whole if v in own else n * size if v in program.columns else each * size for v in program.given]
    read = [*[whole] * len(program.elements), *[0] * len(program.lines), *[each * size] * len(program.each)]
    named = [8 * each] if program.points else []
    return (0, *made, *read, *named, *[0] * len(program.numbers))


def _of_reduction(op: Op, code: str, out: str) -> Spans | None:
    """The operands are `meta`, the result, what is reduced, numbers."""
    meta = _meta(op)
    if not meta or meta[0] != 1 or meta[1] != 0:
        return None
    n, step, outer, length = meta[2:6]
    whole = step == 1 and outer == 1 and meta[7] == n and n * op.call.n <= length
    return (0, int(out[1:]), n * int(code[1:]) if whole else None, *[0] * (len(op.args) - 3))


class _Group:
    """Launches of one range of rows; others that wait until these are done."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.waiting: list[Op] = []
        self.common = 0

    def takes(self, op: Op) -> bool:
        known = spans(op)
        if known is None or op.segment or op.beside or op.call.n < 2:
            return False
        if any(type(a) is Asked for a in op.args):  # which is put where a program reads it
            return False
        common = math.gcd(self.common, op.call.n)
        if common < 2 or any(_meet(op, other) for other in self.waiting):
            return False
        ops = [*self.ops, op]
        written = {id(p.memory) for one in ops for p in one.written()}
        users: dict[int, int] = {}
        for one in ops:
            for key in {id(p.memory) for p in one.places()}:
                users[key] = users.get(key, 0) + 1
        for one in ops:
            for p, span in zip(one.args, spans(one) or ()):
                if not isinstance(p, Place) or id(p.memory) not in written or users[id(p.memory)] < 2:
                    continue
                if not span or p.offset or span * one.call.n != p.memory.nbytes:
                    return False
        self.ops, self.common = ops, common
        return True


def _meet(op: Op, before: Op) -> bool:
    """Whether one has to stay behind the other."""
    mine, theirs = ({id(p.memory) for p in one.places()} for one in (op, before))
    written = {id(p.memory) for one in (op, before) for p in one.written()}
    return not written.isdisjoint(mine & theirs)


def _judged_first(graph: Graph) -> list[Op]:
    """With what classes' rows count for before the rows' losses are known, which their gradients do not need: the kernel that finds both
    is done before the rows are walked, for the one, and behind, for the other. So a row's loss and its gradient can be one walk."""
    made: list[Op] = []
    for op in graph.ops:
        begin = None
        if op.title.startswith("classes_"):
            low, at = op.args[4], op.args[5]
            begin = next(
                (k for k, o in enumerate(made) if any(p.memory is low.memory for p in o.written())), None
            )
        if (
            begin is None
            or rows.in_runs.get(made[begin].call.address) is None
            or made[begin].args[2:].count(at) != 1
        ):
            made.append(op)
            continue
        between = made[begin:]
        if any(o.segment or any(p.memory.kind not in (INSIDE, FRESH) for p in o.written()) for o in between):
            made.append(op)
            continue
        _, flag, loss, share = op.args[:4]
        spare = [
            Memory(f"i{len(graph.memories) + k}", INSIDE, p.memory.nbytes, 0, None)
            for k, p in enumerate((loss, share))
        ]
        zeros = np.zeros(low.memory.nbytes, np.uint8)
        none = Memory(f"c{len(graph.memories) + 2}", CONSTANT, zeros.nbytes, int(zeros.ctypes.data), zeros)
        graph.memories += [*spare, none]
        meta, *rest = op.args
        first = replace(
            op, args=(meta, flag, Place(spare[0], loss.offset), share, Place(none, low.offset), *rest[4:])
        )
        made.insert(begin, first)
        made.append(
            replace(op, args=(meta, flag, loss, Place(spare[1], share.offset), *rest[3:]), segment=False)
        )
    return made


def strips(graph: Graph) -> str:
    plain = graph.ops
    graph.ops = _judged_first(graph)
    told = _by_strips(graph)
    if len(graph.ops) < len(plain) or not any(op.title.startswith("classes_") for op in plain):
        return told
    graph.ops = plain
    return _by_strips(graph)


def _by_strips(graph: Graph) -> str:
    left = list(graph.ops)
    users: dict[int, set[int]] = {}
    for op in graph.ops:
        for p in op.places():
            users.setdefault(id(p.memory), set()).add(id(op))
    made: list[Op] = []
    told = 0
    saved = 0
    while left:
        op = left.pop(0)
        group, at = _Group(), 0
        if not group.takes(op):
            made.append(op)
            continue
        while at < len(left) and len(group.waiting) < AHEAD and not left[at].segment:
            if not group.takes(left[at]):
                group.waiting.append(left[at])
            at += 1
        found = _made(group, users)
        if found is None:
            made.append(op)
            continue
        made.append(found[0])
        saved += found[1]
        told += len(group.ops)
        inside = {id(one) for one in group.ops}
        left = [one for one in left if id(one) not in inside]
    graph.ops = made
    return f"{told} launches are done by strips, and {saved} bytes between them not kept" if told else ""


def _read_again(ops: list[Op]) -> int:
    """Bytes of what was there before that more than one launch reads, the rows of a strip at a time."""
    times: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for op in ops:
        for p, span in zip(op.args, spans(op) or ()):
            if (
                isinstance(p, Place)
                and p.memory.kind != INSIDE
                and span
                and span * op.call.n == p.memory.nbytes
            ):
                times[id(p.memory)], sizes[id(p.memory)] = times.get(id(p.memory), 0) + 1, p.memory.nbytes
    return sum(sizes[key] for key, count in times.items() if count > 1)


def _made(group: _Group, users: dict[int, set[int]]) -> tuple[Op, int] | None:
    """The launch that does them by strips, and bytes that it keeps no more."""
    ops = group.ops
    mine = {id(op) for op in ops}
    own: dict[int, Memory] = {}
    for op in ops:
        for p in op.written():
            if p.memory.kind == INSIDE and users[id(p.memory)] <= mine and len(users[id(p.memory)]) > 1:
                own[id(p.memory)] = p.memory
    total, again = sum(m.nbytes for m in own.values()), _read_again(ops)
    if total + again < LEAST:
        return None
    counts = [k for k in range(2, group.common + 1) if group.common % k == 0 and total // k <= MOST]
    if not counts:
        return None
    pieces = max(op.call.pieces for op in ops)
    count = min(counts, key=lambda k: (k < 2 * pieces, abs(math.log((total + again) / k / GOOD))))
    room, places = 0, {}
    for key, m in own.items():
        places[key] = room, m.nbytes // count
        room += -(-m.nbytes // count // LINE) * LINE
    written = {id(p.memory) for op in ops for p in op.written()}
    every = {id(p.memory): p.memory for op in ops for p in op.places()}
    beside = tuple([(Place(m), k in written) for k, m in every.items() if k not in own])
    group_of = Strips(tuple(ops), tuple([op.call.n // count for op in ops]), room, places)
    call = Call("", 0, count, min(count, pieces), ())
    was = tuple([op.title for op in ops])
    return Op(call, (), (), "strips", was=was, beside=beside, strips=group_of), total
