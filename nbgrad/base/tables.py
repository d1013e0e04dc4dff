"""Tables of what was worked out once: plans by how tensors lie, kernels by their sources, makers of functions by what those are to do.

Promises users that no program fills memory with them, however many shapes it sees, and that `nbgrad.utils.tables()` counts them all:
a `Table` is a dict with a name and a bound, `cached` is functools' `lru_cache` with the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

K = TypeVar("K")
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DTYPE = "the default dtype"
PLANS = 4096  # of one op
_all: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by identity; a table goes with who has it


class Table(dict[K, V]):
    """At its `bound` it is begun anew: that is one operation, which no other thread can see the middle of, and asks nothing of a
    look-up, where to know the oldest would. `rests_on` says with what change its entries are out of date. Without a bound it keeps
    for ever what others have the address of.

    Where nanoseconds count keep `find = table.get`, which costs what it costs of a dict; `table.get(key)` takes 0.01 us more, as the
    interpreter has a short way for dicts alone."""

    __slots__ = ("__weakref__", "bound", "name", "rests_on")

    def __init__(self, name: str, bound: int | None, rests_on: str = "") -> None:
        self.name, self.bound, self.rests_on = name, bound, rests_on
        _all[id(self)] = self

    def keep(self, key: K, value: V) -> V:
        if self.bound is not None and len(self) >= self.bound:
            self.clear()
        self[key] = value
        return value


def cached(bound: int | None) -> Callable[[F], F]:
    """A function that remembers its results, those asked for most recently; its name in the list is where it stands."""

    def make(function: F) -> F:
        remembering = lru_cache(maxsize=bound)(function)
        _all[id(remembering)] = remembering
        return cast(F, remembering)

    return make


class Row(NamedTuple):
    name: str
    tables: int  # of that name: an op, for one, has plans of its own
    entries: int
    bound: int | None  # of each


class Rows(list[Row]):
    def __repr__(self) -> str:
        used = [row for row in self if row.entries]
        wide = max([len(row.name) for row in used], default=0)
        lines = [
            f"{r.name:{wide}}  {r.entries:6} of {'any number' if r.bound is None else r.bound}"
            + (f", {r.tables} tables" if r.tables > 1 else "")
            for r in used
        ]
        return "\n".join([*lines, f"and {len(self) - len(used)} names without entries"])


def rows(word: str = "") -> Rows:
    """The tables whose name holds the word, those of one name together, by name."""
    found: dict[str, Row] = {}
    for known in _living():
        if isinstance(known, Table):
            name, entries, bound = known.name, len(known), known.bound
        else:
            name = f"{known.__module__}.{known.__qualname__}".removeprefix("nbgrad.")
            about = known.cache_info()
            entries, bound = about.currsize, about.maxsize
        others = found.get(name, Row(name, 0, 0, bound))
        found[name] = Row(name, others.tables + 1, others.entries + entries, bound)
    return Rows(sorted([row for row in found.values() if word in row.name]))


def forget(what: str) -> None:
    """Empty the tables that rest on what has changed."""
    for known in _living():
        if isinstance(known, Table) and known.rests_on == what:
            known.clear()


def _living() -> list[Any]:
    return [known for ref in _all.valuerefs() if (known := ref()) is not None]
