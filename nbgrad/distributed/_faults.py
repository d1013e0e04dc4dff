"""What ends one process ends all of them.

Promises whoever waits for a process that it does not wait for one that an exception has ended: MPI is told to end them all, after the
traceback was written with the number of the process before each line, as PyTorch does.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

_before: list[Callable[..., Any]] = []


def end_together(comm: Any) -> None:
    """From here on, until `end_alone`."""
    hook, prefix = sys.excepthook, f"[rank{comm.Get_rank()}]"

    def tell(*error: Any) -> None:
        stderr, sys.stderr = sys.stderr, io.StringIO()
        try:
            hook(*error)
            text = sys.stderr.getvalue()
        finally:
            sys.stderr = stderr
        sys.stderr.write("\n".join(f"{prefix}: {line}" if line else "" for line in text.split("\n")))
        sys.stderr.flush()
        if comm.Get_size() > 1:
            sys.stdout.flush()
            comm.Abort(1)

    _before.append(hook)
    sys.excepthook = tell


def end_alone() -> None:
    sys.excepthook = _before.pop()
