"""Ten functions whose adjoint is kept in `golden.txt`: `python -m tests.adjoints.golden` writes it anew, to be read."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from nbgrad import differentiable

GOLDEN = Path(__file__).parent / "golden.txt"
X, M = np.array([0.5, -1.0, 2.0, 1.5]), np.arange(16.0).reshape(4, 4) / 8 - 0.7


def above(x, a):
    s = 0.0
    for v in x:
        if v > a:
            s += (v - a) ** 2
    return s


def bumps(x, a):
    s = 0.0
    for i in range(len(x)):
        d = x[i] - a
        s += d * d * math.exp(-d)
    return s


def newton(a):
    y = a
    while abs(y * y - a) > 1e-12:
        y = 0.5 * (y + a / y)
    return y


def first_below(x, bound):
    for i in range(len(x)):
        if x[i] < bound:
            return x[i] * x[i]
        bound *= 0.9
    return bound


def products(M, x):
    y = M @ x
    return np.dot(y, y)


def smoothed(x, y, h):
    for i in range(1, len(x) - 1):
        y[i] = x[i] + h * (x[i - 1] - 2.0 * x[i] + x[i + 1])


def in_place(x, n):
    for _ in range(n):
        for i in range(1, len(x)):
            x[i] = math.sin(x[i]) * x[i - 1]
    return x[3]


def log_sum_exp(x):
    m = np.max(x)
    return m + math.log(np.sum(np.exp(x - m)))


def distances(x, M):
    total = 0.0
    for i in range(M.shape[0]):
        d = np.empty(4)
        for j in range(4):
            d[j] = x[j] - M[i, j]
        total += math.sqrt(np.sum(d * d))
    return total


def polar(r, t):
    return r * math.cos(t), r * math.sin(t)


CASES: list[tuple[Any, tuple[Any, ...]]] = [
    (above, (X, 0.7)),
    (bumps, (X, 0.7)),
    (newton, (2.0,)),
    (first_below, (X, 0.2)),
    (products, (M, X)),
    (smoothed, (X, np.zeros(4), 0.1)),
    (in_place, (X, 3)),
    (log_sum_exp, (X,)),
    (distances, (X, M)),
    (polar, (2.0, 0.4)),
]


def texts() -> str:
    return "\n".join(differentiable(f).adjoint_source(*args) for f, args in CASES)


if __name__ == "__main__":
    GOLDEN.write_text(texts())
