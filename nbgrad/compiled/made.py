"""Containers that a program can make again: lists, tuples with and without names, tables, and instances of dataclasses.

Promises `inside(value)`, what is in one, and `text(...)`, Python that makes another one of what is to be in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from nbgrad.dispatch.return_types import Named


def named(value: Any) -> bool:
    """Whether it is a tuple with names."""
    return isinstance(value, Named) or (isinstance(value, tuple) and hasattr(value, "_fields"))


def record(value: Any) -> bool:
    """Whether it is an instance of a dataclass that is its fields and nothing else."""
    kind: Any = type(value)
    names = getattr(kind, "__dataclass_fields__", None)
    return (
        names is not None
        and all(getattr(kind, n) is getattr(object, n) for n in ("__new__", "__getattribute__"))
        and not any(hasattr(kind, name) for name in ("__getattr__", "__del__", "__slots__"))
        and vars(value).keys() == names.keys()
    )


def inside(value: Any) -> Sequence[Any] | None:
    """What is in it, in order; None of what is no such container."""
    kind = type(value)
    if kind in (list, tuple):
        return [*value]
    if kind in (dict, OrderedDict):
        return [*value.values()]
    if named(value):
        return [*tuple.__iter__(value)]
    return [*vars(value).values()] if record(value) else None


def text(value: Any, parts: Sequence[str], names: dict[str, Any]) -> str:
    """`parts` make what is in it."""
    kind = type(value)

    def name(one: Any) -> str:
        names[f"v{len(names)}"] = one
        return f"v{len(names) - 1}"

    def key(one: Any) -> str:
        return repr(one) if type(one) in (str, int, bool) else name(one)

    if kind is list:
        return f"[{', '.join(parts)}]"
    if kind is tuple:
        return f"({''.join(p + ', ' for p in parts)})"
    if kind is dict:
        return "{" + ", ".join(f"{key(k)}: {p}" for k, p in zip(value, parts)) + "}"
    if kind is OrderedDict:
        return f"{name(kind)}([{', '.join(f'({key(k)}, {p})' for k, p in zip(value, parts))}])"
    if named(value):
        return f"{name(kind)}({'*' if hasattr(kind, '_fields') else ''}[{', '.join(parts)}])"
    fields = ", ".join(f"{k!r}: {p}" for k, p in zip(vars(value), parts))
    return f"{name(_instance)}({name(kind)}, {{{fields}}})"


def _instance(kind: type, fields: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    made.__dict__.update(fields)
    return made
