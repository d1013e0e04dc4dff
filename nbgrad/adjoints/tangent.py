"""The tangent: each statement beside its derivative, in the order of the program. And the program itself, written out.

Promises who tests the adjoint a derivative that shares nothing with it but the lowering and the partials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.adjoints import ops
from nbgrad.adjoints.activity import Activity
from nbgrad.adjoints.analyse import operand
from nbgrad.adjoints.ir import (
    FLOAT_ZERO,
    ZERO,
    Add,
    Apply,
    Block,
    Branch,
    Expr,
    Fill,
    Grow,
    Let,
    Load,
    Loop,
    Make,
    Name,
    Product,
    Program,
    Raise,
    Refused,
    Store,
    View,
    const,
    loads,
    names,
    reads,
    statements,
    whole,
)
from nbgrad.adjoints.text import Lines, Text, Writer, branch, copies, dtype_text, function_text, parallel
from nbgrad.adjoints.turns import extreme_of, hoist_loads, only_added, share_extremes


class Sweep:
    """Writes a program forwards; what stands beside each statement is for who inherits."""

    def __init__(self, program: Program, wraparound: bool = True) -> None:
        self.p = program
        self.w = Writer(program, wraparound)

    def forwards(self, block: Block) -> Lines:
        out: Lines = []
        for s in block:
            self.statement(s, out)
        return out

    def statement(self, s: object, out: Lines) -> None:
        w = self.w
        if isinstance(s, Let):
            out.append(f"{s.name} = {w.text(s.value)}")
        elif isinstance(s, Store):
            out.append(f"{s.base}[{w.index(s.index)}] = {w.text(s.value)}")
        elif isinstance(s, Add):
            out.append(added(f"{s.base}[{w.index(s.index)}]", s.value, w))
        elif isinstance(s, Make):
            self.make(s, out)
        elif isinstance(s, Grow):
            out.append(f"{s.base} = reserve({s.base}, {w.text(s.size)})")
        elif isinstance(s, Product):
            out.append(f"np.dot({w.view(s.left)}, {w.view(s.right)}, {s.base})")
        elif isinstance(s, Fill):
            out.append(self.call(s.of.into, [*map(w.view, s.args), s.base]))
        elif isinstance(s, Raise):
            out.append(f"raise {s.text}")
        elif isinstance(s, Branch):
            then, other = self.forwards(s.then), self.forwards(s.other)
            self.pairs([(n, a) for n, a, _ in s.merged], then)
            self.pairs([(n, b) for n, _, b in s.merged], other)
            branch(out, w.text(s.test), then, other)
        elif isinstance(s, Loop):
            self.loop(s, out)

    def call(self, f: Callable[..., Any], args: Sequence[str]) -> str:
        """Of a function that is called, not written out."""
        self.p.taken.add(f.__name__)
        self.p.constants[f.__name__] = f
        return f"{f.__name__}({', '.join(args)})"

    def make(self, s: Make, out: Lines) -> None:
        how = "zeros" if s.zeros else "empty"
        out.append(f"{s.base} = np.{how}({self.w.shape(s.extents)}{dtype_text(self.p.arrays[s.base].dtype)})")

    def pairs(self, pairs: Sequence[tuple[str, Expr]], out: Lines) -> None:
        copies(self.w, pairs, out)

    def loop(self, s: Loop, out: Lines) -> None:
        w = self.w
        self.pairs([(n, first) for n, first, _ in s.carried], out)
        if s.trips:
            out.append(f"{s.trips} = 0")
        body: Lines = []
        if s.test is None:
            head = counted(self.p, s, w, body)
            w.rises(s)
        else:
            tests = self.forwards(s.head)
            head = f"while {w.text(s.test)}:"
            if tests:
                head = "while True:"
                body += [*tests, f"if not {w.text(s.test, 4)}:", ["break"]]
        body += self.forwards(s.body)
        self.pairs([(n, last) for n, _, last in s.carried], body)
        w.rising.discard(s.counter)
        if s.trips:
            body.append(f"{s.trips} += 1")
        if s.stopped is not None:
            body += [f"if {w.text(s.stopped)}:", ["break"]]
        if body:
            out += [self.dealt(s, head), body]
        elif s.test is not None:
            out += [head, ["pass"]]

    def dealt(self, s: Loop, head: str) -> str:
        """The head of a loop, of which threads may take parts where its turns hand on nothing but sums."""
        own = {n for n, _, _ in s.carried}
        extremes = {n: extreme_of(s, n, last) for n, _, last in s.carried}
        alone = any(n in s.saved or not (extremes[n] or only_added(s, n, last)) for n, _, last in s.carried)
        moving = self.beside(own)
        if not s.parallel or alone or any(self.p.kinds[n] == "bool" for n in own):
            return head
        if any(extremes[n] and (moving or self.p.kinds[n] != "float") for n in own):
            return head
        folds = {n: how for n, how in extremes.items() if how}
        return parallel(s.counter, self.w.text(s.count), s.var, self.sums(s) | moving | folds)

    def sums(self, s: Loop) -> dict[str, str]:
        """What a loop carries, and what a part of it begins from."""
        return {n: "0" if self.p.kinds[n] == "int" else "0.0" for n in sorted(n for n, _, _ in s.carried)}

    def beside(self, sums: set[str]) -> dict[str, str]:
        """What else is a sum if these are."""
        return {}


def counted(p: Program, s: Loop, w: Writer, body: Lines) -> str:
    """The head of a loop that counts; the name that the user has for where it stands is set in the body, if it is another."""
    if s.straight:
        s.counter = s.var
    else:
        if not s.counter:
            s.counter = p.fresh("t")
            p.kinds[s.counter] = "int"
            p.natural.add(s.counter)
        body.append(f"{s.var} = {w.text(place_of(s, Name(s.counter)))}")
    return f"for {s.counter} in range({w.text(s.count)}):"


def place_of(s: Loop, turn: Expr) -> Expr:
    """What a loop's name is in a turn."""
    if s.step < 0:
        steps = turn if s.step == -1 else Apply("mul", (turn, const(-s.step)))
        return Apply("sub", (s.start, steps))
    steps = turn if s.step == 1 else Apply("mul", (turn, const(s.step)))
    return steps if s.start == ZERO else Apply("add", (s.start, steps))


