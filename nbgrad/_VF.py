"""The functions of `torch` under the name by which PyTorch's own recurrent layers, and copies of them, call them: `torch._VF.lstm`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nbgrad._C import _VariableFunctions


def __getattr__(name: str) -> Any:
    whole = import_module(__name__.partition(".")[0])
    found = getattr(whole if name[0] == "_" else _VariableFunctions, name, None)
    if name[:2] == "__" or not callable(found):
        raise AttributeError(f"'torch._C._VariableFunctionsClass' object has no attribute '{name}'")
    return found
