"""Symmetric matrices, of which what lies above the diagonal is not read."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from nbgrad.adjoints.formulas.elimination import solve_into
from nbgrad.adjoints.formulas.shared import (
    _SWEEPS,
    _add,
    _angle,
    _is_turned,
    _near,
    _one,
    _order,
    _over,
    _turn,
    _used,
)

_TINY = 1e-30  # of squares: less than rounding leaves


def _to_lower(s, ab):
    for i in range(len(s)):
        ab[i, i] += s[i, i]
        for j in range(i):
            ab[i, j] += s[i, j] + s[j, i]


def _of_lower(a):
    n = len(a)
    m = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            m[i, j] = a[i, j]
            m[j, i] = a[i, j]
    return m


def cholesky_into(a, out):
    n = len(a)
    for j in range(n):
        for i in range(j):
            out[i, j] = 0.0
        for i in range(j, n):
            s = a[i, j]
            for k in range(j):
                s -= out[i, k] * out[j, k]
            out[i, j] = math.sqrt(s) if i == j and s >= 0.0 else s / out[j, j] if i > j else math.nan


def cholesky_back(out, outb, ab):
    n = len(out)
    m = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            t = 0.0
            for k in range(i, n):
                t += out[k, i] * outb[k, j]
            m[i, j] = 0.5 * t if i == j else t
    half = np.empty((n, n))
    s = np.empty((n, n))
    solve_into(out.T, m, half)
    solve_into(out.T, half.T, s)
    _to_lower(s, ab)


def cholesky_along(out, ad, outd):
    n = len(out)
    t = np.empty((n, n))
    s = np.empty((n, n))
    solve_into(out, _of_lower(ad), t)
    solve_into(out, t.T, s)
    for k in range(n):
        s[k, k] *= 0.5
        for j in range(k + 1, n):
            s[k, j] = 0.0
    _add(out, s, outd, 1.0)


def _off(m):
    """The share of squares that do not lie on the diagonal."""
    off = 0.0
    on = 0.0
    for i in range(len(m)):
        on += m[i, i] * m[i, i]
        for j in range(i):
            off += m[i, j] * m[i, j]
    return off if on == 0.0 else off / on


def eigh_into(a, z):
    """Eigenvectors whose largest number is positive, and below them the eigenvalues, which rise. By Jacobi's rotations."""
    n = len(a)
    m = _of_lower(a)
    v = _one(n)
    sweeps = 0
    last = False
    while n > 0 and not last:
        last = _off(m) <= _TINY  # then once more
        sweeps += 1
        if sweeps > _SWEEPS:
            raise ValueError("Eigenvalues did not converge")
        for p in range(n - 1):
            for q in range(p + 1, n):
                angle = _angle(m[q, q] - m[p, p], m[p, q])
                if angle != 0.0:
                    c = math.cos(angle)
                    s = math.sin(angle)
                    _turn(m, p, q, c, s)
                    _turn(m.T, p, q, c, s)
                    _turn(v, p, q, c, s)
    values = np.empty(n)
    for k in range(n):
        values[k] = m[k, k]
    order = _order(values)
    for k in range(n):
        at = order[k]
        sign = -1.0 if _is_turned(v, at) else 1.0
        for i in range(n):
            z[i, k] = sign * v[i, at]
        z[n, k] = values[at]


def eigh_back(z, zb, ab):
    n = len(ab)
    v = z[:n]
    m = np.zeros((n, n))
    _add(v.T, zb[:n], m, 1.0)
    near = _near(z, n, n)
    used = np.zeros(n)
    _used(zb, n, used)
    g = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            if i == j:
                g[i, j] = zb[n, i]
            else:
                told = used[i] + used[j] != 0.0
                g[i, j] = 0.5 * _over(m[i, j] - m[j, i], z[n, j] - z[n, i], near, told)
    t = np.zeros((n, n))
    s = np.zeros((n, n))
    _add(v, g, t, 1.0)
    _add(t, v.T, s, 1.0)
    _to_lower(s, ab)


def eigh_along(z, ad, zd):
    n = len(ad)
    v = z[:n]
    t = np.zeros((n, n))
    m = np.zeros((n, n))
    _add(_of_lower(ad), v, t, 1.0)
    _add(v.T, t, m, 1.0)
    near = _near(z, n, n)
    g = np.zeros((n, n))
    for i in range(n):
        zd[n, i] += m[i, i]
        for j in range(n):
            if i != j:
                g[i, j] = _over(m[i, j], z[n, j] - z[n, i], near, m[i, j] != 0.0)
    _add(v, g, zd[:n], 1.0)
