"""A graph: steps in order, how they are put in and taken out, and the Python that does the same."""

from __future__ import annotations

import builtins
import copy
import enum
import inspect
import keyword
import math
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.fx.node import LEGAL, Node, inputs_of, map_arg, qualified_name, type_repr
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import memory_format
from nbgrad.ops.host.attributes import layout
from nbgrad.utils import _pytree

_PACKAGE = __name__.partition(".")[0]
REFLECTABLE = {
    **{
        "add": "{} + {}",
        "sub": "{} - {}",
        "mul": "{} * {}",
        "floordiv": "{} // {}",
        "truediv": "{} / {}",
        "div": "{} / {}",
    },
    **{
        "mod": "{} % {}",
        "pow": "{} ** {}",
        "lshift": "{} << {}",
        "rshift": "{} >> {}",
        "and_": "{} & {}",
        "or_": "{} | {}",
    },
    **{"xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}"},
}
MAGIC = {
    **{
        "eq": "{} == {}",
        "ne": "{} != {}",
        "lt": "{} < {}",
        "gt": "{} > {}",
        "le": "{} <= {}",
        "ge": "{} >= {}",
    },
    **{"pos": "+{}", "neg": "-{}", "invert": "~{}"},
    **REFLECTABLE,
}
INPLACE = {
    **{
        "iadd": "{} += {}",
        "iand": "{} &= {}",
        "ifloordiv": "{} //= {}",
        "ilshift": "{} <<= {}",
        "imod": "{} %= {}",
    },
    **{
        "imul": "{} *= {}",
        "imatmul": "{} @= {}",
        "ior": "{} |= {}",
        "ipow": "{} **= {}",
        "irshift": "{} >>= {}",
    },
    **{"isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}"},
}


def _builtin() -> dict[str, Any]:
    """What all that is written may name."""
    return {
        "inf": math.inf,  # the same objects at each call: names are given to objects
        "nan": math.nan,
        "NoneType": type(None),
        "torch": sys.modules[_PACKAGE],
        "device": device,
        "fx_pytree": _pytree,
        "pytree": _pytree,
    }


_NAME = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")
_ILLEGAL = re.compile("[^0-9a-zA-Z_]+")
_CAMEL = re.compile(r"(?<=[a-z])([A-Z])")


class _Namespace:
    """Names that have been given, each to one object."""

    def __init__(self) -> None:
        self._of: dict[Any, str] = {}
        self._used: set[str] = set()
        self._count: dict[str, int] = {}
        self._illegal: dict[str, Any] = {k: object() for k in keyword.kwlist}
        self._illegal |= vars(builtins) | _builtin()

    def create_name(self, candidate: str, obj: Any) -> str:
        if obj is not None and obj in self._of:
            return self._of[obj]
        match = _NAME.match(candidate)
        if match is None:
            candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
            candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
            match = _NAME.match(candidate)
            assert match is not None
        base, number = match.group(1, 2)
        if number is None or candidate in self._used:
            n = self._count.get(base, 0)
            if self._illegal.get(candidate, obj) is not obj:
                n += 1
                candidate = f"{base}_{n}"
        else:
            n = int(number)
        while candidate in self._used:
            n += 1
            candidate = f"{base}_{n}"
        self._used.add(candidate)
        self._count[base] = n
        if obj is not None:
            self._of[obj] = candidate
        return candidate


@dataclass
class PythonCode:
    """A program's text, and what it names."""

    src: str
    globals: dict[str, Any]


