"""How much a gradient will hold: the forward sweep of an adjoint, in which what would be saved is counted and not saved.

Promises who asks the bytes at the most: of values that are saved, of copies between time steps, and of the program's own arrays with their
bars. To know how often loops turn, the program runs once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nbgrad.adjoints.analyse import Policy
from nbgrad.adjoints.ir import Loop, Make, Program, statements
from nbgrad.adjoints.reverse import Adjoint
from nbgrad.adjoints.text import Lines, Text, function_text

_DTYPE = re.compile(r", np\.(\w+)\)$")


class Memory(NamedTuple):
    """Bytes that a gradient holds at the most, of its arguments only their gradients."""

    saved: int  # values for the reverse sweep
    copies: int  # of what time steps carry
    arrays: int  # of the function's own arrays, their bars, and the gradients

    @property
    def total(self) -> int:
        return sum(self)


class Held(Adjoint):
    counting = True

    def __init__(
        self, program: Program, wrt: Sequence[str], policy: Policy = "auto", wraparound: bool = True
    ) -> None:
        super().__init__(program, wrt, policy, wraparound)
        self.most: dict[str, tuple[str, int, int]] = {}  # by array: its count, bytes of each, what it is

    def source(self) -> Text:
        p = self.p
        for s in statements(p.body):
            if isinstance(s, Make):
                twice = 2 if s.base in self.active.arrays else 1
                self.count(s.base, twice * np.dtype(p.arrays[s.base].dtype).itemsize, 2)
        lines = self.forwards(p.body)
        stores = tuple(f"{name} = np.empty(" for name in self.stores.values())
        ready = [line for line in self.first if line.startswith(stores) and "np.empty(0" not in line]
        lines = self.counted([*ready, *lines])
        sums = []
        for kind in range(3):
            terms = [f"{size} * {name}" for name, size, k in self.most.values() if k == kind]
            sums.append(" + ".join(terms) or "0")
        zeros = [f"{name} = 0" for name, _, _ in self.most.values()]
        positions = [line for line in self.first if re.fullmatch(r"\w+ = 0", line)]
        return function_text(f"{p.name}_memory", p.params, [*zeros, *positions, *lines], sums)

    def count(self, name: str, size: int, kind: int) -> str:
        if name not in self.most:
            self.most[name] = self.p.fresh(f"most_{name}"), size, kind
        return self.most[name][0]

    def forward_loop(self, s: Loop, out: Lines, in_branch: bool) -> None:
        """The turns of a loop that is run again are recorded here, as later; each begins with empty storage."""
        again = s.rerun or bool(s.steps)
        if not (again and (self.recording or s.steps)):
            super().forward_loop(s, out, in_branch)
            return
        recording, frame = self.recording, self.frame
        before, self.before = self.before, []
        known = set(self.position)
        self.recording, self.frame = True, s if s.steps else None
        self.forwards(s.body)  # to know the positions
        self.recording, self.frame = recording or bool(s.steps), frame
        new = [f"{at} = 0" for loop, at in self.position.items() if loop not in known]
        if s.steps and before and not s.room:
            before[1] += new
            new = []
        self.before = [*new, *before]
        super().forward_loop(s, out, in_branch)
        self.recording = recording

    def forward_steps(self, s: Loop, out: Lines, in_branch: bool) -> None:
        super().forward_steps(s, out, in_branch)
        out += self.room
        self.room = []
        for n in self.shown(s):
            most = self.count(f"last_{n}", np.dtype(self.p.arrays[n].dtype).itemsize, 1)
            out.append(f"{most} = max({most}, {self.length_of(n)})")

    def storage(self, s: Loop, out: Lines, nested: bool, in_branch: bool) -> None:
        if not s.steps:
            super().storage(s, out, nested, in_branch)
            return
        for n in s.saved:
            if n in self.p.arrays:
                out += self.storage_of_array(s, n, [self.steps[id(s)][0]], None)
                continue
            dtype = {"float": "", "int": ", np.int64", "bool": ", np.bool_"}[self.p.kinds[n]]
            out.append(f"{self.store_of(s, n)} = np.empty({self.steps[id(s)][0]}{dtype})")

    def sizes(self, shape: Sequence[str]) -> str:
        return " * ".join([f"({n})" if " " in n else n for n in shape])

    def counted(self, lines: Lines) -> Lines:
        """The lines without what is saved, and with the counts of it."""
        stores, copies = set(self.stores.values()), set(self.copies.values())
        sizes = {}
        for line in self.first:
            name = line.partition(" ")[0]
            sizes[name] = _size(line)
        found: Lines = []
        for line in lines:
            if isinstance(line, list):
                inner = self.counted(line)
                if inner:
                    found.append(inner)
                else:
                    found.pop()  # the head of a block that is empty now
                continue
            name = re.match(r"\w+", line)
            own = name[0] if name else ""
            if own in self.p.arrays and line.startswith((f"{own} = np.empty(", f"{own} = np.zeros(")):
                found.append(line)
                extents = self.p.arrays[own].extents or ()
                most = self.count(own, 0, 2)
                size = " * ".join(f"({self.w.text(e)})" for e in extents) or "1"
                found.append(f"{most} = max({most}, {size})")
            elif own in stores | copies:
                kind = 0 if own in stores else 1
                if line.startswith(f"{own} = np.empty("):
                    most = self.count(own, _size(line), kind)
                    size = _DTYPE.sub(")", line)[len(f"{own} = np.empty(") : -1]
                    found.append(f"{most} = max({most}, {size})")
                elif line.startswith(f"{own} = reserve("):
                    most = self.count(own, sizes.get(own, 8), kind)
                    size = line[len(f"{own} = reserve({own}, ") : -1]
                    found.append(f"if {most} < {size}:")
                    found.append([f"{most} = max({size}, 2 * {most} + 16)"])  # as `reserve` does
            else:
                found.append(line)
        return found


def _size(line: str) -> int:
    """Bytes of an element of what a line makes."""
    dtype = _DTYPE.search(line)
    return np.dtype(dtype[1]).itemsize if dtype else 8


__all__ = ["Held", "Memory"]
