"""Two records of the same call become one program, if they are the same but for where memory was.

Promises `lower(...)`: a `Graph`. What has one address in both runs lasts, what has two is made by the run, as the first run's memory is
held while the second runs. Python's part of a step that differs from call to call shows as a number or a kernel that differs, and is
refused.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from nbgrad.compiled.capture import Made, Otherwise, Record, Sure, Work, address, bytes_kernel, root
from nbgrad.compiled.graph import (
    CONSTANT,
    DRAWN,
    FLAG,
    GIVEN,
    GRAD,
    INCOMING,
    INSIDE,
    OUTSIDE,
    SLOTS,
    Graph,
    Memory,
    Op,
    Place,
    Strange,
    Table,
    Unknown,
    layout_of,
    roles,
    title_of,
)
from nbgrad.compiled.numbers import Number, Numbers
from nbgrad.compiled.proof import only_ours
from nbgrad.core.tensor import Tensor
from nbgrad.kernels.calls import Call
from nbgrad.memory import backend


class Step:
    """The numbers of an optimizer's step, which are asked for at each call."""

    def __init__(self, optimizer: Any, group: dict[str, Any], rule: Any, count: int) -> None:
        self.optimizer, self.group, self.rule = optimizer, group, rule
        self.memory = np.zeros(count, np.float64)
        self.last: Any = None

    def ask(self) -> None:
        numbers = self.optimizer._numbers(self.group)
        if numbers != self.last:
            self.memory[:] = [float(x) for x in numbers]
            self.last = numbers


class Run:
    """A call that was recorded: its record, the tensors among its arguments, gradients that leaves had before it, and watched tensors."""

    def __init__(
        self, record: Record, given: list[Tensor], grads: dict[int, Tensor], tensors: list[tuple[Tensor, str]]
    ) -> None:
        self.record, self.given, self.grads, self.tensors = record, given, grads, tensors

    def slots(self) -> list[tuple[str, Any, str]]:
        """Memory that may be another at each call, with whose it is."""
        coming = self.record.behind.incoming if self.record.behind is not None else []
        first = {id(t): k for k, t in reversed([*enumerate(self.given)])}
        return [
            *[(GIVEN, t._buf, str(k)) for k, t in enumerate(self.given) if first[id(t)] == k],
            *[(GRAD, t._buf, self.tensors[k][1]) for k, t in self.grads.items()],
            *[(DRAWN, d.buffer, str(k)) for k, d in enumerate(self.record.draws)],
            *[(INCOMING, t._buf, str(k)) for k, t in enumerate(coming)],
        ]


