"""Which arguments PyTorch takes, and its words on others.

Promises the layers above that a call is judged as PyTorch's own parser judges it: `signatures.txt` holds the signatures that it tries, in
its order, and from them alone follow what is accepted, what it is converted to, and the text of the TypeError. Judging takes
microseconds, so it is done once for each combination of kinds: `guard` remembers those that were fine, and ops that keep a plan
for each call ask when they make one.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from importlib import import_module
from inspect import signature
from keyword import iskeyword
from os.path import dirname, join
from types import FunctionType
from typing import Any

import numpy as np

from nbgrad.base import source
from nbgrad.base.ours import called
from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import Table, cached
from nbgrad.core import overrides
from nbgrad.core.refusals import LEAF_WRITE
from nbgrad.core.signatures import (
    _OTHER_NAMES,
    _SEQUENCES,
    Args,
    Signature,
    _as_exception,
    _fine,
    _holds_number,
    _is_index_or_more,
    _judged,
    _refused,
    _sequence,
    _table,
    check,
    functions,
    kinds,
    signatures,
)
from nbgrad.core.tensor import Tensor, hooks, requires
from nbgrad.memory.backend import check_room
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Spec
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- calls that Python alone would refuse


class _Unset:
    """Stands for an argument that was not given."""


unset: Any = _Unset()


def _inside(line: str) -> str:
    return line.partition("(")[2].partition(")")[0]


def _names(text: str) -> list[str]:
    """Of parameters."""
    return [
        p.split(" ")[1].partition("=")[0].partition("@")[0].partition("/")[0]
        for p in text.split(", ")
        if " " in p
    ]


def _also(line: str, name: str) -> Sequence[str]:
    return () if "|python" in line else _OTHER_NAMES.get(name, ())


def spellings(own: Sequence[str], *paths: str) -> list[str]:
    """Under which names, other than a function's own, PyTorch takes the arguments of these functions."""
    lines = [line for path in paths for line in _table().get(path, ())]
    every = [n for line in lines for name in _names(_inside(line)) for n in (name, *_also(line, name))]
    return [name for name in dict.fromkeys(every) if name not in own and not iskeyword(name)]


