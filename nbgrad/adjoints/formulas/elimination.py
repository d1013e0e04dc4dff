"""Elimination: systems of equations, inverses, determinants."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from nbgrad.adjoints.formulas.shared import _add, _one, _plus

u = np.uintp


def _exchanged(m, k, p):
    for j in range(m.shape[1]):
        t = m[k, j]
        m[k, j] = m[p, j]
        m[p, j] = t


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
            _exchanged(m, k, p)
            _exchanged(right, k, p)
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            for j in range(k + 1, n):
                m[u(i), u(j)] -= f * m[u(k), u(j)]
            for j in range(right.shape[1]):
                right[u(i), j] -= f * right[u(k), j]
    return sign


def _substitute(m, right):
    n = len(m)
    for k in range(n - 1, -1, -1):
        for i in range(k + 1, n):
            t = m[k, i]
            for j in range(right.shape[1]):
                right[u(k), j] -= t * right[u(i), j]
        t = m[k, k]
        for j in range(right.shape[1]):
            right[k, j] /= t


def _solved(a, right, x):
    m = a.copy()
    _eliminate(m, right)
    _substitute(m, right)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = right[i, j]


def solve_into(a, b, x):
    _solved(a, b.copy(), x)


def solve_back_b(a, x, xb, bb):
    t = np.empty(xb.shape)
    solve_into(a.T, xb, t)
    _plus(t, bb, 1.0)


def solve_back_a(a, x, xb, ab):
    t = np.empty(xb.shape)
    solve_into(a.T, xb, t)
    _add(t, x.T, ab, -1.0)


def solve_along_b(a, x, bd, xd):
    t = np.empty(bd.shape)
    solve_into(a, bd, t)
    _plus(t, xd, 1.0)


def solve_along_a(a, x, ad, xd):
    t = np.empty(x.shape)
    moved = np.zeros(x.shape)
    _add(ad, x, moved, 1.0)
    solve_into(a, moved, t)
    _plus(t, xd, -1.0)


def inv_into(a, y):
    _solved(a, _one(len(a)), y)


def inv_back(y, yb, ab):
    t = np.zeros(y.shape)
    _add(y.T, yb, t, 1.0)
    _add(t, y.T, ab, -1.0)


def inv_along(y, ad, yd):
    t = np.zeros(y.shape)
    _add(y, ad, t, 1.0)
    _add(t, y, yd, -1.0)


def det_into(a, d):
    m = a.copy()
    product = _eliminate(m, np.empty((len(a), 0)))
    for k in range(len(m)):
        product *= m[k, k]
    d[0, 0] = product


_PIVOT = 1e-7  # of the largest: a matrix with less is taken as one that may have no inverse


def _of_inverse(a, c):
    """The derivative of the determinant by the inverse, if no pivot is small; no other is divided by, as zeros times infinities would
    come of it in the next order."""
    n = len(a)
    m = a.copy()
    x = _one(n)
    product = 1.0
    most = 0.0
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(m[i, k]) > abs(m[p, k]):
                p = i
        size = abs(m[p, k])
        most = size if size > most else most
        if not size > _PIVOT * most:
            return False
        if p != k:
            product = -product
            _exchanged(m, k, p)
            _exchanged(x, k, p)
        product *= m[k, k]
        for i in range(k + 1, n):
            f = m[i, k] / m[k, k]
            for j in range(k + 1, n):
                m[u(i), u(j)] -= f * m[u(k), u(j)]
            for j in range(n):
                x[u(i), j] -= f * x[u(k), j]
    _substitute(m, x)
    for i in range(n):
        for j in range(n):
            c[j, i] = product * x[i, j]
    return True


def _cofactors(a):
    """The derivative of the determinant, of matrices that have no inverse as well: by pivots from all of what is left, none of which is
    divided by where all is 0."""
    c = np.empty((len(a), len(a)))
    if not _of_inverse(a, c):
        _of_all_pivots(a, c)
    return c


def _of_all_pivots(a, c):
    n = len(a)
    m = a.copy()
    x = np.eye(n)
    columns = np.arange(n)
    sign = 1.0
    for k in range(n):
        p = k
        q = k
        for i in range(k, n):
            for j in range(k, n):
                if abs(m[u(i), u(j)]) > abs(m[u(p), u(q)]):
                    p = i
                    q = j
        if p != k:
            sign = -sign
            _exchanged(m, k, p)
            _exchanged(x, k, p)
        if q != k:
            sign = -sign
            for i in range(n):
                t = m[i, k]
                m[i, k] = m[i, q]
                m[i, q] = t
            at = columns[k]
            columns[k] = columns[q]
            columns[q] = at
        if m[k, k] != 0.0:
            for i in range(k + 1, n):
                f = m[i, k] / m[k, k]
                for j in range(k + 1, n):
                    m[u(i), u(j)] -= f * m[u(k), u(j)]
                for j in range(n):
                    x[u(i), j] -= f * x[u(k), j]
    for k in range(n - 1, -1, -1):
        others = sign
        for i in range(n):
            if i != k:
                others *= m[i, i]
        for j in range(n):
            x[k, j] *= others
        for i in range(k + 1, n):
            f = m[k, i] / m[k, k] if m[k, k] != 0.0 else 0.0
            for j in range(n):
                x[u(k), j] -= f * x[u(i), j]
    for k in range(n):
        for j in range(n):
            c[j, columns[k]] = x[k, j]


def det_back(a, db, ab):
    _plus(_cofactors(a), ab, db[0, 0])


def det_along(a, ad, dd):
    c = _cofactors(a)
    for i in range(len(a)):
        for j in range(len(a)):
            dd[0, 0] += c[i, j] * ad[i, j]


def slogdet_into(a, z):
    m = a.copy()
    z[0, 0] = _eliminate(m, np.empty((len(a), 0)))
    z[1, 0] = 0.0
    for k in range(len(m)):
        z[0, 0] *= np.sign(m[k, k])
        z[1, 0] += np.log(abs(m[k, k]))


def slogdet_back(a, zb, ab):
    y = np.empty(a.shape)
    inv_into(a, y)
    _plus(y.T, ab, zb[1, 0])


def slogdet_along(a, ad, zd):
    y = np.empty(a.shape)
    inv_into(a, y)
    for i in range(len(a)):
        for j in range(len(a)):
            zd[1, 0] += y[j, i] * ad[i, j]
