"""A function that no program can hold as a whole, made of pieces that are compiled, and of the statements between them.

Promises `divided(...)`: a function that does the same, or None. Its pieces are compiled functions that may be cut again; functions and
modules that its other statements call are compiled by themselves.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import re
import symtable
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.compiled.cut import INNER, PARTS, Uncut, cut
from nbgrad.compiled.explain import say
from nbgrad.nn.modules import module as modules
from nbgrad.nn.modules.module import Module

MOST = 120  # compiled pieces, functions and modules of one function
_FUTURES = 0
for _feature in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _feature).compiler_flag
_GENERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_SYSTEM = sys.stdlib_module_names | {"numpy"}
_EFFECT = (ast.Call, ast.AugAssign)

Where = list[tuple[CodeType, int]]


class Cuts:
    """What one compiled function was cut into, and what compiles the functions that it calls."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make
        self.parts: list[Any] = []
        self.known: dict[Any, Any] = {}

    def forget(self) -> None:
        """Neither pieces nor functions."""
        self.parts.clear()
        self.known.clear()

    def compiled(self, function: Any) -> Any:
        if len(self.parts) >= MOST:
            return function
        self.parts.append(made := self.make(function))
        return made

    def inner(self, called: Any) -> Any:
        """What is called, compiled if it is a function of the user's, or a module."""
        kind = type(called)
        if kind is FunctionType:
            key: Any = called
        elif kind is MethodType and type(called.__func__) is FunctionType:
            key = id(called.__self__), called.__func__
        elif isinstance(called, Module) and type(called).__call__ is Module.__call__:
            key = id(called)
        else:
            return called
        found = self.known.get(key)
        if found is None:
            plain = called.__func__ if kind is MethodType else called
            if kind is FunctionType or kind is MethodType:
                module = (plain.__globals__.get("__name__") or "nbgrad").split(".")[0]
                if module == "nbgrad" or plain.__code__.co_flags & _GENERATOR or module in _SYSTEM:
                    return called
                if plain.__closure__ and plain.__name__ == "<lambda>":
                    return called
            if len(self.known) >= MOST:
                return called
            found = self.known[key] = self.compiled(called.__call__ if isinstance(called, Module) else called)
        return found


_trees: dict[int, tuple[CodeType, ast.FunctionDef]] = {}  # of pieces, whose text is in no file


def _tree(function: FunctionType) -> ast.FunctionDef:
    known = _trees.get(id(function.__code__))
    if known is not None:
        return known[1]
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError) as error:
        raise Uncut("its text is not known") from error
    ast.increment_lineno(tree, first - 1)
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        raise Uncut("it is no plain function")
    again, *_ = _functions(function, [found])
    if not _same(again.__code__, function.__code__):
        raise Uncut("its text is not what runs")
    return found


def _same(a: CodeType, b: CodeType) -> bool:
    """Whether two codes do the same."""
    mine, theirs = list(a.co_consts), list(b.co_consts)
    return (
        (a.co_code, a.co_names, a.co_varnames, a.co_freevars, a.co_cellvars)
        == (b.co_code, b.co_names, b.co_varnames, b.co_freevars, b.co_cellvars)
        and (a.co_flags ^ b.co_flags) & ~inspect.CO_NESTED == 0
        and len(mine) == len(theirs)
        and all(
            _same(x, y)
            if isinstance(x, CodeType) and isinstance(y, CodeType)
            else x == y or isinstance(x, str)
            for x, y in zip(mine, theirs)
        )
    )


def _functions(
    function: FunctionType, trees: Sequence[ast.FunctionDef], more: dict[str, Any] | None = None
) -> list[FunctionType]:
    """Functions with these trees in the place of one: with its globals, its variables, and `more` that they find by name."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    added = more or {}
    body: list[ast.stmt] = []
    for k, tree in enumerate(trees):
        new = ast.FunctionDef(f"_nbgrad_f{k}", tree.args, tree.body, [], None)
        new.type_params = []  # type: ignore[attr-defined]
        body.append(ast.copy_location(new, tree))
    names = [*cells, *added]
    outer = ast.FunctionDef(
        "_nbgrad_outer",
        ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, []),
        body,
        [],
        None,
    )
    outer.type_params = []  # type: ignore[attr-defined]
    # Python compiles a call of a module's function otherwise where the module is imported in the same file.
    imported = _imported(function.__code__.co_filename) & {*function.__code__.co_names}
    imports: list[ast.stmt] = [ast.Import([ast.alias(n)]) for n in sorted(imported)]
    text = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    code = compile(text, function.__code__.co_filename, "exec", function.__code__.co_flags & _FUTURES, True)
    whole = next(c for c in code.co_consts if isinstance(c, CodeType))
    codes = {c.co_name: c for c in whole.co_consts if isinstance(c, CodeType)}
    made = []
    for k in range(len(trees)):
        found = codes[f"_nbgrad_f{k}"]
        found = found.replace(co_name=function.__name__)
        found = found.replace(co_qualname=function.__code__.co_qualname)
        closure = tuple([cells[n] if n in cells else _cell(added[n]) for n in found.co_freevars])
        one = FunctionType(found, function.__globals__, function.__name__, None, closure)
        one.__qualname__, one.__module__ = function.__qualname__, function.__module__
        made.append(one)
    return made


@cached(64)
def _imported(filename: str) -> frozenset[str]:
    """The names that a file, or a notebook's cell, imports itself; another that is a module may be assigned, or come with a `*`."""
    try:
        table = symtable.symtable("".join(linecache.getlines(filename)), filename, "exec")
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(s.get_name() for s in table.get_symbols() if s.is_imported())


