"""Python's collector of cycles, off while the package makes its functions: it would look through all of them, again and again, and find
nothing.

Promises that it is on again, if it was, once nobody holds what `rest` gave: when the import is done, or fails. What was made meanwhile
then counts as old, as it would had it been looked through, which takes a tenth of the import.
"""

from __future__ import annotations

import gc


class _Rest:
    def __init__(self) -> None:
        self.was_on = gc.isenabled()
        gc.disable()

    def __del__(self) -> None:
        if not self.was_on:
            return
        if not gc.get_freeze_count():  # else what the program has frozen would thaw
            gc.freeze()
            gc.unfreeze()  # to the oldest
        gc.enable()


def rest() -> _Rest:
    """The collector rests for as long as somebody holds this."""
    return _Rest()
