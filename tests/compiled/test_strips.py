"""Launches by strips: the same bits as eager, whatever is in a strip, on one thread and on several, and less memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nbgrad as T
from nbgrad.compiled import strips
from nbgrad.compiled.explain import fullest

F = T.nn.functional


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips of what is small, too."""
    for name, value in (("LEAST", 1), ("GOOD", 200), ("MOST", 4000)):
        monkeypatch.setattr(strips, name, value)


@pytest.fixture(params=[1, 2])
def threads(request: Any) -> Iterator[None]:
    before = T.get_num_threads()
    T.set_num_threads(request.param)
    yield
    T.set_num_threads(before)


def program(seed: int) -> tuple[Callable[[], Any], list[Any]]:
    """Of rows, and of all elements; with a loss of classes, in which launches may refuse, or without."""
    draw = random.Random(seed)
    rows, n = draw.choice([16, 24, 64, 96]), draw.choice([5, 16, 40])
    T.manual_seed(seed)
    given = [T.randn(rows, n), T.randn(rows, n), T.randn(n), T.randn(rows, 1)]
    at = T.randint(n, (rows,))
    of = T.randint(rows, (rows,))
    steps = [
        (draw.choice("ndsgmtar*+-xvqe"), draw.randrange(9), draw.randrange(9))
        for _ in range(draw.randrange(3, 11))
    ]
    ends = draw.choice(["sum", "mean", "classes"])

    def run() -> Any:
        for t in given:
            t.requires_grad_().grad = None
        known = [*given[:2]]
        for how, j, k in steps:
            a, b = known[j % len(known)], known[k % len(known)]
            if how == "n":
                made = F.layer_norm(a, (n,), given[2])
            elif how == "d":
                made = F.rms_norm(a, (n,))
            elif how == "s":
                made = a.softmax(-1)
            elif how == "g":
                made = F.gelu(a)
            elif how == "m":
                made = a - a.mean(-1, keepdim=True)
            elif how == "t":
                made = a.tanh() * given[3]
            elif how == "a":
                made = a + given[2]
            elif how == "r":
                made = a * a.sum(0)
            elif how == "x":
                made = a.log_softmax(-1)
            elif how == "v":
                made = a * b.amax(-1, keepdim=True)
            elif how == "q":
                made = a.clone().mul_(b)
            elif how == "e":
                made = a[of]
            else:
                made = {"*": a * b, "+": a + b, "-": a - b}[how]
            known.append(made)
        y = known[-1] * known[-2]
        loss = F.cross_entropy(y, at) if ends == "classes" else getattr(y, ends)()
        loss.backward()
        return (loss, y, *[t.grad for t in given])

    return run, given


def differs(seed: int, calls: int = 7) -> tuple[str, int]:
    """What is not as it should be, and how many launches are done by strips."""
    run, given = program(seed)
    plain, mine = program(seed)
    compiled = T.compile(run, fullgraph=True)
    for k in range(calls):
        want, got = (
            [b"" if t is None else t.detach().numpy().tobytes() for t in f()] for f in (plain, compiled)
        )
        if got != want:
            return f"{seed}: other bits in call {k}", 0
        for one in (given, mine):  # by hand
            with T.no_grad():
                one[k % 4].mul_(0.9)
    told = str(compiled.explain())
    graphs = compiled.explain().graphs
    count = sum(len(op.strips.ops) for g in graphs for op in g.ops if op.strips is not None)
    return f"{seed}: {told}" if "nothing fused" in told or not graphs else "", count


def test_programs_of_rows(small: None) -> None:
    told = [differs(seed) for seed in range(3)]
    assert not [text for text, _ in told if text]
    assert sum(count for _, count in told) > 2


@pytest.mark.slow
def test_many_programs_of_rows(small: None, threads: None, whole: bool) -> None:
    told = [differs(seed, 20) for seed in range(100, 150 if whole else 120)]
    assert not [text for text, _ in told if text]
    assert sum(count > 0 for _, count in told) > 8


