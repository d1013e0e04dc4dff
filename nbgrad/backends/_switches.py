"""Modules whose switches take only what they should, as PyTorch's do."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def switch(setter: str, value: Any) -> None:
    """Refuse what is no bool, in the words of PyTorch's setter."""
    if not isinstance(value, bool):
        raise RuntimeError(f"{setter} expects a bool, but got {type(value).__name__}")


class _Switches(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        setter = vars(self).get("_setters", {}).get(name)
        if setter is not None:
            switch(setter, value)
        super().__setattr__(name, value)


def guard(module: str, setters: dict[str, str]) -> None:
    """Let a module's switches be set to bools only: `setters` has for each the name that PyTorch's refusal says."""
    made = sys.modules[module]
    vars(made)["_setters"] = setters
    made.__class__ = _Switches
