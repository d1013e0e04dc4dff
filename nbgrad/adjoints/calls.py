"""What functions of `math`, NumPy and Python are in a program: one operation, a loop, or a function of `library.py` that is written out.

Promises the lowering a value for each call, or a refusal that names the function.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbgrad.adjoints import library, ops
from nbgrad.adjoints.build import Builder, Elementwise, Items, Object, Value, is_array
from nbgrad.adjoints.ir import (
    FLOAT_ONE,
    FLOAT_ZERO,
    ONE,
    ZERO,
    Apply,
    Const,
    Expr,
    Grow,
    Span,
    View,
    const,
    kind_of,
    whole,
)

_SCALAR = {  # of one or two numbers, or element by element
    **{n: n for n in ("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh")},
    **{n: n for n in ("cosh", "tanh", "hypot", "copysign", "fmod", "sign", "isnan", "isinf", "isfinite")},
    **{n: n for n in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "maximum", "minimum")},
    **{"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh"},
    **{
        "arccosh": "acosh",
        "arctanh": "atanh",
        "absolute": "abs",
        "abs": "abs",
        "fabs": "abs",
        "rint": "round",
    },
    **{"floor": "floor", "ceil": "ceil", "trunc": "trunc", "around": "round"},
}
_OF_MATH = {
    **{"floor": "whole_floor", "ceil": "whole_ceil", "trunc": "whole_trunc", "pow": "math_pow"},
    **{n: n for n in ("erf", "erfc", "lgamma", "gamma")},
}
_METHODS = {
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "copy",
    "dot",
    "fill",
    "transpose",
    "argmin",
    "argmax",
    "item",
    "astype",
}
_REFUSED = {
    "reshape": "index with // and %",
    "ravel": "index with // and %",
    "flatten": "index with // and %",
    "append": "write to an array of full size",
    "sort": "sort outside",
    "argsort": "sort outside",
    "print": "leave it out",
}


def function(b: Builder, f: Any, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    name = getattr(f, "__name__", str(f))
    own = library.FUNCTIONS.get(f) if _hashable(f) else None
    if own is not None:
        return inlined(b, own, args, named)
    if name == "reserve" and getattr(f, "is_reserve", False):
        v, n = args
        assert isinstance(v, View) and isinstance(n, Expr)
        b.block.append(Grow(v.base, n))
        return v
    if isinstance(f, type) and issubclass(f, np.generic | bool | int | float):
        return converted(b, f, args)
    home = next((m for m in (builtins, math, np, np.linalg) if getattr(m, name, None) is f), None)
    if home is None and f is np.absolute:
        home = np
    if home is math and name in _OF_MATH:
        return b.elementwise(args, lambda *x: b.function(_OF_MATH[name], x, hint))
    if home is builtins and name == "round":
        op = "whole_round" if len(args) == 1 else b.refuse("round to digits")
        return b.function(op, _numbers(b, args), hint)
    if home is builtins and name in ("max", "min") and not (len(args) == 1 and is_array(args[0])):
        items = args[0].items if len(args) == 1 and isinstance(args[0], Items) else args
        found = items[0]
        for x in items[1:]:
            found = b.elementwise([found, x], lambda p, q: b.function(name, [p, q], hint))
        return found
    if home is builtins and name == "pow" and len(args) == 2:
        return b.elementwise(args, lambda p, q: b.binary("pow", p, q, hint))
    if home is builtins and name == "sum" and isinstance(args[0], Items):
        total: Expr = const(0)
        for x in _numbers(b, args[0].items):
            total = b.binary("add", total, x)
        return total
    if home is None:
        b.refuse(
            f"{name} is called, which is none of Python's, math's or NumPy's functions that are taken",
            "write it out",
        )
    return call(b, name, args, named, hint)


def _hashable(f: Any) -> bool:
    return callable(f) and getattr(type(f), "__hash__", None) is not None


def inlined(b: Any, own: Callable[..., Any], args: list[Value], named: dict[str, Value]) -> Value:
    return b.inline(own, args, named)


def _numbers(b: Builder, xs: Sequence[Any]) -> list[Expr]:
    for x in xs:
        if not isinstance(x, Expr):
            b.refuse("a number is needed here")
    return list(xs)


def converted(b: Builder, f: Any, args: list[Value]) -> Value:
    if len(args) != 1 or not isinstance(args[0], Expr | View | Elementwise):
        b.refuse(f"{f.__name__} of this")
    x = args[0]
    if issubclass(f, bool | np.bool_):
        return b.elementwise([x], lambda e: e if b.kind(e) == "bool" else Apply("ne", (b.leaf(e), const(0))))
    if issubclass(f, int | np.integer):
        return b.elementwise([x], lambda e: e if b.kind(e) == "int" else b.function("int", [e]))
    if issubclass(f, complex | np.complexfloating):
        b.refuse("complex numbers", "keep real and imaginary part apart")
    op = "float32" if f is np.float32 else "float"

    def one(e: Expr) -> Expr:
        if isinstance(e, Const):
            return const(float(f(e.value)))
        return e if op == "float" and b.kind(e) == "float" else Apply(op, (b.leaf(e),))

    return b.elementwise([x], one)


def call(b: Builder, name: str, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    """A function or method by NumPy's name."""
    method: Any = globals().get(f"_on_{name}")
    if method is not None:
        try:
            return method(b, hint, *args, **named)
        except TypeError as error:
            if "_on_" not in str(error):
                raise
            b.refuse(f"the arguments of {name}: {str(error).replace('_on_', '')}")
    if name in _SCALAR and not named:
        return b.elementwise(args, lambda *x: b.function(_SCALAR[name], x, hint))
    b.refuse(f"{name} is not taken", _REFUSED.get(name, "write it out"))


