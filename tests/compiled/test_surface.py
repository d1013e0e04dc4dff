"""What users see of compiling besides results: `warm`, lines on stderr, what keeps changing."""

from __future__ import annotations

import dataclasses
import re
import sys
import threading
import warnings
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

import nbgrad as T
from nbgrad.compiled import explain
from tests.compiled.test_compile import bits, leaf, programs


def test_warm() -> None:
    f = T.compile(lambda x: (x * 2).exp(), fullgraph=True)
    assert f.warm(T.ones(3)) is f and programs(f) == 1
    f.warm(T.ones(3))
    assert programs(f) == 1
    f.warm(T.ones(3, 2))
    assert programs(f) == 2
    model = T.compile(T.nn.Linear(3, 2))
    model.warm(T.ones(4, 3))
    assert model.explain().graph_count == 1 and model.graph().startswith("__call__")
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'absent'"):
        model.absent  # noqa: B018


@pytest.mark.parametrize("log", [None, "0"])
def test_a_line_where_it_takes_long(
    log: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if log is not None:
        monkeypatch.setenv("NBGRAD_COMPILE_LOG", log)
    else:
        monkeypatch.delenv("NBGRAD_COMPILE_LOG", raising=False)
    monkeypatch.setattr(explain.Progress, "after", 0.05)
    said, tell = threading.Event(), explain.Progress._tell

    def telling(progress: explain.Progress, text: str) -> None:
        tell(progress, text)
        if "launches" in text:
            said.set()

    monkeypatch.setattr(explain.Progress, "_tell", telling)
    f = T.compile(lambda x: (x * 2).sum())
    until = slow(said, 0.3 if log else 100.0)  # till it is told, by a thread that may have to wait
    monkeypatch.setattr(sys.modules["nbgrad.compiled.function"], "improved", until)
    for _ in range(4):
        f(T.ones(3))
    told = capsys.readouterr().err
    if log is None:
        assert re.search(
            r"nbgrad\.compile: `test_a_line_where_it_takes_long.<locals>.<lambda>`: \d+\.\d s", told
        )
        assert "a program of 2 launches is made" in told and re.search(r" took \d+\.\d s", told)
    else:
        assert not told


def slow(until: threading.Event, seconds: float) -> Any:
    usual = sys.modules["nbgrad.compiled.function"].improved  # type: ignore[attr-defined]

    def improved(*args: Any) -> Any:
        until.wait(seconds)
        return usual(*args)

    return improved


@pytest.mark.filterwarnings("ignore:nbgrad.compile has one way")
def test_sizes_that_keep_changing() -> None:
    """Right at each call, a bounded number of programs, and a warning that says what it was."""
    calls = []

    def f(x: Any) -> Any:
        calls.append(1) if x.dim() > 5 else None
        return (x * 2).tanh().sum(0)

    compiled = T.compile(f, dynamic=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(1, 60):
            x = T.randn(n, 3)
            assert bits(compiled(x)) == bits(f(x))
            assert bits(compiled(x)) == bits(f(x))
    assert programs(compiled) <= 8
    (one,) = told
    assert "keeps changing" in str(one.message) and "args[0]" in str(one.message)


@dataclasses.dataclass
class Batch:
    x: Any
    weight: float = 1.0
    name: str = "a"
    rest: Any = None

    def scaled(self) -> Any:
        return self.x * self.weight


class Point(NamedTuple):
    x: Any
    by: float


def test_records_as_arguments_and_results() -> None:
    def f(batch: Batch, point: Point) -> Any:
        y = batch.scaled() + (1 if batch.name == "a" else 2)
        if batch.rest is not None:
            y = y * batch.rest.scaled().sum()
        return Batch(y, batch.weight * 2, rest=OrderedDict(p=Point(point.x * point.by, 3), q=[y]))

    compiled = T.compile(f, fullgraph=True)
    w = leaf(3)
    for k in range(30):
        rest = Batch(T.randn(2), k / 2) if k % 3 == 0 else None
        given = Batch(w * 1, k / 7, "a" if k % 5 else "b", rest), Point(T.randn(2), k / 3)
        got, want = compiled(*given), f(*given)
        assert type(got) is Batch and type(got.rest) is OrderedDict and type(got.rest["p"]) is Point
        assert got.weight == want.weight and got.name == "a" and got.rest["q"][0] is got.x
        assert bits(got.x, got.rest["p"].x) == bits(want.x, want.rest["p"].x), k
        assert given[0].rest is rest and given[0].weight == k / 7
        g, h = [T.autograd.grad(one.x.sum(), [w], retain_graph=True)[0] for one in (got, want)]
        assert bits(g) == bits(h)
    assert programs(compiled) <= 5

    Batch.scaled = lambda self: self.x - self.weight  # type: ignore[method-assign]
    given = Batch(w * 1, 0.5), Point(T.randn(2), 3.0)
    assert bits(compiled(*given).x) == bits(f(*given).x)


def test_a_record_that_is_written_to() -> None:
    def f(batch: Batch) -> Any:
        y = (batch.x * 2).exp()
        batch.weight += 1
        batch.rest = y
        return y * batch.weight

    compiled = T.compile(f)
    kept = Batch(T.ones(2), 0.0)
    for k in range(12):
        y = compiled(kept)
        assert kept.weight == k + 1 and bits(y) == bits((kept.x * 2).exp() * kept.weight)
        assert bits(kept.rest) == bits((kept.x * 2).exp())
        one = Batch(T.ones(2) * k, 0.5)
        assert bits(compiled(one)) == bits((one.x * 2).exp() * 1.5) and one.weight == 1.5
