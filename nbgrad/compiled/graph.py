"""The recorded program: a flat list of launches over named memory, which can be printed and checked.

Promises the passes that every operand is a number or a place in a `Memory`, that what a launch may write to is known from its kernel's
text, and that `check` refuses a list in which something is read before it was written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nbgrad.base.tables import cached
from nbgrad.kernels import build
from nbgrad.kernels.calls import Call

INSIDE, FRESH, OUTSIDE, GIVEN, GRAD, CONSTANT, FLAG, DRAWN, SAVED, INCOMING = (
    *("inside", "fresh", "outside", "given", "gradient", "constant", "flag", "drawn", "saved", "incoming"),
)
SLOTS = (GIVEN, GRAD, DRAWN, SAVED, INCOMING)  # another memory at each call


class Unknown(Exception):
    """Why a call cannot be done from a record."""


class Strange(Unknown):
    """It may be what another thread did meanwhile."""


@dataclass(eq=False)
class Memory:
    """`inside` is made and forgotten by the program; `fresh` is made by each call for what it returns; `outside` belongs to a tensor
    that is watched; `given` to an argument and `gradient` to a leaf's `.grad`, which may be another at each call; a `constant` is
    nbgrad's own, as the `flag` is, by which kernels refuse. Random numbers are `drawn` before a program runs; one that goes back through a
    call has what that `saved`, and gradients that are `incoming`."""

    name: str
    kind: str
    nbytes: int
    address: int
    array: Any
    about: Any = ""  # whose it is
    late: bool = False  # of what is fresh: made when nothing may refuse any more

    def __repr__(self) -> str:
        return self.name


class Table(NamedTuple):
    """Words that a kernel reads addresses from: numbers, and places."""

    words: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"a table of {len(self.words)}"


class Place(NamedTuple):
    """Where an operand begins."""

    memory: Memory
    offset: int = 0

    def __repr__(self) -> str:
        return f"{self.memory}+{self.offset}" if self.offset else f"{self.memory}"


def _renamed(a: Any, place: Callable[[Place], Place]) -> Any:
    if isinstance(a, Place):
        return place(a)
    if isinstance(a, Table):
        return Table(tuple([_renamed(word, place) for word in a.words]))
    return a


Spans = tuple[int | None, ...]  # bytes of each operand that an item reaches, 0: all of it, None: not known


class Strips(NamedTuple):
    """Launches, how many of the items of each are in a strip, and what lies in room of its own: where, and bytes of a strip."""

    ops: tuple[Op, ...]
    items: tuple[int, ...]
    room: int
    own: dict[int, tuple[int, int]]


@dataclass(eq=False)
class Op:
    """One launch: what it is given, and which of its operands it may write to."""

    call: Call
    args: tuple[Any, ...]
    writes: tuple[bool, ...]
    title: str
    segment: bool = False  # the flag is to be looked at behind it
    was: tuple[str, ...] = ()  # what was fused into it
    beside: tuple[
        tuple[Place, bool], ...
    ] = ()  # what it reaches by addresses in a table, and whether it writes there
    only: tuple[Place, tuple[Op, ...]] | None = None  # it is these, and only where that flag is not 0

    sure: tuple[Place, Any] | None = None  # it is no launch, but looks whether values pass a test
    # It is no kernel's: what is done with all that is `beside`, numbers, and how what is beside is read.
    work: tuple[Any, tuple[Any, ...], tuple[Any, ...]] | None = None
    spans: Spans | None = None  # where its text is written for this program
    strips: Strips | None = None  # it is these, by strips
    behind: tuple[Place, ...] = ()  # what has to be there before it, though it is not read

    @property
    def parts(self) -> tuple[Op, ...]:
        """The launches that it is, if it is more than one."""
        return self.strips.ops if self.strips is not None else self.only[1] if self.only is not None else ()

    def rename(self, place: Callable[[Place], Place]) -> None:
        """Give it other places."""
        self.args = tuple([_renamed(a, place) for a in self.args])
        self.beside = tuple([(place(p), w) for p, w in self.beside])
        if self.sure is not None:
            self.sure = place(self.sure[0]), self.sure[1]
        if self.only is not None:
            self.only = place(self.only[0]), self.only[1]
        for op in self.parts:
            op.rename(place)

    def written(self) -> list[Place]:
        return [a for a, w in zip(self.args, self.writes) if w] + [p for p, w in self.beside if w]

    def read(self) -> list[Place]:
        """What it does not write to."""
        given = [a for a, w in zip(self.args, self.writes) if isinstance(a, Place) and not w]
        return given + [p for p, w in self.beside if not w]

    def places(self) -> list[Place]:
        return [a for a in self.args if isinstance(a, Place)] + [p for p, _ in self.beside]

    def __repr__(self) -> str:
        outs = ", ".join(map(repr, self.written()))
        rest = [a for a, w in zip(self.args, self.writes) if not w] + [p for p, w in self.beside if not w]
        shared = f" in {self.call.pieces} pieces" if self.call.pieces else ""
        was = f"    # {' + '.join(self.was)}" if self.was else ""
        return f"{outs} = {self.title}({', '.join(map(repr, rest))})  n={self.call.n}{shared}{was}"


@dataclass
class Graph:
    name: str
    ops: list[Op]
    memories: list[Memory]
    results: list[str] = field(default_factory=list)
    cut: int = 0  # how many of its launches are the call's, where others go back through it

    def __str__(self) -> str:
        known = [m for m in self.memories if m.kind not in (CONSTANT, FLAG)]
        used = {id(p.memory) for op in self.ops for p in op.places()}
        heads = [
            f"  {m.name}: {m.nbytes} bytes, {m.kind}{f' {m.about}' if m.about else ''}"
            for m in known
            if id(m) in used or m.kind == FRESH
        ]
        lines = [f"  {op!r}" for op in self.ops]
        return "\n".join(
            [f"{self.name}:", *heads, *lines, f"  return {', '.join(self.results) or 'nothing'}"]
        )


def check(graph: Graph) -> None:
    """Refuse a list in which memory that the program makes is read before anything was written to it, or an operand leaves its
    memory."""
    written: set[int] = set()
    for op in graph.ops:
        if len(op.args) != len(op.call.kinds):
            raise Unknown(f"{op.title} has {len(op.args)} operands in place of {len(op.call.kinds)}")
        for p in op.places():
            if not 0 <= p.offset <= p.memory.nbytes:
                raise Unknown(f"{op.title} is given a place outside of {p.memory}")
        written.update(
            id(p.memory) for p in op.written()
        )  # which some kernels are given once more, to be ignored
        for p in op.read():
            if p.memory.kind in (INSIDE, FRESH) and id(p.memory) not in written:
                raise Unknown(f"memory that {op.title} reads was not written by a kernel")
    for m in graph.memories:
        if m.kind == FRESH and id(m) not in written:
            raise Unknown("a result was not written by a kernel")


def addresses(graph: Graph) -> list[int]:
    """Of all kernels that it launches."""
    every = [one for op in graph.ops for one in (op.parts or (op,))]
    return [*dict.fromkeys(op.call.address for op in every if op.call.address)]


@cached(None)
def _kernels() -> dict[int, build.Kernel]:
    return {}


def kernel_at(address: int) -> build.Kernel:
    """The kernel whose code lies there."""
    known = _kernels()
    found = known.get(address)
    if found is None:
        known.update({k.address: k for k in list(build._kernels.values())})
        found = known.get(address)
    if found is None:
        raise Unknown("a launch is not of a kernel that has a text")
    return found


# Kernels that multiply are given addresses as integers: of two operands, the result, and in tiles room and what is added.
_PRODUCT = re.compile(r"(tiles|dots|product|products_\d+x\d+x\d+)_f\d_[0-9a-f]{20}$")
_OF_TILES, _OF_PRODUCTS = (False, False, True, True, False, False), (False, False, True, False)
# One that lays planes beside one another is given its text's sizes, what it makes, what it reads, and where to begin.
_PANELS, _OF_PANELS = re.compile(r"panels_f\d_\d+_(True|False)_[0-9a-f]{20}$"), (False, True, False, False)
_LAYOUT = "meta"  # the name of the table by which a kernel knows how its operands lie


@cached(None)
def roles(address: int) -> tuple[bool, ...]:
    """Which of a kernel's parameters behind the range it may write to: those that its text stores to, or hands to a function."""
    kernel = kernel_at(address)
    if _PRODUCT.match(kernel.name):
        return _OF_TILES if kernel.name.startswith("tiles") else _OF_PRODUCTS
    if _PANELS.match(kernel.name):
        return _OF_PANELS
    function = next(
        node
        for node in ast.parse(kernel.source).body
        if isinstance(node, ast.FunctionDef) and node.name == kernel.name
    )
    loads = {
        id(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
    }
    plain = {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and id(node) not in loads
    }  # stored to through a subscript, passed on, renamed
    names = [arg.arg for arg in function.args.args][2:]
    codes = kernel.params.split()[-len(names) :]
    return tuple(
        code == "i8" or (code[0] == "*" and name in plain and name != _LAYOUT)
        for name, code in zip(names, codes)
    )


@cached(None)
def layout_of(address: int) -> int | None:
    """Which of a kernel's parameters behind the range is a table of its plan's: how its operands lie."""
    if _PRODUCT.match(kernel_at(address).name):
        return len(roles(address)) - 1
    names = re.findall(
        r"\w+", kernel_at(address).source.partition(f"def {kernel_at(address).name}(")[2].partition(")")[0]
    )
    return names.index(_LAYOUT) - 2 if _LAYOUT in names else None


def title_of(address: int) -> str:
    return re.sub(r"_[0-9a-f]{20}$", "", kernel_at(address).name)
