"""What the reverse sweep needs to know of a program: which loops run again, what is saved, which order is free.

Promises `reverse.py` that at each place the names that it reads are there: set at the top level, saved in their turn, or computed again of
such; and that a load which it makes again finds what the forward sweep found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.adjoints import ops
from nbgrad.adjoints.activity import Activity, contributions
from nbgrad.adjoints.formulas import OUT
from nbgrad.adjoints.ir import (
    FLOAT_ZERO,
    ZERO,
    Add,
    Apply,
    Array,
    Block,
    Branch,
    Const,
    Expr,
    Extent,
    Fill,
    Grow,
    Keep,
    Let,
    Load,
    Loop,
    Make,
    Name,
    Product,
    Program,
    Raise,
    Store,
    View,
    blocks,
    const,
    exprs,
    loads,
    names,
    operands,
    reads,
    sets,
    statements,
    walk,
    whole,
    with_loads,
    writes,
)
from nbgrad.adjoints.ops import is_natural
from nbgrad.adjoints.places import Places
from nbgrad.adjoints.turns import flat, hoist_loads, only_added

POLICIES = ("auto", "store", "rerun", "steps")
Policy = str | tuple[str, int]  # ("steps", 100): copies each 100 turns; ("revolve", 100): 100 copies
_TURNS = 1000  # between copies, of loops whose turns are not known before
_READ_AGAIN = 12  # names that an expression may read to be computed again


class Plan:
    def __init__(self, p: Program, wrt: Sequence[str], policy: Policy = "auto") -> None:
        self.p = p
        self.policy, self.every = (policy, 0) if isinstance(policy, str) else policy
        self.grown = {s.base for s in statements(p.body) if isinstance(s, Grow)}
        hoist_loads(p)
        self.active = Activity(p, wrt)
        self.locate()
        self.places = Places(p)
        if policy != "store":
            if self.policy in ("steps", "revolve"):
                self.choose_steps(p.body)
            self.choose(p.body)
            self.choose_outer(p.body)
        p.body[:] = self.stabilised(p.body)
        self.needed = self.needs(p.body, set())

    # ------------------------------------------------ where things are

    def locate(self) -> None:
        """Number the statements; of each array, who writes it."""
        self.writers: dict[str, list[Any]] = {}
        self.readers: dict[str, list[Any]] = {}
        self.count = 0
        self.inside: dict[int, list[Any]] = {}
        self.defined: dict[str, Expr] = {}
        self.branched: set[int] = set()  # loops in branches
        self._locate(self.p.body, ())

    def _locate(self, block: Block, around: tuple[Loop, ...]) -> list[Any]:
        every: list[Any] = []
        for s in block:
            self.count += 1
            s.seq, s.around = self.count, around
            written = writes(s)
            if written:
                self.writers.setdefault(written, []).append(s)
            for base in reads(s):
                self.readers.setdefault(base, []).append(s)
            if isinstance(s, Let):
                self.defined[s.name] = s.value
            every.append(s)
            inner = [
                x for b in blocks(s) for x in self._locate(b, (*around, s) if isinstance(s, Loop) else around)
            ]
            if isinstance(s, Loop):
                self.inside[id(s)] = inner
            if isinstance(s, Branch):
                self.branched.update(id(q) for q in inner if isinstance(q, Loop))
            every += inner
        return every

    def within(self, loop: Loop) -> list[Any]:
        return self.inside[id(loop)]

    def stored_with(self, loop: Loop) -> list[Loop]:
        """The loops around it from the one on whose turns are recorded with its own, and itself."""
        around = [*loop.around, loop]
        while any(q.rerun or q.steps for q in around[:-1]):
            around = around[1:]
        return around

    def turns_of_all(self, loop: Loop, before: bool = False) -> list[Expr] | None:
        """How many turns it and each of these has, if parameters alone say so and no branch is on the way. With `before`, if what is known
        before the first of them says so."""
        around = self.stored_with(loop)
        inside = {n for s in [around[0], *self.within(around[0])] for n in (*sets(s), getattr(s, "var", ""))}
        counts: list[Expr] = []
        for q in around:
            count = None
            if not (q.trips or q.steps or id(q) in self.branched):
                count = self.of_parameters(q.count, inside if before else None)
            if count is None or q.test is not None:
                return None
            clamped = isinstance(count, Apply) and count.op == "max" and count.args[1] == ZERO
            if not clamped and any(isinstance(e, Apply) and e.op == "sub" for e in walk(count)):
                count = Apply("max", (count, ZERO))  # where the loops around do not run at all
            counts.append(count)
        return counts

    def of_parameters(self, e: Expr, inside: set[str] | None = None) -> Expr | None:
        """An expression of integers by what is known before all else, or by names that are not set `inside` of a loop."""
        if isinstance(e, Const) or (isinstance(e, Name) and e.name in self.p.params):
            return e
        if isinstance(e, Name):
            if inside is not None and e.name not in inside:
                return e
            known = self.defined.get(e.name)
            return None if known is None else self.of_parameters(known, inside)
        if isinstance(e, Extent):
            extents = self.p.arrays[e.base].extents
            return e if extents is None else self.of_parameters(extents[e.axis], inside)
        if not isinstance(e, Apply) or e.op not in ("add", "sub", "mul", "floor_divide", "max", "min"):
            return None
        if e.op == "floor_divide" and not (isinstance(e.args[1], Const) and e.args[1].value > 0):
            return None  # which may be by zero where the loops around do not run at all
        parts = [self.of_parameters(a, inside) for a in e.args]
        return None if None in parts else Apply(e.op, tuple(a for a in parts if a is not None))

    # ------------------------------------------------ which loops run again

    def choose_steps(self, block: Block) -> None:
        """The outermost loops that carry more than sums from turn to turn: time steps."""
        for s in block:
            if isinstance(s, Branch):
                self.choose_steps(s.then)
                self.choose_steps(s.other)
            elif isinstance(s, Loop) and self.carries(s) and self.runs_alike(s):
                s.steps = str(self.every)
                if s.trips and (self.policy == "revolve" or not self.every):
                    s.steps = str(_TURNS)
                elif self.policy == "revolve":
                    s.steps, s.room = "1", self.every

    def carries(self, loop: Loop) -> bool:
        inner = self.within(loop)
        anew = self.written_first(loop)
        made = {s.base for s in inner if isinstance(s, Make)} | anew
        read = {b for s in inner for b in reads(s)}
        written = {str(writes(s)) for s in inner if writes(s)} - self.traces(loop)
        shown = {r.base for r in self.p.results if isinstance(r, View)} | set(self.p.params)
        loop.states = sorted(written - {s.base for s in inner if isinstance(s, Make)} - (anew - shown))
        if (
            written & read & self.active.arrays
        ) - made:  # without loops inside, a turn saves less than a copy takes
            return any(isinstance(s, Loop) for s in inner)
        if written - {s.base for s in inner if isinstance(s, Make)} and not any(
            isinstance(s, Loop) for s in inner
        ):
            return False
        active = self.active.names
        return any(n in active and not only_added(loop, n, last) for n, _, last in loop.carried)

    def traces(self, loop: Loop) -> set[str]:
        """Arrays that turns do nothing with but set them at the counter, which does not count from the end in some turns, and that nothing
        sets later: a turn that is run again leaves the same there."""
        if not is_natural(Name(loop.var), self.p):
            return set()
        inner = self.within(loop)
        axes: dict[str, set[int]] = {}
        for s in inner:
            base = writes(s)
            if base is not None:
                index = s.index if isinstance(s, Store) else ()
                at = {k for k, i in enumerate(index) if i == Name(loop.var)}
                axes[base] = axes.get(base, at) & at
        known = {b for s in inner for b in reads(s)}
        return {base for base, at in axes.items() if at and not self.set_later(base, loop, inner)} - known

    def set_later(self, base: str, loop: Loop, inner: list[Any]) -> bool:
        return any(w.seq > loop.seq and w not in inner for w in self.writers.get(base, ()))

    def runs_alike(self, loop: Loop) -> bool:
        """Does a turn that is run again find all as it was, once what it writes is?"""
        inner = self.within(loop)
        if any(isinstance(s, Grow) for s in inner):
            return False
        read = {b for s in inner for b in reads(s)} - {writes(s) for s in inner}
        return not any(self.set_later(b, loop, inner) for b in read)

    def choose(self, block: Block) -> bool:
        """The innermost loops that have arrays of their own; was one found?"""
        found = False
        for s in block:
            if isinstance(s, Branch):
                found = self.choose(s.then) | self.choose(s.other) | found
            elif isinstance(s, Loop):
                if s.parallel and not s.steps and self.worth(s) and self.may_rerun(s):
                    s.rerun = found = True  # what its inner loops save is a turn's own
                elif self.choose(s.body):
                    found = True
                elif s.steps:
                    continue
                elif self.worth(s) and self.may_rerun(s) and s.private and not self.saves_little(s):
                    s.rerun = found = True
        return found

    def choose_outer(self, block: Block) -> None:
        """Else the outermost."""
        for s in block:
            if isinstance(s, Branch):
                self.choose_outer(s.then)
                self.choose_outer(s.other)
            elif isinstance(s, Loop) and not s.rerun:
                if s.steps or any(isinstance(q, Loop) and q.rerun for q in self.within(s)):
                    self.choose_outer(s.body)
                elif self.worth(s) and self.may_rerun(s):
                    s.rerun = not self.saves_little(s)

    def worth(self, loop: Loop) -> bool:
        return self.policy == "rerun" or any(isinstance(q, Loop) for q in self.within(loop))

    def saves_little(self, loop: Loop) -> bool:
        """Would its innermost loops save nothing, so that to save costs less than to run it again?"""
        every = [loop, *self.within(loop)]
        if self.policy == "rerun" or loop.parallel or any(isinstance(s, Loop) and s.trips for s in every):
            return False
        for s in every:
            if isinstance(s, Let):
                s.kept = not self.all_stable(s.value, s)
        self.plan_stored(loop)
        for q in every:
            if not isinstance(q, Loop) or any(isinstance(s, Loop) for s in self.within(q)):
                continue
            if q.saved or any(self.changes(s) for s in self.within(q)):
                return False
        return True

    def changes(self, s: Any) -> bool:
        """Do partial derivatives read what may have changed?"""
        if not isinstance(s, Let | Store | Add) or not self.has_adjoint(s):
            return False
        return not all(self.stable(load.base, s, load) for load in self.read_by_partials(s.value))

    def may_rerun(self, loop: Loop) -> bool:
        """Does nothing but scalars go from one turn to the next, and is what it reads as it was?"""
        inner = self.within(loop)
        if any(isinstance(s, Grow) for s in inner):
            return False
        ids = {id(s) for s in inner}
        private = {s.base for s in inner if isinstance(s, Make)}
        outside = {r.base for r in self.p.results if isinstance(r, View)}
        for base in self.written_first(loop):
            if self.p.arrays[base].extents is None or base in outside:
                continue
            if any(id(s) not in ids for s in self.readers.get(base, ())):
                continue
            if any(id(s) not in ids and not isinstance(s, Make) for s in self.writers[base]):
                continue
            private.add(base)
        written = {writes(s) for s in inner} - private
        read = {b for s in inner for b in reads(s)} - private
        loop.private = private
        if written & read:
            return False
        around = {id(q) for q in loop.around}
        return not any(
            s.seq > loop.seq or around & {id(q) for q in s.around}
            for base in read
            for s in self.writers.get(base, ())
        )

    def written_first(self, loop: Loop) -> set[str]:
        """Arrays each of whose elements is written at the head of a turn, before any is read: by a loop over all of them that stores at its
        counter, the first ones perhaps one by one before it, or by a product."""
        touched: set[str] = set()
        done: set[str] = set()
        ahead: dict[str, int] = {}  # how many of the first elements were written one by one
        for s in loop.body:
            inside = [
                s,
                *(self.within(s) if isinstance(s, Loop) else [q for b in blocks(s) for q in statements(b)]),
            ]
            if isinstance(s, Store) and s.index == (const(ahead.get(s.base, 0)),):
                touched |= reads(s) - done
                if s.base not in touched:
                    ahead[s.base] = ahead.get(s.base, 0) + 1
                    continue
            if isinstance(s, Loop) and s.test is None and not s.trips and s.step == 1:
                for q in s.body:
                    if isinstance(q, Branch | Loop):
                        break
                    touched |= {b for b in reads(q) if b not in done}
                    if isinstance(q, Store) and q.index == (Name(s.var),) and q.base not in touched:
                        extents = self.p.arrays[q.base].extents
                        alone = not any(writes(z) == q.base for z in inside if z is not q)
                        if extents is not None and self.covers(s, extents[0], ahead.get(q.base, 0)) and alone:
                            done.add(q.base)
            if isinstance(s, Product | Fill) and s.base not in touched | reads(s):
                done.add(s.base)
            for q in inside:
                touched |= {b for b in (*reads(q), writes(q)) if b is not None and b not in done}
        return done

    def covers(self, s: Loop, extent: Expr, ahead: int) -> bool:
        """Does a loop reach all elements but those that were written before it?"""
        if s.straight:
            return self.same(extent, s.count)
        first, count = s.start, s.count
        if isinstance(count, Name):
            count = self.defined.get(count.name, count)
        if isinstance(count, Apply) and count.op == "max" and count.args[1] == ZERO:
            count = count.args[0]
        if not (isinstance(first, Const) and isinstance(first.value, int) and 0 <= first.value <= ahead):
            return False
        return (
            isinstance(count, Apply)
            and count.op == "sub"
            and count.args[1] == first
            and self.same(count.args[0], extent)
        )

    def same(self, a: Expr, b: Expr) -> bool:
        def root(e: Expr) -> Expr:
            while isinstance(e, Name) and e.name in self.defined:
                value = self.defined[e.name]
                if isinstance(value, Apply) and value.op == "max" and value.args[1] == ZERO:
                    value = value.args[0]
                if isinstance(value, Apply | Load):
                    break
                e = value
            return e

        return root(a) == root(b)

    # ------------------------------------------------ loads that may change

    def stable(self, base: str, s: Any, load: Load | None = None, own: Any = None) -> bool:
        """Does what is loaded at `s` stay there until the reverse sweep comes by? What `own` writes is what is loaded."""
        cut = 0
        for k, loop in enumerate(s.around):
            if loop.rerun and base in loop.private:
                cut = k + 1
        for w in self.writers.get(base, ()):
            if cut and not (len(w.around) >= cut and w.around[cut - 1] is s.around[cut - 1]):
                continue
            meets = len(w.around) > cut and len(s.around) > cut and w.around[cut] is s.around[cut]
            if w is own and not meets:
                continue
            if (w.seq >= s.seq or meets) and not (load and self.places.apart(load, s, w, cut)):
                return False
        return True

    def all_stable(self, e: Expr, s: Any) -> bool:
        return all(self.stable(load.base, s, load) for load in loads(e))

    def stabilised(self, block: Block) -> Block:
        """Loads that may change become names that are saved."""
        done: Block = []
        for s in block:
            if isinstance(s, Let | Store | Add):
                done += self.named_loads(s)
            elif isinstance(s, Product) and s.base in self.active.arrays and not self.stays(s):
                done += self.stabilised(self.as_loops(s))
                continue
            elif isinstance(s, Fill) and s.base in self.active.arrays:
                before, after = self.kept_values(s)
                done += [*before, s, *after]
                continue
            for inner in blocks(s):
                inner[:] = self.stabilised(inner)
            done.append(s)
        return done

    def kept_values(self, s: Fill) -> tuple[Block, Block]:
        """Copies of what the derivatives of a formula read and will not find: before it those of arguments, after it that of its result."""
        from nbgrad.adjoints.build import Builder

        b = Builder(self.p)
        before: Block = []
        after: Block = []
        for place in s.of.reads:
            v = operand(self.p, s, place)
            if self.stable(v.base, s, own=s if place == OUT else None):
                continue
            b.block = after if place == OUT else before
            extents = tuple(b.counted(b.settled(n)) for n in b.shape(v))
            name = s.held[place] = self.p.fresh(f"kept_{v.base}")
            self.p.arrays[name] = Array(len(extents), "float64", extents)
            b.block.append(Keep(name, v, extents))
            for q in s.around:
                if q.rerun:
                    q.private.add(name)
        self._placed([*before, *after], s.seq, s.around)
        return before, after

    def stays(self, s: Product) -> bool:
        return self.stable(s.left.base, s) and self.stable(s.right.base, s)

    def named_loads(self, s: Any) -> list[Let]:
        if isinstance(s, Let):
            direct = isinstance(s.value, Load)
            if direct or self.p.kinds[s.name] != "float" or not self.has_adjoint(s):
                s.kept = not self.all_stable(s.value, s)
                return []
        needed = self.read_by_partials(s.value)
        made: dict[Load, Let] = {}

        def named(load: Load) -> Expr:
            if load not in needed or self.stable(load.base, s, load):
                return load
            if load not in made:
                name = self.p.fresh("t")
                self.p.kinds[name] = self.p.arrays[load.base].kind
                if self.active.moves(load):
                    self.active.names.add(name)
                let = made[load] = Let(name, load, kept=True)
                let.seq, let.around = s.seq, s.around
            return Name(made[load].name)

        s.value = with_loads(s.value, named)
        if isinstance(s, Let):
            s.kept = not self.all_stable(s.value, s)
        return list(made.values())

    def read_by_partials(self, e: Expr) -> set[Load]:
        found: set[Load] = set()
        for leaf, g in contributions(self.active, e, Name("g"), Name("y")):
            found.update(loads(g))
            if isinstance(leaf, Load):
                found.update(load for i in leaf.index for load in loads(i))
        return found

    def as_loops(self, s: Product) -> Block:
        """A product whose operands are written over later: loops, whose loads are saved one by one."""
        from nbgrad.adjoints.build import Builder

        b = Builder(self.p)
        made: Block = []
        b.block = made
        array = self.p.arrays[s.base]
        x, y = s.left, s.right
        m = len(b.shape(x)) - 1

        def entry(i: list[Expr]) -> None:
            def term(total: Expr, k: list[Expr]) -> Expr:
                return b.binary(
                    "add", total, b.binary("mul", b.element(x, i[:m] + k), b.element(y, k + i[m:]))
                )

            b.store(Load(s.base, tuple(i)), b.fold([b.shape(x)[-1]], FLOAT_ZERO, term, None))

        b.nest([b.extent(s.base, k) for k in range(array.rank)], entry)
        self._placed(made, s.seq, s.around)
        for _ in range(2):
            for q in statements(made):
                self.active._reached(q)
        return made

    def _placed(self, block: Block, seq: int, around: tuple[Loop, ...]) -> list[Any]:
        every: list[Any] = []
        for s in block:
            s.seq, s.around = seq, around
            if isinstance(s, Let):
                self.defined[s.name] = s.value
            inner = [
                x
                for b in blocks(s)
                for x in self._placed(b, seq, (*around, s) if isinstance(s, Loop) else around)
            ]
            if isinstance(s, Loop):
                self.inside[id(s)] = inner
            every += [s, *inner]
        return every

    # ------------------------------------------------ what is saved

    def has_adjoint(self, s: Any) -> bool:
        active = self.active
        if isinstance(s, Let):
            return s.name in active.names and active.moves(s.value)
        if isinstance(s, Store | Add | Product | Fill | Make):
            return s.base in active.arrays
        if isinstance(s, Branch):
            merged = any(n in active.names for n, _, _ in s.merged)
            return merged or any(self.has_adjoint(q) for b in blocks(s) for q in b)
        if isinstance(s, Loop):
            return any(n in active.names for n, _, _ in s.carried) or any(map(self.has_adjoint, s.body))
        return False

    def read_back(self, s: Any) -> set[str]:
        """Names that the adjoint of one statement reads, not of what is inside of it."""
        active = self.active
        found: set[str] = set()
        values: list[tuple[Expr, Expr | None]] = []
        if isinstance(s, Let) and s.name in active.names:
            values = [(s.value, Name(s.name))]
        elif isinstance(s, Store | Add) and s.base in active.arrays:
            values = [(s.value, None)]
            found |= {n for i in s.index for n in names(i)}
        elif isinstance(s, Branch):
            values = [(e, None) for name, a, b in s.merged if name in active.names for e in (a, b)]
        elif isinstance(s, Product | Fill | Make) and s.base in active.arrays:
            found |= {n for e in exprs(s) for n in names(e)}
            if isinstance(s, Fill):
                found |= {
                    n for k in s.held.values() for e in self.p.arrays[k].extents or () for n in names(e)
                }
                found |= {*s.held.values()}
        for e, y in values:
            for leaf, g in contributions(active, e, Name("@"), y):
                found |= names(g)
                if isinstance(leaf, Load):
                    found |= {n for i in leaf.index for n in names(i)}
        return found - {"@"}

    def needs(self, block: Block, found: set[str]) -> set[str]:
        """Names that the reverse of a block reads; of a loop, those that it does not save itself."""
        for s in block:
            if self.has_adjoint(s):
                found |= self.read_back(s)
                if isinstance(s, Branch):
                    found |= names(s.test)
                    self.needs(s.then, found)
                    self.needs(s.other, found)
                elif isinstance(s, Loop):
                    found |= self.plan_rerun(s) if s.rerun else self.plan_stored(s)
        return found

    def cheap(self, e: Expr) -> bool:
        """Is it rather computed again than saved?"""
        if not isinstance(e, Apply):
            return True
        plain = e.op in ops.ARITHMETIC and e.op != "pow"
        if not (
            plain or e.op in ops.COMPARISONS or e.op in ("neg", "not", "max", "min", "abs", "where", "float")
        ):
            return False
        return all(self.cheap(a) for a in e.args)

    def plan_stored(self, loop: Loop) -> set[str]:
        """Sets what the loop saves and computes again; what it needs of around it."""
        lets: dict[str, Any] = {}
        self.define(loop.body, lets)
        heads = {n for n, _, _ in loop.carried}
        loop.saved, loop.again = [], set()
        outer: set[str] = set()
        tests: set[str] = set()
        todo, seen = list(self.needs(loop.body, set())), set[str]()
        while todo or tests:
            name = todo.pop() if todo else min(tests)
            if name in seen:
                continue
            if name in lets and self.p.kinds.get(name) == "bool":
                if name not in tests:
                    tests.add(name)  # what it compares may yet be saved for others
                    continue
                tests.remove(name)
                saved_for_it = self.afresh(name, lets, heads) - set(loop.saved)
            else:
                saved_for_it = set()
            seen.add(name)
            if loop.var and name == loop.var:
                todo += names(loop.start)
            elif name not in heads and name not in lets:
                outer.add(name)
            elif name in lets and self.again(lets[name]) and not saved_for_it:
                loop.again.add(name)
                todo += names(lets[name].value)
            else:
                loop.saved.append(name)
        loop.saved.sort()
        return outer | self.to_run(loop)

    def again(self, s: Any) -> bool:
        """Is what a statement sets computed again, not saved?"""
        plain = isinstance(s, Let) and not s.kept and self.cheap(s.value)
        return plain and len(names(s.value)) < _READ_AGAIN

    def afresh(self, name: str, lets: dict[str, Any], heads: set[str]) -> set[str]:
        """The names that would be saved for this one to be computed again."""
        found: set[str] = set()
        todo, seen = [name], set[str]()
        while todo:
            n = todo.pop()
            if n in seen:
                continue
            seen.add(n)
            if n in heads or (n in lets and not self.again(lets[n])):
                found.add(n)
            elif n in lets:
                todo += names(lets[n].value)
        return found

    def to_run(self, loop: Loop) -> set[str]:
        return ({loop.trips} if loop.trips else names(loop.count)) | (
            names(loop.start) if not loop.test else set()
        )

    def define(self, block: Block, found: dict[str, Any]) -> None:
        """What sets each name of a turn, inner loops' own names left out."""
        for s in block:
            for name in sets(s):
                found[name] = s
            if isinstance(s, Branch):
                self.define(s.then, found)
                self.define(s.other, found)

    def plan_rerun(self, loop: Loop, sums: bool = False) -> set[str]:
        """Sets what is run again of the body, with the sums that it carries or without, and the heads that it starts from; what it needs of
        around it."""
        inner = self.within_now(loop)
        need: set[str] = set()
        of: dict[str, set[str]] = {}
        for s in inner:
            need |= self.read_back(s)
            if isinstance(s, Product | Fill | Keep | Make) or (
                isinstance(s, Store | Add) and s.base in loop.private
            ):
                need |= {n for e in exprs(s) for n in names(e)}
            if isinstance(s, Let):
                of[s.name] = names(s.value)
            elif isinstance(s, Keep):
                of[s.base] = set()
            elif isinstance(s, Branch):
                need |= names(s.test)
                for name, a, b in s.merged:
                    of[name] = names(a) | names(b) | names(s.test)
            elif isinstance(s, Loop):
                need |= self.to_run(s) | (names(s.test) if s.test else names(s.count))
                need |= names(s.stopped) if s.stopped is not None else set()
                for name, a, b in s.carried:
                    of[name] = names(a) | names(b)
                if s.trips:
                    of[s.trips] = set()
                if s.var:
                    of[s.var] = names(s.start)
        for s in loop.body:
            self.plan_inner(s, need)
        if sums:
            need |= {n for _, _, last in loop.carried for n in names(last)}
        heads = set() if sums else {n for n, _, _ in loop.carried}
        loop.saved, outer = [], set[str]()
        todo, seen = list(need), set[str]()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in heads:
                loop.saved.append(name)
            elif loop.var and name == loop.var:
                continue
            elif name not in of:
                outer.add(name)
            else:
                todo += of[name]
        loop.again = seen
        loop.saved.sort()
        return outer | self.to_run(loop)

    def plan_inner(self, s: Any, need: set[str]) -> None:
        """Plan the loops that are run again with the one around them."""
        if isinstance(s, Loop):
            need |= self.plan_rerun(s) if s.rerun else self.plan_stored(s)
        else:
            for b in blocks(s):
                for q in b:
                    self.plan_inner(q, need)

    def within_now(self, loop: Loop) -> list[Any]:
        """With the names that loads have become."""
        return [q for s in loop.body for q in [s, *(x for b in blocks(s) for x in statements(b))]]

    # ------------------------------------------------ loops that run once

    def run_once(self) -> tuple[Loop, list[Let]] | None:
        """A loop that is run again whose sums only results read, so that the reverse sweep may add them up and the forward sweep leave the
        loop out; and what is made of the sums."""
        body = self.p.body
        for k in reversed(range(len(body))):
            s = body[k]
            if isinstance(s, Loop) and self.only_sums(s):
                later = self.made_of({n for n, _, _ in s.carried}, body[k + 1 :])
                if later is not None:
                    self.plan_rerun(s, sums=True)
                    return s, later
        return None

    def only_sums(self, s: Loop) -> bool:
        """Is it run again, upwards, and are sums all that comes of it?"""
        if not s.rerun or s.test is not None or s.saved or not self.has_adjoint(s) or not s.carried:
            return False
        inner = self.within_now(s)
        made = {q.base for q in inner if isinstance(q, Make)}
        shown = any(isinstance(q, Raise | Grow) or writes(q) not in (None, *made) for q in inner)
        sums = all(
            self.p.kinds[n] != "bool" and isinstance(first, Name | Const) and only_added(s, n, last)
            for n, first, last in s.carried
        )
        return sums and not shown and self.commutes(s, set())

    def made_of(self, sums: set[str], after: Block) -> list[Let] | None:
        """What is made of sums, if the reverse sweep reads none of it."""
        made = set(sums)
        later: list[Let] = []
        for s in after:
            if any(names(e) & made for q in flat(s) for e in exprs(q)):
                if not isinstance(s, Let) or loads(s.value):
                    return None
                made.add(s.name)
                later.append(s)
        results = [r for r in self.p.results if isinstance(r, Expr)]
        partials = [g for r in results for _, g in contributions(self.active, r, Name("@"))]
        if made & self.needed or any(names(g) & made for g in partials):
            return None
        return None if any(names(r) & made and loads(r) for r in results) else later

    # ------------------------------------------------ order

    def commutes(self, loop: Loop, positions: set[int]) -> bool:
        """May the reversed loop run upwards? Its turns must not meet: carried values are only added to, and no active array is read and
        written, or set, but at the counter, which does not count from the end in some turns and from the beginning in others."""
        inner = self.within_now(loop)
        growing = not loop.rerun and any(isinstance(q, Loop) and id(q) in positions for q in inner)
        if loop.trips or growing:
            return False
        arrays = self.active.arrays
        read: set[str] = set()
        written: set[str] = set()
        stored: set[str] = set()  # whose bars a turn reads, as an addition does, and clears
        private = {s.base for s in inner if isinstance(s, Make)}
        for s in inner:
            read |= reads(s) & arrays
            outside = isinstance(s, Store) and s.base in arrays and s.base not in private
            if outside and Name(loop.var) not in s.index:
                return False
            if isinstance(s, Store | Add) and s.base in arrays:
                written.add(s.base)
            if isinstance(s, Store):
                stored.add(s.base)
        if any(isinstance(s, Product | Fill) and s.base in arrays and s.base not in private for s in inner):
            return False
        both = (read & written | stored & arrays) - private
        at: dict[str, set[tuple[int, ...]]] = {}
        for s in inner:
            places = [load for e in exprs(s) for load in loads(e)]
            if isinstance(s, Store | Add):
                places.append(Load(s.base, s.index))
            for place in places:
                if place.base in both:
                    axes = tuple(k for k, i in enumerate(place.index) if i == Name(loop.var))
                    at.setdefault(place.base, set()).add(axes)
            if isinstance(s, Product | Fill) and {v.base for v in operands(s)} & both:
                return False
        if any(len(axes) != 1 or axes == {()} for axes in at.values()):
            return False
        if both and not (loop.parallel or is_natural(Name(loop.var), self.p)):
            return False
        return all(n not in self.active.names or only_added(loop, n, last) for n, _, last in loop.carried)


def operand(p: Program, s: Fill, place: int) -> View:
    """What a formula's derivatives read: an argument, or the result."""
    return whole(s.base, p.arrays[s.base].rank) if place == OUT else s.args[place]
