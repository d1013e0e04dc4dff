"""Which elements of an array are written later: what elimination, substitution and tables leave behind them is not written over.

Promises the plan that a load is final only where each statement that may write to its array afterwards writes to another element: for
each loop that both stand in, its index along some axis is beyond the load's, by where that loop or one around it stands.
"""

from __future__ import annotations

from typing import Any

from nbgrad.adjoints.ir import (
    Add,
    Apply,
    Branch,
    Expr,
    Let,
    Load,
    Loop,
    Name,
    Program,
    Store,
    const,
    statements,
)
from nbgrad.adjoints.ops import is_natural

_OFFSETS = (1, 0, -1)  # how far from a loop's counter an index may be known to be at the least or at the most


class Places:
    def __init__(self, p: Program) -> None:
        self.p = p
        self.made_of: dict[str, tuple[Expr, ...]] = {}  # of names what they may be
        self.carried_by: dict[str, Loop] = {}
        for s in statements(p.body):
            if isinstance(s, Let):
                self.made_of[s.name] = (s.value,)
            elif isinstance(s, Branch):
                self.made_of |= {n: (a, b) for n, a, b in s.merged}
            elif isinstance(s, Loop):
                self.made_of |= {n: (first, last) for n, first, last in s.carried}
                self.carried_by |= {n: s for n, _, _ in s.carried}

    def apart(self, load: Load, s: Any, w: Any, cut: int) -> bool:
        """Does `w`, where it runs after a load at `s`, write to another element? Both in one turn of the loop that `cut` counts."""
        common = 0
        for a, b in zip(s.around, w.around):
            if a is not b:
                break
            common += 1
        if common < cut or (common == cut and w.seq < s.seq):
            return True
        if not isinstance(w, Store | Add) or any(q.steps for q in s.around):
            return False
        loops = s.around[:common]
        levels = range(cut, common)
        same = [k for k in range(common) if self.beyond(load, w, loops[k], 1)]
        if w.seq >= s.seq and not same:
            return False
        return all(any(k < level for k in same) or self.beyond(load, w, loops[level], 0) for level in levels)

    def beyond(self, load: Load, w: Any, loop: Loop, by: int) -> bool:
        """Is the written index along some axis further along the loop's way than the loaded one, by so much, in the same turn?"""
        if not loop.var or loop.test is not None:
            return False
        at = Name(loop.var)
        return any(self.further(a, b, at, by, loop.step > 0) for a, b in zip(load.index, w.index))

    def further(self, read: Expr, written: Expr, at: Name, by: int, up: bool) -> bool:
        if not is_natural(read, self.p):
            return False
        for offset in _OFFSETS:
            edge, past = (
                _moved(at, offset if up else -offset),
                _moved(at, offset + by if up else -offset - by),
            )
            if up and is_natural(_less(edge, read), self.p) and self.at_least(written, at, past, frozenset()):
                return True
            if not up and is_natural(_less(read, edge), self.p) and is_natural(_less(past, written), self.p):
                return is_natural(written, self.p)
        return False

    def at_least(self, e: Expr, at: Name, bound: Expr, assumed: frozenset[str]) -> bool:
        """Is it at least `bound`, which is a fixed number from the counter `at`, throughout a turn?"""
        if is_natural(_less(e, bound), self.p):
            return True
        if not isinstance(e, Name):
            return False
        if e.name in assumed:
            return True
        found, by = self.made_of.get(e.name), self.carried_by.get(e.name)
        if found is None or (by is not None and all(q.var != at.name for q in by.around)):
            return False  # what the loop of `at` carries comes from a turn of another bound
        return all(self.at_least(part, at, bound, assumed | {e.name}) for part in found)


def _moved(at: Expr, by: int) -> Expr:
    return at if by == 0 else Apply("add", (at, const(by)))


def _less(a: Expr, b: Expr) -> Expr:
    return Apply("sub", (a, b))


__all__ = ["Places"]
