"""Python numbers among the arguments of compiled functions: after the second value they are inputs."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

import nbgrad as T
from tests.compiled import scalars
from tests.compiled.test_compile import bits, leaf, programs


def test_one_program_for_all_rates() -> None:
    w, v = leaf(5), T.randn(5).requires_grad_()
    with T.no_grad():
        v.copy_(w)

    def step(w: Any, x: Any, rate: float, t: int) -> Any:
        loss = ((w * x) ** 2).mean() * (1 - 0.9 ** (t + 1)) + w.sum() / (t + 1)
        (grad,) = T.autograd.grad(loss, [w])
        with T.no_grad():
            w.sub_(grad, alpha=rate * math.cos(t / 10)).mul_(1 - rate * 0.1)
        return loss

    compiled = T.compile(step, fullgraph=True)
    for t in range(30):
        x = T.randn(5)
        assert bits(step(w, x, 0.1 / (t + 3), t), w) == bits(compiled(v, x, 0.1 / (t + 3), t), v), t
    assert programs(compiled) == 1 and "#" in compiled.graph()


def test_a_comparison_is_a_condition() -> None:
    def f(x: Any, k: float) -> Any:
        return x * min(k, 2.0) + (3 if k > 5 else k) if k != 7.5 else x

    compiled = T.compile(f, fullgraph=True)
    x = T.randn(4)
    for k in range(60):
        value = (k * 0.37) % 9 if k % 7 else 7.5
        assert bits(compiled(x, value)) == bits(f(x, value))
    assert 2 <= programs(compiled) <= 5


@pytest.mark.parametrize("far", [0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, -1.0])
def test_numbers_that_are_special(far: float) -> None:
    def f(x: Any, k: float) -> Any:
        return x * k + k, (x / k).clamp(min=-k) if k else x, x.add(x, alpha=k)

    compiled = T.compile(f)
    x = T.randn(4)
    for k in (0.3, 0.7, 0.9, 1.1, far, 0.2):
        try:
            want = bits(*f(x, k))
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                compiled(x, k)
            continue
        assert [T.tensor(bytearray(b)).tolist() for b in bits(*compiled(x, k))] == [
            T.tensor(bytearray(b)).tolist() for b in want
        ] or math.isnan(far)
    assert programs(compiled) == 1 + (far == 0)  # which goes another way


def test_an_integer_for_a_float_is_another_kind() -> None:
    f = T.compile(lambda x, k: x * k)
    for k in (2, 3, 4, 5, 2.5, 3.5, 4.5, True, 2**60, 6):
        assert f(T.tensor([1, 2]), k).dtype is (T.tensor([1, 2]) * k).dtype
        assert bits(f(T.ones(2), k)) == bits(T.ones(2) * k)


def test_a_backward_has_the_numbers_of_its_call() -> None:
    w = leaf(4)
    f = T.compile(lambda x, k: (x * w * k).tanh() / (k + 1), fullgraph=True)
    for k in range(6):
        f(T.ones(4), 0.5 + k).sum().backward()
    assert programs(f) == 1
    kept = [(k, T.randn(4)) for k in (0.25, 3.0, 1.5)]
    results = [f(x, k) for k, x in kept]
    for (k, x), y in zip(kept, results):
        w.grad = None
        y.sum().backward()
        (want,) = T.autograd.grad(((x * w * k).tanh() / (k + 1)).sum(), [w])
        assert T.equal(w.grad, want)


def test_what_looks_at_a_number_is_no_program_for_all() -> None:
    effects: list[Any] = []

    def f(x: Any, k: int, by: dict[int, float]) -> Any:
        y = x * 3
        for _ in range(k % 3):
            y = y + 1
        return y[:, -k:].sum(1) + by.get(k, 0.5) + len(f"{k}")

    compiled = T.compile(f)
    for k in range(1, 40):
        x = T.randn(2, 6)
        assert bits(compiled(x, k, {3: 9.0})) == bits(f(x, k, {3: 9.0}))

    def g(x: Any, k: float) -> Any:
        effects.append(k)
        return x * k

    for k in range(12):
        assert T.compile(g)(T.ones(1), k / 4).item() == k / 4
    once = T.compile(g)
    for k in range(12):
        once(T.ones(1), k / 4)
    assert effects == [k / 4 for k in range(12)] * 2  # each once, also while it is learnt


def test_what_a_trial_does_is_undone() -> None:
    w, count = leaf(3), T.zeros(1)
    T.manual_seed(1)

    def f(x: Any, k: float) -> Any:
        count.add_(1)
        loss = (w * x * k).sum() + T.rand(1).sum()
        loss.backward()
        return loss

    compiled = T.compile(f, fullgraph=True)
    for k in range(10):
        T.manual_seed(k)
        compiled(T.ones(3), k + 0.5)
        drawn = T.rand(2)
        T.manual_seed(k)
        T.rand(1)
        assert T.equal(drawn, T.rand(2)) and count.item() == k + 1 and count._version == k + 1
    assert T.allclose(w.grad, T.full((3,), sum(k + 0.5 for k in range(10)))) and programs(compiled) >= 1


def test_threads_with_numbers_of_their_own() -> None:
    f = T.compile(lambda x, k: (x * k + k).sum(), fullgraph=True)
    x = T.randn(30)
    for k in range(6):
        f(x, k + 0.5)
    wrong: list[float] = []

    def run(k: float) -> None:
        want = (x * k + k).sum().item()
        for _ in range(60):
            if f(x, k).item() != want:
                wrong.append(k)

    threads = [threading.Thread(target=run, args=(k + 0.25,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and programs(f) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_functions_of_numbers(seed: int) -> None:
    """`python -m tests.compiled.scalars` runs more of them."""
    assert not scalars.difference(seed)[0]
