"""What a call leaves behind, or why that cannot be left again.

Promises `After(...)`: results, gradients and counts of writes of a recorded call, in terms of which `call.py` writes one.
"""

from __future__ import annotations

from typing import Any

from nbgrad.compiled import capture
from nbgrad.compiled.arguments import PLAIN_KINDS
from nbgrad.compiled.graph import (
    DRAWN,
    FRESH,
    GIVEN,
    GRAD,
    INSIDE,
    OUTSIDE,
    Graph,
    Memory,
    Unknown,
)
from nbgrad.compiled.history import Rehearsal
from nbgrad.compiled.lower import Run
from nbgrad.compiled.made import inside
from nbgrad.compiled.numbers import Number
from nbgrad.compiled.proof import Snapshot, version
from nbgrad.core.tensor import Tensor, requires
from nbgrad.memory.layout import Size
from nbgrad.memory.storage import Spec
from nbgrad.tape.node import Node

LARGE = 1 << 14  # bytes of a gradient, from which on two at a time are too many


class After:
    """What a call leaves behind: results, gradients, counts of writes."""

    def __init__(
        self,
        run: Run,
        snapshot: Snapshot,
        result: Any,
        known: dict[int, Memory],
        lasting: set[int],
        graph: Graph,
    ) -> None:
        self.lasting = lasting
        self.ways: Rehearsal | None = run.record.behind
        self.live = {} if self.ways is None else {id(t): k for k, t in enumerate(self.ways.outs)}
        self.run, self.graph, self.known = run, graph, known
        self.result = result
        self.owned = {id(t): k for k, (t, _) in enumerate(run.tensors)}
        self.leaves: list[Tensor] = []
        self.grads: list[tuple[int, Any]] = []  # of which tensor, and what it is now: a tensor, None
        self.counts: list[tuple[int, int]] = []
        counted: set[int] = set()
        for k, (t, path) in enumerate(run.tensors):
            grad = t._ad.grad if t._ad is not None else None
            if grad is not snapshot.grads[k]:
                if grad is not None:
                    self.leaves.append(grad)
                    self._made(grad, f"the gradient of `{path}`")
                self.grads.append((k, grad))
            elif grad is not None and version(grad) != snapshot.counts[id(grad)]:
                self.grads.append((k, version(grad) - snapshot.counts[id(grad)]))
            if (t._node, t._rg) != snapshot.nodes[k]:
                raise Unknown(f"the call changes the history of `{path}`")
            if version(t) != snapshot.versions[k] and id(t._storage) not in counted:
                counted.add(id(t._storage))  # which views share
                self.counts.append((k, version(t) - snapshot.versions[k]))
        self.found: list[Tensor] = []
        self.of: dict[
            int, int
        ] = {}  # results that look at the memory of what was there before: of which tensor
        self._results(result)
        self.leaves += self.found
        self.forgotten = self._forgotten()
        for t in self.leaves:
            if t._ad is not None:
                raise Unknown("a result keeps a gradient or has hooks")
        self.bases: dict[
            int, Tensor
        ] = {}  # of results that are views of what the call makes, where that is to be seen
        for t in self.leaves:
            if t._view is None or id(t) in self.of:
                continue
            base = t._view.base
            sharing = [o for o in self.leaves if capture.root(o._buf) is capture.root(t._buf)]
            if len(sharing) > 1:
                if (
                    any(o._node is not None or requires(o) for o in (base, *sharing))
                    or base._view is not None
                ):
                    raise Unknown("a result with a history is a view of another")
                if base._ad is not None or type(base) is not Tensor or base.__dict__:
                    raise Unknown("a result is a view of what is no plain tensor")
                self.bases[id(t)] = base

    def _results(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, Tensor):
            if id(value) in self.owned or any(value is t for t in self.found):
                return
            self.found.append(value)
            self._made(value, "a result")
        elif kind is not tuple and id(value) in self.lasting and inside(value) is not None:
            raise Unknown("a result is a container that lasts")
        elif (found := inside(value)) is not None:
            for v in found:
                self._results(v)
        elif kind not in (*PLAIN_KINDS, Number, Size):
            raise Unknown(f"a result is a {kind.__name__}")

    def _made(self, t: Tensor, what: str) -> None:
        if type(t) is not Tensor or type(t._spec) is not Spec or t.__dict__:
            raise Unknown(f"{what} is no plain tensor")
        base = self.known.get(capture.address(capture.root(t._buf)))
        if base is not None and base.kind in (GIVEN, OUTSIDE) and what == "a result":
            self._looks(t, base)
            return
        if base is None or base.kind not in (INSIDE, FRESH, DRAWN):
            raise Unknown(f"{what} was not made by a kernel")
        if base.kind != DRAWN:
            base.kind, base.name = FRESH, base.name.replace("i", "f")
        if t._node is not None and id(t) not in self.live:
            _freed(t._node, what)
        self.graph.results.append(f"{base.name} ({what})")

    def _looks(self, t: Tensor, base: Memory) -> None:
        """It looks at memory of a tensor that was there before."""
        at = capture.address(t._buf)
        own = [
            (k, capture.address(other._buf))
            for k, (other, _) in enumerate(self.run.tensors)
            if capture.root(other._buf) is capture.root(t._buf) and capture.address(other._buf) <= at
        ]
        if not own or (t._node is not None and (id(t) not in self.live or t._view is None)):
            raise Unknown("a result is a view of what lasts")
        self.of[id(t)] = min(own, key=lambda item: at - item[1])[0]
        self.graph.results.append(f"a view of {self.run.tensors[self.of[id(t)]][1]}")

    def _forgotten(self) -> dict[int, bool]:
        """Tensors whose gradient is forgotten before memory is taken for the next one, and whether only when nothing may refuse any more:
        as the function does it, or when nobody can tell."""
        read = {id(p.memory.array) for op in self.graph.ops for p in op.places() if p.memory.kind == GRAD}
        judged, cleared = self.run.record.judged(), self.run.record.cleared
        found = {}
        for k, grad in self.grads:
            before = self.run.grads.get(k)
            if before is None or isinstance(grad, int) or id(capture.root(before._buf)) in read:
                continue
            at, large = cleared.get(id(self.run.tensors[k][0])), before._buf.nbytes >= LARGE
            if (not judged and large) or (judged and at is not None and at <= judged[0]):
                found[k] = False
            elif judged and at is not None and at > judged[-1] and large:
                found[k] = True
                if grad is not None:
                    self.known[capture.address(capture.root(grad._buf))].late = True
        return found


def _freed(node: Node, what: str) -> None:
    """Refuse a history through which a gradient could still go by values of this very call."""
    stack, seen = [node], {node}
    while stack:
        one = stack.pop()
        if one.saved:
            raise Unknown(f"{what} has a history that a later backward would go through")
        for target in one.next:
            if target is not None and target not in seen:
                seen.add(target)
                stack.append(target)
