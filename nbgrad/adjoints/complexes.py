"""Complex numbers, while lowering: two real ones side by side, and an array of them two arrays.

Promises the passes that there are none: what they see are real and imaginary parts, so that the gradient of a real result has the
derivatives by these as its parts, which is PyTorch's convention. What is not taken of complex numbers is refused by name.
"""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from nbgrad.adjoints import complex_texts, ops
from nbgrad.adjoints.arrangements import array_of, inlined
from nbgrad.adjoints.build import (
    Builder,
    Elementwise,
    Items,
    Listed,
    Object,
    Value,
    has_complex,
    is_array,
    is_complex,
)
from nbgrad.adjoints.ir import (
    FLOAT_ONE,
    FLOAT_ZERO,
    ONE,
    ZERO,
    Apply,
    Const,
    Expr,
    Load,
    View,
    const,
    is_leaf,
    loads,
)
from nbgrad.adjoints.linear import square

Pair: TypeAlias = tuple[Expr, Expr]
Number: TypeAlias = Expr | Pair

# Of the first argument, or of as many as it says: what is done is done to either part.
_OF_EITHER_PART = """
    copy ravel flatten reshape transpose swapaxes moveaxis roll flip fliplr flipud rot90 squeeze expand_dims broadcast_to atleast_1d take
    concatenate stack hstack vstack column_stack sum mean cumsum diff diag diagonal trace tile repeat tril triu ascontiguousarray delete
    split array_split hsplit vsplit item compress pad gradient trapezoid
"""
_PARTWISE = dict.fromkeys(_OF_EITHER_PART.split(), 1) | {"append": 2, "linspace": 2}
_PRODUCTS = {"dot", "matmul", "outer", "inner", "kron", "tensordot", "convolve", "vdot", "correlate"}
_ASKED = {"any", "all", "count_nonzero"}
_MADE = {"zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"}
_CONVERTED = {"array", "asarray", "asanyarray", "ascontiguousarray", "astype"}
_OF_ELEMENTS = {
    *("abs", "absolute", "angle", "conj", "conjugate", "real", "imag", "negative", "square", "reciprocal"),
    *complex_texts.EACH,
}
_OPTIONS = "axis axes keepdims order mode n shift repeats reps shape num endpoint offset k axis1 axis2 indices_or_sections indices dx x"


def complex_of(re: Value, im: Value) -> Items:
    return Items([re, im], complex)


def wrapped(x: complex) -> Items:
    return complex_of(const(x.real), const(x.imag))


def parts_of(x: Value) -> tuple[Any, Any]:
    assert isinstance(x, Items)
    return x.items[0], x.items[1]


def is_complex_array(x: Value) -> bool:
    return is_complex(x) and is_array(parts_of(x)[0])


# ---------------------------------------------------------------- elements


def _number(b: Builder, x: Value, index: Sequence[Expr]) -> Number:
    """What stands at an index."""
    if not is_complex(x):
        return b.element(x, list(index))
    re, im = parts_of(x)
    if isinstance(re, Elementwise) and re.pair is not None and im.pair is re.pair:
        inner = list(index)[len(index) - len(re.shape) :]
        return re.pair([ZERO if n == ONE else i for n, i in zip(re.shape, inner)])
    return b.element(re, list(index)), b.element(im, list(index))


def of_elements(b: Builder, xs: Sequence[Value], f: Callable[..., Number]) -> Value:
    """`f` of numbers, complex ones as pairs, or of the elements of arrays, broadcast."""
    firsts = [parts_of(x)[0] if is_complex(x) else x for x in xs]
    if not any(map(is_array, firsts)):
        return _given(b, f(*(tuple(x.items) if isinstance(x, Items) else x for x in xs)))
    for x in firsts:
        if not isinstance(x, Expr | View | Elementwise):
            b.refuse("an operation of complex numbers on something else")
    shape = b.together(firsts)
    given = [x.each(b.read_once) if isinstance(x, Items) else b.read_once(x) for x in xs]

    def at(i: list[Expr]) -> Number:
        return f(*(_number(b, x, i) for x in given))

    bases: set[str] = set().union(*(b.bases(i) for x in given for i in (x.items if is_complex(x) else [x])))
    around, b.block = b.block, []
    one = at([ZERO] * len(shape))  # which is thrown away
    dtype = "float64" if isinstance(one, tuple) else b.dtype(one)
    b.block = around
    if not isinstance(one, tuple):
        return Elementwise(shape, at, bases, dtype)  # type: ignore[arg-type]
    sides = [Elementwise(shape, lambda i, k=k: at(i)[k], bases) for k in (0, 1)]  # type: ignore[index,misc]
    for side in sides:
        side.pair = at
    return complex_of(*sides)


