"""How a call is lowered: one operation, a loop, or a function of `library.py` that is written out.

Promises a value for each call of `math`'s, NumPy's and Python's functions and of arrays' methods, or a refusal that names the function.
What NumPy's are stands by their names in `functions`, `linear`, `arrangements`, `pieces`, `contract` and `rows`.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from nbgrad.adjoints import (
    arrangements,
    complexes,
    contract,
    draws,
    functions,
    keyed,
    library,
    linear,
    listed,
    matrices,
    ops,
    pieces,
    rows,
)
from nbgrad.adjoints.arrangements import (
    array_of,
    axis_of,
    dtype_of,
    each,
    inlined,
    numbers,
    on_array,
    truth,
    written_to,
)
from nbgrad.adjoints.build import Builder, Elementwise, Items, Listed, Object, Value, is_array, is_none
from nbgrad.adjoints.ir import (
    ONE,
    ZERO,
    Apply,
    Branch,
    Const,
    Expr,
    Grow,
    View,
    const,
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
_NEUTRAL: dict[str, Any] = {  # what changes nothing of it, where it asks for some of the elements alone
    **{"sum": 0.0, "prod": 1.0, "mean": 0.0, "any": False, "all": True},
    **dict.fromkeys(("max", "min", "amax", "amin")),
}
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
    "pop": "pop() of the last in a statement of its own, or the index of the first that counts",
}


def function(b: Builder, f: Any, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    name = getattr(f, "__name__", str(f))
    if f in OF_LISTS:
        return f(b, *args)
    if f in keyed.OF_DICTS or f is dict:
        return (keyed.new_dict if f is dict else f)(b, *args, **named)
    if complexes.wanted(f, args, named):
        return complexes.function(b, name, args, named, f)
    if isinstance(f, np.ufunc) and f.signature is None and len(args) > f.nin:
        args, named = args[: f.nin], {**named, "out": Items(args[f.nin :])}
    if "where" in named and isinstance(f, np.ufunc):
        return where_asked(b, f, args, named)
    if "out" in named and f not in _WITH_OUT:
        rest = {k: v for k, v in named.items() if k != "out"}
        return written_to(b, named["out"], function(b, f, args, rest, hint))
    if hasattr(f, "formula"):  # in a derivative's text
        into = array_of(b, args[-1])
        assert isinstance(into, View)  # as the library has it
        b.fill(f.formula, into, [array_of(b, x) for x in args[:-1]])
        return Object(None)
    if hasattr(f, "primitive"):
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
    if type(f).__name__ == "DUFunc" and not named:
        return vectorized(b, f, args)
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
        given = args[0] if len(args) == 1 and is_array(args[0]) else on_array(b, None, Items(args))
        return inlined(b, matrices.norm, [given], {})
    if home is builtins and f is slice and 1 <= len(args) <= 3 and not named:
        ends: list[Any] = [Object(None), *args] if len(args) == 1 else args
        return Items([*ends, *[Object(None)] * (3 - len(ends))], slice)
    if home is builtins and f in (tuple, list) and len(args) <= 1 and not named:
        return _listed(b, f, args[0] if args else Items([]), hint)
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
    if home is None and (f is np.random.seed or type(owner).__name__ == "RandomState"):
        return draws.drawn(b, name, args, named)
    if home is None:
        b.refuse(
            f"{name} is called, which is none of Python's, math's or NumPy's functions that are taken",
            "write it out",
        )
    return call(b, name, args, named, hint)


def _listed(b: Any, of: type, x: Value, hint: str | None) -> Value:
    """tuple or list of what may be gone over."""
    if isinstance(x, Items):
        return Items(list(keyed.over(b, x).items), of)
    if isinstance(x, Listed):
        if isinstance(x.count, Const):
            return Items(b.unpacked(x, x.count.value), of)
        b.refuse(f"{of.__name__} of a list whose length is not known", "use the list")
    n = b.root(b.shape(array := array_of(b, x))[0])
    if isinstance(n, Const):
        return Items(b.unpacked(array, n.value), of)
    if of is tuple or len(b.shape(array)) > 1:
        b.refuse(f"{of.__name__} of an array whose length is not known", "use the array")
    made: View = b.stored(array, hint)
    b.parted(made.base)
    b.lists.add(made.base)
    return made


def vectorized(b: Builder, f: Any, args: list[Value]) -> Value:
    """What Numba's `vectorize` was put on, of each element; as there, integers become floats where it was made for floats alone."""
    if f.types and all(set(t.partition("->")[0]) == {"d"} for t in f.types):
        args = [converted(b, np.float64, [x]) for x in args]
    of: Any = f._dispatcher.py_func
    return b.elementwise(args, lambda *x: numbers(b, [inlined(b, of, [b.leaf(e) for e in x], {})])[0])


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


