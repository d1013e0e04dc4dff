"""Python numbers in attributes, containers and variables: after the second value they are inputs, and never what they were."""

from __future__ import annotations

import math
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import nbgrad as T
from tests.compiled.test_compile import bits, leaf, programs

F = T.nn.functional
RATE = 0.1


class Settings:
    rate = 0.5

    def __init__(self) -> None:
        self.lr, self.t, self.betas, self.mode = 0.1, 0, (0.9, 0.99), "a"


@dataclass
class Options:
    lr: float = 0.1
    t: int = 0


settings = Settings()
table = {"lr": 0.1, "of": {"lr": 0.2}}
rates = [0.1, 0.2]


def of_attribute(x: Any) -> Any:
    return x * settings.lr + settings.t


def of_table(x: Any) -> Any:
    return x * table["lr"] - table["of"]["lr"]  # type: ignore[index]


def of_list(x: Any) -> Any:
    return x * rates[1] + sum(rates)


def of_tuple(x: Any) -> Any:
    a, b = settings.betas
    return x * a + (1 - b)


def of_global(x: Any) -> Any:
    return (x * RATE).sin() * math.cos(RATE)


def of_class(x: Any) -> Any:
    return x * Settings.rate


def set_all(k: int) -> None:
    global RATE
    RATE = Settings.rate = settings.lr = table["lr"] = 0.1 / (k + 1)
    settings.t, settings.betas = k, (0.5 + k / 100, 0.1 * k)
    table["of"]["lr"] = k - 3.5  # type: ignore[index]
    rates[:] = [k / 7, k / 3]


@pytest.mark.parametrize("f", [of_attribute, of_table, of_list, of_tuple, of_global, of_class])
def test_one_program_for_all_values(f: Callable[[Any], Any]) -> None:
    compiled = T.compile(f, fullgraph=True)
    x = T.randn(5)
    for k in range(25):
        set_all(k)
        assert bits(f(x)) == bits(compiled(x)), k
    assert programs(compiled) == 1 and "#" in compiled.graph()


def test_a_variable_and_options() -> None:
    options, rate = Options(), 0.5

    def f(x: Any, given: Any) -> Any:
        return x * rate + options.lr * options.t + given["a"][0] * given["b"][1]

    compiled = T.compile(f, fullgraph=True)
    x = T.randn(5)
    for k in range(20):
        rate, options.lr, options.t = k / 8, k / 3, k
        given = {"a": [k / 5, "text"], "b": (1.0, k * 0.3)}
        assert bits(f(x, given)) == bits(compiled(x, given)), k
        assert given == {"a": [k / 5, "text"], "b": (1.0, k * 0.3)} and type(options.t) is int
    assert programs(compiled) <= 2


