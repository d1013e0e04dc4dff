"""`return`, `break` and `continue` as values: a name is set, and what would be left out stands in the other branch.

Promises the lowering that blocks end at their ends. A loop gets a `flag`, a name that is true once it is left: it is looked at when a turn
is over, as nothing of the turn comes after it was set. `RESULT` is what is returned. What a loop returns may be computed where it is left,
or, `late`, when the loop is over: an array of a turn is gone then.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

RESULT, RETURNED = "_result", "_returned"
_LONG = 6  # statements that are rather guarded by a name than written twice


class Late(Exception):
    """A loop returns an array."""


def structured(body: Sequence[ast.stmt], late: bool = False) -> list[ast.stmt]:
    """A function's statements without exits. Of each loop, `flag` is the name that says that it is left, or None."""
    statements = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    in_loops = (s for loop in statements for s in ast.walk(loop) if isinstance(s, ast.For | ast.While))
    if any(_has(loop, ast.Return) for loop in in_loops):
        statements.insert(0, _set(RETURNED, ast.Constant(0 if late else False), statements[0]))
    return _Exits(late).block(statements, None)


def flag_of(loop: ast.stmt) -> str | None:
    return getattr(loop, "flag", None)


def in_loop(s: ast.stmt) -> bool:
    """Is what is returned set here within a loop?"""
    return getattr(s, "in_loop", False)


def is_own(name: str) -> bool:
    """Is the name one that was made here?"""
    return name in (RESULT, RETURNED) or name.startswith(("_left", "_skip"))


