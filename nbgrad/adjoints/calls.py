"""What functions of `math`, NumPy and Python are in a program: one operation, a loop, or a function of `library.py` that is written out.

Promises the lowering a value for each call, or a refusal that names the function.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbgrad.adjoints import library, ops
from nbgrad.adjoints.arrangements import (
    FUNCTIONS,
    array_of,
    axis_of,
    each,
    inlined,
    lengths,
    numbers,
    on_flatten,
    on_nonzero,
    on_stack,
    product_of,
)
from nbgrad.adjoints.build import Builder, Elementwise, Items, Object, Value, is_array
from nbgrad.adjoints.ir import (
    FLOAT_ONE,
    FLOAT_ZERO,
    ONE,
    ZERO,
    Apply,
    Array,
    Const,
    Expr,
    Grow,
    Make,
    Span,
    View,
    const,
    is_leaf,
    kind_of,
    whole,
)

_SCALAR = {  # of one or two numbers, or element by element
    **{n: n for n in ("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh")},
    **{n: n for n in ("cosh", "tanh", "hypot", "copysign", "fmod", "sign", "isnan", "isinf", "isfinite")},
    **{n: n for n in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")},
    **{"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh"},
    **{
        "arccosh": "acosh",
        "arctanh": "atanh",
        "absolute": "abs",
        "abs": "abs",
        "fabs": "abs",
        "rint": "round",
    },
    **{"floor": "floor", "ceil": "ceil", "trunc": "trunc", "around": "round", "round": "round"},
}
_OF_TWO = {"hypot", "copysign", "fmod", "atan2", "arctan2"}
_OF_MATH = {
    **{"floor": "whole_floor", "ceil": "whole_ceil", "trunc": "whole_trunc", "pow": "math_pow"},
    **{n: n for n in ("erf", "erfc", "lgamma", "gamma")},
}
_ANGLES = {
    **dict.fromkeys(("radians", "deg2rad"), math.pi / 180.0),
    **dict.fromkeys(("degrees", "rad2deg"), 180.0 / math.pi),
}
_REDUCTIONS = {"sum", "mean", "prod", "max", "min", "amax", "amin", "any", "all"}
_CHANGES: dict[Any, str] = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.divide: "div",
}  # by `f.at`
_AT = ast.Subscript(ast.Name("a", ast.Load()), ast.Name("index", ast.Load()), ast.Store())
_WITH_OUT = (np.dot, np.matmul)  # which take it themselves
_REFUSED = {
    "append": "np.concatenate, or write to an array of full size",
    "print": "leave it out",
}


def function(b: Builder, f: Any, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    name = getattr(f, "__name__", str(f))
    if f in OF_LISTS:
        return f(b, *args)
    if isinstance(f, np.ufunc) and f.signature is None and len(args) > f.nin:
        args, named = args[: f.nin], {**named, "out": Items(args[f.nin :])}
    if "out" in named and f not in _WITH_OUT:
        rest = {k: v for k, v in named.items() if k != "out"}
        return written_to(b, named["out"], function(b, f, args, rest, hint))
    if hasattr(f, "primitive"):  # in a derivative's text
        return b.function(f.primitive, numbers(b, args), hint)
    owner = getattr(f, "__self__", None)
    if isinstance(owner, np.ufunc) and name == "at" and not named:
        return changed_at(b, b, owner, args)
    own = library.FUNCTIONS.get(f) if _hashable(f) else None
    if own is not None:
        return inlined(b, own, args, named)
    if name == "reserve" and getattr(f, "is_reserve", False):
        v, n = args
        assert isinstance(v, View) and isinstance(n, Expr)
        b.grown.add(v.base)
        b.block.append(Grow(v.base, n))
        return v
    if isinstance(f, type) and issubclass(f, np.generic | bool | int | float):
        return converted(b, f, args)
    home = next((m for m in (builtins, math, np, np.linalg) if getattr(m, name, None) is f), None)
    if home is None and f is np.absolute:
        home = np
    if home is math and name in _OF_MATH:
        return b.elementwise(args, lambda *x: b.function(_OF_MATH[name], x, hint))
    if home is math and name == "log" and len(args) == 2:
        return b.elementwise(
            args, lambda x, y: b.binary("div", b.function("log", [x]), b.function("log", [y]), hint)
        )
    if home is math and name == "hypot" and len(args) != 2:
        b.refuse(f"hypot of {len(args)} numbers", "math.sqrt of the sum of their squares")
    if home is builtins and name == "round":
        op = "whole_round" if len(args) == 1 else b.refuse("round to digits")
        return b.function(op, numbers(b, args), hint)
    if home is builtins and name in ("max", "min") and not (len(args) == 1 and is_array(args[0])):
        items = args[0].items if len(args) == 1 and isinstance(args[0], Items) else args
        default = named.get("default") if len(args) == 1 else None
        if named.keys() - {"default"} or (named and default is None):
            b.refuse(f"{name} with {', '.join(named)}", "compare in a loop")
        if not items and default is None:
            b.refuse(f"{name} of nothing")
        if not items and default is not None:
            return default
        found = items[0]
        for x in items[1:]:
            found = b.elementwise([found, x], lambda p, q: b.function(name, [p, q], hint))
        return found
    if home is builtins and name == "pow" and len(args) == 2:
        return b.elementwise(args, lambda p, q: b.binary("pow", p, q, hint))
    if home is builtins and name == "sum" and args:
        start = args[1] if len(args) > 1 else named.get("start", ZERO)
        if isinstance(args[0], Items):
            total: Value = start
            for x in args[0].items:
                total = b.elementwise([total, x], lambda p, q: b.binary("add", p, q))
            return total
        rows = len(b.shape(array_of(b, args[0]))) > 1
        total = call(b, name, [args[0], ZERO] if rows else args[:1], {}, hint)
        return (
            total
            if start == ZERO
            else b.elementwise([start, total], lambda p, q: b.binary("add", p, q, hint))
        )
    if home is None:
        b.refuse(
            f"{name} is called, which is none of Python's, math's or NumPy's functions that are taken",
            "write it out",
        )
    return call(b, name, args, named, hint)


def writes_out(name: str, call: ast.Call) -> bool:
    """May a call of NumPy's function by the name write to one of its arguments, and give it?"""
    f, given = getattr(np, name, None), len(call.args)
    takes = f.nin if isinstance(f, np.ufunc) else 2 if f is np.dot else given
    return any(k.arg == "out" for k in call.keywords) or given > takes


