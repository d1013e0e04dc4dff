"""Putting one piece of a graph in the place of another."""

from __future__ import annotations

from typing import Any, NamedTuple

from nbgrad.fx._symbolic_trace import symbolic_trace
from nbgrad.fx.graph import Graph
from nbgrad.fx.graph_module import GraphModule
from nbgrad.fx.node import Node, map_arg


class Match(NamedTuple):
    """Where a pattern was found: its last step, and which steps stand for which."""

    anchor: Node
    nodes_map: dict[Node, Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace what does what `pattern` does by what `replacement` does; both are functions or modules of the same arguments.

    >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x + x) * 2)
    >>> found = torch.fx.replace_pattern(traced, lambda a: torch.relu(a), lambda a: torch.tanh(a))
    >>> print(traced.code.strip())
    def forward(self, x):
        add = x + x;  x = None
        tanh = torch.tanh(add);  add = None
        mul = tanh * 2;  tanh = None
        return mul
    """
    looked, put = _graph(pattern), _graph(replacement)
    last = _result(looked)
    found: list[Match] = []
    used: set[Node] = set()
    for node in list(gm.graph.nodes):
        pairs: dict[Node, Node] = {}
        if node._erased or not _fits(last, node, pairs) or not _alone(pairs, last):
            continue
        inside = {n for p, n in pairs.items() if p.op != "placeholder"}
        if inside & used:
            continue
        used |= inside
        found.append(Match(node, pairs))
    replaced: dict[Node, Node] = {}
    for match in found:
        _replace(gm, looked, put, match, replaced)
    gm.recompile()
    return found


def _graph(program: Any) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _result(graph: Graph) -> Node:
    result = graph.output_node().args[0]
    if isinstance(result, (tuple, list)) and len(result) == 1:
        result = result[0]
    if not isinstance(result, Node):
        raise NotImplementedError("nbgrad replaces patterns of one result")
    return result


def _fits(pattern: Node, node: Any, pairs: dict[Node, Node]) -> bool:
    """Whether a step does what that of the pattern does, and those that it reads too."""
    if pattern in pairs:
        return pairs[pattern] is node
    if pattern.op == "placeholder":
        pairs[pattern] = node
        return isinstance(node, Node)
    if not isinstance(node, Node) or (pattern.op, pattern.target) != (node.op, node.target):
        return False
    pairs[pattern] = node
    return _same(pattern.args, node.args, pairs) and _same(pattern.kwargs, node.kwargs, pairs)


def _same(a: Any, b: Any, pairs: dict[Node, Node]) -> bool:
    if isinstance(a, Node):
        return _fits(a, b, pairs)
    if isinstance(a, (tuple, list)):
        return (
            isinstance(b, (tuple, list))
            and len(a) == len(b)
            and all([_same(x, y, pairs) for x, y in zip(a, b)])
        )
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all([_same(a[k], b[k], pairs) for k in a])
    return type(a) is type(b) and bool(a == b)


def _alone(pairs: dict[Node, Node], last: Node) -> bool:
    """Whether nobody else reads what is inside."""
    inside = {n for p, n in pairs.items() if p.op != "placeholder"}
    return all(
        [
            set(n.users) <= inside
            for p, n in pairs.items()
            if p.op not in ("placeholder", "get_attr") and p is not last
        ]
    )


def _replace(gm: GraphModule, looked: Graph, put: Graph, match: Match, replaced: dict[Node, Node]) -> None:
    places = [n for n in looked.nodes if n.op == "placeholder"]
    others = [n for n in put.nodes if n.op == "placeholder"]
    known = {o: match.nodes_map[p] for p, o in zip(places, others, strict=True) if p in match.nodes_map}
    known = {o: replaced.get(n, n) for o, n in known.items()}
    users = [n for n in gm.graph.nodes if n in match.anchor.users]
    with gm.graph.inserting_before(users[0] if users else match.anchor):
        result = gm.graph.graph_copy(put, known)
    made = map_arg(result, lambda n: n)
    if isinstance(made, (tuple, list)):
        made = made[0]
    match.anchor.replace_all_uses_with(made)
    replaced[match.anchor] = made
    for node in reversed([n for p, n in match.nodes_map.items() if p.op != "placeholder"]):
        if not node.users and not node._erased:
            gm.graph.erase_node(node)
    for node in [n for p, n in match.nodes_map.items() if p.op != "placeholder"]:
        if not node.users and not node._erased:
            gm.graph.erase_node(node)
