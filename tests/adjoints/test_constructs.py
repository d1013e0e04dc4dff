"""Programs as users write them: value, adjoint, tangent and the second order beside plain Python and differences of it."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from nbgrad import differentiable
from nbgrad.adjoints import Refused
from nbgrad.adjoints.analyse import POLICIES
from nbgrad.adjoints.api import Made
from tests.adjoints import arrangements, constructs, containers, longer, turns

PROGRAMS = {
    n: f
    for module in (constructs, arrangements, turns, longer, containers)
    for n, f in vars(module).items()
    if inspect.isfunction(f) and f.__module__ == module.__name__ and not n.startswith("_")
}


def arguments(f: Callable[..., Any]) -> list[Any]:
    x = np.array([0.5, 0.31, 1.2, -0.4])
    m = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, -0.3], [0.4, 0.1, 1.7]])
    k = np.array([2, 0]) if f.__name__ == "fancy_2d" else np.array([2, 0, 3])
    state = constructs.State(x.copy(), x * 0.5, 1.5)
    known = {"x": x, "m": m, "a": 0.7, "n": 2, "k": k, "dt": 0.1, "s": state}
    return [copied(known[p]) for p in inspect.signature(f).parameters]


def copied(a: Any) -> Any:
    return type(a)(*map(copied, a)) if isinstance(a, tuple) else a.copy() if isinstance(a, np.ndarray) else a


def moved(a: Any, along: Any, step: float) -> Any:
    if isinstance(a, tuple):
        return type(a)(*(moved(p, q, step) for p, q in zip(a, along)))
    return copied(a) if along is None else a + step * along


def direction(a: Any, draw: np.random.Generator) -> Any:
    if isinstance(a, tuple):
        return tuple(direction(p, draw) for p in a)
    if isinstance(a, np.ndarray):
        return draw.normal(size=a.shape) if a.dtype.kind == "f" else None
    return draw.normal() if isinstance(a, float) else None


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """Compiled with `--whole`."""
    if not whole:
        monkeypatch.setattr(Made, "compiled", property(lambda made: made.plain))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    f = PROGRAMS[name]
    args = arguments(f)
    along = [direction(a, np.random.default_rng(1)) for a in args]

    def at(step: float) -> Any:
        return f(*(moved(a, d, step) for a, d in zip(args, along)))

    slope = (at(1e-6) - at(-1e-6)) / 2e-6
    for policy in POLICIES:
        of = differentiable(f, policy=policy)
        parts = [d for d in of._flat(along) if d is not None]
        value, grads = of.value_and_grad(*map(copied, args))
        assert value == pytest.approx(at(0.0), rel=1e-12)
        assert sum(np.sum(g * d) for g, d in zip(grads, parts)) == pytest.approx(slope, rel=1e-6, abs=1e-8)
        value, by_tangent = of.jvp([copied(a) for a in args], along)
        assert by_tangent == pytest.approx(slope, rel=1e-6, abs=1e-8)
        if policy == "auto":
            curved = of.hvp([copied(a) for a in args], along)
            sides = [of.grad(*(moved(a, d, s) for a, d in zip(args, along))) for s in (1e-6, -1e-6)]
            for c, p, q in zip(curved, *sides):
                np.testing.assert_allclose(c, (p - q) / 2e-6, rtol=1e-5, atol=1e-6)


def narrow(a: Any) -> Any:
    if isinstance(a, tuple):
        return type(a)(*map(narrow, a))
    return a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a


@pytest.mark.parametrize(
    "name", [n for n, f in PROGRAMS.items() if f.__module__ in (turns.__name__, longer.__name__)]
)
def test_names_of_float32_that_turns_bind_to_float64(name: str) -> None:
    """They are as wide as they get."""
    f = differentiable(PROGRAMS[name])
    args = arguments(PROGRAMS[name])
    value, grads = f.value_and_grad(*map(copied, args))
    again, narrows = f.value_and_grad(*map(narrow, args))
    assert again == pytest.approx(value, rel=1e-4)
    for p, q in zip(grads, narrows):
        np.testing.assert_allclose(q, p, rtol=1e-3, atol=1e-3 * np.max(np.abs(p)))


def test_several_results() -> None:
    def several(x, a):
        return np.sum(x) * a, x * a, a * a

    x = np.array([1.0, 2.0])
    values, (by_x, by_a) = differentiable(several).vjp(x, 3.0, seeds=(1.0, np.array([1.0, 10.0]), 2.0))
    assert values[0] == 9 and values[1].tolist() == [3, 6] and values[2] == 9
    assert by_x.tolist() == [6, 33] and by_a == 3 + 21 + 12
    _, (by_x, by_a) = differentiable(several).vjp(x, 3.0, seeds=(None, None, 2.0))
    assert by_x.tolist() == [0, 0] and by_a == 12


class Moved(NamedTuple):
    x: Any
    energy: float


def test_results_are_given_as_they_are_returned() -> None:
    def inside(a, x):
        return a, (Moved(x * a, a * a), (a, None)), [x[0]]

    def alone(a):
        return (a * a,)

    x = np.array([1.0, 2.0])
    f = differentiable(inside)
    found = f(3.0, x)
    assert found[0] == 3 and found[1][1] == (3, None) and found[2] == [1]
    assert isinstance(found[1][0], Moved) and found[1][0].x.tolist() == [3, 6] and found[1][0].energy == 9
    _, (by_a, by_x) = f.vjp(3.0, x, seeds=(None, ((np.array([1.0, 10.0]), 2.0), None), [5.0]))
    assert by_a == 21 + 12 and by_x.tolist() == [3 + 5, 30]
    _, (one, (state, (again, none)), listed) = f.jvp((3.0, x), (1.0, None))
    assert one == again == 1 and none is None and listed == [0]
    assert state.x.tolist() == [1, 2] and state.energy == 6
    with pytest.raises(TypeError, match=r"a result has 2 parts, and its seed is 1\.0"):
        f.vjp(3.0, x, seeds=(None, 1.0, None))

    def named(a, x):
        return {"loss": a * a, "parts": {"x": x * a, "no": None}}

    f = differentiable(named)
    found = f(3.0, x)
    assert found["loss"] == 9 and found["parts"]["x"].tolist() == [3, 6] and found["parts"]["no"] is None
    assert f.vjp(3.0, x, seeds={"loss": 2.0})[1][0] == 12
    _, (by_a, by_x) = f.vjp(3.0, x, seeds=(None, {"x": np.array([1.0, 10.0])}))
    assert by_a == 21 and by_x.tolist() == [3, 30]
    assert f.jvp((3.0, x), (1.0, None))[1]["parts"]["x"].tolist() == [1, 2]
    with pytest.raises(TypeError, match="a result has not the parts of its seed"):
        f.vjp(3.0, x, seeds={"lost": 1.0})
    assert differentiable(alone)(3.0) == (9,) and differentiable(alone).vjp(3.0, seeds=2.0) == ((9,), (12,))
    assert differentiable(alone).jacobian(3.0, wrt="a") == (6,)


def test_written_arrays_are_outputs() -> None:
    def sums(x, out):
        for i in range(len(x)):
            out[i] = x[i] ** 2 + (out[i - 1] if i > 0 else 0.0)

    x, out = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    _, (by_x, of_out) = differentiable(sums).vjp(x, out, seeds=(np.array([1.0, 0.0, 1.0]),))
    assert out.tolist() == [1, 5, 14]
    assert by_x.tolist() == [4, 4, 6] and of_out.tolist() == [0, 0, 0]
    _, (by_x, _) = differentiable(sums).vjp(x, np.zeros(3), seeds=(None,))
    assert by_x.tolist() == [0, 0, 0]


def test_what_an_older_name_sees_is_not_changed() -> None:
    def aliased(x, n):
        y = x.copy()
        z = y
        for _ in range(n):
            y = y * 2.0
        return np.sum(y) + np.sum(z)

    def part(x, n):
        y = x.copy()
        s = 0.0
        for _ in range(n):
            z = y[1:]
            y = y * 2.0
            s += z[0]
        return s

    def before_it_is_bound_anew(x, n):
        y = x.copy()
        z = y
        s = 0.0
        for _ in range(n):
            z[0] += 1.0
            s += y[0]
            y = y * 2.0
        return s

    def diagonal(m, n):
        m = m.copy()
        d = np.zeros(2)
        s = 0.0
        for _ in range(n):
            d = np.diag(m)
            m[0, 0] *= 1.3
            s += d[0]
        return s

    def turn_before(x, n):
        x = x.copy()
        s = 0.0
        for k in range(n):
            if k > 0:
                s += old[0]  # noqa: F821
            old = x  # noqa: F841
            x[0] = x[0] * 0.5
        return s

    x = np.array([1.0, 2.0])
    with pytest.raises(Refused, match=r"what is written here may be the array d as well \(make one"):
        differentiable(diagonal)(np.eye(2), 2)
    with pytest.raises(Refused, match=r"what is written here may be the array old as well \(make one"):
        differentiable(turn_before)(x, 2)
    assert differentiable(aliased)(x, 2) == aliased(x, 2)
    assert differentiable(part)(x, 2) == part(x, 2)
    with pytest.raises(Refused, match=r"what is written here may be the array y as well \(make one"):
        differentiable(before_it_is_bound_anew)(x, 2)


def test_lists_are_no_arrays() -> None:
    def doubled(x):
        found = [x[0]]
        found.append(x[1])
        return (found * 2)[0]

    def longer(x):
        found = [0.0] * len(x)
        found += x
        return found[0]

    def popped(x):
        found = [x[0]]
        for _ in range(3):
            found.pop()
        return x[0]

    for f in (doubled, longer):
        with pytest.raises(Refused, match="arithmetic of a list"):
            differentiable(f)(np.ones(2))
    with pytest.raises(IndexError, match="pop from empty list"):
        differentiable(popped)(np.ones(2))


def test_lambdas() -> None:
    def twice(f, x):
        return f(x) + f(2.0 * x)

    def times(c):
        return lambda x: x * c

    cube = lambda x: x**3  # noqa: E731
    assert differentiable(cube).grad(2.0) == (12.0,)
    assert differentiable(twice).grad(cube, 1.0) == (27.0,)
    assert [differentiable(twice).grad(times(c), 1.0)[0] for c in (2.0, 3.0)] == [6.0, 9.0]
    one, other = (lambda x: x), (lambda x: x * x)
    with pytest.raises(Refused, match=r"a lambda beside another in one statement \(use def\)"):
        differentiable(other)(one(1.0))


def test_a_number_as_float32() -> None:
    def product(x, a):
        y = np.zeros_like(x)
        for i in range(len(x)):
            y[i] = np.float32(a) * x[i]
        return y.sum()

    by_x, by_a = differentiable(product).grad(np.ones(3, np.float32), 0.5)
    assert by_x.dtype == np.float32 and by_x.tolist() == [0.5] * 3 and by_a == 3.0


def test_a_write_to_what_was_longer_is_refused() -> None:
    """As long as another name may be that array."""

    def written(x):
        z = x.copy()
        before = z
        for _ in range(2):
            z = z[1:]
        before[3] = 2.0
        return z[0] * z[-1]

    with pytest.raises(Refused, match="may be the array z as well"):
        differentiable(written).grad(np.arange(4.0))


def test_writes_that_another_name_would_show_are_refused() -> None:
    """Each where two names are one array, as what happened before decides."""

    def gone_round(x, n):
        q = np.cos(x)
        y = x
        for _ in range(n):
            y = q[::-1]
            q = either(q, y, q[1])
            q[0] += 0.25
        return y[2]

    def loop_of_what_is_written(x, n):
        y = x.copy()
        s = 0.0
        for v in y:
            s += v
            y += 0.5
            y = y + n
        return s

    def changed_places(x, n):
        y, z = x.copy(), x * 2.0
        w = y
        for _ in range(n):
            y, z = z, y
        z[0] = 1.0
        return w[0]

    def either(a, b, c):
        if c > 0.3:
            return a
        return b

    x = np.array([0.5, 1.0, 2.0])
    for f in (gone_round, loop_of_what_is_written, changed_places):
        with pytest.raises(Refused, match="what is written here may be"):
            differentiable(f)(x, 2)


def test_a_view_in_a_result_is_the_one_of_the_end() -> None:
    """In the reverse sweep its index has what it was in earlier turns."""

    def in_turn(x, n):
        both = np.zeros((2, len(x)))
        both[0] = x
        now = 0
        for _ in range(n):
            both[1 - now] = both[now] ** 2
            now = 1 - now
        return both[now]

    def positive(x, n):
        out = np.empty(len(x))
        k = 0
        for v in x:
            if v > 0.0:
                out[k] = v**n
                k += 1
        return out[:k]

    x = np.array([0.5, -1.0, 2.0])
    for f, by_x in ((in_turn, 8 * x**7), (positive, np.array([0.75, 0.0, 12.0]))):
        for policy in POLICIES:
            value, (gradient,) = differentiable(f, policy=policy).vjp(x, 3, seeds=1.0)
            np.testing.assert_allclose(value, f(x, 3))
            np.testing.assert_allclose(gradient, by_x)
