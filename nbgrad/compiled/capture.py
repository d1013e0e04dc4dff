"""Running a function for real and noting what it launches.

Promises `record(...)`: what the function gave, and a `Record` of its launches, of memory that was cleared and copied beside them, of the
Python code that ran, and of what it did that no record can hold: `refusal` says the first such thing and where.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from nbgrad import adjoints
from nbgrad.autograd import _run
from nbgrad.base.ours import is_ours
from nbgrad.base.switches import compiling, recorded
from nbgrad.base.tables import cached
from nbgrad.core.overrides import twin_of
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.kernels import build, calls
from nbgrad.memory import backend, dtypes
from nbgrad.memory.storage import Spec
from nbgrad.ops.index import place
from nbgrad.ops.make import drawn, generator, sampling
from nbgrad.ops.views.copy import copy_memory
from nbgrad.optim import _update
from nbgrad.tape import engine

_OURS = "nbgrad"
_SYSTEM = sys.stdlib_module_names | {"numpy", "numba", "llvmlite"}
_PURE = {
    *("abs", "all", "any", "callable", "chr", "divmod", "format", "getattr", "hasattr", "hash"),
    *("isinstance", "issubclass", "iter", "len", "max", "min", "next", "ord", "pow", "repr", "round"),
    *("sorted", "sum", "setattr", "__build_class__", "locals", "vars"),
}
_PURE_MODULES = {"math", "_operator", "itertools", "_functools", "_bisect", "_collections"}
_PLAIN = (list, dict, tuple, str, set, frozenset, int, float, bytes, range, complex, slice)
_KINDS = {*_PLAIN, type, object}  # whose class methods give the same for the same
_OF_CLASSES = {"__new__", "fromkeys", "mro", "__init_subclass__", "__subclasshook__"}  # as do these of all
_MAKERS = {f"nbgrad.ops.make.{name}" for name in ("factories", "filled", "counted", "constructors", "data")}
_MAKERS |= {"nbgrad.ops.host.values"}
# Functions of nbgrad's own that look at values, or at what a record does not hold.
_READS = {"to_host", "_host", "bytes_of", "data_ptr", "numpy", "same_values", "__array__", "__dlpack__"}
# And those that switch something for all that follows.
_SWITCHES = {
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_default_validate_args",
}
_SWITCHES |= {"set_deterministic_debug_mode", "set_fastpath_enabled", "set_float32_matmul_precision"}
_SWITCHES |= {"set_flush_denormal", "set_num_threads", "set_printoptions", "set_warn_always"}
_SWITCHES |= {"set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion"}
_SWITCHES |= {"use_deterministic_algorithms"}
_HOST_CALLS = {"unpack_from", "unpack", "cast"}


# By identity: code that is written at run time may hold sets, which have no hash.
Codes = dict[int, tuple[CodeType, dict[str, Any]]]


_LITTLE, _SMALL = 4, 4096  # launches that are left alone, and how long each is at most


class _Recording:
    """How many calls are recorded now: meanwhile programs are not done, as nobody would see their launches."""

    on = 0


recording = _Recording()


class Draw:
    """Random numbers that a run drew, and how they are drawn again."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], buffer: Any) -> None:
        self.function, self.args, self.buffer = function, args, _bytes_of(buffer)
        self.values = self.buffer.copy()  # the run may write over them

    def again(self) -> Any:
        return _bytes_of(self.function(*self.args))

    def tensors(self) -> set[int]:
        """Those that it holds, by identity."""
        found, stack = set(), [self.function, *self.args]
        while stack:
            one = stack.pop()
            if isinstance(one, Tensor):
                found.add(id(one))
            elif isinstance(one, FunctionType):
                stack += [c.cell_contents for c in one.__closure__ or ()]
        return found

    def usual(self) -> bool:
        """Whether it draws from the generator that all use."""
        stack = [self.function, *self.args]
        while stack:
            one = stack.pop()
            if isinstance(one, generator.Generator) and one is not generator.default_generator:
                return False
            if isinstance(one, FunctionType):
                stack += [c.cell_contents for c in one.__closure__ or ()]
        return True

    def like(self, other: Draw) -> bool:
        return _alike(self.function, other.function) and all(map(_alike, self.args, other.args))


