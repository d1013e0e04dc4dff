"""What stands under a name that is not built: it can be imported, named in annotations, derived from and asked after, and says what it is
when it is used."""

from __future__ import annotations

import typing
from ast import literal_eval
from collections.abc import Callable
from enum import Enum
from types import GenericAlias
from typing import Any, NoReturn

from nbgrad.names import table


class NotBuiltError(NotImplementedError):
    """Something of PyTorch's that nbgrad has not was used.

    >>> import nbgrad
    >>> nbgrad.jit.load("model.pt")
    Traceback (most recent call last):
    nbgrad.names.absent.NotBuiltError: nbgrad has no torch.jit.load: ...
    """


class NotBuiltAttributeError(NotBuiltError, AttributeError):
    """The same of an attribute, so that `hasattr` says that there is none."""


def message(path: str) -> str:
    """What is said of a name."""
    where = path.rpartition(".")[0]
    while not table.is_module(where):
        where = where.rpartition(".")[0]
    return f"nbgrad has no {path}: {table.reason(path)}, see `python -m nbgrad coverage {where}`"


def refuse(path: str) -> NoReturn:
    """Say so of a path of PyTorch's."""
    raise NotBuiltError(message(path))


def is_absent(thing: object) -> bool:
    """Whether it was made here."""
    if isinstance(thing, property):
        thing = thing.fget
    return isinstance(thing, Unbuilt) or "_nbgrad_absent" in getattr(thing, "__dict__", ())


def is_built(owner: object, name: str) -> bool:
    """Whether it has something under a name that was not made here."""
    return hasattr(owner, name) and not is_absent(getattr(owner, name))


def _named(thing: Any, path: str) -> Any:
    where, _, name = path.rpartition(".")
    thing.__module__, thing.__name__, thing.__qualname__ = where, name, name
    thing.__doc__ = "Not in nbgrad: whoever uses it is told why."
    thing._nbgrad_absent = path
    return thing


def function(path: str, attribute: bool = False) -> Callable[..., NoReturn]:
    """A function, or the getter of a property."""

    def absent(*args: object, **named: object) -> NoReturn:
        raise (NotBuiltAttributeError if attribute else NotBuiltError)(message(path))

    return typing.cast(Callable[..., NoReturn], _named(absent, path))


def class_(path: str, statics: str) -> type:
    """A class, with its static methods."""

    def new(cls: type, *args: object, **named: object) -> NoReturn:
        raise NotBuiltError(message(path))

    body: dict[str, Any] = {n: staticmethod(function(f"{path}.{n}")) for n in statics.split(",") if n}
    body |= {"__new__": new, "__class_getitem__": classmethod(GenericAlias)}
    return typing.cast(type, _named(type(path.rpartition(".")[2], (), body), path))


def error(path: str, base: str) -> type:
    """An exception, which can be caught and raised."""
    import builtins

    return typing.cast(type, _named(type(path.rpartition(".")[2], (getattr(builtins, base),), {}), path))


def enum(path: str, members: str) -> Any:
    """An enumeration, whose members have names and numbers and serve nothing."""
    where, _, name = path.rpartition(".")
    told = [member.partition("=") for member in members.split(",") if member]
    values = [(n, int(number) if number else n) for n, _, number in told]
    made = Enum(name, values, module=where)  # type: ignore[misc]
    setattr(made, "_nbgrad_absent", path)  # noqa: B010
    return made


class Unbuilt:
    """An object that nothing can be done with."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __repr__(self) -> str:
        return f"<{self._path}, which is not in nbgrad>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what Python asks of anything
            raise AttributeError(name)
        raise NotBuiltAttributeError(message(self._path))

    def _refuse(self, *args: object, **named: object) -> NoReturn:
        raise NotBuiltError(message(self._path))

    __call__ = __iter__ = __len__ = __bool__ = __contains__ = __getitem__ = __setitem__ = _refuse
    __enter__ = __exit__ = __or__ = __and__ = __sub__ = _refuse


def make(path: str, entry: table.Entry) -> Any:
    """What stands for a name of that kind."""
    match entry.kind:
        case "def":
            return function(path)
        case "class":
            return class_(path, entry.more)
        case "error":
            return error(path, entry.more)
        case "enum":
            return enum(path, entry.more)
        case "value":
            return literal_eval(entry.more)
        case "type":  # Python's own, which libraries take from PyTorch, too, or any
            return getattr(typing, path.rpartition(".")[2], Any)
        case "typevar":
            return typing.TypeVar(path.rpartition(".")[2])
        case "paramspec":
            return typing.ParamSpec(path.rpartition(".")[2])
    return Unbuilt(path)