def product_of(b: Builder, shape: Sequence[Expr]) -> Expr:
    n: Expr = ONE
    for length in shape:
        n = b.binary("mul", n, length)
    return n


def transposed(b: Builder, x: View | Elementwise) -> View | Elementwise:
    if isinstance(x, View):
        return View(x.base, x.axes, x.order[::-1])
    return Elementwise(x.shape[::-1], lambda i: x.element(i[::-1]), x.bases, x.dtype)


def _dtype(b: Builder, given: Value | None, default: str) -> str:
    if given is None:
        return default
    if not isinstance(given, Object):
        b.refuse("this dtype")
    try:
        dtype = np.dtype(given.value)
    except TypeError:
        b.refuse("this dtype")
    if dtype.kind not in "fiub":
        b.refuse(f"an array of {dtype}")
    return str(dtype)


def _shape(b: Builder, x: Value) -> list[Expr]:
    return _numbers(b, x.items if isinstance(x, Items) else [x])


def _filled(b: Builder, hint: str | None, shape: Sequence[Expr], dtype: str, e: Expr) -> View:
    v = b.make(hint, shape, dtype, zeros=False)
    b.assign(v, e)
    return v


def _on_len(b: Builder, hint: str | None, x: Value) -> Value:
    if isinstance(x, Items):
        return const(len(x.items))
    if not is_array(x):
        b.refuse("len of this")
    return b.shape(x)[0]


