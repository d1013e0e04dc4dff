"""Linear algebra as plain functions, for small matrices: they are written out where they are called and differentiated as a user's are.

Promises derivatives wherever NumPy's function is smooth: iterations go on for two sweeps when their values have settled, in which
derivatives of three orders do; and that signs which LAPACK leaves open are the same each time.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_TINY = 1e-26  # of squares: more than rounding leaves
_SWEEPS = 60


def trace(a, offset=0):
    total = a.dtype.type(0)
    for i in range(max(-offset, 0), min(a.shape[0], a.shape[1] - offset)):
        total += a[i, i + offset]
    return total


def _check_square(a):
    if a.shape[0] != a.shape[1]:
        raise ValueError("Last 2 dimensions of the array must be square")


def cholesky(a):
    _check_square(a)
    n = len(a)
    out = np.zeros((n, n))
    for j in range(n):
        for i in range(j, n):
            s = a[i, j]
            for k in range(j):
                s -= out[i, k] * out[j, k]
            if i == j:
                out[j, j] = np.sqrt(s)
            else:
                out[i, j] = s / out[j, j]
    return out


def _eliminate(m, right):
    """Solves m x = right for each column, with pivots, in place; the sign that the exchanges give m's determinant."""
    n = len(m)
    sign = 1.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(m[i, k]) > abs(m[p, k]):
                p = i
        if p != k:
            sign = -sign
            for j in range(k, n):
                t = m[k, j]
                m[k, j] = m[p, j]
                m[p, j] = t
            for j in range(right.shape[1]):
                t = right[k, j]
                right[k, j] = right[p, j]
                right[p, j] = t
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            for j in range(k + 1, n):
                m[i, j] -= f * m[k, j]
            for j in range(right.shape[1]):
                right[i, j] -= f * right[k, j]
    return sign


def det(a):
    _check_square(a)
    m = a.copy()
    product = _eliminate(m, np.empty((len(a), 0)))
    for k in range(len(m)):
        product *= m[k, k]
    return product


def slogdet(a):
    _check_square(a)
    m = a.copy()
    sign = _eliminate(m, np.empty((len(a), 0)))
    log = 0.0
    for k in range(len(m)):
        sign *= np.sign(m[k, k])
        log += np.log(abs(m[k, k]))
    return sign, log


def _columns(a, right):
    m = a.copy()
    n = len(m)
    _eliminate(m, right)
    for k in range(n - 1, -1, -1):
        for j in range(right.shape[1]):
            s = right[k, j]
            for i in range(k + 1, n):
                s -= m[k, i] * right[i, j]
            right[k, j] = s / m[k, k]


def inv(a):
    _check_square(a)
    out = np.eye(len(a))
    _columns(a, out)
    return out


def solve(a, b):
    """For a vector."""
    _check_square(a)
    if len(a) != len(b):
        raise ValueError("solve: the matrix and the right side have different lengths")
    out = np.empty((len(b), 1))
    for i in range(len(b)):
        out[i, 0] = b[i]
    _columns(a, out)
    return out[:, 0]


def solve_columns(a, b):
    _check_square(a)
    if len(a) != len(b):
        raise ValueError("solve: the matrix and the right side have different lengths")
    out = b.copy()
    _columns(a, out)
    return out


# ---------------------------------------------------------------- eigenvalues and singular values


def _angle(x, y):
    """Of the rotation that makes nothing of y, of two on the diagonal that are x apart: the least, and smooth wherever the two differ."""
    if x == 0.0 and y == 0.0:
        return 0.0
    if x >= 0.0:
        return 0.5 * math.atan2(2.0 * y, x)
    return -0.5 * math.atan2(2.0 * y, -x)


def _turn(m, p, q, c, s):
    """Columns p and q."""
    for k in range(m.shape[0]):
        a = m[k, p]
        b = m[k, q]
        m[k, p] = c * a - s * b
        m[k, q] = s * a + c * b


def _off(m):
    """The share of squares that do not lie on the diagonal."""
    off = 0.0
    on = 0.0
    for i in range(len(m)):
        on += m[i, i] * m[i, i]
        for j in range(i):
            off += m[i, j] * m[i, j]
    return off if on == 0.0 else off / on


def _diagonal(m, v):
    """m with its rows and columns turned until it is diagonal, by Jacobi's rotations, and v's columns with them."""
    n = len(m)
    left = 2
    sweeps = 0
    while left > 0:
        if _off(m) <= _TINY:
            left -= 1
        sweeps += 1
        if sweeps > _SWEEPS:
            raise ValueError("Eigenvalues did not converge")
        for p in range(n - 1):
            for q in range(p + 1, n):
                angle = _angle(m[q, q] - m[p, p], m[p, q])
                c = math.cos(angle)
                s = math.sin(angle)
                _turn(m, p, q, c, s)
                _turn(m.T, p, q, c, s)
                _turn(v, p, q, c, s)


