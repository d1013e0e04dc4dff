"""Who is called: the ops and backward rules that run on this thread, told to whoever watches.

Promises that nobody pays while nobody watches: no op and no rule knows of this. While a `Watch` is on, Python's own profiling hook sees
every call of the thread; the functions that `dispatch` makes share a few code objects, and each says by a variable which op it is.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import Any

from nbgrad.base.tables import Table
from nbgrad.core import overrides
from nbgrad.core.tensor import Tensor
from nbgrad.tape.node import Node, shown


class Call:
    """One call while it runs: of an op, or of `node`."""

    __slots__ = ("args", "data", "frame", "name", "node")

    def __init__(
        self, name: str, frame: FrameType | None = None, args: Sequence[Any] = (), node: Node | None = None
    ) -> None:
        self.name, self.frame, self.args, self.node = name, frame, args, node
        self.data: Any = None  # the watcher's own


class Watch:
    """A context in which `entered` and `left` are told of each call of an op and each node that runs backward on this thread. A call
    that does nothing but the same under the same name (`sum` and the case of it that applies) is one with it."""

    def __init__(self) -> None:
        self.stack: list[Call] = []

    def entered(self, call: Call) -> None: ...

    def left(self, call: Call, result: Any) -> None: ...

    def __enter__(self) -> Any:
        self._before: Any = sys.getprofile()
        if self._before is not None and not callable(self._before):
            raise RuntimeError("another profiler, which cannot be called on, is active on this thread")
        sys.setprofile(self._told)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        while self.stack:
            self.left(self.stack.pop(), None)

    def _told(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            known = _readers.get(id(frame.f_code)) or _know(frame)
            if known[1] is not None:
                name, args, node = known[1](frame)
                if not self.stack or self.stack[-1].name != name:
                    call = Call(name, frame, args, node)
                    self.stack.append(call)
                    self.entered(call)
        elif event == "return" and self.stack and any(call.frame is frame for call in self.stack):
            while (call := self.stack.pop()).frame is not frame:  # begun inside, and not ended
                self.left(call, None)
            self.left(call, arg)
        if self._before is not None:
            self._before(frame, event, arg)


# ---------------------------------------------------------------- whose code is it

Reader = Callable[[FrameType], tuple[str, Sequence[Any], Node | None]]  # name, arguments, node if it runs one
# By identity, as code objects hash their contents.
_readers: Table[int, tuple[CodeType, Reader | None]] = Table("autograd._calls.readers", 4096)


def _know(frame: FrameType) -> tuple[CodeType, Reader | None]:
    return _readers.keep(id(frame.f_code), (frame.f_code, _reader(frame, frame.f_code, frame.f_globals)))


def _reader(frame: FrameType, code: CodeType, scope: dict[str, Any]) -> Reader | None:
    """How to read from frames of this code what is called; None if it is neither op nor rule."""
    module, name = scope.get("__name__", ""), code.co_name
    if not module.startswith("nbgrad.") or code.co_qualname == overrides.STANDING:
        return None
    parameters = code.co_varnames[: code.co_argcount]
    if name == "apply" and "needed" in parameters:
        return partial(_rule, grads=parameters[parameters.index("node") + 1])
    if name == "apply" and parameters == ("cls",):
        return lambda frame: (frame.f_locals["cls"].__name__, _arguments(frame)[1:], None)
    if name == "inplace" and "op" in parameters:
        return lambda frame: (f"aten::{op_name(frame.f_locals['op'])}_", frame.f_locals["args"], None)
    if not module.startswith(_OPS) or name in ("in_place", "size", "tensor"):
        return None
    if module == "nbgrad.ops.host.values" and name not in (
        "allclose",
        "equal",
        "isclose",
    ):  # which compute, unlike the rest of it
        return None
    if name == "function" and "scaled" in scope:  # a short way of writes
        written = op_name(scope["op"] or scope["scaled"])
        return lambda frame: (f"aten::{written}_", _arguments(frame), None)
    short = name == "function" and "op" in scope
    if (short or ("op" in code.co_freevars and name[0] != "<")) and hasattr(_op_in(frame), "node_name"):
        return lambda frame: ("aten::" + op_name(_op_in(frame)), _arguments(frame), None)
    public = name.removeprefix("_t_")
    functional: Any = sys.modules["nbgrad.nn.functional"]
    scopes = [vars(sys.modules["nbgrad"]), vars(Tensor)]
    scopes += [vars(functional)] if public in functional.__all__ else []
    if any(_stands_for(known.get(public), code) for known in scopes):
        return lambda frame: ("aten::" + public, _arguments(frame), None)
    return _getitem if _stands_for(Tensor.__getitem__, code) else None


def _stands_for(function: Any, code: CodeType) -> bool:
    """Whether this is the function's code, or that of one before which it stands."""
    while function is not None:
        if getattr(overrides.twin_of(function), "__code__", None) is code:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


# Where ops are made; and where functions of several ops live, which are rows if a user can call them by name.
_OPS = ("nbgrad.dispatch.elementwise", "nbgrad.nn.", "nbgrad.ops.")


def _rule(frame: FrameType, grads: str) -> tuple[str, Sequence[Any], Node]:
    node, given = frame.f_locals["node"], frame.f_locals[grads]
    return shown(node).name(), given if isinstance(given, (tuple, list)) else (given,), node


def _getitem(frame: FrameType) -> tuple[str, Sequence[Any], None]:
    args = _arguments(frame)
    return {int: "aten::select", slice: "aten::slice"}.get(type(args[1]), "aten::index"), args, None


def _op_in(frame: FrameType) -> Any:
    """The op, or that of the function that stands under its name."""
    op = frame.f_locals["op"] if "op" in frame.f_locals else frame.f_globals["op"]
    return getattr(op, "op", op)


def op_name(op: Any) -> str:
    """PyTorch's name. A gradient's op, or a case of an op (`sum` over dims), is called as its node says: TanhBackwardBackward0 is
    tanh_backward, SumBackward1 sum."""
    stem = op.node_name.rpartition("Backward")[0]
    for prefix in ("", "special_"):
        if stem.lower() in ("", f"{prefix}{op.name}".replace("_", "")):
            return f"{prefix}{op.name}" if stem else str(op.name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower()


def _arguments(frame: FrameType) -> list[Any]:
    """What was given by position. Behind `_surplus` stand other names for the same, and places that only a wrong call fills."""
    code, local = frame.f_code, frame.f_locals
    names = list(code.co_varnames[: code.co_argcount])
    values = [local[name] for name in names[: names.index("_surplus") if "_surplus" in names else None]]
    if code.co_flags & inspect.CO_VARARGS:
        values += local[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
    return values


def tensors_in(values: Any) -> list[Tensor]:
    """The tensors of a result or of arguments, those in lists included."""
    if isinstance(values, Tensor):
        return [values]
    if not isinstance(values, (tuple, list)):
        return []
    return [t for value in values for t in tensors_in(value)]
