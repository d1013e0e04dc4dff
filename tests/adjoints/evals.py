"""GradBench's programs as plain functions: `python -m tests.adjoints.evals` prints what value and gradient cost beside the value.

The value is the user's code under Numba's own `njit`; the two are run in turn, and the least time of each on its processor counts.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from nbgrad import differentiable

numba = njit(error_model="numpy")


@numba
def log_sum_exp(x):
    m = x[0]
    for i in range(1, len(x)):
        m = max(m, x[i])
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i] - m)
    return math.log(s) + m


@numba
def lse(x):
    return log_sum_exp(x)


@numba
def gmm(alphas, means, logs, lower, x, gamma, wishart):
    """The logarithm of the posterior of a mixture of Gaussians, whose inverse covariances are given by factors."""
    n, d = x.shape
    k = len(alphas)
    diagonal = np.empty((k, d))
    trace = np.zeros(k)
    for c in range(k):
        for j in range(d):
            diagonal[c, j] = math.exp(logs[c, j])
            trace[c] += logs[c, j]
    likelihood = 0.0
    for i in range(n):
        terms = np.empty(k)
        centred = np.empty(d)
        scaled = np.empty(d)
        for c in range(k):
            for j in range(d):
                centred[j] = x[i, j] - means[c, j]
                scaled[j] = diagonal[c, j] * centred[j]
            at = 0
            for j in range(d):
                for r in range(j + 1, d):
                    scaled[r] += lower[c, at + r - j - 1] * centred[j]
                at += d - j - 1
            square = 0.0
            for j in range(d):
                square += scaled[j] * scaled[j]
            terms[c] = alphas[c] + trace[c] - 0.5 * square
        likelihood += log_sum_exp(terms)
    prior = 0.0
    for c in range(k):
        square = 0.0
        for j in range(d):
            square += diagonal[c, j] * diagonal[c, j]
        for j in range(lower.shape[1]):
            square += lower[c, j] * lower[c, j]
        prior += 0.5 * gamma * gamma * square - wishart * trace[c]
    return likelihood - n * log_sum_exp(alphas) - prior - 0.5 * n * d * math.log(2 * math.pi)


@numba
def rotated(turn, point, out):
    square = turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2]
    if square != 0.0:
        angle = math.sqrt(square)
        c = math.cos(angle)
        s = math.sin(angle)
        w = np.empty(3)
        for i in range(3):
            w[i] = turn[i] / angle
        across = (w[0] * point[0] + w[1] * point[1] + w[2] * point[2]) * (1.0 - c)
        out[0] = point[0] * c + (w[1] * point[2] - w[2] * point[1]) * s + w[0] * across
        out[1] = point[1] * c + (w[2] * point[0] - w[0] * point[2]) * s + w[1] * across
        out[2] = point[2] * c + (w[0] * point[1] - w[1] * point[0]) * s + w[2] * across
    else:
        out[0] = point[0] + turn[1] * point[2] - turn[2] * point[1]
        out[1] = point[1] + turn[2] * point[0] - turn[0] * point[2]
        out[2] = point[2] + turn[0] * point[1] - turn[1] * point[0]


@numba
def projected(camera, point):
    moved = np.empty(3)
    seen = np.empty(3)
    for i in range(3):
        moved[i] = point[i] - camera[3 + i]
    rotated(camera[:3], moved, seen)
    u = seen[0] / seen[2]
    v = seen[1] / seen[2]
    r = u * u + v * v
    distortion = 1.0 + camera[9] * r + camera[10] * r * r
    return u * distortion * camera[6] + camera[7], v * distortion * camera[6] + camera[8]


@numba
def ba(cameras, points, weights, seen, features):
    """Half the sum of squares of bundle adjustment's residuals."""
    total = 0.0
    for i in range(len(weights)):
        u, v = projected(cameras[seen[i, 0]], points[seen[i, 1]])
        a = weights[i] * (u - features[i, 0])
        b = weights[i] * (v - features[i, 1])
        z = 1.0 - weights[i] * weights[i]
        total += a * a + b * b + z * z
    return 0.5 * total


@numba
def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


