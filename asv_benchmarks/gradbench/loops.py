"""GradBench's programs as plain functions, loops as one writes them down; `EVALS` says at which sizes they are measured.

A function that `numba` stands over is the user's own code under Numba's `njit`: what a gradient's time is divided by.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from nbgrad import differentiable

numba = njit(error_model="numpy")


@numba
def top_of(x):
    """The greatest, rounded down: as good as itself to be taken from all, and without a derivative."""
    top = x[0]
    for i in range(1, len(x)):
        top = max(top, x[i])
    return np.floor(top)


@numba
def log_sum_exp(x):
    top = top_of(x)
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i] - top)
    return math.log(s) + top


@numba
def lse(x):
    return log_sum_exp(x)


@numba
def lse_of_many(x):
    """Of so many that threads are worth waking."""
    top = top_of(x)
    s = 0.0
    for i in prange(len(x)):
        s += math.exp(x[i] - top)
    return math.log(s) + top


@numba
def wishart_constant(d, n, gamma):
    of_gammas = 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(d):
        of_gammas += math.lgamma(0.5 * (n - j))
    return n * d * (math.log(gamma) - 0.5 * math.log(2.0)) - of_gammas


_BLOCK = 64  # points that stand side by side, so that innermost loops go over them


@numba
def gmm(alphas, means, logs, lower, x, gamma, wishart):
    """The logarithm of the posterior of a mixture of Gaussians, whose inverse covariances are given by factors: triangles, column by
    column, and the logarithms of their diagonals. Points are scaled before the mean, which is scaled once, is taken from them."""
    n, d = x.shape
    k = len(alphas)
    factors = np.empty((k, d, d))
    shift = np.empty((k, d))
    start = np.empty(k)
    prior = 0.0
    for c in range(k):
        trace = 0.0
        square = 0.0
        at = 0
        for j in range(d):
            diagonal = math.exp(logs[c, j])
            factors[c, j, j] = diagonal
            trace += logs[c, j]
            square += diagonal * diagonal
            for r in range(j + 1, d):
                factors[c, r, j] = lower[c, at + r - j - 1]
            at += d - j - 1
        for j in range(lower.shape[1]):
            square += lower[c, j] * lower[c, j]
        for r in range(d):
            s = 0.0
            for j in range(r + 1):
                s += factors[c, r, j] * means[c, j]
            shift[c, r] = s
        start[c] = alphas[c] + trace
        prior += 0.5 * gamma * gamma * square - wishart * trace
    prior -= k * wishart_constant(d, d + wishart + 1, gamma)
    likelihood = 0.0
    for b in prange((n + _BLOCK - 1) // _BLOCK):
        low = b * _BLOCK
        many = min(_BLOCK, n - low)
        points = np.empty((d, many))
        scaled = np.empty((k, d, many))
        terms = np.empty((k, many))
        top = np.empty(many)
        total = np.zeros(many)
        for j in range(d):
            for i in range(many):
                points[j, i] = x[low + i, j]
        for i in range(many):
            top[i] = -math.inf
        for c in range(k):
            for i in range(many):
                terms[c, i] = start[c]
            for r in range(d):
                for i in range(many):
                    scaled[c, r, i] = factors[c, r, r] * points[r, i] - shift[c, r]
                for j in range(r):
                    for i in range(many):
                        scaled[c, r, i] += factors[c, r, j] * points[j, i]
                for i in range(many):
                    terms[c, i] -= 0.5 * scaled[c, r, i] * scaled[c, r, i]
            for i in range(many):
                top[i] = max(top[i], np.floor(terms[c, i]))
        for c in range(k):
            for i in range(many):
                total[i] += math.exp(terms[c, i] - top[i])
        for i in range(many):
            likelihood += math.log(total[i]) + top[i]
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
def residual(camera, point, weight, feature, out):
    u, v = projected(camera, point)
    out[0] = weight * (u - feature[0])
    out[1] = weight * (v - feature[1])


@numba
def ba(cameras, points, weights, seen, features):
    """Half the sum of squares of bundle adjustment's residuals."""
    total = 0.0
    out = np.empty(2)
    for i in range(len(weights)):
        residual(cameras[seen[i, 0]], points[seen[i, 1]], weights[i], features[i], out)
        z = 1.0 - weights[i] * weights[i]
        total += out[0] * out[0] + out[1] * out[1] + z * z
    return 0.5 * total


