"""PyTorch's `functorch.compile`: compilers of its graphs. Their names are there, and say that they are not here when they are used."""

from importlib import import_module
from typing import Any

_WHERE = {
    "aot_autograd": "aot_function aot_module aot_module_simplified compiled_function compiled_module get_aot_compilation_context "
    "get_aot_graph_name get_graph_being_compiled make_boxed_compiler make_boxed_func",
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
