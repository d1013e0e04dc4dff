"""Loops: what one goes over, and which names its turns hand on, whose kinds are found by lowering it until they settle."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbgrad.adjoints import arrangements, calls, complexes, exits, keyed, listed, ops
from nbgrad.adjoints.arrangements import turns
from nbgrad.adjoints.build import (
    Elementwise,
    Items,
    Keys,
    Listed,
    Object,
    Value,
    holds_array,
    is_array,
    is_complex,
    leaves,
)
from nbgrad.adjoints.expressions import Expressions
from nbgrad.adjoints.firsts import Hope, Longer, Wider, zero
from nbgrad.adjoints.ir import (
    ONE,
    ZERO,
    Apply,
    Array,
    At,
    Const,
    Expr,
    Extent,
    Load,
    Loop,
    Make,
    Name,
    Refused,
    Span,
    View,
    const,
    is_leaf,
    kind_of,
    loads,
    reads,
    statements,
    whole,
    writes,
)
from nbgrad.adjoints.listed import new_room
from nbgrad.adjoints.room import OUTER, SEQUENCE, Env, Turn
from nbgrad.kernels import functions

_RISES = 12  # how often a loop is lowered again: each time a carried name has become more


@dataclass(eq=False)
class Growing:
    """An array that turns make longer or shorter: its numbers stand in room that grows, its lengths are handed on."""

    room: View
    first: list[Expr]
    heads: list[str] = field(default_factory=list)
    last: list[Expr] = field(default_factory=list)


class Kinds(tuple[Any, ...]):
    """Those of a tuple's parts, and what it is one of."""

    of: Any

    def __new__(cls, parts: Iterable[Any], of: Any) -> Kinds:
        made = super().__new__(cls, parts)
        made.of = of
        return made

    def __eq__(self, other: object) -> bool:
        alike = isinstance(other, Kinds) and super().__eq__(other)
        return alike and keyed.marks_of(self.of) == keyed.marks_of(other.of)  # type: ignore[attr-defined]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


_FEW_TURNS = 64  # that are written out


def _names(e: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(e) if isinstance(n, ast.Name)}


