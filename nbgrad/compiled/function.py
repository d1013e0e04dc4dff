"""What users call: a function that learns its programs by running, and does them again where nothing that they rest on has changed.

Promises `compiled(function, ...)`: the first calls run the function itself; two that did the same make a program, which is tried on the
second one's own inputs, with its memory spoiled, before it is believed. Whatever is not known runs the function.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from nbgrad.amp.autocast_mode import autocast
from nbgrad.base.switches import compiling
from nbgrad.compiled import capture
from nbgrad.compiled.after import After
from nbgrad.compiled.arguments import Kept, Kind
from nbgrad.compiled.call import written
from nbgrad.compiled.capture import recording
from nbgrad.compiled.explain import Entry, Explanation, Progress, explained, say
from nbgrad.compiled.graph import Strange, Unknown
from nbgrad.compiled.history import Way, rehearse, saved_tensors
from nbgrad.compiled.lower import Run, lower
from nbgrad.compiled.making import divide, improved, let_go, save, why_not_again
from nbgrad.compiled.numbers import Leak, Numbers, Spot, lines_of, near, understood
from nbgrad.compiled.parts import Cuts, Where, divided
from nbgrad.compiled.proof import Snapshot, memory_of, nothing_else_lives, prove, tensors_alive, threads
from nbgrad.compiled.state import State, watched
from nbgrad.core.casting import casting
from nbgrad.core.tensor import Tensor
from nbgrad.ops.make.generator import default_generator
from nbgrad.tape.modes import shared
from nbgrad.tape.modes import state as modes

_TRIES = 4  # records of one kind of call until it is given up
_PATIENT = 16  # where other threads may be to blame
_ALONE = 2  # threads, of which one tells how long it takes
LIMIT = 8  # programs of one function


def _sparse_gradient(t: Tensor) -> bool:
    """Which has no memory of its own that a program could hold."""
    grad = t._ad.grad if t._ad is not None else None
    return grad is not None and type(grad) is not Tensor and grad.is_sparse


class _Seen:
    """A recorded run, kept until the next of its kind."""

    def __init__(self, run: Run, state: State, keep: Any) -> None:
        self.run, self.state, self.keep = run, state, keep


class _Plain:
    """Calls that differ in numbers only: those of the first, which of them have been others, and which are no inputs, and why."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.first = first
        self.changing: set[str] = set()
        self.fixed: set[str] = set()
        self.why = ""
        self.where: Where = []
        self.values: set[Any] = set()


