"""What users are told of a compiled function.

Promises `Entry`, a program with what it came from, `explained(entries, reasons)`, and `Progress`, which says that something takes long.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import Any

from nbgrad.compiled.arguments import Kept
from nbgrad.compiled.graph import FRESH, INSIDE, Graph, addresses
from nbgrad.compiled.replay import Ready
from nbgrad.compiled.state import State
from nbgrad.kernels import build

_log = logging.getLogger("nbgrad.compile")


class Explanation:
    """What became of a compiled function, as a table."""

    def __init__(self, lines: list[str], graphs: list[Graph], reasons: list[str]) -> None:
        self.lines, self.graphs, self.reasons = lines, graphs, reasons

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.reasons)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__


class Entry:
    """One program with the conditions under which it is what the function would do."""

    call: Any
    kind: Kept
    state: State
    back: Entry | None = None  # what goes back through it

    def __init__(self, graph: Graph, ready: Ready, done: list[str], eager: Graph) -> None:
        self.graph, self.ready, self.done, self.eager = graph, ready, done, eager

    def holds(self) -> bool:
        return self.state.holds()


def explained(entries: list[Entry], reasons: list[str]) -> Explanation:
    """A table of the programs, and of why there are no others."""
    lines = []
    for k, e in enumerate(entries):
        lines += _of_one(f"program {k}", e)
        if e.back is not None:
            lines += _of_one("  its backward", e.back)
    lines += [f"not compiled: {why}" for why in reasons]
    return Explanation(lines or ["nothing was compiled yet"], [e.graph for e in entries], list(reasons))


def _of_one(name: str, e: Entry) -> list[str]:
    kept = sum(m.nbytes for m in e.ready.fresh)
    moved = [sum(p.memory.nbytes for op in g.ops for p in op.places()) for g in (e.eager, e.graph)]
    return [
        f"{name}: {len(e.eager.ops)} launches -> {len(e.graph.ops)}, {len(addresses(e.graph))} different",
        f"  memory at its fullest: {e.ready.bytes + kept} bytes in place of {fullest(e.eager)}, {kept} of them results",
        f"  bytes named by launches: {moved[0]} -> {moved[1]}",
        *[f"  {text}" for text in e.done],
    ]


def fullest(graph: Graph) -> int:
    """How many bytes there are at once of what a program makes, if each memory is there from its first launch to its last one, and
    results to the end."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for k, op in enumerate(graph.ops):
        for p in op.places():
            if p.memory.kind in (INSIDE, FRESH):
                first.setdefault(id(p.memory), k)
                last[id(p.memory)] = len(graph.ops) if p.memory.kind == FRESH else k
                sizes[id(p.memory)] = p.memory.nbytes
    now = most = 0
    for k in range(len(graph.ops)):
        now += sum(sizes[m] for m, at in first.items() if at == k)
        most = max(most, now)
        now -= sum(sizes[m] for m, at in last.items() if at == k)
    return most


def say(text: str) -> None:
    if os.environ.get("NBGRAD_COMPILE_LOG", "0") not in ("", "0"):
        print(f"nbgrad.compile: {text}", file=sys.stderr)
    _log.debug(text)


class Progress:
    """A line on stderr where a call takes more than 2 s because kernels or programs are compiled, others as that goes on, and one when it
    is done. `$NBGRAD_COMPILE_LOG` of 0 is silent."""

    after = 2.0

    def __init__(self, name: str) -> None:
        self.name, self.making = name, 0  # launches of the program that is made now
        self.ended, self.told = threading.Event(), False
        self.begin, self.kernels = time.monotonic(), len(build._kernels)

    def __enter__(self) -> Progress:
        if os.environ.get("NBGRAD_COMPILE_LOG") != "0":
            threading.Thread(target=self._watch, name="nbgrad.compile's progress", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.told:
            self._tell(f"took {self._seconds()} s")

    def _watch(self) -> None:
        wait = self.after
        while not self.ended.wait(wait):
            compiled = len(build._kernels) - self.kernels
            if not compiled and not self.making:
                continue  # it is the function itself that takes so long
            self.told, wait = True, 2 * wait
            found = f", a program of {self.making} launches is made" if self.making else ""
            self._tell(f"{self._seconds()} s, {compiled} kernels compiled so far{found}")

    def _seconds(self) -> str:
        return f"{time.monotonic() - self.begin:.1f}"

    def _tell(self, text: str) -> None:
        print(f"nbgrad.compile: `{self.name}`: {text}", file=sys.stderr, flush=True)
