"""Whole steps, as a user takes them: forward, backward and what is done with the gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .common import LIBS, library

Step = Callable[[], Any]


def perceptron(T: Any, sizes: tuple[int, ...], batch: int) -> Step:
    """Adam on the cross-entropy of random labels."""
    nn = T.nn
    layers = [layer for i, o in itertools.pairwise(sizes) for layer in (nn.Linear(i, o), nn.ReLU())]
    net = nn.Sequential(*layers[:-1])
    optimizer = T.optim.Adam(net.parameters(), lr=1e-3)
    x, labels = T.randn(batch, sizes[0]), T.randint(0, sizes[-1], (batch,))

    def step() -> None:
        loss = nn.functional.cross_entropy(net(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def by_hand(T: Any) -> Step:
    """A small perceptron of plain tensors, and plain gradient descent."""
    F = T.nn.functional
    x, labels = T.randn(32, 64), T.randint(0, 10, (32,))
    parameters = [T.randn(64, 64) / 8, T.zeros(64), T.randn(10, 64) / 8, T.zeros(10)]
    for p in parameters:
        p.requires_grad_()

    def step() -> None:
        w1, b1, w2, b2 = parameters
        F.cross_entropy(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), labels).backward()
        with T.no_grad():
            for p in parameters:
                p.sub_(p.grad, alpha=0.01)
                p.grad = None

    return step


def normalised(T: Any) -> Step:
    """A small network with layer- and batch-norm and dropout, forward and backward."""
    nn = T.nn
    model = nn.Sequential(
        *(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU()),
        *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)),
    )
    x, labels = T.randn(32, 64), T.randint(0, 10, (32,))

    def step() -> None:
        model.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()

    return step


def characters(T: Any) -> Step:
    """The language model of examples/: windows of a text, embedding, tanh layer, cross-entropy, AdamW."""
    nn = T.nn
    text = T.randint(0, 90, (100_000,))
    net = nn.Sequential(
        nn.Embedding(90, 16), nn.Flatten(), nn.Linear(128, 200), nn.Tanh(), nn.Linear(200, 90)
    )
    optimizer = T.optim.AdamW(net.parameters(), lr=4e-3)

    def step() -> None:
        rows = text[T.randint(0, len(text) - 8, (128, 1)) + T.arange(9)]
        loss = nn.functional.cross_entropy(net(rows[:, :-1]), rows[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def physics_informed(T: Any) -> Step:
    """The residual of a differential equation of second order: three derivatives deep."""
    nn = T.nn
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = T.optim.Adam(net.parameters(), lr=1e-3)
    t = T.linspace(0, 3, 64)[:, None].requires_grad_()

    def derivative(y: Any) -> Any:
        return T.autograd.grad(y.sum(), t, create_graph=True)[0]

    def step() -> None:
        u = 1 + t * t * net(t)
        velocity = derivative(u)
        loss = (derivative(velocity) + velocity + 9 * u).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def hamiltonian(T: Any) -> Step:
    """One leap of Hamiltonian Monte Carlo on a posterior of three coefficients, in float64."""
    design, y = T.randn(40, 3, dtype=T.float64), T.randn(40, dtype=T.float64)
    q, p = T.zeros(3, dtype=T.float64), T.randn(3, dtype=T.float64)

    def step() -> None:
        at = (q + 0.06 * p).requires_grad_()
        misfit = (design @ at - y) / 0.5
        energy = (misfit.dot(misfit) + at.dot(at) / 9) / 2
        p - 0.06 * T.autograd.grad(energy, at)[0]

    return step


STEPS: dict[str, Callable[[Any], Step]] = {
    "mlp_small": lambda T: perceptron(T, (64, 64, 10), 32),
    "mlp_large": lambda T: perceptron(T, (784, 512, 512, 10), 256),
    "by_hand": by_hand,
    "normalised": normalised,
    "characters": characters,
    "physics_informed": physics_informed,
    "hamiltonian": hamiltonian,
}


class Training:
    params = (LIBS, tuple(STEPS))
    param_names = ("lib", "program")

    def setup(self, lib: str, program: str) -> None:
        T = library(lib)
        T.manual_seed(0)
        self.step = STEPS[program](T)
        self.step()
        self.step()  # an optimiser's second step is the first that finds its state

    def time_step(self, lib: str, program: str) -> None:
        self.step()
