"""Running a program on stand-ins."""

from __future__ import annotations

import builtins
import copy
import functools
import inspect
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any

from nbgrad.base.ours import is_ours
from nbgrad.core.overrides import looking
from nbgrad.core.tensor import Tensor
from nbgrad.fx._compatibility import compatibility as compatibility
from nbgrad.fx.graph import Graph
from nbgrad.fx.graph_module import GraphModule
from nbgrad.fx.node import map_aggregate
from nbgrad.fx.proxy import ParameterProxy, Proxy, Scope, TracerBase
from nbgrad.nn.modules.container import Sequential
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter
from nbgrad.overrides import _assert
from nbgrad.utils import _pytree

_PACKAGE = __name__.partition(".")[0]
# torch_geometric looks for it among tensors.
ScriptObject: Any = import_module(f"{_PACKAGE}._C").ScriptObject


class _Place:
    """Stands for an argument that is traced, among such as are given."""

    def __repr__(self) -> str:
        return "PH"


PH = _Place()
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: Any) -> Any:
    """Let calls of a function be steps, which are not looked into. To be called where the module begins that has it, also as a
    decorator.

    >>> @torch.fx.wrap
    ... def twice(x): return x + x
    >>> [node.name for node in torch.fx.symbolic_trace(lambda x: twice(x)).graph.nodes]  # doctest: +SKIP
    ['x', 'twice', 'output']
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name.__name__ if callable(fn_or_name) else fn_or_name
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    if frame.f_back.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_back.f_globals), name] = frame.f_back.f_globals
    return fn_or_name


def _leaf(function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found: list[Proxy] = []
        map_aggregate((args, kwargs), lambda a: found.append(a) if isinstance(a, Proxy) else None)
        if not found:
            return function(*args, **kwargs)
        made = found[0].tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


class _Patcher:
    """What is put elsewhere while a program is traced, and taken back. Libraries that trace in their own way (torch_geometric) use it by
    the names that PyTorch has."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.visited: set[int] = set()

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True) -> None:
        if name in frame_dict:
            if getattr(frame_dict[name], "__fx_already_patched", False):
                return
            self.undo.append(functools.partial(frame_dict.__setitem__, name, frame_dict[name]))
        else:
            self.undo.append(functools.partial(frame_dict.__delitem__, name))
        new_fn.__fx_already_patched = deduplicate
        frame_dict[name] = new_fn

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        if getattr(getattr(cls, name), "__fx_already_patched", False):
            return
        if name in vars(cls):
            self.undo.append(functools.partial(setattr, cls, name, vars(cls)[name]))
        else:
            self.undo.append(functools.partial(delattr, cls, name))
        new_fn.__fx_already_patched = deduplicate
        setattr(cls, name, new_fn)

    def visit_once(self, thing: Any) -> bool:
        new = id(thing) not in self.visited
        self.visited.add(id(thing))
        return new

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *raised: object) -> None:
        while self.undo:
            self.undo.pop()()
        self.visited.clear()


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    for (_, name), names in list(_wrapped.items()):
        function = names.get(name, getattr(builtins, name, None))
        if function is not None:
            patcher.patch(names, name, _leaf(function))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if name[0] != "_" and callable(value) and id(value) in function_ids:
                patcher.patch(frame_dict, name, _leaf(value))


_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__


