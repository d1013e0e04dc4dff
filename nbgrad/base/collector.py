"""Python's collector of cycles, off while the package makes its functions: it would look through all of them, again and again, and find
nothing.

Promises that it is on again, if it was, once nobody holds what `rest` gave: when the import is done, or fails.
"""

from __future__ import annotations

import gc


class _Rest:
    def __init__(self) -> None:
        self.was_on = gc.isenabled()
        gc.disable()

    def __del__(self) -> None:
        if self.was_on:
            gc.enable()


def rest() -> _Rest:
    """The collector rests for as long as somebody holds this."""
    return _Rest()
