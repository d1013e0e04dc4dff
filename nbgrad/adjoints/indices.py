"""What an index takes of an array: an element, a part whose own indices are counted from it, or elements at an array of indices."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from nbgrad.adjoints import calls
from nbgrad.adjoints.arrangements import on_flatnonzero
from nbgrad.adjoints.build import Elementwise, Items, Value
from nbgrad.adjoints.copies import Copies
from nbgrad.adjoints.ir import (
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
from nbgrad.adjoints.room import Env


class Indices(Copies):
    def indexed(self, v: Value, e: ast.Subscript, env: Env) -> Load | View | Elementwise:
        if not isinstance(v, View):
            self.refuse("what is indexed is no array", node=e)
        listed: list[Any] = list(e.slice.elts) if isinstance(e.slice, ast.Tuple) else [e.slice]
        if isinstance(e.slice, ast.Name) and isinstance(env.get(e.slice.id), Items):
            listed = env[e.slice.id].items
        news = [self.is_new(p, env) for p in listed]
        if any(news):
            if isinstance(e.ctx, ast.Store):
                self.refuse("np.newaxis where an array is written", "leave it out", e)
            return self.widened(v, listed, news, e, env)
        return self.taken(v, listed, e, env)

    def is_new(self, p: Any, env: Env) -> bool:
        if isinstance(p, ast.Constant):
            return p.value is None
        return isinstance(p, ast.Attribute) and p.attr == "newaxis"

    def is_many(self, p: Any, env: Env) -> bool:
        return isinstance(p, ast.Name) and isinstance(env.get(p.id), View)

    def widened(
        self, v: View, listed: Sequence[Any], news: Sequence[bool], e: ast.Subscript, env: Env
    ) -> Elementwise:
        """With axes of length 1."""
        rest = [p for p, new in zip(listed, news) if not new]
        x: Value = self.taken(v, rest, e, env) if rest else v
        if isinstance(x, Load):
            only = self.let(None, x)
            return Elementwise([ONE] * sum(news), lambda i: only, set(), self.dtype(x))
        keeps: list[bool] = []  # of each axis that comes out: is it one of x?
        shape = self.shape(x)
        given = [p for p in rest if not _is_ellipsis(p)]
        for p, new in zip(listed, news):
            if new:
                keeps.append(False)
            elif _is_ellipsis(p):
                keeps += [True] * (len(v.order) - len(given))
            elif isinstance(p, ast.Slice) or self.is_many(p, env):
                keeps.append(True)
        keeps += [True] * (len(shape) - sum(keeps))
        sizes = iter(shape)
        wide: list[Expr] = [next(sizes) if k else ONE for k in keeps]
        inner = x
        return Elementwise(
            wide,
            lambda i: self.element(inner, [j for j, k in zip(i, keeps) if k]),
            self.bases(x),
            self.dtype(x),
            x.base if isinstance(x, View) else x.of if isinstance(x, Elementwise) else "",
        )

    def taken(self, v: View, listed: Sequence[Any], e: ast.Subscript, env: Env) -> Load | View | Elementwise:
        given = len([p for p in listed if not _is_ellipsis(p)])
        if given > len(v.order):
            self.refuse(f"{given} indices of an array of {len(v.order)} dimensions", node=e)
        axes, order = list(v.axes), []
        many: tuple[int, View] | None = None
        left = list(v.order)
        for p in listed:
            if _is_ellipsis(p):
                free = len(v.order) - given
                order += left[:free]
                left = left[free:]
                continue
            axis = left.pop(0)
            span = axes[axis]
            assert isinstance(span, Span)
            if isinstance(p, ast.Slice):
                axes[axis] = self.sliced(v, axis, span, p, env)
                order.append(axis)
                continue
            x = p if isinstance(p, Expr) else self.value(p, env)
            if isinstance(x, Items):
                x = calls.call(self, "array", [x], {}, None)
            if isinstance(x, View | Elementwise):
                if many is not None or len(self.shape(x)) != 1 or kind_of(self.dtype(x)) == "float":
                    self.refuse(
                        "an index that is an array of more than one dimension, or of floats, or a second one",
                        "loop over it",
                        e,
                    )
                if kind_of(self.dtype(x)) == "bool":
                    self.same(self.length(v, axis), self.shape(x)[0])
                    x = on_flatnonzero(self, None, x)
                many = (axis, x if isinstance(x, View) else self.stored(x))
                order.append(axis)
                continue
            if isinstance(x, Expr) and self.kind(x) == "bool":  # of which NumPy makes a mask
                self.refuse("an index that is a bool", "int(...)", e)
            if not isinstance(x, Expr) or self.kind(x) == "float":
                self.refuse("an index that is no integer", "int(...)", e)
            axes[axis] = At(self.place(v, axis, span, self.settled(x)))
        order += left
        found = View(v.base, tuple(axes), tuple(order))
        if many is not None:
            return self.gathered(v, found, *many)
        return found if order else self.load(found, [])

    def place(self, v: View, axis: int, span: Span, i: Expr) -> Expr:
        """An index of a part of an axis as one of the axis; a negative one counts from the part's end."""
        if span == Span():
            return i
        n = self.length(v, axis)
        if isinstance(i, Const):
            i = self.binary("add", n, i) if i.value < 0 else i
        elif not self.natural(i):
            i = self.let("k", Apply("where", (Apply("lt", (i, ZERO)), Apply("add", (i, n)), i)))
        return self.whole("add", span.low, self.whole("mul", i, const(span.step)))

    def sliced(self, v: View, axis: int, span: Span, p: ast.Slice, env: Env) -> Span:
        if p.lower is None and p.upper is None and p.step is None:
            return span
        step_of = ONE if p.step is None else self.value(p.step, env)
        if not isinstance(step_of, Const) or step_of.value == 0:
            self.refuse("a slice whose step is not a constant", "write a loop", p)
        n, step = self.length(v, axis), step_of.value
        low = self.edge(p.lower, n, env, ZERO if step > 0 else self.whole("sub", n, ONE), step)
        high = self.edge(p.upper, n, env, n if step > 0 else const(-1), step)
        if step > 0:
            gap = self.whole("sub", high, low)
        else:
            gap = self.whole("sub", low, high)
        if abs(step) != 1:
            gap = self.binary("floor_divide", self.binary("add", gap, const(abs(step) - 1)), const(abs(step)))
        sure = low == ZERO or (isinstance(gap, Const) and gap.value >= 0)
        length: Expr = gap if sure and step > 0 else self.binary_max(gap)
        first = self.whole("add", span.low, self.whole("mul", low, const(span.step)))
        first, length = self.settled(first), self.counted(self.settled(length))
        return Span(first, length, span.step * step)

    def binary_max(self, e: Expr) -> Expr:
        return const(max(e.value, 0)) if isinstance(e, Const) else self.let("n", Apply("max", (e, ZERO)))

    def edge(self, p: ast.expr | None, n: Expr, env: Env, default: Expr, step: int) -> Expr:
        """An end of a slice, as Python takes it: from the end if negative, and not beyond."""
        if p is None:
            return default
        top = n if step > 0 else self.whole("sub", n, ONE)
        e = self.settled(self.integer(p, env))
        if isinstance(e, Const):
            if isinstance(n, Const):
                return const(slice(e.value, None, step).indices(n.value)[0])
            if e.value == 0 and step > 0:
                return e
            if e.value < 0:
                return self.let("k", Apply("max", (Apply("add", (n, e)), ZERO if step > 0 else const(-1))))
            return self.let("k", Apply("min", (e, top)))
        if not self.natural(e):
            e = Apply("where", (Apply("lt", (e, ZERO)), Apply("add", (e, n)), e))
            e = Apply("max", (e, ZERO if step > 0 else const(-1)))
        return self.let("k", Apply("min", (e, top)))

    def gathered(self, v: View, rest: View, axis: int, index: View) -> Elementwise:
        """v[..., indices, ...]"""
        at = rest.order.index(axis)
        span = rest.axes[axis]
        assert isinstance(span, Span)
        shape = self.shape(rest)
        shape[at] = self.shape(index)[0]

        def element(i: list[Expr]) -> Expr:
            k = self.let("k", self.load(index, [i[at]]))
            place = self.place(v, axis, span, k)
            axes = (*rest.axes[:axis], At(place), *rest.axes[axis + 1 :])
            order = tuple(o for o in rest.order if o != axis)
            return self.load(View(rest.base, axes, order), [*i[:at], *i[at + 1 :]])

        return Elementwise(shape, element, {v.base, index.base}, self.dtype(v))


def _is_ellipsis(p: Any) -> bool:
    return isinstance(p, ast.Constant) and p.value is Ellipsis


__all__ = ["Indices"]
