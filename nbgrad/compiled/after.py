"""What a call leaves behind, and the function that looks whether all is as it was, does the program, and leaves the same.

Promises `After(...)`: results, gradients and counts of writes of a recorded call, and `write(...)`, which is run at each call.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from nbgrad.base.switches import determinism
from nbgrad.compiled import capture
from nbgrad.compiled.arguments import PLAIN_KINDS, TENSORS, Kind
from nbgrad.compiled.capture import recording
from nbgrad.compiled.graph import (
    DRAWN,
    FRESH,
    GIVEN,
    GRAD,
    INCOMING,
    INSIDE,
    OUTSIDE,
    SAVED,
    Graph,
    Memory,
    Unknown,
)
from nbgrad.compiled.guards import swift
from nbgrad.compiled.history import Rehearsal, Way
from nbgrad.compiled.lower import Run, Step
from nbgrad.compiled.made import inside
from nbgrad.compiled.made import text as made_again
from nbgrad.compiled.numbers import Number, Numbers
from nbgrad.compiled.passes import judged
from nbgrad.compiled.proof import Snapshot, version
from nbgrad.compiled.replay import Ready, Unsaid
from nbgrad.compiled.state import State
from nbgrad.core.casting import casting
from nbgrad.core.tensor import Tensor, edge, meta, new, requires, storage_of, view_of, wrap
from nbgrad.memory import dtypes
from nbgrad.memory.device import elsewhere
from nbgrad.memory.layout import Size
from nbgrad.memory.storage import Spec, Storage
from nbgrad.tape.modes import PLAIN, shared
from nbgrad.tape.modes import state as modes
from nbgrad.tape.node import Node

_bytes = np.dtype(np.uint8)
_OF_THREAD = ("grad", "modes", "active", "asked", "task", "levels", "transforms")
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

    def _takes(self, k: int, ready: Ready) -> bool:
        """Whether a call needs the gradient itself that was there before."""
        array = capture.root(self.run.grads[k]._buf) if k in self.run.grads else None
        counted = any(j == k and isinstance(grad, int) for j, grad in self.grads)
        return counted or any(m.kind == GRAD and m.array is array for m in ready.slots)

    @staticmethod
    def _unchanged(
        conditions: list[str], state: State, grads: list[tuple[Tensor, Any]], names: dict[str, Any]
    ) -> str:
        """These conditions, which hold where `same` says so."""
        exact = "\n            and ".join(conditions)
        if not modes.grad or not state.holds():
            return exact
        usual = [(1, n, getattr(type(modes), n)) for n in _OF_THREAD] + [(2, "on", ())]
        found = swift([line for line, _ in state.lines], state.names, grads, usual)
        if found is None:
            return exact
        names |= dict(same=found.same, words=found.words, kept=found.kept)
        quick = "same(words, modes.__dict__, casting.__dict__)"
        if found.rest:
            names["rest"] = state.check(found.rest)
            quick += " and rest()"
        return f"({quick} or {exact})"

    def write(
        self,
        ready: Ready,
        steps: list[Step],
        state: State,
        kind: Kind,
        function: Any,
        names: dict[str, Any],
        way: Way | None,
        numbers: Numbers | None = None,
    ) -> Any:
        """The function that looks whether all is as it was, and does the program; `way` goes back through it."""
        lock = threading.Lock()
        run = self.run
        names |= dict(
            new=new, edge=edge, Tensor=Tensor, Storage=Storage, tensors=TENSORS, modes=modes, shared=shared, PLAIN=PLAIN,
            casting=casting, elsewhere=elsewhere, empty=np.empty, bytes_=_bytes, play=ready.run,
            lock=lock, locked=lock.locked, recording=recording, holds=state.check(), determinism=determinism,
            level=determinism.level, default=dtypes.get_default_dtype, usual=dtypes.get_default_dtype(),
            grad_mode=modes.grad, eager=function,
        )  # fmt: skip
        paths = {id(t): p for t, p in zip(kind.tensors, kind.paths)}

        def text(k: int) -> str:
            t = run.tensors[k][0]
            if id(t) in paths:
                return paths[id(t)]
            names[f"p{k}"] = t
            return f"p{k}"

        conditions = [
            "not recording.on and not shared.rare and not elsewhere.threads",
            "default() is usual and determinism.level == level",
            *kind.conditions(names, run.record.backwards > 0, state.asks, state.keyed),
        ]
        unchanged = [
            "modes.grad is grad_mode and (modes.modes is PLAIN or modes.modes == PLAIN) and not modes.active and modes.asked == 2",
            "not casting.on and modes.task is None and not modes.levels and not modes.transforms",
        ]
        grads = run.grads
        looked: list[tuple[Tensor, Any]] = []  # whose gradient nobody takes a name of
        for k, (t, _) in enumerate(run.tensors):
            if not run.record.grads:
                break
            at = text(k)
            if k in grads:
                names[f"s{k}"] = grads[k]._spec
                condition = (
                    f"{at}._ad is not None and (g{k} := {at}._ad.grad) is not None and g{k}._spec is s{k} and g{k}._node is None"
                    f" and type(g{k}) is Tensor"
                )
            else:
                condition = f"({at}._ad is None or {at}._ad.grad is None)"
            if id(t) in paths or self._takes(k, ready):
                conditions.append(condition)
            else:
                unchanged.append(condition)
                looked.append((t, grads[k]._spec if k in grads else None))
        unchanged.append("holds()")
        conditions.append(self._unchanged(unchanged, state, looked, names))
        if numbers is not None:
            names["math"] = math
            names |= numbers.names
            conditions += numbers.conditions
            if numbers.texts:
                conditions.append(f"(numbers := ({_row([*numbers.texts])})) is not None")
        slots, changing = [], []
        for m in ready.slots:
            if m.kind == GIVEN:
                slots.append(f"{kind.paths[int(m.about)]}._buf")
                changing.append(slots[-1])
            elif m.kind == DRAWN:
                slots.append(f"d{m.about}")
            else:
                slots.append(f"g{next(k for k, g in grads.items() if capture.root(g._buf) is m.array)}._buf")
                changing.append(slots[-1])
        lines = []
        for k, step in enumerate(steps):
            names[f"ask{k}"] = step.ask
            lines.append(f"ask{k}()")
        arrays_of = [*[f"f{k}" for k in range(len(ready.fresh))], *slots]
        arrays = ", ".join(arrays_of)
        names["fits"] = _fits(ready, run)
        if changing:
            lines.append(f"if not fits(({', '.join(changing)},)):")
            lines.append("    return eager(*args, **kwargs)")
        ahead = {id(p.memory) for op in ready.graph.ops[: judged(ready.graph) + 1] for p in op.places()}
        forget: dict[bool, list[str]] = {False: [], True: []}
        taken: dict[bool, list[str]] = {False: [], True: []}
        for k, late in self.forgotten.items():
            forget[late].append(f"g{k} = {text(k)}._ad.grad = None")
        for k, m in enumerate(ready.fresh):
            m.late &= id(m) not in ahead
            taken[m.late].append(f"f{k} = empty({m.nbytes}, bytes_)")
        lines += [*forget[False], *taken[False]]
        for k, draw in enumerate(run.record.draws):
            names[f"draw{k}"] = draw.again
            lines.append(f"d{k} = draw{k}()")
        if ready.asked:
            names["ask_for"] = ready.ask
            lines.append("ask_for(numbers)")
        if forget[True]:
            names |= dict(judged=ready.judged)
            first = [f"f{k}" if not m.late else "none" for k, m in enumerate(ready.fresh)]
            lines.append("none = empty(0, bytes_)")
            lines.append(f"play(({_row([*first, *slots])}), 0, judged)")
            lines += [*forget[True], *taken[True], f"play(({_row([*arrays_of])}), judged)"]
        elif (alone := ready.alone()) is not None:
            names |= dict(play=ready.play, program=alone)
            lines.append(f"play(program, 0, 0{', ' * bool(arrays)}{arrays})")
        else:
            lines.append(f"play(({arrays}{',' if arrays else ''}))")
        place = {id(m): f"f{k}" for k, m in enumerate(ready.fresh)} | {
            id(m): f"d{m.about}" for m in self.graph.memories if m.kind == DRAWN
        }
        made: dict[int, str] = {}
        storages: dict[int, str] = {}
        shares: dict[int, int] = {}
        for t in self.leaves:
            base = capture.address(capture.root(t._buf))
            shares[base] = shares.get(base, 0) + 1

        def build(t: Tensor) -> str:
            if id(t) in made:
                return made[id(t)]
            r = made[id(t)] = f"r{len(made)}"
            if id(t) in self.of:
                return looking(t, r)
            array = capture.root(t._buf)
            base = capture.address(array)
            memory = self.known[base]
            f = place[id(memory)]
            offset = capture.address(t._buf) - memory.address
            names[f"{r}s"] = t._spec
            lines.append(f"{r} = new(Tensor)")
            lines.append(f"{r}._buf = {f}{f'[{offset}:]' if offset else ''}")
            lines.append(f"{r}._spec = {r}s")
            here = self.live.get(id(t))
            lines.append(f"{r}._rg, {r}._nr = {int(requires(t))}, {t._nr if here is None else here}")
            lines.append(f"{r}._view = {r}._ad = None")
            if id(t) in self.bases and t._view is not None:
                names["view_of"] = view_of
                whole = build(self.bases[id(t)])
                created = t._view.created
                lines.append(f"{r} = view_of({whole}, {r}._buf, {r}s, {created!r})")
                return r
            if here is not None:
                lines.append(f"{r}._node = h")
            elif t._node is None:
                lines.append(f"{r}._node = None")
            else:
                names[f"{r}n"] = t._node
                lines.append(f"{r}._node = {r}n")
            if t._storage is None and shares[base] == 1 and not offset:
                lines.append(f"{r}._storage = None")
            else:
                if base not in storages:
                    storages[base] = f"{r}m"
                    lines.append(f"{r}m = Storage({f})")
                    lines.append(f"{r}m.version = {version(t)}")
                lines.append(f"{r}._storage = {storages[base]}")
            return r

        def looking(t: Tensor, r: str) -> str:
            k = self.of[id(t)]
            at, offset = text(k), capture.address(t._buf) - capture.address(run.tensors[k][0]._buf)
            names.update({f"{r}s": t._spec, "view_of": view_of, "wrap": wrap, "storage_of": storage_of})
            memory = f"{at}._buf{f'[{offset}:]' if offset else ''}"
            if t._view is None:
                lines.append(f"{r} = wrap({memory}, {r}s)")
                lines.append(f"{r}._storage = storage_of({at})")
                lines.append(f"{r}._rg = {t._rg}")
                return r
            lines.append(f"{r} = view_of({at}, {memory}, {r}s, {t._view.created!r})")
            if id(t) in self.live:
                lines.append(f"{r}._node, {r}._nr = h, {self.live[id(t)]}")
            return r

        def results(value: Any) -> str:
            if isinstance(value, Tensor):
                return text(self.owned[id(value)]) if id(value) in self.owned else build(value)
            if (found := inside(value)) is not None:
                return made_again(value, [*map(results, found)], names)
            if type(value) is Number:
                return value.text
            names[f"v{len(names)}"] = value
            return f"v{len(names) - 1}"

        if way is not None and self.ways is not None:
            names["way"] = way.node
            way.slots = []
            kept: list[str] = []
            read: list[str] = []
            for m in way.ready.slots:
                if m.kind == INCOMING:
                    way.slots.append(-1 - int(m.about))
                    continue
                way.slots.append(len(kept))
                where = self.known[m.about]
                kept.append(
                    place[id(where)] if id(where) in place else f"{kind.paths[int(where.about)]}._buf"
                )
            back = {id(p.memory) for op in way.ready.graph.ops for p in op.places()}
            reads = {m.about for m in way.ready.slots if m.kind == SAVED}
            for k, (t, _) in enumerate(run.tensors):
                own = self.known.get(capture.address(capture.root(t._buf)))
                if own is not None and (id(own) in back or capture.address(own.array) in reads):
                    read.append(text(k))
            inputs = [text(k) for k in self.ways.inputs]
            way.state, way.spots = state, [] if numbers is None else [*numbers.spots.values()]
            kept_numbers = [] if numbers is None else [s.text(name) for name, s in numbers.spots.items()]
            call = "None" if way.again else f"(args, kwargs, ({_row(kept_numbers)}))"
            asked = ", numbers" if way.ready.asked else ""
            lines.append(f"h = way({call}, ({_row(kept)}), ({_row(read)}), ({_row(inputs)}){asked})")
            conditions.append("not stopped.stopped")
            names["stopped"] = way
            outs = [t for t in self.ways.outs if capture.address(capture.root(t._buf)) in reads]
            names["keeps"] = way.keeps
            after = f"keeps(h, ({_row([build(t) for t in outs])}))" if outs else ""
        else:
            after = ""
        for k, grad in self.grads:
            at = text(k)
            if isinstance(grad, int):
                lines.append(f"count(g{k}, {grad})")
                names["count"] = _count
            elif grad is None:
                lines.append(f"{at}._ad.grad = None")
            else:
                names["keep"] = _keep
                found = build(grad)
                lines.append(
                    f"keep({at}, {found})" if id(run.tensors[k][0]) in paths else f"{at}._ad.grad = {found}"
                )
        for k, by in self.counts:
            names["count"] = _count
            lines.append(
                f"count({text(k)}, {by})"
                if id(run.tensors[k][0]) in paths
                else f"{text(k)}._storage.version += {by}"
            )
        final = results(self.result)
        if after:
            lines.append(after)
        defaults = ", ".join(f"{n}={n}" for n in names)
        condition = "\n            and ".join(conditions)
        lines.append(f"return {final}")
        if ready.kept_by_lock():  # Python's own
            turn = "\n    ".join(lines)
        else:
            body = "\n        ".join([line for text in lines for line in text.splitlines()])
            turn = f"""if locked():
        return eager(*args, **kwargs)
    with lock:  # whatever interrupts, it is given back
        {body}"""
            if ready.clean and not run.record.draws:
                names["Unsaid"] = Unsaid
                inner = turn.replace("\n", "\n    ")
                turn = f"""try:
        {inner}
    except Unsaid as error:
        if not error.clean:
            raise
    return eager(*args, **kwargs)"""
        source = f"""def run(args, kwargs, {defaults}):
    try:
        if not (
            {condition}
        ):
            return run
    except (AttributeError, KeyError, IndexError, ValueError, TypeError, ArithmeticError):
        return run
    {turn}
