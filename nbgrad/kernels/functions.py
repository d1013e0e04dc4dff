"""Functions of numbers and arrays whose text was generated: compiled by Numba for the arguments that they meet.

Promises `adjoints/` a function that its text decides: `np`, `math`, `u` (an index that is not negative), `reserve` (storage that grows) and
the helpers given stand for themselves in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nbgrad.base import source
from nbgrad.base.tables import Table
from nbgrad.expr.making import LOCK, uninterrupted

_OPTIONS = {
    "error_model": "numpy"
}  # a division by zero is IEEE's, as nothing may raise where lanes are masked
_helpers: Table[Any, Any] = Table("kernels.functions.helpers", 256)


def reserve(a: Any, n: int) -> Any:
    """The array with room for n values at least: itself, or a longer copy."""
    if a.shape[0] >= n:
        return a
    longer = np.empty(max(n, 2 * a.shape[0] + 16), a.dtype)
    longer[: a.shape[0]] = a
    return longer


reserve.is_reserve = True  # type: ignore[attr-defined]


def plain(name: str, text: str, helpers: Mapping[str, Any], made_from: str) -> Callable[..., Any]:
    """The function as Python runs it."""
    scope = {"np": np, "math": math, "u": np.uintp, "reserve": reserve, **helpers}
    return source.function(name, text, scope, "gradients of plain functions", made_from)


def compiled(function: Callable[..., Any], helpers: Mapping[str, Any]) -> Any:
    """The same as a function of Numba's, which compiles it for the types of its arguments when it is called."""
    import types

    with uninterrupted(), LOCK:
        from numba import njit

        scope = dict(function.__globals__)
        for name, helper in {"reserve": reserve, **helpers}.items():
            scope[name] = _helpers.get(helper) or _helpers.keep(helper, njit(**_OPTIONS)(helper))
        again = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        return njit(**_OPTIONS)(again)