@numba
def ba_residuals(cameras, points, weights, seen, features, errors, of_weights):
    for i in range(len(weights)):
        residual(cameras[seen[i, 0]], points[seen[i, 1]], weights[i], features[i], errors[i])
        of_weights[i] = 1.0 - weights[i] * weights[i]


_TWO = np.empty(2)
residual_adjoint = differentiable(residual).adjoint(
    _TWO, _TWO, float, _TWO, _TWO, wrt=("camera", "point", "weight", "out")
)


@differentiable
def ba_jacobian(cameras, points, weights, seen, features, rows, of_weights):
    """The derivatives of each residual by its camera, its point and its weight: 15 numbers a row."""
    out = np.empty(2)
    out_bar = np.empty(2)
    for i in range(len(weights)):
        for k in range(2):
            for j in range(15):
                rows[i, k, j] = 0.0
            out_bar[k] = 1.0
            out_bar[1 - k] = 0.0
            rows[i, k, 14] = residual_adjoint(
                cameras[seen[i, 0]],
                points[seen[i, 1]],
                weights[i],
                features[i],
                out,
                rows[i, k, :11],
                rows[i, k, 11:14],
                out_bar,
            )
        of_weights[i] = -2.0 * weights[i]


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
    for i in prange(len(points)):
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
def minors(a):
    """A determinant by expansion along rows, each minor once: that of a set of columns and as many rows, from those of one row less."""
    n = a.shape[0]
    found = np.empty(1 << n)
    found[0] = 1.0
    for columns in range(1, 1 << n):
        row = -1
        for j in range(n):
            row += (columns >> j) & 1
        s = 0.0
        sign = 1.0
        for j in range(n - 1, -1, -1):
            if (columns >> j) & 1 == 1:
                s += sign * a[row, j] * found[columns ^ (1 << j)]
                sign = -sign
        found[columns] = s
    return found[(1 << n) - 1]


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
            for j in range(k, n):
                t = m[k, j]
                m[k, j] = m[pivot, j]
                m[pivot, j] = t
        product *= m[k, k]
        inverse = 1.0 / m[k, k]
        for i in range(k + 1, n):
            f = m[i, k] * inverse
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
def solution(x, steps, y):
    """Runge and Kutta's steps."""
    n = len(x)
    h = 2.0 / steps
    y[:] = 0.0
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


@numba
def ode(x, steps):
    y = np.empty(len(x))
    solution(x, steps, y)
    return y[len(x) - 1]


# ---------------------------------------------------------------- hand tracking


@numba
def turned(relative, x, z, out):
    """relative @ the rotation by z about the third axis and x about the first"""
    cx, sx = math.cos(x), math.sin(x)
    cz, sz = math.cos(z), math.sin(z)
    for i in range(4):
        p, q, r = relative[i, 0], relative[i, 1], relative[i, 2]
        out[i, 0] = p * cz + q * sz
        out[i, 1] = (q * cz - p * sz) * cx + r * sx
        out[i, 2] = r * cx - (q * cz - p * sz) * sx
        out[i, 3] = relative[i, 3]


