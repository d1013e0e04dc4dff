"""Backward: run the nodes that lead from the roots, the latest recorded first.

A node's sequence number is larger than that of any node it points at, so the pending node with the largest number has all its
gradients: no count of dependencies is needed to be in order, and the heap alone is the whole schedule. The engine never recurses,
computes only what is asked, and lets go of each gradient and each saved value as soon as it has been used.
Values are opaque: `add(total, grad, owned)` is handed in, and may write into a total that is owned.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any

from nbgrad.tape.modes import PLAIN, put_back, shared, state
from nbgrad.tape.node import Node, sequence

Add = Callable[[Any, Any, bool], Any]
Wanted = dict[Node, dict[int, Callable[[Any], None] | None]]


class Task:
    """One backward, for those who ask from inside: which nodes it runs, what to call at its end, how many it is inside of."""

    roots: list[Node]
    pending: dict[Node, Any]  # gradients that wait for their nodes
    needed: set[Node] | None = None  # None: all that are reached
    asked = False  # for some gradients, which are given back, and not for all that leaves can have
    depth = 0
    callbacks: list[Callable[[], object]] | None = None
    _inside: set[Node] | None = None

    def executes(self, node: Node) -> bool:
        if self.needed is not None:
            return node in self.needed
        if self._inside is None:
            self._inside = set(_reached(self.roots))
        return node in self._inside

    def call_at_end(self, callback: Callable[[], object]) -> None:
        if self.callbacks is None:
            self.callbacks = []
        self.callbacks.append(callback)


_LEVELS_ON_A_STACK = 16  # of backwards inside backwards: Python's limit of 1000 frames leaves some 60 to each


def run_nested(*args: Any) -> None:
    """`run` inside another backward. Every so many levels it goes on in a thread that does nothing else, for the room on its stack,
    so that the depth has no limit; modes go there and come back."""
    if (state.task.depth + 1) % _LEVELS_ON_A_STACK:
        run(*args)
        return
    here, failed = vars(state), []

    def there() -> None:
        vars(state).update(here)
        try:
            run(*args)
        except BaseException as error:
            failed.append(error)
        here.update(vars(state))

    thread = threading.Thread(target=contextvars.copy_context().run, args=(there,), daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed.pop()


def run(
    roots: list[tuple[Node, int, Any]],
    keep: bool,
    graph: bool,
    registered: bool,
    add: Add,
    prepare: Callable[[Node, Any, bool], Any],
    finish: Callable[[Node, Any, Any], Any],
    watch: Callable[[Node, Any, Any, bool], Any],
    wanted: Wanted | None = None,
) -> None:
    """`graph` says that what the rules do is recorded, `registered` that they are to call ops instead of kernels.

    `prepare` and `finish` run a node's hooks, `watch` runs it in anomaly mode. `wanted` says for which outputs of which nodes
    gradients are asked, and what takes each; None there runs the node itself (a leaf's sink, or to keep an inner gradient)."""
    heap: list[tuple[float, Node]] = []
    pending: dict[Node, Any] = {}
    owned: set[Any] = (
        set()
    )  # totals that are ours to write into: by node, of a node of several outputs also by number
    sinks: list[Node] = []  # due, the next one last
    starts = [root[0] for root in roots]
    if shared.numbered:
        _number_anew(starts)
    late = _soon(starts) if shared.late else ()
    needed = None if wanted is None else _leading_to(wanted, starts)
    task: Task = object.__new__(Task)
    task.roots, task.pending = starts, pending
    if wanted is not None:
        task.asked, task.needed = True, needed
    before, special = (state.grad, state.task), False
    modes = PLAIN
    if shared.rare:
        modes, special = state.modes, shared.anomaly or shared.run_node is not None
        if shared.run_node is not None:
            add = partial(_seen, add)
    if before[1] is not None:
        task.depth = before[1].depth + 1
    graph = graph and not modes.inference
    state.grad, state.task = graph, task
    try:
        following: Node | None = None
        while roots:  # emptied, so that no gradient outlives its use
            node, number, grad = roots.pop(0)
            if needed is not None and node not in needed:
                if node.hooked and len(starts) == 1:  # PyTorch looks at a single root, if only to skip it
                    prepare(node, _alone(node, number, grad), False)
                continue
            if not heap and not roots and node.outputs == 1:  # the usual one root
                following = node
                pending[node] = grad
            else:
                _arrive(heap, pending, owned, add, node, number, grad)
        grad = None
        while True:
            if following is not None:
                node = following
            elif sinks:
                node = sinks.pop()
            elif heap:
                node = heappop(heap)[1]
                # Sinks that are due together run in the order in which the forward pass met the leaves, as PyTorch's do.
                while not node.next and heap and not heap[0][1].next:
                    sinks.append(node)
                    node = heappop(heap)[1]
            else:
                break
            following = None
            grads = pending.pop(node)
            if wanted is not None and node in wanted and not _hand_over(node, grads, wanted, needed, prepare):
                continue
            if not node.hooked and not special:
                results = node.rule.apply(node, grads, needed, registered)
            else:
                if node.hooked:
                    grads = prepare(node, grads, True)
                if node.next and not node.undefined and _missing(node, grads):
                    results = (None,) * len(node.edges())
                else:
                    take = watch if shared.anomaly else shared.run_node
                    if (
                        take is None
                    ):  # called from here: who counts references sees that nobody else holds the gradient
                        results = node.rule.apply(node, grads, needed, registered)
                    else:
                        results = take(node, grads, needed, registered)
                if node.hooks is not None:
                    results = finish(node, results, grads)
                put_back(graph, modes)  # whatever a hook has switched
            grads = None
            if not results:  # a sink
                continue
            if not keep and node.saved:
                node.saved = None
            targets = node.next
            if len(targets) == 1:  # the usual one, without what a loop costs
                (target,), grad = targets, results[0]
                if (
                    target is not None
                    and grad is not None
                    and target not in pending
                    and target.outputs == 1
                    and (needed is None or target in needed)
                ):
                    pending[target] = grad
                    results = grad = None
                    if heap and (not target.next or heap[0][0] < -target.seq):
                        heappush(heap, (-target.seq, target))
                    else:
                        following = target
                    continue
            for target, number, grad in zip(targets, node.numbers, results):
                if target is None or (needed is not None and target not in needed):
                    continue  # not differentiable there, or not asked for
                if grad is None:  # goes on all the same, for the hooks and custom nodes on its way
                    special = True
                    _arrive(heap, pending, owned, add, target, number, grad)
                elif target in pending and target.outputs == 1 and pending[target] is not None:
                    pending[target] = add(pending[target], grad, target in owned)
                    owned.add(target)
                elif target.outputs != 1 or target in pending:
                    _arrive(heap, pending, owned, add, target, number, grad)
                else:
                    pending[target] = grad
                    if following is None:
                        following = target
                    elif target.seq > following.seq:
                        heappush(heap, (-following.seq, following))
                        following = target
                    else:
                        heappush(heap, (-target.seq, target))
            results = grad = None
            # A node that has the largest number as soon as it has a gradient runs at once: a chain passes the heap by.
            if heap and following is not None and (not following.next or heap[0][0] < -following.seq):
                heappush(heap, (-following.seq, following))
                following = None
        if task.callbacks is not None:
            for callback in task.callbacks:  # which may ask for more
                callback()
                put_back(graph, modes)
    except BaseException:
        put_back(graph, modes)
        raise
    finally:
        state.grad, state.task = before
        for sink, seq in late:
            sink.seq = seq


def _soon(roots: list[Node]) -> list[tuple[Node, float]]:
    """Sinks and their numbers, which may be of a graph further back that has them too. For this backward each gets one that comes right
    after the first of its nodes here, so that hooks run as soon as the gradient is there, as in PyTorch."""
    soon: dict[Node, float] = {}
    for node in _reached(roots):
        for k, target in enumerate(node.next):
            if target is not None and not target.next:
                number = node.seq - 0.5 + 0.4 * k / len(node.next)
                soon[target] = min(number, soon.get(target, number))
    before = [(sink, sink.seq) for sink in soon]
    for sink, number in soon.items():
        sink.seq = number
    return before


def _seen(add: Add, total: Any, grad: Any, owned: bool) -> Any:
    """A sum of gradients that somebody may take over."""
    found = None if shared.add is None else shared.add(total, grad)
    return add(total, grad, owned) if found is None else found


def _number_anew(roots: list[Node]) -> None:
    """Where a user has set numbers: give all nodes new ones, in the order in which the numbers and the graph let them run."""
    nodes = _reached(roots)
    if not any("_asked_nr" in node.__dict__ for node in nodes):
        return
    waits = dict.fromkeys(nodes, 0)
    for node in nodes:
        for target in node.next:
            if target is not None:
                waits[target] += 1
    ready = [(-node._sequence_nr(), node.seq, node) for node in nodes if not waits[node]]
    heapify(ready)
    order = []
    while ready:
        node = heappop(ready)[2]
        order.append(node)
        for target in node.next:
            if target is not None:
                waits[target] -= 1
                if not waits[target]:
                    heappush(ready, (-target._sequence_nr(), target.seq, target))
    for node in reversed(order):
        node.seq = next(sequence)


def _alone(node: Node, number: int, grad: Any) -> Any:
    """The gradients of a node of which one has arrived."""
    return grad if node.outputs == 1 else [grad if k == number else None for k in range(node.outputs)]


def _missing(node: Node, grads: Any) -> bool:
    """Whether no gradient has arrived: PyTorch calls the node's hooks with None, and hands None on."""
    return grads is None if node.outputs == 1 else all(grad is None for grad in grads)


def _arrive(
    heap: list[tuple[float, Node]],
    pending: dict[Node, Any],
    owned: set[Any],
    add: Add,
    node: Node,
    number: int,
    grad: Any,
) -> None:
    """A gradient for one output of a node: the first makes the node pending, others are added to it."""
    if node not in pending:
        pending[node] = None if node.outputs == 1 else [None] * node.outputs
        heappush(heap, (-node.seq, node))
    slots: Any = pending if node.outputs == 1 else pending[node]
    key: Any = node if node.outputs == 1 else number
    if slots[key] is None:
        slots[key] = grad
    elif grad is not None:
        mark = node if node.outputs == 1 else (node, number)
        slots[key] = add(slots[key], grad, mark in owned)
        owned.add(mark)


def _hand_over(
    node: Node, grads: Any, wanted: Wanted, needed: Any, prepare: Callable[[Node, Any, bool], Any]
) -> bool:
    """Give what was asked for; whether the node is to run too. As in PyTorch the hooks of a tensor have acted on what is
    handed over only where its node does not run."""
    takers = wanted[node]
    runs = None in takers.values() or (any(node.next) if needed is None else not needed.isdisjoint(node.next))
    if not runs and node.hooked:
        grads = prepare(node, grads, False)
    for number, take in takers.items():
        if take is not None:
            take(grads if node.outputs == 1 else grads[number])
    return runs


def _reached(roots: Iterable[Node]) -> list[Node]:
    found = dict.fromkeys(roots)
    stack = list(found)
    while stack:
        for node in stack.pop().next:
            if node is not None and node not in found:
                found[node] = None
                stack.append(node)
    return list(found)


def _leading_to(wanted: Wanted, roots: list[Node]) -> set[Node] | None:
    """The nodes from which a wanted one is reached, the wanted ones among them; None where that is all of them, as it is where
    every end of the graph is wanted."""
    nodes = list(dict.fromkeys(roots))
    found: set[Any] = {None, *nodes}
    every = True
    for node in nodes:  # which grows
        targets: tuple[Any, ...] = node.next
        for target in targets:
            if target not in found:
                found.add(target)
                nodes.append(target)
        if (not targets or (targets[-1] is None and not any(targets))) and node not in wanted:
            every = False
    if every:
        return None
    nodes.sort(key=attrgetter("seq"))
    needed: set[Node] = set()
    for node in nodes:
        if node in wanted or not needed.isdisjoint(node.next):
            needed.add(node)
    return needed
