"""Ops of one tensor, factories and fills keep what a call came to: a later call that only looks like it must not get that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nbgrad as T


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda x: x.sum(1), lambda x: x.sum(1.0)),
        (lambda x: x.cumsum(1), lambda x: x.cumsum(True)),
        (lambda x: T.zeros(2, 1), lambda x: T.zeros((2, 1.0))),
        (lambda x: T.zeros(1), lambda x: T.zeros(1.0)),
    ],
)
def test_equal_settings_of_another_type_are_refused(
    first: Callable[[Any], Any], second: Callable[[Any], Any]
) -> None:
    x = T.ones(2, 3)
    first(x), first(x)
    with pytest.raises(TypeError):
        second(x)


def test_a_bool_is_no_dimension() -> None:
    x = T.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert x.var(1).tolist() == [0.5, 4.5]
    assert x.var(True).item() == pytest.approx(14 / 3)
    assert x.var(1).tolist() == [0.5, 4.5]


def test_modes_and_transforms_are_seen_after_a_call_was_kept() -> None:
    x = T.tensor([[1.0, 5.0], [7.0, 2.0]])
    for _ in range(2):
        assert x.max(1).values.grad_fn is None
        y = x.clone().requires_grad_()
        got = y.max(1)
        assert got.values.requires_grad and not got.indices.requires_grad
        with T.no_grad():
            assert not y.softmax(1).requires_grad
        with T.inference_mode():
            assert y.softmax(1).is_inference()
        mapped = T.vmap(lambda row: row.max(0))(x)
        assert mapped.values.tolist() == [5.0, 7.0] and type(mapped) is type(got)
        got.values.sum().backward()
        assert y.grad.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_a_saved_result_that_was_written_to_is_refused() -> None:
    for _ in range(2):
        y = T.ones(3, requires_grad=True).softmax(0)
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_all_elements_of_what_has_gaps() -> None:
    x = T.tensor([3.0, 9.0, 1.0, 8.0, 5.0, 9.5])[::2]
    assert (x.argmax().item(), x.argmin().item(), x.median().item(), x.nanmedian().item()) == (2, 1, 3.0, 3.0)


def test_a_new_default_dtype_is_seen() -> None:
    assert T.zeros(2).dtype is T.float32
    T.set_default_dtype(T.float64)
    try:
        assert T.zeros(2).dtype is T.full((2,), 1.0).dtype is T.rand(2).dtype is T.float64
    finally:
        T.set_default_dtype(T.float32)
    assert T.zeros(2).dtype is T.float32


def test_one_long_line() -> None:
    """Cut into runs, the last one shorter."""
    values = np.random.default_rng(0).normal(size=70_000).astype(np.float32)
    x, exact = T.from_numpy(values), values.astype(np.float64)
    assert x.logsumexp(0).item() == pytest.approx(np.log(np.exp(exact).sum()), rel=1e-7)
    # What is lost is a part of what was added, not of what is left: which part depends on how many elements a register has.
    lost = 2e-9 * np.abs(exact).sum()
    assert x.sum().item() == pytest.approx(exact.sum(), abs=lost)
    assert x.amax().item() == values.max()
    assert x[::2].sum().item() == pytest.approx(exact[::2].sum(), abs=lost)
    assert T.full((70_000,), -np.inf).logsumexp(0).item() == -np.inf


def test_few_long_columns() -> None:
    """Cut into runs of rows, the last one shorter."""
    values = np.random.default_rng(0).normal(size=(9_001, 9)).astype(np.float32)
    x, exact = T.from_numpy(values), values.astype(np.float64)
    np.testing.assert_allclose(x.sum(0).numpy(), exact.sum(0), rtol=1e-5)
    assert x.amax(0).tolist() == values.max(0).tolist()
    assert x.expand(3, -1, -1).sum((0, 1)).shape == (9,)
    values[5000, 3] = np.nan
    assert np.isnan(x.amax(0).numpy()).tolist() == [k == 3 for k in range(9)]


def test_running_sums_of_a_long_line() -> None:
    values = np.arange(70_001, dtype=np.int32)
    x = T.from_numpy(values)
    assert x.cumsum(0).tolist() == values.cumsum(dtype=np.int64).tolist()
    y = x.double().requires_grad_()
    y.cumsum(0).sum().backward()
    assert y.grad.tolist() == (values[::-1] + 1.0).tolist()
    x = T.arange(24.0).reshape(8, 3, 1)
    assert x.cumprod(2).tolist() == x.cumsum(2).tolist() == x.tolist()  # lines of one element


def test_products_of_many() -> None:
    values = np.random.default_rng(0).uniform(0.99, 1.01, 70_001).astype(np.float32)
    x, exact = T.from_numpy(values), values.astype(np.float64)
    assert x.prod().item() == pytest.approx(exact.prod(), rel=1e-3)
    np.testing.assert_allclose(x[:1000].cumprod(0).numpy(), exact[:1000].cumprod(), rtol=1e-6)
    x = T.cat([T.full((100,), 0.5), T.full((100,), 2.0)])
    assert x.prod() == 1.0  # which passes through what no float32 holds


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 4, 4), (0, 3), (3, 0), (2, 0, 3, 2)])
def test_triangles_of_all_layouts(shape: tuple[int, ...]) -> None:
    values = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    for x in (T.tensor(values), T.tensor(values.mT.copy()).mT, T.tensor(values, dtype=T.int8)):
        for k in (-(2**62), -3, -1, 0, 1, 2, 2**62):
            near = max(-9, min(k, 9))
            assert np.array_equal(x.tril(k).numpy(), np.tril(values, near))
            assert np.array_equal(x.triu(k).numpy(), np.triu(values, near))
            assert x.tril(k).is_contiguous()


def test_a_kept_call_knows_settings_apart() -> None:
    x = T.arange(6.0).view(2, 3)
    for _ in range(2):
        assert x.flip(0).tolist() == [[3, 4, 5], [0, 1, 2]]
        assert x.flip(1).tolist() == x.flip([1]).tolist() == x.flip(-1).tolist() == [[2, 1, 0], [5, 4, 3]]
        assert x.flip(()).tolist() == x.tolist()
        assert x.repeat(1, 2).shape == (2, 6) and x.repeat(2, 1).shape == (4, 3)
        assert x.repeat((2, 1)).shape == (4, 3) and x.repeat(0, 2).shape == (0, 6)
        assert x.diag(1).tolist() == [1, 5] and x.diag().tolist() == [0, 4]
        with pytest.raises(TypeError):
            x.flip(1.0)
        with pytest.raises(TypeError):
            x.tril(1.0)
        with pytest.warns(UserWarning, match="without specifying the dim"):
            T.cross(x, x)


def test_cross_of_what_broadcasts_and_of_examples() -> None:
    a, b = T.arange(12.0).view(4, 3), T.tensor([[1.0, -2.0, 5.0]])
    want = np.cross(a.numpy(), b.numpy())
    assert np.array_equal(T.linalg.cross(a, b).numpy(), want)
    assert np.array_equal(T.linalg.cross(a.t(), b.t(), dim=0).numpy(), want.T)
    each = T.vmap(T.linalg.cross, in_dims=(0, None))(a, b[0])
    assert np.array_equal(each.numpy(), want)
    assert T.linalg.cross(T.ones(0, 3), T.ones(1, 3)).shape == (0, 3)
