"""Measurements say what PyTorch's say of the same times, and what measures waits, warms up and names what it cannot do."""

import random
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import nbgrad
import nbgrad.utils.benchmark as benchmark


def told(b: Any, seed: int) -> list[Any]:
    """The table of random measurements, and all that is told of each."""
    rng = random.Random(seed)
    found = []
    for label in ("A", None)[: rng.randint(1, 2)]:
        for k in range(rng.randint(1, 4)):
            for description in ["n=1", "n=1000"][: rng.randint(1, 2)]:
                base, spread = 10 ** rng.uniform(-8, 0.5), rng.choice([0.01, 0.3, 1])
                times = [base * (1 + rng.uniform(0, spread)) * 10 for _ in range(rng.randint(1, 12))]
                task = b.TaskSpec(
                    "f(x)\ng(x)" if k == 2 else f"f{k}(x)",
                    ["x = 1", "pass", "x = 1\ny = 2", ""][k],
                    label=label,
                    sub_label=rng.choice([None, "s"]) if k else None,
                    description=description,
                    env=rng.choice(["e1", "env2"]) if seed % 2 else None,
                    num_threads=rng.choice([1, 1, 4]),
                )
                found.append(b.Measurement(10, times, task))
    table = b.Compare(found)
    if seed % 5 in (1, 3):
        table.trim_significant_figures()
    if seed % 5 == 2:
        table.colorize(rowwise=bool(seed % 2))
    if seed % 5 == 3:
        table.highlight_warnings()
    figures = [(m.median, m.mean, m.iqr) for m in found]
    words = [(m.significant_figures, m.has_warnings, m.title, m.as_row_name, m.env, m.stmt) for m in found]
    return [str(table), [repr(m).partition("\n")[2] for m in found], words, figures]


@pytest.mark.oracle
def test_the_same_times_say_the_same() -> None:
    import torch.utils.benchmark as theirs

    for seed in range(60):
        *ours, figures = told(benchmark, seed)
        *expected, their_figures = told(theirs, seed)
        assert ours == expected
        for mine, other in zip(figures, their_figures):
            assert mine == pytest.approx(other, rel=1e-12)
    for x in (3.14159, 0.00271, 12345.6):
        assert [benchmark.trim_sigfig(x, n) for n in (1, 2, 3)] == [
            theirs.trim_sigfig(x, n) for n in (1, 2, 3)
        ]
    for t in (1e-9, 3e-7, 5e-5, 1.0, 200.0):
        assert benchmark.select_unit(t) == theirs.select_unit(t)


def test_what_is_measured() -> None:
    counted: list[int] = []
    timer = benchmark.Timer(
        "counted.append(torch.get_num_threads())", globals={"counted": counted}, num_threads=1
    )
    before = nbgrad.get_num_threads()
    m = timer.timeit(200)
    assert (m.number_per_run, len(m.times), len(counted), set(counted)) == (200, 1, 202, {1})
    assert nbgrad.get_num_threads() == before
    seen: list[Any] = []
    m = timer.blocked_autorange(
        callback=lambda number, taken: seen.append((number, taken)), min_run_time=0.01
    )
    assert seen == [(m.number_per_run, taken) for taken in m.raw_times] and sum(m.raw_times) >= 0.01
    m = timer.adaptive_autorange(0.9, max_run_time=30)  # it is sure long before
    assert len(m.times) > 3
    assert repr(m).startswith("<nbgrad.utils.benchmark.utils.common.Measurement object at 0x")


def test_a_function_that_is_slower_takes_longer() -> None:
    timers = [benchmark.Timer(f"sum(range({n}))") for n in (10, 10000)]
    quick, slow = (min(timer.timeit(200).median for _ in range(5)) for timer in timers)
    assert slow > 5 * quick


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: benchmark.Timer(lambda: 1), "Currently only a `str` stmt is supported."),  # type: ignore[arg-type]
        (lambda: benchmark.Timer("1", language="x"), "Invalid language `x`."),
        (
            lambda: benchmark.Timer("1", global_setup="x"),
            "global_setup is C[+][+] only, got `x`. Most likely this",
        ),
        (lambda: benchmark.Timer("1", language="c++"), "no Timer for C[+][+]"),
        (lambda: benchmark.Timer("1").collect_callgrind(), "Valgrind is not run"),
        (lambda: benchmark.Timer("1").autorange(), "See `Timer.blocked_autorange.`"),
        (lambda: benchmark.Compare([1]), "Expected an instance of `Measurement`, got <class 'int'> instead."),  # type: ignore[list-item]
    ],
)
def test_what_is_refused(use: Any, text: str) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=text):
        use()


def lines_of(module: str, command: list[str]) -> list[str]:
    done = subprocess.run([sys.executable, *command, module], capture_output=True, text=True, check=True)
    return [line.partition(":")[0] for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_environment_is_told() -> None:
    found = lines_of("torch.utils.collect_env", ["-m", "nbgrad", "run", "-m"])
    assert found[:3] == ["Collecting environment information...", "PyTorch version", "Is debug build"]
    assert isinstance(nbgrad.utils.collect_env, ModuleType)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.oracle
def test_the_environment_is_told_in_pytorchs_lines() -> None:
    ours = lines_of("torch.utils.collect_env", ["-m", "nbgrad", "run", "-m"])
    theirs = lines_of("torch.utils.collect_env", ["-W", "ignore", "-m"])
    end = ours.index("Versions of relevant libraries")
    assert ours[:end] == theirs[:end]
