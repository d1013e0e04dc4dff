"""Gradients that nothing stands in yet: where an adjoint's first word of an array adds once to each of its elements, it may write them.

Promises the text of such an adjoint and which arrays need hold no zeros: of a million numbers to clear them and to read them again takes
as long as a loop of sums. Until it is written, what was saved for an element stands there. What surely does that is looked for, in the
text as it is: loops over the whole array, one in the other, and in the innermost the addition, before any other mention.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nbgrad.adjoints.text import Lines, Text, function_text, indented

_HEAD = re.compile(r"for (\w+) in p?range\((.*?)(?: - 1, -1, -1)?\):")
_ADDED = re.compile(r"(\w+)\[(.*)\] \+= (.*)")
_SET = re.compile(r"(\w+)\[([^\[\]]*)\] = (.*)")
_LOADED = re.compile(r"\w+ = (\w+)\[([^\[\]]*)\]")
_MADE = re.compile(r"(\w+) = np\.empty\((.*)\)")
_LENGTH = re.compile(r"(\w+) = (\w+\.shape\[\d+\])")
_LEAVES = re.compile(r"\b(break|continue|return)\b")


def written_first(name: str, text: Text, bars: Mapping[str, str]) -> tuple[Text, frozenset[str]]:
    """`bars` says whose gradient each is, which is as long along each axis."""
    lines = text.body
    found, dropped = set(), {""}
    if not any(_LEAVES.search(line) for line in indented(lines)):
        bound = {line.strip().partition(" ")[0] for line in indented(lines)}
        for bar, of in bars.items():
            written = _written(lines, bar, of, _lengths(lines), []) if of not in bound else None
            if written is not None:
                found.add(bar)
                lines = written
                if text.known is not None:  # as what is saved is a float64
                    lines, gone = _kept_there(lines, bar, of)
                    dropped.add(gone)
    if not found:
        return text, frozenset()
    made = function_text(name, text.params, lines, text.results)
    made.scratch = {n: line for n, line in text.scratch.items() if n not in dropped}
    made.known = text.known
    return made, frozenset(found)


def _lengths(lines: Lines) -> dict[str, str]:
    """Names that stand for how long an array is along an axis, and for nothing else."""
    told = [m for line in lines if isinstance(line, str) and (m := _LENGTH.fullmatch(line))]
    every = [line.partition(" ")[0] for line in map(str.strip, indented(lines))]
    return {m[1]: m[2] for m in told if every.count(m[1]) == 1}


def _written(
    lines: Lines, bar: str, of: str, lengths: Mapping[str, str], counters: list[str]
) -> Lines | None:
    """The lines, with the addition as what writes; nothing where it is not surely the first, to each element once."""
    mention = re.compile(rf"\b{bar}\b(?:\[([^\[\]]*)\])?")
    for k, line in enumerate(lines):
        inner = lines[k + 1] if k + 1 < len(lines) and isinstance(lines[k + 1], list) else None
        here = line if isinstance(line, str) else ""
        if not mention.search(here) and not (inner and any(map(mention.search, indented(inner)))):
            continue
        if inner is None:
            added = _ADDED.fullmatch(here)
            whole = added and added[1] == bar and _plain(added[2]) == ", ".join(counters)
            if not added or not whole or mention.search(added[3]):
                return None
            return [*lines[:k], f"{bar}[{added[2]}] = {added[3]}", *lines[k + 1 :]]
        head = _HEAD.fullmatch(here)
        if not head or lengths.get(head[2], head[2]) != f"{of}.shape[{len(counters)}]":
            return None
        within = _written(inner, bar, of, lengths, [*counters, head[1]])
        # What comes behind in the same turn is of the same element, as a later turn begins another anew.
        places = {_plain(m[1] or "") for line in indented(inner) for m in mention.finditer(line)}
        return [*lines[: k + 1], within, *lines[k + 2 :]] if within is not None and len(places) == 1 else None
    return None


def _kept_there(lines: Lines, bar: str, of: str) -> tuple[Lines, str]:
    """The lines, with what was saved for an element of the gradient, and is read right before that is written, kept where it will stand:
    one array less to make, to write and to read. And which that was."""
    block, at = _first_word(lines, bar)
    write = _SET.fullmatch(block[at])
    assert write is not None  # by `_written`
    index, lengths = _plain(write[2]), _lengths(lines)
    for line in block[:at]:
        load = _LOADED.fullmatch(line) if isinstance(line, str) else None
        if load is None or _plain(load[2]) != index:
            continue
        word = re.compile(rf"\b{load[1]}\b")
        uses = [q.strip() for q in indented(lines) for _ in word.finditer(q)]
        made = [m for q in uses if (m := _MADE.fullmatch(q)) and m[1] == load[1]]
        stores = [q for q in uses if q.startswith(f"{load[1]}[") and _SET.fullmatch(q)]
        shape = made[0][2].strip("()").split(", ") if made else []
        long = [f"{of}.shape[{k}]" for k in range(index.count(",") + 1)]
        if len(uses) == 3 and len(stores) == 1 and [lengths.get(n, n) for n in shape] == long:
            return _renamed(lines, word, bar), load[1]
    return lines, ""


def _first_word(lines: Lines, name: str) -> tuple[Lines, int]:
    """The block in which a name stands first, and where."""
    for k, line in enumerate(lines):
        if isinstance(line, list):
            if any(re.search(rf"\b{name}\b", q) for q in indented(line)):
                return _first_word(line, name)
        elif re.search(rf"\b{name}\b", line):
            return lines, k
    return [], 0


def _renamed(lines: Lines, word: re.Pattern[str], name: str) -> Lines:
    """Without the line that made it."""
    kept = [
        q for q in lines if isinstance(q, list) or not ((m := _MADE.fullmatch(q)) and word.fullmatch(m[1]))
    ]
    return [
        _renamed(q, word, name) if isinstance(q, list) else word.sub(name, q) if word.search(q) else q
        for q in kept
    ]


def _plain(index: str) -> str:
    return re.sub(r"\bu\((\w+)\)", r"\1", index)


__all__ = ["written_first"]
