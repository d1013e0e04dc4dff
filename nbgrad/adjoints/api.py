"""`differentiable`: what users call. A function, and beside it its gradients, made for the kinds of arguments that they are asked for.

Promises that nothing is written before the arguments were judged, that arrays which are written share no memory with others, and that a
derivative is wanted of floats only. What a function is for a kind of arguments is made once.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbgrad.adjoints.analyse import POLICIES
from nbgrad.adjoints.ir import Expr, Program, Refused, statements, writes
from nbgrad.adjoints.lower import ArrayOf, Kind, Known, Scalar, TupleOf, lower
from nbgrad.adjoints.ops import kind
from nbgrad.adjoints.reverse import Adjoint
from nbgrad.adjoints.tangent import Tangent, primal
from nbgrad.base.tables import Table
from nbgrad.expr.making import LOCK
from nbgrad.kernels import functions

_KINDS = 256  # of arguments, of one function


@dataclass(eq=False)
class Made:
    """A text, its function as Python runs it and as Numba compiles it, and what its arguments and results are."""

    name: str
    text: str
    program: Program
    helpers: dict[str, Any]
    bars: list[str]  # parameters that are arrays with a bar or a tangent, in their order
    wrt: list[str]
    written: list[str]
    again: Differentiable | None = None

    @functools.cached_property
    def plain(self) -> Callable[..., Any]:
        return functions.plain(self.name, self.text, self.helpers, self.program.name)

    @functools.cached_property
    def compiled(self) -> Any:
        return functions.compiled(self.plain, self.helpers)

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)


def plain_function(f: Any) -> Any:
    """The plain function behind what a program calls, or None if it is none of the user's."""
    if isinstance(f, Differentiable):
        return f.function
    inner = getattr(f, "py_func", None)
    if isinstance(inner, types.FunctionType):
        return inner
    if not isinstance(f, types.FunctionType) or getattr(f, "is_reserve", False) or hasattr(f, "primitive"):
        return None
    return None if (f.__module__ or "").partition(".")[0] in ("numpy", "math") else f