def test_a_module_of_its_own() -> None:
    class Layer(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scale = T.nn.Linear(4, 4), 1.0

        def forward(self, x: Any) -> Any:
            return self.linear(x) * self.scale + (3 if self.scale > 4 else 1)

    layer = Layer()
    compiled = T.compile(layer, fullgraph=True)
    x = T.randn(3, 4)
    for k in range(20):
        layer.scale = k / 2
        y = compiled(x)
        assert bits(layer(x)) == bits(y), k
        layer.zero_grad()
        y.sum().backward()
        got = bits(layer.linear.weight.grad)
        layer.zero_grad()
        layer(x).sum().backward()
        assert bits(layer.linear.weight.grad) == got, k
    assert compiled.compiled.explain().graph_count <= 3


def test_a_backward_has_the_numbers_of_its_call() -> None:
    w = leaf(4)

    def f(x: Any) -> Any:
        return (x * w * settings.lr).tanh()

    compiled = T.compile(f, fullgraph=True)
    x = T.randn(4)
    for k in range(6):
        settings.lr = k + 0.5
        compiled(x).sum().backward()
    assert programs(compiled) == 1
    settings.lr = 0.25
    y = compiled(x)
    (want,) = T.autograd.grad(f(x).sum(), [w])
    settings.lr = 3.0
    assert bits(*T.autograd.grad(y.sum(), [w], retain_graph=True)) == bits(want)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (got,) = T.autograd.grad(y.sum(), [w], create_graph=True)
        assert bits(got) == bits(want) and settings.lr == 3.0
        (twice,) = T.autograd.grad(got.sum(), [w])
    settings.lr = 0.25
    (again,) = T.autograd.grad(f(x).sum(), [w], create_graph=True)
    assert bits(twice) == bits(*T.autograd.grad(again.sum(), [w]))


def test_what_changed_since_the_call_is_an_error_where_it_would_be_run_again() -> None:
    w = leaf(4)
    compiled = T.compile(lambda x: x * w**2 if settings.mode == "a" else x * w**3, fullgraph=True)
    settings.mode = "a"
    for _ in range(5):
        y = compiled(T.ones(4))
    settings.mode = "b"
    with pytest.raises(RuntimeError, match=r"cannot be differentiated twice, as `.*mode` is not as it was"):
        T.autograd.grad(y.sum(), [w], create_graph=True)
    settings.mode = "a"


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adam"])
def test_the_rate_of_an_optimizer_is_read(name: str) -> None:
    """Both by the step and by the function."""

    def made(compile: Any) -> Any:
        T.manual_seed(0)
        model = T.nn.Linear(4, 2)
        optimizer = getattr(T.optim, name)(model.parameters(), lr=0.1, weight_decay=0.01)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().sum() * optimizer.param_groups[0]["lr"]
            loss.backward()
            optimizer.step()
            return loss, optimizer.param_groups[0]["lr"]

        return compile(step), optimizer, model

    eager, a, m = made(lambda f: f)
    step, b, n = made(lambda f: T.compile(f, fullgraph=True))
    for k in range(20):
        x = T.randn(3, 4)
        a.param_groups[0]["lr"] = b.param_groups[0]["lr"] = 0.1 / (k + 1)
        (one, rate), (other, same) = eager(x), step(x)
        assert bits(one, *m.parameters()) == bits(other, *n.parameters()), k
        assert type(same) is float and rate == same == 0.1 / (k + 1) == b.param_groups[0]["lr"]
    assert programs(step) <= 2  # one before there was a gradient


def test_what_the_function_counts_itself_is_no_input() -> None:
    counter = Options()

    def f(x: Any) -> Any:
        counter.t += 1
        return x * counter.t

    compiled = T.compile(f)
    for k in range(12):
        if k == 6:
            counter.t = 40
        assert compiled(T.ones(1)).item() == counter.t == k + 1 + 34 * (k >= 6)


def test_what_a_trial_keeps_is_put_back() -> None:
    kept: dict[str, Any] = {"last": 0.0, "items": [0.0]}
    holder = Options()
    seen: Any = None

    def f(x: Any, k: float) -> Any:
        nonlocal seen
        kept["last"] = kept["items"][0] = holder.lr = seen = k * 2
        return x * k

    compiled = T.compile(f)
    for k in (1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0):
        assert compiled(T.ones(1), k).item() == k
        for one in (kept["last"], kept["items"][0], holder.lr, seen):
            assert type(one) is float and one == 2 * k


def test_an_error_that_is_swallowed() -> None:
    def f(x: Any, k: float) -> Any:
        try:
            n = int(k)
        except BaseException:
            n = 1
        return x * n

    def g(x: Any, k: float) -> Any:
        return x * {"1.50": 2.0, "1.75": 3.0}.get("%.2f" % k, 4.0)  # noqa: UP031

    for function in (f, g):
        compiled = T.compile(function)
        for k in (1.0, 1.5, 1.5, 1.75, 1.75, 1.75, 2.5, 3.25, 1.5):
            assert bits(compiled(T.ones(2), k)) == bits(function(T.ones(2), k)), k


def test_one_that_is_looked_at_leaves_the_others_inputs() -> None:
    def f(x: Any, rate: float, n: int) -> Any:
        return x[: n % 3 + 1].sum() * rate + settings.t // 2 + [1.0, 2.0][settings.t % 2]

    compiled = T.compile(f)
    x = T.randn(4)
    for k in range(60):
        settings.t = (k // 6) % 2
        assert bits(compiled(x, k / 7, (k // 12) % 3)) == bits(f(x, k / 7, (k // 12) % 3)), k
    assert programs(compiled) <= 6 and not compiled.explain().reasons


def test_modes_that_alternate() -> None:
    model = T.nn.Sequential(T.nn.Linear(4, 4), T.nn.BatchNorm1d(4), T.nn.ReLU())
    compiled = T.compile(model, fullgraph=True)
    x = T.randn(8, 4)
    for k in range(16):
        model.train(k % 2 == 0)
        compiled.train(k % 2 == 0)
        assert compiled(x).requires_grad
    assert compiled.compiled.explain().graph_count == 2


def test_numbers_of_a_module_that_is_imported() -> None:
    module = types.ModuleType("settings_of_a_test")
    module.rate = 0.5  # type: ignore[attr-defined]
    sys.modules["settings_of_a_test"] = module
    scope: dict[str, Any] = {"module": module, "__name__": "elsewhere"}
    exec("def f(x): return x * module.rate", scope)
    compiled = T.compile(scope["f"], fullgraph=True)
    for k in range(12):
        module.rate = k / 4  # type: ignore[attr-defined]
        assert compiled(T.ones(1)).item() == k / 4
    assert programs(compiled) == 1
    del sys.modules["settings_of_a_test"]


def test_a_state_that_only_calls_that_fail_restore() -> None:
    """What is read was so before the call, not only behind it."""

    def made(compile: Any) -> Any:
        t = T.arange(6.0).reshape(2, 3)

        def f() -> Any:
            y = t.tril() * 2
            t.transpose_(0, -1)
            return y + t.new_ones(2, 3)

        return compile(f)

    eager, compiled = made(lambda f: f), made(T.compile)
    for _ in range(12):
        told = []
        for f in (eager, compiled):
            try:
                told.append(f().tolist())
            except RuntimeError as error:
                told.append(str(error))
        assert told[0] == told[1]


def test_a_trial_goes_the_way_of_the_call() -> None:
    """So that it has no effect that the call had not."""
    kept = Options()

    def f(x: Any, k: int) -> Any:
        if k % 2:
            kept.t = 7
        return x * k

    compiled = T.compile(f)
    for k in (0, 2, 4, 6, 8):
        compiled(T.ones(1), k)
        assert kept.t == 0
    assert compiled(T.ones(1), 3).item() == 3 and kept.t == 7


def test_functions_of_rows_of_numbers() -> None:
    """What nbgrad asks them is no reason, what the function does is."""

    def f(x: Any, k: float) -> Any:
        return x.reshape(2, -1).flatten().cumsum(0) * k

    def g(x: Any, k: float) -> Any:
        return x * math.fsum([k, 1.0]) + math.prod(c for c in (k, 2.0))

    for function, most in ((f, 1), (g, 8)):
        compiled = T.compile(function)
        for k in range(6):
            assert bits(compiled(T.ones(4), k + 0.5)) == bits(function(T.ones(4), k + 0.5)), k
        assert programs(compiled) <= most
    assert T.compile(f).warm(T.ones(4), 0.5) is not None


def test_a_condition_is_no_name_of_the_function() -> None:
    """What asks for the call's own outcome is not taken for code of the user's."""
    w = leaf(3)

    def f(x: Any, h: Any, k: float) -> Any:
        return (x + h * k) * (2 if k > 1 else 3)

    compiled = T.compile(f, fullgraph=True)
    for k in range(12):
        x, h = T.ones(3), w * 1
        assert bits(compiled(x, h, k / 4)) == bits(f(x, h, k / 4))
    assert programs(compiled) <= 3
