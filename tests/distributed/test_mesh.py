"""Grids of processes, and states that go by the bare model's names."""

from __future__ import annotations

import pytest

from tests.distributed.launching import NEEDED, passes
from tests.support import T

Mesh = T.distributed.device_mesh


@NEEDED[0]
@NEEDED[1]
def test_lines_of_a_grid_are_groups() -> None:
    assert passes(4, "on_mesh") == ""


def test_what_is_no_grid_is_refused() -> None:
    for shape, names, words in (
        ((1,), ("a", "b"), "same length"),
        ((1, 1), ("a", "a"), "must be unique"),
    ):
        with pytest.raises(RuntimeError, match=words):
            Mesh.init_device_mesh("cpu", shape, mesh_dim_names=names)
    with pytest.raises(RuntimeError, match="Device type with index"):
        Mesh.init_device_mesh("cuda:0", (1,))
