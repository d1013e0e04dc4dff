"""`torch.multiprocessing`: Python's own, between whose processes tensors go without a copy.

Once it is imported, a tensor that is put into a queue or a pipe, or given to a process, is laid in shared memory, and who gets it reads and
writes the same numbers. Who sends has to be there until it is received.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from nbgrad.memory.shared import current as _current
from nbgrad.multiprocessing.reductions import init_reductions as init_reductions
from nbgrad.multiprocessing.spawn import ENV_VAR_PARALLEL_START as ENV_VAR_PARALLEL_START
from nbgrad.multiprocessing.spawn import ProcessContext as ProcessContext
from nbgrad.multiprocessing.spawn import ProcessExitedException as ProcessExitedException
from nbgrad.multiprocessing.spawn import ProcessRaisedException as ProcessRaisedException
from nbgrad.multiprocessing.spawn import SpawnContext as SpawnContext
from nbgrad.multiprocessing.spawn import _prctl_pr_set_pdeathsig as _prctl_pr_set_pdeathsig
from nbgrad.multiprocessing.spawn import spawn as spawn
from nbgrad.multiprocessing.spawn import start_processes as start_processes

_all_sharing_strategies = {"file_descriptor", "file_system"}


def set_sharing_strategy(new_strategy: str) -> None:
    """How memory is shared from now on: by "file_descriptor", which leaves nothing behind, or as "file_system", by names, which needs no
    file to stay open.

    >>> torch.multiprocessing.set_sharing_strategy("file_descriptor")
    """
    if new_strategy not in _all_sharing_strategies:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {_all_sharing_strategies}"
        )
    if new_strategy == "file_system":
        # What takes names away if all processes are killed has to be one for all of them, so it is there before the first fork.
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()
    _current.strategy = new_strategy


def get_sharing_strategy() -> str:
    """How memory is shared.

    >>> torch.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    found: str = _current.strategy
    return found


def get_all_sharing_strategies() -> set[str]:
    """How memory can be shared.

    >>> sorted(torch.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return _all_sharing_strategies


init_reductions()

__all__ = [
    "set_sharing_strategy",
    "get_sharing_strategy",
    "get_all_sharing_strategies",
    *multiprocessing.__all__,
]
