"""One loop for launches that walk over as many elements in one order, but each by its own way through memory.

Promises `nest(outs, ins)`: how elements are cut into rows in which all results lie together, if that can be done. In a row an operand lies
together too, or stands still, or is first laid together in a small array of the kernel's own: so the loop that computes is one that
becomes vectors. Sizes and steps are constants of the text, as a program is one of these sizes anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from nbgrad.base.source import Lines
from nbgrad.compiled.graph import Place
from nbgrad.expr.node import Expr
from nbgrad.kernels import build, templates

Steps = tuple[
    tuple[int, int], ...
]  # sizes and steps, the outermost first; neighbours that are one run are joined
ROW = 64  # elements of a row, from which on what a row costs is little
LONG = 1024  # of one of which something is laid together
LAID = 8192  # of such a row at most
WHOLE = 16  # elements that are stored at once where one is repeated, also if fewer are wanted: the next ones lie behind (measured: 4x)


class Way(NamedTuple):
    """How an operand is walked through, from where it begins."""

    place: Place
    steps: Steps

    @property
    def key(self) -> tuple[int, int, Steps]:
        return id(self.place.memory), self.place.offset, self.steps


def joined(dims: Iterable[tuple[int, int]]) -> Steps:
    made: list[tuple[int, int]] = []
    for n, step in dims:
        if n == 1:
            continue
        if made and made[-1][1] == n * step:
            made[-1] = made[-1][0] * n, step
        else:
            made.append((n, step))
    return tuple(made) or ((1, 1),)


def apart(steps: Steps) -> bool:
    """Whether each element surely has a place of its own."""
    end = 0
    for n, step in sorted(steps, key=lambda d: d[1]):
        if step <= end:
            return False
        end += (n - 1) * step
    return True


def _split(steps: Steps, sizes: Sequence[int]) -> list[int]:
    """The steps along finer dimensions."""
    made: list[int] = []
    rest = list(steps)
    for size in reversed(sizes):
        n, step = rest.pop()
        made.append(step)
        if n > size:
            rest.append((n // size, step * size))
    return made[::-1]


def _runs(sizes: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether elements lie together."""
    return all(step == math.prod(sizes[k + 1 :]) for k, step in enumerate(steps))


