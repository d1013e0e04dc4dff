"""What executed code may ask of objects that it reads, told by the names in it."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any, NamedTuple

from nbgrad.compiled.capture import Codes

# Names that nbgrad's own code asks a user's class for.
_CALLED = {"forward", "backward", "setup_context", "__call__", "__getattr__", "__getattribute__"}
# Names of what may read attributes that no code names.
_LOOKS = {
    "getattr",
    "vars",
    "__dict__",
    "dir",
    "attrgetter",
    "methodcaller",
    "__getattribute__",
    "eval",
    "exec",
    "locals",
}
# And of what may ask whether there is one.
_ASKS = {"hasattr", "AttributeError", "Exception", "BaseException", "suppress"}
# And of what may ask for the order of a table.
_WALKS = {
    "values",
    "items",
    "keys",
    "list",
    "tuple",
    "dict",
    "next",
    "iter",
    "popitem",
    "reversed",
    "zip",
    "map",
}
_WALKING = {"GET_ITER", "CALL_FUNCTION_EX", "DICT_UPDATE", "DICT_MERGE", "LIST_EXTEND", "SET_UPDATE"}


class Asked(NamedTuple):
    used: set[str]  # names that may be read of an object
    all_read: bool  # or any that it has
    attribute: bool  # whether there is one
    order: bool  # that of a table


def asked(codes: Codes, behind: bool) -> Asked:
    """`behind` says that these are codes of a backward."""
    own = {code: set(code.co_names) - (_of_context(code) if behind else set()) for code, _ in codes.values()}
    named = set().union(*own.values())
    all_read = not named.isdisjoint(_LOOKS)
    return Asked(
        named | _CALLED,
        all_read,
        all_read or not named.isdisjoint(_ASKS),
        not named.isdisjoint(_WALKS) or any([_walks(code) for code in own]),
    )


def _of_context(code: CodeType) -> set[str]:
    """Names that a `backward` reads of its context alone, which has what the call put there."""
    if code.co_name != "backward" or not code.co_argcount:
        return set()
    own: set[str] = set()
    others: set[str] = set()
    before: Any = None
    for each in dis.get_instructions(code):
        if isinstance(each.argval, str) and each.opname.startswith("LOAD_") and each.argval in code.co_names:
            (own if before == ("LOAD_FAST", code.co_varnames[0]) else others).add(each.argval)
        elif isinstance(each.argval, str) and each.argval in code.co_names:
            others.add(each.argval)
        if each.opname != "CACHE":
            before = each.opname, each.argval
    return own - others


def _walks(code: CodeType) -> bool:
    return any(each.opname in _WALKING for each in dis.get_instructions(code))