class _Lowering:
    def __init__(
        self, before: Run, now: Run, alive_before: set[int], alive: set[int], numbers: Numbers | None
    ) -> None:
        """`alive` are the addresses of memory that any tensor has, `alive_before` those before the second run."""
        self.before, self.now, self.alive, self.alive_before = before, now, alive, alive_before
        self.numbers = numbers
        self.memories: list[Memory] = []
        self.steps: list[Step] = []
        self.groups = iter(now.record.optimizers)
        self.cut = 0
        self.known: dict[int, Memory] = {}  # by the address of what it is in, in the second run
        self.was: dict[int, int] = {}  # the address in the first run of each that was made there
        flag = backend.cpu.told.flag[0]
        self.add(FLAG, flag, "flag")
        for slot in now.slots():
            self.slot(*slot)
        self.first: dict[int, tuple[str, str, int]] = {}
        for kind, buffer, about in before.slots():
            self.first.setdefault(address(root(buffer)), (kind, about, address(buffer)))
        given = {id(t) for t in now.given}
        for t, path in now.tensors:
            if isinstance(t._buf, np.ndarray):
                found = self.add(OUTSIDE, root(t._buf), path)
                if found.kind in SLOTS and found.nbytes and id(t) not in given:
                    raise Unknown(f"an argument, or a gradient, shares memory with `{path}`")

    def add(self, kind: str, array: Any, about: str = "") -> Memory:
        at = address(array)
        found = self.known.get(at)
        if found is None:
            found = Memory(f"{kind[0]}{len(self.memories)}", kind, array.nbytes, at, array, about)
            self.memories.append(found)
            self.known[at] = found
        return found

    def slot(self, kind: str, buffer: Any, about: str) -> None:
        """Places in its memory are counted from its first element."""
        base = root(buffer)
        if address(base) in self.known and base.nbytes:
            found = self.known[address(base)]
            if found.kind == kind and found.about == about:
                return
            raise Unknown(f"arguments, or gradients, share memory ({found.about} and {about})")
        found = self.add(kind, base, about)
        found.address = address(buffer)

    def place(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Place:
        """Of an operand that was `a` in the first run and is `b` in the second."""
        base_a, base_b = root(a), root(b)
        at_a, at_b = address(base_a), address(base_b)
        found = self.known.get(at_b) if base_b.nbytes else None
        start_a, start_b = at_a, at_b
        if found is not None and found.kind in SLOTS:
            kind, about, start_a = self.first.get(at_a, ("", "", 0))
            start_b = found.address
            if (kind, about) != (found.kind, found.about):
                raise Unknown("two calls did not launch the same on the same arguments, or gradients")
        if base_a.nbytes != base_b.nbytes or address(a) - start_a != address(b) - start_b:
            raise Unknown("two calls did not use the same amount of memory")
        if found is None:
            if at_a == at_b or not base_b.nbytes:
                if base_b.nbytes and at_b in self.alive and not only_ours(at_b):
                    raise Strange("a tensor is used that no name leads to")
                found = self.add(CONSTANT, base_b)
            else:
                if at_b in self.alive_before:
                    raise Strange("a tensor is used that no name leads to")
                found = self.add(INSIDE, base_b)
                self.was[at_b] = at_a
        elif found.kind == INSIDE:
            if self.was[at_b] != at_a:
                raise Unknown("two calls did not launch the same on the same memory")
        elif found.kind not in (*SLOTS, FLAG) and at_a != at_b:  # each thread has a flag of its own
            raise Unknown(f"`{found.about}` lay elsewhere in the call before")
        return Place(found, address(b) - found.address)

    def layout(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Place:
        """Of a table that tells how operands lie: it is another array where plans were forgotten between the calls."""
        if a.tobytes() != b.tobytes():
            raise Unknown("two calls did not launch the same on tensors that lie alike")
        found = self.add(CONSTANT, root(b))
        return Place(found, address(b) - found.address)

    def ops(self) -> list[Op]:
        first, second, cut = self.before.record.calls, self.now.record.calls, self.now.record.cut
        if cut is None:
            return self.of(first, second)
        ahead = self.of(first[:cut], second[:cut])
        self.cut = len(ahead)
        return ahead + self.of(first[cut:], second[cut:])

    def of(self, first: list[tuple[Any, Any]], second: list[tuple[Any, Any]]) -> list[Op]:
        if len(first) != len(second):
            raise Unknown(f"two calls launched {len(first)} and {len(second)} kernels")
        made: list[Op] = []
        group = self.groups
        seen: dict[int, Step] = {}
        for (a, batch_a), (b, batch_b) in zip(first, second):
            if isinstance(a, Otherwise) and isinstance(b, Otherwise):
                made.append(self.otherwise(a, b))
                continue
            if isinstance(a, Made) and isinstance(b, Made):
                made += self.filled(a, b)
                continue
            if isinstance(a, Sure) and isinstance(b, Sure) and a.spec is b.spec and a[2:] == b[2:]:
                at = self.place(a.buffer, b.buffer)
                look = Op(
                    Call("", 0, 0, 0, ()), (), (), "sure", True, beside=((at, False),), sure=(at, b[1:])
                )
                made.append(look)
                continue
            if isinstance(a, Work) and isinstance(b, Work):
                made.append(self.work(a, b))
                continue
            if isinstance(a, Otherwise | Made | Sure | Work) or isinstance(b, Otherwise | Made | Sure | Work):
                raise Unknown("two calls did not launch the same kernels")
            if (a.kinds, a.address, a.n) != (b.kinds, b.address, b.n):
                names = " and ".join(dict.fromkeys((title_of(a.address), title_of(b.address))))
                raise Unknown(f"two calls did not launch the same kernels ({names}, of {a.n} and {b.n})")
            writes = tuple([w and kind == "b" for w, kind in zip(roles(b.address), b.kinds)])
            args: list[Any] = []
            if batch_b is not None:
                made.append(self.step(a, b, batch_a, batch_b, seen, group))
                continue
            layout = layout_of(b.address)
            for kind, x, y in zip(b.kinds, a.args, b.args):
                if kind == "b":
                    # Tiles that need no room are given the table in its place.
                    told = layout is not None and y is b.args[layout]
                    args.append(self.layout(x, y) if told else self.place(x, y))
                elif type(y) is Number and self.numbers is not None:
                    args.append(self.numbers.asked(x, y, kind))
                elif _bits(x, kind) != _bits(y, kind):
                    raise Unknown(
                        f"Python gave {title_of(b.address)} the number {x!r} in one call and {y!r} in the next"
                    )
                else:
                    args.append(y)
            flagged = any(isinstance(p, Place) and p.memory.kind == FLAG for p in args)
            made.append(Op(b, tuple(args), writes, title_of(b.address), flagged))
        return made

    def filled(self, a: Made, b: Made) -> list[Op]:
        """What Python wrote there, if it is new memory and Python wrote the same in both runs."""
        place = self.place(a.buffer, b.buffer)
        n = b.values.nbytes
        if place.memory.kind != INSIDE or not n or a.values.tobytes() != b.values.tobytes():
            return []
        if not b.values.any():
            call = Call("b", bytes_kernel(False), n, 0, ())
            return [Op(call, (place,), (True,), title_of(call.address))]
        call = Call("bb", bytes_kernel(True), n, 0, ())
        return [Op(call, (place, Place(self.add(CONSTANT, b.values))), (True, False), title_of(call.address))]

    def otherwise(self, a: Otherwise, b: Otherwise) -> Op:
        """All that its launches reach it may write to: whether they are done nobody knows."""
        ops = tuple(self.of(a.calls, b.calls))
        flag = self.place(a.flag, b.flag)
        written = {id(p.memory) for op in ops for p in op.written()}
        every = {id(p.memory): p.memory for op in ops for p in op.places()}
        beside = tuple([(Place(m), k in written) for k, m in every.items()])
        call = Call("", 0, sum(op.call.n for op in ops), 0, ())
        return Op(call, (), (), "otherwise", beside=((flag, False), *beside), only=(flag, ops))

    def work(self, a: Work, b: Work) -> Op:
        """It is looked at as a launch that may refuse: the function may raise."""
        rows_a, rows_b = [*a.takes, *a.gives], [*b.takes, *b.gives]
        specs = [s for _, s in rows_b]
        if a.what.key != b.what.key or [s for _, s in rows_a] != specs:
            raise Unknown(f"two calls did not call {b.what.title} alike")
        numbers: list[Any] = []
        for x, y in zip(a.what.given, b.what.given):
            if isinstance(y, Number) and self.numbers is not None and type(x) is float:
                numbers.append(self.numbers.asked(x, y, "d"))
            elif isinstance(y, Number) or type(x) is not type(y) or repr(x) != repr(y):
                raise Unknown(f"Python gave {b.what.title} {x!r} in one call and {y!r} in the next")
            else:
                numbers.append(y)
        if self.numbers is not None:  # they know the arguments of the call, which is over soon
            b.what.given = b.what.numbers
        taken = len(b.takes)
        beside = tuple(
            [(self.place(x, y), k >= taken) for k, ((x, _), (y, _)) in enumerate(zip(rows_a, rows_b))]
        )
        size = sum(s.numel for s in specs)
        call = Call("", 0, size, 0, ())
        return Op(
            call, (), (), b.what.title, True, beside=beside, work=(b.what, tuple(numbers), tuple(specs))
        )

    def step(self, a: Call, b: Call, batch_a: Any, batch_b: Any, seen: dict[int, Step], group: Any) -> Op:
        """One of the two launches of an optimizer's step: the one per parameter, or the one per element."""
        batch, rows, numbers = batch_b
        rows_a = batch_a[1]
        if batch_a[0] is not batch:
            raise Unknown("an optimizer's parameters or its state moved between two calls")
        key = id(numbers)
        if key not in seen:
            optimizer, number, rule, _ = next(group)
            options = optimizer.param_groups[number[0]]
            if optimizer._differs:
                raise Unknown("an optimizer whose parameters have numbers of their own")
            seen[key] = Step(optimizer, options, rule, len(numbers) // 8)
            self.steps.append(seen[key])
        one = seen[key]
        title = title_of(b.address)

        def of(t: Tensor, u: Tensor) -> Place:
            return self.place(u._buf, t._buf)

        if a.kinds == "bbb":
            counts, _, derived = b.args
            counted = [k for k in batch.chosen if rows[k][2] is not None]
            beside = tuple([(of(rows[k][2], rows_a[k][2]), True) for k in counted])
            memory = self.add(CONSTANT, one.memory, "numbers of an optimizer")
            args = (
                Place(self.add(CONSTANT, root(counts))),
                Place(memory),
                Place(self.add(CONSTANT, root(derived))),
            )
            return Op(b, args, (False, False, True), title, beside=beside)
        _, derived = b.args
        beside = ()
        columns = batch.table.shape[1]
        words: list[Any] = batch.table.reshape(-1).tolist()
        for line, k in enumerate(batch.chosen):
            places = [(of(rows[k][c], rows_a[k][c]), c != 1) for c in (0, 1, *range(3, len(rows[k])))]
            for at, (place, _) in zip((1, 2, *range(3, columns)), places):
                words[line * columns + at] = place
            beside += tuple(places)
        made = Place(self.add(CONSTANT, root(derived)))
        return Op(b, (Table(tuple(words)), made), (False, False), title, beside=beside)


def _bits(value: Any, kind: str) -> Any:
    return struct.pack("=d", value) if kind == "d" else int(value)


def lower(
    name: str,
    before: Run,
    now: Run,
    alive_before: set[int],
    alive: set[int],
    numbers: Numbers | None = None,
) -> tuple[Graph, list[Step], dict[int, Memory]]:
    """The program; what asks optimizers for their numbers; memory by its address in the second run. `alive_before` are the addresses of
    what tensors had before the second run, `alive` of what they have after it."""
    draws = before.record.draws, now.record.draws
    if len(draws[0]) != len(draws[1]) or not all(a.like(b) for a, b in zip(*draws)):
        raise Unknown("two calls did not draw the same random numbers")
    ways = before.record.behind, now.record.behind
    if (ways[0] is None) != (ways[1] is None) or before.record.cut != now.record.cut:
        raise Unknown("two calls did not give results of the same history")
    if ways[1] is not None and not ways[0].like(ways[1]):
        raise Unknown("two calls did not give results of the same history")
    made = _Lowering(before, now, alive_before, alive, numbers)
    ops = made.ops()
    stepped = now.record.optimizers
    if len(stepped) != len(made.steps) or any(o._tables[number, rule].slow for o, number, rule, _ in stepped):
        raise Unknown("an optimizer steps tensors that its kernel does not take")
    return Graph(name, ops, made.memories, cut=made.cut), made.steps, made.known
