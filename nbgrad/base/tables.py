"""Tables of what was worked out once: plans by how tensors lie, kernels by their sources, makers of functions by what those are to do.

Promises users that no program fills memory with them, however many shapes it sees, and that `nbgrad.utils.tables()` counts them all:
a `Table` is a dict with a name and a bound, `cached` is functools' `lru_cache` with the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast
from weakref import ref

K = TypeVar("K")
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DTYPE = "the default dtype"
UNSET = "what memory holds that nothing was put into"
PLANS = 4096  # of one op
_all: set[ref[Any]] = set()  # a table goes with who has it


class Table(dict[K, V]):
    """At its `bound` it is begun anew: that is one operation, which no other thread can see the middle of, and asks nothing of a
    look-up, where to know the oldest would. `rests_on` says with what changes its entries are out of date. Without a bound it keeps
    for ever what others have the address of.

    Where nanoseconds count keep `find = table.get`, which costs what it costs of a dict; `table.get(key)` takes 0.01 us more, as the
    interpreter has a short way for dicts alone."""

    __slots__ = ("__weakref__", "bound", "name", "rests_on")
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, name: str, bound: int | None, *rests_on: str) -> None:
        self.name, self.bound, self.rests_on = name, bound, rests_on
        _all.add(ref(self, _all.discard))

    def __setitem__(self, key: K, value: V) -> None:
        if self.bound is not None and len(self) >= self.bound:
            self.clear()
        super().__setitem__(key, value)

    def keep(self, key: K, value: V) -> V:
        self[key] = value
        return value


def cached(bound: int | None) -> Callable[[F], F]:
    """A function that remembers its results, those asked for most recently; its name in the list is where it stands."""

    def make(function: F) -> F:
        remembering = lru_cache(maxsize=bound)(function)
        _all.add(ref(remembering, _all.discard))
        return cast(F, remembering)

    return make


def forget(what: str) -> None:
    """Empty the tables that rest on what has changed."""
    for known in living():
        if isinstance(known, Table) and what in known.rests_on:
            known.clear()


def living() -> list[Any]:
    """All tables and functions that remember."""
    return [known for weak in _all.copy() if (known := weak()) is not None]
