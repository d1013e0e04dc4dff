"""A function of numbers as one expression, for who computes it element by element: `torch.elementwise` may call what is `differentiable`.

Promises `expr/` the function's own primitives. Both sides of a branch are computed, as with `where`; loops whose turns are known are
written out, arrays of a known size are their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbgrad.adjoints.ir import (
    Add,
    Apply,
    Branch,
    Const,
    Expr,
    Extent,
    Let,
    Load,
    Loop,
    Make,
    Name,
    Program,
    Refused,
    Store,
    View,
    arranged,
)
from nbgrad.adjoints.ops import ARITHMETIC, COMPARISONS, FUNCTIONS
from nbgrad.expr import node
from nbgrad.expr.node import PRIMS

_TURNS = 64  # a loop of more is none that one writes out
_PRIMITIVE = {
    **{"max": "maximum", "min": "minimum", "math_pow": "pow", "int": "trunc", "whole_floor": "floor"},
    **{"whole_ceil": "ceil", "whole_round": "round", "whole_trunc": "trunc"},
}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    name: eval(f"lambda a, b: a {symbol} b") for name, symbol in (ARITHMETIC | COMPARISONS).items()
}

Values = dict[str, Any]
Arrays = dict[str, dict[tuple[int, ...], Any]]


def expression(program: Program, given: Sequence[Any]) -> Any:
    """What the program gives of expressions: one, or a tuple of them."""
    at = _Spread(program)
    at.values = dict(zip(program.params, given))
    at.run(program.body)
    for r in program.results:
        if isinstance(r, View):
            at.refuse("a result that is an array")
    found = [at.value(r) for r in program.results if not isinstance(r, View)]
    return arranged(program.form, found)


class _Spread:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: Values = {}
        self.arrays: Arrays = {}

    def refuse(self, what: str) -> None:
        raise Refused(
            f"{self.program.name}() in an elementwise function: {what} (call it of tensors instead)"
        )

    def known(self, e: Expr, what: str) -> int:
        x = self.value(e)
        if isinstance(x, node.Expr):
            self.refuse(what)
        return int(x)

    # ------------------------------------------------ statements

    def run(self, block: Sequence[Any]) -> None:
        for s in block:
            if isinstance(s, Let):
                self.values[s.name] = self.value(s.value)
            elif isinstance(s, Make):
                shape = [self.known(n, "an array whose size is not known") for n in s.extents]
                self.arrays[s.base] = dict.fromkeys(_indices(shape), 0.0)
            elif isinstance(s, Store | Add):
                e = self.value(s.value)
                place = self.place(s.base, s.index)
                self.arrays[s.base][place] = self.arrays[s.base][place] + e if isinstance(s, Add) else e
            elif isinstance(s, Branch):
                self.branch(s)
            elif isinstance(s, Loop):
                self.loop(s)
            else:
                self.refuse("an exception, a list or a product of matrices")

    def place(self, base: str, index: Sequence[Expr]) -> tuple[int, ...]:
        found = tuple(self.known(i, "an index that is not known") for i in index)
        if base not in self.arrays or found not in self.arrays[base]:
            self.refuse("an index that is not there")
        return found

    def branch(self, s: Branch) -> None:
        test = self.value(s.test)
        if not isinstance(test, node.Expr):
            self.run(s.then if test else s.other)
            for name, a, b in s.merged:
                self.values[name] = self.value(a if test else b)
            return
        before = self.values, self.arrays
        sides = []
        for k, block in enumerate((s.then, s.other)):
            self.values, self.arrays = dict(before[0]), {n: dict(a) for n, a in before[1].items()}
            self.run(block)
            sides.append(([self.value((a, b)[k]) for _, a, b in s.merged], self.arrays))
        self.values, self.arrays = before
        (left, then), (right, other) = sides
        for (name, _, _), a, b in zip(s.merged, left, right):
            self.values[name] = _either(test, a, b)
        for base, elements in self.arrays.items():
            for at in elements:
                elements[at] = _either(test, then[base][at], other[base][at])

    def loop(self, s: Loop) -> None:
        values = [(name, self.value(first)) for name, first, _ in s.carried]
        self.values |= dict(values)
        count = _TURNS + 1 if s.test is not None else self.known(s.count, "a loop whose turns are not known")
        start = self.known(s.start, "a loop whose turns are not known") if s.test is None else 0
        if s.test is None and count > _TURNS:
            self.refuse(f"a loop of more than {_TURNS} turns")
        turn = 0
        while turn < count:
            if s.test is not None:
                self.run(s.head)
                if not self.known(s.test, "a loop whose turns are not known"):
                    break
            else:
                self.values[s.var] = start + turn * s.step
            turn += 1
            self.run(s.body)
            self.values |= {name: self.value(last) for name, _, last in s.carried}
            if s.stopped is not None and self.known(s.stopped, "a loop that is left where that is not known"):
                break
        if s.test is not None and turn > _TURNS:
            self.refuse(f"a loop of more than {_TURNS} turns")
        if s.trips:
            self.values[s.trips] = turn

    # ------------------------------------------------ expressions

    def value(self, e: Expr) -> Any:
        if isinstance(e, Const):
            return e.value
        if isinstance(e, Name):
            return self.values[e.name]
        if isinstance(e, Load):
            return self.arrays[e.base][self.place(e.base, e.index)]
        if isinstance(e, Extent):
            self.refuse("an argument that is an array")
        assert isinstance(e, Apply)
        args = [self.value(a) for a in e.args]
        if not any(isinstance(a, node.Expr) for a in args):
            return self.number(e.op, args)
        return self.applied(e.op, args)

    def number(self, op: str, args: list[Any]) -> Any:
        if op in _ARITHMETIC:
            return _ARITHMETIC[op](*args)
        if op in ("and", "or", "not"):
            return not args[0] if op == "not" else all(args) if op == "and" else any(args)
        if op == "where":
            return args[1] if args[0] else args[2]
        if op == "neg":
            return -args[0]
        import math

        import numpy as np

        return eval(f"{FUNCTIONS[op]}(*args)", {"math": math, "np": np, "args": args})

    def applied(self, op: str, args: list[Any]) -> Any:
        if op in _ARITHMETIC:
            return _ARITHMETIC[op](*args)
        if op == "neg":
            return -args[0]
        if op == "abs":
            return abs(args[0])
        if op in ("float", "float32"):
            return _either(args[0], 1.0, 0.0) if node.is_bool(args[0]) else args[0]
        if op == "bool":
            return args[0] if node.is_bool(args[0]) else args[0] != 0
        if op == "where":
            return _either(*args)
        name = _PRIMITIVE.get(op, f"logical_{op}" if op in ("and", "or", "not") else op)
        if name not in PRIMS:
            self.refuse(op)
        return PRIMS[name](*args)


def _either(test: Any, a: Any, b: Any) -> Any:
    if not isinstance(test, node.Expr):
        return a if test else b
    same = a is b or (not isinstance(a, node.Expr) and not isinstance(b, node.Expr) and a == b)
    return a if same else PRIMS["where"](test, a, b)


def _indices(shape: Sequence[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for n in shape:
        found = [(*i, k) for i in found for k in range(n)]
    return found


__all__ = ["expression"]
