"""PyTorch's `functorch.compile`: compilers of its graphs. Their names are there, and say that they are not here when they are used; what
turns functions into those that these compilers take is here.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """The function of one list, its arguments, that the compilers take.

    >>> from functorch.compile import make_boxed_func
    >>> make_boxed_func(max)([2, 3])
    3
    """

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """A compiler whose programs take one list.

    >>> from functorch.compile import make_boxed_compiler
    >>> make_boxed_compiler(lambda program, inputs: program)(max, None)([2, 3])
    3
    """

    @wraps(compiler)
    def boxing(program: Any, inputs: Any) -> Any:
        return make_boxed_func(compiler(program, inputs))

    return boxing


_WHERE = {
    "aot_autograd": "aot_function aot_module aot_module_simplified compiled_function compiled_module",
    "compilers": "debug_compile default_decompositions draw_graph_compile memory_efficient_fusion nnc_jit nop print_compile ts_compile",
    "fx_minifier": "minifier",
    "partitioners": "default_partition draw_graph min_cut_rematerialization_partition",
    "python_key": "pythonkey_decompose",
}


def __getattr__(name: str) -> Any:
    if name == "config":
        return import_module("nbgrad._functorch.config")
    for where, names in _WHERE.items():
        if name in names.split():
            return getattr(import_module(f"nbgrad._functorch.{where}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