def nest(outs: Sequence[Steps], ins: Sequence[Steps]) -> Nest | None:
    n = math.prod(size for size, _ in outs[0])
    if all(len(s) == 1 and s[0][1] == 1 for s in outs) and all(
        len(s) == 1 and s[0][1] in (0, 1) for s in ins
    ):
        return Nest((n,), 0, [[1] for _ in outs], [[s[0][1]] for s in ins])
    ends = {1}
    for s in [*outs, *ins]:
        for k in range(len(s)):
            ends.add(math.prod(size for size, _ in s[k:]))
    every = sorted(ends)
    if any(b % a for a, b in pairwise(every)):
        return None
    sizes = [b // a for a, b in pairwise(every)][::-1]
    made = _cut(sizes, outs, ins)
    if made is None:
        return None
    row, wanted = math.prod(made.sizes[made.cut :]), LONG if any(made.laid) else ROW
    if row < wanted and made.cut:
        # A part of the next dimension goes into a row as well.
        size = sizes[made.cut - 1]
        parts = [k for k in range(2, LAID // row) if size % k == 0]
        part = next((k for k in parts if k * row >= wanted), max(parts, default=0))
        if part:
            finer = [*sizes[: made.cut - 1], size // part, part, *sizes[made.cut :]]
            made = max(made, _cut(finer, outs, ins) or made, key=lambda m: math.prod(m.sizes[m.cut :]))
    return made if math.prod(made.sizes[made.cut :]) >= ROW else None


def _cut(sizes: Sequence[int], outs: Sequence[Steps], ins: Sequence[Steps]) -> Nest | None:
    """With the shortest rows that are long enough."""
    to, of = [_split(s, sizes) for s in outs], [_split(s, sizes) for s in ins]
    best = None
    for cut in range(len(sizes) - 1, -1, -1):
        made, row = Nest(tuple(sizes), cut, to, of), math.prod(sizes[cut:])
        laid = any(made.laid)
        if not all(_runs(sizes[cut:], s[cut:]) for s in to) or (laid and row > LAID):
            break
        best = made
        if row >= (LONG if laid else ROW):
            break
    return best


class Nest(NamedTuple):
    """`cut` is the dimension that a row begins with. If all is one row, an item of the kernel is an element, else a row."""

    sizes: tuple[int, ...]
    cut: int
    outs: list[list[int]]
    ins: list[list[int]]

    @property
    def flat(self) -> bool:
        return len(self.sizes) == 1

    @property
    def items(self) -> int:
        return self.sizes[0] if self.flat else math.prod(self.sizes[: self.cut])

    @property
    def laid(self) -> list[bool]:
        """Which inputs neither lie together in a row nor stand still."""
        row = self.sizes[self.cut :]
        return [not self.flat and any(s[self.cut :]) and not _runs(row, s[self.cut :]) for s in self.ins]

    def reach(self, steps: Sequence[int], size: int) -> int | None:
        """How many bytes of an operand a row reaches, if they lie behind those of the row before; 0 if all rows reach the same."""
        if _runs(self.sizes, steps):
            return math.prod(self.sizes[self.cut :]) * size
        return None if any(steps[: self.cut]) else 0

    def kernel(
        self, exprs: tuple[Expr, ...], ins: Sequence[str], numbers: Sequence[str], kind: str, over: int = -1
    ) -> build.Kernel:
        """`over` is the input that is the first output's memory, if there is one."""
        title = f"fused_{kind}"
        row, laid = self.sizes[self.cut :], self.laid
        inputs = [
            templates.Operand(name, kind, "v" if any(s[self.cut :]) else "s")
            for name, s in zip(ins, self.ins)
        ]
        inputs += [templates.Operand(name, "", "n") for name in numbers]
        outs = (kind,) * len(exprs)
        if self.flat:
            if over >= 0:
                inputs[over] = inputs[over]._replace(step="=")
            source, codes = templates.elementwise(
                "fused", exprs, tuple(inputs), outs, kind, False, "v" * len(outs)
            )
            return build.kernel(title, source, codes, unrolled=False)
        e = templates.element("fused", exprs, tuple(inputs), outs, kind, True, "v" * len(outs))
        places = [*self.outs, *self.ins]
        once, each = list(e.once), list(self._decoded())
        used = [k for k in range(len(places)) if not (k >= len(outs) and laid[k - len(outs)])]
        each += [f"p{k} = {self._begin(places[k])}" for k in used]
        body = list(e.body)
        for k, is_laid in enumerate(laid):
            if not is_laid:
                continue
            lines = self._laying(k)
            once.append(f"e{k} = stack_{kind}({math.prod(row) + WHOLE})")
            moves = any(self.ins[k][: self.cut])
            begin = [f"b{k} = {self._begin(self.ins[k])}"] if moves else [f"b{k} = 0"]
            (each if moves else once).extend([*begin, *lines])
            body = [str(line).replace(f"x{k}[p{k + len(outs)} + j]", f"e{k}[j]") for line in body]
        loop: Lines = [
            *once,
            "for item in range(start, stop):",
            [*each, *e.fixed, f"for j in range({math.prod(row)}):", body],
        ]
        head = e.head
        if any(laid):
            head = head.replace("\nF = ", f"\nfrom nbgrad.kernels.cpu.stack import stack_{kind}\n\nF = ", 1)
        text = e._replace(head=head, params=e.params[1:]).text(("start", "stop"), loop)
        return build.kernel(f"{title}_rows", text, ("i8", "i8", *e.codes[1:]), unrolled=False)

    def _decoded(self) -> Iterable[str]:
        """Where an item is along each dimension."""
        outer = self.sizes[: self.cut]
        if len(outer) < 2:
            yield from ["i0 = item"] * len(outer)
            return
        yield "rest = item"
        for k in range(len(outer) - 1, 0, -1):
            yield f"i{k} = rest % {outer[k]}"
            yield f"rest //= {outer[k]}"
        yield "i0 = rest"

    def _begin(self, steps: Sequence[int]) -> str:
        terms = [f"i{k} * {step}" for k, step in enumerate(steps[: self.cut]) if step]
        return " + ".join(terms) or "0"

    def _laying(self, k: int) -> list[Any]:
        """Loops that lay a row of an operand together."""
        row, steps = self.sizes[self.cut :], self.ins[k][self.cut :]
        if any(steps) and len(row) > 1 and not steps[-1]:
            # One number for a run of elements.
            last = len(row) - 1
            inner: list[Any] = [
                f"v{k} = x{k}[{_at(f'b{k}', steps[:-1])}]",
                f"for j{last} in range({-(-row[-1] // WHOLE) * WHOLE}):",
                [f"e{k}[{_at('', _dense(row))}] = v{k}"],
            ]
            depth = len(row) - 1
        else:
            inner = [f"e{k}[{_at('', _dense(row))}] = x{k}[{_at(f'b{k}', steps)}]"]
            depth = len(row)
        for d in range(depth - 1, -1, -1):
            inner = [f"for j{d} in range({row[d]}):", inner]
        return inner


def _dense(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]


def _at(begin: str, steps: Sequence[int]) -> str:
    terms = [f"j{k} * {step}" if step != 1 else f"j{k}" for k, step in enumerate(steps) if step]
    return " + ".join([begin] * bool(begin) + terms) or "0"
