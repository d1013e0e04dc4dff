"""What an index takes of an array: an element, a part whose own indices are counted from it, or elements at an array of indices."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import Any

from nbgrad.adjoints import calls
from nbgrad.adjoints.arrangements import on_nonzero
from nbgrad.adjoints.build import Elementwise, Items, Object, Value, is_array, is_none
from nbgrad.adjoints.firsts import Firsts
from nbgrad.adjoints.ir import (
    ONE,
    ZERO,
    Apply,
    At,
    Const,
    Expr,
    Load,
    Name,
    Span,
    View,
    const,
    kind_of,
)
from nbgrad.adjoints.room import Env


class Indices(Firsts):
    def indexed(self, v: Value, e: ast.Subscript, env: Env) -> Load | View | Elementwise:
        """v[...]: an element, a view, or, of arrays of indices and with new axes, what stands at their places."""
        if not isinstance(v, View):
            self.refuse("what is indexed is no array", node=e)
        return self.taken(v, self.parts(v, e, env), e, env)

    def taken(self, v: View, parts: Sequence[Any], e: ast.Subscript, env: Env) -> Load | View | Elementwise:
        given = len([p for p in parts if not _is(p, None) and not _is(p, ...)])
        if given > len(v.order):
            self.refuse(f"{given} indices of an array of {len(v.order)} dimensions", node=e)
        axes, left = list(v.axes), list(v.order)
        outs: list[int | None] = []  # the axes that come out, None for new ones
        many: dict[int, View | Elementwise] = {}  # axes with an array of indices
        lone: list[
            tuple[int, int]
        ] = []  # of what is no slice, its place among the parts and among what comes out
        for k, p in enumerate(parts):
            if _is(p, None):
                outs.append(None)
                continue
            if _is(p, ...):
                free = len(left) - len([q for q in parts[k + 1 :] if not _is(q, None)])
                outs += left[:free]
                left = left[free:]
                continue
            axis = left.pop(0)
            span = axes[axis]
            assert isinstance(span, Span)
            if isinstance(p, ast.Slice | Items):
                axes[axis] = self.sliced(v, axis, span, p, env)
                outs.append(axis)
                continue
            lone.append((k, len(outs)))
            if is_array(p):
                many[axis] = p
            else:
                axes[axis] = At(self.place(v, axis, span, self.settled(p)))
        outs += left
        found = View(v.base, tuple(axes), tuple(o for o in outs if o is not None))
        if None in outs and isinstance(e.ctx, ast.Store):
            self.refuse("np.newaxis where an array is written", "leave it out", e)
        if many or None in outs:
            together = all(q - p == 1 for (p, _), (q, _) in itertools.pairwise(lone))
            return self.gathered(v, found, outs, many, lone[0][1] if many and together else 0)
        return found if outs else self.load(found, [])

    def parts(self, v: View, e: ast.Subscript, env: Env) -> list[Any]:
        """What stands between the commas, a mask as the indices of what it takes, one array for each of its axes."""
        given: list[Any] = []
        for node in e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]:
            given += [node] if isinstance(node, ast.Slice) else self.operands([node], env)
        if (
            not isinstance(e.slice, ast.Tuple)
            and isinstance(given[0], Items)
            and given[0].of not in (list, slice)
        ):
            given = given[0].items
        listed = [isinstance(p, Items) and p.of is not slice for p in given]
        given = [calls.call(self, "array", [p], {}, None) if of else p for p, of in zip(given, listed)]
        takes = [self.takes(p) for p in given]
        found: list[Any] = []
        for k, p in enumerate(given):
            if not takes[k] or isinstance(p, ast.Slice | Items):
                found.append(p)
                continue
            if not isinstance(p, Expr | View | Elementwise) or kind_of(self.dtype(p)) == "float":
                was = self.was_float.get(p.name) if isinstance(p, Name) else None
                self.refuse(f"an index that is no integer{f': {was}' if was else ''}", "int(...)", e)
            if kind_of(self.dtype(p)) == "int":
                found.append(self.stored(p) if isinstance(p, Elementwise) else p)
            elif isinstance(p, Expr):  # of which NumPy makes a mask
                self.refuse("an index that is a bool", "int(...)", e)
            else:
                from_end = any(_is(q, ...) for q in given[:k])
                first = len(v.order) - sum(takes[k:]) if from_end else sum(takes[:k])
                for axis, n in zip(v.order[max(first, 0) :], self.shape(p)):
                    self.same(self.length(v, axis), n)
                found += on_nonzero(self, None, p).items
        return found

    def takes(self, p: Any) -> int:
        """How many axes an index is of."""
        if _is(p, None) or _is(p, ...):
            return 0
        return len(self.shape(p)) if is_array(p) and kind_of(self.dtype(p)) == "bool" else 1

    def gathered(
        self, v: View, rest: View, outs: Sequence[int | None], many: dict[int, View | Elementwise], at: int
    ) -> Elementwise:
        """v[..., indices, ..., None]: the axes that all indices together give come at the place `at`."""
        group = self.together([*many.values()]) if many else []
        wide: list[Expr] = [ONE if o is None else self.length(rest, o) for o in outs]

        def element(i: list[Expr]) -> Expr:
            own, others = i[at : at + len(group)], [*i[:at], *i[at + len(group) :]]
            axes = list(rest.axes)
            for axis, index in many.items():
                span = axes[axis]
                assert isinstance(span, Span)
                axes[axis] = At(self.place(v, axis, span, self.let("k", self.element(index, own))))
            inner = [j for j, o in zip(others, outs) if o is not None]
            return self.load(View(rest.base, tuple(axes), rest.order), inner)

        bases = set().union({v.base}, *map(self.bases, many.values()))
        shape = [*wide[:at], *group, *wide[at:]]
        return Elementwise(shape, element, bases, self.dtype(v), "" if many else v.base)

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

    def sliced(self, v: View, axis: int, span: Span, p: ast.Slice | Items, env: Env) -> Span:
        """Of a slice as it is written, or of an object that is one."""
        node = p if isinstance(p, ast.Slice) else None
        given = [p.lower, p.upper, p.step] if isinstance(p, ast.Slice) else p.items
        ends = [x if x is None or not isinstance(x, ast.expr) else self.value(x, env) for x in given]
        lower, upper, by = [None if x is None or is_none(x) else x for x in ends]
        if lower is None and upper is None and by is None:
            return span
        step_of = ONE if by is None else by
        if not isinstance(step_of, Const) or step_of.value == 0:
            self.refuse("a slice whose step is not a constant", "write a loop", node)
        n, step = self.length(v, axis), step_of.value
        low = self.edge(lower, n, ZERO if step > 0 else self.whole("sub", n, ONE), step, node)
        high = self.edge(upper, n, n if step > 0 else const(-1), step, node)
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

    def edge(self, x: Value | None, n: Expr, default: Expr, step: int, node: ast.AST | None) -> Expr:
        """An end of a slice, as Python takes it: from the end if negative, and not beyond."""
        if x is None:
            return default
        top = n if step > 0 else self.whole("sub", n, ONE)
        e = self.settled(self.whole_number(x, node))
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


def _is(p: Any, what: Any) -> bool:
    return isinstance(p, Object) and p.value is what


__all__ = ["Indices"]
