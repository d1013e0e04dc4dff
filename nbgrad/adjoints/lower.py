"""From a function's text to a `Program`: names become single assignments, views indices, array expressions loops, calls what they call.

Promises the passes what `ir.py` says, and users that what is not taken is refused with its file and line. Types are not asked of Numba:
bool, int and float follow from the arguments; a loop is lowered again when a name that it carries turns out to be more than it was.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import math
import textwrap
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbgrad.adjoints import calls, exits, ops
from nbgrad.adjoints.build import Builder, Elementwise, Items, Object, Value, is_array, is_scalar
from nbgrad.adjoints.ir import (
    FLOAT_ZERO,
    ONE,
    ZERO,
    Apply,
    Array,
    At,
    Block,
    Branch,
    Const,
    Expr,
    Extent,
    Load,
    Loop,
    Name,
    Program,
    Raise,
    Span,
    View,
    const,
    is_leaf,
    kind_of,
    loads,
    names,
    whole,
)

_BINARY: dict[type, str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide"},
    **{ast.Mod: "remainder", ast.Pow: "pow", ast.BitAnd: "bit_and", ast.BitOr: "bit_or"},
    **{ast.BitXor: "bit_xor", ast.LShift: "lshift", ast.RShift: "rshift"},
}
_COMPARE: dict[type, str] = {
    **{ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"},
    **{ast.Is: "eq", ast.IsNot: "ne"},
}
_RISES = 6  # how often a loop is lowered again: each time a carried name has become more
_DEEP = 40  # calls inside of calls

Env = dict[str, Any]
_OUTER = "@outer"  # in an environment: names that are bound outside of the block

_WORDS = {"np", "math", "max", "min", "abs", "range", "reserve", "float", "int", "bool", "len", "u", "round"}


@dataclass(frozen=True)
class Scalar:
    """An argument that is a number: bool, int or float."""

    kind: str

    @property
    def differentiable(self) -> bool:
        return self.kind == "float"


@dataclass(frozen=True)
class ArrayOf:
    rank: int
    dtype: str

    @property
    def differentiable(self) -> bool:
        return kind_of(self.dtype) == "float"


@dataclass(frozen=True)
class TupleOf:
    items: tuple[Any, ...]
    fields: tuple[str, ...] = ()
    differentiable = True


@dataclass(frozen=True)
class Known:
    """An argument that is part of the function: None, a string, a function."""

    value: Any
    differentiable = False


Kind = Scalar | ArrayOf | TupleOf | Known


def lower(fn: Callable[..., Any], kinds: Sequence[Kind], called: Callable[[Any], Any]) -> Program:
    """`called` gives the plain function behind what is called: a compiled one, a differentiable one."""
    taken = {*_WORDS, *keyword.kwlist}
    program = Program(fn.__name__, [], [], [], True, {}, {}, {}, taken)
    return _Lowering(program, called).lowered(fn, kinds)


class _Lowering(Builder):
    def __init__(self, program: Program, called: Callable[[Any], Any]) -> None:
        super().__init__(program)
        self.called = called
        self.stack: list[Any] = []
        self.following: list[Sequence[ast.stmt]] = []  # statements after those that we are in, innermost last
        self.scope: dict[str, Any] = {}

    # ------------------------------------------------ functions

    def lowered(self, fn: Callable[..., Any], kinds: Sequence[Kind]) -> Program:
        p = self.program
        tree = self.parse(fn)
        params = self.parameters(tree)
        env: Env = {name: self.parameter(name, kind) for name, kind in zip(params, kinds)}
        self.stack.append(fn)
        self.statements(exits.structured(tree.body), env)
        result = env.get(exits.RESULT, Object(None))
        p.single = not isinstance(result, Items)
        self.node = None
        for r in result.items if isinstance(result, Items) else [result]:
            if isinstance(r, Elementwise):
                r = self.stored(r)
            if isinstance(r, Apply | Load):  # before what is written later
                r = self.let("value", r)
            if isinstance(r, Expr | View):
                p.results.append(r)
            elif not (isinstance(r, Object) and r.value is None):
                self.refuse("a result that is neither a number nor an array", node=tree)
        return p

    def parse(self, fn: Callable[..., Any]) -> ast.FunctionDef:
        try:
            lines, first = inspect.getsourcelines(fn)
        except (OSError, TypeError):
            self.refuse(f"{getattr(fn, '__name__', fn)} has no source that can be read", "write it to a file")
        code = fn.__code__
        self.file = code.co_filename
        try:
            tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        except SyntaxError:
            self.refuse(f"the source of {fn.__name__} is part of a statement", "use def")
        ast.increment_lineno(tree, first - 1)
        if not isinstance(tree, ast.FunctionDef):
            self.refuse("a lambda or a class", "use def", tree)
        if inspect.isgeneratorfunction(fn):
            self.refuse(f"{fn.__name__} is a generator", "write its values to an array", tree)
        self.scope = {**vars(builtins), **fn.__globals__}
        for name, cell in zip(code.co_freevars, fn.__closure__ or ()):
            with suppress(ValueError):  # not set yet
                self.scope[name] = cell.cell_contents
        return tree

    def parameters(self, tree: ast.FunctionDef) -> list[str]:
        a = tree.args
        if a.vararg or a.kwarg:
            self.refuse(f"{tree.name} takes *args or **kwargs", "name its parameters", tree)
        return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]

    def parameter(self, name: str, kind: Kind) -> Value:
        p = self.program
        if isinstance(kind, Known):
            return self.wrapped(kind.value)
        if isinstance(kind, TupleOf):
            labels = kind.fields or tuple(map(str, range(len(kind.items))))
            return Items(
                [self.parameter(f"{name}_{label}", k) for label, k in zip(labels, kind.items)], kind.fields
            )
        own = p.fresh(name)
        p.params.append(own)
        if isinstance(kind, Scalar):
            p.kinds[own] = kind.kind
            return Name(own)
        p.arrays[own] = Array(kind.rank, kind.dtype, None)
        return whole(own, kind.rank)

    def inline(self, fn: Any, args: Sequence[Value], named: dict[str, Value]) -> Value:
        """What a call computes, written out at the call."""
        if fn in self.stack:
            self.refuse(f"{fn.__name__} calls itself", "write a loop with a stack of its own")
        if len(self.stack) > _DEEP:
            self.refuse("calls too deep")
        try:
            bound = inspect.signature(fn).bind(*args, **named)
        except TypeError as error:
            self.refuse(f"{fn.__name__}(): {error}")
        before = self.scope, self.file, self.following, self.node
        tree = self.parse(fn)
        names_of = self.parameters(tree)
        bound.apply_defaults()
        env: Env = {}
        for name in names_of:
            x = bound.arguments[name]
            x = x if isinstance(x, Expr | View | Elementwise | Items | Object) else self.wrapped(x)
            if isinstance(x, Elementwise):
                x = self.stored(x, name)
            elif isinstance(x, Apply | Load):
                x = self.let(name, x)
            env[name] = x
        self.stack.append(fn)
        self.following = []
        self.statements(exits.structured(tree.body), env)
        self.stack.pop()
        self.scope, self.file, self.following, self.node = before
        return env.get(exits.RESULT, Object(None))

    def wrapped(self, x: Any) -> Value:
        """What an object of Python's is here."""
        if isinstance(x, bool | int | float):
            return const(x)
        if isinstance(x, np.bool_ | np.integer | np.floating):
            return const(x.item())
        if isinstance(x, tuple):
            return Items([self.wrapped(i) for i in x], getattr(x, "_fields", ()))
        return Object(x)

    # ------------------------------------------------ statements

    def statements(self, body: Sequence[ast.stmt], env: Env) -> None:
        for k, s in enumerate(body):
            self.node = s
            method: Any = getattr(self, "on_" + type(s).__name__, None)
            if method is None:
                self.refuse(*_INSTEAD.get(type(s), (f"{type(s).__name__.lower()} is not taken", "")))
            self.following.append(body[k + 1 :])
            method(s, env)
            self.following.pop()

    def on_Pass(self, s: ast.Pass, env: Env) -> None:
        pass

    def on_Expr(self, s: ast.Expr, env: Env) -> None:
        if not isinstance(s.value, ast.Constant):
            self.value(s.value, env)

    def on_Assert(self, s: ast.Assert, env: Env) -> None:
        test = self.truth(self.scalar(s.test, env))
        message = s.msg.value if isinstance(s.msg, ast.Constant) else ""
        if not (isinstance(test, Const) and test.value):
            failed = self.let("c", Apply("not", (test,)))
            self.block.append(Branch(failed, [Raise(f"AssertionError({message!r})")], [], []))

    def on_Raise(self, s: ast.Raise, env: Env) -> None:
        called = s.exc
        args = called.args if isinstance(called, ast.Call) else []
        made = called.func if isinstance(called, ast.Call) else called
        known = isinstance(made, ast.Name) and isinstance(vars(builtins).get(made.id), type)
        if not known or not all(isinstance(a, ast.Constant) for a in args):
            self.refuse("this exception", "raise one of Python's own, with constants")
        self.block.append(Raise(ast.unparse(called)))  # type: ignore[arg-type]

    def on_AnnAssign(self, s: ast.AnnAssign, env: Env) -> None:
        if s.value is not None:
            self.bind(s.target, self.value(s.value, env, getattr(s.target, "id", None)), env)

    def on_Assign(self, s: ast.Assign, env: Env) -> None:
        target = s.targets[0]
        x = self.value(s.value, env, target.id if isinstance(target, ast.Name) else None)
        if isinstance(x, Items) and isinstance(target, ast.Tuple | ast.List):  # a, b = b, a: loads first
            read = [self.let(None, i) if isinstance(i, Expr) and loads(i) else i for i in x.items]
            stays = all(isinstance(t, ast.Name) for t in target.elts)
            x = Items([i if stays or not isinstance(i, View) else self.stored(i) for i in read])
        for t in s.targets:
            self.bind(t, x, env)

    def bind(self, t: ast.expr, x: Value, env: Env) -> None:
        if isinstance(t, ast.Name):
            env[t.id] = self.bound(t.id, x, env)
        elif isinstance(t, ast.Tuple | ast.List):
            items = self.unpacked(x, len(t.elts))
            for target, item in zip(t.elts, items):
                self.bind(target, item, env)
        elif isinstance(t, ast.Subscript):
            self.write(t, x, env)
        elif isinstance(t, ast.Attribute):
            self.refuse("an attribute is set", "return the value")
        else:
            self.refuse("this target")

    def bound(self, name: str, x: Value, env: Env) -> Value:
        if isinstance(x, Elementwise):
            x = self.stored(x, name)
        if isinstance(x, Expr) and not is_leaf(x):
            x = self.let(name, x)
        if isinstance(x, Items):
            x = Items([self.bound(name, i, {}) if not is_leaf(i) else i for i in x.items], x.fields)
        old = env.get(name)
        if isinstance(x, View) and isinstance(old, View) and x != old and name in env.get(_OUTER, ()):
            self.refuse(
                f"the array {name} is bound anew in a loop or branch", f"copy into it: {name}[:] = ..."
            )
        return x

    def unpacked(self, x: Value, n: int) -> list[Any]:
        if isinstance(x, Elementwise):
            x = self.stored(x)
        if isinstance(x, View):
            length = self.root(self.shape(x)[0])
            if isinstance(length, Const) and length.value != n:
                self.refuse(f"{length} values are unpacked into {n} names")
            if not isinstance(length, Const):
                self.require(Apply("eq", (length, const(n))), f"an array of {n} is needed to unpack")
            items = [self.item(x, const(k)) for k in range(n)]
            return [self.let(None, i) if isinstance(i, Load) else i for i in items]
        if not isinstance(x, Items) or len(x.items) != n:
            self.refuse(f"this cannot be unpacked into {n} names")
        return x.items

    def write(self, t: ast.Subscript, x: Value, env: Env) -> None:
        v = self.indexed(self.value(t.value, env), t, env)
        if isinstance(v, Elementwise):
            self.scatter(v, x)
        elif isinstance(v, Load):
            if not isinstance(x, Expr):
                self.refuse("an array is written where one number stands")
            self.store(v, x)
        elif isinstance(v, View):
            self.assign(v, x)
        else:
            self.refuse("what is written to is no array")

    def scatter(self, v: Elementwise, x: Value) -> None:
        """a[indices] = x"""
        if not isinstance(x, Expr) and (v.bases & self.bases(x)):
            assert isinstance(x, View | Elementwise)
            x = self.stored(x)
        if not isinstance(x, Expr):
            self.fits(v.shape, self.shape(x))
        e = self.read_once(x)

        def put(i: list[Expr]) -> None:
            at = v.element(i)
            assert isinstance(at, Load)
            self.store(at, self.element(e, i))

        self.nest(v.shape, put)

    def on_AugAssign(self, s: ast.AugAssign, env: Env) -> None:
        target = s.target
        if isinstance(s.op, ast.MatMult):
            self.refuse("@= is not taken", "write a[:] = a @ b")
        if isinstance(target, ast.Name) and not isinstance(env.get(target.id), View):
            read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            self.bind(target, self.arithmetic(s.op, [read, s.value], env, target.id), env)
            return
        op = _BINARY[type(s.op)]
        before: Value | None = None
        if isinstance(target, ast.Name):
            v: Value = env[target.id]
        elif isinstance(target, ast.Subscript):
            v = self.indexed(self.value(target.value, env), target, env)
        else:
            self.refuse("an attribute is set", "return the value")
        if isinstance(v, Elementwise):
            self.refuse(
                "an array is changed at an array of indices, some of which may be equal", "write a loop"
            )
        if self.has_call(s.value, env) and isinstance(v, Load):
            before = self.let(None, v)  # as it is before the call writes to it
        x = self.value(s.value, env)
        if isinstance(v, Load):
            if not isinstance(x, Expr):
                self.refuse("an array is added to one number")
            if before is not None:
                assert isinstance(before, Expr)
                self.store(v, self.binary(op, before, x))
            else:
                self.change(v, op, x)
            return
        assert isinstance(v, View)
        if isinstance(x, Items | Object):
            self.refuse("something that is neither a number nor an array is added to an array")
        if is_array(x) and v.base in self.bases(x):
            assert isinstance(x, View | Elementwise)
            x = self.stored(x)
        if is_array(x):
            self.fits(self.shape(v), self.shape(x))
        view, e = v, self.read_once(x)
        self.nest(self.shape(v), lambda i: self.change(self.load(view, i), op, self.element(e, i)))

    def change(self, at: Load, op: str, e: Expr) -> None:
        if op == "add":
            self.add(at, e)
        elif op == "sub":
            self.add(at, ops.negated(e))
        else:
            self.store(at, self.binary(op, at, e))

    def on_If(self, s: ast.If, env: Env) -> None:
        test = self.truth(self.scalar(s.test, env))
        if isinstance(test, Const):
            self.statements(s.body if test.value else s.orelse, env)
            return
        if not isinstance(test, Name):
            test = self.let("c", test)
        around = self.block
        sides: list[tuple[Block, Env]] = []
        for body in (s.body, s.orelse):
            inner = {**env, _OUTER: set(env)}
            self.block = []
            self.statements(body, inner)
            sides.append((self.block, inner))
        self.block = around
        (then, left), (other, right) = sides
        branch = Branch(test, then, other, [])
        for name in [*left, *(n for n in right if n not in left)]:
            if name != _OUTER:
                self.after_branch(name, left.get(name), right.get(name), env, branch)
        around.append(branch)

    def after_branch(self, name: str, a: Any, b: Any, env: Env, branch: Branch) -> None:
        if a is b or (type(a) is type(b) and isinstance(a, Expr | View) and a == b):
            env[name] = a
        elif a is not None and b is not None:
            env[name] = self.merged(name, a, b, branch)
        elif exits.is_own(name) or self.read_later(name):
            x = a if a is not None else b
            zero = self.zero_like(x)
            if zero is None:  # an array: where it is not set, it is not read
                env[name] = x
            else:
                first, second = (x, zero) if b is None else (zero, x)
                env[name] = self.merged(name, first, second, branch)

    def zero_like(self, x: Value) -> Value | None:
        if isinstance(x, Expr):
            return _zero(self.kind(x))
        if isinstance(x, Items) and all(isinstance(i, Expr) for i in x.items):
            return Items([_zero(self.kind(i)) for i in x.items], x.fields)
        return None

    def merged(self, name: str, a: Any, b: Any, branch: Branch) -> Value:
        if isinstance(a, Expr) and isinstance(b, Expr):
            own = self.fresh(name)
            self.program.kinds[own] = ops.join(self.kind(a), self.kind(b))
            if self.program.kinds[own] == "int" and self.natural(a) and self.natural(b):
                self.program.natural.add(own)
            branch.merged.append((own, a, b))
            return Name(own)
        if isinstance(a, Items) and isinstance(b, Items) and len(a.items) == len(b.items):
            pairs = zip(a.items, b.items)
            return Items(
                [
                    x if x is y or (is_leaf(x) and x == y) else self.merged(name, x, y, branch)
                    for x, y in pairs
                ],
                a.fields,
            )
        if type(a) is type(b) and (a is b or a == b):
            return a
        if exits.is_own(name) or self.read_later(name):
            what = "what is returned" if exits.is_own(name) else name
            if isinstance(a, Object) or isinstance(b, Object):
                self.refuse(f"{what} is set in one branch and not, or to another kind, in the other")
            self.refuse(f"{what} is one array or another, as a branch decides", "copy into one array in both")
        return a

    def read_later(self, name: str) -> bool:
        return any(name in exits.read_first(rest)[0] for rest in self.following)

    def on_While(self, s: ast.While, env: Env) -> None:
        if s.orelse:
            self.refuse("else after a loop", "set a name before break")
        self.loop(s, env, None)

    def on_For(self, s: ast.For, env: Env) -> None:
        if s.orelse:
            self.refuse("else after a loop", "set a name before break")
        called = s.iter.func if isinstance(s.iter, ast.Call) else None
        named = isinstance(called, ast.Name) or getattr(called, "attr", "") == "prange"
        known = self.value(called, env) if named and called is not None else None
        of = known.value if isinstance(known, Object) else None
        if getattr(of, "__name__", "") == "prange":
            of = range
        if of is reversed and isinstance(s.iter, ast.Call):
            inner = s.iter.args[0]
            if isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "range":
                start, step, count = self.range_of(inner.args, env)
                start = self.whole(
                    "add", start, self.whole("mul", self.whole("sub", count, ONE), const(step))
                )
                self.loop(s, env, (start, -step, count, lambda i, e: self.bind(s.target, i, e)))
                return
            self.refuse("reversed of something else than a range", "index from the end")
        if of is range and isinstance(s.iter, ast.Call):
            start, step, count = self.range_of(s.iter.args, env)
            self.loop(s, env, (start, step, count, lambda i, e: self.bind(s.target, i, e)))
            return
        if of in (zip, enumerate) and isinstance(s.iter, ast.Call):
            sequences = [self.value(a, env) for a in s.iter.args]
            first: Expr = ZERO
            if of is enumerate and (len(sequences) > 1 or s.iter.keywords):
                given = sequences[1] if len(sequences) > 1 else self.value(s.iter.keywords[0].value, env)
                assert isinstance(given, Expr)
                first, sequences = given, sequences[:1]
            tuples = [q.items for q in sequences if isinstance(q, Items)]
            if len(tuples) == len(sequences):
                rows = list(zip(*tuples))
                items = [
                    Items([self.whole("add", first, const(k)), r[0]]) if of is enumerate else Items(list(r))
                    for k, r in enumerate(rows)
                ]
                self.unrolled(s, items, env)
                return
            stored = [self.sequence(q) for q in sequences]
            count = self.shape(stored[0])[0]
            for q in stored[1:]:
                count = self.shorter(count, self.shape(q)[0])

            def row(i: Expr) -> Items:
                at = [self.item(q, i, True) for q in stored]
                return Items([self.whole("add", first, i), at[0]] if of is enumerate else at)

            self.loop(s, env, (ZERO, 1, count, lambda i, e: self.bind(s.target, row(i), e)))
            return
        x = self.value(s.iter, env)
        if isinstance(x, Items):
            self.unrolled(s, x.items, env)
            return
        v = self.sequence(x)
        self.loop(
            s, env, (ZERO, 1, self.shape(v)[0], lambda i, e: self.bind(s.target, self.item(v, i, True), e))
        )

    def shorter(self, a: Expr, b: Expr) -> Expr:
        if self.root(a) == self.root(b):
            return a
        return self.let("n", Apply("min", (a, b)))

    def sequence(self, x: Value) -> View:
        if isinstance(x, Elementwise):
            return self.stored(x)
        if not isinstance(x, View):
            self.refuse("a loop over something else than a range, an array or a tuple")
        return x

    def unrolled(self, s: ast.For, items: Sequence[Value], env: Env) -> None:
        if exits.flag_of(s):
            self.refuse("break or return in a loop over a tuple", "index an array")
        for x in items:
            self.bind(s.target, x, env)
            self.statements(s.body, env)

    def range_of(self, args: Sequence[ast.expr], env: Env) -> tuple[Expr, int, Expr]:
        given = [self.settled(self.integer(a, env)) for a in args]
        start, stop = (ZERO, given[0]) if len(given) == 1 else (given[0], given[1])
        step = given[2] if len(given) == 3 else ONE
        if not isinstance(step, Const) or step.value == 0:
            self.refuse("a range whose step is not a constant", "count from 0 and multiply")
        k = step.value
        gap = self.whole("sub", stop, start) if k > 0 else self.whole("sub", start, stop)
        if abs(k) != 1:
            gap = self.binary("floor_divide", self.binary("add", gap, const(abs(k) - 1)), const(abs(k)))
        if isinstance(gap, Apply) and all(isinstance(a, Const) for a in gap.args):
            gap = ops.folded(gap.op, [a for a in gap.args if isinstance(a, Const)]) or gap
        if isinstance(gap, Const):
            return start, k, const(max(gap.value, 0))
        return start, k, gap if self.natural(gap) else self.let("n", Apply("max", (gap, ZERO)))

    def item(self, v: View, i: Expr, loaded: bool = False) -> Value:
        """v[i], i being in range; a name for a number where it is to be bound."""
        axis, rest = v.order[0], v.order[1:]
        span = v.axes[axis]
        assert isinstance(span, Span)
        at = self.whole("add", span.low, self.whole("mul", i, const(span.step)))
        axes = (*v.axes[:axis], At(at), *v.axes[axis + 1 :])
        if rest:
            return View(v.base, axes, rest)
        at_all = Load(v.base, tuple(a.index for a in axes if isinstance(a, At)))
        return self.let("x", at_all) if loaded else at_all

    # ------------------------------------------------ loops

    def loop(
        self, s: Any, env: Env, counted: tuple[Expr, int, Expr, Callable[[Expr, Env], None]] | None
    ) -> None:
        loop = Loop([], [])
        targets: list[str] = []
        if counted is not None:
            start, loop.step, count, bind = counted
            loop.start = start if is_leaf(start) or isinstance(start, Extent) else self.let("low", start)
            loop.count = self.counted(count)
            targets = exits.assigned([ast.Assign([s.target], ast.Constant(0))])
            turn: list[ast.stmt] = list(s.body)
        else:
            turn = [ast.Expr(s.test), *s.body]
        flag = exits.flag_of(s)
        own = {*targets, flag}
        later = set().union(*(exits.read_first(rest)[0] for rest in self.following))
        at_head = exits.read_first(turn)[0] - set(targets)
        needed = later | at_head
        set_inside = [n for n in exits.assigned(s.body) if n not in own]
        carried = [n for n in set_inside if isinstance(env.get(n), Expr | Items)]
        carried += [n for n in set_inside if n not in env and (n in needed or exits.is_own(n))]
        carried += [n for n in targets if n in later]
        kinds: dict[str, Any] = {n: self.kinds_of(env[n]) if n in env else None for n in carried}
        hopeful = True  # that carried integers that are not negative stay so
        program = self.program
        state = program.state()
        for _ in range(_RISES):
            around, self.block = self.block, []
            inner: Env = {**env, _OUTER: set(env)}
            heads: dict[str, Any] = {}
            for n in carried:
                if kinds[n] is not None:
                    heads[n] = self.head(n, kinds[n], env.get(n), hopeful)
                    inner[n] = heads[n]
            if flag:
                inner[flag] = const(False)
            self.following.append(turn)
            if counted is None:
                test = self.truth(self.scalar(s.test, inner))
                loop.head, self.block = self.block, []
                loop.test = test
            else:
                hint = s.target.id if isinstance(s.target, ast.Name) else "i"
                loop.var = self.fresh(hint)
                program.kinds[loop.var] = "int"
                self.bounded(loop)
                bind(Name(loop.var), inner)
            self.statements(s.body, inner)
            self.following.pop()
            loop.body, self.block = self.block, around
            again = False
            for n in list(carried):
                x = inner.get(n)
                now = self.kinds_of(x) if isinstance(x, Expr | Items) else None
                if now is None and x is not None:
                    carried.remove(n)
                    again = again or kinds[n] is not None
                    if n in needed:
                        self.refuse(f"{n} is a number before or an array in the loop", "use two names")
                elif now is None:
                    carried.remove(n)
                elif kinds[n] is None:
                    kinds[n], again = now, True
                else:
                    rise = self.risen(n, kinds[n], now)
                    again, kinds[n] = again or rise != kinds[n], rise
            if not again and hopeful and not self.still_natural(carried, heads, inner):
                hopeful, again = False, True
            if not again:
                break
            program.restore(state)
        else:
            self.refuse("the kinds of this loop's names do not settle")
        self.check_views(env, inner, set_inside, needed)
        for n in carried:
            first = env.get(n)
            if first is None:
                first = self.zero_like(inner[n])
            self.carry(loop, heads[n], first, inner[n], kinds[n])
            env[n] = heads[n]
        for n in set_inside:
            if n not in env and is_array(inner.get(n)) and n in later:
                env[n] = inner[n]
        if flag and inner[flag] != const(False):
            loop.stopped = inner[flag]
        if counted is None or loop.stopped is not None:
            loop.trips = self.fresh("trips")
            program.kinds[loop.trips] = "int"
            program.natural.add(loop.trips)
        self.block.append(loop)

    def bounded(self, loop: Loop) -> None:
        """Keep what is known of the counter while the loop runs."""
        p = self.program
        steps = self.whole("mul", self.whole("sub", self.running(loop.count), ONE), const(abs(loop.step)))
        if loop.step > 0:
            p.least[loop.var] = loop.start
            p.most[loop.var] = self.whole("add", loop.start, steps)
        else:
            p.least[loop.var] = self.whole("sub", loop.start, steps)
            p.most[loop.var] = loop.start
        if self.natural(p.least[loop.var]):
            p.natural.add(loop.var)

    def running(self, count: Expr) -> Expr:
        """What max(gap, 0) is where there is a turn."""
        value = self.program.defined.get(count.name) if isinstance(count, Name) else None
        if isinstance(value, Apply) and value.op == "max" and value.args[1] == ZERO:
            return value.args[0]
        return count

    def kinds_of(self, x: Any) -> Any:
        if isinstance(x, Items):
            return tuple(self.kind(i) if isinstance(i, Expr) else None for i in x.items)
        return self.kind(x) if isinstance(x, Expr) else None

    def risen(self, name: str, old: Any, new: Any) -> Any:
        if isinstance(old, tuple) != isinstance(new, tuple) or (
            isinstance(old, tuple) and len(old) != len(new)
        ):
            self.refuse(f"{name} is of one kind before and of another in the loop", "use two names")
        if isinstance(old, tuple):
            return tuple(None if a is None or b is None else ops.join(a, b) for a, b in zip(old, new))
        return ops.join(old, new)

    def head(self, name: str, kind: Any, first: Any, hopeful: bool) -> Any:
        """A carried name as a turn finds it."""
        if isinstance(kind, tuple):
            firsts = first.items if isinstance(first, Items) else [None] * len(kind)
            return Items(
                [f if k is None else self.head(name, k, f, hopeful) for k, f in zip(kind, firsts)],
                first.fields if isinstance(first, Items) else (),
            )
        own = self.fresh(name)
        self.program.kinds[own] = kind
        if hopeful and kind == "int" and (first is None or self.natural(first)):
            self.program.natural.add(own)
        return Name(own)

    def still_natural(self, carried: Sequence[str], heads: Env, inner: Env) -> bool:
        def holds(head: Any, last: Any) -> bool:
            if isinstance(head, Items):
                return all(holds(h, x) for h, x in zip(head.items, last.items))
            if not isinstance(head, Name) or head.name not in self.program.natural:
                return True
            return self.natural(last)

        return all(holds(heads[n], inner[n]) for n in carried)

    def carry(self, loop: Loop, head: Any, first: Any, last: Any, kind: Any) -> None:
        if isinstance(head, Items):
            for h, f, x, k in zip(head.items, first.items, last.items, kind):
                if k is not None:
                    self.carry(loop, h, f, x, k)
                elif f is not x and f != x:
                    self.refuse("an array in a tuple is bound anew in a loop", "copy into it")
            return
        if kind == "float" and isinstance(first, Const):
            first = const(float(first.value))
        if not is_leaf(last):
            around, self.block = self.block, loop.body
            last = self.let(head.name, last)
            self.block = around
        loop.carried.append((head.name, first, last))

    def check_views(self, env: Env, inner: Env, set_inside: Sequence[str], needed: set[str]) -> None:
        """A name of an array that a turn leaves other than it found it would be another array in the next."""
        for n in set_inside:
            before, after = env.get(n), inner.get(n)
            if n not in needed or before is None or isinstance(before, Expr | Items):
                continue
            if not (before is after or (isinstance(before, View) and before == after)):
                self.refuse(f"the array {n} is bound anew in a loop or branch", f"copy into it: {n}[:] = ...")

    # ------------------------------------------------ expressions

    def value(self, e: ast.expr, env: Env, hint: str | None = None) -> Value:
        method: Any = getattr(self, "of_" + type(e).__name__, None)
        if method is None:
            self.refuse(*_INSTEAD.get(type(e), (f"{type(e).__name__.lower()} is not taken", "")), node=e)
        return method(e, env, hint)

    def scalar(self, e: ast.expr, env: Env, hint: str | None = None) -> Expr:
        x = self.value(e, env, hint)
        if not isinstance(x, Expr):
            self.refuse("a number is needed here", node=e)
        return x

    def integer(self, e: ast.expr, env: Env) -> Expr:
        x = self.scalar(e, env)
        if self.kind(x) == "float":
            self.refuse("an integer is needed here, and this is a float", "int(...)", e)
        return x

    def truth(self, e: Expr) -> Expr:
        """A number as a condition."""
        if self.kind(e) == "bool":
            return e
        return self.binary_test("ne", e, FLOAT_ZERO if self.kind(e) == "float" else ZERO)

    def binary_test(self, op: str, a: Expr, b: Expr) -> Expr:
        if isinstance(a, Const) and isinstance(b, Const):
            known = ops.folded(op, [a, b])
            if known is not None:
                return known
        return Apply(op, (a, b))

    def operands(self, nodes: Sequence[ast.expr], env: Env) -> list[Value]:
        """The values from left to right; what was read before a call that may write is read before it."""
        found: list[Value] = []
        for e in nodes:
            if found and self.has_call(e, env):
                found = [self.now(x) for x in found]
            found.append(self.value(e, env))
        return found

    def now(self, x: Value) -> Value:
        if isinstance(x, Expr):
            return self.let(None, x) if loads(x) else x
        if isinstance(x, Items):
            return Items([self.now(i) for i in x.items], x.fields)
        return self.stored(x) if isinstance(x, Elementwise) else x

    def has_call(self, e: ast.expr, env: Env) -> bool:
        """Does the expression call a function that is written out and so may write to arrays?"""
        for n in ast.walk(e):
            if isinstance(n, ast.Call):
                f = n.func
                if isinstance(f, ast.Name):
                    x = env[f.id].value if isinstance(env.get(f.id), Object) else self.scope.get(f.id)
                    if self.called(x) is not None or f.id == "reserve":
                        return True
                elif isinstance(f, ast.Attribute):
                    root = f.value
                    while isinstance(root, ast.Attribute):
                        root = root.value
                    module = self.scope.get(root.id) if isinstance(root, ast.Name) else None
                    if isinstance(module, types.ModuleType) and module not in (np, math):
                        return True
        return False

    def of_Constant(self, e: ast.Constant, env: Env, hint: str | None) -> Value:
        if isinstance(e.value, complex):
            self.refuse("complex numbers", "keep real and imaginary part apart", e)
        return self.wrapped(e.value)

    def of_Name(self, e: ast.Name, env: Env, hint: str | None) -> Value:
        if e.id in env:
            return env[e.id]
        if e.id in self.scope:
            x = self.scope[e.id]
            if isinstance(x, np.ndarray):
                self.refuse(f"{e.id} is an array of the module", "pass it as an argument", e)
            return self.wrapped(x)
        self.refuse(f"{e.id} may be unset here", "set it before", e)

    def of_Attribute(self, e: ast.Attribute, env: Env, hint: str | None) -> Value:
        x = self.value(e.value, env)
        if isinstance(x, Object):
            try:
                found = getattr(x.value, e.attr)
            except AttributeError as error:
                self.refuse(str(error), node=e)
            if isinstance(found, np.ndarray):
                self.refuse(f"{ast.unparse(e)} is an array of the module", "pass it as an argument", e)
            return self.wrapped(found)
        if isinstance(x, Items) and e.attr in x.fields:
            return x.items[x.fields.index(e.attr)]
        if isinstance(x, View | Elementwise):
            shape = self.shape(x)
            if e.attr == "shape":
                return Items(list(shape))
            if e.attr == "ndim":
                return const(len(shape))
            if e.attr == "size":
                return calls.product_of(self, shape)
            if e.attr == "dtype":
                return Object(np.dtype(self.dtype(x)))
            if e.attr == "T":
                return calls.transposed(self, x)
        self.refuse(f"the attribute {e.attr}", node=e)

    def of_Tuple(self, e: ast.Tuple | ast.List, env: Env, hint: str | None) -> Value:
        return Items(self.operands(e.elts, env))

    of_List = of_Tuple

    def of_UnaryOp(self, e: ast.UnaryOp, env: Env, hint: str | None) -> Value:
        x = self.value(e.operand, env)
        if isinstance(e.op, ast.USub):
            return self.elementwise(
                [x], lambda a: const(-a.value) if isinstance(a, Const) else Apply("neg", (a,))
            )
        if isinstance(e.op, ast.UAdd):
            return x
        if isinstance(e.op, ast.Not) and isinstance(x, Expr):
            t = self.truth(x)
            return const(not t.value) if isinstance(t, Const) else Apply("not", (t,))
        self.refuse("~ or not of this", node=e)

    def of_BinOp(self, e: ast.BinOp, env: Env, hint: str | None) -> Value:
        if isinstance(e.op, ast.MatMult):
            left, right = self.operands([e.left, e.right], env)
            return self.dot(left, right, hint)
        return self.arithmetic(e.op, [e.left, e.right], env, hint)

    def arithmetic(self, op: ast.operator, nodes: Sequence[ast.expr], env: Env, hint: str | None) -> Value:
        a, b = self.operands(nodes, env)
        name = _BINARY[type(op)]
        if isinstance(a, Items) and isinstance(b, Items) and name == "add":
            return Items(a.items + b.items)
        if isinstance(a, Items) and isinstance(b, Const) and name == "mul":
            return Items(a.items * b.value)
        return self.elementwise([a, b], lambda x, y: self.binary(name, x, y, hint))

    def of_Compare(self, e: ast.Compare, env: Env, hint: str | None) -> Value:
        values = self.operands([e.left, *e.comparators], env)
        found: Any = None
        for op, a, b in zip(e.ops, values, values[1:]):
            if isinstance(a, Object) or isinstance(b, Object):
                return self.known_comparison(e, op, a, b)
            name = _COMPARE.get(type(op))
            if name is None:
                self.refuse("in", "compare one by one", e)
            test = self.elementwise([a, b], lambda x, y, name=name: self.binary_test(name, x, y))
            if found is None:
                found = test
            elif isinstance(found, Expr) and isinstance(test, Expr):
                found = _both("and", found, test)
            else:
                self.refuse("a chain of comparisons of arrays", node=e)
        return found

    def known_comparison(self, e: ast.Compare, op: ast.cmpop, a: Value, b: Value) -> Value:
        """Of objects that are known, as None or strings are; a number is not None."""
        plain = [x.value if isinstance(x, Object) else x for x in (a, b)]
        if len(e.ops) > 1 or not isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
            self.refuse("a comparison of these", node=e)
        same = plain[0] is plain[1] or (
            isinstance(a, Object) and isinstance(b, Object) and bool(plain[0] == plain[1])
        )
        return const(same == isinstance(op, ast.Is | ast.Eq))

    def of_BoolOp(self, e: ast.BoolOp, env: Env, hint: str | None) -> Value:
        op = "and" if isinstance(e.op, ast.And) else "or"
        found = self.truth(self.scalar(e.values[0], env))
        for node in e.values[1:]:
            if isinstance(found, Const):
                if bool(found.value) == (op == "or"):
                    return found
                found = self.truth(self.scalar(node, env))
                continue
            around, self.block = self.block, []
            right = self.truth(self.scalar(node, env))
            if self.block and not is_leaf(right):
                right = self.let("c", right)
            made, self.block = self.block, around
            if not made:
                found = _both(op, found, right)
                continue
            left = self.let("c", found)  # what the right side takes is computed only where it is reached
            name = self.fresh("c")
            self.program.kinds[name] = "bool"
            if op == "and":
                self.block.append(Branch(left, made, [], [(name, right, left)]))
            else:
                self.block.append(Branch(left, [], made, [(name, left, right)]))
            found = Name(name)
        return found

    def of_IfExp(self, e: ast.IfExp, env: Env, hint: str | None) -> Value:
        test = self.truth(self.scalar(e.test, env))
        if isinstance(test, Const):
            return self.value(e.body if test.value else e.orelse, env, hint)
        return self.choose(test, lambda: self.scalar(e.body, env), lambda: self.scalar(e.orelse, env), hint)

    def of_Subscript(self, e: ast.Subscript, env: Env, hint: str | None) -> Value:
        x = self.value(e.value, env)
        if isinstance(x, Items):
            return self.tuple_item(x, e, env)
        if isinstance(x, Elementwise):
            x = self.stored(x)
        if not isinstance(x, View):
            self.refuse("this is indexed and no array", node=e)
        return self.indexed(x, e, env)

    def tuple_item(self, x: Items, e: ast.Subscript, env: Env) -> Value:
        if isinstance(e.slice, ast.Slice):
            ends = []
            for part in (e.slice.lower, e.slice.upper, e.slice.step):
                end = None if part is None else self.value(part, env)
                if end is not None and not isinstance(end, Const):
                    self.refuse("a tuple is indexed by something that is not a constant", "use an array", e)
                ends.append(None if end is None else end.value)
            return Items(x.items[slice(*ends)])
        at = self.value(e.slice, env)
        if not isinstance(at, Const):
            self.refuse("a tuple is indexed by something that is not a constant", "use an array", e)
        if not -len(x.items) <= at.value < len(x.items):
            self.refuse(f"a tuple of {len(x.items)} has no item {at.value}", node=e)
        return x.items[at.value]

    # ------------------------------------------------ indices

    def indexed(self, v: Value, e: ast.Subscript, env: Env) -> Load | View | Elementwise:
        if not isinstance(v, View):
            self.refuse("what is indexed is no array", node=e)
        listed: list[Any] = list(e.slice.elts) if isinstance(e.slice, ast.Tuple) else [e.slice]
        if isinstance(e.slice, ast.Name) and isinstance(env.get(e.slice.id), Items):
            listed = env[e.slice.id].items
        if any(isinstance(p, ast.Constant) and p.value is None for p in listed):
            self.refuse("np.newaxis", "index in a loop", e)
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
            if isinstance(x, View | Elementwise):
                if many is not None or len(self.shape(x)) != 1 or kind_of(self.dtype(x)) != "int":
                    self.refuse(
                        "an index that is an array of more than one dimension, or of booleans",
                        "loop over it",
                        e,
                    )
                many = (axis, x if isinstance(x, View) else self.stored(x))
                order.append(axis)
                continue
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

    # ------------------------------------------------ calls

    def of_Call(self, e: ast.Call, env: Env, hint: str | None) -> Value:
        if any(isinstance(a, ast.Starred) for a in e.args) or any(k.arg is None for k in e.keywords):
            self.refuse("a call with * or **", "name the arguments", e)
        named_nodes = [k.value for k in e.keywords]
        if isinstance(e.func, ast.Attribute):
            owner = self.value(e.func.value, env)
            if isinstance(owner, View | Elementwise):
                values = self.operands([*e.args, *named_nodes], env)
                named = {str(k.arg): v for k, v in zip(e.keywords, values[len(e.args) :])}
                return calls.call(self, e.func.attr, [owner, *values[: len(e.args)]], named, hint)
            f = self.of_Attribute(e.func, env, None)
        else:
            f = self.value(e.func, env)
        if not isinstance(f, Object):
            self.refuse("this is called and no function", node=e)
        values = self.operands([*e.args, *named_nodes], env)
        args = values[: len(e.args)]
        named = {str(k.arg): v for k, v in zip(e.keywords, values[len(e.args) :])}
        self.node = e
        plain = self.called(f.value)
        if plain is not None:
            return self.inline(plain, args, named)
        if isinstance(f.value, type) and issubclass(f.value, tuple) and hasattr(f.value, "_fields"):
            fields = f.value._fields
            found = dict(zip(fields, args)) | named
            if set(found) != set(fields):
                self.refuse(f"{f.value.__name__} needs {', '.join(fields)}", node=e)
            return Items([found[n] for n in fields], fields)
        return calls.function(self, f.value, args, named, hint)


