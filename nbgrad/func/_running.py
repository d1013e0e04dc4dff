"""What a derivative forbids its function while it runs, as PyTorch's transforms do.

A function that is being differentiated must not write to what it has captured from outside: the write would outlive the call, and take
history with it that belongs to the call alone. What is captured is found from the function itself, at its first write.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from nbgrad.core.pytree import tree_flatten
from nbgrad.core.tensor import Tensor, storage_of
from nbgrad.dispatch.transforms import innermost
from nbgrad.tape.modes import shared, state, switch

_NO_HOOKS = "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use case."
_MANY = 20000  # objects behind a function that are looked at


class Running:
    """One function that is being differentiated, at these arguments."""

    def __init__(self, func: Any, args: Any) -> None:
        self.func, self.args = func, args
        self.captured: set[int] | None = None
        self.kept: list[Any] = []  # alive, so that an id stays theirs

    def check_write(self, t: Tensor) -> None:
        if self.captured is None:
            own = {id(_memory(x)) for x in tree_flatten(self.args)[0] if isinstance(x, Tensor)}
            self.kept = [_memory(x) for x in _reached(self.func)]
            self.captured = {id(m) for m in self.kept} - own
        if id(_memory(t)) in self.captured:
            raise RuntimeError(
                "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
                f"({_write_of(sys._getframe(1))}) that would mutate a captured Tensor. This is not supported; please rewrite the "
                "function being transformed to explicitly accept the mutated Tensor(s) as inputs."
            )


class running:
    """`func` runs inside, to be differentiated; `hooks` on saved tensors are refused where it is by reverse mode."""

    def __init__(self, func: Any, args: Any, hooks: bool = False) -> None:
        self.transform, self.hooks = Running(func, args), hooks

    def __enter__(self) -> None:
        if state.modes.saved_hooks and not self.hooks:
            raise RuntimeError(_NO_HOOKS)
        self.before = state.transforms, state.modes.saved_hooks_disabled
        state.transforms = (*self.before[0], self.transform)
        if not self.hooks:
            switch(saved_hooks_disabled=_NO_HOOKS)
        shared.count(1)

    def __exit__(self, *_: object) -> None:
        state.transforms, disabled = self.before
        switch(saved_hooks_disabled=disabled)
        shared.count(-1)


def _memory(t: Tensor) -> Any:
    return storage_of(innermost(t)).memory


def _reached(func: Any) -> list[Tensor]:
    """The tensors that a function can reach by its closure, the globals that it names, and what it is bound to."""
    found: list[Tensor] = []
    seen: set[int] = set()
    left = [func]
    while left and len(seen) < _MANY:
        x = left.pop()
        if id(x) in seen or isinstance(x, (ModuleType, type, str, bytes, int, float)):
            continue
        seen.add(id(x))
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, FunctionType):
            left += [v for c in x.__closure__ or () for v in _contents(c)]
            left += [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
            if not x.__globals__.get("__name__", "").startswith("nbgrad"):
                left += [x.__globals__[n] for n in _names(x.__code__) if n in x.__globals__]
        elif isinstance(x, MethodType):
            left += [x.__self__, x.__func__]
        elif isinstance(x, functools.partial):
            left += [x.func, *x.args, *x.keywords.values()]
        elif isinstance(x, dict):
            left += x.values()
        elif isinstance(x, (list, tuple, set, frozenset)):
            left += x
        else:
            left += getattr(x, "__dict__", {}).values()
            left += [
                f
                for name in ("forward", "__call__")
                if isinstance(f := getattr(type(x), name, None), FunctionType)
            ]
    return found


def _contents(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # a variable that has no value yet
        return ()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _write_of(frame: FrameType | None) -> str:
    """PyTorch's name of the write that is about to be made, from the calls that lead to it."""
    named = ""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("nbgrad"):
        name = frame.f_code.co_name
        if name == "inplace" and "op" in frame.f_locals:
            op, args = frame.f_locals["op"], frame.f_locals["args"]
            return f"aten::{op.name}_" + (".Tensor" if len(args) == 2 else "")
        if name == "_setitem":
            return "aten::copy_"
        if name.endswith("_") and not named:
            named = f"aten::{name}"
        frame = frame.f_back
    return named or "aten::copy_"
