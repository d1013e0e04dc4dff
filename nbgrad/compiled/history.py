"""Results whose history is used later: what a backward through them does is recorded behind the call, and becomes a program of its own.

Promises `rehearse(...)`, which runs that backward with gradients that are made up, and touches no `.grad`; `Way`, the rule of the one
node that stands behind all results of a compiled call.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbgrad.autograd import _run
from nbgrad.compiled import capture
from nbgrad.compiled.graph import Memory, Unknown
from nbgrad.compiled.made import inside
from nbgrad.compiled.replay import Ready
from nbgrad.core.tensor import Tensor, edge, requires, wrap
from nbgrad.history.saved import modified
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec
from nbgrad.ops.views.copy import contiguous, zeros
from nbgrad.tape.modes import state
from nbgrad.tape.node import FREED, Node, blank, node_type, sequence

if TYPE_CHECKING:
    from nbgrad.compiled.numbers import Spot
    from nbgrad.compiled.state import State

_bytes = np.dtype(np.uint8)


class Rehearsal(NamedTuple):
    """A backward that was run: through which results, with which gradients; which of the known tensors have which, and from which
    results each of these is reached."""

    outs: list[Tensor]
    incoming: list[Tensor]
    inputs: list[int]
    grads: list[Tensor | None]
    reached: list[set[int]]

    def like(self, other: Rehearsal) -> bool:
        return (
            self.inputs == other.inputs
            and self.reached == other.reached
            and [t._spec for t in self.outs] == [t._spec for t in other.outs]
            and [g is None or g._spec for g in self.grads] == [g is None or g._spec for g in other.grads]
        )


def leaves_of(value: Any) -> Iterator[Tensor]:
    """The tensors of a result, each once."""
    seen: set[int] = set()

    def walk(v: Any) -> Iterator[Tensor]:
        if isinstance(v, Tensor):
            if id(v) not in seen:
                seen.add(id(v))
                yield v
        elif isinstance(v, (list, tuple)):
            for each in v:
                yield from walk(each)
        else:
            for each in inside(v) or ():
                yield from walk(each)

    return walk(value)


def rehearse(result: Any, tensors: Sequence[Tensor]) -> Rehearsal | None:
    """The backward through those results that have a history of which nothing was freed yet."""
    known = {id(t) for t in tensors}
    outs = [
        t
        for t in leaves_of(result)
        if id(t) not in known and t._rg and edge(t)[0] is not None and not t.is_leaf
    ]
    stops: dict[Node, dict[int, int]] = {}
    for k, t in enumerate(tensors):
        node, number = edge(t) if t._rg and requires(t) else (None, 0)
        if node is not None:
            stops.setdefault(node, {})[number] = k
    walks = [(t, _walk(t, stops)) for t in outs]
    walks = [(t, found) for t, found in walks if not found.freed]
    if not walks:
        return None
    outs = [t for t, _ in walks]
    inputs = sorted({k for _, found in walks for k in found.ends})
    reached = [{j for j, (_, found) in enumerate(walks) if k in found.ends} for k in inputs]
    incoming = [_made_up(t._spec.dense()) for t in outs]
    if not inputs:
        raise Unknown("a result requires grad, and its history leads to nothing that is known")
    with apart(stops):
        grads = _run._gradients(
            [(*edge(t), g) for t, g in zip(outs, incoming)], [tensors[k] for k in inputs], True, False, True
        )
    return Rehearsal(outs, incoming, inputs, grads, reached)


class _Walk(NamedTuple):
    freed: bool
    ends: set[int]


def _walk(t: Tensor, stops: dict[Node, dict[int, int]]) -> _Walk:
    root, number = edge(t)
    assert root is not None
    stack, seen = [(root, number)], {(root, number)}
    freed = kept = False
    ends: set[int] = set()
    while stack:
        node, number = stack.pop()
        if node in stops:
            if number not in stops[node]:
                raise Unknown("a result's history leads to a tensor that is not known")
            ends.add(stops[node][number])
            continue
        if not node.next:
            raise Unknown("a result's history leads to a leaf that is not known")
        if node.hooked:
            raise Unknown("a hook is on a tensor, or a node, that the call makes")
        freed |= node.saved is None
        kept |= bool(node.saved)
        for target in zip(node.next, node.numbers):
            if target[0] is not None and target not in seen:
                seen.add(target)  # type: ignore[arg-type]
                stack.append(target)  # type: ignore[arg-type]
    if freed and kept:
        raise Unknown("a backward through a part of a result's history was done in the call")
    return _Walk(freed, ends)


@contextmanager
def apart(nodes: Any) -> Iterator[None]:
    """Of those who get the gradients: their hooks act on them outside, not here, and where one of them was made of another, its gradient
    goes on to that outside as well."""
    held = [(node, node.hooked, node.next) for node in nodes]
    for node, _, onward in held:
        node.hooked, node.next = False, (None,) * len(onward)
    try:
        yield
    finally:
        for node, hooked, onward in held:
            node.hooked, node.next = hooked, onward


def _made_up(sp: Spec) -> Tensor:
    values = 1 + np.arange(sp.numel) % 7 / 8
    return wrap(dtypes.packed(dtypes.rounded(values, sp.dtype), sp.dtype).view(_bytes).copy(), sp)


def saved_tensors(outs: Sequence[Tensor]) -> set[int]:
    """Tensors, by identity, that live because the histories of these results do."""
    import gc

    stack: list[Any] = [edge(t)[0] for t in outs]
    seen: set[int] = set()
    found: set[int] = set()
    while stack:
        one = stack.pop()
        if id(one) in seen or isinstance(one, type) or one is None:
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            found.add(id(one))
            if one._node is not None:
                stack.append(one._node)
            if one._view is not None:
                stack.append(one._view.base)
            continue
        if isinstance(one, Node):
            stack += [one.next, one.saved, one.static, one.leaves, vars(one)]
        elif isinstance(one, (tuple, list, dict)) or type(one).__module__.startswith("nbgrad.history"):
            stack += gc.get_referents(one)
    return found


class Way:
    """The rule of a compiled call's node: what runs its way back."""

    node_name = "CompiledFunctionBackward"

    def __init__(
        self, name: str, function: Callable[..., Any], rehearsal: Rehearsal, ready: Ready, again: str
    ) -> None:
        """`again` says why the function cannot be run a second time for derivatives of derivatives, if it cannot."""
        self.name, self.function, self.ready, self.again = name, function, ready, again
        self.specs = tuple([t._spec for t in rehearsal.outs])
        self.wanted = tuple([sp.dense() for sp in self.specs])
        self.reached = rehearsal.reached
        self.kind = node_type(self.node_name)
        self.lock = threading.Lock()
        self.sizes = [m.nbytes for m in ready.fresh]
        self.slots: list[
            int
        ] = []  # for each slot where it is: at k of what was kept, or -1 - k of what comes in
        self.made: list[tuple[int, int, Spec] | int | None] = []
        self.stopped = False  # somebody asked for more than it can
        self.state: State | None = None  # what the function reads
        self.late: State | None = None  # and what its own backward reads
        self.still: Callable[[], bool] | None = None  # whether that is as it was
        self.spots: list[Spot] = []  # and the numbers there, which each call has for itself

    def place(self, rehearsal: Rehearsal, known: dict[int, Memory]) -> None:
        """Where each gradient will be: in which of the new arrays and slots, how far into it, read as what; or which one before it is the
        same."""
        fresh = {m.address: k for k, m in enumerate(self.ready.fresh)}
        coming = {capture.address(capture.root(g._buf)): k for k, g in enumerate(rehearsal.incoming)}
        for k, g in enumerate(rehearsal.grads):
            same = next((j for j in range(k) if rehearsal.grads[j] is g), None)
            if g is None or same is not None:
                self.made.append(None if g is None else same)
                continue
            base = capture.address(capture.root(g._buf))
            where = fresh[base] if base in fresh else -1 - coming[base]
            self.made.append((where, capture.address(g._buf) - base, g._spec))

    def node(
        self,
        call: Any,
        kept: tuple[Any, ...],
        read: tuple[Tensor, ...],
        inputs: tuple[Tensor, ...],
        numbers: tuple[float, ...] = (),
    ) -> Node:
        """Of a call that was done: `kept` is memory, `read` are tensors that must stay as they are."""
        made: Node = blank(self.kind)
        edges = [edge(t) for t in inputs]
        made.next, made.numbers = tuple([e[0] for e in edges]), tuple([e[1] for e in edges])
        for t in inputs:
            if t._node is None:
                made.leaves = (t, made.leaves)
        made.rule, made.outputs, made.seq = self, len(self.specs), next(sequence)
        made.saved = ((kept, read, tuple([(_version(t), t._buf) for t in read]), numbers),)
        made.static = (call, inputs)
        return made

    @staticmethod
    def keeps(node: Node, outs: Sequence[Tensor]) -> None:
        """Of these results it reads the values, too. A node that held its own output would be a cycle."""
        shadows = []
        for t in outs:
            shadow = wrap(t._buf, t._spec)
            shadow._storage = t._storage
            shadows.append(shadow)
        node.saved = (*(node.saved or ()), *shadows)
        node.versions = (0, *[_version(t) for t in outs])

    def layouts(self, node: Node) -> tuple[Spec, ...]:
        return self.specs

    def apply(self, node: Node, grads: Any, needed: Any, graph: bool) -> Sequence[Any]:
        saved = node.saved
        if saved is None:
            raise RuntimeError(FREED)
        kept, read, before, numbers = saved[0]
        for t, (version, memory) in zip(read, before):
            if _version(t) != version:
                raise modified(t, version, "")
            if t._buf is not memory:
                raise RuntimeError(
                    f"nbgrad.compile: the backward of `{self.name}` reads a tensor that was given other memory since the call, as by "
                    "`.data =`. Call the function itself for that."
                )
        for t, version in zip(saved[1:], node.versions[1:]):
            if _version(t) != version:
                raise modified(t, version, "")
        if self.late is not None and not self._still():
            self.stopped = True
            raise RuntimeError(
                f"nbgrad.compile: the backward of `{self.name}` reads `{self.late.changed()}`, which is not as it was at the call. Call "
                "the function itself for that."
            )
        given = [grads] if len(self.specs) == 1 else grads
        if graph or state.active or any(type(g._spec) is not Spec for g in given if g is not None):
            return self._by_function(node, given)
        coming = [
            zeros(sp) if g is None else g if g._spec is sp else _dense(g) for g, sp in zip(given, self.wanted)
        ]
        fresh = [np.empty(n, _bytes) for n in self.sizes]
        with self.lock:
            self.ready.ask(numbers)
            self.ready.run([*fresh, *[kept[k] if k >= 0 else coming[-1 - k]._buf for k in self.slots]])
        if capture.recording.on:
            capture.unseen()
        found: list[Any] = []
        for how, outs in zip(self.made, self.reached):
            if how is None or all(given[j] is None for j in outs):
                found.append(None)
            elif isinstance(how, int):
                found.append(found[how])
            else:
                where, offset, sp = how
                if where < 0 and not offset and sp is self.wanted[-1 - where]:
                    found.append(coming[-1 - where])
                    continue
                memory = fresh[where] if where >= 0 else coming[-1 - where]._buf
                found.append(wrap(memory[offset:] if offset else memory, sp))
        return found

    def _still(self) -> bool:
        """Whether all is as it was that the user's own backward reads."""
        assert self.late is not None
        if self.still is None:
            self.still = self.late.check()
        try:
            return self.still()
        except Exception:  # an attribute that is no more
            return False

    def _by_function(self, node: Node, given: Sequence[Any]) -> Sequence[Any]:
        """A gradient that is to be differentiated itself, or many at once: the function is run again, with a history."""
        if self.again:
            raise RuntimeError(
                f"nbgrad.compile: `{self.name}` cannot be differentiated twice, as {self.again}. Call the function itself for that."
            )
        call, inputs = node.static
        if self.state is not None and not self.state.check()():
            raise RuntimeError(
                f"nbgrad.compile: `{self.name}` cannot be differentiated twice, as `{self.state.changed()}` is not as it was at the call"
            )
        if not self.stopped:
            self.stopped = True
            warnings.warn(
                f"nbgrad.compile: a gradient of `{self.name}` is differentiated itself: the function is run again for it, and from "
                "now on as it is",
                stacklevel=2,
            )
        create, state.grad = state.grad, True
        now = [spot.get() for spot in self.spots]
        try:
            for spot, was in zip(self.spots, call[2]):
                spot.put(was)
            result = self.function(*call[0], **call[1])
        finally:
            state.grad = create
            for spot, was in zip(self.spots, now):
                spot.put(was)
        own = {id(t) for t in inputs}
        outs = [
            t
            for t in leaves_of(result)
            if id(t) not in own and t._rg and edge(t)[0] is not None and not t.is_leaf
        ]
        roots = [(*edge(t), g) for t, g in zip(outs, given) if g is not None]
        with apart([target for target in node.next if target is not None]):
            return _run._gradients(roots, inputs, create, create, True)

    @staticmethod
    def output_at(node: Node, k: int) -> None:
        return None

    @staticmethod
    def made_by(node: Node, k: int) -> str:
        return ""


def _dense(g: Tensor) -> Tensor:
    """The gradient with its elements in order, without a history."""
    return contiguous(g) if not g._spec.contiguous else g


def _version(t: Tensor) -> int:
    return t._storage.version if t._storage is not None else 0


__all__ = ["Rehearsal", "Way", "apart", "leaves_of", "rehearse", "saved_tensors"]
