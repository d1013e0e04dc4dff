"""The table of PyTorch's names: which there are in a module, and of what kind.

A line at the margin is a module's path. Below it, a space in, stands the kind and then names: `def`, `class` (with its static
methods after a colon), `error` (with Python's exception that it is), `enum` (with members and values), `value` (with its literal),
`type` (a name for annotations), `typevar`, `paramspec`, `dtype`, `object` (none of these),
`module` (with its path) and `from`, a module where they stand under that name or the one after `=`.
What follows `also` can be imported, but is not told as public.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached

_HERE = os.path.dirname(__file__)


class Entry(NamedTuple):
    """What is told of a name; `more` stands behind it, or of `from` the path where it is."""

    kind: str
    more: str
    public: bool


def _file(name: str) -> str:
    with open(os.path.join(_HERE, name), encoding="ascii") as file:
        return file.read()


@cached(None)
def _text() -> str:
    return _file("names.txt")


@cached(None)
def _places() -> dict[str, tuple[int, int]]:
    """Where in the text the names of a module stand."""
    found = list(re.finditer(r"^torch.*\n", _text(), re.M))
    ends = [m.start() for m in found[1:]] + [len(_text())]
    return {m[0].rstrip(): (m.end(), end) for m, end in zip(found, ends)}


def modules() -> list[str]:
    """The paths of all modules."""
    return list(_places())


def is_module(path: str) -> bool:
    return path in _places()


@cached(None)
def _packages() -> frozenset[str]:
    return frozenset(path.rpartition(".")[0] for path in modules())


def is_package(path: str) -> bool:
    """Whether it has modules inside."""
    return path in _packages()


@cached(None)
def names(path: str) -> dict[str, Entry]:
    """All that is told of a module."""
    start, end = _places().get(path, (0, 0))
    return dict(_read(_text()[start:end].splitlines()))


def of_tensor() -> Iterator[tuple[str, str]]:
    """All that a tensor has, each with its kind; in a file of its own, as it is read with every import."""
    for line in _file("tensor.txt").splitlines():
        kind, *found = line.split()
        for name in found:
            yield name, kind


def _read(lines: list[str]) -> Iterator[tuple[str, Entry]]:
    public = True
    for line in lines:
        kind, *words = line.split()
        home = ""
        if kind == "also":
            public = False
        if kind == "from":
            home, *words = words
        for word in words:
            name, more = re.match(r"(\w+)[:=]?(.*)", word).groups()  # type: ignore[union-attr]
            yield name, Entry(kind, f"{home}.{more or name}" if home else more, public)


def public(path: str) -> list[str]:
    """The names that a module tells to the world."""
    return [name for name, entry in names(path).items() if entry.public]


@cached(None)
def _reasons() -> dict[str, str]:
    lines = _file("reasons.txt").splitlines()
    told = (line.partition(": ") for line in lines if line)
    return {path: why for paths, _, why in told for path in paths.split()}


def reason(path: str) -> str:
    """Why something is not here, and what to do instead: of the name, or of the module that it stands in."""
    at = path
    while at not in _reasons():
        at = at.rpartition(".")[0]
    return _reasons()[at]