class Compiled:
    """A function that is compiled: call it as the function; `explain()` says what became of it, `graph()` shows its programs, `source()`
    the kernels that they launch.

    >>> import nbgrad
    >>> step = nbgrad.compile(lambda x: (x * 2).sum())
    >>> [step(torch.ones(3)).item() for _ in range(4)]
    [6.0, 6.0, 6.0, 6.0]
    >>> step.explain().graph_count
    1
    """

    _compiled = True

    def __init__(
        self,
        function: Callable[..., Any],
        fullgraph: bool = False,
        limit: int | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        """`cuts` is of the function that it is a piece of."""
        self._function, self._fullgraph, self._limit = function, fullgraph, limit or LIMIT
        self._cuts = cuts or Cuts(lambda piece: Compiled(piece, False, limit, self._cuts))
        self._is_piece = cuts is not None
        self._learning = threading.Lock()
        self.forget()
        functools.update_wrapper(self, function, updated=())
        compiling.every.add(self)

    def forget(self) -> None:
        """Be as new: `torch.compiler.reset`."""
        if not self._is_piece:
            self._cuts.forget()
        self._entries: list[Entry] = []
        self._runs: tuple[Any, ...] = ()
        self._known: dict[Any, list[State]] = {}  # what each kind of call reads, as it has been
        self._seen: dict[Any, _Seen] = {}  # the last call of each kind, also by which leaves had gradients
        self._plain: dict[Any, _Plain] = {}
        self._loose: dict[Any, Spot] = {}  # where numbers are that have been others
        self._fixed: dict[Any, Spot] = {}  # and those that are no inputs
        self._why = ""  # the last reason
        self._tries: dict[Any, int] = {}
        self._reasons: list[str] = []
        self._refused: set[Any] = set()
        self._records = 0
        self._last: Kept | None = None  # the arguments of the call before
        self._given_up = False
        self._warned = False
        self._idle = 0
        self._progress = Progress("")
        self._casting: dict[Any, Compiled] = {}  # the function within autocast, by its settings
        self._divided: Any = None  # what is done in its place, if it was cut

    def stand(self) -> None:
        """Do what the stance says from now on."""
        self._runs = () if compiling.stance == "force_eager" else tuple([e.call for e in self._entries])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for run in self._runs:
            got = run(args, kwargs)
            if got is not run:
                return got
        return self._learn(args, kwargs)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self._function, '__qualname__', self._function)}>"

    def __reduce__(self) -> Any:
        """A copy learns for itself."""
        return Compiled, (self._function, self._fullgraph, self._limit)

    def _learn(self, args: Any, kwargs: Any) -> Any:
        function, stance = self._function, compiling.stance
        if stance == "force_eager":
            return function(*args, **kwargs)
        if casting.on == ("cpu",) and not recording.on:
            return self._within_casts(args, kwargs)
        if self._divided is not None and not recording.on:
            return self._divided(*args, **kwargs)
        if (
            self._given_up
            or casting.on
            or recording.on
            or sys.getprofile() is not None
            or stance == "eager_on_recompile"
        ):
            return function(*args, **kwargs)
        if not self._learning.acquire(False):
            threads.let_learn()
            return function(*args, **kwargs)
        try:
            kind = self._kind(args, kwargs)
            if stance == "fail_on_recompile" and kind.tensors:
                raise RuntimeError(_detected(function))
            if kind.mapped or kind.key in self._refused:
                return function(*args, **kwargs)
            if kind.unknown:
                self._refuse(kind, kind.unknown, True, kind.where)
                return function(*args, **kwargs)
            with Progress(getattr(function, "__qualname__", type(function).__name__)) as self._progress:
                return self._recorded(kind, args, kwargs)
        except KeyboardInterrupt:
            self._records -= 1  # which says nothing of the function
            raise
        finally:
            threads.go_on(self)
            self._learning.release()

    def _within_casts(self, args: Any, kwargs: Any) -> Any:
        """A call within `autocast`: that of a function which enters it itself."""
        settings = casting.dtypes["cpu"], casting.caching
        cast = self._casting.get(settings)
        if cast is None:
            function = partial(_cast, *settings, self._function)
            cuts = None if self._fullgraph else self._cuts
            cast = self._casting[settings] = Compiled(function, self._fullgraph, self._limit, cuts)
            self._cuts.parts.append(cast)
        held, casting.on = casting.on, ()
        try:
            return cast(*args, **kwargs)
        finally:
            casting.on = held

    def _kind(self, args: Any, kwargs: Any) -> Kind:
        """Numbers that are others than in the first call of the kind are inputs, if they can be."""
        kind = Kind(args, kwargs)
        if not kind.plain:
            return kind
        learnt = self._plain.setdefault(kind.loose(), _Plain(kind.plain))
        learnt.changing |= {p for p, v in kind.plain.items() if v != learnt.first[p]}
        paths = frozenset(p for p in learnt.changing - learnt.fixed if near(kind.plain[p]))
        if paths:
            kind = Kind(args, kwargs, paths)
        if learnt.fixed:
            values = tuple([kind.plain[p] for p in sorted(learnt.fixed)])
            learnt.values.add(values)
            if len(learnt.values) > LIMIT and kind.key not in self._known:
                names = ", ".join(f"`{p}`" for p in sorted(learnt.fixed))
                kind.unknown = f"{names} keeps changing, and is no input: {learnt.why}"
                kind.where = learnt.where
        return kind

    def _state_of(self, kind: Kind) -> State | None:
        """What is known of such a call, where Python's state is as it was then. Numbers that are others than then are inputs from now on,
        if they can be."""
        every = self._known.get(kind.key, [])
        for known in every:
            try:
                if known.check()():
                    return known
            except Exception:  # an attribute that is no more
                continue
        for known in every:
            moved = [spot for spot in known.moved() if spot.identity not in self._fixed]
            if not moved:
                continue
            self._loose.update({spot.identity: spot for spot in moved})
            self._known.pop(kind.key, None)
        return None

    def _wanders(self, kind: Kind) -> str:
        """What is another at each call, where no two calls of the kind found Python's state alike."""
        made = {e.state.line for e in self._entries}
        lost = [known for known in self._known.get(kind.key, ()) if known.line not in made]
        return lost[0].changed() if len(lost) >= (2 if self._is_piece else _TRIES) else ""

    def _keep(self, kind: Kind, known: State | None, state: State) -> None:
        """`state` is what is known from now on, in the place of `known`."""
        every = self._known.setdefault(kind.key, [])
        if known is not None:
            every[:] = [s for s in every if s is not known]
        every.insert(0, state)
        del every[LIMIT:]

    def _watched(self, kind: Kind, record: capture.Record) -> State:
        return watched(
            self._function, [*kind.objects], record.codes, record.backwards > 0, self._loose.keys()
        )

    def _behind(self, kind: Kind, record: capture.Record) -> State | None:
        """What the user's own code reads when a backward calls it, which may be another by then."""
        if not record.late:
            return None
        state = watched(self._function, [*kind.objects], record.late, False, (), record.codes)
        for spot, _ in state.spots.values():
            if spot.identity in self._loose:
                raise Unknown(
                    f"a backward through its results reads `{spot.path}`, which is another at each call"
                )
        return state if state.lines else None

    def _refuse(
        self, kind: Kind, why: str, for_good: bool, where: Where | None, strange: bool = False
    ) -> None:
        """`where` are the lines to cut at; None where no cut would help. What is `strange` another thread may have done."""
        again = self._is_piece and why == self._why  # a piece may be cut as well at once
        self._why = why
        self._tries[kind.key] = tries = self._tries.get(kind.key, 0) + (_TRIES if for_good or again else 1)
        say(f"{self!r}: {why}")
        others = strange and threading.active_count() > _ALONE
        if tries < (_PATIENT if others else _TRIES):
            return
        if why not in self._reasons:
            self._reasons.append(why)
        self._seen.clear()
        self._refused.add(kind.key)
        self._given_up = len(self._refused) > 2 or self._records > _TRIES * LIMIT
        if self._fullgraph:
            raise Unsupported(why)
        self._divided = None if where is None else divided(self._function, where, why, self._cuts)
        if self._divided is not None:
            return
        self._given_up |= where is None
        self._given_up |= self._is_piece
        if not self._warned and not self._is_piece:
            self._warned = True
            name = getattr(self._function, "__qualname__", repr(self._function))
            kept = " where it has no program" if self._entries else ""
            warnings.warn(f"nbgrad.compile runs `{name}` as it is{kept}: {why}", stacklevel=5)

    def _recorded(self, kind: Kind, args: Any, kwargs: Any) -> Any:
        function = self._function
        self._records += 1
        if len(self._entries) >= self._limit or self._records > _TRIES * LIMIT:
            made, (what, told) = len(self._entries), self._changed(kind)
            enough = f"{made} programs are not enough" if made else f"{self._records} calls made no program"
            self._records += _TRIES * LIMIT
            self._refuse(kind, f"{enough}: {what} keeps changing", True, None if told else [])
            return function(*args, **kwargs)
        self._last = Kept(kind)
        known = self._state_of(kind)
        if known is None and (changed := self._wanders(kind)):
            self._refuse(kind, f"`{changed}` is not as it was before the call", True, [])
            return function(*args, **kwargs)
        values = known.values() if known is not None else []
        before: list[tuple[Tensor, str]] = [*zip(kind.tensors, kind.paths)]
        if known is not None:
            given = {id(t) for t, _ in before}
            named = [p for t, p in known.tensors.values() if id(t) in given]
            if named:  # with another argument it would be another tensor
                self._refuse(kind, f"an argument is `{named[0]}`, too", False, [])
                return function(*args, **kwargs)
            before += [(t, p) for t, p in known.tensors.values() if id(t) not in given]
        has_grads = tuple([t._ad is not None and t._ad.grad is not None for t, _ in before])
        if sparse := next((p for t, p in before if _sparse_gradient(t)), ""):
            self._refuse(kind, f"the gradient of `{sparse}` is sparse", True, [])
            return function(*args, **kwargs)
        line = known.line if known is not None else State.fresh()
        key: Any = kind.key, line, has_grads
        seen = (self._seen.get(key) or self._seen.get((kind.key, line, None))) if known is not None else None
        if seen is not None and seen.run.record.refusal:
            seen = None  # it was made to forget
        with_others = known is not None and bool(kind.numbers or known.loose)
        again = seen is not None or with_others
        if again:
            threads.halt(self)
        snapshot = Snapshot([t for t, _ in before]) if again else None
        tensors = tensors_alive() if seen is not None else []
        alive = {id(t): weakref.ref(t) for t in tensors}
        memory = memory_of(tensors)
        del tensors
        grads = {
            k: t._ad.grad for k, (t, _) in enumerate(before) if t._ad is not None and t._ad.grad is not None
        }
        idle = [t for t, _ in before if _idle(t)] if with_others else []
        as_it_was = _modes()
        recording.on += 1
        try:
            result, record = capture.record(
                lambda: function(*args, **kwargs),
                None if known is None or not modes.grad else lambda result: _rehearsed(result, before),
            )
        finally:
            recording.on -= 1
        where: Where = []
        try:
            if record.refusal:
                where = record.where
                raise Unknown(record.refusal)
            if self._is_piece and not record.draws and not record.grads and record.gains_little():
                self._idle += 1
                self._given_up = self._idle > 2  # what launches nothing gains nothing
                return result
            if isinstance(record.behind, Unknown):
                raise record.behind
            if _modes() != as_it_was:
                raise Unknown("a mode is another after the call than before it")
            if changed := kind.changed(Kind(args, kwargs, kind.numbers)):
                of = f"`{changed}` is not as it was before the call: " if "." in changed else ""
                raise Unknown(f"{of}the call changes what it is given")
            if record.backwards and (kind.linked or kind.hooked):
                where = record.went_back
                raise Unknown(
                    f"`{(kind.linked or kind.hooked)[0]}` has a history, or hooks, and the call does a backward"
                )
            state = self._watched(kind, record)
            state.line = line
            if not (record.grads or record.optimizers or "grad" in state.used):
                key = kind.key, line, None
            else:
                record.grads = True
            if any(all(o is not known for known in state.optimizers) for o, *_ in record.optimizers):
                raise Unknown("an optimizer is stepped that no name leads to")
            if seen is not None and not seen.state.check()():
                changed = seen.state.changed()
                self._keep(kind, known, state)
                self._seen[key] = _Seen(Run(record, kind.tensors, grads, before), state, result)
                raise Unknown(f"`{changed}` is not as it was before the call")
            run = Run(record, kind.tensors, grads, before)
            if known is None or {id(t) for t, _ in before} != {*map(id, kind.tensors), *state.tensors}:
                self._keep(kind, known, state)
                if known is not None and not known.check()():
                    raise Unknown(f"`{known.changed()}` is not as it was before the call")
                return result
            if (now := known.values()) != values:
                self._keep(kind, known, state)
                spot = next(s for s, a, b in zip(known.loose.values(), values, now) if a != b)
                raise Unknown(f"`{spot.path}` is not as it was before the call")
            if with_others and snapshot is not None:
                if not known.check()():
                    self._keep(kind, known, state)
                    raise Unknown(f"`{known.changed()}` is not as it was before the call")
                self._with_others(kind, _Seen(run, state, result), (args, kwargs), before, snapshot, idle)
                return result
            self._keep(kind, known, state)
            self._seen[key] = _Seen(run, state, result)
            if seen is None or snapshot is None:
                return result
            self._make(kind, seen, run, state, snapshot, result, alive, memory)
            for each in (key, (kind.key, line, None)):
                self._seen.pop(each, None)
        except Unknown as error:
            self._refuse(kind, str(error), bool(where), where, isinstance(error, Strange))
        return result

    def _with_others(
        self,
        kind: Kind,
        seen: _Seen,
        call: tuple[Any, Any],
        before: list[tuple[Tensor, str]],
        snapshot: Snapshot,
        idle: list[Tensor],
    ) -> None:
        """Do the call once more from where it began, with other numbers, which tell what becomes of them; what that leaves is undone.
        `idle` are leaves that no graph had when it began: by that the engine chooses when their gradients are added."""
        spots = [*seen.state.loose.values()]
        numbers = Numbers(*call, sorted(kind.numbers), spots)
        after = Snapshot([t for t, _ in before])
        stream = default_generator.get_state()
        where: Where = []
        why = looked = ""
        sinks = [(t._ad, t._ad.sink) for t in idle if t._ad is not None]
        try:
            if not seen.state.check()():
                raise Unknown(f"`{seen.state.changed()}` is not as it was before the call")
            if not all(draw.usual() for draw in seen.run.record.draws):
                raise Unknown("it draws from a generator of its own")
            snapshot.rewind()
            for ad, _ in sinks:
                ad.sink = None
            args, kwargs = numbers.given()
            gc.collect()  # what is freed meanwhile would be taken for memory that somebody has
            tensors = tensors_alive()
            alive, memory = {id(t): weakref.ref(t) for t in tensors}, memory_of(tensors)
            del tensors
            grads = {
                k: t._ad.grad
                for k, (t, _) in enumerate(before)
                if t._ad is not None and t._ad.grad is not None
            }
            recording.on += 1
            try:
                with numbers.watched():
                    result, record = capture.record(
                        lambda: self._function(*args, **kwargs),
                        (lambda result: _rehearsed(result, before)) if modes.grad else None,
                    )
            finally:
                recording.on -= 1
            if record.refusal or isinstance(record.behind, Unknown):
                raise Unknown(record.refusal or str(record.behind))
            mine = Kind(args, kwargs, kind.numbers)
            numbers.told()
            state = self._watched(mine, record)
            state.line = seen.state.line
            if state.loose.keys() != seen.state.loose.keys():
                raise Unknown("other numbers are read where they are others")
            understood(record.codes, state.seen())
            record.grads = seen.run.record.grads
            run = Run(record, mine.tensors, grads, before)
            self._make(mine, seen, run, state, snapshot, result, alive, memory, numbers)
        except Leak as error:
            why, where, looked = str(error), lines_of(error), error.text
        except Exception as error:
            why = f"{type(error).__name__}: {error}" if not isinstance(error, Unknown) else str(error)
        finally:
            numbers.put_back()
            for ad, sink in sinks:
                ad.sink = sink
            after.rewind()
            default_generator.set_state(stream)
        if why:
            self._are_none(kind, call, numbers, why, where, looked)

    def _are_none(self, kind: Kind, call: Any, numbers: Numbers, why: str, where: Where, looked: str) -> None:
        """The number that is `looked` at is no input, or none of them is."""
        paths = {p for p in kind.numbers if p in looked}
        spots = {s.identity: s for name, s in numbers.spots.items() if s.text(name) in looked}
        if not paths and not spots:
            paths, spots = set(kind.numbers), {s.identity: s for s in numbers.spots.values()}
        named = [*paths, *[s.path for s in spots.values()]]
        say(f"{self!r}: {', '.join([f'`{n}`' for n in named])} cannot be an input, as {why}")
        if paths:
            learnt = self._plain[Kind(*call).loose()]
            learnt.fixed |= paths
            learnt.why, learnt.where = why, where
        self._fixed.update(spots)
        self._loose = {k: s for k, s in self._loose.items() if k not in spots}
        if spots:
            self._known.pop(kind.key, None)

    def _changed(self, kind: Kind) -> tuple[str, bool]:
        """What is another than it was, and whether that is an argument."""
        found = [e.state.changed() for e in self._entries if not e.holds()]
        if found:
            return f"`{found[-1]}`", False
        others = [*[e.kind for e in self._entries], *([self._last] if self._last is not None else [])]
        told = [kind.told_from(other.leaves) for other in reversed(others) if other.key != kind.key]
        return next(filter(None, told), "the kind of the arguments"), any(told)

    def _make(
        self,
        kind: Kind,
        seen: _Seen,
        run: Run,
        state: State,
        snapshot: Snapshot,
        result: Any,
        alive: dict[int, Any],
        memory: set[int],
        numbers: Numbers | None = None,
    ) -> None:
        if {t for t, _ in run.tensors} != {
            t for t, _ in [*zip(kind.tensors, kind.paths), *state.tensors.values()]
        }:
            raise Unknown("what can be reached by names differs from call to call")
        name = getattr(self._function, "__name__", type(self._function).__name__)
        graph, steps, known = lower(name, seen.run, run, memory, memory_of(tensors_alive()), numbers)
        lasting = {id(v) for v in state.seen()} | {id(c) for c in kind.containers}
        self._progress.making = len(graph.ops)
        after = After(run, snapshot, result, known, lasting, graph)
        _nothing_is_kept(after, alive, seen.run, run)
        threads.go_on(self)
        late = self._behind(kind, run.record)
        way = back = None
        if run.record.behind is not None:
            graph, backward = divide(graph, run, known)
            back = improved(backward, lambda ready: prove(ready, snapshot, run, [], True))
            save(back.ready, known)
            way = Way(name, self._function, run.record.behind, back.ready, why_not_again(graph, run))
            way.place(run.record.behind, known)
            way.late = late
        entry = improved(graph, lambda ready: prove(ready, snapshot, run, steps))
        entry.call = written(after, entry.ready, steps, state, kind, self._function, way, numbers)
        entry.kind, entry.state, entry.back = Kept(kind), state, back
        for e in (entry, back):
            if e is not None:
                let_go(e.graph, e.eager)
        self._entries.append(entry)
        self.stand()
        say(f"{self!r}: {len(entry.eager.ops)} launches became {len(graph.ops)}")

    # -- what users ask -----------------------------------------------------------------------------------------------

    def warm(self, *args: Any, **kwargs: Any) -> Compiled:
        """Run the function on these arguments until it is compiled for them. What it changes is changed as often."""
        for _ in range(2 * _TRIES):
            key = self._kind(args, kwargs).key
            if self._given_up or any(e.kind.key == key and e.holds() for e in self._entries):
                break
            self(*args, **kwargs)
        return self

    def _all(self) -> list[Entry]:
        every = [self, *self._cuts.parts] if not self._is_piece else [self]
        return [e for c in every for entry in c._entries for e in (entry, entry.back) if e is not None]

    def graph(self) -> str:
        """The programs as text."""
        return "\n\n".join([str(e.graph) for e in self._all()])

    def source(self) -> str:
        """The kernels that the programs launch, as they were compiled."""
        from nbgrad.compiled.graph import addresses, kernel_at

        every = dict.fromkeys(a for e in self._all() for a in addresses(e.graph))
        return "\n\n".join([kernel_at(a).source for a in every])

    def explain(self) -> Explanation:
        """Which programs there are, what the passes did, and why calls are left to the function, or it was cut."""
        every = [self, *self._cuts.parts] if not self._is_piece else [self]
        return explained([e for c in every for e in c._entries], [why for c in every for why in c._reasons])


