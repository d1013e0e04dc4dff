"""What a Python function reads beside its arguments, and whether it is still as it was.

Promises `watched(roots, codes)`: everything that can be reached from functions and objects by names that the executed `codes` use, as one
function without arguments that is true while nothing of it has changed. What cannot be watched is an error that names it.
"""

from __future__ import annotations

import builtins
import dis
import gc
import itertools
import re
import sys
import threading
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any
from weakref import ReferenceType

import numpy as np

from nbgrad import adjoints
from nbgrad.base.ours import is_ours
from nbgrad.compiled.arguments import exact
from nbgrad.compiled.asked import asked
from nbgrad.compiled.capture import Codes
from nbgrad.compiled.graph import Unknown
from nbgrad.compiled.numbers import Spot, kinds, numeric, told
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Size, memory_format
from nbgrad.nn.modules import module
from nbgrad.nn.parameter import Parameter
from nbgrad.nn.utils import parametrize
from nbgrad.ops.make.generator import Generator
from nbgrad.optim._update import RuleOptimizer
from nbgrad.optim.optimizer import Optimizer

MOST = 20000  # objects that are watched at most
_EQUAL = (int, float, str, bytes, complex)
_CONSTANT = (
    *(type, bool, type(None), type(...), range, slice, re.Pattern, BuiltinFunctionType),
    *(MemberDescriptorType, GetSetDescriptorType, type(vars(namedtuple("_Pair", "a"))["a"])),
    *(dtype, device, memory_format, np.ufunc, np.dtype, np.generic, type(np.sum)),
)
_TABLES = (dict, OrderedDict, defaultdict)
_ABSENT = object()
_lines = itertools.count(1)
_OF_MODULES = {*vars(module.Module()), "forward"}
_OURS, _SYSTEM = "nbgrad", sys.stdlib_module_names | {"numpy"}


