"""PyTorch's `torch.compile` and `torch.compiler`, as long as there is no compiler of whole programs here: what would be compiled is
returned as it was given, and every op has its compiled kernel as always."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
    """The function or module itself, also as `@torch.compile(mode=...)`: nothing is compiled as a whole yet, so it computes what it
    computes without, as fast.

    >>> torch.compile(torch.nn.Tanh())(torch.zeros(1))
    tensor([0.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if model is None:
        return lambda function: compile(function)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, **kwargs: Any) -> Any:
    """The function itself, or what returns one.

    >>> torch.compiler.disable(max)(1, 2), torch.compiler.disable(recursive=False)(max)(1, 2)
    (2, 2)
    """
    if fn is not None and not callable(fn):
        raise AssertionError("fn must be callable")
    return fn if fn is not None else lambda function: function


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
    """Whether a program is being compiled: never.

    >>> torch.compiler.is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether a program is being compiled: never.

    >>> torch.compiler.is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """Whether a program is being exported: never.

    >>> torch.compiler.is_exporting()
    False
    """
    return False


def reset() -> None:
    """Forget what was compiled: nothing.

    >>> torch.compiler.reset()
    """


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


class set_stance:
    """What is done with what was compiled, from here on or in a `with`: nothing was.

    >>> with torch.compiler.set_stance("force_eager"):
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")

    def __call__(self, fn: T) -> T:
        return fn

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


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
