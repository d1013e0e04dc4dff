"""Random programs of the subset, and what is asked of each: that the adjoint is the tangent to rounding and both are differences, to second
order, as plain Python and compiled.

`python -m tests.adjoints.random_programs --first 0 --count 2000` runs many by hand.
"""

from __future__ import annotations

import argparse
import collections
import linecache
import math
import random
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.adjoints import Differentiable, Refused
from nbgrad.adjoints.analyse import POLICIES

HELPERS = """
def h_product(u, v):
    if u > v:
        return u * v
    return v - 0.5 * u

def h_norm(r):
    s = 0.1
    for q in r:
        s += q * q
    return math.sqrt(s)

def h_scale(r, c):
    for i in range(len(r)):
        r[i] = r[i] * c + 0.1

def h_first(r, c):
    for i in range(len(r)):
        if r[i] > c:
            return r[i] * 2.0
        if r[i] < -c:
            break
        c *= 0.9
    return c
"""
WHOLE = [
    *("y[1:] = x[:3] * s", "y += x", "y[:] = np.dot(M, x)", "M[1] = y * t", "s = np.sum(y * x)", "M *= 0.5"),
    *(
        "t = np.max(y)",
        "h_scale(y, a)",
        "h_scale(M[2], s)",
        "y[:3] = y[1:]",
        "s, t = t, s",
        "s = np.dot(y, x)",
    ),
    *(
        "y[:] = y @ M",
        "t += (M @ M)[1, 2]",
        "x[:] = np.tanh(y) + x",
        "M += np.outer(x, y)",
        "y[::2] += x[:2]",
    ),
    *(
        "y[:] = x[::-1] * t",
        "M[:, 1] = y",
        "t = h_first(y, 0.4)",
        "s += np.sum(M.T * y)",
        "y[k] = y[k[0]] + x",
    ),
    *("y[:] = np.where(x > s, x * t, y)", "s += y[k[1]] * x[k[2]]", "M[1:3, :2] *= t", "t = np.mean(M * x)"),
    *(
        "y -= M[0] * s",
        "y[:] = np.sum(M, axis=1) * 0.3",
        "s = s if s < 2.0 else 0.5 * s",
        "t = np.min(x[1:])",
    ),
    *(
        "y = y * a - 0.2 * x",
        "y = 0.5 * (M @ y)",
        "y = np.cos(y) + s",
        "t = sum([v * s for v in y if v < t])",
    ),
    *(
        "t = max(v * x[j] for j, v in enumerate(y))",
        "s = np.sum(y[:, None] * x[None, :2])",
        "y[[0, 2]] = x[:2]",
    ),
    *("t = np.max(M, axis=1)[2]", "s *= np.mean(M, axis=0)[1]", "s = inner(t)", "t = inner(s, w=y[2])"),
    *("y[1:] = np.concatenate((x[:1], y[:2]))", "t = (s, a, y[0])[i0]", "s = np.sum(np.diag(M) * y)"),
    *(
        "t = h_norm([v * v for v in y])",
        "s = s if k[0] in (1, 2) or t > 0.4 else t",
        "t = outer(inner, y[1])",
    ),
    *("pair = (pair[0] * pair[1] + x, t)", "pair = (y * pair[1], s)", "s = pair[0][1] * pair[1]"),
    *("y[:2] += pair[0][2:]", "pair = (x * t, pair[1]) if s > t else (pair[0] * 0.5, t)"),
    *("y, w = w, y * a + x", "w = w * t + y", "s += w[1]", "(w, pair) = (pair[0] * s, (w, t))"),
    *("np.multiply(y, t, out=y)", "np.add(x[1:], y[:3], y[1:])", "M[k[:2], k[2:]] += y[:2]"),
    *(
        "grown = np.append(grown, s * 0.5)",
        "grown = np.concatenate((grown[-2:], y[1:2]))",
        "s += 0.1 * grown @ grown",
        "grown = grown[:-1] + grown[1:] if len(grown) > 1 else grown",
        "t += grown[0] * grown[-1]",
        "grown = grown[grown < t]",
        "y[:] = np.cumsum(M, axis=1)[2] * 0.3",
        "s = np.linalg.norm(M, axis=0)[1]",
        "y[:] = np.einsum('ij,j', M, x)",
    ),
    *("np.divide(x, y, out=w, where=y > 0.3)", "y = np.sort(M, axis=0)[1]", "s = np.std(M, axis=1)[i0]"),
    *(
        "y[:] = np.roll(M, 1, axis=0)[1] * t",
        "t = np.linalg.eigvalsh(M)[2]",
        "w = np.pad(y[1:3], (i0, 1), 'edge')",
    ),
    *("past.append(y * s)", "past.append(w.copy())", "s += past[-1][1] * t", "y[:] = past[len(past) // 2]"),
    *("past[0] = x * t", "past = [v * 0.5 for v in past]", "s += 0.1 * sum([v[1] for v in past])"),
    *("t = np.sum(np.array(past)[:, 2]) * 0.2", "w = past.pop() * s; past.append(x + w)", "past[-1][i0] = t"),
    *("pairs.append((s * 0.5, len(pairs)))", "t = pairs[-1][0] * pairs[0][1]", "pairs[0] = (t, 2)"),
    *("s += 0.1 * sum([v * n for v, n in pairs])", "t, k0 = pairs.pop(); pairs.append((t * s, k0))"),
    *("box['v'] = box['v'] * t", "box['g'] += s * 0.1", "box['v'] += x", "t = box['g'] * box['v'][2]"),
    *("box = {**box, 'g': t}", "box['v'][1:3] = y[:2]", "s = np.sum(M, where=M > t) * 0.2"),
    *("t = np.max(x, where=x < s, initial=0.5)", "s = np.sum(np.array([[v * u for v in y] for u in x[:2]]))"),
    *(
        "c = c * (s + 0.5j) / (1.5 + abs(c))",
        "z[:] = z * c",
        "s += 0.1 * (c * z[1]).imag",
        "z[i0] += y[1] * 1j",
    ),
    *(
        "z = z * 0.5 + y * c",
        "t = abs(np.sum(z * x))",
        "c = np.sum(np.exp(1j * y)) * 0.3",
        "z[1:] *= z[:-1].conj()",
    ),
    *(
        "c = c if c.real > s else 0.5 * z[k[0]]",
        "s = (z @ z).real * 0.2",
        "z.real[:] = y",
        "c, s = z[2] + t, c.imag",
    ),
    *(
        "z = np.where(x > t, z, 0.5j)",
        "for v in z: c = c * 0.5 + v",
        "c = (c ** 2 + 1.0) * 0.2",
        "z[z.real > t] *= 0.5j",
    ),
    *("s += np.sum(M[k, k] * y)", "y[:] = M[[0, 2, 1, 1], k]", "M[M > t] *= 0.5", "s += np.sum(M[M > s])"),
]


