"""The adjoint: the program once forwards, with what is needed later saved, then from its end to its beginning.

Promises who calls it `f_adjoint(*params, *bars of float arrays, *seeds) -> (*values, *bars of float scalars)`: to bars of arrays is added;
of an array that the function writes, the bar is what the results' seeds are of others, and is used up; a seed is one for each
result, an array's of its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard

from nbgrad.adjoints.activity import contributions
from nbgrad.adjoints.analyse import Plan, Policy, operand
from nbgrad.adjoints.build import Builder
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
    Keep,
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
    names,
    sets,
    statements,
    whole,
    writes,
)
from nbgrad.adjoints.ops import kind
from nbgrad.adjoints.revolve import onward
from nbgrad.adjoints.shadows import filled_anew, set_not_added
from nbgrad.adjoints.tangent import Sweep, added, counted, place_of, result
from nbgrad.adjoints.text import Lines, Text, branch, dtype_text, function_text, parallel
from nbgrad.adjoints.turns import share_extremes


class Adjoint(Sweep):
    counting = False  # is what is run again recorded in the forward sweep as well?

    def __init__(
        self,
        program: Program,
        wrt: Sequence[str],
        policy: Policy = "auto",
        wraparound: bool = True,
        values: bool = True,
    ) -> None:
        super().__init__(program, wraparound)
        self.wrt, self.values = list(wrt), values
        self.plan = Plan(program, wrt, policy)
        self.active = self.plan.active
        share_extremes(program, self.active.names)
        self.bars: dict[str, str] = {}
        self.touched: set[str] = (
            set()
        )  # names whose bar something was added to, and not yet been set to zero before
        self.first: Lines = []  # storage that is made before all
        self.stores: dict[tuple[int, str], str] = {}
        self.position: dict[int, str] = {}  # of loops whose storage grows with each run of theirs
        self.stored: dict[
            int, list[Loop]
        ] = {}  # of others: the loops whose counters say where a turn's values are
        self.early: set[str] = set()  # arrays whose bar was made in the forward sweep
        self.steps: dict[
            int, tuple[str, str]
        ] = {}  # of loops whose turns are run again: how many, and from where
        self.copies: dict[tuple[int, str], str] = {}
        self.laid: dict[
            int, tuple[str, str, str, str]
        ] = {}  # of those whose copies have a room: its size, how many there are, where each lies, where the next one will
        self.once: Loop | None = None  # the loop that only the reverse sweep runs
        self.later: list[Let] = []  # what is made of its sums
        self.room: Lines = []  # for what the turns save that are run again between two copies
        self.ahead: Lines = []  # of the loop that is being written, and is in no other stored one
        self.before: Lines = []  # what the next loop begins its turns with
        self.sides: dict[
            str, str
        ] = {}  # names whose bar only one side of a branch adds to, by what decides it
        self.added: set[str] = set()  # names whose bar was added to, on the side that is being written
        # where the forward sweep is:
        self.recording = True
        self.frame: Loop | None = None  # the stored loop around
        self.only: set[str] | None = None  # of a loop that is run again, the names that are needed
        self.private: set[str] | None = None
        self.in_branch = 0
        self.shaped: set[tuple[int, str]] = set()  # kept arrays with a place of their own shape for each turn

    def bar(self, name: str) -> str:
        if name not in self.bars:
            self.bars[name] = self.p.fresh(f"{name}b")
        return self.bars[name]

    def array_bars(self) -> list[str]:
        """Parameters that are arrays with a bar."""
        return [n for n in self.p.params if n in self.active.arrays]

    def source(self) -> Text:
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
        found = self.plan.run_once()
        if found is not None:
            self.once, self.later = found
        forward = self.forwards(p.body)
        head, arrays, zeros, body = self.backwards(p.body)
        scalars = [n for n in self.wrt if n in p.kinds]
        zeros = [f"{self.bar(n)} = 0.0" for n in sorted(self.touched)] + arrays + zeros
        bars = [self.bar(n) if n in self.touched else "0.0" for n in scalars]
        values: list[str] = []
        undone = set(_assigned(body))  # in the reverse sweep names get back what they were in earlier turns
        made = {n for n, _, _ in self.once.carried} if self.once is not None else set()
        made |= {s.name for s in self.later}
        read = [_read(r) for r in p.results]
        of_sums = [names(s.value) for s in self.later] + [of for of in read if of & made]
        for name in sorted(set().union(*of_sums) & undone - made):
            kept = p.fresh(name)
            forward.append(f"{kept} = {name}")
            body.append(f"{name} = {kept}")
        for s in self.later:
            super().statement(s, body)
        for r, of in zip(p.results, read) if self.values else ():
            text = result(w, r)
            if of & undone and not of & made:
                value = p.fresh("value")
                forward.append(f"{value} = {text}")
                text = value
            values.append(text)
        params = [*p.params, *(self.bar(n) for n in self.array_bars()), *seeds]
        lines = [*self.first, *forward, *head, *zeros, *seeded, *body]
        return function_text(f"{p.name}_adjoint", params, lines, values + bars, self.first)

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
        if loop.room:
            return "0"
        if id(loop) in self.steps:
            return f"u({loop.counter} - {self.steps[id(loop)][1]})"
        position = self.position.get(id(loop))
        if position is not None:
            return f"u({position})" if loop.trips else f"u({position} + {loop.counter})"
        with_it = self.stored[id(loop)] or [loop]
        return ", ".join([self.turn(q) if q.steps else self.w.place(Name(q.counter)) for q in with_it])

    def statement(self, s: object, out: Lines) -> None:
        if isinstance(s, Loop) and s is self.once:
            counted(self.p, s, self.w, [])
        elif any(s is q for q in self.later):
            pass
        elif isinstance(s, Let):
            if self.wanted(s.name):
                super().statement(s, out)
                self.kept([s.name], out)
        elif isinstance(s, Keep):
            self.keep(s, out)
        elif isinstance(s, Store | Add | Product | Fill):
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
            if s.steps and self.recording:
                self.forward_steps(s, out, bool(in_branch))
            else:
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
        before, self.before = self.before, []
        save = self.recording and bool(s.saved) and self.plan.has_adjoint(s)
        frame, recording = self.frame, self.recording
        ahead = self.ahead
        if frame is None:
            self.ahead = []
        if save:
            self.storage(s, out, nested=frame is not None, in_branch=in_branch)
        self.pairs([(n, first) for n, first, _ in s.carried], out)
        body: Lines = []
        if s.test is None:
            head = counted(self.p, s, w, body)
            w.rises(s)
        else:
            self.recording, self.frame = False, None
            tests = self.forwards(s.head)
            self.recording, self.frame = recording, frame
            head = f"while {w.text(s.test)}:"
            if tests:
                head, body = "while True:", [*tests, f"if not {w.text(s.test, 4)}:", ["break"]]
        heads = [n for n, _, _ in s.carried]
        if save and s.trips and not s.steps:
            at = self.position[id(s)]
            stores = [self.store_of(s, n) for n in s.saved if n not in self.p.arrays]
            body += [f"{store} = reserve({store}, {at} + 1)" for store in stores]
        if save:
            body += [self.save(s, n) for n in s.saved if n in heads]
        body += before
        self.frame = None if s.rerun else s
        self.recording = recording and (self.counting or not s.rerun)
        body += self.forwards(s.body)
        self.frame, self.recording = frame, recording
        self.pairs([(n, last) for n, _, last in s.carried], body)
        w.rising.discard(s.counter)
        if save and s.trips and not s.steps:
            body.append(f"{self.position[id(s)]} += 1")
        if s.trips:
            out.append(f"{s.trips} = 0")
            body.append(f"{s.trips} += 1")
        if s.stopped is not None:
            body += [f"if {w.text(s.stopped)}:", ["break"]]
        if frame is None:
            out += self.ahead
            self.ahead = ahead
        if not body:
            return
        out += [self.dealt(s, head), body]
        if save and id(s) in self.position and not s.trips:
            out.append(f"{self.position[id(s)]} += {w.text(s.count)}")

    # ------------------------------------------------ time steps

    def forward_steps(self, s: Loop, out: Lines, in_branch: bool) -> None:
        """The loop as it is, but that each so many turns what it carries is copied."""
        w, p = self.w, self.p
        count = w.text(s.count)
        if s.room:
            room, held, at, beyond = p.fresh("room"), p.fresh("held"), p.fresh("places"), p.fresh("next_copy")
            self.laid[id(s)] = room, held, at, beyond
            self.steps[id(s)] = "1", ""
            out += [f"{room} = max(min({s.room}, {count}), 1)", f"{held} = 0", f"{beyond} = 0"]
            copies = room
        else:
            every, _ = self.steps[id(s)] = p.fresh("every"), p.fresh("first")
            out.append(f"{every} = {s.steps}" if s.steps != "0" else f"{every} = int(math.sqrt({count})) + 1")
            copies = f"(({count} + {every} - 1) // {every})"
        carried = [n for n, _, _ in s.carried]
        kinds = {"float": "float64", "int": "int64", "bool": "bool"}
        sizes = {n: self.length_of(n) for n in [*carried, *s.states]}
        dtypes = {n: p.arrays[n].dtype if n in p.arrays else kinds[p.kinds[n]] for n in sizes}
        if s.room:
            sizes[at], dtypes[at] = "1", "int64"
        for n, size in sizes.items():
            self.copies[id(s), n] = copy = at if s.room and n == at else p.fresh(f"copies_{n}")
            length, dtype = copies if size == "1" else f"{copies} * {size}", dtype_text(dtypes[n])
            if s.trips or in_branch:
                self.first.append(f"{copy} = np.empty(0{dtype})")
                length = "" if s.trips else f"reserve({copy}, {length})"
            else:  # which LLVM knows to be no other array, as it does not of what `reserve` gives
                length = f"np.empty({length}{dtype})"
            if length:
                out.append(f"{copy} = {length}")
        turn = s.trips
        if not turn:
            turn = s.counter = s.var if s.straight else s.counter or p.fresh("t")
        recording, self.recording = self.recording, self.counting
        if s.room:
            self.before = self.laid_at(s, turn, count)
        else:
            place = p.fresh("at")
            kept: Lines = [f"{place} = {turn} // {every}"]
            for n, size in sizes.items():
                if s.trips:
                    copy = self.copies[id(s), n]
                    kept.append(f"{copy} = reserve({copy}, ({place} + 1) * {size})")
                self.copied(s, n, place, kept, back=False)
            self.before = [f"if {turn} % {every} == 0:", kept]
        self.forward_loop(s, out, False)
        self.recording = recording

    def shown(self, s: Loop) -> list[str]:
        """Arrays that the caller will see, as they are when all turns are over."""
        results = {r.base for r in self.p.results if isinstance(r, View)}
        return [n for n in s.states if n in results or n in self.p.params]

    def laid_at(self, s: Loop, turn: str, end: str) -> Lines:
        """A copy where the schedule has one, of the turns up to `end`."""
        room, held, at, beyond = self.laid[id(s)]
        kept: Lines = [f"{at}[{held}] = {turn}"]
        for n in [*(n for n, _, _ in s.carried), *s.states]:
            self.copied(s, n, held, kept, back=False)
        far = f"{self.schedule()}({end} - {turn}, {room} - {held})"
        kept += [f"{beyond} = {turn} + {far}", f"{held} += 1"]
        return [f"if {turn} == {beyond}:", kept]

    def schedule(self) -> str:
        self.p.taken.add("onward")
        self.p.constants["onward"] = onward
        return "onward"

    def length_of(self, name: str) -> str:
        """How many numbers a copy of it takes."""
        sizes = (
            [f"{name}.shape[{k}]" for k in range(self.p.arrays[name].rank)] if name in self.p.arrays else []
        )
        return f"({' * '.join(sizes)})" if len(sizes) > 1 else sizes[0] if sizes else "1"

    def copied(self, s: Loop, name: str, at: str, out: Lines, back: bool) -> None:
        """Between a name, or an array, and its copy. By loops: what an assignment of slices may raise takes long to compile."""
        copy = self.copies[id(s), name]
        if name not in self.p.arrays:
            out.append(f"{name} = {copy}[{at}]" if back else f"{copy}[{at}] = {name}")
            return
        counters = [self.p.fresh("i") for _ in range(self.p.arrays[name].rank)]
        place = "" if at == "0" else at
        for k, i in enumerate(counters):
            inner = f"({place})" if " " in place else place
            place = f"{inner} * {name}.shape[{k}] + {i}" if place else i
        pair = f"{name}[{', '.join(counters)}]", f"{copy}[u({place})]"
        line: Lines = [" = ".join(pair if back else pair[::-1])]
        for k, i in reversed(list(enumerate(counters))):
            line = [f"for {i} in range({name}.shape[{k}]):", line]
        out += line

    def back_steps(self, s: Loop, out: Lines) -> None:
        """From the last copy to the first: the turns behind it are run again, now recording, and reversed."""
        p, w = self.p, self.w
        every, low = self.steps[id(s)]
        count = s.trips or w.text(s.count)
        carried = [c for c in s.carried if c[0] in self.active.names]
        self.touched |= {n for n, _, _ in carried}
        ends: Lines = []
        for n in self.shown(s):
            end = self.copies[id(s), f"{n} at the end"] = p.fresh(f"last_{n}")
            out.append(f"{end} = np.empty({self.length_of(n)}{dtype_text(p.arrays[n].dtype)})")
            self.copies[id(s), n], kept = end, self.copies[id(s), n]
            self.copied(s, n, "0", out, back=False)
            self.copied(s, n, "0", ends, back=True)
            self.copies[id(s), n] = kept
        if s.test is not None or not s.counter:
            s.counter = s.counter or p.fresh("t")
        for n in s.saved:
            if n in p.arrays:
                out += self.storage_of_array(s, n, [every], None)
                continue
            dtype = dtype_text({"float": "float64", "int": "int64", "bool": "bool"}[p.kinds[n]])
            out.append(f"{self.store_of(s, n)} = np.empty({every}{dtype})")
        heads = [n for n, _, _ in s.carried]
        place = (
            [] if s.counter == s.var or not s.var else [f"{s.var} = {w.text(place_of(s, Name(s.counter)))}"]
        )
        turn: Lines = [*place, *(self.save(s, n) for n in s.saved if n in heads)]
        turn += self.turn_again(s, recording=True)
        out += self.room
        self.room = []
        back: Lines = [f"{n} = {self.store_of(s, n)}[{self.turn(s)}]" for n in s.saved if n in heads]
        if s.room:
            at = p.fresh("at")
            body = [*self.up_to(s, at, place), f"{s.counter} = {at}", *turn, *back]
            last = count
        else:
            at, high = p.fresh("at"), p.fresh("end")
            body = [f"{low} = {at} * {every}", f"{high} = min({low} + {every}, {count})"]
            for n in [*heads, *s.states]:
                self.copied(s, n, at, body, back=True)
            body += [f"for {s.counter} in range({low}, {high}):", turn]
            last = f"({count} + {every} - 1) // {every}"
        head, arrays, zeros, mine = self.backwards(s.body, s, self.handed(carried))
        mine = head + arrays + zeros + mine
        self.set_anew(s, mine)
        if s.room:
            body += mine
        else:
            body += [f"for {s.counter} in range({high} - 1, {low} - 1, -1):", place + back + mine]
        if mine:  # else nothing moves back through the turns
            out += [f"for {at} in range({_minus_one(last)}, -1, -1):", body, *ends]
        for n, first, _ in carried:
            self.contribute(first, Name(self.bar(n)), out)

    def turn_again(self, s: Loop, recording: bool) -> Lines:
        state = self.recording, self.frame
        self.recording, self.frame = recording, s if recording else None
        lines = self.forwards(s.body)
        self.recording, self.frame = state
        if not (recording and s.room):  # of which the next turn is known
            self.pairs([(n, last) for n, _, last in s.carried], lines)
        return lines

    def up_to(self, s: Loop, at: str, place: Lines) -> Lines:
        """What the turn `at` begins with, from the last copy, which is given up if it is that; on the way others are laid."""
        room, held, places, beyond = self.laid[id(s)]
        low = self.p.fresh("first")
        lines: Lines = [f"{low} = {places}[{held} - 1]"]
        for n in [*(n for n, _, _ in s.carried), *s.states]:
            self.copied(s, n, f"{held} - 1", lines, back=True)
        far = f"{self.schedule()}({at} + 1 - {low}, {room} - {held} + 1)"
        way = [*place, *self.laid_at(s, s.counter, f"{at} + 1"), *self.turn_again(s, recording=False)]
        lines += [f"if {low} == {at}:", [f"{held} -= 1"], "else:"]
        lines.append([f"{beyond} = {low} + {far}", f"for {s.counter} in range({low}, {at}):", way])
        return lines

    def storage(self, s: Loop, out: Lines, nested: bool, in_branch: bool) -> None:
        """Room for what the turns save: a number for each turn of it and of the loops around that are stored with it, else it grows."""
        again = next((q for q in reversed(s.around) if q.rerun or q.steps), None)
        steps = again is not None and bool(again.steps)
        counts, lines = None, out
        if not (in_branch or s.trips):
            counts = [s.count]
            if nested:
                counts, lines = self.plan.turns_of_all(s), self.room if steps else self.first
            if counts is None and not steps:
                counts, lines = self.plan.turns_of_all(s, before=True), self.ahead
        arrays = [n for n in s.saved if n in self.p.arrays]
        inside = None if lines is not out and lines is not self.ahead else self.set_inside(s)
        if not all(self.known_extents(n, inside) for n in arrays) and not steps:
            counts = None  # turns have their place in one row
        shape = [] if counts is None else [self.w.text(c) for c in counts]
        self.stored[id(s)] = [] if counts is None else self.plan.stored_with(s)
        if steps and nested and again is not None and not again.room:
            shape.insert(0, self.steps[id(again)][0])
            self.stored[id(s)].insert(0, again)
        if counts is None and (nested or s.trips) and id(s) not in self.position:
            self.position[id(s)] = at = self.p.fresh("p")
            self.first.append(f"{at} = 0")
        for n in s.saved:
            new = (id(s), n) not in self.stores
            store = self.store_of(s, n)
            if n in arrays:
                made = self.storage_of_array(s, n, shape, inside)
                if shape and made and (new or lines is out or lines is self.ahead):
                    lines += made
                elif new:
                    self.first.append(f"{store} = np.empty(0)")
                continue
            dtype = dtype_text({"float": "float64", "int": "int64", "bool": "bool"}[self.p.kinds[n]])
            if counts is not None:
                if new or lines is out or lines is self.ahead:
                    lines.append(f"{store} = np.empty({self.sizes(shape)}{dtype})")
                continue
            if new:
                self.first.append(f"{store} = np.empty(0{dtype})")
            if not s.trips:
                at = self.position.get(id(s), "")
                size = f"{at} + {self.w.text(s.count, 9)}" if at else self.w.text(s.count)
                out.append(f"{store} = reserve({store}, {size})")

    def set_inside(self, s: Loop) -> set[str]:
        first = self.plan.stored_with(s)[0]
        return {n for q in [first, *self.plan.within(first)] for n in (*sets(q), getattr(q, "var", ""))}

    def known_extents(self, n: str, inside: set[str] | None) -> list[str]:
        """How long a kept array is along each axis, if that is known before the loop."""
        extents = [self.plan.of_parameters(e, inside) for e in self.p.arrays[n].extents or ()]
        return [self.w.text(e) for e in extents if e is not None] if None not in extents else []

    def storage_of_array(self, s: Loop, n: str, shape: Sequence[str], inside: set[str] | None) -> Lines:
        """Room for it at each turn, as one array, or as a row that grows."""
        extents, store = self.known_extents(n, inside), self.store_of(s, n)
        if extents and shape:
            self.shaped.add((id(s), n))
            return [f"{store} = np.empty({self.sizes([*shape, *extents])})"]
        return [f"{store} = np.empty(0)"]

    def keep(self, s: Keep, out: Lines) -> None:
        if not self.recording:
            return
        loop = self.frame
        if loop is None:
            out.append(f"{s.base} = np.empty({self.w.shape(s.extents)})")
            out += self.each(s, lambda i: f"{s.base}[{', '.join(i)}]", s.of)
        elif s.base in loop.saved:
            if (id(loop), s.base) not in self.shaped:
                store, turn = self.store_of(loop, s.base), self.turn_of_row(loop)
                out.append(f"{store} = reserve({store}, ({turn} + 1) * {self.length_of_kept(s)})")
            out += self.each(s, lambda i: self.kept_at(loop, s, i), s.of)

    def kept_again(self, s: Keep, loop: Loop) -> Lines:
        if (id(loop), s.base) in self.shaped:
            return [f"{s.base} = {self.store_of(loop, s.base)}[{self.turn(loop)}]"]
        made = f"{s.base} = np.empty({self.w.shape(s.extents)})"
        return [made, *self.each(s, lambda i: self.kept_at(loop, s, i), None)]

    def kept_at(self, loop: Loop, s: Keep, i: Sequence[str]) -> str:
        store = self.store_of(loop, s.base)
        if (id(loop), s.base) in self.shaped:
            return f"{store}[{self.turn(loop)}, {', '.join(i)}]"
        place = f"({self.turn_of_row(loop)}) * {self.length_of_kept(s)}"
        inner = i[0]
        for e, k in zip(s.extents[1:], i[1:]):
            inner = f"({inner}) * {self.w.text(e, 9)} + {k}"
        return f"{store}[u({place} + {inner})]"

    def turn_of_row(self, loop: Loop) -> str:
        """As a number with a sign."""
        turn = self.turn(loop)
        return turn[1:] if turn.startswith("u(") else turn

    def length_of_kept(self, s: Keep) -> str:
        return f"({' * '.join([self.w.text(e, 9) for e in s.extents])})"

    def each(self, s: Keep, place: Callable[[list[str]], str], of: View | None) -> Lines:
        """For each element of a kept array: there it is put, from a view, or from there it comes."""
        counters = [self.p.fresh("i") for _ in s.extents]
        for i in counters:
            self.p.kinds[i] = "int"
            self.p.natural.add(i)
        if of is None:
            line = f"{s.base}[{', '.join(counters)}] = {place(counters)}"
        else:
            load = Builder(self.p).load(of, [Name(i) for i in counters])
            self.w.rising |= {*counters}
            line = f"{place(counters)} = {self.w.text(load)}"
            self.w.rising -= {*counters}
        lines: Lines = [line]
        for e, i in reversed([*zip(s.extents, counters)]):
            lines = [f"for {i} in range({self.w.text(e)}):", lines]
        return lines

    def sizes(self, shape: Sequence[str]) -> str:
        return shape[0] if len(shape) == 1 else f"({', '.join(shape)})"

    # ------------------------------------------------ backwards

    def contribute(self, e: Expr, g: Expr, out: Lines, y: Expr | None = None) -> None:
        for leaf, part in contributions(self.active, e, g, y):
            if isinstance(leaf, Load):
                target = f"{self.bar(leaf.base)}[{self.w.index(leaf.index)}]"
                if self.is_guarded(part):  # a load before a loop that has no turn may be beyond the end
                    out += [f"if {self.w.text(part.args[0])}:", [added(target, part.args[1], self.w)]]
                    continue
            else:
                self.touched.add(leaf.name)
                self.added.add(leaf.name)
                self.sides.pop(leaf.name, None)
                target = self.bar(leaf.name)
            out.append(added(target, part, self.w))

    def is_guarded(self, e: Expr) -> TypeGuard[Apply]:
        """Is it what `hoist_loads` makes of a load?"""
        if not isinstance(e, Apply) or e.op != "where" or e.args[2] != FLOAT_ZERO:
            return False
        test = e.args[0]
        if not isinstance(test, Apply) or test.op != "gt" or test.args[1] != ZERO:
            return False
        return kind(test.args[0], self.p.kinds, self.p.arrays) == "int"

    def backwards(
        self, block: Block, frame: Loop | None = None, handed: Sequence[str] = ()
    ) -> tuple[Lines, Lines, Lines, Lines]:
        """The adjoint of a block: what is restored, arrays' bars, names' bars that begin at zero, and the statements last to first."""
        out: Lines = list(handed)
        arrays: Lines = []
        own = {n for s in block for n in sets(s)}
        sides, self.sides = self.sides, {}
        added, self.added = self.added, set()
        for s in reversed(block):
            self.back(s, out, arrays, frame, block)
        self.sides = {n: side for n, side in sides.items() if n not in self.added}
        self.added |= added
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
        elif isinstance(s, Fill) and s.base in active.arrays:
            self.back_fill(s, out)
        elif isinstance(s, Branch):
            merged = [m for m in s.merged if m[0] in active.names and m[0] in self.touched]
            known, around = set(self.touched), self.added
            then, on_then = self.side(s.then, [(n, a) for n, a, _ in merged], frame)
            other, on_other = self.side(s.other, [(n, b) for n, _, b in merged], frame)
            self.added = around | on_then | on_other
            test = w.text(s.test)
            branch(out, test, then, other)
            if isinstance(s.test, Name):
                self.sides |= dict.fromkeys(on_then - on_other - known, test)
                self.sides |= dict.fromkeys(on_other - on_then - known, f"not {test}")
        elif isinstance(s, Loop) and self.plan.has_adjoint(s):
            self.back_loop(s, out)

    def side(
        self, block: Block, merged: Sequence[tuple[str, Expr]], frame: Loop | None
    ) -> tuple[Lines, set[str]]:
        """One side of a branch, and the names whose bar it adds to."""
        self.added = set()
        out: Lines = []
        for n, e in merged:
            self.contribute(e, Name(self.bar(n)), out)
        return self.whole(block, frame, out), self.added

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
            if isinstance(s, Keep):
                out += self.kept_again(s, loop) if s.base in loop.saved else []
                continue
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

    def back_fill(self, s: Fill, out: Lines) -> None:
        w, g = self.w, self.bar(s.base)
        values = [s.held.get(k) or w.view(operand(self.p, s, k)) for k in s.of.reads]
        for x, back in zip(s.args, s.of.back):
            if x.base in self.active.arrays:
                out.append(self.call(back, [*values, g, w.view(x, self.bar(x.base))]))
        out.append(f"{w.all_of(whole(g, self.p.arrays[s.base].rank), g)} = 0.0")

    def back_loop(self, s: Loop, out: Lines) -> None:
        if s.steps:
            self.back_steps(s, out)
            return
        w, active = self.w, self.active
        count = s.trips or w.text(s.count)
        carried = [c for c in s.carried if c[0] in active.names]
        moved = {self.sides.get(n, "") for n, _, _ in carried if n in self.touched}
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
                w.rises(s)
        elif not s.counter:
            s.counter = self.p.fresh("t")
        if at is not None and s.trips:
            body.append(f"{at} -= 1")
        heads = {n for n, _, _ in s.carried}
        body += [f"{n} = {self.store_of(s, n)}[{self.turn(s)}]" for n in s.saved if n in heads]
        if s.rerun:
            self.run_again(s, body)
        if s is self.once:
            self.pairs([(n, first) for n, first, _ in s.carried], out)
            self.pairs([(n, last) for n, _, last in s.carried], body)
        handed = self.handed(carried)
        head, arrays, zeros, mine = self.backwards(s.body, None if s.rerun else s, handed)
        w.rising.discard(s.counter)
        self.set_anew(s, mine)
        body += head + arrays + zeros + mine
        if mine or s is self.once:
            turns = f"range({count})" if upwards else f"range({_minus_one(count)}, -1, -1)"
            head_line = f"for {s.counter} in {turns}:"
            if upwards and s.parallel:
                passed = [self.bar(n) for n, _, last in carried if last != Name(n)]
                head_line = parallel(
                    s.counter, count, s.var, self.sums(s) if s is self.once else {}, passed, reverse=True
                )
            (side,) = moved if len(moved) == 1 and self.takes_only(s) else ("",)
            out += [f"if {side}:", [head_line, body]] if side else [head_line, body]
        for n, first, _ in carried:
            self.contribute(first, Name(self.bar(n)), out)

    def set_anew(self, s: Loop, lines: Lines) -> None:
        """The bars of arrays that each turn fills are set where they were added to."""
        if s.parallel:
            return
        for k in filled_anew(self.plan, s):
            extents = self.p.arrays[k].extents or ()
            if len(extents) == 1 and k in self.bars:
                set_not_added(lines, self.bars[k], self.w.text(extents[0]))

    def takes_only(self, s: Loop) -> bool:
        """Is there nothing but the bars of carried names that its reversed turns pass on?"""
        inner = [s, *self.plan.within_now(s)]
        if s.test is not None or s.rerun or s.parallel or any(id(q) in self.position for q in inner):
            return False
        written = (Store, Add, Make, Product, Fill, Grow)
        return not any(isinstance(q, written) and q.base in self.active.arrays for q in inner)

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


def _read(r: Expr | View) -> set[str]:
    """The names that a result is read by."""
    return {n for e in (r.exprs() if isinstance(r, View) else [r]) for n in names(e)}


def _assigned(lines: Lines) -> Iterator[str]:
    for line in lines:
        if isinstance(line, list):
            yield from _assigned(line)
        else:
            yield line.partition(" ")[0]


def _turned(text: str) -> str:
    return text[:-2] if text.endswith(".T") else f"{text}.T"


def _minus_one(count: str) -> str:
    return str(int(count) - 1) if count.isdecimal() else f"{count} - 1"


__all__ = ["Adjoint", "Grow", "Program", "Raise"]
