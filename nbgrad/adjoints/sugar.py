"""What Python says shortly, at length: comprehensions, lists that grow, functions inside of functions, `else` of loops.

Promises `exits` statements without these. A list that grows is an array, `LIST`, of which a counter of its own says how much is used; a
function inside is a statement, and who names it says which names it reads, so that loops know what they hand on.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

LIST, PUSH, HELD = (
    "@list",
    "@push",
    "@held",
)  # what lowering knows under these names: room, storing at a place, what there is
CHANGES, SAME, ANEW = (
    "@changes",
    "@same",
    "@anew",
)  # of lists: one changes, is another by its name, begins anew
DICT, PUT, MERGE = (
    "@dict",
    "@put",
    "@merge",
)  # and of dictionaries: a new one, one with another value, with those of another
_GOES_BEFORE = (ast.NamedExpr, ast.ListComp, ast.GeneratorExp, ast.Lambda)  # of a statement
_CHANGES = {"append", "pop", "extend", "clear"}


class Reading(ast.Name):
    """The name of a function inside, with the names that it reads where it is called."""

    _fields = ("id", "ctx", "also")
    _field_types: ClassVar[dict[str, Any]] = {  # asked for from Python 3.13 on
        **getattr(ast.Name, "_field_types", {}),
        "also": list[ast.expr],
    }


def plainly(tree: ast.FunctionDef) -> list[ast.stmt]:
    tree = _Apart().visit(tree)
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
        a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)
    }
    return _Plain(names, _lists(tree), _changed(tree), _dicts(tree)).block(tree.body)


def of_two_names(s: ast.stmt) -> str | None:
    """The list that grows and gets another name, which would not see how it goes on."""
    return getattr(s, "of_two_names", None)


def _own(body: Sequence[ast.stmt]) -> list[ast.AST]:
    """All that stands in statements, but what stands in functions inside."""
    found: list[ast.AST] = []
    left: list[ast.AST] = list(body)
    while left:
        n = left.pop()
        found.append(n)
        if not isinstance(n, ast.FunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(n)
    return found


def _changed(tree: ast.FunctionDef) -> dict[str, int]:
    """Names of what is made longer or shorter, and the line behind which it is not: in a loop, that loop's last."""
    own, found = _own(tree.body), dict[str, int]()
    loops = [n for n in own if isinstance(n, ast.For | ast.While)]
    for n in own:
        f = n.func if isinstance(n, ast.Call) else None
        if isinstance(f, ast.Attribute) and f.attr in _CHANGES and isinstance(f.value, ast.Name):
            ends = [n for n in loops if n.lineno <= f.lineno <= (n.end_lineno or 0)]
            last = max([n.end_lineno or 0 for n in (*ends, f)])
            found[f.value.id] = max(last, found.get(f.value.id, 0))
    return found


def _lists(tree: ast.FunctionDef) -> set[str]:
    """Names of lists that grow, or are made by a loop."""
    changed = _changed(tree)
    found = {*changed}
    own = _own(tree.body)
    given: dict[str, list[ast.expr]] = {}
    for n in own:
        if isinstance(n, ast.Assign):
            for t in n.targets:
                if isinstance(t, ast.Name):
                    given.setdefault(t.id, []).append(n.value)
    named = {
        t.value.id
        for n in own
        for t in _written(n)
        if isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name)
    }
    found |= {n for n in named if all(isinstance(v, ast.List | ast.ListComp) for v in given.get(n, []))}
    for n in own:
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.ListComp):
            found |= {t.id for t in n.targets if isinstance(t, ast.Name)}
    of_lists = set()
    for n in _own(tree.body):
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.List | ast.ListComp):
            of_lists |= {t.id for t in n.targets if isinstance(t, ast.Name)}
    found &= of_lists
    while (
        more := {
            n
            for n, values in given.items()
            if any(isinstance(v, ast.Name) and v.id in found and _goes_on(n, v, changed) for v in values)
            and all(
                isinstance(v, ast.List | ast.ListComp) or (isinstance(v, ast.Name) and v.id in found)
                for v in values
            )
        }
        - found
    ):
        found |= more  # those that are one of them by another name
    return found


def _goes_on(name: str, other: ast.Name, changed: dict[str, int]) -> bool:
    """Does a list that gets another name change afterwards, under either?"""
    return name in changed or other.lineno <= changed.get(other.id, 0)


def _written(n: ast.AST) -> list[ast.expr]:
    return n.targets if isinstance(n, ast.Assign) else [n.target] if isinstance(n, ast.AugAssign) else []


