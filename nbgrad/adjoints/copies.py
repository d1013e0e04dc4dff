"""Arrays that are copies here of what is one array to who wrote the program: a name that a loop binds anew has an array of its own.

Promises that nobody sees the difference: while two may be one array, neither is written where the other is read afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.adjoints import exits
from nbgrad.adjoints.build import Elementwise, Value, holds_array, leaves, with_leaves
from nbgrad.adjoints.ir import Expr, Load, View
from nbgrad.adjoints.listed import TWICE
from nbgrad.adjoints.room import OUTER, SEQUENCE, Env, Room, Turn


class Copies(Room):
    def shared(self, a: str, b: str) -> None:
        """`a` holds what `b` and its twins hold."""
        a, b = (self.room_of.get(base, base) for base in (a, b))
        others = {b, *(n for pair in self.twins if b in pair for n in pair)} - {a}
        self.twins = self.twins | {frozenset((a, n)) for n in others}

    def parted(self, a: str) -> None:
        self.twins = {pair for pair in self.twins if a not in pair}

    def written(self, base: str) -> None:
        """Refuse a write that a twin's name would have to show, or to what belongs to the module."""
        of = self.room_of.get(base)
        if of is not None and frozenset((of, TWICE + of)) in self.twins:
            self.refuse(
                "what is written here may be at another place of its list as well", "append a copy: .copy()"
            )
        base = of or base
        if any(base == v.base for v in self.of_module.values()):
            self.refuse(f"{base} is an array of the module, which stays as it is", "write to a copy: .copy()")
        for pair in sorted(self.twins, key=sorted):
            if base in pair:
                (other,) = pair - {base}
                name = self.name_of(other)
                if name is not None:
                    what = (
                        "what a loop around goes over" if name.startswith(SEQUENCE) else f"the array {name}"
                    )
                    self.refuse(
                        f"what is written here may be {what} as well",
                        "make one of them a copy: .copy()",
                    )

    def name_of(self, base: str) -> str | None:
        """A name under which the array may be read from here on, by the caller too."""
        for name, x in self.names.items():
            if name != OUTER and base in self.all_bases(x) and self.live(name):
                return name
        for _, env in self.frames:
            for name, x in env.items():
                if name != OUTER and base in self.all_bases(x):
                    return name
        return base if base in self.program.params else None

    def store(self, at: Load, e: Expr) -> None:
        self.written(at.base)
        super().store(at, e)

    def add(self, at: Load, e: Expr) -> None:
        self.written(at.base)
        super().add(at, e)

    def product(self, out: View, x: View, y: View) -> None:
        self.written(out.base)
        super().product(out, x, y)

    def make(self, hint: str | None, shape: Sequence[Expr], dtype: str, zeros: bool) -> View:
        made = super().make(hint, shape, dtype, zeros)
        self.parted(made.base)  # from what it was in the turn before
        return made

    def stored(self, x: View | Elementwise, hint: str | None = None) -> View:
        made = super().stored(x, hint)
        if isinstance(x, Elementwise) and x.of:
            self.shared(made.base, x.of)
        return made

    def copy_of(self, v: View, hint: str) -> View:
        """The array that a name has for itself from here on."""
        made = self.stored(v, hint)
        self.shared(made.base, v.base)
        return made

    # ------------------------------------------------ names

    def read_later(self, name: str) -> bool:
        for rest in reversed(self.following):
            read, done = exits.read_first(rest)
            if name in read:
                return True
            if name in done and not isinstance(rest, Turn):
                return False
        return False

    def live(self, name: str) -> bool:
        return exits.is_own(name) or name.startswith(SEQUENCE) or self.read_later(name)

    def own(self, names: Sequence[str], env: Env, in_tuples: bool = False) -> None:
        """Arrays whose names are bound to others of their kind: each gets one that no other name knows, to be written to."""
        for name in names:
            if isinstance(env.get(name), View) or (in_tuples and holds_array(env.get(name))):
                others = {b for n, x in env.items() if n not in (name, OUTER) for b in self.all_bases(x)}
                mine: list[Any] = []
                for k, x in enumerate(of := leaves(env[name])):
                    beside = others.union(*map(self.all_bases, (*mine, *of[k + 1 :])))
                    mine.append(self.owned_by(name, x, beside) if isinstance(x, View) else x)
                env[name] = with_leaves(env[name], iter(mine))

    def owned_by(self, name: str, v: View, others: set[str]) -> View:
        owner = self.frame, name
        if not v.whole() or self.owned.get(v.base) != owner:
            if not v.whole() or v.base in others | self.foreign or self.array(v.base).extents is None:
                v = self.copy_of(v, name)
            self.owned[v.base] = owner
        return v

    def own_array(self, name: str, old: Value | None, env: Env) -> View | None:
        """The array that what is bound to the name, or to its part of a tuple, is written to, where no other name shows it."""
        if not isinstance(old, View) or not old.whole() or name not in env.get(OUTER, ()):
            return None
        if self.owned.get(old.base) != (self.frame, name):
            return None
        shown = [n for n, x in env.items() if n not in (name, OUTER) and old.base in self.all_bases(x)]
        shown = [n for n in shown if self.live(n)]
        if any(n in env[OUTER] for n in shown):
            return None
        for n in shown:
            kept = self.copy_of(old, n)  # as it was, for who still reads it
            now = [View(kept.base, x.axes, x.order) if x.base == old.base else x for x in leaves(env[n])]
            env[n] = with_leaves(env[n], iter(now))
        return old


__all__ = ["Copies"]