@numba
def lstm(main, extra, state, sequence):
    steps, b = sequence.shape
    layers = main.shape[0] // 2
    hidden = np.empty((layers, b))
    cell = np.empty((layers, b))
    for i in range(layers):
        for j in range(b):
            hidden[i, j] = state[2 * i, j]
            cell[i, j] = state[2 * i + 1, j]
    total = 0.0
    y = np.empty(b)
    for t in range(steps - 1):
        for j in range(b):
            y[j] = sequence[t, j] * extra[0, j]
        for i in range(layers):
            for j in range(b):
                h = hidden[i, j]
                forget = sigmoid(y[j] * main[2 * i, j] + main[2 * i + 1, j])
                ingate = sigmoid(h * main[2 * i, b + j] + main[2 * i + 1, b + j])
                outgate = sigmoid(y[j] * main[2 * i, 2 * b + j] + main[2 * i + 1, 2 * b + j])
                change = math.tanh(h * main[2 * i, 3 * b + j] + main[2 * i + 1, 3 * b + j])
                cell[i, j] = cell[i, j] * forget + ingate * change
                hidden[i, j] = outgate * math.tanh(cell[i, j])
                y[j] = hidden[i, j]
        s = 2.0
        for j in range(b):
            y[j] = y[j] * extra[1, j] + extra[2, j]
            s += math.exp(y[j])
        norm = math.log(s)
        for j in range(b):
            total += sequence[t + 1, j] * (y[j] - norm)
    return -total / ((steps - 1) * b)


@numba
def kmeans(points, centres):
    cost = 0.0
    for i in range(len(points)):
        best = math.inf
        for c in range(len(centres)):
            s = 0.0
            for j in range(points.shape[1]):
                d = points[i, j] - centres[c, j]
                s += d * d
            if s < best:
                best = s
        cost += best
    return cost


@numba
def det(a):
    """By elimination with pivots."""
    n = a.shape[0]
    m = a.copy()
    product = 1.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(m[i, k]) > abs(m[pivot, k]):
                pivot = i
        if pivot != k:
            product = -product
            for j in range(n):
                t = m[k, j]
                m[k, j] = m[pivot, j]
                m[pivot, j] = t
        product *= m[k, k]
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            for j in range(k + 1, n):
                m[i, j] -= f * m[k, j]
    return product


@numba
def llsq(x, n):
    total = 0.0
    for i in range(n):
        t = -1.0 + i * 2.0 / (n - 1)
        s = 1.0 if t > 0.0 else (-1.0 if t < 0.0 else 0.0)
        power = 1.0
        for j in range(len(x)):
            s -= x[j] * power
            power *= t
        total += s * s
    return total / 2.0


@numba
def slope(x, y, out):
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = x[i] * y[i - 1]


@numba
def ode(x, steps):
    """Runge and Kutta's steps."""
    n = len(x)
    h = 2.0 / steps
    y = np.zeros(n)
    k1 = np.empty(n)
    k2 = np.empty(n)
    k3 = np.empty(n)
    k4 = np.empty(n)
    t = np.empty(n)
    for _ in range(steps):
        slope(x, y, k1)
        for i in range(n):
            t[i] = y[i] + h * k1[i] / 2.0
        slope(x, t, k2)
        for i in range(n):
            t[i] = y[i] + h * k2[i] / 2.0
        slope(x, t, k3)
        for i in range(n):
            t[i] = y[i] + h * k3[i]
        slope(x, t, k4)
        for i in range(n):
            y[i] += h * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]) / 6.0
    return y[n - 1]


@numba
def particle(w):
    """Where a particle that two charges repel comes down, squared."""
    px, py, vx, vy = 0.0, 8.0, 0.75, 0.0
    dt = 0.1
    while py > 0.0:
        ax, ay = 0.0, 0.0
        for cx, cy in ((10.0, 10.0 - w), (10.0, 0.0)):
            dx = px - cx
            dy = py - cy
            r = math.sqrt(dx * dx + dy * dy)
            ax += dx / (r * r * r)
            ay += dy / (r * r * r)
        px += dt * vx
        py += dt * vy
        vx += dt * ax
        vy += dt * ay
    landed = px - py / vy * vx
    return landed * landed


class Eval(NamedTuple):
    function: Any
    size: Any
    args: Callable[[np.random.Generator, Any], tuple[Any, ...]]
    wrt: tuple[str, ...] | None = None
    bar: float = 3.0


