"""What stands for a value while a program is traced: all that is done with it becomes steps of a graph."""

from __future__ import annotations

import copy
import dis
import enum
import inspect
import itertools
import operator
import os
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

from nbgrad.core.overrides import armed, note_instance
from nbgrad.fx.graph import MAGIC, REFLECTABLE, Graph, base_types
from nbgrad.fx.node import Node, map_aggregate, map_arg
from nbgrad.overrides import is_tensor_method_or_property

_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep


class TraceError(ValueError):
    """The program asks a value that is not there."""


class Scope:
    """In which module a step was made."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class TracerBase:
    """What makes steps of what stand-ins are told."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None
    ) -> Node:
        """A step; who derives from this may look at it first."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.record_stack_traces:
            frames = [f for f in traceback.extract_stack() if not f.filename.startswith(_HERE)]
            inside = itertools.dropwhile(lambda f: f.name != "forward", frames)
            if told := "".join(traceback.format_list([*inside])).strip():
                node.stack_trace = told
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for its result."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: Any,
        kwargs: Any,
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Both."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """An argument as a step keeps it."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            inner = [self.create_arg(one) for one in a]
            return type(a)(*inner) if hasattr(a, "_fields") else type(a)(inner)
        if isinstance(a, list):
            return [self.create_arg(one) for one in a]
        if isinstance(a, dict):
            return {self._key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, (slice, range)):
            return type(a)(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if hasattr(a, "_qualified_op_name"):
            return a
        if is_dataclass(a) and not isinstance(a, type):
            named = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), named)
        if isinstance(a, (*base_types, enum.Enum)) or a is None or a is ...:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        key = self.create_arg(key)
        map_arg(key, _refuse_key)
        return key

    def to_bool(self, obj: Proxy) -> bool:
        """What a stand-in is as a condition."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What it is gone through by."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs function "
            "argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control flow can be traced, "
            "and check out the Proxy docstring for help troubleshooting Proxy iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """Its keys."""
        return Attribute(obj, "keys")()


def _refuse_key(node: Node) -> NoReturn:
    raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}")


class GraphAppendingTracer(TracerBase):
    """One that adds to a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """The stand-in for the result of a step.

    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> torch.relu(x) + 1
    Proxy(add)
    >>> [node.name for node in graph.nodes]
    ['x', 'relu', 'add']
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node
        if not armed.on:  # made by hand: while a program is traced, functions look out for stand-ins already
            note_instance(self)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("node", "tracer"):  # of a copy that is being made
            raise AttributeError(k)
        return Attribute(self, k)

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = Proxy(copy.deepcopy(self.node, memo), copy.deepcopy(self.tracer, memo))
        memo[id(self)] = made
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        caller = frame.f_back
        steps = list(dis.get_instructions(caller.f_code))
        step = steps[bisect_left(steps, caller.f_lasti, key=lambda one: one.offset)]
        if step.opname == "UNPACK_SEQUENCE":  # a, b = proxy
            return iter([self[k] for k in range(step.argval)])  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = None, kwargs: Any = None) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def find(a: Any) -> None:
            if isinstance(a, cls):
                tracers[a.tracer] = None

        map_aggregate((args, kwargs), find)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {func}"
            )
        tracer = next(iter(tracers))
        if is_tensor_method_or_property(func):
            return tracer.create_proxy("call_method", func.__name__, args, kwargs)
        name = tracer.graph._target_to_str(func.__name__)
        return tracer.create_proxy("call_function", func, args, kwargs, name=name)


class Attribute(Proxy):
    """The stand-in for an attribute of a value: a method, if it is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The stand-in for a parameter, whose shape is known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self) -> Any:
        return self.param.size()

    def dim(self) -> int:
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        return int(self.param.ndim)

    def numel(self) -> int:
        return int(self.param.numel())


def _operator(name: str, reflected: bool) -> None:
    target = getattr(operator, name)
    bare = name.strip("_")

    def forward(*args: Any, **kwargs: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    def backward(self: Proxy, rhs: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    made, spelled = (backward, f"__r{bare}__") if reflected else (forward, f"__{bare}__")
    made.__name__ = made.__qualname__ = spelled
    setattr(Proxy, spelled, made)


for _name in MAGIC:
    if hasattr(operator, _name):
        _operator(_name, False)
for _name in REFLECTABLE:
    if hasattr(operator, _name):
        _operator(_name, True)
