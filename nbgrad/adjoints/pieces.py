"""Arrays in other shapes, with edges, without what is deleted, cut in pieces, chosen from; and those that write where a condition holds."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

from nbgrad.adjoints.arrangements import (
    array_of,
    axis_of,
    lengths,
    numbers,
    on_concatenate,
    on_expand_dims,
    on_flatten,
    on_flip,
    on_nonzero,
    on_stack,
)
from nbgrad.adjoints.build import Builder, Elementwise, Items, Object, Value, is_array, is_none
from nbgrad.adjoints.contract import turned
from nbgrad.adjoints.ir import FLOAT_ZERO, ONE, ZERO, Apply, At, Const, Expr, Load, Span, View, const

Array = View | Elementwise


def _like(b: Builder, x: Array, shape: Sequence[Expr], element: Callable[[list[Expr]], Expr]) -> Elementwise:
    """Elements of an array at other places."""
    return Elementwise([*shape], element, b.bases(x), b.dtype(x), x.base if isinstance(x, View) else x.of)


def _none(v: Value | None) -> bool:
    return v is None or is_none(v)


def _constant(b: Builder, x: Value, what: str) -> int:
    if not isinstance(x, Const) or isinstance(x.value, float):
        b.refuse(f"{what} that is not known", "a constant")
    return int(x.value)


# ---------------------------------------------------------------- axes


def on_squeeze(b: Builder, hint: str | None, a: Value, axis: Value | None = None) -> Value:
    x = array_of(b, a)
    shape = b.shape(x)
    if axis is None or _none(axis):
        gone = [k for k, n in enumerate(shape) if b.root(n) == ONE]
        for n in shape:
            if not isinstance(b.root(n), Const):
                b.require(
                    Apply("ne", (n, ONE)), "squeeze without an axis, of one that is of length 1 by chance"
                )
    else:
        given = axis.items if isinstance(axis, Items) else [axis]
        gone = [axis_of(b, k, len(shape)) for k in given]
        for k in gone:
            b.same(shape[k], ONE)
    left = [k for k in range(len(shape)) if k not in gone]
    if not left:
        return b.element(x, [ZERO] * len(shape))
    if isinstance(x, View):
        axes = list(x.axes)
        for k in gone:
            span = axes[x.order[k]]
            assert isinstance(span, Span)
            axes[x.order[k]] = At(span.low)
        return View(x.base, tuple(axes), tuple(x.order[k] for k in left))

    def element(i: list[Expr]) -> Expr:
        own = iter(i)
        return b.element(x, [ZERO if k in gone else next(own) for k in range(len(shape))])

    return _like(b, x, [shape[k] for k in left], element)


def on_atleast_1d(b: Builder, hint: str | None, a: Value) -> Value:
    if isinstance(a, Expr):
        e = b.read_once(a)
        return Elementwise([ONE], lambda i: e, set(), b.dtype(a))
    return array_of(b, a)


def on_atleast_2d(b: Builder, hint: str | None, a: Value) -> Value:
    x = array_of(b, on_atleast_1d(b, hint, a))
    return on_expand_dims(b, hint, x, ZERO) if len(b.shape(x)) == 1 else x


def on_broadcast_to(b: Builder, hint: str | None, array: Value, shape: Value) -> Value:
    wide = [b.counted(n) for n in lengths(b, shape)]
    if isinstance(array, Expr):
        e = b.read_once(array)
        return Elementwise(wide, lambda i: e, set(), b.dtype(array))
    x = array_of(b, array)
    b.fits(wide, b.shape(x))
    return _like(b, x, wide, lambda i: b.element(x, i))


def _in_order(b: Builder, x: Array, order: Sequence[int]) -> Value:
    place = [order.index(k) for k in range(len(order))]
    if [*order] == sorted(order):
        return x
    if [*order] == sorted(order)[::-1]:
        return turned(x)
    return _like(b, x, [b.shape(x)[k] for k in order], lambda i: b.element(x, [i[k] for k in place]))


def on_moveaxis(b: Builder, hint: str | None, a: Value, source: Value, destination: Value) -> Value:
    x = array_of(b, a)
    rank = len(b.shape(x))
    given = [v.items if isinstance(v, Items) else [v] for v in (source, destination)]
    pairs = sorted((axis_of(b, q, rank), axis_of(b, p, rank)) for p, q in zip(*given))
    order = [k for k in range(rank) if k not in [p for _, p in pairs]]
    for q, p in pairs:
        order.insert(q, p)
    return _in_order(b, x, order)


def on_rollaxis(b: Builder, hint: str | None, a: Value, axis: Value, start: Value = ZERO) -> Value:
    x = array_of(b, a)
    rank = len(b.shape(x))
    p, to = axis_of(b, axis, rank), _constant(b, start, "a place")
    order = [k for k in range(rank) if k != p]
    order.insert(to - (p < to), p)
    return _in_order(b, x, order)


def on_rot90(b: Builder, hint: str | None, m: Value, k: Value = ONE) -> Value:
    x = array_of(b, m)
    if len(b.shape(x)) != 2:
        b.refuse("np.rot90 of an array that is no matrix")
    x = b.stored(x) if isinstance(x, Elementwise) else x
    times = _constant(b, k, "a number of turns") % 4
    if times == 2:
        return on_flip(b, hint, x)
    if times == 0:
        return x
    return on_flip(b, hint, turned(x), ZERO if times == 1 else ONE)


def on_ix_(b: Builder, hint: str | None, *args: Value) -> Value:
    xs = [array_of(b, x) for x in args]

    def alone(k: int, x: Array) -> Elementwise:
        shape = [b.shape(x)[0] if j == k else ONE for j in range(len(xs))]
        return _like(b, x, shape, lambda i: b.element(x, [i[k]]))

    return Items([alone(k, x) for k, x in enumerate(xs)])


# ---------------------------------------------------------------- pieces


def on_delete(b: Builder, hint: str | None, arr: Value, obj: Value, axis: Value | None = None) -> Value:
    x = array_of(b, arr)
    if axis is None or _none(axis):
        x = x if len(b.shape(x)) == 1 else on_flatten(b, None, x)
    at = 0 if axis is None or _none(axis) else axis_of(b, axis, len(b.shape(x)))
    if not isinstance(obj, Expr):
        b.refuse("np.delete of more than one", "a mask")
    shape = [*b.shape(x)]
    n = shape[at]
    gone = b.settled(obj)
    if not b.natural(gone):
        gone = b.let("k", Apply("where", (Apply("lt", (gone, ZERO)), b.whole("add", gone, n), gone)))
    shape[at] = const(n.value - 1) if isinstance(n, Const) else b.let("n", b.whole("sub", n, ONE))

    def element(i: list[Expr]) -> Expr:
        beyond = Apply("where", (Apply("ge", (i[at], gone)), b.whole("add", i[at], ONE), i[at]))
        return b.element(x, [*i[:at], b.let("k", beyond), *i[at + 1 :]])

    return b.stored(_like(b, x, shape, element), hint)


def on_dstack(b: Builder, hint: str | None, arrays: Value) -> Value:
    xs = [array_of(b, on_atleast_2d(b, None, x)) for x in arrays.items] if isinstance(arrays, Items) else []
    if not xs or any(len(b.shape(x)) > 2 for x in xs):
        b.refuse("np.dstack of what is no list of vectors or matrices")
    return on_stack(b, hint, Items(xs), const(2))


def on_block(b: Builder, hint: str | None, arrays: Value) -> Value:
    if not isinstance(arrays, Items) or not arrays.items:
        b.refuse("np.block of what is no list")
    rows = [
        on_concatenate(b, None, r, const(-1)) if isinstance(r, Items) else array_of(b, r)
        for r in arrays.items
    ]
    if not any(isinstance(r, Items) for r in arrays.items):
        return on_concatenate(b, hint, arrays, const(-1))
    return on_concatenate(b, hint, Items([on_atleast_2d(b, None, r) for r in rows]), const(-2))


def _split(b: Builder, a: Value, at: Value, axis: Value, equal: bool) -> Value:
    x = array_of(b, a)
    x = b.stored(x) if isinstance(x, Elementwise) else x
    rank = len(b.shape(x))
    along = x.order[axis_of(b, axis, rank)]
    span, n = x.axes[along], b.length(x, along)
    assert isinstance(span, Span)
    if isinstance(at, Items):
        ends = [ZERO, *[b.settled(e) for e in numbers(b, at.items)], n]
        ends = [b.whole("add", n, e) if isinstance(e, Const) and e.value < 0 else e for e in ends]
    else:
        k = const(_constant(b, at, "a number of pieces"))
        if equal:
            rest = b.binary("remainder", n, k)
            b.require(Apply("eq", (rest, ZERO)), "array split does not result in an equal division")
        ends = [
            b.let("k", _cut(b, n, k, j)) if not isinstance(n, Const) else _cut(b, n, k, j)
            for j in range(k.value + 1)
        ]
    pieces = []
    for p, q in itertools.pairwise(ends):
        low = b.settled(b.whole("add", span.low, b.whole("mul", p, const(span.step))))
        axes = list(x.axes)
        axes[along] = Span(low, b.counted(_less(b, q, p)), span.step)
        pieces.append(View(x.base, tuple(axes), x.order))
    return Items(pieces, list)


def _less(b: Builder, q: Expr, p: Expr) -> Expr:
    if isinstance(q, Const) and isinstance(p, Const):
        return const(max(q.value - p.value, 0))
    return b.let("n", Apply("max", (b.whole("sub", q, p), ZERO)))


def _cut(b: Builder, n: Expr, k: Const, j: int) -> Expr:
    """Where the piece `j` of `k` begins: the first ones are longer by one."""
    if isinstance(n, Const):
        return const(j * (n.value // k.value) + min(j, n.value % k.value))
    short, rest = Apply("floor_divide", (n, k)), Apply("remainder", (n, k))
    return Apply("add", (Apply("mul", (const(j), short)), Apply("min", (const(j), rest))))


def on_split(b: Builder, hint: str | None, ary: Value, at: Value, axis: Value = ZERO) -> Value:
    return _split(b, ary, at, axis, True)


def on_array_split(b: Builder, hint: str | None, ary: Value, at: Value, axis: Value = ZERO) -> Value:
    return _split(b, ary, at, axis, False)


def on_vsplit(b: Builder, hint: str | None, ary: Value, at: Value) -> Value:
    return _split(b, ary, at, ZERO, True)


def on_hsplit(b: Builder, hint: str | None, ary: Value, at: Value) -> Value:
    return _split(b, ary, at, const(min(len(b.shape(array_of(b, ary))) - 1, 1)), True)


def on_pad(
    b: Builder,
    hint: str | None,
    array: Value,
    pad_width: Value,
    mode: Value | None = None,
    constant_values: Value = FLOAT_ZERO,
) -> Value:
    x = array_of(b, array)
    shape, how = b.shape(x), mode.value if isinstance(mode, Object) else "constant"
    places = {"edge": _edge, "wrap": _wrap, "reflect": _reflect, "symmetric": _symmetric}
    if how != "constant" and how not in places:
        b.refuse(f"np.pad with the mode {how!r}", "constant, edge, wrap, reflect or symmetric")
    widths = _widths(b, pad_width, len(shape))
    befores = [b.settled(p) for p, _ in widths]
    wide = [
        b.whole("add", b.whole("add", p, n), b.settled(q)) for p, n, (_, q) in zip(befores, shape, widths)
    ]
    if how == "constant":
        (e,) = numbers(b, [constant_values])
        made = b.make(hint, wide, b.dtype(x), zeros=e in (FLOAT_ZERO, ZERO))
        if e not in (FLOAT_ZERO, ZERO):
            b.assign(made, e)
        b.assign(View(made.base, tuple(Span(p, b.counted(n)) for p, n in zip(befores, shape)), made.order), x)
        return made
    of = x if isinstance(x, View) else b.stored(x)

    def element(i: list[Expr]) -> Expr:
        at = [
            places[how](b, b.let("k", Apply("sub", (k, p))), n) if (p, q) != (ZERO, ZERO) else k
            for k, p, (_, q), n in zip(i, befores, widths, shape)
        ]
        return b.element(of, at)

    return b.stored(Elementwise([b.counted(n) for n in wide], element, b.bases(of), b.dtype(of)), hint)


def _widths(b: Builder, given: Value, rank: int) -> list[tuple[Expr, Expr]]:
    """How much comes before and behind, for each axis."""
    if isinstance(given, Expr):
        return [(given, given)] * rank
    items = given.items if isinstance(given, Items) else []
    if len(items) in (1, 2) and all(isinstance(e, Expr) for e in items):
        return [(items[0], items[-1])] * rank
    pairs = [i.items for i in items if isinstance(i, Items) and len(i.items) == 2]
    if len(pairs) != len(items) or len(pairs) not in (1, rank):
        b.refuse("these widths of np.pad", "two for each axis")
    found = [tuple(numbers(b, pair)) for pair in pairs]
    return [(p[0], p[1]) for p in (found * rank if len(found) == 1 else found)]


def _edge(b: Builder, k: Expr, n: Expr) -> Expr:
    return b.let("k", Apply("max", (Apply("min", (k, b.whole("sub", n, ONE))), ZERO)))


def _wrap(b: Builder, k: Expr, n: Expr) -> Expr:
    return b.let("k", Apply("remainder", (k, n)))


def _reflect(b: Builder, k: Expr, n: Expr) -> Expr:
    around = b.let("k", Apply("max", (Apply("sub", (Apply("mul", (const(2), n)), const(2))), ONE)))
    k = b.let("k", Apply("remainder", (k, around)))
    return b.let("k", Apply("where", (Apply("lt", (k, n)), k, Apply("sub", (around, k)))))


def _symmetric(b: Builder, k: Expr, n: Expr) -> Expr:
    around = b.let("k", Apply("mul", (const(2), n)))
    k = b.let("k", Apply("remainder", (k, around)))
    last = Apply("sub", (Apply("sub", (around, ONE)), k))
    return b.let("k", Apply("where", (Apply("lt", (k, n)), k, last)))


# ---------------------------------------------------------------- choices


def on_take(b: Builder, hint: str | None, a: Value, indices: Value, axis: Value | None = None) -> Value:
    x = array_of(b, a)
    if axis is None or _none(axis):
        x = x if len(b.shape(x)) == 1 else on_flatten(b, None, x)
    k = 0 if axis is None or _none(axis) else axis_of(b, axis, len(b.shape(x)))
    shape = b.shape(x)

    def of(e: Expr, i: Sequence[Expr]) -> Expr:
        e = b.settled(e)
        if not b.natural(e):
            e = b.let("k", Apply("where", (Apply("lt", (e, ZERO)), b.whole("add", e, shape[k]), e)))
        return b.element(x, [*i[:k], e, *i[k:]])

    if isinstance(indices, Expr):
        place = b.read_once(b.settled(indices))
        if len(shape) == 1:
            return of(place, [])
        return b.stored(_like(b, x, [*shape[:k], *shape[k + 1 :]], lambda i: of(place, i)), hint)
    at = array_of(b, indices)
    rank = len(b.shape(at))
    wide = [*shape[:k], *b.shape(at), *shape[k + 1 :]]
    made = Elementwise(
        wide,
        lambda i: of(b.let("k", b.element(at, i[k : k + rank])), [*i[:k], *i[k + rank :]]),
        b.bases(x) | b.bases(at),
        b.dtype(x),
    )
    return b.stored(made, hint)


def on_take_along_axis(b: Builder, hint: str | None, arr: Value, indices: Value, axis: Value) -> Value:
    x, at = array_of(b, arr), array_of(b, indices)
    k = axis_of(b, axis, len(b.shape(x)))

    def element(i: list[Expr]) -> Expr:
        place = b.let("k", b.element(at, i))
        return b.element(x, [*i[:k], place, *i[k + 1 :]])

    return b.stored(Elementwise(b.shape(at), element, b.bases(x) | b.bases(at), b.dtype(x)), hint)


def on_compress(b: Builder, hint: str | None, condition: Value, a: Value) -> Value:
    found = on_nonzero(b, None, _flat(b, condition)).items[0]
    return on_take(b, hint, _flat(b, a), found)


on_extract = on_compress


def _flat(b: Builder, x: Value) -> Array:
    v = array_of(b, x)
    return v if len(b.shape(v)) == 1 else on_flatten(b, None, v)


def on_select(
    b: Builder, hint: str | None, condlist: Value, choicelist: Value, default: Value = FLOAT_ZERO
) -> Value:
    if not isinstance(condlist, Items) or not isinstance(choicelist, Items):
        b.refuse("np.select of what are no lists")

    def one(found: Value, pair: tuple[Value, Value]) -> Value:
        test, x = pair
        return b.elementwise(
            [test, x, found], lambda c, p, q: Apply("where", (b.leaf(c), b.leaf(p), b.leaf(q)))
        )

    return functools.reduce(one, reversed([*zip(condlist.items, choicelist.items)]), default)


def on_copyto(b: Builder, hint: str | None, dst: Value, src: Value, where: Value | None = None) -> Value:
    if not isinstance(dst, View):
        b.refuse("np.copyto to something else than an array")
    if where is None:
        b.assign(dst, src)
        return Object(None)
    return _where_true(b, dst, where, src)


def on_putmask(b: Builder, hint: str | None, a: Value, mask: Value, values: Value) -> Value:
    if not isinstance(a, View):
        b.refuse("np.putmask of something else than an array")
    if is_array(values):
        b.same(b.shape(a)[0], b.shape(values)[0])
    return _where_true(b, a, mask, values)


def _where_true(b: Builder, into: View, mask: Value, x: Value) -> Value:
    x, mask = (
        v if isinstance(v, Expr) or into.base not in b.bases(v) else b.stored(array_of(b, v))
        for v in (x, mask)
    )
    shape = b.shape(into)
    for v in (x, mask):
        if not isinstance(v, Expr):
            b.fits(shape, b.shape(array_of(b, v)))
    e, asked = b.read_once(x), b.read_once(mask)

    def one(i: list[Expr]) -> None:
        at = b.load(into, i)
        b.store(at, b.choose(b.element(asked, i), lambda: b.element(e, i), lambda: at, None))

    b.nest(shape, one)
    return Object(None)


def on_put(b: Builder, hint: str | None, a: Value, ind: Value, v: Value) -> Value:
    if not isinstance(a, View) or len(b.shape(a)) != 1:
        b.refuse("np.put in an array of more than one dimension", "a[i, j] = v")
    at = array_of(b, ind) if not isinstance(ind, Expr) else array_of(b, on_atleast_1d(b, None, ind))
    e = b.read_once(v) if isinstance(v, Expr) else b.stored(array_of(b, v))
    if not isinstance(e, Expr):
        b.same(b.shape(at)[0], b.shape(e)[0])
    n = b.shape(a)[0]
    into = a

    def one(i: list[Expr]) -> None:
        k = b.let("k", b.element(at, i))
        if not b.natural(k):
            k = b.let("k", Apply("where", (Apply("lt", (k, ZERO)), b.whole("add", k, n), k)))
        place = b.load(into, [k])
        assert isinstance(place, Load)
        b.store(place, b.element(e, i))

    b.nest(b.shape(at), one)
    return Object(None)


def on_place(b: Builder, hint: str | None, arr: Value, mask: Value, vals: Value) -> Value:
    b.refuse("np.place is not taken", "arr[mask] = vals")


FUNCTIONS: dict[str, Callable[..., Value]] = {
    n.removeprefix("on_"): f
    for n, f in list(globals().items())
    if n.startswith("on_") and getattr(f, "__module__", "") == __name__
} | {"extract": on_compress}

__all__ = ["FUNCTIONS"]
