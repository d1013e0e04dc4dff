"""Bars of arrays that each turn of a loop fills anew: they are zero where a reversed turn begins, so that what comes first is set, not
added, and what is read last need not be set to zero.

Promises the same numbers. Of Runge and Kutta's steps, whose slopes are such arrays, it is a third of what the reversed turn writes.
"""

from __future__ import annotations

import re

from nbgrad.adjoints.analyse import Plan
from nbgrad.adjoints.ir import Const, Loop, Make, Name, Store, View, reads, statements
from nbgrad.adjoints.text import Lines


def filled_anew(plan: Plan, loop: Loop) -> list[str]:
    """Arrays that nothing but a loop's turns know, each of whose elements a turn writes once, before it reads any."""
    p = plan.p
    shown = {r.base for r in p.results if isinstance(r, View)}
    candidates = [
        k
        for k in sorted(plan.written_first(loop) & plan.active.arrays - shown)
        if p.arrays[k].extents is not None and _once(plan, loop, k)
    ]
    if not candidates:
        return []
    inside = {id(s) for s in plan.within_now(loop)}
    outside = {b for s in statements(p.body) if id(s) not in inside for b in reads(s)}
    return [k for k in candidates if k not in outside]


def _once(plan: Plan, loop: Loop, k: str) -> bool:
    """Is each element written once in a turn, by stores one by one and a loop that goes on behind them?"""
    writers = [s for s in plan.writers[k] if not (isinstance(s, Make) and loop not in s.around)]
    single = [s for s in writers if any(s is q for q in loop.body)]
    rest = [s for s in writers if not any(s is q for q in single)]
    if len(rest) != 1 or not all(isinstance(s, Store) for s in writers):
        return False
    over = next((q for q in loop.body if isinstance(q, Loop) and any(rest[0] is s for s in q.body)), None)
    if over is None or over.step != 1 or over.trips or rest[0].index != (Name(over.var),):
        return False
    start = over.start.value if isinstance(over.start, Const) else -1
    places = [s.index[0].value for s in single if isinstance(s.index[0], Const)]
    return len(set(places)) == len(single) and all(0 <= i < start for i in places)


def set_not_added(lines: Lines, bar: str, extent: str) -> None:
    """In a reversed turn, where the bar's first mention adds to all elements in turn and nothing is added once one was read."""
    word = re.compile(rf"\b{bar}\b")
    touched = [k for k, line in enumerate(lines) if _mentions(line, word)]
    if not touched or not isinstance(lines[touched[0]], list):
        return
    first = touched[0]
    head = re.fullmatch(r"for (\w+) in range\((.*)\):", lines[first - 1])
    if head is None or head[2] != extent:
        return
    block = lines[first]
    flat = [line for k in touched for line in _flat(lines[k]) if word.search(line)]
    taken = re.compile(rf"\w+ = {bar}\[(.*)\]")
    cleared = re.compile(rf"{bar}\[(.*)\] = 0\.0")
    added = re.compile(rf"{bar}\[.*\] [+-]= (.*)")
    over = False  # has the first been read?
    for line in flat:
        more = added.fullmatch(line)
        if more is not None:
            if over or word.search(more[1]):
                return
        elif taken.fullmatch(line) is None and cleared.fullmatch(line) is None:
            return
        else:
            over = True
    here = f"{bar}[{head[1]}]"  # no other place: what was added there before it is set would be lost
    if any(word.search(line.replace(here, "")) for line in _flat(block)):
        return
    own = [k for k, line in enumerate(block) if _mentions(line, word)]
    if not isinstance(block[own[0]], str) or not block[own[0]].startswith(f"{here} += "):
        return
    block[own[0]] = block[own[0]].replace(" += ", " = ", 1)
    _dropped(lines, cleared)


def _dropped(lines: Lines, what: re.Pattern[str]) -> None:
    """Without the lines, nor heads of blocks that have no other."""
    kept: Lines = []
    for line in lines:
        if isinstance(line, list):
            _dropped(line, what)
            if line:
                kept.append(line)
            else:
                kept.pop()
        elif not what.fullmatch(line):
            kept.append(line)
    lines[:] = kept


def _mentions(line: str | Lines, word: re.Pattern[str]) -> bool:
    return any(word.search(t) for t in _flat(line))


def _flat(line: str | Lines) -> list[str]:
    return [line] if isinstance(line, str) else [t for part in line for t in _flat(part)]


__all__ = ["filled_anew", "set_not_added"]
