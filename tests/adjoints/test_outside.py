"""Programs from outside: their values, and their gradients by central differences; all steps of the text are Python's here, which takes a
thirtieth of the time that compiling it would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.kernels import functions
from tests.adjoints.outside import algorithms, flow, meanings, sciences

CASES = [*sciences.CASES, *flow.CASES, *meanings.CASES, *algorithms.CASES]
REFUSED = {
    *("f_const_branch", "list_alias"),
    *("list_fn", "list_mult", "np7", "ravel_write", "reshape_alias"),
    *("reshape_write", "specials"),
}
WEIGHTS = [np.array(w) for w in ([0.7, -1.3, 0.45, 1.9, 0.2], [1.1, 0.6, -0.8], [-0.5, 0.9], [0.3, 1.4])]


def _copied(a: Any) -> Any:
    if isinstance(a, tuple):
        items = [_copied(i) for i in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    return a.copy() if isinstance(a, np.ndarray) else a


def _flat(a: Any) -> list[Any]:
    if isinstance(a, tuple):
        return [x for i in a for x in _flat(i)]
    return [] if a is None else [a]


def _seeds(results: list[Any]) -> list[Any]:
    weights = iter(WEIGHTS)
    return [
        (np.resize(next(weights), np.shape(x)) if np.ndim(x) else next(weights)[0])
        if np.asarray(x).dtype.kind == "f"
        else np.zeros(np.shape(x))
        for x in results
    ]


def _as(result: Any, seeds: Iterator[Any]) -> Any:
    """The seeds as the results lie side by side."""
    if isinstance(result, tuple):
        return tuple([_as(r, seeds) for r in result])
    return next(seeds, None)


def _moved(a: Any, back: Callable[[Any], Any], h: float) -> Iterator[tuple[Any, list[Any]]]:
    """Of each part that is a float or has some: its shape, and the arguments with each of its numbers moved both ways."""
    if isinstance(a, tuple):
        for k, item in enumerate(a):

            def inside(x: Any, k: int = k) -> Any:
                items = [*a[:k], x, *a[k + 1 :]]
                return back(type(a)(*items) if hasattr(a, "_fields") else tuple(items))

            yield from _moved(item, inside, h)
    elif isinstance(a, np.ndarray) and a.dtype.kind == "f":
        found = []
        for i in np.ndindex(*a.shape):
            for step in (h, -h):
                moved = a.copy()
                moved[i] += step
                found.append(back(moved))
        yield a.shape, found
    elif isinstance(a, float):
        yield (), [back(a + h), back(a - h)]


def judged(function: Any, args: tuple[Any, ...]) -> None:
    given = function(*map(_copied, args))
    results = _flat(given)
    f = differentiable(function)
    found = _flat(f(*map(_copied, args)))
    assert len(found) == len(results)
    for a, b in zip(results, found):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)
    seeds = _seeds(results)
    _, grads = f.vjp(*map(_copied, args), seeds=_as(given, iter(seeds)))

    def total(given: list[Any]) -> float:
        return sum(float(np.sum(r * s)) for r, s in zip(_flat(function(*map(_copied, given))), seeds))

    wanted = [
        (shape, [(total(a) - total(b)) / 2e-6 for a, b in zip(moved[::2], moved[1::2])])
        for k, x in enumerate(args)
        for shape, moved in _moved(x, lambda v, k=k: [*args[:k], v, *args[k + 1 :]], 1e-6)
    ]
    for (shape, want), grad in zip(wanted, grads):
        np.testing.assert_allclose(grad, np.reshape(want, shape), rtol=2e-5, atol=2e-5)


def _checked(function: Any, args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)
    if function.__name__ in REFUSED:
        with pytest.raises(NotImplementedError):
            judged(function, args)
    else:
        judged(function, args)


@pytest.mark.fast
@pytest.mark.parametrize(("function", "args"), CASES[::5], ids=lambda x: getattr(x, "__name__", ""))
def test_a_fifth(function: Any, args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    _checked(function, args, monkeypatch)


@pytest.mark.slow
def test_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(CASES) > 220 and {f.__name__ for f, _ in CASES} >= REFUSED
    for function, args in CASES:
        _checked(function, args, monkeypatch)
