"""Some arguments of a wrong kind; `python -m tests.kinds` goes through all functions."""

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
