"""Grad mode, inference mode and their like: each a context manager, a decorator, and where PyTorch has it a function.

Promises that a mode is this thread's alone and that leaving a block puts back what was there, whatever happened inside.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any

from nbgrad._tape.modes import set_inference, state

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def is_grad_enabled() -> bool:
    return state.grad


def is_inference_mode_enabled() -> bool:
    return state.inference


def is_multithreading_enabled() -> bool:
    return state.multithreading


def _stepwise(fresh: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A generator function with the mode set while its body runs, and not while it waits for its caller."""

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = function(*args, **kwargs)
        resume, given = inner.send, None
        while True:
            try:
                with fresh():
                    value = resume(given)
            except StopIteration as end:
                return end.value
            try:
                resume, given = inner.send, (yield value)
            except GeneratorExit:
                with fresh():
                    inner.close()
                raise
            except BaseException as error:
                resume, given = inner.throw, error

    return generator


class Mode:
    """What makes a context manager a decorator too."""

    __slots__ = ()

    def clone(self) -> Any:
        """One like this, for each call of what it decorates."""
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError

    def __call__(self, function: Callable[..., Any]) -> Any:
        fresh = self.clone
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        elif inspect.isgeneratorfunction(function):
            return _stepwise(fresh, function)

        @functools.wraps(function, updated=() if inspect.isclass(function) else ("__dict__",))
        def within(*args: Any, **kwargs: Any) -> Any:
            with fresh():
                return function(*args, **kwargs)

        return within


class no_grad(Mode):
    """Nothing is recorded inside: results do not require grad. What factories are asked to require, they still do."""

    __slots__ = ("_before",)

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)

    def __enter__(self) -> None:
        self._before = state.grad
        state.grad = False

    def __exit__(self, *_: object) -> None:
        state.grad = self._before


class enable_grad(Mode):
    """Ops are recorded inside, although a `no_grad` is around."""

    __slots__ = ("_before",)

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)

    def __enter__(self) -> None:
        self._before = state.grad
        state.grad = not state.inference

    def __exit__(self, *_: object) -> None:
        state.grad = self._before


class set_grad_enabled(Mode):
    """Acts when it is made; as a context manager also puts back what was there before."""

    __slots__ = ("_before", "mode")

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self._before, self.mode = state.grad, mode
        state.grad = mode and not state.inference

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __call__(self, function: Callable[..., Any]) -> Any:
        state.grad = self._before
        return super().__call__(function)

    def __enter__(self) -> None:
        state.grad = self.mode and not state.inference

    def __exit__(self, *_: object) -> None:
        state.grad = self._before

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class inference_mode(Mode):
    """As `no_grad`, and the results can never enter a graph: they carry no version. `inference_mode(False)` leaves the mode."""

    __slots__ = ("_before", "mode")

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self._before = state.inference, state.grad
        if self.mode is not state.inference:
            set_inference(self.mode)
        state.grad = not self.mode

    def __exit__(self, *_: object) -> None:
        inference, grad = self._before
        if inference is not state.inference:
            set_inference(inference)
        state.grad = grad


class set_multithreading_enabled(Mode):
    """PyTorch's switch for the threads of its devices. Backward here runs on the thread that asks for it; the switch is kept."""

    __slots__ = ("_before", "mode")

    def __init__(self, mode: bool) -> None:
        self._before, self.mode = state.multithreading, mode
        state.multithreading = mode

    def clone(self) -> set_multithreading_enabled:
        return set_multithreading_enabled(self.mode)

    def __enter__(self) -> None:
        state.multithreading = self.mode

    def __exit__(self, *_: object) -> None:
        state.multithreading = self._before


class enforce_grad_layout_policy(Mode):
    """Whether the first gradient takes the layout of its leaf; here it always does."""

    __slots__ = ("mode",)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def clone(self) -> enforce_grad_layout_policy:
        return enforce_grad_layout_policy(self.mode)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
