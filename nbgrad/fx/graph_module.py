"""A module whose `forward` is written from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
from importlib import import_module
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.fx.graph import Graph, PythonCode, _builtin
from nbgrad.fx.node import Node
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter

_PACKAGE = __name__.partition(".")[0]
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_count = itertools.count()


def _function(code: PythonCode) -> Any:
    """The `forward` of a text, whose lines tracebacks show."""
    file = f"<eval_with_key>.{next(_count)}"
    linecache.cache[file] = (len(code.src), None, code.src.splitlines(True), file)
    names = {**code.globals, "torch": sys.modules[_PACKAGE]}
    exec(compile(code.src, file, "exec"), names)
    return names["forward"]


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    to, (*before, name) = to_module, target.split(".")
    for part in before:
        found = getattr(to, part, None)
        if found is None:
            found = Module()
            setattr(to, part, found)
        to = found
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        to.register_buffer(name, from_obj)
    else:
        setattr(to, name, from_obj)


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    source, to, (*before, name) = from_module, to_module, target.split(".")
    for part in before:
        f, t = getattr(source, part), getattr(to, part, None)
        if f is t:  # a parent has been put there, and all in it
            return
        if t is None:
            t = Module()
            setattr(to, part, t)
        source, to = f, t
    _assign_attr(getattr(source, name), to, name)


class _CodeOnlyModule(Module):
    """A module that is nothing but these attributes. torchvision's feature extractors are copied by it."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


class GraphModule(Module):
    """Of a module, or a dict of its attributes, and a graph: `forward` does what the graph says, `code` is its text. After the graph was
    changed, `recompile` writes it anew.

    >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> for node in traced.graph.nodes:
    ...     if node.op == "call_function":
    ...         node.update_arg(1, 5)
    >>> _ = traced.recompile()
    >>> traced(torch.ones(1))
    tensor([6.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        for kind in cls.__mro__:
            if kind.__qualname__.split(".")[-1] != "GraphModuleImpl":
                cls = kind
                break

        class GraphModuleImpl(cls):  # type: ignore[valid-type, misc]
            """Each has a `forward` of its own, and so a class."""

        made: GraphModule = object.__new__(GraphModuleImpl)
        return made

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        paths = [str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = root.training
            for path in paths:
                _copy_attr(root, self, path)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for path in sorted(paths, key=lambda p: p.count(".")):
                _assign_attr(root[path], self, path)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self.meta: dict[str, Any] = {}

    @property
    def graph(self) -> Graph:
        """The graph. Setting it writes `forward` anew."""
        found: Graph = self._graph
        return found

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of `forward`."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return str(self._code)

    def recompile(self) -> PythonCode:
        """Write `forward` of what the graph is now."""
        written = self._graph.python_code(root_module="self")
        self._code = written.src
        type(self).forward = _function(written)
        return written

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path, with empty ones on the way; whether it could be."""
        *before, name = target.split(".")
        module: Any = self
        for part in before:
            found = getattr(module, part, None)
            if found is None:
                found = Module()
                setattr(module, part, found)
            if not isinstance(found, Module):
                return False
            module = found
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take the module at a path away; whether there was one."""
        *before, name = target.split(".")
        module: Any = self
        for part in before:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away all modules that no step uses."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used |= {".".join(parts[:k]) for k in range(1, len(parts) + 1)}
        there = dict(self.named_modules(remove_duplicate=False))
        for node in self.graph.nodes:
            if node.op == "call_module" and node.target in there:
                inside = there[node.target].named_modules(remove_duplicate=False)
                used |= {f"{node.target}.{name}" for name, _ in inside}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **settings: Any) -> str:
        """The class as a text, which is also printed."""
        inside = "\n".join(["    " + line for line in self.code.strip("\n").split("\n")])
        text = f"class {self._get_name()}(torch.nn.Module):\n{inside}".rstrip() + "\n        "
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), str(self._code), hint])

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = dict(self.meta)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        memo[id(self)] = made = GraphModule.__new__(GraphModule)
        plain = _CodeOnlyModule(copy.deepcopy({k: v for k, v in vars(self).items() if k != "_graph"}, memo))
        made.__init__(plain, copy.deepcopy(self.graph), type(self).__name__)  # type: ignore[misc]
        for name, value in vars(plain).items():
            if name not in ("_modules", "_parameters", "_buffers", "_graph"):
                vars(made)[name] = value
        return made

    def __reduce__(self) -> Any:
        state = {k: v for k, v in vars(self).items() if k != "_graph"}
        written = self.recompile()
        names = {name: obj for name, obj in written.globals.items() if name not in _builtin()}
        return _again, (state, self._code, type(self).__name__, names)

    __reduce_ex__ = lambda self, protocol: self.__reduce__()  # noqa: E731


def _again(state: dict[str, Any], text: str, name: str, names: dict[str, Any] | None = None) -> GraphModule:
    """Of what was pickled: the text is traced again, all modules in it being steps."""
    Tracer: Any = import_module(f"{_PACKAGE}.fx").Tracer  # which stands on this

    class Whole(Tracer):  # type: ignore[misc]
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    plain = _CodeOnlyModule(state)
    known = _builtin() | (names or {})
    kind = type("CodeOnlyModule", (Module,), {"forward": _function(PythonCode(text, known))})
    plain.__class__ = kind
    graph = Whole().trace(plain)
    graph._tracer_cls = Tracer
    made = GraphModule(plain, graph, name)
    for held in ("_modules", "_parameters", "_buffers"):  # those that no step uses
        vars(made)[held].update({k: v for k, v in state[held].items() if k not in vars(made)[held]})
    return made


__all__ = ["GraphModule", "Node"]
