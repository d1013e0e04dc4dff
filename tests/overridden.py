"""What PyTorch's functions that are written in Python hand to `__torch_function__`, read off PyTorch's source:
`python -m tests.overridden` writes `nbgrad/core/overridden.txt`.

A line is a function as it hands its arguments on, those before the stroke by position and the others by name, and then of which it asks
whether they override it; a star stands for all.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from tests.map import ROOT

FILE = ROOT / "core" / "overridden.txt"


def lines() -> list[str]:
    """As PyTorch has them, those of names that nbgrad has."""
    import torch

    functional, init = torch.nn.functional, torch.nn.init
    found = {}
    for where, module, owner in (
        ("Tensor", torch._tensor, torch.Tensor),
        ("", torch.functional, torch.functional),
        ("nn.functional", functional, functional),
        ("autograd", torch.autograd, torch.autograd),
        ("", torch._lowrank, torch._lowrank),
        ("", torch._lobpcg, torch._lobpcg),
    ):
        for name, line in _handed(ast.parse(inspect.getsource(module)), owner):
            path = f"{where}.{name}" if where else name
            found[path] = path + line
    for name in ("uniform_", "normal_", "constant_", "kaiming_uniform_"):
        parameters = [
            p if p.default is p.empty else p.replace(kind=p.KEYWORD_ONLY)
            for p in inspect.signature(getattr(init, name)).parameters.values()
        ]
        shown = [p.replace(kind=p.KEYWORD_ONLY, annotation=p.empty) for p in parameters]
        found[f"nn.init.{name}"] = f"nn.init.{name}({_listed([], shown)}) tensor"
    for name, method in vars(torch.Tensor).items():
        if (
            hasattr(method, "__wrapped__")
            and f"Tensor.{name}" not in found
            and name not in ("__rdiv__", "__torch_function__")
        ):
            found[f"Tensor.{name}"] = f"Tensor.{name}(*args, **kwargs) *"
    return [found[path] for path in sorted(found)]


def _handed(tree: ast.Module, owner: object) -> Iterator[tuple[str, str]]:
    """Of each call of `handle_torch_function` in a module, the function's name and what follows it in a line."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) != "handle_torch_function":
                continue
            public = ast.unparse(call.args[0]).removesuffix(".__get__").rpartition(".")[2]
            public = "threshold" if public == "_threshold" else public
            if public in ("wrapped", "__cuda_array_interface__") or not hasattr(owner, public):
                continue
            told = ast.unparse(call.args[1])
            asked = told.strip("()").replace(",", "").split() if told[0] == "(" else ["*"]
            if [k.arg for k in call.keywords] == [None]:  # all of its own
                named = list(inspect.signature(getattr(owner, public)).parameters.values())[1:]
                yield public, f"({_listed(['self'], named)}) {' '.join(asked)}"
                continue
            defaults = inspect.signature(_plain(getattr(owner, function.name))).parameters
            by_place = [ast.unparse(a).removesuffix("_tuple") for a in call.args[2:]]
            by_name = [
                inspect.Parameter(
                    str(k.arg),
                    inspect.Parameter.KEYWORD_ONLY,
                    default=defaults[str(k.arg)].default
                    if str(k.arg) in defaults
                    else inspect.Parameter.empty,
                )
                for k in call.keywords
            ]
            yield public, f"({_listed(by_place, by_name)}) {' '.join(asked)}"


def _plain(function: object) -> object:
    return getattr(function, "__wrapped__", function)


def _listed(by_place: list[str], by_name: list[inspect.Parameter]) -> str:
    named = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in by_name]
    return ", ".join([*by_place, "|", *named] if named else by_place)


if __name__ == "__main__":
    Path(FILE).write_text("\n".join(lines()) + "\n", encoding="utf-8")
