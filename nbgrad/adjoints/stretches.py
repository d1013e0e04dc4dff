"""Loops that may be left and save what they go through, sixteen turns at a time: storage is made longer between the stretches.

Promises the same turns. An array that a loop may bind anew is counted at each turn, by atomic additions: that was three quarters of the
time of a loop over a few numbers with its gradient.
"""

from __future__ import annotations

import ast
import re
from typing import Any

TURNS = 16  # `reserve` makes room for multiples of it, so no more is held than one turn at a time would hold
_GROWS = re.compile(r"(\w+) = reserve\(\1, (\w+) \+ 1\)")


def in_stretches(tree: ast.Module) -> None:
    _Stretches({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}).visit(tree)


class _Stretches(ast.NodeTransformer):
    def __init__(self, taken: set[str]) -> None:
        self.taken = taken

    def visit_While(self, loop: ast.While) -> Any:
        self.generic_visit(loop)
        found = _grows(loop.body)
        if found is None:
            return loop
        at, stores, body = found
        full, done, test = self.name(f"{at}_full"), self.name(f"{at}_done"), ast.unparse(loop.test)
        start = f"{full} = {at} + {TURNS}"
        return self.made(at, stores, body, done, "", test, start, f"while {at} < {full} and ({test})")

    def visit_For(self, loop: ast.For) -> Any:
        self.generic_visit(loop)
        found = _grows(loop.body)
        turns = re.fullmatch(r"range\(([^,]*)\)", ast.unparse(loop.iter))
        if found is None or turns is None or loop.orelse:
            return loop
        at, stores, body = found
        turn, done = ast.unparse(loop.target), self.name(f"{at}_done")
        end, first, last = (self.name(f"{turn}_{word}") for word in ("end", "first", "last"))
        start = f"{first} = {last}\n    {last} = min({first} + {TURNS}, {end})"
        before, test = f"{end} = {turns[1]}\n{last} = 0\n", f"{last} < {end}"
        return self.made(at, stores, body, done, before, test, start, f"for {turn} in range({first}, {last})")

    def made(
        self,
        at: str,
        stores: list[str],
        body: list[ast.stmt],
        done: str,
        before: str,
        test: str,
        start: str,
        head: str,
    ) -> list[ast.stmt]:
        marked = _Marked(done)
        found = ast.parse(
            f"{before}{done} = False\nwhile not {done} and ({test}):\n"
            + "".join([f"    {s} = reserve({s}, {at} + {TURNS})\n" for s in stores])
            + f"    {start}\n    {head}:\n        pass\n"
        ).body
        stretch = found[-1].body[-1]  # type: ignore[attr-defined]
        stretch.body = [marked.visit(s) for s in body]
        return found

    def name(self, wanted: str) -> str:
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted


class _Marked(ast.NodeTransformer):
    """What leaves the loop says so."""

    def __init__(self, done: str) -> None:
        self.done = done

    def visit_Break(self, node: ast.Break) -> Any:
        return [*ast.parse(f"{self.done} = True").body, node]

    def visit_While(self, loop: ast.While) -> Any:
        return loop  # whose breaks are its own

    def visit_For(self, loop: ast.For) -> Any:
        return loop


def _grows(body: list[ast.stmt]) -> tuple[str, list[str], list[ast.stmt]] | None:
    """What counts the turns of a loop, the storage that grows by one of them, and what else the loop does."""
    lines = [(s, _GROWS.fullmatch(ast.unparse(s))) for s in body]
    stores, cursors = [m[1] for _, m in lines if m], {m[2] for _, m in lines if m}
    rest = [s for s, m in lines if m is None]
    if len(cursors) != 1 or not _goes_on_by_one(rest, (at := cursors.pop()), stores):
        return None
    return at, stores, rest


def _goes_on_by_one(body: list[ast.stmt], at: str, stores: list[str]) -> bool:
    """Whether each turn that goes on adds one to `at`, and nothing else binds it, or storage."""
    nodes = [n for s in body for n in ast.walk(s)]
    bound = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    steps = [s for s in body if ast.unparse(s) == f"{at} += 1"]
    leaves = any(isinstance(n, (ast.Continue, ast.Return)) for n in nodes)
    return bound.count(at) == len(steps) == 1 and not leaves and not {*stores} & {*bound}
