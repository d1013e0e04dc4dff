"""Programs as graphs, PyTorch's `torch.fx`: `symbolic_trace` runs a module on stand-ins that note what is done to them, and the graph that
they leave can be looked at, changed, printed as Python, and run.

>>> class Net(torch.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.linear = torch.nn.Linear(2, 2)
...     def forward(self, x):
...         return torch.relu(self.linear(x) + 1)
>>> print(torch.fx.symbolic_trace(Net()).graph)
graph():
    %x : [num_users=1] = placeholder[target=x]
    %linear : [num_users=1] = call_module[target=linear](args = (%x,), kwargs = {})
    %add : [num_users=1] = call_function[target=operator.add](args = (%linear, 1), kwargs = {})
    %relu : [num_users=1] = call_function[target=torch.relu](args = (%add,), kwargs = {})
    return relu
"""

from nbgrad.fx._symbolic_trace import PH as PH
from nbgrad.fx._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from nbgrad.fx._symbolic_trace import Tracer as Tracer
from nbgrad.fx._symbolic_trace import symbolic_trace as symbolic_trace
from nbgrad.fx._symbolic_trace import wrap as wrap
from nbgrad.fx.graph import CodeGen as CodeGen
from nbgrad.fx.graph import Graph as Graph
from nbgrad.fx.graph_module import GraphModule as GraphModule
from nbgrad.fx.interpreter import Interpreter as Interpreter
from nbgrad.fx.interpreter import Transformer as Transformer
from nbgrad.fx.node import Node as Node
from nbgrad.fx.node import has_side_effect as has_side_effect
from nbgrad.fx.node import map_arg as map_arg
from nbgrad.fx.proxy import Proxy as Proxy
from nbgrad.fx.subgraph_rewriter import replace_pattern as replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
