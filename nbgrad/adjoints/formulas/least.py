"""Least squares."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from nbgrad.adjoints.formulas.shared import _add, _plus
from nbgrad.adjoints.formulas.singular import svd_into


def lstsq_into(a, b, cut, z):
    """The shortest of the solutions for each column of b, then the rank in the row below, then a's pseudo-inverse; singular values of less
    than `cut` times the largest count as 0."""
    m = a.shape[0]
    n = a.shape[1]
    k = min(m, n)
    columns = b.shape[1]
    w = np.empty((m + n + 1, k))
    svd_into(a, w)
    rank = 0
    for j in range(k):
        if w[m + n, j] > cut[0, 0] * w[m + n, 0]:
            rank += 1
    for i in range(z.shape[0]):
        for c in range(z.shape[1]):
            z[i, c] = 0.0
    z[n, columns] = rank
    for c in range(columns):
        for j in range(rank):
            s = 0.0
            for i in range(m):
                s += w[i, j] * b[i, c]
            s /= w[m + n, j]
            for i in range(n):
                z[i, c] += w[m + i, j] * s
    for j in range(rank):
        for i in range(n):
            t = w[m + i, j] / w[m + n, j]
            for c in range(m):
                z[i, columns + 1 + c] += t * w[c, j]


def lstsq_back_b(a, b, z, zb, bb):
    n = a.shape[1]
    columns = b.shape[1]
    inverse = z[:n, columns + 1 :]
    _add(inverse.T, zb[:n, :columns], bb, 1.0)


def lstsq_back_a(a, b, z, zb, ab):
    m = a.shape[0]
    n = a.shape[1]
    columns = b.shape[1]
    x = z[:n, :columns]
    xb = zb[:n, :columns]
    inverse = z[:n, columns + 1 :]
    y = np.zeros((m, columns))
    _add(inverse.T, xb, y, 1.0)
    _add(y, x.T, ab, -1.0)
    if z[n, columns] < m:
        left = np.zeros((m, columns))
        _plus(b, left, 1.0)
        _add(a, x, left, -1.0)
        other = np.zeros((n, columns))
        _add(inverse, y, other, 1.0)
        _add(left, other.T, ab, 1.0)
    if z[n, columns] < n:
        again = np.zeros((m, columns))
        _add(inverse.T, x, again, 1.0)
        rest = np.zeros((n, columns))
        _plus(xb, rest, 1.0)
        _add(a.T, y, rest, -1.0)
        _add(again, rest.T, ab, 1.0)
    bar = zb[:n, columns + 1 :]
    read = False  # in the next order, by these derivatives
    for i in range(n):
        for j in range(m):
            read = read or bar[i, j] != 0.0
    if read:
        _inverse_back(a, inverse, bar, ab)


def _inverse_back(a, inverse, bar, ab):
    m = a.shape[0]
    n = a.shape[1]
    c = np.zeros((n, n))
    _add(inverse, bar.T, c, 1.0)
    _add(inverse.T, c.T, ab, -1.0)
    left = np.zeros((m, n))
    _plus(bar.T, left, 1.0)
    _add(a, c, left, -1.0)
    square = np.zeros((n, n))
    _add(inverse, inverse.T, square, 1.0)
    _add(left, square, ab, 1.0)
    there = np.zeros((n, n))
    _add(inverse, a, there, 1.0)
    rest = np.zeros((n, n))
    _plus(c, rest, 1.0)
    _add(c, there, rest, -1.0)
    _add(inverse.T, rest, ab, 1.0)


def lstsq_back_cut(a, b, z, zb, cutb):
    """A cut has none."""
    cutb[0, 0] += 0.0


def lstsq_along_b(a, b, z, bd, zd):
    n = a.shape[1]
    columns = b.shape[1]
    _add(z[:n, columns + 1 :], bd, zd[:n, :columns], 1.0)


def lstsq_along_a(a, b, z, ad, zd):
    m = a.shape[0]
    n = a.shape[1]
    columns = b.shape[1]
    x = z[:n, :columns]
    xd = zd[:n, :columns]
    inverse = z[:n, columns + 1 :]
    right = np.zeros((m, columns))
    _add(ad, x, right, -1.0)
    left = np.zeros((m, columns))
    _plus(b, left, 1.0)
    _add(a, x, left, -1.0)
    turned = np.zeros((n, columns))
    _add(ad.T, left, turned, 1.0)
    if z[n, columns] < m:
        _add(inverse.T, turned, right, 1.0)
    if z[n, columns] < n:
        again = np.zeros((m, columns))
        _add(inverse.T, x, again, 1.0)
        beyond = np.zeros((n, columns))
        _add(ad.T, again, beyond, 1.0)
        _plus(beyond, xd, 1.0)
        _add(a, beyond, right, -1.0)
    _add(inverse, right, xd, 1.0)
    _inverse_along(a, inverse, ad, zd[:n, columns + 1 :])


def _inverse_along(a, inverse, ad, moved):
    m = a.shape[0]
    n = a.shape[1]
    turned = np.zeros((n, n))
    _add(inverse, ad, turned, 1.0)
    _add(turned, inverse, moved, -1.0)
    square = np.zeros((n, n))
    _add(inverse, inverse.T, square, 1.0)
    left = np.zeros((n, m))
    _add(square, ad.T, left, 1.0)
    over = np.zeros((n, n))
    _add(left, a, over, 1.0)
    _add(over, inverse, left, -1.0)
    _plus(left, moved, 1.0)
    right = np.zeros((n, m))
    _add(turned.T, inverse, right, 1.0)
    _plus(right, moved, 1.0)
    there = np.zeros((n, n))
    _add(inverse, a, there, -1.0)
    _add(there, right, moved, 1.0)


def lstsq_along_cut(a, b, z, cutd, zd):
    """A cut has none."""
    zd[0, 0] += 0.0
