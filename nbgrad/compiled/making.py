"""From the list of what was launched to programs that are ready to be run.

Promises `improved(graph, prove)`: the passes, each result proved before it is believed; and `divide(...)`, which takes what a backward
behind the call has launched apart from what the call has.
"""

from __future__ import annotations

from collections.abc import Callable

from nbgrad.compiled import capture, passes
from nbgrad.compiled.again import again
from nbgrad.compiled.explain import Entry
from nbgrad.compiled.fuse import fuse
from nbgrad.compiled.graph import (
    CONSTANT,
    DRAWN,
    FLAG,
    FRESH,
    GIVEN,
    GRAD,
    INCOMING,
    INSIDE,
    OUTSIDE,
    SAVED,
    Graph,
    Memory,
    Place,
    Unknown,
    check,
)
from nbgrad.compiled.lower import Run
from nbgrad.compiled.replay import Ready
from nbgrad.compiled.strips import strips


def improved(graph: Graph, prove: Callable[[Ready], None]) -> Entry:
    """`prove` raises `Unknown` where a program does not do what was done."""
    eager = Graph(graph.name, list(graph.ops), graph.memories)
    check(graph)
    done = passes.improve(graph)
    check(graph)
    plain, ready = list(graph.ops), Ready(graph)
    prove(ready)
    try:
        told = []
        if new := again(graph):
            if text := _fused_away(graph, new):
                told.append(text)
            else:
                graph.ops = list(plain)
        for each in (fuse, strips, passes.roomy, passes.lodge)[bool(told) :]:
            if text := each(graph):
                check(graph)
                told.append(text)
        if told:
            fused = Ready(graph)
            if {k for *_, k in fused.asked} != {k for *_, k in ready.asked}:
                raise Unknown("a number of the call was lost")
            prove(fused)
            done, ready = [*done, *told], fused
    except Exception as error:  # the program as it was is as good, and the tests ask for what was fused
        graph.ops = plain
        done.append(f"nothing fused: {type(error).__name__}: {error}")
    return Entry(graph, ready, done, eager)


def _fused_away(graph: Graph, new: list[Memory]) -> str:
    """What fusing says, if it leaves nothing of what is made again."""
    text = fuse(graph)
    left = {id(p.memory) for op in graph.ops for p in op.places()}
    if any(id(m) in left for m in new):
        return ""
    return f"{text}, {len(new)} made again where they are read"


def divide(graph: Graph, run: Run, known: dict[int, Memory]) -> tuple[Graph, Graph]:
    """The call's own program, and the one that goes back through it. What one leaves to the other is `saved`: that is told by its place
    in `known`."""
    first, second = graph.ops[: graph.cut], graph.ops[graph.cut :]
    ahead = {id(p.memory) for op in first for p in op.places()}
    place_of = {id(m): at for at, m in known.items()}
    copies: dict[int, Memory] = {}
    for g in run.record.behind.grads:
        m = None if g is None else known.get(capture.address(capture.root(g._buf)))
        if m is not None and m.kind == INSIDE and id(m) not in ahead:
            m.kind, m.name = FRESH, m.name.replace("i", "f")
        elif g is not None and (m is None or m.kind not in (FRESH, INCOMING) or id(m) in ahead):
            raise Unknown("a gradient is no new memory")

    def of(m: Memory) -> Memory:
        if m.kind in (CONSTANT, FLAG, OUTSIDE, INCOMING) or (
            m.kind in (INSIDE, FRESH) and id(m) not in ahead
        ):
            return m
        if m.kind == GRAD:
            raise Unknown("a backward reads gradients that were there before")
        if id(m) not in copies:
            array = m.array
            if m.kind == GIVEN:
                array = run.given[int(m.about)]._buf
            elif m.kind == DRAWN:
                array = run.record.draws[int(m.about)].buffer
            copies[id(m)] = Memory(m.name, SAVED, m.nbytes, m.address, array, place_of[id(m)])
        return copies[id(m)]

    for op in second:
        op.rename(lambda p: Place(of(p.memory), p.offset))
    own = {id(p.memory): p.memory for op in second for p in op.places()}
    mine = [m for m in graph.memories if m.kind not in (INSIDE, FRESH) or id(m) not in own]
    coming = [m for m in graph.memories if m.kind == INCOMING]
    theirs = [*own.values(), *[m for m in coming if id(m) not in own]]
    back = Graph(f"{graph.name}, backward", second, theirs, ["gradients"])
    return Graph(graph.name, first, mine, graph.results), back


def save(back: Ready, known: dict[int, Memory]) -> None:
    """What one program makes and another reads is new memory at each call."""
    for m in back.slots:
        if m.kind == SAVED:
            made = known[m.about]
            if made.kind == INSIDE:
                made.kind, made.name = FRESH, made.name.replace("i", "f")


def why_not_again(graph: Graph, run: Run) -> str:
    """Why a call cannot be done a second time, if it cannot."""
    if run.record.draws:
        return "it draws random numbers"
    lasting = any(p.memory.kind in (OUTSIDE, GIVEN, GRAD) for op in graph.ops for p in op.written())
    return "it writes to tensors that were there before" if lasting else ""


def let_go(*graphs: Graph) -> None:
    """Programs that are ready need no memory of the calls that they were made from."""
    for graph in graphs:
        for m in graph.memories:
            if m.kind not in (CONSTANT, FLAG, OUTSIDE):
                m.array = None
        for op in graph.ops:
            for one in (op, *op.parts):
                one.call = one.call._replace(args=())
