"""Singular values."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from nbgrad.adjoints.formulas.orthogonal import qr_into
from nbgrad.adjoints.formulas.shared import (
    _SWEEPS,
    _add,
    _angle,
    _is_turned,
    _near,
    _one,
    _order,
    _over,
    _plus,
    _turn,
    _used,
)


def _apart(u, v):
    """u with its columns turned until they are at right angles, and v's with them."""
    n = u.shape[1]
    sweeps = 0
    last = False
    settled = False
    while not last:
        last = settled  # then once more
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
                settled = settled and (g * g <= 1e-28 * a * b or g * g < 1e-300)
                angle = _angle(b - a, g)
                if angle != 0.0:
                    c = math.cos(angle)
                    s = math.sin(angle)
                    _turn(u, p, q, c, s)
                    _turn(v, p, q, c, s)


def _completed(z, top, m, there, count):
    """Of m rows of z from `top` on, columns from `there` to `count` are made such that all are at right angles."""
    for k in range(there, count):
        best = 0
        most = -1.0
        for i in range(m):
            left = 1.0
            for c in range(k):
                left -= z[top + i, c] * z[top + i, c]
            if left > most:
                most = left
                best = i
        for i in range(m):
            z[top + i, k] = 1.0 if i == best else 0.0
        for _ in range(2):
            for c in range(k):
                p = 0.0
                for i in range(m):
                    p += z[top + i, c] * z[top + i, k]
                for i in range(m):
                    z[top + i, k] -= p * z[top + i, c]
        square = 0.0
        for i in range(m):
            square += z[top + i, k] * z[top + i, k]
        for i in range(m):
            z[top + i, k] /= math.sqrt(square)


def svd_into(a, z):
    """Left vectors, right vectors and singular values, one below the other; of vectors as many as there is room for. Each left vector's
    largest number is positive."""
    m = a.shape[0]
    n = a.shape[1]
    high = max(m, n)
    k = min(m, n)
    top = 0 if m >= n else m  # where the longer vectors stand
    other = m - top
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            z[i, j] = 0.0
    u = np.empty((high, k))
    for i in range(high):
        for j in range(k):
            u[i, j] = a[i, j] if m >= n else a[j, i]
    v = _one(k)
    if high > 2 * k:  # first to a square
        w = np.empty((high + k, k))
        qr_into(u, w)
        finite = True
        r = np.empty((k, k))
        for i in range(k):
            finite = finite and w[high + i, i] != 0.0
            for j in range(k):
                r[i, j] = w[high + j, i]
        if finite:
            _apart(r, v)
            for i in range(high):
                for j in range(k):
                    u[i, j] = 0.0
                for c in range(k):
                    for j in range(k):
                        u[i, j] += w[i, c] * r[c, j]
        else:
            _apart(u, v)
    else:
        _apart(u, v)
    lengths = np.empty(k)
    for c in range(k):
        square = 0.0
        for i in range(high):
            square += u[i, c] * u[i, c]
        lengths[c] = -math.sqrt(square)
    there = 0
    order = _order(lengths)
    for c in range(k):
        at = order[c]
        length = -lengths[at]
        z[m + n, c] = length
        sign = -1.0 if _is_turned(u if m >= n else v, at) else 1.0
        if not length <= 0.0:
            there = c + 1
            for i in range(high):
                z[top + i, c] = sign * u[i, at] / length
        for i in range(k):
            z[other + i, c] = sign * v[i, at]
    _completed(z, top, high, there, high if z.shape[1] > k else k)


def svd_back(z, zb, ab):
    m = ab.shape[0]
    n = ab.shape[1]
    k = min(m, n)
    u = z[:m, :k]
    v = z[m : m + n, :k]
    x = np.zeros((k, k))
    y = np.zeros((k, k))
    _add(u.T, zb[:m, :k], x, 1.0)
    _add(v.T, zb[m : m + n, :k], y, 1.0)
    near = _near(z, m + n, k)
    used = np.zeros(k)
    _used(zb, m + n, used)
    core = np.empty((k, k))
    for i in range(k):
        for j in range(k):
            if i == j:
                core[i, j] = zb[m + n, i]
            else:
                p = x[i, j] - x[j, i]
                q = y[i, j] - y[j, i]
                si = z[m + n, i]
                sj = z[m + n, j]
                told = used[i] + used[j] != 0.0
                core[i, j] = 0.5 * (_over(p + q, sj - si, near, told) + _over(p - q, sj + si, near, told))
    t = np.zeros((m, k))
    _add(u, core, t, 1.0)
    _add(t, v.T, ab, 1.0)
    _beyond(z[:m], zb[:m], x, z[m + n :], v, ab)
    _beyond(z[m : m + n], zb[m : m + n], y, z[m + n :], u, ab.T)


def _beyond(full, fullb, x, s, v, ab):
    """What comes of vectors' parts outside of what the others span, where there is an outside."""
    k = len(x)
    m = len(full)
    if m > k:
        w = np.zeros((m, k))
        _plus(fullb[:, :k], w, 1.0)
        _add(full[:, :k], x, w, -1.0)
        if full.shape[1] >= m:
            back = np.zeros((m - k, k))
            _add(fullb[:, k:m].T, full[:, :k], back, 1.0)
            _add(full[:, k:m], back, w, -1.0)
        near = _near(s, 0, k)
        for i in range(m):
            for j in range(k):
                w[i, j] = _over(w[i, j], s[0, j], near, w[i, j] != 0.0)
        _add(w, v.T, ab, 1.0)


def svd_along(z, ad, zd):
    m = ad.shape[0]
    n = ad.shape[1]
    k = min(m, n)
    u = z[:m, :k]
    v = z[m : m + n, :k]
    w = np.zeros((m, k))
    _add(ad, v, w, 1.0)
    t = np.zeros((k, k))
    _add(u.T, w, t, 1.0)
    near = _near(z, m + n, k)
    of_u = np.zeros((k, k))
    of_v = np.zeros((k, k))
    for i in range(k):
        zd[m + n, i] += t[i, i]
        for j in range(k):
            if i != j:
                si = z[m + n, i]
                sj = z[m + n, j]
                p = t[i, j] + t[j, i]
                q = t[i, j] - t[j, i]
                p = 0.5 * _over(p, sj - si, near, p != 0.0)
                q = 0.5 * _over(q, sj + si, near, q != 0.0)
                of_u[i, j] = p + q
                of_v[i, j] = p - q
    _add(u, of_u, zd[:m, :k], 1.0)
    _add(v, of_v, zd[m : m + n, :k], 1.0)
    _moved_beyond(z[:m], ad, v, t, z[m + n :], zd[:m])
    _moved_beyond(z[m : m + n], ad.T, u, t.T, z[m + n :], zd[m : m + n])


def _moved_beyond(full, ad, v, t, s, fulld):
    k = len(t)
    m = len(full)
    if m > k:
        w = np.zeros((m, k))
        _add(ad, v, w, 1.0)
        _add(full[:, :k], t, w, -1.0)
        near = _near(s, 0, k)
        for i in range(m):
            for j in range(k):
                w[i, j] = _over(w[i, j], s[0, j], near, w[i, j] != 0.0)
        _plus(w, fulld[:, :k], 1.0)
        if full.shape[1] >= m:
            back = np.zeros((k, m - k))
            _add(w.T, full[:, k:m], back, 1.0)
            _add(full[:, :k], back, fulld[:, k:m], -1.0)
