"""Functions along an axis: of each row a number, or a row again; what they are of one row is in `library` and `matrices`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nbgrad.adjoints import library
from nbgrad.adjoints.arrangements import array_of, axis_of, inlined, on_flatten
from nbgrad.adjoints.build import Builder, Elementwise, Items, Object, Value, is_array
from nbgrad.adjoints.ir import ONE, At, Expr, View, const

Array = View | Elementwise


def axes_of(b: Builder, axis: Value, rank: int) -> list[int]:
    """One axis or several, in their order."""
    given = axis.items if isinstance(axis, Items) else [axis]
    axes = sorted(axis_of(b, k, rank) for k in given)
    if not axes or len({*axes}) < len(axes):
        b.refuse("axes that are none, or not each another")
    return axes


def row_at(b: Builder, x: Array, axes: Sequence[int], i: Sequence[Expr]) -> Elementwise:
    """What of an array lies along axes, where the others have the indices `i`."""
    shape = b.shape(x)

    def element(k: list[Expr]) -> Expr:
        own, others = iter(k), iter(i)
        return b.element(x, [next(own) if axis in axes else next(others) for axis in range(len(shape))])

    return Elementwise([shape[k] for k in axes], element, b.bases(x), b.dtype(x))


def reduced(b: Builder, hint: str | None, x: Array, axis: Value, f: Callable[[Any], Value]) -> Value:
    """The number that a function gives of each row along an axis, or of what lies along several."""
    shape = b.shape(x)
    axes = axes_of(b, axis, len(shape))
    if len(axes) == len(shape):
        return f(x)
    around, b.block = b.block, []
    left = [n for k, n in enumerate(shape) if k not in axes]
    found = f(row_at(b, x, axes, [const(0)] * len(left)))  # one, which is thrown away, for its dtype
    b.block = around
    of = b.dtype(x) if isinstance(found, Expr) and b.kind(found) == "float" == _kind(b, x) else b.dtype(found)
    made = b.make(hint, left, of, zeros=False)

    def row(i: list[Expr]) -> None:
        e = f(row_at(b, x, axes, i))
        if not isinstance(e, Expr):
            b.refuse("more than a number of each row", "a loop")
        b.store(b.load(made, i), e)

    b.nest(b.shape(made), row)
    return made


def _kind(b: Builder, x: Array) -> str:
    return "float" if b.dtype(x).startswith("float") else ""


def kept(b: Builder, x: Value, v: Value, axis: Value | None, keepdims: Value | None) -> Value:
    """A reduction's result, with axes of length 1 for those that are gone."""
    if keepdims is None or keepdims == const(False):
        return v
    rank = len(b.shape(x))
    if axis is None or not isinstance(v, View):
        e = v
        assert isinstance(e, Expr)
        return Elementwise([ONE] * rank, lambda i: e, set(), b.dtype(v))
    axes, array, shape = axes_of(b, axis, rank), v, iter(b.shape(v))
    wide = [ONE if k in axes else next(shape) for k in range(rank)]
    return Elementwise(
        wide,
        lambda i: b.load(array, [at for k, at in enumerate(i) if k not in axes]),
        b.bases(v),
        b.dtype(v),
    )


def turned_to(b: Builder, hint: str | None, x: Array, axis: Value, f: Callable[[Any], Value]) -> Value:
    """The rows that a function gives of those along an axis, which are as long."""
    shape = b.shape(x)
    at = axis_of(b, axis, len(shape))
    if len(shape) == 1:
        return f(x)
    others = [n for k, n in enumerate(shape) if k != at]
    around, b.block = b.block, []
    found = f(row_at(b, x, [at], [const(0)] * len(others)))
    b.block = around
    made = b.make(hint, shape, b.dtype(found), zeros=False)

    def row(i: list[Expr]) -> None:
        places = iter(i)
        axes = tuple(span if k == at else At(next(places)) for k, span in enumerate(made.axes))
        b.assign(View(made.base, axes, (at,)), f(row_at(b, x, [at], i)))

    b.nest(others, row)
    return made


@dataclass(frozen=True)
class Along:
    of: Callable[..., Any]  # what it is of one row, or of all
    at: int = 1  # the place of the axis among the arguments
    axis: int | None = None  # where none is given; None of all
    rows: bool = False  # does it give a row?


def call(b: Builder, hint: str | None, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    of, named = ALONG[name], {**named}
    axis = named.pop("axis", None if of.axis is None else const(of.axis))
    if len(args) > of.at:
        axis, args = args[of.at], [*args[: of.at], *args[of.at + 1 :]]
    keepdims = None if of.rows else named.pop("keepdims", None)
    first = next(iter(inspected(of.of)))
    given = args[0] if args else named.pop(first, None)
    if given is None:
        b.refuse(f"the arguments of {name}: it has no array")
    x, more = array_of(b, given), args[1:]
    if isinstance(axis, Object) and axis.value is None:
        axis = None
    own: Callable[[Value], Value] = lambda row: inlined(b, of.of, [row, *more], named)  # noqa: E731
    rank = len(b.shape(x))
    if axis is None and of.rows and rank > 1 and name not in _SHAPED:
        x, rank = on_flatten(b, None, x), 1
    if axis is None or (rank == 1 and not isinstance(axis, Items)):
        if axis is not None:
            axis_of(b, axis, rank)
        return kept(b, x, own(x), axis, keepdims)
    beside = [v for v in (*more, *named.values()) if is_array(v) and len(b.shape(v)) > 1]
    if beside:
        b.refuse(f"{name} along an axis, with another array of more than one dimension", "a loop")
    if of.rows:
        return turned_to(b, hint, x, axis, own)
    return kept(b, x, reduced(b, hint, x, axis, own), axis, keepdims)


def inspected(f: Callable[..., Any]) -> Sequence[str]:
    return f.__code__.co_varnames[: f.__code__.co_argcount]


_SHAPED = {"roll"}  # which have the array's shape where no axis is given
ALONG: dict[str, Along] = {
    **{n: Along(getattr(library, n)) for n in ("median", "ptp", "argmin", "argmax", "average", "std", "var")},
    **{n: Along(getattr(library, n)) for n in ("nansum", "nanmean", "nanmax", "nanmin", "nanprod", "nanstd")},
    **{n: Along(getattr(library, n)) for n in ("nanvar", "nanmedian", "nanargmin", "nanargmax")},
    **{n: Along(getattr(library, n), 2) for n in ("percentile", "quantile", "nanpercentile", "nanquantile")},
    **{n: Along(library.trapezoid, 3, -1) for n in ("trapezoid", "trapz")},
    **{n: Along(getattr(library, n), rows=True) for n in ("cumsum", "cumprod", "nancumsum", "nancumprod")},
    **{n: Along(getattr(library, n), 1, -1, True) for n in ("sort", "argsort")},
    **{n: Along(getattr(library, n), 2, -1, True) for n in ("partition", "argpartition")},
    "roll": Along(library.roll, 2, rows=True),
}

__all__ = ["ALONG", "call", "kept", "reduced", "turned_to"]
