"""GradBench's programs once more, in plain NumPy and of complex numbers, so that a derivative is a step along the imaginary axis: no code
and no formula of what they are compared with. Each takes GradBench's JSON and gives what its tools answer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 1e-30


def slopes(f: Callable[[Any], Any], x: Any) -> Any:
    """f's derivatives, those by x's numbers last."""
    x = np.asarray(x, float)
    found = []
    for k in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[k] += 1j * STEP
        found.append(np.imag(f(moved)) / STEP)
    return np.moveaxis(
        np.array(found).reshape(*x.shape, *np.shape(found[0])), range(x.ndim), range(-x.ndim, 0)
    )


def top(x: Any, axis: int = -1) -> Any:
    return np.take_along_axis(x, np.expand_dims(x.real.argmax(axis), axis), axis)


def log_sum_exp(x: Any, axis: int = -1) -> Any:
    return np.log(np.exp(x - top(x, axis)).sum(axis)) + top(x, axis).squeeze(axis)


def lse(i: Any, x: Any) -> Any:
    return log_sum_exp(x)


def det(i: Any, x: Any) -> Any:
    """The sum over permutations."""
    a = np.reshape(x, (i["ell"], i["ell"]))
    total = 0.0
    for p in itertools.permutations(range(len(a))):
        inverted = sum(p[j] > p[k] for j in range(len(p)) for k in range(j + 1, len(p)))
        total = total + (-1) ** inverted * np.prod(a[range(len(a)), p])
    return total


def llsq(i: Any, x: Any) -> Any:
    t = np.linspace(-1.0, 1.0, i["n"])
    t[np.abs(t) < 1e-15] = 0.0
    return 0.5 * np.sum((np.sign(t) - np.vander(t, len(x), increasing=True) @ x) ** 2)


def ode(i: Any, x: Any) -> Any:
    """Runge and Kutta's scheme of a linear system is a polynomial of its matrix."""
    n, h = len(x), 2.0 / i["s"]
    system = np.zeros((n + 1, n + 1), complex)  # with a constant as its last part
    system[0, n] = x[0]
    for k in range(1, n):
        system[k, k - 1] = x[k]
    step, power = np.eye(n + 1, dtype=complex), np.eye(n + 1, dtype=complex)
    for k in range(1, 5):
        power = power @ system * (h / k)
        step = step + power
    y = np.zeros(n + 1, complex)
    y[n] = 1.0
    for _ in range(i["s"]):
        y = step @ y
    return y[:n]


def gmm(i: Any, alpha: Any, mu: Any, q: Any, lower: Any) -> Any:
    """The logarithm of a mixture of densities, whose covariances are inverted as matrices, times Wishart's density of each."""
    x, d, m, gamma = np.array(i["x"]), i["d"], i["m"], i["gamma"]
    terms, prior = [], 0.0
    free = d + m + 1
    for k in range(i["k"]):
        factor = np.diag(np.exp(q[k]))
        factor = factor.astype(complex)
        factor.T[np.triu_indices(d, 1)] = lower[k]
        precision = factor.T @ factor
        half = np.sum(q[k])  # of the logarithm of its determinant
        centred = x - mu[k]
        terms.append(alpha[k] + half - 0.5 * np.einsum("ni,ij,nj->n", centred, precision, centred))
        prior = prior + m * half - 0.5 * gamma**2 * np.trace(precision)
        of_gammas = 0.25 * d * (d - 1) * math.log(math.pi) + sum(
            math.lgamma(0.5 * (free - j)) for j in range(d)
        )
        prior += free * d * (math.log(gamma) - 0.5 * math.log(2)) - of_gammas
    likelihood = log_sum_exp(np.array(terms), 0).sum() - len(x) * log_sum_exp(alpha)
    return likelihood + prior - 0.5 * len(x) * d * math.log(2 * math.pi)


def kmeans(i: Any, centres: Any) -> Any:
    far = ((np.array(i["points"])[:, None] - centres) ** 2).sum(2)
    return np.take_along_axis(far, far.real.argmin(1)[:, None], 1).sum()


def kmeans_direction(i: Any) -> Any:
    """The nearest points' mean, by hand."""
    points, centres = np.array(i["points"]), np.array(i["centroids"])
    nearest = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
    return np.array([c - points[nearest == k].mean(0) for k, c in enumerate(centres)])


