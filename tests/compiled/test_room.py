"""How much memory a program needs: results that lie where an operand was, and an order of launches in which less is held at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.compiled import passes
from nbgrad.compiled.explain import fullest
from nbgrad.compiled.graph import FRESH, INSIDE, Graph, Memory, Op, Place
from nbgrad.kernels.calls import Call

pytestmark = pytest.mark.fast


def _op(title: str, to: Memory, *of: Memory, segment: bool = False) -> Op:
    args = (Place(to), *map(Place, of))
    return Op(Call("b" * len(args), 0, 1, 0, ()), args, (True,) + (False,) * len(of), title, segment=segment)


def _graph() -> Graph:
    """Two large values are made, and then each is added up: better one after the other."""
    a, b = (Memory(name, INSIDE, 1 << 20, 0, None) for name in "ab")
    x, y = (Memory(name, FRESH, 8, 0, None) for name in "xy")
    ops = [_op("make a", a), _op("make b", b), _op("sum a", x, a), _op("sum b", y, b)]
    return Graph("two", ops, [a, b, x, y])


def test_what_is_used_up_soon_is_made_late() -> None:
    graph = _graph()
    assert passes.needed(graph) == (2 << 20) + 8
    assert passes.roomy(graph) and passes.needed(graph) == (1 << 20) + 16
    assert sorted(op.title for op in graph.ops) == ["make a", "make b", "sum a", "sum b"]
    order = [op.title for op in graph.ops]
    assert order.index("make a") < order.index("sum a") and order.index("make b") < order.index("sum b")


def test_what_may_refuse_stays_where_it_is() -> None:
    graph = _graph()
    graph.ops[1].segment = True
    before = list(graph.ops)
    assert not passes.roomy(graph) and graph.ops == before


def test_order_is_left_alone_where_it_gains_nothing() -> None:
    graph = _graph()
    graph.ops = [graph.ops[k] for k in (0, 2, 1, 3)]
    before = list(graph.ops)
    assert not passes.roomy(graph) and graph.ops == before


def test_a_result_alone_lies_where_its_operand_was() -> None:
    x, w, v = (T.randn(*s, requires_grad=True) for s in ((64, 32), (32, 1000), (1000, 8)))

    def step() -> Any:
        x.grad = w.grad = v.grad = None
        y = T.relu(x @ w) @ v
        (y * y).sum().backward()
        return y.detach(), x.grad, w.grad, v.grad

    compiled = T.compile(step, fullgraph=True)
    for k in range(6):
        assert [t.numpy().tobytes() for t in step()] == [t.numpy().tobytes() for t in compiled()]
        with T.no_grad():
            x[k] += 1
    (entry,) = compiled._entries
    alone = {op.was[0] for op in entry.graph.ops if len(op.was) == 1}
    assert alone == {"relu", "relu_backward"}, compiled.graph()
    assert entry.ready.bytes <= 2 * 64 * 1000 * 4


def test_a_network_of_convolutions_needs_no_more_than_as_it_is() -> None:
    F = T.nn.functional
    p = [T.randn(*s) * 0.1 for s in ((8, 1, 3, 3), (16, 8, 3, 3), (10, 16 * 49))]
    for t in p:
        t.requires_grad_()
    x, y = T.randn(8, 1, 28, 28), T.tensor(np.arange(8) % 10)

    def step() -> Any:
        h = F.max_pool2d(T.relu(F.conv2d(x, p[0], padding=1)), 2)
        h = F.max_pool2d(T.relu(F.conv2d(h, p[1], padding=1)), 2)
        loss = F.cross_entropy(F.linear(h.reshape(8, -1), p[2]), y)
        for t in p:
            t.grad = None
        loss.backward()
        return loss.detach(), *[t.grad for t in p]

    compiled = T.compile(step, fullgraph=True)
    for _ in range(6):
        assert [t.numpy().tobytes() for t in step()] == [t.numpy().tobytes() for t in compiled()]
    (entry,) = compiled._entries
    results = sum(m.nbytes for m in entry.ready.fresh)
    assert entry.ready.bytes + results <= 1.01 * fullest(entry.eager), compiled.explain()
