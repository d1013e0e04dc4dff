"""What is refused, in which words: `refusals.txt` has for each function what it answers, less the file's name."""

import re
from pathlib import Path

import numpy as np
import pytest

import nbgrad
from nbgrad.adjoints import Refused
from tests.adjoints import refused

FUNCTIONS = {name: f for name, f in vars(refused).items() if callable(f) and f.__module__ == refused.__name__}
TEXTS = dict(
    line.split(": ", 1) for line in (Path(__file__).parent / "refusals.txt").read_text().splitlines()
)


def answer(name: str) -> str:
    x, m = np.linspace(0.5, 2.0, 4), np.eye(3)
    args = {"x": x, "y": x.copy(), "m": m, "a": 0.5, "n": 3, "k": np.arange(3), "t": (1.0, 2.0)}
    f = nbgrad.differentiable(FUNCTIONS[name])
    with pytest.raises(Refused) as error:
        f.grad(*[args[p] for p in f.names])
    found = re.match(r"refused\.py:(\d+): (.*)", str(error.value))
    assert found, error.value
    first = f.function.__code__.co_firstlineno
    return f"{int(found[1]) - first}: {found[2]}"


def test_each_has_its_words() -> None:
    assert FUNCTIONS.keys() == TEXTS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_refused(name: str) -> None:
    """Each at its line, counted from `def`."""
    assert answer(name) == TEXTS[name]


def test_arguments() -> None:
    @nbgrad.differentiable
    def added(x, y, a):
        for i in range(len(x)):
            x[i] += a * y[i]
        return x[0]

    x = np.ones(3)
    for call in (added, added.grad):
        with pytest.raises(
            ValueError, match=r"added\(\): x is written and shares memory with y \(pass a copy\)"
        ):
            call(x, x[::-1], 2.0)
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="a is no float, so there is no gradient of it"):
        added.grad(x, x.copy(), 2, wrt="a")
    with pytest.raises(TypeError, match="y is no float"):
        added.grad(x, np.ones(3, int), 2.0, wrt=("y",))
    with pytest.raises(
        TypeError,
        match="x is an array of float16; float32, float64, complex64, complex128, integers and bool",
    ):
        added(np.ones(3, np.float16), x, 2.0)
    with pytest.raises(
        TypeError, match="x is a set; numbers, arrays, and tuples, lists and dictionaries of them are taken"
    ):
        added({1.0}, x, 2.0)
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        added(x, x.copy())
    with pytest.raises(ValueError, match=r"added\(\) has 3 parameters, and none is 3"):
        added.grad(x, x.copy(), 2.0, argnums=3)
    with pytest.raises(ValueError, match=r"added\(\) has no parameter 'z'"):
        added.grad(x, x.copy(), 2.0, wrt="z")
    with pytest.raises(TypeError, match="gives 1 results and writes 1 arrays; 5 seeds were given"):
        added.vjp(x, x.copy(), 2.0, seeds=(1.0,) * 5)
    with pytest.raises(ValueError, match="the seed of x has shape"):
        added.vjp(x, x.copy(), 2.0, seeds=(1.0, np.ones(2)))


def test_no_single_float() -> None:
    @nbgrad.differentiable
    def both(a):
        return a, a * a

    with pytest.raises(TypeError, match=r"both\(\) gives no single float, so it has no gradient \(use vjp"):
        both.grad(1.0)


@pytest.mark.slow
def test_lengths_are_compared_when_it_runs() -> None:
    @nbgrad.differentiable
    def product(x, y):
        return np.sum(x * y)

    assert product(np.ones(3), np.ones(3)) == 3
    with pytest.raises(ValueError, match="operands of different lengths"):
        product.grad(np.ones(3), np.ones(4))
