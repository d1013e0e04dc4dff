"""Random programs whose turns meet, or all but: at the counter, beside it and at fixed places, set and added to, and numbers that go in and
out of loops inside of each other. A reversed loop may run upwards where its turns commute; here they all run downwards once more.

`python -m tests.adjoints.random_order --first 0 --count 3000` runs many by hand.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import linecache
import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba import prange

from nbgrad.adjoints import Differentiable, Refused
from nbgrad.adjoints.analyse import POLICIES, Plan
from nbgrad.adjoints.parallel import cut
from nbgrad.kernels import functions

_SIZE = 4
_RANGES = (
    *("range(n)", "range(n)", "range(n)", "range(1, n)", "range(n - 1)", "range(n - 1, -1, -1)"),
    *("range(-n, n)", "range(1, -n, -1)", "range(-2, n - 1)", "range(0, n, 2)", "range(2)", "range(low, n)"),
)


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names = 0
        self.floats = ["s", "t", "u", "a"]
        self.own: list[str] = []  # arrays that a turn makes
        self.plain = self.random.random() < 0.6  # mostly sums, and what stands at the counter

    def text(self) -> str:
        self.lines = ["def program(x, M, a, n, low):", "    y, z = np.ones(n + 1), np.zeros(n + 1)"]
        self.lines += ["    w = np.zeros((n + 1, n + 1))", "    y[:n] = x * a", "    w[1:, :n] = M"]
        self.lines += ["    s, t, u, p = 0.3, a, 1.0, 0"]
        self.block(0, [], self.random.randint(1, 3), loops=1.0)
        self.lines += [
            "    return s * 1.1 + t * s + u * 0.7 + np.sum(y * y) + np.sum(z * y) + np.sum(w * w) * 0.5"
        ]
        return "\n".join([*self.lines, ""])

    def place(self, counters: list[str]) -> str:
        r = self.random
        if not counters or r.random() < (0.05 if self.plain else 0.12):
            return r.choice(["0", "1", "-1", "p", "n - 1", "low"])
        c = counters[-1] if r.random() < 0.7 else r.choice(counters)
        if self.plain and r.random() < 0.8:
            return c
        return r.choice([c] * 9 + [f"{c} + 1", f"{c} - 1", f"n - 1 - {c}", f"{c} - n", f"{c} % 2"])

    def element(self, counters: list[str]) -> str:
        r = self.random
        if self.own and r.random() < 0.3:
            return f"{r.choice(self.own)}[{self.place(counters)}]"
        if r.random() < 0.25:
            return f"w[{self.place(counters)}, {self.place(counters)}]"
        at = self.place(counters)
        return f"{r.choice('yyzz' if ' + 1' in at else 'yyzzx')}[{at}]"

    def atom(self, counters: list[str]) -> str:
        r = self.random
        return r.choice(self.floats) if r.random() < (0.2 if self.plain else 0.45) else self.element(counters)

    def expression(self, counters: list[str]) -> str:
        a, b, c = (self.atom(counters) for _ in range(3))
        ways = [
            a,
            f"{a} * {b}",
            f"{a} * {b}",
            f"math.sin({a})",
            f"{a} * 0.5 + {b}",
            f"{a} - {b} * {c}",
            "0.5",
        ]
        return self.random.choice([*ways, f"({a} if {b} > 0.4 else {c})", f"{a} * {a}"])

    def scalar(self, counters: list[str]) -> str:
        r = self.random
        v, w = r.sample(self.floats, 2)
        e = self.expression(counters)
        if self.plain and r.random() < 0.75:
            return r.choice([f"{v} += {e}", f"{v} += {e}", f"{v} = {v} - {e}", f"{v} = {w}"])
        ways = [f"{v} += {e}", f"{v} += {e}", f"{v} += {e}", f"{v} -= {e}", f"{v} = {e}", f"{v} = {w}"]
        ways += [f"{v} = {v} + {w}", f"{v}, {w} = {w}, {v}", f"{v} = {v} * 0.5 + {e}", f"{v} = 0.0"]
        ways += [f"{v} = {e} + {v} - {self.atom(counters)}", f"{v} = {w} + {e}", f"{v} = max({v}, {e})"]
        return r.choice(ways)

    def block(self, depth: int, counters: list[str], statements: int, loops: float = 0.25) -> None:
        r = self.random
        for _ in range(statements):
            pad, c = "    " * (depth + 1), r.random()
            self.names += 1
            if c < loops and depth < 3:
                counter = f"i{self.names}"
                head = (
                    r.choice(_RANGES) if r.random() < 0.85 or not counters else f"range({counters[-1]} + 1)"
                )
                if depth == 0 and r.random() < 0.25:
                    head = "prange(n)"
                self.lines.append(f"{pad}for {counter} in {head}:")
                kept = r.choice(self.floats) if r.random() < 0.15 else ""
                if kept:
                    self.lines.append(f"{pad}    k{self.names} = {kept}")
                again = f"{pad}    {kept} = k{self.names}"
                self.inside(depth, [*counters, counter], r.randint(1, 4))
                if kept:
                    self.lines.append(again)
            elif c < 0.35 and depth:
                self.lines.append(
                    f"{pad}if {r.choice([self.atom(counters) + ' > 0.3', counters[-1] + ' > 1'])}:"
                )
                self.inside(depth, counters, r.randint(1, 2))
                if r.random() < 0.5:
                    self.lines.append(f"{pad}else:")
                    self.inside(depth, counters, 1)
            elif c < 0.38 and depth:
                self.lines.append(f"{pad}p = {r.choice(counters)} % n")
            elif c < 0.41 and depth:
                name = f"o{self.names}"
                self.lines.append(f"{pad}{name} = y * {self.atom(counters)}")
                self.own.append(name)
            elif c < (0.5 if self.plain else 0.44) and depth:
                name = f"v{self.names}"
                self.lines.append(f"{pad}{name} = {r.choice([*self.floats, '0.0'])}")
                self.floats.append(name)
            elif c < 0.46 and depth and not self.plain:
                self.lines.append(f"{pad}if {self.atom(counters)} > 0.9: {r.choice(['break', 'continue'])}")
            elif c < 0.49 and not self.plain:
                ways = [
                    "y[1:] = z[:-1] * s",
                    "y += z * t",
                    "z[:] = w[0] * u",
                    "s += np.sum(y * z)",
                    "w[1] = y",
                ]
                self.lines.append(
                    pad + r.choice([*ways, "z += w @ y * 0.1", "y[:] = w @ z", "y = y * 0.5 + z"])
                )
            elif c < 0.7:
                self.lines.append(pad + self.scalar(counters))
            else:
                target = self.element(counters).replace("x[", "y[")
                self.lines.append(
                    f"{pad}{target} {r.choice(['=', '=', '+=', '+=', '-=', '*='])} {self.expression(counters)}"
                )

    def inside(self, depth: int, counters: list[str], statements: int) -> None:
        """What it names is not known behind it."""
        floats, own = self.floats.copy(), self.own.copy()
        self.block(depth + 1, counters, statements)
        self.floats, self.own = floats, own


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Pieces of loops over `prange` run as plain Python."""
    compiled = functions.Compiled
    functions.Compiled = lambda function, text, helpers: function  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        functions.Compiled = compiled  # type: ignore[misc]


