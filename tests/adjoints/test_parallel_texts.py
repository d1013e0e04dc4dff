"""Programs that would fool who looks for `prange` and for names in a text: strings, names that hold one another, loops inside of loops and
of called functions, and turns that meet."""

import math
from typing import Any

import numba
import numpy as np
import pytest
from numba import prange
from numba import prange as over

from nbgrad import differentiable
from nbgrad.adjoints.parallel import Split, Turns, cut
from nbgrad.kernels import functions

pytestmark = pytest.mark.fast


def in_strings(x):
    """for i in prange(len(x)): y[i] += 1"""
    s = 0.0
    for i in prange(len(x)):  # for j in prange(3): s = x[i]
        if x[i] > 100.0:
            raise ValueError("for i in prange(len(x)): s = x[i]; x[i] += s")
        s += x[i] * x[i]
    return s


def long_names(prange_x, x_prange):
    prange_count = 0.0
    i_prange = np.zeros(len(prange_x))
    for prange_i in prange(len(prange_x)):
        i_prange[prange_i] = prange_x[prange_i] * x_prange
        prange_count += i_prange[prange_i] ** 2
    return prange_count + i_prange[0]


def other_names(x):
    s = 0.0
    for i in over(len(x)):
        s += x[i] ** 3
    for i in numba.prange(1, len(x)):
        s += x[i] * x[i - 1]
    return s


def nested(x):
    s = 0.0
    for i in prange(x.shape[0]):
        t = 1.0
        for j in prange(x.shape[1]):
            t += x[i, j] * x[i, 0]
        s += t * t
    return s


def inner(row, k):
    t = 0.0
    for j in prange(len(row)):
        t += row[j] ** k
    return t


def in_a_called_function(x):
    y = np.empty(x.shape[0])
    for i in prange(x.shape[0]):
        y[i] = inner(x[i], 2.0) * x[i, 0]
    return (y * y).sum() + inner(y, 3.0)


def shared_reads(x, w):
    """Each turn reads all of w, and adds to the gradient of all of it."""
    s = 0.0
    for i in prange(len(x)):
        for j in range(len(w)):
            s += math.sin(x[i] * w[j])
    return s


def neighbours(x):
    """Turns that read what others write."""
    y = x.copy()
    for i in prange(1, len(x)):
        y[i] = y[i] + y[i - 1] * 0.5
    return (y * y).sum()


def computed(x, at):
    """Turns that write to the same elements."""
    y = np.zeros(len(x))
    for i in prange(len(x)):
        y[at[i]] = x[i] * (i + 1.0)
    return (y * y).sum()


def own_and_computed(x):
    y = np.zeros(len(x))
    for i in prange(len(x)):
        y[i] += x[i]
        y[(i + 1) % len(x)] *= 2.0
    return (y * y).sum()


def transposed_places(x):
    y = np.zeros((len(x), len(x)))
    for i in prange(len(x)):
        for j in range(i + 1):
            y[i, j] += x[i]
            y[j, i] += x[j] * 2.0
    return (y * y * y).sum()


def a_number_handed_on(x):
    last, s = 0.0, 0.0
    for i in prange(len(x)):
        s += x[i] * last
        last = x[i]
    return s


def products(x):
    p = 1.0
    for i in prange(len(x)):
        p *= x[i]
    return p


def the_largest(x):
    m = x[0]
    for i in prange(1, len(x)):
        m = max(m, x[i])
    return m * m


def a_sum_that_is_read(x):
    s = 1.0
    for i in prange(len(x)):
        s += x[i] * 0.1
        if s > 1.0:
            s += x[i] ** 2
    return s


def u(x):
    return 2 * x


def a_function_called_u(x):
    y = np.zeros(2 * len(x))
    for i in prange(len(x)):
        y[u(i)] = x[i] ** 2
        y[u(i) + 1] = x[i]
    return (y * y).sum()


def rows(x):
    y = np.zeros_like(x)
    for i in prange(x.shape[0]):
        y[i] = x[i] * x[i, ::-1] + y[i]
        y[i, 1:] += y[i, :-1]
    return (y * y).sum()


class Turned:
    @staticmethod
    def prange(n):
        return [n - 1 - k for k in range(3)]


DRAW = np.random.default_rng(3)
X, M = DRAW.normal(size=7), DRAW.normal(size=(5, 4))
# The arguments, and whether threads take part; None where that is not asked.
CASES: dict[Any, Any] = {
    in_strings: ((X,), True),
    long_names: ((X, 0.7), True),
    other_names: ((X,), True),
    nested: ((M,), True),
    in_a_called_function: ((M,), True),
    shared_reads: ((X, DRAW.normal(size=3)), True),
    neighbours: ((X,), False),
    computed: ((X, np.array([0, 3, 3, 1, 0, 6, 2])), False),
    own_and_computed: ((X,), False),
    transposed_places: ((X,), None),
    a_number_handed_on: ((X,), False),
    products: ((X,), False),
    the_largest: ((X,), None),  # shared where it has no derivative
    a_sum_that_is_read: ((X,), False),
    a_function_called_u: ((X,), None),
    rows: ((M,), True),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_what_it_is(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces, as plain Python and with their parts out of order, against the program itself and central differences."""
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)
    monkeypatch.setattr("nbgrad.adjoints.parallel._deal", _backwards)
    args, expected = CASES[function]
    f = differentiable(function)
    assert f(*_copies(args)) == pytest.approx(function(*_copies(args)), rel=1e-12)
    grads = f.grad(*_copies(args))
    floats = [k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f"]
    for k, g in zip(floats, grads):
        assert np.asarray(g) == pytest.approx(_differences(function, args, k), rel=1e-5, abs=1e-6)
    _, moved = f.jvp(_copies(args), [np.ones_like(a) if k in floats else None for k, a in enumerate(args)])
    assert moved == pytest.approx(sum(np.sum(g) for g in grads), rel=1e-9, abs=1e-12)
    if expected is not None:
        shared = {_turns(f, what, args) > 0 for what in ("primal", "tangent", "adjoint")}
        assert shared == {expected}


def test_another_function_called_prange() -> None:
    def odd(x):
        s = 0.0
        for k, i in enumerate(Turned.prange(len(x))):
            s += x[i] * (k + 1)
        return s

    assert differentiable(odd)(X) == pytest.approx(odd(X))


def _backwards(step: Turns, given: list[Any]) -> None:
    for k in reversed(range(given[0])):
        step.call(k, k + 1, *given)


def _copies(args: Any) -> list[Any]:
    return [np.copy(a) if np.ndim(a) else a for a in args]


def _differences(function: Any, args: Any, k: int, h: float = 1e-6) -> Any:
    a = np.asarray(args[k], float)
    found = np.zeros(a.shape)
    for i in np.ndindex(*a.shape):
        ends = []
        for step in (h, -h):
            moved = a.copy()
            moved[i] += step
            given = _copies(args)
            given[k] = moved if a.ndim else float(moved)
            ends.append(function(*given))
        found[i] = (ends[0] - ends[1]) / (2 * h)
    return found


def _turns(f: Any, what: str, args: Any) -> int:
    made = f._make(what, f._kinds(args), None)
    pieces = cut(made.name, made.text, made.helpers)
    return sum(isinstance(s, Turns) for s in pieces.steps) if isinstance(pieces, Split) else 0
