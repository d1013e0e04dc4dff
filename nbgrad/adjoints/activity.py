"""What depends on what: which names and arrays have derivatives, and what an expression adds to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nbgrad.adjoints import ops
from nbgrad.adjoints.ir import (
    Add,
    Apply,
    Branch,
    Expr,
    Fill,
    Let,
    Load,
    Loop,
    Name,
    Product,
    Program,
    Refused,
    Store,
    View,
    operands,
    statements,
)


class Activity:
    """Names and arrays that depend on the wanted inputs and, unless it is asked `forwards`, that results depend on."""

    def __init__(self, p: Program, wrt: Sequence[str], forwards: bool = False) -> None:
        self.p = p
        self.names = {n for n in wrt if n in p.kinds}
        self.arrays = {n for n in wrt if n in p.arrays}
        every = list(statements(p.body))
        size = -1
        while size != len(self.names) + len(self.arrays):
            size = len(self.names) + len(self.arrays)
            for s in every:
                self._reached(s)
        if not forwards:
            self._keep_useful(every)

    def moves(self, e: Expr) -> bool:
        """Does a derivative go through `e`?"""
        if isinstance(e, Name):
            return e.name in self.names
        if isinstance(e, Load):
            return e.base in self.arrays
        if not isinstance(e, Apply) or e.op in ops.STEPS or e.op in ops.PREDICATES:
            return False
        return any(self.moves(a) for a in (e.args[1:] if e.op == "where" else e.args))

    def _reached(self, s: Any) -> None:
        kinds, arrays = self.p.kinds, self.p.arrays
        if isinstance(s, Let):
            if kinds[s.name] == "float" and self.moves(s.value):
                self.names.add(s.name)
        elif isinstance(s, Store | Add):
            if arrays[s.base].kind == "float" and self.moves(s.value):
                self.arrays.add(s.base)
        elif isinstance(s, Product | Fill) and {v.base for v in operands(s)} & self.arrays:
            self.arrays.add(s.base)
        for name, a, b in s.merged if isinstance(s, Branch) else s.carried if isinstance(s, Loop) else ():
            if kinds[name] == "float" and (self.moves(a) or self.moves(b)):
                self.names.add(name)

    def _keep_useful(self, every: list[Any]) -> None:
        p = self.p
        params = {n for n in p.params if n in p.arrays}
        wanted = set(self.names & set(p.params))
        needed_names: set[str] = set()
        needed_arrays = {n for n in params if p.arrays[n].kind == "float"}

        def need(e: Expr) -> None:
            if isinstance(e, Name):
                needed_names.add(e.name)
            elif isinstance(e, Load):
                needed_arrays.add(e.base)
            elif isinstance(e, Apply) and self.moves(e):
                for a in e.args[1:] if e.op == "where" else e.args:
                    need(a)

        for r in p.results:
            if isinstance(r, View):
                needed_arrays.add(r.base)
            else:
                need(r)
        size = -1
        while size != len(needed_names) + len(needed_arrays):
            size = len(needed_names) + len(needed_arrays)
            for s in reversed(every):
                if (isinstance(s, Let) and s.name in needed_names) or (
                    isinstance(s, Store | Add) and s.base in needed_arrays
                ):
                    need(s.value)
                elif isinstance(s, Product | Fill) and s.base in needed_arrays:
                    needed_arrays.update(v.base for v in operands(s))
                for name, a, b in (
                    s.merged if isinstance(s, Branch) else s.carried if isinstance(s, Loop) else ()
                ):
                    if name in needed_names:
                        need(a)
                        need(b)
        self.names &= needed_names | wanted
        self.arrays &= needed_arrays


def contributions(
    active: Activity, e: Expr, g: Expr, y: Expr | None = None
) -> Iterator[tuple[Name | Load, Expr]]:
    """The active leaves of an expression, and what `g`, its adjoint, adds to each of theirs."""
    if not active.moves(e):
        return
    if isinstance(e, Name | Load):
        yield e, g
        return
    assert isinstance(e, Apply)
    if not ops.differentiable(e.op):
        raise Refused(f"{active.p.name}: {e.op} has no derivative here")
    for a, part in zip(e.args, ops.derivatives(e, y or e, g)):
        if part is not None:
            yield from contributions(active, a, part)
