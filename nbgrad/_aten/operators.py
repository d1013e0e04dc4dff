"""`torch.ops.aten`: an operator for each of PyTorch's schemas of what is here, which calls the function of that name.

>>> torch.ops.aten.sum.dim_IntList(torch.ones(2, 3), [1], True)
tensor([[3.],
        [3.]])
>>> torch.ops.aten.mm.default._schema
aten::mm(Tensor self, Tensor mat2) -> Tensor
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os.path import dirname, join
from sys import modules
from typing import Any

from nbgrad._aten import own
from nbgrad._ops import Argument, FunctionSchema, OpOverload, OpOverloadPacket, _OpNamespace
from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor
from nbgrad.names.absent import is_absent

# Where a function may stand, and what its name begins with below.
_PLACES = (("", ""), ("Tensor", ""), ("nn.functional", ""), *((p, f"{p}_") for p in ("special", "linalg")))


@cached(None)
def function_of(name: str) -> Callable[..., Any] | None:
    """What computes an operator: a function of PyTorch's that users know, or one that is for this alone."""
    if name in own.FUNCTIONS:
        return own.FUNCTIONS[name]
    package: Any = modules[__name__.partition(".")[0]]
    for path, start in _PLACES:
        at = package
        for step in path.split(".") if path else ():
            at = getattr(at, step)
        found = getattr(at, name.removeprefix(start), None) if name.startswith(start) else None
        if callable(found) and not isinstance(found, type) and not is_absent(found):
            return found
    return None


class AtenOverload(OpOverload):
    """One of PyTorch's operators, with one schema."""

    def compute(self, values: Mapping[str, Any]) -> Any:
        """By the function, which gets what differs from the defaults."""
        places: list[Any] = []
        named: dict[str, Any] = {}
        due = 0
        for argument in self._schema.arguments:
            value = values[argument.name]
            usual = _is_usual(argument, value)
            if not argument.kwarg_only:
                places.append(value)
                due = due if usual else len(places)
            elif not usual:
                named[argument.name] = value
        function = function_of(self._opname)
        assert function is not None
        return function(*places[:due], **named)


def _is_usual(argument: Argument, value: Any) -> bool:
    if argument.required:
        return False
    usual = argument.default_value
    return value is usual or (type(value) is type(usual) and not isinstance(value, Tensor) and value == usual)


class AtenPacket(OpOverloadPacket):
    """One of PyTorch's operators; a call goes to the first schema that takes its arguments."""

    _made = AtenOverload


@cached(None)
def _schemas() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with open(join(dirname(__file__), "schemas.txt"), encoding="utf-8") as f:
        for line in f.read().splitlines():
            found.setdefault(line[: line.index("(")].partition(".")[0], []).append(line)
    return found


class Aten(_OpNamespace):
    """`torch.ops.aten`: schemas are read when an operator is asked for."""

    def __init__(self) -> None:
        super().__init__("aten")

    def __getattr__(self, name: str) -> Any:
        packets = vars(self)["_packets"]
        if name in packets:
            return packets[name]
        lines = _schemas().get(name)
        if lines is None:
            return super().__getattr__(name)
        packet = packets[name] = AtenPacket("aten", name)
        for line in lines:
            packet.add(FunctionSchema(f"aten::{line}"))
        return packet

    def __dir__(self) -> list[str]:
        return sorted({*_schemas(), *self._packets})


aten = Aten()
