"""What PyTorch 2.13 refuses or warns of, and in which words: the reader of refusals.txt.

A row of that file is a name, statements that set the scene, the statement (`>>>`) that is refused, and the exception or
warning with its literal text. The oracle tier holds each text against torch. The statements see `torch` (the module
under test), `np`, `copy`, and

    x = torch.ones(3, requires_grad=True); v = torch.ones(3); i = torch.tensor([1, 2, 3]); m = torch.ones(2, 3)
"""

import copy
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Refusal:
    name: str
    setup: str
    action: str
    text: str

    def __str__(self) -> str:
        return self.name

    def scene(self, T: ModuleType) -> dict[str, Any]:
        """The names that the action sees."""
        names: dict[str, Any] = {"torch": T, "np": np, "copy": copy, "__name__": "__main__"}
        names |= {
            "x": T.ones(3, requires_grad=True),
            "v": T.ones(3),
            "i": T.tensor([1, 2, 3]),
            "m": T.ones(2, 3),
        }
        exec(self.setup, names)
        return names

    def act(self, names: dict[str, Any]) -> str:
        """The exception that the action raises, or else the first warning that it gives."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            names["torch"].set_warn_always(True)  # what comes once in a process, too
            try:
                exec(self.action, names)
            except Exception as error:
                return f"{type(error).__name__}: {error}".rstrip()
            finally:
                names["torch"].set_warn_always(False)
        if not caught:
            return "nothing"
        # torch adds the place in its C++ source to some warnings
        text = str(caught[0].message).partition(" (Triggered internally")[0]
        return f"{caught[0].category.__name__}: {text}".rstrip()


def read() -> dict[str, Refusal]:
    text = (Path(__file__).parent / "refusals.txt").read_text(encoding="utf-8")
    rows = {}
    for block in re.split(r"^== ", re.sub(r"^#### .*\n", "", text, flags=re.M), flags=re.M)[1:]:
        name, _, rest = block.partition("\n")
        setup, _, rest = rest.rpartition(">>> ") if rest.startswith(">>> ") else rest.partition("\n>>> ")
        action, _, words = rest.partition("\n")
        assert name not in rows, name
        rows[name] = Refusal(name, setup, action, words.rstrip())
    return rows


REFUSALS = read()