class Tracer(TracerBase):
    """What traces programs. Modules of `torch.nn` are steps, others are looked into: `is_leaf_module` says which."""

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if name[0] != "_" and callable(value)
        } | {id(f) for f in autowrap_functions}
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self.tensor_attrs: dict[Any, str] = {}

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None
    ) -> Any:
        """A step, and in which module it was made."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        if self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        self.node_name_to_scope[node.name] = self.scope.module_path, self.scope.module_type
        return node

    def create_arg(self, a: Any) -> Any:
        """An argument as a step keeps it: tensors are attributes of the module."""
        if isinstance(a, Parameter):
            for name, param in self.root.named_parameters():
                if a is param:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            known = self.tensor_attrs.get(a)
            if known is None:
                k = 0
                while hasattr(self.root, f"_tensor_constant{k}"):
                    k += 1
                known = self.tensor_attrs[a] = f"_tensor_constant{k}"
                setattr(self.root, known, a)
            return self.create_node("get_attr", known, (), {})
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is a step by itself."""
        return type(m).__module__.startswith((f"{_PACKAGE}.nn", "torch.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Where a module is inside of the one that is traced."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if mod is module:
                return str(name)
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a call of a module comes to."""
        path, before = self.path_of_module(m), self.scope
        self.scope = Scope(path, type(m))
        called = self.num_calls.get(path, 0)
        self.num_calls[path] = called + 1
        key = f"{path}@{called}" if called else path
        self.module_stack[key] = path, type(m)
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.scope = before
            del self.module_stack[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():  # modules are not copied
            copied = copy.copy(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
            setattr(made, name, copied)
        return made

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What an attribute of a module comes to."""
        if isinstance(attr_val, Parameter):
            found = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = self.root.named_buffers()
        else:
            return attr_val
        for name, value in found:
            if attr_val is value:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self.create_proxy(
                        "get_attr",
                        name,
                        (),
                        {},
                        proxy_factory_fn=functools.partial(self._known_shape, name, value)
                        if self.param_shapes_constant
                        else None,
                    )
                return parameter_proxy_cache[name]
        return attr_val

    def _known_shape(self, name: str, value: Any, node: Any) -> Proxy:
        return ParameterProxy(self, node, name, value)

    # -- running ------------------------------------------------------------------------------------------------------

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The stand-ins for a function's arguments, and what takes them."""
        analysed = inspect.unwrap(root_fn)
        code: CodeType = analysed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        shape = inspect.signature(analysed)
        names = list(code.co_varnames)
        if is_module and not total:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        own = names[int(is_module) : total]
        if isinstance(concrete_args, tuple):
            if len(own) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(own)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(own, concrete_args))
        args: list[Any] = [self.root] if is_module else []
        args += [self._placeholder(name, concrete_args, shape, analysed) for name in own]
        more = names[total:]
        if code.co_flags & inspect.CO_VARARGS:
            args.append(self._placeholder(f"*{more.pop(0)}", None, shape, analysed))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            args.append(self._placeholder(f"**{more.pop(0)}", None, shape, analysed))
        if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            root_fn = _all_by_position(root_fn, len(args))
        return root_fn, args

    def _placeholder(self, name: str, given: Any, shape: inspect.Signature, function: Any) -> Any:
        default: tuple[Any, ...] = ()
        if name[0] != "*" and shape.parameters[name].default is not inspect.Parameter.empty:
            default = (shape.parameters[name].default,)
        if given is None or name not in given:
            annotation = _annotations(function).get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)
        count = 0

        def one(value: Any) -> Any:
            nonlocal count
            count += 1
            made = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if value is PH:
                return made
            words = f"{name} has been specialized to have value {value} but got another value"
            if isinstance(value, (bool, str, int, float, complex)):
                self.create_proxy("call_function", _assert, (_equals(made, value), words), {})
            elif value is None:
                self.create_proxy("call_function", _assert_is_none, (made, words), {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to the user to "
                    "make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=2,
                )
            return value

        return _pytree.tree_map(one, given[name])

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """The graph of a module or function. Of `concrete_args` the values are taken as they are."""
        if isinstance(root, Module):
            self.root: Any = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
                )
            fn: Any = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, fn = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {}
        for path, module in self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor):
                    self.tensor_attrs[value] = f"{path}.{name}" if path else name
        if not isinstance(fn, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(fn)}")
        run, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
        with looking(), self._patched(fn.__globals__):
            result = self.create_arg(run(*args))
        returned = _annotations(inspect.unwrap(fn)).get("return")
        self.create_node("output", "output", (result,), {}, type_expr=returned)
        self.submodule_paths = None
        return self.graph

    @contextmanager
    def _patched(self, names: dict[str, Any]) -> Iterator[None]:
        cache: dict[str, Proxy] = {}
        get, call = Module.__getattr__, Module.__call__

        def getattr_(module: Any, name: str) -> Any:
            return self.getattr(name, get(module, name), cache)

        def call_(module: Any, *args: Any, **kwargs: Any) -> Any:
            of_forward = getattr(getattr(module, "forward", module), "__globals__", {})
            _autowrap_check(patcher, of_forward, self._autowrap_function_ids)
            return self.call_module(module, functools.partial(call, module), args, kwargs)

        with _Patcher() as patcher:
            patcher.patch_method(Module, "__getattr__", getattr_, deduplicate=False)
            patcher.patch_method(Module, "__call__", call_, deduplicate=False)
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, names, self._autowrap_function_ids)
            for module in self._autowrap_search:
                _autowrap_check(patcher, vars(module), self._autowrap_function_ids)
            yield


def _annotations(function: Any) -> dict[str, Any]:
    """What a function says of its parameters. Our own, which are words, say of a module's `forward` what PyTorch's does: Tensor or,
    where ours may be anything, nothing at all."""
    found: dict[str, Any] = function.__annotations__
    if not is_ours(function.__module__):  # None of what text made
        return found
    if any(kind == "Any" for name, kind in found.items() if name != "return"):
        return {}
    return {name: Tensor for name, kind in found.items() if kind == "Tensor"}


def _equals(made: Any, value: Any) -> Any:
    return made == value


def _all_by_position(function: Any, count: int) -> Any:
    """A function that takes by position also what it would take by name, or as many as there are."""
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    code = code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    return FunctionType(code, function.__globals__, function.__name__, (), function.__closure__)


def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


class ProxyableClassMeta(type):
    """Makes of a class one whose instances may be made of stand-ins: making one is then a step."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found: list[Proxy] = []
        map_aggregate((args, kwargs), lambda a: found.append(a) if isinstance(a, Proxy) else None)
        if found:
            return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


def symbolic_trace(root: Any, concrete_args: Any = None) -> GraphModule:
    """A module that does what `root`, a module or a function, does to tensors, and has it as a `graph` and as `code`.

    >>> traced = torch.fx.symbolic_trace(lambda x, y=2: torch.relu(x) * y)
    >>> print(traced.code.strip())
    def forward(self, x, y = 2):
        relu = torch.relu(x);  x = None
        mul = relu * y;  relu = y = None
        return mul
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
