"""PyTorch's signatures, read from `signatures.txt`: the kinds of arguments that each takes, in what order, and whether a call is one that
it takes, judged once for each combination of kinds."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index
from os.path import splitext
from typing import Any

import numpy as np

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import Table, cached
from nbgrad.base.warn import warn, warn_once
from nbgrad.core.refusals import SIZES_DIFFER
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import broadcast_shapes

Args = tuple[Any, ...]
Judge = Callable[[Any], bool]
# ---------------------------------------------------------------- kinds

_STORAGES = ("UntypedStorage", "TypedStorage")
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


def _is_layout(value: Any) -> bool:
    """Of the strided one: functions make no sparse tensors, and of other layouts there is the name alone, which says so."""
    kind = type(value).__name__
    if kind == "Unbuilt":
        value()
    if kind == "layout" and repr(value) != "torch.strided":
        from nbgrad.names.absent import refuse

        refuse(f"{value!r} in such a function")
    return kind == "layout"


_JUDGES: dict[str, tuple[str, Judge]] = {
    "Tensor": ("Tensor", lambda v: isinstance(v, Tensor)),
    "Number": ("Number", lambda v: _is_number(v) or _holds_number(v)),
    "int": ("int", lambda v: _is_int(v) or _holds_int(v)),
    "index": ("int", _is_index),
    "float": ("float", lambda v: isinstance(v, (int, float, *_NUMBERS)) or _holds_number(v)),
    "bool": ("bool", lambda v: isinstance(v, bool)),
    "str": ("str", lambda v: isinstance(v, (str, bytes))),
    "dtype": (
        "torch.dtype",
        lambda v: isinstance(v, dtype) or v is float or v is int or v is bool or v is complex,
    ),
    "device": ("torch.device", lambda v: isinstance(v, (device, str)) or _is_int(v)),
    "object": ("object", lambda v: True),
    "truth": ("object", lambda v: v is None or not isinstance(v, Tensor) or v.__bool__() is not None),
    "Generator": ("torch.Generator", lambda v: type(v).__name__ == "Generator"),
    "Storage": ("torch.Storage", lambda v: type(v).__name__ in _STORAGES),
    "layout": ("torch.layout", _is_layout),
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

# Objects: what a tensor is made of, by whatever dress its numbers have, what is written to, and tensors that PyTorch's Python looks at.
_AS_THEY_ARE = frozenset(("data", "obj", "out", "input", "grid", "_random_samples"))
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
    if t.__name__ in _STORAGES:
        return f"torch.storage.{t.__name__}"
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
    def as_it_is(self) -> bool:
        """Whether a tensor there stands for no number."""
        return self.kind == "object" and self.name in _AS_THEY_ARE

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
                and not p.as_it_is
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
        ending = "s" * (len(names) == 1)  # as PyTorch has it
        return f"{self.name}() missing {len(names)} required positional argument{ending}: " + ", ".join(
            f'"{n}"' for n in names
        )

    def warn(self, ways: Sequence[Signature]) -> None:
        """Of a deprecated form."""
        texts = [f"\t{way.name}{way}" for way in ways if not way.hidden]
        instead = "\n".join(texts)
        warn_once(
            f"This overload of {self.name} is deprecated:\n\t{self.name}{self}\nConsider using one of the following signatures "
            f"instead:\n{instead}",
            topic="deprecated overloads",
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


def _broadcast(input: Any, target: Any) -> None:
    """As losses do, which warn of sizes before these are refused; where they can be broadcast it is the loss that warns."""
    if isinstance(input, Tensor) and isinstance(target, Tensor):
        try:
            broadcast_shapes(input.shape, target.shape)
        except RuntimeError:
            warn(SIZES_DIFFER.format(target.shape, input.shape))
            raise


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
    with open(splitext(__file__)[0] + ".txt", encoding="utf-8") as f:
        lines = f.read().splitlines()
    for line in lines:
        if line[0] == "[":
            where = "" if line == "[torch]" else line[1:-1] + "."
        else:
            found.setdefault(where + line.partition("(")[0].partition(" ")[0], []).append(line)
    return found


def functions(where: str) -> list[str]:
    """The names of PyTorch's functions of tensors in `torch` or a module in it."""
    start = "" if where == "torch" else f"{where}."
    return [path for path in _table() if path.startswith(start) and "." not in path.removeprefix(start)]


@cached(None)
def signatures(path: str) -> list[Signature]:
    """Of `sum`, `Tensor.sum`, `linalg.norm`; none where PyTorch's function is itself one of Python."""
    where, _, name = path.rpartition(".")
    own = f"{where}_{name}" if where in ("linalg", "special", "fft") else name
    made = []
    for line in _table().get(path, ()):
        head, _, rest = line.partition("(")
        text, _, mark = rest.partition(")")
        called = f"Tensor.{name}" if where == "Tensor" else name
        made.append(Signature(head.partition(" as ")[2] or own, text, mark[1:], called))
    return made


# ---------------------------------------------------------------- judging a call


# Kinds that need not be judged again. Lists of any length are each a kind, so there is no end of kinds.
_fine: Table[Any, bool] = Table("core.signatures.fine", 4096)


def kinds(value: Any) -> Any:
    return (type(value), *map(type, value)) if type(value) in (tuple, list) else type(value)


def check(path: str, args: Args, kwargs: Mapping[str, Any]) -> bool:
    """Raise PyTorch's TypeError if it does not take these arguments, of a method those that follow the tensor; and say whether that
    holds for all of such kinds."""
    key = (path, *map(kinds, args), *kwargs, *map(kinds, kwargs.values()))
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
