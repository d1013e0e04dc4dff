"""Launches that walk over the same elements by different ways, made into one loop."""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.compiled.explain import fullest
from nbgrad.compiled.nest import LAID, ROW, apart, joined, nest


def addresses(steps: Any) -> Any:
    at = np.zeros(1, np.int64)
    for n, step in steps:
        at = (at[:, None] + np.arange(n) * step).reshape(-1)
    return at


def test_ways_are_joined_and_told_apart() -> None:
    assert joined([(2, 12), (3, 4), (1, 9), (4, 1)]) == ((24, 1),)
    assert joined([(2, 0), (3, 4), (4, 1)]) == ((2, 0), (12, 1)) and joined([(1, 5)]) == ((1, 1),)
    for steps in (((4, 1),), ((3, 8), (4, 2)), ((5, 0), (4, 1)), ((3, 3), (4, 1)), ((4, 1), (3, 4))):
        found = addresses(steps)
        assert apart(steps) <= (len({*found.tolist()}) == len(found)), steps
    assert apart(((4, 1), (3, 4))) and not apart(((5, 0), (4, 1)))


def test_rows_are_long_and_results_lie_together_in_them() -> None:
    whole, laid = ((250_000, 1),), ((1000, 10), (25, 0), (10, 1))
    made = nest([whole], [laid, ((25_000, 1), (10, 0))])
    assert made is not None and made.laid == [True, True]
    row = math.prod(made.sizes[made.cut :])
    assert ROW <= row <= LAID and made.items * row == 250_000
    assert nest([((10, 1),)], [((5, 1), (2, 0))]) is None  # too short
    assert nest([((6, 1),)], [((2, 3), (3, 2))]) is None
    assert nest([((100, 2),)], [((100, 1),)]) is None  # results that do not lie together
    assert nest([((12, 1),)], [((4, 5), (3, 1)), ((3, 9), (4, 1))]) is None  # of no common rows
    flat = nest([whole], [whole, ((250_000, 0),)])
    assert flat is not None and flat.flat and flat.items == 250_000


def program(seed: int) -> Any:
    """Some operands of parts of one shape, and statements of them; all have gradients."""
    r = random.Random(seed)
    shape = [r.choice((1, 2, 3, 7, 10, 16, 25, 40)) for _ in range(r.randint(1, 4))]
    T.manual_seed(seed)
    code = r.choice((T.float32, T.float64))
    given = [T.randn(shape, dtype=code)]
    for _ in range(r.randint(1, 3)):
        sizes = [n if r.random() < 0.6 else 1 for n in shape][r.randint(0, len(shape) - 1) :]
        t = T.randn(sizes, dtype=code)
        given.append(t.transpose(0, 1).contiguous().transpose(0, 1) if r.random() < 0.2 and t.ndim > 1 else t)
    statements = [(r.choice("+*-st"), r.randrange(9), r.randrange(9)) for _ in range(r.randint(2, 7))]

    def run() -> Any:
        for t in given:
            t.requires_grad_().grad = None
        known = [*given]
        for how, j, k in statements:
            a, b = known[j % len(known)], known[k % len(known)]
            made = {"+": a + b, "*": a * b, "-": a - b}.get(how)
            known.append(a.sigmoid() if how == "s" else a[..., :1] * b if made is None else made)
        y = known[-1] * known[0]
        y.sum().backward()
        return (y, *[t.grad for t in given])

    return run


def differs(seed: int) -> tuple[str, bool]:
    """What is not as it should be, and whether there was something to make one loop of."""
    run = program(seed)
    want = [b"" if t is None else t.detach().numpy().tobytes() for t in run()]
    compiled = T.compile(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            got = [b"" if t is None else t.detach().numpy().tobytes() for t in compiled()]
            if got != want:
                return f"{seed}: other bits", True
    told = str(compiled.explain())
    return f"{seed}: {told}" if "nothing fused" in told else "", "fused_f4_rows" in compiled.graph()


@pytest.mark.slow
def test_many_programs_of_broadcasts() -> None:
    told = [differs(seed) for seed in range(40)]
    assert not [text for text, _ in told if text] and sum(some for _, some in told) > 3


def test_programs_of_broadcasts() -> None:
    assert not [text for text, _ in map(differs, (3, 8, 11)) if text]


def test_a_mixture_has_few_kernels() -> None:
    x, m, s = T.randn(100, 1, 10), T.randn(25, 10), T.randn(25, 10)

    def step() -> Any:
        m.requires_grad_().grad = None
        z = (x - m) * s.exp()
        (z * z).sum().backward()
        return m.grad

    compiled = T.compile(step, fullgraph=True)
    want = step().numpy().tobytes()
    for _ in range(5):
        assert compiled().numpy().tobytes() == want
    fused = [op.was for op in compiled.explain().graphs[0].ops if op.title.endswith("_rows") and op.was]
    assert any("sub" in was and len(was) > 2 for was in fused), compiled.graph()


def test_memory_is_used_again() -> None:
    F = T.nn.functional
    x = T.randn(256, 64, requires_grad=True)
    w = T.ones(64, requires_grad=True)

    def normed() -> Any:
        x.grad = w.grad = None
        F.gelu(F.layer_norm(x, (64,), w)).sum().backward()
        return x.grad

    def chained() -> Any:
        x.grad = None
        (x * x.sigmoid() + x.tanh() * (-x * x).exp()).sum().backward()
        return x.grad

    for step, most in ((normed, 1.1), (chained, 0.4)):
        want = step().numpy().tobytes()
        compiled = T.compile(step, fullgraph=True)
        kept = [compiled() for _ in range(6)]
        assert all(t.numpy().tobytes() == want for t in kept) and len({t.data_ptr() for t in kept[-2:]}) == 2
        (entry,) = compiled._entries
        needed = entry.ready.bytes + sum(m.nbytes for m in entry.ready.fresh)
        assert needed <= most * fullest(entry.eager), compiled.explain()


def test_what_is_small_stands_in_nobodys_way() -> None:
    x, w, b = (T.ones(4, requires_grad=True) for _ in range(3))

    def step() -> Any:
        x.grad = w.grad = b.grad = None
        (x * w + b).tanh().sum().backward()

    compiled = T.compile(step, fullgraph=True)
    for _ in range(5):
        compiled()
    assert len(compiled.explain().graphs[0].ops) <= 3, compiled.graph()
