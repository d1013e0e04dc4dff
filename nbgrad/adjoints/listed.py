"""Lists that grow, of numbers, of tuples, of arrays and of lists: room for each part of an item, of which a counter says how much is used.

Of arrays all numbers lie one after another in one room, and a second one says where each begins; what is pushed last is last in both. What
a list holds is found out when it is lowered: who pushes something else than was known begins again, `Foreseen`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbgrad.adjoints import ops
from nbgrad.adjoints.arrangements import flat_index, on_array, product_of
from nbgrad.adjoints.build import Builder, Elementwise, Items, Listed, Value
from nbgrad.adjoints.ir import (
    ONE,
    ZERO,
    Apply,
    Array,
    Expr,
    Grow,
    Load,
    Make,
    Refused,
    Span,
    View,
    const,
    is_leaf,
    kind_of,
    whole,
)

TWICE = "@twice "  # before a list's name, among twins: it may hold an array at two places


@dataclass(frozen=True)
class Numbers:
    kind: str


@dataclass(frozen=True)
class Arrays:
    rank: int
    dtype: str
    lists: bool  # are they lists themselves?


@dataclass(frozen=True)
class Parts:
    """Tuples."""

    of: Any
    parts: tuple[Any, ...]


Kept = Numbers | Arrays | Parts


class Unset(Refused):
    """Of a name, or of an item of a list, nothing is known yet."""

    def __init__(self, why: str, hope: Any) -> None:
        super().__init__(why)
        self.hope = hope


class Foreseen(Exception):
    """A list is of what was not known where it was made."""

    def __init__(self, site: Any, kept: Kept) -> None:
        self.site, self.kept = site, kept


@dataclass(frozen=True)
class _Column:
    room: View


@dataclass(frozen=True)
class _Rows:
    """Arrays: their numbers, where each begins, and, of more dimensions than one, how long they are."""

    data: View
    begins: View
    lengths: tuple[View, ...]
    rank: int


def new_list(b: Any) -> View:
    """Room that grows; it is made once, before all, as how much of it is used is a number of its own."""
    site = (*b.site, b.position_of(b.node))
    if site in b.foreseen:
        v = whole(b.fresh("items"), 1)
        b.program.arrays[v.base] = Array(1, "float64", (ZERO,))  # a name alone
        b.kept[v.base] = _rooms(b, v.base, b.foreseen[site])
    else:
        v = new_room(b, "items", "")
    b.lists.add(v.base)
    b.sites[v.base] = site
    anew(b, v.base)
    return v


def new_room(b: Builder, hint: str, dtype: str) -> View:
    base = b.fresh(hint)
    b.program.arrays[base] = Array(1, dtype, (ZERO,))
    b.first.append([Make(base, (ZERO,), False)])
    b.grown.add(base)
    return whole(base, 1)


def _rooms(b: Any, of: str, kept: Kept) -> Any:
    if isinstance(kept, Parts):
        return Items([_rooms(b, of, k) for k in kept.parts], kept.of)
    if isinstance(kept, Numbers):
        return _Column(new_room(b, "items", {"float": "float64", "int": "int64", "bool": "bool"}[kept.kind]))
    begins = b.fresh("begins")
    b.program.arrays[begins] = Array(1, "int64", (ONE,))
    b.first.append([Make(begins, (ONE,), True)])  # the first begins at 0
    b.grown.add(begins)
    data = new_room(b, "items", kept.dtype)
    b.room_of[data.base] = of
    if kept.lists:
        b.lists.add(data.base)
    lengths = [new_room(b, "lengths", "int64") for _ in range(kept.rank)] if kept.rank > 1 else []
    return _Rows(data, whole(begins, 1), tuple(lengths), kept.rank)


def _kept(b: Builder, x: Any) -> Kept:
    if isinstance(x, Expr):
        return Numbers(b.kind(x))
    if isinstance(x, Items) and isinstance(x.of, type) and x.items:
        return Parts(x.of, tuple([_kept(b, i) for i in x.items]))
    if isinstance(x, View | Elementwise):
        return Arrays(len(b.shape(x)), b.dtype(x), bool(b.bases(x) & b.lists))
    b.refuse("a list of such items", "write to an array")


def _joined(b: Builder, old: Kept, new: Kept) -> Kept:
    if isinstance(old, Numbers) and isinstance(new, Numbers):
        return Numbers(ops.join(old.kind, new.kind))
    if isinstance(old, Arrays) and isinstance(new, Arrays):
        if old.rank == new.rank and kind_of(old.dtype) == kind_of(new.dtype) and old.lists == new.lists:
            return Arrays(old.rank, max(old.dtype, new.dtype), old.lists)
    elif isinstance(old, Parts) and isinstance(new, Parts) and len(old.parts) == len(new.parts):
        return Parts(old.of, tuple([_joined(b, p, q) for p, q in zip(old.parts, new.parts)]))
    b.refuse("a list of items of several kinds", "a list for each kind")


def _pushable(b: Any, x: Any) -> Any:
    """A list of numbers of one kind is an array, a list of arrays one of one more dimension."""
    if isinstance(x, Listed):
        return as_array(b, x)
    if isinstance(x, Items):
        alike = x.of is list and x.items and all(isinstance(i, Expr) for i in x.items)
        if alike and len({b.kind(i) for i in x.items}) == 1:
            made = on_array(b, None, x)
            assert isinstance(made, View)
            b.lists.add(made.base)
            return made
        return x.each(lambda i: _pushable(b, i))
    return x


def changes(b: Any, of: str) -> None:
    """Refuse a change that another list, which holds this one or is it by another name, would have to show."""
    for pair in sorted((p for p in b.twins if _itself(of) in p), key=sorted):
        for other in pair - {_itself(of)}:
            name = b.name_of(other)
            if name is not None:
                b.refuse(f"the list that changes here is in {name} as well", "make one of them a copy")


def _itself(base: str) -> str:
    """How a list is called among twins, apart from what it holds."""
    return f"[{base}]"


def anew(b: Any, base: str) -> None:
    b.parted(base)
    b.parted(_itself(base))


def _list_of(x: Value) -> set[str]:
    return {x.of} if isinstance(x, Listed) else {x.base} if isinstance(x, View) else set()


def _held_as(b: Any, of: str, x: Value) -> None:
    """A list holds an array from here on, or once more."""
    for base in _same_as(x):
        base = b.room_of.get(base, base)
        if base == of or frozenset((base, of)) in b.twins:
            b.twins = b.twins | {frozenset((of, TWICE + of))}
        if base != of:
            b.shared(of, base)


def _same_as(x: Value) -> set[str]:
    """The arrays that a value, or a part of it, is."""
    if isinstance(x, Items):
        return set().union(*map(_same_as, x.items))
    return {x.base} if isinstance(x, View) else {x.of} if isinstance(x, Elementwise) and x.of else set()


def same(b: Any, v: Any, other: Any) -> None:
    """Two names of one list."""
    (base,) = _list_of(other)
    b.shared(v.base, base)
    b.twins = b.twins | {frozenset((v.base, _itself(base))), frozenset((base, _itself(v.base)))}


def push(b: Any, v: Any, at: Any, x: Any) -> None:
    changes(b, v.base)
    inner = _list_of(x) & {*b.sites}
    x = _pushable(b, x)
    rooms = b.kept.get(v.base)
    if rooms is None and isinstance(x, Expr):
        _push_number(b, v, at, x)
        return
    site = b.sites[v.base]
    known, now = b.foreseen.get(site), _kept(b, x)
    joined = now if known is None else _joined(b, known, now)
    if joined != known:
        raise Foreseen(site, joined)
    _put(b, rooms, at, x, True)
    _held_as(b, v.base, x)
    for base in inner:
        b.shared(v.base, base)
        b.twins = b.twins | {frozenset((v.base, _itself(base)))}


def _push_number(b: Builder, v: View, at: Expr, x: Expr) -> None:
    array, of = b.array(v.base), b.dtype(x)
    if array.dtype == "" or (array.dtype == "bool" and of == "int64"):
        array.dtype = of
    if ops.join(array.kind, kind_of(of)) != array.kind:
        b.refuse("a list of integers gets a float", "begin with a float")
    _number(b, v, at, x, True)


def _number(b: Builder, room: View, at: Expr, x: Expr, more: bool) -> None:
    e = b.let(None, x) if not is_leaf(x) else x
    if more:
        b.block.append(Grow(room.base, b.binary("add", at, ONE)))
    Builder.store(b, b.load(room, [at]), e)


def _put(b: Any, rooms: Any, at: Expr, x: Any, more: bool) -> None:
    """An item at its place, behind all others or instead of one."""
    if isinstance(rooms, Items):
        for r, i in zip(rooms.items, x.items):
            _put(b, r, at, i, more)
        return
    if isinstance(rooms, _Column):
        _number(b, rooms.room, at, x, more)
        return
    shape = [b.counted(b.settled(n)) for n in b.shape(x)]
    size = b.counted(product_of(b, shape))
    begins = promised(b, b.load(rooms.begins, [at]))
    after = b.binary("add", at, ONE)
    if more:
        b.block.append(Grow(rooms.begins.base, b.binary("add", after, ONE)))
        end = b.let("k", b.binary("add", begins, size))
        Builder.store(b, b.load(rooms.begins, [after]), end)
        b.block.append(Grow(rooms.data.base, end))
        for room, n in zip(rooms.lengths, shape):
            _number(b, room, at, n, True)
    else:
        for n, m in zip(shape, _shape(b, rooms, at)):
            b.require(Apply("eq", (n, m)), "an item of a list gets another shape")
    read = b.stored(x) if rooms.data.base in b.bases(x) else x
    b.nest(
        shape,
        lambda i: Builder.store(
            b, b.load(rooms.data, [b.whole("add", begins, flat_index(b, i, shape))]), b.element(read, i)
        ),
    )


def promised(b: Any, e: Any) -> Any:
    """A place in room, which is not negative."""
    known = b.let("k", e)
    b.program.natural.add(known.name)
    return known


def _shape(b: Builder, rooms: _Rows, at: Expr) -> list[Expr]:
    if rooms.lengths:
        return [promised(b, b.load(room, [at])) for room in rooms.lengths]
    begins, ends = (b.load(rooms.begins, [k]) for k in (at, b.binary("add", at, ONE)))
    return [promised(b, b.binary("sub", ends, begins))]


def held(b: Any, v: Any, n: Any) -> View | Listed:
    """What of its room a list uses."""
    if not isinstance(v, View) or not isinstance(n, Expr) or v.base not in b.sites:
        b.refuse("a list that is something else in between", "use two names")
    if v.base in b.kept:
        return Listed(b.kept[v.base], n, v.base)
    if b.array(v.base).dtype == "":
        if (b.frame, v.base) in b.hoped:
            return Listed(None, n, v.base)
        b.array(v.base).dtype = "float64"
    return View(v.base, (Span(ZERO, n),), (0,))


# ---------------------------------------------------------------- what stands in one


def place(b: Any, x: Listed, at: Any) -> Any:
    """An index of the list as one of its room; a negative one counts from the end."""
    at = b.settled(at)
    if not b.natural(at):
        if isinstance(at, Apply | Load):
            at = b.let("k", at)
        n = x.count
        at = (
            b.binary("add", n, at)
            if not is_leaf(at) or _below(at)
            else Apply("where", (Apply("lt", (at, ZERO)), Apply("add", (at, n)), at))
        )
    return promised(b, b.whole("add", x.low, at))


def _below(at: Any) -> bool:
    return bool(getattr(at, "value", 0) < 0) if hasattr(at, "value") else False


def item(b: Any, x: Listed, at: Expr) -> Any:
    """The item at a place of the room."""
    return _item(b, rooms_of(b, x), at)


def rooms_of(b: Any, x: Listed) -> Any:
    """None are known before the first was pushed; what reads one waits until then."""
    if x.rooms is None:
        raise Unset(b.refusal("an item of a list that has none"), b.hoped[b.frame, x.of])
    return x.rooms


def _item(b: Any, rooms: Any, at: Expr) -> Any:
    if isinstance(rooms, Items):
        return rooms.each(lambda r: _item(b, r, at))
    if isinstance(rooms, _Column):
        return b.let("x", b.load(rooms.room, [at]))
    begins = promised(b, b.load(rooms.begins, [at]))
    shape = _shape(b, rooms, at)
    if rooms.rank == 1:
        return View(rooms.data.base, (Span(begins, shape[0]),), (0,))
    base = rooms.data.base

    def element(i: list[Expr]) -> Expr:
        found: Expr = b.load(rooms.data, [b.whole("add", begins, flat_index(b, i, shape))])
        return found

    return Elementwise(shape, element, {base}, b.array(base).dtype, base)


def set_item(b: Any, x: Listed, at: Expr, value: Value) -> None:
    changes(b, x.of)
    value = _pushable(b, value)
    site = b.sites[x.of]
    joined = _joined(b, b.foreseen[site], _kept(b, value))
    if joined != b.foreseen[site]:
        raise Foreseen(site, joined)
    _put(b, rooms_of(b, x), place(b, x, at), value, False)
    _held_as(b, x.of, value)


def part(b: Any, x: Listed, low: Expr, high: Expr) -> Listed:
    low = b.counted(b.settled(low))
    gap = b.let("n", Apply("max", (b.whole("sub", high, low), ZERO)))
    return Listed(x.rooms, gap, x.of, b.counted(b.whole("add", x.low, low)))


def over(b: Any, x: Listed) -> Callable[[Expr], Any]:
    return lambda i: item(b, x, b.whole("add", x.low, i))


def as_array(b: Any, x: Listed) -> Any:
    """An array of one more dimension, of items that are alike."""
    at = over(b, x)
    rooms = rooms_of(b, x)
    if isinstance(rooms, Items):
        if not all(isinstance(r, _Column) for r in rooms.items):
            b.refuse("an array of a list of such items", "a list for each part")
        kind = ops.join(*(b.array(r.room.base).kind for r in rooms.items))
        dtype = {"float": "float64", "int": "int64", "bool": "bool"}[kind]
        made = b.make(None, [x.count, const(len(rooms.items))], dtype, zeros=False)

        def row(i: list[Expr]) -> None:
            found = at(i[0])
            assert isinstance(found, Items)
            for k, e in enumerate(found.items):
                b.store(b.load(made, [i[0], const(k)]), e)

        b.nest([x.count], row)
        return made
    test = b.let("c", Apply("gt", (x.count, ZERO)))
    first = [
        b.choose(test, lambda k=k: _shape(b, rooms, x.low)[k], lambda: ZERO, "n") for k in range(rooms.rank)
    ]
    for n in first:
        b.program.natural.add(n.name)
    made = b.make(None, [x.count, *first], b.array(rooms.data.base).dtype, zeros=False)
    _, *shape = b.shape(made)

    def rows(i: list[Expr]) -> None:
        found = at(i[0])
        for n, m in zip(b.shape(found), shape):
            b.require(Apply("eq", (n, m)), "an array of a list of items of different lengths")
        b.nest(shape, lambda j: b.store(b.load(made, [i[0], *j]), b.element(found, j)))

    b.nest([x.count], rows)
    return made


def joined(b: Any, x: Listed) -> Any:
    """np.concatenate of vectors: they lie one after another."""
    rooms = rooms_of(b, x)
    if not isinstance(rooms, _Rows) or rooms.rank > 1:
        b.refuse("a list of such items side by side", "np.array of it, and reshape")
    begins, ends = (
        promised(b, b.load(rooms.begins, [k])) for k in (x.low, b.counted(b.whole("add", x.low, x.count)))
    )
    found: View = b.stored(
        View(rooms.data.base, (Span(begins, promised(b, b.whole("sub", ends, begins))),), (0,))
    )
    b.parted(found.base)
    return found


__all__ = [
    "Foreseen",
    "Unset",
    "anew",
    "as_array",
    "changes",
    "held",
    "item",
    "joined",
    "new_list",
    "new_room",
    "over",
    "part",
    "place",
    "push",
    "same",
    "set_item",
]
