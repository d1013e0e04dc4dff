"""Statements are appended here: scalars by `let`, loops over a shape by `nest`, sums by `fold`; and what a user's name may stand for.

Promises the lowering that operands of what is not linear are names, constants or loads, so that a derivative can name them; and that
a name is bound to its value once.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from nbgrad.adjoints import ops
from nbgrad.adjoints.ir import (
    ONE,
    ZERO,
    Add,
    Apply,
    Array,
    At,
    Block,
    Branch,
    Const,
    Expr,
    Extent,
    Fill,
    Let,
    Load,
    Loop,
    Make,
    Name,
    Product,
    Program,
    Raise,
    Refused,
    Span,
    Store,
    View,
    const,
    is_leaf,
    kind_of,
    loads,
    whole,
)


@dataclass(eq=False, slots=True)
class Elementwise:
    """An array expression that is not stored: what stands at an index is computed there."""

    shape: list[Expr]
    element: Callable[[list[Expr]], Expr]
    bases: set[str]
    dtype: str = "float64"
    of: str = ""  # the array that it is a view of to who wrote the program, where it is
    pair: Any = None  # of one part of complex numbers, what gives both


@dataclass(frozen=True)
class Keys:
    """What the items of a dictionary are called; `marks` say which dictionaries it may be to who wrote the program."""

    names: tuple[Any, ...]
    marks: frozenset[object] = field(default=frozenset(), compare=False)

    def or_other(self, other: Keys) -> Keys:
        return Keys(self.names, self.marks | other.marks)

    def __call__(self, parts: list[Any]) -> dict[Any, Any]:
        return dict(zip(self.names, parts))


@dataclass(eq=False, slots=True)
class Items:
    """A tuple, a named one, a list or a dictionary, whose items are known while lowering."""

    items: list[Any]
    of: Any = tuple

    @property
    def fields(self) -> tuple[str, ...]:
        return getattr(self.of, "_fields", ())

    def each(self, f: Callable[[Any], Any]) -> Items:
        """The same of what `f` makes of the items."""
        return Items([f(i) for i in self.items], self.of)


@dataclass(eq=False, slots=True)
class Listed:
    """A list of tuples or arrays, of which room holds as many as a counter says, from a place on."""

    rooms: Any
    count: Expr
    of: str  # the room of the list itself, by which it is told from others
    low: Expr = ZERO


@dataclass(eq=False, slots=True)
class Object:
    """Any other object of Python's, known while lowering."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


Value: TypeAlias = Expr | View | Elementwise | Items | Listed | Object
Index: TypeAlias = list[Expr]


def is_scalar(x: Any) -> bool:
    return isinstance(x, Expr)


def is_array(x: Any) -> bool:
    return isinstance(x, View | Elementwise)


def is_keyed(x: Any) -> bool:
    return isinstance(x, Items) and isinstance(x.of, Keys)


def is_complex(x: Any) -> bool:
    return isinstance(x, Items) and x.of is complex


def has_complex(x: Any) -> bool:
    """Is it complex, or are what it lists?"""
    if isinstance(x, Listed):
        return has_complex(x.rooms)
    return is_complex(x) or (isinstance(x, Items) and any(map(has_complex, x.items)))


def is_none(x: Any) -> bool:
    return isinstance(x, Object) and x.value is None


def leaves(x: Value) -> list[Any]:
    """What stands in a tuple and in those inside of it; of what is none, itself."""
    return [leaf for i in x.items for leaf in leaves(i)] if isinstance(x, Items) else [x]


def with_leaves(x: Value, new: Iterator[Any]) -> Any:
    """The same of other leaves."""
    return x.each(lambda i: with_leaves(i, new)) if isinstance(x, Items) else next(new)


def holds_array(x: Any) -> bool:
    return any(map(is_array, leaves(x)))


