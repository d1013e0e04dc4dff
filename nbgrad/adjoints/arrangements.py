"""Functions that put the elements of arrays elsewhere: other shapes, pieces side by side, orders, masks.

What NumPy gives as the same memory in another shape is a copy here that `Copies` watches over.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbgrad.adjoints import library, ops
from nbgrad.adjoints.build import (
    Builder,
    Elementwise,
    Items,
    Listed,
    Object,
    Value,
    has_complex,
    is_array,
    is_none,
)
from nbgrad.adjoints.ir import ONE, ZERO, Apply, At, Const, Expr, Refused, Span, View, const, kind_of


def inlined(b: Any, own: Callable[..., Any], args: list[Value], named: dict[str, Value]) -> Value:
    """A function of the library's, written out; what it does not take is told of the user's line."""
    file, node = b.file, b.node
    try:
        inspect.signature(own).bind(*args, **named)
    except TypeError as error:
        b.refuse(f"the arguments of {own.__name__}: {error}", "write a loop")
    try:
        found: Value = b.inline(own, args, named)
    except Refused as error:
        if b.file != file:
            b.file = file
            why = str(error).partition(": ")[2]
            b.refuse(f"{own.__name__} is not taken of such arguments: {why}", node=node)
        raise
    return found


def numbers(b: Builder, xs: Sequence[Any]) -> list[Expr]:
    for x in xs:
        if not isinstance(x, Expr):
            b.refuse("a number is needed here")
    return list(xs)


def truth(b: Builder, e: Expr) -> Expr:
    return e if b.kind(e) == "bool" else Apply("ne", (b.leaf(e), const(0)))


def array_of(b: Builder, x: Value) -> View | Elementwise:
    if has_complex(x):
        b.refuse("complex numbers where only real ones are taken", "of their real and imaginary parts")
    if isinstance(x, Items) and is_listed(x):
        x = on_array(b, None, x)
    if isinstance(x, Listed):
        return b.array_of_list(x)
    if not isinstance(x, View | Elementwise):
        b.refuse("an array is needed here")
    return x


def is_listed(x: Items) -> bool:
    """Are they numbers or arrays, or lists of them, that make an array?"""
    return bool(x.items) and all(
        is_listed(i) if isinstance(i, Items) else isinstance(i, Expr | View | Elementwise) for i in x.items
    )


def lengths(b: Builder, x: Value) -> list[Expr]:
    return numbers(b, x.items if isinstance(x, Items) else [x])


def product_of(b: Builder, shape: Sequence[Expr]) -> Expr:
    n: Expr = ONE
    for length in shape:
        n = b.binary("mul", n, length)
    return n


def axis_of(b: Builder, axis: Value, rank: int) -> int:
    if isinstance(axis, Items):
        b.refuse("several axes at once", "one after another")
    if not isinstance(axis, Const) or not -rank <= axis.value < rank:
        b.refuse("an axis that is no constant, or not there")
    return axis.value % rank


def each(
    b: Builder,
    hint: str | None,
    own: Callable[..., Any],
    args: Sequence[Value],
    whole: Sequence[Value] = (),
    named: dict[str, Value] | None = None,
    before: Sequence[Value] = (),
) -> Value:
    """A function of numbers, of each element; of `whole`, and what stands before and by name, it gets all."""
    if all(isinstance(a, Expr) for a in args):
        return inlined(b, own, [*before, *args, *whole], named or {})
    shape = b.together([array_of(b, a) if not isinstance(a, Expr) else a for a in args])
    given = [b.read_once(a if isinstance(a, Expr) else array_of(b, a)) for a in args]

    def at(i: list[Expr]) -> Expr:
        here = [b.leaf(b.element(a, i)) for a in given]
        (e,) = numbers(b, [inlined(b, own, [*before, *here, *whole], named or {})])
        return e

    around, b.block = b.block, []
    dtype = b.dtype(at([ZERO] * len(shape)))  # one, which is thrown away
    b.block = around
    v = b.make(hint, shape, dtype, zeros=False)
    b.nest(b.shape(v), lambda i: b.store(b.load(v, i), at(i)))
    return v


def written_to(b: Builder, out: Value, x: Value) -> Value:
    """What a function of NumPy's gives, written to the array that it is asked to write to."""
    if isinstance(out, Items) and len(out.items) == 1:
        out = out.items[0]
    if is_none(out):
        return x
    if not isinstance(out, View) or not isinstance(x, Expr | View | Elementwise):
        b.refuse("out that is no array")
    if ops.join(kind_of(b.dtype(out)), kind_of(b.dtype(x))) != kind_of(b.dtype(out)):
        b.refuse(f"a result of {b.dtype(x)} is written to an array of {b.dtype(out)}", "without out")
    b.assign(out, x)
    return out


