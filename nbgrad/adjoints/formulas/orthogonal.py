"""Orthogonal columns."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from nbgrad.adjoints.formulas.elimination import solve_into
from nbgrad.adjoints.formulas.shared import _add, _plus

u = np.uintp


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
            for i in range(j + 1, m):
                w[i, j] /= alpha - beta
            for c in range(j + 1, n):
                d = w[j, c]
                for i in range(j + 1, m):
                    d += w[u(i), u(j)] * w[u(i), u(c)]
                w[j, c] -= share * d
                for i in range(j + 1, m):
                    w[u(i), u(c)] -= share * d * w[u(i), u(j)]
    return signs


def qr_into(a, z):
    """Q, and below it R's rows as columns. By Gram and Schmidt, twice."""
    m = a.shape[0]
    n = a.shape[1]
    k = min(m, n)
    signs = _signs(a)
    for i in range(n):
        for j in range(k):
            z[m + i, j] = 0.0
    for j in range(k):
        for i in range(m):
            z[i, j] = a[i, j]
        for _ in range(2):
            for c in range(j):
                p = 0.0
                for i in range(m):
                    p += z[i, c] * z[i, j]
                z[m + j, c] += p
                for i in range(m):
                    z[i, j] -= p * z[i, c]
        square = 0.0
        for i in range(m):
            square += z[i, j] * z[i, j]
        length = signs[j] * math.sqrt(square)
        z[m + j, j] = length
        for i in range(m):
            z[i, j] /= length
    for j in range(k, n):
        for c in range(k):
            p = 0.0
            for i in range(m):
                p += z[i, c] * a[i, j]
            z[m + j, c] = p


def qr_back(z, zb, ab):
    m = ab.shape[0]
    n = ab.shape[1]
    k = min(m, n)
    q = z[:m]
    turned = np.zeros((n - k, m))  # of a wide matrix, its columns beyond the first
    _add(z[m + k :], q.T, turned, 1.0)
    qb = np.zeros((m, k))
    _plus(zb[:m], qb, 1.0)
    _add(turned.T, zb[m + k :], qb, 1.0)
    s = np.zeros((k, k))
    _add(qb.T, q, s, -1.0)
    for i in range(k):
        for j in range(i + 1):
            t = s[i, j]
            for c in range(i, k):
                t += z[m + c, i] * (zb[m + c, j] if c >= j else 0.0)
            s[i, j] = t
            s[j, i] = t
    _add(q, s, qb, 1.0)
    x = np.empty((k, m))
    solve_into(z[m : m + k].T, qb.T, x)
    _plus(x.T, ab[:, :k], 1.0)
    _add(q, zb[m + k :].T, ab[:, k:], 1.0)


def qr_along(z, ad, zd):
    m = ad.shape[0]
    n = ad.shape[1]
    k = min(m, n)
    q = z[:m]
    b = np.empty((k, m))  # what Q would be moved by, were R still
    solve_into(z[m : m + k], ad[:, :k].T, b)
    t = np.zeros((k, k))
    _add(q.T, b.T, t, 1.0)
    x = np.zeros((k, k))
    for i in range(k):
        for j in range(i):
            x[i, j] = t[i, j]
            x[j, i] = -t[i, j]
    _plus(b.T, zd[:m], 1.0)
    _add(q, t, zd[:m], -1.0)
    _add(q, x, zd[:m], 1.0)
    _plus(x, t, -1.0)
    _add(z[m : m + k], t.T, zd[m : m + k], 1.0)
    _add(z[m + k :], x.T, zd[m + k :], -1.0)
    _add(ad[:, k:].T, q, zd[m + k :], 1.0)