class State:
    """What was reached, and the lines of the check."""

    def __init__(
        self,
        codes: Codes,
        hooks: bool = True,
        loose: Container[tuple[int, Any]] = (),
        behind: Codes | None = None,
    ) -> None:
        """`hooks` says that tensors must have none; `loose` are the spots of numbers that may be others at each call; `behind` are
        the codes of a call whose backward ran these, which finds tensors as they were."""
        self.codes, self.hooks, self.may, self.behind = codes, hooks, loose, behind
        self.spots: dict[tuple[int, Any], tuple[Spot, Any]] = {}  # where numbers are, and those
        self.loose: dict[tuple[int, Any], Spot] = {}
        self.line = 0  # the same of states that follow one another
        self.used, self.all_read, self.asks, self.walks = asked(codes, behind is not None)
        self.lines: list[tuple[str, str]] = []  # a condition, and what it looks at
        self.names: dict[str, Any] = {"absent": _ABSENT, "Tensor": Tensor}
        self.tensors: dict[int, tuple[Tensor, str]] = {}
        self.keyed: list[Any] = []  # tables whose keys are tensors
        self.optimizers: list[RuleOptimizer] = []
        self._seen: dict[int, Any] = {}
        self._named: dict[int, str] = {}

    @staticmethod
    def fresh() -> int:
        return next(_lines)

    def name(self, value: Any) -> str:
        found = self._named.get(id(value))
        if found is None:
            found = self._named[id(value)] = f"c{len(self.names)}"
            self.names[found] = value
        return found

    def held(self, text: str, value: Any, path: str, holder: Any = None, key: Any = None) -> None:
        """What `text` gives is this value, and the value is as it is now. It may be put elsewhere, if it has a `holder`."""
        if holder is not None and numeric(value):
            spot = Spot(holder, key, path)
            self.spots[spot.identity] = spot, value
            if spot.identity in self.may:
                self.loose[spot.identity] = spot
                self.lines.append((_numbers(text, value), path))
                return
        if type(value) in _EQUAL:
            name, same = self.name(value), exact(value)
            equal = f"v == {name}" if same is value else f"repr(v) == {same!r}"
            self.lines.append(
                (f"((v := {text}) is {name} or (type(v) is {type(value).__name__} and {equal}))", path)
            )
        else:
            self.lines.append((f"{text} is {self.name(value)}", path))
            self.inside(value, path)

    def inside(self, value: Any, path: str) -> None:
        """The value itself is as it is now."""
        kind = type(value)
        if isinstance(value, type):
            self.kind(value)
            return
        if kind in _EQUAL or isinstance(value, _CONSTANT) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if len(self._seen) > MOST:
            raise Unknown(f"more than {MOST} objects can be reached from `{path}`")
        if self.behind is not None and isinstance(value, (Tensor, Optimizer)):
            return
        if isinstance(value, Tensor):
            self._tensor(value, path)
        elif kind in (tuple, Size):
            for k, v in enumerate(value):
                self.inside(v, f"{path}[{k}]")
        elif kind is list:
            name = self.name(value)
            self.lines.append((f"len({name}) == {len(value)}", f"len({path})"))
            for k, v in enumerate(value):
                self.held(f"{name}[{k}]", v, f"{path}[{k}]", value, k)
        elif kind in _TABLES:
            self.table(value, path, "{}[{!r}]")
        elif kind in (set, frozenset):
            if not all(isinstance(v, (*_EQUAL, *_CONSTANT)) for v in value):
                raise Unknown(f"`{path}` is a set of objects")
            self.lines.append((f"{self.name(value)} == {self.name(frozenset(value))}", path))
        elif kind is FunctionType:
            self.function(value, path)
        elif getattr(kind, "_compiled", False):
            self.inside(value.__dict__["_function"], path)
        elif isinstance(value, adjoints.Differentiable):  # what it reads it has read when it was made
            for key in ("function", "policy", "wraparound", "wrt", "signature"):
                self.lines.append(
                    (f"{self.name(value)}.{key} is {self.name(getattr(value, key))}", f"{path}.{key}")
                )
            if value.partial is not None:
                self.inside(value.partial, f"{path}.partial")
        elif kind is MethodType:
            self.inside(value.__self__, f"{path}.__self__")
            self.inside(value.__func__, path)
        elif kind is partial:
            for k, v in enumerate((value.func, value.args, value.keywords)):
                self.inside(v, f"{path}.{('func', 'args', 'keywords')[k]}")
        elif kind is ReferenceType:
            self.held(f"{self.name(value)}()", value(), path)
        elif isinstance(value, ModuleType):
            if value.__name__.split(".")[0] not in (*_SYSTEM, _OURS):
                self._members(value, sorted(self.used & vars(value).keys()))
            elif value.__name__.split(".")[0] == _OURS and self.behind is None:
                self._functions(value)
        elif isinstance(value, Generator):
            pass  # what is drawn is drawn at each call; the names that are used of it are watched where they are used
        elif isinstance(value, Optimizer):
            self._optimizer(value, path)
        elif hasattr(value, "__dict__") and not isinstance(value, (BaseException, CellType)):
            if any("__slots__" in c.__dict__ and c.__dict__["__slots__"] for c in kind.__mro__[:-1]):
                raise Unknown(f"`{path}` is a {kind.__name__}, which has slots")
            if kind.__flags__ & (1 << 9) == 0 or isinstance(value, (list, dict, set, tuple, *_EQUAL)):
                raise Unknown(
                    f"`{path}` is a {kind.__name__}, which is written in C or derived from a container"
                )
            if isinstance(value, threading.local):
                raise Unknown(f"`{path}` is another for each thread")
            self.lines.append((f"type({self.name(value)}) is {self.name(kind)}", f"the class of `{path}`"))
            self.table(value.__dict__, path, "{}.{}", self.read_of(kind))
            self.kind(kind)
        else:
            raise Unknown(f"`{path}` is a {kind.__name__}, whose state cannot be watched")

    def kind(self, kind: type) -> None:
        """What executed code may read of a user's class."""
        metaclass: type = type(kind)
        for cls in (*kind.__mro__, *metaclass.__mro__):
            if id(cls) in self._seen or is_ours(cls.__module__) or cls.__module__.split(".")[0] in _SYSTEM:
                continue
            self._seen[id(cls)] = cls
            own = self.name(gc.get_referents(cls.__dict__)[0])  # the table itself
            self.lines.append((f"len({own}) == {len(cls.__dict__)}", f"the names of `{cls.__name__}`"))
            for key, v in cls.__dict__.items():
                if key not in self.used and id(getattr(v, "__code__", None)) not in self.codes:
                    continue
                path = f"{cls.__name__}.{key}"
                if numeric(v):
                    self.held(f"{self.name(cls)}.__dict__.get({key!r})", v, path, cls, key)
                    continue
                self.lines.append((f"{self.name(cls)}.__dict__.get({key!r}) is {self.name(v)}", path))
                if isinstance(v, staticmethod | classmethod):
                    v = v.__func__
                elif isinstance(v, property):
                    v = v.fget
                self.inside(v, path)

    def read_of(self, kind: type) -> set[str] | None:
        """The attributes that may be read of such an object, if not all: those that executed code names, and nbgrad's own of modules."""
        if self.behind is not None:
            return self.used | {"_modules"}
        ours = [cls for cls in kind.__mro__ if is_ours(cls.__module__)]
        if (
            any(cls is not module.Module for cls in ours)
            or self.all_read
            or hasattr(kind, "__dataclass_fields__")
        ):
            return None
        if any(cls.__module__.split(".")[0] in _SYSTEM for cls in kind.__mro__ if cls is not object):
            return None
        return self.used | (_OF_MODULES if ours else set())

    def table(self, value: dict[Any, Any], path: str, shown: str, read: set[str] | None = None) -> None:
        """Of what is not `read` only the names are watched."""
        name = self.name(value)
        if self.behind is None or read is None:
            length = f"len({name}) == {len(value)}" if value else f"not {name}"
            self.lines.append((length, f"the keys of `{path}`"))
        if any(isinstance(key, Tensor) for key in value):
            self.keyed.append(value)
        elif (
            self.walks
            and shown.endswith("]")
            and len(value) > 1
            and not path.endswith(("._parameters", "._buffers"))
            and all(type(key) in (str, int) for key in value)
        ):
            self.lines.append((f"[*{name}] == {self.name([*value])}", f"the order of `{path}`"))
        for key, v in value.items():
            if read is not None and key not in read:
                if self.behind is None:
                    self.lines.append((f"{key!r} in {name}", f"the keys of `{path}`"))
                continue
            if not isinstance(key, (*_EQUAL, *_CONSTANT, Tensor)):
                raise Unknown(f"`{path}` has keys that are objects")
            text = repr(key) if type(key) in (str, int) else self.name(key)
            where = path if isinstance(key, Tensor) else shown.format(path, key)
            holder = value if type(key) in (str, int) else None
            self.held(f"{name}.get({text}, absent)", v, where, holder, key)

    def function(self, value: FunctionType, path: str) -> None:
        if is_ours(value.__module__):
            return
        for k, v in enumerate(value.__defaults__ or ()):
            self.inside(v, f"a default of `{path}`, {k}")
        for key, v in (value.__kwdefaults__ or {}).items():
            self.inside(v, f"{path}({key}=)")
        if value.__dict__:
            self.table(value.__dict__, path, "{}.{}")
        if id(value.__code__) not in self.codes:
            for cell in value.__closure__ or () if self.behind is not None else ():
                self._through(_contents(cell), path)
            return
        self.lines.append((f"{self.name(value)}.__code__ is {self.name(value.__code__)}", path))
        for name in ("__defaults__", "__kwdefaults__"):
            if (given := getattr(value, name)) is not None:
                self.lines.append(
                    (f"{self.name(value)}.{name} is {self.name(given)}", f"the defaults of `{path}`")
                )
        for cell_name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            if (contents := _contents(cell)) is not _ABSENT:
                self.held(f"{self.name(cell)}.cell_contents", contents, cell_name, cell)

    def _through(self, value: Any, path: str) -> None:
        """What only leads to what is read; whether it can be watched was asked of the whole call."""
        with suppress(Unknown):
            self.inside(value, path)

    def globals(self) -> None:
        """The names that executed code takes from its module, and from modules that these are."""
        for code, scope in list((self.behind or {}).values()):
            for name in scope.keys() & set(code.co_names):
                self._through(scope[name], name)
        for code, scope in list(self.codes.values()):
            table, of = self.name(scope), scope.get("__name__", "")
            for each in dis.get_instructions(code):
                imported = sys.modules.get(each.argval) if each.opname == "IMPORT_NAME" else None
                if imported is not None and each.argval.split(".")[0] != _OURS:
                    self._members(imported, code.co_names)
            for used in code.co_names:
                if used in scope:
                    value = scope[used]
                    path = f"{of}.{used}"
                    self.held(f"{table}.get({used!r}, absent)", value, path, scope, used)
                    if isinstance(value, ModuleType) and not value.__name__.startswith("nbgrad"):
                        self._members(value, code.co_names)
                elif hasattr(builtins, used):
                    self.lines.append((f"{used!r} not in {table}", f"{of}.{used}"))

    def _functions(self, module: ModuleType) -> None:
        """Those of nbgrad's own that are called by name, in whose place a user may put others; and switches, `backends.cudnn.benchmark`."""
        table = self.name(vars(module))
        for used in sorted(self.used & vars(module).keys()):
            value = vars(module)[used]
            if isinstance(value, (FunctionType, BuiltinFunctionType, bool, int, float, str)):
                line = f"{table}.get({used!r}, absent) is {self.name(value)}"
                self.lines.append((line, f"{module.__name__}.{used}"))
            elif isinstance(value, ModuleType):
                self.inside(value, value.__name__)

    def _members(self, module: ModuleType, names: Iterable[str]) -> None:
        for used in names:
            if used in module.__dict__:
                value = module.__dict__[used]
                if isinstance(value, ModuleType) and value is not module and id(value) not in self._seen:
                    self._seen[id(value)] = value
                    if not value.__name__.startswith("nbgrad"):
                        self._members(value, names)
                self.held(
                    f"{self.name(module.__dict__)}.get({used!r}, absent)",
                    value,
                    f"{module.__name__}.{used}",
                    module.__dict__,
                    used,
                )

    def _tensor(self, t: Tensor, path: str) -> None:
        if type(t) not in (Tensor, Parameter):
            raise Unknown(f"`{path}` is a {type(t).__name__}")
        self.tensors[id(t)] = t, path
        if t.__dict__:
            self.table(t.__dict__, path, "{}.{}", None if self.all_read else self.used)
        elif self.asks:
            self.lines.append((f"not {self.name(t)}.__dict__", f"the attributes of `{path}`"))
        n, b, s = self.name(t), self.name(t._buf), self.name(t._spec)
        self.lines.append((f"{n}._buf is {b} and {n}._spec is {s} and {n}._rg == {t._rg}", path))
        if t._node is not None:
            raise Unknown(f"`{path}` has a history, and is no argument")
        self.lines.append((f"{n}._node is None", path))
        if not self.hooks:
            return
        ad = t._ad
        if ad is not None and (ad.hooks or ad.post_hooks or ad.retains):
            raise Unknown(f"`{path}` has hooks")
        self.lines.append((f"(({n}._ad is None) or not ({n}._ad.hooks or {n}._ad.post_hooks))", path))

    def _optimizer(self, value: Optimizer, path: str) -> None:
        """Numbers of its groups are asked for again at each call, but for those that decide what a step does; where the user's own
        code may read them they are watched as well."""
        read = not self.used.isdisjoint(("param_groups", "defaults", "state_dict"))
        if not isinstance(value, RuleOptimizer):
            raise Unknown(
                f"`{path}` is a {type(value).__name__}, whose step is more than a rule for each element"
            )
        self.optimizers.append(value)
        own = {k: v for k, v in value.__dict__.items() if k not in ("_tables", "state", "param_groups")}
        name = self.name(value)
        for key, v in own.items():
            if key not in ("defaults", "_zero_grad_profile_name"):
                self.held(f"{name}.{key}", v, f"{path}.{key}")
        self.lines.append((f"len({name}.param_groups) == {len(value.param_groups)}", f"{path}.param_groups"))
        for k, group in enumerate(value.param_groups):
            self.lines.append((f"{name}.param_groups[{k}] is {self.name(group)}", f"{path}.param_groups"))
            g = self.name(group)
            self.lines.append((f"len({g}) == {len(group)}", f"{path}.param_groups[{k}]"))
            for key, v in group.items():
                where = f"{path}.param_groups[{k}][{key!r}]"
                if isinstance(v, Tensor):
                    raise Unknown(f"`{where}` is a tensor")
                if key == "params":
                    self.held(f"{g}.get('params')", v, where)
                elif read or type(v) not in (float, tuple):
                    self.held(f"{g}.get({key!r}, absent)", v, where, group, key)
            rule = value._rule(group, False)
            self.lines.append((f"{name}._rule({g}, False) is {self.name(rule)}", f"{path}.param_groups[{k}]"))
        states = value.state
        self.lines.append((f"{name}.state is {self.name(states)}", f"{path}.state"))
        self.lines.append((f"len({self.name(states)}) == {len(states)}", f"{path}.state"))
        for p, kept in states.items():
            where = f"{path}.state"
            if not isinstance(p, Tensor) or type(kept) is not dict:
                raise Unknown(f"`{where}` is not a table of tensors")
            self.lines.append((f"{self.name(states)}.get({self.name(p)}) is {self.name(kept)}", where))
            self.inside(kept, where)

    def switches(self) -> None:
        """What users switch for the whole process, by which nbgrad's own functions choose."""
        table = self.name(vars(parametrize))
        self.lines.append(
            (f"{table}.get('_caching') is {self.name(parametrize._caching)}", "parametrize.cached()")
        )

    def seen(self) -> list[Any]:
        """All objects that were reached."""
        return [*self._seen.values()]

    def moved(self) -> list[Spot]:
        """Where numbers are others by now."""
        found = []
        for spot, was in self.spots.values():
            now = spot.now()
            if now is not None and now != was and kinds(now) == kinds(was):
                found.append(spot)
        return found

    def values(self) -> list[Any]:
        """The numbers that may be others at each call."""
        return [spot.now() for spot in self.loose.values()]

    def check(self, lines: Sequence[str] | None = None) -> Callable[[], bool]:
        """Of all lines, or of some."""
        return _function(self.lines if lines is None else [(line, "") for line in lines], self.names)

    def holds(self) -> bool:
        try:
            return self.check()()
        except Exception:
            return False

    def changed(self) -> str:
        """What the first condition that does not hold looks at."""
        for line, path in self.lines:
            try:
                if not _function([(line, path)], self.names)():
                    return path
            except Exception:
                return path
        return "something that is as it was by now"


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _numbers(text: str, value: Any) -> str:
    """The condition that there are numbers of the same kinds."""
    if type(value) is not tuple:
        return told(type(value), text)
    each = [told(type(v), f"v[{k}]") for k, v in enumerate(value)]
    return f"(type(v := {text}) is tuple and len(v) == {len(value)} and {' and '.join(each)})"


