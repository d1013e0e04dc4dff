"""`__torch_function__`: who may answer a call in the place of the function that was called, and how he is asked.

Promises plain tensors that this costs them nothing: while nobody overrides anything, a function's code is its own. The first
instance of a class that overrides, and a mode while it is on, put another code into every public function (`arm`), which looks at
the kinds of the arguments and calls the function's own code, its twin, unless somebody wants to be asked. The function stays the same
object, so those that users hold (`act = F.relu`) follow.

What is handed over is PyTorch's: the function or method as users name it, the types that override, and the arguments as they were
given; functions that are Python's there hand on all their arguments, as `overridden.txt` has it.
"""

from __future__ import annotations

import warnings
import weakref
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from os.path import splitext
from threading import RLock
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from nbgrad.base.ours import is_ours
from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Size
from nbgrad.tape.modes import shared, state

Args = tuple[Any, ...]
ALL, MODES_ONLY, NOBODY = 2, 1, 0  # who is asked: classes and modes, modes, nobody

# Kinds that override nothing, for the code that looks at them: it is told of more by who makes them.
plain_types: set[type] = {Tensor, int, float, bool, str, complex, bytes, type(None), type(...), slice, range}
plain_types |= {dtype, device, Size, np.ndarray, np.float64, np.float32, np.int64, np.bool_}
_modes: list[Any] = []  # as many as are on, in all threads
_below: set[object] = (
    set()
)  # one for each mode that is on and each instance that lives which takes operators over
# Kinds of tensors that no function looks for: their specs are in no plan, and who judges calls of new kinds asks what these answer.
elsewhere: dict[type, Callable[..., Any]] = {}
lock = RLock()
inner: dict[int, Any] = {}  # by the function before which another code was put for good, what has its own


class _Armed:
    """What is armed: `overriding` says that there is an instance of a class that overrides, so that it stays so."""

    overriding = False
    on = False
    below: Callable[..., Any] | None = None  # what asks who takes operators over, while anybody may
    namespaces: Callable[[], list[tuple[str, Mapping[str, Any]]]] = staticmethod(lambda: [])


armed = _Armed()


class _Disabled:
    """`Class.__torch_function__` of classes that override nothing, such as `torch.nn.Parameter`."""

    __name__ = __qualname__ = "_disabled_torch_function_impl"

    def __call__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with switched(min(state.asked, MODES_ONLY)):
            return func(*args, **(kwargs or {}))

    def __repr__(self) -> str:
        return "<built-in function _disabled_torch_function_impl>"

    def __reduce__(self) -> str:
        return "disabled"


disabled: Any = _Disabled()


