"""Complex numbers: values as plain Python's, gradients of PyTorch's convention, tangents and seeds."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nbgrad as torch
from nbgrad import differentiable
from nbgrad.adjoints.analyse import POLICIES
from nbgrad.adjoints.api import Made
from tests.adjoints import complexes

PROGRAMS = {
    n: f
    for n, f in vars(complexes).items()
    if inspect.isfunction(f) and f.__module__ == complexes.__name__ and not n.startswith("_")
}


def arguments(f: Callable[..., Any]) -> list[Any]:
    z = np.array([0.5 + 0.2j, 0.31 - 0.7j, 1.2 + 0.4j, -0.4 - 0.3j])
    w = np.array([-0.2 + 0.6j, 0.8 + 0.1j, 0.4 - 0.9j, 1.1 + 0.7j])
    known = {"z": z, "w": w, "x": np.array([0.5, 0.31, 1.2, -0.4])}
    known |= {"c": 0.3 + 0.4j, "d": 0.5 - 0.2j, "a": 0.7, "n": 3}
    return [copied(known[p]) for p in inspect.signature(f).parameters]


def copied(a: Any) -> Any:
    return a.copy() if isinstance(a, np.ndarray) else a


def direction(a: Any, draw: np.random.Generator) -> Any:
    if isinstance(a, int):
        return None
    d = draw.normal(size=np.shape(a))
    if np.iscomplexobj(a):
        d = d + 1j * draw.normal(size=np.shape(a))
    return d if np.ndim(a) else d.item() if isinstance(d, np.ndarray) else d


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """Compiled with `--whole`."""
    if not whole:
        monkeypatch.setattr(Made, "compiled", property(lambda made: made.plain))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    f = PROGRAMS[name]
    args = arguments(f)
    draw = np.random.default_rng(1)
    along = [direction(a, draw) for a in args]

    def at(step: float) -> Any:
        return f(*(copied(a) if d is None else a + step * d for a, d in zip(args, along)))

    slope = (at(1e-6) - at(-1e-6)) / 2e-6
    of = differentiable(f, policy=POLICIES[len(name) % len(POLICIES)])
    value, grads = of.value_and_grad(*map(copied, args))
    assert value == pytest.approx(at(0.0), rel=1e-12)
    parts = [d for d in along if d is not None]
    assert [np.iscomplexobj(g) for g in grads] == [np.iscomplexobj(d) for d in parts]
    by_adjoint = sum(np.sum(np.conj(g) * d).real for g, d in zip(grads, parts))
    assert by_adjoint == pytest.approx(slope, rel=1e-6, abs=1e-8)
    value, by_tangent = of.jvp([copied(a) for a in args], along)
    assert by_tangent == pytest.approx(by_adjoint, rel=1e-11, abs=1e-12)
    if name in ("iterated", "written", "wave", "deep", "called"):
        curved = of.hvp([copied(a) for a in args], along)
        ends = [[copied(a) if d is None else a + s * d for a, d in zip(args, along)] for s in (1e-6, -1e-6)]
        for c, p, q in zip(curved, *(of.grad(*end) for end in ends)):
            np.testing.assert_allclose(c, (p - q) / 2e-6, rtol=1e-5, atol=1e-6)


Z = np.array([1 + 2j, -0.5 + 0.3j, 2 - 1j])
W = np.array([0.3 - 2j, 1 + 0.3j, 0.5j])


def test_seeds_and_results_are_complex() -> None:
    def several(z, c):
        y = z * z * c
        return y, np.sum(y), (c * c, 1.0)

    found, (by_z, by_c) = differentiable(several).vjp(Z, 0.3 + 0.5j, seeds=(W, 1 - 2j, (2j, None)))
    assert found[0].dtype == np.complex128 and found[2] == ((0.3 + 0.5j) ** 2, 1.0)
    seeds = W + 1 - 2j
    np.testing.assert_allclose(by_z, seeds * np.conj(2 * Z * (0.3 + 0.5j)))
    assert by_c == pytest.approx(np.sum(seeds * np.conj(Z * Z)) + 2j * np.conj(2 * (0.3 + 0.5j)))
    narrow = differentiable(several).vjp(Z.astype(np.complex64), 1j, seeds=(W, None, (None, None)))
    assert narrow[1][0].dtype == np.complex64


def test_an_array_that_is_written() -> None:
    def scaled(z, c):
        for i in range(len(z)):
            z[i] = z[i] * z[i] * c
        return z[0].real

    z, f = Z.copy(), differentiable(scaled)
    _, (by_z, by_c) = f.vjp(z, 2 - 1j, seeds=(0.0, W))
    np.testing.assert_allclose(z, Z * Z * (2 - 1j))
    np.testing.assert_allclose(by_z, W * np.conj(2 * Z * (2 - 1j)))
    assert by_c == pytest.approx(np.sum(W * np.conj(Z * Z)))
    _, (moved, along) = f.jvp((Z.copy(), 2 - 1j), (W, 1j))
    np.testing.assert_allclose(along, 2 * Z * W * (2 - 1j) + Z * Z * 1j)
    assert moved == pytest.approx(along[0].real)
    with pytest.raises(ValueError, match="is written and shares memory with"):
        differentiable(_copied_to)(z, z[::-1])


def _copied_to(z, u):
    z[:] = u
    return 0.0


def test_arguments_inside_of_others() -> None:
    def model(p, x):
        return (abs(p["weights"][0] @ x) + p["phase"].imag * x[0].real) * p["rate"]

    p = {"weights": [Z, 2.0], "phase": 1 + 2j, "rate": 0.5}
    found = differentiable(model).grad(p, W)
    assert [np.iscomplexobj(g) for g in found] == [True, False, True, False, True]
    np.testing.assert_allclose(found[2], 0.5j * W[0].real)
    total = Z @ W
    np.testing.assert_allclose(found[0], 0.5 * total / abs(total) * np.conj(W))


@differentiable
def energy(z, c):
    s = 0j
    for v in z:
        s += v * v * c + 2.0 / v
    return s


def test_tensors() -> None:
    z = torch.tensor(Z, requires_grad=True)
    c = torch.tensor(0.3 + 0.5j, dtype=torch.complex128, requires_grad=True)
    energy(z, c).abs().backward()
    twice = [t.detach().requires_grad_() for t in (z, c)]
    (twice[0] * twice[0] * twice[1] + 2.0 / twice[0]).sum().abs().backward()
    for t, u in zip((z, c), twice):
        torch.testing.assert_close(t.grad, u.grad)
    (once,) = torch.autograd.grad(energy(z, c).abs(), z, create_graph=True)
    once.abs().sum().backward()
    assert energy(z, 2.0).dtype == torch.complex128


def test_what_has_no_rows_is_refused() -> None:
    def size(z):
        return abs(z)

    for of in (differentiable(size).jacobian, differentiable(size).hessian):
        with pytest.raises(TypeError, match="of complex numbers is not taken"):
            of(1j)


@pytest.mark.slow
def test_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for name in ("iterated", "elements", "matrices", "wave", "listed"):
        f = PROGRAMS[name]
        args = arguments(f)
        value, grads = differentiable(f).value_and_grad(*map(copied, args))
        assert value == pytest.approx(f(*map(copied, args)), rel=1e-10)
        monkeypatch.setattr(Made, "compiled", property(lambda made: made.plain))
        for g, h in zip(grads, differentiable(f).grad(*map(copied, args))):
            np.testing.assert_allclose(g, h, rtol=1e-9)
        monkeypatch.undo()