@contextlib.contextmanager
def downwards() -> Iterator[None]:
    """All reversed loops run from their last turn."""
    decision = Plan.commutes
    Plan.commutes = lambda *_: False  # type: ignore[method-assign]
    try:
        yield
    finally:
        Plan.commutes = decision  # type: ignore[method-assign]


def written(seed: int) -> tuple[Callable[..., Any], str]:
    text = _Writer(seed).text()
    file = f"<order {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope: dict[str, Any] = {"math": math, "np": np, "prange": prange}
    exec(compile(text, file, "exec"), scope)
    return scope["program"], text


@uncompiled()
@np.errstate(all="ignore")
def check(seed: int, second: bool = False) -> str:
    function, text = written(seed)
    draw = np.random.default_rng(seed)
    x, m, dx, dm = (draw.normal(size=s) for s in ((_SIZE,), (_SIZE, _SIZE)) * 2)
    given = 0.7, _SIZE, 1
    try:
        value = float(function(x.copy(), m.copy(), *given))
    except (IndexError, OverflowError, ValueError):
        return "beyond"
    if not abs(value) < 1e4:
        return "large"
    wrt, kinds = ("x", "M", "a"), Differentiable(function)._kinds((x, m, *given))
    tangent = Differentiable(function)._make("tangent", kinds, wrt)
    same, moved = tangent.plain(x.copy(), m.copy(), *given, dx.copy(), dm.copy(), 0.3)
    assert abs(same - value) <= 1e-12 * (1 + abs(value)), ("tangent", same, value, text)
    upwards = 0
    for policy in (POLICIES[seed % len(POLICIES)], POLICIES[(seed // 4 + 1) % len(POLICIES)]):
        gradients = []
        for order in (contextlib.nullcontext, downwards):
            with order():
                adjoint = Differentiable(function, policy)._make("adjoint", kinds, wrt)
            xb, mb = np.zeros_like(x), np.zeros_like(m)
            own, ab = adjoint.plain(x.copy(), m.copy(), *given, xb, mb, 1.0)
            pieces = cut(adjoint.name, adjoint.text, adjoint.helpers) if adjoint.text.dealt else None
            if pieces is not None:
                xp, mp = np.zeros_like(x), np.zeros_like(m)
                _, ap = pieces(x.copy(), m.copy(), *given, xp, mp, 1.0)
                close = all(
                    np.allclose(p, q, rtol=1e-9, atol=1e-9) for p, q in ((xp, xb), (mp, mb), (ap, ab))
                )
                assert close, ("pieces", policy, xp, xb, ap, ab, text)
            assert abs(own - value) <= 1e-12 * (1 + abs(value)), (policy, own, value, text)
            found = np.concatenate([xb, mb.ravel(), [ab]])
            if second:
                found = np.concatenate([found, _along(adjoint, policy, order, (x, m, *given), (dx, dm))])
            gradients.append((found, adjoint.text))
        (found, up), (wanted, down) = gradients
        if second and not np.max(np.abs(wanted)) < 1e6:
            return "large"
        size = 1 + np.max(np.abs(wanted))
        if not size < 1e8:
            return "large"
        upwards += up != down
        assert np.max(np.abs(found - wanted)) <= 1e-11 * size, ("order", policy, found, wanted, text)
        product = found[: 5 * _SIZE + 1] @ np.concatenate([dx, dm.ravel(), [0.3]])
        assert abs(product - moved) <= 1e-9 * size, ("tangent", policy, product, moved, text)
    return "upwards" if upwards else "ok"


def _along(
    made: Any, policy: Any, order: Callable[[], Any], args: tuple[Any, ...], d: tuple[Any, ...]
) -> Any:
    """The gradient of the gradient along a direction, by the adjoint of the adjoint."""
    first = Differentiable(made.plain, policy)
    args = (*args, np.zeros(_SIZE), np.zeros((_SIZE, _SIZE)), 1.0)
    names = [n for n in first.names if n not in ("n", "low", first.names[-1])]
    with order():
        back = first._make("adjoint", first._kinds(args), tuple(names))
    bars = [np.zeros(_SIZE), np.zeros((_SIZE, _SIZE)), *(a.copy() for a in d)]
    found = back.plain(*(a.copy() if isinstance(a, np.ndarray) else a for a in args), *bars, 0.0, 0.3)
    return np.concatenate([bars[0], bars[1].ravel(), [found[2]]])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--second", type=int, default=10, help="each so many to second order")
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    found: collections.Counter[str] = collections.Counter()
    began = time.time()
    for seed in range(given.first, given.first + given.count):
        try:
            found[check(seed, bool(given.second) and seed % given.second == 0)] += 1
        except Refused as error:
            found["refused"] += 1
            if found["refused"] < 6:
                print(seed, error)
        except Exception as error:
            found["WRONG"] += 1
            if found["WRONG"] < 4:
                print(
                    "WRONG",
                    seed,
                    type(error),
                    *(error.args[0] if isinstance(error, AssertionError) else error.args),
                )
            else:
                print("WRONG", seed, str(error)[:80])
        if time.time() - began > given.seconds:
            break
    print(dict(found), f"{time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