def _function(lines: list[tuple[str, str]], names: dict[str, Any]) -> Callable[[], bool]:
    unique = dict.fromkeys(line for line, _ in lines)
    used = dict(names)
    # As defaults they are locals, which are read the quickest; Python takes any number of them.
    conditions = "\n        and ".join(unique) or "True"
    defaults = ", ".join(f"{n}={n}" for n in names)
    text = f"def holds({defaults}):\n    return (\n        {conditions}\n    )\n"
    exec(compile(text, "<what nbgrad.compile watches>", "exec"), used)
    made: Callable[[], bool] = used["holds"]
    return made


def watched(
    function: Any,
    given: Iterable[Any],
    codes: Codes,
    hooks: bool = True,
    loose: Container[tuple[int, Any]] = (),
    behind: Codes | None = None,
) -> State:
    """`given` are arguments that are objects with a state of their own."""
    state = State(codes, hooks, loose, behind)
    state.inside(function, getattr(function, "__name__", type(function).__name__))
    if not isinstance(function, (FunctionType, MethodType, partial)):
        call = type(function).__call__
        state.inside(call, type(function).__name__)
    for value in given:
        state.inside(value, "an argument")
    state.globals()
    for name, value in vars(module).items():
        if name.startswith("_global_"):
            state.inside(value, name)
    state.switches()
    return state