def _given(b: Builder, x: Number) -> Value:
    return complex_of(*x) if isinstance(x, tuple) else x


def both(b: Builder, x: Number) -> Pair:
    if isinstance(x, tuple):
        return b.leaf(x[0]), b.leaf(x[1])
    return (const(float(x.value)) if isinstance(x, Const) else b.leaf(x)), FLOAT_ZERO


def coerced(b: Any, x: Value) -> Items:
    """A real number or array as a complex one."""
    if is_complex(x):
        assert isinstance(x, Items)
        return x
    if isinstance(x, Expr):
        re = const(float(x.value)) if isinstance(x, Const) else x
        if b.kind(re) != "float":
            re = Apply("float", (b.leaf(re),))
        return complex_of(re, FLOAT_ZERO)
    a = array_of(b, x)
    return complex_of(a, Elementwise(b.shape(a), lambda i: FLOAT_ZERO, set(), "float64"))


def stored(b: Any, x: Items, hint: str | None = None) -> Items:
    """An array that is computed, in two of its own; both parts of an element at once."""
    re, im = parts_of(x)
    if not isinstance(re, Elementwise) and not isinstance(im, Elementwise):
        return x
    if isinstance(re, Elementwise) and (
        re.pair is None or not isinstance(im, Elementwise) or im.pair is not re.pair
    ):
        return x.each(lambda p: b.stored(p, hint) if isinstance(p, Elementwise) else p)
    wide = {b.dtype(re), b.dtype(im)} != {"float32"}
    dtype = "float64" if wide else "float32"
    made = [b.make(hint, b.shape(re), dtype, zeros=False) for _ in (0, 1)]
    _written(b, made, x, b.shape(made[0]))
    return complex_of(*made)


def _written(b: Any, into: Sequence[View], x: Value, shape: Sequence[Expr]) -> None:
    def put(i: list[Expr]) -> None:
        pair = [b.let(None, e) if not is_leaf(e) else e for e in both(b, _number(b, x, i))]
        for v, e in zip(into, pair):
            b.store(b.load(v, i), e)

    b.nest(shape, put)


def now(b: Any, x: Items) -> Items:
    """As it is before anything else is written."""
    if is_complex_array(x):
        return stored(b, x)
    return x.each(lambda e: b.let(None, e) if loads(e) else e)


# ---------------------------------------------------------------- arithmetic


def _added(b: Builder, op: str) -> Callable[[Number, Number], Number]:
    def of(x: Number, y: Number) -> Number:
        if not isinstance(x, tuple):
            x = (x, FLOAT_ZERO)
        if not isinstance(y, tuple):
            return b.binary(op, x[0], y), x[1]
        if x[1] == FLOAT_ZERO:
            return b.binary(op, x[0], y[0]), y[1] if op == "add" else ops.negated(y[1])
        return b.binary(op, x[0], y[0]), b.binary(op, x[1], y[1])

    return of


def _times(b: Builder, x: Number, y: Number) -> Number:
    if not isinstance(x, tuple):
        x, y = y, x
    if not isinstance(x, tuple):
        return b.binary("mul", x, y)  # type: ignore[arg-type]
    p, q = (b.leaf(e) for e in x)
    if not isinstance(y, tuple):
        y = b.leaf(y)
        return b.binary("mul", p, y), b.binary("mul", q, y)
    u, v = (b.leaf(e) for e in y)
    if p == FLOAT_ZERO or u == FLOAT_ZERO:  # of i times something
        if u != FLOAT_ZERO:
            p, q, u, v = u, v, p, q
        return ops.negated(b.binary("mul", q, v)), b.binary("mul", p, v)
    return (
        b.binary("sub", b.binary("mul", p, u), b.binary("mul", q, v)),
        b.binary("add", b.binary("mul", p, v), b.binary("mul", q, u)),
    )


