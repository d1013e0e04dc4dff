"""Order: what the table of cases has no room for."""

from __future__ import annotations

import numpy as np
import pytest

import nbgrad as T


@pytest.mark.parametrize("order", ["random", "rising", "falling", "equal"])
@pytest.mark.parametrize("largest", [True, False])
def test_few_ranks_of_a_long_line(order: str, largest: bool) -> None:
    """They are kept in order as they are met, unless the line is such that this takes too long; equal elements keep their order."""
    drawn = np.random.default_rng(0).integers(0, 50, 400).astype(np.float32)
    values = {"random": drawn, "rising": np.sort(drawn), "falling": -np.sort(-drawn), "equal": drawn * 0}[
        order
    ]
    values[17] = np.nan
    x = T.from_numpy(values)
    ordered, places = x.sort(0, largest, stable=True)
    for k in (1, 5, 16, 17):
        got = x.topk(k, largest=largest)
        np.testing.assert_array_equal(got.values.numpy(), ordered[:k].numpy())
        assert got.indices.tolist() == places[:k].tolist()


@pytest.mark.parametrize("way", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_a_quantile_that_leaves_no_record(way: str, dim: int | None) -> None:
    """Is the very one that leaves a record: of lines with NaN, with infinities, and of ranks that are whole."""
    drawn = np.random.default_rng(1).normal(size=(4, 5, 3)).astype(np.float32)
    drawn[0, 1, 0], drawn[2, 2, 2], drawn[1, :, 1] = np.nan, np.inf, -np.inf
    x, recorded = T.from_numpy(drawn), T.from_numpy(drawn).requires_grad_()
    for q in (0.1, 0.25, 0.5, 1.0):
        for keepdim in (False, True):
            want = recorded.quantile(q, dim, keepdim, interpolation=way)
            for _ in range(3):
                got = x.quantile(q, dim, keepdim, interpolation=way)
                assert got.shape == want.shape and got.stride() == want.stride()
                np.testing.assert_array_equal(got.numpy(), want.detach().numpy())


def test_slopes_that_leave_no_record() -> None:
    drawn = np.random.default_rng(2).normal(size=(4, 5, 3))
    x, recorded = T.from_numpy(drawn), T.from_numpy(drawn).requires_grad_()
    for spacing in (1, 0.3):
        for dim in (None, 0, 2):
            want = T.gradient(recorded, spacing=spacing, dim=dim)
            for _ in range(3):
                for got, each in zip(T.gradient(x, spacing=spacing, dim=dim), want, strict=True):
                    assert got.stride() == each.stride()
                    np.testing.assert_array_equal(got.numpy(), each.detach().numpy())
