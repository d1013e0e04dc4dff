"""Running a graph step by step, and making another graph on the way."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from nbgrad.fx._symbolic_trace import Tracer
from nbgrad.fx.graph import Graph
from nbgrad.fx.graph_module import GraphModule
from nbgrad.fx.node import Node, inputs_of, map_aggregate, map_arg
from nbgrad.fx.proxy import Proxy


class Interpreter:
    """Runs the graph of a module. Who derives from it says for a kind of step what is done.

    >>> class Logged(torch.fx.Interpreter):
    ...     def run_node(self, n):
    ...         print(n.name)
    ...         return super().run_node(n)
    >>> Logged(torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)).run(torch.ones(1))
    x
    relu
    add
    output
    tensor([2.])
    """

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            for node, user in inputs_of(self.graph.nodes).items():
                self.user_to_last_uses.setdefault(user, []).append(node)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        """What the graph gives of these arguments."""
        self.env = {} if initial_env is None else initial_env
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(given)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    text = f"While executing {node.format_node()}"
                    text = f"{error.args[0]}\n\n{text}" if error.args else text
                    error.args = (f"{text}\nOriginal traceback:\n{node.stack_trace}", *error.args[1:])
                    if isinstance(error, KeyError):
                        raise RuntimeError(*error.args) from error
                raise
            for done in self.user_to_last_uses.get(node, ()):
                del self.env[done]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """The same of a list, which is emptied."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """What a step gives."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function's result."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method's result."""
        self_obj, *rest = args
        return getattr(self_obj, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A module's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph gives."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute by its path."""
        found = self.module
        parts = target.split(".")
        for k, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: k + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a step's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Arguments with the values of the steps among them."""

        def load(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, load)


# What a step that is made of another has of it.
_KEPT = (
    *(
        "stack_trace",
        "nn_module_stack",
        "torch_fn",
        "source_fn_stack",
        "original_aten",
        "recompute",
        "from_node",
    ),
    *("ac_graph_id", "has_backward_hook", "quantization_tag", "custom", "partitioner_tag"),
)


class Transformer(Interpreter):
    """Makes another module of one: what its methods do with stand-ins becomes the new graph.

    >>> class Relu6(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         target = torch.nn.functional.relu6 if target is torch.relu else target
    ...         return super().call_function(target, args, kwargs)
    >>> made = Relu6(torch.fx.symbolic_trace(lambda x: torch.relu(x))).transform()
    >>> made(torch.tensor([9.0]))
    tensor([6.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph, self.root, self.tensor_attrs = graph, module, {}
                self.kept: dict[str, Any] = {}

            def create_node(self, *args: Any, **kwargs: Any) -> Node:
                node: Node = super().create_node(*args, **kwargs)
                node.meta.update(self.kept)
                return node

            def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
                return True

        self.tracer = TransformerTracer(self.new_graph)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An argument of the new graph."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An attribute of it."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module in it."""
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function in it."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def run_node(self, n: Node) -> Any:
        """What becomes of a step, with what was noted of it."""
        self.tracer.kept = {key: copy.copy(n.meta[key]) for key in _KEPT if key in n.meta}
        return super().run_node(n)

    def transform(self) -> GraphModule:
        """The new module."""
        result = super().run(enable_io_processing=False)
        if result is not None:

            def strip(a: Any) -> Any:
                return a.node if isinstance(a, Proxy) else a

            old = self.module.graph.output_node()
            made = self.new_graph.output(map_aggregate(result, strip), type_expr=old.type)
            made.meta.update(old.meta)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)
