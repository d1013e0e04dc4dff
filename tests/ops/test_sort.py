"""Order: what the table of cases has no room for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbgrad as T


@pytest.mark.parametrize("order", ["random", "rising", "falling", "equal"])
def test_few_ranks_of_a_long_line(order: str) -> None:
    """They are kept in order as they are met, unless the line is such that this takes too long; equal elements of so long a line keep
    their order, but for those of `topk`, which keeps a heap."""
    drawn = np.random.default_rng(0).integers(0, 50, 5000).astype(np.float32)
    values = {"random": drawn, "rising": np.sort(drawn), "falling": -np.sort(-drawn), "equal": drawn * 0}[
        order
    ]
    values[17] = np.nan
    x = T.from_numpy(values)
    for largest in (True, False):
        ordered, places = x.sort(0, largest, stable=True)
        for k in (1, 5, 16, 17):
            top = x.topk(k, largest=largest)
            np.testing.assert_array_equal(top.values.numpy(), ordered[:k].numpy())
            np.testing.assert_array_equal(x[top.indices].numpy(), ordered[:k].numpy())
            assert len(set(top.indices.tolist())) == k
            if not largest:
                value, place = x.kthvalue(k)
                assert (value.item(), place.item()) == (ordered[k - 1].item(), places[k - 1].item())


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


def drawn_with_equals(n: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    values = rng.integers(0, int(rng.choice([2, 4, 20, 1000])), n)
    if kind == "sorted":
        values.sort()
    if kind == "organ pipes":  # which std::sort gives up on, to sort by a heap
        values = np.concatenate([np.arange(n // 2), np.arange(n - n // 2)[::-1]])
    return values


def places_of(x: Any, k: int) -> list[Any]:
    """Of calls that leave equals somewhere, what they give and where it came from."""
    return [
        x.topk(k, 0),
        x.topk(k, 0, largest=False),
        x.kthvalue(k, 0),
        x.sort(0),
        x.sort(0, descending=True),
        x.nan_to_num().mode(0),  # NaNs, which have no order, are sorted there as they come
        (x.argsort(stable=True, dim=0), x.argsort(0)),
    ]


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["int64", "float32", "uint8", "float64", "float16", "int32"])
def test_equals_stand_where_pytorch_leaves_them(dtype: str) -> None:
    import torch

    rng = np.random.default_rng(2)
    for n in (2, 3, 5, 16, 17, 33, 100, 500, 4096):
        for kind in ("random", "sorted", "organ pipes"):
            values = drawn_with_equals(n, kind, rng).astype(dtype)
            if dtype.startswith("float"):
                values[rng.random(n) < 0.1] = np.nan
                values[rng.random(n) < 0.1] *= -0.0
            for k in {1, max(n // 64, 1), max(n // 2, 1), n}:
                for x in (values, np.stack([values, values[::-1]], 1)):
                    for want, got in zip(places_of(torch.from_numpy(x), k), places_of(T.from_numpy(x), k)):
                        assert got[1].tolist() == want[1].tolist(), (n, kind, k)
                        np.testing.assert_array_equal(got[0].numpy(), want[0].numpy())