def written_to(b: Builder, out: Value, x: Value) -> Value:
    """What a function of NumPy's gives, written to the array that it is asked to write to."""
    if isinstance(out, Items) and len(out.items) == 1:
        out = out.items[0]
    if _is_none(out):
        return x
    if not isinstance(out, View) or not isinstance(x, Expr | View | Elementwise):
        b.refuse("out that is no array")
    if ops.join(kind_of(b.dtype(out)), kind_of(b.dtype(x))) != kind_of(b.dtype(out)):
        b.refuse(f"a result of {b.dtype(x)} is written to an array of {b.dtype(out)}", "without out")
    b.assign(out, x)
    return out


def changed_at(b: Builder, room: Any, f: np.ufunc, args: list[Value]) -> Value:
    """np.add.at(a, indices, x): each of equal indices counts."""
    op = _CHANGES.get(f)
    into, index, x = args if len(args) == 3 else (None, None, None)
    if op is None or not isinstance(into, View) or not isinstance(x, Expr | View | Elementwise):
        b.refuse(f"{f.__name__}.at", "a loop")
    at = room.indexed(into, _AT, {"index": index})
    if not isinstance(x, Expr) and {into.base} & b.bases(x):
        x = b.stored(x)
    if isinstance(at, Expr):
        room.change(at, op, *numbers(b, [x]))
        return Object(None)
    if not isinstance(x, Expr):
        b.fits(b.shape(at), b.shape(x))
    e = b.read_once(x)
    b.nest(b.shape(at), lambda i: room.change(b.element(at, i), op, b.element(e, i)))
    return Object(None)


def _hashable(f: Any) -> bool:
    return callable(f) and getattr(type(f), "__hash__", None) is not None


# ---------------------------------------------------------------- lists that grow


def new_list(b: Builder) -> View:
    """Room that grows; it is made once, before all, as how much of it is used is a number of its own."""
    v = new_room(b, "items", "")
    b.lists.add(v.base)
    return v


def new_room(b: Builder, hint: str, dtype: str) -> View:
    base = b.fresh(hint)
    b.program.arrays[base] = Array(1, dtype, (ZERO,))
    b.first.append([Make(base, (ZERO,), False)])
    b.grown.add(base)
    return whole(base, 1)


