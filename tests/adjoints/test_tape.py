"""Calls with tensors: one node, of any order, for every transform."""

import enum
import gc
import math
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.autograd._plain import _Call
from nbgrad.kernels import functions


@T.differentiable
def waves(x, a):
    s = 0.0
    for i in range(len(x)):
        if x[i] > -2.0:
            s += math.sin(x[i] * a) * x[i]
    return s


@T.differentiable
def scaled(x, a):
    y = np.empty(len(x))
    for i in range(len(x)):
        y[i] = a * x[i] ** 3
    return y, a * x[0]


def formula(x, a):
    return (T.sin(x * a) * x).sum()


def of(dtype=T.float64):
    x = T.tensor([0.3, -0.7, 1.1], dtype=dtype, requires_grad=True)
    return x, T.tensor(1.3, dtype=dtype, requires_grad=True)


@pytest.mark.slow
def test_backward() -> None:
    x, a = of()
    y = waves(x, a)
    assert y.shape == () and y.requires_grad
    y.backward()
    z, b = of()
    formula(z, b).backward()
    assert T.allclose(x.grad, z.grad) and T.allclose(a.grad, b.grad)
    out, first = scaled(x, 2.0)
    (gx,) = T.autograd.grad((out * T.tensor([1.0, 2.0, 3.0])).sum() + first, x)
    assert T.allclose(gx, 6.0 * x.detach() ** 2 * T.tensor([1.0, 2.0, 3.0]) + T.tensor([2.0, 0.0, 0.0]))


@pytest.mark.slow
def test_orders_hooks_and_saved_tensors() -> None:
    x, a = of()
    seen = []
    x.register_hook(lambda g: seen.append(g.clone()))
    (g,) = T.autograd.grad(waves(x, a), x, create_graph=True)
    (h,) = T.autograd.grad((g * g).sum(), a, create_graph=True)
    (third,) = T.autograd.grad(h, a)
    z, b = of()
    (k,) = T.autograd.grad(formula(z, b), z, create_graph=True)
    (m,) = T.autograd.grad((k * k).sum(), b, create_graph=True)
    (fourth,) = T.autograd.grad(m, b)
    assert T.allclose(g, k) and T.allclose(h, m) and T.allclose(third, fourth)
    assert len(seen) == 1
    y = waves(x, a)
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    y = waves(x * 1.0, a)
    assert T.autograd.gradcheck(waves, of()) and T.autograd.gradgradcheck(waves, of())


@pytest.mark.slow
def test_versions() -> None:
    x, a = of()
    z = x * 1.0
    y = waves(z, a)
    with T.no_grad():
        z.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


@T.differentiable
def of_parts(x, p, side, how=None):
    a, b = p
    s = np.empty(len(x))
    for i in range(len(x)):
        s[i] = a * x[i] ** 2 * b[i] if side == Side.LEFT else b[i] * x[i]
    return s if how is None else s * 2.0


def test_vmap_of_what_has_parts_and_of_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuples, members of an enum, strings and None keep their places in each example."""
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)
    rows = T.arange(6.0, dtype=T.float64).reshape(3, 2) + 1.0
    for call, expected in (
        (lambda t: of_parts(t, (2.0, t), Side.LEFT), 2.0 * rows**3),
        (lambda t: of_parts(t, [t[0], np.ones(2)], Side.LEFT, "twice"), 2.0 * rows[:, :1] * rows**2),
        (lambda t: of_parts(rows[0], (2.0, t), Side.RIGHT, None), rows[0] * rows),
    ):
        assert T.allclose(T.vmap(call)(rows), expected)
    each = T.vmap(T.func.grad(lambda t: of_parts(t, (2.0, t), Side.LEFT).sum()))(rows)
    assert T.allclose(each, 6.0 * rows**2)
    x = rows[0].clone().requires_grad_()
    of_parts(x, (2.0, x), Side.LEFT, "twice").sum().backward()
    assert T.allclose(x.grad, 12.0 * rows[0] ** 2)


@pytest.mark.slow
def test_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    x, a = (t.detach() for t in of())
    assert T.allclose(T.func.grad(waves)(x, a), T.func.grad(formula)(x, a))
    rows = T.stack([x, 2 * x])
    assert T.allclose(T.vmap(waves, (0, None))(rows, a), T.vmap(formula, (0, None))(rows, a))
    each = T.vmap(T.func.grad(waves), (0, None))(rows, a)
    assert T.allclose(each, T.vmap(T.func.grad(formula), (0, None))(rows, a))
    calls, names = _Call.apply, list[Any]()

    def counted(*args: Any) -> Any:
        names.append(args[0].names)
        return calls(*args)

    monkeypatch.setattr(_Call, "apply", counted)
    assert T.allclose(T.vmap(waves, (1, None))(rows.T.contiguous(), a), T.vmap(formula, (0, None))(rows, a))
    assert [n[0] for n in names] == ["x", "count"]  # the call, and one loop
    value, moved = T.func.jvp(waves, (x, a), (T.ones_like(x), T.ones_like(a)))
    wanted = T.func.jvp(formula, (x, a), (T.ones_like(x), T.ones_like(a)))
    assert T.allclose(value, wanted[0]) and T.allclose(moved, wanted[1])
    assert T.allclose(T.func.hessian(waves)(x, a), T.func.hessian(formula)(x, a))


@pytest.mark.slow
def test_float32_and_modules() -> None:
    x, a = of(T.float32)
    y = waves(x, a)
    assert y.dtype is T.float32
    y.backward()
    assert x.grad.dtype is T.float32 and a.grad.dtype is T.float32

    class Fit(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = T.nn.Parameter(T.tensor(0.5, dtype=T.float64))

        def forward(self, x):
            return waves(x, self.a)

    fit = Fit()
    optimiser = T.optim.SGD(fit.parameters(), 0.05)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = (fit(np.array([0.3, -0.7, 1.1])) - 0.9) ** 2
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.slow
def test_nothing_leaks_and_threads() -> None:
    x, a = of()
    y = waves(x, a)
    gone = weakref.ref(y.grad_fn)
    y.backward()
    del y
    gc.collect()
    assert gone() is None
    before = len(gc.get_objects())
    for _ in range(300):
        waves(x, a).backward()
    gc.collect()
    assert len(gc.get_objects()) - before < 200
    want = waves.grad(x.detach().numpy(), 1.3)[0]
    wrong = []

    def work() -> None:
        for _ in range(50):
            found = waves.grad(x.detach().numpy(), 1.3)[0]
            wrong.extend([] if np.array_equal(found, want) else [found])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_refusals() -> None:
    @T.differentiable
    def doubled(x):
        for i in range(len(x)):
            x[i] *= 2.0

    with pytest.raises(RuntimeError, match="x is a tensor, and the function writes to it"):
        doubled(T.ones(3))


@pytest.mark.fast
def test_results_that_are_one_array_are_tensors_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "Compiled", lambda function, text, helpers: function)

    @T.differentiable
    def thrice(x):
        y = x * x
        return y, y, y[1:]

    x = T.tensor([1.0, 2.0, 3.0], dtype=T.float64, requires_grad=True)
    y, z, w = thrice(x)
    y.mul_(2.0)
    w.mul_(3.0)
    assert z.tolist() == [1.0, 4.0, 9.0] and y.tolist() == [2.0, 8.0, 18.0] and w.tolist() == [12.0, 27.0]
    (y.sum() + 3 * z.sum() + w.sum()).backward()
    assert x.grad.tolist() == [10.0, 32.0, 48.0]
