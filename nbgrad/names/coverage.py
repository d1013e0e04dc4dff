"""`python -m nbgrad coverage [torch.x ...] [--against torch] [--json F]`: what PyTorch has, and what of it works here.

Of every public name of a module: it `works`; it is found and `raises` when it is used; it is `absent`, which none should be.
With `--against torch` the names are those of the PyTorch that is installed, and not of the table.
"""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Final

from nbgrad.names import table
from nbgrad.names.absent import is_absent
from nbgrad.names.finder import NOTHING, is_made, own

WORKS, RAISES, ABSENT = "works", "raises", "absent"
MAIN: Final = (
    *(
        "torch",
        "torch.Tensor",
        "torch.nn",
        "torch.nn.functional",
        "torch.nn.init",
        "torch.nn.utils",
        "torch.optim",
    ),
    *(
        "torch.optim.lr_scheduler",
        "torch.linalg",
        "torch.fft",
        "torch.special",
        "torch.autograd",
        "torch.func",
    ),
    *(
        "torch.utils",
        "torch.utils.data",
        "torch.distributions",
        "torch.amp",
        "torch.cuda",
        "torch.jit",
        "torch.fx",
    ),
)
USAGE = "usage: python -m nbgrad coverage [torch.module ...] [--all] [--against torch] [--json FILE]"


def public(path: str) -> list[str]:
    """The names that PyTorch tells of a module, or of its tensors."""
    if path == "torch.Tensor":
        return [name for name, _ in table.of_tensor() if not name.startswith("_")]
    return table.public(path)


def shown(path: str) -> list[str]:
    """The same of the PyTorch that is installed."""
    where, _, name = path.rpartition(".")
    module: Any = (
        getattr(importlib.import_module(where), name)
        if path == "torch.Tensor"
        else importlib.import_module(path)
    )
    told = () if path in ("torch", "torch.Tensor") else getattr(module, "__all__", ())
    return list(told) or [
        name for name in dir(module) if not name.startswith("_") and _is_torchs(module, name)
    ]


def _is_torchs(module: Any, name: str) -> bool:
    value = getattr(module, name)
    if isinstance(value, ModuleType):
        return value.__name__ == f"{module.__name__}.{name}"
    if name == "TYPE_CHECKING":
        return False
    home = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    return not isinstance(home, str) or home.split(".")[0] == "torch" or isinstance(module, type)


def status(path: str, name: str) -> str:
    """Whether a name works here."""
    module: Any = importlib.import_module("nbgrad")
    if path == "torch.Tensor":
        found = vars(module.Tensor).get(name, getattr(module.Tensor, name, NOTHING))
    else:
        found = getattr(importlib.import_module(own(path)), name, NOTHING)
    if found is NOTHING:
        return ABSENT
    return RAISES if is_absent(found) or is_made(path, name) else WORKS


def of(path: str, names: Iterable[str]) -> dict[str, str]:
    return {name: status(path, name) for name in sorted(names)}


def table_of(paths: Sequence[str], against: str = "") -> dict[str, dict[str, str]]:
    """By module and name."""
    return {path: of(path, shown(path) if against else public(path)) for path in paths}


def command(arguments: Sequence[str]) -> int:
    """What the shell gets: 1 where a name is absent."""
    paths: list[str] = []
    options = {"--json": "", "--against": ""}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in options and rest:
            options[word] = rest.pop(0)
        elif word == "--all":
            paths += table.modules()
        elif word == "torch.Tensor" or table.is_module(word):
            paths.append(word)
        else:
            print(USAGE, file=sys.stderr)
            return 2
    if options["--against"] not in ("", "torch"):
        print(USAGE, file=sys.stderr)
        return 2
    found = table_of(paths or MAIN, options["--against"])
    if options["--json"]:
        with open(options["--json"], "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    print(*lines(found, named=bool(paths)), sep="\n")
    return int(any(ABSENT in names.values() for names in found.values()))


def lines(found: dict[str, dict[str, str]], named: bool) -> Iterable[str]:
    """A line for each module, and the names that do not work."""
    yield f"{'':32}{WORKS:>8}{RAISES:>8}{ABSENT:>8}"
    for path, names in found.items():
        counts = [list(names.values()).count(kind) for kind in (WORKS, RAISES, ABSENT)]
        yield f"{path:32}{counts[0]:8}{counts[1]:8}{counts[2]:8}"
        for kind in (RAISES, ABSENT):
            chosen = [name for name, its in names.items() if its == kind]
            if chosen and (named or kind == ABSENT):
                yield textwrap.fill(
                    f"{kind}: {' '.join(chosen)}", 120, initial_indent="  ", subsequent_indent="    "
                )
        if named:
            yield f"  {table.reason(path)}"
