"""Small programs in which Python or NumPy mean something else than a first look says: values and gradients against the program itself."""

import math
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.kernels import functions

pytestmark = pytest.mark.fast

DRAW = np.random.default_rng(5)
X, M = DRAW.normal(size=4), DRAW.normal(size=(4, 3))


def numbers_of_and_and_or(x, n):
    s = 0.0
    for v in x:
        s += (v > 0 and math.sqrt(v)) or -v
    a = x[0] or 1.0
    b = (x[1] > 100) or x[2]
    c = n and x[3]
    d = (n - 2) or n or 5
    e = not n or (x[2] and n)
    k = 0
    while n and x[n] < 5 and k < 3:
        n -= 1
        k += 1
    return s + a * a + b * x[3] + c * d + e * x[0] * k


def sums_that_begin_with_something(x, m):
    s = sum((x[0], x[1]), x[2]) * sum([x[0], x[1]], start=5.0)
    s += sum(x, -1) * sum(x, x[1]) + sum(x)
    return s + sum(m)[1] * sum(m, 1)[0] * sum(m, m[2])[2]


def largest_of_nothing(x):
    a = max([], default=x[0])
    return a * max([x[0], x[1]], default=3.0) * min((x[2], x[3]))


def along_the_only_axis(x, m):
    s = x.sum(axis=0) * x.max(axis=-1) * x.prod(axis=0) + np.mean(x, axis=0) ** 2
    s += x.min(axis=0, keepdims=True)[0] + np.any(x > 0, axis=0) * x[0]
    s += np.max(m * 2, axis=1, keepdims=True)[1, 0] ** 2 + np.any(m > 0, axis=1).sum() * m[0, 0]
    return (
        s + np.prod(m * m, axis=0)[1] + (m * m).min(axis=0)[1] + np.all(m * m > 0.1, axis=0).sum() * m[1, 1]
    )


def logarithms_of_a_base(x):
    return math.log(abs(x[0]) + 1.0, 2) * math.log(abs(x[1]) + 1.0, abs(x[2]) + 2.0)


def sets_and_adds_at_other_places(x, m):
    y = np.zeros(len(x))
    w = np.zeros((3, 3))
    for k in range(3):
        for i in range(1, len(x)):
            y[i] = x[i] ** 2
            y[1] -= abs(m[0, k]) * x[0]
    for i in range(3):
        for j in range(3):
            w[i, j] = m[i, j] * x[i]
            w[j, i] = m[j, i] * x[j] ** 2
    return y[1] * y[2] + np.sum(y) + np.sum(w * m[:3])


def handed_on_and_read(x):
    s = x[0]
    y = np.zeros(len(x))
    for i in range(len(x)):
        t = s
        for k in range(len(x)):
            u = t
            y[k] += u * u * x[k]
            t = u
        s = t + x[i]
    return s + y.sum()


def copies_with_new_axes(x):
    y = x.copy()
    t = y[:, None].copy()
    t[0, 0] = 5.0
    u = y[:, None]
    s = u.sum()
    y[0] = 3.0 * x[1]
    return (y * x).sum() + t.sum() * s


def one_array_by_several_names(x):
    y = x.copy()
    z, u = np.asarray(y), y[...]
    z[0] = 3.0 * x[1]
    u[2] = x[0]
    w = np.array(y)
    w[1] = 9.0
    return (y * x).sum() + w[0] * w[1]


CASES: dict[Any, Any] = {
    numbers_of_and_and_or: (X, 2),
    sums_that_begin_with_something: (X, M),
    largest_of_nothing: (X,),
    along_the_only_axis: (X, M),
    logarithms_of_a_base: (X,),
    sets_and_adds_at_other_places: (X, M),
    handed_on_and_read: (X,),
    copies_with_new_axes: (X,),
    one_array_by_several_names: (X,),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_value_and_gradient(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)
    args = CASES[function]
    for policy in ("store", "rerun"):
        f = differentiable(function, policy=policy)
        value, grads = f.value_and_grad(*args)
        assert value == pytest.approx(function(*args), rel=1e-12)
        for k, g in enumerate(grads):
            for i in np.ndindex(*args[k].shape):
                ends = []
                for step in (1e-6, -1e-6):
                    given = [np.copy(a) if np.ndim(a) else a for a in args]
                    given[k][i] += step
                    ends.append(function(*given))
                assert g[i] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-6)


def written_through_a_new_axis(x):
    y = x.copy()
    t = y[None]
    t[0, 3] = x[2]
    return (y * x).sum()


def read_through_a_new_axis(x):
    y = x.copy()
    t = y[:, None]
    y[0] = x[1] * 3.0
    return t.sum()


def a_diagonal_that_changes(x):
    y = np.outer(x, x)
    d = np.diag(y)
    y[0, 0] = 7.0
    return d.sum()


@pytest.mark.parametrize(
    "function", [written_through_a_new_axis, read_through_a_new_axis, a_diagonal_that_changes]
)
def test_a_view_that_is_a_copy_here_is_refused(function: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"what is written here may be the array . as well"):
        differentiable(function)(X)


def test_the_largest_by_a_key_is_refused() -> None:
    def largest(x):
        return max(x[0], x[1], key=abs)

    with pytest.raises(NotImplementedError, match="max with key"):
        differentiable(largest)(X)


def scaled(x):
    """Of equals the spread is 0, and has no derivative."""
    return np.sum((x - x.mean()) * x / (np.std(x) + 0.5)) + np.nanstd(x * 0.0) + x.std() ** 2


@pytest.mark.parametrize("x", [np.full(4, 1.5), np.array([2.0]), np.full(3, 0.5, np.float32)])
def test_the_spread_of_equals_has_derivative_0(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)
    f, along = differentiable(scaled), np.arange(1.0, len(x) + 1).astype(x.dtype)
    assert f(x) == pytest.approx(scaled(x))
    np.testing.assert_allclose(f.grad(x)[0], np.zeros(len(x)), atol=1e-12)
    assert f.jvp((x,), (along,))[1] == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(f.hvp((x,), (along,))[0]).all()
    assert np.isnan(f(np.array([1.0, np.nan])))
