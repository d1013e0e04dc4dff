"""Which arguments PyTorch takes, and its words on others.

Promises the layers above that a call is judged as PyTorch's own parser judges it: `arguments.txt` holds the signatures that it tries, in
its order, and from them alone follow what is accepted, what it is converted to, and the text of the TypeError. Judging takes
microseconds, so it is done once for each combination of kinds: `guard` remembers those that were fine, and ops that keep a plan
for each call ask when they make one.
"""

from __future__ import annotations

import warnings
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce, update_wrapper
from inspect import signature
from keyword import iskeyword
from operator import index
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from nbgrad.base.tables import Table, cached
from nbgrad.core.refusals import LEAF_WRITE
from nbgrad.core.tensor import Tensor, requires
from nbgrad.memory.backend import check_room
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import broadcast_shapes
from nbgrad.memory.storage import Spec
from nbgrad.tape.modes import state

Args = tuple[Any, ...]
Judge = Callable[[Any], bool]

# ---------------------------------------------------------------- kinds

_INTS, _NUMBERS = (np.integer,), (np.integer, np.floating, np.bool_, np.complexfloating)


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, *_NUMBERS))


def _holds_int(t: Any) -> bool:
    return (
        isinstance(t, Tensor)
        and not t.ndim
        and not t.requires_grad
        and str(t.dtype.kind)[0] in "iu"
        and t.dtype.category == 1
    )


def _is_index(value: Any) -> bool:
    """Whether it counts as an int where sizes and places are meant: also a tensor of one element, and what Python can index with."""
    if type(value) is int:
        return True
    if isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(value, Tensor):
        return value.numel() == 1 and value.dtype.category <= 1
    try:
        return hasattr(value, "__index__") and index(value) is not None
    except TypeError:
        return False


def _is_index_or_more(value: Any) -> bool:
    """Or a sequence of what counts as ints."""
    return all(map(_is_index, value)) if _sequence(value) else _is_index(value)