def _modes() -> tuple[Any, ...]:
    """What of this thread, and what of all, is switched."""
    return modes.grad, modes.modes, modes.levels, modes.transforms, shared.anomaly


def _idle(t: Tensor) -> bool:
    """Whether no graph has the leaf's sink, whose number is then of the next one."""
    ad = t._ad
    return ad is None or ad.sink is None or (not ad.sink.hooked and sys.getrefcount(ad.sink) == 2)


def _cast(dtype: Any, caching: bool, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call within autocast, which casts parameters for itself: what is cast around it no program finds by a name."""
    held, casting.cache = casting.cache, {}
    try:
        with autocast("cpu", dtype, cache_enabled=caching):
            return function(*args, **kwargs)
    finally:
        casting.cache = held


def _detected(function: Callable[..., Any]) -> str:
    """PyTorch's words where a stance says that nothing is to be compiled any more."""
    plain: Any = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    told = (
        f"filename: '{code.co_filename}', function name: '{code.co_name}', line number: {code.co_firstlineno}"
        if code is not None
        else f"function name: '{type(function).__name__}'"
    )
    return f"Detected recompile when torch.compile stance is 'fail_on_recompile'. {told}"


def _rehearsed(result: Any, before: list[tuple[Tensor, str]]) -> Any:
    try:
        return rehearse(result, [t for t, _ in before])
    except Unknown as error:
        return error
    except Exception as error:  # as it will when the user asks for it
        return Unknown(f"a backward through its results fails: {error}")


def _nothing_is_kept(after: After, alive: dict[int, Any], *runs: Run) -> None:
    """What the calls have made lives by their results alone."""
    own, known = list(after.leaves), set()
    for run in runs:
        for draw in run.record.draws:
            known |= draw.tensors()
        if run.record.behind is not None:
            own += [t for t in [*run.record.behind.incoming, *run.record.behind.grads] if t is not None]
    if after.ways is not None:
        known |= saved_tensors(after.ways.outs)
    known |= {id(t) for t in own} | {id(t._view.base) for t in own if t._view is not None}
    nothing_else_lives(alive, known)


class Unsupported(RuntimeError):
    """With `fullgraph=True`: why the function cannot be compiled whole."""
