"""Small calls: what is remembered of them is bounded, and what a loop of them costs grows with the loop alone."""

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compare import assert_same
from tests.support import T


def cost(run: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


LOOPS: dict[str, Callable[[Any, int], Any]] = {
    "rows": lambda x, n: [x[k].sum() for k in range(n)],
    "elements": lambda x, n: [x[k, 1] for k in range(n)],
    "windows": lambda x, n: [x[k : k + 2].sum() for k in range(n)],
    "iteration": lambda x, n: [row.sum() for row in x],
    "parts": lambda x, n: [part.sum() for part in x.split(1)],
}


@pytest.mark.parametrize("name", LOOPS)
def test_gradients_of_all_parts_cost_as_much_as_there_are_parts(name: str) -> None:
    """The rows are long: to clear or to add a whole one for each part is what would show."""

    def run(n: int) -> Callable[[], Any]:
        x = T.ones(n, 256, requires_grad=True)
        total = T.stack(LOOPS[name](x, n)).sum()
        return lambda: total.backward(retain_graph=True)

    assert cost(run(2000)) < 20 * cost(run(200))


def test_rows_and_elements_of_a_long_tensor_have_one_plan() -> None:
    from nbgrad.base.tables import Table, living

    def remembered() -> int:
        return sum([len(t) for t in living() if isinstance(t, Table)])

    x = T.ones(3000, 5, requires_grad=True)
    before = remembered()
    for k in range(3000):
        x[k], x[k, 2]
    assert remembered() - before < 100


@pytest.mark.oracle
def test_the_benchmarks_calls_and_programs_give_what_torchs_do(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "asv_benchmarks"))
    small = importlib.import_module("benchmarks.small")
    calls, wanted = small.calls(T), small.calls(torch)
    assert calls.keys() == wanted.keys()
    for name in calls:
        for _ in range(2):  # the second one has a plan
            got, want = calls[name](), wanted[name]()
            if name == "c.numpy()":
                assert (got == want).all()
                continue
            several = isinstance(got, (tuple, list))
            for g, w in zip(got if several else [got], want if several else [want], strict=True):
                assert_same(g, w, name)
                node, their = getattr(g, "grad_fn", None), getattr(w, "grad_fn", None)
                assert (node and node.name()) == (their and their.name()), name
    for name, program in small.PROGRAMS.items():
        got, want = program(T), program(torch)
        got.check()
        assert_same(got.run(), want.run(), name, tol=100)
