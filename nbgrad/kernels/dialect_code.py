"""A function of the dialect as LLVM's text, in one walk over its syntax tree.

Promises the front (`dialect.py`): types flow forward with the values, by Numba's rules. What a loop changes has a phi at its head;
whether its type there was wide enough is known when the body has been written, and if not the loop is written again.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from nbgrad.kernels.dialect_helpers import WIDE
from nbgrad.kernels.dialect_types import (
    TUPLE,
    Refused,
    Value,
    binary,
    cast,
    chosen,
    compared,
    constant,
    folded,
    inverted,
    is_integer,
    llvm,
    negative,
    truth,
    unified,
)
from nbgrad.kernels.dialect_ways import Block, Edge, Module, Ways, phi


class Definition:
    """A function whose text is there."""

    def called(self, caller: Function, args: Sequence[Value]) -> Value:
        raise NotImplementedError


class Scope(Protocol):
    """The file that a function stands in."""

    def named(self, name: str) -> Any: ...
    def attribute(self, owner: str, name: str) -> Any: ...


class Type(str):
    """A type that is called."""

    __slots__ = ()


class _Loop:
    """Its ways on and out, whether another one is in it, and whether it gathers something in any order."""

    __slots__ = ("again", "gathers", "innermost", "out")

    def __init__(self) -> None:
        self.again: list[Edge] = []
        self.out: list[Edge] = []
        self.innermost, self.gathers = True, False


_PYTHON_S: dict[type[ast.AST], Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift},
    **{ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_},
    **{ast.BitXor: operator.xor, ast.Pow: operator.pow},
    **{ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert},
}


class Function(Ways):
    """One function, for types of its arguments."""

    def __init__(self, scope: Scope, module: Module) -> None:
        super().__init__(module)
        self.scope = scope
        self.loops: list[_Loop] = []
        self.returned: list[tuple[Block, Value]] = []
        self.result = "none"

    # ------------------------------------------------------------ statements

    def walk(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            if not self.live:
                return
            method = getattr(self, f"_{type(node).__name__}", None)
            if method is None:
                raise Refused(f"the statement {type(node).__name__}")
            method(node)

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    def _Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.put(target, value)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        raise Refused("annotations")

    def _AugAssign(self, node: ast.AugAssign) -> None:
        kind = type(node.op).__name__
        if isinstance(node.target, ast.Name):
            old = self.value(ast.Name(node.target.id, ast.Load()))
            self.names[node.target.id] = binary(self, kind, old, self.value(node.value))
            return
        if not isinstance(node.target, ast.Subscript):
            raise Refused("an assignment to an attribute")
        pointer, place = self._place(node.target)
        old = self._load(pointer, place)
        self._store(pointer, place, binary(self, kind, old, self.value(node.value)))

    def put(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            if value.type == "none":
                raise Refused("a variable that is nothing")
            self.names[target.id] = value
        elif isinstance(target, ast.Subscript):
            self._store(*self._place(target), value)
        elif isinstance(target, ast.Tuple) and value.type == TUPLE and len(target.elts) == len(value.known):
            for t, v in zip(target.elts, value.known, strict=True):
                self.put(t, v)
        else:
            raise Refused("what is assigned to")

    def _Return(self, node: ast.Return) -> None:
        value = Value("none", "") if node.value is None else self.value(node.value)
        if value.type == TUPLE:
            raise Refused("a tuple that is returned")
        self.returned.append((self.block, value))
        self.live = False

    def _If(self, node: ast.If) -> None:
        yes, no = self.ways(node.test)
        self.meet(yes)
        self.walk(node.body)
        ends = self.leave()
        if node.orelse:
            self.meet(no)
            self.walk(node.orelse)
            no = self.leave()
        self.meet(ends + no)

    def _Break(self, node: ast.Break) -> None:
        self.loops[-1].out += self.leave()

    def _Continue(self, node: ast.Continue) -> None:
        self.loops[-1].again += self.leave()

    def _While(self, node: ast.While) -> None:
        def head() -> tuple[list[Edge], list[Edge]]:
            if isinstance(node.test, ast.Constant) and node.test.value:
                return self.leave(), []
            return self.ways(node.test)

        self._looped(node, head, lambda: None)

    def _For(self, node: ast.For) -> None:
        start, stop, step = self._range(node.iter)
        if not isinstance(node.target, ast.Name):
            raise Refused("a loop over several variables")
        target, by_count, depth = node.target.id, step.known != 1, len(self.loops)
        begin = self._range_count(start, stop, step) if by_count else start
        phi, turn = f".turn{depth}", f".at{depth}"

        def head() -> tuple[list[Edge], list[Edge]]:
            i = self.names[phi]
            yes, no = self.part(
                self.made(
                    "b1", f"icmp sgt i64 {i.text}, 0" if by_count else f"icmp slt i64 {i.text}, {stop.text}"
                )
            )
            self.meet(yes)
            self.names[target] = self.names[turn] if by_count else i
            return self.leave(), no

        def tail() -> None:
            i = self.names[phi]
            if by_count:
                self.names[phi] = self.made("i8", f"sub nsw i64 {i.text}, 1")
                self.names[turn] = self.made("i8", f"add i64 {self.names[turn].text}, {step.text}")
            else:
                self.names[phi] = self.made("i8", f"add nsw i64 {i.text}, 1")

        self.names = self.names | {phi: begin, turn: start}
        self._looped(node, head, tail, (phi, turn) if by_count else (phi,))

    def _range(self, node: ast.expr) -> tuple[Value, Value, Value]:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "range":
            raise Refused("a loop over something else than a range")
        given = [self.value(a) for a in node.args]
        if node.keywords or not 1 <= len(given) <= 3 or any(v.type != "i8" for v in given):
            raise Refused("a range of something else than int64")
        if len(given) == 1:
            given.insert(0, constant(0))
        start, stop, step = (*given, constant(1))[:3]
        if step.known is None or step.known == 0:
            raise Refused("a step that is not written")
        return start, stop, step

    def _range_count(self, start: Value, stop: Value, step: Value) -> Value:
        """How many numbers a range has, which is what LLVM needs to know to unroll it."""
        far = self.made("i8", f"sub i64 {stop.text}, {start.text}")
        size, over = abs(step.known), "sgt" if step.known > 0 else "slt"
        some = self.made("b1", f"icmp {over} i64 {far.text}, 0")
        whole = self.made("i8", f"sdiv i64 {far.text}, {step.text}")
        rest = self.made("i8", f"srem i64 {far.text}, {size}")
        uneven = self.made("b1", f"icmp ne i64 {rest.text}, 0")
        more = self.made("i8", f"zext i1 {uneven.text} to i64")
        count = self.made("i8", f"add i64 {whole.text}, {more.text}")
        return self.made("i8", f"select i1 {some.text}, i64 {count.text}, i64 0")

    def _looped(
        self,
        node: ast.For | ast.While,
        head: Callable[[], tuple[list[Edge], list[Edge]]],
        tail: Callable[[], None],
        own: tuple[str, ...] = (),
    ) -> None:
        """A loop: `head` tells the ways in and out, `tail` ends a turn."""
        if node.orelse:
            raise Refused("else of a loop")
        (entry,) = self.leave()
        changed = [n for n in dict.fromkeys((*own, *assigned([node]))) if n in entry.names]
        types = {n: entry.names[n].type for n in changed}
        for name in [n for n, t in types.items() if t == TUPLE]:
            del types[name]  # not there in the loop, if it is not given first
        at, count, entries = len(self.blocks), self.count, len(self.entries)
        returned = len(self.returned)
        while True:
            self.start(self.label())
            entry.block.end[entry.at] = self.block.label
            self.live, top = True, self.block
            self.names = {n: v for n, v in entry.names.items() if n not in changed}
            phis = {n: f"%p{self.count}.{k}" for k, n in enumerate(types)}
            self.names |= {n: Value(t, phis[n]) for n, t in types.items()}
            loop = _Loop()
            self.loops.append(loop)
            into, out = head()
            self.meet(into)
            self.walk(node.body)
            self.loops.pop()
            for outer in self.loops:
                outer.innermost = False
            self.meet(self.leave() + loop.again)
            back: list[Edge] = []
            if self.live:
                tail()
                back = self.leave()
            wider, gone = dict(types), False
            for name, t in types.items():
                for e in back:
                    try:
                        wider[name] = unified(t, e.names[name].type)
                    except (Refused, KeyError):  # not there at the head of another turn
                        wider.pop(name)
                        gone = True
            if wider == types and not gone:
                break
            types = wider
            del self.blocks[at:], self.entries[entries:], self.returned[returned:]
            self.count = count
        ways = [entry, *back]
        for e in back:
            e.block.end[e.at] = top.label
        if loop.gathers and loop.innermost:
            self._turns_are_apart(self.blocks[at:], back)
        lines = []
        for name, t in types.items():
            texts = [self.on(e, e.names[name], t) for e in ways]
            lines.append(f"{phis[name]} = phi {llvm(t)} {phi(texts, [e.block for e in ways])}")
        top.lines[:0] = lines
        self.meet(out + loop.out)

    def order(self) -> None:
        super().order()
        if self.loops:
            self.loops[-1].gathers = True

    def _turns_are_apart(self, blocks: list[Block], back: list[Edge]) -> None:
        """A loop that gathers in any order does so whatever it writes: LLVM is told that no turn touches another one's memory. By itself
        it looks at the addresses, takes memory right behind what is read for the same (closer than a few vectors), and gathers one by one
        then: a sum's last bit depended on where its result lay."""
        stores = [line for block in blocks for line in block.lines if line.startswith("store ")]
        if not stores:
            return
        group, loop, says = (f"!{len(self.module.declared)}{k}" for k in "123")
        self.declare(group, f"{group} = distinct !{{}}")
        self.declare(says, f'{says} = !{{!"llvm.loop.parallel_accesses", {group}}}')
        self.declare(loop, f"{loop} = distinct !{{{loop}, {says}}}")
        for block in blocks:
            block.lines = [
                f"{line}, !llvm.access.group {group}"
                if line.startswith("store ") or " = load " in line
                else line
                for line in block.lines
            ]
        for e in back:
            e.block.end.append(f", !llvm.loop {loop}")

    # ------------------------------------------------------------ expressions

    def ways(self, node: ast.expr) -> tuple[list[Edge], list[Edge]]:
        """The ways on which a condition holds, and those on which it does not."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yes, no = self.ways(node.operand)
            return no, yes
        if isinstance(node, ast.BoolOp):
            both = isinstance(node.op, ast.And)
            left: list[Edge] = []
            for k, operand in enumerate(node.values):
                yes, no = self.ways(operand)
                if k + 1 == len(node.values):
                    break
                left += no if both else yes
                self.meet(yes if both else no)
            return (yes, left + no) if both else (left + yes, no)
        return self.part(truth(self, self.value(node)))

    def value(self, node: ast.expr) -> Value:
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise Refused(f"the expression {type(node).__name__}")
        found = method(node)
        if not isinstance(found, Value):
            raise Refused(f"{found} as a value")
        return found

    def _Constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def _Name(self, node: ast.Name) -> Any:
        found = self.names.get(node.id)
        return self.scope.named(node.id) if found is None else found

    def _Attribute(self, node: ast.Attribute) -> Any:
        if not isinstance(node.value, ast.Name):
            raise Refused("an attribute")
        return self.scope.attribute(node.value.id, node.attr)

    def _Tuple(self, node: ast.Tuple) -> Value:
        return Value(TUPLE, "", tuple(self.value(e) for e in node.elts))

    def _BinOp(self, node: ast.BinOp) -> Value:
        a, b = self.value(node.left), self.value(node.right)
        if _written(node) and (found := folded(_PYTHON_S[type(node.op)], a, b)):
            return found
        return binary(self, type(node.op).__name__, a, b)

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return self.made("b1", f"xor i1 {truth(self, value).text}, true")
        if _written(node) and (found := folded(_PYTHON_S[type(node.op)], value)):
            return found
        if isinstance(node.op, ast.USub):
            return negative(self, value)
        if isinstance(node.op, ast.Invert):
            return inverted(self, value)
        raise Refused("the sign +")

    def _Compare(self, node: ast.Compare) -> Value:
        left, right = self.value(node.left), self.value(node.comparators[0])
        first = compared(self, type(node.ops[0]).__name__, left, right)
        if len(node.ops) == 1:
            return first
        if len(node.ops) > 2:
            raise Refused("three comparisons in one")
        yes, no = self.part(first)
        self.meet(yes)
        second = compared(self, type(node.ops[1]).__name__, right, self.value(node.comparators[1]))
        return self._of_ways(self._with(second), [(e, constant(False)) for e in no])

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        found: list[tuple[Edge, Value]] = []
        for operand in node.values[:-1]:
            value = self.value(operand)
            yes, no = self.part(truth(self, value))
            on, off = (yes, no) if isinstance(node.op, ast.And) else (no, yes)
            found += [(e, value) for e in off]
            self.meet(on)
        return self._of_ways(found, self._with(self.value(node.values[-1])))

    def _IfExp(self, node: ast.IfExp) -> Value:
        if _plain(node.body) and _plain(node.orelse):
            condition = truth(self, self.value(node.test))
            a, b = self.value(node.body), self.value(node.orelse)
            if TUPLE not in (a.type, b.type):
                return chosen(self, condition, a, b)
        yes, no = self.ways(node.test)
        self.meet(yes)
        found = self._with(self.value(node.body))
        self.meet(no)
        return self._of_ways(found, self._with(self.value(node.orelse)))

    def _with(self, value: Value) -> list[tuple[Edge, Value]]:
        return [(e, value) for e in self.leave()]

    def _of_ways(self, *found: list[tuple[Edge, Value]]) -> Value:
        """A value that is another on each way."""
        ways = [pair for pairs in found for pair in pairs]
        for edge, value in ways:
            edge.names = edge.names | {".found": value}
        self.meet([e for e, _ in ways])
        if ".found" not in self.names:
            raise Refused("values that do not go together")
        return self.names.pop(".found")

    def _Subscript(self, node: ast.Subscript) -> Value:
        owner = self.value(node.value)
        if owner.type != TUPLE:
            return self._load(*self._place(node))
        index = self.value(node.slice)
        if index.known is not None and -len(owner.known) <= index.known < len(owner.known):
            return owner.known[index.known]
        return self._looked_up(owner, index)

    def _looked_up(self, owner: Value, index: Value) -> Value:
        """An entry of a tuple of constants, by a number that is not known before."""
        entries: tuple[Value, ...] = owner.known
        of = entries[0].type
        if index.type != "i8" or any(e.known is None or e.type != of for e in entries):
            raise Refused("an entry of a tuple of several types")
        text = ", ".join(f"{llvm(of)} {e.text}" for e in entries)
        kind = f"[{len(entries)} x {llvm(of)}]"
        name = next(
            (n for n, t in self.module.declared.items() if t.endswith(f" constant {kind} [{text}]")), ""
        )
        if not name:
            name = f"nbgrad_table_{sum(n.startswith('nbgrad_table_') for n in self.module.declared)}"
            self.declare(name, f"@{name} = private unnamed_addr constant {kind} [{text}]")
        below = self.made("b1", f"icmp slt i64 {index.text}, 0")
        other = self.made("i8", f"add i64 {index.text}, {len(entries)}")
        at = self.made("i8", f"select i1 {below.text}, i64 {other.text}, i64 {index.text}")
        place = self.made("*i8", f"getelementptr {llvm(of)}, ptr @{name}, i64 {at.text}")
        return self.made(of, f"load {llvm(of)}, ptr {place.text}")

    def _place(self, node: ast.Subscript) -> tuple[Value, Value]:
        pointer, index = self.value(node.value), self.value(node.slice)
        if pointer.type[0] != "*" or not is_integer(index.type):
            raise Refused(f"{pointer.type}[{index.type}]")
        return pointer, cast(self, index, "i8" if index.type[0] == "i" else "u8")

    def _at(self, pointer: Value, place: Value) -> str:
        of = llvm(pointer.type[1:])
        return self.made(pointer.type, f"getelementptr {of}, ptr {pointer.text}, i64 {place.text}").text

    def _load(self, pointer: Value, place: Value) -> Value:
        of = pointer.type[1:]
        return self.made(of, f"load {llvm(of)}, ptr {self._at(pointer, place)}")

    def _store(self, pointer: Value, place: Value, value: Value) -> None:
        value = cast(self, value, pointer.type[1:])
        self.line(f"store {llvm(value.type)} {value.text}, ptr {self._at(pointer, place)}")

    def _Call(self, node: ast.Call) -> Value:
        if node.keywords:
            raise Refused("an argument by its name")
        method = getattr(self, f"_{type(node.func).__name__}", None)
        function = method(node.func) if isinstance(node.func, ast.Name | ast.Attribute) and method else None
        args = [self.value(a) for a in node.args]
        if isinstance(function, Type) and len(args) == 1:
            return cast(self, args[0], str(function))
        if isinstance(function, Definition):
            return function.called(self, args)
        if callable(function) and not isinstance(function, Type):
            try:
                return function(self, *args)
            except TypeError as error:
                raise Refused(str(error)) from error
        raise Refused(f"a call of {ast.unparse(node.func)}")

    # ------------------------------------------------------------ the whole

    def text(
        self,
        head: str,
        params: Sequence[tuple[str, str]],
        body: Sequence[ast.stmt],
        fixed: dict[str, Value] | None = None,
    ) -> str:
        """The function: `head` has its name and linkage, `params` names and types, `fixed` what else is there when it begins."""
        self.blocks.append(self.block)
        self.names = {name: Value(t, f"%{name}") for name, t in params} | (fixed or {})
        self.walk(body)
        if self.live:
            self.returned.append((self.block, Value("none", "")))
        kinds = [value.type for _, value in self.returned]
        kind = kinds[0] if kinds else "none"
        for other in kinds[1:]:
            kind = unified(kind, other)
        for block, value in self.returned:
            given = self.on(Edge(block, 0, {}), value, kind)
            block.end = [f"ret {llvm(kind)} {given}".rstrip()]
        given = ", ".join(f"{llvm(t)} %{name}" for name, t in params)
        lines = [f"define {head.format(llvm(kind))}({given}) {WIDE} {{"]
        self.blocks[0].lines[:0] = self.entries
        for block in self.blocks:
            lines += [f"{block.label}:", *block.lines]
            if block.end:
                lines.append("".join(block.end))
        self.result = kind
        return "\n".join([*lines, "}"])


def _written(node: ast.expr) -> bool:
    """Whether Python works it out when it compiles, which for a NaN decides its sign."""
    if isinstance(node, ast.BinOp):
        return _written(node.left) and _written(node.right)
    if isinstance(node, ast.UnaryOp):
        return _written(node.operand)
    return isinstance(node, ast.Constant)


def _plain(node: ast.expr) -> bool:
    """Whether it costs nothing to have the value, wanted or not."""
    return isinstance(node, ast.Name | ast.Constant)


def assigned(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The variables that statements change."""
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (part.id for part in parts if isinstance(part, ast.Name))
        if isinstance(node, ast.For | ast.While | ast.If):
            yield from assigned(node.body)
            yield from assigned(node.orelse)