def _cell(value: Any) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index]


def divided(function: Any, where: Where, why: str, cuts: Cuts) -> Callable[..., Any] | None:
    """`where` are the lines that were done when the reason `why` was found, the innermost first; without one that is the function's it is
    looked for by its words, or by halves."""
    if type(function) is partial:  # which casts around it
        inner = divided(function.args[-1], where, why, cuts)
        return inner and partial(function.func, *function.args[:-1], inner)
    module: Any = function.__self__ if isinstance(function, MethodType) else None
    if module is not None and function.__func__ is Module.__call__:
        if "forward" in module.__dict__ or type(type(module).forward) is not FunctionType:
            return None
        plain: Any = type(module).forward
    else:
        plain = function.__func__ if module is not None else function
    if type(plain) is not FunctionType or plain.__code__.co_flags & _GENERATOR:
        return None
    inner = getattr(plain, "__wrapped__", None)
    if inner is not None:
        return _rewrapped(plain, inner, module, cuts)
    try:
        tree = _tree(plain)
        lines = {line for code, line in where if code is plain.__code__}
        marked = lines or _named(tree, why)
        code = plain.__code__
        new, pieces = cut(tree, {*code.co_varnames, *code.co_cellvars}, marked)
    except Uncut as error:
        say(f"`{plain.__qualname__}` is not cut: {error}")
        return None
    if not pieces and not any(isinstance(n, ast.Name) and n.id == INNER for n in ast.walk(new)):
        return None
    holder: list[Any] = []
    whole, *rest = _functions(plain, [new, *pieces], {PARTS: holder, INNER: cuts.inner})
    for f, piece in zip(rest, pieces):
        _trees[id(f.__code__)] = f.__code__, piece
    holder += [cuts.compiled(f) for f in rest]
    whole.__defaults__, whole.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
    say(
        f"`{plain.__qualname__}` is cut, as {why}, into\n{textwrap.indent(ast.unparse(ast.fix_missing_locations(new)), '    ')}"
    )
    if module is None:
        return whole
    bound = MethodType(whole, module)
    if function.__func__ is not Module.__call__:
        return bound

    def call(*args: Any, **kwargs: Any) -> Any:
        """As `Module.__call__`, with another forward."""
        if "forward" in module.__dict__ or type(module).forward is not plain or _hooked(module):
            return module(*args, **kwargs)
        return bound(*args, **kwargs)

    return call


_OF_ALL = [name for name in vars(modules) if name.startswith("_global_") and name.endswith("_hooks")]


def _hooked(module: Module) -> bool:
    everywhere = vars(modules)
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or any([everywhere[name] for name in _OF_ALL])
    )


def _rewrapped(plain: FunctionType, inner: Any, module: Any, cuts: Cuts) -> Callable[..., Any] | None:
    """A function that a decorator made, around what it decorates, compiled."""
    cells = plain.__closure__ or ()
    if type(inner) is not FunctionType or not any(_holds(c, inner) for c in cells):
        return None
    compiled = cuts.compiled(inner if module is None else MethodType(inner, module))
    if compiled is inner:
        return None
    given = compiled if module is None else lambda _, *args, **kwargs: compiled(*args, **kwargs)
    closure = tuple([_cell(given) if _holds(c, inner) else c for c in cells])
    made = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, closure)
    made.__kwdefaults__ = plain.__kwdefaults__
    return made if module is None else MethodType(made, module)


def _holds(cell: Any, value: Any) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:
        return False


def _named(tree: ast.FunctionDef, why: str) -> set[int]:
    """The lines of statements that may have changed what the reason names."""
    quoted = re.search(r"`([^`]*)` is not as it was", why)
    words = re.findall(r"[A-Za-z_]\w*", quoted[1]) if quoted else []
    for word in reversed(words):
        found: set[int] = set()
        for s in ast.walk(tree):
            if not isinstance(s, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)):
                continue
            stores = [*s.targets] if isinstance(s, ast.Assign) else [getattr(s, "target", None)]
            kept = any(isinstance(t, (ast.Attribute, ast.Subscript)) for t in stores)
            if not kept and not any(isinstance(n, _EFFECT) for n in ast.walk(s)):
                continue
            if any(
                word in (getattr(n, "id", 0), getattr(n, "attr", 0), getattr(n, "value", 0))
                for n in ast.walk(s)
            ):
                found.add(s.lineno)
        if found:
            return found
    return set()


__all__ = ["Cuts", "Where", "divided"]
