"""Operators that users define, and `torch.ops`, which finds them and PyTorch's own by name.

An operator has a schema, which says what it takes; kernels, by the kind of device or for all; and, from `torch.library`, a gradient.
A call binds its arguments to the schema, lets classes and modes that override answer, records a node where a gradient is wanted, and
runs the kernel of the device that the tensors are on.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from sys import modules
from typing import Any
from warnings import warn

import numpy as np

from nbgrad.autograd.function import Function
from nbgrad.core import overrides as _overrides
from nbgrad.core.tensor import Tensor, hooks, storage_of
from nbgrad.core.writes import check_write, written
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.storage import Batched
from nbgrad.names.absent import refuse
from nbgrad.overrides import handle_torch_function, has_torch_function
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- schemas

_TYPE = re.compile(
    r"(?P<kind>[A-Za-z]+)(?:\((?P<alias>[^)]*)\))?(?P<rest>[^ ]*) (?P<name>\w+)(?:=(?P<default>.+))?$"
)


class AliasInfo:
    """What an argument shares with others, and whether it is written to."""

    def __init__(self, text: str) -> None:
        self.before_set = {text.strip("!")}
        self.is_write = "!" in text


class Argument:
    """One of a schema's: `type` as it is written there, without what it shares."""

    def __init__(self, text: str, kwarg_only: bool) -> None:
        found = _TYPE.match(text)
        if found is None:
            raise RuntimeError(f"expected an argument as `Tensor x` or `int n=1` but found '{text}'")
        self.name, self.kwarg_only = found["name"], kwarg_only
        self.type = found["kind"].replace("SymInt", "int") + found["rest"]
        self.alias_info = AliasInfo(found["alias"]) if found["alias"] else None
        self.required = found["default"] is None
        self.default_value = None if self.required else _read(found["default"], self.type)
        mark = f"({found['alias']})" if found["alias"] else ""
        shown = "" if self.required else f"={_shown(self.default_value)}"
        self._text = f"{found['kind']}{mark}{found['rest']} {self.name}{shown}"

    @property
    def is_write(self) -> bool:
        return self.alias_info is not None and self.alias_info.is_write

    def has_default_value(self) -> bool:
        return not self.required

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def _read(text: str, kind: str) -> Any:
    if kind.startswith("ScalarType") and text != "None" and not text.isdigit():
        from nbgrad.memory import dtypes

        return getattr(dtypes, text)
    if kind.startswith("Device") and text != "None":
        return device(literal_eval(text))
    if re.fullmatch(r"[A-Za-z_]\w*", text) and text not in ("None", "True", "False"):
        return text
    value = literal_eval(text)
    return float(value) if kind == "float" and isinstance(value, int) else value


def _shown(value: Any) -> str:
    if isinstance(value, (str, device)):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{int(value)}." if value.is_integer() else f"{value:.17g}"
    return str(value).removeprefix("torch.")


