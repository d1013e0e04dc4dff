"""Loops that may be left whose storage grows between stretches of turns: the same turns, whatever ends them."""

import math
import re
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.adjoints.quick import _grown
from nbgrad.kernels.functions import reserve


def until(x, most):
    s = 0.0
    while s < most:
        s += math.sin(x) ** 2 + 0.5
        x *= 1.001
    return s * x


def until_a_break(x, most):
    s, n = 0.0, 0
    while True:
        s += math.cos(x) * s / 100 + 1.0
        n += 1
        if n % 3 == 0:
            continue
        if s > most:
            break
        x *= 1.01
    return s * x


def either_way(x, most):
    s, n = 0.0, 0
    while s < most:
        x *= 1.01
        if x > 3.0:
            break
        n += 1
        if n % 2 == 0:
            continue
        s += x * x
    return s * x


def one_in_the_other(x, most):
    s = 0.0
    while s < most:
        for k in range(3):
            t = x
            while t < 4.0:
                t = t * t + 0.3
            s += t / (k + 1)
        x += 0.001 * s
    return s


def by_its_test(x, most):
    """What the test computes stands before what is saved."""
    s = 0.0
    while math.sin(s) ** 2 + s < most:
        s += x * x * math.exp(-0.01 * s) + 0.5
    return s * x


def knocked_out(x, most):
    """Two loops of known numbers of turns, one in the other, of which the inner is left; its counter is read afterwards."""
    total, n = 0.0, 40
    for i in range(5):
        s = x
        k = 0
        for k in range(n + 3 * i):
            s *= math.exp(0.01 * k) + 0.02 * i
            if s > most:
                break
        total += s * (k + 1)
    return total


def left_early(x, most):
    s = 0.0
    for _ in range(100):
        s += math.sin(x) ** 2 + 0.5
        x *= 1.001
        if s > most:
            return s * x
    return x


FUNCTIONS = [by_its_test, until, until_a_break, either_way, one_in_the_other, knocked_out, left_early]


def adjoint(function: Any, *args: Any) -> Any:
    f = differentiable(function)
    return f._make("adjoint", f._kinds(args), None)


def ran(text: str, *args: Any) -> Any:
    scope = {"np": np, "math": math, "reserve": reserve, "u": int}
    exec(text, scope)
    return next(v for n, v in scope.items() if n.endswith("_adjoint"))(*args, 1.0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_many_turns_as_before(function: Any) -> None:
    text = adjoint(function, 0.5, 1.0).text
    grown = _grown(text)
    assert re.search("_full|_last", grown) and not re.search("_full|_last", text)
    for most in [-1.0, 0.0, 0.5, *np.linspace(1, 40, 118)]:
        assert ran(grown, 0.5, most) == ran(text, 0.5, most), most


@pytest.mark.parametrize("function", FUNCTIONS)
def test_compiled(function: Any) -> None:
    made = adjoint(function, 0.5, 1.0)
    for most in (-1.0, 9.0, 100.0):
        assert made(0.5, most, 1.0) == pytest.approx(ran(made.text, 0.5, most), rel=1e-13)


@pytest.mark.parametrize(
    "body",
    [
        "a = reserve(a, p + 1)\n        p += 1\n        p += 1",
        "a = reserve(a, p + 1)\n        a = np.zeros(9)\n        p += 1",
        "a = reserve(a, p + 1)\n        b = reserve(b, q + 1)\n        p += 1",
        "a = reserve(a, p + 1)\n        if p > 3:\n            p += 1",
        "a = reserve(a, p + 1)\n        if p > 3:\n            return a\n        p += 1",
        "a = reserve(a, p + n)\n        p += 1",
    ],
)
@pytest.mark.parametrize("head", ["while x > n", "for k in range(n)"])
def test_what_is_no_such_loop_stays(head: str, body: str) -> None:
    grown = _grown(f"def f(x, n):\n    {head}:\n        {body}\n    return a\n")
    assert not re.search("_full|_last", grown)
