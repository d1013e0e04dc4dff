"""PyTorch's `torch.utils`, and `kernels`, `sources`, `tables` and `viz`, for which PyTorch has no name.

Submodules that few programs need are loaded when their name is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nbgrad.base import source
from nbgrad.base.source import Source
from nbgrad.kernels import build
from nbgrad.kernels.build import Kernel
from nbgrad.utils import dlpack as dlpack

if TYPE_CHECKING:
    from nbgrad.ops.host.swap import swap_tensors as swap_tensors
    from nbgrad.utils import checkpoint as checkpoint
    from nbgrad.utils import data as data
    from nbgrad.utils import deterministic as deterministic
    from nbgrad.utils import hooks as hooks
    from nbgrad.utils import safetensors as safetensors
    from nbgrad.utils import viz as viz
    from nbgrad.utils._tables import Rows


if not TYPE_CHECKING:  # for which all names are there

    def __getattr__(name: str) -> Any:
        if name in (
            "checkpoint",
            "data",
            "deterministic",
            "hooks",
            "safetensors",
            "viz",
            "_pytree",
            "_python_dispatch",
            "_device",
        ):
            return importlib.import_module(f"{__name__}.{name}")
        if name == "swap_tensors":
            from nbgrad.ops.host import swap

            return swap.swap_tensors
        if name == "_cxx_pytree":
            return importlib.import_module(f"{__name__}._pytree")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def kernels(name: str = "") -> list[Kernel]:
    """The kernels that this process has built or loaded whose name begins so, in that order.

    Each has its `name`, its `source` (Python, as Numba compiles it), the `path` of that source in the cache, and `python()`: the
    same function un-jitted, for NumPy arrays; `jitted()`: as a function of Numba, which compiles it for those.

    >>> import nbgrad
    >>> _ = nbgrad.ones(3).exp()
    >>> "exp" in nbgrad.utils.kernels("exp_f4")[0].source
    True
    """
    return [kernel for kernel in build._kernels.values() if kernel.name.startswith(name)]


def sources(word: str = "") -> list[Source]:
    """The functions of Python that nbgrad has written in this process, of which the title, or what they were made from, holds the
    word: recorders, short ways of ops, guards, launchers of kernels. Each has a `title`, `made_from`, its `text`, and the `path`
    under which tracebacks show it.

    >>> import nbgrad
    >>> _ = nbgrad.ones(3).exp()
    >>> len(nbgrad.utils.sources("short way of elementwise ops")) > 0
    True
    """
    return list(source.sources(word))


def tables(word: str = "") -> Rows:
    """What nbgrad has worked out and remembers, by where in it that is: rows of `name`, `tables` (of that name), `entries` and
    `bound`, of those whose name holds the word. A table that is full is begun anew, so memory stays bounded however many shapes a
    program sees.

    >>> import nbgrad
    >>> _ = nbgrad.ones(3).sum()
    >>> [row.bound for row in nbgrad.utils.tables("prepared.known")]
    [4096]
    """
    from nbgrad.utils._tables import rows

    return rows(word)


__all__ = ["kernels", "sources", "tables"]
