"""PyTorch's switches for scripts that are to give the same bits in each run.

All of nbgrad's functions do on the CPU, and on a GPU once it is asked for here, so that nothing is refused or warned of.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

from nbgrad.base.switches import determinism
from nbgrad.base.tables import UNSET, forget

_MODES: Final = ("default", "warn", "error")


def _switch(level: int | None = None, fills: bool | None = None) -> None:
    determinism.level = determinism.level if level is None else level
    determinism.fills = determinism.fills if fills is None else fills
    forget(UNSET)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Refuse functions whose results may differ from run to run, or warn. None does here.

    >>> torch.use_deterministic_algorithms(True, warn_only=True)
    >>> torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)
    """
    given: tuple[tuple[str, Any], ...] = ("'mode' (position 1)", mode), ("'warn_only'", warn_only)
    for name, value in given:
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument {name} must be bool, not {type(value).__name__}"
            )
    _switch(level=(1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether functions whose results may differ are refused or warned of, as it was set.

    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    return determinism.level > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether functions whose results may differ are only warned of, as it was set.

    >>> torch.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return determinism.level == 1


def get_deterministic_debug_mode() -> int:
    """What happens where results may differ: 0 nothing, 1 a warning, 2 an error.

    >>> torch.get_deterministic_debug_mode()
    0
    """
    return determinism.level


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """What is to happen where results may differ: "default" nothing, "warn" or "error", or their numbers.

    >>> torch.set_deterministic_debug_mode("error")
    >>> torch.get_deterministic_debug_mode()
    2
    >>> torch.set_deterministic_debug_mode(0)
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    _switch(level=int(debug_mode))


fill_uninitialized_memory = True


class _Deterministic(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "fill_uninitialized_memory" and not isinstance(value, bool):
            raise RuntimeError(f"expected a bool, but got {type(value).__name__}")
        if name == "fill_uninitialized_memory":
            _switch(fills=value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Deterministic
__all__ = ["fill_uninitialized_memory"]
