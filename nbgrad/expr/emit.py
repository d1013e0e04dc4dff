"""Expressions as SSA lines of Python source, for Numba on the CPU ("scalar" for what is computed
once and not in a loop: it compiles in a quarter of the time), for Numba on CUDA, and for plain Python.

Each shared subexpression is one line. Constants take the compute dtype by `F(0.5)`, F being a name that the
kernel's globals bind to its constructor: plain Numba would compute `1 / (1 + exp(-x))` of a float32 in
float64. A choice is a conditional expression of names that are computed already, which LLVM makes a select.
Text comes from the primitives' stanzas (SPELLINGS), and what a target spells better (branch-free polynomials)
is registered with `register_text`. A missing spelling is an error, never a guess.
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from . import loops  # noqa: F401  its primitives have texts
from .node import PRIMS, Const, Expr, Number, Prim, Var, as_expr, postorder
from .prims import Fresh, Lines

Spelling: TypeAlias = "str | Callable[[list[str], Fresh], Lines]"

TARGETS = ("cpu", "scalar", "cuda", "python")
KINDS = {
    **{"f4": "float", "f8": "float"},
    **{"i1": "int", "i2": "int", "i4": "int", "i8": "int", "u1": "int"},
    "b1": "bool",
}
DTYPE_NAMES = {
    **{"f4": "float32", "f8": "float64"},
    **{"i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8"},
    "b1": "bool",
}

# What texts may depend on: the width of an integer and the shift that leaves nothing but its sign; the first float from which
# on all are whole numbers; what C's library adds to the name of a function of floats.
_PARAMETERS: dict[str, dict[str, Any]] = {
    "f4": {"whole": 2.0**23, "f": "f"},
    "f8": {"whole": 2.0**52, "f": ""},
    "i1": {"bits": 8, "out": 7},
    "i2": {"bits": 16, "out": 15},
    "i4": {"bits": 32, "out": 31},
    "i8": {"bits": 64, "out": 63},
    "u1": {"bits": 8, "out": 8},
    "b1": {},
}

SPELLINGS: dict[str, dict[str, dict[str, Spelling]]] = {
    target: {
        kind: {
            prim.name: prim.spell.get(f"{target}:{kind}", prim.spell.get(kind))
            for prim in PRIMS.values()
            if f"{target}:{kind}" in prim.spell or kind in prim.spell
        }
        for kind in ("float", "int", "bool")
    }
    for target in TARGETS
}
"""SPELLINGS[target]["float", "int" or "bool"][primitive]: a format string, or a function of (arguments,
fresh)."""

_TEXTS: dict[tuple[str, str, str], Callable[[list[str], Fresh], Lines]] = {}

# Their arguments are read as truth values; where's first one is too.
_LOGICAL = {"logical_and", "logical_or", "logical_xor", "logical_not"}


class Emitted:
    """Source lines; the text of each root's value; the globals that the lines read, other than F."""

    __slots__ = ("helpers", "lines", "results")

    def __init__(self, lines: list[str], results: list[str], helpers: set[str]) -> None:
        self.lines, self.results, self.helpers = lines, results, helpers


def register_text(target: str, kind: str, prim: str, fn: Callable[[list[str], Fresh], Lines]) -> None:
    """Let `fn(argument names, fresh) -> (source lines, name of the result)` write `prim` for a target and a
    dtype.

    `fresh()` gives a name that nothing else uses. A registered text wins over SPELLINGS.
    """
    if target not in TARGETS or kind not in KINDS or prim not in PRIMS:
        raise KeyError(f"no target, dtype or primitive like ({target!r}, {kind!r}, {prim!r})")
    _TEXTS[target, kind, prim] = fn


def emit(roots: Sequence[Expr], target: str, kind: str, names: Mapping[str, str]) -> Emitted:
    """The lines that compute the roots at dtype `kind`, reading each variable under its identifier in
    `names`.

    >>> from nbgrad.expr import var
    >>> emit([var("x") * 0.5 + 1], "cpu", "f4", {"x": "x"}).lines
    ['t1 = x * F(0.5)', 't2 = t1 + F(1.0)']
    """
    roots = defined(roots, target, kind)
    writer = _Writer(target, kind, names)
    for node in postorder(roots):
        writer.write(node)
    results = [writer.text[root] for root in roots]
    return Emitted(writer.lines, results, _globals_read(writer.lines, results, set(names.values())))


