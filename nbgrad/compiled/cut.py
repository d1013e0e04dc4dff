"""Where a function is cut, so that what no program can hold is done by Python and the rest by programs.

Promises `cut(tree, local, marked)`: the function anew, in which runs of statements are calls of pieces, and the pieces, functions of the
names that they read which give back the names that are read behind them. Statements on `marked` lines stay as they are, but for what is
worked out first in them; without lines the longest run is halved. Whatever is not sure to mean the same is left in its place.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

PARTS, INNER = (
    "_nbgrad_parts",
    "_nbgrad_inner",
)  # names under which a function finds its pieces, and what compiles what it calls
_READS = {"item", "tolist", "numpy", "cpu"}
_READING = {"float", "int", "bool", "print", "len", "list"}
_WORK = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign)
_COMPOUND = (ast.If, ast.For, ast.While, ast.With)
# Contexts that let errors through: behind others a name may have the value that it had before.
_CONTEXTS = {
    "no_grad",
    "enable_grad",
    "inference_mode",
    "set_grad_enabled",
    "autocast",
    "record_function",
    "nullcontext",
}
_SCOPES = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MADE = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_REFUSED = (
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.AsyncFor,
    ast.AsyncWith,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)
_LOOKING = {
    "locals",
    "vars",
    "dir",
    "exec",
    "eval",
    "globals",
    "_getframe",
}  # that see the names of whoever calls


class Uncut(Exception):
    """Why a function is left whole."""


class _Use(NamedTuple):
    name: str
    how: str  # load, store, perhaps (a store that may not come), delete
    later: bool  # in a function that may be called later


def _uses(node: Any, bound: frozenset[str] = frozenset(), later: bool = False) -> Iterator[_Use]:
    """How names of the function are used in it, functions and comprehensions in it included."""
    if isinstance(node, list):
        for one in node:
            yield from _uses(one, bound, later)
    elif isinstance(node, ast.Name):
        if node.id not in bound:
            how = {ast.Load: "load", ast.Store: "store", ast.Del: "delete"}[type(node.ctx)]
            yield _Use(node.id, how, later)
    elif isinstance(node, ast.NamedExpr):
        yield from _uses(node.value, bound, later)
        yield _Use(node.target.id, "perhaps", later)
    elif isinstance(node, _MADE):
        targets = {u.name for g in node.generators for u in _uses(g.target) if u.how == "store"}
        inside, lazy = bound | targets, later or isinstance(node, ast.GeneratorExp)
        yield from _uses(node.generators[0].iter, bound, later)
        for k, g in enumerate(node.generators):
            if k:
                yield from _uses(g.iter, inside, lazy)
            yield from _uses(g.ifs, inside, lazy)
        for value in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            yield from _uses(value, inside, lazy)
    elif isinstance(node, ast.Lambda):
        yield from _uses([*node.args.defaults, *[d for d in node.args.kw_defaults if d]], bound, later)
        yield from _uses(node.body, bound | _parameters(node.args), True)
    elif isinstance(node, ast.FunctionDef):
        outside = [*node.decorator_list, *node.args.defaults, *[d for d in node.args.kw_defaults if d]]
        yield from _uses(outside, bound, later)
        own = {u.name for u in _uses(node.body) if u.how != "load"}
        yield from _uses(node.body, bound | _parameters(node.args) | own, True)
        yield _Use(node.name, "store", later)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield _Use(alias.asname or alias.name.split(".")[0], "store", later)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield _Use(node.target.id, "load", later)
        yield from _uses([node.value, node.target], bound, later)
    elif isinstance(node, ast.AST):
        name = (
            getattr(node, "name", None)
            if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar))
            else None
        )
        if isinstance(node, ast.MatchMapping):
            name = node.rest
        if name is not None:
            yield _Use(name, "perhaps", later)
        for child in ast.iter_child_nodes(node):
            yield from _uses(child, bound, later)


def _parameters(args: ast.arguments) -> frozenset[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return frozenset(a.arg for a in every if a is not None)


def _flow(stmts: Sequence[ast.stmt], sure: frozenset[str] | None) -> tuple[set[str], frozenset[str] | None]:
    """Names that may be read before they are given a value, and those that have one behind the statements, `sure` having one before;
    None where what is behind is never reached."""
    exposed: set[str] = set()

    def read(node: Any, sure: frozenset[str]) -> None:
        exposed.update(u.name for u in _uses(node) if u.how in ("load", "delete") and u.name not in sure)

    def stored(node: Any) -> frozenset[str]:
        return frozenset(u.name for u in _uses(node) if u.how == "store")

    def behind(stmts: Sequence[ast.stmt], sure: frozenset[str] | None) -> frozenset[str] | None:
        more, after = _flow(stmts, sure)
        exposed.update(more)
        return after

    for s in stmts:
        if sure is None:
            break
        if isinstance(s, ast.If):
            read(s.test, sure)
            sure = _both(behind(s.body, sure), behind(s.orelse, sure))
        elif isinstance(s, ast.For):
            read(s.iter, sure)
            read(s.target, sure)
            behind(s.body, sure | stored(s.target))
            behind(s.orelse, sure)
        elif isinstance(s, ast.While):
            read(s.test, sure)
            behind(s.body, sure)
            behind(s.orelse, sure)
        elif isinstance(s, ast.With):
            for item in s.items:
                read(item, sure)
                sure |= stored(item.optional_vars) if item.optional_vars is not None else frozenset()
            sure = behind(s.body, sure)
        elif isinstance(s, ast.Try):
            done = behind(s.body, sure)
            behind(s.orelse, done)
            for handler in s.handlers:
                read(handler.type, sure)
                behind(handler.body, sure | ({handler.name} if handler.name else set()))
            last = behind(s.finalbody, sure)
            sure = last
        else:
            read(s, sure)
            if isinstance(s, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
                sure = None
            elif isinstance(s, ast.Delete):
                sure -= {u.name for u in _uses(s) if u.how == "delete"}
            elif not isinstance(s, ast.Match):
                sure |= stored(s)
    return exposed, sure


def _both(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
    return b if a is None else a if b is None else a & b


def _reads(nodes: Any) -> set[str]:
    return {u.name for u in _uses(nodes) if u.how in ("load", "delete")}


def _leaves(node: ast.stmt, loops: int = 0) -> bool:
    """Whether a `return`, `break` or `continue` leads out of it."""
    if isinstance(node, ast.Return):
        return True
    if isinstance(node, (ast.Break, ast.Continue)):
        return not loops
    if isinstance(node, _SCOPES):
        return False
    for field, value in ast.iter_fields(node):
        inside = loops + (isinstance(node, (ast.For, ast.While)) and field == "body")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)) and _leaves(child, inside):  # type: ignore[arg-type]
                return True
    return False


class _Cutter:
    def __init__(self, tree: ast.FunctionDef, local: set[str], marked: set[int]) -> None:
        self.tree, self.marked = tree, marked
        self.local = set(local)
        self.halving = not marked
        self.pieces: list[ast.FunctionDef] = []
        self.hoisted = 0
        self.guarded: set[str] = set()  # names that may be read where an error has ended a statement halfway
        self.glue: set[int] = set()  # statements that stay, by identity
        self.free: set[int] = set()  # those that were taken out of such
        args = tree.args
        first = [*args.posonlyargs, *args.args]
        self.first = first[0].arg if first else ""
        self.declared = {
            n for s in ast.walk(tree) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names
        }
        count: dict[str, int] = dict.fromkeys(_parameters(args), 1)
        for u in _uses(tree.body):
            if u.how != "load":
                count[u.name] = count.get(u.name, 0) + 1
        loops = {
            u.name
            for s in ast.walk(tree)
            if isinstance(s, (ast.For, ast.While))
            for u in _uses(s)
            if u.how != "load"
        }
        self.rebound = {n for n, k in count.items() if k > 1} | loops

    def function(self) -> tuple[ast.FunctionDef, list[ast.FunctionDef]]:
        for node in ast.walk(self.tree):
            if isinstance(node, _REFUSED):
                raise Uncut("it holds a class, or is no plain function")
            if isinstance(node, (ast.Name, ast.Attribute)) and (
                getattr(node, "id", "") in _LOOKING or getattr(node, "attr", "") == "_getframe"
            ):
                raise Uncut("it looks at its own names")
        body = list(self.tree.body)
        head = (
            [body.pop(0)] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else []
        )
        args = _parameters(self.tree.args)
        new = copy.copy(self.tree)
        new.body = [*head, *self.block(body, args, set())]
        new.decorator_list = []
        return new, self.pieces

    # -- lists of statements ------------------------------------------------------------------------------------------

    def block(
        self, stmts: Sequence[ast.stmt], sure: frozenset[str] | None, after: set[str]
    ) -> list[ast.stmt]:
        """`sure` are names that have a value before them, `after` those that may be read behind them."""
        stmts = [one for s in stmts for one in self.expanded(s)]
        middle = self.middle(stmts) if self.halving else -1
        made: list[ast.stmt] = []
        k = 0
        while k < len(stmts):
            if sure is None:  # never reached
                return [*made, *stmts[k:]]
            end = k
            while (
                end < len(stmts)
                and self.whole(stmts[end], end == len(stmts) - 1)
                and not (end == middle and end > k)
            ):
                end += 1
            while end > k:  # perhaps fewer
                rest = _reads(list(stmts[end:])) | after
                found = self.piece(stmts[k:end], sure, rest)
                if found is not None:
                    made += found
                    break
                end -= 1
            if end == k:
                end = k + 1
                rest = _reads(list(stmts[end:])) | after
                made.append(self.inside(stmts[k], sure, rest))
            sure = _flow(stmts[k:end], sure)[1]
            k = end
        return made

    def middle(self, stmts: list[ast.stmt]) -> int:
        """Where the list is halved: its statements that do something are divided evenly. One alone is cut inside."""
        busy = [k for k, s in enumerate(stmts) if _works(s)]
        if len(busy) > 1:
            self.halving = False
            return busy[len(busy) // 2]
        if busy and isinstance(stmts[busy[0]], ast.stmt):
            self.glue.add(id(stmts[busy[0]]))
            if not isinstance(stmts[busy[0]], _COMPOUND):
                self.halving = False
        return -1

    def whole(self, s: ast.stmt, last: bool) -> bool:
        """Whether the statement may be part of a piece."""
        if id(s) in self.glue or isinstance(
            s, (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Pass)
        ):
            return False
        if id(s) not in self.free and self.is_marked(s):
            return False
        if isinstance(s, ast.Return):
            if not last:
                return False
        elif _leaves(s):
            return False
        for u in _uses(s):
            if (
                u.how == "delete"
                or (u.how != "load" and u.name in self.declared)
                or (u.later and u.name in self.rebound)
            ):
                return False
        return True

    def is_marked(self, s: Any) -> bool:
        return any(s.lineno <= line <= (s.end_lineno or s.lineno) for line in self.marked)

    def piece(
        self, stmts: Sequence[ast.stmt], sure: frozenset[str], after: set[str]
    ) -> list[ast.stmt] | None:
        """A call of a piece that does these statements, or what was there if it is not worth it."""
        if not any(_works(s) for s in stmts):
            return list(stmts)
        if not {u.name for s in stmts for u in _uses(s) if u.how != "load"}.isdisjoint(self.guarded):
            if len(stmts) > 1 or not isinstance(stmts[0], (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                return None  # an error in the second line would forget what the first has made
            if any(isinstance(n, ast.NamedExpr) for n in ast.walk(stmts[0])):
                return None
        exposed, behind = _flow(stmts, frozenset())
        ends = isinstance(stmts[-1], ast.Return)
        inputs = exposed & self.local
        if any(_is_super(n) for s in stmts for n in ast.walk(s)):
            inputs.add(self.first)
        stored = {u.name for s in stmts for u in _uses(s) if u.how != "load"} & self.local
        outputs = set() if ends else stored & after
        doubtful = outputs - behind if behind is not None else set()
        inputs |= doubtful
        if not inputs <= sure:
            return None
        names = sorted(inputs, key=lambda n: (n != self.first, n))
        results = sorted(outputs)
        call = ast.Call(
            ast.Subscript(_name(PARTS), ast.Constant(len(self.pieces)), ast.Load()),
            [_name(n) for n in names],
            [],
        )
        body = [copy.deepcopy(s) for s in stmts]
        if ends:
            then: ast.stmt = ast.Return(call)
        elif not results:
            then = ast.Expr(call)
        else:
            value = (
                _name(results[0]) if len(results) == 1 else ast.Tuple([_name(n) for n in results], ast.Load())
            )
            body.append(_at(ast.Return(value), stmts[-1]))
            target = copy.deepcopy(value)
            for n in ast.walk(target):
                if hasattr(n, "ctx"):
                    n.ctx = ast.Store()
            then = ast.Assign([target], call)
        args = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
        made = ast.FunctionDef(f"{self.tree.name}", args, body, [], None)
        made.type_params = []  # type: ignore[attr-defined]
        self.pieces.append(_at(made, stmts[0]))
        return [_at(then, stmts[0])]

    # -- statements that stay -----------------------------------------------------------------------------------------

    def inside(self, s: ast.stmt, sure: frozenset[str], after: set[str]) -> ast.stmt:
        """The statement itself, cut inside where it holds others; what it calls is compiled by itself."""
        if isinstance(s, ast.Try):
            return self.tried(s, sure, after)
        if isinstance(s, ast.With) and not _lets_through(s):
            entered = copy.copy(s)
            named = [item.optional_vars for item in s.items if item.optional_vars is not None]
            given = sure | {u.name for t in named for u in _uses(t) if u.how == "store"}
            entered.body = self.within(s.body, given, after, after)
            return entered
        if isinstance(s, _COMPOUND):
            new = copy.copy(s)
            loop = _reads(s) if isinstance(s, (ast.For, ast.While)) else set()
            targets = [new.target] if isinstance(new, ast.For) else []
            if isinstance(new, ast.With):
                targets = [item.optional_vars for item in new.items if item.optional_vars is not None]
            given = sure | {u.name for t in targets for u in _uses(t) if u.how == "store"}
            new.body = self.block(new.body, given, after | loop)
            if not isinstance(new, ast.With):
                new.orelse = self.block(new.orelse, sure, after | loop)
            for field in ("test", "iter"):
                if hasattr(new, field):
                    setattr(new, field, self.calling(getattr(new, field)))
            return new
        if isinstance(s, (ast.FunctionDef, ast.Match, ast.Import, ast.ImportFrom)):
            return s
        return self.calling(s)

    def within(
        self, stmts: Sequence[ast.stmt], sure: frozenset[str], after: set[str], seen: set[str]
    ) -> list[ast.stmt]:
        """Statements that an error may leave for others that read the names that are `seen`."""
        before, self.guarded = self.guarded, self.guarded | seen
        try:
            return self.block(stmts, sure, after)
        finally:
            self.guarded = before

    def tried(self, s: ast.Try, sure: frozenset[str], after: set[str]) -> ast.stmt:
        """An error leads from its body to a handler and to what is behind, from anywhere to what is done at last."""
        new = copy.copy(s)
        last = _reads(s.finalbody)
        caught = _reads(s.handlers) | (after if s.handlers else set()) | last
        new.body = self.within(s.body, sure, after | caught | _reads(s.orelse), caught)
        done = _flow(s.body, sure)[1]
        if done is not None:
            new.orelse = self.within(s.orelse, done, after | last, last)
        new.handlers = []
        for handler in s.handlers:
            one = copy.copy(handler)
            given = sure | ({handler.name} if handler.name else set())
            one.body = self.within(handler.body, given, after | last, last)
            new.handlers.append(one)
        new.finalbody = self.within(s.finalbody, sure, after, after)
        return new

    def calling(self, node: Any) -> Any:
        node = copy.deepcopy(node)
        for one in ast.walk(node):
            if isinstance(one, ast.Call) and not _is_super(one):
                called = one.func
                if isinstance(called, ast.Name) and called.id in _READING:
                    continue
                one.func = _at(ast.Call(_name(INNER), [called], []), called)
        return node

    def expanded(self, s: ast.stmt) -> list[ast.stmt]:
        """A marked statement with what is worked out first in it before it."""
        if id(s) in self.free or id(s) in self.glue:
            return [s]
        if isinstance(s, ast.If):
            if not any(s.test.lineno <= n <= (s.test.end_lineno or 0) for n in self.marked):
                return [s]
            field = "test"
        elif (
            isinstance(s, (ast.Expr, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign))
            and s.value is not None
        ):
            if not self.is_marked(s) and not (self.halving and self.alone(s)):
                return [s]
            field = "value"
        else:
            return [s]
        new = copy.deepcopy(s)
        self.glue.add(id(new))
        self.keep(new)
        if isinstance(s, ast.AugAssign):
            return [new]
        at = _first_work(new, field, isinstance(s, ast.If))
        if at is None:
            return [new]
        owner, name, index = at
        value = getattr(owner, name) if index is None else getattr(owner, name)[index]
        own = f"_nbgrad_{len(self.local)}"
        self.local.add(own)
        self.hoisted += 1
        taken = _at(ast.Assign([ast.Name(own, ast.Store())], value), value)
        self.free.add(id(taken))
        self.keep(taken)
        if index is None:
            setattr(owner, name, _at(_name(own), value))
        else:
            getattr(owner, name)[index] = _at(_name(own), value)
        return [taken, new]

    def alone(self, s: ast.stmt) -> bool:
        return sum(map(_works, self.tree.body)) == 1 and s in self.tree.body

    def keep(self, node: ast.AST) -> None:
        """Hold it, as it is known by its identity."""
        self.held = [*getattr(self, "held", []), node]


def _first_work(s: Any, field: str, truth: bool) -> tuple[Any, str, int | None] | None:
    """What is worked out first in the statement and is more than a name: whose field it is. Its value is asked for by the statement."""
    owner, name, index = s, field, None
    value = getattr(s, field)
    strict = not truth  # the whole of a value that a statement has is no smaller than the statement
    while True:
        if not strict and _works(value) and not any(map(_reads_value, ast.walk(value))):
            return owner, name, index
        strict = False
        if isinstance(value, ast.Call):
            f = value.func
            if isinstance(f, ast.Attribute) and not isinstance(f.value, ast.Name):
                owner, name, index = f, "value", None
            elif (
                isinstance(f, (ast.Name, ast.Attribute))
                and value.args
                and not isinstance(value.args[0], ast.Starred)
            ):
                owner, name, index = value, "args", 0
            else:
                return None
        elif isinstance(value, (ast.Attribute, ast.Subscript, ast.FormattedValue, ast.Starred)):
            owner, name, index = value, "value", None
        elif isinstance(value, (ast.BinOp, ast.Compare)):
            owner, name, index = value, "left", None
        elif isinstance(value, ast.UnaryOp):
            owner, name, index = value, "operand", None
        elif isinstance(value, (ast.BoolOp,)):
            owner, name, index = value, "values", 0
        elif isinstance(value, ast.IfExp):
            owner, name, index = value, "test", None
        elif isinstance(value, (ast.Tuple, ast.List)) and value.elts and isinstance(value.ctx, ast.Load):
            owner, name, index = value, "elts", 0
        elif isinstance(value, ast.Dict) and value.values and isinstance(value.keys[0], ast.Constant):
            owner, name, index = value, "values", 0
        else:
            return None
        value = getattr(owner, name) if index is None else getattr(owner, name)[index]


def _reads_value(value: Any) -> bool:
    """Whether its outermost operation is one that gives a value to Python."""
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    if isinstance(value, (ast.BoolOp, ast.Starred)):
        return True
    if not isinstance(value, ast.Call):
        return False
    f = value.func
    return (isinstance(f, ast.Attribute) and f.attr in _READS) or (
        isinstance(f, ast.Name) and f.id in _READING
    )


def _lets_through(s: ast.With) -> bool:
    calls = [item.context_expr for item in s.items]
    named = [c.func if isinstance(c, ast.Call) else c for c in calls]
    return all((getattr(f, "attr", None) or getattr(f, "id", "")) in _CONTEXTS for f in named)


def _works(node: Any) -> bool:
    return any(isinstance(n, _WORK) for n in ast.walk(node))


def _is_super(node: Any) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "super"
        and not node.args
    )


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _at(node: Any, where: Any) -> Any:
    for n in ast.walk(node):
        if not hasattr(n, "lineno"):
            ast.copy_location(n, where)
    return node


def cut(
    tree: ast.FunctionDef, local: set[str], marked: set[int]
) -> tuple[ast.FunctionDef, list[ast.FunctionDef]]:
    """The function with calls of its pieces, and these. `Uncut` says why there are none."""
    return _Cutter(tree, local, marked).function()
