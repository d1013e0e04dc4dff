"""Sums of products over indices that arrays share: `np.einsum`, and products of arrays of many dimensions."""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence

from nbgrad.adjoints import ops
from nbgrad.adjoints.arrangements import array_of, axis_of, numbers
from nbgrad.adjoints.build import Builder, Elementwise, Items, Object, Value
from nbgrad.adjoints.ir import FLOAT_ZERO, ZERO, Const, Expr, View, kind_of

Array = View | Elementwise


def on_einsum(b: Builder, hint: str | None, subscripts: Value, *operands: Value) -> Value:
    text = subscripts.value if isinstance(subscripts, Object) else None
    if not isinstance(text, str):
        b.refuse("np.einsum whose subscripts are no string", 'np.einsum("ij,jk->ik", a, b)')
    given, arrow, out = text.replace(" ", "").partition("->")
    labels = given.split(",")
    if not arrow:
        out = "".join(sorted(c for c in {*given} - {","} if given.count(c) == 1))
    if not (given.replace(",", "") + out).isalpha() or not {*out} <= {*given} or len({*out}) < len(out):
        b.refuse(f"the subscripts {text!r}", "a letter for each axis")
    if len(labels) != len(operands):
        b.refuse(f"{len(operands)} arrays for the subscripts {text!r}")
    return contracted(b, hint, labels, out, [array_of(b, x) for x in operands])


def contracted(b: Builder, hint: str | None, labels: Sequence[str], out: str, xs: Sequence[Array]) -> Value:
    """For each of the indices `out`, the sum over all others of the products."""
    lengths: dict[str, Expr] = {}
    for letters, x in zip(labels, xs):
        shape = b.shape(x)
        if len(shape) != len(letters):
            b.refuse(f"an array of {len(shape)} dimensions for the indices {letters!r}")
        for letter, n in zip(letters, shape):
            if letter in lengths:
                b.same(lengths[letter], n)
            lengths.setdefault(letter, n)
    product = _of_matrices(b, labels, out, xs)
    if product is not None:
        return b.dot(*product, hint)
    summed = [c for c in lengths if c not in out]
    of = ops.join(*(kind_of(b.dtype(x)) for x in xs))
    zero = FLOAT_ZERO if of == "float" else ZERO

    def entry(at: dict[str, Expr], total_hint: str | None) -> Expr:
        def term(place: dict[str, Expr]) -> Expr:
            factors = [b.element(x, [place[c] for c in letters]) for letters, x in zip(labels, xs)]
            return functools.reduce(lambda p, q: b.binary("mul", p, q), factors)

        if not summed:
            return term(at)
        return b.fold(
            [lengths[c] for c in summed],
            zero,
            lambda total, i: b.binary("add", total, term(at | dict(zip(summed, i)))),
            total_hint,
            "float" if of == "float" else "int",
        )

    if not out:
        return entry({}, hint)
    dtypes = {b.dtype(x) for x in xs}
    dtype = dtypes.pop() if len(dtypes) == 1 and of != "bool" else {"float": "float64"}.get(of, "int64")
    made = b.make(hint, [lengths[c] for c in out], dtype, zeros=False)
    b.nest(b.shape(made), lambda i: b.store(b.load(made, i), entry(dict(zip(out, i)), None)))
    return made


def _of_matrices(
    b: Builder, labels: Sequence[str], out: str, xs: Sequence[Array]
) -> tuple[Array, Array] | None:
    """The two, turned where they have to be, of which `out` is the product of matrices."""
    if len(xs) != 2 or any(len({*c}) != len(c) or len(c) > 2 for c in labels):
        return None
    shared = {*labels[0]} & {*labels[1]}
    if len(shared) != 1 or shared & {*out}:
        return None
    (s,) = shared
    free = [c.replace(s, "") for c in labels]
    for p, q in ((0, 1), (1, 0)):
        if free[p] + free[q] == out:
            left = xs[p] if labels[p].endswith(s) else turned(xs[p])
            return left, xs[q] if labels[q].startswith(s) else turned(xs[q])
    return None


def turned(x: Array) -> Array:
    if isinstance(x, View):
        return View(x.base, x.axes, x.order[::-1])
    return Elementwise(x.shape[::-1], lambda i: x.element(i[::-1]), x.bases, x.dtype, x.of)


def product(b: Builder, hint: str | None, x: Value, y: Value, outer: bool) -> Value:
    """`x @ y`; `outer`, np.dot, whose arrays of many dimensions have each their own."""
    p, q = array_of(b, x), array_of(b, y)
    m, n = len(b.shape(p)), len(b.shape(q))
    if max(m, n) <= 2 or not m or not n:
        return b.dot(p, q, hint)
    s, row, column, *others = [*string.ascii_letters]
    wide, of_x, of_y = max(m, n) - 2, max(m - 2, 0), max(n - 2, 0)
    batch = "".join(others[:wide])
    left, right = batch[wide - of_x :], "".join(others[-of_y:]) if outer and of_y else batch[wide - of_y :]
    row, column = row if m > 1 else "", column if n > 1 else ""
    out = left + row + right if outer else batch + row
    return contracted(b, hint, [left + row + s, right + s + column], out + column, [p, q])


def on_tensordot(b: Builder, hint: str | None, a: Value, other: Value, axes: Value | None = None) -> Value:
    x, y = array_of(b, a), array_of(b, other)
    m, n = len(b.shape(x)), len(b.shape(y))
    if axes is None or isinstance(axes, Const):
        k = 2 if axes is None else axes.value
        pairs = [(m - k + i, i) for i in range(k)]
    elif isinstance(axes, Items) and len(axes.items) == 2:
        sides = [numbers(b, s.items if isinstance(s, Items) else [s]) for s in axes.items]
        pairs = [(axis_of(b, p, m), axis_of(b, q, n)) for p, q in zip(*sides)]
    else:
        b.refuse("axes that are not known", "a number, or two lists of them")
    letters = iter(string.ascii_letters)
    of_x, of_y = [next(letters) for _ in range(m)], [next(letters) for _ in range(n)]
    for p, q in pairs:
        of_y[q] = of_x[p]
    out = [c for c in of_x if c not in of_y] + [c for c in of_y if c not in of_x]
    return contracted(b, hint, ["".join(of_x), "".join(of_y)], "".join(out), [x, y])


FUNCTIONS = {"einsum": on_einsum, "tensordot": on_tensordot}

__all__ = ["FUNCTIONS", "contracted", "product", "turned"]