def normed() -> tuple[Callable[[], Any], Any]:
    T.manual_seed(0)
    x, w = T.randn(512, 128, requires_grad=True), T.ones(128, requires_grad=True)

    def step() -> Any:
        x.grad = w.grad = None
        loss = F.gelu(F.layer_norm(x, (128,), w)).sum()
        loss.backward()
        return x.grad, w.grad, loss.detach()

    return step, x


def test_a_norm_keeps_strips_alone(threads: None) -> None:
    step, x = normed()
    compiled = T.compile(step, fullgraph=True)
    for k in range(8):
        assert [t.numpy().tobytes() for t in step()] == [t.numpy().tobytes() for t in compiled()]
        with T.no_grad():
            x[k] += 1
    (entry,) = compiled._entries
    (by_strips,) = [op for op in entry.graph.ops if op.strips is not None]
    assert len(by_strips.strips.ops) == 4, compiled.graph()
    needed = entry.ready.bytes + sum(m.nbytes for m in entry.ready.fresh)
    assert needed <= 0.7 * fullest(entry.eager), compiled.explain()
    assert "gelu" in compiled.source()


def test_what_all_rows_need_is_no_strip(small: None) -> None:
    """A mean over rows is read by each: what is before and what is behind it are two walks."""
    x = T.randn(64, 16, requires_grad=True)

    def step() -> Any:
        x.grad = None
        y = x.softmax(-1)
        z = (y - y.mean(0)).softmax(-1)
        (z * z).sum().backward()
        return z.detach(), x.grad

    compiled = T.compile(step, fullgraph=True)
    for _ in range(6):
        assert [t.numpy().tobytes() for t in step()] == [t.numpy().tobytes() for t in compiled()]
    for op in compiled.explain().graphs[0].ops:
        if op.strips is not None:
            written = {id(p.memory) for one in op.strips.ops for p in one.written()}
            for one in op.strips.ops:
                for p, span in zip(one.args, strips.spans(one) or ()):
                    assert span != 0 or not hasattr(p, "memory") or id(p.memory) not in written


def test_numbers_of_a_call(small: None) -> None:
    x = T.randn(64, 16)

    def f(k: float) -> Any:
        y = (x.softmax(-1) * k).softmax(-1).tanh()
        return (y - y.mean(-1, keepdim=True)) * (k + 1)

    compiled = T.compile(f, fullgraph=True)
    for k in range(12):
        assert compiled(0.5 + k).numpy().tobytes() == f(0.5 + k).numpy().tobytes()
    assert compiled.explain().graph_count < 4


@pytest.mark.parametrize("how", ["mean", "sum", "none"])
def test_a_loss_of_classes_and_its_gradient_are_one_walk(small: None, how: str) -> None:
    x, y, w = T.randn(64, 40, requires_grad=True), T.arange(64) % 40, T.rand(40)

    def step() -> Any:
        x.grad = None
        loss = F.cross_entropy(x * 2, y, w if how != "none" else None, ignore_index=3, reduction=how)
        loss.sum().backward()
        return loss.detach(), x.grad

    compiled = T.compile(step, fullgraph=True)
    for k in range(8):
        y[k] = 3
        assert [t.numpy().tobytes() for t in step()] == [t.numpy().tobytes() for t in compiled()]
    (graph,) = compiled.explain().graphs
    walked = [op.strips.ops for op in graph.ops if op.strips is not None]
    assert any({one.title[:10] for one in ops} >= {"class_low_"} and len(ops) > 1 for ops in walked), str(
        graph
    )
    y[9] = 40
    told = []
    for f in (step, compiled):
        with pytest.raises(IndexError) as error:
            f()
        told.append((str(error.value), x.grad))
    assert told[0] == told[1]
    y[9] = 4
    assert [t.numpy().tobytes() for t in step()] == [t.numpy().tobytes() for t in compiled()]
