"""From a function's text to a `Program`: names become single assignments, views indices, array expressions loops, calls what they call.

Promises the passes what `ir.py` says, and users that what is not taken is refused with its file and line. Types are not asked of Numba:
bool, int and float follow from the arguments; a loop is lowered again when a name that it carries turns out to be more than it was.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import keyword
import textwrap
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbgrad.adjoints import complex_texts, complexes, draws, exits, library, listed, matrices, sugar
from nbgrad.adjoints.build import Elementwise, Items, Keys, Listed, Object, Value, is_complex
from nbgrad.adjoints.ir import (
    Apply,
    Array,
    Const,
    Expr,
    Form,
    Load,
    Name,
    Program,
    Several,
    Span,
    View,
    const,
    kind_of,
    whole,
)
from nbgrad.adjoints.room import OUTER, SEEN_FROM, Env, Inside, Seen
from nbgrad.adjoints.small import as_numbers
from nbgrad.adjoints.statements import Statements
from nbgrad.base.tables import Table
from nbgrad.kernels.functions import ELEMENTARY

_DEEP = 40  # calls inside of calls
_AGAIN = 400  # calls of a function inside of itself: who calls itself twice has 2**depth of them

_WORDS = {
    "np",
    "math",
    "max",
    "min",
    "abs",
    "prange",
    "range",
    "reserve",
    "float",
    "int",
    "bool",
    "len",
    "u",
    "round",
    "add_up",
    "rise",
    "fall",
    "one_by_one",
    "clear",
    "add_whole",
    "own_dot",
    "seeded",
    *(f"own_{name}" for name in ELEMENTARY),
}


@dataclass(frozen=True)
class Scalar:
    """An argument that is a number: bool, int or float."""

    kind: str

    @property
    def differentiable(self) -> bool:
        return self.kind == "float"


@dataclass(frozen=True)
class ArrayOf:
    rank: int
    dtype: str

    @property
    def differentiable(self) -> bool:
        return kind_of(self.dtype) == "float"


@dataclass(frozen=True)
class TupleOf:
    items: tuple[Any, ...]
    of: Any = tuple
    differentiable = True

    @property
    def labels(self) -> tuple[str, ...]:
        """What the parts are called: by their fields, or by their places."""
        if self.of is complex:
            return "re", "im"
        names = self.of.names if isinstance(self.of, Keys) else getattr(self.of, "_fields", ())
        sure = names and all(isinstance(n, str) and n.isidentifier() for n in names)  # as parts of a name
        if isinstance(self.of, Keys) and any("_" in str(n) for n in names):
            sure = False
        return tuple(names) if sure else tuple(map(str, range(len(self.items))))


@dataclass(frozen=True)
class Known:
    """An argument that is part of the function: None, a string, a member of an enum, a function."""

    value: Any
    differentiable = False


@dataclass(frozen=True)
class PartialOf:
    """An argument that is a function with some of its arguments: these are arguments as well."""

    function: Any
    items: tuple[Any, ...]
    labels: tuple[str, ...]
    positional: int
    differentiable = True


Kind = Scalar | ArrayOf | TupleOf | Known | PartialOf


def lower(
    fn: Callable[..., Any],
    kinds: Sequence[Kind],
    called: Callable[[Any], Any],
    seen: Seen,
    drawing: str = draws.DIRECT,
) -> Program:
    """`called` gives the plain function behind what is called: a compiled one, a differentiable one. `seen` is what names of the module
    were when they were first read, and is added to once all went well."""
    late, foreseen = False, dict[Any, Any]()
    while True:  # until what lists hold is known of each
        try:
            return _lowered(fn, kinds, called, seen, late, foreseen, drawing)
        except exits.Late:
            late = True
        except listed.Foreseen as now:
            foreseen[now.site] = now.kept


def _lowered(
    fn: Callable[..., Any],
    kinds: Sequence[Kind],
    called: Callable[[Any], Any],
    seen: Seen,
    late: bool,
    foreseen: dict[Any, Any],
    drawing: str,
) -> Program:
    taken = {*_WORDS, *keyword.kwlist}
    name = fn.__name__ if fn.__name__.isidentifier() else "function"
    program = Program(name, [], [], [], None, {}, {}, {}, taken)
    lowering = _Lowering(program, called)
    lowering.seen, lowering.late, lowering.foreseen = dict(seen), late, foreseen
    lowering.drawing = drawing
    found = lowering.lowered(fn, kinds)
    seen |= lowering.seen
    return found


Parsed = tuple[ast.FunctionDef, list[ast.stmt]]
_OF_LIBRARY: Table[Any, Parsed] = Table("adjoints.lower.library", 1024)


class _Lowering(Statements):
    late = False  # is what loops return computed when they are over?

    def __init__(self, program: Program, called: Callable[[Any], Any]) -> None:
        super().__init__(program, called)
        self.trees: dict[Any, Parsed] = {}  # of functions that are called
        self.again: dict[Any, int] = {}

    def lowered(self, fn: Callable[..., Any], kinds: Sequence[Kind]) -> Program:
        p = self.program
        tree = self.parse(fn)
        params = self.parameters(tree)
        env: Env = {name: self.parameter(name, kind) for name, kind in zip(params, kinds)}
        self.stack.append((fn, *map(_known, env.values())))
        if self.drawing == draws.GIVEN:
            self.numbers_drawn = p.fresh("numbers_drawn")
            p.arrays[self.numbers_drawn] = Array(1, "float64", None)
        self.statements(exits.structured(sugar.plainly(tree), self.late), env)
        result = env.get(exits.RESULT, Object(None))
        self.node = tree
        p.form = self.result(result)
        self.node = None
        self.numbers_of(p)
        # Where a loop was lowered again, what was made for it before is no array anymore, or the same.
        first = {made[0].base: made for made in self.first if made[0].base in p.arrays}
        p.body[:0] = [statement for made in first.values() for statement in made]
        as_numbers(p)
        return p

    def numbers_of(self, p: Program) -> None:
        """What was drawn is an argument, or a result."""
        p.draws = self.draws and self.drawing != draws.GIVEN
        if self.draws and self.drawing == draws.RECORD:
            draws.recorded(self)
        elif self.draws and self.drawing == draws.GIVEN:
            p.params.append(self.numbers_drawn)
            p.drawn = self.numbers_drawn
        elif self.numbers_drawn:
            del p.arrays[self.numbers_drawn]

    def result(self, r: Value) -> Form:
        if isinstance(r, Items):
            return Several(r.of, tuple([self.result(i) for i in r.items]))
        if isinstance(r, Object):
            return None if r.value is None else self.refuse("a result that is neither a number nor an array")
        if isinstance(r, Listed):
            self.refuse("a list of tuples or arrays as a result", "np.array(...) of it")
        if isinstance(r, Elementwise) or (isinstance(r, View) and (_stepped(r) or r.base in self.room_of)):
            r = self.stored(r)
        if isinstance(r, Apply | Load):  # before what is written later
            r = self.let("value", r)
        self.program.results.append(r)
        return len(self.program.results) - 1

    def parsed(self, fn: Any) -> Parsed:
        """Its text, and its statements without what Python says shortly."""
        own = fn.__module__ in (library.__name__, matrices.__name__, complex_texts.__name__)
        known = _OF_LIBRARY.get(fn) if own else self.trees.get(fn)
        if known is not None:
            self.file = fn.__code__.co_filename
            self.seen_from(getattr(fn, "original", fn))
            return known
        tree = self.parse(fn)
        found = tree, sugar.plainly(tree)
        if own:
            _OF_LIBRARY[fn] = found
        self.trees[fn] = found
        return found

    def parse(self, fn: Any) -> ast.FunctionDef:
        code = fn.__code__
        self.file = code.co_filename
        if hasattr(fn, "rewritten"):  # a method, of the attributes that it reads
            self.seen_from(fn.original)
            made: ast.FunctionDef = copy.deepcopy(fn.rewritten)
            return made
        tree = self.tree_of(fn)
        self.seen_from(fn)
        return tree

    def seen_from(self, fn: Any) -> None:
        """Names are looked up where the function does it."""
        self.scope = {**vars(builtins), **fn.__globals__}
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
            with suppress(ValueError):  # not set yet
                self.scope[name] = cell.cell_contents
        self.scope |= {name: x for (_, name), (owner, x) in self.seen.items() if owner is fn}
        self.scope[SEEN_FROM] = fn

    def tree_of(self, fn: Any) -> ast.FunctionDef:
        code = fn.__code__
        try:
            lines, first = inspect.getsourcelines(fn)
        except (OSError, TypeError):
            at = ast.Pass(lineno=code.co_firstlineno)
            self.refuse(f"{fn.__name__} has no source that can be read", "write it to a file", at)
        try:
            tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        except SyntaxError:
            self.refuse(f"the source of {fn.__name__} is part of a statement", "use def")
        ast.increment_lineno(tree, first - 1)
        if not isinstance(tree, ast.FunctionDef) or code.co_name == "<lambda>":
            tree = self.only_lambda(tree, code)
        if inspect.isgeneratorfunction(fn):
            self.refuse(f"{fn.__name__} is a generator", "write its values to an array", tree)
        return tree

    def only_lambda(self, tree: ast.stmt, code: types.CodeType) -> ast.FunctionDef:
        """The lambda of a statement, as a function, if there is but one of these parameters."""
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        found = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Lambda)
            and tuple(p.arg for p in (*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs)) == given
        ]
        if len(found) != 1:
            self.refuse("a lambda beside another in one statement", "use def", tree)
        body: list[ast.stmt] = [ast.Return(found[0].body)]
        made = ast.FunctionDef("function", found[0].args, body, [], None)
        return ast.fix_missing_locations(ast.copy_location(made, found[0]))

    def parameters(self, tree: ast.FunctionDef) -> list[str]:
        a = tree.args
        if a.vararg or a.kwarg:
            self.refuse(f"{tree.name} takes *args or **kwargs", "name its parameters", tree)
        return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]

    def parameter(self, name: str, kind: Kind) -> Value:
        p = self.program
        if isinstance(kind, Known):
            return self.wrapped(kind.value)
        if isinstance(kind, TupleOf):
            return Items(
                [self.parameter(f"{name}_{label}", k) for label, k in zip(kind.labels, kind.items)], kind.of
            )
        if isinstance(kind, PartialOf):
            held = [self.parameter(f"{name}_{label}", k) for label, k in zip(kind.labels, kind.items)]
            named = dict(zip(kind.labels[kind.positional :], held[kind.positional :]))
            return Object(functools.partial(kind.function, *held[: kind.positional], **named))
        own = p.fresh(name)
        p.params.append(own)
        if isinstance(kind, Scalar):
            p.kinds[own] = kind.kind
            return Name(own)
        p.arrays[own] = Array(kind.rank, kind.dtype, None)
        return whole(own, kind.rank)

    def inline(self, fn: Any, args: Sequence[Value], named: dict[str, Value]) -> Value:
        """What a call computes, written out at the call."""
        call = fn, *map(_known, args), *((k, _known(x)) for k, x in named.items())
        if call in self.stack:
            self.refuse(f"{fn.__name__} calls itself", "write a loop with a stack of its own")
        if len(self.stack) > _DEEP:
            self.refuse(f"{fn.__name__} is called too deep", "write a loop")
        if any(of is fn for of, *_ in self.stack):  # with another constant, of which it may end
            self.again[fn] = self.again.get(fn, 0) + 1
            if self.again[fn] > _AGAIN:
                self.refuse(f"{fn.__name__} calls itself too often", "write a loop with a stack of its own")
        signature = fn.signature if isinstance(fn, Inside) else inspect.signature(fn)
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            self.refuse(f"{fn.__name__}(): {error}")
        before = self.scope, self.file, self.following, self.node, self.foreign, self.names, self.site
        self.site = *self.site, self.position_of(self.node)
        env: Env = {}
        if isinstance(fn, Inside):
            env |= self.around(fn)
            self.scope, self.file = fn.scope, fn.file
            tree, body = fn.tree, fn.tree.body
        else:
            tree, body = self.parsed(fn)
        names_of = self.parameters(tree)
        bound.apply_defaults()
        for name in names_of:
            x = bound.arguments[name]
            x = x if isinstance(x, Expr | View | Elementwise | Items | Listed | Object) else self.wrapped(x)
            if isinstance(x, Elementwise):
                x = self.stored(x, name)
            elif isinstance(x, Apply | Load):
                x = self.let(name, x)
            elif is_complex(x):
                x = self.bound(name, x, {})
            env[name] = x
        self.stack.append(call)
        self.frames.append((self.frame, self.here))
        self.frame, self.following = object(), []
        self.foreign = self.foreign | {base for x in env.values() for base in self.all_bases(x)}
        self.statements(self.without_exits(tree, body), env)
        self.stack.pop()
        self.frame, self.here = self.frames.pop()
        self.scope, self.file, self.following, self.node, self.foreign, self.names, self.site = before
        return env.get(exits.RESULT, Object(None))

    def without_exits(self, tree: ast.FunctionDef, body: list[ast.stmt]) -> list[ast.stmt]:
        known: dict[bool, list[ast.stmt]] = vars(tree).setdefault("_without_exits", {})
        if self.late not in known:
            known[self.late] = exits.structured(body, self.late)
        return known[self.late]

    def around(self, fn: Inside) -> Env:
        """What a function inside sees of the one around it, as it is where it is called."""
        known = [*self.frames, (self.frame, self.here)]
        env = next((env for frame, env in reversed(known) if frame is fn.frame), None)
        if env is None:
            self.refuse(f"{fn.__name__} is called when the function around it is over", "pass what it reads")
        return {n: x for n, x in env.items() if n != OUTER and not exits.is_own(n)}

    def wrapped(self, x: Any) -> Value:
        """What an object of Python's is here."""
        if isinstance(x, bool | int | float):
            return const(
                x if isinstance(x, bool) else float(x) if isinstance(x, float) else int(x)
            )  # of an IntEnum
        if isinstance(x, np.bool_ | np.integer | np.floating):
            return const(x.item())
        if isinstance(x, complex | np.complexfloating):
            return complexes.wrapped(complex(x))
        if isinstance(x, tuple):
            return Items([self.wrapped(i) for i in x], type(x))
        return Object(x)


def _stepped(v: View) -> bool:
    return any(isinstance(a, Span) and a.step != 1 for a in v.axes)


def _known(x: Value) -> Any:
    """What decides how a call goes on: who calls itself with other functions or constants may end."""
    if isinstance(x, Items):
        return tuple(map(_known, x.items))
    if isinstance(x, Const):
        return x
    return id(x.value) if isinstance(x, Object) else None


__all__ = ["ArrayOf", "Kind", "Known", "PartialOf", "Scalar", "TupleOf", "lower"]
