"""Functions of numbers and arrays whose text was generated: compiled by Numba for the arguments that they meet.

Promises `adjoints/` a function that its text decides: `np`, `math`, `u` (an index that is not negative), `reserve` (storage that grows),
`own_dot` (products without SciPy), `prange`, `add_up` (a sum that may be taken in any order), `rise` and `fall` (the same of `max` and
`min`), `one_by_one` (in a loop that shall be no vectors), `clear` (an array is zero), `own_exp` and others (the library's own, of which
loops are made vectors) and the helpers given stand for themselves in it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from nbgrad.base import source
from nbgrad.base.tables import Table, cached
from nbgrad.expr import emit, node
from nbgrad.expr.making import LOCK, uninterrupted
from nbgrad.expr.node import PRIMS
from nbgrad.kernels import templates
from nbgrad.kernels.vmath import HELPERS

_OPTIONS = {
    "error_model": "numpy"
}  # a division by zero is IEEE's, as nothing may raise where lanes are masked
_INNER = {
    **_OPTIONS,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # of what compiled code alone calls
_helpers: Table[Any, Any] = Table("kernels.functions.helpers", 256)


def reserve(a: Any, n: int) -> Any:
    """The array with room for n values at least: itself, or a longer copy."""
    if a.shape[0] >= n:
        return a
    longer = np.empty(max(n, 2 * a.shape[0] + 16), a.dtype)
    for k in range(
        a.shape[0]
    ):  # a slice would bring the text of what it raises, which takes a second to compile
        longer[k] = a[k]
    return longer


reserve.is_reserve = True  # type: ignore[attr-defined]


def own_dot(a: Any, b: Any, out: Any = None) -> Any:
    """`np.dot` where Numba has no BLAS, which it takes from SciPy: for each kind of call Numba sees one of these branches."""
    if a.shape[-1] != b.shape[0]:
        raise ValueError("incompatible array sizes for np.dot(a, b)")
    if a.ndim == 2:
        if b.ndim == 2:
            if out is None:
                out = np.empty((a.shape[0], b.shape[1]), a.dtype)
            for i in range(a.shape[0]):
                for j in range(b.shape[1]):
                    out[i, j] = 0
                for k in range(b.shape[0]):
                    t = a[i, k]
                    for j in range(b.shape[1]):
                        out[i, j] += t * b[k, j]
            return out
        if out is None:
            out = np.empty(a.shape[0], a.dtype)
        for i in range(a.shape[0]):
            s = a.dtype.type(0)
            for k in range(b.shape[0]):
                s += a[i, k] * b[k]
            out[i] = s
        return out
    if b.ndim == 2:
        if out is None:
            out = np.empty(b.shape[1], a.dtype)
        for j in range(b.shape[1]):
            out[j] = 0
        for k in range(b.shape[0]):
            for j in range(b.shape[1]):
                out[j] += a[k] * b[k, j]
        return out
    s = a.dtype.type(0)
    for k in range(a.shape[0]):
        s += a[k] * b[k]
    return s


@cached(1)
def has_blas() -> bool:
    try:
        importlib.import_module("scipy.linalg.cython_blas")
    except ImportError:
        return False
    return True


def prange(*args: int) -> range:
    """Numba's, where Python runs it: turns of which threads may take parts."""
    return range(*args)


def add_up(total: Any, x: Any) -> Any:
    return total + x


def rise(top: Any, x: Any) -> Any:
    return max(top, x)


def fall(bottom: Any, x: Any) -> Any:
    return min(bottom, x)


def one_by_one() -> None:
    """That the loop around is of few turns."""


def clear(a: Any) -> None:
    """All zero, without what `np.zeros` compiles for each number of dimensions."""
    a[...] = 0


_FOLDS = (add_up, rise, fall, one_by_one, clear)  # which Numba sees as `fold` has them

# By the name that `math` has for them; each is a text without branches (`kernels/texts`).
ELEMENTARY = {
    **{
        name: name
        for name in ("exp", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "atan", "sin", "cos")
    },
}


@cached(32)
def elementary(name: str) -> Callable[..., Any]:
    """A function of a float64 as the library computes it, as Numba is to see it; where Python runs the text, it is `math`'s."""
    templates.vmath_helpers()  # which tells `emit` the texts
    written = emit.emit([PRIMS[ELEMENTARY[name]].build([node.var("x")])], "cpu", "f8", {"x": "x"})
    own = f"own_{name}"
    text = source.text_of([f"def {own}(x):", [*written.lines, f"return {written.results[0]}"]])
    scope: dict[str, Any] = {"math": math, "np": np, "inf": math.inf, "nan": math.nan, "F": np.float64}
    return source.function(own, text, scope, "elementary functions of plain functions", name)