def _lower(a):
    _check_square(a)
    n = len(a)
    m = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            m[i, j] = a[i, j]
            m[j, i] = a[i, j]
    return m


def eigvalsh(a):
    m = _lower(a)
    _diagonal(m, np.empty((0, len(a))))
    return np.sort(np.diag(m))


def eigh(a):
    """Eigenvalues that rise, and eigenvectors whose largest number is positive."""
    m = _lower(a)
    v = np.eye(len(a))
    _diagonal(m, v)
    order = np.argsort(np.diag(m))
    values = np.empty(len(a))
    vectors = np.empty((len(a), len(a)))
    for k in range(len(a)):
        at = order[k]
        values[k] = m[at, at]
        sign = _sign_of_column(v, at)
        for i in range(len(a)):
            vectors[i, k] = sign * v[i, at]
    return values, vectors


def _sign_of_column(v, k):
    top = 0
    for i in range(1, v.shape[0]):
        if abs(v[i, k]) > abs(v[top, k]) * 1.000001:
            top = i
    return -1.0 if v[top, k] < 0.0 else 1.0


def _apart(u, v):
    """u with its columns turned until they are at right angles, and v's with them."""
    n = u.shape[1]
    left = 2
    sweeps = 0
    while left > 0:
        sweeps += 1
        if sweeps > _SWEEPS:
            raise ValueError("SVD did not converge")
        settled = True
        for p in range(n - 1):
            for q in range(p + 1, n):
                a = 0.0
                b = 0.0
                g = 0.0
                for k in range(u.shape[0]):
                    a += u[k, p] * u[k, p]
                    b += u[k, q] * u[k, q]
                    g += u[k, p] * u[k, q]
                settled = settled and g * g <= _TINY * a * b
                angle = _angle(b - a, g)
                c = math.cos(angle)
                s = math.sin(angle)
                _turn(u, p, q, c, s)
                _turn(v, p, q, c, s)
        if settled:
            left -= 1


def _lengths(u):
    out = np.empty(u.shape[1])
    for k in range(u.shape[1]):
        square = 0.0
        for i in range(u.shape[0]):
            square += u[i, k] * u[i, k]
        out[k] = 0.0 if square == 0.0 else math.sqrt(square)
    return out


def _high(a):
    """a, or turned, so that it is no wider than high."""
    if a.shape[0] >= a.shape[1]:
        return a.copy()
    return a.T.copy()


def singular_values(a):
    u = _high(a)
    _apart(u, np.empty((0, u.shape[1])))
    return np.sort(_lengths(u))[::-1].copy()


def svd(a):
    """Of a matrix as small as it can be given; each left vector's largest number is positive."""
    u = _high(a)
    n = u.shape[1]
    v = np.eye(n)
    _apart(u, v)
    lengths = _lengths(u)
    order = np.argsort(-lengths)
    values = np.empty(n)
    left = np.empty((u.shape[0], n))
    right = np.empty((n, n))
    for k in range(n):
        at = order[k]
        values[k] = lengths[at]
        sign = _sign_of_column(u, at) if a.shape[0] >= a.shape[1] else _sign_of_column(v, at)
        for i in range(u.shape[0]):
            left[i, k] = sign * u[i, at] / lengths[at]
        for i in range(n):
            right[k, i] = sign * v[i, at]
    if a.shape[0] >= a.shape[1]:
        return left, values, right
    return right.T, values, left.T


def svd_of_square(a):
    if a.shape[0] != a.shape[1]:
        raise ValueError("np.linalg.svd of a matrix that is not square: full_matrices=False is taken")
    return svd(a)


def cond(a):
    values = singular_values(a)
    return values[0] / values[len(values) - 1]


def matrix_rank(a):
    values = singular_values(a)
    least = values[0] * max(a.shape[0], a.shape[1]) * 2.220446049250313e-16
    rank = 0
    for k in range(len(values)):
        if values[k] > least:
            rank += 1
    return rank


# ---------------------------------------------------------------- orthogonal columns