def push(b: Builder, v: Value, at: Value, x: Value) -> Object:
    if not isinstance(x, Expr):
        b.refuse("a list of something else than numbers", "write to an array")
    assert isinstance(v, View) and isinstance(at, Expr)
    array, of = b.array(v.base), b.dtype(x)
    if array.dtype == "" or (array.dtype == "bool" and of == "int64"):
        array.dtype = of
    if ops.join(array.kind, kind_of(of)) != array.kind:
        b.refuse("a list of integers gets a float", "begin with a float")
    e = b.let(None, x) if not is_leaf(x) else x
    b.block.append(Grow(v.base, b.binary("add", at, ONE)))
    b.store(b.load(v, [at]), e)
    return Object(None)


def held(b: Builder, v: Value, n: Value) -> View:
    """What of its room a list uses."""
    if not isinstance(v, View) or not isinstance(n, Expr):
        b.refuse("a list that is something else in between", "use two names")
    if b.array(v.base).dtype == "":
        b.array(v.base).dtype = "float64"
    return View(v.base, (Span(ZERO, n),), (0,))


OF_LISTS: tuple[Callable[..., Value], ...] = new_list, push, held


def converted(b: Builder, f: Any, args: list[Value]) -> Value:
    if len(args) != 1 or not isinstance(args[0], Expr | View | Elementwise):
        b.refuse(f"{f.__name__} of this")
    x = args[0]
    if issubclass(f, bool | np.bool_):
        return b.elementwise([x], lambda e: e if b.kind(e) == "bool" else Apply("ne", (b.leaf(e), const(0))))
    if f is np.uintp and isinstance(x, Expr) and b.kind(x) == "int":
        return promised(b, x)
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


def promised(b: Builder, e: Expr) -> Expr:
    """That it is not negative is known to who wrote it: in an adjoint, of positions in storage."""
    if b.natural(e):
        return e
    known = b.let("k", e)
    b.program.natural.add(known.name)
    return known


