"""What is asked for: of which parameters, in which order, along what; and the same program behind value, adjoint and tangent."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.kernels import functions


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)


@differentiable
def weighted(x, y):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * y[i] * y[i]
    return s


@differentiable
def of_a_pair(p, q):
    return p[0] * p[1] * p[1] * q


X, Y = np.array([1.0, 2.0, 3.0]), np.array([3.0, 5.0, 7.0])


@pytest.mark.fast
@pytest.mark.parametrize("asked", [{"wrt": ("y", "x")}, {"argnums": (1, 0)}, {"argnums": (-1, -2)}])
def test_gradients_stand_in_the_order_that_was_asked_for(asked: dict[str, Any], plain: None) -> None:
    by_y, by_x = weighted.grad(X, Y, **asked)
    np.testing.assert_allclose(by_x, Y * Y)
    np.testing.assert_allclose(by_y, 2 * X * Y)
    _, (by_y, by_x) = weighted.vjp(X, Y, seeds=2.0, **asked)
    np.testing.assert_allclose(by_x, 2 * Y * Y)
    by_y, by_x = weighted.jacobian(X, Y, **asked)
    np.testing.assert_allclose(by_x, Y * Y)
    if "wrt" in asked:
        along_y, along_x = weighted.hvp((X, Y), (np.ones(3), None), **asked)
        np.testing.assert_allclose(along_y, 2 * Y)
        np.testing.assert_allclose(along_x, 0)
        (yy, yx), (xy, xx) = weighted.hessian(X, Y, **asked)
        np.testing.assert_allclose(yy, np.diag(2 * X))
        np.testing.assert_allclose(yx, np.diag(2 * Y))
        np.testing.assert_allclose(xy, np.diag(2 * Y))
        np.testing.assert_allclose(xx, 0)


@pytest.mark.fast
def test_the_decorator_names_an_order(plain: None) -> None:
    by_y, by_x = differentiable(weighted.function, wrt=("y", "x")).grad(X, Y)
    np.testing.assert_allclose(by_x, Y * Y)
    np.testing.assert_allclose(by_y, 2 * X * Y)


@pytest.mark.fast
def test_a_tuple_has_a_gradient_for_each_part(plain: None) -> None:
    given = (2.0, 3.0), 5.0
    for asked in ({"wrt": "p"}, {"argnums": 0}):
        assert of_a_pair.grad(*given, **asked) == (45.0, 60.0)
        assert of_a_pair.jacobian(*given, **asked) == (45.0, 60.0)
    assert of_a_pair.grad(*given, wrt="q") == 18.0
    assert of_a_pair.grad(*given, wrt=("q", "p")) == (18.0, 45.0, 60.0)
    assert of_a_pair.hessian(*given, wrt="p") == ((0.0, 30.0), (30.0, 20.0))


@pytest.mark.fast
def test_a_part_of_a_tuple_stays(plain: None) -> None:
    given = (2.0, 3.0), 5.0
    assert of_a_pair.jvp(given, ((None, 1.0), None))[1] == 60.0
    assert of_a_pair.jvp(given, ((1.0, None), None))[1] == 45.0
    assert of_a_pair.jvp(((2, 3.0), 5.0), ((None, 1.0), None))[1] == 60.0
    assert of_a_pair.hvp(given, ((None, 1.0), None)) == (30.0, 20.0, 12.0)
    with pytest.raises(TypeError, match=r"p has 2 parts, and its tangent is \(1.0,\)"):
        of_a_pair.jvp(given, ((1.0,), None))
    with pytest.raises(TypeError, match=r"p has 2 parts, and its tangent is 1.0"):
        of_a_pair.hvp(given, (1.0, None))


@pytest.mark.fast
def test_defaults_stay(plain: None) -> None:
    @differentiable
    def scaled(x, scale=2.0, *, power=3):
        return scale * x**power

    assert scaled.jvp((2.0,), (1.0,)) == (16.0, 24.0)
    assert scaled.jvp((2.0, 3.0), (1.0, 1.0)) == (24.0, 44.0)
    with pytest.raises(TypeError, match="1 arguments and 2 tangents"):
        scaled.jvp((2.0,), (1.0, 1.0))
    with pytest.raises(TypeError, match="1 arguments and 2 tangents"):
        scaled.hvp((2.0,), (1.0, 1.0))


def test_a_seed_of_another_shape_is_refused() -> None:
    @differentiable
    def doubled(x):
        return 2 * x, x[0]

    for seed in (np.ones(2), np.ones(1), np.ones(4)):
        with pytest.raises(ValueError, match=rf"result 0 has shape \({len(seed)},\), and the result \(3,\)"):
            doubled.vjp(X, seeds=(seed, 1.0))
    np.testing.assert_allclose(doubled.vjp(X, seeds=(1.0, 0.0))[1][0], 2)


@pytest.mark.fast
def test_a_jacobian_of_nothing(plain: None) -> None:
    @differentiable
    def product(m, x):
        return m @ x, x.sum()

    (by_m, by_x), (_, of_sum) = product.jacobian(np.zeros((0, 3)), X)
    assert by_m.shape == (0, 0, 3) and by_x.shape == (0, 3)
    np.testing.assert_allclose(of_sum, 1)


@pytest.mark.fast
def test_names_of_the_module_are_as_they_were_first(plain: None) -> None:
    rate, table, box = 2.0, np.array([3.0, 4.0]), types.SimpleNamespace(k=5.0)

    def helped(v):
        return v * rate

    def function(x):
        return helped(x) * table[0] * box.k

    f, later = differentiable(function), differentiable(function)
    assert f(1.0) == 30.0
    rate, table[0], box.k = 7.0, 11.0, 13.0
    assert f.value_and_grad(1.0) == (30.0, (30.0,)) and f.jvp((1.0,), (1.0,)) == (30.0, 30.0)
    assert f(np.float32(1.0)) == 30.0 and f(1) == 30.0
    assert later.value_and_grad(1.0) == (1001.0, (1001.0,)) and later(1.0) == 1001.0


@differentiable
def scaled_in_place(y, x):
    for i in range(len(y)):
        y[i] = y[i] * x[i]


@pytest.mark.fast
def test_tangents_of_arrays_that_are_written(plain: None) -> None:
    values, (by,) = scaled_in_place.jvp((X.copy(), Y), (np.ones(3), np.ones(3)))
    assert values == ()
    np.testing.assert_allclose(by, X + Y)
    np.testing.assert_allclose(scaled_in_place.jvp((X.copy(), Y), (None, np.ones(3)))[1][0], X)
    with pytest.raises(
        TypeError, match=r"scaled_in_place\(\) gives nothing, so it has no jacobian \(use vjp\)"
    ):
        scaled_in_place.jacobian(X.copy(), Y)


@pytest.mark.fast
def test_elements_that_share_memory_are_not_written(plain: None) -> None:
    memory = np.ones(6)
    as_strided = np.lib.stride_tricks.as_strided
    for laps in (as_strided(memory, (3,), (0,)), as_strided(memory, (3, 2), (8, 8))[:, 0:2]):
        with pytest.raises(ValueError, match="y is written and has elements that share memory"):
            scaled_in_place(laps, np.ones(3))
    for apart in (memory[::-2], memory.reshape(3, 2).T[1], np.ones((3, 2, 5))[::-1, 1, ::2].T[0]):
        scaled_in_place(apart, Y)
    np.testing.assert_allclose(memory, [1, 21, 1, 25, 1, 21])


@pytest.mark.fast
def test_a_bar_lies_as_what_it_is_of(plain: None) -> None:
    adjoint, tangent = weighted.adjoint(X, Y), weighted.tangent(X, Y)
    bars = np.zeros(8)
    for short in (bars[:2], bars[:4]):
        with pytest.raises(ValueError, match=rf"yb has shape \({len(short)},\), and y \(3,\)"):
            adjoint(X, Y, np.zeros(3), short, 1.0)
        with pytest.raises(ValueError, match="has shape"):
            tangent(X, Y, short, np.ones(3))
    assert not bars.any()
    with pytest.raises(TypeError, match="xb is an array of int64; float32 and float64 are taken"):
        adjoint(X, Y, np.zeros(3, np.int64), np.zeros(3), 1.0)
