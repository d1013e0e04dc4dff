"""The operations of scalars: the kind of their result, their text, and their derivative, which `expr/prims.py` says.

Promises the passes that each derivative but those of + - * / is written once, for tensors and for this: a primitive's partials are
built as an expression there, simplified there, and taken over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nbgrad.adjoints.ir import (
    FLOAT_ONE,
    FLOAT_ZERO,
    ONE,
    ZERO,
    Apply,
    Array,
    Const,
    Expr,
    Extent,
    Load,
    Name,
    Program,
    const,
)
from nbgrad.base.tables import Table
from nbgrad.expr import diff, node, prims
from nbgrad.expr.node import PRIMS

_RANK = {"bool": 0, "int": 1, "float": 2}

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
LOGIC = {"and", "or", "not"}
ARITHMETIC = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "remainder": "%", "pow": "**"},
    **{"bit_and": "&", "bit_or": "|", "bit_xor": "^", "lshift": "<<", "rshift": ">>"},
}
LEVELS = {  # how tightly an operator binds
    **{"or": 1, "and": 2, "not": 3},
    **dict.fromkeys(COMPARISONS, 4),
    **{"bit_or": 5, "bit_xor": 6, "bit_and": 7, "lshift": 8, "rshift": 8, "add": 9, "sub": 9},
    **{"mul": 10, "div": 10, "floor_divide": 10, "remainder": 10, "neg": 11, "pow": 12},
}
FUNCTIONS = {  # of floats, by their primitive; what is not `math`'s is spelled here
    **{
        name: f"math.{name}"
        for name in (
            *("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos"),
            *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "gamma"),
            *("atan2", "hypot", "copysign"),
        )
    },
    **{
        "math_pow": "math.pow",
        "fmod": "np.fmod",
        "sign": "np.sign",
        "floor": "np.floor",
        "ceil": "np.ceil",
        "trunc": "np.trunc",
    },
    **{"round": "np.rint", "maximum": "np.maximum", "minimum": "np.minimum", "abs": "abs", "max": "max"},
    **{"min": "min", "int": "int", "float": "float", "whole_floor": "math.floor", "whole_ceil": "math.ceil"},
    **{"whole_round": "round", "whole_trunc": "math.trunc", "isnan": "math.isnan", "isinf": "math.isinf"},
    **{
        f"draw_{n}": f"np.random.{n}"
        for n in ("random", "standard_normal", "standard_exponential", "randint")
    },
    **{"draw_seeded": "seeded", "isfinite": "math.isfinite", "bool": "bool", "float32": "np.float32"},
}
WHOLE = {"int", "whole_floor", "whole_ceil", "whole_round", "whole_trunc"}
STEPS = {*WHOLE, "floor", "ceil", "trunc", "round", "sign", "floor_divide"}  # derivative 0
PREDICATES = {*COMPARISONS, *LOGIC, "isnan", "isinf", "isfinite", "bool"}
_PRIMITIVE = {"max": "maximum", "min": "minimum", "math_pow": "pow"}
_EXPANDED = 4  # a power up to this is written as a product


def join(*kinds: str) -> str:
    return max(kinds, key=_RANK.__getitem__)


def kind(e: Expr, kinds: Mapping[str, str], arrays: Mapping[str, Array]) -> str:
    """bool, int or float."""
    if isinstance(e, Const):
        return "bool" if isinstance(e.value, bool) else "int" if isinstance(e.value, int) else "float"
    if isinstance(e, Name):
        return kinds[e.name]
    if isinstance(e, Load):
        return arrays[e.base].kind
    if isinstance(e, Extent):
        return "int"
    op = e.op
    if op in PREDICATES:
        return "bool"
    if op in WHOLE:
        return "int"
    of_args = [kind(a, kinds, arrays) for a in e.args]
    if op == "where":
        return join(*of_args[1:])
    if op in ("abs", "max", "min", "neg") or (op in ARITHMETIC and op != "div"):
        negative = op == "pow" and isinstance(e.args[1], Const) and e.args[1].value < 0
        bits = op in ("bit_and", "bit_or", "bit_xor", "max", "min")
        return "float" if negative else join(*of_args, *([] if bits else ["int"]))
    return "float"


# ---------------------------------------------------------------- expressions, with what is exact simplified


def negated(e: Expr) -> Expr:
    if isinstance(e, Apply) and e.op == "neg":
        return e.args[0]
    return const(-e.value) if isinstance(e, Const) else Apply("neg", (e,))


def times(a: Expr, b: Expr) -> Expr:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const) and x.value == 1:
            return y
        if isinstance(x, Const) and x.value == -1:
            return negated(y)
    if isinstance(a, Apply) and a.op == "neg":
        return negated(times(a.args[0], b))
    if isinstance(b, Apply) and b.op == "neg":
        return negated(times(a, b.args[0]))
    if isinstance(b, Apply) and b.op == "div" and b.args[0] in (FLOAT_ONE, ONE):
        return over(a, b.args[1])
    return Apply("mul", (a, b))


def over(a: Expr, b: Expr) -> Expr:
    return negated(over(a.args[0], b)) if isinstance(a, Apply) and a.op == "neg" else Apply("div", (a, b))


def plus(a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return b if a is None else a
    return Apply("sub", (a, b.args[0])) if isinstance(b, Apply) and b.op == "neg" else Apply("add", (a, b))


def choice(condition: Expr, a: Expr, b: Expr) -> Expr:
    return a if a == b else Apply("where", (condition, a, b))


# ---------------------------------------------------------------- derivatives


def derivatives(e: Apply, y: Expr, g: Expr) -> list[Expr | None]:
    """For each argument, `g` times the partial derivative; `y` is the result. None where that is zero everywhere."""
    a = e.args
    if e.op in STEPS or e.op in PREDICATES:
        return [None] * len(a)
    if e.op == "add":
        return [g, g]
    if e.op == "sub":
        return [g, negated(g)]
    if e.op == "neg":
        return [negated(g)]
    if e.op in ("float", "float32"):
        return [g]
    if e.op == "mul":
        if a[0] == a[1]:
            return [times(times(const(2.0), g), a[0]), None]
        return [times(g, a[1]), times(g, a[0])]
    if e.op == "div":
        if a[0] in (FLOAT_ONE, ONE):
            return [None, negated(times(times(g, y), y))]
        part = over(g, a[1])  # once, as LLVM sees
        return [part, negated(times(part, y))]
    if e.op == "where":
        return [None, choice(a[0], g, FLOAT_ZERO), choice(a[0], FLOAT_ZERO, g)]
    return [
        None if p is None else _with(p, {**{f"x{k}": x for k, x in enumerate(a)}, "y": y, "g": g})
        for p in _partials(e.op, tuple(x.value if isinstance(x, Const) else None for x in a))
    ]


_found: Table[tuple[str, tuple[str, ...]], list[node.Expr | None]] = Table("adjoints.ops.partials", 1024)


def _partials(op: str, values: tuple[float | None, ...]) -> list[node.Expr | None]:
    """g times each partial, in x0, x1, ..., y and g; constants are put in, so that what they decide is decided."""
    key = (op, tuple(map(repr, values)))
    found = _found.get(key)
    if found is None:
        names = [f"x{k}" for k in range(len(values))]
        given = [node.var(n) if v is None else node.const(v) for n, v in zip(names, values)]
        wrt = [n for n, v in zip(names, values) if v is None]
        if op == "gamma":
            body = prims.exp(PRIMS["lgamma"](given[0]))  # its derivative is in y what gamma's is
            slope = diff.vjp(PRIMS["lgamma"](given[0]), wrt)["x0"]
            assert isinstance(slope, node.Expr) and isinstance(body, node.Expr)
            found = [slope * node.var("y")]
        else:
            body = primitive(op, given)
            swept = diff.vjp(body, wrt)
            slopes = [swept.get(n, diff.ZERO) for n in names]
            found = [s if isinstance(s, node.Expr) else None for s in slopes]
        _found[key] = found
    return found


def _of_primitive(op: str) -> tuple[str, int | None]:
    """Its name in `expr/`, and the order of what is a function for each."""
    name, _, order = op.partition("_")
    return (name, int(order)) if order.isdecimal() else (_PRIMITIVE.get(op, op), None)


def primitive(op: str, args: Sequence[node.Expr]) -> node.Expr:
    name, order = _of_primitive(op)
    return PRIMS[name].build(args) if order is None else PRIMS[name].build(args, order)


def differentiable(op: str) -> bool:
    return (
        op in ("add", "sub", "mul", "div", "neg", "float", "float32", "where", "gamma")
        or _of_primitive(op)[0] in PRIMS
    )


def _with(e: node.Expr, names: Mapping[str, Expr]) -> Expr:
    """An expression of `expr/` as one of ours."""
    if isinstance(e, node.Var):
        return names[e.attr]
    if isinstance(e, node.Const):
        return const(float(e.attr)) if not isinstance(e.attr, bool) else const(e.attr)
    assert e.prim is not None
    args = [_with(a, names) for a in e.args]
    name = e.prim.name
    if name == "ipow":
        return _power(args[0], e.attr)
    if name == "rsqrt":
        return Apply("div", (FLOAT_ONE, Apply("sqrt", (args[0],))))
    if name == "reciprocal":
        return Apply("div", (FLOAT_ONE, args[0]))
    if name == "mul":
        return times(*args)
    if name == "div":
        return over(*args)
    if name == "neg":
        return negated(args[0])
    if name == "where":
        return choice(args[0], args[1], args[2])
    if name.startswith("logical_") and name != "logical_xor":
        return Apply(name.removeprefix("logical_"), tuple(args))
    if name == "pow":
        return Apply("math_pow", tuple(args))
    if name == "polygamma":
        return Apply(f"polygamma_{e.attr}", tuple(args))
    return Apply(name, tuple(args))


def _power(x: Expr, n: int) -> Expr:
    if n < 0:
        return Apply("div", (FLOAT_ONE, _power(x, -n)))
    if n > _EXPANDED:
        return Apply("math_pow", (x, const(float(n))))
    product = x
    for _ in range(n - 1):
        product = Apply("mul", (product, x))
    return product


# ---------------------------------------------------------------- constants


def folded(op: str, args: list[Const]) -> Const | None:
    """The value of an operation on constants, where Python's is the compiled one's."""
    values = [a.value for a in args]
    try:
        if op == "where":
            return args[1] if values[0] else args[2]
        if op in COMPARISONS or op in ARITHMETIC:
            symbol = COMPARISONS.get(op) or ARITHMETIC[op]
            return const(eval(f"a {symbol} b", {"a": values[0], "b": values[1]}))
        text = FUNCTIONS[op]
        if not text.startswith("np."):
            return const(eval(f"{text}(*v)", {"math": math, "v": values}))
    except (ArithmeticError, ValueError, KeyError, TypeError):
        return None
    return None


def is_natural(e: Expr, p: Program) -> bool:
    """Is the integer surely not negative?"""
    if _plainly(e, p):
        return True
    sum_of = linear(e, p)
    if _settled(sum_of, p):
        return True
    for bounds, sign in ((p.least, 1), (p.most, -1)):
        for _ in range(_BOUNDS):
            bounded = [
                a for a, k in sum_of.items() if k * sign > 0 and isinstance(a, Name) and a.name in bounds
            ]
            if not bounded:
                break
            for atom in bounded:
                times_of = sum_of.pop(atom)
                assert isinstance(atom, Name)
                for part, k in linear(bounds[atom.name], p).items():
                    sum_of[part] = sum_of.get(part, 0) + times_of * k
            if _settled(sum_of, p):
                return True
    return False


_BOUNDS = 4  # how deep counters are taken as what their loops go from or to


def _plainly(e: Expr, p: Program) -> bool:
    if isinstance(e, Const):
        return isinstance(e.value, int) and e.value >= 0
    if isinstance(e, Name):
        return e.name in p.natural
    if isinstance(e, Extent):
        return True
    if isinstance(e, Apply):
        if e.op in ("add", "mul", "min", "bit_and"):
            return all(is_natural(a, p) for a in e.args)
        if e.op == "max":
            return any(is_natural(a, p) for a in e.args)
        if e.op in ("floor_divide", "remainder"):
            return isinstance(e.args[1], Const) and e.args[1].value > 0 and is_natural(e.args[0], p)
        if e.op == "where":
            return all(is_natural(a, p) for a in e.args[1:])
    return False


def linear(e: Expr, p: Program) -> dict[Expr | None, int]:
    """The sum that an integer is, of multiples; a constant is a multiple of None."""
    if isinstance(e, Const) and isinstance(e.value, int):
        return {None: int(e.value)}
    if isinstance(e, Name) and e.name in p.defined:
        value = p.defined[e.name]
        if not isinstance(value, Apply) or value.op in ("add", "sub", "mul", "neg"):
            return linear(value, p)
    if isinstance(e, Apply) and e.op in ("add", "sub"):
        sign = 1 if e.op == "add" else -1
        found = linear(e.args[0], p)
        for atom, k in linear(e.args[1], p).items():
            found[atom] = found.get(atom, 0) + sign * k
        return found
    if isinstance(e, Apply) and e.op == "neg":
        return {atom: -k for atom, k in linear(e.args[0], p).items()}
    if isinstance(e, Apply) and e.op == "mul":
        for a, b in (e.args, e.args[::-1]):
            if isinstance(a, Const) and isinstance(a.value, int):
                return {atom: a.value * k for atom, k in linear(b, p).items()}
    return {e: 1}


def _settled(sum_of: dict[Expr | None, int], p: Program) -> bool:
    return all(k == 0 or (k > 0 and (atom is None or _plainly(atom, p))) for atom, k in sum_of.items())


__all__ = [
    "ZERO",
    "derivatives",
    "differentiable",
    "folded",
    "is_natural",
    "join",
    "kind",
    "linear",
    "primitive",
]
