"""Arrays that are copies here of what is one array to who wrote the program: a name that a loop binds anew has an array of its own.

Promises that nobody sees the difference: while two may be one array, neither is written where the other is read afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from nbgrad.adjoints import exits
from nbgrad.adjoints.build import Elementwise
from nbgrad.adjoints.ir import Expr, Load, View
from nbgrad.adjoints.room import OUTER, SEQUENCE, Env, Room, Turn


class Copies(Room):
    def shared(self, a: str, b: str) -> None:
        """`a` holds what `b` and its twins hold."""
        others = {b, *(n for pair in self.twins if b in pair for n in pair)} - {a}
        self.twins = self.twins | {frozenset((a, n)) for n in others}

    def parted(self, a: str) -> None:
        self.twins = {pair for pair in self.twins if a not in pair}

    def written(self, base: str) -> None:
        """Refuse a write that a twin's name would have to show, or to what belongs to the module."""
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

    def own_array(self, name: str, env: Env) -> View | None:
        """The array that what is bound to the name is written to, where no other name shows it."""
        old = env.get(name)
        mine = isinstance(old, View) and old.base in self.owned and old.whole() and name in env.get(OUTER, ())
        if not mine or not isinstance(old, View):
            return None
        for n, x in list(env.items()):
            if n in (name, OUTER) or old.base not in self.all_bases(x) or not self.live(n):
                continue
            if n in env[OUTER] or not isinstance(x, View):
                return None
            kept = self.copy_of(old, n)  # as it was, for who still reads it
            env[n] = View(kept.base, x.axes, x.order)
        return old


__all__ = ["Copies"]
