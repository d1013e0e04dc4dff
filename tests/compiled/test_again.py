"""Values that are made again where they are read, in place of being kept from the forward to the backward."""

from __future__ import annotations

from typing import Any

import pytest

import nbgrad as T
from nbgrad.compiled import again
from nbgrad.compiled.explain import fullest
from tests.compiled.programs import difference

pytestmark = pytest.mark.fast


def bits(values: Any) -> list[bytes]:
    return [t.detach().numpy().tobytes() for t in values]


def compared(step: Any, change: Any = lambda k: None) -> Any:
    """The program, which does what the step does."""
    compiled = T.compile(step, fullgraph=True)
    for k in range(8):
        change(k)
        assert bits(step()) == bits(compiled()), k
    (entry,) = compiled._entries
    assert not any("nothing fused" in text for text in entry.done), entry.done
    return entry


def test_differences_of_points_are_not_kept() -> None:
    """As of a mixture: 400 points, 20 middles, 8 numbers each."""
    x = T.randn(400, 8)
    m, s = T.randn(20, 8, requires_grad=True), T.randn(20, 8, requires_grad=True)

    def step() -> Any:
        m.grad = s.grad = None
        z = (x[:, None, :] - m) * T.exp(s)
        T.logsumexp(-0.5 * (z * z).sum(2), 1).sum().backward()
        return m.grad, s.grad

    def change(k: int) -> None:
        with T.no_grad():
            m[k] += 0.5

    entry = compared(step, change)
    assert any("made again" in text for text in entry.done), entry.done
    needed = entry.ready.bytes + sum(m.nbytes for m in entry.ready.fresh)
    assert needed <= 0.7 * fullest(entry.eager), entry.done


def test_what_is_written_to_meanwhile_is_kept() -> None:
    x, w = T.randn(400, 8), T.randn(20, 8, requires_grad=True)

    def step() -> Any:
        w.grad = None
        z = x[:, None, :] - w
        loss = (z * z).sum(2).logsumexp(1).sum()
        x.mul_(1.5)
        loss.backward()
        x.mul_(0.5)
        return w.grad, loss

    y = x.clone()

    def change(k: int) -> None:
        x.copy_(y)

    compiled = T.compile(step, fullgraph=True)
    for k in range(6):
        change(k)
        want = bits(step())
        change(k)
        assert want == bits(compiled()), k
    (entry,) = compiled._entries
    assert not any("made again" in text for text in entry.done), entry.done


def test_what_costs_more_than_memory_is_kept() -> None:
    x = T.randn(400, 8)
    m = T.randn(20, 8, requires_grad=True)

    def step() -> Any:
        m.grad = None
        z = T.exp(T.tanh(x[:, None, :] - m))
        (z * z).sum(2).logsumexp(1).sum().backward()
        return (m.grad,)

    entry = compared(step)
    assert "exp" not in [text for op in entry.graph.ops for text in op.was if text == "exp"][1:]


def test_programs_with_all_that_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "LEAST", 1)
    for seed in range(7_000, 7_040):
        assert difference(seed)[0] == ""
