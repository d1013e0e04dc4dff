"""Grad mode, inference mode and their like: each a context manager, a decorator, and where PyTorch has it a function.

Promises that a mode is this thread's alone and that leaving a block puts back what was there, whatever happened inside.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar, cast, overload

from nbgrad.tape.modes import grad_mode, set_grad_mode, set_inference, state, switch

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "is_view_replay_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether ops are recorded now: not inside `no_grad` or `inference_mode`.

    >>> with torch.no_grad():
    ...     torch.is_grad_enabled()
    False
    """
    return grad_mode()


def is_inference_mode_enabled() -> bool:
    """Whether `inference_mode` is on now.

    >>> with torch.inference_mode():
    ...     torch.is_inference_mode_enabled()
    True
    """
    return state.modes.inference


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was set to last: true unless it was.

    >>> torch.autograd.is_multithreading_enabled()
    True
    """
    return state.modes.multithreading


def is_view_replay_enabled() -> bool:
    """Whether a view whose base was written to gets the history that it was made with, on what the base is now, and not one
    `as_strided`.

    >>> torch.autograd.is_view_replay_enabled()
    False
    """
    return state.modes.view_replay


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

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError

    def __call__(self, function: Decorated) -> Decorated:
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
            return cast(Decorated, _stepwise(fresh, function))

        @functools.wraps(function, updated=() if inspect.isclass(function) else ("__dict__",))
        def within(*args: Any, **kwargs: Any) -> Any:
            with fresh():
                return function(*args, **kwargs)

        return cast(Decorated, within)


class Plain(Mode):
    """A mode without a setting, which decorates without parentheses, too."""

    __slots__ = ()

    @overload
    def __new__(cls) -> Self: ...
    @overload
    def __new__(cls, function: Decorated) -> Decorated: ...  # type: ignore[misc]
    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)


def _check_bool(name: str, mode: Any) -> None:
    if not isinstance(mode, bool):
        raise TypeError(f"{name}(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}")


class no_grad(Plain):
    """Nothing is recorded inside: results do not require grad. What factories are asked to require, they still do. A context manager
    or a decorator, of this thread alone.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ("prev",)

    def __enter__(self) -> None:
        self.prev = grad_mode()
        set_grad_mode(False)

    def __exit__(self, *_: object) -> None:
        set_grad_mode(self.prev)


class enable_grad(Plain):
    """Ops are recorded inside, although a `no_grad` is around. A context manager or a decorator.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad(), torch.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    __slots__ = ("prev",)

    def __enter__(self) -> None:
        self.prev = grad_mode()
        set_grad_mode(True)

    def __exit__(self, *_: object) -> None:
        set_grad_mode(self.prev)


class set_grad_enabled(Mode):
    """Say whether ops are recorded from now on; as a context manager also put back what was there before, as a decorator act inside
    alone.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.set_grad_enabled(False):
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ("mode", "prev")

    def __init__(self, mode: bool) -> None:
        _check_bool("set_grad_enabled", mode)
        self.prev, self.mode = grad_mode(), mode
        set_grad_mode(mode)

    def clone(self) -> set_grad_enabled:
        """One like this, for each call of what it decorates."""
        return set_grad_enabled(self.mode)

    def __call__(self, function: Decorated) -> Decorated:
        set_grad_mode(self.prev)
        return super().__call__(function)

    def __enter__(self) -> None:
        set_grad_mode(self.mode)

    def __exit__(self, *_: object) -> None:
        set_grad_mode(self.prev)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class inference_mode(Mode):
    """As `no_grad`, and the results can never enter a graph: they carry no version. `inference_mode(False)` leaves the mode.

    >>> with torch.inference_mode():
    ...     y = torch.ones(2, requires_grad=True) * 2
    >>> y.is_inference(), y.requires_grad
    (True, False)
    """

    __slots__ = ("_before", "mode")

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: Decorated) -> Decorated: ...  # type: ignore[misc]
    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def clone(self) -> inference_mode:
        """One like this, for each call of what it decorates."""
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self._before = state.modes.inference, grad_mode()
        set_inference(self.mode)

    def __exit__(self, *_: object) -> None:
        inference, grad = self._before
        set_inference(inference)
        set_grad_mode(grad)


class set_multithreading_enabled(Mode):
    """PyTorch's switch for the threads of its devices. Backward here runs on the thread that asks for it; the switch is kept.

    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.autograd.is_multithreading_enabled()
    False
    """

    __slots__ = ("_before", "mode")

    def __init__(self, mode: bool) -> None:
        _check_bool("set_multithreading_enabled", mode)
        self._before, self.mode = state.modes.multithreading, mode
        switch(multithreading=mode)

    def clone(self) -> set_multithreading_enabled:
        """One like this, for each call of what it decorates."""
        return set_multithreading_enabled(self.mode)

    def __enter__(self) -> None:
        switch(multithreading=self.mode)

    def __exit__(self, *_: object) -> None:
        switch(multithreading=self._before)


class _force_original_view_tracking(Mode):
    """Whether a view whose base was written to gets the history that it was made with, on what the base is now (else one
    `as_strided`). Acts when it is made; as a context manager also puts back what was there before."""

    __slots__ = ("mode", "prev")

    def __init__(self, mode: bool) -> None:
        _check_bool("set_view_replay_enabled", mode)
        self.prev, self.mode = state.modes.view_replay, mode
        switch(view_replay=mode)

    def clone(self) -> _force_original_view_tracking:
        return _force_original_view_tracking(self.mode)

    def __call__(self, function: Decorated) -> Decorated:
        switch(view_replay=self.prev)
        return super().__call__(function)

    def __enter__(self) -> None:
        switch(view_replay=self.mode)

    def __exit__(self, *_: object) -> None:
        switch(view_replay=self.prev)


class enforce_grad_layout_policy(Mode):
    """Whether the first gradient takes the layout of its leaf; here it always does.

    >>> x = torch.ones(2, 3).t().requires_grad_()
    >>> with torch.autograd.enforce_grad_layout_policy(True):
    ...     x.sum().backward()
    >>> x.grad.stride()
    (1, 3)
    """

    __slots__ = ("mode",)

    def __init__(self, mode: bool = True) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                "set_grad_layout_enforcement_enabled(): argument 'enabled' (position 1) must be bool, not "
                f"{type(mode).__name__}"
            )
        self.mode = mode

    def clone(self) -> enforce_grad_layout_policy:
        """One like this, for each call of what it decorates."""
        return enforce_grad_layout_policy(self.mode)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
