"""Gradients through collectives are those of one program with all tensors."""

from __future__ import annotations

import pytest

from tests.distributed.launching import NEEDED, passes

pytestmark = NEEDED


@pytest.mark.parametrize("ranks", [2, 3])
def test_gradients_of_every_order(ranks: int) -> None:
    assert passes(ranks, "on_tape", "gradients") == ""


def test_norms_by_the_batch_of_all() -> None:
    assert passes(2, "on_tape", "norms") == ""
