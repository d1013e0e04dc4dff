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