def _on_zeros(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return b.make(hint, _shape(b, shape), _dtype(b, dtype, "float64"), zeros=True)


def _on_empty(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return b.make(hint, _shape(b, shape), _dtype(b, dtype, "float64"), zeros=False)


def _on_ones(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return _filled(b, hint, _shape(b, shape), _dtype(b, dtype, "float64"), FLOAT_ONE)


def _on_full(
    b: Builder, hint: str | None, shape: Value, fill_value: Value, dtype: Value | None = None
) -> Value:
    (e,) = _numbers(b, [fill_value])
    return _filled(b, hint, _shape(b, shape), _dtype(b, dtype, b.dtype(e)), e)


def _like(b: Builder, x: Value) -> View | Elementwise:
    if not isinstance(x, View | Elementwise):
        b.refuse("an array is needed here")
    return x


def _on_zeros_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = _like(b, a)
    return b.make(hint, b.shape(x), _dtype(b, dtype, b.dtype(x)), zeros=True)


def _on_empty_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = _like(b, a)
    return b.make(hint, b.shape(x), _dtype(b, dtype, b.dtype(x)), zeros=False)


def _on_ones_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = _like(b, a)
    return _filled(b, hint, b.shape(x), _dtype(b, dtype, b.dtype(x)), FLOAT_ONE)


def _on_full_like(
    b: Builder, hint: str | None, a: Value, fill_value: Value, dtype: Value | None = None
) -> Value:
    x = _like(b, a)
    (e,) = _numbers(b, [fill_value])
    return _filled(b, hint, b.shape(x), _dtype(b, dtype, b.dtype(x)), e)


def _on_copy(b: Builder, hint: str | None, a: Value) -> Value:
    return b.stored(_like(b, a), hint)


def _on_array(b: Builder, hint: str | None, object: Value, dtype: Value | None = None) -> Value:
    """np.array of a tuple or list of numbers, or of rows of them; or of an array, which is a copy."""
    x = object
    if is_array(x):
        return _on_copy(b, hint, x)
    if not isinstance(x, Items) or not x.items:
        b.refuse("np.array of this", "np.empty, and write to it")
    rows = [i.items if isinstance(i, Items) else None for i in x.items]
    flat = [e for i in x.items for e in (i.items if isinstance(i, Items) else [i])]
    widths = {len(r) if r is not None else -1 for r in rows}
    if len(widths) > 1:
        b.refuse("np.array of rows of different lengths")
    kinds = ops.join(*(b.kind(e) for e in _numbers(b, flat)))
    default = {"float": "float64", "int": "int64", "bool": "bool"}[kinds]
    width = widths.pop()
    shape = [const(len(rows))] + ([const(width)] if width >= 0 else [])
    v = b.make(hint, shape, _dtype(b, dtype, default), zeros=False)
    for k, e in enumerate(flat):
        at: list[Expr] = [const(k)] if width < 0 else [const(k // width), const(k % width)]
        b.store(b.load(v, at), e)
    return v


def _on_asarray(b: Builder, hint: str | None, a: Value) -> Value:
    return _like(b, a)


_on_ascontiguousarray = _on_asarray


def _on_astype(b: Builder, hint: str | None, a: Value, dtype: Value) -> Value:
    x = _like(b, a)
    made = b.make(hint, b.shape(x), _dtype(b, dtype, "float64"), zeros=False)
    if kind_of(b.dtype(x)) == "float" and kind_of(b.dtype(made)) == "int":
        b.assign(made, b.elementwise([x], lambda e: b.function("int", [e])))
    else:
        b.assign(made, x)
    return made


def _on_fill(b: Builder, hint: str | None, a: Value, value: Value) -> Value:
    x = _like(b, a)
    assert isinstance(x, View)
    b.assign(x, _numbers(b, [value])[0])
    return Object(None)


def _on_item(b: Builder, hint: str | None, a: Value) -> Value:
    x = _like(b, a)
    return b.element(x, [ZERO] * len(b.shape(x)))


def _on_transpose(b: Builder, hint: str | None, a: Value) -> Value:
    return transposed(b, _like(b, a))


def _on_dot(b: Builder, hint: str | None, a: Value, other: Value, out: Value | None = None) -> Value:
    if isinstance(a, Expr) or isinstance(other, Expr):
        return b.elementwise([a, other], lambda x, y: b.binary("mul", x, y))
    if out is None:
        return b.dot(a, other, hint)
    x, y = (b.stored(v) if isinstance(v, Elementwise) else v for v in (a, other))
    assert isinstance(x, View) and isinstance(y, View) and isinstance(out, View)
    if out.whole():
        b.product(out, x, y)
    else:
        b.assign(out, b.dot(x, y, None))
    return out


_on_matmul = _on_dot
_on_vdot = _on_dot


def _on_outer(b: Builder, hint: str | None, a: Value, other: Value) -> Value:
    x, y = _like(b, a), _like(b, other)
    made = Elementwise(
        [b.shape(x)[0], b.shape(y)[0]],
        lambda i: b.binary("mul", b.element(x, i[:1]), b.element(y, i[1:])),
        b.bases(x) | b.bases(y),
    )
    made.dtype = b.result_dtype(made)
    return made


def _on_where(b: Builder, hint: str | None, condition: Value, x: Value, y: Value) -> Value:
    def one(c: Expr, p: Expr, q: Expr) -> Expr:
        if isinstance(c, Const):
            return p if c.value else q
        return Apply("where", (b.leaf(c), b.leaf(p), b.leaf(q)))

    return b.elementwise([condition, x, y], one)


def _on_square(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("pow", e, const(2)))


def _on_power(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("pow", p, q, hint))


def _on_reciprocal(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("div", FLOAT_ONE, e, hint))


def _on_clip(b: Builder, hint: str | None, a: Value, low: Value, high: Value) -> Value:
    return b.elementwise(
        [a, low, high], lambda e, p, q: b.function("min", [b.function("max", [e, p]), q], hint)
    )


def _on_negative(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], ops.negated)


def _on_add(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("add", p, q, hint))


def _on_subtract(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("sub", p, q, hint))


def _on_multiply(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("mul", p, q, hint))


def _on_divide(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("div", p, q, hint))


def _on_sum(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
    x = _like(b, a)
    kind = "float" if kind_of(b.dtype(x)) == "float" else "int"
    zero = FLOAT_ZERO if kind == "float" else ZERO
    if axis is None:
        return b.fold(b.shape(x), zero, lambda s, i: b.binary("add", s, b.element(x, i)), hint, kind)
    at = _axis(b, axis, x)
    shape = b.shape(x)
    dtype = b.dtype(x) if kind == "float" else "int64"
    v = b.make(hint, [*shape[:at], *shape[at + 1 :]], dtype, zeros=True)
    b.nest(shape, lambda i: b.add(b.load(v, [*i[:at], *i[at + 1 :]]), b.element(x, i)))
    return v


def _axis(b: Builder, axis: Value, x: Value) -> int:
    rank = len(b.shape(x))
    if not isinstance(axis, Const) or not -rank <= axis.value < rank:
        b.refuse("an axis that is no constant, or not there")
    return axis.value % rank


def _on_mean(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
    x = _like(b, a)
    shape = b.shape(x)
    n = product_of(b, shape) if axis is None else shape[_axis(b, axis, x)]
    n = b.counted(n)
    return b.elementwise([_on_sum(b, None, x, axis)], lambda s: b.binary("div", s, n, hint))


def _on_prod(b: Builder, hint: str | None, a: Value) -> Value:
    x = _like(b, a)
    kind = "float" if kind_of(b.dtype(x)) == "float" else "int"
    one = FLOAT_ONE if kind == "float" else ONE
    return b.fold(b.shape(x), one, lambda s, i: b.binary("mul", s, b.element(x, i)), hint, kind)


def _extreme(b: Builder, hint: str | None, a: Value, better: str) -> Value:
    """The first of equals, and NaN if there is one."""
    x = _like(b, a)
    kind = kind_of(b.dtype(x))
    at_first = b.let(hint, b.element(x, [ZERO] * len(b.shape(x))))

    def step(best: Expr, i: list[Expr]) -> Expr:
        e = b.leaf(b.element(x, i))
        e = b.let(None, e) if not isinstance(e, Const) else e
        test: Expr = Apply(better, (best, e))
        if kind == "float":
            test = Apply("or", (test, Apply("ne", (e, e))))
        return Apply("where", (test, e, best))

    return b.fold(b.shape(x), at_first, step, hint, kind)


def _on_max(b: Builder, hint: str | None, a: Value) -> Value:
    return _extreme(b, hint, a, "lt")


def _on_min(b: Builder, hint: str | None, a: Value) -> Value:
    return _extreme(b, hint, a, "gt")


_on_amax, _on_amin = _on_max, _on_min


def _on_arange(b: Builder, hint: str | None, n: Value) -> Value:
    (e,) = _numbers(b, [n])
    v = b.make(hint, [e], "int64", zeros=False)
    b.nest(b.shape(v), lambda i: b.store(b.load(v, i), i[0]))
    return v


def _on_eye(b: Builder, hint: str | None, n: Value) -> Value:
    (e,) = _numbers(b, [n])
    v = b.make(hint, [e, e], "float64", zeros=True)
    b.nest(b.shape(v)[:1], lambda i: b.store(b.load(v, [i[0], i[0]]), FLOAT_ONE))
    return v


_on_identity = _on_eye


def _on_uintp(b: Builder, hint: str | None, x: Value) -> Value:
    return x


def _on_argmin(b: Builder, hint: str | None, a: Value) -> Value:
    return inlined(b, library.argmin, [a], {})


def _on_argmax(b: Builder, hint: str | None, a: Value) -> Value:
    return inlined(b, library.argmax, [a], {})


__all__ = ["Span", "call", "function", "product_of", "transposed", "whole"]