"""
        scope = dict(names)
        exec(compile(source, "<a call of nbgrad.compile>", "exec"), scope)
        scope["run"].text = source
        return scope["run"]


def _row(texts: list[str]) -> str:
    return "".join([f"{t}, " for t in texts])


def _fits(ready: Ready, run: Run) -> Callable[[tuple[Any, ...]], bool]:
    """Whether arguments and gradients are apart from one another and from what the program writes to; the last that were so are known."""
    last: list[Any] = [None]
    written = {id(p.memory) for op in ready.graph.ops for p in op.written()}
    fixed = [(m.address, m.address + m.nbytes) for m in ready.graph.memories if m.kind == OUTSIDE]

    def fits(arrays: tuple[Any, ...]) -> bool:
        before = last[0]
        if before is not None and all([a is b() for a, b in zip(arrays, before)]):
            return True
        roots = [capture.root(a) for a in arrays]
        places = sorted([*fixed, *[(capture.address(a), capture.address(a) + a.nbytes) for a in roots]])
        if written and any(b[0] < a[1] for a, b in pairwise(places) if a[1] > a[0]):
            return False
        last[0] = [weakref.ref(a) for a in arrays]
        return True

    return fits


def _keep(t: Tensor, grad: Tensor) -> None:
    meta(t).grad = grad


def _count(t: Tensor, by: int) -> None:
    storage_of(t).version += by


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
