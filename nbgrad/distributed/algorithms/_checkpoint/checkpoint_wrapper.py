"""PyTorch's path to modules that compute their activations again; they stand above, where checkpoints do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if not TYPE_CHECKING:  # for which all names are there

    def __getattr__(name: str) -> Any:
        return getattr(import_module("nbgrad.utils._activations"), name)

    def __dir__() -> list[str]:
        return dir(import_module("nbgrad.utils._activations"))