class FunctionSchema:
    """`ns::name.overload(Tensor x, *, int n=1) -> Tensor`."""

    def __init__(self, text: str) -> None:
        head, _, rest = text.partition("(")
        end = _closing(rest)
        if end < 0 or "->" not in rest[end:]:
            raise RuntimeError(f"expected a schema as `name(Tensor x) -> Tensor` but found '{text}'")
        self.name, _, self.overload_name = head.strip().partition(".")
        self.arguments: list[Argument] = []
        only = False
        for part in _parts(rest[:end]):
            if part == "*":
                only = True
            else:
                self.arguments.append(Argument(part, only))
        self._returns = rest[end + 1 :].partition("->")[2].strip()
        inside = self._returns[1:-1] if self._returns[0] == "(" else self._returns
        self.returns = _parts(inside)
        self.is_mutable = any([a.is_write for a in self.arguments])

    def __str__(self) -> str:
        shown: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in shown:
                shown.append("*")
            shown.append(str(argument))
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(shown)}) -> {self._returns}"

    __repr__ = __str__

    def _takes(self, value: Any, kind: str) -> bool:
        if _fits(value, kind):
            return True
        of_numbers = kind == "Tensor" and self.name.removeprefix("aten::").removesuffix("_") in _OF_NUMBERS
        return of_numbers and self.name[:6] == "aten::" and _fits(value, "Scalar")

    def _check(self, argument: Argument, value: Any) -> None:
        if self._takes(value, argument.type):
            return
        raise RuntimeError(
            f"{self.name}() Expected a value of type '{_words(argument.type)}' for argument '{argument.name}' but instead "
            f"found type '{type(value).__name__}'.\nPosition: {self.arguments.index(argument)}\nValue: {value!r}\nDeclaration: {self}\n"
            f"Cast error details: {_cast(value, argument.type)}"
        )

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all arguments, in order."""
        places = [a for a in self.arguments if not a.kwarg_only]
        names = [a.name for a in self.arguments]
        count = len(args) + len(kwargs)
        if count > len(names):
            raise RuntimeError(
                f"{self.name}() expected at most {len(names)} argument(s) but received {count} argument(s). Declaration: {self}"
            )
        if len(args) > len(places):
            raise RuntimeError(
                f"{self.name}() takes {len(places)} positional argument(s) but {len(args)} was/were given.  Declaration: {self}"
            )
        given = {a.name: v for a, v in zip(places, args)}
        for argument in places[: len(args)]:
            self._check(argument, given[argument.name])
        for argument in self.arguments:
            if argument.required and argument.name not in given and argument.name not in kwargs:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}"
                )
        for name in kwargs:
            if name not in names or name in given:
                raise RuntimeError(
                    f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self}"
                )
        given |= kwargs
        found = {}
        for argument in self.arguments:
            value = given.get(argument.name, argument.default_value)
            if argument.name in kwargs:
                self._check(argument, value)
            found[argument.name] = float(value) if argument.type == "float" and type(value) is int else value
        return found


def _closing(text: str) -> int:
    """Where the bracket closes that was opened before."""
    depth = 1
    for k, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return k
    return -1


def _parts(text: str) -> list[str]:
    """Separated by commas that are within no brackets."""
    found, depth, start = [], 0, 0
    for k, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            found.append(text[start:k].strip())
            start = k + 1
    return [*found, text[start:].strip()] if text.strip() else []


_JUDGES: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda v: isinstance(v, Tensor) or hasattr(type(v), "__torch_function__"),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "float": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "Scalar": lambda v: isinstance(v, (int, float, complex, np.number)),
    "bool": lambda v: isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
    "ScalarType": lambda v: isinstance(v, dtype),
    "Device": lambda v: isinstance(v, (device, str)),
}
# Of these a number stands for a tensor.
_OF_NUMBERS = frozenset(
    (
        "add",
        "sub",
        "rsub",
        "mul",
        "div",
        "true_divide",
        "floor_divide",
        "remainder",
        "bitwise_and",
        "bitwise_or",
    )
)


def _fits(value: Any, kind: str) -> bool:
    if kind[-1] == "?":
        return value is None or _fits(value, kind[:-1])
    if kind[-1] == "]":
        inner, count = kind[: kind.rindex("[")], kind[kind.rindex("[") + 1 : -1]
        if count and not isinstance(value, (list, tuple)):  # one for all
            return _fits(value, inner)
        return isinstance(value, (list, tuple)) and all([_fits(v, inner) for v in value])
    return kind not in _JUDGES or _JUDGES[kind](value)


def _cast(value: Any, kind: str) -> str:
    if kind == "Tensor":
        return f"Unable to cast {value!s} to Tensor"
    if kind == "Scalar":
        return f"Cannot cast {value!s} to number"
    return (
        f"Unable to cast Python instance of type {type(value)} to C++ type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in "
        "debug mode for details)"
    )


def _words(kind: str) -> str:
    if kind[-1] == "?":
        return f"Optional[{_words(kind[:-1])}]"
    if kind[-1] == "]":
        return f"List[{_words(kind[: kind.rindex('[')])}]"
    return "number" if kind == "Scalar" else kind


# ---------------------------------------------------------------- operators

_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Of arguments or results, also in lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


class OpOverload:
    """An operator with one schema."""

    def __init__(self, packet: OpOverloadPacket, schema: FunctionSchema) -> None:
        self.overloadpacket = self._overloadpacket = packet
        self._schema = schema
        self._overloadname = schema.overload_name or "default"
        self.__name__ = f"{packet.__name__}.{self._overloadname}"
        self.__qualname__ = self._name = schema.name + (
            f".{schema.overload_name}" if schema.overload_name else ""
        )
        self.__module__ = packet.__module__
        self.namespace = schema.name.partition("::")[0]
        self._opname = packet.__name__
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.disabled: set[str] = set()
        self.backward: tuple[Callable[..., Any], Callable[..., Any] | None] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.fresh = False  # its results may not be its inputs
        self.dispatchers: dict[
            type, Callable[..., Any]
        ] = {}  # what answers in the place of a `__torch_dispatch__`
        self.lacking: Callable[[str], Exception] | None = None
        self._node: type[Function] | None = None

    @property
    def _qualified_op_name(self) -> str:
        return str(self)

    @property
    def tags(self) -> list[Any]:
        """Marks for compilers: none."""
        return []

    @property
    def is_view(self) -> bool:
        """Whether what it gives may show memory of what it gets."""
        return any([a.alias_info is not None and not a.is_write for a in self._schema.arguments])

    @property
    def op(self) -> OpOverload:
        return self

    def name(self) -> str:
        return self._name

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        inside = [v for g in given for v in (g if isinstance(g, (list, tuple)) else (g,))]
        if has_torch_function(inside):
            return handle_torch_function(self, inside, *args, **kwargs)
        values = self._schema.bound(args, kwargs)
        composite = self.kernels.get("Autograd") or self.kernels.get("CompositeImplicitAutograd")
        if composite is not None:
            return self.run(composite, values)
        if _overrides.armed.below is not None:
            return import_module("nbgrad._aten.calls").call(self, values)
        return self.compute(values)

    def compute(self, values: Mapping[str, Any]) -> Any:
        """What the operator gives where nobody takes it over."""
        tensors = list(tensors_in(values.values()))
        wanted = state.grad and any([t.requires_grad for t in tensors])
        if not self._schema.is_mutable and (wanted or state.active):
            return self._recorded(values)
        return self._plain(values, tensors)

    def _plain(self, values: Mapping[str, Any], tensors: Sequence[Tensor]) -> Any:
        writes = [t for a in self._schema.arguments if a.is_write for t in tensors_in([values[a.name]])]
        if writes and any([type(t._buf) is Batched for t in tensors]):
            raise RuntimeError(
                f"Batching rule not implemented for {self._name}; the fallback path doesn't work on out= or view ops."
            )
        for t in writes:
            check_write(t, False)
        before, state.grad = (
            state.grad,
            False,
        )  # the kernel is below gradients: what it writes to keeps its history
        try:
            with _overrides.switched(_overrides.NOBODY):
                result = self.run(self._kernel(tensors), values)
        finally:
            state.grad = before
        for t in writes:
            written(t)
        if self.fresh:
            self._check_fresh(tensors, result)
        return result

    def _kernel(self, tensors: Sequence[Tensor]) -> Callable[..., Any]:
        kind = tensors[0].device.type if tensors else "cpu"
        if kind not in self.disabled and _KEYS.get(kind) in self.kernels:
            return self.kernels[_KEYS[kind]]
        if kind != "meta" or not self.fresh:
            for key in ("CompositeExplicitAutograd", ""):
                if key in self.kernels:
                    return self.kernels[key]
        if self.lacking is not None:
            raise self.lacking(kind)
        name = _KEYS.get(kind, kind)
        raise NotImplementedError(
            f"Could not run '{self._name}' with arguments from the '{name}' backend. It has kernels for these: "
            f"{sorted(filter(None, self.kernels))}."
        )

    def run(self, kernel: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        places = [values[a.name] for a in self._schema.arguments if not a.kwarg_only]
        return kernel(*places, **{a.name: values[a.name] for a in self._schema.arguments if a.kwarg_only})

    def _check_fresh(self, tensors: Sequence[Tensor], result: Any) -> None:
        seen = [storage_of(t).memory for t in tensors]
        for one in tensors_in(result if isinstance(result, tuple) else (result,)):
            own = storage_of(one).memory
            if any([one is t for t in tensors]) or any([_meets(own, other) for other in seen]):
                raise RuntimeError(
                    f"{self._opname} (with implementation in {modules[__name__]}): The output of this custom operator (1) must not also be "
                    "an input to this custom operator and (2) may not alias any inputs to this custom operator or other returns. The most "
                    "common way to trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead "
                    "return a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                    "return y."
                )
            seen.append(own)

    # -- gradients

    def _recorded(self, values: Mapping[str, Any]) -> Any:
        """By a node whose inputs are all tensors: those in lists stand one by one."""
        node = self._node = self._node or _node_of(self)
        flat = list(tensors_in(values.values()))
        return _unboxed(node.apply(_Call(values), *flat))


def _meets(a: Any, b: Any) -> bool:
    """Whether two blocks of memory are the same in part."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)
    return a is b and a is not None and hasattr(a, "nbytes")


