"""Functions of NumPy as plain ones, which are written out where they are called and differentiated as a user's are."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def argmin(a):
    best = a[0]
    at = 0
    for i in range(1, len(a)):
        if a[i] < best:
            best = a[i]
            at = i
    return at


def argmax(a):
    best = a[0]
    at = 0
    for i in range(1, len(a)):
        if a[i] > best:
            best = a[i]
            at = i
    return at


def searchsorted(a, v):
    low = 0
    high = len(a)
    while low < high:
        middle = (low + high) // 2
        if a[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


def interp(x, xp, fp):
    """Of one number."""
    n = len(xp)
    at = searchsorted(xp, x)
    if at <= 0:
        return fp[0]
    if at >= n:
        return fp[n - 1]
    left = xp[at - 1]
    slope = (fp[at] - fp[at - 1]) / (xp[at] - left)
    return fp[at - 1] + slope * (x - left)


def norm(x):
    total = 0.0
    for v in x:
        total += v * v
    return np.sqrt(total)


def cross(a, b):
    out = np.empty(3)
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]
    return out


def cumsum(a):
    out = np.empty_like(a)
    total = 0.0
    for i in range(len(a)):
        total += a[i]
        out[i] = total
    return out


def diff(a):
    out = np.empty(len(a) - 1)
    for i in range(len(a) - 1):
        out[i] = a[i + 1] - a[i]
    return out


def linspace(start, stop, num=50):
    out = np.empty(num)
    for i in range(num):
        out[i] = start + (stop - start) * (i / (num - 1))
    return out


def var(a):
    mean = np.mean(a)
    return np.mean((a - mean) ** 2)


def std(a):
    return np.sqrt(var(a))


def trace(a):
    total = 0.0
    for i in range(len(a)):
        total += a[i, i]
    return total


def cholesky(a):
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
    """Solves m x = right for each column, with pivots, in place; the determinant of m."""
    n = len(m)
    det = 1.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(m[i, k]) > abs(m[p, k]):
                p = i
        if p != k:
            det = -det
            for j in range(k, n):
                t = m[k, j]
                m[k, j] = m[p, j]
                m[p, j] = t
            for j in range(right.shape[1]):
                t = right[k, j]
                right[k, j] = right[p, j]
                right[p, j] = t
        det *= m[k, k]
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            for j in range(k + 1, n):
                m[i, j] -= f * m[k, j]
            for j in range(right.shape[1]):
                right[i, j] -= f * right[k, j]
    return det


def det(a):
    return _eliminate(a.copy(), np.empty((len(a), 0)))


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
    out = np.eye(len(a))
    _columns(a, out)
    return out


def solve(a, b):
    """For a vector."""
    out = np.empty((len(b), 1))
    for i in range(len(b)):
        out[i, 0] = b[i]
    _columns(a, out)
    return out[:, 0]


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{np.argmin: argmin, np.argmax: argmax, np.searchsorted: searchsorted, np.interp: interp},
    **{np.linalg.norm: norm, np.cross: cross, np.cumsum: cumsum, np.diff: diff, np.linspace: linspace},
    **{np.var: var, np.std: std, np.trace: trace, np.linalg.cholesky: cholesky, np.linalg.det: det},
    **{np.linalg.inv: inv, np.linalg.solve: solve},
}
