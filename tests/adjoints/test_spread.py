"""Functions that are `differentiable`, called in the body of an elementwise function."""

import math

import numpy as np
import pytest

import nbgrad as T
from nbgrad.adjoints import Refused


@T.differentiable
def huber(x, a):
    if abs(x) <= a:
        return 0.5 * x * x
    return a * (abs(x) - 0.5 * a)


@T.differentiable
def series(x, n):
    """Of the exponential function."""
    terms = np.empty(n)
    terms[0] = 1.0
    for k in range(1, n):
        terms[k] = terms[k - 1] * x / k
    total = 0.0
    for v in terms:
        total += v
    return total


@T.differentiable
def several(x):
    return math.sin(x), max(x, 0.3) ** 3


@T.differentiable
def searched(x):
    while x > 1.0:
        x = x / 2.0
    return x


def test_branches() -> None:
    @T.elementwise
    def loss(x, a):
        return huber(x, a) + 0.1 * T.sin(x) if False else huber(x, a) * 2.0

    x = T.tensor([-3.0, -0.2, 0.5, 4.0], dtype=T.float64, requires_grad=True)
    y = loss(x, 1.0)
    theirs = x.detach().clone().requires_grad_()
    expected = 2.0 * T.nn.functional.huber_loss(theirs, T.zeros(4, dtype=T.float64), reduction="none")
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy())
    y.sum().backward()
    expected.sum().backward()
    assert x.grad is not None and theirs.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), theirs.grad.numpy())
    assert T.autograd.gradcheck(
        lambda x, a: loss(x, a), (x, T.tensor(0.9, dtype=T.float64, requires_grad=True))
    )


def test_loops_and_arrays_are_written_out() -> None:
    @T.elementwise
    def grown(x):
        return series(x, 12)

    x = T.linspace(-1, 1, 5, dtype=T.float64).requires_grad_()
    np.testing.assert_allclose(grown(x).detach().numpy(), np.exp(x.detach().numpy()), rtol=1e-8)
    assert T.autograd.gradcheck(grown, (x,)) and T.autograd.gradgradcheck(grown, (x,))


def test_several_results() -> None:
    @T.elementwise
    def product(x):
        a, b = several(x)
        return a * b

    x = T.tensor([0.1, 0.5, 1.5], dtype=T.float64, requires_grad=True)
    np.testing.assert_allclose(
        product(x).detach().numpy(), np.sin([0.1, 0.5, 1.5]) * np.maximum([0.1, 0.5, 1.5], 0.3) ** 3
    )
    assert T.autograd.gradcheck(product, (x,))


def test_what_is_decided_while_it_runs_is_refused() -> None:
    @T.elementwise
    def found(x):
        return searched(x)

    with pytest.raises(
        Refused, match=r"searched\(\) in an elementwise function: a loop whose turns are not known"
    ):
        found(T.ones(3))
