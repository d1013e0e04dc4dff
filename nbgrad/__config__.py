"""PyTorch's `torch.__config__`: what nbgrad is made of here."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import nbgrad
from nbgrad.torch_version import __version__ as VERSION


def show() -> str:
    """With what nbgrad computes, as a text.

    >>> import nbgrad
    >>> nbgrad.__config__.show().splitlines()[0]
    'nbgrad built with:'
    """
    lines = [
        "nbgrad built with:",
        f"  - nbgrad {nbgrad.__version__}, in the place of PyTorch {VERSION}",
    ]
    lines += [f"  - {name} {metadata.version(name)}" for name in ("numpy", "numba")]
    return "\n".join([*lines, f"  - Python {platform.python_version()} on {platform.machine()}", ""])


def parallel_info() -> str:
    """How many threads share large launches, as a text.

    >>> import nbgrad
    >>> "get_num_threads() : " in nbgrad.__config__.parallel_info()
    True
    """
    asked = os.environ.get("OMP_NUM_THREADS", "[not set]")
    return (
        f"nbgrad:\n\tget_num_threads() : {nbgrad.get_num_threads()}\nos.cpu_count() : {os.cpu_count()}\n"
        f"Environment variables:\n\tOMP_NUM_THREADS : {asked}\n"
    )


__all__ = ["parallel_info", "show"]
