"""The marks that programs set for PyTorch's compiler, by its path to them: they are taken, and nothing comes of most of them."""

from __future__ import annotations

from typing import Any

from nbgrad._dynamo import exc as exc
from nbgrad.compiler import allow_in_graph as allow_in_graph
from nbgrad.compiler import assume_constant_result as assume_constant_result
from nbgrad.compiler import compile as _compile
from nbgrad.compiler import disable as disable
from nbgrad.compiler import is_compiling as is_compiling
from nbgrad.compiler import left_out
from nbgrad.compiler import list_backends as list_backends
from nbgrad.compiler import reset as reset
from nbgrad.compiler import set_stance as set_stance
from nbgrad.compiler import substitute_in_graph as substitute_in_graph


def disallow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def is_dynamo_supported() -> bool:
    """Whether `torch.compile` compiles on this machine: it does on each."""
    return True


forbid_in_graph = nonstrict_trace = dont_skip_tracing = disallow_in_graph


def run(fn: Any = None) -> Any:
    """The function itself."""
    return fn if fn is not None else lambda function: function


def optimize(backend: Any = None, **kwargs: Any) -> Any:
    """A decorator that compiles a function."""
    return lambda function: _compile(function, backend=backend)


optimize_assert = optimize


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Say that a dimension will have other sizes."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Say that a dimension may have other sizes."""


def mark_static(t: Any, index: Any = None) -> None:
    """Say that a dimension will have no other size."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Say that a tensor stays where it is."""


def graph_break(msg: str = "") -> None:
    """Cut a compiled program here."""
    left_out()


__all__ = [
    *(
        "allow_in_graph",
        "assume_constant_result",
        "disable",
        "disallow_in_graph",
        "dont_skip_tracing",
        "forbid_in_graph",
    ),
    *("graph_break", "is_compiling", "list_backends", "mark_dynamic", "mark_static", "mark_static_address"),
    *("maybe_mark_dynamic", "nonstrict_trace", "optimize", "optimize_assert", "reset", "run", "set_stance"),
    "substitute_in_graph",
]