def of_gmm(r: np.random.Generator, size: Any) -> tuple[Any, ...]:
    d, k, n = size
    lower = r.normal(size=(k, d * (d - 1) // 2)) * 0.1
    return (
        r.normal(size=k),
        r.normal(size=(k, d)),
        r.normal(size=(k, d)) * 0.3,
        lower,
        r.normal(size=(n, d)),
        1.0,
        0,
    )


def of_ba(r: np.random.Generator, size: Any) -> tuple[Any, ...]:
    n, m, p = size
    cameras, points = r.normal(size=(n, 11)) * 0.1, r.normal(size=(m, 3))
    cameras[:, 6] = 1.0
    points[:, 2] += 6
    seen = np.stack([r.integers(0, n, p), r.integers(0, m, p)], 1)
    return cameras, points, np.full(p, 0.9), seen, r.normal(size=(p, 2))


def of_lstm(r: np.random.Generator, size: Any) -> tuple[Any, ...]:
    layers, steps, b = size
    shapes = (2 * layers, 4 * b), (3, b), (2 * layers, b), (steps, b)
    return tuple(r.normal(size=s) * 0.3 for s in shapes)


_GMM = "alphas", "means", "logs", "lower"
EVALS = [
    Eval(gmm, (2, 5, 1000), of_gmm, _GMM),
    Eval(gmm, (10, 25, 1000), of_gmm, _GMM),
    Eval(ba, (49, 7776, 31843), of_ba, ("cameras", "points", "weights")),
    Eval(lstm, (2, 1024, 14), of_lstm, ("main", "extra")),
    Eval(
        kmeans,
        (10000, 50, 10),
        lambda r, s: (r.normal(size=(s[0], s[2])), r.normal(size=s[1:])),
        ("centres",),
        4,
    ),
    Eval(det, 8, lambda r, s: (r.normal(size=(s, s)),), None, 6),
    Eval(det, 100, lambda r, s: (r.normal(size=(s, s)),), None, 6),
    Eval(llsq, (10000, 128), lambda r, s: (r.normal(size=s[1]), s[0])),
    Eval(lse, 1000, lambda r, s: (r.normal(size=s),)),
    Eval(lse, 1000000, lambda r, s: (r.normal(size=s),)),
    Eval(ode, (100, 100), lambda r, s: (r.uniform(0.5, 1.5, size=s[0]), s[1]), None, 6),
    Eval(ode, (1000, 100), lambda r, s: (r.uniform(0.5, 1.5, size=s[0]), s[1]), None, 6),
    Eval(particle, 0.0, lambda r, s: (s,), None, 6),
]


def small(e: Eval) -> tuple[Any, ...]:
    sizes = {"gmm": (3, 4, 20), "ba": (4, 9, 30), "lstm": (2, 12, 3), "kmeans": (30, 4, 3), "det": 6}
    sizes |= {"llsq": (30, 5), "lse": 20, "ode": (6, 9), "particle": 0.1}
    return e.args(np.random.default_rng(0), sizes[e.function.__name__])


def least(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The least time of each on its processor, in turn; what else the machine does is not counted."""
    found = [math.inf] * len(calls)
    repeats = []
    for call in calls:
        call()
        began = time.thread_time()
        call()
        repeats.append(max(1, int(1e-3 / max(time.thread_time() - began, 1e-7))))
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        for k, call in enumerate(calls):
            began = time.thread_time()
            for _ in range(repeats[k]):
                call()
            found[k] = min(found[k], (time.thread_time() - began) / repeats[k])
    return found


def main() -> None:
    picked = sys.argv[1].split(",") if len(sys.argv) > 1 else []
    for e in EVALS:
        if picked and e.function.__name__ not in picked:
            continue
        args = e.args(np.random.default_rng(0), e.size)
        f = differentiable(e.function)
        began = time.perf_counter()
        made = f._make("adjoint", f._kinds(args), e.wrt)
        transform = time.perf_counter() - began
        bars = [np.zeros_like(a) for n, a in zip(f.names, args) if n in made.bars]
        began = time.perf_counter()
        made(*args, *bars, 1.0)
        compiling = time.perf_counter() - began
        value, gradient = least([lambda: e.function(*args), lambda: made(*args, *bars, 1.0)], 1.0)  # noqa: B023
        verdict = "" if gradient <= e.bar * value else f"  above {e.bar:g}"
        print(
            f"{e.function.__name__:9} {e.size!s:18} value {value * 1e3:9.4f} ms, with gradient {gradient * 1e3:9.4f} ms, "
            f"ratio {gradient / value:5.2f}; {len(made.text.splitlines())} lines, written in {transform * 1e3:.0f} ms, "
            f"compiled in {compiling:.1f} s{verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