def _over(b: Builder, x: Number, y: Number) -> Number:
    if not isinstance(y, tuple):
        assert isinstance(x, tuple)
        y = b.leaf(y)
        return b.binary("div", x[0], y), b.binary("div", x[1], y)
    u, v = (b.leaf(e) for e in y)
    size = b.let(None, b.binary("add", b.binary("mul", u, u), b.binary("mul", v, v)))
    above = _times(b, x, (u, ops.negated(v)))
    assert isinstance(above, tuple)
    return b.binary("div", b.leaf(above[0]), size), b.binary("div", b.leaf(above[1]), size)


_PRODUCT_UP_TO = 16  # a power up to this is a product


def _to_the(b: Any, x: Number, y: Number) -> Number:
    n = y.value if isinstance(y, Const) else None
    if isinstance(n, int | float) and float(n).is_integer() and abs(n) <= _PRODUCT_UP_TO:
        found, square, left = None, both(b, x), abs(int(n))
        while left:
            if left % 2:
                found = square if found is None else both(b, _times(b, found, square))
            left //= 2
            if left:
                square = both(b, _times(b, square, square))
        if found is None:
            return FLOAT_ONE, FLOAT_ZERO
        return found if n > 0 else _over(b, FLOAT_ONE, found)
    return _written_out(b, complex_texts.power, *both(b, x), *both(b, y))


def _written_out(b: Any, own: Callable[..., Any], *args: Expr) -> Number:
    found = inlined(b, own, [b.leaf(a) for a in args], {})
    return (found.items[0], found.items[1]) if isinstance(found, Items) else found  # type: ignore[return-value]


def arithmetic(b: Any, op: str, x: Value, y: Value) -> Value:
    of: dict[str, Callable[[Number, Number], Number]] = {
        "add": _added(b, "add"),
        "sub": _added(b, "sub"),
        "mul": lambda p, q: _times(b, p, q),
        "div": lambda p, q: _over(b, p, q),
        "pow": lambda p, q: _to_the(b, p, q),
    }
    if op not in of:
        b.refuse(f"{ops.ARITHMETIC[op]} of complex numbers", "of their parts")
    for v in (x, y):
        if isinstance(v, Items | Object | Listed) and not is_complex(v):
            b.refuse("an operation of complex numbers on something else")
    return of_elements(b, [x, y], of[op])


def compared(b: Any, op: str, x: Value, y: Value) -> Value:
    if op not in ("eq", "ne"):
        b.refuse("complex numbers are compared, which have no order", "abs(z), z.real")

    def one(p: Number, q: Number) -> Expr:
        (a, c), (d, e) = both(b, p), both(b, q)
        return Apply("and" if op == "eq" else "or", (Apply(op, (a, d)), Apply(op, (c, e))))

    return of_elements(b, [x, y], one)


def not_zero(b: Any, x: Value) -> Value:
    return compared(b, "ne", x, ZERO)


def negated(b: Any, x: Value) -> Value:
    return of_elements(b, [x], lambda p: (ops.negated(p[0]), ops.negated(p[1])))


def _conjugate(b: Any, x: Value) -> Value:
    return of_elements(b, [x], lambda p: (p[0], ops.negated(p[1])) if isinstance(p, tuple) else p)


# ---------------------------------------------------------------- functions


def wanted(f: Any, args: Sequence[Value], named: dict[str, Value]) -> bool:
    """Is a function called of complex numbers, or for them?"""
    if _makes(f) or _of_cmath(f):
        return True
    given = [*args, *named.values()]
    return any(map(has_complex, given)) or any(isinstance(x, Object) and _is_dtype(x.value) for x in given)


def _makes(f: Any) -> bool:
    return f is complex or (isinstance(f, type) and issubclass(f, np.complexfloating))


def _of_cmath(f: Any) -> bool:
    return f is not None and getattr(cmath, getattr(f, "__name__", ""), None) is f