@numba
def by_axis(turn, out):
    """The matrix of a rotation about an axis, by the axis' length."""
    square = turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2]
    if square < 1e-8:
        for i in range(3):
            for j in range(3):
                out[i, j] = 1.0 if i == j else 0.0
    else:
        angle = math.sqrt(square)
        x, y, z = turn[0] / angle, turn[1] / angle, turn[2] / angle
        s, c = math.sin(angle), math.cos(angle)
        for i in range(3):
            out[i, i] = turn[i] / angle * (turn[i] / angle) * (1.0 - c) + c
        out[0, 1] = x * y * (1.0 - c) - z * s
        out[0, 2] = x * z * (1.0 - c) + y * s
        out[1, 0] = x * y * (1.0 - c) + z * s
        out[1, 2] = y * z * (1.0 - c) - x * s
        out[2, 0] = x * z * (1.0 - c) - y * s
        out[2, 1] = y * z * (1.0 - c) + x * s


@numba
def hand(theta, parents, relatives, inverses, base, weights, mirrored, positions):
    """Where the points of a hand are when its bones are turned: five fingers of three bones that bend, the first of which parts too."""
    bones = len(parents)
    angles = np.zeros((bones, 2))
    for finger in range(5):
        angles[2 + 4 * finger, 0] = theta[6 + 4 * finger]
        angles[2 + 4 * finger, 1] = theta[7 + 4 * finger]
        angles[3 + 4 * finger, 0] = theta[8 + 4 * finger]
        angles[4 + 4 * finger, 0] = theta[9 + 4 * finger]
    absolutes = np.empty((bones, 4, 4))
    moves = np.empty((bones, 3, 4))
    local = np.empty((bones, 4, 4))
    for b in range(bones):
        turned(relatives[b], angles[b, 0], angles[b, 1], local[b])
        for i in range(4):
            for j in range(4):
                if parents[b] < 0:
                    absolutes[b, i, j] = local[b, i, j]
                else:
                    s = 0.0
                    for k in range(4):
                        s += absolutes[parents[b], i, k] * local[b, k, j]
                    absolutes[b, i, j] = s
        for i in range(3):
            for j in range(4):
                s = 0.0
                for k in range(4):
                    s += absolutes[b, i, k] * inverses[b, k, j]
                moves[b, i, j] = s
    whole = np.empty((3, 3))
    by_axis(theta[:3], whole)
    skinned = np.empty(3)
    for v in range(len(base)):
        skinned[:] = 0.0
        for b in range(bones):
            w = weights[v, b]
            if w != 0.0:
                for i in range(3):
                    s = 0.0
                    for j in range(4):
                        s += moves[b, i, j] * base[v, j]
                    skinned[i] += w * s
        if mirrored:
            skinned[0] = -skinned[0]
        for i in range(3):
            positions[v, i] = (
                whole[i, 0] * skinned[0] + whole[i, 1] * skinned[1] + whole[i, 2] * skinned[2] + theta[3 + i]
            )


@numba
def ht(theta, us, parents, relatives, inverses, base, weights, mirrored, triangles, matched, points, err):
    """How far measured points are from those of the hand that they are matched with, or, given `us`, from places in its triangles."""
    positions = np.empty((len(base), 3))
    hand(theta, parents, relatives, inverses, base, weights, mirrored, positions)
    for i in range(len(matched)):
        for j in range(3):
            if len(us) == 0:
                err[i, j] = points[i, j] - positions[matched[i], j]
            else:
                at = matched[i]
                err[i, j] = points[i, j] - (
                    us[i, 0] * positions[triangles[at, 0], j]
                    + us[i, 1] * positions[triangles[at, 1], j]
                    + (1.0 - us[i, 0] - us[i, 1]) * positions[triangles[at, 2], j]
                )


@numba
def ht_cost(theta, us, parents, relatives, inverses, base, weights, mirrored, triangles, matched, points):
    """The sum of squares, for who measures a gradient."""
    err = np.empty((len(matched), 3))
    ht(theta, us, parents, relatives, inverses, base, weights, mirrored, triangles, matched, points, err)
    return np.sum(err * err)


