"""Random programs that write over what they have read: eliminations, substitutions and tables as one might get them wrong. The adjoint,
which may rely on what is not written over any more, is compared with the tangent.

`python -m tests.adjoints.random_places --first 0 --count 3000` runs many by hand.
"""

from __future__ import annotations

import argparse
import collections
import linecache
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.adjoints import Differentiable

_SIZE = 4


def written(seed: int) -> str:
    r = random.Random(seed)
    lines = ["def program(x, M, n):"]
    names = 0

    def index(counters: list[str]) -> str:
        if not counters or r.random() < 0.08:
            return r.choice(["0", "1", "n - 1", "p", "p"])
        c = r.choice(counters)
        return r.choice([c, c, c, c, f"{c} + 1", f"{c} - 1", f"n - 1 - {c}", "p"])

    def element(counters: list[str]) -> str:
        if r.random() < 0.35:
            return f"x[{index(counters)}]"
        return f"M[{index(counters)}, {index(counters)}]"

    def ranged(counters: list[str]) -> str:
        ways = ["n", "n", "1, n", "n - 1, -1, -1", "0, n, 2", "n - 1", "n - 2, -1, -1"]
        for c in counters:
            ways += [
                c,
                f"{c} + 1, n",
                f"{c}, n",
                f"{c}, -1, -1",
                f"{c} - 1, -1, -1",
                f"{c} + 1",
                f"n - 1, {c}, -1",
            ]
        return f"range({r.choice(ways)})"

    def block(depth: int, counters: list[str], statements: int) -> None:
        nonlocal names
        pad = "    " * (depth + 1)
        for _ in range(statements):
            c = r.random()
            if c < 0.42 and depth < 4:
                names += 1
                counter = f"i{names}"
                lines.append(f"{pad}for {counter} in {ranged(counters)}:")
                block(depth + 1, [*counters, counter], r.randint(1, 3))
            elif c < 0.5 and counters:
                lines.append(f"{pad}p = {index(counters)}")
            elif c < 0.58 and counters:
                lines.append(f"{pad}if {element(counters)} > {element(counters)}:")
                lines.append(f"{pad}    p = {r.choice(counters)}")
            elif c < 0.64 and depth:
                lines.append(f"{pad}if {element(counters)} > 0.1:")
                lines.append(f"{pad}    {element(counters)} = {element(counters)} * {element(counters)}")
            else:
                how = r.choice(["=", "=", "+=", "-="])
                a, b, d = element(counters), element(counters), element(counters)
                e = r.choice(
                    [f"{a} * {b}", f"math.sin({a}) * {b}", f"{a} / (2.0 + {b} * {b})", f"{a} * {b} - {d}", a]
                )
                lines.append(f"{pad}{element(counters)} {how} {e}")

    lines.append("    p = 0")
    lines.append("    s = 0.0")
    block(0, [], r.randint(2, 4))
    lines.append("    for i in range(n):")
    lines.append("        s += x[i] * x[i] + M[i, i] * M[0, i]")
    lines.append("    return s")
    return "\n".join([*lines, ""])


