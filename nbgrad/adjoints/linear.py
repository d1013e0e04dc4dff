"""NumPy's linear algebra by its names: products, diagonals, norms, decompositions; what they are of a matrix is in `matrices`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nbgrad.adjoints import contract, matrices, rows
from nbgrad.adjoints.arrangements import (
    array_of,
    dtype_of,
    inlined,
    numbers,
    on_flatten,
    written_to,
)
from nbgrad.adjoints.build import Builder, Elementwise, Items, Object, Value, is_array, is_none
from nbgrad.adjoints.formulas import FORMULAS
from nbgrad.adjoints.ir import (
    FLOAT_ONE,
    ONE,
    ZERO,
    Apply,
    At,
    Const,
    Expr,
    Load,
    Span,
    View,
    const,
    kind_of,
)

_TRUE = const(True)
_EPS = 2.220446049250313e-16


def on_dot(b: Builder, hint: str | None, a: Value, other: Value, out: Value | None = None) -> Value:
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


def on_matmul(b: Builder, hint: str | None, a: Value, other: Value, out: Value | None = None) -> Value:
    many = max(len(b.shape(array_of(b, x))) for x in (a, other)) > 2
    return (
        contract.product(b, hint, a, other, outer=False)
        if many and out is None
        else on_dot(b, hint, a, other, out)
    )


def on_vdot(b: Builder, hint: str | None, a: Value, other: Value) -> Value:
    if is_array(a) and is_array(other) and len(b.shape(array_of(b, a))) > 1:
        b.refuse("vdot of arrays of more than one dimension", "(a * b).sum()")
    return on_dot(b, hint, a, other)


def on_outer(b: Builder, hint: str | None, a: Value, other: Value) -> Value:
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


def on_inner(b: Builder, hint: str | None, a: Value, other: Value) -> Value:
    if any(is_array(v) and len(b.shape(v)) > 1 for v in (a, other)):
        b.refuse("np.inner of arrays of more than one dimension", "a @ b.T")
    return on_dot(b, hint, a, other)


def on_norm(
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

    if axis is None or is_none(axis):
        return rows.kept(b, array, one(array), None, keepdims)
    return rows.kept(b, array, rows.reduced(b, hint, array, axis, one), axis, keepdims)


def on_diag(b: Builder, hint: str | None, v: Value, k: Value = ZERO) -> Value:
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


def on_diagflat(b: Builder, hint: str | None, v: Value, k: Value = ZERO) -> Value:
    return on_diag(b, hint, on_flatten(b, None, v), k)


def on_diagonal(b: Builder, hint: str | None, a: Value, offset: Value = ZERO) -> Value:
    if len(b.shape(array_of(b, a))) != 2:
        b.refuse("the diagonal of an array that is no matrix")
    return on_diag(b, hint, a, offset)


def on_fill_diagonal(b: Builder, hint: str | None, a: Value, val: Value) -> Value:
    x = array_of(b, a)
    if not isinstance(x, View) or len(b.shape(x)) != 2:
        b.refuse("np.fill_diagonal of an array that is no matrix")
    along = on_diag(b, None, x)
    if not isinstance(val, Expr):
        val = b.stored(array_of(b, val))
        b.fits(b.shape(along), b.shape(val))
    e = b.read_once(val)
    b.nest(b.shape(along), lambda i: b.store(b.load(x, [i[0], i[0]]), b.element(e, i)))
    return Object(None)


def on_eye(
    b: Builder,
    hint: str | None,
    N: Value,
    M: Value | None = None,
    k: Value = ZERO,
    dtype: Value | None = None,
) -> Value:
    n, m = numbers(b, [N, N if M is None or is_none(M) else M])
    v = b.make(hint, [n, m], dtype_of(b, dtype, "float64"), zeros=True)
    along = on_diag(b, None, v, k)
    one = {"float": FLOAT_ONE, "int": ONE, "bool": const(True)}[kind_of(b.dtype(v))]

    def put(i: list[Expr]) -> None:
        at = b.element(along, i)
        assert isinstance(at, Load)
        b.store(at, one)

    b.nest(b.shape(along), put)
    return v


def on_identity(b: Builder, hint: str | None, n: Value, dtype: Value | None = None) -> Value:
    return on_eye(b, hint, n, dtype=dtype)


def square(b: Builder, a: Value) -> View | Elementwise:
    x = array_of(b, a)
    if len(b.shape(x)) != 2:
        b.refuse(f"{len(b.shape(x))}-dimensional array given. Array must be two-dimensional")
    m, n = map(b.root, b.shape(x))
    if m != n:
        b.require(Apply("eq", (m, n)), "Last 2 dimensions of the array must be square")
    return x


def _matrix(b: Builder, a: Value) -> tuple[View | Elementwise, Expr, Expr, Expr]:
    """A matrix, its lengths, and the lesser of them."""
    x = array_of(b, a)
    if len(b.shape(x)) != 2:
        b.refuse(f"{len(b.shape(x))}-dimensional array given. Array must be two-dimensional")
    m, n = map(b.counted, b.shape(x))
    return x, m, n, m if b.root(m) == b.root(n) else b.function("min", [m, n])


def _given(b: Builder, hint: str | None, found: View, *of: View | Elementwise) -> View:
    """What a formula gives, in the dtype of what it was given, and as NumPy would lay it out."""
    if all(b.dtype(x) == "float32" for x in of):
        made = b.make(hint, b.shape(found), "float32", zeros=False)
        b.assign(made, found)
        return made
    rows = found.order == tuple(sorted(found.order)) and all(v == Span() for v in found.axes[1:])
    return found if rows else b.stored(found, hint)


def _part(v: View, first: Expr, rows: Expr, columns: Expr | None = None, turned: bool = False) -> View:
    return View(v.base, (Span(first, rows), Span(ZERO, columns)), (1, 0) if turned else (0, 1))


def on_solve(b: Builder, hint: str | None, a: Value, right: Value) -> Value:
    x, y = square(b, a), array_of(b, right)
    n = b.shape(x)[0]
    if b.root(n) != b.root(b.shape(y)[0]):
        message = "solve: the matrix and the right side have different lengths"
        b.require(Apply("eq", (b.root(n), b.root(b.shape(y)[0]))), message)
    vector = len(b.shape(y)) == 1
    columns = _as_column(b, y) if vector else y
    found = b.filled(FORMULAS["solve_into"], b.shape(columns), [x, columns])
    return _given(b, hint, _first_column(found) if vector else found, x, y)


def _as_column(b: Builder, y: View | Elementwise) -> Elementwise:
    return Elementwise([b.shape(y)[0], ONE], lambda i: b.element(y, i[:1]), b.bases(y), b.dtype(y))


def _first_column(v: View) -> View:
    return View(v.base, (v.axes[0], At(ZERO)), (0,))


def on_inv(b: Builder, hint: str | None, a: Value) -> Value:
    x = square(b, a)
    return _given(b, hint, b.filled(FORMULAS["inv_into"], b.shape(x), [x]), x)


def on_cholesky(b: Builder, hint: str | None, a: Value) -> Value:
    x = square(b, a)
    return _given(b, hint, b.filled(FORMULAS["cholesky_into"], b.shape(x), [x]), x)


def on_det(b: Builder, hint: str | None, a: Value) -> Value:
    found = b.filled(FORMULAS["det_into"], [ONE, ONE], [square(b, a)])
    return b.let(hint, b.load(found, [ZERO, ZERO]))


def on_slogdet(b: Builder, hint: str | None, a: Value) -> Value:
    found = b.filled(FORMULAS["slogdet_into"], [const(2), ONE], [square(b, a)])
    both = [b.let(None, b.load(found, [const(k), ZERO])) for k in range(2)]
    return Items(both, type(np.linalg.slogdet(np.eye(1))))


def _symmetric(b: Builder, a: Value) -> tuple[View | Elementwise, View, Expr]:
    x = square(b, a)
    n = b.counted(b.shape(x)[0])
    return x, b.filled(FORMULAS["eigh_into"], [b.whole("add", n, ONE), n], [x]), n


def on_eigh(b: Builder, hint: str | None, a: Value) -> Value:
    x, found, n = _symmetric(b, a)
    values = View(found.base, (At(n), Span()), (1,))
    parts = [_given(b, None, v, x) for v in (values, _part(found, ZERO, n))]
    return Items(parts, type(np.linalg.eigh(np.eye(1))))


def on_eigvalsh(b: Builder, hint: str | None, a: Value) -> Value:
    x, found, n = _symmetric(b, a)
    return _given(b, hint, View(found.base, (At(n), Span()), (1,)), x)


def on_qr(b: Builder, hint: str | None, a: Value, mode: Value | None = None) -> Value:
    which = mode.value if isinstance(mode, Object) else "reduced"
    if which not in ("reduced", "r"):
        b.refuse(f"np.linalg.qr with the mode {which!r}", "reduced")
    x, m, n, k = _matrix(b, a)
    found = b.filled(FORMULAS["qr_into"], [b.whole("add", m, n), k], [x])
    q, r = _part(found, ZERO, m), _part(found, m, n, turned=True)
    if which == "r":
        return _given(b, hint, r, x)
    return Items([_given(b, None, v, x) for v in (q, r)], type(np.linalg.qr(np.eye(1))))


def on_svd(
    b: Builder,
    hint: str | None,
    a: Value,
    full_matrices: Value = _TRUE,
    compute_uv: Value = _TRUE,
) -> Value:
    if not isinstance(full_matrices, Const) or not isinstance(compute_uv, Const):
        b.refuse("np.linalg.svd with settings that are not known")
    x, m, n, k = _matrix(b, a)
    full = full_matrices.value and compute_uv.value and k != m
    wide = b.function("max", [m, n]) if full else k
    rows = b.whole("add", m, n)
    found = b.filled(FORMULAS["svd_into"], [b.whole("add", rows, ONE), wide], [x])
    values = View(found.base, (At(rows), Span(ZERO, k if full else None)), (1,))
    if not compute_uv.value:
        return _given(b, hint, values, x)
    left = _part(found, ZERO, m, m if full else None)
    right = _part(found, m, n, n if full else None, turned=True)
    parts = [_given(b, None, v, x) for v in (left, values, right)]
    return Items(parts, type(np.linalg.svd(np.eye(1))))


def on_svdvals(b: Builder, hint: str | None, x: Value) -> Value:
    return on_svd(b, hint, x, compute_uv=const(False))


def on_lstsq(b: Builder, hint: str | None, a: Value, right: Value, rcond: Value | None = None) -> Value:
    """The shortest solution, and the rank; singular values and what is left are not computed."""
    x, m, n, _ = _matrix(b, a)
    cut = b.make(None, [ONE, ONE], "float64", zeros=False)
    if rcond is None or is_none(rcond):
        b.store(b.load(cut, [ZERO, ZERO]), b.binary("mul", b.function("max", [m, n]), const(_EPS)))
    else:  # below 0 it is what rounding leaves, as LAPACK's
        (least,) = numbers(b, [rcond])
        b.store(
            b.load(cut, [ZERO, ZERO]),
            b.choose(Apply("lt", (b.leaf(least), ZERO)), lambda: const(_EPS), lambda: least, None),
        )
    y = array_of(b, right)
    if b.root(m) != b.root(b.shape(y)[0]):
        message = "lstsq: the matrix and the right side have different lengths"
        b.require(Apply("eq", (b.root(m), b.root(b.shape(y)[0]))), message)
    vector = len(b.shape(y)) == 1
    columns = _as_column(b, y) if vector else y
    c = b.counted(b.shape(columns)[1])
    wide = b.whole("add", b.whole("add", c, ONE), m)
    found = b.filled(FORMULAS["lstsq_into"], [b.whole("add", n, ONE), wide], [x, columns, cut])
    rank = b.function("int", [b.load(found, [n, c])])
    solution = _part(found, ZERO, n, c)
    if vector:
        solution = View(found.base, (Span(ZERO, n), At(ZERO)), (0,))
    return Items([_given(b, None, solution, x, y), Object(_not_computed), rank, Object(_not_computed)])


def _not_computed() -> None:
    """What np.linalg.lstsq gives beside the solution and the rank."""


def on_pinv(b: Builder, hint: str | None, a: Value) -> Value:
    return inlined(b, matrices.pinv, [array_of(b, a)], {})


def on_trace(b: Builder, hint: str | None, a: Value, offset: Value = ZERO) -> Value:
    return inlined(b, matrices.trace, [array_of(b, a), offset], {})


def on_multi_dot(b: Builder, hint: str | None, arrays: Value) -> Value:
    if not isinstance(arrays, Items) or len(arrays.items) < 2:
        b.refuse("np.linalg.multi_dot of what is no list of arrays")
    found = arrays.items[0]
    for x in arrays.items[1:]:
        found = b.dot(found, x, hint)
    return found


FUNCTIONS: dict[str, Callable[..., Value]] = {
    n.removeprefix("on_"): f
    for n, f in list(globals().items())
    if n.startswith("on_") and getattr(f, "__module__", "") == __name__
}

__all__ = ["FUNCTIONS"]
