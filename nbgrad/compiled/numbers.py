"""Python numbers that differ from call to call: they become inputs of a program, with what Python makes of them.

Promises `Numbers(...)`: a call with numbers, among the arguments and in `Spot`s (attributes, items, variables), that note what is done
with them, all the way to the launches. Arithmetic is done again at each call, a comparison becomes a condition of the program, and
whatever else would look at a number (`int`, an index, a key) is an error.
"""

from __future__ import annotations

import dis
import gc
import math
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import BuiltinFunctionType, CellType, CodeType, ModuleType, SimpleNamespace
from typing import Any

from nbgrad.compiled.graph import Unknown
from nbgrad.compiled.made import record
from nbgrad.optim._update import RuleOptimizer

_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LOOKS = (
    *(
        "hash",
        "int",
        "trunc",
        "floor",
        "ceil",
        "round",
        "divmod",
        "rdivmod",
        "str",
        "repr",
        "format",
        "float",
    ),
    *("complex", "index", "reduce", "reduce_ex", "getnewargs", "copy", "deepcopy"),
)
_ALONE = ("is_integer", "hex", "as_integer_ratio", "conjugate", "fromhex")
_FARTHEST = {int: 2**53, float: 1e300}  # beyond, floats are not what integers are, and sums overflow


class Leak(BaseException):
    """A number is looked at in a way that is not known: nobody is to catch it. `text` says which, if that is known."""

    last: Leak | None = None  # where somebody does

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(why)
        self.text = text
        Leak.last = self


class Number(float):
    """A number that knows how it comes from the arguments."""

    text: str
    of: Numbers
    kind: type = float  # of what was given

    def __pos__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        return self.of.made(-float.__add__(self, 0.0), f"(-{self.text})")

    def __abs__(self) -> Any:
        return self.of.made(float.__abs__(self), f"abs({self.text})")

    def __bool__(self) -> bool:
        return self.of.decided(f"bool({self.text})")


def _plain(value: Any) -> Any:
    return float.__add__(value, 0.0) if type(value) is Number else value


def _shown(value: Any) -> str:
    if type(value) is Number:
        return value.text
    if type(value) in (int, float) and math.isfinite(value):
        return f"({value!r})"
    raise Leak(f"it meets a {type(value).__name__}")