class Writer:
    """Writes a program of the seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = self.names = 0
        self.counters: tuple[str, ...] = ()
        self.in_loop = False

    def text(self) -> str:
        self.lines = ["def program(x, M, a, b, n, k):", "    y = np.empty(4)", "    for i in range(4):"]
        self.lines += ["        y[i] = x[i] * a + M[i, 1]", "    s = 0.5", "    t = b", "    i0 = n - 2"]
        self.lines += ["    def inner(v, w=0.3):", "        return v * w + s * y[0]"]
        self.lines += [
            "    def outer(f, v):",
            "        return f(v * t) - f(w=v, v=0.4)",
            "    held = [a, x[1]]",
            "    w, pair = x * x, (x * 0.5, s)",
            "    grown = x[:2] * 0.5",
            "    past = [y * 1.0]",
            "    pairs = [(s, 1)]",
            "    box = {'v': y * 0.5, 'g': a}",
            "    c, z = a + 1j * b, x * (0.5 + 0.3j)",
        ]
        for _ in range(self.random.randint(3, 6)):
            self.statement(0)
        ends = [
            "s + t",
            "s * y[1] + t",
            "t + np.sum(y)",
            "s - M[2, 3] * y[0]",
            "s",
            "t + held[-1] * len(held)",
            "s + abs(c) + np.sum(z).imag",
        ]
        self.out(f"return {self.random.choice(ends)}")
        return "\n".join([HELPERS, *self.lines, ""])

    def out(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    def new(self, hint: str) -> str:
        self.names += 1
        return f"{hint}{self.names}"

    def atom(self) -> str:
        number = repr(round(self.random.uniform(-1.5, 1.5), 2))
        return self.random.choice(
            ["a", "b", "s", "t", number, self.element(), self.element(), self.element()]
        )

    def place(self) -> str:
        counted = [*self.counters] * 3 + [f"3 - {c}" for c in self.counters]
        return self.random.choice(["0", "1", "2", "3", "-1", *counted])

    def element(self) -> str:
        matrix = f"M[{self.place()}, {self.place()}]"
        return self.random.choice([f"x[{self.place()}]", *[f"y[{self.place()}]"] * 2, *[matrix] * 2])

    def expression(self, deep: int = 0) -> str:
        r, c = self.random, self.random.random()
        if deep > 2 or c < 0.35:
            return self.atom()
        inner = self.expression(deep + 1)
        if c < 0.75:
            return f"({inner} {r.choice('+-**')} {self.expression(deep + 1)})"
        if c < 0.82:
            by = self.atom()
            return f"({inner} / (1.5 + {by} * {by}))"
        if c < 0.92:
            of = [
                "math.sin({})",
                "math.tanh({})",
                "math.exp(-abs({}))",
                "math.atan({})",
                "np.cos({})",
                "max({}, 0.3)",
            ]
            return r.choice([*of, "abs({})", "min({}, a)", "({}) ** 2", "math.log(2.0 + abs({}))"]).format(
                inner
            )
        if c < 0.95:
            return f"({inner} if {self.test()} else {self.expression(deep + 1)})"
        if c < 0.98:
            return f"h_product({inner}, {self.expression(deep + 1)})"
        return f"h_norm({r.choice(['x', 'y', 'M[1]', 'M[:, 2]', 'y[1:3]', 'x[::2]', 'M[::-1, 0]'])})"

    def test(self) -> str:
        more = (
            f" {self.random.choice(['and', 'or'])} {self.atom()} < 5.0" if self.random.random() < 0.2 else ""
        )
        return f"{self.atom()} {self.random.choice(['<', '>', '<=', '>='])} {self.expression(2)}{more}"

    def statement(self, deep: int) -> None:
        r, c = self.random, self.random.random()
        how = r.choice(["=", "=", "+=", "-=", "*="])
        if c < 0.22:
            self.out(f"{r.choice('stab')} {how} {self.expression()}")
        elif c < 0.42:
            target = self.element() if r.random() < 0.9 else "y[1]"
            self.out(f"{target} {how} {self.expression()}")
        elif c < 0.48:
            self.out(r.choice(WHOLE))
        elif c < 0.62 and deep < 3:
            self.out(f"if {self.test()}:")
            self.block(deep + 1)
            if r.random() < 0.6:
                self.out("else:")
                self.block(deep + 1)
        elif c < 0.82 and deep < 3:
            self.loop(deep)
        elif c < 0.86 and deep < 2:
            self.while_loop(deep)
        elif c < 0.90 and self.in_loop and deep < 4:
            self.out(f"if {self.test()}:")
            self.depth += 1
            self.out(r.choice(["break", "continue"]))
            self.depth -= 1
        elif c < 0.92 and deep > 0:
            self.out(f"if {self.test()}:")
            self.depth += 1
            self.out(f"return {self.expression()}")
            self.depth -= 1
        elif c < 0.935 and deep < 3:
            self.list_statement()
        elif c < 0.96 and deep < 3:
            local = self.new("z")
            self.out(f"{local} = np.{r.choice(['zeros', 'empty'])}(4)")
            self.out("for q in range(4):")
            self.depth += 1
            self.out(f"{local}[q] = x[q] * y[q] + s")
            self.depth -= 1
            self.out(f"s = {local}[2] * {local}[{self.place()}]")
        elif c < 0.98 and self.counters:
            self.of_the_turn_before()
        else:
            self.out(f"t = {self.expression()}")

    def of_the_turn_before(self) -> None:
        """What a turn sets, and the next one reads; a program that reads it in the first one raises."""
        local, number = self.new("l"), self.new("n")
        self.out(f"if {self.counters[-1]} > 0:")
        self.depth += 1
        self.out(f"s += {local}[1] * {number}")
        self.depth -= 1
        self.out(f"{local}, {number} = y * {self.atom()}, {self.expression(1)}")

    def list_statement(self) -> None:
        r = self.random
        which = r.choice(["push", "push", "push", "pop", "read", "all", "own"])
        if which == "push":
            self.out(f"held.append({self.expression(1)})")
        elif which == "pop":
            self.out("if len(held) > 1:")
            self.depth += 1
            self.out(f"s = held.pop() * {self.atom()}")
            self.depth -= 1
        elif which == "read":
            self.out(f"t = held[-1] * {self.atom()} + held[0]")
        elif which == "all":
            self.out("for q in held:")
            self.depth += 1
            self.out(f"s += 0.1 * q * {self.atom()}")
            self.depth -= 1
        else:
            local = self.new("l")
            self.out(f"{local} = [{self.atom()}]")
            self.out("for q in range(3):")
            self.depth += 1
            self.out(f"{local}.append({local}[q] * {self.atom()})")
            self.depth -= 1
            self.out(f"t = {local}[2] + sum({local})")

    def loop(self, deep: int) -> None:
        counter = self.new("i")
        ranges = ["range(4)", "range(4)", "range(1, 4)", "range(3, -1, -1)", "range(n)", "range(0, 4, 2)"]
        ranges += [f"range({c})" for c in self.counters] + [f"range({c}, 4)" for c in self.counters]
        self.out(f"for {counter} in {self.random.choice([*ranges, 'reversed(range(n))'])}:")
        counters, in_loop = self.counters, self.in_loop
        self.counters, self.in_loop = (*counters, counter), True
        self.block(deep + 1)
        self.counters, self.in_loop = counters, in_loop

    def while_loop(self, deep: int) -> None:
        turns, in_loop = self.new("w"), self.in_loop
        self.out(f"{turns} = 0")
        self.out(f"while {turns} < 3 and {self.atom()} < 2.0:")
        self.depth += 1
        self.out(f"{turns} += 1")
        self.depth -= 1
        self.in_loop = True
        self.block(deep + 1)
        self.in_loop = in_loop

    def block(self, deep: int) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.statement(deep)
        self.depth -= 1


def loaded(seed: int) -> tuple[Callable[..., Any], str]:
    text = Writer(seed).text()
    file = f"<program {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope: dict[str, Any] = {"np": np, "math": math}
    exec(compile(text, file, "exec"), scope)
    return scope["program"], text


def small(values: list[Any], bound: float = 1e5) -> bool:
    return all(np.all(np.isfinite(v)) and np.max(np.abs(v)) < bound for v in values)


class Case:
    """A program, a point and a direction."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.function, self.text = loaded(seed)
        self.policy: Any = (*POLICIES, ("steps", 2), ("revolve", 2))[seed % 6]
        self.program = Differentiable(self.function, self.policy)
        draw = np.random.default_rng(seed)
        self.x, self.m = draw.normal(size=4), draw.normal(size=(4, 4))
        self.dx, self.dm = draw.normal(size=4), draw.normal(size=(4, 4))
        self.da, self.db = draw.normal(), draw.normal()

    def args(self, e: float = 0.0) -> tuple[Any, ...]:
        a, b = 0.7 + e * self.da, -0.4 + e * self.db
        return self.x + e * self.dx, self.m + e * self.dm, a, b, 3, np.array([3, 0, -2, 1])

    def bars(self) -> tuple[Any, ...]:
        return np.zeros(4), np.zeros((4, 4))

    def directions(self) -> tuple[Any, ...]:
        return self.dx.copy(), self.dm.copy(), self.da, self.db

    @np.errstate(all="ignore")  # what grows too large is left out
    def check(self, compiled: bool = False, second: bool = False) -> str:
        """ok, or why it is left out; else an AssertionError."""
        try:
            value = self.function(*self.args())
        except (ArithmeticError, ValueError, UnboundLocalError):
            return "raises"
        if not small([value]):  # where `math` raises and compiled code gives NaN
            return "large"
        wrt = ("x", "M", "a", "b")
        adjoint = self.program._make("adjoint", self.program._kinds(self.args()), wrt)
        tangent = self.program._make("tangent", self.program._kinds(self.args()), wrt)
        again, moved = tangent.plain(*self.args(), *self.directions())
        xb, mb = self.bars()
        of_adjoint, ab, bb = adjoint.plain(*self.args(), xb, mb, 1.0)
        product = np.sum(xb * self.dx) + np.sum(mb * self.dm) + ab * self.da + bb * self.db
        if not small([value, moved, product, xb, mb]):
            return "large"
        assert abs(again - value) <= 1e-12 * (1 + abs(value)), (again, value)
        assert abs(of_adjoint - value) <= 1e-12 * (1 + abs(value)), (of_adjoint, value)
        fresh, written = adjoint.fresh
        if written:
            first = [np.full_like(b, np.nan) if n in written else b for n, b in zip("xM", self.bars())]
            fresh.plain(*self.args(), *first, 1.0)
            assert np.array_equal(first[0], xb) and np.array_equal(first[1], mb), ("fresh", written)
        scale = 1 + abs(moved) + np.sum(abs(xb)) + np.sum(abs(mb))
        assert abs(product - moved) <= 1e-9 * scale, ("adjoint and tangent", product, moved)
        found = self.differences(value, moved)
        if found != "ok":
            return found
        if compiled:
            self.compiled(adjoint, value, [xb, mb, ab, bb])
        return self.second(adjoint) if second else "ok"

    def differences(self, value: float, moved: float) -> str:
        left = right = middle = math.nan
        for e in (1e-5, 1e-6, 1e-4, 1e-7):
            try:
                left = (value - self.function(*self.args(-e))) / e
                right = (self.function(*self.args(e)) - value) / e
            except (ArithmeticError, ValueError, UnboundLocalError):
                return "raises"
            middle = (left + right) / 2
            if abs(middle - moved) <= 1e-4 * (1 + abs(moved)):
                return "ok"
        kink = abs(left - right) > 1e-3 * (1 + abs(left))
        assert kink, ("tangent and differences", moved, middle, left, right)
        return "kink"

    def compiled(self, adjoint: Any, value: float, expected: list[Any]) -> None:
        xb, mb = self.bars()
        again, ab, bb = adjoint(*self.args(), xb, mb, 1.0)
        primal = self.program(*self.args())
        assert np.allclose([again, primal], value, rtol=1e-9, atol=1e-9), (again, primal, value)
        for got, want in zip([xb, mb, ab, bb], expected):
            slack = 1e-9 * (1 + np.max(np.abs(want)))
            assert np.allclose(got, want, rtol=1e-8, atol=slack), ("compiled", got, want)

    def second(self, adjoint: Any) -> str:
        """A Hessian is symmetric: the tangent of the adjoint is the adjoint of the adjoint."""
        first = Differentiable(adjoint.plain, self.policy)
        args = (*self.args(), *self.bars(), 1.0)
        names = [n for n in first.names if n not in ("n", "k", first.names[-1])]
        kinds = first._kinds(args)
        forwards = first._make("tangent", kinds, tuple(names))
        xbd, mbd = self.bars()
        moved = forwards.plain(*self.args(), *self.bars(), 1.0, *self.directions(), xbd, mbd)
        abd, bbd = moved[len(moved) // 2 + 1 :]
        alone, (x_alone, m_alone) = first._make("tangent alone", kinds, tuple(names)), self.bars()
        moved_alone = alone.plain(*self.args(), *self.bars(), 1.0, *self.directions(), x_alone, m_alone)
        for got, want in zip([x_alone, m_alone, *moved_alone], [xbd, mbd, *moved[len(moved) // 2 :]]):
            np.testing.assert_array_equal(got, want)
        backwards = first._make("adjoint", kinds, tuple(names))
        x2, m2 = self.bars()
        back = backwards.plain(
            *self.args(), *self.bars(), 1.0, x2, m2, self.dx.copy(), self.dm.copy(), 0.0, self.da, self.db
        )
        scale = 1e-8 * (1 + np.max(np.abs(xbd)) + np.max(np.abs(mbd)) + abs(abd) + abs(bbd))
        if not np.isfinite(scale) or scale > 1:
            return "large"
        for got, want in zip([x2, m2, back[3], back[4]], [xbd, mbd, abd, bbd]):
            assert np.allclose(got, want, rtol=1e-8, atol=scale), ("second order", got, want)
        return "ok"


def late(*_: Any) -> None:
    raise TimeoutError


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in dict(first=0, count=100, compiled=0, second=20, seconds=1e9, wait=120).items():
        parser.add_argument(f"--{name}", type=float if name == "seconds" else int, default=default)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, late)
    found: collections.Counter[str] = collections.Counter()
    began = time.time()
    for seed in range(given.first, given.first + given.count):
        case = None
        signal.alarm(given.wait)
        try:
            case = Case(seed)
            compiled = bool(given.compiled) and seed % given.compiled == 0
            found[case.check(compiled, bool(given.second) and seed % given.second == 0)] += 1
        except Refused as error:
            found["refused"] += 1
            print(seed, error)
        except Exception as error:
            found["WRONG"] += 1
            if found["WRONG"] < 4:
                print(seed, "".join(traceback.format_exception(error)[-3:])[-900:])
                if case and found["WRONG"] < 2:
                    print(case.text[len(HELPERS) :])
            else:
                print(seed, str(error)[:150])
        signal.alarm(0)
        if time.time() - began > given.seconds:
            break
    print(dict(found), f"{time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
