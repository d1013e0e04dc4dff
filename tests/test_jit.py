"""What a scripted module's own errors become."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from tests.support import T

PICKY = """
class Picky(torch.nn.Module):
    def forward(self, x):
        if x.dim() == 0:
            raise ValueError("none")
        if x.dim() == 1:
            raise NotImplementedError("one")
        assert x.dim() < 3, "many"
        torch._assert(x.size(0) != 3, "three")
        if x.size(0) == 6:
            print(x.select(0, 7))
        if x.size(0) == 7:
            print([1][x.size(0)])
        if x.size(0) == 8:
            print({"a": 1}["b"])
        return x.view(-1, 5)
"""
SIZES: list[tuple[int, ...]] = [(), (1,), (1, 1, 1), (3, 5), (6, 5), (7, 5), (8, 5), (2, 2), (5, 1)]
TOLD = [
    (True, "builtins.ValueError: none"),
    (True, "builtins.NotImplementedError: one"),
    (True, "AssertionError: many"),
    (True, "AssertionError: three"),
    (False, "select(): index 7 out of range for tensor of size [6, 5] at dimension 0"),
    (False, "list index out of range"),
    (False, "KeyError: b"),
    (False, "shape '[-1, 5]' is invalid for input of size 4"),
    None,
]


def told(torch: Any, net: Any) -> list[Any]:
    found: list[Any] = []
    for sizes in SIZES:
        try:
            net(torch.ones(sizes))
            found.append(None)
        except Exception as error:
            last = str(error).strip().splitlines()[-1].removeprefix("RuntimeError: ")
            found.append((isinstance(error, torch.jit.Error), last))
    return found


def test_what_scripted_modules_raise() -> None:
    scope: dict[str, Any] = {"torch": T}
    exec(PICKY, scope)
    net = T.jit.script(scope["Picky"]())
    assert told(T, net) == TOLD
    assert told(T, T.jit.script(T.nn.Sequential(net))) == TOLD
    assert told(T, scope["Picky"]())[0] == (False, "none")  # not scripted


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_pytorchs_raise_it(torch: ModuleType, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "picky.py").write_text(f"import torch\n{PICKY}")  # whose compiler reads files
    monkeypatch.syspath_prepend(str(tmp_path))
    assert told(torch, torch.jit.script(import_module("picky").Picky())) == TOLD
