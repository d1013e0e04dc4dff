"""What a plain function becomes before it is differentiated: scalars in single assignment, arrays by name, control flow as nested blocks.

Promises the passes that an expression has no effect, that two arrays never share memory (a view is its base with other indices), that a
name is set at one place (merged names and those that a loop carries, at the places that say so), and that blocks nest: there is no exit
but a block's end, and a loop's `stopped`, which is looked at when a turn is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np


class Refused(NotImplementedError):
    """A construct outside of what can be differentiated: its file and line, what it is, what to write instead."""


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Const:
    value: Any = field(compare=False)
    text: str  # 1, 1.0 and True are equal in Python, and 0.0 is -0.0

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Name:
    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Load:
    base: str
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """How long an array is along an axis."""

    base: str
    axis: int


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation by the name that `ops.py` has it under."""

    op: str
    args: tuple[Expr, ...]


Expr: TypeAlias = Const | Name | Load | Extent | Apply


def const(value: Any) -> Const:
    return Const(value, repr(value))


ZERO, ONE, FLOAT_ZERO, FLOAT_ONE = const(0), const(1), const(0.0), const(1.0)


def parts(e: Expr) -> tuple[Expr, ...]:
    if isinstance(e, Apply):
        return e.args
    return e.index if isinstance(e, Load) else ()


def walk(e: Expr) -> Iterator[Expr]:
    yield e
    for part in parts(e):
        yield from walk(part)


def names(e: Expr) -> set[str]:
    """The scalar names that an expression reads."""
    return {n.name for n in walk(e) if isinstance(n, Name)}


def loads(e: Expr) -> list[Load]:
    return [n for n in walk(e) if isinstance(n, Load)]


def with_loads(e: Expr, change: Callable[[Load], Expr]) -> Expr:
    """`e` with each load replaced, those in indices first."""
    if isinstance(e, Load):
        return change(Load(e.base, tuple(with_loads(i, change) for i in e.index)))
    if isinstance(e, Apply):
        return Apply(e.op, tuple(with_loads(a, change) for a in e.args))
    return e


def is_leaf(e: Expr) -> bool:
    return isinstance(e, Name | Const)


# ---------------------------------------------------------------- views


@dataclass(frozen=True, slots=True)
class At:
    """One index of an axis."""

    index: Expr


@dataclass(frozen=True, slots=True)
class Span:
    """A part of an axis, each `step`th from `low` on; None is all of it."""

    low: Expr = ZERO
    length: Expr | None = None
    step: int = 1


@dataclass(frozen=True, slots=True)
class View:
    """A part of an array: what is taken of each axis of its base, and the order in which the axes that are left are seen."""

    base: str
    axes: tuple[At | Span, ...]
    order: tuple[int, ...]

    def whole(self) -> bool:
        return all(a == Span() for a in self.axes) and list(self.order) == sorted(self.order)

    def exprs(self) -> list[Expr]:
        found = []
        for axis in self.axes:
            if isinstance(axis, At):
                found.append(axis.index)
            else:
                found += [e for e in (axis.low, axis.length) if e is not None]
        return found


def whole(base: str, rank: int) -> View:
    return View(base, (Span(),) * rank, tuple(range(rank)))


# ---------------------------------------------------------------- statements


@dataclass(eq=False, slots=True)
class Statement:
    seq: int = field(default=0, init=False, repr=False)  # where it stands, for who asks what comes later
    around: tuple[Loop, ...] = field(default=(), init=False, repr=False)


@dataclass(eq=False, slots=True)
class Let(Statement):
    name: str
    value: Expr
    kept: bool = False  # to be saved, as what it was loaded from is written over


@dataclass(eq=False, slots=True)
class Store(Statement):
    base: str
    index: tuple[Expr, ...]
    value: Expr


@dataclass(eq=False, slots=True)
class Add(Statement):
    """base[index] += value"""

    base: str
    index: tuple[Expr, ...]
    value: Expr


@dataclass(eq=False, slots=True)
class Make(Statement):
    base: str
    extents: tuple[Expr, ...]
    zeros: bool


