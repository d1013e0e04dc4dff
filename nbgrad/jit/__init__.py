"""PyTorch's `torch.jit`, where nothing is compiled: a scripted or traced module runs the code of its class, a function is returned as it
was given.

So a program that scripts its modules computes what it computed without. Files of scripted modules name their classes; those of PyTorch
are not read.
"""

from __future__ import annotations

import builtins
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from nbgrad.futures import Future as Future
from nbgrad.jit._script import (
    Error as Error,
)
from nbgrad.jit._script import (
    RecursiveScriptModule as RecursiveScriptModule,
)
from nbgrad.jit._script import (
    ScriptModule as ScriptModule,
)
from nbgrad.jit._script import (
    TopLevelTracedModule as TopLevelTracedModule,
)
from nbgrad.jit._script import (
    TracedModule as TracedModule,
)
from nbgrad.jit._script import (
    frozen,
    scripted,
)
from nbgrad.jit._script import (
    load as load,
)
from nbgrad.jit._script import (
    save as save,
)
from nbgrad.nn.modules.module import Module

T = TypeVar("T")
Final = typing.Final


class Attribute(NamedTuple):
    """A value with the type that a scripted module would give it.

    >>> torch.jit.Attribute(0.5, float).value
    0.5
    """

    value: Any
    type: Any


