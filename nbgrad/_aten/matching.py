"""Which of PyTorch's operators a call of a function is: by name, then by what its schemas take, as PyTorch's bindings find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbgrad._aten.operators import aten
from nbgrad._ops import Argument, FunctionSchema, OpOverload, _fits
from nbgrad.core.overrides import ALIASES
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import bool_, float64, int64

# Names that stand for others.
_SAME = {
    **{"absolute": "abs", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arccosh": "acosh"},
    **{"arcsinh": "asinh", "arctanh": "atanh", "arctan2": "atan2", "clip": "clamp", "concat": "cat"},
    **{"concatenate": "cat", "divide": "div", "true_divide": "div", "multiply": "mul", "subtract": "sub"},
    **{"negative": "neg", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le"},
    **{"not_equal": "ne", "fix": "trunc", "ger": "outer", "swapaxes": "transpose", "swapdims": "transpose"},
    **{"det": "linalg_det", "inverse": "linalg_inv", "slogdet": "linalg_slogdet", "row_stack": "vstack"},
    **{
        "__and__": "bitwise_and",
        "__or__": "bitwise_or",
        "__xor__": "bitwise_xor",
        "__invert__": "bitwise_not",
    },
    **{"__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift", "__pow__": "pow"},
    **{
        "__floordiv__": "floor_divide",
        "__rsub__": "rsub",
        "__eq__": "eq",
        "__ne__": "ne",
        "__ipow__": "pow_",
    },
    **{
        "special_expit": "sigmoid",
        "special_exp2": "exp2",
        "special_expm1": "expm1",
        "special_log1p": "log1p",
    },
    **{
        "special_erf": "erf",
        "special_erfc": "erfc",
        "special_erfinv": "erfinv",
        "special_digamma": "digamma",
    },
    **{
        "special_gammaln": "lgamma",
        "special_psi": "digamma",
        "special_round": "round",
        "special_sinc": "sinc",
    },
    **{
        "special_i0": "i0",
        "special_gammainc": "igamma",
        "special_gammaincc": "igammac",
        "special_xlogy": "xlogy",
    },
    **{"special_logit": "logit", "special_polygamma": "polygamma", "special_logsumexp": "logsumexp"},
}
_FACTORIES = frozenset(
    (
        "zeros",
        "ones",
        "full",
        "arange",
        "rand",
        "randn",
        "eye",
        "linspace",
        "logspace",
        "randperm",
        "randint",
        "empty",
    )
)
_LIKE = frozenset(f"{name}_like" for name in ("zeros", "ones", "full", "rand", "randn", "empty", "randint"))
_NEW = frozenset(f"new_{name}" for name in ("zeros", "ones", "full", "empty"))


def name_of(path: str) -> str:
    """The operator's name of a function's."""
    where, _, name = path.rpartition(".")
    if where in ("special", "linalg", "fft"):
        name = f"{where}_{name}"
    name = ALIASES.get(name, name) if where == "Tensor" else name
    if name[-1:] == "_" and name[:2] != "__":
        return f"{_SAME.get(name[:-1], name[:-1])}_"
    return _SAME.get(name, name)


def matched(
    path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[OpOverload, dict[str, Any]] | None:
    """The operator and its arguments; None where it is none."""
    if path.rpartition(".")[0] not in _OF_OPERATORS:
        return None
    name = name_of(path)
    if name not in dir(aten):
        return None
    packet = getattr(aten, name)
    kwargs = dict(kwargs)
    if kwargs.get("out", 0) is None:
        del kwargs["out"]
    if name in _FACTORIES or name in _LIKE or name in _NEW:
        kwargs.pop("requires_grad", None)
        kwargs = _of_factory(name, kwargs)
    overloads = packet.overloads()
    if name == "rsub":
        overloads = overloads[::-1]  # a number is taken as one
    for overload in overloads:
        op = getattr(packet, overload)
        if ("out" in kwargs) != any([a.name == "out" for a in op._schema.arguments]):
            continue
        values = bound(op._schema, args, kwargs)
        if values is not None:
            return op, values
    return None


def _of_factory(name: str, given: dict[str, Any]) -> dict[str, Any]:
    given = {n: v for n, v in given.items() if v is not None}
    if name in _FACTORIES and "device" not in given:
        given["device"] = device("cpu")
    return given | {"pin_memory": given.get("pin_memory", False)}


_OF_OPERATORS = ("", "Tensor", "nn.functional", "linalg", "special")
_RENAMED = {"input": "self", "axis": "dim"}


def bound(schema: FunctionSchema, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The values of a schema's arguments; None where it does not take them."""
    places = [a for a in schema.arguments if not a.kwarg_only]
    names = [a.name for a in schema.arguments]
    if len(args) > len(places):
        last = places[-1] if places else None
        # What is given one by one is a list.
        if (
            last is None
            or "[" not in last.type
            or not all([_fits(v, "int") for v in args[len(places) - 1 :]])
        ):
            return None
        args = (*args[: len(places) - 1], list(args[len(places) - 1 :]))
    given = {a.name: v for a, v in zip(places, args)}
    for name, value in kwargs.items():
        own = name if name in names else _RENAMED.get(name, name)
        if own not in names or own in given:
            return None
        given[own] = value
    found: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.name not in given:
            if argument.required:
                return None
            usual = argument.default_value
            found[argument.name] = _settled(argument, usual) if isinstance(usual, int) else usual
            continue
        value = _settled(argument, given[argument.name])
        if not schema._takes(value, argument.type):
            return None
        found[argument.name] = value
    return found


_ONE_BY_ONE = ("size", "shape", "dims", "repeats")  # lists that may be given without brackets
_TYPES = {float: float64, int: int64, bool: bool_}


def _settled(argument: Argument, value: Any) -> Any:
    """A value as PyTorch hands it on."""
    kind = argument.type.rstrip("?")
    if kind[-1] == "]":
        inner, count = kind[: kind.rindex("[")], kind[kind.rindex("[") + 1 : -1]
        if isinstance(value, (list, tuple)):
            return list(value)
        if isinstance(value, Tensor) and inner == "int":
            return value
        if count or (inner == "int" and isinstance(value, int) and argument.name in _ONE_BY_ONE):
            return [value] * int(count or 1) if value is not None else value
        return value
    if kind == "ScalarType" and isinstance(value, type):
        return _TYPES.get(value, value)
    if kind == "Device" and isinstance(value, str):
        return device(value)
    if kind == "float" and type(value) is int:
        return float(value)
    return value