@dataclass(eq=False, slots=True)
class Product(Statement):
    """base = left @ right, by BLAS"""

    base: str
    left: View
    right: View


@dataclass(eq=False, slots=True)
class Fill(Statement):
    """base = what a formula of `formulas` makes of arrays"""

    base: str
    of: Any
    args: tuple[View, ...]
    held: dict[int, str] = field(default_factory=dict)  # copies that the reverse sweep reads of what it tells


@dataclass(eq=False, slots=True)
class Keep(Statement):
    """base, which only the reverse sweep reads, is what an array is now; it is saved with the turn"""

    base: str
    of: View
    extents: tuple[Expr, ...]


@dataclass(eq=False, slots=True)
class Grow(Statement):
    """Room for `size` values, with those that there are."""

    base: str
    size: Expr


@dataclass(eq=False, slots=True)
class Raise(Statement):
    text: str


@dataclass(eq=False, slots=True)
class Branch(Statement):
    test: Expr
    then: list[Any]
    other: list[Any]
    merged: list[tuple[str, Expr, Expr]]  # a name, and what it is after either side


@dataclass(eq=False, slots=True)
class Loop(Statement):
    """`for var in range(start, ..., step)`, `count` turns; or `while test`, whose statements are `head`."""

    body: list[Any]
    carried: list[tuple[str, Expr, Expr]]  # a name, what it is before the first turn, what a turn makes of it
    var: str = ""
    start: Expr = ZERO
    step: int = 1
    count: Expr = ZERO
    head: list[Any] = field(default_factory=list)
    test: Expr | None = None
    stopped: Expr | None = None
    trips: str = ""  # counts turns where they are not known before
    parallel: bool = False  # may its turns run at once?

    # What the adjoint does with it (analyse.py):
    rerun: bool = False  # is it run again in the reverse sweep, turn by turn?
    private: set[str] = field(default_factory=set)  # arrays that only one turn knows
    steps: str = (
        ""  # how many turns lie between copies of what it carries; "0" for as many as there are copies
    )
    room: int = (
        0  # for how many copies, laid where few turns are run again; 0 where they lie so many turns apart
    )
    states: list[str] = field(default_factory=list)  # arrays that are copied then
    saved: list[str] = field(default_factory=list)  # names that are saved at each turn
    again: set[str] = field(default_factory=set)  # names that are computed again
    counter: str = ""

    @property
    def straight(self) -> bool:
        """Does it count 0, 1, 2, ...?"""
        return self.start == ZERO and self.step == 1


Block: TypeAlias = list[Any]


def blocks(s: Any) -> list[Block]:
    if isinstance(s, Branch):
        return [s.then, s.other]
    if isinstance(s, Loop):
        return [s.head, s.body]
    return []


def statements(block: Block) -> Iterator[Any]:
    """All, those inside of others included."""
    for s in block:
        yield s
        for inner in blocks(s):
            yield from statements(inner)


def exprs(s: Any) -> list[Expr]:
    """What a statement reads itself."""
    if isinstance(s, Let):
        return [s.value]
    if isinstance(s, Store | Add):
        return [*s.index, s.value]
    if isinstance(s, Make):
        return list(s.extents)
    if isinstance(s, Grow):
        return [s.size]
    if isinstance(s, Product | Fill):
        return [e for v in operands(s) for e in v.exprs()]
    if isinstance(s, Keep):
        return [*s.of.exprs(), *s.extents]
    if isinstance(s, Branch):
        return [s.test, *(e for _, a, b in s.merged for e in (a, b))]
    if isinstance(s, Loop):
        found = [e for _, first, last in s.carried for e in (first, last)]
        found += [s.start, s.count] if s.test is None else [s.test]
        return found + ([s.stopped] if s.stopped is not None else [])
    return []


def writes(s: Any) -> str | None:
    """The array that a statement writes itself."""
    return s.base if isinstance(s, Store | Add | Make | Product | Fill | Grow) else None


