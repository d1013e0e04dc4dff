"""Expressions: operators, comparisons, conditions, attributes and calls; what may write to arrays comes after what was read before it."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbgrad.adjoints import calls, complexes, contract, keyed, listed, ops
from nbgrad.adjoints.arrangements import product_of
from nbgrad.adjoints.build import (
    Elementwise,
    Items,
    Listed,
    Object,
    Value,
    has_complex,
    is_array,
    is_complex,
    is_keyed,
)
from nbgrad.adjoints.firsts import Unset
from nbgrad.adjoints.indices import Indices
from nbgrad.adjoints.ir import (
    FLOAT_ZERO,
    ZERO,
    Apply,
    Block,
    Branch,
    Const,
    Expr,
    Name,
    View,
    const,
    is_leaf,
    kind_of,
    loads,
)
from nbgrad.adjoints.room import INSTEAD, SEEN_FROM, Env, Inside
from nbgrad.adjoints.sugar import ANEW, CHANGES, DICT, HELD, LIST, MERGE, PUSH, PUT, SAME

BINARY: dict[type, str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide"},
    **{ast.Mod: "remainder", ast.Pow: "pow", ast.BitAnd: "bit_and", ast.BitOr: "bit_or"},
    **{ast.BitXor: "bit_xor", ast.LShift: "lshift", ast.RShift: "rshift"},
}
_COMPARE: dict[type, str] = {
    **{ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"},
    **{ast.Is: "eq", ast.IsNot: "ne"},
}


_WRITTEN_OUT = 256  # numbers of an array of the module
_OF_STARS = (max, min, math.hypot)  # which take an array as they take its elements
_OF_LISTS = dict(
    zip((LIST, PUSH, HELD, CHANGES, SAME, ANEW, DICT, PUT, MERGE), (*calls.OF_LISTS, *keyed.OF_DICTS))
)
_NOT_WRITTEN_OUT = (*calls.OF_LISTS, *keyed.OF_DICTS)


class Expressions(Indices):
    def value(self, e: ast.expr, env: Env, hint: str | None = None) -> Value:
        method: Any = getattr(self, "of_" + type(e).__name__, None)
        if method is None:
            self.refuse(*INSTEAD.get(type(e), (f"{type(e).__name__.lower()} is not taken", "")), node=e)
        return method(e, env, hint)

    def scalar(self, e: ast.expr, env: Env, hint: str | None = None) -> Expr:
        return self.as_number(self.value(e, env, hint), e)

    def condition(self, e: ast.expr, env: Env) -> Expr:
        return self.truth(self.tested(e, env))

    def tested(self, e: ast.expr, env: Env) -> Expr:
        """A number of which nothing but its truth is asked."""
        x = self.of_BoolOp(e, env, None, self.tested) if isinstance(e, ast.BoolOp) else self.value(e, env)
        return self.as_number(complexes.not_zero(self, x) if is_complex(x) else x, e)

    def as_number(self, x: Value, e: ast.expr) -> Expr:
        if is_complex(x):
            self.refuse("a complex number where a real one is needed", "z.real, abs(z), z != 0", e)
        if not isinstance(x, Expr):
            self.refuse("a number is needed here", node=e)
        return x

    def by_name(self, name: str, args: list[Value], named: dict[str, Value]) -> Value:
        return calls.by_name(self, name, args, named)

    def integer(self, e: ast.expr, env: Env) -> Expr:
        return self.whole_number(self.value(e, env), e)

    def whole_number(self, x: Value, node: ast.AST | None) -> Expr:
        if not isinstance(x, Expr):
            self.refuse("a number is needed here", node=node)
        if self.kind(x) == "float":
            self.refuse("an integer is needed here, and this is a float", "int(...)", node)
        return x

    def assign(self, v: View, x: Value) -> None:
        if isinstance(x, Items) and x.of in (tuple, list) and x.items and not has_complex(x):
            x = calls.call(self, "array", [x], {}, None)
        super().assign(v, x)

    def array_of_list(self, x: Listed) -> View:
        return listed.as_array(self, x)

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

    def operands(
        self, nodes: Sequence[ast.expr], env: Env, missing: Callable[[], int | None] | None = None
    ) -> list[Value]:
        """The values from left to right; what was read before a call that may write is read before it. `missing` says how many
        an array stands for, of which it is not known."""
        found: list[Value] = []
        for e in nodes:
            if found and self.has_call(e, env):
                found = [self.now(x) for x in found]
            if isinstance(e, ast.Starred):
                found += self.of_star(e, self.value(e.value, env), missing)
            else:
                found.append(self.value(e, env))
        return found

    def of_star(self, e: ast.Starred, x: Value, missing: Callable[[], int | None] | None) -> list[Value]:
        if is_complex(x):
            self.refuse("* of complex numbers", "name the arguments", e)
        if isinstance(x, Items):
            return keyed.over(self, x).items
        if is_array(x):
            assert isinstance(x, View | Elementwise)
            n = self.root(self.shape(x)[0])
            many = n.value if isinstance(n, Const) else missing() if missing else None
            if many is None:
                self.refuse("* of an array whose length is not known", "name the elements", e)
            return self.unpacked(x, many)
        self.refuse("* of something else than a tuple", "name the arguments", e)

    def now(self, x: Value) -> Value:
        if isinstance(x, Expr):
            return self.let(None, x) if loads(x) else x
        if isinstance(x, Items):
            return complexes.now(self, x) if x.of is complex else x.each(self.now)
        return self.stored(x) if isinstance(x, Elementwise) else x

    def has_call(self, e: ast.expr, env: Env) -> bool:
        """Does the expression call a function that is written out and so may write to arrays?"""
        inside = vars(e).get("_calls")
        if inside is None:
            inside = vars(e)["_calls"] = [n for n in ast.walk(e) if isinstance(n, ast.Call)]
        for n in inside:
            f = n.func
            if isinstance(f, ast.Name):
                x = env[f.id].value if isinstance(env.get(f.id), Object) else self.scope.get(f.id)
                while (bound := held_by(x)) is not None:
                    x = bound.func
                if isinstance(x, Inside) or self.called(x) is not None or f.id in ("reserve", PUSH):
                    return True
            elif not isinstance(f, ast.Attribute) or self.may_be_written_out(f.value, env):
                return True
            if isinstance(f, ast.Attribute) and calls.writes_out(f.attr, n):
                return True
        return False

    def may_be_written_out(self, owner: ast.expr, env: Env) -> bool:
        """May a method of `owner` be a user's function? Not one of NumPy's, of `math` or of an array; all else may."""
        while isinstance(owner, ast.Attribute | ast.Subscript | ast.Call):
            owner = owner.func if isinstance(owner, ast.Call) else owner.value
        if not isinstance(owner, ast.Name):
            return not isinstance(owner, ast.BinOp | ast.UnaryOp | ast.Compare)
        if owner.id in env:
            return isinstance(env[owner.id], Items | Object)
        found = self.scope.get(owner.id)
        return found is not np and found is not math and not isinstance(found, np.ndarray)

    def of_Constant(self, e: ast.Constant, env: Env, hint: str | None) -> Value:
        return self.wrapped(e.value)

    def of_Name(self, e: ast.Name, env: Env, hint: str | None) -> Value:
        if e.id in env:
            return env[e.id]
        if e.id in _OF_LISTS:
            return Object(_OF_LISTS[e.id])
        if e.id in self.scope:
            return self.known(self.as_first(self.scope.get(SEEN_FROM), e.id, self.scope[e.id]), e)
        self.no_value(e)

    of_Reading = of_Name

    def as_first(self, owner: Any, name: str, x: Any) -> Any:
        """A name or an attribute as it was when it was first read: value, adjoint and tangent are of one program."""
        if isinstance(x, np.ndarray) and x.size <= _WRITTEN_OUT:
            x = x.copy()
        elif isinstance(x, dict):
            x = copy.deepcopy(x)
        return self.seen.setdefault((id(owner), name), (owner, x))[1]

    def known(self, x: Any, e: ast.expr) -> Value:
        """An object of the module; an array is written out, with the numbers that it has now, as Numba takes it."""
        if isinstance(x, dict):
            return keyed.of_module(x, lambda v: self.known(v, e))
        if not isinstance(x, np.ndarray):
            return self.wrapped(x)
        if id(x) in self.of_module:
            return self.of_module[id(x)]
        if x.dtype.kind == "c" and x.size <= _WRITTEN_OUT and x.ndim:
            parts = self.as_first(x, "@parts", (x.real.copy(), x.imag.copy()))
            return complexes.complex_of(*(self.known(part, e) for part in parts))
        if x.size > _WRITTEN_OUT or not x.ndim or x.dtype.kind not in "fiub" or x.dtype.itemsize > 8:
            self.refuse(
                f"{ast.unparse(e)} is an array of the module, of {x.size} numbers of {x.dtype}",
                "pass it as an argument",
                e,
            )
        around, self.block = self.block, []
        made = self.make(
            getattr(e, "id", getattr(e, "attr", None)), [const(n) for n in x.shape], str(x.dtype), False
        )
        for index in np.ndindex(*x.shape):
            self.store(self.load(made, [const(k) for k in index]), const(x[index].item()))
        self.first.append(self.block)
        self.block = around
        self.of_module[id(x)] = made
        return made

    def of_Attribute(self, e: ast.Attribute, env: Env, hint: str | None) -> Value:
        x = self.value(e.value, env)
        if isinstance(x, Object):
            try:
                found = getattr(x.value, e.attr)
            except AttributeError as error:
                self.refuse(str(error), node=e)
            return self.known(self.as_first(x.value, e.attr, found), e)
        if isinstance(x, Items) and e.attr in x.fields:
            return x.items[x.fields.index(e.attr)]
        if isinstance(x, Items) and x.of is complex:
            part = complexes.attribute(self, x, e.attr)
            if part is not None:
                return part
            x = complexes.parts_of(x)[0]  # of which either has as many
        if isinstance(x, Expr | Elementwise | View) and e.attr in ("real", "imag"):
            return calls.call(self, e.attr, [x], {}, hint)
        if isinstance(x, View | Elementwise):
            shape = self.shape(x)
            if e.attr == "shape":
                return Items(list(shape))
            if e.attr == "ndim":
                return const(len(shape))
            if e.attr == "size":
                return product_of(self, shape)
            if e.attr == "dtype":
                return Object(np.dtype(self.dtype(x)))
            if e.attr == "T":
                return contract.turned(x)
            if e.attr == "flat":
                return calls.call(self, "ravel", [x], {}, hint)
        if e.attr in ("append", "extend", "pop", "clear"):
            self.refuse(f"{e.attr} of what was not made a list in this function", "[], and append", e)
        self.refuse(f"the attribute {e.attr}", node=e)

    def of_Tuple(self, e: ast.Tuple, env: Env, hint: str | None) -> Value:
        return Items(self.operands(e.elts, env))

    def of_Dict(self, e: ast.Dict, env: Env, hint: str | None) -> Value:
        found: dict[Any, Any] = {}
        keys = [ast.Constant(None) if k is None else k for k in e.keys]
        values = self.operands([n for pair in zip(keys, e.values) for n in pair], env)
        for node, key, x in zip(e.keys, values[::2], values[1::2]):
            found |= keyed.parts_of(self, x) if node is None else {keyed.key_of(self, key): self.now(x)}
        self.node = e
        return keyed.of_parts(self, found)

    def of_List(self, e: ast.List, env: Env, hint: str | None) -> Value:
        if any(isinstance(part, ast.Starred) for part in e.elts) and not self.has_call(e, env):
            stars = [part.value if isinstance(part, ast.Starred) else part for part in e.elts]
            found = [self.value(part, env) for part in stars]
            if any(isinstance(part, ast.Starred) and is_array(x) for part, x in zip(e.elts, found)):
                return self.list_of_parts(e, found, hint)
        return Items(self.operands(e.elts, env), list)

    def list_of_parts(self, e: ast.List, found: list[Value], hint: str | None) -> Value:
        """[*x, a] of an array: a list of its numbers and others."""
        if any(map(has_complex, found)):
            self.refuse("* beside complex numbers", "np.concatenate", e)
        pieces: list[Any] = []
        for part, x in zip(e.elts, found):
            starred = isinstance(part, ast.Starred)
            numbers = x.items if starred and isinstance(x, Items) else [x]
            if any(
                not (isinstance(i, Expr) or (starred and is_array(i) and len(self.shape(i)) == 1))
                for i in numbers
            ):
                self.refuse("* of something else than numbers, beside an array", "np.concatenate", e)
            pieces += numbers
        made = calls.call(self, "hstack", [Items(pieces)], {}, hint)
        assert isinstance(made, View)
        self.lists.add(made.base)
        return made

    def of_UnaryOp(self, e: ast.UnaryOp, env: Env, hint: str | None) -> Value:
        asked = isinstance(e.op, ast.Not) and isinstance(e.operand, ast.BoolOp)
        x = self.tested(e.operand, env) if asked else self.value(e.operand, env)
        if isinstance(x, Items) and x.of is complex and isinstance(e.op, ast.USub | ast.UAdd):
            return complexes.negated(self, x) if isinstance(e.op, ast.USub) else x
        if isinstance(e.op, ast.USub):
            return self.elementwise(
                [x], lambda a: const(-a.value) if isinstance(a, Const) else Apply("neg", (a,))
            )
        if isinstance(e.op, ast.UAdd):
            return x
        if isinstance(e.op, ast.Not) and (isinstance(x, Expr) or is_complex(x)):
            t = self.truth(self.as_number(complexes.not_zero(self, x) if is_complex(x) else x, e))
            return const(not t.value) if isinstance(t, Const) else Apply("not", (t,))
        if isinstance(e.op, ast.Invert) and isinstance(x, Expr | View | Elementwise):
            if kind_of(self.dtype(x)) == "bool":
                return self.elementwise([x], lambda a: Apply("not", (a,)))
            if kind_of(self.dtype(x)) == "int":
                return self.elementwise([x], lambda a: Apply("sub", (const(-1), a)))
        self.refuse("~ or not of this", node=e)

    def of_BinOp(self, e: ast.BinOp, env: Env, hint: str | None) -> Value:
        if isinstance(e.op, ast.MatMult):
            left, right = self.operands([e.left, e.right], env)
            return calls.call(self, "matmul", [left, right], {}, hint)
        return self.arithmetic(e.op, [e.left, e.right], env, hint)

    def arithmetic(self, op: ast.operator, nodes: Sequence[ast.expr], env: Env, hint: str | None) -> Value:
        a, b = self.operands(nodes, env)
        name = BINARY[type(op)]
        if is_keyed(a) and is_keyed(b) and name == "bit_or":
            return keyed.new_dict(self, a, b)
        keyed.no_dict(self, "arithmetic", [a, b])
        if is_complex(a) or is_complex(b):
            for x, node in zip((a, b), nodes):
                self.no_list(x, node)
            if not all(is_complex(x) or isinstance(x, Expr | View | Elementwise) for x in (a, b)):
                self.refuse("arithmetic of a list", "np.array(...) of it, or extend")
            return complexes.arithmetic(self, name, a, b)
        if isinstance(a, Items) and isinstance(b, Items) and name == "add":
            return Items(a.items + b.items, list if a.of is list else tuple)
        if isinstance(a, Items) and isinstance(b, Const) and name == "mul":
            return Items(a.items * b.value, list if a.of is list else tuple)
        if isinstance(a, Items) and len(a.items) == 1 and isinstance(b, Expr) and name == "mul":
            filled = calls.call(self, "full", [b, a.items[0]], {}, hint)  # a list of one number n times
            assert isinstance(filled, View)
            self.lists.add(filled.base)
            return filled
        for x, node in zip((a, b), nodes):
            self.no_list(x, node)
        return self.elementwise([a, b], lambda x, y: self.binary(name, x, y, hint))

    def of_Compare(self, e: ast.Compare, env: Env, hint: str | None) -> Value:
        values = self.operands([e.left, *e.comparators], env)
        found: Any = None
        for op, a, b in zip(e.ops, values, values[1:]):
            if (isinstance(a, Object) or isinstance(b, Object)) and not is_keyed(b):
                return self.known_comparison(e, op, a, b)
            known = isinstance(op, ast.In | ast.NotIn) and isinstance(b, Items)
            if known and isinstance(b, Items) and (isinstance(a, Expr) or is_keyed(b)):
                one = keyed.among(self, a, b) if is_keyed(b) else self.among(a, b, e)  # type: ignore[arg-type]
                if isinstance(op, ast.NotIn):
                    one = const(not one.value) if isinstance(one, Const) else Apply("not", (one,))
                found = one if found is None else _both("and", found, one)
                continue
            name = _COMPARE.get(type(op))
            if name is None:
                self.refuse("in", "compare one by one", e)
            if is_complex(a) or is_complex(b):
                test = complexes.compared(self, name, a, b)
            else:
                test = self.elementwise([a, b], lambda x, y, name=name: self.binary_test(name, x, y))
            if found is None:
                found = test
            elif isinstance(found, Expr) and isinstance(test, Expr):
                found = _both("and", found, test)
            else:
                self.refuse("a chain of comparisons of arrays", node=e)
        return found

    def among(self, a: Expr, b: Items, e: ast.expr) -> Expr:
        """Is a number one of a tuple's?"""
        found: Expr = const(False)
        a = self.leaf(a)
        for x in b.items:
            if not isinstance(x, Expr):
                self.refuse("in a tuple of something else than numbers", "compare one by one", e)
            found = _both("or", found, self.binary_test("eq", a, x))
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

    def of_BoolOp(
        self, e: ast.BoolOp, env: Env, hint: str | None, read: Callable[[ast.expr, Env], Expr] | None = None
    ) -> Value:
        read = read or self.scalar
        op = "and" if isinstance(e.op, ast.And) else "or"
        found = read(e.values[0], env)
        for node in e.values[1:]:
            if isinstance(found, Const):
                if bool(found.value) == (op == "or"):
                    return found
                found = read(node, env)
                continue
            reached = self.left_out(self.reached, node, env, self.kind(found) != "bool", read)
            if isinstance(reached, Unset):
                return self.any_test()
            right, made, numbers = reached
            if not made and not numbers:
                found = _both(op, found, right)
                continue
            left = found if numbers and is_leaf(found) else self.let("c", found)
            # What the right side takes is computed only where it is reached.
            if numbers:  # one of the two itself
                test = self.truth(left)
                test = test if is_leaf(test) else self.let("c", test)
                (a, first), (b, second) = (
                    ((right, made), (left, [])) if op == "and" else ((left, []), (right, made))
                )
                found = self.decided(test, (a, first), (b, second), hint)
                continue
            name = self.fresh("c")
            self.program.kinds[name] = "bool"
            if op == "and":
                self.block.append(Branch(left, made, [], [(name, right, left)]))
            else:
                self.block.append(Branch(left, [], made, [(name, left, right)]))
            found = Name(name)
        return found

    def reached(
        self, e: ast.expr, env: Env, numbers: bool, read: Callable[[ast.expr, Env], Expr]
    ) -> tuple[Expr, Block, bool]:
        """The right side of `and` or `or`, what it takes, and is the result a number?"""
        around, self.block = self.block, []
        right = read(e, env)
        numbers = numbers or self.kind(right) != "bool"
        if (self.block or numbers) and not is_leaf(right):
            right = self.let("c", right)
        made, self.block = self.block, around
        return right, made, numbers

    def of_IfExp(self, e: ast.IfExp, env: Env, hint: str | None) -> Value:
        test = self.condition(e.test, env)
        if isinstance(test, Const):
            return self.value(e.body if test.value else e.orelse, env, hint)
        if not isinstance(test, Name):
            test = self.let("c", test)
        sides = [self.left_out(self.side, side, env) for side in (e.body, e.orelse)]
        if any(isinstance(side, Unset) for side in sides):
            return self.value(e.orelse if isinstance(sides[0], Unset) else e.body, env, hint)
        (a, first), (b, second) = sides
        if isinstance(a, Expr) and isinstance(b, Expr):
            return self.decided(test, (a, first), (b, second), hint)
        branch = Branch(test, first, second, [])
        found = self.merged(hint or "either", a, b, branch, names_it=False)
        self.end_branch(branch)
        return found

    def side(self, e: ast.expr, env: Env) -> tuple[Value, Block]:
        around, self.block = self.block, []
        x = self.value(e, env)
        if isinstance(x, Expr):
            x = x if is_leaf(x) else self.let(None, x)
        else:
            x = self.bound("either", x, {})
        made, self.block = self.block, around
        return x, made

    def of_Subscript(self, e: ast.Subscript, env: Env, hint: str | None) -> Value:
        x = self.value(e.value, env)
        if isinstance(x, Items) and x.of is complex:
            return complexes.at_index(self, x, e, env)
        if isinstance(x, Items):
            return self.tuple_item(x, e, env)
        if isinstance(x, Listed):
            return self.list_item(x, e, env)
        if isinstance(x, Elementwise):
            x = self.stored(x)
        if not isinstance(x, View):
            self.refuse("this is indexed and no array", node=e)
        found = self.indexed(x, e, env)
        if isinstance(found, View) and x.base in self.lists:  # a part of a list is a list of its own
            found = self.stored(found)
            self.lists.add(found.base)
        return found

    def list_item(self, x: Listed, e: ast.Subscript, env: Env) -> Value:
        if not isinstance(e.slice, ast.Slice):
            return listed.item(self, x, listed.place(self, x, self.integer(e.slice, env)))
        if e.slice.step is not None:
            self.refuse("a part of a list with a step", "a loop", e)
        low, high = (None if p is None else self.value(p, env) for p in (e.slice.lower, e.slice.upper))
        return listed.part(
            self, x, self.edge(low, x.count, ZERO, 1, e), self.edge(high, x.count, x.count, 1, e)
        )

    def tuple_item(self, x: Items, e: ast.Subscript, env: Env) -> Value:
        if is_keyed(x):
            return keyed.item(self, x, self.value(e.slice, env))
        if isinstance(e.slice, ast.Slice):
            ends = []
            for part in (e.slice.lower, e.slice.upper, e.slice.step):
                end = None if part is None else self.value(part, env)
                if end is not None and not isinstance(end, Const):
                    self.refuse("a tuple is indexed by something that is not a constant", "use an array", e)
                ends.append(None if end is None else end.value)
            return Items(x.items[slice(*ends)], list if x.of is list else tuple)
        at = self.value(e.slice, env)
        if isinstance(at, Expr) and not isinstance(at, Const) and has_complex(x):
            if not all(isinstance(i, Expr) or is_complex(i) for i in x.items):
                self.refuse("a tuple is indexed by something that is not a constant", "use an array", e)
            return complexes.at_index(self, complexes.array(self, x), e, env)
        if isinstance(at, Expr) and not isinstance(at, Const) and _is_table(x):
            v = calls.call(self, "array", [x], {}, None)  # by a counter: it stands in an array
            assert isinstance(v, View)
            found = self.indexed(v, e, env)
            if not isinstance(found, View):
                return found
            width = len(x.items[0].items)  # a row is a tuple again, as what is written to it would be lost
            return Items([self.let(None, self.element(found, [const(k)])) for k in range(width)])
        if not isinstance(at, Const):
            self.refuse("a tuple is indexed by something that is not a constant", "use an array", e)
        if not -len(x.items) <= at.value < len(x.items):
            self.refuse(f"a tuple of {len(x.items)} has no item {at.value}", node=e)
        return x.items[at.value]

    # ------------------------------------------------ calls

    def of_Call(self, e: ast.Call, env: Env, hint: str | None) -> Value:
        if any(k.arg is None for k in e.keywords):
            self.refuse("a call with **", "name the arguments", e)
        named_nodes = [k.value for k in e.keywords]
        if isinstance(e.func, ast.Attribute):
            owner = self.value(e.func.value, env)
            if isinstance(owner, Items) and owner.fields and e.func.attr == "_replace" and not e.args:
                new = dict(zip(owner.fields, owner.items))
                new |= {str(k.arg): v for k, v in zip(e.keywords, self.operands(named_nodes, env))}
                if len(new) > len(owner.fields):
                    self.refuse("_replace of a field that is not there", node=e)
                return Items(list(new.values()), owner.of)
            if isinstance(owner, Items) and is_keyed(owner):
                values = self.operands([*e.args, *named_nodes], env)
                named = {str(k.arg): v for k, v in zip(e.keywords, values[len(e.args) :])}
                self.node = e
                return keyed.method(self, owner, e.func.attr, values[: len(e.args)], named)
            if isinstance(owner, Expr | View | Elementwise) and e.func.attr in ("conjugate", "conj"):
                return owner  # real
            if isinstance(owner, View | Elementwise) or is_complex(owner):
                values = self.operands([*e.args, *named_nodes], env)
                named = {str(k.arg): v for k, v in zip(e.keywords, values[len(e.args) :])}
                return calls.method(self, e.func.attr, [owner, *values[: len(e.args)]], named, hint)
            f = self.of_Attribute(e.func, env, None)
        else:
            f = self.value(e.func, env)
        if not isinstance(f, Object):
            self.refuse("this is called and no function", node=e)
        if f.value in _OF_STARS and len(e.args) == 1:
            e.args = [a.value if isinstance(a, ast.Starred) else a for a in e.args]  # of what it is of anyway
        called = f.value
        values = self.operands([*e.args, *named_nodes], env, lambda: self.left_for_star(called, e))
        given = len(values) - len(named_nodes)
        args = values[:given]
        named = {str(k.arg): v for k, v in zip(e.keywords, values[given:])}
        self.node = e
        while (bound := held_by(f.value)) is not None:
            args = [*map(self.held, bound.args), *args]
            named = {k: self.held(x) for k, x in bound.keywords.items()} | named
            f = Object(bound.func)
        plain = (
            f.value
            if isinstance(f.value, Inside)
            else None
            if f.value in _NOT_WRITTEN_OUT
            else self.called(f.value)
        )
        self.here = env
        if plain is not None:
            return self.inline(plain, args, named)
        if isinstance(f.value, type) and issubclass(f.value, tuple) and hasattr(f.value, "_fields"):
            named_tuple: Any = f.value
            fields = named_tuple._fields
            found = {n: self.wrapped(x) for n, x in named_tuple._field_defaults.items()}
            found |= dict(zip(fields, args)) | named
            if set(found) != set(fields):
                self.refuse(f"{named_tuple.__name__} needs {', '.join(fields)}", node=e)
            return Items([found[n] for n in fields], named_tuple)
        if not keyed.takes(f.value):
            keyed.no_dict(self, getattr(f.value, "__name__", "this"), [*args, *named.values()])
        return calls.function(self, f.value, args, named, hint)

    def left_for_star(self, f: Any, e: ast.Call) -> int | None:
        """How many parameters of a user's function its call leaves to `*x`."""
        while (bound := held_by(f)) is not None:
            if bound.args or bound.keywords:
                return None
            f = bound.func
        plain = f if isinstance(f, Inside) or f in _NOT_WRITTEN_OUT else self.called(f)
        if plain is None or not isinstance(plain, Inside | types.FunctionType):
            return None
        signature = plain.signature if isinstance(plain, Inside) else inspect.signature(plain)
        free = [p for p in signature.parameters.values() if p.name not in {k.arg for k in e.keywords}]
        sure = (
            all(p.default is p.empty for p in free) and sum(isinstance(a, ast.Starred) for a in e.args) == 1
        )
        return len(free) - len(e.args) + 1 if sure else None

    def held(self, x: Any) -> Value:
        """What a partial holds: what cannot change, as it is written out once."""
        if isinstance(x, Expr | View | Items | Object):  # of a partial that is an argument
            return x
        found = self.wrapped(x)
        if isinstance(found, Object) and not (x is None or isinstance(x, str) or callable(x)):
            self.refuse(f"a partial that holds a {type(x).__name__}", "pass it as an argument")
        return found


def _is_table(x: Items) -> bool:
    """Numbers, or rows of numbers that are of one length."""
    rows = [i.items if isinstance(i, Items) else [i] for i in x.items]
    of_rows = {len(i.items) if isinstance(i, Items) else -1 for i in x.items}
    return len(of_rows) == 1 and of_rows != {0} and all(isinstance(e, Expr) for row in rows for e in row)


def held_by(f: Any) -> functools.partial[Any] | None:
    """A function with some of its arguments, as a partial."""
    return f if isinstance(f, functools.partial) else f.as_partial() if hasattr(f, "as_partial") else None


def _both(op: str, a: Expr, b: Expr) -> Expr:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const):
            return (y if x.value else x) if op == "and" else (x if x.value else y)
    return Apply(op, (a, b))


__all__ = ["BINARY", "Expressions"]
