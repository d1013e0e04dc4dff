"""Functions that are written for one kind of call, without the loops and questions that other kinds need.

Promises who writes one that the text is as easy to read as what it says, names and indents included, and who debugs one that it is
listed (`nbgrad.utils.sources()`) with what it was made from, and that tracebacks show its lines.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Sequence
from itertools import count
from types import CodeType
from typing import Any, Union

from nbgrad.base.tables import Table

Lines = Sequence[
    Union[str, "Lines"]
]  # those of an inner list stand deeper, as the block that the line before them opens
_ALONE = re.compile(r"^( *)\{(\w+)\}\n", re.MULTILINE)
_numbers = count(1)


class Source:
    """`path` is what tracebacks call it: a file, if there is one."""

    __slots__ = ("made_from", "path", "text", "title")

    def __init__(self, title: str, made_from: str, path: str, text: str) -> None:
        self.title, self.made_from, self.path, self.text = title, made_from, path, text

    def __repr__(self) -> str:
        return f"<{self.title}: {self.made_from}>"


class _Written(Table[str, Source]):
    __slots__ = ()

    def clear(self) -> None:
        for path in list(self):
            linecache.cache.pop(path, None)
        super().clear()


_written = _Written("base.source.written", 4096)
_noted: dict[str, Source] = {}
_compiled: Table[str, CodeType] = Table("base.source.compiled", 4096)


def indented(lines: Lines, by: str = "") -> list[str]:
    found = []
    for line in lines:
        found += [by + line] if isinstance(line, str) else indented(line, by + "    ")
    return found


def text_of(lines: Lines) -> str:
    return "\n".join([*indented(lines), ""])


def fill(template: str, **holes: Any) -> str:
    """A text whose {holes} are filled as `format` does; one that stands alone on its line may take a list: of lines, indented as it
    is, or none, and then none is left."""
    first, *parts = _ALONE.split(f"{template}\n")
    found = [first.format_map(holes)]
    for by, name, text in zip(parts[::3], parts[1::3], parts[2::3]):
        given = holes[name]
        found += [f"{line}\n" for line in ([by + given] if isinstance(given, str) else indented(given, by))]
        found.append(text.format_map(holes))
    return "".join(found)[:-1]


def tuple_of(items: Iterable[str]) -> str:
    return f"({''.join([f'{item}, ' for item in items]).rstrip()})"


def function(
    name: str, text: str, scope: dict[str, Any], title: str, made_from: str, shared: bool = False
) -> Any:
    """The function of that name in a text, which reads its constants in `scope`; those of one `shared` text are compiled once."""
    code = _compiled.get(text) if shared else None
    if code is None:
        path = f"<nbgrad {next(_numbers)}: {title}>"
        code = compile(text, path, "exec", dont_inherit=True)
        if shared:
            _compiled.keep(text, code)
        linecache.cache[path] = len(text), None, text.splitlines(True), path
        _written.keep(path, Source(title, made_from, path, text))
    exec(code, scope)
    return scope[name]


def note(source: Source) -> None:
    """List what is no function of Python's, of which a process has few, and keeps them."""
    _noted[source.path] = source


def sources(word: str = "") -> list[Source]:
    listed = [*_noted.values(), *list(_written.values())]
    return [s for s in listed if word in s.title or word in s.made_from]