def written_small(seed: int) -> str:
    """With small arrays of its own, in branches, short and long loops, `while` and early exits."""
    r = random.Random(seed)
    lines = [
        "def program(x, M, n):",
        "    a = np.zeros(3)",
        "    b = np.empty(2)",
        "    m = np.zeros((2, 3))",
        "    s = 0.3",
    ]
    lines += ["    for i in range(2):", "        b[i] = x[i]"]
    names = 0

    def place(n: int, counters: list[tuple[str, int]]) -> str:
        ways = [str(k) for k in range(-1, n)]
        for c, top in counters:
            if top <= n:
                ways += [c] * 4 + [f"{n - 1} - {c}"] * 2
            if top < n:
                ways += [f"{c} + 1"]
            if top > n and r.random() < 0.05:
                ways += [f"{c} % {n}"]  # a place that is not known
        return r.choice(ways)

    def element(counters: list[tuple[str, int]]) -> str:
        c = r.random()
        if c < 0.2:
            return f"x[{place(4, counters)}]"
        if c < 0.3:
            return f"M[{place(4, counters)}, {place(4, counters)}]"
        if c < 0.7:
            return f"a[{place(3, counters)}]"
        return f"b[{place(2, counters)}]" if c < 0.8 else f"m[{place(2, counters)}, {place(3, counters)}]"

    def block(depth: int, counters: list[tuple[str, int]], statements: int, in_loop: bool) -> None:
        nonlocal names
        pad = "    " * (depth + 1)
        for _ in range(statements):
            c = r.random()
            names += 1
            if c < 0.3 and depth < 3:
                top = r.choice([2, 3, 3, 3, 4, 4, 9])
                ways = ["range({0})", "range({0})", "range({0} - 1, -1, -1)", "range(0, {0}, 2)"]
                ways += ["range(n)"] if top == 4 else []
                counter = f"i{names}"
                lines.append(f"{pad}for {counter} in {r.choice(ways).format(top)}:")
                block(depth + 1, [*counters, (counter, top)], r.randint(1, 3), True)
            elif c < 0.36 and depth < 2:
                lines.append(f"{pad}w{names} = 0")
                lines.append(f"{pad}while w{names} < 3 and {element(counters)} < 1.5:")
                lines.append(f"{pad}    w{names} += 1")
                block(depth + 1, counters, r.randint(1, 2), True)
            elif c < 0.5 and depth < 4:
                lines.append(f"{pad}if {element(counters)} > {r.choice(['0.1', element(counters)])}:")
                block(depth + 1, counters, r.randint(1, 2), in_loop)
                if r.random() < 0.5:
                    lines.append(f"{pad}else:")
                    block(depth + 1, counters, 1, in_loop)
            elif c < 0.54 and in_loop:
                lines.append(f"{pad}if {element(counters)} > 0.8:")
                lines.append(f"{pad}    {r.choice(['break', 'continue'])}")
            elif c < 0.6:
                name, size = f"z{names}", r.choice([2, 3])
                lines.append(f"{pad}{name} = np.zeros({size})")
                lines.append(f"{pad}for q in range({size}):")
                lines.append(f"{pad}    {name}[q] = a[q] * x[q] + s")
                lines.append(f"{pad}s += {name}[0] * {name}[{size - 1}]")
            elif c < 0.64:
                lines.append(
                    pad
                    + r.choice(
                        [
                            "a[:] = x[1:] * s",
                            "s += np.sum(a * a)",
                            "m[1] = a",
                            "a += m[0] + 0.1",
                            "b[:] = a[1:]",
                        ]
                    )
                )
            elif c < 0.7:
                lines.append(f"{pad}s = {element(counters)} * s + {element(counters)}")
            else:
                how = r.choice(["=", "=", "+=", "-=", "*="])
                e = r.choice(
                    [
                        "{0} * {1}",
                        "math.sin({0}) * {1}",
                        "{0} / (2.0 + {1} * {1})",
                        "{0} * {1} - {2}",
                        "{0}",
                        "1",
                    ]
                )
                e = e.format(*(r.choice([element(counters), element(counters), "s"]) for _ in range(3)))
                lines.append(f"{pad}{element(counters)} {how} {e}")

    block(0, [], r.randint(3, 6), False)
    lines.append("    return s + a[0] * b[1] + a[2] * m[1, 1] + m[0, 2] * x[3] + M[0, 0] * M[1, 2]")
    return "\n".join([*lines, ""])


@np.errstate(all="ignore")
def check(seed: int, write: Callable[[int], str] = written) -> str:
    text = write(seed)
    file = f"<{write.__name__} {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope: dict[str, Any] = {"math": math, "np": np}
    exec(compile(text, file, "exec"), scope)
    draw = np.random.default_rng(seed)
    x, m, dx, dm = (draw.normal(size=s) for s in ((_SIZE,), (_SIZE, _SIZE)) * 2)
    try:
        value = scope["program"](x.copy(), m.copy(), _SIZE)
    except (IndexError, OverflowError, ValueError):
        return "beyond"
    if not abs(value) < 1e5:
        return "large"
    value = float(value)
    f = Differentiable(scope["program"], ("auto", "auto", "store", "steps", "rerun")[seed % 5])
    args = x.copy(), m.copy(), _SIZE
    tangent = f._make("tangent", f._kinds(args), ("x", "M"))
    same, moved = tangent.plain(x.copy(), m.copy(), _SIZE, dx.copy(), dm.copy())
    adjoint = f._make("adjoint", f._kinds(args), ("x", "M"))
    xb, mb = np.zeros_like(x), np.zeros_like(m)
    found = adjoint.plain(x.copy(), m.copy(), _SIZE, xb, mb, 1.0)
    for own in (found[0] if isinstance(found, tuple) else found, same):
        assert abs(own - value) <= 1e-12 * (1 + abs(value)), (seed, own, value, text)
    product = np.sum(xb * dx) + np.sum(mb * dm)
    size = np.sum(np.abs(xb * dx)) + np.sum(np.abs(mb * dm))
    if not size < 1e8:
        return "large"
    assert abs(product - moved) <= 1e-9 * (1 + size), (seed, product, moved, text)
    return "ok"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    found: collections.Counter[str] = collections.Counter()
    for seed in range(given.first, given.first + given.count):
        try:
            found[check(seed, written_small if given.small else written)] += 1
        except AssertionError as error:
            found["WRONG"] += 1
            if found["WRONG"] < 3:
                print(seed, *error.args[0] if error.args else "")
        except IndexError as error:
            found["index"] += 1
            print(seed, error)
        except NotImplementedError as error:
            found["refused"] += 1
            if found["refused"] < 3:
                print(seed, error)
    print(dict(found))


if __name__ == "__main__":
    main()