def defined(roots: Sequence[Expr], target: str, kind: str) -> list[Expr]:
    """The roots with each primitive that has no text (`special.py`) replaced by its definition in those that have."""
    done: dict[Expr, Expr] = {}
    for node in postorder(roots):
        args = tuple(done[a] for a in node.args)
        if node.prim is None:
            done[node] = node
        elif node.prim.spell or (target, kind, node.prim.name) in _TEXTS:
            done[node] = node.prim.build(args, node.attr)
        else:
            static = () if node.attr is None else (node.attr,)
            (done[node],) = defined([as_expr(node.prim.python(*args, *static))], target, kind)
    return [done[root] for root in roots]


class _Writer:
    def __init__(self, target: str, kind: str, names: Mapping[str, str]) -> None:
        self.target, self.kind, self.names = target, kind, names
        self.lines: list[str] = []
        self.text: dict[Expr, str] = {}
        self._converted: dict[tuple[Expr, bool], str] = {}
        self._used = set(names.values())
        self._count = 0

    def fresh(self) -> str:
        while True:
            self._count += 1
            if (name := f"t{self._count}") not in self._used:
                return name

    def write(self, node: Expr) -> None:
        if node.prim is not None:
            self.text[node] = self._spelled(node, node.prim)
        elif isinstance(node, Const):
            self.text[node] = constant(node.attr, self.kind)
        elif isinstance(node, Var):
            if node.attr not in self.names:
                raise KeyError(f"no identifier for the variable {node.attr!r}")
            self.text[node] = self.names[node.attr]

    def _spelled(self, node: Expr, prim: Prim) -> str:
        kind, args = self._operands(node, prim)
        if node.attr is not None:
            args.append(str(node.attr))
        spelling = _TEXTS.get((self.target, self.kind, prim.name)) if kind == KINDS[self.kind] else None
        if spelling is None:
            found = SPELLINGS[self.target][kind].get(prim.name)
            if found is None:
                where = f"target {self.target!r}, dtype {DTYPE_NAMES[self.kind]!r}"
                raise NotImplementedError(f"no spelling of {prim.name!r} for {where}")
            if isinstance(found, str):
                return self._assign(found.format(*args, **_PARAMETERS[self.kind]))
            spelling = found
        lines, result = spelling(args, self.fresh)
        self.lines += lines
        return result

    def _operands(self, node: Expr, prim: Prim) -> tuple[str, list[str]]:
        """The kind of computation that the primitive is spelled in, and its arguments in that kind."""
        own = KINDS[self.kind]
        if prim.name in _LOGICAL:
            return own, [self._as(a, True) for a in node.args]
        if prim.name == "where":
            c, *branches = node.args
            return own, [self._as(c, True), *(self._as(a, node.is_bool) for a in branches)]
        if all(a.is_bool for a in node.args) and prim.name in SPELLINGS[self.target]["bool"]:
            return "bool", [self._as(a, True) for a in node.args]
        return own, [self._as(a, False) for a in node.args]

    def _as(self, node: Expr, as_bool: bool) -> str:
        """A node's value as a truth value or as a number; in a boolean kernel they are the same."""
        if node.is_bool == as_bool or self.kind == "b1":
            return self.text[node]
        if isinstance(node, Const):
            return constant(bool(node.attr), self.kind) if as_bool else constant(int(node.attr), self.kind)
        key = (node, as_bool)
        if key not in self._converted:
            form = "{0} != F(0)" if as_bool else "(F(1) if {0} else F(0))"
            self._converted[key] = self._assign(form.format(self.text[node]))
        return self._converted[key]

    def _assign(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name


def constant(value: Number, kind: str) -> str:
    """A constant at the compute dtype."""
    if isinstance(value, bool) or kind == "b1":
        return str(bool(value))
    if KINDS[kind] == "float":
        return f"F({float(value)!r})"
    if value != value or value in (math.inf, -math.inf) or value != int(value):
        raise TypeError(f"the constant {value!r} has no place in a computation of dtype {DTYPE_NAMES[kind]}")
    bits = _PARAMETERS[kind]["bits"]
    low, high = (0, 2**bits) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= value < high:
        name = {"i4": "int"}.get(kind, f"{DTYPE_NAMES[kind]}_t")
        raise OverflowError(f"value cannot be converted to type {name} without overflow")
    return f"F({int(value)})"


def _globals_read(lines: list[str], results: list[str], inputs: set[str]) -> set[str]:
    # By their spelling: Python's own table of names took 3 of the 68 ms of a transformer's first step.
    assigned = {line.strip().split(" = ", 1)[0] for line in lines}
    read = set(_NAME.findall("\n".join([*lines, *results]))) - assigned - inputs
    return {n for n in read if n != "F" and not keyword.iskeyword(n) and not hasattr(builtins, n)}


_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")  # no attribute, and no exponent of a number
