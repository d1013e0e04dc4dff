"""Graphs of what functions come to below, and what flows through graphs."""

from __future__ import annotations

from typing import Any

import pytest

import nbgrad as T
from nbgrad.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from nbgrad.names.absent import NotBuiltError

# Functions of x, 2 x 3, of which PyTorch's trace is nbgrad's, letter for letter.
TRACED = """
lambda x: torch.sin(x) + x * 2
lambda x: torch.nn.functional.linear(x, torch.ones(4, 3)).relu().sum()
lambda x: x + torch.ones(3)
lambda x: x + c
lambda x: lin(x)
lambda x: x.add_(1)
lambda x: torch.nn.functional.softmax(x, -1).mean(1)
lambda x: x.split(1)[0] + x.max(0)[0]
lambda x: torch.where(x > 0, x, -x)[:, 1:].reshape(-1)
"""


def traced(torch: Any, make: Any, text: str) -> tuple[str, list[float], list[float]]:
    torch.manual_seed(0)
    scope = {"torch": torch, "c": torch.ones(3), "lin": torch.nn.Linear(3, 2)}
    f = eval(text, scope)
    graph = make(f)(torch.ones(2, 3))
    x = torch.tensor([[1.0, -2.0, 3.0], [0.5, 5.0, -6.0]])
    return graph.code, graph(x.clone()).flatten().tolist(), f(x.clone()).flatten().tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("text", TRACED.split("\n")[1:-1])
def test_traces_are_pytorchs(torch: Any, text: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx as theirs

    code, again, whole = traced(T, make_fx, text)
    assert code == traced(torch, theirs, text)[0]
    assert again == whole


def test_gradients_are_traced() -> None:
    def f(x: Any, y: Any) -> Any:
        x = x.detach().requires_grad_()
        return T.autograd.grad((x @ y).tanh().pow(2).sum(), x)[0]

    g = make_fx(f)(T.ones(2, 3), T.ones(3, 2))
    x, y = T.randn(2, 3), T.randn(3, 2)
    T.testing.assert_close(g(x, y), f(x, y))
    assert "torch.ops.aten.tanh_backward.default" in g.code


def test_what_is_not_seen_is_refused() -> None:
    x = T.ones(2, 3)
    with pytest.raises(NotBuiltError, match=r"does not see what torch\.vmap"):
        make_fx(T.vmap(lambda t: t.sin()))(x)
    with pytest.raises(NotBuiltError, match="does not see what"):
        make_fx(lambda t: T.nn.functional.interpolate(t[None], scale_factor=2.0))(x)
    with pytest.raises(RuntimeError, match="get value out of a tracing tensor"):
        make_fx(lambda t: t if t.sum() > 0 else -t)(x)
    with pytest.raises(NotBuiltError, match="no containers"):
        make_fx(lambda d: d["a"])({"a": x})
    with pytest.raises(NotBuiltError, match="tracing_mode"):
        make_fx(T.sin, tracing_mode="symbolic")


@pytest.mark.oracle
def test_shapes_are_kept_with_nodes(torch: Any) -> None:
    from nbgrad.fx.passes.shape_prop import ShapeProp

    def run(torch: Any, prop: Any) -> Any:
        torch.manual_seed(0)
        net = torch.fx.symbolic_trace(
            torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten())
        )
        prop(net).propagate(torch.ones(1, 3, 5, 5))
        return [str(n.meta["tensor_meta"]) for n in net.graph.nodes]

    from torch.fx.passes.shape_prop import ShapeProp as Theirs

    assert run(T, ShapeProp) == run(torch, Theirs)
    bad = T.fx.symbolic_trace(lambda x: x @ x)
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%matmul"):
        ShapeProp(bad).propagate(T.ones(2, 3))


def test_a_function_is_told_that_it_is_traced() -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append(get_proxy_mode() is not None)
        return x * 2

    function(T.ones(2))
    make_fx(function)(T.ones(2))
    assert seen == [False, True]


def test_a_function_made_of_text_belongs_to_no_module() -> None:
    made: dict[str, Any] = {}
    exec("def function(x):\n    return x + 1", made)
    assert made["function"].__module__ is None
    assert T.fx.symbolic_trace(made["function"])(T.ones(1)).tolist() == [2.0]
