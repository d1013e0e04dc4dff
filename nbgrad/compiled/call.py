"""The function that a compiled call is: it looks whether all is as it was, does the program, and leaves what the recorded call left.

Promises `written(...)`, whose result is run at each call: it gives what the function would, or itself where something is not as it was.
Its text is Python, written once for each program, and can be read at its `text`.
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
from nbgrad.compiled.after import After
from nbgrad.compiled.arguments import TENSORS, Kind
from nbgrad.compiled.capture import recording
from nbgrad.compiled.graph import DRAWN, GIVEN, GRAD, INCOMING, OUTSIDE, SAVED
from nbgrad.compiled.guards import swift
from nbgrad.compiled.history import Rehearsal, Way
from nbgrad.compiled.lower import Run, Step
from nbgrad.compiled.made import inside
from nbgrad.compiled.made import text as made_again
from nbgrad.compiled.numbers import Number, Numbers
from nbgrad.compiled.passes import judged
from nbgrad.compiled.proof import version
from nbgrad.compiled.replay import Ready, Unsaid
from nbgrad.compiled.state import State
from nbgrad.core.casting import casting
from nbgrad.core.tensor import Tensor, edge, meta, new, requires, storage_of, view_of, wrap
from nbgrad.memory import dtypes
from nbgrad.memory.device import elsewhere
from nbgrad.memory.storage import Storage
from nbgrad.tape.modes import PLAIN, shared
from nbgrad.tape.modes import state as modes

_bytes = np.dtype(np.uint8)
_OF_THREAD = ("grad", "modes", "active", "asked", "task", "levels", "transforms")
_AND = "\n            and "


def written(
    after: After,
    ready: Ready,
    steps: list[Step],
    state: State,
    kind: Kind,
    function: Callable[..., Any],
    way: Way | None,
    numbers: Numbers | None = None,
) -> Any:
    """The function for a call of this kind; `way` goes back through it."""
    call = _Call(after, ready, state, kind, function)
    call.looks(numbers)
    call.plays(steps)
    after_all = "" if way is None or after.ways is None else call.records(way, after.ways, numbers)
    call.leaves()
    result = call.result(after.result)
    if after_all:
        call.lines.append(after_all)
    call.lines.append(f"return {result}")
    return call.made()


class _Call:
    """What is written of it so far: conditions, lines, and the names that they read."""

    def __init__(
        self, after: After, ready: Ready, state: State, kind: Kind, function: Callable[..., Any]
    ) -> None:
        self.after, self.run, self.ready, self.state, self.kind = after, after.run, ready, state, kind
        self.conditions: list[str] = []
        self.lines: list[str] = []
        lock = threading.Lock()
        self.names: dict[str, Any] = dict(
            new=new, edge=edge, Tensor=Tensor, Storage=Storage, tensors=TENSORS, modes=modes, shared=shared, PLAIN=PLAIN,
            casting=casting, elsewhere=elsewhere, empty=np.empty, bytes_=_bytes, play=ready.run,
            lock=lock, locked=lock.locked, recording=recording, holds=state.check(), determinism=determinism,
            level=determinism.level, default=dtypes.get_default_dtype, usual=dtypes.get_default_dtype(),
            grad_mode=modes.grad, eager=function,
        )  # fmt: skip
        self.paths = {id(t): p for t, p in zip(kind.tensors, kind.paths)}
        self.places = {id(m): f"f{k}" for k, m in enumerate(ready.fresh)}
        self.places |= {id(m): f"d{m.about}" for m in after.graph.memories if m.kind == DRAWN}
        self.built: dict[int, str] = {}  # tensors that the text has made, by what name
        self.storages: dict[int, str] = {}
        self.shares: dict[int, int] = {}  # how many of the tensors to be made look at a memory
        for t in after.leaves:
            base = capture.address(capture.root(t._buf))
            self.shares[base] = self.shares.get(base, 0) + 1

    def tensor(self, k: int) -> str:
        """One that was there before."""
        t = self.run.tensors[k][0]
        if id(t) in self.paths:
            return self.paths[id(t)]
        self.names[f"p{k}"] = t
        return f"p{k}"

    def is_given(self, k: int) -> bool:
        return id(self.run.tensors[k][0]) in self.paths

    # ------------------------------------------------------------ whether all is as it was

    def looks(self, numbers: Numbers | None) -> None:
        kind, state, run = self.kind, self.state, self.run
        self.conditions += [
            "not recording.on and not shared.rare and not elsewhere.threads",
            "default() is usual and determinism.level == level",
            *kind.conditions(self.names, run.record.backwards > 0, state.asks, state.keyed),
        ]
        unchanged = [
            "modes.grad is grad_mode and (modes.modes is PLAIN or modes.modes == PLAIN) and not modes.active and modes.asked == 2",
            "not casting.on and modes.task is None and not modes.levels and not modes.transforms",
        ]
        looked: list[tuple[Tensor, Any]] = []  # whose gradient nobody takes a name of
        for k, (t, _) in enumerate(run.tensors if run.record.grads else []):
            condition = self._gradient(k)
            if self.is_given(k) or self._takes(k):
                self.conditions.append(condition)
            else:
                unchanged.append(condition)
                looked.append((t, run.grads[k]._spec if k in run.grads else None))
        unchanged.append("holds()")
        self.conditions.append(self._unchanged(unchanged, looked))
        if numbers is not None:
            self.names["math"] = math
            self.names |= numbers.names
            self.conditions += numbers.conditions
            if numbers.texts:
                self.conditions.append(f"(numbers := ({_row([*numbers.texts])})) is not None")

    def _gradient(self, k: int) -> str:
        """Whether there is one, laid out as it was, if there was one."""
        at = self.tensor(k)
        if k not in self.run.grads:
            return f"({at}._ad is None or {at}._ad.grad is None)"
        self.names[f"s{k}"] = self.run.grads[k]._spec
        return (
            f"{at}._ad is not None and (g{k} := {at}._ad.grad) is not None and g{k}._spec is s{k} and g{k}._node is None"
            f" and type(g{k}) is Tensor"
        )

    def _takes(self, k: int) -> bool:
        """Whether a call needs the gradient itself that was there before."""
        array = capture.root(self.run.grads[k]._buf) if k in self.run.grads else None
        counted = any(j == k and isinstance(grad, int) for j, grad in self.after.grads)
        return counted or any(m.kind == GRAD and m.array is array for m in self.ready.slots)

    def _unchanged(self, conditions: list[str], grads: list[tuple[Tensor, Any]]) -> str:
        """These conditions, which hold where `same` says so."""
        exact, state = _AND.join(conditions), self.state
        if not modes.grad or not state.holds():
            return exact
        usual = [(1, n, getattr(type(modes), n)) for n in _OF_THREAD] + [(2, "on", ())]
        found = swift([line for line, _ in state.lines], state.names, grads, usual)
        if found is None:
            return exact
        self.names |= dict(same=found.same, words=found.words, kept=found.kept)
        quick = "same(words, modes.__dict__, casting.__dict__)"
        if found.rest:
            self.names["rest"] = state.check(found.rest)
            quick += " and rest()"
        return f"({quick} or {exact})"

    # ------------------------------------------------------------ the program

    def plays(self, steps: list[Step]) -> None:
        ready, lines, names = self.ready, self.lines, self.names
        slots, changing = self._slots()
        for k, step in enumerate(steps):
            names[f"ask{k}"] = step.ask
            lines.append(f"ask{k}()")
        names["fits"] = _fits(ready, self.run)
        if changing:
            lines.append(f"if not fits(({', '.join(changing)},)):")
            lines.append("    return eager(*args, **kwargs)")
        early, late = self._memory()
        lines += early
        for k, draw in enumerate(self.run.record.draws):
            names[f"draw{k}"] = draw.again
            lines.append(f"d{k} = draw{k}()")
        if ready.asked:
            names["ask_for"] = ready.ask
            lines.append("ask_for(numbers)")
        arrays = [*[f"f{k}" for k in range(len(ready.fresh))], *slots]
        if any(self.after.forgotten.values()):  # up to where something may refuse, without what is made later
            names["judged"] = ready.judged
            first = [f"f{k}" if not m.late else "none" for k, m in enumerate(ready.fresh)]
            lines.append("none = empty(0, bytes_)")
            lines.append(f"play(({_row([*first, *slots])}), 0, judged)")
            lines += [*late, f"play(({_row(arrays)}), judged)"]
        elif (alone := ready.alone()) is not None:
            names |= dict(play=ready.play, program=alone)
            lines.append(f"play({', '.join(['program, 0, 0', *arrays])})")
        else:
            lines.append(f"play(({_row(arrays)}))")

    def _slots(self) -> tuple[list[str], list[str]]:
        """The arrays that differ from call to call; and of these the ones that somebody else has made."""
        slots, changing = [], []
        for m in self.ready.slots:
            if m.kind == DRAWN:
                slots.append(f"d{m.about}")
                continue
            if m.kind == GIVEN:
                slots.append(f"{self.kind.paths[int(m.about)]}._buf")
            else:
                k = next(k for k, g in self.run.grads.items() if capture.root(g._buf) is m.array)
                slots.append(f"g{k}._buf")
            changing.append(slots[-1])
        return slots, changing

    def _memory(self) -> tuple[list[str], list[str]]:
        """Old gradients are let go and memory is taken, at once; and the same for what waits until nothing may refuse any more."""
        graph = self.ready.graph
        ahead = {id(p.memory) for op in graph.ops[: judged(graph) + 1] for p in op.places()}
        lines: dict[bool, list[str]] = {False: [], True: []}
        for k, late in self.after.forgotten.items():
            lines[late].append(f"g{k} = {self.tensor(k)}._ad.grad = None")
        for k, m in enumerate(self.ready.fresh):
            m.late &= id(m) not in ahead
            lines[m.late].append(f"f{k} = empty({m.nbytes}, bytes_)")
        return lines[False], lines[True]

    # ------------------------------------------------------------ the way back

    def records(self, way: Way, ways: Rehearsal, numbers: Numbers | None) -> str:
        """A node `h`, and the line that gives it the results that it keeps, for when they are made."""
        run, names, known = self.run, self.names, self.after.known
        names["way"] = way.node
        way.slots = []
        kept: list[str] = []
        for m in way.ready.slots:
            if m.kind == INCOMING:
                way.slots.append(-1 - int(m.about))
                continue
            way.slots.append(len(kept))
            where = known[m.about]
            here = self.places.get(id(where))
            kept.append(f"{self.kind.paths[int(where.about)]}._buf" if here is None else here)
        back = {id(p.memory) for op in way.ready.graph.ops for p in op.places()}
        reads = {m.about for m in way.ready.slots if m.kind == SAVED}
        read: list[str] = []
        for k, (t, _) in enumerate(run.tensors):
            own = known.get(capture.address(capture.root(t._buf)))
            if own is not None and (id(own) in back or capture.address(own.array) in reads):
                read.append(self.tensor(k))
        inputs = [self.tensor(k) for k in ways.inputs]
        way.state, way.spots = self.state, [] if numbers is None else [*numbers.spots.values()]
        kept_numbers = [] if numbers is None else [s.text(name) for name, s in numbers.spots.items()]
        call = "None" if way.again else f"(args, kwargs, ({_row(kept_numbers)}))"
        asked = ", numbers" if way.ready.asked else ""
        self.lines.append(f"h = way({call}, ({_row(kept)}), ({_row(read)}), ({_row(inputs)}){asked})")
        self.conditions.append("not stopped.stopped")
        names["stopped"] = way
        names["keeps"] = way.keeps
        outs = [t for t in ways.outs if capture.address(capture.root(t._buf)) in reads]
        return f"keeps(h, ({_row([self.build(t) for t in outs])}))" if outs else ""

    # ------------------------------------------------------------ what it leaves

    def leaves(self) -> None:
        """Gradients, and counts of writes."""
        for k, grad in self.after.grads:
            at = self.tensor(k)
            if isinstance(grad, int):
                self.lines.append(f"count(g{k}, {grad})")
                self.names["count"] = _count
            elif grad is None:
                self.lines.append(f"{at}._ad.grad = None")
            else:
                self.names["keep"] = _keep
                found = self.build(grad)
                self.lines.append(f"keep({at}, {found})" if self.is_given(k) else f"{at}._ad.grad = {found}")
        for k, by in self.after.counts:
            self.names["count"] = _count
            at = self.tensor(k)
            self.lines.append(f"count({at}, {by})" if self.is_given(k) else f"{at}._storage.version += {by}")

    def result(self, value: Any) -> str:
        names = self.names
        if isinstance(value, Tensor):
            owned = self.after.owned.get(id(value))
            return self.build(value) if owned is None else self.tensor(owned)
        if (found := inside(value)) is not None:
            return made_again(value, [*map(self.result, found)], names)
        if type(value) is Number:
            return value.text
        names[f"v{len(names)}"] = value
        return f"v{len(names) - 1}"

    def build(self, t: Tensor) -> str:
        """Lines that make a tensor over what the program wrote, or over what was there before."""
        if id(t) in self.built:
            return self.built[id(t)]
        r = self.built[id(t)] = f"r{len(self.built)}"
        self.names[f"{r}s"] = t._spec
        if id(t) in self.after.of:
            self._view(t, r, self.after.of[id(t)])
        else:
            self._tensor(t, r)
        return r

    def _tensor(self, t: Tensor, r: str) -> None:
        array = capture.root(t._buf)
        base = capture.address(array)
        memory = self.after.known[base]
        f, offset = self.places[id(memory)], capture.address(t._buf) - memory.address
        node = self.after.live.get(id(t))
        self.lines += [
            f"{r} = new(Tensor)",
            f"{r}._buf = {f}{_from(offset)}",
            f"{r}._spec = {r}s",
            f"{r}._rg, {r}._nr = {int(requires(t))}, {t._nr if node is None else node}",
            f"{r}._view = {r}._ad = None",
        ]
        if id(t) in self.after.bases and t._view is not None:
            self.names["view_of"] = view_of
            whole = self.build(self.after.bases[id(t)])
            self.lines.append(f"{r} = view_of({whole}, {r}._buf, {r}s, {t._view.created!r})")
            return
        if node is not None:
            self.lines.append(f"{r}._node = h")
        elif t._node is None:
            self.lines.append(f"{r}._node = None")
        else:
            self.names[f"{r}n"] = t._node
            self.lines.append(f"{r}._node = {r}n")
        if t._storage is None and self.shares[base] == 1 and not offset:
            self.lines.append(f"{r}._storage = None")
            return
        if base not in self.storages:
            self.storages[base] = f"{r}m"
            self.lines += [f"{r}m = Storage({f})", f"{r}m.version = {version(t)}"]
        self.lines.append(f"{r}._storage = {self.storages[base]}")

    def _view(self, t: Tensor, r: str, k: int) -> None:
        at, offset = self.tensor(k), capture.address(t._buf) - capture.address(self.run.tensors[k][0]._buf)
        self.names |= dict(view_of=view_of, wrap=wrap, storage_of=storage_of)
        memory = f"{at}._buf{_from(offset)}"
        if t._view is None:
            self.lines += [
                f"{r} = wrap({memory}, {r}s)",
                f"{r}._storage = storage_of({at})",
                f"{r}._rg = {t._rg}",
            ]
            return
        self.lines.append(f"{r} = view_of({at}, {memory}, {r}s, {t._view.created!r})")
        if id(t) in self.after.live:
            self.lines.append(f"{r}._node, {r}._nr = h, {self.after.live[id(t)]}")

    # ------------------------------------------------------------ all of it

    def made(self) -> Any:
        source = f"""def run(args, kwargs, {", ".join(f"{n}={n}" for n in self.names)}):
    try:
        if not (
            {_AND.join(self.conditions)}
        ):
            return run
    except (AttributeError, KeyError, IndexError, ValueError, TypeError, ArithmeticError):
        return run
    {self._turn()}
"""
        scope = dict(self.names)
        exec(compile(source, "<a call of nbgrad.compile>", "exec"), scope)
        scope["run"].text = source
        return scope["run"]

    def _turn(self) -> str:
        """The lines, of which one thread at a time takes its turn; the others do as the function does."""
        if self.ready.kept_by_lock():  # Python's own
            return "\n    ".join(self.lines)
        body = "\n        ".join([line for text in self.lines for line in text.splitlines()])
        turn = f"""if locked():
        return eager(*args, **kwargs)
    with lock:  # whatever interrupts, it is given back
        {body}"""
        if not self.ready.clean or self.run.record.draws:
            return turn
        self.names["Unsaid"] = Unsaid
        inner = turn.replace("\n", "\n    ")
        return f"""try:
        {inner}
    except Unsaid as error:
        if not error.clean:
            raise
    return eager(*args, **kwargs)"""


def _row(texts: list[str]) -> str:
    return "".join([f"{t}, " for t in texts])


def _from(offset: int) -> str:
    return f"[{offset}:]" if offset else ""


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