def _bytes_of(made: Any) -> Any:
    return made._buf if isinstance(made, Tensor) else made.reshape(-1).view(np.uint8)


def _alike(a: Any, b: Any) -> bool:
    """Whether two draws do the same."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        return a._spec is b._spec
    if isinstance(a, FunctionType):
        return (
            a.__code__ is b.__code__
            and len(a.__closure__ or ()) == len(b.__closure__ or ())
            and all(
                _alike(x.cell_contents, y.cell_contents)
                for x, y in zip(a.__closure__ or (), b.__closure__ or ())
            )
        )
    return isinstance(a, (*_PLAIN, Spec)) and bool(a == b)


def _without_memory(value: Any) -> Any:
    """The same function, with tensors of which it asks no more than what they look like."""
    if isinstance(value, Tensor):
        return wrap(np.empty(0, np.uint8), value._spec)
    if not isinstance(value, FunctionType) or not value.__closure__:
        return value
    cells = tuple([CellType(_without_memory(c.cell_contents)) for c in value.__closure__])
    return FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, cells)


def _drawing(frame: FrameType) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What draws, and with what."""
    code, given = frame.f_code, frame.f_locals
    found = _DRAWS.get(code)
    if found is not None:
        names = code.co_varnames[: code.co_argcount]
        return found, tuple([_without_memory(given[n]) for n in names])
    cells = tuple([CellType(_without_memory(given[n])) for n in code.co_freevars])
    # Where it draws into what it was given, new memory is drawn into, and copied.
    return FunctionType(code, frame.f_globals, code.co_name, (None,) * code.co_argcount, cells), ()


class Otherwise(NamedTuple):
    """Launches that are done where the flag is not 0."""

    flag: Any
    calls: list[tuple[Any, Any]]


class Sure(NamedTuple):
    """Values that have to pass a test, or a RuntimeError is raised."""

    buffer: Any
    spec: Spec
    test: Callable[[Any], bool]
    refusal: str


class Work(NamedTuple):
    """What a function that is compiled by itself makes of some tensors' values: those of others. `what` is told apart by its `key`, has
    the numbers that it was given, and is `done` again with arrays."""

    what: Any
    takes: tuple[tuple[Any, Spec], ...]
    gives: tuple[tuple[Any, Spec], ...]


class Made(NamedTuple):
    """Memory that Python filled, and with what."""

    buffer: Any
    values: Any


