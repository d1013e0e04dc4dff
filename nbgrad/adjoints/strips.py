"""Neighbouring loops, strip by strip: of arrays that are longer than what is near to the processor, each loop would fetch all that the
loop before it has just had.

Promises the same operations on each element in the same order: what two loops have in common says how far the later one has to stay
behind, and one that cannot follow begins anew. How many turns they have need not be the same. Statements between them move before or
behind all, where nothing notices.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

NEAR = 1 << 15  # bytes that the arrays of a strip shall take
_FAR = 64  # turns that a loop may stay behind

Place = (
    tuple[str, int] | str | None
)  # where the counter stands, from something on; what does not change; or anywhere


@dataclass(eq=False)
class _Effect:
    """What statements read and write: names, and elements of arrays."""

    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)  # which are loads as well

    def meets(self, other: _Effect) -> bool:
        """Would it matter which of them comes first?"""
        return self.meets_names(other) or bool(self.stores & other.loads or other.stores & self.loads)

    def meets_names(self, other: _Effect) -> bool:
        return bool(self.binds & (other.reads | other.binds) or other.binds & self.reads)


@dataclass(eq=False)
class _Stage:
    loop: ast.For
    counter: str
    effect: _Effect
    places: list[tuple[str, tuple[Place, ...], bool]]  # an array, where, and whether it is written there
    behind: int = 0


def by_strips(function: ast.FunctionDef) -> None:
    arrays = {
        n.value.id
        for n in ast.walk(function)
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
    }
    taken = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    function.body = _Strips(arrays, taken).block(function.body)


class _Strips:
    def __init__(self, arrays: set[str], taken: set[str]) -> None:
        self.arrays, self.taken = arrays, taken

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        group = _Group()
        for s in body:
            if isinstance(s, ast.If):
                s.body, s.orelse = self.block(s.body), self.block(s.orelse)
            stage = self.stage(s) if isinstance(s, ast.For) else None
            if stage is not None:
                if not group.follows(stage):
                    done += self.written(group)
                    group = _Group()
                    group.follows(stage)
                continue
            if isinstance(s, ast.For | ast.While):
                s.body = self.block(s.body)
            effect = self.effect([s]) if isinstance(s, ast.Assign | ast.AugAssign) else None
            if group.stages and effect is not None:
                group.passes(s, effect)
                continue
            done += [*self.written(group), s]
            group = _Group()
        return done + self.written(group)

    def written(self, group: _Group) -> list[ast.stmt]:
        if not group.worth():
            return group.as_it_was
        strip, length = self.fresh("strip"), group.length()
        counts = [ast.unparse(q.loop.iter.args[0]) for q in group.stages]  # type: ignore[attr-defined]
        ends = dict.fromkeys(f"{n} + {q.behind}" if q.behind else n for n, q in zip(counts, group.stages))
        end = f"max({', '.join(ends)})" if len(ends) > 1 else next(iter(ends))
        outer = ast.parse(f"for {strip} in range(0, {end}, {length}):\n pass").body[0]
        assert isinstance(outer, ast.For)
        outer.body = []
        for n, q in zip(counts, group.stages):
            low = f"max({strip} - {q.behind}, 0)" if q.behind else strip
            head = f"range({low}, min({strip} + {length - q.behind}, {n}))"
            q.loop.iter = ast.parse(head, mode="eval").body
            for s in q.loop.body:
                _Sure(q.counter).visit(s)
            outer.body.append(q.loop)
        return [*group.before, outer, *group.after]

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    # ------------------------------------------------ what is there

    def effect(self, nodes: Iterable[ast.AST]) -> _Effect | None:
        """Nothing where an array is looked at as a whole, or something is called for what it does."""
        found = _Effect()
        shown: set[int] = set()
        for n in (n for node in nodes for n in ast.walk(node)):
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name):
                shown.add(id(n.value))
                found.reads.add(n.value.id)
                if isinstance(n.ctx, ast.Store):
                    found.stores.add(n.value.id)
                found.loads.add(n.value.id)
            elif isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name):
                shown.add(id(n.value))
                if n.attr == "shape":
                    found.reads.add(n.value.id)
                elif n.value.id not in ("math", "np"):
                    return None
            elif isinstance(n, ast.Name) and id(n) not in shown:
                if n.id in self.arrays:
                    return None
                (found.binds if isinstance(n.ctx, ast.Store) else found.reads).add(n.id)
            elif isinstance(n, ast.Slice | ast.Starred | ast.NamedExpr | ast.Lambda) or not _is_plain(n):
                return None
        return found

    def stage(self, loop: ast.For) -> _Stage | None:
        of = loop.iter
        if not (isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "range"):
            return None
        if len(of.args) != 1 or isinstance(of.args[0], ast.Constant) or not isinstance(loop.target, ast.Name):
            return None
        if loop.orelse or not all(isinstance(s, ast.Assign | ast.AugAssign) for s in loop.body):
            return None
        effect, count = self.effect([*loop.body, of.args[0]]), self.effect([of.args[0]])
        if effect is None or count is None or count.loads:
            return None
        counter = loop.target.id
        effect.binds.add(counter)
        own = Counter(
            n.id
            for s in loop.body
            for n in ast.walk(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
        if any(own[n] for n in count.reads) or own[counter] or _carries(loop.body, own):
            return None
        where: dict[str, tuple[str, int]] = {counter: ("", 0)}
        places: list[tuple[str, tuple[Place, ...], bool]] = []
        for s in loop.body:
            for n in ast.walk(s):
                if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name):
                    index = n.slice.elts if isinstance(n.slice, ast.Tuple) else [n.slice]
                    write = isinstance(n.ctx, ast.Store)
                    places.append((n.value.id, tuple(_place(i, where, own) for i in index), write))
            if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
                name = s.targets[0].id
                found = _from_counter(s.value, where, own)
                if found is not None and own[name] == 1:
                    where[name] = found
        return _Stage(loop, counter, effect, places)


class _Group:
    """Loops that go together, and what stands between them."""

    def __init__(self) -> None:
        self.stages: list[_Stage] = []
        self.before: list[ast.stmt] = []
        self.after: list[ast.stmt] = []
        self.sunk: list[_Effect] = []
        self.as_it_was: list[ast.stmt] = []

    def follows(self, stage: _Stage) -> bool:
        if any(stage.effect.meets(e) for e in self.sunk):
            return False
        behind = 0
        for q in self.stages:
            far = _behind(q, stage)
            if far is None:
                return False
            behind = max(behind, q.behind + far)
        if behind > _FAR:
            return False
        stage.behind = behind
        self.stages.append(stage)
        self.as_it_was.append(stage.loop)
        return True

    def passes(self, s: ast.stmt, effect: _Effect) -> None:
        """It goes before all loops that there are, or else behind those that come."""
        if not any(effect.meets(q.effect) for q in self.stages) and not any(map(effect.meets, self.sunk)):
            self.before.append(s)
        else:
            self.after.append(s)
            self.sunk.append(effect)
        self.as_it_was.append(s)

    def worth(self) -> bool:
        of = [q.effect.loads for q in self.stages]
        return len(of) > 1 and any(a & b for a, b in pairwise(of))

    def length(self) -> int:
        """Turns of a strip."""
        arrays = len(set().union(*(q.effect.loads for q in self.stages)))
        return max(_FAR, 1 << (NEAR // (8 * arrays)).bit_length() - 1)


def _carries(body: Sequence[ast.stmt], own: Counter[str]) -> bool:
    """Does a turn hand on numbers? A sum by strips would be added up more often."""
    known: set[str] = set()
    for s in body:
        names = [n for n in ast.walk(s) if isinstance(n, ast.Name)]
        bound = {n.id for n in names if isinstance(n.ctx, ast.Store)}
        read = {n.id for n in names if isinstance(n.ctx, ast.Load)} | (
            bound if isinstance(s, ast.AugAssign) else set()
        )
        if any(own[n] for n in read - known):
            return True
        known |= bound
    return False


def _behind(p: _Stage, q: _Stage) -> int | None:
    """How many turns `q`, which comes later, has to stay behind; nothing if it must not begin before `p` is over."""
    if p.effect.meets_names(q.effect):
        return None
    far = 0
    common = (p.effect.stores & q.effect.loads) | (q.effect.stores & p.effect.loads)
    for a, at, writes in p.places:
        if a not in common:
            continue
        for b, there, writes_too in q.places:
            if a != b or not (writes or writes_too):
                continue
            apart = _apart(at, there)
            if apart is None:
                return None
            far = max(far, *apart)
    return far


def _apart(at: tuple[Place, ...], there: tuple[Place, ...]) -> list[int] | None:
    """By how many turns the first comes to an element later than the second does: one number, [0] if they have none in common, nothing
    if that is not known."""
    found: set[int] = set()
    for a, b in zip(at, there):
        if isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0]:
            found.add(b[1] - a[1])
        elif isinstance(a, str) and isinstance(b, str) and a.isdecimal() and b.isdecimal() and a != b:
            return [0]
    if len(found) > 1:
        return [0]
    return [*found] or None


def _is_plain(call: ast.AST) -> bool:
    """Is it no call, or one of a function of numbers that gives a number?"""
    if not isinstance(call, ast.Call):
        return True
    of = call.func
    if isinstance(of, ast.Attribute):
        return isinstance(of.value, ast.Name) and of.value.id in ("math", "np") and of.attr not in _MAKERS
    return isinstance(of, ast.Name) and (of.id in _PLAIN or of.id.startswith("own_"))


_PLAIN = {"u", "max", "min", "abs", "float", "int", "bool", "add_up", "rise", "fall"}
_MAKERS = {"empty", "zeros", "dot", "outer"}


def _place(i: ast.expr, where: dict[str, tuple[str, int]], own: Counter[str]) -> Place:
    """Where an index points to. One that may count from the end does so anywhere."""
    if isinstance(i, ast.Call) and isinstance(i.func, ast.Name) and i.func.id == "u":
        (i,) = i.args
        found = _from_counter(i, where, own)
        if found is not None:
            return found
    elif isinstance(i, ast.Name) and where.get(i.id) == ("", 0):
        return "", 0
    return str(i.value) if isinstance(i, ast.Constant) and isinstance(i.value, int) else None


def _from_counter(
    e: ast.expr, where: dict[str, tuple[str, int]], own: Counter[str]
) -> tuple[str, int] | None:
    """The counter with something added: what, and how much."""
    terms = _terms(e)
    if terms is None:
        return None
    counters = [where[n] for n, sign in terms if n in where and sign == 1]
    if len(counters) != 1:
        return None
    ((others, much),) = counters
    rest = [others] if others else []
    for n, sign in terms:
        if n in where and sign == 1:
            continue
        if n.lstrip("-").isdecimal():
            much += sign * int(n)
        elif n in where or own[n]:
            return None
        else:
            rest.append(f"{'-' if sign < 0 else '+'}{n}")
    return "".join(sorted(rest)), much


def _terms(e: ast.expr, sign: int = 1) -> list[tuple[str, int]] | None:
    """Names and whole numbers that are added up."""
    if isinstance(e, ast.Name):
        return [(e.id, sign)]
    if isinstance(e, ast.Constant) and type(e.value) is int:
        return [(str(e.value), sign)]
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add | ast.Sub):
        left, right = _terms(e.left, sign), _terms(e.right, -sign if isinstance(e.op, ast.Sub) else sign)
        return None if left is None or right is None else left + right
    return None


class _Sure(ast.NodeTransformer):
    """Indices that are the counter: it no longer begins at zero, from which Numba knew that it counts from no end."""

    def __init__(self, counter: str) -> None:
        self.counter = counter

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        sure = [
            ast.Call(ast.Name("u", ast.Load()), [i], [])
            if isinstance(i, ast.Name) and i.id == self.counter
            else i
            for i in index
        ]
        node.slice = ast.Tuple(sure, ast.Load()) if isinstance(node.slice, ast.Tuple) else sure[0]
        return node


__all__ = ["by_strips"]
