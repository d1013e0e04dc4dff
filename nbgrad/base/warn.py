"""Warnings at the line that called nbgrad.

Promises that a warning names the first line outside the library, however many of its own frames, written or generated, lie
between: Python shows the user's line, and tells of it once per place.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from nbgrad.base.switches import noting
from nbgrad.base.tables import cached


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    noting.refuse()
    depth = 2
    frame: Any = sys._getframe(1)
    while frame.f_back and _is_ours(frame):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, category, stacklevel=depth)


class _Always:
    on = False


def warn_always(on: bool) -> None:
    """Whether what comes once in a process comes each time."""
    _Always.on = on


def warn_once(text: str, topic: str = "") -> None:
    """What PyTorch says only the first time, of all texts on one topic."""
    told = _told(topic or text)
    if _Always.on or not told:
        told[:] = [text]
        warn(text)


@cached(128)
def _told(topic: str) -> list[str]:
    return []


def _is_ours(frame: Any) -> bool:
    """Functions that the library has generated are in no module."""
    module: str = frame.f_globals.get("__name__") or ("nbgrad" if frame.f_code.co_filename[:1] == "<" else "")
    return module == "nbgrad" or module.startswith("nbgrad.")