class _Call:
    """The arguments of a call, beside its tensors, which a node takes one by one."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def with_tensors(self, flat: Iterator[Any]) -> dict[str, Any]:
        def put(value: Any) -> Any:
            if isinstance(value, Tensor):
                return next(flat)
            return type(value)([put(v) for v in value]) if isinstance(value, (list, tuple)) else value

        return {name: put(value) for name, value in self.values.items()}


def _unboxed(result: Any) -> Any:
    return list(result) if isinstance(result, _Results) else result


class _Results(tuple[Any, ...]):
    """What stands for a list."""


def _one_by_one(op: OpOverload, count: int, call: _Call, flat: Sequence[Any], dims: Sequence[Any]) -> Any:
    """What an operator without a rule for `vmap` gives: of each example by itself, and the results stacked."""
    if any(["[" in kind for kind in op._schema.returns]):
        raise RuntimeError(
            f"Batching rule not implemented for {op.name()}. We could not generate a fallback."
        )
    if not count:
        raise RuntimeError(
            "The fallback path does not support vmap over dims of size 0. Please file a bug report."
        )
    warn(
        f"There is a performance drop because we have not yet implemented the batching rule for {op.name()}. Please file us an issue "
        "on GitHub so that we can prioritize its implementation.",
        UserWarning,
        stacklevel=2,
    )
    rows = []
    for k in range(count):
        parts = [t if d is None else hooks.select(t, d, k) for t, d in zip(flat, dims)]
        values = call.with_tensors(iter(parts))
        rows.append(op.compute(values))
    if isinstance(rows[0], tuple):
        return tuple([hooks.stack(column) for column in zip(*rows)]), (0,) * len(rows[0])
    return hooks.stack(rows), 0


def _node_of(op: OpOverload) -> type[Function]:
    def forward(call: _Call, *flat: Any) -> Any:
        result = op._plain(call.with_tensors(iter(flat)), flat)
        return _Results(result) if isinstance(result, list) else result

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.call = inputs[0]
        if op.backward is None or op.backward[1] is None:
            return
        values = ctx.call.with_tensors(iter(inputs[1:]))
        given = tuple([values[a.name] for a in op._schema.arguments if not a.kwarg_only])
        named = {a.name: values[a.name] for a in op._schema.arguments if a.kwarg_only}
        more = {"keyword_only_inputs": named} if named else {}
        op.backward[1](ctx=ctx, inputs=given, output=output, **more)

    def backward(ctx: Any, *grads: Any) -> Any:
        if op.backward is None:
            raise RuntimeError(
                f"Trying to backward through {op} but no autograd formula was registered. Please use register_autograd to add one."
            )
        found = op.backward[0](ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        names = [a.name for a in op._schema.arguments if not a.kwarg_only]
        if len(found) != len(names):
            raise RuntimeError(
                f"Expected {op}'s backward to return {len(names)} gradients, one for each of its inputs, but got {len(found)}"
            )
        flat: list[Any] = []
        for name, grad in zip(names, found):
            value = ctx.call.values[name]
            if isinstance(value, Tensor):
                flat.append(grad)
            elif isinstance(value, (list, tuple)):
                own = [v for v in value if isinstance(v, Tensor)]
                given = list(grad) if isinstance(grad, (list, tuple)) else [None] * len(own)
                flat += (
                    given
                    if len(given) == len(own)
                    else [g for g, v in zip(given, value) if isinstance(v, Tensor)]
                )
        return (None, *flat)

    def vmap(info: Any, in_dims: Any, call: _Call, *flat: Any) -> Any:
        if op.vmap is None:
            return _one_by_one(op, info.batch_size, call, flat, in_dims[1:])
        values, dims = call.with_tensors(iter(flat)), call.with_tensors(iter(in_dims[1:]))
        names = [a.name for a in op._schema.arguments]
        lifted = tuple([dims[n] if next(tensors_in([values[n]]), None) is not None else None for n in names])
        return op.vmap(info, lifted, *[values[n] for n in names])

    body = {
        k: staticmethod(f)
        for k, f in (
            ("forward", forward),
            ("setup_context", setup_context),
            ("backward", backward),
            ("vmap", vmap),
        )
    }
    name = f"GeneratedBackwardFor_{op.namespace}_{op._opname}_{op._overloadname}"
    return type(name, (Function,), dict(body))


class OpOverloadPacket:
    """An operator by its name; a call goes to the schema that takes its arguments."""

    _made = OpOverload

    def __init__(self, namespace: str, name: str) -> None:
        self._qualified_op_name, self.__name__ = f"{namespace}::{name}", name
        self.__qualname__, self.__module__ = self._qualified_op_name, f"torch._ops.{namespace}"
        self._namespace = namespace
        self._found: dict[str, OpOverload] = {}

    @property
    def op(self) -> OpOverloadPacket:
        return self

    def overloads(self) -> list[str]:
        return list(self._found)

    def add(self, schema: FunctionSchema) -> OpOverload:
        made = self._found[schema.overload_name or "default"] = self._made(self, schema)
        return made

    def __getattr__(self, name: str) -> OpOverload:
        found = vars(self).get("_found", {}).get(name)
        if found is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        every = list(self._found.values())
        if len(every) == 1:
            return every[0](*args, **kwargs)
        told = ""
        for one in every:
            try:
                one._schema.bound(args, kwargs)
            except RuntimeError as error:
                told += f"{error}\n\n"
                continue
            return one(*args, **kwargs)
        raise RuntimeError(
            f"Overloaded torch operator invoked from Python failed to match any schema:\n{told}"
        )

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __deepcopy__(self, memo: Any) -> OpOverloadPacket:
        return self


# ---------------------------------------------------------------- namespaces


class _OpNamespace:
    """The operators of a namespace."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name
        self._packets: dict[str, OpOverloadPacket] = {}

    def __getattr__(self, name: str) -> Any:
        found = vars(self).get("_packets", {}).get(name)
        if found is not None:
            return found
        if self.name in ("prims", "prim") and name[:2] != "__":
            refuse(f"torch.ops.{self.name}")
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        return [*self._packets]

    def __iter__(self) -> Iterator[str]:
        return iter(dir(self))

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}' from 'torch.ops'>"

    def packet(self, name: str) -> OpOverloadPacket:
        return self._packets.setdefault(name, OpOverloadPacket(self.name, name))


_spaces: dict[str, _OpNamespace] = {}


def space(name: str) -> _OpNamespace:
    """`torch.ops.name`; PyTorch's own stand in a story above, whose operators call all the others."""
    if name == "aten" and name not in _spaces:
        _spaces[name] = import_module("nbgrad._aten.operators").aten
    return _spaces.setdefault(name, _OpNamespace(name))


def find(op: Any) -> OpOverload:
    """An operator by `ns::name` or `ns::name.overload`, or as it is."""
    if isinstance(op, OpOverload):
        return op
    if isinstance(op, OpOverloadPacket):
        return op._found["default"]
    where, _, name = str(op).partition("::")
    name, _, overload = name.partition(".")
    try:
        return space(where)._packets[name]._found[overload or "default"]
    except KeyError:
        raise RuntimeError(
            f"operator {op} does not exist: define it first by torch.library.define or torch.library.custom_op"
        ) from None