class Builder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.block: Block = program.body
        self.node: ast.AST | None = None  # where in the text we are, for who refuses
        self.file = ""
        self.first: list[list[Any]] = []  # arrays that are made before all, and what is written to them
        self.grown: set[str] = set()
        self.lists: set[str] = set()  # arrays that are lists to who wrote the program

    def array_of_list(self, x: Listed) -> View:
        raise NotImplementedError

    def refuse(self, why: str, instead: str = "", node: ast.AST | None = None) -> NoReturn:
        raise Refused(self.refusal(why, instead, node))

    def refusal(self, why: str, instead: str = "", node: ast.AST | None = None) -> str:
        line = getattr(node or self.node, "lineno", "?")
        return f"{os.path.basename(self.file)}:{line}: {why}{f' ({instead})' if instead else ''}"

    # ------------------------------------------------ scalars

    def fresh(self, hint: str | None) -> str:
        name = (hint or "").strip("_")
        return self.program.fresh(name if name.isidentifier() else "t")

    def kind(self, e: Expr) -> str:
        return ops.kind(e, self.program.kinds, self.program.arrays)

    def let(self, hint: str | None, e: Expr) -> Name:
        name = self.fresh(hint)
        self.program.kinds[name] = self.kind(e)
        if self.program.kinds[name] == "int":
            self.program.defined[name] = e
            if self.natural(e):
                self.program.natural.add(name)
        self.block.append(Let(name, e))
        return Name(name)

    def natural(self, e: Expr) -> bool:
        return ops.is_natural(e, self.program)

    def leaf(self, e: Expr) -> Expr:
        """An operand that a derivative may name."""
        return e if not isinstance(e, Apply) or self.kind(e) != "float" else self.let(None, e)

    def settled(self, e: Expr, hint: str | None = None) -> Expr:
        """A name for an integer expression that reads arrays, which may change."""
        return self.let(hint or "k", e) if loads(e) else e

    def counted(self, e: Expr) -> Expr:
        """The length of a loop or of an axis: a name, a constant or an extent."""
        return e if is_leaf(e) or isinstance(e, Extent) else self.let("n", e)

    def binary(self, op: str, a: Expr, b: Expr, hint: str | None = None) -> Expr:
        if isinstance(a, Const) and isinstance(b, Const):
            known = ops.folded(op, [a, b])
            if known is not None:
                return known
        is_float = "float" in (self.kind(a), self.kind(b))
        if not is_float and op != "div":
            return self.whole(op, a, b)
        if op in ("add", "sub"):
            return Apply(op, (a, b))
        if op == "mul":
            operands = (
                (a, b) if isinstance(a, Const) or isinstance(b, Const) else (self.leaf(a), self.leaf(b))
            )
            return Apply(op, operands)
        if op == "div":
            if isinstance(b, Const) or (self.kind(b) == "int" and not isinstance(b, Apply | Load)):
                return Apply(op, (a, b))
            return self.let(hint, Apply(op, (self.leaf(a), self.leaf(b))))
        if op == "pow":
            return self.power(a, b, hint)
        if op in ("floor_divide", "remainder"):
            return self.let(hint, Apply(op, (self.leaf(a), self.leaf(b))))
        self.refuse(f"{ops.ARITHMETIC[op]} of floats")

    def whole(self, op: str, a: Expr, b: Expr) -> Expr:
        """Arithmetic of integers, whose neutral elements are left out."""
        if (op in ("add", "sub") and b == ZERO) or (op == "mul" and b == ONE):
            return a
        if (op == "add" and a == ZERO) or (op == "mul" and a == ONE):
            return b
        if op == "sub" and a == b and is_leaf(a):
            return ZERO
        return Apply(op, (a, b))

    def power(self, a: Expr, b: Expr, hint: str | None) -> Expr:
        if isinstance(b, Const) and self.kind(a) == "float":
            if b.value in (1, 2, 3):
                x = self.leaf(a)
                square = Apply("mul", (x, x))
                return (
                    x
                    if b.value == 1
                    else square
                    if b.value == 2
                    else Apply("mul", (self.let(None, square), x))
                )
            if b.value == 0.5:
                return self.function("sqrt", [a], hint)
        return self.let(hint, Apply("pow", (self.leaf(a), self.leaf(b))))

    def function(self, op: str, args: Sequence[Expr], hint: str | None = None) -> Expr:
        if all(isinstance(a, Const) for a in args):
            known = ops.folded(op, [a for a in args if isinstance(a, Const)])
            if known is not None:
                return known
        return self.let(hint, Apply(op, tuple(self.leaf(a) for a in args)))

    def choose(
        self, test: Expr, then: Callable[[], Expr], other: Callable[[], Expr], hint: str | None
    ) -> Expr:
        """What one of two branches computes, the other being left out."""
        if isinstance(test, Const):
            return then() if test.value else other()
        if not isinstance(test, Name):
            test = self.let("c", test)
        (a, first), (b, second) = self.inside(then), self.inside(other)
        return self.decided(test, (a, first), (b, second), hint)

    def decided(
        self, test: Expr, then: tuple[Expr, Block], other: tuple[Expr, Block], hint: str | None
    ) -> Name:
        (a, first), (b, second) = then, other
        name = self.fresh(hint)
        self.program.kinds[name] = ops.join(self.kind(a), self.kind(b))
        if self.natural(a) and self.natural(b):
            self.program.natural.add(name)
        self.block.append(Branch(test, first, second, [(name, a, b)]))
        return Name(name)

    def inside(self, make: Callable[[], Expr]) -> tuple[Expr, Block]:
        """An expression as a name or constant, and the statements that it takes."""
        around, self.block = self.block, []
        e = make()
        e = e if is_leaf(e) else self.let(None, e)
        made, self.block = self.block, around
        return e, made

    def require(self, test: Expr, message: str) -> None:
        """Raise where the test fails."""
        if isinstance(test, Const):
            if not test.value:
                self.refuse(message)
            return
        name = self.let("c", Apply("not", (test,)))
        self.block.append(Branch(name, [Raise(f'ValueError("{message}")')], [], []))

    # ------------------------------------------------ arrays

    def array(self, base: str) -> Array:
        return self.program.arrays[base]

    def extent(self, base: str, axis: int) -> Expr:
        extents = self.array(base).extents
        if base in self.grown:
            return self.let("n", Extent(base, axis))  # as it is now
        return Extent(base, axis) if extents is None else extents[axis]

    def length(self, v: View, axis: int) -> Expr:
        span = v.axes[axis]
        assert isinstance(span, Span)
        return self.extent(v.base, axis) if span.length is None else span.length

    def shape(self, x: Value) -> list[Expr]:
        if isinstance(x, View):
            return [self.length(x, axis) for axis in x.order]
        return x.shape if isinstance(x, Elementwise) else []

    def bases(self, x: Value) -> set[str]:
        return {x.base} if isinstance(x, View) else x.bases if isinstance(x, Elementwise) else set()

    def dtype(self, x: Value) -> str:
        if isinstance(x, View):
            return self.array(x.base).dtype
        if isinstance(x, Elementwise):
            return x.dtype
        assert isinstance(x, Expr)
        return {"float": "float64", "int": "int64", "bool": "bool"}[self.kind(x)]

    def load(self, v: View, index: Index) -> Load:
        """An element of a view, as one of its base."""
        place: dict[int, Expr] = {k: a.index for k, a in enumerate(v.axes) if isinstance(a, At)}
        for axis, i in zip(v.order, index):
            span = v.axes[axis]
            assert isinstance(span, Span)
            step = i if span.step == 1 else self.whole("mul", i, const(span.step))
            place[axis] = self.whole("add", span.low, step)
        return Load(v.base, tuple(place[k] for k in range(len(v.axes))))

    def element(self, x: Value, index: Index) -> Expr:
        """What stands at an index, a length of 1 being spread."""
        if isinstance(x, Expr):
            return x
        assert isinstance(x, View | Elementwise)
        shape = self.shape(x)
        inner = index[len(index) - len(shape) :]
        at = [ZERO if n == ONE else i for n, i in zip(shape, inner)]
        return self.load(x, at) if isinstance(x, View) else x.element(at)

    def together(self, xs: Sequence[Value]) -> list[Expr]:
        """The shape of several, broadcast; lengths that are not known to be equal are compared when it runs."""
        shapes = [s for s in (self.shape(x) for x in xs) if s]
        rank = max(map(len, shapes))
        found: list[Expr] = [ONE] * rank
        for shape in shapes:
            for k, n in enumerate(shape, rank - len(shape)):
                if found[k] == ONE:
                    found[k] = n
                elif n != ONE:
                    self.same(found[k], n)
        return found

    def same(self, a: Expr, b: Expr) -> None:
        a, b = self.root(a), self.root(b)
        if a != b:
            if isinstance(a, Const) and isinstance(b, Const):
                self.refuse(f"operands of lengths {a} and {b}")
            self.require(Apply("eq", (a, b)), "operands of different lengths")

    def root(self, n: Expr) -> Expr:
        """What a length was given as."""
        while isinstance(n, Name):
            given = self.given.get(n.name)
            if given is None:
                break
            n = given
        return n

    @property
    def given(self) -> dict[str, Expr]:
        return {
            s.name: s.value
            for s in self.block
            if isinstance(s, Let) and isinstance(s.value, Name | Const | Extent)
        }

    def elementwise(self, xs: Sequence[Value], f: Callable[..., Expr]) -> Expr | Elementwise:
        if all(isinstance(x, Expr) for x in xs):
            return f(*xs)
        for x in xs:
            if not isinstance(x, Expr | View | Elementwise):
                self.refuse("an operation of numbers and arrays on something else")
        shape = self.together(xs)
        given = [self.read_once(x) for x in xs]
        made = Elementwise(
            shape,
            lambda i: f(*(self.element(x, i) for x in given)),
            set().union(*(self.bases(x) for x in given)),
        )
        made.dtype = self.result_dtype(made)
        return made

    def read_once(self, x: Any) -> Any:
        """A number for all elements, as it is before any is written."""
        return self.let(None, x) if isinstance(x, Expr) and not is_leaf(x) else x

    def result_dtype(self, x: Elementwise) -> str:
        """By computing one element, which is thrown away."""
        around, self.block = self.block, []
        kind = self.kind(x.element([ZERO] * len(x.shape)))
        self.block = around
        return {"float": "float64", "int": "int64", "bool": "bool"}[kind]

    def make(self, hint: str | None, shape: Sequence[Expr], dtype: str, zeros: bool) -> View:
        base = self.fresh(hint or "a")
        extents = tuple(self.counted(self.settled(n)) for n in shape)
        self.program.arrays[base] = Array(len(extents), dtype, extents)
        self.block.append(Make(base, extents, zeros))
        return whole(base, len(extents))

    def stored(self, x: View | Elementwise, hint: str | None = None) -> View:
        made = self.make(hint, self.shape(x), self.dtype(x), zeros=False)
        self.nest(self.shape(made), lambda i: self.store(self.load(made, i), self.element(x, i)))
        return made

    def store(self, at: Load, e: Expr) -> None:
        self.block.append(Store(at.base, at.index, e))

    def add(self, at: Load, e: Expr) -> None:
        self.block.append(Add(at.base, at.index, e))

    def assign(self, v: View, x: Value) -> None:
        """v[...] = x"""
        if not isinstance(x, Expr | View | Elementwise):
            self.refuse("something that is neither a number nor an array is written to an array")
        if not isinstance(x, Expr) and v.base in self.bases(x):
            assert isinstance(x, View | Elementwise)
            x = self.stored(x)
        if not isinstance(x, Expr):
            if len(self.shape(x)) > len(self.shape(v)):
                self.refuse("an array of more dimensions is written to one of fewer")
            self.fits(self.shape(v), self.shape(x))
        e = self.read_once(x)
        self.nest(self.shape(v), lambda i: self.store(self.load(v, i), self.element(e, i)))

    def fits(self, target: list[Expr], shape: list[Expr]) -> None:
        for n, m in zip(target[len(target) - len(shape) :], shape):
            if m != ONE:
                self.same(n, m)

    def nest(self, shape: Sequence[Expr], body: Callable[[Index], None]) -> None:
        """Loops over a shape."""
        opened = []
        for n in shape:
            opened.append(self.open(n))
        body([Name(loop.var) for _, loop in opened])
        for around, loop in reversed(opened):
            loop.body, self.block = self.block, around
            around.append(loop)

    def open(self, n: Expr) -> tuple[Block, Loop]:
        loop = Loop([], [], var=self.fresh("i"), count=self.counted(self.settled(n)))
        self.program.kinds[loop.var] = "int"
        self.program.natural.add(loop.var)
        self.program.most[loop.var] = Apply("sub", (loop.count, ONE))
        around, self.block = self.block, []
        return around, loop

    def fold(
        self,
        shape: Sequence[Expr],
        first: Expr,
        step: Callable[[Expr, Index], Expr],
        hint: str | None,
        kind: str = "float",
    ) -> Expr:
        """total = first; then total = step(total, index) for each index of a shape."""
        total = first
        opened = []
        for n in shape:
            around, loop = self.open(n)
            head = self.fresh(hint or "total")
            self.program.kinds[head] = kind
            opened.append((around, loop, head, total))
            total = Name(head)
        last = step(total, [Name(loop.var) for _, loop, _, _ in opened])
        last = last if is_leaf(last) else self.let(hint or "total", last)
        for around, loop, head, before in reversed(opened):
            loop.carried = [(head, before, last)]
            loop.body, self.block = self.block, around
            around.append(loop)
            last = Name(head)
        return last

    # ------------------------------------------------ products

    def dot(self, x: Value, y: Value, hint: str | None) -> Expr | View:
        if not is_array(x) or not is_array(y):
            self.refuse("a product of matrices with something that is no array")
        x, y = (self.stored(v) if isinstance(v, Elementwise) else v for v in (x, y))
        assert isinstance(x, View) and isinstance(y, View)
        m, n = self.shape(x), self.shape(y)
        if not m or not n or len(m) > 2 or len(n) > 2:
            self.refuse("np.dot of arrays of these dimensions", "one or two each")
        self.same(m[-1], n[0])
        if len(m) == len(n) == 1:
            return self.fold(
                m,
                const(0.0),
                lambda total, i: self.binary(
                    "add", total, self.binary("mul", self.element(x, i), self.element(y, i))
                ),
                hint,
            )
        dtypes = {self.dtype(x), self.dtype(y)}
        made = self.make(hint, [*m[:-1], *n[1:]], "float64" if len(dtypes) > 1 else dtypes.pop(), zeros=False)
        self.product(made, x, y)
        return made

    def filled(self, formula: Any, shape: Sequence[Expr], args: Sequence[Any]) -> View:
        """A new array, which a formula fills."""
        made = self.make(formula.name.removesuffix("_into"), shape, "float64", zeros=False)
        self.fill(formula, made, args)
        return made

    def fill(self, formula: Any, out: View, args: Sequence[Any]) -> None:
        given = []
        for x in args:
            plain = isinstance(x, View) and all(a.step == 1 for a in x.axes if isinstance(a, Span))
            if not plain or self.dtype(x) != "float64" or x.base == out.base:
                copy = self.make(None, self.shape(x), "float64", zeros=False)
                self.assign(copy, x)
                x = copy
            given.append(x)
        if not out.whole():
            self.refuse("a part of an array that a decomposition is written to")
        self.block.append(Fill(out.base, formula, tuple(given)))

    def product(self, out: View, x: View, y: View) -> None:
        """By BLAS where it is whole matrices of one dtype, else by loops."""
        same = len({self.dtype(v) for v in (out, x, y)}) == 1 and kind_of(self.dtype(out)) == "float"
        plain = all(a.step == 1 for v in (x, y) for a in v.axes if isinstance(a, Span))
        if same and plain and out.whole() and out.base not in (x.base, y.base):
            self.block.append(Product(out.base, x, y))
            return
        m = len(self.shape(x)) - 1

        def entry(i: Index) -> None:
            total = self.fold(
                [self.shape(x)[-1]],
                const(0.0),
                lambda total, k: self.binary(
                    "add",
                    total,
                    self.binary("mul", self.element(x, i[:m] + k), self.element(y, k + i[m:])),
                ),
                None,
            )
            self.store(self.load(out, i), total)

        self.nest(self.shape(out), entry)


__all__ = ["At", "Builder", "Elementwise", "Items", "Object", "Value"]