def where_asked(b: Builder, f: np.ufunc, args: list[Value], named: dict[str, Value]) -> Value:
    """A function of each element where a condition holds: elsewhere it is not computed, and `out` stays as it is."""
    out, test = named.get("out"), named["where"]
    if isinstance(out, Items) and len(out.items) == 1:
        out = out.items[0]
    if out is None or is_none(out) or named.keys() - {"out", "where"}:
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
        holds = b.let("c", truth(b, b.element(asked, i)))
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
        more = {k: v for k, v in named.items() if k == "keepdims"} | ({} if is_none(axis) else {"axis": axis})
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


def _new_list(b: Builder) -> Value:
    return listed.new_list(b)


def _push(b: Builder, v: Value, at: Value, x: Value) -> Value:
    listed.push(b, v, at, x)
    return Object(None)


def _held(b: Builder, v: Value, n: Value) -> Value:
    return listed.held(b, v, n)


def _changes(b: Builder, v: Value) -> Value:
    assert isinstance(v, View)
    listed.changes(b, v.base)
    return Object(None)


def _same(b: Builder, v: Value, other: Value) -> Value:
    listed.same(b, v, other)
    return Object(None)


def _anew(b: Any, v: Value) -> Value:
    assert isinstance(v, View)
    listed.anew(b, v.base)
    return Object(None)


OF_LISTS: tuple[Callable[..., Value], ...] = _new_list, _push, _held, _changes, _same, _anew


def converted(b: Builder, f: Any, args: list[Value]) -> Value:
    given = args[0].value if len(args) == 1 and isinstance(args[0], Object) else None
    if issubclass(f, float) and isinstance(given, str):
        with suppress(ValueError):
            return const(float(given))
    if len(args) != 1 or not isinstance(args[0], Expr | View | Elementwise):
        b.refuse(f"{f.__name__} of this")
    x = args[0]
    if issubclass(f, bool | np.bool_):
        return b.elementwise([x], lambda e: e if b.kind(e) == "bool" else Apply("ne", (b.leaf(e), const(0))))
    if f is np.uintp and isinstance(x, Expr) and b.kind(x) == "int":
        return promised(b, x)
    if issubclass(f, int | np.integer):
        return b.elementwise([x], lambda e: e if b.kind(e) == "int" else b.function("int", [e]))
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


def by_name(b: Builder, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    """NumPy's function of the name, or an array's method."""
    f = getattr(np, name, getattr(np.linalg, name, None))
    return call(b, name, args, named, None) if f is None else function(b, f, args, named, None)


def method(b: Builder, name: str, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    """A method of an array's. What is named as a function of NumPy's is none: `append` of a list would be lost."""
    if not hasattr(np.ndarray, name) and name != "ptp":
        b.refuse(f"{name} is not taken", _REFUSED.get(name, "write it out"))
    if name == "compress" and len(args) == 2:
        args = args[::-1]
    return call(b, "sort_in_place" if name == "sort" else name, args, named, hint)


def call(b: Builder, name: str, args: list[Value], named: dict[str, Value], hint: str | None) -> Value:
    """A function or method by NumPy's name."""
    if complexes.wanted(None, args, named):
        return complexes.function(b, name, args, named)
    if args and isinstance(args[0], Listed) and name != "len":
        apart = name in ("concatenate", "hstack") and len(args) == 1
        args = [listed.joined(b, args[0]) if apart else array_of(b, args[0]), *args[1:]]
        if name in ("concatenate", "hstack", "stack", "vstack") and len(args) == 1 and not named:
            return args[0]
    if name in _NEUTRAL and named.keys() & {"where", "initial"}:
        return functions.of_some(b, name, _NEUTRAL[name], args, named, lambda *given: call(b, *given))
    made: Any = _BY_NAME.get(name)
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


_BY_NAME = (
    arrangements.FUNCTIONS | functions.FUNCTIONS | linear.FUNCTIONS | contract.FUNCTIONS | pieces.FUNCTIONS
)

__all__ = ["by_name", "call", "function", "method", "writes_out"]