@cached(1024)
def named_operands(name: str, count: int, own: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What PyTorch calls the operands of a function (`sin`, `special.zeta`; "" is any) and of its method, and under which other names it
    takes them. Both share them, as that is source to compile: what a method does not take, the parser refuses."""
    method = "Tensor." + name.rpartition(".")[2] if name else ""
    table = _table()
    text = (
        _inside(table[name][0]) if name in table else f"Tensor input, {_inside(table.get(method, [''])[0])}"
    )
    found = [n for n in _names(text.partition("*, ")[0]) if n not in own]
    usual = ["input", "other", *(f"operand{k}" for k in range(count))]
    names = (found + [n for n in usual if n not in found])[:count]
    also = [n for name in names for n in _OTHER_NAMES.get(name, ()) if n not in names]
    return tuple(names), tuple(dict.fromkeys((*also, *spellings((*names, *own), name, method))))


def definition(
    positional: Sequence[str],
    named: Sequence[str],
    required: Sequence[str],
    others: Sequence[str],
    spread: str = "",
) -> str:
    """The parameters of a user's function, which stands before a Python function of ours.

    PyTorch's parser takes calls that Python would refuse of that function before any code of ours saw them: by PyTorch's names that ours
    has not, by NumPy's, in forms that are deprecated. So behind our own parameters come places for arguments too many, and those names;
    a required parameter has a default that stands for none, and `*dims` is `all_dims`, as `dims` is a name. A call that uses none of
    these pays for a look at each, `unusual`, which is less than it pays for a parameter that can only be given by name."""
    stop = f"*all_{spread}" if spread else "_surplus=_unset, _second=_unset"
    return ", ".join([*positional, stop, *named, *(f"{n}={_absent(n, required)}" for n in others)])


def other_names(names: Iterable[str]) -> set[str]:
    """NumPy's, for parameters of these."""
    return {other for name in names for other in _OTHER_NAMES.get(name, ())}


def _absent(name: str, required: Iterable[str]) -> str:
    """What stands for no argument under a name. Of a required parameter's other names it is None, which may not be given and is compared
    with at the least cost: hardly a call uses them."""
    return "None" if name in other_names(required) else "_unset"


def unusual(required: Sequence[str], others: Sequence[str], spread: str = "") -> str:
    """Source of what is asked first: whether an argument has a place or a name that the function's own parameters have not."""
    asked = [*["_surplus"] * (not spread), *others]
    return " or ".join([f"{name} is not {_absent(name, required)}" for name in asked]) or "False"


def missing(required: Sequence[str]) -> str:
    """Source of what is asked on the long way: whether one has no value under its own name."""
    return " or ".join([f"{name} is _unset" for name in required]) or "False"


def anew(path: str, every: Sequence[Any], function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """The call as PyTorch's parser understands it, or its refusal. `given` are the names of a user's function and what they hold."""
    defaults = _defaults.get(function) or _defaults.keep(function, {p.name: p.default for p in every})
    key = (
        function,
        *[(n, kinds(v)) for n, v in given.items() if v is not unset and v is not defaults.get(n, unset)],
    )
    known = _renamed.get(key)
    if known is not None:
        in_place, by_name = known
        return function(*[given[name] for name in in_place], **{own: given[name] for own, name in by_name})
    at = path.startswith("Tensor.")
    first, kwargs = _as_given(path, every, given)
    args = tuple(first[at:])
    if overrides.elsewhere and "layout" in kwargs:  # how memory lies is no parameter of ours
        again = overrides.answered_elsewhere(path, tuple(first), kwargs)
        if again is not None:
            return again()
    try:
        lasting = check(path, args, kwargs)
    except TypeError:
        again = overrides.overridden(path, tuple(first), kwargs)
        if again is None:
            raise
        return again()
    ways = signatures(path)
    way = next((way for way in ways if way.refusal(args, kwargs) is None), None)
    if way is None:
        raise TypeError(f"{path}() does not take these arguments")
    given_names = set(kwargs)
    if kwargs.pop("pin_memory", False) and kwargs.get("out") is None:
        function = _pinning(function)
    if way.hidden:
        way.warn(ways)
        kwargs |= zip([p.name for p in way.parameters], args)
        args = ()
    elif way.spread and len(args) > 1 and not any([p.kind is p.VAR_POSITIONAL for p in every]):
        return function(*first[:at], args, **kwargs)
    has = [p.name for p in every]
    # How memory lies is the same for all tensors, so most functions have no name for it.
    kwargs = {name: v for name, v in kwargs.items() if name in has or name != "layout"}
    named = {_own_name(name, ways, every[at:]): value for name, value in kwargs.items()}
    if any([p.kind is p.VAR_POSITIONAL and p.name in named for p in every]):
        args += tuple(
            [
                named.pop(p.name)
                for p in every[len(first) :]
                if p.name in named and p.kind is not p.KEYWORD_ONLY
            ]
        )
    if named.keys() == given_names and len(args) + at == len(first):
        raise TypeError(_refused(ways, args, kwargs) or f"{ways[0].called}() is missing an argument")
    usual = lasting and not way.hidden and given_names == set(kwargs) and len(args) + at == len(first)
    if usual and not any([p.kind is p.VAR_POSITIONAL for p in every]):
        by_name = [(_own_name(name, ways, every[at:]), name) for name in kwargs]
        _renamed.keep(key, (has[: len(first)], by_name))
    return function(*first[:at], *args, **named)


# By which of its own names a function takes what was given under others, of kinds that were judged.
_renamed: Table[Any, tuple[list[str], list[tuple[str, str]]]] = Table("core.arguments.renamed", 1024)
_defaults: Table[Any, dict[str, Any]] = Table("core.arguments.defaults", 1024)


def _pinning(make: Callable[..., Any]) -> Callable[..., Any]:
    """What makes the same in memory that is locked for copies to a GPU."""

    def pinned(*args: Any, **kwargs: Any) -> Any:
        return hooks.pinned(make(*args, **kwargs))

    return pinned


def _as_given(path: str, every: Sequence[Any], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """How a call may have been written: by position as far as there are no gaps."""
    spread = [n for p in every if p.kind is p.VAR_POSITIONAL for n in given[f"all_{p.name}"]]
    further = spread + [given[n] for n in ("_surplus", "_second") if given.get(n, unset) is not unset]
    args: list[Any] = []
    kwargs = {}
    places = [p for p in every if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for k, p in enumerate(places):
        value = given[p.name]
        if len(args) == k and value is not unset and (further or value is not p.default):
            args.append(value)
        elif value is not unset and value is not p.default:
            kwargs[p.name] = value
    kwargs |= {
        p.name: given[p.name] for p in every if p.kind is p.KEYWORD_ONLY and given[p.name] is not p.default
    }
    own = [p.name for p in every if p.kind is not p.VAR_POSITIONAL]
    required = [p.name for p in every if p.default is p.empty]
    others = [name for name in spellings(own, path) if given.get(name, unset) is not unset]
    others = [name for name in others if given[name] is not None or _absent(name, required) != "None"]
    return args + further, kwargs | {name: given[name] for name in others}


class Answered(Exception):
    """A call has been answered by an argument: by the `__torch_function__` of one that is no tensor, as it was refused, or by one of a
    kind that answers for itself."""

    def __init__(self, result: Any) -> None:
        self.result = result


class answering:
    """Within it, a call of these values is judged: what refuses one that somebody overrides, or answers elsewhere, raises `Answered`."""

    __slots__ = ("every", "path", "values")

    def __init__(self, path: str, every: Sequence[Any], values: Sequence[Any]) -> None:
        self.path, self.every, self.values = path, every, values

    def __enter__(self) -> None:
        if overrides.elsewhere and any([type(v).__name__ == "layout" for v in self.values]):
            self._ask(overrides.answered_elsewhere)  # the parser knows one layout alone

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, TypeError):
            self._ask(overrides.overridden)
        elif error is None and overrides.elsewhere:
            self._ask(overrides.answered_elsewhere)

    def _ask(self, who: Callable[..., Any]) -> None:
        given = {
            f"all_{p.name}" if p.kind is p.VAR_POSITIONAL else p.name: v
            for p, v in zip(self.every, self.values)
        }
        args, kwargs = _as_given(self.path, self.every, given)
        again = who(self.path, tuple(args), kwargs)
        if again is not None:
            raise Answered(again()) from None


def _own_name(name: str, ways: Sequence[Signature], every: Sequence[Any]) -> str:
    """What our function calls a parameter of PyTorch's: the same, or that at its place has another name."""
    own = [p.name for p in every]
    places = [p.name for p in every if p.kind is not p.KEYWORD_ONLY]
    if name in own:
        return name
    for way in ways:
        for p, mine in zip(way.parameters, places):
            if not way.hidden and name in (p.name, *_OTHER_NAMES.get(p.name, ())):
                return p.name if p.name in own else mine
        for p in way.parameters:
            if p.name in own and name in _OTHER_NAMES.get(p.name, ()):
                return p.name
    raise TypeError(f"{ways[0].name}() got an unexpected keyword argument '{name}'")


# ---------------------------------------------------------------- guarding functions

_GUARD = """
def guarded({definition}):
    if {unusual}:
        return _anew(locals())
    if not _known(({key},)):
        if {missing}:
            return _anew(locals())
        try:
            {values}= _judge(({key},), {values})
        except _Answered as answered:
            return answered.result{again}
    try:
        return _function({call})
    except Exception as error:
        _refused_after(error, {values})
        raise
"""
_AGAIN = """
    if {there}{first}.__class__ is _Tensor and not {first}._spec.backend.prompt:
        result = _again({call})
        if result is not None:
            return result"""
_FIRST = compile(
    "def first(*args, **kwargs):\n    return _become(args, kwargs)", "<nbgrad guard>", "exec"
).co_consts[0]


def guard(path: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, asked only for arguments that PyTorch takes. One that looks at new kinds of arguments itself is told under
    which name it is known."""
    known_as = getattr(function, "known_as", None)
    if known_as is not None:
        return known_as(path)
    scope: dict[str, Any] = {"_function": function, "_kinds": kinds, "_type": type}
    write = partial(_guarded, path, function, scope)
    return written_later(write, "guarded", scope, function, path, "guard")


def written_later(
    write: Callable[[Any], str],
    name: str,
    scope: dict[str, Any],
    function: Callable[..., Any],
    path: str,
    what: str,
) -> Any:
    """A function that stands before another one."""
    about = f"{function.__module__}.{function.__qualname__}, signatures.txt"
    return renamed(later(write, name, scope, f"{what} of {path or name}", about, path=path), function, path)


def later(
    write: Callable[[Any], str],
    name: str,
    scope: dict[str, Any],
    title: str,
    about: str,
    shared: bool = False,
    path: str = "",
) -> Any:
    """A function whose source is written and compiled at its first call: there are hundreds. It stays the same object, as users keep
    functions (`act = F.relu`)."""
    made: Any = FunctionType(_FIRST, scope)

    def become(args: Args, kwargs: dict[str, Any]) -> Any:
        written = source.function(name, write(made), scope, title, about, shared)
        own = overrides.twin_of(made)
        own.__defaults__, own.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
        own.__code__ = written.__code__
        # It has looked at no argument yet, nor has a short way before it.
        again = overrides.overridden(path, args, kwargs)
        return made(*args, **kwargs) if again is None else again()

    scope["_become"] = become
    return made


def before_guard(
    shortened: Callable[[Callable[..., Any]], Callable[..., Any]], function: Callable[..., Any]
) -> Callable[..., Any]:
    """The function with a short way in front, which takes only what PyTorch does; all else passes the guard."""

    def known_as(path: str) -> Callable[..., Any]:
        made: Any = renamed(shortened(guard(path, function)), function, path)
        made.__code__ = made.__code__.replace(co_name=made.__name__)  # by which a profiler knows it
        made.__doc__ = short.__doc__  # which a form in place was given
        return made

    short = renamed(shortened(function), function, "")
    short.known_as = known_as  # type: ignore[attr-defined]
    return short


def placed(names: Sequence[str], args: Args, more: dict[str, Any]) -> Args | None:
    """The arguments of a call by place, where those that are named are all that follow those that are not."""
    rest = names[len(args) :]
    if len(rest) != len(more):
        return None
    try:
        return (*args, *[more[name] for name in rest])
    except KeyError:
        return None


def _guarded(path: str, function: Callable[..., Any], scope: dict[str, Any], made: Callable[..., Any]) -> str:
    """The guard as source, without a loop: most calls that it stands before take a microsecond or two."""
    every = list(signature(function).parameters.values())
    sequences = {p.name for way in signatures(path) for p in way.parameters if p.kind in _SEQUENCES}
    at = path.startswith("Tensor.")
    own = [p.name for p in every]
    positional: list[str] = []
    named: list[str] = []
    keywords: list[str] = []
    key, call, spread = [], [], ""
    for k, p in enumerate(every):
        if p.kind is p.VAR_POSITIONAL:
            spread = p.name
            key.append(f"*map(_type if len(all_{p.name}) > 1 else _kinds, all_{p.name})")
            call.append(f"*all_{p.name}")
            continue
        if p.kind is p.VAR_KEYWORD:
            key.append(f"*{p.name}, *map(_kinds, {p.name}.values())")
            call.append(f"**{p.name}")
            keywords = [f"**{p.name}"]
            continue
        text = p.name if k < at else f"{p.name}=_{k}"
        (named if p.kind is p.KEYWORD_ONLY else positional).append(text)
        key.append(f"_kinds({p.name})" if p.name in sequences else f"{p.name}.__class__")
        call.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name)
    required = [p.name for p in every[at:] if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    others = [] if keywords else spellings([name for name in own if name != spread], path)
    known: Table[Any, bool] = Table("core.arguments.known", 4096)

    def judge(key: Any, *values: Any) -> tuple[Any, ...]:
        with answering(path, every, values):
            lasting = check_bound(path, every[at:], values[at:])
        numbers = plain(path, every[at:], values[at:])
        if lasting and all([a is b for a, b in zip(numbers, values[at:])]):
            known.keep(key, True)
        return (*values[:at], *numbers)

    scope |= {f"_{k}": unset if p.default is p.empty else p.default for k, p in enumerate(every)}
    scope |= {"_known": known.get, "_judge": judge, "_unset": unset, "_Answered": Answered}
    scope["_refused_after"] = partial(refused_after, path, every[at:], at)
    scope["_anew"] = lambda given: anew(path, every, made, given)
    again = ""
    if hasattr(function, "again"):  # what knows calls of a device, or gives None
        scope |= {"_again": function.again, "_Tensor": Tensor}
        there, first = (f"all_{spread} and ", f"all_{spread}[0]") if own[0] == spread else ("", own[0])
        again = _AGAIN.format(there=there, first=first, call=", ".join(call))
    return _GUARD.format(
        definition=", ".join([definition(positional, named, required, others, spread), *keywords]),
        unusual=unusual(required, others, spread),
        missing=missing(required),
        key=", ".join(key),
        values="".join([f"{'all_' * (name == spread)}{name}, " for name in own]),
        call=", ".join(call),
        again=again,
    )


def found_as(function: Any, path: str) -> None:
    """Call it as what users find it by, which pickle looks for."""
    where, _, function.__name__ = path.rpartition(".")
    if where == "Tensor":
        function.__module__, function.__qualname__ = called.package, path
    else:
        function.__module__ = f"{called.package}.{where}" if where else called.package
        function.__qualname__ = function.__name__
        if where in ("linalg", "special", "fft"):  # PyTorch's bindings call them so
            function.__name__ = f"{where}_{function.__name__}"


def renamed(made: Callable[..., Any], function: Callable[..., Any], path: str) -> Callable[..., Any]:
    """A function that stands for another one under a path: as `update_wrapper` makes it, of whose time the annotations, which type checkers
    read from stubs, are the half."""
    made.__module__, made.__doc__ = function.__module__, function.__doc__
    made.__name__, made.__qualname__ = function.__name__, function.__qualname__
    if path:
        found_as(made, path)
    made.__dict__.update(function.__dict__)
    made.__wrapped__ = function  # type: ignore[attr-defined]
    return made


def guard_modules(package: dict[str, Any]) -> None:
    """Guard all that PyTorch has signatures for: a package's names, those of its modules, methods."""
    overrides.armed.namespaces = partial(_namespaces, package)
    for path in _table():
        where, _, name = path.rpartition(".")
        if where in ("inner", "fft"):  # what only PyTorch's own Python calls, and what is read later
            continue
        if where == "Tensor":
            put: Callable[[Any], None] = partial(setattr, Tensor, name)
            names: Mapping[str, Any] = vars(Tensor)
        elif where:
            outer, *inner = where.split(".")
            module = reduce(getattr, inner, package[outer])
            put, names = partial(setattr, module, name), vars(module)
        else:
            put, names = partial(package.__setitem__, name), package
        # Of a method without arguments Python's own refusal will do, unless the function has names for operands.
        if name in names and (_table()[path] != [f"{name}()"] or hasattr(names[name], "known_as")):
            put(guard(path, names[name]))
    functional = vars(package["nn"].functional)
    for name in overrides.SAME:
        if name in package and name in functional:
            functional[name] = package[name]
    _name_methods()


def guard_module(where: str, names: dict[str, Any]) -> None:
    """The same of one that is read when it is first named."""
    for path in functions(where):
        name = path.rpartition(".")[2]
        if name in names:
            names[name] = guard(path, names[name])


def _name_methods() -> None:
    """What overrides a method knows it by its name, so each is an object of its own that is called so."""
    known: set[Any] = set()
    names: set[str] = set()
    for name, function in list(vars(Tensor).items()):
        if type(function) is not FunctionType or overrides.ALIASES.get(name) in names:
            if (
                type(function) is FunctionType
                and function not in known
                and function.__name__ == _FIRST.co_name
            ):
                found_as(function, f"Tensor.{name}")
            continue
        if function in known:
            other = function
            function = FunctionType(
                other.__code__, other.__globals__, name, other.__defaults__, other.__closure__
            )
            function.__kwdefaults__, function.__doc__ = other.__kwdefaults__, other.__doc__
            function.__dict__.update(vars(other))
            setattr(Tensor, name, function)
        known.add(function)
        names.add(name)
        found_as(function, f"Tensor.{name}")


def _namespaces(package: dict[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Where the functions are that can be overridden."""
    gradients = {name: getattr(package["autograd"], name) for name in ("backward", "grad")}
    found: list[tuple[str, Mapping[str, Any]]] = [("", package), ("Tensor", vars(Tensor))]
    found.append(("autograd", gradients))
    for path in ("nn._made", "nn.functional", "nn.init", "linalg", "special", "fft"):
        try:
            module = import_module(f"{package['__name__']}.{path}")
        except ModuleNotFoundError:
            continue
        found.append(("" if path == "nn._made" else path, vars(module)))
    return found


def check_bound(path: str, parameters: Sequence[Any], values: Sequence[Any], anew: bool = False) -> bool:
    """`check` of a call of which only the values of a Python function's parameters are known: whether they were named is not."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    spread = False
    for p, value in zip(parameters, values):
        if p.kind is p.VAR_POSITIONAL:
            args += value
            spread = True
        elif p.kind is p.VAR_KEYWORD:
            kwargs |= value
        elif p.kind is not p.KEYWORD_ONLY:
            args.append(value)
        elif value is not p.default:
            kwargs[p.name] = value
    if not spread:
        while args and args[-1] is parameters[len(args) - 1].default:
            args.pop()
    key = (path, *map(kinds, args), *kwargs, *map(kinds, kwargs.values()))
    if key in _fine and not anew:
        return True
    text, lasting = _judged(path, tuple(args), kwargs)
    refusal, count = text, 0 if spread else len(args)
    while refusal and count:
        count -= 1
        named = {p.name: v for p, v in zip(parameters[count:], args[count:]) if v is not p.default}
        refusal, lasting = _judged(path, tuple(args[:count]), named | kwargs)
    if refusal:
        raise _as_exception(("" if spread else _refused_as_called(path, parameters, args, kwargs)) or text)
    if lasting:
        _fine.keep(key, True)
    return lasting


def _refused_as_called(
    path: str, parameters: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """The refusal of a call of which the code says what it gave by name; "" where it does not, or PyTorch's Python hands them on."""
    if any([way.of_python for way in signatures(path)]):
        return ""
    given = {p.name: v for p, v in zip(parameters, args)} | dict(kwargs)
    named = {name: given[name] for name in _names_of_the_call() if name in given}
    places = [k for k, p in enumerate(parameters[: len(args)]) if p.name in named]
    if not places:
        return ""
    count = min(places)
    while count and args[count - 1] is parameters[count - 1].default:
        count -= 1
    return _judged(path, tuple(args[:count]), named | dict(kwargs))[0]


_HERE = dirname(dirname(__file__))
# Frames that stand between a call and its judgement: guards, as they are written and before, and what they call.
_BEFORE_A_CALL = ("<nbgrad ", join(_HERE, "core"), join(_HERE, "dispatch"))


def _names_of_the_call() -> tuple[str, ...]:
    """Of the arguments that a user's call gave by name, as far as they are in its code: what is bound is bound, whichever way it came."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BEFORE_A_CALL):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(_HERE):
        return ()  # a function of ours, which may name what PyTorch's does not
    steps = [step for step in dis.get_instructions(frame.f_code) if step.offset <= frame.f_lasti][-3:]
    if steps[-1].opname == "CALL_KW":  # from Python 3.13 on
        return tuple(steps[-2].argval)
    found = [frame.f_code.co_consts[step.arg] for step in steps[:-1] if step.opname == "KW_NAMES"]
    return found[-1] if found else ()


def refused_after(path: str, parameters: Sequence[Any], at: int, error: Exception, *values: Any) -> None:
    """Raise what PyTorch says of a call that failed: arguments of kinds that were fine before may have values that are not, and its
    parser would have said so first."""
    check_room(error)
    if any([value is unset for value in values]):
        return  # it has been judged as it was given
    try:
        check_bound(path, parameters, values[at:], anew=True)
        if isinstance(error, IndexError) and state.grad:
            _check_history(path, dict(zip([p.name for p in parameters], values[at:])), values)
    except Exception as refusal:
        raise refusal from None


def _check_history(path: str, named: Mapping[str, Any], values: Sequence[Any]) -> None:
    """What PyTorch asks before it looks at a call's dims and indices: whether it may write to what has a history."""
    recorded = any([isinstance(v, Tensor) and requires(v) for v in values])
    out = named.get("out")
    if recorded and isinstance(out, Tensor) and out.dtype.inexact:
        raise RuntimeError(
            f"{signatures(path)[0].name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if path[:7] == "Tensor." and path[-1] == "_" and values[0].is_leaf and requires(values[0]):
        raise RuntimeError(LEAF_WRITE)


class _Reading(NamedTuple):
    """Of a path's signatures, by place or by name: where tensors are taken, where anything as it is, and where ints."""

    places: frozenset[int]
    names: frozenset[str]
    as_they_are: frozenset[int]
    ints: frozenset[Any]


@cached(None)
def _reading(path: str) -> _Reading:
    takes = [(k, p) for way in signatures(path) if not way.hidden for k, p in enumerate(way.parameters)]
    tensors = [(k, p) for k, p in takes if p.kind[:6] == "Tensor" or p.kind[0] == "."]
    return _Reading(
        frozenset(k for k, p in tensors if not p.named_only),
        frozenset(p.name for _, p in tensors),
        frozenset(k for k, p in takes if p.as_it_is or p.kind[0] == "."),
        frozenset(at for k, p in takes if p.kind in ("ints", "index") for at in (k, p.name)),
    )


_PYTHONS = frozenset((int, float, bool, str, type(None), dtype))  # which are dresses of nothing else


def plain(path: str, parameters: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The arguments of a call, where numbers in PyTorch's other dresses (NumPy's, a tensor's) are Python's."""
    places, names, as_they_are, ints = _reading(path)

    def one(k: int, name: str, value: Any) -> Any:
        if type(value) in _PYTHONS or k in as_they_are:
            return value
        if isinstance(value, Tensor) and (k in places or name in names):
            return value
        counts = (k in ints or name in ints) and _is_index_or_more(value)
        return _plain(value, name not in names, counts)

    def each(k: int, values: Args) -> Args:
        found = tuple([one(k + at, "", v) for at, v in enumerate(values)])
        return values if all([a is b for a, b in zip(found, values)]) else found

    return [
        each(k, v) if p.kind is p.VAR_POSITIONAL else one(k, p.name, v)
        for k, (p, v) in enumerate(zip(parameters, values))
    ]


def _plain(value: Any, inside: bool, counts: bool = False) -> Any:
    if isinstance(value, np.bool_):
        return float(value)  # to PyTorch neither a bool nor an int
    if isinstance(value, np.generic) or (counts and isinstance(value, np.ndarray)):
        return value.item()
    if isinstance(value, Tensor) and type(value._spec) is Spec and (_holds_number(value) or counts):
        return int(value) if counts else value.item()
    if inside and _sequence(value) and any([isinstance(v, (np.generic, np.ndarray, Tensor)) for v in value]):
        return [_plain(v, False, counts) for v in value]
    return value