def _signs(a):
    """Those that LAPACK's reflections give the diagonal of R."""
    w = a.copy()
    m = w.shape[0]
    n = w.shape[1]
    signs = np.empty(min(m, n))
    for j in range(min(m, n)):
        tail = 0.0
        for i in range(j + 1, m):
            tail += w[i, j] * w[i, j]
        alpha = w[j, j]
        if tail == 0.0:
            signs[j] = -1.0 if alpha < 0.0 else 1.0
        else:
            beta = -math.copysign(math.sqrt(alpha * alpha + tail), alpha)
            signs[j] = 1.0 if beta > 0.0 else -1.0
            share = (beta - alpha) / beta
            for c in range(j + 1, n):
                d = w[j, c]
                for i in range(j + 1, m):
                    d += w[i, j] / (alpha - beta) * w[i, c]
                w[j, c] -= share * d
                for i in range(j + 1, m):
                    w[i, c] -= share * d * (w[i, j] / (alpha - beta))
    return signs


def qr(a):
    """By Gram and Schmidt, twice; as small as it can be given."""
    m = a.shape[0]
    n = a.shape[1]
    k = min(m, n)
    q = np.zeros((m, k))
    r = np.zeros((k, n))
    signs = _signs(a)
    v = np.empty(m)
    for j in range(k):
        for i in range(m):
            v[i] = a[i, j]
        for _ in range(2):
            for c in range(j):
                p = 0.0
                for i in range(m):
                    p += q[i, c] * v[i]
                r[c, j] += p
                for i in range(m):
                    v[i] -= p * q[i, c]
        square = 0.0
        for i in range(m):
            square += v[i] * v[i]
        length = signs[j] * math.sqrt(square)
        r[j, j] = length
        for i in range(m):
            q[i, j] = v[i] / length
    for j in range(k, n):
        for c in range(k):
            p = 0.0
            for i in range(m):
                p += q[i, c] * a[i, j]
            r[c, j] = p
    return q, r


def least_squares(a, b):
    """For each column of b, of a matrix of full rank."""
    m = a.shape[0]
    n = a.shape[1]
    if m != len(b):
        raise ValueError("lstsq: the matrix and the right side have different lengths")
    x = np.zeros((n, b.shape[1]))
    if m >= n:
        q, r = qr(a)
        for j in range(b.shape[1]):
            for k in range(n - 1, -1, -1):
                s = 0.0
                for i in range(m):
                    s += q[i, k] * b[i, j]
                for c in range(k + 1, n):
                    s -= r[k, c] * x[c, j]
                x[k, j] = s / r[k, k]
    else:
        q, r = qr(a.T.copy())
        y = np.empty(m)
        for j in range(b.shape[1]):
            for k in range(m):
                s = b[k, j]
                for c in range(k):
                    s -= r[c, k] * y[c]
                y[k] = s / r[k, k]
            for i in range(n):
                s = 0.0
                for k in range(m):
                    s += q[i, k] * y[k]
                x[i, j] = s
    return x


def lstsq_of_vector(a, b):
    return least_squares(a, b[:, None].copy())[:, 0]


def pinv(a):
    return least_squares(a, np.eye(a.shape[0]))


def polyfit(x, y, deg):
    return lstsq_of_vector(np.vander(x, deg + 1), y)


def matrix_power(a, n):
    _check_square(a)
    base = inv(a) if n < 0 else a
    out = np.eye(len(a))
    for _ in range(abs(n)):
        out = out @ base
    return out


# ---------------------------------------------------------------- norms


def norm(x):
    """Of a vector, or Frobenius's of a matrix."""
    squares = np.sum(x * x)
    if squares == 0.0:  # where its derivative is 0, as PyTorch's is
        return 0.0
    return np.sqrt(squares)


def norm_of_vector(x, order):
    if order == math.inf:
        return np.max(np.abs(x))
    if order == -math.inf:
        return np.min(np.abs(x))
    if order == 0:
        return float(np.sum(x != 0.0))
    if order == 1:
        return np.sum(np.abs(x))
    total = 0.0
    for v in x:
        if v != 0.0:
            total += abs(v) ** order
    return 0.0 if total == 0.0 else total ** (1.0 / order)


def norm_of_matrix(x, order):
    if order == math.inf:
        return np.max(np.sum(np.abs(x), axis=1))
    if order == -math.inf:
        return np.min(np.sum(np.abs(x), axis=1))
    if order == 1:
        return np.max(np.sum(np.abs(x), axis=0))
    if order == -1:
        return np.min(np.sum(np.abs(x), axis=0))
    if order == 2:
        return singular_values(x)[0]
    if order == -2:
        return singular_values(x)[-1]
    if order == "nuc":
        return np.sum(singular_values(x))
    raise ValueError("Invalid norm order for matrices.")


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{
        getattr(np.linalg, f.__name__): f
        for f in (cholesky, det, inv, eigvalsh, pinv, matrix_rank, matrix_power)
    },
    **{np.linalg.cond: cond, np.polyfit: polyfit},
}
