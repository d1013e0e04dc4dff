"""Hash-consed scalar expressions: the one form in which elementwise mathematics is kept.

Equal expressions are the same object, so sharing is free, identity (`is`) is equality, and a memo keyed by
node keeps every pass linear in the number of distinct nodes. Nodes are immutable, and safe to build from
several threads. Comparisons build expressions, as all operators do; an Expr has no truth value.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, TypeAlias

from .making import LOCK

Number: TypeAlias = "float | int | bool"
Operand: TypeAlias = "Expr | complex | float | int | bool"

PRIMS: dict[str, Prim] = {}
"""Every primitive by name; `prims.py` fills it, easy ones first."""

# An integer exponent up to this size multiplies; a larger one goes through pow.
SMALL_EXPONENT = 8


class Prim:
    """A primitive: what it computes, its derivative and its text. Calling it computes on numbers and builds
    on expressions.

    `partials` has one entry per argument, called with (arguments..., [attr], y), y being the primitive's own
    output. `spell` maps "float", "int", "bool" (or "target:float", ...) to source text; see `emit.py`.
    `result_bool` None means: boolean when every value argument is. With `static` the last operand is a plain
    int, the attr.
    """

    __slots__ = ("name", "partials", "python", "result_bool", "rewrite", "spell", "static")

    def __init__(
        self,
        name: str,
        python: Callable[..., Number],
        partials: tuple[Any, ...],
        spell: Mapping[str, Any],
        result_bool: bool | None = False,
        static: bool = False,
        rewrite: Callable[[Prim, tuple[Expr, ...], int | None], Expr | None] | None = None,
    ) -> None:
        self.name, self.python, self.partials, self.spell = name, python, partials, spell
        self.result_bool, self.static, self.rewrite = result_bool, static, rewrite

    def __call__(self, *operands: Any) -> Any:
        if not any(isinstance(a, Expr) for a in operands):
            return self.python(*operands)
        if self.static:
            return self.build(operands[:-1], operands[-1])
        return self.build(operands)

    def build(self, operands: Iterable[Operand], attr: int | None = None) -> Expr:
        args = tuple(as_expr(a) for a in operands)
        simpler = self.rewrite(self, args, attr) if self.rewrite is not None else None
        return intern(self, args, attr) if simpler is None else simpler

    def __repr__(self) -> str:
        return f"<prim {self.name}>"


class Expr:
    """A node: a variable (attr = name), a constant (attr = value), or a primitive applied to nodes."""

    __slots__ = ("__weakref__", "args", "attr", "is_bool", "prim")

    prim: Prim | None
    args: tuple[Expr, ...]
    attr: Any
    is_bool: bool

    _table: ClassVar[dict[tuple[Any, ...], weakref.ref[Expr]]] = {}
    _sweep_at: ClassVar[int] = 4096

    def __init__(self) -> None:
        raise TypeError("build expressions with var(), const() and the functions of expr.prims")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an Expr is immutable")

    # __eq__ builds an expression, so the hash is the identity. As two live nodes never have the same hash,
    # dicts and sets of nodes never call __eq__; `in` on a list or a tuple would.
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression has no truth value while a function is traced: "
            "use where(condition, a, b) instead of if, and, or, not, min, max or a chained comparison"
        )

    def __repr__(self) -> str:
        return _text(self, 8)

    def __add__(self, other: Operand) -> Expr:
        return _apply("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _apply("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _apply("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _apply("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return _apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return _apply("floor_divide", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return _apply("remainder", self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return _apply("remainder", other, self)

    def __pow__(self, other: Operand) -> Expr:
        if isinstance(other, (int, float)) and abs(other) <= SMALL_EXPONENT and other == int(other):
            return PRIMS["ipow"].build((self,), int(other))
        return _apply("pow", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return _apply("pow", other, self)

    def __neg__(self) -> Expr:
        return _apply("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return _apply("abs", self)

    def __round__(self) -> Expr:
        return _apply("round", self)

    def __floor__(self) -> Expr:
        return _apply("floor", self)

    def __ceil__(self) -> Expr:
        return _apply("ceil", self)

    def __trunc__(self) -> Expr:
        return _apply("trunc", self)

    def __lt__(self, other: Operand) -> Expr:
        return _apply("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return _apply("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _apply("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return _apply("ge", self, other)

    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _apply("eq", self, other)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _apply("ne", self, other)

    def __and__(self, other: Operand) -> Expr:
        return _apply("bitwise_and", self, other)

    def __rand__(self, other: Operand) -> Expr:
        return _apply("bitwise_and", other, self)

    def __or__(self, other: Operand) -> Expr:
        return _apply("bitwise_or", self, other)

    def __ror__(self, other: Operand) -> Expr:
        return _apply("bitwise_or", other, self)

    def __xor__(self, other: Operand) -> Expr:
        return _apply("bitwise_xor", self, other)

    def __rxor__(self, other: Operand) -> Expr:
        return _apply("bitwise_xor", other, self)

    def __invert__(self) -> Expr:
        return _apply("bitwise_not", self)

    def __lshift__(self, other: Operand) -> Expr:
        return _apply("lshift", self, other)

    def __rlshift__(self, other: Operand) -> Expr:
        return _apply("lshift", other, self)

    def __rshift__(self, other: Operand) -> Expr:
        return _apply("rshift", self, other)

    def __rrshift__(self, other: Operand) -> Expr:
        return _apply("rshift", other, self)


class Var(Expr):
    """A free variable; `attr` is its name."""

    __slots__ = ()


class Const(Expr):
    """A weakly typed constant: it takes the dtype of the computation that it enters."""

    __slots__ = ()


def _apply(name: str, *operands: Operand) -> Expr:
    return PRIMS[name].build(operands)


def _interned(cls: type[Expr], key: tuple[Any, ...], fields: tuple[Any, ...]) -> Expr:
    # The key names arguments by id: the node that the table holds keeps them alive, so an id in the key of a live node is
    # never reused.
    with LOCK:
        found = Expr._table.get(key)
        node = None if found is None else found()
        if node is None:
            node = object.__new__(cls)
            for slot, value in zip(("prim", "args", "attr", "is_bool"), fields, strict=True):
                object.__setattr__(node, slot, value)
            if len(Expr._table) >= Expr._sweep_at:
                sweep()
            Expr._table[key] = weakref.ref(node)
        return node


def sweep() -> None:
    """Forget the nodes that are gone. Not by a callback at each one's end, in which an interrupt would be lost."""
    with LOCK:
        for key in [key for key, node in Expr._table.items() if node() is None]:
            del Expr._table[key]
        Expr._sweep_at = 4096 + 2 * len(Expr._table)


