"""`differentiable`: what users call. A function, and beside it its gradients, made for the kinds of arguments that they are asked for.

Promises that nothing is written before the arguments were judged, that arrays which are written share no memory with others, and that a
derivative is wanted of floats only. What a function is for a kind of arguments is made once.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nbgrad.adjoints import draws, methods, quick
from nbgrad.adjoints.analyse import POLICIES, Policy
from nbgrad.adjoints.fresh import written_first
from nbgrad.adjoints.held import Held, Memory
from nbgrad.adjoints.ir import Expr, Form, Program, Refused, Several, arranged, joined, statements, writes
from nbgrad.adjoints.kinds import (
    as_list,
    as_seed,
    complex_names,
    copied,
    each_seed,
    flat_names,
    kind_of,
    laps,
    like,
    names_given,
    parts_of,
    stays,
    told_by,
)
from nbgrad.adjoints.lower import Kind, PartialOf, TupleOf, lower
from nbgrad.adjoints.ops import kind
from nbgrad.adjoints.reverse import Adjoint
from nbgrad.adjoints.room import Seen
from nbgrad.adjoints.tangent import Tangent, primal
from nbgrad.adjoints.text import Text
from nbgrad.base.tables import Table
from nbgrad.expr.making import LOCK
from nbgrad.kernels import functions

_KINDS = 256  # of arguments, of one function
FLOATS = ""  # before names: gradients are wanted of those that are floats


@dataclass(eq=False)
class Made:
    """A text, its function as Python runs it and as Numba compiles it, and what its arguments and results are."""

    name: str
    text: Text
    program: Program
    helpers: dict[str, Any]
    bars: list[str]  # parameters that are arrays with a bar or a tangent, in their order
    wrt: list[str]
    written: list[str]
    asked: list[int]  # where what was asked for, in that order, stands in `wrt`
    pairs: dict[str, str] = field(
        default_factory=dict
    )  # parameters that are imaginary parts, by the real ones
    again: Differentiable | None = None
    each: dict[Any, Differentiable] = field(default_factory=dict)  # loops around it

    @functools.cached_property
    def bare(self) -> bool:
        """Is what the function gives what its text returns?"""
        form = self.program.form
        if not isinstance(form, Several):
            return True
        return form.of is tuple and len(form.parts) > 1 and form.parts == tuple(range(len(form.parts)))

    @functools.cached_property
    def plain(self) -> Callable[..., Any]:
        return functions.plain(self.name, self.text, self.helpers, self.program.name)

    @functools.cached_property
    def compiled(self) -> Any:
        if self.text.dealt:
            from nbgrad.adjoints.parallel import cut

            pieces = cut(self.name, self.text, self.helpers)
            if pieces is not None:
                return pieces
        return quick.compiled(self.name, self.text, self.text.known, self.helpers, self.program.name)

    @functools.cached_property
    def fresh(self) -> tuple[Made, frozenset[str]]:
        """The adjoint for which some parameters' bars, which are named, may hold anything."""
        p = self.program
        pairs = zip(self.text.params[len(p.params) :], self.bars)
        bars = {bar: name for bar, name in pairs if name not in self.written}  # as those begin from seeds
        text, first = written_first(self.name, self.text, bars)
        return replace(self, text=text) if first else self, frozenset(bars[bar] for bar in first)

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)


def plain_function(f: Any) -> Any:
    """The plain function behind what a program calls, or None if it is none of the user's."""
    if isinstance(f, Differentiable):
        return f.function if f.partial is None and f.owner is None else None
    inner = getattr(f, "py_func", None)
    if isinstance(inner, types.FunctionType):
        return inner
    if (
        not isinstance(f, types.FunctionType)
        or getattr(f, "is_reserve", False)
        or hasattr(f, "primitive")
        or hasattr(f, "formula")
    ):
        return None
    return None if (f.__module__ or "").partition(".")[0] in ("numpy", "math") else f