class _Exits:
    def __init__(self, late: bool) -> None:
        self.count = 0
        self.late = late
        self.returned: list[ast.Return] = []  # by the outermost loop that we are in; RETURNED says which

    def name(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def block(
        self, statements: Sequence[ast.stmt], flag: str | None, skip: str | None = None
    ) -> list[ast.stmt]:
        """`flag` is set where the loop around is left, `skip` where what follows the block is left out."""
        done: list[ast.stmt] = []
        for k, s in enumerate(statements):
            rest = statements[k + 1 :]
            if isinstance(s, ast.Return | ast.Break | ast.Continue):
                return done + self.exit(s, flag, skip)
            if isinstance(s, ast.For | ast.While):
                done.append(self.loop(s))
                if _has(s, ast.Return):
                    left: list[ast.stmt] = [_set(f, ast.Constant(True), s) for f in (flag, skip) if f]
                    if flag is None:
                        left = self.results(left)
                    left = left or [ast.Pass()]
                    after = self.block(rest, flag, skip)
                    if self.late and not (after or flag or skip):
                        none = ast.parse("raise ValueError('a loop ends that was to return an array')").body[
                            0
                        ]
                        after = [_at(none, s)]
                    test = ast.Name(RETURNED, ast.Load())
                    return [*done, _at(ast.If(test, left, after), s)] if after or flag or skip else done
            elif isinstance(s, ast.If) and _exits(s):
                return done + self.split(s, rest, flag, skip)
            elif isinstance(s, ast.If):
                then, other = self.block(s.body, flag), self.block(s.orelse, flag)
                done.append(_at(ast.If(s.test, then or [ast.Pass()], other), s))
            else:
                done.append(s)
        return done

    def exit(self, s: ast.stmt, flag: str | None, skip: str | None) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        if isinstance(s, ast.Return) and flag and self.late:
            self.returned.append(s)
            done.append(_set(RETURNED, ast.Constant(len(self.returned)), s))
        elif isinstance(s, ast.Return):
            done.append(_set(RESULT, s.value or ast.Constant(None), s))
            done[0].in_loop = flag is not None  # type: ignore[attr-defined]
            if flag:
                done.append(_set(RETURNED, ast.Constant(True), s))
        if flag and not isinstance(s, ast.Continue):
            done.append(_set(flag, ast.Constant(True), s))
        return done + ([_set(skip, ast.Constant(True), s)] if skip else [])

    def results(self, passed: list[ast.stmt]) -> list[ast.stmt]:
        """Which of its results the loop before gives, where they are computed late."""
        found: list[ast.stmt] = []
        for k, s in enumerate(self.returned):
            result = _set(RESULT, s.value or ast.Constant(None), s)
            which = ast.Compare(ast.Name(RETURNED, ast.Load()), [ast.Eq()], [ast.Constant(k + 1)])
            found = [_at(ast.If(which, [result], found), s)] if found else [result]
        self.returned = []
        return found + passed

    def split(
        self, s: ast.If, rest: Sequence[ast.stmt], flag: str | None, skip: str | None
    ) -> list[ast.stmt]:
        """The rest goes where the statement does not leave: into one branch, or, where both may go on, behind a name, or into both."""
        on = [_falls(s.body), _falls(s.orelse)]
        if (
            all(on)
            and len(rest)
            and sum(1 for r in rest for n in ast.walk(r) if isinstance(n, ast.stmt)) > _LONG
        ):
            mine = self.name("_skip")
            then, other = self.block(s.body, flag, mine), self.block(s.orelse, flag, mine)
            after = self.block(rest, flag, skip)
            passed: list[ast.stmt] = [_set(skip, ast.Constant(True), s)] if skip else [ast.Pass()]
            return [
                _set(mine, ast.Constant(False), s),
                _at(ast.If(s.test, then or [ast.Pass()], other), s),
                _at(ast.If(ast.Name(mine, ast.Load()), passed, after), s),
            ]
        then = self.block([*s.body, *(rest if on[0] else ())], flag, skip)
        other = self.block([*s.orelse, *(rest if on[1] else ())], flag, skip)
        return [_at(ast.If(s.test, then or [ast.Pass()], other), s)]

    def loop(self, s: ast.For | ast.While) -> ast.stmt:
        flag = self.name("_left")
        body = self.block(s.body, flag) or [_at(ast.Pass(), s)]
        new: ast.For | ast.While
        if isinstance(s, ast.For):
            new = ast.For(s.target, s.iter, body, s.orelse, None)
            new.by_keys = getattr(s, "by_keys", False)  # type: ignore[attr-defined]
        else:
            new = ast.While(s.test, body, s.orelse)
        used = any(isinstance(n, ast.Name) and n.id == flag for b in body for n in ast.walk(b))
        new.flag = flag if used else None  # type: ignore[union-attr]
        return _at(new, s)


def _at(new: ast.stmt, s: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(new, s))


def _set(name: str, value: ast.expr, s: ast.stmt) -> ast.stmt:
    return _at(ast.Assign([ast.Name(name, ast.Store())], value), s)


def _has(s: ast.stmt, kind: type) -> bool:
    return any(isinstance(n, kind) for n in ast.walk(s))


def _exits(s: ast.stmt, in_loop: bool = False) -> bool:
    """May the statement leave the block that it stands in?"""
    if isinstance(s, ast.Return):
        return True
    if isinstance(s, ast.Break | ast.Continue):
        return not in_loop
    inside = in_loop or isinstance(s, ast.For | ast.While)
    return any(_exits(b, inside) for part in ("body", "orelse") for b in getattr(s, part, ()))


def _falls(statements: Sequence[ast.stmt]) -> bool:
    """May what follows the block be reached?"""
    if not statements:
        return True
    last = statements[-1]
    if isinstance(last, ast.If):
        return _falls(last.body) or _falls(last.orelse)
    return not isinstance(last, ast.Return | ast.Break | ast.Continue | ast.Raise)


# ---------------------------------------------------------------- which names are read


def assigned(statements: Sequence[ast.stmt]) -> list[str]:
    return _of_each(statements, "_assigned", _stores)


def bound(statements: Sequence[ast.stmt]) -> list[str]:
    """Names that `=`, or a loop, gives a value."""
    return _of_each(statements, "_bound", _bound)


def _of_each(statements: Sequence[ast.stmt], kept: str, find: Callable[[ast.stmt], list[str]]) -> list[str]:
    """What each finds, once: it is kept with the statement, which nobody changes."""
    found: dict[str, None] = {}
    for s in statements:
        known = vars(s).get(kept)
        if known is None:
            known = vars(s)[kept] = find(s)
        found |= dict.fromkeys(known)
    return list(found)


def _stores(s: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _bound(s: ast.stmt) -> list[str]:
    found: list[str] = []
    for n in ast.walk(s):
        if isinstance(n, ast.Assign | ast.AnnAssign | ast.For):
            for t in n.targets if isinstance(n, ast.Assign) else [n.target]:
                found += _stores(t)
    return found


def read_first(statements: Sequence[ast.stmt]) -> tuple[set[str], set[str]]:
    """Names that may be read before the statements have set them; names that they surely set."""
    live: set[str] = set()
    done: set[str] = set()
    if not statements:
        return live, done
    # Asked for the rest of a block at each statement: what is found stays with the nodes, which nobody changes.
    known = vars(statements[0]).setdefault("_read_first", {})
    key = tuple(map(id, statements))
    if key not in known:
        for s in statements:
            mine = vars(s).get("_read_alone")
            if mine is None:
                mine = vars(s)["_read_alone"] = _read_alone(s)
            live |= mine[0] - done
            done |= mine[1]
        known[key] = live, done
    return known[key]


def _read_alone(s: ast.stmt) -> tuple[set[str], set[str]]:
    live: set[str] = set()
    done: set[str] = set()

    def read(*nodes: ast.AST) -> None:
        for node in nodes:
            for n in ast.walk(node):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id not in done:
                    live.add(n.id)

    def write(target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            done.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            for t in target.elts:
                write(t)
        elif isinstance(target, ast.Starred):
            write(target.value)
        else:
            read(target)

    if isinstance(s, ast.If):
        read(s.test)
        (a, sure_a), (b, sure_b) = read_first(s.body), read_first(s.orelse)
        live |= a | b
        done |= sure_a & sure_b
    elif isinstance(s, ast.For | ast.While):
        read(s.iter if isinstance(s, ast.For) else s.test)
        own = {flag_of(s) or ""}
        if isinstance(s, ast.For):
            own |= {n.id for n in ast.walk(s.target) if isinstance(n, ast.Name)}
        live |= read_first(s.body)[0] - own
    elif isinstance(s, ast.Assign):
        read(s.value)
        for t in s.targets:
            write(t)
    elif isinstance(s, ast.AugAssign):
        read(s.value)
        if isinstance(s.target, ast.Name):
            live.add(s.target.id)
        else:
            read(s.target)
    elif isinstance(s, ast.AnnAssign) and s.value is not None:
        read(s.value)
        write(s.target)
    else:
        read(s)
    return live, done
