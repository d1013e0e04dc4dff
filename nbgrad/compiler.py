"""PyTorch's `torch.compile`, which `nbgrad.compiled` does, and `torch.compiler`, most of whose marks mean nothing there."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, TypeVar

from nbgrad.base.switches import compiling
from nbgrad.base.warn import warn_once

T = TypeVar("T")
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_STANCES = (
    "default",
    "eager_then_compile",
    "aot_eager_then_compile",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
)
# PyTorch's, by which programs choose how it compiles.
_BACKENDS = {
    *("aot_eager", "aot_eager_decomp_partition", "aot_ts", "cudagraphs", "eager", "eager_debug"),
    *("eager_noexcept", "inductor", "openxla", "pre_dispatch_eager", "ts", "tvm"),
}
_AS_USUAL: dict[str, tuple[Any, ...]] = {
    "backend": (None, "inductor", "eager"),
    "mode": (None, "default"),
    "options": (None, {}),
    "dynamic": (None, False),
}


class InvalidBackend(RuntimeError):
    """No compiler has this name."""


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """The function or module so that a call which does what an earlier one did is done from a record: its kernels one after the other,
    without the tape and without Python between them. Also as `@torch.compile`, or `@torch.compile(fullgraph=True)`.

    A function may hold a whole training step, `backward()` and `optimizer.step()` included. Its first calls run as they are; two that
    launched the same make a program, which is tried before it is believed. What a program cannot hold (a value that is read, an effect
    on Python's state) is done by Python, and what stands before and behind it is compiled; with `fullgraph=True` it is an error.
    `explain()` of what is returned tells where. There is one way to compile: `dynamic`, `mode`, `options` and a `backend` other than
    "eager" choose none, which a warning says once.

    >>> import nbgrad
    >>> square = nbgrad.compile(lambda x: x * x)
    >>> [square(torch.tensor(3.0)).item() for _ in range(4)]
    [9.0, 9.0, 9.0, 9.0]
    """
    asked = dict(
        backend=backend, mode=mode, options=options, dynamic=dynamic, disable=disable, fullgraph=fullgraph
    )
    if model is None:
        return lambda function: compile(function, **asked, recompile_limit=recompile_limit)
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if isinstance(backend, str) and backend not in _BACKENDS:
        raise InvalidBackend(
            f"Invalid backend: '{backend}', see `torch._dynamo.list_backends()` for available backends."
        )
    if mode is not None and mode not in _MODES and backend in (None, "inductor"):
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    eager = backend == "eager"
    if disable or isinstance(model, type) or (eager and not hasattr(model, "named_modules")):
        return model
    for name, usual in _AS_USUAL.items():
        if asked[name] not in usual:
            told = f"nbgrad.compile has one way to compile, and ignores `{name}={asked[name]!r}`"
            warn_once(told, f"compile {name}")
    from nbgrad.compiled import compiled

    return compiled(model, fullgraph, recompile_limit, eager)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, **kwargs: Any) -> Any:
    """The function so that it is no part of a compiled program: it runs as it is at each call, and what stands around it is compiled.

    >>> torch.compiler.disable(max)(1, 2), torch.compiler.disable(recursive=False)(max)(1, 2)
    (2, 2)
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if not callable(fn):
        raise AssertionError("fn must be callable")
    if not isinstance(fn, (FunctionType, MethodType)):
        return fn

    @functools.wraps(fn)
    def as_it_is(*args: Any, **kwargs: Any) -> Any:
        left_out()
        return fn(*args, **kwargs)

    return as_it_is


def left_out() -> None:
    """What follows is no part of a program: who records one looks out for this call."""


def allow_in_graph(fn: T) -> T:
    """The function itself.

    >>> torch.compiler.allow_in_graph(max)(1, 2)
    2
    """
    return fn


def assume_constant_result(fn: T) -> T:
    """The function itself.

    >>> torch.compiler.assume_constant_result(max)(1, 2)
    2
    """
    return fn


def substitute_in_graph(original_fn: Any, **kwargs: Any) -> Callable[[T], T]:
    """A decorator that returns the function itself: nothing is put in another one's place.

    >>> torch.compiler.substitute_in_graph(max)(min)(1, 2)
    1
    """
    return lambda fn: fn


def nested_compile_region(fn: Any = None, **kwargs: Any) -> Any:
    """The function itself.

    >>> torch.compiler.nested_compile_region(max)(1, 2)
    2
    """
    return fn if fn is not None else lambda function: function


def is_compiling() -> bool:
    """Whether this call is made by a function that is being compiled: a program does what the function does where this is True.

    >>> import nbgrad
    >>> double = nbgrad.compile(lambda x: x * 2 if torch.compiler.is_compiling() else x)
    >>> double(torch.ones(1)), torch.compiler.is_compiling()
    (tensor([2.]), False)
    """
    return compiling.thread is not None and compiling.thread == threading.get_ident()


def is_dynamo_compiling() -> bool:
    """As `is_compiling()`.

    >>> torch.compiler.is_dynamo_compiling()
    False
    """
    return is_compiling()


def is_exporting() -> bool:
    """Whether a program is being exported: never.

    >>> torch.compiler.is_exporting()
    False
    """
    return False


def reset() -> None:
    """Forget what was compiled: functions learn anew.

    >>> torch.compiler.reset()
    """
    for function in [*compiling.every]:
        function.forget()


def cudagraph_mark_step_begin() -> None:
    """Say that a step begins, to a compiler that keeps graphs.

    >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Sequence[str] = ("debug", "experimental")) -> list[str]:
    """The compilers by name: none.

    >>> import nbgrad
    >>> nbgrad.compiler.list_backends()
    []
    """
    return []


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Let processes agree on when they compile; whether they did.

    >>> torch.compiler.set_enable_guard_collectives(False)
    False
    """
    return False


def _stand(stance: str) -> str:
    """Take it; which it was before."""
    if is_compiling():
        raise RuntimeError("attempted to set_stance in a torch.compile region")
    before, compiling.stance = compiling.stance, stance
    for function in [*compiling.every]:
        function.stand()
    return before


class set_stance:
    """What is done with what was compiled, from here on, in a `with`, or in a function that it decorates: "force_eager" calls functions as
    they are, "eager_on_recompile" does so where no program fits, for which "fail_on_recompile" is an error. The others compile.

    >>> with torch.compiler.set_stance("force_eager"):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance = "force_eager" if force_backend == "eager" else stance
        self.prev = _stand(self.stance)

    def __call__(self, fn: Any) -> Any:
        _stand(self.prev)
        stance = self.stance

        @functools.wraps(fn)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with set_stance(stance):
                return fn(*args, **kwargs)

        return decorated

    def __enter__(self) -> None:
        _stand(self.stance)

    def __exit__(self, *_: object) -> None:
        _stand(self.prev)


def save_cache_artifacts() -> None:
    """What was compiled, for another process: None, as it is nothing.

    >>> import nbgrad
    >>> print(nbgrad.compiler.save_cache_artifacts())
    None
    """
    return None


__all__ = [
    *(
        "allow_in_graph",
        "assume_constant_result",
        "compile",
        "cudagraph_mark_step_begin",
        "disable",
        "is_compiling",
    ),
    *(
        "is_dynamo_compiling",
        "is_exporting",
        "list_backends",
        "nested_compile_region",
        "reset",
        "save_cache_artifacts",
    ),
    *("set_enable_guard_collectives", "set_stance", "substitute_in_graph"),
]
