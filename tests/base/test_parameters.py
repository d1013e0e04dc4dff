"""Parameters as the code says them are those that `inspect` finds."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from nbgrad.base.parameters import parameters, required, variadic

FUNCTIONS: dict[str, Callable[..., Any]] = {
    text: eval(f"lambda {text}: 0")
    for text in (
        *(
            "",
            "a",
            "a, b",
            "a, b=1",
            "a=1, b=2",
            "*a",
            "**k",
            "*a, **k",
            "a, *b",
            "a, *b, c",
            "a, *b, c=1, **d",
        ),
        *("a, *, b, c=1", "a, /", "a, /, b", "a, b, /, c, d=1, *e, f, g=2, **h", "a, b=1, /, c=2, *, d"),
    )
}


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def given(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return given


class Callable_:
    def __call__(self, x: float, y: float = 1.0) -> float:
        return x + y


def signed(x: Any, y: Any) -> None: ...


signed.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
FUNCTIONS |= {
    "decorated": decorated(FUNCTIONS["a, *b, c=1, **d"]),
    "an object": Callable_(),
    "a bound method": Callable_().__call__,
    "part of one": functools.partial(FUNCTIONS["a, b"], 1),
    "signed": signed,
    "a builtin": len,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_parameters_are_as_inspect_finds_them(function: Callable[..., Any]) -> None:
    found = inspect.signature(function).parameters
    assert parameters(function) == tuple(found)
    assert required(function) == tuple(
        n for n, p in found.items() if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty
    )
    assert variadic(function) == any(p.kind is p.VAR_POSITIONAL for p in found.values())
