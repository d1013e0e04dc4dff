"""Training steps, each written once for any library of PyTorch's names: what `compiled.py` times, and `../peers.py` beside other compilers.

A maker takes the library and gives the step, and what is known of the step's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

Step = Callable[[], Any]


def _noise(*shape: int, scale: float = 1.0, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def _classes(count: int, *shape: int) -> Any:
    return np.random.default_rng(1).integers(0, count, shape)


def leaves(T: Any, *values: Any) -> list[Any]:
    return [T.tensor(v).requires_grad_() for v in values]


def _one(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def _zero(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def backward(given: list[Any], loss: Callable[[], Any]) -> Step:
    """The gradients of a loss, made anew at each step."""

    def step() -> Any:
        for t in given:
            t.grad = None
        y = loss()
        y.backward()
        return y

    return step


def trained(T: Any, given: list[Any], loss: Callable[[], Any], optimizer: str = "Adam") -> Step:
    # So small a rate that thousands of steps leave no denormal numbers.
    made = getattr(T.optim, optimizer)(given, lr=1e-6)

    def step() -> Any:
        y = loss()
        made.zero_grad()
        y.backward()
        made.step()
        return y

    return step


def tiny(T: Any) -> Step:
    x, w, b = leaves(T, _one(4), _one(4), _one(4))
    return backward([x, w, b], lambda: T.tanh(x * w + b).sum())


def scalar_chain(T: Any) -> Step:
    (x,) = leaves(T, np.float32(0.5))

    def loss() -> Any:
        y = x
        for _ in range(50):
            y = y * 1.01 + 0.1
        return y

    return backward([x], loss)


def hvp(T: Any) -> Step:
    (x,) = leaves(T, _noise(100))
    v, one = T.tensor(_noise(100, seed=1)), T.ones(())

    def step() -> Any:
        y = (T.tanh(x) * T.exp(-x * x) + x**3).sum()
        (g,) = T.autograd.grad(y, x, one, create_graph=True)
        (h,) = T.autograd.grad((g * v).sum(), x, one)
        return h

    return step


def gmm(T: Any) -> Step:
    """25 components, 1,000 points of 10 numbers."""
    x = T.tensor(_noise(1000, 10))
    a, m, s = leaves(T, _noise(25), _noise(25, 10, seed=1), _noise(25, 10, scale=0.1, seed=2))

    def loss() -> Any:
        z = (x[:, None, :] - m) * T.exp(s)
        main = a + s.sum(1) - 0.5 * (z * z).sum(2)
        return T.logsumexp(main, 1).sum() - 1000 * T.logsumexp(a, 0)

    return backward([a, m, s], loss)


def chain(T: Any) -> Step:
    (x,) = leaves(T, _noise(1 << 20))
    return backward([x], lambda: (x * T.sigmoid(x) + T.tanh(x) * T.exp(-x * x)).sum())


def gelu_ln(T: Any) -> Step:
    F = T.nn.functional
    x, g, b = leaves(T, _noise(2048, 512), _one(512), _zero(512))
    return backward([x, g, b], lambda: F.gelu(F.layer_norm(x, (512,), g, b)).sum())


def softmax_ce(T: Any) -> Step:
    (x,) = leaves(T, _noise(4096, 1000))
    y = T.tensor(_classes(1000, 4096))
    return backward([x], lambda: T.nn.functional.cross_entropy(x, y))


def logreg(T: Any) -> Step:
    X, y = T.tensor(_noise(200_000, 64)), T.tensor(_classes(2, 200_000).astype(np.float32))
    (w,) = leaves(T, _noise(64, scale=0.1))
    return backward([w], lambda: T.nn.functional.binary_cross_entropy_with_logits(X @ w, y))


def embed(T: Any) -> Step:
    (table,) = leaves(T, _noise(10_000, 64))
    at, y = T.tensor(_classes(10_000, 8192)), T.tensor(_noise(8192, 64))
    return backward([table], lambda: ((T.nn.functional.embedding(at, table) - y) ** 2).mean())


def _mlp(T: Any, batch: int, *sizes: int) -> Step:
    F, pairs = T.nn.functional, list(pairwise(sizes))
    weights = leaves(T, *[_noise(o, i, scale=i**-0.5) for i, o in pairs])
    biases = leaves(T, *[_zero(o) for _, o in pairs])
    x, y = T.tensor(_noise(batch, sizes[0])), T.tensor(_classes(sizes[-1], batch))

    def loss() -> Any:
        h = x
        for k, (w, b) in enumerate(zip(weights, biases)):
            h = F.linear(T.relu(h) if k else h, w, b)
        return F.cross_entropy(h, y)

    return trained(T, [*weights, *biases], loss)


def mlp_small(T: Any) -> Step:
    return _mlp(T, 32, 64, 64, 10)


def mlp_large(T: Any) -> Step:
    return _mlp(T, 256, 784, 512, 512, 10)


def cnn(T: Any) -> Step:
    F, x, y = T.nn.functional, T.tensor(_noise(32, 1, 28, 28)), T.tensor(_classes(10, 32))
    shapes = ((16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (10, 32 * 7 * 7), (10,))
    p = leaves(T, *[_noise(*s, scale=0.1) for s in shapes])

    def loss() -> Any:
        h = F.max_pool2d(T.relu(F.conv2d(x, p[0], p[1], padding=1)), 2)
        h = F.max_pool2d(T.relu(F.conv2d(h, p[2], p[3], padding=1)), 2)
        return F.cross_entropy(F.linear(h.reshape(32, -1), p[4], p[5]), y)

    return trained(T, p, loss, "SGD")


def lstm(T: Any) -> Step:
    """A cell written out over 64 steps, 64 wide, of 16 sequences."""
    F, size = T.nn.functional, 64
    w, u, b = leaves(T, _noise(256, size, scale=0.1), _noise(256, size, scale=0.1, seed=1), _zero(256))
    x, begin = T.tensor(_noise(64, 16, size)), T.zeros(16, size)

    def loss() -> Any:
        h = c = begin
        for k in range(64):
            i, f, g, o = (F.linear(x[k], w, b) + F.linear(h, u)).chunk(4, 1)
            c = T.sigmoid(f) * c + T.sigmoid(i) * T.tanh(g)
            h = T.sigmoid(o) * T.tanh(c)
        return (h * h).mean()

    return backward([w, u, b], loss)


def gpt(T: Any) -> Step:
    """2 layers, 128 wide, 4 heads, 12 texts of 64 tokens out of 256."""
    F, batch, length, width, heads = T.nn.functional, 12, 64, 128, 4
    head = width // heads
    words, places, g, b = leaves(
        T, _noise(256, width, scale=0.02), _noise(length, width, scale=0.02), _one(width), _zero(width)
    )
    shapes = [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)]
    layers = []
    for _ in range(2):
        pairs = [p for s in shapes for p in (_noise(*s, scale=0.02), _zero(s[0]))]
        layers.append(leaves(T, _one(width), _zero(width), _one(width), _zero(width), *pairs))
    x, y = T.tensor(_classes(256, batch, length)), T.tensor(_classes(256, batch * length))
    mask = T.tensor(np.triu(np.full((length, length), -np.inf, np.float32), 1))

    def loss() -> Any:
        h = F.embedding(x, words) + places
        for g1, b1, g2, b2, wq, bq, wo, bo, w1, c1, w2, c2 in layers:
            qkv = F.linear(F.layer_norm(h, (width,), g1, b1), wq, bq)
            q, k, v = qkv.reshape(batch, length, 3, heads, head).permute(2, 0, 3, 1, 4).unbind(0)
            a = T.softmax(q @ k.transpose(-1, -2) / math.sqrt(head) + mask, -1)
            h = h + F.linear((a @ v).transpose(1, 2).reshape(batch, length, width), wo, bo)
            h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (width,), g2, b2), w1, c1)), w2, c2)
        return F.cross_entropy(F.linear(F.layer_norm(h, (width,), g, b), words).reshape(-1, 256), y)

    return trained(T, [words, places, g, b, *[p for layer in layers for p in layer]], loss, "AdamW")


_ALL = (tiny, scalar_chain, hvp, gmm, chain, gelu_ln, softmax_ce, logreg)
_ALL += (embed, mlp_small, mlp_large, cnn, lstm, gpt)  # type: ignore[assignment]
STEPS: dict[str, Callable[[Any], Step]] = {f.__name__: f for f in _ALL}
# What issue and design ask for: the time beside the best of the others.
BARS = dict(
    **dict.fromkeys(("tiny", "scalar_chain"), 0.2),
    **dict(hvp=0.25, mlp_small=0.35, gmm=0.45, softmax_ce=0.6, gelu_ln=0.65, logreg=0.7, chain=0.35),
    **dict(embed=0.75, lstm=0.75, gpt=0.85, mlp_large=0.95, cnn=0.9),
)
