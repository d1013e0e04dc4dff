"""What a compiled call looks at in machine code: it says no as soon as anything is otherwise."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.compiled import guards

pytestmark = pytest.mark.fast


def _step() -> tuple[Any, dict[str, Any]]:
    """A compiled step, and what it rests on."""
    x, w = (T.tensor(np.ones(4, np.float32)).requires_grad_() for _ in range(2))
    held: dict[str, Any] = {"x": x, "w": w, "list": [x, w], "scale": [2.5], "table": {"a": 3}, "empty": {}}
    rows, scale, table, empty = held["list"], held["scale"], held["table"], held["empty"]

    def loss(t: Any) -> Any:
        return (t * w).sum() * scale[0] + table["a"] + len(empty)

    def step() -> Any:
        for t in rows:
            t.grad = None
        y = loss(x)
        y.backward()
        return y

    made = T.compile(step)
    for _ in range(5):
        made()
    held["step"], held["loss"] = step, loss
    return made, held


def _asked(made: Any) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """What machine code says, and what Python does."""
    call = made._entries[0].call
    names = {k: p.default for k, p in inspect.signature(call).parameters.items()}
    quick = lambda: names["same"](names["words"], names["modes"].__dict__, names["casting"].__dict__)  # noqa: E731
    return quick, names["holds"]


_OTHERWISE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list is longer": lambda h: h["list"].append(h["x"]),
    "a list is shorter": lambda h: h["list"].pop(),
    "a list has another item": lambda h: h["list"].__setitem__(1, h["x"]),
    "a number is another": lambda h: h["scale"].__setitem__(0, 3.5),
    "an entry is another": lambda h: h["table"].__setitem__("a", 4),
    "an entry is gone": lambda h: h["table"].pop("a"),
    "what was empty is not": lambda h: h["empty"].__setitem__("b", 1),
    "a tensor has other memory": lambda h: setattr(h["x"], "data", T.ones(4)),
    "a tensor has other sizes": lambda h: setattr(h["x"], "data", T.ones(5)),
    "a tensor needs no gradient": lambda h: h["x"].requires_grad_(False),
    "a tensor has a hook": lambda h: h["x"].register_hook(lambda g: g * 2),
    "code is another": lambda h: setattr(h["loss"], "__code__", _like(h["loss"])),
}


def _like(f: Any) -> Any:
    return f.__code__.replace(co_name="other")


@pytest.mark.parametrize("what", _OTHERWISE)
def test_says_no_when(what: str) -> None:
    made, held = _step()
    quick, exact = _asked(made)
    assert quick() and exact()
    _OTHERWISE[what](held)
    assert not quick() and not exact()


@pytest.mark.parametrize("how", ["none", "another dtype", "with a history", "of a class"])
def test_says_no_when_a_gradient_is(how: str) -> None:
    made, held = _step()
    quick, _ = _asked(made)
    assert quick()
    x = held["x"]
    if how == "none":
        x.grad = None
    elif how == "another dtype":
        x._ad.grad = T.ones(4, dtype=T.float64)
    elif how == "with a history":
        x._ad.grad = T.ones(4).requires_grad_() * 2
    else:
        x._ad.grad = T.nn.Parameter(T.ones(4))
    assert not quick()


def test_says_no_to_a_thread_that_switched_something() -> None:
    made, _ = _step()
    quick, _ = _asked(made)
    with T.no_grad():
        assert not quick()
    assert quick()
    with T.autocast("cpu"):
        assert not quick()
    assert quick()
    found: list[bool] = []
    with T.no_grad():
        other = threading.Thread(target=lambda: found.append(quick()))
        other.start()
        other.join()
    assert found == [True]


def test_an_equal_number_is_asked_for_in_python() -> None:
    made, held = _step()
    quick, exact = _asked(made)
    held["scale"][0] = float("2.5")
    assert not quick() and exact()
    count = len(made._entries)
    want = made._function()
    assert made().item() == want.item() and len(made._entries) == count


def test_of_a_training_step_few_lines_are_left() -> None:
    layers = T.nn.Sequential(T.nn.Linear(4, 8), T.nn.ReLU(), T.nn.LayerNorm(8), T.nn.Linear(8, 2))
    optimizer = T.optim.SGD(layers.parameters(), lr=0.1)
    x = T.ones(3, 4)

    def step() -> Any:
        optimizer.zero_grad()
        y = layers(x).square().mean()
        y.backward()
        optimizer.step()
        return y

    made = T.compile(step)
    for _ in range(5):
        made()
    state = made._entries[0].state
    found = guards.swift([line for line, _ in state.lines], state.names)
    assert found is not None and found.words[0] > 100 and len(found.rest) < 30
    quick, exact = _asked(made)
    assert quick() and exact()
    layers[0].bias = T.nn.Parameter(T.ones(8))
    assert not quick()


def test_what_lies_elsewhere_leaves_python_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_layout", lambda: None)
    made, _ = _step()
    assert "same(" not in made._entries[0].call.text
    assert made().item() == made._function().item()


def test_the_gradient_of_a_frozen_parameter() -> None:
    """It was forgotten by the first call after the freeze alone: later calls had none to forget, and their program left the next one."""
    twins = []
    for compile in (T.compile, lambda f: f):
        x, w = (T.ones(3).requires_grad_() for _ in range(2))
        optimizer = T.optim.SGD([x, w], lr=0.1)

        def step(x: Any = x, w: Any = w, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            (x * w).sum().backward()
            optimizer.step()

        twins.append((x, w, compile(step)))
    for k in range(16):
        told = []
        for x, w, step in twins:
            w.requires_grad_(k % 8 < 4)
            step()
            told.append([x.tolist(), w.tolist(), w.grad is None])
        assert told[0] == told[1], k
    assert twins[0][2].explain().graph_count >= 2