class Loops(Expressions):
    def on_While(self, s: ast.While, env: Env) -> None:
        if s.orelse:
            self.refuse("else after a loop", "set a name before break")
        self.loop(s, env, None)

    def on_For(self, s: ast.For, env: Env) -> None:
        self.turns_of(s, env)
        env.pop(f"{SEQUENCE}{id(s)}", None)

    def turns_of(self, s: ast.For, env: Env) -> None:
        if s.orelse:
            self.refuse("else after a loop", "set a name before break")
        of = self.goes_over(s.iter, env)
        parallel = of is functions.prange or (
            of is not None and of is getattr(sys.modules.get("numba"), "prange", None)
        )
        if parallel:
            of = range
        if of is reversed and isinstance(s.iter, ast.Call):
            inner = s.iter.args[0]
            if isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "range":
                start, step, count = self.range_of(inner.args, env)
                start = self.whole("add", start, self.whole("mul", self.whole("sub", count, ONE), step))
                self.counted_loop(s, env, start, self.binary("mul", step, const(-1)), count)
                return
            x = self.value(inner, env) if not isinstance(inner, ast.Call) else None
            if isinstance(x, Items) and x.of is not complex and self.as_array(x) is x:
                self.unrolled(s, x.items[::-1], env)
                return
            count, at = self.rows(s.iter, s, env)
            self.loop(s, env, (ZERO, 1, count, lambda i, e: self.bind_anew(s.target, at(i), e)))
            return
        if of is range and isinstance(s.iter, ast.Call):
            start, step, count = self.range_of(s.iter.args, env)
            if (
                isinstance(start, Const)
                and isinstance(count, Const)
                and isinstance(step, Const)
                and (
                    getattr(s, "by_keys", False)
                    or (count.value <= _FEW_TURNS and not exits.flag_of(s) and self.picks(s, env))
                )
            ):
                self.unrolled(s, [const(start.value + k * step.value) for k in range(count.value)], env)
                return
            self.counted_loop(s, env, start, step, count)
            made = self.block[-1]
            made.parallel = parallel and isinstance(made, Loop) and not made.trips
            return
        if of in (np.ndindex, np.ndenumerate) and isinstance(s.iter, ast.Call):
            self.over_places(s, [self.value(a, env) for a in s.iter.args], env)
            return
        if of in (zip, enumerate) and isinstance(s.iter, ast.Call):
            if any(self.goes_over(a, env) in (zip, enumerate, range, reversed) for a in s.iter.args):
                count, at = self.rows(s.iter, s, env)
                self.loop(s, env, (ZERO, 1, count, lambda i, e: self.bind_anew(s.target, at(i), e)))
                return
            sequences = [keyed.over(self, self.value(a, env)) for a in s.iter.args]
            first: Expr = ZERO
            if of is enumerate and (len(sequences) > 1 or s.iter.keywords):
                given = sequences[1] if len(sequences) > 1 else self.value(s.iter.keywords[0].value, env)
                assert isinstance(given, Expr)
                first, sequences = given, sequences[:1]
            tuples = [q.items for q in sequences if isinstance(q, Items) and q.of is not complex]
            if len(tuples) == len(sequences):
                rows = list(zip(*tuples))
                items = [
                    Items([self.whole("add", first, const(k)), r[0]]) if of is enumerate else Items(list(r))
                    for k, r in enumerate(rows)
                ]
                self.unrolled(s, items, env)
                return
            stored = [self.each_of(self.as_array(q), s, env) for q in sequences]
            count = functools.reduce(self.shorter, [n for n, _ in stored])

            def row(i: Expr) -> Items:
                at = [item(i) for _, item in stored]
                return Items([self.whole("add", first, i), at[0]] if of is enumerate else at)

            self.loop(s, env, (ZERO, 1, count, lambda i, e: self.bind_anew(s.target, row(i), e)))
            return
        x = keyed.over(self, self.value(s.iter, env))
        if exits.flag_of(s):
            x = self.as_array(x)  # it may be left, so that its turns are a loop's
        if isinstance(x, Items) and x.of is not complex:
            self.unrolled(s, x.items, env)
            return
        count, item = self.each_of(x, s, env)
        self.loop(s, env, (ZERO, 1, count, lambda i, e: self.bind_anew(s.target, item(i), e)))

    def each_of(self, x: Value, s: ast.For, env: Env) -> tuple[Expr, Callable[[Expr], Value]]:
        if isinstance(x, Listed):
            return x.count, listed.over(self, x)
        if isinstance(x, Items) and x.of is complex:
            if not complexes.is_complex_array(x):
                self.refuse("a loop over a complex number")
            return complexes.rows(self, x.each(lambda v: self.sequence(v, s, env)))
        v = self.sequence(x, s, env)
        return self.shape(v)[0], lambda i: self.item(v, i, True)

    def over_places(self, s: ast.For, given: Sequence[Value], env: Env) -> None:
        """np.ndindex of a shape, or np.ndenumerate of an array: in the order of the last axis."""
        x = self.sequence(given[0], s, env) if given and is_array(given[0]) else None
        whole = given[0].items if len(given) == 1 and isinstance(given[0], Items) else list(given)
        shape = (
            self.shape(x) if x is not None else [self.counted(n) for n in arrangements.numbers(self, whole)]
        )

        def bind(i: Expr, e: Env) -> None:
            at = arrangements.taken_apart(self, i, shape)
            place = Items(at)
            self.bind_anew(
                s.target, place if x is None else Items([place, self.let("x", self.element(x, at))]), e
            )

        self.loop(s, env, (ZERO, 1, self.counted(arrangements.product_of(self, shape)), bind))

    def goes_over(self, e: ast.expr, env: Env) -> Any:
        """The function of Python's or Numba's that gives what a loop goes over."""
        called = e.func if isinstance(e, ast.Call) else None
        named = isinstance(called, ast.Name) or getattr(called, "attr", "") in (
            "prange",
            "ndindex",
            "ndenumerate",
        )
        known = self.value(called, env) if named and called is not None else None
        return known.value if isinstance(known, Object) else None

    def rows(self, e: ast.expr, s: ast.For, env: Env) -> tuple[Expr, Callable[[Expr], Value]]:
        """How many values there are of what a loop goes over, and each by its place: zip, enumerate and range inside of each other."""
        of = self.goes_over(e, env)
        if of is range and isinstance(e, ast.Call):
            start, step, count = map(self.read_once, self.range_of(e.args, env))
            return count, lambda i: self.whole("add", start, self.whole("mul", i, step))
        if of is reversed and isinstance(e, ast.Call):
            count, item = self.rows(e.args[0], s, env)
            return count, lambda i: item(self.whole("sub", self.whole("sub", count, ONE), i))
        if of is enumerate and isinstance(e, ast.Call):
            given = [*e.args[1:], *[k.value for k in e.keywords]]
            first = self.value(given[0], env) if given else ZERO
            assert isinstance(first, Expr)
            count, item = self.rows(e.args[0], s, env)
            return count, lambda i: Items([self.whole("add", first, i), item(i)])
        if of is zip and isinstance(e, ast.Call):
            parts = [self.rows(a, s, env) for a in e.args]
            count = functools.reduce(self.shorter, [n for n, _ in parts])
            return count, lambda i: Items([item(i) for _, item in parts])
        return self.each_of(self.as_array(keyed.over(self, self.value(e, env))), s, env)

    def counted_loop(self, s: ast.For, env: Env, start: Expr, step: Expr, count: Expr) -> None:
        if isinstance(step, Const):
            self.loop(s, env, (start, step.value, count, lambda i, e: self.bind_anew(s.target, i, e)))
            return
        start, by = self.read_once(start), self.read_once(step)

        def bind(i: Expr, e: Env) -> None:
            self.bind_anew(s.target, self.whole("add", start, self.whole("mul", i, by)), e)

        self.loop(s, env, (ZERO, 1, count, bind))

    def as_array(self, x: Value) -> Value:
        """A tuple of numbers beside arrays, whose turns are a loop's."""
        alike = isinstance(x, Items) and x.of is not complex and x.items
        numbers = isinstance(x, Items) and alike and all(isinstance(i, Expr) for i in x.items)
        return calls.call(self, "array", [x], {}, None) if numbers else x

    def shorter(self, a: Expr, b: Expr) -> Expr:
        if self.root(a) == self.root(b):
            return a
        return self.let("n", Apply("min", (a, b)))

    def sequence(self, x: Value, s: ast.For, env: Env) -> View:
        """What a loop goes over; where the body binds its name anew, as it was before."""
        if isinstance(x, Elementwise):
            x = self.stored(x)
        if not isinstance(x, View):
            self.refuse("a loop over something else than a range, an array or a tuple")
        if any(x.base in self.all_bases(env[n]) for n in exits.bound(s.body) if n in env):
            x = self.copy_of(x, x.base)
        elif not any(x.base in pair for pair in self.twins):
            return x  # and what is written to it meanwhile is seen
        held = env.get(f"{SEQUENCE}{id(s)}", Items([]))
        env[f"{SEQUENCE}{id(s)}"] = Items([*held.items, x])  # the loop reads it as long as it goes on
        return x

    def picks(self, s: ast.For, env: Env) -> bool:
        """Does the counter name an array in a tuple, or in a list that was given? It is another in each turn."""
        for n in ast.walk(s):
            if not isinstance(n, ast.Subscript) or ast.unparse(s.target) not in _names(n.slice):
                continue
            field = isinstance(n.value, ast.Attribute)
            of = n.value.value if isinstance(n.value, ast.Attribute) else n.value
            x = env.get(of.id) if isinstance(of, ast.Name) else None
            if field and isinstance(x, Items) and x.fields:
                x = self.value(n.value, env)
            if isinstance(x, Items) and x.of is not complex and holds_array(x):
                return True
        return False

    def unrolled(self, s: ast.For, items: Sequence[Value], env: Env) -> None:
        if exits.flag_of(s):
            self.refuse("break or return in a loop over a tuple", "index an array")
        for x in items:
            self.bind_anew(s.target, x, env)
            self.statements(s.body, env)

    def range_of(self, args: Sequence[ast.expr], env: Env) -> tuple[Expr, Expr, Expr]:
        given = [self.settled(self.integer(a, env)) for a in args]
        start, stop = (ZERO, given[0]) if len(given) == 1 else (given[0], given[1])
        step = given[2] if len(given) == 3 else ONE
        if step == ZERO:
            self.refuse("a range whose step is 0")
        return start, step, turns(self, start, stop, step)

    def item(self, v: View, i: Expr, loaded: bool = False) -> Value:
        """v[i], i being in range; a name for a number where it is to be bound."""
        axis, rest = v.order[0], v.order[1:]
        span = v.axes[axis]
        assert isinstance(span, Span)
        at = self.whole("add", span.low, self.whole("mul", i, const(span.step)))
        axes = (*v.axes[:axis], At(at), *v.axes[axis + 1 :])
        if rest:
            return View(v.base, axes, rest)
        at_all = Load(v.base, tuple(a.index for a in axes if isinstance(a, At)))
        return self.let("x", at_all) if loaded else at_all

    # ------------------------------------------------ turns

    def loop(
        self, s: Any, env: Env, counted: tuple[Expr, int, Expr, Callable[[Expr, Env], None]] | None
    ) -> None:
        loop = Loop([], [])
        targets: list[str] = []
        if counted is not None:
            start, loop.step, count, bind = counted
            loop.start = start if is_leaf(start) or isinstance(start, Extent) else self.let("low", start)
            loop.count = self.counted(count)
            targets = exits.assigned([ast.Assign([s.target], ast.Constant(0))])
            turn = Turn(s.body)
        else:
            turn = Turn([ast.Expr(s.test), *s.body])
        flag = exits.flag_of(s)
        later = set().union(*(exits.read_first(rest)[0] for rest in self.following))
        needed = later | (exits.read_first(turn)[0] - set(targets))
        set_inside = [n for n in dict.fromkeys([*exits.assigned(s.body), *targets]) if n != flag]
        # What is set before it is read, and not read when the loop is over, is each turn's own.
        kept = [n for n in set_inside if n in needed or exits.is_own(n)]
        self.own([n for n in [*exits.bound(s.body), *targets] if n in kept], env)
        outer = {n: x for n, x in env.items() if n in kept or n not in set_inside}
        carried = [n for n in kept if isinstance(env.get(n), Expr | Items)]
        carried += [n for n in kept if n not in env]
        kinds: dict[str, Any] = {n: self.kinds_of(env.get(n)) for n in carried}
        hopeful = True  # that carried integers that are not negative stay so
        program, before, hoped = self.program, self.twins, self.hoped
        state = self.state()
        twins = before
        parted: list[str] = []  # tuples whose arrays turns bind anew
        growing: dict[str, Growing] = {}  # arrays that turns make longer or shorter
        for _ in range(_RISES):
            self.twins = twins
            place = self.position()
            around, self.block = self.block, []
            inner: Env = {**outer, OUTER: {*outer} - growing.keys()}
            heads: dict[str, Any] = {}
            for n, g in growing.items():
                inner[n] = self.begun(n, g)
                if counted is not None:
                    inner[n] = self.read_back(n, g)
            for n in carried:
                if kinds[n] is not None:
                    heads[n] = self.head(n, kinds[n], env.get(n), hopeful)
                    inner[n] = heads[n]
            keys = [(self.frame, n) for n in carried if kinds[n] is None]
            mine = {k: Hope(k, len(self.following) + 2) for k in keys}
            empty = [base for base in self.sites if base in program.arrays and self.array(base).dtype == ""]
            empty = [base for base in empty if (self.frame, base) not in hoped]  # of which a loop around asks
            mine |= {(self.frame, base): Hope((self.frame, base), -1) for base in empty}
            self.hoped = hoped | mine
            if flag:
                inner[flag] = const(False)
            firsts: dict[str, Value] = {}
            try:
                self.following.append(turn)
                if counted is None:
                    test = self.condition(s.test, inner)
                    self.not_made(test, inner, growing)
                    loop.head, self.block = self.block, []
                    loop.test = test
                    self.nothing_written(loop.head, s.test)
                    inner |= {n: self.read_back(n, g) for n, g in growing.items()}
                else:
                    hint = s.target.id if isinstance(s.target, ast.Name) else "i"
                    loop.var = self.fresh(hint)
                    program.kinds[loop.var] = "int"
                    self.bounded(loop)
                    bind(Name(loop.var), inner)
                self.turning += 1
                self.statements(s.body, inner)
                self.turning -= 1
                self.following.pop()
                for n, g in growing.items():
                    self.ended(n, g, inner[n])
                loop.body, self.block = self.block, around
                for n in carried:
                    x = inner.get(n)
                    if n not in env and isinstance(x, View | Items):
                        firsts[n] = self.blank(n, x, state)
            except Longer as longer:
                here = longer.frame is self.frame and longer.name in kept and longer.name not in growing
                if not here or longer.name in env.get(OUTER, ()):  # of a loop or a branch around as well
                    raise
                made = inner.get(longer.name)
                self.back_to(place)
                dtype = self.dtype(made) if isinstance(made, View) else "float64"
                rank = len(made.order) if isinstance(made, View) else 1
                self.restore(state)
                growing[longer.name] = self.grows(longer.name, env.get(longer.name), dtype, rank)
                carried = [n for n in carried if n not in growing]
                state, twins = self.state(), self.twins
                before = twins
                continue
            again = not self.twins <= twins
            twins = twins | self.twins
            for n in carried:
                x = inner.get(n)
                if x is None or n in firsts:
                    continue
                now = self.kinds_of(x)
                if now is None:
                    self.refuse(f"{n} is a number before or an array in the loop", "use two names")
                rise = now if kinds[n] is None else self.risen(n, kinds[n], now)
                again, kinds[n] = again or rise != kinds[n], rise
            unset = [self.unset.pop(k) for k in keys if k in self.unset]
            for base in [base for base in empty if self.unset.pop((self.frame, base), None) is not None]:
                again = True
                if self.array(base).dtype == "":
                    self.array(base).dtype = "float64"  # nothing is ever pushed
            moved = [n for n in carried if n not in firsts and self.other_arrays(env.get(n), inner.get(n))]
            moved = [n for n in moved if n not in parted]
            again = again or bool(firsts) or bool(moved)
            if unset and not again and not self.unset:
                raise Refused(str(unset[0]))
            if not again and hopeful and not self.still_natural(heads, inner):
                hopeful, again = False, True
            if not again:
                break
            self.restore(state)
            if firsts or unset or moved:
                self.twins = before
                self.own(moved, env, in_tuples=True)
                parted += moved
                twins = before = self.twins
            for n, first in firsts.items():
                env[n] = outer[n] = self.bound(n, first, env)
                kinds[n] = self.kinds_of(env[n])
            if firsts or moved:
                self.own([*firsts], env)
                outer |= {n: env[n] for n in moved}
                carried = [n for n in carried if n not in env or isinstance(env[n], Expr | Items)]
                state = self.state()
        else:
            self.refuse("the kinds of this loop's names do not settle")
        self.twins, self.hoped = twins, hoped
        self.check_views(env, inner, [n for n in kept if n not in growing])
        for n in carried:
            if kinds[n] is not None:
                if kinds[n] == "float" and self.kind(inner[n]) == "int":
                    self.was_float[heads[n].name] = f"{n}, a float before the loop"
                self.carry(loop, n, heads[n], env[n] if n in env else zero(kinds[n]), inner[n], kinds[n])
                env[n] = heads[n]
        if flag and inner[flag] != const(False):
            loop.stopped = inner[flag]
        if counted is None or loop.stopped is not None:
            loop.trips = self.fresh("trips")
            program.kinds[loop.trips] = "int"
            program.natural.add(loop.trips)
        for g in growing.values():
            loop.carried += zip(g.heads, g.first, g.last)
        self.block.append(loop)
        for n, g in growing.items():
            env[n] = self.read_back(n, g)

    def grows(self, name: str, first: Any, dtype: str, rank: int) -> Growing:
        """Room for an array that turns make longer or shorter, with what it is before them; it is empty where it has no value yet."""
        if is_complex(first):
            self.refuse(
                f"{name}, of complex numbers, is made longer or shorter by turns", "an array of full length"
            )
        if first is not None and not isinstance(first, View):
            self.refuse(f"{name} is a number before or an array in the loop", "use two names")
        room = new_room(self, name, dtype if first is None else self.dtype(first))
        self.parted(room.base)
        if first is None:
            return Growing(room, [ZERO] * rank)
        self.lay_out(room, first)
        self.shared(room.base, first.base)
        return Growing(room, [self.counted(self.settled(n)) for n in self.shape(first)])

    def begun(self, name: str, g: Growing) -> View:
        """The array as the test of `while` finds it: in the room, or, of more dimensions than one, by its lengths alone."""
        g.heads = [self.fresh(f"{name}_length") for _ in g.first]
        for head in g.heads:
            self.program.kinds[head] = "int"
            self.program.natural.add(head)
        if len(g.heads) == 1:
            return View(g.room.base, (Span(ZERO, Name(g.heads[0])),), (0,))
        base = self.fresh(name)
        self.program.arrays[base] = Array(len(g.heads), self.dtype(g.room), tuple(map(Name, g.heads)))
        return whole(base, len(g.heads))

    def nothing_written(self, head: list[Any], test: ast.expr) -> None:
        """Refuse a test of `while` that writes numbers to what is there before it: no sweep turns a test round."""
        own = {q.base for q in statements(head) if isinstance(q, Make)} | {*self.draw_rooms.values()}
        for base in {writes(q) for q in statements(head)} - own:
            if base is not None and self.array(base).kind == "float":
                self.refuse(
                    f"the test of a loop writes to {base}", "while True, with the test and break inside", test
                )

    def not_made(self, test: Expr, inner: Env, growing: Iterable[str]) -> None:
        """Refuse a test of `while` that reads of a matrix that turns make longer or shorter."""
        read = {load.base for load in loads(test)} | {
            base for q in statements(self.block) for base in reads(q)
        }
        for n in growing:
            if len(inner[n].order) > 1 and inner[n].base in read:
                self.refuse(
                    f"the test reads {n}, which turns make longer or shorter",
                    "set a name at the end of a turn",
                )

    def read_back(self, name: str, g: Growing) -> View:
        base = self.fresh(name)
        self.program.arrays[base] = Array(len(g.heads), self.dtype(g.room), tuple(map(Name, g.heads)))
        self.parted(base)
        self.shared(base, g.room.base)
        made = whole(base, len(g.heads))
        self.spread(made, g.room)
        return made

    def ended(self, name: str, g: Growing, x: Any) -> None:
        """What a turn leaves of it goes into the room."""
        narrow = isinstance(x, View) and self.dtype(g.room) == "float32"
        if narrow and self.dtype(x) == "float64":
            raise Wider(name, g.room.base)
        alike = isinstance(x, View) and len(x.order) == len(g.first)
        if not alike or kind_of(self.dtype(x)) != kind_of(self.dtype(g.room)):
            self.refuse(f"{name} is of one kind before and of another in the loop", "use two names")
        shape = [self.settled(n) for n in self.shape(x)]
        g.last = [n if is_leaf(n) else self.let(f"{name}_length", n) for n in shape]
        self.parted(g.room.base)
        self.lay_out(g.room, x)
        self.shared(g.room.base, x.base)

    def other_arrays(self, x: Any, y: Any) -> bool:
        """Is an array in a tuple another one than before?"""
        if not isinstance(x, Items) or not isinstance(y, Items):
            return False
        return any(isinstance(a, View) and a != b for a, b in zip(leaves(x), leaves(y)))

    def bounded(self, loop: Loop) -> None:
        """Keep what is known of the counter while the loop runs."""
        p = self.program
        steps = self.whole("mul", self.whole("sub", self.running(loop.count), ONE), const(abs(loop.step)))
        if loop.step > 0:
            p.least[loop.var] = loop.start
            p.most[loop.var] = self.whole("add", loop.start, steps)
        else:
            p.least[loop.var] = self.whole("sub", loop.start, steps)
            p.most[loop.var] = loop.start
        if self.natural(p.least[loop.var]):
            p.natural.add(loop.var)

    def running(self, count: Expr) -> Expr:
        """What max(gap, 0) is where there is a turn."""
        value = self.program.defined.get(count.name) if isinstance(count, Name) else None
        if isinstance(value, Apply) and value.op == "max" and value.args[1] == ZERO:
            return value.args[0]
        return count

    def kinds_of(self, x: Any) -> Any:
        if isinstance(x, Items):
            return Kinds([self.kinds_of(i) for i in x.items], x.of)
        return self.kind(x) if isinstance(x, Expr) else None

    def risen(self, name: str, old: Any, new: Any) -> Any:
        if isinstance(old, str) and isinstance(new, Kinds) and new.of is complex:
            return new  # a real number before
        if isinstance(new, str) and isinstance(old, Kinds) and old.of is complex:
            return old
        if isinstance(old, tuple) != isinstance(new, tuple) or (
            isinstance(old, tuple) and len(old) != len(new)
        ):
            self.refuse(f"{name} is of one kind before and of another in the loop", "use two names")
        if isinstance(old, Kinds):
            of: Any = old.of
            if isinstance(of, Keys):
                if of != new.of:
                    self.refuse(f"{name} has other keys before and in the loop", "set them before")
                of = of.or_other(new.of)
            return Kinds([self.risen(name, a, b) for a, b in zip(old, new)], of)
        if (old is None) != (new is None):
            self.refuse(
                f"a part of {name} is a number before or in the loop, and none in or before it",
                "use two names",
            )
        return None if old is None else ops.join(old, new)

    def head(self, name: str, kind: Any, first: Any, hopeful: bool) -> Any:
        """A carried name as a turn finds it."""
        if isinstance(kind, Kinds):
            firsts = first.items if isinstance(first, Items) else [None] * len(kind)
            return Items(
                [f if k is None else self.head(name, k, f, hopeful) for k, f in zip(kind, firsts)],
                kind.of,
            )
        own = self.fresh(name)
        self.program.kinds[own] = kind
        if hopeful and kind == "int" and (first is None or self.natural(first)):
            self.program.natural.add(own)
        return Name(own)

    def still_natural(self, heads: Env, inner: Env) -> bool:
        def holds(head: Any, last: Any) -> bool:
            if isinstance(head, Items):
                return all(holds(h, x) for h, x in zip(head.items, last.items))
            if not isinstance(head, Name) or head.name not in self.program.natural:
                return True
            return self.natural(last)

        return all(holds(head, inner[n]) for n, head in heads.items())

    def carry(self, loop: Loop, name: str, head: Any, first: Any, last: Any, kind: Any) -> None:
        if isinstance(head, Items) and head.of is complex:
            first = complexes.coerced(self, first)
            around, self.block = self.block, loop.body
            last = complexes.coerced(self, last)
            self.block = around
        if isinstance(head, Items):
            for h, f, x, k in zip(head.items, first.items, last.items, kind):
                if k is not None:
                    self.carry(loop, name, h, f, x, k)
                elif f is not x and f != x:
                    self.refuse(f"an array in the tuple {name} is bound anew in a loop", "copy into it")
            return
        if kind == "float" and isinstance(first, Const):
            first = const(float(first.value))
        if not is_leaf(last):
            around, self.block = self.block, loop.body
            last = self.let(head.name, last)
            self.block = around
        loop.carried.append((head.name, first, last))

    def check_views(self, env: Env, inner: Env, kept: Sequence[str]) -> None:
        """A name of an array that a turn leaves other than it found it would be another array in the next."""
        for n in kept:
            before, after = env.get(n), inner.get(n)
            if before is None or isinstance(before, Expr | Items):
                continue
            if not (before is after or (isinstance(before, View) and before == after)):
                self.refuse(f"the array {n} is bound anew in a loop or branch", f"copy into it: {n}[:] = ...")


__all__ = ["Loops"]
