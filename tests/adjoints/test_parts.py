"""Arguments that are lists and dictionaries of arrays: as tuples are, and known by their keys."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import nbgrad
from nbgrad.adjoints import Refused
from nbgrad.adjoints.api import Made

R = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Made, "compiled", property(lambda made: made.plain))


def network(layers: Any, x: Any) -> Any:
    h = x
    for i, (w, b) in enumerate(layers):
        h = w @ h + b
        if i < len(layers) - 1:
            h = np.tanh(h)
    return np.sum(h * h)


def growth(p: Any, y: float) -> Any:
    more = {**p}
    more["steps"] += 1
    for _ in range(more["steps"]):
        y += 0.1 * p["rate"] * y * (1.0 - y / p["sizes"][0]) + (p["sub"]["in"] if p["kind"] == "fed" else 0.0)
    return y * p["sizes"][1]


LAYERS = [(R.normal(size=(4, 3)), R.normal(size=4)), (R.normal(size=(2, 4)), R.normal(size=2))]
RATES: dict[str, Any] = {
    "rate": 0.7,
    "sizes": np.array([2.0, 0.5]),
    "steps": 3,
    "kind": "fed",
    "sub": {"in": 0.2},
}


def test_a_list_of_layers() -> None:
    f, x = nbgrad.differentiable(network), R.normal(size=3)
    value, grads = f.value_and_grad(LAYERS, x)
    along = [(R.normal(size=w.shape), R.normal(size=b.shape)) for w, b in LAYERS]

    def at(e: float) -> Any:
        return network([(w + e * p, b + e * q) for (w, b), (p, q) in zip(LAYERS, along)], x)

    slope = (at(1e-6) - at(-1e-6)) / 2e-6
    assert value == pytest.approx(at(0.0)) and len(grads) == 5
    parts = [p for layer in along for p in layer]
    assert sum(np.sum(g * d) for g, d in zip(grads, parts)) == pytest.approx(slope, rel=1e-6)
    assert f.jvp((LAYERS, x), (along, None))[1] == pytest.approx(slope, rel=1e-6)
    assert len(f.grad(LAYERS, x, wrt="layers")) == 4
    curved = f.hvp((LAYERS, x), (along, None))
    moved = [
        f.grad([(w + e * p, b + e * q) for (w, b), (p, q) in zip(LAYERS, along)], x) for e in (1e-6, -1e-6)
    ]
    for c, a, b in zip(curved, *moved):
        np.testing.assert_allclose(c, (a - b) / 2e-6, rtol=1e-5, atol=1e-6)


class Net(NamedTuple):
    weights: Any
    biases: Any


def by_counter(net: Any, x: Any) -> Any:
    """Which array a turn takes is known, as turns are written out: they may be of any shapes."""
    total, last = 0.0, len(net.weights) - 1
    for _ in range(2):
        h = x
        for i in range(len(net.weights)):
            h = net.weights[i] @ h + net.biases[i]
            if i < last:
                h = np.tanh(h) * net.biases[i + 1][0]
        total += np.sum(h * h)
        x = x * 0.5
    return total


def of_the_arguments(weights: Any, x: Any) -> Any:
    for k in range(len(weights) - 1, -1, -1):
        x = np.sin(weights[k] @ x) * weights[0][k, 0]
    return np.sum(x)


def until_large(weights: Any, x: Any) -> Any:
    for k in range(len(weights)):
        x = weights[k] @ x
        if x[0] > 1e9:
            break
    return x[0]


def test_arrays_of_a_list_by_a_counter() -> None:
    x = R.normal(size=3)
    net = Net((LAYERS[0][0], R.normal(size=(5, 4))), [R.normal(size=4), R.normal(size=5)])
    square = [R.normal(size=(3, 3)) for _ in range(3)]
    for f, args in ((by_counter, (net, x)), (of_the_arguments, (square, x))):
        value, grads = nbgrad.differentiable(f).value_and_grad(*args)
        assert value == pytest.approx(f(*args))
        parts = [*(square if f is of_the_arguments else (*net.weights, *net.biases)), x]
        for g, a in zip(grads, parts, strict=True):
            for at in np.ndindex(a.shape):
                here = a[at]
                a[at] = here + 1e-6
                up = f(*args)
                a[at] = here - 1e-6
                down = f(*args)
                a[at] = here
                assert g[at] == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-8)
    with pytest.raises(Refused, match="a tuple is indexed by something that is not a constant"):
        nbgrad.differentiable(until_large)(square, x)


def test_tensors_in_a_list_and_a_dictionary() -> None:
    layers = [tuple(nbgrad.tensor(a, requires_grad=True) for a in layer) for layer in LAYERS]
    x = R.normal(size=3)
    nbgrad.differentiable(network)(layers, x).backward()
    expected = nbgrad.differentiable(network).grad(LAYERS, x)
    for t, g in zip([t for layer in layers for t in layer], expected):
        np.testing.assert_allclose(t.grad.numpy(), g)
    sizes = nbgrad.tensor(RATES["sizes"], requires_grad=True)
    nbgrad.differentiable(growth)({**RATES, "sizes": sizes}, 0.3).backward()
    np.testing.assert_allclose(sizes.grad.numpy(), nbgrad.differentiable(growth).grad(RATES, 0.3)[1])


def test_a_dictionary() -> None:
    f = nbgrad.differentiable(growth)
    rate, sizes, fed, by_y = f.grad(RATES, 0.3)

    def slope(up: dict[str, Any], down: dict[str, Any]) -> Any:
        return (growth(up, 0.3) - growth(down, 0.3)) / 2e-6

    assert rate == pytest.approx(
        slope({**RATES, "rate": 0.7 + 1e-6}, {**RATES, "rate": 0.7 - 1e-6}), rel=1e-6
    )
    assert fed == pytest.approx(
        slope({**RATES, "sub": {"in": 0.2 + 1e-6}}, {**RATES, "sub": {"in": 0.2 - 1e-6}}), rel=1e-6
    )
    _, moved = f.jvp((RATES, 0.3), ({"rate": 1.0, "sub": {"in": 2.0}}, None))
    assert moved == pytest.approx(rate + 2.0 * fed)
    other = {k: RATES[k] for k in ("sub", "kind", "steps", "sizes", "rate")}
    assert f.grad(other, 0.3)[::-1][1:] == (rate, pytest.approx(sizes), fed) and f.grad(other, 0.3)[3] == by_y
    with pytest.raises(TypeError, match="p has 5 parts, and its tangent is"):
        f.jvp((RATES, 0.3), ({"lost": 1.0}, None))


def test_what_is_written_in_one() -> None:
    def array(p):  # type: ignore[no-untyped-def]
        p["v"][0] = 3.0 * p["v"][1]
        return np.sum(p["v"])

    def key(p):  # type: ignore[no-untyped-def]
        p["v"] = p["v"] * 2.0
        return np.sum(p["v"])

    def item(p):  # type: ignore[no-untyped-def]
        p[0] = 2.0
        return p[0]

    v = np.ones(3)
    assert nbgrad.differentiable(array)({"v": v}) == 5 and v.tolist() == [3, 1, 1]
    (by_v,) = nbgrad.differentiable(array).grad({"v": np.ones(3)})
    assert by_v.tolist() == [0, 4, 1]
    with pytest.raises(Refused, match="a dictionary that was given, or of the module, stays as it is"):
        nbgrad.differentiable(key)({"v": v})
    with pytest.raises(Refused, match="what is indexed is no array"):
        nbgrad.differentiable(item)([1.0])
