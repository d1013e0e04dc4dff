"""Blocks of LLVM's text, and the ways between them.

Promises the walk over a function (`dialect_code.py`): `part` and `leave` end a block, with edges that lead nowhere yet; `meet` begins the
next one where some of them meet. A variable is the value that it was last given, so where ways meet that gave it different ones
there is a phi, of the type that Numba unifies theirs to.
"""

from __future__ import annotations

from collections.abc import Sequence

from nbgrad.kernels.dialect_types import TUPLE, Refused, Value, cast, llvm, unified


class Module:
    """What its functions share. `declared` are other definitions by name, `read` the functions that were read from their text. `wide`
    says whether they want the machine's full vectors, `ordered` whether the bits of what is gathered in any order depend on those."""

    __slots__ = ("beyond", "contract", "declared", "ordered", "read", "wide")

    def __init__(self, contract: bool) -> None:
        self.contract = contract
        self.wide = self.beyond = self.ordered = False
        self.declared: dict[str, str] = {}
        self.read: dict[str, tuple[str, str]] = {}


class Block:
    """Lines up to where ways part. `end` is the branch, whose targets are not known before what follows is written."""

    __slots__ = ("end", "label", "lines")

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str] = []
        self.end: list[str] = []


class Edge:
    """A way out of a block that leads nowhere yet, and the variables on it."""

    __slots__ = ("at", "block", "names")

    def __init__(self, block: Block, at: int, names: dict[str, Value]) -> None:
        self.block, self.at, self.names = block, at, names


class Ways:
    """The lines of one function, in blocks; `names` are the variables here, `live` says whether any way leads here."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.names: dict[str, Value] = {}
        self.blocks: list[Block] = []
        self.block = Block("entry")
        self.live = True
        self.entries: list[str] = []
        self.count = 0

    # ------------------------------------------------------------ what takes the lines

    def line(self, text: str) -> None:
        self.block.lines.append(text)

    def made(self, type_: str, operation: str) -> Value:
        self.count += 1
        name = f"%v{self.count}"
        self.block.lines.append(f"{name} = {operation}")
        return Value(type_, name)

    def flagged(self, operation: str) -> str:
        return f"{operation} contract" if self.module.contract else operation

    def declare(self, name: str, text: str) -> None:
        self.module.declared.setdefault(name, text)

    def entry(self, type_: str, operation: str) -> Value:
        """Something that is made once, when the function begins."""
        self.count += 1
        self.entries.append(f"%v{self.count} = {operation}")
        return Value(type_, f"%v{self.count}")

    def widen(self, beyond: bool = False) -> None:
        """Asks for the machine's full vectors: `kernels/cpu/vmath.py` has why. They are those of the level, unless `beyond` it."""
        self.module.wide, self.module.beyond = True, self.module.beyond or beyond

    def order(self) -> None:
        """Something is gathered in an order that depends on how wide vectors are."""
        self.module.ordered = True

    def label(self) -> str:
        self.count += 1
        return f"L{self.count}"

    def start(self, label: str) -> None:
        self.block = Block(label)
        self.blocks.append(self.block)

    # ------------------------------------------------------------ ways

    def leave(self) -> list[Edge]:
        """The way on from here, if there is one."""
        if not self.live:
            return []
        self.live = False
        self.block.end = ["br label %", ""]
        return [Edge(self.block, 1, self.names)]

    def part(self, condition: Value) -> tuple[list[Edge], list[Edge]]:
        """Two ways, by a truth value."""
        block, names = self.block, self.names
        block.end = [f"br i1 {condition.text}, label %", "", ", label %", ""]
        self.live = False
        return [Edge(block, 1, names)], [Edge(block, 3, names)]

    def meet(self, edges: list[Edge], label: str = "") -> None:
        """Go on where ways meet."""
        if not edges:
            return
        self.start(label or self.label())
        for e in edges:
            e.block.end[e.at] = self.block.label
        self.live = True
        first, *others = (e.names for e in edges)
        self.names = dict(first)
        for name, value in first.items():
            if all(o.get(name) is value for o in others):
                continue
            if any(name not in o for o in others):
                del self.names[name]  # not certain to be there
                continue
            values = [e.names[name] for e in edges]
            try:
                self.names[name] = self._met(edges, values)
            except Refused:
                del self.names[name]  # of types that do not go together: refused where it is read

    def _met(self, edges: list[Edge], values: list[Value]) -> Value:
        if values[0].type == TUPLE:
            if any(v.type != TUPLE or len(v.known) != len(values[0].known) for v in values):
                raise Refused("tuples of different lengths")
            parts = [self._met(edges, [v.known[k] for v in values]) for k in range(len(values[0].known))]
            return Value(TUPLE, "", tuple(parts))
        to = values[0].type
        for v in values[1:]:
            to = unified(to, v.type)
        texts = [self.on(e, v, to) for e, v in zip(edges, values, strict=True)]
        if all(t == texts[0] for t in texts):
            return Value(to, texts[0])
        self.count += 1
        here = self.block.lines
        here.insert(0, f"%v{self.count} = phi {llvm(to)} {phi(texts, [e.block for e in edges])}")
        return Value(to, f"%v{self.count}")

    def on(self, edge: Edge, value: Value, to: str) -> str:
        """A value as another type, on the way there."""
        if value.type == to:
            return value.text
        here, self.block = self.block, edge.block
        try:
            return cast(self, value, to).text
        finally:
            self.block = here


def phi(texts: Sequence[str], blocks: Sequence[Block]) -> str:
    return ", ".join(f"[ {text}, %{block.label} ]" for text, block in zip(texts, blocks, strict=True))
