"""The list of what nbgrad remembers, as `nbgrad.utils.tables()` gives it."""

from __future__ import annotations

from typing import NamedTuple

from nbgrad.base.tables import Table, living


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
    for known in living():
        if isinstance(known, Table):
            name, entries, bound = known.name, len(known), known.bound
        else:
            name = f"{known.__module__}.{known.__qualname__}".removeprefix("nbgrad.")
            about = known.cache_info()
            entries, bound = about.currsize, about.maxsize
        others = found.get(name, Row(name, 0, 0, bound))
        found[name] = Row(name, others.tables + 1, others.entries + entries, bound)
    return Rows(sorted([row for row in found.values() if word in row.name]))
