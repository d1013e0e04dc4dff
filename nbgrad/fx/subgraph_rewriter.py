"""Putting one piece of a graph in the place of another."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from nbgrad.fx._symbolic_trace import symbolic_trace
from nbgrad.fx.graph import Graph
from nbgrad.fx.graph_module import GraphModule
from nbgrad.fx.node import Node
from nbgrad.nn.modules.module import Module


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
    first, *others = results = _results(looked)
    found: list[Match] = []
    used: set[Node] = set()
    nodes = list(gm.graph.nodes)
    for node in nodes:
        tried: dict[Node, Node] = {}
        if node._erased or not _fits(first, node, tried):
            continue
        pairs = _with_others(others, nodes, tried)
        if pairs is None or not _alone(pairs, results):
            continue
        inside = {n for p, n in pairs.items() if p.op != "placeholder"}
        if inside & used:
            continue
        used |= inside
        found.append(Match(node, pairs))
    replaced: dict[Node, Node] = {}
    for match in found:
        _replace(gm, (looked, results), put, match, replaced)
    gm.recompile()
    if isinstance(replacement, Module):
        _bring_attributes(gm, replacement)
    return found


def _graph(program: Any) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _results(graph: Graph) -> list[Node]:
    result = graph.output_node().args[0]
    found = list(result) if isinstance(result, (tuple, list)) else [result]
    if not found or not all([isinstance(one, Node) for one in found]):
        raise NotImplementedError("nbgrad replaces patterns whose results are steps")
    return found


def _with_others(results: list[Node], nodes: list[Node], pairs: dict[Node, Node]) -> dict[Node, Node] | None:
    """The pairs with those of further results; None where one of these is not found."""
    if not results:
        return pairs
    first, *others = results
    for node in [pairs[first]] if first in pairs else nodes:
        tried = dict(pairs)
        if _fits(first, node, tried) and (found := _with_others(others, nodes, tried)) is not None:
            return found
    return None


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


def _alone(pairs: dict[Node, Node], results: list[Node]) -> bool:
    """Whether nobody else reads what is inside."""
    inside = {n for p, n in pairs.items() if p.op != "placeholder"}
    return all(
        [
            set(n.users) <= inside
            for p, n in pairs.items()
            if p.op not in ("placeholder", "get_attr") and p not in results
        ]
    )


def _replace(
    gm: GraphModule, pattern: tuple[Graph, list[Node]], put: Graph, match: Match, replaced: dict[Node, Node]
) -> None:
    looked, results = pattern
    places = [n for n in looked.nodes if n.op == "placeholder"]
    others = [n for n in put.nodes if n.op == "placeholder"]
    known = {o: match.nodes_map[p] for p, o in zip(places, others, strict=True) if p in match.nodes_map}
    known = {o: replaced.get(n, n) for o, n in known.items()}
    inside = set(match.nodes_map.values())
    anchors = [match.nodes_map[one] for one in results]
    users = {user for anchor in anchors for user in anchor.users} - inside
    order = list(gm.graph.nodes)
    before = next((n for n in order if n in users), None)
    last = next(n for n in reversed(order) if n in anchors)
    with gm.graph.inserting_before(before) if before is not None else gm.graph.inserting_after(last):
        result = gm.graph.graph_copy(put, known)
    made = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(made) != len(anchors):
        raise AssertionError(f"Returning nodes count mismatch: {len(anchors)} vs {len(made)}")
    for anchor, new in zip(anchors, made):
        anchor.replace_all_uses_with(new)
        replaced[anchor] = new
    for node in reversed([n for p, n in match.nodes_map.items() if p.op != "placeholder"]):
        if not node.users and not node._erased:
            gm.graph.erase_node(node)
    for node in [n for p, n in match.nodes_map.items() if p.op != "placeholder"]:
        if not node.users and not node._erased:
            gm.graph.erase_node(node)


def _bring_attributes(gm: GraphModule, replacement: Module) -> None:
    """What the steps that came read of their module; and what none reads any more is let go."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr") and _attribute(gm, node.target) is None:
            found = copy.deepcopy(_attribute(replacement, node.target))
            if found is None:
                raise RuntimeError(
                    'Attempted to create a "',
                    node.op,
                    f'" node during subgraph rewriting with target {node.target}, but the referenced attribute does not exist '
                    "in the replacement GraphModule",
                )
            if isinstance(found, Module):
                gm.add_submodule(node.target, found)
            else:
                setattr(gm, node.target, found)


def _attribute(module: Module, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
