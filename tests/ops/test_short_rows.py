"""Rows too short for vectors along them: many together come to what each does alone, whoever shares them."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from tests.support import T

F = T.nn.functional

OPS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, g: x.sum(1),
    "mean": lambda x, g: x.mean(1),
    "amax": lambda x, g: x.amax(1),
    "max": lambda x, g: x.max(1).values,
    "argmax": lambda x, g: x.argmax(1),
    "logsumexp": lambda x, g: T.logsumexp(x, 1),
    "softmax": lambda x, g: T.softmax(x, 1),
    "log_softmax": lambda x, g: T.log_softmax(x, 1),
    "layer_norm": lambda x, g: F.layer_norm(x, x.shape[1:], T.arange(1.0, x.shape[1] + 1).to(x.dtype)),
    "cross_entropy": lambda x, g: F.cross_entropy(x, g, reduction="none"),
}


def inputs(n: int, dtype: Any) -> tuple[Any, Any]:
    x = np.random.default_rng(n).normal(size=(70, n)) * 3
    x[1], x[2], x[3, 0], x[4, -1], x[5, n // 2] = -inf, inf, nan, inf, -inf
    return T.tensor(x, dtype=dtype), T.tensor(np.arange(70) % n)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 33])
@pytest.mark.parametrize("dtype", [T.float32, T.float64])
def test_many_rows_are_each_as_alone(name: str, n: int, dtype: Any) -> None:
    x, at = inputs(n, dtype)
    whole, alone = x.clone().requires_grad_(), x.clone().requires_grad_()
    got = OPS[name](whole, at)
    want = T.cat([OPS[name](alone[k : k + 1], at[k : k + 1]) for k in range(len(x))])
    # Sums may be taken in another order, of numbers whose sizes add up to some 40.
    close = dict(rtol=8 * T.finfo(dtype).eps, atol=64 * T.finfo(dtype).eps, equal_nan=True)
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), **close)
    if got.requires_grad:
        weights = T.tensor(np.random.default_rng(1).normal(size=tuple(got.shape)), dtype=dtype)
        got.backward(weights)
        want.backward(weights)
        close["atol"] *= 8
        close["rtol"] *= 8
        np.testing.assert_allclose(whole.grad.numpy(), alone.grad.numpy(), **close)


@pytest.mark.parametrize("inner", [2, 5, 15])
def test_short_rows_along_another_dimension(inner: int) -> None:
    x = T.tensor(np.random.default_rng(0).normal(size=(30, 6, inner)), dtype=T.float64)
    for op in (T.softmax, T.log_softmax):
        beside, last = x.clone().requires_grad_(), x.clone().requires_grad_()
        got, want = op(beside, 1), op(last.transpose(1, 2).contiguous(), 2).transpose(1, 2)
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-14)
        (got * x).sum().backward()
        (want * x).sum().backward()
        np.testing.assert_allclose(beside.grad.numpy(), last.grad.numpy(), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", OPS)
def test_no_bit_depends_on_who_shares_the_rows(name: str) -> None:
    x = T.tensor(np.random.default_rng(0).normal(size=(50_001, 7)), dtype=T.float32)
    at, before = T.tensor(np.arange(len(x)) % 7), T.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            T.set_num_threads(threads)
            found.append(OPS[name](x, at).numpy().tobytes())
    finally:
        T.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(8192, 3), (2731, 3), (4096, 2), (2003, 5), (50_000, 4), (64, 32, 8)])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int32", "bool"])
def test_narrow_columns_are_what_numpy_says(shape: tuple[int, ...], kind: str) -> None:
    """Rows are folded to more columns, as many as divide them."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=shape) * 3 if kind[0] == "f" else rng.integers(0, 2, shape)).astype(kind)
    dims, t = tuple(range(x.ndim - 1)), T.from_numpy(x)
    exact = x.astype(np.float64) if kind[0] == "f" else x
    size = np.abs(exact).sum(dims)  # what a sum's error is measured by
    eps = {"float32": 1e-6, "float64": 1e-15, "float16": 1e-3}.get(kind, 0)
    assert (np.abs(t.sum(dims).numpy() - exact.sum(dims)) <= eps * size).all()
    if kind[0] == "f":
        assert (np.abs(t.mean(dims).numpy() - exact.mean(dims)) <= eps * size).all()
    assert np.array_equal(t.amax(dims).numpy(), x.max(dims))
    assert np.array_equal(T.all(t, dims).numpy(), x.all(dims))
    assert np.array_equal(T.any(t[..., :1], dims).numpy(), x[..., :1].any(dims))
    if kind[0] == "f":
        x[(-1,) * x.ndim] = nan
        assert np.isnan(t.amin(dims).numpy()).tolist() == [False] * (shape[-1] - 1) + [True]


def test_sums_of_narrow_columns_do_not_depend_on_threads() -> None:
    x, before = (
        T.tensor(np.random.default_rng(0).normal(size=(300_000, 3)), dtype=T.float32),
        T.get_num_threads(),
    )
    try:
        found = []
        for threads in (1, 3):
            T.set_num_threads(threads)
            found.append(x.sum(0).numpy().tobytes())
    finally:
        T.set_num_threads(before)
    assert found[0] == found[1]
