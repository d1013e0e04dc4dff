"""A kernel's text that knows what it was made from, so that another target can have one of its own made from the same.

Promises the CPU a `str` like any other. `family` names the function that wrote it, `given` are that one's arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., tuple[str, tuple[str, ...]]])


class Text(str):
    """A source of one of the families."""

    __slots__ = ("family", "given")
    family: str
    given: tuple[tuple[Any, ...], dict[str, Any]]


def family(function: F) -> F:
    """For functions that write a source, and give its parameter codes with it."""
    name = f"{function.__module__.removeprefix('nbgrad.kernels.')}.{function.__name__}"

    @wraps(function)
    def written(*args: Any, **named: Any) -> tuple[Text, tuple[str, ...]]:
        source, params = function(*args, **named)
        text = Text(source)
        text.family, text.given = name, (args, named)
        return text, params

    return cast(F, written)