_MATRIX, _CUBE, _WHOLE, _WHOLES = (
    np.empty((1, 1)),
    np.empty((1, 1, 1)),
    np.empty(1, int),
    np.empty((1, 1), int),
)
ht_tangent = differentiable(ht).tangent(
    *(_TWO, _MATRIX, _WHOLE, _CUBE, _CUBE, _MATRIX, _MATRIX, True, _WHOLES, _WHOLE, _MATRIX, _MATRIX),
    wrt=("theta", "us", "err"),
)


@differentiable
def ht_jacobian(
    theta, us, parents, relatives, inverses, base, weights, mirrored, triangles, matched, points, rows
):
    """By columns: by both parts of a place in a triangle, where there are any, and by each angle. rows[column] is of err's shape."""
    err = np.empty((len(matched), 3))
    along = np.zeros(len(theta))
    in_triangle = np.zeros((len(us), 2))
    extra = 2 if len(us) > 0 else 0
    for column in range(extra + len(theta)):
        if column < extra:
            for i in range(len(us)):
                in_triangle[i, column] = 1.0
        else:
            along[column - extra] = 1.0
        ht_tangent(
            theta,
            us,
            parents,
            relatives,
            inverses,
            base,
            weights,
            mirrored,
            triangles,
            matched,
            points,
            err,
            along,
            in_triangle,
            rows[column],
        )
        if column < extra:
            for i in range(len(us)):
                in_triangle[i, column] = 0.0
        else:
            along[column - extra] = 0.0


@numba
def charged(w):
    """Where a particle that two charges repel comes down, squared, with their pull written out."""
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


def of_ht(r: np.random.Generator, size: Any) -> tuple[Any, ...]:
    """A hand whose fingers hang on its wrist, with as many measured points as it has; not mirrored, no places in triangles."""
    bones, n = size
    parents = np.array([-1, 0, *(b - 1 if (b - 2) % 4 else 0 for b in range(2, bones))])
    relatives = np.tile(np.eye(4), (bones, 1, 1))
    relatives[:, :3, 3] = r.normal(size=(bones, 3)) * 0.3
    inverses = np.tile(np.eye(4), (bones, 1, 1))
    inverses[:, :3, 3] = r.normal(size=(bones, 3)) * 0.3
    base = np.concatenate([r.normal(size=(n, 3)), np.ones((n, 1))], 1)
    weights = np.where(r.uniform(size=(n, bones)) < 0.15, r.uniform(size=(n, bones)), 0.0)
    triangles = r.integers(0, n, (2 * n, 3))
    theta, points = r.normal(size=26) * 0.5, r.normal(size=(n, 3))
    return (
        *(theta, np.empty((0, 2)), parents, relatives, inverses, base, weights, False, triangles),
        *(r.integers(0, n, n), points),
    )


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
    Eval(lse_of_many, 1000000, lambda r, s: (r.normal(size=s),)),
    Eval(ode, (100, 100), lambda r, s: (r.uniform(0.5, 1.5, size=s[0]), s[1]), None, 6),
    Eval(ode, (1000, 100), lambda r, s: (r.uniform(0.5, 1.5, size=s[0]), s[1]), None, 6),
    Eval(minors, 8, lambda r, s: (r.normal(size=(s, s)),), None, 6),
    Eval(ht_cost, (22, 544), of_ht, ("theta",)),
    Eval(charged, 0.0, lambda r, s: (s,), None, 6),
]


def small(e: Eval) -> tuple[Any, ...]:
    sizes = {
        "gmm": (3, 4, 20),
        "ba": (4, 9, 30),
        "lstm": (2, 12, 3),
        "kmeans": (30, 4, 3),
        "det": 6,
        "minors": 5,
    }
    sizes |= {
        "llsq": (30, 5),
        "lse": 20,
        "lse_of_many": 200,
        "ode": (6, 9),
        "charged": 0.1,
        "ht_cost": (22, 9),
    }
    return e.args(np.random.default_rng(0), sizes[e.function.__name__])
