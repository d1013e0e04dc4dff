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


def transformer(T: Any) -> Step:
    """Two blocks of a small GPT, 4 sequences of 32 tokens in width 128, attention written out, AdamW."""
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.narrow = nn.LayerNorm(128), nn.LayerNorm(128)
            self.triple, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
            self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)
            self.register_buffer("hidden", T.ones(32, 32).tril() == 0)

        def forward(self, x: Any) -> Any:
            parts = self.triple(self.norm(x)).split(128, dim=2)
            q, k, v = (part.view(4, 32, 4, 32).transpose(1, 2) for part in parts)
            scores = (q @ k.transpose(-2, -1) / 32**0.5).masked_fill(self.hidden, float("-inf"))
            x = x + self.out((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(4, 32, 128))
            return x + self.down(F.gelu(self.up(self.narrow(x))))

    token, place, head = nn.Embedding(65, 128), nn.Embedding(32, 128), nn.Linear(128, 65)
    blocks = nn.Sequential(Block(), Block(), nn.LayerNorm(128), head)
    parameters = [p for part in (token, place, blocks) for p in part.parameters()]
    optimizer = T.optim.AdamW(parameters, lr=1e-3)
    text, places = T.randint(0, 65, (4, 33)), T.arange(32)

    def step() -> Any:
        logits = blocks(token(text[:, :-1]) + place(places))
        loss = F.cross_entropy(logits.reshape(-1, 65), text[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def lstm_written_out(T: Any) -> Step:
    """A cell of 32 units written out over 64 steps of 16 sequences."""
    weight = (T.randn(128, 64) / 8).requires_grad_()
    bias = T.zeros(128, requires_grad=True)
    x = T.randn(64, 16, 32)

    def step() -> Any:
        h = c = T.zeros(16, 32)
        for at in x:
            gates = T.nn.functional.linear(T.cat([at, h], 1), weight, bias)
            i, f, g, o = gates.chunk(4, 1)
            c = T.sigmoid(f) * c + T.sigmoid(i) * T.tanh(g)
            h = T.sigmoid(o) * T.tanh(c)
        loss = h.square().mean()
        weight.grad = bias.grad = None
        loss.backward()
        return loss

    return step


def gaussian_mixture(T: Any) -> Step:
    """The log-likelihood of 10,000 points in a mixture of 8 Gaussians with scales of their own, and its gradient."""
    x = T.randn(10_000, 1, 4)
    means, scales, weights = T.randn(8, 4), T.zeros(8, 4), T.zeros(8)
    for p in (means, scales, weights):
        p.requires_grad_()

    def step() -> Any:
        z = (x - means) * T.exp(-scales)
        each = T.log_softmax(weights, 0) - scales.sum(1) - (z * z).sum(2) / 2
        loss = -T.logsumexp(each, 1).mean()
        means.grad = scales.grad = weights.grad = None
        loss.backward()
        return loss

    return step


def logistic_regression(T: Any) -> Step:
    """200,000 rows of 64 features, the gradient of the mean loss, and a step along it."""
    x = T.randn(200_000, 64)
    y = (x[:, 0] > 0).to(x.dtype)
    w = T.zeros(64, requires_grad=True)
    b = T.zeros((), requires_grad=True)

    def step() -> Any:
        loss = T.nn.functional.binary_cross_entropy_with_logits(x @ w + b, y)
        loss.backward()
        with T.no_grad():
            for p in (w, b):
                p -= 0.1 * p.grad
                p.grad = None
        return loss

    return step


STEPS: dict[str, Callable[[Any], Step]] = {
    "mlp_small": lambda T: perceptron(T, (64, 64, 10), 32),
    "mlp_large": lambda T: perceptron(T, (784, 512, 512, 10), 256),
    "by_hand": by_hand,
    "normalised": normalised,
    "characters": characters,
    "physics_informed": physics_informed,
    "hamiltonian": hamiltonian,
    "transformer": transformer,
    "lstm_written_out": lstm_written_out,
    "gaussian_mixture": gaussian_mixture,
    "logistic_regression": logistic_regression,
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
