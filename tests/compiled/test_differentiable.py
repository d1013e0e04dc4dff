"""Calls of `differentiable` functions inside of compiled ones: launches of their own, forwards and back, with the bits of eager calls; what
cannot be one cuts the function there."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import nbgrad as torch
from nbgrad import nn

CALLS = 8


@torch.differentiable
def bumps(x: Any, a: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        d = x[i] - a
        s += d * d * math.exp(-abs(d))
    return s


@torch.differentiable
def moments(x: Any) -> Any:
    s, n = 0.0, 0
    out = np.empty(len(x))
    for i in range(len(x)):
        s += x[i]
        out[i] = s * x[i]
        n += x[i] > 0.0
    return s / len(x), out, n


@torch.differentiable
def positive(x: Any) -> Any:
    return x[x > 0.0]


@torch.differentiable
def rooted(x: Any) -> Any:
    s = 0.0
    for v in x:
        if v < 0.0:
            raise ValueError("a root of a negative number")
        s += math.sqrt(v)
    return s


@torch.differentiable
def scaled_into(out: Any, x: Any) -> Any:
    for i in range(len(x)):
        out[i] = x[i] * out[i]
    return out.sum()


table = np.array([1.0, 2.0, 3.0])


def same(
    step: Any, make: Any, launches: int | None = None, calls: int = CALLS, backward: bool = False
) -> Any:
    """The same bits as eager calls, in results and gradients; `launches` says how many calls of plain functions the program holds."""
    compiled = torch.compile(step)
    for k in range(calls):
        found = []
        for f in (step, compiled):
            given = make(k)
            out = f(*given)
            outs = [*out] if isinstance(out, tuple) else [out]
            if backward:
                sum([o.sum() * (j + 1.5) for j, o in enumerate(outs) if o.requires_grad]).backward()
            grads = [t.grad for t in given if isinstance(t, torch.Tensor) and t.grad is not None]
            found.append([o.detach().numpy() for o in (*outs, *grads) if o is not None])
        assert len(found[0]) == len(found[1])
        for a, b in zip(*found):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert a.tobytes() == b.tobytes()
    if launches is not None:
        told = compiled.explain()
        assert told.graph_break_count == 0, str(told)
        ops = [op for e in compiled._all() for op in e.graph.ops if op.work is not None]
        assert len(ops) == launches, compiled.graph()
    return compiled


def leaf(k: int, n: int = 5, dtype: Any = torch.float64, grad: bool = True) -> Any:
    g = torch.Generator().manual_seed(k)
    return torch.randn(n, generator=g, dtype=dtype).requires_grad_(grad)


pytestmark = pytest.mark.fast


def test_a_backward_outside() -> None:
    same(lambda_of_bumps, lambda k: (leaf(k),), 2, backward=True)


def lambda_of_bumps(x: Any) -> Any:
    return bumps(x * 2.0, 0.7) * 3.0


def test_float32_and_a_number_of_a_tensor() -> None:
    def step(x: Any, a: Any) -> Any:
        return bumps(x.tanh(), a).exp()

    def make(k: int) -> Any:
        return leaf(k, 5, torch.float32), torch.tensor(0.1 * k, requires_grad=True)

    same(step, make, 2, backward=True)


def test_a_backward_inside() -> None:
    def step(x: Any) -> Any:
        loss = bumps(x * x, 0.3)
        loss.backward()
        return loss.detach()

    same(step, lambda k: (leaf(k),), 2)


def test_a_training_step() -> None:
    def losses(compiles: bool) -> list[float]:
        torch.manual_seed(0)
        model = nn.Linear(3, 5).double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = bumps(model(x), 0.5)
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step, fullgraph=True) if compiles else step
        found = [run(leaf(k, 3, grad=False)).item() for k in range(10)]
        if compiles:
            assert run.explain().graph_count == 1
        return found

    assert losses(True) == losses(False)


def test_without_gradients() -> None:
    def step(x: Any) -> Any:
        with torch.no_grad():
            return bumps(x, 0.7) + 1.0

    same(step, lambda k: (leaf(k),), 1)
    same(step, lambda k: (leaf(k, grad=False),), 1)


def test_several_results() -> None:
    def step(x: Any) -> Any:
        mean, out, n = moments(x)
        return mean * 2.0, out + 1.0, n

    same(step, lambda k: (leaf(k),), 2, backward=True)
    same(lambda_of_moments, lambda k: (leaf(k).detach().reshape(1, 5),), 1)


def lambda_of_moments(x: Any) -> Any:
    return moments(x.T[:, 0])[1] * 1.0


def test_a_gradient_of_a_gradient() -> None:
    def step(x: Any) -> Any:
        (g,) = torch.autograd.grad(bumps(x, 0.2), x, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), x)
        return g.detach(), h

    same(step, lambda k: (leaf(k),))


def test_a_number_that_changes_is_an_input() -> None:
    def step(x: Any, rate: float) -> Any:
        return bumps(x, rate / 2.0) * rate

    compiled = same(step, lambda k: (leaf(k), 0.1 * k), backward=True)
    assert compiled.explain().graph_count <= 3


def test_an_integer_that_changes() -> None:
    def step(x: Any, n: int) -> Any:
        return bumps(x, n) * n

    same(step, lambda k: (leaf(k), k % 3), backward=True, calls=20)


def test_numbers_alone() -> None:
    @torch.differentiable
    def rule(r: Any) -> Any:
        return r * r + 1.0

    def step(x: Any, rate: float) -> Any:
        return x * rule(rate)

    same(step, lambda k: (leaf(k), 0.1 * k), backward=True, calls=12)


def test_a_result_whose_size_depends_on_values_cuts() -> None:
    def step(x: Any) -> Any:
        y = x * 2.0 + 1.0
        z = positive(y)
        return z.sum() * 3.0

    compiled = same(step, lambda k: (leaf(k),), backward=True, calls=12)
    assert compiled.explain().graph_break_count > 0


def test_an_array_cuts() -> None:
    """It has no count of writes: what was in it when a program was made may not be there at the next call."""

    def step(x: Any, a: Any) -> Any:
        y = x.exp() * 2.0
        s = scaled_into(a, y.detach())
        return y * s, torch.from_numpy(a).sum()

    same(step, lambda k: (leaf(k, 3), table + k), backward=True, calls=12)

    def of_module(x: Any) -> Any:
        return x * bumps(table, 0.7) + bumps.grad(table, 0.7, wrt="a")

    try:
        same(of_module, change, backward=True, calls=12)
    finally:
        table[:] = [1.0, 2.0, 3.0]


def change(k: int) -> Any:
    table[0] = k
    return (leaf(k, 3),)


def test_what_raises_raises() -> None:
    def step(x: Any) -> Any:
        return rooted(x + 1.0) * 2.0

    compiled = torch.compile(step)
    for k in range(6):
        x = torch.tensor([0.5, float(k)], requires_grad=True)
        assert compiled(x).item() == step(x).item()
    assert compiled.explain().graph_count == 1
    with pytest.raises(ValueError, match="a root of a negative number"):
        compiled(torch.tensor([0.5, -3.0], requires_grad=True))
    assert compiled(x).item() == step(x).item()


def test_another_function_under_the_name_is_seen() -> None:
    functions = [torch.differentiable(lambda_of_sum), torch.differentiable(lambda_of_squares)]
    holder = Holder()

    def step(x: Any) -> Any:
        return holder.of(x) * 2.0

    def make(k: int) -> Any:
        holder.of = functions[k // 5 % 2]
        return (leaf(k),)

    same(step, make, backward=True, calls=20)


class Holder:
    of: Any = None


def lambda_of_sum(x: Any) -> Any:
    return x.sum()


def lambda_of_squares(x: Any) -> Any:
    return (x * x).sum()


def test_within_transforms() -> None:
    def step(x: Any) -> Any:
        return torch.func.grad(lambda y: bumps(y, 0.3))(x), torch.vmap(lambda y: bumps(y, 0.1))(x[None] * 2.0)

    same(step, lambda k: (leaf(k, grad=False),))


def test_shapes_and_modes_change() -> None:
    def step(x: Any) -> Any:
        return bumps(x, 0.4) * moments(x)[0]

    same(step, lambda k: (leaf(k, 3 + k // 6 % 2),), backward=True, calls=24)


def power(x: Any, a: Any, n: Any) -> Any:
    return a * (x**n).sum()


@torch.differentiable
def applied(h: Any, x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += h(x[i])
    return s


def parabola(x: Any, a: Any) -> Any:
    return a * x * x


def test_what_a_partial_holds_is_watched() -> None:
    given = functools.partial(power, a=2.0, n=3)
    of_power, inner = torch.differentiable(given), functools.partial(parabola, a=1.0)

    def step(x: Any) -> Any:
        return of_power(x * 1.0) + applied(inner, x)

    def make(k: int) -> Any:
        given.keywords["a"] = 2.0 + k // 5
        inner.keywords["a"] = 1.0 + k // 9
        return (leaf(k),)

    compiled = same(step, make, backward=True, calls=20)
    assert compiled.explain().graph_count > 1


def test_a_tensor_that_a_partial_holds() -> None:
    held = torch.tensor(2.0, dtype=torch.float64)
    of_power = torch.differentiable(functools.partial(power, a=held, n=2))

    def step(x: Any) -> Any:
        return of_power(x * 1.0)

    def make(k: int) -> Any:
        held.fill_(1.0 + k)
        return (leaf(k),)

    same(step, make, backward=True, calls=12)
