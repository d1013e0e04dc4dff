"""Dictionaries whose keys are known while lowering: values side by side, as a tuple's are, and what each is called.

Promises what Python does, or a refusal. A write makes another value, which the name is bound to; of what may be the same dictionary to who
wrote the program each holds a mark of where it was made, so that a write which another name would have to show is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.adjoints.build import Builder, Items, Keys, Object, Value, is_keyed
from nbgrad.adjoints.ir import Const, Expr, const

GIVEN = frozenset([object()])  # the mark of what belongs to the module, or to who calls


def new_dict(b: Builder, /, *given: Value, **named: Value) -> Items:
    """dict(...) of another, and of what is named."""
    found: dict[Any, Any] = {}
    for x in given:
        found |= parts_of(b, x)
    return of_parts(b, found | named)


def of_parts(b: Any, parts: dict[Any, Any]) -> Items:
    """A new one. Its mark is where it is made, so that a loop that is lowered again finds the same."""
    return Items(list(parts.values()), Keys(tuple(parts), frozenset([(*b.site, b.position_of(b.node))])))


def of_module(x: dict[Any, Any], known: Callable[[Any], Value]) -> Items:
    return Items([known(v) for v in x.values()], Keys(tuple(x), GIVEN))


def parts_of(b: Builder, x: Value) -> dict[Any, Any]:
    if isinstance(x, Items) and isinstance(x.of, Keys):
        return dict(zip(x.of.names, x.items))
    pairs = x.items if isinstance(x, Items) else [None]
    if not all(isinstance(p, Items) and len(p.items) == 2 for p in pairs):
        b.refuse("a dictionary of something else than one, or than pairs")
    return {key_of(b, p.items[0]): p.items[1] for p in pairs if isinstance(p, Items)}


def key_of(b: Builder, x: Value) -> Any:
    if isinstance(x, Const) or (isinstance(x, Object) and (x.value is None or isinstance(x.value, str))):
        return x.value
    if isinstance(x, Items) and x.of is tuple:
        return tuple([key_of(b, i) for i in x.items])
    b.refuse("a key of a dictionary that is not known before it runs", "an array, or one key after another")


def as_value(b: Any, key: Any) -> Value:
    found: Value = b.wrapped(key)
    return found


def item(b: Builder, x: Items, at: Value) -> Any:
    found, key = parts_of(b, x), key_of(b, at)
    if key not in found:
        b.refuse(f"a dictionary of {', '.join(map(repr, found))} has no {key!r}")
    return found[key]


def put(b: Any, name: Value, x: Any, at: Value, value: Value, op: Value | None = None) -> Items:
    """x[at] = value, or `op`= value: what the name stands for from here on."""
    if not isinstance(x, Items) or not isinstance(x.of, Keys):
        b.refuse("what is written to is no array")
    unseen(b, name, x)
    parts = parts_of(b, x)
    key = key_of(b, at)
    if op is not None:
        value = b.changed(item(b, x, at), op.value, value) if isinstance(op, Object) else value
    parts[key] = value
    return Items(list(parts.values()), Keys(tuple(parts), x.of.marks))


def merge(b: Any, name: Value, x: Any, /, *given: Value, **named: Value) -> Items:
    """x.update(...)"""
    if not isinstance(x, Items) or not isinstance(x.of, Keys):
        b.refuse("update of something else than a dictionary")
    unseen(b, name, x)
    parts = parts_of(b, x)
    for y in given:
        parts |= parts_of(b, y)
    parts |= named
    return Items(list(parts.values()), Keys(tuple(parts), x.of.marks))


def unseen(b: Any, mine: Value, x: Items) -> None:
    """Refuse a write that another name than `mine` would have to show."""
    assert isinstance(x.of, Keys) and isinstance(mine, Object)
    if GIVEN & x.of.marks:
        b.refuse("a dictionary that was given, or of the module, stays as it is", "write to a copy: {**d}")
    for name, other in b.names.items():
        if name != mine.value and marks(other) & x.of.marks and b.live(name):
            b.refuse(f"what is written here may be {name} as well", f"make one of them a copy: {{**{name}}}")
    for _, env in b.frames:
        for name, other in env.items():
            if marks(other) & x.of.marks:
                b.refuse(f"what is written here is {name} of who calls as well", "write to a copy: {**d}")


def marks_of(of: Any) -> frozenset[object]:
    return of.marks if isinstance(of, Keys) else frozenset()


def marks(x: Any) -> frozenset[object]:
    if not isinstance(x, Items):
        return frozenset()
    return marks_of(x.of).union(*map(marks, x.items))


def over(b: Any, x: Any) -> Any:
    """What going over it gives: its keys. Others are what they are."""
    if isinstance(x, Items) and isinstance(x.of, Keys):
        return Items([as_value(b, k) for k in x.of.names])
    return x


def method(b: Builder, x: Items, name: str, args: list[Value], named: dict[str, Value]) -> Value:
    parts = parts_of(b, x)
    if name == "get" and 1 <= len(args) <= 2 and not named:
        return parts.get(key_of(b, args[0]), args[1] if len(args) > 1 else Object(None))
    if not args and not named:
        if name == "copy":
            return of_parts(b, parts)
        if name == "keys":
            return Items([as_value(b, k) for k in parts])
        if name == "values":
            return Items(list(parts.values()))
        if name == "items":
            return Items([Items([as_value(b, k), v]) for k, v in parts.items()])
    b.refuse(f"{name} of a dictionary", "set a key, or make another")


def among(b: Builder, at: Value, x: Items) -> Expr:
    return const(key_of(b, at) in parts_of(b, x))


def no_dict(b: Builder, what: str, xs: list[Value]) -> None:
    if any(map(is_keyed, xs)):
        b.refuse(f"{what} of a dictionary", "of its .values()")


def takes(f: Any) -> bool:
    """Is it a function that takes a dictionary?"""
    return f in (len, dict, list, tuple, np.shape) or f in OF_DICTS


OF_DICTS: tuple[Callable[..., Any], ...] = new_dict, put, merge

__all__ = [
    "GIVEN",
    "OF_DICTS",
    "among",
    "item",
    "key_of",
    "marks",
    "method",
    "new_dict",
    "no_dict",
    "of_module",
    "of_parts",
    "over",
    "takes",
]
