"""The adjoint: the program once forwards, with what is needed later saved, then from its end to its beginning.

Promises who calls it `f_adjoint(*params, *bars of float arrays, *seeds) -> (*values, *bars of float scalars)`: to bars of arrays is added;
of an array that the function writes, the bar is what the results' seeds are of others, and is used up; a seed is one for each
result, an array's of its shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from nbgrad.adjoints.analyse import Plan, contributions
from nbgrad.adjoints.ir import (
    Add,
    Block,
    Branch,
    Expr,
    Grow,
    Let,
    Load,
    Loop,
    Make,
    Name,
    Product,
    Program,
    Raise,
    Store,
    View,
    blocks,
    sets,
    statements,
    whole,
    writes,
)
from nbgrad.adjoints.tangent import Sweep, added, counted, place_of, result
from nbgrad.adjoints.text import Lines, branch, dtype_text, function_text


class Adjoint(Sweep):
    def __init__(
        self,
        program: Program,
        wrt: Sequence[str],
        policy: str = "auto",
        wraparound: bool = True,
        values: bool = True,
    ) -> None:
        super().__init__(program, wraparound)
        self.wrt, self.values = list(wrt), values
        self.plan = Plan(program, wrt, policy)
        self.active = self.plan.active
        self.bars: dict[str, str] = {}
        self.touched: set[str] = (
            set()
        )  # names whose bar something was added to, and not yet been set to zero before
        self.first: Lines = []  # storage that is made before all
        self.stores: dict[tuple[int, str], str] = {}
        self.position: dict[int, str] = {}  # of loops whose storage holds several runs of theirs
        self.early: set[str] = set()  # arrays whose bar was made in the forward sweep
        # where the forward sweep is:
        self.recording = True
        self.frame: Loop | None = None  # the stored loop around
        self.only: set[str] | None = None  # of a loop that is run again, the names that are needed
        self.private: set[str] | None = None
        self.in_branch = 0

    def bar(self, name: str) -> str:
        if name not in self.bars:
            self.bars[name] = self.p.fresh(f"{name}b")
        return self.bars[name]

    def array_bars(self) -> list[str]:
        """Parameters that are arrays with a bar."""
        return [n for n in self.p.params if n in self.active.arrays]

    def source(self) -> str:
        p, w = self.p, self.w
        for n in self.array_bars():
            self.bar(n)
        seeds = [p.fresh("seed") for _ in p.results]
        seeded: Lines = []
        for r, seed in zip(p.results, seeds):
            if isinstance(r, View):
                if r.base in self.active.arrays:
                    seeded.append(f"{w.all_of(r, self.bar(r.base))} += {seed}")
            else:
                self.contribute(r, Name(seed), seeded)
        forward = self.forwards(p.body)
        head, arrays, zeros, body = self.backwards(p.body)
        scalars = [n for n in self.wrt if n in p.kinds]
        zeros = [f"{self.bar(n)} = 0.0" for n in sorted(self.touched)] + arrays + zeros
        bars = [self.bar(n) if n in self.touched else "0.0" for n in scalars]
        values = [result(w, r) for r in p.results] if self.values else []
        params = [*p.params, *(self.bar(n) for n in self.array_bars()), *seeds]
        return function_text(
            f"{p.name}_adjoint", params, [*self.first, *forward, *head, *zeros, *seeded, *body], values + bars
        )

    # ------------------------------------------------ forwards

    def wanted(self, name: str) -> bool:
        return self.only is None or name in self.only

    def kept(self, names: Sequence[str], out: Lines) -> None:
        """Save those of a statement's names that the reverse sweep reads."""
        if self.recording and self.frame is not None:
            out += [self.save(self.frame, n) for n in names if n in self.frame.saved]

    def save(self, loop: Loop, name: str) -> str:
        return f"{self.store_of(loop, name)}[{self.turn(loop)}] = {name}"

    def store_of(self, loop: Loop, name: str) -> str:
        key = (id(loop), name)
        if key not in self.stores:
            self.stores[key] = self.p.fresh(f"saved_{name}")
        return self.stores[key]

    def turn(self, loop: Loop) -> str:
        """Where a turn of a loop keeps its values."""
        position = self.position.get(id(loop))
        if loop.trips:
            assert position is not None
            return position
        return loop.counter if position is None else f"{position} + {loop.counter}"

    def statement(self, s: object, out: Lines) -> None:
        if isinstance(s, Let):
            if self.wanted(s.name):
                super().statement(s, out)
                self.kept([s.name], out)
        elif isinstance(s, Store | Add | Product):
            if self.private is None or s.base in self.private:
                super().statement(s, out)
        elif isinstance(s, Raise):
            if self.private is None:
                super().statement(s, out)
        elif isinstance(s, Make):
            super().statement(s, out)
            active = s.base in self.active.arrays and s.base not in self.plan.grown
            if self.recording and self.frame is None and self.in_branch and active:
                out.append(self.shadow(s))
                self.early.add(s.base)
        elif isinstance(s, Branch):
            self.in_branch += 1
            then, other = self.forwards(s.then), self.forwards(s.other)
            self.in_branch -= 1
            self.pairs([(n, a) for n, a, _ in s.merged], then)
            self.pairs([(n, b) for n, _, b in s.merged], other)
            branch(out, self.w.text(s.test), then, other)
            self.kept(sets(s), out)
        elif isinstance(s, Loop):
            if self.left_out(s):
                return
            in_branch, self.in_branch = self.in_branch, 0
            self.forward_loop(s, out, bool(in_branch))
            self.in_branch = in_branch
            self.kept(sets(s), out)
        else:
            super().statement(s, out)

    def pairs(self, pairs: Sequence[tuple[str, Expr]], out: Lines) -> None:
        super().pairs([(n, e) for n, e in pairs if self.wanted(n)], out)

    def left_out(self, s: Loop) -> bool:
        """Of a loop that is run again, an inner one that nothing needs."""
        if self.only is None or self.plan.has_adjoint(s):
            return False
        writing = any(writes(q) in (self.private or ()) for b in blocks(s) for q in statements(b))
        return not writing and not any(n in self.only for n in sets(s))

    def shadow(self, s: Make) -> str:
        dtype = dtype_text(self.p.arrays[s.base].dtype)
        if s.base in self.plan.grown:
            return f"{self.bar(s.base)} = np.zeros({s.base}.shape[0]{dtype})"
        return f"{self.bar(s.base)} = np.zeros({self.w.shape(s.extents)}{dtype})"

    def forward_loop(self, s: Loop, out: Lines, in_branch: bool) -> None:
        w = self.w
        save = self.recording and bool(s.saved) and self.plan.has_adjoint(s)
        frame, recording = self.frame, self.recording
        if save:
            self.storage(s, out, nested=frame is not None, in_branch=in_branch)
        self.pairs([(n, first) for n, first, _ in s.carried], out)
        body: Lines = []
        if s.test is None:
            head = counted(self.p, s, w, body)
            w.rising.add(s.counter)
        else:
            self.recording, self.frame = False, None
            tests = self.forwards(s.head)
            self.recording, self.frame = recording, frame
            head = f"while {w.text(s.test)}:"
            if tests:
                head, body = "while True:", [*tests, f"if not {w.text(s.test, 4)}:", ["break"]]
        heads = [n for n, _, _ in s.carried]
        if save and s.trips:
            at = self.position[id(s)]
            body += [f"{self.store_of(s, n)} = reserve({self.store_of(s, n)}, {at} + 1)" for n in s.saved]
        if save:
            body += [self.save(s, n) for n in s.saved if n in heads]
        self.frame = None if s.rerun else s
        self.recording = recording and not s.rerun
        body += self.forwards(s.body)
        self.frame, self.recording = frame, recording
        self.pairs([(n, last) for n, _, last in s.carried], body)
        w.rising.discard(s.counter)
        if save and s.trips:
            body.append(f"{self.position[id(s)]} += 1")
        if s.trips:
            out.append(f"{s.trips} = 0")
            body.append(f"{s.trips} += 1")
        if s.stopped is not None:
            body += [f"if {w.text(s.stopped)}:", ["break"]]
        if not body:
            return
        out += [head, body]
        if save and id(s) in self.position and not s.trips:
            out.append(f"{self.position[id(s)]} += {w.text(s.count)}")

    def storage(self, s: Loop, out: Lines, nested: bool, in_branch: bool) -> None:
        """Room for what the turns save: of their number where the loop runs once, else it grows."""
        grows = nested or bool(s.trips)
        if grows and id(s) not in self.position:
            self.position[id(s)] = at = self.p.fresh("p")
            self.first.append(f"{at} = 0")
        at = self.position.get(id(s), "")
        for n in s.saved:
            new = (id(s), n) not in self.stores
            store = self.store_of(s, n)
            dtype = dtype_text({"float": "float64", "int": "int64", "bool": "bool"}[self.p.kinds[n]])
            if not grows and not in_branch:
                out.append(f"{store} = np.empty({self.w.text(s.count)}{dtype})")
                continue
            if new:
                self.first.append(f"{store} = np.empty(0{dtype})")
            if not s.trips:
                size = f"{at} + {self.w.text(s.count, 9)}" if at else self.w.text(s.count)
                out.append(f"{store} = reserve({store}, {size})")

    # ------------------------------------------------ backwards

    def contribute(self, e: Expr, g: Expr, out: Lines, y: Expr | None = None) -> None:
        for leaf, part in contributions(self.active, e, g, y):
            if isinstance(leaf, Load):
                target = f"{self.bar(leaf.base)}[{self.w.index(leaf.index)}]"
            else:
                self.touched.add(leaf.name)
                target = self.bar(leaf.name)
            out.append(added(target, part, self.w))

    def backwards(
        self, block: Block, frame: Loop | None = None, handed: Sequence[str] = ()
    ) -> tuple[Lines, Lines, Lines, Lines]:
        """The adjoint of a block: what is restored, arrays' bars, names' bars that begin at zero, and the statements last to first."""
        out: Lines = list(handed)
        arrays: Lines = []
        own = {n for s in block for n in sets(s)}
        for s in reversed(block):
            self.back(s, out, arrays, frame, block)
        head: Lines = []
        if frame is not None and not frame.rerun:
            self.restore(block, frame, head)
        zeros: Lines = [f"{self.bar(n)} = 0.0" for n in sorted(self.touched & own)]
        self.touched -= own
        return head, arrays[::-1], zeros, out

    def back(self, s: object, out: Lines, arrays: Lines, frame: Loop | None, block: Block) -> None:
        active, w = self.active, self.w
        if isinstance(s, Let):
            if s.name in self.touched:
                self.contribute(s.value, Name(self.bar(s.name)), out, Name(s.name))
        elif isinstance(s, Store | Add) and s.base in active.arrays:
            at = f"{self.bar(s.base)}[{w.index(s.index)}]"
            if active.moves(s.value):
                g = self.p.fresh("g")
                out.append(f"{g} = {at}")
                if isinstance(s, Store):
                    out.append(f"{at} = 0.0")
                self.contribute(s.value, Name(g), out)
            elif isinstance(s, Store):
                out.append(f"{at} = 0.0")
        elif isinstance(s, Make):
            self.back_make(s, arrays, frame, block)
        elif isinstance(s, Product) and s.base in active.arrays:
            self.back_product(s, out)
        elif isinstance(s, Branch):
            then: Lines = []
            other: Lines = []
            for n, a, b in s.merged:
                if n in active.names and n in self.touched:
                    self.contribute(a, Name(self.bar(n)), then)
                    self.contribute(b, Name(self.bar(n)), other)
            then, other = self.whole(s.then, frame, then), self.whole(s.other, frame, other)
            branch(out, w.text(s.test), then, other)
        elif isinstance(s, Loop) and self.plan.has_adjoint(s):
            self.back_loop(s, out)

    def back_make(self, s: Make, arrays: Lines, frame: Loop | None, block: Block) -> None:
        if frame is not None and not frame.rerun:
            again = (q for t in block for q in (t, *(x for b in blocks(t) for x in statements(b))))
            if any(isinstance(q, Loop) and q.rerun and s.base in q.private for q in again):
                self.make(s, arrays)
        if s.base in self.active.arrays and s.base not in self.early:
            arrays.append(self.shadow(s))

    def whole(self, block: Block, frame: Loop | None, handed: Lines) -> Lines:
        head, arrays, zeros, out = self.backwards(block, frame, handed)
        return head + arrays + zeros + out if out else []

    def restore(self, block: Block, loop: Loop, out: Lines) -> None:
        for s in block:
            for n in sets(s):
                if n in loop.saved:
                    out.append(f"{n} = {self.store_of(loop, n)}[{self.turn(loop)}]")
                elif n in loop.again and isinstance(s, Let):
                    out.append(f"{n} = {self.w.text(s.value)}")

    def back_product(self, s: Product, out: Lines) -> None:
        w, g, arrays = self.w, self.bar(s.base), self.active.arrays
        x, y = s.left, s.right
        matrix_x, matrix_y = len(x.order) == 2, len(y.order) == 2
        if x.base in arrays:
            if matrix_x and matrix_y:
                term = f"np.dot({g}, {_turned(w.view(y))})"
            else:
                term = f"np.outer({g}, {w.view(y)})" if matrix_x else f"np.dot({w.view(y)}, {g})"
            out.append(f"{w.all_of(x, self.bar(x.base))} += {term}")
        if y.base in arrays:
            if matrix_x:
                term = f"np.dot({_turned(w.view(x))}, {g})"
            else:
                term = f"np.outer({w.view(x)}, {g})"
            out.append(f"{w.all_of(y, self.bar(y.base))} += {term}")
        out.append(f"{w.all_of(whole(g, self.p.arrays[s.base].rank), g)} = 0.0")

    def back_loop(self, s: Loop, out: Lines) -> None:
        w, active = self.w, self.active
        count = s.trips or w.text(s.count)
        carried = [c for c in s.carried if c[0] in active.names]
        self.touched |= {n for n, _, _ in carried}
        at = self.position.get(id(s)) if s.saved else None
        if at is not None and not s.trips:
            out.append(f"{at} -= {count}")
        upwards = s.test is None and self.plan.commutes(s, set(self.position))
        body: Lines = []
        if s.test is None:
            if s.counter != s.var:
                body.append(f"{s.var} = {w.text(place_of(s, Name(s.counter)))}")
            if upwards:
                w.rising.add(s.counter)
        elif not s.counter:
            s.counter = self.p.fresh("t")
        if at is not None and s.trips:
            body.append(f"{at} -= 1")
        heads = {n for n, _, _ in s.carried}
        body += [f"{n} = {self.store_of(s, n)}[{self.turn(s)}]" for n in s.saved if n in heads]
        if s.rerun:
            self.run_again(s, body)
        handed = self.handed(carried)
        head, arrays, zeros, mine = self.backwards(s.body, None if s.rerun else s, handed)
        w.rising.discard(s.counter)
        body += head + arrays + zeros + mine
        if mine:
            turns = f"range({count})" if upwards else f"range({_minus_one(count)}, -1, -1)"
            out += [f"for {s.counter} in {turns}:", body]
        for n, first, _ in carried:
            self.contribute(first, Name(self.bar(n)), out)

    def handed(self, carried: Sequence[tuple[str, Expr, Expr]]) -> Lines:
        """The bars of what a turn makes of carried names, from those of the next turn."""
        moves = [(n, last) for n, _, last in carried if last != Name(n)]
        heads = {n for n, _, _ in carried}
        out: Lines = []
        if any(isinstance(last, Name) and last.name in heads for _, last in moves):
            held = [(self.p.fresh("g"), n, last) for n, last in moves]
            out += [f"{g} = {self.bar(n)}" for g, n, _ in held]
            out += [f"{self.bar(n)} = 0.0" for _, n, _ in held]
            for g, _, last in held:
                self.contribute(last, Name(g), out)
            return out
        for n, last in moves:
            self.contribute(last, Name(self.bar(n)), out)
        return out + [f"{self.bar(n)} = 0.0" for n, _ in moves]

    def run_again(self, s: Loop, out: Lines) -> None:
        """One turn forwards, now recording."""
        state = self.recording, self.frame, self.only, self.private, self.in_branch
        self.recording, self.frame, self.only, self.private = True, None, s.again, s.private
        self.in_branch = 0
        out += self.forwards(s.body)
        self.recording, self.frame, self.only, self.private, self.in_branch = state


def _turned(text: str) -> str:
    return text[:-2] if text.endswith(".T") else f"{text}.T"


def _minus_one(count: str) -> str:
    return str(int(count) - 1) if count.isdecimal() else f"{count} - 1"


__all__ = ["Adjoint", "Grow", "Program", "Raise"]