def _forward(name: str, sign: str) -> Any:
    def forward(self: Number, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.of.made(
            getattr(float, f"__{name}__")(_plain(self), _plain(other)),
            f"({self.text} {sign} {_shown(other)})",
        )

    return forward


def _backward(name: str, sign: str) -> Any:
    def backward(self: Number, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        value = getattr(float, f"__r{name}__")(_plain(self), _plain(other))
        return self.of.made(value, f"({_shown(other)} {sign} {self.text})")

    return backward


def _comparison(name: str, sign: str) -> Any:
    def compare(self: Number, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        if type(other) is float and not math.isfinite(other):  # which no number reaches
            return getattr(float, f"__{name}__")(_plain(self), other)
        return self.of.decided(f"{self.text} {sign} {_shown(other)}")

    return compare


def _leak(name: str) -> Any:
    def looked(self: Any, *args: Any) -> Any:
        raise Leak(f"`{name}` looks at it", self.text)

    return looked


for _name, _sign in _ARITHMETIC.items():
    setattr(Number, f"__{_name}__", _forward(_name, _sign))
    setattr(Number, f"__r{_name}__", _backward(_name, _sign))
for _name, _sign in _COMPARED.items():
    setattr(Number, f"__{_name}__", _comparison(_name, _sign))
for _name in _LOOKS:
    setattr(Number, f"__{_name}__", _leak(_name))
for _name in _ALONE:
    setattr(Number, _name, _leak(_name))
for _name in ("real", "imag"):
    setattr(Number, _name, property(_leak(_name)))


class Asked(float):
    """A number of a launch that is worked out at each call: the so-many-th."""

    index: int

    def __eq__(self, other: object) -> bool:
        return type(other) is Asked and other.index == self.index

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("asked", self.index))

    def __repr__(self) -> str:
        return f"#{self.index}"


class Spot:
    """Where Python keeps a number, or a tuple of numbers: an item of a table or list, a variable of a function, an attribute of a class."""

    def __init__(self, holder: Any, key: Any, path: str) -> None:
        self.holder, self.key, self.path = holder, key, path

    @property
    def identity(self) -> tuple[int, Any]:
        return id(self.holder), self.key

    def get(self) -> Any:
        if isinstance(self.holder, CellType):
            return self.holder.cell_contents
        return (self.holder.__dict__ if isinstance(self.holder, type) else self.holder)[self.key]

    def put(self, value: Any) -> None:
        if isinstance(self.holder, CellType):
            self.holder.cell_contents = value
        elif isinstance(self.holder, type):
            setattr(self.holder, self.key, value)
        else:
            self.holder[self.key] = value

    def text(self, name: str) -> str:
        """How a program reads it, which knows `scope` by this name."""
        return f"{name}.cell_contents" if isinstance(self.holder, CellType) else f"{name}[{self.key!r}]"

    @property
    def scope(self) -> Any:
        return self.holder.__dict__ if isinstance(self.holder, type) else self.holder

    def now(self) -> Any:
        """What is there, if it still is numbers that may be inputs."""
        try:
            value = self.get()
        except (LookupError, ValueError):
            return None
        return value if numeric(value) else None


def numeric(value: Any) -> bool:
    """Whether it is a number, or a tuple of numbers, that may be an input."""
    if type(value) is tuple:
        return bool(value) and all([type(v) in _FARTHEST and near(v) for v in value])
    return type(value) in _FARTHEST and near(value)


def kinds(value: Any) -> Any:
    """Which numbers it is."""
    return tuple(map(type, value)) if type(value) is tuple else type(value)


class Numbers:
    """The numbers of a call at these paths: those given, others in their place, and what was made of these."""

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], paths: Sequence[str], spots: Sequence[Spot] = ()
    ) -> None:
        self.args, self.kwargs = args, kwargs
        # What the call was given, also while others are in its place.
        self.scope: dict[str, Any] = {"args": _copied(args), "kwargs": _copied(kwargs), "math": math}
        self.names: dict[str, Any] = {}  # what programs read numbers from
        self.conditions: dict[str, None] = {}
        self.texts: dict[str, int] = {}
        self.paths = set(paths)
        self.planted: list[tuple[Spot, Any, Any]] = []  # what was there, and what is now
        self.every: list[Any] = []
        self.spots: dict[str, Spot] = {}
        for k, spot in enumerate(spots):
            name, value = f"spot{k}", spot.get()
            self.spots[name], self.names[name] = spot, spot.scope
            cell = isinstance(spot.holder, CellType)
            self.scope[name] = SimpleNamespace(cell_contents=value) if cell else {spot.key: value}

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with other numbers, which note what is done with them; in lists, tables and variables they are put in their place."""

        def other(path: str, value: Any) -> Any:
            away = value + 1 if type(value) is int else value * 1.0009765625 + 1e-9
            made = self.made(float(away), path)
            made.kind = type(value)
            return made

        def inside(path: str, value: Any) -> Any:
            if path in self.paths:
                found.add(path)
                return other(path, value)
            if isinstance(value, tuple) and any(p.startswith(f"{path}[") for p in self.paths):
                return _tuple(type(value), [inside(f"{path}[{k}]", v) for k, v in enumerate(value)])
            if type(value) in (list, dict) and any(p.startswith(f"{path}[") for p in self.paths):
                for k, v in [*enumerate(value)] if type(value) is list else [*value.items()]:
                    if (new := inside(f"{path}[{k!r}]", v)) is not v:
                        self.plant(Spot(value, k, f"{path}[{k!r}]"), new)
            elif record(value):
                for k, v in vars(value).items():
                    if (new := inside(f"{path}.{k}", v)) is not v:
                        self.plant(Spot(vars(value), k, f"{path}.{k}"), new)
            return value

        found: set[str] = set()
        args = tuple([inside(f"args[{k}]", v) for k, v in enumerate(self.args)])
        kwargs = {k: inside(f"kwargs[{k!r}]", v) for k, v in self.kwargs.items()}
        if found != self.paths:
            raise Unknown(f"`{min(self.paths - found)}` cannot be another number")
        for name, spot in self.spots.items():
            text, value = spot.text(name), spot.get()
            if type(value) is tuple:
                self.plant(spot, tuple([other(f"{text}[{k}]", v) for k, v in enumerate(value)]))
            else:
                self.plant(spot, other(text, value))
        return args, kwargs

    def plant(self, spot: Spot, new: Any) -> None:
        self.planted.append((spot, spot.get(), new))
        spot.put(new)

    def told(self) -> None:
        """Leave there the plain numbers that the others are, on which what was recorded is to be done again."""
        for k, (spot, was, new) in enumerate(self.planted):
            if spot.get() is not new:
                raise Unknown(f"`{spot.path}` is not as it was before the call")
            plain = tuple(map(_kept, new)) if type(new) is tuple else _kept(new)
            spot.put(plain)
            self.planted[k] = spot, was, plain

    def put_back(self) -> None:
        """All as it was, also where the function itself has kept such a number."""
        for spot, was, _ in reversed(self.planted):
            spot.put(was)
        left = [n for one in self.every if (n := one()) is not None]
        for holder in gc.get_referrers(*left) if left else ():
            if holder is left:
                continue
            table = holder if isinstance(holder, (dict, list)) else getattr(holder, "__dict__", None)
            if isinstance(holder, CellType) and type(holder.cell_contents) is Number:
                holder.cell_contents = self.now(holder.cell_contents)
            elif isinstance(table, (dict, list)):
                for k, v in [*enumerate(table)] if isinstance(table, list) else [*table.items()]:
                    if type(v) is Number:
                        table[k] = self.now(v)

    def value(self, text: str) -> Any:
        """Of the call itself; who records takes this for no code of the user's."""
        return eval(compile(text, "<nbgrad numbers>", "eval"), dict(self.scope))

    def now(self, number: Any) -> Any:
        """What it would have been in the call itself."""
        return self.value(number.text)

    def made(self, value: Any, text: str) -> Any:
        if type(value) is not float or not math.isfinite(value):
            raise Leak(f"{text} is no finite number", text)
        made = Number(value)
        made.text, made.of = text, self
        if len(text) > 2000:
            raise Leak("too much is made of it", text)
        self.every.append(weakref.ref(made))
        return made

    def decided(self, text: str) -> bool:
        """What the call's own numbers decide, so that the trial goes its way and has no other effects."""
        outcome = bool(self.value(text))
        self.conditions[f"({text}) is {outcome}"] = None
        return outcome

    def asked(self, before: Any, now: Any, kind: str) -> Asked:
        """The number of a launch, which was `before` when the call itself was done."""
        if kind != "d":
            raise Unknown("a number is given to a kernel of integers")
        was = self.value(now.text)
        if struct.pack("=d", was) != struct.pack("=d", before):
            raise Unknown(f"Python gave a kernel the number {before!r}, which is not {now.text}")
        made = Asked(_plain(now))
        made.index = self.texts.setdefault(now.text, len(self.texts))
        return made

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Functions of `math` know such numbers meanwhile, and optimizers, which are asked for theirs at each call, see plain ones."""
        Leak.last = None
        step = RuleOptimizer._step_group

        def stepped(self: Any, number: int, group: dict[str, Any]) -> None:
            held = {k: v for k, v in group.items() if type(v) is Number or _holds(v)}
            group.update({k: tuple(map(_kept, v)) if type(v) is tuple else _kept(v) for k, v in held.items()})
            try:
                step(self, number, group)
            finally:
                group.update(held)

        before = {n: f for n, f in vars(math).items() if isinstance(f, BuiltinFunctionType)}

        def of(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            def known(*args: Any, **kwargs: Any) -> Any:
                if not any(type(a) is Number for a in args) and not kwargs:
                    rows = [[*a] if hasattr(a, "__iter__") else a for a in args]
                    if any(type(x) is Number for row in rows if isinstance(row, list) for x in row):
                        raise Leak(f"`math.{name}` looks at it")
                    return function(*rows)
                if kwargs:
                    if any(type(a) is Number for a in (*args, *kwargs.values())):
                        raise Leak(f"`math.{name}` looks at it")
                    return function(*args, **kwargs)
                value = function(*map(_plain, args))
                text = f"math.{name}({', '.join(map(_shown, args))})"
                if type(value) is bool:
                    return self.decided(text)
                return self.made(value, text)

            return known

        for name, function in before.items():
            setattr(math, name, of(name, function))
        RuleOptimizer._step_group = stepped  # type: ignore[method-assign]
        try:
            yield
            if Leak.last is not None:
                raise Leak.last
        finally:
            Leak.last = None
            RuleOptimizer._step_group = step  # type: ignore[method-assign]
            for name, function in before.items():
                setattr(math, name, function)


def understood(codes: Any, objects: Sequence[Any]) -> None:
    """Refuse what reads numbers in C unseen: NumPy, and functions of `math` that were imported by name."""
    for code, scope in codes.values():
        if _formats(code):
            raise Unknown("`%` may look at a number")
        for name in code.co_names:
            value = scope.get(name)
            if _reads(value):
                raise Unknown(f"`{name}` may look at a number")
    for value in objects:
        if _reads(value):
            raise Unknown("NumPy may look at a number")


def _formats(code: CodeType) -> bool:
    """Whether it may format by `%`, which asks nobody for the number."""
    return any(isinstance(c, str) and "%" in c for c in code.co_consts) and any(
        each.opname == "BINARY_MODULO" or each.argrepr.startswith("%") for each in dis.get_instructions(code)
    )


def _copied(value: Any) -> Any:
    """Containers of arguments with what is in them now."""
    if type(value) is list:
        return [_copied(v) for v in value]
    if isinstance(value, tuple):
        return _tuple(type(value), [_copied(v) for v in value])
    if type(value) is dict:
        return {k: _copied(v) for k, v in value.items()}
    return SimpleNamespace(**{k: _copied(v) for k, v in vars(value).items()}) if record(value) else value


def _tuple(kind: Any, items: list[Any]) -> Any:
    """Such a tuple, which may have names."""
    return kind._make(items) if hasattr(kind, "_make") else tuple(items)


def _holds(value: Any) -> bool:
    return type(value) is tuple and any([type(v) is Number for v in value])


def _kept(value: Any) -> Any:
    """The plain number of the kind that was given."""
    return value if type(value) is not Number else value.kind(_plain(value))


def _reads(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.split(".")[0] in (
            "numpy",
            "scipy",
            "cmath",
            "decimal",
            "fractions",
            "struct",
            "array",
        )
    if isinstance(value, BuiltinFunctionType):
        return value.__module__ in ("math", "cmath", "_struct")
    return (
        type(value).__module__.split(".")[0] == "numpy"
        or (getattr(value, "__module__", None) or "").split(".")[0] == "numpy"
    )


def near(value: Any) -> bool:
    """Whether it may be an input."""
    far = _FARTHEST[type(value)]
    return -far < value < far


def lines_of(error: BaseException) -> list[tuple[Any, int]]:
    """The lines that led there, the innermost first."""
    found = []
    at = error.__traceback__
    while at is not None:
        found.append((at.tb_frame.f_code, at.tb_lineno))
        at = at.tb_next
    return found[::-1]


def told(kind: type, path: str) -> str:
    """The condition that it is such a number."""
    far = _FARTHEST[kind]
    return f"type(t := {path}) is {kind.__name__} and -{far!r} < t < {far!r}"