def dispatch_disabled(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`__torch_dispatch__` of classes that take no operators over: the operator is called."""
    return func(*args, **(kwargs or {}))


class switched:
    """Within it, this thread asks only these, `ALL`, `MODES_ONLY` or `NOBODY`."""

    __slots__ = ("asked", "before")

    def __init__(self, asked: int) -> None:
        self.asked = asked

    def __enter__(self) -> None:
        self.before, state.asked = state.asked, self.asked

    def __exit__(self, *_: object) -> None:
        state.asked = self.before


# ---------------------------------------------------------------- who overrides


def overrides(kind: type) -> bool:
    """Whether instances are asked: `Tensor` and `Parameter` are not, nor are those of a PyTorch beside, which would call the same again."""
    if kind in plain_types:
        return False
    found = getattr(kind, "__torch_function__", None)
    if found is None or found is disabled:
        return False
    return is_ours("torch._C") or "torch._C" not in [k.__module__ for k in kind.__mro__]


def asked_of(values: Iterable[Any]) -> list[Any]:
    """Of values, those whose classes override, one for each class; a class before those that it inherits from."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in plain_types or not overrides(kind):
            continue
        if not found:
            found.append(value)
            continue
        if any([type(other) is kind for other in found]):
            continue
        at = next((k for k, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(at, value)
    return found


def _inside(values: Iterable[Any]) -> Iterator[Any]:
    """Of arguments, also what lists and tuples hold."""
    for value in values:
        kind = type(value)
        if kind in plain_types:
            continue
        if isinstance(value, (tuple, list)) and not overrides(kind):
            yield from value
        else:
            yield value


def seen(args: Iterable[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Who overrides among the arguments of a call."""
    return asked_of(_inside((*args, *kwargs.values()) if kwargs else args))


def answered_elsewhere(path: str, args: Args, kwargs: Mapping[str, Any]) -> partial[Any] | None:
    """The call as one of the kinds among its arguments answers it, those that inherit before others; None where there is none."""
    kinds = [type(one) for one in _inside((*args, *kwargs.values())) if type(one) in elsewhere]
    if not kinds:
        return None
    most = max(kinds, key=lambda kind: len(kind.__mro__))
    return elsewhere[most](path.rpartition(".")[2], args, kwargs)


def takes(kind: type) -> bool:
    """Whether a class takes operators over, by its `__torch_dispatch__`."""
    return getattr(kind, "__torch_dispatch__", dispatch_disabled) is not dispatch_disabled


def note_instance(instance: Any) -> None:
    """Who makes an instance of a subclass says so."""
    kind = type(instance)
    below = takes(kind)
    if below:
        left = weakref.finalize(instance, leave_below, take_below())
        left.atexit = False
        if getattr(kind.__torch_function__, "__func__", None) is _torch_function:
            kind.__torch_function__ = disabled  # who answers below is not asked above
    if not armed.overriding and (below or overrides(kind)):
        armed.overriding = True
        arm()


def finalizer_of(instance: Any) -> weakref.finalize[..., Any] | None:
    """What tells that an instance of a class that takes operators over is gone."""
    for ref in weakref.getweakrefs(instance):
        told: Any = ref.__callback__
        held = told.peek() if isinstance(told, weakref.finalize) else None
        if held is not None and held[1] is leave_below:
            return told
    return None


def take_below() -> object:
    """Until what this gives has left operators may be taken over: backwards ask, too, and use no memory of gradients again."""
    user = object()
    with lock:
        _below.add(user)
        if armed.below is None:
            import_module(f"{__name__.partition('.')[0]}._aten.calls").arm()
            shared.count(1)
    return user


def leave_below(user: object) -> None:
    """A mode is off, or an instance gone."""
    with lock:
        _below.discard(user)
        if not _below and armed.below is not None:
            armed.below = shared.run_node = shared.add = None
            shared.count(-1)


# ---------------------------------------------------------------- asking


def ask(
    func: Callable[..., Any], types: Args, who: Iterable[Any], args: Args, kwargs: Any, python: bool
) -> Any:
    """The answer of the first of the modes and instances that has one."""
    asked, modes = list(who), state.functions
    if modes:
        mode = modes[-1]
        state.functions = modes[:-1]
        try:
            result = mode.__torch_function__(func, types, args, kwargs)
        finally:
            state.functions = (*state.functions, mode)
        if result is not NotImplemented:
            return result
    for one in asked:
        method = one.__torch_function__
        if getattr(method, "__self__", None) is one and method is not disabled:
            warnings.warn(
                f"Defining your `__torch_function__{'' if python else '`'} as a plain method is deprecated and will be an error in "
                "future, please define it as a classmethod.",
                DeprecationWarning if python else UserWarning,
                stacklevel=4,
            )
        result = method(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(_unanswered(func, asked, python))


def _unanswered(func: Any, asked: list[Any], python: bool) -> str:
    mode = state.functions[-1] if state.functions else None
    name = getattr(func, "__name__", str(func))
    if python:
        entry = _entries.get(id(func))
        module = getattr(func, "__module__", None)
        if entry is not None:
            module = f"torch.{entry.path.rpartition('.')[0] or 'functional'}"
        text = f"no implementation found for '{module}.{name}' on types that implement "
        text += f"__torch_function__: {[type(one) for one in asked]}"
        return text if mode is None else f"{text} nor in mode {mode}"
    owner = "torch.Tensor" if vars(Tensor).get(name) is func or name in ("__get__", "__set__") else "torch"
    lines = [
        f"Multiple dispatch failed for '{owner}.{name}'; all __torch_function__ handlers returned NotImplemented:\n\n"
    ]
    if mode is not None:
        lines.append(f"  - mode object {mode!r}\n")
    for one in asked:
        lines.append(f"  - tensor subclass {type(one)!r}\n")
    return "".join([*lines, "\nFor more information, try re-running with TORCH_LOGS=not_implemented"])


@cached(None)
def _handed_on() -> dict[str, str]:
    """Lines of `overridden.txt` by path."""
    with open(splitext(__file__)[0].removesuffix("overrides") + "overridden.txt", encoding="utf-8") as f:
        return {line.partition("(")[0]: line for line in f.read().splitlines()}


class _Handed:
    """What a function that is Python's in PyTorch hands on."""

    def __init__(self, line: str) -> None:
        inside, _, asked = line.partition("(")[2].rpartition(") ")
        self.asked = asked.split()
        self.as_given = inside == "*args, **kwargs"
        self.by_place: list[str] = []
        self.by_name: dict[str, Any] = {}
        self.lacking: set[str] = set()
        self.spread = ""
        named = False
        for part in [] if self.as_given else inside.split(", "):
            name, has_default, default = part.partition("=")
            if name == "|":
                named = True
            elif name[0] == "*":
                self.spread = name[1:]
            elif named:
                self.by_name[name] = literal_eval(default) if has_default else None
                if not has_default:
                    self.lacking.add(name)
            else:
                self.by_place.append(name)

    def bound(self, args: Args, kwargs: Mapping[str, Any]) -> tuple[Args, dict[str, Any]] | None:
        """The arguments as they are handed on; None of those that the function refuses."""
        if self.as_given:
            return args, dict(kwargs)
        if self.spread:
            if any([name not in self.by_name for name in kwargs]):
                return None
            listed = len(args) == len(self.by_place) + 1 and isinstance(args[-1], (tuple, list))
            if listed and self.spread != "sizes":  # of tensors
                args = (*args[:-1], *args[-1])
            return args, self.by_name | dict(kwargs)
        names = [*self.by_place, *self.by_name]
        given = dict(zip(names, args))
        if len(args) > len(names) or any([name in given or name not in names for name in kwargs]):
            return None
        given |= kwargs
        if any([name not in given for name in (*self.by_place, *self.lacking)]):
            return None
        return tuple([given[n] for n in self.by_place]), {n: given.get(n, d) for n, d in self.by_name.items()}

    def relevant(self, args: Args, kwargs: Mapping[str, Any]) -> list[Any]:
        if "*" in self.asked or self.as_given:
            return list(_all_inside([*args, *kwargs.values()]))
        given = dict(zip(self.by_place, args)) | dict(kwargs)
        return [given[name] for name in self.asked if name in given]


def _all_inside(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from value
        else:
            yield value


def python_asked(values: Iterable[Any]) -> list[Any]:
    """As `asked_of`, of PyTorch's functions in Python: to them `Tensor` itself overrides."""
    found: list[Any] = []
    if state.asked < ALL:
        return found
    for value in values:
        kind = type(value)
        method = getattr(kind, "__torch_function__", None)
        if method is None or method is disabled or any([type(other) is kind for other in found]):
            continue
        at = next((k for k, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(at, value)
    return found


# ---------------------------------------------------------------- the functions that are asked for

# Of methods, whose `func` PyTorch hands over.
ALIASES = {
    **{f"__{n}__": n for n in ("abs", "add", "ge", "gt", "le", "lt", "matmul", "mul", "ne", "neg", "sub")},
    **{"__div__": "div", "__truediv__": "div", "__mod__": "remainder", "__pos__": "positive"},
    **{"__radd__": "add", "__rmul__": "mul", "__rdiv__": "__rtruediv__", "__nonzero__": "__bool__"},
    **{"__rand__": "bitwise_and", "__ror__": "bitwise_or", "__rxor__": "bitwise_xor", "__long__": "__int__"},
    **{f"__i{n}__": f"{n}_" for n in ("add", "div", "mul", "sub")},
    **{"__itruediv__": "div_", "__ifloordiv__": "floor_divide_", "__imod__": "remainder_"},
    **{"ndimension": "dim", "nelement": "numel", "_grad": "grad", "_grad_fn": "grad_fn"},
    **{"__str__": "__repr__", "to_sparse_coo": "to_sparse"},
}
# Of these a TypeError, whosever it is, says that Python may ask the other operand.
OPERATORS = {
    f"Tensor.__{way}{name}__"
    for name in (
        *("add", "sub", "mul", "matmul", "truediv", "div", "floordiv", "mod", "pow", "lshift", "rshift"),
        *("and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge"),
    )
    for way in ("", "r", "i")
}
# Not asked for, not even by modes: they take no tensor, or belong to the protocol itself.
_NEVER_ASKED = """
    is_tensor is_storage typename broadcast_shapes vmap elementwise compile save load install from_numpy frombuffer from_dlpack
    get_default_device set_default_device get_default_dtype set_default_dtype set_default_tensor_type set_printoptions
    get_rng_state set_rng_state manual_seed seed initial_seed thread_safe_generator
    get_num_threads set_num_threads get_num_interop_threads set_num_interop_threads init_num_threads set_flush_denormal
    is_grad_enabled is_inference_mode_enabled is_anomaly_enabled is_anomaly_check_nan_enabled set_anomaly_enabled
    is_warn_always_enabled set_warn_always set_grad_enabled calculate_gain assert_int_or_pair boolean_dispatch
    has_torch_function has_torch_function_unary has_torch_function_variadic handle_torch_function
    __new__ __init__ __init_subclass__ __hash__ __torch_function__ __torch_dispatch__ __dir__ __getattr__ __setattr__ __delattr__
    __getattribute__ __delitem__ __array_function__ __array_ufunc__ as_subclass _make_subclass _make_wrapper_subclass _host
    _reduce_ex_internal
"""
NEVER = frozenset(_NEVER_ASKED.split())
# Functions of `torch.nn.init` that are not asked for themselves: they call what is.
_INIT = """
    ones_ zeros_ eye_ dirac_ orthogonal_ sparse_ trunc_normal_ xavier_normal_ xavier_uniform_ kaiming_normal_ uniform normal constant
    eye dirac xavier_uniform xavier_normal kaiming_uniform kaiming_normal orthogonal sparse
"""
_CALLING = frozenset(_INIT.split())
# What they make a tensor of may be anything, and is not asked.
_DATA = frozenset({"tensor", "as_tensor", "asarray"})
_OF_BOTH = """
    adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu
    relu_ rrelu_ selu_ threshold_
"""
SAME = tuple(_OF_BOTH.split())  # the functions of `torch.nn.functional` that are those of `torch`


def _resized(**usual: Any) -> Callable[..., Any]:
    def forward(
        input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", **more: Any
    ) -> Any:
        named = dict(size=size, scale_factor=scale_factor, mode=mode) | more | usual
        return by_path["nn.functional.interpolate"].function(input, **named)

    return forward


# What calls another, which is asked for in its place.
_FORWARDED: dict[str, Callable[..., Any]] = {
    "Tensor.__iter__": lambda self: (
        iter(self.unbind(0)) if self.dim() else by_path["Tensor.__iter__"].twin(self)
    ),
    "nn.functional.sigmoid": lambda input: input.sigmoid(),
    "nn.functional.tanh": lambda input: input.tanh(),
    "nn.functional.upsample": _resized(),
    "nn.functional.upsample_nearest": _resized(mode="nearest"),
    "nn.functional.upsample_bilinear": _resized(mode="bilinear", align_corners=True),
}


def public(path: str, function: Any) -> Any:
    """What a module of the library calls: while anything is armed the function as users know it, who may override it."""
    return by_path[path].function if armed.on else function


class Entry:
    """A public function (or what reads, writes or deletes a property), its twin, and how it is asked for."""

    __slots__ = ("_public", "alone", "asking", "function", "handed", "looking", "path", "slot", "twin")
    function: Any
    twin: Any

    def __init__(self, path: str, function: FunctionType, slot: str = "") -> None:
        self.path, self.function, self.slot = path, function, slot
        self.twin = copied(function)
        if not hasattr(function, "__wrapped__") and not hasattr(function, "__signature__"):
            function.__wrapped__ = self.twin  # type: ignore[attr-defined]  # whose arguments `inspect` shows
        self.alone = bool(slot) or _takes_self_alone(path, function)
        line = None if slot else _handed_on().get(path)
        self.handed = None if line is None else _Handed(line)
        self._public: Any = None
        self.looking: Any = None
        self.asking: Any = None

    def public(self) -> Any:
        """As users name it."""
        if self._public is None:
            where, _, name = self.path.rpartition(".")
            if where == "Tensor":
                found = vars(Tensor).get(ALIASES.get(name, name), self.function)
                self._public = getattr(found, self.slot) if self.slot else found
            else:
                self._public = by_path[self.path].function
        return self._public

    def own(self, args: Args, kwargs: dict[str, Any]) -> Any:
        """What the function itself makes of a call, which nobody overrides; what is below it somebody may take over."""
        below = armed.below
        return self.twin(*args, **kwargs) if below is None else below(self, args, kwargs)

    def answer(self, args: Args, kwargs: dict[str, Any]) -> Any:
        """What a call comes to once its arguments are not all plain, or a mode is on."""
        who = state.asked
        if who == NOBODY:
            return self.own(args, kwargs)
        if self.path in _FORWARDED:
            return _FORWARDED[self.path](*args, **kwargs)
        if state.skip:
            state.skip = False
            with switched(NOBODY if self.handed is None else who):
                return self.own(args, kwargs)
        asked = seen(args[:1] if self.slot else args, kwargs) if who == ALL else []
        if not state.functions and (not asked or self.path in _DATA):
            if not asked:
                return self.own(args, kwargs)
            with switched(NOBODY):
                return self.own(args, kwargs)
        if self.path in _DATA:
            asked = []
        if self.path not in OPERATORS:
            return self._asked(asked, args, kwargs)
        try:
            return self._asked(asked, args, kwargs)
        except TypeError:
            return NotImplemented

    def _asked(self, asked: list[Any], args: Args, kwargs: dict[str, Any]) -> Any:
        if self.handed is not None:
            return self._answer_of_python(self.handed, args, kwargs)
        if self.alone and args:
            asked = [args[0]] if overrides(type(args[0])) and state.asked == ALL else []
            types: Args = (type(args[0]),)
        else:
            types = tuple(map(type, asked))
        return ask(self.public(), types, asked, args, kwargs or None, python=False)

    def _answer_of_python(self, handed: _Handed, args: Args, kwargs: dict[str, Any]) -> Any:
        bound = handed.bound(args, kwargs)
        if bound is None:
            return self.own(args, kwargs)
        args, kwargs = bound
        if self.path == "autograd.grad":
            args = tuple([tuple(a) if isinstance(a, (tuple, list)) else (a,) for a in args])
            kwargs["allow_unused"] = bool(kwargs["allow_unused"] or kwargs["materialize_grads"])
        asked = python_asked(handed.relevant(args, kwargs))
        if not state.functions and not any([overrides(type(one)) for one in asked]):
            return self.own(args, kwargs)
        func = self.public()
        if kwargs.get("return_indices") is True and f"{self.path}_with_indices" in by_path:
            func = by_path[f"{self.path}_with_indices"].function
        return ask(func, tuple(map(type, asked)), asked, args, kwargs, python=True)


def _takes_self_alone(path: str, function: FunctionType) -> bool:
    """Of a method without arguments PyTorch asks `self` whatever it is."""
    if path[:7] != "Tensor.":
        return False
    from nbgrad.core.signatures import _table

    name = ALIASES.get(path[7:], path[7:])
    lines = _table().get(f"Tensor.{name}")
    if lines is not None:
        return lines == [f"{name}()"]
    code = function.__code__
    return code.co_argcount == 1 and not code.co_kwonlyargcount and not code.co_flags & 0x0C


# What is put in a function's place: the words in it stand for what is put there. The first two look whether all arguments are plain.
_LOOKING = """
def outer({free}):
    def function(*args, **kwargs):
        {touched}
        for one in args:
            if "TYPE"(one) not in "PLAIN":
                return "ANSWER"(args, kwargs)
        if not kwargs:
            return "TWIN"(*args)
        for one in kwargs.values():
            if "TYPE"(one) not in "PLAIN":
                return "ANSWER"(args, kwargs)
        return "TWIN"(*args, **kwargs)
    return function
"""
_LOOKING_AT_SELF = """
def outer({free}):
    def function({self}):
        {touched}
        return "TWIN"({self}) if "TYPE"({self}) in "PLAIN" else "ANSWER"(({self},), {{}})
    return function
"""
_LOOKING_AT_OWNER = """
def outer({free}):
    def function(self, value):
        {touched}
        return "TWIN"(self, value) if "TYPE"(self) in "PLAIN" else "ANSWER"((self, value), {{}})
    return function
"""
_ASKING = """
def outer({free}):
    def function(*args, **kwargs):
        {touched}
        return "ANSWER"(args, kwargs)
    return function
"""


@cached(None)
def _code(text: str, free: int, self: str) -> CodeType:
    names = [f"_{k}" for k in range(free)]
    touched = f"if 0: {', '.join(names)}" if free else "pass"
    scope: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # words are called
        exec(
            compile(text.format(free=", ".join(names), touched=touched, self=self), "<overridden>", "exec"),
            scope,
        )
    made: CodeType = scope["outer"](*names).__code__
    return made


def _before(entry: Entry, text: str) -> CodeType:
    """A code for the entry's function."""
    words = {"TYPE": type, "PLAIN": plain_types, "ANSWER": entry.answer, "TWIN": entry.twin}
    return standing_for(entry.twin.__code__, text, words)


STANDING = "outer.<locals>.function"  # the qualified name of such codes, whatever function they stand for


def standing_for(own: CodeType, text: str, words: Mapping[str, Any]) -> CodeType:
    """What `text` says, as a code for a function whose own is `own`."""
    code = _code(text, len(own.co_freevars), own.co_varnames[0] if text is _LOOKING_AT_SELF else "")
    consts = tuple([words.get(c, c) if isinstance(c, str) else c for c in code.co_consts])
    return code.replace(
        co_consts=consts, co_name=own.co_name, co_filename=own.co_filename, co_firstlineno=own.co_firstlineno
    )


def _plainly_alone(code: CodeType) -> bool:
    return code.co_argcount == 1 and not code.co_kwonlyargcount and not code.co_flags & 0x0C


_entries: dict[int, Entry] = {}
by_path: dict[str, Entry] = {}


def _each() -> Iterator[tuple[str, FunctionType, str]]:
    for where, namespace in armed.namespaces():
        public = namespace.get("__all__", namespace) if where else namespace
        for name in list(public):
            value = namespace.get(name)
            if (
                name in NEVER
                or getattr(value, "__name__", name) in NEVER  # kept by a library under a name of its own
                or (name in _CALLING and where == "nn.init")
                or (where != "Tensor" and not _public(name, where))
            ):
                continue
            path = f"{where}.{name}" if where else name
            if type(value) is FunctionType and is_ours(value.__module__):
                yield path, value, ""
            elif type(value) is property and where == "Tensor":
                for slot, function in (
                    ("__get__", value.fget),
                    ("__set__", value.fset),
                    ("__delete__", value.fdel),
                ):
                    if type(function) is FunctionType:
                        yield path, function, slot


def _public(name: str, where: str) -> bool:
    return name[0] != "_" and name[0].islower()


def _enlist() -> None:
    for path, function, slot in _each():
        if id(function) not in _entries:
            entry = _entries[id(function)] = Entry(path, function, slot)
            by_path.setdefault(path, entry)


def arm() -> None:
    """Let every public function look at its arguments, or ask in any case while a mode is on."""
    with lock:
        if not _entries:
            _enlist()
        asking, own = bool(_modes), not armed.on
        armed.on = True
        for entry in _entries.values():
            if own and entry.function.__code__ is not entry.twin.__code__:  # written since
                _take_code(entry.twin, entry.function)
            if entry.looking is None:
                _write(entry)
            entry.function.__code__ = entry.asking if asking else entry.looking


def _write(entry: Entry) -> None:
    _take_code(entry.twin, entry.function)
    alone = _plainly_alone(entry.twin.__code__)
    looking = _LOOKING_AT_OWNER if entry.slot == "__set__" else _LOOKING_AT_SELF if alone else _LOOKING
    entry.looking = _before(entry, looking)
    entry.asking = _before(entry, _ASKING)


def copied(function: Any) -> Any:
    """Another function of the same code."""
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__annotations__ = function.__annotations__
    return made


def _take_code(function: FunctionType, other: FunctionType) -> None:
    function.__code__ = other.__code__
    if function.__defaults__ is not other.__defaults__:
        function.__defaults__ = other.__defaults__
    if function.__kwdefaults__ is not other.__kwdefaults__:
        function.__kwdefaults__ = other.__kwdefaults__


def disarm() -> None:
    """Once no mode is on: give the functions their own code back, unless there are instances that override."""
    with lock:
        if armed.overriding:
            arm()
            return
        armed.on = False
        for entry in _entries.values():
            function, twin = entry.function, entry.twin
            function.__code__ = twin.__code__
            if (
                function.__defaults__ is not twin.__defaults__
                or function.__kwdefaults__ is not twin.__kwdefaults__
            ):
                _take_code(function, twin)


def twins() -> set[int]:
    """All twins, by their identity."""
    return {id(entry.twin) for entry in _entries.values()}


def twin_of(function: Any) -> Any:
    """Where a function's own code is: in the twin of one that looks at its arguments, or behind what was put before it."""
    if id(function) in inner:
        return inner[id(function)]
    if armed.on:
        entry = _entries.get(id(function))
        if entry is not None:
            return entry.twin
    return function


# ---------------------------------------------------------------- modes


def push(mode: Any) -> None:
    with lock:
        _modes.append(mode)
        if len(_modes) == 1:
            arm()
    state.functions = (*state.functions, mode)


def pop() -> Any:
    if not state.functions:
        raise AssertionError("Trying to pop from empty mode stack")
    *below, mode = state.functions
    state.functions = tuple(below)
    with lock:
        _modes.pop()
        if not _modes:
            disarm()
    return mode


class looking:
    """Within it, functions ask whoever comes along, also what they have not seen before."""

    def __enter__(self) -> None:
        with lock:
            _modes.append(None)
            if len(_modes) == 1:
                arm()

    def __exit__(self, *_: object) -> None:
        with lock:
            _modes.pop()
            if not _modes:
                disarm()


def overridden(path: str, args: Args, kwargs: dict[str, Any]) -> partial[Any] | None:
    """Where something that overrides came to a function which did not look for it: the call again, now that it does."""
    if state.asked == ALL and not armed.on and seen(args, kwargs):
        armed.overriding = True
        arm()
        return partial(by_path[path].function, *args, **kwargs) if path in by_path else None
    return None


# ---------------------------------------------------------------- what classes inherit


def _converted(result: Any, cls: type) -> Any:
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        return type(result)([_converted(one, cls) for one in result])
    return result


def _refuse_pytorchs(func: Any) -> None:
    """A function of PyTorch itself, imported beside, would ask the same tensors without end."""
    owner = getattr(func, "__objclass__", None) or getattr(func, "__self__", None)
    module = getattr(func, "__module__", None) or getattr(owner, "__module__", None) or ""
    if module.partition(".")[0] == "torch" and not is_ours(module):
        raise TypeError(
            f"{getattr(func, '__name__', func)}() of PyTorch itself was handed a tensor of nbgrad: take the function from nbgrad, "
            "or call nbgrad.install() before torch is imported"
        )


def _torch_function(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What classes that inherit from Tensor do with a call in which they override functions: the function is called, and what
    it gives is of the class. Those who write their own end it with `super().__torch_function__(func, types, args, kwargs)`.

    >>> class Mine(torch.Tensor): pass
    >>> type(torch.ones(2).as_subclass(Mine) + 1).__name__
    'Mine'
    """
    if not all([issubclass(cls, kind) for kind in types]):
        return NotImplemented
    if cls is Tensor:  # whom ours do not ask
        _refuse_pytorchs(func)
    with switched(min(state.asked, MODES_ONLY)):
        result = func(*args, **(kwargs or {}))
        return result if func in _KEPT else _converted(result, cls)


_torch_function.__name__ = _torch_function.__qualname__ = "__torch_function__"
Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
Tensor.__torch_dispatch__ = staticmethod(dispatch_disabled)  # type: ignore[attr-defined]
# What a tensor has, and does not make anew: it stays the object that it is.
_KEPT = tuple([vars(Tensor)[name].__get__ for name in ("_base", "grad", "_grad")])
