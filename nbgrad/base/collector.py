"""Python's collector of cycles, off while the package makes its functions: it would look through all of them, again and again, and find
nothing.

Promises that it is on again, if it was, once nobody holds what `rest` gave: when the import is done, or fails. What was made meanwhile
is never looked through again (`gc.freeze`), neither by a program's own collections nor at its end, where that and taking all of it
apart would last as long as the import. What the program had made before is then left alone, too, so where that is much, all counts as
old instead, as it would had it been looked through.
"""

from __future__ import annotations

import gc
from typing import Any

_LITTLE = 50_000  # objects; Python with NumPy has 17,000


class _Rest:
    def __init__(self) -> None:
        self.was_on = gc.isenabled()
        gc.disable()
        self.little = gc.get_freeze_count() + len(gc.get_objects()) < _LITTLE

    def __del__(self) -> None:
        if not self.was_on:
            return
        if self.little:
            gc.freeze()
            _seen.append([_MARK])
        elif not gc.get_freeze_count():  # else what the program has frozen would thaw
            gc.freeze()
            gc.unfreeze()  # to the oldest
        gc.enable()


_MARK = object()
_seen: list[
    list[object]
] = []  # one that the collector knows, until the program freezes it: to count all takes 3 ms


def rest() -> _Rest:
    """The collector rests for as long as somebody holds this."""
    return _Rest()


def alive(kind: type) -> list[Any]:
    """All objects of a kind that the collector knows: by their own type, as what other libraries put in the place of `__class__` is not
    asked. They are found as those that refer to their type. Who holds a list of all objects also holds each tuple that another thread is
    just filling, which then cannot grow: `tuple(x for x in ...)` ended there in a SystemError."""
    kinds = [kind]
    for one in kinds:
        subs: list[type] = type.__subclasses__(one)
        kinds += [sub for sub in subs if sub not in kinds]
    return [x for x in gc.get_referrers(*kinds) if issubclass(type(x), kind)]


def thaw() -> bool:
    """Have the collector look at all objects again; whether the program itself had frozen some."""
    frozen = gc.get_freeze_count() > 0
    frozen = frozen and not (_seen and any([x is _seen[-1] for x in gc.get_referrers(_MARK)]))
    gc.unfreeze()
    return frozen