def _both(op: str, a: Expr, b: Expr) -> Expr:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const):
            return (y if x.value else x) if op == "and" else (x if x.value else y)
    return Apply(op, (a, b))


def _is_ellipsis(p: Any) -> bool:
    return isinstance(p, ast.Constant) and p.value is Ellipsis


def _zero(kind: str) -> Const:
    return const({"float": 0.0, "int": 0, "bool": False}[kind])


_INSTEAD: dict[type, tuple[str, str]] = {
    ast.Try: ("try", "test before"),
    ast.With: ("with", "leave it out"),
    ast.FunctionDef: ("a function inside of the function", "write it beside"),
    ast.Lambda: ("lambda", "write a function beside"),
    ast.Dict: ("a dictionary", "use arrays"),
    ast.DictComp: ("a dictionary", "use arrays"),
    ast.Set: ("a set", "use arrays"),
    ast.ListComp: ("a list that is made by a loop", "write to an array"),
    ast.GeneratorExp: ("a generator", "write a loop"),
    ast.JoinedStr: ("a string", "leave it out"),
    ast.Delete: ("del", "leave it out"),
    ast.Global: ("global", "return the value"),
    ast.Nonlocal: ("nonlocal", "return the value"),
    ast.Import: ("import", "import it at the top of the file"),
    ast.ImportFrom: ("import", "import it at the top of the file"),
    ast.Yield: ("yield", "write to an array"),
    ast.NamedExpr: ("a name that is set in an expression", "set it before"),
}

__all__ = ["ArrayOf", "Kind", "Known", "Scalar", "TupleOf", "is_scalar", "lower", "names"]
