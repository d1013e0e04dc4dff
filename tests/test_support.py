"""The tests' own instruments: each finds what it is there to find."""

import importlib
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same, outcome
from tests.support import T, as_torch

ONE = [1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: T.tensor([1.0, 2.1, 0.0]),
        lambda: T.tensor([1.0, float("nan"), 0.0]),
        lambda: T.tensor(ONE, dtype=T.float64),
        lambda: T.tensor([1.0, 2.0]),
        lambda: T.tensor([ONE]),
        lambda: T.tensor([1.0, 2.0, -0.0]),
        lambda: ONE,
        lambda: (T.tensor(ONE), T.tensor(ONE)),
        lambda: "RuntimeError: no",
    ],
)
def test_a_difference_is_found(wrong: Any) -> None:
    assert_same(T.tensor(ONE), T.tensor(ONE), "equal", signs=True)
    with pytest.raises(AssertionError):
        assert_same(wrong(), T.tensor(ONE), "different", signs=True)


def test_an_outcome_keeps_type_and_text() -> None:
    assert outcome(lambda: np.zeros(3)[7]).startswith("IndexError: index 7")


def test_the_stand_in_is_the_module_itself() -> None:
    with as_torch(T):
        assert importlib.import_module("torch") is T
        functional = importlib.import_module("torch.nn.functional")
        assert functional is T.nn.functional
        assert importlib.import_module("torch.autograd").grad is T.autograd.grad
    assert functional.__spec__ is not None
    assert functional.__spec__.name == f"{T.__name__}.nn.functional"
