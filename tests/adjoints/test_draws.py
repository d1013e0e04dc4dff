"""np.random inside: numbers as Numba draws them, and gradients of those that were drawn."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import Any

import numba
import numpy as np
import pytest

import nbgrad as torch
from nbgrad import differentiable
from nbgrad.adjoints import Refused
from nbgrad.adjoints.analyse import POLICIES

pytestmark = pytest.mark.slow  # as they are compiled


@numba.njit
def seed(k):
    np.random.seed(k)


def paths(s0, mu, sigma, n, steps):
    total = 0.0
    for _ in range(n):
        s = s0
        for _ in range(steps):
            s += mu * s * 0.1 + sigma * s * np.random.normal() * 0.3
            if s < 0.5:
                break
        if np.random.random() < 0.5:
            total += max(s - 1.0, 0.0)
        else:
            total += np.random.normal(mu, sigma) * s
    return total / n


def arrays(a, n):
    z = np.random.normal(0.0, a, n)
    u = np.random.uniform(-a, a, size=(n, 2))
    np.random.standard_normal()  # which nobody reads
    r = np.random.rand(n) * np.random.exponential(a)
    k, j = np.random.randint(0, n), np.random.randint(0, n, 3)
    return z[k] + u.sum() + np.sum(r * z) + np.random.lognormal(a, 0.1) + u[j, 0].sum()


def stopped(a):
    s, k = a, 0
    while np.random.random() < 0.8 and k < 20:
        s, k = s * 0.9 + a * np.random.exponential(a), k + 1
    return s * k


def seeded(a):
    np.random.seed(3)
    for _ in range(2):
        a = a * np.random.normal() + np.random.random()
    return a


def of(f: Any, *args: Any) -> Any:
    seed(5)
    return f(*args)


@pytest.mark.parametrize("policy", [*POLICIES, ("steps", 2), ("revolve", 2)])
def test_gradients_are_of_what_was_drawn(policy: Any) -> None:
    f, args, along = differentiable(paths, policy=policy), (1.0, 0.2, 0.4, 6, 5), (1.0, 0.5, -0.3)
    value, grads = of(f.value_and_grad, *args)
    assert value == of(f, *args) == of(numba.njit(paths), *args)
    for k in range(3):
        ends = [of(f, *(a + h * (j == k) for j, a in enumerate(args[:3])), 6, 5) for h in (1e-6, -1e-6)]
        assert grads[k] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
    _, moved = of(f.jvp, args, (*along, None, None))
    assert moved == pytest.approx(np.dot(grads, along), rel=1e-12)


def test_second_derivatives_and_others() -> None:
    f, args = differentiable(paths), (1.0, 0.2, 0.4, 6, 5)
    along = np.array([1.0, 0.5, -0.3])
    rows = of(lambda: f.hessian(*args))
    np.testing.assert_allclose(np.array(rows) @ along, of(f.hvp, args, (*along, None, None)), rtol=1e-12)
    np.testing.assert_allclose(of(lambda: f.jacobian(*args)), of(lambda: f.grad(*args)), rtol=1e-12)
    assert f.memory(*args).total > 0
    assert "np.random.standard_normal()" in f.primal_source(*args)


def test_arrays_of_draws() -> None:
    f = differentiable(arrays)
    value, (by_a,) = of(f.value_and_grad, 0.7, 4)
    assert value == pytest.approx(of(numba.njit(arrays), 0.7, 4), rel=1e-14)
    assert value == pytest.approx(of(f, 0.7, 4), rel=1e-14)
    assert by_a == pytest.approx((of(f, 0.7 + 1e-6, 4) - of(f, 0.7 - 1e-6, 4)) / 2e-6, rel=1e-6)


def test_draws_in_a_test() -> None:
    f = differentiable(stopped)
    value, (by_a,) = of(f.value_and_grad, 0.8)
    assert value == of(f, 0.8) == of(numba.njit(stopped), 0.8)
    assert by_a == pytest.approx((of(f, 0.8 + 1e-6) - of(f, 0.8 - 1e-6)) / 2e-6, rel=1e-6)


def test_a_seed_inside() -> None:
    f = differentiable(seeded)
    assert f(2.0) == f(2.0) == numba.njit(seeded)(2.0) == f.value_and_grad(2.0)[0]
    assert f.grad(2.0)[0] == pytest.approx((f(3.0) - f(2.0)), rel=1e-12)


def other(a):
    return a * np.random.gamma(a)


def test_what_is_refused() -> None:
    with pytest.raises(Refused, match=r"np.random.gamma \(draw before, and pass it as an argument\)"):
        differentiable(other)(1.0)
    with pytest.raises(Refused, match="draws numbers, which is not taken inside vmap"):
        torch.func.vmap(differentiable(seeded))(torch.ones(2))


def written(x, a, out):
    for k in range(len(x)):
        out[k] = x[k] * a + np.random.normal() * abs(x[k])
    return out.sum()


def test_on_the_tape() -> None:
    f = differentiable(paths)
    given = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (1.0, 0.1, 0.2)]
    y = of(f, *given, 50, 10)
    value, by = of(f.value_and_grad, 1.0, 0.1, 0.2, 50, 10)
    assert y.item() == value
    first = torch.autograd.grad(y, given, create_graph=True)
    assert [g.item() for g in first] == pytest.approx(by, rel=1e-12)
    # Of the same numbers, though many more were drawn since.
    (second,) = torch.autograd.grad(first[2], given[2])
    step = 1e-6
    ahead, behind = (of(f.grad, 1.0, 0.1, 0.2 + h, 50, 10)[2] for h in (step, -step))
    assert second.item() == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)
    along = of(torch.func.jvp, lambda s: f(s, 0.1, 0.2, 50, 10), (given[0],), (torch.ones_like(given[0]),))
    assert along[1].item() == pytest.approx(by[0], rel=1e-12)


def test_what_is_written_on_the_tape() -> None:
    f = differentiable(written)
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    out, same = np.zeros(4), np.zeros(4)
    of(f, x, 2.0, out).backward()
    seed(5)
    slopes = f.grad(x.detach().numpy(), 2.0, same, wrt="x")
    assert out.tolist() == same.tolist() and out.any()
    assert x.grad.tolist() == pytest.approx(slopes, rel=1e-12)


def test_a_compiled_step_draws_each_time() -> None:
    drawn = differentiable(lambda a: a * np.random.random())
    step = torch.compile(lambda a: drawn(a) * 2)
    with pytest.warns(UserWarning, match="a value is read"):
        assert len({step(torch.tensor(2.0)).item() for _ in range(3)}) == 3
