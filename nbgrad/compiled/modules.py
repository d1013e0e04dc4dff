"""`compile` as users call it, and modules whose calls are compiled."""

from __future__ import annotations

from typing import Any

from nbgrad.compiled.function import Compiled
from nbgrad.nn.modules.module import Module

_ASKED = (
    "warm",
    "explain",
    "graph",
    "source",
)  # of the compiled call, where the module has no such name itself


class OptimizedModule(Module):
    """A module whose calls are compiled; it has the names of the module that it was made from.

    >>> import nbgrad
    >>> layer = nbgrad.compile(nn.Linear(2, 1))
    >>> type(layer).__name__, list(layer.state_dict())
    ('OptimizedModule', ['_orig_mod.weight', '_orig_mod.bias'])
    """

    def __init__(
        self, module: Module, fullgraph: bool = False, limit: int | None = None, eager: bool = False
    ) -> None:
        super().__init__()
        self._orig_mod = module
        call = module.__call__ if eager else Compiled(module.__call__, fullgraph, limit)
        object.__setattr__(self, "compiled", call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["compiled"](*args, **kwargs)

    forward = __call__

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        if name in _ASKED and not hasattr(self._orig_mod, name):
            return getattr(self.__dict__["compiled"], name)
        return getattr(self._orig_mod, name)


def compiled(function: Any, fullgraph: bool = False, limit: int | None = None, eager: bool = False) -> Any:
    """The function or module so that its calls are compiled; of a module with `eager` only the names are."""
    if isinstance(function, OptimizedModule | Compiled):
        return function
    if isinstance(function, Module):
        return OptimizedModule(function, fullgraph, limit, eager)
    return Compiled(function, fullgraph, limit)