# ---------------------------------------------------------------- copies, and arrays of what is listed


def dtype_of(b: Builder, given: Value | None, default: str) -> str:
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


def on_copy(b: Any, hint: str | None, a: Value) -> Value:
    made: View = b.stored(array_of(b, a), hint)
    b.parted(made.base)
    return made


def on_array(b: Builder, hint: str | None, object: Value, dtype: Value | None = None) -> Value:
    """np.array of a tuple or list of numbers, or of rows of them; or of an array, which is a copy."""
    x = array_of(b, object) if isinstance(object, Listed) or has_complex(object) else object
    if isinstance(x, Expr):  # an array without dimensions is a number
        as_float = dtype is not None and kind_of(dtype_of(b, dtype, "")) == "float" and b.kind(x) != "float"
        return b.let(hint, Apply("float", (b.leaf(x),)) if as_float else x)
    if is_array(x):
        made = on_copy(b, hint, x)
        of = dtype_of(b, dtype, b.dtype(made))
        if of != b.dtype(made):
            if kind_of(b.dtype(made)) == "float" and kind_of(of) != "float":
                b.refuse(f"np.array of floats with the dtype {of}", ".astype(...)")
            wide = b.make(hint, b.shape(made), of, zeros=False)
            b.assign(wide, made)
            return wide
        return made
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
    v = b.make(hint, shape, dtype_of(b, dtype, default), zeros=False)
    for k, e in enumerate(flat):
        at: list[Expr] = [const(k)] if width < 0 else [const(k // width), const(k % width)]
        b.store(b.load(v, at), e)
    return v


# ---------------------------------------------------------------- shapes


def on_reshape(b: Builder, hint: str | None, a: Value, *shape: Value, order: Value | None = None) -> Value:
    x = array_of(b, a)
    if isinstance(order, Object) and order.value == "F":
        wide = lengths(b, shape[0] if len(shape) == 1 else Items(list(shape)))
        made = _reshaped(b, hint, _backwards(b, x), wide[::-1])
        return View(made.base, made.axes, made.order[::-1])
    return _seen(b, x, _reshaped(b, hint, x, lengths(b, shape[0] if len(shape) == 1 else Items(list(shape)))))


def _backwards(b: Builder, x: View | Elementwise) -> Elementwise:
    return Elementwise(b.shape(x)[::-1], lambda i: b.element(x, i[::-1]), b.bases(x), b.dtype(x))


def on_ravel(b: Builder, hint: str | None, a: Value, order: Value | None = None) -> Value:
    x = array_of(b, a)
    if isinstance(order, Object) and order.value == "F":
        return on_flatten(b, hint, _backwards(b, x))
    return _seen(b, x, on_flatten(b, hint, x))


def on_flatten(b: Builder, hint: str | None, a: Value, order: Value | None = None) -> View:
    if isinstance(order, Object) and order.value == "F":
        a = _backwards(b, array_of(b, a))
    return _reshaped(b, hint, array_of(b, a), [const(-1)])


def _seen(b: Any, x: View | Elementwise, made: View) -> View:
    """Both are one array to who wrote the program."""
    if isinstance(x, View):
        b.shared(made.base, x.base)
    return made


def _reshaped(b: Builder, hint: str | None, x: View | Elementwise, shape: list[Expr]) -> View:
    old = b.shape(x)
    n = b.counted(product_of(b, old))
    free = [k for k, e in enumerate(shape) if isinstance(e, Const) and e.value == -1]
    if len(free) > 1:
        b.refuse("a shape with more than one -1")
    if free:
        rest = product_of(b, [e for k, e in enumerate(shape) if k not in free])
        shape[free[0]] = n if rest == ONE else b.binary("floor_divide", n, rest)
    made = b.make(hint, shape, b.dtype(x), zeros=False)
    new = b.shape(made)
    total = b.counted(product_of(b, new))
    if not (isinstance(n, Const) and isinstance(total, Const) and n.value == total.value) and n != total:
        b.require(Apply("eq", (n, total)), "an array is given a shape of another size")
    if len(new) == 1:
        b.nest(old, lambda i: b.store(b.load(made, [flat_index(b, i, old)]), b.element(x, i)))
    elif len(old) == 1:
        b.nest(new, lambda i: b.store(b.load(made, i), b.element(x, [flat_index(b, i, new)])))
    else:
        b.nest(
            new, lambda i: b.store(b.load(made, i), b.element(x, taken_apart(b, flat_index(b, i, new), old)))
        )
    return made


def flat_index(b: Builder, index: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    at: Expr = ZERO
    for i, n in zip(index, shape):
        at = b.whole("add", b.whole("mul", at, n) if at != ZERO else ZERO, i)
    return at


def taken_apart(b: Builder, at: Expr, shape: Sequence[Expr]) -> list[Expr]:
    index: list[Expr] = []
    at = b.let("k", at)
    for n in reversed(shape[1:]):
        index.append(b.let("k", Apply("remainder", (at, n))))
        at = b.let("k", Apply("floor_divide", (at, n)))
    return [at, *reversed(index)]


# ---------------------------------------------------------------- pieces side by side


def _pieces(b: Builder, arrays: Value, numbers_as: bool = False) -> list[View | Elementwise]:
    if not isinstance(arrays, Items) or not arrays.items:
        b.refuse("arrays that are not given as a tuple or a list of them")
    return [_laid_flat(b, x) if numbers_as and isinstance(x, Expr) else array_of(b, x) for x in arrays.items]


def _joined(b: Builder, xs: Sequence[Value]) -> str:
    dtypes = {b.dtype(x) for x in xs}
    if len(dtypes) == 1:
        return dtypes.pop()
    return {"float": "float64", "int": "int64", "bool": "bool"}[ops.join(*map(kind_of, dtypes))]


def on_concatenate(b: Builder, hint: str | None, arrays: Value, axis: Value = ZERO) -> Value:
    xs = _pieces(b, arrays)
    at = axis_of(b, axis, len(b.shape(xs[0])))
    total: Expr = ZERO
    starts = []
    for x in xs:
        if len(b.shape(x)) != len(b.shape(xs[0])):
            b.refuse("arrays of different dimensions side by side")
        starts.append(total)
        total = b.counted(b.whole("add", total, b.shape(x)[at]))
    shape = b.shape(xs[0])
    v = b.make(hint, [*shape[:at], total, *shape[at + 1 :]], _joined(b, xs), zeros=False)
    for x, start in zip(xs, starts):
        place = Span(start, b.shape(x)[at])
        b.assign(View(v.base, (*v.axes[:at], place, *v.axes[at + 1 :]), v.order), x)
    return v


def on_hstack(b: Builder, hint: str | None, arrays: Value) -> Value:
    xs = _pieces(b, arrays, numbers_as=True)
    return on_concatenate(b, hint, Items(xs), const(min(len(b.shape(xs[0])) - 1, 1)))


def on_vstack(b: Builder, hint: str | None, arrays: Value) -> Value:
    xs = _pieces(b, arrays)
    if {len(b.shape(x)) for x in xs} == {1, 2}:
        xs = [array_of(b, on_expand_dims(b, None, x, ZERO)) if len(b.shape(x)) == 1 else x for x in xs]
    vectors = len(b.shape(xs[0])) == 1
    return on_stack(b, hint, Items(xs)) if vectors else on_concatenate(b, hint, Items(xs))


def on_column_stack(b: Builder, hint: str | None, arrays: Value) -> Value:
    xs = _pieces(b, arrays)
    if all(len(b.shape(x)) == 1 for x in xs):
        return on_stack(b, hint, Items(xs), ONE)
    xs = [array_of(b, on_expand_dims(b, None, x, ONE)) if len(b.shape(x)) == 1 else x for x in xs]
    return on_concatenate(b, hint, Items(xs), ONE)


def on_stack(b: Builder, hint: str | None, arrays: Value, axis: Value = ZERO) -> Value:
    xs = _pieces(b, arrays)
    shape = b.shape(xs[0])
    at = axis_of(b, axis, len(shape) + 1)
    v = b.make(hint, [*shape[:at], const(len(xs)), *shape[at:]], _joined(b, xs), zeros=False)
    order = tuple(o for o in v.order if o != at)
    for k, x in enumerate(xs):
        b.assign(View(v.base, (*v.axes[:at], At(const(k)), *v.axes[at + 1 :]), order), x)
    return v


def on_repeat(b: Builder, hint: str | None, a: Value, repeats: Value, axis: Value | None = None) -> Value:
    x = array_of(b, a)
    (times,) = numbers(b, [repeats])
    if len(b.shape(x)) != 1 and axis is None:
        x = on_flatten(b, None, x)
    at = 0 if axis is None else axis_of(b, axis, len(b.shape(x)))
    times = b.counted(times)
    long = b.shape(x)
    wide = [*long[:at], b.binary("mul", long[at], times), *long[at + 1 :]]
    v = b.make(hint, wide, b.dtype(x), zeros=False)
    shape = [*long[: at + 1], times, *long[at + 1 :]]

    def put(i: list[Expr]) -> None:
        place = flat_index(b, i[at : at + 2], shape[at : at + 2])
        b.store(b.load(v, [*i[:at], place, *i[at + 2 :]]), b.element(x, [*i[: at + 1], *i[at + 2 :]]))

    b.nest(shape, put)
    return v


def on_tile(b: Builder, hint: str | None, A: Value, reps: Value) -> Value:
    x, times = array_of(b, A), [b.counted(n) for n in lengths(b, reps)]
    shape = [*b.shape(x)]
    rank = max(len(shape), len(times))
    times, wide = [ONE] * (rank - len(times)) + times, [ONE] * (rank - len(shape)) + shape
    v = b.make(hint, [b.binary("mul", t, n) for t, n in zip(times, wide)], b.dtype(x), zeros=False)

    def put(i: list[Expr]) -> None:
        at = [
            flat_index(b, pair, pair_of) for pair, pair_of in zip(zip(i[:rank], i[rank:]), zip(times, wide))
        ]
        b.store(b.load(v, at), b.element(x, i[2 * rank - len(shape) :]))

    b.nest([*times, *wide], put)
    return v


def on_append(b: Builder, hint: str | None, arr: Value, values: Value, axis: Value | None = None) -> Value:
    """Both laid flat, where no axis is given."""
    if axis is not None:
        return on_concatenate(b, hint, Items([arr, values]), axis)
    return on_concatenate(b, hint, Items([_laid_flat(b, arr), _laid_flat(b, values)]))


def _laid_flat(b: Builder, x: Value) -> View | Elementwise:
    if isinstance(x, Expr):
        return Elementwise([ONE], lambda i: x, set(), b.dtype(x))
    v = array_of(b, x)
    return v if len(b.shape(v)) == 1 else on_flatten(b, None, v)


def on_expand_dims(b: Builder, hint: str | None, a: Value, axis: Value) -> Value:
    x = array_of(b, a)
    at = axis_of(b, axis, len(b.shape(x)) + 1)
    shape = [*b.shape(x)[:at], ONE, *b.shape(x)[at:]]
    of = x.base if isinstance(x, View) else x.of
    return Elementwise(shape, lambda i: b.element(x, [*i[:at], *i[at + 1 :]]), b.bases(x), b.dtype(x), of)


def on_flip(b: Builder, hint: str | None, m: Value, axis: Value | None = None) -> Value:
    rank = len(b.shape(array_of(b, m)))
    return _turned(b, m, range(rank) if axis is None else [axis_of(b, axis, rank)])


def on_flipud(b: Builder, hint: str | None, m: Value) -> Value:
    return _turned(b, m, [0])


def on_fliplr(b: Builder, hint: str | None, m: Value) -> Value:
    return _turned(b, m, [1])


def _turned(b: Builder, m: Value, axes: Sequence[int]) -> Value:
    x = array_of(b, m)
    if isinstance(x, Elementwise):
        x = b.stored(x)
    if max(axes) >= len(x.order):
        b.refuse("an axis that is no constant, or not there")
    spans = list(x.axes)
    for k in axes:
        span = spans[x.order[k]]
        assert isinstance(span, Span)
        n = b.length(x, x.order[k])
        last = b.whole("mul", b.whole("sub", n, ONE), const(span.step))
        low = b.settled(b.whole("add", span.low, last))
        spans[x.order[k]] = Span(low, b.counted(b.settled(n)), -span.step)
    return View(x.base, tuple(spans), x.order)


def _triangle(below: bool) -> Callable[..., Value]:
    def triangle(b: Builder, hint: str | None, m: Value, k: Value = ZERO) -> Value:
        x = array_of(b, m)
        (off,) = numbers(b, [k])
        v = b.make(hint, b.shape(x), b.dtype(x), zeros=False)
        zero = const({"float": 0.0, "int": 0, "bool": False}[kind_of(b.dtype(x))])

        def one(i: list[Expr]) -> None:
            test = Apply("le" if below else "ge", (Apply("sub", (i[1], i[0])), off))
            b.store(b.load(v, i), b.choose(test, lambda: b.element(x, i), lambda: zero, None))

        if len(b.shape(x)) != 2:
            b.refuse("a triangle of an array that is no matrix")
        b.nest(b.shape(v), one)
        return v

    return triangle


# ---------------------------------------------------------------- orders, and where something holds


def sort_in_place(b: Builder, hint: str | None, a: Value) -> Value:
    x = _vector(b, a, "sort")
    assert isinstance(x, View)
    b.assign(x, inlined(b, library.sort, [x], {}))
    return Object(None)


def _vector(b: Builder, a: Value, what: str) -> View | Elementwise:
    x = array_of(b, a)
    if len(b.shape(x)) != 1:
        b.refuse(f"{what} of an array of more than one dimension", "row by row")
    return x


def on_flatnonzero(b: Builder, hint: str | None, a: Value) -> View:
    """The indices where an array of one dimension is not zero."""
    found = inlined(b, library.flatnonzero, [_vector(b, a, "nonzero")], {})
    assert isinstance(found, View)
    return found


def on_nonzero(b: Builder, hint: str | None, a: Value) -> Items:
    """The indices where an array is not zero, an array for each of its axes."""
    x = array_of(b, a)
    shape = b.shape(x)
    if len(shape) == 1:
        return Items([on_flatnonzero(b, hint, x)])
    flat = on_flatnonzero(b, None, on_flatten(b, None, x))
    found = [b.make(hint, b.shape(flat), "int64", zeros=False) for _ in shape]

    def one(i: list[Expr]) -> None:
        for v, at in zip(found, taken_apart(b, b.load(flat, i), shape)):
            b.store(b.load(v, i), at)

    b.nest(b.shape(flat), one)
    return Items(found)


def on_arange(b: Builder, hint: str | None, *ends: Value, dtype: Value | None = None) -> Value:
    given = numbers(b, ends)
    start, stop = (ZERO, given[0]) if len(given) == 1 else (given[0], given[1])
    step = given[2] if len(given) > 2 else ONE
    if not 1 <= len(given) <= 3:
        b.refuse("np.arange of more than start, stop and step")
    whole = all(b.kind(e) != "float" for e in given)
    if whole:
        count = turns(b, start, stop, step)
    else:
        gap = b.binary("div", b.binary("sub", stop, start), step)
        count = b.let("n", Apply("max", (b.function("whole_ceil", [gap]), ZERO)))
    found = b.make(hint, [count], "int64" if whole else "float64", zeros=False)
    start, step = b.read_once(start), b.read_once(step)
    b.nest(
        b.shape(found),
        lambda i: b.store(b.load(found, i), b.binary("add", start, b.binary("mul", i[0], step))),
    )
    return found


def turns(b: Builder, start: Expr, stop: Expr, step: Expr) -> Expr:
    """How many numbers a range has."""
    if isinstance(step, Const):
        k = step.value
        gap = b.whole("sub", stop, start) if k > 0 else b.whole("sub", start, stop)
        if abs(k) != 1:
            gap = b.binary("floor_divide", b.binary("add", gap, const(abs(k) - 1)), const(abs(k)))
    else:
        b.require(Apply("ne", (step, ZERO)), "range() arg 3 must not be zero")
        less = ONE if b.natural(step) else Apply("where", (Apply("gt", (step, ZERO)), ONE, const(-1)))
        gap = b.binary("sub", b.binary("add", b.whole("sub", stop, start), step), less)
        gap = b.binary("floor_divide", gap, step)
    if isinstance(gap, Apply) and all(isinstance(a, Const) for a in gap.args):
        gap = ops.folded(gap.op, [a for a in gap.args if isinstance(a, Const)]) or gap
    if isinstance(gap, Const):
        return const(max(gap.value, 0))
    return gap if b.natural(gap) else b.let("n", Apply("max", (gap, ZERO)))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{n.removeprefix("on_"): f for n, f in list(globals().items()) if n.startswith("on_")},
    "sort_in_place": sort_in_place,
    "row_stack": on_vstack,
    "tril": _triangle(True),
    "triu": _triangle(False),
}

__all__ = [
    "FUNCTIONS",
    "array_of",
    "axis_of",
    "each",
    "flat_index",
    "inlined",
    "lengths",
    "numbers",
    "product_of",
    "taken_apart",
    "truth",
    "turns",
    "written_to",
]