def lstm(i: Any, main: Any, extra: Any) -> Any:
    sequence, state = np.array(i["sequence"]), np.array(i["state"]).astype(complex)
    b = sequence.shape[1]

    def gate(x: Any) -> Any:
        return 0.5 * (1.0 + np.tanh(0.5 * x))

    total = 0.0
    for now, then in itertools.pairwise(sequence):
        y = now * extra[0]
        for k in range(len(main) // 2):
            w, c = main[2 * k].reshape(4, b), main[2 * k + 1].reshape(4, b)
            h = state[2 * k]
            state[2 * k + 1] = state[2 * k + 1] * gate(y * w[0] + c[0]) + gate(h * w[1] + c[1]) * np.tanh(
                h * w[3] + c[3]
            )
            y = state[2 * k] = gate(y * w[2] + c[2]) * np.tanh(state[2 * k + 1])
        y = y * extra[1] + extra[2]
        total = total + then @ (y - np.log(2.0 + np.exp(y).sum()))
    return -total / ((len(sequence) - 1) * b)


def rotation(turn: Any) -> Any:
    """The exponential of a skew matrix, by its series."""
    skew = np.array([[0, -turn[2], turn[1]], [turn[2], 0, -turn[0]], [-turn[1], turn[0], 0]], complex)
    total = term = np.eye(3, dtype=complex)
    for k in range(1, 60):
        term = term @ skew / k
        total = total + term
    return total


def ba_row(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    seen = rotation(camera[:3]) @ (point - camera[3:6])
    flat = seen[:2] / seen[2]
    r = flat @ flat
    return weight * (
        flat * (1 + camera[9] * r + camera[10] * r**2) * camera[6] + camera[7:9] - np.array(feature)
    )


def ht(i: Any, theta: Any, us: Any) -> Any:
    model, data = i["data"]["model"], i["data"]
    bones = len(model["parents"])
    about: list[Any] = [(0.0, 0.0)] * bones
    for finger in range(5):
        a = theta[6 + 4 * finger : 10 + 4 * finger]
        about[2 + 4 * finger : 5 + 4 * finger] = [(a[0], a[1]), (a[2], 0.0), (a[3], 0.0)]
    absolute: list[Any] = []
    positions: Any = 0.0
    base, weights = np.array(model["base_positions"]), np.array(model["weights"])
    for b, parent in enumerate(model["parents"]):
        own = np.eye(4, dtype=complex)
        own[:3, :3] = rotation([0, 0, about[b][1]]) @ rotation([about[b][0], 0, 0])
        own = np.array(model["base_relatives"][b]) @ own
        absolute.append(own if parent < 0 else absolute[parent] @ own)
        moved = base @ (absolute[b] @ np.array(model["inverse_base_absolutes"][b])).T
        positions = positions + weights[:, b : b + 1] * moved[:, :3]
    if model["is_mirrored"]:
        positions = positions * [-1, 1, 1]
    # GradBench's hand is not turned at all, and has no derivative, where its angle is small.
    turned = np.linalg.norm(np.real(theta[:3])) >= 1e-4
    positions = (positions @ rotation(theta[:3]).T if turned else positions) + theta[3:6]
    matched = data["correspondences"]
    if not len(us):
        return (np.array(data["points"]) - positions[matched]).ravel()
    corner = positions[np.array(model["triangles"])[matched]]
    place = (
        us[:, :1] * corner[:, 0] + us[:, 1:] * corner[:, 1] + (1 - us.sum(1, keepdims=True)) * corner[:, 2]
    )
    return (np.array(data["points"]) - place).ravel()


def ht_jacobian(i: Any) -> Any:
    theta, us = np.array(i["theta"]), np.array(i["us"], float).reshape(-1, 2)
    by_theta = slopes(lambda t: ht(i, t, us), theta)
    if not len(us):
        return by_theta
    sides = [np.imag(ht(i, theta, us + 1j * STEP * np.eye(2)[k])) / STEP for k in range(2)]
    return np.concatenate([np.stack(sides, 1), by_theta], 1)


def descended(value: Callable[[Any], Any], slope: Callable[[Any], Any], x: Any) -> Any:
    rate, good = 1e-5, 0
    best, g = value(x), slope(x)
    while np.linalg.norm(g) > 1e-5:
        if good == 10:
            rate, good = 2 * rate, 0
            continue
        further = x - rate * g
        if np.linalg.norm(further - x) <= 1e-5:
            break
        if value(further) < best:
            x, best, good = further, value(further), good + 1
            g = slope(x)
        else:
            rate, good = rate / 2, 0
    return x


def path(w: Any) -> Any:
    """Its plane is that of complex numbers of our own: pairs."""
    at, v = np.array([0.0, 8.0], complex), np.array([0.75, 0.0], complex)
    while True:
        force = 0.0
        for charge in (np.array([10.0, 10.0 - w]), np.array([10.0, 0.0])):
            away = at - charge
            force = force + away / ((away @ away) ** 1.5)
        further = at + 0.1 * v
        if further[1].real <= 0:
            landed = at[0] - at[1] * v[0] / v[1]
            return landed**2
        at, v = further, v + 0.1 * force


def particle(i: Any) -> Any:
    def value(w: Any) -> Any:
        return path(w[0]).real

    def slope(w: Any) -> Any:
        return np.array([path(w[0] + 1j * STEP).imag / STEP])

    return descended(value, slope, np.array([i["w"]]))[0]


def saddle(i: Any) -> Any:
    start = np.array(i["start"])
    y = descended(lambda y: y @ y, lambda y: 2 * y, start)
    return [*descended(lambda x: x @ x - y @ y, lambda x: 2 * x, start), *y]
