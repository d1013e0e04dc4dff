"""Numbers of np.random, which are constants of a call: its gradient is that of the numbers that were drawn.

Promises derivatives that all sweeps see the same numbers, whatever runs again: a first program draws them and keeps them in their order,
and the program that is differentiated takes them as an array. What a draw is moved and stretched by has derivatives, as what it is
applied to is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.adjoints.arrangements import lengths
from nbgrad.adjoints.build import Items, Object, Value, is_none
from nbgrad.adjoints.ir import (
    FLOAT_ONE,
    FLOAT_ZERO,
    ONE,
    ZERO,
    Apply,
    Array,
    Expr,
    Grow,
    Load,
    Make,
    Name,
    Span,
    Store,
    View,
)

DIRECT, RECORD, GIVEN = "direct", "record", "given"  # drawn as it runs; drawn and kept; or from an array
_SHAPES = {"rand", "randn"}  # whose arguments are lengths
_STANDARD = {
    **dict.fromkeys(("random", "random_sample", "ranf", "sample", "rand", "uniform"), "random"),
    **dict.fromkeys(("normal", "standard_normal", "randn", "lognormal"), "standard_normal"),
    **dict.fromkeys(("exponential", "standard_exponential"), "standard_exponential"),
    "randint": "randint",
}
_TAKES: dict[str, tuple[tuple[str, Any], ...]] = {
    **dict.fromkeys(("normal", "lognormal"), (("loc", FLOAT_ZERO), ("scale", FLOAT_ONE))),
    "uniform": (("low", FLOAT_ZERO), ("high", FLOAT_ONE)),
    "exponential": (("scale", FLOAT_ONE),),
    "randint": (("low", None), ("high", None)),
}


def drawn(b: Any, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    """A number of np.random, or an array of them."""
    if name == "seed" and len(args) == 1 and isinstance(args[0], Expr) and not named:
        return _seed(b, args[0])
    if name not in _STANDARD:
        b.refuse(f"np.random.{name}", "draw before, and pass it as an argument")
    takes = _TAKES.get(name, ())
    if name == "lognormal":
        named = {{"mean": "loc", "sigma": "scale"}.get(k, k): x for k, x in named.items()}
    names = [] if name in _SHAPES else [*(n for n, _ in takes), "size"]
    given: dict[str, Any] = dict(zip(names, args)) | named
    if name in _SHAPES:
        given = {"size": Items(list(args))} if args else {}
    elif len(args) > len(names) or named.keys() - {*names}:
        b.refuse(f"np.random.{name} of such arguments", "numbers, and a size")
    size = given.pop("size", None)
    if name == "randint" and is_none(given.get("high", b.wrapped(None))):
        given = {"low": ZERO, "high": given.get("low")}
    of = [given.get(n, default) for n, default in takes]
    if not all(isinstance(x, Expr) for x in of):
        b.refuse(f"np.random.{name} with an array for each number", "of standard numbers, and arithmetic")
    of = [x if not isinstance(x, Load | Apply) else b.let(None, x) for x in of]
    if size is None or is_none(size):
        return _one(b, name, of)
    made: View = b.make(name, lengths(b, size), "int64" if name == "randint" else "float64", zeros=False)
    b.nest(b.shape(made), lambda i: b.store(b.load(made, i), _one(b, name, of)))
    return made


def _one(b: Any, name: str, of: Sequence[Expr]) -> Expr:
    if name == "randint":
        found: Expr = b.function("int", [_next(b, Apply("draw_randint", tuple(of)))])
        return found
    z = _next(b, Apply(f"draw_{_STANDARD[name]}", ()))
    if name == "uniform":
        low, high = of
        return b.binary("add", low, b.binary("mul", b.leaf(b.binary("sub", high, low)), z))
    if name == "exponential":
        return b.binary("mul", of[0], z)
    if name == "normal" and of == [FLOAT_ZERO, FLOAT_ONE]:
        return z
    if name in ("normal", "lognormal"):
        found = b.binary("add", of[0], b.binary("mul", of[1], z))
        return found if name == "normal" else b.function("exp", [found])
    return z


def seeded(k: int) -> float:
    np.random.seed(k)
    return 0.0


def _seed(b: Any, k: Expr) -> Value:
    if b.drawing != GIVEN:
        b.draws = True
        b.program.constants["seeded"] = seeded
        b.block.append(Store(_room(b, "drawn", "float64"), (ZERO,), Apply("draw_seeded", (k,))))
        if b.drawing == RECORD:
            _room(b, "count_of_drawn", "int64")
    return Object(None)


def _next(b: Any, draw: Apply) -> Name:
    """The next number, in a name."""
    b.draws = True
    if b.drawing == DIRECT:  # in one place, so that the order is kept
        room = _room(b, "drawn", "float64")
        b.block.append(Store(room, (ZERO,), draw))
        found: Name = b.let("drawn", Load(room, (ZERO,)))
        return found
    at = _room(b, "count_of_drawn", "int64")
    k = b.let("k", Load(at, (ZERO,)))
    b.program.natural.add(k.name)
    numbers = b.numbers_drawn
    if b.drawing == RECORD:
        numbers = _room(b, "all_drawn", "")
        b.block.append(Grow(numbers, b.let("n", Apply("add", (k, ONE)))))
        b.block.append(Store(numbers, (k,), draw))
    b.block.append(Store(at, (ZERO,), Apply("add", (k, ONE))))
    found = b.let("drawn", Load(numbers, (k,)))
    return found


def _room(b: Any, hint: str, dtype: str) -> str:
    """An array that is made before all: of one number, or, without a dtype, one that grows."""
    known = b.draw_rooms.get(hint)
    if known is None or known not in b.program.arrays:
        known = b.draw_rooms[hint] = b.fresh(hint)
        extent = ONE if dtype else ZERO
        b.program.arrays[known] = Array(1, dtype or "float64", (extent,))
        if not dtype:
            b.grown.add(known)
    if all(made[0].base != known for made in b.first):
        b.first.append([Make(known, (ONE if dtype else ZERO,), bool(dtype))])
    return str(known)


def recorded(b: Any) -> None:
    """What was drawn is one more result."""
    n = b.let("n", Load(_room(b, "count_of_drawn", "int64"), (ZERO,)))
    b.program.natural.add(n.name)
    b.program.results.append(b.stored(View(_room(b, "all_drawn", ""), (Span(ZERO, n),), (0,))))


__all__ = ["DIRECT", "GIVEN", "RECORD", "drawn", "recorded"]
