"""Loops that run again between copies of what they carry, what gradients hold, and values that the reverse sweep leaves alone."""

import functools
import math
import re
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

from asv_benchmarks.gradbench.loops import EVALS
from nbgrad import differentiable
from nbgrad.adjoints.revolve import onward

POLICIES: list[Any] = ["auto", "steps", ("steps", 1), ("steps", 3), ("steps", 100)]
POLICIES += [("revolve", 1), ("revolve", 2), ("revolve", 3), ("revolve", 100)]


def heat(u, c, n):
    v = u.copy()
    w = np.empty(len(u))
    for _ in range(n):
        for i in range(1, len(u) - 1):
            w[i] = v[i] + c * (v[i - 1] - 2.0 * v[i] + v[i + 1]) - 0.001 * v[i] ** 3
        for i in range(1, len(u) - 1):
            v[i] = w[i]
    s = 0.0
    for i in range(len(u)):
        s += v[i] ** 2
    return s


def until(x, a):
    """A loop of scalars that is left, a `while` of arrays, and one within a branch."""
    t, turns = 1.0, 0
    while t < 50.0:
        t = t * a + math.sin(t)
        turns += 1
        if turns > 30:
            break
    y = np.ones((2, len(x)))
    k = 0
    while k < 7:
        for i in range(len(x)):
            y[k % 2, i] += math.sin(y[1 - k % 2, i] * x[i]) * a
        k += 1
    if a > 0.5:
        for i in range(3, 9, 2):
            for j in range(len(x)):
                y[0, j] = y[0, j] * y[1, j] - 0.1 * i
    return t, y


def stepped(x, v, n):
    """Arguments that are written."""
    for _ in range(n):
        for i in range(len(x)):
            v[i] -= 0.1 * math.sin(x[i])
        for i in range(len(x)):
            x[i] += 0.1 * v[i]


def lattice(x, n):
    """What inner loops save is as long as the turns, of a number that is a sum."""
    m = 2 * len(x) + 1
    a = np.full(m, 0.3)
    for t in range(n):
        b = a.copy()
        for i in range(m):
            c = b[i]
            if i > 0:
                c += math.sin(b[i - 1] * x[i % len(x)])
            a[i] = c * math.exp(-c) + 0.1 * t
    return np.sum(a)


def traced(x, a, out, twice):
    """What turns show at the counter is no state; what is set at a place of its own each time, or added to, is."""
    s = 0.0
    for t in range(len(out)):
        for i in range(len(x)):
            x[i] = math.sin(x[i] * a + s)
        s = s * a + x[0]
        for i in range(len(x)):
            out[t, i] = x[i] * s
        twice[t] = s
        twice[(t * 2) % len(twice)] += s * s
    return s


def shown(x, a, n):
    out = np.empty(n)
    for t in range(n):
        x += a * math.sin(x)
        out[t] = x * x
    return out


def shown_and_set(x, a, out):
    """What is set behind the steps stays as it is, whatever is run again."""
    s = 0.0
    for t in range(len(out)):
        x += a * math.sin(x)
        out[t] = x
    for t in range(len(out)):
        out[t] = out[t] * out[t] + 1.0
        s += out[t]
    out[1] = 5.0 * x
    return s


def shown_from_the_end(x, a, out):
    """Two turns set the same place."""
    for t in range(-2, len(out)):
        x += a * math.sin(x)
        out[t] = x
    return x


def plain(f: Any, what: str, args: Any, wrt: Any = None) -> Any:
    return f._make(what, f._kinds(args), wrt)


def copied(args: Any) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