def operands(s: Product | Fill) -> tuple[View, ...]:
    return (s.left, s.right) if isinstance(s, Product) else s.args


def reads(s: Any) -> set[str]:
    """The arrays that it loads from itself."""
    found = {load.base for e in exprs(s) for load in loads(e)}
    if isinstance(s, Product | Fill):
        found |= {v.base for v in operands(s)}
    return found | {s.of.base} if isinstance(s, Keep) else found


def sets(s: Any) -> list[str]:
    """The names that a statement sets in its own block."""
    if isinstance(s, Let):
        return [s.name]
    if isinstance(s, Keep):
        return [s.base]
    if isinstance(s, Branch):
        return [name for name, _, _ in s.merged]
    if isinstance(s, Loop):
        return [name for name, _, _ in s.carried] + ([s.trips] if s.trips else [])
    return []


# ---------------------------------------------------------------- programs


@dataclass(slots=True)
class Array:
    rank: int
    dtype: str
    extents: tuple[Expr, ...] | None  # None for a parameter

    @property
    def kind(self) -> str:
        return kind_of(self.dtype)


def kind_of(dtype: str) -> str:
    return "float" if dtype.startswith("float") else "bool" if dtype == "bool" else "int"


@dataclass(frozen=True, slots=True)
class Several:
    """Results side by side, as a tuple, a named one, a list or a dictionary."""

    of: Any
    parts: tuple[Form, ...]

    def holding(self, parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
        if self.of is complex:
            return join(*parts)
        return (
            self.of(*parts)
            if hasattr(self.of, "_fields")
            else list(parts)
            if self.of is list
            else tuple(parts)
            if self.of is tuple
            else self.of(parts)
        )


def joined(re: Any, im: Any) -> Any:
    """Complex numbers of their parts."""
    if not isinstance(re, np.ndarray):
        return complex(re, im)
    narrow = re.dtype == im.dtype == np.float32
    found = np.empty(re.shape, np.complex64 if narrow else np.complex128)
    found.real, found.imag = re, im
    return found


Form: TypeAlias = int | Several | None  # which result it is, several, or nothing


def arranged(form: Form, values: Sequence[Any], join: Callable[[Any, Any], Any] = joined) -> Any:
    """The values as the function gives them."""
    if isinstance(form, Several):
        return form.holding([arranged(part, values, join) for part in form.parts], join)
    return None if form is None else values[form]


@dataclass(slots=True)
class Program:
    name: str
    params: list[str]
    body: Block
    results: list[Expr | View]
    form: Form  # how they lie side by side
    kinds: dict[str, str]
    arrays: dict[str, Array]
    constants: dict[str, Any]  # what the text calls beside math and np
    taken: set[str]
    drawn: str = ""  # the parameter that holds what np.random gave, behind all others
    draws: bool = False  # does it draw itself?
    natural: set[str] = field(default_factory=set)  # names of integers that are never negative
    defined: dict[str, Expr] = field(default_factory=dict)  # what names of integers were set to
    least: dict[str, Expr] = field(default_factory=dict)  # bounds of counters, while their loops run
    most: dict[str, Expr] = field(default_factory=dict)

    def state(self) -> tuple[Any, ...]:
        """What a loop that is lowered again begins from."""
        known = self.kinds, self.arrays, self.natural, self.defined, self.least, self.most
        return (set(self.taken), *(k.copy() for k in known))

    def restore(self, state: tuple[Any, ...]) -> None:
        taken, *known = (s.copy() for s in state)
        self.taken = taken
        self.kinds, self.arrays, self.natural, self.defined, self.least, self.most = known

    def fresh(self, hint: str) -> str:
        name, k = hint, 0
        while name in self.taken:
            k += 1
            name = f"{hint}_{k}"
        self.taken.add(name)
        return name

    def float_params(self) -> list[str]:
        params = [p for p in self.params if p != self.drawn]
        return [p for p in params if self.kinds.get(p, "") == "float" or self.is_float_array(p)]

    def is_float_array(self, name: str) -> bool:
        return name in self.arrays and self.arrays[name].kind == "float"
