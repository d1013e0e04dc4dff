"""What each op is: one stanza, forward and rule together, a folder for a family; a family imports only from those below it.

From below: views, pointwise, reduce, index, arrange, host, order, linear, rows, make. Promises users PyTorch's values, gradients of every
order, layouts and words for each name.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`torch.ops.namespace.name`: operators by name."""
    if name[:2] == "__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module("nbgrad._ops").space(name)


refused: list[object] = []  # libraries of C++ that were to be loaded, whose operators are missed from then on


def load_library(path: object) -> None:
    """PyTorch's `torch.ops.load_library`: refused as a file that cannot be read, which libraries with operators of C++ expect."""
    refused.append(path)
    raise OSError(f"Could not load this library: {path}: nbgrad runs no operators of C++")
