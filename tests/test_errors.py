"""Bad input: PyTorch's exception type and words, and nothing changed."""

from types import ModuleType
from typing import Any

import pytest

from tests.compare import array
from tests.errors import REFUSALS, Refusal
from tests.support import T

ROWS = pytest.mark.parametrize("row", REFUSALS.values(), ids=str)

# The warning comes after the gradient; the forward of a Function has run by the time its dirty marks are looked at.
CHANGES = {
    "backward with create_graph",
    "Function, marks a leaf dirty",
    "Function, dirty input not returned",
}


def state(names: dict[str, Any]) -> dict[str, Any]:
    """Value, version, flags and gradient of every tensor of the scene."""
    found = {}
    for name, value in names.items():
        if isinstance(value, T.Tensor):
            grad = array(value.grad).tolist() if value.is_leaf and value.grad is not None else None
            flags = (
                value._version,
                value.requires_grad,
                value.grad_fn is None,
                tuple(value.shape),
                str(value.dtype),
            )
            found[name] = array(value).tolist(), flags, grad
    return found


@ROWS
def test_refused_in_pytorchs_words(row: Refusal) -> None:
    names = row.scene(T)
    before = state(names)
    assert row.act(names) == row.text
    if row.name not in CHANGES:
        assert state(names) == before


@pytest.mark.oracle
@ROWS
def test_the_words_are_pytorchs(torch: ModuleType, row: Refusal) -> None:
    assert row.act(row.scene(torch)) == row.text


def test_an_error_leaves_no_trace_in_the_next_call() -> None:
    """The op functions keep per-signature state; a refused call must not leave any."""
    x = T.ones(3)
    with pytest.raises(RuntimeError):
        x + T.ones(4)
    assert (x + T.ones(3)).tolist() == [2.0, 2.0, 2.0]
    z = T.tensor([1, 0])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        T.tensor([4, 4]) // z
    assert (T.tensor([4, 4]) // T.tensor([2, 1])).tolist() == [2, 4]
