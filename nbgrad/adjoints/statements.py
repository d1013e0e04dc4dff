"""Statements but loops: names are bound, arrays written, and what two branches leave is merged."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from nbgrad.adjoints import complexes, exits, keyed, listed, ops, sugar
from nbgrad.adjoints.arrangements import flat_index, product_of
from nbgrad.adjoints.build import (
    Elementwise,
    Items,
    Keys,
    Listed,
    Object,
    Value,
    holds_array,
    is_array,
    is_complex,
    is_keyed,
    leaves,
    with_leaves,
)
from nbgrad.adjoints.expressions import BINARY
from nbgrad.adjoints.firsts import Longer, Wider, zero
from nbgrad.adjoints.ir import (
    ZERO,
    Apply,
    Array,
    Block,
    Branch,
    Const,
    Expr,
    Grow,
    Load,
    Make,
    Name,
    Raise,
    Store,
    View,
    blocks,
    const,
    is_leaf,
    kind_of,
    statements,
    whole,
)
from nbgrad.adjoints.listed import new_room
from nbgrad.adjoints.loops import Loops
from nbgrad.adjoints.room import INSTEAD, OUTER, Env, Inside

_COMPLEX_IN_REAL = (
    "a complex number is written to an array of real ones",
    "z.real, or an array of complex128",
)


class Statements(Loops):
    def statements(self, body: Sequence[ast.stmt], env: Env) -> None:
        for k, s in enumerate(body):
            self.node, self.names = s, env
            method: Any = getattr(self, "on_" + type(s).__name__, None)
            if method is None:
                self.refuse(*INSTEAD.get(type(s), (f"{type(s).__name__.lower()} is not taken", "")))
            self.following.append(body[k + 1 :])
            self.step(method, s, env)
            self.following.pop()

    def on_Pass(self, s: ast.Pass, env: Env) -> None:
        pass

    def on_Expr(self, s: ast.Expr, env: Env) -> None:
        if not isinstance(s.value, ast.Constant):
            self.value(s.value, env)

    def on_Assert(self, s: ast.Assert, env: Env) -> None:
        test = self.condition(s.test, env)
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

    def on_FunctionDef(self, s: ast.FunctionDef, env: Env) -> None:
        if s.decorator_list:
            self.refuse("a function inside with a decorator", "write it beside")
        a = s.args
        if a.vararg or a.kwarg:
            self.refuse(f"{s.name} takes *args or **kwargs", "name its parameters")
        before = [inspect.Parameter.empty] * (len(a.posonlyargs) + len(a.args) - len(a.defaults))
        of: list[Any] = [inspect.Parameter.POSITIONAL_ONLY] * len(a.posonlyargs)
        of += [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(a.args)
        given = [
            *before,
            *(
                self.let(None, x) if isinstance(x, Apply | Load) else x
                for x in self.operands(a.defaults, env)
            ),
        ]
        found = [
            inspect.Parameter(p.arg, k, default=x) for p, k, x in zip((*a.posonlyargs, *a.args), of, given)
        ]
        for p, d in zip(a.kwonlyargs, a.kw_defaults):
            default: Any = inspect.Parameter.empty if d is None else self.now(self.value(d, env))
            found.append(inspect.Parameter(p.arg, inspect.Parameter.KEYWORD_ONLY, default=default))
        env[s.name] = Object(Inside(s, self.scope, self.file, self.frame, inspect.Signature(found)))

    def on_AnnAssign(self, s: ast.AnnAssign, env: Env) -> None:
        if s.value is not None:
            self.on_Assign(ast.copy_location(ast.Assign([s.target], s.value), s), env)

    def on_Assign(self, s: ast.Assign, env: Env) -> None:
        target = s.targets[0]
        if (name := sugar.of_two_names(s)) is not None:
            self.refuse(f"{name} is a list that changes, and gets another name", f"np.array({name})")
        x = self.value(s.value, env, target.id if isinstance(target, ast.Name) else None)
        if exits.in_loop(s) and holds_array(x):
            raise exits.Late
        if len(s.targets) == 1:
            self.bind_anew(target, x, env)
        else:
            x = self.now(x)
            for t in s.targets:
                self.bind(t, x, env)

    def bind_anew(self, target: ast.expr, x: Value, env: Env) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            x = keyed.over(self, x)
        if is_complex(x):
            x = complexes.now(self, x)  # type: ignore[arg-type]
        if holds_array(x) and self.replaced(target, x, env):
            return
        of_several = isinstance(x, Items) and x.of is not complex
        if (
            isinstance(x, Items) and of_several and isinstance(target, ast.Tuple | ast.List)
        ):  # a, b = b, a: loads first
            if all(isinstance(t, ast.Name) for t in target.elts):
                x = Items([self.now(i) if isinstance(i, Expr) or is_complex(i) else i for i in x.items])
            else:  # a[0], a[1] = ...: what is computed is so before the first is written; what is a view stays one
                x = self.now(x)
        self.bind(target, x, env)

    def replaced(self, target: ast.expr, x: Value, env: Env) -> bool:
        """What is bound to arrays that no other name shows, of names and in tuples of theirs, is written to them."""
        places = self.places(target, x, env)
        given, names = leaves(x), [name for name, _ in places]
        olds = [
            self.own_array(name, old, env) if is_array(i) and i != old else None
            for i, (name, old) in zip(given, places)
        ]
        bases = {old.base for old in olds if old is not None}
        if not bases:
            return False
        if len(given) > 1:  # what is read is so before the first is written
            given = [self.apart(i, old, bases) for i, old in zip(given, olds)]
        for name, old, i in zip(names, olds, given):
            if old is not None:
                self.replace(name, old, i)
        self.bind(
            target, with_leaves(x, iter([i if old is None else old for i, old in zip(given, olds)])), env
        )
        return True

    def places(self, target: ast.expr, x: Value, env: Env) -> list[tuple[str, Any]]:
        """The name that each leaf of a value is bound to, and what stands there."""
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        starred = any(isinstance(t, ast.Starred) for t in parts)
        if parts and isinstance(x, Items) and len(x.items) == len(parts) and not starred:
            return [p for t, i in zip(parts, x.items) for p in self.places(t, i, env)]
        name = target.id if isinstance(target, ast.Name) else ""

        def inside(x: Any, old: Any) -> list[tuple[str, Any]]:
            if not isinstance(x, Items):
                return [(name, old)]
            alike = isinstance(old, Items) and len(old.items) == len(x.items)
            return [p for k, i in enumerate(x.items) for p in inside(i, old.items[k] if alike else None)]

        return inside(x, env.get(name))

    def apart(self, x: Value, old: View | None, written: set[str]) -> Value:
        """A part of what is bound at once, read before others are written over."""
        if is_array(x) and self.all_bases(x) & (written - {old.base} if old is not None else written):
            assert isinstance(x, View | Elementwise)
            made = self.stored(x)
            if isinstance(x, View):
                self.shared(made.base, x.base)
            return made
        return x if old is not None else self.now(x)

    def replace(self, name: str, old: View, x: View | Elementwise) -> None:
        a, b = self.shape(old), self.shape(x)
        of = self.dtype(old)
        same = of in ("float64", "int64", "bool") or all(
            self.array(base).dtype == of for base in self.bases(x)
        )
        alike = len(a) == len(b) and kind_of(of) == kind_of(self.dtype(x))
        if alike and not same and of == "float32":
            raise Wider(name, old.base)
        if not alike or not same:
            self.refuse(
                f"{name} is an array of one kind before and of another in a loop or branch", "use two names"
            )
        if any(self.other_length(n, m) for n, m in zip(a, b)):
            raise Longer(self.frame, name)
        for n, m in zip(a, b):
            self.same(n, m)
        self.parted(old.base)
        self.assign(old, x)
        of = x.base if isinstance(x, View) else x.of
        if of:
            self.shared(old.base, of)

    def bind(self, t: ast.expr, x: Value, env: Env) -> None:
        if isinstance(t, ast.Name):
            env[t.id] = self.bound(t.id, x, env)
        elif isinstance(t, ast.Tuple | ast.List):
            stars = [k for k, e in enumerate(t.elts) if isinstance(e, ast.Starred)]
            if stars:
                x = self.left_over(x, stars[0], len(t.elts))
            for target, item in zip(t.elts, self.unpacked(x, len(t.elts))):
                self.bind(target.value if isinstance(target, ast.Starred) else target, item, env)
        elif isinstance(t, ast.Subscript):
            self.write(t, x, env)
        elif isinstance(t, ast.Attribute):
            self.refuse("an attribute is set", "return the value")
        else:
            self.refuse("this target of an assignment", "names, tuples of them, or elements of arrays")

    def bound(self, name: str, x: Value, env: Env) -> Value:
        if isinstance(x, Elementwise):
            x = self.stored(x, name)
        if (
            isinstance(x, View) and x.base in self.room_of
        ):  # of a list, which may be something else there afterwards
            lists = x.base in self.lists
            x = self.copy_of(x, name)
            if lists:
                self.lists.add(x.base)
        if isinstance(x, Expr) and not is_leaf(x):
            x = self.let(name, x)
        if is_complex(x):
            x = complexes.stored(self, x, name)  # type: ignore[arg-type]
        if isinstance(x, Items):
            x = x.each(lambda i: i if is_leaf(i) else self.bound(name, i, {}))
        old = env.get(name)
        if isinstance(x, View) and isinstance(old, View) and x != old and name in env.get(OUTER, ()):
            self.refuse(
                f"the array {name} is bound anew in a loop or branch", f"copy into it: {name}[:] = ..."
            )
        return x

    def unpacked(self, x: Value, n: int) -> list[Any]:
        if isinstance(x, Items) and x.of is complex:
            if not complexes.is_complex_array(x):
                self.refuse("a complex number is unpacked", "z.real, z.imag")
            return [complexes.complex_of(*pair) for pair in zip(*(self.unpacked(v, n) for v in x.items))]
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
        x = keyed.over(self, x)
        if isinstance(x, Listed):
            self.require(Apply("eq", (x.count, const(n))), f"a list of {n} is needed to unpack")
            x = Items([listed.over(self, x)(const(k)) for k in range(n)])
        if not isinstance(x, Items) or len(x.items) != n:
            self.refuse(f"this cannot be unpacked into {n} names")
        return x.items

    def left_over(self, x: Value, at: int, n: int) -> Items:
        """a, *b = x: what the other names leave is a tuple."""
        more = len(x.items) - n + 1 if isinstance(x, Items) and x.of is not complex else -1
        if not isinstance(x, Items) or more < 0:
            self.refuse(f"this cannot be unpacked into {n} names, one of them starred")
        return Items([*x.items[:at], Items(x.items[at : at + more]), *x.items[at + more :]])

    def write(self, t: ast.Subscript, x: Value, env: Env) -> None:
        if self.has_call(t, env):
            x = self.now(x)
        into = self.value(t.value, env)
        if isinstance(into, Items) and into.of is complex:
            complexes.assign(self, complexes.at_index(self, into, t, env), x)
            return
        if is_complex(x) and not isinstance(into, Listed):
            self.refuse(*_COMPLEX_IN_REAL)
        if is_keyed(into):
            self.refuse("a dictionary is written where it was not made", "make another: {**d, key: value}")
        if isinstance(into, Listed) and not isinstance(t.slice, ast.Slice):
            listed.set_item(self, into, self.integer(t.slice, env), x)
            return
        if isinstance(into, Elementwise) and into.of in self.room_of:
            self.refuse("a matrix in a list is written", "an array of one more dimension")
        v = self.indexed(into, t, env)
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
        if isinstance(target, ast.Name) and complexes.is_complex_array(
            old := env.get(target.id, Object(None))
        ):
            complexes.change(self, old, BINARY[type(s.op)], self.value(s.value, env))
            return
        if isinstance(target, ast.Name) and not isinstance(env.get(target.id), View):
            read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            self.bind(target, self.arithmetic(s.op, [read, s.value], env, target.id), env)
            return
        op = BINARY[type(s.op)]
        before: Value | None = None
        if isinstance(target, ast.Name):
            v: Value = env[target.id]
        elif isinstance(target, ast.Subscript):
            into = self.value(target.value, env)
            if isinstance(into, Items) and into.of is complex:
                at_places = complexes.at_index(self, into, target, env)
                held = complexes.now(self, at_places) if self.has_call(s.value, env) else None
                e = self.value(s.value, env)
                if held is None:
                    complexes.change(self, at_places, op, e)
                else:
                    complexes.assign(self, at_places, complexes.arithmetic(self, op, held, e))
                return
            if isinstance(into, Listed) and not isinstance(target.slice, ast.Slice):
                v = listed.item(self, into, listed.place(self, into, at := self.integer(target.slice, env)))
                if not isinstance(v, View):
                    listed.set_item(self, into, at, self.arithmetic_of(op, v, self.value(s.value, env)))
                    return
            else:
                v = self.indexed(into, target, env)
        else:
            self.refuse("an attribute is set", "return the value")
        if isinstance(v, View):
            self.no_list(v, s)
        if isinstance(v, Elementwise):  # of equal indices the last counts
            changed = self.arithmetic_of(op, v, self.value(s.value, env))
            assert isinstance(changed, Elementwise)
            self.scatter(v, self.stored(changed))
            return
        if self.has_call(s.value, env) and isinstance(v, Load):
            before = self.let(None, v)  # as it is before the call writes to it
        x = self.value(s.value, env)
        if isinstance(v, Load) and is_complex(x):
            self.refuse(*_COMPLEX_IN_REAL)
        if isinstance(v, Load):
            if not isinstance(x, Expr):
                self.refuse("an array is added to one number")
            if before is not None:
                assert isinstance(before, Expr)
                self.store(v, self.binary(op, before, x))
            else:
                self.change(v, op, x)
            return
        self.in_place(v, op, x)

    def in_place(self, v: Value, op: str, x: Value) -> None:
        """An array, changed by another or by a number."""
        assert isinstance(v, View)
        if is_complex(x):
            self.refuse(*_COMPLEX_IN_REAL)
        if isinstance(x, Items | Object):
            self.refuse("something that is neither a number nor an array is added to an array")
        if is_array(x) and v.base in self.bases(x):
            assert isinstance(x, View | Elementwise)
            x = self.stored(x)
        if is_array(x):
            self.fits(self.shape(v), self.shape(x))
        view, e = v, self.read_once(x)
        self.nest(self.shape(v), lambda i: self.change(self.load(view, i), op, self.element(e, i)))

    def changed(self, v: Value, op: str, x: Value) -> Value:
        """What `v op= x` leaves: an array is the same, and has other numbers."""
        known = BINARY[getattr(ast, op)]
        if isinstance(v, View):
            self.no_list(v, self.node or ast.Pass())
            self.in_place(v, known, x)
            return v
        numbers = all(isinstance(i, Expr) for i in leaves(v)) and (is_complex(v) or isinstance(v, Expr))
        if not (numbers or isinstance(v, Elementwise)) or not (
            isinstance(x, Expr | View | Elementwise) or is_complex(x)
        ):
            self.refuse("this is changed in a dictionary", "d[key] = ...")
        return self.now(self.arithmetic_of(known, v, x))

    def arithmetic_of(self, op: str, x: Value, y: Value) -> Value:
        if is_complex(x) or is_complex(y):
            return complexes.arithmetic(self, op, x, y)
        return self.elementwise([x, y], lambda p, q: self.binary(op, p, q))

    def change(self, at: Load, op: str, e: Expr) -> None:
        if op == "add":
            self.add(at, e)
        elif op == "sub":
            self.add(at, ops.negated(e))
        else:
            self.store(at, self.binary(op, at, e))

    def on_If(self, s: ast.If, env: Env) -> None:
        test = self.condition(s.test, env)
        if isinstance(test, Const):
            self.statements(s.body if test.value else s.orelse, env)
            return
        if not isinstance(test, Name):
            test = self.let("c", test)
        self.own(exits.bound([*s.body, *s.orelse]), env)
        apart: set[str] = set()  # names of arrays that a side makes longer or shorter
        while True:
            place, state = self.position(), self.state()
            try:
                (then, left), (other, right) = self.sides(s, env, apart)
                break
            except Longer as longer:
                mine = longer.frame is self.frame and longer.name in {*env} - apart
                if not mine or longer.name in env.get(OUTER, ()):  # of a loop around as well
                    raise
                apart.add(longer.name)
            self.back_to(place)
            self.restore(state)
        branch = Branch(test, then, other, [])
        for name in [*left, *(n for n in right if n not in left)]:
            if name != OUTER:
                self.after_branch(name, left.get(name), right.get(name), env, branch)
        self.end_branch(branch)

    def sides(self, s: ast.If, env: Env, apart: set[str]) -> list[tuple[Block, Env]]:
        around, twins = self.block, self.twins
        sides: list[tuple[Block, Env]] = []
        left_as: set[frozenset[str]] = set()
        for body in (s.body, s.orelse):
            inner = {**env, OUTER: {*env} - apart}
            self.block, self.twins = [], twins
            self.statements(body, inner)
            sides.append((self.block, inner))
            left_as |= self.twins
        self.block, self.twins = around, left_as
        return sides

    def end_branch(self, branch: Branch) -> None:
        self.block.append(branch)
        for made, room in self.either:
            self.spread(made, room)
        self.either = []

    def after_branch(self, name: str, a: Any, b: Any, env: Env, branch: Branch) -> None:
        if a is b or (type(a) is type(b) and isinstance(a, Expr | View) and a == b):
            env[name] = a
        elif a is not None and b is not None:
            env[name] = self.merged(name, a, b, branch)
        elif exits.is_own(name) or self.read_later(name):
            x = a if a is not None else b
            env[name] = with_leaves(x, iter([self.one_sided(name, i, b is None, branch) for i in leaves(x)]))

    def one_sided(self, name: str, x: Value, then: bool, branch: Branch) -> Value:
        """What only one side sets: where it is not set, it is not read."""
        if isinstance(x, Expr):
            nothing = zero(self.kind(x))
            return self.merged(name, x if then else nothing, nothing if then else x, branch)
        if isinstance(x, View) and self.turning and self.made_in(x.base, branch):
            return self.one_or_other(name, x if then else None, None if then else x, branch)
        return x

    def merged(self, name: str, a: Any, b: Any, branch: Branch, names_it: bool = True) -> Value:
        if isinstance(a, Expr) and isinstance(b, Expr):
            own = self.fresh(name)
            self.program.kinds[own] = ops.join(self.kind(a), self.kind(b))
            if self.program.kinds[own] == "int" and self.natural(a) and self.natural(b):
                self.program.natural.add(own)
            branch.merged.append((own, a, b))
            return Name(own)
        if is_complex(a) != is_complex(b) and isinstance(b if is_complex(a) else a, Expr):
            a, b = complexes.coerced(self, a), complexes.coerced(self, b)
        alike = isinstance(a, Items) and isinstance(b, Items) and len(a.items) == len(b.items)
        if is_complex(a) != is_complex(b):
            alike = False
        if alike and (isinstance(a.of, Keys) or isinstance(b.of, Keys)) and a.of != b.of:
            alike = False
        if alike:
            pairs = zip(a.items, b.items)
            return Items(
                [
                    x if x is y or (is_leaf(x) and x == y) else self.merged(name, x, y, branch)
                    for x, y in pairs
                ],
                a.of.or_other(b.of) if isinstance(a.of, Keys) else a.of,
            )
        if type(a) is type(b) and (a is b or a == b):
            return a
        if not names_it or exits.is_own(name) or self.read_later(name):
            what = "what is returned" if exits.is_own(name) else name
            if isinstance(a, View) and isinstance(b, View) and self.alike(a, b):
                return self.one_or_other(name, a, b, branch)
            if is_keyed(a) and is_keyed(b):
                self.refuse(f"{what} has other keys as a branch decides", "set them before, in one order")
            if isinstance(a, Object) or isinstance(b, Object):
                self.refuse(f"{what} is set in one branch and not, or to another kind, in the other")
            self.refuse(
                f"{what} is of one kind or another, as a branch decides",
                "give both the same dimensions and dtype",
            )
        return a

    def one_or_other(self, name: str, a: View | None, b: View | None, branch: Branch) -> View:
        """An array made behind the branch, from what each side leaves in room that grows; a side without one does not read it."""
        of = a or b
        assert of is not None
        dtype = max(self.dtype(x) for x in (a, b) if x is not None)  # of float32 and float64 the wider
        room = new_room(self, name, dtype)
        self.parted(room.base)
        for side, block in ((a, branch.then), (b, branch.other)):
            if side is None:
                continue
            around, self.block = self.block, block
            self.lay_out(room, side)
            self.block = around
        none: list[Expr] = [ZERO] * len(of.order)
        of_sides = [none if side is None else self.shape(side) for side in (a, b)]
        lengths = self.lengths_of(zip(*of_sides), branch)
        base = self.fresh(name)
        self.program.arrays[base] = Array(len(lengths), dtype, tuple(lengths))
        self.parted(base)
        for side in (a, b):
            if side is not None:
                self.shared(base, side.base)
        made = whole(base, len(lengths))
        where_set = [self.lengths_where_set(side) for side in (a, b) if side is not None]
        if where_set[0] == where_set[-1]:
            self.where_set[base] = where_set[0]
        self.either.append((made, room))
        return made

    def lengths_of(self, pairs: Iterable[tuple[Expr, Expr]], branch: Branch) -> list[Expr]:
        found = [n if n == m else self.merged("n", n, m, branch) for n, m in pairs]
        return [n for n in found if isinstance(n, Expr)]

    def lay_out(self, room: View, v: View) -> None:
        shape = [self.counted(self.settled(n)) for n in self.shape(v)]
        self.block.append(Grow(room.base, self.counted(product_of(self, shape))))
        self.nest(
            shape, lambda i: self.store(self.load(room, [flat_index(self, i, shape)]), self.element(v, i))
        )

    def spread(self, made: View, room: View) -> None:
        shape = self.shape(made)
        self.block.append(Make(made.base, tuple(shape), False))
        self.nest(
            shape,
            lambda i: self.block.append(
                Store(made.base, tuple(i), self.load(room, [flat_index(self, i, shape)]))
            ),
        )

    def made_in(self, base: str, branch: Branch) -> bool:
        return any(
            isinstance(s, Make) and s.base == base for side in blocks(branch) for s in statements(side)
        )

    def alike(self, a: View, b: View) -> bool:
        dtypes, lists = {self.dtype(a), self.dtype(b)}, {a.base, b.base} & self.lists
        same = len(dtypes) == 1 or dtypes == {"float32", "float64"}
        return len(a.order) == len(b.order) and same and not lists


__all__ = ["Statements"]