class CodeGen:
    """How a graph is written as Python."""

    _func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The first line."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        """The last."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The graph's arguments of the function's."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The function's results of the graph's."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """What else the text names."""
        return []


class _Writer:
    """The text of a graph while it is written."""

    def __init__(self, codegen: CodeGen, root: str, namespace: _Namespace) -> None:
        self.codegen, self.root, self.namespace = codegen, root, namespace
        self.globals: dict[str, Any] = {}
        self.free: list[str] = []
        self.body: list[str] = []
        self.returned = ""
        self.wrapped: dict[str, None] = {}
        for name, obj in _builtin().items():
            self.known(name, obj)

    def known(self, hint: str, obj: Any) -> str:
        """Under which name the text has an object."""
        if hint.startswith("torch.") and obj is not device:
            return hint
        name = self.namespace.create_name(hint, obj if obj.__hash__ is not None else None)
        self.globals[name] = obj
        return name

    def kind(self, annotation: Any) -> str:
        if annotation == ():
            return "()"
        if isinstance(annotation, types.UnionType):
            return "|".join([self.kind(a) for a in typing.get_args(annotation)])
        origin = getattr(annotation, "__origin__", None)
        if origin is not None:
            names = {list: typing.List, dict: typing.Dict, tuple: typing.Tuple, set: typing.Set}  # noqa: UP006
            of = names.get(origin, origin) if isinstance(annotation, typing._GenericAlias) else origin  # type: ignore[attr-defined]
            head = self.known(repr(of) if not isinstance(of, type) else type_repr(of), of)
            inner = typing.get_args(annotation)
            return f"{head}[{','.join([self.kind(a) for a in inner])}]" if inner else head
        return self.known(type_repr(annotation), annotation)

    def value(self, arg: Any) -> str:
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            return f"{self.known(qualified_name(type(arg)), type(arg))}({', '.join([self.value(a) for a in arg])})"
        if isinstance(arg, enum.Enum):
            return f"{self.known(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, Tensor):
            return f"torch.Tensor(size={list(arg.size())}, dtype={str(arg.dtype).rpartition('.')[2]})"
        if isinstance(arg, tuple):
            inner = ", ".join([self.value(a) for a in arg])
            return f"({inner},)" if len(arg) == 1 else f"({inner})"
        if isinstance(arg, list):
            return f"[{', '.join([self.value(a) for a in arg])}]"
        if isinstance(arg, dict):
            return "{" + ", ".join([f"{k!r}: {self.value(v)}" for k, v in arg.items()]) + "}"
        if isinstance(arg, slice):
            return f"slice({self.value(arg.start)}, {self.value(arg.stop)}, {self.value(arg.step)})"
        if callable(arg) and hasattr(arg, "_qualified_op_name"):
            return f"torch.ops.{arg}"
        return repr(arg)

    def call(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.value, args), *(f"{k} = {self.value(v)}" for k, v in kwargs.items())])

    def step(self, node: Node) -> str:
        """A line without its end."""
        kind = "" if node.type is None else f" : {self.kind(node.type)}"
        if node.op == "placeholder":
            default = f" = {self.value(node.args[0])}" if node.args else ""
            self.free.append(f"{node.target}{kind}{default}")
            bare = str(node.target).replace("*", "")
            return f"{node!r} = {bare}\n" if bare != repr(node) else ""
        if node.op == "output":
            if node.type is not None:
                self.returned = f" -> {self.kind(node.type)}"
            generate = (
                self.codegen.generate_output
            )  # which a class of the user's may write without what came later
            told = {"repr_fn": self.value} if "repr_fn" in inspect.signature(generate).parameters else {}
            return generate(node.args[0], **told)
        start = f"{node!r}{kind} = "
        if node.op == "call_method":
            return f"{start}{_dotted(self.value(node.args[0]), str(node.target))}({self.call(node.args[1:], node.kwargs)})"
        if node.op in ("call_module", "get_attr"):
            found = start + _dotted(self.root, str(node.target))
            return found if node.op == "get_attr" else f"{found}({self.call(node.args, node.kwargs)})"
        return self._function(node, start)

    def _function(self, node: Node, start: str) -> str:
        target: Any = node.target
        if getattr(target, "__module__", "") == "_operator":
            values = [self.value(a) for a in node.args]
            if target.__name__ in MAGIC:
                return start + MAGIC[target.__name__].format(*values)
            if target.__name__ in INPLACE:
                return f"{INPLACE[target.__name__].format(*values)};  {start}{values[0]}"
        name = self.known(qualified_name(target), target)
        if (
            name == "getattr"
            and len(node.args) == 2
            and isinstance(node.args[1], str)
            and node.args[1].isidentifier()
        ):
            return start + _dotted(self.value(node.args[0]), node.args[1])
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)
        return f"{start}{name}({self.call(node.args, node.kwargs)})"

    def written(self, nodes: Iterable[Node]) -> PythonCode:
        steps = list(nodes)
        done: dict[Node, list[Node]] = {}
        for one, user in inputs_of(steps).items():
            done.setdefault(user, []).append(one)
        for node in steps:
            line = self.step(node)
            if node.op == "placeholder":
                self.body.append(line)
                continue
            gone = done.get(node, []) if node.op != "output" else []
            if not node.users and node.op != "output":
                gone = [*gone, node]
            let_go = f";  {' = '.join([*map(repr, gone), 'None'])}" if gone else ""
            self.body.append(f"{line}{let_go}\n")
        body = "".join(self.body) or "pass\n"
        wrap = "torch.fx._symbolic_trace.wrap" if self.wrapped else ""
        wrapped = "\n".join([f'{wrap}("{name}")' for name in self.wrapped])
        for name, value in self.codegen.additional_globals():
            self.known(name, value)
        head = self.codegen.gen_fn_def(self.free, self.returned)
        inside = "\n".join(["    " + line for line in body.lstrip("\n").split("\n")])
        return PythonCode(f"\n{wrapped}\n\n{head}\n{inside}", self.globals)


def _dotted(base: str, target: str) -> str:
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class _InsertPoint:
    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.graph._insert = self.before


class _Nodes:
    """The steps of a graph; one may be taken out while they are gone through."""

    def __init__(self, graph: Graph, forward: bool = True) -> None:
        self.graph, self.forward = graph, forward

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = root._after if self.forward else root._before
        while node is not root:
            if not node._erased:
                yield node
            node = node._after if self.forward else node._before

    def __reversed__(self) -> Iterator[Node]:
        return iter(_Nodes(self.graph, not self.forward))


class Graph:
    """A program as steps in order.

    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> _ = graph.output(y)
    >>> module = torch.fx.GraphModule(torch.nn.Module(), graph)
    >>> module(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        self._shown: Callable[[Node], str] | None = None
        self._root = Node(self, "", "root", "", (), {})
        self._len = 0
        self._insert: Callable[[Node], None] = self._root.prepend
        self._graph_namespace = _Namespace()
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def nodes(self) -> Any:
        """The steps, in order."""
        return _Nodes(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The steps of a kind, and of what they call."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The last step."""
        return next(iter(reversed(self.nodes)))

    # -- putting in ---------------------------------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new step, at the point of insertion."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        candidate = self._target_to_str(target) if name is None else name
        node = Node(
            self, self._graph_namespace.create_name(candidate, None), op, target, args, kwargs, type_expr
        )
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Any) -> str:
        name = target.__name__ if callable(target) else target
        if name[:2] == "__" and name[-2:] == "__":
            name = name[2:-2]
        return _CAMEL.sub(r"_\1", name).lower()

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An argument of the program."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module, such as a parameter."""
        if self.owning_module is not None and not _reaches(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a module inside of the module."""
        if self.owning_module is not None and not _reaches(self.owning_module, module_name):
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, name, type_expr)

    def call_method(
        self,
        method_name: str,
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, name, type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the program gives."""
        return self.create_node("output", "output", (result,), {}, type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A step of another graph, with what `arg_transform` makes of those that it reads."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """All steps of another graph; what it gives is returned. `val_map` says which stand for which, and is told."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                found = map_arg(node.args[0], lambda n: val_map[n])
                return (found, node) if return_output_node else found
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Within it, new steps come before this one (None: before all)."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Within it, new steps come after this one (None: after all)."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        last = [n]

        def insert(node: Node) -> None:
            last[0].append(node)
            last[0] = node

        return _InsertPoint(self, insert)

    # -- taking out ---------------------------------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Take out a step that nobody reads."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._leave()
        to_erase._erased = True
        self._len -= 1
        to_erase._set(map_arg(to_erase.args, lambda n: None), map_arg(to_erase.kwargs, lambda n: None))

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out all steps that nobody reads and that do nothing else; whether there were any."""
        self.lint()
        count = self._len
        for node in reversed(self.nodes):
            kept = is_impure_node(node) if is_impure_node is not None else node.is_impure()
            if not kept and not node.users:
                self.erase_node(node)
        return self._len < count

    # -- looking ------------------------------------------------------------------------------------------------------

    def lint(self) -> None:
        """Raise where the graph makes no sense: steps that read what comes later or stands elsewhere, or call what is not there."""
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.op not in LEGAL[:-1]:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            for arg in node._input_nodes:
                if arg.graph is not self:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' does not belong to this Graph, but was used as an argument! If you are "
                        f"copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if arg not in seen:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' was used before it has been defined! Please check that Nodes in the graph are "
                        f"topologically ordered\n{self}"
                    )
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is None:
            return
        for node in self.nodes:
            if node.op not in ("get_attr", "call_module"):
                continue
            found: Any = self.owning_module
            parts = str(node.target).split(".")
            for k, part in enumerate(parts):
                found = getattr(found, part, None)
                if found is None:
                    raise RuntimeError(
                        f"Node {node} target {node.target} references nonexistent attribute {part} of {'.'.join(parts[:k])}"
                    )

    def python_code(self, root_module: str, **settings: Any) -> PythonCode:
        """The Python that does the same; `root_module` is what the module is called in it."""
        namespace = _Namespace()
        self._shown = lambda node: namespace.create_name(node.name, node)
        try:
            return _Writer(self._codegen, root_module, namespace).written(self.nodes)
        finally:
            self._shown = None

    def set_codegen(self, codegen: CodeGen) -> None:
        """Write it in another way."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        return self._codegen.process_outputs(out)

    def __str__(self) -> str:
        names: list[str] = []
        lines = [node.format_node(names) for node in self.nodes]
        return "\n    ".join([f"graph({', '.join(names)}):", *filter(None, lines)])

    def print_tabular(self) -> None:
        """Print a table of the steps, if the package `tabulate` is installed."""
        try:
            from importlib import import_module

            tabulate = import_module("tabulate").tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip install tabulate` "
                "to install the library."
            )
            raise
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made._codegen = copy.deepcopy(self._codegen)
        values: dict[Node, Node] = {}
        found = made.graph_copy(self, values, return_output_node=True)
        if found is not None:
            result, old = found
            made.output(result, old.type).meta = copy.copy(old.meta)
        memo[id(self)] = made
        return made


def _reaches(module: Any, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


base_types: tuple[Any, ...] = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout)
