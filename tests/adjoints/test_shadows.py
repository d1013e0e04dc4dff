"""Arrays that each turn of a loop fills anew: their bars are set, not added to, where that is the same."""

from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable

HEAD = """
def program(x, m):
    n = len(x)
    k = np.empty(n)
    y = np.zeros(n)
    for turn in range(m):
"""
END = """
    s = 0.0
    for i in range(n):
        s += y[i] * y[i]
    return s
"""
FILL = ["for i in range(n):", "    k[i] = x[i] * (1.0 + y[i])"]
FIRST = ["k[0] = x[0] * x[1]", "for i in range(1, n):", "    k[i] = x[i] * y[i - 1] + 0.3"]
USE = ["for i in range(n):", "    y[i] += 0.1 * k[i] * x[i]"]
BEFORE = ["for i in range(n):", "    y[i] += 0.2 * k[i]"]

PROGRAMS: dict[str, tuple[list[str], bool]] = {
    "filled": (FILL + USE, True),
    "the first by itself": (FIRST + USE, True),
    "read twice": (FILL + BEFORE + USE, True),
    "a square": ([*FILL, "for i in range(n):", "    y[i] += 0.1 * k[i] * k[i]"], True),
    "not to its end": ([*FILL, "for i in range(n - 1):", "    y[i] += 0.1 * k[i] * x[i]"], False),
    "a neighbour": ([*FILL, "for i in range(n):", "    y[i] += 0.1 * k[i] * k[i - 1]"], False),
    "from either end": (
        [*FILL, "for i in range(n):", "    y[i] += 0.1 * k[i] * k[n - 1 - i]"],
        False,
    ),
    "from either end, and then": (
        [*FILL, "for i in range(n):", "    y[i] += 0.1 * k[i] + 0.2 * k[n - 1 - i]"],
        False,
    ),
    "one of them at last": ([*FILL, *USE, "y[1] += k[2] * x[0]"], False),
    "where a branch goes": (
        [*FILL, "for i in range(n):", "    if x[i] > 0.5:", "        y[i] += k[i] * x[1]"],
        False,
    ),
    "written twice": ([*FILL, "k[1] = y[0] * x[2]", *USE], False),
    "written over": ([*FILL, *BEFORE, *FIRST, *USE], False),
    "first and then all": (["k[0] = x[0] * y[1]", *BEFORE[:0], *FILL, *USE], False),
    "from the turn before": (
        ["for i in range(n):", "    k[i] = x[i] * k[i - 1] if turn > 0 else x[i]", *USE],
        False,
    ),
}


def made(body: list[str], end: str = END) -> Any:
    text = HEAD + "".join(f"        {line}\n" for line in body) + end
    scope: dict[str, Any] = {"np": np}
    import linecache

    file = f"<{abs(hash(text))}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    exec(compile(text, file, "exec"), scope)
    return scope["program"]


def check(function: Any, policy: Any, compiled: bool = False) -> str:
    f = differentiable(function, policy=policy)
    x, d = np.array([0.4, 0.7, -0.3, 0.9]), np.array([1.0, -0.5, 0.3, 2.0])
    kinds = f._kinds((x, 3))
    adjoint, tangent = f._make("adjoint", kinds, None), f._make("tangent", kinds, None)
    xb = np.zeros(4)
    adjoint.plain(x, 3, xb, 1.0)
    _, moved = tangent.plain(x, 3, d)
    assert xb @ d == pytest.approx(moved, rel=1e-12)
    if compiled:
        assert f.grad(x, 3)[0] == pytest.approx(xb, rel=1e-12)
        ahead, behind = (f.grad(x + e * d, 3)[0] for e in (1e-6, -1e-6))
        assert f.hvp((x, 3), (d, None))[0] == pytest.approx((ahead - behind) / 2e-6, rel=1e-6, abs=1e-7)
    return adjoint.text


@pytest.mark.parametrize("policy", ["auto", ("steps", 2), ("revolve", 2)], ids=str)
def test_bars_are_set(policy: Any) -> None:
    for name, (body, is_set) in PROGRAMS.items():
        text = check(made(body), policy, compiled=name == "the first by itself")
        assert (
            any(
                line.strip().startswith("kb[i") and "] = " in line and "= 0.0" not in line
                for line in text.splitlines()
            )
            is is_set
        ), name


def test_not_where_it_is_read_behind_the_loop() -> None:
    text = check(made(FILL + USE, "    return y[0] * y[1] + k[2]\n"), "auto")
    assert "kb[i_1] = t" not in text and "= 0.0" in text
