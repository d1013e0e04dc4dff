"""Methods and partials: what the object or the partial gives is an argument as any other, asked for at each call."""

import functools
import math
from typing import NamedTuple

import numpy as np
import pytest

import nbgrad
from nbgrad import differentiable, nn

pytestmark = pytest.mark.fast

X = np.array([1.0, 2.0, 3.0])


class Pair(NamedTuple):
    first: float
    second: float


class Ball:
    def __init__(self, rate: float) -> None:
        self.rate, self.table, self.pair = rate, np.array([1.0, 2.0]), Pair(0.5, 2.0)
        self.rule = math.tanh

    @differentiable
    def energy(self, x, k=2.0):
        s = 0.0
        for i in range(len(x)):
            s += self.rate * x[i] ** k + self.table[i % 2] * x[i] + self.pair.second
        return s

    @differentiable(wrt=("self.rate",))
    def slope(self, x):
        return self.rate * self.rate * x[0]

    def plain(this, x):
        return (this.rate * x * x).sum()

    def sets(self, x):
        self.rate = x[0]
        return x[0]

    def hands_on(self, x):
        return outside(self, x)

    def calls(self, x):
        return self.plain(x) * 2.0

    @staticmethod
    @differentiable
    def alone(x):
        return (x * x).sum()

    @classmethod
    def of(cls, x):
        return cls.factor * x[0] * x[0]

    factor = 3.0


def outside(ball, x):
    return ball.rate * x[0]


def power(x, a, n):
    return a * (x**n).sum()


def test_a_method_reads_attributes_at_each_call():
    ball = Ball(3.0)
    by_x, by_k = ball.energy.grad(X)
    np.testing.assert_allclose(by_x, 6.0 * X + [1.0, 2.0, 1.0])
    assert abs(by_k - 3.0 * sum(v * v * math.log(v) for v in X)) < 1e-12
    ball.rate = 5.0
    ball.table[0] = -1.0
    assert ball.energy(X) == 5.0 * 14 + (-1.0 + 4.0 - 3.0) + 6.0
    assert ball.energy.grad(X, wrt="self.rate") == 14.0
    assert ball.energy.grad(X, argnums=0).shape == (3,)
    assert ball.slope.grad(X) == (10.0,)
    assert Ball(1.0).energy._made is Ball(2.0).energy._made  # made once for the class
    assert ball.energy(X, k=3.0) == ball.energy(X, 3.0) != ball.energy(X)
    assert Ball.alone(X) == 14.0
    assert Ball.alone.grad(X, wrt="x").tolist() == [2.0, 4.0, 6.0]
    assert ball.energy.jvp((X,), (np.ones(3),))[1] == 5.0 * 12 + (-1.0 + 2.0 - 1.0)
    np.testing.assert_allclose(ball.energy.hessian(X, wrt="x"), 10.0 * np.eye(3))
    np.testing.assert_allclose(ball.energy.hvp((X,), (np.ones(3),))[0], [10.0] * 3)


def test_a_bound_method():
    ball = Ball(2.0)
    f = differentiable(ball.plain)
    assert f(X) == 28.0 and f.grad(X)[0].tolist() == [4.0, 8.0, 12.0]
    ball.rate = 1.0
    assert f(X) == 14.0 and f.grad(X, wrt="this.rate") == 14.0
    assert "this_rate * x" in f.primal_source(X)
    assert differentiable(Ball.of).grad(X, wrt="x")[0] == 6.0
    bound = functools.partial(ball.energy, k=3.0)
    assert differentiable(bound).grad(X)[0].tolist() == [4.0, 14.0, 28.0]


def test_tensors_of_an_object():
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(nbgrad.tensor([1.0, 2.0, 3.0]))

        @differentiable
        def forward(self, x):
            s = 0.0
            for i in range(len(x)):
                s += math.exp(-self.weight[i] * x[i])
            return s

    layer = Layer()
    x = nbgrad.tensor([0.1, 0.2, 0.3], requires_grad=True)
    layer(x).backward()
    want = (-layer.weight * x).exp().sum()
    grads = nbgrad.autograd.grad(want, (layer.weight, x))
    for mine, its in zip((layer.weight.grad, x.grad), grads):
        assert nbgrad.allclose(mine, its)