def _dicts(tree: ast.FunctionDef) -> set[str]:
    """Names that are bound to a dictionary."""
    found = set()
    for n in _own(tree.body):
        if isinstance(n, ast.Assign):
            f = n.value.func if isinstance(n.value, ast.Call) else None
            if isinstance(n.value, ast.Dict | ast.DictComp) or (isinstance(f, ast.Name) and f.id == "dict"):
                found |= {t.id for t in n.targets if isinstance(t, ast.Name)}
    return found


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _set(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(_load(name), list(args), [])


def _plus(name: str, by: int) -> ast.expr:
    return ast.BinOp(_load(name), ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))


class _Plain(ast.NodeTransformer):
    def __init__(self, taken: set[str], lists: set[str], changed: dict[str, int], dicts: set[str]) -> None:
        self.taken, self.lists, self.dicts = taken, lists, dicts
        self.changed = {name: line for name, line in changed.items() if name in lists}
        self.begun: set[str] = set()  # lists that the function itself begins, outside of loops and branches
        self.depth = 0
        self.inside: dict[str, list[ast.expr]] = {}
        self.before: list[ast.stmt] | None = (
            None  # statements that come before the one that we are in; None where none may
        )

    def fresh(self, hint: str) -> str:
        name, k = hint, 0
        while name in self.taken:
            k += 1
            name = f"{hint}_{k}"
        self.taken.add(name)
        return name

    def counter(self, name: str) -> str:
        return f"{name}_length"

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        self.depth += 1
        for s in body:
            outer, self.before = self.before, []
            self.statement = getattr(s, "iter", None) or getattr(s, "test", None) or s
            new = self.visit(s)
            listed = new if isinstance(new, list) else [new]
            for n in (*self.before, *listed):
                done.append(ast.fix_missing_locations(ast.copy_location(n, s)))
            self.before = outer
        self.depth -= 1
        return done

    # ------------------------------------------------ statements with blocks

    def visit_If(self, s: ast.If) -> Any:
        test = self.visit(self.asked(s.test))
        return ast.If(test, self.block(s.body), self.block(s.orelse))

    def visit_For(self, s: ast.For) -> Any:
        return self.with_else(s, ast.For(s.target, self.visit(s.iter), self.block(s.body), [], None))

    def visit_While(self, s: ast.While) -> Any:
        outer, self.before = self.before, None
        first = copy.deepcopy(s.test)
        test = self.visit(self.asked(s.test))
        new = self.with_else(s, ast.While(test, self.block(s.body), []))
        if any(isinstance(n, _GOES_BEFORE) for n in ast.walk(test)):
            loop = next(n for n in new if isinstance(n, ast.While)) if isinstance(new, list) else new
            loop.test = ast.Constant(True)
            tests = (
                first.values if isinstance(first, ast.BoolOp) and isinstance(first.op, ast.And) else [first]
            )
            loop.body[:0] = [b for t in tests for b in self.left_unless(t)]
        self.before = outer
        return new

    def left_unless(self, test: ast.expr) -> list[ast.stmt]:
        """A test of `while` as a turn's first statements, behind those that it needs."""
        self.before, self.statement = [], test
        ends = ast.If(ast.UnaryOp(ast.Not(), self.visit(self.asked(test))), [ast.Break()], [])
        return [*self.before, ends]

    def asked(self, e: ast.expr) -> ast.expr:
        """A list as a condition is its length."""
        if isinstance(e, ast.Name) and e.id in self.lists:
            return ast.copy_location(_load(self.counter(e.id)), e)
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not):
            e.operand = self.asked(e.operand)
        elif isinstance(e, ast.BoolOp):
            e.values = [self.asked(v) for v in e.values]
        return e

    def with_else(self, s: ast.For | ast.While, new: ast.For | ast.While) -> Any:
        if not s.orelse:
            return new
        flag = self.fresh("ended")
        broken = _Broken(flag)
        new.body = [b for part in new.body for b in broken.each(part)]
        return [_set(flag, ast.Constant(True)), new, ast.If(_load(flag), self.block(s.orelse), [])]

    def visit_FunctionDef(self, s: ast.FunctionDef) -> Any:
        body = plainly(s)
        a = s.args
        own = {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
        own |= {
            n.id
            for b in body
            for n in ast.walk(b)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        read = {n.id for b in body for n in ast.walk(b) if isinstance(n, ast.Name)} - own
        self.inside[s.name] = [_load(n) for n in sorted(read)]
        for n in read:
            self.inside[s.name] += self.inside.get(n, [])
        return ast.FunctionDef(s.name, a, body, s.decorator_list, s.returns)

    def visit_Assign(self, s: ast.Assign) -> Any:
        target = s.targets[0]
        if len(s.targets) == 1 and isinstance(target, ast.Name):
            if isinstance(s.value, ast.Lambda):
                return self.function(target.id, s.value)
            if target.id in self.lists:
                return self.made(target.id, s.value)
        if len(s.targets) == 1 and isinstance(target, ast.Subscript) and self.of_dict(target):
            return self.put(target, self.visit(s.value))
        given = s.value.elts if isinstance(s.value, ast.Tuple | ast.List) else [s.value]
        for e in given:
            if isinstance(e, ast.Name) and s.lineno <= self.changed.get(e.id, 0):
                s.of_two_names = e.id  # type: ignore[attr-defined]
        return self.generic_visit(s)

    def visit_AugAssign(self, s: ast.AugAssign) -> Any:
        if isinstance(s.target, ast.Subscript) and self.of_dict(s.target):
            return self.put(s.target, self.visit(s.value), ast.Constant(type(s.op).__name__))
        return self.generic_visit(s)

    def of_dict(self, t: ast.Subscript) -> bool:
        """Is what is written an item of a dictionary, or of one inside of it? A string is a key of nothing else."""
        keys = [t]
        while isinstance(keys[-1].value, ast.Subscript):
            keys.append(keys[-1].value)
        root, key = keys[-1].value, t.slice
        named = isinstance(key, ast.Constant) and isinstance(key.value, str)
        return isinstance(root, ast.Name) and (named or (root.id in self.dicts and len(keys) == 1))

    def put(self, t: ast.Subscript, value: ast.expr, *op: ast.expr) -> ast.stmt:
        """d[k] = v, of which the name is bound to what it is from there on."""
        of = copy.deepcopy(t.value)
        for n in ast.walk(of):
            if hasattr(n, "ctx"):
                n.ctx = ast.Load()
        root: ast.expr = of
        while isinstance(root, ast.Subscript):
            root = root.value
        assert isinstance(root, ast.Name)
        new = _call(PUT, ast.Constant(root.id), self.visit(of), self.visit(t.slice), value, *op)
        if isinstance(t.value, ast.Name):
            return _set(t.value.id, new)
        assert isinstance(t.value, ast.Subscript)
        return self.put(t.value, new)

    def function(self, name: str, f: ast.Lambda) -> Any:
        body: list[ast.stmt] = [ast.Return(f.body)]
        made = ast.FunctionDef(name, f.args, body, [], None)
        return self.visit_FunctionDef(ast.fix_missing_locations(ast.copy_location(made, f)))

    def visit_Expr(self, s: ast.Expr) -> Any:
        f = s.value.func if isinstance(s.value, ast.Call) else None
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id in self.lists:
            assert isinstance(s.value, ast.Call)
            name, given = f.value.id, s.value.args
            if f.attr == "append" and len(given) == 1:
                return self.pushed(name, self.visit(given[0]))
            if f.attr == "extend" and len(given) == 1:
                v = self.fresh("v")
                push = self.pushed(name, _load(v))
                return [ast.For(ast.Name(v, ast.Store()), self.visit(given[0]), push, [], None)]
            if f.attr == "clear":
                return [ast.Expr(_call(CHANGES, _load(name))), _set(self.counter(name), ast.Constant(0))]
            if f.attr == "pop" and not given:
                return self.shorter(name)
        owner = f.value if isinstance(f, ast.Attribute) and f.attr == "update" else None
        if isinstance(owner, ast.Name) and owner.id in self.dicts:
            assert isinstance(s.value, ast.Call)
            merged = ast.Call(_load(MERGE), [ast.Constant(owner.id), owner, *s.value.args], s.value.keywords)
            return _set(owner.id, self.visit(merged))
        return self.generic_visit(s)

    # ------------------------------------------------ lists

    def made(self, name: str, value: ast.expr) -> list[ast.stmt]:
        """A list; where it is bound anew in a loop or a branch, in the room that the name has."""
        first: list[ast.stmt] = [_set(name, _call(LIST)), _set(self.counter(name), ast.Constant(0))]
        if name in self.begun and self.depth > 1:
            first[0] = ast.Expr(_call(ANEW, _load(name)))
        elif self.depth == 1:
            self.begun.add(name)
        if isinstance(value, ast.List):
            held = [self.fresh("v") for _ in value.elts]  # what is read may be the list itself
            set_first = [_set(h, self.kept(e)) for h, e in zip(held, value.elts)]
            pushes = [p for h, e in zip(held, value.elts) for p in self.pushed_of(name, h, e)]
            return set_first + first + pushes
        if isinstance(value, ast.ListComp):
            if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(value)):
                before = self.fresh("held")  # of what it was
                return [_set(before, self.visit_ListComp(value)), *first, *self.pushes_of(name, before)]
            return first + self.comprehended(name, value)
        if isinstance(value, ast.Name) and value.id in self.lists:  # of which it has a copy
            other = self.fresh("held")
            same = ast.Expr(_call(SAME, _load(name), _load(value.id)))
            return [_set(other, self.visit(value)), *first, *self.pushes_of(name, other), same]
        return [_set(name, self.visit(value))]

    def pushes_of(self, name: str, held: str) -> list[ast.stmt]:
        v = self.fresh("v")
        return [ast.For(ast.Name(v, ast.Store()), _load(held), self.pushed(name, _load(v)), [], None)]

    def kept(self, e: ast.expr) -> ast.expr:
        """What a display holds; of `*x` a copy, as it may be the list itself."""
        if not isinstance(e, ast.Starred):
            return self.visit(e)
        return ast.Call(ast.Attribute(self.visit(e.value), "copy", ast.Load()), [], [])

    def pushed_of(self, name: str, held: str, e: ast.expr) -> list[ast.stmt]:
        if not isinstance(e, ast.Starred):
            return self.pushed(name, _load(held))
        v = self.fresh("v")
        return [ast.For(ast.Name(v, ast.Store()), _load(held), self.pushed(name, _load(v)), [], None)]

    def shorter(self, name: str) -> list[ast.stmt]:
        n = self.counter(name)
        none = ast.Raise(_call("IndexError", ast.Constant("pop from empty list")))
        return [
            ast.Expr(_call(CHANGES, _load(name))),
            ast.If(ast.Compare(_load(n), [ast.Lt()], [ast.Constant(1)]), [none], []),
            _set(n, _plus(n, -1)),
        ]

    def pushed(self, name: str, value: ast.expr) -> list[ast.stmt]:
        n = self.counter(name)
        return [ast.Expr(_call(PUSH, ast.Name(name, ast.Load()), _load(n), value)), _set(n, _plus(n, 1))]

    def comprehended(
        self,
        name: str,
        c: ast.ListComp | ast.GeneratorExp,
        pushed: Callable[[ast.expr], list[ast.stmt]] | None = None,
    ) -> list[ast.stmt]:
        new = {
            n.id: self.fresh(n.id)
            for g in c.generators
            for n in ast.walk(g.target)
            if isinstance(n, ast.Name)
        }  # what a comprehension binds is its own
        rename = _Rename(new)
        outer, self.before = self.before, []
        value = self.visit(rename.visit(c.elt))
        body = [*self.before, *(pushed(value) if pushed else self.pushed(name, value))]
        self.before = outer
        for k, g in reversed(list(enumerate(c.generators))):
            for test in reversed(g.ifs):
                body = [ast.If(self.visit(rename.visit(test)), body, [])]
            over = g.iter if k == 0 else rename.visit(g.iter)  # the first is read where nothing is bound yet
            body = [ast.For(rename.visit(g.target), self.visit(over), body, [], None)]
        return body

    def visit_ListComp(self, e: ast.ListComp | ast.GeneratorExp) -> Any:
        if self.before is None:
            return e
        name = self.fresh("items")
        made = [_set(name, _call(LIST)), _set(self.counter(name), ast.Constant(0))]
        made += self.comprehended(name, e)
        self.before += [ast.fix_missing_locations(ast.copy_location(m, e)) for m in made]
        return _call(HELD, _load(name), _load(self.counter(name)))

    def visit_DictComp(self, e: ast.DictComp) -> Any:
        if self.before is None:
            return e
        name = self.fresh("items")
        pairs = ast.ListComp(ast.Tuple([e.key, e.value], ast.Load()), e.generators)

        def put(pair: ast.expr) -> list[ast.stmt]:
            assert isinstance(pair, ast.Tuple)
            return [_set(name, _call(PUT, ast.Constant(name), _load(name), *pair.elts))]

        made = [_set(name, _call(DICT)), *self.comprehended(name, pairs, put)]
        for n in made:
            for loop in ast.walk(n):
                if isinstance(loop, ast.For):
                    loop.by_keys = True  # type: ignore[attr-defined]
        self.before += [ast.fix_missing_locations(ast.copy_location(m, e)) for m in made]
        return _load(name)

    def visit_GeneratorExp(self, e: ast.GeneratorExp) -> Any:
        return self.visit_ListComp(e)

    def visit_Lambda(self, e: ast.Lambda) -> Any:
        if self.before is None:
            return e
        name = self.fresh("inner")
        self.before.append(self.function(name, e))
        return self.visit(_load(name))

    def visit_Name(self, e: ast.Name) -> Any:
        if isinstance(e.ctx, ast.Load) and e.id in self.lists:
            return ast.copy_location(_call(HELD, e, _load(self.counter(e.id))), e)
        if isinstance(e.ctx, ast.Load) and e.id in self.inside:
            named = Reading(e.id, e.ctx)
            named.also = self.inside[e.id]  # type: ignore[attr-defined]
            return ast.copy_location(named, e)
        return e

    def visit_Call(self, e: ast.Call) -> Any:
        f = e.func
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id in self.lists:
            if f.attr == "pop" and not e.args and self.before is not None:
                name, taken = f.value.id, self.fresh("taken")
                n = self.counter(name)
                read = ast.Subscript(_call(HELD, _load(name), _plus(n, 1)), _load(n), ast.Load())
                pops = [id(c.func.value) for c in ast.walk(self.statement) if _pops(c)]  # type: ignore[attr-defined]
                others = [
                    m for m in ast.walk(self.statement) if isinstance(m, ast.Name) and id(m) not in pops
                ]
                if any(m.id == name for m in others):
                    return e  # which of them is first?
                self.before += [*self.shorter(name), _set(taken, read)]
                return _load(taken)
            if f.attr in ("copy", "sort"):
                return self.generic_visit(e)
            return e  # refused by its name
        return self.generic_visit(e)

    def visit_IfExp(self, e: Any) -> Any:
        """What may not be reached: nothing of it goes before."""
        test = self.visit(e.test)
        outer, self.before = self.before, None
        body, other = self.visit(e.body), self.visit(e.orelse)
        self.before = outer
        return ast.copy_location(ast.IfExp(test, body, other), e)

    def visit_BoolOp(self, e: Any) -> Any:
        first = self.visit(e.values[0])
        outer, self.before = self.before, None
        rest = [self.visit(v) for v in e.values[1:]]
        self.before = outer
        return ast.copy_location(ast.BoolOp(e.op, [first, *rest]), e)

    def visit_NamedExpr(self, e: ast.NamedExpr) -> Any:
        """A name that is set where nothing of the statement has read it, nor calls what might write."""
        place = e.lineno, e.col_offset
        before = [
            n
            for n in ast.walk(self.statement)
            if isinstance(n, ast.Name | ast.Call) and (n.lineno, n.col_offset) < place
        ]
        known = [n for n in before if isinstance(n, ast.Call) and (n.end_lineno, n.end_col_offset) <= place]
        if (
            self.before is None
            or known
            or any(isinstance(n, ast.Name) and n.id == e.target.id for n in before)
        ):
            return e  # refused by its name
        value = self.visit(e.value)
        self.before.append(_set(e.target.id, value))
        return ast.copy_location(_load(e.target.id), e)


def _pops(e: Any) -> bool:
    return isinstance(e, ast.Call) and isinstance(e.func, ast.Attribute) and e.func.attr == "pop"


class _Apart(ast.NodeTransformer):
    """a, b = [], 0.0 as two statements."""

    def visit_Assign(self, s: ast.Assign) -> Any:
        t, v = s.targets[0], s.value
        if (
            len(s.targets) > 1
            or not isinstance(t, ast.Tuple | ast.List)
            or not isinstance(v, ast.Tuple | ast.List)
        ):
            return s
        free = all(isinstance(e, ast.Constant) or (isinstance(e, ast.List) and not e.elts) for e in v.elts)
        if not free or len(t.elts) != len(v.elts) or not all(isinstance(e, ast.Name) for e in t.elts):
            return s
        return [ast.copy_location(ast.Assign([a], b), b) for a, b in zip(t.elts, v.elts)]


class _Rename(ast.NodeTransformer):
    def __init__(self, new: dict[str, str]) -> None:
        self.new = new

    def visit_Name(self, e: ast.Name) -> Any:
        return ast.copy_location(ast.Name(self.new.get(e.id, e.id), e.ctx), e)


class _Broken(ast.NodeTransformer):
    """A name is set before each `break` of the loop itself."""

    def __init__(self, flag: str) -> None:
        self.flag = flag

    def each(self, s: ast.stmt) -> list[ast.stmt]:
        new = self.visit(s)
        return new if isinstance(new, list) else [new]

    def visit_Break(self, s: ast.Break) -> Any:
        return [ast.fix_missing_locations(ast.copy_location(_set(self.flag, ast.Constant(False)), s)), s]

    def visit_For(self, s: Any) -> Any:
        return s

    def visit_While(self, s: Any) -> Any:
        return s

    def visit_FunctionDef(self, s: Any) -> Any:
        return s