def plain(name: str, text: str, helpers: Mapping[str, Any], made_from: str) -> Callable[..., Any]:
    """The function as Python runs it."""
    scope = {"np": np, "math": math, "u": np.uintp, "reserve": reserve, "own_dot": own_dot, "prange": prange}
    scope |= {f.__name__: f for f in _FOLDS}
    scope |= {f"own_{name}": getattr(math, name) for name in ELEMENTARY}
    scope |= helpers
    return source.function(name, text, scope, "gradients of plain functions", made_from)


class Compiled:
    """A function with a text, compiled for the arguments that it meets: kept on disk, or, where that cannot be, a function of Numba's."""

    def __init__(self, function: Callable[..., Any], text: str, helpers: Mapping[str, Any]) -> None:
        self.function, self.text, self.helpers = function, text, helpers
        self._entries: Table[tuple[str, ...], Any] = Table(f"kernels.functions.{function.__name__}", 64)
        self._latest: Any = None  # the entry that was called last

    def __call__(self, *args: Any) -> Any:
        latest = self._latest
        if latest is not None:
            found = latest.quick(*args)
            if found is not latest.OTHER:
                return found
        entry = self._entry(args)
        self._latest = entry if hasattr(entry, "quick") else None
        return entry(*args)

    def in_parts(self, n: int, *args: Any) -> bool:
        """`self(0, n, *args)`, on as many threads as there are, each with parts of 0..n; or False, and nothing has been done."""
        entry = self._entry((0, n, *args))
        return hasattr(entry, "in_parts") and bool(entry.in_parts(n, args))

    def _entry(self, args: Sequence[Any]) -> Any:
        codes = tuple([_code(a) for a in args])
        found = self._entries.get(codes)
        if found is not None:
            return found
        with uninterrupted(), LOCK:
            return self._entries.get(codes) or self._entries.keep(codes, self._made(codes))

    def _made(self, codes: tuple[str, ...]) -> Any:
        if "" not in codes:
            from nbgrad.kernels import entries

            with suppress(entries.Refused, OSError):
                helpers = {**self.helpers, **self._own}
                helpers |= {f.__name__: f for f in (reserve, own_dot) if f"{f.__name__}(" in self.text}
                texts = {name: inspect.getsource(helper) for name, helper in helpers.items()}
                return entries.entry(self.function.__name__, self.text, self._seen, texts, codes)
        return self.jitted

    @functools.cached_property
    def _own(self) -> dict[str, Any]:
        return {f"own_{name}": elementary(name) for name in ELEMENTARY if f"own_{name}(" in self.text}

    def _seen(self) -> Callable[..., Any]:
        """As Numba is to see it: what it calls is compiled as well."""
        from numba import njit, prange

        scope = {**self.function.__globals__, "prange": prange}
        folds = [f.__name__ for f in _FOLDS if f"{f.__name__}(" in self.text]
        if folds:
            from nbgrad.kernels.cpu import fold

            scope |= {name: getattr(fold, name) for name in folds}
        if self._own:
            from nbgrad.kernels.cpu import vmath

            for helper in self._own.values():
                helper.__globals__.update({name: getattr(vmath, name) for name in HELPERS})
        for name, helper in {"reserve": reserve, "own_dot": own_dot, **self.helpers, **self._own}.items():
            scope[name] = _helpers.get(helper) or _helpers.keep(helper, njit(**_INNER)(helper))
        f = self.function
        return types.FunctionType(f.__code__, scope, f.__name__, f.__defaults__)

    @functools.cached_property
    def jitted(self) -> Any:
        """A function of Numba's, which compiled code may call."""
        with uninterrupted(), LOCK:
            from numba import njit

            return njit(**_OPTIONS)(self._seen())


_DTYPES = {
    np.dtype(name): name
    for name in ("float64", "float32", "bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))
}


def _code(a: Any) -> str:
    """What `entries.entry` is told of an argument; nothing where it is none of what that takes."""
    of = type(a)
    if of is np.ndarray:
        flags = a.flags
        name = _DTYPES.get(a.dtype)
        if name is None or not flags.aligned:
            return ""
        return f"{name}:{a.ndim}{'C' if flags.c_contiguous else 'F' if flags.f_contiguous else 'A'}"
    if of is float:
        return "d"
    if of is bool or isinstance(a, np.bool_):
        return "?"
    if isinstance(a, int | np.integer):
        return "q"
    return "d" if isinstance(a, float | np.floating) else ""