def added(target: str, e: Expr, w: Writer) -> str:
    if isinstance(e, Apply) and e.op == "neg":
        return f"{target} -= {w.text(e.args[0])}"
    return f"{target} += {w.text(e)}"


def primal(program: Program, wraparound: bool = True) -> Text:
    """The program as it is."""
    hoist_loads(program)
    share_extremes(program)
    sweep = Sweep(program, wraparound)
    body = sweep.forwards(program.body)
    return function_text(program.name, program.params, body, [result(sweep.w, r) for r in program.results])


def result(w: Writer, r: Expr | View) -> str:
    return w.view(r) if isinstance(r, View) else w.text(r)


class Tangent(Sweep):
    def __init__(
        self, program: Program, wrt: Sequence[str], wraparound: bool = True, values: bool = True
    ) -> None:
        super().__init__(program, wraparound)
        hoist_loads(program)
        self.activity = Activity(program, wrt, forwards=True)
        share_extremes(program, self.activity.names)
        self.wrt, self.values = list(wrt), values
        self.dots: dict[str, str] = {}
        read = {b for s in statements(program.body) for b in reads(s)}
        read |= {r.base for r in program.results if isinstance(r, View)}
        # Arrays of the caller that only their values would be written to for, where those are not asked for.
        self.left_out = set() if values else {n for n in program.params if n in program.arrays} - read

    def dot(self, name: str) -> str:
        if name not in self.dots:
            self.dots[name] = self.p.fresh(f"{name}_d")
            if name in self.p.kinds:
                self.p.kinds[self.dots[name]] = "float"
        return self.dots[name]

    def params(self) -> list[str]:
        """The inputs that have a tangent, in their order: those that are wanted, and arrays that get one."""
        return [p for p in self.p.params if p in self.wrt or p in self.activity.arrays]

    def source(self) -> Text:
        p, w = self.p, self.w
        params = [*p.params, *(self.dot(n) for n in self.params())]
        body = self.forwards(p.body)
        moved = []
        for r in p.results:
            if isinstance(r, View):
                still = f"np.zeros_like({w.view(r)})"
                moved.append(w.view(r, self.dot(r.base)) if r.base in self.activity.arrays else still)
            else:
                moved.append(w.text(self.moved(r)))
        results = [result(w, r) for r in p.results if self.values] + moved
        return function_text(f"{p.name}_tangent", params, body, results)

    def moved(self, e: Expr, y: Expr | None = None) -> Expr:
        return self.derivative(e, y) or FLOAT_ZERO

    def derivative(self, e: Expr, y: Expr | None = None) -> Expr | None:
        """None where nothing that moves goes in."""
        if not self.activity.moves(e):
            return None
        if isinstance(e, Name):
            return Name(self.dot(e.name))
        if isinstance(e, Load):
            return Load(self.dot(e.base), e.index)
        assert isinstance(e, Apply)
        if not ops.differentiable(e.op):
            raise Refused(f"{self.p.name}: {e.op} has no derivative here")
        if e.op == "where":
            a, b = self.derivative(e.args[1]), self.derivative(e.args[2])
            return ops.choice(e.args[0], a or FLOAT_ZERO, b or FLOAT_ZERO)
        moves = [self.derivative(a) for a in e.args]
        if e.op == "div" and moves[0] is not None and moves[1] is not None:  # by one division
            above = ops.plus(moves[0], ops.negated(ops.times(moves[1], y or e)))
            assert above is not None
            return ops.over(above, e.args[1])
        total: Expr | None = None
        for k, d in enumerate(moves):
            part = None if d is None else ops.derivatives(e, y or e, d)[k]
            total = total if part is None else ops.plus(total, part)
        return total

    def statement(self, s: object, out: Lines) -> None:
        w, active = self.w, self.activity
        if isinstance(s, Let):
            out.append(f"{s.name} = {w.text(s.value)}")
            if s.name in active.names:
                out.append(f"{self.dot(s.name)} = {w.text(self.moved(s.value, Name(s.name)))}")
            return
        if isinstance(s, Store | Add) and s.base in active.arrays:
            at = f"{self.dot(s.base)}[{w.index(s.index)}]"
            if isinstance(s, Store):
                out.append(f"{at} = {w.text(self.moved(s.value))}")
            elif active.moves(s.value):
                out.append(added(at, self.moved(s.value), w))
        if isinstance(s, Store | Add) and s.base in self.left_out:
            return
        if isinstance(s, Product) and s.base in active.arrays:
            terms = []
            if s.left.base in active.arrays:
                terms.append(f"np.dot({w.view(s.left, self.dot(s.left.base))}, {w.view(s.right)})")
            if s.right.base in active.arrays:
                terms.append(f"np.dot({w.view(s.left)}, {w.view(s.right, self.dot(s.right.base))})")
            dims = ", ".join([":"] * self.p.arrays[s.base].rank)
            out.append(f"{self.dot(s.base)}[{dims}] = {' + '.join(terms)}")
        super().statement(s, out)
        if isinstance(s, Fill) and s.base in active.arrays:
            moved = self.dot(s.base)
            out.append(f"{w.all_of(whole(moved, self.p.arrays[s.base].rank), moved)} = 0.0")
            values = [w.view(operand(self.p, s, place)) for place in s.of.reads]
            for x, along in zip(s.args, s.of.along):
                if x.base in active.arrays:
                    out.append(self.call(along, [*values, w.view(x, self.dot(x.base)), moved]))
        if isinstance(s, Make) and s.base in active.arrays:
            shape = f"{self.w.shape(s.extents)}{dtype_text(self.p.arrays[s.base].dtype)}"
            how = "zeros" if s.zeros else "empty"  # each store sets both
            out.append(f"{self.dot(s.base)} = np.{how}({shape})")
        if isinstance(s, Grow) and s.base in active.arrays:
            out.append(f"{self.dot(s.base)} = reserve({self.dot(s.base)}, {w.text(s.size)})")

    def beside(self, sums: set[str]) -> dict[str, str]:
        return {self.dot(n): "0.0" for n in sorted(sums & self.activity.names)}

    def pairs(self, pairs: Sequence[tuple[str, Expr]], out: Lines) -> None:
        both: list[tuple[str, Expr]] = []
        for name, e in pairs:
            both.append((name, e))
            if name in self.activity.names:
                both.append((self.dot(name), self.moved(e)))
        super().pairs(both, out)


__all__ = ["Sweep", "Tangent", "added", "loads", "names", "primal"]
