"""The models of `tests/models`, compiled: the same losses, gradients and weights as eager, to the bit."""

from __future__ import annotations

from typing import Any

import pytest

import nbgrad as T
from tests.compiled.test_compile import bits
from tests.models.test_models import PROGRAMS
from tests.support import as_torch

STEPS = 7


def trained(name: str, compiled: bool) -> tuple[list[Any], Any]:
    names: dict[str, Any] = {"__name__": name}
    told = []
    with as_torch(T):
        exec(compile(PROGRAMS[name].read_text(), name, "exec"), names)
        T.manual_seed(0)
        model, optimizer, schedule = names["make"]()
        called = T.compile(model) if compiled else model
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = names["loss"](called, *names["batch"]())
            loss.backward()
            names.get("after_backward", lambda model: None)(model)
            optimizer.step()
            if schedule is not None:
                schedule.step()
            told.append(bits(loss, *[p.grad for p in model.parameters()], *model.state_dict().values()))
    return told, called


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:nbgrad.compile")
@pytest.mark.parametrize("name", PROGRAMS)
def test_trains_as_eager(name: str) -> None:
    eager, _ = trained(name, False)
    compiled, model = trained(name, True)
    assert [a == b for a, b in zip(eager, compiled)] == [True] * STEPS
    told = model.compiled.explain()
    # That model keeps its state, with its history, on itself: a call has an effect, and is the function's.
    assert told.graph_count == (name != "lstm_language_model"), told
