"""Names that a turn of a loop sets first and a later turn reads, or what follows the loop: what they are before it.

A loop is lowered until nothing new is learned of the names that its turns hand on. What reads one of which nothing is known yet is left
out meanwhile, where it stands in a branch, as the first turn may not come there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from nbgrad.adjoints import exits, ops
from nbgrad.adjoints.build import Elementwise, Items, Listed, Object, Value, leaves, with_leaves
from nbgrad.adjoints.copies import Copies
from nbgrad.adjoints.ir import Apply, Const, Expr, Extent, Load, Name, Program, Refused, View, const, kind_of
from nbgrad.adjoints.listed import Unset
from nbgrad.adjoints.room import Env

Key = tuple[object, str]  # a call, and a name in it


@dataclass(frozen=True)
class Hope:
    """A name that turns hand on, of which nothing is known yet, and how deep the statements of its loop stand."""

    key: Key
    depth: int


class Wider(Exception):
    """A name of an array of float32 is bound to one of float64."""

    def __init__(self, name: str, base: str) -> None:
        self.name, self.base = name, base


class Longer(Exception):
    """A name of an array is bound to one that is longer or shorter, as a turn of a loop or a branch decides."""

    def __init__(self, frame: object, name: str) -> None:
        self.frame, self.name = frame, name


class Firsts(Copies):
    def __init__(self, program: Program, called: Callable[[Any], Any]) -> None:
        super().__init__(program, called)
        self.hoped: dict[Key, Hope] = {}  # by names that have no value yet, as what sets them comes later
        self.unset: dict[Key, Unset] = {}  # those that were read
        self.wide: set[Key] = set()  # those that are bound to float64 as well as float32
        self.where_set: dict[
            str, list[Expr]
        ] = {}  # of arrays that one side of a branch sets, the lengths there

    def no_value(self, e: ast.Name) -> NoReturn:
        why = self.refusal(f"{e.id} may be unset here", "set it before", e)
        hope = self.hoped.get((self.frame, e.id))
        raise Refused(why) if hope is None else Unset(why, hope)

    def left_out(self, make: Callable[..., Any], *args: Any) -> Any:
        """What `make` gives where the first turn may not come; an `Unset`, and nothing done, where it reads a name without a value."""
        place = self.position()
        try:
            return make(*args)
        except Unset as unset:
            self.back_to(place)
            if unset.hope not in self.hoped.values():
                raise
            self.unset[unset.hope.key] = unset
            return unset

    def position(self) -> tuple[Any, ...]:
        """Where we are."""
        known = self.turning, self.twins, [*self.either], self.hoped, {**self.unset}
        return self.block, len(self.block), len(self.following), *known

    def back_to(self, place: tuple[Any, ...]) -> None:
        self.block, size, depth, self.turning, self.twins, self.either, self.hoped, self.unset = place
        del self.block[size:], self.following[depth:]

    def state(self) -> tuple[Any, ...]:
        """What a statement that is lowered again begins from."""
        arrays: tuple[Any, ...] = (
            {**self.owned},
            {**self.where_set},
            {**self.of_module},
            {*self.grown},
            {*self.lists},
        )
        arrays = *arrays, {**self.kept}, {**self.room_of}, {**self.sites}
        return self.program.state(), arrays, len(self.first)

    def restore(self, state: tuple[Any, ...]) -> None:
        program, arrays, made = state
        self.program.restore(program)
        *arrays, self.kept, self.room_of, self.sites = (a.copy() for a in arrays)
        self.owned, self.where_set, self.of_module, self.grown, self.lists = arrays
        del self.first[made:]

    def step(self, method: Callable[..., None], s: ast.stmt, env: Env) -> None:
        """A statement; what it would have set waits as well where it is left out. The first turn comes to those of the loop itself."""
        binds = isinstance(s, ast.If | ast.For | ast.While)
        narrow = binds and any(a.dtype == "float32" for a in self.program.arrays.values())
        unset = (self.widened if narrow else self.left_out)(method, s, env)
        if isinstance(unset, Unset):
            if len(self.following) <= unset.hope.depth:
                raise Refused(str(unset))
            waiting = {(self.frame, n): unset.hope for n in exits.assigned([s]) if n not in env}
            self.hoped = self.hoped | waiting

    def widened(self, method: Callable[..., None], s: ast.stmt, env: Env) -> Any:
        """A statement that may bind names of arrays of float32: once more, from wider ones, where one is bound to float64."""
        while True:
            state, place, names = self.state(), self.position(), {**env}
            try:
                return self.left_out(method, s, env)
            except Wider as wider:
                if wider.base in state[1][0]:  # a statement around made it
                    raise
                name = wider.name
            self.restore(state)
            self.back_to(place)
            env.clear()
            env |= names
            if name in env:
                env[name] = with_leaves(env[name], iter([self.as_wide(x) for x in leaves(env[name])]))
            else:
                self.wide.add((self.frame, name))

    def as_wide(self, x: Value) -> Value:
        if not isinstance(x, View) or self.dtype(x) != "float32":
            return x
        return self.stored(Elementwise(self.shape(x), lambda i: self.load(x, i), {x.base}, "float64", x.base))

    def any_test(self) -> Name:
        """A condition of which nothing is known yet."""
        name = self.fresh("c")
        self.program.kinds[name] = "bool"
        return Name(name)

    # ------------------------------------------------ before the loop

    def blank(self, name: str, x: Value, state: tuple[Any, ...], in_tuple: bool = False) -> Value:
        """What stands for `x` before the loop that sets it first, which began from `state`."""
        if isinstance(x, Items):
            return x.each(lambda i: self.blank(name, i, state, True))
        if isinstance(x, Object | Listed):
            return x
        if isinstance(x, Expr):
            return zero(self.kind(x))
        _, kinds, arrays, *_ = state[0]
        shape = [self.outside(n, {*kinds, *arrays}) for n in self.lengths_where_set(x)]
        if not all(isinstance(n, Expr) for n in shape):
            if not in_tuple:
                raise Longer(self.frame, name)
            self.refuse(
                f"an array in the tuple {name} is bound first in a loop, which says how long it is, and read when its turn is over",
                "give it a name of its own",
            )
        nothing = zero(kind_of(self.dtype(x)))
        dtype = "float64" if (self.frame, name) in self.wide else self.dtype(x)
        return Elementwise([n for n in shape if n is not None], lambda i: nothing, set(), dtype)

    def lengths_where_set(self, x: View | Elementwise) -> list[Expr]:
        whole = isinstance(x, View) and x.whole() and x.base in self.where_set
        return self.where_set[x.base] if isinstance(x, View) and whole else self.shape(x)

    def other_length(self, old: Expr, new: Expr) -> bool:
        """Is a length made of the one before, or of what a loop or a branch decides, so that there is no need that the two are equal?"""
        old, new = self.root(old), self.root(new)
        apart = {atom for atom, k in ops.linear(Apply("sub", (new, old)), self.program).items() if k}
        if old == new or not apart:
            return False
        if apart == {None}:
            return True
        before, atoms = self.atoms(old), self.atoms(new)
        decided = any(
            isinstance(a, Load) or (isinstance(a, Name) and a.name not in self.program.params) for a in atoms
        )
        return decided or bool(before & atoms)

    def atoms(self, e: Expr) -> set[Expr]:
        """What an integer is computed from at last."""
        if isinstance(e, Name) and e.name in self.program.defined:
            return self.atoms(self.program.defined[e.name])
        if isinstance(e, Extent):
            extents = self.array(e.base).extents
            return self.atoms(extents[e.axis]) if extents is not None and e.base not in self.grown else {e}
        if isinstance(e, Apply):
            return set().union(*map(self.atoms, e.args))
        return set() if isinstance(e, Const) else {e}

    def outside(self, e: Expr, known: Iterable[str]) -> Expr | None:
        """A length by what is there before the loop."""
        if isinstance(e, Const) or (isinstance(e, Name) and e.name in known):
            return e
        if isinstance(e, Name):
            value = self.program.defined.get(e.name)
            return None if value is None else self.outside(value, known)
        if isinstance(e, Extent):
            if e.base in self.grown:
                return None
            extents = self.array(e.base).extents
            return e if e.base in known else self.outside(extents[e.axis], known) if extents else None
        if not isinstance(e, Apply):
            return None
        args = [self.outside(a, known) for a in e.args]
        return None if None in args else Apply(e.op, tuple(a for a in args if a is not None))


def zero(kind: str) -> Const:
    return const({"float": 0.0, "int": 0, "bool": False}[kind])


__all__ = ["Firsts", "Hope", "Longer", "Unset", "Wider", "zero"]