def result_is_bool(prim: Prim, args: tuple[Expr, ...]) -> bool:
    """Whether `prim(args)` computes a truth value."""
    if prim.result_bool is not None:
        return prim.result_bool
    # The first of three arguments is where's condition, which does not decide what kind of value comes out.
    return all(a.is_bool for a in args[-2:])


def intern(prim: Prim, args: tuple[Expr, ...], attr: int | None = None) -> Expr:
    """The node `prim(args)`, as it stands: nothing is simplified."""
    return _interned(Expr, (prim, *map(id, args), attr), (prim, args, attr, result_is_bool(prim, args)))


def var(name: str, bool: bool = False) -> Var:
    """The variable `name`; a boolean one stands for a truth value and has no derivative."""
    node = _interned(Var, ("var", name, bool), (None, (), name, bool))
    assert isinstance(node, Var)
    return node


def const(value: Number) -> Const:
    """The constant `value`. `True`, `1` and `1.0` differ, and so do `0.0` and `-0.0`; every NaN is one
    NaN."""
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"a constant is a bool, an int or a float, not {type(value).__name__}")
    kind = bool if isinstance(value, bool) else int if isinstance(value, int) else float
    value = kind(value)  # a subclass (numpy.float64, an IntEnum) becomes the plain number
    key = value.hex() if isinstance(value, float) else value
    node = _interned(Const, ("const", kind, key), (None, (), value, kind is bool))
    assert isinstance(node, Const)
    return node


def as_expr(value: Operand) -> Expr:
    """An expression as it is, a Python number as a constant, a complex one as what joins two."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, complex):
        return PRIMS["join"].build((const(value.real), const(value.imag)))
    return const(value)


def is_bool(e: Expr) -> bool:
    """Whether `e` computes a truth value; everything else computes a number of the computation's dtype."""
    return e.is_bool


def postorder(roots: Iterable[Expr]) -> list[Expr]:
    """Every node that the roots reach, once, arguments first. Iterative: depth is limited by memory only."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, finished = stack.pop()
        if finished:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args) if a not in seen)
    return order


def free_vars(*roots: Expr) -> set[str]:
    """The names of the variables that the roots read."""
    return {node.attr for node in postorder(roots) if isinstance(node, Var)}


def ordered_vars(*roots: Expr) -> list[str]:
    """`free_vars`, sorted: the order that generated code relies on."""
    return sorted(free_vars(*roots))


def substitute(e: Expr, replacements: Mapping[str, Operand]) -> Expr:
    """`e` with variables replaced, all at once. This is fusion: a body put in the place of an input."""
    done: dict[Expr, Expr] = {}
    for node in postorder([e]):
        if node.prim is not None:
            args = tuple(done[a] for a in node.args)
            changed = any(new is not old for new, old in zip(args, node.args, strict=True))
            done[node] = node.prim.build(args, node.attr) if changed else node
        elif isinstance(node, Var) and node.attr in replacements:
            done[node] = as_expr(replacements[node.attr])
        else:
            done[node] = node
    return done[e]


def parameters(fn: Callable[..., Any]) -> list[str]:
    """The names of a plain function's parameters, all of which must be positional."""
    found = inspect.signature(fn).parameters.values()
    for p in found:
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            raise TypeError(
                f"{getattr(fn, '__name__', fn)}: parameter '{p}' is not a plain positional parameter"
            )
    return [p.name for p in found]


def trace_many(fn: Callable[..., Any], bools: Collection[str] = ()) -> tuple[list[str], tuple[Expr, ...]]:
    """`trace` for a function that returns several values."""
    names = parameters(fn)
    result = fn(*(var(n, n in bools) for n in names))
    return names, tuple(as_expr(r) for r in (result if isinstance(result, tuple) else (result,)))


def trace(fn: Callable[..., Any], bools: Collection[str] = ()) -> tuple[list[str], Expr]:
    """Call `fn` with variables named as its parameters (those in `bools` boolean): its parameters, and what
    it computes.

    >>> trace(lambda x, w: x * w + 1)
    (['x', 'w'], add(mul(x, w), 1))
    """
    names, results = trace_many(fn, bools)
    if len(results) != 1:
        raise TypeError(f"{getattr(fn, '__name__', fn)} returns {len(results)} values; use trace_many()")
    return names, results[0]


def _text(e: Expr, depth: int) -> str:
    if e.prim is None:
        return str(e.attr)
    if depth == 0:
        return "..."
    operands = [_text(a, depth - 1) for a in e.args] + ([] if e.attr is None else [str(e.attr)])
    return f"{e.prim.name}({', '.join(operands)})"
