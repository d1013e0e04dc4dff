"""Backward: run the nodes that lead from the roots, the latest recorded first.

A node's sequence number is larger than that of any node it points at, so the pending node with the largest number has all its
gradients: no count of dependencies is needed to be in order, and the heap alone is the whole schedule. The engine never recurses,
computes only what is asked, and lets go of each gradient and each saved value as soon as it has been used.
Values are opaque: `add(total, grad, owned)` is handed in, and may write into a total that is owned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any

from nbgrad._tape.modes import shared, state
from nbgrad._tape.node import Node

Add = Callable[[Any, Any, bool], Any]


def run(
    roots: Iterable[tuple[Node, int, Any]],
    keep: bool,
    graph: bool,
    add: Add,
    prepare: Callable[[Node, Any], Any],
    finish: Callable[[Node, Any, Any], Any],
    wanted: dict[tuple[Node, int], Any] | None = None,
) -> None:
    """`prepare` and `finish` run a node's hooks; `wanted` maps (node, output) to what is called with its gradient."""
    heap: list[tuple[int, Node]] = []
    pending: dict[Node, Any] = {}
    owned: set[Any] = set()  # totals that are ours to write into

    def arrive(node: Node, number: int, grad: Any) -> None:
        if node.outputs == 1:
            if node not in pending:
                pending[node] = grad
                heappush(heap, (-node.seq, node))
            else:
                pending[node] = add(pending[node], grad, node in owned)
                owned.add(node)
            return
        slots = pending.get(node)
        if slots is None:
            slots = pending[node] = [None] * node.outputs
            heappush(heap, (-node.seq, node))
        if slots[number] is None:
            slots[number] = grad
        else:
            slots[number] = add(slots[number], grad, (node, number) in owned)
            owned.add((node, number))

    needed = None if wanted is None else _leading_to(wanted, [root[0] for root in roots])
    before, anomaly = (state.grad, state.node), shared.anomaly
    state.grad = graph
    try:
        for node, number, grad in roots:
            if needed is None or node in needed:
                arrive(node, number, grad)
        while heap:
            node: Node | None = heappop(heap)[1]
            # A node that has the largest number as soon as it has a gradient is run at once: a chain passes the heap by.
            while node is not None:
                grads = pending.pop(node)
                if anomaly:
                    state.node = node
                if node.hooked:
                    grads = prepare(node, grads)
                if wanted is not None:
                    for number in range(node.outputs):
                        if (node, number) in wanted:
                            wanted[node, number](grads if node.outputs == 1 else grads[number])
                    if not any(n in needed for n in node.next if n is not None):  # type: ignore[operator]
                        break
                results = node.rule.apply(node, grads, needed, graph)
                if node.hooked and node.hooks is not None:
                    results = finish(node, results, grads)
                if not keep and node.saved:
                    node.saved = None
                grads = None
                following: Node | None = None
                for target, number, grad in zip(node.next, node.numbers, results):
                    if grad is None or target is None or (needed is not None and target not in needed):
                        continue  # not differentiable there, or not asked for
                    if target.outputs != 1 or target in pending:
                        arrive(target, number, grad)
                        continue
                    pending[target] = grad
                    if following is None:
                        following = target
                    elif target.seq > following.seq:
                        heappush(heap, (-following.seq, following))
                        following = target
                    else:
                        heappush(heap, (-target.seq, target))
                results = grad = None
                if following is not None and heap and heap[0][0] < -following.seq:
                    heappush(heap, (-following.seq, following))
                    following = None
                node = following
    finally:
        state.grad, state.node = before


def _leading_to(wanted: dict[tuple[Node, int], Any], roots: list[Node]) -> set[Node]:
    """The nodes from which a wanted one is reached, the wanted ones among them."""
    targets = {node for node, _ in wanted}
    order: list[Node] = []
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
            stack.extend(n for n in node.next if n is not None)
    order.sort(key=lambda n: n.seq)
    needed: set[Node] = set()
    for node in order:
        if node in targets or any(n in needed for n in node.next if n is not None):
            needed.add(node)
    return needed