def method(b: Builder, name: str, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    """A method of an array's. What is named as a function of NumPy's is none: `append` of a list would be lost."""
    if not hasattr(np.ndarray, name) and name != "ptp":
        b.refuse(f"{name} is not taken", _REFUSED.get(name, "write it out"))
    return call(b, "sort_in_place" if name == "sort" else name, args, named, hint)


def call(b: Builder, name: str, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    """A function or method by NumPy's name."""
    made: Any = globals().get(f"_on_{name}") or FUNCTIONS.get(name)
    if made is not None:
        try:
            bound = inspect.signature(made).bind(b, hint, *args, **named)
        except TypeError as error:
            b.refuse(f"the arguments of {name}: {error}")
        if name in _REDUCTIONS and isinstance(bound.arguments.get("axis"), Items):
            return _over_axes(b, hint, made, bound)
        return made(*bound.args, **bound.kwargs)
    if name in _ANGLES and not named:
        return b.elementwise(args, lambda x: b.binary("mul", x, const(_ANGLES[name])))
    if name in library.EACH and not named:
        return each(b, hint, library.EACH[name], args)
    own = library.METHODS.get(name)
    if own is not None:
        return inlined(b, own, args, named)
    if name in _SCALAR and len(args) != (2 if name in _OF_TWO else 1):
        b.refuse(f"{name} of {len(args)} arguments", "of round without digits")
    if name in _SCALAR and not named:
        return b.elementwise(args, lambda *x: b.function(_SCALAR[name], x, hint))
    with_these = f" with {', '.join(named)}" if name in _SCALAR else ""
    b.refuse(f"{name}{with_these} is not taken", _REFUSED.get(name, "write it out"))


def transposed(b: Builder, x: View | Elementwise) -> View | Elementwise:
    if isinstance(x, View):
        return View(x.base, x.axes, x.order[::-1])
    return Elementwise(x.shape[::-1], lambda i: x.element(i[::-1]), x.bases, x.dtype, x.of)


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
    return b.make(hint, lengths(b, shape), _dtype(b, dtype, "float64"), zeros=True)


def _on_empty(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return b.make(hint, lengths(b, shape), _dtype(b, dtype, "float64"), zeros=False)


def _on_ones(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return _filled(b, hint, lengths(b, shape), _dtype(b, dtype, "float64"), FLOAT_ONE)


def _on_full(
    b: Builder, hint: str | None, shape: Value, fill_value: Value, dtype: Value | None = None
) -> Value:
    (e,) = numbers(b, [fill_value])
    return _filled(b, hint, lengths(b, shape), _dtype(b, dtype, b.dtype(e)), e)


def _on_zeros_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return b.make(hint, b.shape(x), _dtype(b, dtype, b.dtype(x)), zeros=True)


def _on_empty_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return b.make(hint, b.shape(x), _dtype(b, dtype, b.dtype(x)), zeros=False)


def _on_ones_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return _filled(b, hint, b.shape(x), _dtype(b, dtype, b.dtype(x)), FLOAT_ONE)


def _on_full_like(
    b: Builder, hint: str | None, a: Value, fill_value: Value, dtype: Value | None = None
) -> Value:
    x = array_of(b, a)
    (e,) = numbers(b, [fill_value])
    return _filled(b, hint, b.shape(x), _dtype(b, dtype, b.dtype(x)), e)


def _on_copy(b: Any, hint: str | None, a: Value) -> Value:
    made: View = b.stored(array_of(b, a), hint)
    b.parted(made.base)
    return made


def _on_array(b: Builder, hint: str | None, object: Value, dtype: Value | None = None) -> Value:
    """np.array of a tuple or list of numbers, or of rows of them; or of an array, which is a copy."""
    x = object
    if is_array(x):
        return _on_copy(b, hint, x)
    if isinstance(x, Items) and x.items and all(map(is_array, x.items)) and dtype is None:
        return on_stack(b, hint, x)
    if not isinstance(x, Items) or not x.items:
        b.refuse("np.array of this", "np.empty, and write to it")
    rows = [i.items if isinstance(i, Items) else None for i in x.items]
    flat = [e for i in x.items for e in (i.items if isinstance(i, Items) else [i])]
    widths = {len(r) if r is not None else -1 for r in rows}
    if len(widths) > 1:
        b.refuse("np.array of rows of different lengths")
    kinds = ops.join(*(b.kind(e) for e in numbers(b, flat)))
    default = {"float": "float64", "int": "int64", "bool": "bool"}[kinds]
    width = widths.pop()
    shape = [const(len(rows))] + ([const(width)] if width >= 0 else [])
    v = b.make(hint, shape, _dtype(b, dtype, default), zeros=False)
    for k, e in enumerate(flat):
        at: list[Expr] = [const(k)] if width < 0 else [const(k // width), const(k % width)]
        b.store(b.load(v, at), e)
    return v


def _on_asarray(b: Builder, hint: str | None, a: Value) -> Value:
    return array_of(b, a)


_on_ascontiguousarray = _on_asarray


def _on_astype(b: Builder, hint: str | None, a: Value, dtype: Value) -> Value:
    x = array_of(b, a)
    made = b.make(hint, b.shape(x), _dtype(b, dtype, "float64"), zeros=False)
    if kind_of(b.dtype(x)) == "float" and kind_of(b.dtype(made)) == "int":
        b.assign(made, b.elementwise([x], lambda e: b.function("int", [e])))
    else:
        b.assign(made, x)
    return made


def _on_fill(b: Builder, hint: str | None, a: Value, value: Value) -> Value:
    x = array_of(b, a)
    assert isinstance(x, View)
    b.assign(x, numbers(b, [value])[0])
    return Object(None)


def _on_item(b: Builder, hint: str | None, a: Value) -> Value:
    x = array_of(b, a)
    n = product_of(b, b.shape(x))
    if n != ONE:
        b.require(Apply("eq", (b.counted(n), ONE)), "can only convert an array of size 1 to a Python scalar")
    return b.element(x, [ZERO] * len(b.shape(x)))


def _on_transpose(b: Builder, hint: str | None, a: Value, *axes: Value) -> Value:
    x = array_of(b, a)
    if not axes:
        return transposed(b, x)
    given = axes[0].items if isinstance(axes[0], Items) else list(axes)
    rank = len(b.shape(x))
    order = [axis_of(b, k, rank) for k in given]
    if sorted(order) != [*range(rank)]:
        b.refuse("axes that are not each of the array's, once")
    if order == [*range(rank)][::-1]:
        return transposed(b, x)
    place = [order.index(k) for k in range(rank)]
    of = x.base if isinstance(x, View) else x.of
    shape = [b.shape(x)[k] for k in order]
    return Elementwise(shape, lambda i: b.element(x, [i[k] for k in place]), b.bases(x), b.dtype(x), of)


def _on_swapaxes(b: Builder, hint: str | None, a: Value, axis1: Value, axis2: Value) -> Value:
    rank = len(b.shape(array_of(b, a)))
    p, q = axis_of(b, axis1, rank), axis_of(b, axis2, rank)
    order = {p: q, q: p}
    return _on_transpose(b, hint, a, Items([const(order.get(k, k)) for k in range(rank)]))


def _on_dot(b: Builder, hint: str | None, a: Value, other: Value, out: Value | None = None) -> Value:
    if isinstance(a, Expr) or isinstance(other, Expr):
        return b.elementwise([a, other], lambda x, y: b.binary("mul", x, y))
    if out is None:
        return b.dot(a, other, hint)
    x, y = (b.stored(v) if isinstance(v, Elementwise) else v for v in (a, other))
    apart = isinstance(out, View) and out.whole() and out.base not in b.bases(x) | b.bases(y)
    if not apart or not isinstance(out, View) or not isinstance(x, View) or not isinstance(y, View):
        return written_to(b, out, b.dot(x, y, None))
    b.product(out, x, y)
    return out


_on_matmul = _on_dot


def _on_vdot(b: Builder, hint: str | None, a: Value, other: Value) -> Value:
    if is_array(a) and is_array(other) and len(b.shape(array_of(b, a))) > 1:
        b.refuse("vdot of arrays of more than one dimension", "(a * b).sum()")
    return _on_dot(b, hint, a, other)


def _on_outer(b: Builder, hint: str | None, a: Value, other: Value) -> Value:
    x, y = (
        v if len(b.shape(v)) == 1 else on_flatten(b, None, v) for v in (array_of(b, a), array_of(b, other))
    )
    made = Elementwise(
        [b.shape(x)[0], b.shape(y)[0]],
        lambda i: b.binary("mul", b.element(x, i[:1]), b.element(y, i[1:])),
        b.bases(x) | b.bases(y),
    )
    made.dtype = b.result_dtype(made)
    return made


def _on_where(
    b: Builder, hint: str | None, condition: Value, x: Value | None = None, y: Value | None = None
) -> Value:
    if x is None or y is None:
        return on_nonzero(b, hint, condition)

    def one(c: Expr, p: Expr, q: Expr) -> Expr:
        if isinstance(c, Const):
            return p if c.value else q
        return Apply("where", (b.leaf(c), b.leaf(p), b.leaf(q)))

    return b.elementwise([condition, x, y], one)


def _on_meshgrid(b: Builder, hint: str | None, *xs: Value, indexing: Value | None = None) -> Value:
    given = [array_of(b, x) for x in xs]
    order = [*range(len(given))]
    if not (isinstance(indexing, Object) and indexing.value == "ij") and len(given) > 1:
        order[:2] = [1, 0]
    if any(len(b.shape(x)) != 1 for x in given):
        b.refuse("np.meshgrid of arrays of more than one dimension")
    shape = [b.shape(given[k])[0] for k in order]

    def along(k: int) -> View:
        x, axis = given[k], order.index(k)
        return b.stored(Elementwise(shape, lambda i: b.element(x, [i[axis]]), b.bases(x), b.dtype(x)), hint)

    return Items([along(k) for k in range(len(given))])


def _extreme_of_two(of_whole: str, op: str) -> Callable[..., Value]:
    def extreme(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
        def one(p: Expr, q: Expr) -> Expr:
            return b.function(op if "float" in (b.kind(p), b.kind(q)) else of_whole, [p, q], hint)

        return b.elementwise([x, y], one)

    return extreme


_on_maximum, _on_minimum = _extreme_of_two("max", "maximum"), _extreme_of_two("min", "minimum")


def _on_square(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("pow", e, const(2)))


def _on_power(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("pow", p, q, hint))


def _on_mod(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("remainder", p, q, hint))


_on_remainder = _on_mod


def _on_floor_divide(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("floor_divide", p, q, hint))


def _on_exp2(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("pow", const(2.0), e, hint))


def _truth(b: Builder, e: Expr) -> Expr:
    return e if b.kind(e) == "bool" else Apply("ne", (b.leaf(e), const(0)))


def _logical(op: str) -> Callable[..., Value]:
    def logical(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
        return b.elementwise([x, y], lambda p, q: Apply(op, (_truth(b, p), _truth(b, q))))

    return logical


_on_logical_and, _on_logical_or, _on_logical_xor = map(_logical, ("and", "or", "ne"))


def _comparison(op: str) -> Callable[..., Value]:
    def comparison(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
        return b.elementwise([x, y], lambda p, q: Apply(op, (b.leaf(p), b.leaf(q))))

    return comparison


_on_less, _on_less_equal, _on_greater, _on_greater_equal = map(_comparison, ("lt", "le", "gt", "ge"))
_on_equal, _on_not_equal = map(_comparison, ("eq", "ne"))


def _on_logical_not(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: Apply("not", (_truth(b, e),)))


def _on_count_nonzero(b: Builder, hint: str | None, a: Value) -> Value:
    x = array_of(b, a)
    return b.fold(
        b.shape(x),
        ZERO,
        lambda n, i: Apply("add", (n, Apply("where", (_truth(b, b.element(x, i)), ONE, ZERO)))),
        hint,
        "int",
    )


def _on_reciprocal(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("div", FLOAT_ONE, e, hint))


def _on_clip(b: Builder, hint: str | None, a: Value, low: Value, high: Value) -> Value:
    bounds = [(op, v) for op, v in (("max", low), ("min", high)) if not _is_none(v)]

    def clipped(e: Expr, *at: Expr) -> Expr:
        for (op, _), bound in zip(bounds, at):
            e = b.function(op, [e, bound], hint)
        return e

    return b.elementwise([a, *(v for _, v in bounds)], clipped)


def _is_none(v: Value) -> bool:
    return isinstance(v, Object) and v.value is None


def _on_divmod(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return Items([_on_floor_divide(b, None, x, y), _on_mod(b, None, x, y)])


def _on_shape(b: Builder, hint: str | None, a: Value) -> Value:
    return Items(list(b.shape(array_of(b, a))))


def _on_size(b: Builder, hint: str | None, a: Value) -> Value:
    return product_of(b, b.shape(array_of(b, a)))


def _on_ndim(b: Builder, hint: str | None, a: Value) -> Value:
    return const(len(b.shape(array_of(b, a))))


def _on_inner(b: Builder, hint: str | None, a: Value, other: Value) -> Value:
    if any(is_array(v) and len(b.shape(v)) > 1 for v in (a, other)):
        b.refuse("np.inner of arrays of more than one dimension", "a @ b.T")
    return _on_dot(b, hint, a, other)


def _on_average(b: Builder, hint: str | None, a: Value, *, weights: Value | None = None) -> Value:
    if weights is None or _is_none(weights):
        return _on_mean(b, hint, a)
    return inlined(b, library.average, [a, weights], {})


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


def _on_sum(
    b: Builder, hint: str | None, a: Value, axis: Value | None = None, keepdims: Value | None = None
) -> Value:
    x = array_of(b, a)
    if keepdims is not None:
        return _kept(b, x, _on_sum(b, hint, x, axis), axis, keepdims)
    kind = "float" if kind_of(b.dtype(x)) == "float" else "int"
    zero = FLOAT_ZERO if kind == "float" else ZERO
    if axis is None:
        return b.fold(b.shape(x), zero, lambda s, i: b.binary("add", s, b.element(x, i)), hint, kind)
    at = axis_of(b, axis, len(b.shape(x)))
    shape = b.shape(x)
    if len(shape) == 1:
        return _on_sum(b, hint, x)
    dtype = b.dtype(x) if kind == "float" else "int64"
    v = b.make(hint, [*shape[:at], *shape[at + 1 :]], dtype, zeros=True)
    b.nest(shape, lambda i: b.add(b.load(v, [*i[:at], *i[at + 1 :]]), b.element(x, i)))
    return v


def _reduced(
    b: Builder, hint: str | None, x: View | Elementwise, axis: Value, f: Callable[[Any], Value]
) -> Value:
    """What a function gives of each row along an axis."""
    at = axis_of(b, axis, len(b.shape(x)))
    shape = [*b.shape(x)]
    if len(shape) == 1:
        return f(x)
    length = shape.pop(at)
    dtype = b.dtype(x)

    def along(i: list[Expr]) -> Elementwise:
        return Elementwise([length], lambda k: b.element(x, [*i[:at], *k, *i[at:]]), b.bases(x), dtype)

    around, b.block = b.block, []
    found = f(along([ZERO] * len(shape)))  # one, which is thrown away, for its dtype
    of = b.dtype(found) if not isinstance(found, Expr) or b.kind(found) != "float" else dtype
    b.block = around
    v = b.make(hint, shape, of, zeros=False)

    def row(i: list[Expr]) -> None:
        e = f(along(i))
        assert isinstance(e, Expr)
        b.store(b.load(v, i), e)

    b.nest(b.shape(v), row)
    return v


def _over_axes(
    b: Builder, hint: str | None, reduced: Callable[..., Value], given: inspect.BoundArguments
) -> Value:
    """Over several axes it is one after another, from the last, so that the others keep their numbers."""
    found, axis = array_of(b, given.arguments["a"]), given.arguments["axis"]
    axes = sorted((axis_of(b, k, len(b.shape(found))) for k in axis.items), reverse=True)
    if not axes or len({*axes}) < len(axes):
        b.refuse("axes that are none, or not each another")
    keepdims = given.arguments.get("keepdims")
    kept = {} if keepdims is None else {"keepdims": keepdims}
    value: Value = found
    for at in axes:
        value = reduced(b, hint, value, axis=const(at), **kept)
    return value


def _kept(b: Builder, x: Value, v: Value, axis: Value | None, keepdims: Value | None) -> Value:
    """A reduction's result, with axes of length 1 for those that are gone."""
    if keepdims is None or keepdims == const(False):
        return v
    if axis is None or not isinstance(v, View):
        e = v
        return Elementwise([ONE] * len(b.shape(x)), lambda i: numbers(b, [e])[0], set(), b.dtype(v))
    at, array = axis_of(b, axis, len(b.shape(x))), v
    shape = b.shape(v)
    wide = [*shape[:at], ONE, *shape[at:]]
    return Elementwise(wide, lambda i: b.load(array, [*i[:at], *i[at + 1 :]]), b.bases(v), b.dtype(v))


def _on_mean(
    b: Builder, hint: str | None, a: Value, axis: Value | None = None, keepdims: Value | None = None
) -> Value:
    x = array_of(b, a)
    shape = b.shape(x)
    n = product_of(b, shape) if axis is None else shape[axis_of(b, axis, len(b.shape(x)))]
    n = b.counted(n)
    total = _on_sum(b, None, x, axis, keepdims)
    return b.elementwise([total], lambda s: b.binary("div", s, n, hint))


def _on_prod(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
    x = array_of(b, a)
    if axis is not None:
        return _reduced(b, hint, x, axis, lambda row: _on_prod(b, None, row))
    kind = "float" if kind_of(b.dtype(x)) == "float" else "int"
    one = FLOAT_ONE if kind == "float" else ONE
    return b.fold(b.shape(x), one, lambda s, i: b.binary("mul", s, b.element(x, i)), hint, kind)


def _quantified(op: str) -> Callable[..., Value]:
    def quantified(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
        x = array_of(b, a)
        if axis is not None:
            return _reduced(b, hint, x, axis, lambda row: quantified(b, None, row))

        def step(found: Expr, i: list[Expr]) -> Expr:
            e = b.element(x, i)
            return Apply(op, (found, _truth(b, e)))

        return b.fold(b.shape(x), const(op == "and"), step, hint, "bool")

    return quantified


_on_any, _on_all = _quantified("or"), _quantified("and")


def _on_trace(b: Builder, hint: str | None, a: Value) -> Value:
    return inlined(b, library.trace, [a], {})


def _on_norm(b: Builder, hint: str | None, x: Value, ord: Value | None = None) -> Value:
    rank = len(b.shape(array_of(b, x)))
    which = ord.value if isinstance(ord, Const | Object) else ord
    if which is None or (rank == 1 and which == 2) or (rank == 2 and which == "fro"):
        return inlined(b, library.norm, [x], {})
    if rank == 1 and which in (1, math.inf):
        return inlined(b, library.norm_1 if which == 1 else library.norm_inf, [x], {})
    b.refuse("a norm of this order", "1, 2 or np.inf of a vector, or write it out")


def _on_diag(b: Builder, hint: str | None, a: Value) -> Value:
    """Of a matrix its diagonal, of a vector the matrix."""
    x = array_of(b, a)
    shape = b.shape(x)
    if len(shape) == 2:
        n = shape[0] if b.root(shape[0]) == b.root(shape[1]) else b.let("n", Apply("min", tuple(shape)))
        of = x.base if isinstance(x, View) else x.of
        return Elementwise([n], lambda i: b.element(x, [i[0], i[0]]), b.bases(x), b.dtype(x), of)
    if len(shape) != 1:
        b.refuse("np.diag of an array of more than two dimensions")
    v = b.make(hint, [shape[0], shape[0]], b.dtype(x), zeros=True)
    b.nest(shape, lambda i: b.store(b.load(v, [i[0], i[0]]), b.element(x, i)))
    return v


_on_diagonal = _on_diag


def _on_diff(b: Builder, hint: str | None, a: Value, n: Value = ONE) -> Value:
    if not isinstance(n, Const) or n.value < 0:
        b.refuse("np.diff as often as is not known, or less than never", "a loop")
    found = a if n.value else _on_copy(b, hint, a)
    for _ in range(n.value):
        found = inlined(b, library.diff, [found], {})
    return found


def _on_fill_diagonal(b: Builder, hint: str | None, a: Value, val: Value) -> Value:
    x = array_of(b, a)
    if not isinstance(x, View) or len(b.shape(x)) != 2:
        b.refuse("np.fill_diagonal of an array that is no matrix")
    along = _on_diag(b, None, x)
    if not isinstance(val, Expr):
        val = b.stored(array_of(b, val))
        b.fits(b.shape(along), b.shape(val))
    e = b.read_once(val)
    b.nest(b.shape(along), lambda i: b.store(b.load(x, [i[0], i[0]]), b.element(e, i)))
    return Object(None)


def _extreme(b: Builder, hint: str | None, a: Value, better: str) -> Value:
    """The first of equals, and NaN if there is one."""
    x = array_of(b, a)
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


def _of_extreme(better: str) -> Callable[..., Value]:
    def extreme(
        b: Builder, hint: str | None, a: Value, axis: Value | None = None, keepdims: Value | None = None
    ) -> Value:
        x = array_of(b, a)
        if axis is None:
            return _kept(b, x, _extreme(b, hint, x, better), None, keepdims)
        found = _reduced(b, hint, x, axis, lambda row: _extreme(b, None, row, better))
        return _kept(b, x, found, axis, keepdims)

    return extreme


_on_max, _on_min = _of_extreme("lt"), _of_extreme("gt")


_on_amax, _on_amin = _on_max, _on_min


def _on_eye(b: Builder, hint: str | None, n: Value) -> Value:
    (e,) = numbers(b, [n])
    v = b.make(hint, [e, e], "float64", zeros=True)
    b.nest(b.shape(v)[:1], lambda i: b.store(b.load(v, [i[0], i[0]]), FLOAT_ONE))
    return v


_on_identity = _on_eye


def _on_argmin(b: Builder, hint: str | None, a: Value) -> Value:
    return inlined(b, library.argmin, [a], {})


def _on_argmax(b: Builder, hint: str | None, a: Value) -> Value:
    return inlined(b, library.argmax, [a], {})


def _on_searchsorted(b: Builder, hint: str | None, a: Value, v: Value, side: Value | None = None) -> Value:
    right = isinstance(side, Object) and side.value == "right"
    own = library.searchsorted_right if right else library.searchsorted
    sorted_ones = b.stored(a) if isinstance(a, Elementwise) else a
    if isinstance(v, Expr):
        return inlined(b, own, [sorted_ones, v], {})
    each_of = array_of(b, v)
    made = b.make(hint, b.shape(each_of), "int64", zeros=False)

    def one(i: list[Expr]) -> None:
        (e,) = numbers(b, [inlined(b, own, [sorted_ones, b.element(each_of, i)], {})])
        b.store(b.load(made, i), e)

    b.nest(b.shape(made), one)
    return made


def _on_interp(b: Builder, hint: str | None, x: Value, xp: Value, fp: Value) -> Value:
    xp, fp = (b.stored(v) if isinstance(v, Elementwise) else v for v in (xp, fp))
    if isinstance(x, Expr):
        return inlined(b, library.interp, [x, xp, fp], {})
    each = array_of(b, x)
    v = b.make(hint, b.shape(each), "float64", zeros=False)

    def one(i: list[Expr]) -> None:
        e = inlined(b, library.interp, [b.element(each, i), xp, fp], {})
        assert isinstance(e, Expr)
        b.store(b.load(v, i), e)

    b.nest(b.shape(v), one)
    return v


def _on_solve(b: Builder, hint: str | None, a: Value, right: Value) -> Value:
    matrix = len(b.shape(right)) == 2
    return inlined(b, library.solve_columns if matrix else library.solve, [a, right], {})


__all__ = ["Span", "call", "function", "method", "product_of", "transposed", "whole"]
