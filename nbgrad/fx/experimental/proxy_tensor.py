"""Tracing below functions: what operators a function, gradients and all, comes to on given arguments."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, NoReturn

from nbgrad.core.pytree import tree_flatten, tree_map
from nbgrad.core.tensor import Tensor
from nbgrad.fx.graph import Graph
from nbgrad.fx.graph_module import GraphModule
from nbgrad.fx.node import Node
from nbgrad.names.absent import NotBuiltError
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter
from nbgrad.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

__all__ = ["get_proxy_mode", "make_fx"]

_VALUE = (
    "It appears that you're trying to get value out of a tracing tensor with {} - erroring out! It's likely that this is caused by "
    "data-dependent control flow or similar.  It may be possible to trace this with dynamic shapes; try setting tracing_mode='symbolic' "
    "in your make_fx call."
)


class _Tracing(TorchDispatchMode):
    """Writes down each operator; a tensor is known by its memory and how it is read, whatever object stands for it."""

    def __init__(self) -> None:
        self.graph, self.root = Graph(), Module()
        self.known: dict[Any, tuple[Tensor, Node]] = {}
        self.counts = {"tensor": 0, "param": 0}

    @staticmethod
    def _key(t: Tensor) -> Any:
        return id(t._buf), t._spec.plain

    def keep(self, t: Tensor, node: Node) -> None:
        self.known[self._key(t)] = t, node

    def node_of(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        found = self.known.get(self._key(value))
        if found is not None:
            return found[1]
        kind = "param" if isinstance(value, Parameter) else "tensor"
        name = f"_{kind}_constant{self.counts[kind]}"
        self.counts[kind] += 1
        setattr(self.root, name, value)
        node = self.graph.get_attr(name)
        self.keep(value, node)
        return node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._opname == "_local_scalar_dense":
            if self._key(args[0]) in self.known:
                raise RuntimeError(_VALUE.format(func))
            return func(*args)
        if func._opname == "lift_fresh":
            return func(*args)
        places, named = tree_map(self.node_of, (tuple(args), dict(kwargs or {})))
        node = self.graph.create_node("call_function", func, places, named, name=func._opname)
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.keep(result, node)
        elif isinstance(result, (tuple, list)):
            for k, one in enumerate(result):
                if isinstance(one, Tensor):
                    part = self.graph.create_node(
                        "call_function", operator.getitem, (node, k), name="getitem"
                    )
                    self.keep(one, part)
        return result

    def unseen(self, what: str, values: Any, results: Any) -> None:
        """Something was computed at once: refused where it was made of what is traced."""
        made = [
            t for t in tree_flatten(results)[0] if isinstance(t, Tensor) and self._key(t) not in self.known
        ]
        if made and any(
            [isinstance(t, Tensor) and self._key(t) in self.known for t in tree_flatten(values)[0]]
        ):
            self.refuse(what)

    def refuse(self, what: str) -> NoReturn:
        raise NotBuiltError(
            f"nbgrad's make_fx does not see what {what} is made of, which is computed at once"
        )


def get_proxy_mode() -> TorchDispatchMode | None:
    """What `make_fx` writes by while it runs a function, else None: libraries ask, which take no decision by values then.

    >>> from torch.fx.experimental.proxy_tensor import get_proxy_mode
    >>> print(get_proxy_mode())
    None
    """
    now = [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, _Tracing)]
    return now[-1] if now else None


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Any = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    **more: Any,
) -> Callable[..., GraphModule]:
    """A function that, called with the arguments of `f`, runs it once and gives a module whose graph holds PyTorch's operators that it
    came to, those of gradients computed in it too. Sizes are those of the arguments, which are tensors and numbers; what nbgrad does not
    tell in operators (`vmap`, recurrent layers) is refused. The `detach` by which PyTorch keeps what it saves has no node.

    >>> from torch.fx.experimental.proxy_tensor import make_fx
    >>> print(make_fx(lambda x: x.sin() * 2)(torch.ones(2)).code.strip())
    def forward(self, x_1):
        sin = torch.ops.aten.sin.default(x_1);  x_1 = None
        mul = torch.ops.aten.mul.Tensor(sin, 2);  sin = None
        return mul
    """
    if tracing_mode != "real":
        raise NotBuiltError(
            f"nbgrad's make_fx has no tracing_mode={tracing_mode!r}: sizes are those of the arguments"
        )
    if decomposition_table:
        raise NotBuiltError("nbgrad's make_fx takes no decomposition_table")

    def traced(*args: Any) -> GraphModule:
        if any([isinstance(a, (list, tuple, dict)) for a in args]):
            raise NotBuiltError("nbgrad's make_fx takes tensors and numbers, no containers of them")
        mode = _Tracing()
        names = _names(f, len(args))
        for name, value in zip(names, args):
            node = mode.graph.placeholder(f"{name}_1")
            if isinstance(value, Tensor):
                mode.keep(value, node)
        with mode:
            result = f(*args)
        mode.graph.output(tree_map(mode.node_of, result))
        return GraphModule(mode.root, mode.graph, getattr(f, "__name__", type(f).__name__))

    return traced


def _names(f: Callable[..., Any], count: int) -> list[str]:
    try:
        own = [p.name for p in inspect.signature(f).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        own = []
    return own[:count] if len(own) >= count else [f"arg{k}" for k in range(count)]