def _is_dtype(x: Any) -> bool:
    if isinstance(x, str):
        return x in ("complex", "complex64", "complex128")  # and no order, of which "F" is one
    return _makes(x) or (isinstance(x, np.dtype) and x.kind == "c")


def _of_parts(b: Any, given: Value | None) -> str:
    """The dtype of the parts of an array of complex numbers."""
    if given is None:
        return "float64"
    assert isinstance(given, Object)
    return "float32" if np.dtype(given.value) == np.complex64 else "float64"


def function(b: Any, name: str, args: list[Any], named: dict[str, Value], f: Any = None) -> Any:
    """A function or method by its name, of which an argument is complex."""
    if _makes(f):
        return _converted(b, args, named)
    of_cmath = _of_cmath(f)
    if f is not None and getattr(math, name, None) is f:
        instead = f"cmath.{name}" if hasattr(cmath, name) else "of their parts"
        b.refuse(f"math.{name} of complex numbers", instead)
    if "out" in named or "where" in named:
        b.refuse(f"{name} of complex numbers with {', '.join(named)}", "without")
    form = _FORMS.get((name, len(args)))
    if of_cmath:
        form = _OF_CMATH.get((name, len(args)), form)
        args = [coerced(b, x) if name != "rect" else x for x in args]
    if name in _ASKED:
        return b.by_name(name, [not_zero(b, array(b, args[0])), *args[1:]], named)
    if name in ("var", "std"):
        return _spread(b, name, args, named)
    if form is not None and not named:
        if name in _OF_ELEMENTS and isinstance(args[0], Items | Listed) and not is_complex(args[0]):
            args = [array(b, args[0])]
        return form(b, *args)
    if name in _MADE:
        return _made(b, name, args, named)
    if name in ("eye", "identity"):
        given = [x for x in args if not (isinstance(x, Object) and _is_dtype(x.value))]
        real = b.by_name(name, given, {k: x for k, x in named.items() if k != "dtype"})
        return complex_of(real, b.by_name("zeros_like", [real], {}))
    if name in _CONVERTED and (name not in _PARTWISE or len(args) + len(named) > 1):
        return _array(b, name, args, named)
    listed = bool(args) and isinstance(args[0], Items | Listed) and not is_complex(args[0])
    if f is sum and listed:
        return _sum_of_items(b, args, named)
    if name in _PRODUCTS and len(args) >= 2 and not any(map(has_complex, [*args[2:], *named.values()])):
        return _product(b, name, args[:2], args[2:], named)
    if name == "einsum" and not named and not has_complex(args[0]):
        return _product(b, name, args[1:], [], {}, args[:1])
    if f in (tuple, list) and listed and isinstance(args[0], Items):
        return Items([*args[0].items], f)
    if name in _PARTWISE:
        return _partwise(b, name, args, named)
    b.refuse(f"{name} of complex numbers", "of their real and imaginary parts")


def _converted(b: Any, args: list[Value], named: dict[str, Value]) -> Value:
    if named or not 1 <= len(args) <= 2:
        b.refuse("complex of such arguments")
    first = (
        coerced(b, args[0])
        if isinstance(args[0], Expr) or is_complex(args[0])
        else coerced(b, array_of(b, args[0]))
    )
    if len(args) == 1:
        return first
    if not isinstance(args[0], Expr) or not isinstance(args[1], Expr):
        b.refuse("complex of two numbers that are not real", "add them")
    return complex_of(parts_of(first)[0], parts_of(coerced(b, args[1]))[0])


def array(b: Any, x: Value) -> Items:
    """An array of complex numbers, of what is listed, too."""
    if is_complex(x):
        assert isinstance(x, Items)
        return x
    if isinstance(x, Listed):
        return listed_array(b, x)
    return complex_of(*(b.by_name("array", [_side(b, x, k)], {}) for k in (0, 1)))


def listed_array(b: Any, x: Listed) -> Items:
    """Of a list that grows."""
    rooms = x.rooms
    if (
        not isinstance(rooms, Items)
        or not is_complex(rooms)
        or not all(hasattr(r, "room") for r in rooms.items)
    ):
        b.refuse("an array of a list of such items", "a list for each part")
    made = [b.make(None, [x.count], "float64", zeros=False) for _ in (0, 1)]
    for v, r in zip(made, rooms.items):
        room = r.room
        b.nest(
            [x.count],
            lambda i, v=v, room=room: b.store(b.load(v, i), b.load(room, [b.whole("add", x.low, i[0])])),
        )
    return complex_of(*made)


