"""Small arrays of a function's own whose places are known become numbers, and the short loops that count their places are written out.

Promises the passes a program that computes the same without those arrays: what is a number is computed again, or saved once however often
it is read, and no memory is taken for it. An array stays where one of its places is not known, and where it goes on as a whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from nbgrad.adjoints import ops
from nbgrad.adjoints.ir import (
    FLOAT_ZERO,
    ZERO,
    Add,
    Apply,
    Block,
    Branch,
    Const,
    Expr,
    Fill,
    Grow,
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
    const,
    exprs,
    is_leaf,
    loads,
    names,
    operands,
    sets,
    statements,
    walk,
)

_ELEMENTS = 16  # of an array that becomes numbers
_TURNS = 4  # of a loop that is written out
_LENGTH = 64  # of what it becomes, in statements

Place = tuple[str, tuple[int, ...]]


def as_numbers(p: Program) -> None:
    made = _Numbers(p)
    if made.arrays:
        p.body[:] = made.block(p.body, {})
        p.results[:] = [r if isinstance(r, View) else made.expr(r, {}) for r in p.results]
        made.drop_unread()


class _Numbers:
    def __init__(self, p: Program) -> None:
        self.p = p
        self.every = list(statements(p.body))
        self.loops = {s.var: s for s in self.every if isinstance(s, Loop) and s.var}
        self.short: set[str] = set()  # counters of loops that are written out
        self.arrays = self.candidates()
        self.same: dict[str, Expr] = {}  # what names are now
        self.settle()
        self.mine: set[str] = set()

    # ------------------------------------------------ which

    def candidates(self) -> set[str]:
        p = self.p
        made = [s.base for s in self.every if isinstance(s, Make)]
        whole = {r.base for r in p.results if isinstance(r, View)}
        for s in self.every:
            if isinstance(s, Product | Fill):
                whole |= {s.base, *(v.base for v in operands(s))}
            elif isinstance(s, Grow):
                whole.add(s.base)
            elif isinstance(s, Loop):  # what a test writes
                whole |= {q.base for q in statements(s.head) if isinstance(q, Store | Add)}
        found = set()
        for base in made:
            array = p.arrays[base]
            sizes = [e.value for e in array.extents or () if isinstance(e, Const)]
            few = len(sizes) == array.rank and 0 < math.prod(sizes) <= _ELEMENTS
            if few and array.dtype == "float64" and made.count(base) == 1 and base not in whole:
                found.add(base)
        return found

    def settle(self) -> None:
        """Leave out what has a place that is not known, until the loops that count the others can be written out."""
        while True:
            self.short = set()
            lost = set()
            for base, index in self.places():
                if base in self.arrays:
                    counters = [self.counters(i) for i in index]
                    if None in counters or not all(v in self.loops for c in counters for v in c or ()):
                        lost.add(base)
                    else:
                        self.short |= set().union(*(c or set() for c in counters))
            long = {v for v in self.short if not self.is_short(self.loops[v])}
            for base, index in self.places():
                if base in self.arrays - lost:
                    mine = set().union(*(self.counters(i) or set() for i in index))
                    if mine & long or not all(self.is_inside(base, at) for at in self.values(index, mine)):
                        lost.add(base)
            if not lost:
                return
            self.arrays -= lost

    def places(self) -> Iterator[tuple[str, tuple[Expr, ...]]]:
        for s in self.every:
            if isinstance(s, Store | Add):
                yield s.base, s.index
            for e in exprs(s):
                for load in loads(e):
                    yield load.base, load.index

    def counters(self, i: Expr) -> set[str] | None:
        """The counters that decide an index; None if something else does."""
        found: set[str] = set()
        for part in walk(i):
            if isinstance(part, Load) or (
                isinstance(part, Apply) and part.op not in ("add", "sub", "mul", "neg")
            ):
                return None
            if isinstance(part, Name):
                if part.name in self.loops:
                    found.add(part.name)
                elif part.name in self.p.defined:
                    inner = self.counters(self.p.defined[part.name])
                    if inner is None:
                        return None
                    found |= inner
                else:
                    return None
            elif not isinstance(part, Const | Apply):
                return None
        return found

    def is_short(self, s: Loop) -> bool:
        known = isinstance(s.count, Const) and isinstance(s.start, Const) and not s.trips and not s.parallel
        if not known or s.test is not None or s.stopped is not None or not 0 < s.count.value <= _TURNS:  # type: ignore[union-attr]
            return False
        return self.length(s.body) * s.count.value <= _LENGTH and not any(  # type: ignore[union-attr]
            isinstance(q, Grow | Product | Fill) or (isinstance(q, Make) and q.base not in self.arrays)
            for q in statements(s.body)
        )

    def length(self, block: Block) -> int:
        total = 0
        for s in block:
            if isinstance(s, Loop):
                turns = s.count.value if s.var in self.short and isinstance(s.count, Const) else 1
                total += 1 + turns * self.length(s.body)
            elif isinstance(s, Branch):
                total += 1 + self.length(s.then) + self.length(s.other)
            else:
                total += 1
        return total

    def values(self, index: tuple[Expr, ...], counters: set[str]) -> list[tuple[int, ...]]:
        """All places that an index may be."""
        ordered = sorted(counters)
        turns = []
        for v in ordered:
            s = self.loops[v]
            if not (isinstance(s.count, Const) and isinstance(s.start, Const)):
                return [()]
            turns.append([s.start.value + s.step * k for k in range(s.count.value)])
        found = []
        for at in itertools.product(*turns):
            known: dict[str, int] = dict(zip(ordered, at))
            found.append(tuple(self.number(i, known) for i in index))
        return found

    def number(self, i: Expr, known: dict[str, int]) -> int:
        if isinstance(i, Const):
            return int(i.value)
        if isinstance(i, Name):
            if i.name in known:
                return known[i.name]
            now = self.same.get(i.name)  # of a loop that is being written out
            return self.number(self.p.defined[i.name] if now is None else now, known)
        assert isinstance(i, Apply)
        a, *b = (self.number(x, known) for x in i.args)
        return {"neg": -a, "add": a + sum(b), "sub": a - sum(b), "mul": a * math.prod(b)}[i.op]

    def is_inside(self, base: str, at: tuple[int, ...]) -> bool:
        sizes = self.sizes(base)
        return len(at) == len(sizes) and all(-n <= i < n for i, n in zip(at, sizes))

    def sizes(self, base: str) -> list[int]:
        return [e.value for e in self.p.arrays[base].extents or () if isinstance(e, Const)]

    def place(self, base: str, index: tuple[Expr, ...]) -> Place:
        known = [self.number(self.expr(i, {}), {}) for i in index]
        return base, tuple(i % n for i, n in zip(known, self.sizes(base)))

    # ------------------------------------------------ what becomes of it

    def expr(self, e: Expr, now: dict[Place, Expr]) -> Expr:
        if isinstance(e, Name):
            return self.same.get(e.name, e)
        if isinstance(e, Load):
            if e.base in self.arrays:
                return now.get(self.place(e.base, e.index), FLOAT_ZERO)
            return Load(e.base, tuple(self.expr(i, now) for i in e.index))
        if not isinstance(e, Apply):
            return e
        args = tuple(self.expr(a, now) for a in e.args)
        if args == e.args:
            return e
        if all(isinstance(a, Const) and type(a.value) is int for a in args) and e.op in (
            "add",
            "sub",
            "mul",
            "neg",
        ):
            return const(self.number(Apply(e.op, args), {}))
        if e.op in ("add", "mul", "sub") and ops.kind(e, self.p.kinds, self.p.arrays) == "int":
            if e.op == "add" and ZERO in args:
                return args[1] if args[0] == ZERO else args[0]
            if e.op == "sub" and args[1] == ZERO:
                return args[0]
        return Apply(e.op, args)

    def fresh(self, hint: str, kind: str = "float") -> str:
        name = self.p.fresh(hint)
        self.p.kinds[name] = kind
        return name

    def block(self, block: Block, now: dict[Place, Expr]) -> Block:
        out: Block = []
        for s in block:
            self.statement(s, now, out)
        return out

    def statement(self, s: object, now: dict[Place, Expr], out: Block) -> None:
        if isinstance(s, Let):
            s.value = self.expr(s.value, now)
            out.append(s)
        elif isinstance(s, Store | Add) and s.base in self.arrays:
            at = self.place(s.base, s.index)
            e = self.expr(s.value, now)
            if isinstance(s, Add):
                e = Apply("add", (now.get(at, FLOAT_ZERO), e))
            if ops.kind(e, self.p.kinds, self.p.arrays) != "float":
                e = const(float(e.value)) if isinstance(e, Const) else Apply("float", (e,))
            now[at] = e if is_leaf(e) else self.let(at, e, out)
        elif isinstance(s, Store | Add):
            s.index = tuple(self.expr(i, now) for i in s.index)
            s.value = self.expr(s.value, now)
            out.append(s)
        elif isinstance(s, Make):
            if s.base not in self.arrays:
                s.extents = tuple(self.expr(e, now) for e in s.extents)
                out.append(s)
            for at in [at for at in now if at[0] == s.base]:
                del now[at]
        elif isinstance(s, Branch):
            self.branch(s, now, out)
        elif isinstance(s, Loop):
            if s.var in self.short:
                self.written_out(s, now, out)
            else:
                self.loop(s, now, out)
        else:
            self.rest(s, now)
            out.append(s)

    def rest(self, s: object, now: dict[Place, Expr]) -> None:
        if isinstance(s, Grow):
            s.size = self.expr(s.size, now)
        elif isinstance(s, Product | Fill):
            for name in (n for e in exprs(s) for n in names(e)):
                assert name not in self.same  # loops with products are not written out
        else:
            assert isinstance(s, Raise)

    def let(self, at: Place, e: Expr, out: Block) -> Name:
        name = self.fresh(f"{at[0]}_{'_'.join(map(str, at[1]))}")
        self.mine.add(name)
        out.append(Let(name, e))
        return Name(name)

    def branch(self, s: Branch, now: dict[Place, Expr], out: Block) -> None:
        s.test = self.expr(s.test, now)
        left, right = dict(now), dict(now)
        s.then, s.other = self.block(s.then, left), self.block(s.other, right)
        s.merged = [(n, self.expr(a, left), self.expr(b, right)) for n, a, b in s.merged]
        now.clear()
        for at in [*left, *(k for k in right if k not in left)]:
            a, b = left.get(at, FLOAT_ZERO), right.get(at, FLOAT_ZERO)
            if a == b:
                now[at] = a
                continue
            name = self.fresh(f"{at[0]}_{'_'.join(map(str, at[1]))}")
            self.mine.add(name)
            s.merged.append((name, a, b))
            now[at] = Name(name)
        out.append(s)

    def written_in(self, s: Loop) -> list[Place]:
        found = set()
        for q in statements([s]):
            if isinstance(q, Store | Add) and q.base in self.arrays:
                counters = set().union(*(self.counters(i) or set() for i in q.index)) - set(self.same)
                index = tuple(self.expr(i, {}) for i in q.index)
                for at in self.values(index, counters):
                    found.add((q.base, tuple(i % n for i, n in zip(at, self.sizes(q.base)))))
        return sorted(found)

    def loop(self, s: Loop, now: dict[Place, Expr], out: Block) -> None:
        s.start, s.count = self.expr(s.start, now), self.expr(s.count, now)
        firsts = [self.expr(first, now) for _, first, _ in s.carried]
        heads: list[tuple[Place, str, Expr]] = []
        for at in self.written_in(s):
            name = self.fresh(f"{at[0]}_{'_'.join(map(str, at[1]))}")
            self.mine.add(name)
            heads.append((at, name, now.get(at, FLOAT_ZERO)))
            now[at] = Name(name)
        after = {at: Name(name) for at, name, _ in heads}
        s.head = self.block(s.head, now)
        if s.test is not None:
            s.test = self.expr(s.test, now)
            assert not any(now[at] != e for at, e in after.items())
        s.body = self.block(s.body, now)
        if s.stopped is not None:
            s.stopped = self.expr(s.stopped, now)
        s.carried = [(n, first, self.expr(last, now)) for first, (n, _, last) in zip(firsts, s.carried)]
        s.carried += [(name, first, now.get(at, FLOAT_ZERO)) for at, name, first in heads]
        now |= after
        out.append(s)

    # ------------------------------------------------ loops that are written out

    def written_out(self, s: Loop, now: dict[Place, Expr], out: Block) -> None:
        assert isinstance(s.count, Const) and isinstance(s.start, Const)
        for n, first, _ in s.carried:
            self.same[n] = self.leaf(n, self.expr(first, now), out)
        for k in range(s.count.value):
            self.same[s.var] = const(s.start.value + s.step * k)
            copy = _Copy(self, s.body)
            for q in copy.block(s.body):
                self.statement(q, now, out)
            lasts = [self.leaf(n, self.expr(copy.expr(last), now), out) for n, _, last in s.carried]
            self.same |= {n: last for (n, _, _), last in zip(s.carried, lasts)}

    def leaf(self, name: str, e: Expr, out: Block) -> Expr:
        if is_leaf(e):
            return e
        own = self.fresh(name, self.p.kinds[name])
        out.append(Let(own, e))
        return Name(own)

    # ------------------------------------------------ what is left

    def drop_unread(self) -> None:
        """Numbers that stood for elements which nothing reads."""
        p = self.p
        every = list(statements(p.body))
        read = {n for r in p.results if not isinstance(r, View) for n in names(r)}
        size = -1
        while size != len(read):
            size = len(read)
            for s in every:
                for e in self.needed(s, read):
                    read |= names(e)
        self.keep(p.body, read)

    def needed(self, s: object, read: set[str]) -> list[Expr]:
        """What a statement reads, as far as names are read that were made here."""

        def wanted(name: str) -> bool:
            return name not in self.mine or name in read

        if isinstance(s, Let):
            return [s.value] if wanted(s.name) or _draws(s.value) else []
        if isinstance(s, Branch):
            return [s.test, *(e for n, a, b in s.merged if wanted(n) for e in (a, b))]
        if isinstance(s, Loop):
            own = [s.start, s.count, *(e for e in (s.test, s.stopped) if e is not None)]
            return own + [e for n, first, last in s.carried if wanted(n) for e in (first, last)]
        return exprs(s)

    def keep(self, block: Block, read: set[str]) -> None:
        kept = []
        for s in block:
            if isinstance(s, Let) and s.name in self.mine and s.name not in read and not _draws(s.value):
                continue
            if isinstance(s, Branch):
                s.merged = [m for m in s.merged if m[0] not in self.mine or m[0] in read]
                self.keep(s.then, read)
                self.keep(s.other, read)
                if not (s.then or s.other or s.merged):
                    continue
            elif isinstance(s, Loop):
                s.carried = [c for c in s.carried if c[0] not in self.mine or c[0] in read]
                self.keep(s.head, read)
                self.keep(s.body, read)
                if s.test is None and not (s.body or s.carried or s.trips):
                    continue
            kept.append(s)
        block[:] = kept


class _Copy:
    """Statements once more, with names of their own."""

    def __init__(self, of: _Numbers, body: Block) -> None:
        self.of, p = of, of.p
        self.names: dict[str, str] = {}
        inner = list(statements(body))
        for s in inner:
            for name in [*sets(s), *([s.var] if isinstance(s, Loop) and s.var else [])]:
                self.names[name] = of.fresh(name, p.kinds[name])
        for old, new in self.names.items():
            if old in p.natural:
                p.natural.add(new)
            for known in (p.defined, p.least, p.most):
                if old in known:
                    known[new] = self.expr(known[old])
            if old in of.short:
                of.short.add(new)
            if old in of.mine:
                of.mine.add(new)

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Name):
            return Name(self.names[e.name]) if e.name in self.names else e
        if isinstance(e, Load):
            return Load(e.base, tuple(map(self.expr, e.index)))
        return Apply(e.op, tuple(map(self.expr, e.args))) if isinstance(e, Apply) else e

    def name(self, n: str) -> str:
        return self.names.get(n, n)

    def block(self, block: Block) -> Block:
        return [self.statement(s) for s in block]

    def statement(self, s: object) -> object:
        e = self.expr
        if isinstance(s, Let):
            return Let(self.name(s.name), e(s.value))
        if isinstance(s, Store | Add):
            return type(s)(s.base, tuple(map(e, s.index)), e(s.value))
        if isinstance(s, Make):
            return Make(s.base, tuple(map(e, s.extents)), s.zeros)
        if isinstance(s, Branch):
            merged = [(self.name(n), e(a), e(b)) for n, a, b in s.merged]
            return Branch(e(s.test), self.block(s.then), self.block(s.other), merged)
        if isinstance(s, Raise):
            return Raise(s.text)
        assert isinstance(s, Loop)
        made = Loop(self.block(s.body), [(self.name(n), e(a), e(b)) for n, a, b in s.carried])
        made.var, made.start, made.step, made.count = self.name(s.var), e(s.start), s.step, e(s.count)
        made.head, made.test = self.block(s.head), None if s.test is None else e(s.test)
        made.stopped = None if s.stopped is None else e(s.stopped)
        made.trips, made.parallel = self.name(s.trips), s.parallel
        if made.var:
            self.of.loops[made.var] = made
        return made


def _draws(e: Expr) -> bool:
    """Is it a number of np.random, of which the next ones depend?"""
    return any(isinstance(n, Apply) and n.op.startswith("draw_") for n in walk(e))


__all__ = ["as_numbers"]
