"""NumPy's functions by their names: arrays that are made, elements of one and of two, conditions, sums and extremes, differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.adjoints import contract, library, ops, rows
from nbgrad.adjoints.arrangements import (
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
    on_nonzero,
    product_of,
    truth,
)
from nbgrad.adjoints.build import Builder, Elementwise, Items, Listed, Object, Value, is_array, is_none
from nbgrad.adjoints.ir import (
    FLOAT_ONE,
    FLOAT_ZERO,
    ONE,
    ZERO,
    Apply,
    Const,
    Expr,
    View,
    const,
    kind_of,
)

_LAST = const(-1)


def _filled(b: Builder, hint: str | None, shape: Sequence[Expr], dtype: str, e: Expr) -> View:
    v = b.make(hint, shape, dtype, zeros=False)
    b.assign(v, e)
    return v


def on_len(b: Builder, hint: str | None, x: Value) -> Value:
    if isinstance(x, Items):
        return const(len(x.items))
    if isinstance(x, Listed):
        return x.count
    if not is_array(x):
        b.refuse("len of this")
    return b.shape(x)[0]


def on_zeros(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return b.make(hint, lengths(b, shape), dtype_of(b, dtype, "float64"), zeros=True)


def on_empty(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return b.make(hint, lengths(b, shape), dtype_of(b, dtype, "float64"), zeros=False)


def on_ones(b: Builder, hint: str | None, shape: Value, dtype: Value | None = None) -> Value:
    return _filled(b, hint, lengths(b, shape), dtype_of(b, dtype, "float64"), FLOAT_ONE)


def on_full(
    b: Builder, hint: str | None, shape: Value, fill_value: Value, dtype: Value | None = None
) -> Value:
    (e,) = numbers(b, [fill_value])
    return _filled(b, hint, lengths(b, shape), dtype_of(b, dtype, b.dtype(e)), e)


def on_zeros_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return b.make(hint, b.shape(x), dtype_of(b, dtype, b.dtype(x)), zeros=True)


def on_empty_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return b.make(hint, b.shape(x), dtype_of(b, dtype, b.dtype(x)), zeros=False)


def on_ones_like(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    x = array_of(b, a)
    return _filled(b, hint, b.shape(x), dtype_of(b, dtype, b.dtype(x)), FLOAT_ONE)


def on_full_like(
    b: Builder, hint: str | None, a: Value, fill_value: Value, dtype: Value | None = None
) -> Value:
    x = array_of(b, a)
    (e,) = numbers(b, [fill_value])
    return _filled(b, hint, b.shape(x), dtype_of(b, dtype, b.dtype(x)), e)


def on_asarray(b: Builder, hint: str | None, a: Value, dtype: Value | None = None) -> Value:
    if isinstance(a, Expr):
        return on_array(b, hint, a, dtype)
    x = array_of(b, a)
    return x if dtype is None or dtype_of(b, dtype, "") == b.dtype(x) else on_array(b, hint, x, dtype)


on_ascontiguousarray = on_asanyarray = on_asfortranarray = on_asarray


def on_astype(b: Builder, hint: str | None, a: Value, dtype: Value) -> Value:
    x = array_of(b, a)
    made = b.make(hint, b.shape(x), dtype_of(b, dtype, "float64"), zeros=False)
    if kind_of(b.dtype(x)) == "float" and kind_of(b.dtype(made)) == "int":
        b.assign(made, b.elementwise([x], lambda e: b.function("int", [e])))
    else:
        b.assign(made, x)
    return made


def on_fill(b: Builder, hint: str | None, a: Value, value: Value) -> Value:
    x = array_of(b, a)
    assert isinstance(x, View)
    b.assign(x, numbers(b, [value])[0])
    return Object(None)


def on_item(b: Builder, hint: str | None, a: Value) -> Value:
    x = array_of(b, a)
    n = product_of(b, b.shape(x))
    if n != ONE:
        b.require(Apply("eq", (b.counted(n), ONE)), "can only convert an array of size 1 to a Python scalar")
    return b.element(x, [ZERO] * len(b.shape(x)))


def on_transpose(
    b: Builder, hint: str | None, a: Value, *order_of: Value, axes: Value | None = None
) -> Value:
    x = array_of(b, a)
    given_as = order_of if axes is None else (axes,)
    if not given_as or is_none(given_as[0]):
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


def on_swapaxes(b: Builder, hint: str | None, a: Value, axis1: Value, axis2: Value) -> Value:
    rank = len(b.shape(array_of(b, a)))
    p, q = axis_of(b, axis1, rank), axis_of(b, axis2, rank)
    order = {p: q, q: p}
    return on_transpose(b, hint, a, Items([const(order.get(k, k)) for k in range(rank)]))


def on_where(
    b: Builder, hint: str | None, condition: Value, x: Value | None = None, y: Value | None = None
) -> Value:
    if x is None or y is None:
        return on_nonzero(b, hint, condition)

    def one(c: Expr, p: Expr, q: Expr) -> Expr:
        if isinstance(c, Const):
            return p if c.value else q
        return Apply("where", (b.leaf(c), b.leaf(p), b.leaf(q)))

    return b.elementwise([condition, x, y], one)


def on_meshgrid(b: Builder, hint: str | None, *xs: Value, indexing: Value | None = None) -> Value:
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


on_maximum, on_minimum = _extreme_of_two("max", "maximum"), _extreme_of_two("min", "minimum")


def on_square(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("pow", e, const(2)))


def on_power(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("pow", p, q, hint))


def on_mod(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("remainder", p, q, hint))


on_remainder = on_mod


def on_floor_divide(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("floor_divide", p, q, hint))


def on_exp2(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("pow", const(2.0), e, hint))


def _logical(op: str) -> Callable[..., Value]:
    def logical(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
        return b.elementwise([x, y], lambda p, q: Apply(op, (truth(b, p), truth(b, q))))

    return logical


on_logical_and, on_logical_or, on_logical_xor = map(_logical, ("and", "or", "ne"))


def _comparison(op: str) -> Callable[..., Value]:
    def comparison(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
        return b.elementwise([x, y], lambda p, q: Apply(op, (b.leaf(p), b.leaf(q))))

    return comparison


on_less, on_less_equal, on_greater, on_greater_equal = map(_comparison, ("lt", "le", "gt", "ge"))
on_equal, on_not_equal = map(_comparison, ("eq", "ne"))


def on_logical_not(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: Apply("not", (truth(b, e),)))


def on_count_nonzero(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
    x = array_of(b, a)
    if axis is not None and not is_none(axis):
        return rows.reduced(b, hint, x, axis, lambda row: on_count_nonzero(b, None, row))
    return b.fold(
        b.shape(x),
        ZERO,
        lambda n, i: Apply("add", (n, Apply("where", (truth(b, b.element(x, i)), ONE, ZERO)))),
        hint,
        "int",
    )


def on_reciprocal(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: b.binary("div", FLOAT_ONE, e, hint))


def on_clip(
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
    bounds = [(op, v) for op, v in given if v is not None and not is_none(v)]

    def clipped(e: Expr, *at: Expr) -> Expr:
        for (op, _), bound in zip(bounds, at):
            e = b.function(op, [e, bound], hint)
        return e

    return b.elementwise([a, *(v for _, v in bounds)], clipped)


def on_divmod(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return Items([on_floor_divide(b, None, x, y), on_mod(b, None, x, y)])


def on_shape(b: Builder, hint: str | None, a: Value) -> Value:
    return Items(list(b.shape(array_of(b, a))))


def on_size(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
    shape = b.shape(a if isinstance(a, Expr) else array_of(b, a))
    return product_of(b, shape) if axis is None else shape[axis_of(b, axis, len(shape))]


def on_ndim(b: Builder, hint: str | None, a: Value) -> Value:
    return const(len(b.shape(a if isinstance(a, Expr) else array_of(b, a))))


def on_real(b: Builder, hint: str | None, x: Value) -> Value:
    return x


on_conj = on_conjugate = on_positive = on_real


def on_imag(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], lambda e: FLOAT_ZERO)


def _of_bits(op: str) -> Callable[..., Value]:
    def bits(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
        return b.elementwise([x, y], lambda p, q: b.binary(op, p, q, hint))

    return bits


on_bitwise_and, on_bitwise_or, on_bitwise_xor = map(_of_bits, ("bit_and", "bit_or", "bit_xor"))
on_left_shift, on_right_shift = map(_of_bits, ("lshift", "rshift"))


def on_isin(b: Builder, hint: str | None, element: Value, test_elements: Value) -> Value:
    return each(b, hint, library.is_among, [element], [array_of(b, test_elements)])


def on_gradient(b: Builder, hint: str | None, f: Value, *spacing: Value, axis: Value | None = None) -> Value:
    x = array_of(b, f)
    rank = len(b.shape(x))
    if rank > 1 and axis is None:
        if len(spacing) not in (0, 1, rank):
            b.refuse(f"np.gradient of {rank} dimensions with {len(spacing)} spacings")
        along = [*spacing] * rank if len(spacing) == 1 else [*spacing]
        return Items([on_gradient(b, hint, x, *along[k : k + 1], axis=const(k)) for k in range(rank)], list)
    given = const(-1) if axis is None else axis
    return rows.turned_to(b, hint, x, given, lambda row: inlined(b, library.gradient, [row, *spacing], {}))


def on_negative(b: Builder, hint: str | None, x: Value) -> Value:
    return b.elementwise([x], ops.negated)


def on_add(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("add", p, q, hint))


def on_subtract(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("sub", p, q, hint))


def on_multiply(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("mul", p, q, hint))


def on_divide(b: Builder, hint: str | None, x: Value, y: Value) -> Value:
    return b.elementwise([x, y], lambda p, q: b.binary("div", p, q, hint))


def on_sum(
    b: Builder, hint: str | None, a: Value, axis: Value | None = None, keepdims: Value | None = None
) -> Value:
    x = array_of(b, a)
    axis = None if axis is None or is_none(axis) else axis
    if keepdims is not None:
        return rows.kept(b, x, on_sum(b, hint, x, axis), axis, keepdims)
    kind = "float" if kind_of(b.dtype(x)) == "float" else "int"
    zero = FLOAT_ZERO if kind == "float" else ZERO
    if axis is None:
        return b.fold(b.shape(x), zero, lambda s, i: b.binary("add", s, b.element(x, i)), hint, kind)
    at = axis_of(b, axis, len(b.shape(x)))
    shape = b.shape(x)
    if len(shape) == 1:
        return on_sum(b, hint, x)
    dtype = b.dtype(x) if kind == "float" else "int64"
    v = b.make(hint, [*shape[:at], *shape[at + 1 :]], dtype, zeros=True)
    b.nest(shape, lambda i: b.add(b.load(v, [*i[:at], *i[at + 1 :]]), b.element(x, i)))
    return v


def on_mean(
    b: Builder, hint: str | None, a: Value, axis: Value | None = None, keepdims: Value | None = None
) -> Value:
    x = array_of(b, a)
    shape = b.shape(x)
    n = product_of(b, shape) if axis is None else shape[axis_of(b, axis, len(b.shape(x)))]
    n = b.counted(n)
    total = on_sum(b, None, x, axis, keepdims)
    return b.elementwise([total], lambda s: b.binary("div", s, n, hint))


def on_prod(
    b: Builder, hint: str | None, a: Value, axis: Value | None = None, keepdims: Value | None = None
) -> Value:
    x = array_of(b, a)
    if axis is not None and not is_none(axis):
        found = rows.reduced(b, hint, x, axis, lambda row: on_prod(b, None, row))
        return rows.kept(b, x, found, axis, keepdims)
    if keepdims is not None:
        return rows.kept(b, x, on_prod(b, hint, x), None, keepdims)
    kind = "float" if kind_of(b.dtype(x)) == "float" else "int"
    one = FLOAT_ONE if kind == "float" else ONE
    return b.fold(b.shape(x), one, lambda s, i: b.binary("mul", s, b.element(x, i)), hint, kind)


def of_some(
    b: Builder,
    name: str,
    neutral: Any,
    args: list[Value],
    named: dict[str, Value],
    call: Callable[..., Value],
) -> Value:
    """A sum or an extreme of the elements where a condition holds, and of `initial`."""
    named = {k: v for k, v in named.items() if k != "initial" or not is_none(v)}
    test, first = named.pop("where", const(True)), named.pop("initial", None)
    if neutral is None and first is None:
        b.refuse(f"{name} with where and without initial, which NumPy asks for", "initial=...")
    if first is not None and name in ("mean", "any", "all"):
        b.refuse(f"{name} with initial", "leave it out")
    x = array_of(b, args[0])
    begin = None if first is None else b.read_once(numbers(b, [first])[0])
    whole = kind_of(b.dtype(x)) != "float" and not isinstance(neutral, bool)
    other: Expr = (
        begin if neutral is None and begin is not None else const(int(neutral) if whole else neutral)
    )
    asked = b.read_once(test)
    if not isinstance(asked, Expr):
        b.fits(b.shape(x), b.shape(asked))

    def element(i: list[Expr]) -> Expr:
        return b.choose(truth(b, b.element(asked, i)), lambda: b.element(x, i), lambda: other, None)

    some = Elementwise(b.shape(x), element, b.bases(x) | b.bases(asked), b.dtype(x))
    if name != "mean":
        found = call(name, [some, *args[1:]], named, None)
        if begin is None:
            return found
        op = {"sum": "add", "prod": "mul"}.get(name, "maximum" if name in ("max", "amax") else "minimum")
        if neutral is None:
            better = "gt" if op == "maximum" else "lt"
            return b.elementwise(
                [found],
                lambda e: Apply("where", (Apply(better, (begin, e := b.leaf(e))), begin, e)),
            )
        return b.elementwise([found], lambda e: b.binary(op, e, begin))
    ones = Elementwise(
        b.shape(x),
        lambda i: Apply("where", (truth(b, b.element(asked, i)), ONE, ZERO)),
        b.bases(asked),
        "int64",
    )
    total, n = (call("sum", [v, *args[1:]], named, None) for v in (some, ones))
    return b.elementwise([total, n], lambda s, m: b.binary("div", s, m))


def _quantified(op: str) -> Callable[..., Value]:
    def quantified(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
        x = array_of(b, a)
        if axis is not None:
            return rows.reduced(b, hint, x, axis, lambda row: quantified(b, None, row))

        def step(found: Expr, i: list[Expr]) -> Expr:
            e = b.element(x, i)
            return Apply(op, (found, truth(b, e)))

        return b.fold(b.shape(x), const(op == "and"), step, hint, "bool")

    return quantified


on_any, on_all = _quantified("or"), _quantified("and")


def on_diff(
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
    ends = [v for v in (prepend, x, append) if v is not None and not is_none(v)]
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
        axis = None if axis is None or is_none(axis) else axis
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


on_max, on_min = _of_extreme("lt"), _of_extreme("gt")
on_amax, on_amin = on_max, on_min


def on_searchsorted(b: Builder, hint: str | None, a: Value, v: Value, side: Value | None = None) -> Value:
    right = isinstance(side, Object) and side.value == "right"
    own = library.searchsorted_right if right else library.searchsorted
    ones = array_of(b, a)
    sorted_ones = b.stored(ones) if isinstance(ones, Elementwise) else ones
    return each(b, hint, own, [v], before=[sorted_ones])


def on_interp(
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


FUNCTIONS: dict[str, Callable[..., Value]] = {
    n.removeprefix("on_"): f
    for n, f in list(globals().items())
    if n.startswith("on_") and getattr(f, "__module__", "") == __name__
}

__all__ = ["FUNCTIONS"]
