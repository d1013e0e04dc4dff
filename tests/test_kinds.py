"""Some arguments of a wrong kind; `python -m tests.kinds` goes through all functions."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.kinds import KINDS, Call, held, judge
from tests.support import T

F = T.nn.functional


def call(path: str, *args: Any, method: bool = False, **kwargs: Any) -> Call:
    return Call(path, method, tuple(map(held, args)), tuple((k, held(v)) for k, v in kwargs.items()))


X, Y = T.ones(2, 3), T.ones(2, 3)
VALID = [
    call("sum", X, (0, 1), True),
    call("sum", X, None, True),
    call("sum", X, 0, method=True),
    call("amax", X, 0, True),
    call("var", X, 0),
    call("softmax", X, 1),
    call("sort", X, 1, True),
    call("cumsum", X, 1),
    call("argmax", X, 1, True, method=True),
    call("transpose", X, 0, 1),
    call("permute", X, (1, 0), method=True),
    call("reshape", X, (3, 2)),
    call("flip", X, (0,)),
    call("roll", X, 1, 0),
    call("chunk", X, 2, 0),
    call("cat", [X, Y], 0),
    call("add", X, Y, alpha=2),
    call("mul", X, 2.0),
    call("clamp", X, 0.5),
    call("nn.functional.layer_norm", X, (3,)),
    call("nn.functional.leaky_relu", X, 0.1),
    call("zeros", (2, 3)),
    call("gather", X, 1, T.tensor([[0], [1]])),
]


@pytest.mark.oracle
@pytest.mark.parametrize("valid", VALID, ids=lambda c: c.name)
def test_wrong_kinds(torch: ModuleType, valid: Call) -> None:
    """Each argument in turn is replaced by a value of each kind; those that are too large are the affair of another test."""
    differences = []
    for place in [*range(valid.method, len(valid.args)), *dict(valid.kwargs)]:
        for kind, value in KINDS.items():
            if kind != "huge int":
                word, text = judge(torch, valid.replaced(place, value))
                if word:
                    differences.append(f"{kind} at {place}: {word}, {text}")
    assert not differences, "\n".join(differences)


@pytest.mark.fast
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


@pytest.mark.fast
def test_numbers_in_other_dresses_are_taken() -> None:
    import numpy as np

    x = T.arange(6).reshape(2, 3)
    assert x.sum(np.int64(1)).tolist() == x.sum(T.tensor(1)).tolist() == x.sum(1).tolist()
    assert x.sum([np.int32(0), T.tensor(1)]).item() == 15
    assert x.reshape(np.int64(3), T.tensor(2)).shape == x.reshape([T.tensor(3), np.int8(2)]).shape == (3, 2)


@pytest.mark.fast
def test_positional_names_and_old_names_are_taken() -> None:
    x = T.tensor([[3, 1, 2]])
    assert T.sort(x, dim=1, descending=True, stable=True)[0].tolist() == [[3, 2, 1]]
    assert x.transpose(dim1=0, dim0=1).shape == T.transpose(input=x, dim0=0, dim1=1).shape == (3, 1)