X = np.array([0.3, -0.4, 0.9, 1.2, 0.1])


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize(
    ("function", "args", "seeds"),
    [
        (heat, (X, 0.2, 7), (1.0,)),
        (lattice, (X, 9), (1.0,)),
        (until, (X, 1.1), (0.7, np.arange(10.0).reshape(2, 5))),
        (stepped, (X, X[::-1].copy(), 8), (X + 1.0, X - 2.0)),
        (stepped, (X, X[::-1].copy(), 0), (X + 1.0, X - 2.0)),
        (
            traced,
            (X, 0.7, np.zeros((6, 5)), np.ones(6)),
            (0.4, X, np.cos(np.arange(30.0)).reshape(6, 5), np.sin(np.arange(6.0))),
        ),
        (shown, (0.3, 0.2, 9), (np.cos(np.arange(9.0)),)),
        (shown_and_set, (0.3, 0.2, np.ones(9)), (0.4, np.cos(np.arange(9.0)))),
        (shown_from_the_end, (0.3, 0.2, np.ones(9)), (0.4, np.cos(np.arange(9.0)))),
    ],
    ids=["heat", "lattice", "until", "stepped", "none", "traced", "shown", "set", "from_the_end"],
)
def test_against_the_tangent(function: Any, args: Any, seeds: Any, policy: Any) -> None:
    f = differentiable(function, policy=policy)
    tangent, adjoint = plain(f, "tangent", args), plain(f, "adjoint", args)
    draw = np.random.default_rng(2)
    moves = [draw.normal(size=np.shape(a)) for n, a in zip(tangent.program.params, args) if n in tangent.bars]
    given, moved = copied(args), copied(moves)
    results = tangent.plain(*given, *moved)
    n = len(tangent.program.results)
    results = list(results) if isinstance(results, tuple) else []
    outs = [moved[tangent.bars.index(w)] for w in tangent.written]
    forwards = sum(np.sum(s * d) for s, d in zip(seeds, [*results[n:], *outs]))
    again = copied(args)
    bars = {n: np.zeros_like(a) for n, a in zip(adjoint.program.params, args) if n in adjoint.bars}
    for name, seed in zip(adjoint.written, seeds[n:]):
        bars[name][...] = seed
    found = adjoint.plain(*again, *bars.values(), *seeds[:n])
    found = list(found) if isinstance(found, tuple) else [found]
    for a, b in zip(found[:n], results[:n]):
        assert np.array_equal(a, b)
    assert all(np.array_equal(a, b) for a, b in zip(again, given))  # arrays end as the function leaves them
    scalars = iter(found[n:])
    backwards = sum(
        np.sum((bars[w] if w in bars else next(scalars)) * moves[tangent.bars.index(w)]) for w in adjoint.wrt
    )
    assert backwards == pytest.approx(forwards, rel=1e-11)


def test_a_value_is_not_what_the_reverse_sweep_makes_of_it() -> None:
    def squares(x):
        s = 1.0
        for v in x:
            s = s * s * v
        return s

    for policy in POLICIES:
        f = differentiable(squares, policy=policy)
        x, xb = np.array([2.0, 3.0, 4.0]), np.zeros(3)
        assert plain(f, "adjoint", (x,)).plain(x, xb, 1.0) == 576.0
        assert xb.tolist() == [1152.0, 384.0, 144.0]


@pytest.mark.parametrize("policy", ["store", "rerun", ("steps", 5), ("revolve", 3)], ids=str)
@pytest.mark.parametrize("name", ["gmm", "lse", "ode", "heat"])
def test_memory(name: str, policy: Any) -> None:
    """Beside what Python counts of a plain run."""
    e = next((e for e in EVALS if e.function.__name__ == name), None)
    size = {"gmm": (4, 8, 12), "lse": (2000,), "ode": (50, 4)}.get(name)
    args = (np.linspace(0.0, 1.0, 100), 0.2, 20) if e is None else e.args(np.random.default_rng(0), size)
    f = differentiable(heat if e is None else e.function, policy=policy)
    wrt = None if e is None else e.wrt
    adjoint = plain(f, "adjoint", args, wrt)
    told = plain(f, "memory", args, wrt).plain(*copied(args))
    bars = [np.zeros_like(a) for n, a in zip(adjoint.program.params, args) if n in adjoint.bars]
    adjoint.plain(*copied(args), *[b.copy() for b in bars], 1.0)  # what Python itself remembers is there now
    tracemalloc.start()
    adjoint.plain(*args, *bars, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (
        0.5 * sum(told) - 3000 < peak < 1.6 * sum(told) + 9000
    )  # an array that grows is there twice meanwhile


def test_what_is_shown_at_each_turn_is_not_copied() -> None:
    told = {
        policy: differentiable(shown, policy=policy).memory(0.3, 0.2, 10_000) for policy in ("store", "steps")
    }
    assert told["store"].saved >= 80_000
    assert told["steps"].saved + told["steps"].copies < 4_000


@functools.cache
def fewest(turns: int, room: int) -> int:
    """How many turns must be run to reverse so many, each but the one that is reversed next: over all places of the next copy."""
    if turns < 2 or room < 2:
        return turns * (turns - 1) // 2
    return min(k + fewest(turns - k, room - 1) + fewest(k, room) for k in range(1, turns))


def run_again(turns: int, room: int) -> int:
    """By the generated text's way of laying copies."""
    places, beyond, ran = [], 0, 0
    for t in range(turns):
        if t == beyond:
            beyond = t + onward(turns - t, room - len(places))
            places.append(t)
    ran = places[-1]
    for at in range(turns - 1, -1, -1):
        first = places[-1]
        if first == at:
            places.pop()
            continue
        beyond = first + onward(at + 1 - first, room - len(places) + 1)
        for t in range(first, at):
            if t == beyond:
                beyond = t + onward(at + 1 - t, room - len(places))
                places.append(t)
            assert len(places) <= room
        ran += at - first
    return ran


def test_copies_lie_where_the_fewest_turns_are_run_again() -> None:
    for turns in range(1, 40):
        for room in range(1, 12):
            assert run_again(turns, room) == fewest(turns, room), (turns, room)
    assert run_again(10_000, 140) < 2 * 10_000


_CHILD = """
import sys
import numpy as np
from nbgrad import differentiable
from tests.adjoints.test_steps import heat

def most():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

kind, number, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
f = differentiable(heat, policy=(kind, number))
u = np.sin(np.linspace(0.0, 3.1, 1000))
told = f.memory(u, 0.2, steps).total
f.value_and_grad(u, 0.2, 3)
before = most()
f.value_and_grad(u, 0.2, steps)
print(told, most() - before)
"""


def resident(*policy: Any, steps: int) -> tuple[int, int]:
    """Bytes that `memory` tells, and by which a process grows."""
    command = [sys.executable, "-c", _CHILD, *map(str, policy), str(steps)]
    told, grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(told), int(grown)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="no /proc to read the size of a process from"
)
@pytest.mark.parametrize("policy", [("revolve", 1000), ("revolve", 50), ("steps", 300)], ids=str)
def test_the_memory_of_a_process(policy: Any, whole: bool) -> None:
    """Ten thousand steps of a state of a thousand, a hundred thousand if `whole`; to store them takes 240 MB, or ten times that."""
    told, grown = resident(*policy, steps=100_000 if whole else 10_000)
    assert told < 20e6 and 0.7 * told - 1e6 < grown < 1.1 * told + 2e6, (told, grown)


