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

from nbgrad.adjoints import contract, library, matrices, ops, pieces, rows
from nbgrad.adjoints.arrangements import (
    FUNCTIONS,
    array_of,
    axis_of,
    dtype_of,
    each,
    inlined,
    lengths,
    numbers,
    on_array,
    on_concatenate,
    on_copy,
    on_flatten,
    on_nonzero,
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
    Branch,
    Const,
    Expr,
    Grow,
    Load,
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
    **{
        "floor": "floor",
        "ceil": "ceil",
        "trunc": "trunc",
        "around": "round",
        "round": "round",
        "fix": "trunc",
    },
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
_TRUE, _LAST = const(True), const(-1)
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
    if "where" in named and isinstance(f, np.ufunc):
        return where_asked(b, f, args, named)
    if "out" in named and f not in _WITH_OUT:
        rest = {k: v for k, v in named.items() if k != "out"}
        return written_to(b, named["out"], function(b, f, args, rest, hint))
    if hasattr(f, "primitive"):  # in a derivative's text
        return b.function(f.primitive, numbers(b, args), hint)
    owner = getattr(f, "__self__", None)
    if isinstance(owner, np.ufunc) and name == "at" and not named:
        return changed_at(b, b, owner, args)
    if isinstance(owner, np.ufunc):
        return of_ufunc(b, owner, name, args, named, hint)
    own = (library.FUNCTIONS.get(f) or matrices.FUNCTIONS.get(f)) if _hashable(f) else None
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
        return inlined(b, matrices.norm, [on_array(b, None, Items(args))], {})
    if home is builtins and name == "round" and len(args) + len(named) == 2:
        return _rounded(b, args[0], args[1] if len(args) == 2 else named.get("ndigits"), hint)
    if home is builtins and name == "round":
        return b.function("whole_round", numbers(b, args), hint)
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
    if home is builtins and name == "sorted" and len(args) == 1 and not named.keys() - {"reverse"}:
        return _sorted(b, args[0], named.get("reverse", const(False)), hint)
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
    if f in (np.finfo, np.iinfo) and len(args) == 1:
        return Object(f(dtype_of(b, args[0], "float64")))
    if home is None and type(owner).__name__ == "RandomState":
        b.refuse(
            f"{name} of np.random, which is another each time", "draw before, and pass it as an argument"
        )
    if home is None:
        b.refuse(
            f"{name} is called, which is none of Python's, math's or NumPy's functions that are taken",
            "write it out",
        )
    return call(b, name, args, named, hint)


def _sorted(b: Builder, x: Value, reverse: Value, hint: str | None) -> Value:
    """A list."""
    if not isinstance(reverse, Const):
        b.refuse("sorted whose direction is not known", "reverse=True")
    if len(b.shape(array := array_of(b, x))) != 1:
        b.refuse("sorted of rows", "np.sort")
    found = inlined(b, library.falling if reverse.value else library.sort, [array], {})
    assert isinstance(found, View)
    b.lists.add(found.base)
    return found


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


def where_asked(b: Builder, f: np.ufunc, args: list[Value], named: dict[str, Value]) -> Value:
    """A function of each element where a condition holds: elsewhere it is not computed, and `out` stays as it is."""
    out, test = named.get("out"), named["where"]
    if isinstance(out, Items) and len(out.items) == 1:
        out = out.items[0]
    if out is None or _is_none(out) or named.keys() - {"out", "where"}:
        b.refuse(
            f"{f.__name__} with where and without out, which is not set elsewhere", "out=np.zeros_like(...)"
        )
    if isinstance(out, Elementwise):
        out = b.stored(out)
    if not isinstance(out, View):
        b.refuse("out that is no array")
    shape, into = b.shape(out), out
    for k, x in enumerate((*args, test)):
        if not isinstance(x, Expr):
            b.fits(shape, b.shape(array_of(b, x)))
        if isinstance(x, Elementwise | View) and out.base in b.bases(x) and x != out:
            args = [b.stored(array_of(b, v)) if k == j else v for j, v in enumerate(args)]
            test = b.stored(array_of(b, test)) if k == len(args) else test
    given, asked = [b.read_once(x) for x in args], b.read_once(test)

    def one(i: list[Expr]) -> None:
        holds = b.let("c", _truth(b, b.element(asked, i)))
        around, b.block = b.block, []
        (e,) = numbers(b, [function(b, f, [b.element(x, i) for x in given], {}, None)])
        if ops.join(b.array(into.base).kind, b.kind(e)) != b.array(into.base).kind:
            b.refuse(f"a result of {b.dtype(e)} is written to an array of {b.dtype(into)}", "without out")
        b.store(b.load(into, i), e)
        then, b.block = b.block, around
        b.block.append(Branch(holds, then, [], []))

    b.nest(shape, one)
    return into


_REDUCE: dict[Any, str] = {
    **{np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min"},
    **{np.logical_and: "all", np.logical_or: "any"},
}


def of_ufunc(
    b: Builder, f: np.ufunc, method: str, args: list[Value], named: dict[str, Value], hint: str | None
) -> Value:
    """np.add.reduce, np.maximum.accumulate, np.multiply.outer."""
    if method == "outer" and len(args) == 2 and not named:
        x, y = (array_of(b, v) for v in args)
        m, n = len(b.shape(x)), len(b.shape(y))
        shape = [*b.shape(x), *[ONE] * n]
        wide = Elementwise(shape, lambda i: b.element(x, i[:m]), b.bases(x), b.dtype(x))
        return function(b, f, [wide, y], {}, hint)
    if method == "reduce" and f in _REDUCE:
        axis = args[1] if len(args) > 1 else named.get("axis", ZERO)
        more = {k: v for k, v in named.items() if k == "keepdims"} | (
            {} if _is_none(axis) else {"axis": axis}
        )
        if not named.keys() - {"axis", "keepdims"} and len(args) < 3:
            return call(b, _REDUCE[f], [array_of(b, args[0])], more, hint)
    row = array_of(b, args[0]) if args else None
    if row is not None and len(args) == 1 and not named and len(b.shape(row)) == 1:
        own = library.OF_UFUNCS.get((f, method))
        if own is not None:
            return inlined(b, own, [row], {})
    b.refuse(f"{f.__name__}.{method} of such arguments", "a loop")


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
    if name == "compress" and len(args) == 2:
        args = args[::-1]
    return call(b, "sort_in_place" if name == "sort" else name, args, named, hint)


def call(b: Builder, name: str, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    """A function or method by NumPy's name."""
    made: Any = globals().get(f"_on_{name}") or _ELSEWHERE.get(name)
    if made is not None:
        try:
            bound = inspect.signature(made).bind(b, hint, *args, **named)
        except TypeError as error:
            b.refuse(f"the arguments of {name}: {error}")
        if name in _REDUCTIONS and isinstance(bound.arguments.get("axis"), Items):
            return _over_axes(b, hint, made, bound)
        return made(*bound.args, **bound.kwargs)
    if name in rows.ALONG:
        return rows.call(b, hint, name, args, named)
    if name in _ANGLES and not named:
        return b.elementwise(args, lambda x: b.binary("mul", x, const(_ANGLES[name])))
    if name in library.EACH and not named:
        return each(b, hint, library.EACH[name], args)
    if name in ("round", "around") and len(args) + len(named) == 2:
        return _rounded(b, args[0], args[1] if len(args) == 2 else named.get("decimals"), hint)
    if name in _SCALAR and len(args) != (2 if name in _OF_TWO else 1):
        b.refuse(f"{name} of {len(args)} arguments")
    if name in _SCALAR and not named:
        return b.elementwise(args, lambda *x: b.function(_SCALAR[name], x, hint))
    with_these = f" with {', '.join(named)}" if name in _SCALAR else ""
    b.refuse(f"{name}{with_these} is not taken", _REFUSED.get(name, "write it out"))


def _rounded(b: Builder, x: Value, digits: Value | None, hint: str | None) -> Value:
    """To digits behind the point, as NumPy and Numba do it."""
    if not isinstance(digits, Const) or not isinstance(digits.value, int):
        b.refuse("round to digits that are not known", "a constant")
    by = const(10.0 ** abs(digits.value))
    there, back = ("mul", "div") if digits.value >= 0 else ("div", "mul")
    return b.elementwise(
        [x], lambda e: b.binary(back, b.function("round", [b.binary(there, e, by)]), by, hint)
    )


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
    return b.make(hint, lengths(b, shape), dtype_of(b, dtype, "float64"), zeros=True)


def _on_empty(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return b.make(hint, lengths(b, shape), dtype_of(b, dtype, "float64"), zeros=False)


def _on_ones(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return _filled(b, hint, lengths(b, shape), dtype_of(b, dtype, "float64"), FLOAT_ONE)


def _on_full(
    b: Builder, hint: str | None, shape: Value, fill_value: Value, dtype: Value | None = None
) -> Value:
    (e,) = numbers(b, [fill_value])
    return _filled(b, hint, lengths(b, shape), dtype_of(b, dtype, b.dtype(e)), e)


def _on_zeros_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return b.make(hint, b.shape(x), dtype_of(b, dtype, b.dtype(x)), zeros=True)


def _on_empty_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return b.make(hint, b.shape(x), dtype_of(b, dtype, b.dtype(x)), zeros=False)


def _on_ones_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return _filled(b, hint, b.shape(x), dtype_of(b, dtype, b.dtype(x)), FLOAT_ONE)


def _on_full_like(
    b: Builder, hint: str | None, a: Value, fill_value: Value, dtype: Value | None = None
) -> Value:
    x = array_of(b, a)
    (e,) = numbers(b, [fill_value])
    return _filled(b, hint, b.shape(x), dtype_of(b, dtype, b.dtype(x)), e)


def _on_asarray(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    if isinstance(a, Expr):
        return on_array(b, hint, a, dtype)
    x = array_of(b, a)
    return x if dtype is None or dtype_of(b, dtype, "") == b.dtype(x) else on_array(b, hint, x, dtype)


_on_ascontiguousarray = _on_asanyarray = _on_asfortranarray = _on_asarray


def _on_astype(b: Builder, hint: str | None, a: Value, dtype: Value) -> Value:
    x = array_of(b, a)
    made = b.make(hint, b.shape(x), dtype_of(b, dtype, "float64"), zeros=False)
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


def _on_transpose(
    b: Builder, hint: str | None, a: Value, *order_of: Value, axes: Value | None = None
) -> Value:
    x = array_of(b, a)
    given_as = order_of if axes is None else (axes,)
    if not given_as or _is_none(given_as[0]):
        return contract.turned(x)
    given = given_as[0].items if isinstance(given_as[0], Items) else list(given_as)
    rank = len(b.shape(x))
    order = [axis_of(b, k, rank) for k in given]
    if sorted(order) != [*range(rank)]:
        b.refuse("axes that are not each of the array's, once")
    if order == [*range(rank)][::-1]:
        return contract.turned(x)
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
        return contract.product(b, hint, a, other, outer=True)
    x, y = (b.stored(v) if isinstance(v, Elementwise) else v for v in (a, other))
    apart = isinstance(out, View) and out.whole() and out.base not in b.bases(x) | b.bases(y)
    if not apart or not isinstance(out, View) or not isinstance(x, View) or not isinstance(y, View):
        return written_to(b, out, b.dot(x, y, None))
    b.product(out, x, y)
    return out


def _on_matmul(b: Builder, hint: str | None, a: Value, other: Value, out: Value | None = None) -> Value:
    many = max(len(b.shape(array_of(b, x))) for x in (a, other)) > 2
    return (
        contract.product(b, hint, a, other, outer=False)
        if many and out is None
        else _on_dot(b, hint, a, other, out)
    )


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


def _on_count_nonzero(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
    x = array_of(b, a)
    if axis is not None and not _is_none(axis):
        return rows.reduced(b, hint, x, axis, lambda row: _on_count_nonzero(b, None, row))
    return b.fold(
        b.shape(x),
        ZERO,
        lambda n, i: Apply("add", (n, Apply("where", (_truth(b, b.element(x, i)), ONE, ZERO)))),
        hint,
        "int",
    )


def _on_reciprocal(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("div", FLOAT_ONE, e, hint))


def _on_clip(
    b: Builder,
    hint: str | None,
    a: Value,
    a_min: Value | None = None,
    a_max: Value | None = None,
    *,
    min: Value | None = None,
    max: Value | None = None,
) -> Value:
    given = ("max", a_min or min), ("min", a_max or max)
    bounds = [(op, v) for op, v in given if v is not None and not _is_none(v)]

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


def _on_size(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
    shape = b.shape(a if isinstance(a, Expr) else array_of(b, a))
    return product_of(b, shape) if axis is None else shape[axis_of(b, axis, len(shape))]


def _on_ndim(b: Builder, hint: str | None, a: Value) -> Value:
    return const(len(b.shape(a if isinstance(a, Expr) else array_of(b, a))))


def _on_inner(b: Builder, hint: str | None, a: Value, other: Value) -> Value:
    if any(is_array(v) and len(b.shape(v)) > 1 for v in (a, other)):
        b.refuse("np.inner of arrays of more than one dimension", "a @ b.T")
    return _on_dot(b, hint, a, other)


def _on_real(b: Builder, hint: str | None, x: Value) -> Value:
    return x


_on_conjugate = _on_positive = _on_real


def _on_imag(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: FLOAT_ZERO)


def _of_bits(op: str) -> Callable[..., Value]:
    def bits(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
        return b.elementwise([x, y], lambda p, q: b.binary(op, p, q, hint))

    return bits


_on_bitwise_and, _on_bitwise_or, _on_bitwise_xor = map(_of_bits, ("bit_and", "bit_or", "bit_xor"))
_on_left_shift, _on_right_shift = map(_of_bits, ("lshift", "rshift"))


def _on_isin(b: Builder, hint: str | None, element: Value, test_elements: Value) -> Value:
    return each(b, hint, library.is_among, [element], [array_of(b, test_elements)])


def _on_gradient(b: Builder, hint: str | None, f: Value, *spacing: Value, axis: Value | None = None) -> Value:
    x = array_of(b, f)
    rank = len(b.shape(x))
    if rank > 1 and axis is None:
        if len(spacing) not in (0, 1, rank):
            b.refuse(f"np.gradient of {rank} dimensions with {len(spacing)} spacings")
        along = [*spacing] * rank if len(spacing) == 1 else [*spacing]
        return Items([_on_gradient(b, hint, x, *along[k : k + 1], axis=const(k)) for k in range(rank)], list)
    given = const(-1) if axis is None else axis
    return rows.turned_to(b, hint, x, given, lambda row: inlined(b, library.gradient, [row, *spacing], {}))


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
    axis = None if axis is None or _is_none(axis) else axis
    if keepdims is not None:
        return rows.kept(b, x, _on_sum(b, hint, x, axis), axis, keepdims)
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


def _on_mean(
    b: Builder, hint: str | None, a: Value, axis: Value | None = None, keepdims: Value | None = None
) -> Value:
    x = array_of(b, a)
    shape = b.shape(x)
    n = product_of(b, shape) if axis is None else shape[axis_of(b, axis, len(b.shape(x)))]
    n = b.counted(n)
    total = _on_sum(b, None, x, axis, keepdims)
    return b.elementwise([total], lambda s: b.binary("div", s, n, hint))


def _on_prod(
    b: Builder, hint: str | None, a: Value, axis: Value | None = None, keepdims: Value | None = None
) -> Value:
    x = array_of(b, a)
    if axis is not None and not _is_none(axis):
        found = rows.reduced(b, hint, x, axis, lambda row: _on_prod(b, None, row))
        return rows.kept(b, x, found, axis, keepdims)
    if keepdims is not None:
        return rows.kept(b, x, _on_prod(b, hint, x), None, keepdims)
    kind = "float" if kind_of(b.dtype(x)) == "float" else "int"
    one = FLOAT_ONE if kind == "float" else ONE
    return b.fold(b.shape(x), one, lambda s, i: b.binary("mul", s, b.element(x, i)), hint, kind)


def _quantified(op: str) -> Callable[..., Value]:
    def quantified(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
        x = array_of(b, a)
        if axis is not None:
            return rows.reduced(b, hint, x, axis, lambda row: quantified(b, None, row))

        def step(found: Expr, i: list[Expr]) -> Expr:
            e = b.element(x, i)
            return Apply(op, (found, _truth(b, e)))

        return b.fold(b.shape(x), const(op == "and"), step, hint, "bool")

    return quantified


_on_any, _on_all = _quantified("or"), _quantified("and")


def _on_norm(
    b: Builder,
    hint: str | None,
    x: Value,
    ord: Value | None = None,
    axis: Value | None = None,
    keepdims: Value | None = None,
) -> Value:
    which = ord.value if isinstance(ord, Const | Object) else ord
    array = array_of(b, x)
    if isinstance(which, Expr):
        b.refuse("a norm of an order that is not known", "a constant")

    def one(v: Value) -> Value:
        rank = len(b.shape(v))
        if which is None or (rank == 1 and which == 2) or (rank == 2 and which == "fro"):
            return inlined(b, matrices.norm, [v], {})
        if rank == 2 and which not in (1, -1, 2, -2, math.inf, -math.inf, "nuc"):
            b.refuse(f"a norm of the order {which!r} of a matrix")
        if rank > 2 or (rank == 1 and isinstance(which, str)):
            b.refuse(f"a norm of the order {which!r} of an array of {rank} dimensions")
        own = matrices.norm_of_vector if rank == 1 else matrices.norm_of_matrix
        return inlined(b, own, [v, Object(which) if isinstance(which, str) else const(which)], {})

    if axis is None or _is_none(axis):
        return rows.kept(b, array, one(array), None, keepdims)
    return rows.kept(b, array, rows.reduced(b, hint, array, axis, one), axis, keepdims)


def _on_diag(b: Builder, hint: str | None, v: Value, k: Value = ZERO) -> Value:
    """Of a matrix its diagonal, of a vector the matrix."""
    x = array_of(b, v)
    shape = b.shape(x)
    if not isinstance(k, Const):
        b.refuse("a diagonal that is not known", "a constant")
    below, right = const(max(-k.value, 0)), const(max(k.value, 0))

    def place(i: Expr) -> list[Expr]:
        return [b.whole("add", i, below), b.whole("add", i, right)]

    if len(shape) == 2:
        high, wide = (b.whole("sub", n, off) for n, off in zip(shape, (below, right)))
        square = k == ZERO and b.root(shape[0]) == b.root(shape[1])
        n = high if square else b.let("n", Apply("max", (Apply("min", (high, wide)), ZERO)))
        of = x.base if isinstance(x, View) else x.of
        return Elementwise([n], lambda i: b.element(x, place(i[0])), b.bases(x), b.dtype(x), of)
    if len(shape) != 1:
        b.refuse("np.diag of an array of more than two dimensions")
    n = b.whole("add", shape[0], const(abs(k.value)))
    made = b.make(hint, [n, n], b.dtype(x), zeros=True)
    b.nest(shape, lambda i: b.store(b.load(made, place(i[0])), b.element(x, i)))
    return made


def _on_diagflat(b: Builder, hint: str | None, v: Value, k: Value = ZERO) -> Value:
    return _on_diag(b, hint, on_flatten(b, None, v), k)


def _on_diagonal(b: Builder, hint: str | None, a: Value, offset: Value = ZERO) -> Value:
    if len(b.shape(array_of(b, a))) != 2:
        b.refuse("the diagonal of an array that is no matrix")
    return _on_diag(b, hint, a, offset)


def _on_diff(
    b: Builder,
    hint: str | None,
    a: Value,
    n: Value = ONE,
    axis: Value = _LAST,
    prepend: Value | None = None,
    append: Value | None = None,
) -> Value:
    if not isinstance(n, Const) or n.value < 0:
        b.refuse("np.diff as often as is not known, or less than never", "a loop")
    x = array_of(b, a)
    at = axis_of(b, axis, len(b.shape(x)))
    ends = [v for v in (prepend, x, append) if v is not None and not _is_none(v)]
    if len(ends) > 1:
        wide = [*b.shape(x)[:at], ONE, *b.shape(x)[at + 1 :]]
        x = array_of(b, on_concatenate(b, None, Items([_spread(b, v, wide) for v in ends]), const(at)))
    if not n.value:
        return on_copy(b, hint, x)
    for _ in range(n.value):
        x = _differences(b, b.stored(x) if isinstance(x, Elementwise) else x, at)
    return b.stored(x, hint)


def _spread(b: Builder, x: Value, shape: list[Expr]) -> Value:
    return Elementwise(shape, lambda i: x, set(), b.dtype(x)) if isinstance(x, Expr) else x


def _differences(b: Builder, x: View, at: int) -> Elementwise:
    shape = b.shape(x)
    n = b.whole("sub", shape[at], ONE)
    shape = [
        *shape[:at],
        const(n.value) if isinstance(n, Const) else b.let("n", Apply("max", (n, ZERO))),
        *shape[at + 1 :],
    ]

    def element(i: list[Expr]) -> Expr:
        after = [*i[:at], b.whole("add", i[at], ONE), *i[at + 1 :]]
        return b.binary("sub", b.element(x, after), b.element(x, i))

    found = Elementwise(shape, element, {x.base})
    found.dtype = b.result_dtype(found)
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
        axis = None if axis is None or _is_none(axis) else axis
        for n in b.shape(x) if axis is None else [b.shape(x)[axis_of(b, axis, len(b.shape(x)))]]:
            if (
                not isinstance(n, Const) or not n.value
            ):  # where NumPy raises as well, and its first number would be read
                b.require(Apply("ne", (n, ZERO)), "zero-size array to reduction operation maximum or minimum")
        if axis is None:
            return rows.kept(b, x, _extreme(b, hint, x, better), None, keepdims)
        found = rows.reduced(b, hint, x, axis, lambda row: _extreme(b, None, row, better))
        return rows.kept(b, x, found, axis, keepdims)

    return extreme


_on_max, _on_min = _of_extreme("lt"), _of_extreme("gt")


_on_amax, _on_amin = _on_max, _on_min


def _on_eye(
    b: Builder,
    hint: str | None,
    N: Value,
    M: Value | None = None,
    k: Value = ZERO,
    dtype: Value | None = None,
) -> Value:
    n, m = numbers(b, [N, N if M is None or _is_none(M) else M])
    v = b.make(hint, [n, m], dtype_of(b, dtype, "float64"), zeros=True)
    along = _on_diag(b, None, v, k)
    one = {"float": FLOAT_ONE, "int": ONE, "bool": const(True)}[kind_of(b.dtype(v))]

    def put(i: list[Expr]) -> None:
        at = b.element(along, i)
        assert isinstance(at, Load)
        b.store(at, one)

    b.nest(b.shape(along), put)
    return v


def _on_identity(b: Builder, hint: str | None, n: Value, dtype: Value | None = None) -> Value:
    return _on_eye(b, hint, n, dtype=dtype)


def _on_searchsorted(b: Builder, hint: str | None, a: Value, v: Value, side: Value | None = None) -> Value:
    right = isinstance(side, Object) and side.value == "right"
    own = library.searchsorted_right if right else library.searchsorted
    ones = array_of(b, a)
    sorted_ones = b.stored(ones) if isinstance(ones, Elementwise) else ones
    return each(b, hint, own, [v], before=[sorted_ones])


def _on_interp(
    b: Builder,
    hint: str | None,
    x: Value,
    xp: Value,
    fp: Value,
    left: Value | None = None,
    right: Value | None = None,
) -> Value:
    xp, fp = (b.stored(v) if isinstance(v, Elementwise) else v for v in (array_of(b, xp), array_of(b, fp)))
    ends = {k: v for k, v in (("left", left), ("right", right)) if v is not None}
    return each(b, hint, library.interp, [x], [xp, fp], ends)


def _on_solve(b: Builder, hint: str | None, a: Value, right: Value) -> Value:
    matrix = len(b.shape(right)) == 2
    return inlined(b, matrices.solve_columns if matrix else matrices.solve, [a, right], {})


def _named(b: Builder, f: Any, own: Callable[..., Any], a: Value) -> Value:
    """What one of NumPy's gives as a tuple whose parts have names."""
    found = inlined(b, own, [array_of(b, a)], {})
    assert isinstance(found, Items)
    return Items(found.items, type(f(np.eye(1))))


def _on_eigh(b: Builder, hint: str | None, a: Value) -> Value:
    return _named(b, np.linalg.eigh, matrices.eigh, a)


def _on_slogdet(b: Builder, hint: str | None, a: Value) -> Value:
    return _named(b, np.linalg.slogdet, matrices.slogdet, a)


def _on_qr(b: Builder, hint: str | None, a: Value, mode: Value | None = None) -> Value:
    which = mode.value if isinstance(mode, Object) else "reduced"
    if which not in ("reduced", "r"):
        b.refuse(f"np.linalg.qr with the mode {which!r}", "reduced")
    found = _named(b, np.linalg.qr, matrices.qr, a)
    return found.items[1] if which == "r" and isinstance(found, Items) else found


def _on_svd(
    b: Builder,
    hint: str | None,
    a: Value,
    full_matrices: Value = _TRUE,
    compute_uv: Value = _TRUE,
) -> Value:
    if not isinstance(full_matrices, Const) or not isinstance(compute_uv, Const):
        b.refuse("np.linalg.svd with settings that are not known")
    if not compute_uv.value:
        return inlined(b, matrices.singular_values, [array_of(b, a)], {})
    return _named(b, np.linalg.svd, matrices.svd_of_square if full_matrices.value else matrices.svd, a)


def _on_svdvals(b: Builder, hint: str | None, x: Value) -> Value:
    return inlined(b, matrices.singular_values, [array_of(b, x)], {})


def _on_lstsq(b: Builder, hint: str | None, a: Value, right: Value, rcond: Value | None = None) -> Value:
    """Of a matrix of full rank; singular values and what is left are not computed."""
    x, y = array_of(b, a), array_of(b, right)
    own = matrices.lstsq_of_vector if len(b.shape(y)) == 1 else matrices.least_squares
    rank = b.let("n", Apply("min", tuple(b.shape(x))))
    return Items([inlined(b, own, [x, y], {}), Object(_not_computed), rank, Object(_not_computed)])


def _not_computed() -> None:
    """What np.linalg.lstsq gives beside the solution and the rank."""


def _on_trace(b: Builder, hint: str | None, a: Value, offset: Value = ZERO) -> Value:
    return inlined(b, matrices.trace, [array_of(b, a), offset], {})


def _on_multi_dot(b: Builder, hint: str | None, arrays: Value) -> Value:
    if not isinstance(arrays, Items) or len(arrays.items) < 2:
        b.refuse("np.linalg.multi_dot of what is no list of arrays")
    found = arrays.items[0]
    for x in arrays.items[1:]:
        found = b.dot(found, x, hint)
    return found


_ELSEWHERE = FUNCTIONS | contract.FUNCTIONS | pieces.FUNCTIONS

__all__ = ["Span", "call", "function", "method", "product_of", "whole"]