def _holds_number(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.ndim and not value.requires_grad


_JUDGES: dict[str, tuple[str, Judge]] = {
    "Tensor": ("Tensor", lambda v: isinstance(v, Tensor)),
    "Number": ("Number", lambda v: _is_number(v) or _holds_number(v)),
    "int": ("int", lambda v: _is_int(v) or _holds_int(v)),
    "index": ("int", _is_index),
    "float": ("float", lambda v: isinstance(v, (int, float, *_NUMBERS)) or _holds_number(v)),
    "bool": ("bool", lambda v: isinstance(v, bool)),
    "str": ("str", lambda v: isinstance(v, (str, bytes))),
    "dtype": ("torch.dtype", lambda v: isinstance(v, dtype) or v is float or v is int or v is bool),
    "device": ("torch.device", lambda v: isinstance(v, (device, str)) or _is_int(v)),
    "object": ("object", lambda v: True),
    "truth": ("object", lambda v: v is None or not isinstance(v, Tensor) or v.__bool__() is not None),
    "Generator": ("torch.Generator", lambda v: type(v).__name__ == "Generator"),
    "layout": ("torch.layout", lambda v: type(v).__name__ == "layout"),
    "memory_format": ("torch.memory_format", lambda v: type(v).__name__ == "memory_format"),
    "flag": ("bool", lambda v: isinstance(v, bool) or (isinstance(v, Tensor) and v.__bool__() is None)),
    "ints": ("tuple of ints", lambda v: _sequence(v) and (not v or _is_index(v[0]))),
    "floats": ("tuple of floats", lambda v: _sequence(v) and (not v or _JUDGES["float"][1](v[0]))),
    "Numbers": ("tuple of Scalars", lambda v: _sequence(v) and all(map(_is_number, v))),
    "Tensors": ("tuple of Tensors", lambda v: _sequence(v) and all(isinstance(t, Tensor) for t in v)),
    "TensorsOrNone": (
        "tuple of Tensors",
        lambda v: _sequence(v) and all(t is None or isinstance(t, Tensor) for t in v),
    ),
}


_SEQUENCES = ("ints", "floats", "Numbers", "Tensors", "TensorsOrNone")


def _sequence(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def kind_name(value: Any) -> str:
    """What PyTorch calls the type of a value: as C does, with the module of types that are not made by a class statement."""
    t = type(value)
    if t in (dtype, device) or t.__name__ in ("Size", "layout", "memory_format"):
        return f"torch.{t.__name__}"
    if t.__name__ == "Generator":
        return "torch._C.Generator"
    return (
        t.__name__ if t.__flags__ & 1 << 9 or t.__module__ == "builtins" else f"{t.__module__}.{t.__name__}"
    )


# ---------------------------------------------------------------- signatures


class Parameter(NamedTuple):
    kind: str
    name: str
    size: int  # of a sequence of ints for which one int may stand
    default: str | None
    may_be_none: bool
    named_only: bool
    shown: str  # what it is called where it is refused
    place: int | None  # where PyTorch's own Python puts it: 0, by name; None, where it stands

    @property
    def words(self) -> str:
        return _JUDGES[self.kind][0]

    @property
    def text(self) -> str:
        return f"{self.words} {self.name}" + ("" if self.default is None else f" = {self.default}")

    def accepts(self, value: Any, numbers: bool) -> bool:
        if self.kind[0] == ".":
            return hasattr(value, self.kind[1:])
        if self.kind == "Tensor" and numbers and _is_number(value):
            return True
        if self.kind == "ints" and self.size and not isinstance(value, np.ndarray) and _is_index(value):
            return True
        return _JUDGES[self.kind][1](value)


# Of these PyTorch takes numbers where its signatures say Tensor.
_TAKE_NUMBERS = frozenset(
    name + ending
    for name in (
        *("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide"),
        *("copy", "to"),
    )
    for ending in ("", "_")
)
_OTHER_NAMES = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}


class _NoAttribute(str):
    """The words on what a Python function of PyTorch's reads an attribute of (a parameter of the kind `.size`), and has none."""

    __slots__ = ()


class Signature:
    """One way of calling a function."""

    def __init__(self, name: str, text: str, mark: str = "", called: str = "") -> None:
        self.name, self.parameters, self.called = name, list(_parameters(text)), called or name
        self.hidden, self.of_python = mark == "hidden", mark.startswith("python")
        self.first = mark[7:]  # what PyTorch's Python does with the arguments before it hands them on
        self.most = len(self.parameters)
        self.least = sum(p.default is None for p in self.parameters)
        self.positional = sum(not p.named_only for p in self.parameters)
        # Of one sequence of ints the elements may be given one by one.
        self.spread = self.positional == 1 and self.parameters[0].kind == "ints"

    def __str__(self) -> str:
        texts = [p.text for p in self.parameters]
        if self.positional < self.most:
            texts.insert(self.positional, "*")
        return f"({', '.join(texts)})"

    def refusal(self, args: Args, kwargs: Mapping[str, Any]) -> str | None:
        """Why these arguments do not fit, or None if they do."""
        if not self.parameters and self.called[:7] == "Tensor." and (args or kwargs):
            method = f"TensorBase.{self.name}()"
            return f"{method} takes no {'keyword arguments' if kwargs else f'arguments ({len(args)} given)'}"
        if self.of_python and (unbound := self._unbound(args, kwargs)):
            return unbound
        if self.first:
            self._do_first(args, kwargs)
        if len(args) > self.positional and not self.spread:
            return self._surplus(args)
        at, left = 0, len(kwargs)
        for p in self.parameters:
            by_name = at >= len(args)
            if by_name:
                also = () if self.of_python else _OTHER_NAMES.get(p.name, ())
                given = next((n for n in (p.name, *also) if n in kwargs), None)
                if given is None:
                    if p.default is None:
                        return self._missing(at, kwargs)
                    continue
                value = kwargs[given]
                left -= 1
            else:
                if p.named_only:
                    return self._surplus(args)
                value = args[at]
            if not (value is None and p.may_be_none) and not p.accepts(value, self.name in _TAKE_NUMBERS):
                if self.spread and not by_name:
                    if _is_index(value):
                        at = len(args)  # the elements one by one
                        continue
                    if len(args) > 1:
                        return self._surplus(args)
                return self._wrong(p, value, None if by_name else at, self._name(args, kwargs))
            at += not by_name
        if at < len(args):
            return self._surplus(args)
        return self._unknown(args, kwargs) if left else None

    def _do_first(self, args: Args, kwargs: Mapping[str, Any]) -> None:
        """Raises what PyTorch's Python raises, which knows arguments by what it does with them alone."""
        given = {p.name: _value(p.default) for p in self.parameters} | dict(kwargs)
        eval(_compiled(self.first), _words(), given | {p.name: v for p, v in zip(self.parameters, args)})

    def _unbound(self, args: Args, kwargs: Mapping[str, Any]) -> str:
        """Python's words where PyTorch's function is itself one of Python, and these are not its arguments."""
        names = [p.name for p in self.parameters]
        own = self.called.startswith("Tensor.")
        if len(args) > self.positional:
            least, most, count = self.least + own, self.positional + own, len(args) + own
            takes = f"{most} positional argument{'s' * (most != 1)}"
            if least != most:
                takes = f"from {least} to {most} positional arguments"
            return f"{self.called}() takes {takes} but {count} {'was' if count == 1 else 'were'} given"
        for name in kwargs:
            if name not in names:
                return f"{self.called}() got an unexpected keyword argument '{name}'"
            if names.index(name) < len(args):
                return f"{self.called}() got multiple values for argument '{name}'"
        lacking = [
            f"'{p.name}'" for p in self.parameters[len(args) :] if p.default is None and p.name not in kwargs
        ]
        if not lacking:
            return ""
        several = ", ".join(lacking[:-1]) + "," * (len(lacking) > 2) + " and " * (len(lacking) > 1)
        ending = "s" * (len(lacking) > 1)
        return f"{self.called}() missing {len(lacking)} required positional argument{ending}: {several}{lacking[-1]}"

    def unfit(self, args: Args, kwargs: Mapping[str, Any]) -> str | None:
        """Of arguments that fit, what cannot be taken out of a sequence: only its first element was looked at."""
        given = {p.name: v for p, v in zip(self.parameters, args)} | dict(kwargs)
        for p in self.parameters:
            value = given.get(p.name)
            if type(value) is int and not -(2**63) <= value < 2**63:
                if p.kind in ("int", "index"):
                    raise ValueError("Overflow when unpacking long long")
                if p.kind == "Number" and value < 0:
                    raise OverflowError("can't convert negative int to unsigned")
                if p.kind == "Number" and value >= 2**64:
                    raise OverflowError("int too big to convert")
            if p.kind != "ints" or value is None:
                continue
            if p is self.parameters[0] and self.spread and not _sequence(value):
                value = args
            for k, n in enumerate(value if _sequence(value) else ()):
                if type(n) is int and not -(2**63) <= n < 2**63:
                    return (
                        f"{self.name}(): argument '{p.name}' failed to unpack the object at pos {k + 1} with error "
                        '"Overflow when unpacking long long"'
                    )
                if k and not (isinstance(n, bool) or _is_index(n)):
                    return (
                        f"{self.name}(): argument '{p.name}' failed to unpack the object at pos {k + 1} with error "
                        f'"type must be tuple of ints,but got {kind_name(n)}"'
                    )
        return None

    def looks_inside(self, args: Args, kwargs: Mapping[str, Any]) -> bool:
        """Whether a tensor stands for a number, which not every one can."""
        given = [*zip(self.parameters, args), *((p, kwargs.get(p.name)) for p in self.parameters)]
        return any(
            [
                p.kind[:6] != "Tensor"
                and p.kind[0] != "."
                and (
                    isinstance(v, (Tensor, np.ndarray))
                    or (_sequence(v) and any([isinstance(n, (Tensor, np.ndarray)) for n in v]))
                )
                for p, v in given
            ]
        )

    def _name(self, args: Args, kwargs: Mapping[str, Any]) -> str:
        """Of what PyTorch's Python calls: where that is told to, the one that writes over its input."""
        if not self.first.endswith("bool(inplace)"):
            return self.name
        at = [p.name for p in self.parameters].index("inplace")
        return self.name + "_" * bool(args[at] if at < len(args) else kwargs.get("inplace"))

    def _wrong(self, p: Parameter, value: Any, at: int | None, name: str) -> str:
        if p.kind[0] == ".":
            what = (
                f"type object '{value.__name__}'"
                if isinstance(value, type)
                else f"'{kind_name(value)}' object"
            )
            return _NoAttribute(f"{what} has no attribute '{p.kind[1:]}'")
        at = at if p.place is None else p.place - 1
        if at is None or at < 0:
            return f"{name}(): argument '{p.shown}' must be {p.words}, not {kind_name(value)}"
        if p.kind == "Tensors" and _sequence(value):
            k = next(k for k, t in enumerate(value) if not isinstance(t, Tensor))
            return f"expected Tensor as element {k} in argument {at}, but got {kind_name(value[k])}"
        text = f"{name}(): argument '{p.shown}' (position {at + 1}) must be {p.words}, "
        if p.kind == "ints" and _sequence(value):
            return f"{text}but found element of type {kind_name(value[0])} at pos 0"
        return f"{text}not {kind_name(value)}"

    def _surplus(self, args: Args) -> str:
        most = self.positional
        takes = f"from {self.least} to {most} positional arguments"
        if self.least == most:
            takes = f"{most} positional argument{'s' * (most != 1)}"
        were = "was" if len(args) == 1 and self.least == most else "were"
        return f"{self.name}() takes {takes} but {len(args)} {were} given"

    def _missing(self, at: int, kwargs: Mapping[str, Any]) -> str:
        names = [p.name for p in self.parameters[at:] if p.default is None and p.name not in kwargs]
        return f"{self.name}() missing {len(names)} required positional arguments: " + ", ".join(
            f'"{n}"' for n in names
        )

    def warn(self, ways: Sequence[Signature]) -> None:
        """Of a deprecated form."""
        texts = [f"\t{way.name}{way}" for way in ways if not way.hidden]
        instead = "\n".join(texts)
        warnings.warn(
            f"This overload of {self.name} is deprecated:\n\t{self.name}{self}\nConsider using one of the following signatures "
            f"instead:\n{instead}",
            stacklevel=5,
        )

    def _unknown(self, args: Args, kwargs: Mapping[str, Any]) -> str:
        names = [p.name for p in self.parameters]
        for name in kwargs:
            if name not in names:
                return f"{self.name}() got an unexpected keyword argument '{name}'"
            if names.index(name) < len(args):
                return f"{self.name}() got multiple values for argument '{name}'"
        return "invalid keyword arguments"


def _value(default: str | None) -> Any:
    try:
        return literal_eval(default or "None")
    except ValueError:  # a word, which the table does not quote
        return default


@cached(None)
def _compiled(expressions: str) -> Any:
    return compile(f"({expressions},)", "<what PyTorch's Python does>", "eval")


def _refuse(text: str, kind: type[Exception] = ValueError) -> None:
    raise kind(text)


def _broadcast(*tensors: Any) -> None:
    if all([isinstance(t, Tensor) for t in tensors]):
        broadcast_shapes(*[t.shape for t in tensors])


def _told(size_average: Any, reduce: Any) -> bool:
    """Whether a loss is told in the old way how to reduce; arguments that are neither true nor false raise."""
    if size_average is not None:
        bool(size_average)
    if reduce is not None:
        bool(reduce)
    return size_average is not None or reduce is not None


def _reducing(reduction: Any, size_average: Any = None, reduce: Any = None) -> None:
    if not _told(size_average, reduce) and reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


@cached(None)
def _words() -> dict[str, Any]:
    """What the table's expressions may call."""
    words = {"refuse": _refuse, "told": _told, "reducing": _reducing, "check": check, "Tensor": Tensor}
    return words | {"broadcast": _broadcast}


def _parameters(text: str) -> Iterator[Parameter]:
    named_only = False
    for part in filter(None, text.split(", ")):
        if part == "*":
            named_only = True
            continue
        kind, _, rest = part.partition(" ")
        name, equals, default = rest.partition("=")
        name, _, place = name.partition("@")
        name, _, shown = name.partition("/")
        optional = kind.endswith("?")
        kind, _, size = kind.rstrip("?").partition("[")
        yield Parameter(
            kind,
            name,
            int(size.rstrip("]") or 0),
            default if equals else None,
            optional or default == "None",
            named_only,
            shown or name,
            int(place) if place else None,
        )


@cached(None)
def _table() -> dict[str, list[str]]:
    """Lines by the path of the function that they are of."""
    found: dict[str, list[str]] = {}
    where = ""
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line[0] == "[":
            where = "" if line == "[torch]" else line[1:-1] + "."
        else:
            found.setdefault(where + line.partition("(")[0].partition(" ")[0], []).append(line)
    return found


@cached(None)
def signatures(path: str) -> list[Signature]:
    """Of `sum`, `Tensor.sum`, `linalg.norm`; none where PyTorch's function is itself one of Python."""
    where, _, name = path.rpartition(".")
    own = f"{where}_{name}" if where in ("linalg", "special") else name
    made = []
    for line in _table().get(path, ()):
        head, _, rest = line.partition("(")
        text, _, mark = rest.partition(")")
        called = f"Tensor.{name}" if where == "Tensor" else name
        made.append(Signature(head.partition(" as ")[2] or own, text, mark[1:], called))
    return made


# ---------------------------------------------------------------- judging a call


_fine: Table[Any, bool] = Table("core.arguments.fine", 4096)  # kinds that need not be judged again


def _kinds(value: Any) -> Any:
    return (type(value), *map(type, value)) if type(value) in (tuple, list) else type(value)


def check(path: str, args: Args, kwargs: Mapping[str, Any]) -> bool:
    """Raise PyTorch's TypeError if it does not take these arguments, of a method those that follow the tensor; and say whether that
    holds for all of such kinds."""
    key = (path, *map(_kinds, args), *kwargs, *map(_kinds, kwargs.values()))
    if key in _fine:
        return True
    refusal, lasting = _judged(path, args, kwargs)
    if refusal:
        raise _as_exception(refusal)
    if lasting:
        _fine.keep(key, True)
    return lasting


def _as_exception(refusal: str) -> Exception:
    return AttributeError(str(refusal)) if isinstance(refusal, _NoAttribute) else TypeError(refusal)


def _remember(known: set[Any], key: Any) -> None:
    """Lists of any length are each a kind, so there is no end of kinds."""
    if len(known) >= 4096:
        known.clear()
    known.add(key)


def _judged(path: str, args: Args, kwargs: Mapping[str, Any]) -> tuple[str, bool]:
    """Why PyTorch does not take these arguments ("" if it does), and whether that holds for all of such kinds."""
    ways = signatures(path)
    for way in ways:
        if way.refusal(args, kwargs) is None:
            return way.unfit(args, kwargs) or "", not way.looks_inside(args, kwargs)
    return _refused(ways, args, kwargs) if ways else "", True


def _refused(ways: Sequence[Signature], args: Args, kwargs: Mapping[str, Any]) -> str:
    """Where one of several signatures has room for that many arguments, what it says; else the list of them."""
    if len(ways) == 1:
        return ways[0].refusal(args, kwargs) or ""
    given = len(args) + len(kwargs)
    shown = [way for way in ways if not way.hidden]
    likely = [way for way in shown if way.least <= given <= way.most]
    return (likely[0].refusal(args, kwargs) or "") if len(likely) == 1 else _none_fits(shown, args, kwargs)


def _none_fits(ways: Sequence[Signature], args: Args, kwargs: Mapping[str, Any]) -> str:
    """PyTorch's list of what it would have taken. Of each signature it reads only the printed text, where a name with a default ends
    in the default and the star is an argument; what it says of arguments follows from that."""
    named = dict(reversed(list(kwargs.items())))  # as its table gives them
    got = ", ".join([*map(kind_name, args), *(f"{k}={kind_name(v)}" for k, v in named.items())])
    got = f"({got}{', ' * (not args and bool(named))})"
    start = f"{ways[0].name}() received an invalid combination of arguments - got "
    found = [_misfit(str(way), args, named) for way in ways]
    if len(ways) == 1:
        wrong, kinds = found[0]
        if wrong:
            return f"{start}unrecognized keyword arguments: {wrong}"
        return f"{start}{kinds or got}, but expected {ways[0]}"
    lines = [f"{start}{got}, but expected one of:"]
    for way, (wrong, kinds) in zip(ways, found):
        lines.append(f" * {way}")
        if kinds:
            lines.append(
                f"      didn't match because some of the keywords were incorrect: {wrong}"
                if wrong
                else f"      didn't match because some of the arguments have invalid types: {kinds}"
            )
    return "\n".join(lines) + "\n"


def _misfit(text: str, args: Args, named: Mapping[str, Any]) -> tuple[str, str]:
    """The names that a printed signature does not know, and the arguments with marks where kinds differ (if they are as many as its)."""
    listed = [part.rpartition(" ") for part in text[1:-1].split(", ")]
    names = [name for _, _, name in listed]
    last = names[max(len(names) - len(named), 0) :]
    wrong = ", ".join([n for n in named if n not in last])
    if len(listed) != len(args) + len(named):
        return wrong, ""
    if wrong:
        return wrong, "?"
    texts = []
    for k, (kind, _, name) in enumerate(listed):
        value = args[k] if k < len(args) else named[name]
        fits = kind_name(value) == kind or (kind == "float" and type(value) is int)
        mark = "" if fits else "!"
        texts.append(f"{mark}{'' if k < len(args) else name + '='}{_described(value)}{mark}")
    return "", f"({', '.join(texts)}{', ' * (not args)})"


def _described(value: Any) -> str:
    if not _sequence(value):
        return kind_name(value)
    inner = ", ".join(map(kind_name, value))
    if isinstance(value, list):
        return f"list of [{inner}]"
    return f"{kind_name(value)} of ({inner}{',' * (len(value) == 1)})"


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
    at = path.startswith("Tensor.")
    first, kwargs = _as_given(path, every, given)
    args = tuple(first[at:])
    check(path, args, kwargs)
    ways = signatures(path)
    way = next((way for way in ways if way.refusal(args, kwargs) is None), None)
    if way is None:
        raise TypeError(f"{path}() does not take these arguments")
    if way.hidden:
        way.warn(ways)
        kwargs |= zip([p.name for p in way.parameters], args)
        args = ()
    elif way.spread and len(args) > 1 and not any([p.kind is p.VAR_POSITIONAL for p in every]):
        return function(*first[:at], args, **kwargs)
    has = [p.name for p in every]
    # Where memory lies is the same for all tensors, so most functions have no names for it.
    given_names = kwargs.keys()
    kwargs = {name: v for name, v in kwargs.items() if name in has or name not in ("layout", "pin_memory")}
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
    return function(*first[:at], *args, **named)


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
    if ({key},) not in _known:
        if {missing}:
            return _anew(locals())
        {values}= _judge(({key},), {values})
    try:
        return _function({call})
    except Exception as error:
        _refused_after(error, {values})
        raise
"""
_FIRST = compile(
    "def first(*args, **kwargs):\n    return _become(args, kwargs)", "<guard>", "exec"
).co_consts[0]


def guard(path: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, asked only for arguments that PyTorch takes. One that looks at new kinds of arguments itself is told under
    which name it is known."""
    known_as = getattr(function, "known_as", None)
    if known_as is not None:
        return known_as(path)
    scope: dict[str, Any] = {"_function": function, "_kinds": _kinds, "_type": type}
    return written_later(lambda made: _guarded(path, function, scope, made), "guarded", scope, function, path)


def written_later(
    write: Callable[[Any], str], name: str, scope: dict[str, Any], function: Callable[..., Any], path: str
) -> Any:
    """A function that stands before another one. Its source is written and compiled at its first call: there are hundreds. It stays the
    same object, as users keep functions (`act = F.relu`)."""
    made: Any = FunctionType(_FIRST, scope)

    def become(args: Args, kwargs: dict[str, Any]) -> Any:
        exec(write(made), scope)
        written = scope[name]
        made.__defaults__, made.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
        made.__code__ = written.__code__
        return made(*args, **kwargs)

    scope["_become"] = become
    return renamed(made, function, path)


def before_guard(
    shortened: Callable[[Callable[..., Any]], Callable[..., Any]], function: Callable[..., Any]
) -> Callable[..., Any]:
    """The function with a short way in front, which takes only what PyTorch does; all else passes the guard."""

    def known_as(path: str) -> Callable[..., Any]:
        made: Any = renamed(shortened(guard(path, function)), function, path)
        made.__code__ = made.__code__.replace(co_name=made.__name__)  # by which a profiler knows it
        return made

    short = renamed(shortened(function), function, "")
    short.known_as = known_as  # type: ignore[attr-defined]
    return short


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
    known: set[Any] = set()

    def judge(key: Any, *values: Any) -> tuple[Any, ...]:
        lasting = check_bound(path, every[at:], values[at:])
        numbers = plain(path, every[at:], values[at:])
        if lasting and all([a is b for a, b in zip(numbers, values[at:])]):
            _remember(known, key)
        return (*values[:at], *numbers)

    scope |= {f"_{k}": unset if p.default is p.empty else p.default for k, p in enumerate(every)}
    scope |= {"_known": known, "_judge": judge, "_unset": unset}
    scope["_refused_after"] = partial(refused_after, path, every[at:], at)
    scope["_anew"] = lambda given: anew(path, every, made, given)
    return _GUARD.format(
        definition=", ".join([definition(positional, named, required, others, spread), *keywords]),
        unusual=unusual(required, others, spread),
        missing=missing(required),
        key=", ".join(key),
        values="".join([f"{'all_' * (name == spread)}{name}, " for name in own]),
        call=", ".join(call),
    )


def renamed(made: Callable[..., Any], function: Callable[..., Any], path: str) -> Callable[..., Any]:
    """A function that stands for another one under a path."""
    update_wrapper(made, function)
    if path:
        made.__name__ = made.__qualname__ = path.rpartition(".")[2]
    return made


def guard_modules(package: dict[str, Any]) -> None:
    """Guard all that PyTorch has signatures for: a package's names, those of its modules, methods."""
    for path in _table():
        where, _, name = path.rpartition(".")
        if where == "inner":  # what only PyTorch's own Python calls
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
    key = (path, *map(_kinds, args), *kwargs, *map(_kinds, kwargs.values()))
    if key in _fine and not anew:
        return True
    text, lasting = _judged(path, tuple(args), kwargs)
    refusal, count = text, 0 if spread else len(args)
    while refusal and count:
        count -= 1
        named = {p.name: v for p, v in zip(parameters[count:], args[count:]) if v is not p.default}
        refusal, lasting = _judged(path, tuple(args[:count]), named | kwargs)
    if refusal:
        raise _as_exception(text)
    if lasting:
        _fine.keep(key, True)
    return lasting


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
    if recorded and isinstance(out, Tensor) and out.dtype.is_floating_point:
        raise RuntimeError(
            f"{signatures(path)[0].name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if path[:7] == "Tensor." and path[-1] == "_" and values[0].is_leaf and requires(values[0]):
        raise RuntimeError(LEAF_WRITE)


_AS_IT_IS = (
    "data",
    "obj",
    "out",
)  # what a tensor is made of, by whatever dress its numbers have, and what is written to


def plain(path: str, parameters: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The arguments of a call, where numbers in PyTorch's other dresses (NumPy's, a tensor's) are Python's."""
    takes = [(k, p) for way in signatures(path) if not way.hidden for k, p in enumerate(way.parameters)]
    tensors = [(k, p) for k, p in takes if p.kind[:6] == "Tensor" or p.kind[0] == "."]
    places, names = {k for k, p in tensors if not p.named_only}, {p.name for _, p in tensors}
    data = {k for k, p in takes if p.kind == "object" and p.name in _AS_IT_IS}
    ints = [(k, p.name) for k, p in takes if p.kind in ("ints", "index")]
    read_of = {k for k, p in takes if p.kind[0] == "."}

    def one(k: int, name: str, value: Any) -> Any:
        if k in data or k in read_of:
            return value
        if isinstance(value, Tensor) and (k in places or name in names):
            return value
        counts = any([k == at or name == shown for at, shown in ints])
        return _plain(value, name not in names, counts and _is_index_or_more(value))

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