def test_a_method_in_a_compiled_function_sees_the_object():
    ball = Ball(1.0)

    def step(t):
        return ball.energy(t * 1.0) * 2.0

    compiled = nbgrad.compile(step)
    for k in range(12):
        ball.rate = 1.0 + k // 5
        assert compiled(nbgrad.tensor(X)).item() == step(nbgrad.tensor(X)).item()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("sets", "self.rate is written"),
        ("hands_on", "self is used as a whole"),
        ("calls", "self.plain is a method"),
    ],
)
def test_what_a_method_may_not_do(name, what):
    with pytest.raises(NotImplementedError, match=what):
        differentiable(getattr(Ball(1.0), name))(X)


def test_a_partial():
    given = functools.partial(power, a=2.0, n=3)
    f = differentiable(given)
    assert f(X) == 72.0
    assert [g.tolist() for g in f.grad(X)] == [[6.0, 24.0, 54.0]]  # what it holds is constant
    assert f.grad(X, wrt="a") == 36.0 and f.grad(X, argnums=0).tolist() == [6.0, 24.0, 54.0]
    assert f.value_and_grad(X, a=1.0)[0] == 36.0
    given.keywords["a"] = 7.0
    assert f(X) == 252.0 and f.grad(X)[0].tolist() == [21.0, 84.0, 189.0]
    given.keywords["a"] = 1  # an integer
    assert f(X) == 36.0
    first = differentiable(functools.partial(power, X))
    assert first(2.0, 2) == 28.0 and first.grad(2.0, 2) == (14.0,)
    assert first.grad(2.0, 2, wrt="x").tolist() == [4.0, 8.0, 12.0]
    assert first.jvp((2.0, 2), (1.0, None)) == (28.0, 14.0)
    with pytest.raises(TypeError):
        first(2.0, 2, x=X)
    held = nbgrad.tensor(2.0, dtype=nbgrad.float64, requires_grad=True)
    t = nbgrad.tensor(X, requires_grad=True)
    differentiable(functools.partial(power, a=held, n=2))(t).backward()
    assert held.grad == 14.0 and t.grad.tolist() == [4.0, 8.0, 12.0]


@differentiable
def applied(h, x):
    s = 0.0
    for i in range(len(x)):
        s += h(x[i])
    return s


def parabola(x, a, b=1.0):
    return a * x * x + b


def tabled(x, table, at):
    return x * table[at]


def test_a_partial_that_is_an_argument():
    h = functools.partial(parabola, a=2.0)
    assert applied(h, X) == 31.0
    assert [g.tolist() for g in applied.grad(h, X)] == [[4.0, 8.0, 12.0]]
    assert applied.grad(h, X, wrt="h") == 14.0
    h.keywords["a"] = 3.0
    assert applied(h, X) == 45.0 and applied.grad(h, X)[0].tolist() == [6.0, 12.0, 18.0]
    h.keywords["b"] = 2.0
    assert applied(h, X) == 48.0
    h.keywords["a"] = True
    assert applied(h, X) == 20.0
    table = np.array([2.0, 5.0])
    of_table = functools.partial(tabled, table=table, at=1)
    assert applied(of_table, X) == 30.0
    table[1] = 6.0
    assert applied(of_table, X) == 36.0
    assert applied.grad(of_table, X, wrt="h").tolist() == [0.0, 6.0]
    held, t = (nbgrad.tensor(v, dtype=nbgrad.float64, requires_grad=True) for v in (2.0, X))
    applied(functools.partial(parabola, a=held), t).backward()
    assert held.grad == 14.0 and t.grad.tolist() == [4.0, 8.0, 12.0]


def test_a_differentiable_with_arguments_is_called():
    ball = Ball(2.0)

    @differentiable
    def twice(x, f):
        return 2.0 * f(x)

    assert twice(X, ball.energy) == 2.0 * ball.energy(X)
    ball.rate = 4.0
    assert twice(X, ball.energy) == 2.0 * ball.energy(X)
    by_x = twice.grad(X, ball.energy)[0]
    np.testing.assert_allclose(by_x, 2.0 * ball.energy.grad(X, argnums=0))
