"""Which arguments are taken, and that what was taken once does not stand for what only equals it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support import T

F = T.nn.functional


def test_what_was_taken_once_is_not_taken_for_what_equals_it() -> None:
    """True == 1 == 1.0, and what is known of a call is kept by its arguments."""
    x = T.ones(2, 2)
    for right, wrong in [
        (lambda: x.sum(1), lambda: x.sum(True)),
        (lambda: x.sum(0, True), lambda: x.sum(0, 1)),
        (lambda: F.layer_norm(x, (2,)), lambda: F.layer_norm(x, (2.0,))),
        (lambda: x.view(1, 4), lambda: x.view(1.0, 4)),
        (lambda: x.view((1, 4)), lambda: x.view((1.0, 4))),
        (lambda: x.transpose(0, 1), lambda: x.transpose(False, True)),
        (lambda: x.softmax(1), lambda: x.softmax(1.0)),
    ]:
        _twice(right, wrong)


def _twice(right: Callable[[], Any], wrong: Callable[[], Any]) -> None:
    first = right().tolist()
    for _ in range(2):
        with pytest.raises(TypeError):
            wrong()
        assert right().tolist() == first


def test_numbers_in_other_dresses_are_taken() -> None:
    x = T.arange(6).reshape(2, 3)
    assert x.sum(np.int64(1)).tolist() == x.sum(T.tensor(1)).tolist() == x.sum(1).tolist()
    assert x.sum([np.int32(0), T.tensor(1)]).item() == 15
    assert x.reshape(np.int64(3), T.tensor(2)).shape == x.reshape([T.tensor(3), np.int8(2)]).shape == (3, 2)


def test_positional_names_and_old_names_are_taken() -> None:
    x = T.tensor([[3, 1, 2]])
    assert T.sort(x, dim=1, descending=True, stable=True)[0].tolist() == [[3, 2, 1]]
    assert x.transpose(dim1=0, dim0=1).shape == T.transpose(input=x, dim0=0, dim1=1).shape == (3, 1)


def test_what_is_missing_is_counted_in_pytorchs_words() -> None:
    """One argument has the plural there, and several have not."""
    x = T.ones(2, 2)
    with pytest.raises(
        TypeError, match=r'^gather\(\) missing 2 required positional argument: "dim", "index"$'
    ):
        T.gather(x)
    with pytest.raises(TypeError, match=r'^gather\(\) missing 1 required positional arguments: "index"$'):
        T.gather(x, 0)


def test_what_is_given_by_name_has_no_position() -> None:
    """A refusal says it as PyTorch does, which knows how an argument came."""
    x = T.ones(2, 3)
    for again in range(2):  # the first call is also the one that writes the function
        with pytest.raises(TypeError, match=r"^softmax\(\): argument 'dim' must be int, not str$"):
            T.softmax(x, dim="a")
        with pytest.raises(
            TypeError, match=r"^softmax\(\): argument 'dim' \(position 2\) must be int, not str$"
        ):
            T.softmax(x, "a")
        with pytest.raises(TypeError, match=r"^bmm\(\): argument 'mat2' must be Tensor, not int$"):
            T.bmm(x, mat2=3)
        with pytest.raises(TypeError, match=r"got \(Tensor, dim=str\), but expected one of"):
            T.sum(x, dim="a")
        with pytest.raises(TypeError, match=r"got \(dim=str, \), but expected one of"):
            x.sort(dim="a")
        with pytest.raises(TypeError, match=r"got \(Tensor, Tensor, stride=str\), but expected one of"):
            T.nn.functional.conv2d(x[None, None], x[None, None], stride="a")
        with pytest.raises(TypeError, match=r"^cat\(\): argument 'dim' must be int, not str$"):
            T.cat([x, x] * (again + 1), dim="a")
