"""Records: tuples whose places have names, written as classes are.

Promises what `typing.NamedTuple` promises, but that annotations stay the texts that they are: Python compiles each of them (a fifteenth
of all the time that nbgrad's import may take), and only type checkers, which are told that this is `typing.NamedTuple`, read them.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

_OWN = frozenset(
    ["__module__", "__qualname__", "__annotations__", "__firstlineno__", "__static_attributes__"]
)

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Made(type):
        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = space["__annotations__"]
            defaults = [space[field] for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            made.__annotations__, made.__qualname__ = fields, space["__qualname__"]
            for key, value in space.items():
                if key not in _OWN and key not in fields:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Made):
        """The base of a record: its fields are its annotated names, in their order."""