def script(
    obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Any:
    """Of a module a `ScriptModule` with its parameters, which runs the same code; a function or class itself.

    >>> @torch.jit.script
    ... def double(x):
    ...     return 2 * x
    >>> double(torch.ones(2)), torch.jit.script(torch.nn.Tanh())
    (tensor([2., 2.]), RecursiveScriptModule(original_name=Tanh))
    """
    if builtins.isinstance(obj, Module) and not builtins.isinstance(obj, ScriptModule):
        return scripted(obj)
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Of a module a `ScriptModule` with its parameters, a function itself: it is not called, and what it decides by the values of tensors
    it goes on to decide.

    >>> torch.jit.trace(torch.tanh, torch.zeros(2))(torch.zeros(1))
    tensor([0.])
    """
    if example_inputs is None and not builtins.isinstance(kwargs.get("example_kwarg_inputs"), dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    return _traced(func)


def _traced(func: Any) -> Any:
    if builtins.isinstance(func, Module) and not builtins.isinstance(func, ScriptModule):
        return scripted(func, TopLevelTracedModule, TracedModule)
    return func


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """The same of a module, with the methods that it has.

    >>> layer = torch.nn.Linear(2, 1)
    >>> torch.jit.trace_module(layer, {"forward": torch.ones(1, 2)})(torch.ones(1, 2)).shape
    torch.Size([1, 1])
    """
    if not builtins.isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not builtins.isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    return _traced(mod)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """A scripted module whose parameters want no gradient.

    >>> torch.jit.freeze(torch.jit.script(torch.nn.Tanh().eval()))(torch.zeros(1))
    tensor([0.])
    """
    if not builtins.isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing."
        )
    return frozen(mod)


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """A scripted module frozen, if it is not yet.

    >>> torch.jit.optimize_for_inference(torch.jit.script(torch.nn.Tanh().eval()))(torch.zeros(1))
    tensor([0.])
    """
    if not builtins.isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
            "'nn.Module'."
        )
    return freeze(mod.eval())


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Nothing."""


def script_method(fn: T) -> T:
    """The method itself."""
    return fn


def script_if_tracing(fn: T) -> T:
    """The function itself.

    >>> torch.jit.script_if_tracing(torch.tanh) is not None
    True
    """
    return fn


_script_if_tracing = script_if_tracing


def export(fn: T) -> T:
    """The method itself.

    >>> torch.jit.export(max)(1, 2)
    2
    """
    return fn


def unused(fn: T) -> T:
    """The method itself.

    >>> torch.jit.unused(max)(1, 2)
    2
    """
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself, also as `@torch.jit.ignore(drop=True)`.

    >>> torch.jit.ignore(max)(1, 2), torch.jit.ignore(drop=True)(max)(1, 2)
    (2, 2)
    """
    if callable(drop):
        return drop
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    return lambda fn: fn


def _drop(fn: T) -> T:
    return fn


def interface(obj: T) -> T:
    """The class itself.

    >>> torch.jit.interface(dict)
    <class 'dict'>
    """
    return obj


def _overload(func: T) -> T:
    return func


def _overload_method(func: T) -> T:
    return func


def is_scripting() -> bool:
    """Whether a script runs: never.

    >>> torch.jit.is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """Whether a trace is made: never.

    >>> torch.jit.is_tracing()
    False
    """
    return False


def annotate(the_type: Any, the_value: T) -> T:
    """The value; what type it is meant to have, only scripts need to know.

    >>> torch.jit.annotate(int, 3)
    3
    """
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether a value has a type, of a container's elements too.

    >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance([1, "a"], list[int])
    (True, False)
    """
    if builtins.isinstance(target_type, tuple):
        return any([isinstance(obj, each) for each in target_type])
    origin, inside = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        if target_type in (typing.List, typing.Dict, typing.Tuple, typing.Optional):  # noqa: UP006
            name = str(target_type).removeprefix("typing.")
            raise RuntimeError(
                f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[int]"
            )
        return target_type is Any or builtins.isinstance(obj, target_type)
    if origin in (typing.Union, __import__("types").UnionType):
        return any([isinstance(obj, each if each is not None else type(None)) for each in inside])
    if not builtins.isinstance(obj, origin):
        return False
    if origin is list:
        return all([isinstance(each, inside[0]) for each in obj])
    if origin is dict:
        return all([isinstance(k, inside[0]) and isinstance(v, inside[1]) for k, v in obj.items()])
    if origin is tuple:
        return len(obj) == len(inside) and all([isinstance(a, b) for a, b in zip(obj, inside)])
    return True


_isinstance = isinstance


def _unwrap_optional(x: T | None) -> T:
    assert x is not None, "Unwrapping null optional"
    return x


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """A future of what the function gives; it is called at once.

    >>> torch.jit.fork(max, 1, 2).wait()
    2
    """
    made: Future[T] = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future: Future[T]) -> T:
    """The value of a future.

    >>> torch.jit.wait(torch.jit.fork(max, 1, 2))
    2
    """
    return future.wait()


_fork, _wait = fork, wait


class strict_fusion:
    """A block in which PyTorch tells what its compiler of scripts did not fuse.

    >>> with torch.jit.strict_fusion():
    ...     torch.ones(1) + 1
    tensor([2.])
    """

    def __init__(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block in which scripts are optimised or not."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block in which scripts are fused by one of PyTorch's compilers."""
    yield


def enable_onednn_fusion(enabled: bool) -> None:
    """Let scripts use a library: kept nowhere, as there are none.

    >>> torch.jit.enable_onednn_fusion(False)
    """


def onednn_fusion_enabled() -> bool:
    """Whether scripts use a library: never.

    >>> torch.jit.onednn_fusion_enabled()
    False
    """
    return False


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """How often scripts are specialised; what was set before is returned, and nothing comes of it.

    >>> torch.jit.set_fusion_strategy(torch.jit.set_fusion_strategy([("STATIC", 1)]))
    [('STATIC', 1)]
    """
    global _strategy
    before, _strategy = _strategy, strategy
    return before


_strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]
__all__ = [
    *(
        "Attribute",
        "annotate",
        "enable_onednn_fusion",
        "export",
        "fork",
        "freeze",
        "ignore",
        "interface",
        "isinstance",
    ),
    *(
        "onednn_fusion_enabled",
        "optimize_for_inference",
        "script",
        "script_if_tracing",
        "set_fusion_strategy",
    ),
    *("strict_fusion", "trace", "trace_module", "unused", "wait"),
]
