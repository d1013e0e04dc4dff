"""What the benchmarks share: the libraries under test, and how a benchmark gets the one of its parameter.

Where torch is installed the same code runs on it too (`lib=torch`), so that a figure has its peer beside it.
"""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NoReturn

LIBS = tuple(name for name in ("nbgrad", "torch") if find_spec(name))


def some(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values of a table's parameter; with $NBGRAD_BENCHMARKS=first the first alone: that every benchmark runs is then soon seen."""
    return tuple(values)[: 1 if os.environ.get("NBGRAD_BENCHMARKS") == "first" else None]


def skip(reason: str) -> NoReturn:
    """In `setup`: leaves out this combination of parameters. asv takes NotImplementedError for that, and shows n/a."""
    raise NotImplementedError(reason)


def library(name: str) -> ModuleType:
    """The library, with as many threads as nbgrad uses, so that both may use the machine alike."""
    lib = importlib.import_module(name)
    if name == "torch":
        lib.set_num_threads(importlib.import_module("nbgrad").get_num_threads())
    return lib


class PerLibrary(ABC):  # asv collects no abstract class
    """A benchmark whose only parameter is the library; `prepare` compiles all kernels that it will time, by running once."""

    params: tuple[Any, ...] = (LIBS,)
    param_names = ("lib",)

    def setup(self, lib: str) -> None:
        self.T = library(lib)
        self.prepare()

    @abstractmethod
    def prepare(self) -> None: ...