class Record:
    """What a run did."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any]] = []  # with the batch of an optimizer whose step it is
        self.codes: Codes = {}
        self.late: Codes = {}  # those that ran behind the call, in its backward
        self.refusal = ""
        self.where: list[tuple[CodeType, int]] = []  # the lines that were done then, the innermost first
        self.went_back: list[tuple[CodeType, int]] = []  # and those of the first backward
        self.optimizers: list[Any] = []
        self.draws: list[Draw] = []
        self.backwards = 0  # that the function itself has done
        self.grads = False  # whether `.grad` of something was read or written
        self.cleared: dict[
            int, int
        ] = {}  # tensors whose gradient was forgotten, and behind how many launches
        self.cut: int | None = None  # how many launches were the function's own, if there are others behind
        self.behind: Any = None
        recorded.records.add(self)

    def gains_little(self) -> bool:
        """Whether it launches nothing, or so little that to look for its program takes as long: small kernels, whose gradients go by
        another program (measured: 9 us a call, and 6 back)."""
        if self.cut is None or self.behind is None:
            return not self.calls
        own = [one for one, _ in self.calls[: self.cut]]
        return len(own) <= _LITTLE and all(isinstance(one, calls.Call) and one.n <= _SMALL for one in own)

    def judged(self) -> list[int]:
        """Which launches may refuse."""
        flag = backend.cpu.told.flag[0]
        return [
            k
            for k, (one, _) in enumerate(self.calls)
            if isinstance(one, Sure | Work)
            or (isinstance(one, calls.Call) and any(a is flag for a in one.args))
        ]

    def forget(self, why: str) -> None:
        """Hold no memory any more."""
        self.refuse(why, sys._getframe(1))
        self.calls, self.draws, self.behind = [], [], None

    def refuse(self, why: str, frame: FrameType | None = None) -> None:
        if not self.refusal:
            self.where = _lines(frame)
            self.refusal = f"{why}{_users(frame)}"


_one_at_a_time = threading.Lock()


def record(function: Callable[[], Any], behind: Callable[[Any], Any] | None = None) -> tuple[Any, Record]:
    """Call it, and what is done with its result `behind` it, and note. What another thread launches meanwhile is not noted."""
    listener = _Listener()
    made = listener.made
    with _one_at_a_time, calls.watch(listener.told):
        before = sys.getprofile()
        collecting = gc.isenabled()
        gc.disable()  # what objects of others do at their end is no part of the call
        recorded.otherwise, recorded.sure, recorded.work = listener.otherwise, listener.sure, listener.work
        compiling.thread = listener.thread
        sys.setprofile(listener.profile)
        try:
            result = function()
            if behind is not None and not made.refusal:
                made.cut = len(made.calls)
                made.behind = behind(result)
        finally:
            sys.setprofile(before)
            recorded.otherwise = recorded.sure = recorded.work = compiling.thread = None
            if collecting:
                gc.enable()
    return result, made


class _Listener:
    """Is told of launches, and of functions as they are entered and left, and makes a record of it."""

    def __init__(self) -> None:
        self.made = Record()
        self.thread = threading.get_ident()
        self.looked = _Looked()
        self.batches: list[Any] = []
        self.draws: list[Any] = []  # one, while something is drawn
        self.touched: set[int] = set()  # memory that was launched on, or filled

    # ------------------------------------------------------------ launches, and what is done in place of some

    def told(self, *launch: Any) -> None:
        if threading.get_ident() == self.thread and not self.draws and not self.made.refusal:
            one = calls.seen(launch)
            self.made.calls.append((one, self.batches[-1] if self.batches else None))
            self.touched.update([address(root(a)) for a, k in zip(one.args, one.kinds) if k == "b"])
            if any(a is backend.cpu.told.count[0] for a in launch):
                self.made.refuse("the size of a result depends on values", sys._getframe(1))

    def deaf(self) -> bool:
        return threading.get_ident() != self.thread or bool(self.made.refusal)

    def otherwise(self, result: Tensor, flag: Tensor, other: Callable[[], Tensor]) -> bool:
        if self.deaf() or flag._buf.any():
            return False  # and a value is read
        made = self.made
        before, kept = len(made.calls), result._buf.copy()
        copy_memory(result, other())
        more, made.calls[before:] = made.calls[before:], []
        made.calls.append((Otherwise(flag._buf, more), None))
        result._buf[:] = kept
        return True

    def sure(self, t: Tensor, test: Callable[[Any], bool], refusal: str) -> bool:
        if self.deaf() or type(t._buf) is not np.ndarray:
            return False
        if not test(dtypes.values(t._buf, t._spec.dtype, t._spec.shape, t._spec.strides)):
            return False
        self.made.calls.append((Sure(t._buf, t._spec, test, refusal), None))
        return True

    def work(self, what: Any, takes: list[Tensor], gives: list[Tensor]) -> bool:
        if self.deaf():
            return False
        if any(type(t._buf) is not np.ndarray or type(t._spec) is not Spec for t in (*takes, *gives)):
            return False
        for t in gives:
            self.touched.add(address(root(t._buf)))
        rows = [tuple([(t._buf, t._spec) for t in row]) for row in (takes, gives)]
        self.made.calls.append((Work(what, *rows), None))
        return True

    # ------------------------------------------------------------ functions

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        if self.made.refusal:
            return
        if event == "call":
            kind = self.looked.kind(frame)
            if not self.draws or kind == "read":
                self.entered(kind, frame)
        elif event == "return":
            kind = self.looked.kind(frame)
            if self.draws:
                self.drawn(frame, arg)
            else:
                self.left(kind, frame, arg)
        elif event == "c_call":
            _judge(self.made, frame, arg, self.looked)

    def entered(self, kind: str, frame: FrameType) -> None:
        made, code = self.made, frame.f_code
        if kind == "users" or (kind == "system" and _asked_by_user(frame)):
            made.codes[id(code)] = code, frame.f_globals
            if made.cut is not None:
                made.late[id(code)] = made.codes[id(code)]
        elif kind == "draw":
            self.draws.append((frame, *_drawing(frame), frame.f_locals.get("out")))
        elif kind == "engine" and made.cut is None:
            made.backwards += 1
            made.went_back = made.went_back or _lines(frame)
            made.grads = True
        elif kind == "grad" and made.cut is None:
            made.grads = True
            if code is _SET_GRAD and frame.f_locals["value"] is None:
                made.cleared.setdefault(id(frame.f_locals["self"]), len(made.calls))
        elif kind == "clear":
            _note_clear(made, frame.f_locals["buffer"], frame.f_locals["nbytes"])
        elif kind == "copy":
            given = frame.f_locals
            _note_copy(made, given["to"], given["source"], given["nbytes"])
        elif kind == "batch":
            given = frame.f_locals
            self.batches.append((given["self"], given["rows"], given["numbers"]))
        elif kind == "table":
            _note_step(made, frame)
        elif (why := _why_not(kind, frame)) is not None:
            made.refuse(why, frame)

    def drawn(self, frame: FrameType, arg: Any) -> None:
        if self.draws[0][0] is not frame:
            return
        made = self.made
        _, function, given, into = self.draws.pop()
        if into is not None:
            made.draws.append(Draw(function, given, numbers := into.copy()))
            _note_copy(made, into, numbers, len(into))
        elif arg is not None:
            made.draws.append(Draw(function, given, arg))

    def left(self, kind: str, frame: FrameType, arg: Any) -> None:
        made = self.made
        if kind == "copied" and arg is not None:
            made_of = frame.f_locals[_COPIED[frame.f_code]]
            to = arg._buf if isinstance(arg, Tensor) else arg
            _note_copy(made, to, made_of, len(to))
        elif kind == "makes" and isinstance(arg, Tensor) and isinstance(arg._buf, np.ndarray):
            at = address(root(arg._buf))
            if at not in self.touched and arg._view is None:
                self.touched.add(at)
                made.calls.append((Made(arg._buf, arg._buf.copy()), None))
        elif kind == "zeros" and arg is not None:
            _note_clear(made, arg, len(arg))
        elif kind == "batch" and self.batches:
            self.batches.pop()


def _why_not(kind: str, frame: FrameType) -> str | None:
    """Why a call of such a function cannot be in a program, if it cannot."""
    name = frame.f_code.co_name
    if kind == "read" and not (name == "data_ptr" and _ours(frame.f_back)):
        return "a value is read"
    if kind == "random":
        return f"the state of random numbers is used by `{name}`"
    if kind == "switch" and not _ours(frame.f_back):
        return f"`{name}` is called, whose effect lasts"
    if kind == "arrays" and any(isinstance(a, np.ndarray) for a in frame.f_locals["args"]):
        return "an array of NumPy's is read"
    if kind == "owner" and frame.f_locals["self"].owner is not None:
        return "attributes of an object are read that no code names"
    return _NEVER.get(kind)


_NEVER = {
    "left out": "what is called is to be left out of programs",
    "sparse": "a sparse tensor is made",
    "unseen": "a compiled backward is done",
}


def unseen() -> None:
    """Called by what launches kernels that nobody sees, while something is recorded."""


def _note_step(made: Record, frame: FrameType) -> None:
    """The optimizer's own call that leads to a launch: which group's numbers it takes."""
    given = frame.f_locals
    made.optimizers.append((given["self"], given["number"], given["rule"], given["rows"]))


def _module(frame: FrameType) -> str:
    """Where its code is from; what nbgrad writes is in no module, and has a name of its own."""
    module: str | None = frame.f_globals.get("__name__")
    return module or (_OURS if frame.f_code.co_filename.startswith(f"<{_OURS} ") else "?")


def _ours(frame: FrameType | None) -> bool:
    return frame is not None and _module(frame).split(".")[0] == _OURS


def _imported(frame: FrameType) -> bool:
    """Whether it runs because something is imported for the first time."""
    back = frame.f_back
    while back is not None:
        if _module(back).startswith("importlib"):
            return True
        back = back.f_back
    return False


def _kind(frame: FrameType) -> str:
    code = frame.f_code
    module = _module(frame)
    top = module.split(".")[0]
    if top != _OURS:
        # What makes a named tuple is in a module of its own, ours or a user's.
        system = top in _SYSTEM or top.startswith("namedtuple_")
        return "system" if system else "imports" if _imported(frame) else "users"
    name = code.co_name
    if code is _ZEROS:
        return "zeros"
    if any([code is other for other in _COPIED]):
        return "copied"
    if code is _CLEAR:
        return "clear"
    if code is _COPY:
        return "copy"
    if code is _BATCH:
        return "batch"
    if code is _STEP:
        return "table"
    if any([code is other for other in (*_DRAWS, *_FEW)]):
        return "draw"
    if code is _ARRAYS:
        return "arrays"
    if code is _OWNERS:
        return "owner"
    if code is _UNSEEN:
        return "unseen"
    if code is _ENGINE:
        return "engine"
    if any([code is other for other in _GRADS]):
        return "grad"
    if any([code is other for other in _STREAM]):
        return "random"
    if name in _READS or code is _VERSION:
        return "read"
    if name in _SWITCHES:
        return "switch"
    if name == "instance" and module == f"{_OURS}.sparse._tensor":
        return "sparse"
    if name == "left_out" and module == f"{_OURS}.compiler":
        return "left out"
    if module in _MAKERS or code is _INDEX:
        return "makes"
    return "ours"


_DRAWS: dict[CodeType, Callable[..., Any]] = {
    f.__code__: f for f in (drawn._drawn, sampling._drawn_as, generator.randperm)
}
_FEW = [
    code
    for few in (generator.few, generator.few_normals, generator._few_blocks, generator.few_places)
    for code in few.__code__.co_consts
    if isinstance(code, CodeType) and code.co_name == "draw"
]
_STREAM = [f.__code__ for f in vars(generator.Generator).values() if isinstance(f, FunctionType)]
_ARRAYS = adjoints.Differentiable._check_apart.__code__  # which all its calls pass
_OWNERS = adjoints.Differentiable._given_first.__code__
_UNSEEN, _ENGINE = unseen.__code__, engine.run.__code__
_GRAD: Any = Tensor.grad
# Their own code, whoever overrides functions by now.
_GRADS = [twin_of(f).__code__ for f in (_GRAD.fget, _GRAD.fset, _GRAD.fdel)]
_VERSION = twin_of(Tensor._version.fget).__code__  # type: ignore[attr-defined]
_SET_GRAD = twin_of(_GRAD.fset).__code__
_ZEROS = backend.CPU.zeros.__code__
_CLEAR = backend.CPU.clear.__code__
# Functions that copy memory as NumPy does, by what they call it.
_COPIED = {_run._one.__code__: "template", place.held_copy.__code__: "buffer"}
_COPY = backend.CPU.copy.__code__
_INDEX = place._of_array.__code__
_BATCH = _update._Batch.run.__code__
_STEP = _update.RuleOptimizer._run.__code__


class _Looked:
    """What kind each function is, by the object that its code is: what is written here may hold sets, which have no hash."""

    def __init__(self) -> None:
        self.kinds: dict[int, tuple[CodeType, str]] = {}

    def kind(self, frame: FrameType) -> str:
        code = frame.f_code
        found = self.kinds.get(id(code))
        if found is None:
            found = self.kinds[id(code)] = code, _kind(frame)
        return found[1]


def _judge(made: Record, frame: FrameType, called: Any, looked: _Looked) -> None:
    """Whether a function written in C is known to have no effect and to depend on its arguments alone."""
    kind = looked.kind(frame)
    name = getattr(called, "__name__", "?")
    if kind not in ("users", "system", "imports") or (kind == "system" and not _asked_by_user(frame)):
        if name in _HOST_CALLS and _module(frame).startswith(f"{_OURS}.ops"):
            made.refuse("a value is read", frame)
        return
    if kind not in ("users", "system"):
        return
    owner = getattr(called, "__self__", None)
    if isinstance(called, BuiltinFunctionType):
        module = getattr(called, "__module__", None)
        if module == "builtins" and name in _PURE:
            return
        if module in _PURE_MODULES or isinstance(owner, _PLAIN):
            return
        if isinstance(owner, type) and (owner in _KINDS or name in _OF_CLASSES):
            return
    elif isinstance(owner, _PLAIN) or getattr(called, "__objclass__", None) in _PLAIN:
        return
    if is_ours((getattr(called, "__objclass__", None) or type(owner)).__module__):
        return
    where = getattr(called, "__module__", None) or type(owner).__name__
    made.refuse(f"`{where}.{name}` is called, of which nothing is known", frame)


def _asked_by_user(frame: FrameType) -> bool:
    back = frame.f_back
    while back is not None:
        top = _module(back).split(".")[0]
        if top == _OURS:
            return False
        if top not in _SYSTEM:
            return not _imported(back)
        back = back.f_back
    return False


def _lines(frame: FrameType | None) -> list[tuple[CodeType, int]]:
    found = []
    while frame is not None and frame.f_code is not record.__code__:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found


def _users(frame: FrameType | None) -> str:
    """Where in the user's code that is."""
    while frame is not None:
        if _module(frame).split(".")[0] not in (*_SYSTEM, _OURS):
            return f" ({frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name})"
        frame = frame.f_back
    return ""


_BYTES = '''"""Bytes: {title}."""


def @NAME@(start, stop, {params}):
    for k in range(start, stop):
        o[k] = {value}
'''


@cached(2)
def bytes_kernel(copies: bool) -> int:
    """The address of a kernel that copies bytes, or makes them 0."""
    how = ("copied", "o, x", "x[k]") if copies else ("cleared", "o", "0")
    source = _BYTES.format(title=how[0], params=how[1], value=how[2])
    codes = ["i8", "i8", "*u1", "*u1"] if copies else ["i8", "i8", "*u1"]
    return build.kernel("bytes_copied" if copies else "bytes_cleared", source, codes).address


def _note_clear(made: Record, buffer: Any, nbytes: int) -> None:
    if nbytes:
        made.calls.append((calls.Call("b", bytes_kernel(False), nbytes, 0, (buffer,)), None))


def _note_copy(made: Record, to: Any, source: Any, nbytes: int) -> None:
    if nbytes:
        made.calls.append((calls.Call("bb", bytes_kernel(True), nbytes, 0, (to, source)), None))


def root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that owns the memory."""
    return array.base if isinstance(array.base, np.ndarray) else array


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