def test_memory_of_what_the_caller_sees_at_the_end() -> None:
    x = np.linspace(0.1, 0.9, 500)
    for policy in (("steps", 4), ("revolve", 4)):
        f = differentiable(stepped, policy=policy)
        held = f.memory(x, x.copy(), 12)
        copies = 4 if policy[0] == "revolve" else 3
        assert held.copies == 8 * (2 * 500 * (copies + 1) + 4 * (policy[0] == "revolve"))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["steps", ("revolve", 50), ("revolve", 1500)], ids=str)
def test_a_million_steps(policy: Any, whole: bool) -> None:
    """A state of a thousand in less than 100 MB; in CI, ten thousand steps."""
    f = differentiable(heat, policy=policy)
    steps = 1_000_000 if whole else 10_000
    u = np.sin(np.linspace(0.0, 3.1, 1000))
    held = f.memory(u, 0.2, steps)
    assert held.total < (100e6 if whole or policy == ("revolve", 1500) else 10e6)
    stored = differentiable(heat).memory(u, 0.2, 10_000)
    assert stored.total > 75e6
    value, (by_u, by_c) = f.value_and_grad(u, 0.2, steps)
    (_, moved) = f.jvp((u, 0.2, steps), (None, 1.0, None))
    assert moved == pytest.approx(by_c, rel=1e-9) and value > 0.0 and by_u.shape == (1000,)
    if whole and isinstance(policy, tuple):
        told, grown = resident(*policy, steps=steps)
        assert told == held.total and grown < 100e6, (told, grown)


def test_positions_in_storage_are_unsigned_in_every_order() -> None:
    """Or counters of loops that go up from 0; else an index may wrap around, and no loop is made vectors."""
    x = np.linspace(0.5, 1.5, 5)
    for policy in ("store", ("steps", 3)):
        f = differentiable(heat, policy=policy).adjoint(x, 0.2, 3)
        for text in (f.primal_source(x, 0.2, 3, x, 1.0), f.tangent_source(x, 0.2, 3, x, 1.0)):
            places = re.findall(r"saved_\w+\[(.*?)\]", text)
            counters = {
                n for n, turns in re.findall(r"for (\w+) in range\((.*)\):", text) if "-1" not in turns
            }
            parts = [part for place in places for part in re.split(r", (?![^(]*\))", place)]
            assert len(places) > 5 and all(p.startswith("u(") or p in counters for p in parts), (parts, text)


def test_steps_that_nothing_moves_back_through() -> None:
    def program(x, z, n):
        y, k = x.copy(), np.empty(len(x))
        for _ in range(n):
            for i in range(len(x)):
                k[i] = y[i]
            for i in range(len(x)):
                y[i] += 0.5 * z[i]
            for i in range(len(x)):
                k[i] = y[i] * z[i]
        return np.sum(y)

    for policy in POLICIES:
        f = differentiable(program, policy=policy)
        made, xb = f._make("adjoint", f._kinds((X, X, 3)), ("x",)), np.zeros(5)
        assert made.plain(X, X, 3, xb, 1.0) == pytest.approx(2.5 * np.sum(X)) and xb.tolist() == [1.0] * 5


def test_what_a_policy_may_be() -> None:
    for wrong in ("often", "revolve", ("steps", 0), ("revolve", 0), ("steps", 2.0), ("store", 3), ("steps",)):
        with pytest.raises(ValueError, match="policy must be one of"):
            differentiable(heat, policy=wrong)
