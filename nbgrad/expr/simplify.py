"""Rewrites that are exact in IEEE arithmetic, for every value: NaN, infinities and signed zeros included.

Nodes are simplified as they are built, so this module only says which node is replaced by which. What looks
like algebra but is not exact stays out: `0 * x` (NaN, inf, -0.0), `x + 0` (-0.0), `x - x` (NaN, inf). Zero
gradients are a symbol (`diff.ZERO`) instead of something to be found here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .node import Const, Expr, Number, Prim, const, postorder, result_is_bool

_RULES: dict[str, Callable[..., Expr | None]] = {}

# Larger integers are not exact in float64, in which a weakly typed constant may end up.
_EXACT_INT = 2**53


def rewrite(prim: Prim, args: tuple[Expr, ...], attr: int | None) -> Expr | None:
    """What stands for `prim(args)` instead, or None. The kind of value, boolean or number, never changes."""
    if args and all(isinstance(a, Const) for a in args):
        folded = _fold(prim, args, attr)
        if folded is not None:
            return folded
    rule = _RULES.get(prim.name)
    if rule is None:
        return None
    simpler = rule(*args) if attr is None else rule(*args, attr)
    return simpler if simpler is not None and simpler.is_bool == result_is_bool(prim, args) else None


def simplify(e: Expr) -> Expr:
    """`e` built anew through the rewrites: for an expression made with `intern`."""
    done: dict[Expr, Expr] = {}
    for node in postorder([e]):
        args = tuple(done[a] for a in node.args)
        done[node] = node if node.prim is None else node.prim.build(args, node.attr)
    return done[e]


def is_number(e: Expr, value: Number) -> bool:
    """Whether `e` is the numeric constant `value`, as an int or a float; 0 is +0.0, not -0.0."""
    if not isinstance(e, Const) or e.is_bool or e.attr != value:
        return False
    return math.copysign(1.0, e.attr) == math.copysign(1.0, value)


def _fold(prim: Prim, args: tuple[Expr, ...], attr: int | None) -> Expr | None:
    values = [a.attr for a in args]
    try:
        result = prim.python(*values) if attr is None else prim.python(*values, attr)
    except (
        ArithmeticError,
        TypeError,
    ):  # an int too large for a float, a bitwise operation on floats: not ours to report
        return None
    if isinstance(result, int) and not isinstance(result, bool) and not _int_is_exact(prim, result):
        return None
    return const(result)


def _int_is_exact(prim: Prim, result: int) -> bool:
    """Whether integers gave what floats would: as those, -0 and 0 * -1 are -0.0, and 2 ** -1 is not 0."""
    return abs(result) <= _EXACT_INT and (result != 0 or prim.name in ("add", "sub"))


def _rule(name: str) -> Callable[[Callable[..., Expr | None]], Callable[..., Expr | None]]:
    def register(fn: Callable[..., Expr | None]) -> Callable[..., Expr | None]:
        _RULES[name] = fn
        return fn

    return register


def _is(e: Expr, name: str) -> bool:
    return e.prim is not None and e.prim.name == name


@_rule("neg")
def _neg(x: Expr) -> Expr | None:
    return x.args[0] if _is(x, "neg") else None


@_rule("add")
def _add(a: Expr, b: Expr) -> Expr | None:
    if _is(b, "neg"):
        return a - b.args[0]
    if _is(a, "neg"):
        return b - a.args[0]
    return None


@_rule("sub")
def _sub(a: Expr, b: Expr) -> Expr | None:
    if is_number(b, 0):  # x - (+0.0) is x, for x = -0.0 too
        return a
    return a + b.args[0] if _is(b, "neg") else None


@_rule("mul")
def _mul(a: Expr, b: Expr) -> Expr | None:
    if is_number(b, 1):
        return a
    if is_number(a, 1):
        return b
    if _is(a, "neg"):
        return -(a.args[0] * b)
    return -(a * b.args[0]) if _is(b, "neg") else None


@_rule("div")
def _div(a: Expr, b: Expr) -> Expr | None:
    return a if is_number(b, 1) else None


@_rule("ipow")
def _ipow(x: Expr, n: int) -> Expr | None:
    return const(1) if n == 0 else x if n == 1 else None


@_rule("where")
def _where(c: Expr, a: Expr, b: Expr) -> Expr | None:
    if isinstance(c, Const):
        return a if c.attr else b
    return a if a is b else None


@_rule("logical_not")
def _logical_not(x: Expr) -> Expr | None:
    return x.args[0] if _is(x, "logical_not") else None


@_rule("bitwise_not")
def _bitwise_not(x: Expr) -> Expr | None:
    return x.args[0] if _is(x, "bitwise_not") else None