def _side(b: Any, x: Value, k: int) -> Value:
    """The real or the imaginary parts of what is listed."""
    if is_complex(x):
        return parts_of(x)[k]
    if isinstance(x, Items):
        return x.each(lambda i: _side(b, i, k))
    return parts_of(coerced(b, x))[k]


def _made(b: Any, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    like = name.endswith("_like")
    takes = ["a"] * like + ["shape"] * (not like) + ["fill_value"] * name.startswith("full") + ["dtype"]
    given = dict(zip(takes, args)) | named
    if given.keys() - {*takes} or len(args) > len(takes):
        b.refuse(f"{name} of complex numbers with such arguments")
    of, value = given.get(takes[0]), given.get("fill_value")
    if isinstance(of, Items) and is_complex(of):
        if "dtype" in given and not _is_dtype(
            given["dtype"].value if isinstance(given["dtype"], Object) else None
        ):
            return b.by_name(name, [parts_of(of)[0]], {k: v for k, v in given.items() if k != takes[0]})
        dtype = b.dtype(parts_of(of)[0])
        of = parts_of(of)[0]
    else:
        dtype = _of_parts(b, given.get("dtype"))
    assert of is not None
    plain = Object(np.dtype(dtype))
    if name.startswith("full"):
        if "dtype" in given and not _is_dtype(plain_of := getattr(given["dtype"], "value", None)):
            b.refuse(f"{name} of a complex number with the dtype {plain_of}")
        sides = parts_of(coerced(b, value)) if value is not None else ()
        sides = tuple([b.read_once(s) for s in sides])
        return complex_of(*(b.by_name(name, [of, s], {"dtype": plain}) for s in sides))
    left = b.by_name(name, [of], {"dtype": plain})
    right = b.by_name({"ones": "zeros", "ones_like": "zeros_like"}.get(name, name), [of], {"dtype": plain})
    return complex_of(left, right)


def _array(b: Any, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    given: dict[str, Any] = dict(zip(("object", "dtype"), args)) | named
    x, dtype = given.pop("object", given.pop("a", None)), given.pop("dtype", None)
    if given or x is None:
        b.refuse(f"{name} of complex numbers with {', '.join(given)}")
    if dtype is not None and not (isinstance(dtype, Object) and _is_dtype(dtype.value)):
        b.refuse("complex numbers as real ones", "z.real")
    found = array(b, x)
    if not has_complex(x) and not is_complex(x):
        found = coerced(b, array_of(b, x))
    if not is_complex_array(found):
        return found
    if name in ("array", "astype") or dtype is not None:
        of = Object(np.dtype(_of_parts(b, dtype) if dtype is not None else b.dtype(parts_of(found)[0])))
        return complex_of(*(b.by_name("astype", [p, of], {}) for p in parts_of(stored(b, found))))
    return found


def _where(b: Any, test: Value, *of: Value) -> Value:
    if has_complex(test):
        b.refuse("where of complex numbers", "of their real and imaginary parts")

    def one(c: Expr, p: Number, q: Number) -> Number:
        if isinstance(c, Const):
            return both(b, p if c.value else q)
        test, (x, y), (u, v) = b.leaf(c), both(b, p), both(b, q)
        return Apply("where", (test, x, u)), Apply("where", (test, y, v))

    return of_elements(b, [test, *of], one)


def _sum_of_items(b: Any, args: list[Value], named: dict[str, Value]) -> Value:
    total = args[1] if len(args) > 1 else named.get("start", ZERO)
    if isinstance(args[0], Listed):
        return arithmetic(b, "add", total, _partwise(b, "sum", [listed_array(b, args[0])], {}))
    assert isinstance(args[0], Items)
    for x in args[0].items:
        total = arithmetic(b, "add", total, x)
    return total


def _inverse(b: Any, matrix: Value, side: Value | None = None) -> Value:
    """By the real matrix of twice as many rows that does the same; times `side`, if there is one."""
    name = "inv" if side is None else "solve"
    re, im = parts_of(stored(b, array(b, coerced(b, matrix))))
    if len(b.shape(re)) != 2:
        b.refuse(f"{name} of complex arrays of such dimensions", "one matrix")
    minus = b.elementwise([im], ops.negated)
    wide = [b.by_name("hstack", [Items(list(row))], {}) for row in ((re, minus), (im, re))]
    whole = b.by_name("vstack", [Items(wide)], {})
    if side is not None:
        sides = parts_of(stored(b, array(b, coerced(b, side))))
        found = b.by_name("solve", [whole, b.by_name("concatenate", [Items(list(sides))], {})], {})
        return complex_of(*b.by_name("split", [found, const(2)], {}).items)
    halves = b.by_name("split", [b.by_name("inv", [whole], {}), const(2)], {}).items
    return complex_of(*(b.by_name("split", [h, const(2), ONE], {}).items[0] for h in halves))


def _product(
    b: Any,
    name: str,
    args: list[Value],
    more: list[Value],
    named: dict[str, Value],
    before: Sequence[Value] = (),
) -> Value:
    """What is linear in each of its operands."""
    if name in ("vdot", "correlate"):
        at = 0 if name == "vdot" else 1
        args = [_conjugate(b, x) if k == at else x for k, x in enumerate(args)]
    given = []
    for x in args:
        x = array(b, x) if has_complex(x) else x
        given.append(_side_by_side(b, x) if isinstance(x, Items) and is_complex(x) else (x,))
    sides: list[Any] = [None, None]
    for which in itertools.product(*(range(len(x)) for x in given)):
        found = b.by_name(name, [*before, *(x[k] for x, k in zip(given, which)), *more], named)
        side, minus = sum(which) % 2, sum(which) % 4 > 1
        total = sides[side]
        if total is None:
            sides[side] = b.elementwise([found], ops.negated) if minus else found
        else:
            op = "sub" if minus else "add"
            sides[side] = b.elementwise([total, found], lambda p, q, op=op: b.binary(op, p, q))
    return complex_of(*(b.stored(s) if isinstance(s, Elementwise) else s for s in sides))


def _side_by_side(b: Any, x: Items) -> tuple[Any, Any]:
    """The parts, as BLAS takes them: those of an argument lie between each other."""
    re, im = parts_of(stored(b, x))
    given = isinstance(re, View) and b.array(re.base).extents is None
    return (b.stored(re), b.stored(im)) if given else (re, im)


def _partwise(b: Any, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    many = _PARTWISE[name]
    data: list[Any] = [listed_array(b, x) if isinstance(x, Listed) else x for x in args[:many]]
    if (
        name in ("sum", "mean", "cumsum", "diff", "reshape", "repeat", "take")
        and isinstance(data[0], Items)
        and not is_complex(data[0])
    ):
        data[0] = array(b, data[0])
    if named.keys() - {*_OPTIONS.split()}:
        b.refuse(f"{name} of complex numbers with {', '.join(named)}", "without")
    if any(map(has_complex, [*args[many:], *named.values()])):
        b.refuse(f"{name} with a complex number there", "by its parts")
    data = [stored(b, x) if isinstance(x, Items) and is_complex_array(x) else _all_stored(b, x) for x in data]
    left, right = (b.by_name(name, [*(_side(b, x, k) for x in data), *args[many:]], named) for k in (0, 1))
    if isinstance(left, Items) and isinstance(right, Items):  # several pieces
        return Items([complex_of(p, q) for p, q in zip(left.items, right.items)], left.of)
    return complex_of(left, right)


def _all_stored(b: Any, x: Value) -> Value:
    if isinstance(x, Items) and is_complex_array(x):
        return stored(b, x)
    return x.each(lambda i: _all_stored(b, i)) if isinstance(x, Items) and not is_complex(x) else x


def _each(own: Callable[..., Any]) -> Callable[[Any, Value], Value]:
    """A function of one number whose text is ours."""
    return lambda b, x: of_elements(b, [x], lambda p: _written_out(b, own, *both(b, p)))


def _by(of: Callable[..., Value], sign: str) -> Callable[..., Value]:
    return lambda b, x, y: of(b, sign, x, y)


def _tested(name: str) -> Callable[[Any, Value], Value]:
    link = "and" if name == "isfinite" else "or"

    def test(b: Any, x: Value) -> Value:
        return of_elements(b, [x], lambda p: Apply(link, tuple([b.function(name, [e]) for e in both(b, p)])))

    return test


def _part(name: str, k: int) -> Callable[[Any, Any], Any]:
    return lambda b, x: parts_of(x)[k] if is_complex(x) else b.by_name(name, [x], {})


def _of_shape(name: str) -> Callable[[Any, Any], Any]:
    def form(b: Any, x: Any) -> Any:
        if is_complex(x):
            return b.by_name(name, [parts_of(x)[0]], {})
        if name == "len":
            return x.count if isinstance(x, Listed) else const(len(x.items))
        return b.by_name(name, [array(b, x)], {})

    return form


def _in_a_row(b: Any, x: Value) -> list[Value]:
    return [b.by_name("ravel", [p], {}) for p in parts_of(stored(b, array(b, x)))]


def _det(b: Any, x: Value) -> Value:
    parts = parts_of(stored(b, array(b, x)))
    square(b, parts[0])
    return _by_text(b, complex_texts.det, parts)


def _multiplied(text: Callable[..., Any]) -> Callable[[Any, Value], Value]:
    return lambda b, x: _by_text(b, text, _in_a_row(b, x))


def _by_text(b: Any, text: Callable[..., Any], parts: Sequence[Value]) -> Value:
    found = inlined(b, text, [*parts], {})
    assert isinstance(found, Items)
    return complex_of(*found.items)


def _spread(b: Any, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    """The sum of that of either part."""
    sides = [b.by_name("var", [p, *args[1:]], named) for p in parts_of(stored(b, array(b, args[0])))]
    found = b.elementwise(sides, lambda p, q: b.binary("add", p, q))
    return b.by_name("sqrt", [found], {}) if name == "std" else found


def _norm(b: Any, x: Value) -> Value:
    found: Value = b.by_name("norm", [b.by_name("concatenate", [Items(_in_a_row(b, x))], {})], {})
    return found


_SIGNS = dict(
    add="add", subtract="sub", multiply="mul", divide="div", true_divide="div", power="pow", pow="pow"
)
_TESTS = dict(equal="eq", not_equal="ne")
_absolute, _angle = _each(complex_texts.absolute), _each(complex_texts.angle)
# By name and how many arguments there are, where none is named.
_FORMS: dict[tuple[str, int], Callable[..., Any]] = {
    **{(name, 1): _of_shape(name) for name in ("len", "shape", "size", "ndim")},
    **{(name, 1): _each(own) for name, own in complex_texts.EACH.items()},
    **{(name, 1): _tested(name) for name in ("isnan", "isinf", "isfinite")},
    **{(name, 2): _by(arithmetic, sign) for name, sign in _SIGNS.items()},
    **{(name, 2): _by(compared, sign) for name, sign in _TESTS.items()},
    ("abs", 1): _absolute,
    ("absolute", 1): _absolute,
    ("angle", 1): _angle,
    ("bool", 1): lambda b, x: b.refuse("bool of an array", "any") if is_complex_array(x) else not_zero(b, x),
    ("real", 1): _part("real", 0),
    ("imag", 1): _part("imag", 1),
    ("conj", 1): _conjugate,
    ("conjugate", 1): _conjugate,
    ("negative", 1): negated,
    ("positive", 1): lambda b, x: x,
    ("square", 1): lambda b, x: arithmetic(b, "pow", x, const(2)),
    ("reciprocal", 1): lambda b, x: arithmetic(b, "div", FLOAT_ONE, x),
    ("where", 3): _where,
    ("prod", 1): _multiplied(complex_texts.prod),
    ("cumprod", 1): _multiplied(complex_texts.cumprod),
    ("norm", 1): _norm,
    ("inv", 1): _inverse,
    ("det", 1): _det,
    ("solve", 2): _inverse,
}
_OF_CMATH: dict[tuple[str, int], Callable[..., Any]] = {
    ("log", 2): lambda b, x, base: arithmetic(b, "div", _FORMS["log", 1](b, x), _FORMS["log", 1](b, base)),
    ("phase", 1): _angle,
    ("polar", 1): lambda b, x: Items([_absolute(b, x), _angle(b, x)]),
    ("rect", 2): lambda b, r, phi: of_elements(
        b, [r, phi], lambda r, phi: _written_out(b, complex_texts.rect, r, phi)
    ),
}


# ---------------------------------------------------------------- statements


def attribute(b: Any, x: Items, name: str) -> Value | None:
    """z.real and what arrays have; None of what it has not."""
    re, im = parts_of(x)
    if name in ("real", "imag"):
        return re if name == "real" else im
    if not is_array(re):
        return None
    if name == "T":
        return _partwise(b, "transpose", [x], {})
    if name == "dtype":
        return Object(
            np.dtype("complex64" if {b.dtype(p) for p in (re, im)} == {"float32"} else "complex128")
        )
    return None


def assign(b: Any, into: Items, x: Value) -> None:
    """Elements or parts of an array are written."""
    if not is_complex(x) and not isinstance(x, Expr | View | Elementwise):
        b.refuse("something that is neither a number nor an array is written to an array")
    parts = parts_of(into)
    if isinstance(parts[0], Load):
        if is_complex_array(x) or is_array(x):
            b.refuse("an array is written where one number stands")
        pair = [b.let(None, e) if not is_leaf(e) else e for e in coerced(b, x).items]
        for at, e in zip(parts, pair):
            b.store(at, e)
        return
    if isinstance(parts[0], Elementwise):  # at an array of indices
        x = coerced(b, x)
        if is_complex_array(x):
            x = stored(b, x)
            x = x.each(lambda p: b.stored(p) if b.bases(p) & (b.bases(parts[0]) | b.bases(parts[1])) else p)
        else:
            x = now(b, x)
        for at, part in zip(parts, x.items):
            b.scatter(at, part)
        return
    views = [p for p in parts if isinstance(p, View)]
    if len(views) < 2:
        b.refuse("what is written to is no array")
    read = set().union(*(b.bases(p) for p in (x.items if isinstance(x, Items) else [x])))
    if read & {v.base for v in views}:
        x = complex_of(*(b.stored(p) for p in parts_of(stored(b, coerced(b, x)))))
    shape = b.shape(views[0])
    first = parts_of(x)[0] if is_complex(x) else x
    if not isinstance(first, Expr):
        if len(b.shape(first)) > len(shape):
            b.refuse("an array of more dimensions is written to one of fewer")
        b.fits(shape, b.shape(first))
    given = x.each(b.read_once) if isinstance(x, Items) else b.read_once(x)
    _written(b, views, given, shape)


def change(b: Any, into: Items, op: str, x: Value) -> None:
    """into op= x"""
    if op in ("add", "sub") and isinstance(parts_of(into)[0], Load):
        for at, e in zip(into.items, now(b, coerced(b, x)).items):
            if e != FLOAT_ZERO:
                b.change(at, op, e)
        return
    assign(b, into, now(b, arithmetic(b, op, into, x)))  # type: ignore[arg-type]


def at_index(b: Any, x: Items, e: Any, env: Any) -> Items:
    """z[...]"""
    re, im = parts_of(stored(b, x))
    if not isinstance(re, View) or not isinstance(im, View):
        b.refuse("a complex number is indexed", node=e)
    parts = b.parts(re, e, env)
    return complex_of(*(b.taken(v, [*parts], e, env) for v in (re, im)))


def rows(b: Any, x: Items) -> tuple[Expr, Callable[[Expr], Value]]:
    """How many rows an array has, and each."""
    sides = parts_of(stored(b, x))
    if not isinstance(sides[0], View):
        b.refuse("a loop over a complex number")
    return b.shape(sides[0])[0], lambda i: complex_of(*(b.item(v, i, True) for v in sides))


__all__ = [
    "arithmetic",
    "array",
    "assign",
    "at_index",
    "attribute",
    "change",
    "coerced",
    "compared",
    "complex_of",
    "function",
    "is_complex_array",
    "negated",
    "not_zero",
    "now",
    "parts_of",
    "rows",
    "stored",
    "wanted",
    "wrapped",
]
