"""What the turns of a loop share: loads that none of them changes, sums and extremes that each adds to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbgrad.adjoints.ir import (
    FLOAT_ZERO,
    ZERO,
    Add,
    Apply,
    Block,
    Branch,
    Const,
    Expr,
    Let,
    Load,
    Loop,
    Name,
    Program,
    Store,
    blocks,
    exprs,
    loads,
    names,
    reads,
    sets,
    statements,
    walk,
    with_loads,
    writes,
)


def hoist_loads(p: Program) -> None:
    """Loads that a loop does not change are made before it: arrays are distinct here, which LLVM cannot know."""
    _hoisted(p, p.body)


def _hoisted(p: Program, block: Block) -> None:
    done: Block = []
    for s in block:
        for inner in [s.body] if isinstance(s, Loop) else blocks(s):
            _hoisted(p, inner)
        if isinstance(s, Loop) and s.test is None:
            done += _before(p, s)
        done.append(s)
    block[:] = done


def _before(p: Program, loop: Loop) -> list[Let]:
    inside = list(statements(loop.body))
    written = {writes(s) for s in inside}
    own = {loop.var, *(n for n, _, _ in loop.carried)}
    own.update(n for s in inside for n in [*sets(s), *([s.var] if isinstance(s, Loop) else [])])
    made: dict[Load, Let] = {}

    def moved(load: Load) -> Expr:
        if load.base in written or p.arrays[load.base].kind != "float":
            return load
        if any(names(i) & own or loads(i) for i in load.index):
            return load
        if load not in made:
            name = p.fresh("t")
            p.kinds[name] = "float"
            runs = isinstance(loop.count, Const) and loop.count.value > 0
            value = load if runs else Apply("where", (Apply("gt", (loop.count, ZERO)), load, FLOAT_ZERO))
            made[load] = Let(name, value)
        return Name(made[load].name)

    for s in loop.body:
        choice = isinstance(s, Let) and isinstance(s.value, Apply) and s.value.op == "where"
        if isinstance(s, Store | Add) or (isinstance(s, Let) and p.kinds[s.name] == "float" and not choice):
            s.value = with_loads(s.value, moved)
    return list(made.values())


def only_added(loop: Loop, head: str, last: Expr) -> bool:
    """Does each turn hand the carried value on as it is, or with something added, and does nothing but such sums know it?"""
    if last == Name(head):
        return True
    sums = {head}
    if not _sums_alone(loop.body, sums) or not _is_sum(last, sums):
        return False
    return not any(names(end) & sums for n, _, end in loop.carried if n != head)


def extreme_of(loop: Loop, head: str, last: Expr) -> str:
    """`max` or `min`, where the carried value is that of itself and something, and nothing else reads it."""
    if isinstance(last, Name):
        made = [q for q in loop.body if isinstance(q, Let) and q.name == last.name]
        again = [q for q in flat(loop) if any(last.name in names(e) for e in exprs(q))]
        if len(made) != 1 or again != [loop]:
            return ""
        last = made[0].value
    found = isinstance(last, Apply) and last.op in ("max", "min") and last.args[0] == Name(head)
    uses = sum(n == Name(head) for q in flat(loop) for e in exprs(q) for n in walk(e))
    return last.op if isinstance(last, Apply) and found and len(last.args) == 2 and uses == 1 else ""


def share_extremes(p: Program, moving: Iterable[str] = ()) -> None:
    """Threads that take parts of loops over some arrays may take parts of those, too, that look for extremes of these and do nothing
    else: they are the same whoever looks where."""
    loops = [s for s in statements(p.body) if isinstance(s, Loop) and s.parallel]
    turns = ((s, load) for s in loops for q in flat(s) for e in exprs(q) for load in loads(e))
    long = {load.base for s, load in turns if Name(s.var) in load.index}
    for s in p.body if long else ():
        if not isinstance(s, Loop) or s.test is not None or s.trips or s.stopped is not None or s.steps:
            continue
        plain = bool(s.carried) and not s.saved and all(isinstance(q, Let) for q in s.body)
        own = {n for q in (s, *s.body) for n in sets(q)}
        if plain and not own & set(moving) and any(reads(q) & long for q in (s, *s.body)):
            s.parallel = s.parallel or all(
                p.kinds[n] == "float" and extreme_of(s, n, last) for n, _, last in s.carried
            )


def _sums_alone(block: Block, sums: set[str]) -> bool:
    """Adds to `sums` what is one of them and something that reads none; does nothing else read one?"""
    for s in block:
        own = exprs(s)
        handed: list[tuple[str, Expr, Expr]] = []
        if isinstance(s, Let):
            handed = [(s.name, s.value, s.value)]
            own = []
        elif isinstance(s, Branch):
            handed = s.merged
            own = [s.test]
        elif isinstance(s, Loop):
            handed = s.carried
            own = own[2 * len(handed) :]
            sums |= {n for n, first, _ in handed if _is_sum(first, sums)}
        if not all([_sums_alone(inner, sums) for inner in blocks(s)]):
            return False
        for n, a, b in handed:
            if _is_sum(a, sums) and _is_sum(b, sums):
                sums.add(n)
            else:
                own += [a, b]
        if any(names(e) & sums for e in own):
            return False
    return True


def flat(s: Any) -> list[Any]:
    return [s, *(q for b in blocks(s) for q in statements(b))]


def _is_sum(e: Expr, sums: set[str]) -> bool:
    """Is `e` one of the names plus something that reads none?"""
    while isinstance(e, Apply) and e.op in ("add", "sub"):
        a, b = e.args
        in_a, in_b = names(a) & sums, names(b) & sums
        if in_b and (in_a or e.op == "sub"):
            return False
        e = b if in_b else a
    return isinstance(e, Name) and e.name in sums