class Differentiable:
    """A plain function with its derivatives; `differentiable` makes it."""

    def __init__(
        self,
        function: Callable[..., Any],
        policy: str = "auto",
        wrt: Sequence[str] | None = None,
        wraparound: bool = True,
    ) -> None:
        if policy not in POLICIES:
            raise ValueError(f"policy must be one of {', '.join(map(repr, POLICIES))}, not {policy!r}")
        plain = plain_function(function)
        if plain is None:
            raise TypeError(f"differentiable() takes a plain function or one of Numba's, not {function!r}")
        self.function: Any = plain
        self.policy, self.wraparound = policy, wraparound
        self.signature = inspect.signature(self.function)
        self.names = list(self.signature.parameters)
        self.wrt = None if wrt is None else self._known_names(wrt)
        self._made: Table[Any, Any] = Table(f"adjoints.api.{self.function.__name__}", _KINDS)
        functools.update_wrapper(self, self.function)

    def __repr__(self) -> str:
        return f"<differentiable {self.function.__name__}{self.signature}>"

    # ------------------------------------------------ arguments

    def _known_names(self, wrt: Sequence[str] | str) -> tuple[str, ...]:
        found = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        for name in found:
            if name not in self.names:
                raise ValueError(f"{self.function.__name__}() has no parameter {name!r}")
        return found

    def _bound(self, args: Sequence[Any], named: dict[str, Any] | None = None) -> list[Any]:
        bound = self.signature.bind(*args, **(named or {}))
        bound.apply_defaults()
        return [bound.arguments[name] for name in self.names]

    def _kinds(self, args: Sequence[Any]) -> tuple[Kind, ...]:
        return tuple(kind_of(a, name) for name, a in zip(self.names, args))

    def _flat(self, args: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for a in args:
            if isinstance(a, tuple):
                found += self._flat(a)
            elif not (a is None or isinstance(a, str) or callable(a)):
                found.append(a)
        return found

    def _lowered(self, kinds: Sequence[Kind]) -> Program:
        return lower(self.function, kinds, plain_function)

    def _wanted(self, program: Program, kinds: Sequence[Kind], wrt: Sequence[str] | None) -> list[str]:
        """The flat parameters that gradients are wanted of."""
        floats = program.float_params()
        if wrt is None:
            return floats
        found = []
        for name in wrt:
            flat = [name] if name in program.params else flat_names(name, kinds[self.names.index(name)])
            mine = [p for p in flat if p in floats]
            if not mine:
                raise TypeError(
                    f"{self.function.__name__}(): {name} is no float, so there is no gradient of it"
                )
            found += mine
        return [p for p in program.params if p in found]

    def _make(self, what: str, kinds: tuple[Kind, ...], wrt: tuple[str, ...] | None) -> Made:
        key = what, kinds, wrt
        found = self._made.get(key)
        if found is None:
            with LOCK:
                found = self._made.get(key)
                if found is None:
                    found = self._made.keep(key, self._written_out(what, kinds, wrt))
        return found

    def _written_out(self, what: str, kinds: tuple[Kind, ...], wrt: tuple[str, ...] | None) -> Made:
        p = self._lowered(kinds)
        wanted = self._wanted(p, kinds, wrt)
        written = [n for n in p.params if n in {writes(s) for s in statements(p.body)}]
        bars: list[str] = []
        if what == "primal":
            name, text = p.name, primal(p, self.wraparound)
        elif what == "tangent":
            tangent = Tangent(p, wanted, self.wraparound)
            name, text = f"{p.name}_tangent", tangent.source()
            bars = tangent.params()
        else:
            adjoint = Adjoint(p, wanted, self.policy, self.wraparound)
            name, text = f"{p.name}_adjoint", adjoint.source()
            bars = adjoint.array_bars()
        return Made(name, text, p, p.constants, bars, wanted, written)

    def _check_apart(self, made: Made, args: Sequence[Any]) -> None:
        """An array that is written is no part of another."""
        if not made.written:
            return
        arrays = [(n, a) for n, a in zip(made.program.params, args) if isinstance(a, np.ndarray)]
        for name in made.written:
            mine = next(a for n, a in arrays if n == name)
            for other, a in arrays:
                if other != name and np.may_share_memory(mine, a):
                    raise ValueError(
                        f"{self.function.__name__}(): {name} is written and shares memory with {other} (pass a copy)"
                    )

    # ------------------------------------------------ calls

    def __call__(self, *args: Any, **named: Any) -> Any:
        given = self._bound(args, named)
        flat = self._flat(given)
        made = self._make("primal", self._kinds(given), None)
        self._check_apart(made, flat)
        return made(*flat)

    def value_and_grad(
        self, *args: Any, wrt: Sequence[str] | str | None = None, argnums: Any = None, **named: Any
    ) -> tuple[Any, Any]:
        """The value, which must be one float, and its gradients."""
        asked = self._asked(wrt, argnums)
        given = self._bound(args, named)
        made = self._make("adjoint", self._kinds(given), asked)
        if not _is_float(made.program):
            raise TypeError(
                f"{self.function.__name__}() gives no single float, so it has no gradient (use vjp, with a seed for each result)"
            )
        values, grads = self._swept(made, given, [1.0])
        return values[0], self._shaped(grads, wrt, argnums)

    def grad(
        self, *args: Any, wrt: Sequence[str] | str | None = None, argnums: Any = None, **named: Any
    ) -> Any:
        """The gradients of a function whose value is one float."""
        return self.value_and_grad(*args, wrt=wrt, argnums=argnums, **named)[1]

    def vjp(
        self,
        *args: Any,
        seeds: Any,
        wrt: Sequence[str] | str | None = None,
        argnums: Any = None,
        **named: Any,
    ) -> tuple[Any, Any]:
        """The results, and the gradients of their products with `seeds`: one for each result, then one for each array of floats that the
        function writes."""
        asked = self._asked(wrt, argnums)
        given = self._bound(args, named)
        made = self._make("adjoint", self._kinds(given), asked)
        listed = list(seeds) if isinstance(seeds, tuple | list) else [seeds]
        values, grads = self._swept(made, given, listed)
        shown = values[0] if made.program.single and values else tuple(values) if values else None
        return shown, self._shaped(grads, wrt, argnums)

    def jvp(self, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """The results and their derivative along `tangents`, one for each argument, None for those that stay."""
        given = self._bound(args)
        if len(tangents) != len(given):
            raise TypeError(f"{len(given)} arguments and {len(tangents)} tangents")
        asked = tuple(n for n, t in zip(self.names, tangents) if t is not None)
        made = self._make("tangent", self._kinds(given), asked)
        flat = self._flat(given)
        moving = {
            p: part
            for n, a, t in zip(self.names, given, tangents)
            if t is not None
            for p, part in zip(flat_names(n, kind_of(a, n)), self._flat([t]))
        }
        values, moved, _ = self._moved(made, flat, moving)
        if made.program.single and values:
            return values[0], moved[0]
        return tuple(values), tuple(moved)

    def _moved(
        self, made: Made, flat: Sequence[Any], moving: Mapping[str, Any]
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """The results, their tangents, and those of the arrays that have one, by the parameters' names."""
        self._check_apart(made, flat)
        arrays: dict[str, Any] = {}
        given: list[Any] = []
        for name, a in zip(made.program.params, flat):
            if name in made.bars:
                t = _like(moving[name], a, f"the tangent of {name}") if name in moving else np.zeros_like(a)
                given.append(t)
                if isinstance(a, np.ndarray):
                    arrays[name] = t
        found = made(*flat, *given)
        listed = list(found) if isinstance(found, tuple) else [] if found is None else [found]
        n = len(made.program.results)
        return listed[:n], listed[n:], arrays

    def hvp(
        self, args: Sequence[Any], vectors: Sequence[Any], wrt: Sequence[str] | str | None = None
    ) -> tuple[Any, ...]:
        """The Hessian times a vector, of which there is a part for each argument, None for those that stay; the value must be one float."""
        given = self._bound(args)
        made = self._make("adjoint", self._kinds(given), self._asked(wrt, None))
        moving: dict[str, Any] = {}
        for n, a, v in zip(self.names, given, vectors):
            parts = flat_names(n, kind_of(a, n))
            moving.update(zip(parts, self._flat([v])) if v is not None else ())
        return tuple(self._curved(made, self._flat(given), moving))

    def _curved(self, made: Made, flat: Sequence[Any], moving: Mapping[str, Any]) -> list[Any]:
        """The tangent of the adjoint along `moving`."""
        p = made.program
        second = derived(made, self)
        bars = {n: np.zeros_like(a) for n, a in zip(p.params, flat) if n in made.bars}
        given = [*map(_copied, flat), *bars.values(), 1.0]
        wrt = tuple(n for n in second.names[:-1] if kind_of(given[second.names.index(n)]).differentiable)
        of = second._make("tangent", second._kinds(given), wrt)
        _, moved, arrays = second._moved(of, given, moving)
        of_bars = dict(zip(bars, [arrays[n] for n in second.names[len(p.params) : -1]]))
        scalars = iter(moved[len(p.results) :])
        return [of_bars[n] if n in bars else next(scalars) for n in made.wrt]

    def jacobian(
        self, *args: Any, wrt: Sequence[str] | str | None = None, argnums: Any = None, **named: Any
    ) -> Any:
        """The derivatives of each number of the results (a scalar or an array, or several) by each of the inputs: of one result, one
        array for each input, the result's shape first."""
        asked = self._asked(wrt, argnums)
        given = self._bound(args, named)
        made = self._make("adjoint", self._kinds(given), asked)
        shapes = [np.shape(v) for v in _listed(self(*[_copied(a) for a in given]))]
        found = []
        for k, shape in enumerate(shapes):
            rows = []
            for i in np.ndindex(*shape):
                seeds = [np.zeros(s) if s else 0.0 for s in shapes]
                if shape:
                    seeds[k][i] = 1.0  # type: ignore[index]
                else:
                    seeds[k] = 1.0
                rows.append(self._swept(made, [_copied(a) for a in given], seeds)[1])
            found.append(
                [np.reshape([r[j] for r in rows], shape + np.shape(g)) for j, g in enumerate(rows[0])]
            )
        shaped = [self._shaped(f, wrt, argnums) for f in found]
        return shaped[0] if made.program.single else tuple(shaped)

    def hessian(self, *args: Any, wrt: Sequence[str] | str | None = None, **named: Any) -> Any:
        """The second derivatives of a function whose value is one float: a row of arrays for each input, or one array for one."""
        given = self._bound(args, named)
        made = self._make("adjoint", self._kinds(given), self._asked(wrt, None))
        flat = self._flat(given)
        inputs = [(n, a) for n, a in zip(made.program.params, flat) if n in made.wrt]
        columns: dict[str, list[list[Any]]] = {n: [] for n, _ in inputs}
        for name, a in inputs:
            for i in np.ndindex(*np.shape(a)):
                vector: Any = np.zeros(np.shape(a))
                vector[i] = 1.0
                columns[name].append(self._curved(made, flat, {name: vector}))
        rows = []
        for k, (_, a) in enumerate(inputs):
            row = []
            for name, b in inputs:
                parts = [c[k] for c in columns[name]]
                stacked = np.stack(parts, axis=-1) if parts else np.zeros((*np.shape(a), 0))
                row.append(stacked.reshape(np.shape(a) + np.shape(b)))
            rows.append(tuple(row))
        return rows[0][0] if isinstance(wrt, str) else tuple(rows)

    # ------------------------------------------------ other functions, and their texts

    def adjoint(self, *kinds: Any, wrt: Sequence[str] | str | None = None) -> Differentiable:
        """`f_adjoint(*params, *bars of float arrays, *seeds) -> (*values, *bars of float scalars)`, for arguments of these kinds:
        values, or types of Numba's. Bars of arrays are added to."""
        return self._derived("adjoint", kinds, wrt)

    def tangent(self, *kinds: Any, wrt: Sequence[str] | str | None = None) -> Differentiable:
        """`f_tangent(*params, *tangents of the float ones) -> (*values, *their tangents)`."""
        return self._derived("tangent", kinds, wrt)

    def _derived(self, what: str, kinds: Sequence[Any], wrt: Any) -> Differentiable:
        return derived(self._make(what, self._kinds(self._bound(kinds)), self._asked(wrt, None)), self)

    def primal_source(self, *kinds: Any) -> str:
        """The function itself, with what it calls written out: what is compiled."""
        return self._make("primal", self._kinds(self._bound(kinds)), None).text

    def adjoint_source(self, *kinds: Any, wrt: Sequence[str] | str | None = None) -> str:
        """The text of `adjoint`."""
        return self._make("adjoint", self._kinds(self._bound(kinds)), self._asked(wrt, None)).text

    def tangent_source(self, *kinds: Any, wrt: Sequence[str] | str | None = None) -> str:
        """The text of `tangent`."""
        return self._make("tangent", self._kinds(self._bound(kinds)), self._asked(wrt, None)).text

    # ------------------------------------------------ helpers

    def _asked(self, wrt: Sequence[str] | str | None, argnums: Any) -> tuple[str, ...] | None:
        if argnums is not None:
            if wrt is not None:
                raise TypeError("wrt names what argnums counts; give one of them")
            counted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
            return self._known_names([self.names[k] for k in counted])
        return self.wrt if wrt is None else self._known_names(wrt)

    def _shaped(self, grads: list[Any], wrt: Any, argnums: Any) -> Any:
        return grads[0] if isinstance(wrt, str) or isinstance(argnums, int) else tuple(grads)

    def _swept(self, made: Made, given: Sequence[Any], seeds: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The values, and the gradients of what is wanted."""
        flat = self._flat(given)
        self._check_apart(made, flat)
        p = made.program
        n = len(p.results)
        outs = [name for name in made.written if name in made.bars]
        if len(seeds) not in (n, n + len(outs)):
            raise TypeError(
                f"{self.function.__name__}() gives {n} results and writes {len(outs)} arrays; {len(seeds)} seeds were given"
            )
        of_outs = dict(zip(outs, seeds[n:]))
        bars = {}
        for name, a in zip(p.params, flat):
            if name in made.bars:
                bars[name] = np.zeros(a.shape, a.dtype)
                if name in of_outs:
                    bars[name][...] = _like(of_outs[name], a, f"the seed of {name}")
        found = made(*flat, *bars.values(), *[_seed(s) for s in seeds[:n]])
        listed = list(found) if isinstance(found, tuple) else [] if found is None else [found]
        scalars = iter(listed[n:])
        grads = [bars[name] if name in p.arrays else next(scalars) for name in made.wrt]
        return listed[:n], grads


def derived(made: Made, of: Differentiable) -> Differentiable:
    """What was made of a function as such a function again."""
    if made.again is None:
        made.again = type(of)(made.plain, of.policy, wraparound=of.wraparound)
    return made.again


def kind_of(a: Any, name: str = "the argument") -> Kind:
    """What an argument, or a type of Numba's or Python's, is for lowering."""
    if isinstance(a, np.ndarray):
        return _array(a.ndim, a.dtype, name)
    if isinstance(a, bool | np.bool_) or a is bool:
        return Scalar("bool")
    if isinstance(a, int | np.integer) or a is int:
        return Scalar("int")
    if isinstance(a, float | np.floating) or a is float:
        return Scalar("float")
    if isinstance(a, tuple):
        fields = getattr(a, "_fields", ())
        return TupleOf(tuple(kind_of(i, f"{name}[{k}]") for k, i in enumerate(a)), tuple(fields))
    if a is None or isinstance(a, str):
        return Known(a)
    if hasattr(a, "bitwidth") and hasattr(a, "name"):  # a type of Numba's
        return Scalar("float" if "float" in a.name else "bool" if a.name.startswith("bool") else "int")
    if hasattr(a, "ndim") and hasattr(a, "dtype") and hasattr(a, "layout"):
        return _array(a.ndim, np.dtype(str(a.dtype)), name)
    if str(a) == "bool":
        return Scalar("bool")
    if isinstance(a, types.FunctionType | Differentiable) or hasattr(a, "py_func"):
        return Known(a)
    raise TypeError(f"{name} is a {type(a).__name__}; numbers, arrays and tuples of them are taken")


def _array(rank: int, dtype: np.dtype[Any], name: str) -> ArrayOf:
    if dtype.kind not in "fiub" or dtype.itemsize > 8 or str(dtype) == "float16":
        raise TypeError(f"{name} is an array of {dtype}; float32, float64, integers and bool are taken")
    if rank == 0:
        raise TypeError(f"{name} is an array without dimensions; pass a number, or an array of one element")
    if not dtype.isnative:
        raise TypeError(f"{name} is an array in another machine's order of bytes")
    return ArrayOf(rank, str(dtype))


def flat_names(name: str, of: Kind) -> list[str]:
    """What the parts of a parameter are called."""
    if isinstance(of, TupleOf):
        labels = of.fields or tuple(map(str, range(len(of.items))))
        return [p for label, k in zip(labels, of.items) for p in flat_names(f"{name}_{label}", k)]
    return [] if isinstance(of, Known) else [name]


def _is_float(p: Program) -> bool:
    """Is one float all that it gives?"""
    found = p.results[0] if len(p.results) == 1 else None
    return isinstance(found, Expr) and kind(found, p.kinds, p.arrays) == "float"


def _like(x: Any, a: Any, name: str) -> Any:
    if not isinstance(a, np.ndarray):
        return float(x)
    found = np.array(x, a.dtype)
    if found.shape != a.shape:
        raise ValueError(f"{name} has shape {found.shape}, and the array {a.shape}")
    return found


def _seed(s: Any) -> Any:
    return float(s) if isinstance(s, bool | int | float | np.generic) else np.asarray(s)


def _copied(a: Any) -> Any:
    if isinstance(a, tuple):
        copies = [_copied(i) for i in a]
        return type(a)(*copies) if hasattr(a, "_fields") else tuple(copies)
    return a.copy() if isinstance(a, np.ndarray) else a


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [] if x is None else [x]


__all__ = ["Differentiable", "Refused"]
