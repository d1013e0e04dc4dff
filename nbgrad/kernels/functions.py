"""Functions of numbers and arrays whose text was generated: compiled by Numba for the arguments that they meet.

Promises `adjoints/` a function that its text decides: `np`, `math`, `u` (an index that is not negative), `reserve` (storage that grows),
`add_dot` and `add_outer` (products that are added), `own_dot` and `own_add_dot` (products without SciPy), `prange`, `add_up` (a sum
that may be taken in any order), `rise` and `fall` (the same of `max` and `min`), `one_by_one` (in a loop that shall be no vectors),
`clear` (an array is zero), `add_whole` (`+=` of a whole array), `own_exp` and others (the library's own, of which loops are made
vectors) and the helpers given stand for themselves in it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import re
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
u = np.uintp


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


def add_dot(a: Any, b: Any, into: Any) -> None:
    """`into += np.dot(a, b)`, by a loop: Numba takes 4 s for an addition of whole arrays. Small products are not worth a call."""
    if into.ndim == 2:
        if a.shape[0] * b.size <= 512:
            _add_rows(a, b, into)
        else:
            found = np.dot(a, b)
            for i in range(into.shape[0]):
                for j in range(into.shape[1]):
                    into[i, j] += found[i, j]
    else:
        found = np.dot(a, b)
        for i in range(into.shape[0]):
            into[i] += found[i]


def add_outer(a: Any, b: Any, into: Any) -> None:
    for i in range(into.shape[0]):
        for j in range(into.shape[1]):
            into[i, j] += a[i] * b[j]


def _add_rows(a: Any, b: Any, into: Any) -> None:
    for i in range(into.shape[0]):
        for k in range(b.shape[0]):
            t = a[i, k]
            for j in range(into.shape[1]):
                into[i, j] += t * b[k, j]


def _add_blocks(a: Any, b: Any, into: Any) -> None:
    """Two rows of `into` and four of b at a time. Blocks of b, 64 high and 128 wide, lie in a room of one width, so that LLVM sees that its
    rows are apart, and that indices are not negative."""
    m, n, depth = a.shape[0], b.shape[1], b.shape[0]
    room = np.empty(64 * 128, a.dtype)
    few = np.empty(2 * 64, a.dtype)
    zero = a.dtype.type(0)
    for first in range(0, depth, 64):
        high = min(64, depth - first)
        fours = (high + 3) // 4
        for left in range(0, n, 128):
            wide = min(128, n - left)
            for k in range(4 * fours):
                for j in range(wide):
                    room[u(128 * k + j)] = b[u(first + k), u(left + j)] if k < high else zero
            for half in range((m + 1) // 2):
                i = 2 * half
                both = i + 1 < m
                for k in range(4 * fours):
                    few[2 * k] = a[i, first + k] if k < high else zero
                    few[2 * k + 1] = a[i + 1, first + k] if k < high and both else zero
                for four in range(fours):
                    k = 512 * four
                    at = 8 * four
                    p0, p1, p2, p3 = few[at], few[at + 2], few[at + 4], few[at + 6]
                    q0, q1, q2, q3 = few[at + 1], few[at + 3], few[at + 5], few[at + 7]
                    for j in range(wide):
                        b0, b1 = room[u(k + j)], room[u(k + 128 + j)]
                        b2, b3 = room[u(k + 256 + j)], room[u(k + 384 + j)]
                        into[u(i), u(left + j)] += p0 * b0 + p1 * b1 + p2 * b2 + p3 * b3
                        if both:
                            into[u(i + 1), u(left + j)] += q0 * b0 + q1 * b1 + q2 * b2 + q3 * b3


def own_add_dot(a: Any, b: Any, into: Any) -> None:
    """`add_dot` where Numba has no BLAS, which it takes from SciPy: for each kind of call Numba sees one of these branches."""
    if a.shape[-1] != b.shape[0]:
        raise ValueError("incompatible array sizes for np.dot(a, b)")
    if a.ndim == 2:
        if b.ndim == 2:
            if b.size <= 64:
                _add_rows(a, b, into)
            else:
                _add_blocks(a, b, into)
        elif a.strides[0] < a.strides[1]:
            for k in range(b.shape[0]):
                for i in range(a.shape[0]):
                    into[i] += a[i, k] * b[k]
        else:
            for i in range(a.shape[0]):
                s = a.dtype.type(0)
                for k in range(b.shape[0]):
                    s += a[i, k] * b[k]
                into[i] += s
    else:
        for k in range(a.shape[0]):
            for j in range(b.shape[1]):
                into[j] += a[k] * b[k, j]


def own_dot(a: Any, b: Any, out: Any = None) -> Any:
    """`np.dot` where Numba has no BLAS."""
    if a.shape[-1] != b.shape[0]:
        raise ValueError("incompatible array sizes for np.dot(a, b)")
    if a.ndim == 2:
        if b.ndim == 2:
            made = np.empty((a.shape[0], b.shape[1]), a.dtype) if out is None else out
            for i in range(made.shape[0]):
                for j in range(made.shape[1]):
                    made[i, j] = 0
        else:
            made = np.empty(a.shape[0], a.dtype) if out is None else out
            for i in range(made.shape[0]):
                made[i] = 0
    elif b.ndim == 2:
        made = np.empty(b.shape[1], a.dtype) if out is None else out
        for i in range(made.shape[0]):
            made[i] = 0
    else:
        s = a.dtype.type(0)
        for k in range(a.shape[0]):
            s += a[k] * b[k]
        return s
    own_add_dot(a, b, made)
    return made


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


def add_whole(x: Any, into: Any) -> None:
    """`into += x` of an array of its shape, or of a number."""
    if np.ndim(x) and np.shape(x) != into.shape:
        raise ValueError("a seed of another shape than its result")
    into += x


_FOLDS = (add_up, rise, fall, one_by_one, clear, add_whole)  # which Numba sees as `fold` has them
_HELPERS = (reserve, own_dot, add_dot, add_outer, own_add_dot)

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
    scope = {"np": np, "math": math, "u": u, "prange": prange}
    scope |= {f.__name__: f for f in (*_FOLDS, *_HELPERS)}
    scope |= {f"own_{name}": getattr(math, name) for name in ELEMENTARY}
    scope |= helpers
    return source.function(name, text, scope, "gradients of plain functions", made_from)


def _called_by(f: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """A helper, and those of its own folder that it calls, by name."""
    found = {f.__name__: f}
    for g in _parts_of(f).values():
        if g.__name__ not in found:
            found |= _called_by(g)
    return found


def _parts_of(f: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    if not (f.__module__ or "").startswith("nbgrad."):  # what was written for a call has its own
        return {}
    named = {n: f.__globals__.get(n) for n in f.__code__.co_names}
    return {n: g for n, g in named.items() if isinstance(g, types.FunctionType) and _home(g) == _home(f)}


def _home(f: Callable[..., Any]) -> str:
    return (f.__module__ or "").rpartition(".")[0]


def _as_seen(helper: Callable[..., Any]) -> Any:
    """As Numba is to see it."""
    found = _helpers.get(helper)
    if found is None:
        from numba import njit

        outside = _placed(helper)
        if outside is None:
            found = njit(**_INNER)(_with_parts(helper))
        else:
            from nbgrad.kernels.cpu.outside import stand_in

            found = stand_in(helper.__name__, *outside, helper.__code__.co_argcount)
        _helpers.keep(helper, found)
    return found


def _with_parts(helper: Callable[..., Any]) -> Callable[..., Any]:
    parts = {n: _as_seen(g) for n, g in _parts_of(helper).items()}
    if not parts:
        return helper
    scope = {**helper.__globals__, **parts}
    return types.FunctionType(helper.__code__, scope, helper.__name__, helper.__defaults__)


@cached(64)
def _placed(helper: Callable[..., Any]) -> tuple[str, int] | None:
    """Of a helper that says that it is `apart`, of float64 matrices: its symbol, and where it stands, once what it calls does."""
    if not hasattr(helper, "apart"):
        return None
    from nbgrad.kernels import entries

    called = _called_by(helper)
    for g in called.values():
        if g is not helper:
            _placed(g)
    texts = {n: inspect.getsource(f) for n, f in called.items()}
    codes = ["float64:2A"] * helper.__code__.co_argcount
    name = helper.__name__
    with suppress(entries.Refused, OSError):
        return entries.outside(name, texts[name], lambda: _with_parts(helper), texts, codes)
    return None


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
                helpers |= {f.__name__: f for f in _HELPERS if re.search(rf"\b{f.__name__}\(", self.text)}
                texts = {n: inspect.getsource(f) for h in helpers.values() for n, f in _called_by(h).items()}
                for helper in helpers.values():
                    _placed(helper)
                return entries.entry(self.function.__name__, self.text, self._seen, texts, codes)
        return self.jitted

    @functools.cached_property
    def _own(self) -> dict[str, Any]:
        return {f"own_{name}": elementary(name) for name in ELEMENTARY if f"own_{name}(" in self.text}

    def _seen(self) -> Callable[..., Any]:
        """As Numba is to see it: what it calls is compiled as well."""
        from numba import prange

        scope = {**self.function.__globals__, "prange": prange}
        folds = [f.__name__ for f in _FOLDS if f"{f.__name__}(" in self.text]
        if folds:
            from nbgrad.kernels.cpu import fold

            scope |= {name: getattr(fold, name) for name in folds}
        if self._own:
            from nbgrad.kernels.cpu import vmath

            for helper in self._own.values():
                helper.__globals__.update({name: getattr(vmath, name) for name in HELPERS})
        every: dict[str, Any] = {f.__name__: f for f in _HELPERS}
        for name, helper in {**every, **self.helpers, **self._own}.items():
            scope[name] = _as_seen(helper)
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
