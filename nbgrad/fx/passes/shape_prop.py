"""What tensors flow through a graph: PyTorch's `torch.fx.passes.shape_prop`."""

from __future__ import annotations

from typing import Any, NamedTuple

from nbgrad.core.pytree import tree_map
from nbgrad.core.tensor import Tensor
from nbgrad.fx.graph_module import GraphModule
from nbgrad.fx.interpreter import Interpreter
from nbgrad.fx.node import Node
from nbgrad.memory import layout
from nbgrad.memory.dtypes import dtype

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: layout.Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: layout.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    formats = (layout.contiguous_format, layout.channels_last, layout.channels_last_3d)
    lies = [f for f in formats if include_contiguity and result.is_contiguous(memory_format=f)]
    return TensorMetadata(
        result.shape,
        result.dtype,
        result.requires_grad,
        result.stride(),
        lies[0] if lies else None,
        False,
        {},
    )


class ShapeProp(Interpreter):
    """Runs a graph and keeps with each node what it gave: `node.meta["tensor_meta"]`, `node.meta["type"]`.

    >>> from torch.fx.passes.shape_prop import ShapeProp
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x).sum(0))
    >>> y = ShapeProp(traced).propagate(torch.ones(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3), (2, 3), (3,), (3,)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        found = False

        def seen(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        meta = tree_map(seen, result)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on these."""
        return super().run(*args)