class Differentiable:
    """A plain function with its derivatives; `differentiable` makes it."""

    def __init__(
        self,
        function: Callable[..., Any],
        policy: Policy = "auto",
        wrt: Sequence[str] | None = None,
        wraparound: bool = True,
    ) -> None:
        counted = isinstance(policy, tuple) and len(policy) == 2 and policy[0] in ("steps", "revolve")
        if not (counted and isinstance(policy[1], int) and policy[1] > 0) and policy not in POLICIES:
            raise ValueError(
                f"policy must be one of {', '.join(map(repr, POLICIES))}, or ('steps', turns), or "
                f"('revolve', copies), not {policy!r}"
            )
        # What gives some of the arguments: a partial, whose own are looked at anew at each call, and the object of a method.
        self.partial: functools.partial[Any] | None = (
            function if isinstance(function, functools.partial) else None
        )
        self.owner: Any = None
        of = function.func if isinstance(function, functools.partial) else function
        if isinstance(of, Differentiable) and of.partial is None:
            of, self.owner = of.function, of.owner
        elif isinstance(of, types.MethodType):
            of, self.owner = methods.of_attributes(plain_function(of.__func__)), of.__self__
        plain = plain_function(of)
        if plain is None:
            raise TypeError(f"differentiable() takes a plain function or one of Numba's, not {function!r}")
        self.function: Any = plain
        self._bindable: Differentiable | None = None  # what is taken from an object, without the object
        self.policy, self.wraparound = policy, wraparound
        self._seen: Seen = {}
        self._twins: list[
            tuple[int, int]
        ] = []  # of what was derived: where an array stands, and its bar or tangent
        self.signature = inspect.signature(self.function)
        self.names = list(self.signature.parameters)
        self.wrt = None if wrt is None else self._known_names(wrt)
        self._made: Table[Any, Any] = Table(f"adjoints.api.{self.function.__name__}", _KINDS)
        self._quick: Table[Any, Made] = Table(f"adjoints.api.{self.function.__name__}.quick", _KINDS)
        functools.update_wrapper(self, self.function)
        if self._gives_some:
            open_now = [p for p in self.signature.parameters.values() if p.name not in self._given_names()]
            self.__signature__ = self.signature.replace(parameters=open_now)

    def __repr__(self) -> str:
        return f"<differentiable {self.function.__name__}{self.signature}>"

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """In a class it is a method: attributes that it reads of the object are arguments which the object gives."""
        if owner is None:
            return self
        if self._bindable is None:
            if self._gives_some:
                return self
            made = type(self)(methods.of_attributes(self.function), self.policy, wraparound=self.wraparound)
            made.wrt = None if self.wrt is None else made._known_names(self.wrt)
            self._bindable = made
        bound = object.__new__(type(self))
        bound.__dict__.update(self._bindable.__dict__, owner=owner)
        return bound

    # ------------------------------------------------ arguments

    @property
    def _gives_some(self) -> bool:
        """Are there arguments that a call is not given?"""
        return self.partial is not None or self.owner is not None

    def _given_first(self) -> tuple[Any, ...]:
        """The arguments that stand before those of a call."""
        own: tuple[Any, ...] = ()
        if self.owner is not None:
            own = tuple([methods.attribute(self.function, self.owner, n) for n in self.function.attributes])
        return own if self.partial is None else (*own, *self.partial.args)

    def _given_names(self) -> set[str]:
        first = len(self.function.attributes) if self.owner is not None else 0
        if self.partial is None:
            return {*self.names[:first]}
        return {*self.names[: first + len(self.partial.args)], *self.partial.keywords}

    def as_partial(self) -> functools.partial[Any] | None:
        """The function with those of its arguments that it has already, if it has any."""
        if not self._gives_some:
            return None
        return functools.partial(
            self.function, *self._given_first(), **(self.partial.keywords if self.partial else {})
        )

    def _known_names(self, wrt: Sequence[str] | str) -> tuple[str, ...]:
        found = (wrt,) if isinstance(wrt, str) else tuple(wrt)
        own = getattr(self.function, "attributes", {})
        found = tuple([own.get(name, name) for name in found])
        for name in found:
            whose, dot, _ = name.partition(".")  # of a method, before it is taken from an object
            if name not in self.names and not (dot and whose in self.names[:1]):
                raise ValueError(f"{self.function.__name__}() has no parameter {name!r}")
        return found

    def _bound(self, args: Sequence[Any], named: dict[str, Any] | None = None) -> list[Any]:
        if self._gives_some:
            args = (*self._given_first(), *args)
            named = {**self.partial.keywords, **(named or {})} if self.partial is not None else named
        if not named and len(args) == len(self.names):
            return list(args)
        bound = self.signature.bind(*args, **(named or {}))
        bound.apply_defaults()
        return [bound.arguments[name] for name in self.names]

    def _kinds(self, args: Sequence[Any]) -> tuple[Kind, ...]:
        return tuple(kind_of(a, name) for name, a in zip(self.names, args))

    def _flat(self, args: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for a in args:
            if (parts := parts_of(a)) is not None:
                found += self._flat(parts)
            elif not stays(a):
                found.append(a)
        return found

    def _lowered(self, kinds: Sequence[Kind], drawing: str = draws.GIVEN) -> Program:
        return lower(self.function, kinds, plain_function, self._seen, drawing)

    def _with_drawn(self, made: Made, given: Sequence[Any], flat: Sequence[Any]) -> Sequence[Any]:
        """The arguments, and what np.random gives in a run on copies of them."""
        if not made.program.drawn:
            return flat
        given = [copied(a) for a in given]
        of = self._make("record", self._kinds(given), None)
        return [*flat, as_list(of.compiled(*self._flat(given)))[-1]]

    def _own_names(self, program: Program, kinds: Sequence[Kind]) -> dict[str, str]:
        """What the parts of parameters are called in the program, where `u`, for one, is a function."""
        given = [n for name, k in zip(self.names, kinds) for n in flat_names(name, k)]
        return dict(zip(given, program.params))

    def _wanted(self, program: Program, kinds: Sequence[Kind], wrt: Sequence[str] | None) -> list[str]:
        """The flat parameters that gradients are wanted of: those that a call gives, where none are named."""
        floats, own = program.float_params(), self._own_names(program, kinds)
        if wrt is None or wrt[:1] == (FLOATS,):
            of = zip(self.names, kinds)
            away = {
                own[p]
                for n, k in of
                for p in (flat_names(n, k) if wrt is not None and n not in wrt else names_given(n, k))
            }
            return [p for p in floats if p not in away]
        found = [p for name in wrt for p in self._parts(program, kinds, name)]
        return [p for p in program.params if p in found]

    def _parts(self, program: Program, kinds: Sequence[Kind], name: str) -> list[str]:
        """The flat parameters of floats that one parameter is, a tuple each of its own."""
        floats, own = program.float_params(), self._own_names(program, kinds)
        flat = flat_names(name, kinds[self.names.index(name)]) if name in self.names else [name]
        found = [p for p in (own.get(n, n) for n in flat) if p in floats]
        if not found:
            raise TypeError(f"{self.function.__name__}(): {name} is no float, so there is no gradient of it")
        return found

    def _asked_order(
        self, program: Program, kinds: Sequence[Kind], wrt: Sequence[str] | None, wanted: list[str]
    ) -> list[int]:
        if wrt is None or wrt[:1] == (FLOATS,):
            return [*range(len(wanted))]
        return [wanted.index(p) for name in wrt for p in self._parts(program, kinds, name)]

    def _made_for(
        self, what: str, given: Sequence[Any], wrt: tuple[str, ...] | None
    ) -> tuple[Made, Sequence[Any]]:
        """What is made for these arguments, and they, tuples taken apart."""
        key = what, wrt, *map(told_by, given)
        found = self._quick.get(key)
        if found is not None:
            return found, given
        found, flat = self._make(what, self._kinds(given), wrt), self._flat(given)
        if None not in key[2:] and len(flat) == len(given) and not found.program.drawn:
            self._quick.keep(key, found)
        return found, self._with_drawn(found, given, flat)

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
        p = self._lowered(kinds, {"primal": draws.DIRECT, "record": draws.RECORD}.get(what, draws.GIVEN))
        wanted = self._wanted(p, kinds, wrt)
        written = [n for n in p.params if n in {writes(s) for s in statements(p.body)}]
        bars: list[str] = []
        floats: Iterable[str] = ()
        if what in ("primal", "record", "given"):
            name, text = p.name, primal(p, self.wraparound)
        elif what in ("tangent", "tangent alone"):
            tangent = Tangent(p, wanted, self.wraparound, values=what == "tangent")
            name, text = f"{p.name}_tangent", tangent.source()
            bars = tangent.params()
        elif what == "memory":
            held = Held(p, wanted, self.policy, self.wraparound)
            name, text = f"{p.name}_memory", held.source()
            bars = held.array_bars()
        else:
            adjoint = Adjoint(p, wanted, self.policy, self.wraparound)
            name, text = f"{p.name}_adjoint", adjoint.source()
            bars = adjoint.array_bars()
            floats = adjoint.bars.values()
        if what != "memory":
            text.known = quick.known(p, floats, text)
        order = self._asked_order(p, kinds, wrt, wanted)
        own = self._own_names(p, kinds)
        pairs = {
            own[re]: own[im] for n, k in zip(self.names, kinds) for re, im in complex_names(n, k).items()
        }
        return Made(name, text, p, p.constants, bars, wanted, written, order, pairs)

    def _check_apart(self, made: Made, args: Sequence[Any]) -> None:
        """An array that is written is no part of another, nor twice the same number; a bar lies as what it is of."""
        for of, bar in self._twins:
            a, g = args[of], args[bar]
            if np.shape(a) != np.shape(g):
                raise ValueError(
                    f"{self.names[bar]} has shape {np.shape(g)}, and {self.names[of]} {np.shape(a)}"
                )
            if isinstance(g, np.ndarray) and g.dtype.kind != "f":
                raise TypeError(f"{self.names[bar]} is an array of {g.dtype}; float32 and float64 are taken")
        if not made.written:
            return
        arrays = [(n, a) for n, a in zip(made.program.params, args) if isinstance(a, np.ndarray)]
        for name in made.written:
            mine = next(a for n, a in arrays if n == name)
            if not mine.flags.writeable:
                raise ValueError(f"{self.function.__name__}(): {name} is written and read-only")
            if laps(mine):
                raise ValueError(
                    f"{self.function.__name__}(): {name} is written and has elements that share memory (pass a copy)"
                )
            for other, a in arrays:
                one = made.pairs.get(name) == other or made.pairs.get(other) == name  # whose parts they are
                if other != name and not one and np.may_share_memory(mine, a):
                    raise ValueError(
                        f"{self.function.__name__}(): {name} is written and shares memory with {other} (pass a copy)"
                    )

    # ------------------------------------------------ calls

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._value(self._bound(args, named))

    def _value(self, given: Sequence[Any]) -> Any:
        made, flat = self._made_for("primal", given, None)
        self._check_apart(made, flat)
        found = made.compiled(*flat)
        return found if made.bare else arranged(made.program.form, as_list(found))

    def _results(self, given: Sequence[Any]) -> list[Any]:
        """The results, one after another, of copies of the arguments."""
        made, flat = self._made_for("primal", [copied(a) for a in given], None)
        self._check_apart(made, flat)
        return as_list(made.compiled(*flat))

    def value_and_grad(
        self, *args: Any, wrt: Sequence[str] | str | None = None, argnums: Any = None, **named: Any
    ) -> tuple[Any, Any]:
        """The value, which must be one float, and its gradients."""
        given = self._bound(args, named)
        made, flat = self._made_for("adjoint", given, self._asked(wrt, argnums))
        if not _is_float(made.program):
            raise TypeError(
                f"{self.function.__name__}() gives no single float, so it has no gradient (use vjp, with a seed for each result)"
            )
        values, grads = self._swept(made, flat, [1.0])
        return values[0], self._shaped(made, grads, wrt, argnums)

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
        """The results, and the gradients of their products with `seeds`: one for each result, a tuple for one that is a tuple, then one for
        each array of floats that the function writes; None for what does not count."""
        given = self._bound(args, named)
        made, flat = self._made_for("adjoint", given, self._asked(wrt, argnums))
        listed = each_seed(made.program.form, seeds)
        n = len(made.program.results)
        if made.pairs:
            listed[n:] = self._seeds_of_parts(made, listed[n:])
        self._check_seeds(given, listed)
        values, grads = self._swept(made, flat, listed)
        return arranged(made.program.form, values), self._shaped(made, grads, wrt, argnums)

    def _seeds_of_parts(self, made: Made, seeds: Sequence[Any]) -> list[Any]:
        """Those of written arrays, of complex numbers as those of their parts."""
        if not seeds:
            return []
        found: list[Any] = []
        given, outs = iter(seeds), [name for name in made.written if name in made.bars]
        for k, name in enumerate(outs):
            if k and made.pairs.get(outs[k - 1]) == name:
                continue
            s = next(given, None)
            if outs[k + 1 : k + 2] == [made.pairs.get(name)]:
                found += [None, None] if s is None else [np.real(s), np.imag(s)]
            else:
                found.append(s)
        return [*found, *given]

    def _check_seeds(self, given: Sequence[Any], seeds: Sequence[Any]) -> None:
        """What a seed that is an array is of is known from the value alone, and the adjoint reads all of it."""
        if not any(np.ndim(s) for s in seeds):
            return
        for k, (r, s) in enumerate(zip(self._results(given), seeds)):
            if np.ndim(s) and np.shape(s) != np.shape(r):
                raise ValueError(
                    f"the seed of result {k} has shape {np.shape(s)}, and the result {np.shape(r)}"
                )

    def jvp(self, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """The results and their derivative along `tangents`, one for each argument, None for those that stay; then those of the arrays of
        floats that the function writes."""
        given = self._bound(args)
        tangents = self._aligned(args, tangents)
        asked = tuple(n for n, t in zip(self.names, tangents) if t is not None)
        made = self._make("tangent", self._kinds(given), asked)
        flat = self._with_drawn(made, given, self._flat(given))
        values, moved, arrays = self._moved(made, flat, self._moving(made.program, given, tangents))
        form = made.program.form
        names = [n for n in made.written if n in arrays]
        written = [arrays[n] for n in names]
        if made.pairs:
            written = _of_complex(made, names, written)
        if form is None:
            return (), tuple(written)
        along = arranged(form, moved)
        if written:
            several = isinstance(form, Several) and form.of is not complex
            along = (*(along if several else (along,)), *written)
        return arranged(form, values), along

    def _aligned(self, args: Sequence[Any], vectors: Sequence[Any]) -> Sequence[Any]:
        """One for each parameter, where some arguments are given before the call or have defaults."""
        if len(vectors) != len(args) and (self._gives_some or len(vectors) != len(self.names)):
            raise TypeError(f"{len(args)} arguments and {len(vectors)} tangents")
        of = dict(zip(self._positional(), vectors))
        return [of.get(n) for n in self.names]

    def _moving(self, program: Program, given: Sequence[Any], tangents: Sequence[Any]) -> dict[str, Any]:
        """The tangents by the flat parameters that they are of; what has none stays."""
        own = self._own_names(program, self._kinds(given))
        found: dict[str, Any] = {}

        def part(name: str, a: Any, t: Any) -> None:
            if t is None:
                return
            inner = parts_of(a)
            if not inner:
                if name in own:
                    found[own[name]] = t
                return
            kind = kind_of(a, name)
            assert isinstance(kind, PartialOf | TupleOf)  # as it has parts
            if isinstance(kind, TupleOf) and kind.of is complex:
                t = np.asarray(t, complex)
            parts = [t.get(k) for k in a] if isinstance(a, dict) and isinstance(t, dict) else parts_of(t)
            if parts is None or len(parts) != len(inner) or (isinstance(t, dict) and t.keys() - set(a)):
                raise TypeError(f"{name} has {len(inner)} parts, and its tangent is {t!r}")
            for label, x, y in zip(kind.labels, inner, parts):
                part(f"{name}_{label}", x, y)

        for name, a, t in zip(self.names, given, tangents):
            part(name, a, t)
        return found

    def _positional(self) -> list[str]:
        """The parameters that a call gives by position."""
        given = self._given_names() if self._gives_some else ()
        return [n for n in self.names if n not in given]

    def _moved(
        self, made: Made, flat: Sequence[Any], moving: Mapping[str, Any]
    ) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """The results, their tangents, and those of the arrays that have one, by the parameters' names."""
        self._check_apart(made, flat)
        found, arrays = self._along(made, flat, moving)
        n = len(made.program.results)
        return found[:n], found[n:], arrays

    def _along(
        self, made: Made, flat: Sequence[Any], moving: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """What a tangent's text gives, and the tangents of the arrays."""
        arrays: dict[str, Any] = {}
        given: list[Any] = []
        for name, a in zip(made.program.params, flat):
            if name in made.bars:
                still = np.zeros_like(a) if isinstance(a, np.ndarray) else 0.0
                t = like(moving[name], a, f"the tangent of {name}") if name in moving else still
                given.append(t)
                if isinstance(a, np.ndarray):
                    arrays[name] = t
        return as_list(made.compiled(*flat, *given)), arrays

    def hvp(
        self, args: Sequence[Any], vectors: Sequence[Any], wrt: Sequence[str] | str | None = None
    ) -> tuple[Any, ...]:
        """The Hessian times a vector, of which there is a part for each argument, None for those that stay; the value must be one float."""
        given = self._bound(args)
        made, flat = self._made_for("adjoint", given, self._asked(wrt, None))
        moving = self._moving(made.program, given, self._aligned(args, vectors))
        curved = self._curved(made, flat, moving)
        return tuple(_asked_of(made, curved))

    def _curved(self, made: Made, flat: Sequence[Any], moving: Mapping[str, Any]) -> list[Any]:
        """The tangent of the adjoint along `moving`."""
        p = made.program
        second = derived(made, self)
        bars = {n: np.zeros_like(a) for n, a in zip(p.params, flat) if n in made.bars}
        own = [copied(a) if n in made.written else a for n, a in zip(p.params, flat)]
        given = [*own, *bars.values(), 1.0]
        of_bars = second.names[len(p.params) : -1]
        of, _ = second._made_for("tangent alone", given, (*sorted({*made.wrt, *moving}), *of_bars))
        moved, arrays = second._along(of, given, moving)
        scalars = iter(moved[len(p.results) :])
        curved = {n: arrays[bar] for n, bar in zip(bars, of_bars)}
        return [curved[n] if n in curved else next(scalars) for n in made.wrt]

    def jacobian(
        self, *args: Any, wrt: Sequence[str] | str | None = None, argnums: Any = None, **named: Any
    ) -> Any:
        """The derivatives of each number of the results (a scalar or an array, or several) by each of the inputs: of one result, one
        array for each input, the result's shape first."""
        given = self._bound(args, named)
        made, flat = self._made_for("adjoint", given, self._asked(wrt, argnums))
        of = dict(zip(made.program.params, flat))
        _no_complex(self, made, "jacobian")
        if not made.program.results:
            raise TypeError(f"{self.function.__name__}() gives nothing, so it has no jacobian (use vjp)")
        shapes = [np.shape(v) for v in self._results(given)]
        found = []
        for k, shape in enumerate(shapes):
            rows = []
            for i in np.ndindex(*shape):
                seeds = [np.zeros(s) if s else 0.0 for s in shapes]
                if shape:
                    seeds[k][i] = 1.0  # type: ignore[index]
                else:
                    seeds[k] = 1.0
                again = [*self._flat([copied(a) for a in given]), *([flat[-1]] if made.program.drawn else [])]
                rows.append(self._swept(made, again, seeds)[1])
            found.append(
                [np.reshape([r[j] for r in rows], shape + np.shape(of[n])) for j, n in enumerate(made.wrt)]
            )
        shaped = [self._shaped(made, f, wrt, argnums) for f in found]
        return arranged(made.program.form, shaped)

    def hessian(self, *args: Any, wrt: Sequence[str] | str | None = None, **named: Any) -> Any:
        """The second derivatives of a function whose value is one float: a row of arrays for each input, or one array for one."""
        given = self._bound(args, named)
        made = self._make("adjoint", self._kinds(given), self._asked(wrt, None))
        _no_complex(self, made, "hessian")
        flat = self._with_drawn(made, given, self._flat(given))
        of = dict(zip(made.program.params, flat))
        inputs = [(made.wrt[k], of[made.wrt[k]]) for k in made.asked]
        columns: dict[str, list[list[Any]]] = {n: [] for n, _ in inputs}
        for name, a in inputs:
            for i in np.ndindex(*np.shape(a)):
                vector: Any = np.zeros(np.shape(a))
                vector[i] = 1.0
                columns[name].append(self._curved(made, flat, {name: vector}))
        rows = []
        for k, (_, a) in zip(made.asked, inputs):
            row = []
            for name, b in inputs:
                parts = [c[k] for c in columns[name]]
                stacked = np.stack(parts, axis=-1) if parts else np.zeros((*np.shape(a), 0))
                row.append(stacked.reshape(np.shape(a) + np.shape(b)))
            rows.append(tuple(row))
        return rows[0][0] if isinstance(wrt, str) and len(rows) == 1 else tuple(rows)

    def memory(
        self, *args: Any, wrt: Sequence[str] | str | None = None, argnums: Any = None, **named: Any
    ) -> Memory:
        """What a gradient for these arguments will hold, in bytes. To know it, the function is run once, on copies."""
        given = [copied(a) for a in self._bound(args, named)]
        made, flat = self._made_for("memory", given, self._asked(wrt, argnums))
        saved, copies, arrays = made.compiled(*flat)
        bars = sum(a.nbytes for n, a in zip(made.program.params, flat) if n in made.bars)
        return Memory(saved, copies, arrays + bars)

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

    def device(self, *kinds: Any, wrt: Sequence[str] | str | None = None) -> Any:
        """The function of `adjoint` as it is handed to `numba.cuda.jit(device=True)`, for kernels of one's own. Each thread has its
        own call, so bars of arrays that threads share are for the caller to keep apart. An adjoint that needs memory is refused."""
        made = self._make("adjoint", self._kinds(self._bound(kinds)), self._asked(wrt, None))
        takes = re.search(r"^ *(\w+) = (?:np\.empty|np\.zeros|reserve)\(", made.text, re.MULTILINE)
        if takes or made.helpers:
            what = f"the array {takes[1]}" if takes else f"the function {next(iter(made.helpers))}"
            raise Refused(
                f"{self.function.__name__}: its adjoint needs {what}, which a function of a device has not "
                "(write what the loop carries so that it is computed again, or pass an array for it)"
            )
        return made.plain

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
            names = self._positional()
            for k in counted:
                if not -len(names) <= k < len(names):
                    raise ValueError(
                        f"{self.function.__name__}() has {len(names)} parameters, and none is {k}"
                    )
            return self._known_names([names[k] for k in counted])
        if wrt is not None or self.wrt is not None:
            return self.wrt if wrt is None else self._known_names(wrt)
        return (FLOATS, *self._positional()) if self._gives_some else None

    def _shaped(self, made: Made, grads: list[Any], wrt: Any, argnums: Any) -> Any:
        """As they were asked for: in that order, and one by itself if it was named by itself and is no tuple."""
        found = _asked_of(made, grads)
        alone = (isinstance(wrt, str) or isinstance(argnums, int)) and len(found) == 1
        return found[0] if alone else tuple(found)

    def _swept(self, made: Made, flat: Sequence[Any], seeds: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The values, and the gradients of what is wanted."""
        self._check_apart(made, flat)
        p = made.program
        n = len(p.results)
        outs = [name for name in made.written if name in made.bars]
        if len(seeds) not in (n, n + len(outs)):
            raise TypeError(
                f"{self.function.__name__}() gives {n} results and writes {len(outs)} arrays; {len(seeds)} seeds were given"
            )
        of_outs = {name: s for name, s in zip(outs, seeds[n:]) if s is not None}
        adjoint, fresh = made.fresh
        bars = {}
        for name, a in zip(p.params, flat):
            if name in made.bars:
                bars[name] = (np.empty if name in fresh else np.zeros)(a.shape, a.dtype)
                if name in of_outs:
                    bars[name][...] = like(of_outs[name], a, f"the seed of {name}")
        found = adjoint(*flat, *bars.values(), *[as_seed(s) for s in seeds[:n]])
        listed = as_list(found)
        scalars = iter(listed[n:])
        grads = [bars[name] if name in p.arrays else next(scalars) for name in made.wrt]
        return listed[:n], grads


def derived(made: Made, of: Differentiable) -> Differentiable:
    """What was made of a function as such a function again."""
    if made.again is None:
        made.again = type(of)(made.plain, of.policy, wraparound=of.wraparound)
        params = made.program.params
        made.again._twins = [(params.index(n), len(params) + k) for k, n in enumerate(made.bars)]
    return made.again


def _asked_of(made: Made, values: Sequence[Any]) -> list[Any]:
    """What was asked for, of values for each of `wrt`."""
    if not made.pairs:
        return [values[k] for k in made.asked]
    return _of_complex(made, [made.wrt[k] for k in made.asked], [values[k] for k in made.asked])


def _of_complex(made: Made, names: Sequence[str], values: Sequence[Any]) -> list[Any]:
    """The same, the two parts of what is complex as one."""
    found: list[Any] = []
    for k, (name, value) in enumerate(zip(names, values)):
        if k and made.pairs.get(names[k - 1]) == name:
            found[-1] = joined(found[-1], value)
        else:
            found.append(value)
    return found


def _no_complex(f: Differentiable, made: Made, what: str) -> None:
    def inside(form: Form) -> bool:
        return isinstance(form, Several) and (form.of is complex or any(map(inside, form.parts)))

    if inside(made.program.form) or any(n in made.wrt for pair in made.pairs.items() for n in pair):
        raise TypeError(
            f"{f.function.__name__}(): {what} of complex numbers is not taken (use vjp, jvp or hvp)"
        )


def _is_float(p: Program) -> bool:
    """Is one float all that it gives?"""
    found = p.results[0] if len(p.results) == 1 else None
    return isinstance(found, Expr) and kind(found, p.kinds, p.arrays) == "float"


__all__ = ["Differentiable", "Refused"]
