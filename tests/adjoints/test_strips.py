"""Loops strip by strip: the same numbers to the bit as loop by loop, whatever they read of each other."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbgrad.adjoints import strips

HEAD = "def program(a, b, c, m, n, k, z):"
FOLLOWS = {
    "where it was written": "for i in range(n): a[i] = b[i]\nfor j in range(n): c[j] = a[j]",
    "what the later one writes": "for i in range(n): a[i] = b[u(i + 2)]\nfor j in range(n): b[j] = 3.0",
    "ahead": "for i in range(n): a[i] = b[i]\nfor j in range(n): c[j] = a[u(j + 2)]",
    "other lengths": "for i in range(n): a[i] = b[i]\nfor j in range(n + 3): c[j] = a[j]",
    "a row": "for i in range(n): m[0, i] = b[i]\nfor j in range(n): c[j] = m[0, j] + m[1, u(j + 1)]",
    "what stands between": "for i in range(n): a[i] = b[i]\nc[0] = z\nfor j in range(n): c[u(j + 1)] = a[j]",
    "what is read between": "for i in range(n): a[i] = b[i]\nz += a[0]\nfor j in range(n): c[j] = a[j]",
    "a known distance": "for i in range(n): a[u(k + i)] = b[i]\nfor j in range(n): c[j] = a[u(j + k)]",
}
STAYS = {
    "an element of all turns": "for i in range(n): a[i] = b[i]\nfor j in range(n): c[j] = a[3]",
    "from the end": "for i in range(n): a[i] = b[i]\nfor j in range(n): c[j] = a[j - 1]",
    "an unknown distance": "for i in range(n): a[i] = b[i]\nfor j in range(n): c[j] = a[u(j + k)]",
    "the other way": "for i in range(n): a[i] = b[i]\nfor j in range(n): c[j] = a[u(n - j)]",
    "each second": "for i in range(n): a[i] = b[i]\nfor j in range(n): c[j] = a[u(j + j)]",
    "columns": "for i in range(n): m[i, 0] = b[i]\nfor j in range(n): c[j] = m[0, j]",
    "a number": "for i in range(n): a[i] = b[i]; z = a[i]\nfor j in range(n): c[j] = a[j] * z",
    "a sum": "for i in range(n): a[i] = b[i]\nfor j in range(n): z += a[j]",
    "what stands between": "for i in range(n): a[i] = b[i]\na[2] = z\nfor j in range(n): c[j] = a[j]",
    "a length": "for i in range(n): a[i] = b[i]\nn = n - 2\nfor j in range(n): c[j] = a[j]",
    "its own end": "for i in range(n): a[i] = b[i]; n = 3\nfor j in range(k + 1): c[j] = a[j]",
    "an end that is an element": "for i in range(k): a[i] = b[i]\nfor j in range(int(a[0]) + 2): c[j] = a[j]",
    "the same counter": "for i in range(n): a[i] = b[i]\nfor i in range(n): c[i] = a[i]",
}


def run(text: str, n: int) -> list[Any]:
    scope: dict[str, Any] = {"u": natural}
    exec(text, scope)
    draw = np.random.default_rng(3)
    arrays = [*(draw.normal(size=16) for _ in range(3)), draw.normal(size=(16, 16))]
    return [scope["program"](*arrays, n, 2, 0.3), *(a.tobytes() for a in arrays)]


def natural(i: int) -> int:
    assert i >= 0
    return i


def agreed(text: str, length: int, monkeypatch: pytest.MonkeyPatch, n: int) -> bool:
    """Are there loops that go together, and do they give the same?"""
    monkeypatch.setattr(strips._Group, "length", lambda self: length)
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    strips.by_strips(function)
    by_strips = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    assert run(text, n) == run(by_strips, n), by_strips
    return "strip" in by_strips


def program(lines: str) -> str:
    return "\n".join([HEAD, *(f" {line}" for line in lines.split("\n")), " return z", ""])


@pytest.mark.parametrize("lines", FOLLOWS.values(), ids=FOLLOWS)
def test_loops_that_go_together(lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (0, 1, 5, 9):
        assert agreed(program(lines), 2, monkeypatch, n)


@pytest.mark.parametrize("lines", STAYS.values(), ids=STAYS)
def test_loops_that_stay_apart(lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not agreed(program(lines), 2, monkeypatch, 5)


def drawn(seed: int) -> str:
    draw = random.Random(seed)
    pick: Callable[..., Any] = draw.choice
    lines: list[str] = []

    def element(counter: str) -> str:
        ahead = pick((0, 0, 0, 1, 2))
        index = f"u({counter} + {ahead})" if ahead else pick((counter, f"u({counter})"))
        base = pick("abc")
        if draw.random() < 0.1:
            return f"{base}[{pick(('0', '1', 'u(k)', f'u(k + {counter})'))}]"
        return f"m[{pick(('0', '1', counter))}, {index}]" if draw.random() < 0.15 else f"{base}[{index}]"

    for q in range(draw.randint(2, 6)):
        if draw.random() < 0.3:
            lines.append(
                pick((f"{element('2')} = z * 0.5", f"{element('1')} += 0.25", f"z = {element('2')}"))
            )
            continue
        i = f"i{q}"
        lines.append(f"for {i} in range({pick(('n', 'n - 1', 'n + 1', 'n + n'))}):")
        if draw.random() < 0.3:
            lines.append(f" j{q} = 1 + {i}")
            i = f"j{q}"
        for w in range(draw.randint(1, 3)):
            a, b, c = element(i), element(i), element(i)
            some = (
                f"{a} = {b} * 0.5 + z",
                f"{a} += {b} * 0.25",
                f"t{q}{w} = {a} - {b}; {c} = t{q}{w} * 0.5",
                f"{a} = {b} - {c}",
            )
            lines.append(f" {'z = 0.5 * z + ' + a if draw.random() < 0.05 else pick(some)}")
    return program("\n".join(lines))


def test_random_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [agreed(drawn(seed), seed % 3 + 1, monkeypatch, seed % 7) for seed in range(150)]
    assert 30 < sum(found) < 120


@pytest.mark.slow
def test_gradients_by_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of steps of Runge and Kutta, each stage of which reads a neighbour, as they are compiled."""
    from asv_benchmarks.gradbench.loops import EVALS
    from nbgrad import differentiable
    from nbgrad.adjoints import quick

    ode = next(e.function for e in EVALS if e.function.__name__ == "ode")
    x = np.random.default_rng(0).uniform(0.5, 1.5, size=300)
    f = differentiable(ode)
    made = f._make("adjoint", f._kinds((x, 3)), None)
    assert "strip" in quick.quicker(made.text, made.text.known)
    hvp = f.hvp((x, 3), (np.ones_like(x), None))
    grad = f.grad(x, 3)
    monkeypatch.setattr(strips._Group, "worth", lambda self: False)
    g = differentiable(ode)
    np.testing.assert_array_equal(grad, g.grad(x, 3))
    np.testing.assert_array_equal(hvp, g.hvp((x, 3), (np.ones_like(x), None)))
